/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rig to run kernels in the interpreter: a module from a file of the corpus or from text, device memory with gaps
 * between allocations, so that accesses out of bounds are detected, launches in grid order or in a permuted order of
 * blocks
 *
 * With RIG_GPU the same kernels run on a GPU (interp_gpu.h), and tests of faults or costs are skipped. Every function
 * asserts: a rig that cannot be built is a failed test. rig_for_all runs a body for each target of the corpus and for
 * both orders, with the original kernels and with all passes applied. With passes the block index comes from an array
 * and ended blocks are counted.
 */
#pragma once

#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ptx/interp/interp.h"
#include "ptx/interp/order.h"
#include "ptx/pass/pass.h"
#include "ptx/ptx.h"
#include "tests/unit/rounds.h"

#ifdef RIG_GPU
#include "tests/support/interp_gpu.h"
#define RIG_ON_GPU 1
#else
#define RIG_ON_GPU 0
#endif

#define RIG_RANGES 32
#define RIG_MEMORY (64u << 20)

struct rig {
        ds_ptx_module *module;
        ds_interp *interp;
        ds_interp_block *work;
        uint8_t *memory;
        size_t used;
        struct ds_interp_range range[RIG_RANGES];
        size_t n_ranges;
        uint32_t seed; /* seed of the order of blocks, or clusters; 0: they run in order */
        uint32_t cluster[3];
        uint64_t max_instructions;
        const _Atomic uint32_t *abort;
        struct ds_interp_cost cost; /* cost of the last launch */
        uint32_t *order;            /* order of blocks, for kernels that read their index from this array */
#ifdef RIG_GPU
        struct rig_gpu gpu;
#endif
};

typedef struct {
        uint32_t x, y, z;
} rig_dim;

#define RIG_DIM1(a) ((rig_dim){(uint32_t)(a), 1, 1})
#define RIG_DIM2(a, b) ((rig_dim){(uint32_t)(a), (uint32_t)(b), 1})
#define RIG_DIM3(a, b, c) ((rig_dim){(uint32_t)(a), (uint32_t)(b), (uint32_t)(c)})
#define RIG_ARGS(...) ((const void *[]){__VA_ARGS__, NULL})
#define RIG_NEAR(a, b, tolerance) (fabs((double)(a) - (double)(b)) <= (tolerance) * (1.0 + fabs((double)(b))))

#define RIG_PASSES "strip-debug,dce,block-order,count-blocks,rename"
#define RIG_ORDER 65536             /* number of entries of r->order */
static const char *rig_passes = ""; /* passes applied to modules when they are opened */

static inline void rig_transform(struct rig *r, struct ds_ptx_diags *diags, char *said, size_t size)
{
        for (const char *p = rig_passes; *p; p += strcspn(p, ","), p += *p == ',') {
                const struct ds_ptx_pass *pass = ds_ptx_pass_find(p, strcspn(p, ","));
                struct ds_ptx_outcome *outcome = calloc(r->module->n_functions + 1, sizeof(*outcome));
                ds_ptx_module *after = NULL;
                int result;

                cr_assert(pass && outcome);
                result = ds_ptx_pass_apply(pass, r->module, NULL, 0, outcome, diags, &after);
                if (result)
                        (void)ds_ptx_diags_format(diags, pass->name, said, size);
                cr_assert(result == 0, "%s: %s", pass->name, said);
                ds_ptx_module_free(r->module);
                r->module = after;
                free(outcome);
        }
}

