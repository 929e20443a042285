/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory that kernels may use: the program's pages are replaced by shared ones
 *
 * Memory that is the program's own cannot be given to another process. With DETSHARE_REGISTER=replace registering puts
 * pinned memory in its place: the whole pages that hold the range are copied, and pages that the daemon has too come to
 * lie at the same addresses. The device sees them at another address, which is what cuMemHostGetDevicePointer says.
 * Unregistering puts private pages back with what is in them.
 *
 * What it costs, and why it must be asked for: a child of fork() shares these pages with its parent instead of having
 * a copy, and what another thread writes to them while they are being replaced is lost.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Asked for by the environment. */
int dcu_replace_wanted(void);
/*
 * Pinned memory for all pages of [p, p + bytes), which take the place of those that were there: its address for the
 * device in *ret, which stands for the first of these pages. 0: it cannot be done, and nothing has changed.
 */
int dcu_replace(void *p, size_t bytes, uint64_t *ret);
/* Back again. pinned: what dcu_replace said; in_daemon = 0 when the session's reset has freed it. */
void dcu_replace_undo(void *p, size_t bytes, uint64_t pinned, int in_daemon);
/* Where a byte of a replaced range lies for the device. */
uint64_t dcu_replace_address(uint64_t base, uint64_t pinned, uint64_t address);
