/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring the interference matrix (see calibrate.h)
 *
 * For each cell the daemon sets the policy "calibrate" with the cell's parameters. Then LS runs alone, beside one BE
 * kernel, and alone again, so that a drifting clock affects both measurements. The result is the median of the launches
 * that began and ended while BE ran, over the median of the launches alone. BE's rate is its number of blocks over its
 * time.
 *
 * The daemon keeps the policy only as long as this connection lives. However this process ends, also by ^C, the
 * previous policy comes back.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/control_profile.h"
#include "ctl/calibrate.h"
#include "ctl/clock.h"
#include "ctl/progress.h"
#include "detshare/detshare.h"

#define BOUNDS 5 /* no bound, then as many blocks as the GPU has SMs, half of that, ... */
#define CELLS (DSC_LOADS * DSC_LOADS * 2 * BOUNDS)
#define SAMPLES_MIN 9u
#define SAMPLES_MAX 1000u
#define SAMPLES_WARM 4u /* samples at the beginning of a cell that do not count */
#define WARM_NS 20000u  /* time until all of BE's blocks are resident, ns */
#define RATE_NS 500000u /* least duration of a BE kernel from which a rate is computed, ns */
#define GRID_MAX (1u << 24)
#define LAUNCHES_PER_SAMPLE 5 /* duration of a cell, in launches of LS alone: LS alone, beside BE, and until BE ends */
#define TRIES 5

/* --- other clients ---------------- */

/* 1: the client is part of this calibration. Compares names, because a process has another number inside of a
 * container. */
static int is_own(const struct dsc_client *client)
{
        return client->control_only || !strcmp(client->name, CALIBRATE_LS) || !strcmp(client->name, CALIBRATE_BE);
}

static uint64_t launches_before(const struct calibrate_run *run, uint64_t session)
{
        for (size_t i = 0; i < run->n_before; i++)
                if (run->before[i].session == session)
                        return run->before[i].launches;
        return 0;
}

/* Checks that no other client works. 0, or an exit code after an error message. */
static int check_alone(struct calibrate_run *run, int after)
{
        struct dsc_client *clients;
        size_t n;
        int code = 0;
        int r = dsc_control_clients(run->control, &clients, &n);
        if (r)
                return ctl_fail(r, "cannot list the clients");
        for (size_t i = 0; i < n && !code && !run->o->force; i++) {
                const struct dsc_client *c = &clients[i];
                const int works = after ? c->launches > launches_before(run, c->session) : c->queued || c->in_flight;
                if (is_own(c) || !works)
                        continue;
                ctl_complain("%s: client %" PRIu64 " (%s) %s work on the GPU; --force measures all the same",
                        after ? "nothing is kept" : "cannot calibrate", c->session, c->name, after ? "had" : "has");
                code = CTL_FAILED;
        }
        if (after) {
                free(clients);
                return code;
        }
        run->before = clients;
        run->n_before = n;
        return code;
}

/* Checks that the worker was not restarted and that nobody set another policy: otherwise the results are invalid. */
static int check_undisturbed(struct calibrate_run *run)
{
        struct dsc_status status;
        const int r = dsc_control_status(run->control, &status);
        if (r)
                return ctl_fail(r, "cannot calibrate");
        if (status.worker_restarts == run->restarts && !strcmp(status.policy, "calibrate"))
                return check_alone(run, 1);
        ctl_complain("nothing is stored: %s during the measurement",
                status.worker_restarts == run->restarts ? "another policy was set" : "the device's process ended");
        return CTL_FAILED;
}

/* --- launches --- */

static int set_policy(struct calibrate_run *run, uint32_t be_sms, uint32_t be_blocks)
{
        char text[3][32], *params[3] = {text[0], text[1], text[2]};
        snprintf(text[0], sizeof(text[0]), "ls_sms=%" PRIu32, run->half);
        snprintf(text[1], sizeof(text[1]), "be_sms=%" PRIu32, be_sms);
        snprintf(text[2], sizeof(text[2]), "be_blocks=%" PRIu32, be_blocks);
        const int r = dsc_control_calibration_begin(run->control, params, 3);
        return r ? ctl_fail(r, "cannot calibrate") : 0;
}

/* Launches LS's kernel again and again and records the times. With `beside`: until BE has ended; *ret_be is then
 * BE's time. */
