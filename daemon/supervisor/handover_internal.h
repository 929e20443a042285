/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What handover.c and its parts share: the names of the files in the store, and the records of a session
 *
 * "s<session>.<file>", both hexadecimal, files counted from 1. Short, because systemd hands all names over in one
 * string of the environment, which the kernel bounds at 128 KiB.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "internal.pb-c.h"

struct ds_session;
struct ds_supervisor;

#define DS_HANDOVER_NAME_MAX 32u
#define DS_HANDOVER_NAMES_MAX 120000u /* bytes of all names, with what is between them */

/* Returns the name's length. */
size_t ds_handover_name(char name[static DS_HANDOVER_NAME_MAX], uint64_t session, uint32_t file);
/* Is it one that we may have given? */
int ds_handover_is_name(const char *name);

/* A record, and the file that belongs to it, which stays the session's; -1 = none. Nonzero ends the walk. */
typedef int (*ds_handover_put_fn)(void *user, Detshare__Internal__SavedRecord *record, int fd);

/*
 * Everything of a session, from its SavedSession to its SavedDone, in the order in which it is taken. As long as
 * nothing of the session changes, each walk shows the same. 0, what put returned, or -ENOMEM.
 */
int ds_handover_walk(struct ds_session *session, ds_handover_put_fn put, void *user);
