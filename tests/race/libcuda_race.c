/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Driver API library under ThreadSanitizer
 *
 * Six threads use one context at once against a daemon inside the test: they create, use and destroy streams and
 * events; allocate, copy, query and free memory; launch one module's kernel; capture, copy, launch and destroy graphs;
 * load and unload libraries, create and destroy contexts. Exit status 0; 1 with a message; or ThreadSanitizer's 66.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cuda/api.h"
#include "tests/support/fake_daemon.h"

#define THREADS 6
#define ROUNDS 150
#define LARGE ((size_t)3 << 20)

static struct fake fake;
static _Atomic unsigned int failures;
static CUcontext context;
static CUfunction kernel;

static void expect(CUresult got, CUresult wanted, const char *what, int line)
{
        if (got != wanted && failures++ < 8)
                fprintf(stderr, "FAIL line %d: %s = %d, not %d\n", line, what, got, wanted);
}

#define OK(call) expect(call, CUDA_SUCCESS, #call, __LINE__)

/* --- replies that the daemon inside the test leaves to the test --------------------------------------------------- */

static void describe_device(Detshare__Reply *reply)
{
        static Detshare__DeviceReply r = DETSHARE__DEVICE_REPLY__INIT;
        static int32_t attributes[CU_DEVICE_ATTRIBUTE_MAX];

        for (int i = 1; i <= CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z; i++)
                attributes[i] = 1024;
        attributes[CU_DEVICE_ATTRIBUTE_WARP_SIZE] = 32;
        attributes[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK] = 65536;
        attributes[CU_DEVICE_ATTRIBUTE_MAX_PITCH] = 1 << 30;
        r.count = 1;
        r.name = (char *)"Fake";
        r.model = (char *)"fake";
        r.n_attributes = CU_DEVICE_ATTRIBUTE_MAX;
        r.attributes = attributes;
        reply->result_case = DETSHARE__REPLY__RESULT_GET_DEVICE;
        reply->get_device = &r;
}

static void describe_kernel(Detshare__Reply *reply)
{
        static Detshare__KernelParam param = DETSHARE__KERNEL_PARAM__INIT, *params[] = {&param};
        static Detshare__KernelReply r = DETSHARE__KERNEL_REPLY__INIT;

        param.size = 8;
        r.kernel = 1;
        r.name = (char *)"k";
        r.n_params = 1;
        r.params = params;
        r.params_size = 8;
        r.max_threads = 1024;
        r.registers = 16;
        reply->result_case = DETSHARE__REPLY__RESULT_GET_KERNEL;
        reply->get_kernel = &r;
}

