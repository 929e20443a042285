/* SPDX-License-Identifier: Apache-2.0 */
/* The host must refuse this policy: it announces parameters but has no table of them. */
#define HOSTILE_NAME "bad-params"
#define HOSTILE_N_PARAMS 3
#include "tests/policies/hostile.h"
