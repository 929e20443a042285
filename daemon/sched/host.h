/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy host: calls the policy, checks its answers, carries them out
 *
 * The policy's answers are untrusted: every action is checked. Its behaviour is watched. An error, too many overruns or
 * invalid actions in a short time, or a stall replace it by the built-in policy, with one log line. (A stall is ready
 * work with nothing in flight and no timer for a second.) The policy is trusted not to corrupt memory: it runs in this
 * process.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "sched/notes.h"
#include "sched/plugin.h"
#include "sched/sched.h"

#define DS_HOST_ACTIONS_MAX 512u      /* actions of one decision at most */
#define DS_HOST_AGAIN_MAX 8u          /* further decisions per event that a policy may request */
#define DS_HOST_EVENTS_PER_STEP 4096u /* most events that one step passes to the policy before the caller continues */
#define DS_HOST_STEP_NS 500000ULL     /* real time after which a step lets the caller continue */
/* interval between two readings of the thread's processor time, ns; also their precision */
#define DS_HOST_SEEN_NS 1000000ULL
/* a decision may take this many times its budget in real time, because other programs can preempt its thread */
#define DS_HOST_PREEMPTED 16u
#define DS_HOST_TIMER_MIN_NS 10000ULL /* shortest delay of a policy's timer */
#define DS_HOST_STALL_NS 1000000000ULL
#define DS_HOST_BUDGET_NS 5000000ULL
#define DS_HOST_OVERRUN_SCORE 64u /* an overrun adds this to the score; a decision within the budget subtracts 1 */
/* overrun score beyond which the policy is replaced: the third overrun in quick succession exceeds it */
#define DS_HOST_OVERRUN_LIMIT 128u

/* a decision with any invalid action adds this to the score; a valid decision subtracts 1 */
#define DS_HOST_NONSENSE_SCORE 16u
/* default score of invalid actions beyond which the policy is replaced: the ninth such decision in quick succession
 * exceeds it */
#define DS_HOST_NONSENSE_LIMIT 128u

struct ds_host {
        /* directories of policies; `more`: the elements of the list that starts at place.next */
        struct ds_plugin_place place, more[DS_POLICY_DIRS_MAX];
        struct detshare_interference *interference; /* calibration of this GPU, as passed to policies */
        uint32_t n_interference;
        struct ds_notes notes; /* the notes of all policies */
        uint64_t (*wall_ns)(void);
        uint64_t budget_ns;
        ds_plugin *plugin;   /* policy in charge */
        ds_plugin *fallback; /* built-in policy, ready to take over; NULL while it is in charge */
        uint64_t timer_ns;   /* time of the policy's timer; UINT64_MAX = none */
        uint64_t stall_ns;   /* time at which a stalled policy is replaced; UINT64_MAX = not stalled */
        /* real time of the last reading of cpu_ns, and the processor time that was read */
        uint64_t seen_wall_ns, seen_cpu_ns;
        uint64_t decided_wall_ns; /* real time at the end of the last call of the policy */
        uint64_t (*cpu_ns)(void); /* processor time of the worker's thread; NULL = use wall_ns */
        uint32_t overrun_score, nonsense_score, nonsense_limit;
        const char *nonsense; /* reason why the last invalid action was invalid */
        struct detshare_action *actions;
};

/* Loads the policy that the configuration names. Contract codes (DS_SCHED_E_...) come with a message. */
int ds_host_init(ds_sched *sched, const struct ds_sched_config *config, char *message, size_t message_size);
void ds_host_deinit(ds_sched *sched);
/* Writes the policy's sentence about the session; "" if it says nothing. */
void ds_host_explain(const struct ds_host *host, uint64_t session, char *text, uint32_t size);
/* Passes all pending events and due timers to the policy and carries out its actions. Returns 0 or a fatal errno of
 * the device. */
int ds_host_run(ds_sched *sched, uint64_t now_ns);
