/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address windows: which session owns which addresses
 *
 * Every session gets a power-of-two range of addresses, aligned to its size, disjoint from all others, so that real
 * device addresses can be handed to clients and a memory file can lie at the same place in every process. A buddy
 * allocator over one area keeps that true: windows never overlap, freed neighbours melt together again, and with no
 * window out the whole area is free.
 *
 * It knows nothing of what is mapped in a client: a window that a client cannot reserve is simply given back.
 *
 * Sizes. The first half of a window is for device memory, and a session that is nearly alone must be able to have all
 * of the GPU's, with room for what gaps between its slabs take: so half of a full window is the memory and a quarter
 * more, and at least 256 GiB (an H200 has 139). The first 3/16 of the area go out as full windows, 24 of 512 GiB; from
 * then on a session gets a 256th of what is left, rounded down. That is 128 GiB at first, and 4 GiB, the smallest, only
 * when more than 1,200 are out; 1,715 fit in all. Windows that come back are full ones again for those who come next.
 * The area is 64 TiB of the 128 that a process has: above the low 16, where a sanitizer's shadow begins and programs
 * lie that are linked low, and below 80, where the kernel puts position-independent programs and what they map.
 */
#pragma once

#include <stdint.h>

typedef struct ds_windows ds_windows;

/* Contract codes */
#define DS_WINDOWS_E_EXHAUSTED 1 /* no range of at least the smallest size is free */
#define DS_WINDOWS_E_REFUSED 2   /* it cannot have been given out here, or is taken */

#ifdef __SANITIZE_ADDRESS__ /* whose shadow reaches above the area's begin in our own processes */
#define DS_WINDOW_AREA_BASE UINT64_C(0x200000000000)
#define DS_WINDOW_AREA_BYTES UINT64_C(0x200000000000)
#else
#define DS_WINDOW_AREA_BASE UINT64_C(0x100000000000)
#define DS_WINDOW_AREA_BYTES UINT64_C(0x400000000000)
#endif
#define DS_WINDOW_MIN (UINT64_C(4) << 30)
#define DS_WINDOW_FULL (UINT64_C(512) << 30) /* at least */
#define DS_WINDOW_MAX (UINT64_C(1) << 40)

/* bytes 0: none */
struct ds_window {
        uint64_t base, bytes;
};

/* bytes and smallest are powers of two, base is a multiple of smallest; bytes / smallest is at most 2^20. */
int ds_windows_new(uint64_t base, uint64_t bytes, uint64_t smallest, ds_windows **ret);
/* Every window must be back. NULL is fine; returns NULL. */
ds_windows *ds_windows_free(ds_windows *windows);

/*
 * The size that the next session gets, for a device with this much memory. refused: windows that it could not reserve.
 * The first may have lain in the way of something; from the second on each halves the next, since the session may be
 * limited in its address space.
 */
uint64_t ds_windows_choose(const ds_windows *windows, uint64_t memory_bytes, unsigned refused);
/* A window of `bytes` (a power of two), or of the next smaller size that is free. */
int ds_windows_take(ds_windows *windows, uint64_t bytes, struct ds_window *ret);
/* Exactly this one: base and size as they were given out before, here or in an earlier life of the daemon. */
int ds_windows_take_at(ds_windows *windows, const struct ds_window *wanted);
/*
 * Addresses beside a session's window, for what its client places itself: exactly the next power of two, at most
 * DS_WINDOW_MAX. All of them together have half of the area at most, and those who come for a window do not notice.
 */
int ds_windows_take_extra(ds_windows *windows, uint64_t bytes, struct ds_window *ret);
int ds_windows_take_extra_at(ds_windows *windows, const struct ds_window *wanted);
uint64_t ds_windows_extra_left(const ds_windows *windows);
void ds_windows_release_extra(ds_windows *windows, struct ds_window *window);
/* Give it back and empty *window; an empty one is fine. */
void ds_windows_release(ds_windows *windows, struct ds_window *window);
/* Windows given out. */
uint32_t ds_windows_count(const ds_windows *windows);
/* Bytes not given out. */
uint64_t ds_windows_unused(const ds_windows *windows);

static inline void ds_windows_freep(ds_windows **p)
{
        *p = ds_windows_free(*p);
}
