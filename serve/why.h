/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reason of a failure, in one sentence
 *
 * A function that fails returns -1 and leaves a sentence for the user or the client. It names the file and the field,
 * or the driver's call and its error. Callers that pass a failure on add nothing. A sentence is one line of printable
 * characters, also if it quotes a hostile pack.
 */
#pragma once

#define SV_WHY_MAX 640u

struct sv_why {
        char text[SV_WHY_MAX];
};

/* Returns -1. */
__attribute__((format(printf, 2, 3))) int sv_fail(struct sv_why *why, const char *format, ...);
