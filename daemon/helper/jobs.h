/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper's jobs: images to check, several compilers at once
 *
 * Images are checked in the helper's own thread when the request arrives. Compilation runs in child processes, so other
 * requests are served meanwhile, and answers are sent as soon as they are ready. No function here blocks.
 */
#pragma once

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "helper/check.h"
#include "helper/ptxas.h"

typedef struct ds_jobs ds_jobs;

#define DS_JOBS_MAX 16 /* most compilers that run at once */
#define DS_JOBS_POLLFDS (2 * DS_JOBS_MAX)

/* Whether forms of the image's kernels are made (helper/forms.h). */
enum ds_jobs_forms {
        DS_JOBS_NATIVE, /* forms are not wanted */
        DS_JOBS_STORED, /* send the transformed image only if it exists already and is found quickly */
        /* make the transformed image if it does not exist; if that is impossible, answer with the original image and
         * a message */
        DS_JOBS_MADE,
        DS_JOBS_ONLY, /* make the transformed image, or fail; an image for a simulated device was checked before */
        _DS_JOBS_FORMS_MAX,
};

/* Whether the image is a list of images to link (helper/link.h). */
enum ds_jobs_link {
        DS_JOBS_NO_LINK,
        DS_JOBS_CHECK, /* compile the list's only input, PTX that may need names of other texts */
        DS_JOBS_LINK,  /* answer with the linked image */
        _DS_JOBS_LINK_MAX,
};

struct ds_jobs_request {
        uint64_t id, offset, bytes;
        uint32_t cc, uid;
        uint32_t max_registers, optimization; /* options of the client's ModuleLoad request */
        int simulated, force_ptx;
        enum ds_jobs_forms forms;
        enum ds_jobs_link link;
        uint32_t time_ms; /* time limit of the compiler; 0: DS_COMPILE_TIME_MS */
};

struct ds_jobs_ops {
        /* Sends an answer. The caller owns result->fd. A negative errno ends the current step. */
        int (*answer)(void *user, uint64_t id, const struct ds_check_result *result);
};

/* Creates the list of jobs. ptxas must stay valid as long as the jobs. */
int ds_jobs_new(const struct ds_ptxas *ptxas, const struct ds_jobs_ops *ops, void *user, ds_jobs **ret);
ds_jobs *ds_jobs_free(ds_jobs *jobs);
/* Sets the directory of compiled code (util/code_file.h), for reading. Consumes the descriptor. */
void ds_jobs_set_directory(ds_jobs *jobs, int directory, uint32_t owner);
/* Whether as many compilers run as are permitted at once. */
int ds_jobs_full(const ds_jobs *jobs);
/* Begins a request, which is answered now or later. Not allowed while ds_jobs_full(). The caller keeps fd. */
int ds_jobs_take(ds_jobs *jobs, const struct ds_jobs_request *request, int fd);
/* Cancels a job. One that has ended is allowed. */
int ds_jobs_cancel(ds_jobs *jobs, uint64_t id);
/* Fills in descriptors for poll(), at most DS_JOBS_POLLFDS, and its timeout. Returns their number. */
size_t ds_jobs_poll(const ds_jobs *jobs, struct pollfd *fds, int *ret_timeout_ms);
/* Continues the jobs. Call it after every poll(). */
int ds_jobs_step(ds_jobs *jobs);

static inline void ds_jobs_freep(ds_jobs **p)
{
        *p = ds_jobs_free(*p);
}
