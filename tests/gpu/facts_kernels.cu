/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of facts.c. None runs for longer than SPIN_MAX_NS: every loop has a deadline by the GPU's clock.
 *
 * nvcc -arch=sm_90 -cubin -o facts.cubin facts_kernels.cu
 */
#include <assert.h>
#include <stdio.h>

typedef unsigned long long u64;
#define SPIN_MAX_NS 200000000ull

static __device__ u64 clock_ns(void)
{
        u64 t;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
        return t;
}

static __device__ void spin_for(u64 ns)
{
        u64 start = clock_ns();
        if (ns > SPIN_MAX_NS)
                ns = SPIN_MAX_NS;
        while (clock_ns() - start < ns)
                ;
}

static __device__ unsigned int sm_id(void)
{
        unsigned int id;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
        return id;
}

struct mixed {
        char a;
        double b;
        short c;
};

extern "C" {
__device__ unsigned int fact_device[256];
__constant__ unsigned int fact_constant[64];

__global__ void nothing()
{
}

/* fills the GPU with one wave: two blocks of 1,024 threads on each SM */
__global__ void __launch_bounds__(1024, 2) spin(u64 ns)
{
        spin_for(ns);
}

__global__ void where(unsigned int *out, u64 ns)
{
        if (threadIdx.x == 0)
                out[blockIdx.x] = sm_id();
        spin_for(ns);
}

__global__ void cluster_where(unsigned int *out, u64 ns)
{
        unsigned int cluster;
        asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(cluster));
        if (threadIdx.x == 0) {
                out[2 * blockIdx.x] = sm_id();
                out[2 * blockIdx.x + 1] = cluster;
        }
        spin_for(ns);
}

__global__ void structs(struct mixed m, int n, unsigned int *out)
{
        extern __shared__ unsigned int dynamic[];
        dynamic[threadIdx.x] = n + fact_constant[threadIdx.x % 64] + (unsigned int)m.b + m.c + m.a;
        __syncthreads();
        out[threadIdx.x] = dynamic[threadIdx.x] + fact_device[threadIdx.x % 256];
}

/* Three kernels that only the section about first launches uses. */
__global__ void first_a(unsigned int *out)
{
        out[threadIdx.x] = 1;
}
__global__ void first_b(unsigned int *out)
{
        out[threadIdx.x] = 2;
}
__global__ void first_c(unsigned int *out)
{
        out[threadIdx.x] = 3;
}

#define LOCAL(NAME, WORDS)                                                                                             \
        __global__ void NAME(unsigned int *out, int n)                                                                 \
        {                                                                                                              \
                volatile unsigned int a[WORDS];                                                                        \
                for (int i = 0; i < WORDS; i++)                                                                        \
                        a[i] = i * n;                                                                                  \
                out[threadIdx.x] = a[(threadIdx.x * n) % WORDS];                                                       \
        }
LOCAL(local_1k, 256)
LOCAL(local_4k, 1024)
LOCAL(local_16k, 4096)

__global__ void say(int n)
{
        printf("hello %d\n", n);
}

/* prints 64 bytes of text per thread */
__global__ void say_much(int n)
{
        printf("%08d -- fifty-five bytes and a newline make sixty-four -------\n", n + blockIdx.x * blockDim.x + threadIdx.x);
}

__global__ void insist(int n)
{
        assert(n != 0);
}

__global__ void fault_null(u64 address)
{
        *(volatile int *)address = 1;
}

__global__ void fault_trap()
{
        asm volatile("trap;");
}

__global__ void fault_shared(unsigned int offset)
{
        asm volatile("st.shared.u32 [%0], %1;" : : "r"(offset), "r"(1) : "memory");
}

__global__ void heap(u64 *out, u64 bytes)
{
        void *p = malloc(bytes);
        out[threadIdx.x] = (u64)p;
        if (p)
                *(volatile int *)p = 1;
        free(p);
}
}
