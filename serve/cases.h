/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases: a pack's inputs with what its framework makes of them
 *
 * Two questions are asked of an output. Is it right: within the tolerance that the pack states, element by element,
 * from what the framework computes? And is it the same: byte by byte what the first run of this program gave for that
 * case, whoever else had the GPU meanwhile? The first is about the compiler that made the pack, the second about what
 * shares the GPU. The SHA-256 of an output's bytes lets runs of different programs be compared, too.
 *
 * A pack without cases is run with zeros, which are good indices for every table; there is nothing to be right then.
 */
#pragma once

#include <stdbool.h>

#include "serve/model.h"

struct sv_cases {
        const struct sv_pack *pack;
        uint32_t n;                   /* at least 1 */
        uint8_t *input[SV_CASES_MAX]; /* all inputs of it, as an instance wants them */
        uint8_t *first[SV_CASES_MAX]; /* all outputs as they came first; NULL: not yet */
};

/* The element that comes closest to being wrong, or is so the most. */
struct sv_verdict {
        uint64_t n, wrong; /* elements */
        double worst;      /* of what is tolerated; 1: all of it; infinite: NaN */
        uint32_t output;
        uint64_t element;
        double got, want;
};

int sv_cases_open(struct sv_cases *cases, const struct sv_pack *pack, struct sv_why *why);
void sv_cases_close(struct sv_cases *cases);
/* The inputs of case i become those of the instance's next run. */
void sv_cases_place(const struct sv_cases *cases, uint32_t i, struct sv_instance *instance);
/* Run all cases. What comes first is kept; *ret_same: what came later was that. */
int sv_cases_run(struct sv_cases *cases, struct sv_instance *instance, bool *ret_same, struct sv_why *why);
/* Are the instance's outputs what they were the first time? */
bool sv_cases_same(const struct sv_cases *cases, uint32_t i, const struct sv_instance *instance);
/* What came first, against what the framework says. Only for a pack that has cases. */
int sv_cases_judge(const struct sv_cases *cases, uint32_t i, struct sv_verdict *ret, struct sv_why *why);
/* Of all outputs that came first, one after the other; in hexadecimal digits. */
void sv_cases_digest(const struct sv_cases *cases, uint32_t i, char ret[static 2 * DS_SHA256_BYTES + 1]);
