/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client's connection: what it says, and what it is told
 *
 * Reads a request as bytes come, refuses what is none, sends an answer as the socket takes it (serve/protocol.h). Never
 * waits, and knows nothing of other connections, of threads or of the GPU: while a request is with others (SV_WAITING)
 * the connection is not to be touched here.
 *
 * A client decides how fast it speaks and whether it reads; what that may cost is the caller's to bound, by `since_ms`.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "serve/pack.h"
#include "serve/protocol.h"
#include "serve/why.h"

enum sv_connection_state {
        SV_READ_HEADER,
        SV_READ_CONTENT,
        SV_WAITING, /* an instance has it, or will: the connection is not touched */
        SV_ANSWERING,
};

struct sv_connection {
        int fd; /* -1: there is none */
        uid_t uid;
        enum sv_connection_state state;
        bool ends;          /* after the answer */
        bool gone;          /* the client, while the request runs */
        bool queued;        /* of SV_WAITING: no instance has it yet; under the lock of serve/desk.h */
        unsigned polled;    /* the loop's: where in its list, 0: nowhere */
        uint64_t since_ms;  /* of the state; SV_READ_HEADER: since when nothing came, or of the first byte */
        uint64_t arrival;   /* ns, of the last byte */
        uint64_t at, bytes; /* of what is being read or written */
        struct sv_header header;
        uint8_t *buffer; /* content; NULL until a request is right */
        char sentence[SV_WHY_MAX];
        const uint8_t *content; /* of the answer */
        TAILQ_ENTRY(sv_connection) link;
};

TAILQ_HEAD(sv_connections, sv_connection);

/* What is served: how long requests and answers are, and what is said of it. */
struct sv_subject {
        const char *model;
        uint64_t in, out; /* bytes */
        char description[16384];
};

enum sv_said {
        SV_SAID_NOTHING, /* that needs anybody else */
        SV_SAID_REQUEST, /* its input is in the buffer; it waits from now on */
        SV_SAID_BAD,     /* it was refused */
};

/* Of CLOCK_MONOTONIC. */
uint64_t sv_now_ms(void);

int sv_subject_open(struct sv_subject *subject, const struct sv_pack *pack, struct sv_why *why);

void sv_connection_begin(struct sv_connection *connection, int fd, uid_t uid);
/* Twice is fine. */
void sv_connection_end(struct sv_connection *connection);
/* Nothing has come of a request yet. */
bool sv_connection_is_idle(const struct sv_connection *connection);

/* What can be done without waiting, of reading or sending. Ends the connection when the client has. */
enum sv_said sv_connection_go_on(struct sv_connection *connection, const struct sv_subject *subject);
/* `content` stays the caller's until it is sent. What is not OK ends the connection. */
void sv_connection_answer(struct sv_connection *connection, enum sv_status status, const void *content, uint64_t bytes);
__attribute__((format(printf, 3, 4))) void sv_connection_refuse(
        struct sv_connection *connection, enum sv_status status, const char *format, ...);
