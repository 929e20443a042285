/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The corpus in the interpreter, part two: cooperating threads, by shared memory, shuffles, votes, atomics
 */
#include "tests/support/interp_harness.h"

/* --- reductions --- */
static float tree(float *s, int n)
{
        for (int d = n / 2; d > 0; d /= 2)
                for (int i = 0; i < d; i++)
                        s[i] += s[i + d];
        return s[0];
}

static void reduce_body(struct rig *r)
{
        int n = 1000, stride_n = 777;
        float *in = rig_floats(r, 1000, 10, 1), *out = rig_alloc(r, 32), *out2 = rig_alloc(r, 32);

        rig_run(r, "reduce_shared", RIG_DIM1(8), RIG_DIM1(128), 512, RIG_ARGS(&in, &out, &n));
        rig_run(r, "reduce_shuffle", RIG_DIM1(2), RIG_DIM1(96), 0, RIG_ARGS(&in, &out2, &stride_n));
        for (int b = 0; b < 8; b++) {
                float s[128];

                for (int i = 0; i < 128; i++)
                        s[i] = b * 128 + i < n ? in[b * 128 + i] : 0;
                cr_assert(out[b] == tree(s, 128), "block %d", b);
        }
        for (int b = 0; b < 2; b++) {
                float lane[32], part[32] = {0};

                for (int warp = 0; warp < 3; warp++) {
                        for (int t = 0; t < 32; t++) {
                                lane[t] = 0;
                                for (int i = b * 96 + warp * 32 + t; i < stride_n; i += 192)
                                        lane[t] += in[i];
                        }
                        part[warp] = tree(lane, 32);
                }
                cr_assert(out2[b] == part[0] + part[2] + part[1] || out2[b] == part[0] + part[1] + part[2] ||
                                  RIG_NEAR(out2[b], part[0] + part[1] + part[2], 1e-6),
                        "%a", out2[b]);
        }
}

static void minmax_body(struct rig *r)
{
        int n = 300, want_min = INT32_MAX, want_max = INT32_MIN;
        int *in = (int *)rig_words(r, 320, 7), *mm = rig_alloc(r, 8);
        uint32_t *words = (uint32_t *)in, *red = rig_alloc(r, 10 * 6 * 4);

        mm[0] = INT32_MAX;
        mm[1] = INT32_MIN;
        rig_run(r, "reduce_minmax", RIG_DIM1(5), RIG_DIM1(64), 0, RIG_ARGS(&in, &mm, &n));
        for (int i = 0; i < n; i++) {
                want_min = in[i] < want_min ? in[i] : want_min;
                want_max = in[i] > want_max ? in[i] : want_max;
        }
        cr_assert(mm[0] == want_min && mm[1] == want_max);
        rig_run(r, "reduce_redux", RIG_DIM1(10), RIG_DIM1(32), 0, RIG_ARGS(&words, &red));
        for (int b = 0; b < 10; b++) {
                uint32_t want[6] = {0, UINT32_MAX, 0, 0, UINT32_MAX, 0};

                for (int i = 0; i < 32; i++) {
                        uint32_t v = words[b * 32 + i];

                        want[0] += v;
                        want[1] &= v;
                        want[2] |= v;
                        want[3] ^= v;
                        want[4] = v < want[4] ? v : want[4];
                        want[5] = v > want[5] ? v : want[5];
                }
                cr_assert(memcmp(want, red + b * 6, sizeof(want)) == 0, "block %d", b);
        }
}

static void dot_body(struct rig *r)
{
        int n = 500;
        double *x = rig_alloc(r, 4000), *y = rig_alloc(r, 4000), *out = rig_alloc(r, 8), s[128] = {0};

        for (int i = 0; i < n; i++) {
                x[i] = sin(i);
                y[i] = 1.0 / (i + 1);
                s[i % 128] = fma(x[i], y[i], s[i % 128]);
        }
        for (int d = 64; d > 0; d /= 2)
                for (int i = 0; i < d; i++)
                        s[i] += s[i + d];
        rig_run(r, "dot_double", RIG_DIM1(1), RIG_DIM1(128), 0, RIG_ARGS(&x, &y, &out, &n));
        cr_assert(*out == s[0]);
}

