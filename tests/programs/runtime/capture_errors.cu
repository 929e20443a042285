/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that are forbidden during a capture: their error, their effect on the capture, and that everything works
 * afterwards
 */
#include "runtime.h"

__global__ void mark(int *p, int v)
{
        if (p)
                *p = v;
}

static cudaStream_t s, t;
static int *device, *pinned;

static cudaStreamCaptureStatus status(cudaStream_t stream)
{
        cudaStreamCaptureStatus st;

        OK(cudaStreamIsCapturing(stream, &st));
        return st;
}

/* Ends a capture that a forbidden call has invalidated. */
static void spoilt()
{
        cudaGraph_t g = (cudaGraph_t)8;

        CHECK(status(s) == cudaStreamCaptureStatusInvalidated);
        EXPECT(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(s, &g));
        CHECK(g == NULL);
        CHECK(status(s) == cudaStreamCaptureStatusNone);
        (void)cudaGetLastError();
}

static void begin(cudaStreamCaptureMode mode)
{
        OK(cudaStreamBeginCapture(s, mode));
}

static void beginnings()
{
        cudaGraph_t g;

        EXPECT(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal));
        EXPECT(cudaErrorInvalidValue, cudaStreamBeginCapture(s, (cudaStreamCaptureMode)9));
        EXPECT(cudaErrorIllegalState, cudaStreamEndCapture(s, &g));
        begin(cudaStreamCaptureModeGlobal);
        EXPECT(cudaErrorIllegalState, cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
        OK(cudaStreamEndCapture(s, &g));
        OK(cudaGraphDestroy(g));
}

static void waits()
{
        begin(cudaStreamCaptureModeGlobal);
        EXPECT(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(s));
        CHECK(status(s) == cudaStreamCaptureStatusInvalidated);
        (void)cudaGetLastError();
        mark<<<1, 1, 0, s>>>(device, 1);
        EXPECT(cudaErrorStreamCaptureInvalidated, cudaGetLastError());
        spoilt();
        begin(cudaStreamCaptureModeRelaxed);
        EXPECT(cudaErrorStreamCaptureUnsupported, cudaStreamQuery(s));
        spoilt();
        begin(cudaStreamCaptureModeRelaxed);
        EXPECT(cudaErrorStreamCaptureUnsupported, cudaDeviceSynchronize());
        spoilt();
}

static void default_stream()
{
        begin(cudaStreamCaptureModeRelaxed);
        mark<<<1, 1>>>(device, 1);
        EXPECT(cudaErrorStreamCaptureImplicit, cudaGetLastError());
        spoilt();
        begin(cudaStreamCaptureModeRelaxed);
        EXPECT(cudaErrorStreamCaptureImplicit, cudaMemcpy(device, pinned, 4, cudaMemcpyHostToDevice));
        spoilt();
}

static void allocation()
{
        cudaGraph_t g;
        void *p;

        begin(cudaStreamCaptureModeGlobal);
        EXPECT(cudaErrorStreamCaptureUnsupported, cudaMalloc(&p, 16));
        spoilt();
        begin(cudaStreamCaptureModeRelaxed);
        OK(cudaMalloc(&p, 16));
        OK(cudaStreamEndCapture(s, &g));
        OK(cudaGraphDestroy(g));
        OK(cudaFree(p));
}

static void joins()
{
        cudaGraph_t g = NULL;
        cudaEvent_t e;

        MUST(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
        begin(cudaStreamCaptureModeRelaxed);
        OK(cudaEventRecord(e, s));
        OK(cudaStreamWaitEvent(t, e, 0));
        CHECK(status(t) == cudaStreamCaptureStatusActive);
        mark<<<1, 1, 0, t>>>(device, 1);
        EXPECT(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(s, &g));
        CHECK(g == NULL);
        CHECK(status(s) == cudaStreamCaptureStatusNone && status(t) == cudaStreamCaptureStatusNone);
        begin(cudaStreamCaptureModeRelaxed);
        OK(cudaEventRecord(e, s));
        OK(cudaStreamWaitEvent(t, e, 0));
        mark<<<1, 1, 0, t>>>(device, 1);
        EXPECT(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(t, &g));
        spoilt();
        begin(cudaStreamCaptureModeRelaxed);
        OK(cudaEventRecord(e, s));
        EXPECT(cudaErrorCapturedEvent, cudaEventQuery(e));
        spoilt();
        (void)cudaEventDestroy(e);
        (void)cudaGetLastError();
}

/* Checks that streams work after an invalid capture, and a new capture too. */
static void afterwards()
{
        cudaGraphExec_t exec;
        cudaGraph_t g;
        int got = 0;

        mark<<<1, 1, 0, t>>>(device, 41);
        OK(cudaMemcpyAsync(&got, device, 4, cudaMemcpyDeviceToHost, t));
        OK(cudaStreamSynchronize(t));
        CHECK(got == 41);
        begin(cudaStreamCaptureModeGlobal);
        mark<<<1, 1, 0, s>>>(device, 42);
        OK(cudaStreamEndCapture(s, &g));
        MUST(cudaGraphInstantiate(&exec, g, 0));
        OK(cudaGraphLaunch(exec, s));
        OK(cudaStreamSynchronize(s));
        OK(cudaMemcpy(&got, device, 4, cudaMemcpyDeviceToHost));
        CHECK(got == 42);
        OK(cudaGraphExecDestroy(exec));
        OK(cudaGraphDestroy(g));
}

int main()
{
        MUST(cudaStreamCreate(&s));
        MUST(cudaStreamCreate(&t));
        MUST(cudaMalloc(&device, 4));
        MUST(cudaMallocHost(&pinned, 4));
        *pinned = 0;
        beginnings();
        waits();
        default_stream();
        allocation();
        joins();
        afterwards();
        OK(cudaStreamDestroy(s));
        OK(cudaStreamDestroy(t));
        OK(cudaFree(device));
        OK(cudaFreeHost(pinned));
        return program_end("capture_errors");
}
