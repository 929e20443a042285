/* SPDX-License-Identifier: Apache-2.0 */
/* Many copies in one call: small blocks in every direction, in a stream other than the default one */
#include "runtime.h"

int main()
{
        const int pieces = 12;
        std::vector<uint8_t> expected(8192);
        cudaMemcpyAttributes attributes = {};
        const void *from[pieces];
        void *to[pieces];
        size_t sizes[pieces], index = 0;
        uint8_t *in, *out, *a, *b;
        cudaStream_t s;

        MUST(cudaStreamCreate(&s));
        MUST(cudaMallocHost(&in, 8192));
        MUST(cudaMallocHost(&out, 8192));
        MUST(cudaMalloc(&a, 8192));
        MUST(cudaMalloc(&b, 8192));
        for (int i = 0; i < 8192; i++)
                in[i] = i * 11;
        memset(out, 0, 8192);
        OK(cudaMemset(a, 1, 8192));
        OK(cudaMemset(b, 2, 8192));
        attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
        /* copies of a batch may run in any order, so each batch has one direction */
        for (int i = 0; i < pieces; i++) {
                from[i] = in + i * 600;
                to[i] = a + i * 601;
                sizes[i] = 500 + i;
        }
        OK(cudaMemcpyBatchAsync(to, from, sizes, pieces, &attributes, &index, 1, s));
        for (int i = 0; i < pieces; i++) {
                from[i] = a + i * 601;
                to[i] = b + i * 602;
        }
        OK(cudaMemcpyBatchAsync(to, from, sizes, pieces, &attributes, &index, 1, s));
        for (int i = 0; i < pieces; i++) {
                from[i] = b + i * 602;
                to[i] = out + i * 603;
                memcpy(&expected[i * 603], in + i * 600, 500 + i);
        }
        OK(cudaMemcpyBatchAsync(to, from, sizes, pieces, &attributes, &index, 1, s));
        OK(cudaStreamSynchronize(s));
        SAME(out, expected.data(), 8192);
        EXPECT(cudaErrorInvalidValue, cudaMemcpyBatchAsync(to, from, sizes, pieces, &attributes, &index, 1, 0));
        OK(cudaFree(a));
        OK(cudaFree(b));
        OK(cudaFreeHost(in));
        OK(cudaFreeHost(out));
        OK(cudaStreamDestroy(s));
        return program_end("batch_copies");
}
