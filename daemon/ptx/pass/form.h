/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the passes that make forms of kernels share (forms.h says what forms are)
 *
 *   form_check.c   what stands against a form, and what it needs where nothing does
 *   form_index.c   the block's index and the grid's size as values, also in functions that the kernel calls
 *   slice.c        the sliced form
 *   preempt.c      the persistent form
 *   forms_make.c   a module that has all of them
 *
 * A form is written into a function of an edit: the kernel itself, where a pass transforms it in place, or a copy of
 * it. Functions that ask for the index or the grid are always copied, since who stays native calls them as well; they
 * find both in a variable in shared memory, the board.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ptx/pass/forms.h"
#include "ptx/pass/pass.h"

/*
 * The board: .b32 at 16-byte boundaries. Only NOW and GRID are read by functions. It counts as static shared memory of
 * every kernel that uses it.
 */
enum ds_ptx_board {
        DS_PTX_BOARD_NOW = 0,     /* x, y, z of the block that runs, and the state of its worker */
        DS_PTX_BOARD_GIVE = 16,   /* twice x, y, z, and whether there is one: what the first thread gives the others */
        DS_PTX_BOARD_OWN = 48,    /* the first thread's: x, y, z, how many more it has taken */
        DS_PTX_BOARD_TAKEN = 64,  /* also its: how often it has taken; whether a block has run; what it holds */
        DS_PTX_BOARD_GRID = 80,   /* x, y, z */
        DS_PTX_BOARD_BYTES = 128, /* what lies behind it is aligned as before, also where that is luck */
};

#define DS_PTX_STATIC_SHARED_MAX 49152u
#define DS_PTX_SHARED_ALIGN 1024 /* the largest that any instruction asks of shared memory */

/* One kernel on its way to a form */
struct ds_ptx_form_plan {
        const struct ds_ptx_function *kernel;
        enum ds_ptx_form form;
        /* the kernel, and all that it and they call: good until the next check */
        const struct ds_ptx_function *const *functions;
        uint32_t n_functions;
        bool asks;             /* functions among them want the index or the grid */
        bool board;            /* there is a board */
        uint32_t barrier;      /* a number that nobody uses */
        const uint8_t *leaves; /* by instruction, as of ds_ptx_flow_leavers; NULL: nobody leaves who is waited for */
        bool copies, bulk, wgmma, objects; /* has such to drain; objects: barriers in memory to invalidate */
        bool aligns;      /* dynamic shared memory must begin where it would without the board, for all that is seen */
        uint32_t lookups; /* of where registers are written, so far */
        uint32_t line;    /* REFUSED: where, 0: nowhere in particular; and why */
        char reason[160];
};

/* What all kernels of one module's edit share */
struct ds_ptx_form_run {
        const struct ds_ptx_module *module;
        const struct ds_ptx_facts *facts;
        ds_ptx_edit *edit;
        ds_arena *arena;
        uint8_t *asks;                       /* by function: wants the index or the grid, or calls who does */
        const struct ds_ptx_function **copy; /* by function: the one that reads the board, NULL: not made */
        uint8_t *copy_done;                  /* by function: its copy has its edits */
        uint8_t *reached;                    /* by function: it is in the list */
        const struct ds_ptx_function **list; /* of the last plan */
        bool copied;
        bool has_board, aligned;
        char board[DS_PTX_NAME_MAX], wide[DS_PTX_NAME_MAX]; /* wide: a register for the moment */
};

/* 0 or -ENOMEM. All in it lives in the arena. */
int ds_ptx_form_begin(struct ds_ptx_form_run *run, const struct ds_ptx_module *module, const struct ds_ptx_facts *facts,
        ds_ptx_edit *edit, ds_arena *arena);

/* Whether the kernel can have the form. 0 with *ret filled, 1 with its line and reason, or -ENOMEM. */
#define DS_PTX_FORM_E_REFUSED 1
int ds_ptx_form_check(struct ds_ptx_form_run *run, const struct ds_ptx_function *kernel, enum ds_ptx_form form,
        struct ds_ptx_form_plan *ret);

/*
 * Note the form's edits in `to`: the plan's kernel or a copy of it. What goes wrong is the edit's to tell.
 */
void ds_ptx_form_slice(
        struct ds_ptx_form_run *run, const struct ds_ptx_form_plan *plan, const struct ds_ptx_function *to);
void ds_ptx_form_preempt(
        struct ds_ptx_form_run *run, const struct ds_ptx_form_plan *plan, const struct ds_ptx_function *to);

/* The pass that makes the form in place */
int ds_ptx_form_pass(struct ds_ptx_pass_run *run, enum ds_ptx_form form);

/* For the two: the board's name (declared with the first call); a parameter's name; the kernel's index as values */
const char *ds_ptx_form_board(struct ds_ptx_form_run *run);
/* Declares what keeps dynamic shared memory aligned as the native kernel finds it. */
void ds_ptx_form_align(struct ds_ptx_form_run *run);
/* Adds the parameter (struct ds_ptx_virtual). */
void ds_ptx_form_parameter(struct ds_ptx_form_run *run, const struct ds_ptx_function *to, char name[DS_PTX_NAME_MAX]);
/*
 * Index, grid and calls in `to`. xyz: registers that have the index in the first `leading` instructions; behind those
 * the board has it.
 */
void ds_ptx_form_index(struct ds_ptx_form_run *run, const struct ds_ptx_form_plan *plan,
        const struct ds_ptx_function *to, const char *parameter, const char *const xyz[3], uint32_t leading);
/* Whether some instruction from `first` on reads the index */
bool ds_ptx_form_reads_index(const struct ds_ptx_function *function, uint32_t first);
/* Whether the instruction reads the index or the grid */
bool ds_ptx_form_asks(const struct ds_ptx_instr *instr);
/* Lanes of a warp do it together, those that its last operand names */
bool ds_ptx_form_is_together(const struct ds_ptx_instr *instr);
/* The function that a call calls: its definition, NULL when it is indirect */
const struct ds_ptx_function *ds_ptx_form_called(const struct ds_ptx_instr *instr);
