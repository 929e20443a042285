/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of handover.c and its parts: names of the files in the store, and the records of a session
 *
 * A name is "s<session>.<file>", both hexadecimal, files counted from 1. Names are short, because systemd passes all of
 * them in one environment string, which the kernel limits to 128 KiB.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "internal.pb-c.h"

struct ds_session;
struct ds_supervisor;

#define DS_HANDOVER_NAME_MAX 32u
#define DS_HANDOVER_NAMES_MAX 120000u /* most bytes of all names and their separators */

/* Writes the name of a session's file. Returns the name's length. */
size_t ds_handover_name(char name[static DS_HANDOVER_NAME_MAX], uint64_t session, uint32_t file);
/* Whether the name has the form that ds_handover_name() writes. */
int ds_handover_is_name(const char *name);

/* Receives a record and its file, which the session still owns; -1: no file. A nonzero result ends the walk. */
typedef int (*ds_handover_put_fn)(void *user, Detshare__Internal__SavedRecord *record, int fd);

/*
 * Passes all records of a session to put, from its SavedSession to its SavedDone, in the order in which the next daemon
 * reads them. While the session does not change, each walk yields the same records. Returns 0, the result of put, or
 * -ENOMEM.
 */
int ds_handover_walk(struct ds_session *session, ds_handover_put_fn put, void *user);
