/* SPDX-License-Identifier: Apache-2.0 */
/* The host must refuse this policy: it requests 4 GiB of state. */
#define HOSTILE_NAME "bad-state"
#define HOSTILE_STATE UINT32_MAX
#include "tests/policies/hostile.h"
