/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/jobs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "helper/cache.h"
#include "helper/compile.h"
#include "helper/forms.h"
#include "helper/known.h"
#include "helper/link.h"
#include "helper/nvjitlink.h"
#include "ptx/pass/forms.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/code_file.h"
#include "util/error.h"
#include "util/forms_file.h"
#include "util/macro.h"

/* Limits of one helper process; up to nine processes run, one per user. */
#define CACHE_BYTES DS_MIB(32)
/* most bytes of checked images kept, also bounded by 1/KNOWN_MEMORY_PART of the machine's memory */
#define KNOWN_MAX DS_MIB(512)
#define KNOWN_MIN DS_MIB(32)
#define KNOWN_MEMORY_PART 128u
#define KNOWN_FILES_MAX 4096u
#define FILES_BESIDE 160u    /* descriptors that the helper needs beside those of checked images */
#define STATUS_CANCELLED 999 /* status of a cancelled job; no client receives it */
#define FAILED_MAX 64u       /* most modules that are remembered as modules without forms */

/* The result for an image without forms of its kernels. */
struct native {
        int fd; /* -1: there is no such result */
        uint64_t bytes, hash, variable_bytes;
        enum ds_check_origin how;
        int damaged, no_ptx;
        uint8_t key[DS_SHA256_BYTES];
};

struct job {
        ds_compile *compile; /* compile, making and linking all NULL: the slot is free */
        ds_forms *making;
        ds_link *linking;
        int of_forms; /* 1: the text that the compiler gets is the transformed one */
        char *made;   /* transformed text followed by its report */
        size_t made_text, made_size;
        struct native native;
        struct ds_jobs_request request;
        struct ds_check_text text;
        char options[DS_COMPILE_OPTIONS_MAX];
        int sealed; /* file of the image if the image is identified by its bytes; else -1 */
        enum ds_check_origin how;
        int damaged;
        uint8_t key[DS_SHA256_BYTES];             /* key of the text being compiled */
        uint64_t compiler;                        /* identity of the compiler when it was started */
        struct ds_known_origin origin;            /* origin of the image */
        const struct ds_known_origin *remembered; /* the address of `origin`; NULL: the image cannot be identified */
};

/* A module for which no forms can be made, and the reason for that. */
struct failed {
        uint8_t key[DS_SHA256_BYTES];
        char why[256];
};

struct ds_jobs {
        const struct ds_ptxas *ptxas;
        struct ds_nvjitlink linker;
        const struct ds_jobs_ops *ops;
        void *user;
        ds_cache *cache;
        ds_known *known;
        int directory; /* directory of compiled code; -1: none */
        uint32_t directory_owner;
        struct job jobs[DS_JOBS_MAX];
        struct failed failed[FAILED_MAX];
        uint32_t n_failed;             /* number of such modules found since the start */
        struct ds_check_result result; /* the answer that is being built */
        struct ds_check_result other;  /* result of a second attempt while `result` is in use */
};

static uint64_t real_now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_REALTIME, &t);
        return (uint64_t)t.tv_sec * DS_NS_PER_S + (uint64_t)t.tv_nsec;
}

static int known_new(ds_known **ret)
{
        long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
        uint64_t memory = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
        struct rlimit files = {.rlim_cur = 0};

        (void)getrlimit(RLIMIT_NOFILE, &files);
        files.rlim_cur = files.rlim_cur > FILES_BESIDE ? files.rlim_cur - FILES_BESIDE : 0;
        return ds_known_new(DS_MIN(DS_MAX(memory / KNOWN_MEMORY_PART, KNOWN_MIN), KNOWN_MAX),
                DS_MIN(files.rlim_cur, (rlim_t)KNOWN_FILES_MAX), ret);
}

