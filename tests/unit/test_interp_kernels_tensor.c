/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The corpus in the interpreter, part five: matrix products by mma.sync and nvcuda::wmma
 *
 * Elements are small integers, so that every order of additions gives the same result, and references are exact.
 * test_interp_tensor.c tests rounding.
 */
#include "tests/support/interp_harness.h"

#include "util/macro.h"

/* A whole number from -2048 to 2048 as a half */
static uint16_t half_of(int v)
{
        uint32_t size = (uint32_t)abs(v), e = 25;

        if (!size)
                return 0;
        for (; size < 1024; e--)
                size <<= 1;
        return (uint16_t)((v < 0 ? 0x8000u : 0) | e << 10 | (size & 1023));
}

static uint16_t bf16_of(int v)
{
        float f = (float)v;
        uint32_t u;

        memcpy(&u, &f, 4);
        return (uint16_t)(u >> 16);
}

static int small(uint32_t *state)
{
        return (int)(rig_random(state) % 17) - 8;
}

/* Draws n small numbers, as ints and as halves in device memory */
static uint16_t *halves(struct rig *r, int *to, size_t n, uint32_t seed, uint16_t (*of)(int))
{
        uint16_t *p = rig_alloc(r, n * 2);

        for (size_t i = 0; i < n; i++) {
                to[i] = small(&seed);
                p[i] = of(to[i]);
        }
        return p;
}

static int target(struct rig *r, const char *kernel)
{
        return (int)ds_interp_kernel_info(ds_interp_find_kernel(r->interp, kernel))->target;
}

/* --- mma.sync --- */
static void mma_f16_body(struct rig *r)
{
        static int x[128 * 96], y[96 * 192];
        int m = 128, n = 192, k = 96;
        uint16_t *a = halves(r, x, (size_t)m * k, 1, half_of), *b = halves(r, y, (size_t)k * n, 2, half_of);
        float *out = rig_alloc(r, sizeof(float) * m * n);

        rig_run(r, "mma_gemm_f16", RIG_DIM2(n / 64, m / 64), RIG_DIM1(128), 0, RIG_ARGS(&a, &b, &out, &m, &n, &k));
        for (int i = 0; i < m; i++) {
                for (int j = 0; j < n; j++) {
                        int sum = 0;

                        for (int t = 0; t < k; t++)
                                sum += x[i * k + t] * y[t * n + j];
                        cr_assert(out[i * n + j] == (float)sum, "%d %d: %g, not %d", i, j, (double)out[i * n + j], sum);
                }
        }
        cr_assert(RIG_ON_GPU || r->cost.tensor_instructions >= 2 * 3 * 3 * 4 * 2 * 8, "%llu",
                (unsigned long long)r->cost.tensor_instructions);
}

static void mma_s8_body(struct rig *r)
{
        int n = 32, k = 128, m = 48;
        int8_t *a = (int8_t *)rig_words(r, (size_t)m * k / 4, 3), *b = (int8_t *)rig_words(r, (size_t)n * k / 4, 4);
        int *out = rig_alloc(r, sizeof(int) * m * n);

        rig_run(r, "mma_gemm_s8", RIG_DIM2(n / 8, m / 16), RIG_DIM1(32), 0, RIG_ARGS(&a, &b, &out, &n, &k));
        for (int i = 0; i < m * n; i++) {
                int sum = 0;

                for (int t = 0; t < k; t++)
                        sum += a[i / n * k + t] * b[i % n * k + t];
                cr_assert(out[i] == sum, "%d: %d, not %d", i, out[i], sum);
        }
}

static void mma_tf32_body(struct rig *r)
{
        int n = 24, k = 40, m = 32;
        float *a = rig_floats(r, (size_t)m * k, 2, 5), *b = rig_floats(r, (size_t)n * k, 2, 6);
        float *out = rig_alloc(r, sizeof(float) * m * n);
        double bound = target(r, "mma_gemm_tf32") >= 80 ? 0x1p-10 : 0x1p-22;

        rig_run(r, "mma_gemm_tf32", RIG_DIM2(n / 8, m / 16), RIG_DIM1(32), 0, RIG_ARGS(&a, &b, &out, &n, &k));
        for (int i = 0; i < m * n; i++) {
                double sum = 0, size = 0;

                for (int t = 0; t < k; t++) {
                        sum += (double)a[i / n * k + t] * b[t * n + i % n];
                        size += fabs((double)a[i / n * k + t] * b[t * n + i % n]);
                }
                cr_assert(fabs(out[i] - sum) <= bound * size, "%d: %g, not %g", i, (double)out[i], sum);
        }
}

/* Selector of sparse A: which two of each four elements are stored. Positions in nibbles; rows g and g + 8 in the
 * two halves of a word */
static void mma_sparse_body(struct rig *r)
{
        enum { M = 32, N = 16, K = 64 };
        static const uint32_t pairs[] = {4, 8, 12, 9, 13, 14};
        static int stored[M * K / 2], full[M][K], y[N * K];
        uint16_t *a = halves(r, stored, M * K / 2, 7, half_of), *b = halves(r, y, N * K, 8, half_of);
        uint32_t *meta = rig_alloc(r, M / 16 * (K / 32) * 16 * 4), state = 9;
        float *out = rig_alloc(r, sizeof(float) * M * N);
        int n = N, k = K;

        if (target(r, "mma_gemm_sparse") < 80)
                return;
        memset(full, 0, sizeof(full));
        for (int i = 0; i < M * K / 4; i++) {
                int row = i / (K / 4), q = i % (K / 4),
                    word = (row / 16 * (K / 32) + q / 8) * 16 + row % 8 * 2 + q / 4 % 2;
                uint32_t bits = pairs[rig_random(&state) % 6];

                meta[word] |= bits << (row % 16 / 8 * 16 + q % 4 * 4);
                full[row][4 * q + (bits & 3)] = stored[row * K / 2 + 2 * q];
                full[row][4 * q + (bits >> 2)] = stored[row * K / 2 + 2 * q + 1];
        }
        rig_run(r, "mma_gemm_sparse", RIG_DIM2(N / 8, M / 16), RIG_DIM1(32), 0, RIG_ARGS(&a, &b, &meta, &out, &n, &k));
        for (int i = 0; i < M * N; i++) {
                int sum = 0;

                for (int t = 0; t < K; t++)
                        sum += full[i / N][t] * y[i % N * K + t];
                cr_assert(out[i] == (float)sum, "%d: %g, not %d", i, (double)out[i], sum);
        }
}

