/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context-local storage: values that other libraries keep with a context
 *
 * Each copy of NVIDIA's runtime in the process keeps its state of a context under a key of its own and reads it in
 * every call. So a lookup takes no lock: entries are only appended to a context's table, and a value is published after
 * its key. A deleted entry is reused for the same key only. Destructors run when the context is reset or destroyed,
 * with no lock of this library held, because they call into it.
 */
#pragma once

#include "cuda/api.h"

struct dcu_context;
struct dcu_cls;

typedef void (*dcu_cls_destructor)(CUcontext context, void *key, void *value);

/* Stores a value under a key; replaces an earlier value without running its destructor. CUDA_ERROR_OUT_OF_MEMORY if
 * the table cannot grow. */
CUresult dcu_cls_put(struct dcu_context *context, void *key, void *value, dcu_cls_destructor destructor);
/* Reads the value of a key. CUDA_ERROR_INVALID_HANDLE if the key has none; *ret is NULL then. */
CUresult dcu_cls_get(struct dcu_context *context, void *key, void **ret);
CUresult dcu_cls_delete(struct dcu_context *context, void *key);
/* Runs all destructors and removes all values. The caller must hold no lock. */
void dcu_cls_clear(struct dcu_context *context);
/* Frees the table with the context's object, after dcu_cls_clear(). */
void dcu_cls_free(struct dcu_context *context);
