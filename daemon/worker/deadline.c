/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that do not end
 *
 * A GPU runs a kernel to its end. Three conditions make the worker stop a kernel, all measured in real time:
 *  - its session is closing, so nobody needs the result (orphan_ns);
 *  - the administrator has set a bound for every kernel (kernel_ns);
 *  - a quiesce is pending: one client must not prevent all others from loading code (quiesce_ns).
 *
 * First the worker asks the device to abort the work, which the simulated device can do. If the work is still in flight
 * DEADLINE_ABORT_NS later, the worker gives up the context: it ends as after a fault, and the next worker serves all
 * other sessions.
 *
 * The check runs ten times a second, and only while one of the conditions can apply; run times are known to that
 * precision. Work queued behind another session's kernel in the same stream makes no progress either. Of several such
 * sessions, the one that has made no progress for longest is blamed.
 */
#include <stdio.h>

#include "worker/internal.h"

#define DEADLINE_LOOK_NS (100 * DS_NS_PER_MS)
#define DEADLINE_ABORT_NS DS_NS_PER_S /* real time after which work that was aborted must have ended */

/* Whether one of the three conditions above can apply now. */
static int deadline_wanted(const ds_worker *worker)
{
        if (!worker->live_ops || worker->lost.status || worker->ending)
                return 0;
        return worker->n_closing || worker->kernel_ns || worker->quiesce.state != DSW_QUIESCE_OPEN;
}

uint64_t dsw_deadline_wait_ns(const ds_worker *worker)
{
        return deadline_wanted(worker) ? DEADLINE_LOOK_NS : UINT64_MAX;
}

/*
 * How long nothing of a stream has ended although the device has some of its work. Counted per stream: other operations
 * of the session that end (even marks, which need no device) must not make its endless kernel look younger than the
 * work behind it. Time during which a client holds the virtual clock does not count, because nothing can end then.
 */
static uint64_t deadline_stream_stuck(struct dsw_stream *stream, uint64_t wall, uint64_t held)
{
        int busy = stream->coroutine && ds_coroutine_in_flight(stream->coroutine) > 0;

        if (!busy || stream->done != stream->stuck_done || !stream->stuck_wall_ns) {
                stream->stuck_done = stream->done;
                stream->stuck_wall_ns = busy ? wall : 0;
        }
        return busy ? wall - DS_MAX(stream->stuck_wall_ns, held) : 0;
}

/* Longest time for which one of the session's streams has made no progress, ns of real time; 0: all make progress. */
static uint64_t deadline_stuck(struct dsw_session *session, uint64_t wall)
{
        uint64_t most = 0, stuck;

        if (!session->sched)
                return 0;
        for (uint32_t i = 0; i < session->n_streams; i++) {
                stuck = session->streams[i]
                                ? deadline_stream_stuck(session->streams[i], wall, session->worker->clock_held_wall_ns)
                                : 0;
                most = DS_MAX(most, stuck);
        }
        /* the work that the worker wanted to abort has ended: what runs now began later */
        if (!most || wall - most > session->aborted_wall_ns)
                session->aborted_wall_ns = 0;
        return most;
}

/* Remaining time bound of the session's work, ns; UINT64_MAX = none. A closing session's time counts from the close. */
static uint64_t deadline_limit(const struct dsw_session *session, uint64_t wall, const char **ret_why)
{
        const ds_worker *worker = session->worker;
        uint64_t limit = UINT64_MAX;

        *ret_why = "";
        if (worker->quiesce.state != DSW_QUIESCE_OPEN && wall - worker->quiesce.held_wall_ns >= worker->quiesce_ns) {
                limit = worker->quiesce_ns;
                *ret_why = "while others wait for the device to be idle";
        }
        if (worker->kernel_ns && worker->kernel_ns < limit) {
                limit = worker->kernel_ns;
                *ret_why = "which is more than a kernel may take";
        }
        return limit;
}

static void deadline_abort(struct dsw_session *session, uint64_t wall, const char *text)
{
        session->aborted_wall_ns = DS_MAX(wall, (uint64_t)1);
        dsw_session_fail(session, DS_CUDA_LAUNCH_TIMEOUT, text);
}

static void deadline_judge(struct dsw_session *session, uint64_t stuck, uint64_t wall)
{
        char text[DS_DEVICE_MESSAGE_MAX];
        uint64_t limit, closed;
        const char *why;

        if (session->state == DSW_SESSION_CLOSING) {
                closed = wall - DS_MAX(session->close_wall_ns, session->worker->clock_held_wall_ns);
                /* a bound that already applied while the client was connected still applies after it has left */
                if (closed < session->worker->orphan_ns &&
                        (closed < DEADLINE_ABORT_NS || stuck < deadline_limit(session, wall, &why)))
                        return;
                snprintf(text, sizeof(text), "a kernel of a client that is gone has not ended for %llu s",
                        (unsigned long long)(DS_MAX(closed, stuck) / DS_NS_PER_S));
                dsw_lost_give_up(session, DS_CUDA_LAUNCH_TIMEOUT, text);
                return;
        }
        limit = deadline_limit(session, wall, &why);
        if (stuck < limit)
                return;
        snprintf(text, sizeof(text), "nothing of the session has ended for %llu s, %s",
                (unsigned long long)(stuck / DS_NS_PER_S), why);
        if (!session->aborted_wall_ns)
                deadline_abort(session, wall, text);
        else if (wall - session->aborted_wall_ns >= DEADLINE_ABORT_NS)
                dsw_lost_give_up(session, DS_CUDA_LAUNCH_TIMEOUT, text);
}

void dsw_deadline_step(ds_worker *worker)
{
        struct dsw_session *session, *worst = NULL;
        uint64_t wall, stuck, most = 0;

        if (!deadline_wanted(worker))
                return;
        wall = worker->wall_ns();
        if (wall - worker->deadline_wall_ns < DEADLINE_LOOK_NS)
                return;
        worker->deadline_wall_ns = wall;
        /* nothing can end while a client holds the virtual clock */
        if (dsw_clock_held(worker))
                return;
        for (session = worker->sessions; session; session = session->hh.next) {
                stuck = deadline_stuck(session, wall);
                if (stuck > most) {
                        most = stuck;
                        worst = session;
                }
        }
        if (worst)
                deadline_judge(worst, most, wall);
}
