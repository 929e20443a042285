/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of kernel forms: workers without evictions against native blocks; the time from the eviction until the SMs
 * are free for another kernel; the cost of eviction and resumption
 *
 * Measured for blocks of 2, 5, 10, 50 and 200 us, two per SM, with forms that the passes made. A kernel of high
 * priority that needs every SM for itself detects free SMs. It is submitted together with the eviction. The latency is
 * its time beyond the median of its time alone. The spread of its time alone, measured alternately, is printed beside
 * it: that part comes from the host and the driver. The same kernel beside native blocks shows the effect of stream
 * priority alone. Figures are valid only if every block ran exactly once.
 *
 * usage: forms [TRIES [US]]
 *   TRIES, US   number of tries and time of one launch; default 300 and 2000 on a GPU, 3 and 100 elsewhere
 * The environment variable DETSHARE_TEST_DEVICE names the device (default cuda:0); each line begins with its kind.
 */
#define DT_PLAIN
#include "tests/gpu/device_forms.h"

#define PER_SM 2u
#define WHOLE_US 2000.0 /* intended time of one launch, us */
#define BLOCKS_MAX 390000u
#define TRIES_MAX 2000u

struct series {
        uint32_t n;
        double us[TRIES_MAX];
};

struct bench {
        struct dt_forms f;
        const char *what;
        uint32_t tries, sms;
        struct dt_form_params params;
        struct ds_launch native, workers, urgent;
        struct dt_form_params urgent_params;
        double whole_us;  /* intended time of one launch */
        double urgent_us; /* time of the urgent kernel alone */
};

static int ascending(const void *a, const void *b)
{
        const double x = *(const double *)a, y = *(const double *)b;

        return x < y ? -1 : x > y;
}

static double at(struct series *s, double part)
{
        qsort(s->us, s->n, sizeof(*s->us), ascending);
        return s->n ? s->us[(uint32_t)((s->n - 1) * part)] : 0;
}

static void add(struct series *s, double us)
{
        if (s->n < TRIES_MAX)
                s->us[s->n++] = us;
}

static double now_us(struct bench *b)
{
        return (double)b->f.t->ops->now(b->f.t->device) / 1e3;
}

/* Restarts the token numbers from the beginning, so that they never run out. */
static void tokens_again(struct dt *t)
{
        dt_wait_all(t);
        memset(t->came, 0, sizeof(t->came));
        t->next_token = 1;
        t->n_seen = 0;
}

/* Waits for a completion with the least delay: polls without sleeping where no event wakes a sleeper. */
static const struct ds_completion *await(struct bench *b, uint64_t token)
{
        struct dt *t = b->f.t;
        double until = now_us(b) + 30e6;

        if (t->ops->advance)
                return dt_wait(t, token);
        while (!t->came[token])
                cr_assert(dt_poll(t) || now_us(b) < until, "no completion within 30 s");
        return &t->seen[token];
}

static double run_us(struct bench *b, const struct ds_launch *launch)
{
        const struct ds_completion *c = await(b, dt_launch(b->f.t, launch));

        cr_assert_eq(c->status, 0, "status %d: %s", c->status, c->message);
        return (double)(c->end_ns - c->start_ns) / 1e3;
}

static double median_us(struct bench *b, const struct ds_launch *launch)
{
        struct series s = {};

        for (uint32_t i = 0; i < DS_MIN(b->tries, 21u); i++)
                add(&s, run_us(b, launch));
        tokens_again(b->f.t);
        return at(&s, 0.5);
}

static void clear(struct bench *b)
{
        struct ds_memset m = {.stream = b->f.t->stream,
                .space = DT_SPACE,
                .dst = DT_DEVICE_VA,
                .element_size = 4,
                .width = DT_SLAB / 4,
                .height = 1};
        uint64_t token = dt_token(b->f.t);

        cr_assert_eq(b->f.t->ops->memset(b->f.t->device, &m, token), 0);
        dt_ok(b->f.t, token);
}

static void every_block_once(struct bench *b)
{
        const uint32_t *counts = (uint32_t *)DT_HOST_VA;
        const uint32_t blocks = b->workers.grid[0];

        dt_ok(b->f.t, dt_copy(b->f.t, b->f.t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, blocks * UINT64_C(4)));
        for (uint32_t i = 0; i < blocks; i++)
                cr_assert_eq(counts[i], 1, "block %u ran %u times", i, counts[i]);
}

/* --- setup -------------------------------------------------------------------------------------------------------- */

