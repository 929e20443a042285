/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of the context
 *
 * All sessions share the device's context, so the daemon sets the largest value that any session requested. Limits
 * begin with the values that the daemon reported at connect; libcuda remembers what its program requested.
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
