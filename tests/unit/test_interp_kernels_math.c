/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The corpus in the interpreter, part one: dense algebra, convolutions, layers of networks
 *
 * References repeat the kernel's order of operations. The compiler contracts a * b + c, so references use fmaf, and
 * results must be equal bit by bit. Where a kernel uses approximations (exp, rsqrt, erf) the test states a relative
 * tolerance.
 */
#include "tests/support/interp_harness.h"

/* --- saxpy --- */
static void saxpy_body(struct rig *r)
{
        int n = 1000, n4 = 250;
        float a = 1.7f, *x = rig_floats(r, 1000, 10, 1), *y = rig_floats(r, 1000, 10, 2), *old = malloc(4000);

        memcpy(old, y, 4000);
        rig_run(r, "saxpy", RIG_DIM1(8), RIG_DIM1(128), 0, RIG_ARGS(&n, &a, &x, &y));
        for (int i = 0; i < n; i++)
                cr_assert(y[i] == fmaf(a, x[i], old[i]), "saxpy %d", i);
        memcpy(y, old, 4000);
        rig_run(r, "saxpy_stride", RIG_DIM1(3), RIG_DIM1(96), 0, RIG_ARGS(&n, &a, &x, &y));
        for (int i = 0; i < n; i++)
                cr_assert(y[i] == fmaf(a, x[i], old[i]), "stride %d", i);
        memcpy(y, old, 4000);
        rig_run(r, "saxpy_vec4", RIG_DIM1(2), RIG_DIM1(128), 0, RIG_ARGS(&n4, &a, &x, &y));
        for (int i = 0; i < n; i++)
                cr_assert(y[i] == fmaf(a, x[i], old[i]), "vec4 %d", i);
        free(old);
}

Test(interp_math, saxpy)
{
        rig_for_all("saxpy", saxpy_body);
}

static void daxpy_body(struct rig *r)
{
        int n = 333;
        double a = -0.3, *x = rig_alloc(r, 333 * 8), *y = rig_alloc(r, 333 * 8), old[333];
        float *p = rig_floats(r, 333, 3, 9), *q = rig_floats(r, 333, 3, 4), *s = rig_alloc(r, 333 * 4);

        for (int i = 0; i < n; i++) {
                x[i] = sin(i);
                old[i] = y[i] = cos(i) * 1e6;
        }
        rig_run(r, "daxpy", RIG_DIM1(6), RIG_DIM1(64), 0, RIG_ARGS(&n, &a, &x, &y));
        rig_run(r, "vector_add", RIG_DIM1(6), RIG_DIM1(64), 0, RIG_ARGS(&p, &q, &s, &n));
        for (int i = 0; i < n; i++) {
                cr_assert(y[i] == fma(a, x[i], old[i]), "daxpy %d", i);
                cr_assert(s[i] == p[i] + q[i], "add %d", i);
        }
}

Test(interp_math, daxpy_and_add)
{
        rig_for_all("saxpy", daxpy_body);
}

/* --- gemm --- */
static float *product(const float *a, const float *b, int m, int n, int k)
{
        float *c = calloc((size_t)m * (size_t)n, sizeof(*c));

        for (int i = 0; i < m; i++)
                for (int j = 0; j < n; j++)
                        for (int l = 0; l < k; l++)
                                c[i * n + j] = fmaf(a[i * k + l], b[l * n + j], c[i * n + j]);
        return c;
}

static void gemm_check(struct rig *r, const char *kernel, int m, int n, int k, rig_dim grid)
{
        float *a = rig_floats(r, (size_t)(m * k), 1, 1), *b = rig_floats(r, (size_t)(k * n), 1, 2);
        float *c = rig_alloc(r, (size_t)(m * n) * 4), *want = product(a, b, m, n, k);

        rig_run(r, kernel, grid, RIG_DIM2(16, 16), 0, RIG_ARGS(&m, &n, &k, &a, &b, &c));
        for (int i = 0; i < m * n; i++)
                cr_assert(c[i] == want[i], "%s: element %d is %a, not %a", kernel, i, c[i], want[i]);
        free(want);
}

