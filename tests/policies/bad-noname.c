/* SPDX-License-Identifier: Apache-2.0 */
/* Refused: it has no name. */
#define HOSTILE_NAME NULL
#include "tests/policies/hostile.h"
