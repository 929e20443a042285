/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a graph as a file for the daemon
 *
 * Nodes are written in an order in which they can run. A child graph is written in place, between two empty nodes. A
 * node that needs several records is a chain of records; its dependents depend on the last record of the chain.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/copy.h"
#include "cuda/event.h"
#include "cuda/exec.h"
#include "cuda/launch.h"
#include "proto/wire.h"

/* Host function and pinned memory that a copy of pageable memory needs. */
struct dcu_exec_host {
        struct dcu_exec_host *next;
        uint64_t id;
        void *pinned;
        struct dcu_box box; /* the copy; host addresses are this process's */
};

struct writer {
        uint8_t *bytes;
        size_t used, space;
        uint32_t n;
        uint16_t type;                /* type of the last record */
        int changes;                  /* 1: writes changes of nodes, not nodes */
        struct dcu_exec_build *build; /* NULL if `changes` is 1 */
};

/* Records on which the next record depends, by position in the file. */
struct after {
        const uint32_t *nodes;
        uint32_t n;
};

static CUresult reserve(struct writer *w, size_t bytes)
{
        size_t space = w->space ? w->space : 4096;
        uint8_t *larger;

        if (w->n == DS_GRAPH_NODES_MAX || bytes > DS_GRAPH_BYTES_MAX - w->used)
                return CUDA_ERROR_OUT_OF_MEMORY;
        while (space - w->used < bytes)
                space *= 2;
        if (space == w->space)
                return CUDA_SUCCESS;
        larger = realloc(w->bytes, space);
        if (!larger)
                return CUDA_ERROR_OUT_OF_MEMORY;
        w->bytes = larger;
        w->space = space;
        return CUDA_SUCCESS;
}

/* Appends one record with its payload as a change of the node. */
static CUresult emit_change(struct writer *w, const struct dcu_node *node, struct ds_record *record, size_t size,
        const void *payload, size_t payload_size)
{
        size_t bytes = (sizeof(struct ds_graph_change) + size + payload_size + 7) & ~(size_t)7;
        struct ds_graph_change head = {node->record, (uint32_t)bytes};
        CUresult r = reserve(w, bytes);
        uint8_t *p;

        if (r != CUDA_SUCCESS)
                return r;
        p = w->bytes + w->used;
        memset(p + bytes - 8, 0, 8);
        record->size = (uint32_t)(size + payload_size);
        memcpy(p, &head, sizeof(head));
        memcpy(p + sizeof(head), record, size);
        if (payload_size)
                memcpy(p + sizeof(head) + size, payload, payload_size);
        w->used += bytes;
        w->n++;
        return CUDA_SUCCESS;
}

/* Appends one record with its payload and sets the record's size. */
static CUresult emit(struct writer *w, const struct dcu_node *node, struct after after, struct ds_record *record,
        size_t size, const void *payload, size_t payload_size)
{
        size_t offset = (sizeof(struct ds_graph_node) + after.n * sizeof(uint32_t) + 7) & ~(size_t)7;
        size_t bytes = (offset + size + payload_size + 7) & ~(size_t)7;
        struct ds_graph_node head = {
                (uint32_t)bytes, after.n, (uint32_t)offset, node && node->disabled ? DS_GRAPH_NODE_DISABLED : 0};
        CUresult r;
        uint8_t *p;

        w->type = record->type;
        if (w->changes)
                return emit_change(w, node, record, size, payload, payload_size);
        r = reserve(w, bytes);
        if (r != CUDA_SUCCESS)
                return r;
        p = w->bytes + w->used;
        memset(p, 0, bytes);
        record->size = (uint32_t)(size + payload_size);
        memcpy(p, &head, sizeof(head));
        if (after.n)
                memcpy(p + sizeof(head), after.nodes, after.n * sizeof(uint32_t));
        memcpy(p + offset, record, size);
        if (payload_size)
                memcpy(p + offset + size, payload, payload_size);
        w->used += bytes;
        w->n++;
        return CUDA_SUCCESS;
}

static CUresult emit_nothing(struct writer *w, struct after after)
{
        struct ds_record record = {.type = DS_RECORD_PAD};

        return emit(w, NULL, after, &record, sizeof(record), NULL, 0);
}

