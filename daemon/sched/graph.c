/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unfolds graphs, and decides which can be launched whole
 */
#include "sched/graph.h"

#include <assert.h>
#include <errno.h>

#include "device/cluster.h"
#include "sched/internal.h"
#include "util/macro.h"

/* --- a graph's attributes as one operation ------------------------------------------------------------------------ */

void ds_sched_graph_add(ds_sched *sched, struct ds_sched_graph *graph, const struct ds_launch *launch)
{
        const struct ds_kernel_info *info = sched->ops->kernel_info(launch->kernel);
        uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
        uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];
        uint32_t per_sm = ds_kstat_blocks_per_sm(sched->info, info, threads, launch->shared_bytes);
        uint32_t sms = (uint32_t)DS_MIN(DS_DIV_UP(blocks, DS_MAX(per_sm, 1u)), sched->info->n_sms);

        graph->n_kernels++;
        graph->waves += DS_MAX(DS_DIV_UP(blocks, (uint64_t)DS_MAX(per_sm, 1u) * sched->info->n_sms), 1u);
        graph->key = ds_kstat_mix(graph->key, ds_launch_key(sched, launch));
        graph->cluster_blocks = DS_MAX(graph->cluster_blocks, ds_device_cluster_blocks(info, launch));
        if (sms >= graph->sms_needed) {
                graph->sms_needed = sms;
                graph->blocks = (uint32_t)DS_MIN(blocks, (uint64_t)UINT32_MAX);
                graph->threads = threads;
                graph->blocks_per_sm = DS_MAX(per_sm, 1u);
        }
        if (!ds_launch_all_resident(sched, launch, blocks, DS_MAX(per_sm, 1u)))
                return;
        /* a graph that contains such a kernel needs the whole GPU */
        graph->all_resident = 1;
        graph->sms_needed = sched->info->n_sms;
        graph->blocks = UINT32_MAX;
}

int ds_sched_all_resident(const ds_sched *sched, const struct ds_launch *launch)
{
        uint32_t threads = launch->block[0] * launch->block[1] * launch->block[2];
        uint32_t per_sm = ds_kstat_blocks_per_sm(
                sched->info, sched->ops->kernel_info(launch->kernel), threads, launch->shared_bytes);

        return ds_launch_all_resident(sched, launch, ds_launch_blocks(launch), DS_MAX(per_sm, 1u));
}

/*
 * A policy divides an operation's duration by its waves to estimate for how long one block of it occupies an SM. A
 * piece takes as long as all its kernels, so it has the sum of their waves.
 */
void ds_sched_graph_piece(ds_sched *sched, struct ds_sched_graph *graph, uint64_t expected_ns, uint64_t away_ns)
{
        uint64_t slots = (uint64_t)graph->blocks_per_sm * sched->info->n_sms, blocks;
        struct ds_kstat_row *row;

        graph->piece = 1;
        graph->away_ns = away_ns;
        if (graph->blocks >= slots && !graph->all_resident) {
                if (__builtin_mul_overflow(slots, graph->waves, &blocks))
                        blocks = UINT64_MAX;
                graph->blocks = (uint32_t)DS_MIN(blocks, (uint64_t)UINT32_MAX);
        }
        row = ds_kstat_at(sched->kstat, ds_kstat_touch(sched->kstat, graph->key), graph->key);
        if (row && !row->samples)
                ds_kstat_sample(row, expected_ns);
}

/* --- whole or in parts -------------------------------------------------------------------------------------------- */

int ds_sched_graph_whole(const ds_sched_session *session)
{
        return session->config.class_ == DETSHARE_CLASS_LS || !session->sched->n_class_sessions[DETSHARE_CLASS_LS];
}

/* The rung of the session's last work, where a policy is likely to launch more; the whole GPU if there was none. */
static uint32_t graph_rung(const ds_sched_session *session, const struct ds_sched_graph *graph)
{
        struct ds_ladder_ask ask = {.class_ = session->config.class_,
                .percent = 100,
                .n_sms = UINT32_MAX,
                .cluster_blocks = graph->cluster_blocks};
        const ds_coroutine *coroutine, *last = NULL;
        uint32_t rung;

        for (coroutine = session->coroutines; coroutine; coroutine = coroutine->next)
                if (coroutine->rung != DETSHARE_RUNG_NONE && (!last || coroutine->last_end_ns > last->last_end_ns))
                        last = coroutine;
        if (!last || graph->all_resident)
                return 0;
        ask.rung = last->rung;
        rung = ds_ladder_find(&session->sched->ladder, &ask);
        return rung == DETSHARE_RUNG_NONE ? 0 : rung;
}

int ds_sched_class_alone(const ds_sched_session *session)
{
        return session->sched->n_class_sessions[session->config.class_] == session->sched->n_sessions;
}

int ds_sched_graph_ready(const ds_sched_session *session, const struct ds_sched_graph *graph)
{
        const ds_sched *sched = session->sched;

        return ds_sched_graph_whole(session) && sched->ops->graph_ready(sched->device, graph->device,
                                                        sched->ladder.device_rung[graph_rung(session, graph)]);
}

int ds_sched_graph_build(ds_sched_session *session, const struct ds_sched_graph *graph)
{
        ds_sched *sched = session->sched;

        return sched->ops->graph_build(
                sched->device, graph->device, sched->ladder.device_rung[graph_rung(session, graph)]);
}

