/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instruction by instruction: the interpreter against the results of an NVIDIA H200 for the same operands
 *
 * tests/golden/interp/h200.txt holds a hash of 4096 results per instruction, for operands with edge values in every
 * combination. Both sets of handlers, baseline and AVX2, must give exactly these. Approximations are compared with the
 * C library within the error that the PTX manual states.
 */
#include <criterion/criterion.h>

#include "ptx/interp/core.h"
#include "ptx/interp/interp.h"
#include "ptx/ptx.h"
#include "tests/support/interp_rows.h"
#include "tests/unit/rounds.h"

#define BATCH 40

static uint64_t in[3][ROWS_N], got[ROWS_N];
static uint64_t recorded[ROWS_MAX];

/* Fills recorded[] with the rows of the file; returns their number. */
static int read_recorded(void)
{
        FILE *f = fopen(TEST_INTERP_GOLDEN, "r");
        char line[640];
        int n = 0;

        cr_assert(f, "no %s", TEST_INTERP_GOLDEN);
        while (fgets(line, sizeof(line), f)) {
                char *end;
                uint64_t hash = strtoull(line, &end, 16);

                line[strcspn(line, "\n")] = 0;
                for (int i = 0; *end == ' ' && i < n_rows; i++) {
                        if (strcmp(rows[i].text, end + 1) != 0)
                                continue;
                        recorded[i] = hash;
                        n++;
                }
        }
        fclose(f);
        return n;
}

/* Runs each row and calls check. */
static void for_rows(void (*check)(int index))
{
        ds_interp_block *work = ds_interp_block_new();

        for (int from = 0; from < n_rows; from += BATCH) {
                int to = from + BATCH < n_rows ? from + BATCH : n_rows;
                static struct ds_ptx_diags diags;
                ds_ptx_module *module = NULL;
                ds_interp *interp = NULL;
                size_t length = 0;
                char *text = rows_emit_module(from, to, &length);

                cr_assert(ds_ptx_parse(text, length, 0, &diags, &module) == 0, "%s", diags.diag[0].message);
                cr_assert(ds_interp_new(module, &diags, &interp) == 0, "%s", diags.diag[0].message);
                for (int i = from; i < to; i++) {
                        const char *fault;

                        rows_fill(&rows[i], in[0], in[1], in[2]);
                        fault = rows_run(interp, work, i, in, got);
                        cr_assert(!fault, "%s: %s", rows[i].text, fault);
                        check(i);
                }
                ds_interp_free(interp);
                ds_ptx_module_free(module);
                free(text);
        }
        ds_interp_block_free(work);
}

static void check_hash(int i)
{
        cr_assert(rows[i].approx || rows_hash(got) == recorded[i], "%s: not what the GPU gives", rows[i].text);
}

static void exact(int isa)
{
        int n, known = 0;

        rows_make("");
        n = read_recorded();
        for (int i = 0; i < n_rows; i++)
                known += !rows[i].approx;
        cr_assert(n == known && n > 800,
                "%d of %d rows have a hash in " TEST_INTERP_GOLDEN ": `interp_diff record FILE` writes them", n, known);
        ds_ix_force_isa(isa);
        for_rows(check_hash);
        ds_ix_force_isa(-1);
}

Test(interp_rows, baseline)
{
        /* sanitized runs cover the machine's own vector set only; plain runs also cover the baseline */
        if (!ROUNDS_SANITIZED || rounds_are_all() || ds_ix_isa() == DS_IX_ISA_BASE)
                exact(DS_IX_ISA_BASE);
}

Test(interp_rows, avx2)
{
        if (ds_ix_isa() == DS_IX_ISA_AVX2)
                exact(DS_IX_ISA_AVX2);
}

/* --- approximations --- */
static float f32(uint64_t bits)
{
        uint32_t u = (uint32_t)bits;
        float x;

        memcpy(&x, &u, 4);
        return x;
}

static double f64(uint64_t bits)
{
        double x;

        memcpy(&x, &bits, 8);
        return x;
}

/* Asserts that a value has at most this relative error, or absolute error where `absolute` is not 0; infinities and
 * NaN must agree */
static void near(const char *text, double x, double got_value, double want, double relative, double absolute)
{
        if (want != want) {
                cr_assert(got_value != got_value, "%s of %a: %a, not NaN", text, x, got_value);
                return;
        }
        if (fabs(want) > 3.4e38)
                cr_assert(fabs(got_value) > 3.3e38, "%s of %a: %a", text, x, got_value);
        else
                cr_assert(fabs(got_value - want) <= relative * fabs(want) + absolute, "%s of %a: %a, not %a", text, x,
                        got_value, want);
}

static void check_approximation(int i)
{
        const char *t = rows[i].text;
        int ftz = strstr(t, ".ftz") != NULL;
        /* results below the normal numbers may be flushed */
        double tiny = 0x1p-126;

        for (int k = 0; k < ROWS_N && rows[i].d == F32; k++) {
                float a = f32(in[0][k]), b = f32(in[1][k]), r = f32(got[k]);
                double x = ftz && fabsf(a) < tiny ? copysign(0, a) : a, y = ftz && fabsf(b) < tiny ? copysign(0, b) : b;

                if (strncmp(t, "div", 3) == 0 && fabs(y) < 0x1p126)
                        near(t, x, r, x / y, 0x1p-22, tiny);
                else if (strncmp(t, "rcp", 3) == 0)
                        near(t, x, r, 1 / x, 0x1p-23, tiny);
                else if (strncmp(t, "sqrt", 4) == 0)
                        near(t, x, r, sqrt(x), 0x1p-23, tiny);
                else if (strncmp(t, "rsqrt", 5) == 0)
                        near(t, x, r, 1 / sqrt(x), 0x1p-22, tiny);
                else if (strncmp(t, "sin", 3) == 0)
                        near(t, x, r, sin(x), 0x1p-23, 0x1p-30);
                else if (strncmp(t, "cos", 3) == 0)
                        near(t, x, r, cos(x), 0x1p-23, 0x1p-30);
                else if (strncmp(t, "lg2", 3) == 0)
                        near(t, x, r, log2(x), 0x1p-23, 0);
                else if (strncmp(t, "ex2", 3) == 0)
                        near(t, x, r, exp2(x), 0x1p-22, tiny);
                else if (strncmp(t, "tanh", 4) == 0)
                        near(t, x, r, tanh(x), 0x1p-23, 0);
        }
        for (int k = 0; k < ROWS_N && rows[i].d == F64; k++) {
                double x = f64(in[0][k]), r = f64(got[k]);

                if (x != x || fabs(x) < 0x1p-1022 || fabs(x) > 0x1p1020)
                        continue;
                near(t, x, r, strncmp(t, "rcp", 3) == 0 ? 1 / x : 1 / sqrt(x), 0x1p-19, 0);
        }
}

Test(interp_rows, approximations)
{
        rows_make("approx");
        cr_assert(n_rows > 20);
        for_rows(check_approximation);
}
