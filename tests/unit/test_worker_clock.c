/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The virtual clock between users
 *
 * The clock stands while a declared thread runs. A hostile user declares threads and never waits: it shows activity now
 * and then, declares itself again after it was dropped, and does so in many sessions or in one session after another.
 * Another user's victim sleeps on the clock meanwhile. Real time, which only the test moves, must not pass for longer
 * than a user may hold the clock. A user that is alone, or that waits most of the time, is not limited.
 */
#include "tests/unit/worker_harness.h"
#include "worker/internal.h"

#define TIMING "sim:h200+timing"
#define VICTIM 1
#define HOSTILE 1000
#define STEP_NS (20 * DS_NS_PER_MS)

static void join(struct wt *t, struct wt_client *client)
{
        WT_REQUEST(request, CLOCK_JOIN, clock_join, ClockJoin, CLOCK_JOIN, .base = {0});

        wt_free(wt_wait(t, wt_send_call(t, client, &request)));
}

/* Sends a sleep that ends 1 us after the current virtual time */
static uint64_t send_sleep(struct wt *t, struct wt_client *client)
{
        WT_REQUEST(request, SLEEP_UNTIL, sleep_until, SleepUntil, SLEEP_UNTIL, .ns = t->worker->now_ns + 1000);

        return wt_send_call(t, client, &request);
}

static int is_answered(struct wt *t, uint64_t id)
{
        wt_answer *answer;

        wt_settle(t);
        answer = wt_take(t, id);
        if (answer)
                wt_free(answer);
        return answer != NULL;
}

/* Real time until the victim's sleep ends, ns, while the attack `act` runs every 20 ms; UINT64_MAX: the sleep never
 * ends. */
static uint64_t delay_of(struct wt *t, struct wt_client *victim, void (*act)(struct wt *t, uint64_t turn))
{
        const uint64_t begin = wt_wall, id = send_sleep(t, victim);

        for (uint64_t turn = 0; wt_wall - begin < 60 * DS_NS_PER_S; turn++, wt_wall += STEP_NS) {
                if (is_answered(t, id))
                        return wt_wall - begin;
                act(t, turn);
        }
        return UINT64_MAX;
}

/* Number of the victim's consecutive sleeps that end within ns. */
static uint32_t sleeps_in(struct wt *t, struct wt_client *victim, void (*act)(struct wt *t, uint64_t turn), uint64_t ns,
        uint64_t *ret_longest)
{
        const uint64_t begin = wt_wall;
        uint32_t n = 0;

        *ret_longest = 0;
        while (wt_wall - begin < ns) {
                *ret_longest = DS_MAX(*ret_longest, delay_of(t, victim, act));
                wt_wall += STEP_NS; /* time of the victim's own work between two sleeps */
                act(t, 0);
                n++;
        }
        return n;
}

/* --- attacks ------------------------------------------------------------------------------------------------------ */

#define CROWD 8
static struct wt_client hostile[CROWD];
static uint32_t n_hostile;

static void nothing(struct wt *t, uint64_t turn)
{
}

/* A user who is never silent and never waits: declares one more thread per second in each session. */
static void declares_again(struct wt *t, uint64_t turn)
{
        for (uint32_t i = 0; turn % 50 == 0 && i < n_hostile; i++)
                join(t, &hostile[i]);
}

/* A user who declares a thread once and is never silent for long. */
static void gives_signs(struct wt *t, uint64_t turn)
{
        WT_REQUEST(request, SLEEP_UNTIL, sleep_until, SleepUntil, SLEEP_UNTIL, .ns = 0);

        for (uint32_t i = 0; turn % 50 == 0 && i < n_hostile; i++)
                wt_free(wt_wait(t, wt_send_call(t, &hostile[i], &request)));
}

/* A user who opens a new declared session each second before closing the old one. */
static void comes_again(struct wt *t, uint64_t turn)
{
        static uint64_t id = 2;
        struct wt_client next;

        if (turn % 50)
                return;
        next = wt_client_of(t, 2 + id++ % 3, DETSHARE__CLASS__BE, HOSTILE);
        join(t, &next);
        if (n_hostile)
                wt_client_close(t, &hostile[0]);
        hostile[0] = next;
        n_hostile = 1;
}

static void crowd_open(struct wt *t, uint32_t n)
{
        for (n_hostile = 0; n_hostile < n; n_hostile++) {
                hostile[n_hostile] = wt_client_of(t, 2 + n_hostile, DETSHARE__CLASS__BE, HOSTILE);
                join(t, &hostile[n_hostile]);
        }
}

static void crowd_close(struct wt *t)
{
        while (n_hostile)
                wt_client_close(t, &hostile[--n_hostile]);
}

