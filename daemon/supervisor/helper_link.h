/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helpers: unprivileged processes that read images and have them compiled
 *
 * A malicious image may take control of the helper that reads it. So each helper serves one user (a uid). This process
 * decides which, and the helper cannot change it:
 *
 *   - A helper caches only results of its user's images. It answers only for images that it was sent.
 *   - Compiled code is kept on disk per user (code_store.h); a helper receives only its user's directory.
 *   - The worker shares a loaded image only between equal bytes, or between sessions that were given the same sealed
 *     file, and a helper never gets the file of another one.
 *   - Helpers cannot reach each other (helper/fence.h).
 *
 * For an image that the supervisor recognises as one of the user's earlier ones, no helper works (image_memory.h).
 *
 * A helper is started when a user's first image arrives; at most READERS_MAX run. A helper that stays idle is ended.
 * When all slots are in use, an idle helper is replaced by one for the new user. The first one is started with the
 * daemon, for the first user that comes, and is not ended when idle.
 *
 * Jobs are queued here, not in the helper. At most as many are sent as compilers may run at once; one per helper for a
 * simulated device. Users take turns, and no single user except root gets all slots, so slow images delay only their
 * own user. Background jobs (forms of kernels) are sent one at a time, and only while no client waits.
 *
 * An image that kills or stalls a helper affects only that helper. The supervisor restarts it, retries the user's other
 * images one by one, and continues. The result of a helper is checked: it must be a sealed memory file of the reported
 * size.
 */
#pragma once

#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "internal.pb-c.h"
#include "supervisor/charge.h"
#include "supervisor/image_memory.h"

struct ds_supervisor;

typedef struct ds_helper ds_helper;

/* The result for an image. */
struct ds_helper_result {
        int status; /* 0, or a value of CUresult */
        const char *message;
        int fd; /* sealed memory file of the checked image; a receiver that keeps it sets this to -1 */
        uint64_t bytes, hash;
        uint64_t report_bytes;   /* size of the report that follows the image in the file; 0: no forms */
        uint64_t variable_bytes; /* bytes of GPU memory for the module's variables */
        int no_ptx;              /* 1: the image's kernels cannot have forms, because it has no PTX of its code */
};

/* A request to check an image. Zero-initialise it, and embed it in the object that waits for the result. */
struct ds_helper_job {
        TAILQ_ENTRY(ds_helper_job) link;
        int queued;
        int suspect;   /* 1: its helper died while it worked on this image and others */
        ds_user *user; /* user that the job counts for; must stay valid until the job ends */
        uint64_t bytes;
        int fd;                               /* the client's image file; owned by the job */
        uint64_t offset;                      /* offset of the image in the file */
        uint32_t max_registers, optimization; /* options of the client's ModuleLoad request */
        Detshare__Internal__ImageForms forms;
        Detshare__Internal__ImageLink link_step; /* not NO_LINK: the file is a struct ds_link_file (proto/wire.h) */
        int background;                          /* 1: no client waits for the result */
        int identified;                          /* 1: the result is to be remembered under the key */
        struct ds_image_key key;
        void (*done)(struct ds_helper_job *job, struct ds_helper_result *result);
};

/* Counts since the start of the daemon. */
struct ds_helper_figures {
        uint64_t images;     /* valid images requested */
        uint64_t known;      /* images among them whose earlier check was reused */
        uint64_t remembered; /* images among them found in the helper's cache of compiled code */
        uint64_t stored;     /* images among them found in the store on disk */
        uint64_t compiled;   /* images among them that were compiled */
        uint64_t damaged;    /* files on disk whose content did not match their checksum */
        /* transformed images: number made, time for making them, number found, number of failures */
        uint64_t forms_made, forms_ns, forms_found, forms_failed;
};

int ds_helper_new(struct ds_supervisor *supervisor, ds_helper **ret);
/* Frees the helpers. No job may be queued and all processes must have ended. NULL is allowed; returns NULL. */
ds_helper *ds_helper_free(ds_helper *helper);
/* Starts the first helper process. Returns 0 or a negative errno. */
int ds_helper_start(ds_helper *helper);
/* Queues a job. Consumes fd; the caller has set offset and options. done is called once, unless the job is cancelled:
 * later, or before this call returns if the result is remembered. */
void ds_helper_check(ds_helper *helper, struct ds_helper_job *job, ds_user *user, int fd, uint64_t bytes,
        void (*done)(struct ds_helper_job *job, struct ds_helper_result *result));
/* Cancels a job: done is not called. A job that is not queued is allowed. */
void ds_helper_cancel(ds_helper *helper, struct ds_helper_job *job);
const struct ds_helper_figures *ds_helper_figures(const ds_helper *helper);
/* Number of open files of results that are remembered for later images. */
size_t ds_helper_remembered(const ds_helper *helper);
/* pid of the helper process that was started first; 0: none runs. */
pid_t ds_helper_pid(const ds_helper *helper);
/* Number of helper processes that have not ended. */
unsigned ds_helper_count(const ds_helper *helper);
/* Closes the connections of all helper processes, which then exit. None is started again. */
void ds_helper_stop(ds_helper *helper);
void ds_helper_kill(ds_helper *helper);
