/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker in the test's own process and thread, and the supervisor's end of its connection
 *
 * Nothing waits for real time except for kernels that the simulated device executes on its threads. The worker's real
 * clock is `wt_wall`, which only the test moves. One binary includes this file once.
 */
#pragma once

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "internal.pb-c.h"
#include "proto/wire.h"
#include "sched/sched.h"
#include "tests/gpu/device_common.h"
#include "util/alloc.h"
#include "util/frame.h"
#include "util/log.h"
#include "util/macro.h"
#include "worker/worker.h"

#define WT_WINDOW UINT64_C(0x300000000000)
#define WT_WINDOW_BYTES DS_GIB(8)
#define WT_STASH 256
#ifndef WT_TURNS
#define WT_TURNS 20000
#endif
#ifndef WT_WAIT_S
#define WT_WAIT_S 20.0
#endif

typedef Detshare__Internal__FromWorker wt_answer;
typedef Detshare__Internal__ToWorker wt_message;
typedef Detshare__Request wt_request;

static uint64_t wt_wall = DS_NS_PER_S;
static uint64_t wt_life = 100;
/* calls of a device that is named without "sim:"; NULL: the device's own calls */
static const struct ds_device_ops *wt_ops;
ds_unused static uint64_t wt_kernel_ns;
static uint64_t wt_pool_bytes;    /* size of the pool of coloured memory, bytes */
static uint64_t wt_tick;          /* ns by which wt_wall advances at each reading */
ds_unused static uint32_t wt_uid; /* uid of the clients that connect */

struct wt_client {
        uint64_t id;
        int page_fd, ring_fd, event_fd;
        struct ds_completion_page *page;
        uint8_t *ring;
        uint64_t tail;
};

struct wt {
        ds_worker *worker;
        ds_conn *conn;
        uint64_t next_id;
        wt_answer *stash[WT_STASH]; /* answers that the test has not taken yet */
        int fds[WT_STASH][4];
        size_t n_stash;
        int done;
        int last_fds[4]; /* descriptors of the last returned answer; the next answer closes them */
};

static uint64_t wt_wall_ns(void)
{
        return wt_wall += wt_tick;
}

ds_unused static struct wt *wt_open_policy(const char *device, const char *policy, const char *policy_dir)
{
        struct wt *t = calloc(1, sizeof(*t));
        struct ds_worker_config config = {
                .signal_fd = -1,
                .device = device,
                .policy = policy,
                .policy_dir = policy_dir,
                .wall_ns = wt_wall_ns,
                .life = wt_life++,
                .ops = wt_ops,
                .kernel_ns = wt_kernel_ns,
                .pool_bytes = wt_pool_bytes,
                .pool_be = "1/3",
                .trust_any_owner = 1,
        };
        int pair[2];

        for (int i = 0; i < 4; i++)
                t->last_fds[i] = -1;
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        config.fd = pair[1];
        cr_assert_eq(ds_conn_new(pair[0], DS_WORKER_FRAME_MAX, (size_t)64 << 20, &t->conn), 0);
        cr_assert_eq(ds_worker_new(&config, &t->worker), 0);
        t->next_id = 1;
        return t;
}

/* The folder of policies, those of tests and all real ones: build/tests/unit/x becomes build/tests/policies. */
ds_unused static const char *wt_policies(void)
{
        static char path[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 16);

        cr_assert_gt(n, 0);
        path[n] = 0;
        *strrchr(path, '/') = 0;
        strcpy(strrchr(path, '/'), "/policies");
        return path;
}

ds_unused static struct wt *wt_open(const char *device)
{
        return wt_open_policy(device, "fifo", "");
}

static void wt_collect(struct wt *t)
{
        const uint8_t *payload;
        size_t size;
        int r;

        r = ds_conn_read(t->conn);
        cr_assert(r >= 0 || r == -ENOMEM);
        while (ds_conn_next(t->conn, &payload, &size) == 1) {
                wt_answer *answer = detshare__internal__from_worker__unpack(NULL, size, payload);

                cr_assert_not_null(answer);
                cr_assert_lt(t->n_stash, WT_STASH);
                for (int i = 0; i < 4; i++)
                        t->fds[t->n_stash][i] = -1;
                cr_assert_eq(ds_conn_take_fds(t->conn, t->fds[t->n_stash], answer->fds), 0);
                t->stash[t->n_stash++] = answer;
        }
}

