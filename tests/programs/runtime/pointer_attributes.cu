/* SPDX-License-Identifier: Apache-2.0 */
/* Pointer attributes of addresses of every kind, at the start of an allocation and inside */
#include "runtime.h"

__device__ int variable[16];

static void is(const void *p, cudaMemoryType type, int device, const void *on_device, const void *on_host)
{
        cudaPointerAttributes a;

        memset(&a, 0x5a, sizeof(a));
        OK(cudaPointerGetAttributes(&a, p));
        CHECK(a.type == type);
        CHECK(a.device == device);
        CHECK(a.devicePointer == on_device);
        CHECK(a.hostPointer == on_host);
}

static void gone()
{
        char *p;

        MUST(cudaMalloc(&p, 4096));
        is(p, cudaMemoryTypeDevice, 0, p, NULL);
        OK(cudaFree(p));
        is(p, cudaMemoryTypeUnregistered, cudaInvalidDeviceId, NULL, p);
}

int main()
{
        char local[64], *device, *pinned, *later, *heap = (char *)malloc(100);
        cudaPointerAttributes a;
        void *symbol;

        MUST(cudaMalloc(&device, 4096));
        MUST(cudaMallocHost(&pinned, 4096));
        MUST(cudaMallocAsync(&later, 4096, 0));
        MUST(cudaGetSymbolAddress(&symbol, variable));
        is(NULL, cudaMemoryTypeUnregistered, cudaInvalidDeviceId, NULL, NULL);
        is(local, cudaMemoryTypeUnregistered, cudaInvalidDeviceId, NULL, local);
        is(heap, cudaMemoryTypeUnregistered, cudaInvalidDeviceId, NULL, heap);
        is((void *)main, cudaMemoryTypeUnregistered, cudaInvalidDeviceId, NULL, (void *)main);
        is(device, cudaMemoryTypeDevice, 0, device, NULL);
        is(device + 4095, cudaMemoryTypeDevice, 0, device + 4095, NULL);
        is(pinned, cudaMemoryTypeHost, 0, pinned, pinned);
        is(pinned + 100, cudaMemoryTypeHost, 0, pinned + 100, pinned + 100);
        is(later, cudaMemoryTypeDevice, 0, later, NULL);
        is(symbol, cudaMemoryTypeDevice, 0, symbol, NULL);
        is((char *)symbol + 60, cudaMemoryTypeDevice, 0, (char *)symbol + 60, NULL);
        EXPECT(cudaErrorInvalidValue, cudaPointerGetAttributes((cudaPointerAttributes *)NULL, device));
        EXPECT(cudaErrorInvalidValue, cudaGetLastError());
        OK(cudaGetLastError());
        OK(cudaPointerGetAttributes(&a, local));
        OK(cudaGetLastError());
        gone();
        OK(cudaFree(device));
        OK(cudaFreeHost(pinned));
        OK(cudaFreeAsync(later, 0));
        free(heap);
        return program_end("pointer_attributes");
}