int ds_jobs_new(const struct ds_ptxas *ptxas, const struct ds_jobs_ops *ops, void *user, ds_jobs **ret)
{
        ds_cleanup(ds_jobs_freep) ds_jobs *jobs = ds_alloc0(1, sizeof(*jobs));
        int r;

        if (!jobs)
                return ds_error_origin(-ENOMEM);
        jobs->directory = jobs->result.fd = jobs->other.fd = -1;
        for (size_t i = 0; i < DS_JOBS_MAX; i++)
                jobs->jobs[i].sealed = jobs->jobs[i].native.fd = -1;
        jobs->ptxas = ptxas;
        ds_nvjitlink_find(ptxas, &jobs->linker);
        jobs->ops = ops;
        jobs->user = user;
        r = ds_cache_new(CACHE_BYTES, &jobs->cache);
        if (!r)
                r = known_new(&jobs->known);
        if (r)
                return ds_error_trace(r);
        *ret = DS_TAKE_PTR(jobs);
        return 0;
}

static void job_end(struct job *job)
{
        job->compile = ds_compile_free(job->compile);
        job->making = ds_forms_free(job->making);
        job->linking = ds_link_free(job->linking);
        job->made = ds_free(job->made);
        job->native.fd = ds_close(job->native.fd);
        job->of_forms = 0;
        ds_free(job->text.text);
        job->text = (struct ds_check_text){.text = NULL};
        job->sealed = ds_close(job->sealed);
}

ds_jobs *ds_jobs_free(ds_jobs *jobs)
{
        if (!jobs)
                return NULL;
        for (size_t i = 0; i < DS_JOBS_MAX; i++)
                job_end(&jobs->jobs[i]);
        ds_cache_free(jobs->cache);
        ds_known_free(jobs->known);
        ds_close(jobs->directory);
        return ds_free(jobs);
}

static int job_is_free(const struct job *job)
{
        return !job->compile && !job->making && !job->linking;
}

static struct job *job_free_slot(const ds_jobs *jobs)
{
        for (size_t i = 0; i < DS_JOBS_MAX; i++)
                if (job_is_free(&jobs->jobs[i]))
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
                .text = job->text.text, .length = job->text.length, .options = job->options, .compiler = job->compiler};
}

void ds_jobs_set_directory(ds_jobs *jobs, int directory, uint32_t owner)
{
        ds_close(jobs->directory);
        jobs->directory = directory;
        jobs->directory_owner = owner;
}

/* Computes the key of the compiler's output from all its inputs. */
static void job_name(struct job *job, uint64_t lasting)
{
        struct ds_sha256 sum;

        ds_sha256_begin(&sum);
        ds_sha256_add(&sum, &lasting, sizeof(lasting));
        ds_sha256_add(&sum, job->options, sizeof(job->options));
        ds_sha256_add(&sum, job->text.text, job->text.length);
        ds_sha256_end(&sum, job->key);
}

/* Searches for the compiled code on disk. Returns 1 if the answer is set. */
static int job_stored(ds_jobs *jobs, struct job *job, const struct ds_cache_key *key)
{
        ds_cleanup(ds_freep) void *code = NULL;
        size_t size;
        int r;

        if (jobs->directory < 0)
                return 0;
        r = ds_code_file_read(jobs->directory, job->key, jobs->directory_owner, DS_CHECK_IMAGE_MAX, &code, &size);
        job->damaged = r == DS_CODE_FILE_E_DAMAGED;
        if (r)
                return 0;
        ds_check_cubin(code, size, job->request.cc, "the machine code that ptxas made of the PTX", &jobs->result);
        if (jobs->result.status) {
                job->damaged = 1;
                return 0;
        }
        job->how = DS_CHECK_STORED;
        ds_cache_add(jobs->cache, key, code, size);
        return 1;
}

/* Searches for the compiled code in the cache, then on disk. Returns 1 if the answer is set. */
static int job_compiled_before(ds_jobs *jobs, struct job *job)
{
        struct ds_cache_key key;
        uint64_t lasting;
        const void *code;
        size_t size;

        job->compiler = ds_ptxas_identity(jobs->ptxas, &lasting);
        memset(job->options, 0, sizeof(job->options)); /* zeroed, because all bytes of options are part of the key */
        ds_compile_options(&job->text, job->options);
        key = key_of(job);
        if (ds_cache_find(jobs->cache, &key, &code, &size)) {
                ds_check_cubin(
                        code, size, job->request.cc, "the machine code that ptxas made of the PTX", &jobs->result);
                job->how = DS_CHECK_REMEMBERED;
                return 1;
        }
        job_name(job, lasting);
        return job_stored(jobs, job, &key);
}

