/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The listening socket
 *
 * Created with system calls, because libuv silently shortens long paths (socket_file.h). A socket file without a
 * listener is replaced; a socket file with a listener is not touched. When file descriptors run out, a descriptor kept
 * in reserve is used to accept new connections and close them at once: the client sees the refusal, and the loop does
 * not spin.
 */
#pragma once

#include <stddef.h>

struct ds_supervisor;

typedef struct ds_listener ds_listener;

/* Positive return codes of the functions below */
#define DS_LISTENER_E_REFUSED 1 /* the socket cannot be used; the message gives the reason */

/*
 * Uses the socket of the service manager if it passed one; the socket file then stays. Otherwise binds a new socket to
 * path and listens. Connections stay pending until ds_listener_start().
 */
int ds_listener_new(
        struct ds_supervisor *supervisor, const char *path, char *message, size_t message_size, ds_listener **ret);
int ds_listener_start(ds_listener *listener);
/* The path that clients connect to; for a passed socket, as the kernel reports it. */
const char *ds_listener_path(const ds_listener *listener);
/* Closes the socket, and removes its file if the file is still this daemon's. The loop frees the memory when it has
 * closed the socket. Returns NULL. */
ds_listener *ds_listener_free(ds_listener *listener);
