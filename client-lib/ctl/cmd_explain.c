/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl explain
 *
 * Shows where the time of a client's last requests went, in a table whose parts add up to each request's time, and
 * describes the last request in words. Below are the client's kernels with their other forms, or the reason why there
 * are none.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/demangle.h"

#define KERNEL_SHOWN 48 /* most characters of a kernel's name without --wide */
#define SHOWN 10        /* most requests in the table; JSON has all */

static const struct {
        const char *key, *heading, *words;
        size_t at;
} parts[] = {
        {"running_ns", "RUNNING", "ran", offsetof(struct dsc_request, running_ns)},
        {"behind_ns", "BEHIND OTHERS", "behind others' work", offsetof(struct dsc_request, behind_ns)},
        {"device_ns", "DEVICE", "launched and not begun, with no other work known in the way",
                offsetof(struct dsc_request, device_ns)},
        {"policy_ns", "POLICY", "ready and not launched, with no other work known in the way",
                offsetof(struct dsc_request, policy_ns)},
        {"held_ns", "QUIESCE", "held by a quiesce", offsetof(struct dsc_request, held_ns)},
        {"depends_ns", "DEPENDS", "waiting for a host function, a value or an event",
                offsetof(struct dsc_request, depends_ns)},
        {"host_ns", "HOST", "with nothing submitted by the client", offsetof(struct dsc_request, host_ns)},
};

/* The daemon's answers about one client. */
struct explained {
        struct dsc_client client;
        struct dsc_request *requests;
        struct dsc_forms *forms;
        size_t n, n_forms;
        struct dsc_fault fault;
        struct dsc_activity now; /* session 0: the daemon knows none */
        int simulated;
};

#define N_PARTS (sizeof(parts) / sizeof(parts[0]))

static uint64_t part_of(const struct dsc_request *request, size_t part)
{
        uint64_t ns;
        memcpy(&ns, (const char *)request + parts[part].at, sizeof(ns));
        return ns;
}

static uint64_t total_of(const struct dsc_request *request)
{
        return request->end_ns - request->begin_ns;
}

static void part_cell(const struct dsc_request *request, size_t part, char cell[static 64])
{
        const uint64_t ns = part_of(request, part), total = total_of(request);
        char time[32];
        if (!ns)
                snprintf(cell, 64, "-");
        else
                snprintf(cell, 64, "%s %.0f %%", ctl_time(ns, time), 100.0 * (double)ns / (double)(total ? total : 1));
}

/* --- tables and text -------------- */

static int add_row(const struct dsc_request *request, const char *what, struct ctl_table *table)
{
        char total[32], operations[32], cell[N_PARTS][64];
        const char *cells[N_PARTS + 3] = {what, operations, total};
        snprintf(operations, sizeof(operations), "%" PRIu32, request->operations);
        ctl_time(total_of(request), total);
        for (size_t i = 0; i < N_PARTS; i++) {
                part_cell(request, i, cell[i]);
                cells[3 + i] = cell[i];
        }
        return ctl_table_row(table, cells);
}

/* Returns the sums of all requests' figures. */
static struct dsc_request sum_of(const struct dsc_request *requests, size_t n)
{
        struct dsc_request sum = {0};
        for (size_t i = 0; i < n; i++) {
                sum.end_ns += total_of(&requests[i]);
                sum.operations += requests[i].operations;
                for (size_t k = 0; k < N_PARTS; k++) {
                        uint64_t ns = part_of(&sum, k) + part_of(&requests[i], k);
                        memcpy((char *)&sum + parts[k].at, &ns, sizeof(ns));
                }
        }
        return sum;
}

static int fill_table(const struct dsc_request *requests, size_t n, struct ctl_table *table)
{
        const struct dsc_request all = sum_of(requests, n);
        char what[64], ago[32];
        int r = 0;
        for (size_t i = n > SHOWN ? n - SHOWN : 0; i < n && !r; i++) {
                if (requests[i].active)
                        snprintf(what, sizeof(what), "goes on");
                else
                        snprintf(what, sizeof(what), "%s before",
                                ctl_time(requests[n - 1].end_ns - requests[i].end_ns, ago));
                r = add_row(&requests[i], i + 1 == n && !requests[i].active ? "the last" : what, table);
        }
        snprintf(what, sizeof(what), "all %zu", n);
        return r || n == 1 ? r : add_row(&all, what, table);
}

