/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time that a program needs to load its code beside an LS service: 100 modules with three kernels each
 *
 * The simulated device claims that loads stop it. Each takes as much real time as on an H200 (a library of 190 KB and
 * 12 kernels: the code 0.06 ms, the kernels 0.14 ms). The service is busy for almost half of the time. START_LOAD_US in
 * the environment sets another time per load.
 */
#define WT_QUIESCE
#include "device/sim/sim.h"
#include "tests/unit/rounds.h"
#include "tests/unit/worker_harness.h"
#include "worker/internal.h"

#define MODULES (ROUNDS_SANITIZED && !rounds_are_all() ? 40 : 100)
#define PERIOD_NS (10 * DS_NS_PER_MS)

static struct ds_device_ops slow;
static uint64_t load_ns = 200 * DS_NS_PER_US, n_asked, n_ended;

/* The device starts to prepare a file at the first request; the second request finds the preparation finished. */
static int slow_prepare(ds_device *device, int fd, size_t size)
{
        if (n_asked == n_ended) {
                n_asked++;
                return 0;
        }
        n_ended = n_asked;
        return 1;
}

static uint64_t slow_prepared(ds_device *device)
{
        return n_asked;
}

static int slow_load(ds_device *device, uint32_t space, const void *image, size_t size, char *log, size_t log_size,
        ds_device_module **ret)
{
        wt_wall += load_ns;
        return ds_sim_ops.module_load(device, space, image, size, log, log_size, ret);
}

/* The LS service: a request, a pause until the end of the period, the next request. */
struct service {
        struct wt_client client;
        uint64_t null, waits_for, next_ns, busy_ns, began_ns;
        int launches, works;
};

static uint64_t device_now(struct wt *t)
{
        return t->worker->ops->now(t->worker->device);
}

static void service_step(struct wt *t, struct service *s)
{
        WT_REQUEST(sync, SYNC, sync, Sync, SYNC, .all = 1);
        wt_answer *answer = s->waits_for ? wt_take(t, s->waits_for) : NULL;

        if (s->waits_for && !answer)
                return;
        if (answer)
                wt_free(answer);
        if (s->works) {
                WT_REQUEST(nap, SLEEP_UNTIL, sleep_until, SleepUntil, SLEEP_UNTIL, .ns = s->next_ns);

                s->busy_ns += device_now(t) - s->began_ns;
                s->works = 0;
                s->waits_for = wt_send_call(t, &s->client, &nap);
                return;
        }
        s->works = 1;
        s->began_ns = device_now(t);
        s->next_ns = s->began_ns + PERIOD_NS;
        for (int i = 0; i < s->launches; i++)
                wt_push_launch(&s->client, 0, s->null, 1, 32, NULL, 0);
        s->waits_for = wt_send_call(t, &s->client, &sync);
}

static void load_one(struct wt *t, struct service *s, struct wt_client *client)
{
        WT_REQUEST(request, MODULE_LOAD, module_load, ModuleLoad, MODULE_LOAD, .bytes = strlen(DT_PTX));
        int fd = wt_image(DT_PTX);
        uint64_t id = wt_send_call_fd(t, client, &request, fd), module;
        wt_answer *answer;

        close(fd);
        while (!(answer = wt_take(t, id))) {
                service_step(t, s);
                wt_turn(t, 0);
        }
        cr_assert_eq(answer->status, 0);
        module = answer->reply->module_load->module;
        wt_free(answer);
        wt_kernel(t, client, module, "null");
        wt_kernel(t, client, module, "poke");
        wt_kernel(t, client, module, "step");
}

Test(worker_start, beside_a_service, .timeout = 120)
{
        WT_REQUEST(thread, CLOCK_JOIN, clock_join, ClockJoin, CLOCK_JOIN, .base = {0});
        const char *wanted = getenv("START_LOAD_US");
        struct service s = {.launches = 1700};
        struct wt_client be;
        uint64_t module, began, held, stops, took;
        struct wt *t;

        if (wanted)
                load_ns = strtoull(wanted, NULL, 10) * DS_NS_PER_US;
        slow = ds_sim_ops;
        slow.module_load = slow_load;
        slow.module_prepare = slow_prepare;
        slow.module_prepared = slow_prepared;
        wt_ops = &slow;
        t = wt_open("h200+timing+quiesce");
        s.client = wt_client(t, 1, DETSHARE__CLASS__LS);
        wt_attach(t, &s.client);
        cr_assert_eq(wt_call_status(t, &s.client, &thread), 0); /* the virtual clock waits for this thread */
        cr_assert_eq(wt_module(t, &s.client, DT_PTX, &module), 0);
        s.null = wt_kernel(t, &s.client, module, "null");
        be = wt_client(t, 2, DETSHARE__CLASS__BE);
        wt_attach(t, &be);
        began = device_now(t);
        held = t->worker->quiesce.total_ns;
        stops = t->worker->quiesce.count;
        for (int i = 0; i < MODULES; i++)
                load_one(t, &s, &be);
        took = device_now(t) - began;
        held = t->worker->quiesce.total_ns - held;
        stops = t->worker->quiesce.count - stops;
        printf("sim: %d modules of %llu us loaded in %.2f s in %llu stops of %.1f ms in all, beside a service at work "
               "for "
               "%.0f %% of the time\n",
                MODULES, (unsigned long long)(load_ns / DS_NS_PER_US), (double)took / 1e9, (unsigned long long)stops,
                (double)held / 1e6, 100.0 * (double)s.busy_ns / (double)took);
        if (!wanted) {
                cr_assert_eq(n_ended, MODULES + 1, "each was prepared");
                cr_assert_lt(took, 3 * DS_NS_PER_S);
                cr_assert_gt(s.busy_ns, took * 4 / 10, "the service was served");
        }
        cr_assert_eq(t->worker->quiesce.cost.n_hits, 0, "a stop met a request");
        wt_client_close(t, &be);
        wt_client_close(t, &s.client);
        wt_close(t);
}
