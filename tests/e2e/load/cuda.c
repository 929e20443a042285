/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program on the drop-in libcuda that survives its daemon: it destroys its context (or resets the primary one) and
 * makes another. It opens the library by path, since the test itself uses the client core.
 */
#include "tests/e2e/load/load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/harness.h"

#define N 1024u
#define DIES_MS 10000 /* for a context to die after the daemon refused a request; generous for a slow machine */

#define CALLS(X)                                                                                                \
        X(cuInit, unsigned)                                                                                     \
        X(cuCtxCreate_v2, void **, unsigned, int)                                                               \
        X(cuCtxDestroy_v2, void *)                                                                              \
        X(cuCtxSetCurrent, void *)                                                                              \
        X(cuCtxSynchronize, void)                                                                               \
        X(cuDevicePrimaryCtxRetain, void **, int)                                                               \
        X(cuDevicePrimaryCtxReset_v2, int)                                                                      \
        X(cuDeviceGetCount, int *)                                                                              \
        X(cuMemAlloc_v2, uint64_t *, size_t)                                                                    \
        X(cuMemFree_v2, uint64_t)                                                                               \
        X(cuMemAllocHost_v2, void **, size_t)                                                                   \
        X(cuMemFreeHost, void *)                                                                                \
        X(cuMemcpyDtoH_v2, void *, uint64_t, size_t)                                                            \
        X(cuStreamCreate, void **, unsigned)                                                                    \
        X(cuStreamSynchronize, void *)                                                                          \
        X(cuStreamDestroy_v2, void *)                                                                           \
        X(cuEventCreate, void **, unsigned)                                                                     \
        X(cuEventRecord, void *, void *)                                                                        \
        X(cuEventSynchronize, void *)                                                                           \
        X(cuModuleLoadData, void **, const void *)                                                              \
        X(cuModuleGetFunction, void **, void *, const char *)                                                   \
        X(cuModuleUnload, void *)                                                                               \
        X(cuLaunchKernel, void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, \
                void **, void **)

struct load_cuda {
#define MEMBER(name, ...) int (*name)(__VA_ARGS__);
        CALLS(MEMBER)
#undef MEMBER
        char *image;
        void *context, *stream, *event, *module, *function, *pinned;
        uint64_t memory;
        int initialised, primary, lives;
};

struct load_cuda *load_cuda_new(const char *build)
{
        struct load_cuda *c = calloc(1, sizeof(*c));
        char path[300];
        void *library;

        snprintf(path, sizeof(path), "%s/cuda/libcuda.so.1", build);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!c || !library) {
                fprintf(stderr, "%s\n", dlerror());
                exit(3);
        }
#define FIND(name, ...) c->name = (int (*)(__VA_ARGS__))dlsym(library, #name);
        CALLS(FIND)
#undef FIND
        snprintf(path, sizeof(path), "%s/e2e/death.ptx", build);
        c->image = h_read_file(path, NULL);
        return c;
}

#define TRY(load, call)                       \
        do {                                  \
                const int try_error = (call); \
                (load)->what = #call;         \
                if (try_error)                \
                        return try_error;     \
        } while (0)

static int make_context(struct load *l)
{
        struct load_cuda *c = l->cuda;

        c->primary = c->lives++ & 1;
        /* cuInit is not needed again: making a context connects as well */
        if (!c->initialised || c->lives % 4 == 0)
                TRY(l, c->cuInit(0));
        c->initialised = 1;
        if (!c->primary)
                return c->cuCtxCreate_v2(&c->context, 0, 0);
        TRY(l, c->cuDevicePrimaryCtxRetain(&c->context, 0));
        return c->cuCtxSetCurrent(c->context);
}

/* Destroys the dead context before the next one is made. */
static void drop_context(struct load_cuda *c)
{
        if (!c->context)
                return;
        if (c->primary)
                c->cuDevicePrimaryCtxReset_v2(0);
        else
                c->cuCtxDestroy_v2(c->context);
        c->context = NULL;
}

int load_cuda_open(struct load *l)
{
        struct load_cuda *c = l->cuda;

        drop_context(c);
        TRY(l, make_context(l));
        TRY(l, c->cuMemAlloc_v2(&c->memory, N * 4));
        TRY(l, c->cuMemAllocHost_v2(&c->pinned, 65536));
        memset(c->pinned, 1, 65536);
        TRY(l, c->cuStreamCreate(&c->stream, l->count & 1));
        TRY(l, c->cuEventCreate(&c->event, 0));
        TRY(l, c->cuModuleLoadData(&c->module, c->image));
        TRY(l, c->cuModuleGetFunction(&c->function, c->module, "fill"));
        return 0;
}

static int launch(struct load_cuda *c, uint32_t value)
{
        uint32_t n = N;
        void *params[] = {&c->memory, &n, &value};

        return c->cuLaunchKernel(c->function, N / 256, 1, 1, 256, 1, 1, 0, c->stream, params, NULL);
}

int load_cuda_step(struct load *l)
{
        struct load_cuda *c = l->cuda;
        uint32_t host[N], value = l->count++;

        TRY(l, launch(c, value));
        TRY(l, c->cuEventRecord(c->event, c->stream));
        TRY(l, c->cuEventSynchronize(c->event));
        TRY(l, c->cuStreamSynchronize(c->stream));
        TRY(l, c->cuMemcpyDtoH_v2(host, c->memory, sizeof(host)));
        for (uint32_t i = 0; i < N; i++)
                if (host[i] != value)
                        return LOAD_E_WRONG;
        return 0;
}

/* 1: these calls fail, as they do while a dead context is still current. */
static int context_is_dead(struct load_cuda *c)
{
        uint64_t memory;
        char bytes[64];

        return c->cuMemAlloc_v2(&memory, 64) && c->cuMemcpyDtoH_v2(bytes, c->memory, sizeof(bytes)) && launch(c, 1) &&
               c->cuStreamSynchronize(c->stream) && c->cuCtxSynchronize();
}

/* A daemon that stops in order refuses requests before it closes the connection. Until then a wait for work that has
 * ended may succeed. */
static int dies(struct load_cuda *c)
{
        const uint64_t end = h_now_ms() + DIES_MS;

        while (!context_is_dead(c)) {
                if (h_now_ms() >= end)
                        return 0;
                h_sleep_ms(1);
        }
        return 1;
}

int load_cuda_stale(struct load *l)
{
        struct load_cuda *c = l->cuda;
        void *p;
        int bad = 0;

        if (!c->context)
                return 0;
        bad |= !dies(c);
        drop_context(c);
        /* these calls fail after the context is destroyed */
        bad |= !c->cuMemFree_v2(c->memory) || !c->cuMemFreeHost(c->pinned) || !c->cuStreamSynchronize(c->stream);
        bad |= !c->cuStreamDestroy_v2(c->stream) || !c->cuEventRecord(c->event, NULL) || !launch(c, 2);
        bad |= !c->cuModuleUnload(c->module) || !c->cuModuleGetFunction(&p, c->module, "fill");
        l->what = "a stale handle";
        return bad ? LOAD_E_STALE : 0;
}
