/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing: what LS requests and BE achieve side by side, measured while they run
 *
 * Side by side, a request progresses at a part of its speed alone, and so does BE. Both parts are measured on requests
 * beside which the objective allowed BE. The request's part follows from its length: the time after the last launch of
 * BE counts as passed at full speed, so the rest of its usual length is what it achieved before. BE's part is the time
 * that its completed kernels take alone.
 *
 * Two decisions follow. If both parts together are less than one GPU, BE achieves more between requests than beside
 * them, because requests that take longer leave shorter pauses; then the objective buys nothing. If they are more, BE may
 * stay beside a request for longer than the time that the objective leaves: the request progresses meanwhile.
 *
 * Requests of very different lengths have a large deviation, which leaves BE only the time that the objective leaves.
 */
#pragma once

#include <stdint.h>

#define SHARING_ONE 0x10000u /* fixed-point value of 1: the speed alone */

struct sharing {
        uint32_t n;                 /* measured requests, up to SHARING_SAMPLES */
        uint64_t ls, deviation, be; /* speed of requests, its mean deviation, and speed of BE, of SHARING_ONE */
        uint64_t begin_ns;          /* work of BE at the begin of the running request, ns */
};

/* Discards the measurement, because another BE session runs now. */
void sharing_forget(struct sharing *sharing);

/* A request begins; be_ns: work that BE has completed so far, ns of its time alone. */
void sharing_begin(struct sharing *sharing, uint64_t be_ns);

/*
 * A request has ended after length_ns. From its begin on BE might be launched beside it for may_ns, and was beside it for
 * beside_ns, because kernels that run then end later. alone_ns: usual length without BE. be_ns: work that BE had completed
 * when it left, ns of its time alone.
 */
void sharing_learn(struct sharing *sharing, uint64_t length_ns, uint64_t may_ns, uint64_t beside_ns, uint64_t alone_ns,
        uint64_t be_ns);

/* Whether enough requests are measured. */
int sharing_is_known(const struct sharing *sharing);

/* Whether requests and BE side by side achieve more than one after the other, or it is not known yet. */
int sharing_pays(const struct sharing *sharing);

/* Time for which BE may be beside a request that may take slack_ns longer than alone, ns. */
uint64_t sharing_time(const struct sharing *sharing, uint64_t slack_ns);
