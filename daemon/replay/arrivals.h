/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrivals: when a session's requests come
 *
 * From a rule: poisson:RATE, uniform:RATE (per second), closed (the next when the last has ended). Or from a file, told
 * by what it holds: a DISB workload (JSON; one of its tasks is named), a JSON array of gaps in seconds, a CSV table of
 * LLM requests (TIMESTAMP, ContextTokens, GeneratedTokens), or one time in seconds per line. A file's arrivals begin at
 * its first one and are repeated from there when they are used up; `speed` makes them come that many times as fast. The
 * same seed gives the same arrivals.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct ds_replay_arrivals ds_replay_arrivals;

struct ds_replay_arrival {
        uint64_t ns;
        uint32_t context_tokens, generated_tokens; /* both 0: the trace does not say */
};

/* Contract codes as of workload.h, and DS_REPLAY_E_BAD_RULE, with a message. id: the task of a DISB file, or NULL. */
#define DS_REPLAY_E_BAD_RULE 3
int ds_replay_arrivals_open(const char *rule, const char *id, double speed, uint64_t seed, char *message,
        size_t message_size, ds_replay_arrivals **ret);
ds_replay_arrivals *ds_replay_arrivals_free(ds_replay_arrivals *arrivals);
int ds_replay_arrivals_closed(const ds_replay_arrivals *arrivals);
/* Begins again, as when it was opened. */
void ds_replay_arrivals_rewind(ds_replay_arrivals *arrivals);
/* The next one; not of closed ones. */
struct ds_replay_arrival ds_replay_arrivals_next(ds_replay_arrivals *arrivals);