static int collect(struct calibrate_run *run, unsigned kind, size_t n, int beside, struct calibrate_times *t,
        struct calibrate_span *ret_be)
{
        int code = calibrate_hold_clock();
        for (size_t i = 0; i < n && !code; i++) {
                code = calibrate_load_submit(&run->ls, kind, 2 * run->half);
                if (!code)
                        code = calibrate_load_wait(&run->ls, &t->spans[t->n]);
                if (code)
                        break;
                t->n += i >= SAMPLES_WARM || beside;
                if (!beside)
                        continue;
                code = calibrate_be_ended(&run->be, 0, ret_be);
                if (code >= 0) /* BE has ended, or failed */
                        return code;
                code = 0;
        }
        return code;
}

/* --- cells --- */

/* Returns the number of BE blocks that can be resident under this bound. */
static uint32_t resident(uint32_t be_sms, uint32_t be_blocks)
{
        return be_blocks && be_blocks < 2 * be_sms ? be_blocks : 2 * be_sms;
}

/* Returns the number of blocks with which BE lasts for `ns`. BE's rate is assumed to be at most three times what its
 * share of blocks gives. */
static uint32_t be_grid(const struct calibrate_run *run, const struct dsc_calibration_cell *cell, double ns)
{
        const double share = 3.0 * resident(cell->be_sms, cell->be_blocks) / resident(run->n_sms, 0);
        const double grid = run->rows->rate[cell->be_load] / 1e9 * ns * (share < 1 ? share : 1);
        return grid < 1 ? 1 : grid > GRID_MAX ? GRID_MAX : (uint32_t)grid;
}

/* Measures LS beside one BE kernel. */
static int beside(struct calibrate_run *run, const struct dsc_calibration_cell *cell, uint32_t grid,
        struct calibrate_times *t, struct calibrate_span *ret_be)
{
        int code = calibrate_hold_clock();
        t->n = 0;
        *ret_be = (struct calibrate_span){0};
        if (!code)
                code = calibrate_be_launch(&run->be, cell->be_load, grid);
        if (!code)
                code = collect(run, cell->ls_load, run->samples + SAMPLES_WARM, 1, t, ret_be);
        /* while this process stops the clock, BE cannot end */
        detshare_clock_leave();
        if (!code && !ret_be->end_ns)
                code = calibrate_be_ended(&run->be, 1, ret_be);
        return code;
}

static void take_cell(struct calibrate_run *run, const struct dsc_calibration_cell *cell,
        const struct calibrate_median *alone, const struct calibrate_median *with, double rate)
{
        struct calibrate_row *row = &run->rows->rows[run->rows->n++];
        const double alone_rate = run->rows->rate[cell->be_load];
        row->cell = *cell;
        row->cell.ls_permille = calibrate_permille(with->mid, alone->mid);
        row->cell.be_permille = (uint32_t)(rate / alone_rate * 1000 + 0.5);
        row->low = calibrate_permille(with->low, alone->high);
        row->high = calibrate_permille(with->high, alone->low);
        row->samples = (uint32_t)with->n;
        run->rows->alone_ns[cell->ls_load] = alone->mid;
}

static int measure_cell(struct calibrate_run *run, const struct dsc_calibration_cell *cell,
        struct calibrate_times *alone, struct calibrate_times *t)
{
        double ns = 2.0 * (double)run->samples * (double)run->cadence_ns + 2 * WARM_NS, rate = 0;
        struct calibrate_median with = {.n = 0};
        int code = set_policy(run, cell->be_sms, cell->be_blocks);
        alone->n = 0;
        if (!code)
                code = collect(run, cell->ls_load, run->samples / 2 + SAMPLES_WARM, 0, alone, NULL);
        for (int i = 0; i < TRIES && !code && with.n < run->samples / 2; i++, ns *= 3) {
                struct calibrate_span be;
                const uint32_t grid = be_grid(run, cell, ns);
                code = beside(run, cell, grid, t, &be);
                if (code)
                        break;
                with = calibrate_median_of(t, be.start_ns + WARM_NS, be.end_ns);
                rate = (double)grid * 1e9 / (double)(be.end_ns - be.start_ns);
        }
        if (!code)
                code = collect(run, cell->ls_load, run->samples / 2 + SAMPLES_WARM, 0, alone, NULL);
        detshare_clock_leave();
        if (code)
                return code;
        const struct calibrate_median all = calibrate_median_of(alone, 0, UINT64_MAX);
        if (with.n >= SAMPLES_MIN / 2 && all.mid) {
                take_cell(run, cell, &all, &with, rate);
                return 0;
        }
        ctl_complain("cannot calibrate: no LS kernel ended beside a BE kernel that should have lasted for %.1f ms",
                ns / 3e6);
        return CTL_FAILED;
}

