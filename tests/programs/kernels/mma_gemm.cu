/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products with mma.sync: halves through a pipeline of asynchronous copies and ldmatrix, 8-bit integers, tf32.
 * Targets before sm_80 lack these copies and the larger shapes: there, smaller shapes and plain loads compute the same.
 */
#include <cstdint>
#include <cuda_fp16.h>

#define TILE_M 64
#define TILE_N 64
#define TILE_K 32
#define STAGES 3
#define PAD 8 /* halves of padding, so that rows of a tile lie in different banks */

struct stage {
        half a[TILE_M][TILE_K + PAD];
        half b[TILE_K][TILE_N + PAD];
};

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
        return (uint32_t)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ void copy16(void *to, const void *from)
{
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from));
#else
        *(uint4 *)to = *(const uint4 *)from;
#endif
}

static __device__ __forceinline__ void commit()
{
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.commit_group;");
#endif
}

template <int LEFT> static __device__ __forceinline__ void wait()
{
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.wait_group %0;" ::"n"(LEFT));
#endif
}

/* 128 threads load 64 x 32 halves of A and 32 x 64 of B */
static __device__ void fetch(stage *s, const half *a, const half *b, int n, int k, int row, int column, int at)
{
        for (int i = threadIdx.x; i < TILE_M * TILE_K / 8; i += blockDim.x)
                copy16(&s->a[i / 4][i % 4 * 8], &a[(size_t)(row + i / 4) * k + at + i % 4 * 8]);
        for (int i = threadIdx.x; i < TILE_K * TILE_N / 8; i += blockDim.x)
                copy16(&s->b[i / 8][i % 8 * 8], &b[(size_t)(at + i / 8) * n + column + i % 8 * 8]);
        commit();
}

static __device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
#if __CUDA_ARCH__ >= 800
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
        asm volatile(
                "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%8}, {%0, %1, %2, "
                "%3};\n\t"
                "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%6, %7}, {%9}, {%0, %1, %2, %3};"
                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/* Computes the 32 x 32 results of one warp, from one stage of the pipeline */
static __device__ void use(const stage *s, float (&c)[2][4][4], int lane, int wm, int wn)
{
        for (int k = 0; k < TILE_K; k += 16) {
                uint32_t a[2][4], b[2][4];

                for (int i = 0; i < 2; i++)
                        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                                     : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3])
                                     : "r"(shared_address(&s->a[wm + i * 16 + lane % 16][k + lane / 16 * 8])));
                for (int j = 0; j < 2; j++)
                        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                                     : "=r"(b[j][0]), "=r"(b[j][1]), "=r"(b[j][2]), "=r"(b[j][3])
                                     : "r"(shared_address(&s->b[k + lane % 16][wn + j * 16 + lane / 16 * 8])));
                for (int i = 0; i < 2; i++)
                        for (int j = 0; j < 4; j++)
                                multiply(c[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
}

/* C = A B, all row-major; m and n multiples of 64, k of 32; 128 threads, a grid of (n / 64, m / 64) */
extern "C" __global__ void mma_gemm_f16(const half *a, const half *b, float *out, int m, int n, int k)
{
        __shared__ __align__(128) stage stages[STAGES];
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wm = warp / 2 * 32, wn = warp % 2 * 32;
        int row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N, steps = k / TILE_K;
        float c[2][4][4] = {};

        for (int s = 0; s < STAGES - 1; s++) {
                if (s < steps)
                        fetch(&stages[s], a, b, n, k, row, column, s * TILE_K);
                else
                        commit();
        }
        for (int s = 0; s < steps; s++) {
                wait<STAGES - 2>();
                __syncthreads();
                if (s + STAGES - 1 < steps)
                        fetch(&stages[(s + STAGES - 1) % STAGES], a, b, n, k, row, column, (s + STAGES - 1) * TILE_K);
                else
                        commit();
                use(&stages[s % STAGES], c, lane, wm, wn);
        }
        for (int i = 0; i < 2; i++) {
                for (int j = 0; j < 4; j++) {
                        float *to =
                                out + (size_t)(row + wm + i * 16 + lane / 4) * n + column + wn + j * 8 + lane % 4 * 2;

                        *(float2 *)to = make_float2(c[i][j][0], c[i][j][1]);
                        *(float2 *)(to + (size_t)8 * n) = make_float2(c[i][j][2], c[i][j][3]);
                }
        }
}

/* C = A B with column-major B; one warp per 16 x 8 results, from global memory */
extern "C" __global__ void mma_gemm_s8(const int8_t *a, const int8_t *b, int *out, int n, int k)
{
        int lane = threadIdx.x, g = lane / 4, t = lane % 4, row = blockIdx.y * 16, column = blockIdx.x * 8;
        int c[4] = {};

#if __CUDA_ARCH__ >= 800
        for (int at = 0; at < k; at += 32) {
                const int8_t *pa = a + (size_t)(row + g) * k + at + 4 * t,
                             *pb = b + (size_t)(column + g) * k + at + 4 * t;

                asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                             "{%8, %9}, {%0, %1, %2, %3};"
                             : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                             : "r"(*(const int *)pa), "r"(*(const int *)(pa + 8 * k)), "r"(*(const int *)(pa + 16)),
                             "r"(*(const int *)(pa + 8 * k + 16)), "r"(*(const int *)pb), "r"(*(const int *)(pb + 16)));
        }
#else
        for (int at = 0; at < k; at += 16) {
                const int8_t *pa = a + (size_t)(row + g) * k + at + 4 * t,
                             *pb = b + (size_t)(column + g) * k + at + 4 * t;

                for (int i = 0; i < 2; i++)
                        asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                                     : "+r"(c[2 * i]), "+r"(c[2 * i + 1])
                                     : "r"(*(const int *)(pa + 8 * i * k)), "r"(*(const int *)pb));
        }
