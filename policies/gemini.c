/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemini: an exclusive token, with a request and a limit of GPU time over a sliding window
 *
 * The rule of Gemini, the scheduler of KubeShare (Yeh, Chen, Chou, HPDC'20; Chen et al., Gemini), as its public code
 * has it (scheduler.cpp). One session at a time holds the GPU, for a quota of time. Its gpu_request and gpu_limit are
 * shares of the time in the last 10 s; the time for which it held the token counts.
 *
 * - A session at its limit gets no token. If all sessions with work are at their limits, the GPU is idle until the
 *   window has moved far enough.
 * - Order of the others: first sessions that never had the token; then sessions below their request, the one that
 *   misses the largest part first; then the session that had the least time.
 * - After each turn the quota becomes half of its old value plus half of the session's longest burst in the last 3 s.
 *   The first one is 250 ms; none is shorter than 100 ms or longer than the limit in a window. A burst is a time of
 *   kernels less than 2 ms apart.
 * - A kernel cannot be stopped: the token returns when everything in flight has ended, and that time counts, too.
 *
 * A session without settings has no request and no limit. If requests add up to more than the GPU, none is met, and all
 * sessions miss the same part. A line of the code's configuration has memory as its third word; here that is the
 * session's memory limit.
 *
 * Differences. A session without work for 2 ms (`gap_ms`) gives up the token; the code lets its quota run out. A
 * session that waits for each of its steps has nothing ready when its turn ends. If it is in the middle of a burst it
 * claims the next turn all the same, otherwise its request could not be met. A turn is never longer than the time that
 * the session has left below its limit, so no session exceeds the limit. A session with less time left than the
 * shortest quota waits until it has that much. Queued operations are sent ahead if they should begin within the turn.
 * The window moves in steps of a hundredth of its length; the oldest step counts in part.
 *
 * No session below its limit starves: having had the token moves a session to the end of the line.
 */
#include "policies/round.h"
#include "policies/table.h"

#define GEMINI_MS 1000000ull
#define GEMINI_SLICES 100u
#define BURST_SLOTS 4u /* one-second slots of the burst history: the last three seconds, and the current one */
#define BURST_NS (1000 * GEMINI_MS)

struct member {
        struct table_row row;
        uint32_t held;   /* 1: the session has had the token before */
        uint32_t unused; /* always zero */
        uint64_t quota_ns;
        uint64_t slice; /* number of the newest slice in used_ns */
        /* time for which the session held the token, per slice of the window; a ring */
        uint64_t used_ns[GEMINI_SLICES + 1];
        uint64_t burst_begin_ns, burst_end_ns; /* begin and end of the burst in this turn; end 0: no burst yet */
        uint64_t burst_second[BURST_SLOTS], burst_ns[BURST_SLOTS];
};

struct gemini {
        uint64_t window_ns, slice_ns, quota_ns, least_ns, gap_ns;
        uint32_t depth;
        uint32_t is_held;
        uint64_t holder, granted_ns, expires_ns;
        uint64_t idle_since_ns; /* time since when the holder of the token has no work + 1, ns; 0: it has work */
        struct member members[TABLE_SESSIONS];
};

static const struct detshare_policy_param gemini_params[] = {
        {.name = "quota_ms",
                .help = "length of a session's first turn on the GPU, ms",
                .def = 250,
                .min = 1,
                .max = 10000},
        {.name = "min_quota_ms", .help = "shortest turn on the GPU, ms", .def = 100, .min = 1, .max = 10000},
        {.name = "window_ms",
                .help = "sliding window over which GPU requests and limits hold, ms",
                .def = 10000,
                .min = 100,
                .max = 100000},
        {.name = "gap_ms",
                .help = "time without work after which a session gives up its turn, ms",
                .def = 2,
                .min = 0,
                .max = 10000},
        {.name = "depth",
                .help = "operations of one coroutine on the device at once",
                .def = ROUND_DEPTH,
                .min = 1,
                .max = 1024},
};

static int gemini_init(void *state, const struct detshare_policy_config *config)
{
        struct gemini *gemini = state;

        gemini->quota_ns = (uint64_t)config->params[0] * GEMINI_MS;
        gemini->least_ns = (uint64_t)config->params[1] * GEMINI_MS;
        gemini->window_ns = (uint64_t)config->params[2] * GEMINI_MS;
        gemini->slice_ns = gemini->window_ns / GEMINI_SLICES;
        gemini->gap_ns = (uint64_t)config->params[3] * GEMINI_MS;
        gemini->depth = (uint32_t)config->params[4];
        return 0;
}

/* --- times of the token ------------------------------------------------------------------------------------------- */

static struct member *member_of(struct gemini *gemini, uint64_t session, uint64_t now_ns)
{
        struct member *member = TABLE_TAKE(gemini->members, session, now_ns);

        if (!member->quota_ns)
                member->quota_ns = gemini->quota_ns;
        return member;
}

static uint64_t *slice_of(struct member *member, uint64_t slice)
{
        return &member->used_ns[slice % (GEMINI_SLICES + 1)];
}

static void slide(const struct gemini *gemini, struct member *member, uint64_t now_ns)
{
        uint64_t now = now_ns / gemini->slice_ns, from = member->slice;

        if (now > from + GEMINI_SLICES)
                from = now - GEMINI_SLICES - 1;
        while (from < now)
                *slice_of(member, ++from) = 0;
        member->slice = now;
}

static void charge(const struct gemini *gemini, struct member *member, uint64_t begin_ns, uint64_t end_ns)
{
        slide(gemini, member, end_ns);
        if (end_ns - begin_ns > gemini->window_ns)
                begin_ns = end_ns - gemini->window_ns;
        while (begin_ns < end_ns) {
                uint64_t slice = begin_ns / gemini->slice_ns, until = (slice + 1) * gemini->slice_ns;

                if (until > end_ns)
                        until = end_ns;
                *slice_of(member, slice) += until - begin_ns;
                begin_ns = until;
        }
}

static uint64_t usage(const struct gemini *gemini, struct member *member, uint64_t now_ns)
{
        uint64_t oldest, sum = 0;

        slide(gemini, member, now_ns);
        for (uint32_t i = 0; i <= GEMINI_SLICES; i++)
                sum += member->used_ns[i];
        oldest = member->slice >= GEMINI_SLICES ? *slice_of(member, member->slice - GEMINI_SLICES) : 0;
        return sum - oldest / 1024 * (now_ns % gemini->slice_ns * 1024 / gemini->slice_ns);
}

/* --- bursts ------------------------------------------------------------------------------------------------------- */

static void observe(struct gemini *gemini, const struct detshare_snapshot *snapshot)
{
        struct member *member;
        uint64_t second, slot;

        if (snapshot->event != DETSHARE_EVENT_COMPLETE || snapshot->event_session == UINT32_MAX)
                return;
        member = member_of(gemini, snapshot->sessions[snapshot->event_session].id, snapshot->now_ns);
        if (!member->burst_end_ns || snapshot->event_start_ns > member->burst_end_ns + gemini->gap_ns)
                member->burst_begin_ns = snapshot->event_start_ns;
        if (snapshot->event_end_ns > member->burst_end_ns)
                member->burst_end_ns = snapshot->event_end_ns;
        second = member->burst_end_ns / BURST_NS;
        slot = second % BURST_SLOTS;
        if (member->burst_second[slot] != second)
                member->burst_ns[slot] = 0;
        member->burst_second[slot] = second;
        if (member->burst_end_ns - member->burst_begin_ns > member->burst_ns[slot])
                member->burst_ns[slot] = member->burst_end_ns - member->burst_begin_ns;
}

static uint64_t longest_burst(const struct member *member, uint64_t now_ns)
{
        uint64_t longest = 0;

        for (uint32_t i = 0; i < BURST_SLOTS; i++)
                if (member->burst_second[i] + 3 >= now_ns / BURST_NS && member->burst_ns[i] > longest)
                        longest = member->burst_ns[i];
        return longest;
}

/* --- the token ---------------------------------------------------------------------------------------------------- */

static uint64_t limit_ns(const struct gemini *gemini, const struct detshare_session_view *session)
{
        return session->gpu_limit ? gemini->window_ns / 1000 * session->gpu_limit : gemini->window_ns;
}

static void take_back(struct gemini *gemini, uint64_t now_ns)
{
        struct member *member = member_of(gemini, gemini->holder, now_ns);

        charge(gemini, member, gemini->granted_ns, now_ns);
        member->quota_ns = member->quota_ns / 2 + longest_burst(member, now_ns) / 2;
        if (member->quota_ns < gemini->least_ns)
                member->quota_ns = gemini->least_ns;
        gemini->is_held = 0;
}

/* Claim of a session with ready work to the token. */
struct claim {
        const struct detshare_session_view *session;
        struct member *member;
        uint64_t used_ns, left_ns;
        uint64_t missing; /* missing part of the session's GPU request, millionths */
};

/* Makes the session's claim to the token. Returns 0 if the session may not have it now: it is at its limit. */
static int claim_make(
        struct gemini *gemini, const struct detshare_session_view *session, uint64_t now_ns, struct claim *ret_claim)
{
        uint64_t most_ns = limit_ns(gemini, session), wanted_ns = gemini->window_ns / 1000 * session->gpu_request;
        struct claim claim = {.session = session, .member = member_of(gemini, session->id, now_ns)};

        claim.used_ns = usage(gemini, claim.member, now_ns);
        if (claim.used_ns >= most_ns)
                return 0;
        claim.left_ns = most_ns - claim.used_ns;
        if (claim.left_ns < gemini->least_ns && claim.used_ns > gemini->least_ns)
                return 0; /* the rest below the limit is too short for a turn, and grows as the window slides */
        if (claim.used_ns < wanted_ns)
                claim.missing = (wanted_ns - claim.used_ns) * 1000 / (wanted_ns / 1000);
        *ret_claim = claim;
        return 1;
}

static int is_before(const struct claim *a, const struct claim *b)
{
        if (a->member->held != b->member->held)
                return !a->member->held;
        if (a->missing != b->missing)
                return a->missing > b->missing;
        if (a->used_ns != b->used_ns)
                return a->used_ns < b->used_ns;
        return a->session->id < b->session->id;
}

/* Makes the session's claim. *best becomes this claim, unless the old *best goes first. */
static int claim(
        struct gemini *gemini, const struct detshare_session_view *session, uint64_t now_ns, struct claim *best)
{
        struct claim own;

        if (!claim_make(gemini, session, now_ns, &own) || (best->session && !is_before(&own, best)))
                return 0;
        *best = own;
        return 1;
}

/* Whether the session had the last turn and is in the middle of a burst of kernels. */
static int is_pausing(
        struct gemini *gemini, const struct detshare_session_view *session, const struct detshare_snapshot *snapshot)
{
        return session->id == gemini->holder &&
               snapshot->now_ns < member_of(gemini, session->id, snapshot->now_ns)->burst_end_ns + gemini->gap_ns;
}

static void grant(struct gemini *gemini, const struct detshare_snapshot *snapshot)
{
        struct claim best = {0};
        int is_idle = 0;
        uint64_t quota_ns;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++)
                if (snapshot->coroutines[i].in_flight)
                        return;
        for (uint32_t i = 0; i < snapshot->n_sessions; i++)
                if (is_pausing(gemini, &snapshot->sessions[i], snapshot))
                        is_idle = claim(gemini, &snapshot->sessions[i], snapshot->now_ns, &best);
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_session_view *session = &snapshot->sessions[snapshot->coroutines[i].session];

                if (!snapshot->coroutines[i].ready)
                        continue;
                if (session == best.session)
                        is_idle = 0;
                else if (claim(gemini, session, snapshot->now_ns, &best))
                        is_idle = 0;
        }
        if (!best.session)
                return;
        quota_ns = best.member->quota_ns < best.left_ns ? best.member->quota_ns : best.left_ns;
        best.member->held = 1;
        best.member->burst_end_ns = 0;
        gemini->is_held = 1;
        gemini->holder = best.session->id;
        gemini->granted_ns = snapshot->now_ns;
        gemini->expires_ns = snapshot->now_ns + quota_ns;
        gemini->idle_since_ns = is_idle ? snapshot->now_ns + 1 : 0;
}