static void launches_set(struct bench *b, uint32_t blocks, uint32_t loops)
{
        const uint32_t most = (uint32_t)b->f.t->ops->info(b->f.t->device)->attributes[97];

        b->params = (struct dt_form_params){DT_DEVICE_VA, DT_DEVICE_VA + DS_MIB(8), loops};
        b->native = dt_form_launch(&b->f, DS_PTX_FORM_NATIVE, 0);
        b->native.grid[0] = blocks;
        b->native.grid[1] = b->native.grid[2] = 1;
        b->native.params = &b->params;
        b->native.shared_bytes = most / PER_SM - 2048;
        b->native.timed = 1;
        b->native.tell = DS_TELL_EXACT;
        b->workers = b->native;
        b->workers.kernel = dt_form_launch(&b->f, DS_PTX_FORM_PERSISTENT, 0).kernel;
        b->workers.form = DS_PTX_FORM_PERSISTENT;
        b->urgent = b->native;
        b->urgent_params = (struct dt_form_params){DT_DEVICE_VA + DS_MIB(60), DT_DEVICE_VA + DS_MIB(61), 1};
        b->urgent.params = &b->urgent_params;
        b->urgent.grid[0] = b->sms;
        b->urgent.shared_bytes = most - 2048;
        b->urgent.stream = ds_device_stream(b->f.t->rung, 0, 3);
        b->urgent.timed = 0;
        b->urgent.tell = DS_TELL_SOON;
}

/* Number of loops for blocks that take `us`, from the times of waves with two numbers of loops. */
static uint32_t loops_for(struct bench *b, double us)
{
        double less, more;

        launches_set(b, PER_SM * b->sms, 1000);
        less = median_us(b, &b->native);
        launches_set(b, PER_SM * b->sms, 11000);
        more = median_us(b, &b->native);
        return (uint32_t)DS_MAX(us * 10000 / DS_MAX(more - less, 1.0), 10.0);
}

/* Evicts a launch, which may be ending at this moment. */
static void tell(struct bench *b, uint64_t token)
{
        int r = b->f.t->ops->evict(b->f.t->device, token);

        cr_assert(!r || r == DS_CUDA_NOT_FOUND, "evict says %d", r);
}

/* Time of the urgent kernel from its submission until its end is seen, us; this thread does nothing else. */
static double urgent_us(struct bench *b, uint64_t evict)
{
        double begin = now_us(b);

        if (evict)
                tell(b, evict);
        cr_assert_eq(await(b, dt_launch(b->f.t, &b->urgent))->status, 0);
        return now_us(b) - begin;
}

static void urgent_alone(struct bench *b)
{
        struct series s = {};

        for (uint32_t i = 0; i < b->tries; i++)
                add(&s, urgent_us(b, 0));
        b->urgent_us = at(&s, 0.5);
        tokens_again(b->f.t);
}

/* --- figures ------------------------------------------------------------------------------------------------------ */

static void cost(struct bench *b, double block_us)
{
        static const uint32_t chunks[] = {1, 2, 3, 4, 8, 16};
        double native = median_us(b, &b->native), us;

        printf("%s: blocks of %.0f us, never evicted: native %.1f us; workers with chunks of", b->what, block_us,
                native);
        for (size_t i = 0; i < DS_ARRAY_SIZE(chunks); i++) {
                b->workers.chunk = chunks[i];
                us = median_us(b, &b->workers);
                printf("%s %u: %.1f (%+.2f%%)", i ? "," : "", chunks[i], us, 100 * (us / native - 1));
        }
        printf("\n");
        b->workers.chunk = 1;
}

static void print_series(const char *what, struct series *s)
{
        printf("; %s p50 %.1f us, p90 %.1f, p99 %.1f, most %.1f", what, at(s, 0.5), at(s, 0.9), at(s, 0.99), at(s, 1));
}

