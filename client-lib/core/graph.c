/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instantiated graphs
 *
 * A graph's nodes are sent once, in a memory file that the daemon keeps, so that the graph's id survives the worker. The
 * file is not sealed against writes, because the daemon writes changes of nodes into it. A launch is one record. It can
 * contain changes of nodes.
 */
#include "core/internal.h"

#include <fcntl.h>
#include <unistd.h>

static int sealed_file(dsc_session *s, const void *bytes, size_t size, int *ret_fd)
{
        const int r = dsc__usable(s);
        if (r || !size || size > DS_GRAPH_BYTES_MAX)
                return r ? r : DSC__INVALID_VALUE;
        return dsc__sealed_file("detshare-graph", bytes, size, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, ret_fd);
}

int dsc_graph_create(dsc_session *s, const void *file, size_t bytes, uint64_t *ret_graph)
{
        int fd = -1;
        int r = sealed_file(s, file, bytes, &fd);
        if (r)
                return r;
        Detshare__GraphCreate create = DETSHARE__GRAPH_CREATE__INIT;
        create.bytes = bytes;
        Detshare__Request request = DSC__REQUEST(GRAPH_CREATE, graph_create, &create);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        r = dsc__call(s, &request, fd, DETSHARE__REPLY__RESULT_GRAPH_CREATE, &answer);
        close(fd);
        if (r)
                return r;
        *ret_graph = answer.reply->graph_create->graph;
        atomic_store(&s->graph_changes, answer.reply->graph_create->changes);
        dsc__answer_clear(&answer);
        return 0;
}

int dsc_graph_update(dsc_session *s, uint64_t graph, const void *file, size_t bytes)
{
        int fd = -1;
        int r = sealed_file(s, file, bytes, &fd);
        if (r)
                return r;
        Detshare__GraphUpdate update = DETSHARE__GRAPH_UPDATE__INIT;
        update.graph = graph;
        update.bytes = bytes;
        Detshare__Request request = DSC__REQUEST(GRAPH_UPDATE, graph_update, &update);
        r = dsc__call(s, &request, fd, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
        close(fd);
        return r;
}

int dsc_graph_destroy(dsc_session *s, uint64_t graph)
{
        Detshare__GraphDestroy destroy = DETSHARE__GRAPH_DESTROY__INIT;
        destroy.graph = graph;
        Detshare__Request request = DSC__REQUEST(GRAPH_DESTROY, graph_destroy, &destroy);
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

static int launch_call(dsc_session *s, uint32_t stream, uint64_t graph, uint64_t *ret_seq)
{
        Detshare__GraphLaunch launch = DETSHARE__GRAPH_LAUNCH__INIT;
        launch.stream = stream;
        launch.graph = graph;
        Detshare__Request request = DSC__REQUEST(GRAPH_LAUNCH, graph_launch, &launch);
        return dsc__submit_call(s, stream, &request, ret_seq);
}

/* Puts a record of a graph into the ring. */
static int submit_graph(dsc_session *s, uint16_t type, uint32_t stream, uint64_t graph, const void *changes,
        size_t bytes, uint64_t *ret_seq)
{
        const struct ds_record_graph record = {
                .head = {.type = type, .stream = (uint16_t)stream},
                .graph = graph,
        };
        return dsc__submit(s, &record.head, sizeof(record), changes, bytes, ret_seq);
}

int dsc_graph_launch(dsc_session *s, uint32_t stream, uint64_t graph, uint64_t *ret_seq)
{
        return dsc_graph_change_launch(s, stream, graph, NULL, 0, ret_seq);
}

size_t dsc_graph_changes_max(dsc_session *s)
{
        return s->socket_only || !atomic_load(&s->graph_changes) ? 0 : DS_GRAPH_CHANGES_MAX;
}

int dsc_graph_change(dsc_session *s, uint32_t stream, uint64_t graph, const void *changes, size_t bytes)
{
        if (stream >= DS_STREAMS_MAX || bytes > dsc_graph_changes_max(s))
                return DSC__INVALID_VALUE;
        return submit_graph(s, DS_RECORD_CHANGE, stream, graph, changes, bytes, NULL);
}

int dsc_graph_change_launch(
        dsc_session *s, uint32_t stream, uint64_t graph, const void *changes, size_t bytes, uint64_t *ret_seq)
{
        if (stream >= DS_STREAMS_MAX || (bytes && bytes > dsc_graph_changes_max(s)))
                return DSC__INVALID_VALUE;
        if (s->socket_only)
                return launch_call(s, stream, graph, ret_seq);
        if (dsc__output_waits(s))
                dsc__output_new(s, false);
        return submit_graph(s, DS_RECORD_GRAPH, stream, graph, changes, bytes, ret_seq);
}
