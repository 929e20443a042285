/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing: what LS requests and BE achieve side by side, measured while they run
 *
 * Side by side, a request progresses at a part of its speed alone, and so does BE. Both parts are measured on requests
 * beside which the objective allowed BE. The request's part follows from its length: the time after the last launch of
 * BE counts as passed at full speed, so the rest of its usual length is what it achieved before. BE's part is the time
 * that its completed kernels take alone.
 *
 * Two decisions follow. Requests that take longer leave shorter pauses to BE. If BE does not achieve more beside a request
 * than it loses by that, compared with what it achieves beside a request without an objective, the objective buys
 * nothing. If it does, BE may stay beside a request for longer than the time that the objective leaves: the request
 * progresses meanwhile.
 *
 * BE may run beside a request on all SMs or on a part of them (a way). The caller says how many ways there are; each is
 * measured on a few requests, that with the fewest SMs first, and the one by which BE gains most is used. The others are
 * measured again now and then. A way in which two measured requests took longer than their slack allows is not
 * measured further at first.
 *
 * A measurement of an earlier run (kept.h) is used at once. The first SHARING_CHECKS requests measured in a way check it,
 * or fewer if one takes longer than its slack allows. If their mean is far from the kept one, the whole measurement is
 * discarded and measured again.
 *
 * Requests of very different lengths have a large deviation, which leaves BE only the time that the objective leaves.
 */
#pragma once

#include <stdint.h>

#define SHARING_ONE 0x10000u   /* fixed-point value of 1: the speed alone */
#define SHARING_WAYS 4u        /* way 0: all SMs */
#define SHARING_LEAST_PART 16u /* a shorter time beside BE than this part of a request is not measured */

#define SHARING_CHECKS 4u /* measured requests that check a way of an earlier run */

/* The origin of a measurement. */
enum sharing_origin {
        SHARING_MEASURED,  /* from this run */
        SHARING_KEPT,      /* from an earlier run; its best way is being checked */
        SHARING_CONFIRMED, /* from an earlier run, and this run's requests agree */
        SHARING_REFUTED,   /* from this run, because requests did not agree with that of an earlier one */
};

/* Measurements of one way. */
struct sharing_way {
        uint32_t n;                 /* measured requests, up to SHARING_SAMPLES */
        uint32_t tries;             /* requests chosen to measure it since the last one that did */
        uint32_t over;              /* measured requests that took longer than their slack allows */
        uint64_t ls, deviation, be; /* speed of requests, its mean deviation, and speed of BE, of SHARING_ONE */
        /* means per request: work of BE, and by how much the request takes longer, ns */
        uint64_t with_ns, longer_ns;
        /* values of an earlier run until they are checked, and means of the requests that check them */
        uint32_t kept, checks; /* kept: 1: there are such values; number of requests */
        uint64_t kept_ls, kept_deviation, kept_be, check_ls, check_be;
};

struct sharing {
        struct sharing_way way[SHARING_WAYS];
        uint32_t now;        /* way of the running or last request */
        uint32_t best;       /* way by which BE gains most; another one must gain clearly more */
        uint32_t chosen;     /* requests for which a way was chosen */
        uint64_t alone_ns;   /* usual length of a request, ns */
        uint32_t n_ways;     /* ways that this request could have */
        uint64_t slack_ns;   /* by how much the running request may take longer than alone, ns */
        uint64_t pause_ns;   /* mean pause between two requests, ns */
        uint64_t without_ns; /* mean work of BE per request beside which the objective allowed no more, ns */
        uint32_t without_n;  /* samples of it, up to SHARING_SAMPLES */
        uint64_t begin_ns;   /* work of BE at the begin of the running request, ns */
        uint32_t origin;     /* enum sharing_origin */
        uint32_t settled;    /* 1: a way was chosen by measurements */
        uint32_t learned;    /* requests measured since then */
        uint32_t dropped;    /* 1: the note of an earlier run that did not hold is gone */
        uint32_t written;    /* `learned` when the measurement was last kept */
};

/* Discards the measurement, because another BE session runs now. */
void sharing_forget(struct sharing *sharing);

/* Takes over the ways (n not 0), best, alone_ns and without_ns (without_n not 0) of an earlier run. */
void sharing_adopt(struct sharing *sharing, const struct sharing *kept);

/* A request begins, at first in way 0; be_ns: work that BE has completed so far, ns of its time alone. */
void sharing_begin(struct sharing *sharing, uint64_t be_ns);

/* Chooses the way of the request that begins now, of the first n_ways (at least 1). slack_ns: by how much the request may
 * take longer than alone, ns. length_ns: length of a request alone, ns. pause_ns: mean pause between two requests, in which
 * BE stays on its part of the SMs, ns. */
void sharing_choose(struct sharing *sharing, uint32_t n_ways, uint64_t slack_ns, uint64_t length_ns, uint64_t pause_ns);

/*
 * A request has ended after length_ns. From its begin on BE might be launched beside it for may_ns, and was beside it for
 * beside_ns, because kernels that run then end later. alone_ns: usual length without BE. be_ns: work that BE had completed
 * when it left, ns of its time alone.
 */
void sharing_learn(struct sharing *sharing, uint64_t length_ns, uint64_t may_ns, uint64_t beside_ns, uint64_t alone_ns,
        uint64_t be_ns);

/* A request has ended that had no more BE beside it than without an objective. be_ns: work that BE has completed. */
void sharing_learn_without(struct sharing *sharing, uint64_t be_ns);

/* Whether enough requests of the way are measured. */
int sharing_is_known(const struct sharing_way *way);

/* Whether BE achieves more in this way by the time that the objective allows than it loses because requests take longer,
 * or it is not known yet. */
int sharing_pays(const struct sharing *sharing, uint32_t way);

/* Time for which BE may be beside a request in this way if the request may take slack_ns longer than alone, ns. */
uint64_t sharing_time(const struct sharing *sharing, uint32_t way, uint64_t slack_ns);
