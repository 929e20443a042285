/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl status
 *
 * Also works while the worker restarts. Figures that only the worker has are then the last known ones, and marked so.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"

static int row(struct ctl_table *table, const char *key, const char *value)
{
        return ctl_table_row(table, (const char *const[]){key, value});
}

/* Appends rows about the SMs and about memory that the daemon uses itself. */
static int topology(const struct dsc_status *s, struct ctl_table *table)
{
        char value[256], gpcs[32] = "", own[32];
        if (!s->n_sms)
                return 0;
        if (s->n_gpcs)
                snprintf(gpcs, sizeof(gpcs), ", %" PRIu32 " GPCs", s->n_gpcs);
        snprintf(value, sizeof(value), "%" PRIu32 " SMs, %" PRIu32 " TPCs%s, %" PRIu32 " rungs, own memory %s",
                s->n_sms, s->n_tpcs, gpcs, s->n_rungs, ctl_bytes(s->device_own, own));
        return row(table, "GPU", value);
}

/* Returns byte i of the GPU's topology, see StatusReply in detshare.proto. */
static unsigned topology_byte(const struct dsc_status *s, size_t i)
{
        char digits[3] = "ff";

        if (2 * i + 1 < strlen(s->topology))
                memcpy(digits, s->topology + 2 * i, 2);
        return (unsigned)strtoul(digits, NULL, 16);
}

/* Writes the list of GPCs with their TPCs as JSON. */
static void gpcs_json(const struct dsc_status *s, struct ctl_text *text)
{
        ctl_json_begin(text, "gpc_tpcs", '[');
        for (uint32_t gpc = 0; gpc < s->n_gpcs && gpc < 255; gpc++) {
                ctl_json_begin(text, NULL, '[');
                for (uint32_t i = 0; i < s->n_tpcs; i++)
                        if (topology_byte(s, i) == gpc)
                                ctl_json_number(text, NULL, i);
                ctl_json_end(text, ']');
        }
        ctl_json_end(text, ']');
}

/* Appends rows about loading and compiling code since the daemon's start. */
static int code_figures(const struct dsc_status *s, struct ctl_table *table)
{
        char value[256], a[32];
        int r = 0;
        if (s->images) {
                snprintf(value, sizeof(value), "%" PRIu64 " loaded, %" PRIu64 " of them from the cache", s->images,
                        s->images_known);
                r = row(table, "images", value);
        }
        if (s->code_remembered + s->code_stored + s->code_compiled + s->code_files) {
                snprintf(value, sizeof(value),
                        "%" PRIu64 " times, %" PRIu64 " found in memory, %" PRIu64 " on disk (%" PRIu64 " files, %s%s)",
                        s->code_compiled, s->code_remembered, s->code_stored, s->code_files,
                        ctl_bytes(s->code_bytes, a), s->code_damaged ? ", some were damaged" : "");
                r = r ? r : row(table, "compiled", value);
        }
        return r;
}

/* Appends rows about transformed kernels (forms): how many were made and used. */
static int forms_figures(const struct dsc_status *s, struct ctl_table *table, const char *since)
{
        char value[256];
        if (!(s->forms_made + s->forms_found + s->forms_failed + s->modules_transformed))
                return 0;
        snprintf(value, sizeof(value),
                "%" PRIu32 " modules; made %" PRIu64 " times, found %" PRIu64 " times, failed %" PRIu64 " times",
                s->modules_transformed, s->forms_made, s->forms_found, s->forms_failed);
        int r = row(table, "forms", value);
        snprintf(value, sizeof(value),
                "%" PRIu64 " sliced launches, %" PRIu64 " persistent, %" PRIu64 " evictions, %" PRIu64 " resumed%s",
                s->launches_sliced, s->launches_persistent, s->evictions, s->resumes, since);
        return r ? r : row(table, "", value);
}

/* Appends rows about the pool of memory with known channels; none if no pool is configured. */
static int channel_figures(const struct dsc_status *s, struct ctl_table *table)
{
        char value[256], a[32];
        if (!s->pool_bytes)
                return 0;
        snprintf(value, sizeof(value),
                "%" PRIu32 " of %" PRIu32 " for best effort; sectors of %" PRIu32
                " bytes: %.1f%% be, %.1f%% ls, %.1f%% lost",
                s->channels_be, s->channels, s->pool_sector_bytes, s->pool_be_permille / 10.0,
                s->pool_ls_permille / 10.0, s->pool_lost_permille / 10.0);
        int r = row(table, "channels", value);
        snprintf(value, sizeof(value), "pool of %s, %" PRIu32 " of %" PRIu32 " slabs lent; %s",
                ctl_bytes(s->pool_bytes, a), s->pool_slabs_lent, s->pool_slabs, s->channels_source);
        return r ? r : row(table, "", value);
}

