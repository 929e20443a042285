/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linking: cuLink*
 *
 * A program that compiles at run time passes its code to a linker and loads the result. Errors of one input, and the
 * messages about it, appear when it is added; errors between inputs when the link completes.
 */
#pragma once

#include "cuda/context.h"

struct dcu_link;

/* With dcu.lock held. */
void dcu_link_free(struct dcu_link *link);
