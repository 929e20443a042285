/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that kernels print, and the session that it belongs to
 *
 * The driver keeps the text of all kernels' printf in one buffer of the context. It writes the text to the process's
 * standard output when a thread waits for any stream, even an idle one (a query of an event does not do it; measured).
 * It does not say which kernel printed it. So launches of modules that print go to the GPU from one session at a time
 * (hold.c holds the others). When such a launch has ended, the text is fetched before its completion is returned: a
 * thread of its own (flush.c) waits for a stream on which nothing ever runs.
 *
 * Assertions need no such care: a failed one ends the context, and its text belongs to the suspect. The driver writes
 * it to standard error by itself, before any call reports the error.
 *
 * Both descriptors are redirected to files in memory when a module that needs it is loaded, not before; the daemon's
 * own log goes to the original standard error. Such a file cannot grow. When it is full the driver's writes fail, and
 * the text stops at once in the middle (0.2 us for each further line; measured). The next text starts at the beginning
 * of the file. Unfetched text is bounded per session: the oldest is dropped, and counted.
 *
 * A number printed with a billion decimals takes the C library seconds and gigabytes before it writes the first of
 * them. A session that prints one loses the context, like one that exceeds a deadline; the memory is not bounded here.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "device/cuda/internal.h"
#include "util/error.h"

/* most bytes of one fetch (poll needs 0.7 ms a MiB to read it) and most bytes kept per session; the supervisor keeps
 * as many */
#define OUTPUT_MAX DS_MIB(16)
#define OUTPUT_KEEP DS_MIB(1)            /* bytes of the capture file whose pages are kept between fetches */
#define COLLECT_MAX_NS (6 * DS_NS_PER_S) /* well below the time after which the supervisor takes the worker for hung */

struct cuda_text {
        uint32_t space;
        uint32_t to_stderr;
        size_t size;
        struct cuda_text *prev, *next;
        char bytes[];
};

/* A captured descriptor of the process. */
struct cuda_catch {
        int number; /* file descriptor that is captured: 1 or 2 */
        int file;   /* a file of OUTPUT_MAX bytes; its position is the text's end. -1: not captured */
        int was;    /* duplicate of the original descriptor, for the daemon's own log */
};

struct cuda_output {
        CUstream idle;                     /* a stream on which nothing ever runs */
        struct cuda_flush *flush;          /* flush thread; NULL: no loaded module prints */
        const struct cuda_job *collecting; /* the job for whose text the flush runs; NULL: none */
        uint64_t asked_ns;
        struct cuda_catch out, err;
        uint32_t owner, n_printing; /* space of the launches that print and are on the GPU; number of these launches */
        struct cuda_text *texts, *given;
        uint64_t dropped;
};

int cuda_output_init(ds_device *device)
{
        struct cuda_output *output = ds_alloc0(1, sizeof(*output));
        CUresult result;

        if (!output)
                return ds_error_origin(-ENOMEM);
        output->out = (struct cuda_catch){.number = STDOUT_FILENO, .file = -1, .was = -1};
        output->err = (struct cuda_catch){.number = STDERR_FILENO, .file = -1, .was = -1};
        device->output = output;
        result = CU(device, cuStreamCreateWithPriority)(&output->idle, CU_STREAM_NON_BLOCKING, 0);
        return result ? ds_cuda_failed(device, result, "cuStreamCreateWithPriority") : 0;
}

/* --- capture --- */

/* Makes a file in memory that cannot grow. Returns its descriptor, or a negative errno. */
static int catch_file(void)
{
        int file = memfd_create("kernel-text", MFD_CLOEXEC | MFD_ALLOW_SEALING), r = 0;

        if (file < 0)
                return ds_error_origin(-errno);
        if (ftruncate(file, (off_t)OUTPUT_MAX) < 0 || fcntl(file, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) < 0)
                r = ds_error_origin(-errno);
        if (r)
                ds_close(file);
        return r ? r : file;
}

