/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address windows: the address range of each session
 *
 * Every session gets a power-of-two range of addresses, aligned to its size and disjoint from all others. So real
 * device addresses can be passed to clients, and a memory file can be mapped at the same address in every process. The
 * allocator is a buddy allocator over one area: windows never overlap, free neighbours are merged, and without any
 * window the whole area is free. It does not know the client's mappings: a window that a client cannot reserve is
 * released.
 *
 * Sizes. The first half of a window is for device memory. A session that is nearly alone must be able to use all memory
 * of the GPU, with room for gaps between its slabs. So half of a full window is 1.25 times the memory, and at least 256
 * GiB (an H200 has 139).
 *
 * The first 3/16 of the area are assigned as full windows, 24 of 512 GiB. Then a session gets 1/256 of the free rest,
 * rounded down. That is 128 GiB at first, and 4 GiB, the smallest size, only when more than 1,200 windows are assigned;
 * 1,715 fit in all. Released windows are assigned as full ones again.
 *
 * The area is 64 TiB of the 128 TiB of a process. It lies above the first 16 TiB, which hold sanitizer shadow and
 * programs linked at low addresses, and below 80 TiB, where the kernel puts position-independent programs and their
 * mappings.
 */
#pragma once

#include <stdint.h>

typedef struct ds_windows ds_windows;

/* Positive return codes of the functions below */
#define DS_WINDOWS_E_EXHAUSTED 1 /* no range of at least the smallest size is free */
#define DS_WINDOWS_E_REFUSED 2   /* this allocator cannot have assigned the window, or the window is in use */

/* with AddressSanitizer the area begins higher, because the sanitizer's shadow in the daemon's own processes
 * overlaps the beginning of the normal area */
#ifdef __SANITIZE_ADDRESS__
#define DS_WINDOW_AREA_BASE UINT64_C(0x200000000000)
#define DS_WINDOW_AREA_BYTES UINT64_C(0x200000000000)
#else
#define DS_WINDOW_AREA_BASE UINT64_C(0x100000000000)
#define DS_WINDOW_AREA_BYTES UINT64_C(0x400000000000)
#endif
#define DS_WINDOW_MIN (UINT64_C(4) << 30)
#define DS_WINDOW_FULL (UINT64_C(512) << 30) /* minimum size of a full window */
#define DS_WINDOW_MAX (UINT64_C(1) << 40)

/* bytes 0: no window */
struct ds_window {
        uint64_t base, bytes;
};

/* Creates the allocator of an area. bytes and smallest are powers of two, base is a multiple of smallest; bytes /
 * smallest is at most 2^20. */
int ds_windows_new(uint64_t base, uint64_t bytes, uint64_t smallest, ds_windows **ret);
/* Frees the allocator. Every window must be released. NULL is allowed; returns NULL. */
ds_windows *ds_windows_free(ds_windows *windows);

/*
 * Chooses the size of the next session's window, for a device with this much memory. refused: number of windows whose
 * addresses the client could not reserve. The first refusal may be due to an existing mapping. From the second on each
 * halves the size, since the client's address space may be limited.
 */
uint64_t ds_windows_choose(const ds_windows *windows, uint64_t memory_bytes, unsigned refused);
/* Assigns a window of `bytes` (a power of two), or of the next smaller size that is free. */
int ds_windows_take(ds_windows *windows, uint64_t bytes, struct ds_window *ret);
/* Assigns exactly this window, which this or an earlier daemon assigned before. */
int ds_windows_take_at(ds_windows *windows, const struct ds_window *wanted);
/*
 * Takes a range outside of the session's window, for memory that its client places itself: exactly the next power of
 * two, at most DS_WINDOW_MAX. All such ranges together use at most half of the area, and do not affect the size of
 * windows.
 */
int ds_windows_take_extra(ds_windows *windows, uint64_t bytes, struct ds_window *ret);
int ds_windows_take_extra_at(ds_windows *windows, const struct ds_window *wanted);
uint64_t ds_windows_extra_left(const ds_windows *windows);
void ds_windows_release_extra(ds_windows *windows, struct ds_window *window);
/* Releases the window and empties *window; an empty one is allowed. */
void ds_windows_release(ds_windows *windows, struct ds_window *window);
/* Number of assigned windows. */
uint32_t ds_windows_count(const ds_windows *windows);
/* Number of bytes of the area that are not assigned. */
uint64_t ds_windows_unused(const ds_windows *windows);

static inline void ds_windows_freep(ds_windows **p)
{
        *p = ds_windows_free(*p);
}
