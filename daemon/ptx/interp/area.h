/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory whose addresses kernels see
 *
 * A kernel knows the addresses of its module's variables and of what malloc gives, and the host is told them as well.
 * They are host pointers, so that an access needs no translation. Memory of the C library would show where the
 * process's heap and libraries lie, which address space randomisation hides. This memory lies at fixed addresses
 * instead: above the windows of sessions and the pool of coloured memory (worker/pool.h), below everything else in
 * the process. Its addresses say how much of it others
 * have, and nothing else.
 *
 * Pieces are whole pages. What was freed costs no memory, and its addresses are given out again. All pieces together
 * are one mapping, however many modules there are: the number of mappings of a process is limited. Any thread may call.
 */
#pragma once

#include <stdint.h>

#if defined(__SANITIZE_THREAD__) /* whose own memory lies in between */
#define DS_IX_AREA_BASE UINT64_C(0x007000000000)
#define DS_IX_AREA_BYTES (UINT64_C(1) << 36)
#elif defined(__SANITIZE_ADDRESS__) /* may have its heap above the windows */
#define DS_IX_AREA_BASE UINT64_C(0x480000000000)
#define DS_IX_AREA_BYTES (UINT64_C(1) << 42)
#else
#define DS_IX_AREA_BASE UINT64_C(0x510000000000)
#define DS_IX_AREA_BYTES (UINT64_C(1) << 42)
#endif

/* `size` bytes, zeroed, aligned to a page; NULL: no memory. The caller frees them with the same size. */
void *ds_ix_area_new(uint64_t size);
/* p may be NULL. Returns NULL. */
void *ds_ix_area_free(void *p, uint64_t size);
