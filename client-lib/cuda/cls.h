/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that others keep with a context
 *
 * Each copy of NVIDIA's runtime in the process keeps its own state of a context under a key of its own, and asks for it
 * in every call. So a lookup takes no lock: entries are only ever appended to a context's table, and a value is
 * published after its key. A deleted entry keeps its place for the same key. Destructors run when the context is reset
 * or destroyed, without a lock of this library held, since they call back into it.
 */
#pragma once

#include "cuda/api.h"

struct dcu_context;
struct dcu_cls;

typedef void (*dcu_cls_destructor)(CUcontext context, void *key, void *value);

/* CUDA_ERROR_OUT_OF_MEMORY. A value under the same key is replaced without its destructor being run. */
CUresult dcu_cls_put(struct dcu_context *context, void *key, void *value, dcu_cls_destructor destructor);
/* CUDA_ERROR_INVALID_HANDLE when there is none; *ret is NULL then. */
CUresult dcu_cls_get(struct dcu_context *context, void *key, void **ret);
CUresult dcu_cls_delete(struct dcu_context *context, void *key);
/* Run all destructors and forget all values. No lock may be held. */
void dcu_cls_clear(struct dcu_context *context);
/* The context's object is going: its table with it. dcu_cls_clear() has been called. */
void dcu_cls_free(struct dcu_context *context);
