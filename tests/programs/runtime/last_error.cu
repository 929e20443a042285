/* SPDX-License-Identifier: Apache-2.0 */
/* The last error: one per thread; success does not clear it, reading does; names and texts of all codes */
#include <pthread.h>

#include "runtime.h"

__global__ void nothing()
{
}

static void *other_thread(void *)
{
        int *p;

        EXPECT(cudaSuccess, cudaPeekAtLastError());
        EXPECT(cudaErrorInvalidDevice, cudaSetDevice(1000));
        OK(cudaMalloc(&p, 4));
        OK(cudaFree(p));
        EXPECT(cudaErrorInvalidDevice, cudaPeekAtLastError());
        return nullptr;
}

static void names()
{
        static const struct {
                cudaError_t code;
                const char *name;
        } some[] = {
                {cudaSuccess, "cudaSuccess"},
                {cudaErrorInvalidValue, "cudaErrorInvalidValue"},
                {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation"},
                {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration"},
                {cudaErrorNoDevice, "cudaErrorNoDevice"},
                {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice"},
                {cudaErrorNotReady, "cudaErrorNotReady"},
                {cudaErrorIllegalAddress, "cudaErrorIllegalAddress"},
                {cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit"},
                {cudaErrorUnknown, "cudaErrorUnknown"},
        };
        int known = 0;

        for (const auto &s : some)
                CHECK(strcmp(cudaGetErrorName(s.code), s.name) == 0);
        CHECK(strcmp(cudaGetErrorName((cudaError_t)12345), "unrecognized error code") == 0);
        CHECK(strcmp(cudaGetErrorString((cudaError_t)12345), "unrecognized error code") == 0);
        CHECK(strcmp(cudaGetErrorString(cudaSuccess), "no error") == 0);
        for (int i = 0; i < 1000; i++) {
                if (strncmp(cudaGetErrorName((cudaError_t)i), "cuda", 4) == 0) {
                        const char *text = cudaGetErrorString((cudaError_t)i);

                        known++;
                        CHECK(text && strlen(text) > 5 && text == cudaGetErrorString((cudaError_t)i));
                }
        }
        CHECK(known >= 129);
}

int main()
{
        pthread_t thread;
        int *p;

        EXPECT(cudaSuccess, cudaPeekAtLastError());
        EXPECT(cudaErrorInvalidDevice, cudaSetDevice(-1));
        MUST(cudaMalloc(&p, 64));
        EXPECT(cudaErrorInvalidDevice, cudaPeekAtLastError());
        EXPECT(cudaErrorInvalidDevice, cudaPeekAtLastError());
        nothing<<<1, 5000>>>();
        EXPECT(cudaErrorInvalidValue, cudaPeekAtLastError());
        nothing<<<1, 1>>>();
        EXPECT(cudaErrorInvalidValue, cudaPeekAtLastError());
        pthread_create(&thread, nullptr, other_thread, nullptr);
        pthread_join(thread, nullptr);
        EXPECT(cudaErrorInvalidValue, cudaGetLastError());
        EXPECT(cudaSuccess, cudaGetLastError());
        OK(cudaDeviceSynchronize());
        OK(cudaFree(p));
        names();
        return program_end("last_error");
}