static inline void rig_open(struct rig *r, const char *name, const char *text, size_t length)
{
        static struct ds_ptx_diags diags;
        static char said[16384];
        int result;

        diags.n = diags.total = 0;
        result = ds_ptx_parse(text, length, 0, &diags, &r->module);
        if (result)
                (void)ds_ptx_diags_format(&diags, name, said, sizeof(said));
        cr_assert(result == 0, "%s does not parse: %s", name, said);
        rig_transform(r, &diags, said, sizeof(said));
        result = ds_interp_new(r->module, &diags, &r->interp);
        if (result)
                (void)ds_ptx_diags_format(&diags, name, said, sizeof(said));
        cr_assert(result == 0, "%s does not load: %s", name, said);
        r->work = ds_interp_block_new();
        r->memory = aligned_alloc(4096, RIG_MEMORY);
        cr_assert(r->work && r->memory, "out of memory");
        memset(r->memory, 0xa5, 1 << 20);
#ifdef RIG_GPU
        rig_gpu_open(&r->gpu, text, RIG_MEMORY);
#endif
}

static inline void rig_close(struct rig *r)
{
#ifdef RIG_GPU
        rig_gpu_close(&r->gpu);
#endif
        ds_interp_free(r->interp);
        ds_ptx_module_free(r->module);
        ds_interp_block_free(r->work);
        free(r->memory);
        memset(r, 0, sizeof(*r));
}

static inline void rig_text(struct rig *r, const char *text)
{
        memset(r, 0, sizeof(*r));
        rig_open(r, "text", text, strlen(text));
}

/* Files of PTX are relative to the test program: BUILD/tests/unit/x reads BUILD/ptx/ARCH/NAME.ptx. */
static inline char *rig_read(const char *arch, const char *name, size_t *length)
{
        char path[4096], *cut, *text;
        ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 128);
        FILE *f;
        long size = 0;

        cr_assert(n > 0, "who am I?");
        path[n] = 0;
        for (int up = 0; up < 3 && (cut = strrchr(path, '/')); up++)
                *cut = 0;
        (void)snprintf(path + strlen(path), 128, "/ptx/%s/%s.ptx", arch, name);
        f = fopen(path, "rb");
        cr_assert(f, "no %s (make kernels)", path);
        cr_assert(fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) > 0 && fseek(f, 0, SEEK_SET) == 0);
        text = malloc((size_t)size + 1);
        cr_assert(text && fread(text, 1, (size_t)size, f) == (size_t)size);
        fclose(f);
        text[size] = 0;
        *length = (size_t)size;
        return text;
}

static inline void rig_file(struct rig *r, const char *arch, const char *name)
{
        size_t length;
        char *text = rig_read(arch, name, &length);

        memset(r, 0, sizeof(*r));
        rig_open(r, name, text, length);
        free(text);
}

/* Allocates zeroed device memory. */
static inline void *rig_alloc(struct rig *r, size_t bytes)
{
        uint8_t *p = r->memory + r->used;

        cr_assert(r->n_ranges < RIG_RANGES && r->used + bytes + 512 < RIG_MEMORY, "rig is full");
        memset(p, 0, bytes);
        r->range[r->n_ranges++] = (struct ds_interp_range){.va = (uintptr_t)p, .size = bytes};
        r->used += (bytes + 511) & ~(size_t)255;
        return p;
}

static inline void *rig_copy(struct rig *r, const void *from, size_t bytes)
{
        return memcpy(rig_alloc(r, bytes), from, bytes);
}

static inline uint32_t rig_random(uint32_t *state)
{
        *state ^= *state << 13;
        *state ^= *state >> 17;
        *state ^= *state << 5;
        return *state;
}

static inline void rig_add_cost(struct ds_interp_cost *to, const struct ds_interp_cost *from)
{
        to->instructions += from->instructions;
        to->memory_instructions += from->memory_instructions;
        to->sectors += from->sectors;
        to->shared_instructions += from->shared_instructions;
        to->special_instructions += from->special_instructions;
        to->tensor_instructions += from->tensor_instructions;
        to->barriers += from->barriers;
        to->critical_path += from->critical_path;
}

