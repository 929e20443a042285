/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache of compiled code on disk, per user
 *
 * Compiling a program's PTX for a GPU takes up to seconds, and each start of the program brings the same PTX. The
 * compiler's output is kept in files (util/code_file.h) under the daemon's state directory, within a limit of bytes and
 * files. Helpers read the files themselves, each through a descriptor of its user's directory. Only this process
 * writes, in a thread of its own, so that a slow disk delays nobody; when the thread's queue is full, output is not
 * cached.
 *
 * Only the helper vouches for its output, and a malicious image may have taken control of that helper. So a file is
 * used only for the user whose helper made it: the supervisor chooses the directory, code/UID, and gives a helper no
 * other user's descriptor. The directory above is closed to helpers, so none can open another user's directory. Two
 * users with the same PTX have it compiled twice.
 *
 * Above the limit the user with the most data loses its least recently used file. So while n users have files, no user
 * loses a file because of the others if it holds less than 1/n of the limit.
 *
 * The content of the directory is trusted. So the store refuses a directory that anybody but the daemon's user and root
 * can write to. Its files may be deleted at any time. If two daemons use the same directory, the second only reads.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "util/sha256.h"

typedef struct ds_code_store ds_code_store;

#define DS_CODE_STORE_BYTES DS_MIB(512)
#define DS_CODE_STORE_FILES 8192u

struct ds_code_figures {
        uint64_t files, bytes;
        uint64_t written, failed; /* number of files since the start of the daemon */
};

/*
 * Opens the store in the state directory `path`, which is created if absent. If it is unusable, the reason is logged,
 * *ret is NULL and the result 0. Otherwise returns 0 or -errno. max_bytes 0: DS_CODE_STORE_BYTES.
 */
int ds_code_store_new(const char *path, uint64_t max_bytes, ds_code_store **ret);
/* Waits for the write in progress and frees the store. NULL is allowed; returns NULL. */
ds_code_store *ds_code_store_free(ds_code_store *store);
/* Returns a new read-only descriptor of the user's directory, or -1: the user has no files, or opening failed. */
int ds_code_store_directory(const ds_code_store *store, uid_t uid);
/* Stores the content of the sealed memory file fd for this user. The caller keeps fd. */
void ds_code_store_put(
        ds_code_store *store, uid_t uid, const uint8_t key[static DS_SHA256_BYTES], int fd, uint64_t bytes);
/* Records a use of the user's file. */
void ds_code_store_used(ds_code_store *store, uid_t uid, const uint8_t key[static DS_SHA256_BYTES]);
void ds_code_store_figures(ds_code_store *store, struct ds_code_figures *ret);
