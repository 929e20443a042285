/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of the context
 *
 * The device's context is everybody's, so the daemon sets the largest value that anybody asked for. Here they begin as
 * the daemon reported them at connect; what the session asked for is the face's to remember.
 */
#include "core/internal.h"

uint64_t dsc_limit(dsc_session *s, uint32_t limit)
{
        return limit < s->device.n_limits ? s->device.limits[limit] : 0;
}

int dsc_limit_set(dsc_session *s, uint32_t limit, uint64_t value)
{
        Detshare__SetLimit set = DETSHARE__SET_LIMIT__INIT;
        set.limit = limit;
        set.value = value;
        Detshare__Request request = DSC__REQUEST(SET_LIMIT, set_limit, &set);
        int r = dsc__usable(s);
        return r ? r : dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}
