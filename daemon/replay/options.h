/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of detshare-replay
 *
 * Parsing them opens no files but the workloads and traces that sessions name. An error is one line.
 */
#pragma once

#include <stdint.h>

#include "replay/report.h"
#include "replay/run.h"

enum ds_replay_mode {
        DS_REPLAY_MODE_RUN,
        DS_REPLAY_MODE_LIST,
        DS_REPLAY_MODE_WORKLOAD, /* print a built-in workload */
        DS_REPLAY_MODE_CONVERT,
        DS_REPLAY_MODE_HELP,
        DS_REPLAY_MODE_VERSION,
};

/* A policy with its parameters, cut out of "NAME,key=value" */
struct ds_replay_policy {
        char *text; /* as given, for the report */
        char *name; /* the same text, cut into name and parameters */
        const char *params[DS_REPLAY_PARAMS_MAX];
        uint32_t n_params;
};

struct ds_replay_options {
        enum ds_replay_mode mode;
        const char *argument; /* word that follows the mode's option */
        const char *device, *trace;
        /* directories searched in this order, before those of the installation */
        const char *policy_dirs[DS_POLICY_DIRS_MAX];
        uint32_t n_policy_dirs;
        int json, latencies, alone, profiled, transform, blocks;
        uint64_t seed, duration_ns, be_channels;
        struct ds_replay_policy policies[DS_REPLAY_POLICIES_MAX];
        uint32_t n_policies;
        char *policy_words; /* texts from which the policies are cut */
        char **argv;
        struct ds_replay_session sessions[DS_REPLAY_SESSIONS_MAX];
        uint32_t n_sessions;
        struct ds_replay_workload *workloads[2 * DS_REPLAY_SESSIONS_MAX];
        const char *workload_names[2 * DS_REPLAY_SESSIONS_MAX];
        uint32_t n_workloads;
        uint32_t sms; /* number of SMs of the simulated GPU */
};

#define DS_REPLAY_E_USAGE 6

/* Reads the command line. Returns the codes of workload.h and run.h, or DS_REPLAY_E_USAGE, with a message ("":
 * already printed). */
int ds_replay_options_read(
        struct ds_replay_options *options, int argc, char **argv, char *message, size_t message_size);
void ds_replay_options_free(struct ds_replay_options *options);
/* The usage text. */
extern const char ds_replay_usage[];
