/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that a restart hands over when room is scarce
 *
 * Whatever one user has, another user keeps the content of an equal share: files, bytes of names, bytes of state, time.
 * Others get what a user does not need. Within a user the smallest sessions come first. Then thousands of random users,
 * checked against the promise of handover_fair.h.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/handover_fair.h"
#include "util/macro.h"

#define SESSIONS_MAX 64
#define MS DS_NS_PER_MS

static const struct ds_fair_room limits = {.of = {1000, 8000, 100000}};

/* Outcome for a session whose files take this long each. */
struct outcome {
        int done, refused;
        unsigned turns;
        uint64_t spent_ns, at; /* at: position of the session among all sessions in the order of completion, from 1 */
};

static struct ds_fair_session session(uint32_t uid, uint64_t files)
{
        return (struct ds_fair_session){.uid = uid, .need = {.of = {files, files * 8, files * 100}}};
}

/* Handles the sessions in turn; took_ns[i] is the total time of session i. Returns the remaining time, ns. */
static uint64_t run(const struct ds_fair_session *sessions, size_t n, const uint64_t *took_ns, uint64_t left_ns,
        struct outcome *out)
{
        uint64_t turn_ns, at = 0;
        ds_fair *fair = NULL;
        size_t i;
        int r;

        memset(out, 0, n * sizeof(*out));
        cr_assert_eq(ds_fair_new(sessions, n, &limits, &fair), 0);
        while ((r = ds_fair_next(fair, left_ns, &i, &turn_ns)) != DS_FAIR_E_END) {
                cr_assert_lt(i, n);
                cr_assert(!out[i].done && !out[i].refused, "session %zu comes again", i);
                if (r == DS_FAIR_E_FULL) {
                        out[i].refused = 1;
                        continue;
                }
                uint64_t want = took_ns ? took_ns[i] - out[i].spent_ns : 0, took = DS_MIN(want, turn_ns);

                took = DS_MIN(took, left_ns);
                cr_assert_gt(turn_ns, 0);
                out[i].turns++;
                out[i].spent_ns += took;
                left_ns -= took;
                out[i].done = want == took;
                out[i].at = out[i].done ? ++at : 0;
                ds_fair_took(fair, took, out[i].done);
        }
        ds_fair_free(fair);
        return left_ns;
}

Test(fair, nobody_and_nothing)
{
        ds_fair *fair = NULL;
        uint64_t turn;
        size_t i;

        cr_assert_eq(ds_fair_new(NULL, 0, &limits, &fair), 0);
        cr_assert_eq(ds_fair_next(fair, MS, &i, &turn), DS_FAIR_E_END);
        ds_fair_free(fair);
        cr_assert_null(ds_fair_free(NULL));
}

Test(fair, the_smallest_come_first)
{
        const struct ds_fair_session sessions[] = {session(1, 30), session(1, 10), session(1, 20)};
        struct outcome out[3];

        run(sessions, 3, NULL, MS, out);
        cr_assert(out[1].at == 1 && out[2].at == 2 && out[0].at == 3);
}

Test(fair, one_user_pushes_nobody_out)
{
        struct ds_fair_session sessions[12];
        struct outcome out[12];

        /* ten early sessions of 400 files each, and two users with an equal share or less */
        for (int i = 0; i < 10; i++)
                sessions[i] = session(1, 400);
        sessions[10] = session(2, 333);
        sessions[11] = session(3, 5);
        run(sessions, 12, NULL, MS, out);
        cr_assert(out[10].done && out[11].done);
        cr_assert(out[0].done, "what the others do not need is its user's");
        for (int i = 1; i < 10; i++)
                cr_assert(out[i].refused);
}

Test(fair, root_is_a_user_as_any)
{
        const struct ds_fair_session sessions[] = {session(0, 900), session(7, 400)};
        struct outcome out[2];

        run(sessions, 2, NULL, MS, out);
        cr_assert(out[0].refused && out[1].done);
}

Test(fair, every_resource_counts)
{
        struct ds_fair_session sessions[] = {session(1, 2), session(2, 2), session(3, 3), session(4, 4)};
        struct outcome out[4];

        sessions[0].need.of[DS_FAIR_STATE] = 99000;
        sessions[1].need.of[DS_FAIR_STATE] = 25000;
        sessions[2].need.of[DS_FAIR_NAMES] = 7900;
        run(sessions, 4, NULL, MS, out);
        cr_assert(out[1].done && out[3].done && out[2].done && out[0].refused);
        sessions[0].need.of[DS_FAIR_STATE] = UINT64_MAX / 2;
        run(sessions, 4, NULL, MS, out);
        cr_assert(out[1].done && out[3].done && out[2].done && out[0].refused);
}

