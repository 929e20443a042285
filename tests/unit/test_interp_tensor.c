/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix instructions: the interpreter against an NVIDIA H200, against an independent model, and at its borders
 * (addresses, missing lanes, forms that do not exist)
 *
 * tests/golden/interp/h200_tensor.txt holds a hash of the results of 128 warps per form. The model here takes fragments
 * apart lane by lane as the PTX manual says, and adds in integers of 128 bits.
 */
#include <criterion/criterion.h>

#include "ptx/interp/core.h"
#include "ptx/interp/interp.h"
#include "ptx/ptx.h"
#include "tests/support/interp_harness.h"
#include "tests/support/interp_tensor_rows.h"

#define BATCH 20

static uint32_t in[TENSOR_IN_ALL], got[TENSOR_OUT_ALL];
static uint64_t recorded[TENSOR_MAX];

/* Fills recorded[] with the rows of the file; returns their number. */
static int read_recorded(void)
{
        FILE *f = fopen(TEST_TENSOR_GOLDEN, "r");
        char line[512];
        int n = 0;

        cr_assert(f, "no %s", TEST_TENSOR_GOLDEN);
        while (fgets(line, sizeof(line), f)) {
                char *end;
                uint64_t hash = strtoull(line, &end, 16);

                line[strcspn(line, "\n")] = 0;
                for (int i = 0; *end == ' ' && i < n_tensor_rows; i++) {
                        if (strcmp(tensor_rows[i].text, end + 1) != 0)
                                continue;
                        recorded[i] = hash;
                        n++;
                }
        }
        fclose(f);
        return n;
}

/* Runs each row and calls check. */
static void for_rows(uint32_t round, void (*check)(const struct tensor_row *r, uint64_t hash))
{
        ds_interp_block *work = ds_interp_block_new();

        for (int from = 0; from < n_tensor_rows; from += BATCH) {
                int to = from + BATCH < n_tensor_rows ? from + BATCH : n_tensor_rows;
                static struct ds_ptx_diags diags;
                ds_ptx_module *module = NULL;
                ds_interp *interp = NULL;
                size_t length = 0;
                char *text = tensor_emit_module(from, to, &length);

                cr_assert(ds_ptx_parse(text, length, 0, &diags, &module) == 0, "%s", diags.diag[0].message);
                cr_assert(ds_interp_new(module, &diags, &interp) == 0, "%s", diags.diag[0].message);
                for (int i = from; i < to; i++) {
                        const char *fault;

                        tensor_fill(&tensor_rows[i], round, in);
                        fault = tensor_run(interp, work, i, in, got);
                        cr_assert(!fault, "%s: %s", tensor_rows[i].text, fault);
                        check(&tensor_rows[i], recorded[i]);
                }
                ds_interp_free(interp);
                ds_ptx_module_free(module);
                free(text);
        }
        ds_interp_block_free(work);
}

/* --- the GPU --- */
static void check_hash(const struct tensor_row *r, uint64_t hash)
{
        cr_assert(tensor_hash(got, tensor_results(r)) == hash, "%s: not what the GPU gives", r->text);
}

static void exact(int isa)
{
        int n;

        tensor_make("");
        n = read_recorded();
        cr_assert(n == n_tensor_rows && n > 400, "%d of %d rows are recorded", n, n_tensor_rows);
        ds_ix_force_isa(isa);
        for_rows(0, check_hash);
        ds_ix_force_isa(-1);
}

Test(interp_tensor, as_on_a_gpu_baseline)
{
        /* sanitized runs cover the machine's own vector set only; plain runs also cover the baseline */
        if (!ROUNDS_SANITIZED || rounds_are_all() || ds_ix_isa() == DS_IX_ISA_BASE)
                exact(DS_IX_ISA_BASE);
}

Test(interp_tensor, as_on_a_gpu_avx2)
{
        if (ds_ix_isa() == DS_IX_ISA_AVX2)
                exact(DS_IX_ISA_AVX2);
}

/* --- a model --- */
/* How tensor cores add, by type: number of products added at once, and bits behind the binary point of their sum */
static const struct {
        enum tensor_kind kind;
        int mantissa, bias, bits, together, behind;
} model[] = {{T_F16, 10, 15, 16, 16, 25}, {T_BF16, 7, 127, 16, 16, 25}, {T_TF32, 23, 127, 32, 8, 25}};

struct number {
        int64_t size;
        int exponent, point; /* the number's value is size * 2^(exponent - point) */
        int infinite, nan;
};

