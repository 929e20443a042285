/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restart of the daemon that keeps its clients
 *
 * If the service manager offers a file descriptor store (notify.h), a daemon that stops does not close its clients. The
 * worker admits no more work, finishes its current work and exits. Then the supervisor writes its state to one file
 * (saved.h). It stores that file with the manager, and with it all files that the state names: connections, slabs,
 * images, rings. The manager passes them to the next daemon.
 *
 * That daemon treats them as after an orderly end of a worker. The sessions exist, with their windows and charges, and
 * a new worker opens each of them at its next request. If the manager stops the daemon for good it closes the files,
 * and clients see the end of their connection.
 *
 * Clients notice only a delay, if their running work ends within DS_HANDOVER_GRACE_MS. Ring records that no worker has
 * taken are run by the next worker. The client library sends unanswered requests again, as after a worker's death. Work
 * that does not end in time is lost, as in a worker's death; so are the contents of modules' own writable variables.
 * Control connections (detsharectl) are closed.
 *
 * Sessions that cannot be stored (too many files, no answer of the manager) are closed one by one, as in any stop. No
 * user takes more than an equal share of room and time while another user needs some (handover_fair.h). Small files
 * that cannot change are saved inside the state (saved.h).
 *
 * The next daemon checks all stored data as untrusted input. It refuses a session that is not valid with one log line
 * and closes its client; the others continue. The store is emptied when the new daemon serves; a daemon that fails
 * before that leaves the store for the next attempt.
 *
 * handover.c decides when, handover_save.c stores, handover_walk.c lists the records of a session, handover_take.c
 * reads.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ds_given_file;
struct ds_supervisor;

#define DS_HANDOVER_STATE "handover" /* name of the state file in the store */

/* --- before the restart ------------------------------------------------------------------------------------------- */

/* Called when a stop begins. Returns 1 if the clients are kept: they are not read any more, and the worker gets the
 * longer grace time. */
int ds_handover_begin(struct ds_supervisor *supervisor);
/* Called when the worker is gone. Stores all sessions that can be stored and lets their clients go. The caller
 * closes the other clients. */
void ds_handover_save(struct ds_supervisor *supervisor);

/* --- after the restart -------------------------------------------------------------------------------------------- */

/* Reads the files that the service manager passed. No client is read and no message is sent yet. Returns 0 or
 * -ENOMEM. */
int ds_handover_take(struct ds_supervisor *supervisor);
/* Works as ds_handover_take() with the given files. Each file that it used or closed is -1 afterwards. */
int ds_handover_take_files(struct ds_supervisor *supervisor, struct ds_given_file *files, size_t n);
/* Called when the first worker is ready: lets the restored sessions continue. */
void ds_handover_resume(struct ds_supervisor *supervisor);
/* Called when the start failed. Leaves the store unchanged. Allowed if there is no handover. */
void ds_handover_drop(struct ds_supervisor *supervisor);
