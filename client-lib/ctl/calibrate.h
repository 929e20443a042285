/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl calibrate from the inside
 *
 * What kernels of one class do to those of the other is measured with kernels of three kinds: they compute, read or
 * write. LS has two blocks of 1,024 threads for each of half of the SMs, which touch 24 MiB on an H200, the same in
 * every launch; BE has as many as it takes, which stream through more than L2 holds. A BE kernel lasts for milliseconds
 * and not for longer than it is told: it has that many blocks.
 *
 * A load is a session with these kernels. This process has LS's; a process of its own has BE's, since a process has one
 * session. Times are the device's: of two events around a kernel, so from launch to end, as its client would see it.
 *
 * Channels are measured in one session, for both have their memory in pages that were labelled together: there LS is a
 * stream of a raised priority, and BE one that has none.
 */
#pragma once

#include <sys/types.h>

#include "core/control_calibrate.h"
#include "ctl/ctl.h"

#define CALIBRATE_LS "calibrate-ls" /* what the sessions are called */
#define CALIBRATE_BE "calibrate-be"
#define CALIBRATE_LIMIT 1100 /* permille of its time alone that LS may take for a bound to be good */
#define CALIBRATE_SAME 30    /* permille: times that differ by no more are as good */

/* A cell as it was measured; low and high: 95 % of the median, 0 = not known (it comes from the daemon). */
struct calibrate_row {
        struct dsc_calibration_cell cell;
        uint32_t low, high, samples;
};

extern const char *const calibrate_loads[DSC_LOADS]; /* "compute", ... */

/* The same of kernels whose memory lies in some channels, and what follows. n 0: it was not measured. */
struct calibrate_channel_row {
        struct dsc_channel_cell cell;
        uint32_t low, high, samples; /* as above */
};

struct calibrate_channels {
        uint32_t channels;
        uint32_t be; /* best effort's share of them that pays; 0: none does */
        char source[128],
                skipped[160]; /* where labels are from; why nothing was measured ("" = it was not asked for) */
        size_t n;
        struct calibrate_channel_row rows[DSC_CHANNEL_CELLS];
};

struct calibrate_rows {
        char gpu[128];
        int simulated, in_memory;
        uint64_t alone_ns[DSC_LOADS]; /* LS's median, 0 = not known */
        double rate[DSC_LOADS];       /* blocks of BE per second alone, 0 = not known */
        size_t n;
        struct calibrate_row rows[DSC_CALIBRATION_CELLS];
        struct calibrate_channels channels;
};

/* --- calibrate_figures.c --- */

struct calibrate_span {
        uint64_t start_ns, end_ns;
};

/* What is measured of one cell. */
struct calibrate_times {
        struct calibrate_span *spans;
        size_t n;
};

struct calibrate_median {
        uint64_t low, mid, high; /* 95 % lie between: order statistics, which ask nothing of the distribution */
        size_t n;
};

/* Of those that lie in a span of time. */
struct calibrate_median calibrate_median_of(const struct calibrate_times *t, uint64_t from, uint64_t until);
uint32_t calibrate_permille(uint64_t a, uint64_t b);
/* A simulated clock stands still from here on while we do anything but wait for the device; until
 * detshare_clock_leave(). 0, or an exit code after the words. */
int calibrate_hold_clock(void);

/* --- calibrate_load.c --- */

struct calibrate_load {
        dsc_session *session;
        uint64_t kernels[DSC_LOADS], events[2], seqs[2], memory;
        uint32_t chunks; /* of the memory: a block takes one */
        int is_ls;
};

/* The process's session becomes a load. n_sms: those that LS's grid is for. 0, or an exit code after the words. */
int calibrate_load_open(struct calibrate_load *load, int is_ls, uint32_t n_sms);
/* The kernels of the loads from `first` on, of a module; "calibrate_", the load and the ending are their names. 0, or
 * an exit code after the words. */
int calibrate_load_kernels(
        dsc_session *session, const char *text, const char *ending, unsigned first, uint64_t kernels[DSC_LOADS]);
/* A launch between two events; what they say when it has ended. 0, or an exit code after the words. */
int calibrate_load_submit(struct calibrate_load *load, unsigned kind, uint32_t grid);
int calibrate_load_wait(struct calibrate_load *load, struct calibrate_span *ret);

/* Do kernels do what they say, or does a simulated device only say how long they take? */
int calibrate_load_executes(struct calibrate_load *load, int *ret);

/* The process with BE's load. pid -1: there is none. */
struct calibrate_be {
        pid_t pid;
        int socket;
};

