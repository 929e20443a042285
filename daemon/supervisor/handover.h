/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A restart of the daemon under its clients
 *
 * Where the service manager keeps files for us (notify.h), a daemon that is told to stop does not close its clients.
 * The worker takes no more work, ends what it has, and goes. Then what the supervisor knows is written to one file
 * (saved.h), and that file and all that it names (connections, slabs, images, rings) are stored with the manager, which
 * gives them to the daemon that it starts next. For that one it is as if a worker had ended in order: the sessions are
 * there, in their windows and with their charges, and are told to a new worker when they next ask for something.
 * If the manager was told to stop us for good it throws the files away, and clients see the end of their connection.
 *
 * What clients notice. Nothing but time, as long as what they had in flight ended within DS_HANDOVER_GRACE_MS: records
 * of their ring that no worker has taken are run by the next one, requests that were not answered are sent again by
 * the client library, as after a worker's death. What did not end in time is lost, as with a worker; so are the
 * contents of modules' own writable variables. Control connections (detsharectl) are closed.
 *
 * What cannot be stored (too many files, a manager that does not listen) is closed as in any stop, session by
 * session. No user takes more than an equal share of the room and the time as long as another one wants some
 * (handover_fair.h), and small files that cannot change travel inside the state (saved.h). What comes back is checked
 * as if anybody could have written it: a session that is not all right is refused with one line in the log, and its
 * client closed; the others go on. The store is emptied when the new daemon serves; one that fails before that leaves
 * it to the next try.
 *
 * handover.c decides when, handover_save.c stores, handover_walk.c shows what a session has, handover_take.c reads.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct ds_given_file;
struct ds_supervisor;

#define DS_HANDOVER_STATE "handover" /* the state's name in the store */

/* --- the end of a life -------------------------------------------------------------------------------------------- */

/* A stop begins. 1: its clients are to go on, they are not read any more, and the worker gets the longer grace. */
int ds_handover_begin(struct ds_supervisor *supervisor);
/* The worker is gone: store what can be. Those clients are let go; the others are for the caller to close. */
void ds_handover_save(struct ds_supervisor *supervisor);

/* --- the next one ------------------------------------------------------------------------------------------------- */

/* Take what the service manager gave. Nothing is read from clients and nobody is told anything yet. 0 or -ENOMEM. */
int ds_handover_take(struct ds_supervisor *supervisor);
/* The same of other files; those that are taken or closed are -1 then. */
int ds_handover_take_files(struct ds_supervisor *supervisor, struct ds_given_file *files, size_t n);
/* The first worker is ready: the sessions go on. */
void ds_handover_resume(struct ds_supervisor *supervisor);
/* It never got so far, and the store is as it was. Also when there is nothing. */
void ds_handover_drop(struct ds_supervisor *supervisor);
