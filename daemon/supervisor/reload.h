/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the configuration again while serving
 *
 * All of it is read and checked before any of it counts: a configuration with an error changes nothing. Otherwise it
 * counts at once, also for those who are there: nothing that they have is taken away, what they ask for next is
 * measured by the new limits, their share of the SMs changes, and a class that is not allowed any more becomes the
 * other. The policy changes if the file's did, the worker's times too. What only a restart can change is named in the
 * log.
 */
#pragma once

#include <stddef.h>

struct ds_rights;
struct ds_session;
struct ds_supervisor;

/* Contract codes */
#define DS_RELOAD_E_REFUSED 1 /* nothing has changed; see the message */

/* message: what happened, or why not, in a few words: file, line and key where there is one. 0, REFUSED or -errno. */
int ds_supervisor_reload(struct ds_supervisor *supervisor, char *message, size_t message_size);
/* Class and share of the SMs follow what its user may have now; was: what it might (only these two are looked at). */
void ds_reload_adapt(struct ds_session *session, const struct ds_rights *was);
/* The configuration that was read last goes; that of the start counts again. */
void ds_reload_deinit(struct ds_supervisor *supervisor);
