/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rate limit for users whose kernels end the GPU context
 *
 * A kernel that faults destroys the context that all users share, which costs the others one worker restart. A program
 * under development may cause that a few times a minute, but nobody may cause it all the time. So faults are counted
 * per user in a leaky bucket: DS_BLAME_FREE faults at once, and one more every DS_BLAME_LEAK_NS, are free.
 *
 * Beyond that all sessions of the user, existing and new, wait before the next worker accepts them: 1 s, then 2, 4 and
 * at most DS_BLAME_MAX_MS. The client library waits that time. So one user costs the others at most one restart per
 * wait.
 *
 * Where several users' kernels may have caused the fault, each of them is charged its share. Root never waits: it can
 * do worse anyway. A user's count outlives its connections; when the table is full, the user with the oldest last fault
 * is forgotten.
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

/* Zero-initialised: no user has a fault. */
struct ds_blame {
        struct ds_blame_user {
                uid_t uid;
                uint64_t level; /* number of faults at time last_ns that have not leaked yet, in 1/256 of a fault */
                uint64_t last_ns, until_ns;
        } users[DS_BLAME_USERS];
};

/* Counts a fault at now_ns of which user uid is one of `of` possible causes. */
void ds_blame_add(struct ds_blame *blame, uid_t uid, unsigned of, uint64_t now_ns);
/* Remaining time that sessions of uid must wait, ms; 0: none. */
uint64_t ds_blame_wait_ms(const struct ds_blame *blame, uid_t uid, uint64_t now_ns);
