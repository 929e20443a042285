/* SPDX-License-Identifier: Apache-2.0 */
/* Refused: parameters promised and not there. */
#define HOSTILE_NAME "bad-params"
#define HOSTILE_N_PARAMS 3
#include "tests/policies/hostile.h"
