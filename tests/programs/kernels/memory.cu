/* SPDX-License-Identifier: Apache-2.0 */
/* State spaces: constants, device globals, local arrays, dynamic shared memory, vectors, generic pointers, volatile. */

__constant__ int memory_table[16] = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3 };
__constant__ float memory_coefficients[4];
__device__ int memory_counter = 7;
__device__ float memory_buffer[256];
__device__ int *memory_pointer = &memory_counter;
__device__ const char memory_text[] = "detshare";
static __device__ short memory_grid[4][3] = { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 }, { 10, 11, 12 } };

extern "C" __global__ void memory_constant(const int *index, float *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = memory_table[index[i] & 15] * memory_coefficients[index[i] & 3];
}

extern "C" __global__ void memory_globals(int *out)
{
        int i = threadIdx.x;

        atomicAdd(&memory_counter, 1);
        memory_buffer[i] = i * 0.5f;
        __syncthreads();
        out[i] = (int)(memory_buffer[255 - i] * 2) + memory_grid[i & 3][i % 3] + memory_text[i & 7];
        if (i == 0)
                out[256] = *memory_pointer;
}

extern "C" __global__ void memory_local(const int *in, int *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        int bins[32];

        if (i >= n)
                return;
        for (int k = 0; k < 32; k++)
                bins[k] = 0;
        for (int k = 0; k < 64; k++)
                bins[(in[i] * (k + 1)) & 31] += k;
        int best = 0;

        for (int k = 1; k < 32; k++)
                if (bins[k] > bins[best])
                        best = k;
        out[i] = best * 1000 + bins[(in[i] >> 3) & 31];
}

extern "C" __global__ void memory_dynamic(const float *in, float *out, int n)
{
        extern __shared__ char raw[];
        float *a = (float *)raw;
        double *b = (double *)(raw + sizeof(float) * ((blockDim.x + 1) & ~1));
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        a[threadIdx.x] = i < n ? in[i] : 0;
        b[threadIdx.x] = threadIdx.x * 0.125;
        __syncthreads();
        if (i < n)
                out[i] = a[blockDim.x - 1 - threadIdx.x] + (float)b[(threadIdx.x * 7) % blockDim.x];
}

extern "C" __global__ void memory_vector(const int4 *in, const double2 *d, short4 *out, double2 *out2, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        int4 v = in[i];
        short4 s = { (short)v.x, (short)v.y, (short)v.z, (short)v.w };
        double2 w = d[i];

        out[i] = s;
        out2[i] = make_double2(w.y, w.x + v.w);
}

/* A pointer into one of three state spaces, chosen at run time */
extern "C" __global__ void memory_generic(int *global, int *out)
{
        __shared__ int shared[32];
        int local[4] = { (int)threadIdx.x, 2, 3, 4 };
        int *p;

        shared[threadIdx.x & 31] = 100 + threadIdx.x;
        __syncthreads();
        if (threadIdx.x % 3 == 0)
                p = &shared[(threadIdx.x + 1) & 31];
        else if (threadIdx.x % 3 == 1)
                p = &global[threadIdx.x];
        else
                p = &local[threadIdx.x & 3];
        *p += 1000;
        out[threadIdx.x] = *p + (__isShared(p) ? 1 : 0) + (__isGlobal(p) ? 2 : 0) + (__isLocal(p) ? 4 : 0);
}

extern "C" __global__ void memory_bytes(const unsigned char *in, signed char *out, unsigned short *out16, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        out[i] = (signed char)(in[i] * 3);
        out16[i] = (unsigned short)(in[i] * 257u) >> 1;
}

extern "C" __global__ void memory_volatile(volatile int *cell, int *out)
{
        for (int k = 0; k < 4; k++)
                cell[threadIdx.x] = cell[threadIdx.x] + k;
        out[threadIdx.x] = cell[threadIdx.x];
}

extern "C" __global__ void memory_cached(const float *__restrict__ in, float *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                float a = __ldg(in + i), b = __ldcg(in + n - 1 - i), c = __ldcs(in + i);

                __stcs(out + i, a + b * c);
                __stwt(out + n + i, a - b);
        }
}

/* Causes a fault by `which`: 0 reads past the end, 1 writes to NULL, 2 misaligned, 3 beyond shared memory, 4 trap, 5
 * endless */
extern "C" __global__ void memory_fault(int which, int *data, long long size)
{
        __shared__ int s[16];

        switch (which) {
        case 0:
                data[0] = data[size / 4 + threadIdx.x];
                break;
        case 1:
                *(volatile int *)nullptr = 1;
                break;
        case 2:
                data[0] = *(volatile int *)((char *)data + 2);
                break;
        case 3:
                *(volatile int *)&s[size] = 3;
                data[0] = s[1];
                break;
        case 4:
                __trap();
                break;
        case 5:
                while (*(volatile int *)data == 0)
                        ;
                break;
        case 6:
                if (threadIdx.x < 32)
                        asm volatile("bar.sync 3, 64;");
                break;
        }
}
