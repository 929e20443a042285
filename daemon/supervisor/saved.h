/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file in which a supervisor leaves its state to the next one
 *
 * A memfd with one record behind another, each a length and a SavedRecord (proto/internal.proto), sealed when it is
 * complete. It is a file so that it can lie in the service manager's store with the files that it speaks of, and so
 * that nothing of it touches a disk. Records are small; what is large (a session's allocations) is many of them, so
 * that reading needs little memory and one session's damage is not another's. A small file that cannot change any more
 * lies in its record: thousands of them cost the service manager nothing.
 *
 * The reader trusts nothing: not the kind of file, not its seals, not a length, not a message. What cannot be a record
 * is said to be damaged and the reader goes on behind it; where a length cannot be right, what is behind is lost.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "internal.pb-c.h"

#define DS_SAVED_VERSION 2u
#define DS_SAVED_VERSION_OLDEST 1u       /* without files inside */
#define DS_SAVED_MAX (256u << 20)        /* bytes of the state */
#define DS_SAVED_INSIDE_MAX (64u * 1024) /* bytes of a file that lies inside */
#define DS_SAVED_INSIDE_ALL (128u << 20) /* bytes of all files that lie inside */

/* Contract codes */
#define DS_SAVED_E_END 1     /* no more records */
#define DS_SAVED_E_DAMAGED 2 /* this one is none */
#define DS_SAVED_E_FULL 3    /* no room for this one */

typedef struct ds_saved_writer ds_saved_writer;
typedef struct ds_saved_reader ds_saved_reader;

int ds_saved_writer_new(ds_saved_writer **ret);
/* NULL is fine; returns NULL. */
ds_saved_writer *ds_saved_writer_free(ds_saved_writer *writer);
/* 0, FULL, or -errno: nothing of it is written then. */
int ds_saved_write(ds_saved_writer *writer, const Detshare__Internal__SavedRecord *record);
/* Bytes of the state that the record takes. DS_SAVED_MAX + 1: it is too large for a record. */
uint64_t ds_saved_size(const Detshare__Internal__SavedRecord *record);
/* Where the next record comes, and back to there. */
uint64_t ds_saved_tell(const ds_saved_writer *writer);
int ds_saved_back_to(ds_saved_writer *writer, uint64_t at);
/* Nothing more is written: the file, sealed, the caller's. -errno. */
int ds_saved_finish(ds_saved_writer *writer, int *ret_fd);

/* fd stays the caller's and may be closed at once. 0, DAMAGED (no file of ours) or -errno. */
int ds_saved_reader_new(int fd, ds_saved_reader **ret);
ds_saved_reader *ds_saved_reader_free(ds_saved_reader *reader);
/* The next record, good until the next call on the reader. 0, END or DAMAGED. */
int ds_saved_next(ds_saved_reader *reader, const Detshare__Internal__SavedRecord **ret);

/* 1: a memory file whose bytes cannot change any more, and few enough to lie inside. */
int ds_saved_may_lie_inside(int fd, uint64_t *ret_bytes);
/* All of such a file into bytes. 0 or -errno. */
int ds_saved_read_file(int fd, uint8_t *bytes, size_t size);
/* The file again, the caller's: a sealed memory file. 0, DAMAGED (more than may lie inside) or -errno. */
int ds_saved_make_file(const Detshare__Internal__SavedContent *content, int *ret_fd);

static inline void ds_saved_writer_freep(ds_saved_writer **p)
{
        *p = ds_saved_writer_free(*p);
}
static inline void ds_saved_reader_freep(ds_saved_reader **p)
{
        *p = ds_saved_reader_free(*p);
}
