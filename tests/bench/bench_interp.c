/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speed of the interpreter: lane instructions per second on one core, for kernels of the corpus
 *
 * usage: bench_interp [DIRECTORY of PTX, default build/ptx/sm_75] [SECONDS per kernel] [MODEL]
 *
 * With a model of the simulated GPU, such as h200, the interpreter reports memory accesses and the device's probe
 * analyses them. A lane instruction is one instruction executed by one thread; times are processor time. Warps of these
 * launches are full, so there are 32 lane instructions per warp instruction. Prints one line per kernel.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/sim/internal.h"
#include "ptx/interp/interp.h"
#include "ptx/ptx.h"
#include "util/macro.h"

#define BYTES (16u << 20)
#define MAX_ARGS 8

struct bench {
        const char *file, *kernel;
        uint32_t grid[3], block[3], shared;
        const char *args; /* p: the next megabyte of memory; digits: an int; f: the float 1 */
        double macs;      /* multiplications of a matrix product per launch; 0 for other kernels */
};

static const struct bench benches[] = {
        {"saxpy", "saxpy", {256, 1, 1}, {256, 1, 1}, 0, "65536 f p p", 0},
        {"gemm", "gemm_naive", {8, 8, 1}, {16, 16, 1}, 0, "128 128 128 p p p", 0},
        {"gemm", "gemm_tiled", {8, 8, 1}, {16, 16, 1}, 0, "128 128 128 p p p", 0},
        {"gemm", "gemm_register", {2, 2, 1}, {16, 16, 1}, 0, "128 128 128 p p p", 0},
        {"grid3d", "stencil7", {2, 16, 16}, {32, 4, 4}, 0, "p p 64 64 64", 0},
        {"conv", "conv3x3", {4, 8, 8}, {16, 8, 1}, 0, "p p p p 8 64 64", 0},
        {"reduce", "reduce_shuffle", {32, 1, 1}, {256, 1, 1}, 0, "p p 65536", 0},
        {"softmax", "softmax_block", {64, 1, 1}, {256, 1, 1}, 0, "p p 1024", 0},
        {"gelu", "gelu_tanh", {256, 1, 1}, {256, 1, 1}, 0, "p p 65536", 0},
        {"histogram", "histogram_shared", {16, 1, 1}, {256, 1, 1}, 0, "p p 65536", 0},
        {"transpose", "transpose_tiled", {8, 8, 1}, {32, 8, 1}, 0, "p p 256 256", 0},
        {"../sm_90/mma_gemm", "mma_gemm_f16", {2, 2, 1}, {128, 1, 1}, 0, "p p p 128 128 512", 128.0 * 128 * 512},
        {"../sm_90/mma_gemm", "mma_gemm_s8", {16, 8, 1}, {32, 1, 1}, 0, "p p p 128 512", 128.0 * 128 * 512},
        {"../sm_90/mma_gemm", "mma_gemm_tf32", {16, 8, 1}, {32, 1, 1}, 0, "p p p 128 512", 128.0 * 128 * 512},
        {"../sm_90/wmma_gemm", "wmma_gemm_s8", {8, 8, 1}, {32, 1, 1}, 0, "p p p 128 512", 128.0 * 128 * 512},
        {"diverge", "diverge_collatz", {64, 1, 1}, {256, 1, 1}, 0, "p p 16384", 0},
};

static struct sim_probe *probe;

static double now(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static char *read_file(const char *directory, const char *name, size_t *length)
{
        char path[4096];
        FILE *f;
        char *text = NULL;
        long size;

        (void)snprintf(path, sizeof(path), "%s/%s.ptx", directory, name);
        f = fopen(path, "rb");
        if (!f)
                return NULL;
        if (fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) > 0 && fseek(f, 0, SEEK_SET) == 0) {
                text = malloc((size_t)size);
                if (text && fread(text, 1, (size_t)size, f) != (size_t)size)
                        text[0] = 0;
                *length = (size_t)size;
        }
        fclose(f);
        return text;
}

/* Packs the arguments that b->args describes. */
static void pack(const struct bench *b, const struct ds_interp_kernel_info *info, uint8_t *memory, uint8_t *params)
{
        const char *p = b->args;
        uint64_t next = (uintptr_t)memory;

        for (uint32_t k = 0; k < info->n_params; k++) {
                uint8_t *to = params + info->params[k].offset;
                float one = 1.0f;
                int number;

                while (*p == ' ')
                        p++;
                if (*p == 'p') {
                        memcpy(to, &next, 8);
                        next += 1u << 20;
                        p++;
                } else if (*p == 'f') {
                        memcpy(to, &one, 4);
                        p++;
                } else {
                        number = (int)strtol(p, (char **)&p, 10);
                        memcpy(to, &number, 4);
                }
        }
}

