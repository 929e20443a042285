/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases: inputs of a pack, with the outputs that its framework computed for them
 *
 * An output has two properties. It is right if each element is within the pack's tolerance of the framework's value. It
 * is the same if all its bytes equal those of this program's first run of that case, whatever else used the GPU. The
 * first property tests the compiler that made the pack, the second one tests sharing. The SHA-256 of an output lets
 * scripts compare runs of different programs.
 *
 * A pack without cases runs with zeros, which are valid indices for every table; its outputs are not judged.
 */
#pragma once

#include <stdbool.h>

#include "serve/model.h"

struct sv_cases {
        const struct sv_pack *pack;
        uint32_t n;                   /* at least 1 */
        uint8_t *input[SV_CASES_MAX]; /* all inputs, in the layout of an instance */
        uint8_t *first[SV_CASES_MAX]; /* all outputs of the first run; NULL: not run yet */
};

/* The element that is nearest to its tolerance, or exceeds it the most. */
struct sv_verdict {
        uint64_t n, wrong; /* elements */
        double worst;      /* share of the tolerance that the error takes: 1 is all of it, infinity is NaN */
        uint32_t output;
        uint64_t element;
        double got, want;
};

int sv_cases_open(struct sv_cases *cases, const struct sv_pack *pack, struct sv_why *why);
void sv_cases_close(struct sv_cases *cases);
/* Makes the inputs of case i those of the instance's next run. */
void sv_cases_place(const struct sv_cases *cases, uint32_t i, struct sv_instance *instance);
/* Runs all cases. Keeps the first outputs; *ret_same says whether later ones equal them. */
int sv_cases_run(struct sv_cases *cases, struct sv_instance *instance, bool *ret_same, struct sv_why *why);
/* Whether the instance's outputs equal the first ones of case i. */
bool sv_cases_same(const struct sv_cases *cases, uint32_t i, const struct sv_instance *instance);
/* Compares the first outputs of case i with the framework's. Only for a pack that has cases. */
int sv_cases_judge(const struct sv_cases *cases, uint32_t i, struct sv_verdict *ret, struct sv_why *why);
/* SHA-256, in hexadecimal, of all first outputs of case i, one after the other. */
void sv_cases_digest(const struct sv_cases *cases, uint32_t i, char ret[static 2 * DS_SHA256_BYTES + 1]);
