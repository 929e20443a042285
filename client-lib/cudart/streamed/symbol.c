/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies to and from variables of the device
 */
#include "cudart/rt.h"

/* *ret: address of `count` bytes at `offset` in a variable. outward: 1 if the copy reads the variable. An error if
 * the kind of copy does not fit. */
static cudaError_t place(
        const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind, int outward, char **ret)
{
        enum cudaMemcpyKind host = outward ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
        cudaError_t e = rt_enter();
        CUdeviceptr address;
        size_t bytes;

        if (e == cudaSuccess)
                e = rt_symbol(symbol, &address, &bytes);
        if (e != cudaSuccess)
                return e;
        if (offset > bytes || count > bytes - offset)
                return rt_fail(cudaErrorInvalidValue);
        if (kind != host && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault)
                return rt_fail(cudaErrorInvalidMemcpyDirection);
        *ret = (char *)address + offset;
        return cudaSuccess;
}

cudaError_t cudaMemcpyToSymbol(
        const void *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind)
{
        cudaError_t e;
        char *at = NULL;

        e = place(symbol, count, offset, kind, 0, &at);
        return e ? e : cudaMemcpy(at, src, count, kind);
}

cudaError_t cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind)
{
        cudaError_t e;
        char *at = NULL;

        e = place(symbol, count, offset, kind, 1, &at);
        return e ? e : cudaMemcpy(dst, at, count, kind);
}

cudaError_t cudaMemcpyToSymbolAsync(
        const void *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
        cudaError_t e;
        char *at = NULL;

        e = place(symbol, count, offset, kind, 0, &at);
        return e ? e : cudaMemcpyAsync(at, src, count, kind, stream);
}

cudaError_t cudaMemcpyFromSymbolAsync(
        void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
        cudaError_t e;
        char *at = NULL;

        e = place(symbol, count, offset, kind, 1, &at);
        return e ? e : cudaMemcpyAsync(dst, at, count, kind, stream);
}
