/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One user's share of the worker's rounds, however many sessions the user has
 *
 * One user keeps the rings of many sessions full, another has a single session. A round takes a bounded number of
 * records per user, and serves every session of the user. It checks a bounded number of awaited values. Virtual time
 * advances beside rings that are never empty. The policy gets the other user's events without delay. A user has a
 * bounded number of streams with work, because a policy looks at each of them.
 */
#include "sched/internal.h"
#include "tests/unit/worker_harness.h"
#include "worker/internal.h"

#define CROWD 32u
#define GREEDY_UID 1000
#define OTHER_UID 1001

static struct wt *t;
static struct wt_client crowd[CROWD], other;

static void setup(void)
{
        t = wt_open(FUNCTIONAL);
        wt_uid = GREEDY_UID;
        for (uint32_t i = 0; i < CROWD; i++) {
                crowd[i] = wt_client(t, 1 + i, DETSHARE__CLASS__BE);
                wt_attach(t, &crowd[i]);
        }
        wt_uid = OTHER_UID;
        other = wt_client(t, 100, DETSHARE__CLASS__BE);
        wt_attach(t, &other);
        wt_settle(t);
}

static void teardown(void)
{
        wt_tick = 0;
        wt_uid = 0;
        for (uint32_t i = 0; i < CROWD; i++)
                wt_client_unmap(&crowd[i]);
        wt_client_unmap(&other);
        wt_close(t);
}

TestSuite(worker_turns, .init = setup, .fini = teardown, .timeout = 60);

static void fill(struct wt_client *client)
{
        while (wt_ring_room(client))
                wt_push_event(client, 0, 0);
}

static uint64_t taken(const struct wt_client *clients, uint32_t n)
{
        uint64_t sum = 0;

        for (uint32_t i = 0; i < n; i++)
                sum += atomic_load(&clients[i].page->head);
        return sum;
}

/* Each reading of the clock advances real time, so that the worker's rounds end early. */
Test(worker_turns, a_user_with_many_sessions_gets_one_share)
{
        uint64_t before;

        for (uint32_t i = 0; i < CROWD; i++)
                fill(&crowd[i]);
        fill(&other);
        wt_tick = DS_NS_PER_MS;
        wt_turn(t, 0);
        before = taken(crowd, CROWD);
        cr_assert_leq(before, 2 * DSW_RING_BATCH, "%llu records of one user in a turn", (unsigned long long)before);
        cr_assert_eq(taken(&other, 1), before, "the other user gets as much");
        for (uint32_t i = 0; i < CROWD; i++)
                wt_turn(t, 0);
        for (uint32_t i = 0; i < CROWD; i++)
                cr_assert_gt(taken(&crowd[i], 1), 0, "session %u has had no turn", i);
}

/* A request carries the tail of its session's ring; reading up to it does not raise the user's share. */
Test(worker_turns, a_request_takes_no_more_than_the_share)
{
        WT_REQUEST(query, QUERY, query, Query, QUERY, .stream = 0);
        uint64_t ids[CROWD];

        for (uint32_t i = 0; i < CROWD; i++) {
                fill(&crowd[i]);
                ids[i] = wt_send_call(t, &crowd[i], &query);
        }
        wt_tick = DS_NS_PER_MS;
        wt_turn(t, 0);
        cr_assert_leq(taken(crowd, CROWD), 5 * DSW_RING_BATCH, "of %u", CROWD * DS_RING_SLOTS);
        wt_tick = 0;
        for (uint32_t i = 0; i < CROWD; i++)
                cr_assert_eq(wt_status(t, ids[i]), 0);
}

