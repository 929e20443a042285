/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: atomics of all scopes and types. */
// targets: sm_90
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void atomic_scopes(int *a, unsigned *u, unsigned long long *w)
{
        int i = threadIdx.x;

        a[32 + i] = atomicAdd_block(&a[0], i) + atomicAdd(&a[1], i) + atomicAdd_system(&a[2], i);
        a[64 + i] = atomicSub_block(&a[3], i) + atomicExch_system(&a[4], i) + atomicMin_block(&a[5], i) +
                    atomicMax_system(&a[6], i);
        u[32 + i] = atomicInc_block(&u[0], 7) + atomicDec_system(&u[1], 9) + atomicAnd_block(&u[2], i) +
                    atomicOr_system(&u[3], i) + atomicXor_block(&u[4], i);
        w[32 + i] = atomicCAS_system(&w[0], 1ull, 2ull) + atomicCAS_block(&w[1], 3ull, 4ull) +
                    atomicExch_block(&w[2], 5ull);
}

extern "C" __global__ void atomic_floats(float *f, double *d, float2 *pairs, float4 *quads)
{
        atomicAdd_block(&f[0], 1.5f);
        atomicAdd_system(&d[0], 2.5);
        f[1 + threadIdx.x] = atomicExch(&f[40], 3.0f) + atomicAdd(&f[41], 1.0f);
        atomicAdd(&pairs[0], make_float2(1, 2));
        atomicAdd(&quads[0], make_float4(1, 2, 3, 4));
        quads[1 + threadIdx.x] = atomicAdd(&quads[40], make_float4(1, 1, 1, 1));
}

extern "C" __global__ void atomic_halves(__half *h, __half2 *h2, __nv_bfloat16 *b, __nv_bfloat162 *b2)
{
        atomicAdd(h, __float2half(1));
        atomicAdd(h2, __floats2half2_rn(1, 2));
        atomicAdd(b, __float2bfloat16(1));
        b2[1 + threadIdx.x] = atomicAdd(b2, __floats2bfloat162_rn(1, 2));
}

extern "C" __global__ void atomic_small(unsigned short *s)
{
        s[1 + threadIdx.x] = atomicCAS(&s[0], (unsigned short)1, (unsigned short)2);
}

extern "C" __global__ void atomic_shared_types(long long *out)
{
        __shared__ unsigned long long w;
        __shared__ int i;
        __shared__ float f;
        __shared__ double d;

        if (threadIdx.x == 0)
                w = 0, i = 0, f = 0, d = 0;
        __syncthreads();
        atomicAdd(&w, 3ull);
        atomicMax(&i, (int)threadIdx.x);
        atomicAdd(&f, 0.5f);
        atomicAdd(&d, 0.25);
        __syncthreads();
        if (threadIdx.x == 0)
                out[0] = (long long)w + i + (long long)f + (long long)d;
}

__device__ void atomic_max_float(float *at, float v)
{
        int old = *(int *)at, assumed;

        do {
                assumed = old;
                if (__int_as_float(assumed) >= v)
                        break;
                old = atomicCAS((int *)at, assumed, __float_as_int(v));
        } while (assumed != old);
}

extern "C" __global__ void atomic_emulated(float *most, const float *in, int n)
{
        for (int i = threadIdx.x; i < n; i += blockDim.x)
                atomic_max_float(most, in[i]);
}

extern "C" __global__ void atomic_assembly(unsigned *p, unsigned long long *q, uint4 *o)
{
        unsigned a, b;
        unsigned long long c, d, e, f;

        asm volatile("atom.acquire.cta.global.add.u32 %0, [%1], 1;" : "=r"(a) : "l"(p) : "memory");
        asm volatile("atom.relaxed.sys.global.exch.b32 %0, [%1], %2;" : "=r"(b) : "l"(p), "r"(a) : "memory");
        asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], 1, 2;" : "=l"(c) : "l"(q) : "memory");
        asm volatile("red.release.gpu.global.max.s64 [%0], %1;" ::"l"(q), "l"(c) : "memory");
        asm volatile("red.relaxed.cluster.global.and.b32 [%0], %1;" ::"l"(p), "r"(b) : "memory");
        asm volatile(
                "{ .reg .b128 x, y; mov.b128 x, {%2, %2}; atom.global.b128.exch y, [%3], x; mov.b128 {%0, %1}, y; }"
                : "=l"(d), "=l"(e)
                : "l"(c), "l"(o)
                : "memory");
        asm volatile(
                "{ .reg .b128 x, y; mov.b128 x, {%2, %1}; atom.global.cas.b128 y, [%3], x, x; mov.b128 {%0, _}, y; }"
                : "=l"(f)
                : "l"(d), "l"(e), "l"(o)
                : "memory");
        q[1] = f;
        asm volatile("fence.sc.sys; fence.acq_rel.cluster; fence.acquire.gpu; fence.release.cta; membar.sys;");
}

extern "C" __global__ void loads_ordered(int *p, long long *q)
{
        int a, b, c;
        long long d;

        asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(a) : "l"(p));
        asm volatile("ld.acquire.sys.global.b32 %0, [%1];" : "=r"(b) : "l"(p));
        asm volatile("ld.volatile.global.b32 %0, [%1];" : "=r"(c) : "l"(p));
        asm volatile("ld.global.L1::no_allocate.L2::128B.b64 %0, [%1];" : "=l"(d) : "l"(q));
        asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(p), "r"(a + b + c));
        asm volatile("st.global.L1::evict_last.b64 [%0], %1;" ::"l"(q), "l"(d));
        asm volatile("st.mmio.relaxed.sys.global.b32 [%0], %1;" ::"l"(p), "r"(a));
        asm volatile("ld.mmio.relaxed.sys.global.b32 %0, [%1];" : "=r"(a) : "l"(p));
        p[1] = a;
}
