/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ptxas compiles PTX for a GPU of silicon
 *
 * The one that the configuration names and no other; else the first of $CUDA_HOME/bin, /usr/local/cuda/bin and $PATH
 * that this user may execute. Without one, images that hold machine code for the GPU still work.
 */
#pragma once

#include <limits.h>
#include <stdint.h>

struct ds_ptxas {
        char path[PATH_MAX];          /* empty: there is none */
        char missing[PATH_MAX + 128]; /* then the sentence that says so */
};

/* configured may be NULL. */
void ds_ptxas_find(const char *configured, struct ds_ptxas *ret);
/* Changes when another program lies there. lasting: also the same after the machine was started again. */
uint64_t ds_ptxas_identity(const struct ds_ptxas *ptxas, uint64_t *ret_lasting);
