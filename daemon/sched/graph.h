/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: many kernels, copies and memsets that are one operation of their coroutine
 *
 * A graph is launched in one of three ways.
 *  - As a whole, if the device has instantiated it for the rung (ds_device_ops.graph_ready): one launch, one
 *    completion, and a policy sees one kernel as wide as the widest in it. Nothing can run between its kernels. So only
 *    sessions of class LS use this, and BE while no LS session exists.
 *  - In pieces: as in parts, but some parts are graphs again, of consecutive nodes that take a few hundred microseconds
 *    together (the caller that unfolds decides, see worker/graph_piece.h). BE uses this beside an idle LS session: a
 *    GPU loses some microseconds between two launches, and less inside a graph. While LS has work, and until LS has
 *    been idle for four times the piece's duration (a long piece: for a second), a piece is launched in parts; also on
 *    any rung other than the one it is instantiated for. The policy is then called again for its kernels. A piece has
 *    no profile: profiles
 *    are of kernels and whole graphs.
 *  - In parts: when the graph is the head, its parts replace it in the coroutine's list, a window of them at a time.
 *    They are operations like any other: the policy sees each, may stop between any two, and learns each duration. The
 *    graph itself stays behind them in the list and ends, like a mark, when all of them have ended. This works on every
 *    device and with every kind of node.
 *
 * The choice is made when the graph is launched, so a graph that was queued when an LS session connected runs in parts.
 * A graph that has begun in parts continues so.
 *
 * Parts run in the order in which the caller supplies them, one after another. They count as operations of the
 * coroutine, and may exceed its queue's bound by at most three windows and the operations in flight. They have no
 * sequence numbers: the graph has one.
 */
#pragma once

#include <stdint.h>

#include "sched/sched.h"

#define DS_GRAPH_WINDOW 16u /* number of parts unfolded at a time: as many as a policy can see of a queue */
#define DS_GRAPH_MARKS 64u  /* parts without device work that may be in the list before they must be reported */

/*
 * Handles a head that is a graph. Returns 1: the head is now another operation (the graph's first remaining part). 0:
 * the graph itself is to be launched as a whole, or all its parts have left the queue. -1: marks before it must be
 * reported first, because one call processes a bounded number of them.
 */
int ds_graph_unfold(ds_coroutine *coroutine);
/* Continues in parts with a graph that is the head and was about to be launched. The caller must examine the new
 * head. Defined in coroutine.c. */
void ds_coroutine_in_parts(ds_coroutine *coroutine);
/* Whether the graph can be launched on the rung as a whole. */
int ds_graph_ready(ds_sched *sched, const struct ds_op *op, uint32_t rung);
/* Called when a session has connected or changed its class: graphs that could run as a whole before may have to run
 * in parts. */
void ds_graph_class_changed(ds_sched *sched);