static int figures(const struct dsc_status *s, struct ctl_table *table)
{
        const char *mark = s->worker_answers ? "" : " (last known)";
        /* a restarted worker counts from 0 again */
        const char *since = s->worker_answers && s->worker_restarts ? " (since the restart)" : mark;
        char value[256], a[32], b[32], c[32];
        int r;
        snprintf(value, sizeof(value), "%s of %s, %s in slabs%s", ctl_bytes(s->memory_used, a),
                ctl_bytes(s->memory_total, b), ctl_bytes(s->memory_slabs, c), mark);
        r = row(table, "memory", value);
        snprintf(value, sizeof(value),
                "%" PRIu64 " kernels launched, %" PRIu64 " operations completed, %" PRIu64 " errors%s", s->launches,
                s->completed, s->errors, since);
        r = r ? r : row(table, "work", value);
        if (s->quiesces) {
                snprintf(value, sizeof(value),
                        "%" PRIu64 " times, %.1f ms, %.1f of them stopped; %" PRIu64 " LS requests delayed%s",
                        s->quiesces, (double)s->quiesce_ns / 1e6, (double)s->quiesce_stop_ns / 1e6, s->quiesce_hits,
                        since);
                r = r ? r : row(table, "quiesces", value);
        }
        snprintf(value, sizeof(value), "worker %.2f s, supervisor %.2f s%s", (double)s->worker_cpu_ns / 1e9,
                (double)s->supervisor_cpu_ns / 1e9, since);
        r = r ? r : row(table, "processor", value);
        snprintf(value, sizeof(value), "polls for %.5g ms after LS work, %.5g ms after requests (spin_us)",
                (double)s->spin_ns / 1e6, (double)s->request_spin_ns / 1e6);
        r = r ? r : row(table, "", value);
        r = r ? r : code_figures(s, table);
        r = r ? r : forms_figures(s, table, since);
        r = r ? r : channel_figures(s, table);
        snprintf(value, sizeof(value), "%" PRIu32 " in flight, %" PRIu32 " queued%s", s->in_flight, s->queued, mark);
        return r ? r : row(table, "now", value);
}

static int fill(const struct dsc_status *s, struct ctl_table *table)
{
        char value[256], a[32];
        int r;
        snprintf(value, sizeof(value), "%s, up %s", s->version, ctl_duration(s->uptime_ns, a));
        r = row(table, "detshared", value);
        snprintf(value, sizeof(value), "%s%s", s->device[0] ? s->device : "N/A", s->simulated ? " (sim)" : "");
        r = r ? r : row(table, "device", value);
        r = r ? r : topology(s, table);
        if (s->worker_pid)
                snprintf(value, sizeof(value), "%s, pid %" PRIu32 ", restarted %" PRIu32 " times", s->worker_state,
                        s->worker_pid, s->worker_restarts);
        else
                snprintf(value, sizeof(value), "%s, restarted %" PRIu32 " times", s->worker_state, s->worker_restarts);
        r = r ? r : row(table, "worker", value);
        if (s->policy_fallbacks)
                snprintf(value, sizeof(value), "%s, fell back %" PRIu64 " times", s->policy, s->policy_fallbacks);
        else
                snprintf(value, sizeof(value), "%s", s->policy[0] ? s->policy : "N/A");
        r = r ? r : row(table, "policy", value);
        if (s->policy_fallback[0]) {
                ctl_table_colour(table, 1, CTL_WARN);
                r = r ? r : row(table, "fallback", s->policy_fallback);
                ctl_table_colour(table, 1, CTL_WARN);
        }
        snprintf(value, sizeof(value), "%" PRIu32 ", of them %" PRIu32 " latency-sensitive", s->sessions,
                s->sessions_ls);
        r = r ? r : row(table, "sessions", value);
        return r ? r : figures(s, table);
}

static int draw(const struct dsc_status *s, struct ctl_text *text)
{
        struct ctl_table *table = ctl_table_new(0);
        if (!table) {
                ctl_complain("out of memory");
                return CTL_FAILED;
        }
        ctl_table_column(table, "KEY", 0);
        ctl_table_column(table, "VALUE", 0);
        ctl_table_may(table, 20, 0);
        int r = fill(s, table);
        if (!r)
                r = ctl_table_draw(table, text);
        ctl_table_free(table);
        return r;
}

static void json(const struct dsc_status *s, struct ctl_text *text)
{
#define STRING(field, wire, name) ctl_json_string(text, name, s->field);
#define NUMBER(field, wire, name) ctl_json_number(text, name, s->field);
#define BOOL(field, wire, name) ctl_json_bool(text, name, s->field);
#include "core/status.def"
        ctl_json_string(text, "channels_be_list", s->channels_be_list);
        gpcs_json(s, text);
}

static int show(const struct dsc_status *s, const struct dsc_client *clients, size_t n, int as_json)
{
        struct ctl_text text;
        int r = ctl_text_open(&text);
        if (r)
                return r;
        if (as_json) {
                ctl_json_begin(&text, NULL, '{');
                json(s, &text);
                ctl_clients_json(clients, n, &text);
                ctl_json_end(&text, '}');
        } else {
                r = draw(s, &text);
                if (!r)
                        r = ctl_clients_table(clients, n, &text);
        }
        return ctl_text_close(&text, r);
}

int cmd_status(const struct ctl_args *args)
{
        struct dsc_status status;
        struct dsc_client *clients = NULL;
        dsc_session *s = NULL;
        size_t n = 0;
        const int as_json = ctl_given(args, "json");
        int code = ctl_open(&s);
        if (code)
                return code;
        int r = dsc_control_status(s, &status);
        if (!r)
                r = dsc_control_clients(s, &clients, &n);
        code = r ? ctl_fail(r, "cannot get the status") : show(&status, clients, n, as_json);
        free(clients);
        dsc_control_close(s);
        return code;
}
