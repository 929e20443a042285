/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LS requests that a program delays while it loads 300 modules, and the time that this takes
 *
 * The simulated device claims that loads stop it, and a load takes as much time as on an H200: most 0.15 ms, one in 50 2 ms.
 * The service's requests take 0.3 ms. They come with a pause of 2 ms after each, or at random times (open loop). A
 * request is delayed if it arrives while a module loads, or if it runs when the load begins: the test sees this itself.
 */
#define WT_QUIESCE
#include <math.h>

#include "device/sim/sim.h"
#include "tests/unit/rounds.h"
#include "tests/unit/worker_harness.h"
#include "worker/internal.h"

#define LOADS 300
#define LAUNCHES 110                 /* 0.3 ms of the simulated device */
#define REQUESTS_MEASURED 1600u      /* requests from the first load on, of which fewer than 1 in 100 may be delayed */
#define REQUESTS_BEFORE 1600u        /* requests before the first load */
#define THINK_NS (50 * DS_NS_PER_US) /* time from an answer to the program's next request */

/* The LS service. */
struct service {
        struct wt *t;
        struct wt_client client;
        uint64_t null, waits_for, next_ns, pause_ns;
        uint64_t rate_ns; /* mean interval of arrivals at random; 0: pause_ns after each request */
        int busy;         /* the request's launches are in the ring or later */
        int delayed;      /* a stop has delayed the current request */
        uint64_t n, n_delayed, busy_ns, began_ns;
};

static struct service service;
static struct ds_device_ops slow;
static uint64_t seed, n_loads;

static double uniform(void)
{
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return ((double)(seed >> 11) + 0.5) / 9007199254740992.0;
}

static uint64_t device_now(void)
{
        return service.t->worker->ops->now(service.t->worker->device);
}

static void service_arrive(void)
{
        service.busy = 1;
        service.began_ns = device_now();
        for (int i = 0; i < LAUNCHES; i++)
                wt_push_launch(&service.client, 0, service.null, 1, 32, NULL, 0);
}

static void service_end(void)
{
        const uint64_t now = device_now();

        service.n++;
        service.n_delayed += (uint64_t)service.delayed;
        service.busy_ns += now - service.began_ns;
        service.busy = service.delayed = 0;
        if (service.rate_ns)
                service.next_ns += (uint64_t)(-log(uniform()) * (double)service.rate_ns);
        else
                service.next_ns = now + service.pause_ns;
}

/* The declared thread of the service: it sleeps until the next arrival, or waits for the request's end. */
static void service_step(void)
{
        wt_answer *answer = service.waits_for ? wt_take(service.t, service.waits_for) : NULL;

        if (service.waits_for && !answer)
                return;
        if (answer)
                wt_free(answer);
        if (service.busy && atomic_load(&service.client.page->completed) == service.client.tail)
                service_end();
        if (!service.busy && service.next_ns <= device_now())
                service_arrive();
        WT_REQUEST(sync, SYNC, sync, Sync, SYNC, .all = 1);
        WT_REQUEST(nap, SLEEP_UNTIL, sleep_until, SleepUntil, SLEEP_UNTIL, .ns = service.next_ns);

        service.waits_for = wt_send_call(service.t, &service.client, service.busy ? &sync : &nap);
}

/* A load takes device time and real time, and the service's thread goes on meanwhile. */
static int slow_load(ds_device *device, uint32_t space, const void *image, size_t size, char *log, size_t log_size,
        ds_device_module **ret)
{
        const uint64_t ns = n_loads++ % 50 == 49 ? 2 * DS_NS_PER_MS : 100 * DS_NS_PER_US + n_loads % 5 * 25000;
        const uint64_t until = ds_sim_ops.now(device) + ns;

        if (service.waits_for) {
                service.delayed |= service.busy;
                while (!ds_sim_ops.advance(device, until))
                        ;
                if (!service.busy && service.next_ns <= until) {
                        service_arrive();
                        service.delayed = 1;
                }
        }
        wt_wall += ns;
        return ds_sim_ops.module_load(device, space, image, size, log, log_size, ret);
}

static void turn(void)
{
        service_step();
        wt_turn(service.t, 0);
}

static void wait_for(uint64_t id)
{
        wt_answer *answer;

        while (!(answer = wt_take(service.t, id)))
                turn();
        cr_assert_eq(answer->status, 0);
        wt_free(answer);
}