/* Ranks the columns of the parts: if the table is too wide, parts that took the least time are left out first. */
static void rank_parts(const struct dsc_request *requests, size_t n, struct ctl_table *table)
{
        const struct dsc_request all = sum_of(requests, n);
        for (size_t i = 0; i < N_PARTS; i++) {
                int longer = 0;
                for (size_t k = 0; k < N_PARTS; k++)
                        longer +=
                                part_of(&all, k) > part_of(&all, i) || (part_of(&all, k) == part_of(&all, i) && k < i);
                ctl_table_rank(table, 3 + i, longer);
        }
}

static int draw_table(const struct dsc_request *requests, size_t n, struct ctl_text *text)
{
        struct ctl_table *table = ctl_table_new(1);
        if (!table) {
                ctl_complain("out of memory");
                return CTL_FAILED;
        }
        ctl_table_column(table, "REQUEST", 0);
        ctl_table_column(table, "OPERATIONS", 1);
        ctl_table_may(table, 0, N_PARTS + 1);
        ctl_table_column(table, "TIME", 1);
        for (size_t i = 0; i < N_PARTS; i++)
                ctl_table_column(table, parts[i].heading, 1);
        rank_parts(requests, n, table);
        int r = fill_table(requests, n, table);
        if (!r)
                r = ctl_table_draw(table, text);
        ctl_table_free(table);
        return r;
}

static void say_rungs(const struct dsc_request *request, FILE *f)
{
        char time[32];
        uint64_t listed = 0;
        for (uint32_t i = 0; i < request->n_rungs; i++) {
                listed += request->rungs[i].run_ns;
                if (request->rungs[i].run_ns)
                        fprintf(f, ", %s ran on rung %" PRIu32 " (%" PRIu32 " SMs)",
                                ctl_time(request->rungs[i].run_ns, time), request->rungs[i].rung,
                                request->rungs[i].n_sms);
        }
        if (listed < request->running_ns)
                fprintf(f, ", %s ran on other rungs", ctl_time(request->running_ns - listed, time));
}

static void say_who(const struct dsc_request *request, uint32_t i, FILE *f)
{
        if (!request->behind[i].session)
                fputs("another client", f);
        else if (request->behind[i].name[0])
                fprintf(f, "client %" PRIu64 " (%s)", request->behind[i].session, request->behind[i].name);
        else
                fprintf(f, "client %" PRIu64 " (gone)", request->behind[i].session);
        fprintf(f, " on rung %" PRIu32, request->behind[i].rung);
}

static void say_behind(const struct dsc_request *request, FILE *f)
{
        char time[32];
        uint64_t listed = 0;
        for (uint32_t i = 0; i < request->n_behind; i++) {
                if (!request->behind[i].ns)
                        continue;
                listed += request->behind[i].ns;
                fprintf(f, ", %s behind ", ctl_time(request->behind[i].ns, time));
                say_who(request, i, f);
        }
        if (listed < request->behind_ns)
                fprintf(f, ", %s behind others' work", ctl_time(request->behind_ns - listed, time));
}

static void say_waits(const struct dsc_request *request, FILE *f)
{
        char time[32], own[32];
        for (uint32_t i = 0; i < request->n_rungs; i++)
                if (request->rungs[i].wait_ns)
                        fprintf(f, " It waited %s for rung %" PRIu32 " (%" PRIu32 " SMs).",
                                ctl_time(request->rungs[i].wait_ns, time), request->rungs[i].rung,
                                request->rungs[i].n_sms);
        if (request->operations > 1)
                fprintf(f, " Its %" PRIu32 " operations stood %s on average behind earlier ones of their stream.",
                        request->operations, ctl_time(request->own_ns / request->operations, own));
        if (request->migrations)
                fprintf(f, " It migrated %" PRIu32 " times.", request->migrations);
        if (request->loans)
                fprintf(f, " It borrowed the whole GPU %" PRIu32 " times.", request->loans);
}

/* Describes in words the last request that ended, or the current one if none has ended. */
static void say(const struct dsc_request *requests, size_t n, FILE *f)
{
        const struct dsc_request *request = &requests[n > 1 && requests[n - 1].active ? n - 2 : n - 1];
        char *bytes = NULL, time[32];
        size_t size = 0;
        FILE *words = open_memstream(&bytes, &size);
        if (!words)
                return;
        say_rungs(request, words);
        say_behind(request, words);
        for (size_t i = 2; i < N_PARTS; i++)
                if (part_of(request, i))
                        fprintf(words, ", %s %s", ctl_time(part_of(request, i), time), parts[i].words);
        fclose(words);
        fprintf(f, "%s %s: %s.", request->active ? "So far, of" : "Of the last request's",
                ctl_time(total_of(request), time), size > 2 ? bytes + 2 : "the daemon has no times of it");
        free(bytes);
        say_waits(request, f);
        fputc('\n', f);
}