static inline void rig_pack(const struct ds_interp_kernel_info *info, const void **args, uint8_t *params)
{
        memset(params, 0, info->params_size);
        for (uint32_t k = 0; k < info->n_params; k++) {
                cr_assert(args[k], "%s has %u parameters", info->name, info->n_params);
                memcpy(params + info->params[k].offset, args[k], info->params[k].size);
        }
}

/* Runs one cluster, or one block without clusters. Returns its first fault, or its last block's result. */
static inline struct ds_interp_result rig_cluster(struct rig *r, const struct ds_interp_launch *launch, uint32_t number)
{
        struct ds_interp_result results[DS_INTERP_CLUSTER_MAX];
        uint32_t n = ds_interp_cluster_blocks(launch), at[3];
        int e;

        for (int i = 0; i < 3; i++) {
                uint32_t dim = launch->cluster[i] ? launch->cluster[i] : 1, clusters = launch->grid[i] / dim;

                at[i] = number % clusters * dim;
                number /= clusters;
        }
        if (n == 1)
                e = ds_interp_run_block(r->work, launch, at[0], at[1], at[2], results);
        else
                e = ds_interp_run_cluster(r->work, launch, at[0], at[1], at[2], results);
        cr_assert(e == 0, "run_cluster: %d", e);
        for (uint32_t i = 0; i < n; i++)
                rig_add_cost(&r->cost, &results[i].cost);
        for (uint32_t i = 0; i < n; i++)
                if (results[i].fault)
                        return results[i];
        return results[n - 1];
}

/* Address of a variable that a pass has added; NULL if the module has none. */
static inline uint64_t *rig_pass_variable(struct rig *r, const char *name, uint64_t *ret_size)
{
        uint64_t va = 0;

        return *rig_passes && ds_interp_find_global(r->interp, name, &va, ret_size) == 0 ? (uint64_t *)(uintptr_t)va
                                                                                         : NULL;
}

/* Sets a permuted order of blocks by the pass block-order: blocks start in grid order and read their index from an
 * array. */
static inline void rig_set_order(struct rig *r, uint32_t n)
{
        uint64_t size, *variable = rig_pass_variable(r, "ds_block_order", &size);
        struct ds_interp_order order;

        if (!variable || RIG_ON_GPU)
                return;
        if (!r->order)
                r->order = rig_alloc(r, RIG_ORDER * sizeof(*r->order));
        *variable = n <= RIG_ORDER ? (uintptr_t)r->order : 0;
        ds_interp_order_init(&order, n, 77, 0);
        for (uint32_t i = 0; i < n && n <= RIG_ORDER; i++)
                r->order[i] = (uint32_t)ds_interp_order_at(&order, i);
}

/* Number of ended blocks that the pass count-blocks has counted, of all kernels; 0 without the pass. */
static inline uint64_t rig_counted(struct rig *r)
{
        uint64_t size = 0, sum = 0, *counters = rig_pass_variable(r, "ds_blocks_ended", &size);

        for (uint64_t i = 0; counters && i < size / sizeof(*counters); i++)
                sum += counters[i];
        return sum;
}

/* Runs all blocks until one faults. Returns the last block's result. */
static inline struct ds_interp_result rig_launch(
        struct rig *r, const char *kernel, rig_dim grid, rig_dim block, uint32_t dynamic_shared, const void **args)
{
        static uint8_t params[65536];
        struct ds_interp_result result = {.fault = DS_INTERP_OK};
        struct ds_interp_launch launch = {
                .kernel = ds_interp_find_kernel(r->interp, kernel),
                .grid = {grid.x, grid.y, grid.z},
                .block = {block.x, block.y, block.z},
                .cluster = {r->cluster[0], r->cluster[1], r->cluster[2]},
                .dynamic_shared = dynamic_shared,
                .params = params,
                .ranges = r->range,
                .n_ranges = r->n_ranges,
                .max_instructions = r->max_instructions,
                .abort = r->abort,
                .clock_ns = 1000,
                .sm_id = 3,
                .n_sms = 10,
        };
        uint32_t n = grid.x * grid.y * grid.z / ds_interp_cluster_blocks(&launch), state = r->seed;
        uint32_t *order = malloc(n * sizeof(*order)), blocks = grid.x * grid.y * grid.z;
        uint64_t counted = rig_counted(r), size;

