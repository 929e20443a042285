/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client's connection: reads requests and sends answers
 *
 * Reads a request as its bytes arrive, refuses an invalid one, and sends an answer as the socket accepts it
 * (serve/protocol.h). Never blocks, and knows nothing of other connections, threads or the GPU. While an instance or
 * the desk has the request (SV_WAITING), nothing here touches the connection.
 *
 * A client decides how fast it sends and reads. The caller bounds what that may cost, by `since_ms`.
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
        SV_WAITING, /* an instance has the request, or will have it */
        SV_ANSWERING,
};

struct sv_connection {
        int fd; /* -1: there is none */
        uid_t uid;
        enum sv_connection_state state;
        bool ends;       /* close the connection after the answer */
        bool gone;       /* the client, while the request runs */
        bool queued;     /* in SV_WAITING: no instance has it yet; under the lock of serve/desk.h */
        unsigned polled; /* index in the list of the loop; 0: in none */
        /* begin of the state; in SV_READ_HEADER: end of the last answer, or time of the first byte */
        uint64_t since_ms;
        uint64_t arrival;   /* time of the last byte, ns */
        uint64_t at, bytes; /* bytes of the message that is being read or written */
        struct sv_header header;
        uint8_t *buffer; /* content; NULL until a request is valid */
        char sentence[SV_WHY_MAX];
        const uint8_t *content; /* bytes of the answer */
        TAILQ_ENTRY(sv_connection) link;
};

TAILQ_HEAD(sv_connections, sv_connection);

/* Lengths of requests and answers of the model, and the text about it. */
struct sv_subject {
        const char *model;
        uint64_t in, out; /* bytes */
        char description[16384];
};

enum sv_said {
        SV_SAID_NOTHING, /* event that the caller handles */
        SV_SAID_REQUEST, /* the input is complete in the buffer; the request waits from now on */
        SV_SAID_BAD,     /* the request was refused */
};

/* ms of CLOCK_MONOTONIC. */
uint64_t sv_now_ms(void);

int sv_subject_open(struct sv_subject *subject, const struct sv_pack *pack, struct sv_why *why);

void sv_connection_begin(struct sv_connection *connection, int fd, uid_t uid);
/* May be called twice. */
void sv_connection_end(struct sv_connection *connection);
/* Whether no byte of a request has arrived. */
bool sv_connection_is_idle(const struct sv_connection *connection);

/* Reads or sends as much as possible without blocking. Closes the connection when the client has. */
enum sv_said sv_connection_go_on(struct sv_connection *connection, const struct sv_subject *subject);
/* `content` belongs to the caller and stays valid until it is sent. A status other than OK closes the connection. */
void sv_connection_answer(struct sv_connection *connection, enum sv_status status, const void *content, uint64_t bytes);
__attribute__((format(printf, 3, 4))) void sv_connection_refuse(
        struct sv_connection *connection, enum sv_status status, const char *format, ...);
