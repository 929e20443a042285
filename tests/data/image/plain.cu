/* SPDX-License-Identifier: Apache-2.0 */
/* For test_image_cubin.c: one kernel without variables or printf; sine uses a table of the mathematical library. */
extern "C" __global__ void sines(float *v)
{
        v[threadIdx.x] = sinf(v[threadIdx.x] * 1e6f);
}
