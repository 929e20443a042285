/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper's work: images to check, several compilers at once
 *
 * Reading an image takes the helper's own time and is done when the request comes. Compiling takes a child's, so other
 * requests are served meanwhile; answers come in the order in which they are ready. Nothing here waits.
 */
#pragma once

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "helper/check.h"
#include "helper/ptxas.h"

typedef struct ds_jobs ds_jobs;

#define DS_JOBS_MAX 16 /* compilers at once */
#define DS_JOBS_POLLFDS (2 * DS_JOBS_MAX)

/* Whether forms of the image's kernels are made (helper/forms.h). */
enum ds_jobs_forms {
        DS_JOBS_NATIVE, /* no */
        DS_JOBS_STORED, /* the transformed image is the answer where it is there already, and looking costs little */
        DS_JOBS_MADE,   /* it is made where it is not; the image as it is when there can be none, with a message */
        DS_JOBS_ONLY,   /* it is made; nothing else is an answer. A simulated device's image has been checked */
        _DS_JOBS_FORMS_MAX,
};

struct ds_jobs_request {
        uint64_t id, offset, bytes;
        uint32_t cc, uid;
        uint32_t max_registers, optimization; /* as in ModuleLoad */
        int simulated, force_ptx;
        enum ds_jobs_forms forms;
        uint32_t time_ms; /* for the compiler; 0: DS_COMPILE_TIME_MS */
};

struct ds_jobs_ops {
        /* result->fd stays the caller's. A negative errno ends the step that called. */
        int (*answer)(void *user, uint64_t id, const struct ds_check_result *result);
};

/* ptxas must outlive the jobs. */
int ds_jobs_new(const struct ds_ptxas *ptxas, const struct ds_jobs_ops *ops, void *user, ds_jobs **ret);
ds_jobs *ds_jobs_free(ds_jobs *jobs);
/* Where files of compiled code lie (util/code_file.h), for reading. Takes the descriptor over. */
void ds_jobs_set_directory(ds_jobs *jobs, int directory, uint32_t owner);
/* As many compilers run as may. */
int ds_jobs_full(const ds_jobs *jobs);
/* Answers at once or later. Not when full. fd stays the caller's. */
int ds_jobs_take(ds_jobs *jobs, const struct ds_jobs_request *request, int fd);
/* One that is over already is fine. */
int ds_jobs_cancel(ds_jobs *jobs, uint64_t id);
/* Fills at most DS_JOBS_POLLFDS; *ret_timeout_ms as poll takes it. */
size_t ds_jobs_poll(const ds_jobs *jobs, struct pollfd *fds, int *ret_timeout_ms);
/* After any poll. */
int ds_jobs_step(ds_jobs *jobs);

static inline void ds_jobs_freep(ds_jobs **p)
{
        *p = ds_jobs_free(*p);
}
