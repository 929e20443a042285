/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closing what others handed us
 *
 * Closing is not always short. The last close of a TCP socket waits for its peer as long as the socket's owner wrote
 * into SO_LINGER, hours if he likes; closing a file of a file system that a user serves asks that user. A process that
 * takes file descriptors from strangers and closes them itself stands still for whoever wants it to.
 *
 * Closing a memory file is harmless, and but for files of disks the protocol asks for nothing else. Everything else is
 * closed by a thread (supervisor/foreign.h). ds_foreign_close_socket() closes a connection in which descriptors may lie
 * that nobody took out: the kernel lets go of them then and there, where a lingering socket waits but can be
 * interrupted, so a timer interrupts it.
 */
#pragma once

/* 1: a memory file. Asks nobody but the kernel. */
int ds_foreign_is_memory(int fd);
/*
 * 1: a regular file of a file system on a disk of this machine, open for reading alone: programs' code lies there. Asks
 * nobody but the kernel. File systems without a device (those of users, of other machines, /proc) are not among them.
 */
int ds_foreign_is_disk_file(int fd);
/* 1: one with so few pages that freeing them takes no time worth a word, or a file of a disk that has a name. */
int ds_foreign_closes_at_once(int fd);
/* Shut a connection down and close it; takes a few ms at most. errno is preserved. Returns -1. */
int ds_foreign_close_socket(int fd);
/* A socket that others may listen at, too: it is only closed, and the connections that nobody accepted with it. */
int ds_foreign_close_listening(int fd);
