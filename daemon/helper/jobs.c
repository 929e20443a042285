/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/jobs.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "helper/cache.h"
#include "helper/compile.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define CACHE_BYTES DS_MIB(64)
#define STATUS_CANCELLED 999 /* nobody reads it */

struct job {
        ds_compile *compile; /* NULL: the slot is free */
        struct ds_jobs_request request;
        struct ds_check_text text;
        uint64_t compiler; /* its identity when it was started */
};

struct ds_jobs {
        const struct ds_ptxas *ptxas;
        const struct ds_jobs_ops *ops;
        void *user;
        ds_cache *cache;
        struct job jobs[DS_JOBS_MAX];
        struct ds_check_result result; /* of the answer being made */
};

static uint64_t now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * DS_NS_PER_S + (uint64_t)t.tv_nsec;
}

int ds_jobs_new(const struct ds_ptxas *ptxas, const struct ds_jobs_ops *ops, void *user, ds_jobs **ret)
{
        ds_cleanup(ds_jobs_freep) ds_jobs *jobs = ds_alloc0(1, sizeof(*jobs));
        int r;

        if (!jobs)
                return ds_error_origin(-ENOMEM);
        jobs->ptxas = ptxas;
        jobs->ops = ops;
        jobs->user = user;
        r = ds_cache_new(CACHE_BYTES, &jobs->cache);
        if (r)
                return ds_error_trace(r);
        *ret = DS_TAKE_PTR(jobs);
        return 0;
}

static void job_end(struct job *job)
{
        job->compile = ds_compile_free(job->compile);
        job->text.text = ds_free(job->text.text);
}

ds_jobs *ds_jobs_free(ds_jobs *jobs)
{
        if (!jobs)
                return NULL;
        for (size_t i = 0; i < DS_JOBS_MAX; i++)
                job_end(&jobs->jobs[i]);
        ds_cache_free(jobs->cache);
        return ds_free(jobs);
}

static struct job *job_free_slot(const ds_jobs *jobs)
{
        for (size_t i = 0; i < DS_JOBS_MAX; i++)
                if (!jobs->jobs[i].compile)
                        return (struct job *)&jobs->jobs[i];
        return NULL;
}

int ds_jobs_full(const ds_jobs *jobs)
{
        return !job_free_slot(jobs);
}

static int jobs_answer(ds_jobs *jobs, uint64_t id)
{
        int r = jobs->ops->answer(jobs->user, id, &jobs->result);

        jobs->result.fd = ds_close(jobs->result.fd);
        return r;
}

static struct ds_cache_key key_of(const struct job *job)
{
        return (struct ds_cache_key){
                .text = job->text.text, .length = job->text.length, .arch = job->text.arch, .compiler = job->compiler};
}

/* 1: there is an answer, be it that there can be none; 0: the compiler runs. */
static int job_start(ds_jobs *jobs, struct job *job)
{
        struct ds_cache_key key;
        const void *code;
        size_t size;

        if (!jobs->ptxas->path[0]) {
                ds_check_fail(&jobs->result, DS_CHECK_NO_COMPILER, "%s", jobs->ptxas->missing);
                return 1;
        }
        job->compiler = ds_ptxas_identity(jobs->ptxas);
        key = key_of(job);
        if (ds_cache_find(jobs->cache, &key, &code, &size)) {
                ds_check_cubin(code, size, job->request.cc, "what ptxas made of the PTX", &jobs->result);
                return 1;
        }
        if (ds_compile_new(jobs->ptxas->path, &job->text, job->request.time_ms, &job->compile) == 0)
                return 0;
        ds_check_fail(&jobs->result, DS_CHECK_OUT_OF_MEMORY, "no memory or no process for the compiler");
        return 1;
}

int ds_jobs_take(ds_jobs *jobs, const struct ds_jobs_request *request, int fd)
{
        struct job *job = job_free_slot(jobs);

        assert(job);
        if (request->simulated) {
                ds_check_image(fd, request->bytes, request->cc, 1, &jobs->result);
                return jobs_answer(jobs, request->id);
        }
        job->request = *request;
        if (ds_check_machine(fd, request->bytes, request->cc, request->force_ptx, &jobs->result, &job->text) &&
                !job_start(jobs, job))
                return 0;
        job_end(job);
        return jobs_answer(jobs, request->id);
}

int ds_jobs_cancel(ds_jobs *jobs, uint64_t id)
{
        for (size_t i = 0; i < DS_JOBS_MAX; i++) {
                struct job *job = &jobs->jobs[i];

                if (!job->compile || job->request.id != id)
                        continue;
                job_end(job);
                jobs->result.bytes = jobs->result.hash = 0;
                ds_check_fail(&jobs->result, STATUS_CANCELLED, "cancelled");
                return jobs_answer(jobs, id);
        }
        return 0;
}

size_t ds_jobs_poll(const ds_jobs *jobs, struct pollfd *fds, int *ret_timeout_ms)
{
        uint64_t first = UINT64_MAX, t = now(), left;
        size_t n = 0;

        for (size_t i = 0; i < DS_JOBS_MAX; i++) {
                const ds_compile *compile = jobs->jobs[i].compile;

                if (!compile)
                        continue;
                fds[n++] = (struct pollfd){.fd = ds_compile_process_fd(compile), .events = POLLIN};
                if (ds_compile_words_fd(compile) >= 0)
                        fds[n++] = (struct pollfd){.fd = ds_compile_words_fd(compile), .events = POLLIN};
                first = DS_MIN(first, ds_compile_deadline_ns(compile));
        }
        left = first > t ? DS_DIV_UP(first - t, DS_NS_PER_MS) : 0;
        *ret_timeout_ms = n ? (int)left : -1;
        return n;
}

static int job_finish(ds_jobs *jobs, struct job *job)
{
        ds_cleanup(ds_freep) void *code = NULL;
        struct ds_cache_key key = key_of(job);
        size_t size;

        ds_compile_result(job->compile, job->request.cc, &jobs->result, &code, &size);
        if (!jobs->result.status && job->compiler == ds_ptxas_identity(jobs->ptxas))
                ds_cache_add(jobs->cache, &key, code, size);
        job_end(job);
        return jobs_answer(jobs, job->request.id);
}

int ds_jobs_step(ds_jobs *jobs)
{
        uint64_t t = now();
        int r = 0;

        for (size_t i = 0; i < DS_JOBS_MAX && !r; i++)
                if (jobs->jobs[i].compile && ds_compile_step(jobs->jobs[i].compile, t))
                        r = job_finish(jobs, &jobs->jobs[i]);
        return r;
}
