/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs every instruction on a GPU and in the interpreter, and compares the results bit by bit
 *
 * Each row of the table is one PTX instruction. It becomes a kernel that applies it to a few thousand operands, first
 * to all combinations of edge values. The kernel runs on the GPU through the driver and in the interpreter. For rows
 * marked approximate the program prints the largest difference in units in the last place, and the share of PTX's error
 * bound that each machine uses. Rows marked odd, where the hardware is known to differ from the PTX manual, are only
 * printed. Exit status: 0 when all exact rows agree, 1 when not, 3 when there is no GPU.
 *
 * interp_diff [SUBSTRING of instructions to try]
 * interp_diff print NUMBER    prints the module of one row (exit status 2 when there is none)
 * interp_diff record FILE     writes the GPU's results of the exact rows, for test_interp_rows
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/interp/interp.h"
#include "ptx/ptx.h"
#include "tests/gpu/driver.h"
#include "tests/support/interp_bounds.h"
#include "tests/support/interp_rows.h"
#include "util/macro.h"

static int show = 3; /* printed differences per row (environment variable INTERP_DIFF_SHOW) */

/* --- the two machines ------------- */
static uint64_t in[3][ROWS_N], got[ROWS_N], want[ROWS_N], gpu_memory;
static FILE *record; /* file for the GPU's results */

static int on_gpu(void *module, int index)
{
        uint64_t a = gpu_memory, b = a + sizeof(got), c = b + sizeof(got), d = c + sizeof(got), p = d + sizeof(got);
        void *args[] = {&a, &b, &c, &d, &p}, *function = NULL;
        char name[16];

        (void)snprintf(name, sizeof(name), "k%d", index);
        if (cu.to(gpu_memory, in, sizeof(in)) || cu.function(&function, module, name) ||
                cu.launch(function, ROWS_N / 128, 1, 1, 128, 1, 1, 0, NULL, args, NULL) || cu.synchronize())
                return 0;
        return cu.from(want, d, sizeof(want)) == 0;
}

static int in_interpreter(const ds_interp *interp, ds_interp_block *work, int index)
{
        const char *fault = rows_run(interp, work, index, in, got);

        if (fault)
                (void)printf("FAULT %s: %s\n", rows[index].text, fault);
        return !fault;
}

/* --- comparison ------------------- */
static double ulps(enum kind k, uint64_t a, uint64_t b)
{
        int64_t x = (int64_t)a, y = (int64_t)b;
        uint64_t sign = k == F64 ? UINT64_C(1) << 63 : k == F32 ? UINT64_C(1) << 31 : UINT64_C(1) << 15;

        x = (uint64_t)x & sign ? -(int64_t)((uint64_t)x & ~sign) : x;
        y = (uint64_t)y & sign ? -(int64_t)((uint64_t)y & ~sign) : y;
        return fabs((double)x - (double)y);
}

/* Compares both machines with PTX's error bound of an approximation. Returns whether the interpreter exceeds it. */
static int compare_bounds(const struct row *r)
{
        double gpu = -1, ours = -1;

        for (int i = 0; i < ROWS_N; i++) {
                gpu = fmax(gpu, bounds_word_error(r->text, in[0][i], in[1][i], want[i]));
                ours = fmax(ours, bounds_word_error(r->text, in[0][i], in[1][i], got[i]));
        }
        (void)printf("BOUND %s: of PTX's error the GPU uses %.3f, the interpreter %.3f\n", r->text, gpu, ours);
        return ours > 1;
}

