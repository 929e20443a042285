/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches, migrations, completions
 */
#include "sched/launch.h"

#include <assert.h>

#include "sched/forms.h"
#include "sched/internal.h"
#include "sched/let_go.h"
#include "sched/place.h"
#include "sched/slices.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

int ds_launch_all_resident(
        const ds_sched *sched, const struct ds_launch *launch, uint64_t blocks, uint32_t blocks_per_sm)
{
        const struct ds_kernel_info *info = sched->ops->kernel_info(launch->kernel);

        if (launch->cooperative || info->cooperative)
                return 1;
        return info->waits && blocks <= (uint64_t)blocks_per_sm * sched->info->n_sms;
}

/* --- slots -------------------------------------------------------------------------------------------------------- */

struct ds_slot *ds_slot_take(ds_sched *sched)
{
        struct ds_slot *slot;

        if (sched->free_slot == DS_SLOT_NONE)
                return NULL;
        slot = &sched->slots[sched->free_slot];
        sched->free_slot = slot->next_free;
        assert(!slot->op && !slot->event.pending);
        slot->slice = slot->lets_go = slot->trial = 0;
        slot->evict_ns = 0;
        return slot;
}

void ds_slot_told(ds_sched *sched, struct ds_slot *slot)
{
        assert(!slot->op && !slot->event.pending);
        slot->generation++;
        slot->next_free = sched->free_slot;
        sched->free_slot = (uint32_t)(slot - sched->slots);
}

uint64_t ds_slot_token(const ds_sched *sched, const struct ds_slot *slot)
{
        return (uint64_t)slot->generation << 32 | (uint64_t)(slot - sched->slots);
}

static struct ds_slot *slot_find(ds_sched *sched, uint64_t token)
{
        uint32_t index = (uint32_t)token;
        struct ds_slot *slot;

        if (index >= DS_SCHED_IN_FLIGHT_MAX)
                return NULL;
        slot = &sched->slots[index];
        return slot->op && slot->generation == (uint32_t)(token >> 32) ? slot : NULL;
}

/* --- streams ------------------------------------------------------------------------------------------------------ */

/* The scheduler's number of a stream: streams are numbered rung by rung. */
static uint32_t stream_number(uint32_t rung, uint32_t priority, uint32_t index)
{
        return (rung * DS_DEVICE_PRIORITIES + priority) * DS_DEVICE_STREAMS_PER_RUNG + index;
}

static uint32_t stream_of_device(const ds_sched *sched, uint32_t stream)
{
        return sched->ladder.device_rung[stream / DS_LADDER_STREAMS] * DS_LADDER_STREAMS + stream % DS_LADDER_STREAMS;
}

static uint32_t stream_choose(ds_sched *sched, ds_coroutine *coroutine, uint32_t rung, uint32_t priority)
{
        uint32_t first = stream_number(rung, priority, 0);
        const uint32_t *load = sched->stream_load + first;
        uint32_t best = coroutine->last_index;

        if (coroutine->n_in_flight && coroutine->stream - first < DS_DEVICE_STREAMS_PER_RUNG)
                return coroutine->stream;
        for (uint32_t i = 0; i < DS_DEVICE_STREAMS_PER_RUNG && load[best]; i++)
                if (load[i] < load[best])
                        best = i;
        coroutine->last_index = best;
        return first + best;
}

/* --- launching ---------------------------------------------------------------------------------------------------- */

#define TELL_SAMPLES 4 /* samples of a kernel below which it is timed whenever it is alone */
#define TELL_EVERY 64  /* also one launch in 64 is timed, to detect a change */
/* operations longer than this always get a prompt completion, which costs nothing in comparison */
#define TELL_LATE_NS DS_NS_PER_MS

/* Whether to time this launch: its duration would be a valid sample for this number of SMs, and the sample is worth
 * the cost of measuring. */
static int launch_wanted(ds_sched *sched, const struct ds_op *op, const struct ds_slot *slot)
{
        struct ds_kstat_row *row = ds_kstat_at(sched->kstat, op->stat_row, op->kernel_key);

        if (!slot->clean || !row || ds_op_is_piece(op) || (op->kind != DS_OP_LAUNCH && op->kind != DS_OP_GRAPH) ||
                op->evictions)
                return 0;
        if (sched->stats.launches % TELL_EVERY == 0)
                return 1;
        if (op->form != DS_PTX_FORM_NATIVE && sched->transform != DS_SCHED_TRANSFORM_ALWAYS)
                return slot->trial;
        return ds_kstat_point_wanted(sched->kstat, row, sched->ladder.views[slot->rung].n_sms, TELL_SAMPLES);
}

