/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-serve: a model pack as a service
 *
 * Reads the pack, finds the driver, connects, and loads the model. Every instance then runs every case once: that warms
 * it up and gives the bytes that all later outputs are compared with. Then this program makes requests, or takes them
 * from a socket. Exit status 1 also means that an output was wrong or not the same every time.
 */
#include <detshare/detshare.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "serve/bounds.h"
#include "serve/coloured.h"
#include "serve/kernels.h"
#include "serve/listen.h"
#include "serve/load.h"
#include "serve/orders.h"
#include "serve/report.h"
#include "serve/tensors.h"
#include "util/alloc.h"
#include "util/macro.h"

#define KERNEL_RUNS 20u

struct program {
        struct sv_options options;
        struct sv_pack *pack;
        struct sv_driver driver;
        struct sv_clock clock;
        struct sv_model model;
        struct sv_coloured *coloured; /* NULL: tensors lie in one place */
        struct sv_cases cases;
        struct sv_instance *instances;
        unsigned n_instances; /* number of open instances */
        struct sv_report report;
};

static int complain(const struct sv_why *why)
{
        fprintf(stderr, "detshare-serve: %s\n", why->text);
        return SV_EXIT_FAILED;
}

/* --- the session -------------------------------------------------------------------------------------------------- */

/* An option wins over the environment, and the environment over the pack. */
static int set_environment(const struct program *p, struct sv_why *why)
{
        const struct sv_options *o = &p->options;
        const char *class_ = o->class_ ? o->class_ : p->pack->class_ == SV_LS ? "ls" : "be";
        char number[64], name[64];

        (void)snprintf(number, sizeof(number), "%.6f", o->slo_ms); /* the library reads no exponents */
        (void)snprintf(name, sizeof(name), "%.63s", o->name ? o->name : p->pack->model);
        if (setenv("DETSHARE_CLASS", class_, o->class_ != NULL) || setenv("DETSHARE_NAME", name, o->name != NULL) ||
                (o->slo_ms > 0 && setenv("DETSHARE_SLO_MS", number, 1)))
                return sv_fail(why, "out of memory");
        return 0;
}

static bool may_fall_back(void)
{
        const char *fallback = getenv("DETSHARE_FALLBACK");

        return fallback && !strcmp(fallback, "native");
}

/* Connects before the driver does, for messages with more detail than CUDA's error codes. 0, or the exit status. */
static int connect_daemon(struct program *p)
{
        struct detshare_stats stats = {.size = sizeof(stats)};
        struct sv_why why = {""};
        int r;

        if (set_environment(p, &why))
                return complain(&why);
        r = detshare_connect(NULL);
        if (r < 0 && may_fall_back())
                return 0;
        /* the library has printed the reason */
        if (r == DETSHARE_E_UNREACHABLE)
                return SV_EXIT_UNREACHABLE;
        if (r < 0 || (r = detshare_get_stats(&stats)) < 0) {
                (void)sv_fail(&why, "%s: %s", detshare_strerror(r), detshare_last_error());
                return complain(&why);
        }
        p->report.class_ = stats.class_ == DETSHARE_LS ? "ls" : "be";
        if (!strcasecmp(getenv("DETSHARE_CLASS"), "ls") && stats.class_ != DETSHARE_LS)
                fprintf(stderr, "detshare-serve: the daemon does not grant this user class ls: it is be\n");
        p->clock.simulated = detshare_simulated() == 1;
        return 0;
}

/* --- a model that answers ----------------------------------------------------------------------------------------- */

static int open_instances(struct program *p, struct sv_why *why)
{
        const unsigned n = p->options.instances;
        bool same;

        p->report.same = true;
        p->instances = ds_alloc0(n, sizeof(*p->instances));
        if (!p->instances)
                return sv_fail(why, "out of memory");
        while (p->n_instances < n) {
                struct sv_instance *instance = &p->instances[p->n_instances];

                if (sv_instance_open(instance, &p->model, why))
                        return -1;
                p->n_instances++;
                if (p->coloured && sv_placed_open(&instance->placed, p->coloured, instance, why))
                        return -1;
        }
        for (unsigned i = 0; i < n; i++) {
                if (sv_cases_run(&p->cases, &p->instances[i], &same, why))
                        return -1;
                p->report.same = p->report.same && same;
        }
        return 0;
}

static int open_coloured(struct program *p, struct sv_why *why)
{
        if (!p->options.bimodal)
                return 0;
        if (p->driver.native || !detshare_connected())
                return sv_fail(why, "--bimodal is for DetShare: natively there is no coloured memory");
        if (sv_coloured_open(&p->coloured, &p->model, p->options.bimodal, p->options.follow, why))
                return -1;
        p->report.bimodal = true;
        return 0;
}

static enum sv_which which_driver(const struct sv_options *o)
{
        if (o->as_found)
                return SV_DRIVER_FOUND;
        return o->native ? SV_DRIVER_NATIVE : SV_DRIVER_DETSHARE;
}