static int compare(const struct row *r)
{
        int different = 0, shown = 0;
        double worst = 0;

        for (int i = 0; i < ROWS_N; i++) {
                if (got[i] == want[i])
                        continue;
                different++;
                if (r->approx && ulps(r->d, got[i], want[i]) > worst)
                        worst = ulps(r->d, got[i], want[i]);
                else if (r->approx)
                        continue;
                if (shown++ < show)
                        (void)printf("  %llx %llx %llx: gpu %llx, interpreter %llx\n", (unsigned long long)in[0][i],
                                (unsigned long long)in[1][i], (unsigned long long)in[2][i], (unsigned long long)want[i],
                                (unsigned long long)got[i]);
        }
        if (different)
                (void)printf("%s %s: %d of %d differ%s",
                        r->approx == ROWS_ODD ? "ODD"
                        : r->approx           ? "APPROX"
                                              : "DIFFER",
                        r->text, different, ROWS_N, r->approx ? "" : "\n");
        if (different && r->approx)
                (void)printf(", by up to %g ulp\n", worst);
        if (r->approx == ROWS_APPROX)
                return compare_bounds(r);
        return different && !r->approx;
}

/* Tries the rows of one module, which both machines must accept. Returns the number of rows that differ. */
static int try_rows(int from, int to, ds_interp_block *work)
{
        static struct ds_ptx_diags diags;
        static char said[65536];
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;
        static char log[4096];
        size_t length = 0;
        char *text = rows_emit_module(from, to, &length);
        void *gpu = NULL;
        /* numbers of the options CU_JIT_ERROR_LOG_BUFFER and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES */
        int options[] = {5, 6}, bad = 0;
        void *values[] = {log, (void *)(uintptr_t)sizeof(log)};

        memset(&diags, 0, sizeof(diags));
        if (!text)
                return 1;
        if (cu.load(&gpu, text, 2, options, values)) {
                if (to - from == 1)
                        (void)printf("GPU refuses %s\n", rows[from].text);
                for (int i = from; to - from > 1 && i < to; i++)
                        bad += try_rows(i, i + 1, work);
                free(text);
                return bad;
        }
        if (ds_ptx_parse(text, length, 0, &diags, &module) || ds_interp_new(module, &diags, &interp)) {
                (void)ds_ptx_diags_format(&diags, "rows", said, sizeof(said));
                if (to - from == 1)
                        (void)printf("INTERPRETER refuses %s\n%s", rows[from].text, said);
                for (int i = from; to - from > 1 && i < to; i++)
                        bad += try_rows(i, i + 1, work);
                free(text);
                (void)cu.unload(gpu);
                return to - from == 1 ? 1 : bad;
        }
        for (int i = from; i < to; i++) {
                rows_fill(&rows[i], in[0], in[1], in[2]);
                memset(got, 0, sizeof(got));
                if (!on_gpu(gpu, i))
                        (void)printf("GPU fails on %s\n", rows[i].text);
                else if (record && !rows[i].approx)
                        (void)fprintf(record, "%016llx %s\n", (unsigned long long)rows_hash(want), rows[i].text);
                else
                        bad += in_interpreter(interp, work, i) ? compare(&rows[i]) : 1;
        }
        free(text);
        (void)cu.unload(gpu);
        return bad;
}

static int print_row(int index)
{
        size_t length = 0;
        char *text = index >= 0 && index < n_rows ? rows_emit_module(index, index + 1, &length) : NULL;

        if (!text)
                return 2;
        (void)printf("// %s\n%s", rows[index].text, text);
        free(text);
        return 0;
}

int main(int argc, char **argv)
{
        ds_cleanup(ds_interp_block_freep) ds_interp_block *work = ds_interp_block_new();
        int bad = 0;

        if (getenv("INTERP_DIFF_SHOW"))
                show = atoi(getenv("INTERP_DIFF_SHOW"));
        rows_make(argc == 2 ? argv[1] : "");
        if (argc == 3 && strcmp(argv[1], "print") == 0)
                return print_row(atoi(argv[2]));
        if (argc == 3 && !(record = fopen(argv[2], "w")))
                return 2;
        if (!open_gpu() || cu.alloc(&gpu_memory, 5 * sizeof(got))) {
                (void)fprintf(stderr, "no GPU\n");
                return 3;
        }
        for (int i = 0; work && i < n_rows; i += 40)
                bad += try_rows(i, i + 40 < n_rows ? i + 40 : n_rows, work);
        (void)printf("%d instructions compared, %d differ\n", n_rows, bad);
        if (record && fclose(record))
                return 2;
        return bad || !work;
}
