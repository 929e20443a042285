/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registration by compiled programs: images of code, and the host addresses that name their functions and variables
 *
 * nvcc's output calls __cudaRegisterFatBinary from a constructor, names each kernel by the address of its stub and each
 * variable by the address of its shadow, and unregisters at exit or when the library is unloaded. An image is read only
 * when something of it is used; errors in it are returned then, each time.
 *
 * Two libraries may register the same address (a template instance that the linker merged). The later registration is
 * used; when its library goes, the earlier one is. Records are reused but never freed, because compiled code keeps
 * their addresses (__cudaGetKernel). Their number is bounded by the kernels and variables that the process has had.
 */
#pragma once

#include <stdatomic.h>

#include "cudart/rt.h"

struct rt_binary;

struct rt_name {
        const void *host;
        const char *_Atomic device;       /* string in the binary */
        struct rt_binary *_Atomic binary; /* NULL: the binary was unloaded */
        _Atomic(CUkernel) kernel;         /* set at the first use */
        _Atomic size_t bytes;             /* size of a variable; 0: a function */
        void **_Atomic managed;           /* the program's pointer to this managed variable */
        struct rt_name *next;             /* next with the same hash, newest first */
};

/* The kernel of a record; loads its code if necessary. */
CUresult rt_name_kernel(struct rt_name *name, CUkernel *ret);
/* The program's name of a function: its host address if it has one, else the function itself. */
void *rt_function_host(CUfunction function);
