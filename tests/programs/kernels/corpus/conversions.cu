/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: conversions between all types, vectors of all widths, caches and volatile memory, integer and video
 * intrinsics. */
// targets: sm_80
#include <cstdint>

template <class TO, class FROM> __device__ void convert(const FROM *in, TO *out)
{
        out[threadIdx.x] = (TO)in[threadIdx.x];
}

#define CONVERT(FROM)                                                                                             \
        extern "C" __global__ void convert_##FROM(const FROM *in, int8_t *a, uint8_t *b, int16_t *c, uint16_t *d, \
                int32_t *e, uint32_t *f, int64_t *g, uint64_t *h, float *i, double *j)                            \
        {                                                                                                         \
                convert(in, a), convert(in, b), convert(in, c), convert(in, d), convert(in, e), convert(in, f),   \
                        convert(in, g);                                                                           \
                convert(in, h), convert(in, i), convert(in, j);                                                   \
        }

CONVERT(int8_t)
CONVERT(uint8_t)
CONVERT(int16_t)
CONVERT(uint16_t)
CONVERT(int32_t)
CONVERT(uint32_t)
CONVERT(int64_t)
CONVERT(uint64_t)
CONVERT(float)
CONVERT(double)

extern "C" __global__ void convert_rounded_float(const float *in, int *out, long long *wide, float *back)
{
        float x = in[threadIdx.x];

        out[threadIdx.x] = __float2int_rn(x) + __float2int_rz(x) + __float2int_ru(x) + __float2int_rd(x) +
                           __float2uint_rn(x) + __float2uint_ru(x);
        wide[threadIdx.x] = __float2ll_rn(x) + __float2ll_rd(x) + __float2ull_rz(x) + __float2ull_ru(x);
        back[threadIdx.x] = __int2float_rz(out[0]) + __int2float_ru(out[1]) + __uint2float_rd(out[2]) +
                            __ll2float_rn(wide[0]) + __ull2float_rz(wide[1]);
}

extern "C" __global__ void convert_rounded_double(
        const double *in, int *out, long long *wide, double *back, float *narrow)
{
        double x = in[threadIdx.x];

        out[threadIdx.x] = __double2int_rn(x) + __double2int_rz(x) + __double2uint_ru(x) + __double2uint_rd(x) +
                           __double2hiint(x) + __double2loint(x);
        wide[threadIdx.x] = __double2ll_rn(x) + __double2ll_rz(x) + __double2ull_ru(x) + __double_as_longlong(x);
        back[threadIdx.x] = __int2double_rn(out[0]) + __uint2double_rn(out[1]) + __ll2double_rz(wide[0]) +
                            __ull2double_ru(wide[1]) + __hiloint2double(out[2], out[3]);
        narrow[threadIdx.x] = __double2float_rn(x) + __double2float_rz(x) + __double2float_ru(x) + __double2float_rd(x);
}

template <class V> __device__ void swap_vectors(V *data)
{
        V v = data[threadIdx.x];

        data[threadIdx.x] = data[threadIdx.x ^ 1];
        __syncwarp();
        data[threadIdx.x ^ 1] = v;
}

#define SWAP(V)                                        \
        extern "C" __global__ void vector_##V(V *data) \
        {                                              \
                swap_vectors(data);                    \
        }

SWAP(char2)
SWAP(uchar3)
SWAP(uchar4)
SWAP(short2)
SWAP(ushort4)
SWAP(int3)
SWAP(uint4)
SWAP(longlong2)
SWAP(float3)
SWAP(float4)
SWAP(double2)

extern "C" __global__ void memory_cached(
        const int4 *a, const double2 *b, const unsigned char *c, int4 *out, double2 *wide)
{
        int i = threadIdx.x;

        out[5 * i] = __ldg(&a[i]);
        out[5 * i + 1] = __ldca(&a[i]);
        out[5 * i + 2] = __ldcg(&a[i]);
        __stcs(&out[5 * i + 3], __ldcs(&a[i]));
        __stwt(&out[5 * i + 4], __ldcv(&a[i]));
        __stcg(&wide[2 * i], __ldlu(&b[i]));
        __stwb(&wide[2 * i + 1], __ldg(&b[i + c[i]]));
}

extern "C" __global__ void memory_volatile(volatile int *flags, volatile double *values, volatile unsigned char *bytes)
{
        __shared__ volatile short s[64];

        s[threadIdx.x] = (short)flags[threadIdx.x];
        __threadfence_block();
        flags[threadIdx.x] = s[threadIdx.x ^ 1];
        __threadfence();
        values[threadIdx.x] = values[threadIdx.x] + bytes[threadIdx.x];
        __threadfence_system();
        bytes[threadIdx.x] = 1;
}