Test(interp_warp, reductions)
{
        rig_for_all("reduce", reduce_body);
        rig_for_all("reduce", minmax_body);
        rig_for_all("reduce", dot_body);
}

/* --- histogram, scan --- */
static void histogram_body(struct rig *r)
{
        int n = 5000;
        uint8_t *in = (uint8_t *)rig_words(r, 1250, 11);
        uint32_t *a = rig_alloc(r, 1024), *b = rig_alloc(r, 1024), want[256] = {0};

        for (int i = 0; i < n; i++)
                want[in[i]]++;
        rig_run(r, "histogram_global", RIG_DIM1(4), RIG_DIM1(128), 0, RIG_ARGS(&in, &a, &n));
        rig_run(r, "histogram_shared", RIG_DIM1(3), RIG_DIM1(160), 0, RIG_ARGS(&in, &b, &n));
        cr_assert(memcmp(a, want, sizeof(want)) == 0);
        cr_assert(memcmp(b, want, sizeof(want)) == 0);
}

static void scan_body(struct rig *r)
{
        int n = 200, *in = (int *)rig_words(r, 1024, 3), *out = rig_alloc(r, 4096), *excl = rig_alloc(r, 4096);
        int *inc = rig_alloc(r, 4096), *sums = rig_alloc(r, 64), *look = rig_alloc(r, 4096), *ticket = rig_alloc(r, 4);
        uint64_t *status = rig_alloc(r, 64);
        uint32_t sum = 0, all = 0;
        int total = 1000;

        rig_run(r, "scan_hillis", RIG_DIM1(1), RIG_DIM1(256), 2 * 256 * 4, RIG_ARGS(&in, &out, &n));
        rig_run(r, "scan_blelloch", RIG_DIM1(1), RIG_DIM1(128), 1024, RIG_ARGS(&in, &excl));
        rig_run(r, "scan_shuffle", RIG_DIM1(4), RIG_DIM1(256), 0, RIG_ARGS(&in, &inc, &sums, &total));
        rig_run(r, "scan_lookback", RIG_DIM1(8), RIG_DIM1(128), 0, RIG_ARGS(&in, &look, &status, &ticket, &total));
        for (int i = 0; i < total; i++) {
                if (i < 256)
                        cr_assert((uint32_t)excl[i] == all, "blelloch %d", i);
                all += (uint32_t)in[i];
                sum = i % 256 ? sum + (uint32_t)in[i] : (uint32_t)in[i];
                if (i < n)
                        cr_assert((uint32_t)out[i] == all, "hillis %d", i);
                cr_assert((uint32_t)inc[i] == sum, "shuffle %d", i);
                cr_assert((uint32_t)look[i] == all, "look-back %d", i);
        }
}

Test(interp_warp, histogram_and_scan)
{
        rig_for_all("histogram", histogram_body);
        rig_for_all("scan", scan_body);
}

/* --- atomics --- */
static void atomics32_body(struct rig *r)
{
        uint32_t *cells = rig_alloc(r, 13 * 4), *in = rig_words(r, 192, 5);
        uint32_t want[13] = {0, 0, UINT32_MAX, 0, UINT32_MAX, 0, 0, 0, 0, INT32_MAX, (uint32_t)INT32_MIN, 0, 0};

        memcpy(cells, want, sizeof(want));
        rig_run(r, "atomics_u32", RIG_DIM1(3), RIG_DIM1(64), 0, RIG_ARGS(&cells, &in));
        for (int i = 0; i < 192; i++) {
                uint32_t v = in[i];

                want[0] += v;
                want[1] -= v;
                want[2] = v < want[2] ? v : want[2];
                want[3] = v > want[3] ? v : want[3];
                want[4] &= v | 0xffff;
                want[5] |= v & 0x00ff00ff;
                want[6] ^= v;
                want[7] = want[7] >= 100 ? 0 : want[7] + 1;
                want[8] = want[8] == 0 || want[8] > 50 ? 50 : want[8] - 1;
                want[9] = (int32_t)v < (int32_t)want[9] ? v : want[9];
                want[10] = (int32_t)v > (int32_t)want[10] ? v : want[10];
                want[11 + !(v & 1)]++;
        }
        for (int k = 0; k < 13; k++)
                cr_assert(cells[k] == want[k], "cell %d: %u, not %u", k, cells[k], want[k]);
}

