/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A harness for tests of policies
 *
 * It runs a plug-in from build/policies under the real scheduler, on one of two devices with virtual time:
 * - scripted (ph_open): a kernel takes the time that its struct ph_kernel gives for its SMs. Streams do not disturb
 *   each other, unless a kernel states its cost to kernels beside it. For rules: which work goes where, and when.
 * - simulated (ph_open_sim): the timing model of an H200 divides SMs between kernels. For questions of latency.
 *
 * Clients submit requests of n kernels, at once or with gaps between them as a host-bound program does: now, at
 * intervals, or as a loop that keeps a number of kernels queued. The log lists everything that went to the device, in
 * order of launch. A test looks like this:
 *
 *      static struct ph_kernel small = {.name = "small", .blocks = 16, .block_ns = 2 * US};
 *      struct ph_client *ls, *be;
 *
 *      ph_open(66, "detshare", "starve_ms=20", NULL);
 *      ls = ph_ls(0);
 *      be = ph_be();
 *      ph_loop(be, &big, 4);
 *      ph_run(1 * MS);
 *      ph_request(ls, &small, 20);
 *      ph_run(2 * MS);
 *      cr_assert_eq(ph_last(be)->n_sms, 66);
 *      ph_close();
 *
 * One harness per process: Criterion runs every test in a process of its own.
 */
#pragma once

#include "device/sim/sim.h"
#include "tests/unit/sched_device.h"

#define US DS_NS_PER_US
#define MS DS_NS_PER_MS
#define PH_CLIENTS 64
#define PH_STREAMS 4
#define PH_KERNELS 32
#define PH_PARAMS 16
#define PH_LOG 262144u
#define PH_LATENCIES 8192u

struct ph_kernel {
        const char *name;                 /* without spaces */
        uint64_t key;                     /* identity; 0: derived from the name */
        uint32_t blocks, threads, per_sm; /* threads per block, 0: 256; resident blocks per SM, 0: 1 */
        uint64_t block_ns;                /* duration of one wave of blocks, ns */
        /* scripted: duration on n_sms SMs, ns; NULL: from the number of waves */
        uint64_t (*time)(const struct ph_kernel *kernel, uint32_t n_sms);
        /* scripted: slowdown of kernels that run beside it when it is launched, ns; NULL: none */
        uint64_t (*beside)(const struct ph_kernel *kernel, uint64_t alone_ns, uint32_t n_others);
        int all_resident;                   /* 1: cooperative, its blocks wait for each other */
        int idempotent;                     /* 1: proven idempotent */
        const struct ds_sched_forms *forms; /* scripted: its transformed forms; NULL: the native form only */
        ds_device_kernel device;
};

struct ph_log {
        const struct ph_kernel *kernel;
        const struct ph_client *client;
        uint32_t rung, n_sms, side, family; /* rung: position of the launch's SM count in the ladder */
        uint32_t priority, stream, max_resident_blocks;
        uint64_t submit_ns, launch_ns;
        uint64_t start_ns, end_ns; /* 0 until the kernel has ended */
        /* number of the client's request to which the launch belongs, from 1; 0: the launch belongs to the client's
         * loop */
        uint64_t request;
        uint32_t form; /* enum ds_ptx_form */
        int status;
};

/* A request whose kernels come with gaps: the kernels that are still to be submitted. */
struct ph_feed {
        const struct ph_kernel *kernel;
        uint32_t left;
        uint64_t gap_ns, next_ns;
};

struct ph_client {
        ds_sched_session *session;
        ds_coroutine *stream[PH_STREAMS]; /* requests and loops use the first stream; ph_submit may use the others */
        uint64_t id;
        enum detshare_class class_;
        const struct ph_kernel *loop; /* NULL: no loop */
        /* gap between the kernels of a request, us; 0: all at once; set it before ph_request */
        uint32_t gap_us;
        struct ph_feed feed;
        struct { /* state of ph_every, which submits requests at intervals */
                const struct ph_kernel *kernel;
                uint32_t n, left;
                uint64_t period_ns, next_ns;
        } every;
        uint64_t requests, request_begin_ns; /* begin of the request that is being submitted or runs */
        uint32_t request_left;               /* kernels of that request that have not ended */
        /* requests that arrived while another request of this client was running */
        uint32_t backlog;
        uint64_t backlog_ns[1024];
        const struct ph_kernel *backlog_kernel[1024];
        uint32_t backlog_n[1024];
        uint64_t latency[PH_LATENCIES]; /* latencies of requests, from arrival to the end of the last kernel, ns */
        uint32_t n_latency;
        uint64_t ended, device_ns; /* operations that ended, and their device time, ns */
        int running;               /* 1: a request is being submitted or runs */
        /* 1, set by the test: the client waits for each request before it submits the next */
        int synchronises;
        int synchronise; /* 1: the client waits now for the request's end */
};

