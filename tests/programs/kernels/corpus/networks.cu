/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: layers of neural networks, forward, backward, and optimizers. */
// targets: sm_80
#include <cfloat>
#include <cstdint>

__device__ __forceinline__ float sum_warp(float v)
{
        for (int step = 16; step; step /= 2)
                v += __shfl_xor_sync(~0u, v, step);
        return v;
}

__device__ float sum_block(float v)
{
        __shared__ float s[32];

        v = sum_warp(v);
        if (threadIdx.x % 32 == 0)
                s[threadIdx.x / 32] = v;
        __syncthreads();
        v = sum_warp(threadIdx.x % 32 < (blockDim.x + 31) / 32 ? s[threadIdx.x % 32] : 0);
        __syncthreads();
        return v;
}

extern "C" __global__ void nn_attention(const float *q, const float *k, const float *v, float *out, int n, int d)
{
        extern __shared__ float score[];
        const float *query = q + (size_t)blockIdx.x * d;
        float most = -FLT_MAX, sum = 0;

        for (int j = threadIdx.x; j < n; j += blockDim.x) {
                float dot = 0;

                for (int e = 0; e < d; e++)
                        dot += query[e] * k[(size_t)j * d + e];
                score[j] = dot * rsqrtf((float)d);
        }
        __syncthreads();
        for (int j = 0; j < n; j++)
                most = fmaxf(most, score[j]);
        for (int j = 0; j < n; j++)
                sum += __expf(score[j] - most);
        for (int e = threadIdx.x; e < d; e += blockDim.x) {
                float value = 0;

                for (int j = 0; j < n; j++)
                        value += __expf(score[j] - most) * v[(size_t)j * d + e];
                out[(size_t)blockIdx.x * d + e] = value / sum;
        }
}

/* One query per thread, keys and values in tiles; earlier terms are rescaled when the maximum grows */
extern "C" __global__ void nn_attention_tiled(
        const float *q, const float *k, const float *v, float *out, int n, int causal)
{
        __shared__ float ks[32][32], vs[32][32];
        int at = blockIdx.x * 32 + threadIdx.x;
        float query[32], value[32], most = -FLT_MAX, sum = 0;

        for (int e = 0; e < 32; e++) {
                query[e] = q[at * 32 + e];
                value[e] = 0;
        }
        for (int tile = 0; tile < n; tile += 32) {
                for (int e = 0; e < 32; e++) {
                        ks[e][threadIdx.x] = k[(tile + e) * 32 + threadIdx.x];
                        vs[e][threadIdx.x] = v[(tile + e) * 32 + threadIdx.x];
                }
                __syncthreads();
                for (int j = 0; j < 32; j++) {
                        float s = 0, next, scale, p;

                        if (causal && tile + j > at)
                                break;
                        for (int e = 0; e < 32; e++)
                                s += query[e] * ks[j][e];
                        next = fmaxf(most, s);
                        scale = __expf(most - next);
                        p = __expf(s - next);
                        sum = sum * scale + p;
                        for (int e = 0; e < 32; e++)
                                value[e] = value[e] * scale + p * vs[j][e];
                        most = next;
                }
                __syncthreads();
        }
        for (int e = 0; e < 32; e++)
                out[at * 32 + e] = value[e] / sum;
}

extern "C" __global__ void nn_softmax_online(const float *in, float *out, int n)
{
        const float *row = in + (size_t)blockIdx.x * n;
        float most = -FLT_MAX, sum = 0;

        for (int i = threadIdx.x; i < n; i += 32) {
                float next = fmaxf(most, row[i]);

                sum = sum * expf(most - next) + expf(row[i] - next);
                most = next;
        }
        for (int step = 16; step; step /= 2) {
                float m = __shfl_xor_sync(~0u, most, step), s = __shfl_xor_sync(~0u, sum, step), next = fmaxf(m, most);

                sum = sum * expf(most - next) + s * expf(m - next);
                most = next;
        }
        for (int i = threadIdx.x; i < n; i += 32)
                out[(size_t)blockIdx.x * n + i] = expf(row[i] - most) / sum;
}

extern "C" __global__ void nn_rms_norm(const float *in, const float *gain, float *out, int n)
{
        float sum = 0, scale;

        for (int i = threadIdx.x; i < n; i += blockDim.x)
                sum += in[blockIdx.x * n + i] * in[blockIdx.x * n + i];
        scale = rsqrtf(sum_block(sum) / n + 1e-5f);
        for (int i = threadIdx.x; i < n; i += blockDim.x)
                out[blockIdx.x * n + i] = in[blockIdx.x * n + i] * scale * gain[i];
}

