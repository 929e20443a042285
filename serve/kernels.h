/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Duration of each kernel of a pack
 *
 * The pack runs with an event before and after every launch, so kernels follow each other less closely than when it is
 * served. A time is the one between the two events, with the cost of a launch. Launches of one kernel with one grid are
 * one row, with the median of their times. Each row is a line of the file:
 *
 *     KERNEL GX GY GZ THREADS SHARED LAUNCHES NS BYTES
 *
 * BYTES: least bytes that a launch reads and writes, from the pack (`cost`; the largest of several launches); 0: the
 * pack does not say.
 */
#pragma once

#include "serve/cases.h"
#include "serve/clock.h"

/* runs: number of runs, of which the first is not counted. */
int sv_kernels_write(struct sv_instance *instance, const struct sv_cases *cases, const struct sv_clock *clock,
        unsigned runs, const char *path, struct sv_why *why);
