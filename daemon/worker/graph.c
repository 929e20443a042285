/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that clients instantiated
 *
 * A client writes a graph into a memory file (proto/wire.h). The worker copies it by pread, which is safe if the file
 * shrinks, and then checks the copy: sizes, offsets, dependencies on earlier nodes only, and every record like a record
 * of the ring. Parts can become invalid later, when memory, modules or events are freed; the worker checks those again
 * at the first launch after that. A launch is one operation with a reference to the graph. Its parts point into the
 * copy, and nothing is copied again.
 *
 * An update (GraphUpdate) creates another graph under the same id: launches in flight keep the old one. The new graph
 * takes over the device's instances where possible. The ring's records can change single nodes. If no launch of the
 * graph is in flight, such changes are made in place, and cost time for the changed nodes only. Otherwise they create
 * another graph too.
 *
 * The supervisor keeps the files and passes them to the next worker, after memory and modules. The worker writes
 * changes of nodes into the file when it applies them, so the next worker gets the graph as the last record of the ring
 * left it. A graph that cannot be restored because a module that it names is gone causes an error only when it is
 * launched.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sched/kstat.h"
#include "util/error.h"
#include "worker/graph_internal.h"
#include "worker/graph_piece.h"
#include "worker/repeat.h"

/* launches kernel by kernel before the graph is cut; by then its kernels' times are known */
#define GRAPH_CUT_LAUNCHES 4u
#define GRAPH_CUT_UPDATES 4u /* a graph with more updates is not cut, because each would need all its pieces again */

/* --- creation and destruction ------------------------------------------------------------------------------------- */

static void graph_free(struct dsw_session *session, struct dsw_graph *graph)
{
        ds_worker *worker = session->worker;

        dsw_pieces_free(session, graph->pieces);
        if (graph->sched.device) {
                graph->sched.device = worker->ops->graph_free(worker->device, graph->sched.device);
                dsw_quiesce_chore(worker);
        }
        assert(session->graph_bytes >= graph->charge && session->user->graph_bytes >= graph->charge);
        session->graph_bytes -= graph->charge;
        session->user->graph_bytes -= graph->charge;
        ds_free(graph->device_nodes);
        ds_free(graph->nodes);
        ds_free(graph->file);
        ds_close(graph->fd);
        ds_free(graph);
}

void dsw_graph_put(struct dsw_session *session, struct dsw_graph *graph)
{
        if (!graph)
                return;
        assert(graph->refs);
        if (!--graph->refs)
                graph_free(session, graph);
}

struct dsw_graph *dsw_graph_find(const struct dsw_session *session, uint64_t id)
{
        struct dsw_graph *graph;

        HASH_FIND(hh, session->graphs, &id, sizeof(id), graph);
        return graph;
}

static void graph_drop(struct dsw_session *session, struct dsw_graph *graph)
{
        HASH_DEL(session->graphs, graph);
        session->n_graphs--;
        dsw_graph_put(session, graph);
}

int dsw_graph_destroy(struct dsw_session *session, uint64_t id)
{
        struct dsw_graph *graph = dsw_graph_find(session, id);

        if (!graph)
                return -ENOENT;
        graph_drop(session, graph);
        return 0;
}

void dsw_graph_destroy_all(struct dsw_session *session)
{
        dsw_repeat_forget_all(session);
        while (session->graphs)
                graph_drop(session, session->graphs);
        assert(!session->n_graphs && !session->graph_bytes && !session->n_pieces && !session->piece_bytes);
}

/* --- reading the file --------------------------------------------------------------------------------------------- */

/* Reads all bytes; -1 if the file is shorter or cannot be read. */
static int graph_read(int fd, uint8_t *at, uint64_t bytes)
{
        uint64_t done = 0;
        ssize_t n;

        while (done < bytes) {
                n = pread(fd, at + done, bytes - done, (off_t)done);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return -1;
                done += (uint64_t)n;
        }
        return 0;
}

