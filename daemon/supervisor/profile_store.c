/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/profile_store.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"
#include "util/thread.h"

#define END_SECONDS 2

TAILQ_HEAD(job_list, ds_profile_job);

struct ds_profile_store {
        uv_async_t ended; /* wakes the loop when jobs are finished */
        char *path;
        uint64_t max_rows;
        pthread_t thread;
        int running;
        /* fields that loop and thread use, protected by the lock */
        pthread_mutex_t lock;
        pthread_cond_t wake;
        struct job_list todo, over;
        unsigned n_jobs; /* number of jobs in both lists and in progress */
        int stop;
        struct ds_profile_figures figures;
};

/* --- the thread --------------------------------------------------------------------------------------------------- */

static void job_do(ds_profile_db *db, struct ds_profile_job *job)
{
        switch (job->what) {
        case DS_PROFILE_SEE:
                job->r = ds_profile_db_see(db, job->model, job->rows, job->n);
                break;
        case DS_PROFILE_REFINE:
                job->r = ds_profile_db_refine(db, job->model, job->rows, job->n);
                break;
        case DS_PROFILE_PUT:
                job->r = ds_profile_db_put(db, job->model, job->rows, job->n);
                break;
        case DS_PROFILE_LIST:
                job->r = ds_profile_db_list(
                        db, job->model, job->after, job->filter, job->since_ms, job->rows, job->n, &job->n, &job->more);
                break;
        case DS_PROFILE_FORGET:
                job->r = ds_profile_db_forget(db, job->model, job->filter, &job->count);
                break;
        case DS_PROFILE_CALIBRATION:
                job->r = ds_profile_db_calibration(db, job->model, job->cells, &job->n);
                break;
        case DS_PROFILE_CALIBRATE:
                job->r = ds_profile_db_calibrate(db, job->model, job->cells, job->n);
                break;
        case _DS_PROFILE_WHAT_MAX:
                job->r = -EINVAL;
                break;
        }
}

static struct ds_profile_job *job_next(ds_profile_store *store)
{
        struct ds_profile_job *job;

        pthread_mutex_lock(&store->lock);
        while (!(job = TAILQ_FIRST(&store->todo)) && !store->stop)
                pthread_cond_wait(&store->wake, &store->lock);
        if (job)
                TAILQ_REMOVE(&store->todo, job, link);
        pthread_mutex_unlock(&store->lock);
        return job;
}

static void note_figures(ds_profile_store *store, const ds_profile_db *db)
{
        pthread_mutex_lock(&store->lock);
        ds_profile_db_figures(db, &store->figures);
        pthread_mutex_unlock(&store->lock);
}

static void *thread_main(void *user)
{
        ds_profile_store *store = user;
        ds_profile_db *db = ds_profile_db_open(store->path, store->max_rows);
        struct ds_profile_job *job;

        if (db)
                note_figures(store, db);
        while ((job = job_next(store))) {
                job->r = -EIO;
                if (db)
                        job_do(db, job);
                if (db)
                        note_figures(store, db);
                pthread_mutex_lock(&store->lock);
                TAILQ_INSERT_TAIL(&store->over, job, link);
                pthread_mutex_unlock(&store->lock);
                uv_async_send(&store->ended);
        }
        ds_profile_db_close(db);
        return NULL;
}

static int thread_start(ds_profile_store *store)
{
        int r = ds_thread_start(&store->thread, thread_main, store);

        store->running = r == 0;
        return r;
}

/* --- interface ---------------------------------------------------------------------------------------------------- */

static void tell(ds_profile_store *store)
{
        struct ds_profile_job *job;

        for (;;) {
                pthread_mutex_lock(&store->lock);
                job = TAILQ_FIRST(&store->over);
                if (job) {
                        TAILQ_REMOVE(&store->over, job, link);
                        store->n_jobs--;
                }
                pthread_mutex_unlock(&store->lock);
                if (!job)
                        return;
                job->done(job);
        }
}

static void on_ended(uv_async_t *async)
{
        tell(DS_CONTAINER_OF(async, ds_profile_store, ended));
}

