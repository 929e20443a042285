/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/repeat.h"

#include <assert.h>
#include <string.h>

#include "worker/graph.h"
#include "worker/ring.h"

#define REPEAT_LOOK 128u      /* launches among which a repetition is looked for */
#define REPEAT_LOOK_LEAST 96u /* with fewer, the client is not far enough ahead */
#define REPEAT_LEAST 16u      /* fewest launches of a repeat */
#define REPEAT_SLOTS 256u     /* most ring slots of a repeat */
#define REPEAT_PARAMS 16384u  /* most bytes of a repeat's arguments */
#define REPEAT_SEEN 8u        /* times that a repetition is seen before its graph is made */
#define REPEAT_SEEN_MAX 4096u /* the same, after repeats that were hardly used */
#define REPEAT_PAYS 64u       /* launches of the graph after which it was worth its stop */
#define REPEAT_MISSES 4096u   /* other launches after which a repeat is forgotten */
#define REPEAT_PAUSE 256u     /* launches after a look without result, before the next one */
#define REPEAT_PAUSE_MAX (64u * REPEAT_PAUSE)
#define REPEATS_MAX 8u /* repeats of a session */

struct dsw_repeat {
        struct dsw_repeat *prev, *next;
        struct dsw_stream *stream;
        struct dsw_graph *graph;       /* NULL: not made yet */
        uint32_t n, slots;             /* launches, and ring slots of their records */
        uint32_t params_bytes;         /* their arguments, each from a multiple of 8 bytes on */
        uint32_t seen, missed;         /* missed: launches since the repeat was met last */
        uint32_t used;                 /* launches of the graph */
        uint8_t waits;                 /* 1: the next stop builds the graph */
        _Alignas(8) uint8_t records[]; /* the records, each in whole slots */
};

/* --- records in the ring ------------------------------------------------------------------------------------------ */

/* The launch of the stream at position *at or behind padding there. Advances *at behind it. NULL: there is none. */
static const uint8_t *next_launch(const struct dsw_stream *stream, uint64_t *at, uint64_t limit, uint32_t *ret_size)
{
        const struct dsw_session *session = stream->session;

        while (*at < limit) {
                const uint8_t *slot = dsw_ring_slot(session, *at);
                struct ds_record head = dsw_ring_head(slot);

                if (dsw_record_check_head(&head, *at & (DS_RING_SLOTS - 1), limit - *at))
                        return NULL;
                if (head.type != DS_RECORD_PAD && (head.type != DS_RECORD_LAUNCH || head.stream != stream->slot))
                        return NULL;
                *at += dsw_record_slots(head.size);
                *ret_size = head.size;
                if (head.type == DS_RECORD_LAUNCH)
                        return slot;
        }
        return NULL;
}

/* Whether two records differ in no more than their arguments. */
static int records_alike(const uint8_t *a, uint32_t a_size, const uint8_t *b, uint32_t b_size)
{
        return a_size == b_size && !memcmp(a + sizeof(struct ds_record), b + sizeof(struct ds_record),
                                           sizeof(struct ds_record_launch) - sizeof(struct ds_record));
}

static uint32_t params_room(uint32_t record_size)
{
        return DS_ALIGN_UP(record_size - (uint32_t)sizeof(struct ds_record_launch), 8u);
}

/* Slots from the ring's head to the end of records that are like the repeat's; 0: they differ, or are not all there.
 * Copies their arguments to `params`: the client can change the records. */
static uint64_t repeat_match(const struct dsw_repeat *repeat, uint64_t limit, uint8_t *params)
{
        const uint64_t head = repeat->stream->session->head;
        const uint8_t *copy = repeat->records;
        uint64_t at = head;

        memset(params, 0, repeat->params_bytes);
        for (uint32_t i = 0; i < repeat->n; i++) {
                const struct ds_record *record = (const void *)copy;
                uint32_t size;
                const uint8_t *slot = next_launch(repeat->stream, &at, limit, &size);

                if (!slot || !records_alike(slot, size, copy, record->size))
                        return 0;
                memcpy(params, slot + sizeof(struct ds_record_launch), size - sizeof(struct ds_record_launch));
                params += params_room(size);
                copy += (size_t)dsw_record_slots(size) * DS_RING_SLOT;
        }
        return at - head;
}

