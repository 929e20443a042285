/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel arguments from words, for `detshare-ptx run` and the tests
 *
 * "u32:5" is a number, "bytes:00ff" a struct, "f32[256]=ramp" a pointer to a buffer, "out:f32[256]" a buffer that is
 * printed afterwards. The buffers belong to the ds_run_args and are all the memory that the launch may touch.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "ptx/interp/interp.h"

struct ds_run_args;

/*
 * Parses one word per parameter of the kernel. Returns 0 and the arguments, or -EINVAL or -ENOMEM with a text in
 * message.
 */
int ds_run_args_new(const struct ds_interp_kernel_info *info, int argc, char *const *argv, char *message, size_t size,
        struct ds_run_args **ret);
struct ds_run_args *ds_run_args_free(struct ds_run_args *args);
/* The packed parameters of the launch, info->params_size bytes. */
const void *ds_run_args_params(const struct ds_run_args *args);
/* The buffers as ranges of memory, sorted by address. */
const struct ds_interp_range *ds_run_args_ranges(const struct ds_run_args *args, size_t *ret_n);
/* Prints "arg 2: v v v ..." for every out: buffer, in the order of the words, and writes the files named in words. 0
 * or -EIO */
int ds_run_args_print(const struct ds_run_args *args, FILE *out);

/*
 * For a launch that runs twice. keep: saves the contents of all buffers, 0 or -ENOMEM. swap: exchanges contents and
 * saved contents. differ: 1, with a text, if they are not equal.
 */
int ds_run_args_keep(struct ds_run_args *args);
void ds_run_args_swap(struct ds_run_args *args);
int ds_run_args_differ(const struct ds_run_args *args, char *message, size_t size);

static inline void ds_run_args_freep(struct ds_run_args **p)
{
        *p = ds_run_args_free(*p);
}
