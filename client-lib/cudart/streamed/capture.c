/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture, and launches of graphs
 */
#include "cudart/rt.h"

_Static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData), "the same members");

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
        const cudaGraphEdgeData *dependencyData, size_t numDependencies, enum cudaStreamCaptureMode mode)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuStreamBeginCaptureToGraph(stream, graph, dependencies,
                           (const CUgraphEdgeData *)dependencyData, numDependencies, (CUstreamCaptureMode)mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamEndCapture(stream, pGraph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)pCaptureStatus));
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
        unsigned long long *id_out, cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies_out,
        const cudaGraphEdgeData **edgeData_out, size_t *numDependencies_out)
{
        cudaError_t e = rt_enter();
        cuuint64_t id = 0;

        if (e != cudaSuccess)
                return e;
        e = rt_error(cuStreamGetCaptureInfo(stream, (CUstreamCaptureStatus *)captureStatus_out, &id, graph_out,
                dependencies_out, (const CUgraphEdgeData **)edgeData_out, numDependencies_out));
        if (e == cudaSuccess && id_out)
                *id_out = id;
        return e;
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies,
        const cudaGraphEdgeData *dependencyData, size_t numDependencies, unsigned int flags)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuStreamUpdateCaptureDependencies(
                           stream, dependencies, (const CUgraphEdgeData *)dependencyData, numDependencies, flags));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphLaunch(graphExec, stream));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphUpload(graphExec, stream));
}

cudaError_t cudaGraphInstantiateWithParams(
        cudaGraphExec_t *pGraphExec, cudaGraph_t graph, cudaGraphInstantiateParams *instantiateParams)
{
        CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
        cudaError_t e = rt_enter();

        if (e != cudaSuccess)
                return e;
        if (!instantiateParams)
                return rt_fail(cudaErrorInvalidValue);
        params.flags = instantiateParams->flags;
        params.hUploadStream = instantiateParams->uploadStream;
        e = rt_error(cuGraphInstantiateWithParams(pGraphExec, graph, &params));
        instantiateParams->errNode_out = params.hErrNode_out;
        instantiateParams->result_out = (cudaGraphInstantiateResult)params.result_out;
        return e;
}
