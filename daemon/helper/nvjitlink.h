/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's linker library, nvJitLink: links machine code, host objects, libraries and LTO code
 *
 * The library belongs to the CUDA toolkit and needs neither driver nor GPU. It is loaded in a child process of the
 * helper (link.h) and never in the helper itself. Without it, only inputs that contain PTX can be linked.
 */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "helper/check.h"
#include "helper/ptxas.h"
#include "proto/wire.h"

struct ds_nvjitlink {
        char path[PATH_MAX];          /* empty: the library was not found */
        char missing[PATH_MAX + 256]; /* message for the client if it was not found */
};

struct ds_nvjitlink_input {
        const char *name;
        const void *bytes;
        size_t size;
        enum ds_link_kind kind;
};

struct ds_nvjitlink_options {
        uint32_t cc;
        int arch_specific;                           /* 1: for sm_90a instead of sm_90 */
        int lto;                                     /* 1: some inputs are LTO code */
        int ptx;                                     /* 1: the result is PTX; all inputs must be LTO code */
        uint32_t flags, max_registers, optimization; /* as in struct ds_link_file */
};

/* Finds the newest library in the toolkit of ptxas, $CUDA_HOME and /usr/local/cuda. */
void ds_nvjitlink_find(const struct ds_ptxas *ptxas, struct ds_nvjitlink *ret);
/* Returns a number that changes when the library's file is replaced, and is the same after a reboot; 0: no library. */
uint64_t ds_nvjitlink_identity(const struct ds_nvjitlink *library);
/*
 * Loads the library and links the inputs. To be called in a child process, with standard output and error in a file
 * that the child can read (words_fd): the library prints some of its errors there. Returns the result
 * (ds_free) and *ret_size; NULL: *result holds the error. result->message: the library's log, also on success.
 */
void *ds_nvjitlink_run(const struct ds_nvjitlink *library, const struct ds_nvjitlink_options *options,
        const struct ds_nvjitlink_input *inputs, size_t n, int words_fd, struct ds_check_result *result,
        size_t *ret_size);
