/* SPDX-License-Identifier: Apache-2.0 */
/* Every atomic of the language on 32 and 64 bits, on global and shared memory, with and without use of its result. */

extern "C" __global__ void atomics_u32(unsigned *cells, const unsigned *in)
{
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];

        atomicAdd(&cells[0], v);
        atomicSub(&cells[1], v);
        atomicMin(&cells[2], v);
        atomicMax(&cells[3], v);
        atomicAnd(&cells[4], v | 0x0000ffffu);
        atomicOr(&cells[5], v & 0x00ff00ffu);
        atomicXor(&cells[6], v);
        atomicInc(&cells[7], 100u);
        atomicDec(&cells[8], 50u);
        atomicMin((int *)&cells[9], (int)v);
        atomicMax((int *)&cells[10], (int)v);
        if (v & 1)
                atomicAdd_system(&cells[11], 1u);
        else
                atomicAdd_block(&cells[12], 1u);
}

extern "C" __global__ void atomics_u64(unsigned long long *cells, const unsigned long long *in)
{
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        unsigned long long v = in[i];

        atomicAdd(&cells[0], v);
        atomicMin(&cells[1], v);
        atomicMax(&cells[2], v);
        atomicAnd(&cells[3], v | 0xffffffffull);
        atomicOr(&cells[4], v & 0x00ff00ff00ff00ffull);
        atomicXor(&cells[5], v);
        atomicMin((long long *)&cells[6], (long long)v);
        atomicMax((long long *)&cells[7], (long long)v);
}

/* A ticket per thread: every value below the number of threads is drawn exactly once. */
extern "C" __global__ void atomics_ticket(unsigned *counter, unsigned *seen)
{
        unsigned ticket = atomicAdd(counter, 1u);

        atomicAdd(&seen[ticket], 1u);
}

extern "C" __global__ void atomics_float(float *f, double *d, const float *in)
{
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

        atomicAdd(f, in[i]);
        atomicAdd(d, (double)in[i]);
}

/* A compare-and-swap loop as an atomic multiplication */
extern "C" __global__ void atomics_cas_mul(unsigned *cell, unsigned factor)
{
        unsigned old = *cell, seen;

        do {
                seen = old;
                old = atomicCAS(cell, seen, seen * factor);
        } while (old != seen);
}

extern "C" __global__ void atomics_cas64(unsigned long long *cell)
{
        unsigned long long old = *cell, seen;

        do {
                seen = old;
                old = atomicCAS(cell, seen, seen * 3 + 1);
        } while (old != seen);
}

/* Every thread swaps its own number for another one: the sum of all results and the remaining value is fixed. */
extern "C" __global__ void atomics_exch(unsigned *cell, unsigned long long *wide, unsigned *out, unsigned long long *out64)
{
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

        out[i] = atomicExch(cell, i + 1);
        out64[i] = atomicExch(wide, (unsigned long long)i + 1);
}

extern "C" __global__ void atomics_shared(unsigned *out)
{
        __shared__ unsigned c[4];
        __shared__ unsigned long long wide;
        __shared__ float f;

        if (threadIdx.x == 0) {
                c[0] = c[1] = 0;
                c[2] = 0xffffffffu;
                c[3] = 0;
                wide = 0;
                f = 0;
        }
        __syncthreads();
        atomicAdd(&c[0], threadIdx.x);
        atomicOr(&c[1], 1u << (threadIdx.x & 31));
        atomicMin(&c[2], threadIdx.x + 7);
        atomicMax(&c[3], atomicCAS(&c[3], threadIdx.x, 5u));
        atomicAdd(&wide, 1ull << 33);
        atomicAdd(&f, 0.5f);
        __syncthreads();
        if (threadIdx.x == 0) {
                out[0] = c[0];
                out[1] = c[1];
                out[2] = c[2];
                out[3] = (unsigned)(wide >> 33);
                out[4] = (unsigned)f;
        }
}

/* A lock for which lanes of one warp compete: needs forward progress of diverged lanes. */
extern "C" __global__ void atomics_spinlock(int *lock, unsigned *counter)
{
        while (atomicCAS(lock, 0, 1) != 0)
                ;
        __threadfence();
        unsigned v = *(volatile unsigned *)counter;
        *(volatile unsigned *)counter = v + 1;
        __threadfence();
        atomicExch(lock, 0);
}
