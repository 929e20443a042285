/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printing results
 */
#include "replay/report.h"

#include <inttypes.h>
#include <string.h>

#include "replay/json.h"
#include "util/macro.h"

static double seconds(uint64_t ns)
{
        return (double)ns / 1e9;
}

static double per_second(uint64_t n, double real_s)
{
        return real_s > 0 ? (double)n / real_s : 0;
}

/* Format a value for a cell of the table; "-" if there is none */
static const char *cell(char *text, size_t size, int there, int digits, double value, const char *unit)
{
        snprintf(text, size, there ? "%.*f%s" : "-", digits, value, unit);
        return text;
}

struct ratios {
        double p99, steps; /* p99 latency and steps, divided by those of the session alone on the GPU; 0: not known */
        double slo;        /* share of the arrived requests that ended within the SLO, percent */
};

static struct ratios ratios_of(const struct ds_replay_report *report, uint32_t run, uint32_t i)
{
        const struct ds_replay_session_result *result = &report->results[run].sessions[i];
        const struct ds_replay_session_result *alone = report->alone ? &report->alone[i] : NULL;
        struct ratios ratios = {};

        if (alone && alone->p99_ns && result->p99_ns)
                ratios.p99 = (double)result->p99_ns / (double)alone->p99_ns;
        if (alone && alone->steps > 0)
                ratios.steps = result->steps / seconds(report->config->duration_ns) /
                               (alone->steps / seconds(report->alone_ns));
        if (result->arrived)
                ratios.slo = 100.0 * (double)result->in_slo / (double)result->arrived;
        return ratios;
}

static void print_session(const struct ds_replay_report *report, uint32_t run, uint32_t i, FILE *out)
{
        const struct ds_replay_session *session = &report->config->sessions[i];
        const struct ds_replay_session_result *r = &report->results[run].sessions[i];
        struct ratios ratios = ratios_of(report, run, i);
        char p99[24], slo[24], steps[24];

        fprintf(out, "%-24.24s %-2s %-24.24s %9" PRIu64 " %9" PRIu64 " %10.3f %10.3f %10.3f %8s %7s %10.2f %8s\n",
                report->policies[run], session->class_ == DETSHARE_CLASS_LS ? "ls" : "be", session->name, r->arrived,
                r->ended, (double)r->p50_ns / 1e6, (double)r->p99_ns / 1e6, (double)r->max_ns / 1e6,
                cell(p99, sizeof(p99), ratios.p99 > 0, 2, ratios.p99, ""),
                cell(slo, sizeof(slo), session->slo_ns || session->slo_permille, 2, ratios.slo, "%"),
                r->steps / seconds(report->config->duration_ns),
                cell(steps, sizeof(steps), ratios.steps > 0, 3, ratios.steps, ""));
}

void ds_replay_print(const struct ds_replay_report *report, FILE *out)
{
        const struct ds_replay_config *config = report->config;
        const struct ds_replay_result *r;

        fprintf(out, "%s, %.3f s of virtual time, seed %" PRIu64 ": every figure is a simulator's (sim)\n",
                config->device, seconds(config->duration_ns), report->seed);
        fprintf(out, "%-24s %-2s %-24s %9s %9s %10s %10s %10s %8s %7s %10s %8s\n", "policy", "", "session", "arrived",
                "ended", "p50 ms", "p99 ms", "max ms", "p99/alone", "in SLO", "steps/s", "of alone");
        for (uint32_t run = 0; run < report->n; run++)
                for (uint32_t i = 0; i < config->n_sessions; i++)
                        print_session(report, run, i, out);
        fprintf(out, "\n%-24s %8s %12s %12s %10s %16s\n", "policy", "GPU busy", "kernels", "decisions", "real s",
                "kernels/s (sim)");
        for (uint32_t run = 0; run < report->n; run++) {
                r = &report->results[run];
                fprintf(out, "%-24.24s %7.2f%% %12" PRIu64 " %12" PRIu64 " %10.3f %16.0f%s\n", report->policies[run],
                        100 * seconds(r->busy_ns) / seconds(config->duration_ns), r->kernels, r->decisions, r->real_s,
                        per_second(r->kernels, r->real_s), r->fallbacks ? "  fifo in its place" : "");
        }
        for (uint32_t run = 0; run < report->n; run++)
                if (report->results[run].fallbacks)
                        fprintf(out, "%s: %s; fifo replaced it, and the figures above are of both\n",
                                report->policies[run], report->results[run].fallback);
}

