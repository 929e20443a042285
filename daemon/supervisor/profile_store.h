/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles beside the loop: one thread that has the file (profile_db.h), and the jobs that it is given
 *
 * The loop never waits for the disk: it gives a job and hears of its end. Jobs are done in their order, each as a whole
 * or not at all. Few wait: who finds no room does without, or asks again.
 */
#pragma once

#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "supervisor/profile_db.h"

typedef struct ds_profile_store ds_profile_store;

#define DS_PROFILE_JOBS_MAX 256u
#define DS_PROFILE_ASKED_MAX 64u /* with those that clients ask for; the rest is the worker's room */
#define DS_PROFILE_JOB_ROWS 64u

enum ds_profile_what {
        DS_PROFILE_SEE, /* each as the function of profile_db.h */
        DS_PROFILE_REFINE,
        DS_PROFILE_PUT,
        DS_PROFILE_LIST,
        DS_PROFILE_FORGET,
        DS_PROFILE_CALIBRATION,
        DS_PROFILE_CALIBRATE,
        _DS_PROFILE_WHAT_MAX,
};

struct ds_profile_job {
        enum ds_profile_what what;
        char model[DS_PROFILE_MODEL_MAX + 1];
        char filter[DS_PROFILE_NAME_MAX + 1];
        uint64_t after, since_ms;
        size_t n; /* rows or cells: given, room for them (LIST), or what came back */
        struct ds_profile_row *rows;
        struct ds_profile_interference *cells;
        int r; /* 0, -EIO, -ECANCELED: the daemon stops */
        int more;
        uint64_t count; /* FORGET: how many */
        /* On the loop. The job is the caller's again, to be freed. */
        void (*done)(struct ds_profile_job *job);
        void *user;
        uint64_t session, request_id; /* the caller's: who asked; session 0: no client did */
        TAILQ_ENTRY(ds_profile_job) link;
};

/* With room for so many rows, or cells (CALIBRATION, CALIBRATE). NULL: memory is short. */
struct ds_profile_job *ds_profile_job_new(enum ds_profile_what what, size_t n);
struct ds_profile_job *ds_profile_job_free(struct ds_profile_job *job);

/* path: the state directory, copied; NULL: profiles are in memory only. 0 or -errno. */
int ds_profile_store_new(uv_loop_t *loop, const char *path, uint64_t max_rows, ds_profile_store **ret);
/*
 * What waits is done first, for two seconds at most; then every job is over. No more jobs after that. The loop has to
 * run until the handle is closed. Twice is fine.
 */
void ds_profile_store_stop(ds_profile_store *store);
/* After the loop has ended. NULL is fine; returns NULL. */
ds_profile_store *ds_profile_store_free(ds_profile_store *store);
/* 0: done will be called. -EBUSY, -ECANCELED: it will not, and the job stays the caller's. */
int ds_profile_store_do(ds_profile_store *store, struct ds_profile_job *job);
void ds_profile_store_figures(ds_profile_store *store, struct ds_profile_figures *ret);
