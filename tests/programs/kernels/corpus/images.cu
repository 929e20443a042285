/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: grids and images. */
// targets: sm_75 sm_90+fast
#include <cstdint>

__constant__ float window[25] = {1, 4, 6, 4, 1, 4, 16, 24, 16, 4, 6, 24, 36, 24, 6, 4, 16, 24, 16, 4, 1, 4, 6, 4, 1};
__constant__ signed char neighbours[8][2] = {{1, 0}, {1, 1}, {0, 1}, {-1, 1}, {-1, 0}, {-1, -1}, {0, -1}, {1, -1}};

extern "C" __global__ void grid_jacobi(const float *a, float *b, const float *f, int w, int h)
{
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, at = y * w + x;

        if (x > 0 && y > 0 && x < w - 1 && y < h - 1)
                b[at] = 0.25f * (a[at - 1] + a[at + 1] + a[at - w] + a[at + w] - f[at]);
}

extern "C" __global__ void grid_red_black(double *a, int w, int h, int colour, double omega)
{
        int y = blockIdx.y * blockDim.y + threadIdx.y + 1,
            x = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + 1 + ((y ^ colour) & 1);
        double *p = a + (size_t)y * w + x;

        if (x < w - 1 && y < h - 1)
                *p += omega * (0.25 * (p[-1] + p[1] + p[-w] + p[w]) - *p);
}

extern "C" __global__ void grid_heat3d(const float *a, float *b, int nx, int ny, int nz, float k)
{
        int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
        size_t plane = (size_t)nx * ny, at = plane + (size_t)y * nx + x;
        float below, here, above;

        if (x >= nx - 1 || y >= ny - 1)
                return;
        here = a[at - plane];
        above = a[at];
        for (int z = 1; z < nz - 1; z++, at += plane) {
                below = here;
                here = above;
                above = a[at + plane];
                b[at] = here + k * (below + above + a[at - 1] + a[at + 1] + a[at - nx] + a[at + nx] - 6 * here);
        }
}

extern "C" __global__ void grid_wave(const float *now, const float *before, float *next, int w, int h, float c2)
{
        __shared__ float s[10][34];
        int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, tx = threadIdx.x + 1,
            ty = threadIdx.y + 1;

        s[ty][tx] = now[y * w + x];
        if (threadIdx.x == 0)
                s[ty][0] = x ? now[y * w + x - 1] : 0;
        if (threadIdx.x == 31)
                s[ty][33] = x < w - 1 ? now[y * w + x + 1] : 0;
        if (threadIdx.y == 0)
                s[0][tx] = y ? now[(y - 1) * w + x] : 0;
        if (threadIdx.y == 7)
                s[9][tx] = y < h - 1 ? now[(y + 1) * w + x] : 0;
        __syncthreads();
        next[y * w + x] = 2 * s[ty][tx] - before[y * w + x] +
                          c2 * (s[ty][tx - 1] + s[ty][tx + 1] + s[ty - 1][tx] + s[ty + 1][tx] - 4 * s[ty][tx]);
}

extern "C" __global__ void grid_life(const unsigned char *a, unsigned char *b, int w, int h)
{
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, n = 0;

        if (x >= w)
                return;
        for (int k = 0; k < 8; k++)
                n += a[(y + neighbours[k][1] + h) % h * w + (x + neighbours[k][0] + w) % w];
        b[y * w + x] = n == 3 || (n == 2 && a[y * w + x]);
}

extern "C" __global__ void grid_life_bits(const uint64_t *a, uint64_t *b, int rows)
{
        int y = blockIdx.x * blockDim.x + threadIdx.x;
        uint64_t up, row, down, sums[2], s0 = 0, s1 = 0, s2 = 0;

        if (y >= rows)
                return;
        up = a[(y + rows - 1) % rows];
        row = a[y];
        down = a[(y + 1) % rows];
        for (int k = 0; k < 8; k++) {
                uint64_t line = k < 3 ? up : k < 6 ? down : row, carry;
                int shift = k < 6 ? k % 3 : (k - 6) * 2;
                uint64_t v = shift == 0 ? line << 1 | line >> 63 : shift == 1 ? line : line >> 1 | line << 63;

                carry = s0 & v;
                s0 ^= v;
                sums[0] = s1 & carry;
                s1 ^= carry;
                s2 |= sums[0];
        }
        sums[1] = s1 & ~s2;
        b[y] = sums[1] & (s0 | row);
}