/* Starts the compiler unless its output is known. Returns 1 if the answer is set, which may be an error; 0: the
 * compiler runs. */
static int job_start(ds_jobs *jobs, struct job *job)
{
        if (!jobs->ptxas->path[0]) {
                ds_check_fail(&jobs->result, DS_CHECK_NO_COMPILER, "%s", jobs->ptxas->missing);
                return 1;
        }
        if (job_compiled_before(jobs, job))
                return 1;
        job->how = DS_CHECK_COMPILED;
        if (ds_compile_new(jobs->ptxas->path, &job->text, job->request.time_ms, &job->compile) == 0)
                return 0;
        ds_check_fail(&jobs->result, DS_CHECK_OUT_OF_MEMORY, "no memory or no process for the compiler");
        return 1;
}

/* The image's place, if the place identifies the image; otherwise NULL. */
static const struct ds_known_origin *job_origin(struct job *job, int fd)
{
        const struct ds_jobs_request *request = &job->request;

        job->origin = (struct ds_known_origin){
                .offset = request->offset,
                .bytes = request->bytes,
                .uid = request->uid,
                .cc = request->cc,
                .max_registers = request->max_registers,
                .optimization = request->optimization,
                .simulated = request->simulated != 0,
                .force_ptx = request->force_ptx != 0,
        };
        return ds_known_identify(fd, real_now(), &job->origin) ? NULL : &job->origin;
}

/* Called after reading the image: if its file changed meanwhile, its place does not identify it. */
static void job_settle(struct job *job, int fd)
{
        struct ds_known_origin before = job->origin;

        if (job->remembered && job->sealed < 0 &&
                (!job_origin(job, fd) || memcmp(&before, &job->origin, sizeof(before))))
                job->remembered = NULL;
}

/* Checks the image of a request. Returns 1 if the answer is set; 0: the compiler runs. */
static int job_check(ds_jobs *jobs, struct job *job, const struct ds_check_source *source)
{
        const struct ds_jobs_request *request = &job->request;
        int compile = 0;

        if (request->simulated)
                ds_check_image(source, request->cc, 1, &jobs->result);
        else
                compile = ds_check_machine(source, request->cc, request->force_ptx, &jobs->result, &job->text);
        job_settle(job, source->fd);
        if (compile) {
                job->text.max_registers = request->max_registers ? request->max_registers : job->text.max_registers;
                job->text.optimization = request->optimization;
        }
        return !compile || job_start(jobs, job);
}

static int job_answer(ds_jobs *jobs, struct job *job)
{
        uint64_t id = job->request.id;

        if (!jobs->result.status && job->how != DS_CHECK_KNOWN)
                ds_known_add(jobs->known, job->remembered, job->sealed, &jobs->result);
        jobs->result.origin = job->how;
        jobs->result.damaged = job->damaged;
        memcpy(jobs->result.key, job->key, sizeof(job->key));
        job_end(job);
        return jobs_answer(jobs, id);
}

/* --- forms -------------------------------------------------------------------------------------------------------- */

/* Computes the key of the transformed image from all its inputs. */
static void forms_name(struct job *job, uint64_t lasting)
{
        char compiler[DS_COMPILE_OPTIONS_MAX] = "";
        struct ds_sha256 sum;

        if (!job->request.simulated)
                ds_compile_options(&job->text, compiler);
        memset(job->options, 0, sizeof(job->options));
        snprintf(job->options, sizeof(job->options), "forms=%u %.50s", DS_PTX_FORMS_VERSION, compiler);
        ds_sha256_begin(&sum);
        ds_sha256_add(&sum, &lasting, sizeof(lasting));
        ds_sha256_add(&sum, job->options, sizeof(job->options));
        ds_sha256_add(&sum, job->text.text, job->text.length);
        ds_sha256_end(&sum, job->key);
}

/* Reads the text that a checked file contains. Returns 0 or -ENOMEM. */
static int forms_read_text(int fd, uint64_t bytes, struct ds_check_text *ret)
{
        ds_cleanup(ds_freep) char *text = ds_alloc(bytes);
        uint64_t got = 0;

        while (text && got < bytes) {
                ssize_t n = pread(fd, text + got, bytes - got, (off_t)got);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return -ENOMEM;
                got += (uint64_t)n;
        }
        if (!text)
                return ds_error_origin(-ENOMEM);
        ret->text = DS_TAKE_PTR(text);
        ret->length = bytes;
        return 0;
}

