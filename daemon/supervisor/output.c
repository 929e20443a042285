/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/output.h"

#include <assert.h>
#include <string.h>

#include "supervisor/client.h"
#include "supervisor/session.h"
#include "util/alloc.h"
#include "util/macro.h"

#define CHUNK_MIN 4096u

/* A piece of text for standard output or standard error; later text is appended while there is room. */
struct ds_output_chunk {
        TAILQ_ENTRY(ds_output_chunk) link;
        struct ds_charge charge;
        int to_stderr;
        uint32_t at, end, room; /* unread text: bytes [at, end) of `text`, which has `room` bytes */
        uint8_t text[];
};

void ds_output_init(struct ds_output *output)
{
        *output = (struct ds_output){0};
        TAILQ_INIT(&output->chunks);
}

static void chunk_free(struct ds_output *output, struct ds_output_chunk *chunk)
{
        assert(output->held >= chunk->room);
        output->held -= chunk->room;
        output->unread -= chunk->end - chunk->at;
        TAILQ_REMOVE(&output->chunks, chunk, link);
        ds_charge_release(&chunk->charge);
        ds_free(chunk);
}

static void drop_all(struct ds_output *output)
{
        struct ds_output_chunk *chunk;

        while ((chunk = TAILQ_FIRST(&output->chunks)))
                chunk_free(output, chunk);
        assert(output->held == 0);
        assert(output->unread == 0);
}

void ds_output_deinit(struct ds_output *output)
{
        drop_all(output);
        output->reads = ds_free(output->reads);
        output->n_reads = 0;
}

void ds_output_leave(struct ds_output *output)
{
        ds_output_deinit(output);
}

/* --- text from the worker ----------------------------------------------------------------------------------------- */

static struct ds_output_chunk *chunk_try(struct ds_session *session, size_t room)
{
        struct ds_output *output = &session->output;
        struct ds_output_chunk *chunk;

        if (output->held + room > DS_OUTPUT_MAX)
                return NULL;
        chunk = ds_alloc0(1, sizeof(*chunk) + room);
        if (!chunk)
                return NULL;
        if (ds_charge_take(&chunk->charge, session->user, DS_CHARGE_HOST_BYTES, room)) {
                ds_free(chunk);
                return NULL;
        }
        chunk->room = (uint32_t)room;
        output->held += room;
        TAILQ_INSERT_TAIL(&output->chunks, chunk, link);
        return chunk;
}

/* Allocates a chunk. Drops older text if that is necessary. NULL: there is no room even without older text. */
static struct ds_output_chunk *chunk_new(struct ds_session *session, size_t room)
{
        struct ds_output *output = &session->output;
        struct ds_output_chunk *chunk = chunk_try(session, room), *oldest;

        while (!chunk && (oldest = TAILQ_FIRST(&output->chunks))) {
                output->dropped += oldest->end - oldest->at;
                chunk_free(output, oldest);
                chunk = chunk_try(session, room);
        }
        return chunk;
}

static size_t chunk_fill(struct ds_output *output, struct ds_output_chunk *chunk, const uint8_t *text, size_t size)
{
        size_t n = DS_MIN(size, (size_t)(chunk->room - chunk->end));

        memcpy(chunk->text + chunk->end, text, n);
        chunk->end += (uint32_t)n;
        output->unread += n;
        return n;
}

static void answer_ready(struct ds_session *session);

void ds_output_add(struct ds_session *session, int to_stderr, const uint8_t *text, size_t size)
{
        struct ds_output *output = &session->output;
        struct ds_output_chunk *chunk = TAILQ_LAST(&output->chunks, ds_output_chunks);
        size_t n = 0;

        assert(size <= DS_OUTPUT_PAGE_MAX);
        to_stderr = to_stderr != 0;
        output->total += size;
        if (chunk && chunk->to_stderr == to_stderr)
                n = chunk_fill(output, chunk, text, size);
        if (n < size) {
                chunk = chunk_new(session, DS_MAX(size - n, (size_t)CHUNK_MIN));
                if (chunk) {
                        chunk->to_stderr = to_stderr;
                        chunk_fill(output, chunk, text + n, size - n);
                } else {
                        output->dropped += size - n;
                }
        }
        answer_ready(session);
}

/* --- reads by the client ------------------------------------------------------------------------------------------ */

