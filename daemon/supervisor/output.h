/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session's kernels printed, until the client reads it
 *
 * The worker sends text as kernels end; the client asks for it where CUDA would print it. Positions count bytes from
 * the session's beginning, and the page's `output` says how many have been printed, so a client knows what it has not
 * read. A session keeps at most DS_OUTPUT_MAX bytes, charged to its user: when that is full (or the user's limit
 * reached) the oldest is dropped and counted, as CUDA's own buffer overwrites what nobody flushed. What is read is
 * forgotten. Text that a worker took with it when it died counts as dropped, so that nobody waits for it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "detshare.pb-c.h"
#include "supervisor/charge.h"

struct ds_output_chunk;
struct ds_session;

#define DS_OUTPUT_MAX \
        (16u << 20) /* bytes that a session keeps: more than the driver keeps itself, 8.3 MiB on an H200 */
#define DS_OUTPUT_PAGE_MAX 49152u /* of one reply, and of one message of the worker */
#define DS_OUTPUT_READS_MAX 64u   /* unanswered ones of a session */

struct ds_output_read {
        uint64_t request_id, upto;
};

TAILQ_HEAD(ds_output_chunks, ds_output_chunk);

/* Part of a session. */
struct ds_output {
        struct ds_output_chunks chunks;
        uint64_t held;                /* bytes of the chunks, their room included */
        uint64_t total;               /* printed so far, as far as is known here */
        uint64_t unread;              /* bytes in the chunks */
        uint64_t dropped;             /* since the last reply */
        struct ds_output_read *reads; /* that wait for more, oldest first */
        uint32_t n_reads;
};

void ds_output_init(struct ds_output *output);
void ds_output_deinit(struct ds_output *output);

/* The worker's text. */
void ds_output_add(struct ds_session *session, int to_stderr, const uint8_t *text, size_t size);
/* The client asks: it is answered when `upto` bytes are here, or when the worker has died. */
void ds_output_read(struct ds_session *session, uint64_t request_id, uint64_t upto);
/* The worker is gone and its page said that this much was printed: what has not come by now never will. */
void ds_output_worker_lost(struct ds_session *session, uint64_t printed);
/*
 * What waits to be read, from the front, in pieces of at most DS_OUTPUT_PAGE_MAX bytes. A negative return ends the walk
 * and is passed on.
 */
int ds_output_show(const struct ds_output *output,
        int (*fn)(void *user, int to_stderr, const uint8_t *text, size_t size), void *user);
/* A session of an earlier life: what waits comes next, by ds_output_add. unread: bytes of it. */
void ds_output_restore(struct ds_output *output, uint64_t total, uint64_t dropped, uint64_t unread);
/* The client is gone. */
void ds_output_leave(struct ds_output *output);
