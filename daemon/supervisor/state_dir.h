/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state directory: files that outlive the daemon
 *
 * It is created if absent. Only the daemon's user and root may be able to write to it, since its content is trusted.
 */
#pragma once

/* Opens the directory. Returns -1 if it is unusable, after a log line with the reason and the consequence: `what`
 * ("profiles are") and "not kept". */
int ds_state_directory(const char *path, const char *what);
/* Opens a directory inside the state directory, like ds_state_directory(). mode: mode of a new directory. */
int ds_state_directory_below(int above, const char *path, const char *name, unsigned mode, const char *what);