extern "C" __global__ void nn_group_norm(const float4 *in, float4 *out, const float *gain, const float *bias, int n4)
{
        const float4 *group = in + (size_t)blockIdx.x * n4;
        float sum = 0, squares = 0, mean, scale;

        for (int i = threadIdx.x; i < n4; i += blockDim.x) {
                float4 v = group[i];

                sum += v.x + v.y + v.z + v.w;
                squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
        }
        mean = sum_block(sum) / (4 * n4);
        scale = rsqrtf(sum_block(squares) / (4 * n4) - mean * mean + 1e-5f) * gain[blockIdx.x];
        for (int i = threadIdx.x; i < n4; i += blockDim.x) {
                float4 v = group[i];

                v.x = (v.x - mean) * scale + bias[blockIdx.x];
                v.y = (v.y - mean) * scale + bias[blockIdx.x];
                v.z = (v.z - mean) * scale + bias[blockIdx.x];
                v.w = (v.w - mean) * scale + bias[blockIdx.x];
                out[(size_t)blockIdx.x * n4 + i] = v;
        }
}

extern "C" __global__ void nn_layer_norm_backward(const float *dy, const float *x, const float *gain, float *dx, int n)
{
        float a = 0, b = 0, mean = 0, squares = 0, scale;
        size_t row = (size_t)blockIdx.x * n;

        for (int i = threadIdx.x; i < n; i += blockDim.x) {
                mean += x[row + i];
                squares += x[row + i] * x[row + i];
        }
        mean = sum_block(mean) / n;
        scale = 1 / sqrtf(sum_block(squares) / n - mean * mean + 1e-5f);
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
                a += dy[row + i] * gain[i];
                b += dy[row + i] * gain[i] * (x[row + i] - mean) * scale;
        }
        a = sum_block(a) / n;
        b = sum_block(b) / n;
        for (int i = threadIdx.x; i < n; i += blockDim.x)
                dx[row + i] = scale * (dy[row + i] * gain[i] - a - (x[row + i] - mean) * scale * b);
}

extern "C" __global__ void nn_batch_norm(float *x, const float *mean, const float *variance, int channels, int size)
{
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < channels * size; i += gridDim.x * blockDim.x) {
                int c = i / size;

                x[i] = fmaxf((x[i] - mean[c]) / sqrtf(variance[c] + 1e-3f), 0);
        }
}

extern "C" __global__ void nn_swiglu(const float *gate, const float *up, float *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = gate[i] / (1 + __expf(-gate[i])) * up[i];
}

extern "C" __global__ void nn_activations(const float *in, float *out, int n, int kind)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        float x;

        if (i >= n)
                return;
        x = in[i];
        switch (kind) {
        case 0:
                x = fmaxf(x, 0);
                break;
        case 1:
                x = x > 0 ? x : expm1f(x);
                break;
        case 2:
                x = 0.5f * x * (1 + erff(x * 0.70710678f));
                break;
        case 3:
                x = x * tanhf(log1pf(expf(x)));
                break;
        case 4:
                x = x * __saturatef(x / 6 + 0.5f);
                break;
        case 5:
                x = x / (1 + fabsf(x));
                break;
        case 6:
                x = copysignf(sqrtf(fabsf(x)), x);
                break;
        }
        out[i] = x;
}

extern "C" __global__ void nn_rotary(float2 *q, const int *position, int heads, int half)
{
        int i = blockIdx.x, e = threadIdx.x;
        float s, c, angle = position[i] * powf(10000.0f, -(float)e / half);

        sincosf(angle, &s, &c);
        for (int h = 0; h < heads; h++) {
                float2 v = q[((size_t)i * heads + h) * half + e];

                q[((size_t)i * heads + h) * half + e] = make_float2(v.x * c - v.y * s, v.x * s + v.y * c);
        }
}

extern "C" __global__ void nn_embedding(const int *tokens, const float4 *table, float4 *out, int width4, int words)
{
        int token = tokens[blockIdx.x];

        for (int i = threadIdx.x; i < width4; i += blockDim.x)
                out[(size_t)blockIdx.x * width4 + i] =
                        (unsigned)token < (unsigned)words ? table[(size_t)token * width4 + i] : make_float4(0, 0, 0, 0);
}

extern "C" __global__ void nn_embedding_backward(const int *tokens, const float *dy, float *table, int width)
{
        for (int i = threadIdx.x; i < width; i += blockDim.x)
                atomicAdd(&table[(size_t)tokens[blockIdx.x] * width + i], dy[(size_t)blockIdx.x * width + i]);
}

