/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies and clients through the worker: clients report that they have results, and policies set memory caps
 */
#include "tests/unit/worker_harness.h"

#include "policies/detshare_policy.h"

static uint32_t events[16];
static struct detshare_session_view seen; /* view of the session in the last event */
static uint32_t op_phase;                 /* phase of the head of the oldest coroutine, if there was one */
static uint64_t seen_free, seen_total, total_memory, cap;

__attribute__((__visibility__("default"))) int probe_decide(
        void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision);

int probe_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        (void)state;
        events[snapshot->event % 16]++;
        if (snapshot->event_session < snapshot->n_sessions)
                seen = snapshot->sessions[snapshot->event_session];
        if (snapshot->n_coroutines && snapshot->coroutines[0].n_ahead)
                op_phase = snapshot->coroutines[0].ahead[0].phase;
        seen_free = snapshot->memory_free;
        seen_total = snapshot->memory_total;
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (cap)
                        decision->actions[decision->n++] = (struct detshare_action){
                                .kind = DETSHARE_ACTION_MEMORY_CAP, .coroutine = coroutine->id, .bytes = cap};
                if (coroutine->ready)
                        decision->actions[decision->n++] = (struct detshare_action){
                                .kind = DETSHARE_ACTION_LAUNCH, .coroutine = coroutine->id, .count = 1};
        }
        return 0;
}

static void say_synchronised(struct wt_client *client, uint64_t number)
{
        uint64_t one = 1;

        atomic_store(&((struct ds_ring_header *)(void *)client->ring)->synchronised, number);
        if (atomic_load(&client->page->asleep))
                cr_assert_eq(write(client->event_fd, &one, sizeof(one)), sizeof(one));
}

static uint64_t accepted(const struct wt_client *client)
{
        return atomic_load(&client->page->accepted);
}

static void write_something(struct wt *t, struct wt_client *client, uint64_t address)
{
        uint64_t value = 1;

        cr_assert_eq(wt_write(t, client, address, &value, sizeof(value)), 0);
        cr_assert_eq(wt_sync_all(t, client), 0);
        wt_settle(t);
}

Test(worker_policy, a_client_has_its_results)
{
        struct wt *t = wt_open_policy("sim:h200", "probe", wt_policies());
        struct wt_client client = wt_client(t, 7, DETSHARE__CLASS__LS);
        uint64_t address;

        wt_attach(t, &client);
        cr_assert_eq(wt_alloc(t, &client, 4096, &address), 0);
        write_something(t, &client, address);
        cr_assert_gt(accepted(&client), 0);
        cr_assert_eq(events[DETSHARE_EVENT_SYNCHRONISED], 0, "it has not said so");
        cr_assert_eq(events[DETSHARE_EVENT_REQUEST_END], 1);
        say_synchronised(&client, accepted(&client));
        wt_settle(t);
        cr_assert_eq(events[DETSHARE_EVENT_SYNCHRONISED], 1);
        cr_assert_eq(seen.id, 7);
        cr_assert_eq(seen.synchronised, 1);
        cr_assert_eq(seen.request_active, 0);
        wt_settle(t);
        cr_assert_eq(events[DETSHARE_EVENT_SYNCHRONISED], 1, "once");
        /* a client that reports an old number, a future one, or the same one after more work, reports nothing */
        write_something(t, &client, address);
        cr_assert_eq(seen.synchronised, 0);
        say_synchronised(&client, accepted(&client) - 1);
        wt_settle(t);
        say_synchronised(&client, accepted(&client) + 1000);
        wt_settle(t);
        cr_assert_eq(events[DETSHARE_EVENT_SYNCHRONISED], 1);
        say_synchronised(&client, accepted(&client));
        wt_settle(t);
        cr_assert_eq(events[DETSHARE_EVENT_SYNCHRONISED], 2);
        wt_client_close(t, &client);
        wt_close(t);
}

