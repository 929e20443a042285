/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs every matrix instruction on a GPU and in the interpreter, and compares the results bit by bit
 *
 * Each row of tests/support/interp_tensor_rows.h is a kernel that a warp runs on 128 sets of registers, on the GPU
 * through the driver and in the interpreter. Exit status: 0 when all rows agree, 1 when not, 3 when there is no GPU.
 *
 * tensor_diff [-r ROUNDS] [SUBSTRING of instructions to try]
 * tensor_diff print NUMBER    prints the module of one row (exit status 2 when there is none)
 * tensor_diff record FILE     writes the GPU's results, for test_interp_tensor
 * tensor_diff dump FILE       writes all of the GPU's results: per row a line (number of words, text), then the words
 * tensor_diff [-r ROUNDS] check FILE [SUBSTRING]   compares the interpreter with a file of `dump`, without a GPU
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/interp/interp.h"
#include "ptx/ptx.h"
#include "tests/gpu/driver.h"
#include "tests/support/interp_tensor_rows.h"
#include "util/macro.h"

static uint32_t in[TENSOR_IN_ALL], got[TENSOR_OUT_ALL], want[TENSOR_OUT_ALL];
static uint64_t gpu_memory;
static FILE *record, *dump;
static int show = 3, rounds = 1;

static int on_gpu(void *module, int index)
{
        const struct tensor_row *r = &tensor_rows[index];
        uint64_t a = gpu_memory, b = a + sizeof(in);
        void *args[] = {&a, &b}, *function = NULL;
        char name[16];

        memset(want, 0, sizeof(want));
        (void)snprintf(name, sizeof(name), "k%d", index);
        if (cu.to(a, in, sizeof(in)) || cu.to(b, want, sizeof(want)) || cu.function(&function, module, name) ||
                cu.launch(function, TENSOR_CASES, 1, 1, TENSOR_LANES, 1, 1, 0, NULL, args, NULL) || cu.synchronize())
                return 0;
        return cu.from(want, b, sizeof(uint32_t) * tensor_results(r)) == 0;
}

/* Compares the results of one row in a round. Returns the number of words that differ. */
static size_t compare(const struct tensor_row *r, uint32_t round)
{
        uint32_t words = tensor_out_words(r) * TENSOR_LANES;
        size_t different = 0;

        for (size_t i = 0; i < tensor_results(r); i++) {
                if (got[i] == want[i])
                        continue;
                if (different++ < (size_t)show)
                        (void)printf("  round %u, case %zu, word %zu of lane %zu: gpu %08x, interpreter %08x\n", round,
                                i / words, i % words / TENSOR_LANES, i % TENSOR_LANES, want[i], got[i]);
        }
        return different;
}

/* Runs one row on both machines. Returns 1 when the row differs. */
static int try_row(void *gpu, const ds_interp *interp, ds_interp_block *work, int index)
{
        const struct tensor_row *r = &tensor_rows[index];
        size_t different = 0;

        for (uint32_t round = 0; round < (uint32_t)rounds; round++) {
                const char *fault = NULL;

                tensor_fill(r, round, in);
                memset(got, 0, sizeof(got));
                if (!on_gpu(gpu, index))
                        return printf("GPU fails on %s\n", r->text) > 0;
                if (record)
                        (void)fprintf(record, "%016llx %s\n", (unsigned long long)tensor_hash(want, tensor_results(r)),
                                r->text);
                if (dump)
                        (void)fprintf(dump, "%zu %s\n", tensor_results(r), r->text);
                if (dump)
                        (void)fwrite(want, sizeof(uint32_t), tensor_results(r), dump);
                if (record || dump)
                        return 0;
                fault = tensor_run(interp, work, index, in, got);
                if (fault)
                        return printf("FAULT %s: %s\n", r->text, fault) > 0;
                different += compare(r, round);
        }
        if (different)
                (void)printf("DIFFER %s: %zu of %zu\n", r->text, different, tensor_results(r) * (size_t)rounds);
        return different != 0;
}

