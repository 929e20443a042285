/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, and submission of operations
 *
 * An operation is a record in the ring, without a system call. Client and daemon both number the operations of a
 * stream, so the number of an operation is known when it is submitted.
 *
 * A worker may die while a record is being put. If the page is alive after the record's publication, attach.c accounts
 * for the record when the page is found dead later. If the page is dead already, the new attachment tells what
 * happened: the operation ended; or the daemon counted it as lost; or nobody saw it, and it is put again. If the ring
 * itself was kept, the record was kept with it.
 *
 * Over DETSHARE_TRANSPORT=rpc every operation is a request, and its answer has the number.
 *
 * A call that CUDA calls synchronous may return before its operation of stream 0 has ended, if the program cannot see
 * the difference. The blocking streams run later work after that operation anyway. Before the next operation of a
 * non-blocking stream, this file puts a wait for the operation, unless it has ended (dsc_ahead_end()).
 */
#include <string.h>

#include "core/internal.h"

/* Number of operations that the calling thread has submitted, and the last one's sequence number in its stream. */
static __thread uint64_t own_count, own_seq;

void dsc__settle_forget_locked(dsc_session *s)
{
        atomic_store(&s->submit.unsettled, 0);
        for (uint32_t i = 0; i < DS_STREAMS_MAX; i++)
                s->submit.streams[i].settled = 0;
}

/* Puts a wait for operation `seq` of stream 0 if the stream needs one. *ret_n: number of records put. */
static int put_wait_locked(dsc_session *s, uint32_t stream, uint64_t seq, uint64_t *ret_n)
{
        struct dsc__submit *submit = &s->submit;
        struct dsc__stream *as = &submit->streams[stream];
        const struct ds_record_wait record = {
                .head = {.type = DS_RECORD_WAIT, .stream = (uint16_t)stream},
                .seq = seq,
        };
        if (dsc__ended(s, 0, seq)) {
                atomic_compare_exchange_strong(&submit->unsettled, &seq, 0);
                return 0;
        }
        if (!as->non_blocking || as->settled >= seq)
                return 0;
        if (dsc__ring_put(&submit->ring, &record.head, sizeof(record), NULL, 0) == DSC__RING_FULL)
                return DSC__RING_FULL;
        atomic_fetch_add(&submit->tails[stream], 1);
        atomic_store(&s->rpc.ring_tail, submit->ring.tail);
        as->settled = seq;
        *ret_n = 1;
        return 0;
}

static int put_locked(dsc_session *s, const struct ds_record *record, size_t size, const void *payload,
        size_t payload_size, uint64_t *ret_seq)
{
        struct dsc__submit *submit = &s->submit;
        for (;;) {
                uint64_t n = 0; /* number of waits put before the record */
                int r = dsc__attach_locked(s);
                if (!r)
                        r = dsc__sticky(s);
                if (r)
                        return r;
                const uint64_t unsettled = atomic_load_explicit(&submit->unsettled, memory_order_relaxed);
                if (__builtin_expect(unsettled != 0, 0))
                        r = put_wait_locked(s, record->stream, unsettled, &n);
                if (r || dsc__ring_put(&submit->ring, record, size, payload, payload_size) == DSC__RING_FULL)
                        return DSC__RING_FULL;
                const uint64_t seq = atomic_fetch_add(&submit->tails[record->stream], 1) + 1;
                atomic_store(&s->rpc.ring_tail, submit->ring.tail);
                *ret_seq = seq;
                if (!atomic_load(&s->page->dead))
                        return 0;
                /* the worker died at about the same time: the records must not count as lost, only as possibly lost */
                atomic_fetch_sub(&submit->tails[record->stream], n + 1);
                r = dsc__attach_locked(s);
                if (!r && submit->kept) {
                        /* the new worker runs the records from the kept ring */
                        atomic_fetch_add(&submit->tails[record->stream], n + 1);
                        return 0;
                }
                /* as in CUDA, the thread that waits for the work gets its error, not this call */
                if (r || dsc__sticky(s) || atomic_load(&submit->tails[record->stream]) >= seq)
                        return r;
        }
}

/* Checks the socket once in 1024 submissions, so that a program that only submits learns that the daemon was killed. */
static void look_at_peer(dsc_session *s)
{
        static __thread uint32_t count;
        if (++count % 1024 == 0)
                dsc__peer_gone(s);
}

int dsc__submit(dsc_session *s, const struct ds_record *record, size_t size, const void *payload, size_t payload_size,
        uint64_t *ret_seq)
{
        uint64_t seq = 0;
        if (record->stream >= DS_STREAMS_MAX)
                return DSC__INVALID_VALUE;
        look_at_peer(s);
        dsc__clock_contact(s);
        for (;;) {
                int r = dsc__usable(s);
                if (r)
                        return r;
                pthread_mutex_lock(&s->submit.lock);
                r = put_locked(s, record, size, payload, payload_size, &seq);
                pthread_mutex_unlock(&s->submit.lock);
                if (r == 0) {
                        own_count++;
                        own_seq = seq;
                }
                if (r == 0 && ret_seq)
                        *ret_seq = seq;
                if (r != DSC__RING_FULL)
                        return dsc__told(s, r);
                r = dsc__await_room(s, dsc__ring_need(size + payload_size));
                if (r)
                        return r;
        }
}