/* --- rates and times before the cells --- */

/* Measures the blocks per second of BE's kernels, alone on the whole GPU. */
static int measure_rates(struct calibrate_run *run)
{
        int code = set_policy(run, run->n_sms, 0);
        for (unsigned kind = 0; kind < DSC_LOADS && !code; kind++) {
                struct calibrate_span span = {0};
                /* ignore the first launch: the GPU may have to load the code */
                for (uint32_t grid = 8 * run->n_sms, i = 0; !code && grid <= GRID_MAX; grid *= 2, i++) {
                        code = calibrate_be_launch(&run->be, kind, grid);
                        if (!code)
                                code = calibrate_be_ended(&run->be, 1, &span);
                        const uint64_t ns = span.end_ns - span.start_ns;
                        if (!code && ns)
                                run->rows->rate[kind] = (double)grid * 1e9 / (double)ns;
                        if (i && ns >= RATE_NS)
                                break;
                }
        }
        if (!code && run->rows->rate[0] > 0 && run->rows->rate[1] > 0 && run->rows->rate[2] > 0)
                return 0;
        if (!code)
                ctl_complain("cannot calibrate: the device has no clock to measure with");
        return code ? code : CTL_FAILED;
}

/* Chooses the number of samples per cell by the real time and the device time of a launch. */
static int choose_samples(struct calibrate_run *run)
{
        struct calibrate_span spans[32 + SAMPLES_WARM] = {{0}};
        struct calibrate_times t = {.spans = spans};
        const uint64_t since = ctl_clock_ns(CLOCK_MONOTONIC);
        const int code = collect(run, DSC_LOAD_READ, 32, 0, &t, NULL);
        detshare_clock_leave();
        if (code)
                return code;
        const uint64_t real_ns = (ctl_clock_ns(CLOCK_MONOTONIC) - since) / 32 + 1,
                       n = run->o->seconds * 1000000000ull / (real_ns * LAUNCHES_PER_SAMPLE * CELLS);
        run->cadence_ns = (spans[t.n - 1].end_ns - spans[0].start_ns) / t.n + 1;
        run->samples = n < SAMPLES_MIN ? SAMPLES_MIN : n > SAMPLES_MAX ? SAMPLES_MAX : (uint32_t)n;
        return 0;
}

static int measure_load(struct calibrate_run *run, unsigned ls_load, unsigned be_load, struct calibrate_times *alone,
        struct calibrate_times *t)
{
        int code = 0;
        for (uint32_t i = 0; i < 2 * BOUNDS && !code; i++) {
                const uint32_t bound = i % BOUNDS, blocks = bound ? run->n_sms >> (bound - 1) : 0;
                const struct dsc_calibration_cell cell = {
                        .ls_load = ls_load,
                        .be_load = be_load,
                        .be_sms = i < BOUNDS ? run->half : run->n_sms,
                        .be_blocks = blocks,
                };
                if (bound && !blocks) /* the GPU has too few SMs for this bound */
                        continue;
                code = measure_cell(run, &cell, alone, t);
                ctl_progress("calibrating", (double)run->rows->n / CELLS);
        }
        return code;
}

static int measure_all(struct calibrate_run *run)
{
        struct calibrate_times alone = {.spans = calloc(SAMPLES_MAX + 3 * SAMPLES_WARM, sizeof(*alone.spans))};
        struct calibrate_times t = {.spans = calloc(SAMPLES_MAX + 3 * SAMPLES_WARM, sizeof(*t.spans))};
        int code = 0;
        if (!alone.spans || !t.spans) {
                ctl_complain("out of memory");
                code = CTL_FAILED;
        }
        for (unsigned i = 0; i < DSC_LOADS * DSC_LOADS && !code; i++)
                code = measure_load(run, i % DSC_LOADS, i / DSC_LOADS, &alone, &t);
        free(alone.spans);
        free(t.spans);
        return code;
}

static int learn_device(struct calibrate_run *run)
{
        struct dsc_status status;
        const int r = dsc_control_status(run->control, &status);
        if (r)
                return ctl_fail(r, "cannot calibrate");
        run->n_sms = status.n_sms;
        run->restarts = status.worker_restarts;
        /* half of the SMs, in whole TPCs; the other half is at least as large */
        run->half = status.n_tpcs ? status.n_tpcs / 2 * (status.n_sms / status.n_tpcs) : 0;
        if (run->half)
                return 0;
        ctl_complain("cannot calibrate: the device cannot be divided");
        return CTL_FAILED;
}

