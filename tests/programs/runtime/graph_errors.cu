/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of the graph calls, one by one */
#include <unistd.h>

#include "runtime.h"

__global__ void mark(int *p, int v)
{
        *p = v;
}

static void destroyed(void *arg)
{
        ++*(int *)arg;
}

static void nodes(int *device)
{
        cudaGraphNode_t a = NULL, b = NULL, c = NULL;
        cudaKernelNodeParams k = {};
        cudaMemsetParams m = {};
        cudaGraphExec_t exec;
        int one = 1, local = 0;
        void *args[] = {&device, &one};
        cudaGraph_t g;

        EXPECT(cudaErrorInvalidValue, cudaGraphCreate(&g, 1));
        EXPECT(cudaErrorInvalidValue, cudaGraphCreate(NULL, 0));
        MUST(cudaGraphCreate(&g, 0));
        k.func = (void *)mark;
        k.gridDim = k.blockDim = dim3(1);
        k.kernelParams = args;
        OK(cudaGraphAddKernelNode(&a, g, NULL, 0, &k));
        k.blockDim = dim3(5000);
        EXPECT(cudaErrorInvalidValue, cudaGraphAddKernelNode(&b, g, NULL, 0, &k));
        k.blockDim = dim3(1);
        k.func = &local;
        EXPECT(cudaErrorInvalidResourceHandle, cudaGraphAddKernelNode(&b, g, NULL, 0, &k));
        EXPECT(cudaErrorInvalidValue, cudaGraphAddMemsetNode(&b, g, &a, 1, NULL));
        m.dst = device;
        m.elementSize = 4;
        m.width = m.height = 1;
        OK(cudaGraphAddMemsetNode(&b, g, &a, 1, &m));
        m.elementSize = 3;
        EXPECT(cudaErrorInvalidValue, cudaGraphAddMemsetNode(&c, g, &a, 1, &m));
        OK(cudaGraphAddEmptyNode(&c, g, &b, 1));
        /* a cycle can be built but not instantiated */
        OK(cudaGraphAddDependencies(g, &c, &a, NULL, 1));
        EXPECT(cudaErrorInvalidValue, cudaGraphInstantiate(&exec, g, 0));
        OK(cudaGraphRemoveDependencies(g, &c, &a, NULL, 1));
        EXPECT(cudaErrorInvalidValue, cudaGraphAddDependencies(g, &a, &b, NULL, 1));
        EXPECT(cudaErrorInvalidValue, cudaGraphAddDependencies(g, &a, &a, NULL, 1));
        MUST(cudaGraphInstantiate(&exec, g, 0));
        OK(cudaGraphLaunch(exec, 0));
        OK(cudaStreamSynchronize(0));
        OK(cudaGraphExecDestroy(exec));
        OK(cudaGraphDestroy(g));
        EXPECT(cudaErrorInvalidValue, cudaGetLastError());
}

/* User objects live as long as a graph, an instance or their creator holds a reference. */
static void objects()
{
        cudaUserObject_t object;
        cudaGraphExec_t exec;
        cudaGraph_t g;
        volatile int gone = 0;

        EXPECT(cudaErrorInvalidValue, cudaUserObjectCreate(&object, (void *)&gone, destroyed, 1, 0));
        MUST(cudaUserObjectCreate(&object, (void *)&gone, destroyed, 1, cudaUserObjectNoDestructorSync));
        MUST(cudaGraphCreate(&g, 0));
        OK(cudaGraphRetainUserObject(g, object, 1, cudaGraphUserObjectMove));
        MUST(cudaGraphInstantiate(&exec, g, 0));
        OK(cudaGraphDestroy(g));
        CHECK(gone == 0);
        OK(cudaGraphLaunch(exec, 0));
        OK(cudaStreamSynchronize(0));
        CHECK(gone == 0);
        OK(cudaGraphExecDestroy(exec));
        OK(cudaDeviceSynchronize());
        /* the destructor runs at an unspecified time */
        for (int i = 0; i < 2000 && !gone; i++)
                usleep(5000);
        CHECK(gone == 1);
}

int main()
{
        int *device;

        MUST(cudaMalloc(&device, 4));
        nodes(device);
        objects();
        OK(cudaFree(device));
        return program_end("graph_errors");
}
