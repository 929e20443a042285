/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates all memory block by block: the end is an error code, every block works, and after a free allocation
 * succeeds again
 */
#include "runtime.h"

__global__ void touch(uint32_t *first, uint32_t *last, uint32_t v)
{
        *first = v;
        *last = v + 1;
}

int main()
{
        std::vector<char *> pieces;
        size_t before, total, now, piece;
        cudaError_t e = cudaSuccess;
        char *p = NULL;

        MUST(cudaMemGetInfo(&before, &total));
        CHECK(before <= total && total > 0);
        piece = before / 8 / (2 << 20) * (2 << 20);
        while (pieces.size() < 20) {
                e = cudaMalloc(&p, piece);
                if (e != cudaSuccess)
                        break;
                pieces.push_back(p);
        }
        EXPECT(cudaErrorMemoryAllocation, e);
        EXPECT(cudaErrorMemoryAllocation, cudaGetLastError());
        OK(cudaGetLastError());
        CHECK(pieces.size() >= 6 && pieces.size() <= 8);
        if (pieces.empty())
                return program_end("out_of_memory");
        for (size_t i = 0; i < pieces.size(); i++)
                LAUNCHED(touch<<<1, 1>>>((uint32_t *)pieces[i], (uint32_t *)(pieces[i] + piece) - 1, i * 10));
        for (size_t i = 0; i < pieces.size(); i++) {
                uint32_t a, b;

                OK(cudaMemcpy(&a, pieces[i], 4, cudaMemcpyDeviceToHost));
                OK(cudaMemcpy(&b, pieces[i] + piece - 4, 4, cudaMemcpyDeviceToHost));
                CHECK(a == i * 10 && b == i * 10 + 1);
        }
        OK(cudaMemGetInfo(&now, &total));
        CHECK(now + pieces.size() * piece <= before + (64 << 20));
        OK(cudaFree(pieces.back()));
        pieces.pop_back();
        OK(cudaMalloc(&p, piece));
        pieces.push_back(p);
        for (char *q : pieces)
                OK(cudaFree(q));
        OK(cudaMemGetInfo(&now, &total));
        /* a runtime keeps some memory for itself after it has worked */
        CHECK(now + piece / 2 >= before);
        return program_end("out_of_memory");
}
