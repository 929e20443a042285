/* SPDX-License-Identifier: Apache-2.0 */
/* Activations: GELU through erf and through tanh, ReLU, SiLU, bias. */

extern "C" __global__ void gelu_erf(const float *in, float *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = 0.5f * in[i] * (1.0f + erff(in[i] * 0.70710678f));
}

extern "C" __global__ void gelu_tanh(const float *in, float *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                float x = in[i];

                out[i] = 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
        }
}

extern "C" __global__ void silu(const float *in, float *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = in[i] / (1.0f + __expf(-in[i]));
}

extern "C" __global__ void bias_relu(float *data, const float *bias, int channels, int pixels)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < channels * pixels)
                data[i] = fmaxf(data[i] + bias[i / pixels], 0.0f);
}
