/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/desk.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/macro.h"

struct sv_desk_thread {
        struct sv_desk *desk;
        struct sv_instance *instance;
        pthread_t thread;
        struct sv_samples samples;
};

/* --- the threads -------------------------------------------------------------------------------------------------- */

static void tell(struct sv_desk *desk)
{
        const uint64_t one = 1;

        (void)!write(desk->event, &one, sizeof(one));
}

static void fail(struct sv_desk *desk, const struct sv_why *why)
{
        (void)pthread_mutex_lock(&desk->lock);
        if (!desk->failed)
                desk->why = *why;
        desk->failed = true;
        (void)pthread_cond_broadcast(&desk->work);
        (void)pthread_mutex_unlock(&desk->lock);
        tell(desk);
}

/* Runs one request; input and output are in the connection's buffer. */
static int run_one(struct sv_desk_thread *thread, struct sv_connection *connection, struct sv_why *why)
{
        struct sv_desk *desk = thread->desk;
        struct sv_sample sample;
        int r;

        if (desk->in)
                memcpy(thread->instance->input, connection->buffer, desk->in);
        sample.begin = sv_now(desk->clock);
        sample.arrival = desk->clock->simulated ? sample.begin : connection->arrival;
        r = sv_instance_run(thread->instance, why);
        sample.end = sv_now(desk->clock);
        sv_clock_leave(desk->clock);
        if (!r && sv_samples_add(&thread->samples, &sample))
                r = sv_fail(why, "out of memory");
        if (!r)
                memcpy(connection->buffer, thread->instance->output, desk->out);
        return r;
}

/* Time of the user's last request that an instance took; 0: none, or older than all remembered users. Under the
 * lock. */
static uint64_t last_turn(const struct sv_desk *desk, uid_t uid)
{
        for (unsigned i = 0; i < SV_DESK_USERS; i++)
                if (desk->users[i].uid == uid)
                        return desk->users[i].turn;
        return 0;
}

/* Notes that an instance took a request of the user; a new user replaces the one served the longest ago. Under the
 * lock. */
static void take_turn(struct sv_desk *desk, uid_t uid)
{
        struct sv_desk_user *user = &desk->users[0];

        for (unsigned i = 0; i < SV_DESK_USERS; i++) {
                if (desk->users[i].turn < user->turn)
                        user = &desk->users[i];
                if (desk->users[i].uid == uid) {
                        user = &desk->users[i];
                        break;
                }
        }
        *user = (struct sv_desk_user){.uid = uid, .turn = ++desk->turn};
}

/* The first request of the user served the longest ago; at least one request must wait. Under the lock. */
static struct sv_connection *choose(const struct sv_desk *desk)
{
        struct sv_connection *connection, *best = NULL;
        uint64_t turn, least = 0;

        TAILQ_FOREACH(connection, &desk->waiting, link)
        {
                if (best && connection->uid == best->uid)
                        continue;
                turn = last_turn(desk, connection->uid);
                if (best && turn >= least)
                        continue;
                best = connection;
                least = turn;
        }
        return best;
}

/* Removes the connection from the waiting ones. Under the lock. */
static void take_out(struct sv_desk *desk, struct sv_connection *connection)
{
        TAILQ_REMOVE(&desk->waiting, connection, link);
        connection->queued = false;
        desk->n_waiting--;
}

/* NULL: the thread must end. */
static struct sv_connection *next_request(struct sv_desk *desk)
{
        struct sv_connection *connection = NULL;

        (void)pthread_mutex_lock(&desk->lock);
        while (TAILQ_EMPTY(&desk->waiting) && !desk->ends && !desk->failed)
                (void)pthread_cond_wait(&desk->work, &desk->lock);
        if (!desk->ends && !desk->failed) {
                connection = choose(desk);
                take_out(desk, connection);
                take_turn(desk, connection->uid);
                desk->n_busy++;
        }
        (void)pthread_mutex_unlock(&desk->lock);
        return connection;
}

static void put_back(struct sv_desk *desk, struct sv_connection *connection)
{
        (void)pthread_mutex_lock(&desk->lock);
        TAILQ_INSERT_TAIL(&desk->done, connection, link);
        desk->n_busy--;
        (void)pthread_mutex_unlock(&desk->lock);
        tell(desk);
}

static void *work(void *user)
{
        struct sv_desk_thread *thread = user;
        struct sv_desk *desk = thread->desk;
        struct sv_connection *connection;
        struct sv_why why = {""};

        if (sv_driver_enter(thread->instance->model->driver, &why))
                fail(desk, &why);
        while ((connection = next_request(desk))) {
                /* before the request is handed back, so that its receiver sees the failure too */
                if (run_one(thread, connection, &why))
                        fail(desk, &why);
                put_back(desk, connection);
        }
        return NULL;
}