/* Latency of an urgent kernel that is submitted in the middle of the launch. */
static void latency(struct bench *b, double block_us, const struct ds_launch *be, int evicts)
{
        static struct series urgent, told, alone;
        const struct ds_completion *c;
        uint64_t token;
        double begin, us;

        urgent.n = told.n = alone.n = 0;
        for (uint32_t i = 0; i < b->tries; i++) {
                token = dt_launch(b->f.t, be);
                dt_form_pass(
                        b->f.t, (uint64_t)(b->whole_us * 100) + dt_form_random(&b->f, (uint32_t)(b->whole_us * 500)));
                begin = now_us(b);
                if (b->f.t->came[token])
                        continue;
                us = urgent_us(b, evicts ? token : 0) - b->urgent_us;
                add(&urgent, DS_MAX(us, 0.0));
                c = await(b, token);
                if (c->status == DS_DEVICE_EVICTED) {
                        add(&told, now_us(b) - begin);
                        b->f.t->ops->drop(b->f.t->device, token);
                }
                us = urgent_us(b, 0) - b->urgent_us;
                add(&alone, DS_MAX(us, 0.0));
                if (b->f.t->next_token > DT_TOKENS - 8)
                        tokens_again(b->f.t);
        }
        tokens_again(b->f.t);
        printf("%s: blocks of %.0f us, ", b->what, block_us);
        if (evicts)
                printf("workers with chunks of %u, evicted", be->chunk);
        else
                printf("native, by stream priority");
        print_series("SMs free after", &urgent);
        print_series("spread alone", &alone);
        if (evicts)
                print_series("completion reported after", &told);
        printf("; alone %.1f; %u tries, %u evicted\n", b->urgent_us, urgent.n, told.n);
}

/* Time from launch to end, us, if the launch is evicted about every pause_ns and resumed at once. */
static double whole_us(struct bench *b, uint64_t pause_ns, uint32_t *ret_evicted)
{
        struct ds_launch l = b->workers;
        double begin;
        uint64_t token;

        clear(b);
        begin = now_us(b);
        for (*ret_evicted = 0;; ++*ret_evicted) {
                token = dt_launch(b->f.t, &l);
                if (pause_ns) {
                        dt_form_pass(b->f.t, pause_ns);
                        if (!b->f.t->came[token])
                                tell(b, token);
                }
                if (await(b, token)->status != DS_DEVICE_EVICTED)
                        break;
                l.resumes = token + 1;
        }
        begin = now_us(b) - begin;
        dt_ok(b->f.t, token);
        every_block_once(b);
        tokens_again(b->f.t);
        return begin;
}

static void resumed(struct bench *b, double block_us)
{
        struct series alone = {}, each = {};
        uint32_t evicted, n = 0;
        double us;

        for (uint32_t i = 0; i < DS_MIN(b->tries, 11u); i++)
                add(&alone, whole_us(b, 0, &evicted));
        for (uint32_t i = 0; i < DS_MIN(b->tries, 11u); i++) {
                us = whole_us(b, (uint64_t)(b->whole_us * 150), &evicted);
                n += evicted;
                if (evicted)
                        add(&each, (us - at(&alone, 0.5)) / evicted);
        }
        printf("%s: blocks of %.0f us, evicted every %.0f us and resumed at once: %.1f us each time (%u times; launch "
               "alone "
               "%.1f "
               "us)\n",
                b->what, block_us, b->whole_us * 0.15, at(&each, 0.5), n, at(&alone, 0.5));
}

int main(int argc, char **argv)
{
        static const double sizes[] = {2, 5, 10, 50, 200};
        const char *device = getenv("DETSHARE_TEST_DEVICE"), *spec;
        const struct ds_device_ops *ops = ds_device_find(device && device[0] ? device : "cuda:0", &spec);
        char *ptx = dt_forms_made(".version 7.0\n.target sm_70\n.address_size 64\n" DT_PTX_FORM_NATIVE);
        struct bench b = {.tries = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 300,
                .whole_us = argc > 2 ? strtod(argv[2], NULL) : WHOLE_US};

        if (!ops || !b.tries || b.tries > TRIES_MAX)
                return 2;
        b.f = dt_forms_of(ops, spec, 60, ptx);
        free(ptx);
        b.what = ops->info(b.f.t->device)->simulated ? "sim" : ops->info(b.f.t->device)->name;
        b.sms = ops->info(b.f.t->device)->n_sms;
        setvbuf(stdout, NULL, _IOLBF, 0);
        for (size_t i = 0; i < DS_ARRAY_SIZE(sizes); i++) {
                const uint32_t loops = loops_for(&b, sizes[i]);
                const uint32_t waves = (uint32_t)DS_MAX(b.whole_us / sizes[i], 4.0);

                launches_set(&b, DS_MIN(PER_SM * b.sms * waves, BLOCKS_MAX), loops);
                urgent_alone(&b);
                cost(&b, sizes[i]);
                latency(&b, sizes[i], &b.native, 0);
                for (b.workers.chunk = 1; b.workers.chunk <= (sizes[i] > 5 ? 1u : 3u); b.workers.chunk++)
                        latency(&b, sizes[i], &b.workers, 1);
                b.workers.chunk = 1;
                resumed(&b, sizes[i]);
        }
        dt_close(b.f.t);
        return 0;
}
