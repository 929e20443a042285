/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that launch kernels while the worker decides about the next ones
 *
 * The driver needs 2 to 3 us for a launch, and the worker about as long for everything else that belongs to it. While
 * launches follow each other closely, the worker passes their driver calls to threads, so that all this goes on at the
 * same time. A single launch does not take this way: passing it on would only cost time.
 *
 * Each thread has a ring of one writer and one reader. Calls are passed with a copy of their parameters, and made in the
 * order in which they were passed. A stream always uses the same ring, and the ring has calls of one stream at a time:
 * meanwhile the owner makes those of the ring's other streams itself, so that no stream waits for another one's row. A
 * stream's other work does not take the ring: it waits until the ring has none of the stream's launches
 * (cuda_launcher_settle). So the order of every stream stays. If the ring is full, the owner waits for one launch, as it
 * would wait in the driver.
 *
 * The owner learns of a driver's refusal when it collects the calls that have been made. A job that was passed never
 * completes before it has been collected. A refused job completes with the driver's error.
 *
 * A thread sleeps, except for LAUNCHER_SPIN_NS after its last launch. The owner wakes it when launches of its streams
 * follow each other. There is a thread for eight processors, at most LAUNCHER_THREADS; on a machine with few processors
 * there is none, because it would take a processor from the programs. DETSHARE_LAUNCH_THREAD in the environment decides
 * otherwise: never, or always, which passes every launch that may be passed.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/cuda/internal.h"
#include "util/clock.h"
#include "util/cpus.h"
#include "util/error.h"
#include "util/thread.h"

#define LAUNCHER_CALLS 16 /* calls in the ring: a stream's other work waits for at most so many */
#define LAUNCHER_THREADS 4
#define LAUNCHER_CPUS 4                       /* processors below which there is no thread */
#define LAUNCHER_CPUS_MORE 8                  /* processors for each thread */
#define LAUNCHER_STREAK 24                    /* launches in a row after which the thread is woken */
#define LAUNCHER_GAP_NS (20 * DS_NS_PER_US)   /* longest pause between two launches in a row */
#define LAUNCHER_SPIN_NS (100 * DS_NS_PER_US) /* time after a launch for which the thread polls for the next one */
#define LAUNCHER_LOOKS 64                     /* polls between two readings of the clock */
#define LAUNCHER_YIELD 256                    /* pauses after which a waiting thread yields the processor */
#define LAUNCHER_END_S 2                      /* time that the thread has to end, s: a lost context may keep it */

struct passed {
        struct cuda_call call;
        CUlaunchAttribute attributes[CUDA_CALL_ATTRIBUTES];
        struct cuda_stream *stream;
        struct cuda_job *job;
        CUresult result;
        int taken; /* 1: the driver took the launch; result is then that of its report */
        uint8_t params[CUDA_CALL_PARAMS];
};

struct ring {
        pthread_t thread;
        struct cuda_launcher *launcher;
        sem_t wake;
        /* numbers of calls, from 1: passed by the owner, and made by the thread */
        _Atomic uint64_t n_passed, n_made;
        _Atomic int awake, ends;
        /* the owner's own: calls collected, and launches in a row until last_ns */
        uint64_t n_collected, last_ns;
        uint32_t streak;
        struct passed calls[LAUNCHER_CALLS];
};

struct cuda_launcher {
        struct ds_cuda_driver driver; /* a copy: a thread that the driver keeps outlives the device */
        CUcontext context;
        int always;
        unsigned n; /* rings whose threads run */
        struct ring rings[LAUNCHER_THREADS];
};