static void say_wrapped(const struct dsc_request *requests, size_t n, FILE *file)
{
        char *bytes = NULL;
        size_t size = 0;
        FILE *words = open_memstream(&bytes, &size);
        if (!words)
                return;
        say(requests, n, words);
        if (!fclose(words))
                ctl_wrap(file, bytes, 0, 0, ctl_width());
        free(bytes);
}

/* --- objectives ------------------- */

static const char *const objective_names[_DS_SLO_KINDS] = {
        [DS_SLO_LATENCY] = "objective", [DS_SLO_TTFT] = "time to first token", [DS_SLO_TPOT] = "time per output token"};

/* Adds an objective: in force, and the factor and latency that it comes from. */
static void say_objective(const struct dsc_activity *now, enum ds_slo_kind kind, FILE *f)
{
        char time[32];
        if (!now->slo.ns[kind] && !now->slo.permille[kind])
                return;
        fprintf(f, "%s: ", objective_names[kind]);
        if (now->slo.ns[kind])
                fprintf(f, "%s", ctl_time(now->slo.ns[kind], time));
        if (now->slo.permille[kind])
                fprintf(f, "%s%g times what it has alone", now->slo.ns[kind] ? ", at most " : "",
                        now->slo.permille[kind] / 1e3);
        if (now->alone_ns[kind])
                fprintf(f, " (alone 99 of 100 take at most %s)", ctl_time(now->alone_ns[kind], time));
        else
                fputs(" (too few requests had the GPU to themselves to know what it has alone)", f);
        fputs(". ", f);
}

static void say_objectives(const struct dsc_activity *now, FILE *file)
{
        char *bytes = NULL;
        size_t size = 0;
        FILE *words = open_memstream(&bytes, &size);
        if (!words)
                return;
        for (int kind = 0; kind < _DS_SLO_KINDS; kind++)
                say_objective(now, (enum ds_slo_kind)kind, words);
        if (now->recent_judged)
                fprintf(words, "%.1f %% of the %" PRIu64 " recent requests met it. ",
                        100.0 * (double)now->recent_met / (double)now->recent_judged, now->recent_judged);
        if (now->alone_missed_permille)
                fprintf(words, "It misses an objective even alone: %.1f %% of its requests would without others. ",
                        now->alone_missed_permille / 10.0);
        if (!fclose(words) && bytes[0])
                ctl_wrap(file, bytes, 0, 0, ctl_width());
        free(bytes);
}

/* --- JSON ------------------------- */

static void json_lists(const struct dsc_request *request, struct ctl_text *text)
{
        ctl_json_begin(text, "behind", '[');
        for (uint32_t i = 0; i < request->n_behind; i++) {
                ctl_json_begin(text, NULL, '{');
                if (request->behind[i].session) {
                        ctl_json_number(text, "id", request->behind[i].session);
                        ctl_json_string(text, "name", request->behind[i].name);
                }
                ctl_json_number(text, "rung", request->behind[i].rung);
                ctl_json_number(text, "ns", request->behind[i].ns);
                ctl_json_end(text, '}');
        }
        ctl_json_end(text, ']');
        ctl_json_begin(text, "rungs", '[');
        for (uint32_t i = 0; i < request->n_rungs; i++) {
                ctl_json_begin(text, NULL, '{');
                ctl_json_number(text, "rung", request->rungs[i].rung);
                ctl_json_number(text, "sms", request->rungs[i].n_sms);
                ctl_json_number(text, "run_ns", request->rungs[i].run_ns);
                ctl_json_number(text, "wait_ns", request->rungs[i].wait_ns);
                ctl_json_end(text, '}');
        }
        ctl_json_end(text, ']');
}

