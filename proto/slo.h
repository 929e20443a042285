/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objectives of a session: latencies, or factors of the latencies that it has alone
 *
 * A session states each kind as a time, as a factor, or as both; of both, the stricter one holds. A factor refers to
 * the p99 of the session's requests while no other session is on the GPU, which the daemon measures
 * (daemon/sched/objective.h). The messages of the protocols have the same six fields, so one macro converts each way.
 */
#ifndef DS_PROTO_SLO_H
#define DS_PROTO_SLO_H

#include <stdint.h>

enum ds_slo_kind {
        DS_SLO_LATENCY, /* latency of a request, from its arrival or first launch to its end */
        DS_SLO_TTFT,    /* time to first token: latency of a request that computes a prompt */
        DS_SLO_TPOT,    /* time per output token: from the end of one step to the end of the next */
        _DS_SLO_KINDS,
};

#define DS_SLO_FACTOR_MIN 1000u   /* permille: what the session has alone */
#define DS_SLO_FACTOR_MAX 100000u /* permille */

struct ds_slo {
        uint64_t ns[_DS_SLO_KINDS];       /* 0: no such objective */
        uint32_t permille[_DS_SLO_KINDS]; /* factor of the p99 alone; 0: no such objective */
        uint32_t zero;                    /* always 0: structures are compared as bytes */
};

#define DS_SLO_READ(message)                                                                \
        ((struct ds_slo){.ns = {(message)->slo_ns, (message)->ttft_ns, (message)->tpot_ns}, \
                .permille = {(message)->slo_permille, (message)->ttft_permille, (message)->tpot_permille}})

#define DS_SLO_WRITE(message, slo)                                         \
        do {                                                               \
                (message)->slo_ns = (slo)->ns[DS_SLO_LATENCY];             \
                (message)->ttft_ns = (slo)->ns[DS_SLO_TTFT];               \
                (message)->tpot_ns = (slo)->ns[DS_SLO_TPOT];               \
                (message)->slo_permille = (slo)->permille[DS_SLO_LATENCY]; \
                (message)->ttft_permille = (slo)->permille[DS_SLO_TTFT];   \
                (message)->tpot_permille = (slo)->permille[DS_SLO_TPOT];   \
        } while (0)

static inline int ds_slo_is_stated(const struct ds_slo *slo)
{
        for (int kind = 0; kind < _DS_SLO_KINDS; kind++)
                if (slo->ns[kind] || slo->permille[kind])
                        return 1;
        return 0;
}

/* Whether one of the objectives is a latency; a factor of an unknown latency is not one yet. */
static inline int ds_slo_has_latency(const struct ds_slo *slo)
{
        return slo->ns[DS_SLO_LATENCY] || slo->ns[DS_SLO_TTFT] || slo->ns[DS_SLO_TPOT];
}

/* Whether the session tells prefill from decode steps by an objective for either. */
static inline int ds_slo_has_steps(const struct ds_slo *slo)
{
        return slo->ns[DS_SLO_TTFT] || slo->permille[DS_SLO_TTFT] || slo->ns[DS_SLO_TPOT] || slo->permille[DS_SLO_TPOT];
}

/*
 * Parses "1.5x" as a factor, and "5ms" or "2.5ms" as a latency, in any locale. Digits after the third of a factor and
 * after the sixth of milliseconds are ignored. Returns 0; -1 if the text is neither, or out of range (factors: 1 to
 * 100), and then stores nothing.
 */
static inline int ds_slo_parse(const char *text, uint64_t *ret_ns, uint32_t *ret_permille)
{
        uint64_t whole = 0, millionths = 0, unit = 1000000;
        const char *c = text;
        int is_fraction = 0;

        for (; (*c >= '0' && *c <= '9') || (*c == '.' && !is_fraction); c++) {
                if (*c == '.') {
                        is_fraction = 1;
                        continue;
                }
                if (whole > UINT64_MAX / 100000000)
                        return -1;
                unit /= is_fraction ? 10 : 1;
                millionths += is_fraction ? (uint64_t)(*c - '0') * unit : 0;
                whole = is_fraction ? whole : whole * 10 + (uint64_t)(*c - '0');
        }
        if (c == text || (c == text + 1 && is_fraction))
                return -1;
        if (c[0] == 'x' && !c[1]) {
                const uint64_t permille = whole > DS_SLO_FACTOR_MAX ? UINT64_MAX : whole * 1000 + millionths / 1000;

                if (permille < DS_SLO_FACTOR_MIN || permille > DS_SLO_FACTOR_MAX)
                        return -1;
                *ret_permille = (uint32_t)permille;
                return 0;
        }
        if (c[0] != 'm' || c[1] != 's' || c[2] || !(whole || millionths))
                return -1;
        *ret_ns = whole * 1000000 + millionths;
        return 0;
}

#endif
