/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that clients instantiated (graph.c, graph_change.c)
 */
#pragma once

#include "worker/internal.h"

/* Instantiates a graph from a copy of a client's file. id 0 = assign a new one. Returns 0; a CUDA error or daemon
 * status with *ret_why; DSW_WORK_E_STALLED (retry in the next quiesce, with the same *kept, NULL at first); or a
 * negative errno. */
int dsw_graph_create(struct dsw_session *session, uint64_t id, int fd, uint64_t bytes, struct dsw_graph **kept,
        uint64_t *ret_id, const char **ret_why);
/* Creates a graph without an id, of launches only, from a file in memory, which the worker has written; takes the file,
 * also on failure. Each launch of the graph has op.whole.params. *ret has one reference. Returns 0, or a CUDA error
 * or daemon status with *ret_why. */
int dsw_graph_from(struct dsw_session *session, void *file, struct dsw_graph **ret, const char **ret_why);
int dsw_graph_update(struct dsw_session *session, uint64_t id, int fd, uint64_t bytes, const char **ret_why);
/* Applies changes of nodes (struct ds_graph_change) to later launches, or none of them. `from` is memory that the
 * client can write. Returns as dsw_graph_create(); STALLED: try again when a launch of the graph has ended. */
int dsw_graph_change(struct dsw_session *session, uint64_t id, const void *from, uint32_t bytes, const char **ret_why);
int dsw_graph_destroy(struct dsw_session *session, uint64_t id); /* returns 0 or -ENOENT */
void dsw_graph_destroy_all(struct dsw_session *session);
/* Takes a reference for a launch if all that the graph names exists. Returns 0 or an error with *ret_why. */
int dsw_graph_get(struct dsw_session *session, uint64_t id, struct dsw_graph **ret, const char **ret_why);
void dsw_graph_put(struct dsw_session *session, struct dsw_graph *graph); /* NULL is allowed */
/* Whether the device can launch the graph as a whole at all. */
int dsw_graph_may_be_whole(const struct dsw_graph *graph);
/* Whether a launch of the graph by this session would be one launch on the device now. */
int dsw_graph_launches_whole(const struct dsw_session *session, const struct dsw_graph *graph);
/* [stops] Makes that so where the session's work runs. Returns as ds_device_ops.graph_build. */
int dsw_graph_instantiate(struct dsw_session *session, const struct dsw_graph *graph);
/* Makes the operation a launch of the graph, with a reference. */
void dsw_graph_attach(struct dsw_session *session, struct dsw_graph *graph, struct dsw_op *op);
/* Fills in the fields of a graph launch that the scheduler needs. */
void dsw_graph_prepare(struct dsw_session *session, struct dsw_graph *graph, struct ds_op *op);
/* after submission of a graph: records the graph's events */
void dsw_graph_record_events(struct dsw_session *session, const struct dsw_graph *graph);
/* A launch as the device sees it. Its parameters are those behind the record. */
struct ds_launch dsw_graph_launch_of(const struct dsw_kernel *kernel, const struct ds_record_launch *record);
int dsw_graph_unfold(void *user, struct ds_op *graph, struct ds_op **ret); /* see ds_op_unfold_fn */