static struct number take(uint32_t u, int mantissa, int bias, int bits)
{
        uint32_t e = u >> mantissa & ((1u << (bits - 1 - mantissa)) - 1), f = u & ((1u << mantissa) - 1);
        struct number x = {.size = f, .exponent = (int)(e ? e : 1) - bias, .point = mantissa};

        x.infinite = e == (1u << (bits - 1 - mantissa)) - 1 && !f;
        x.nan = e == (1u << (bits - 1 - mantissa)) - 1 && f;
        x.size = (x.size | (e ? (int64_t)1 << mantissa : 0)) * (u >> (bits - 1) ? -1 : 1);
        return x;
}

/* Bits of f32 or, when `half`, f16 of sum * 2^(exponent - behind) */
static uint32_t round_to(__int128 sum, int exponent, int behind, int half)
{
        unsigned __int128 size = sum < 0 ? -(unsigned __int128)sum : (unsigned __int128)sum;
        int mantissa = half ? 10 : 23, least = half ? -24 : -149, top = 0, e = exponent - behind, cut;
        uint32_t sign = sum < 0 ? (half ? 0x8000u : 0x80000000u) : 0, lost_half = 0, lost = 0, u;

        if (!size)
                return 0;
        while (size >> top > 1)
                top++;
        cut = DS_MAX(top - mantissa, least - e);
        if (cut > 100)
                return 0;
        if (cut > 0) {
                lost_half = (uint32_t)(size >> (cut - 1) & 1);
                lost = (size & (((unsigned __int128)1 << (cut - 1)) - 1)) != 0;
                size >>= cut;
                e += cut;
        }
        for (; e > least && !(size >> mantissa); e--)
                size <<= 1;
        if (half && lost_half && (lost || (size & 1)))
                size++;
        if (!size)
                return 0;
        u = (uint32_t)size + (size >> mantissa ? (uint32_t)(e - least) << mantissa : 0);
        return sign | (u >= (half ? 0x7c00u : 0x7f800000u) ? (half ? 0x7c00u : 0x7f800000u) : u);
}

/* Computes c + a[0] b[0] + ... as the hardware adds one group of products */
static uint32_t add_up(const struct number *a, const struct number *b, int n, struct number c, int behind, int half)
{
        int most = c.size ? c.exponent : -100000, nan = c.nan, up = c.infinite && c.size > 0,
            down = c.infinite && c.size < 0;
        __int128 sum = 0;

        for (int i = 0; i < n; i++) {
                int infinite = a[i].infinite | b[i].infinite, negative = (a[i].size < 0) != (b[i].size < 0);

                nan |= a[i].nan | b[i].nan | (infinite && (!a[i].size || !b[i].size));
                up |= infinite && !negative;
                down |= infinite && negative;
                if (a[i].size && b[i].size)
                        most = DS_MAX(most, a[i].exponent + b[i].exponent);
        }
        if (nan || (up && down))
                return half ? 0x7fff : 0x7fffffff;
        if (up || down)
                return (half ? 0x7c00u : 0x7f800000u) | (down ? (half ? 0x8000u : 0x80000000u) : 0);
        for (int i = 0; i <= n; i++) {
                int64_t size = i < n ? a[i].size * b[i].size : c.size;
                int shift = (i < n ? a[i].exponent + b[i].exponent - a[i].point - b[i].point : c.exponent - c.point) -
                            most + behind;
                __int128 wide = size < 0 ? -size : size;

                wide = !size ? 0 : shift >= 0 ? wide << shift : shift > -100 ? wide >> -shift : 0;
                sum += size < 0 ? -wide : wide;
        }
        return round_to(sum, most, behind, half);
}

/* Element `i` of an operand's registers of one lane */
static uint32_t element(const uint32_t *words, uint32_t first, uint32_t i, uint32_t bits, uint32_t lane)
{
        uint32_t word = words[(first + i * bits / 32) * TENSOR_LANES + lane];

        return bits == 32 ? word : word >> (i * bits % 32) & 0xffff;
}

