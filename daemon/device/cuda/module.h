/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images and their kernels: structures shared by module.c and kernel.c
 */
#pragma once

#include <xxhash.h>

#include "device/cuda/internal.h"
#include "image/cubin.h"
#include "image/sass.h"

/* A kernel of an image. */
struct cuda_code {
        struct ds_kernel_info info;
        CUkernel kernel;
        CUfunction function;                      /* in the primary context; NULL: not loaded */
        uint32_t fits_threads, fits_shared, fits; /* blocks of that size on an SM, as queried last; 0: not queried */
        int scanned;                              /* info has the properties of its machine code */
};

struct cuda_image {
        XXH128_hash_t hash;
        void *bytes; /* NULL: an instance of its own, not found by its bytes */
        size_t size;
        int mapped;        /* the bytes are a mapping of a sealed file */
        uint64_t dev, ino; /* identity of that file */
        CUlibrary library;
        int there; /* its code is on the GPU */
        struct cuda_task task;
        CUresult result; /* result of reading it */
        const char *what;
        int read; /* the preparation has ended, or has failed */
        struct ds_cubin cubin;
        ds_sass *sass; /* over its bytes, from the first kernel scanned; NULL: none yet, or unreadable */
        struct cuda_code *codes;
        size_t n_codes;
        uint32_t refs; /* modules that use it */
        int going;     /* to be unloaded by put_off_do */
        struct cuda_image *prev, *next;
};

struct ds_device_kernel {
        ds_device_module *module;
        struct cuda_code *code;
};

/* A variable whose address global_find has returned. */
struct cuda_global {
        uint64_t va, size;
        struct cuda_global *next;
};

struct ds_device_module {
        ds_device *device;
        uint32_t space;
        uint32_t refs; /* references of its loader and of jobs */
        struct cuda_image *image;
        struct ds_device_kernel *kernels; /* image->n_codes entries */
        struct cuda_global *globals;
        struct ds_device_module *prev, *next;
};

/* kernel.c: loads the kernel into the context, with everything that its first launch needs. [stops] */
CUresult cuda_code_fill(ds_device *device, struct cuda_image *image, struct cuda_code *code);
/* Scans the machine code of every kernel: for images whose bytes are not kept, and before anything stops. */
CUresult cuda_codes_scan(struct cuda_image *image, const void *bytes);
