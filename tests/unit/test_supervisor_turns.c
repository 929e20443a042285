/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Round robin between users, however many connections each has; nobody is served while the worker is busy
 *
 * Beside others a user has its share of time. On every machine the cost of its requests, times the number of shares, is
 * at most the elapsed time plus the permitted advance.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "supervisor/turns.h"
#include "util/macro.h"

#define USERS 3
#define EACH 40 /* connections per user */
#define MANY 5  /* requests per connection */

static struct {
        uv_loop_t loop;
        struct ds_deadlines deadlines;
        struct ds_turns turns;
        struct ds_turn_line lines[USERS];
        struct connection {
                struct ds_turn turn;
                unsigned user, left;
        } connections[USERS][EACH];
        int may, asked;
        unsigned served[USERS], total;
        uint64_t cost_ns; /* cost of each request, ns */
        char order[USERS * EACH * MANY + 1];
} fx;

static int may(void *user)
{
        cr_assert_eq(user, &fx);
        fx.asked++;
        return fx.may;
}

static void serve(struct ds_turn *turn)
{
        struct connection *connection = DS_CONTAINER_OF(turn, struct connection, turn);
        const uint64_t until = uv_hrtime() + fx.cost_ns;

        cr_assert(!turn->waiting);
        while (uv_hrtime() < until)
                continue;
        fx.served[connection->user]++;
        if (fx.total < sizeof(fx.order) - 1)
                fx.order[fx.total] = (char)('a' + connection->user);
        fx.total++;
        if (--connection->left)
                ds_turns_wait(&fx.turns, &fx.lines[connection->user], turn);
}

static void setup(void)
{
        memset(&fx, 0, sizeof(fx));
        fx.may = 1;
        cr_assert_eq(uv_loop_init(&fx.loop), 0);
        cr_assert_eq(ds_deadlines_init(&fx.deadlines, &fx.loop), 0);
        cr_assert_eq(ds_turns_init(&fx.turns, &fx.loop, &fx.deadlines, may, &fx), 0);
        for (unsigned u = 0; u < USERS; u++)
                ds_turn_line_init(&fx.lines[u], 1000 + u, 0);
}

static void teardown(void)
{
        for (unsigned u = 0; u < USERS; u++)
                ds_turn_line_deinit(&fx.lines[u]);
        ds_turns_deinit(&fx.turns);
        ds_deadlines_deinit(&fx.deadlines);
        uv_run(&fx.loop, UV_RUN_DEFAULT);
        cr_assert_eq(uv_loop_close(&fx.loop), 0);
}

/* n connections of that user send `times` requests each. */
static void ask(unsigned user, unsigned n, unsigned times)
{
        for (unsigned i = 0; i < n; i++) {
                struct connection *connection = &fx.connections[user][i];

                connection->turn.serve = serve;
                connection->user = user;
                connection->left = times;
                ds_turns_wait(&fx.turns, &fx.lines[user], &connection->turn);
        }
}

TestSuite(turns, .init = setup, .fini = teardown, .timeout = 60);

/* One connection of a user gets as much service as forty of another. */
Test(turns, users_alternate)
{
        ask(0, EACH, MANY);
        ask(1, 1, MANY);
        ask(2, 2, MANY);
        uv_run(&fx.loop, UV_RUN_DEFAULT);
        cr_assert_eq(fx.served[0], EACH * MANY);
        cr_assert_eq(fx.served[1], MANY);
        cr_assert_eq(fx.served[2], 2 * MANY);
        cr_assert_eq(strncmp(fx.order, "abcabcabcabcabcacacacacacaaaa", 29), 0, "%.40s", fx.order);
}

/* The connections of a user are served round robin. */
Test(turns, connections_alternate)
{
        ask(0, EACH, 2);
        uv_run(&fx.loop, UV_RUN_ONCE);
        cr_assert_gt(fx.total, 0);
        for (unsigned i = 0; i < EACH && i < fx.total; i++)
                cr_assert_eq(fx.connections[0][i].left, fx.total > EACH + i ? 0 : 1, "connection %u", i);
        uv_run(&fx.loop, UV_RUN_DEFAULT);
        cr_assert_eq(fx.total, 2 * EACH);
}

/* While the worker is busy the loop does not spin, and no request is lost. */
Test(turns, wait_while_nobody_may)
{
        fx.may = 0;
        ask(0, 1, 1);
        ask(1, 1, 1);
        for (int i = 0; i < 10; i++)
                uv_run(&fx.loop, UV_RUN_NOWAIT);
        cr_assert_eq(fx.total, 0);
        cr_assert(!uv_is_active((uv_handle_t *)&fx.turns.idle));
        cr_assert(uv_is_active((uv_handle_t *)&fx.turns.check));
        fx.may = 1;
        uv_run(&fx.loop, UV_RUN_NOWAIT);
        cr_assert_eq(fx.total, 2);
        uv_run(&fx.loop, UV_RUN_DEFAULT);
        cr_assert(!uv_is_active((uv_handle_t *)&fx.turns.check));
}

