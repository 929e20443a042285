/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that a session's kernels printed (printf), kept until the client reads it
 *
 * The worker sends text when kernels end; the client requests it at the points where CUDA would print it. Positions
 * count bytes since the session began. The completion page's `output` holds the number of bytes printed, so a client
 * knows how much it has not read.
 *
 * A session keeps at most DS_OUTPUT_MAX bytes, charged to its user. Beyond that, or beyond the user's limit, the oldest
 * text is dropped and counted, as CUDA's own buffer overwrites text that was not flushed. Text is freed when it is
 * read. Text that is lost with a dead worker counts as dropped, so that no read waits for it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "detshare.pb-c.h"
#include "supervisor/charge.h"

struct ds_output_chunk;
struct ds_session;

#define DS_OUTPUT_MAX (16u << 20) /* most bytes that a session keeps; the driver's own buffer has 8.3 MiB on an H200 */
#define DS_OUTPUT_PAGE_MAX 49152u /* most bytes per reply to the client, and per message of the worker */
#define DS_OUTPUT_READS_MAX 64u   /* most unanswered reads per session */

struct ds_output_read {
        uint64_t request_id, upto;
};

TAILQ_HEAD(ds_output_chunks, ds_output_chunk);

/* Part of struct ds_session. */
struct ds_output {
        struct ds_output_chunks chunks;
        uint64_t held;                /* bytes of all chunks, including unused room */
        uint64_t total;               /* bytes printed so far, as far as the supervisor knows */
        uint64_t unread;              /* bytes of text in the chunks */
        uint64_t dropped;             /* bytes of text dropped since the last reply */
        struct ds_output_read *reads; /* reads that wait for more text, oldest first */
        uint32_t n_reads;
};

void ds_output_init(struct ds_output *output);
void ds_output_deinit(struct ds_output *output);

/* Adds text that kernels printed, as the worker sent it. */
void ds_output_add(struct ds_session *session, int to_stderr, const uint8_t *text, size_t size);
/* Answers the client's read when `upto` bytes are available, or when the worker has died. */
void ds_output_read(struct ds_session *session, uint64_t request_id, uint64_t upto);
/* Called after a worker's death. `printed` is the number in the dead worker's page: bytes up to it that have not
 * arrived count as dropped. */
void ds_output_worker_lost(struct ds_session *session, uint64_t printed);
/*
 * Passes the unread text to fn, from the front, in pieces of at most DS_OUTPUT_PAGE_MAX bytes. A negative return of fn
 * ends the walk and is returned.
 */
int ds_output_show(const struct ds_output *output,
        int (*fn)(void *user, int to_stderr, const uint8_t *text, size_t size), void *user);
/* Sets the counters of a restored session. The caller then adds the unread text, of `unread` bytes, with
 * ds_output_add(). */
void ds_output_restore(struct ds_output *output, uint64_t total, uint64_t dropped, uint64_t unread);
/* Drops the reads of a client that is gone. */
void ds_output_leave(struct ds_output *output);
