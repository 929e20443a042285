/* SPDX-License-Identifier: Apache-2.0 */
/* Uses all dynamic shared memory: one thread writes each word, another one reads it. */
extern "C" __global__ void fill_shared(unsigned *out, unsigned words, unsigned seed)
{
        extern __shared__ unsigned words_of_block[];
        unsigned sum = 0;

        for (unsigned i = threadIdx.x; i < words; i += blockDim.x)
                words_of_block[i] = (i + seed) * 2654435761u;
        __syncthreads();
        for (unsigned i = threadIdx.x; i < words; i += blockDim.x)
                sum += words_of_block[words - 1 - i] ^ i;
        out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