/* turn: number of this pause in its loop. Another thread may need the processor. */
static void launcher_pause(unsigned turn)
{
        if (turn % LAUNCHER_YIELD == LAUNCHER_YIELD - 1) {
                sched_yield();
                return;
        }
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

/* Polls until a call is there. 0: none came for LAUNCHER_SPIN_NS, or the thread must end. */
static int thread_polls(struct ring *ring, uint64_t made)
{
        uint64_t until = ds_monotonic_ns() + LAUNCHER_SPIN_NS;

        for (unsigned i = 1; !atomic_load_explicit(&ring->ends, memory_order_relaxed); i++) {
                if (atomic_load_explicit(&ring->n_passed, memory_order_acquire) != made)
                        return 1;
                launcher_pause(i);
                if (i % LAUNCHER_LOOKS == 0 && ds_monotonic_ns() >= until)
                        return 0;
        }
        return 0;
}

/* Sleeps until the owner wakes the thread, unless the owner has passed a call in the last moment. */
static void thread_sleeps(struct ring *ring, uint64_t made)
{
        atomic_store(&ring->awake, 0);
        if (atomic_load(&ring->n_passed) == made && !atomic_load(&ring->ends))
                while (sem_wait(&ring->wake))
                        ;
        atomic_store(&ring->awake, 1);
}

static void *thread_main(void *arg)
{
        struct ring *ring = arg;
        const struct cuda_launcher *launcher = ring->launcher;
        uint64_t made = 0;

        launcher->driver.cuCtxSetCurrent_fn(launcher->context);
        while (!atomic_load(&ring->ends)) {
                struct passed *passed = &ring->calls[made % LAUNCHER_CALLS];

                if (!thread_polls(ring, made)) {
                        thread_sleeps(ring, made);
                        continue;
                }
                passed->result = cuda_call_make(&launcher->driver, &passed->call, 1, &passed->taken);
                atomic_store_explicit(&ring->n_made, ++made, memory_order_release);
        }
        return NULL;
}

/* --- its beginning and end ---------------------------------------------------------------------------------------- */

/* Number of threads that there are to be. */
static unsigned launcher_wanted(int *ret_always)
{
        const char *told = getenv("DETSHARE_LAUNCH_THREAD");
        const unsigned cpus = ds_cpus();

        *ret_always = told && !strcmp(told, "always");
        if (told && !strcmp(told, "never"))
                return 0;
        if (*ret_always)
                return 2;
        return cpus < LAUNCHER_CPUS ? 0 : DS_MIN(DS_MAX(cpus / LAUNCHER_CPUS_MORE, 1u), LAUNCHER_THREADS);
}

/* Starts the ring's thread. 0 or a negative errno. */
static int ring_start(struct cuda_launcher *launcher, struct ring *ring)
{
        ring->launcher = launcher;
        sem_init(&ring->wake, 0, 0);
        return ds_thread_start(&ring->thread, thread_main, ring);
}

int cuda_launcher_init(ds_device *device)
{
        struct cuda_launcher *launcher;
        unsigned n;
        int always;

        n = device->counters ? launcher_wanted(&always) : 0;
        if (!n)
                return 0;
        launcher = device->launcher = ds_alloc0(1, sizeof(*launcher));
        if (!launcher)
                return ds_error_origin(-ENOMEM);
        launcher->driver = device->driver;
        launcher->context = device->primary;
        launcher->always = always;
        while (launcher->n < n && !ring_start(launcher, &launcher->rings[launcher->n]))
                launcher->n++;
        if (!launcher->n)
                cuda_launcher_free(device); /* the system allows no thread, so the owner makes all calls */
        return 0;
}

/* Ends the ring's thread. 0: it stays in the driver until the process ends. */
static int ring_end(struct ring *ring, const struct timespec *until)
{
        atomic_store(&ring->ends, 1);
        sem_post(&ring->wake);
        if (!pthread_timedjoin_np(ring->thread, NULL, until)) {
                sem_destroy(&ring->wake);
                return 1;
        }
        pthread_detach(ring->thread);
        return 0;
}

void cuda_launcher_free(ds_device *device)
{
        struct cuda_launcher *launcher = DS_TAKE_PTR(device->launcher);
        struct timespec until;
        unsigned ended = 0;

        if (!launcher)
                return;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += LAUNCHER_END_S;
        for (unsigned i = 0; i < launcher->n; i++)
                ended += (unsigned)ring_end(&launcher->rings[i], &until);
        if (ended == launcher->n)
                ds_free(launcher);
}

/* --- the owner's side --------------------------------------------------------------------------------------------- */

static struct ring *ring_of(const ds_device *device, const struct cuda_stream *stream)
{
        return &device->launcher->rings[stream->id % device->launcher->n];
}

/* A call with an error that does not end the context. Its report may be missing, so the device requests another one. */
static void call_failed(ds_device *device, const struct passed *passed)
{
        struct cuda_stream *stream = passed->stream;
        struct cuda_job *job = passed->job;

        if (job->status)
                return;
        stream->asked = cuda_counter(device, stream);
        stream->marked = DS_MIN(stream->marked, job->number - 1);
        if (passed->taken && !job->event)
                return;
        job->status = (int32_t)passed->result;
        job->given = 0;
}

static void ring_collect(ds_device *device, struct ring *ring)
{
        uint64_t made = atomic_load_explicit(&ring->n_made, memory_order_acquire);

        while (ring->n_collected < made) {
                struct passed *passed = &ring->calls[ring->n_collected++ % LAUNCHER_CALLS];

                if (!passed->result)
                        continue;
                if (cuda_fault_ends(passed->result))
                        cuda_fault_note(device, passed->result);
                else if (!device->lost) /* a loss has ended the job, and it may be free */
                        call_failed(device, passed);
        }
}

void cuda_launcher_collect(ds_device *device)
{
        for (unsigned i = 0; device->launcher && i < device->launcher->n; i++)
                ring_collect(device, &device->launcher->rings[i]);
}

int cuda_launcher_has(const ds_device *device, const struct cuda_stream *stream, uint64_t number)
{
        return number && device->launcher && number > ring_of(device, stream)->n_collected;
}

void cuda_launcher_settle(ds_device *device, const struct cuda_stream *stream)
{
        for (unsigned i = 0; cuda_launcher_has(device, stream, stream->passed); i++) {
                launcher_pause(i);
                ring_collect(device, ring_of(device, stream));
        }
}

/* Whether launches follow each other so closely that passing them pays. Wakes the thread for the next ones. */
static int ring_pays(struct ring *ring, uint64_t now_ns)
{
        ring->streak = now_ns - ring->last_ns < LAUNCHER_GAP_NS ? ring->streak + 1 : 0;
        ring->last_ns = now_ns;
        if (ring->launcher->always)
                return 1;
        if (ring->streak < LAUNCHER_STREAK)
                return 0;
        if (atomic_load_explicit(&ring->awake, memory_order_relaxed))
                return 1;
        if (ring->streak % LAUNCHER_STREAK == 0)
                sem_post(&ring->wake);
        return 0;
}

int cuda_launcher_takes(ds_device *device, const struct cuda_stream *stream, const struct cuda_call *call, int followed)
{
        struct ring *ring;

        if (!device->launcher || call->size > CUDA_CALL_PARAMS)
                return 0;
        ring = ring_of(device, stream);
        if (cuda_launcher_has(device, stream, stream->passed))
                return 1;
        ring_collect(device, ring);
        if (ring->n_collected != atomic_load_explicit(&ring->n_passed, memory_order_relaxed))
                return 0;
        return (followed || device->launcher->always) && ring_pays(ring, cuda_now(device));
}

void cuda_launcher_pass(
        ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct cuda_call *call)
{
        struct ring *ring = ring_of(device, stream);
        uint64_t number = atomic_load_explicit(&ring->n_passed, memory_order_relaxed);
        struct passed *passed = &ring->calls[number % LAUNCHER_CALLS];

        for (unsigned i = 0; number - ring->n_collected >= LAUNCHER_CALLS; i++) {
                launcher_pause(i);
                ring_collect(device, ring);
        }
        passed->call = *call;
        passed->stream = stream;
        passed->job = job;
        if (call->size)
                memcpy(passed->params, call->params, call->size);
        for (unsigned i = 0; i < call->config.numAttrs; i++)
                passed->attributes[i] = call->config.attrs[i];
        passed->call.params = passed->params;
        passed->call.config.attrs = passed->attributes;
        job->passed = stream->passed = number + 1;
        atomic_store(&ring->n_passed, number + 1);
        if (!atomic_load(&ring->awake))
                sem_post(&ring->wake);
}
