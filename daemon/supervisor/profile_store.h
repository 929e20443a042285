/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous access to the profile database: one thread that owns the file (profile_db.h), and its queue of jobs
 *
 * The loop never waits for the disk: it queues a job and gets a callback at its end. Jobs are done in order, each
 * completely or not at all. The queue is short; a job that finds it full is rejected.
 */
#pragma once

#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "supervisor/profile_db.h"

typedef struct ds_profile_store ds_profile_store;

#define DS_PROFILE_JOBS_MAX 256u
/* most jobs in the queue when a client's job is added; the remaining places are for the worker's jobs */
#define DS_PROFILE_ASKED_MAX 64u
#define DS_PROFILE_JOB_ROWS 64u

enum ds_profile_what {
        DS_PROFILE_SEE, /* each job calls the function of profile_db.h with its name */
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
        size_t n; /* number of rows or cells: those given, those that fit (LIST), or those returned */
        struct ds_profile_row *rows;
        struct ds_profile_interference *cells;
        int r; /* result: 0, -EIO, or -ECANCELED: the daemon stops */
        int more;
        uint64_t count; /* FORGET: number of deleted rows */
        /* Called on the loop's thread when the job has ended. The caller owns the job again and frees it. */
        void (*done)(struct ds_profile_job *job);
        void *user;
        /* client's request that the job answers; session 0: no client waits for the job */
        uint64_t session, request_id;
        TAILQ_ENTRY(ds_profile_job) link;
};

/* Creates a job with room for n rows, or n cells (CALIBRATION, CALIBRATE). NULL: out of memory. */
struct ds_profile_job *ds_profile_job_new(enum ds_profile_what what, size_t n);
struct ds_profile_job *ds_profile_job_free(struct ds_profile_job *job);

/* Starts the thread. path: the state directory, which is copied; NULL: profiles are kept in memory only. Returns 0
 * or -errno. */
int ds_profile_store_new(uv_loop_t *loop, const char *path, uint64_t max_rows, ds_profile_store **ret);
/*
 * Finishes queued jobs for up to two seconds and cancels the rest. The store accepts no jobs afterwards. The loop must
 * run until the handle is closed. Idempotent.
 */
void ds_profile_store_stop(ds_profile_store *store);
/* Frees the store. Call it after the loop has ended. NULL is allowed; returns NULL. */
ds_profile_store *ds_profile_store_free(ds_profile_store *store);
/* Queues a job. Returns 0: done will be called. -EBUSY, -ECANCELED: done will not be called, and the caller keeps
 * the job. */
int ds_profile_store_do(ds_profile_store *store, struct ds_profile_job *job);
void ds_profile_store_figures(ds_profile_store *store, struct ds_profile_figures *ret);
