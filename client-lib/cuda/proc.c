/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress: the right ABI of a name
 *
 * A name is requested with a CUDA version: the newest ABI that is not newer than that version is returned. Per-thread
 * variants exist for some names only; otherwise the legacy entry is returned. The table is part of this library,
 * because the dynamic linker could find another libcuda.
 */
#include <string.h>

#include "cuda/api.h"
#include "cuda/proc.h"
#include "cuda/state.h"

#define KNOWN_FLAGS (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)

/* Returns the index of the first entry with that base name, or of the place where it would be. */
static size_t first_of(const char *base)
{
        size_t low = 0, high = dcu_n_procs;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (strcmp(dcu_procs[middle].base, base) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static const struct dcu_proc *find(const char *base, int version, int per_thread, int *ret_known)
{
        const struct dcu_proc *legacy = NULL, *threaded = NULL;

        *ret_known = 0;
        for (size_t i = first_of(base); i < dcu_n_procs && strcmp(dcu_procs[i].base, base) == 0; i++) {
                const struct dcu_proc *proc = &dcu_procs[i];

                *ret_known = 1;
                if (proc->version > version)
                        continue;
                if (proc->per_thread)
                        threaded = proc;
                else
                        legacy = proc;
        }
        return per_thread && threaded ? threaded : legacy;
}

static CUresult lookup(
        const char *symbol, void **pfn, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *ret)
{
        const struct dcu_proc *proc;
        int known;

        *ret = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        if (!symbol || !pfn || (flags & ~(cuuint64_t)KNOWN_FLAGS) || flags == KNOWN_FLAGS)
                return CUDA_ERROR_INVALID_VALUE;
        *pfn = NULL;
        if (version > dcu_driver_version()) {
                *ret = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
                return CUDA_ERROR_INVALID_VALUE;
        }
        proc = find(symbol, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0, &known);
        if (proc) {
                *pfn = proc->function;
                *ret = CU_GET_PROC_ADDRESS_SUCCESS;
        } else if (known) {
                *ret = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        }
        return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(
        const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
        CUdriverProcAddressQueryResult status;
        CUresult r = lookup(symbol, pfn, cudaVersion, flags, &status);

        if (symbolStatus)
                *symbolStatus = status;
        return r;
}

/* This first ABI version reports no status: it returns CUDA_ERROR_NOT_FOUND for an unknown name. */
CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
        CUdriverProcAddressQueryResult status;
        CUresult r = lookup(symbol, pfn, cudaVersion, flags, &status);

        return r == CUDA_SUCCESS && status != CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_ERROR_NOT_FOUND : r;
}
