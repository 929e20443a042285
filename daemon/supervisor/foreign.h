/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File descriptors of clients that the daemon wants to be rid of
 *
 * What a client sent and nobody wants has to be closed, and closing may take as long as the client likes
 * (util/foreign.h). Memory files are closed at once. Everything else is closed by a thread made for it, and charged to
 * its user until it is closed: a user with more of them than it may have is not listened to any more, so that it can
 * neither stop the daemon nor fill it with threads and open files. Others notice nothing.
 */
#pragma once

#include <stddef.h>
#include <sys/queue.h>

#include "supervisor/charge.h"
#include "supervisor/deadline.h"

#define DS_FOREIGN_MAX 256 /* at once: the kernel hands over at most 253 */

struct ds_foreign_batch;

TAILQ_HEAD(ds_foreign_list, ds_foreign_batch);

/* Part of the supervisor. */
struct ds_foreign {
        struct ds_deadlines *deadlines;
        struct ds_deadline deadline;
        struct ds_foreign_list batches; /* that have threads */
};

void ds_foreign_init(struct ds_foreign *foreign, struct ds_deadlines *deadlines);
/* What is not closed by now goes with the process. Before the deadlines are let go. */
void ds_foreign_deinit(struct ds_foreign *foreign);
/* Takes n descriptors over. */
void ds_foreign_close(struct ds_foreign *foreign, ds_user *user, const int *fds, size_t n);
/* 1: the user has so many that do not close that nothing more is to be taken from it. */
int ds_foreign_too_many(struct ds_foreign *foreign, const ds_user *user);
