/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: matrix instructions as libraries use them: tiles through shared memory, and each type once. */
// targets: sm_80 sm_90
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define SHARED(P) ((uint32_t)__cvta_generic_to_shared(P))
#define D4 "{%0, %1, %2, %3}"
#define FLOATS(C) "+f"(C[0]), "+f"(C[1]), "+f"(C[2]), "+f"(C[3])
#define INTS(C) "+r"(C[0]), "+r"(C[1]), "+r"(C[2]), "+r"(C[3])

__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t from)
{
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(from));
}

/* One warp per 16 x 16 of the result, f16 in and f32 out; copies run two tiles ahead */
extern "C" __global__ void mma_gemm_pipelined(const half *a, const half *b, float *c, int n)
{
        __shared__ alignas(16) half as[2][16][16], bs[2][16][16];
        uint32_t lane = threadIdx.x, row = blockIdx.y * 16, column = blockIdx.x * 16, fa[4], fb[4];
        float sums[2][4] = {};

        auto fetch = [&](int stage, int k) {
                asm volatile(
                        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(SHARED(&as[stage][lane / 2][lane % 2 * 8])),
                        "l"(a + (row + lane / 2) * n + k + lane % 2 * 8));
                asm volatile(
                        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(SHARED(&bs[stage][lane / 2][lane % 2 * 8])),
                        "l"(b + (k + lane / 2) * n + column + lane % 2 * 8));
                asm volatile("cp.async.commit_group;");
        };
        fetch(0, 0);
        for (int k = 0, stage = 0; k < n; k += 16, stage ^= 1) {
                if (k + 16 < n)
                        fetch(stage ^ 1, k + 16);
                else
                        asm volatile("cp.async.commit_group;");
                asm volatile("cp.async.wait_group 1;" ::: "memory");
                __syncwarp();
                load_matrices(fa, SHARED(&as[stage][lane % 16][lane / 16 * 8]));
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(fb[0]), "=r"(fb[1]), "=r"(fb[2]), "=r"(fb[3])
                             : "r"(SHARED(&bs[stage][lane % 16][lane / 16 * 8])));
                for (int h = 0; h < 2; h++)
                        asm volatile(
                                "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 " D4
                                ", {%4, %5, %6, %7}, {%8, %9}, " D4 ";"
                                : FLOATS(sums[h])
                                : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[2 * h]), "r"(fb[2 * h + 1]));
                __syncwarp();
        }
        for (int h = 0; h < 2; h++)
                for (int i = 0; i < 4; i++)
                        c[(row + lane / 4 + i / 2 * 8) * n + column + h * 8 + lane % 4 * 2 + i % 2] = sums[h][i];
}

#define MMA_FLOAT(NAME, TEXT, NA, NB)                                                             \
        extern "C" __global__ void mma_##NAME(const uint32_t *a, const uint32_t *b, float *c)     \
        {                                                                                         \
                uint32_t x[4], y[2];                                                              \
                float d[4];                                                                       \
                for (int i = 0; i < 4; i++) {                                                     \
                        x[i] = a[threadIdx.x * 4 + i];                                            \
                        y[i / 2] = b[threadIdx.x * 2 + i / 2];                                    \
                        d[i] = c[threadIdx.x * 4 + i];                                            \
                }                                                                                 \
                asm volatile(TEXT " " D4 ", " NA ", " NB ", " D4 ";"                              \
                             : FLOATS(d)                                                          \
                             : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1])); \
                for (int i = 0; i < 4; i++)                                                       \
                        c[threadIdx.x * 4 + i] = d[i];                                            \
        }
#define MMA_INT(NAME, TEXT, NA, NB)                                                               \
        extern "C" __global__ void mma_##NAME(const uint32_t *a, const uint32_t *b, int *c)       \
        {                                                                                         \
                uint32_t x[4], y[2];                                                              \
                int d[4];                                                                         \
                for (int i = 0; i < 4; i++) {                                                     \
                        x[i] = a[threadIdx.x * 4 + i];                                            \
                        y[i / 2] = b[threadIdx.x * 2 + i / 2];                                    \
                        d[i] = c[threadIdx.x * 4 + i];                                            \
                }                                                                                 \
                asm volatile(TEXT(" " D4 ", " NA ", " NB ", " D4) ";"                             \
                             : INTS(d)                                                            \
                             : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1])); \
                for (int i = 0; i < 4; i++)                                                       \
                        c[threadIdx.x * 4 + i] = d[i];                                            \
        }
#define A4 "{%4, %5, %6, %7}"
#define A2 "{%4, %5}"
#define B2 "{%8, %9}"
#define B1 "{%8}"
#define S8(OPERANDS) "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32" OPERANDS
#define U8(OPERANDS) "mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32" OPERANDS
#define S4(OPERANDS) "mma.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32" OPERANDS
#define XOR(OPERANDS) "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc" OPERANDS
#define AND(OPERANDS) "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc" OPERANDS
#define SPARSE_INT(OPERANDS)                                                                                         \
        "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 " D4 ", " A4 ", {%8, %9, %8, %9}, " D4 \
        ", %4, 0"