/* Whether the queue has work of the same coroutine directly behind the operation. */
static int launch_is_followed(const struct ds_op *op)
{
        return op->next && ds_op_is_work(op->next) && (op->next->kind != DS_OP_GRAPH || op->next->part);
}

/* Whether the operation is a part of a graph whose next parts are not unfolded yet. They are not certain to follow,
 * so for exact times the operation counts as the last one. */
static int launch_will_be_followed(const struct ds_op *op)
{
        const struct ds_op *next = op->next;

        return next && next->kind == DS_OP_GRAPH && next->in_parts && (!next->unfolded_all || next->part);
}

/*
 * Chooses how promptly the device must report an operation's end. If more work of the coroutine is queued directly
 * behind it, nobody needs its end alone: a client waits for the last operation, other coroutines for the mark behind
 * it.
 */
static void launch_tell(ds_sched *sched, struct ds_op *op, const struct ds_slot *slot)
{
        int followed = launch_is_followed(op), wanted = launch_wanted(sched, op, slot);

        if (op->kind == DS_OP_GRAPH) {
                if (followed && op->part)
                        op->whole.timed = 0;
                op->whole.timed |= (uint32_t)wanted;
        }
        if (op->kind != DS_OP_LAUNCH)
                return;
        op->launch.tell = DS_TELL_SOON;
        if (followed)
                op->launch.timed = 0;
        if (wanted) {
                op->launch.timed = 1;
                op->launch.tell = DS_TELL_EXACT;
        } else if (op->form != DS_PTX_FORM_NATIVE) {
                return; /* the next slice or another form may begin at its end, so the completion must be prompt */
        } else if (followed && slot->view.samples < TELL_SAMPLES) {
                op->launch.tell = DS_TELL_EXACT;
        } else if ((followed || launch_will_be_followed(op)) && slot->view.expected_ns < TELL_LATE_NS) {
                op->launch.tell = DS_TELL_LATE;
        }
}

/* Fills in a launch in a form other than the native one: which blocks, and how many at once. */
static void launch_in_form(
        const struct ds_op *op, const struct ds_slot *slot, const struct ds_slot *slice, struct ds_launch *launch)
{
        uint64_t ran_ns = op->ran_ns;

        if (op->form == DS_PTX_FORM_PERSISTENT) {
                launch->kernel = op->forms->persistent;
                /* the bound on resident blocks becomes the number of persistent workers */
                launch->workers = slot->max_blocks;
                launch->max_resident_blocks = 0;
                launch->chunk = op->chunk;
        } else {
                launch->kernel = op->forms->sliced;
                launch->first = op->next_block;
                launch->n_blocks = slice->blocks;
                ran_ns += slot->end_ns > slot->start_ns ? slot->end_ns - slot->start_ns : 0;
        }
        if (launch->deadline_ns)
                launch->deadline_ns = launch->deadline_ns > ran_ns ? launch->deadline_ns - ran_ns : 1;
}

static int submit_launch(
        ds_sched *sched, struct ds_op *op, const struct ds_slot *slot, const struct ds_slot *slice, uint64_t token)
{
        struct ds_launch *launch = &op->launch, in_form;

        launch->stream = stream_of_device(sched, slot->stream);
        launch->max_resident_blocks = slot->max_blocks;
        launch->form = (enum ds_ptx_form)op->form;
        if (launch->form != DS_PTX_FORM_NATIVE) {
                in_form = op->launch;
                launch = &in_form;
                launch_in_form(op, slot, slice, launch);
        }
        return sched->ops->launch(sched->device, launch, token);
}

int ds_launch_submit(ds_sched *sched, struct ds_op *op, const struct ds_slot *slot, const struct ds_slot *slice)
{
        uint32_t device_stream = stream_of_device(sched, slot->stream);
        uint64_t token = ds_slot_token(sched, slice ? slice : slot);

        switch (op->kind) {
        case DS_OP_LAUNCH:
                return submit_launch(sched, op, slot, slice, token);
        case DS_OP_COPY:
                op->copy.stream = device_stream;
                return sched->ops->copy(sched->device, &op->copy, token);
        case DS_OP_MEMSET:
                op->memset.stream = device_stream;
                return sched->ops->memset(sched->device, &op->memset, token);
        case DS_OP_GRAPH:
                op->whole.stream = device_stream;
                return sched->ops->graph_launch(sched->device, &op->whole, token);
        case DS_OP_MARK:
        case DS_OP_WAIT:
        case DS_OP_OUTSIDE:
        case _DS_OP_KIND_MAX:
                break;
        }
        return ds_error_origin(-EINVAL);
}

