// SPDX-License-Identifier: Apache-2.0
// Kernels that wait for other blocks (wait_), that do not wait (run_), and that read the size of their shared memory
// (size_). Compiled for every architecture whose machine code DetShare analyses; a name states the expected fact.
#define KERNEL extern "C" __global__ void

// --- loops that wait ---

KERNEL wait_volatile(volatile unsigned *p)
{
        while (*p == 0)
                ;
}

KERNEL wait_acquire(unsigned *p)
{
        unsigned v;

        do
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
        while (!v);
        p[1] = v;
}

KERNEL wait_acquire_system(unsigned long long *p)
{
        unsigned long long v;

        do
                asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
        while (!v);
        p[1] = v;
}

KERNEL wait_relaxed(unsigned *p)
{
        unsigned v;

        do
                asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
        while (!v);
        p[1] = v;
}

KERNEL wait_level2(unsigned *p)
{
        unsigned v;

        do
                asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
        while (v < atomicAdd(p + 1, 1u));
        p[2] = v;
}

KERNEL wait_mapped(unsigned *p)
{
        unsigned v;

        do
                asm volatile("ld.mmio.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
        while (!v);
        p[1] = v;
}

KERNEL wait_lock(unsigned *p)
{
        while (atomicCAS(p, 0u, 1u) != 0)
                ;
        p[1]++;
        __threadfence();
        atomicExch(p, 0u);
}

// compares with a value that does not change in the loop: another block must write it
KERNEL wait_turn(unsigned *p, unsigned turn, unsigned next)
{
        while (atomicCAS(p, turn, next) != turn)
                ;
}

// the same inside of an outer loop
KERNEL wait_turns(unsigned *p, unsigned n)
{
        for (unsigned i = blockIdx.x; i < n; i += gridDim.x)
                while (atomicCAS(p, i, i + 1) != i)
                        ;
}

KERNEL wait_exchange(unsigned *p)
{
        while (atomicExch(p, 1u) != 0)
                __nanosleep(20);
}

KERNEL wait_add_nothing(unsigned *p)
{
        while (atomicAdd(p, 0u) < 8)
                ;
}

KERNEL wait_or_nothing(unsigned *p)
{
        while (atomicOr(p, 0u) < 8)
                ;
}

static __device__ __noinline__ int get(volatile int *p)
{
        return *p;
}

KERNEL wait_by_call(int *p)
{
        while (!get(p))
                ;
}

static __device__ __noinline__ void wait_for(volatile int *p)
{
        while (!*p)
                ;
}

KERNEL wait_in_call(int *p)
{
        wait_for(p);
        p[1] = 3;
}

typedef void (*function)(volatile int *);
static __device__ function table[2] = {wait_for, wait_for};

KERNEL wait_by_address(int *p, int i)
{
        table[i](p);
}

// the backward branch comes from a jump table
KERNEL wait_table(volatile int *p)
{
        for (;;)
                switch (*p) {
                case 0:
                        p[1]++;
                        break;
                case 1:
                        p[2] += 3;
                        break;
                case 2:
                        p[5] *= 3;
                        break;
                case 3:
                        p[6] |= 8;
                        break;
                case 4:
                        p[7] += 9;
                        break;
                case 5:
                        p[9] -= 33;
                        break;
                default:
                        return;
                }
}

// a barrier of the grid: the last block to arrive opens it
KERNEL wait_grid(unsigned *count, volatile unsigned *round, float *f)
{
        f[blockIdx.x * blockDim.x + threadIdx.x] = 1;
        __syncthreads();
        if (threadIdx.x == 0) {
                unsigned before = *round;

                __threadfence();
                if (atomicAdd(count, 1u) == gridDim.x - 1) {
                        *count = 0;
                        __threadfence();
                        *round = before + 1;
                } else {
                        while (*round == before)
                                ;
                }
        }
        __syncthreads();
        f[blockIdx.x] += 2;
}

// decoupled look-back (Merrill and Garland, 2016), 32 predecessors at a time
KERNEL wait_look_back(unsigned *tile, unsigned long long *status, unsigned *in, unsigned *out)
{
        __shared__ unsigned id, before;
        unsigned sum = 0;

        if (threadIdx.x == 0)
                id = atomicAdd(tile, 1u);
        __syncthreads();
        for (unsigned i = threadIdx.x; i < 256; i += blockDim.x)
                sum += in[id * 256 + i];
        if (threadIdx.x < 32) {
                int at = (int)id - 1 - (int)threadIdx.x;
                unsigned total = 0;

                status[id] = 1ull << 32 | sum;
                for (bool more = true; more; at -= 32) {
                        unsigned long long s;

                        do
                                s = at < 0 ? 2ull << 32 : *(volatile unsigned long long *)&status[at];
                        while (__any_sync(~0u, s >> 32 == 0));
                        total += (unsigned)s;
                        more = __all_sync(~0u, s >> 32 == 1);
                }
                if (threadIdx.x == 0)
                        before = total;
        }
        __syncthreads();
        out[id * blockDim.x + threadIdx.x] = before + sum;
}

// one thread polls, and informs the others through shared memory
KERNEL wait_by_one(volatile unsigned *p)
{
        __shared__ volatile unsigned told;

        do {
                __syncthreads();
                if (threadIdx.x == 0)
                        told = *p;
                __syncthreads();
        } while (!told);
}

// sums up the polled words before the comparison
KERNEL wait_for_all(volatile float *p, int n)
{
        float s;

        do {
                s = 0;
                for (int i = 0; i < n; i++)
                        s += p[i] * 0.5f;
        } while (s < n);
}

// polled values pass through a shuffle from one lane to the others
KERNEL wait_by_lane(volatile unsigned *p)
{
        unsigned v;

        do {
                v = threadIdx.x % 32 == 0 ? *p : 0;
                v = __shfl_sync(~0u, v, 0);
        } while (!v);
}

// --- loops that do not wait ---

KERNEL run_swap(double *p, double x)
{
        unsigned long long *q = (unsigned long long *)p, old = *q, seen;

        do {
                seen = old;
                old = atomicCAS(q, seen, __double_as_longlong(x * __longlong_as_double(seen)));
        } while (seen != old);
}

KERNEL run_largest(float *p, float v)
{
        int *q = (int *)p, old = *q;

        while (v > __int_as_float(old)) {
                int seen = old;

                old = atomicCAS(q, seen, __float_as_int(v));
                if (old == seen)
                        break;
        }
}

KERNEL run_handed_out(unsigned *p, float *f, unsigned n)
{
        for (;;) {
                unsigned i = atomicAdd(p, 1u);

                if (i >= n)
                        break;
                f[i] *= 2;
        }
}

KERNEL run_shared(float *f)
{
        __shared__ volatile int s;

        if (!threadIdx.x)
                s = 0;
        __syncthreads();
        if (threadIdx.x == 32)
                s = 1;
        else
                while (!s)
                        ;
        f[0] = s;
}

KERNEL run_sum(float *f, int n)
{
        float s = 0;

        for (int i = 0; i < n; i++)
                s += f[i];
        f[n] = s;
}

KERNEL run_list(int **p)
{
        while (*p)
                p = (int **)*p;
        p[1] = 0;
}

// reads in order, but the loop does not depend on the values
KERNEL run_volatile_sum(volatile float *f, const float *x, int n)
{
        float s = 0;

        for (int i = 0; i < n; i++)
                s += f[i] * x[i];
        *(float *)&f[n] = s;
}

// polls only once
KERNEL run_last(unsigned *count, volatile float *f)
{
        __shared__ bool last;

        for (int i = threadIdx.x; i < 999; i += blockDim.x)
                ((float *)f)[i] = 1;
        __threadfence();
        if (!threadIdx.x)
                last = atomicAdd(count, 1u) == gridDim.x - 1;
        __syncthreads();
        if (last)
                f[0] = f[threadIdx.x];
}

KERNEL run_block(unsigned *p)
{
        unsigned v;

        do
                asm volatile("ld.relaxed.cta.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
        while (!v);
        p[1] = v;
}

KERNEL run_histogram(unsigned *p, const unsigned *in, int n)
{
        for (int i = threadIdx.x; i < n; i += blockDim.x)
                atomicAdd(&p[in[i] & 255], in[i]);
}

KERNEL run_nothing(void)
{
}

// --- the size of shared memory ---

KERNEL size_dynamic(unsigned *p)
{
        unsigned n;

        asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(n));
        p[0] = n;
}

KERNEL size_total(unsigned *p)
{
        unsigned n;

        asm volatile("mov.u32 %0, %%total_smem_size;" : "=r"(n));
        p[0] = n;
}
