/* SPDX-License-Identifier: Apache-2.0 */
/* Refused: it calls itself by another name. */
#define HOSTILE_NAME "multistream"
#include "tests/policies/hostile.h"