static void launch_count(ds_coroutine *coroutine, struct ds_slot *slot)
{
        ds_sched *sched = coroutine->sched;
        struct detshare_rung_view *rung = &sched->ladder.views[slot->rung];

        coroutine->n_in_flight++;
        coroutine->session->n_in_flight++;
        ds_sched_class_in_flight(sched, coroutine->session->config.class_, 1);
        sched->n_in_flight++;
        coroutine->in_flight_sms += slot->view.sms_needed;
        coroutine->in_flight_expected_ns += slot->view.expected_ns;
        sched->stream_load[slot->stream]++;
        ds_let_go_launched(coroutine, coroutine->boundary, slot);
        if (slot->class_ == DETSHARE_CLASS_LS)
                rung->in_flight_ls++;
        else
                rung->in_flight_be++;
}

static void complete_count(ds_coroutine *coroutine, struct ds_slot *slot)
{
        ds_sched *sched = coroutine->sched;
        struct detshare_rung_view *rung = &sched->ladder.views[slot->rung];

        assert(coroutine->n_in_flight && coroutine->session->n_in_flight && sched->n_in_flight);
        assert(sched->stream_load[slot->stream]);
        ds_let_go_no_more(coroutine, slot);
        coroutine->n_in_flight--;
        coroutine->session->n_in_flight--;
        ds_sched_class_in_flight(sched, coroutine->session->config.class_, -1);
        sched->n_in_flight--;
        coroutine->in_flight_sms -= slot->view.sms_needed;
        coroutine->in_flight_expected_ns -= slot->view.expected_ns;
        sched->stream_load[slot->stream]--;
        if (slot->class_ == DETSHARE_CLASS_LS)
                rung->in_flight_ls--;
        else
                rung->in_flight_be--;
}

/* Ends an operation that the device refused, with the device's error. It is reported in its place in the order. */
static void launch_refused(ds_coroutine *coroutine, struct ds_op *op, int status)
{
        ds_let_go_drop(coroutine->sched, op);
        op->status = status;
        op->start_ns = coroutine->sched->now_ns;
        op->finished = DS_OP_NEVER_RAN;
        ds_coroutine_pop(coroutine);
        ds_coroutine_touch(coroutine);
        ds_coroutine_changed(coroutine);
}

static void launch_done(
        ds_coroutine *coroutine, struct ds_op *op, struct ds_slot *slot, const struct ds_launch_target *target)
{
        ds_sched *sched = coroutine->sched;

        ds_history_launch(coroutine, op, slot, target);
        slot->op = op;
        slot->coroutine = coroutine->id;
        slot->class_ = coroutine->session->config.class_;
        slot->event.session = coroutine->session;
        op->launched_ns = sched->now_ns;
        op->slot = (uint32_t)(slot - sched->slots);
        coroutine->rung = slot->rung;
        coroutine->stream = slot->stream;
        coroutine->session->launches += op->kind == DS_OP_GRAPH ? op->graph->n_kernels : op->kind == DS_OP_LAUNCH;
        slot->number = ++sched->stats.launches;
        sched->stats.persistent += op->form == DS_PTX_FORM_PERSISTENT;
        sched->stats.sliced += op->form == DS_PTX_FORM_SLICED;
        sched->stats.resumed += op->evictions != 0;
        if (sched->n_in_flight != coroutine->n_in_flight)
                sched->mixed_launch = slot->number;
        launch_count(coroutine, slot);
        ds_coroutine_pop(coroutine);
        ds_coroutine_changed(coroutine);
}

#define LAUNCH_FULL 1
#define LAUNCH_UNFOLDED 2

/* Chooses the form of the launch. For an evicted kernel, the blocks that have run count as done. */
static void launch_form(
        ds_coroutine *coroutine, struct ds_op *op, struct ds_slot *slot, const struct ds_launch_target *target)
{
        struct ds_form form;

        ds_forms_choose(coroutine, op, slot, slot->max_blocks, target->evictable != 0, &form);
        op->form = (uint8_t)form.form;
        op->chunk = form.chunk;
        op->slice = form.slice;
        slot->evict_ns = form.evict_ns;
        slot->trial = (uint8_t)form.trial;
        slot->view.expected_ns -= slot->view.expected_ns / 1000 * slot->view.progress_permille;
}

/* Handles the refusal of a form by the device. Returns 1: the caller tries the native form. 0: it was the native
 * form, or a part of the kernel has run. */
