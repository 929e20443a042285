/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies from host to host that do not block (staging.c)
 */
#pragma once

#include "device/cuda/internal.h"

/* Calls the driver for one copy, contiguous or in rows, that is not from host to host. */
CUresult cuda_copy_call(ds_device *device, CUstream stream, const struct ds_copy *copy);

/* 1: the copy may fill the stream's hardware queue alone. Behind slow work the driver would then block the caller. */
int cuda_staging_is_long(const struct ds_copy *copy);

/* Queues a copy between registered host memory. *ret_entries: entries of the hardware queue that it took. */
CUresult cuda_staging_copy(
        ds_device *device, struct cuda_stream *stream, const struct ds_copy *copy, uint32_t *ret_entries);