extern "C" __global__ void image_sobel(const unsigned char *in, unsigned char *out, int w, int h)
{
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
        const unsigned char *p = in + y * w + x;

        if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1)
                return;
        int gx = p[1 - w] + 2 * p[1] + p[1 + w] - p[-1 - w] - 2 * p[-1] - p[-1 + w];
        int gy = p[w - 1] + 2 * p[w] + p[w + 1] - p[-w - 1] - 2 * p[-w] - p[-w + 1];

        out[y * w + x] = (unsigned char)min(255, (int)__fsqrt_rn((float)(gx * gx + gy * gy)));
}

extern "C" __global__ void image_convolve5(const float *in, float *out, int w, int h)
{
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
        float sum = 0;

        for (int dy = -2; dy <= 2; dy++)
                for (int dx = -2; dx <= 2; dx++)
                        sum += window[(dy + 2) * 5 + dx + 2] *
                               in[min(max(y + dy, 0), h - 1) * w + min(max(x + dx, 0), w - 1)];
        out[y * w + x] = sum / 256;
}

extern "C" __global__ void image_blur_rows(const uchar4 *in, float4 *out, int w, int radius)
{
        extern __shared__ float4 line[];
        const uchar4 *row = in + (size_t)blockIdx.x * w;

        for (int x = threadIdx.x; x < w + 2 * radius; x += blockDim.x) {
                uchar4 p = row[min(max(x - radius, 0), w - 1)];

                line[x] = make_float4(p.x, p.y, p.z, p.w);
        }
        __syncthreads();
        for (int x = threadIdx.x; x < w; x += blockDim.x) {
                float4 sum = {};

#pragma unroll 1
                for (int k = 0; k <= 2 * radius; k++) {
                        float g = __expf(-0.5f * (k - radius) * (k - radius));

                        sum.x += g * line[x + k].x;
                        sum.y += g * line[x + k].y;
                        sum.z += g * line[x + k].z;
                        sum.w += g * line[x + k].w;
                }
                out[(size_t)blockIdx.x * w + x] = sum;
        }
}

extern "C" __global__ void image_median3(const unsigned char *in, unsigned char *out, int w, int h)
{
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
        int v[9];

        if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1)
                return;
        for (int k = 0; k < 9; k++)
                v[k] = in[(y + k / 3 - 1) * w + x + k % 3 - 1];
        for (int i = 0; i < 5; i++)
                for (int j = i + 1; j < 9; j++) {
                        int low = min(v[i], v[j]);

                        v[j] = max(v[i], v[j]);
                        v[i] = low;
                }
        out[y * w + x] = (unsigned char)v[4];
}

extern "C" __global__ void image_bilateral(const float *in, float *out, int w, int h, float space, float range)
{
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
        float here, sum = 0, weights = 0;

        if (x >= w || y >= h)
                return;
        here = in[y * w + x];
        for (int dy = -3; dy <= 3; dy++)
                for (int dx = -3; dx <= 3; dx++) {
                        int u = x + dx, v = y + dy;

                        if (u >= 0 && v >= 0 && u < w && v < h) {
                                float d = in[v * w + u] - here, g = expf(-(dx * dx + dy * dy) * space - d * d * range);

                                sum += g * in[v * w + u];
                                weights += g;
                        }
                }
        out[y * w + x] = sum / weights;
}