MMA_FLOAT(f16_k8, "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", A2, B1)
MMA_FLOAT(bf16_k16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", A4, B2)
MMA_FLOAT(bf16_k8, "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", A2, B1)
MMA_FLOAT(tf32_k8, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", A4, B2)
MMA_FLOAT(tf32_k4, "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", A2, B1)
MMA_INT(s8_k32, S8, A4, B2)
MMA_INT(u8_k16, U8, A2, B1)
MMA_INT(s4_k64, S4, A4, B2)
MMA_INT(xor_k256, XOR, A4, B2)
MMA_INT(and_k128, AND, A2, B1)
MMA_INT(sparse_s8, SPARSE_INT, A4, B2)

extern "C" __global__ void mma_f64(const double *a, const double *b, double *c)
{
        double x = a[threadIdx.x], y = b[threadIdx.x], d = c[threadIdx.x * 2], e = c[threadIdx.x * 2 + 1];

        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+d"(d), "+d"(e)
                     : "d"(x), "d"(y));
        c[threadIdx.x * 2] = d;
        c[threadIdx.x * 2 + 1] = e;
}

extern "C" __global__ void mma_f16_sums(const uint32_t *a, const uint32_t *b, uint32_t *c)
{
        uint32_t d = c[threadIdx.x * 2], e = c[threadIdx.x * 2 + 1];

        asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %2, %3}, {%4, %5}, {%0, %1};"
                     : "+r"(d), "+r"(e)
                     : "r"(a[threadIdx.x]), "r"(a[threadIdx.x + 32]), "r"(b[threadIdx.x]), "r"(b[threadIdx.x + 32]));
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%0, %1}, {%2}, {%0, %1};"
                     : "+r"(d), "+r"(e)
                     : "r"(b[threadIdx.x]));
        c[threadIdx.x * 2] = d;
        c[threadIdx.x * 2 + 1] = e;
}

extern "C" __global__ void mma_sparse(const uint32_t *a, const uint32_t *b, const uint32_t *chosen, float *c)
{
        float d[4] = {};
        uint32_t x[4], y[4], which = chosen[threadIdx.x / 4];

        for (int i = 0; i < 4; i++) {
                x[i] = a[threadIdx.x * 4 + i];
                y[i] = b[threadIdx.x * 4 + i];
        }
        asm volatile(
                "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 " D4
                ", {%4, %5, %6, %7}, {%8, %9, %10, %11}, " D4 ", %12, 0x1;"
                : FLOATS(d)
                : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(which));
        asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 " D4
                     ", {%4, %5}, {%6, %7}, " D4 ", %8, 0x3;"
                     : FLOATS(d)
                     : "r"(x[0]), "r"(x[1]), "r"(y[0]), "r"(y[1]), "r"(which));
        asm volatile(
                "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 " D4
                ", {%4, %5, %6, %7}, {%8, %9, %10, %11}, " D4 ", %12, 0x0;"
                : FLOATS(d)
                : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(which));
        for (int i = 0; i < 4; i++)
                c[threadIdx.x * 4 + i] = d[i];
}

extern "C" __global__ void mma_transpose(const uint4 *in, uint4 *out)
{
        __shared__ uint4 tile[32];
        uint32_t r[4];

        tile[threadIdx.x] = in[threadIdx.x];
        __syncwarp();
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(SHARED(&tile[threadIdx.x])));
        asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(r[1]));
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared::cta.b16 {%0}, [%1];"
                     : "=r"(r[2])
                     : "r"(SHARED(&tile[threadIdx.x % 8])));
        out[threadIdx.x] = make_uint4(r[0], r[1], r[2], r[3]);
#if __CUDA_ARCH__ >= 900
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                             SHARED(&tile[threadIdx.x])),
                "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]));
        asm volatile("stmatrix.sync.aligned.x2.m8n8.shared.b16 [%0], {%1, %2};" ::"r"(SHARED(&tile[threadIdx.x])),
                "r"(r[0]), "r"(r[1]));
        __syncwarp();
        out[threadIdx.x + 32] = tile[threadIdx.x ^ 1];
#endif
}

#if __CUDA_ARCH__ >= 900
MMA_FLOAT(e4m3_k32, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", A4, B2)
MMA_FLOAT(e5m2_k32, "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32", A4, B2)

extern "C" __global__ void mma_f64_large(const double *a, const double *b, double *c)
{
        double d[4], x[4], y[2];

        for (int i = 0; i < 4; i++) {
                x[i] = a[threadIdx.x * 4 + i];
                y[i / 2] = b[threadIdx.x * 2 + i / 2];
                d[i] = c[threadIdx.x * 4 + i];
        }
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                     : "d"(x[0]), "d"(x[1]), "d"(x[2]), "d"(x[3]), "d"(y[0]), "d"(y[1]));
        for (int i = 0; i < 4; i++)
                c[threadIdx.x * 4 + i] = d[i];
}
#endif