/*
 * Finds the PTX from which to make forms. For a simulated device that is the image itself; for an image about to be
 * compiled, its text; for other machine code, the PTX in the image, if the request asks for forms. Returns NULL, or the
 * reason why there is no PTX.
 */
static const char *forms_text(
        ds_jobs *jobs, struct job *job, const struct ds_check_source *source, int fd, uint64_t bytes)
{
        struct ds_check_result *other = &jobs->other;

        if (!job->text.text && job->request.simulated && forms_read_text(fd, bytes, &job->text))
                return "out of memory for its PTX";
        if (!job->text.text && (!source || job->request.forms == DS_JOBS_STORED))
                return "its PTX was not searched";
        if (!job->text.text && jobs->result.no_ptx)
                return "the module has no PTX";
        if (!job->text.text && !ds_check_ptx(source, job->request.cc, job->request.force_ptx, other, &job->text))
                return other->message;
        if (job->text.length > DS_FORMS_TEXT_MAX)
                return "its PTX is larger than 32 MiB, the most for which forms are made";
        if (job->request.simulated)
                return NULL;
        if (job->request.max_registers)
                job->text.max_registers = job->request.max_registers;
        job->text.optimization = job->request.optimization;
        return NULL;
}

static struct failed *forms_failed_before(ds_jobs *jobs, const struct job *job)
{
        for (size_t i = 0; i < DS_MIN(jobs->n_failed, FAILED_MAX); i++)
                if (!memcmp(jobs->failed[i].key, job->key, sizeof(job->key)))
                        return &jobs->failed[i];
        return NULL;
}

/* Answers without forms: with the original image and a message, or with an error if only forms were requested. */
static int forms_none(ds_jobs *jobs, struct job *job, int status, const char *why)
{
        struct ds_check_result *result = &jobs->result;
        struct native *native = &job->native;

        if (native->fd < 0) {
                result->fd = ds_close(result->fd);
                job->how = DS_CHECK_READ;
                job->damaged = 0;
                ds_check_fail(result, status, "%s", why);
                return job_answer(jobs, job);
        }
        *result = (struct ds_check_result){.fd = native->fd,
                .bytes = native->bytes,
                .hash = native->hash,
                .variable_bytes = native->variable_bytes,
                .no_ptx = native->no_ptx};
        native->fd = -1;
        job->how = native->how;
        job->damaged = native->damaged;
        memcpy(job->key, native->key, sizeof(job->key));
        snprintf(result->message, sizeof(result->message), "%s", why);
        return job_answer(jobs, job);
}

static int forms_fail(ds_jobs *jobs, struct job *job)
{
        struct failed *failed = &jobs->failed[jobs->n_failed++ % FAILED_MAX];
        char why[sizeof(jobs->other.message)];

        memcpy(why, jobs->result.message, sizeof(why));
        memcpy(failed->key, job->key, sizeof(failed->key));
        snprintf(failed->why, sizeof(failed->why), "%.250s", why);
        return forms_none(jobs, job, jobs->result.status, why);
}

/* Answers with the transformed image. Requests with the same result get the same file. */
static int forms_answer(ds_jobs *jobs, struct job *job, const void *bytes, size_t size, enum ds_check_origin how)
{
        const struct ds_cache_key key = key_of(job);

        jobs->result.fd = ds_close(jobs->result.fd);
        ds_check_forms(bytes, size, job->request.cc, job->request.simulated, &jobs->result);
        if (jobs->result.status)
                return forms_fail(jobs, job);
        if (how != DS_CHECK_REMEMBERED)
                ds_cache_add(jobs->cache, &key, bytes, size);
        job->how = how;
        job->remembered = NULL;
        return job_answer(jobs, job);
}