static void load_one(struct wt_client *client)
{
        WT_REQUEST(request, MODULE_LOAD, module_load, ModuleLoad, MODULE_LOAD, .bytes = strlen(DT_PTX));
        int fd = wt_image(DT_PTX);
        uint64_t id = wt_send_call_fd(service.t, client, &request, fd);

        close(fd);
        wait_for(id);
        WT_REQUEST(nap, SLEEP_UNTIL, sleep_until, SleepUntil, SLEEP_UNTIL, .ns = device_now() + THINK_NS);
        wait_for(wt_send_call(service.t, client, &nap));
}

/* Serves until n requests have ended since `since`. */
static void serve(uint64_t since, uint64_t n)
{
        while (service.n - since < n)
                turn();
}

/* Loads modules beside a service. Returns the device time that this took. */
static uint64_t loads_beside(const char *name, uint64_t rate_ns, uint64_t n, uint64_t *ret_delayed, uint64_t *ret_n)
{
        WT_REQUEST(thread, CLOCK_JOIN, clock_join, ClockJoin, CLOCK_JOIN, .base = {0});
        WT_REQUEST(leave, CLOCK_LEAVE, clock_leave, ClockLeave, CLOCK_LEAVE, .base = {0});
        struct wt_client be;
        uint64_t module, took, requests, hits;

        slow = ds_sim_ops;
        slow.module_load = slow_load;
        wt_ops = &slow;
        service = (struct service){.t = wt_open("h200+timing+quiesce"), .pause_ns = 2 * DS_NS_PER_MS};
        service.rate_ns = rate_ns;
        service.client = wt_client(service.t, 1, DETSHARE__CLASS__LS);
        wt_attach(service.t, &service.client);
        cr_assert_eq(wt_module(service.t, &service.client, DT_PTX, &module), 0);
        service.null = wt_kernel(service.t, &service.client, module, "null");
        cr_assert_eq(wt_call_status(service.t, &service.client, &thread), 0);
        serve(0, REQUESTS_BEFORE);
        be = wt_client(service.t, 2, DETSHARE__CLASS__BE);
        wt_attach(service.t, &be);
        cr_assert_eq(wt_call_status(service.t, &be, &thread), 0);
        service.n_delayed = 0;
        requests = service.n;
        hits = service.t->worker->quiesce.cost.n_hits;
        took = device_now();
        for (uint64_t i = 0; i < n; i++)
                load_one(&be);
        took = device_now() - took;
        cr_assert_eq(wt_call_status(service.t, &be, &leave), 0);
        serve(requests, REQUESTS_MEASURED);
        *ret_n = service.n - requests;
        *ret_delayed = service.n_delayed;
        printf("sim: %s: %llu loads took %.2f s; %llu of %llu requests of %.2f ms were delayed\n", name,
                (unsigned long long)n, (double)took / 1e9, (unsigned long long)*ret_delayed, (unsigned long long)*ret_n,
                (double)service.busy_ns / 1e6 / (double)service.n);
        hits = service.t->worker->quiesce.cost.n_hits - hits;
        cr_assert_eq(hits, *ret_delayed, "the worker counts %llu", (unsigned long long)hits);
        wt_client_close(service.t, &be);
        wt_client_close(service.t, &service.client);
        wt_close(service.t);
        return took;
}

Test(worker_stops, beside_a_periodic_service, .timeout = 300)
{
        uint64_t n, delayed, took = loads_beside("a pause of 2 ms between requests", 0, LOADS, &delayed, &n);

        cr_assert_lt(took, DS_NS_PER_S / 2);
        cr_assert_lt(delayed, n / 100);
}

/* By chance, so many requests may meet a stop that the budget is spent before the last load: 1 round in 10 or so. */
Test(worker_stops, beside_requests_at_random_times, .timeout = 300)
{
        const uint32_t rounds = rounds_of(5);
        uint64_t n, delayed, took = 0;

        for (uint32_t round = 1; round <= rounds; round++) {
                seed = round;
                n_loads = 0;
                took += loads_beside("100 requests a second at random times", 10 * DS_NS_PER_MS, LOADS, &delayed, &n);
                cr_assert_lt(delayed, n / 100);
        }
        cr_assert_lt(took, rounds * DS_NS_PER_S);
}

/* A program that never ceases to load delays fewer than 1 in 100 requests, too. */
Test(worker_stops, without_end, .timeout = 300)
{
        uint64_t n, delayed;

        loads_beside("400 requests a second at random times", 2500 * DS_NS_PER_US, rounds_of(10) * LOADS, &delayed, &n);
        cr_assert_lt(delayed, DS_MAX(n, (uint64_t)REQUESTS_MEASURED) / 100);
}
