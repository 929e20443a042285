/* SPDX-License-Identifier: Apache-2.0 */
/* Refused: no decide. */
#define HOSTILE_NAME "bad-null"
#define HOSTILE_DECIDE NULL
#include "tests/policies/hostile.h"