/* Whether the forms exist already; then *ret_r is the result of answering. */
static int forms_found(ds_jobs *jobs, struct job *job, int *ret_r)
{
        const struct ds_cache_key key = key_of(job);
        ds_cleanup(ds_freep) void *file = NULL;
        const void *bytes;
        size_t size;
        int r;

        if (ds_cache_find(jobs->cache, &key, &bytes, &size)) {
                *ret_r = forms_answer(jobs, job, bytes, size, DS_CHECK_REMEMBERED);
                return 1;
        }
        if (jobs->directory < 0)
                return 0;
        r = ds_code_file_read(jobs->directory, job->key, jobs->directory_owner, DS_CHECK_IMAGE_MAX, &file, &size);
        if (r == DS_CODE_FILE_E_DAMAGED || (!r && !ds_forms_file_report(file, size)))
                job->damaged = 1;
        if (r || job->damaged)
                return 0;
        *ret_r = forms_answer(jobs, job, file, size, DS_CHECK_STORED);
        return 1;
}

/* Searches for the forms, or begins to make them. job->native holds the result without forms, if the request accepts
 * that as an answer. */
static int forms_begin(ds_jobs *jobs, struct job *job)
{
        const struct failed *failed;
        uint64_t lasting = 0;
        int r = 0;

        job->damaged = 0;
        job->compiler = 0;
        if (!job->request.simulated && !jobs->ptxas->path[0])
                return forms_none(jobs, job, DS_CHECK_NO_COMPILER, jobs->ptxas->missing);
        if (!job->request.simulated)
                job->compiler = ds_ptxas_identity(jobs->ptxas, &lasting);
        forms_name(job, lasting);
        if (forms_found(jobs, job, &r))
                return r;
        if (job->request.forms == DS_JOBS_STORED)
                return forms_none(jobs, job, DS_CHECK_NO_BINARY, "");
        failed = forms_failed_before(jobs, job);
        if (failed)
                return forms_none(jobs, job, DS_CHECK_INVALID_PTX, failed->why);
        if (ds_forms_new(job->text.text, job->text.length, &job->making))
                return forms_none(jobs, job, DS_CHECK_OUT_OF_MEMORY, "no memory or no process to make its forms");
        return 0;
}

/* Handles the result without forms. It is the answer, unless the request asks for forms and they are possible.
 * source: NULL if the image cannot be read again. */
static int job_native(ds_jobs *jobs, struct job *job, const struct ds_check_source *source)
{
        struct ds_check_result *result = &jobs->result;
        const char *why;

        if (result->status || job->request.forms == DS_JOBS_NATIVE)
                return job_answer(jobs, job);
        if (job->how != DS_CHECK_KNOWN)
                ds_known_add(jobs->known, job->remembered, job->sealed, result);
        job->remembered = NULL;
        why = forms_text(jobs, job, source, result->fd, result->bytes);
        job->native = (struct native){.fd = result->fd,
                .bytes = result->bytes,
                .hash = result->hash,
                .variable_bytes = result->variable_bytes,
                .how = job->how,
                .damaged = job->damaged,
                .no_ptx = result->no_ptx};
        memcpy(job->native.key, job->key, sizeof(job->key));
        result->fd = -1;
        return why ? forms_none(jobs, job, DS_CHECK_NO_BINARY, why) : forms_begin(jobs, job);
}

static int job_only_forms(ds_jobs *jobs, struct job *job, const struct ds_check_source *source)
{
        const char *why;

        jobs->result.no_ptx = 0; /* it may be the fact about an earlier image */
        why = forms_text(jobs, job, source, source->fd, source->bytes);

        return why ? forms_none(jobs, job, DS_CHECK_NO_BINARY, why) : forms_begin(jobs, job);
}

/* Handles a transformed text that is ready. For a real GPU the compiler gets it next. */
static int forms_made(ds_jobs *jobs, struct job *job)
{
        struct ds_check_text text = job->text;

        job->made = ds_forms_result(job->making, &jobs->result, &job->made_text, &job->made_size);
        job->making = ds_forms_free(job->making);
        if (!job->made)
                return forms_fail(jobs, job);
        if (job->request.simulated)
                return forms_answer(jobs, job, job->made, job->made_size, DS_CHECK_COMPILED);
        text.text = job->made;
        text.length = job->made_text;
        job->of_forms = 1;
        if (ds_compile_new(jobs->ptxas->path, &text, job->request.time_ms, &job->compile) == 0)
                return 0;
        return forms_none(jobs, job, DS_CHECK_OUT_OF_MEMORY, "no memory or no process for the compiler");
}

