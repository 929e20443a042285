/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coloured kernels: parameters that point to tensors in sectors of chosen memory channels
 *
 * A colour is a set of memory channels. Memory belongs to channels in pieces much smaller than a page. So a tensor in
 * chosen channels is not contiguous: it has scattered *sectors* of 2^sector_bits bytes. The kernel does not see that.
 * It gets *logical* addresses, a linear range in a window of addresses where nothing is mapped, and all its arithmetic
 * stays unchanged. The address of each access is translated directly before it:
 *
 *   REGULAR   every 2^shift-th sector of a pool, in order: two integer operations, as in the SGDRC paper (section 6):
 *             physical = pool + (sector << (sector_bits + shift)) + rest
 *   TABLE     any sectors of a pool, one u32 in the device's memory for each logical one:
 *             physical = pool + ((u64)table[sector] << sector_bits) + rest
 *
 * where sector = (L - window) >> sector_bits and rest = L & (2^sector_bits - 1). The window is no operand: its
 * subtraction is folded into the two addresses that a launch gets (ds_ptx_colour_set).
 *
 * The coloured form of kernel K has K's parameters, unchanged, and behind them struct ds_ptx_colour, aligned to 8. It
 * is named K__ds_colour_MASK: MASK, in hexadecimal digits, says which parameters are coloured (bit i: the i-th). All of
 * them share one window, one pool and one table; they may be the same tensor, or parts of one.
 *
 * A coloured parameter must be a 64-bit pointer whose every use is known. Its tensor is reached only through it, by
 * accesses that are aligned to their own size (others fault, coloured or not), so no access touches two sectors. The
 * kernel is refused, with reason and line, if an access may also go elsewhere, or if the pointer may be kept (stored,
 * passed to a function, split into parts). Results equal those of the native kernel on linear tensors to the last bit:
 * comparisons of addresses with each other and with numbers have the same result. The low 8 bits of a logical address
 * are those of a linear one, because sectors begin at multiples of 256 at least.
 *
 * Forms can be combined: the passes slice and preempt treat a coloured kernel like any other (forms.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptx/ir.h"

#define DS_PTX_COLOUR_SUFFIX "__ds_colour_" /* part of a coloured kernel's name; MASK follows */
/* least log2 of the bytes of a sector: fits an access of 32 bytes, and the alignments that compilers request */
#define DS_PTX_COLOUR_SECTOR_MIN 8u
#define DS_PTX_COLOUR_SECTOR_MAX 21u /* largest log2 of the bytes of a sector: a page */
#define DS_PTX_COLOUR_SHIFT_MAX 8u
#define DS_PTX_COLOUR_PARAMS 64u /* number of parameters that a mask can name */
/* Most instructions analysed to follow addresses, for all requested forms of a module together: a larger request
 * would make other requests wait. A form takes some 5 to 10 steps per instruction of its kernel. */
#define DS_PTX_COLOUR_STEPS_MAX (UINT64_C(4) << 20)

/* Version of the generated code, part of the key of cached compiled images. It must change whenever the same module
 * gives another text. */
#define DS_PTX_COLOUR_VERSION 1u

enum ds_ptx_colour_kind {
        DS_PTX_COLOUR_REGULAR,
        DS_PTX_COLOUR_TABLE,
        _DS_PTX_COLOUR_KIND_MAX,
};

/* The layout that is compiled into kernels */
struct ds_ptx_colour_layout {
        uint8_t kind;        /* enum ds_ptx_colour_kind */
        uint8_t sector_bits; /* DS_PTX_COLOUR_SECTOR_MIN .. MAX */
        uint8_t shift;       /* REGULAR: 0 .. DS_PTX_COLOUR_SHIFT_MAX; TABLE: 0 */
};

/* The last parameter of a coloured kernel; 16 bytes. Made only by ds_ptx_colour_set. */
struct ds_ptx_colour {
        uint64_t pool;
        uint64_t table;
};

/* Whether kernels can have this layout */
bool ds_ptx_colour_layout_is_good(const struct ds_ptx_colour_layout *layout);

/*
 * Computes the parameter for launches on this window, pool and table (0 with REGULAR). Addresses are in bytes. window
 * and size cover all coloured tensors. pool is the begin of sector 0 of the REGULAR layout, or of the table's sector 0.
 * The table's entry 0 belongs to the window's first sector; its address is a multiple of 4. Returns false, with nothing
 * filled, if window or pool are not multiples of a sector, or if the window crosses a multiple of 2^(32 + sector_bits),
 * which a table cannot represent.
 */
bool ds_ptx_colour_set(const struct ds_ptx_colour_layout *layout, uint64_t window, uint64_t size, uint64_t pool,
        uint64_t table, struct ds_ptx_colour *ret);
/* Physical address of a byte, as a coloured kernel computes it; for copies and tests. entry: the table's entry for
 * the byte's sector, only for TABLE */
uint64_t ds_ptx_colour_place(const struct ds_ptx_colour_layout *layout, const struct ds_ptx_colour *colour,
        uint64_t logical, uint32_t entry);

/* Writes the form's name "KERNEL__ds_colour_MASK". false: the name does not fit, or there is no such form (mask 0). */
bool ds_ptx_colour_name(const char *kernel, uint64_t mask, char *buffer, size_t size);

/* A request for a coloured form of one of a module's kernels. */
struct ds_ptx_colour_want {
        const char *kernel;
        uint64_t mask; /* parameters to colour; not 0 */
};

/* The result for one request */
struct ds_ptx_colour_verdict {
        bool made;
        uint32_t line;     /* line of the reason; 0: no particular line */
        char reason[160];  /* "" if the form was made */
        uint32_t accesses; /* number of instructions whose address is translated */
};

/*
 * Makes a module with the kernels of `module`, unchanged, and behind them the requested coloured forms. limit: bytes of
 * the new module's arena, 0 for the default. ret_verdicts: n entries. The second of two equal requests is refused, and
 * so are the remaining requests after DS_PTX_COLOUR_STEPS_MAX steps. Returns 0 and the new module (even without any
 * form), -ENOMEM, -EINVAL for an invalid layout, or DS_PTX_E_INVALID with diagnostics about the generated text, which
 * is a defect.
 */
int ds_ptx_colour_make(const struct ds_ptx_module *module, const struct ds_ptx_colour_want *wants, size_t n,
        const struct ds_ptx_colour_layout *layout, size_t limit, struct ds_ptx_diags *diags, struct ds_ptx_module **ret,
        struct ds_ptx_colour_verdict *ret_verdicts);
/* Finds only the verdict for a request; it is the same for any layout. Returns 0 or -ENOMEM. */
int ds_ptx_colour_judge(const struct ds_ptx_module *module, const struct ds_ptx_colour_want *want,
        struct ds_ptx_colour_verdict *ret_verdict);

/* Properties of one parameter of a kernel. */
struct ds_ptx_colour_param {
        bool pointer;  /* true: the kernel accesses memory through the parameter */
        bool possible; /* true: a pointer that can be coloured together with all of `with` */
        /* mask of the parameter itself and of the parameters that the same instructions access memory through */
        uint64_t with;
        uint32_t line; /* if it is a pointer that cannot be coloured: line of the reason */
        char reason[160];
        /* number of instructions that read or write through the parameter (atomics count in both) */
        uint32_t loads, stores;
};

/*
 * Facts about each parameter of the kernel (a function with a body), at most the first DS_PTX_COLOUR_PARAMS.
 * ret_params: at most one entry per parameter. ret_most: the largest mask that can be coloured, 0: none. Returns 0 or
 * -ENOMEM.
 */
int ds_ptx_colour_params(const struct ds_ptx_module *module, const struct ds_ptx_function *kernel,
        struct ds_ptx_colour_param *ret_params, uint64_t *ret_most);
