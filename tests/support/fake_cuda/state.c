/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver: entering a call
 *
 * One lock protects everything: callers may be several threads, and the sim has one owner. On entry a call is logged,
 * may get an injected error, must find the state that it needs, and if it stops a real context, waits for all work as
 * there. With FAKE_CUDA_STRICT such a call aborts with a message while work is in flight, so that a test detects a
 * daemon that did not quiesce.
 */
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/fake_cuda/fake.h"

#include "device/sim/sim.h"

#define INJECTIONS_MAX 16
#define FRAMES_MAX 24

struct injection {
        char name[64];
        uint32_t at, seen; /* number of the call that fails, and calls so far; at 0: every call fails */
        CUresult result;
};

struct fake_state fake = {.log_fd = -1};
const struct ds_device_ops *const fake_sim = &ds_sim_ops;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct injection injections[INJECTIONS_MAX];
static size_t n_injections;
static bool environment_known;

uint64_t fake_clock(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * DS_NS_PER_S + (uint64_t)t.tv_nsec;
}

void fake_unlock(void)
{
        pthread_mutex_unlock(&lock);
}

CUresult fake_result(int r)
{
        if (r >= 0)
                return (CUresult)r;
        switch (r) {
        case -ENOMEM:
        case -ENOSPC:
                return CUDA_ERROR_OUT_OF_MEMORY;
        case -EINVAL:
        case -EPERM:
        case -EBADF:
                return CUDA_ERROR_INVALID_VALUE;
        case -ENOENT:
                return CUDA_ERROR_NOT_FOUND;
        default:
                return CUDA_ERROR_UNKNOWN;
        }
}

static void environment_read(void)
{
        const char *fail = getenv("FAKE_CUDA_FAIL"), *log = getenv("FAKE_CUDA_LOG"), *s = getenv("FAKE_CUDA_STRICT");

        environment_known = true;
        fake.strict = s && !strcmp(s, "1");
        if (log && fake.log_fd < 0)
                fake.log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        for (n_injections = 0; fail && *fail && n_injections < INJECTIONS_MAX;) {
                struct injection *i = &injections[n_injections];
                unsigned int at = 0, result = 0;

                if (sscanf(fail, "%63[^:]:%u:%u", i->name, &at, &result) == 3) {
                        i->at = at;
                        i->seen = 0;
                        i->result = (CUresult)result;
                        n_injections++;
                }
                fail = strchr(fail, ',');
                fail += fail ? 1 : 0;
        }
}

static CUresult injected(const char *name)
{
        for (size_t i = 0; i < n_injections; i++) {
                if (strcmp(injections[i].name, name) != 0)
                        continue;
                injections[i].seen++;
                if (!injections[i].at || injections[i].seen == injections[i].at)
                        return injections[i].result;
        }
        return CUDA_SUCCESS;
}

static void log_call(const char *name, const char *how)
{
        char line[100];
        int n = snprintf(line, sizeof(line), "%s %s\n", name, how);

        if (write(fake.log_fd, line, (size_t)n) != n)
                fake.log_fd = -1;
}

/* Prints the forbidden call, its caller and the work that it would stop; aborts. */
static _Noreturn void stop_refuse(const char *name)
{
        const struct CUstream_st *stream;
        void *frames[FRAMES_MAX];

        fprintf(stderr, "fake_cuda: %s stops the whole context, and was called while work was in flight\n", name);
        for (uint32_t i = 0; i < fake.n_rungs * FAKE_SLOTS; i++) {
                stream = &fake.rungs[i / FAKE_SLOTS]->streams[i % FAKE_SLOTS];
                if (stream->done < stream->serious)
                        fprintf(stderr, "fake_cuda: rung %u, stream %u: %llu done of %llu\n", i / FAKE_SLOTS,
                                i % FAKE_SLOTS, (unsigned long long)stream->done,
                                (unsigned long long)stream->submitted);
        }
        backtrace_symbols_fd(frames, backtrace(frames, FRAMES_MAX), STDERR_FILENO);
        abort();
}

CUresult fake_stop(const char *name)
{
        if (fake.strict && fake_busy())
                stop_refuse(name);
        return fake_wait(NULL);
}

static CUresult check_context(const char *name, enum fake_needs needs)
{
        bool look = needs == FAKE_STOPS || (needs != FAKE_ASKS && fake.log_fd >= 0), busy = false;

        if (!fake_current || !fake.device)
                return CUDA_ERROR_INVALID_CONTEXT;
        if (look && !fake.lost) {
                fake_pump();
                busy = fake_busy();
        }
        if (fake.log_fd >= 0 && needs != FAKE_ASKS)
                log_call(name, busy ? "busy" : "idle");
        if (fake.lost)
                return fake.lost;
        return needs == FAKE_STOPS ? fake_stop(name) : CUDA_SUCCESS;
}

CUresult fake_enter(const char *name, enum fake_needs needs)
{
        CUresult r;

        pthread_mutex_lock(&lock);
        if (!environment_known)
                environment_read();
        r = injected(name);
        if (r && fake.log_fd >= 0)
                log_call(name, "refused");
        if (r)
                return r;
        if (needs == FAKE_CONTEXT || needs == FAKE_ASKS || needs == FAKE_STOPS)
                return fake.initialised ? check_context(name, needs) : CUDA_ERROR_NOT_INITIALIZED;
        if (fake.log_fd >= 0)
                log_call(name, "idle");
        return needs == FAKE_INIT && !fake.initialised ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
}

FAKE_API cuInit(unsigned int flags)
{
        const char *loading = getenv("CUDA_MODULE_LOADING");

        FAKE_ENTER(cuInit, NOTHING);
        if (flags)
                return CUDA_ERROR_INVALID_VALUE;
        fake.eager = loading && !strcmp(loading, "EAGER");
        fake.initialised = true;
        return CUDA_SUCCESS;
}

FAKE_API cuDriverGetVersion(int *version)
{
        FAKE_ENTER(cuDriverGetVersion, NOTHING);
        *version = CUDA_VERSION;
        return CUDA_SUCCESS;
}

static const struct {
        CUresult result;
        const char *name, *text;
} errors[] = {
#define X(constant, value, sentence) {constant, #constant, sentence},
#include "client-lib/core/errors.def"
#undef X
};

FAKE_API cuGetErrorName(CUresult result, const char **name)
{
        *name = NULL;
        for (size_t i = 0; i < DS_ARRAY_SIZE(errors); i++)
                if (errors[i].result == result)
                        *name = errors[i].name;
        return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FAKE_API cuGetErrorString(CUresult result, const char **text)
{
        *text = NULL;
        for (size_t i = 0; i < DS_ARRAY_SIZE(errors); i++)
                if (errors[i].result == result)
                        *text = errors[i].text;
        return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
