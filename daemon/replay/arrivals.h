/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrivals: the times of a session's requests
 *
 * They come from a rule: poisson:RATE, uniform:RATE (per second), or closed (a request begins when the last one has
 * ended). Or they come from a file, whose contents decide the format: a DISB workload (JSON; one of its tasks is
 * chosen), a JSON array of gaps in seconds, a CSV table of LLM requests (TIMESTAMP, ContextTokens, GeneratedTokens), or
 * one time in seconds per line. A file's arrivals begin at its first one and repeat at the end of the file; with
 * `speed` N they come N times as fast. The same seed gives the same arrivals.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct ds_replay_arrivals ds_replay_arrivals;

struct ds_replay_arrival {
        uint64_t ns;
        uint32_t context_tokens, generated_tokens; /* tokens of the request; both 0: the trace has none */
};

/* Opens arrivals. Returns the codes of workload.h and DS_REPLAY_E_BAD_RULE, with a message. id: task of a DISB file,
 * or NULL. */
#define DS_REPLAY_E_BAD_RULE 3
int ds_replay_arrivals_open(const char *rule, const char *id, double speed, uint64_t seed, char *message,
        size_t message_size, ds_replay_arrivals **ret);
ds_replay_arrivals *ds_replay_arrivals_free(ds_replay_arrivals *arrivals);
int ds_replay_arrivals_closed(const ds_replay_arrivals *arrivals);
/* Begin again with the first arrival. */
void ds_replay_arrivals_rewind(ds_replay_arrivals *arrivals);
/* The next arrival. Not for closed arrivals, which have no times. */
struct ds_replay_arrival ds_replay_arrivals_next(ds_replay_arrivals *arrivals);