static void mma_body(struct rig *r)
{
        mma_f16_body(r);
        mma_s8_body(r);
        mma_tf32_body(r);
        mma_sparse_body(r);
}

Test(interp_tensor_kernels, mma)
{
        rig_for_all("mma_gemm", mma_body);
}

/* --- wmma --- */
static void wmma_f16_body(struct rig *r)
{
        static int x[32 * 48], y[48 * 48];
        int m = 32, n = 48, k = 48;
        uint16_t *a = halves(r, x, (size_t)m * k, 11, half_of), *b = halves(r, y, (size_t)n * k, 12, half_of);
        float *c = rig_alloc(r, sizeof(float) * m * n), *d = rig_alloc(r, sizeof(float) * m * n), alpha = 0.5f,
              beta = -2;
        uint32_t state = 13;

        for (int i = 0; i < m * n; i++)
                c[i] = (float)small(&state);
        rig_run(r, "wmma_gemm_f16", RIG_DIM2(n / 16, m / 16), RIG_DIM1(32), 0,
                RIG_ARGS(&a, &b, &c, &d, &n, &k, &alpha, &beta));
        for (int i = 0; i < m * n; i++) {
                int sum = 0;

                for (int t = 0; t < k; t++)
                        sum += x[i / n * k + t] * y[i % n * k + t];
                cr_assert(d[i] == alpha * (float)sum + beta * c[i], "%d: %g", i, (double)d[i]);
        }
}

static void wmma_shapes_body(struct rig *r)
{
        static const int shapes[3][2] = {{16, 16}, {32, 8}, {8, 32}};
        static int x[512], y[512];
        uint16_t *a = halves(r, x, 512, 14, half_of), *b = halves(r, y, 512, 15, half_of), *d = rig_alloc(r, 768 * 2);

        rig_run(r, "wmma_shapes", RIG_DIM1(3), RIG_DIM1(32), 0, RIG_ARGS(&a, &b, &d));
        for (int s = 0; s < 3; s++) {
                int m = shapes[s][0], n = shapes[s][1];

                for (int i = 0; i < m * n; i++) {
                        int sum = 0;

                        for (int t = 0; t < 16; t++)
                                sum += x[t * m + i % m] * y[t * n + i / m];
                        cr_assert(d[s * 256 + i] == half_of(DS_MAX(sum, 0)), "shape %d, %d: %x, not %d", s, i,
                                d[s * 256 + i], sum);
                }
        }
}

static void wmma_s8_body(struct rig *r)
{
        int m = 48, n = 32, k = 64;
        int8_t *a = (int8_t *)rig_words(r, (size_t)m * k / 4, 16), *b = (int8_t *)rig_words(r, (size_t)n * k / 4, 17);
        int *d = rig_alloc(r, sizeof(int) * m * n);

        rig_run(r, "wmma_gemm_s8", RIG_DIM2(n / 16, m / 16), RIG_DIM1(32), 0, RIG_ARGS(&a, &b, &d, &m, &k));
        for (int i = 0; i < m * n; i++) {
                int sum = 0;

                for (int t = 0; t < k; t++)
                        sum += a[i % m * k + t] * b[i / m * k + t];
                cr_assert(d[i] == sum, "%d: %d, not %d", i, d[i], sum);
        }
}

static void wmma_wide_body(struct rig *r)
{
        static int x[256], y[256];
        uint16_t *a = halves(r, x, 256, 18, bf16_of), *b = halves(r, y, 256, 19, bf16_of);
        double *p = rig_alloc(r, 32 * 8), *q = rig_alloc(r, 32 * 8), *z = rig_alloc(r, 64 * 8);
        float *d = rig_alloc(r, 256 * 4);
        uint32_t state = 20;

        for (int i = 0; i < 32; i++) {
                p[i] = (double)rig_random(&state) / 3;
                q[i] = (double)rig_random(&state) / 7;
        }
        rig_run(r, "wmma_wide", RIG_DIM1(1), RIG_DIM1(32), 0, RIG_ARGS(&a, &b, &d, &p, &q, &z));
        for (int i = 0; i < 256 && target(r, "wmma_wide") >= 80; i++) {
                int sum = 0;
                double chain = 0;

                for (int t = 0; t < 16; t++)
                        sum += x[i / 16 * 16 + t] * y[i % 16 * 16 + t];
                cr_assert(d[i] == (float)sum, "%d: %g, not %d", i, (double)d[i], sum);
                for (int t = 0; t < 4 && i < 64; t++)
                        chain = fma(p[i / 8 * 4 + t], q[i % 8 * 4 + t], chain);
                cr_assert(i >= 64 || z[i] == chain, "%d: %a, not %a", i, z[i], chain);
        }
}

static void wmma_body(struct rig *r)
{
        wmma_f16_body(r);
        wmma_shapes_body(r);
        wmma_s8_body(r);
        wmma_wide_body(r);
}

Test(interp_tensor_kernels, wmma)
{
        rig_for_all("wmma_gemm", wmma_body);
}