static int graph_charge(struct dsw_session *session, struct dsw_graph *graph, uint64_t bytes, const char **ret_why)
{
        if (session->graph_bytes + bytes > DSW_SESSION_GRAPH_BYTES)
                return graph_refuse(DETSHARE__STATUS__QUOTA, ret_why, "the session's graphs take too much memory");
        if (session->user->graph_bytes + bytes > DSW_USER_GRAPH_BYTES)
                return graph_refuse(DETSHARE__STATUS__QUOTA, ret_why, "the user's graphs take too much memory");
        graph->charge += bytes;
        session->graph_bytes += bytes;
        session->user->graph_bytes += bytes;
        return 0;
}

/* Charges the session for a graph of n nodes, with the memory that each needs beside its bytes in the file. */
static int graph_begin(
        struct dsw_session *session, struct dsw_graph *graph, uint64_t bytes, uint32_t n, const char **ret_why)
{
        const uint64_t per_node = sizeof(struct graph_node) + sizeof(struct ds_device_node);
        int r = graph_charge(session, graph, sizeof(*graph) + bytes + n * per_node, ret_why);

        if (r)
                return r;
        graph->nodes = ds_alloc0(DS_MAX(n, 1u), sizeof(*graph->nodes));
        if (!graph->nodes)
                return graph_refuse(DS_CUDA_OUT_OF_MEMORY, ret_why, "the daemon is out of memory");
        graph->bytes = bytes;
        graph->n_nodes = n; /* a later change of the client's file has no effect: the count is copied */
        return 0;
}

static int graph_load(
        struct dsw_session *session, struct dsw_graph *graph, int fd, uint64_t bytes, const char **ret_why)
{
        struct ds_graph_file header;
        int r;

        if (fd < 0 || bytes < sizeof(header) || bytes > DS_GRAPH_BYTES_MAX ||
                graph_read(fd, (void *)&header, sizeof(header)))
                return graph_bad(ret_why, "the graph's file is too short or too long");
        if (header.version != DS_WIRE_VERSION || header.bytes != bytes || header.n_nodes > DS_GRAPH_NODES_MAX ||
                header.n_nodes > bytes / sizeof(struct ds_graph_node))
                return graph_bad(ret_why, "the header of the graph's file is invalid");
        r = graph_begin(session, graph, bytes, header.n_nodes, ret_why);
        if (r)
                return r;
        graph->file = ds_alloc(bytes);
        if (!graph->file)
                return graph_refuse(DS_CUDA_OUT_OF_MEMORY, ret_why, "the daemon is out of memory");
        if (graph_read(fd, graph->file, bytes))
                return graph_bad(ret_why, "the graph's file is too short");
        graph->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (graph->fd < 0)
                return graph_refuse(DS_CUDA_OUT_OF_MEMORY, ret_why, "the daemon has too many open files");
        return 0;
}

/* Checks the header of one node, at whose offset `left` bytes of the copied file remain. */
static int graph_frame(const struct dsw_graph *graph, uint32_t index, uint64_t left, const char **ret_why)
{
        const struct ds_graph_node *node = node_at(graph, index);
        const uint32_t *deps = node_deps(node);
        uint64_t deps_end;

        if (left < sizeof(*node) || node->size > left || node->size < sizeof(*node) || node->size % 8)
                return graph_bad(ret_why, "the size of a graph's node is wrong");
        deps_end = sizeof(*node) + (uint64_t)node->n_deps * sizeof(*deps);
        if (node->record_offset < deps_end || node->record_offset % 8 || node->record_offset > node->size ||
                node->size - node->record_offset < sizeof(struct ds_record))
                return graph_bad(ret_why, "the record of a graph's node is not in it");
        for (uint32_t i = 0; i < node->n_deps; i++)
                if (deps[i] >= index)
                        return graph_bad(ret_why, "a graph's node depends on one that does not come before it");
        if (node->flags & ~DS_GRAPH_NODE_DISABLED)
                return graph_bad(ret_why, "an unknown flag of a graph's node");
        *ret_why = dsw_record_check_node(node_record(graph, index), node->size - node->record_offset);
        return *ret_why ? DS_CUDA_INVALID_VALUE : 0;
}

static int graph_frames(struct dsw_graph *graph, const char **ret_why)
{
        uint64_t at = sizeof(struct ds_graph_file);
        int r = 0;

        for (uint32_t i = 0; !r && i < graph->n_nodes; i++) {
                graph->nodes[i].offset = (uint32_t)at;
                r = graph_frame(graph, i, graph->bytes - at, ret_why);
                if (!r)
                        at += node_at(graph, i)->size;
        }
        if (!r && at != graph->bytes)
                r = graph_bad(ret_why, "the graph's file has bytes behind its last node");
        return r;
}

