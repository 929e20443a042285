/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: signals and transforms. */
// targets: sm_80+ftz sm_90
#include <cstdint>

__device__ __forceinline__ float2 operator*(float2 a, float2 b)
{
        return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

extern "C" __global__ void fft_stage(const float2 *in, float2 *out, int n, int size)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, k = i & (size - 1);
        float2 a = in[i], b = in[i + n / 2], w;

        __sincosf(-3.14159265f * k / size, &w.y, &w.x);
        b = b * w;
        i = ((i - k) << 1) + k;
        out[i] = make_float2(a.x + b.x, a.y + b.y);
        out[i + size] = make_float2(a.x - b.x, a.y - b.y);
}

extern "C" __global__ void fft_256(float2 *data)
{
        __shared__ float2 s[256];
        unsigned i = threadIdx.x;

        s[__brev(i) >> 24] = data[blockIdx.x * 256 + i];
        s[__brev(i + 128) >> 24] = data[blockIdx.x * 256 + i + 128];
        for (unsigned half = 1; half < 256; half *= 2) {
                unsigned k = i & (half - 1), at = 2 * i - k;
                float2 w, a, b;

                __syncthreads();
                sincospif(-(float)k / half, &w.y, &w.x);
                a = s[at];
                b = s[at + half] * w;
                s[at] = make_float2(a.x + b.x, a.y + b.y);
                s[at + half] = make_float2(a.x - b.x, a.y - b.y);
        }
        __syncthreads();
        data[blockIdx.x * 256 + i] = s[i];
        data[blockIdx.x * 256 + i + 128] = s[i + 128];
}

extern "C" __global__ void fft_radix4(float2 *data, int stride)
{
        float2 *p = data + blockIdx.x * blockDim.x + threadIdx.x, v[4];

        for (int k = 0; k < 4; k++)
                v[k] = p[k * stride];
        float2 a = {v[0].x + v[2].x, v[0].y + v[2].y}, b = {v[0].x - v[2].x, v[0].y - v[2].y};
        float2 c = {v[1].x + v[3].x, v[1].y + v[3].y}, d = {v[1].y - v[3].y, v[3].x - v[1].x};

        p[0] = make_float2(a.x + c.x, a.y + c.y);
        p[stride] = make_float2(b.x + d.x, b.y + d.y);
        p[2 * stride] = make_float2(a.x - c.x, a.y - c.y);
        p[3 * stride] = make_float2(b.x - d.x, b.y - d.y);
}

extern "C" __global__ void fft_number_theoretic(unsigned *data, const unsigned *roots, int half)
{
        const unsigned p = 998244353;
        int i = blockIdx.x * blockDim.x + threadIdx.x, k = i & (half - 1), at = 2 * i - k;
        unsigned a = data[at], b = (unsigned)((uint64_t)data[at + half] * roots[half + k] % p);

        data[at] = a + b >= p ? a + b - p : a + b;
        data[at + half] = a >= b ? a - b : a + p - b;
}

extern "C" __global__ void dft_double(const double *in, double2 *out, int n)
{
        int k = blockIdx.x * blockDim.x + threadIdx.x;
        double re = 0, im = 0;

        for (int t = 0; t < n; t++) {
                double s, c;

                sincos(-6.283185307179586 * k * t / n, &s, &c);
                re += in[t] * c;
                im += in[t] * s;
        }
        out[k] = make_double2(re, im);
}

extern "C" __global__ void filter_fir(const float *in, const float *taps, float *out, int n, int n_taps)
{
        extern __shared__ float tap[];
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        float sum = 0;

        for (int k = threadIdx.x; k < n_taps; k += blockDim.x)
                tap[k] = taps[k];
        __syncthreads();
        for (int k = 0; k < n_taps && k <= i; k++)
                sum += tap[k] * in[i - k];
        if (i < n)
                out[i] = sum;
}

extern "C" __global__ void filter_biquad(const float *in, float *out, const float *coefficients, int n, int channels)
{
        int c = threadIdx.x;
        float b0 = coefficients[c * 5], b1 = coefficients[c * 5 + 1], b2 = coefficients[c * 5 + 2],
              a1 = coefficients[c * 5 + 3], a2 = coefficients[c * 5 + 4], z1 = 0, z2 = 0;

        for (int i = 0; i < n; i++) {
                float x = in[i * channels + c], y = b0 * x + z1;

                z1 = b1 * x - a1 * y + z2;
                z2 = b2 * x - a2 * y;
                out[i * channels + c] = y;
        }
}

extern "C" __global__ void filter_goertzel(const float *in, float *power, const float *frequency, int n)
{
        float coefficient = 2 * cosf(6.2831853f * frequency[threadIdx.x]), s1 = 0, s2 = 0;

        for (int i = 0; i < n; i++) {
                float s = fmaf(coefficient, s1, in[i] - s2);

                s2 = s1;
                s1 = s;
        }
        power[threadIdx.x] = s1 * s1 + s2 * s2 - coefficient * s1 * s2;
}