ds_unused static void wt_turn(struct wt *t, int timeout_ms)
{
        int r;

        if (t->done)
                return;
        r = ds_worker_turn(t->worker, timeout_ms);
        cr_assert(r == 0 || r == DS_WORKER_E_DONE, "turn: %d", r);
        t->done = r == DS_WORKER_E_DONE;
        wt_collect(t);
}

/* Runs rounds of the worker until nothing seems to be left to do. */
ds_unused static void wt_settle(struct wt *t)
{
        for (int i = 0; i < 20; i++)
                wt_turn(t, 0);
}

/* Takes the answer with that id if it has come; NULL otherwise. The caller frees it; its descriptors are in
 * t->last_fds. */
ds_unused static wt_answer *wt_take(struct wt *t, uint64_t id)
{
        for (size_t i = 0; i < t->n_stash; i++) {
                wt_answer *answer = t->stash[i];

                if (answer->id != id)
                        continue;
                for (int f = 0; f < 4; f++) {
                        ds_close(t->last_fds[f]);
                        t->last_fds[f] = t->fds[i][f];
                }
                t->n_stash--;
                memmove(&t->stash[i], &t->stash[i + 1], (t->n_stash - i) * sizeof(t->stash[0]));
                memmove(&t->fds[i], &t->fds[i + 1], (t->n_stash - i) * sizeof(t->fds[0]));
                return answer;
        }
        return NULL;
}

ds_unused static void wt_free(wt_answer *answer)
{
        detshare__internal__from_worker__free_unpacked(answer, NULL);
}

