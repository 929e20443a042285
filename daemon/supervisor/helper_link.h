/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helpers as the supervisor sees them: processes without privilege that read images and have them compiled
 *
 * An image may take over the helper that reads it. So each helper serves one user (a uid), which this process decides
 * and the helper cannot change:
 *
 *   - What a helper remembers is of its user's images. It answers only for images that it was sent.
 *   - What it has compiled is kept on disk for its user (code_store.h), and it is given that user's files only.
 *   - The worker shares a loaded image only between equal bytes, or between sessions that were given the same sealed
 *     file, which no helper gets of another one.
 *   - Helpers cannot reach each other (helper/fence.h).
 *
 * A helper is started for a user whose image comes, at most READERS_MAX of them. One that has been idle for a while is
 * ended, and one that is idle gives way to another user's when there are as many as may be; the one that was started
 * first stays, and is started with the daemon for whoever comes first.
 *
 * Jobs wait here, not there; as many are sent as compilers may work at once, one to each helper for a simulated device.
 * Users take turns, and one of many slots is not given to a single user, root apart: images that take long keep only
 * their own user's waiting. What is made behind clients' backs (forms of kernels) is sent one at a time, and only when
 * no client waits. An image that kills or stalls a helper takes only itself down: the helper is started again, its
 * user's images that were with it are tried again one by one, and it goes on with the next. What a helper hands back is
 * checked: a sealed memory file of the size it says.
 */
#pragma once

#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "internal.pb-c.h"
#include "supervisor/charge.h"

struct ds_supervisor;

typedef struct ds_helper ds_helper;

/* What became of an image. */
struct ds_helper_result {
        int status; /* 0 or CUresult */
        const char *message;
        int fd; /* sealed memory file; set to -1 by who keeps it */
        uint64_t bytes, hash;
        uint64_t report_bytes;   /* behind the image in the file; 0: it has no forms */
        uint64_t variable_bytes; /* of the GPU's memory */
};

/* Zero-initialised; embedded in what waits for it. */
struct ds_helper_job {
        TAILQ_ENTRY(ds_helper_job) link;
        int queued;
        int suspect;   /* its helper died while it had this one and others */
        ds_user *user; /* whose turn it takes; outlives the job */
        uint64_t bytes;
        int fd;                               /* the client's image; the job's */
        uint64_t offset;                      /* of it in the file */
        uint32_t max_registers, optimization; /* as in ModuleLoad */
        Detshare__Internal__ImageForms forms;
        int background; /* no client waits for it */
        void (*done)(struct ds_helper_job *job, struct ds_helper_result *result);
};

/* How images were come by since the daemon was started. */
struct ds_helper_figures {
        uint64_t images;     /* that were asked for, and were good */
        uint64_t known;      /* of them, read before */
        uint64_t remembered; /* compiled before: in memory */
        uint64_t stored;     /* compiled before: on disk */
        uint64_t compiled;   /* now */
        uint64_t damaged;    /* files on disk that were not what was written */
        /* transformed images: made now, and how long that took; made before; that could not be made */
        uint64_t forms_made, forms_ns, forms_found, forms_failed;
};

int ds_helper_new(struct ds_supervisor *supervisor, ds_helper **ret);
/* No job may be queued; all processes must have ended. NULL is fine; returns NULL. */
ds_helper *ds_helper_free(ds_helper *helper);
/* The first process. 0 or a negative errno. */
int ds_helper_start(ds_helper *helper);
/* Takes fd over; offset and options have been set. done runs once, later, unless the job is cancelled. */
void ds_helper_check(ds_helper *helper, struct ds_helper_job *job, ds_user *user, int fd, uint64_t bytes,
        void (*done)(struct ds_helper_job *job, struct ds_helper_result *result));
/* One that is not queued is fine. */
void ds_helper_cancel(ds_helper *helper, struct ds_helper_job *job);
const struct ds_helper_figures *ds_helper_figures(const ds_helper *helper);
/* Of the process that was started first; 0: there is none. */
pid_t ds_helper_pid(const ds_helper *helper);
/* Processes that have not ended. */
unsigned ds_helper_count(const ds_helper *helper);
/* End of file for all; no new one is started. */
void ds_helper_stop(ds_helper *helper);
void ds_helper_kill(ds_helper *helper);