struct ph_op {
        struct ds_op op;
        struct sdev_script script;
        const struct ph_kernel *kernel;
        struct ph_client *client;
        uint64_t request;
        uint32_t log;
};

struct ph {
        struct ds_device_ops ops; /* the device's calls, with a launch() that writes the log */
        const struct ds_device_ops *real;
        ds_device *device;
        ds_device_module *module; /* module of the simulated device */
        ds_sched *sched;
        struct ph_client clients[PH_CLIENTS];
        uint32_t n_clients;
        struct ph_log *log;
        uint32_t n_log;
        char message[256];
};

static struct ph ph;

static inline uint64_t ph_now(void)
{
        return ph.real->now(ph.device);
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

static inline uint32_t ph_threads(const struct ph_kernel *kernel)
{
        return kernel->threads ? kernel->threads : 256;
}

static inline uint32_t ph_per_sm(const struct ph_kernel *kernel)
{
        return kernel->per_sm ? kernel->per_sm : 1;
}

static inline uint64_t ph_time(const struct ph_kernel *kernel, uint32_t n_sms)
{
        uint64_t slots = (uint64_t)ph_per_sm(kernel) * n_sms;

        if (kernel->time)
                return kernel->time(kernel, n_sms);
        return DS_DIV_UP(kernel->blocks, slots) * kernel->block_ns;
}

/* Shared memory per block, in bytes, such that per_sm blocks are resident on an SM of 228 KiB. */
static inline uint32_t ph_shared(const struct ph_kernel *kernel)
{
        return (233472u / ph_per_sm(kernel) & ~1023u) - 1024u;
}

static inline uint64_t ph_key(const struct ph_kernel *kernel)
{
        uint64_t key = 14695981039346656037ull;

        for (const char *c = kernel->name; *c; c++)
                key = (key ^ (uint8_t)*c) * 1099511628211ull;
        return kernel->key ? kernel->key : key;
}

/* --- the device --------------------------------------------------------------------------------------------------- */

static inline void ph_log_add(struct ph_op *op, const struct ds_launch *launch)
{
        uint32_t device_rung = launch->stream / DS_LADDER_STREAMS, rung = 0;
        const struct detshare_rung_view *view;

        cr_assert_lt(ph.n_log, PH_LOG);
        while (ph.sched->ladder.device_rung[rung] != device_rung)
                rung++;
        view = &ph.sched->ladder.views[rung];
        op->log = ph.n_log++;
        ph.log[op->log] = (struct ph_log){.kernel = op->kernel,
                .client = op->client,
                .rung = rung,
                .n_sms = view->n_sms,
                .side = view->side,
                .family = view->family,
                .priority = launch->stream / DS_DEVICE_STREAMS_PER_RUNG % DS_DEVICE_PRIORITIES,
                .stream = launch->stream,
                .max_resident_blocks = launch->max_resident_blocks,
                .submit_ns = op->op.submitted_ns,
                .launch_ns = ph_now(),
                .request = op->request,
                .form = launch->form};
        op->script.wave = ph_per_sm(op->kernel) * view->n_sms;
        op->script.duration_ns = ph_time(op->kernel, view->n_sms);
        if (op->kernel->beside)
                op->script.duration_ns = op->kernel->beside(op->kernel, op->script.duration_ns, ph.sched->n_in_flight);
}

static inline int ph_launch(ds_device *device, const struct ds_launch *launch, uint64_t token)
{
        struct ph_op *op = DS_CONTAINER_OF((struct sdev_script *)(uintptr_t)launch->params, struct ph_op, script);

        ph_log_add(op, launch);
        return ph.real->launch(device, launch, token);
}

/* --- clients ------------------------------------------------------------------------------------------------------ */

/* Submits one kernel to a stream of the client, as part of the request with this number; 0: of no request. */
static inline void ph_submit(
        struct ph_client *client, uint32_t stream, const struct ph_kernel *kernel, uint64_t request)
{
        struct ph_op *op = calloc(1, sizeof(*op));

        op->kernel = kernel;
        op->client = client;
        op->request = request;
        op->op.kind = DS_OP_LAUNCH;
        op->op.kernel_key = ph_key(kernel);
        op->op.forms = kernel->forms;
        op->op.launch = (struct ds_launch){.space = 1,
                .kernel = &kernel->device,
                .grid = {kernel->blocks, 1, 1},
                .block = {ph_threads(kernel), 1, 1},
                .cooperative = kernel->all_resident != 0,
                .params = &op->script};
        if (ph.module)
                op->op.launch.kernel = ph.real->kernel_find(ph.module, kernel->name);
        cr_assert_not_null(op->op.launch.kernel, "ph_open_sim was not told of %s", kernel->name);
        cr_assert_eq(ds_sched_submit(client->stream[stream], &op->op, ph_now()), 0);
}

static inline void ph_request_now(struct ph_client *client, const struct ph_kernel *kernel, uint32_t n, uint64_t at_ns)
{
        client->running = 1;
        client->requests++;
        client->request_begin_ns = at_ns;
        client->request_left = n;
        client->feed =
                (struct ph_feed){.kernel = kernel, .left = n, .gap_ns = client->gap_us * US, .next_ns = ph_now()};
        while (client->feed.left && !client->feed.gap_ns) {
                client->feed.left--;
                ph_submit(client, 0, kernel, client->requests);
        }
}

/* A request of n kernels arrives now; it queues behind the client's unfinished requests. */
static inline void ph_request(struct ph_client *client, const struct ph_kernel *kernel, uint32_t n)
{
        if (!client->running && !client->synchronise) {
                ph_request_now(client, kernel, n, ph_now());
                return;
        }
        cr_assert_lt(client->backlog, DS_ARRAY_SIZE(client->backlog_ns));
        client->backlog_ns[client->backlog] = ph_now();
        client->backlog_n[client->backlog] = n;
        client->backlog_kernel[client->backlog++] = kernel;
}

/* Submits `times` requests, one per period, the first one now. */
static inline void ph_every(
        struct ph_client *client, const struct ph_kernel *kernel, uint32_t n, uint64_t period_ns, uint32_t times)
{
        client->every.kernel = kernel;
        client->every.n = n;
        client->every.left = times;
        client->every.period_ns = period_ns;
        client->every.next_ns = ph_now();
}

/* Keeps `depth` kernels of the client queued or running, until kernel is NULL. */
static inline void ph_loop(struct ph_client *client, const struct ph_kernel *kernel, uint32_t depth)
{
        client->loop = kernel;
        for (uint32_t i = 0; kernel && i < depth; i++)
                ph_submit(client, 0, kernel, 0);
}

/* Starts the oldest queued request of the client. */
static inline void ph_backlog(struct ph_client *client)
{
        if (!client->backlog)
                return;
        client->backlog--;
        ph_request_now(client, client->backlog_kernel[0], client->backlog_n[0], client->backlog_ns[0]);
        for (uint32_t i = 0; i < client->backlog; i++) {
                client->backlog_kernel[i] = client->backlog_kernel[i + 1];
                client->backlog_n[i] = client->backlog_n[i + 1];
                client->backlog_ns[i] = client->backlog_ns[i + 1];
        }
}

static inline void ph_request_done(struct ph_client *client, uint64_t end_ns)
{
        cr_assert_lt(client->n_latency, PH_LATENCIES);
        client->latency[client->n_latency++] = end_ns - client->request_begin_ns;
        client->running = 0;
        client->synchronise = client->synchronises;
        if (!client->synchronise)
                ph_backlog(client);
}

/* A client that waits for its request reports that it has the results, and continues. */
static inline int ph_synchronise(struct ph_client *client)
{
        if (!client->synchronise || !ds_sched_session_idle(client->session))
                return 0;
        client->synchronise = 0;
        ds_sched_session_synchronised(client->session, ph_now());
        ph_backlog(client);
        return 1;
}

static inline void ph_done(
        void *user, struct ds_op *ds_op, int status, uint64_t start_ns, uint64_t end_ns, const char *message)
{
        struct ph_op *op = DS_CONTAINER_OF(ds_op, struct ph_op, op);
        struct ph_client *client = op->client;
        struct ph_log *log = &ph.log[op->log];

        (void)user;
        cr_assert_eq(status, 0, "%d %s", status, message ? message : "");
        log->start_ns = start_ns;
        log->end_ns = end_ns;
        log->status = status;
        client->ended++;
        client->device_ns += end_ns - start_ns;
        if (op->request && !--client->request_left)
                ph_request_done(client, end_ns);
        else if (!op->request && client->loop == op->kernel)
                ph_submit(client, 0, op->kernel, 0);
        free(op);
}

static inline struct ph_client *ph_client(const struct ds_sched_session_config *like)
{
        struct ph_client *client = &ph.clients[ph.n_clients++];
        struct ds_sched_session_config config = *like;

        cr_assert_leq(ph.n_clients, PH_CLIENTS);
        config.id = client->id = ph.n_clients;
        config.space = 1;
        config.uid = config.uid ? config.uid : 1000 + ph.n_clients;
        config.sm_percent = config.sm_percent ? config.sm_percent : 100;
        client->class_ = config.class_;
        cr_assert_eq(ds_sched_session_new(ph.sched, &config, &client->session), 0);
        for (int i = 0; i < PH_STREAMS; i++)
                cr_assert_eq(ds_coroutine_new(client->session, 0, 0, 0, &client->stream[i]), 0);
        return client;
}

/* slo_ns 0: no objective */
static inline struct ph_client *ph_ls(uint64_t slo_ns)
{
        return ph_client(&(struct ds_sched_session_config){.class_ = DETSHARE_CLASS_LS, .slo = {.ns = {slo_ns}}});
}

static inline struct ph_client *ph_be(void)
{
        return ph_client(&(struct ds_sched_session_config){.class_ = DETSHARE_CLASS_BE});
}

/* Disconnects the client, which must have nothing queued. */
static inline void ph_leave(struct ph_client *client)
{
        cr_assert(ds_sched_session_idle(client->session));
        client->session = ds_sched_session_free(client->session);
}

/* --- time --------------------------------------------------------------------------------------------------------- */

static inline uint64_t ph_next_arrival(void)
{
        uint64_t next = UINT64_MAX;

        for (uint32_t i = 0; i < ph.n_clients; i++) {
                const struct ph_client *client = &ph.clients[i];

                if (client->every.left)
                        next = DS_MIN(next, client->every.next_ns);
                if (client->feed.left)
                        next = DS_MIN(next, client->feed.next_ns);
        }
        return next;
}

static inline void ph_arrive(struct ph_client *client)
{
        while (client->every.left && client->every.next_ns <= ph_now()) {
                client->every.left--;
                client->every.next_ns += client->every.period_ns;
                ph_request(client, client->every.kernel, client->every.n);
        }
        while (client->feed.left && client->feed.next_ns <= ph_now()) {
                client->feed.left--;
                client->feed.next_ns = ph_now() + client->feed.gap_ns;
                ph_submit(client, 0, client->feed.kernel, client->requests);
        }
}

static inline void ph_step(void)
{
        struct ds_completion completions[64];
        size_t n;

        for (uint32_t i = 0; i < ph.n_clients; i++)
                ph_arrive(&ph.clients[i]);
        while ((n = ph.real->poll(ph.device, completions, 64)))
                ds_sched_complete(ph.sched, completions, n);
        cr_assert_eq(ds_sched_step(ph.sched, ph_now()), 0);
        for (uint32_t i = 0; i < ph.n_clients; i++)
                if (ph_synchronise(&ph.clients[i]))
                        cr_assert_eq(ds_sched_step(ph.sched, ph_now()), 0);
}

/* Lets time pass until until_ns; UINT64_MAX: until nothing happens any more (no loop may run). */
static inline void ph_run(uint64_t until_ns)
{
        for (;;) {
                uint64_t limit;
                int r;

                ph_step();
                limit = DS_MIN(DS_MIN(ds_sched_next_timer(ph.sched), ph_next_arrival()), until_ns);
                r = ph.real->advance(ph.device, limit);
                cr_assert(!r || r == -ETIME, "%d", r);
                if (r == -ETIME && (limit == until_ns || limit == UINT64_MAX))
                        break;
        }
        ph_step();
}

static inline void ph_run_for(uint64_t ns)
{
        ph_run(ph_now() + ns);
}

/* --- opening and closing ------------------------------------------------------------------------------------------ */

/* params: a list of "key=value", ended by NULL */
static inline void ph_set_policy_list(const char *policy, va_list params)
{
        const char *list[PH_PARAMS];
        size_t n = 0;
        int r;

        for (const char *param; (param = va_arg(params, const char *));) {
                cr_assert_lt(n, PH_PARAMS);
                list[n++] = param;
        }
        r = ds_sched_set_policy(ph.sched, policy, list, n, ph_now(), ph.message, sizeof(ph.message));
        cr_assert_eq(r, 0, "%s: %s", policy, ph.message);
}

static inline void ph_set_policy(const char *policy, ...)
{
        va_list params;

        va_start(params, policy);
        ph_set_policy_list(policy, params);
        va_end(params);
}

static inline void ph_start(const struct ds_device_ops *ops, const char *policy, va_list params)
{
        struct ds_sched_config config = {.ops = &ph.ops,
                .device = ph.device,
                .policy_dir = build_path("policies"),
                .policy = "fifo",
                .done = ph_done};

        ph.real = ops;
        ph.ops = *ops;
        ph.ops.launch = ph_launch;
        ph.log = calloc(PH_LOG, sizeof(*ph.log));
        cr_assert_eq(ds_sched_new(&config, &ph.sched), 0);
        ph_set_policy_list(policy, params);
}

/* Opens a scripted GPU of n_tpcs TPCs of two SMs each. Call ph_kernels with every kernel of the test before. */
static inline void ph_open(uint32_t n_tpcs, const char *policy, ...)
{
        va_list params;

        va_start(params, policy);
        ph.device = sdev_new(n_tpcs);
        ph_start(&sdev_ops, policy, params);
        va_end(params);
}

/* Fills in the attributes of scripted kernels. Before the first ph_submit of them. */
static inline void ph_kernels(struct ph_kernel *const *kernels, size_t n)
{
        for (size_t i = 0; i < n; i++)
                kernels[i]->device.info = (struct ds_kernel_info){.name = kernels[i]->name,
                        .max_threads = 1024,
                        .static_shared = ph_shared(kernels[i]),
                        .cooperative = kernels[i]->all_resident != 0,
                        .idempotent = kernels[i]->idempotent != 0};
}
#define PH_KERNELS_ARE(...)                                      \
        do {                                                     \
                struct ph_kernel *const list_[] = {__VA_ARGS__}; \
                ph_kernels(list_, DS_ARRAY_SIZE(list_));         \
        } while (0)

/* Opens the timing model of an H200. A kernel's time alone on all SMs follows from its waves. */
static inline void ph_open_sim(struct ph_kernel *const *kernels, size_t n, const char *policy, ...)
{
        char text[PH_KERNELS * 256], log[512] = "";
        size_t at = (size_t)snprintf(text, sizeof(text), "detshare-profile 1\nsms 132\n");
        va_list params;

        cr_assert_leq(n, PH_KERNELS);
        for (size_t i = 0; i < n; i++)
                at += (size_t)snprintf(text + at, sizeof(text) - at,
                        "kernel %s grid=%u block=%u regs=16 shared=%u ns=%llu block_ns=%llu\n", kernels[i]->name,
                        kernels[i]->blocks, ph_threads(kernels[i]), ph_shared(kernels[i]),
                        (unsigned long long)ph_time(kernels[i], 132), (unsigned long long)kernels[i]->block_ns);
        va_start(params, policy);
        cr_assert_eq(ds_sim_ops.open("h200+timing", &ph.device), 0);
        cr_assert_eq(ds_sim_ops.space_add(ph.device, 1), 0);
        cr_assert_eq(ds_sim_ops.module_load(ph.device, 1, text, at, log, sizeof(log), &ph.module), 0, "%s", log);
        ph_start(&ds_sim_ops, policy, params);
        va_end(params);
}

/* Gives the scheduler the kernel's time on each SM count of the ladder, as a file of profiles would. */
static inline void ph_know(const struct ph_kernel *kernel, enum detshare_kernel_bound bound)
{
        struct ds_sched_profile profile = {.key = ph_key(kernel), .bound = bound};
        uint32_t n_all = ph.device ? ph.real->info(ph.device)->n_sms : 0, step = (n_all + 15) / 16;

        for (uint32_t n_sms = n_all % step ? n_all % step : step; n_sms <= n_all; n_sms += step)
                profile.points[profile.n_points++] = (struct detshare_profile_point){
                        .n_sms = n_sms, .samples = 100, .mean_ns = ph_time(kernel, n_sms)};
        ds_sched_profile_put(ph.sched, &profile);
}

static inline struct ds_sched_stats ph_stats(void)
{
        struct ds_sched_stats stats;

        ds_sched_stats(ph.sched, &stats);
        return stats;
}

/* Ends loops and arrivals, runs everything to its end, and checks that the policy never returned a senseless action. */
static inline void ph_close(void)
{
        struct ds_sched_stats stats;

        for (uint32_t i = 0; i < ph.n_clients; i++) {
                ph.clients[i].loop = NULL;
                ph.clients[i].every.left = 0;
        }
        ph_run(UINT64_MAX);
        stats = ph_stats();
        cr_assert_eq(stats.queued, 0, "%u are left", stats.queued);
        cr_assert_eq(stats.in_flight, 0);
        cr_assert_eq(stats.fallbacks, 0);
        cr_assert_eq(stats.actions_ignored, 0, "%llu senseless actions", (unsigned long long)stats.actions_ignored);
        ph.sched = ds_sched_free(ph.sched);
        if (ph.module) {
                cr_assert_null(ds_sim_ops.module_unload(ph.device, ph.module));
                cr_assert_null(ds_sim_ops.close(ph.device));
        } else {
                free(ph.device);
        }
        free(ph.log);
        memset(&ph, 0, sizeof(ph));
}

/* --- the log ------------------------------------------------------------------------------------------------------ */

/* The client's n-th launch from the end, 0: the last. NULL if there are fewer. */
static inline const struct ph_log *ph_before(const struct ph_client *client, uint32_t n)
{
        for (uint32_t i = ph.n_log; i-- > 0;)
                if (ph.log[i].client == client && !n--)
                        return &ph.log[i];
        return NULL;
}

static inline const struct ph_log *ph_last(const struct ph_client *client)
{
        const struct ph_log *log = ph_before(client, 0);

        cr_assert_not_null(log, "client %llu launched nothing", (unsigned long long)client->id);
        return log;
}

/* The client's n-th launch, 0: the first. */
static inline const struct ph_log *ph_nth(const struct ph_client *client, uint32_t n)
{
        for (uint32_t i = 0; i < ph.n_log; i++)
                if (ph.log[i].client == client && !n--)
                        return &ph.log[i];
        cr_assert_fail("client %llu launched not so much", (unsigned long long)client->id);
        return NULL;
}

/* Number of the client's launches in [from_ns, to_ns). */
static inline uint32_t ph_launches(const struct ph_client *client, uint64_t from_ns, uint64_t to_ns)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < ph.n_log; i++)
                n += ph.log[i].client == client && ph.log[i].launch_ns >= from_ns && ph.log[i].launch_ns < to_ns;
        return n;
}

