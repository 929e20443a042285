/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flow control towards the supervisor: a worker whose answers nobody reads stops taking work and loses none of it
 *
 * Twenty sessions with 64 open reads of 60 KB each request 77 MB, more than the worker may queue.
 */
#include "tests/unit/worker_harness.h"
#include "worker/internal.h"

#define SESSIONS 20
#define READS 64
#define BYTES 60000u
/* bytes that the worker queues at most: one answer above its mark, and the messages that end a session */
#define QUEUED_MAX (DS_KIB(32) + 2 * DS_WORKER_FRAME_MAX)

struct flow {
        struct wt *t;
        struct wt_client clients[SESSIONS];
        uint64_t address[SESSIONS];
        uint64_t first; /* id of the first read */
};

static void flow_open(struct flow *flow)
{
        uint8_t pattern[1024];

        flow->t = wt_open(FUNCTIONAL);
        for (unsigned i = 0; i < SESSIONS; i++) {
                flow->clients[i] = wt_client(flow->t, i + 1, DETSHARE__CLASS__BE);
                cr_assert_eq(wt_alloc(flow->t, &flow->clients[i], BYTES, &flow->address[i]), 0);
                memset(pattern, (int)i + 1, sizeof(pattern));
                cr_assert_eq(wt_write(flow->t, &flow->clients[i], flow->address[i], pattern, sizeof(pattern)), 0);
        }
}

static void flow_ask(struct flow *flow)
{
        flow->first = flow->t->next_id;
        for (unsigned k = 0; k < READS; k++)
                for (unsigned i = 0; i < SESSIONS; i++) {
                        WT_REQUEST(ask, READ, read, Read, READ, .src = flow->address[i], .bytes = BYTES);

                        wt_send_call(flow->t, &flow->clients[i], &ask);
                }
}

/* Runs rounds of the worker without reading its answers. */
static void flow_deaf_turns(struct flow *flow, int n)
{
        for (int i = 0; i < n; i++) {
                cr_assert_eq(ds_conn_flush(flow->t->conn), 0);
                cr_assert_eq(ds_worker_turn(flow->t->worker, 0), 0);
                cr_assert_leq(ds_conn_queued(flow->t->worker->conn), QUEUED_MAX);
        }
}

/* Reads answers until each request was answered once, with the right bytes. */
static void flow_listen(struct flow *flow)
{
        static uint8_t seen[SESSIONS * READS];
        double until = wt_machine_s() + WT_WAIT_S;
        unsigned n = 0;

        memset(seen, 0, sizeof(seen));
        while (n < SESSIONS * READS && wt_machine_s() < until) {
                cr_assert_eq(ds_conn_flush(flow->t->conn), 0);
                wt_turn(flow->t, 0);
                while (flow->t->n_stash) {
                        uint64_t id = flow->t->stash[0]->id;
                        wt_answer *answer = wt_take(flow->t, id);
                        uint64_t at = id - flow->first;

                        /* messages that are not answers have id 0 */
                        if (!id) {
                                wt_free(answer);
                                continue;
                        }
                        cr_assert_lt(at, SESSIONS * READS);
                        cr_assert_eq(answer->reply->status, 0);
                        cr_assert_eq(answer->reply->read->data.len, BYTES);
                        cr_assert_eq(answer->reply->read->data.data[1023], at % SESSIONS + 1);
                        cr_assert_eq(seen[at]++, 0);
                        wt_free(answer);
                        n++;
                }
        }
        cr_assert_eq(n, SESSIONS * READS, "%u answers", n);
}

Test(worker_flow, holds_back_and_loses_nothing, .timeout = 120)
{
        struct flow flow;

        flow_open(&flow);
        flow_ask(&flow);
        flow_deaf_turns(&flow, 500);
        cr_assert(dsw_message_full(flow.t->worker));
        cr_assert_not_null(flow.t->worker->late);
        flow_listen(&flow);
        cr_assert_null(flow.t->worker->late);
        for (unsigned i = 0; i < SESSIONS; i++)
                wt_client_close(flow.t, &flow.clients[i]);
        wt_close(flow.t);
}

/* Closing sessions that still have unread answers affects no other session. */
Test(worker_flow, late_sessions_close, .timeout = 120)
{
        struct flow flow;
        wt_answer *answer;
        unsigned n = 0;
        uint64_t first;

        flow_open(&flow);
        flow_ask(&flow);
        flow_deaf_turns(&flow, 500);
        first = flow.t->next_id;
        for (unsigned i = 0; i < SESSIONS; i++)
                wt_send_close(flow.t, &flow.clients[i]);
        flow_deaf_turns(&flow, 100);
        for (double until = wt_machine_s() + WT_WAIT_S; n < SESSIONS && wt_machine_s() < until;) {
                cr_assert_eq(ds_conn_flush(flow.t->conn), 0);
                wt_turn(flow.t, 0);
                for (; flow.t->n_stash; wt_free(answer)) {
                        answer = wt_take(flow.t, flow.t->stash[0]->id);
                        /* the answers to the reads are ignored here */
                        if (answer->id < first)
                                continue;
                        cr_assert_eq(answer->status, 0);
                        n++;
                }
        }
        cr_assert_eq(n, SESSIONS, "%u closed", n);
        for (unsigned i = 0; i < SESSIONS; i++)
                wt_client_unmap(&flow.clients[i]);
        cr_assert_null(flow.t->worker->late);
        wt_close(flow.t);
}