/* --- opening and closing ------------------------------------------------------------------------------------------ */

int sv_desk_open(struct sv_desk *desk, const struct sv_clock *clock, const struct sv_subject *subject,
        struct sv_instance *instances, unsigned n, struct sv_why *why)
{
        *desk = (struct sv_desk){
                .clock = clock,
                .in = subject->in,
                .out = subject->out,
                .event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                .threads = ds_alloc0(n, sizeof(*desk->threads)),
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .work = PTHREAD_COND_INITIALIZER,
        };
        TAILQ_INIT(&desk->waiting);
        TAILQ_INIT(&desk->done);
        if (desk->event < 0)
                return sv_fail(why, "cannot make a file descriptor: %s", strerror(errno));
        if (!desk->threads)
                return sv_fail(why, "out of memory");
        for (; desk->n < n; desk->n++) {
                struct sv_desk_thread *thread = &desk->threads[desk->n];

                thread->desk = desk;
                thread->instance = &instances[desk->n];
                if (pthread_create(&thread->thread, NULL, work, thread))
                        return sv_fail(why, "cannot make a thread");
        }
        return 0;
}

int sv_desk_close(struct sv_desk *desk, struct sv_samples *samples, struct sv_why *why)
{
        int r = 0;

        (void)pthread_mutex_lock(&desk->lock);
        desk->ends = true;
        (void)pthread_cond_broadcast(&desk->work);
        (void)pthread_mutex_unlock(&desk->lock);
        for (unsigned i = 0; i < desk->n; i++) {
                (void)pthread_join(desk->threads[i].thread, NULL);
                if (sv_samples_join(samples, &desk->threads[i].samples))
                        r = sv_fail(why, "out of memory");
                sv_samples_clear(&desk->threads[i].samples);
        }
        desk->threads = ds_free(desk->threads);
        desk->event = ds_close(desk->event);
        return desk->failed ? sv_fail(why, "%s", desk->why.text) : r;
}

/* --- the loop's side ---------------------------------------------------------------------------------------------- */

void sv_desk_give(struct sv_desk *desk, struct sv_connection *connection)
{
        connection->arrival = desk->clock->simulated ? 0 : sv_now(desk->clock);
        (void)pthread_mutex_lock(&desk->lock);
        TAILQ_INSERT_TAIL(&desk->waiting, connection, link);
        connection->queued = true;
        desk->n_waiting++;
        (void)pthread_cond_signal(&desk->work);
        (void)pthread_mutex_unlock(&desk->lock);
}

bool sv_desk_take_out(struct sv_desk *desk, struct sv_connection *connection)
{
        bool taken;

        (void)pthread_mutex_lock(&desk->lock);
        taken = connection->queued;
        if (taken)
                take_out(desk, connection);
        (void)pthread_mutex_unlock(&desk->lock);
        return taken;
}

struct sv_connection *sv_desk_take_late(struct sv_desk *desk, uint64_t until_ms, uint64_t *ret_since_ms)
{
        struct sv_connection *first;

        (void)pthread_mutex_lock(&desk->lock);
        first = TAILQ_FIRST(&desk->waiting);
        *ret_since_ms = first ? first->since_ms : UINT64_MAX;
        if (first && first->since_ms <= until_ms)
                take_out(desk, first);
        else
                first = NULL;
        (void)pthread_mutex_unlock(&desk->lock);
        return first;
}

struct sv_connection *sv_desk_take_rest(struct sv_desk *desk)
{
        struct sv_connection *last = NULL;

        (void)pthread_mutex_lock(&desk->lock);
        if (desk->n_waiting && (desk->failed || desk->n_waiting > desk->n - desk->n_busy)) {
                last = TAILQ_LAST(&desk->waiting, sv_connections);
                take_out(desk, last);
        }
        (void)pthread_mutex_unlock(&desk->lock);
        return last;
}

bool sv_desk_take_back(struct sv_desk *desk, struct sv_connections *ret, struct sv_why *ret_why)
{
        uint64_t count;
        bool failed;

        (void)!read(desk->event, &count, sizeof(count));
        TAILQ_INIT(ret);
        (void)pthread_mutex_lock(&desk->lock);
        TAILQ_CONCAT(ret, &desk->done, link);
        failed = desk->failed;
        if (failed)
                *ret_why = desk->why;
        (void)pthread_mutex_unlock(&desk->lock);
        return failed;
}
