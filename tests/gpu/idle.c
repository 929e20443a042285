/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that creates a context and nothing else, to measure the cost of a client
 *
 * Prints READY and its process id when the context exists, and ends at the end of standard input.
 */
#include <cuda.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
        CUcontext context;
        CUdevice device;
        CUresult r;

        if ((r = cuInit(0)) || (r = cuDeviceGet(&device, 0)) || (r = cuCtxCreate(&context, NULL, 0, device)) ||
                (r = cuCtxSynchronize())) {
                printf("idle: %d\n", (int)r);
                return 1;
        }
        printf("READY %d\n", (int)getpid());
        fflush(stdout);
        while (getchar() != EOF)
                ;
        return cuCtxDestroy(context) != CUDA_SUCCESS;
}
