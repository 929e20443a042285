/* SPDX-License-Identifier: Apache-2.0 */
/* The host must refuse this policy: it has no name. */
#define HOSTILE_NAME NULL
#include "tests/policies/hostile.h"
