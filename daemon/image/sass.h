/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine code of a cubin shows of its kernels: whether they wait for other blocks
 *
 * A kernel whose blocks wait for each other needs them all resident, and hangs where a mask or a neighbour keeps some
 * of them out. Libraries bring no PTX, so it is looked for in what runs. NVIDIA documents the names of the
 * instructions but not their bits. What is used here was found by compiling small kernels for sm_75 to sm_90a that
 * differ in one thing, and comparing the bytes with what nvdisasm prints; targets of jumps were compared with its
 * labels, over the libraries of the toolkit, too.
 *
 *   An instruction has 128 bits. 0..8 say which it is and 9..11 what form its operands have (1: three registers, 4: a
 *   number for the second, 5: a constant for the second), 12..14 the predicate that guards it (7: none) and 15 its
 *   sense. Registers are in 16..23 (result), 24..31, 32..39 and 64..71; 255 is the one that is zero. A number or the
 *   place of a constant (bank 54..58, byte offset 38..53) is in 32..63.
 *   Jumps: from the next instruction, words of four bytes; signed, 48 bits from 34 on up to sm_89; since sm_90 the
 *   lowest 8 bits of the distance are in 16..23 and the rest from 34 on. BSSY has the old form everywhere.
 *   Loads: how strong they are is in 77..80. sm_75: the scope in 77..78 and from 8 on strong; since sm_80 one number: 0
 *   plain, 4 for constant data, 5 for the block's SM, 7 for the GPU, 10 for the system.
 *   Atomics: which one is in 87..90 (0 add, 3 increment, 8 exchange); compare-and-swap is an instruction of its own,
 *   with what is compared in 32..39.
 *   BSSY names where threads meet again, BSYNC (same barrier, 16..19) goes there. Tables of jumps are listed in
 *   .nv.info of the function, attribute 0x34: place, 0, count, targets.
 *   The size of dynamic shared memory is in constant bank 0 at 0x2c; that of all shared memory is special register
 *   0x32 (72..79).
 *
 * A kernel waits when a loop of it asks memory what others did, and goes by it: by a load that is strong for the GPU or
 * the system and whose value comes to a predicate, to other threads or to where it is not followed (a sum over volatile
 * memory does not); by an atomic; or by calling a function that may ask. Two ways of asking get ahead by themselves and
 * are none: a compare-and-swap with what the last one found or a load brought, and an addition of something. A loop is
 * what can come again by the jumps, whatever decides about it. So it errs to one side: a kernel without the bit does
 * not wait, as far as its code shows; plain loads, textures and surfaces are not taken for asking, for a compiler may
 * keep what they brought, and what goes through the GPU's memory is not followed. Among those that have the bit are
 * kernels that wait for earlier blocks only (look-back, serial split-K), and some that wait for nobody: that claim
 * places of a table by compare-and-swap, or take a maximum of volatile memory. Code that is not understood (of sm_100
 * and later, jumps to unknown places, more than 4 MiB, loops in loops without end) counts as waiting when it has any
 * instruction that asks. Images whose sections of code share bytes, and names of more than 16 KiB, no compiler makes:
 * they are not looked into.
 *
 * The bytes may come from a client: everything is checked, and time and memory are bounded by the size of the code.
 * Nothing is read before a kernel is asked for but the table of symbols.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct ds_sass ds_sass;

struct ds_sass_kernel {
        uint32_t waits;
        uint32_t sees_shared; /* may look at the size of its shared memory */
};

/* Contract codes */
#define DS_SASS_E_NOT 1 /* not a cubin, or a damaged one */

/* The image stays the caller's and must outlive it. 0, DS_SASS_E_NOT or -ENOMEM. */
int ds_sass_open(const void *image, size_t size, ds_sass **ret);
ds_sass *ds_sass_free(ds_sass *sass);
/* One that is not there, or whose code is not, has every bit. 0 or -ENOMEM. */
int ds_sass_kernel(ds_sass *sass, const char *name, struct ds_sass_kernel *ret);
/* Kernels by number, from 0: for tools. NULL past the last. */
const char *ds_sass_kernel_name(const ds_sass *sass, size_t index);

static inline void ds_sass_freep(ds_sass **p)
{
        *p = ds_sass_free(*p);
}