/* Number of the client's operations that were launched and have not ended. */
static inline uint32_t ph_in_flight(const struct ph_client *client)
{
        struct ds_sched_session_stats stats;

        ds_sched_session_stats(client->session, &stats);
        return stats.in_flight;
}

/* Number of the client's launches whose SM count differs from that of its previous launch. */
static inline uint32_t ph_moves(const struct ph_client *client)
{
        uint32_t n = 0, sms = 0;

        for (uint32_t i = 0; i < ph.n_log; i++) {
                if (ph.log[i].client != client)
                        continue;
                n += sms && ph.log[i].n_sms != sms;
                sms = ph.log[i].n_sms;
        }
        return n;
}

static inline int ph_compare(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return (x > y) - (x < y);
}

/* Quantile of the client's request latencies, ns; 990: p99. */
static inline uint64_t ph_latency(const struct ph_client *client, uint32_t permille)
{
        uint64_t sorted[PH_LATENCIES];

        cr_assert_gt(client->n_latency, 0);
        memcpy(sorted, client->latency, client->n_latency * sizeof(sorted[0]));
        qsort(sorted, client->n_latency, sizeof(sorted[0]), ph_compare);
        return sorted[(client->n_latency - 1) * permille / 1000];
}

/* Thousandths of [from, to) in which one of the client's operations ran. Its operations do not overlap. */
static inline uint64_t ph_busy(const struct ph_client *client, uint64_t from_ns, uint64_t to_ns)
{
        uint64_t sum = 0;

        for (uint32_t i = 0; i < ph.n_log; i++) {
                uint64_t begin = DS_MAX(ph.log[i].start_ns, from_ns), end = DS_MIN(ph.log[i].end_ns, to_ns);

                if (ph.log[i].client == client && end > begin)
                        sum += end - begin;
        }
        return sum * 1000 / (to_ns - from_ns);
}
