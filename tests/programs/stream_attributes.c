/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of streams, batched copies, 3-D copies between contexts, events recorded by launches */
#include "program.h"

/* Reads an attribute that was never set into a zeroed variable, which shows whether the driver writes it at all. */
static unsigned int unset_policy(CUstream stream)
{
        CUstreamAttrValue back;

        memset(&back, 0, sizeof(back));
        OK(cuStreamGetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &back));
        return (unsigned int)back.syncPolicy;
}

static void check_attributes(void)
{
        CUstreamAttrValue value, back;
        CUgreenCtx green = (CUgreenCtx)(uintptr_t)1;
        CUstream a, b;
        int most = 0;

        OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreateWithPriority(&b, CU_STREAM_NON_BLOCKING, -2));
        memset(&back, 0xff, sizeof(back));
        OK(cuStreamGetAttribute(a, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &back));
        if (program_is_shared()) /* the attribute was never set: the driver may report any valid value */
                CHECK((unsigned int)back.syncPolicy <= CU_SYNC_POLICY_BLOCKING_SYNC);
        else
                NOTE("stream_attributes: a policy that was not set is 0x%x over ones, 0x%x over zeros",
                        (unsigned int)back.syncPolicy, unset_policy(a));
        OK(cuStreamGetAttribute(b, CU_STREAM_ATTRIBUTE_PRIORITY, &back));
        CHECK(back.priority == -2);
        OK(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, 0));
        if (most >= 4096) {
                CUdeviceptr p;

                MUST(cuMemAlloc(&p, 4096));
                memset(&value, 0, sizeof(value));
                value.accessPolicyWindow.base_ptr = (void *)(uintptr_t)p;
                value.accessPolicyWindow.num_bytes = 4096;
                value.accessPolicyWindow.hitRatio = 0.5f;
                value.accessPolicyWindow.hitProp = CU_ACCESS_PROPERTY_PERSISTING;
                value.accessPolicyWindow.missProp = CU_ACCESS_PROPERTY_STREAMING;
                OK(cuStreamSetAttribute(a, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
                OK(cuStreamCopyAttributes(b, a));
                OK(cuStreamGetAttribute(b, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &back));
                CHECK(back.accessPolicyWindow.num_bytes == 4096 && back.accessPolicyWindow.hitRatio == 0.5f);
                value.accessPolicyWindow.hitRatio = 1.5f;
                EXPECT(CUDA_ERROR_INVALID_VALUE,
                        cuStreamSetAttribute(a, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
                value.accessPolicyWindow.num_bytes = 0;
                value.accessPolicyWindow.hitRatio = 0;
                OK(cuStreamSetAttribute(a, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
                OK(cuMemFree(p));
        }
        value.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
        OK(cuStreamSetAttribute(a, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
        OK(cuStreamGetAttribute(a, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &back));
        CHECK(back.syncPolicy == CU_SYNC_POLICY_BLOCKING_SYNC);
        OK(cuStreamGetGreenCtx(a, &green));
        CHECK(green == NULL);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamSetAttribute(a, (CUstreamAttrID)77, &value));
        OK(cuStreamDestroy(a));
        OK(cuStreamDestroy(b));
}

#define N 4u
#define BYTES 4096u

static void check_batch(void)
{
        CUmemcpyAttributes attributes[2] = {0};
        size_t indices[2] = {0, 2}, sizes[N];
        CUdeviceptr dsts[N], srcs[N], p;
        uint8_t *pinned, plain[BYTES];
        CUstream a;

        OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        MUST(cuMemAlloc(&p, N * BYTES));
        MUST(cuMemHostAlloc((void **)&pinned, BYTES, 0));
        memset(pinned, 11, BYTES);
        memset(plain, 22, BYTES);
        OK(cuMemsetD8(p, 0, N * BYTES));
        OK(cuCtxSynchronize()); /* waits, because the memset is not ordered with the non-blocking stream */
        attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
        attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
        dsts[0] = p;
        srcs[0] = (CUdeviceptr)(uintptr_t)pinned;
        dsts[1] = p + BYTES;
        srcs[1] = (CUdeviceptr)(uintptr_t)pinned;
        dsts[2] = p + 2 * (CUdeviceptr)BYTES;
        srcs[2] = (CUdeviceptr)(uintptr_t)plain;
        for (size_t i = 0; i < 3; i++)
                sizes[i] = BYTES - i;
        OK(cuMemcpyBatchAsync(dsts, srcs, sizes, 3, attributes, indices, 2, a));
        memset(plain, 0, BYTES);
        OK(cuStreamSynchronize(a));
        OK(cuMemcpyDtoH(plain, p + BYTES, BYTES));
        CHECK(plain[0] == 11 && plain[BYTES - 2] == 11 && plain[BYTES - 1] == 0);
        OK(cuMemcpyDtoH(plain, p + 2 * (CUdeviceptr)BYTES, BYTES));
        CHECK(plain[0] == 22 && plain[BYTES - 3] == 22 && plain[BYTES - 2] == 0);
        indices[0] = 1;
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync(dsts, srcs, sizes, 3, attributes, indices, 2, a));
        indices[0] = 0;
        attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyBatchAsync(dsts, srcs, sizes, 3, attributes, indices, 2, a));
        OK(cuMemFreeHost(pinned));
        OK(cuMemFree(p));
        OK(cuStreamDestroy(a));
}

/* Copies a box of 3 x 2 x 2 bytes inside of 8 x 4 x 3. */
static void check_boxes(void)
{
        CUDA_MEMCPY3D_BATCH_OP op = {0};
        uint8_t host[96], out[12];
        CUdeviceptr p;
        CUstream a;

        OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        MUST(cuMemAlloc(&p, sizeof(host)));
        for (unsigned int i = 0; i < sizeof(host); i++)
                host[i] = (uint8_t)i;
        OK(cuMemcpyHtoD(p, host, sizeof(host)));
        /* the copy from pageable memory may return before the data has arrived, and other streams do not wait for it */
        OK(cuStreamSynchronize(NULL));
        op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
        op.src.op.ptr.ptr = p + 32 + 8 + 1;
        op.src.op.ptr.rowLength = 8;
        op.src.op.ptr.layerHeight = 4;
        op.dst.op.ptr.ptr = (CUdeviceptr)(uintptr_t)out;
        op.extent = (CUextent3D){3, 2, 2};
        op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
        OK(cuMemcpy3DBatchAsync(1, &op, 0, a));
        OK(cuStreamSynchronize(a));
        for (unsigned int i = 0; i < 12; i++)
                CHECK(out[i] == host[32 + 8 + 1 + i % 3 + i / 3 % 2 * 8 + i / 6 * 32]);
        op.extent.depth = 0;
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync(1, &op, 0, a));
        op.extent.depth = 2;
        op.src.op.ptr.rowLength = 2;
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync(1, &op, 0, a));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync(1, &op, 1, a));
        OK(cuMemFree(p));
        OK(cuStreamDestroy(a));
}

static void check_peers(CUcontext context)
{
        CUDA_MEMCPY3D_PEER copy = {0};
        uint8_t in[64], out[64] = {0};
        CUcontext other;
        CUdeviceptr p, q;
        CUdevice device;

        OK(cuCtxGetDevice(&device));
        MUST(cuMemAlloc(&p, 64));
        MUST(cuCtxCreate(&other, NULL, 0, device));
        MUST(cuMemAlloc(&q, 64));
        for (unsigned int i = 0; i < 64; i++)
                in[i] = (uint8_t)(i * 3);
        OK(cuMemcpyHtoD(p, in, 64));
        OK(cuMemsetD8(q, 0, 64));
        OK(cuMemcpyPeer(q, other, p, context, 32));
        copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = p;
        copy.srcContext = context;
        copy.srcPitch = 8;
        copy.srcY = 4;
        copy.dstDevice = q;
        copy.dstContext = other;
        copy.dstPitch = 8;
        copy.dstY = 4;
        copy.WidthInBytes = 8;
        copy.Height = 4;
        copy.Depth = 1;
        OK(cuMemcpy3DPeer(&copy));
        OK(cuMemcpyDtoH(out, q, 64));
        SAME(in, out, 64);
        OK(cuMemFree(q));
        OK(cuCtxDestroy(other));
        OK(cuCtxSetCurrent(context));
        OK(cuMemFree(p));
}

static void check_launch_events(CUmodule module)
{
        CUfunction add = program_function(module, "prog_add");
        CUlaunchAttribute attributes[2] = {0};
        CUlaunchConfig config = {.gridDimX = 1,
                .gridDimY = 1,
                .gridDimZ = 1,
                .blockDimX = 16,
                .blockDimY = 1,
                .blockDimZ = 1,
                .attrs = attributes,
                .numAttrs = 2};
        CUevent early, launched;
        CUdeviceptr p;
        CUstream a, b;
        int n = 16, v = 5, value = 0;
        void *params[] = {&p, &n, &v};

        OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&early, CU_EVENT_DISABLE_TIMING));
        OK(cuEventCreate(&launched, CU_EVENT_DISABLE_TIMING));
        MUST(cuMemAlloc(&p, 64));
        OK(cuMemsetD32Async(p, 1, 16, a));
        config.hStream = a;
        attributes[0].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
        attributes[0].value.programmaticEvent.event = early;
        attributes[1].id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
        attributes[1].value.launchCompletionEvent.event = launched;
        OK(cuLaunchKernelEx(&config, add, params, NULL));
        OK(cuStreamWaitEvent(b, early, 0));
        OK(cuEventSynchronize(launched));
        OK(cuEventSynchronize(early));
        OK(cuStreamSynchronize(b));
        OK(cuStreamSynchronize(a));
        OK(cuMemcpyDtoH(&value, p, 4));
        CHECK(value == 6);
        OK(cuMemFree(p));
        OK(cuEventDestroy(early));
        OK(cuEventDestroy(launched));
        OK(cuStreamDestroy(a));
        OK(cuStreamDestroy(b));
}

int main(int argc, char **argv)
{
        CUcontext context;

        program_begin(argc, argv);
        context = program_context();
        check_attributes();
        check_batch();
        check_boxes();
        check_peers(context);
        check_launch_events(program_module("prog_basic"));
        OK(cuCtxDestroy(context));
        return program_end("stream_attributes");
}
