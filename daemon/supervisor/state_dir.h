/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state directory: files that outlive the daemon
 *
 * It is created if absent. Only the daemon's user and root may be able to write to it, since its content is trusted.
 */
#pragma once

/* Opens the directory. -1: it is unusable; the reason was logged, followed by `what` "not kept". */
int ds_state_directory(const char *path, const char *what);
/* The same for a directory inside it; mode: of a new one. */
int ds_state_directory_below(int above, const char *path, const char *name, unsigned mode, const char *what);
