/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protocol between clients of `detshare-serve --listen` and the server, over a Unix stream socket
 *
 * Little-endian: a header of 16 bytes, then `bytes` of content. A client sends a request, reads its answer, and may
 * send the next one on the same connection.
 *
 *     magic   status  content
 *     "DSQ1"  0       a request: all inputs, one after the other, in the pack's order, of exactly their lengths
 *     "DSD1"  0       a question about the model; no content
 *     "DSA1"  OK      an answer: all outputs, one after the other; or lines of text about the model
 *     "DSA1"  other   a sentence
 *
 * After BAD, BUSY, FAILED and STOPS the server closes the connection.
 */
#pragma once

#include <stdint.h>

#define SV_INFER "DSQ1"
#define SV_DESCRIBE "DSD1"
#define SV_ANSWER "DSA1"

enum sv_status {
        SV_STATUS_OK = 0,
        SV_STATUS_BAD = 1,    /* not a request, or a wrong length */
        SV_STATUS_BUSY = 2,   /* too many connections, or the request has waited for too long */
        SV_STATUS_FAILED = 3, /* the device failed, and the server ends */
        SV_STATUS_STOPS = 4,  /* the server is ending */
};

struct sv_header {
        char magic[4];
        uint32_t status;
        uint64_t bytes;
};

_Static_assert(sizeof(struct sv_header) == 16, "the header has no gaps");
