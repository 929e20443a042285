/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events shared by processes
 *
 * A handle carries the daemon's token for the event. Processes of one user with sessions at one daemon can open it;
 * each then records, queries and waits for it like an event of its own.
 */
#include <string.h>

#include "cuda/event.h"

struct handle {
        char magic[8];
        uint8_t token[DSC_SHARED_TOKEN];
};

static const char magic[8] = {'D', 'S', 'e', 'v', 'e', 'n', 't', '1'};

_Static_assert(sizeof(struct handle) <= sizeof(CUipcEventHandle), "a handle fits into CUDA's");

/* Makes the event's shared object in the daemon, if it has none. With event->lock held. */
static CUresult share_locked(struct dcu_event *event)
{
        CUresult r;

        if (event->shared)
                return CUDA_SUCCESS;
        r = dcu_result(dsc_shared_create(dcu.session, &event->shared, event->token));
        if (r == CUDA_SUCCESS && event->recorded)
                r = dcu_result(dsc_shared_record(dcu.session, event->shared, event->slot, event->seq));
        return r;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
        struct dcu_event *object = dcu_object_of(event, DCU_EVENT);
        struct dcu_context *context;
        struct handle handle;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!pHandle)
                return CUDA_ERROR_INVALID_VALUE;
        if (!object || !(object->flags & CU_EVENT_INTERPROCESS))
                return CUDA_ERROR_INVALID_HANDLE;
        pthread_mutex_lock(&object->lock);
        r = share_locked(object);
        memcpy(handle.magic, magic, sizeof(magic));
        memcpy(handle.token, object->token, sizeof(handle.token));
        pthread_mutex_unlock(&object->lock);
        if (r != CUDA_SUCCESS)
                return r;
        memset(pHandle, 0, sizeof(*pHandle));
        memcpy(pHandle, &handle, sizeof(handle));
        return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
        struct dcu_context *context;
        struct dcu_event *event;
        struct handle given;
        uint64_t shared;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        memcpy(&given, &handle, sizeof(given));
        if (!phEvent || memcmp(given.magic, magic, sizeof(magic)) != 0)
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_result(dsc_shared_open(dcu.session, given.token, &shared));
        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        event = dcu_object_new(DCU_EVENT, sizeof(*event), context);
        if (event) {
                pthread_mutex_init(&event->lock, NULL);
                event->flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
                event->shared = shared;
                memcpy(event->token, given.token, sizeof(event->token));
                *phEvent = dcu_handle(event);
        }
        pthread_mutex_unlock(&dcu.lock);
        if (event)
                return CUDA_SUCCESS;
        (void)dsc_shared_close(dcu.session, shared);
        return CUDA_ERROR_OUT_OF_MEMORY;
}
