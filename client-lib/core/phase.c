/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Phases: what the work that follows is about
 *
 * A request, and one that is waited for: the ring is consumed up to it first and nothing is put into the ring behind it
 * before the worker knows, so that exactly what is submitted afterwards is of the new phase. Saying what holds already
 * costs nothing. A worker forgets when it dies; every attachment says it again, and there it may fail: it is a hint.
 */
#include "core/internal.h"

static int tell(dsc_session *s)
{
        Detshare__HintPhase hint = DETSHARE__HINT_PHASE__INIT;
        hint.phase = s->phase;
        Detshare__Request request = DSC__REQUEST(HINT_PHASE, hint_phase, &hint);
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

void dsc__phase_tell_locked(dsc_session *s)
{
        if (s->phase)
                (void)tell(s);
}

static int set_locked(dsc_session *s, uint32_t phase)
{
        const uint32_t was = s->phase;
        if (phase == was)
                return 0;
        s->phase = phase;
        /* before the first operation there is nobody to tell */
        int r = s->socket_only || dsc__attached(s) ? tell(s) : 0;
        if (r)
                s->phase = was;
        return r;
}

int dsc__phase_set(dsc_session *s, uint32_t phase)
{
        int r = dsc__usable(s);
        if (r)
                return r;
        pthread_mutex_lock(&s->submit.lock);
        r = set_locked(s, phase);
        pthread_mutex_unlock(&s->submit.lock);
        return r;
}
