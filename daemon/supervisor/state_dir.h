/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state directory: where things are kept that outlive the daemon
 *
 * It is made if it is not there. Nobody but the daemon's user and root may write there, or what is kept would be
 * anybody's word.
 */
#pragma once

/* A descriptor of it, or -1: it cannot be used, and it was said why, and that `what` "is not kept". */
int ds_state_directory(const char *path, const char *what);
/* The same of a directory in it; mode: of one that is made. */
int ds_state_directory_below(int above, const char *path, const char *name, unsigned mode, const char *what);