struct ds_profile_job *ds_profile_job_new(enum ds_profile_what what, size_t n)
{
        int cells = what == DS_PROFILE_CALIBRATION || what == DS_PROFILE_CALIBRATE;
        struct ds_profile_job *job = ds_alloc0(1, sizeof(*job));

        if (!job)
                return NULL;
        job->what = what;
        job->n = n;
        if (cells)
                job->cells = ds_alloc0(DS_MAX(n, (size_t)DS_PROFILE_INTERFERENCE_MAX), sizeof(*job->cells));
        else
                job->rows = ds_alloc0(DS_MAX(n, (size_t)1), sizeof(*job->rows));
        return job->cells || job->rows ? job : ds_profile_job_free(job);
}

struct ds_profile_job *ds_profile_job_free(struct ds_profile_job *job)
{
        if (!job)
                return NULL;
        ds_free(job->rows);
        ds_free(job->cells);
        return ds_free(job);
}

int ds_profile_store_new(uv_loop_t *loop, const char *path, uint64_t max_rows, ds_profile_store **ret)
{
        ds_profile_store *store = ds_alloc0(1, sizeof(*store));
        int r;

        if (!store)
                return ds_error_origin(-ENOMEM);
        store->max_rows = max_rows;
        TAILQ_INIT(&store->todo);
        TAILQ_INIT(&store->over);
        pthread_mutex_init(&store->lock, NULL);
        pthread_cond_init(&store->wake, NULL);
        store->path = path ? ds_strdup(path) : NULL;
        r = path && !store->path ? -ENOMEM : uv_async_init(loop, &store->ended, on_ended);
        if (r) {
                ds_profile_store_free(store);
                return ds_error_origin(r);
        }
        *ret = store; /* the loop has the handle now, so the caller must free the store even after an error */
        return ds_error_fold(thread_start(store));
}

/* Cancels the queued jobs that have not begun. */
static void drop_todo(ds_profile_store *store)
{
        struct ds_profile_job *job;

        pthread_mutex_lock(&store->lock);
        while ((job = TAILQ_FIRST(&store->todo))) {
                TAILQ_REMOVE(&store->todo, job, link);
                TAILQ_INSERT_TAIL(&store->over, job, link);
                job->r = -ECANCELED;
        }
        pthread_mutex_unlock(&store->lock);
}

static void thread_end(ds_profile_store *store)
{
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += END_SECONDS;
        store->running = pthread_timedjoin_np(store->thread, NULL, &until) != 0;
}

void ds_profile_store_stop(ds_profile_store *store)
{
        if (store->stop)
                return;
        pthread_mutex_lock(&store->lock);
        store->stop = 1;
        pthread_cond_signal(&store->wake);
        pthread_mutex_unlock(&store->lock);
        if (store->running)
                thread_end(store);
        drop_todo(store);
        tell(store);
        /* the memory of the handle is not freed: a thread that is blocked by the disk may still use it */
        uv_close((uv_handle_t *)&store->ended, NULL);
}

ds_profile_store *ds_profile_store_free(ds_profile_store *store)
{
        if (!store || store->running)
                return NULL; /* the thread still runs, so the memory is not freed: the process is about to end */
        assert(TAILQ_EMPTY(&store->todo) && TAILQ_EMPTY(&store->over));
        pthread_mutex_destroy(&store->lock);
        pthread_cond_destroy(&store->wake);
        ds_free(store->path);
        return ds_free(store);
}

int ds_profile_store_do(ds_profile_store *store, struct ds_profile_job *job)
{
        const unsigned most = job->session ? DS_PROFILE_ASKED_MAX : DS_PROFILE_JOBS_MAX;
        int r = 0;

        assert(job->done);
        pthread_mutex_lock(&store->lock);
        if (store->stop || !store->running)
                r = -ECANCELED;
        else if (store->n_jobs >= most)
                r = -EBUSY;
        if (!r) {
                store->n_jobs++;
                TAILQ_INSERT_TAIL(&store->todo, job, link);
                pthread_cond_signal(&store->wake);
        }
        pthread_mutex_unlock(&store->lock);
        return r;
}

void ds_profile_store_figures(ds_profile_store *store, struct ds_profile_figures *ret)
{
        pthread_mutex_lock(&store->lock);
        *ret = store->figures;
        pthread_mutex_unlock(&store->lock);
}
