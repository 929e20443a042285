/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/load.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "util/alloc.h"
#include "util/macro.h"

#define SLICE_NS (100 * DS_NS_PER_MS) /* longest sleep between two checks for a stop */

static volatile sig_atomic_t stop_wanted;

struct run {
        const struct sv_load *load;
        uint64_t begin;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        unsigned n_ready;
        bool go;
        _Atomic uint64_t next;
        _Atomic bool over;
};

struct worker {
        struct run *run;
        struct sv_instance *instance;
        pthread_t thread;
        struct sv_samples samples;
        uint64_t different;
        int r;
        struct sv_why why;
};

void sv_load_stop(void)
{
        stop_wanted = 1;
}

static bool is_over(const struct run *run)
{
        return stop_wanted || atomic_load_explicit(&run->over, memory_order_relaxed);
}

/* The next request's number; false: there is none. */
static bool take(struct run *run, uint64_t *ret)
{
        const struct sv_load *load = run->load;

        if (is_over(run))
                return false;
        if (!load->arrivals && load->ns && sv_now(load->clock) - run->begin >= load->ns)
                return false;
        *ret = atomic_fetch_add(&run->next, 1);
        return load->arrivals ? *ret < load->arrivals->n : !load->requests || *ret < load->requests;
}

/* Waits for the request's arrival. false: the load was stopped before. */
static bool await(struct run *run, uint64_t i, struct sv_sample *sample)
{
        const struct sv_load *load = run->load;
        uint64_t now = sv_now(load->clock);

        sample->arrival = load->arrivals ? run->begin + load->arrivals->ns[i] : now;
        while (now < sample->arrival && !is_over(run)) {
                sv_sleep_until(load->clock, DS_MIN(sample->arrival, now + SLICE_NS));
                now = sv_now(load->clock);
        }
        sample->begin = now;
        return now >= sample->arrival;
}

static int serve(struct worker *worker, uint64_t i)
{
        const struct sv_load *load = worker->run->load;
        const uint32_t which = (uint32_t)(i % load->cases->n);
        struct sv_sample sample;

        sv_cases_place(load->cases, which, worker->instance);
        if (!await(worker->run, i, &sample))
                return 0;
        if (sv_instance_run(worker->instance, &worker->why))
                return -1;
        sample.end = sv_now(load->clock);
        worker->different += !sv_cases_same(load->cases, which, worker->instance);
        return sv_samples_add(&worker->samples, &sample) ? sv_fail(&worker->why, "out of memory") : 0;
}

static void wait_to_go(struct run *run)
{
        (void)pthread_mutex_lock(&run->lock);
        run->n_ready++;
        (void)pthread_cond_broadcast(&run->changed);
        while (!run->go)
                (void)pthread_cond_wait(&run->changed, &run->lock);
        (void)pthread_mutex_unlock(&run->lock);
}

static void sleep_to_begin(const struct run *run)
{
        uint64_t now = sv_now(run->load->clock);

        for (; now < run->begin && !is_over(run); now = sv_now(run->load->clock))
                sv_sleep_until(run->load->clock, DS_MIN(run->begin, now + SLICE_NS));
}

static void *work(void *user)
{
        struct worker *worker = user;
        struct run *run = worker->run;
        uint64_t i;

        worker->r = sv_driver_enter(worker->instance->model->driver, &worker->why);
        /* declares the thread, while its creator holds the clock */
        (void)sv_now(run->load->clock);
        wait_to_go(run);
        sleep_to_begin(run);
        while (!worker->r && take(run, &i))
                worker->r = serve(worker, i);
        if (worker->r)
                atomic_store(&run->over, true);
        sv_clock_leave(run->load->clock);
        return NULL;
}

/* Returns the number of started threads; it is smaller when memory or processes run out. */
static unsigned start(struct run *run, struct worker *workers)
{
        unsigned n = 0;

        for (; n < run->load->n_instances; n++) {
                workers[n].run = run;
                workers[n].instance = &run->load->instances[n];
                if (pthread_create(&workers[n].thread, NULL, work, &workers[n]))
                        break;
        }
        return n;
}

/* The clock stands still until all threads have started, so the first request waits for none of them. */
static void release(struct run *run, unsigned n)
{
        (void)pthread_mutex_lock(&run->lock);
        while (run->n_ready < n)
                (void)pthread_cond_wait(&run->changed, &run->lock);
        run->begin = run->load->begin ? run->load->begin : sv_now(run->load->clock);
        run->go = true;
        (void)pthread_cond_broadcast(&run->changed);
        (void)pthread_mutex_unlock(&run->lock);
}

static int collect(struct worker *workers, unsigned n, uint64_t begin, struct sv_result *ret, struct sv_why *why)
{
        int r = 0;

        for (unsigned i = 0; i < n; i++) {
                (void)pthread_join(workers[i].thread, NULL);
                if (workers[i].r && !r) {
                        *why = workers[i].why;
                        r = -1;
                }
                if (sv_samples_join(&ret->samples, &workers[i].samples) && !r)
                        r = sv_fail(why, "out of memory");
                ret->different += workers[i].different;
                sv_samples_clear(&workers[i].samples);
        }
        for (size_t i = 0; i < ret->samples.n; i++)
                ret->ns = DS_MAX(ret->ns, ret->samples.list[i].end - begin);
        sv_samples_sort(&ret->samples);
        return r;
}

int sv_load_run(const struct sv_load *load, struct sv_result *ret, struct sv_why *why)
{
        struct run run = {.load = load, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
        ds_cleanup(ds_freep) struct worker *workers = ds_alloc0(load->n_instances, sizeof(*workers));
        unsigned n;
        int r;

        *ret = (struct sv_result){.ns = 0};
        if (!workers)
                return sv_fail(why, "out of memory");
        (void)sv_now(load->clock);
        n = start(&run, workers);
        atomic_store(&run.over, n < load->n_instances);
        release(&run, n);
        sv_clock_leave(load->clock);
        r = collect(workers, n, run.begin, ret, why);
        return n < load->n_instances ? sv_fail(why, "only %u of %u threads can be made", n, load->n_instances) : r;
}
