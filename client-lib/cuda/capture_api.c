/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls on captures
 */
#include "cuda/capture.h"

static CUresult enter(CUstream stream, uint32_t *ret_slot)
{
        struct dcu_context *context, *owner;
        CUresult r = dcu_enter_any(&context);

        return r == CUDA_SUCCESS ? dcu_stream_slot_any(stream, context, ret_slot, &owner) : r;
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
        uint32_t slot;
        CUresult r = enter(hStream, &slot);

        return r == CUDA_SUCCESS ? dcu_capture_begin(slot, mode, NULL, NULL, NULL, 0) : r;
}

CUresult cuStreamBeginCapture(CUstream hStream)
{
        return cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
        const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode)
{
        uint32_t slot;
        CUresult r = enter(hStream, &slot);

        if (r != CUDA_SUCCESS)
                return r;
        if (!hGraph)
                return CUDA_ERROR_INVALID_VALUE;
        return dcu_capture_begin(slot, mode, hGraph, dependencies, dependencyData, numDependencies);
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
        uint32_t slot;
        CUresult r = enter(hStream, &slot);

        return r == CUDA_SUCCESS ? dcu_capture_end(slot, phGraph) : r;
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
        struct dcu_capture_info info = {0};
        uint32_t slot;
        CUresult r = enter(hStream, &slot);

        if (r != CUDA_SUCCESS)
                return r;
        if (!captureStatus)
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_capture_info(slot, &info);
        *captureStatus = info.status;
        return r;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
        CUgraph *graph_out, const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out,
        size_t *numDependencies_out)
{
        struct dcu_capture_info info = {.wants_deps = dependencies_out != NULL, .wants_data = edgeData_out != NULL};
        uint32_t slot;
        CUresult r = enter(hStream, &slot);

        if (r != CUDA_SUCCESS)
                return r;
        if (!captureStatus_out || (edgeData_out && !dependencies_out))
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_capture_info(slot, &info);
        *captureStatus_out = info.status;
        if (r != CUDA_SUCCESS || info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
                return r;
        if (id_out)
                *id_out = info.id;
        if (graph_out)
                *graph_out = info.graph;
        if (dependencies_out)
                *dependencies_out = info.deps;
        if (edgeData_out)
                *edgeData_out = info.data;
        if (numDependencies_out)
                *numDependencies_out = info.n;
        return r;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
        CUgraph *graph_out, const CUgraphNode **dependencies_out, size_t *numDependencies_out)
{
        return cuStreamGetCaptureInfo_v3(
                hStream, captureStatus_out, id_out, graph_out, dependencies_out, NULL, numDependencies_out);
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out)
{
        return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, NULL, NULL, NULL, NULL);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
        const CUgraphEdgeData *dependencyData, size_t numDependencies, unsigned int flags)
{
        uint32_t slot;
        CUresult r = enter(hStream, &slot);

        return r == CUDA_SUCCESS ? dcu_capture_update(slot, dependencies, dependencyData, numDependencies, flags) : r;
}

CUresult cuStreamUpdateCaptureDependencies(
        CUstream hStream, CUgraphNode *dependencies, size_t numDependencies, unsigned int flags)
{
        return cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL, numDependencies, flags);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
        CUstreamCaptureMode before = (CUstreamCaptureMode)dcu_self.capture_mode;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!mode || (unsigned int)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
                return CUDA_ERROR_INVALID_VALUE;
        dcu_self.capture_mode = (uint32_t)*mode;
        *mode = before;
        return CUDA_SUCCESS;
}
