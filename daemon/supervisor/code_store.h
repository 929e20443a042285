/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled code on disk
 *
 * Compiling a program's PTX for a GPU takes up to seconds, and a program that starts again brings the same. What the
 * compiler made is kept in files (util/code_file.h) under the daemon's state directory, at most so many bytes and
 * files, the one that was used the longest ago going first. The helper reads them itself, through a descriptor of
 * the directory; only this process writes, and a thread of its own does, so that a slow disk keeps nobody waiting: what
 * it has no time for is not kept.
 *
 * What is believed: whoever can write the directory, which is refused when that is anybody but the daemon's user and
 * root; and the helper, whose word it is what a text became. A helper that an image has taken over can give other
 * users wrong code for as long as it lives; with this directory it can do so for as long as the file does. Delete
 * the directory's files, at any time, to begin anew.
 *
 * Two daemons may have the same directory: the second one only reads.
 */
#pragma once

#include <stdint.h>

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
/* Of the files, for reading; the store's. */
int ds_code_store_directory(const ds_code_store *store);
/* Keep what lies in the sealed memory file, which stays the caller's. */
void ds_code_store_put(ds_code_store *store, const uint8_t key[static DS_SHA256_BYTES], int fd, uint64_t bytes);
/* It was used. */
void ds_code_store_used(ds_code_store *store, const uint8_t key[static DS_SHA256_BYTES]);
void ds_code_store_figures(ds_code_store *store, struct ds_code_figures *ret);
