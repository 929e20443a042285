/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cuda/context.h"

struct dcu_link;

/* dcu.lock must be held. */
void dcu_link_free(struct dcu_link *link);
