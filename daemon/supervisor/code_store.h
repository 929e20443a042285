/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled code on disk, by user
 *
 * Compiling a program's PTX for a GPU takes up to seconds, and a program that starts again brings the same. What the
 * compiler made is kept in files (util/code_file.h) under the daemon's state directory, at most so many bytes and
 * files. The helpers read them themselves, each through a descriptor of its user's directory; only this process writes,
 * and a thread of its own does, so that a slow disk keeps nobody waiting: what it has no time for is not kept.
 *
 * It is a helper's word what a text became, and an image may have taken the helper over. So a file is only for the user
 * whose helper it came from: the supervisor chooses the directory, code/UID, and a helper is given no other one's
 * descriptor. The directory above them is closed, so that no helper finds a way from one to the next. Two users who
 * bring the same text have it compiled twice.
 *
 * When there is too much, the user who has most of it gives the file that it used the longest ago. So as long as n
 * users have files, none of them loses any for the others' sake while it has less than an nth of what may be kept.
 *
 * Whoever can write the directory is believed, which is refused when that is anybody but the daemon's user and root.
 * Its files may be deleted at any time.
 *
 * Two daemons may have the same directory: the second one only reads.
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
        uint64_t written, failed; /* since the daemon was started */
};

/*
 * path: the state directory, made if it is not there. What makes it unusable is logged. 0 with *ret NULL when it is,
 * or -errno. max_bytes 0: DS_CODE_STORE_BYTES.
 */
int ds_code_store_new(const char *path, uint64_t max_bytes, ds_code_store **ret);
/* Finishes what it is writing. NULL is fine; returns NULL. */
ds_code_store *ds_code_store_free(ds_code_store *store);
/* A new descriptor of the user's directory, for reading; -1 where it has no files, or none can be opened. */
int ds_code_store_directory(const ds_code_store *store, uid_t uid);
/* Keep what lies in the sealed memory file, which stays the caller's, for this user. */
void ds_code_store_put(
        ds_code_store *store, uid_t uid, const uint8_t key[static DS_SHA256_BYTES], int fd, uint64_t bytes);
/* The user's file was used. */
void ds_code_store_used(ds_code_store *store, uid_t uid, const uint8_t key[static DS_SHA256_BYTES]);
void ds_code_store_figures(ds_code_store *store, struct ds_code_figures *ret);
