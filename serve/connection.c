/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/connection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "util/alloc.h"
#include "util/macro.h"

#define TURN_BYTES ((size_t)1 << 20) /* bytes that one connection may transfer before the next one is served */

uint64_t sv_now_ms(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- what is served ----------------------------------------------------------------------------------------------- */

static void describe_list(FILE *to, const char *what, const struct sv_tensor *list, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++) {
                fprintf(to, "%s %s %s ", what, list[i].name, sv_type_name(list[i].type));
                for (uint32_t k = 0; k < list[i].n_dims; k++)
                        fprintf(to, "%s%" PRIu64, k ? "," : "", list[i].dims[k]);
                fprintf(to, " %" PRIu64 "\n", list[i].bytes);
        }
}

int sv_subject_open(struct sv_subject *subject, const struct sv_pack *pack, struct sv_why *why)
{
        FILE *to = fmemopen(subject->description, sizeof(subject->description), "w");

        if (!to)
                return sv_fail(why, "out of memory");
        subject->model = pack->model;
        subject->in = sv_pack_input_bytes(pack);
        subject->out = sv_pack_output_bytes(pack);
        fprintf(to, "model %s\nbatch %" PRIu64 "\n", pack->model, pack->batch);
        describe_list(to, "input", pack->inputs, pack->n_inputs);
        describe_list(to, "output", pack->outputs, pack->n_outputs);
        return fclose(to) ? sv_fail(why, "the model's inputs and outputs are too many words") : 0;
}

/* --- its life ----------------------------------------------------------------------------------------------------- */

static void expect_header(struct sv_connection *connection)
{
        connection->state = SV_READ_HEADER;
        connection->at = 0;
        connection->since_ms = sv_now_ms();
}

void sv_connection_begin(struct sv_connection *connection, int fd, uid_t uid)
{
        *connection = (struct sv_connection){.fd = fd, .uid = uid};
        expect_header(connection);
}

void sv_connection_end(struct sv_connection *connection)
{
        (void)ds_close(connection->fd);
        connection->buffer = ds_free(connection->buffer);
        connection->fd = -1;
}

bool sv_connection_is_idle(const struct sv_connection *connection)
{
        return connection->state == SV_READ_HEADER && !connection->at;
}

/* --- answers ------------------------------------------------------------------------------------------------------ */

void sv_connection_answer(struct sv_connection *connection, enum sv_status status, const void *content, uint64_t bytes)
{
        connection->header = (struct sv_header){.status = status, .bytes = bytes};
        memcpy(connection->header.magic, SV_ANSWER, sizeof(connection->header.magic));
        connection->content = content;
        connection->bytes = bytes;
        connection->at = 0;
        connection->state = SV_ANSWERING;
        connection->since_ms = sv_now_ms();
        connection->ends = status != SV_STATUS_OK;
}

void sv_connection_refuse(struct sv_connection *connection, enum sv_status status, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        (void)vsnprintf(connection->sentence, sizeof(connection->sentence), format, args);
        va_end(args);
        sv_connection_answer(connection, status, connection->sentence, strlen(connection->sentence));
}

/* Sends as much as the socket takes without waiting. */
static void send_some(struct sv_connection *connection)
{
        const uint64_t head = sizeof(connection->header), all = head + connection->bytes;

        while (connection->at < all) {
                const uint8_t *from = connection->at < head ? (const uint8_t *)&connection->header + connection->at
                                                            : connection->content + (connection->at - head);
                const uint64_t left = (connection->at < head ? head : all) - connection->at;
                ssize_t n = send(connection->fd, from, left,
                        MSG_NOSIGNAL | MSG_DONTWAIT | (connection->at < head ? MSG_MORE : 0));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                        return;
                if (n < 0) {
                        sv_connection_end(connection);
                        return;
                }
                connection->at += (uint64_t)n;
        }
        if (connection->ends)
                sv_connection_end(connection);
        else
                expect_header(connection);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static enum sv_said take_request(struct sv_connection *connection)
{
        connection->state = SV_WAITING;
        connection->since_ms = sv_now_ms();
        return SV_SAID_REQUEST;
}

static enum sv_said bad(struct sv_connection *connection, const struct sv_subject *subject, const char *what)
{
        sv_connection_refuse(connection, SV_STATUS_BAD,
                "%s; a request of %s has %" PRIu64 " bytes of input behind its header", what, subject->model,
                subject->in);
        return SV_SAID_BAD;
}

static enum sv_said take_header(struct sv_connection *connection, const struct sv_subject *subject)
{
        const struct sv_header *header = &connection->header;
        const bool describe = !memcmp(header->magic, SV_DESCRIBE, sizeof(header->magic));

        if (!describe && memcmp(header->magic, SV_INFER, sizeof(header->magic)) != 0)
                return bad(connection, subject, "this is no request");
        if (header->status)
                return bad(connection, subject, "a request has status 0");
        if (header->bytes != (describe ? 0 : subject->in))
                return bad(connection, subject, "the length is wrong");
        if (describe) {
                sv_connection_answer(connection, SV_STATUS_OK, subject->description, strlen(subject->description));
                return SV_SAID_NOTHING;
        }
        if (!connection->buffer && !(connection->buffer = ds_alloc(DS_MAX(subject->in, subject->out)))) {
                sv_connection_refuse(connection, SV_STATUS_BUSY, "out of memory");
                return SV_SAID_NOTHING;
        }
        connection->at = 0;
        connection->bytes = subject->in;
        connection->state = SV_READ_CONTENT;
        return subject->in ? SV_SAID_NOTHING : take_request(connection);
}

static ssize_t receive(struct sv_connection *connection, void *to, uint64_t bytes)
{
        ssize_t n;

        do
                n = recv(connection->fd, to, DS_MIN(bytes, TURN_BYTES), MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
                sv_connection_end(connection);
        return n;
}

static enum sv_said read_some(struct sv_connection *connection, const struct sv_subject *subject)
{
        const bool head = connection->state == SV_READ_HEADER;
        uint8_t *to = head ? (uint8_t *)&connection->header : connection->buffer;
        const uint64_t all = head ? sizeof(connection->header) : connection->bytes;
        ssize_t n = receive(connection, to + connection->at, all - connection->at);

        if (n <= 0)
                return SV_SAID_NOTHING;
        if (head && !connection->at)
                connection->since_ms = sv_now_ms();
        connection->at += (uint64_t)n;
        if (connection->at < all)
                return SV_SAID_NOTHING;
        return head ? take_header(connection, subject) : take_request(connection);
}

enum sv_said sv_connection_go_on(struct sv_connection *connection, const struct sv_subject *subject)
{
        enum sv_said said = SV_SAID_NOTHING;

        if (connection->state == SV_READ_HEADER || connection->state == SV_READ_CONTENT)
                said = read_some(connection, subject);
        /* most answers fit: no need to ask whether they do */
        if (connection->fd >= 0 && connection->state == SV_ANSWERING)
                send_some(connection);
        return said;
}
