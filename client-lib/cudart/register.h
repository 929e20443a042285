/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What compiled programs register: images of code, and the host addresses that name their functions and variables
 *
 * nvcc's output calls __cudaRegisterFatBinary from a constructor, then names each kernel by the address of its stub
 * and each variable by that of its shadow, and unregisters at exit or when the library goes. Nothing of an image is
 * looked at before something of it is used; what is wrong with it is told then, each time.
 *
 * Two libraries may register the same address (an instance of a template that the linker made one of): the later one
 * is used, and when it goes, the other. Records of names are never freed but used again, because compiled code keeps
 * their addresses (__cudaGetKernel); there are as many as a process has had kernels and variables.
 */
#pragma once

#include <stdatomic.h>

#include "cudart/rt.h"

struct rt_binary;

struct rt_name {
        const void *host;
        const char *_Atomic device;       /* the binary's own string */
        struct rt_binary *_Atomic binary; /* NULL: it is gone */
        _Atomic(CUkernel) kernel;         /* once found */
        _Atomic size_t bytes;             /* of a variable; 0: a function */
        void **_Atomic managed;           /* the variable that shall point to it */
        struct rt_name *next;             /* with the same hash, latest first */
};

/* The kernel of a record, loading what is necessary. */
CUresult rt_name_kernel(struct rt_name *name, CUkernel *ret);
/* What a program calls a function: its host address, where it has one, else the function itself. */
void *rt_function_host(CUfunction function);
