/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines for systemd's journal, with fields
 *
 * Under the journal the supervisor's lines go there by its own protocol, so that they can be searched by what they are
 * about: DETSHARE_CLIENT= (a session's number), DETSHARE_CLIENT_PID=, DETSHARE_CLIENT_UID=, DETSHARE_GPU=, and
 * MESSAGE_ID= for the events of log.h. libsystemd's call for this waits while the journal's queue is full, which a loop
 * that serves clients must not: lines are sent without waiting, those that do not fit are counted, and the count is
 * said with the next one that does. What the journal takes from nobody else's lines it adds itself (_PID=, _UID=, ...).
 */
#pragma once

/* From now on, if standard error is the journal's; else everything stays as it is. socket NULL: the journal's own. */
void ds_journal_start(const char *identifier, const char *socket);
/* The GPU that the daemon owns, for every line from now on; kept by value. */
void ds_journal_set_gpu(const char *gpu);
/* Lines go to standard error again. */
void ds_journal_stop(void);
