/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of single nodes of a graph, in records of the ring
 *
 * A program that changes a few nodes before each launch (a framework that updates parameters per token) pays for these
 * nodes only: nothing else of the graph is sent, checked or given to the driver again. The worker copies the changes
 * from the ring and checks them like nodes of a file. It applies all changes of a record or none.
 *
 * If no launch of the graph is in flight and the driver can change the nodes of its instances, the changes are made in
 * place. Otherwise the worker makes a copy of the graph, because launches in flight keep the old parameters.
 *
 * The changes are then written into the client's file, from which the next worker restores the graph. So after the end
 * of a worker the graph has exactly the changes of those records that the worker had handled.
 */
#include <string.h>
#include <sys/mman.h>

#include "worker/graph_internal.h"
#include "worker/graph_piece.h"

static int change_check(struct dsw_session *session, const struct dsw_graph *graph,
        const struct ds_graph_change *change, uint32_t left, struct dsw_change *ret, const char **ret_why)
{
        struct ds_record *record = (void *)(change + 1), *old;

        if (left < sizeof(*change) + sizeof(*record) || change->size < sizeof(*change) + sizeof(*record) ||
                change->size > left || change->size % 8)
                return graph_bad(ret_why, "the size of a change of a graph's node is wrong");
        if (change->node >= graph->n_nodes)
                return graph_bad(ret_why, "a change is of a node that the graph does not have");
        *ret_why = dsw_record_check_node(record, change->size - sizeof(*change));
        if (*ret_why)
                return DS_CUDA_INVALID_VALUE;
        old = node_record(graph, change->node);
        if (record->type != old->type || record->size != old->size ||
                (record->type != DS_RECORD_LAUNCH && record->type != DS_RECORD_COPY &&
                        record->type != DS_RECORD_MEMSET))
                return graph_bad(ret_why, "a change of a graph's node has another type or size than the node");
        *ret = (struct dsw_change){.index = change->node, .node = graph->nodes[change->node], .record = record};
        if (node_at(graph, change->node)->flags & DS_GRAPH_NODE_DISABLED)
                return 0;
        return dsw_graph_check_record(session, &ret->node, record, ret_why);
}

/* Copies the client's changes and checks them. The caller frees the arrays of *ret, also after a failure. */
static int changes_take(struct dsw_session *session, const struct dsw_graph *graph, const void *from, uint32_t bytes,
        struct dsw_changes *ret, const char **ret_why)
{
        uint32_t most = bytes / (sizeof(struct ds_graph_change) + sizeof(struct ds_record)), used = 0;
        int r = 0;

        ret->copy = ds_alloc(bytes);
        ret->at = ds_alloc(DS_MAX(most, 1u) * sizeof(*ret->at));
        if (!ret->copy || !ret->at)
                return graph_refuse(DS_CUDA_OUT_OF_MEMORY, ret_why, "the daemon is out of memory");
        memcpy(ret->copy, from, bytes);
        while (!r && used < bytes) {
                const struct ds_graph_change *change = (const void *)(ret->copy + used);

                r = change_check(session, graph, change, bytes - used, &ret->at[ret->n], ret_why);
                if (!r && ret->n && ret->at[ret->n - 1].index >= ret->at[ret->n].index)
                        r = graph_bad(ret_why, "changes of a graph are not in the order of its nodes");
                if (!r)
                        used += change->size;
                ret->n += !r;
        }
        session->graph_cost += ret->n / GRAPH_CHECKED_PER_RECORD;
        return r;
}

/* Whether the change leaves everything of a launch as it is, except the bytes of its parameters. */
static int change_is_small(const struct dsw_graph *graph, const struct dsw_change *change)
{
        const size_t from = offsetof(struct ds_record_launch, kernel);

        return change->record->type != DS_RECORD_LAUNCH ||
               !memcmp((const uint8_t *)change->record + from,
                       (const uint8_t *)node_record(graph, change->index) + from,
                       sizeof(struct ds_record_launch) - from);
}

static int changes_on_device(struct dsw_session *session, struct dsw_graph *graph, const struct dsw_changes *changes)
{
        ds_worker *worker = session->worker;
        struct ds_device_node *nodes = ds_alloc(DS_MAX(changes->n, 1u) * sizeof(*nodes));
        uint32_t *at = ds_alloc(DS_MAX(changes->n, 1u) * sizeof(*at));
        int r = nodes && at ? 0 : DS_CUDA_NOT_SUPPORTED;

        for (uint32_t i = 0; !r && i < changes->n; i++) {
                const struct dsw_change *change = &changes->at[i];

                at[i] = change->index;
                dsw_graph_device_node_of(node_at(graph, change->index), &change->node, change->record, &nodes[i]);
        }
        if (!r)
                r = worker->ops->graph_change(
                        worker->device, session->space, graph->sched.device, at, nodes, changes->n);
        ds_free(nodes);
        ds_free(at);
        return r;
}