static void expect_bounded(struct wt *t, void (*act)(struct wt *t, uint64_t turn))
{
        struct wt_client victim = wt_client_of(t, 1, DETSHARE__CLASS__LS, VICTIM);
        uint64_t first = delay_of(t, &victim, act), longest;
        uint32_t n;

        cr_expect_leq(first, DSW_HOLD_USER_NS + STEP_NS, "the first wait: %.2f s", (double)first * 1e-9);
        n = sleeps_in(t, &victim, act, 20 * DS_NS_PER_S, &longest);
        cr_expect_leq(longest, 200 * DS_NS_PER_MS, "a later wait: %.2f s", (double)longest * 1e-9);
        cr_expect_geq(n, 250, "%u sleeps in 20 s", n);
        wt_client_close(t, &victim);
}

Test(worker_clock, one_session_that_declares_again, .timeout = 120)
{
        struct wt *t = wt_open(TIMING);

        crowd_open(t, 1);
        expect_bounded(t, declares_again);
        crowd_close(t);
        wt_close(t);
}

Test(worker_clock, one_session_that_gives_signs_of_life, .timeout = 120)
{
        struct wt *t = wt_open(TIMING);

        crowd_open(t, 1);
        expect_bounded(t, gives_signs);
        crowd_close(t);
        wt_close(t);
}

Test(worker_clock, many_sessions, .timeout = 120)
{
        struct wt *t = wt_open(TIMING);

        crowd_open(t, CROWD);
        expect_bounded(t, declares_again);
        crowd_close(t);
        wt_close(t);
}

Test(worker_clock, one_session_after_another, .timeout = 120)
{
        struct wt *t = wt_open(TIMING);

        expect_bounded(t, comes_again);
        crowd_close(t);
        wt_close(t);
}

/* --- users without a limit ---------------------------------------------------------------------------------------- */

/* A user that has used up its allowance of holding the clock cannot make other users lose the clock. */
Test(worker_clock, others_hold_the_clock_as_before, .timeout = 120)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client victim = wt_client_of(t, 1, DETSHARE__CLASS__LS, VICTIM);
        uint64_t id;

        crowd_open(t, 1);
        cr_expect_leq(delay_of(t, &victim, gives_signs), DSW_HOLD_USER_NS + STEP_NS);
        /* now the hostile user sleeps, and the victim runs */
        join(t, &victim);
        id = send_sleep(t, &hostile[0]);
        for (int i = 0; i < 40; i++, wt_wall += 100 * DS_NS_PER_MS)
                cr_expect(!is_answered(t, id), "time passed while the victim ran, after %d ms", i * 100);
        cr_expect_leq(delay_of(t, &victim, nothing), STEP_NS);
        cr_expect(is_answered(t, id));
        crowd_close(t);
        wt_client_close(t, &victim);
        wt_close(t);
}

Test(worker_clock, a_user_alone_is_not_bounded, .timeout = 120)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client own = wt_client_of(t, 1, DETSHARE__CLASS__LS, HOSTILE);

        crowd_open(t, 1);
        cr_expect_eq(delay_of(t, &own, declares_again), UINT64_MAX);
        crowd_close(t);
        wt_client_close(t, &own);
        wt_close(t);
}

/* A client computes for 20 ms and then waits for 100 ms, for one minute: each computation holds the clock. */
Test(worker_clock, a_mostly_waiting_user_is_not_bounded, .timeout = 120)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client other = wt_client_of(t, 1, DETSHARE__CLASS__BE, VICTIM);
        uint64_t id, own;

        crowd_open(t, 1);
        id = send_sleep(t, &other);
        for (int i = 0; i < 500; i++) {
                cr_expect(!is_answered(t, id), "round %d", i);
                wt_wall += STEP_NS;
                cr_expect(!is_answered(t, id), "round %d", i);
                own = send_sleep(t, &hostile[0]);
                cr_expect(is_answered(t, own));
                cr_expect(is_answered(t, id));
                own = send_sleep(t, &hostile[0]);
                cr_expect(is_answered(t, own));
                wt_wall += 100 * DS_NS_PER_MS;
                id = send_sleep(t, &other);
        }
        crowd_close(t);
        wt_client_close(t, &other);
        wt_close(t);
}

/* A user's allowance for holding the clock grows back with time, and reconnecting does not speed that up. */
Test(worker_clock, it_comes_back, .timeout = 120)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client victim = wt_client_of(t, 1, DETSHARE__CLASS__LS, VICTIM);
        uint64_t delay;

        crowd_open(t, 1);
        cr_expect_leq(delay_of(t, &victim, declares_again), DSW_HOLD_USER_NS + STEP_NS);
        crowd_close(t);
        wt_wall += 4 * DS_NS_PER_S;
        crowd_open(t, 1);
        delay = delay_of(t, &victim, declares_again);
        cr_expect(delay >= DS_NS_PER_S / 2 && delay <= 2 * DS_NS_PER_S, "after 4 s: %.2f s", (double)delay * 1e-9);
        crowd_close(t);
        wt_wall += 60 * DS_NS_PER_S;
        crowd_open(t, 1);
        delay = delay_of(t, &victim, declares_again);
        cr_expect(delay >= 4 * DS_NS_PER_S && delay <= DSW_HOLD_USER_NS + STEP_NS, "after a minute: %.2f s",
                (double)delay * 1e-9);
        crowd_close(t);
        wt_client_close(t, &victim);
        wt_close(t);
}
