/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache of checked images
 *
 * Every process of a program brings the same images, most of them from the same files. The result of a check is a
 * sealed memory file that nobody can change, so the next process of the same user gets the same file. It is found
 *
 *   - by the image's place, without reading it: the same range of the same unchanged file. Its times show that it has
 *     not changed. The owner cannot set them back, but a file system of the user's own can forge them, which deceives
 *     only that user. A file that changed a moment ago is not trusted, since the next change may get the same time;
 *   - by its own bytes, if it comes in a sealed file: that file is kept, and the bytes are compared;
 *   - by its result, wherever it came from: the same bytes, compared, not only hashed.
 *
 * A client with the same file also shares the module loaded in the worker, which identifies it by its inode. Two users
 * never get the same file, since each has a helper of its own (supervisor/helper_link.h). Between users the worker
 * compares bytes, so a compromised helper cannot get its code used for another user's module. The number and bytes of
 * files kept here are limited; the least recently used one is evicted.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "helper/check.h"

typedef struct ds_known ds_known;

/* Place of an image, and the options of its request. Compared as bytes. */
struct ds_known_origin {
        uint64_t dev, ino, file_bytes, mtime_ns, ctime_ns, offset, bytes;
        uint32_t uid, cc, max_registers, optimization;
        uint32_t simulated, force_ptx;
};

int ds_known_new(uint64_t max_bytes, size_t max_files, ds_known **ret);
ds_known *ds_known_free(ds_known *known);
/* Fills in the place of an image from its file's attributes. Returns 0: the image may be remembered; 1: it may not.
 * now_ns: CLOCK_REALTIME. */
int ds_known_identify(int fd, uint64_t now_ns, struct ds_known_origin *origin);
/* Identifies an image by its bytes, independent of its place. */
void ds_known_identify_bytes(const ds_known *known, const void *bytes, struct ds_known_origin *origin);
/* Finds the result for an image. bytes: the image's bytes if they identify it, else NULL. Returns 1: *result is
 * filled, and its fd is a new descriptor of the file; otherwise 0. */
int ds_known_find(
        ds_known *known, const struct ds_known_origin *origin, const void *bytes, struct ds_check_result *result);
/*
 * Records *result (status 0) for the image of that origin (NULL: unknown). sealed: file with the image's bytes if they
 * identify it, kept for later comparisons; else -1. If an equal result exists, result->fd is closed and replaced by
 * that result's file. If there is no memory, nothing is recorded.
 */
void ds_known_add(ds_known *known, const struct ds_known_origin *origin, int sealed, struct ds_check_result *result);
uint64_t ds_known_bytes(const ds_known *known);

static inline void ds_known_freep(ds_known **p)
{
        *p = ds_known_free(*p);
}