static uint64_t free_memory(struct wt *t, struct wt_client *client)
{
        wt_request request = DETSHARE__REQUEST__INIT;
        Detshare__MemInfo ask = DETSHARE__MEM_INFO__INIT;
        wt_answer *answer;
        uint64_t free;

        request.call_case = DETSHARE__REQUEST__CALL_MEM_INFO;
        request.mem_info = &ask;
        answer = wt_call(t, client, &request);
        free = answer->reply->mem_info->free;
        total_memory = answer->reply->mem_info->total;
        wt_free(answer);
        return free;
}

Test(worker_policy, memory_is_capped_as_long_as_the_policy_is_there)
{
        struct wt *t = wt_open_policy("sim:h200", "probe", wt_policies());
        struct wt_client client = wt_client(t, 7, DETSHARE__CLASS__BE), other = wt_client(t, 8, DETSHARE__CLASS__BE);
        uint64_t address, more;

        wt_attach(t, &client);
        wt_attach(t, &other);
        cr_assert_eq(wt_alloc(t, &client, DS_MIB(1), &address), 0);
        cap = DS_MIB(3);
        write_something(t, &client, address);
        cr_assert_eq(seen.memory_used, DS_MIB(1));
        cr_assert_eq(seen.memory_limit, 0);
        cr_assert_eq(free_memory(t, &client), DS_MIB(2));
        cr_assert_eq(seen_total, total_memory, "a cap makes no smaller device");
        cr_assert(seen_free < seen_total && seen_free >= seen_total / 2);
        cr_assert_eq(wt_alloc(t, &client, DS_MIB(2) + 1, &more), DS_CUDA_OUT_OF_MEMORY);
        cr_assert_eq(wt_alloc(t, &client, DS_MIB(2), &more), 0);
        cr_assert_eq(free_memory(t, &client), 0);
        cr_assert_eq(wt_alloc(t, &client, 1, &more), DS_CUDA_OUT_OF_MEMORY);
        cr_assert_eq(wt_alloc(t, &other, DS_MIB(8), &more), 0, "nobody else's");
        /* a memory cap below the session's current use frees nothing */
        cap = DS_MIB(1);
        write_something(t, &client, address);
        cr_assert_eq(free_memory(t, &client), 0);
        cap = 0;
        wt_set_policy(t, (char *)"fifo");
        cr_assert_eq(wt_alloc(t, &client, DS_MIB(64), &more), 0, "with the policy goes its cap");
        cr_assert_gt(free_memory(t, &client), DS_MIB(64));
        wt_client_close(t, &client);
        wt_client_close(t, &other);
        wt_close(t);
}

/* A reset removes the cap until the policy sets it again. */
Test(worker_policy, a_reset_takes_a_cap_away)
{
        struct wt *t = wt_open_policy("sim:h200", "probe", wt_policies());
        struct wt_client client = wt_client(t, 7, DETSHARE__CLASS__BE);
        uint64_t address;

        wt_attach(t, &client);
        cr_assert_eq(wt_alloc(t, &client, DS_MIB(1), &address), 0);
        cap = DS_MIB(1);
        write_something(t, &client, address);
        cr_assert_eq(wt_alloc(t, &client, DS_MIB(1), &address), DS_CUDA_OUT_OF_MEMORY);
        cap = 0;
        cr_assert_eq(wt_reset(t, &client), 0);
        cr_assert_eq(wt_alloc(t, &client, DS_MIB(64), &address), 0);
        wt_client_close(t, &client);
        wt_close(t);
}

/* --- hints of clients --------------------------------------------------------------------------------------------- */

static int hint(struct wt *t, struct wt_client *client, uint32_t phase)
{
        WT_REQUEST(request, HINT_PHASE, hint_phase, HintPhase, HINT_PHASE, .phase = phase);
        int status;

        request.ring_tail = client->tail;
        status = wt_call_status(t, client, &request);
        wt_settle(t);
        return status;
}

