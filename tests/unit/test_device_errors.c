/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every device call fails, with each of thirteen errors, at its first, its second and a later use
 *
 * The simulated device with one replaced call runs under a whole worker. The worker does a bit of everything for a
 * client: memory, a module, work by ring and by request, limits, a reset. Whatever the device returns, the worker
 * answers every request or ends in order, and logs few lines. If it continues, it serves the next client and has kept
 * nothing of the first. If it ends, the supervisor would start another.
 */
#include "device/sim/sim.h"
#include "tests/unit/rounds.h"
#include "tests/unit/worker_harness.h"
#include "worker/internal.h"

#define LATER 4  /* number of a use that stands for all uses after the second */
#define TIMES 3  /* first, second, later */
#define LINES 40 /* log lines that one failure may cause */

static const int errors[] = {DS_CUDA_INVALID_VALUE, DS_CUDA_OUT_OF_MEMORY, DS_CUDA_NOT_INITIALIZED,
        DS_CUDA_INVALID_HANDLE, DS_CUDA_NOT_FOUND, DS_CUDA_NOT_READY, DS_CUDA_ILLEGAL_ADDRESS,
        DS_CUDA_LAUNCH_OUT_OF_RESOURCES, DS_CUDA_LAUNCH_FAILED, DS_CUDA_NOT_SUPPORTED, DS_CUDA_UNKNOWN, -EIO, -ENOMEM};

/* --- the device --------------------------------------------------------------------------------------------------- */

enum dev_call {
        DEV_OPEN,
        DEV_RUNG_CREATE,
        DEV_SPACE_ADD,
        DEV_SPACE_REMOVE,
        DEV_MEM_CREATE,
        DEV_MEM_MAP,
        DEV_MEM_UNMAP,
        DEV_HOST_MAP,
        DEV_HOST_UNMAP,
        DEV_MODULE_LOAD,
        DEV_GLOBAL_FIND,
        DEV_LIMIT_RAISE,
        DEV_LAUNCH,
        DEV_COPY,
        DEV_MEMSET,
        DEV_FENCE,
        DEV_POLL, /* the completion carries the error */
        _DEV_CALL_MAX,
};

static const char *const call_names[_DEV_CALL_MAX] = {"open", "rung_create", "space_add", "space_remove", "mem_create",
        "mem_map", "mem_unmap", "host_map", "host_unmap", "module_load", "global_find", "limit_raise", "launch", "copy",
        "memset", "fence", "poll"};

static struct {
        enum dev_call call;
        int error, at; /* number of the use that fails, counted from now on */
        int fired;
        int silent; /* 1: the device reports no completion */
        /* last requested stack limit, bytes; each request is for more, because the same value would raise nothing */
        uint64_t stack;
} dev;

/* Returns the error that the call must return without being made; 0: the call is made. */
static int refuse(enum dev_call call)
{
        if (call != dev.call || dev.at <= 0 || --dev.at)
                return 0;
        dev.fired = 1;
        return dev.error;
}

