/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of the listening socket
 *
 * Everybody may connect, so the file has mode 0666 from the moment at which it exists: it is made with that mode, and
 * no later call names it by its path. A daemon that runs as root makes and removes it only in a directory where other
 * users cannot replace it: the directory belongs to root or to the daemon's user, and nobody else may write it, unless
 * its sticky bit is set as in /tmp. Names in the directory are looked up through a descriptor of it.
 *
 * The path above the directory may belong to others. They can move the directory away, and then a client no longer
 * finds the daemon; they cannot make it touch another file.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

/* Contract codes */
#define DS_SOCKET_FILE_E_REFUSED 1 /* see the message */

struct ds_socket_file {
        int directory; /* -1: no file was made */
        char name[sizeof(((struct sockaddr_un *)0)->sun_path)];
        dev_t dev;
        ino_t ino;
};

/*
 * Listens at `path` and writes the descriptor to *ret_fd, which the caller closes. Makes the directory if it is missing
 * and the daemon is root, and replaces a socket file that nobody listens at. Changes the process's umask while it
 * binds: other threads must give explicit modes to the files that they create. Returns 0, a contract code with words
 * for the user in `message`, or -errno. `file` is filled in only for 0.
 */
int ds_socket_file_open(struct ds_socket_file *file, const char *path, int *ret_fd, char *message, size_t message_size);
/* Removes the file if it is still the one that was made. */
void ds_socket_file_remove(struct ds_socket_file *file);
