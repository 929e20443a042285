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
 * The board: .b32 values at 16-byte boundaries. Functions read only NOW and GRID. It counts as static shared memory of
 * every kernel that uses it.
 */
enum ds_ptx_board {
        DS_PTX_BOARD_NOW = 0, /* x, y, z of the running block, and the state of its worker */
        /* two slots of x, y, z, and a flag for "there is one": from the first thread to the others */
        DS_PTX_BOARD_GIVE = 16,
        DS_PTX_BOARD_OWN = 48, /* only for the first thread: x, y, z, number of blocks left of its ticket */
        /* only for the first thread: tickets taken; whether a block has run; kind of the held value */
        DS_PTX_BOARD_TAKEN = 64,
        DS_PTX_BOARD_GRID = 80,   /* grid size x, y, z */
        DS_PTX_BOARD_BYTES = 128, /* variables behind it keep their alignment, even if that was accidental */
};

#define DS_PTX_STATIC_SHARED_MAX 49152u
#define DS_PTX_SHARED_ALIGN 1024 /* largest alignment that any instruction requires of shared memory */

/* State of turning one kernel into a form */
struct ds_ptx_form_plan {
        const struct ds_ptx_function *kernel;
        enum ds_ptx_form form;
        /* the kernel and all its direct and indirect callees; valid until the next check */
        const struct ds_ptx_function *const *functions;
        uint32_t n_functions;
        bool asks;             /* some of the functions read the index or the grid */
        bool board;            /* the form has a board */
        uint32_t barrier;      /* number of a barrier that the kernel does not use */
        const uint8_t *leaves; /* by instruction, from ds_ptx_flow_leavers; NULL: no lane leaves that others wait for */
        bool copies, bulk, wgmma, objects; /* asynchronous work to wait for; objects: mbarriers to invalidate */
        bool aligns;                       /* dynamic shared memory may need the same begin as without the board */
        uint32_t lookups;                  /* searches so far for the writer of a register */
        uint32_t line;                     /* REFUSED: line, 0: no particular line; and reason */
        char reason[160];
};

/* State shared by all kernels of one module's edit */
struct ds_ptx_form_run {
        const struct ds_ptx_module *module;
        const struct ds_ptx_facts *facts;
        ds_ptx_edit *edit;
        ds_arena *arena;
        uint8_t *asks;                       /* by function: it, or a callee, reads the index or the grid */
        const struct ds_ptx_function **copy; /* by function: its copy that reads the board; NULL: not made */
        uint8_t *copy_done;                  /* by function: the edits of its copy are done */
        uint8_t *reached;                    /* by function: it is in `list` */
        const struct ds_ptx_function **list; /* functions of the last plan */
        bool copied;
        bool has_board, aligned;
        char board[DS_PTX_NAME_MAX], wide[DS_PTX_NAME_MAX]; /* wide: a temporary register */
};

/* 0 or -ENOMEM. All its memory is in the arena. */
int ds_ptx_form_begin(struct ds_ptx_form_run *run, const struct ds_ptx_module *module, const struct ds_ptx_facts *facts,
        ds_ptx_edit *edit, ds_arena *arena);

/* Whether the kernel can have the form. 0 with *ret filled, 1 with line and reason in it, or -ENOMEM. */
#define DS_PTX_FORM_E_REFUSED 1
int ds_ptx_form_check(struct ds_ptx_form_run *run, const struct ds_ptx_function *kernel, enum ds_ptx_form form,
        struct ds_ptx_form_plan *ret);

/*
 * Notes the form's edits in `to`: the plan's kernel or a copy of it. The edit reports failures.
 */
void ds_ptx_form_slice(
        struct ds_ptx_form_run *run, const struct ds_ptx_form_plan *plan, const struct ds_ptx_function *to);
void ds_ptx_form_preempt(
        struct ds_ptx_form_run *run, const struct ds_ptx_form_plan *plan, const struct ds_ptx_function *to);

/* Pass function that makes the form in place */
int ds_ptx_form_pass(struct ds_ptx_pass_run *run, enum ds_ptx_form form);

/* For both forms: name of the board, declared by the first call */
const char *ds_ptx_form_board(struct ds_ptx_form_run *run);
/* Declares a variable that keeps dynamic shared memory aligned as in the native kernel. */
void ds_ptx_form_align(struct ds_ptx_form_run *run);
/* Adds the parameter (struct ds_ptx_virtual). */
void ds_ptx_form_parameter(struct ds_ptx_form_run *run, const struct ds_ptx_function *to, char name[DS_PTX_NAME_MAX]);
/*
 * Replaces reads of index and grid, and calls, in `to`. xyz: registers with the index, valid in the first `leading`
 * instructions; later ones read the board.
 */
void ds_ptx_form_index(struct ds_ptx_form_run *run, const struct ds_ptx_form_plan *plan,
        const struct ds_ptx_function *to, const char *parameter, const char *const xyz[3], uint32_t leading);
/* Whether an instruction from `first` on reads the index */
bool ds_ptx_form_reads_index(const struct ds_ptx_function *function, uint32_t first);
/* Whether the instruction reads the index or the grid */
bool ds_ptx_form_asks(const struct ds_ptx_instr *instr);
/* Whether lanes of a warp execute it together; its last operand names the lanes */
bool ds_ptx_form_is_together(const struct ds_ptx_instr *instr);
/* The definition of a called function; NULL for an indirect call */
const struct ds_ptx_function *ds_ptx_form_called(const struct ds_ptx_instr *instr);
