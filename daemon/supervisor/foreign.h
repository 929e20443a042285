/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closing of file descriptors that clients sent
 *
 * Descriptors that a client sent and that no request used must be closed, and a client can make close() take as long as
 * it likes (util/foreign.h). Memory files are closed at once. Every other file is closed by a thread made for it, and
 * is charged to its user until then. A user with too many such files is not read any more. So it can neither block the
 * daemon nor exhaust its threads and open files, and other users notice nothing.
 */
#pragma once

#include <stddef.h>
#include <sys/queue.h>

#include "supervisor/charge.h"
#include "supervisor/deadline.h"

#define DS_FOREIGN_MAX 256 /* most descriptors per call; the kernel passes at most 253 in a message */

struct ds_foreign_batch;

TAILQ_HEAD(ds_foreign_list, ds_foreign_batch);

/* Part of struct ds_supervisor. */
struct ds_foreign {
        struct ds_deadlines *deadlines;
        struct ds_deadline deadline;
        struct ds_foreign_list batches; /* batches whose threads still run */
};

void ds_foreign_init(struct ds_foreign *foreign, struct ds_deadlines *deadlines);
/* Ends the list before the deadlines are freed. Files that are still open are left to the end of the process. */
void ds_foreign_deinit(struct ds_foreign *foreign);
/* Closes n descriptors that a client of the user sent. */
void ds_foreign_close(struct ds_foreign *foreign, ds_user *user, const int *fds, size_t n);
/* Whether too many files of this user are still open, so that the daemon must not read its clients for now. */
int ds_foreign_too_many(struct ds_foreign *foreign, const ds_user *user);