/* Seconds on the machine's clock, for waits on another thread that has had no processor yet. */
ds_unused static double wt_machine_s(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

ds_unused static wt_answer *wt_wait(struct wt *t, uint64_t id)
{
        double until = wt_machine_s() + WT_WAIT_S;

        for (int i = 0; i < WT_TURNS || wt_machine_s() < until; i++) {
                wt_answer *answer = wt_take(t, id);

                if (answer)
                        return answer;
                cr_assert(!t->done, "the worker has ended");
                wt_turn(t, i < 100 ? 0 : 5);
        }
        cr_assert_fail("no answer to message %llu", (unsigned long long)id);
        return NULL;
}

/* Sends a request without waiting; wt_wait takes the answer. */
ds_unused static uint64_t wt_send(struct wt *t, wt_message *message, const int *fds, uint32_t n_fds)
{
        size_t size;
        uint8_t *packed;

        message->id = t->next_id++;
        message->fds = n_fds;
        size = detshare__internal__to_worker__get_packed_size(message);
        packed = malloc(size);
        detshare__internal__to_worker__pack(message, packed);
        cr_assert_eq(ds_conn_send(t->conn, packed, size, fds, n_fds), 0);
        free(packed);
        return message->id;
}

ds_unused static int wt_status(struct wt *t, uint64_t id)
{
        wt_answer *answer = wt_wait(t, id);
        int status = answer->status;

        if (status)
                fprintf(stderr, "  answer %d: %s\n", status,
                        answer->reply && answer->reply->message ? answer->reply->message : answer->message);
        wt_free(answer);
        return status;
}

ds_unused static void wt_set_policy(struct wt *t, char *name)
{
        Detshare__SetPolicy set = DETSHARE__SET_POLICY__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;

        set.name = name;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SET_POLICY;
        message.set_policy = &set;
        cr_assert_eq(wt_status(t, wt_send(t, &message, NULL, 0)), 0, "%s", name);
}

ds_unused static void wt_close(struct wt *t)
{
        t->worker = ds_worker_free(t->worker);
        t->conn = ds_conn_free(t->conn);
        for (size_t i = 0; i < t->n_stash; i++) {
                wt_free(t->stash[i]);
                for (int f = 0; f < 4; f++)
                        ds_close(t->fds[i][f]);
        }
        for (int f = 0; f < 4; f++)
                ds_close(t->last_fds[f]);
        free(t);
}

/* --- sessions ----------------------------------------------------------------------------------------------------- */

static int wt_shared(const char *name, size_t bytes, void **ret)
{
        int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

        cr_assert(fd >= 0);
        cr_assert_eq(ftruncate(fd, (off_t)bytes), 0);
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
        *ret = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        cr_assert_neq(*ret, MAP_FAILED);
        return fd;
}

ds_unused static struct wt_client wt_client_of(struct wt *t, uint64_t id, Detshare__Class class_, uint32_t uid)
{
        Detshare__Internal__SessionOpen open = DETSHARE__INTERNAL__SESSION_OPEN__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        struct wt_client client = {.id = id, .ring_fd = -1, .event_fd = -1};
        void *page;

        client.page_fd = wt_shared("page", DS_PAGE_BYTES, &page);
        client.page = page;
        open.session = id;
        open.window_base = WT_WINDOW + id * WT_WINDOW_BYTES;
        open.window_bytes = WT_WINDOW_BYTES;
        open.class_ = class_;
        open.name = (char *)(uintptr_t) "test";
        open.uid = uid;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_OPEN;
        message.open = &open;
        cr_assert_eq(wt_status(t, wt_send(t, &message, &client.page_fd, 1)), 0);
        return client;
}

ds_unused static struct wt_client wt_client(struct wt *t, uint64_t id, Detshare__Class class_)
{
        return wt_client_of(t, id, class_, wt_uid);
}

ds_unused static void wt_attach(struct wt *t, struct wt_client *client)
{
        Detshare__Internal__SessionAttach attach = DETSHARE__INTERNAL__SESSION_ATTACH__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        void *ring;
        int fds[2];

        client->ring_fd = wt_shared("ring", DS_RING_BYTES, &ring);
        client->ring = ring;
        client->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        client->tail = 0;
        fds[0] = client->ring_fd;
        fds[1] = client->event_fd;
        attach.session = client->id;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_ATTACH;
        message.attach = &attach;
        cr_assert_eq(wt_status(t, wt_send(t, &message, fds, 2)), 0);
}

ds_unused static void wt_client_unmap(struct wt_client *client)
{
        munmap(client->page, DS_PAGE_BYTES);
        if (client->ring)
                munmap(client->ring, DS_RING_BYTES);
        close(client->page_fd);
        ds_close(client->ring_fd);
        ds_close(client->event_fd);
}

ds_unused static uint64_t wt_send_close(struct wt *t, struct wt_client *client)
{
        Detshare__Internal__SessionClose close_ = DETSHARE__INTERNAL__SESSION_CLOSE__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;

        close_.session = client->id;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_CLOSE;
        message.close = &close_;
        return wt_send(t, &message, NULL, 0);
}

ds_unused static void wt_client_close(struct wt *t, struct wt_client *client)
{
        cr_assert_eq(wt_status(t, wt_send_close(t, client)), 0);
        wt_client_unmap(client);
}

/* --- allocations that fail: success is not asserted --------------------------------------------------------------- */

static struct wt_client wt_last;

/* Opens a worker whose n-th allocation fails; t->worker is NULL if the worker cannot do without it. */
ds_unused static struct wt *wt_open_unchecked(const char *device, int64_t n)
{
        struct wt *t = calloc(1, sizeof(*t));
        struct ds_worker_config config = {.signal_fd = -1,
                .device = device,
                .policy = "fifo",
                .policy_dir = "",
                .wall_ns = wt_wall_ns,
                .life = wt_life++};
        int pair[2];

        for (int i = 0; i < 4; i++)
                t->last_fds[i] = -1;
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        cr_assert_eq(ds_conn_new(pair[0], DS_WORKER_FRAME_MAX, (size_t)64 << 20, &t->conn), 0);
        config.fd = pair[1];
        t->next_id = 1;
        ds_alloc_fail_after(n);
        if (ds_worker_new(&config, &t->worker))
                cr_assert_null(t->worker);
        return t;
}

/* Runs n rounds. Returns -1 if the worker has ended. */
ds_unused static int wt_turns_unchecked(struct wt *t, int n)
{
        for (int i = 0; i < n; i++) {
                if (ds_worker_turn(t->worker, 0))
                        return -1;
                wt_collect(t);
        }
        return 0;
}

ds_unused static struct wt_client wt_client_unchecked(struct wt *t, uint64_t id)
{
        Detshare__Internal__SessionOpen open = DETSHARE__INTERNAL__SESSION_OPEN__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        void *page;

        wt_last = (struct wt_client){.id = id, .ring_fd = -1, .event_fd = -1};
        wt_last.page_fd = wt_shared("page", DS_PAGE_BYTES, &page);
        wt_last.page = page;
        open.session = id;
        open.window_base = WT_WINDOW + id * WT_WINDOW_BYTES;
        open.window_bytes = WT_WINDOW_BYTES;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_OPEN;
        message.open = &open;
        wt_send(t, &message, &wt_last.page_fd, 1);
        return wt_last;
}

ds_unused static void wt_client_unmap_last(void)
{
        if (wt_last.page)
                wt_client_unmap(&wt_last);
        wt_last = (struct wt_client){.ring_fd = -1};
}

ds_unused static void wt_take_all(struct wt *t)
{
        while (t->n_stash)
                wt_free(wt_take(t, t->stash[0]->id));
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

ds_unused static uint64_t wt_send_call_fd(struct wt *t, struct wt_client *client, wt_request *request, int fd)
{
        Detshare__Internal__Call call = DETSHARE__INTERNAL__CALL__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;

        request->id = 1000 + t->next_id;
        request->ring_tail = client->tail;
        call.session = client->id;
        call.request = request;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_CALL;
        message.call = &call;
        return wt_send(t, &message, &fd, fd >= 0);
}

ds_unused static uint64_t wt_send_call(struct wt *t, struct wt_client *client, wt_request *request)
{
        return wt_send_call_fd(t, client, request, -1);
}

ds_unused static wt_answer *wt_call(struct wt *t, struct wt_client *client, wt_request *request)
{
        uint64_t id = wt_send_call(t, client, request);
        wt_answer *answer = wt_wait(t, id);

        cr_assert_eq(answer->body_case, DETSHARE__INTERNAL__FROM_WORKER__BODY_REPLY);
        cr_assert_eq(answer->reply->id, request->id);
        cr_assert_eq(answer->reply->status, answer->status);
        return answer;
}

ds_unused static int wt_call_status(struct wt *t, struct wt_client *client, wt_request *request)
{
        return wt_status(t, wt_send_call(t, client, request));
}

/* Declares a request, for example WT_REQUEST(r, SYNC, sync, Sync, SYNC, .stream = 1) the request `r`. */
#define WT_REQUEST(var, CASE, field, type, INIT_NAME, ...)           \
        Detshare__##type var##_body = DETSHARE__##INIT_NAME##__INIT; \
        wt_request var = DETSHARE__REQUEST__INIT;                    \
        do {                                                         \
                Detshare__##type var##_values = {__VA_ARGS__};       \
                var##_values.base = var##_body.base;                 \
                var##_body = var##_values;                           \
                var.call_case = DETSHARE__REQUEST__CALL_##CASE;      \
                var.field = &var##_body;                             \
        } while (0)

ds_unused static int wt_alloc(struct wt *t, struct wt_client *client, uint64_t bytes, uint64_t *ret)
{
        WT_REQUEST(request, MEM_ALLOC, mem_alloc, MemAlloc, MEM_ALLOC, .bytes = bytes);
        wt_answer *answer = wt_call(t, client, &request);
        int status = answer->status;

        if (!status)
                *ret = answer->reply->mem_alloc->address;
        wt_free(answer);
        return status;
}

ds_unused static int wt_mem_free(struct wt *t, struct wt_client *client, uint64_t address)
{
        WT_REQUEST(request, MEM_FREE, mem_free, MemFree, MEM_FREE, .address = address);

        return wt_call_status(t, client, &request);
}

ds_unused static int wt_write(struct wt *t, struct wt_client *client, uint64_t dst, const void *data, size_t size)
{
        WT_REQUEST(request, WRITE, write, Write, WRITE, .dst = dst);

        request_body.data.data = (uint8_t *)(uintptr_t)data;
        request_body.data.len = size;
        return wt_call_status(t, client, &request);
}

ds_unused static int wt_read(struct wt *t, struct wt_client *client, void *dst, uint64_t src, size_t size)
{
        WT_REQUEST(request, READ, read, Read, READ, .src = src, .bytes = (uint32_t)size);
        wt_answer *answer = wt_call(t, client, &request);
        int status = answer->status;

        if (!status) {
                cr_assert_eq(answer->reply->read->data.len, size);
                memcpy(dst, answer->reply->read->data.data, size);
        }
        wt_free(answer);
        return status;
}

ds_unused static int wt_sync(struct wt *t, struct wt_client *client, uint32_t stream, uint64_t seq)
{
        WT_REQUEST(request, SYNC, sync, Sync, SYNC, .stream = stream, .seq = seq);

        return wt_call_status(t, client, &request);
}

ds_unused static int wt_sync_all(struct wt *t, struct wt_client *client)
{
        WT_REQUEST(request, SYNC, sync, Sync, SYNC, .all = 1);

        return wt_call_status(t, client, &request);
}

ds_unused static int wt_reset(struct wt *t, struct wt_client *client)
{
        WT_REQUEST(request, RESET_SESSION, reset_session, ResetSession, RESET_SESSION, .base = {0});

        return wt_call_status(t, client, &request);
}

ds_unused static int wt_image(const char *text)
{
        int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        cr_assert(fd >= 0);
        cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL), 0);
        return fd;
}

