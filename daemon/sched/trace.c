/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes trace records into the caller's memory
 */
#include "sched/trace.h"

#include <errno.h>
#include <string.h>

#include "sched/internal.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define NAMES_SHARE 16u   /* 1/16 of the memory's bytes is for kernel names */
#define NAMES_KNOWN 8192u /* names that a trace can store, a power of two; further kernels are traced without a name */
#define NAMES_FILL (NAMES_KNOWN - NAMES_KNOWN / 4)
#define NAME_MAX_BYTES 1024u /* bytes stored of a name; the names of templates can be longer */

struct ds_trace {
        struct ds_trace_header *header;
        char *names;
        struct ds_trace_record *records;
        uint64_t until_ns;
        uint32_t n_known;
        uint32_t known[NAMES_KNOWN]; /* positions of names in the memory, by hash of the name; 0 = free */
};

/* --- names -------------------------------------------------------------------------------------------------------- */

static uint64_t name_hash(const char *name, size_t n)
{
        uint64_t hash = n;

        for (; n >= 8; n -= 8, name += 8) {
                uint64_t word;

                memcpy(&word, name, 8);
                hash = ds_kstat_mix(hash, word);
        }
        for (; n; n--)
                hash = ds_kstat_mix(hash, (uint8_t)*name++);
        return hash;
}

static uint32_t trace_name(struct ds_trace *trace, const char *name)
{
        size_t n = strnlen(name, NAME_MAX_BYTES);
        uint32_t at = (uint32_t)name_hash(name, n) & (NAMES_KNOWN - 1);
        uint64_t used = trace->header->names_used;

        if (!n)
                return 0;
        for (; trace->known[at]; at = (at + 1) & (NAMES_KNOWN - 1)) {
                const char *known = trace->names + trace->known[at];

                if (!strncmp(known, name, n) && !known[n])
                        return trace->known[at];
        }
        if (trace->n_known >= NAMES_FILL || used + n + 1 > trace->header->names_bytes)
                return 0;
        memcpy(trace->names + used, name, n);
        trace->names[used + n] = 0;
        trace->header->names_used = used + n + 1;
        trace->known[at] = (uint32_t)used;
        trace->n_known++;
        return (uint32_t)used;
}

/* --- records ------------------------------------------------------------------------------------------------------ */

/* Takes the next record, which is zeroed except for its kind. Returns NULL if no trace is running at this time. */
static struct ds_trace_record *trace_next(const ds_sched *sched, enum ds_trace_kind kind)
{
        struct ds_trace *trace = sched->trace;
        struct ds_trace_record *record;

        if (!trace || sched->now_ns > trace->until_ns)
                return NULL;
        record = &trace->records[trace->header->written++ % trace->header->capacity];
        *record = (struct ds_trace_record){.kind = kind, .rung = DETSHARE_RUNG_NONE, .from = DETSHARE_RUNG_NONE};
        return record;
}

static const char *operation_name(const ds_sched *sched, const struct ds_op *op)
{
        static const char *const copies[_DS_COPY_MAX] = {
                [DS_COPY_HTOD] = "copy to the device",
                [DS_COPY_DTOH] = "copy to the host",
                [DS_COPY_DTOD] = "copy on the device",
                [DS_COPY_HTOH] = "copy on the host",
        };
        const char *name;

        if (op->kind == DS_OP_LAUNCH) {
                name = sched->ops->kernel_info(op->launch.kernel)->name;
                return name ? name : "kernel";
        }
        if (op->kind == DS_OP_COPY)
                return op->copy.kind >= 0 && op->copy.kind < _DS_COPY_MAX ? copies[op->copy.kind] : "copy";
        return op->kind == DS_OP_GRAPH ? "graph" : "memset";
}

void ds_trace_operation(const ds_coroutine *coroutine, const struct ds_op *op, const struct ds_slot *slot,
        uint32_t part, uint64_t behind)
{
        const ds_sched *sched = coroutine->sched;
        struct ds_trace_record *record = trace_next(sched, DS_TRACE_OPERATION);

        if (!record)
                return;
        record->flags = slot->flags | (op->status == DS_DEVICE_KILLED ? DS_TRACE_KILLED : 0) |
                        (op->status == DS_DEVICE_EVICTED ? DS_TRACE_EVICTED : 0);
        record->session = coroutine->session->config.id;
        record->coroutine = coroutine->id;
        record->kernel = op->kernel_key;
        record->name = trace_name(sched->trace, operation_name(sched, op));
        record->detail = slot->view.kind;
        record->rung = slot->rung;
        record->sms = sched->ladder.views[slot->rung].n_sms;
        record->priority = slot->priority;
        record->blocks = slot->view.blocks;
        record->threads = slot->view.threads;
        record->status = op->status;
        record->part = part;
        record->behind = behind;
        record->submitted_ns = op->submitted_ns;
        record->ready_ns = op->ready_ns;
        record->launched_ns = op->launched_ns;
        record->begin_ns = op->start_ns;
        record->end_ns = op->end_ns;
}