/* --- looking for a repetition ------------------------------------------------------------------------------------- */

struct look {
        uint32_t n;
        const uint8_t *slots[REPEAT_LOOK];
        uint32_t sizes[REPEAT_LOOK];
};

static int look_same(const struct look *look, uint32_t a, uint32_t b)
{
        return records_alike(look->slots[a], look->sizes[a], look->slots[b], look->sizes[b]);
}

/* Number of launches after which all others repeat; 0: they do not. */
static uint32_t look_period(const struct look *look)
{
        for (uint32_t period = 1; period <= DS_MIN(look->n / 2, DSW_REPEAT_LAUNCHES); period++) {
                uint32_t i = 0;

                while (i + period < look->n && look_same(look, i, i + period))
                        i++;
                if (i + period == look->n)
                        return period;
        }
        return 0;
}

/* Expected time of the first launches on the GPU, ns; 0: not known. */
static uint64_t look_expected_ns(struct dsw_session *session, const struct look *look, uint32_t n)
{
        uint64_t total = 0;

        for (uint32_t i = 0; i < n; i++) {
                struct ds_op op = {.kind = DS_OP_LAUNCH};
                struct ds_record_launch record;
                const struct dsw_kernel *kernel;
                uint64_t ns;

                memcpy(&record, look->slots[i], sizeof(record));
                kernel = dsw_module_kernel(session, record.kernel);
                if (!kernel || record.cooperative)
                        return 0;
                op.launch = dsw_graph_launch_of(kernel, &record);
                op.forms = &kernel->sched;
                ns = ds_sched_expected_ns(session->worker->sched, &op);
                if (!ns)
                        return 0;
                total += ns;
        }
        return total;
}

/* Number of launches that a repeat can have: whole periods within the bounds of number, slots and time. 0: none. */
static uint32_t look_launches(struct dsw_session *session, const struct look *look, uint32_t period)
{
        const uint64_t ns = look_expected_ns(session, look, period);
        uint32_t slots = 0, params = 0, times;

        if (!ns)
                return 0;
        for (uint32_t i = 0; i < period; i++) {
                slots += dsw_record_slots(look->sizes[i]);
                params += params_room(look->sizes[i]);
        }
        times = (uint32_t)DS_MIN((uint64_t)DSW_REPEAT_LAUNCHES / period, session->worker->repeat_ns / ns);
        times = DS_MIN(times, REPEAT_SLOTS / slots);
        times = DS_MIN(times, REPEAT_PARAMS / DS_MAX(params, 1u));
        return times * period < REPEAT_LEAST ? 0 : times * period;
}

static struct dsw_repeat *repeat_new(struct dsw_stream *stream, const struct look *look, uint32_t n)
{
        struct dsw_session *session = stream->session;
        struct dsw_repeat *repeat;
        uint32_t slots = 0;
        uint8_t *at;

        for (uint32_t i = 0; i < n; i++)
                slots += dsw_record_slots(look->sizes[i]);
        repeat = ds_alloc0(1, sizeof(*repeat) + (size_t)slots * DS_RING_SLOT);
        if (!repeat)
                return NULL;
        at = repeat->records;
        for (uint32_t i = 0; i < n; i++) {
                /* the client may have changed the record meanwhile: the copy's header is the one that was checked */
                struct ds_record head = {
                        .type = DS_RECORD_LAUNCH, .stream = (uint16_t)stream->slot, .size = look->sizes[i]};

                memcpy(at, look->slots[i], look->sizes[i]);
                memcpy(at, &head, sizeof(head));
                at += (size_t)dsw_record_slots(look->sizes[i]) * DS_RING_SLOT;
                repeat->params_bytes += params_room(look->sizes[i]);
        }
        repeat->stream = stream;
        repeat->n = n;
        repeat->slots = slots;
        DL_APPEND(session->repeats, repeat);
        session->n_repeats++;
        stream->repeat = repeat;
        return repeat;
}

