/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Properties of kernels from a cubin's machine code: whether their blocks wait for other blocks
 *
 * A kernel whose blocks wait for each other needs them all resident. It hangs if a mask or another kernel keeps some of
 * them out. Libraries contain no PTX, so this module analyses the machine code. NVIDIA documents the names of the
 * instructions but not their bits. The encoding below was found by compiling small kernels for sm_75 to sm_90a that
 * differ in one thing, and comparing the bits with the output of nvdisasm. Jump targets were compared with its labels,
 * over the toolkit's libraries, too.
 *
 *   An instruction has 128 bits. 0..8: opcode. 9..11: form of its operands (1: three registers, 4: a number for the
 *   second, 5: a constant for the second). 12..14: the predicate that guards it (7: none), 15: its sense. Registers:
 *   16..23 (result), 24..31, 32..39 and 64..71; 255 is the register that is always zero. 32..63: a number, or the
 *   address of a constant (bank 54..58, byte offset 38..53).
 *   Jumps: relative to the next instruction, in words of four bytes, signed. Up to sm_89: 48 bits from 34; since sm_90
 *   the lowest 8 bits of the distance are in 16..23 and the rest from 34 on. BSSY has the old form everywhere.
 *   Loads: 77..80 hold the memory order. sm_75: the scope in 77..78, strong from 8 on; since sm_80 one number: 0
 *   plain, 4 constant data, 5 strong for the block's SM, 7 for the GPU, 10 for the system.
 *   Atomics: operation in 87..90 (0 add, 3 increment, 8 exchange). Compare-and-swap is an instruction of its own, with
 *   the compared value in 32..39.
 *   BSSY names the point where threads reconverge; BSYNC (same barrier, 16..19) jumps there. Jump tables are listed in
 *   the function's .nv.info, attribute 0x34: place, 0, count, targets.
 *   The size of dynamic shared memory is in constant bank 0 at 0x2c; that of all shared memory is special register
 *   0x32 (72..79).
 *
 * A kernel counts as waiting if a loop of it polls memory for results of others ("asks" in names) and depends on the
 * result. It polls by a load that is strong for the GPU or the system, if the value reaches a predicate, other threads,
 * or a place where it is not followed (a sum over volatile memory does not count); by an atomic; or by a call of a
 * function that may poll. Two kinds of atomics make progress by themselves and do not count: a compare-and-swap with
 * the value that the last one or a load returned, and an addition of a nonzero value. A loop is any code that can be
 * reached again by jumps, whatever their condition.
 *
 * Errors go to one side: a kernel without the bit does not wait, as far as its code shows. Plain loads, textures and
 * surfaces do not count as polling, because a compiler may cache their values; values passed through the GPU's memory
 * are not followed. Kernels with the bit include some that wait only for earlier blocks (look-back, serial split-K),
 * and some that do not wait: they reserve table entries by compare-and-swap, or take a maximum of volatile memory. Code
 * that cannot be analysed (sm_100 and later, jumps to unknown places, more than 4 MiB, too deeply nested loops) counts
 * as waiting if it has any polling instruction. Images whose code sections share bytes, and names of more than 16 KiB,
 * do not come from a compiler and are not analysed.
 *
 * The bytes may come from a client: everything is checked, and time and memory are bounded by the size of the code.
 * Only the symbol table is read before the first query of a kernel.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct ds_sass ds_sass;

struct ds_sass_kernel {
        uint32_t waits;
        uint32_t sees_shared; /* 1: the kernel may read the size of its shared memory */
};

/* Positive return codes */
#define DS_SASS_E_NOT 1 /* the image is not a cubin, or a damaged one */

/* Opens a cubin. The caller keeps the image, which must stay valid as long as *ret. Returns 0, DS_SASS_E_NOT or
 * -ENOMEM. */
int ds_sass_open(const void *image, size_t size, ds_sass **ret);
ds_sass *ds_sass_free(ds_sass *sass);
/* Returns the properties of a kernel. If there is no such kernel, or it has no code, every bit is set. Returns 0 or
 * -ENOMEM. */
int ds_sass_kernel(ds_sass *sass, const char *name, struct ds_sass_kernel *ret);
/* Name of the index-th kernel, counted from 0, for tools. NULL behind the last one. */
const char *ds_sass_kernel_name(const ds_sass *sass, size_t index);

static inline void ds_sass_freep(ds_sass **p)
{
        *p = ds_sass_free(*p);
}