void ds_trace_move(const ds_coroutine *coroutine, uint32_t from, const struct ds_slot *slot)
{
        const ds_sched *sched = coroutine->sched;
        struct ds_trace_record *record = trace_next(sched, DS_TRACE_MOVE);

        if (!record)
                return;
        record->flags = slot->flags;
        record->session = coroutine->session->config.id;
        record->coroutine = coroutine->id;
        record->from = from;
        record->rung = slot->rung;
        record->sms = sched->ladder.views[slot->rung].n_sms;
        record->begin_ns = record->end_ns = sched->now_ns;
}

void ds_trace_request(const ds_sched_session *session, uint64_t begin_ns, uint64_t end_ns)
{
        struct ds_trace_record *record = trace_next(session->sched, DS_TRACE_REQUEST);

        if (!record)
                return;
        record->session = session->config.id;
        record->detail = session->config.class_;
        record->begin_ns = begin_ns;
        record->end_ns = end_ns;
}

void ds_trace_hold(ds_sched *sched, unsigned classes, uint64_t begin_ns, uint64_t end_ns)
{
        struct ds_trace_record *record = trace_next(sched, DS_TRACE_HOLD);

        if (!record)
                return;
        record->detail = classes;
        record->begin_ns = begin_ns;
        record->end_ns = end_ns;
}

void ds_trace_policy(ds_sched *sched, int fallback)
{
        struct ds_trace_record *record = trace_next(sched, DS_TRACE_POLICY);

        if (!record)
                return;
        record->flags = fallback ? DS_TRACE_FALLBACK : 0;
        record->name = trace_name(sched->trace, sched->host.plugin->policy->name);
        record->begin_ns = record->end_ns = sched->now_ns;
}

void ds_trace_session(const ds_sched_session *session)
{
        struct ds_trace_record *record = trace_next(session->sched, DS_TRACE_SESSION);

        if (!record)
                return;
        record->session = session->config.id;
        record->detail = session->config.class_;
        record->name = trace_name(session->sched->trace, session->config.name);
        record->begin_ns = record->end_ns = session->sched->now_ns;
}

void ds_trace_gone(const ds_sched_session *session)
{
        struct ds_trace_record *record = trace_next(session->sched, DS_TRACE_GONE);

        if (!record)
                return;
        record->session = session->config.id;
        record->begin_ns = record->end_ns = session->sched->now_ns;
}

/* --- start and stop ----------------------------------------------------------------------------------------------- */

static void header_init(const ds_sched *sched, struct ds_trace_header *header, size_t bytes)
{
        const struct ds_device_info *info = sched->info;

        *header = (struct ds_trace_header){
                .magic = DS_TRACE_MAGIC,
                .bytes = bytes,
                .record_bytes = sizeof(struct ds_trace_record),
                .simulated = info->simulated,
                .n_sms = info->n_sms,
                .n_tpcs = info->n_tpcs,
                .n_rungs = DS_MIN(sched->ladder.n, DS_TRACE_RUNGS_MAX),
                .names_at = DS_TRACE_HEADER_BYTES,
                .names_bytes = bytes / NAMES_SHARE,
                .names_used = 1,
                .begin_ns = sched->now_ns,
        };
        header->records_at = DS_ALIGN_UP(header->names_at + header->names_bytes, (uint64_t)64);
        header->capacity = (bytes - header->records_at) / sizeof(struct ds_trace_record);
        memcpy(header->device, info->name, DS_MIN(sizeof(header->device) - 1, sizeof(info->name) - 1));
        for (uint32_t i = 0; i < header->n_rungs; i++) {
                const struct detshare_rung_view *view = &sched->ladder.views[i];

                header->rungs[i] = (struct ds_trace_rung){
                        .n_sms = view->n_sms, .n_tpcs = view->n_tpcs, .tpcs = {view->tpcs[0], view->tpcs[1]}};
        }
}

_Static_assert(sizeof(struct ds_trace_header) <= DS_TRACE_HEADER_BYTES, "the names come behind it");

int ds_sched_trace_start(ds_sched *sched, void *memory, size_t bytes, uint64_t now_ns, uint64_t until_ns)
{
        struct ds_trace *trace;

        ds_sched_now(sched, now_ns);
        if (sched->trace)
                return -EBUSY;
        if (bytes < DS_TRACE_BYTES_MIN || bytes > DS_TRACE_BYTES_MAX)
                return ds_error_origin(-EINVAL);
        trace = ds_alloc0(1, sizeof(*trace));
        if (!trace)
                return ds_error_origin(-ENOMEM);
        header_init(sched, memory, bytes);
        trace->header = memory;
        trace->names = (char *)memory + trace->header->names_at;
        trace->records = (void *)((char *)memory + trace->header->records_at);
        trace->until_ns = until_ns;
        sched->trace = trace;
        ds_trace_policy(sched, 0);
        for (const ds_sched_session *session = sched->sessions; session; session = session->next)
                ds_trace_session(session);
        return 0;
}

int ds_sched_trace_stop(ds_sched *sched, uint64_t now_ns)
{
        if (!sched->trace)
                return -ENOENT;
        sched->trace->header->end_ns = DS_MIN(ds_sched_now(sched, now_ns), sched->trace->until_ns);
        sched->trace = ds_free(sched->trace);
        return 0;
}
