/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that launches kernels while the worker decides about the next ones
 *
 * The driver needs 2 to 3 us for a launch, and the worker about as long for everything else that belongs to it. While
 * launches follow each other closely, the worker passes their driver calls to this thread, so that both go on at the
 * same time. A single launch does not take this way: passing it on would only cost time.
 *
 * Calls are passed through a ring of one writer and one reader, with the parameters copied, and are made in the order
 * in which they were passed. The ring has calls of one stream at a time: meanwhile the owner makes those of other
 * streams itself, so that no stream waits for another one's row. A stream's other work does not take the ring: it waits
 * until the ring has none of the stream's launches (cuda_launcher_settle). So the order of every stream stays. If the
 * ring is full, the owner waits for one launch, as it would wait in the driver.
 *
 * The owner learns of a driver's refusal when it collects the calls that have been made. A job that was passed never
 * completes before it has been collected. A refused job completes with the driver's error.
 *
 * The thread sleeps, except for LAUNCHER_SPIN_NS after its last launch. The owner wakes it when launches of one stream
 * follow each other. On a machine with few processors there is no such thread: it would take a processor from the
 * programs. DETSHARE_LAUNCH_THREAD in the environment decides otherwise: never, or always, which passes every launch
 * that may be passed.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/cuda/internal.h"
#include "util/error.h"

#define LAUNCHER_CALLS 16 /* calls in the ring: a stream's other work waits for at most so many */
#define LAUNCHER_CPUS 4
#define LAUNCHER_STREAK 24                    /* launches in a row after which the thread is woken */
#define LAUNCHER_GAP_NS (20 * DS_NS_PER_US)   /* longest pause between two launches in a row */
#define LAUNCHER_SPIN_NS (100 * DS_NS_PER_US) /* time after a launch for which the thread polls for the next one */
#define LAUNCHER_LOOKS 64                     /* polls between two readings of the clock */
#define LAUNCHER_YIELD 256                    /* pauses after which a waiting thread yields the processor */
#define LAUNCHER_END_S 2                      /* time that the thread has to end, s: a lost context may keep it */

struct passed {
        struct cuda_call call;
        CUlaunchAttribute attributes[CUDA_CALL_ATTRIBUTES];
        struct cuda_job *job;
        CUresult result;
        uint8_t params[CUDA_CALL_PARAMS];
};

struct cuda_launcher {
        pthread_t thread;
        const struct ds_cuda_driver *driver;
        CUcontext context;
        int always;
        sem_t wake;
        /* numbers of calls, from 1: passed by the owner, and made by the thread */
        _Atomic uint64_t n_passed, n_made;
        _Atomic int awake, ends;
        /* the owner's own: calls collected, and launches in a row until last_ns */
        uint64_t n_collected, last_ns;
        uint32_t streak;
        struct passed ring[LAUNCHER_CALLS];
};

static uint64_t launcher_now(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * DS_NS_PER_S + (uint64_t)now.tv_nsec;
}

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
static int thread_polls(struct cuda_launcher *launcher, uint64_t made)
{
        uint64_t until = launcher_now() + LAUNCHER_SPIN_NS;

        for (unsigned i = 1; !atomic_load_explicit(&launcher->ends, memory_order_relaxed); i++) {
                if (atomic_load_explicit(&launcher->n_passed, memory_order_acquire) != made)
                        return 1;
                launcher_pause(i);
                if (i % LAUNCHER_LOOKS == 0 && launcher_now() >= until)
                        return 0;
        }
        return 0;
}

/* Sleeps until the owner wakes the thread, unless the owner has passed a call in the last moment. */
static void thread_sleeps(struct cuda_launcher *launcher, uint64_t made)
{
        atomic_store(&launcher->awake, 0);
        if (atomic_load(&launcher->n_passed) == made && !atomic_load(&launcher->ends))
                while (sem_wait(&launcher->wake))
                        ;
        atomic_store(&launcher->awake, 1);
}

static void *thread_main(void *arg)
{
        struct cuda_launcher *launcher = arg;
        uint64_t made = 0;
        int taken;

        launcher->driver->cuCtxSetCurrent_fn(launcher->context);
        while (!atomic_load(&launcher->ends)) {
                struct passed *passed = &launcher->ring[made % LAUNCHER_CALLS];

                if (!thread_polls(launcher, made)) {
                        thread_sleeps(launcher, made);
                        continue;
                }
                passed->result = cuda_call_make(launcher->driver, &passed->call, 1, &taken);
                atomic_store_explicit(&launcher->n_made, ++made, memory_order_release);
        }
        return NULL;
}

/* --- its beginning and end ---------------------------------------------------------------------------------------- */

/* 1: there is to be a thread. */
static int launcher_wanted(int *ret_always)
{
        const char *told = getenv("DETSHARE_LAUNCH_THREAD");
        cpu_set_t set;

        *ret_always = told && !strcmp(told, "always");
        if (told && !strcmp(told, "never"))
                return 0;
        return *ret_always || (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) >= LAUNCHER_CPUS);
}