static void atomics64_body(struct rig *r)
{
        uint64_t *cells = rig_alloc(r, 64), *in = (uint64_t *)rig_words(r, 256, 6);
        uint64_t want[8] = {0, UINT64_MAX, 0, UINT64_MAX, 0, 0, INT64_MAX, (uint64_t)INT64_MIN};

        memcpy(cells, want, sizeof(want));
        rig_run(r, "atomics_u64", RIG_DIM1(2), RIG_DIM1(64), 0, RIG_ARGS(&cells, &in));
        for (int i = 0; i < 128; i++) {
                uint64_t v = in[i];

                want[0] += v;
                want[1] = v < want[1] ? v : want[1];
                want[2] = v > want[2] ? v : want[2];
                want[3] &= v | UINT32_MAX;
                want[4] |= v & UINT64_C(0x00ff00ff00ff00ff);
                want[5] ^= v;
                want[6] = (int64_t)v < (int64_t)want[6] ? v : want[6];
                want[7] = (int64_t)v > (int64_t)want[7] ? v : want[7];
        }
        cr_assert(memcmp(cells, want, sizeof(want)) == 0);
}

static void atomics_loops_body(struct rig *r)
{
        uint32_t *counter = rig_alloc(r, 4), *seen = rig_alloc(r, 256 * 4), *cell = rig_alloc(r, 4), factor = 3,
                 want = 1;
        uint64_t *wide = rig_alloc(r, 8), want64 = 5;
        int *lock = rig_alloc(r, 4);

        rig_run(r, "atomics_ticket", RIG_DIM1(4), RIG_DIM1(64), 0, RIG_ARGS(&counter, &seen));
        for (int i = 0; i < 256; i++)
                cr_assert(seen[i] == 1);
        *cell = 1;
        *wide = 5;
        rig_run(r, "atomics_cas_mul", RIG_DIM1(2), RIG_DIM1(50), 0, RIG_ARGS(&cell, &factor));
        rig_run(r, "atomics_cas64", RIG_DIM1(2), RIG_DIM1(50), 0, RIG_ARGS(&wide));
        for (int i = 0; i < 100; i++) {
                want *= 3;
                want64 = want64 * 3 + 1;
        }
        cr_assert(*cell == want && *wide == want64);
        *counter = 0;
        rig_run(r, "atomics_spinlock", RIG_DIM1(2), RIG_DIM1(64), 0, RIG_ARGS(&lock, &counter));
        cr_assert(*counter == 128, "%u", *counter);
}

static void atomics_more_body(struct rig *r)
{
        float *f = rig_alloc(r, 4), *in = rig_floats(r, 128, 1, 8), want = 0;
        double *d = rig_alloc(r, 8), want_d = 0;
        uint32_t *cell = rig_alloc(r, 4), *out = rig_alloc(r, 512), *sh = rig_alloc(r, 20);
        uint64_t *wide = rig_alloc(r, 8), *out64 = rig_alloc(r, 1024), sum = 0, sum64 = 0;

        for (int i = 0; i < 128; i++)
                in[i] = roundf(in[i] * 1024) / 1024; /* multiples of 1/1024, whose sums are exact in any order */
        for (int i = 0; i < 128; i++) {
                want += in[i];
                want_d += in[i];
        }
        rig_run(r, "atomics_float", RIG_DIM1(2), RIG_DIM1(64), 0, RIG_ARGS(&f, &d, &in));
        cr_assert(*f == want && *d == want_d, "%g %g", *f, *d);
        *cell = 1000;
        *wide = 2000;
        rig_run(r, "atomics_exch", RIG_DIM1(2), RIG_DIM1(64), 0, RIG_ARGS(&cell, &wide, &out, &out64));
        for (int i = 0; i < 128; i++) {
                sum += out[i];
                sum64 += out64[i];
        }
        cr_assert(sum + *cell == 1000 + 128 * 129 / 2 && sum64 + *wide == 2000 + 128 * 129 / 2);
        rig_run(r, "atomics_shared", RIG_DIM1(1), RIG_DIM1(70), 0, RIG_ARGS(&sh));
        cr_assert(sh[0] == 69 * 70 / 2 && sh[1] == UINT32_MAX && sh[2] == 7 && sh[3] == 70 && sh[4] == 35,
                "%u %x %u %u %u", sh[0], sh[1], sh[2], sh[3], sh[4]);
}

