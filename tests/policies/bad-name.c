/* SPDX-License-Identifier: Apache-2.0 */
/* Refused: its name differs from the file's. */
#define HOSTILE_NAME "multistream"
#include "tests/policies/hostile.h"