/*
 * Checks which parts this device can measure. A simulated device that executes kernels would need minutes for the
 * matrix, which a GPU measures in seconds. One that does not execute has no memory channels. Parts that cannot be
 * measured are skipped, or refused if nothing else was requested.
 */
static int check_device(struct calibrate_run *run, int *ret_channels)
{
        struct calibrate_channels *channels = &run->rows->channels;
        int executes = 0;
        *ret_channels = run->o->channels;
        if (!dsc_device(run->ls.session)->simulated)
                return 0;
        const int code = calibrate_load_executes(&run->ls, &executes);
        if (code)
                return code;
        if (executes && run->o->matrix && !run->o->force) {
                ctl_complain("cannot calibrate: this simulated device executes kernels, which takes too long; one that "
                             "times them only is detshared --device sim:MODEL+timing; --channels measures memory "
                             "channels alone");
                return CTL_UNSUPPORTED;
        }
        if (executes || !run->o->channels)
                return 0;
        *ret_channels = 0;
        snprintf(channels->skipped, sizeof(channels->skipped), "this simulated device executes no kernels");
        if (run->o->matrix)
                return 0;
        ctl_complain("cannot calibrate: %s", channels->skipped);
        return CTL_UNSUPPORTED;
}

static int measure_matrix(struct calibrate_run *run)
{
        int code = measure_rates(run);
        return code ? code : measure_all(run);
}

static int measure(struct calibrate_run *run)
{
        int channels = 0, code = learn_device(run);
        if (!code)
                code = check_alone(run, 0);
        if (!code)
                /* fails if the caller may not set policies, or while another process measures */
                code = set_policy(run, run->n_sms, 0);
        if (!code && run->o->matrix)
                code = calibrate_be_ready(&run->be, run->n_sms);
        if (!code)
                code = calibrate_load_open(&run->ls, 1, run->half);
        if (!code)
                code = check_device(run, &channels);
        if (!code)
                code = choose_samples(run);
        if (!code && run->o->matrix)
                code = measure_matrix(run);
        if (!code && channels)
                code = calibrate_channels_measure(run);
        if (!code)
                code = check_undisturbed(run);
        ctl_progress_end();
        return code;
}

static int put_channels(struct calibrate_run *run)
{
        const struct calibrate_channels *from = &run->rows->channels;
        struct dsc_channel_calibration to = {.channels = from->channels, .be = from->be, .n = from->n};
        for (size_t i = 0; i < from->n; i++)
                to.cells[i] = from->rows[i].cell;
        return from->n ? dsc_control_channels_put(run->control, &to) : 0;
}

static int put_matrix(struct calibrate_run *run)
{
        struct dsc_calibration_cell cells[DSC_CALIBRATION_CELLS];
        for (size_t i = 0; i < run->rows->n; i++)
                cells[i] = run->rows->rows[i].cell;
        return run->rows->n ? dsc_control_calibration_put(run->control, cells, run->rows->n) : 0;
}

/* Stores the results. The previous policy is in force again before, so that it gets the calibration. */
static int keep(struct calibrate_run *run)
{
        struct dsc_calibration kept;
        int r = put_matrix(run);
        if (!r)
                r = put_channels(run);
        if (!r)
                r = dsc_control_calibration(run->control, &kept);
        if (r)
                return ctl_fail(r, "cannot store the calibration");
        snprintf(run->rows->gpu, sizeof(run->rows->gpu), "%s", kept.gpu);
        run->rows->simulated = kept.simulated;
        run->rows->in_memory = kept.in_memory;
        return 0;
}

int calibrate_run(const struct calibrate_options *o, struct calibrate_rows *ret)
{
        struct calibrate_run run = {.o = o, .rows = ret, .be = {.pid = -1}};
        *ret = (struct calibrate_rows){.n = 0};
        int code = o->matrix ? calibrate_be_start(&run.be) : 0;
        if (code)
                return code;
        code = ctl_open(&run.control);
        if (!code) {
                code = measure(&run);
                (void)dsc_control_profile_end(run.control);
                if (!code)
                        code = keep(&run);
                dsc_control_close(run.control);
        }
        calibrate_be_stop(&run.be);
        free(run.before);
        return code;
}
