/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-replay: simulates how policies serve a load of kernels with known durations
 *
 * It runs sessions on a simulated GPU, under the daemon's own scheduler and policy plug-ins. Exit status 0: done; 1: a
 * file or a simulation failed; 2: the command line is wrong, with one line about it; 3: done, but fifo replaced a
 * policy that failed, and the report has the reason.
 */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replay/options.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"
#include "util/text.h"

#define EXIT_BAD 1
#define EXIT_USAGE 2
#define EXIT_FALLBACK 3
#define ALONE_MAX_NS (60 * DS_NS_PER_S)
#define PATH_MAX_ 4096
/* Result of functions in this file, beside the codes of the headers: fifo replaced a policy. */
#define DS_REPLAY_FELL_BACK 100

static int complain(int r, const char *message)
{
        if (r == -ENOMEM)
                message = "out of memory";
        if (message[0] || r < 0)
                fprintf(stderr, "detshare-replay: %s\n", message[0] ? message : strerror(-r));
        return r == DS_REPLAY_E_USAGE || r == DS_REPLAY_E_NO_WORKLOAD || r == DS_REPLAY_E_BAD_RULE ||
                               r == DS_REPLAY_E_BAD_DEVICE || r == DS_REPLAY_E_BAD_POLICY
                       ? EXIT_USAGE
                       : EXIT_BAD;
}

/* Find the directory of the policies: beside this program in a build tree, or that of the installation. "" if there
 * is none. */
static void find_policies(char path[PATH_MAX_])
{
        static const char *const places[] = {"policies", "../lib*/detshare/policies", "../lib/*/detshare/policies"};
        char self[PATH_MAX_ / 2], pattern[PATH_MAX_];
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        glob_t found;

        path[0] = 0;
        if (n <= 0)
                return;
        self[n] = 0;
        *strrchr(self, '/') = 0;
        for (size_t i = 0; !path[0] && i < DS_ARRAY_SIZE(places); i++) {
                snprintf(pattern, sizeof(pattern), "%s/%s", self, places[i]);
                if (!glob(pattern, 0, NULL, &found)) {
                        snprintf(path, PATH_MAX_, "%s", found.gl_pathv[0]);
                        globfree(&found);
                }
        }
}

/* Search the directories that the user gave first, then the installation's. */
static void add_policy_dirs(const struct ds_replay_options *o, const char *installed, struct ds_replay_config *config)
{
        config->policy_dir = o->n_policy_dirs ? o->policy_dirs[0] : installed;
        for (uint32_t i = 1; i < o->n_policy_dirs; i++)
                config->more_dirs[config->n_more_dirs++].path = o->policy_dirs[i];
        if (o->n_policy_dirs && installed[0])
                config->more_dirs[config->n_more_dirs++].path = installed;
}

/* Simulate each session with the GPU to itself, under the built-in policy. */
static int run_alone(const struct ds_replay_config *config, struct ds_replay_session_result *alone, uint64_t *ret_ns,
        char *message, size_t message_size)
{
        ds_cleanup(ds_freep) struct ds_replay_result *result = NULL;
        struct ds_replay_config one = *config;
        int r = 0;

        result = ds_alloc0(1, sizeof(*result));
        if (!result)
                return ds_error_origin(-ENOMEM);
        one.policy = "fifo";
        one.n_params = 0;
        one.n_sessions = 1;
        one.trace = NULL;
        one.latencies = 0;
        *ret_ns = one.duration_ns = DS_MIN(config->duration_ns, ALONE_MAX_NS);
        for (uint32_t i = 0; !r && i < config->n_sessions; i++) {
                one.sessions = &config->sessions[i];
                r = ds_replay_run(&one, message, message_size, result);
                alone[i] = result->sessions[0];
        }
        return ds_error_trace(r);
}

/* Run one simulation after the other. Only the first one is traced. */
static int run_all(const struct ds_replay_options *o, struct ds_replay_config *config, struct ds_replay_report *report,
        char *message, size_t message_size)
{
        int r = 0;

        for (uint32_t i = 0; !r && i < o->n_policies; i++) {
                config->policy = o->policies[i].name;
                config->n_params = o->policies[i].n_params;
                memcpy(config->params, o->policies[i].params, sizeof(config->params));
                report->policies[i] = o->policies[i].text;
                r = ds_replay_run(config, message, message_size, &report->results[i]);
                config->trace = NULL;
                report->n = i + 1;
        }
        return ds_error_trace(r);
}

/* Whether fifo replaced one of the policies. */
static int fell_back(const struct ds_replay_report *report)
{
        for (uint32_t i = 0; i < report->n; i++)
                if (report->results[i].fallbacks)
                        return 1;
        return 0;
}

static void free_results(struct ds_replay_result *results, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++)
                for (uint32_t k = 0; k < DS_REPLAY_SESSIONS_MAX; k++)
                        ds_free(results[i].sessions[k].latencies_ns);
        ds_free(results);
}

