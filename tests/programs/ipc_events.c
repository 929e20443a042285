/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events shared by two processes: one process records an event, the other queries it, synchronises with it and lets a
 * stream wait for it, in both directions. Also: the default streams of two processes do not wait for each other.
 */
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

static void nap_ms(long ms)
{
        const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

        nanosleep(&t, NULL);
}

static void CUDA_CB stand(void *arg)
{
        _Atomic int *open = arg;

        while (!atomic_load(open))
                nap_ms(1);
}

static void say(int fd, char word)
{
        CHECK(write(fd, &word, 1) == 1);
}

static void hear(int fd, char word)
{
        char heard = 0;

        CHECK(read(fd, &heard, 1) == 1 && heard == word);
}

/* The child reads a handle from the pipe `in` and answers on `out`. */
static int child(int in, int out)
{
        _Atomic int open = 0;
        CUipcEventHandle handle;
        CUcontext context;
        CUevent event;
        CUstream a;
        CUdeviceptr p;
        int value = 0;

        program_failures = program_checks = 0;
        context = program_context();
        CHECK(read(in, &handle, sizeof(handle)) == sizeof(handle));
        MUST(cuIpcOpenEventHandle(&event, handle));
        OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
        MUST(cuMemAlloc(&p, 64));
        OK(cuMemsetD32(p, 1, 16));
        /* the parent's stream is blocked by a host function: its event is not reached, and only the stream that
         * waits for it is held */
        EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
        OK(cuStreamWaitEvent(a, event, 0));
        OK(cuMemsetD32Async(p, 2, 1, a));
        OK(cuMemsetD32(p + 4, 3, 1));
        OK(cuMemcpyDtoH(&value, p + 4, 4));
        CHECK(value == 3);
        EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
        say(out, 'w');
        OK(cuEventSynchronize(event));
        OK(cuStreamSynchronize(a));
        OK(cuEventQuery(event));
        /* the same with the child's stream blocked */
        OK(cuLaunchHostFunc(a, stand, &open));
        OK(cuEventRecord(event, a));
        say(out, 'r');
        hear(in, 'q');
        atomic_store(&open, 1);
        OK(cuStreamSynchronize(a));
        say(out, 'd');
        hear(in, 'e');
        OK(cuEventDestroy(event));
        OK(cuStreamDestroy(a));
        OK(cuMemFree(p));
        OK(cuCtxDestroy(context));
        return program_failures != 0;
}

static void parent(int in, int out)
{
        _Atomic int open = 0;
        CUipcEventHandle handle;
        CUcontext context = program_context();
        CUevent event, plain;
        float ms;

        EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&event, CU_EVENT_INTERPROCESS));
        MUST(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
        OK(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
        MUST(cuIpcGetEventHandle(&handle, event));
        OK(cuEventQuery(event)); /* an event that was never recorded counts as reached */
        /* the legacy default streams of two processes are independent */
        OK(cuLaunchHostFunc(NULL, stand, &open));
        OK(cuEventRecord(event, NULL));
        EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
        CHECK(write(out, &handle, sizeof(handle)) == sizeof(handle));
        hear(in, 'w');
        atomic_store(&open, 1);
        hear(in, 'r');
        EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
        say(out, 'q');
        OK(cuEventSynchronize(event));
        hear(in, 'd');
        OK(cuEventQuery(event));
        CHECK(cuEventElapsedTime(&ms, event, event) == CUDA_ERROR_INVALID_HANDLE);
        say(out, 'e');
        OK(cuEventDestroy(event));
        OK(cuEventDestroy(plain));
        OK(cuCtxDestroy(context));
}

int main(int argc, char **argv)
{
        int to[2], from[2], status = -1;
        pid_t pid;

        program_begin(argc, argv);
        if (pipe(to) < 0 || pipe(from) < 0)
                return 1;
        pid = fork();
        if (pid == 0) {
                close(to[1]);
                close(from[0]);
                return child(to[0], from[1]);
        }
        close(to[0]);
        close(from[1]);
        parent(from[0], to[1]);
        waitpid(pid, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        return program_end("ipc_events");
}
