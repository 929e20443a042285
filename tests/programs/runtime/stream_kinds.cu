/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Properties of streams: flags, priorities (clamped), numbers, devices, attributes, and errors
 */
#include <set>

#include "runtime.h"

__global__ void mark(int *p, int v)
{
        *p = v;
}

static void priorities()
{
        int least, greatest, p = 99, *device, got;

        MUST(cudaMalloc(&device, 4));
        OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
        CHECK(least == 0 && greatest <= least);
        for (int wanted = least + 3; wanted >= greatest - 3; wanted--) {
                int expected = wanted > least ? least : wanted < greatest ? greatest : wanted;
                cudaStream_t s;

                MUST(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, wanted));
                OK(cudaStreamGetPriority(s, &p));
                CHECK(p == expected);
                LAUNCHED(mark<<<1, 1, 0, s>>>(device, wanted));
                OK(cudaStreamSynchronize(s));
                OK(cudaMemcpy(&got, device, 4, cudaMemcpyDeviceToHost));
                CHECK(got == wanted);
                OK(cudaStreamDestroy(s));
        }
        OK(cudaStreamGetPriority(0, &p));
        CHECK(p == 0);
        OK(cudaFree(device));
}

static void flags_and_ids()
{
        std::set<unsigned long long> ids;
        unsigned long long id = 0, same = 0;
        cudaStream_t a, b;
        unsigned int f = 99;
        int d = 99;

        MUST(cudaStreamCreate(&a));
        MUST(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
        OK(cudaStreamGetFlags(a, &f));
        CHECK(f == cudaStreamDefault);
        OK(cudaStreamGetFlags(b, &f));
        CHECK(f == cudaStreamNonBlocking);
        OK(cudaStreamGetFlags(0, &f));
        CHECK(f == 0);
        OK(cudaStreamGetFlags(cudaStreamPerThread, &f));
        CHECK(f == 0);
        OK(cudaStreamGetDevice(b, &d));
        CHECK(d == 0);
        cudaStream_t all[] = {a, b, 0, cudaStreamPerThread};
        for (cudaStream_t s : all) {
                OK(cudaStreamGetId(s, &id));
                OK(cudaStreamGetId(s, &same));
                CHECK(id == same);
                ids.insert(id);
        }
        CHECK(ids.size() == 4);
        OK(cudaStreamGetId(0, &id));
        OK(cudaStreamGetId(cudaStreamLegacy, &same));
        CHECK(id == same);
        OK(cudaStreamDestroy(a));
        OK(cudaStreamDestroy(b));
}

static void wrong()
{
        cudaStream_t s;

        EXPECT(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&s, 8));
        EXPECT(cudaErrorInvalidValue, cudaStreamCreate(NULL));
        EXPECT(cudaErrorInvalidResourceHandle, cudaStreamDestroy(0));
        EXPECT(cudaErrorInvalidResourceHandle, cudaStreamDestroy(cudaStreamLegacy));
        EXPECT(cudaErrorInvalidResourceHandle, cudaStreamDestroy(cudaStreamPerThread));
        OK(cudaStreamQuery(0));
        OK(cudaStreamQuery(cudaStreamPerThread));
}

int main()
{
        priorities();
        flags_and_ids();
        wrong();
        return program_end("stream_kinds");
}