/* Takes text for one of the two outputs from the front, at most one page. */
static size_t take_page(struct ds_output *output, uint8_t *page, int *ret_to_stderr)
{
        struct ds_output_chunk *chunk = TAILQ_FIRST(&output->chunks);
        int kind = chunk ? chunk->to_stderr : 0;
        size_t size = 0;

        while (chunk && chunk->to_stderr == kind && size < DS_OUTPUT_PAGE_MAX) {
                size_t n = DS_MIN((size_t)(chunk->end - chunk->at), DS_OUTPUT_PAGE_MAX - size);

                memcpy(page + size, chunk->text + chunk->at, n);
                size += n;
                chunk->at += (uint32_t)n;
                output->unread -= n;
                if (chunk->at < chunk->end)
                        break;
                chunk_free(output, chunk);
                chunk = TAILQ_FIRST(&output->chunks);
        }
        *ret_to_stderr = kind;
        return size;
}

static void answer(struct ds_session *session, uint64_t request_id)
{
        /* static, because it is large: there is one thread, and the reply is packed before the next call */
        static uint8_t page[DS_OUTPUT_PAGE_MAX];
        struct ds_output *output = &session->output;
        Detshare__OutputReply body = DETSHARE__OUTPUT_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        int to_stderr;

        body.text.len = take_page(output, page, &to_stderr);
        body.text.data = page;
        body.to_stderr = to_stderr;
        body.next = output->total - output->unread;
        body.dropped = output->dropped;
        output->dropped = 0;
        reply.result_case = DETSHARE__REPLY__RESULT_OUTPUT_READ;
        reply.output_read = &body;
        ds_client_reply(session->client, request_id, &reply, NULL, 0);
}

/* Answers reads that wait for no more bytes than are available. An answer may close the session's client, which
 * drops all its reads. */
static void answer_ready(struct ds_session *session)
{
        struct ds_output *output = &session->output;
        uint32_t i = 0;

        while (session->client && i < output->n_reads) {
                struct ds_output_read read = output->reads[i];

                if (read.upto > output->total) {
                        i++;
                        continue;
                }
                output->n_reads--;
                memmove(&output->reads[i], &output->reads[i + 1], (output->n_reads - i) * sizeof(read));
                answer(session, read.request_id);
        }
}

/* Queues a read until `upto` bytes are available. Returns 0, or the request is answered. */
static int keep_read(struct ds_session *session, uint64_t request_id, uint64_t upto)
{
        struct ds_output *output = &session->output;

        if (output->n_reads == DS_OUTPUT_READS_MAX) {
                ds_client_answer(session->client, request_id, DETSHARE__STATUS__QUOTA,
                        "the session has %u open reads, the most permitted", DS_OUTPUT_READS_MAX);
                return -1;
        }
        if (!output->reads)
                output->reads = ds_alloc0(DS_OUTPUT_READS_MAX, sizeof(*output->reads));
        if (!output->reads) {
                ds_client_answer(
                        session->client, request_id, DETSHARE__STATUS__INTERNAL, "the daemon is out of memory");
                return -1;
        }
        output->reads[output->n_reads++] = (struct ds_output_read){.request_id = request_id, .upto = upto};
        return 0;
}

void ds_output_read(struct ds_session *session, uint64_t request_id, uint64_t upto)
{
        uint64_t printed = session->page.map ? atomic_load(&session->page.map->output) : 0;

        /* a read never waits for more bytes than have been printed */
        upto = DS_MIN(upto, printed);
        if (upto <= session->output.total)
                answer(session, request_id);
        else
                (void)keep_read(session, request_id, upto);
}

void ds_output_worker_lost(struct ds_session *session, uint64_t printed)
{
        struct ds_output *output = &session->output;

        if (printed > output->total) {
                output->dropped += printed - output->total;
                output->total = printed;
        }
        answer_ready(session);
}

/* --- handover to the next daemon ---------------------------------------------------------------------------------- */

int ds_output_show(const struct ds_output *output,
        int (*fn)(void *user, int to_stderr, const uint8_t *text, size_t size), void *user)
{
        const struct ds_output_chunk *chunk;
        int r = 0;

        TAILQ_FOREACH(chunk, &output->chunks, link)
        for (uint32_t at = chunk->at; r >= 0 && at < chunk->end; at += DS_OUTPUT_PAGE_MAX)
                r = fn(user, chunk->to_stderr, chunk->text + at, DS_MIN(chunk->end - at, DS_OUTPUT_PAGE_MAX));
        return r < 0 ? r : 0;
}

void ds_output_restore(struct ds_output *output, uint64_t total, uint64_t dropped, uint64_t unread)
{
        assert(TAILQ_EMPTY(&output->chunks));
        output->total = total - DS_MIN(total, unread);
        output->dropped = dropped;
}
