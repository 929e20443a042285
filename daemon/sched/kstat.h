/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel statistics: measurements of each kernel and launch shape
 *
 * A row per key holds the running mean of the durations, the number of blocks that one SM holds at once, and the
 * kernel's bound from a profile. Rows are found by a 64-bit key; two shapes that collide share a row, which costs only
 * a wrong guess. The table is bounded: when it is full, the row not looked up for longest is replaced. A row number
 * always refers to valid memory, but the row may belong to another key by then; ds_kstat_at() checks that.
 *
 * Duration against SMs: a kernel that was timed while nothing else was on the GPU gets points, one for every number of
 * SMs that it ran on. Points are stored outside the rows, for few of them (DS_KSTAT_POINTS_MAX), and created on demand;
 * at the bound, those of a kernel without new samples are replaced. Their memory does not move, so policies get
 * pointers to it; ds_kstat_taken() shows when some points were reassigned to another kernel. The costs of a kernel's
 * other forms (forms.h) are stored with them.
 */
#pragma once

#include <stdint.h>

#include "device/device.h"
#include "policies/detshare_policy.h"
#include "sched/sched.h"

typedef struct ds_kstat ds_kstat;

#define DS_KSTAT_ROWS_MAX 65536u
#define DS_KSTAT_NONE UINT32_MAX
#define DS_KSTAT_POINTS_MAX 8192u /* kernels that can have points; they take 4 MiB */
#define DS_KSTAT_TRIES_MAX 16u

struct ds_kstat_row {
        uint64_t key;
        uint64_t mean_ns;
        uint32_t samples;       /* number of samples; stays at its maximum */
        uint32_t blocks_per_sm; /* blocks that one SM holds at once; 0 = not computed yet */
        uint8_t bound;          /* enum detshare_kernel_bound */
        uint8_t seen;           /* 1: the kernel was reported to the keeper of profiles, see seen.h */
        uint16_t points;        /* 1 + index of the kernel's points; 0 = it has none */
        uint32_t chain;         /* next row of the same hash bucket */
        uint32_t newer, older;  /* links to the rows used next after and next before this one */
};

/* Other forms of a kernel: their costs, and the last choice (struct ds_sched_form_choice) with its reason. */
struct ds_kstat_forms {
        struct ds_sched_form_cost costs[_DS_PTX_FORM_MAX];
        uint8_t tries[_DS_PTX_FORM_MAX]; /* attempts to measure each form since its last sample */
        uint8_t form, reason;
        uint8_t refused; /* forms that the device refused, as bits 1 << form */
        uint32_t n_sms, chunk, slice;
        uint64_t native_ns, block_ns, evict_ns;
};

struct ds_kstat_points {
        uint32_t row; /* row of the kernel that these points belong to; DS_KSTAT_NONE = free */
        uint32_t n;
        uint16_t tries;  /* measurements requested since the last sample */
        uint8_t used;    /* 1: used since the last search for a free place */
        uint8_t changed; /* changed since ds_kstat_changed() last returned them */
        /* consecutive samples above twice the point's mean; negative: number of those below half of it */
        int8_t off;
        uint32_t off_sms; /* number of SMs on which these samples ran */
        /* sample count of the row when these points got their last sample */
        uint32_t sampled_at;
        struct detshare_profile_point at[DETSHARE_POINTS_MAX]; /* the points, sorted by n_sms, ascending */
        struct ds_kstat_forms forms;
};

/* Creates a table of at most max_rows rows, a power of two up to DS_KSTAT_ROWS_MAX. Returns 0 or -ENOMEM. */
int ds_kstat_new(uint32_t max_rows, ds_kstat **ret);
ds_kstat *ds_kstat_free(ds_kstat *table);
/* Returns the row of the key and marks it as used. Creates it if there is none; without memory, it takes the place
 * of the least recently used row. */
