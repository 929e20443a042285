/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The corpus in the interpreter, part three: divergence, calls, address spaces, parameters, faults
 */
#include "tests/support/interp_harness.h"

/* --- divergence --- */
static int nested(int v)
{
        int r = 0;

        if (v & 1) {
                if (v & 2) {
                        r = v & 4 ? v * 3 : v * 5;
                } else {
                        for (int k = 0; k < (v & 7); k++)
                                r += k * v;
                }
                r ^= 0x55;
        } else if (v > 50) {
                while (v > 3) {
                        v = v / 2 + (v & 1);
                        r += v;
                }
        } else {
                r = -v;
        }
        return r;
}

static int switched(int op, int v, int old)
{
        int r = 0;

        switch (op) {
        case 0:
                return v + 1;
        case 1:
                return v * v;
        case 2:
                return v / 3;
        case 3:
                return v % 7;
        case 4:
                return __builtin_popcount((unsigned)v);
        case 5:
                return ~v;
        case 6:
                for (r = 0; v > 0; v >>= 1)
                        r += v & 1 ? 3 : 1;
                return r;
        case 7:
        case 8:
                return v ^ 0x1234;
        case 9:
                return old;
        case 10:
                return (int)((unsigned)v << 3);
        case 11:
                return v - 1000;
        default:
                return -1;
        }
}

static int broken(int in)
{
        int r = 0;

        for (int a = 0; a < 20; a++) {
                if ((in + a) % 3 == 0)
                        continue;
                for (int b = 0; b < 10; b++) {
                        if (b * a > in % 40)
                                break;
                        r += a ^ b;
                        if (r > 200)
                                return r;
                }
        }
        return r;
}

static void branches_body(struct rig *r)
{
        int n = 300, in_host[300], op_host[300], *in, *op, *out = rig_alloc(r, 1200), *sw = rig_alloc(r, 1200);
        int *br = rig_alloc(r, 1200);
        uint32_t *steps = rig_alloc(r, 1200), *odd;

        for (int i = 0; i < n; i++) {
                in_host[i] = (i * 7919) % 1000 + 1;
                op_host[i] = (i * 31) % 14;
                sw[i] = 77;
        }
        in = rig_copy(r, in_host, sizeof(in_host));
        op = rig_copy(r, op_host, sizeof(op_host));
        odd = (uint32_t *)in;
        rig_run(r, "diverge_nested", RIG_DIM1(3), RIG_DIM1(128), 0, RIG_ARGS(&in, &out, &n));
        rig_run(r, "diverge_collatz", RIG_DIM1(3), RIG_DIM1(128), 0, RIG_ARGS(&odd, &steps, &n));
        rig_run(r, "diverge_switch", RIG_DIM1(3), RIG_DIM1(128), 0, RIG_ARGS(&op, &in, &sw, &n));
        rig_run(r, "diverge_break", RIG_DIM1(3), RIG_DIM1(128), 0, RIG_ARGS(&in, &br, &n));
        for (int i = 0; i < n; i++) {
                uint32_t count = 0;

                for (uint64_t v = (uint64_t)in_host[i]; v != 1; count++)
                        v = v & 1 ? 3 * v + 1 : v / 2;
                cr_assert(out[i] == nested(in_host[i]), "nested %d", i);
                cr_assert(steps[i] == count, "collatz %d", i);
                cr_assert(sw[i] == switched(op_host[i], in_host[i], 77), "switch %d: %d", op_host[i], sw[i]);
                cr_assert(br[i] == broken(in_host[i]), "break %d", i);
        }
}

Test(interp_flow, branches)
{
        rig_for_all("diverge", branches_body);
}

/* Lanes that leave a loop early wait behind it for the rest. So a warp costs as much as its slowest lane, not the
 * sum. */
static void reconverge_body(struct rig *r)
{
        int n = 32;
        uint32_t in_host[32], *in, *steps = rig_alloc(r, 128), longest = 0;

        for (uint32_t i = 0; i < 32; i++)
                in_host[i] = 97 + i * 13;
        in = rig_copy(r, in_host, sizeof(in_host));
        rig_run(r, "diverge_collatz", RIG_DIM1(1), RIG_DIM1(32), 0, RIG_ARGS(&in, &steps, &n));
        for (int i = 0; i < 32; i++)
                longest = steps[i] > longest ? steps[i] : longest;
        /* about ten instructions per step, counting both sides of its branch */
        cr_assert(r->cost.instructions < 40 + longest * 20, "%llu instructions for %u steps",
                (unsigned long long)r->cost.instructions, longest);
}

