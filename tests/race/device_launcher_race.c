/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that launches kernels, under ThreadSanitizer: calls passed as fast as the ring takes them, with pauses in
 * which the thread falls asleep, with refusals, and its end while calls are left or the driver keeps it
 *
 * The driver is a function that counts. It reads the parameters, which the thread must have in a copy of its own.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/cuda/internal.h"

#define CALLS 30000u
#define ENDS 40u
#define REFUSED_EVERY 1000u

/* the driver's: read by the owner after it has settled the stream */
static uint64_t launched, sum;

/* 1: the driver keeps the calling thread; the number of reports after it has let go */
static _Atomic int keeps, reports;

static CUresult set_current(CUcontext context)
{
        return CUDA_SUCCESS;
}

static CUresult launch(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
        while (atomic_load(&keeps))
                usleep(1000);
        launched++;
        if (launched % REFUSED_EVERY == 0)
                return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        sum += *(const uint64_t *)extra[1];
        return CUDA_SUCCESS;
}

static CUresult report(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
        atomic_fetch_add(&reports, 1);
        return CUDA_SUCCESS;
}

static void fail(const char *what)
{
        fprintf(stderr, "device_launcher_race: %s\n", what);
        exit(EXIT_FAILURE);
}

static void pass(ds_device *device, struct cuda_stream *stream, struct cuda_job *job, uint64_t value)
{
        struct cuda_call call = {.params = &value, .size = sizeof(value)};

        if (!cuda_launcher_takes(device, stream, &call, 1))
                fail("a call is not taken");
        cuda_launcher_pass(device, stream, job, &call);
        value = 0;
}

static void begin(ds_device *device)
{
        if (cuda_launcher_init(device) || !device->launcher)
                fail("no thread");
}

/* The driver keeps the thread until the device is closed, and its memory is used again. The thread then ends its call. */
static void kept_thread(ds_device *device, struct cuda_stream *stream, struct cuda_job *job)
{
        uint64_t value = 1;
        struct cuda_call call = {.params = &value, .size = sizeof(value), .behind = 1};

        stream->passed = 0;
        begin(device);
        atomic_store(&keeps, 1);
        cuda_launcher_pass(device, stream, job, &call);
        usleep(1000);
        cuda_launcher_free(device);
        memset(&device->driver, 0, sizeof(device->driver));
        atomic_store(&keeps, 0);
        for (unsigned i = 0; i < 5000 && !atomic_load(&reports); i++)
                usleep(1000);
        if (atomic_load(&reports) != 1)
                fail("a thread that the driver kept does not end its call");
}

int main(void)
{
        static uint64_t counters[1];
        static struct cuda_job jobs[CALLS];
        static struct cuda_stream stream;
        static ds_device device = {.counters = counters,
                .driver = {.cuCtxSetCurrent_fn = set_current,
                        .cuLaunchKernelEx_fn = launch,
                        .cuStreamWriteValue64_fn = report}};
        uint64_t expected = 0;

        setenv("DETSHARE_LAUNCH_THREAD", "always", 1);
        begin(&device);
        for (unsigned i = 0; i < CALLS; i++) {
                pass(&device, &stream, &jobs[i], i);
                expected += (i + 1) % REFUSED_EVERY ? i : 0;
                if (i % 3000 == 0)
                        usleep(i % 6000 ? 50 : 300);
        }
        cuda_launcher_settle(&device, &stream);
        if (launched != CALLS || sum != expected)
                fail("calls are lost, or have other parameters");
        for (unsigned i = 0; i < CALLS; i++)
                if ((jobs[i].status != 0) != ((i + 1) % REFUSED_EVERY == 0))
                        fail("a refusal is another job's");
        cuda_launcher_free(&device);
        for (unsigned i = 0; i < ENDS; i++) {
                stream.passed = 0;
                begin(&device);
                for (unsigned k = 0; k < i % 16; k++)
                        pass(&device, &stream, &jobs[k], k);
                if (i % 3 == 0)
                        usleep(200);
                cuda_launcher_free(&device);
        }
        kept_thread(&device, &stream, &jobs[0]);
        printf("%u calls, %u ends\n", CALLS, ENDS);
        return EXIT_SUCCESS;
}
