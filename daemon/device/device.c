/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device implementation a specification names
 *
 * The table is the only place that knows how many implementations there are.
 */
#include "device/device.h"

#include <string.h>

#include "device/cuda/cuda.h"
#include "device/sim/sim.h"
#include "util/macro.h"

const struct ds_device_ops *ds_device_find(const char *spec, const char **ret_rest)
{
        const struct ds_device_ops *known[] = {&ds_sim_ops, &ds_cuda_ops};
        const char *colon = strchr(spec, ':');

        if (!colon)
                return NULL;
        for (size_t i = 0; i < DS_ARRAY_SIZE(known); i++) {
                if (strlen(known[i]->name) != (size_t)(colon - spec) ||
                        strncmp(known[i]->name, spec, (size_t)(colon - spec)))
                        continue;
                *ret_rest = colon + 1;
                return known[i];
        }
        return NULL;
}
