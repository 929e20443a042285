/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/foreign.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/foreign.h"
#include "util/macro.h"

#define LOOK_FIRST_MS 2u /* delay until the loop looks for threads that have finished, at first and at most */
#define LOOK_MAX_MS 500u
#define STACK_BYTES ((size_t)128 << 10)

/* Files that one thread closes. Freed when both the thread and the loop have released it. */
struct ds_foreign_batch {
        TAILQ_ENTRY(ds_foreign_batch) link;
        struct ds_charge charge;
        uint32_t look_ms;
        int without_thread; /* 1: no thread could be started yet; retried later */
        _Atomic int holders;
        size_t n;
        int fds[];
};

static void collect(struct ds_deadline *deadline);

void ds_foreign_init(struct ds_foreign *foreign, struct ds_deadlines *deadlines)
{
        *foreign = (struct ds_foreign){.deadlines = deadlines};
        TAILQ_INIT(&foreign->batches);
}

static void batch_put(struct ds_foreign_batch *batch)
{
        if (atomic_fetch_sub(&batch->holders, 1) == 1)
                ds_free(batch);
}

static void batch_drop(struct ds_foreign *foreign, struct ds_foreign_batch *batch)
{
        TAILQ_REMOVE(&foreign->batches, batch, link);
        ds_charge_release(&batch->charge);
        if (batch->without_thread)
                batch_put(batch);
        batch_put(batch);
}

void ds_foreign_deinit(struct ds_foreign *foreign)
{
        struct ds_foreign_batch *batch;

        while ((batch = TAILQ_FIRST(&foreign->batches)))
                batch_drop(foreign, batch);
        ds_deadline_disarm(foreign->deadlines, &foreign->deadline);
}

static void *closer(void *arg)
{
        struct ds_foreign_batch *batch = arg;

        for (size_t i = 0; i < batch->n; i++)
                ds_close(batch->fds[i]);
        batch_put(batch);
        return NULL;
}

/* Starts the thread, which blocks all signals. Returns 0 or -errno. */
static int start_thread(struct ds_foreign_batch *batch)
{
        pthread_attr_t attributes;
        sigset_t all, before;
        pthread_t thread;
        int r;

        r = pthread_attr_init(&attributes);
        if (r)
                return -r;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_attr_setstacksize(&attributes, STACK_BYTES);
        if (!r)
                r = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        if (!r)
                r = pthread_create(&thread, &attributes, closer, batch);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
        return -r;
}

static void look_in(struct ds_foreign *foreign, uint32_t ms)
{
        ds_deadline_arm(foreign->deadlines, &foreign->deadline, ms, collect);
}

/*
 * Starts a thread that closes the files. The loop's thread never closes them itself, because close() may never return.
 * If no thread can be started, a later attempt follows. Until then the user, to whom the files are charged, is not
 * read.
 */
static void start(struct ds_foreign_batch *batch)
{
        batch->without_thread = start_thread(batch) != 0;
}

/* Frees the batches whose threads have finished. */
static void collect_now(struct ds_foreign *foreign)
{
        struct ds_foreign_batch *batch, *next;
        uint32_t ms = LOOK_MAX_MS;

        for (batch = TAILQ_FIRST(&foreign->batches); batch; batch = next) {
                next = TAILQ_NEXT(batch, link);
                if (batch->without_thread)
                        start(batch);
                if (atomic_load(&batch->holders) == 1) {
                        batch_drop(foreign, batch);
                        continue;
                }
                batch->look_ms = DS_MIN(2 * batch->look_ms, LOOK_MAX_MS);
                ms = DS_MIN(ms, batch->look_ms);
        }
        if (!TAILQ_EMPTY(&foreign->batches))
                look_in(foreign, ms);
}

static void collect(struct ds_deadline *deadline)
{
        collect_now(DS_CONTAINER_OF(deadline, struct ds_foreign, deadline));
}

static void close_slowly(struct ds_foreign *foreign, ds_user *user, const int *fds, size_t n)
{
        struct ds_foreign_batch *batch = ds_alloc0(1, sizeof(*batch) + n * sizeof(fds[0]));

        if (!batch) {
                (void)ds_error_origin(-ENOMEM);
                for (size_t i = 0; i < n; i++)
                        ds_close(fds[i]);
                return;
        }
        batch->n = n;
        batch->look_ms = LOOK_FIRST_MS;
        memcpy(batch->fds, fds, n * sizeof(fds[0]));
        ds_charge_force(&batch->charge, user, DS_CHARGE_FOREIGN, n);
        TAILQ_INSERT_TAIL(&foreign->batches, batch, link);
        atomic_store(&batch->holders, 2);
        start(batch);
        look_in(foreign, LOOK_FIRST_MS);
}

void ds_foreign_close(struct ds_foreign *foreign, ds_user *user, const int *fds, size_t n)
{
        int slow[DS_FOREIGN_MAX];
        size_t n_slow = 0;

        assert(n <= DS_FOREIGN_MAX);
        for (size_t i = 0; i < n; i++) {
                if (fds[i] < 0)
                        continue;
                if (ds_foreign_closes_at_once(fds[i]))
                        ds_close(fds[i]);
                else
                        slow[n_slow++] = fds[i];
        }
        if (n_slow)
                close_slowly(foreign, user, slow, n_slow);
}

int ds_foreign_too_many(struct ds_foreign *foreign, const ds_user *user)
{
        if (ds_user_usage(user, DS_CHARGE_FOREIGN) >= ds_user_limit(user, DS_CHARGE_FOREIGN))
                collect_now(foreign);
        return ds_user_usage(user, DS_CHARGE_FOREIGN) >= ds_user_limit(user, DS_CHARGE_FOREIGN);
}
