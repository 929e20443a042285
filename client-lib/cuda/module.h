/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, libraries, and the handles of their kernels
 *
 * A module belongs to a context and is loaded at once. A library belongs to the process. It is loaded at the first call
 * that needs it, and again after a reset of the session. A library's module is a view of the same image.
 *
 * Functions (of modules) and kernels (of libraries) are handles of the same entry. They are on no context's list: they
 * are freed with their image.
 */
#pragma once

#include "cuda/code.h"
#include "cuda/context.h"

struct dcu_module {
        struct dcu_object head;
        struct dcu_image *image;
        struct dcu_library *library; /* library whose module this is; NULL: the module owns its image */
};

struct dcu_library {
        struct dcu_object head;
        struct dcu_image *image;
        struct dcu_module *module; /* module handle of the same image, once the program requested one; else NULL */
};

struct dcu_function {
        struct dcu_object head;
        struct dcu_entry *entry;
        struct dcu_module *module;   /* module that owns the handle, for a module's function */
        struct dcu_library *library; /* library that owns the handle, for a library's kernel */
};

struct dcu_kernel {
        struct dcu_object head;
        struct dcu_entry *entry;
        struct dcu_library *library;
};

/* Frees the module, its functions and its image. With dcu.lock held. */
void dcu_module_free(struct dcu_module *module, int in_daemon);
/* Returns the function handle of an entry, which is made at the first call. NULL: out of memory. With dcu.lock held. */
struct dcu_function *dcu_function_of_entry(
        struct dcu_entry *entry, struct dcu_module *module, struct dcu_library *library);
/* Frees the function and kernel handles of all entries of the image. With dcu.lock held. */
void dcu_image_free_handles(struct dcu_image *image);
/* Returns the library's module handle, which is made at the first call. NULL: out of memory. With dcu.lock held. */
struct dcu_module *dcu_library_module(struct dcu_library *library);

/*
 * Returns the entry of a CUfunction, or of a CUkernel passed as one; NULL for anything else. *ret_owner: context of the
 * function, NULL for a library's kernel.
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