static void stream_pause(struct dsw_stream *stream)
{
        stream->repeat_pause = DS_MIN(DS_MAX(2 * stream->repeat_pause, REPEAT_PAUSE), REPEAT_PAUSE_MAX);
        stream->repeat_wait = stream->repeat_pause;
}

/* Looks for a repetition in the records that are waiting. */
static void repeat_look(struct dsw_stream *stream, uint64_t limit)
{
        struct dsw_session *session = stream->session;
        uint64_t at = session->head;
        struct look look = {0};
        uint32_t period, n = 0;

        if (limit - at < REPEAT_LOOK_LEAST)
                return;
        while (look.n < REPEAT_LOOK && (look.slots[look.n] = next_launch(stream, &at, limit, &look.sizes[look.n])))
                look.n++;
        period = look.n < REPEAT_LOOK_LEAST || session->n_repeats >= REPEATS_MAX ? 0 : look_period(&look);
        if (period)
                n = look_launches(session, &look, period);
        if (!n || !repeat_new(stream, &look, n))
                stream_pause(stream);
}

/* --- the graph ---------------------------------------------------------------------------------------------------- */

/* The repeat's launches in the form of a client's graph (wire.h), each with a dependency on the one before it. */
static void *repeat_file(const struct dsw_repeat *repeat)
{
        const uint64_t more = sizeof(struct ds_graph_node) + 2 * sizeof(uint32_t);
        const uint64_t most = sizeof(struct ds_graph_file) + repeat->n * more + repeat->slots * (uint64_t)DS_RING_SLOT;
        const uint8_t *copy = repeat->records;
        struct ds_graph_file header = {.version = DS_WIRE_VERSION, .n_nodes = repeat->n};
        uint8_t *file = ds_alloc0(1, most), *at;

        if (!file)
                return NULL;
        at = file + sizeof(header);
        for (uint32_t i = 0; i < repeat->n; i++) {
                const struct ds_record *record = (const void *)copy;
                struct ds_graph_node node = {
                        .size = (uint32_t)(more + DS_ALIGN_UP(record->size, 8u)),
                        .n_deps = i > 0,
                        .record_offset = (uint32_t)more,
                };
                const uint32_t dep = i - 1;

                memcpy(at, &node, sizeof(node));
                if (i)
                        memcpy(at + sizeof(node), &dep, sizeof(dep));
                memcpy(at + more, record, record->size);
                at += node.size;
                copy += (size_t)dsw_record_slots(record->size) * DS_RING_SLOT;
        }
        header.bytes = (uint64_t)(at - file);
        memcpy(file, &header, sizeof(header));
        return file;
}

static void repeat_forget(struct dsw_repeat *repeat)
{
        struct dsw_stream *stream = repeat->stream;
        struct dsw_session *session = stream->session;

        dsw_graph_put(session, repeat->graph);
        DL_DELETE(session->repeats, repeat);
        session->n_repeats--;
        stream->repeat = NULL;
        ds_free(repeat);
}

/* Forgets a repeat that no longer occurs, or whose graph cannot be made. */
static void repeat_give_up(struct dsw_repeat *repeat)
{
        struct dsw_session *session = repeat->stream->session;

        if (repeat->used < REPEAT_PAYS) {
                session->repeat_seen = DS_MIN(DS_MAX(session->repeat_seen, REPEAT_SEEN) * 2, REPEAT_SEEN_MAX);
                stream_pause(repeat->stream);
        }
        repeat_forget(repeat);
}

/* Makes the graph without an instance on the device. 0: that is impossible. */
static int repeat_make(struct dsw_repeat *repeat)
{
        const char *why;
        void *file = repeat_file(repeat);

        if (!file)
                return 0;
        /* the launch of a record that is wrong is refused when it is handled by itself */
        if (dsw_graph_from(repeat->stream->session, file, &repeat->graph, &why))
                return 0;
        return dsw_graph_may_be_whole(repeat->graph);
}

