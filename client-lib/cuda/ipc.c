/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of another process
 *
 * A handle is the daemon's token for the slab of an allocation. Opening it imports the slab and maps all of it at
 * addresses of this session. The program gets the address of the allocation. Its kernels can also access the rest of
 * the slab, neighbouring allocations of the other process, as in CUDA. The memory lives until its owner has freed it
 * and all others have closed it.
 *
 * Opening a handle again returns the same address; it must be closed as often.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/copy.h"
#include "cuda/pool.h"
#include "cuda/range.h"
#include "cuda/vmm.h"

/* Number of bytes at the end of a token that identify the memory; the bytes before them give a position within it. */
#define SECRET_BYTES 32u

_Static_assert(sizeof(CUipcMemHandle) == DSC_TOKEN_BYTES, "a handle holds a token");

struct opened {
        struct opened *next;
        CUipcMemHandle handle;
        uint64_t id, va, bytes; /* handle in the daemon; address and size of the mapped slab */
        uint64_t base;          /* address of the allocation within the mapped slab */
        uint32_t refs;
};

struct exported {
        struct exported *next;
        uint8_t secret[SECRET_BYTES];
};

/* Taken after dcu.lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened *all;
static struct exported *own; /* allocations that this session exported; it cannot open its own handles */

static const uint8_t *secret_of(const void *token)
{
        return (const uint8_t *)token + DSC_TOKEN_BYTES - SECRET_BYTES;
}

static struct exported **find_own(const void *token)
{
        struct exported **at = &own;

        while (*at && memcmp((*at)->secret, secret_of(token), SECRET_BYTES) != 0)
                at = &(*at)->next;
        return at;
}

static CUresult note_own(const void *token)
{
        struct exported **at, *note;
        CUresult r = CUDA_SUCCESS;

        pthread_mutex_lock(&lock);
        at = find_own(token);
        if (!*at) {
                note = calloc(1, sizeof(*note));
                r = note ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
                if (note)
                        memcpy(note->secret, secret_of(token), SECRET_BYTES);
                *at = note;
        }
        pthread_mutex_unlock(&lock);
        return r;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
        struct dcu_context *context;
        uint8_t token[DSC_TOKEN_BYTES];
        struct dcu_range range;
        uint64_t place;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!pHandle || !dcu_plain_place(dptr, &range, &place))
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_memory_share();
        if (r == CUDA_SUCCESS)
                r = dcu_result(dsc_mem_export(dcu.session, place, 0, token));
        if (r == CUDA_SUCCESS)
                dsc_token_narrow(token, range.base - place, range.size);
        if (r == CUDA_SUCCESS)
                r = note_own(token);
        if (r == CUDA_SUCCESS)
                memcpy(pHandle, token, sizeof(*pHandle));
        return r;
}

/* Undoes the opening in the daemon; mapped: 1 if the slab was mapped. */
static void close_in_daemon(const struct opened *opened, int mapped)
{
        if (mapped)
                (void)dsc_mem_unmap(dcu.session, opened->va);
        if (opened->va)
                (void)dcu_address_free(opened->va, opened->bytes);
        (void)dsc_mem_release(dcu.session, opened->id);
}

static CUresult map_all(struct opened *opened, struct dcu_context *context, const struct dsc_imported *imported)
{
        struct dcu_range range = {
                .size = imported->size, .kind = DCU_RANGE_OPENED, .sync_memops = 1, .owner = context, .detail = opened};
        int mapped = 0;
        CUresult r = dcu_address_reserve(imported->bytes, 2u << 20, 0, &opened->va);

        if (r == CUDA_SUCCESS)
                r = dcu_result(dsc_mem_map(dcu.session, opened->id, opened->va, opened->bytes));
        mapped = r == CUDA_SUCCESS;
        range.base = opened->base = opened->va + imported->offset;
        if (r == CUDA_SUCCESS)
                r = dcu_range_add(&range);
        if (r != CUDA_SUCCESS)
                close_in_daemon(opened, mapped);
        return r;
}

static CUresult open_new(struct dcu_context *context, const CUipcMemHandle *handle, CUdeviceptr *ret)
{
        struct opened *opened = calloc(1, sizeof(*opened));
        struct dsc_imported imported = {0};
        CUresult r = opened ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

        if (r == CUDA_SUCCESS)
                r = dcu_memory_share();
        if (r == CUDA_SUCCESS)
                r = dcu_result(dsc_mem_import(dcu.session, (const uint8_t *)handle, &imported));
        if (r == CUDA_SUCCESS) {
                *opened = (struct opened){
                        .next = all, .handle = *handle, .id = imported.handle, .bytes = imported.bytes, .refs = 1};
                r = imported.size && imported.size <= imported.bytes &&
                                    imported.offset <= imported.bytes - imported.size
                            ? map_all(opened, context, &imported)
                            : CUDA_ERROR_INVALID_VALUE;
        }
        if (r != CUDA_SUCCESS) {
                free(opened);
                return r == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : r;
        }
        all = opened;
        *ret = opened->base;
        return CUDA_SUCCESS;
}

static CUresult open_locked(struct dcu_context *context, const CUipcMemHandle *handle, CUdeviceptr *ret)
{
        if (*find_own(handle))
                return CUDA_ERROR_INVALID_CONTEXT;
        for (struct opened *opened = all; opened; opened = opened->next) {
                if (memcmp(&opened->handle, handle, sizeof(*handle)) != 0)
                        continue;
                opened->refs++;
                *ret = opened->base;
                return CUDA_SUCCESS;
        }
        return open_new(context, handle, ret);
}

static CUresult open_handle(CUdeviceptr *pdptr, const CUipcMemHandle *handle, unsigned int flags)
{
        struct dcu_context *context;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!pdptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&lock);
        r = open_locked(context, handle, pdptr);
        pthread_mutex_unlock(&lock);
        return r;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
        return open_handle(pdptr, &handle, Flags);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
        return open_handle(pdptr, &handle, Flags);
}

/* Removes the opening from the list `all`. With the lock held. */
static void take_out(struct opened *opened)
{
        struct opened **at = &all;

        while (*at != opened)
                at = &(*at)->next;
        *at = opened->next;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
        struct dcu_context *context;
        struct dcu_range range;
        struct opened *opened = NULL;
        CUresult r = dcu_enter_any(&context);

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&lock);
        if (dcu_range_find(dptr, &range) && range.kind == DCU_RANGE_OPENED && range.base == dptr) {
                opened = range.detail;
                if (--opened->refs == 0 && dcu_range_remove(dptr, 1u << DCU_RANGE_OPENED, &range)) {
                        take_out(opened);
                        close_in_daemon(opened, 1);
                        free(opened);
                }
        } else {
                r = CUDA_ERROR_INVALID_VALUE;
        }
        pthread_mutex_unlock(&lock);
        return r;
}

void dcu_ipc_free(void *detail)
{
        pthread_mutex_lock(&lock);
        take_out(detail);
        close_in_daemon(detail, 1);
        pthread_mutex_unlock(&lock);
        free(detail);
}

void dcu_ipc_reset(void)
{
        struct opened *opened;
        struct exported *note;

        pthread_mutex_lock(&lock);
        dcu_range_remove_kind(DCU_RANGE_OPENED);
        while ((opened = all)) {
                all = opened->next;
                free(opened);
        }
        while ((note = own)) {
                own = note->next;
                free(note);
        }
        pthread_mutex_unlock(&lock);
}
