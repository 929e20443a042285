/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL with one process and one GPU: a communicator, and its collectives with one rank
 */
#include "libs.h"

#include <nccl.h>

int main(void)
{
        enum { N = 1 << 18 };
        float *x = libs_floats(N, 1), *y = libs_floats(N, 0);
        ncclComm_t communicator;
        cudaStream_t stream;
        int device = 0;

        CHECK(cudaStreamCreate(&stream));
        CHECK(ncclCommInitAll(&communicator, 1, &device));
        CHECK(ncclAllReduce(x, y, N, ncclFloat, ncclSum, communicator, stream));
        CHECK(cudaStreamSynchronize(stream));
        libs_say_floats("all reduce", y, N);
        CHECK(ncclBroadcast(x, y, N / 2, ncclFloat, 0, communicator, stream));
        CHECK(ncclAllGather(x, y, N, ncclFloat, communicator, stream));
        CHECK(cudaStreamSynchronize(stream));
        libs_say_floats("all gather", y, N);
        CHECK(ncclCommDestroy(communicator));
        CHECK(cudaStreamDestroy(stream));
        return 0;
}