/* Within a chain: the next record depends on the previous one; at its beginning, on `first`. */
static struct after chain(const struct writer *w, struct after first, uint32_t begin, uint32_t *last)
{
        if (w->n == begin)
                return first;
        *last = w->n - 1;
        return (struct after){last, 1};
}

/* --- kernels --- */

static CUresult emit_kernel(struct writer *w, const struct dcu_node *node, struct after after)
{
        const struct dcu_kernel_work *work = &node->work->kernel;
        struct ds_record_launch record = {.head = {.type = DS_RECORD_LAUNCH}};
        struct dcu_context *owner;
        struct dcu_launch launch;
        struct dcu_entry *entry;
        CUresult r = dcu_work_kernel_launch(work, &launch);

        if (r == CUDA_SUCCESS)
                r = dcu_launch_check(&launch, &entry, &owner);
        if (r == CUDA_SUCCESS && entry->info.params_size != work->params_size)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS && atomic_load(&entry->epoch) != atomic_load(&dcu.epoch))
                r = dcu_entry_reload(entry);
        if (r != CUDA_SUCCESS)
                return r;
        record.kernel = entry->info.id;
        record.shared_bytes = work->shared_bytes;
        record.params_size = work->params_size;
        record.cooperative = launch.cooperative != 0;
        for (int i = 0; i < 3; i++) {
                record.grid[i] = work->grid[i];
                record.block[i] = work->block[i];
                record.cluster[i] = (uint16_t)launch.cluster[i];
        }
        return emit(w, node, after, &record.head, sizeof(record), work->params, work->params_size);
}

/* --- host functions --- */

static CUresult emit_host(struct writer *w, const struct dcu_node *node, struct after after, struct dcu_exec_host *host,
        CUhostFn fn, void *argument)
{
        struct ds_record_host record = {.head = {.type = DS_RECORD_HOST}};
        CUresult r = dcu_result(dsc_host_register(dcu.session, fn, argument, 0, &host->id));

        record.id = host->id;
        return r == CUDA_SUCCESS ? emit(w, node, after, &record.head, sizeof(record), NULL, 0) : r;
}

/* Adds a host function and pinned memory to the build. NULL: out of memory. */
static struct dcu_exec_host *new_host(struct writer *w)
{
        struct dcu_exec_host *host = calloc(1, sizeof(*host));

        if (host) {
                host->next = w->build->hosts;
                w->build->hosts = host;
        }
        return host;
}

/* --- copies --- */

static void copy_on_host(void *argument)
{
        const struct dcu_exec_host *host = argument;
        const struct dcu_box *box = &host->box;

        for (uint64_t z = 0; z < box->depth; z++) {
                for (uint64_t y = 0; y < box->height; y++)
                        memmove((void *)(uintptr_t)(box->dst.address + z * box->dst.slice + y * box->dst.pitch),
                                (const void *)(uintptr_t)(box->src.address + z * box->src.slice + y * box->src.pitch),
                                box->width);
        }
}

static CUresult emit_slices(struct writer *w, const struct dcu_node *node, struct after after,
        const struct dcu_box *box, enum dsc_copy_kind kind)
{
        uint32_t begin = w->n, last;
        CUresult r = CUDA_SUCCESS;

        for (uint64_t z = 0; z < box->depth && r == CUDA_SUCCESS; z++) {
                struct ds_record_copy record = {
                        .head = {.type = DS_RECORD_COPY},
                        .kind = kind,
                        .dst = box->dst.address + z * box->dst.slice,
                        .src = box->src.address + z * box->src.slice,
                        .width = box->width,
                        .height = box->height,
                        .dst_pitch = box->dst.pitch,
                        .src_pitch = box->src.pitch,
                };

                r = emit(w, node, chain(w, after, begin, &last), &record.head, sizeof(record), NULL, 0);
        }
        return r;
}

