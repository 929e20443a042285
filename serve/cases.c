/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "util/alloc.h"
#include "util/macro.h"

static int append(void *user, const void *bytes, size_t size, struct sv_why *why)
{
        uint8_t **at = user;

        memcpy(*at, bytes, size);
        *at += size;
        return 0;
}

static int load_case(struct sv_cases *cases, uint32_t i, struct sv_why *why)
{
        const struct sv_pack *pack = cases->pack;
        uint8_t *at = ds_alloc0(1, sv_pack_input_bytes(pack));

        cases->input[i] = at;
        if (!at)
                return sv_fail(why, "%s: out of memory", pack->path);
        for (uint32_t k = 0; k < pack->n_inputs && pack->n_cases; k++)
                if (sv_pack_read(pack, pack->cases[i].input[k], append, &at, why))
                        return -1;
        return 0;
}

int sv_cases_open(struct sv_cases *cases, const struct sv_pack *pack, struct sv_why *why)
{
        *cases = (struct sv_cases){.pack = pack, .n = DS_MAX(pack->n_cases, 1)};
        for (uint32_t i = 0; i < cases->n; i++) {
                if (!load_case(cases, i, why))
                        continue;
                sv_cases_close(cases);
                return -1;
        }
        return 0;
}

void sv_cases_close(struct sv_cases *cases)
{
        for (uint32_t i = 0; i < SV_CASES_MAX; i++) {
                cases->input[i] = ds_free(cases->input[i]);
                cases->first[i] = ds_free(cases->first[i]);
        }
}

void sv_cases_place(const struct sv_cases *cases, uint32_t i, struct sv_instance *instance)
{
        const uint64_t bytes = sv_pack_input_bytes(cases->pack);

        if (bytes)
                memcpy(instance->input, cases->input[i], bytes);
}

bool sv_cases_same(const struct sv_cases *cases, uint32_t i, const struct sv_instance *instance)
{
        return !memcmp(instance->output, cases->first[i], sv_pack_output_bytes(cases->pack));
}

int sv_cases_run(struct sv_cases *cases, struct sv_instance *instance, bool *ret_same, struct sv_why *why)
{
        const uint64_t bytes = sv_pack_output_bytes(cases->pack);

        *ret_same = true;
        for (uint32_t i = 0; i < cases->n; i++) {
                sv_cases_place(cases, i, instance);
                if (sv_instance_run(instance, why))
                        return -1;
                if (cases->first[i]) {
                        *ret_same = *ret_same && sv_cases_same(cases, i, instance);
                        continue;
                }
                cases->first[i] = ds_alloc(bytes);
                if (!cases->first[i])
                        return sv_fail(why, "%s: out of memory", cases->pack->path);
                memcpy(cases->first[i], instance->output, bytes);
        }
        return 0;
}

/* --- right? ------------------------------------------------------------------------------------------------------- */

static double from_half(uint16_t bits)
{
        const int exponent = bits >> 10 & 31;
        const double fraction = bits & 1023, sign = bits >> 15 ? -1 : 1;

        if (exponent == 31)
                return bits & 1023 ? (double)NAN : sign * (double)INFINITY;
        return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static double element(enum sv_type type, const uint8_t *bytes, uint64_t i)
{
        uint16_t half;
        float single;

        if (type == SV_F16) {
                memcpy(&half, bytes + i * sizeof(half), sizeof(half));
                return from_half(half);
        }
        memcpy(&single, bytes + i * sizeof(single), sizeof(single));
        return (double)single;
}

/* 1 and less is right. */
static double of_tolerance(double got, double want, double abs, double rel)
{
        const double distance = got == want ? 0 : fabs(got - want), most = abs + rel * fabs(want);

        if (isnan(distance) || isinf(distance))
                return (double)INFINITY;
        if (distance <= most)
                return most > 0 ? distance / most : 0;
        /* rounding must not make what is wrong right */
        return most > 0 ? fmax(distance / most, nextafter(1, 2)) : (double)INFINITY;
}

static void judge_output(const struct sv_cases *cases, uint32_t i, uint32_t output, const uint8_t *got,
        const uint8_t *want, struct sv_verdict *verdict)
{
        const struct sv_tensor *tensor = &cases->pack->outputs[output];
        const struct sv_case *c = &cases->pack->cases[i];

        for (uint64_t k = 0; k < tensor->n; k++) {
                const double x = element(tensor->type, got, k), y = element(SV_F32, want, k);
                const double part = of_tolerance(x, y, c->abs[output], c->rel[output]);

                verdict->n++;
                verdict->wrong += part > 1;
                if (verdict->n > 1 && part <= verdict->worst)
                        continue;
                verdict->worst = part;
                verdict->output = output;
                verdict->element = k;
                verdict->got = x;
                verdict->want = y;
        }
}

int sv_cases_judge(const struct sv_cases *cases, uint32_t i, struct sv_verdict *ret, struct sv_why *why)
{
        const struct sv_pack *pack = cases->pack;
        const uint8_t *got = cases->first[i];

        *ret = (struct sv_verdict){.n = 0};
        for (uint32_t k = 0; k < pack->n_outputs; k++) {
                ds_cleanup(ds_freep) uint8_t *want = NULL;

                if (sv_pack_load(pack, pack->cases[i].output[k], &want, why))
                        return -1;
                judge_output(cases, i, k, got, want, ret);
                got += pack->outputs[k].bytes;
        }
        return 0;
}

void sv_cases_digest(const struct sv_cases *cases, uint32_t i, char ret[static 2 * DS_SHA256_BYTES + 1])
{
        uint8_t sha256[DS_SHA256_BYTES];
        struct ds_sha256 sum;

        ds_sha256_begin(&sum);
        ds_sha256_add(&sum, cases->first[i], sv_pack_output_bytes(cases->pack));
        ds_sha256_end(&sum, sha256);
        for (unsigned k = 0; k < DS_SHA256_BYTES; k++)
                (void)snprintf(ret + 2 * (size_t)k, 3, "%02x", sha256[k]);
}
