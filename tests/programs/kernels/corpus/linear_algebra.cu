/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: dense linear algebra, from one row per thread to tiles in registers; f32, f64 and complex. */
// targets: sm_80
#include <cstdint>

extern "C" __global__ void la_dot(const float *x, const float *y, float *out, int n)
{
        __shared__ float part[8];
        float sum = 0;

        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
                sum = fmaf(x[i], y[i], sum);
        for (int step = 16; step; step >>= 1)
                sum += __shfl_down_sync(~0u, sum, step);
        if (threadIdx.x % 32 == 0)
                part[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
                for (unsigned w = 1; w < blockDim.x / 32; w++)
                        sum += part[w];
                atomicAdd(out, sum);
        }
}

extern "C" __global__ void la_axpby(double a, const double *x, double b, double *y, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                y[i] = a * x[i] + b * y[i];
}

extern "C" __global__ void la_rotate(float *x, float *y, float c, float s, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                float u = x[i], v = y[i];

                x[i] = c * u + s * v;
                y[i] = c * v - s * u;
        }
}

extern "C" __global__ void la_norm2_scaled(const double *x, double *out, int n)
{
        double scale = 0, sum = 1;

        for (int i = threadIdx.x; i < n; i += blockDim.x) {
                double a = fabs(x[i]);

                if (a == 0)
                        continue;
                if (scale < a) {
                        sum = 1 + sum * (scale / a) * (scale / a);
                        scale = a;
                } else {
                        sum += (a / scale) * (a / scale);
                }
        }
        out[threadIdx.x] = scale * sqrt(sum);
}

extern "C" __global__ void la_amax(const float *x, int *index, int n)
{
        __shared__ float best[256];
        __shared__ int at[256];
        float most = -1;
        int where = 0;

        for (int i = threadIdx.x; i < n; i += 256) {
                if (fabsf(x[i]) > most) {
                        most = fabsf(x[i]);
                        where = i;
                }
        }
        best[threadIdx.x] = most;
        at[threadIdx.x] = where;
        for (unsigned half = 128; half; half /= 2) {
                __syncthreads();
                if (threadIdx.x < half && best[threadIdx.x + half] > best[threadIdx.x]) {
                        best[threadIdx.x] = best[threadIdx.x + half];
                        at[threadIdx.x] = at[threadIdx.x + half];
                }
        }
        if (threadIdx.x == 0)
                *index = at[0];
}

extern "C" __global__ void la_gemv_transposed(const float *a, const float *x, float *y, int rows, int columns)
{
        int j = blockIdx.x * blockDim.x + threadIdx.x;
        float sum = 0;

        if (j >= columns)
                return;
#pragma unroll 4
        for (int i = 0; i < rows; i++)
                sum += a[i * columns + j] * x[i];
        y[j] = sum;
}

extern "C" __global__ void la_rank_one(float *a, const float *x, const float *y, float alpha, int rows, int columns)
{
        int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;

        if (i < rows && j < columns)
                a[i * columns + j] += alpha * x[i] * y[j];
}

extern "C" __global__ void la_solve_lower(const double *l, double *b, int n)
{
        for (int i = 0; i < n; i++) {
                if (threadIdx.x == 0)
                        b[i] /= l[i * n + i];
                __syncthreads();
                for (int k = i + 1 + threadIdx.x; k < n; k += blockDim.x)
                        b[k] -= l[k * n + i] * b[i];
                __syncthreads();
        }
}

extern "C" __global__ void la_solve_upper(const double *u, double *b, int n)
{
        for (int i = n - 1; i >= 0; i--) {
                if (threadIdx.x == 0)
                        b[i] /= u[i * n + i];
                __syncthreads();
                for (int k = threadIdx.x; k < i; k += blockDim.x)
                        b[k] -= u[k * n + i] * b[i];
                __syncthreads();
        }
}

extern "C" __global__ void la_cholesky_tile(float *a, int stride)
{
        __shared__ float t[32][33];
        int i = threadIdx.y, j = threadIdx.x;

        t[i][j] = a[i * stride + j];
        __syncthreads();
        for (int k = 0; k < 32; k++) {
                if (i == k && j == k)
                        t[k][k] = sqrtf(t[k][k]);
                __syncthreads();
                if (j == k && i > k)
                        t[i][k] /= t[k][k];
                __syncthreads();
                if (j > k && i >= j)
                        t[i][j] -= t[i][k] * t[j][k];
                __syncthreads();
        }
        a[i * stride + j] = j <= i ? t[i][j] : 0;
}