extern "C" __global__ void integer_intrinsics(const int *a, const int *b, int *out, long long *wide)
{
        int i = threadIdx.x, x = a[i], y = b[i];

        out[i] = __mul24(x, y) + __umul24(x, y) + __mulhi(x, y) + __umulhi(x, y) + __sad(x, y, 7) + __usad(x, y, 9) +
                 __hadd(x, y) + __rhadd(x, y) + __uhadd(x, y) + __urhadd(x, y) + __clz(x) + __ffs(y) + __popc(x) +
                 __brev(y) + __byte_perm(x, y, 0x2461) + __funnelshift_lc(x, y, x) + __funnelshift_rc(x, y, y) +
                 __fns(x, 0, 3) + abs(x) + max(x, y) - min((unsigned)x, (unsigned)y);
        wide[i] = __mul64hi(x, y) + __umul64hi(x, y) + __popcll(wide[i]) + __clzll(wide[i]) + __ffsll(wide[i]) +
                  llabs(wide[i]) + __brevll(wide[i]);
        out[i] += __dp4a(x, y, 1) + __dp4a((unsigned)x, (unsigned)y, 1u) + __dp2a_lo(x, y, 2) + __dp2a_hi(x, y, 3);
}

extern "C" __global__ void video_pairs(const unsigned *a, const unsigned *b, unsigned *out)
{
        unsigned x = a[threadIdx.x], y = b[threadIdx.x];

        out[threadIdx.x] = __vadd2(x, y) ^ __vaddss2(x, y) ^ __vaddus2(x, y) ^ __vsub2(x, y) ^ __vsubss2(x, y) ^
                           __vavgs2(x, y) ^ __vavgu2(x, y) ^ __vabs2(x) ^ __vabsss2(x) ^ __vneg2(y) ^
                           __vabsdiffs2(x, y) ^ __vabsdiffu2(x, y) ^ __vmaxs2(x, y) ^ __vminu2(x, y) ^ __vsads2(x, y) ^
                           __vcmpeq2(x, y) ^ __vcmpgts2(x, y) ^ __vsetles2(x, y) ^ __vhaddu2(x, y);
}

extern "C" __global__ void video_quads(const unsigned *a, const unsigned *b, unsigned *out)
{
        unsigned x = a[threadIdx.x], y = b[threadIdx.x];

        out[threadIdx.x] = __vadd4(x, y) ^ __vaddss4(x, y) ^ __vaddus4(x, y) ^ __vsub4(x, y) ^ __vsubus4(x, y) ^
                           __vavgs4(x, y) ^ __vavgu4(x, y) ^ __vabs4(x) ^ __vnegss4(y) ^ __vabsdiffs4(x, y) ^
                           __vabsdiffu4(x, y) ^ __vmaxu4(x, y) ^ __vmins4(x, y) ^ __vsadu4(x, y) ^ __vcmpne4(x, y) ^
                           __vcmpltu4(x, y) ^ __vsetges4(x, y) ^ __vseteq4(x, y) ^ __vhaddu4(x, y);
}

extern "C" __global__ void video_fused(const int *a, const int *b, const int *c, int *out, bool *which)
{
        int x = a[threadIdx.x], y = b[threadIdx.x], z = c[threadIdx.x];

        out[threadIdx.x] = __viaddmax_s32(x, y, z) + __viaddmin_s16x2_relu(x, y, z) + __vimax3_s32(x, y, z) +
                           __vimin3_u16x2(x, y, z) + __vimax_s32_relu(x, y) + __vimin3_s32_relu(x, y, z) +
                           __vibmax_s32(x, y, &which[threadIdx.x]);
}

extern "C" __global__ void clocks(long long *out, unsigned *small)
{
        unsigned id, total;

        small[threadIdx.x] = clock();
        out[threadIdx.x] = clock64();
        __nanosleep(100);
        asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
        asm volatile("mov.u32 %0, %%nsmid;" : "=r"(total));
        small[threadIdx.x] += id + total;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(out[threadIdx.x + 32]));
        asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(id));
        asm volatile("mov.u32 %0, %%total_smem_size;" : "=r"(total));
        small[threadIdx.x] += id + total;
        asm volatile("mov.u32 %0, %%warpid;" : "=r"(id));
        asm volatile("mov.u32 %0, %%lanemask_ge;" : "=r"(total));
        small[threadIdx.x] ^= id + total;
        asm volatile("mov.u64 %0, %%gridid;" : "=l"(out[threadIdx.x + 64]));
}
