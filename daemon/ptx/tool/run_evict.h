/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-ptx run --evict: compares a kernel's persistent form, evicted and resumed at random, with the native kernel
 *
 * A user checks with arguments of their own whether a transformed kernel still has the same results. The native launch
 * has run, its results are kept, and the form runs from the same memory. Buffers and the module's variables must be
 * equal to the last byte. If they are not, the cause may also be a kernel whose results differ from run to run, with
 * the order of blocks or threads.
 */
#pragma once

#include <stdint.h>

#include "ptx/interp/interp.h"
#include "ptx/ptx.h"
#include "ptx/tool/run_args.h"

/*
 * native: the launch that has run, in `interp`. args: its arguments, with its results kept (ds_run_args_keep) and its
 * initial contents in the buffers; afterwards the buffers have the form's results. Returns an exit code, after printing
 * the reason; on 0 standard error gets a line of statistics.
 */
int ds_run_evict(const ds_ptx_module *module, const char *path, const ds_interp *interp,
        const struct ds_interp_launch *native, const struct ds_run_args *args, uint64_t seed);