extern "C" __global__ void la_lu_pivot(float *a, int *pivots, int n, int k)
{
        __shared__ int pivot;
        int j = threadIdx.x;

        if (j == 0) {
                pivot = k;
                for (int i = k + 1; i < n; i++)
                        pivot = fabsf(a[i * n + k]) > fabsf(a[pivot * n + k]) ? i : pivot;
                pivots[k] = pivot;
        }
        __syncthreads();
        for (; j < n; j += blockDim.x) {
                float t = a[k * n + j];

                a[k * n + j] = a[pivot * n + j];
                a[pivot * n + j] = t;
        }
}

extern "C" __global__ void la_lu_update(float *a, int n, int k)
{
        int i = k + 1 + blockIdx.y * blockDim.y + threadIdx.y, j = k + 1 + blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n && j < n)
                a[i * n + j] -= a[i * n + k] / a[k * n + k] * a[k * n + j];
}

extern "C" __global__ void la_householder(double *a, double *tau, int rows, int columns, int k)
{
        __shared__ double sum;
        double alpha, beta, v;

        if (threadIdx.x == 0) {
                sum = 0;
                for (int i = k + 1; i < rows; i++)
                        sum += a[i * columns + k] * a[i * columns + k];
        }
        __syncthreads();
        alpha = a[k * columns + k];
        beta = -copysign(sqrt(alpha * alpha + sum), alpha);
        v = 1 / (alpha - beta);
        __syncthreads();
        for (int i = k + 1 + threadIdx.x; i < rows; i += blockDim.x)
                a[i * columns + k] *= v;
        if (threadIdx.x == 0) {
                tau[k] = (beta - alpha) / beta;
                a[k * columns + k] = beta;
        }
}

extern "C" __global__ void la_jacobi_rotation(const float *a, float *c, float *s, int n, const int2 *pairs)
{
        int2 p = pairs[threadIdx.x];
        float apq = a[p.x * n + p.y], theta, t;

        if (apq == 0) {
                c[threadIdx.x] = 1;
                s[threadIdx.x] = 0;
                return;
        }
        theta = (a[p.y * n + p.y] - a[p.x * n + p.x]) / (2 * apq);
        t = copysignf(1.0f, theta) / (fabsf(theta) + sqrtf(theta * theta + 1));
        c[threadIdx.x] = rsqrtf(t * t + 1);
        s[threadIdx.x] = t * c[threadIdx.x];
}

extern "C" __global__ void la_thomas(
        const float *lower, const float *diagonal, const float *upper, float *x, float *scratch, int n, int systems)
{
        int s = blockIdx.x * blockDim.x + threadIdx.x;

        if (s >= systems)
                return;
        scratch[s] = upper[s] / diagonal[s];
        x[s] /= diagonal[s];
        for (int i = 1; i < n; i++) {
                int at = i * systems + s;
                float m = 1 / (diagonal[at] - lower[at] * scratch[at - systems]);

                scratch[at] = upper[at] * m;
                x[at] = (x[at] - lower[at] * x[at - systems]) * m;
        }
        for (int i = n - 2; i >= 0; i--)
                x[i * systems + s] -= scratch[i * systems + s] * x[(i + 1) * systems + s];
}

extern "C" __global__ void la_cyclic_reduction(const float *a0, const float *b0, const float *c0, float *d0)
{
        __shared__ float a[256], b[256], c[256], d[256];
        int i = threadIdx.x;

        a[i] = a0[i];
        b[i] = b0[i];
        c[i] = c0[i];
        d[i] = d0[i];
        for (int step = 1; step < 256; step *= 2) {
                float na, nb, nc, nd, l = 0, u = 0;

                __syncthreads();
                na = nc = 0;
                nb = b[i];
                nd = d[i];
                if (i >= step) {
                        l = a[i] / b[i - step];
                        na = -a[i - step] * l;
                        nb -= c[i - step] * l;
                        nd -= d[i - step] * l;
                }
                if (i + step < 256) {
                        u = c[i] / b[i + step];
                        nc = -c[i + step] * u;
                        nb -= a[i + step] * u;
                        nd -= d[i + step] * u;
                }
                __syncthreads();
                a[i] = na;
                b[i] = nb;
                c[i] = nc;
                d[i] = nd;
        }
        d0[i] = d[i] / b[i];
}