/* --- checks of the nodes ------------------------------------------------------------------------------------------ */

struct ds_launch dsw_graph_launch_of(const struct dsw_kernel *kernel, const struct ds_record_launch *record)
{
        struct ds_launch launch = {
                .kernel = kernel->device,
                .shared_bytes = record->shared_bytes,
                .params = record + 1,
                .params_size = record->params_size,
                .cooperative = record->cooperative != 0,
        };

        for (int i = 0; i < 3; i++) {
                launch.grid[i] = record->grid[i];
                launch.block[i] = record->block[i];
                launch.cluster[i] = record->cluster[i];
        }
        return launch;
}

static struct ds_copy node_copy(const struct ds_record_copy *record)
{
        return (struct ds_copy){
                .kind = (enum ds_copy_kind)record->kind,
                .dst = record->dst,
                .src = record->src,
                .width = record->width,
                .height = record->height,
                .dst_pitch = record->dst_pitch,
                .src_pitch = record->src_pitch,
        };
}

static struct ds_memset node_memset(const struct ds_record_memset *record)
{
        return (struct ds_memset){
                .dst = record->dst,
                .value = record->value,
                .element_size = record->element_size,
                .width = record->width,
                .height = record->height,
                .pitch = record->pitch,
        };
}

static int check_launch(struct dsw_session *session, struct graph_node *node, const struct ds_record_launch *record,
        const char **ret_why)
{
        struct dsw_kernel *kernel = dsw_module_kernel(session, record->kernel);
        struct ds_launch launch;

        /* a module that is being unloaded stays until the launches in flight end, but new launches of its kernels
         * are refused */
        if (!kernel)
                return graph_refuse(DS_CUDA_INVALID_HANDLE, ret_why, "a graph launches an unknown kernel");
        node->kernel = kernel;
        launch = dsw_graph_launch_of(kernel, record);
        return dsw_check_launch(&session->worker->limits, node->kernel->info, &launch, ret_why);
}

static int check_copy(
        struct dsw_session *session, struct graph_node *node, struct ds_record_copy *record, const char **ret_why)
{
        struct ds_copy copy = node_copy(record);
        int empty, r = dsw_check_copy(&copy, dsw_memory_where, session, &empty, ret_why);

        node->nothing = !r && empty;
        record->kind = copy.kind; /* the kind of copy that follows from the two addresses */
        return r;
}

static int check_memset(struct dsw_session *session, struct graph_node *node, const struct ds_record_memset *record,
        const char **ret_why)
{
        struct ds_memset set = node_memset(record);
        int empty, r = dsw_check_memset(&set, dsw_memory_where, session, &empty, ret_why);

        node->nothing = !r && empty;
        return r;
}

static int check_event(struct dsw_session *session, struct graph_node *node, const struct ds_record_event *record,
        const char **ret_why)
{
        node->nothing = !record->event;
        if (!record->event || dsw_event_find(session, record->event))
                return 0;
        return graph_refuse(DS_CUDA_INVALID_HANDLE, ret_why, "a graph records an unknown event");
}

int dsw_graph_check_record(
        struct dsw_session *session, struct graph_node *node, struct ds_record *record, const char **ret_why)
{
        switch (record->type) {
        case DS_RECORD_LAUNCH:
                return check_launch(session, node, (void *)record, ret_why);
        case DS_RECORD_COPY:
                return check_copy(session, node, (void *)record, ret_why);
        case DS_RECORD_MEMSET:
                return check_memset(session, node, (void *)record, ret_why);
        case DS_RECORD_EVENT:
                return check_event(session, node, (void *)record, ret_why);
        case DS_RECORD_HOST:
                return 0;
        case DS_RECORD_VALUE:
                return dsw_check_value((void *)record, dsw_memory_where, session, ret_why);
        default:
                node->nothing = 1;
                return record->type == DS_RECORD_PAD ? 0 : graph_bad(ret_why, "no record for a graph's node");
        }
}

