/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of a small network: direct 3 x 3, im2col, a 1-D filter in shared memory from constants, pooling. */

/* Direct convolution: NCHW with one image; filters [out_c][in_c][3][3]; padding 1; bias and ReLU */
extern "C" __global__ void conv3x3(const float *__restrict__ in, const float *__restrict__ filter,
                                   const float *__restrict__ bias, float *__restrict__ out, int in_c, int height, int width)
{
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, oc = blockIdx.z;

        if (x >= width || y >= height)
                return;
        float sum = bias[oc];

        for (int ic = 0; ic < in_c; ic++) {
                for (int dy = -1; dy <= 1; dy++) {
                        for (int dx = -1; dx <= 1; dx++) {
                                int sx = x + dx, sy = y + dy;

                                if (sx < 0 || sy < 0 || sx >= width || sy >= height)
                                        continue;
                                sum += in[(ic * height + sy) * width + sx] *
                                       filter[((oc * in_c + ic) * 3 + dy + 1) * 3 + dx + 1];
                        }
                }
        }
        out[(oc * height + y) * width + x] = sum > 0 ? sum : 0;
}

/* Writes columns[(ic * 9 + k)][y * width + x], which turns a 3 x 3 convolution into a matrix product */
extern "C" __global__ void im2col3x3(const float *in, float *columns, int in_c, int height, int width)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, pixels = height * width;

        if (i >= in_c * 9 * pixels)
                return;
        int p = i % pixels, row = i / pixels, k = row % 9, ic = row / 9;
        int x = p % width + k % 3 - 1, y = p / width + k / 3 - 1;

        columns[i] = x >= 0 && y >= 0 && x < width && y < height ? in[(ic * height + y) * width + x] : 0.0f;
}

#define RADIUS 4
__constant__ float conv_taps[2 * RADIUS + 1] = { 0.01f, 0.05f, 0.1f, 0.2f, 0.28f, 0.2f, 0.1f, 0.05f, 0.01f };

extern "C" __global__ void conv1d(const float *in, float *out, int n)
{
        __shared__ float s[256 + 2 * RADIUS];
        int i = blockIdx.x * blockDim.x + threadIdx.x, t = threadIdx.x + RADIUS;

        s[t] = i < n ? in[i] : 0;
        if (threadIdx.x < RADIUS) {
                s[t - RADIUS] = i - RADIUS >= 0 ? in[i - RADIUS] : 0;
                s[t + blockDim.x] = i + (int)blockDim.x < n ? in[i + blockDim.x] : 0;
        }
        __syncthreads();
        if (i >= n)
                return;
        float sum = 0;

        for (int k = -RADIUS; k <= RADIUS; k++)
                sum += s[t + k] * conv_taps[k + RADIUS];
        out[i] = sum;
}

extern "C" __global__ void maxpool2x2(const float *in, float *out, int height, int width)
{
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.z;
        int ow = width / 2, oh = height / 2;

        if (x >= ow || y >= oh)
                return;
        const float *p = in + ((size_t)c * height + 2 * y) * width + 2 * x;

        out[((size_t)c * oh + y) * ow + x] = fmaxf(fmaxf(p[0], p[1]), fmaxf(p[width], p[width + 1]));
}