#endif
        for (int i = 0; i < 4; i++)
                out[(size_t)(row + g + i / 2 * 8) * n + column + 2 * t + i % 2] = c[i];
}

/* C = A B in tf32, all row-major; one warp per 16 x 8 results. Before sm_80: in f32 */
extern "C" __global__ void mma_gemm_tf32(const float *a, const float *b, float *out, int n, int k)
{
        int lane = threadIdx.x, g = lane / 4, t = lane % 4, row = blockIdx.y * 16, column = blockIdx.x * 8;
        float c[4] = {};

#if __CUDA_ARCH__ >= 800
        for (int at = 0; at < k; at += 8) {
                uint32_t fa[4], fb[2];

                for (int i = 0; i < 4; i++)
                        asm("cvt.rna.tf32.f32 %0, %1;"
                                : "=r"(fa[i])
                                : "f"(a[(size_t)(row + g + i % 2 * 8) * k + at + t + i / 2 * 4]));
                for (int i = 0; i < 2; i++)
                        asm("cvt.rna.tf32.f32 %0, %1;"
                                : "=r"(fb[i])
                                : "f"(b[(size_t)(at + t + i * 4) * n + column + g]));
                asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                             "{%8, %9}, {%0, %1, %2, %3};"
                             : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                             : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
        }
#else
        for (int i = 0; i < 4; i++)
                for (int at = 0; at < k; at++)
                        c[i] += a[(size_t)(row + g + i / 2 * 8) * k + at] * b[(size_t)at * n + column + 2 * t + i % 2];
#endif
        for (int i = 0; i < 4; i++)
                out[(size_t)(row + g + i / 2 * 8) * n + column + 2 * t + i % 2] = c[i];
}

/* C = A B where two of each four elements along k of A are present; meta: 16 words of 16 rows for each 32 elements
 * along k */
extern "C" __global__ void mma_gemm_sparse(const half *a, const half *b, const uint32_t *meta, float *out, int n, int k)
{
        int lane = threadIdx.x, g = lane / 4, t = lane % 4, row = blockIdx.y * 16, column = blockIdx.x * 8;
        float c[4] = {};

#if __CUDA_ARCH__ >= 800
        for (int at = 0; at < k; at += 32) {
                const half *pa = a + (size_t)(row + g) * (k / 2) + at / 2 + 2 * t,
                           *pb = b + (size_t)(column + g) * k + at;
                uint32_t words = meta[(size_t)(blockIdx.y * (k / 32) + at / 32) * 16 + 2 * g + t % 2];

                asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                             "{%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0x0;"
                             : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                             : "r"(*(const int *)pa), "r"(*(const int *)(pa + 8 * (k / 2))),
                             "r"(*(const int *)(pa + 8)), "r"(*(const int *)(pa + 8 * (k / 2) + 8)),
                             "r"(*(const int *)(pb + 2 * t)), "r"(*(const int *)(pb + 2 * t + 8)),
                             "r"(*(const int *)(pb + 2 * t + 16)), "r"(*(const int *)(pb + 2 * t + 24)), "r"(words));
        }
#endif
        for (int i = 0; i < 4; i++)
                out[(size_t)(row + g + i / 2 * 8) * n + column + 2 * t + i % 2] = c[i];
}