/* Whether the graph can be launched now. Otherwise makes what is lacking, or requests it. */
static int repeat_ready(struct dsw_repeat *repeat)
{
        struct dsw_session *session = repeat->stream->session;

        if (!repeat->graph) {
                if (++repeat->seen < DS_MAX(session->repeat_seen, REPEAT_SEEN)) {
                        repeat->stream->repeat_wait = repeat->n - 1;
                        return 0;
                }
                if (!repeat_make(repeat)) {
                        repeat_give_up(repeat);
                        return 0;
                }
        }
        if (dsw_graph_launches_whole(session, repeat->graph))
                return 1;
        repeat->waits = 1;
        repeat->stream->repeat_wait = repeat->n - 1;
        dsw_repeat_serve(session);
        return 0;
}

void dsw_repeat_serve(struct dsw_session *session)
{
        struct dsw_repeat *repeat, *next;

        for (repeat = session->repeats; repeat; repeat = next) {
                next = repeat->next;
                if (!repeat->waits)
                        continue;
                if (!dsw_quiesce_may(session))
                        return;
                repeat->waits = 0;
                if (dsw_graph_instantiate(session, repeat->graph))
                        repeat_give_up(repeat);
        }
}

void dsw_repeat_forget_all(struct dsw_session *session)
{
        while (session->repeats)
                repeat_forget(session->repeats);
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

/* Whether launches of the session may be taken together at all. */
static int session_may(const struct dsw_session *session)
{
        const ds_worker *worker = session->worker;

        return worker->ops->graph_new && !worker->kernel_ns && !session->error && session->sched &&
               !session->memory.later && ds_sched_class_alone(session->sched);
}

/* Submits the graph with these arguments as one operation. 0: there is no room. */
static int repeat_submit(struct dsw_repeat *repeat, const uint8_t *params)
{
        struct dsw_stream *stream = repeat->stream;
        struct dsw_op *op;
        uint64_t seq;

        if (!dsw_op_room(stream->session, stream, repeat->params_bytes))
                return 0;
        op = dsw_op_new(stream->session, DS_OP_GRAPH, repeat->params_bytes);
        if (!op)
                return 0;
        op->op.more = repeat->n - 1;
        dsw_graph_attach(stream->session, repeat->graph, op);
        op->op.whole.params = op->large_size ? op->large_params : op->params;
        memcpy(op->large_size ? op->large_params : op->params, params, repeat->params_bytes);
        return !dsw_op_submit(stream, op, &seq);
}

/* Takes the repeat's launches if they are all there. Not inlined: other records must not pay for the large frame. */
__attribute__((noinline)) static uint64_t repeat_take(struct dsw_repeat *repeat, uint64_t limit)
{
        struct dsw_stream *stream = repeat->stream;
        uint8_t params[REPEAT_PARAMS];
        uint64_t slots = repeat_match(repeat, limit, params);

        if (!slots) {
                if (++repeat->missed >= REPEAT_MISSES)
                        repeat_give_up(repeat);
                return 0;
        }
        repeat->missed = 0;
        if (!repeat_ready(repeat) || !repeat_submit(repeat, params))
                return 0;
        repeat->used += repeat->used < UINT32_MAX;
        if (repeat->used == REPEAT_PAYS)
                stream->session->repeat_seen = stream->repeat_pause = 0;
        return slots;
}

uint64_t dsw_repeat_take(struct dsw_stream *stream, uint64_t limit, uint32_t *ret_launches)
{
        struct dsw_session *session = stream->session;

        if (stream->repeat_wait) {
                stream->repeat_wait--;
                return 0;
        }
        if (!session_may(session))
                return 0;
        if (!stream->repeat) {
                repeat_look(stream, limit);
                return 0;
        }
        if (limit - session->head < stream->repeat->slots)
                return 0;
        *ret_launches = stream->repeat->n;
        return repeat_take(stream->repeat, limit);
}