static void json_request(const struct dsc_request *request, struct ctl_text *text)
{
        ctl_json_begin(text, NULL, '{');
        ctl_json_number(text, "begin_ns", request->begin_ns);
        ctl_json_number(text, "end_ns", request->end_ns);
        ctl_json_number(text, "total_ns", total_of(request));
        ctl_json_bool(text, "active", request->active);
        for (size_t i = 0; i < N_PARTS; i++)
                ctl_json_number(text, parts[i].key, part_of(request, i));
        ctl_json_number(text, "own_ns", request->own_ns);
        ctl_json_number(text, "operations", request->operations);
        ctl_json_number(text, "migrations", request->migrations);
        ctl_json_number(text, "loans", request->loans);
        json_lists(request, text);
        ctl_json_end(text, '}');
}

static void json_forms(const struct dsc_forms *forms, struct ctl_text *text)
{
        ctl_json_begin(text, NULL, '{');
        char demangled[1024];
        ctl_json_string(text, "kernel", forms->kernel);
        ctl_json_string(text, "demangled", ctl_demangle(forms->kernel, demangled, sizeof(demangled)));
        ctl_json_number(text, "module", forms->module);
        ctl_json_number(text, "launches", forms->launches);
        ctl_json_bool(text, "sliced", forms->sliced);
        ctl_json_bool(text, "persistent", forms->persistent);
        if (!forms->sliced)
                ctl_json_string(text, "why_not_sliced", forms->why_sliced);
        if (!forms->persistent)
                ctl_json_string(text, "why_not_persistent", forms->why_persistent);
        ctl_json_bool(text, "instead", forms->instead);
        if (forms->chosen[0]) {
                ctl_json_string(text, "form", forms->chosen);
                ctl_json_string(text, "why", forms->why_chosen);
                ctl_json_number(text, "native_ns", forms->native_ns);
                ctl_json_number(text, "cost_permille", forms->cost_permille);
                ctl_json_number(text, "evict_ns", forms->evict_ns);
                ctl_json_number(text, "blocks_at_once", forms->blocks_at_once);
        }
        ctl_json_end(text, '}');
}

static void json(const struct explained *e, struct ctl_text *text)
{
        const struct dsc_client *client = &e->client;
        const struct dsc_request *requests = e->requests;
        const size_t n = e->n;
        const int simulated = e->simulated;
        ctl_json_begin(text, NULL, '{');
        ctl_json_number(text, "id", client->session);
        ctl_json_string(text, "name", client->name);
        ctl_json_string(text, "class", client->is_ls ? "ls" : "be");
        ctl_json_bool(text, "simulated", simulated);
        ctl_json_number(text, "error", (uint64_t)e->fault.error);
        ctl_json_string(text, "fault", e->fault.words);
        ctl_json_string(text, "policy", e->fault.policy);
        ctl_json_objective(text, &e->now.slo);
        ctl_json_number(text, "alone_ns", e->now.alone_ns[DS_SLO_LATENCY]);
        ctl_json_number(text, "alone_ttft_ns", e->now.alone_ns[DS_SLO_TTFT]);
        ctl_json_number(text, "alone_tpot_ns", e->now.alone_ns[DS_SLO_TPOT]);
        ctl_json_number(text, "alone_missed_permille", e->now.alone_missed_permille);
        ctl_json_begin(text, "requests", '[');
        for (size_t i = 0; i < n; i++)
                json_request(&requests[i], text);
        ctl_json_end(text, ']');
        ctl_json_begin(text, "kernels", '[');
        for (size_t i = 0; i < e->n_forms; i++)
                json_forms(&e->forms[i], text);
        ctl_json_end(text, ']');
        ctl_json_end(text, '}');
}

/* Fills the cells of a kernel: its forms, or the reason why it has no other form; and how often they were used. */
static void forms_cells(const struct dsc_forms *forms, char have[static 512], char used[static 256])
{
        char native[32], evict[32];
        if (forms->sliced && forms->persistent)
                snprintf(have, 512, "sliced, persistent");
        else if (!forms->sliced && !forms->persistent && !strcmp(forms->why_sliced, forms->why_persistent))
                snprintf(have, 512, "none: %.255s", forms->why_sliced);
        else
                snprintf(have, 512, "%s%.220s, %s%.220s", forms->sliced ? "sliced" : "not sliced: ", forms->why_sliced,
                        forms->persistent ? "persistent" : "not persistent: ", forms->why_persistent);
        used[0] = 0;
        if (!forms->chosen[0])
                return;
        int n = snprintf(used, 256, "%s: %s", forms->chosen, forms->why_chosen);
        if (forms->native_ns && n < 200)
                n += snprintf(used + n, 256 - (size_t)n, "; native %s", ctl_time(forms->native_ns, native));
        if (forms->cost_permille && n < 200)
                n += snprintf(used + n, 256 - (size_t)n, ", this %.1f %%", (double)forms->cost_permille / 10);
        if (forms->evict_ns && n < 220)
                snprintf(used + n, 256 - (size_t)n, ", evicted within %s", ctl_time(forms->evict_ns, evict));
}

