/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that were instantiated
 *
 * A graph's file travels once, in a memory file; a launch is one record. The worker keeps the graph. One that ends takes
 * its graphs along, and the next worker is given them anew, under the same ids, before anything else: so their bytes
 * are kept here. A graph that cannot be made anew is gone, and launching it is an error. Making them anew is done by
 * whoever attaches; over DETSHARE_TRANSPORT=rpc, where nobody does, by a launch that was told that its graph is not
 * known.
 *
 * The table has a lock of its own, after submit.lock, which is held while graphs are made anew: only other calls with
 * graphs wait for that.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/internal.h"

struct dsc__graph {
        uint64_t id;
        void *file;
        size_t bytes;
        struct dsc__graph *next;
};

static struct dsc__graph **place_of(struct dsc__graphs *graphs, uint64_t id)
{
        struct dsc__graph **at = &graphs->first;
        while (*at && (*at)->id != id)
                at = &(*at)->next;
        return at;
}

static void graph_free(struct dsc__graph *graph)
{
        if (graph)
                free(graph->file);
        free(graph);
}

static struct dsc__graph *graph_copy(const void *file, size_t bytes)
{
        struct dsc__graph *graph = calloc(1, sizeof(*graph));
        if (!graph)
                return NULL;
        graph->file = malloc(bytes ? bytes : 1);
        if (!graph->file) {
                graph_free(graph);
                return NULL;
        }
        memcpy(graph->file, file, bytes);
        graph->bytes = bytes;
        return graph;
}

void dsc__graphs_init(struct dsc__graphs *graphs)
{
        pthread_mutex_init(&graphs->lock, NULL);
        graphs->first = NULL;
}

void dsc__graphs_clear(dsc_session *s)
{
        pthread_mutex_lock(&s->graphs.lock);
        struct dsc__graph *graph = s->graphs.first;
        s->graphs.first = NULL;
        pthread_mutex_unlock(&s->graphs.lock);
        while (graph) {
                struct dsc__graph *next = graph->next;
                graph_free(graph);
                graph = next;
        }
}

