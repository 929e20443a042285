/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix transposition: naive, and through a padded tile of shared memory (32 x 8 threads). */

extern "C" __global__ void transpose_naive(float *out, const float *in, int width, int height)
{
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;

        if (x < width && y < height)
                out[x * height + y] = in[y * width + x];
}

extern "C" __global__ void transpose_tiled(float *out, const float *in, int width, int height)
{
        __shared__ float tile[32][33];
        int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;

        for (int j = 0; j < 32; j += 8)
                if (x < width && y + j < height)
                        tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
        __syncthreads();
        x = blockIdx.y * 32 + threadIdx.x;
        y = blockIdx.x * 32 + threadIdx.y;
        for (int j = 0; j < 32; j += 8)
                if (x < height && y + j < width)
                        out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}
