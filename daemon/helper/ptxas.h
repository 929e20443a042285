/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selection of the ptxas that compiles PTX for a real GPU
 *
 * The configured path and no other; without one, the first of $CUDA_HOME/bin, /usr/local/cuda/bin and $PATH that this
 * user may execute. Without ptxas, images that contain machine code for the GPU still work.
 */
#pragma once

#include <limits.h>
#include <stdint.h>

struct ds_ptxas {
        char path[PATH_MAX];          /* empty: no ptxas was found */
        char missing[PATH_MAX + 128]; /* message for the client if it was not found */
};

/* Finds ptxas. configured: the configured path; NULL: none. */
void ds_ptxas_find(const char *configured, struct ds_ptxas *ret);
/* Returns a number that changes when the program file is replaced. *ret_lasting: a number that also does so, and is
 * the same after a reboot. */
uint64_t ds_ptxas_identity(const struct ds_ptxas *ptxas, uint64_t *ret_lasting);
