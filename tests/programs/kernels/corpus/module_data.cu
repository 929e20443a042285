/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: module variables with initialisers of every kind, the heap, printf. */
// targets: sm_86 sm_80+rdc
#include <cstdint>
#include <cstdio>

struct entry {
        int id;
        const char *name;
        double weight;
        unsigned char tag[3];
        const entry *next;
};

__device__ entry last_entry = {3, "last", 3.5, {7, 8, 9}, nullptr};
__device__ entry middle_entry = {2, "middle", -0.25, {4, 5, 6}, &last_entry};
__device__ entry first_entry = {1, "first\t\"quoted\"\\\n", 1e-300, {1, 2, 255}, &middle_entry};
__constant__ float weights[4][3] = {{1, 2, 3}, {4, 5}, {-0.0f, 1e30f, 1e-40f}};
__constant__ uint64_t masks[5] = {0xffffffffffffffffu, 1, 0x8000000000000000u};
__device__ short shorts[7] = {-1, 2, -3};
__device__ char letters[] = "abcdefghijklmnopqrstuvwxyz";
__device__ float values[1000];
__device__ double precise = 2.718281828459045;
__device__ int *pointer_into = (int *)&values[17];
__device__ float4 quad = {1, 2, 3, 4};
__device__ bool flag = true;
__device__ long long counter = -9000000000;
static __device__ volatile int hidden = 12;
__device__ char32_t wide_text[] = U"\u00e9\u4e2d";
__constant__ entry constant_entry = {9, "constant", 0.125, {0, 0, 1}, nullptr};
namespace inner
{
__device__ int named[3] = {7, 8, 9};
}

extern "C" __global__ void data_list(double *out, char *text)
{
        int n = 0;

        for (const entry *e = &first_entry; e; e = e->next, n++) {
                out[n] = e->id * e->weight + e->tag[n % 3];
                text[n] = e->name[n % 3];
        }
        out[n] = constant_entry.weight + constant_entry.name[2];
}

extern "C" __global__ void data_constants(float *out, int i)
{
        out[threadIdx.x] = weights[i & 3][threadIdx.x % 3] + (float)masks[threadIdx.x % 5] + weights[1][1];
}

extern "C" __global__ void data_variables(int *out, int i)
{
        values[threadIdx.x] += shorts[i % 7] + letters[i % 26];
        out[threadIdx.x] = *pointer_into + (int)precise + (int)quad.z + flag + (int)counter + hidden +
                           wide_text[i & 1] + inner::named[i % 3];
        hidden = i;
        flag = !flag;
}

#ifndef __CUDACC_RDC__ /* ptxas would name its variables by their PTX lines */
extern "C" __global__ void data_shared_kinds(int *out)
{
        extern __shared__ int dynamic[];
        __shared__ union {
                int i[32];
                float f[32];
                unsigned char b[128];
        } both;
        __shared__ alignas(64) struct {
                char c;
                double d;
        } pair;
        static __shared__ short table[2][3][5];

        both.f[threadIdx.x] = threadIdx.x;
        pair.d = both.b[threadIdx.x * 4 + 3];
        pair.c = 1;
        table[threadIdx.x & 1][threadIdx.x % 3][threadIdx.x % 5] = (short)threadIdx.x;
        dynamic[threadIdx.x] = both.i[threadIdx.x];
        __syncthreads();
        out[threadIdx.x] = dynamic[threadIdx.x ^ 3] + (int)pair.d + pair.c + table[1][2][4];
}
#endif

extern "C" __global__ void data_heap(int **out, int n)
{
        int *p = (int *)malloc(n * sizeof(int));
        double *q = new double[4];

        if (p && q) {
                for (int i = 0; i < n; i++)
                        p[i] = i + (int)q[i & 3];
                out[threadIdx.x] = p;
                delete[] q;
        } else {
                free(p);
        }
}

extern "C" __global__ void data_print(const char *text, int n)
{
        printf("plain\n");
        printf("%d %5u %-8x %lld %c\n", n, n, n, (long long)n << 33, 'a' + n);
        printf("%f %e %g %s %p %%\n", n / 3.0, n / 7.0f, 1e10 * n, "literal", text);
}

extern __shared__ int shared_words[];

extern "C" __global__ void data_addresses(const void *p, int *out)
{
        int &s = shared_words[0], l;

        out[0] = __isGlobal(p) + 2 * __isShared(p) + 4 * __isLocal(p) + 8 * __isConstant(p) + __isShared(&s) +
                 __isLocal(&l);
        out[1] = (int)__cvta_generic_to_shared(&s) + (int)__cvta_generic_to_global(p) +
                 (int)__cvta_generic_to_constant(&weights[0][0]) + (int)__cvta_generic_to_local(&l);
        *(int *)__cvta_shared_to_generic(__cvta_generic_to_shared(&s)) = 5;
        out[2] = s;
}

extern "C" __global__ void data_copies(char *to, const char *from, int n)
{
        memcpy(to, from, 64);
        memcpy(to + 100, from + 3, n);
        memset(to + 300, 7, 33);
        memset(to + 400, n, n);
        *(entry *)(to + 512) = *(const entry *)from;
}
