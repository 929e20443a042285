/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products with nvcuda::wmma, with computation on the fragments' elements between product and store */
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

/* D = alpha A B + beta C; row-major A, column-major B; one warp per 16 x 16 results */
extern "C" __global__ void wmma_gemm_f16(
        const half *a, const half *b, const float *c, float *d, int n, int k, float alpha, float beta)
{
        int row = blockIdx.y * 16, column = blockIdx.x * 16;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum, old;
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;

        wmma::fill_fragment(sum, 0.0f);
        for (int at = 0; at < k; at += 16) {
                wmma::load_matrix_sync(fa, a + (size_t)row * k + at, k);
                wmma::load_matrix_sync(fb, b + (size_t)column * k + at, k);
                wmma::mma_sync(sum, fa, fb, sum);
        }
        wmma::load_matrix_sync(old, c + (size_t)row * n + column, n, wmma::mem_row_major);
        for (int i = 0; i < sum.num_elements; i++)
                sum.x[i] = alpha * sum.x[i] + beta * old.x[i];
        wmma::store_matrix_sync(d + (size_t)row * n + column, sum, n, wmma::mem_row_major);
}

/* The other shapes, layouts and accumulators: D = max(A B, 0) in halves; A by columns, B by rows; via shared memory */
template <int M, int N> static __device__ void product(const half *a, const half *b, half *d, int n)
{
        __shared__ half tile[M * 16 + 16 * N];
        wmma::fragment<wmma::accumulator, M, N, 16, half> sum;
        wmma::fragment<wmma::matrix_a, M, N, 16, half, wmma::col_major> fa;
        wmma::fragment<wmma::matrix_b, M, N, 16, half, wmma::row_major> fb;

        for (int i = threadIdx.x; i < M * 16; i += 32)
                tile[i] = a[i];
        for (int i = threadIdx.x; i < 16 * N; i += 32)
                tile[M * 16 + i] = b[i];
        __syncwarp();
        wmma::fill_fragment(sum, __float2half(0.0f));
        wmma::load_matrix_sync(fa, tile, M);
        wmma::load_matrix_sync(fb, tile + M * 16, N);
        wmma::mma_sync(sum, fa, fb, sum);
        for (int i = 0; i < sum.num_elements; i++)
                sum.x[i] = __float2half(fmaxf(__half2float(sum.x[i]), 0.0f));
        wmma::store_matrix_sync(d, sum, n, wmma::mem_col_major);
}

extern "C" __global__ void wmma_shapes(const half *a, const half *b, half *d)
{
        if (blockIdx.x == 0)
                product<16, 16>(a, b, d, 16);
        else if (blockIdx.x == 1)
                product<32, 8>(a, b, d + 256, 32);
        else
                product<8, 32>(a, b, d + 512, 8);
}

/* Integers; results are column-major */
extern "C" __global__ void wmma_gemm_s8(const signed char *a, const signed char *b, int *d, int m, int k)
{
        int row = blockIdx.y * 16, column = blockIdx.x * 16;
        wmma::fragment<wmma::accumulator, 16, 16, 16, int> sum;
        wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> fb;

        wmma::fill_fragment(sum, 0);
        for (int at = 0; at < k; at += 16) {
                wmma::load_matrix_sync(fa, a + (size_t)row * k + at, k);
                wmma::load_matrix_sync(fb, b + (size_t)column * k + at, k);
                wmma::mma_sync(sum, fa, fb, sum);
        }
        wmma::store_matrix_sync(d + (size_t)column * m + row, sum, m, wmma::mem_col_major);
}

/* Types since sm_80: bfloat16, tf32, f64; one product each, row-major A, column-major B */
extern "C" __global__ void wmma_wide(
        const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *d, const double *x, const double *y, double *z)
{
#if __CUDA_ARCH__ >= 800
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> fb;
        wmma::fragment<wmma::accumulator, 8, 8, 4, double> sum64;
        wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> fx;
        wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> fy;

        wmma::fill_fragment(sum, 0.0f);
        wmma::load_matrix_sync(fa, a, 16);
        wmma::load_matrix_sync(fb, b, 16);
        wmma::mma_sync(sum, fa, fb, sum);
        wmma::store_matrix_sync(d, sum, 16, wmma::mem_row_major);
        wmma::fill_fragment(sum64, 0.0);
        wmma::load_matrix_sync(fx, x, 4);
        wmma::load_matrix_sync(fy, y, 4);
        wmma::mma_sync(sum64, fx, fy, sum64);
        wmma::store_matrix_sync(z, sum64, 8, wmma::mem_row_major);
#endif
}
