/* SPDX-License-Identifier: Apache-2.0 */
/* Round trip: cache operators, vectors, volatile, atomics of every kind and scope, fences, constants, globals. */
#include <cstdint>

struct point {
        char tag;
        double value;
        short small[3];
};

__constant__ float weights[16] = {1.0f, -2.5f, 1e-20f};
__constant__ point points[2] = {{'a', 1.5, {1, 2, 3}}, {'b', -0.25, {-4}}};
__device__ int counter;
__device__ int *where = &counter;
__device__ point origin = {'o', 3.25, {7, 8, 9}};
__device__ struct {
        char c;
        const float *p;
        void (*f)(int *);
} mixed = {3, nullptr, nullptr};
__device__ uint64_t table[2][3] = {{1, 2, 3}, {4, 5, 6}};
__device__ float2 pairs[2] = {{1, 2}, {3, 4}};
__device__ __managed__ int managed_value = 3;
static __device__ const char words[] = "some text";
__device__ const char *volatile text = words;

extern "C" __global__ void rt_loads(const float4 *a, const int2 *b, const double2 *d, float *out, const uchar4 *c)
{
        int i = threadIdx.x;
        float4 x = __ldg(&a[i]), y = __ldcg(&a[i + 1]), z = __ldcs(&a[i + 2]), w = __ldlu(&a[i + 3]);
        float4 v = __ldcv(&a[i + 4]);
        int2 p = __ldca(&b[i]);
        uchar4 q = c[i];

        __stcg(&out[i], x.x + y.y + z.z + w.w + v.x + p.y);
        __stcs(&out[i + 32], d[i].x + d[i].y + q.x + q.w);
        __stwt(&out[i + 64], weights[i & 15] + points[i & 1].value + points[i & 1].small[2]);
        __stwb(&out[i + 96], origin.value + table[i & 1][i % 3] + pairs[i & 1].y + text[i & 7] + mixed.c);
        *(volatile float *)&out[i + 128] = *(volatile float *)&out[i + 160] + *where + managed_value;
        ((float4 *)out)[i + 200] = make_float4(1, 2, x.x, 0);
        ((int2 *)out)[i + 500] = make_int2(p.x, 7);
}

extern "C" __global__ void rt_atomics(int *a, unsigned *u, unsigned long long *w, float *f, unsigned short *h)
{
        __shared__ int s[4];
        int i = threadIdx.x;

        if (i < 4)
                s[i] = i;
        __syncthreads();
        a[i] = atomicAdd(&a[64], 1) + atomicSub(&a[65], 2) + atomicExch(&a[66], i) + atomicMin(&a[67], i);
        a[i + 32] = atomicMax(&a[68], i) + atomicAnd(&a[69], 7) + atomicOr(&a[70], 8) + atomicXor(&a[71], 9);
        u[i] = atomicInc(&u[64], 5) + atomicDec(&u[65], 6) + atomicCAS(&u[66], 1u, 2u) + atomicMin(&u[67], 9u);
        w[i] = atomicAdd(&w[64], 1ull) + atomicCAS(&w[65], 1ull, 2ull) + atomicMax(&w[66], 3ull) +
               atomicExch(&w[67], 4ull);
        f[i] = atomicAdd(&f[64], 1.5f) + atomicExch(&f[65], 2.5f);
        s[i & 3] = atomicAdd(&s[0], 1) + atomicCAS(&s[1], 0, 5) + atomicExch(&s[2], 3);
        atomicAdd(&s[3], 1);
        atomicMax(&a[80], 4);
        atomicAdd_block(&a[81], 1);
        atomicAdd_system(&a[82], 1);
        atomicOr(&w[80], 3ull);
        h[i] = atomicCAS(&h[64], (unsigned short)1, (unsigned short)2);
        __threadfence();
        __threadfence_block();
        __threadfence_system();
        __syncthreads();
        a[i + 96] = s[i & 3];
}

extern "C" __global__ void rt_hints(const float *a, float *out, int n)
{
        float y, z;

#if __CUDA_ARCH__ >= 800
        uint64_t policy;
        float x;

        asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 0.5;" : "=l"(policy));
        asm volatile("ld.global.L1::no_allocate.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(x) : "l"(a), "l"(policy));
        asm volatile("ld.global.nc.L1::evict_last.L2::128B.f32 %0, [%1+4];" : "=f"(y) : "l"(a));
        asm volatile("st.global.L1::evict_first.f32 [%0], %1;" ::"l"(out), "f"(x + y));
        asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(a));
        asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(a));
        asm volatile("discard.global.L2 [%0], 128;" ::"l"(out + 1024));
#endif
        asm volatile("prefetch.global.L1 [%0];" ::"l"(a));
        asm volatile("prefetchu.L1 [%0];" ::"l"(a));
        asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(z) : "l"(a));
        asm volatile("st.release.sys.global.f32 [%0+8], %1;" ::"l"(out), "f"(z));
        asm volatile("ld.acquire.cta.f32 %0, [%1+16];" : "=f"(z) : "l"(a));
        asm volatile("ldu.global.f32 %0, [%1+20];" : "=f"(y) : "l"(a));
        asm volatile("fence.acq_rel.gpu;");
        asm volatile("fence.sc.sys;");
        asm volatile("fence.proxy.alias;");
        asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(out), "f"(z));
        asm volatile("atom.acq_rel.gpu.global.exch.b32 %0, [%1], %2;" : "=f"(z) : "l"(out), "f"(y));
        out[n] = z + y;
}
