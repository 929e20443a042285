/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the forms of kernels
 */
#include "sched/forms.h"

#include <errno.h>

#include "sched/internal.h"
#include "sched/place.h"
#include "util/macro.h"

#define FORMS_BLOCKS_MAX (1u << 31) /* a grid of at least this many blocks has no forms */
/* number of measurements of a form's cost, after which it is not measured any more */
#define FORMS_SAMPLES 4u
#define FORMS_DEAR 1250u /* longest duration of a form that is used, permille of the native form's */
/* blocks that a worker of the persistent form may still run after an eviction, if its chunk has more than one block */
#define FORMS_HELD 2u
/* minimum number of chunks per persistent worker; with fewer of them, workers would end at too different times */
#define FORMS_TAKES 8u
/* a kernel that takes less than this part of the bound on evictions is not worth a search for another form */
#define FORMS_SHORT 4

/* Figures of a kernel on the SMs of its launch: durations, waves of blocks, resident blocks. */
struct figures {
        uint64_t native_ns, block_ns; /* duration of the native form, and of one block; 0 = not known */
        uint64_t waves, resident;
};

static uint64_t resident_blocks(const struct detshare_op_view *view, uint32_t n_sms)
{
        return DS_MAX((uint64_t)view->blocks_per_sm * n_sms, 1u);
}

static uint64_t waves_on(const struct detshare_op_view *view, uint32_t n_sms)
{
        return DS_MAX(DS_DIV_UP((uint64_t)view->blocks, resident_blocks(view, n_sms)), 1u);
}

/* Estimates the durations on n_sms from the kernel's profile: from the point with the most SMs that are not more
 * than n_sms, else from the smallest one. Between points, durations form stairs of whole waves. */
static void figures_known(const struct detshare_op_view *view, uint32_t n_sms, uint32_t n_all, struct figures *figures)
{
        const struct detshare_profile_point *point = view->points;

        if (!view->n_points && !view->samples)
                return;
        for (uint32_t i = 1; i < view->n_points && view->points[i].n_sms <= n_sms; i++)
                point = &view->points[i];
        if (view->n_points)
                figures->block_ns = point->mean_ns / waves_on(view, point->n_sms);
        else
                figures->block_ns = view->expected_ns / waves_on(view, n_all);
        figures->block_ns = DS_MAX(figures->block_ns, 1u);
        figures->native_ns = figures->block_ns * figures->waves;
}

static struct figures figures_of(
        const struct detshare_op_view *view, uint32_t n_sms, uint32_t n_all, uint32_t max_resident_blocks)
{
        struct figures figures = {.resident = resident_blocks(view, n_sms)};

        if (max_resident_blocks)
                figures.resident = DS_MIN(figures.resident, max_resident_blocks);
        figures.waves = DS_MAX(DS_DIV_UP((uint64_t)view->blocks, figures.resident), 1u);
        figures_known(view, n_sms, n_all, &figures);
        return figures;
}

/*
 * Chooses the number of blocks that a persistent worker takes at a time (the chunk). With one block, the worker can be
 * evicted at the block's end, but waits for memory between two blocks. With more, it takes the next chunk while it
 * works, and has at most two blocks and a chunk left to run (ptx/pass/forms.h).
 *
 * The chunk is the number of blocks that take one block less than a tenth of the bound, which leaves time for the
 * signal. It is two if that would be fewer and two take at most a fifth of the bound. More than two save little. On an
 * H200, with blocks of 2 us, the kernel took 9.5% longer with a chunk of two, 8.2% with three and 7.1% with sixteen.
 * The SMs were free after 9 us with two (p99) and after 17 us with three.
 */
static struct ds_form form_persistent(const struct figures *figures, uint64_t bound_ns)
{
        uint64_t blocks = figures->block_ns ? bound_ns / 10 / figures->block_ns : 1, chunk = 1;

