/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why something failed, in one sentence
 *
 * Functions that can fail return 0 or -1 and then leave a sentence that names file and field, or the driver's call and
 * its error, for the person who started the program (or the client that asked). Whoever passes a failure on says
 * nothing more. A sentence is one line of printable characters, whatever a pack's author wrote into his.
 */
#pragma once

#define SV_WHY_MAX 640u

struct sv_why {
        char text[SV_WHY_MAX];
};

/* Returns -1. */
__attribute__((format(printf, 2, 3))) int sv_fail(struct sv_why *why, const char *format, ...);