static void gemm_body(struct rig *r)
{
        gemm_check(r, "gemm_naive", 37, 45, 29, RIG_DIM2(3, 3));
        gemm_check(r, "gemm_tiled", 48, 32, 64, RIG_DIM2(2, 3));
        gemm_check(r, "gemm_tiled", 37, 45, 29, RIG_DIM2(3, 3));
        gemm_check(r, "gemm_register", 128, 64, 48, RIG_DIM2(1, 2));
}

Test(interp_math, gemm)
{
        rig_for_all("gemm", gemm_body);
}

static void gemv_body(struct rig *r)
{
        int m = 13, n = 200;
        float *a = rig_floats(r, 2600, 1, 5), *x = rig_floats(r, 200, 1, 6), *y = rig_alloc(r, 13 * 4);

        rig_run(r, "gemv", RIG_DIM1(4), RIG_DIM1(128), 0, RIG_ARGS(&m, &n, &a, &x, &y));
        for (int row = 0; row < m; row++) {
                float lane[32] = {0};

                for (int i = 0; i < n; i++)
                        lane[i % 32] = fmaf(a[row * n + i], x[i], lane[i % 32]);
                for (int d = 16; d > 0; d /= 2)
                        for (int i = 0; i + d < 32; i++)
                                lane[i] += lane[i + d];
                cr_assert(y[row] == lane[0], "row %d: %a %a", row, y[row], lane[0]);
        }
}

Test(interp_math, gemv)
{
        rig_for_all("gemm", gemv_body);
}

/* --- transposition, stencil --- */
static void transpose_body(struct rig *r)
{
        int w = 70, h = 45;
        float *in = rig_floats(r, 70 * 45, 9, 3), *out = rig_alloc(r, 70 * 45 * 4), *out2 = rig_alloc(r, 70 * 45 * 4);

        rig_run(r, "transpose_naive", RIG_DIM2(5, 3), RIG_DIM2(16, 16), 0, RIG_ARGS(&out, &in, &w, &h));
        rig_run(r, "transpose_tiled", RIG_DIM2(3, 2), RIG_DIM2(32, 8), 0, RIG_ARGS(&out2, &in, &w, &h));
        for (int y = 0; y < h; y++)
                for (int x = 0; x < w; x++)
                        cr_assert(out[x * h + y] == in[y * w + x] && out2[x * h + y] == in[y * w + x], "%d %d", x, y);
}

Test(interp_math, transpose)
{
        rig_for_all("transpose", transpose_body);
}

static void stencil_body(struct rig *r)
{
        int nx = 19, ny = 11, nz = 7, plane = 19 * 11;
        float *in = rig_floats(r, 19 * 11 * 7, 1, 8), *out = rig_alloc(r, 19 * 11 * 7 * 4);

        rig_run(r, "stencil7", RIG_DIM3(3, 3, 4), RIG_DIM3(8, 4, 2), 0, RIG_ARGS(&in, &out, &nx, &ny, &nz));
        for (int i = 0; i < plane * nz; i++) {
                int x = i % nx, y = i / nx % ny, z = i / plane;
                float want = in[i];

                if (x && y && z && x < nx - 1 && y < ny - 1 && z < nz - 1)
                        want = 0.4f * in[i] + 0.1f * (in[i - 1] + in[i + 1]) + 0.1f * (in[i - nx] + in[i + nx]) +
                               0.1f * (in[i - plane] + in[i + plane]);
                cr_assert(RIG_NEAR(out[i], want, 1e-6), "%d %d %d: %g %g", x, y, z, out[i], want);
        }
}

static void where_body(struct rig *r)
{
        uint32_t *out = rig_alloc(r, 24 * 64 * 4);

        rig_run(r, "grid3d_where", RIG_DIM3(2, 3, 4), RIG_DIM3(4, 8, 2), 0, RIG_ARGS(&out));
        for (uint32_t b = 0; b < 24; b++) {
                for (uint32_t t = 0; t < 64; t++) {
                        uint32_t want = (b % 2) | (b / 2 % 3) << 4 | (b / 6) << 8 | (t % 4) << 12 | (t / 4 % 8) << 16 |
                                        (t / 32) << 20 | (t / 32) << 24;

                        cr_assert(out[b * 64 + t] == want, "block %u thread %u: %x %x", b, t, out[b * 64 + t], want);
                }
        }
}

