/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, libraries, and the handles of their kernels
 *
 * A module belongs to a context and is loaded at once. A library belongs to the process: it is loaded when something is
 * first asked of it, and again after the session was reset. A library's module is a view of the same image.
 *
 * Functions (of modules) and kernels (of libraries) are handles of the same entry. They are on no context's list: they
 * go with their image.
 */
#pragma once

#include "cuda/code.h"
#include "cuda/context.h"

struct dcu_module {
        struct dcu_object head;
        struct dcu_image *image;
        struct dcu_library *library; /* NULL: it owns its image */
};

struct dcu_library {
        struct dcu_object head;
        struct dcu_image *image;
        struct dcu_module *module; /* its view, once asked for */
};

struct dcu_function {
        struct dcu_object head;
        struct dcu_entry *entry;
        struct dcu_module *module;   /* of a module's function */
        struct dcu_library *library; /* of a kernel's */
};

struct dcu_kernel {
        struct dcu_object head;
        struct dcu_entry *entry;
        struct dcu_library *library;
};

/* dcu.lock must be held. Frees the module, its functions and its image. */
void dcu_module_free(struct dcu_module *module, int in_daemon);
/* The handle of an entry's function, made on first use. dcu.lock must be held. NULL when out of memory. */
struct dcu_function *dcu_function_of_entry(
        struct dcu_entry *entry, struct dcu_module *module, struct dcu_library *library);
/* Free the handles of all entries. dcu.lock must be held. */
void dcu_image_free_handles(struct dcu_image *image);
/* A library's module. dcu.lock must be held. NULL when out of memory. */
struct dcu_module *dcu_library_module(struct dcu_library *library);

/*
 * The entry behind a CUfunction or a CUkernel in its place, NULL for anything else; *ret_owner is the context that a
 * function belongs to, NULL for a library's.
 */
static inline struct dcu_entry *dcu_entry_of(CUfunction handle, struct dcu_context **ret_owner)
{
        const struct dcu_function *function = dcu_object_of(handle, DCU_FUNCTION);
        const struct dcu_kernel *kernel;

        *ret_owner = NULL;
        if (function) {
                *ret_owner = function->module ? function->module->head.owner : NULL;
                return function->entry;
        }
        kernel = dcu_object_of(handle, DCU_KERNEL);
        return kernel ? kernel->entry : NULL;
}
