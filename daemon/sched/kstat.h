/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel statistics: what the scheduler has learnt about each kernel and launch shape
 *
 * A row per key holds the running mean of the durations seen, how many blocks one SM holds at once, and what a profile
 * said about the kernel's bound. Rows are found by a 64-bit key; two shapes that collide would share a row, which costs
 * a wrong guess and nothing else. The table is bounded: when it is full the row not looked up for longest makes room.
 * A row's number stays valid memory for ever, but may come to belong to another key; ds_kstat_at() tells.
 *
 * Time against SMs: kernels that were timed while nothing else was on the GPU get points, one for every number of SMs
 * that they ran on. Points are kept beside the rows, for few of them (DS_KSTAT_POINTS_MAX), and are made when they are
 * needed; where there are too many, those of a kernel without new samples make room. Their memory stays where it is,
 * so that policies are given pointers; ds_kstat_taken() tells when some have come to belong to another kernel. What its
 * other forms cost (forms.h) is kept with them.
 */
#pragma once

#include <stdint.h>

#include "device/device.h"
#include "policies/detshare_policy.h"
#include "sched/sched.h"

typedef struct ds_kstat ds_kstat;

#define DS_KSTAT_ROWS_MAX 65536u
#define DS_KSTAT_NONE UINT32_MAX
#define DS_KSTAT_POINTS_MAX 8192u /* kernels with points, 4 MiB */
#define DS_KSTAT_TRIES_MAX 16u

struct ds_kstat_row {
        uint64_t key;
        uint64_t mean_ns;
        uint32_t samples;       /* saturating */
        uint32_t blocks_per_sm; /* 0 = not computed yet */
        uint8_t bound;          /* enum detshare_kernel_bound */
        uint8_t seen;           /* 1: who keeps profiles is told of it, see seen.h */
        uint16_t points;        /* 1 + the number of its points; 0 = it has none */
        uint32_t chain;         /* next row of the same hash bucket */
        uint32_t newer, older;  /* order of use */
};

/* Of a kernel's other forms: what they cost, and what was chosen last (struct ds_sched_form_choice) and why. */
struct ds_kstat_forms {
        struct ds_sched_form_cost costs[_DS_PTX_FORM_MAX];
        uint8_t tries[_DS_PTX_FORM_MAX]; /* to measure them, since the last sample */
        uint8_t form, reason;
        uint8_t refused; /* forms that the device would not have, 1 << form */
        uint32_t n_sms, chunk, slice;
        uint64_t native_ns, block_ns, evict_ns;
};

struct ds_kstat_points {
        uint32_t row; /* whose they are, DS_KSTAT_NONE = nobody's */
        uint32_t n;
        uint16_t tries;   /* since the last sample */
        uint8_t used;     /* since they were last looked at for room */
        uint8_t changed;  /* since they were last given out by ds_kstat_changed */
        int8_t off;       /* times in a row that a sample was more than twice what is known, -: less than half of it */
        uint32_t off_sms; /* on so many SMs */
        uint32_t sampled_at;                                   /* the row's samples when there was one of these */
        struct detshare_profile_point at[DETSHARE_POINTS_MAX]; /* by n_sms, ascending */
        struct ds_kstat_forms forms;
};

/* max_rows: a power of two, at most DS_KSTAT_ROWS_MAX. -ENOMEM. */
int ds_kstat_new(uint32_t max_rows, ds_kstat **ret);
ds_kstat *ds_kstat_free(ds_kstat *table);
/* The row of the key, made if need be (short of memory, in place of the oldest) and marked as used now. */
uint32_t ds_kstat_touch(ds_kstat *table, uint64_t key);
/* The key's row, or DS_KSTAT_NONE; not marked as used. */
uint32_t ds_kstat_find(ds_kstat *table, uint64_t key);
/* The row if it still belongs to the key, else NULL. The pointer is good until the next touch. */
struct ds_kstat_row *ds_kstat_at(ds_kstat *table, uint32_t row, uint64_t key);
uint32_t ds_kstat_count(const ds_kstat *table);
/* One more duration. The mean forgets: a sample weighs 1/32 at least, so it follows a kernel whose data change. */
void ds_kstat_sample(struct ds_kstat_row *row, uint64_t duration_ns);

/* What is known now of the kernels of operations, each with its row. Where a row is another key's, what was
 * known before stays, but points. */
void ds_kstat_show(const ds_kstat *table, const uint32_t *rows, struct detshare_op_view *views, uint32_t n);
/* NULL: it has none. */
const struct ds_kstat_points *ds_kstat_points(const ds_kstat *table, const struct ds_kstat_row *row);
/*
 * Is a sample on so many SMs worth having the device measure it? Until there are `samples` of them, and now and then
 * while the kernel takes more than twice or less than half of it on whatever SMs and beside whatever it runs: it may
 * have changed. When none that was asked for came about DS_KSTAT_TRIES_MAX times, no longer. Asking for one that is
 * counts as a try.
 */
int ds_kstat_point_wanted(ds_kstat *table, struct ds_kstat_row *row, uint32_t n_sms, uint32_t samples);
/*
 * One more duration on so many SMs. Where two in a row and the kernel's own mean say that it takes more than twice what
 * the point says, or less than half, the point has this one's: a kernel's time may be its arguments', and what a
 * program tries with small ones before it works with large ones must not count for long (but a kernel that takes now
 * this and now that is not short for two short ones in a row). Past DETSHARE_POINTS_MAX the point with the fewest
 * samples makes room, except for the one with the most SMs.
 */
void ds_kstat_point_sample(ds_kstat *table, struct ds_kstat_row *row, uint32_t n_sms, uint64_t duration_ns);
/* A point that is known from elsewhere; one that rests on more samples stays. */
void ds_kstat_point_put(ds_kstat *table, struct ds_kstat_row *row, const struct detshare_profile_point *point);
/*
 * What is known of its forms, made if need be and there is a free place; NULL without one, or without memory. Good
 * until its points are taken.
 */
struct ds_kstat_forms *ds_kstat_forms(ds_kstat *table, struct ds_kstat_row *row);
/* The same of a row that may be another key's, or DS_KSTAT_NONE: then, and when there is nothing, NULL. */
const struct ds_kstat_forms *ds_kstat_forms_known(const ds_kstat *table, uint32_t row, uint64_t key);
/* A form took so long on so many SMs; counts only where the native form's time there is known. */
void ds_kstat_form_sample(
        ds_kstat *table, struct ds_kstat_row *row, enum ds_ptx_form form, uint32_t n_sms, uint64_t duration_ns);
/* What a form costs, known from elsewhere; what rests on more samples stays. */
void ds_kstat_form_put(
        ds_kstat *table, struct ds_kstat_row *row, enum ds_ptx_form form, const struct ds_sched_form_cost *put);
/* A row whose points have changed since it was last given out, or NULL. */
const struct ds_kstat_row *ds_kstat_changed(ds_kstat *table);
/* No row has points or was seen. */
void ds_kstat_forget(ds_kstat *table);
/* Grows whenever points that a kernel had are taken from it. */
uint64_t ds_kstat_taken(const ds_kstat *table);

/*
 * Blocks of this shape that one SM holds at once, from the device's attributes and the kernel's registers and shared
 * memory; 0 when one block alone does not fit. Attributes that the device does not know do not limit.
 */
uint32_t ds_kstat_blocks_per_sm(const struct ds_device_info *device, const struct ds_kernel_info *kernel,
        uint32_t threads, uint32_t dynamic_shared);

/* A good mix of two words, for keys. */
uint64_t ds_kstat_mix(uint64_t a, uint64_t b);
