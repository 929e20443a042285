/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events: functions that do not depend on the meaning of stream 0
 */
#include <string.h>

#include "cudart/rt.h"

cudaError_t cudaStreamCreate(cudaStream_t *pStream)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamCreate(pStream, CU_STREAM_DEFAULT));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamCreate(pStream, flags));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamCreateWithPriority(pStream, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamDestroy(stream));
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode));
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuEventCreate(event, CU_EVENT_DEFAULT));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuEventCreate(event, flags));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuEventQuery(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuEventSynchronize(event));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuEventDestroy(event));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
        cudaError_t e = rt_enter();

        if (e == cudaSuccess && !ms)
                e = rt_fail(cudaErrorInvalidValue);
        return e ? e : rt_error(cuEventElapsedTime(ms, start, end));
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuIpcGetEventHandle((CUipcEventHandle *)handle, event));
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
        cudaError_t e = rt_enter();
        CUipcEventHandle copy;

        _Static_assert(sizeof(copy) == sizeof(handle), "a handle is bytes");
        memcpy(&copy, &handle, sizeof(copy));
        return e ? e : rt_error(cuIpcOpenEventHandle(event, copy));
}
