/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file in which a supervisor passes its state to the next one
 *
 * A memfd that holds a sequence of records, each a length and a SavedRecord (proto/internal.proto), and is sealed when
 * complete. As a file it can be kept in the service manager's store, next to the files that it names, and never touches
 * a disk. Records are small: large lists (a session's allocations) are split into many records, so that reading needs
 * little memory and damage to one session does not affect another. A small immutable file is embedded in its record:
 * thousands of such files would otherwise fill the store.
 *
 * The reader trusts no part of its input: not the type of the file, its seals, a length or a message. An invalid record
 * is reported as damaged, and reading continues behind it; after an invalid length the rest of the file is lost.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "internal.pb-c.h"

#define DS_SAVED_VERSION 2u
#define DS_SAVED_VERSION_OLDEST 1u       /* oldest version that can be read: without embedded files */
#define DS_SAVED_MAX (256u << 20)        /* most bytes of the state */
#define DS_SAVED_INSIDE_MAX (64u * 1024) /* most bytes of one embedded file */
#define DS_SAVED_INSIDE_ALL (128u << 20) /* most bytes of all embedded files */

/* Positive return codes of the functions below */
#define DS_SAVED_E_END 1     /* the reader has no more records */
#define DS_SAVED_E_DAMAGED 2 /* the record is invalid */
#define DS_SAVED_E_FULL 3    /* the state has no room for the record */

typedef struct ds_saved_writer ds_saved_writer;
typedef struct ds_saved_reader ds_saved_reader;

int ds_saved_writer_new(ds_saved_writer **ret);
/* Frees the writer and its file. NULL is allowed; returns NULL. */
ds_saved_writer *ds_saved_writer_free(ds_saved_writer *writer);
/* Appends a record. Returns 0, DS_SAVED_E_FULL or -errno; on an error, nothing of the record is written. */
int ds_saved_write(ds_saved_writer *writer, const Detshare__Internal__SavedRecord *record);
/* Bytes that the record would take in the state. DS_SAVED_MAX + 1: the record is too large. */
uint64_t ds_saved_size(const Detshare__Internal__SavedRecord *record);
/* ds_saved_tell() returns the position of the next record; ds_saved_back_to() removes all records from such a
 * position on. */
uint64_t ds_saved_tell(const ds_saved_writer *writer);
int ds_saved_back_to(ds_saved_writer *writer, uint64_t at);
/* Seals the file and returns it; the caller owns it. Returns 0 or -errno. */
int ds_saved_finish(ds_saved_writer *writer, int *ret_fd);

/* Opens a state file for reading. The caller keeps fd and may close it at once. Returns 0, DS_SAVED_E_DAMAGED (not a
 * state file) or -errno. */
int ds_saved_reader_new(int fd, ds_saved_reader **ret);
ds_saved_reader *ds_saved_reader_free(ds_saved_reader *reader);
/* Returns the next record, which is valid until the next call on the reader. Returns 0, DS_SAVED_E_END or
 * DS_SAVED_E_DAMAGED. */
int ds_saved_next(ds_saved_reader *reader, const Detshare__Internal__SavedRecord **ret);

/* Whether the file is a memory file of a fixed size, with these seals too, that is small enough to be embedded. */
int ds_saved_may_lie_inside(int fd, int more_seals, uint64_t *ret_bytes);
/* Reads the whole file into bytes. 0 or -errno. */
int ds_saved_read_file(int fd, uint8_t *bytes, size_t size);
/* Creates the embedded file again: a memory file of a fixed size, with these seals too, that the caller owns. Returns
 * 0, DS_SAVED_E_DAMAGED (larger
 * than allowed) or -errno. */
int ds_saved_make_file(const Detshare__Internal__SavedContent *content, int more_seals, int *ret_fd);

static inline void ds_saved_writer_freep(ds_saved_writer **p)
{
        *p = ds_saved_writer_free(*p);
}
static inline void ds_saved_reader_freep(ds_saved_reader **p)
{
        *p = ds_saved_reader_free(*p);
}
