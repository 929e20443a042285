/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations that the files of `detsharectl calibrate` share
 *
 * The calibration measures how much kernels of one class slow kernels of the other class down. It uses kernels of three
 * kinds: they compute, read or write. LS has two blocks of 1,024 threads for each of half of the SMs; on an H200 they
 * touch 24 MiB, the same in every launch. BE has as many blocks as it needs to last for a given time; they stream
 * through more memory than L2 holds.
 *
 * A load is a session that launches these kernels. This process has the LS load. A child process has the BE load,
 * because a process has one session. Times are the device's, between two events around a kernel, from launch to end, as
 * a client would see them.
 *
 * Memory channels are measured in one session, because both sides have their memory in pages that were labelled
 * together: there LS is a stream of raised priority, and BE a stream without priority.
 */
#pragma once

#include <sys/types.h>

#include "core/control_calibrate.h"
#include "ctl/ctl.h"

#define CALIBRATE_LS "calibrate-ls" /* names of the sessions */
#define CALIBRATE_BE "calibrate-be"
#define CALIBRATE_LIMIT 1100 /* most that LS may take under a good bound, permille of its time alone */
#define CALIBRATE_SAME 30    /* times within this of each other count as equal, permille */

/* A measured cell. low and high: 95 % interval of the median; samples 0: the cell comes from the daemon, which has
 * no interval. */
struct calibrate_row {
        struct dsc_calibration_cell cell;
        uint32_t low, high, samples;
};

extern const char *const calibrate_loads[DSC_LOADS]; /* "compute", ... */

/* A cell of kernels whose memory lies in some of the channels. */
struct calibrate_channel_row {
        struct dsc_channel_cell cell;
        uint32_t low, high, samples; /* see struct calibrate_row */
};

struct calibrate_channels {
        uint32_t channels;
        uint32_t be;                    /* number of channels for BE that pays; 0: dividing does not pay */
        char source[128], skipped[160]; /* source of the labels; reason why nothing was measured ("" = not requested) */
        size_t n;
        struct calibrate_channel_row rows[DSC_CHANNEL_CELLS];
};

struct calibrate_rows {
        char gpu[128];
        int simulated, in_memory;
        uint64_t alone_ns[DSC_LOADS]; /* median of LS alone, ns; 0 = not known */
        double rate[DSC_LOADS];       /* blocks of BE per second alone, 0 = not known */
        size_t n;
        struct calibrate_row rows[DSC_CALIBRATION_CELLS];
        struct calibrate_channels channels;
};

/* --- calibrate_figures.c --- */

struct calibrate_span {
        uint64_t start_ns, end_ns;
};

/* The launches that were measured for one cell. */
struct calibrate_times {
        struct calibrate_span *spans;
        size_t n;
};

struct calibrate_median {
        uint64_t low, mid, high; /* 95 % interval, by order statistics, which assume no distribution */
        size_t n;
};

/* The median of the spans that lie between `from` and `until`. */
struct calibrate_median calibrate_median_of(const struct calibrate_times *t, uint64_t from, uint64_t until);
uint32_t calibrate_permille(uint64_t a, uint64_t b);
/* Stop a simulated clock until detshare_clock_leave(), except while this process waits for the device. 0, or an exit
 * code after an error message. */
int calibrate_hold_clock(void);

/* --- calibrate_load.c --- */

struct calibrate_load {
        dsc_session *session;
        uint64_t kernels[DSC_LOADS], events[2], seqs[2], memory;
        uint32_t chunks; /* pieces of `memory`; a block takes one */
        int is_ls;
};

/* Make the process's session a load. n_sms: SMs that the grid of LS is for. 0, or an exit code after an error
 * message. */
int calibrate_load_open(struct calibrate_load *load, int is_ls, uint32_t n_sms);
/* Find the kernels of the loads from `first` on in a module. A kernel's name is "calibrate_", the load and `ending`.
 * 0, or an exit code after an error message. */
int calibrate_load_kernels(
        dsc_session *session, const char *text, const char *ending, unsigned first, uint64_t kernels[DSC_LOADS]);
/* Launch a kernel between two events; wait for it and read its times. 0, or an exit code after an error message. */
int calibrate_load_submit(struct calibrate_load *load, unsigned kind, uint32_t grid);
int calibrate_load_wait(struct calibrate_load *load, struct calibrate_span *ret);

/* Does the device execute kernels (1), or only simulate their durations (0)? */
int calibrate_load_executes(struct calibrate_load *load, int *ret);

/* The process with the BE load. pid -1: there is none. */
struct calibrate_be {
        pid_t pid;
        int socket;
};

/* Call it before this process has a session or threads. 0, or an exit code after an error message. */
int calibrate_be_start(struct calibrate_be *be);
void calibrate_be_stop(struct calibrate_be *be);
int calibrate_be_ready(struct calibrate_be *be, uint32_t n_sms);
/* Returns after the launch is submitted. */
int calibrate_be_launch(struct calibrate_be *be, unsigned kind, uint32_t grid);
/* Launch the same kernel again and again without a gap, until calibrate_be_rest(). Returns after the first launch is
 * submitted. */