static int catch_begin(struct cuda_catch *catch)
{
        int file, was;

        if (catch->file >= 0)
                return 0;
        fflush(catch->number == STDOUT_FILENO ? stdout : stderr);
        file = catch_file();
        if (file < 0)
                return ds_error_trace(file);
        was = fcntl(catch->number, F_DUPFD_CLOEXEC, 3);
        if (dup2(file, catch->number) < 0) {
                int r = -errno;

                ds_close(was);
                ds_close(file);
                return ds_error_origin(r);
        }
        catch->file = file;
        catch->was = was;
        return 0;
}

static void catch_end(struct cuda_catch *catch)
{
        if (catch->file < 0)
                return;
        if (catch->was >= 0)
                dup2(catch->was, catch->number);
        catch->was = ds_close(catch->was);
        catch->file = ds_close(catch->file);
}

int cuda_output_catch(ds_device *device, int prints, int asserts)
{
        int r;

        if (prints) {
                r = catch_begin(&device->output->out);
                if (!r && !device->output->flush)
                        r = cuda_flush_new(device, device->output->idle, &device->output->flush);
                if (r)
                        return ds_error_trace(r);
        }
        if (asserts && device->output->err.file < 0) {
                r = catch_begin(&device->output->err);
                if (r)
                        return ds_error_trace(r);
                ds_log_to(device->output->err.was);
        }
        return 0;
}

void cuda_output_free(ds_device *device)
{
        struct cuda_output *output = DS_TAKE_PTR(device->output);
        struct cuda_text *text, *next;

        if (!output)
                return;
        output->flush = cuda_flush_free(output->flush);
        /* no fflush: a thread that was left in the driver may hold stdout's lock */
        if (output->idle && !device->lost)
                CU(device, cuStreamDestroy)(output->idle);
        if (output->err.file >= 0)
                ds_log_to(STDERR_FILENO);
        catch_end(&output->out);
        catch_end(&output->err);
        DL_FOREACH_SAFE(output->texts, text, next)
        {
                ds_free(text);
        }
        ds_free(output->given);
        ds_free(output);
}

/* --- text --- */

/* Makes room for `more` bytes of this space by dropping its oldest text. */
static void texts_trim(struct cuda_output *output, uint32_t space, size_t more)
{
        struct cuda_text *text, *next;
        size_t sum = more;

        DL_FOREACH(output->texts, text)
        {
                sum += text->space == space ? text->size : 0;
        }
        DL_FOREACH_SAFE(output->texts, text, next)
        {
                if (sum <= OUTPUT_MAX)
                        return;
                if (text->space != space)
                        continue;
                sum -= text->size;
                output->dropped += text->size;
                ds_log(DS_LOG_WARNING, "space %u: %zu bytes of its kernels' text were not fetched in time", space,
                        text->size);
                DL_DELETE(output->texts, text);
                ds_free(text);
        }
}

/* Keeps only failed assertions of the text from standard error, since they belong to a session; the rest goes to the
 * log. */
static void text_keep_assertions(const struct cuda_catch *catch, struct cuda_text *text)
{
        const char *found = memmem(text->bytes, text->size, "Assertion `", 11);
        size_t skip = found ? (size_t)(found - text->bytes) : text->size;

        while (found && skip && text->bytes[skip - 1] != '\n')
                skip--;
        if (skip)
                dprintf(catch->was, "%.*s", (int)skip, text->bytes);
        text->size -= skip;
        memmove(text->bytes, text->bytes + skip, text->size);
}

/* Text in the capture file before its position; NULL: out of memory. */
static struct cuda_text *catch_read(const struct cuda_catch *catch, size_t size)
{
        struct cuda_text *text = ds_alloc(sizeof(*text) + size);
        ssize_t n = 1;

