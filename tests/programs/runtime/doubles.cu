/* SPDX-License-Identifier: Apache-2.0 */
/* Operations with exactly one IEEE 754 result: double and single arithmetic in all roundings, conversions, 64-bit
 * integers */
#include <cfenv>

#include "runtime.h"

enum { ADD, MUL, DIV, SQRT, FMA, ADD_UP, MUL_DOWN, DIV_ZERO, FLOAT_DIV, FLOAT_SQRT, FLOAT_FMA, NARROW, WHOLE, RINT, N };
enum { HIGH, SHIFT, QUOTIENT, REMAINDER, BITS, ZEROS, N_WHOLE };

__global__ void compute(const double *x, const double *y, double *out, unsigned long long *whole, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        double a = x[i], b = y[i], *o = out + i * N;
        o[ADD] = __dadd_rn(a, b);
        o[MUL] = __dmul_rn(a, b);
        o[DIV] = a / b;
        o[SQRT] = sqrt(fabs(a));
        o[FMA] = fma(a, b, -a);
        o[ADD_UP] = __dadd_ru(a, b);
        o[MUL_DOWN] = __dmul_rd(a, b);
        o[DIV_ZERO] = __ddiv_rz(a, b);
        o[FLOAT_DIV] = __fdiv_rn(float(a), float(b));
        o[FLOAT_SQRT] = __fsqrt_rn(fabsf(float(a)));
        o[FLOAT_FMA] = __fmaf_rn(float(a), float(b), 1.5f);
        o[NARROW] = float(a);
        o[WHOLE] = double((long long)(a * 1e6));
        o[RINT] = rint(a) + floor(b) + ceil(a) + trunc(b);
        unsigned long long u = __double_as_longlong(a), v = __double_as_longlong(b), *w = whole + i * N_WHOLE;
        w[HIGH] = __umul64hi(u, v);
        w[SHIFT] = (u << (v % 64)) ^ ((long long)u >> (v % 13));
        w[QUOTIENT] = u / (v % 100003 + 1);
        w[REMAINDER] = (unsigned long long)((long long)u % (long long)(v % 977 + 1));
        w[BITS] = __popcll(u);
        w[ZEROS] = __clzll(v % 1000000) + __ffsll(u);
}

static volatile double rounding_a, rounding_b;

static double rounded(int mode, int what, double a, double b)
{
        volatile double r;

        rounding_a = a;
        rounding_b = b;
        fesetround(mode);
        r = what == ADD ? rounding_a + rounding_b : what == MUL ? rounding_a * rounding_b : rounding_a / rounding_b;
        fesetround(FE_TONEAREST);
        return r;
}

static void reference(double a, double b, double *e)
{
        e[ADD] = a + b;
        e[MUL] = a * b;
        e[DIV] = a / b;
        e[SQRT] = sqrt(fabs(a));
        e[FMA] = fma(a, b, -a);
        e[ADD_UP] = rounded(FE_UPWARD, ADD, a, b);
        e[MUL_DOWN] = rounded(FE_DOWNWARD, MUL, a, b);
        e[DIV_ZERO] = rounded(FE_TOWARDZERO, DIV, a, b);
        e[FLOAT_DIV] = float(a) / float(b);
        e[FLOAT_SQRT] = sqrtf(fabsf(float(a)));
        e[FLOAT_FMA] = fmaf(float(a), float(b), 1.5f);
        e[NARROW] = float(a);
        e[WHOLE] = double((long long)(a * 1e6));
        e[RINT] = rint(a) + floor(b) + ceil(a) + trunc(b);
}

static void reference_whole(double a, double b, unsigned long long *e)
{
        unsigned long long u, v;

        memcpy(&u, &a, sizeof(u));
        memcpy(&v, &b, sizeof(v));
        e[HIGH] = (unsigned long long)(((unsigned __int128)u * v) >> 64);
        e[SHIFT] = (u << (v % 64)) ^ (unsigned long long)((long long)u >> (v % 13));
        e[QUOTIENT] = u / (v % 100003 + 1);
        e[REMAINDER] = (unsigned long long)((long long)u % (long long)(v % 977 + 1));
        e[BITS] = (unsigned long long)__builtin_popcountll(u);
        e[ZEROS] = (unsigned long long)(v % 1000000 ? __builtin_clzll(v % 1000000) : 64) + (unsigned long long)__builtin_ffsll((long long)u);
}

int main()
{
        const int n = 400;
        std::vector<double> x(n), y(n);
        unsigned long long *whole;
        uint32_t seed = 99;
        double *out;

        for (int i = 0; i < n; i++) {
                x[i] = (double(program_random(&seed)) - 8e6) / 3.0 / double(1 + program_random(&seed) % 1000);
                y[i] = double(program_random(&seed) + 1) / 7.0 / double(1 + program_random(&seed) % 100000);
        }
        double *dx = program_upload(x), *dy = program_upload(y);
        MUST(cudaMalloc(&out, n * N * sizeof(double)));
        MUST(cudaMalloc(&whole, n * N_WHOLE * sizeof(*whole)));
        LAUNCHED(compute<<<4, 100>>>(dx, dy, out, whole, n));
        std::vector<double> got = program_download(out, n * N);
        std::vector<unsigned long long> got_whole = program_download(whole, n * N_WHOLE);
        for (int k = 0; k < N + N_WHOLE; k++) {
                int wrong = 0;

                for (int i = 0; i < n; i++) {
                        unsigned long long ew[N_WHOLE];
                        double e[N];

                        reference(x[i], y[i], e);
                        reference_whole(x[i], y[i], ew);
                        wrong += k < N ? memcmp(&e[k], &got[i * N + k], 8) != 0 : ew[k - N] != got_whole[i * N_WHOLE + k - N];
                }
                if (wrong)
                        printf("operation %d: %d of %d differ\n", k, wrong, n);
                CHECK(wrong == 0);
        }
        OK(cudaFree(dx));
        OK(cudaFree(dy));
        OK(cudaFree(out));
        OK(cudaFree(whole));
        return program_end("doubles");
}