/* Run everything. Return 0, DS_REPLAY_FELL_BACK after the report is printed, or an error. */
static int run(const struct ds_replay_options *o, FILE *trace, char *message, size_t message_size)
{
        struct ds_replay_result *results = ds_alloc0(o->n_policies, sizeof(*results));
        struct ds_replay_session_result alone[DS_REPLAY_SESSIONS_MAX] = {};
        struct ds_replay_report report = {.seed = o->seed};
        char policy_dir[PATH_MAX_];
        struct ds_replay_config config = {
                .device = o->device,
                /* policies may have any owner: this program has only the rights of the caller that chose them */
                .policy_any_owner = 1,
                .sessions = o->sessions,
                .n_sessions = o->n_sessions,
                .duration_ns = o->duration_ns,
                .profiled = o->profiled,
                .latencies = o->latencies,
                .transform = o->transform,
                .blocks = o->blocks,
                .be_channels = (uint32_t)o->be_channels,
                .trace = trace,
                .trace_json = trace && strlen(o->trace) > 5 && !strcmp(o->trace + strlen(o->trace) - 5, ".json"),
        };
        int r;

        if (!results)
                return ds_error_origin(-ENOMEM);
        find_policies(policy_dir);
        add_policy_dirs(o, policy_dir, &config);
        report.config = &config;
        report.results = results;
        r = run_all(o, &config, &report, message, message_size);
        if (!r && o->alone) {
                r = run_alone(&config, alone, &report.alone_ns, message, message_size);
                report.alone = alone;
        }
        if (!r) {
                (o->json ? ds_replay_print_json : ds_replay_print)(&report, stdout);
                r = fell_back(&report) ? DS_REPLAY_FELL_BACK : 0;
        }
        free_results(results, o->n_policies);
        return ds_error_trace(r);
}

static int run_traced(const struct ds_replay_options *o, char *message, size_t message_size)
{
        FILE *trace = o->trace ? fopen(o->trace, "we") : NULL;
        int r;

        if (o->trace && !trace) {
                snprintf(message, message_size, "%.200s: %s", o->trace, strerror(errno));
                return DS_REPLAY_E_BAD_FILE;
        }
        r = run(o, trace, message, message_size);
        if (trace && (ferror(trace) | fclose(trace)) && (!r || r == DS_REPLAY_FELL_BACK)) {
                snprintf(message, message_size, "%.200s: could not be written", o->trace);
                return DS_REPLAY_E_BAD_FILE;
        }
        return ds_error_trace(r);
}

static void list(void)
{
        const char *about, *name;

        for (size_t i = 0; (name = ds_replay_builtin(i, &about)); i++)
                printf("%-22s %s (synthesised from quantiles measured on an H200)\n", name, about);
}

static int print_workload(const char *name, char *message, size_t message_size)
{
        ds_cleanup(ds_freep) char *text = NULL;
        int known;

        text = ds_replay_synthesise(name, &known);
        if (!known) {
                snprintf(message, message_size, "%.60s: no such workload, see --list", name);
                return DS_REPLAY_E_NO_WORKLOAD;
        }
        if (!text)
                return ds_error_origin(-ENOMEM);
        fputs(text, stdout);
        return 0;
}

static int convert(const struct ds_replay_options *o, char *message, size_t message_size)
{
        ds_cleanup(ds_freep) char *csv = NULL, *text = NULL;
        size_t size;
        int r;

        r = ds_replay_read_file(o->argument, message, message_size, &csv, &size);
        if (!r)
                r = ds_replay_convert(o->argument, csv, size, o->sms, message, message_size, &text);
        if (r)
                return ds_error_trace(r);
        fputs(text, stdout);
        return 0;
}

static int act(const struct ds_replay_options *o, char *message, size_t message_size)
{
        switch (o->mode) {
        case DS_REPLAY_MODE_RUN:
                return run_traced(o, message, message_size);
        case DS_REPLAY_MODE_LIST:
                list();
                return 0;
        case DS_REPLAY_MODE_WORKLOAD:
                return print_workload(o->argument, message, message_size);
        case DS_REPLAY_MODE_CONVERT:
                return convert(o, message, message_size);
        case DS_REPLAY_MODE_HELP:
                fputs(ds_replay_usage, stdout);
                return 0;
        case DS_REPLAY_MODE_VERSION:
                printf("detshare-replay %s\n", DETSHARE_VERSION);
                return 0;
        }
        return ds_error_origin(-EINVAL);
}

int main(int argc, char **argv)
{
        static struct ds_replay_options options;
        char message[512] = "";
        int r;

        ds_log_setup("detshare-replay", DS_LOG_WARNING);
        r = ds_replay_options_read(&options, argc, argv, message, sizeof(message));
        if (!r)
                r = act(&options, message, sizeof(message));
        if ((!r || r == DS_REPLAY_FELL_BACK) && fflush(stdout)) {
                snprintf(message, sizeof(message), "standard output: %s", strerror(errno));
                r = DS_REPLAY_E_BAD_FILE;
        }
        ds_replay_options_free(&options);
        ds_text_make_safe(message); /* the message quotes files, which may contain control characters */
        if (r == DS_REPLAY_FELL_BACK)
                return EXIT_FALLBACK;
        return r ? complain(r, message) : 0;
}
