/* SPDX-License-Identifier: Apache-2.0 */
/* Shared setup of the programs that build graphs from nodes: a context, a stream, a kernel that adds, and nodes of N
 * numbers */
#pragma once

#include "program.h"

#define N 128

static CUcontext context;
static CUfunction add;
static CUstream s;

static int value_at(CUdeviceptr p)
{
        int v = -1;

        OK(cuStreamSynchronize(s));
        OK(cuMemcpyDtoH(&v, p, sizeof(v)));
        return v;
}

static CUgraphNode add_kernel(CUgraph graph, const CUgraphNode *deps, size_t n_deps, CUdeviceptr p, int v)
{
        int n = N;
        void *params[] = {&p, &n, &v};
        CUDA_KERNEL_NODE_PARAMS k = {add, 1, 1, 1, N, 1, 1, 0, params, NULL, NULL, NULL};
        CUgraphNode node = NULL;

        OK(cuGraphAddKernelNode(&node, graph, deps, n_deps, &k));
        return node;
}

static CUgraphNode add_memset(CUgraph graph, const CUgraphNode *deps, size_t n_deps, CUdeviceptr p, unsigned int value)
{
        CUDA_MEMSET_NODE_PARAMS m = {.dst = p, .value = value, .elementSize = 4, .width = N, .height = 1};
        CUgraphNode node = NULL;

        OK(cuGraphAddMemsetNode(&node, graph, deps, n_deps, &m, context));
        return node;
}
