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
        const char *_Atomic device;       /* name of the kernel or variable in device code, a string in the binary */
        struct rt_binary *_Atomic binary; /* NULL: the binary was unloaded */
        _Atomic(CUkernel) kernel;         /* kernel of the driver; NULL until it is first used */
        _Atomic size_t bytes;             /* size of the variable, bytes; 0: the record is of a function */
        void **_Atomic managed;           /* program's pointer to this managed variable; NULL: not managed */
        struct rt_name *next;             /* next record with the same hash; the newest comes first */
};

/* *ret: the kernel of a record. Loads the binary's code if necessary. */
CUresult rt_name_kernel(struct rt_name *name, CUkernel *ret);
/* Returns what a program passes as this function: its host address if it has one, else the function handle. */
void *rt_function_host(CUfunction function);
