/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring what dividing the memory channels does (see calibrate.h)
 *
 * LS and BE read or write memory, each on half of the SMs, so that they share nothing but memory. A cell is three
 * measurements: LS alone without divided memory, LS beside one BE kernel according to the plan, and LS alone without
 * divided memory again. BE's rate is relative to its kernel alone on the whole GPU without divided memory. So every
 * figure of a plan includes the cost of fewer channels and of the table. A cell without BE has this cost for LS alone.
 *
 * One thread submits everything, so a simulated clock gives the same figures each time.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "core/control_profile.h"
#include "ctl/calibrate.h"
#include "ctl/progress.h"
#include "detshare/detshare.h"

#define SAMPLES_MIN 9u
#define SAMPLES_SMALL 6u
#define SAMPLES_MAX 1000u
#define SAMPLES_WARM 4u
#define SAMPLES_WARM_SMALL 1u
#define WARM_NS 20000u
#define RATE_NS 500000u
#define GRID_MAX (1u << 24)
#define TRIES 5
/* bounds on the number of BE's blocks: none, then 1/2, 1/4, 1/8 and 1/16 of the GPU's SMs; the last one is measured
 * without divided memory only */
#define BOUNDS 5

struct colours {
        struct calibrate_run *run;
        struct calibrate_coloured c;
        struct calibrate_times alone, beside;
        uint32_t samples, warm;
        /* 1: the device is simulated and executes the measured kernels, which is slow, so it gets few samples */
        int small;
        uint64_t cadence_ns;
        double rate[DSC_LOADS];
        unsigned n_cells;
};

static int set_policy(struct calibrate_run *run, uint32_t ls_sms, uint32_t be_sms, uint32_t be_blocks)
{
        char text[4][32], *params[4] = {text[0], text[1], text[2], text[3]};
        snprintf(text[0], sizeof(text[0]), "ls_sms=%" PRIu32, ls_sms);
        snprintf(text[1], sizeof(text[1]), "be_sms=%" PRIu32, be_sms);
        snprintf(text[2], sizeof(text[2]), "be_blocks=%" PRIu32, be_blocks);
        snprintf(text[3], sizeof(text[3]), "by_priority=1");
        const int r = dsc_control_calibration_begin(run->control, params, 4);
        return r ? ctl_fail(r, "cannot calibrate") : 0;
}

/* Launches LS's kernel again and again and records the times; if a BE kernel runs, until it has ended. */
static int collect(struct colours *m, const struct calibrate_plan *plan, unsigned kind, uint32_t n, int beside,
        struct calibrate_times *t)
{
        int code = calibrate_hold_clock();
        for (uint32_t i = 0; i < n && !code; i++) {
                code = calibrate_coloured_submit(&m->c, plan, 1, kind, 2 * m->run->half);
                if (!code)
                        code = calibrate_coloured_wait(&m->c, 1, &t->spans[t->n]);
                t->n += !code && (i >= m->warm || beside);
                if (beside && calibrate_coloured_ended(&m->c, 0))
                        break;
        }
        return code;
}

static int alone(struct colours *m, unsigned kind)
{
        return collect(m, &m->c.plans[0], kind, m->samples / 2 + m->warm, 0, &m->alone);
}

/* Measures LS beside one BE kernel. */
static int beside(struct colours *m, const struct calibrate_plan *plan, const struct dsc_channel_cell *cell,
        uint32_t grid, struct calibrate_span *ret_be)
{
        int code = calibrate_hold_clock();
        m->beside.n = 0;
        if (!code)
                code = calibrate_coloured_submit(&m->c, plan, 0, cell->be_load, grid);
        if (!code)
                code = collect(m, plan, cell->ls_load, m->samples + m->warm, 1, &m->beside);
        if (!code)
                code = calibrate_coloured_wait(&m->c, 0, ret_be);
        return code;
}

/* Returns the number of blocks with which BE lasts for `ns`. BE's rate is assumed to be at most twice what its share
 * of blocks and channels gives. */
static uint32_t be_grid(
        const struct colours *m, const struct calibrate_plan *plan, const struct dsc_channel_cell *cell, double ns)
{
        const uint32_t all = 2 * m->run->n_sms, half = 2 * m->run->half;
        double share = 2.0 * (cell->be_blocks && cell->be_blocks < half ? cell->be_blocks : half) / all,
               of_channels = 1;
        if (plan->n_be)
                of_channels = 2.0 * plan->n_be / m->run->rows->channels.channels;
        share = (share < 1 ? share : 1) * (of_channels < 1 ? of_channels : 1);
        const double grid = m->rate[cell->be_load] / 1e9 * ns * share;
        return grid < 1 ? 1 : grid > GRID_MAX ? GRID_MAX : (uint32_t)grid;
}