Test(interp_warp, atomics)
{
        rig_for_all("atomics", atomics32_body);
        rig_for_all("atomics", atomics64_body);
        rig_for_all("atomics", atomics_loops_body);
        rig_for_all("atomics", atomics_more_body);
}

/* --- votes, shuffles --- */
static void votes_body(struct rig *r)
{
        int in_host[64], *in;
        uint32_t *out = rig_alloc(r, 64 * 24);

        for (int i = 0; i < 64; i++)
                in_host[i] = (i * 7) % 23 + (i == 40 ? 1 << 21 : 0);
        in = rig_copy(r, in_host, sizeof(in_host));
        rig_run(r, "votes_basic", RIG_DIM1(1), RIG_DIM1(64), 0, RIG_ARGS(&in, &out));
        for (int t = 0; t < 64; t++) {
                uint32_t ballot = 0, any = 0, all = 1, match = 0, *o = out + t * 6;

                for (int i = 0; i < 32; i++) {
                        int v = in_host[t / 32 * 32 + i];

                        ballot |= v > 10 ? 1u << i : 0;
                        any |= v == 3;
                        all &= v < 1000;
                        match |= (v & 3) == (in_host[t] & 3) ? 1u << i : 0;
                }
                cr_assert(o[0] == ballot && o[1] == any && o[2] == all && o[3] == match, "thread %d", t);
                cr_assert(t < 32 ? o[4] == UINT32_MAX && o[5] == 1 : o[4] == 0 && o[5] == 0, "match.all %d", t);
        }
}

/* The lane whose value `lane` gets from a shuffle in segments of `width` lanes */
static int source_lane(char how, int lane, int by, int width)
{
        int first = lane & ~(width - 1), j = how == 'u'   ? lane - by
                                             : how == 'd' ? lane + by
                                             : how == 'x' ? lane ^ by
                                                          : first + (by & (width - 1));

        if (how == 'x')
                /* in butterfly mode, only a lane beyond the segment's end is out of range */
                return j < first + width ? j : lane;
        return j >= first && j < first + width ? j : lane;
}

static void shuffle_body(struct rig *r)
{
        int *in = (int *)rig_words(r, 32, 9), *out = rig_alloc(r, 32 * 40), *pred = rig_alloc(r, 256),
            *part = rig_alloc(r, 256);

        rig_run(r, "votes_shuffle", RIG_DIM1(1), RIG_DIM1(32), 0, RIG_ARGS(&in, &out));
        rig_run(r, "votes_shuffle_pred", RIG_DIM1(1), RIG_DIM1(32), 0, RIG_ARGS(&pred));
        rig_run(r, "votes_partial", RIG_DIM1(1), RIG_DIM1(64), 0, RIG_ARGS(&part));
        for (int l = 0; l < 32; l++) {
                int *o = out + l * 10, from = l + 4 < (l & 28) + 4 ? l + 4 : l;

                cr_assert(o[0] == in[(l * 7) & 31]);
                cr_assert(o[1] == in[source_lane('i', l, l + 3, 8)]);
                cr_assert(o[2] == in[source_lane('u', l, 5, 32)]);
                cr_assert(o[3] == in[source_lane('u', l, 3, 16)]);
                cr_assert(o[4] == in[source_lane('d', l, 9, 32)]);
                cr_assert(o[5] == in[source_lane('d', l, 2, 4)]);
                cr_assert(o[6] == in[source_lane('x', l, 21, 32)]);
                cr_assert(o[7] == in[source_lane('x', l, 9, 8)], "lane %d: xor in a segment", l);
                cr_assert(o[8] == (int)(int64_t)(in[l ^ 1] * 2.0));
                cr_assert(o[9] == (int)((int64_t)((uint64_t)(int64_t)in[source_lane('d', l, 1, 32)] << 20) >> 18));
                cr_assert(pred[2 * l] == from * 11 && pred[2 * l + 1] == (from != l), "lane %d", l);
        }
        for (int t = 0; t < 64; t++) {
                int l = t & 31, v = (l ^ 5) * (l ^ 5), w = l ^ (l < 16 ? 3 : 6), u = (w ^ 5) * (w ^ 5);

                cr_assert(part[t] == (l < 16 ? v + u : v - u), "thread %d", t);
        }
}

