/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: waits, queries and host functions
 */
#include <stdlib.h>

#include "cudart/rt.h"

_Static_assert(sizeof(cudaLaunchAttributeValue) == sizeof(CUlaunchAttributeValue), "the same members");

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamSynchronize(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamQuery(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamGetFlags(hStream, flags));
}

cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamGetId(hStream, streamId));
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int *priority)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamGetPriority(hStream, priority));
}

cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int *device)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamGetDevice(hStream, device));
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamCopyAttributes(dst, src));
}

cudaError_t cudaStreamGetAttribute(
        cudaStream_t hStream, cudaLaunchAttributeID attr, cudaLaunchAttributeValue *value_out)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamGetAttribute(hStream, (CUstreamAttrID)attr, (CUstreamAttrValue *)value_out));
}

cudaError_t cudaStreamSetAttribute(
        cudaStream_t hStream, cudaLaunchAttributeID attr, const cudaLaunchAttributeValue *value)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamSetAttribute(hStream, (CUstreamAttrID)attr, (const CUstreamAttrValue *)value));
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *devPtr, size_t length, unsigned int flags)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamAttachMemAsync(stream, (CUdeviceptr)devPtr, length, flags));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuEventRecord(event, stream));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuEventRecordWithFlags(event, stream, flags));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuLaunchHostFunc(stream, fn, userData));
}

struct callback {
        cudaStreamCallback_t fn;
        void *arg;
};

/* Calls the program's callback with the runtime's error code. The driver calls this function once per callback. */
static void call_back(CUstream stream, CUresult status, void *arg)
{
        struct callback callback = *(struct callback *)arg;

        free(arg);
        callback.fn(stream, rt_code(status), callback.arg);
}

cudaError_t cudaStreamAddCallback(
        cudaStream_t stream, cudaStreamCallback_t callback, void *userData, unsigned int flags)
{
        cudaError_t e = rt_enter();
        struct callback *call;
        CUresult r;

        if (e != cudaSuccess)
                return e;
        if (!callback)
                return rt_fail(cudaErrorInvalidValue);
        call = malloc(sizeof(*call));
        if (!call)
                return rt_fail(cudaErrorMemoryAllocation);
        *call = (struct callback){callback, userData};
        r = cuStreamAddCallback(stream, call_back, call, flags);
        if (r != CUDA_SUCCESS)
                free(call);
        return rt_error(r);
}