/* Result of a row and column of m16n8 by the manual's formulas for fragments */
static uint32_t modelled(const struct tensor_row *r, const uint32_t *words, size_t t, uint32_t row, uint32_t column)
{
        uint32_t bits = (uint32_t)model[t].bits, each = 32 / bits, k_all = r->n[1] * 4 * each;
        uint32_t ci = column & 1 ? 1 + (row >= 8) * 2 : (row >= 8) * 2, lane = row % 8 * 4 + column / 2;
        uint32_t mask = model[t].kind == T_TF32 ? 0xffffe000u : UINT32_MAX, u;
        int half = r->d == T_F16;
        struct number a[16], b[16], c;

        u = element(words, (uint32_t)r->n[0] + r->n[1], ci, half ? 16 : 32, lane);
        for (uint32_t k = 0; k < k_all; k++) {
                /* position of element (row, column k) of a: the register index changes first with the pair of rows,
                 * then with the half of k */
                uint32_t piece = k / (4 * each), within = k % (4 * each);
                uint32_t ai = (piece * 2 + (row >= 8)) * each + within % each, bi = piece * each + within % each;

                a[k] = take(element(words, 0, ai, bits, row % 8 * 4 + within / each) & mask, model[t].mantissa,
                        model[t].bias, model[t].bits);
                b[k] = take(element(words, r->n[0], bi, bits, column * 4 + within / each) & mask, model[t].mantissa,
                        model[t].bias, model[t].bits);
        }
        for (uint32_t k = 0; k < k_all; k += (uint32_t)model[t].together) {
                c = half ? take(u, 10, 15, 16) : take(u, 23, 127, 32);
                u = add_up(a + k, b + k, (int)DS_MIN((uint32_t)model[t].together, k_all), c, model[t].behind, half);
        }
        return u;
}

static void check_model(const struct tensor_row *r, uint64_t hash)
{
        size_t t = 0;

        (void)hash;
        while (t < DS_ARRAY_SIZE(model) && model[t].kind != r->kind[0])
                t++;
        cr_assert(t < DS_ARRAY_SIZE(model));
        for (uint32_t c = 0; c < TENSOR_CASES; c++) {
                const uint32_t *words = in + (size_t)c * tensor_in_words(r) * TENSOR_LANES;
                const uint32_t *out = got + (size_t)c * tensor_out_words(r) * TENSOR_LANES;

                for (uint32_t i = 0; i < 128; i++) {
                        uint32_t row = i / 8, column = i % 8, lane = row % 8 * 4 + column / 2;
                        uint32_t want = modelled(r, words, t, row, column);
                        uint32_t at = (column & 1) + (row >= 8) * 2;
                        uint32_t is = element(out, 0, at, r->d == T_F16 ? 16 : 32, lane);

                        cr_assert(is == want, "%s: case %u, row %u, column %u: %x, not %x", r->text, c, row, column, is,
                                want);
                }
        }
}

Test(interp_tensor, as_the_model)
{
        static const char *const filters[] = {
                "f32.f16.f16.f32 %D", "f16.f16.f16.f16 %D", "bf16.bf16.f32 %D", "tf32.tf32.f32 %D"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(filters); i++) {
                int n = 0;

                tensor_make(filters[i]);
                for (int k = 0; k < n_tensor_rows; k++)
                        if (strncmp(tensor_rows[k].text, "mma.sync.aligned.m16n8", 22) == 0)
                                tensor_rows[n++] = tensor_rows[k];
                n_tensor_rows = n;
                cr_assert(n == 2, "%d", n);
                for_rows(1000, check_model);
        }
}

/* --- borders --- */
#define HEAD ".version 8.7\n.target sm_90\n.address_size 64\n"
#define KERNEL                                                                                                        \
        HEAD ".visible .entry k(.param .u64 p0, .param .u32 p1)\n{\n"                                                 \
             ".reg .b32 %r<20>;\n.reg .b64 %x<4>;\n.reg .f32 %f<8>;\n.reg .pred %p<3>;\n"                             \
             ".shared .align 16 .b8 tile[512];\n"                                                                     \
             "ld.param.u64 %x0, [p0];\nld.param.u32 %r10, [p1];\nmov.u32 %r11, %tid.x;\nmov.u32 %r12, tile;\n"        \
             "shl.b32 %r13, %r11, 4;\nadd.u32 %r12, %r12, %r13;\nmov.b32 %r0, 0;\nmov.b32 %r1, 0;\nmov.b32 %r2, 0;\n" \
             "mov.b32 %r3, 0;\nmov.f32 %f0, 0f00000000;\nmov.f32 %f1, %f0;\nmov.f32 %f2, %f0;\nmov.f32 %f3, %f0;\n"

/* Runs the statements in a kernel with `threads` threads; its parameter p1 is `number`. */
static struct ds_interp_result run_text(const char *statements, uint32_t threads, uint32_t number)
{
        static char text[8192];
        struct ds_interp_result result;
        struct rig r;
        uint64_t memory;