extern "C" __global__ void nn_cross_entropy(
        const float *logits, const int *labels, float *loss, float *gradient, int classes)
{
        const float *row = logits + (size_t)blockIdx.x * classes;
        float most = -FLT_MAX, sum = 0;

        for (int c = 0; c < classes; c++)
                most = fmaxf(most, row[c]);
        for (int c = threadIdx.x; c < classes; c += blockDim.x)
                sum += expf(row[c] - most);
        sum = sum_block(sum);
        for (int c = threadIdx.x; c < classes; c += blockDim.x)
                gradient[(size_t)blockIdx.x * classes + c] = expf(row[c] - most) / sum - (c == labels[blockIdx.x]);
        if (threadIdx.x == 0)
                loss[blockIdx.x] = logf(sum) + most - row[labels[blockIdx.x]];
}

extern "C" __global__ void nn_adam(
        float *w, const float *g, float *m, float *v, float rate, float b1, float b2, int step, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        float first = m[i] = b1 * m[i] + (1 - b1) * g[i], second = v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];

        w[i] -= rate * (first / (1 - powf(b1, step)) / (sqrtf(second / (1 - powf(b2, step))) + 1e-8f) + 0.01f * w[i]);
}

extern "C" __global__ void nn_momentum(
        float *w, const float *g, float *speed, float rate, float keep, float clip, int n)
{
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
                speed[i] = keep * speed[i] - rate * fminf(fmaxf(g[i], -clip), clip);
                w[i] += speed[i];
        }
}

extern "C" __global__ void nn_im2col(const float *in, float *out, int c, int h, int w, int k, int pad, int step)
{
        int oh = (h + 2 * pad - k) / step + 1, ow = (w + 2 * pad - k) / step + 1, n = c * k * k * oh * ow;

        for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n; at += gridDim.x * blockDim.x) {
                int x = at % ow, y = at / ow % oh, kx = at / (ow * oh) % k, ky = at / (ow * oh * k) % k,
                    ch = at / (ow * oh * k * k);
                int ix = x * step - pad + kx, iy = y * step - pad + ky;

                out[at] = ix >= 0 && iy >= 0 && ix < w && iy < h ? in[(ch * h + iy) * w + ix] : 0.0f;
        }
}

extern "C" __global__ void nn_col2im(const float *columns, float *out, int h, int w, int k, int oh, int ow)
{
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, c = blockIdx.z;
        float sum = 0;

        for (int ky = 0; ky < k; ky++)
                for (int kx = 0; kx < k; kx++)
                        if (x >= kx && y >= ky && x - kx < ow && y - ky < oh)
                                sum += columns[((c * k + ky) * k + kx) * oh * ow + (y - ky) * ow + x - kx];
        if (x < w)
                out[(c * h + y) * w + x] = sum;
}

template <int K> __device__ void depthwise(const float *in, const float *kernel, float *out, int w, int h)
{
        float weights[K][K];
        int x = blockIdx.x * blockDim.x + threadIdx.x, c = blockIdx.y;

        for (int i = 0; i < K * K; i++)
                weights[i / K][i % K] = kernel[c * K * K + i];
        for (int y = 0; y < h; y++) {
                float sum = 0;

#pragma unroll
                for (int i = 0; i < K; i++)
#pragma unroll
                        for (int j = 0; j < K; j++) {
                                int u = x + j - K / 2, v = y + i - K / 2;

                                if (u >= 0 && v >= 0 && u < w && v < h)
                                        sum += weights[i][j] * in[(c * h + v) * w + u];
                        }
                if (x < w)
                        out[(c * h + y) * w + x] = sum;
        }
}

extern "C" __global__ void nn_depthwise_3(const float *in, const float *kernel, float *out, int w, int h)
{
        depthwise<3>(in, kernel, out, w, h);
}

extern "C" __global__ void nn_depthwise_5(const float *in, const float *kernel, float *out, int w, int h)
{
        depthwise<5>(in, kernel, out, w, h);
}

extern "C" __global__ void nn_winograd_input(const float *in, float *out, int w)
{
        const float *d = in + (blockIdx.y * 2) * w + (blockIdx.x * blockDim.x + threadIdx.x) * 2;
        float t[4][4],
                *o = out + ((size_t)blockIdx.y * gridDim.x * blockDim.x + blockIdx.x * blockDim.x + threadIdx.x) * 16;

        for (int j = 0; j < 4; j++) {
                t[0][j] = d[j] - d[2 * w + j];
                t[1][j] = d[w + j] + d[2 * w + j];
                t[2][j] = d[2 * w + j] - d[w + j];
                t[3][j] = d[w + j] - d[3 * w + j];
        }
        for (int i = 0; i < 4; i++)
                *(float4 *)(o + 4 * i) =
                        make_float4(t[i][0] - t[i][2], t[i][1] + t[i][2], t[i][2] - t[i][1], t[i][1] - t[i][3]);
}

