/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who ends the device's context, and how often
 *
 * A kernel that faults takes the context of everybody's work with it. That costs the others the time of a restart,
 * which a program under development may cause a few times a minute, and which nobody may cause all the time. So faults
 * are counted per user, in a bucket that leaks: DS_BLAME_FREE faults at once, and one more every DS_BLAME_LEAK_NS, cost
 * nothing. Past that the user's sessions, old and new, have to wait before the next worker takes them: 1 s, then 2, 4
 * and at most DS_BLAME_MAX_MS, which a client library waits out. So a user who does nothing else costs the others at
 * most a restart in that time. Where several users' work may have done it each is blamed for its share. Root waits for
 * nothing: it can do worse. What is known of a user outlives its connections; of very many users the longest silent is
 * forgotten.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "util/macro.h"

#define DS_BLAME_USERS 64u
#define DS_BLAME_FREE 5u
#define DS_BLAME_LEAK_NS (12 * DS_NS_PER_S)
#define DS_BLAME_FIRST_MS 1000u
#define DS_BLAME_MAX_MS 8000u

/* Zero-initialised: nobody is to blame. */
struct ds_blame {
        struct ds_blame_user {
                uid_t uid;
                uint64_t level; /* in 1/256 of a fault, as of last_ns */
                uint64_t last_ns, until_ns;
        } users[DS_BLAME_USERS];
};

/* A fault at now_ns that `of` users may have caused, of whom uid is one. */
void ds_blame_add(struct ds_blame *blame, uid_t uid, unsigned of, uint64_t now_ns);
/* Milliseconds that uid has still to wait, 0 = none. */
uint64_t ds_blame_wait_ms(const struct ds_blame *blame, uid_t uid, uint64_t now_ns);