        if (!text)
                return NULL;
        *text = (struct cuda_text){};
        while (text->size < size && n > 0) {
                n = pread(catch->file, text->bytes + text->size, size - text->size, (off_t)text->size);
                text->size += n > 0 ? (size_t)n : 0;
        }
        return text;
}

/* Makes the next text start at the beginning of the file. */
static void catch_rewind(const struct cuda_catch *catch, uint64_t used)
{
        if (used >= OUTPUT_MAX)
                ds_log(DS_LOG_WARNING, "kernels printed more text at once than the limit of %llu MiB: the rest is lost",
                        (unsigned long long)(OUTPUT_MAX >> 20));
        if (lseek(catch->file, 0, SEEK_SET) < 0)
                (void)ds_error_origin(-errno);
        if (used > OUTPUT_KEEP && fallocate(catch->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, OUTPUT_KEEP,
                                          (off_t)(OUTPUT_MAX - OUTPUT_KEEP)) < 0)
                (void)ds_error_origin(-errno);
}

/* Moves the file's contents to a text of the space. */
static void catch_take(struct cuda_output *output, struct cuda_catch *catch, uint32_t space, uint32_t to_stderr)
{
        off_t used = catch->file >= 0 ? lseek(catch->file, 0, SEEK_CUR) : 0;
        struct cuda_text *text;

        if (used <= 0)
                return;
        texts_trim(output, space, (size_t)used);
        text = catch_read(catch, (size_t)used);
        catch_rewind(catch, (uint64_t)used);
        if (!text)
                return;
        text->space = space;
        text->to_stderr = to_stderr;
        if (to_stderr)
                text_keep_assertions(catch, text);
        if (text->size)
                DL_APPEND(output->texts, text);
        else
                ds_free(text);
}

int cuda_output_may_launch(ds_device *device, uint32_t space)
{
        struct cuda_output *output = device->output;

        return !output->n_printing || (output->owner == space && !cuda_hold_waits(device, space));
}

void cuda_output_launched(ds_device *device, uint32_t space)
{
        struct cuda_output *output = device->output;

        assert(!output->n_printing || output->owner == space);
        output->owner = space;
        output->n_printing++;
}

/* 1: all text of the job is in the capture file, or no more will come. */
static int collect_ended(ds_device *device, struct cuda_job *job, uint64_t now_ns)
{
        struct cuda_output *output = device->output;
        CUresult result;

        if (device->lost)
                return 1;
        if (!output->collecting) {
                output->collecting = job;
                output->asked_ns = now_ns;
                cuda_flush_ask(output->flush);
        }
        /* the flush was requested before this job had ended, so it may miss text of this job */
        if (output->collecting != job)
                return 0;
        if (cuda_flush_ended(output->flush, &result)) {
                if (result)
                        (void)ds_cuda_failed(device, result, "cuStreamSynchronize");
                return 1;
        }
        if (now_ns - output->asked_ns > COLLECT_MAX_NS)
                cuda_fault_timeout(device, job);
        return device->lost != CUDA_SUCCESS;
}

int cuda_output_collect(ds_device *device, struct cuda_job *job, uint64_t now_ns)
{
        struct cuda_output *output = device->output;

        assert(output->n_printing);
        if (!collect_ended(device, job, now_ns))
                return 0;
        output->collecting = NULL;
        output->n_printing--;
        catch_take(output, &output->out, output->owner, 0);
        return 1;
}

void cuda_output_asserted(ds_device *device, uint32_t space)
{
        fflush(stderr);
        catch_take(device->output, &device->output->err, space, 1);
}

int cuda_output(ds_device *device, struct ds_device_output *ret)
{
        struct cuda_output *output = device->output;
        struct cuda_text *text = output->texts;

        output->given = ds_free(output->given);
        if (!text)
                return 0;
        DL_DELETE(output->texts, text);
        output->given = text;
        *ret = (struct ds_device_output){
                .space = text->space, .to_stderr = text->to_stderr, .text = text->bytes, .size = text->size};
        return 1;
}