        if (blocks >= 2)
                chunk = DS_MAX(blocks, FORMS_HELD + 3) - FORMS_HELD - 1;
        chunk = DS_MAX(DS_MIN(chunk, figures->waves / FORMS_TAKES), 1u);
        return (struct ds_form){
                .form = DS_PTX_FORM_PERSISTENT,
                .chunk = (uint32_t)chunk,
                .evict_ns = (chunk == 1 ? 1 : chunk + FORMS_HELD) * figures->block_ns,
        };
}

static struct ds_form form_sliced(const struct figures *figures, uint32_t blocks, uint64_t bound_ns)
{
        uint64_t waves = figures->block_ns ? bound_ns / DS_FORMS_SLICES / figures->block_ns : 1;

        waves = DS_MAX(DS_MIN(waves, figures->waves), 1u);
        return (struct ds_form){
                .form = DS_PTX_FORM_SLICED,
                .slice = (uint32_t)DS_MIN(waves * figures->resident, (uint64_t)blocks),
                .evict_ns = DS_MIN(waves * DS_FORMS_SLICES, figures->waves) * figures->block_ns,
        };
}

static struct ds_form form_of(enum ds_ptx_form form, const struct figures *figures, uint32_t blocks, uint64_t bound_ns)
{
        switch (form) {
        case DS_PTX_FORM_PERSISTENT:
                return form_persistent(figures, bound_ns);
        case DS_PTX_FORM_SLICED:
                return form_sliced(figures, blocks, bound_ns);
        case DS_PTX_FORM_NATIVE:
        case _DS_PTX_FORM_MAX:
                break;
        }
        return (struct ds_form){.form = DS_PTX_FORM_NATIVE};
}

/* --- available forms ---------------------------------------------------------------------------------------------- */

static int forms_fit(const ds_sched *sched, const struct ds_op *op, const struct detshare_op_view *view)
{
        const struct ds_kernel_info *info = sched->ops->kernel_info(op->launch.kernel);

        if (sched->transform == DS_SCHED_TRANSFORM_NEVER || view->all_resident || !view->blocks ||
                view->blocks >= FORMS_BLOCKS_MAX)
                return 0;
        if (op->cluster_blocks > 1 || info->blocks_are_clusters || info->cluster_explicit || op->launch.replays)
                return 0;
        if (!op->forms->waits)
                return 1;
        return sched->transform == DS_SCHED_TRANSFORM_ALWAYS &&
               view->blocks > resident_blocks(view, sched->info->n_sms);
}

uint32_t ds_forms_of(const ds_sched *sched, const struct ds_op *op, const struct detshare_op_view *view)
{
        uint32_t forms = DETSHARE_FORM_NATIVE;

        if (op->kind != DS_OP_LAUNCH || !op->forms)
                return forms;
        if (op->launch.resumes)
                return DETSHARE_FORM_PERSISTENT;
        if (op->next_block)
                return DETSHARE_FORM_SLICED;
        if (!forms_fit(sched, op, view))
                return forms;
        if (op->forms->sliced)
                forms |= DETSHARE_FORM_SLICED;
        if (op->forms->persistent && sched->ops->evict)
                forms |= DETSHARE_FORM_PERSISTENT;
        return forms;
}

/* --- the choice --------------------------------------------------------------------------------------------------- */

static uint32_t cost_of(const struct ds_kstat_forms *known, enum ds_ptx_form form)
{
        return known && known->costs[form].samples ? known->costs[form].permille : 1000;
}

/* Whether the form costs at most FORMS_DEAR and its eviction takes at most half of the native form's duration. */
static int form_may(const struct ds_form *form, const struct figures *figures, const struct ds_kstat_forms *known)
{
        return cost_of(known, form->form) <= FORMS_DEAR && form->evict_ns * 2 <= figures->native_ns;
}

/*
 * Whether form a is better than form b. The cheapest form whose eviction takes no longer than the bound is best. If
 * neither meets the bound, or both cost the same, the shorter eviction time is better.
 */
static int form_better(
        const struct ds_form *a, const struct ds_form *b, const struct ds_kstat_forms *known, uint64_t bound_ns)
{
        int a_within = a->evict_ns <= bound_ns, b_within = b->evict_ns <= bound_ns;

        if (a_within != b_within)
                return a_within;
        if (a_within && cost_of(known, a->form) != cost_of(known, b->form))
                return cost_of(known, a->form) < cost_of(known, b->form);
        return a->evict_ns < b->evict_ns;
}

