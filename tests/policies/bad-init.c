/* SPDX-License-Identifier: Apache-2.0 */
/* The host must refuse this policy: its init() returns an error. */
#define HOSTILE_NAME "bad-init"
#define HOSTILE_INIT_RESULT (-95)
#include "tests/policies/hostile.h"
