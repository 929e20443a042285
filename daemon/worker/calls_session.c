/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about the session itself: its clock, statistics and reset
 */
#include "worker/internal.h"

#define SESSION_UNSUPPORTED_LIMIT 215 /* CUDA_ERROR_UNSUPPORTED_LIMIT */
#define SESSION_STACK_MAX DS_KIB(32)  /* bytes of stack per thread; the device's own bound is lower */
#define SESSION_FIFO_MAX DS_MIB(64)
#define SESSION_HEAP_SHARE 16 /* the malloc heap of kernels is at most this fraction (1/16) of the device's memory */

static enum dsw_outcome session_reply_clock(struct dsw_call *call)
{
        Detshare__ClockReply result = DETSHARE__CLOCK_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        const ds_worker *worker = call->session->worker;

        result.now_ns = worker->now_ns;
        result.simulated = worker->info->simulated != 0;
        reply.result_case = DETSHARE__REPLY__RESULT_CLOCK;
        reply.clock = &result;
        dsw_page_flush(call->session);
        dsw_call_reply(call, &reply, NULL, NULL, 0, 0);
        return DSW_ANSWERED;
}

enum dsw_outcome dsw_calls_clock_join(struct dsw_call *call, const Detshare__Request *request)
{
        if (call->session->declared >= DSW_DECLARED_MAX)
                return dsw_call_fail(call, DETSHARE__STATUS__QUOTA, "%u threads have declared themselves already",
                        call->session->declared);
        dsw_clock_declare(call->session, 1);
        return session_reply_clock(call);
}

/* Ends a declaration. Succeeds without one, too: the worker may have dropped the session's declarations meanwhile. */
enum dsw_outcome dsw_calls_clock_leave(struct dsw_call *call, const Detshare__Request *request)
{
        if (call->session->declared)
                dsw_clock_declare(call->session, -1);
        return session_reply_clock(call);
}

static int session_slept(const struct dsw_call *call)
{
        return call->wake_ns <= call->session->worker->now_ns;
}

static void session_finish_sleep(struct dsw_call *call)
{
        session_reply_clock(call);
}

enum dsw_outcome dsw_calls_sleep_until(struct dsw_call *call, const Detshare__Request *request)
{
        uint64_t now = call->session->worker->now_ns;

        call->wake_ns = request->sleep_until->ns;
        if (call->wake_ns > now && call->wake_ns - now > DSW_SLEEP_MAX_NS)
                return dsw_call_fail(
                        call, DETSHARE__STATUS__BAD_PARAMETER, "the sleep is longer than 3600 s, the maximum");
        if (call->wake_ns > now && dsw_clock_sleep(call))
                return dsw_call_fail(call, DETSHARE__STATUS__INTERNAL, "the daemon is out of memory");
        return dsw_call_park(call, session_slept, session_finish_sleep);
}

/* The worker has read the ring up to this request, and the client submits nothing before the answer: work before and
 * after it belongs to different phases. */
enum dsw_outcome dsw_calls_hint_phase(struct dsw_call *call, const Detshare__Request *request)
{
        struct dsw_session *session = call->session;
        uint32_t phase = request->hint_phase->phase;

        if (phase > DETSHARE_PHASE_DECODE)
                return dsw_call_fail(call, DETSHARE__STATUS__BAD_PARAMETER, "unknown phase %u", phase);
        session->phase = phase;
        if (session->sched)
                ds_sched_session_phase(session->sched, phase, session->worker->now_ns);
        session->worker->sched_due = 1;
        return dsw_call_ok(call);
}

enum dsw_outcome dsw_calls_get_stats(struct dsw_call *call, const Detshare__Request *request)
{
        Detshare__StatsReply result = DETSHARE__STATS_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;

        dsw_session_stats(call->session, &result);
        reply.result_case = DETSHARE__REPLY__RESULT_GET_STATS;
        reply.get_stats = &result;
        dsw_call_reply(call, &reply, NULL, NULL, 0, 0);
        return DSW_ANSWERED;
}

/* Upper bound of a CUDA limit (cudaDeviceSetLimit) that a client may set. No session's quota covers the device
 * memory behind such a limit. */
static uint64_t session_limit_max(const ds_worker *worker, uint32_t limit)
{
        switch (limit) {
        case DS_LIMIT_STACK_SIZE:
                return SESSION_STACK_MAX;
        case DS_LIMIT_PRINTF_FIFO_SIZE:
                return SESSION_FIFO_MAX;
        default:
                return worker->info->memory_bytes / SESSION_HEAP_SHARE;
        }
}

enum dsw_outcome dsw_calls_set_limit(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__SetLimit *ask = request->set_limit;
        ds_worker *worker = call->session->worker;
        int r;

        if (ask->limit >= _DS_LIMIT_MAX)
                return dsw_call_fail(call, SESSION_UNSUPPORTED_LIMIT, "no limit %u", ask->limit);
        if (ask->value > session_limit_max(worker, ask->limit))
                return dsw_call_fail(call, DS_CUDA_OUT_OF_MEMORY,
                        "the limit's value is too large: at most %llu is accepted",
                        (unsigned long long)session_limit_max(worker, ask->limit));
        if (worker->ops->limit_get(worker->device, (enum ds_device_limit)ask->limit) >= ask->value)
                return dsw_call_ok(call);
        if (!dsw_quiesce_may(call->session))
                return DSW_STALLED;
        r = worker->ops->limit_raise(worker->device, (enum ds_device_limit)ask->limit, ask->value);
        if (r == DS_CUDA_NOT_SUPPORTED)
                r = SESSION_UNSUPPORTED_LIMIT;
        return r ? dsw_call_fail(call, r, "the limit cannot be raised") : dsw_call_ok(call);
}

/* The test `ready` of a parked reset: never true, because session.c answers it when the session is empty. */
static int session_never(const struct dsw_call *call)
{
        return 0;
}

enum dsw_outcome dsw_calls_reset_session(struct dsw_call *call, const Detshare__Request *request)
{
        struct dsw_session *session = call->session;

        session->state = DSW_SESSION_RESETTING;
        session->reset_call = call;
        session->cancel_due = 1;
        dsw_session_dirty(session);
        return dsw_call_park(call, session_never, NULL);
}
