/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes file descriptors received from other processes
 *
 * A close can take long. The last close of a TCP socket waits for its peer as long as the socket's owner set in
 * SO_LINGER, which may be hours. The close of a file in a user's file system (FUSE) calls that user's process. So an
 * untrusted client could block a process that closes the client's descriptors itself.
 *
 * Memory files close quickly, and apart from disk files the protocol needs nothing else. All other descriptors are
 * closed by a thread (supervisor/foreign.h). ds_foreign_close_socket() closes a connection that may contain unreceived
 * descriptors. The kernel closes those in the same call, where a lingering socket waits but can be interrupted; so a
 * timer interrupts it.
 */
#pragma once

/* Whether the file is a memory file. Makes no call to a user's process. */
int ds_foreign_is_memory(int fd);
/*
 * Whether the file is a regular file of a file system on a local disk, open only for reading, such as a program's code.
 * Makes no call to a user's process. File systems without a device (FUSE, network, /proc) do not count.
 */
int ds_foreign_is_disk_file(int fd);
/* Whether closing the file is quick: it has so few pages that freeing them is quick, or it is a disk file with a
 * name. */
int ds_foreign_closes_at_once(int fd);
/* Shuts a connection down and closes it, within a few ms. Preserves errno. Returns -1. */
int ds_foreign_close_socket(int fd);
/* Closes a listening socket that other processes may have, too. Closes the connections that nobody has accepted with
 * it. */
int ds_foreign_close_listening(int fd);
