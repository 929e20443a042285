/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the rig's kernels on a real GPU (built with RIG_GPU), which proves that the references of the interpreter's
 * tests are right
 *
 * The rig's memory is copied to the device before each launch and back afterwards; pointers in the parameters are
 * translated.
 */
#pragma once

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

struct rig_gpu {
        void *module;
        uint64_t memory;
};

static struct {
        int (*init)(unsigned);
        int (*device)(int *, int);
        int (*retain)(void **, int);
        int (*current)(void *);
        int (*alloc)(uint64_t *, size_t);
        int (*release)(uint64_t);
        int (*to)(uint64_t, const void *, size_t);
        int (*from)(void *, uint64_t, size_t);
        int (*load)(void **, const void *);
        int (*unload)(void *);
        int (*function)(void **, void *, const char *);
        int (*global)(uint64_t *, size_t *, void *, const char *);
        int (*launch)(
                void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
        int (*synchronize)(void);
} rig_cu;

static inline void rig_gpu_start(void)
{
        static const struct {
                const char *name;
                void *where;
        } entries[] = {{"cuInit", &rig_cu.init}, {"cuDeviceGet", &rig_cu.device},
                {"cuDevicePrimaryCtxRetain", &rig_cu.retain}, {"cuCtxSetCurrent", &rig_cu.current},
                {"cuMemAlloc_v2", &rig_cu.alloc}, {"cuMemFree_v2", &rig_cu.release}, {"cuMemcpyHtoD_v2", &rig_cu.to},
                {"cuMemcpyDtoH_v2", &rig_cu.from}, {"cuModuleLoadData", &rig_cu.load},
                {"cuModuleUnload", &rig_cu.unload}, {"cuModuleGetFunction", &rig_cu.function},
                {"cuModuleGetGlobal_v2", &rig_cu.global}, {"cuLaunchKernel", &rig_cu.launch},
                {"cuCtxSynchronize", &rig_cu.synchronize}};
        void *library, *context = NULL;
        int device = 0;

        if (rig_cu.init)
                return;
        library = dlopen("libcuda.so.1", RTLD_NOW);
        cr_assert(library, "no driver");
        for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
                void *symbol = dlsym(library, entries[i].name);

                cr_assert(symbol, "no %s", entries[i].name);
                memcpy(entries[i].where, &symbol, sizeof(symbol));
        }
        cr_assert(!rig_cu.init(0) && !rig_cu.device(&device, 0) && !rig_cu.retain(&context, device) &&
                  !rig_cu.current(context));
}

static inline void rig_gpu_open(struct rig_gpu *g, const char *text, size_t size)
{
        rig_gpu_start();
        cr_assert(rig_cu.load(&g->module, text) == 0, "the GPU does not take the module");
        cr_assert(rig_cu.alloc(&g->memory, size) == 0);
}

static inline void rig_gpu_close(struct rig_gpu *g)
{
        (void)rig_cu.unload(g->module);
        (void)rig_cu.release(g->memory);
}

static inline void rig_gpu_write(struct rig_gpu *g, const char *name, const void *from, size_t size)
{
        uint64_t address = 0;
        size_t bytes = 0;

        cr_assert(rig_cu.global(&address, &bytes, g->module, name) == 0 && bytes >= size &&
                  rig_cu.to(address, from, size) == 0);
}

static inline void rig_gpu_launch(struct rig_gpu *g, const char *name, const uint32_t *grid, const uint32_t *block,
        uint32_t shared, uint8_t *params, size_t params_size, uint8_t *memory, size_t size)
{
        void *function = NULL, *extra[] = {(void *)1, params, (void *)2, &params_size, NULL};

        for (size_t i = 0; i + 8 <= params_size; i += 8) {
                uint64_t word;

                memcpy(&word, params + i, 8);
                if (word < (uintptr_t)memory || word >= (uintptr_t)memory + size)
                        continue;
                word = word - (uintptr_t)memory + g->memory;
                memcpy(params + i, &word, 8);
        }
        cr_assert(rig_cu.to(g->memory, memory, size) == 0 && rig_cu.function(&function, g->module, name) == 0);
        cr_assert(rig_cu.launch(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, NULL, NULL,
                          params_size ? extra : NULL) == 0,
                "%s cannot be launched", name);
        cr_assert(rig_cu.synchronize() == 0, "%s fails", name);
        cr_assert(rig_cu.from(memory, g->memory, size) == 0);
}
