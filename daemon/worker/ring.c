/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The submission ring: reads records and turns them into operations
 *
 * The client may write to the ring at any time, also while the worker reads it. The worker reads a record's header
 * once; that header decides how much is copied, and it overwrites the header in the copy. All later code uses the copy.
 * A record that no correct client writes ends the session. A wrong argument becomes the sticky error, and the record
 * counts as a dropped operation, so that sequence numbers stay equal on both sides. If there is no room for an
 * operation, the worker stops reading the ring: the order never changes, nothing is lost, and the client eventually
 * finds the ring full.
 */
#include "worker/ring.h"

#include <assert.h>
#include <string.h>

#include "worker/later.h"
#include "worker/repeat.h"

#define RING_OBJECT_COST 4u /* time of creating or destroying a stream, as a number of records */
#define RING_REPEAT_COST 6u /* time of launches that are taken together, as a number of records */

union ring_record {
        struct ds_record head;
        struct ds_record_launch launch;
        struct ds_record_copy copy;
        struct ds_record_memset memset;
        struct ds_record_event event;
        struct ds_record_wait wait;
        struct ds_record_graph graph;
        struct ds_record_host host;
        struct ds_record_value value;
        struct ds_record_object object;
};

enum ring_outcome {
        RING_TAKEN,
        RING_STALLED,
        RING_FAULT,
};

uint64_t dsw_ring_tail(struct dsw_session *session)
{
        uint64_t tail;

        if (!session->ring)
                return 0;
        tail = atomic_load_explicit(&session->ring->tail, memory_order_acquire);
        if (tail < session->tail_seen) {
                dsw_session_fault(session, "the ring's tail moved back");
                return session->head;
        }
        if (tail - session->head > DS_RING_SLOTS) {
                dsw_session_fault(session, "the ring's tail is out of range");
                return session->head;
        }
        session->tail_seen = tail;
        return tail;
}

/*
 * The client reports the number up to which it has synchronised. Only the number of the latest work counts: an older
 * one says nothing about later work. The scheduler knows whether all work has ended.
 */
int dsw_ring_synchronised(struct dsw_session *session)
{
        uint64_t synchronised;

        if (!session->ring || !session->sched)
                return 0;
        synchronised = atomic_load_explicit(&session->ring->synchronised, memory_order_relaxed);
        if (synchronised == session->synchronised_seen)
                return 0;
        session->synchronised_seen = synchronised;
        if (synchronised != atomic_load_explicit(&session->page->accepted, memory_order_relaxed))
                return 0;
        ds_sched_session_synchronised(session->sched, session->worker->now_ns);
        dsw_session_judge(session);
        session->worker->sched_due = 1;
        return 1;
}

/* Reads the arrival that the client has stated for its next request. */
static void ring_arrival(struct dsw_session *session)
{
        const uint64_t arrival_ns = atomic_load_explicit(&session->ring->arrival_ns, memory_order_relaxed);

        if (arrival_ns == session->arrival_seen_ns || !session->sched)
                return;
        session->arrival_seen_ns = arrival_ns;
        ds_sched_session_arrival(session->sched, arrival_ns, session->worker->now_ns);
}

const uint8_t *dsw_ring_slot(const struct dsw_session *session, uint64_t count)
{
        return (const uint8_t *)session->ring + DS_RING_HEADER + (count & (DS_RING_SLOTS - 1)) * DS_RING_SLOT;
}

struct ds_record dsw_ring_head(const uint8_t *slot)
{
        const _Atomic uint64_t *word = (const void *)slot;
        uint64_t value = atomic_load_explicit(word, memory_order_relaxed);
        struct ds_record head;

        memcpy(&head, &value, sizeof(head));
        return head;
}

/* Copies a record's fixed part once, with the header that was checked instead of the one in the ring. */
static void ring_copy(const uint8_t *slot, const struct ds_record *head, union ring_record *ret)
{
        size_t size = head->size;

        if (head->type == DS_RECORD_LAUNCH)
                size = sizeof(ret->launch);
        if (head->type == DS_RECORD_GRAPH || head->type == DS_RECORD_CHANGE)
                size = sizeof(ret->graph);
        assert(size <= sizeof(*ret));
        memcpy(ret, slot, size);
        ret->head = *head;
}

static int ring_dispatch(
        struct dsw_stream *stream, const union ring_record *record, const uint8_t *slot, const char **ret_why)
{
        uint64_t seq;

        switch (record->head.type) {
        case DS_RECORD_LAUNCH:
                return dsw_work_launch(stream, &record->launch, slot + sizeof(record->launch), &seq, ret_why);
        case DS_RECORD_COPY:
                return dsw_work_copy(stream, &record->copy, &seq, ret_why);
        case DS_RECORD_MEMSET:
                return dsw_work_memset(stream, &record->memset, &seq, ret_why);
        case DS_RECORD_EVENT:
                return dsw_work_event(stream, record->event.event, &seq, ret_why);
        case DS_RECORD_GRAPH:
                return dsw_work_graph(stream, &record->graph, slot + sizeof(record->graph), &seq, ret_why);
        case DS_RECORD_CHANGE:
                return dsw_work_change(stream, &record->graph, slot + sizeof(record->graph), &seq, ret_why);
        case DS_RECORD_HOST:
                return dsw_work_host(stream, record->host.id, &seq, ret_why);
        case DS_RECORD_VALUE:
                return dsw_work_value(stream, &record->value, &seq, ret_why);
        default:
                assert(record->head.type == DS_RECORD_WAIT);
                if (record->wait.shared)
                        return dsw_work_wait_shared(stream, record->wait.seq, &seq, ret_why);
                return dsw_work_wait(stream, record->wait.other, record->wait.seq, &seq, ret_why);
        }
}

