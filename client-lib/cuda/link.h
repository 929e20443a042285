/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linking: cuLink* as far as one image goes
 *
 * A program that compiles at run time hands its code to a linker and loads what comes out. One PTX text, cubin or
 * fatbin is compiled where it is added, so that its errors and log are told there, and what comes out is what went in.
 * Several images are not joined: that is CUDA_ERROR_NOT_SUPPORTED with words in the log.
 */
#pragma once

#include "cuda/context.h"

struct dcu_link;

/* dcu.lock must be held. */
void dcu_link_free(struct dcu_link *link);