/* Allocates pinned memory for the box's bytes, without gaps, and describes it as a side of a copy. */
static CUresult stage(struct dcu_exec_host *host, const struct dcu_box *box, struct dcu_side *ret)
{
        uint64_t bytes = box->width * box->height * box->depth, base, size;
        CUresult r = dcu_result(dsc_host_alloc(dcu.session, bytes, &host->pinned));

        if (r != CUDA_SUCCESS)
                return r;
        if (dsc_lookup(dcu.session, (uintptr_t)host->pinned, &base, &size) != 2)
                return CUDA_ERROR_NOT_SUPPORTED; /* a session without shared memory has no pinned memory */
        *ret = (struct dcu_side){
                .address = (uintptr_t)host->pinned, .pitch = box->width, .slice = box->width * box->height};
        return CUDA_SUCCESS;
}

/* Writes a copy from or to memory that only this process can access. */
static CUresult emit_staged(struct writer *w, const struct dcu_node *node, struct after after, struct dcu_box *box,
        enum dcu_place dst, enum dcu_place src)
{
        struct dcu_exec_host *host = new_host(w);
        uint32_t begin = w->n, last;
        CUresult r;

        if (!host)
                return CUDA_ERROR_OUT_OF_MEMORY;
        host->box = *box;
        if (dst != DCU_PLACE_DEVICE && src != DCU_PLACE_DEVICE)
                return emit_host(w, node, after, host, copy_on_host, host);
        if (dst == DCU_PLACE_DEVICE) {
                r = stage(host, box, &host->box.dst);
                box->src = host->box.dst;
                if (r == CUDA_SUCCESS)
                        r = emit_host(w, node, after, host, copy_on_host, host);
                dcu_copy_join(box);
                return r == CUDA_SUCCESS ? emit_slices(w, node, chain(w, after, begin, &last), box, DSC_HTOD) : r;
        }
        r = stage(host, box, &host->box.src);
        box->dst = host->box.src;
        dcu_copy_join(box);
        if (r == CUDA_SUCCESS)
                r = emit_slices(w, node, after, box, DSC_DTOH);
        return r == CUDA_SUCCESS ? emit_host(w, node, chain(w, after, begin, &last), host, copy_on_host, host) : r;
}

static CUresult emit_copy(struct writer *w, const struct dcu_node *node, struct after after)
{
        enum dcu_place dst, src;
        struct dcu_box box;
        CUresult r = dcu_copy_box_of(&node->work->copy, &box);

        if (r == CUDA_SUCCESS)
                r = dcu_copy_places(&box, &dst, &src);
        if (r != CUDA_SUCCESS)
                return r;
        if (w->changes && (dst == DCU_PLACE_HOST || src == DCU_PLACE_HOST || box.depth > 1))
                return CUDA_ERROR_NOT_SUPPORTED;
        if (dst == DCU_PLACE_HOST || src == DCU_PLACE_HOST)
                return emit_staged(w, node, after, &box, dst, src);
        dcu_copy_join(&box);
        return emit_slices(w, node, after, &box, dcu_copy_kind(dst, src));
}

/* --- memsets, and operations on words of memory --- */

static CUresult emit_memset(struct writer *w, const struct dcu_node *node, struct after after)
{
        const CUDA_MEMSET_NODE_PARAMS_v2 *m = &node->work->memset;
        struct ds_record_memset record = {
                .head = {.type = DS_RECORD_MEMSET},
                .value = m->elementSize < 4 ? m->value & ((1u << 8 * m->elementSize) - 1) : m->value,
                .element_size = m->elementSize,
                .dst = m->dst,
                .width = m->width,
                .height = m->height,
                .pitch = m->height > 1 ? m->pitch : m->width * m->elementSize,
        };
        CUresult r = dcu_memset_check(m->dst, m->pitch, m->elementSize, m->width, m->height);

        return r == CUDA_SUCCESS ? emit(w, node, after, &record.head, sizeof(record), NULL, 0) : r;
}

static CUresult emit_memop(
        struct writer *w, const struct dcu_node *node, struct after after, const CUstreamBatchMemOpParams *op)
{
        static const uint32_t kinds[4] = {DS_VALUE_GEQ, DS_VALUE_EQ, DS_VALUE_AND, DS_VALUE_NOR};
        int wide = op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 || op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
        int wait = op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
        struct ds_record_value record = {
                .head = {.type = DS_RECORD_VALUE},
                .kind = wait ? kinds[op->waitValue.flags & CU_STREAM_WAIT_VALUE_NOR] : DS_VALUE_WRITE,
                .bytes = wide ? 8 : 4,
                .address = op->writeValue.address,
                .value = wide ? op->writeValue.value64 : op->writeValue.value,
        };

