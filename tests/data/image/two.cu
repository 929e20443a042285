/* SPDX-License-Identifier: Apache-2.0 */
/* test_image.mk compiles it into every kind of fatbin: two kernels, one global, and long enough for compression to
 * pay. */
__device__ int counter;

extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                y[i] = a * x[i] + y[i];
        if (i == 0)
                counter = n;
}

extern "C" __global__ void reduce(int n, const float *x, float *sum)
{
        __shared__ float part[256];
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        part[threadIdx.x] = i < n ? x[i] : 0.0f;
        __syncthreads();
        for (int step = 128; step; step /= 2) {
                if (threadIdx.x < step)
                        part[threadIdx.x] += part[threadIdx.x + step];
                __syncthreads();
        }
        if (threadIdx.x == 0)
                atomicAdd(sum, part[0]);
}
