/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned memory: kernels read and write it in place, at the host's address; the host sees the result after a wait */
#include "runtime.h"

__global__ void twice(const int *in, int *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = in[i] * 2 + 1;
}

__global__ void count(unsigned int *counter)
{
        atomicAdd(counter, 1);
}

static void zero_copy(unsigned int flags)
{
        const int n = 5000;
        int *in, *out, *device_in, *device_out;
        bool good = true;

        MUST(cudaHostAlloc(&in, n * sizeof(int), flags));
        MUST(cudaHostAlloc(&out, n * sizeof(int), flags | cudaHostAllocMapped));
        OK(cudaMemset(in, 0x5a, n * sizeof(int)));
        OK(cudaDeviceSynchronize());
        CHECK(in[0] == 0x5a5a5a5a && in[n - 1] == 0x5a5a5a5a);
        OK(cudaHostGetDevicePointer(&device_in, in, 0));
        OK(cudaHostGetDevicePointer(&device_out, out, 0));
        CHECK(device_in == in && device_out == out);
        for (int i = 0; i < n; i++)
                in[i] = i * 3;
        LAUNCHED(twice<<<(n + 255) / 256, 256>>>(in, device_out, n));
        OK(cudaDeviceSynchronize());
        for (int i = 0; i < n; i++)
                good = good && out[i] == i * 6 + 1;
        CHECK(good);
        /* with unified addressing a pinned address is valid where a device address is */
        OK(cudaMemcpy(in, out, n * sizeof(int), cudaMemcpyDeviceToDevice));
        OK(cudaDeviceSynchronize());
        CHECK(in[n - 1] == (n - 1) * 6 + 1);
        OK(cudaFreeHost(in));
        OK(cudaFreeHost(out));
}

/* Host and device alternate on the same memory without a copy. */
static void turns()
{
        unsigned int *counter;

        MUST(cudaMallocHost(&counter, sizeof(*counter)));
        *counter = 0;
        for (unsigned int i = 0; i < 5; i++) {
                LAUNCHED(count<<<2, 64>>>(counter));
                OK(cudaStreamSynchronize(0));
                CHECK(*counter == i * 1000 + (i + 1) * 128);
                *counter += 1000;
        }
        OK(cudaFreeHost(counter));
}

static void flags()
{
        unsigned int f = 99;
        char local[64], *p;
        void *q;

        MUST(cudaMallocHost(&p, 64));
        OK(cudaHostGetFlags(&f, p));
        CHECK(f == cudaHostAllocMapped);
        EXPECT(cudaErrorInvalidValue, cudaHostGetDevicePointer(&q, p, 1));
        OK(cudaFreeHost(p));
        MUST(cudaHostAlloc(&p, 64, cudaHostAllocPortable | cudaHostAllocWriteCombined));
        OK(cudaHostGetFlags(&f, p));
        CHECK(f == (cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined));
        OK(cudaFreeHost(p));
        EXPECT(cudaErrorInvalidValue, cudaHostGetFlags(&f, local));
        EXPECT(cudaErrorInvalidValue, cudaHostGetDevicePointer(&q, local, 0));
        EXPECT(cudaErrorInvalidValue, cudaHostAlloc(&p, 16, 0x100));
        EXPECT(cudaErrorInvalidValue, cudaFreeHost(local));
        OK(cudaFreeHost(NULL));
        OK(cudaMallocHost(&p, 0));
        CHECK(p == NULL);
}

int main()
{
        zero_copy(cudaHostAllocDefault);
        zero_copy(cudaHostAllocPortable);
        turns();
        flags();
        return program_end("pinned");
}
