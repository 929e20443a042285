/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token in the manner of Gemini (KubeShare), to show that the plug-in ABI is wide enough for it
 *
 * One session at a time holds the GPU, for a quota of time. Over a sliding window each has a request (a share that it
 * is guaranteed) and a limit (that it never exceeds). The next holder is whoever is below its request by the largest
 * ratio, else who used least; those at their limit wait until the window has slid, for which a timer is set.
 * Users 1 and 2 have a request and a limit of their own.
 */
#include "policies/detshare_policy.h"

#define USERS 2
#define RECORDS 1024
#define MS 1000000ULL

struct record {
        uint64_t user, begin_ns, end_ns;
};

struct gemini {
        uint64_t window_ns, quota_ns[USERS], min_quota_ns;
        int64_t request[USERS], limit[USERS]; /* percent */
        uint64_t holder;                      /* uid, 0 = nobody */
        uint64_t granted_ns, expires_ns;
        struct record records[RECORDS]; /* a ring */
        uint32_t next;
};

static const struct detshare_policy_param params[] = {
        {.name = "request_1", .help = "percent guaranteed to user 1", .def = 0, .min = 0, .max = 100},
        {.name = "limit_1", .help = "percent that user 1 gets at most", .def = 100, .min = 1, .max = 100},
        {.name = "request_2", .help = "percent guaranteed to user 2", .def = 0, .min = 0, .max = 100},
        {.name = "limit_2", .help = "percent that user 2 gets at most", .def = 100, .min = 1, .max = 100},
        {.name = "window_ms", .help = "sliding window", .def = 10000, .min = 100, .max = 100000},
        {.name = "quota_ms", .help = "first quota", .def = 250, .min = 1, .max = 10000},
        {.name = "min_quota_ms", .help = "smallest quota", .def = 100, .min = 1, .max = 10000},
};

static int gemini_init(void *state, const struct detshare_policy_config *config)
{
        struct gemini *gemini = state;

        for (int i = 0; i < USERS; i++) {
                gemini->request[i] = config->params[2 * i];
                gemini->limit[i] = config->params[2 * i + 1];
                gemini->quota_ns[i] = (uint64_t)config->params[5] * MS;
        }
        gemini->window_ns = (uint64_t)config->params[4] * MS;
        gemini->min_quota_ns = (uint64_t)config->params[6] * MS;
        return 0;
}

/* Time that the user held the GPU in the window that ends at now_ns. */
static uint64_t usage(const struct gemini *gemini, uint64_t user, uint64_t now_ns)
{
        uint64_t from = now_ns > gemini->window_ns ? now_ns - gemini->window_ns : 0;
        uint64_t sum = 0;

        for (int i = 0; i < RECORDS; i++) {
                const struct record *record = &gemini->records[i];
                uint64_t begin = record->begin_ns > from ? record->begin_ns : from;

                if (record->user == user && record->end_ns > begin)
                        sum += record->end_ns - begin;
        }
        return sum;
}

static int has_work(const struct detshare_snapshot *snapshot, uint64_t user, int in_flight_only)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (snapshot->sessions[coroutine->session].uid != user)
                        continue;
                if (coroutine->in_flight || (!in_flight_only && coroutine->ready))
                        return 1;
        }
        return 0;
}

static void take_back(struct gemini *gemini, uint64_t now_ns)
{
        uint64_t used = now_ns - gemini->granted_ns;
        uint64_t *quota = &gemini->quota_ns[gemini->holder - 1];

        gemini->records[gemini->next++ % RECORDS] = (struct record){gemini->holder, gemini->granted_ns, now_ns};
        *quota = used / 2 + *quota / 2;
        if (*quota < gemini->min_quota_ns)
                *quota = gemini->min_quota_ns;
        gemini->holder = 0;
}

/* More urgent first: below its request by the larger ratio, else the smaller use. */
static int64_t urgency(const struct gemini *gemini, uint64_t user, uint64_t used)
{
        int64_t wanted = (int64_t)(gemini->window_ns / 100) * gemini->request[user - 1];
        int64_t missing = wanted - (int64_t)used;

        return missing > 0 ? INT64_MAX / 2 + missing * 1000 / wanted : -(int64_t)used;
}

static void grant(struct gemini *gemini, const struct detshare_snapshot *snapshot)
{
        int64_t best = INT64_MIN;

        for (uint64_t user = 1; user <= USERS; user++) {
                uint64_t used = usage(gemini, user, snapshot->now_ns);
                uint64_t limit = gemini->window_ns / 100 * (uint64_t)gemini->limit[user - 1];
                uint64_t quota = gemini->quota_ns[user - 1];

                if (!has_work(snapshot, user, 0) || used >= limit || urgency(gemini, user, used) <= best)
                        continue;
                best = urgency(gemini, user, used);
                gemini->holder = user;
                gemini->granted_ns = snapshot->now_ns;
                gemini->expires_ns = snapshot->now_ns + (quota < limit - used ? quota : limit - used);
        }
}

static void launch_holder(
        const struct gemini *gemini, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines && decision->n < decision->capacity; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (snapshot->sessions[coroutine->session].uid != gemini->holder || !coroutine->ready ||
                        coroutine->in_flight)
                        continue;
                decision->actions[decision->n++] = (struct detshare_action){.kind = DETSHARE_ACTION_LAUNCH,
                        .coroutine = coroutine->id,
                        .priority = DETSHARE_PRIORITY_LOW,
                        .count = 1};
        }
}

static int gemini_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct gemini *gemini = state;
        int expired = gemini->holder && snapshot->now_ns >= gemini->expires_ns;

        if (gemini->holder && !has_work(snapshot, gemini->holder, expired))
                take_back(gemini, snapshot->now_ns);
        if (!gemini->holder)
                grant(gemini, snapshot);
        if (gemini->holder && snapshot->now_ns < gemini->expires_ns) {
                launch_holder(gemini, snapshot, decision);
                decision->next_timer_ns = gemini->expires_ns;
        } else if (!gemini->holder && snapshot->n_coroutines) {
                decision->next_timer_ns = snapshot->now_ns + gemini->window_ns / 1000;
        }
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "gemini",
        .description = "test: an exclusive token with request and limit over a sliding window",
        .params = params,
        .n_params = sizeof(params) / sizeof(params[0]),
        .state_size = sizeof(struct gemini),
        .init = gemini_init,
        .decide = gemini_decide,
};