static void push_fill(struct wt_client *client, uint64_t address)
{
        const struct ds_record_memset record = {.head = {DS_RECORD_MEMSET, 0, sizeof(record)},
                .element_size = 4,
                .dst = address,
                .width = 1024,
                .height = 1,
                .pitch = 4096};

        wt_push(client, &record, sizeof(record));
}

Test(worker_policy, work_is_of_the_phase_that_its_client_named)
{
        struct wt *t = wt_open_policy("sim:h200", "probe", wt_policies());
        struct wt_client client = wt_client(t, 7, DETSHARE__CLASS__LS);
        WT_REQUEST(reset, RESET_SESSION, reset_session, ResetSession, RESET_SESSION, .base = {0});
        uint64_t address;

        wt_attach(t, &client);
        cr_assert_eq(wt_alloc(t, &client, 4096, &address), 0);
        cr_assert_eq(hint(t, &client, 3), DETSHARE__STATUS__BAD_PARAMETER);
        for (uint32_t phase = 0; phase < 3; phase++) {
                cr_assert_eq(hint(t, &client, phase), 0);
                op_phase = 77;
                push_fill(&client, address);
                cr_assert_eq(wt_sync_all(t, &client), 0);
                cr_assert_eq(op_phase, phase, "%u", op_phase);
                cr_assert_eq(seen.phase, phase);
        }
        cr_assert_eq(wt_call_status(t, &client, &reset), 0);
        cr_assert_eq(wt_alloc(t, &client, 4096, &address), 0);
        write_something(t, &client, address);
        cr_assert(op_phase == DETSHARE_PHASE_DECODE && seen.phase == DETSHARE_PHASE_DECODE, "a reset is no news");
        wt_client_close(t, &client);
        wt_close(t);
}

static void set_share(struct wt *t, const struct wt_client *client, uint32_t request, uint32_t limit)
{
        Detshare__Internal__SessionSet set = DETSHARE__INTERNAL__SESSION_SET__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;

        set.session = client->id;
        set.gpu_request = request;
        set.gpu_limit = limit;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SET;
        message.set = &set;
        wt_send(t, &message, NULL, 0);
        wt_settle(t);
}

Test(worker_policy, shares_of_time_reach_the_policy)
{
        struct wt *t = wt_open_policy("sim:h200", "probe", wt_policies());
        struct wt_client client = wt_client(t, 7, DETSHARE__CLASS__BE);
        WT_REQUEST(reset, RESET_SESSION, reset_session, ResetSession, RESET_SESSION, .base = {0});
        uint64_t address;

        cr_assert_eq(wt_alloc(t, &client, 4096, &address), 0);
        write_something(t, &client, address);
        cr_assert(seen.gpu_request == 0 && seen.gpu_limit == 0);
        set_share(t, &client, 250, 500);
        cr_assert(seen.gpu_request == 250 && seen.gpu_limit == 500, "%u %u", seen.gpu_request, seen.gpu_limit);
        cr_assert_eq(wt_call_status(t, &client, &reset), 0);
        cr_assert_eq(wt_alloc(t, &client, 4096, &address), 0);
        write_something(t, &client, address);
        cr_assert(seen.gpu_request == 250 && seen.gpu_limit == 500, "a reset is no news");
        set_share(t, &client, 0, 0);
        cr_assert(seen.gpu_request == 0 && seen.gpu_limit == 0);
        wt_client_close(t, &client);
        wt_close(t);
}

Test(worker_policy, sessions_without_ring_learn_from_the_answer)
{
        struct wt *t = wt_open_policy("sim:h200", "probe", wt_policies());
        struct wt_client client = wt_client(t, 7, DETSHARE__CLASS__LS);
        uint64_t address;

        cr_assert_eq(wt_alloc(t, &client, 4096, &address), 0);
        cr_assert_eq(events[DETSHARE_EVENT_SYNCHRONISED], 0);
        write_something(t, &client, address);
        cr_assert_eq(events[DETSHARE_EVENT_SYNCHRONISED], 1);
        cr_assert_eq(seen.synchronised, 1);
        wt_client_close(t, &client);
        wt_close(t);
}