static void aggregate_body(struct rig *r)
{
        int n = 190, in_host[192], *in, hits = 0;
        uint32_t *counter = rig_alloc(r, 4), *slots = rig_alloc(r, 192 * 4), *masks = rig_alloc(r, 256),
                 seen[192] = {0};

        for (int i = 0; i < 192; i++)
                in_host[i] = (i * 37) % 11 - 5;
        in = rig_copy(r, in_host, sizeof(in_host));
        rig_run(r, "votes_aggregate", RIG_DIM1(2), RIG_DIM1(96), 0, RIG_ARGS(&in, &counter, &slots, &n));
        for (int i = 0; i < n; i++)
                hits += in_host[i] > 0;
        cr_assert(*counter == (uint32_t)hits);
        for (int i = 0; i < hits; i++) {
                cr_assert(slots[i] < 190 && in_host[slots[i]] > 0 && !seen[slots[i]]++);
        }
        rig_run(r, "votes_masks", RIG_DIM1(1), RIG_DIM1(32), 0, RIG_ARGS(&masks));
        for (uint32_t l = 0; l < 32; l++) {
                uint32_t eq = 1u << l, lt = eq - 1, le = eq | lt, ge = ~lt, gt = ~le;

                cr_assert(masks[2 * l] == (eq ^ (lt << 1) ^ le ^ (gt * 3) ^ (ge * 5)));
                cr_assert(masks[2 * l + 1] == (l | 1 << 8));
        }
}

Test(interp_warp, votes_and_shuffles)
{
        rig_for_all("votes", votes_body);
        rig_for_all("votes", shuffle_body);
        rig_for_all("votes", aggregate_body);
}

/* --- templates --- */
static void templates_body(struct rig *r)
{
        int n = 1000, *in = (int *)rig_words(r, 1000, 21), *out = rig_alloc(r, 4), sum = 0;
        int64_t *wide = rig_alloc(r, 8000), *out64 = rig_alloc(r, 8), most = -1000000;
        double *d = rig_alloc(r, 8000), *out_d = rig_alloc(r, 8), most_d = -1e6;
        float *data = rig_floats(r, 1000, 2, 3), scale = 1.5f, *old = malloc(4000);
        uint32_t *p = rig_words(r, 64, 4), *q = rig_alloc(r, 256);

        for (int i = 0; i < n; i++) {
                wide[i] = (int64_t)in[i] * 1000;
                d[i] = in[i] * 1e-3;
                sum = (int)((uint32_t)sum + (uint32_t)in[i]);
                most = wide[i] > most ? wide[i] : most;
                most_d = d[i] > most_d ? d[i] : most_d;
        }
        memcpy(old, data, 4000);
        rig_run(r, "template_sum_int", RIG_DIM1(1), RIG_DIM1(128), 0, RIG_ARGS(&in, &out, &n));
        rig_run(r, "template_max_long", RIG_DIM1(1), RIG_DIM1(64), 0, RIG_ARGS(&wide, &out64, &n));
        rig_run(r, "template_max_double", RIG_DIM1(1), RIG_DIM1(256), 0, RIG_ARGS(&d, &out_d, &n));
        rig_run(r, "template_lambda", RIG_DIM1(3), RIG_DIM1(100), 0, RIG_ARGS(&data, &scale, &n));
        rig_run(r, "template_power", RIG_DIM1(1), RIG_DIM1(64), 0, RIG_ARGS(&p, &q));
        cr_assert(*out == sum && *out64 == most && *out_d == most_d);
        for (int i = 0; i < n; i++)
                cr_assert(data[i] == fmaf(old[i], scale, (float)i));
        for (uint32_t i = 0; i < 64; i++) {
                uint32_t x = p[i];

                cr_assert(q[i] == x * x * x * x * x * x * x + i * i * i);
        }
        free(old);
}

Test(interp_warp, templates)
{
        rig_for_all("templates", templates_body);
}