static enum fake_verdict hook(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        static Detshare__StreamReply stream = DETSHARE__STREAM_REPLY__INIT;
        static Detshare__EventReply event = DETSHARE__EVENT_REPLY__INIT;
        static Detshare__ModuleReply module = DETSHARE__MODULE_REPLY__INIT;
        static Detshare__ElapsedReply elapsed = DETSHARE__ELAPSED_REPLY__INIT;
        static Detshare__GraphReply graph = DETSHARE__GRAPH_REPLY__INIT;
        static uint8_t taken[512];

        switch (request->call_case) {
        case DETSHARE__REQUEST__CALL_GET_DEVICE:
                describe_device(reply);
                return FAKE_ANSWERED;
        case DETSHARE__REQUEST__CALL_STREAM_CREATE:
                /* the number of an existing stream must not be used again: each thread keeps one stream for its
                 * whole life */
                do
                        stream.stream = stream.stream % 500 + 1;
                while (taken[stream.stream]);
                taken[stream.stream] = 1;
                reply->result_case = DETSHARE__REPLY__RESULT_STREAM_CREATE;
                reply->stream_create = &stream;
                return FAKE_ANSWERED;
        case DETSHARE__REQUEST__CALL_STREAM_DESTROY:
                taken[request->stream_destroy->stream % sizeof(taken)] = 0;
                return FAKE_DEFAULT;
        case DETSHARE__REQUEST__CALL_EVENT_CREATE:
                event.event++;
                reply->result_case = DETSHARE__REPLY__RESULT_EVENT_CREATE;
                reply->event_create = &event;
                return FAKE_ANSWERED;
        case DETSHARE__REQUEST__CALL_EVENT_ELAPSED:
                elapsed.ns = 1000000;
                reply->result_case = DETSHARE__REPLY__RESULT_EVENT_ELAPSED;
                reply->event_elapsed = &elapsed;
                return FAKE_ANSWERED;
        case DETSHARE__REQUEST__CALL_MODULE_LOAD:
                module.module++;
                reply->result_case = DETSHARE__REPLY__RESULT_MODULE_LOAD;
                reply->module_load = &module;
                return FAKE_ANSWERED;
        case DETSHARE__REQUEST__CALL_GRAPH_CREATE:
                graph.graph++;
                reply->result_case = DETSHARE__REPLY__RESULT_GRAPH_CREATE;
                reply->graph_create = &graph;
                return FAKE_ANSWERED;
        case DETSHARE__REQUEST__CALL_GET_KERNEL:
                describe_kernel(reply);
                return FAKE_ANSWERED;
        default:
                return FAKE_DEFAULT;
        }
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

static void streams_and_events(CUdeviceptr p)
{
        CUstream stream;
        CUevent start, end;
        float ms = 0;
        void *params[] = {&p};

        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&start, CU_EVENT_DEFAULT));
        OK(cuEventCreate(&end, CU_EVENT_DEFAULT));
        OK(cuEventRecord(start, stream));
        OK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
        OK(cuEventRecord(end, stream));
        OK(cuStreamWaitEvent(CU_STREAM_PER_THREAD, end, 0));
        OK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, CU_STREAM_PER_THREAD, params, NULL));
        OK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
        OK(cuEventSynchronize(end));
        OK(cuEventElapsedTime_v2(&ms, start, end));
        OK(cuEventDestroy_v2(start));
        OK(cuEventDestroy_v2(end));
        OK(cuStreamSynchronize(stream));
        OK(cuStreamDestroy_v2(stream));
        expect(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE, "a destroyed stream", __LINE__);
}

/* Synchronous copies that may return early, and other streams that read the memory. */
static void copies(CUdeviceptr p, int value)
{
        unsigned char from[64], to[64];
        CUstream stream;

        memset(from, value, sizeof(from));
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuMemcpyHtoD_v2(p, from, sizeof(from)));
        OK(cuMemcpyDtoD_v2(p + 64, p, sizeof(from)));
        OK(cuMemcpyDtoHAsync_v2(to, p + 64, sizeof(to), stream));
        OK(cuStreamSynchronize(stream));
        if (memcmp(from, to, sizeof(to)) != 0)
                expect(CUDA_ERROR_UNKNOWN, CUDA_SUCCESS, "a stream has read old bytes", __LINE__);
        OK(cuStreamDestroy_v2(stream));
}

static void memory(int id, int round)
{
        unsigned char from[3000], to[3000];
        CUdeviceptr p, base;
        size_t size;
        unsigned int type;

        memset(from, id * 16 + round, sizeof(from));
        OK(cuMemAlloc_v2(&p, sizeof(from)));
        OK(cuMemcpyHtoDAsync_v2(p, from, sizeof(from), CU_STREAM_PER_THREAD));
        OK(cuMemcpyDtoHAsync_v2(to, p, sizeof(to), CU_STREAM_PER_THREAD));
        if (memcmp(from, to, sizeof(to)) != 0)
                expect(CUDA_ERROR_UNKNOWN, CUDA_SUCCESS, "the bytes read back are not the bytes written", __LINE__);
        OK(cuMemGetAddressRange_v2(&base, &size, p + 7));
        OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
        streams_and_events(p);
        copies(p, id * 16 + round + 1);
        OK(cuMemFree_v2(p)); /* another thread may get the address now */
        OK(cuMemAlloc_v2(&p, LARGE - (size_t)id * 512));
        OK(cuMemGetAddressRange_v2(&base, &size, p + LARGE / 2));
        if (size != LARGE - (size_t)id * 512)
                expect(CUDA_ERROR_UNKNOWN, CUDA_SUCCESS, "another size", __LINE__);
        OK(cuMemFree_v2(p)); /* the client keeps some of these allocations */
}