/* --- decisions ---------------------------------------------------------------------------------------------------- */

/* Work of the token's holder: on the device; on the device or ready. */
struct work {
        int in_flight, any;
};

static struct work look(const struct gemini *gemini, const struct detshare_snapshot *snapshot)
{
        struct work work = {0};

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (snapshot->sessions[coroutine->session].id != gemini->holder)
                        continue;
                work.in_flight |= coroutine->in_flight != 0;
                work.any |= coroutine->in_flight || coroutine->ready;
        }
        return work;
}

static void check_end(struct gemini *gemini, const struct detshare_snapshot *snapshot)
{
        struct work work = look(gemini, snapshot);
        uint64_t now_ns = snapshot->now_ns;

        if (work.any)
                gemini->idle_since_ns = 0;
        else if (!gemini->idle_since_ns)
                gemini->idle_since_ns = now_ns + 1;
        if (work.in_flight)
                return;
        if (now_ns >= gemini->expires_ns || (!work.any && now_ns + 1 - gemini->idle_since_ns >= gemini->gap_ns))
                take_back(gemini, now_ns);
}

static void launch_holder(
        const struct gemini *gemini, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                uint32_t n = 0;

                if (coroutine->ready && snapshot->sessions[coroutine->session].id == gemini->holder)
                        n = round_within(coroutine, gemini->expires_ns - snapshot->now_ns, gemini->depth);
                if (n && !round_launch(decision, coroutine, 0, n))
                        return;
        }
}

static int gemini_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        struct gemini *gemini = state;

        observe(gemini, snapshot);
        if (gemini->is_held)
                check_end(gemini, snapshot);
        if (!gemini->is_held)
                grant(gemini, snapshot);
        if (!gemini->is_held) {
                if (snapshot->n_coroutines)
                        decision->next_timer_ns = snapshot->now_ns + gemini->slice_ns / 2;
                return 0;
        }
        if (snapshot->now_ns < gemini->expires_ns) {
                launch_holder(gemini, snapshot, decision);
                decision->next_timer_ns = gemini->expires_ns;
        }
        if (gemini->idle_since_ns && gemini->idle_since_ns - 1 + gemini->gap_ns < decision->next_timer_ns)
                decision->next_timer_ns = gemini->idle_since_ns - 1 + gemini->gap_ns;
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "gemini",
        .description = "one session has the GPU at a time; requests and limits hold over a sliding window (Gemini)",
        .params = gemini_params,
        .n_params = sizeof(gemini_params) / sizeof(gemini_params[0]),
        .state_size = sizeof(struct gemini),
        .init = gemini_init,
        .decide = gemini_decide,
};
