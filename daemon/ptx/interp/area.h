/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory whose addresses kernels see
 *
 * A kernel, and the host, know the addresses of its module's variables and of malloc's results. They are host pointers,
 * so that an access needs no translation. Memory of the C library would show where the process's heap and libraries
 * lie, which address space randomisation hides. So this memory lies at fixed addresses: above the windows of sessions
 * and the pool of coloured memory (worker/pool.h), below everything else in the process. Its addresses show how much of
 * it other sessions have, and nothing else.
 *
 * Pieces are whole pages. Freed pieces take no memory, and their addresses are reused. All pieces together are one
 * mapping, however many modules there are, because the number of mappings of a process is limited. Any thread may call.
 */
#pragma once

#include <stdint.h>

#if defined(__SANITIZE_THREAD__) /* ThreadSanitizer's own memory lies between the session windows and the usual base */
#define DS_IX_AREA_BASE UINT64_C(0x007000000000)
#define DS_IX_AREA_BYTES (UINT64_C(1) << 36)
#elif defined(__SANITIZE_ADDRESS__) /* AddressSanitizer's heap may lie above the session windows */
#define DS_IX_AREA_BASE UINT64_C(0x480000000000)
#define DS_IX_AREA_BYTES (UINT64_C(1) << 42)
#else
#define DS_IX_AREA_BASE UINT64_C(0x510000000000)
#define DS_IX_AREA_BYTES (UINT64_C(1) << 42)
#endif

/* Allocates `size` zeroed bytes, aligned to a page; NULL: out of memory. The caller frees them with the same size. */
void *ds_ix_area_new(uint64_t size);
/* Frees memory of ds_ix_area_new(). p may be NULL. Returns NULL. */
void *ds_ix_area_free(void *p, uint64_t size);
