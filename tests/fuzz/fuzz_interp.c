/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution of PTX text
 *
 * Every module that parses is decoded, and its kernels run within a budget of instructions. They may access one area of
 * memory at a fixed address between two inaccessible pages; any other access ends the process.
 */
#include "ptx/interp/interp.h"
#include "ptx/ptx.h"
#include "tests/fuzz/fuzz.h"

#define KERNELS_MAX 4
#define BUDGET 4000
#define MEMORY_AT ((uintptr_t)0x2a0000000000)
#define MEMORY_BYTES ((size_t)64 << 10)
#define ARENA_MAX DS_MIB(64)
#define VARIABLES_MAX DS_MIB(64) /* limit of this target; the helper counts larger variables towards the user's limit */

/* Parameters of 8 bytes point into the memory; the others are small numbers. */
static void *make_params(const struct ds_interp_kernel_info *info, const uint8_t *memory)
{
        uint8_t *params = calloc(1, info->params_size + (size_t)1);

        FUZZ_CHECK(params);
        for (uint32_t i = 0; i < info->n_params; i++) {
                uint32_t size = info->params[i].size;
                uint64_t value = size == 8 ? (uintptr_t)memory + i * 4096 % MEMORY_BYTES : i * 7 + 3;

                FUZZ_CHECK((uint64_t)info->params[i].offset + size <= info->params_size);
                memcpy(params + info->params[i].offset, &value, DS_MIN(size, 8u));
        }
        return params;
}

static void count(void *user, int to_stderr, const char *text, size_t size)
{
        size_t *printed = user;

        FUZZ_CHECK(size == 0 || memchr(text, text[size - 1], size));
        *printed += size;
}

/* cluster: number of blocks that run together */
static void run_kernel(const ds_interp_kernel *kernel, ds_interp_block *work, uint8_t *memory, uint32_t cluster)
{
        const struct ds_interp_kernel_info *info = ds_interp_kernel_info(kernel);
        const struct ds_interp_range range = {.va = (uintptr_t)memory, .size = MEMORY_BYTES};
        size_t printed = 0;
        struct ds_interp_launch launch = {
                .kernel = kernel,
                .grid = {2, 1, 1},
                .block = {DS_MIN(info->max_threads, 40u), 1, 1},
                .cluster = {cluster, 1, 1},
                .dynamic_shared = 512,
                .params = make_params(info, memory),
                .params_size = info->params_size,
                .ranges = &range,
                .n_ranges = 1,
                .max_instructions = BUDGET,
                .print = count,
                .print_user = &printed,
                .n_sms = 1,
        };
        struct ds_interp_result results[2];
        uint64_t instructions = 0;

        if (launch.block[0] && info->static_shared <= DS_KIB(227) &&
                ds_interp_run_cluster(work, &launch, 2 - cluster, 0, 0, results) == 0) {
                for (uint32_t i = 0; i < cluster; i++) {
                        FUZZ_CHECK(results[i].fault >= 0 && results[i].fault < _DS_INTERP_FAULT_MAX);
                        FUZZ_CHECK(!results[i].fault || results[i].message[0]);
                        instructions += results[i].cost.instructions;
                }
                /* Each warp takes a slice of the remaining budget and stops at the end of a basic block. */
                FUZZ_CHECK(instructions <= cluster * (4 * BUDGET + 65536));
        }
        free((void *)launch.params);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;
        ds_cleanup(ds_interp_block_freep) ds_interp_block *work = NULL;
        static struct ds_ptx_diags diags;
        const ds_interp_kernel *kernel;
        uint8_t *memory;

        if (ds_ptx_parse((const char *)data, size, ARENA_MAX, &diags, &module))
                return 0;
        if (ds_ptx_variable_bytes(module) > VARIABLES_MAX)
                return 0;
        diags.n = diags.total = 0;
        if (ds_interp_new(module, &diags, &interp)) {
                FUZZ_CHECK(diags.n > 0);
                return 0;
        }
        memory = fuzz_memory(MEMORY_AT, MEMORY_BYTES);
        work = ds_interp_block_new();
        FUZZ_CHECK(work);
        for (size_t i = 0; i < KERNELS_MAX && (kernel = ds_interp_kernel_at(interp, i)); i++)
                run_kernel(kernel, work, memory, 1 + (size & 1));
        return 0;
}
