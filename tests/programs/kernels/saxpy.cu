/* SPDX-License-Identifier: Apache-2.0 */
/* The first kernel of every CUDA course, in common variants: guarded, grid-stride, vectorised, restrict. */

extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                y[i] = a * x[i] + y[i];
}

extern "C" __global__ void saxpy_stride(int n, float a, const float *__restrict__ x, float *__restrict__ y)
{
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
                y[i] = a * x[i] + y[i];
}

extern "C" __global__ void saxpy_vec4(int n4, float a, const float4 *__restrict__ x, float4 *y)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n4) {
                float4 v = x[i], w = y[i];

                w.x = a * v.x + w.x;
                w.y = a * v.y + w.y;
                w.z = a * v.z + w.z;
                w.w = a * v.w + w.w;
                y[i] = w;
        }
}

extern "C" __global__ void daxpy(int n, double a, const double *x, double *y)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                y[i] = a * x[i] + y[i];
}

extern "C" __global__ void vector_add(const float *a, const float *b, float *c, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                c[i] = a[i] + b[i];
}
