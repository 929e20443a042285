/* SPDX-License-Identifier: Apache-2.0 */
/* Half precision and bfloat16: conversions and arithmetic equal the toolkit's host code, bit by bit */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "runtime.h"

enum { SUM, PRODUCT, FUSED, QUOTIENT, TO_HALF, ROOT, LESS, PAIR, N };

template <typename T>
__host__ __device__ T convert(float f);

template <>
__host__ __device__ __half convert<__half>(float f)
{
        return __float2half_rn(f);
}

template <>
__host__ __device__ __nv_bfloat16 convert<__nv_bfloat16>(float f)
{
        return __float2bfloat16_rn(f);
}

template <typename T>
__global__ void compute(const float *x, const float *y, T *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        T a = convert<T>(x[i]), b = convert<T>(y[i]), *o = out + i * N;
        o[SUM] = __hadd(a, b);
        o[PRODUCT] = __hmul(a, b);
        o[FUSED] = __hfma(a, b, a);
        o[QUOTIENT] = convert<T>(float(a) / float(b));
        o[TO_HALF] = a;
        o[ROOT] = convert<T>(sqrtf(fabsf(float(a))));
        o[LESS] = convert<T>(a < b ? 1.0f : 0.0f);
        o[PAIR] = __hmax(__hneg(a), b);
}

template <typename T>
static T rounded(double v)
{
        /* float holds every sum and product of these inputs exactly, so only the last step rounds */
        return convert<T>(float(v));
}

template <typename T>
static void run()
{
        const int n = 500;
        std::vector<float> x(n), y(n);
        uint32_t seed = 17;
        int wrong = 0;
        T *out;

        for (int i = 0; i < n; i++) {
                x[i] = float(program_random(&seed) % 2000) / 64.0f - 15.0f;
                y[i] = float(program_random(&seed) % 1000 + 1) / 128.0f;
        }
        float *dx = program_upload(x), *dy = program_upload(y);
        MUST(cudaMalloc(&out, n * N * sizeof(T)));
        LAUNCHED(compute<T><<<4, 128>>>(dx, dy, out, n));
        std::vector<T> got = program_download(out, n * N);
        for (int i = 0; i < n; i++) {
                T a = convert<T>(x[i]), b = convert<T>(y[i]), e[N];
                double da = float(a), db = float(b);

                e[SUM] = rounded<T>(da + db);
                e[PRODUCT] = rounded<T>(da * db);
                e[FUSED] = rounded<T>(da * db + da);
                e[QUOTIENT] = convert<T>(float(a) / float(b));
                e[TO_HALF] = a;
                e[ROOT] = convert<T>(sqrtf(fabsf(float(a))));
                e[LESS] = convert<T>(da < db ? 1.0f : 0.0f);
                e[PAIR] = convert<T>(float(-da > db ? -da : db));
                wrong += memcmp(e, &got[i * N], sizeof(e)) != 0;
        }
        CHECK(wrong == 0);
        OK(cudaFree(dx));
        OK(cudaFree(dy));
        OK(cudaFree(out));
}

int main()
{
        run<__half>();
        run<__nv_bfloat16>();
        return program_end("halves");
}
