/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of the listening socket
 *
 * All users may connect, so the file has mode 0666. It is created with that mode, and no later call uses its path. A
 * daemon that runs as root creates and removes it only in a directory where other users cannot replace it: the
 * directory belongs to root or to the daemon's user, and nobody else may write to it, unless its sticky bit is set as
 * in /tmp. Names are looked up relative to a descriptor of the directory.
 *
 * The path above the directory may belong to others. They can move the directory, and then clients do not find the
 * daemon; they cannot make the daemon touch another file.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

/* Positive return codes */
#define DS_SOCKET_FILE_E_REFUSED 1 /* the socket cannot be created; the message gives the reason */

struct ds_socket_file {
        int directory; /* descriptor of the file's directory; -1: no file was made */
        char name[sizeof(((struct sockaddr_un *)0)->sun_path)];
        dev_t dev;
        ino_t ino;
};

/*
 * Listens at `path` and stores the descriptor in *ret_fd; the caller closes it. Creates the directory if it is missing
 * and the daemon is root, and replaces a socket file without a listener. Changes the process's umask during bind(), so
 * other threads must pass explicit modes when they create files. Returns 0, a contract code with a user message in
 * `message`, or -errno. `file` is set only on success.
 */
int ds_socket_file_open(struct ds_socket_file *file, const char *path, int *ret_fd, char *message, size_t message_size);
/* Removes the socket file if it is still the one that was created. */
void ds_socket_file_remove(struct ds_socket_file *file);
