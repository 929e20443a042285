/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace: a record of every operation, request, migration, quiesce and change of policy, on request
 *
 * Records are written into memory that the caller supplies (a file as in proto/trace.h). The newest replace the oldest,
 * so a trace has a fixed size, however long it runs. Each kernel name is stored once, as long as there is room for
 * names. Without a trace, a hook costs one test of a pointer.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/trace.h"
#include "sched/sched.h"

struct ds_trace;
struct ds_slot;

/*
 * Records a trace into the memory from now on, until device time until_ns (UINT64_MAX: until the stop). The memory must
 * be zeroed, of at least DS_TRACE_BYTES_MIN, and must stay valid until the stop. Returns 0; -EBUSY: a trace is running;
 * -EINVAL; -ENOMEM.
 */
int ds_sched_trace_start(ds_sched *sched, void *memory, size_t bytes, uint64_t now_ns, uint64_t until_ns);
/* Completes the trace and returns its memory to the caller. Returns 0, or -ENOENT: no trace is running. */
int ds_sched_trace_stop(ds_sched *sched, uint64_t now_ns);

/* --- hooks for the scheduler's other files; without a trace each returns at once ---------------------------------- */

void ds_trace_operation(const ds_coroutine *coroutine, const struct ds_op *op, const struct ds_slot *slot,
        uint32_t part, uint64_t behind);
void ds_trace_move(const ds_coroutine *coroutine, uint32_t from, const struct ds_slot *slot);
void ds_trace_request(const ds_sched_session *session, uint64_t begin_ns, uint64_t end_ns);
void ds_trace_hold(ds_sched *sched, unsigned classes, uint64_t begin_ns, uint64_t end_ns);
void ds_trace_policy(ds_sched *sched, int fallback);
void ds_trace_session(const ds_sched_session *session); /* records a new or changed session */
void ds_trace_gone(const ds_sched_session *session);