static int graph_check_node(struct dsw_session *session, struct dsw_graph *graph, uint32_t index, const char **ret_why)
{
        if (!(node_at(graph, index)->flags & DS_GRAPH_NODE_DISABLED))
                return dsw_graph_check_record(session, &graph->nodes[index], node_record(graph, index), ret_why);
        graph->nodes[index].nothing = 1;
        return 0;
}

static int graph_check(struct dsw_session *session, struct dsw_graph *graph, const char **ret_why)
{
        int r = 0;

        session->graph_cost += graph->n_nodes / GRAPH_CHECKED_PER_RECORD;
        for (uint32_t i = 0; !r && i < graph->n_nodes; i++)
                r = graph_check_node(session, graph, i, ret_why);
        graph->checked = session->n_taken;
        return r;
}

/* --- the graph of the device -------------------------------------------------------------------------------------- */

void dsw_graph_device_node_of(const struct ds_graph_node *at, const struct graph_node *node,
        const struct ds_record *record, struct ds_device_node *ret)
{
        *ret = (struct ds_device_node){.n_deps = at->n_deps, .deps = node_deps(at)};
        if (node->nothing)
                return;
        switch (record->type) {
        case DS_RECORD_LAUNCH:
                ret->kind = DS_NODE_LAUNCH;
                ret->launch = dsw_graph_launch_of(node->kernel, (const void *)record);
                break;
        case DS_RECORD_COPY:
                ret->kind = DS_NODE_COPY;
                ret->copy = node_copy((const void *)record);
                break;
        case DS_RECORD_MEMSET:
                ret->kind = DS_NODE_MEMSET;
                ret->memset = node_memset((const void *)record);
                break;
        default:
                break;
        }
}

static void device_node_fill(const struct dsw_graph *graph, uint32_t index, struct ds_device_node *ret)
{
        dsw_graph_device_node_of(node_at(graph, index), &graph->nodes[index], node_record(graph, index), ret);
}

uint32_t dsw_graph_n_nodes(const struct dsw_graph *graph)
{
        return graph->n_nodes;
}

enum dsw_node_class dsw_graph_node_class(const struct dsw_graph *graph, uint32_t index)
{
        if (graph->nodes[index].nothing)
                return DSW_NODE_EMPTY;
        switch (node_record(graph, index)->type) {
        case DS_RECORD_LAUNCH:
        case DS_RECORD_COPY:
        case DS_RECORD_MEMSET:
                return DSW_NODE_WORK;
        default:
                return DSW_NODE_ODD;
        }
}

void dsw_graph_device_node(const struct dsw_graph *graph, uint32_t index, struct ds_device_node *ret)
{
        device_node_fill(graph, index, ret);
}

const struct dsw_kernel *dsw_graph_node_kernel(const struct dsw_graph *graph, uint32_t index)
{
        return graph->nodes[index].kernel;
}

/* Fills in the counts, and the attributes that a policy sees. */
static void graph_describe(struct dsw_session *session, struct dsw_graph *graph)
{
        /* the base of the key: graphs of equal nodes get the same key in the statistics, also in different sessions */
        graph->sched.key = 1;
        for (uint32_t i = 0; i < graph->n_nodes; i++) {
                const struct ds_record *record = node_record(graph, i);
                struct ds_launch launch;

                if (graph->nodes[i].nothing)
                        continue;
                switch (record->type) {
                case DS_RECORD_LAUNCH:
                        launch = dsw_graph_launch_of(graph->nodes[i].kernel, (const void *)record);
                        ds_sched_graph_add(session->worker->sched, &graph->sched, &launch);
                        graph->sched.n_works++;
                        break;
                case DS_RECORD_COPY:
                case DS_RECORD_MEMSET:
                        graph->sched.key = ds_kstat_mix(graph->sched.key, record->type);
                        graph->sched.n_works++;
                        break;
                default:
                        graph->n_odd++;
                        graph->n_events += record->type == DS_RECORD_EVENT;
                        break;
                }
        }
}

void dsw_graph_describe_again(struct dsw_session *session, struct dsw_graph *graph)
{
        graph->sched = (struct ds_sched_graph){.device = graph->sched.device};
        graph->n_odd = graph->n_events = 0;
        graph_describe(session, graph);
        session->graph_cost += graph->n_nodes / GRAPH_SEEN_PER_RECORD;
}