static int launch_form_refused(ds_sched *sched, struct ds_op *op, struct ds_slot *slot, int status)
{
        if (op->kind != DS_OP_LAUNCH || op->form == DS_PTX_FORM_NATIVE || op->evictions)
                return 0;
        ds_forms_refused(sched, op, status);
        op->form = DS_PTX_FORM_NATIVE;
        slot->evict_ns = 0;
        slot->trial = 0;
        sched->stats.form_refusals++;
        return 1;
}

static int launch_submit(ds_coroutine *coroutine, struct ds_op *op, struct ds_slot *slot)
{
        launch_tell(coroutine->sched, op, slot);
        if (op->kind == DS_OP_LAUNCH && op->form == DS_PTX_FORM_SLICED)
                return ds_slices_begin(coroutine, op, slot);
        return ds_launch_submit(coroutine->sched, op, slot, NULL);
}

/* Passes the head to the device. Returns 0, a CUDA error, LAUNCH_FULL with *ret_full, or a fatal errno. */
static int launch_on_device(ds_coroutine *coroutine, struct ds_op *op, struct ds_slot *slot, int *ret_full)
{
        ds_sched *sched = coroutine->sched;
        int r;

        *ret_full = !ds_let_go_may_follow(coroutine, op) || sched->stream_load[slot->stream] >= DS_SCHED_STREAM_MAX;
        if (*ret_full)
                return 0;
        if (coroutine->n_in_flight && coroutine->stream != slot->stream) {
                r = sched->ops->fence(sched->device, stream_of_device(sched, coroutine->stream),
                        stream_of_device(sched, slot->stream));
                if (r)
                        return ds_error_fold(r);
                sched->stats.migrations++;
        }
        r = launch_submit(coroutine, op, slot);
        if (r > 0 && launch_form_refused(sched, op, slot, r)) {
                *ret_full = !ds_let_go_may_follow(coroutine, op);
                if (!*ret_full)
                        r = launch_submit(coroutine, op, slot);
        }
        if (r == DS_SLICES_FULL) {
                *ret_full = 1;
                return 0;
        }
        return r;
}

/* Unfolds a graph that is the head. The policy has not seen the kernels of a piece yet, so it is called again. */
static int launch_unfold(ds_coroutine *coroutine, const struct ds_op *op, struct ds_slot *slot)
{
        int piece = ds_op_is_piece(op);

        ds_slot_told(coroutine->sched, slot);
        ds_coroutine_in_parts(coroutine);
        if (!piece)
                return LAUNCH_UNFOLDED;
        if (coroutine->runnable)
                ds_sched_event_post(coroutine->sched, &coroutine->submit_event);
        return LAUNCH_FULL;
}

/*
 * Launches the head. Returns 0; LAUNCH_FULL (stop now: work on the device must end first, or the policy must examine
 * the new head); LAUNCH_UNFOLDED (a graph that cannot be launched there as a whole: its first part is the head now); or
 * a fatal errno.
 */
static int launch_one(ds_coroutine *coroutine, const struct ds_launch_target *target, struct ds_slot *slot)
{
        ds_sched *sched = coroutine->sched;
        struct ds_op *op = coroutine->boundary;
        struct ds_place place;
        int r, full;

        slot->view = ds_ahead_views(coroutine)[0];
        ds_place_choose(coroutine, op, &slot->view, target, &place);
        slot->rung = place.rung;
        slot->max_blocks = place.max_resident_blocks;
        /* the bound on resident blocks cannot be applied to the kernels of a graph launched as a whole */
        if (op->kind == DS_OP_GRAPH && (place.bounded || !ds_graph_ready(sched, op, slot->rung)))
                return launch_unfold(coroutine, op, slot);
        slot->stat_row = op->stat_row;
        slot->clean = sched->n_in_flight == coroutine->n_in_flight && !place.bounded;
        slot->stream = stream_choose(sched, coroutine, slot->rung, target->priority);
        launch_form(coroutine, op, slot, target);
        r = launch_on_device(coroutine, op, slot, &full);
        if (r < 0)
                return ds_error_trace(r);
        if (r || full) {
                ds_slot_told(sched, slot);
                if (r && !full)
                        launch_refused(coroutine, op, r);
                return full ? LAUNCH_FULL : 0;
        }
        launch_done(coroutine, op, slot, target);
        return 0;
}

int ds_launch_head(ds_coroutine *coroutine, const struct ds_launch_target *target, uint32_t count, uint64_t now_ns)
{
        ds_sched *sched = coroutine->sched;
        struct ds_slot *slot;
        uint32_t n;
        int r;

        assert(target->rung < sched->ladder.n && target->priority < DS_DEVICE_PRIORITIES);
        ds_sched_now(sched, now_ns);
        for (n = 0; n < count && coroutine->runnable && !coroutine->session->suspended; n += !r) {
                slot = ds_slot_take(sched);
                if (!slot)
                        break;
                r = launch_one(coroutine, target, slot);
                if (r < 0)
                        return r;
                if (r == LAUNCH_FULL)
                        break;
        }
        return (int)DS_MIN(n, (uint32_t)INT32_MAX);
}

