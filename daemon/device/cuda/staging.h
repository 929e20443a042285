/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies from host to host that do not wait (staging.c)
 */
#pragma once

#include "device/cuda/internal.h"

/* One copy, contiguous or in rows; not from host to host. */
CUresult cuda_copy_call(ds_device *device, CUstream stream, const struct ds_copy *copy);

/* It may fill the queue in hardware by itself: not behind anything that takes its time, or the driver makes us wait. */
int cuda_staging_is_long(const struct ds_copy *copy);

/* Queue a copy between registered host memory. *ret_entries: how much of the queue in hardware it took. */
CUresult cuda_staging_copy(
        ds_device *device, struct cuda_stream *stream, const struct ds_copy *copy, uint32_t *ret_entries);