extern "C" __global__ void image_erode(const unsigned *in, unsigned *out, int words, int h)
{
        int x = threadIdx.x, y = blockIdx.x;
        unsigned v = ~0u;

        for (int k = max(0, y - 1); k <= min(h - 1, y + 1); k++) {
                unsigned left = x ? in[k * words + x - 1] : ~0u, here = in[k * words + x];
                unsigned right = x < words - 1 ? in[k * words + x + 1] : ~0u;

                v &= here & __funnelshift_l(left, here, 1) & __funnelshift_r(here, right, 1);
        }
        out[y * words + x] = v;
}

extern "C" __global__ void image_resize(const float *in, int w, int h, float *out, int ow, int oh)
{
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
        float u = (x + 0.5f) * w / ow - 0.5f, v = (y + 0.5f) * h / oh - 0.5f, fu = floorf(u), fv = floorf(v);
        int x0 = max(0, (int)fu), y0 = max(0, (int)fv), x1 = min(w - 1, (int)fu + 1), y1 = min(h - 1, (int)fv + 1);

        if (x >= ow || y >= oh)
                return;
        u -= fu;
        v -= fv;
        out[y * ow + x] = (1 - v) * ((1 - u) * in[y0 * w + x0] + u * in[y0 * w + x1]) +
                          v * ((1 - u) * in[y1 * w + x0] + u * in[y1 * w + x1]);
}

extern "C" __global__ void image_to_yuv(const uchar3 *rgb, uchar3 *yuv, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                uchar3 p = rgb[i];

                yuv[i].x = (unsigned char)(((66 * p.x + 129 * p.y + 25 * p.z + 128) >> 8) + 16);
                yuv[i].y = (unsigned char)(((-38 * p.x - 74 * p.y + 112 * p.z + 128) >> 8) + 128);
                yuv[i].z = (unsigned char)(((112 * p.x - 94 * p.y - 18 * p.z + 128) >> 8) + 128);
        }
}

extern "C" __global__ void image_from_hsv(const float4 *hsv, uchar4 *rgb, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        float4 p = hsv[i];
        float sector = floorf(p.x * 6), f = p.x * 6 - sector, a = p.z * (1 - p.y), b = p.z * (1 - f * p.y),
              c = p.z * (1 - (1 - f) * p.y);
        float r, g, bl;

        switch ((int)sector % 6) {
        case 0:
                r = p.z, g = c, bl = a;
                break;
        case 1:
                r = b, g = p.z, bl = a;
                break;
        case 2:
                r = a, g = p.z, bl = c;
                break;
        case 3:
                r = a, g = b, bl = p.z;
                break;
        case 4:
                r = c, g = a, bl = p.z;
                break;
        default:
                r = p.z, g = a, bl = b;
        }
        rgb[i] = make_uchar4(255 * __saturatef(r), 255 * __saturatef(g), 255 * __saturatef(bl), 255 * __saturatef(p.w));
}

extern "C" __global__ void image_equalize(
        const unsigned char *in, const unsigned *cumulative, unsigned char *out, int n)
{
        __shared__ unsigned char table[256];

        if (threadIdx.x < 256)
                table[threadIdx.x] = (unsigned char)((uint64_t)cumulative[threadIdx.x] * 255 / cumulative[255]);
        __syncthreads();
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
                out[i] = table[in[i]];
}

extern "C" __global__ void image_integral_rows(const unsigned char *in, unsigned *out, int w)
{
        unsigned before = 0, lane = threadIdx.x;

        for (int x = lane; x < w; x += 32) {
                unsigned v = in[(size_t)blockIdx.x * w + x];

                for (int step = 1; step < 32; step *= 2) {
                        unsigned other = __shfl_up_sync(~0u, v, step);

                        v += lane >= step ? other : 0;
                }
                out[(size_t)blockIdx.x * w + x] = v + before;
                before += __shfl_sync(~0u, v, 31);
        }
}

