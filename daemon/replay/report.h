/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a comparison prints: a table of sessions under each policy, and what each simulation cost; or the same as JSON
 */
#pragma once

#include <stdio.h>

#include "replay/run.h"

#define DS_REPLAY_POLICIES_MAX 16u

struct ds_replay_report {
        const struct ds_replay_config *config; /* of any of the runs */
        uint64_t seed;
        const char *policies[DS_REPLAY_POLICIES_MAX]; /* as asked for, with parameters */
        struct ds_replay_result *results;             /* one per policy */
        uint32_t n;
        /* each session alone on the GPU; NULL: not asked for */
        const struct ds_replay_session_result *alone;
        uint64_t alone_ns; /* how long that was */
};

void ds_replay_print(const struct ds_replay_report *report, FILE *out);
void ds_replay_print_json(const struct ds_replay_report *report, FILE *out);
