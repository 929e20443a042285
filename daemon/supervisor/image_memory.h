/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results of image checks that the supervisor remembers
 *
 * A request to a helper wakes a process that sleeps, and its answer wakes the supervisor again: 70 of the 178 us that
 * the load of a small module takes (sim, 2 processors). So the supervisor remembers results for images that it can
 * recognise without interpreting them, and passes such a result on without a helper:
 *
 *   - a small image in a sealed memory file, if all its bytes equal those of an earlier one;
 *   - an image in a disk file, if the file's inode, size and times are those of an earlier one, and the file has not
 *     changed for two seconds. Reading them makes no call to a user's process (util/foreign.h).
 *
 * A result serves only the user whose helper made it, for the same options. The number of results and their bytes are
 * bounded, for all users together, and charged to none, like the caches of the helpers. While the memory is full, a
 * user that has a quarter of the results replaces only its own; a user with fewer replaces the results that nobody has
 * used for longest. If a result is lost, the helper makes it again. Results that the helper remembers, too
 * (helper/known.h), are the same memory files.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ds_helper_job;
struct ds_helper_result;

#define DS_IMAGE_MEMORY_FILES 1024u                 /* most results; fewer if the daemon may open few files */
#define DS_IMAGE_MEMORY_BYTES ((uint64_t)128 << 20) /* most bytes of all results and images */
#define DS_IMAGE_MEMORY_SHARE 4u                    /* 1/DS_IMAGE_MEMORY_SHARE of the results is one user's share */
#define DS_IMAGE_MEMORY_SOURCE_MAX (64u << 10)      /* largest image that is recognised by its bytes */
#define DS_IMAGE_MEMORY_RESULT_MAX (4u << 20)       /* largest file of a result */

typedef struct ds_image_memory ds_image_memory;

/* Key of an image. Equal keys have equal bytes. */
struct ds_image_key {
        uint64_t dev, ino, file_bytes, mtime_ns, ctime_ns; /* disk file; 0: the bytes identify the image */
        uint64_t content;                                  /* hash of the bytes; 0 for a disk file */
        uint64_t offset, bytes;
        uint32_t uid, max_registers, optimization, forms;
};

/* Makes a memory for at most max_files results. Returns 0 or -ENOMEM. */
int ds_image_memory_new(size_t max_files, ds_image_memory **ret);
ds_image_memory *ds_image_memory_free(ds_image_memory *memory);
/* Number of remembered results; each has one open file. */
size_t ds_image_memory_count(const ds_image_memory *memory);
/* Number of results that the daemon's limit of open files leaves room for. */
size_t ds_image_memory_room(void);
/* Identifies the image of a job. Returns 1, or 0 if its result is not to be remembered. */
int ds_image_memory_identify(ds_image_memory *memory, const struct ds_helper_job *job, struct ds_image_key *ret);
/* Looks for the result of the image that was identified last. Returns 1 and *ret, whose fd the caller closes. */
int ds_image_memory_find(ds_image_memory *memory, const struct ds_image_key *key, struct ds_helper_result *ret);
/* Remembers the result of a job, whose image had this key before the helper read it. */
void ds_image_memory_add(ds_image_memory *memory, const struct ds_helper_job *job, const struct ds_image_key *key,
        const struct ds_helper_result *result);
