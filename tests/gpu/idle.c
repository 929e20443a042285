/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with a context that asks for nothing else: what does a client cost?
 *
 * Prints READY and its process id when the context is there, and ends when standard input does.
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
