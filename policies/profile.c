/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile: measures time against SM count
 *
 * Not for serving: `detsharectl profile run` sets it while one program runs. Operations go to the GPU one by one, so
 * each time is the kernel's own, and a kernel with an incomplete profile goes to the rung to be measured. Times of
 * library kernels fall in steps: they change where the number of waves of blocks does. So the policy measures each
 * kernel on all SMs and on the fewest. Then it halves every part of the ladder over which the times differ by more than
 * `tolerance_permille` and `noise_ns`, the largest difference first, until each step lies between two neighbouring
 * rungs. That is a binary search per step: about 6 rungs of 60 for a kernel with one.
 *
 * A point is measured when the host has `samples` clean samples of it. The kernel's profile (detshare_op_view.points)
 * is the memory, so known points are not measured again. The policy itself remembers only how often it tried a point.
 * It gives up a point that never comes (the host had to lend the whole GPU, the kernel failed), and kernels with more
 * steps than a profile can hold.
 */
#include "policies/detshare_policy.h"

#include <errno.h>
#include <string.h>

#define STEPS_MAX 64u
#define TRIES_MAX 4096u /* rows of the table of tried points; a power of two */
#define TRIES_SPARE 6u  /* launches beyond `samples` that may fail to give a sample before the point is given up */
/* points of a kernel from which on a new point would replace an old one in the host's profile */
#define POINTS_ENOUGH (DETSHARE_POINTS_MAX - 2u)

struct tries {
        uint64_t kernel;
        uint32_t n_sms;
        uint32_t n;
};

struct explorer {
        uint32_t n_steps;
        /* the SM counts to measure, ascending, and their rungs; the last is the whole GPU */
        uint32_t sms[STEPS_MAX], rung[STEPS_MAX];
        uint32_t samples;
        uint64_t tolerance_permille, noise_ns;
        struct tries tries[TRIES_MAX];
};

static const struct detshare_policy_param params[] = {
        {.name = "samples", .help = "undisturbed samples per SM count", .def = 3, .min = 1, .max = 4},
        {.name = "tolerance_permille",
                .help = "times that differ by more belong to two steps of a stair, permille",
                .def = 30,
                .min = 1,
                .max = 1000},
        {.name = "noise_ns", .help = "differences below this are noise, ns", .def = 300, .min = 0, .max = 1000000},
};

/* --- the ladder --------------------------------------------------------------------------------------------------- */

static void add_step(struct explorer *e, const struct detshare_rung_view *rung)
{
        uint32_t at = 0;

        while (at < e->n_steps && e->sms[at] < rung->n_sms)
                at++;
        if (e->n_steps == STEPS_MAX || (at < e->n_steps && e->sms[at] == rung->n_sms))
                return;
        memmove(&e->sms[at + 1], &e->sms[at], (e->n_steps - at) * sizeof(e->sms[0]));
        memmove(&e->rung[at + 1], &e->rung[at], (e->n_steps - at) * sizeof(e->rung[0]));
        e->sms[at] = rung->n_sms;
        e->rung[at] = rung->id;
        e->n_steps++;
}

static int explorer_init(void *state, const struct detshare_policy_config *config)
{
        struct explorer *e = state;

        e->samples = (uint32_t)config->params[0];
        e->tolerance_permille = (uint64_t)config->params[1];
        e->noise_ns = (uint64_t)config->params[2];
        add_step(e, &config->rungs[0]);
        /* rungs of the lower side; those for large clusters only for SM counts that the fine family lacks */
        for (uint32_t i = 1; i < config->n_rungs; i++)
                if (config->rungs[i].side == DETSHARE_SIDE_LOWER && config->rungs[i].family == DETSHARE_FAMILY_FINE)
                        add_step(e, &config->rungs[i]);
        for (uint32_t i = 1; i < config->n_rungs; i++)
                add_step(e, &config->rungs[i]);
        return e->n_steps > 1 ? 0 : -ENOTSUP; /* with only one rung there is nothing to compare */
}

/* --- known points and tries --------------------------------------------------------------------------------------- */

/* Mean time of the kernel at a step of the ladder, ns; 0 if the profile has too few samples of it. */
static uint64_t known(const struct explorer *e, const struct detshare_op_view *op, uint32_t step)
{
        for (uint32_t i = 0; i < op->n_points; i++)
                if (op->points[i].n_sms == e->sms[step] && op->points[i].samples >= e->samples)
                        return op->points[i].mean_ns;
        return 0;
}

static struct tries *tries_of(struct explorer *e, uint64_t kernel, uint32_t n_sms)
{
        uint64_t hash = (kernel ^ n_sms * 0x9e3779b97f4a7c15ULL) * 0xd6e8feb86659fd93ULL;

