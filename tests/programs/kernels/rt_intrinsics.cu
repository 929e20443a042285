/* SPDX-License-Identifier: Apache-2.0 */
/* Round trip: the code of CUDA's integer, bit and warp intrinsics. */
#include <cstdint>

extern "C" __global__ void rt_bits(const uint32_t *a, const uint32_t *b, uint32_t *out, uint64_t *wide)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        uint32_t x = a[i], y = b[i];
        uint64_t z = (uint64_t)x << 32 | y;

        out[0 * 1024 + i] = __brev(x) + __clz(x) + __ffs(y) + __popc(x ^ y);
        out[1 * 1024 + i] = __byte_perm(x, y, 0x6240);
        out[2 * 1024 + i] = __funnelshift_l(x, y, x & 31) ^ __funnelshift_lc(x, y, y) ^ __funnelshift_r(y, x, 7);
        out[3 * 1024 + i] = __mul24((int)x, (int)y) + __umul24(x, y) + __umulhi(x, y) + __mulhi((int)x, (int)y);
        out[4 * 1024 + i] = __sad((int)x, (int)y, 3u) + __usad(x, y, 4u) + __hadd((int)x, (int)y) + __urhadd(x, y);
        out[5 * 1024 + i] = x / (y | 1) + x % (y | 3) + (uint32_t)((int)x / ((int)y | 1)) + (uint32_t)((int)x % 7);
        out[6 * 1024 + i] = __fns(x, y & 31, 2);
        wide[0 * 1024 + i] = __brevll(z) + __clzll((long long)z) + __popcll(z) + __ffsll((long long)z);
        wide[1 * 1024 + i] = __umul64hi(z, z + 5) + (uint64_t)__mul64hi((long long)z, (long long)x);
        wide[2 * 1024 + i] = z / (y | 1) + z % (x | 1) + (uint64_t)((long long)z / (long long)(y | 1));
        wide[3 * 1024 + i] = z >> (x & 63) | z << (y & 63) | (uint64_t)((long long)z >> 5);
}

extern "C" __global__ void rt_narrow(const int8_t *a, const uint8_t *b, const int16_t *c, uint16_t *out, int *mixed)
{
        int i = threadIdx.x;

        out[i] = (uint16_t)(a[i] * b[i] + c[i]);
        out[i + 256] = (uint16_t)(c[i] < a[i] ? b[i] : c[i] >> 3);
        out[i + 512] = (uint16_t)min((int)c[i], (int)a[i]);
        mixed[i] = a[i] + b[i] - c[i] * 3;
        mixed[i + 256] = (c[i] & 0xff) | (b[i] << 8);
        mixed[i + 512] = max(a[i], (int8_t)3) ^ ~c[i];
}

extern "C" __global__ void rt_simd(const uint32_t *a, const uint32_t *b, uint32_t *out)
{
        int i = threadIdx.x;
        uint32_t x = a[i], y = b[i];

        out[i] = __vadd4(x, y) ^ __vsub2(x, y) ^ __vabsdiffu4(x, y) ^ __vmaxs2(x, y) ^ __vminu4(x, y);
        out[i + 256] = __vaddss2(x, y) ^ __vaddus4(x, y) ^ __vcmpeq4(x, y) ^ __vcmpgtu2(x, y) ^ __vavgu4(x, y);
        out[i + 512] = __vneg2(x) ^ __vabs4(x) ^ __vsads2(x, y) ^ __vseteq4(x, y) ^ __vhaddu4(x, y);
        out[i + 768] = (uint32_t)__dp4a((int)x, (int)y, 5) + __dp4a(x, y, 7u) + (uint32_t)__dp2a_lo((int)x, (int)y, 3) +
                       __dp2a_hi(x, y, 9u);
        out[i + 1024] = __viaddmax_s32((int)x, (int)y, 3) + (uint32_t)__vimax3_s32((int)x, (int)y, 17) +
                        __vibmax_u32(x, y, (bool *)out);
}

extern "C" __global__ void rt_warp(const int *in, int *out, unsigned long long *masks)
{
        int i = threadIdx.x, v = in[i];
        unsigned active = __activemask();

        v += __shfl_sync(~0u, v, 3) + __shfl_up_sync(~0u, v, 1) + __shfl_down_sync(~0u, v, 2, 16);
        v += __shfl_xor_sync(~0u, v, 8, 8);
        out[i] = v + __all_sync(~0u, v > 3) + __any_sync(~0u, v < 1) + __uni_sync(~0u, v == 5);
        masks[i] = __ballot_sync(~0u, v & 1) | (unsigned long long)__match_any_sync(active, v) << 32;
        {
                int pred;
                unsigned long long wide = masks[i];

                masks[i + 32] = __match_all_sync(~0u, wide, &pred) + pred;
        }
#if __CUDA_ARCH__ >= 800
        out[i + 32] = __reduce_add_sync(~0u, v) + __reduce_min_sync(~0u, v) + (int)__reduce_or_sync(~0u, (unsigned)v);
#endif
        __syncwarp();
        out[i + 64] = __syncthreads_count(v > 2) + __syncthreads_and(v > 1) + __syncthreads_or(v < 0);
        __nanosleep(20);
}

extern "C" __global__ void rt_special(unsigned *out, unsigned long long *wide)
{
        unsigned lane, warp, nwarp, sm, mask, dyn;
        unsigned long long timer;

        asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
        asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
        asm volatile("mov.u32 %0, %%nwarpid;" : "=r"(nwarp));
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
        asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(dyn));
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(timer));
        out[threadIdx.x] =
                lane + warp + nwarp + sm + mask + dyn + gridDim.x * gridDim.y + gridDim.z + blockIdx.z + warpSize;
        wide[threadIdx.x] = timer + clock64() + (unsigned)clock();
}