Test(turns, removed_users_are_not_served)
{
        ask(0, 2, 1);
        ask(1, 1, 1);
        ds_turns_forget(&fx.turns, &fx.lines[0], &fx.connections[0][0].turn);
        ds_turns_forget(&fx.turns, &fx.lines[0], &fx.connections[0][0].turn);
        ds_turns_forget(&fx.turns, &fx.lines[1], &fx.connections[1][0].turn);
        ds_turns_wait(&fx.turns, &fx.lines[0], &fx.connections[0][1].turn);
        uv_run(&fx.loop, UV_RUN_DEFAULT);
        cr_assert_eq(fx.total, 1);
        cr_assert_eq(fx.connections[0][1].left, 0);
}

/* Runs for ns, while user 1 sends a request now and then. Returns the elapsed time, ns. */
static uint64_t run_beside(uint64_t ns)
{
        const uint64_t begin = uv_hrtime();
        uint64_t asked = 0;

        while (uv_hrtime() - begin < ns) {
                if (uv_hrtime() - asked > 5 * DS_NS_PER_MS) {
                        ask(1, 1, 1);
                        asked = uv_hrtime();
                }
                uv_run(&fx.loop, UV_RUN_NOWAIT);
        }
        return uv_hrtime() - begin;
}

Test(turns, a_flood_has_its_share)
{
        uint64_t passed;

        fx.cost_ns = 50 * DS_NS_PER_US;
        ask(0, EACH, 1000000);
        ask(1, 1, 1);
        passed = run_beside(900 * DS_NS_PER_MS);
        cr_assert_gt(fx.served[0], 0);
        cr_assert_gt(fx.served[1], 3);
        cr_assert_leq(4 * fx.served[0] * fx.cost_ns, passed + 4 * fx.cost_ns + 120 * DS_NS_PER_MS, "%u in %llu us",
                fx.served[0], (unsigned long long)(passed / 1000));
        for (unsigned i = 0; i < EACH; i++)
                ds_turns_forget(&fx.turns, &fx.lines[0], &fx.connections[0][i].turn);
        uv_run(&fx.loop, UV_RUN_DEFAULT);
}

/* A user that is alone has all of the time. */
Test(turns, alone_has_all)
{
        fx.cost_ns = 50 * DS_NS_PER_US;
        ask(0, EACH, MANY);
        while (fx.total < EACH * MANY) {
                cr_assert(!ds_deadline_armed(&fx.turns.due));
                cr_assert(uv_is_active((uv_handle_t *)&fx.turns.idle));
                uv_run(&fx.loop, UV_RUN_NOWAIT);
        }
        uv_run(&fx.loop, UV_RUN_DEFAULT);
}

/* A user whose last connection has ended comes again with another line: it competes with nobody. */
Test(turns, alone_with_another_line)
{
        ask(0, 1, 1);
        uv_run(&fx.loop, UV_RUN_DEFAULT);
        ds_turn_line_deinit(&fx.lines[0]);
        ds_turn_line_deinit(&fx.lines[1]);
        ds_turn_line_init(&fx.lines[1], 1000, 0);
        ask(1, 1, 1);
        uv_run(&fx.loop, UV_RUN_DEFAULT);
        cr_assert_eq(fx.total, 2);
        cr_assert_eq(fx.turns.shared_ns, 0);
        ask(2, 1, 1);
        uv_run(&fx.loop, UV_RUN_DEFAULT);
        cr_assert_neq(fx.turns.shared_ns, 0);
}

/* The time that answers of a user's requests take counts against the user's share as well. */
Test(turns, answers_count)
{
        const uint64_t now = uv_hrtime();

        ask(0, 1, 1);
        ask(1, 1, 1);
        uv_run(&fx.loop, UV_RUN_NOWAIT);
        cr_assert_eq(fx.total, 2);
        ds_turns_spent(&fx.turns, &fx.lines[0], now, 60 * DS_NS_PER_MS);
        cr_assert_geq(fx.lines[0].due_ns, now + 40 * DS_NS_PER_MS - 1);
        ask(0, 1, 1);
        uv_run(&fx.loop, UV_RUN_NOWAIT);
        uv_run(&fx.loop, UV_RUN_NOWAIT);
        cr_assert_eq(fx.total, 2);
        cr_assert(ds_deadline_armed(&fx.turns.due));
        uv_run(&fx.loop, UV_RUN_DEFAULT);
        cr_assert_eq(fx.total, 3);
}

/* However much time a user had while alone, it is served again soon after another one comes. */
Test(turns, a_debt_is_bounded)
{
        const uint64_t now = uv_hrtime();

        ds_turns_spent(&fx.turns, &fx.lines[0], now, 600 * DS_NS_PER_S);
        cr_assert_leq(fx.lines[0].due_ns, now + DS_NS_PER_S / 4);
        fx.turns.shared_ns = now;
        ask(0, 1, 1);
        uv_run(&fx.loop, UV_RUN_DEFAULT);
        cr_assert_eq(fx.total, 1);
        cr_assert_lt(uv_hrtime() - now, 60 * DS_NS_PER_S);
}
