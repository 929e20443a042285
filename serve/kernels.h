/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long each kernel of a pack takes
 *
 * The pack is run with an event before and behind every launch, so that kernels do not follow each other as closely as
 * when it is served; a time is what lies between the two, a launch's own cost included. Launches of one kernel with one
 * grid are one row, with the median of all their times. Rows are written to a file, a line each:
 *
 *      KERNEL GX GY GZ THREADS SHARED LAUNCHES NS BYTES
 *
 * BYTES: what a launch reads and writes at least, as the pack says it (`cost`; of several launches the most); 0: it
 * does not.
 */
#pragma once

#include "serve/cases.h"
#include "serve/clock.h"

/* So many runs, the first of which is not counted. */
int sv_kernels_write(struct sv_instance *instance, const struct sv_cases *cases, const struct sv_clock *clock,
        unsigned runs, const char *path, struct sv_why *why);
