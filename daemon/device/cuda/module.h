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
        CUfunction function; /* function in the primary context; NULL: not loaded */
        /* result of the last query: `fits` blocks with that many threads and bytes of shared memory fit on an SM; 0:
         * not queried */
        uint32_t fits_threads, fits_shared, fits;
        int scanned; /* 1: info has the properties found in the machine code */
};

struct cuda_image {
        XXH128_hash_t hash;
        void *bytes; /* content of the image; NULL: the image belongs to one load only, and is not found by its bytes */
        size_t size;
        int mapped;        /* 1: `bytes` is a mapping of a sealed file */
        uint64_t dev, ino; /* identity of the sealed file */
        CUlibrary library;
        int there; /* 1: the code is on the GPU */
        struct cuda_task task;
        CUresult result; /* result of reading the library */
        const char *what;
        int read; /* 1: reading in advance has ended, also when it failed */
        struct ds_cubin cubin;
        /* decoder of the machine code in `bytes`, made for the first kernel scanned; NULL: none yet, or unreadable */
        ds_sass *sass;
        struct cuda_code *codes;
        size_t n_codes;
        uint32_t refs; /* number of modules that use the image */
        int going;     /* 1: put_off_do unloads the image */
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
        uint32_t refs; /* references: one of the caller that loaded the module, one per job that uses it */
        struct cuda_image *image;
        struct ds_device_kernel *kernels; /* image->n_codes entries */
        struct cuda_global *globals;
        struct ds_device_module *prev, *next;
};

/* kernel.c: loads the kernel into the context, with everything that its first launch needs. [stops] */
CUresult cuda_code_fill(ds_device *device, struct cuda_image *image, struct cuda_code *code);
/* Scans the machine code of every kernel in advance: for images whose bytes are not kept, and before anything is
 * stopped. */
CUresult cuda_codes_scan(struct cuda_image *image, const void *bytes);
