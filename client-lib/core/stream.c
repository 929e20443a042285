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
 */
#include <string.h>

#include "core/internal.h"

static int put_locked(dsc_session *s, const struct ds_record *record, size_t size, const void *payload,
        size_t payload_size, uint64_t *ret_seq)
{
        struct dsc__submit *submit = &s->submit;
        for (;;) {
                int r = dsc__attach_locked(s);
                if (!r)
                        r = dsc__sticky(s);
                if (r)
                        return r;
                if (dsc__ring_put(&submit->ring, record, size, payload, payload_size) == DSC__RING_FULL)
                        return DSC__RING_FULL;
                const uint64_t seq = atomic_fetch_add(&submit->tails[record->stream], 1) + 1;
                atomic_store(&s->rpc.ring_tail, submit->ring.tail);
                *ret_seq = seq;
                if (!atomic_load(&s->page->dead))
                        return 0;
                /* the worker died at about the same time: the record must not count as lost, only as possibly lost */
                atomic_fetch_sub(&submit->tails[record->stream], 1);
                r = dsc__attach_locked(s);
                if (!r && submit->kept) {
                        /* the new worker runs the record from the kept ring */
                        atomic_fetch_add(&submit->tails[record->stream], 1);
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
                if (r == 0 && ret_seq)
                        *ret_seq = seq;
                if (r != DSC__RING_FULL)
                        return dsc__told(s, r);
                r = dsc__await_room(s, dsc__ring_need(size + payload_size));
                if (r)
                        return r;
        }
}

int dsc__submit_call(dsc_session *s, uint32_t stream, Detshare__Request *request, uint64_t *ret_seq)
{
        if (stream >= DS_STREAMS_MAX)
                return DSC__INVALID_VALUE;
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, request, -1, DETSHARE__REPLY__RESULT_SUBMITTED, &answer);
        if (r)
                return r;
        const uint64_t seq = answer.reply->submitted->seq;
        dsc__answer_clear(&answer);
        uint64_t tail = atomic_load(&s->submit.tails[stream]);
        while (tail < seq && !atomic_compare_exchange_weak(&s->submit.tails[stream], &tail, seq))
                ;
        if (ret_seq)
                *ret_seq = seq;
        return 0;
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
        if (s->socket_only) {
                Detshare__StreamWait wait = DETSHARE__STREAM_WAIT__INIT;
                wait.stream = stream;
                wait.other = other;
                wait.seq = seq;
                Detshare__Request request = DSC__REQUEST(STREAM_WAIT, stream_wait, &wait);
                return dsc__submit_call(s, stream, &request, NULL);
        }
        const struct ds_record_wait record = {
                .head = {.type = DS_RECORD_WAIT, .stream = (uint16_t)stream},
                .other = other,
                .seq = seq,
        };
        return dsc__submit(s, &record.head, sizeof(record), NULL, 0, NULL);
}
