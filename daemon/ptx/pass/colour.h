/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coloured kernels: parameters that point to tensors whose bytes lie in sectors of some memory channels only
 *
 * Memory belongs to channels in pieces that are much smaller than a page, so a tensor that is to lie in some channels
 * is not contiguous: it has *sectors* of 2^sector_bits bytes here and there. The kernel does not see that. It is given
 * *logical* addresses, a linear range in a window of addresses where nothing is mapped, and all its arithmetic stays as
 * it is; the address of each access is translated right before it:
 *
 *   REGULAR   every 2^shift-th sector of a pool, in order: two integer operations, as in the SGDRC paper (section 6):
 *             physical = pool + (sector << (sector_bits + shift)) + rest
 *   TABLE     any sectors of a pool, one u32 in the device's memory for each logical one:
 *             physical = pool + ((u64)table[sector] << sector_bits) + rest
 *
 * where sector = (L - window) >> sector_bits and rest = L & (2^sector_bits - 1). The window is no operand: what it
 * takes away is folded into the two addresses that a launch is given (ds_ptx_colour_set).
 *
 * The coloured form of kernel K has K's parameters, unchanged, and struct ds_ptx_colour behind them, aligned to 8. It
 * is named K__ds_colour_MASK: MASK, in hexadecimal digits, says which parameters are coloured (bit i: the i-th). All
 * of them are of one window, one pool and one table; they may be the same tensor, or parts of one.
 *
 * A coloured parameter must be a pointer of 64 bits whose every use is known: what is reached through it and no other
 * way, by accesses that are aligned to their own size (others fault, coloured or not), so none is in two sectors.
 * Where an access may also go somewhere else, or the pointer may be kept by somebody (stored, given to a function,
 * taken apart), the kernel is refused, with the reason and the line. Results are those of the native kernel on linear
 * tensors to the last bit: addresses are compared with each other and with numbers as before, and the low 8 bits of a
 * logical address are those of a linear one, for sectors begin at multiples of 256 at least.
 *
 * Forms compose: a coloured kernel is one like others for the passes slice and preempt (forms.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptx/ir.h"

#define DS_PTX_COLOUR_SUFFIX "__ds_colour_" /* MASK follows */
#define DS_PTX_COLOUR_SECTOR_MIN 8u         /* bits: an access of 32 bytes, and alignments that compilers ask for */
#define DS_PTX_COLOUR_SECTOR_MAX 21u        /* a page */
#define DS_PTX_COLOUR_SHIFT_MAX 8u
#define DS_PTX_COLOUR_PARAMS 64u /* that a mask can name */
/* Instructions that are looked at to follow addresses, for all that is wanted of a module at once: whoever wants more
 * would keep others waiting. A form takes some 5 to 10 for each instruction of its kernel. */
#define DS_PTX_COLOUR_STEPS_MAX (UINT64_C(4) << 20)

/* Changes when the same module would give other text: part of what compiled images are kept by. */
#define DS_PTX_COLOUR_VERSION 1u

enum ds_ptx_colour_kind {
        DS_PTX_COLOUR_REGULAR,
        DS_PTX_COLOUR_TABLE,
        _DS_PTX_COLOUR_KIND_MAX,
};

/* What is compiled into the kernels */
struct ds_ptx_colour_layout {
        uint8_t kind;        /* enum ds_ptx_colour_kind */
        uint8_t sector_bits; /* DS_PTX_COLOUR_SECTOR_MIN .. MAX */
        uint8_t shift;       /* REGULAR: 0 .. DS_PTX_COLOUR_SHIFT_MAX; TABLE: 0 */
};

/* The last parameter of a coloured kernel; 16 bytes. Made by ds_ptx_colour_set alone. */
struct ds_ptx_colour {
        uint64_t pool;
        uint64_t table;
};

/* Whether the layout is one that kernels can have */
bool ds_ptx_colour_layout_is_good(const struct ds_ptx_colour_layout *layout);

/*
 * The parameter for launches on this window, pool and table (0 with REGULAR). Addresses in bytes: window and size cover
 * all coloured tensors; pool is where the sector 0 of the REGULAR layout, or the one that the table calls 0, begins;
 * the table's entry 0 is that of the window's first sector, its address a multiple of 4. false, with nothing filled:
 * window or pool are no multiples of a sector, or the window passes a multiple of 2^(32 + sector_bits), which a table
 * cannot have.
 */
bool ds_ptx_colour_set(const struct ds_ptx_colour_layout *layout, uint64_t window, uint64_t size, uint64_t pool,
        uint64_t table, struct ds_ptx_colour *ret);
/* Where a byte lies: what a coloured kernel computes. For who copies and for tests. entry: of the table, TABLE only. */
uint64_t ds_ptx_colour_place(const struct ds_ptx_colour_layout *layout, const struct ds_ptx_colour *colour,
        uint64_t logical, uint32_t entry);

/* "KERNEL__ds_colour_MASK". false: it does not fit, or a name like it does not exist (mask 0). */
bool ds_ptx_colour_name(const char *kernel, uint64_t mask, char *buffer, size_t size);

/* A coloured form that is wanted of a module */
struct ds_ptx_colour_want {
        const char *kernel;
        uint64_t mask; /* not 0 */
};

/* What became of it */
struct ds_ptx_colour_verdict {
        bool made;
        uint32_t line;     /* where the reason is, 0: nowhere in particular */
        char reason[160];  /* "" when it is made */
        uint32_t accesses; /* instructions that are translated */
};

/*
 * A module that has the kernels of `module`, word by word, and behind them the coloured forms that are wanted. limit:
 * bytes of the new module's arena, 0 for the default. ret_verdicts: n of them. Wanting the same twice is refused the
 * second time, and so is what is left when DS_PTX_COLOUR_STEPS_MAX are done. Returns 0 and the new module (also where
 * it has no form), -ENOMEM, -EINVAL for a layout that is none, or DS_PTX_E_INVALID with diagnostics about the text that
 * was made, which is a defect.
 */
int ds_ptx_colour_make(const struct ds_ptx_module *module, const struct ds_ptx_colour_want *wants, size_t n,
        const struct ds_ptx_colour_layout *layout, size_t limit, struct ds_ptx_diags *diags, struct ds_ptx_module **ret,
        struct ds_ptx_colour_verdict *ret_verdicts);
/* The verdict alone, of any layout. Returns 0 or -ENOMEM. */
int ds_ptx_colour_judge(const struct ds_ptx_module *module, const struct ds_ptx_colour_want *want,
        struct ds_ptx_colour_verdict *ret_verdict);

/* What is known of one parameter of a kernel */
struct ds_ptx_colour_param {
        bool pointer;  /* something in memory is reached through it */
        bool possible; /* it can be coloured, if all of `with` are; both only of pointers */
        uint64_t with; /* mask: itself, and those that are reached by the same instructions */
        uint32_t line; /* of a pointer that cannot be: as in a verdict */
        char reason[160];
        uint32_t loads, stores; /* instructions that read, write (atomics: both) through it */
};

/*
 * Of each parameter of the kernel (a function with a body), the first DS_PTX_COLOUR_PARAMS: ret_params has as many
 * entries as it has parameters at most. ret_most: the largest mask that can be coloured, 0: none. Returns 0 or -ENOMEM.
 */
int ds_ptx_colour_params(const struct ds_ptx_module *module, const struct ds_ptx_function *kernel,
        struct ds_ptx_colour_param *ret_params, uint64_t *ret_most);
