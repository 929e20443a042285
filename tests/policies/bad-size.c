/* SPDX-License-Identifier: Apache-2.0 */
/* Refused: its table is shorter than what this ABI needs. */
#define HOSTILE_NAME "bad-size"
#define HOSTILE_SIZE 16
#include "tests/policies/hostile.h"
