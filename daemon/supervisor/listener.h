/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listening socket
 *
 * Made by hand, because libuv shortens long paths silently (socket_file.h). A socket file that nobody listens on is
 * replaced; one that somebody does is not touched. When file descriptors run out, newcomers are closed at once with the
 * help of one that is kept in reserve: they hear it, and the loop does not spin.
 */
#pragma once

#include <stddef.h>

struct ds_supervisor;

typedef struct ds_listener ds_listener;

/* Contract codes */
#define DS_LISTENER_E_REFUSED 1 /* see the message */

/*
 * Takes the service manager's socket if it gave one, which stays the manager's file in the end; else binds and listens
 * at path. Clients wait until ds_listener_start.
 */
int ds_listener_new(
        struct ds_supervisor *supervisor, const char *path, char *message, size_t message_size, ds_listener **ret);
int ds_listener_start(ds_listener *listener);
/* Where clients connect: of a socket that was given, what it says itself. */
const char *ds_listener_path(const ds_listener *listener);
/* Removes the socket file if it is still ours. The memory goes when the loop has closed it. Returns NULL. */
ds_listener *ds_listener_free(ds_listener *listener);
