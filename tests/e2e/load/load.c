/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/e2e/load/load.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/control.h"
#include "detshare/detshare.h"
#include "tests/e2e/harness.h"

#define N 1024u
#define THREADS 4
#define SPIN_ROUNDS 3000u
#define HELD_BYTES (3u << 20)

/* Stores the name of a call, for reports, and runs it; returns its error, if any, from the calling function. */
#define TRY(load, call)                       \
        do {                                  \
                (load)->what = #call;         \
                const int try_error = (call); \
                if (try_error)                \
                        return try_error;     \
        } while (0)

const char *load_name(enum load_kind kind)
{
        static const char *const names[LOAD_KINDS] = {"ring", "rpc", "wait", "sync", "sleep", "print", "idle", "images",
                "control", "half", "threads", "cuda", "steady"};

        return names[kind];
}

void load_init(struct load *load, enum load_kind kind, const char *build, uint64_t seed)
{
        *load = (struct load){.kind = kind, .build = build, .seed = seed | 1, .fd = -1, .what = "start"};
        setenv("DETSHARE_TRANSPORT", kind == LOAD_RPC || kind == LOAD_SYNC ? "rpc" : "ring", 1);
        if (kind == LOAD_CUDA)
                load->cuda = load_cuda_new(build);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

static int launch(struct load *l, uint32_t stream, const struct dsc_kernel *kernel, uint64_t p, uint32_t value)
{
        struct {
                uint64_t p;
                uint32_t n, value;
        } params = {p, N, value};
        const struct dsc_launch message = {.kernel = kernel->id,
                .grid = {kernel == &l->fill ? N / 256 : 1, 1, 1},
                .block = {kernel == &l->fill ? 256 : 32, 1, 1},
                .params = &params,
                .params_size = sizeof(params)};

        return dsc_launch(l->s, stream, &message);
}

/* The tests' kernels. unlike: makes the image unique, so that it is in no cache. */
static int load_image(struct load *l, uint64_t unlike, uint64_t *ret)
{
        char path[300], *text, *image;
        size_t size;
        int r, n;

        snprintf(path, sizeof(path), "%s/e2e/death.ptx", l->build);
        text = h_read_file(path, &size);
        image = malloc(size + 64);
        if (!image)
                return 2;
        n = snprintf(image, size + 64, "%s\n// %llx\n", text, (unsigned long long)unlike);
        r = dsc_module_load(l->s, image, (size_t)n + 1, NULL, 0, ret);
        free(image);
        free(text);
        return r;
}

static int open_kernels(struct load *l)
{
        TRY(l, load_image(l, 0, &l->module));
        TRY(l, dsc_kernel_get(l->s, l->module, "fill", &l->fill));
        TRY(l, dsc_kernel_get(l->s, l->module, "spin", &l->spin));
        TRY(l, dsc_kernel_get(l->s, l->module, "say", &l->say));
        TRY(l, dsc_mem_alloc(l->s, N * 4, &l->memory));
        return 0;
}

static int hold_much(struct load *l)
{
        TRY(l, dsc_mem_alloc(l->s, HELD_BYTES, &l->more));
        TRY(l, dsc_host_alloc(l->s, HELD_BYTES, &l->pinned));
        memset(l->pinned, 1, 4096);
        for (int i = 0; i < 3; i++)
                TRY(l, dsc_stream_create(l->s, 0, i & 1, &l->streams[i]));
        return 0;
}

static int open_session(struct load *l)
{
        int r = 0;

        dsc_kernel_clear(&l->fill);
        dsc_kernel_clear(&l->spin);
        dsc_kernel_clear(&l->say);
        l->s = dsc_renew(NULL, &r);
        if (!l->s)
                return r;
        TRY(l, open_kernels(l));
        return l->kind == LOAD_IDLE ? hold_much(l) : 0;
}

int load_open(struct load *l)
{
        l->what = "open";
        if (l->kind == LOAD_CUDA)
                return load_cuda_open(l);
        if (l->kind == LOAD_HALF) {
                if (l->fd >= 0)
                        close(l->fd);
                l->fd = h_hello(1, NULL, NULL);
                return l->fd < 0 ? 999 : 0;
        }
        return l->kind == LOAD_CONTROL ? 0 : open_session(l);
}

int load_daemon_gone(struct load *l, int error)
{
        if (l->kind == LOAD_CONTROL || l->kind == LOAD_HALF || l->kind == LOAD_CUDA)
                return error == 999 || error == 100;
        return error > 0 && (!l->s || dsc_lost(l->s));
}

void load_reset(struct load *l)
{
        if (l->kind != LOAD_CONTROL && l->kind != LOAD_HALF && l->kind != LOAD_CUDA && l->s)
                (void)dsc_reset(l->s);
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static int ring_work(struct load *l, uint32_t value, uint64_t *p, uint64_t *q, uint32_t *stream)
{
        uint32_t host[N];
        void *pinned;

        TRY(l, dsc_mem_alloc(l->s, N * 4, p));
        TRY(l, dsc_mem_alloc(l->s, 2u << 20, q));
        TRY(l, dsc_host_alloc(l->s, 65536, &pinned));
        TRY(l, dsc_stream_create(l->s, 0, 1, stream));
        for (uint32_t i = 0; i < 4; i++)
                TRY(l, launch(l, *stream, &l->fill, *p, value + i));
        TRY(l, dsc_read(l->s, *stream, host, 0, *p, 0, sizeof(host), 1));
        for (uint32_t i = 0; i < N; i++)
                if (host[i] != value + 3)
                        return LOAD_E_WRONG;
        TRY(l, dsc_write(l->s, *stream, *p, 0, host, 0, sizeof(host), 1));
        TRY(l, dsc_host_free(l->s, pinned));
        return 0;
}

static int ring_step(struct load *l)
{
        uint64_t p, q, module;
        uint32_t stream;

        TRY(l, ring_work(l, (uint32_t)h_random(&l->seed), &p, &q, &stream));
        if (l->count++ % 4 == 0) {
                TRY(l, load_image(l, 0, &module));
                TRY(l, dsc_module_unload(l->s, module));
        }
        TRY(l, dsc_stream_destroy(l->s, stream));
        TRY(l, dsc_mem_free(l->s, q));
        TRY(l, dsc_mem_free(l->s, p));
        return 0;
}

static int steady_step(struct load *l)
{
        uint32_t host[N], value = (uint32_t)h_random(&l->seed);

        TRY(l, launch(l, 0, &l->fill, l->memory, value));
        TRY(l, dsc_read(l->s, 0, host, 0, l->memory, 0, sizeof(host), 1));
        for (uint32_t i = 0; i < N; i++)
                if (host[i] != value)
                        return LOAD_E_WRONG;
        return 0;
}

static int wait_step(struct load *l)
{
        TRY(l, launch(l, 0, &l->spin, l->memory, SPIN_ROUNDS));
        TRY(l, dsc_wait(l->s, 0, dsc_stream_tail(l->s, 0)));
        return 0;
}

static int print_step(struct load *l)
{
        TRY(l, launch(l, 0, &l->say, l->memory, l->count++));
        TRY(l, dsc_wait_all(l->s));
        return 0;
}

static int idle_step(struct load *l)
{
        usleep(2000);
        TRY(l, dsc_query(l->s, l->streams[0], dsc_stream_tail(l->s, l->streams[0])));
        if (l->count++ % 16 == 0)
                TRY(l, dsc_copy(l->s, l->streams[1],
                               &(struct dsc_copy){.kind = DSC_HTOD,
                                       .dst = l->more,
                                       .src = (uintptr_t)l->pinned,
                                       .width = 65536,
                                       .height = 1}));
        return 0;
}

static int images_step(struct load *l)
{
        uint64_t module;

        TRY(l, load_image(l, h_random(&l->seed), &module));
        TRY(l, dsc_module_unload(l->s, module));
        return 0;
}

static int sleep_step(struct load *l)
{
        uint64_t now;

        TRY(l, detshare_now(&now) ? 999 : 0);
        TRY(l, detshare_sleep_until(now + 1000000) ? 999 : 0);
        return 0;
}

static int control_step(struct load *l)
{
        dsc_session *s = NULL;
        struct dsc_status status;
        int r;

        TRY(l, dsc_control_open(NULL, 0, &s));
        r = dsc_control_status(s, &status);
        dsc_control_close(s);
        l->what = "status";
        return r;
}

static int half_step(struct load *l)
{
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        Detshare__Ping ping = DETSHARE__PING__INIT;
        uint8_t frame[68] = {0}, *payload;
        size_t size;

        request.id = ++l->count;
        request.call_case = DETSHARE__REQUEST__CALL_PING;
        request.ping = &ping;
        size = detshare__request__pack(&request, frame + 4);
        frame[0] = (uint8_t)size;
        l->what = "half a frame";
        if (write(l->fd, frame, 4 + size / 2) < 0)
                return 999;
        usleep((useconds_t)(h_random(&l->seed) % 2000));
        if (write(l->fd, frame + 4 + size / 2, size - size / 2) < 0)
                return 999;
        payload = h_receive(l->fd, 15000, &size, NULL);
        free(payload);
        return payload ? 0 : 999;
}

static void *thread_main(void *arg)
{
        struct load l = *(const struct load *)arg;
        uint64_t r = 0;

        for (int i = 0; i < 4 && !r; i++)
                r = (uint64_t)(int64_t)ring_step(&l);
        return (void *)(uintptr_t)r;
}

static int threads_step(struct load *l)
{
        struct load each[THREADS];
        pthread_t threads[THREADS];
        int error = 0, n = 0;

        l->what = "threads";
        for (; n < THREADS; n++) {
                each[n] = *l;
                each[n].seed = h_random(&l->seed);
                if (pthread_create(&threads[n], NULL, thread_main, &each[n]))
                        break;
        }
        for (int i = 0; i < n; i++) {
                void *result;

                pthread_join(threads[i], &result);
                error = result ? (int)(intptr_t)result : error;
        }
        return n < THREADS ? LOAD_E_WRONG : error;
}

int load_step(struct load *l)
{
        switch (l->kind) {
        case LOAD_RING:
        case LOAD_RPC:
                return ring_step(l);
        case LOAD_WAIT:
        case LOAD_SYNC:
                return wait_step(l);
        case LOAD_SLEEP:
                return sleep_step(l);
        case LOAD_PRINT:
                return print_step(l);
        case LOAD_IDLE:
                return idle_step(l);
        case LOAD_IMAGES:
                return images_step(l);
        case LOAD_CONTROL:
                return control_step(l);
        case LOAD_HALF:
                return half_step(l);
        case LOAD_THREADS:
                return threads_step(l);
        case LOAD_CUDA:
                return load_cuda_step(l);
        case LOAD_STEADY:
                return steady_step(l);
        case LOAD_KINDS:
                break;
        }
        return LOAD_E_WRONG;
}
