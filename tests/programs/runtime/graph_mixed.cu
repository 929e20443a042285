/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of host functions, box copies, copies of device variables and empty nodes, some added by the generic call */
#include "runtime.h"

__device__ int variable[8];

__global__ void add_variable(int *p)
{
        p[threadIdx.x] += variable[threadIdx.x];
}

struct call {
        int *where, seen, next;
};

static void called(void *arg)
{
        call *c = (call *)arg;

        c->seen = *c->where;
        *c->where = c->next;
}

/* A graph host -> variable -> kernel -> variable -> host, with a host function at both ends */
static void symbols()
{
        cudaGraphNode_t first, to, kernel, from, last, meeting;
        cudaHostNodeParams hp = {};
        cudaGraphNodeParams any = {};
        cudaGraphExec_t exec;
        cudaGraph_t g;
        int *in, *out, *device;
        call before, after;
        void *args[] = {&device};

        MUST(cudaMallocHost(&in, 32));
        MUST(cudaMallocHost(&out, 32));
        MUST(cudaMalloc(&device, 32));
        MUST(cudaMemset(device, 0, 32));
        for (int i = 0; i < 8; i++)
                in[i] = i;
        before = {&in[0], -1, 100};
        after = {&out[0], -1, -5};
        MUST(cudaGraphCreate(&g, 0));
        hp.fn = called;
        hp.userData = &before;
        OK(cudaGraphAddHostNode(&first, g, NULL, 0, &hp));
        OK(cudaGraphAddMemcpyNodeToSymbol(&to, g, &first, 1, variable, in, 32, 0, cudaMemcpyHostToDevice));
        any.type = cudaGraphNodeTypeKernel;
        any.kernel.func = (void *)add_variable;
        any.kernel.gridDim = dim3(1);
        any.kernel.blockDim = dim3(8);
        any.kernel.kernelParams = args;
        OK(cudaGraphAddNode(&kernel, g, &to, NULL, 1, &any));
        OK(cudaGraphAddEmptyNode(&meeting, g, &kernel, 1));
        OK(cudaGraphAddMemcpyNodeFromSymbol(&from, g, &meeting, 1, out, variable, 28, 4, cudaMemcpyDeviceToHost));
        any = {};
        any.type = cudaGraphNodeTypeHost;
        any.host.fn = called;
        any.host.userData = &after;
        OK(cudaGraphAddNode(&last, g, &from, NULL, 1, &any));
        MUST(cudaGraphInstantiate(&exec, g, 0));
        OK(cudaGraphLaunch(exec, 0));
        OK(cudaStreamSynchronize(0));
        CHECK(before.seen == 0 && in[0] == 100);
        CHECK(after.seen == 1 && out[0] == -5 && out[6] == 7);
        std::vector<int> got = program_download(device, 8);
        CHECK(got[0] == 100 && got[1] == 1 && got[7] == 7);
        /* the host function may change for later launches */
        hp.userData = &after;
        after = {&in[1], -1, 50};
        OK(cudaGraphExecHostNodeSetParams(exec, first, &hp));
        OK(cudaGraphHostNodeGetParams(first, &hp));
        CHECK(hp.userData == &before);
        OK(cudaGraphLaunch(exec, 0));
        OK(cudaStreamSynchronize(0));
        CHECK(in[1] == 50 && after.seen == 50);
        EXPECT(cudaErrorInvalidValue,
                cudaGraphAddMemcpyNodeToSymbol(&to, g, NULL, 0, variable, in, 32, 4, cudaMemcpyHostToDevice));
        OK(cudaGraphExecDestroy(exec));
        OK(cudaGraphDestroy(g));
        OK(cudaFree(device));
        OK(cudaFreeHost(in));
        OK(cudaFreeHost(out));
}

/* Copies a box from pitched host memory to pitched device memory and back, with one node of each kind. */
static void boxes()
{
        const size_t width = 24, height = 5, depth = 3;
        std::vector<uint8_t> expected(32 * 6 * 4, 0xee);
        cudaMemcpy3DParms there = {}, back;
        cudaGraphNodeParams any = {};
        cudaGraphNode_t a, b;
        cudaGraphExec_t exec;
        cudaPitchedPtr device;
        cudaGraph_t g;
        uint8_t *in, *out;

        MUST(cudaMallocHost(&in, 32 * 6 * 4));
        MUST(cudaMallocHost(&out, 32 * 6 * 4));
        MUST(cudaMalloc3D(&device, make_cudaExtent(width, height, depth)));
        for (int i = 0; i < 32 * 6 * 4; i++)
                in[i] = i * 5;
        memset(out, 0xee, 32 * 6 * 4);
        there.srcPtr = make_cudaPitchedPtr(in, 32, 32, 6);
        there.srcPos = make_cudaPos(3, 1, 1);
        there.dstPtr = device;
        there.extent = make_cudaExtent(width, height, depth);
        there.kind = cudaMemcpyHostToDevice;
        back = there;
        back.srcPtr = device;
        back.srcPos = make_cudaPos(0, 0, 0);
        back.dstPtr = make_cudaPitchedPtr(out, 32, 32, 6);
        back.dstPos = make_cudaPos(2, 0, 1);
        back.kind = cudaMemcpyDeviceToHost;
        MUST(cudaGraphCreate(&g, 0));
        OK(cudaGraphAddMemcpyNode(&a, g, NULL, 0, &there));
        any.type = cudaGraphNodeTypeMemcpy;
        any.memcpy.copyParams = back;
        OK(cudaGraphAddNode(&b, g, &a, NULL, 1, &any));
        MUST(cudaGraphInstantiate(&exec, g, 0));
        OK(cudaGraphLaunch(exec, 0));
        OK(cudaStreamSynchronize(0));
        for (size_t z = 0; z < depth; z++)
                for (size_t y = 0; y < height; y++)
                        memcpy(&expected[((z + 1) * 6 + y) * 32 + 2], in + ((z + 1) * 6 + y + 1) * 32 + 3, width);
        SAME(out, expected.data(), expected.size());
        OK(cudaGraphExecDestroy(exec));
        OK(cudaGraphDestroy(g));
        OK(cudaFree(device.ptr));
        OK(cudaFreeHost(in));
        OK(cudaFreeHost(out));
}

int main()
{
        symbols();
        boxes();
        return program_end("graph_mixed");
}
