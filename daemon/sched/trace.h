/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace: a record of every operation, request, move, quiesce and change of policy, while somebody wants one
 *
 * Records go into memory that the caller gives (a file of proto/trace.h's form), the oldest making room for the newest,
 * so a trace costs what it was given and no more, however long it goes on. Kernels' names are kept once each, as long
 * as there is room for names. While there is no trace a hook costs one test of a pointer.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/trace.h"
#include "sched/sched.h"

struct ds_trace;
struct ds_slot;

/*
 * Record into memory (DS_TRACE_BYTES_MIN at least, zeroed, the caller's until the stop) from now on, until until_ns of
 * the device's clock (UINT64_MAX: until it is stopped). -EBUSY: there is a trace already; -EINVAL; -ENOMEM.
 */
int ds_sched_trace_start(ds_sched *sched, void *memory, size_t bytes, uint64_t now_ns, uint64_t until_ns);
/* The memory is complete and the caller's. 0, or -ENOENT. */
int ds_sched_trace_stop(ds_sched *sched, uint64_t now_ns);

/* --- for the scheduler's other files; all of them return at once when there is no trace --------------------------- */

void ds_trace_operation(const ds_coroutine *coroutine, const struct ds_op *op, const struct ds_slot *slot,
        uint32_t part, uint64_t behind);
void ds_trace_move(const ds_coroutine *coroutine, uint32_t from, const struct ds_slot *slot);
void ds_trace_request(const ds_sched_session *session, uint64_t begin_ns, uint64_t end_ns);
void ds_trace_hold(ds_sched *sched, unsigned classes, uint64_t begin_ns, uint64_t end_ns);
void ds_trace_policy(ds_sched *sched, int fallback);
void ds_trace_session(const ds_sched_session *session); /* it came, or changed */
void ds_trace_gone(const ds_sched_session *session);
