/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker for targets that drive one: the unit tests' harness, on a simulated device that only keeps time
 *
 * However a history ends, the remaining sessions are closed, each close is acknowledged, and then the worker holds
 * nothing: no session, module, slab or operation.
 */
#pragma once

#define WT_WAIT_S 30.0
#include "tests/fuzz/fuzz.h"
#include "tests/unit/worker_harness.h"

#define RIG_CLOSE_ROUNDS 600

static inline void rig_drop_unasked(struct wt *t)
{
        for (wt_answer *answer; (answer = wt_take(t, 0));) {
                FUZZ_CHECK(answer->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_FAULT ||
                           answer->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_READY ||
                           answer->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_PROFILE_SEEN ||
                           answer->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_PROFILE_REFINED ||
                           answer->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_FORMS_WANTED ||
                           (answer->ledger && answer->ledger->reset));
                wt_free(answer);
        }
}

static inline void rig_expect_empty(struct wt *t)
{
        Detshare__Internal__WorkerStatsReply stats = wt_worker_stats(t);

        FUZZ_CHECK(stats.sessions == 0 && stats.modules == 0 && stats.memory_slabs == 0 && stats.memory_used == 0);
        FUZZ_CHECK(stats.queued == 0 && stats.in_flight == 0);
}

/* Closes the session while the worker's real time advances. A client that holds the virtual clock loses it. */
static inline void rig_close_client(struct wt *t, struct wt_client *client)
{
        uint64_t id = wt_send_close(t, client);
        wt_answer *answer = NULL;

        for (int i = 0; i < RIG_CLOSE_ROUNDS && !(answer = wt_take(t, id)); i++) {
                wt_settle(t);
                if (i > 5)
                        wt_turn(t, 1); /* a thread of the session may still be busy */
                wt_wall += 6 * DS_NS_PER_S;
        }
        FUZZ_CHECK(answer && answer->status == 0);
        wt_free(answer);
        wt_client_unmap(client);
        *client = (struct wt_client){.ring_fd = -1};
}

static inline struct wt *rig_open(void)
{
        fuzz_quiet();
        wt_wall = DS_NS_PER_S;
        wt_life = 100;
        return wt_open(TIMING);
}
