/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrival times of requests: from a file, or random
 *
 * A file is JSON, one list of the seconds between one arrival and the next; or text, one time in seconds from the
 * beginning per line, in ascending order. It may be empty. `speed` divides all times. Random arrivals are a Poisson
 * process: the same seed gives the same times.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "serve/why.h"

#define SV_ARRIVALS_MAX ((size_t)4 << 20)

struct sv_arrivals {
        uint64_t *ns; /* ns from the beginning, ascending */
        size_t n;
};

int sv_arrivals_read(struct sv_arrivals *arrivals, const char *path, double speed, struct sv_why *why);
/* text: contents of the file, ended by a NUL. name: the file, for messages. */
int sv_arrivals_parse(
        struct sv_arrivals *arrivals, const char *text, const char *name, double speed, struct sv_why *why);
/* rate: requests per second. */
int sv_arrivals_random(struct sv_arrivals *arrivals, double rate, double seconds, uint64_t seed, struct sv_why *why);
void sv_arrivals_clear(struct sv_arrivals *arrivals);