static void take_row(struct colours *m, const struct dsc_channel_cell *cell, const struct calibrate_median *with,
        const struct calibrate_median *without, double rate)
{
        struct calibrate_channels *channels = &m->run->rows->channels;
        struct calibrate_channel_row *row = &channels->rows[channels->n++];
        row->cell = *cell;
        row->cell.ls_permille = calibrate_permille(with->mid, without->mid);
        if (cell->be_load != DSC_LOAD_NONE)
                row->cell.be_permille = (uint32_t)(rate / m->rate[cell->be_load] * 1000 + 0.5);
        row->low = calibrate_permille(with->low, without->high);
        row->high = calibrate_permille(with->high, without->low);
        row->samples = (uint32_t)with->n;
}

static int measure_beside(struct colours *m, const struct calibrate_plan *plan, const struct dsc_channel_cell *cell,
        struct calibrate_median *ret, double *ret_rate)
{
        double ns = 2.0 * m->samples * (double)m->cadence_ns + 2 * WARM_NS;
        int code = 0;
        for (int i = 0; i < TRIES && !code && ret->n < m->samples / 2; i++, ns *= 3) {
                const uint32_t grid = be_grid(m, plan, cell, ns);
                struct calibrate_span be = {0};
                code = beside(m, plan, cell, grid, &be);
                if (code)
                        break;
                *ret = calibrate_median_of(&m->beside, be.start_ns + WARM_NS, be.end_ns);
                *ret_rate = (double)grid * 1e9 / (double)(be.end_ns - be.start_ns);
        }
        if (!code && ret->n < SAMPLES_SMALL / 2) {
                ctl_complain(
                        "cannot calibrate: no LS kernel ended beside a BE kernel that should have lasted for %.1f ms",
                        ns / 3e6);
                code = CTL_FAILED;
        }
        return code;
}

/* Measures a cell without BE: LS alone, with its memory placed by the plan. */
static int measure_nobody(
        struct colours *m, const struct calibrate_plan *plan, unsigned kind, struct calibrate_median *ret)
{
        m->beside.n = 0;
        const int code = collect(m, plan, kind, m->samples + m->warm, 0, &m->beside);
        *ret = calibrate_median_of(&m->beside, 0, UINT64_MAX);
        return code;
}

static void progress(const struct colours *m)
{
        ctl_progress("calibrating memory channels", (double)m->run->rows->channels.n / (m->n_cells ? m->n_cells : 1));
}

static int measure_cell(struct colours *m, const struct calibrate_plan *plan, const struct dsc_channel_cell *cell)
{
        struct calibrate_median with = {.n = 0};
        double rate = 0;
        int code = set_policy(m->run, m->run->half, m->run->half, cell->be_blocks);
        m->alone.n = 0;
        if (!code)
                code = alone(m, cell->ls_load);
        if (!code)
                code = cell->be_load == DSC_LOAD_NONE ? measure_nobody(m, plan, cell->ls_load, &with)
                                                      : measure_beside(m, plan, cell, &with, &rate);
        if (!code && !m->small) /* a simulated clock does not drift, so LS alone need not be measured again */
                code = alone(m, cell->ls_load);
        detshare_clock_leave();
        if (code)
                return code;
        const struct calibrate_median without = calibrate_median_of(&m->alone, 0, UINT64_MAX);
        take_row(m, cell, &with, &without, rate);
        progress(m);
        return 0;
}

/* --- choice of cells -------------- */

/* 1: this bound is measured with this plan. If measuring takes long, only the most useful bounds are. */
static int is_tried(const struct colours *m, const struct calibrate_plan *plan, uint32_t bound)
{
        if (bound && !(m->run->n_sms >> bound))
                return 0;
        if (m->small)
                return !bound || bound == 2 || (!plan->n_be && bound > 2);
        return !plan->n_be || bound < BOUNDS - 1;
}

static int measure_pair(struct colours *m, const struct calibrate_plan *plan, unsigned ls_load, unsigned be_load)
{
        int code = 0;
        for (uint32_t i = 0; i < BOUNDS && !code; i++) {
                const struct dsc_channel_cell cell = {
                        .ls_load = ls_load,
                        .be_load = be_load,
                        .be_channels = plan->n_be,
                        .be_blocks = i ? m->run->n_sms >> i : 0,
                };
                if (is_tried(m, plan, i))
                        code = measure_cell(m, plan, &cell);
        }
        return code;
}