static int submit_call(dsc_session *s, uint32_t stream, Detshare__Request *request, uint64_t *ret_seq)
{
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, request, -1, DETSHARE__REPLY__RESULT_SUBMITTED, &answer);
        if (r)
                return r;
        const uint64_t seq = answer.reply->submitted->seq;
        dsc__answer_clear(&answer);
        uint64_t tail = atomic_load(&s->submit.tails[stream]);
        while (tail < seq && !atomic_compare_exchange_weak(&s->submit.tails[stream], &tail, seq))
                ;
        own_count++;
        own_seq = seq;
        if (ret_seq)
                *ret_seq = seq;
        return 0;
}

static int wait_call(dsc_session *s, uint32_t stream, uint32_t other, uint64_t seq)
{
        Detshare__StreamWait wait = DETSHARE__STREAM_WAIT__INIT;
        wait.stream = stream;
        wait.other = other;
        wait.seq = seq;
        Detshare__Request request = DSC__REQUEST(STREAM_WAIT, stream_wait, &wait);
        return submit_call(s, stream, &request, NULL);
}

/* As put_wait_locked(), by a request. */
static int settle_call(dsc_session *s, uint32_t stream, uint64_t seq)
{
        struct dsc__stream *as = &s->submit.streams[stream];
        pthread_mutex_lock(&s->submit.lock);
        const bool needed = as->non_blocking && as->settled < seq;
        pthread_mutex_unlock(&s->submit.lock);
        const int r = needed ? wait_call(s, stream, 0, seq) : 0;
        if (r || !needed)
                return r;
        pthread_mutex_lock(&s->submit.lock);
        as->settled = seq > as->settled ? seq : as->settled;
        pthread_mutex_unlock(&s->submit.lock);
        return 0;
}

int dsc__submit_call(dsc_session *s, uint32_t stream, Detshare__Request *request, uint64_t *ret_seq)
{
        if (stream >= DS_STREAMS_MAX)
                return DSC__INVALID_VALUE;
        const uint64_t unsettled = atomic_load(&s->submit.unsettled);
        const int r = unsettled ? settle_call(s, stream, unsettled) : 0;
        return r ? r : submit_call(s, stream, request, ret_seq);
}

int dsc_ahead_begin(dsc_session *s, struct dsc_ahead *ret)
{
        *ret = (struct dsc_ahead){.tail = dsc_stream_tail(s, 0), .count = own_count};
        return ret->tail == atomic_load(&s->submit.unsettled) || dsc_ended(s, 0, ret->tail);
}

int dsc_ahead_end(dsc_session *s, const struct dsc_ahead *begin)
{
        _Atomic uint64_t *unsettled = &s->submit.unsettled;
        const uint64_t seq = begin->tail + (own_count - begin->count);
        uint64_t before = atomic_load(unsettled);
        if (own_seq != seq)
                return 0;
        while (before < seq && !atomic_compare_exchange_weak(unsettled, &before, seq))
                ;
        return 1;
}

/* --- streams --- */

int dsc_stream_create(dsc_session *s, int32_t priority, int non_blocking, uint32_t *ret_stream)
{
        if (dsc__objects(s))
                return dsc__stream_create(s, priority, non_blocking != 0, ret_stream);
        Detshare__StreamCreate create = DETSHARE__STREAM_CREATE__INIT;
        create.priority = priority;
        create.non_blocking = non_blocking != 0;
        Detshare__Request request = DSC__REQUEST(STREAM_CREATE, stream_create, &create);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_STREAM_CREATE, &answer);
        if (r)
                return r;
        const uint32_t stream = answer.reply->stream_create->stream;
        dsc__answer_clear(&answer);
        if (stream == 0 || stream >= DS_STREAMS_MAX)
                return DETSHARE__STATUS__INTERNAL;
        dsc__stream_note(s, stream,
                &(struct dsc__stream){.used = true, .non_blocking = non_blocking != 0, .priority = priority});
        *ret_stream = stream;
        return 0;
}

int dsc_stream_destroy(dsc_session *s, uint32_t stream)
{
        if (dsc__objects(s))
                return dsc__stream_destroy(s, stream);
        Detshare__StreamDestroy destroy = DETSHARE__STREAM_DESTROY__INIT;
        destroy.stream = stream;
        Detshare__Request request = DSC__REQUEST(STREAM_DESTROY, stream_destroy, &destroy);
        const int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
        if (!r)
                dsc__stream_note(s, stream, &(struct dsc__stream){.used = false});
        return r;
}

uint64_t dsc_stream_tail(dsc_session *s, uint32_t stream)
{
        return stream < DS_STREAMS_MAX ? atomic_load(&s->submit.tails[stream]) : 0;
}

/* --- operations --- */