        return &e->tries[(hash >> 40) % TRIES_MAX];
}

static int given_up(struct explorer *e, const struct detshare_op_view *op, uint32_t step)
{
        const struct tries *tries = tries_of(e, op->kernel, e->sms[step]);

        if (op->all_resident && (uint64_t)op->blocks_per_sm * e->sms[step] < op->blocks)
                return 1; /* the blocks do not fit at once, so the host would launch this kernel on the whole GPU */
        return tries->kernel == op->kernel && tries->n_sms == e->sms[step] && tries->n >= e->samples + TRIES_SPARE;
}

static void note_try(struct explorer *e, const struct detshare_op_view *op, uint32_t step)
{
        struct tries *tries = tries_of(e, op->kernel, e->sms[step]);

        if (tries->kernel != op->kernel || tries->n_sms != e->sms[step])
                *tries = (struct tries){.kernel = op->kernel, .n_sms = e->sms[step]};
        tries->n++;
}

/* --- the search --------------------------------------------------------------------------------------------------- */

/* The unmeasured step nearest to the middle between `low` and `high` that can be measured; `high` if none is left. */
static uint32_t middle(struct explorer *e, const struct detshare_op_view *op, uint32_t low, uint32_t high)
{
        uint32_t mid = low + (high - low) / 2;

        for (uint32_t off = 0; off < high - low; off++) {
                if (mid + off < high && !given_up(e, op, mid + off))
                        return mid + off;
                if (mid - low > off && !given_up(e, op, mid - off))
                        return mid - off;
        }
        return high;
}

/* Permille by which the time `low` (on fewer SMs) exceeds the time `high` (on more SMs); 0 if both count as equal. */
static uint64_t rise(const struct explorer *e, uint64_t low, uint64_t high)
{
        uint64_t permille;

        if (low <= high + e->noise_ns)
                return 0;
        permille = (low - high) * 1000 / high;
        return permille > e->tolerance_permille ? permille : 0;
}

/* The step at which the kernel is measured next; n_steps if the profile is complete. */
static uint32_t next_step(struct explorer *e, const struct detshare_op_view *op)
{
        const uint32_t full = e->n_steps - 1;
        uint32_t low = 0, best = e->n_steps;
        uint64_t worst = 0, last, time, gap;

        if (op->kind != DETSHARE_OP_KERNEL || op->n_points >= POINTS_ENOUGH)
                return e->n_steps;
        if (!known(e, op, full))
                return given_up(e, op, full) ? e->n_steps : full;
        while (low < full && given_up(e, op, low) && !known(e, op, low))
                low++;
        last = known(e, op, low);
        if (!last)
                return low;
        for (uint32_t step = low + 1; step <= full; step++) {
                time = known(e, op, step);
                if (!time)
                        continue;
                gap = rise(e, last, time);
                if (gap > worst && middle(e, op, low, step) < step) {
                        worst = gap;
                        best = middle(e, op, low, step);
                }
                low = step;
                last = time;
        }
        return best;
}

/* --- one by one --------------------------------------------------------------------------------------------------- */

/* The ready coroutine whose head has waited for the longest; NULL if something is in flight or nothing is ready. */
static const struct detshare_coroutine_view *next_coroutine(const struct detshare_snapshot *snapshot)
{
        const struct detshare_coroutine_view *best = NULL;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (coroutine->in_flight)
                        return NULL;
                if (coroutine->ready && (!best || coroutine->head_since_ns < best->head_since_ns))
                        best = coroutine;
        }
        return best;
}

static int explorer_decide(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        const struct detshare_coroutine_view *coroutine = next_coroutine(snapshot);
        struct explorer *e = state;
        uint32_t step;

        if (!coroutine || !coroutine->n_ahead)
                return 0;
        step = next_step(e, &coroutine->ahead[0]);
        if (step < e->n_steps)
                note_try(e, &coroutine->ahead[0], step);
        else
                step = e->n_steps - 1;
        decision->actions[decision->n++] = (struct detshare_action){
                .kind = DETSHARE_ACTION_LAUNCH,
                .rung = e->rung[step],
                .coroutine = coroutine->id,
                .priority = DETSHARE_PRIORITY_HIGH,
                .count = 1,
        };
        return 0;
}

const struct detshare_policy DETSHARE_POLICY_SYMBOL = {
        .abi = DETSHARE_POLICY_ABI,
        .size = sizeof(struct detshare_policy),
        .name = "profile",
        .description = "measures time against SM count, one kernel at a time (for detsharectl profile run)",
        .params = params,
        .n_params = sizeof(params) / sizeof(params[0]),
        .state_size = sizeof(struct explorer),
        .init = explorer_init,
        .decide = explorer_decide,
};