/* Starts the thread with all signals blocked. 0 or a negative errno. */
static int launcher_start(struct cuda_launcher *launcher)
{
        sigset_t all, before;
        int r;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(&launcher->thread, NULL, thread_main, launcher);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return -r;
}

int cuda_launcher_init(ds_device *device)
{
        struct cuda_launcher *launcher;
        int always, r;

        if (!device->counters || !launcher_wanted(&always))
                return 0;
        launcher = ds_alloc0(1, sizeof(*launcher));
        if (!launcher)
                return ds_error_origin(-ENOMEM);
        launcher->driver = &device->driver;
        launcher->context = device->primary;
        launcher->always = always;
        sem_init(&launcher->wake, 0, 0);
        r = launcher_start(launcher);
        if (r) {
                ds_free(launcher);
                return ds_error_origin(r);
        }
        device->launcher = launcher;
        return 0;
}

void cuda_launcher_free(ds_device *device)
{
        struct cuda_launcher *launcher = DS_TAKE_PTR(device->launcher);
        struct timespec until;

        if (!launcher)
                return;
        atomic_store(&launcher->ends, 1);
        sem_post(&launcher->wake);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += LAUNCHER_END_S;
        if (pthread_timedjoin_np(launcher->thread, NULL, &until)) {
                pthread_detach(launcher->thread); /* it stays in the driver until the process ends */
                return;
        }
        sem_destroy(&launcher->wake);
        ds_free(launcher);
}

/* --- the owner's side --------------------------------------------------------------------------------------------- */

void cuda_launcher_collect(ds_device *device)
{
        struct cuda_launcher *launcher = device->launcher;
        uint64_t made = launcher ? atomic_load_explicit(&launcher->n_made, memory_order_acquire) : 0;

        while (launcher && launcher->n_collected < made) {
                struct passed *passed = &launcher->ring[launcher->n_collected++ % LAUNCHER_CALLS];

                if (!passed->result)
                        continue;
                if (cuda_fault_ends(passed->result)) {
                        cuda_fault_note(device, passed->result);
                } else if (!passed->job->status) {
                        passed->job->status = (int32_t)passed->result;
                        passed->job->given = 0;
                }
        }
}

int cuda_launcher_has(const ds_device *device, uint64_t number)
{
        return device->launcher && number > device->launcher->n_collected;
}

void cuda_launcher_settle(ds_device *device, const struct cuda_stream *stream)
{
        for (unsigned i = 0; cuda_launcher_has(device, stream->passed); i++) {
                launcher_pause(i);
                cuda_launcher_collect(device);
        }
}

/* Whether launches follow each other so closely that passing them pays. Wakes the thread for the next ones. */
static int launcher_pays(struct cuda_launcher *launcher, uint64_t now_ns)
{
        launcher->streak = now_ns - launcher->last_ns < LAUNCHER_GAP_NS ? launcher->streak + 1 : 0;
        launcher->last_ns = now_ns;
        if (launcher->always)
                return 1;
        if (launcher->streak < LAUNCHER_STREAK)
                return 0;
        if (atomic_load_explicit(&launcher->awake, memory_order_relaxed))
                return 1;
        if (launcher->streak % LAUNCHER_STREAK == 0)
                sem_post(&launcher->wake);
        return 0;
}

int cuda_launcher_takes(ds_device *device, const struct cuda_stream *stream, const struct cuda_call *call, int followed)
{
        struct cuda_launcher *launcher = device->launcher;

        if (!launcher || call->size > CUDA_CALL_PARAMS)
                return 0;
        if (cuda_launcher_has(device, stream->passed))
                return 1;
        cuda_launcher_collect(device);
        if (launcher->n_collected != atomic_load_explicit(&launcher->n_passed, memory_order_relaxed))
                return 0;
        return (followed || launcher->always) && launcher_pays(launcher, cuda_now(device));
}

void cuda_launcher_pass(
        ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct cuda_call *call)
{
        struct cuda_launcher *launcher = device->launcher;
        uint64_t number = atomic_load_explicit(&launcher->n_passed, memory_order_relaxed);
        struct passed *passed = &launcher->ring[number % LAUNCHER_CALLS];

        for (unsigned i = 0; number - launcher->n_collected >= LAUNCHER_CALLS; i++) {
                launcher_pause(i);
                cuda_launcher_collect(device);
        }
        passed->call = *call;
        passed->job = job;
        if (call->size)
                memcpy(passed->params, call->params, call->size);
        for (unsigned i = 0; i < call->config.numAttrs; i++)
                passed->attributes[i] = call->config.attrs[i];
        passed->call.params = passed->params;
        passed->call.config.attrs = passed->attributes;
        job->passed = stream->passed = number + 1;
        atomic_store(&launcher->n_passed, number + 1);
        if (!atomic_load(&launcher->awake))
                sem_post(&launcher->wake);
}
