/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a timeline: records are sorted by stream, then by rung, and written in several passes
 */
#include "ctl/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/demangle.h"
#include "proto/trace.h"

#define DEVICE_PID 1
#define CLIENT_PID 2 /* number of the first client's process */
#define TID_QUIESCE 1
#define TID_POLICY 2
#define TID_RUNG 100 /* thread of the first rung; each rung has LANES_MAX threads */
#define LANES_MAX 64u
#define SHOWN_MAX 1024u
#define NAME_BYTES 1024

struct session {
        uint64_t id;
        const char *name;
        int is_ls;
};

/* Demangled name of a kernel, cached because many operations have the same kernel. */
struct shown {
        uint32_t name; /* offset of the kernel's name in the trace */
        char *text;    /* demangled name; NULL: unused entry */
};

struct timeline {
        const struct ds_trace_header *header;
        const char *names;
        const struct ds_trace_record *records;
        uint64_t first, n; /* record i is records[(first + i) % capacity] */
        uint64_t zero_ns;
        const struct ds_trace_record **operations;
        size_t n_operations;
        struct session *sessions; /* sorted by id */
        size_t n_sessions;
        uint64_t next_flow;
        FILE *file;
        int comma;
        struct shown shown[SHOWN_MAX]; /* cache of demangled names, indexed by name modulo SHOWN_MAX */
};

/* --- reading ------------------------------------------------------------------------------------------------------ */

static int lies_within(uint64_t at, uint64_t bytes, uint64_t all)
{
        return at <= all && bytes <= all - at;
}

static int header_is_sound(const struct ds_trace_header *header, size_t bytes)
{
        const char *names = (const char *)header + header->names_at;
        if (header->magic != DS_TRACE_MAGIC || header->bytes != bytes ||
                header->record_bytes != sizeof(struct ds_trace_record) || header->n_rungs > DS_TRACE_RUNGS_MAX)
                return 0;
        if (!lies_within(header->names_at, header->names_bytes, bytes) || !header->names_used ||
                header->names_used > header->names_bytes || names[0] || names[header->names_used - 1])
                return 0;
        if (memchr(header->device, 0, sizeof(header->device)) == NULL || header->records_at % sizeof(uint64_t))
                return 0;
        return header->capacity && header->capacity <= bytes / sizeof(struct ds_trace_record) &&
               lies_within(header->records_at, header->capacity * sizeof(struct ds_trace_record), bytes);
}

static const struct ds_trace_record *record_at(const struct timeline *t, uint64_t i)
{
        return &t->records[(t->first + i) % t->header->capacity];
}

static const char *name_at(const struct timeline *t, uint32_t name)
{
        return name && name < t->header->names_used ? t->names + name : "";
}

