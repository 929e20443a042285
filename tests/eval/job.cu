/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks whose length the host sets by the number of rounds; they touch almost no memory. */
extern "C" __global__ void blocks(unsigned *out, unsigned rounds)
{
        unsigned x = threadIdx.x + blockIdx.x;

        for (unsigned i = 0; i < rounds; i++)
                x = x * 1664525u + 1013904223u;
        if (x == 0x12345678u && rounds == 0xffffffffu)
                *out = x; /* never happens, but keeps the compiler from removing the loop */
}