Test(interp_flow, reconvergence)
{
        rig_for_all("diverge", reconverge_body);
}

static void ballots_body(struct rig *r)
{
        uint32_t *out = rig_alloc(r, 32 * 12), first[32], want;

        rig_run(r, "diverge_ballot", RIG_DIM1(1), RIG_DIM1(32), 0, RIG_ARGS(&out));
        for (uint32_t l = 0; l < 32; l++) {
                first[l] = 0;
                for (uint32_t k = l % 3; k < 32; k += 3)
                        first[l] |= k & (1u << (l % 3)) ? 1u << k : 0;
        }
        for (uint32_t l = 0; l < 32; l++) {
                want = 0;
                for (uint32_t k = 0; k < 32; k++)
                        want |= first[k] & 1 ? 1u << k : 0;
                cr_assert(out[3 * l] == first[l] && out[3 * l + 1] == want, "lane %u: %x %x", l, out[3 * l], first[l]);
                cr_assert(out[3 * l + 2] == l % 5 + ((l + 1) & 31) % 5);
        }
}

static void leaving_body(struct rig *r)
{
        int stay = 150, *out = rig_alloc(r, 1024), *hand = rig_alloc(r, 8), *named = rig_alloc(r, 320 * 4);

        rig_run(r, "diverge_exit", RIG_DIM1(1), RIG_DIM1(256), 0, RIG_ARGS(&out, &stay));
        for (int t = 0; t < 256; t++) {
                int v = (stay - 1 - t) * (stay - 1 - t);

                cr_assert(out[t] == (t >= stay ? -t : t % 2 == 0 ? v : v + t * t), "thread %d: %d", t, out[t]);
        }
        rig_run(r, "diverge_handshake", RIG_DIM1(1), RIG_DIM1(32), 0, RIG_ARGS(&hand));
        cr_assert(hand[0] == 42 && hand[1] == 43, "one warp");
        rig_run(r, "diverge_handshake", RIG_DIM1(1), RIG_DIM1(96), 0, RIG_ARGS(&hand));
        cr_assert(hand[0] == 42 && hand[1] == 43, "three warps");
        rig_run(r, "diverge_named", RIG_DIM1(1), RIG_DIM1(128), 0, RIG_ARGS(&named));
        for (int t = 0; t < 128; t++) {
                if (t < 64)
                        cr_assert(named[t] == (63 - t) * 3);
                cr_assert(named[64 + t] == 43 && named[192 + t] == 3, "%d: %d %d", t, named[64 + t], named[192 + t]);
        }
}

Test(interp_flow, ballots_exits_barriers)
{
        rig_for_all("diverge", ballots_body);
        rig_for_all("diverge", leaving_body);
}

/* --- calls --- */
static int early(int x)
{
        if (x < 4)
                return 1;
        for (int i = 0; i < x; i++)
                if (i * i > x)
                        return i;
        return -1;
}

static void calls_body(struct rig *r)
{
        int n = 100, in_host[100], *in, *simple = rig_alloc(r, 400), *div = rig_alloc(r, 400), *loc = rig_alloc(r, 400);
        int *ind = rig_alloc(r, 400);
        double *st = rig_alloc(r, 800);
        uint32_t *fib = rig_alloc(r, 400), f[12] = {0, 1};

        for (int i = 0; i < n; i++)
                in_host[i] = i * 5 + 3;
        for (int i = 2; i < 12; i++)
                f[i] = f[i - 1] + f[i - 2];
        in = rig_copy(r, in_host, sizeof(in_host));
        rig_run(r, "calls_simple", RIG_DIM1(2), RIG_DIM1(64), 0, RIG_ARGS(&in, &simple, &n));
        rig_run(r, "calls_struct", RIG_DIM1(2), RIG_DIM1(64), 0, RIG_ARGS(&in, &st, &n));
        rig_run(r, "calls_divergent", RIG_DIM1(2), RIG_DIM1(64), 0, RIG_ARGS(&in, &div, &n));
        rig_run(r, "calls_recursive", RIG_DIM1(2), RIG_DIM1(64), 0, RIG_ARGS(&fib, &n));
        rig_run(r, "calls_local", RIG_DIM1(2), RIG_DIM1(64), 0, RIG_ARGS(&in, &loc, &n));
        rig_run(r, "calls_indirect", RIG_DIM1(2), RIG_DIM1(64), 0, RIG_ARGS(&in, &ind, &n));
        for (int i = 0; i < n; i++) {
                int v = in_host[i], a = v & 1 ? -2 * v : 2 * v, want = 0;

                cr_assert(simple[i] == v * v + i - (i * i + 3));
                cr_assert(st[i] == a + (double)(v * 0.25f) * 0.5, "struct %d", i);
                if (v % 3 == 0)
                        want = early(v);
                else if (v % 3 == 1)
                        want = early(v * 2) + v * v + 1;
                for (int k = 0; k < (i & 3); k++)
                        want += early(k * 10);
                cr_assert(div[i] == want, "divergent %d: %d %d", i, div[i], want);
                cr_assert(fib[i] == f[i % 12], "fib %d: %u", i, fib[i]);
                cr_assert(loc[i] == i * (v & 15) + 1 + i * (v >> 4 & 15) + 1, "local %d", i);
                cr_assert(ind[i] == (v % 3 == 0 ? v * v + i : v % 3 == 1 ? v - i : v ^ i), "indirect %d", i);
        }
}