        return emit(w, node, after, &record.head, sizeof(record), NULL, 0);
}

static CUresult emit_memops(struct writer *w, const struct dcu_node *node, struct after after)
{
        uint32_t begin = w->n, last;
        CUresult r = CUDA_SUCCESS;

        for (unsigned int i = 0; i < node->work->memops.count && r == CUDA_SUCCESS; i++) {
                const CUstreamBatchMemOpParams *op = &node->work->memops.paramArray[i];

                if (op->operation != CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES && op->operation != CU_STREAM_MEM_OP_BARRIER)
                        r = emit_memop(w, node, chain(w, after, begin, &last), op);
        }
        return r == CUDA_SUCCESS && w->n == begin ? emit_nothing(w, after) : r;
}

/* --- events --- */

static CUresult emit_record(struct writer *w, const struct dcu_node *node, struct after after)
{
        struct dcu_event *event = dcu_object_of(node->work->event, DCU_EVENT);
        struct ds_record_event record = {.head = {.type = DS_RECORD_EVENT}};
        struct dcu_exec_build *build = w->build;
        CUresult r;

        if (!event) /* the event was destroyed, so no program can query it */
                return emit_nothing(w, after);
        if (!dcu_array_grow(&build->records, &build->records_space, build->n_records, sizeof(CUevent)))
                return CUDA_ERROR_OUT_OF_MEMORY;
        build->records[build->n_records++] = node->work->event;
        r = dcu_event_daemon_id(event, &record.event);
        return r == CUDA_SUCCESS ? emit(w, node, after, &record.head, sizeof(record), NULL, 0) : r;
}

static CUresult emit_wait(struct writer *w, const struct dcu_node *node, struct after after)
{
        struct dcu_exec_build *build = w->build;

        if (!dcu_array_grow(&build->waits, &build->waits_space, build->n_waits, sizeof(CUevent)))
                return CUDA_ERROR_OUT_OF_MEMORY;
        build->waits[build->n_waits++] = node->work->event;
        return emit_nothing(w, after);
}

/* --- graphs --- */

static CUresult write_graph(struct writer *w, const struct dcu_graph *graph, struct after outer);

/* Positions of the last records of all nodes without dependents: a malloc'ed array. */
static CUresult ends_of(const struct dcu_graph *graph, uint32_t **ret, uint32_t *ret_n)
{
        uint32_t *ends = malloc((graph->n_nodes + 1) * sizeof(*ends)), n = 0;

        if (!ends)
                return CUDA_ERROR_OUT_OF_MEMORY;
        for (uint32_t i = 0; i < graph->n_nodes; i++) {
                if (graph->nodes[i]->n_users == 0)
                        ends[n++] = graph->nodes[i]->count;
        }
        *ret = ends;
        *ret_n = n;
        return CUDA_SUCCESS;
}

static CUresult emit_child(struct writer *w, const struct dcu_graph *child, struct after after)
{
        uint32_t *ends = NULL, n, begin = w->n;
        CUresult r = emit_nothing(w, after);

        if (r == CUDA_SUCCESS)
                r = write_graph(w, child, (struct after){&begin, 1});
        if (r == CUDA_SUCCESS)
                r = ends_of(child, &ends, &n);
        if (r == CUDA_SUCCESS)
                r = emit_nothing(w, n ? (struct after){ends, n} : (struct after){&begin, 1});
        free(ends);
        return r;
}

static CUresult write_node(struct writer *w, const struct dcu_node *node, struct after after)
{
        switch (node->work->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
                return emit_kernel(w, node, after);
        case CU_GRAPH_NODE_TYPE_MEMCPY:
                return emit_copy(w, node, after);
        case CU_GRAPH_NODE_TYPE_MEMSET:
                return emit_memset(w, node, after);
        case CU_GRAPH_NODE_TYPE_HOST: {
                struct dcu_exec_host *host = new_host(w);

                return host ? emit_host(w, node, after, host, node->work->host.fn, node->work->host.userData)
                            : CUDA_ERROR_OUT_OF_MEMORY;
        }
        case CU_GRAPH_NODE_TYPE_GRAPH:
                return emit_child(w, node->work->child, after);
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
                return emit_memops(w, node, after);
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
                return emit_record(w, node, after);
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
                return emit_wait(w, node, after);
        default: /* the memory of allocation and free nodes is allocated when the node is added: nothing runs */
                return emit_nothing(w, after);
        }
}