ds_unused static int wt_module(struct wt *t, struct wt_client *client, const char *text, uint64_t *ret)
{
        WT_REQUEST(request, MODULE_LOAD, module_load, ModuleLoad, MODULE_LOAD, .bytes = strlen(text));
        int fd = wt_image(text), status;
        wt_answer *answer = wt_wait(t, wt_send_call_fd(t, client, &request, fd));

        status = answer->status;
        if (!status)
                *ret = answer->reply->module_load->module;
        else
                fprintf(stderr, "  module: %s\n", answer->reply->message);
        wt_free(answer);
        close(fd);
        return status;
}

ds_unused static uint64_t wt_kernel(struct wt *t, struct wt_client *client, uint64_t module, const char *name)
{
        WT_REQUEST(request, GET_KERNEL, get_kernel, GetKernel, GET_KERNEL, .module = module,
                .name = (char *)(uintptr_t)name);
        wt_answer *answer = wt_call(t, client, &request);
        uint64_t kernel = answer->status ? 0 : answer->reply->get_kernel->kernel;

        wt_free(answer);
        return kernel;
}

ds_unused static int wt_stream(struct wt *t, struct wt_client *client, uint32_t *ret)
{
        WT_REQUEST(request, STREAM_CREATE, stream_create, StreamCreate, STREAM_CREATE, .non_blocking = 1);
        wt_answer *answer = wt_call(t, client, &request);
        int status = answer->status;

        if (!status)
                *ret = answer->reply->stream_create->stream;
        wt_free(answer);
        return status;
}

