/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: cuMemAddressReserve, cuMemCreate, cuMemMap and related calls
 *
 * Addresses come from the daemon in windows of a power of two, so that no other session has them; reservations are
 * carved out of them here. Physical memory is created in the daemon and has a handle here. A mapping is bookkeeping
 * until access is set: then the daemon maps it. Setting no access unmaps it, which waits for the session's work as a
 * free does. Read-only access is granted as read and write; the requested value is remembered.
 *
 * All of it belongs to the device, not to a context, and ends with a reset of the session.
 *
 * Memory of other processes uses the same means: it is imported, and mapped at addresses of its own.
 */
#pragma once

#include "cuda/context.h"

struct dcu_physical {
        struct dcu_object head;
        /* links of the list of all physical memory, later of the list of memory to free */
        struct dcu_physical *prev, *next;
        uint64_t id, bytes; /* handle in the daemon */
        uint32_t refs;      /* number of program handles; 0: only mappings keep the memory */
        uint32_t n_mapped;
        CUmemAllocationProp prop;
};

/* *ret: base of the reserved addresses. align: a power of two of at least 2 MiB; hint: preferred base, 0 = none.
 * CUDA_ERROR_OUT_OF_MEMORY: no addresses are left. */
CUresult dcu_address_reserve(uint64_t bytes, uint64_t align, uint64_t hint, uint64_t *ret);
/* Frees the reservation [base, base + bytes). CUDA_ERROR_INVALID_VALUE: it is no whole reservation, or something is
 * mapped there. */
CUresult dcu_address_free(uint64_t base, uint64_t bytes);
/* 1: the whole range lies in one reservation. */
int dcu_address_is_reserved(uint64_t base, uint64_t bytes);
/* The session was reset: forgets all reservations. */
void dcu_address_reset(void);

/* Makes an object for physical memory in the daemon, with one reference. NULL: out of memory. */
struct dcu_physical *dcu_physical_new(uint64_t id, uint64_t bytes, const CUmemAllocationProp *prop);
/* The session was reset: invalidates all handles. With dcu.lock held. */
void dcu_vmm_reset(void);

/* Closes another process's memory because the context that opened it ends. detail: detail of the memory's range. */
void dcu_ipc_free(void *detail);
void dcu_ipc_reset(void); /* call after a reset of the session */