        (void)snprintf(text, sizeof(text), "%s%s\nret;\n}\n", KERNEL, statements);
        rig_text(&r, text);
        memory = (uintptr_t)rig_alloc(&r, 1024);
        result = rig_launch(&r, "k", RIG_DIM1(1), RIG_DIM1(threads), 0, RIG_ARGS(&memory, &number));
        rig_close(&r);
        return result;
}

#define MMA "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r2}, {%f0,%f1,%f2,%f3};\n"
#define LDMATRIX "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r0,%r1}, [%r12];\n"

Test(interp_tensor, rows_are_checked)
{
        struct ds_interp_result r = run_text("add.u32 %r12, %r12, %r10;\n" LDMATRIX, 32, 8);

        cr_assert(r.fault == DS_INTERP_FAULT_MISALIGNED && r.thread[0] == 0, "%d: %s", r.fault, r.message);
        /* ldmatrix of two matrices (x2) reads the addresses of lanes 0 to 15; the other lanes' addresses do not
         * matter */
        r = run_text("add.u32 %r12, %r12, %r10;\n" LDMATRIX, 32, 272);
        cr_assert(r.fault == DS_INTERP_FAULT_ADDRESS && r.thread[0] == 15, "%d: %s", r.fault, r.message);
        r = run_text("add.u32 %r12, %r12, %r10;\n" LDMATRIX, 32, 256);
        cr_assert(r.fault == DS_INTERP_OK, "%s", r.message);
        r = run_text("add.u32 %r12, %r12, %r10;\nstmatrix.sync.aligned.m8n8.x4.shared.b16 [%r12], {%r0,%r1,%r2,%r3};\n",
                32, 16);
        cr_assert(r.fault == DS_INTERP_FAULT_ADDRESS && r.thread[0] == 31, "%d: %s", r.fault, r.message);
        /* a generic address: global memory is readable, but rows must lie in shared memory */
        r = run_text("cvt.u64.u32 %x1, %r10;\nldmatrix.sync.aligned.m8n8.x1.b16 {%r0}, [%x1];\n", 32, 16);
        cr_assert(r.fault == DS_INTERP_FAULT_ADDRESS, "%d: %s", r.fault, r.message);
}

Test(interp_tensor, fragments_in_memory_are_checked)
{
        /* 16 rows of 16 halves, 32 bytes apart: exactly 512 bytes. The second half of 1024 bytes fits, one byte more
         * does not */
        static const char load[] = "cvt.u64.u32 %x1, %r10;\nadd.u64 %x0, %x0, %x1;\n"
                                   "wmma.load.c.sync.aligned.row.m16n16k16.global.f16 {%r0,%r1,%r2,%r3}, [%x0], 16;\n";
        static const char store[] =
                "cvt.u64.u32 %x1, %r10;\nadd.u64 %x0, %x0, %x1;\n"
                "wmma.store.d.sync.aligned.row.m16n16k16.global.f16 [%x0], {%r0,%r1,%r2,%r3}, 16;\n";

        cr_assert(run_text(load, 32, 512).fault == DS_INTERP_OK);
        cr_assert(run_text(load, 32, 516).fault == DS_INTERP_FAULT_ADDRESS);
        cr_assert(run_text(load, 32, 2).fault == DS_INTERP_FAULT_MISALIGNED);
        cr_assert(run_text(store, 32, 512).fault == DS_INTERP_OK);
        cr_assert(run_text(store, 32, 516).fault == DS_INTERP_FAULT_ADDRESS);
        /* a variable's address, with and without an offset */
        cr_assert(run_text("wmma.load.c.sync.aligned.row.m16n16k16.shared.f16 {%r0,%r1,%r2,%r3}, [tile], 16;\n", 32, 0)
                          .fault == DS_INTERP_OK);
        cr_assert(run_text("wmma.store.d.sync.aligned.row.m16n16k16.shared.f16 [tile+16], {%r0,%r1,%r2,%r3}, 16;\n", 32,
                          0)
                          .fault == DS_INTERP_FAULT_ADDRESS);
        /* a stride that leads far outside of shared memory, then of global memory */
        cr_assert(run_text("wmma.load.a.sync.aligned.row.m16n16k16.shared.bf16 {%r0,%r1,%r2,%r3}, [tile], %r10;\n", 32,
                          0xfffffff0)
                          .fault == DS_INTERP_FAULT_ADDRESS);
        cr_assert(run_text("wmma.store.d.sync.aligned.col.m16n16k16.shared.f16 [%r12], {%r0,%r1,%r2,%r3}, %r10;\n", 32,
                          0x80000000)
                          .fault == DS_INTERP_FAULT_ADDRESS);
        cr_assert(
                run_text("wmma.load.a.sync.aligned.col.m16n16k16.global.f16 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%x0], "
                         "%r10;\n",
                        32, 0xffffffff)
                        .fault == DS_INTERP_FAULT_ADDRESS);
}

