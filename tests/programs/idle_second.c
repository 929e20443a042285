/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel, and then a second without one: the wall clock advances, a simulated device's clock stands still
 *
 * DetShare prints a note about that on standard error; natively there is none. If IDLE_SYNC is in the environment, the
 * program synchronises once more before it ends.
 */
#include <time.h>

#include "program.h"

int main(int argc, char **argv)
{
        const struct timespec second = {.tv_sec = 1, .tv_nsec = 100000000};
        CUcontext context;
        CUdeviceptr p;

        program_begin(argc, argv);
        context = program_context();
        MUST(cuMemAlloc(&p, 1 << 20));
        OK(cuMemsetD8(p, 1, 1 << 20));
        OK(cuCtxSynchronize());
        nanosleep(&second, NULL);
        if (getenv("IDLE_SYNC"))
                OK(cuCtxSynchronize());
        OK(cuMemFree(p));
        if (getenv("IDLE_SYNC"))
                OK(cuCtxDestroy(context));
        return program_end("idle_second");
}