Test(fair, a_slow_one_waits_for_the_others)
{
        /* the first session comes first because of its number of files; the other two are not slow */
        const struct ds_fair_session sessions[] = {session(1, 5), session(2, 50), session(3, 60)};
        const uint64_t took[] = {20000 * MS, 900 * MS, 300 * MS}, enough[] = {1700 * MS, 900 * MS, 300 * MS};
        struct outcome out[3];

        cr_assert_eq(run(sessions, 3, took, 3000 * MS, out), 0);
        cr_assert(out[1].done && out[2].done && !out[0].done && !out[0].refused);
        cr_assert_eq(out[0].spent_ns, 1800 * MS, "what the others leave is its own");
        cr_assert(out[0].turns == 2 || out[0].turns == 3);
        cr_assert_eq(run(sessions, 3, enough, 3000 * MS, out), 100 * MS);
        cr_assert(out[0].done && out[1].done && out[2].done);
        cr_assert_eq(out[0].at, 3);
}

Test(fair, two_slow_ones_get_the_same)
{
        const struct ds_fair_session sessions[] = {session(1, 5), session(2, 50), session(3, 60)};
        const uint64_t took[] = {9000 * MS, 9000 * MS, 200 * MS};
        struct outcome out[3];

        cr_assert_eq(run(sessions, 3, took, 3000 * MS, out), 0);
        cr_assert(out[2].done);
        cr_assert_geq(out[0].spent_ns, 1390 * MS);
        cr_assert_geq(out[1].spent_ns, 1390 * MS);
}

Test(fair, a_user_has_its_share_for_all_its_sessions)
{
        struct ds_fair_session sessions[SESSIONS_MAX];
        struct outcome out[SESSIONS_MAX];
        uint64_t took[SESSIONS_MAX];

        for (int i = 0; i < SESSIONS_MAX - 1; i++) {
                sessions[i] = session(1, 2);
                took[i] = 500 * MS;
        }
        sessions[SESSIONS_MAX - 1] = session(2, 300);
        took[SESSIONS_MAX - 1] = 1400 * MS;
        cr_assert_eq(run(sessions, SESSIONS_MAX, took, 3000 * MS, out), 0);
        cr_assert(out[SESSIONS_MAX - 1].done);
}

/* --- random users ------------------------------------------------------------------------------------------------- */

static uint64_t random_next(uint64_t *state)
{
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        return *state * UINT64_C(2685821657736338717);
}

static unsigned count_users(const struct ds_fair_session *sessions, size_t n)
{
        unsigned users = 0;

        for (size_t i = 0; i < n; i++) {
                size_t k = 0;

                while (sessions[k].uid != sessions[i].uid)
                        k++;
                users += k == i;
        }
        return users;
}

/* 1: all sessions of this user together need at most an equal share, so each must be handed over. */
static int fits(const struct ds_fair_session *sessions, const uint64_t *took, size_t n, uint32_t uid, uint64_t ns)
{
        const unsigned users = count_users(sessions, n);
        struct ds_fair_room sum = {.of = {0}};
        uint64_t time = 0;

        for (size_t i = 0; i < n; i++) {
                if (sessions[i].uid != uid)
                        continue;
                for (int kind = 0; kind < _DS_FAIR_MAX; kind++)
                        sum.of[kind] += sessions[i].need.of[kind];
                time += took[i];
        }
        for (int kind = 0; kind < _DS_FAIR_MAX; kind++)
                if (sum.of[kind] > limits.of[kind] / users)
                        return 0;
        /* another user's short turn may have taken the last ms of a level */
        return time + users * DS_FAIR_TURN_MIN_NS <= ns / users;
}

Test(fair, an_equal_share_is_everybodys)
{
        struct ds_fair_session sessions[SESSIONS_MAX];
        struct outcome out[SESSIONS_MAX];
        uint64_t took[SESSIONS_MAX], state = 88172645463325252ull, promised = 0;

        for (int round = 0; round < 3000; round++) {
                size_t n = 1 + random_next(&state) % SESSIONS_MAX;
                unsigned users = 1 + random_next(&state) % 5;
                struct ds_fair_room sum = {.of = {0}};

                for (size_t i = 0; i < n; i++) {
                        sessions[i] = session(random_next(&state) % users, 1 + random_next(&state) % 40);
                        sessions[i].need.of[DS_FAIR_STATE] = random_next(&state) % 6000;
                        took[i] = random_next(&state) % (sessions[i].uid ? 60 : 600) * MS;
                }
                run(sessions, n, took, 3000 * MS, out);
                for (size_t i = 0; i < n; i++) {
                        for (int kind = 0; kind < _DS_FAIR_MAX; kind++)
                                sum.of[kind] += out[i].done ? sessions[i].need.of[kind] : 0;
                        if (!fits(sessions, took, n, sessions[i].uid, 3000 * MS))
                                continue;
                        promised++;
                        cr_assert(out[i].done, "round %d: session %zu of user %u", round, i, sessions[i].uid);
                }
                for (int kind = 0; kind < _DS_FAIR_MAX; kind++)
                        cr_assert_leq(sum.of[kind], limits.of[kind]);
        }
        cr_assert_gt(promised, 1000);
}