/* 1: a change of the node, of which record `begin` was the first, can be sent as a change of one record. */
static int is_changeable(const struct writer *w, uint32_t begin)
{
        return w->n == begin + 1 &&
               (w->type == DS_RECORD_LAUNCH || w->type == DS_RECORD_COPY || w->type == DS_RECORD_MEMSET);
}

/* Writes a graph. Its nodes without dependencies depend on `outer`. Sets each node's `count` to the position of its
 * last record. */
static CUresult write_graph(struct writer *w, const struct dcu_graph *graph, struct after outer)
{
        struct dcu_node **order = NULL;
        uint32_t *deps = malloc((graph->n_nodes + 1) * sizeof(*deps));
        CUresult r = deps ? dcu_graph_order(graph, &order) : CUDA_ERROR_OUT_OF_MEMORY;

        for (uint32_t i = 0; i < graph->n_nodes && r == CUDA_SUCCESS; i++) {
                struct dcu_node *node = order[i];
                const uint32_t begin = w->n;

                for (uint32_t k = 0; k < node->n_deps; k++)
                        deps[k] = node->deps[k].node->count;
                r = write_node(w, node, node->n_deps ? (struct after){deps, node->n_deps} : outer);
                node->count = w->n - 1;
                node->record = is_changeable(w, begin) ? begin : DCU_RECORD_NONE;
        }
        free(order);
        free(deps);
        return r;
}

void dcu_exec_build_free(struct dcu_exec_build *build)
{
        while (build->hosts) {
                struct dcu_exec_host *host = build->hosts;

                build->hosts = host->next;
                /* after a reset of the session the daemon has freed it already */
                if (build->epoch == atomic_load(&dcu.epoch)) {
                        if (host->id)
                                dsc_host_unregister(dcu.session, host->id);
                        if (host->pinned)
                                (void)dsc_host_free(dcu.session, host->pinned);
                }
                free(host);
        }
        free(build->records);
        free(build->waits);
        free(build);
}

CUresult dcu_exec_file(struct dcu_graph *graph, void **ret_file, size_t *ret_bytes, struct dcu_exec_build **ret_build)
{
        struct writer w = {.used = sizeof(struct ds_graph_file)};
        struct ds_graph_file head = {.version = DS_WIRE_VERSION};
        CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

        w.build = calloc(1, sizeof(*w.build));
        if (!w.build)
                return r;
        w.build->epoch = atomic_load(&dcu.epoch);
        w.space = 4096;
        w.bytes = malloc(w.space);
        if (w.bytes)
                r = write_graph(&w, graph, (struct after){NULL, 0});
        if (r == CUDA_SUCCESS && w.n == 0) /* a graph without nodes is launched too, so the file needs one record */
                r = emit_nothing(&w, (struct after){NULL, 0});
        if (r != CUDA_SUCCESS) {
                dcu_exec_build_free(w.build);
                free(w.bytes);
                return r;
        }
        head.n_nodes = w.build->n_nodes = w.n;
        head.bytes = w.used;
        memcpy(w.bytes, &head, sizeof(head));
        *ret_file = w.bytes;
        *ret_bytes = w.used;
        *ret_build = w.build;
        return CUDA_SUCCESS;
}

CUresult dcu_exec_changes(const struct dcu_exec *exec, uint8_t **ret_changes, size_t *ret_bytes)
{
        struct writer w = {.changes = 1};
        CUresult r = CUDA_SUCCESS;

        for (uint32_t i = 0; i < exec->n_changed && r == CUDA_SUCCESS; i++) {
                r = write_node(&w, exec->changed[i], (struct after){NULL, 0});
                if (r == CUDA_SUCCESS && w.n != i + 1)
                        r = CUDA_ERROR_NOT_SUPPORTED;
        }
        if (r != CUDA_SUCCESS) {
                free(w.bytes);
                return r;
        }
        *ret_changes = w.bytes;
        *ret_bytes = w.used;
        return CUDA_SUCCESS;
}