extern "C" __global__ void image_hough(const unsigned char *edges, int *votes, int w, int h, int angles, int distances)
{
        int at = blockIdx.x * blockDim.x + threadIdx.x;

        if (at >= w * h || !edges[at])
                return;
        for (int a = 0; a < angles; a++) {
                float s, c;

                sincospif((float)a / angles, &s, &c);
                atomicAdd(&votes[a * distances + (int)rintf((at % w) * c + (at / w) * s) + distances / 2], 1);
        }
}

extern "C" __global__ void image_thin_edges(const float *gx, const float *gy, float *out, int w)
{
        int at = (blockIdx.y + 1) * w + blockIdx.x * blockDim.x + threadIdx.x + 1;
        float m = hypotf(gx[at], gy[at]), angle = atan2f(gy[at], gx[at]);
        int sector = (int)roundf(angle * (4 / 3.14159265f)) & 3, step = sector == 0   ? 1
                                                                        : sector == 1 ? w + 1
                                                                        : sector == 2 ? w
                                                                                      : w - 1;

        out[at] = m >= hypotf(gx[at + step], gy[at + step]) && m >= hypotf(gx[at - step], gy[at - step]) ? m : 0;
}

extern "C" __global__ void image_mandelbrot(unsigned *out, int w, int h, int limit)
{
        int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y, n = 0;
        float x = 0, y = 0, cx = 3.0f * px / w - 2, cy = 2.0f * py / h - 1;

        while (x * x + y * y < 4 && n < limit) {
                float t = x * x - y * y + cx;

                y = 2 * x * y + cy;
                x = t;
                n++;
        }
        out[py * w + px] = n == limit ? 0 : 0x01000193u * n;
}

extern "C" __global__ void image_julia_double(float *out, double cx, double cy, int w, int limit)
{
        int n;
        double x = 4.0 * (blockIdx.x * blockDim.x + threadIdx.x) / w - 2, y = 4.0 * blockIdx.y / w - 2;

        for (n = 0; n < limit && x * x + y * y < 1e6; n++) {
                double t = x * x - y * y + cx;

                y = 2 * x * y + cy;
                x = t;
        }
        out[blockIdx.y * w + blockIdx.x * blockDim.x + threadIdx.x] = (float)(n + 1 - log2(log(x * x + y * y) / 2));
}

extern "C" __global__ void image_dct8(const short *in, short *out, int stride)
{
        __shared__ float s[8][8];
        int u = threadIdx.x, v = threadIdx.y;
        float sum = 0;

        s[v][u] = in[(blockIdx.y * 8 + v) * stride + blockIdx.x * 8 + u];
        __syncthreads();
        for (int y = 0; y < 8; y++)
                for (int x = 0; x < 8; x++)
                        sum += s[y][x] * cospif((2 * x + 1) * u / 16.0f) * cospif((2 * y + 1) * v / 16.0f);
        out[(blockIdx.y * 8 + v) * stride + blockIdx.x * 8 + u] =
                (short)__float2int_rn(sum * 0.25f * (u ? 1 : 0.70710678f) * (v ? 1 : 0.70710678f));
}

extern "C" __global__ void image_distance_columns(const unsigned char *in, float *out, int w, int h)
{
        int x = blockIdx.x * blockDim.x + threadIdx.x;
        float d = 1e10f;

        if (x >= w)
                return;
        for (int y = 0; y < h; y++)
                out[y * w + x] = d = in[y * w + x] ? 0 : d + 1;
        for (int y = h - 1; y >= 0; y--) {
                d = fminf(d + 1, out[y * w + x]);
                out[y * w + x] = d * d;
        }
}

extern "C" __global__ void image_dither(const unsigned char *in, unsigned *out, int w)
{
        static const unsigned char bayer[4][4] = {{0, 8, 2, 10}, {12, 4, 14, 6}, {3, 11, 1, 9}, {15, 7, 13, 5}};
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
        unsigned bits = __ballot_sync(~0u, in[y * w + x] > bayer[y & 3][x & 3] * 16 + 8);

        if (x % 32 == 0)
                out[(y * w + x) / 32] = __brev(bits);
}
