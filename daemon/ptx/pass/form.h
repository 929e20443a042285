/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared code of the passes that make forms of kernels (a form is a transformed variant of a kernel, see forms.h)
 *
 *   form_check.c   reasons against a form, and what it needs if there are none
 *   form_index.c   the block's index and the grid's size as values, also in functions that the kernel calls
 *   slice.c        the sliced form
 *   preempt.c      the persistent form
 *   forms_make.c   a module that has all of them
 *
 * A form is written into a function of an edit: the kernel itself, if a pass transforms it in place, or a copy of it.
 * Functions that read the index or the grid are always copied, since native kernels call them as well. The copies read
 * both from a variable in shared memory, the board.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ptx/pass/forms.h"
#include "ptx/pass/pass.h"

/*
 * Offsets in the board, a variable in shared memory with .b32 values at 16-byte boundaries. Called functions read only
 * NOW and GRID. The board counts as static shared memory of every kernel that uses it.
 */
enum ds_ptx_board {
        DS_PTX_BOARD_NOW = 0, /* index x, y, z of the running block, and the state of its worker */
        /* two slots of x, y, z and a flag "there is a block": written by the first thread for all others */
        DS_PTX_BOARD_GIVE = 16,
        /* only for the first thread: x, y, z of its next block, and number of blocks left in its ticket */
        DS_PTX_BOARD_OWN = 48,
        /* only for the first thread: number of tickets taken; whether a block has run; kind of the held value */
        DS_PTX_BOARD_TAKEN = 64,
        DS_PTX_BOARD_GRID = 80, /* grid size x, y, z */
        /* size of the board; a multiple of 128 keeps the alignment of variables behind it, even if that was
         * accidental */
        DS_PTX_BOARD_BYTES = 128,
};

#define DS_PTX_STATIC_SHARED_MAX 49152u
#define DS_PTX_SHARED_ALIGN 1024 /* largest alignment that any instruction requires of shared memory */

/* State of turning one kernel into a form. */
struct ds_ptx_form_plan {
        const struct ds_ptx_function *kernel;
        enum ds_ptx_form form;
        /* the kernel and all its direct and indirect callees; valid until the next check */
        const struct ds_ptx_function *const *functions;
        uint32_t n_functions;
        bool asks;        /* true: some of the functions read the block index or the grid size */
        bool board;       /* true: the form has a board */
        uint32_t barrier; /* number of a barrier that the kernel does not use */
        /* for each instruction, whether lanes leave there, as ds_ptx_flow_leavers reports it; NULL: no lane leaves
         * while others wait for it */
        const uint8_t *leaves;
        /* asynchronous work that must end before the next block; objects: mbarriers must be invalidated */
        bool copies, bulk, wgmma, objects;
        /* true: dynamic shared memory may need the same alignment as without the board */
        bool aligns;
        uint32_t lookups; /* number of searches so far for the instruction that writes a register */
        uint32_t line;    /* if the form is refused: line of the reason, 0: no particular line */
        char reason[160];
};

/* State shared by the forms of all kernels in one edit of a module. */
struct ds_ptx_form_run {
        const struct ds_ptx_module *module;
        const struct ds_ptx_facts *facts;
        ds_ptx_edit *edit;
        ds_arena *arena;
        /* for each function, 1 if it or a callee reads the block index or the grid size */
        uint8_t *asks;
        const struct ds_ptx_function **copy; /* for each function, its copy that reads the board; NULL: not made */
        uint8_t *copy_done;                  /* for each function, 1 if the edits of its copy are done */
        uint8_t *reached;                    /* for each function, 1 if it is in `list` */
        const struct ds_ptx_function **list; /* functions of the last plan */
        bool copied;
        bool has_board, aligned;
        /* names of the board variable, and of a temporary 32-bit register */
        char board[DS_PTX_NAME_MAX], wide[DS_PTX_NAME_MAX];
};

/* Prepares the state, with all its memory in the arena. 0 or -ENOMEM. */
int ds_ptx_form_begin(struct ds_ptx_form_run *run, const struct ds_ptx_module *module, const struct ds_ptx_facts *facts,
        ds_ptx_edit *edit, ds_arena *arena);

/* Whether the kernel can have the form. 0: yes, with *ret filled; DS_PTX_FORM_E_REFUSED: no, with line and reason in
 * *ret; or -ENOMEM. */
#define DS_PTX_FORM_E_REFUSED 1
int ds_ptx_form_check(struct ds_ptx_form_run *run, const struct ds_ptx_function *kernel, enum ds_ptx_form form,
        struct ds_ptx_form_plan *ret);

/*
 * Write a kernel's form into the function `to`, the plan's kernel or a copy of it, as notes of the edit. The edit
 * reports failures.
 */
void ds_ptx_form_slice(
        struct ds_ptx_form_run *run, const struct ds_ptx_form_plan *plan, const struct ds_ptx_function *to);
void ds_ptx_form_preempt(
        struct ds_ptx_form_run *run, const struct ds_ptx_form_plan *plan, const struct ds_ptx_function *to);

/* Runs a pass that replaces kernels by their form. */
int ds_ptx_form_pass(struct ds_ptx_pass_run *run, enum ds_ptx_form form);

/* Name of the board, the variable in shared memory with the form's values. The first call declares it in the module. */
const char *ds_ptx_form_board(struct ds_ptx_form_run *run);
/* Declares a variable that keeps dynamic shared memory aligned as in the native kernel. */
void ds_ptx_form_align(struct ds_ptx_form_run *run);
/* Adds the form's parameter (struct ds_ptx_virtual) to a kernel; name: receives the parameter's name. */
void ds_ptx_form_parameter(struct ds_ptx_form_run *run, const struct ds_ptx_function *to, char name[DS_PTX_NAME_MAX]);
/*
 * Replaces reads of the block index and grid size, and calls of functions that read them, in `to`. xyz: registers that
 * hold the index, valid in the first `leading` instructions; later instructions read the board.
 */
void ds_ptx_form_index(struct ds_ptx_form_run *run, const struct ds_ptx_form_plan *plan,
        const struct ds_ptx_function *to, const char *parameter, const char *const xyz[3], uint32_t leading);
/* Whether an instruction of the function reads the block index, from number `first` on. */
bool ds_ptx_form_reads_index(const struct ds_ptx_function *function, uint32_t first);
/* Whether the instruction reads the block index or the grid size. */
bool ds_ptx_form_asks(const struct ds_ptx_instr *instr);
/* Whether lanes of a warp execute the instruction together; its last operand names the lanes. */
bool ds_ptx_form_is_together(const struct ds_ptx_instr *instr);
/* Definition of the function that a call names; NULL for an indirect call. */
const struct ds_ptx_function *ds_ptx_form_called(const struct ds_ptx_instr *instr);
