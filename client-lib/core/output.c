/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that kernels print
 *
 * The page counts the bytes that the session's kernels have printed. Where CUDA empties its buffer (a launch, the end
 * of a wait or of a blocking copy, loading and unloading of modules, the end of a context) the library compares that
 * count with what it has read, reads the new text and writes it out. The text of printf goes to the program's stdout
 * through stdio, in order with the program's own output; the text of assertions goes to stderr. Without new text this
 * costs one load and no request.
 *
 * One thread reads at a time. A launch does not wait for another reader. A wait does, because the text of the awaited
 * work must be out when it returns. Text that arrives while a thread reads is left for the next reader, so no thread
 * reads for ever. Text beyond the daemon's bound is dropped silently, as in CUDA's buffer.
 *
 * When any call returns a kernel's error, the assertion's text is out already.
 *
 * A session without shared memory has no page; it makes a request after each wait.
 */
#include <stdio.h>

#include "core/internal.h"

#define READS_MAX 512u          /* most requests for text in one call; more than a full buffer needs */
#define KERNEL_ERRORS_FIRST 700 /* range of CUDA's error numbers for faults of kernels */
#define KERNEL_ERRORS_LAST 799

void dsc__output_init(struct dsc__output *output)
{
        pthread_mutex_init(&output->lock, NULL);
}

static void emit(const Detshare__OutputReply *reply)
{
        FILE *to = reply->to_stderr ? stderr : stdout;
        if (reply->text.len == 0)
                return;
        fwrite(reply->text.data, 1, reply->text.len, to);
        fflush(to);
}

/* Requests new text. Returns 0 or an error; *ret_next: number of bytes read so far; *ret_size: number of new bytes. */
static int read_once(dsc_session *s, uint64_t *ret_next, size_t *ret_size)
{
        Detshare__OutputRead read = DETSHARE__OUTPUT_READ__INIT;
        read.upto = UINT64_MAX; /* all text that kernels have printed by now, without waiting for more */
        Detshare__Request request = DSC__REQUEST(OUTPUT_READ, output_read, &read);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_OUTPUT_READ, &answer);
        if (r)
                return r;
        emit(answer.reply->output_read);
        *ret_next = answer.reply->output_read->next;
        *ret_size = answer.reply->output_read->text.len;
        dsc__answer_clear(&answer);
        return 0;
}

static void read_locked(dsc_session *s)
{
        const uint64_t goal = s->socket_only ? UINT64_MAX : atomic_load(&s->page->output);
        uint64_t next = atomic_load(&s->output.read);
        size_t size = 1;
        int r = 0;
        for (unsigned i = 0; !r && i < READS_MAX && next < goal && size > 0; i++)
                r = read_once(s, &next, &size);
        /* if the text cannot be read now, it is dropped, so that the library does not retry for ever */
        if (!s->socket_only && next < goal && (r || size == 0))
                next = goal;
        atomic_store(&s->output.read, next);
}

void dsc__output_new(dsc_session *s, bool wait)
{
        if (dsc__usable(s))
                return;
        if (wait)
                pthread_mutex_lock(&s->output.lock);
        else if (pthread_mutex_trylock(&s->output.lock))
                return;
        if (s->socket_only || dsc__output_waits(s))
                read_locked(s);
        pthread_mutex_unlock(&s->output.lock);
}

void dsc_output(dsc_session *s)
{
        if (s->socket_only || dsc__output_waits(s))
                dsc__output_new(s, true);
}

int dsc__told(dsc_session *s, int error)
{
        if (error >= KERNEL_ERRORS_FIRST && error <= KERNEL_ERRORS_LAST) {
                dsc_output(s);
                dsc__fault(s, error);
        }
        return error;
}
