/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels printed comes out of this process
 *
 * The page counts the bytes that the session's kernels have printed. Where CUDA empties its buffer (a launch, the end
 * of a wait or of a blocking copy, loading and unloading of modules, the end of a context) the count is compared with
 * what was read, and what is new is asked for and written: printf's text to the program's stdout, by stdio, so that it
 * takes its place among what the program prints itself; an assertion's words to stderr. Where nothing was printed this
 * costs one look at the page and no request.
 *
 * One thread reads at a time. A launch does not wait for another reader; a wait does, because the text of what it
 * waited for is out when it returns. What comes while reading is left to the next time, so that no thread is kept for
 * ever. Text that does not fit the daemon's bound is lost without a word, as it is in CUDA's buffer.
 *
 * Whoever is told of a kernel's error, by whatever call, finds an assertion's words there already.
 *
 * A session without shared memory has no page: it asks where it waited.
 */
#include <stdio.h>

#include "core/internal.h"

#define READS_MAX 512u          /* requests at a time: more than a full buffer takes */
#define KERNEL_ERRORS_FIRST 700 /* what a kernel did, in CUDA's numbers */
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

/* Reads once: 0 and what is read in all, and how much came just now. */
static int read_once(dsc_session *s, uint64_t *ret_next, size_t *ret_size)
{
        Detshare__OutputRead read = DETSHARE__OUTPUT_READ__INIT;
        read.upto = UINT64_MAX; /* all that has been printed; more is not waited for */
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
        /* what cannot be read now will not be there later either: nobody is to ask for ever */
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