static void json_session(const struct ds_replay_report *report, uint32_t run, uint32_t i, FILE *out)
{
        const struct ds_replay_session *session = &report->config->sessions[i];
        const struct ds_replay_session_result *r = &report->results[run].sessions[i];
        struct ratios ratios = ratios_of(report, run, i);

        fprintf(out, "%s\n      {\"name\": ", i ? "," : "");
        ds_replay_json_text(out, session->name);
        fprintf(out, ", \"class\": \"%s\", \"workload\": ", session->class_ == DETSHARE_CLASS_LS ? "ls" : "be");
        ds_replay_json_text(out, session->workload[0]->profile->name);
        fprintf(out, ", \"source\": ");
        ds_replay_json_text(out, session->workload[0]->profile->source);
        fprintf(out,
                ", \"arrived\": %" PRIu64 ", \"ended\": %" PRIu64 ", \"p50_ms\": %.6f, \"p99_ms\": %.6f, "
                "\"max_ms\": %.6f, \"kernels\": %" PRIu64 ", \"device_s\": %.6f, \"steps_per_s\": %.6f",
                r->arrived, r->ended, (double)r->p50_ns / 1e6, (double)r->p99_ns / 1e6, (double)r->max_ns / 1e6,
                r->kernels, seconds(r->device_ns), r->steps / seconds(report->config->duration_ns));
        if (session->slo_ns)
                fprintf(out, ", \"slo_ms\": %.6f", (double)session->slo_ns / 1e6);
        if (session->slo_permille)
                fprintf(out, ", \"slo_factor\": %.3f, \"slo_found_ms\": %.6f", session->slo_permille / 1e3,
                        (double)r->slo_ns / 1e6);
        if (session->slo_ns || session->slo_permille)
                fprintf(out, ", \"in_slo_percent\": %.4f", ratios.slo);
        if (ratios.p99 > 0)
                fprintf(out, ", \"p99_over_alone\": %.6f", ratios.p99);
        if (ratios.steps > 0)
                fprintf(out, ", \"steps_of_alone\": %.6f", ratios.steps);
        for (uint64_t k = 0; r->latencies_ns && k < r->ended; k++)
                fprintf(out, "%s%.6f", k ? ", " : ", \"latencies_ms\": [", (double)r->latencies_ns[k] / 1e6);
        fprintf(out, r->latencies_ns && r->ended ? "]}" : "}");
}

void ds_replay_print_json(const struct ds_replay_report *report, FILE *out)
{
        const struct ds_replay_config *config = report->config;
        const struct ds_replay_result *r;

        fprintf(out,
                "{\n  \"simulated\": true,\n  \"device\": \"%s\",\n  \"duration_s\": %.6f,\n  \"seed\": %" PRIu64
                ",\n  \"runs\": [",
                config->device, seconds(config->duration_ns), report->seed);
        for (uint32_t run = 0; run < report->n; run++) {
                r = &report->results[run];
                fprintf(out, "%s\n    {\"policy\": ", run ? "," : "");
                ds_replay_json_text(out, report->policies[run]);
                fprintf(out,
                        ", \"busy\": %.6f, \"kernels\": %" PRIu64 ", \"decisions\": %" PRIu64
                        ", \"migrations\": %" PRIu64 ", \"evictions\": %" PRIu64 ", \"fallbacks\": %" PRIu64
                        ", \"fallback\": ",
                        seconds(r->busy_ns) / seconds(config->duration_ns), r->kernels, r->decisions, r->migrations,
                        r->evictions, r->fallbacks);
                ds_replay_json_text(out, r->fallback);
                fprintf(out, ", \"real_s\": %.6f, \"kernels_per_s\": %.0f, \"sessions\": [", r->real_s,
                        per_second(r->kernels, r->real_s));
                for (uint32_t i = 0; i < config->n_sessions; i++)
                        json_session(report, run, i, out);
                fprintf(out, "\n    ]}");
        }
        fprintf(out, "\n  ]\n}\n");
}