/* While LS has work, and shortly after, the policy must decide about every kernel, because LS work that returns would
 * wait for a whole piece. */
static int graph_piece_may_be_whole(const ds_sched *sched, const struct ds_sched_graph *piece)
{
        uint64_t left_ns = sched->class_left_ns[DETSHARE_CLASS_LS];

        if (sched->n_class_ops[DETSHARE_CLASS_LS])
                return 0;
        return !left_ns || sched->now_ns - left_ns >= piece->away_ns;
}

static int graph_may_be_whole(const ds_coroutine *coroutine, const struct ds_op *op)
{
        if (op->in_parts || op->parts_only || !op->graph->device)
                return 0;
        if (op->graph->piece && graph_piece_may_be_whole(coroutine->sched, op->graph))
                return 1;
        return ds_sched_graph_whole(coroutine->session);
}

/* The largest rung that the session's kernels may use. The device instantiates pieces for this rung only. */
static uint32_t graph_home(const ds_sched_session *session, const struct ds_op *op)
{
        struct ds_ladder_ask ask = {.class_ = session->config.class_,
                .percent = session->config.sm_percent,
                .n_sms = UINT32_MAX,
                .cluster_blocks = op->cluster_blocks};
        uint32_t rung = ds_ladder_find(&session->sched->ladder, &ask);

        return rung == DETSHARE_RUNG_NONE ? 0 : rung;
}

int ds_graph_ready(ds_sched *sched, const struct ds_op *op, uint32_t rung)
{
        if (!graph_may_be_whole(op->coroutine, op))
                return 0;
        if (op->graph->piece && rung != graph_home(op->coroutine->session, op))
                return 0;
        return sched->ops->graph_ready(sched->device, op->graph->device, sched->ladder.device_rung[rung]);
}

void ds_graph_class_changed(ds_sched *sched)
{
        const ds_sched_session *session;
        ds_coroutine *coroutine;

        for (session = sched->sessions; session; session = session->next)
                for (coroutine = session->coroutines; coroutine; coroutine = coroutine->next)
                        if (coroutine->boundary && coroutine->boundary->kind == DS_OP_GRAPH)
                                ds_coroutine_touch(coroutine);
}

/* --- launching a graph in parts ----------------------------------------------------------------------------------- */

/* Marks the graph as launched in parts. It no longer counts as work itself. */
static void graph_begin_parts(ds_coroutine *coroutine, struct ds_op *op)
{
        assert(coroutine->n_waiting_work);
        op->in_parts = 1;
        coroutine->n_waiting_work--;
        coroutine->n_marks += op->part;
        ds_ahead_clear(&coroutine->ahead);
}

/* Inserts a part before the head, which is the graph that the part belongs to. */
static void graph_insert(ds_coroutine *coroutine, struct ds_op *graph, struct ds_op *part, struct ds_op **before)
{
        ds_sched *sched = coroutine->sched;

        part->part = 1;
        part->seq = 0;
        part->coroutine = coroutine;
        part->submitted_ns = graph->submitted_ns;
        part->phase = graph->phase;
        part->launched_ns = part->start_ns = part->end_ns = 0;
        part->join_seq = 0; /* the part waits for no join: the dependency of its graph has ended */
        part->message = NULL;
        part->status = 0;
        ds_op_begin(part);
        if (part->kind == DS_OP_OUTSIDE)
                part->outside.due = part->outside.over = 0;
        else if (part->kind == DS_OP_GRAPH)
                part->in_parts = part->unfolded_all = 0;
        part->next = graph;
        if (*before)
                (*before)->next = part;
        else
                coroutine->first = part;
        if (coroutine->boundary == graph)
                coroutine->boundary = part;
        *before = part;
        coroutine->n_ops++;
        coroutine->session->n_ops++;
        sched->n_class_ops[coroutine->session->config.class_]++;
        sched->n_ops++;
        if (ds_op_is_work(part)) {
                coroutine->n_waiting_work++;
                ds_ahead_identify(sched, part);
        } else {
                coroutine->n_marks++;
        }
}

/* Inserts the next parts of the graph before it. Returns 0 if there are none, or no memory for one, which ends the
 * graph. */
static int graph_insert_parts(ds_coroutine *coroutine, struct ds_op *op)
{
        ds_sched *sched = coroutine->sched;
        struct ds_op *before = coroutine->first == op ? NULL : coroutine->before, *part = NULL;
        uint32_t n = 0;
        int r = 1;

        assert(coroutine->first == op || before->next == op);
        while (n < DS_GRAPH_WINDOW && (r = sched->unfold(sched->user, op, &part)) > 0) {
                graph_insert(coroutine, op, part, &before);
                n++;
        }
        op->unfolded_all = r <= 0;
        if (r < 0)
                op->status = DS_CUDA_OUT_OF_MEMORY;
        return n > 0;
}

int ds_graph_unfold(ds_coroutine *coroutine)
{
        struct ds_op *op = coroutine->boundary;

        assert(op->kind == DS_OP_GRAPH);
        if (op->unfolded_all || graph_may_be_whole(coroutine, op))
                return 0;
        if (coroutine->n_marks >= DS_GRAPH_MARKS)
                return -1;
        if (!op->in_parts)
                graph_begin_parts(coroutine, op);
        /* operations behind the graph get their views again after those of its parts */
        ds_ahead_clear(&coroutine->ahead);
        return graph_insert_parts(coroutine, op);
}
