/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions and stream callbacks
 *
 * Both run on the client core's thread, in the order in which they become due, and block later work of their stream. A
 * host function is not called after an error. A callback is called once for each time it was added, also after an
 * error, which it gets as an argument. Callbacks whose context was reset, or whose daemon ended, get the error that
 * their context is destroyed.
 *
 * CUDA calls from within either are refused (thread.h): waiting there for a stream would never end.
 */
#include <stdlib.h>

#include "cuda/capture.h"
#include "cuda/stream.h"

struct hosted {
        CUhostFn function;
        CUstreamCallback callback;
        CUstream stream; /* handle that the callback gets */
        void *argument;
        dsc_session *session;
        uint32_t epoch;
};

static void run(void *arg)
{
        struct hosted hosted = *(const struct hosted *)arg;
        CUresult status = dcu_result(dsc_sticky_error(hosted.session));

        free(arg);
        if (hosted.epoch != atomic_load(&dcu.epoch))
                status = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        dcu_self.in_host_function = 1;
        if (hosted.callback)
                hosted.callback(hosted.stream, status, hosted.argument);
        else if (status == CUDA_SUCCESS)
                hosted.function(hosted.argument);
        dcu_self.in_host_function = 0;
}

static CUresult submit(uint32_t slot, const struct hosted *given)
{
        struct hosted *hosted = malloc(sizeof(*hosted));
        uint64_t id;
        CUresult r;

        if (!hosted)
                return CUDA_ERROR_OUT_OF_MEMORY;
        *hosted = *given;
        hosted->session = dcu.session;
        hosted->epoch = atomic_load(&dcu.epoch);
        r = dcu_result(dsc_host_register(hosted->session, run, hosted, 1, &id));
        if (r != CUDA_SUCCESS) {
                free(hosted);
                return r;
        }
        r = dcu_result(dsc_host_call(hosted->session, slot, id, NULL));
        if (r != CUDA_SUCCESS) {
                /* the call was not submitted, so nothing else frees the registration */
                dsc_host_unregister(hosted->session, id);
                free(hosted);
        }
        return r;
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
        const struct hosted hosted = {.function = fn, .argument = userData};
        struct dcu_context *context, *owner;
        uint32_t slot;
        int capturing;
        CUresult r = dcu_enter_any(&context);

        if (r == CUDA_SUCCESS)
                r = fn ? dcu_stream_work(hStream, context, &slot, &owner, &capturing) : CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS && capturing)
                return dcu_capture_host(slot, fn, userData);
        return r == CUDA_SUCCESS ? submit(slot, &hosted) : r;
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags)
{
        const struct hosted hosted = {.callback = callback, .stream = hStream, .argument = userData};
        struct dcu_context *context, *owner;
        uint32_t slot;
        CUresult r = dcu_enter_any(&context);

        if (r == CUDA_SUCCESS)
                r = callback && !flags ? dcu_stream_slot(hStream, context, &slot, &owner) : CUDA_ERROR_INVALID_VALUE;
        return r == CUDA_SUCCESS ? submit(slot, &hosted) : r;
}