static int write_all(int fd, const uint8_t *bytes, size_t size)
{
        while (size > 0) {
                ssize_t n = write(fd, bytes, size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return -1;
                bytes += n;
                size -= (size_t)n;
        }
        return 0;
}

/* In a file that travels beside a request; the worker copies it, so it need not be sealed. */
static int memory_file(const void *bytes, size_t size, int *ret_fd)
{
        int fd = memfd_create("detshare-graph", MFD_CLOEXEC);
        if (fd < 0)
                return DSC__OUT_OF_MEMORY;
        if (write_all(fd, bytes, size) < 0) {
                close(fd);
                return DSC__OUT_OF_MEMORY;
        }
        *ret_fd = fd;
        return 0;
}

/* id 0: a new one. */
static int create_call(dsc_session *s, const void *file, size_t bytes, uint64_t id, uint64_t *ret_id)
{
        int fd = -1;
        int r = memory_file(file, bytes, &fd);
        if (r)
                return r;
        Detshare__GraphCreate create = DETSHARE__GRAPH_CREATE__INIT;
        create.bytes = bytes;
        create.graph = id;
        Detshare__Request request = DSC__REQUEST(GRAPH_CREATE, graph_create, &create);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        r = dsc__call(s, &request, fd, DETSHARE__REPLY__RESULT_GRAPH_CREATE, &answer);
        close(fd);
        if (r)
                return r;
        *ret_id = answer.reply->graph_create->graph;
        dsc__answer_clear(&answer);
        return 0;
}

int dsc_graph_create(dsc_session *s, const void *file, size_t bytes, uint64_t *ret_graph)
{
        int r = dsc__usable(s);
        if (!r && (!bytes || bytes > DS_GRAPH_BYTES_MAX))
                r = DSC__INVALID_VALUE;
        if (r)
                return r;
        struct dsc__graph *graph = graph_copy(file, bytes);
        if (!graph)
                return DSC__OUT_OF_MEMORY;
        r = create_call(s, file, bytes, 0, &graph->id);
        if (r) {
                graph_free(graph);
                return r;
        }
        *ret_graph = graph->id;
        pthread_mutex_lock(&s->graphs.lock);
        graph->next = s->graphs.first;
        s->graphs.first = graph;
        pthread_mutex_unlock(&s->graphs.lock);
        return 0;
}

int dsc_graph_update(dsc_session *s, uint64_t id, const void *file, size_t bytes)
{
        int fd = -1;
        int r = dsc__usable(s);
        if (!r && (!bytes || bytes > DS_GRAPH_BYTES_MAX))
                r = DSC__INVALID_VALUE;
        if (r)
                return r;
        struct dsc__graph *copy = graph_copy(file, bytes);
        if (!copy)
                return DSC__OUT_OF_MEMORY;
        r = memory_file(file, bytes, &fd);
        if (!r) {
                Detshare__GraphUpdate update = DETSHARE__GRAPH_UPDATE__INIT;
                update.graph = id;
                update.bytes = bytes;
                Detshare__Request request = DSC__REQUEST(GRAPH_UPDATE, graph_update, &update);
                r = dsc__call(s, &request, fd, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
                close(fd);
        }
        pthread_mutex_lock(&s->graphs.lock);
        struct dsc__graph *graph = *place_of(&s->graphs, id);
        if (!r && graph) {
                void *old = graph->file;
                graph->file = copy->file;
                graph->bytes = bytes;
                copy->file = old;
        }
        pthread_mutex_unlock(&s->graphs.lock);
        graph_free(copy);
        return r;
}

int dsc_graph_destroy(dsc_session *s, uint64_t id)
{
        Detshare__GraphDestroy destroy = DETSHARE__GRAPH_DESTROY__INIT;
        destroy.graph = id;
        Detshare__Request request = DSC__REQUEST(GRAPH_DESTROY, graph_destroy, &destroy);
        pthread_mutex_lock(&s->graphs.lock);
        struct dsc__graph **at = place_of(&s->graphs, id), *graph = *at;
        if (graph)
                *at = graph->next;
        pthread_mutex_unlock(&s->graphs.lock);
        graph_free(graph);
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

/* By whoever attaches to another worker, before anything else is sent to it. */
void dsc__graphs_renew(dsc_session *s)
{
        pthread_mutex_lock(&s->graphs.lock);
        for (struct dsc__graph *graph = s->graphs.first; graph; graph = graph->next) {
                uint64_t id;
                create_call(s, graph->file, graph->bytes, graph->id, &id); /* else launching it is an error */
        }
        if (s->graphs.first && s->submit.kept) {
                Detshare__GraphDestroy none = DETSHARE__GRAPH_DESTROY__INIT;
                Detshare__Request request = DSC__REQUEST(GRAPH_DESTROY, graph_destroy, &none);
                dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
        }
        pthread_mutex_unlock(&s->graphs.lock);
}

static int launch_call(dsc_session *s, uint32_t stream, uint64_t graph, uint64_t *ret_seq)
{
        Detshare__GraphLaunch launch = DETSHARE__GRAPH_LAUNCH__INIT;
        launch.stream = stream;
        launch.graph = graph;
        Detshare__Request request = DSC__REQUEST(GRAPH_LAUNCH, graph_launch, &launch);
        return dsc__submit_call(s, stream, &request, ret_seq);
}

/* Is it ours, and was it not known because the worker is another one? Then it is now. */
static bool came_back(dsc_session *s, uint64_t id)
{
        uint64_t same;
        pthread_mutex_lock(&s->graphs.lock);
        const struct dsc__graph *graph = *place_of(&s->graphs, id);
        const bool back = graph && create_call(s, graph->file, graph->bytes, id, &same) == 0;
        pthread_mutex_unlock(&s->graphs.lock);
        return back;
}

int dsc_graph_launch(dsc_session *s, uint32_t stream, uint64_t graph, uint64_t *ret_seq)
{
        if (stream >= DS_STREAMS_MAX)
                return DSC__INVALID_VALUE;
        if (s->socket_only) {
                int r = launch_call(s, stream, graph, ret_seq);
                if (r == DSC__INVALID_HANDLE && came_back(s, graph))
                        r = launch_call(s, stream, graph, ret_seq);
                return r;
        }
        if (dsc__output_waits(s))
                dsc__output_new(s, false);
        const struct ds_record_graph record = {
                .head = {.type = DS_RECORD_GRAPH, .stream = (uint16_t)stream},
                .graph = graph,
        };
        return dsc__submit(s, &record.head, sizeof(record), NULL, 0, ret_seq);
}
