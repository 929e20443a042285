/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are forbidden during stream capture, which of them invalidate the capture, and which thread may end it */
#include "program.h"

#include <pthread.h>

#define N 64

static CUcontext context;
static CUfunction add;
static CUdeviceptr a;
static CUstream s, side, blocking;
static CUevent event, past;
static int host[N];

static CUresult add_one(CUstream stream)
{
        int n = N, v = 1;
        void *params[] = {&a, &n, &v};

        return cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, stream, params, NULL);
}

static CUstreamCaptureStatus status_of(CUstream stream)
{
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

        OK(cuStreamIsCapturing(stream, &status));
        return status;
}

static void begin(CUstream stream, CUstreamCaptureMode mode)
{
        OK(cuStreamBeginCapture(stream, mode));
        OK(add_one(stream));
}

/* Asserts that the capture is still valid and ends without error. */
static void end_valid(CUstream stream)
{
        CUgraph graph = NULL;

        CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
        OK(cuStreamEndCapture(stream, &graph));
        CHECK(graph != NULL);
        OK(cuGraphDestroy(graph));
}

static void end_with(CUresult code, CUstream stream)
{
        CUgraph graph = (CUgraph)host;

        EXPECT(code, cuStreamEndCapture(stream, &graph));
        CHECK(graph == NULL);
        CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
        OK(add_one(stream)); /* the stream works again */
        OK(cuStreamSynchronize(stream));
}

static void end_invalid(CUstream stream)
{
        CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, add_one(stream));
        end_with(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, stream);
}

static void check_begin(void)
{
        CUgraph graph;

        EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(s, &graph));
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBeginCapture(s, (CUstreamCaptureMode)7));
        begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
        EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
        end_valid(s);
        OK(cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_GLOBAL));
        OK(add_one(CU_STREAM_PER_THREAD));
        end_valid(CU_STREAM_PER_THREAD);
        begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
        OK(cuStreamEndCapture(s, NULL)); /* the program does not want the graph of this capture */
        CHECK(status_of(s) == CU_STREAM_CAPTURE_STATUS_NONE);
}

/* Calls that are not ordered by streams, such as allocations, during a capture */
static void check_unsafe(void)
{
        CUdeviceptr p = 0;
        void *pinned = NULL;

        begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&p, 64));
        end_invalid(s);
        begin(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemFree(a));
        end_invalid(s);
        begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAllocHost(&pinned, 64));
        end_invalid(s);
        begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuEventQuery(past));
        end_invalid(s);
        begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(side));
        end_invalid(s);
        begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
        OK(cuMemAlloc(&p, 64));
        OK(cuMemFree(p));
        OK(cuEventQuery(past));
        OK(cuStreamSynchronize(side));
        /* the capturing stream s does not join with the legacy stream, so a wait for the latter does not affect the
         * capture */
        OK(cuStreamSynchronize(NULL));
        end_valid(s);
}

/* Calls that a capturing stream cannot do, in any mode */
static void check_waiting(void)
{
        begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(s));
        end_invalid(s);
        begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery(s));
        end_invalid(s);
        begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize());
        end_invalid(s);
        begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(add, 0, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
        end_invalid(s);
}

/* Synchronous copies are not captured, as long as the stream does not join with the legacy stream. */
static void check_synchronous(void)
{
        begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
        OK(cuMemcpyDtoH(host, a, sizeof(host)));
        OK(cuMemsetD8(a, 0, N));
        OK(add_one(NULL));
        OK(add_one(side));
        end_valid(s);
}

static void check_legacy(void)
{
        CUstreamCaptureStatus status;

        begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(NULL, &status));
        end_valid(blocking);
        begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, add_one(NULL));
        end_invalid(blocking);
        begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemcpyHtoD(a, host, sizeof(host)));
        end_invalid(blocking);
        begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamSynchronize(NULL));
        end_invalid(blocking);
        begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuEventRecord(past, NULL));
        end_invalid(blocking);
}

static void check_events(void)
{
        begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
        OK(cuEventRecord(event, s));
        EXPECT(CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(event));
        end_invalid(s);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventQuery(event)); /* the event refers to no recorded work any more */
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventSynchronize(event));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitEvent(side, event, 0));
        OK(cuEventRecord(event, side));
        OK(cuEventSynchronize(event));
        begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(s, past, 0));
        end_invalid(s);
        EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuEventRecordWithFlags(past, side, CU_EVENT_RECORD_EXTERNAL));
        begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
        OK(cuStreamWaitEvent(s, past, CU_EVENT_WAIT_EXTERNAL));
        OK(cuEventRecordWithFlags(past, s, CU_EVENT_RECORD_EXTERNAL));
        end_valid(s);
}