Test(interp_tensor, all_lanes_take_part)
{
        struct ds_interp_result r = run_text(MMA, 16, 0);

        cr_assert(r.fault == DS_INTERP_FAULT_ILLEGAL, "%d", r.fault);
        r = run_text("setp.lt.u32 %p0, %r11, 8;\n@%p0 exit;\n" MMA, 32, 0);
        cr_assert(r.fault == DS_INTERP_FAULT_ILLEGAL && r.thread[0] == 8, "%d: %s", r.fault, r.message);
        /* two groups of lanes at different matrix instructions never execute together */
        r = run_text("setp.lt.u32 %p0, %r11, 8;\n@%p0 bra ONE;\n" MMA "bra DONE;\nONE:\n" MMA "DONE:\n", 32, 0);
        cr_assert(r.fault != DS_INTERP_OK, "met");
        /* some lanes at a barrier, the others at the matrix instruction: a deadlock */
        r = run_text("setp.lt.u32 %p0, %r11, 8;\n@%p0 bra ONE;\n" MMA "bra DONE;\nONE:\nbar.sync 0;\nDONE:\n", 32, 0);
        cr_assert(r.fault == DS_INTERP_FAULT_BARRIER, "%d: %s", r.fault, r.message);
        /* lanes that reach the same instruction late execute it with the others; a predicate that is false for all
         * has no effect */
        r = run_text("setp.lt.u32 %p0, %r11, 8;\n@%p0 bra ONE;\nbra.uni TWO;\nONE:\nadd.u32 %r0, %r0, 1;\nTWO:\n" MMA
                     "setp.lt.u32 %p1, %r11, 0;\n@%p1 " MMA,
                32, 0);
        cr_assert(r.fault == DS_INTERP_OK && r.cost.tensor_instructions == 1, "%d: %s (%llu)", r.fault, r.message,
                (unsigned long long)r.cost.tensor_instructions);
}

Test(interp_tensor, what_is_not_up_to_sm_90_is_refused)
{
        static const char *const forms[] = {
                "wgmma.fence.sync.aligned;",
                "mma.sync.aligned.m16n8k4.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r2}, "
                "{%f0,%f1,%f2,%f3};",
                "mma.sync.aligned.m8n8k8.row.col.f32.bf16.bf16.f32 {%f0,%f1}, {%r0}, {%r2}, {%f0,%f1};",
                "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r2,%r3}, "
                "{%f0,%f1,%f2,%f3};",
                "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, "
                "{%r0,%r1,%r2,%r3}, {%f0,%f1,%f2,%f3}, %r4, 0x2;",
                "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0,%r1}, [%r12];",
                "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16.satfinite {%r0,%r1,%r2,%r3}, "
                "{%r4,%r5,%r6,%r7,%r8,%r9,%r10,%r11}, {%r4,%r5,%r6,%r7,%r8,%r9,%r10,%r11}, {%r0,%r1,%r2,%r3};",
                "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32 {%r0,%r1}, {%r2}, {%r3}, {%r0,%r1};",
                "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32.and.popc {%r0,%r1}, {%r2}, {%r3}, {%r0,%r1};",
        };
        static char text[8192];

        for (size_t i = 0; i < DS_ARRAY_SIZE(forms); i++) {
                static struct ds_ptx_diags diags;
                ds_ptx_module *module = NULL;
                ds_interp *interp = NULL;

                diags.n = diags.total = 0;
                (void)snprintf(text, sizeof(text), "%s%s\nret;\n}\n", KERNEL, forms[i]);
                /* refused by the front end, or else by the interpreter */
                if (ds_ptx_parse(text, strlen(text), 0, &diags, &module) == 0)
                        cr_assert(ds_interp_new(module, &diags, &interp) == DS_INTERP_E_UNSUPPORTED, "%s", forms[i]);
                cr_assert(diags.n == 1, "%s: %u", forms[i], (unsigned)diags.n);
                ds_interp_free(interp);
                ds_ptx_module_free(module);
        }
}