void dsw_graph_write(struct dsw_graph *graph, const struct dsw_changes *changes)
{
        for (uint32_t i = 0; i < changes->n; i++) {
                const struct dsw_change *change = &changes->at[i];

                graph->nodes[change->index] = change->node;
                memcpy(node_record(graph, change->index), change->record, change->record->size);
        }
}

/* Makes the changes in the graph itself. Returns 0, or 1 if they need a new graph. */
static int changes_in_place(struct dsw_session *session, struct dsw_graph *graph, const struct dsw_changes *changes)
{
        int small = 1;

        if (graph->refs > 1 || graph->pieces)
                return 1;
        for (uint32_t i = 0; i < changes->n; i++) {
                if (graph->nodes[changes->at[i].index].nothing != changes->at[i].node.nothing)
                        return 1;
                small = small && change_is_small(graph, &changes->at[i]);
        }
        if (graph->sched.device && changes_on_device(session, graph, changes))
                return 1;
        dsw_graph_write(graph, changes);
        for (uint32_t i = 0; graph->sched.device && i < changes->n; i++)
                dsw_graph_device_node(graph, changes->at[i].index, &graph->device_nodes[changes->at[i].index]);
        if (!small)
                dsw_graph_describe_again(session, graph);
        graph->n_updates += graph->n_updates < UINT32_MAX;
        return 0;
}

/* Replaces the graph by a copy with the changes. Launches in flight keep the old one. */
static int changes_in_copy(
        struct dsw_session *session, struct dsw_graph **graph, const struct dsw_changes *changes, const char **ret_why)
{
        struct dsw_graph *old = *graph, *copy;
        int r = dsw_graph_copy(session, old, changes, &copy, ret_why);

        /* without room for a copy: when the launches in flight have ended, the changes are made in place */
        if ((r == DETSHARE__STATUS__QUOTA || r == DS_CUDA_OUT_OF_MEMORY) && old->refs > 1)
                return DSW_WORK_E_STALLED;
        if (r)
                return r;
        old->refs++;
        r = dsw_graph_replace(session, old, copy, ret_why);
        if (!r) {
                copy->fd = DS_TAKE_FD(old->fd);
                *graph = copy;
        }
        dsw_graph_put(session, old);
        return r;
}

/*
 * Stores bytes of the graph in the client's file, through a mapping: pwrite() takes the lock of the file, which a
 * client can hold for any time by a write of its own whose source page never comes. The file has a fixed size and no
 * huge pages (ds_page_file_has()), so the access causes no SIGBUS. Returns 0 or -1.
 */
static int file_store(const struct dsw_graph *graph, uint32_t from, uint32_t bytes)
{
        const uint32_t start = from & ~(DSW_PAGE_ALIGN - 1);
        uint8_t *p = mmap(NULL, from + bytes - start, PROT_WRITE, MAP_SHARED, graph->fd, (off_t)start);

        if (p == MAP_FAILED)
                return -1;
        memcpy(p + (from - start), graph->file + from, bytes);
        munmap(p, from + bytes - start);
        return 0;
}

/* Writes the changed nodes into the client's file, neighbours in one piece. */
static int changes_keep(const struct dsw_graph *graph, const struct dsw_changes *changes, const char **ret_why)
{
        for (uint32_t i = 0, end; i < changes->n; i = end) {
                const uint32_t first = changes->at[i].index, from = graph->nodes[first].offset;
                uint32_t last = first;

                for (end = i + 1; end < changes->n && changes->at[end].index == last + 1; end++)
                        last++;
                if (file_store(graph, from, graph->nodes[last].offset + node_at(graph, last)->size - from))
                        return graph_bad(ret_why, "changes cannot be written into the graph's file");
        }
        return 0;
}

int dsw_graph_change(struct dsw_session *session, uint64_t id, const void *from, uint32_t bytes, const char **ret_why)
{
        struct dsw_graph *graph = dsw_graph_find(session, id);
        struct dsw_changes changes = {0};
        int r;

        if (!graph)
                return graph_refuse(DS_CUDA_INVALID_HANDLE, ret_why, "change of an unknown graph");
        r = changes_take(session, graph, from, bytes, &changes, ret_why);
        if (!r && changes_in_place(session, graph, &changes))
                r = changes_in_copy(session, &graph, &changes, ret_why);
        if (!r)
                r = changes_keep(graph, &changes, ret_why);
        ds_free(changes.copy);
        ds_free(changes.at);
        return r;
}