/* Handles machine code compiled from a transformed text: appends the report to it. */
static int forms_compiled(ds_jobs *jobs, struct job *job)
{
        const size_t report = job->made_size - job->made_text;
        ds_cleanup(ds_freep) void *code = NULL;
        ds_cleanup(ds_freep) char *whole = NULL;
        uint64_t lasting;
        size_t size = 0;

        ds_compile_result(job->compile, job->request.cc, &jobs->result, &code, &size);
        jobs->result.fd = ds_close(jobs->result.fd);
        if (jobs->result.status)
                return forms_fail(jobs, job);
        whole = ds_alloc(size + report);
        if (!whole || job->compiler != ds_ptxas_identity(jobs->ptxas, &lasting))
                return forms_none(
                        jobs, job, DS_CHECK_OUT_OF_MEMORY, "out of memory, or the compiler was replaced meanwhile");
        memcpy(whole, code, size);
        memcpy(whole + size, job->made + job->made_text, report);
        return forms_answer(jobs, job, whole, size + report, DS_CHECK_COMPILED);
}

/* --- links -------------------------------------------------------------------------------------------------------- */

/* Sets the facts beside the inputs on which the linked image depends. */
static void link_options(ds_jobs *jobs, struct job *job)
{
        memset(job->options, 0, sizeof(job->options));
        snprintf(job->options, sizeof(job->options), "link=%u cc=%u simulated=%d", DS_LINK_VERSION, job->request.cc,
                job->request.simulated != 0);
        job->compiler = ds_nvjitlink_identity(&jobs->linker);
}

/* Computes the key of a linked image on disk from all its inputs and the linker library. */
static void link_name(struct job *job, const void *bytes, size_t size)
{
        struct ds_sha256 sum;

        ds_sha256_begin(&sum);
        ds_sha256_add(&sum, &job->compiler, sizeof(job->compiler));
        ds_sha256_add(&sum, job->options, sizeof(job->options));
        ds_sha256_add(&sum, bytes, size);
        ds_sha256_end(&sum, job->key);
}

static int link_answer(ds_jobs *jobs, struct job *job, const void *image, size_t size, enum ds_check_origin how)
{
        const struct ds_cache_key key = key_of(job);

        memcpy(jobs->other.message, jobs->result.message, sizeof(jobs->other.message));
        ds_check_linked(image, size, job->request.cc, &jobs->result);
        if (!jobs->result.status && how == DS_CHECK_COMPILED) /* the linker's messages */
                memcpy(jobs->result.message, jobs->other.message, sizeof(jobs->result.message));
        if (!jobs->result.status && (how == DS_CHECK_COMPILED || how == DS_CHECK_STORED) && job->text.text)
                ds_cache_add(jobs->cache, &key, image, size);
        job->how = how;
        return job_answer(jobs, job);
}

/* Answers with the result as it is: an error, or the result of a check. */
static int link_report(ds_jobs *jobs, struct job *job)
{
        job->how = DS_CHECK_READ;
        return job_answer(jobs, job);
}

/* Whether the linked image exists already, in memory or on disk; then *ret_r is the result of answering. */
static int link_found(ds_jobs *jobs, struct job *job, const void *inputs, size_t inputs_size, int *ret_r)
{
        const struct ds_cache_key key = key_of(job);
        ds_cleanup(ds_freep) void *file = NULL;
        const void *bytes;
        size_t size;
        int r;

        if (job->text.text && ds_cache_find(jobs->cache, &key, &bytes, &size)) {
                *ret_r = link_answer(jobs, job, bytes, size, DS_CHECK_REMEMBERED);
                return 1;
        }
        link_name(job, inputs, inputs_size);
        if (jobs->directory < 0)
                return 0;
        r = ds_code_file_read(jobs->directory, job->key, jobs->directory_owner, DS_CHECK_IMAGE_MAX, &file, &size);
        job->damaged = r == DS_CODE_FILE_E_DAMAGED;
        if (r)
                return 0;
        *ret_r = link_answer(jobs, job, file, size, DS_CHECK_STORED);
        return 1;
}

