/* SPDX-License-Identifier: Apache-2.0 */
/* Templates with C names, lambdas, and a small class hierarchy without virtual functions. */

template <typename T> struct op_add {
        static __device__ T identity(void)
        {
                return T(0);
        }
        static __device__ T apply(T a, T b)
        {
                return a + b;
        }
};

template <typename T> struct op_max {
        static __device__ T identity(void)
        {
                return T(-1000000);
        }
        static __device__ T apply(T a, T b)
        {
                return a > b ? a : b;
        }
};

template <typename T, template <typename> class OP, int THREADS> static __device__ void reduce_into(const T *in, T *out, int n)
{
        __shared__ T s[THREADS];
        T v = OP<T>::identity();

        for (int i = threadIdx.x; i < n; i += THREADS)
                v = OP<T>::apply(v, in[i]);
        s[threadIdx.x] = v;
        __syncthreads();
#pragma unroll
        for (int d = THREADS / 2; d > 0; d /= 2) {
                if (threadIdx.x < d)
                        s[threadIdx.x] = OP<T>::apply(s[threadIdx.x], s[threadIdx.x + d]);
                __syncthreads();
        }
        if (threadIdx.x == 0)
                *out = s[0];
}

extern "C" __global__ void template_sum_int(const int *in, int *out, int n)
{
        reduce_into<int, op_add, 128>(in, out, n);
}

extern "C" __global__ void template_max_long(const long long *in, long long *out, int n)
{
        reduce_into<long long, op_max, 64>(in, out, n);
}

extern "C" __global__ void template_max_double(const double *in, double *out, int n)
{
        reduce_into<double, op_max, 256>(in, out, n);
}

template <typename F> static __device__ void map(int n, F f)
{
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
                f(i);
}

extern "C" __global__ void template_lambda(float *data, float scale, int n)
{
        map(n, [=](int i) { data[i] = data[i] * scale + i; });
}

template <int N> static __device__ unsigned power(unsigned x)
{
        return N == 0 ? 1 : x * power<(N > 0 ? N - 1 : 0)>(x);
}

extern "C" __global__ void template_power(const unsigned *in, unsigned *out)
{
        out[threadIdx.x] = power<7>(in[threadIdx.x]) + power<3>(threadIdx.x);
}
