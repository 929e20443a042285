/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Positions: the gaps that a session's client leaves at the same places of each request
 *
 * A program that is bound by its host launches nothing for a while after certain kernels: it samples a token, prepares
 * the next batch, or needs longer to launch a kernel than the kernel runs. These gaps return at the same position of each
 * request, so the shortest one seen there predicts the next. BE that is held during requests may still run a kernel that
 * ends within the gap.
 *
 * Known are positions up to POSITIONS; a request with more kernels shares places among them, so the shorter gap counts.
 * A gap that is shorter than predicted delays the request by the rest of one kernel.
 */
#pragma once

#include <stdint.h>

#define POSITIONS 256u

struct positions {
        uint32_t at;             /* operations of the running request that have ended */
        uint32_t low[POSITIONS]; /* gap after that many operations, near the shortest seen, ns; 0: unknown */
};

/* A request begins. */
void positions_begin(struct positions *positions);
/* An operation of the request has ended. */
void positions_count(struct positions *positions);
/* The request continues after gap_ns without work. */
void positions_learn(struct positions *positions, uint64_t gap_ns);
/* Time for which the gap after the last operation will last at least, ns; since_ns: time since that. 0: unknown. */
uint64_t positions_left(const struct positions *positions, uint64_t since_ns);