/* 0, or the exit status. */
static int prepare(struct program *p)
{
        const struct sv_clock real = {.simulated = false};
        const uint64_t begin = sv_now(&real);
        struct sv_why why = {""};
        int code;

        if (sv_driver_load(&p->driver, which_driver(&p->options), &why))
                return complain(&why);
        code = p->driver.native ? 0 : connect_daemon(p);
        if (code)
                return code;
        /* declares the thread: what precedes orders takes the same virtual time on every machine */
        if (p->options.mode == SV_ORDERS)
                (void)sv_now(&p->clock);
        if (sv_driver_begin(&p->driver, &why) || sv_model_open(&p->model, &p->driver, p->pack, &why) ||
                sv_cases_open(&p->cases, p->pack, &why) || open_coloured(p, &why) || open_instances(p, &why))
                return complain(&why);
        p->report.gpu = p->driver.gpu;
        p->report.driver = p->driver.path;
        p->report.native = p->driver.native || !detshare_connected();
        p->report.simulated = p->clock.simulated;
        p->report.prepare_ns = sv_now(&real) - begin;
        return 0;
}

static int look(struct program *p, struct sv_why *why)
{
        struct sv_report *report = &p->report;

        report->judged = p->options.check;
        report->n_cases = p->options.check || p->options.digest ? p->cases.n : 0;
        if (p->options.check && !p->pack->n_cases)
                return sv_fail(why, "%s has no cases to be checked", p->pack->path);
        for (uint32_t i = 0; i < report->n_cases; i++) {
                sv_cases_digest(&p->cases, i, report->digests[i]);
                if (p->options.check && sv_cases_judge(&p->cases, i, &report->verdicts[i], why))
                        return -1;
        }
        if (!p->options.kernels)
                return 0;
        return sv_kernels_write(&p->instances[0], &p->cases, &p->clock, KERNEL_RUNS, p->options.kernels, why);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static int write_latencies(const struct program *p, const struct sv_samples *samples, struct sv_why *why)
{
        FILE *file = p->options.latencies ? fopen(p->options.latencies, "we") : NULL;
        int bad;

        if (!p->options.latencies)
                return 0;
        if (!file)
                return sv_fail(why, "%s: %s", p->options.latencies, strerror(errno));
        for (size_t i = 0; i < samples->n; i++)
                fprintf(file, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", samples->list[i].arrival, samples->list[i].begin,
                        samples->list[i].end);
        bad = ferror(file);
        return fclose(file) || bad ? sv_fail(why, "%s cannot be written", p->options.latencies) : 0;
}

static int take_samples(struct program *p, const struct sv_samples *samples, struct sv_why *why)
{
        struct sv_report *report = &p->report;
        const double slo_ns = p->options.slo_ms * 1e6;

        report->served = true;
        report->requests = samples->total;
        for (size_t i = 0; i < samples->n; i++)
                report->in_slo += (double)(samples->list[i].end - samples->list[i].arrival) <= slo_ns;
        if (sv_samples_latency(samples, &report->latency) || sv_samples_service(samples, &report->service))
                return sv_fail(why, "out of memory");
        return write_latencies(p, samples, why);
}

static int get_arrivals(const struct sv_options *o, struct sv_arrivals *arrivals, struct sv_why *why)
{
        *arrivals = (struct sv_arrivals){.n = 0};
        if (o->mode == SV_TRACE && sv_arrivals_read(arrivals, o->trace, o->speed, why))
                return -1;
        if (o->mode == SV_TRACE)
                return arrivals->n ? 0 : sv_fail(why, "%s: there is no arrival in it", o->trace);
        return o->mode == SV_RANDOM ? sv_arrivals_random(arrivals, o->rate, o->seconds, o->seed, why) : 0;
}

static int make_requests(struct program *p, struct sv_why *why)
{
        struct sv_arrivals arrivals;
        struct sv_result result;
        struct sv_load load = {
                .clock = &p->clock,
                .cases = &p->cases,
                .instances = p->instances,
                .n_instances = p->n_instances,
                .requests = p->options.requests,
                .ns = (uint64_t)(p->options.seconds * 1e9),
        };
        int r;

        if (get_arrivals(&p->options, &arrivals, why))
                return -1;
        load.arrivals = arrivals.n ? &arrivals : NULL;
        r = sv_load_run(&load, &result, why);
        p->report.ns = result.ns;
        p->report.different = result.different;
        if (!r)
                r = take_samples(p, &result.samples, why);
        sv_samples_clear(&result.samples);
        sv_arrivals_clear(&arrivals);
        return r;
}

static int take_orders(struct program *p, struct sv_why *why)
{
        const struct sv_load load = {
                .clock = &p->clock, .cases = &p->cases, .instances = p->instances, .n_instances = p->n_instances};

        return sv_orders_run(&load, &p->report, why);
}

static int take_requests(struct program *p, struct sv_why *why)
{
        const struct sv_listen listen = {
                .path = p->options.listen,
                .clock = &p->clock,
                .instances = p->instances,
                .n_instances = p->n_instances,
                .n_connections = p->options.connections,
                .wait_ms = (uint64_t)(p->options.wait * 1e3),
        };
        struct sv_heard heard;
        int r = sv_listen_run(&listen, &heard, why);

        p->report.ns = heard.ns;
        p->report.bad = heard.bad;
        p->report.slow = heard.slow;
        p->report.late = heard.late;
        p->report.busy = heard.busy;
        p->report.dropped = heard.dropped;
        if (!r)
                r = take_samples(p, &heard.samples, why);
        sv_samples_clear(&heard.samples);
        return r;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static void on_signal(int signal)
{
        sv_load_stop();
}

/* Called before there is any thread: threads of libraries must not receive these signals. */
static void prepare_signals(const struct sv_options *o)
{
        /* a second signal ends the program: a running kernel may never end */
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGINT);
        (void)sigaddset(&set, SIGTERM);
        if (o->mode == SV_LISTEN)
                (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
        else if (o->mode != SV_LOOK && o->mode != SV_ORDERS) {
                (void)sigaction(SIGINT, &action, NULL);
                (void)sigaction(SIGTERM, &action, NULL);
        }
}

static int is_good(const struct sv_report *report)
{
        for (uint32_t i = 0; report->judged && i < report->n_cases; i++)
                if (report->verdicts[i].wrong)
                        return 0;
        return report->same && !report->different;
}

static int serve(struct program *p, struct sv_why *why)
{
        switch (p->options.mode) {
        case SV_LOOK:
                return 0;
        case SV_LISTEN:
                return take_requests(p, why);
        case SV_ORDERS:
                return take_orders(p, why);
        default:
                return make_requests(p, why);
        }
}

static int run(struct program *p)
{
        struct sv_why why = {""};
        int code = prepare(p);

        if (code)
                return code;
        if (look(p, &why))
                return complain(&why);
        sv_clock_leave(&p->clock);
        if (serve(p, &why))
                return complain(&why);
        if (p->coloured)
                sv_coloured_figures(p->coloured, &p->report.coloured);
        if (p->options.mode != SV_ORDERS)
                sv_report(&p->report);
        return is_good(&p->report) ? SV_EXIT_OK : SV_EXIT_FAILED;
}

/* The device memory that tensors in two places would take. */
static int look_bimodal(struct program *p, struct sv_bm_footprint *ret, struct sv_why *why)
{
        ds_cleanup(ds_freep) bool *bound = ds_alloc0(p->pack->n_launches, sizeof(*bound));
        ds_cleanup(sv_tensors_close) struct sv_tensors tensors = {.pack = NULL};
        ds_cleanup(sv_bimodal_freep) struct sv_bimodal *bimodal = NULL;

        if (!bound)
                return sv_fail(why, "out of memory");
        if (sv_bounds_read(p->pack, p->options.bimodal, bound, why) ||
                sv_tensors_open(&tensors, p->pack, bound, p->pack->class_ == SV_LS, why))
                return -1;
        if (sv_bimodal_new(&tensors.model, &bimodal))
                return sv_fail(why, "%s: its tensors make no plan", p->pack->path);
        for (uint32_t i = 0; i < p->pack->n_launches; i++)
                p->report.memory_bound += bound[i];
        sv_bimodal_footprint(bimodal, p->pack->arena, ret);
        p->report.footprint = ret;
        return 0;
}

static int show(struct program *p)
{
        struct sv_why why = {""};
        struct sv_bm_footprint footprint;

        if (!p->options.trusted && sv_pack_verify(p->pack, &why))
                return complain(&why);
        if (p->options.bimodal && look_bimodal(p, &footprint, &why))
                return complain(&why);
        sv_report_pack(&p->report);
        return SV_EXIT_OK;
}

static void clean_up(struct program *p)
{
        for (unsigned i = 0; i < p->n_instances; i++)
                sv_instance_close(&p->instances[i]);
        ds_free(p->instances);
        (void)sv_coloured_close(p->coloured);
        sv_cases_close(&p->cases);
        sv_model_close(&p->model);
        sv_driver_close(&p->driver);
        (void)sv_pack_free(p->pack);
}

int main(int argc, char **argv)
{
        static struct program p;
        struct sv_why why = {""};
        int code = sv_options_parse(argc, argv, &p.options);

        if (code >= 0)
                return code;
        p.report.options = &p.options;
        prepare_signals(&p.options);
        if (sv_pack_open(p.options.pack, &p.pack, &why))
                return complain(&why);
        p.pack->trusted = p.options.trusted;
        p.report.pack = p.pack;
        code = p.options.show ? show(&p) : run(&p);
        clean_up(&p);
        if (fflush(stdout) || ferror(stdout))
                return code ? code : SV_EXIT_FAILED;
        return code;
}