static int measure_plan(struct colours *m, const struct calibrate_plan *plan)
{
        const unsigned last = m->small ? DSC_LOAD_READ : DSC_LOAD_WRITE;
        int code = 0;
        for (unsigned ls_load = DSC_LOAD_READ; ls_load <= last && !code; ls_load++) {
                const struct dsc_channel_cell nobody = {
                        .ls_load = ls_load, .be_load = DSC_LOAD_NONE, .be_channels = plan->n_be};
                if (plan->n_be)
                        code = measure_cell(m, plan, &nobody);
                for (unsigned be_load = DSC_LOAD_READ; be_load <= last && !code; be_load++)
                        code = measure_pair(m, plan, ls_load, be_load);
        }
        return code;
}

/* --- rates and times before the cells --- */

/* Measures the blocks per second of BE, alone on the whole GPU, without divided memory. */
static int measure_rate(struct colours *m, unsigned kind)
{
        struct calibrate_span span = {0};
        int code = 0;
        for (uint32_t grid = 8 * m->run->n_sms, i = 0; !code && grid <= GRID_MAX; grid *= 2, i++) {
                code = calibrate_coloured_submit(&m->c, &m->c.plans[0], 0, kind, grid);
                if (!code)
                        code = calibrate_coloured_wait(&m->c, 0, &span);
                const uint64_t ns = span.end_ns - span.start_ns;
                if (!code && ns)
                        m->rate[kind] = (double)grid * 1e9 / (double)ns;
                if (i && (ns >= RATE_NS || m->small))
                        break;
        }
        if (code || m->rate[kind] > 0)
                return code;
        ctl_complain("cannot calibrate: the device has no clock to measure with");
        return CTL_FAILED;
}

/* Measures the time from one launch of LS to the next. */
static int measure_cadence(struct colours *m)
{
        m->alone.n = 0;
        const int code = alone(m, DSC_LOAD_READ);
        const size_t n = m->alone.n;
        detshare_clock_leave();
        if (!code && n > 1)
                m->cadence_ns = (m->alone.spans[n - 1].start_ns - m->alone.spans[0].start_ns) / (n - 1) + 1;
        return code;
}

static unsigned count_cells(const struct colours *m)
{
        const unsigned loads = m->small ? 1 : 2;
        unsigned n = 0;
        for (size_t plan = 0; plan < m->c.n_plans; plan++) {
                n += plan ? loads : 0;
                for (uint32_t i = 0; i < BOUNDS; i++)
                        n += is_tried(m, &m->c.plans[plan], i) ? loads * loads : 0;
        }
        return n;
}

static int measure_all(struct colours *m)
{
        int code = set_policy(m->run, m->run->half, m->run->n_sms, 0);
        m->n_cells = count_cells(m);
        for (unsigned kind = DSC_LOAD_READ; kind <= DSC_LOAD_WRITE && !code; kind++)
                code = measure_rate(m, kind);
        if (!code)
                code = measure_cadence(m);
        for (size_t i = 0; i < m->c.n_plans && !code; i++)
                code = measure_plan(m, &m->c.plans[i]);
        return code;
}

static int open_and_measure(struct colours *m)
{
        struct calibrate_channels *channels = &m->run->rows->channels;
        /* while pages are labelled, this session is LS and has the whole device */
        int code = set_policy(m->run, m->run->n_sms, m->run->n_sms, 0);
        if (!code)
                ctl_progress("looking for memory channels", -1);
        if (!code)
                code = calibrate_coloured_open(m->run, m->small, &m->c);
        if (!code && m->c.n_plans < 2) {
                snprintf(channels->skipped, sizeof(channels->skipped),
                        "of %" PRIu32 " channels no part can be separated from the others", channels->channels);
                return 0;
        }
        if (code == CALIBRATE_NOT_HERE)
                return 0;
        if (!code)
                code = measure_all(m);
        channels->be = calibrate_verdict(channels);
        return code;
}

int calibrate_channels_measure(struct calibrate_run *run)
{
        struct colours m = {.run = run, .small = dsc_device(run->ls.session)->simulated};
        m.samples = m.small ? SAMPLES_SMALL : run->samples < SAMPLES_MIN ? SAMPLES_MIN : run->samples;
        m.warm = m.small ? SAMPLES_WARM_SMALL : SAMPLES_WARM;
        m.alone.spans = calloc(2 * SAMPLES_MAX, sizeof(*m.alone.spans));
        m.beside.spans = calloc(2 * SAMPLES_MAX, sizeof(*m.beside.spans));
        int code = CTL_FAILED;
        if (m.alone.spans && m.beside.spans)
                code = open_and_measure(&m);
        else
                ctl_complain("out of memory");
        free(m.alone.spans);
        free(m.beside.spans);
        return code;
}
