/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: many kernels, copies and memsets that are one operation of their coroutine
 *
 * A graph goes to the device in one of three ways.
 *  - As a whole, where the device has made it ready for the rung (ds_device_ops.graph_ready): one launch, one
 *    completion, and a policy sees one kernel that is as wide as the widest in it. Nothing can be put between its
 *    kernels, so this is for sessions of class LS, and for BE only while no LS session is there at all.
 *  - In pieces: as in parts, but some of the parts are graphs again, of nodes that follow each other and take a few
 *    hundred microseconds together (who unfolds decides, see worker/graph_piece.h). That is what BE has beside an LS
 *    session that is idle: a GPU loses some microseconds between two launches, and less inside a graph. While LS has
 *    work, and after that for four times as long as it takes, a piece goes in parts itself, and so it does on any other
 * rung than the one that it is built for; the policy is asked again then, for its kernels. It has no profile: those are
 * of kernels and whole graphs.
 *  - In parts: when it is the head, its parts take its place in the coroutine's list, a window of them at a time, and
 * are operations like any other: the policy sees each, may stop between any two, and learns how long each takes. The
 *    graph itself stays behind them in the list and ends, as a mark would, when all of them have. This works on every
 *    device and with everything that a graph may hold.
 * Which of them is decided when the graph is launched, so that one that waited in a queue while an LS session came
 * goes in parts. One that has begun in parts goes on so.
 *
 * Parts run in the order in which the caller gives them, one after the other. They count as operations of the
 * coroutine, above what its queue may hold by at most two windows and what is in flight, but have no sequence numbers:
 * the graph has one.
 */
#pragma once

#include <stdint.h>

#include "sched/sched.h"

#define DS_GRAPH_WINDOW 16u /* parts unfolded at a time: what a policy can see of a queue */
#define DS_GRAPH_MARKS 64u  /* parts that cost the device nothing, before they are told */

/*
 * The head is a graph. 1: the head is another operation now (its first part that is left, if it goes in parts), 0: the
 * graph itself has its turn, as a whole or because all its parts have left the queue, -1: not before some of the marks
 * in front of it have been told; how much one look at a coroutine makes and does is bounded by that.
 */
int ds_graph_unfold(ds_coroutine *coroutine);
/* The head, a graph that is about to be launched, goes in parts: look at the head anew. In coroutine.c. */
void ds_coroutine_in_parts(ds_coroutine *coroutine);
/* May it be launched there as a whole? */
int ds_graph_ready(ds_sched *sched, const struct ds_op *op, uint32_t rung);
/* A session came or has another class: what was to go as a whole may not any more. */
void ds_graph_class_changed(ds_sched *sched);