static int draw_forms(const struct explained *e, struct ctl_text *text)
{
        struct ctl_table *table = e->n_forms ? ctl_table_new(1) : NULL;
        char name[1024], launches[32], have[512], used[256];
        int r = 0;
        if (!e->n_forms)
                return 0;
        if (!table) {
                ctl_complain("out of memory");
                return CTL_FAILED;
        }
        ctl_table_column(table, "KERNEL", 0);
        ctl_table_may(table, 16, 0);
        ctl_table_column(table, "LAUNCHES", 1);
        ctl_table_column(table, "OTHER FORMS", 0);
        ctl_table_may(table, 14, 0);
        ctl_table_column(table, "LAST", 0);
        ctl_table_may(table, 14, 0);
        for (size_t i = 0; i < e->n_forms && !r; i++) {
                const char *cells[] = {name, launches, have, used};
                ctl_kernel(e->forms[i].kernel, arg_wide ? sizeof(name) : KERNEL_SHOWN, name, sizeof(name));
                snprintf(launches, sizeof(launches), "%" PRIu64, e->forms[i].launches);
                forms_cells(&e->forms[i], have, used);
                r = ctl_table_row(table, cells);
        }
        if (!r)
                r = ctl_table_draw(table, text);
        ctl_table_free(table);
        return r;
}

static int show(const struct explained *e, int as_json)
{
        const struct dsc_client *client = &e->client;
        const struct dsc_request *requests = e->requests;
        const size_t n = e->n;
        struct ctl_text text;
        char line[256], policy[600];
        int r = ctl_text_open(&text);
        if (r)
                return r;
        if (as_json) {
                json(e, &text);
                return ctl_text_close(&text, r);
        }
        snprintf(line, sizeof(line), "client %" PRIu64 " (%s), class %s%s", client->session, client->name,
                client->is_ls ? "ls" : "be", e->simulated ? ", on a simulated device (sim)" : "");
        ctl_wrap(text.file, line, 0, 0, ctl_width());
        if (e->fault.error)
                fprintf(text.file, "its work ended with CUDA error %d: %s\n", e->fault.error, e->fault.words);
        if (n) {
                r = draw_table(requests, n, &text);
                say_wrapped(requests, n, text.file);
        } else {
                fprintf(text.file, "it has made no requests\n");
        }
        if (client->is_ls)
                say_objectives(&e->now, text.file);
        if (e->fault.policy[0]) {
                snprintf(policy, sizeof(policy), "Policy: %s.", e->fault.policy);
                ctl_wrap(text.file, policy, 0, 0, ctl_width());
        }
        r = r ? r : draw_forms(e, &text);
        return ctl_text_close(&text, r);
}

/* Stores the client's current figures in e->now. Returns 0 or an error of the daemon. */
static int take_activity(dsc_session *s, struct explained *e)
{
        struct dsc_activity *list = NULL;
        struct dsc_activity_all all;
        size_t n = 0;
        int r = dsc_control_activity(s, &list, &n, &all);
        for (size_t i = 0; i < n && !r; i++)
                if (list[i].session == e->client.session)
                        e->now = list[i];
        free(list);
        return r;
}

int cmd_explain(const struct ctl_args *args)
{
        struct explained e = {0};
        struct dsc_status status;
        dsc_session *s = NULL;
        const int as_json = ctl_given(args, "json");
        const char *which = args->argv[0];
        int code = ctl_open(&s);
        if (code)
                return code;
        code = ctl_find_client(s, which, &e.client);
        if (!code) {
                int r = dsc_control_status(s, &status);
                if (!r)
                        r = dsc_control_explain(s, e.client.session, &e.requests, &e.n, &e.fault);
                if (!r && e.fault.error)
                        ctl_fault_demangle(&e.fault);
                if (!r)
                        r = dsc_control_forms(s, e.client.session, &e.forms, &e.n_forms);
                if (!r)
                        r = take_activity(s, &e);
                e.simulated = status.simulated;
                code = r ? ctl_fail(r, "cannot explain client %s", which) : show(&e, as_json);
        }
        free(e.requests);
        free(e.forms);
        dsc_control_close(s);
        return code;
}
