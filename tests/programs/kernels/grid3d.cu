/* SPDX-License-Identifier: Apache-2.0 */
/* Three-dimensional grids and blocks: every thread writes its indices; a 7-point stencil. */

extern "C" __global__ void grid3d_where(unsigned *out)
{
        unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
        unsigned threads = blockDim.x * blockDim.y * blockDim.z;

        out[block * threads + thread] = blockIdx.x | blockIdx.y << 4 | blockIdx.z << 8 | threadIdx.x << 12 |
                                        threadIdx.y << 16 | threadIdx.z << 20 | (thread / 32) << 24;
}

extern "C" __global__ void stencil7(const float *in, float *out, int nx, int ny, int nz)
{
        int x = blockIdx.x * blockDim.x + threadIdx.x;
        int y = blockIdx.y * blockDim.y + threadIdx.y;
        int z = blockIdx.z * blockDim.z + threadIdx.z;

        if (x >= nx || y >= ny || z >= nz)
                return;
        size_t i = ((size_t)z * ny + y) * nx + x;

        if (x == 0 || y == 0 || z == 0 || x == nx - 1 || y == ny - 1 || z == nz - 1) {
                out[i] = in[i];
                return;
        }
        out[i] = 0.4f * in[i] + 0.1f * (in[i - 1] + in[i + 1]) + 0.1f * (in[i - nx] + in[i + nx]) +
                 0.1f * (in[i - (size_t)nx * ny] + in[i + (size_t)nx * ny]);
}