/* Tries the rows of one module, which both machines must accept. Returns the number of rows that differ. */
static int try_rows(int from, int to, ds_interp_block *work)
{
        static struct ds_ptx_diags diags;
        static char said[65536], log[4096];
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;
        size_t length = 0;
        char *text = tensor_emit_module(from, to, &length);
        /* numbers of the options CU_JIT_ERROR_LOG_BUFFER and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES */
        int options[] = {5, 6}, bad = 0;
        void *values[] = {log, (void *)(uintptr_t)sizeof(log)}, *gpu = NULL;
        int refused = 0;

        memset(&diags, 0, sizeof(diags));
        if (!text)
                return 1;
        if (cu.load(&gpu, text, 2, options, values)) {
                refused = to - from == 1 ? printf("GPU refuses %s\n%s\n", tensor_rows[from].text, log) > 0 : 1;
        } else if (!record && !dump &&
                   (ds_ptx_parse(text, length, 0, &diags, &module) || ds_interp_new(module, &diags, &interp))) {
                (void)ds_ptx_diags_format(&diags, "rows", said, sizeof(said));
                refused = 1;
                bad = to - from == 1 ? printf("INTERPRETER refuses %s\n%s", tensor_rows[from].text, said) > 0 : 0;
        }
        for (int i = from; i < to; i++) {
                if (!refused)
                        bad += try_row(gpu, interp, work, i);
                else if (to - from > 1)
                        bad += try_rows(i, i + 1, work);
        }
        free(text);
        if (gpu)
                (void)cu.unload(gpu);
        return bad;
}

static int print_row(int index)
{
        size_t length = 0;
        char *text = index >= 0 && index < n_tensor_rows ? tensor_emit_module(index, index + 1, &length) : NULL;

        if (!text)
                return 2;
        (void)printf("// %s\n%s", tensor_rows[index].text, text);
        free(text);
        return 0;
}

/* Compares the interpreter with a file of `dump`. Returns the number of rows that differ. */
static int check_dump(const char *path, const char *filter, ds_interp_block *work)
{
        static struct ds_ptx_diags diags;
        FILE *f = fopen(path, "r");
        int bad = 0;

        for (int i = 0; f && i < n_tensor_rows; i++) {
                ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
                ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;
                const struct tensor_row *r = &tensor_rows[i];
                size_t length = 0, different;
                const char *fault = "not loaded";
                char line[512], *text;

                if (!fgets(line, sizeof(line), f) || strtoull(line, NULL, 10) != tensor_results(r) ||
                        fread(want, sizeof(uint32_t), tensor_results(r), f) != tensor_results(r))
                        return printf("%s does not have %s\n", path, r->text);
                if (!strstr(line, r->text))
                        (void)printf("%s does not have %s\n", path, r->text);
                if (!strstr(line, r->text) || !strstr(r->text, filter))
                        continue;
                text = tensor_emit_module(i, i + 1, &length);
                tensor_fill(r, 0, in);
                diags.n = diags.total = 0;
                if (text && !ds_ptx_parse(text, length, 0, &diags, &module) && !ds_interp_new(module, &diags, &interp))
                        fault = tensor_run(interp, work, i, in, got);
                free(text);
                different = fault ? tensor_results(r) : compare(r, 0);
                if (different)
                        (void)printf(
                                "%s %s: %zu of %zu\n", fault ? fault : "DIFFER", r->text, different, tensor_results(r));
                bad += different != 0;
        }
        (void)printf("%d of %d differ\n", bad, n_tensor_rows);
        return f && !fclose(f) ? bad : 1;
}

int main(int argc, char **argv)
{
        ds_cleanup(ds_interp_block_freep) ds_interp_block *work = ds_interp_block_new();
        int bad = 0;

        if (argc > 2 && strcmp(argv[1], "-r") == 0) {
                rounds = atoi(argv[2]);
                argc -= 2;
                argv += 2;
        }
        tensor_make(argc == 2 ? argv[1] : "");
        if (argc >= 3 && strcmp(argv[1], "check") == 0)
                return check_dump(argv[2], argc > 3 ? argv[3] : "", work) != 0;
        if (argc == 3 && strcmp(argv[1], "print") == 0)
                return print_row(atoi(argv[2]));
        if (argc == 3 && strcmp(argv[1], "record") == 0 && !(record = fopen(argv[2], "w")))
                return 2;
        if (argc == 3 && strcmp(argv[1], "dump") == 0 && !(dump = fopen(argv[2], "w")))
                return 2;
        if (!open_gpu() || cu.alloc(&gpu_memory, sizeof(in) + sizeof(want))) {
                (void)fprintf(stderr, "no GPU\n");
                return 3;
        }
        for (int i = 0; work && i < n_tensor_rows; i += 20)
                bad += try_rows(i, i + 20 < n_tensor_rows ? i + 20 : n_tensor_rows, work);
        (void)printf("%d instructions compared, %d differ\n", n_tensor_rows, bad);
        if ((record && fclose(record)) || (dump && fclose(dump)))
                return 2;
        return bad || !work;
}
