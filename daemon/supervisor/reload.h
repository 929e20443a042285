/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the configuration again while serving
 *
 * All of it is read and checked before any of it counts: a configuration with an error changes nothing. What a reload
 * cannot change is named in the log.
 */
#pragma once

#include <stddef.h>

struct ds_supervisor;

/* Contract codes */
#define DS_RELOAD_E_REFUSED 1 /* nothing has changed; see the message */

/* message: what happened, or why not, in a few words: file, line and key where there is one. 0, REFUSED or -errno. */
int ds_supervisor_reload(struct ds_supervisor *supervisor, char *message, size_t message_size);
