/* SPDX-License-Identifier: Apache-2.0 */
/* For test_image_cubin.c: one variable of the kind that -DKIND selects. */
#if KIND == 0
__device__ int variable;
#elif KIND == 1
__device__ int variable = 7;
#else
__constant__ int variable = 7;
#endif

extern "C" __global__ void reads(int *v)
{
        *v = variable;
}
