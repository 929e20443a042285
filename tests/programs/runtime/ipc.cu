/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one process in another: the same allocation, not a copy, ordered by a shared event
 *
 * The program starts itself again as the second process: argv[1] is "child", the handles come through a pipe.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "runtime.h"

static const int n = 4096;

struct handles {
        cudaIpcMemHandle_t memory;
        cudaIpcEventHandle_t event;
};

__global__ void step(uint32_t *p, uint32_t add)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                p[i] = p[i] * 3u + add;
}

static int child()
{
        handles h;
        cudaEvent_t e;
        uint32_t *p;

        CHECK(read(STDIN_FILENO, &h, sizeof(h)) == (ssize_t)sizeof(h));
        MUST(cudaIpcOpenMemHandle((void **)&p, h.memory, cudaIpcMemLazyEnablePeerAccess));
        MUST(cudaIpcOpenEventHandle(&e, h.event));
        OK(cudaStreamWaitEvent(0, e, 0));
        std::vector<uint32_t> v = program_download(p, n);
        CHECK(v[0] == 5 && v[n - 1] == (n - 1) * 3u + 5);
        LAUNCHED(step<<<n / 256, 256>>>(p, 7));
        OK(cudaDeviceSynchronize());
        OK(cudaIpcCloseMemHandle(p));
        OK(cudaEventDestroy(e));
        return program_end("ipc in the second process");
}

int main(int argc, char **argv)
{
        std::vector<uint32_t> v(n), expected(n);
        int fds[2], status = -1;
        cudaEvent_t e;
        uint32_t *p;
        handles h;
        pid_t pid;

        if (argc > 1 && strcmp(argv[1], "child") == 0)
                return child();
        for (int i = 0; i < n; i++) {
                v[i] = i;
                expected[i] = (i * 3u + 5) * 3u + 7;
        }
        p = program_upload(v);
        MUST(cudaEventCreateWithFlags(&e, cudaEventInterprocess | cudaEventDisableTiming));
        MUST(cudaIpcGetMemHandle(&h.memory, p));
        MUST(cudaIpcGetEventHandle(&h.event, e));
        LAUNCHED(step<<<n / 256, 256>>>(p, 5));
        OK(cudaEventRecord(e, 0));
        OK(cudaDeviceSynchronize());
        CHECK(pipe(fds) == 0);
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                dup2(fds[0], STDIN_FILENO);
                execl("/proc/self/exe", "ipc", "child", (char *)NULL);
                _exit(127);
        }
        CHECK(write(fds[1], &h, sizeof(h)) == (ssize_t)sizeof(h));
        CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK(program_download(p, n) == expected);
        EXPECT(cudaErrorInvalidValue, cudaIpcCloseMemHandle(p));
        OK(cudaEventDestroy(e));
        OK(cudaFree(p));
        return program_end("ipc");
}
