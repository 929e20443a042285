/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of context-local storage
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "cuda/cls.h"
#include "cuda/context.h"

#define ENTRIES 16u

struct entry {
        _Atomic(void *) key;
        _Atomic(void *) value; /* NULL: the value was deleted */
        dcu_cls_destructor destructor;
};

/* One chunk of a context's table. Chunks are reused for other contexts but never freed, because a thread without a
 * lock may be reading one. */
struct dcu_cls {
        struct entry entries[ENTRIES];
        _Atomic(struct dcu_cls *) next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held while a table changes */
static struct dcu_cls *spare;

/* Returns an empty chunk, a spare one if there is one. With the lock held. */
static struct dcu_cls *new_chunk(void)
{
        struct dcu_cls *chunk = spare;

        if (!chunk)
                return calloc(1, sizeof(*chunk));
        spare = atomic_load(&chunk->next);
        for (unsigned i = 0; i < ENTRIES; i++) {
                atomic_store(&chunk->entries[i].key, NULL);
                atomic_store(&chunk->entries[i].value, NULL);
        }
        atomic_store(&chunk->next, NULL);
        return chunk;
}

static struct entry *find(struct dcu_context *context, void *key)
{
        struct dcu_cls *chunk = atomic_load_explicit(&context->cls, memory_order_acquire);

        for (; chunk; chunk = atomic_load_explicit(&chunk->next, memory_order_acquire)) {
                for (unsigned i = 0; i < ENTRIES; i++) {
                        void *there = atomic_load_explicit(&chunk->entries[i].key, memory_order_acquire);

                        if (there == key)
                                return &chunk->entries[i];
                        if (!there)
                                return NULL;
                }
        }
        return NULL;
}

/* Returns the first free entry behind all used ones. NULL: out of memory. With the lock held. */
static struct entry *append(struct dcu_context *context)
{
        _Atomic(struct dcu_cls *) *last = &context->cls;
        struct dcu_cls *chunk;

        while ((chunk = atomic_load(last))) {
                for (unsigned i = 0; i < ENTRIES; i++) {
                        if (!atomic_load(&chunk->entries[i].key))
                                return &chunk->entries[i];
                }
                last = &chunk->next;
        }
        chunk = new_chunk();
        if (!chunk)
                return NULL;
        atomic_store_explicit(last, chunk, memory_order_release);
        return &chunk->entries[0];
}

CUresult dcu_cls_put(struct dcu_context *context, void *key, void *value, dcu_cls_destructor destructor)
{
        struct entry *entry;

        if (!key)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&lock);
        entry = find(context, key);
        if (!entry)
                entry = append(context);
        if (entry) {
                entry->destructor = destructor;
                atomic_store_explicit(&entry->value, value, memory_order_release);
                atomic_store_explicit(&entry->key, key, memory_order_release);
        }
        pthread_mutex_unlock(&lock);
        return entry ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult dcu_cls_get(struct dcu_context *context, void *key, void **ret)
{
        struct entry *entry = find(context, key);

        *ret = entry ? atomic_load_explicit(&entry->value, memory_order_acquire) : NULL;
        return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult dcu_cls_delete(struct dcu_context *context, void *key)
{
        struct entry *entry;
        void *value;

        pthread_mutex_lock(&lock);
        entry = find(context, key);
        value = entry ? atomic_exchange(&entry->value, NULL) : NULL;
        pthread_mutex_unlock(&lock);
        return value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void dcu_cls_clear(struct dcu_context *context)
{
        for (struct dcu_cls *chunk = atomic_load(&context->cls); chunk; chunk = atomic_load(&chunk->next)) {
                for (unsigned i = 0; i < ENTRIES; i++) {
                        struct entry *entry = &chunk->entries[i];
                        dcu_cls_destructor destructor;
                        void *value;

                        pthread_mutex_lock(&lock);
                        value = atomic_exchange(&entry->value, NULL);
                        destructor = entry->destructor;
                        pthread_mutex_unlock(&lock);
                        if (value && destructor)
                                destructor(dcu_context_handle(context), atomic_load(&entry->key), value);
                }
        }
}

void dcu_cls_free(struct dcu_context *context)
{
        struct dcu_cls *first, *last;

        pthread_mutex_lock(&lock);
        first = last = atomic_exchange(&context->cls, NULL);
        while (last && atomic_load(&last->next))
                last = atomic_load(&last->next);
        if (last) {
                atomic_store(&last->next, spare);
                spare = first;
        }
        pthread_mutex_unlock(&lock);
}
