/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real NVIDIA GPU behind the device vtable
 */
#pragma once

#include "device/device.h"

extern const struct ds_device_ops ds_cuda_ops;
