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
#define CALIBRATE_LIMIT 1100 /* limit of LS's time beside BE under a good bound, permille of its time alone */
#define CALIBRATE_SAME 30    /* difference up to which two times count as equal, permille */

/* A measured cell. low and high: 95 % interval of the median; samples 0: the cell was stored in the daemon, which
 * keeps no interval. */
struct calibrate_row {
        struct dsc_calibration_cell cell;
        uint32_t low, high, samples;
};

extern const char *const calibrate_loads[DSC_LOADS]; /* "compute", ... */

/* A measured cell with divided memory channels. */
struct calibrate_channel_row {
        struct dsc_channel_cell cell;
        uint32_t low, high, samples; /* see struct calibrate_row */
};

struct calibrate_channels {
        uint32_t channels;
        /* number of BE channels that is worth dividing the memory; 0: dividing does not pay */
        uint32_t be;
        /* source of the channel labels; reason why no channels were measured, "" = not requested */
        char source[128], skipped[160];
        size_t n;
        struct calibrate_channel_row rows[DSC_CHANNEL_CELLS];
};

struct calibrate_rows {
        char gpu[128];
        int simulated, in_memory;
        uint64_t alone_ns[DSC_LOADS]; /* median time of LS alone, ns; 0 = not known */
        double rate[DSC_LOADS];       /* blocks per second of BE alone; 0 = not known */
        size_t n;
        struct calibrate_row rows[DSC_CALIBRATION_CELLS];
        struct calibrate_channels channels;
};

/* --- calibrate_figures.c --- */

struct calibrate_span {
        uint64_t start_ns, end_ns;
};

/* The measured launches of one cell. */
struct calibrate_times {
        struct calibrate_span *spans;
        size_t n;
};

struct calibrate_median {
        /* median with its 95 % interval, from order statistics, which assume no distribution; ns */
        uint64_t low, mid, high;
        size_t n;
};

/* Returns the median duration of the spans between `from` and `until`. */
struct calibrate_median calibrate_median_of(const struct calibrate_times *t, uint64_t from, uint64_t until);
uint32_t calibrate_permille(uint64_t a, uint64_t b);
/* Stops a simulated clock until detshare_clock_leave(), except while this process waits for the device. 0, or an
 * exit code after an error message. */
int calibrate_hold_clock(void);

/* --- calibrate_load.c --- */

struct calibrate_load {
        dsc_session *session;
        uint64_t kernels[DSC_LOADS], events[2], seqs[2], memory;
        uint32_t chunks; /* number of pieces of `memory`; each block uses one */
        int is_ls;
};

/* Turns the process's session into a load. n_sms: number of SMs that LS's grid fills. 0, or an exit code after an
 * error message. */
int calibrate_load_open(struct calibrate_load *load, int is_ls, uint32_t n_sms);
/* Finds kernels[first] and the following ones in a module with the PTX `text`. A kernel's name is "calibrate_", the
 * load's name and `ending`. 0, or an exit code after an error message. */
int calibrate_load_kernels(
        dsc_session *session, const char *text, const char *ending, unsigned first, uint64_t kernels[DSC_LOADS]);
/* calibrate_load_submit() launches a kernel between two events; calibrate_load_wait() waits for it and reads its
 * times. 0, or an exit code after an error message. */
int calibrate_load_submit(struct calibrate_load *load, unsigned kind, uint32_t grid);
int calibrate_load_wait(struct calibrate_load *load, struct calibrate_span *ret);

/* *ret: 1 if the device executes kernels, 0 if it only simulates their durations. */
int calibrate_load_executes(struct calibrate_load *load, int *ret);

/* The process with the BE load. pid -1: there is none. */
struct calibrate_be {
        pid_t pid;
        int socket;
};

/* Starts the process with the BE load. Call it before this process has a session or threads. 0, or an exit code
 * after an error message. */
int calibrate_be_start(struct calibrate_be *be);
void calibrate_be_stop(struct calibrate_be *be);
int calibrate_be_ready(struct calibrate_be *be, uint32_t n_sms);
/* Makes the BE process launch a kernel once. Returns after the launch is submitted. */
int calibrate_be_launch(struct calibrate_be *be, unsigned kind, uint32_t grid);
/* Makes the BE process launch the same kernel again and again without a gap, until calibrate_be_rest(). Returns
 * after the first launch is submitted. */
int calibrate_be_keep_on(struct calibrate_be *be, unsigned kind, uint32_t grid);
/* Ends the launches that calibrate_be_keep_on() began. Returns when the last one has ended. */
int calibrate_be_rest(struct calibrate_be *be);
/* Reads the times of calibrate_be_launch()'s kernel. 0: *ret has them; -1: it has not ended (only without `wait`);
 * else an exit code after an error message. */
int calibrate_be_ended(struct calibrate_be *be, int wait, struct calibrate_span *ret);