/* Creates the device's graph if possible. Returns 0, also if the graph must be launched kernel by kernel; or
 * OUT_OF_MEMORY. */
static int graph_offer(struct dsw_session *session, struct dsw_graph *graph, const char **ret_why)
{
        ds_worker *worker = session->worker;
        int r;

        if (!worker->ops->graph_new || graph->n_odd || !graph->sched.n_works)
                return 0;
        graph->device_nodes = ds_alloc0(graph->n_nodes, sizeof(*graph->device_nodes));
        if (!graph->device_nodes)
                return graph_refuse(DS_CUDA_OUT_OF_MEMORY, ret_why, "the daemon is out of memory");
        for (uint32_t i = 0; i < graph->n_nodes; i++)
                device_node_fill(graph, i, &graph->device_nodes[i]);
        r = worker->ops->graph_new(
                worker->device, session->space, graph->device_nodes, graph->n_nodes, &graph->sched.device);
        if (!r)
                return 0;
        graph->sched.device = NULL;
        graph->device_nodes = ds_free(graph->device_nodes);
        return r == DS_CUDA_NOT_SUPPORTED ? 0
                                          : graph_refuse(DS_CUDA_OUT_OF_MEMORY, ret_why, "the device is out of memory");
}

/* A graph without nodes and with one reference; NULL: there is no memory. */
static struct dsw_graph *graph_new(uint64_t id, const char **ret_why)
{
        struct dsw_graph *graph = ds_alloc0(1, sizeof(*graph));

        if (!graph) {
                *ret_why = "the daemon is out of memory";
                return NULL;
        }
        graph->id = id;
        graph->refs = 1;
        graph->fd = -1;
        return graph;
}

/* Checks the nodes of a new graph, whose file is there if r is 0, and offers the graph to the device. */
static int graph_finish(
        struct dsw_session *session, struct dsw_graph *graph, int r, struct dsw_graph **ret, const char **ret_why)
{
        if (!r)
                r = graph_frames(graph, ret_why);
        if (!r)
                r = graph_check(session, graph, ret_why);
        if (!r) {
                graph_describe(session, graph);
                r = graph_offer(session, graph, ret_why);
        }
        if (r)
                dsw_graph_put(session, graph);
        else
                *ret = graph;
        return r;
}

/* Creates a graph from its file; *ret has one reference. */
static int graph_make(
        struct dsw_session *session, uint64_t id, int fd, uint64_t bytes, struct dsw_graph **ret, const char **ret_why)
{
        struct dsw_graph *graph = graph_new(id, ret_why);

        if (!graph)
                return DS_CUDA_OUT_OF_MEMORY;
        return graph_finish(session, graph, graph_load(session, graph, fd, bytes, ret_why), ret, ret_why);
}

int dsw_graph_from(struct dsw_session *session, void *file, struct dsw_graph **ret, const char **ret_why)
{
        const struct ds_graph_file *header = file;
        struct dsw_graph *graph = graph_new(0, ret_why);

        if (!graph) {
                ds_free(file);
                return DS_CUDA_OUT_OF_MEMORY;
        }
        graph->file = file;
        graph->n_updates = UINT32_MAX; /* each launch has parameters of its own, so pieces would be wrong */
        return graph_finish(
                session, graph, graph_begin(session, graph, header->bytes, header->n_nodes, ret_why), ret, ret_why);
}

/* Copies the nodes of `old`, with the changes, into an empty graph. */
static int graph_copy_nodes(struct dsw_session *session, struct dsw_graph *graph, const struct dsw_graph *old,
        const struct dsw_changes *changes, const char **ret_why)
{
        int r = graph_charge(session, graph, old->charge, ret_why);

        if (r)
                return r;
        graph->file = ds_alloc(old->bytes);
        graph->nodes = ds_alloc(DS_MAX(old->n_nodes, 1u) * sizeof(*graph->nodes));
        if (!graph->file || !graph->nodes)
                return graph_refuse(DS_CUDA_OUT_OF_MEMORY, ret_why, "the daemon is out of memory");
        graph->bytes = old->bytes;
        graph->n_nodes = old->n_nodes;
        memcpy(graph->file, old->file, old->bytes);
        memcpy(graph->nodes, old->nodes, old->n_nodes * sizeof(*graph->nodes));
        dsw_graph_write(graph, changes);
        return graph_check(session, graph, ret_why);
}

