/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy host: asks the policy, checks what it answers, carries it out
 *
 * The policy is untrusted in what it answers (every action is checked) and watched in how it behaves: an error, too
 * many overruns or too much nonsense in a short time, or a stall (ready work, nothing in flight, no timer, for a
 * second) replace it by the built-in policy, with one log line. It is trusted not to write wild: it runs in this
 * process.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "sched/plugin.h"
#include "sched/sched.h"

#define DS_HOST_ACTIONS_MAX 512u      /* per decision */
#define DS_HOST_AGAIN_MAX 8u          /* further decisions per event that a policy may ask for */
#define DS_HOST_EVENTS_PER_STEP 4096u /* then the caller gets a turn, ... */
#define DS_HOST_STEP_NS 500000ULL     /* ... and after so much real time */
#define DS_HOST_SEEN_NS 1000000ULL    /* between two looks at processor time, and its precision */
#define DS_HOST_PREEMPTED 16u         /* times its budget that a decision may take while its thread has no processor */
#define DS_HOST_TIMER_MIN_NS 10000ULL /* a policy's timer is at least this far away */
#define DS_HOST_STALL_NS 1000000000ULL
#define DS_HOST_BUDGET_NS 5000000ULL
#define DS_HOST_OVERRUN_SCORE 64u  /* an overrun adds this, a decision in time takes 1 off ... */
#define DS_HOST_OVERRUN_LIMIT 128u /* ... and past this the policy goes: the third overrun in short order */

#define DS_HOST_NONSENSE_SCORE 16u  /* so does a decision with nonsense in it, whether much or little, ... */
#define DS_HOST_NONSENSE_LIMIT 128u /* ... and the ninth in short order is its last */

struct ds_host {
        struct ds_plugin_place place;
        struct detshare_interference *interference; /* what policies were told of this GPU's calibration */
        uint32_t n_interference;
        uint64_t (*wall_ns)(void);
        uint64_t budget_ns;
        ds_plugin *plugin;   /* in charge */
        ds_plugin *fallback; /* the built-in one, ready to take over; NULL while it is in charge */
        uint64_t timer_ns;   /* UINT64_MAX = none */
        uint64_t stall_ns;   /* when the policy is given up if nothing changes; UINT64_MAX = all is well */
        uint64_t seen_wall_ns, seen_cpu_ns; /* when cpu_ns was looked at, and what it said */
        uint64_t (*cpu_ns)(void);           /* time of the worker's thread, NULL = wall_ns serves */
        uint32_t overrun_score, nonsense_score, nonsense_limit;
        const char *nonsense; /* what the last of it was */
        struct detshare_action *actions;
};

/* Loads the policy by name. Contract codes with a message. */
int ds_host_init(ds_sched *sched, const struct ds_sched_config *config, char *message, size_t message_size);
void ds_host_deinit(ds_sched *sched);
/* Tell the policy all pending events and due timers and carry out what it says. Fatal errno of the device or 0. */
int ds_host_run(ds_sched *sched, uint64_t now_ns);