/* --- the ring ----------------------------------------------------------------------------------------------------- */

ds_unused static uint64_t wt_ring_room(const struct wt_client *client)
{
        return DS_RING_SLOTS - (client->tail - atomic_load(&client->page->head));
}

static void wt_publish(struct wt_client *client, uint64_t slots)
{
        struct ds_ring_header *header = (void *)client->ring;
        uint64_t one = 1;

        client->tail += slots;
        atomic_store(&header->tail, client->tail);
        if (atomic_load(&client->page->asleep))
                cr_assert_eq(write(client->event_fd, &one, sizeof(one)), sizeof(one));
}

/* Puts a record into the ring, with padding at its end; the ring must have room. */
ds_unused static void wt_push(struct wt_client *client, const void *record, uint32_t size)
{
        uint64_t slots = (size + DS_RING_SLOT - 1) / DS_RING_SLOT, at = client->tail & (DS_RING_SLOTS - 1);
        struct ds_record pad = {.type = DS_RECORD_PAD, .size = (uint32_t)((DS_RING_SLOTS - at) * DS_RING_SLOT)};

        if (slots > DS_RING_SLOTS - at) {
                memcpy(client->ring + DS_RING_HEADER + at * DS_RING_SLOT, &pad, sizeof(pad));
                wt_publish(client, DS_RING_SLOTS - at);
                at = 0;
        }
        memcpy(client->ring + DS_RING_HEADER + at * DS_RING_SLOT, record, size);
        wt_publish(client, slots);
}

