/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that waits for the output of kernels, under ThreadSanitizer: repeated requests, shutdown while it is idle,
 * and shutdown while it is in the driver (here a slow function) and must be abandoned
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/cuda/internal.h"

#define ROUNDS 2000
#define LEFT 50

/* bytes written, like the output itself: the thread writes it, and the owner reads it after the thread has ended */
static unsigned written;
static unsigned in_driver;

static CUresult set_current(CUcontext context)
{
        return CUDA_SUCCESS;
}

static CUresult synchronize(CUstream stream)
{
        written++;
        return written % 2 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult synchronize_slowly(CUstream stream)
{
        __atomic_add_fetch(&in_driver, 1, __ATOMIC_RELAXED);
        usleep(2000);
        return CUDA_SUCCESS;
}

static struct cuda_flush *begin(ds_device *device)
{
        struct cuda_flush *flush = NULL;

        if (cuda_flush_new(device, NULL, &flush))
                abort();
        return flush;
}

int main(void)
{
        static ds_device device = {
                .driver = {.cuCtxSetCurrent_fn = set_current, .cuStreamSynchronize_fn = synchronize}};
        struct cuda_flush *flush = begin(&device);
        CUresult result;

        cuda_flush_free(begin(&device));
        for (unsigned i = 1; i <= ROUNDS; i++) {
                cuda_flush_ask(flush);
                while (!cuda_flush_ended(flush, &result))
                        sched_yield();
                if (written != i || result != (i % 2 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN) ||
                        cuda_flush_ended(flush, &result)) {
                        fprintf(stderr, "round %u: %u, %d\n", i, written, (int)result);
                        return EXIT_FAILURE;
                }
        }
        cuda_flush_free(flush);
        device.driver.cuStreamSynchronize_fn = synchronize_slowly;
        for (unsigned i = 0; i < LEFT; i++) {
                flush = begin(&device);
                cuda_flush_ask(flush);
                if (i % 2)
                        usleep(100);
                cuda_flush_free(flush);
        }
        usleep(200000);
        printf("%u rounds, %u left alone, %u of them in the driver\n", ROUNDS, LEFT,
                __atomic_load_n(&in_driver, __ATOMIC_RELAXED));
        return EXIT_SUCCESS;
}