/* Before this process has a session or threads. 0, or an exit code after the words. */
int calibrate_be_start(struct calibrate_be *be);
void calibrate_be_stop(struct calibrate_be *be);
int calibrate_be_ready(struct calibrate_be *be, uint32_t n_sms);
/* Returns when it was submitted. */
int calibrate_be_launch(struct calibrate_be *be, unsigned kind, uint32_t grid);
/* The same again and again, without a moment between, until calibrate_be_rest. Returns when the first was submitted. */
int calibrate_be_keep_on(struct calibrate_be *be, unsigned kind, uint32_t grid);
/* When the last of them has ended. */
int calibrate_be_rest(struct calibrate_be *be);
/* -1: not yet (only without wait). 0 and when it ran, or an exit code after the words. */
int calibrate_be_ended(struct calibrate_be *be, int wait, struct calibrate_span *ret);

/* --- calibrate_run.c --- */

struct calibrate_options {
        unsigned seconds;
        int as_json, force;
        int matrix, channels; /* what is measured */
};

struct calibrate_run {
        const struct calibrate_options *o;
        struct calibrate_rows *rows;
        dsc_session *control;
        struct calibrate_load ls;
        struct calibrate_be be;
        uint32_t n_sms, half;
        uint32_t samples, restarts;
        struct dsc_client *before; /* who was there */
        size_t n_before;
        uint64_t cadence_ns; /* of the device: from one launch of LS to the next */
};

/* Measures all. 0, or an exit code after the words; the policy that was set is back when the process has ended. */
int calibrate_run(const struct calibrate_options *o, struct calibrate_rows *ret);

/* --- calibrate_channels.c: in the LS session, with nobody else at work --- */

int calibrate_channels_measure(struct calibrate_run *run);

/* --- calibrate_coloured.c: memory whose channels are known, and kernels that find it by tables --- */

#define CALIBRATE_PLANS 5

/* Where LS and BE have their memory: plan 0 is all channels for everybody, without a table. */
struct calibrate_plan {
        uint32_t n_be; /* channels; 0: all are everybody's */
        uint32_t sector_bits;
        uint64_t memory[2], table[2]; /* of BE, of LS */
        uint32_t chunks[2];
};

struct calibrate_coloured {
        dsc_session *session;
        uint32_t streams[2];            /* of BE, of LS */
        uint64_t kernels[2][DSC_LOADS]; /* by tables; [0] without */
        uint64_t events[2][2], seqs[2][2];
        uint32_t turns[2];
        uint64_t pages[2];          /* of each */
        uint64_t allocation, first; /* the pages */
        uint32_t channels;
        size_t n_plans;
        struct calibrate_plan plans[CALIBRATE_PLANS];
};

/*
 * Memory, labels and plans, in run->ls's session under the policy that gives LS the whole device. 0;
 * CALIBRATE_NOT_HERE: they cannot be had, and why is in rows->channels.skipped; or an exit code after the words.
 */
#define CALIBRATE_NOT_HERE (-1)
int calibrate_coloured_open(struct calibrate_run *run, int small, struct calibrate_coloured *ret);
int calibrate_coloured_submit(
        struct calibrate_coloured *c, const struct calibrate_plan *plan, int is_ls, unsigned kind, uint32_t grid);
int calibrate_coloured_wait(struct calibrate_coloured *c, int is_ls, struct calibrate_span *ret);
int calibrate_coloured_ended(struct calibrate_coloured *c, int is_ls); /* 1: it has */

/* --- calibrate_bench.c: the probe's device is a session --- */

struct ds_pages_labels;

/* Labels of n pages of the session's memory, clear ones; by launches of a stream. As ds_pages_label. */
int calibrate_bench_label(dsc_session *session, uint32_t stream, const char *lut_dir, const uint64_t *pages, size_t n,
        struct ds_pages_labels *ret);

/* --- calibrate_verdict.c --- */

/* Of the rows: best effort's channels that pay, 0: none. */
uint32_t calibrate_verdict(const struct calibrate_channels *channels);

/* What rows of one number of channels and blocks say together: the worst for LS, the mean for BE. 0: there are none. */
struct calibrate_choice {
        uint32_t be_channels, be_blocks, ls_permille, be_permille;
};
int calibrate_choice(const struct calibrate_channels *channels, uint32_t be_channels, uint32_t be_blocks,
        struct calibrate_choice *ret);
/* The best without colours, and the best with them (be_channels 0: none is better). 0: nothing was measured. */
int calibrate_best(
        const struct calibrate_channels *channels, struct calibrate_choice *ret_plain, struct calibrate_choice *ret);

/* --- calibrate_show.c --- */

/* How many times as long LS takes; the interval where it was measured just now (samples not 0). */
void calibrate_times_text(uint32_t permille, uint32_t samples, uint32_t low, uint32_t high, char text[static 64]);

int calibrate_show(const struct calibrate_rows *rows, int as_json);

/* --- calibrate_show_channels.c --- */

int calibrate_channels_table(const struct calibrate_channels *channels, int simulated, struct ctl_text *text);
void calibrate_channels_json(const struct calibrate_channels *channels, struct ctl_text *text);
