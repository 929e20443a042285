/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What images became before
 *
 * Every process of a program brings the same images, most of them out of the same files. What one became is a sealed
 * memory file that nobody can change, so the next process of the same user is given the same file: it is found
 *
 *   - by where the image lies, without reading it: the same bytes of the same file, which has not changed since. A file
 *     says that it has not by its times, which its owner cannot set back but a file system of the user's own can forge:
 *     that fools only the user itself. A file that changed a moment ago is not believed, because the next change may
 *     get the same time;
 *   - by its own bytes, where it comes in a sealed file: the file is kept, and the bytes are compared;
 *   - by what it became, wherever it came from: the same bytes, compared, not only hashed.
 *
 * Who gets the same file also finds it loaded in the worker already, which knows it by its inode. No two users get the
 * same file, since each has a helper of its own (supervisor/helper_link.h): between users the worker compares bytes, so
 * that a helper that was taken over cannot have its code taken for another user's. The files kept here
 * are bounded in bytes and number; the one that was used the longest ago goes first.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "helper/check.h"

typedef struct ds_known ds_known;

/* Where an image lies and what was wanted of it. Compared as bytes. */
struct ds_known_origin {
        uint64_t dev, ino, file_bytes, mtime_ns, ctime_ns, offset, bytes;
        uint32_t uid, cc, max_registers, optimization;
        uint32_t simulated, force_ptx;
};

int ds_known_new(uint64_t max_bytes, size_t max_files, ds_known **ret);
ds_known *ds_known_free(ds_known *known);
/* Fills in what the file says of itself. 0: it may be remembered; 1: it may not. now_ns is CLOCK_REALTIME's. */
int ds_known_identify(int fd, uint64_t now_ns, struct ds_known_origin *origin);
/* Fills in what an image's bytes say: it is found wherever it lies. */
void ds_known_identify_bytes(const ds_known *known, const void *bytes, struct ds_known_origin *origin);
/* bytes: those of the image when it is identified by them, else NULL. 1 with *result filled, its fd a new descriptor of
 * the file; else 0. */
int ds_known_find(
        ds_known *known, const struct ds_known_origin *origin, const void *bytes, struct ds_check_result *result);
/*
 * The image of that origin (NULL: nobody knows where it came from) became *result, of status 0. sealed: the file with
 * its bytes when it is identified by them, which is kept to compare the next one with; else -1. When other images
 * became the same, result->fd is closed and replaced by theirs. What finds no memory is not remembered.
 */
void ds_known_add(ds_known *known, const struct ds_known_origin *origin, int sealed, struct ds_check_result *result);
uint64_t ds_known_bytes(const ds_known *known);

static inline void ds_known_freep(ds_known **p)
{
        *p = ds_known_free(*p);
}