static uint32_t form_bit(enum ds_ptx_form form)
{
        return 1u << form;
}

_Static_assert(DETSHARE_FORM_NATIVE == 1u << DS_PTX_FORM_NATIVE && DETSHARE_FORM_SLICED == 1u << DS_PTX_FORM_SLICED &&
                       DETSHARE_FORM_PERSISTENT == 1u << DS_PTX_FORM_PERSISTENT,
        "policies see forms as bits of the same numbers");

static int form_refused(const struct ds_kstat_forms *known, enum ds_ptx_form form)
{
        return known && known->refused & form_bit(form);
}

/* The forms that the device has not refused. A launch that continues an evicted kernel has no choice. */
static uint32_t forms_left(uint32_t forms, const struct ds_kstat_forms *known)
{
        return known && forms & DETSHARE_FORM_NATIVE ? forms & ~(uint32_t)known->refused : forms;
}

/* Finds the best form (*ret: native if no other form is suitable) and a form whose cost should be measured
 * (*ret_trial: native if none). */
static void form_search(const struct detshare_op_view *view, const struct figures *figures,
        const struct ds_kstat_forms *known, uint64_t bound_ns, struct ds_form *ret, struct ds_form *ret_trial)
{
        static const enum ds_ptx_form order[] = {DS_PTX_FORM_PERSISTENT, DS_PTX_FORM_SLICED};

        *ret = *ret_trial = (struct ds_form){.form = DS_PTX_FORM_NATIVE};
        for (size_t i = 0; i < DS_ARRAY_SIZE(order); i++) {
                struct ds_form form = form_of(order[i], figures, view->blocks, bound_ns);

                if (!(view->forms & form_bit(order[i])) || form_refused(known, order[i]) ||
                        !form_may(&form, figures, known))
                        continue;
                if (ret->form == DS_PTX_FORM_NATIVE || form_better(&form, ret, known, bound_ns))
                        *ret = form;
                if (ret_trial->form == DS_PTX_FORM_NATIVE && known && form.evict_ns <= bound_ns &&
                        known->costs[order[i]].samples < FORMS_SAMPLES && known->tries[order[i]] < DS_KSTAT_TRIES_MAX)
                        *ret_trial = form;
        }
}

static int view_has_point(const struct detshare_op_view *view, uint32_t n_sms)
{
        for (uint32_t i = 0; i < view->n_points; i++)
                if (view->points[i].n_sms == n_sms)
                        return 1;
        return 0;
}

/* Chooses by the known durations. If the kernel would be alone on the GPU, a form with unknown cost is used to
 * measure it. */
static enum ds_sched_form_reason choose_known(ds_sched *sched, const struct ds_slot *slot,
        const struct figures *figures, struct ds_kstat_forms *known, struct ds_form *ret)
{
        struct ds_form best, trial;

        form_search(&slot->view, figures, known, sched->evict_bound_ns, &best, &trial);
        if (best.form == DS_PTX_FORM_NATIVE)
                return DS_SCHED_FORM_DEAR;
        if (slot->clean && trial.form != DS_PTX_FORM_NATIVE) {
                /* the cost is relative to the native form's duration on the same SMs, which must be known first */
                if (!view_has_point(&slot->view, sched->ladder.views[slot->rung].n_sms)) {
                        known->tries[trial.form]++;
                        return DS_SCHED_FORM_UNKNOWN;
                }
                known->tries[trial.form]++;
                *ret = trial;
                ret->trial = 1;
                return DS_SCHED_FORM_TRIED;
        }
        *ret = best;
        return best.evict_ns <= sched->evict_bound_ns ? DS_SCHED_FORM_CHEAPEST : DS_SCHED_FORM_SOONEST;
}

