/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that serves profiles: it runs jobs in order and ends them on the loop. Jobs that it cannot run end with an
 * error, also at shutdown.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "supervisor/profile_store.h"
#include "util/alloc.h"
#include "util/macro.h"

#define MODEL "DetShare sim:h200/132"

static uv_loop_t loop;
static ds_profile_store *store;
static char path[64];
static unsigned n_done, n_canceled;
static uint64_t order[4096];
static struct ds_profile_row last;

static void setup(void)
{
        snprintf(path, sizeof(path), "/tmp/detshare-store.XXXXXX");
        cr_assert_not_null(mkdtemp(path));
        cr_assert_eq(uv_loop_init(&loop), 0);
}

static void teardown(void)
{
        char command[128];

        snprintf(command, sizeof(command), "rm -rf %s", path);
        cr_assert_eq(system(command), 0);
}

TestSuite(profile_store, .init = setup, .fini = teardown, .timeout = 60);

static void done(struct ds_profile_job *job)
{
        n_canceled += job->r == -ECANCELED;
        order[n_done++ % DS_ARRAY_SIZE(order)] = job->request_id;
        if (job->rows && job->n)
                last = job->rows[0];
        ds_profile_job_free(job);
}

static struct ds_profile_job *job(enum ds_profile_what what, uint64_t id, uint64_t key)
{
        struct ds_profile_job *j = ds_profile_job_new(what, 1);

        snprintf(j->model, sizeof(j->model), MODEL);
        j->done = done;
        j->request_id = id;
        j->rows[0].key = key;
        ds_profile_set_name(&j->rows[0], "kernel");
        return j;
}

static void open_store(void)
{
        cr_assert_eq(ds_profile_store_new(&loop, path, 0, &store), 0);
}

static void close_store(void)
{
        ds_profile_store_stop(store);
        uv_run(&loop, UV_RUN_DEFAULT);
        cr_assert_eq(uv_loop_close(&loop), 0);
        store = ds_profile_store_free(store);
        cr_assert_null(store);
}

static void run_until(unsigned n)
{
        while (n_done < n)
                uv_run(&loop, UV_RUN_ONCE);
}

Test(profile_store, jobs_are_done_in_their_order)
{
        struct ds_profile_job *refine;
        struct ds_profile_figures figures;

        open_store();
        cr_assert_eq(ds_profile_store_do(store, job(DS_PROFILE_SEE, 1, 7)), 0);
        refine = job(DS_PROFILE_REFINE, 2, 7);
        refine->rows[0].n_points = 1;
        refine->rows[0].points[0] = (struct ds_profile_point){.n_sms = 132, .samples = 3, .mean_ns = 500};
        cr_assert_eq(ds_profile_store_do(store, refine), 0);
        cr_assert_eq(ds_profile_store_do(store, job(DS_PROFILE_SEE, 3, 7)), 0);
        run_until(3);
        cr_assert(order[0] == 1 && order[1] == 2 && order[2] == 3);
        cr_assert_eq(last.n_points, 1);
        cr_assert_eq(last.points[0].mean_ns, 500);
        ds_profile_store_figures(store, &figures);
        cr_assert_eq(figures.rows, 1);
        cr_assert_eq(figures.in_memory, 0);
        close_store();
}

Test(profile_store, queued_jobs_run_before_the_end)
{
        open_store();
        for (uint64_t i = 0; i < 100; i++)
                cr_assert_eq(ds_profile_store_do(store, job(DS_PROFILE_PUT, i, i)), 0);
        close_store();
        cr_assert_eq(n_done, 100);
        cr_assert_eq(n_canceled, 0);
        cr_assert_eq(uv_loop_init(&loop), 0);
        open_store();
        cr_assert_eq(ds_profile_store_do(store, job(DS_PROFILE_LIST, 0, 0)), 0);
        run_until(101);
        cr_assert_eq(last.key, 0);
        cr_assert_str_eq(last.name, "kernel");
        close_store();
}

Test(profile_store, few_wait)
{
        struct ds_profile_job *j;
        unsigned n = 0;
        int r = 0;

        open_store();
        /* the loop does not run meanwhile, so every job stays counted */
        while (!r && n < 2 * DS_PROFILE_JOBS_MAX) {
                j = job(DS_PROFILE_PUT, n, n);
                r = ds_profile_store_do(store, j);
                n += !r;
        }
        cr_assert_eq(r, -EBUSY);
        cr_assert_eq(n, DS_PROFILE_JOBS_MAX);
        run_until(1);
        cr_assert_eq(ds_profile_store_do(store, j), 0, "there is room again");
        close_store();
        cr_assert_eq(n_done, n + 1);
}

/* Clients that query the store without pause leave room for the worker's reports. */
Test(profile_store, queries_leave_room_for_reports)
{
        struct ds_profile_job *j;
        unsigned asked = 0, said = 0;
        int r = 0;

        open_store();
        while (!r && asked < DS_PROFILE_JOBS_MAX) {
                j = job(DS_PROFILE_LIST, asked, 0);
                j->session = 7;
                r = ds_profile_store_do(store, j);
                asked += !r;
        }
        cr_assert_eq(r, -EBUSY);
        ds_profile_job_free(j);
        cr_assert_eq(asked, DS_PROFILE_ASKED_MAX);
        for (; said < DS_PROFILE_JOBS_MAX - DS_PROFILE_ASKED_MAX; said++)
                cr_assert_eq(ds_profile_store_do(store, job(DS_PROFILE_SEE, 1000 + said, said)), 0);
        run_until(asked + said);
        close_store();
}

Test(profile_store, after_the_end_there_is_nothing)
{
        struct ds_profile_job *j = job(DS_PROFILE_PUT, 1, 1);

        open_store();
        ds_profile_store_stop(store);
        ds_profile_store_stop(store);
        cr_assert_eq(ds_profile_store_do(store, j), -ECANCELED);
        ds_profile_job_free(j);
        close_store();
        cr_assert_null(ds_profile_store_free(NULL));
        cr_assert_null(ds_profile_job_free(NULL));
}
