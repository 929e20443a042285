/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registered memory for kernels: the program's pages are replaced by shared ones
 *
 * A process cannot share memory that it already has. With DETSHARE_REGISTER=replace, registering puts pinned memory in
 * its place: the whole pages of the range are copied, and shared pages are mapped at the same addresses. The device
 * sees them at another address, which cuMemHostGetDevicePointer returns. Unregistering puts private pages with the
 * current content back.
 *
 * The price, and why it is optional: a child of fork() shares these pages with its parent instead of getting a copy,
 * and writes of other threads during the replacement are lost.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* 1: DETSHARE_REGISTER=replace. */
int dcu_replace_wanted(void);
/*
 * Replaces all pages of [p, p + bytes) by pinned memory. *ret: the device's address of the first of these pages. 0:
 * impossible, nothing has changed.
 */
int dcu_replace(void *p, size_t bytes, uint64_t *ret);
/* Restores private pages. pinned: the result of dcu_replace(); in_daemon = 0 if the session's reset has freed the
 * memory. */
void dcu_replace_undo(void *p, size_t bytes, uint64_t pinned, int in_daemon);
/* The device's address of a byte in a replaced range. */
uint64_t dcu_replace_address(uint64_t base, uint64_t pinned, uint64_t address);
