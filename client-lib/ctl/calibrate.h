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

struct calibrate_rows {
        char gpu[128];
        int simulated, in_memory;
        uint64_t alone_ns[DSC_LOADS]; /* LS's median, 0 = not known */
        double rate[DSC_LOADS];       /* blocks of BE per second alone, 0 = not known */
        size_t n;
        struct calibrate_row rows[DSC_CALIBRATION_CELLS];
};

extern const char *const calibrate_loads[DSC_LOADS]; /* "compute", ... */

/* --- calibrate_load.c --- */

struct calibrate_load {
        dsc_session *session;
        uint64_t kernels[DSC_LOADS], events[2], seqs[2], memory;
        uint32_t chunks; /* of the memory: a block takes one */
        int is_ls;
};

struct calibrate_span {
        uint64_t start_ns, end_ns;
};

/* The process's session becomes a load. n_sms: those that LS's grid is for. 0, or an exit code after the words. */
int calibrate_load_open(struct calibrate_load *load, int is_ls, uint32_t n_sms);
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
};

/* Measures all. 0, or an exit code after the words; the policy that was set is back when the process has ended. */
int calibrate_run(const struct calibrate_options *o, struct calibrate_rows *ret);

/* --- calibrate_show.c --- */

int calibrate_show(const struct calibrate_rows *rows, int as_json);
