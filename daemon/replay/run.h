/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One simulation: sessions, a scheduler with a policy, a simulated GPU that replays profiles, one thread, one clock
 *
 * The scheduler and the policy plug-ins are those of the daemon; the device is opened timing-only. What is not there is
 * the client and the way to it: an operation is in its queue at the moment at which its session submits it.
 *
 *  - A session with arrivals is a server that works on one request at a time, in the order in which they came: it
 *    submits a request's kernels as its queue has room for them, and the next request when the last one has ended. A
 *    request's latency is from its arrival to the moment at which the end of its last kernel is seen.
 *  - A session that is closed submits step after step, as much as its queue holds: what a training loop does.
 *  - A request that names tokens (an LLM's) is a part of the first workload (its context, in `samples` of that) and
 *    then the second workload once for each token it generates: no batch over requests.
 *  - A server has its result when a request has ended, and the policy hears of that as of a client that waits for it.
 *  - At the end of the time everything stops: what had not ended does not count.
 *
 * `profiled`: the scheduler has what `detsharectl profile` would have found of every kernel, its time on each number of
 * SMs and whether memory bounds it. Without it policies begin with what they see.
 *
 * Deterministic: the same configuration gives the same results, and the same trace byte for byte. Real time is measured
 * and decides nothing.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "policies/detshare_policy.h"
#include "replay/arrivals.h"
#include "replay/workload.h"
#include "sched/sched.h"

#define DS_REPLAY_SESSIONS_MAX 64u
#define DS_REPLAY_QUEUE 256u /* operations of a session that wait or run, unless it says otherwise */
#define DS_REPLAY_QUEUE_MAX 4096u
#define DS_REPLAY_PARAMS_MAX 16u
#define DS_REPLAY_CHANNELS_MAX 256u

struct ds_replay_session {
        char name[48];
        enum detshare_class class_;
        const struct ds_replay_workload *workload[2]; /* the second after the first; NULL: there is none */
        ds_replay_arrivals *arrivals;                 /* begun again by every run */
        uint64_t slo_ns;                              /* 0: none */
        uint32_t queue, sm_percent;
};

struct ds_replay_config {
        const char *device;                                 /* "sim:h200" */
        const char *policy_dir;                             /* "" = only what is built in */
        struct ds_policy_dir more_dirs[DS_POLICY_DIRS_MAX]; /* searched after policy_dir, in order */
        uint32_t n_more_dirs;
        int policy_any_owner;
        const char *policy;
        const char *params[DS_REPLAY_PARAMS_MAX];
        uint32_t n_params;
        const struct ds_replay_session *sessions;
        uint32_t n_sessions;
        uint64_t duration_ns;
        int profiled;
        int transform;        /* workloads are code, and long kernels of best effort have another form: see forms.h */
        int blocks;           /* workloads are code: block by block, with L2 and channels */
        uint32_t be_channels; /* with blocks: memory-bound kernels of best effort are confined to so many channels while
                                 LS has work, those of LS to the others while best effort has; 0: none are */
        FILE *trace;          /* NULL: none; else see trace.h */
        int trace_json;
};

struct ds_replay_session_result {
        uint64_t arrived, ended; /* requests, or steps of a closed session */
        uint64_t in_slo;
        uint64_t p50_ns, p99_ns, max_ns; /* of those that ended */
        uint64_t kernels, device_ns;
        double steps; /* ended ones, and of the last one the part that has */
};

struct ds_replay_result {
        struct ds_replay_session_result sessions[DS_REPLAY_SESSIONS_MAX];
        uint64_t kernels, decisions, migrations, fallbacks, evictions;
        uint64_t busy_ns;     /* at least one kernel ran */
        double real_s, cpu_s; /* what it took: on the clock on the wall, of a processor */
        char policy[32];      /* at the end: another one if it fell back */
        char fallback[224];   /* why fifo replaced the policy; "" if it did not */
};

#define DS_REPLAY_E_BAD_DEVICE 4
#define DS_REPLAY_E_BAD_POLICY 5
/* Contract codes, these and those of workload.h, with a message. */
int ds_replay_run(
        const struct ds_replay_config *config, char *message, size_t message_size, struct ds_replay_result *ret);
