/* SPDX-License-Identifier: Apache-2.0 */
/* The host must refuse this policy: its function table is shorter than this ABI requires. */
#define HOSTILE_NAME "bad-size"
#define HOSTILE_SIZE 16
#include "tests/policies/hostile.h"