template <int TILE, int EACH>
__device__ void gemm_double_tile(const double *a, const double *b, double *c, int m, int n, int k)
{
        __shared__ double as[TILE][TILE], bs[TILE][TILE + 1];
        double sums[EACH] = {};
        int column = blockIdx.x * TILE + threadIdx.x;

        for (int at = 0; at < k; at += TILE) {
                for (int e = 0; e < EACH; e++) {
                        int row = threadIdx.y + e * (TILE / EACH);

                        as[row][threadIdx.x] = a[(blockIdx.y * TILE + row) * k + at + threadIdx.x];
                        bs[row][threadIdx.x] = b[(at + row) * n + column];
                }
                __syncthreads();
                for (int i = 0; i < TILE; i++)
                        for (int e = 0; e < EACH; e++)
                                sums[e] = fma(as[threadIdx.y + e * (TILE / EACH)][i], bs[i][threadIdx.x], sums[e]);
                __syncthreads();
        }
        for (int e = 0; e < EACH; e++)
                if (blockIdx.y * TILE + threadIdx.y + e * (TILE / EACH) < m && column < n)
                        c[(blockIdx.y * TILE + threadIdx.y + e * (TILE / EACH)) * n + column] = sums[e];
}

extern "C" __global__ void __launch_bounds__(128)
        la_dgemm(const double *a, const double *b, double *c, int m, int n, int k)
{
        gemm_double_tile<16, 2>(a, b, c, m, n, k);
}

extern "C" __global__ void la_cgemm(const float2 *a, const float2 *b, float2 *c, int n)
{
        int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
        float2 sum = {0, 0};

        for (int k = 0; k < n; k++) {
                float2 x = a[i * n + k], y = b[k * n + j];

                sum.x += x.x * y.x - x.y * y.y;
                sum.y += x.x * y.y + x.y * y.x;
        }
        c[i * n + j] = sum;
}

extern "C" __global__ void la_igemm_dp4a(const int *a, const int *b, int *c, int n, int k4)
{
        int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;

        for (int k = 0; k < k4; k++)
                sum = __dp4a(a[i * k4 + k], b[j * k4 + k], sum);
        c[i * n + j] = sum;
}

extern "C" __global__ void la_syrk(const float *a, float *c, int n, int k)
{
        int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
        float sum = 0;

        if (i >= n || j > i)
                return;
        for (int l = 0; l < k; l++)
                sum += a[i * k + l] * a[j * k + l];
        c[i * n + j] = c[j * n + i] = sum;
}

extern "C" __global__ void la_batched_inverse_3x3(const float *in, float *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        float m[9], det;

        if (i >= n)
                return;
        for (int k = 0; k < 9; k++)
                m[k] = in[i * 9 + k];
        det = m[0] * (m[4] * m[8] - m[5] * m[7]) - m[1] * (m[3] * m[8] - m[5] * m[6]) +
              m[2] * (m[3] * m[7] - m[4] * m[6]);
        for (int k = 0; k < 9; k++) {
                int r = k % 3, c = k / 3, r1 = (r + 1) % 3, r2 = (r + 2) % 3, c1 = (c + 1) % 3, c2 = (c + 2) % 3;

                out[i * 9 + k] = __fdividef(m[r1 * 3 + c1] * m[r2 * 3 + c2] - m[r1 * 3 + c2] * m[r2 * 3 + c1], det);
        }
}

extern "C" __global__ void la_gauss_jordan_warp(float *a)
{
        unsigned lane = threadIdx.x % 32;
        float row[32];

        for (int k = 0; k < 32; k++)
                row[k] = a[lane * 32 + k];
#pragma unroll
        for (int k = 0; k < 32; k++) {
                float pivot = 1.0f / __shfl_sync(~0u, row[k], k), factor = row[k];

                for (int j = 0; j < 32; j++) {
                        float p = __shfl_sync(~0u, row[j], k) * pivot;

                        row[j] = lane == k ? p : row[j] - factor * p;
                }
        }
        for (int k = 0; k < 32; k++)
                a[lane * 32 + k] = row[k];
}

extern "C" __global__ void la_kronecker(const float *a, const float *b, float *c, int4 shape)
{
        int columns = shape.y * shape.w, rows = shape.x * shape.z;

        for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < rows * columns; at += blockDim.x * gridDim.x) {
                int i = at / columns, j = at % columns;

                c[at] = a[i / shape.z * shape.y + j / shape.w] * b[i % shape.z * shape.w + j % shape.w];
        }
}

extern "C" __global__ void la_power_step(const double *a, const double *x, double *y, double *eigen, int n)
{
        int i = threadIdx.x;
        double sum = 0, most;

        for (int j = 0; j < n; j++)
                sum = __fma_rn(a[i * n + j], x[j], sum);
        most = fabs(sum);
        for (int step = 16; step; step /= 2)
                most = fmax(most, __shfl_xor_sync(~0u, most, step));
        y[i] = sum / most;
        if (i == 0)
                *eigen = most;
}