int calibrate_be_keep_on(struct calibrate_be *be, unsigned kind, uint32_t grid);
/* Returns when the last launch has ended. */
int calibrate_be_rest(struct calibrate_be *be);
/* 0 and the launch's times; -1: not yet (only without `wait`); or an exit code after an error message. */
int calibrate_be_ended(struct calibrate_be *be, int wait, struct calibrate_span *ret);

/* --- calibrate_run.c --- */

struct calibrate_options {
        unsigned seconds;
        int as_json, force;
        int matrix, channels; /* the results */
};

struct calibrate_run {
        const struct calibrate_options *o;
        struct calibrate_rows *rows;
        dsc_session *control;
        struct calibrate_load ls;
        struct calibrate_be be;
        uint32_t n_sms, half;
        uint32_t samples, restarts;
        struct dsc_client *before; /* sessions that existed at the beginning */
        size_t n_before;
        uint64_t cadence_ns; /* time from one launch of LS to the next, ns of the device */
};

/* Measure everything. 0, or an exit code after an error message. The previous policy is back when the process has
 * ended. */
int calibrate_run(const struct calibrate_options *o, struct calibrate_rows *ret);

/* --- calibrate_channels.c: in the LS session, while no other client works --- */

int calibrate_channels_measure(struct calibrate_run *run);

/* --- calibrate_coloured.c: memory whose channels are known, and kernels that address it by tables --- */

#define CALIBRATE_PLANS 5

/* The memory of LS and BE. Plan 0: all channels for both, without a table. */
struct calibrate_plan {
        uint32_t n_be; /* channels of BE; 0: all channels are for both */
        uint32_t sector_bits;
        uint64_t memory[2], table[2]; /* sizes, of BE and of LS */
        uint32_t chunks[2];
};

struct calibrate_coloured {
        dsc_session *session;
        uint32_t streams[2];            /* addresses, of BE and of LS */
        uint64_t kernels[2][DSC_LOADS]; /* kernels; [0] address without a table, [1] with one */
        uint64_t events[2][2], seqs[2][2];
        uint32_t turns[2];
        uint64_t pages[2];          /* streams of BE and of LS */
        uint64_t allocation, first; /* address of the labelled pages */
        uint32_t channels;
        size_t n_plans;
        struct calibrate_plan plans[CALIBRATE_PLANS];
};

/*
 * Allocate memory, label it and make the plans, in run->ls's session, while the policy gives LS the whole device. 0;
 * CALIBRATE_NOT_HERE: impossible here, with the reason in rows->channels.skipped; or an exit code after an error
 * message.
 */
#define CALIBRATE_NOT_HERE (-1)
int calibrate_coloured_open(struct calibrate_run *run, int small, struct calibrate_coloured *ret);
int calibrate_coloured_submit(
        struct calibrate_coloured *c, const struct calibrate_plan *plan, int is_ls, unsigned kind, uint32_t grid);
int calibrate_coloured_wait(struct calibrate_coloured *c, int is_ls, struct calibrate_span *ret);
int calibrate_coloured_ended(struct calibrate_coloured *c, int is_ls); /* 1: the launch has ended */

/* --- calibrate_bench.c: a session as the device of lut/probe --- */

struct ds_pages_labels;

/* Label n pages of the session's memory that nothing else uses, by launches of a stream. As ds_pages_label(). */
int calibrate_bench_label(dsc_session *session, uint32_t stream, const char *lut_dir, const uint64_t *pages, size_t n,
        struct ds_pages_labels *ret);

/* --- calibrate_verdict.c --- */

/* The number of channels for BE that pays by these rows; 0: dividing does not pay. */
uint32_t calibrate_verdict(const struct calibrate_channels *channels);

/* Combine the rows of one number of channels and blocks: the worst for LS, the mean for BE. 0: there are no such
 * rows. */
struct calibrate_choice {
        uint32_t be_channels, be_blocks, ls_permille, be_permille;
};
int calibrate_choice(const struct calibrate_channels *channels, uint32_t be_channels, uint32_t be_blocks,
        struct calibrate_choice *ret);
/* The best choice without divided memory, and the best with it (be_channels 0: none is better). 0: nothing was
 * measured. */
int calibrate_best(
        const struct calibrate_channels *channels, struct calibrate_choice *ret_plain, struct calibrate_choice *ret);

/* --- calibrate_show.c --- */

/* "1.23x": how many times as long LS takes, with the interval if this process measured it (samples not 0). */
void calibrate_times_text(uint32_t permille, uint32_t samples, uint32_t low, uint32_t high, char text[static 64]);

int calibrate_show(const struct calibrate_rows *rows, int as_json);

/* --- calibrate_show_channels.c --- */

int calibrate_channels_table(const struct calibrate_channels *channels, int simulated, struct ctl_text *text);
void calibrate_channels_json(const struct calibrate_channels *channels, struct ctl_text *text);
