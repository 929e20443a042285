/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses and memory apart: cuMemAddressReserve, cuMemCreate, cuMemMap and what belongs to them
 *
 * Addresses come from the daemon in windows of a power of two, so that no other session has them; reservations are
 * carved out of those here. Memory is created there and has a handle here. A mapping is bookkeeping until access is
 * set: that is when the daemon maps it, and setting no access unmaps it, which waits for the session's work as a free
 * does. Read-only access is given as read and write, and remembered as what was asked for.
 *
 * All of it belongs to the device and not to a context, and goes with the reset of the session.
 *
 * Memory of other processes is opened by the same means: it is imported, and mapped at addresses of its own.
 */
#pragma once

#include "cuda/context.h"

struct dcu_physical {
        struct dcu_object head;
        struct dcu_physical *prev, *next; /* of all; once nothing needs it: of those that are to be freed */
        uint64_t id, bytes;               /* the daemon's */
        uint32_t refs;                    /* the program's; 0: it lives by its mappings */
        uint32_t n_mapped;
        CUmemAllocationProp prop;
};

/* As many addresses as asked for; align a power of two of at least 2 MiB, hint 0 = none. CUDA_ERROR_OUT_OF_MEMORY. */
CUresult dcu_address_reserve(uint64_t bytes, uint64_t align, uint64_t hint, uint64_t *ret);
/* Exactly as they were reserved; CUDA_ERROR_INVALID_VALUE, also when something is mapped there. */
CUresult dcu_address_free(uint64_t base, uint64_t bytes);
/* Does all of it lie in one reservation? */
int dcu_address_is_reserved(uint64_t base, uint64_t bytes);
/* The session has been reset. */
void dcu_address_reset(void);

/* An object for memory that the daemon has, with one reference. NULL when out of memory. */
struct dcu_physical *dcu_physical_new(uint64_t id, uint64_t bytes, const CUmemAllocationProp *prop);
/* The session has been reset: no handle lives on. dcu.lock is held. */
void dcu_vmm_reset(void);

/* The context that opened it goes: close another process's memory, of a range's detail. */
void dcu_ipc_free(void *detail);
void dcu_ipc_reset(void); /* the session has been reset */