        cr_assert(launch.kernel, "no kernel %s", kernel);
        launch.params_size = ds_interp_kernel_info(launch.kernel)->params_size;
        rig_pack(ds_interp_kernel_info(launch.kernel), args, params);
        memset(&r->cost, 0, sizeof(r->cost));
        rig_set_order(r, blocks);
        launch.n_ranges = r->n_ranges;
#ifdef RIG_GPU
        rig_gpu_launch(&r->gpu, kernel, launch.grid, launch.block, dynamic_shared, params, launch.params_size,
                r->memory, r->used);
        n = 0;
#endif
        for (uint32_t i = 0; i < n; i++)
                order[i] = i;
        for (uint32_t i = n; r->seed && i > 1; i--) {
                uint32_t k = rig_random(&state) % i, t = order[k];

                order[k] = order[i - 1];
                order[i - 1] = t;
        }
        for (uint32_t i = 0; i < n && !result.fault; i++)
                result = rig_cluster(r, &launch, order[i]);
        free(order);
        if (!result.fault && !RIG_ON_GPU && rig_pass_variable(r, "ds_blocks_ended", &size))
                cr_assert(rig_counted(r) - counted == blocks, "%s: %u blocks, %u ended", kernel, blocks,
                        (unsigned)(rig_counted(r) - counted));
        return result;
}

/* Writes a variable of the module. */
static inline void rig_write(struct rig *r, const char *name, const void *from, size_t size)
{
        uint64_t va = 0, bytes = 0;

        cr_assert(ds_interp_find_global(r->interp, name, &va, &bytes) == 0 && bytes >= size);
        memcpy((void *)(uintptr_t)va, from, size);
#ifdef RIG_GPU
        rig_gpu_write(&r->gpu, name, from, size);
#endif
}

/* Runs a launch that must succeed. */
static inline void rig_run(
        struct rig *r, const char *kernel, rig_dim grid, rig_dim block, uint32_t dynamic_shared, const void **args)
{
        struct ds_interp_result result = rig_launch(r, kernel, grid, block, dynamic_shared, args);

        cr_assert(result.fault == DS_INTERP_OK, "%s faults (%d) at line %u: %s", kernel, result.fault, result.line,
                result.message);
}

/*
 * Runs body(struct rig *) with the file for every target and order, without and with passes. In short and sanitized
 * runs only half of these eight combinations, in which each pair of choices occurs.
 */
static inline void rig_for_all(const char *name, void (*body)(struct rig *))
{
        static const char *const archs[] = {"sm_75", "sm_90"};

        for (int k = 0; k < 8; k++) {
                struct rig r;

                if (ROUNDS_SANITIZED && !rounds_are_all() && __builtin_parity((unsigned)k))
                        continue;
                rig_passes = k & 4 ? RIG_PASSES : "";
                rig_file(&r, archs[k & 1], name);
                r.seed = k & 2 ? 12345 : 0;
                body(&r);
                rig_close(&r);
        }
        rig_passes = "";
}

/* Test numbers: floats in [-scale, scale). */
static inline float *rig_floats(struct rig *r, size_t n, float scale, uint32_t seed)
{
        float *p = rig_alloc(r, n * sizeof(*p));

        for (size_t i = 0; i < n; i++)
                p[i] = ((float)(rig_random(&seed) >> 8) / 8388608.0f - 1.0f) * scale;
        return p;
}

static inline uint32_t *rig_words(struct rig *r, size_t n, uint32_t seed)
{
        uint32_t *p = rig_alloc(r, n * sizeof(*p));

        for (size_t i = 0; i < n; i++)
                p[i] = rig_random(&seed);
        return p;
}