int dsw_graph_copy(struct dsw_session *session, const struct dsw_graph *old, const struct dsw_changes *changes,
        struct dsw_graph **ret, const char **ret_why)
{
        struct dsw_graph *graph = graph_new(old->id, ret_why);
        int r;

        if (!graph)
                return DS_CUDA_OUT_OF_MEMORY;
        r = graph_copy_nodes(session, graph, old, changes, ret_why);
        if (!r) {
                graph_describe(session, graph);
                r = graph_offer(session, graph, ret_why);
        }
        if (r)
                dsw_graph_put(session, graph);
        else
                *ret = graph;
        return r;
}

static int graph_add(struct dsw_session *session, struct dsw_graph *graph, const char **ret_why)
{
        HASH_ADD(hh, session->graphs, id, sizeof(graph->id), graph);
        if (!graph->hh.tbl)
                return graph_refuse(DS_CUDA_OUT_OF_MEMORY, ret_why, "the daemon is out of memory");
        session->n_graphs++;
        return 0;
}

/* Instantiates a graph on the session's rung before its first launch, if it will be launched as a whole. Returns 0
 * if a quiesce is needed first, else 1. */
static int graph_build(struct dsw_session *session, const struct dsw_graph *graph)
{
        ds_worker *worker = session->worker;

        if (!graph->sched.device || worker->kernel_ns || !ds_sched_graph_whole(session->sched))
                return 1;
        if (!dsw_quiesce_may(session))
                return 0;
        /* a graph whose instantiation fails is launched kernel by kernel */
        (void)ds_sched_graph_build(session->sched, &graph->sched);
        return 1;
}

/* Makes the graph, or checks again the one that was made before the session waited for a stop. */
static int graph_make_once(
        struct dsw_session *session, uint64_t id, int fd, uint64_t bytes, struct dsw_graph **kept, const char **ret_why)
{
        if (!*kept)
                return graph_make(session, id ? id : session->graph_id + 1, fd, bytes, kept, ret_why);
        return (*kept)->checked == session->n_taken ? 0 : graph_check(session, *kept, ret_why);
}

int dsw_graph_create(struct dsw_session *session, uint64_t id, int fd, uint64_t bytes, struct dsw_graph **kept,
        uint64_t *ret_id, const char **ret_why)
{
        struct dsw_graph *graph;
        int r;

        if (id && dsw_graph_find(session, id))
                return graph_refuse(DETSHARE__STATUS__BAD_REQUEST, ret_why, "a graph with this id exists already");
        if (session->n_graphs >= DSW_SESSION_GRAPHS_MAX)
                return graph_refuse(DETSHARE__STATUS__QUOTA, ret_why, "the session has too many graphs");
        r = graph_make_once(session, id, fd, bytes, kept, ret_why);
        if (!r && !id && !graph_build(session, *kept))
                return DSW_WORK_E_STALLED;
        graph = DS_TAKE_PTR(*kept);
        if (!r)
                r = graph_add(session, graph, ret_why);
        if (r) {
                dsw_graph_put(session, graph);
                return r;
        }
        session->graph_id = DS_MAX(session->graph_id, graph->id);
        *ret_id = graph->id;
        return 0;
}

/* Whether two graphs have the same number of nodes, with equal types and dependencies. Parameters may differ. */
static int graph_is_alike(const struct dsw_graph *a, const struct dsw_graph *b)
{
        if (a->n_nodes != b->n_nodes)
                return 0;
        for (uint32_t i = 0; i < a->n_nodes; i++) {
                const struct ds_graph_node *x = node_at(a, i), *y = node_at(b, i);

                if (x->n_deps != y->n_deps || memcmp(node_deps(x), node_deps(y), x->n_deps * sizeof(uint32_t)) ||
                        node_record(a, i)->type != node_record(b, i)->type)
                        return 0;
        }
        return 1;
}

