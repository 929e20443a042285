/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated GPU, as an implementation of the device vtable
 */
#pragma once

#include "device/device.h"

extern const struct ds_device_ops ds_sim_ops;