/* --- calibrate_run.c --- */

struct calibrate_options {
        unsigned seconds;
        int as_json, force;
        int matrix, channels; /* 1: measure the interference matrix, the memory channels */
};

struct calibrate_run {
        const struct calibrate_options *o;
        struct calibrate_rows *rows;
        dsc_session *control;
        struct calibrate_load ls;
        struct calibrate_be be;
        uint32_t n_sms, half;
        uint32_t samples, restarts;
        struct dsc_client *before; /* clients that were connected when the measurement began */
        size_t n_before;
        uint64_t cadence_ns; /* time from one launch of LS to the next, device time, ns */
};

/* Measures all that the options request. 0, or an exit code after an error message. When the process has ended, the
 * previous policy is in force again. */
int calibrate_run(const struct calibrate_options *o, struct calibrate_rows *ret);

/* --- calibrate_channels.c: in the LS session, while no other client works --- */

int calibrate_channels_measure(struct calibrate_run *run);

/* --- calibrate_coloured.c: memory whose channels are known, and kernels that address it by tables --- */

#define CALIBRATE_PLANS 5

/* The memory that BE and LS use. Plan 0: both use all channels, without a table. */
struct calibrate_plan {
        uint32_t n_be; /* number of BE's channels; 0: both use all channels */
        uint32_t sector_bits;
        uint64_t memory[2], table[2]; /* addresses for BE and for LS; table 0: kernels address memory directly */
        uint32_t chunks[2];
};

struct calibrate_coloured {
        dsc_session *session;
        uint32_t streams[2];            /* streams of BE and of LS */
        uint64_t kernels[2][DSC_LOADS]; /* kernels[0] address memory directly, kernels[1] by a table */
        uint64_t events[2][2], seqs[2][2];
        uint32_t turns[2];
        uint64_t pages[2];          /* number of labelled pages of BE and of LS */
        uint64_t allocation, first; /* address of the allocation, and of the first labelled page in it */
        uint32_t channels;
        size_t n_plans;
        struct calibrate_plan plans[CALIBRATE_PLANS];
};

/*
 * Allocates memory, labels its channels and makes the plans, in run->ls's session, while the policy gives LS the whole
 * device. 0; CALIBRATE_NOT_HERE: impossible on this device, with the reason in rows->channels.skipped; else an exit
 * code after an error message.
 */
#define CALIBRATE_NOT_HERE (-1)
int calibrate_coloured_open(struct calibrate_run *run, int small, struct calibrate_coloured *ret);
int calibrate_coloured_submit(
        struct calibrate_coloured *c, const struct calibrate_plan *plan, int is_ls, unsigned kind, uint32_t grid);
int calibrate_coloured_wait(struct calibrate_coloured *c, int is_ls, struct calibrate_span *ret);
int calibrate_coloured_ended(struct calibrate_coloured *c, int is_ls); /* 1: the launch has ended */

/* --- calibrate_bench.c: a session as the device of lut/probe --- */

struct ds_pages_labels;

/* Labels n pages of the session's memory that no other work uses, by launches of a stream. Parameters and result as
 * ds_pages_label(). */
int calibrate_bench_label(dsc_session *session, uint32_t stream, const char *lut_dir, const uint64_t *pages, size_t n,
        struct ds_pages_labels *ret);

/* --- calibrate_verdict.c --- */

/* Returns the number of BE channels that these rows show to be best; 0: dividing the memory does not pay. */
uint32_t calibrate_verdict(const struct calibrate_channels *channels);

/* A number of BE channels with a bound on BE's blocks, and what its rows say together: the worst time of LS, the
 * mean rate of BE. 0: there are no such rows. */
struct calibrate_choice {
        uint32_t be_channels, be_blocks, ls_permille, be_permille;
};
int calibrate_choice(const struct calibrate_channels *channels, uint32_t be_channels, uint32_t be_blocks,
        struct calibrate_choice *ret);
/* *ret_plain: best choice without divided memory. *ret: best choice with divided memory; be_channels 0 if none is
 * better. 0: nothing was measured. */
int calibrate_best(
        const struct calibrate_channels *channels, struct calibrate_choice *ret_plain, struct calibrate_choice *ret);

/* --- calibrate_show.c --- */

/* text: how many times as long LS takes, for example "1.23x", with the interval if this process measured it (samples
 * not 0). */
void calibrate_times_text(uint32_t permille, uint32_t samples, uint32_t low, uint32_t high, char text[static 64]);

int calibrate_show(const struct calibrate_rows *rows, int as_json);

/* --- calibrate_show_channels.c --- */

int calibrate_channels_table(const struct calibrate_channels *channels, int simulated, struct ctl_text *text);
void calibrate_channels_json(const struct calibrate_channels *channels, struct ctl_text *text);
