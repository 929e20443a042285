/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linking: cuLink* for one image
 *
 * A program that compiles at run time passes its code to a linker and loads the result. One PTX text, cubin or fatbin
 * is compiled when it is added, so that errors and log appear there; the result is the input. Several images cannot be
 * joined: CUDA_ERROR_NOT_SUPPORTED, with a message in the log.
 */
#pragma once

#include "cuda/context.h"

struct dcu_link;

/* With dcu.lock held. */
void dcu_link_free(struct dcu_link *link);