static int link_begin(ds_jobs *jobs, struct job *job, const void *bytes, size_t size)
{
        int r;

        link_options(jobs, job);
        /* a copy for the cache in memory, which compares inputs; large ones are cached on disk only */
        if (size <= CACHE_BYTES / 4) {
                job->text.text = ds_alloc(size);
                job->text.length = size;
                if (job->text.text)
                        memcpy(job->text.text, bytes, size);
        }
        if (link_found(jobs, job, bytes, size, &r))
                return r;
        if (!ds_link_new(bytes, job->request.cc, job->request.simulated, 0, &jobs->linker, &job->linking))
                return 0;
        ds_check_fail(&jobs->result, DS_CHECK_OUT_OF_MEMORY, "no memory or no process for the linker");
        return link_report(jobs, job);
}

/* Reads an input that is no PTX, without linking it. */
static int link_read(ds_jobs *jobs, struct job *job, const void *bytes)
{
        if (!ds_link_new(bytes, job->request.cc, job->request.simulated, 1, &jobs->linker, &job->linking))
                return 0;
        ds_check_fail(&jobs->result, DS_CHECK_OUT_OF_MEMORY, "no memory or no process to read the input");
        return link_report(jobs, job);
}

/* Checks the only input. PTX that will be linked is compiled: its errors belong to the call that adds it. */
static int link_try(ds_jobs *jobs, struct job *job, int fd, const void *bytes)
{
        const struct ds_link_file *file = bytes;
        uint32_t n;
        const struct ds_link_input *input = ds_link_inputs(bytes, &n);
        const struct ds_check_source source = {
                .fd = fd, .bytes = input->size, .mapped = (const uint8_t *)bytes + input->offset};
        int compile = 0;

        if (input->kind != DS_LINK_PTX)
                return link_read(jobs, job, bytes);
        if (job->request.simulated)
                ds_check_image(&source, job->request.cc, 1, &jobs->result);
        else
                compile = ds_check_machine(&source, job->request.cc, 1, &jobs->result, &job->text);
        if (!compile)
                return link_report(jobs, job);
        job->text.max_registers = file->max_registers;
        job->text.optimization = file->optimization;
        job->text.relocatable = 1;
        return job_start(jobs, job) ? job_answer(jobs, job) : 0;
}

static int link_take(ds_jobs *jobs, struct job *job, int fd, const void *mapped)
{
        jobs->result.fd = ds_close(jobs->result.fd);
        jobs->result.bytes = jobs->result.report_bytes = jobs->result.hash = 0;
        job->remembered = NULL;
        if (!mapped)
                ds_check_fail(&jobs->result, DS_CHECK_INVALID_VALUE,
                        "the inputs to link are not in a sealed memory file without holes");
        if (!mapped || ds_link_check(mapped, job->request.bytes, &jobs->result))
                return link_report(jobs, job);
        return job->request.link == DS_JOBS_CHECK ? link_try(jobs, job, fd, mapped)
                                                  : link_begin(jobs, job, mapped, job->request.bytes);
}