int dsw_graph_replace(struct dsw_session *session, struct dsw_graph *old, struct dsw_graph *graph, const char **ret_why)
{
        ds_worker *worker = session->worker;
        int r;

        HASH_DEL(session->graphs, old);
        session->n_graphs--;
        r = graph_add(session, graph, ret_why);
        if (r && graph_add(session, old, ret_why))
                /* not even the old graph fits into memory any more: the session loses it */
                dsw_graph_put(session, old);
        if (r) {
                dsw_graph_put(session, graph);
                return r;
        }
        graph->n_updates = old->n_updates + (old->n_updates < UINT32_MAX);
        if (old->sched.device && graph->sched.device)
                worker->ops->graph_take(worker->device, old->sched.device, graph->sched.device);
        dsw_graph_put(session, old);
        return 0;
}

int dsw_graph_update(struct dsw_session *session, uint64_t id, int fd, uint64_t bytes, const char **ret_why)
{
        struct dsw_graph *old = dsw_graph_find(session, id), *graph;
        int r;

        if (!old)
                return graph_refuse(DS_CUDA_INVALID_HANDLE, ret_why, "update of an unknown graph");
        r = graph_make(session, id, fd, bytes, &graph, ret_why);
        if (r)
                return r;
        if (graph_is_alike(old, graph))
                return dsw_graph_replace(session, old, graph, ret_why);
        dsw_graph_put(session, graph);
        return graph_bad(ret_why, "an update of a graph has other nodes than the graph");
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

int dsw_graph_get(struct dsw_session *session, uint64_t id, struct dsw_graph **ret, const char **ret_why)
{
        struct dsw_graph *graph = dsw_graph_find(session, id);
        int r = 0;

        if (!graph)
                return graph_refuse(DS_CUDA_INVALID_HANDLE, ret_why, "launch of an unknown graph");
        if (graph->checked != session->n_taken)
                r = graph_check(session, graph, ret_why);
        if (r) {
                graph->checked = session->n_taken - 1;
                return r;
        }
        graph->refs++;
        *ret = graph;
        return 0;
}

/* Whether to cut the graph after this many launches: at GRAPH_CUT_LAUNCHES, and then whenever the number has
 * doubled. */
static int graph_cut_is_due(uint32_t n_launches)
{
        return n_launches >= GRAPH_CUT_LAUNCHES && !(n_launches & (n_launches - 1));
}

/* Called after a launch kernel by kernel: cuts the graph into pieces if that is due. */
static void graph_cut(struct dsw_session *session, struct dsw_graph *graph)
{
        const ds_worker *worker = session->worker;

        if (graph->pieces || worker->kernel_ns || ds_sched_graph_whole(session->sched) ||
                graph->n_updates > GRAPH_CUT_UPDATES || graph->n_launches == UINT32_MAX ||
                !graph_cut_is_due(++graph->n_launches))
                return;
        dsw_pieces_cut(session, graph, &graph->pieces);
        session->graph_cost += graph->n_nodes / GRAPH_CHECKED_PER_RECORD;
}

void dsw_graph_prepare(struct dsw_session *session, struct dsw_graph *graph, struct ds_op *op)
{
        graph_cut(session, graph);
        op->graph = &graph->sched;
        op->whole.graph = graph->sched.device;
        /* the administrator's time bound applies to each kernel, so the graph must run kernel by kernel */
        op->parts_only = session->worker->kernel_ns != 0;
}

int dsw_graph_may_be_whole(const struct dsw_graph *graph)
{
        return graph->sched.device != NULL;
}

int dsw_graph_launches_whole(const struct dsw_session *session, const struct dsw_graph *graph)
{
        return graph->sched.device && ds_sched_graph_ready(session->sched, &graph->sched);
}

int dsw_graph_instantiate(struct dsw_session *session, const struct dsw_graph *graph)
{
        return graph->sched.device ? ds_sched_graph_build(session->sched, &graph->sched) : DS_CUDA_NOT_SUPPORTED;
}

void dsw_graph_attach(struct dsw_session *session, struct dsw_graph *graph, struct dsw_op *op)
{
        graph->refs++;
        op->graph = graph;
        dsw_graph_prepare(session, graph, &op->op);
}

void dsw_graph_record_events(struct dsw_session *session, const struct dsw_graph *graph)
{
        session->graph_cost += graph->n_events ? graph->n_nodes / GRAPH_SEEN_PER_RECORD : 0;
        for (uint32_t i = 0; graph->n_events && i < graph->n_nodes; i++) {
                const struct ds_record *record = node_record(graph, i);
                struct dsw_event *event;

                if (record->type != DS_RECORD_EVENT || graph->nodes[i].nothing)
                        continue;
                event = dsw_event_known(session, ((const struct ds_record_event *)record)->event);
                if (!event)
                        continue;
                event->index = session->op_index;
                event->ended = 0;
        }
}

static enum ds_op_kind part_kind(const struct ds_record *record)
{
        static const enum ds_op_kind kinds[_DS_RECORD_MAX] = {
                [DS_RECORD_LAUNCH] = DS_OP_LAUNCH,
                [DS_RECORD_COPY] = DS_OP_COPY,
                [DS_RECORD_MEMSET] = DS_OP_MEMSET,
                [DS_RECORD_EVENT] = DS_OP_MARK,
                [DS_RECORD_HOST] = DS_OP_OUTSIDE,
                [DS_RECORD_VALUE] = DS_OP_OUTSIDE,
        };

        if (record->type == DS_RECORD_VALUE && ((const struct ds_record_value *)record)->kind == DS_VALUE_WRITE)
                return DS_OP_MEMSET;
        return kinds[record->type];
}

static void part_fill(const struct dsw_graph *graph, uint32_t index, struct dsw_op *part)
{
        const struct ds_record *record = node_record(graph, index);

        switch (record->type) {
        case DS_RECORD_LAUNCH:
                part->op.launch = dsw_graph_launch_of(graph->nodes[index].kernel, (const void *)record);
                dsw_forms_launch(part->session, graph->nodes[index].kernel, part);
                break;
        case DS_RECORD_COPY:
                part->op.copy = node_copy((const void *)record);
                break;
        case DS_RECORD_MEMSET:
                part->op.memset = node_memset((const void *)record);
                break;
        case DS_RECORD_EVENT:
                part->event = ((const struct ds_record_event *)record)->event;
                break;
        case DS_RECORD_HOST:
                part->outside = DSW_OUTSIDE_HOST;
                part->host_id = ((const struct ds_record_host *)record)->id;
                break;
        case DS_RECORD_VALUE:
                dsw_op_set_value(part, (const void *)record);
                break;
        default:
                break;
        }
        dsw_op_set_session(part);
}

/* Gives a launch its parameters of the launch of the graph, which is in the caller's memory until it ends. */
static void part_take_params(struct dsw_op *whole, struct dsw_op *part)
{
        part->op.launch.params = whole->op.whole.params + whole->graph_params;
        whole->graph_params += DS_ALIGN_UP(part->op.launch.params_size, 8u);
}

/* Makes an operation that launches a piece as a small graph. The scheduler can unfold it into single nodes in turn. */
static void part_fill_piece(struct dsw_op *whole, const struct dsw_piece *piece, struct dsw_op *part)
{
        part->graph = whole->graph;
        part->graph->refs++;
        part->piece = piece;
        dsw_piece_use(part->session, piece);
        part->graph_next = piece->first;
        part->op.graph = &piece->sched;
        part->op.whole.graph = piece->sched.device;
        part->op.parts_only = whole->op.parts_only;
        dsw_op_set_session(part);
        whole->graph_next = piece->end;
}

int dsw_graph_unfold(void *user, struct ds_op *op, struct ds_op **ret)
{
        struct dsw_op *whole = DS_CONTAINER_OF(op, struct dsw_op, op), *part;
        const struct dsw_graph *graph = whole->graph;
        const uint32_t end = whole->piece ? whole->piece->end : graph->n_nodes;
        const struct dsw_piece *piece;

        while (whole->graph_next < end && graph->nodes[whole->graph_next].nothing)
                whole->graph_next++;
        if (whole->graph_next == end)
                return 0;
        piece = dsw_pieces_at(graph->pieces, whole->piece, whole->graph_next);
        part = dsw_op_new(whole->session, piece ? DS_OP_GRAPH : part_kind(node_record(graph, whole->graph_next)), 0);
        if (!part)
                return -ENOMEM;
        part->stream = whole->stream;
        part->index = whole->index;
        if (piece)
                part_fill_piece(whole, piece, part);
        else
                part_fill(graph, whole->graph_next++, part);
        if (whole->op.whole.params)
                part_take_params(whole, part);
        *ret = &part->op;
        return 1;
}
