// SPDX-License-Identifier: Apache-2.0
// Memory-bound kernels for tests/gpu/colour.c, all with the same parameters. n is a power of two, at least 65536.
// Kernels with rows have COLUMNS elements per row.

#define COLUMNS 256u

#define KERNEL extern "C" __global__ void
#define PARAMS const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out, unsigned n
#define AT (blockIdx.x * blockDim.x + threadIdx.x)

KERNEL copy(PARAMS)
{
        out[AT] = a[AT];
}

KERNEL copy_vectors(PARAMS)
{
        ((float4 *)out)[AT] = ((const float4 *)a)[AT];
}

KERNEL add(PARAMS)
{
        out[AT] = a[AT] + b[AT];
}

KERNEL add_in_place(PARAMS)
{
        out[AT] = out[AT] * 0.5f + a[AT];
}

// threads step through all elements by the size of the grid, in a loop that compilers unroll
KERNEL add_strided(PARAMS)
{
        for (unsigned i = AT; i < n; i += gridDim.x * blockDim.x)
                out[i] = a[i] + 3 * b[i];
}

// each thread reads four neighbouring elements one by one
KERNEL neighbours(PARAMS)
{
        for (unsigned k = 0; k < 4; k++)
                out[4 * AT + k] = a[4 * AT + k] * b[4 * AT + k];
}

KERNEL gather(PARAMS)
{
        out[AT] = a[__float_as_uint(b[AT]) * 2654435761u % n];
}

__device__ float sum_of_block(float x)
{
        __shared__ float part[8];

        for (unsigned k = 16; k; k /= 2)
                x += __shfl_xor_sync(~0u, x, k);
        if (threadIdx.x % 32 == 0)
                part[threadIdx.x / 32] = x;
        __syncthreads();
        x = 0;
        for (unsigned k = 0; k < 8; k++)
                x += part[k];
        __syncthreads();
        return x;
}

// each block of 256 threads reduces 4096 elements
KERNEL reduce(PARAMS)
{
        float sum = 0;

        for (unsigned k = 0; k < 16; k++)
                sum += a[blockIdx.x * 4096 + k * 256 + threadIdx.x];
        sum = sum_of_block(sum);
        if (!threadIdx.x)
                out[blockIdx.x] = sum;
}

KERNEL softmax(PARAMS)
{
        float x[4], sum = 0;

        for (unsigned k = 0; k < 4; k++) {
                x[k] = __expf(a[blockIdx.x * 1024 + k * 256 + threadIdx.x]);
                sum += x[k];
        }
        sum = sum_of_block(sum);
        for (unsigned k = 0; k < 4; k++)
                out[blockIdx.x * 1024 + k * 256 + threadIdx.x] = x[k] / sum;
}

KERNEL normalise(PARAMS)
{
        float4 x = ((const float4 *)a)[AT], w = ((const float4 *)b)[threadIdx.x];
        float mean = sum_of_block(x.x + x.y + x.z + x.w) / 1024, square;

        square = sum_of_block(x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w) / 1024;
        square = rsqrtf(square - mean * mean + 1e-5f);
        x.x = (x.x - mean) * square * w.x;
        x.y = (x.y - mean) * square * w.y;
        x.z = (x.z - mean) * square * w.z;
        x.w = (x.w - mean) * square * w.w;
        ((float4 *)out)[AT] = x;
}

// each block of 32 * 8 threads transposes tiles of 32 * 32
KERNEL transpose(PARAMS)
{
        __shared__ float tile[32][33];
        unsigned rows = n / COLUMNS, x = blockIdx.x % (COLUMNS / 32) * 32, y = blockIdx.x / (COLUMNS / 32) * 32;
        unsigned tx = threadIdx.x % 32, ty = threadIdx.x / 32;

        for (unsigned k = 0; k < 32; k += 8)
                tile[ty + k][tx] = a[(y + ty + k) * COLUMNS + x + tx];
        __syncthreads();
        for (unsigned k = 0; k < 32; k += 8)
                out[(x + ty + k) * rows + y + tx] = tile[tx][ty + k];
}

KERNEL stencil(PARAMS)
{
        unsigned i = AT, x = i % COLUMNS, rows = n / COLUMNS, y = i / COLUMNS;
        float sum = 4 * a[i];

        sum -= x ? a[i - 1] : 0;
        sum -= x + 1 < COLUMNS ? a[i + 1] : 0;
        sum -= y ? a[i - COLUMNS] : 0;
        sum -= y + 1 < rows ? a[i + COLUMNS] : 0;
        out[i] = sum;
}

// each warp multiplies one row by the vector
KERNEL gemv(PARAMS)
{
        unsigned row = AT / 32, lane = threadIdx.x % 32;
        float sum = 0;

        for (unsigned k = lane; k < COLUMNS; k += 32)
                sum += a[row * COLUMNS + k] * b[k];
        for (unsigned k = 16; k; k /= 2)
                sum += __shfl_xor_sync(~0u, sum, k);
        if (!lane)
                out[row] = sum;
}

// out = a * b, b of COLUMNS * COLUMNS: tiles of 32 * 32, by 32 * 8 threads
KERNEL gemm(PARAMS)
{
        __shared__ float left[32][33], right[32][33];
        unsigned x = blockIdx.x % (COLUMNS / 32) * 32, y = blockIdx.x / (COLUMNS / 32) * 32;
        unsigned tx = threadIdx.x % 32, ty = threadIdx.x / 32;
        float sum[4] = {};

        for (unsigned k = 0; k < COLUMNS; k += 32) {
                for (unsigned i = 0; i < 4; i++) {
                        left[ty + 8 * i][tx] = a[(y + ty + 8 * i) * COLUMNS + k + tx];
                        right[ty + 8 * i][tx] = b[(k + ty + 8 * i) * COLUMNS + x + tx];
                }
                __syncthreads();
                for (unsigned j = 0; j < 32; j++)
                        for (unsigned i = 0; i < 4; i++)
                                sum[i] += left[ty + 8 * i][j] * right[j][tx];
                __syncthreads();
        }
        for (unsigned i = 0; i < 4; i++)
                out[(y + ty + 8 * i) * COLUMNS + x + tx] = sum[i];
}