static int link_finish(ds_jobs *jobs, struct job *job)
{
        ds_cleanup(ds_freep) void *image = NULL;
        size_t size = 0;

        image = ds_link_result(job->linking, &jobs->result, &size);
        job->linking = ds_link_free(job->linking);
        if (!image)
                return link_report(jobs, job);
        if (job->request.link == DS_JOBS_CHECK) {
                ds_check_linked(image, size, job->request.cc, &jobs->result);
                return link_report(jobs, job);
        }
        /* if the library was replaced meanwhile, the output may be that of either one, so it is not cached */
        return link_answer(jobs, job, image, size,
                job->compiler == ds_nvjitlink_identity(&jobs->linker) ? DS_CHECK_COMPILED : DS_CHECK_READ);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

/* Identifies an immutable image by its bytes. */
static void job_identify_bytes(ds_jobs *jobs, struct job *job, int fd, const void *mapped)
{
        job->sealed = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (job->sealed < 0)
                return;
        ds_known_identify_bytes(jobs->known, mapped, &job->origin);
        job->remembered = &job->origin;
}

static int job_take(ds_jobs *jobs, struct job *job, int fd, const void *mapped)
{
        const struct ds_check_source source = {
                .fd = fd, .offset = job->request.offset, .bytes = job->request.bytes, .mapped = mapped};

        job->remembered = NULL;
        if (job->request.forms == DS_JOBS_ONLY)
                return job_only_forms(jobs, job, &source);
        job->remembered = job_origin(job, fd);
        if (mapped)
                job_identify_bytes(jobs, job, fd, mapped);
        if (!job->remembered ||
                !ds_known_find(jobs->known, job->remembered, job->sealed < 0 ? NULL : mapped, &jobs->result))
                return job_check(jobs, job, &source) ? job_native(jobs, job, &source) : 0;
        job->how = DS_CHECK_KNOWN;
        return job_native(jobs, job, &source);
}

int ds_jobs_take(ds_jobs *jobs, const struct ds_jobs_request *request, int fd)
{
        struct job *job = job_free_slot(jobs);
        void *mapped;
        int r;

        assert(job);
        job->request = *request;
        job->how = DS_CHECK_READ;
        job->damaged = 0;
        job->sealed = -1;
        mapped = ds_check_map(fd, request->offset, request->bytes);
        r = request->link ? link_take(jobs, job, fd, mapped) : job_take(jobs, job, fd, mapped);
        if (mapped)
                munmap(mapped, request->bytes);
        return r;
}

int ds_jobs_cancel(ds_jobs *jobs, uint64_t id)
{
        for (size_t i = 0; i < DS_JOBS_MAX; i++) {
                struct job *job = &jobs->jobs[i];

                if (job_is_free(job) || job->request.id != id)
                        continue;
                job_end(job);
                jobs->result.bytes = jobs->result.report_bytes = jobs->result.hash = 0;
                jobs->result.origin = DS_CHECK_READ;
                jobs->result.damaged = 0;
                ds_check_fail(&jobs->result, STATUS_CANCELLED, "cancelled");
                return jobs_answer(jobs, id);
        }
        return 0;
}

size_t ds_jobs_poll(const ds_jobs *jobs, struct pollfd *fds, int *ret_timeout_ms)
{
        uint64_t first = UINT64_MAX, t = ds_monotonic_ns(), left;
        size_t n = 0;

        for (size_t i = 0; i < DS_JOBS_MAX; i++) {
                const ds_compile *compile = jobs->jobs[i].compile;
                const ds_forms *making = jobs->jobs[i].making;
                const ds_link *linking = jobs->jobs[i].linking;

                if (making) {
                        fds[n++] = (struct pollfd){.fd = ds_forms_process_fd(making), .events = POLLIN};
                        first = DS_MIN(first, ds_forms_deadline_ns(making));
                }
                if (linking) {
                        fds[n++] = (struct pollfd){.fd = ds_link_process_fd(linking), .events = POLLIN};
                        first = DS_MIN(first, ds_link_deadline_ns(linking));
                }
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
        uint64_t lasting;
        size_t size;

        ds_compile_result(job->compile, job->request.cc, &jobs->result, &code, &size);
        /* if the compiler was replaced meanwhile, the output may be that of either one, so it is not cached */
        if (job->compiler != ds_ptxas_identity(jobs->ptxas, &lasting))
                job->how = DS_CHECK_READ;
        else if (!jobs->result.status)
                ds_cache_add(jobs->cache, &key, code, size);
        job->compile = ds_compile_free(job->compile);
        return job_native(jobs, job, NULL);
}

int ds_jobs_step(ds_jobs *jobs)
{
        uint64_t t = ds_monotonic_ns();
        int r = 0;

        for (size_t i = 0; i < DS_JOBS_MAX && !r; i++) {
                struct job *job = &jobs->jobs[i];

                if (job->making && ds_forms_step(job->making, t))
                        r = forms_made(jobs, job);
                else if (job->linking && ds_link_step(job->linking, t))
                        r = link_finish(jobs, job);
                else if (job->compile && ds_compile_step(job->compile, t))
                        r = job->of_forms ? forms_compiled(jobs, job) : job_finish(jobs, job);
        }
        return r;
}
