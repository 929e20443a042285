/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-ptx run --evict: a kernel's persistent form, evicted and taken up again at random, against the native one
 *
 * Whether a kernel that a pass has transformed still does what it did is asked here by hand, with arguments of one's
 * own: the native launch has been run, its results are kept, and the form runs from the same memory. Buffers and the
 * module's variables must be equal to the last byte. Where they are not a kernel may also be to blame that leaves
 * something else each time, in another order of blocks or threads.
 */
#pragma once

#include <stdint.h>

#include "ptx/interp/interp.h"
#include "ptx/ptx.h"
#include "ptx/tool/run_args.h"

/*
 * native: the launch that was run, in `interp`; args: its arguments, with what it left kept (ds_run_args_keep) and
 * what it began with in the buffers, which have the form's results afterwards. An exit code, after saying why; on 0
 * standard error has a line about what happened.
 */
int ds_run_evict(const ds_ptx_module *module, const char *path, const ds_interp *interp,
        const struct ds_interp_launch *native, const struct ds_run_args *args, uint64_t seed);