/* A thread captures, instantiates and launches graphs while other threads do the same: the captures are independent. */
static void captures_and_graphs(CUdeviceptr p)
{
        CUstream stream, side;
        CUevent event;
        CUgraph graph = NULL, clone;
        CUgraphExec exec;
        size_t n = 0;
        void *params[] = {&p};

        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
        OK(cuEventRecord(event, stream));
        OK(cuStreamWaitEvent(side, event, 0));
        OK(cuMemsetD8Async(p, 1, 64, side));
        OK(cuEventRecord(event, side));
        OK(cuStreamWaitEvent(stream, event, 0));
        OK(cuStreamEndCapture(stream, &graph));
        OK(cuGraphGetNodes(graph, NULL, &n));
        if (n != 2)
                expect(CUDA_ERROR_UNKNOWN, CUDA_SUCCESS, "two nodes were captured", __LINE__);
        OK(cuGraphClone(&clone, graph));
        OK(cuGraphInstantiateWithFlags(&exec, clone, 0));
        OK(cuGraphDestroy(clone));
        OK(cuGraphLaunch(exec, stream));
        OK(cuGraphLaunch(exec, side));
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
        OK(cuStreamSynchronize(side));
        OK(cuEventDestroy_v2(event));
        OK(cuStreamDestroy_v2(stream));
        OK(cuStreamDestroy_v2(side));
}

static void contexts_and_libraries(void)
{
        CUcontext other;
        CUlibrary library;
        CUkernel k;
        CUstream stream;
        CUdeviceptr p;
        void *params[] = {&p};

        OK(cuCtxCreate_v2(&other, 0, 0));
        OK(cuMemAlloc_v2(&p, 256));
        OK(cuStreamCreate(&stream, 0));
        OK(cuLibraryLoadData(&library, ".version 8.0\n", NULL, NULL, 0, NULL, NULL, 0));
        OK(cuLibraryGetKernel(&k, library, "k"));
        OK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
        OK(cuLibraryUnload(library));
        OK(cuCtxDestroy_v2(other)); /* destroying the context destroys its objects as well */
}

static void *user(void *argument)
{
        int id = (int)(intptr_t)argument;

        OK(cuCtxSetCurrent(context));
        for (int round = 0; round < ROUNDS; round++) {
                memory(id, round);
                if (round % 3 == 0) {
                        CUdeviceptr p;

                        OK(cuMemAlloc_v2(&p, 256));
                        captures_and_graphs(p);
                        OK(cuMemFree_v2(p));
                }
                if (round % 10 == 0)
                        contexts_and_libraries();
        }
        /* All threads share the legacy stream: another thread's kernel may run on it. */
        CUresult r = cuStreamQuery(NULL);

        if (r != CUDA_ERROR_NOT_READY)
                expect(r, CUDA_SUCCESS, "the legacy stream, while others use it", __LINE__);
        return NULL;
}

static void freed_twice(void)
{
        CUdeviceptr p;

        OK(cuMemAlloc_v2(&p, 256));
        OK(cuMemFree_v2(p));
        expect(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE, "freed twice", __LINE__);
}

int main(void)
{
        pthread_t threads[THREADS];
        CUmodule module;

        fake.window = 0x004000000000; /* address at which ThreadSanitizer allows mappings */
        fake.hook = hook;
        fake.spare_bytes = 8 * LARGE;
        fake_start(&fake);
        OK(cuInit(0));
        OK(cuCtxCreate_v2(&context, 0, 0));
        OK(cuModuleLoadData(&module, ".version 8.0\n"));
        OK(cuModuleGetFunction(&kernel, module, "k"));
        if (failures)
                return 1;
        for (intptr_t i = 0; i < THREADS; i++)
                pthread_create(&threads[i], NULL, user, (void *)i);
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        freed_twice();
        OK(cuCtxSynchronize());
        OK(cuStreamQuery(NULL));
        OK(cuModuleUnload(module));
        OK(cuCtxDestroy_v2(context));
        return failures ? 1 : 0;
}
