/* SPDX-License-Identifier: Apache-2.0 */
/* The host must refuse this policy: it is built for a future ABI. */
#define HOSTILE_NAME "bad-abi"
#define HOSTILE_ABI (DETSHARE_POLICY_ABI + 1)
#include "tests/policies/hostile.h"
