/* SPDX-License-Identifier: Apache-2.0 */
/* Refused: no name at all. */
#define HOSTILE_NAME NULL
#include "tests/policies/hostile.h"