Test(interp_math, three_dimensions)
{
        rig_for_all("grid3d", stencil_body);
        rig_for_all("grid3d", where_body);
}

/* --- convolutions --- */
static void conv_body(struct rig *r)
{
        int c = 3, h = 13, w = 17, oc = 5;
        float *in = rig_floats(r, 3 * 13 * 17, 1, 1), *f = rig_floats(r, 5 * 27, 1, 2), *bias = rig_floats(r, 5, 1, 3);
        float *out = rig_alloc(r, 5 * 13 * 17 * 4), *columns = rig_alloc(r, 27 * 13 * 17 * 4);

        rig_run(r, "conv3x3", RIG_DIM3(3, 2, 5), RIG_DIM2(8, 8), 0, RIG_ARGS(&in, &f, &bias, &out, &c, &h, &w));
        rig_run(r, "im2col3x3", RIG_DIM1(47), RIG_DIM1(128), 0, RIG_ARGS(&in, &columns, &c, &h, &w));
        for (int i = 0; i < oc * h * w; i++) {
                int x = i % w, y = i / w % h, o = i / w / h;
                float sum = bias[o], through_columns = bias[o];

                for (int k = 0; k < c * 9; k++) {
                        int sx = x + k % 3 - 1, sy = y + k / 3 % 3 - 1;
                        float column = columns[k * h * w + y * w + x];

                        through_columns = fmaf(column, f[o * 27 + k], through_columns);
                        if (sx < 0 || sy < 0 || sx >= w || sy >= h) {
                                cr_assert(column == 0);
                                continue;
                        }
                        cr_assert(column == in[(k / 9 * h + sy) * w + sx]);
                        sum = fmaf(in[(k / 9 * h + sy) * w + sx], f[o * 27 + k], sum);
                }
                cr_assert(out[i] == (sum > 0 ? sum : 0), "%d: %a %a", i, out[i], sum);
                cr_assert(RIG_NEAR(sum, through_columns, 1e-6));
        }
}

static void conv1d_body(struct rig *r)
{
        static const float taps[9] = {0.01f, 0.05f, 0.1f, 0.2f, 0.28f, 0.2f, 0.1f, 0.05f, 0.01f};
        int n = 700, h = 10, w = 12;
        float *in = rig_floats(r, 700, 1, 4), *out = rig_alloc(r, 2800), *pool = rig_alloc(r, 3 * 5 * 6 * 4);

        rig_run(r, "conv1d", RIG_DIM1(3), RIG_DIM1(256), 0, RIG_ARGS(&in, &out, &n));
        for (int i = 0; i < n; i++) {
                float sum = 0;

                for (int k = -4; k <= 4; k++)
                        sum = fmaf(i + k >= 0 && i + k < n ? in[i + k] : 0, taps[k + 4], sum);
                cr_assert(out[i] == sum, "%d: %a %a", i, out[i], sum);
        }
        rig_run(r, "maxpool2x2", RIG_DIM3(1, 1, 3), RIG_DIM2(8, 8), 0, RIG_ARGS(&in, &pool, &h, &w));
        for (int i = 0; i < 3 * 5 * 6; i++) {
                const float *p = in + (i / 30 * 10 + i / 6 % 5 * 2) * 12 + i % 6 * 2;

                cr_assert(pool[i] == fmaxf(fmaxf(p[0], p[1]), fmaxf(p[12], p[13])));
        }
}

Test(interp_math, convolutions)
{
        rig_for_all("conv", conv_body);
        rig_for_all("conv", conv1d_body);
}

