/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacking and freeing of the daemon's answers
 *
 * An answer reports something that the daemon has already done. If this process has no memory to unpack the answer,
 * both sides lose track of the daemon's actions and of the order of answers, and so lose the whole session. So rpc->spare
 * holds one answer at a time without an allocation (address space only, until it is used). Threads without memory take
 * turns with it. No thread makes a request while it holds an answer, so a turn is short.
 */
#include <stdlib.h>
#include <unistd.h>

#include "core/internal.h"

#define ALIGNMENT 16u

static void *spare_alloc(void *data, size_t size)
{
        struct dsc__rpc *rpc = data;
        const size_t at = rpc->spare_used;
        if (size > DSC__SPARE_BYTES - at)
                return NULL;
        rpc->spare_used = at + ((size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1));
        return rpc->spare + at;
}

/* Does nothing: dsc__spare_give() frees all parts of the answer at once. */
static void spare_free(void *data, void *p)
{
}

static void *noted_alloc(void *data, size_t size)
{
        bool *failed = data;
        void *p = malloc(size);
        *failed |= !p;
        return p;
}

static void noted_free(void *data, void *p)
{
        free(p);
}

int dsc__answer_unpack(struct dsc__rpc *rpc, const uint8_t *bytes, size_t size, struct dsc__answer *ret)
{
        bool failed = false;
        ProtobufCAllocator memory = {.alloc = noted_alloc, .free = noted_free, .allocator_data = &failed};
        ProtobufCAllocator spare = {.alloc = spare_alloc, .free = spare_free, .allocator_data = rpc};
        ret->reply = detshare__reply__unpack(&memory, size, bytes);
        if (ret->reply || !failed)
                return ret->reply ? 0 : DSC__UNKNOWN;
        if (!dsc__spare_take(rpc))
                return DSC__OUT_OF_MEMORY;
        rpc->spare_used = 0;
        ret->reply = detshare__reply__unpack(&spare, size, bytes);
        if (!ret->reply) {
                dsc__spare_give(rpc);
                return DSC__UNKNOWN;
        }
        ret->lender = rpc;
        return 0;
}

void dsc__answer_clear(struct dsc__answer *answer)
{
        if (answer->lender)
                dsc__spare_give(answer->lender);
        else if (answer->reply)
                detshare__reply__free_unpacked(answer->reply, NULL);
        for (uint32_t i = 0; i < answer->n_fds; i++)
                if (answer->fds[i] >= 0)
                        close(answer->fds[i]);
        *answer = DSC__ANSWER_NULL;
}
