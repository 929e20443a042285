/* SPDX-License-Identifier: Apache-2.0 */
/* Calls after main(): from an exit handler, a destructor, a thread that still runs. Each returns; none crashes or
 * hangs. */
#include <pthread.h>
#include <unistd.h>

#include "program.h"

static CUdeviceptr memory;
static CUstream stream;
static CUevent event;

static void late(const char *who)
{
        CUresult r[] = {cuStreamSynchronize(stream), cuEventDestroy(event), cuStreamDestroy(stream), cuMemFree(memory),
                cuCtxSynchronize(), cuDevicePrimaryCtxRelease(0)};

        for (unsigned int i = 0; i < sizeof(r) / sizeof(r[0]); i++) {
                /* allowed results of a call after main(): success, already freed, or too late */
                CHECK(r[i] == CUDA_SUCCESS || r[i] == CUDA_ERROR_DEINITIALIZED || r[i] == CUDA_ERROR_INVALID_VALUE ||
                        r[i] == CUDA_ERROR_INVALID_HANDLE || r[i] == CUDA_ERROR_INVALID_CONTEXT);
        }
        if (program_end(who))
                _exit(1);
}

static void exit_handler(void)
{
        late("exit_order: exit handler");
}

__attribute__((destructor)) static void destructor(void)
{
        memory = 0; /* the destructor of the context has freed it */
        stream = NULL;
        event = NULL;
        program_failures += cuCtxSynchronize() == CUDA_ERROR_UNKNOWN;
        if (program_end("exit_order"))
                _exit(1);
}

static void *endless(void *argument)
{
        cuCtxSetCurrent(argument);
        for (;;) {
                size_t n;

                cuMemGetInfo(&n, &n);
                usleep(1000);
        }
        return NULL;
}

int main(int argc, char **argv)
{
        CUcontext context;
        pthread_t thread;

        program_begin(argc, argv);
        context = program_context();
        MUST(cuMemAlloc(&memory, 4096));
        MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        OK(cuMemsetD8Async(memory, 1, 4096, stream));
        OK(cuEventRecord(event, stream));
        atexit(exit_handler);
        CHECK(pthread_create(&thread, NULL, endless, context) == 0);
        usleep(5000);
        return program_failures != 0;
}
