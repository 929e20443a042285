/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a kernel's persistent form on a GPU through the driver alone: evicts it at random times and resumes it with
 * another number of workers, until its last block has ended
 *
 * Of DetShare's device only the parameter and the control block (ptx/pass/forms.h) are involved, so the comparison
 * covers the passes and the GPU. A separate stream writes the stop word that workers read, as under DetShare.
 */
#pragma once

#include <time.h>

#include "ptx/pass/forms.h"
#include "tests/gpu/driver.h"

#define FORMS_GPU_WORKERS 96u /* number of workers: few, so that blocks are left when they are evicted */
#define FORMS_GPU_EVICTIONS 12

static struct {
        int (*stream)(void **, unsigned);
        int (*write)(void *, uint64_t, uint32_t, unsigned);
        int (*wait)(void *);
        void *runs, *tells;
        uint64_t control;
        uint32_t epoch;
} forms_gpu;

/* Loads further functions of the driver, after open_gpu(). Returns 0 if the driver lacks one. */
static inline int forms_gpu_open(void)
{
        static const struct {
                const char *name;
                void *where;
        } entries[] = {{"cuStreamCreate", &forms_gpu.stream}, {"cuStreamWriteValue32_v2", &forms_gpu.write},
                {"cuStreamSynchronize", &forms_gpu.wait}};
        void *library = dlopen("libcuda.so.1", RTLD_NOW);

        for (size_t i = 0; i < DS_ARRAY_SIZE(entries); i++) {
                void *symbol = library ? dlsym(library, entries[i].name) : NULL;

                if (!symbol)
                        return 0;
                memcpy(entries[i].where, &symbol, sizeof(symbol));
        }
        return !forms_gpu.stream(&forms_gpu.runs, 1) && !forms_gpu.stream(&forms_gpu.tells, 1) &&
               !cu.alloc(&forms_gpu.control, 4096);
}

static inline void forms_gpu_nap(uint32_t ns)
{
        struct timespec begin, now;

        clock_gettime(CLOCK_MONOTONIC, &begin);
        do
                clock_gettime(CLOCK_MONOTONIC, &now);
        while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < (long)ns);
}

/*
 * Runs the persistent form; args has room for one more argument after the kernel's n. Returns the driver's error; 0:
 * all blocks are done. *ret_evicted grows by the number of evictions with blocks left. *ret_wrong names an impossible
 * value in the control block.
 */
static inline int forms_gpu_run(void *function, const uint32_t grid[3], const uint32_t block[3], uint32_t shared,
        void **args, uint32_t n, uint64_t random, uint32_t *ret_evicted, const char **ret_wrong)
{
        struct ds_ptx_virtual v = {.control = forms_gpu.control,
                .grid = {grid[0], grid[1], grid[2]},
                .n_blocks = grid[0] * grid[1] * grid[2]};
        struct ds_ptx_control said = {.next = 0};
        uint32_t before = 0;
        int r;

        if (cu.to(forms_gpu.control, &said, sizeof(said)))
                return -1;
        args[n] = &v;
        for (int tries = 0;; tries++) {
                random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                v.epoch = ++forms_gpu.epoch;
                v.chunk = 1 + (random >> 60 & 3);
                r = cu.launch(function, 1 + (uint32_t)(random >> 33) % FORMS_GPU_WORKERS, 1, 1, block[0], block[1],
                        block[2], shared, forms_gpu.runs, args, NULL);
                if (!r && tries < FORMS_GPU_EVICTIONS) {
                        forms_gpu_nap((uint32_t)(random >> 20 & 0x3fff));
                        r = forms_gpu.write(
                                forms_gpu.tells, forms_gpu.control + offsetof(struct ds_ptx_control, stop), v.epoch, 0);
                }
                if (!r)
                        r = forms_gpu.wait(forms_gpu.runs);
                if (!r)
                        r = forms_gpu.wait(forms_gpu.tells);
                if (!r)
                        r = cu.from(&said, forms_gpu.control, sizeof(said));
                if (r)
                        return r;
                if (said.left)
                        *ret_wrong = "the count of workers that left is not zero at the start of a resumption";
                if (said.completed == v.epoch)
                        return 0;
                if (said.next < before || said.next >= v.n_blocks)
                        *ret_wrong = "evicted with an impossible block counter";
                if (tries > FORMS_GPU_EVICTIONS)
                        *ret_wrong = "evicted without a request";
                if (*ret_wrong)
                        return 0;
                *ret_evicted += 1;
                before = said.next;
        }
}
