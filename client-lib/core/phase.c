/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Phase hints: the kind of the work that follows
 *
 * A hint is a request that is waited for. The worker first consumes the ring up to it, and nothing is added to the ring
 * before the worker knows the phase, so that exactly the later work has the new phase. Repeating the current phase
 * costs nothing. A worker that dies forgets the phase; every attachment sends it again, and there a failure is ignored:
 * it is only a hint.
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
        /* without a ring there is no worker yet that needs the phase */
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