Test(interp_flow, calls)
{
        rig_for_all("calls", calls_body);
}

/* --- address spaces --- */
static void spaces_body(struct rig *r)
{
        static const int table[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
        const float coefficients[4] = {0.5f, -1, 2, 3.25f};
        int n = 100, *index = (int *)rig_words(r, 100, 3), *out = rig_alloc(r, 257 * 4), *loc = rig_alloc(r, 400);
        float *f = rig_alloc(r, 400);
        uint64_t va = 0, size = 0;

        rig_write(r, "memory_coefficients", coefficients, sizeof(coefficients));
        rig_run(r, "memory_constant", RIG_DIM1(2), RIG_DIM1(64), 0, RIG_ARGS(&index, &f, &n));
        for (int i = 0; i < n; i++)
                cr_assert(f[i] == (float)table[index[i] & 15] * coefficients[index[i] & 3]);
        rig_run(r, "memory_globals", RIG_DIM1(1), RIG_DIM1(256), 0, RIG_ARGS(&out));
        for (int i = 0; i < 256; i++)
                cr_assert(out[i] == 255 - i + ((i & 3) * 3 + i % 3 + 1) + "detshare"[i & 7], "%d: %d", i, out[i]);
        cr_assert(out[256] == 7 + 256, "%d", out[256]);
        cr_assert(ds_interp_has_globals(r->interp));
        cr_assert(ds_interp_find_global(r->interp, "memory_counter", &va, &size) == 0 && size == 4);
        cr_assert(RIG_ON_GPU || *(int *)(uintptr_t)va == 263);
        cr_assert(ds_interp_find_global(r->interp, "no such", &va, &size) == -ENOENT);
        rig_run(r, "memory_local", RIG_DIM1(2), RIG_DIM1(64), 0, RIG_ARGS(&index, &loc, &n));
        for (int i = 0; i < n; i++) {
                int bins[32] = {0}, best = 0;

                for (int k = 0; k < 64; k++)
                        bins[((uint32_t)index[i] * (uint32_t)(k + 1)) & 31] += k;
                for (int k = 1; k < 32; k++)
                        best = bins[k] > bins[best] ? k : best;
                cr_assert(loc[i] == best * 1000 + bins[(index[i] >> 3) & 31], "local %d", i);
        }
}

static void vectors_body(struct rig *r)
{
        int n = 50, *in = (int *)rig_words(r, 200, 4), *cell = rig_alloc(r, 128), *vol = rig_alloc(r, 128);
        double *d = rig_alloc(r, 800), *out2 = rig_alloc(r, 800);
        int16_t *out = rig_alloc(r, 400);
        uint8_t *bytes = (uint8_t *)rig_words(r, 20, 6);
        int8_t *sb = rig_alloc(r, 50);
        uint16_t *us = rig_alloc(r, 100);
        float *dyn_in = rig_floats(r, 100, 1, 5), *dyn = rig_alloc(r, 400), *cached = rig_alloc(r, 800);
        int dyn_n = 100;

        for (int i = 0; i < 100; i++)
                d[i] = i * 0.75;
        rig_run(r, "memory_vector", RIG_DIM1(1), RIG_DIM1(64), 0, RIG_ARGS(&in, &d, &out, &out2, &n));
        rig_run(r, "memory_bytes", RIG_DIM1(1), RIG_DIM1(64), 0, RIG_ARGS(&bytes, &sb, &us, &n));
        rig_run(r, "memory_dynamic", RIG_DIM1(2), RIG_DIM1(50), 50 * 12, RIG_ARGS(&dyn_in, &dyn, &dyn_n));
        rig_run(r, "memory_cached", RIG_DIM1(1), RIG_DIM1(128), 0, RIG_ARGS(&dyn_in, &cached, &dyn_n));
        rig_run(r, "memory_volatile", RIG_DIM1(1), RIG_DIM1(32), 0, RIG_ARGS(&cell, &vol));
        for (int i = 0; i < n; i++) {
                for (int k = 0; k < 4; k++)
                        cr_assert(out[4 * i + k] == (int16_t)in[4 * i + k]);
                cr_assert(out2[2 * i] == d[2 * i + 1] && out2[2 * i + 1] == d[2 * i] + in[4 * i + 3]);
                cr_assert(sb[i] == (int8_t)(bytes[i] * 3) && us[i] == (uint16_t)(bytes[i] * 257u) >> 1);
        }
        for (int i = 0; i < 100; i++) {
                int t = i % 50, base = i - t;

                cr_assert(dyn[i] == dyn_in[base + 49 - t] + (float)(((t * 7) % 50) * 0.125));
                cr_assert(cached[i] == fmaf(dyn_in[99 - i], dyn_in[i], dyn_in[i]));
                cr_assert(cached[100 + i] == dyn_in[i] - dyn_in[99 - i]);
        }
        for (int i = 0; i < 32; i++)
                cr_assert(vol[i] == 6);
}

static void generic_body(struct rig *r)
{
        int *global = (int *)rig_words(r, 32, 8), before[32], *out = rig_alloc(r, 128);

        memcpy(before, global, sizeof(before));
        rig_run(r, "memory_generic", RIG_DIM1(1), RIG_DIM1(32), 0, RIG_ARGS(&global, &out));
        for (int t = 0; t < 32; t++) {
                int local[4] = {t, 2, 3, 4};
                int want = t % 3 == 0   ? 100 + ((t + 1) & 31) + 1000 + 1
                           : t % 3 == 1 ? before[t] + 1000 + 2
                                        : local[t & 3] + 1000 + 4;

                cr_assert(out[t] == want, "thread %d: %d %d", t, out[t], want);
        }
}

Test(interp_flow, address_spaces)
{
        rig_for_all("memory", spaces_body);
        rig_for_all("memory", vectors_body);
        rig_for_all("memory", generic_body);
}

/* --- parameters --- */
struct small {
        char tag;
        double value;
        short s;
};

struct shape {
        int dims[8];
        long long strides[8];
        float *data;
        unsigned char rank;
};

static void params_body(struct rig *r)
{
        signed char a = -3;
        short b = -400;
        int c = 70000, index = 5;
        long long d = -5000000000, *out = rig_alloc(r, 64), want = 0;
        unsigned char e = 200;
        float f = 1.5f, *data = rig_alloc(r, 128), *cross = rig_alloc(r, 12), *align = rig_alloc(r, 28);
        double g = 2.25, *small_out = rig_alloc(r, 24);
        bool h = true;
        struct small s = {'x', 2.5, -7};
        struct shape sh = {.data = data, .rank = 6};
        float v[3] = {1, 2, 3}, w[3] = {-4, 5, 0.5f}, four[4] = {1, 2, 3, 4};
        int two[2] = {8, 9};
        char ch = 'c';

        rig_run(r, "params_mixed", RIG_DIM1(1), RIG_DIM1(1), 0, RIG_ARGS(&a, &b, &c, &d, &e, &f, &g, &h, &out));
        cr_assert(out[0] == a && out[1] == b && out[2] == c && out[3] == d && out[4] == e && out[5] == 3 &&
                  out[6] == 9 && out[7]);
        rig_run(r, "params_small", RIG_DIM1(1), RIG_DIM1(1), 0, RIG_ARGS(&s, &small_out));
        cr_assert(small_out[0] == 'x' && small_out[1] == 2.5 && small_out[2] == -7);
        for (int i = 0; i < 8; i++) {
                sh.dims[i] = i * 3 + 1;
                sh.strides[i] = i * 1000 - 7;
                want += i < 6 ? sh.dims[i] * sh.strides[i] : 0;
        }
        rig_run(r, "params_shape", RIG_DIM1(1), RIG_DIM1(32), 0, RIG_ARGS(&sh, &index, &out));
        cr_assert(out[0] == 16 && out[1] == 4993 && out[2] == 6 && out[3] == want, "%lld %lld %lld %lld", out[0],
                out[1], out[2], out[3]);
        cr_assert(data[31] == 46.5f);
        rig_run(r, "params_vec3", RIG_DIM1(1), RIG_DIM1(1), 0, RIG_ARGS(v, w, &cross));
        cr_assert(cross[0] == 2 * 0.5f - 3 * 5 && cross[1] == 3 * -4 - 0.5f && cross[2] == 5 + 8);
        rig_run(r, "params_none", RIG_DIM1(4), RIG_DIM1(1024), 0, RIG_ARGS(NULL));
        rig_run(r, "params_align", RIG_DIM1(1), RIG_DIM1(1), 0, RIG_ARGS(four, &ch, two, &align));
        cr_assert(align[3] == 4 && align[4] == 'c' && align[5] == 8 && align[6] == 9);
}

Test(interp_flow, parameters)
{
        rig_for_all("params", params_body);
}

/* --- faults --- */
static struct ds_interp_result fault(struct rig *r, int which, int *data, long long size)
{
        return rig_launch(r, "memory_fault", RIG_DIM1(1), RIG_DIM1(64), 0, RIG_ARGS(&which, &data, &size));
}

static void faults_body(struct rig *r)
{
        int *data = rig_alloc(r, 256);
        struct ds_interp_result f;
        _Atomic uint32_t abort = 0;

        if (RIG_ON_GPU)
                return;
        f = fault(r, 0, data, 256);
        cr_assert(
                f.fault == DS_INTERP_FAULT_ADDRESS && f.address == (uintptr_t)(data + 64) && f.line > 0, "%d", f.fault);
        cr_assert(
                f.thread[0] == 0 && strstr(f.message, "memory_fault") && strstr(f.message, "4 bytes"), "%s", f.message);
        f = fault(r, 0, data, 192);
        cr_assert(f.fault == DS_INTERP_FAULT_ADDRESS && f.thread[0] == 16 && f.address == (uintptr_t)(data + 64));
        f = fault(r, 1, data, 0);
        cr_assert(f.fault == DS_INTERP_FAULT_ADDRESS && f.address == 0);
        f = fault(r, 2, data, 0);
        cr_assert(f.fault == DS_INTERP_FAULT_MISALIGNED && f.address == (uintptr_t)data + 2);
        f = fault(r, 3, data, 16);
        cr_assert(f.fault == DS_INTERP_FAULT_ADDRESS && f.address == 64);
        f = fault(r, 3, data, -1);
        cr_assert(f.fault == DS_INTERP_FAULT_ADDRESS);
        f = fault(r, 4, data, 0);
        cr_assert(f.fault == DS_INTERP_FAULT_TRAP);
        r->max_instructions = 100000;
        f = fault(r, 5, data, 0);
        cr_assert(f.fault == DS_INTERP_FAULT_BUDGET);
        cr_assert(f.cost.instructions >= 100000 && f.cost.instructions < 200000, "%llu",
                (unsigned long long)f.cost.instructions);
        r->max_instructions = 0;
        abort = 1;
        r->abort = &abort;
        f = fault(r, 5, data, 0);
        cr_assert(f.fault == DS_INTERP_FAULT_ABORTED);
        abort = 0;
        f = fault(r, 6, data, 0);
        cr_assert(f.fault == DS_INTERP_FAULT_BARRIER, "%d", f.fault);
        /* a fault leaves nothing behind in the rig */
        data[0] = 1;
        f = fault(r, 5, data, 0);
        cr_assert(f.fault == DS_INTERP_OK, "%d %s", f.fault, f.message);
}

static void assertion_body(struct rig *r)
{
        int limit = 100, *in = rig_alloc(r, 128), *out = rig_alloc(r, 128);
        struct ds_interp_result f;

        if (RIG_ON_GPU)
                return;
        rig_run(r, "assert_below", RIG_DIM1(1), RIG_DIM1(32), 0, RIG_ARGS(&in, &limit, &out));
        in[9] = 100;
        f = rig_launch(r, "assert_below", RIG_DIM1(1), RIG_DIM1(32), 0, RIG_ARGS(&in, &limit, &out));
        cr_assert(f.fault == DS_INTERP_FAULT_ASSERT && f.thread[0] == 9, "%d", f.fault);
        cr_assert(strstr(f.message, "v < limit") && strstr(f.message, "assertion.cu"), "%s", f.message);
}

Test(interp_flow, faults)
{
        rig_for_all("memory", faults_body);
        rig_for_all("assertion", assertion_body);
}