extern "C" __global__ void filter_lms(
        const float *in, const float *wanted, float *weights, float *error, int n, float rate)
{
        unsigned k = threadIdx.x;
        float w = weights[k];

        for (int i = 32; i < n; i++) {
                float x = in[i - k], y = w * x;

                for (int step = 16; step; step /= 2)
                        y += __shfl_xor_sync(~0u, y, step);
                y = wanted[i] - y;
                w += rate * y * x;
                if (k == 0)
                        error[i] = y;
        }
        weights[k] = w;
}

extern "C" __global__ void wavelet_haar(const float *in, float *out, int n)
{
        __shared__ float s[512];
        int i = threadIdx.x, total = n;

        s[i] = in[i];
        s[i + n / 2] = in[i + n / 2];
        __syncthreads();
        for (; total > 1; total /= 2) {
                float a = 0, b = 0;

                if (i < total / 2) {
                        a = s[2 * i];
                        b = s[2 * i + 1];
                }
                __syncthreads();
                if (i < total / 2) {
                        s[i] = (a + b) * 0.70710678f;
                        out[total / 2 + i] = (a - b) * 0.70710678f;
                }
                __syncthreads();
        }
        if (i == 0)
                out[0] = s[0];
}

extern "C" __global__ void signal_window(float *data, int n, int kind)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        float t = (float)i / (n - 1), w;

        if (i >= n)
                return;
        if (kind == 0)
                w = 0.5f - 0.5f * cospif(2 * t);
        else if (kind == 1)
                w = 0.54f - 0.46f * cospif(2 * t);
        else if (kind == 2)
                w = cyl_bessel_i0f(8 * sqrtf(1 - (2 * t - 1) * (2 * t - 1))) / cyl_bessel_i0f(8);
        else
                w = 1 - fabsf(2 * t - 1);
        data[i] *= w;
}

extern "C" __global__ void signal_magnitude_db(const float2 *in, float *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = 20 * log10f(fmaxf(hypotf(in[i].x, in[i].y), 1e-10f));
}

extern "C" __global__ void signal_autocorrelate(const float *in, double *out, int n)
{
        int lag = blockIdx.x * blockDim.x + threadIdx.x;
        double sum = 0;

        for (int i = lag; i < n; i++)
                sum += (double)in[i] * in[i - lag];
        if (lag < n)
                out[lag] = sum;
}

extern "C" __global__ void signal_resample(const float *in, int n, float *out, int m, float rate)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, at;
        float t, whole;

        if (i >= m)
                return;
        t = modff(i * rate, &whole);
        at = min((int)whole, n - 4);
        float a = in[at], b = in[at + 1], c = in[at + 2], d = in[at + 3];

        out[i] = b + 0.5f * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
}

extern "C" __global__ void signal_mu_law(const short *in, unsigned char *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, v, sign, exponent;

        if (i >= n)
                return;
        v = in[i];
        sign = v >> 8 & 0x80;
        v = min(abs(v), 32635) + 132;
        exponent = 24 - __clz(v);
        out[i] = (unsigned char)~(sign | (exponent << 4) | (v >> (exponent + 3) & 15));
}

extern "C" __global__ void signal_adpcm(const unsigned char *in, short *out, const short *steps, int n)
{
        int predicted = 0, index = 0;

        in += threadIdx.x * n;
        out += threadIdx.x * n * 2;
        for (int i = 0; i < 2 * n; i++) {
                int code = in[i / 2] >> i % 2 * 4 & 15, step = steps[index], d = step >> 3;

                if (code & 4)
                        d += step;
                if (code & 2)
                        d += step >> 1;
                if (code & 1)
                        d += step >> 2;
                predicted = max(-32768, min(32767, code & 8 ? predicted - d : predicted + d));
                index = max(0, min(88, index + ((code & 7) < 4 ? -1 : 2 * (code & 7) - 6)));
                out[i] = (short)predicted;
        }
}

extern "C" __global__ void signal_viterbi(const signed char *soft, unsigned long long *decisions, int n)
{
        __shared__ int metric[2][64];
        int state = threadIdx.x, now = 0;

        metric[0][state] = state ? 1000000 : 0;
        __syncthreads();
        for (int t = 0; t < n; t++, now ^= 1) {
                int a = soft[2 * t], b = soft[2 * t + 1], p0 = (state << 1) & 63, p1 = p0 | 1;
                int o0 = __popc(p0 << 1 & 0155), o1 = __popc(p1 << 1 & 0117);
                int m0 = metric[now][p0] + (o0 & 1 ? -a : a), m1 = metric[now][p1] + (o1 & 1 ? -b : b);
                unsigned bits = __ballot_sync(~0u, m1 < m0);

                metric[now ^ 1][state] = min(m0, m1);
                if (state % 32 == 0)
                        ((unsigned *)&decisions[t])[state / 32] = bits;
                __syncthreads();
        }
}
