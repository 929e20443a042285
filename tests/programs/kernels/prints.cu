/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that print and assert
 *
 * Each prints from one thread at a time, so that its text is the same wherever it runs.
 */
#include <cassert>
#include <cstdio>

__device__ char shared_words[16] = "global words";

extern "C" __global__ void print_integers(int i, unsigned u, long long l, unsigned long long ul, short h, int *returned)
{
        returned[0] = printf("plain\n");
        returned[1] = printf("%d %i %u %x %X %o\n", i, -i, u, u, u, u);
        returned[2] = printf("%ld %lld %lu %llx %#llx\n", (long)l, l, (unsigned long)ul, ul, ul);
        returned[3] = printf("%hd %hu %hx\n", h, h, h);
        returned[4] = printf("[%5d] [%-5d] [%05d] [%+d] [% d] [%.4d] [%8.4d]\n", i, i, i, i, i, i, i);
        returned[5] = printf("[%#x] [%#o] [%10llu] [%-10llu]\n", u, u, ul, ul);
        returned[6] = printf("[%*d] [%-*d]\n", 7, i, 7, i);
}

extern "C" __global__ void print_floats(float f, double d)
{
        printf("%f %e %g %a\n", f, d, d, d);
        printf("%E %G %A\n", d, d, d);
        printf("[%10.3f] [%-10.2f] [%+.1e] [%010.4f] [%.0f] [%#.0f]\n", f, f, d, d, d, d);
        printf("%f %f %g\n", d / (f - f), -d / (f - f), 1e300 * d);
}

extern "C" __global__ void print_words(const char *word, int c)
{
        char local[8] = "local";
        __shared__ char shared[8];

        shared[0] = 's', shared[1] = 'h', shared[2] = 0;
        printf("%s|%s|%s|%s\n", "constant", shared_words, local, shared);
        printf("[%10s] [%-10s] [%.3s] [%10.3s]\n", word, word, word, word);
        printf("%c%c%c [%3c] [%-3c]\n", c, c + 1, c + 2, c, c);
        printf("100%% of %d, %p\n", c, (void *)0x1234567890ull);
        printf("%s", "");
        printf("no newline");
        printf(" until here\n");
}

/* 32 arguments, the maximum */
extern "C" __global__ void print_many(void)
{
        printf("%d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d\n", 1, 2, 3,
                4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32);
}

/* Each thread prints a line, in order: the lanes of a warp alternate. */
extern "C" __global__ void print_lanes(int tag)
{
        for (int i = 0; i < (int)blockDim.x; i++) {
                if ((int)threadIdx.x == i)
                        printf("tag %d lane %d of block %d\n", tag, (int)threadIdx.x, (int)blockIdx.x);
                __syncthreads();
        }
}

/* All lanes print at once: the order is undefined, the number of lines is not. */
extern "C" __global__ void print_all(int tag)
{
        printf("all %d %d %d\n", tag, (int)blockIdx.x, (int)threadIdx.x);
}

/* Prints n * 65 bytes. */
extern "C" __global__ void print_much(int n)
{
        for (int i = 0; i < n; i++)
                printf("%-9d the quick brown fox jumps over the lazy dog, and again\n", i);
}

extern "C" __global__ void assert_lane(const int *in, int limit, int *out)
{
        int v = in[threadIdx.x];

        assert(v < limit);
        out[threadIdx.x] = v;
}

/* Needs depth * 64 bytes of stack plus the frames. */
__device__ __noinline__ int down(volatile int *out, int depth)
{
        volatile int here[16];

        for (int i = 0; i < 16; i++)
                here[i] = depth + i;
        if (depth == 0)
                return here[3];
        return down(out, depth - 1) + here[depth % 16];
}

extern "C" __global__ void recurse(int *out, int depth)
{
        *out = down(out, depth);
}
