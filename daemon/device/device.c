/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the device implementation that a specification names
 *
 * Only the table here knows the implementations.
 */
#include "device/device.h"

#include <errno.h>
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

static uint8_t group_of_tpc(const struct ds_device_info *info, uint32_t tpc)
{
        for (uint32_t i = 0; i < info->n_groups; i++)
                if (info->group[i].word[tpc / 64] >> tpc % 64 & 1)
                        return (uint8_t)i;
        return UINT8_MAX;
}

static void byte_write(char *at, uint32_t byte)
{
        static const char digits[] = "0123456789abcdef";

        at[0] = digits[byte >> 4 & 15];
        at[1] = digits[byte & 15];
        at[2] = '\0';
}

void ds_device_topology_write(const struct ds_device_info *info, char ret[DS_DEVICE_TOPOLOGY_MAX])
{
        for (uint32_t i = 0; i < info->n_tpcs; i++)
                byte_write(ret + 2 * (size_t)i, info->n_gpcs ? info->gpc_of_tpc[i] : DS_DEVICE_GPC_NONE);
        for (uint32_t i = 0; i < info->n_tpcs; i++)
                byte_write(ret + 2 * (size_t)(info->n_tpcs + i), group_of_tpc(info, i));
        byte_write(ret + 4 * (size_t)info->n_tpcs, info->group_clusters);
}

static int digit_value(char c)
{
        return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int ds_device_topology_read(struct ds_device_info *info, const char *text)
{
        uint8_t bytes[2 * DS_DEVICE_TPCS_MAX + 1];
        uint32_t n = info->n_tpcs;

        if (n > DS_DEVICE_TPCS_MAX || strlen(text) != 2 * (2 * (size_t)n + 1))
                return -EINVAL;
        for (size_t i = 0; i < 2 * (size_t)n + 1; i++) {
                int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);

                if (high < 0 || low < 0)
                        return -EINVAL;
                bytes[i] = (uint8_t)(high << 4 | low);
        }
        for (uint32_t i = 0; i < n; i++) {
                info->gpc_of_tpc[i] = bytes[i];
                if (bytes[i] != DS_DEVICE_GPC_NONE && bytes[i] >= info->n_gpcs)
                        info->n_gpcs = bytes[i] + 1u;
                if (bytes[n + i] < info->n_groups)
                        info->group[bytes[n + i]].word[i / 64] |= UINT64_C(1) << i % 64;
        }
        info->group_clusters = bytes[2 * n] < DS_DEVICE_CLUSTER_MAX ? bytes[2 * n] : DS_DEVICE_CLUSTER_MAX;
        return 0;
}