Test(worker_turns, time_passes_beside_rings_that_are_never_empty)
{
        uint64_t module, spin, p, begin;

        cr_assert_eq(wt_alloc(t, &other, 100, &p), 0);
        cr_assert_eq(wt_module(t, &other, DT_PTX, &module), 0);
        spin = wt_kernel(t, &other, module, "poke");
        begin = atomic_load(&other.page->completed);
        wt_tick = DS_NS_PER_US * 50;
        wt_push_poke(&other, 0, spin, p, 4711);
        for (int i = 0; i < 2000 && atomic_load(&other.page->completed) == begin; i++) {
                for (uint32_t k = 0; k < CROWD; k++)
                        fill(&crowd[k]);
                wt_turn(t, 0);
        }
        cr_assert_gt(atomic_load(&other.page->completed), begin, "its kernel does not end");
}

static void wait_for_value(struct wt_client *client, uint32_t stream, uint64_t address)
{
        struct ds_record_value record = {.head = {DS_RECORD_VALUE, (uint16_t)stream, sizeof(record)},
                .kind = DS_VALUE_EQ,
                .bytes = 4,
                .address = address,
                .value = 4711};

        wt_push(client, &record, sizeof(record));
}

/* A user has streams that wait for values which never come, and the limit on the number of such streams applies. */
Test(worker_turns, a_user_has_a_bounded_number_of_streams_with_work)
{
        struct dsw_session *session = dsw_session_find(t->worker, crowd[0].id);
        uint32_t streams[450];
        uint64_t p[3];

        for (uint32_t i = 0; i < 3; i++) {
                cr_assert_eq(wt_alloc(t, &crowd[i], 4096, &p[i]), 0);
                for (uint32_t n = 1; n < DS_ARRAY_SIZE(streams); n++)
                        cr_assert_eq(wt_stream(t, &crowd[i], &streams[n]), 0);
                for (uint32_t n = 1; n < DS_ARRAY_SIZE(streams); n++)
                        wait_for_value(&crowd[i], streams[n], p[i]);
        }
        wt_settle(t);
        cr_assert_eq(session->user->n_streams, DSW_USER_STREAMS_MAX);
        cr_assert_lt(atomic_load(&crowd[2].page->head), crowd[2].tail, "the last ring is not read further");
        /* closing one of them makes room */
        wt_client_close(t, &crowd[0]);
        crowd[0] = wt_client(t, 200, DETSHARE__CLASS__BE);
        wt_attach(t, &crowd[0]);
        wt_settle(t);
        cr_assert_eq(atomic_load(&crowd[2].page->head), crowd[2].tail);
}

Test(worker_turns, looks_at_values_are_bounded)
{
        struct dsw_session *session = dsw_session_find(t->worker, crowd[0].id);
        uint64_t before;

        for (uint32_t i = 0; i < 3; i++)
                dsw_turns_spend_looks(session, 100);
        cr_assert_eq(dsw_turns_looks(session), 0);
        before = t->worker->turn;
        wt_turn(t, 0);
        cr_assert_gt(t->worker->turn, before);
        cr_assert_eq(dsw_turns_looks(session), DSW_VALUE_BATCH, "a new round");
}

/* Many sessions of one user have pending events; the policy gets the other user's event as the second one. */
Test(worker_turns, the_policy_hears_of_users_in_turn)
{
        struct dsw_session *greedy = dsw_session_find(t->worker, crowd[0].id);
        struct dsw_session *good = dsw_session_find(t->worker, other.id);
        ds_sched *sched = t->worker->sched;
        static struct ds_sched_event events[100], late;
        struct ds_sched_event *event;
        uint32_t before = 0;

        for (uint32_t i = 0; i < DS_ARRAY_SIZE(events); i++) {
                events[i] = (struct ds_sched_event){.session = greedy->sched};
                ds_sched_event_post(sched, &events[i]);
        }
        late = (struct ds_sched_event){.session = good->sched};
        ds_sched_event_post(sched, &late);
        for (uint32_t i = 0; (event = ds_sched_event_pop(sched)); i++) {
                ds_sched_event_told(event->session);
                if (event == &late)
                        before = i;
                else
                        cr_assert_eq(event, &events[i - (i > before && before)], "in order within a user");
        }
        cr_assert_leq(before, 1);
}