/* Fills the memory with numbers that are small and positive as floats and ints; as halves at least every other one
 * is. */
static void fill(uint8_t *memory)
{
        for (size_t i = 0; i < BYTES; i += 4) {
                uint32_t word = 0x3f000000u + ((uint32_t)i * 2654435761u >> 12);

                memcpy(memory + i, &(uint32_t){word & ~0x4000u}, 4);
        }
}

/* Runs one launch. Returns the number of warp instructions, 0 after a fault. */
static uint64_t launch(ds_interp_block *work, const struct ds_interp_launch *l)
{
        struct ds_interp_result result;
        uint64_t instructions = 0;

        for (uint32_t z = 0; z < l->grid[2]; z++) {
                for (uint32_t y = 0; y < l->grid[1]; y++) {
                        for (uint32_t x = 0; x < l->grid[0]; x++) {
                                if (ds_interp_run_block(work, l, x, y, z, &result) || result.fault) {
                                        (void)fprintf(stderr, "fault: %s\n", result.message);
                                        return 0;
                                }
                                instructions += result.cost.instructions;
                        }
                }
        }
        return instructions;
}

static int run(const struct bench *b, const ds_interp *interp, ds_interp_block *work, uint8_t *memory, double seconds)
{
        struct ds_interp_range range = {.va = (uintptr_t)memory, .size = BYTES};
        uint8_t params[256] = {0};
        struct ds_interp_launch l = {
                .kernel = ds_interp_find_kernel(interp, b->kernel),
                .dynamic_shared = b->shared,
                .params = params,
                .params_size = sizeof(params),
                .ranges = &range,
                .n_ranges = 1,
                .memory = probe ? sim_probe_memory : NULL,
                .memory_user = probe,
        };
        uint64_t instructions = 0, once, launches = 0;
        double start;

        if (!l.kernel)
                return 1;
        fill(memory);
        memcpy(l.grid, b->grid, sizeof(l.grid));
        memcpy(l.block, b->block, sizeof(l.block));
        pack(b, ds_interp_kernel_info(l.kernel), memory, params);
        start = now();
        do {
                if (probe)
                        sim_probe_begin(probe);
                once = launch(work, &l);
                instructions += once;
                launches++;
        } while (once && now() - start < seconds);
        double took = now() - start, rate = (double)instructions * 32 / took;

        printf("%-18s %8.0f M lane-instructions/s  %6.2f ns per warp instruction", b->kernel, rate / 1e6, 32e9 / rate);
        if (b->macs > 0)
                printf("  %8.0f M multiply-adds/s", b->macs * (double)launches / took / 1e6);
        printf("\n");
        return once ? 0 : 1;
}

static int run_file(
        const struct bench *b, const char *directory, ds_interp_block *work, uint8_t *memory, double seconds)
{
        static struct ds_ptx_diags diags;
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;
        size_t length = 0;
        char *text = read_file(directory, b->file, &length);
        int r = text ? ds_ptx_parse(text, length, 0, &diags, &module) : -ENOENT;

        if (!r)
                r = ds_interp_new(module, &diags, &interp);
        if (!r)
                r = run(b, interp, work, memory, seconds);
        else
                (void)fprintf(stderr, "%s/%s.ptx: cannot be loaded (%d)\n", directory, b->file, r);
        free(text);
        return r;
}

int main(int argc, char **argv)
{
        const char *directory = argc > 1 ? argv[1] : "build/ptx/sm_75";
        double seconds = argc > 2 ? strtod(argv[2], NULL) : 0.5;
        ds_cleanup(ds_interp_block_freep) ds_interp_block *work = ds_interp_block_new();
        uint8_t *memory = aligned_alloc(4096, BYTES);
        int failed = 0;

        if (argc > 3 && sim_model_find(argv[3], strlen(argv[3])))
                probe = sim_probe_new(sim_model_find(argv[3], strlen(argv[3])));
        if (!work || !memory || (argc > 3 && !probe))
                return 1;
        for (size_t k = 0; k < sizeof(benches) / sizeof(benches[0]); k++)
                failed |= run_file(&benches[k], directory, work, memory, seconds);
        free(memory);
        sim_probe_free(probe);
        return failed ? 1 : 0;
}
