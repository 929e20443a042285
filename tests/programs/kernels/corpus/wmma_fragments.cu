/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: matrix fragments of the C++ interface (nvcuda::wmma), in all types, shapes and layouts. */
// targets: sm_80
#include <cstdint>
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

template <class IN, class OUT, int M, int N, int K, class LA, class LB, wmma::layout_t LC, class STORED, class RESULT>
__device__ void product(const STORED *a, const STORED *b, RESULT *c, int tiles)
{
        wmma::fragment<wmma::matrix_a, M, N, K, IN, LA> fa;
        wmma::fragment<wmma::matrix_b, M, N, K, IN, LB> fb;
        wmma::fragment<wmma::accumulator, M, N, K, OUT> fc;

        wmma::load_matrix_sync(fc, c, N, LC);
        for (int t = 0; t < tiles; t++) {
                wmma::load_matrix_sync(fa, a + t * M * K, K);
                wmma::load_matrix_sync(fb, b + t * K * N, K);
                wmma::mma_sync(fc, fa, fb, fc);
        }
        for (int i = 0; i < fc.num_elements; i++)
                fc.x[i] = fc.x[i] + fc.x[i];
        wmma::store_matrix_sync(c, fc, N, LC);
}

extern "C" __global__ void wmma_f16(const half *a, const half *b, half *c, int tiles)
{
        product<half, half, 16, 16, 16, wmma::row_major, wmma::row_major, wmma::mem_row_major>(a, b, c, tiles);
}

extern "C" __global__ void wmma_f16_wide(const half *a, const half *b, float *c, int tiles)
{
        product<half, float, 32, 8, 16, wmma::col_major, wmma::row_major, wmma::mem_col_major>(a, b, c, tiles);
}

extern "C" __global__ void wmma_f16_tall(const half *a, const half *b, float *c, int tiles)
{
        product<half, float, 8, 32, 16, wmma::row_major, wmma::col_major, wmma::mem_row_major>(a, b, c, tiles);
}

extern "C" __global__ void wmma_bf16(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int tiles)
{
        product<__nv_bfloat16, float, 16, 16, 16, wmma::row_major, wmma::col_major, wmma::mem_row_major>(
                a, b, c, tiles);
}

extern "C" __global__ void wmma_tf32(const float *a, const float *b, float *c, int tiles)
{
        product<wmma::precision::tf32, float, 16, 16, 8, wmma::row_major, wmma::col_major, wmma::mem_row_major>(
                a, b, c, tiles);
}

extern "C" __global__ void wmma_f64(const double *a, const double *b, double *c, int tiles)
{
        product<double, double, 8, 8, 4, wmma::row_major, wmma::col_major, wmma::mem_col_major>(a, b, c, tiles);
}

extern "C" __global__ void wmma_s8(const signed char *a, const signed char *b, int *c, int tiles)
{
        product<signed char, int, 32, 8, 16, wmma::row_major, wmma::col_major, wmma::mem_row_major>(a, b, c, tiles);
}

extern "C" __global__ void wmma_u8(const unsigned char *a, const unsigned char *b, int *c, int tiles)
{
        product<unsigned char, int, 8, 32, 16, wmma::col_major, wmma::row_major, wmma::mem_col_major>(a, b, c, tiles);
}

extern "C" __global__ void wmma_s4(const int *a, const int *b, int *c, int tiles)
{
        product<wmma::experimental::precision::s4, int, 8, 8, 32, wmma::row_major, wmma::col_major,
                wmma::mem_row_major>(a, b, c, tiles);
}

extern "C" __global__ void wmma_b1(const unsigned *a, const unsigned *b, int *c)
{
        wmma::fragment<wmma::matrix_a, 8, 8, 128, wmma::experimental::precision::b1, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 8, 8, 128, wmma::experimental::precision::b1, wmma::col_major> fb;
        wmma::fragment<wmma::accumulator, 8, 8, 128, int> fc;

        wmma::fill_fragment(fc, 3);
        wmma::load_matrix_sync(fa, a, 128);
        wmma::load_matrix_sync(fb, b, 128);
        wmma::bmma_sync(fc, fa, fb, fc, wmma::experimental::bmmaBitOpXOR);
        wmma::bmma_sync(fc, fa, fb, fc, wmma::experimental::bmmaBitOpAND);
        wmma::store_matrix_sync(c, fc, 8, wmma::mem_row_major);
}

extern "C" __global__ void wmma_shared_gemm(const half *a, const half *b, float *c, int n)
{
        __shared__ half as[64][32 + 8], bs[64][32 + 8];
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2];
        int warp = threadIdx.x / 32, row = blockIdx.y * 64, column = blockIdx.x * 64;

        wmma::fill_fragment(sums[0], 0.0f);
        wmma::fill_fragment(sums[1], 0.0f);
        for (int k = 0; k < n; k += 32) {
                for (int i = threadIdx.x; i < 64 * 4; i += blockDim.x) {
                        *(uint4 *)&as[i / 4][i % 4 * 8] = *(const uint4 *)&a[(row + i / 4) * n + k + i % 4 * 8];
                        *(uint4 *)&bs[i / 4][i % 4 * 8] = *(const uint4 *)&b[(column + i / 4) * n + k + i % 4 * 8];
                }
                __syncthreads();
                for (int kk = 0; kk < 32; kk += 16) {
                        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
                        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;

                        wmma::load_matrix_sync(fa, &as[warp / 2 * 16][kk], 40);
                        for (int j = 0; j < 2; j++) {
                                wmma::load_matrix_sync(fb, &bs[(warp % 2 * 2 + j) * 16][kk], 40);
                                wmma::mma_sync(sums[j], fa, fb, sums[j]);
                        }
                }
                __syncthreads();
        }
        for (int j = 0; j < 2; j++)
                wmma::store_matrix_sync(c + (row + warp / 2 * 16) * n + column + (warp % 2 * 2 + j) * 16, sums[j], n,
                        wmma::mem_row_major);
}

extern "C" __global__ void wmma_conv_halves(const half *a, const half *b, const float *bias, half *out, int n)
{
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
        wmma::fragment<wmma::accumulator, 16, 16, 16, half> fd;

        wmma::load_matrix_sync(fc, bias, 0, wmma::mem_row_major);
        for (int k = 0; k < n; k += 16) {
                wmma::load_matrix_sync(fa, a + k, n);
                wmma::load_matrix_sync(fb, b + k * 16, 16);
                wmma::mma_sync(fc, fa, fb, fc);
        }
        for (int i = 0; i < fc.num_elements; i++)
                fd.x[i] = __float2half(fmaxf(fc.x[i], 0));
        wmma::store_matrix_sync(out, fd, 16, wmma::mem_row_major);
}
