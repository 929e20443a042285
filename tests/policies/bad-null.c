/* SPDX-License-Identifier: Apache-2.0 */
/* The host must refuse this policy: it has no decide() function. */
#define HOSTILE_NAME "bad-null"
#define HOSTILE_DECIDE NULL
#include "tests/policies/hostile.h"