#define REFUSABLE(name, NAME, args, ...)                     \
        static int dev_##name args                           \
        {                                                    \
                int r = refuse(DEV_##NAME);                  \
                                                             \
                return r ? r : ds_sim_ops.name(__VA_ARGS__); \
        }
REFUSABLE(open, OPEN, (const char *spec, ds_device **ret), spec, ret)
REFUSABLE(rung_create, RUNG_CREATE, (ds_device * d, const struct ds_tpc_mask *mask, uint32_t *ret), d, mask, ret)
REFUSABLE(space_add, SPACE_ADD, (ds_device * d, uint32_t space), d, space)
REFUSABLE(mem_create, MEM_CREATE, (ds_device * d, uint64_t size, int *ret), d, size, ret)
REFUSABLE(mem_map, MEM_MAP, (ds_device * d, uint32_t space, int fd, uint64_t va, uint64_t n), d, space, fd, va, n)
REFUSABLE(host_map, HOST_MAP, (ds_device * d, uint32_t space, int fd, uint64_t va, uint64_t n), d, space, fd, va, n)
REFUSABLE(global_find, GLOBAL_FIND, (ds_device_module * m, const char *name, uint64_t *va, uint64_t *n), m, name, va, n)
REFUSABLE(limit_raise, LIMIT_RAISE, (ds_device * d, enum ds_device_limit limit, uint64_t n), d, limit, n)
REFUSABLE(launch, LAUNCH, (ds_device * d, const struct ds_launch *l, uint64_t token), d, l, token)
REFUSABLE(copy, COPY, (ds_device * d, const struct ds_copy *c, uint64_t token), d, c, token)
REFUSABLE(memset, MEMSET, (ds_device * d, const struct ds_memset *m, uint64_t token), d, m, token)
REFUSABLE(fence, FENCE, (ds_device * d, uint32_t from, uint32_t to), d, from, to)

/* A call that releases something does release it, and then returns the error. */
#define GIVES_BACK(name, NAME, args, ...)                \
        static int dev_##name args                       \
        {                                                \
                int r = refuse(DEV_##NAME);              \
                int done = ds_sim_ops.name(__VA_ARGS__); \
                                                         \
                return r ? r : done;                     \
        }
GIVES_BACK(space_remove, SPACE_REMOVE, (ds_device * d, uint32_t space), d, space)
GIVES_BACK(mem_unmap, MEM_UNMAP, (ds_device * d, uint32_t space, uint64_t va, uint64_t n), d, space, va, n)
GIVES_BACK(host_unmap, HOST_UNMAP, (ds_device * d, uint32_t space, uint64_t va, uint64_t n), d, space, va, n)

static int dev_module_load(ds_device *device, uint32_t space, const void *image, size_t size, char *log,
        size_t log_size, ds_device_module **ret)
{
        int r = refuse(DEV_MODULE_LOAD);

        if (!r)
                return ds_sim_ops.module_load(device, space, image, size, log, log_size, ret);
        snprintf(log, log_size, "no");
        return r;
}

static size_t dev_poll(ds_device *device, struct ds_completion *completions, size_t n)
{
        size_t got = dev.silent ? 0 : ds_sim_ops.poll(device, completions, n);

        for (size_t i = 0; i < got; i++) {
                int r = refuse(DEV_POLL);

                if (r)
                        completions[i].status = r < 0 ? DS_CUDA_UNKNOWN : r;
        }
        return got;
}

static struct ds_device_ops failing(void)
{
        struct ds_device_ops ops = ds_sim_ops;

        ops.open = dev_open;
        ops.rung_create = dev_rung_create;
        ops.space_add = dev_space_add;
        ops.space_remove = dev_space_remove;
        ops.mem_create = dev_mem_create;
        ops.mem_map = dev_mem_map;
        ops.mem_unmap = dev_mem_unmap;
        ops.host_map = dev_host_map;
        ops.host_unmap = dev_host_unmap;
        ops.module_load = dev_module_load;
        ops.global_find = dev_global_find;
        ops.limit_raise = dev_limit_raise;
        ops.launch = dev_launch;
        ops.copy = dev_copy;
        ops.memset = dev_memset;
        ops.fence = dev_fence;
        ops.poll = dev_poll;
        return ops;
}

/* --- a client whose requests may fail ----------------------------------------------------------------------------- */

/* Waits for a reply and returns its status; -1: the worker has ended. */
static int status_of(struct wt *t, uint64_t id, uint64_t *ret)
{
        double until = wt_machine_s() + WT_WAIT_S;

        for (int i = 0; wt_machine_s() < until; i++) {
                wt_answer *answer = wt_take(t, id);
                int status;

                if (answer) {
                        status = answer->status;
                        if (ret && answer->reply && answer->reply->mem_alloc &&
                                answer->reply->result_case == DETSHARE__REPLY__RESULT_MEM_ALLOC)
                                *ret = answer->reply->mem_alloc->address;
                        if (ret && answer->reply && answer->reply->result_case == DETSHARE__REPLY__RESULT_PINNED_ALLOC)
                                *ret = answer->reply->pinned_alloc->address;
                        if (ret && answer->reply && answer->reply->result_case == DETSHARE__REPLY__RESULT_MODULE_LOAD)
                                *ret = answer->reply->module_load->module;
                        if (ret && answer->reply && answer->reply->result_case == DETSHARE__REPLY__RESULT_GET_KERNEL)
                                *ret = answer->reply->get_kernel->kernel;
                        wt_free(answer);
                        return status;
                }
                if (t->done)
                        return -1;
                t->done = ds_worker_turn(t->worker, i < 100 ? 0 : 2) != 0;
                wt_collect(t);
        }
        cr_assert_fail("no answer to message %llu", (unsigned long long)id);
        return -1;
}

static int ask(struct wt *t, struct wt_client *client, wt_request *request, uint64_t *ret)
{
        return t->done ? -1 : status_of(t, wt_send_call(t, client, request), ret);
}

#define ASK(ret, CASE, field, type, INIT, ...)                             \
        ({                                                                 \
                WT_REQUEST(request, CASE, field, type, INIT, __VA_ARGS__); \
                ask(t, client, &request, ret);                             \
        })

struct held {
        uint64_t address, pinned, module, kernel, null;
};

static void acquire(struct wt *t, struct wt_client *client, struct held *held)
{
        WT_REQUEST(load, MODULE_LOAD, module_load, ModuleLoad, MODULE_LOAD, .bytes = strlen(DT_PTX));
        int image = wt_image(DT_PTX);

        ASK(&held->address, MEM_ALLOC, mem_alloc, MemAlloc, MEM_ALLOC, .bytes = DS_MIB(80));
        ASK(&held->pinned, PINNED_ALLOC, pinned_alloc, PinnedAlloc, PINNED_ALLOC, .bytes = 4096);
        if (!t->done)
                status_of(t, wt_send_call_fd(t, client, &load, image), &held->module);
        close(image);
        if (held->module) {
                ASK(&held->kernel, GET_KERNEL, get_kernel, GetKernel, GET_KERNEL, .module = held->module,
                        .name = (char *)"poke");
                ASK(&held->null, GET_KERNEL, get_kernel, GetKernel, GET_KERNEL, .module = held->module,
                        .name = (char *)"null");
                ASK(NULL, GET_GLOBAL, get_global, GetGlobal, GET_GLOBAL, .module = held->module, .name = (char *)"x");
        }
        ASK(NULL, STREAM_CREATE, stream_create, StreamCreate, STREAM_CREATE, .non_blocking = 1);
        ASK(NULL, SET_LIMIT, set_limit, SetLimit, SET_LIMIT, .limit = 0, .value = dev.stack += 1024);
}

/* Sets the session's share of the SMs. */
static void set_percent(struct wt *t, const struct wt_client *client, uint32_t percent)
{
        Detshare__Internal__SessionSet set = DETSHARE__INTERNAL__SESSION_SET__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;

        set.session = client->id;
        set.sm_percent = percent;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SET;
        message.set = &set;
        if (!t->done)
                status_of(t, wt_send(t, &message, NULL, 0), NULL);
}

/*
 * Launches kernels in one stream, and changes the session's share of the SMs between them. The device reports no
 * completion meanwhile: a kernel is in flight when the next one is launched on another rung, and the worker fences it.
 */
static void migrate(struct wt *t, struct wt_client *client, const struct held *held, uint32_t stream)
{
        if (!held->null || dev.call != DEV_FENCE)
                return;
        dev.silent = 1;
        wt_push_launch(client, stream, held->null, 1, 32, NULL, 0);
        t->done = wt_turns_unchecked(t, 4) != 0;
        for (uint32_t percent = 50; percent <= 100 && !t->done; percent += 50) {
                set_percent(t, client, percent);
                wt_push_launch(client, stream, held->null, 1, 32, NULL, 0);
                t->done = t->done || wt_turns_unchecked(t, 4) != 0;
        }
        dev.silent = 0;
}

/* Runs work by the ring and by requests, on two streams. */
static void work(struct wt *t, struct wt_client *client, const struct held *held)
{
        uint8_t data[64] = {1};

        for (int i = 0; i < LATER && !t->done; i++) {
                if (held->kernel && held->address)
                        wt_push_poke(client, (uint32_t)i % 2, held->kernel, held->address, 7);
                migrate(t, client, held, (uint32_t)i % 2);
                if (!held->address)
                        continue;
                ASK(NULL, WRITE, write, Write, WRITE, .dst = held->address, .data = {sizeof(data), data});
                ASK(NULL, READ, read, Read, READ, .src = held->address, .bytes = 8);
                ASK(NULL, COPY, copy, Copy, COPY, .dst = held->address, .src = held->address + 512,
                        .kind = DS_COPY_DTOD, .width = 64, .height = 1);
                ASK(NULL, MEMSET, memset, Memset, MEMSET, .dst = held->address, .value = 1, .element_size = 1,
                        .width = 64, .height = 1, .stream = 1);
        }
        ASK(NULL, SYNC, sync, Sync, SYNC, .all = 1);
}

static void release(struct wt *t, struct wt_client *client, struct held *held)
{
        if (held->address)
                ASK(NULL, MEM_FREE, mem_free, MemFree, MEM_FREE, .address = held->address);
        if (held->pinned)
                ASK(NULL, PINNED_FREE, pinned_free, PinnedFree, PINNED_FREE, .address = held->pinned);
        if (held->module)
                ASK(NULL, MODULE_UNLOAD, module_unload, ModuleUnload, MODULE_UNLOAD, .module = held->module);
        ASK(NULL, RESET_SESSION, reset_session, ResetSession, RESET_SESSION, .base = {0});
        *held = (struct held){0};
}

/* Runs one client's life: open, allocate, work, free a part, close with the rest. */
static void life(struct wt *t, uint64_t id)
{
        struct wt_client client = wt_client_unchecked(t, id);
        struct held held = {0};

        if (status_of(t, t->next_id - 1, NULL) == 0)
                wt_attach(t, &wt_last);
        client = wt_last;
        for (int round = 0; round < 2 && client.ring && !t->done; round++) {
                acquire(t, &client, &held);
                work(t, &client, &held);
                if (round % 2 == 0)
                        release(t, &client, &held);
                held = (struct held){0};
        }
        if (!t->done)
                status_of(t, wt_send_close(t, &client), NULL);
        wt_client_unmap(&client);
        wt_last = (struct wt_client){.ring_fd = -1};
}

/* --- the sweep ---------------------------------------------------------------------------------------------------- */

static struct wt *open_failing(const struct ds_device_ops *ops)
{
        struct wt *t = calloc(1, sizeof(*t));
        struct ds_worker_config config = {.signal_fd = -1,
                .device = "h200+timing",
                .policy = "fifo",
                .policy_dir = "",
                .wall_ns = wt_wall_ns,
                .life = wt_life++,
                .ops = ops};
        int pair[2];

        for (int i = 0; i < 4; i++)
                t->last_fds[i] = -1;
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        cr_assert_eq(ds_conn_new(pair[0], DS_WORKER_FRAME_MAX, (size_t)64 << 20, &t->conn), 0);
        config.fd = pair[1];
        t->next_id = 1;
        t->done = ds_worker_new(&config, &t->worker) != 0;
        return t;
}

static unsigned lines_of(int log)
{
        unsigned lines = 0;
        char text[4096];
        ssize_t n;

        lseek(log, 0, SEEK_SET);
        while ((n = read(log, text, sizeof(text))) > 0)
                for (ssize_t i = 0; i < n; i++)
                        lines += text[i] == '\n';
        return lines;
}

/* Runs the worker while one call fails. Returns 1 if the worker continued, 0 if it ended. */
static int fail_once(enum dev_call call, int error, int at)
{
        struct ds_device_ops ops = failing();
        int log = memfd_create("log", MFD_CLOEXEC), went_on;
        struct wt *t;

        ds_log_to(log);
        dev.call = call;
        dev.error = error;
        dev.at = at;
        dev.fired = 0;
        dev.stack = 4096;
        t = open_failing(&ops);
        for (uint64_t id = 10; id < 10 + LATER && !t->done; id++)
                life(t, id);
        went_on = !t->done;
        dev.at = 0;
        if (went_on) {
                struct wt_client client = wt_client(t, 2, DETSHARE__CLASS__BE);
                struct held held = {0};

                wt_attach(t, &client);
                acquire(t, &client, &held);
                cr_assert(held.address && held.pinned && held.kernel, "after %s %d: %d", call_names[call], at, error);
                work(t, &client, &held);
                cr_assert_eq(atomic_load(&client.page->error), 0);
                release(t, &client, &held);
                wt_client_close(t, &client);
                cr_assert_eq(wt_worker_stats(t).memory_slabs, 0, "after %s %d: %d", call_names[call], at, error);
                cr_assert_eq(wt_worker_stats(t).sessions, 0);
        }
        wt_close(t);
        ds_log_to(STDERR_FILENO);
        cr_assert_leq(lines_of(log), LINES, "%s %d: %d: %u lines", call_names[call], at, error, lines_of(log));
        close(log);
        return went_on;
}

static void sweep(enum dev_call call)
{
        static const int at[TIMES] = {1, 2, LATER};
        const int whole = rounds_are_all();
        const size_t turn = (size_t)getpid();
        int fired = 0, went_on = 0, n = 0, due = 0;

        for (size_t e = 0; e < DS_ARRAY_SIZE(errors); e++) {
                for (int i = 0; i < TIMES; i++) {
                        int on;

                        /* a short run tries each error at one of the three uses, and each use with at least one
                         * error */
                        if (!whole && (size_t)i != (e + turn) % TIMES)
                                continue;
                        on = fail_once(call, errors[e], at[i]);

                        n++;
                        due += call != DEV_OPEN || i == 0; /* a worker opens its device once */
                        fired += dev.fired;
                        went_on += on;
                }
        }
        fprintf(stderr, "%s: %d failures of %d; the worker went on %d times\n", call_names[call], fired, n, went_on);
        cr_assert_eq(fired, due, "%s: %d of %d", call_names[call], fired, due);
}

#define SWEEP(name, NAME)                         \
        Test(device_errors, name, .timeout = 240) \
        {                                         \
                sweep(DEV_##NAME);                \
        }
SWEEP(open, OPEN)
SWEEP(rung_create, RUNG_CREATE)
SWEEP(space_add, SPACE_ADD)
SWEEP(space_remove, SPACE_REMOVE)
SWEEP(mem_create, MEM_CREATE)
SWEEP(mem_map, MEM_MAP)
SWEEP(mem_unmap, MEM_UNMAP)
SWEEP(host_map, HOST_MAP)
SWEEP(host_unmap, HOST_UNMAP)
SWEEP(module_load, MODULE_LOAD)
SWEEP(global_find, GLOBAL_FIND)
SWEEP(limit_raise, LIMIT_RAISE)
SWEEP(launch, LAUNCH)
SWEEP(copy, COPY)
SWEEP(memset, MEMSET)
SWEEP(fence, FENCE)
SWEEP(poll, POLL)
