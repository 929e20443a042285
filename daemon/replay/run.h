/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One simulation: sessions, a scheduler with a policy, a simulated GPU that replays profiles, in one thread with one
 * clock
 *
 * The scheduler and the policy plug-ins are the daemon's. The device only simulates times. Clients and their
 * connections are not simulated: an operation is in its queue at the moment its session submits it.
 *
 * - A session with arrivals is a server. It works on one request at a time, in the order of arrival. It submits a
 *   request's kernels as its queue has room, and the next request when the last one has ended. A request's latency
 *   is from its arrival to the moment at which the end of its last kernel is seen.
 * - A closed BE session submits step after step, as much as its queue holds, like a training loop. A closed LS session
 *   submits the next request `think_ns` after the result of the one before, like a decode loop.
 * - A request with tokens (of an LLM) is a part of the first workload (its context, in `samples` of that) and then
 *   the second workload once per generated token. Requests are not batched.
 * - When a request ends, its server has the result, and the policy hears of it as of a client that waits.
 * - At the end of the time everything stops. Requests that have not ended do not count as ended.
 *
 * `profiled`: the scheduler has what `detsharectl profile` would have measured of every kernel: its time on each number
 * of SMs, and whether memory bounds it. Without it policies begin with what they see.
 *
 * Deterministic: the same configuration gives the same results, and the same trace byte for byte. Real time is measured
 * but decides nothing.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "policies/detshare_policy.h"
#include "replay/arrivals.h"
#include "replay/workload.h"
#include "sched/sched.h"

#define DS_REPLAY_SESSIONS_MAX 64u
#define DS_REPLAY_QUEUE 256u /* default of a session's queue: operations that wait or run */
#define DS_REPLAY_QUEUE_MAX 4096u
#define DS_REPLAY_PARAMS_MAX 16u
#define DS_REPLAY_CHANNELS_MAX 256u

struct ds_replay_session {
        char name[48];
        enum detshare_class class_;
        const struct ds_replay_workload *workload[2]; /* parts of a request, in order; the second may be NULL */
        ds_replay_arrivals *arrivals;                 /* every run begins with the first arrival */
        uint64_t slo_ns;                              /* latency objective of requests, ns; 0: none */
        uint32_t slo_permille; /* objective as a factor of the latency alone, permille; 0: none */
        uint32_t queue, sm_percent;
        int states_arrivals; /* 1: the session states when each request arrived */
        uint64_t think_ns;   /* closed LS session: time from a request's result to the next request, ns */
};

struct ds_replay_config {
        const char *device;                                 /* name of the device, like "sim:h200" */
        const char *policy_dir;                             /* folder of plug-ins; "" = only the built-in policy */
        struct ds_policy_dir more_dirs[DS_POLICY_DIRS_MAX]; /* directories searched after policy_dir, in this order */
        uint32_t n_more_dirs;
        int policy_any_owner;
        const char *policy;
        const char *params[DS_REPLAY_PARAMS_MAX];
        uint32_t n_params;
        const struct ds_replay_session *sessions;
        uint32_t n_sessions;
        uint64_t duration_ns;
        int profiled;
        int latencies; /* 1: the result has the latency of each request */
        int transform; /* 1: workloads are code, and long BE kernels have a form that can be evicted; see forms.h */
        int blocks;    /* 1: workloads are code, simulated block by block, with L2 and channels */
        /* with `blocks`: number of channels for memory-bound BE kernels while LS has work; LS kernels have the
         * others while BE has work. 0: all kernels use all channels */
        uint32_t be_channels;
        FILE *trace; /* output of the trace; NULL: none; see trace.h */
        int trace_json;
};

struct ds_replay_session_result {
        uint64_t arrived, ended; /* number of requests; for a closed session, of steps */
        uint64_t slo_ns;         /* objective in force at the end, ns; 0: none */
        uint64_t in_slo;         /* requests within the objective in force at their end, or before it was known */
        uint64_t p50_ns, p99_ns, max_ns; /* latencies of the requests that ended */
        uint64_t *latencies_ns; /* with config->latencies: all `ended` of them, ascending; the caller frees it */
        uint64_t kernels, device_ns;
        double steps; /* number of steps that ended, plus the finished part of the last one */
};

struct ds_replay_result {
        struct ds_replay_session_result sessions[DS_REPLAY_SESSIONS_MAX];
        uint64_t kernels, decisions, migrations, fallbacks, evictions;
        uint64_t busy_ns;     /* time in which at least one kernel ran */
        double real_s, cpu_s; /* cost of the simulation: real time and processor time */
        char policy[32];      /* policy at the end of the run; another one than requested if it was replaced */
        char fallback[224];   /* reason why fifo replaced the policy; "" if it did not */
};

#define DS_REPLAY_E_BAD_DEVICE 4
#define DS_REPLAY_E_BAD_POLICY 5
/* Runs one simulation. Returns 0 or a code of this file or of workload.h, with a message. */
int ds_replay_run(
        const struct ds_replay_config *config, char *message, size_t message_size, struct ds_replay_result *ret);