static int by_stream(const void *a, const void *b)
{
        const struct ds_trace_record *x = *(const struct ds_trace_record *const *)a;
        const struct ds_trace_record *y = *(const struct ds_trace_record *const *)b;
        if (x->coroutine != y->coroutine)
                return x->coroutine < y->coroutine ? -1 : 1;
        if (x->begin_ns != y->begin_ns)
                return x->begin_ns < y->begin_ns ? -1 : 1;
        /* a longer operation comes before shorter ones that begin at the same time */
        return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

static int by_rung(const void *a, const void *b)
{
        const struct ds_trace_record *x = *(const struct ds_trace_record *const *)a;
        const struct ds_trace_record *y = *(const struct ds_trace_record *const *)b;
        if (x->rung != y->rung)
                return x->rung < y->rung ? -1 : 1;
        return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

static int by_id(const void *a, const void *b)
{
        const struct session *x = a, *y = b;
        return (x->id > y->id) - (x->id < y->id);
}

static struct session *find_session(const struct timeline *t, uint64_t id)
{
        const struct session key = {.id = id};
        return bsearch(&key, t->sessions, t->n_sessions, sizeof(key), by_id);
}

static int is_operation(const struct timeline *t, const struct ds_trace_record *record)
{
        return record->kind == DS_TRACE_OPERATION && record->rung < t->header->n_rungs &&
               record->end_ns >= record->begin_ns;
}

/* Collects every session that a record names, once, in t->sessions. */
static void gather_sessions(struct timeline *t)
{
        size_t n = 0;
        for (uint64_t i = 0; i < t->n; i++)
                if (record_at(t, i)->session)
                        t->sessions[n++] = (struct session){.id = record_at(t, i)->session, .name = ""};
        qsort(t->sessions, n, sizeof(*t->sessions), by_id);
        for (size_t i = 0; i < n; i++)
                if (!t->n_sessions || t->sessions[t->n_sessions - 1].id != t->sessions[i].id)
                        t->sessions[t->n_sessions++] = t->sessions[i];
        for (uint64_t i = 0; i < t->n; i++) {
                const struct ds_trace_record *record = record_at(t, i);
                struct session *session = record->kind == DS_TRACE_SESSION ? find_session(t, record->session) : NULL;
                if (!session)
                        continue;
                session->name = name_at(t, record->name);
                session->is_ls = record->detail == 1;
        }
}

static int gather(struct timeline *t)
{
        t->operations = calloc(t->n + 1, sizeof(*t->operations));
        t->sessions = calloc(t->n + 1, sizeof(*t->sessions));
        if (!t->operations || !t->sessions)
                return -ENOMEM;
        gather_sessions(t);
        t->zero_ns = t->header->begin_ns;
        for (uint64_t i = 0; i < t->n; i++) {
                const struct ds_trace_record *record = record_at(t, i);
                if (!is_operation(t, record))
                        continue;
                t->operations[t->n_operations++] = record;
                if (record->begin_ns < t->zero_ns)
                        t->zero_ns = record->begin_ns;
        }
        return 0;
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static double us(const struct timeline *t, uint64_t ns)
{
        return ns > t->zero_ns ? (double)(ns - t->zero_ns) / 1e3 : 0;
}

static uint64_t pid_of(const struct timeline *t, uint64_t session)
{
        const struct session *found = find_session(t, session);
        return found ? CLIENT_PID + (uint64_t)(found - t->sessions) : CLIENT_PID + t->n_sessions;
}

/* Writes the beginning of an event: {"ph":..., "pid":..., "tid":..., "name":... */
static void event(struct timeline *t, char phase, uint64_t pid, uint64_t tid, const char *name)
{
        fprintf(t->file, "%s\n{\"ph\":\"%c\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64 ",\"name\":", t->comma ? "," : "",
                phase, pid, tid);
        ctl_json_quote(t->file, name);
        t->comma = 1;
}

static void name_track(struct timeline *t, const char *what, uint64_t pid, uint64_t tid, const char *name)
{
        event(t, 'M', pid, tid, what);
        fprintf(t->file, ",\"args\":{\"name\":");
        ctl_json_quote(t->file, name);
        fputs("}}", t->file);
}

static void name_client(const struct timeline *t, uint64_t id, char name[static 128])
{
        const struct session *session = find_session(t, id);
        if (session && session->name[0])
                snprintf(name, 128, "client %" PRIu64 " (%s)", id, session->name);
        else
                snprintf(name, 128, "client %" PRIu64, id);
}

static const char *part_name(uint32_t part)
{
        static const char *const names[_DS_HISTORY_PARTS] = {
                "running", "behind others", "device", "policy", "quiesce", "depends", "host"};
        return part >= 1 && part <= _DS_HISTORY_PARTS ? names[part - 1] : "";
}

static uint64_t between(uint64_t from, uint64_t to)
{
        return to > from ? to - from : 0;
}

static void operation_args(struct timeline *t, const struct ds_trace_record *record, int with_client)
{
        char client[128];
        fprintf(t->file,
                "\"cat\":\"%s\",\"args\":{\"rung\":%" PRIu32 ",\"sms\":%" PRIu32 ",\"blocks\":%" PRIu32
                ",\"threads\":%" PRIu32 ",\"priority\":\"%s\",\"kernel\":\"%016" PRIx64 "\"",
                record->detail == 0 ? "kernel" : "copy", record->rung, record->sms, record->blocks, record->threads,
                record->priority ? "low" : "high", record->kernel);
        fprintf(t->file, ",\"queued_us\":%.3f,\"ready_us\":%.3f,\"launched_us\":%.3f",
                (double)between(record->submitted_ns, record->ready_ns) / 1e3,
                (double)between(record->ready_ns, record->launched_ns) / 1e3,
                (double)between(record->launched_ns, record->begin_ns) / 1e3);
        if (!strncmp(name_at(t, record->name), "_Z", 2)) {
                fputs(",\"mangled\":", t->file);
                ctl_json_quote(t->file, name_at(t, record->name));
        }
        if (record->part)
                fprintf(t->file, ",\"waited\":\"%s\"", part_name(record->part));
        if (record->behind) {
                name_client(t, record->behind, client);
                fputs(",\"behind\":", t->file);
                ctl_json_quote(t->file, client);
        }
        if (with_client) {
                name_client(t, record->session, client);
                fputs(",\"client\":", t->file);
                ctl_json_quote(t->file, client);
        }
        if (record->flags & DS_TRACE_KILLED)
                fputs(",\"killed\":true", t->file);
        else if (record->flags & DS_TRACE_EVICTED)
                fputs(",\"evicted\":true", t->file);
        else if (record->status)
                fprintf(t->file, ",\"error\":%" PRId32, record->status);
        fprintf(t->file, "%s%s%s%s}}", record->flags & DS_TRACE_LOAN ? ",\"loan\":true" : "",
                record->flags & DS_TRACE_FENCED ? ",\"migrated\":true" : "",
                record->flags & DS_TRACE_CAPPED ? ",\"capped\":true" : "",
                record->flags & DS_TRACE_SHARED ? ",\"told_with_others\":true" : "");
}

static const char *operation_name(struct timeline *t, const struct ds_trace_record *record)
{
        const char *name = name_at(t, record->name);
        struct shown *shown = &t->shown[record->name % SHOWN_MAX];
        char text[NAME_BYTES];
        if (!name[0])
                return "operation";
        if (!shown->text || shown->name != record->name) {
                free(shown->text);
                shown->name = record->name;
                shown->text = strdup(ctl_kernel(name, NAME_BYTES, text, sizeof(text)));
        }
        return shown->text ? shown->text : name;
}

/* Writes an arrow from an operation to the next one of its stream, which ran on another rung. */
static void flow(struct timeline *t, const struct ds_trace_record *from, const struct ds_trace_record *to, uint64_t pid,
        uint64_t tid)
{
        const uint64_t id = ++t->next_flow;
        event(t, 's', pid, tid, "migration");
        fprintf(t->file, ",\"cat\":\"migration\",\"id\":%" PRIu64 ",\"ts\":%.3f}", id, us(t, from->begin_ns));
        event(t, 'f', pid, tid, "migration");
        fprintf(t->file, ",\"cat\":\"migration\",\"bp\":\"e\",\"id\":%" PRIu64 ",\"ts\":%.3f}", id,
                us(t, to->begin_ns));
}

/* --- tracks ------------------------------------------------------------------------------------------------------- */

static void write_clients(struct timeline *t)
{
        char name[160], client[128];
        for (size_t i = 0; i < t->n_sessions; i++) {
                name_client(t, t->sessions[i].id, client);
                snprintf(name, sizeof(name), "%s, %s", client, t->sessions[i].is_ls ? "ls" : "be");
                name_track(t, "process_name", CLIENT_PID + i, 0, name);
        }
}

/* Writes one thread per coroutine. Slices of a thread must not overlap partly, so an operation begins no earlier
 * than the previous one ends. */
static void write_streams(struct timeline *t)
{
        uint64_t tid = 0, end_ns = 0;
        char name[64];
        qsort(t->operations, t->n_operations, sizeof(*t->operations), by_stream);
        for (size_t i = 0; i < t->n_operations; i++) {
                const struct ds_trace_record *record = t->operations[i], *last = i ? t->operations[i - 1] : NULL;
                const uint64_t pid = pid_of(t, record->session);
                uint64_t begin_ns = record->begin_ns;
                if (!last || last->coroutine != record->coroutine) {
                        snprintf(name, sizeof(name), "stream %" PRIu64, record->coroutine);
                        name_track(t, "thread_name", pid, ++tid, name);
                        end_ns = 0;
                        last = NULL;
                }
                if (begin_ns < end_ns && record->end_ns > end_ns)
                        begin_ns = end_ns;
                end_ns = record->end_ns > end_ns ? record->end_ns : end_ns;
                event(t, 'X', pid, tid, operation_name(t, record));
                fprintf(t->file, ",\"ts\":%.3f,\"dur\":%.3f,", us(t, begin_ns),
                        (double)(record->end_ns - begin_ns) / 1e3);
                operation_args(t, record, 0);
                if (last && last->rung != record->rung)
                        flow(t, last, record, pid, tid);
        }
}

/* text: the TPCs of a rung, such as "TPC 0-32, 40". */
static void name_tpcs(const struct ds_trace_rung *rung, char *text, size_t size)
{
        size_t at = 0;
        text[0] = 0;
        for (unsigned i = 0; i < 128; i++) {
                unsigned end = i;
                if (!(rung->tpcs[i / 64] >> i % 64 & 1))
                        continue;
                while (end < 127 && rung->tpcs[(end + 1) / 64] >> (end + 1) % 64 & 1)
                        end++;
                if (at < size)
                        at += (size_t)snprintf(
                                text + at, size - at, end > i ? "%s%u-%u" : "%s%u", at ? ", " : "TPC ", i, end);
                i = end;
        }
}

static void name_rung(struct timeline *t, uint32_t rung, uint32_t lane)
{
        const struct ds_trace_rung *r = &t->header->rungs[rung];
        char name[512], tpcs[384], more[32] = "";
        name_tpcs(r, tpcs, sizeof(tpcs));
        if (lane)
                snprintf(more, sizeof(more), " (%" PRIu32 ")", lane + 1);
        snprintf(name, sizeof(name), "rung %" PRIu32 ": %" PRIu32 " SMs, %s%s", rung, r->n_sms, tpcs, more);
        name_track(t, "thread_name", DEVICE_PID, TID_RUNG + rung * LANES_MAX + lane, name);
}

static void write_rungs(struct timeline *t)
{
        uint64_t ends[LANES_MAX];
        uint32_t lanes = 0, lane;
        qsort(t->operations, t->n_operations, sizeof(*t->operations), by_rung);
        for (size_t i = 0; i < t->n_operations; i++) {
                const struct ds_trace_record *record = t->operations[i];
                uint64_t begin_ns = record->begin_ns;
                if (!i || t->operations[i - 1]->rung != record->rung)
                        lanes = 0;
                for (lane = 0; lane < lanes && ends[lane] > begin_ns; lane++)
                        continue;
                if (lane == LANES_MAX) /* if more than LANES_MAX operations overlap, the rest share the last lane */
                        begin_ns = ends[--lane];
                if (begin_ns > record->end_ns)
                        continue;
                if (lane == lanes) {
                        name_rung(t, record->rung, lane);
                        lanes++;
                }
                ends[lane] = record->end_ns;
                event(t, 'X', DEVICE_PID, TID_RUNG + record->rung * LANES_MAX + lane, operation_name(t, record));
                fprintf(t->file, ",\"ts\":%.3f,\"dur\":%.3f,", us(t, begin_ns),
                        (double)(record->end_ns - begin_ns) / 1e3);
                operation_args(t, record, 1);
        }
}

static void write_request(struct timeline *t, const struct ds_trace_record *record, uint64_t id)
{
        const uint64_t pid = pid_of(t, record->session);
        event(t, 'b', pid, 0, "request");
        fprintf(t->file, ",\"cat\":\"request\",\"id\":\"r%" PRIu64 "\",\"ts\":%.3f}", id, us(t, record->begin_ns));
        event(t, 'e', pid, 0, "request");
        fprintf(t->file, ",\"cat\":\"request\",\"id\":\"r%" PRIu64 "\",\"ts\":%.3f}", id, us(t, record->end_ns));
}

static void write_hold(struct timeline *t, const struct ds_trace_record *record)
{
        event(t, 'X', DEVICE_PID, TID_QUIESCE, record->detail & 2 ? "quiesce: all held" : "quiesce: be held");
        fprintf(t->file, ",\"cat\":\"quiesce\",\"ts\":%.3f,\"dur\":%.3f,\"args\":{}}", us(t, record->begin_ns),
                (double)between(record->begin_ns, record->end_ns) / 1e3);
}

static void write_policy(struct timeline *t, const struct ds_trace_record *record)
{
        char name[96];
        snprintf(name, sizeof(name), "policy %s%s", name_at(t, record->name),
                record->flags & DS_TRACE_FALLBACK ? " (fallback)" : "");
        event(t, 'i', DEVICE_PID, TID_POLICY, name);
        fprintf(t->file, ",\"cat\":\"policy\",\"s\":\"g\",\"ts\":%.3f}", us(t, record->begin_ns));
}

/* Writes a mark where a stream moved to other SMs. */
static void write_move(struct timeline *t, const struct ds_trace_record *record)
{
        char name[96];
        snprintf(name, sizeof(name), "mask: rung %" PRIu32 " to %" PRIu32 ", %" PRIu32 " SMs", record->from,
                record->rung, record->sms);
        event(t, 'i', pid_of(t, record->session), 0, name);
        fprintf(t->file,
                ",\"cat\":\"mask\",\"s\":\"p\",\"ts\":%.3f,\"args\":{\"stream\":%" PRIu64 ",\"in_flight\":%s}}",
                us(t, record->begin_ns), record->coroutine, record->flags & DS_TRACE_FENCED ? "true" : "false");
}

static void write_others(struct timeline *t, struct ctl_timeline_figures *figures)
{
        for (uint64_t i = 0; i < t->n; i++) {
                const struct ds_trace_record *record = record_at(t, i);
                switch (record->kind) {
                case DS_TRACE_REQUEST:
                        write_request(t, record, ++figures->requests);
                        break;
                case DS_TRACE_HOLD:
                        write_hold(t, record);
                        break;
                case DS_TRACE_POLICY:
                        write_policy(t, record);
                        break;
                case DS_TRACE_MOVE:
                        write_move(t, record);
                        break;
                default:
                        break;
                }
        }
}

static void write_head(struct timeline *t, const struct ctl_timeline_figures *figures)
{
        const struct ds_trace_header *header = t->header;
        char name[160];
        fputs("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"device\":", t->file);
        ctl_json_quote(t->file, header->device);
        fprintf(t->file,
                ",\"simulated\":%s,\"sms\":%" PRIu32 ",\"records\":%" PRIu64 ",\"lost\":%" PRIu64
                ",\"zero_ns\":%" PRIu64 "},\n\"traceEvents\":[",
                header->simulated ? "true" : "false", header->n_sms, t->n, figures->lost, t->zero_ns);
        snprintf(name, sizeof(name), "%s%s", header->device, header->simulated ? " (sim)" : "");
        name_track(t, "process_name", DEVICE_PID, 0, name);
        name_track(t, "thread_name", DEVICE_PID, TID_QUIESCE, "quiesces");
        name_track(t, "thread_name", DEVICE_PID, TID_POLICY, "policies");
}

int ctl_timeline_write(const void *trace, size_t bytes, FILE *file, struct ctl_timeline_figures *ret)
{
        struct timeline t = {.header = trace, .file = file};
        int r;
        *ret = (struct ctl_timeline_figures){0};
        if (bytes < DS_TRACE_HEADER_BYTES || !header_is_sound(t.header, bytes))
                return -EINVAL;
        t.names = (const char *)trace + t.header->names_at;
        t.records = (const void *)((const char *)trace + t.header->records_at);
        t.n = t.header->written < t.header->capacity ? t.header->written : t.header->capacity;
        t.first = t.header->written - t.n;
        r = gather(&t);
        if (!r) {
                *ret = (struct ctl_timeline_figures){.operations = t.n_operations,
                        .sessions = t.n_sessions,
                        .lost = t.first,
                        .simulated = t.header->simulated != 0};
                write_head(&t, ret);
                write_clients(&t);
                write_streams(&t);
                write_rungs(&t);
                write_others(&t, ret);
                fputs("\n]}\n", file);
        }
        free(t.operations);
        free(t.sessions);
        for (size_t i = 0; i < SHOWN_MAX; i++)
                free(t.shown[i].text);
        return r;
}
