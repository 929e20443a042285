/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reload of the configuration while serving
 *
 * The whole configuration is read and checked before any of it applies: an error changes nothing. A valid configuration
 * applies at once, also to existing clients. They keep what they hold, and their next requests are checked against the
 * new limits. Their share of the SMs changes, and a class that is no longer allowed is replaced by the other. The
 * policy changes if the file's policy did; so do the worker's times. Keys that only a restart can change are named in
 * the log.
 */
#pragma once

#include <stddef.h>

struct ds_rights;
struct ds_session;
struct ds_supervisor;

/* Positive return codes */
#define DS_RELOAD_E_REFUSED 1 /* nothing has changed; the message gives the reason */

/* Reloads the configuration. message: the result in a few words, for an error with file, line and key. Returns 0,
 * DS_RELOAD_E_REFUSED or -errno. */
int ds_supervisor_reload(struct ds_supervisor *supervisor, char *message, size_t message_size);
/* Adapts the session's class and shares to the current rights of its user. was: the user's previous rights, of which
 * only these are used. */
void ds_reload_adapt(struct ds_session *session, const struct ds_rights *was);
/* Frees the reloaded configuration; the one that the daemon started with is used again. */
void ds_reload_deinit(struct ds_supervisor *supervisor);
