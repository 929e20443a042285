/* SPDX-License-Identifier: Apache-2.0 */
/* The host must refuse this policy: its name differs from the name of its file. */
#define HOSTILE_NAME "multistream"
#include "tests/policies/hostile.h"