ds_unused static void wt_push_launch(struct wt_client *client, uint32_t stream, uint64_t kernel, uint32_t grid,
        uint32_t block, const void *params, uint32_t params_size)
{
        uint8_t buffer[sizeof(struct ds_record_launch) + 4096];
        struct ds_record_launch launch = {
                .head = {DS_RECORD_LAUNCH, (uint16_t)stream, (uint32_t)sizeof(launch) + params_size},
                .kernel = kernel,
                .grid = {grid, 1, 1},
                .block = {block, 1, 1},
                .params_size = params_size,
        };

        memcpy(buffer, &launch, sizeof(launch));
        if (params_size)
                memcpy(buffer + sizeof(launch), params, params_size);
        wt_push(client, buffer, launch.head.size);
}

ds_unused static void wt_push_poke(
        struct wt_client *client, uint32_t stream, uint64_t kernel, uint64_t p, uint32_t value)
{
        struct dt_poke_params params = {.p = p, .value = value};

        wt_push_launch(client, stream, kernel, 1, 1, &params, 12);
}

ds_unused static void wt_push_event(struct wt_client *client, uint32_t stream, uint64_t event)
{
        struct ds_record_event record = {.head = {DS_RECORD_EVENT, (uint16_t)stream, sizeof(record)}, .event = event};

        wt_push(client, &record, sizeof(record));
}

ds_unused static void wt_push_wait(struct wt_client *client, uint32_t stream, uint32_t other, uint64_t seq)
{
        struct ds_record_wait record = {
                .head = {DS_RECORD_WAIT, (uint16_t)stream, sizeof(record)}, .other = other, .seq = seq};

        wt_push(client, &record, sizeof(record));
}

/* Devices: FUNCTIONAL where results matter, TIMING where only the flow matters. */
#ifdef WT_QUIESCE /* the same tests on a device that some calls stop, as they stop a GPU */
#define FUNCTIONAL "sim:h200+quiesce"
#define TIMING "sim:h200+timing+quiesce"
#else
#define FUNCTIONAL "sim:h200"
#define TIMING "sim:h200+timing"
#endif

static inline Detshare__Internal__WorkerStatsReply wt_worker_stats(struct wt *t)
{
        Detshare__Internal__WorkerStats ask = DETSHARE__INTERNAL__WORKER_STATS__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__WorkerStatsReply stats;
        wt_answer *answer;

        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_STATS;
        message.stats = &ask;
        answer = wt_wait(t, wt_send(t, &message, NULL, 0));
        cr_assert_eq(answer->body_case, DETSHARE__INTERNAL__FROM_WORKER__BODY_STATS);
        stats = *answer->stats;
        stats.policy = NULL;
        wt_free(answer);
        return stats;
}

static inline uint64_t wt_new_event(struct wt *t, struct wt_client *client)
{
        WT_REQUEST(request, EVENT_CREATE, event_create, EventCreate, EVENT_CREATE, .base = {0});
        wt_answer *answer = wt_call(t, client, &request);
        uint64_t event = answer->status ? 0 : answer->reply->event_create->event;

        wt_free(answer);
        return event;
}