static enum ds_sched_form_reason choose_auto(const ds_coroutine *coroutine, const struct ds_slot *slot,
        const struct figures *figures, struct ds_kstat_forms *known, int evictable, struct ds_form *ret)
{
        ds_sched *sched = coroutine->sched;

        if (coroutine->session->config.class_ != DETSHARE_CLASS_BE || !evictable)
                return DS_SCHED_FORM_UNASKED;
        if (!figures->native_ns)
                return DS_SCHED_FORM_UNKNOWN;
        if (figures->native_ns <= sched->evict_bound_ns)
                return DS_SCHED_FORM_SHORT;
        return choose_known(sched, slot, figures, known, ret);
}

/* Chooses without comparing costs: for a kernel with a single form, and in mode "always", which prefers the
 * persistent one. */
static void choose_given(
        uint32_t forms, const struct figures *figures, uint32_t blocks, uint64_t bound_ns, struct ds_form *ret)
{
        enum ds_ptx_form form = DS_PTX_FORM_NATIVE;

        if (forms & DETSHARE_FORM_PERSISTENT)
                form = DS_PTX_FORM_PERSISTENT;
        else if (forms & DETSHARE_FORM_SLICED)
                form = DS_PTX_FORM_SLICED;
        *ret = form_of(form, figures, blocks, bound_ns);
}

static void choice_note(const ds_sched *sched, const struct ds_slot *slot, const struct figures *figures,
        enum ds_sched_form_reason reason, const struct ds_form *form, struct ds_kstat_forms *known)
{
        known->reason = (uint8_t)reason;
        known->form = (uint8_t)form->form;
        known->n_sms = sched->ladder.views[slot->rung].n_sms;
        known->chunk = form->chunk;
        known->slice = form->slice;
        known->native_ns = figures->native_ns;
        known->block_ns = figures->block_ns;
        known->evict_ns = form->evict_ns;
}

void ds_forms_choose(const ds_coroutine *coroutine, const struct ds_op *op, const struct ds_slot *slot,
        uint32_t max_resident_blocks, int evictable, struct ds_form *ret)
{
        ds_sched *sched = coroutine->sched;
        const struct detshare_op_view *view = &slot->view;
        enum ds_sched_form_reason reason;
        struct ds_kstat_forms *known;
        struct ds_kstat_row *row;
        struct figures figures;

        *ret = (struct ds_form){.form = DS_PTX_FORM_NATIVE};
        if (op->kind != DS_OP_LAUNCH || !op->forms)
                return;
        figures = figures_of(view, sched->ladder.views[slot->rung].n_sms, sched->info->n_sms, max_resident_blocks);
        if (!(view->forms & DETSHARE_FORM_NATIVE)) { /* an evicted kernel continues in its form */
                choose_given(view->forms, &figures, view->blocks, sched->evict_bound_ns, ret);
                return;
        }
        row = ds_kstat_at(sched->kstat, op->stat_row, op->kernel_key);
        known = row ? ds_kstat_forms(sched->kstat, row) : NULL;
        if (sched->transform == DS_SCHED_TRANSFORM_NEVER) {
                reason = DS_SCHED_FORM_NEVER;
        } else if (view->forms == DETSHARE_FORM_NATIVE) {
                reason = DS_SCHED_FORM_UNFIT;
        } else if (forms_left(view->forms, known) == DETSHARE_FORM_NATIVE) {
                reason = DS_SCHED_FORM_REFUSED;
        } else if (sched->transform == DS_SCHED_TRANSFORM_ALWAYS) {
                choose_given(forms_left(view->forms, known), &figures, view->blocks, sched->evict_bound_ns, ret);
                reason = DS_SCHED_FORM_MUST;
        } else {
                reason = choose_auto(coroutine, slot, &figures, known, evictable, ret);
        }
        if (known)
                choice_note(sched, slot, &figures, reason, ret, known);
}

/* --- values shown to the policy and in explain -------------------------------------------------------------------- */