static int launch_call(dsc_session *s, uint32_t stream, const struct dsc_launch *l)
{
        Detshare__Launch launch = DETSHARE__LAUNCH__INIT;
        launch.stream = stream;
        launch.kernel = l->kernel;
        launch.grid_x = l->grid[0];
        launch.grid_y = l->grid[1];
        launch.grid_z = l->grid[2];
        launch.block_x = l->block[0];
        launch.block_y = l->block[1];
        launch.block_z = l->block[2];
        launch.shared_bytes = l->shared_bytes;
        launch.cluster_x = l->cluster[0];
        launch.cluster_y = l->cluster[1];
        launch.cluster_z = l->cluster[2];
        launch.cooperative = l->cooperative != 0;
        launch.params = (ProtobufCBinaryData){.len = l->params_size, .data = (uint8_t *)l->params};
        Detshare__Request request = DSC__REQUEST(LAUNCH, launch, &launch);
        return dsc__submit_call(s, stream, &request, NULL);
}

int dsc_launch(dsc_session *s, uint32_t stream, const struct dsc_launch *l)
{
        if (l->params_size > DS_RECORD_PARAMS_MAX || stream >= DS_STREAMS_MAX ||
                (l->cluster[0] | l->cluster[1] | l->cluster[2]) > UINT16_MAX)
                return DSC__INVALID_VALUE;
        if (s->socket_only)
                return launch_call(s, stream, l);
        if (dsc__output_waits(s))
                dsc__output_new(s, false);
        const struct ds_record_launch record = {
                .head = {.type = DS_RECORD_LAUNCH, .stream = (uint16_t)stream},
                .kernel = l->kernel,
                .grid = {l->grid[0], l->grid[1], l->grid[2]},
                .block = {l->block[0], l->block[1], l->block[2]},
                .shared_bytes = l->shared_bytes,
                .params_size = l->params_size,
                .cluster = {(uint16_t)l->cluster[0], (uint16_t)l->cluster[1], (uint16_t)l->cluster[2]},
                .cooperative = l->cooperative != 0,
        };
        return dsc__submit(s, &record.head, sizeof(record), l->params, l->params_size, NULL);
}

static int copy_call(dsc_session *s, uint32_t stream, const struct dsc_copy *c)
{
        Detshare__Copy copy = DETSHARE__COPY__INIT;
        copy.stream = stream;
        copy.kind = c->kind;
        copy.dst = c->dst;
        copy.src = c->src;
        copy.width = c->width;
        copy.height = c->height;
        copy.dst_pitch = c->dst_pitch;
        copy.src_pitch = c->src_pitch;
        Detshare__Request request = DSC__REQUEST(COPY, copy, &copy);
        return dsc__submit_call(s, stream, &request, NULL);
}

int dsc_copy(dsc_session *s, uint32_t stream, const struct dsc_copy *c)
{
        if (stream >= DS_STREAMS_MAX)
                return DSC__INVALID_VALUE;
        if (s->socket_only)
                return copy_call(s, stream, c);
        const struct ds_record_copy record = {
                .head = {.type = DS_RECORD_COPY, .stream = (uint16_t)stream},
                .kind = c->kind,
                .dst = c->dst,
                .src = c->src,
                .width = c->width,
                .height = c->height,
                .dst_pitch = c->dst_pitch,
                .src_pitch = c->src_pitch,
        };
        return dsc__submit(s, &record.head, sizeof(record), NULL, 0, NULL);
}

static int memset_call(dsc_session *s, uint32_t stream, const struct dsc_memset *m)
{
        Detshare__Memset set = DETSHARE__MEMSET__INIT;
        set.stream = stream;
        set.dst = m->dst;
        set.value = m->value;
        set.element_size = m->element_size;
        set.width = m->width;
        set.height = m->height;
        set.pitch = m->pitch;
        Detshare__Request request = DSC__REQUEST(MEMSET, memset, &set);
        return dsc__submit_call(s, stream, &request, NULL);
}

int dsc_memset(dsc_session *s, uint32_t stream, const struct dsc_memset *m)
{
        if (stream >= DS_STREAMS_MAX)
                return DSC__INVALID_VALUE;
        if (s->socket_only)
                return memset_call(s, stream, m);
        const struct ds_record_memset record = {
                .head = {.type = DS_RECORD_MEMSET, .stream = (uint16_t)stream},
                .value = m->value,
                .element_size = m->element_size,
                .dst = m->dst,
                .width = m->width,
                .height = m->height,
                .pitch = m->pitch,
        };
        return dsc__submit(s, &record.head, sizeof(record), NULL, 0, NULL);
}

int dsc_stream_wait(dsc_session *s, uint32_t stream, uint32_t other, uint64_t seq)
{
        if (stream >= DS_STREAMS_MAX || other >= DS_STREAMS_MAX)
                return DSC__INVALID_VALUE;
        if (s->socket_only)
                return wait_call(s, stream, other, seq);
        const struct ds_record_wait record = {
                .head = {.type = DS_RECORD_WAIT, .stream = (uint16_t)stream},
                .other = other,
                .seq = seq,
        };
        return dsc__submit(s, &record.head, sizeof(record), NULL, 0, NULL);
}
