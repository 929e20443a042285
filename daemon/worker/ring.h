/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The submission ring (ring.c): the worker's side
 *
 * Positions count slots from the ring's creation on.
 */
#pragma once

#include "worker/internal.h"

/* Consumes records until their number reaches `budget` or the remaining share of the session's user. Launches that are
 * taken together count as RING_REPEAT_COST records. Returns the number. */
size_t dsw_ring_consume(struct dsw_session *session, uint64_t limit, size_t budget);
const uint8_t *dsw_ring_slot(const struct dsw_session *session, uint64_t position);
struct ds_record dsw_ring_head(const uint8_t *slot); /* reads the header of the record there once */
uint64_t dsw_ring_tail(struct dsw_session *session); /* tail of the ring; an impossible one faults the session */
/* Returns 1, and informs the policy, if the client newly reports that it has the results of all its work. */
int dsw_ring_synchronised(struct dsw_session *session);
