/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled with per-thread default streams: stream 0 is the thread's own, in copies, launches, events. */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1
#include <pthread.h>

#include "program.h"

#define STEPS 300000u

static CUcontext context;
static CUfunction busy, add;
static CUdeviceptr scratch;
static int other_result = -1;

static void *other_thread(void *argument)
{
        CUdeviceptr p;
        int n = 16, v = 3, host[16];
        void *params[] = {&p, &n, &v};

        other_result = cuCtxSetCurrent(context) || cuMemAlloc(&p, sizeof(host)) || cuMemsetD32(p, 4, 16) ||
                       cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, NULL, params, NULL) || cuStreamSynchronize(NULL) ||
                       cuMemcpyDtoH(host, p, sizeof(host));
        for (int i = 0; i < 16; i++)
                other_result |= host[i] != 7;
        return NULL;
}

int main(int argc, char **argv)
{
        struct program_gate gate;
        CUmodule module;
        CUevent event;
        pthread_t thread;
        unsigned int steps = STEPS, seed = 1;
        unsigned long long own = 0, legacy = 0, handle = 0;
        void *params[] = {&scratch, &steps, &seed};
        int value = 0;

        program_begin(argc, argv);
        context = program_context();
        module = program_module("prog_basic");
        busy = program_function(module, "prog_busy");
        add = program_function(module, "prog_add");
        MUST(cuMemAlloc(&scratch, 4096));
        OK(cuMemsetD32(scratch, 0, 1024));
        OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        OK(cuStreamGetId(NULL, &own));
        OK(cuStreamGetId(CU_STREAM_PER_THREAD, &handle));
        OK(cuStreamGetId(CU_STREAM_LEGACY, &legacy));
        CHECK(own == handle && own != legacy);
        OK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        gate = program_gate(NULL);
        OK(cuEventRecord(event, NULL));
        EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(CU_STREAM_PER_THREAD));
        CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
        pthread_join(thread, NULL); /* the other thread's default stream does not wait for this thread's */
        CHECK(other_result == 0);
        program_gate_open(&gate);
        OK(cuEventSynchronize(event));
        program_gate_free(&gate);
        OK(cuStreamQuery(NULL));
        OK(cuMemcpyDtoH(&value, scratch, sizeof(value)));
        CHECK(value != 0);
        OK(cuCtxDestroy(context));
        return program_end("per_thread");
}