/* --- networks --- */
static void softmax_body(struct rig *r)
{
        int rows = 5, n = 100;
        float *in = rig_floats(r, 500, 8, 1), *out = rig_alloc(r, 2000), *out2 = rig_alloc(r, 2000);

        rig_run(r, "softmax_block", RIG_DIM1(5), RIG_DIM1(64), 0, RIG_ARGS(&in, &out, &n));
        rig_run(r, "softmax_warp", RIG_DIM1(2), RIG_DIM1(96), 0, RIG_ARGS(&in, &out2, &rows, &n));
        for (int row = 0; row < rows; row++) {
                double top = -INFINITY, sum = 0;

                for (int i = 0; i < n; i++)
                        top = fmax(top, in[row * n + i]);
                for (int i = 0; i < n; i++)
                        sum += exp(in[row * n + i] - top);
                for (int i = 0; i < n; i++) {
                        double want = exp(in[row * n + i] - top) / sum;

                        cr_assert(RIG_NEAR(out[row * n + i], want, 1e-6), "%g %g", out[row * n + i], want);
                        cr_assert(RIG_NEAR(out2[row * n + i], want, 2e-6), "%g %g", out2[row * n + i], want);
                }
        }
}

static void layernorm_body(struct rig *r)
{
        int n = 150;
        float eps = 1e-5f, *in = rig_floats(r, 600, 3, 1), *g = rig_floats(r, 150, 1, 2), *b = rig_floats(r, 150, 1, 3);
        float *out = rig_alloc(r, 2400), *rms = rig_alloc(r, 2400);

        rig_run(r, "layernorm", RIG_DIM1(4), RIG_DIM1(128), 0, RIG_ARGS(&in, &g, &b, &out, &n, &eps));
        rig_run(r, "rmsnorm", RIG_DIM1(4), RIG_DIM1(128), 0, RIG_ARGS(&in, &g, &rms, &n, &eps));
        for (int row = 0; row < 4; row++) {
                double mean = 0, var = 0, square = 0;

                for (int i = 0; i < n; i++)
                        mean += in[row * n + i] / (double)n;
                for (int i = 0; i < n; i++) {
                        var += (in[row * n + i] - mean) * (in[row * n + i] - mean) / n;
                        square += (double)in[row * n + i] * in[row * n + i] / n;
                }
                for (int i = 0; i < n; i++) {
                        cr_assert(RIG_NEAR(
                                out[row * n + i], (in[row * n + i] - mean) / sqrt(var + eps) * g[i] + b[i], 1e-5));
                        cr_assert(RIG_NEAR(rms[row * n + i], in[row * n + i] / sqrt(square + eps) * g[i], 1e-5));
                }
        }
}

static void gelu_body(struct rig *r)
{
        int n = 500, channels = 5, pixels = 100;
        float *in = rig_floats(r, 500, 5, 1), *e = rig_alloc(r, 2000), *t = rig_alloc(r, 2000), *s = rig_alloc(r, 2000);
        float *bias = rig_floats(r, 5, 1, 2), *data = rig_copy(r, in, 2000);

        rig_run(r, "gelu_erf", RIG_DIM1(4), RIG_DIM1(128), 0, RIG_ARGS(&in, &e, &n));
        rig_run(r, "gelu_tanh", RIG_DIM1(4), RIG_DIM1(128), 0, RIG_ARGS(&in, &t, &n));
        rig_run(r, "silu", RIG_DIM1(4), RIG_DIM1(128), 0, RIG_ARGS(&in, &s, &n));
        rig_run(r, "bias_relu", RIG_DIM1(4), RIG_DIM1(128), 0, RIG_ARGS(&data, &bias, &channels, &pixels));
        for (int i = 0; i < n; i++) {
                double x = in[i];

                cr_assert(RIG_NEAR(e[i], 0.5 * x * (1 + erf(x * 0.70710678)), 1e-6));
                cr_assert(RIG_NEAR(t[i], 0.5 * x * (1 + tanh(0.79788456 * (x + 0.044715 * x * x * x))), 1e-6));
                cr_assert(RIG_NEAR(s[i], x / (1 + exp(-x)), 1e-6));
                cr_assert(data[i] == fmaxf(in[i] + bias[i / 100], 0));
        }
}

Test(interp_math, networks)
{
        rig_for_all("softmax", softmax_body);
        rig_for_all("layernorm", layernorm_body);
        rig_for_all("gelu", gelu_body);
}