static void fork_side(void)
{
        begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
        OK(cuEventRecord(event, s));
        OK(cuStreamWaitEvent(side, event, 0));
        CHECK(status_of(side) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

static void check_forks(void)
{
        CUgraph graph = (CUgraph)host;

        fork_side(); /* the side stream is not joined back before the capture ends */
        OK(add_one(side));
        end_with(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, s);
        CHECK(status_of(side) == CU_STREAM_CAPTURE_STATUS_NONE);

        fork_side(); /* the side stream is not joined back, but has no work that must be joined */
        end_valid(s);

        fork_side(); /* the capture ends in another stream than it began in */
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(side, &graph));
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, add_one(side));
        end_invalid(s);

        fork_side(); /* the program synchronises with a stream that joined the capture */
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(side));
        end_invalid(s);

        begin(s, CU_STREAM_CAPTURE_MODE_RELAXED); /* two captures cannot be merged by an event */
        begin(side, CU_STREAM_CAPTURE_MODE_RELAXED);
        OK(cuEventRecord(event, s));
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(side, event, 0));
        end_invalid(s);
        end_invalid(side);
}

static void *end_elsewhere(void *code)
{
        CUgraph graph = NULL;

        OK(cuCtxSetCurrent(context));
        EXPECT(*(CUresult *)code, cuStreamEndCapture(s, &graph));
        CHECK(!graph == (*(CUresult *)code != CUDA_SUCCESS));
        if (graph)
                OK(cuGraphDestroy(graph));
        return NULL;
}

static void *allocate_elsewhere(void *code)
{
        CUdeviceptr p = 0;

        OK(cuCtxSetCurrent(context));
        EXPECT(*(CUresult *)code, cuMemAlloc(&p, 64));
        if (p)
                OK(cuMemFree(p));
        OK(add_one(side)); /* work in another stream is not affected */
        return NULL;
}

static void in_thread(void *(*function)(void *), CUresult code)
{
        pthread_t thread;

        CHECK(pthread_create(&thread, NULL, function, &code) == 0);
        pthread_join(thread, NULL);
}

static void check_threads(void)
{
        begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
        in_thread(end_elsewhere, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        CHECK(status_of(s) == CU_STREAM_CAPTURE_STATUS_NONE);
        begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
        in_thread(end_elsewhere, CUDA_SUCCESS);
        begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
        in_thread(allocate_elsewhere, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        end_invalid(s);
        begin(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        in_thread(allocate_elsewhere, CUDA_SUCCESS);
        end_valid(s);
        begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
        in_thread(allocate_elsewhere, CUDA_SUCCESS);
        end_valid(s);
}

static void check_graph(void)
{
        CUstreamCaptureStatus status;
        const CUgraphNode *deps;
        CUgraphExec exec;
        CUgraph graph;
        cuuint64_t id;
        size_t n;

        begin(s, CU_STREAM_CAPTURE_MODE_RELAXED);
        OK(cuStreamGetCaptureInfo(s, &status, &id, &graph, &deps, NULL, &n));
        EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuGraphDestroy(graph));
        EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuGraphDestroyNode(deps[0]));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamGetCaptureInfo(s, NULL, &id, NULL, NULL, NULL, NULL));
        EXPECT(CUDA_ERROR_ILLEGAL_STATE,
                cuStreamUpdateCaptureDependencies(side, NULL, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
        end_valid(s);
        OK(cuGraphCreate(&graph, 0));
        begin(s, CU_STREAM_CAPTURE_MODE_GLOBAL);
        EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuGraphInstantiate(&exec, graph, 0));
        end_invalid(s);
        OK(cuGraphDestroy(graph));
}

/* A stream is destroyed in the middle of its capture. */
static void check_destroyed(void)
{
        CUstream stream;
        CUgraph graph = NULL;

        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
        OK(cuStreamDestroy(stream));
        OK(cuStreamSynchronize(side)); /* no capture is active any more */
        EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(s, &graph));
}

int main(int argc, char **argv)
{
        CUmodule module;

        program_begin(argc, argv);
        context = program_context();
        module = program_module("prog_basic");
        add = program_function(module, "prog_add");
        MUST(cuMemAlloc(&a, N * 4));
        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
        OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        OK(cuEventCreate(&past, CU_EVENT_DISABLE_TIMING));
        OK(cuEventRecord(past, side));
        OK(cuStreamSynchronize(side));
        OK(add_one(s)); /* loads the kernel before a capture begins */
        OK(cuStreamSynchronize(s));
        check_begin();
        check_unsafe();
        check_waiting();
        check_synchronous();
        check_legacy();
        check_events();
        check_forks();
        check_threads();
        check_graph();
        check_destroyed();
        OK(cuCtxDestroy(context));
        return program_end("capture_errors");
}
