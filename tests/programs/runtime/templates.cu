/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel template instantiated with many types, sizes, functors and structs: each instance has its own launch stub */
#include "runtime.h"

struct Vec3 {
        float x, y, z;
        __host__ __device__ Vec3 operator+(const Vec3 &o) const { return {x + o.x, y + o.y, z + o.z}; }
        bool operator==(const Vec3 &o) const { return x == o.x && y == o.y && z == o.z; }
};

template <typename T>
struct Twice {
        __host__ __device__ T operator()(T v) const { return v + v; }
};

struct Offset {
        int by;
        template <typename T>
        __host__ __device__ T operator()(T v) const
        {
                return v + T(by);
        }
};

template <typename T, int STRIDE, typename F>
__global__ void map(T *out, const T *in, int n, F f)
{
        for (int i = (blockIdx.x * blockDim.x + threadIdx.x) * STRIDE; i < n; i += gridDim.x * blockDim.x * STRIDE)
                for (int j = i; j < i + STRIDE && j < n; j++)
                        out[j] = f(in[j]);
}

template <typename T>
static T make(uint32_t r)
{
        return T(r % 100);
}

template <>
Vec3 make<Vec3>(uint32_t r)
{
        return {float(r % 7), float(r % 11), float(r % 13)};
}

template <typename T, int STRIDE, typename F>
static void run(int n, F f)
{
        std::vector<T> in(n), expected(n);
        uint32_t seed = n + STRIDE;
        T *din, *dout;

        for (int i = 0; i < n; i++) {
                in[i] = make<T>(program_random(&seed));
                expected[i] = f(in[i]);
        }
        din = program_upload(in);
        MUST(cudaMalloc(&dout, n * sizeof(T)));
        LAUNCHED(map<T, STRIDE><<<5, 64>>>(dout, din, n, f));
        CHECK(program_download(dout, n) == expected);
        OK(cudaFree(din));
        OK(cudaFree(dout));
}

int main()
{
        run<int, 1>(1000, Twice<int>());
        run<unsigned char, 4>(777, Twice<unsigned char>());
        run<short, 2>(999, Offset{-5});
        run<long long, 1>(500, Offset{1 << 20});
        run<float, 3>(1001, Twice<float>());
        run<double, 1>(640, Offset{3});
        run<Vec3, 2>(333, Twice<Vec3>());
        run<float, 1>(100, [] __host__ __device__(float v) { return v * 0.5f; });
        return program_end("templates");
}
