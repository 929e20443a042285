/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX text through every pass
 *
 * A pass's output for any valid module parses, and prints the same a second time. No pass crashes, or needs more than a
 * few times the memory. Kernels that end without error have the same effect on memory after the pass, to the bit: the
 * interpreter runs them before and after, at one address.
 */
#include <errno.h>

#include "ptx/interp/interp.h"
#include "ptx/pass/colour.h"
#include "ptx/pass/pass.h"
#include "tests/fuzz/fuzz.h"

#define LIMIT DS_MIB(48)
#define BUDGET 4000
#define MEMORY_AT ((uintptr_t)0x2b0000000000)
#define MEMORY_BYTES ((size_t)16 << 10)
#define UNEQUAL                                                                                                \
        (DS_PTX_FACTS_TALK | 1u << DS_PTX_FACT_CLOCK | 1u << DS_PTX_FACT_VARIABLES | 1u << DS_PTX_FACT_PLACE | \
                1u << DS_PTX_FACT_REFUSED)

/* Runs the module's kernel of that name. Returns true if it ended without error. */
static bool run(const ds_ptx_module *module, const char *name, ds_interp_block *work, uint8_t *memory)
{
        ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;
        static struct ds_ptx_diags diags;
        static uint8_t params[32768 + 16];
        const struct ds_interp_range range = {.va = (uintptr_t)memory, .size = MEMORY_BYTES};
        struct ds_interp_launch launch = {.grid = {2, 1, 1},
                .params = params,
                .ranges = &range,
                .n_ranges = 1,
                .max_instructions = BUDGET,
                .n_sms = 1};
        const struct ds_interp_kernel_info *info;
        struct ds_interp_result result;

        if (ds_interp_new(module, &diags, &interp) || !(launch.kernel = ds_interp_find_kernel(interp, name)))
                return false;
        info = ds_interp_kernel_info(launch.kernel);
        launch.block[0] = DS_MIN(info->max_threads, 40u);
        launch.block[1] = launch.block[2] = 1;
        launch.params_size = info->params_size;
        for (uint32_t i = 0; i < info->n_params; i++) {
                uint64_t value = info->params[i].size == 8 ? (uintptr_t)memory + i * 512 % MEMORY_BYTES : i * 7 + 3;
                const struct ds_ptx_colour in_place = {0};

                if (info->params[i].size == sizeof(in_place))
                        memcpy(params + info->params[i].offset, &in_place, sizeof(in_place));
                else
                        memcpy(params + info->params[i].offset, &value, DS_MIN(info->params[i].size, 8u));
        }
        return launch.block[0] && info->static_shared <= DS_KIB(64) &&
               ds_interp_run_block(work, &launch, 1, 0, 0, &result) == 0 && !result.fault;
}

static void same_results(
        const ds_ptx_module *before, const ds_ptx_module *after, const struct ds_ptx_facts *facts, const char *pass)
{
        static uint8_t found[MEMORY_BYTES];
        ds_cleanup(ds_interp_block_freep) ds_interp_block *work = NULL;

        if (ds_ptx_variable_bytes(before) > DS_MIB(1) || before->n_vars)
                return;
        for (uint32_t i = 0; i < before->n_functions && i < 8; i++) {
                const struct ds_ptx_function *f = before->functions[i];
                uint8_t *memory;

                if (!f->is_entry || !f->has_body || facts[i].mask & UNEQUAL)
                        continue;
                if (!work)
                        work = ds_interp_block_new();
                FUZZ_CHECK(work);
                memory = fuzz_memory(MEMORY_AT, MEMORY_BYTES);
                if (!run(before, f->name, work, memory))
                        continue;
                memcpy(found, memory, sizeof(found));
                memory = fuzz_memory(MEMORY_AT, MEMORY_BYTES);
                /* the kernel may not end after the pass, because added instructions may exceed the budget */
                if (run(after, f->name, work, memory) && memcmp(found, memory, sizeof(found)) != 0) {
                        fprintf(stderr, "%s changed what %s does\n", pass, f->name);
                        FUZZ_CHECK(!"the pass does not change results");
                }
        }
}

static char *print(const ds_ptx_module *module, size_t *ret_length)
{
        char *out = NULL;
        FILE *stream = open_memstream(&out, ret_length);

        FUZZ_CHECK(stream && ds_ptx_print(module, stream) == 0);
        fclose(stream);
        return out;
}

static void prints_again(const ds_ptx_module *module)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *again = NULL;
        static struct ds_ptx_diags diags;
        size_t n_once, n_twice;
        char *once = print(module, &n_once), *twice;

        FUZZ_CHECK(ds_ptx_parse(once, n_once, 8 * LIMIT, &diags, &again) == 0);
        twice = print(again, &n_twice);
        FUZZ_CHECK(n_once == n_twice && memcmp(once, twice, n_once) == 0);
        free(once);
        free(twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        static struct ds_ptx_diags diags;
        struct ds_ptx_outcome *outcome;
        struct ds_ptx_facts *facts;
        /* layout of coloured tensors that lie at the same addresses as linear ones */
        static const struct ds_ptx_colour_layout layout = {DS_PTX_COLOUR_REGULAR, DS_PTX_COLOUR_SECTOR_MIN, 0};
        static const struct ds_ptx_pass_options options = {.layout = &layout};

        if (ds_ptx_parse((const char *)data, size, LIMIT, &diags, &module))
                return 0;
        outcome = calloc(module->n_functions + 1, sizeof(*outcome));
        facts = calloc(module->n_functions + 1, sizeof(*facts));
        FUZZ_CHECK(outcome && facts && ds_ptx_facts_find(module, facts) == 0);
        for (const struct ds_ptx_pass *pass = ds_ptx_passes; pass->name; pass++) {
                ds_cleanup(ds_ptx_module_freep) ds_ptx_module *after = NULL;
                int r = ds_ptx_pass_apply_with(pass, module, &options, 4 * LIMIT, outcome, &diags, &after);

                if (r > 0) {
                        fprintf(stderr, "%s: %s: %s\n", pass->name, diags.diag[0].message, diags.diag[0].excerpt);
                        FUZZ_CHECK(!"the pass's output parses");
                }
                FUZZ_CHECK(r == 0 || r == -ENOMEM);
                for (uint32_t i = 0; i < module->n_functions; i++)
                        FUZZ_CHECK((outcome[i].verdict == DS_PTX_PASS_REFUSED) == (outcome[i].reason[0] != 0));
                if (r)
                        continue;
                prints_again(after);
                same_results(module, after, facts, pass->name);
        }
        free(facts);
        free(outcome);
        return 0;
}
