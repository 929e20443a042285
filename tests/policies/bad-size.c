/* SPDX-License-Identifier: Apache-2.0 */
/* Refused: its function table is shorter than this ABI requires. */
#define HOSTILE_NAME "bad-size"
#define HOSTILE_SIZE 16
#include "tests/policies/hostile.h"