uint32_t ds_kstat_touch(ds_kstat *table, uint64_t key);
/* Returns the key's row or DS_KSTAT_NONE; does not mark it as used. */
uint32_t ds_kstat_find(ds_kstat *table, uint64_t key);
/* Returns the row if it still belongs to the key, else NULL. The pointer is valid until the next touch. */
struct ds_kstat_row *ds_kstat_at(ds_kstat *table, uint32_t row, uint64_t key);
uint32_t ds_kstat_count(const ds_kstat *table);
/* Adds a duration to the row's mean. Each sample changes the mean by at least 1/32 of its difference, so the mean
 * follows a kernel whose data change. */
void ds_kstat_sample(struct ds_kstat_row *row, uint64_t duration_ns);

/* Fills in n views with the current statistics of their kernels, each from its row. If a row belongs to another key
 * now, the view keeps its previous values, but gets no points. */
void ds_kstat_show(const ds_kstat *table, const uint32_t *rows, struct detshare_op_view *views, uint32_t n);
/* The row's points; NULL if it has none. */
const struct ds_kstat_points *ds_kstat_points(const ds_kstat *table, const struct ds_kstat_row *row);
/*
 * Whether the device should measure a sample on this many SMs. True until there are `samples` of them, and occasionally
 * while the kernel takes more than twice or less than half of the point's mean, on any SMs and beside any work: the
 * kernel may have changed. False after DS_KSTAT_TRIES_MAX requests without a sample. A positive answer counts as a
 * request.
 */
int ds_kstat_point_wanted(ds_kstat *table, struct ds_kstat_row *row, uint32_t n_sms, uint32_t samples);
/*
 * Adds a duration on this many SMs. If two consecutive samples and the kernel's own mean are more than twice or less
 * than half of the point's mean, the point is restarted with this sample. A kernel's duration may depend on its
 * arguments, and small trial runs of a program must not count for long; but two short runs of a kernel with varying
 * durations do not make it short. At DETSHARE_POINTS_MAX points the one with the fewest samples is replaced, except
 * that with the most SMs.
 */
void ds_kstat_point_sample(ds_kstat *table, struct ds_kstat_row *row, uint32_t n_sms, uint64_t duration_ns);
/* Stores a point from another source; a point with more samples is kept. */
void ds_kstat_point_put(ds_kstat *table, struct ds_kstat_row *row, const struct detshare_profile_point *point);
/*
 * Returns the state of the kernel's forms. Creates it if there is a free place; otherwise, or without memory, returns
 * NULL. Valid until the kernel's points are reassigned.
 */
struct ds_kstat_forms *ds_kstat_forms(ds_kstat *table, struct ds_kstat_row *row);
/* Returns the state of the forms of a key. NULL if the row is DS_KSTAT_NONE or belongs to another key by now, or if
 * there is no state. */
const struct ds_kstat_forms *ds_kstat_forms_known(const ds_kstat *table, uint32_t row, uint64_t key);
/* Adds a form's duration on this many SMs; ignored unless the native form's duration there is known. */
void ds_kstat_form_sample(
        ds_kstat *table, struct ds_kstat_row *row, enum ds_ptx_form form, uint32_t n_sms, uint64_t duration_ns);
/* Stores a form's cost from another source; a cost with more samples is kept. */
void ds_kstat_form_put(
        ds_kstat *table, struct ds_kstat_row *row, enum ds_ptx_form form, const struct ds_sched_form_cost *put);
/* Returns a row whose points have changed since they were last returned here, or NULL. */
const struct ds_kstat_row *ds_kstat_changed(ds_kstat *table);
/* Removes all points and all marks of kernels as seen. */
void ds_kstat_forget(ds_kstat *table);
/* Returns a counter that grows whenever points are reassigned to another kernel. */
uint64_t ds_kstat_taken(const ds_kstat *table);

/*
 * Number of blocks of this shape that one SM holds at once, from the device's attributes and the kernel's registers and
 * shared memory; 0 if not even one fits. Attributes that the device does not report do not limit.
 */
uint32_t ds_kstat_blocks_per_sm(const struct ds_device_info *device, const struct ds_kernel_info *kernel,
        uint32_t threads, uint32_t dynamic_shared);

/* Hashes two words into one, for keys. */
uint64_t ds_kstat_mix(uint64_t a, uint64_t b);
