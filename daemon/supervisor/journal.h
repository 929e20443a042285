/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines with fields for systemd's journal
 *
 * If standard error belongs to the journal, lines are sent in the journal's own protocol, so that they can be searched
 * by field: DETSHARE_CLIENT= (a session's number), DETSHARE_CLIENT_PID=, DETSHARE_CLIENT_UID=, DETSHARE_GPU=, and
 * MESSAGE_ID= for the events of log.h. The journal adds its trusted fields (_PID=, _UID=, ...).
 *
 * libsystemd's function for this blocks while the journal's queue is full, which the loop of a server must not do. So
 * lines are sent without blocking. Lines that do not fit are counted, and the next line that fits is preceded by the
 * count.
 */
#pragma once

/* Enables the protocol if standard error belongs to the journal; otherwise changes nothing. socket: path of the
 * journal's socket; NULL: the default. */
void ds_journal_start(const char *identifier, const char *socket);
/* Sets the DETSHARE_GPU= field of all later lines; gpu is copied. */
void ds_journal_set_gpu(const char *gpu);
/* Ends the protocol: later lines go to standard error. */
void ds_journal_stop(void);
