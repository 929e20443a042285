/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of a comparison: a table of sessions under each policy, and the cost of each simulation; or the same as
 * JSON
 */
#pragma once

#include <stdio.h>

#include "replay/run.h"

#define DS_REPLAY_POLICIES_MAX 16u

struct ds_replay_report {
        const struct ds_replay_config *config; /* configuration that all runs share */
        uint64_t seed;
        const char *policies[DS_REPLAY_POLICIES_MAX]; /* names with parameters, as the user gave them */
        struct ds_replay_result *results;             /* one result per policy */
        uint32_t n;
        /* results of each session alone on the GPU; NULL: not requested */
        const struct ds_replay_session_result *alone;
        uint64_t alone_ns; /* virtual time of the runs of single sessions, ns */
};

void ds_replay_print(const struct ds_replay_report *report, FILE *out);
void ds_replay_print_json(const struct ds_replay_report *report, FILE *out);