extern "C" __global__ void nn_max_pool(const float *in, float *out, int *where, int w, int h)
{
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, at = 0;
        float most = -INFINITY;

        for (int i = 0; i < 9; i++) {
                int u = 2 * x + i % 3, v = 2 * y + i / 3;

                if (u < w && v < h && !(in[v * w + u] <= most)) {
                        most = in[v * w + u];
                        at = v * w + u;
                }
        }
        out[y * (w / 2) + x] = most;
        where[y * (w / 2) + x] = at;
}

extern "C" __global__ void nn_global_average(const float *in, float *out, int size)
{
        float sum = 0;

        for (int i = threadIdx.x; i < size; i += blockDim.x)
                sum += in[(size_t)blockIdx.x * size + i];
        sum = sum_block(sum);
        if (threadIdx.x == 0)
                out[blockIdx.x] = sum / size;
}

extern "C" __global__ void nn_quantize(const float *in, signed char *out, float *scales, int n)
{
        float most = 0, scale;

        for (int i = threadIdx.x; i < n; i += 32)
                most = fmaxf(most, fabsf(in[blockIdx.x * n + i]));
        most = __uint_as_float(__reduce_max_sync(~0u, __float_as_uint(most)));
        scale = most / 127;
        for (int i = threadIdx.x; i < n; i += 32)
                out[blockIdx.x * n + i] =
                        (signed char)max(-127, min(127, __float2int_rn(in[blockIdx.x * n + i] / scale)));
        if (threadIdx.x == 0)
                scales[blockIdx.x] = scale;
}

extern "C" __global__ void nn_matvec_int4(
        const uint32_t *weights, const float2 *scale_zero, const float *x, float *y, int n8)
{
        float sum = 0;

        for (int i = threadIdx.x; i < n8; i += 32) {
                uint32_t w = weights[blockIdx.x * n8 + i];
                float2 sz = scale_zero[(blockIdx.x * n8 + i) / 16];

#pragma unroll
                for (int k = 0; k < 8; k++)
                        sum += ((w >> 4 * k & 15) - sz.y) * sz.x * x[i * 8 + k];
        }
        sum = sum_warp(sum);
        if (threadIdx.x == 0)
                y[blockIdx.x] = sum;
}

extern "C" __global__ void nn_sample(const float *probabilities, const float *random, int *out, int n, float top_p)
{
        float total = 0, target = random[blockIdx.x] * top_p;

        out[blockIdx.x] = n - 1;
        for (int base = 0; base < n; base += 32) {
                float p = base + threadIdx.x < n ? probabilities[blockIdx.x * n + base + threadIdx.x] : 0, s = p;
                unsigned hit;

                for (int step = 1; step < 32; step *= 2) {
                        float other = __shfl_up_sync(~0u, s, step);

                        s += threadIdx.x >= step ? other : 0;
                }
                hit = __ballot_sync(~0u, total + s > target);
                if (hit) {
                        out[blockIdx.x] = base + __ffs(hit) - 1;
                        return;
                }
                total += __shfl_sync(~0u, s, 31);
        }
}

extern "C" __global__ void nn_lstm_cell(const float *gates, float *c, float *h, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                float in = 1 / (1 + expf(-gates[i])), forget = 1 / (1 + expf(-gates[n + i])),
                      out = 1 / (1 + expf(-gates[3 * n + i]));

                c[i] = forget * c[i] + in * tanhf(gates[2 * n + i]);
                h[i] = out * tanhf(c[i]);
        }
}

extern "C" __global__ void nn_mixture_route(const float *scores, int *experts, float *weights, int *counts, int n)
{
        const float *s = scores + (size_t)(blockIdx.x * blockDim.x + threadIdx.x) * n;
        float a = -FLT_MAX, b = -FLT_MAX;
        int i = 0, j = 0;

        for (int e = 0; e < n; e++) {
                if (s[e] > a) {
                        b = a, j = i;
                        a = s[e], i = e;
                } else if (s[e] > b) {
                        b = s[e], j = e;
                }
        }
        *(int2 *)(experts + 2 * (blockIdx.x * blockDim.x + threadIdx.x)) = make_int2(i, j);
        *(float2 *)(weights + 2 * (blockIdx.x * blockDim.x + threadIdx.x)) =
                make_float2(1 / (1 + expf(b - a)), 1 / (1 + expf(a - b)));
        atomicAdd(&counts[i], 1);
        atomicAdd(&counts[j], 1);
}