static enum ring_outcome ring_fault(struct dsw_session *session, const char *reason)
{
        dsw_session_fault(session, reason);
        return RING_FAULT;
}

static int ring_uses_memory(uint8_t type)
{
        return type != DS_RECORD_EVENT && type != DS_RECORD_WAIT && type != DS_RECORD_HOST;
}

/* Handles one record with a well-formed header. */
static enum ring_outcome ring_record(struct dsw_session *session, const uint8_t *slot, const struct ds_record *head)
{
        struct dsw_stream *stream = dsw_stream_find(session, head->stream);
        const uint32_t params = head->type == DS_RECORD_LAUNCH ? head->size : 0;
        union ring_record record;
        const char *why = NULL;
        int status = 0;

        if (stream && head->type != DS_RECORD_OBJECT && !dsw_op_room(session, stream, params))
                return RING_STALLED;
        /* a stream is a message to the supervisor, so its reading limits how fast a client creates streams */
        if (head->type == DS_RECORD_OBJECT && dsw_message_full(session->worker))
                return RING_STALLED;
        ring_copy(slot, head, &record);
        why = dsw_record_check_body(&record.head);
        if (why)
                return ring_fault(session, why);
        if (head->type == DS_RECORD_OBJECT) {
                session->graph_cost += RING_OBJECT_COST;
                if (!dsw_session_error(session))
                        status = dsw_stream_object(session, &record.object, &why);
                if (status)
                        dsw_session_fail(session, status, why);
                return RING_TAKEN;
        }
        if (!stream) {
                /* without a stream there is no sequence number that must stay equal on both sides */
                dsw_session_fail(session, DS_CUDA_INVALID_HANDLE, "work for an unknown stream");
                return RING_TAKEN;
        }
        if (ring_uses_memory(head->type) && dsw_later_settle(session))
                return RING_STALLED;
        if (!dsw_session_error(session))
                status = ring_dispatch(stream, &record, slot, &why);
        if (status == DSW_WORK_E_STALLED)
                return RING_STALLED;
        if (status)
                dsw_session_fail(session, status, why);
        if (session->error)
                dsw_stream_drop(stream);
        return RING_TAKEN;
}

/* Handles launches that repeat, together. Returns their number; 0: the ring's head is to be handled as any record. */
static uint32_t ring_repeat(struct dsw_session *session, const struct ds_record *head, uint64_t limit)
{
        struct dsw_stream *stream;
        uint32_t launches = 0;
        uint64_t slots;

        if (head->type != DS_RECORD_LAUNCH || limit - session->head < DSW_REPEAT_RING)
                return 0;
        stream = dsw_stream_find(session, head->stream);
        slots = stream ? dsw_repeat_take(stream, limit, &launches) : 0;
        session->head += slots;
        return slots ? launches : 0;
}

size_t dsw_ring_consume(struct dsw_session *session, uint64_t limit, size_t budget)
{
        uint64_t before = session->head;
        size_t n = 0;

        /* the client wrote this new record after it had waited for the earlier work, so that wait is reported first */
        (void)dsw_ring_synchronised(session);
        if (session->ring)
                ring_arrival(session);
        budget = DS_MIN(budget, dsw_turns_records(session));
        if (!budget)
                return 0;
        session->stalled = 0;
        session->graph_cost = 0;
        while (session->ring && session->head < limit && n + session->graph_cost < budget) {
                const uint8_t *slot = dsw_ring_slot(session, session->head);
                struct ds_record head = dsw_ring_head(slot);
                const char *reason = dsw_record_check_head(
                        &head, session->head & (DS_RING_SLOTS - 1), session->tail_seen - session->head);
                enum ring_outcome outcome = RING_TAKEN;

                if (!reason && ring_repeat(session, &head, limit)) {
                        n += RING_REPEAT_COST;
                        continue;
                }
                if (reason)
                        outcome = ring_fault(session, reason);
                else if (head.type != DS_RECORD_PAD)
                        outcome = ring_record(session, slot, &head);
                if (outcome == RING_STALLED)
                        session->stalled = 1;
                if (outcome != RING_TAKEN)
                        break;
                session->head += dsw_record_slots(head.size);
                n += head.type != DS_RECORD_PAD;
        }
        dsw_turns_spend_records(session, n + session->graph_cost);
        if (session->head != before) {
                atomic_store_explicit(&session->page->head, session->head, memory_order_release);
                dsw_session_dirty(session);
        }
        return n;
}