void ds_forms_show(const ds_sched *sched, uint32_t stat_row, struct detshare_op_view *view)
{
        const struct ds_kstat_forms *known = ds_kstat_forms_known(sched->kstat, stat_row, view->kernel);
        struct figures figures;
        struct ds_form form, trial;
        int chosen;

        view->evict_ns = 0;
        if (view->forms == DETSHARE_FORM_NATIVE)
                return;
        chosen = sched->transform == DS_SCHED_TRANSFORM_ALWAYS || !(view->forms & DETSHARE_FORM_NATIVE);
        if (!chosen && view->expected_ns < sched->evict_bound_ns / FORMS_SHORT)
                return;
        figures = figures_of(view, sched->info->n_sms, sched->info->n_sms, 0);
        if (chosen)
                choose_given(forms_left(view->forms, known), &figures, view->blocks, sched->evict_bound_ns, &form);
        else if (figures.native_ns > sched->evict_bound_ns)
                form_search(view, &figures, known, sched->evict_bound_ns, &form, &trial);
        else
                return;
        view->evict_ns = form.evict_ns;
}

void ds_forms_refused(ds_sched *sched, const struct ds_op *op, int status)
{
        struct ds_kstat_row *row = ds_kstat_at(sched->kstat, op->stat_row, op->kernel_key);
        struct ds_kstat_forms *known = row ? ds_kstat_forms(sched->kstat, row) : NULL;

        if (!known)
                return;
        if (status != DS_CUDA_OUT_OF_MEMORY)
                known->refused |= (uint8_t)form_bit((enum ds_ptx_form)op->form);
        known->form = DS_PTX_FORM_NATIVE;
        known->reason = DS_SCHED_FORM_REFUSED;
        known->chunk = known->slice = 0;
        known->evict_ns = 0;
}

void ds_forms_sample(ds_sched *sched, const struct ds_op *op, uint32_t n_sms, uint64_t duration_ns)
{
        struct ds_kstat_row *row = ds_kstat_at(sched->kstat, op->stat_row, op->kernel_key);

        if (row)
                ds_kstat_form_sample(sched->kstat, row, (enum ds_ptx_form)op->form, n_sms, duration_ns);
}

int ds_sched_form_chosen(ds_sched *sched, uint64_t key, struct ds_sched_form_choice *ret)
{
        const struct ds_kstat_forms *known = ds_kstat_forms_known(sched->kstat, ds_kstat_find(sched->kstat, key), key);

        if (!known || known->reason == DS_SCHED_FORM_NONE)
                return -ENOENT;
        *ret = (struct ds_sched_form_choice){
                .form = known->form,
                .reason = known->reason,
                .n_sms = known->n_sms,
                .chunk = known->chunk,
                .slice = known->slice,
                .native_ns = known->native_ns,
                .block_ns = known->block_ns,
                .evict_ns = known->evict_ns,
        };
        for (int i = 0; i < _DS_PTX_FORM_MAX; i++)
                ret->costs[i] = known->costs[i];
        return 0;
}

const char *ds_sched_form_reason(uint32_t reason)
{
        static const char *const reasons[_DS_SCHED_FORM_REASONS] = {
                [DS_SCHED_FORM_NONE] = "not launched yet",
                [DS_SCHED_FORM_NEVER] = "the daemon's setting transform is never",
                [DS_SCHED_FORM_MUST] = "the daemon's setting transform is always",
                [DS_SCHED_FORM_UNFIT] = "blocks wait for others, or it is cooperative, has clusters or is too large",
                [DS_SCHED_FORM_UNASKED] = "latency-sensitive, or the policy does not evict it",
                [DS_SCHED_FORM_UNKNOWN] = "its time is not known yet",
                [DS_SCHED_FORM_SHORT] = "it is shorter than the bound on evictions",
                [DS_SCHED_FORM_TRIED] = "the form is being measured",
                [DS_SCHED_FORM_CHEAPEST] = "the cheapest form that can be evicted within the bound",
                [DS_SCHED_FORM_SOONEST] = "its blocks take longer than the bound: the form that can be evicted soonest",
                [DS_SCHED_FORM_DEAR] = "every other form costs too much for the eviction time that it saves",
                [DS_SCHED_FORM_REFUSED] = "the device refused the other forms: too few resources",
        };

        return reason < _DS_SCHED_FORM_REASONS ? reasons[reason] : "unknown";
}
