/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Budget: what the objective of a latency-sensitive (LS) session allows best effort (BE) to do
 *
 * An objective is a latency, and the share of requests that must meet it (`attain_permille`). The other requests may
 * miss it: that is a budget. Each request that ends adds its share to the budget, and a request that misses the
 * objective takes 1 from it. While the budget is not negative, BE may run beside the next request, for as long as that
 * request would still meet its objective if BE left. While it is negative, BE has what it would have beside a session
 * without an objective. So misses in the past decide about BE, whatever their cause. This budget has reserves: it counts
 * requests that come close to the objective.
 *
 * If more requests than may were surely longer than the objective, by BUDGET_SPENT, BE has less than without an objective.
 * Estimates do not count here, because arrivals in bursts would cost BE its share although the requests are in time.
 *
 * An objective that the session misses even so is out of reach. Then the session is treated as one without an objective
 * for BUDGET_RETRY requests, so that BE does not wait for nothing.
 *
 * A request that has waited in its client delays those behind it, so BE runs beside it only while a whole miss is left
 * in the budget. How long it has waited is an estimate (waits.h); a probable miss counts with its probability.
 *
 * A closed loop looks like a queue without an end, in which all requests miss the objective whatever BE does. So such a
 * row of requests costs no more than one miss. An objective that the client changes starts with an empty budget.
 */
#pragma once

#include "policies/detshare/waits.h"

#define BUDGET_MISS 4000 /* cost of a miss */
#define BUDGET_SHARE 3   /* share of a request per permille that may miss: 4 without a reserve for wrong estimates */
#define BUDGET_MOST 8000 /* largest budget: two misses */
#define BUDGET_RICH 4000 /* budget from which BE may also run beside requests that have waited: one miss */
#define BUDGET_LEAST (-16000)  /* smallest budget: older misses do not count any more */
#define BUDGET_SPENT 4000      /* debt from which on BE must not delay requests: one miss */
#define BUDGET_DEBT_MOST 48000 /* largest debt */
/* An objective is out of reach if, of up to BUDGET_JUDGED requests that BE did not delay, more than BUDGET_LOST times as
 * many missed it as may of BUDGET_JUDGED. */
#define BUDGET_JUDGED 128
#define BUDGET_LOST 3
#define BUDGET_RETRY 4000u /* requests after which an objective out of reach is tried again */
#define BUDGET_SAMPLES 16u
#define BUDGET_KNOWN 8u        /* samples from which on their mean counts */
#define BUDGET_SHORT_PART 4u   /* a request shorter than this part of the mean does not count, */
#define BUDGET_SHORT_ROW 8u    /* unless so many follow each other */
#define BUDGET_DEVIATIONS 2u   /* mean deviations by which a request may be longer than the mean */
#define BUDGET_WAIT_PERCENT 90 /* quantile of the wait that a request is taken to have waited, percent */
/* time that a client needs for a request before its first launch and after its last result, ns; at most a
 * BUDGET_CLIENT_PART-th of the objective */
#define BUDGET_CLIENT_NS 150000ull
#define BUDGET_CLIENT_PART 16u
#define BUDGET_NOT_USED 32u /* this part of the objective is a reserve */

struct budget {
        struct waits waits;
        uint64_t mean_ns, deviation_ns; /* length of requests beside which the objective allowed no BE, ns */
        uint64_t slo_ns;                /* objective of the last request whose arrival is not stated, ns */
        uint32_t samples;               /* such requests that count, up to BUDGET_SAMPLES */
        uint32_t in_row;                /* short ones that followed each other and did not count */
        int32_t left;                   /* in units of which a miss costs BUDGET_MISS */
        int32_t before;                 /* the same before the present row of requests */
        int32_t debt;                   /* cost of requests longer than the objective, above what may be */
        int32_t judged;                 /* requests since BE last delayed any, up to BUDGET_JUDGED */
        int32_t lost;                   /* cost of their misses */
        uint32_t retry;                 /* requests until the objective is tried again; 0: it is in reach */
};

/* A request begins. counted: 1: the objective leaves out what the request waited in its client, so it may be another one
 * for each request. */
void budget_begin(struct budget *budget, const struct waits_step *step, int counted, uint64_t slo_ns);

/* The present request has ended; it took ns. bought: 1: BE ran beside it because the budget allowed that, or as a
 * trial. */
void budget_end(struct budget *budget, uint64_t ns, int bought, uint64_t slo_ns, uint32_t attain_permille);

/* Whether so many requests have missed the objective, which is in reach, that BE must not delay further ones. */
int budget_is_spent(const struct budget *budget);

/* Whether the budget can pay for a whole miss. */
int budget_is_rich(const struct budget *budget);

/* Whether it can, and no request waits behind the present one, as far as known. */
int budget_risks(const struct budget *budget);

/* Time for which BE may run beside the present request from its begin on, ns: the request would then still meet its
 * objective if BE left. 0: BE may not run beside it. */
uint64_t budget_until(const struct budget *budget, uint64_t slo_ns);
