/* SPDX-License-Identifier: Apache-2.0 */
/* Vector addition, with sizes that fill whole blocks and sizes that do not; results equal the processor's bit by bit */
#include "runtime.h"

__global__ void vector_add(const float *a, const float *b, float *c, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                c[i] = a[i] + b[i];
}

static void run(int n, int threads)
{
        std::vector<float> a(n), b(n), expected(n);
        float *da, *db, *dc;
        uint32_t seed = n;

        for (int i = 0; i < n; i++) {
                a[i] = program_random(&seed) / 65536.0f;
                b[i] = program_random(&seed) / 3.0f;
                expected[i] = a[i] + b[i];
        }
        da = program_upload(a);
        db = program_upload(b);
        MUST(cudaMalloc(&dc, n * sizeof(float)));
        LAUNCHED(vector_add<<<(n + threads - 1) / threads, threads>>>(da, db, dc, n));
        CHECK(program_download(dc, n) == expected);
        OK(cudaFree(da));
        OK(cudaFree(db));
        OK(cudaFree(dc));
}

int main()
{
        run(1, 32);
        run(1000, 128);
        run(1024, 1024);
        run(50001, 256);
        return program_end("vector_add");
}
