/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freed allocations that the client keeps for its next ones
 *
 * A freed allocation of 2 MiB or more stays with this process, which offers it to the daemon: the daemon frees it when
 * any session needs memory, and counts it as free in cuMemGetInfo(). It stays charged to this session until then. The
 * next allocation of that size makes no request. The memory is not cleared, because it goes to no other session.
 *
 * Bounds: 7 allocations, and AttachReply.spare_bytes in all. The oldest ones go back first. An allocation is reused for
 * fewer bytes only if at most an eighth of it is left over. Memory that other processes may have mapped is not kept.
 */
#pragma once

#include <stdint.h>

int dcu_kept_wants(uint64_t bytes); /* 1: dcu_kept_put() may keep an allocation of this size */
/* Keeps the daemon's allocation at this address, which no submitted work uses. 0: the caller must free it. */
int dcu_kept_put(uint64_t address);
/* 1: *ret is the address of a kept allocation for this many bytes, which now belongs to the caller. */
int dcu_kept_take(uint64_t bytes, uint64_t *ret);
void dcu_kept_reset(void); /* call after a reset of the session */