/* --- completions -------------------------------------------------------------------------------------------------- */

static void complete_sample(ds_sched *sched, const struct ds_op *op, const struct ds_slot *slot)
{
        uint64_t duration = op->end_ns - op->start_ns;
        struct ds_kstat_row *row;
        uint32_t n_sms = sched->ladder.views[slot->rung].n_sms, timed = 0;

        /* an evicted kernel's last launch ran only a part of its blocks, so it is no sample */
        if (op->status || op->evictions)
                return;
        row = ds_kstat_at(sched->kstat, op->stat_row, op->kernel_key);
        if (!row)
                return;
        ds_kstat_sample(row, duration);
        if (op->kind == DS_OP_LAUNCH)
                timed = op->launch.timed;
        else if (op->kind == DS_OP_GRAPH)
                timed = op->whole.timed;
        if (!timed || !slot->clean || ds_op_is_piece(op) || sched->mixed_launch >= slot->number)
                return;
        if (op->form == DS_PTX_FORM_NATIVE || sched->transform == DS_SCHED_TRANSFORM_ALWAYS)
                ds_kstat_point_sample(sched->kstat, row, n_sms, duration);
        else
                ds_forms_sample(sched, op, n_sms, duration);
}

static void complete_settle(ds_coroutine *coroutine)
{
        if (coroutine->killing && !coroutine->n_in_flight)
                ds_coroutine_return(coroutine);
        ds_coroutine_changed(coroutine);
        ds_coroutine_touch(coroutine);
}

/* Whether the operation was killed or evicted and must be launched again. */
static int complete_returns(const ds_coroutine *coroutine, const struct ds_op *op)
{
        return op->status == DS_DEVICE_EVICTED || (op->status == DS_DEVICE_KILLED && coroutine->killing);
}

/* Charges the device time of an ended operation, including all its evicted launches, to the session. */
static void complete_whole(ds_sched_session *session, struct ds_op *op)
{
        session->device_ns += op->end_ns - op->start_ns;
        if (op->kind == DS_OP_LAUNCH && !op->status)
                session->blocks += ds_launch_blocks(&op->launch) - op->blocks_ran;
        if (op->blocks_ran)
                op->start_ns = op->began_ns;
        if (op->start_ns > op->submitted_ns)
                session->wait_ns += op->start_ns - op->submitted_ns;
}

void ds_launch_ended(ds_sched *sched, struct ds_slot *slot, const struct ds_completion *completion)
{
        struct ds_op *op = DS_TAKE_PTR(slot->op);
        ds_coroutine *coroutine = op->coroutine;

        op->finished = DS_OP_RAN;
        op->status = completion->status;
        /* the clocks of device and scheduler may differ slightly, so the times are kept in order */
        op->start_ns = DS_MAX(completion->start_ns, op->launched_ns);
        op->end_ns = DS_MAX(completion->end_ns, op->start_ns);
        if (op->status && completion->message[0])
                op->message = ds_strndup(completion->message, sizeof(completion->message));
        ds_sched_now(sched, op->end_ns);
        complete_count(coroutine, slot);
        slot->flags |= completion->shared ? DS_TRACE_SHARED : 0;
        ds_history_complete(coroutine, op, slot);
        if (complete_returns(coroutine, op)) {
                ds_let_go_returned(coroutine, op, slot, completion->blocks);
                complete_settle(coroutine);
                return;
        }
        if (!completion->shared)
                complete_sample(sched, op, slot);
        slot->start_ns = op->start_ns;
        slot->end_ns = op->end_ns;
        complete_whole(coroutine->session, op);
        ds_sched_event_post(sched, &slot->event);
        complete_settle(coroutine);
}

static void complete_one(ds_sched *sched, const struct ds_completion *completion)
{
        struct ds_slot *slot = slot_find(sched, completion->token);

        if (!slot)
                sched->stats.stray_completions++;
        else if (slot->slice)
                ds_slices_complete(sched, slot, completion);
        else
                ds_launch_ended(sched, slot, completion);
}

void ds_sched_complete(ds_sched *sched, const struct ds_completion *completions, size_t n)
{
        for (size_t i = 0; i < n; i++)
                complete_one(sched, &completions[i]);
        ds_sched_settle(sched);
}
