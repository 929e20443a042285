/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preempt: workers that take blocks from a counter and can be stopped (forms.h, persistent)
 *
 * The kernel's body becomes the body of a loop. The block's first thread checks for a stop request and takes tickets. A
 * ticket is a range of `chunk` blocks from the counter. The first thread writes the index of the next block to a board
 * in shared memory, alternating between two slots, so that one barrier per block is enough: a slow thread reads one
 * slot while the first thread writes the other. Each thread reads the number of the current slot from the board before
 * the barrier, where it cannot change. So no register of the loop is live while the body runs. The body reads the index
 * from registers in its first instructions, and from the board later. Every thread writes the same values to the place
 * that it reads later, behind the barrier that all have reached, when no thread is in the body.
 *
 * A ticket of one block is taken when the worker has nothing else to do. Then the whole block waits for two memory
 * latencies, one after the other: too long for blocks of a few us. With larger tickets the last but one block begins
 * with a read of the stop word. The last block begins with taking the next ticket, unless a stop was requested or the
 * worker has reached its limit. Only the first thread waits for the result, at the block's end. So one register of the
 * first thread, the held one, is live in the body; the board notes its meaning. A ticket taken in this way is run even
 * if a stop request comes meanwhile. So after the request a worker does at most the rest of its last two blocks and one
 * ticket. It still runs its tickets in increasing order. So the lowest unfinished block is always running, and blocks
 * that wait for lower ones make progress.
 *
 * Threads that leave the body come to the tail. Kernels whose threads may leave while others still wait for the whole
 * block have no such form: a barrier does not wait for exited threads, but it does for those at the tail.
 *
 * Instructions that lanes of a warp execute together name lanes, and exited lanes need not come. So each branch behind
 * which some lanes never reach such an instruction again counts the remaining lanes, and only those are named.
 *
 * The barrier between two blocks has a number that the kernel does not use. Asynchronous copies and matrix products
 * that the body began and did not wait for are waited for before it. mbarriers are invalidated before they are
 * initialised again. The last worker that leaves, if no block is left, records that in the control block and resets the
 * counter.
 */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/pass/flow.h"
#include "ptx/pass/form.h"
#include "ptx/print.h"
#include "util/error.h"
#include "util/macro.h"

enum name {
        X,
        Y,
        Z,
        TURN,
        T,
        P,
        HELD,
        LANES,
        BEGIN,
        TAKE,
        ASK,
        HAVE,
        GIVE,
        AHEAD,
        ENOUGH,
        PUT,
        NOTHING,
        WAIT,
        TAIL,
        LEAVE,
        OUT,
        _NAMES
};
static const char *const stems[_NAMES] = {"%ds_x", "%ds_y", "%ds_z", "%ds_turn", "%ds_t", "%ds_p", "%ds_held",
        "%ds_lanes", "$L_ds_begin", "$L_ds_take", "$L_ds_ask", "$L_ds_have", "$L_ds_give", "$L_ds_ahead",
        "$L_ds_enough", "$L_ds_put", "$L_ds_nothing", "$L_ds_wait", "$L_ds_tail", "$L_ds_leave", "$L_ds_out"};
static const char *const keys[_NAMES] = {"x", "y", "z", "turn", "t", "p", "held", "lanes", "begin", "take", "ask",
        "have", "give", "ahead", "enough", "put", "nothing", "wait", "tail", "leave", "out"};

/* template bindings in addition to the names above */
enum more { PARAM, BOARD, FIRST, LOAD, ATOMIC, COUNT, FENCE, MEET, _MORE };
static const char *const more_keys[_MORE] = {"param", "board", "first", "load", "atomic", "count", "fence", "meet"};

/* sets the predicate p to false in the block's first thread, and to true in all other threads */
static const char first_text[] = "\tmov.u32 %ds_a, %tid.x;\n\tmov.u32 %ds_b, %tid.y;\n\tor.b32 %ds_a, %ds_a, %ds_b;\n"
                                 "\tmov.u32 %ds_b, %tid.z;\n\tor.b32 %ds_a, %ds_a, %ds_b;\n"
                                 "\tsetp.ne.u32 %ds_p, %ds_a, 0;";

static const char top_text[] = "\t.reg .pred #p;\n\t.reg .b32 #x, #y, #z, #turn, #t, #held;\n"
                               "\t{\n\t.reg .pred %ds_p;\n\t.reg .b32 %ds_a, %ds_b;\n"
                               "#first\n"
                               "\tmov.u32 #turn, 0;\n"
                               "\t@%ds_p bra #begin;\n"
                               "\tst.shared.u32 [#board+60], #turn;\n" /* the ticket has no block left */
                               "\tst.shared.u32 [#board+64], #turn;\n"
                               "\tst.shared.u32 [#board+68], #turn;\n"
                               "\tst.shared.u32 [#board+72], #turn;\n"
                               "\t}\n"
                               "#begin:";

static const char grid_text[] = "\t{\n\t.reg .b32 %ds_a;\n"
                                "\tld.param.u32 %ds_a, [#param+8];\n\tst.shared.u32 [#board+80], %ds_a;\n"
                                "\tld.param.u32 %ds_a, [#param+12];\n\tst.shared.u32 [#board+84], %ds_a;\n"
                                "\tld.param.u32 %ds_a, [#param+16];\n\tst.shared.u32 [#board+88], %ds_a;\n"
                                "\t}";

/* The first thread takes the next block of its ticket, and increments the index. */
static const char next_text[] = "\t{\n\t.reg .pred %ds_p;\n\t.reg .b32 %ds_a, %ds_b, %ds_c, %ds_d, %ds_e;\n"
                                "\t.reg .b64 %ds_control, %ds_wide;\n"
                                "#first\n"
                                "\t@%ds_p bra #wait;\n"
                                "\tld.shared.v4.u32 {%ds_a, %ds_b, %ds_c, %ds_d}, [#board+48];\n"
                                "\tsetp.eq.u32 %ds_p, %ds_d, 0;\n"
                                "\t@%ds_p bra #take;\n"
                                "\tsub.u32 %ds_d, %ds_d, 1;\n"
                                "\tadd.u32 %ds_a, %ds_a, 1;\n"
                                "\tld.param.u32 %ds_e, [#param+8];\n"
                                "\tsetp.lt.u32 %ds_p, %ds_a, %ds_e;\n"
                                "\t@%ds_p bra #give;\n"
                                "\tmov.u32 %ds_a, 0;\n"
                                "\tadd.u32 %ds_b, %ds_b, 1;\n"
                                "\tld.param.u32 %ds_e, [#param+12];\n"
                                "\tsetp.lt.u32 %ds_p, %ds_b, %ds_e;\n"
                                "\t@%ds_p bra #give;\n"
                                "\tmov.u32 %ds_b, 0;\n"
                                "\tadd.u32 %ds_c, %ds_c, 1;\n"
                                "\tbra #give;";

/*
 * Address of the control block. The first thread's tid.x, which is 0, is added to hide from the assembler that all
 * lanes count in one place: it would then let one lane count for a warp and distribute the result, which waits for it.
 */
#define CONTROL                                                                                   \
        "\tld.param.u64 %ds_control, [#param];\n\tcvta.to.global.u64 %ds_control, %ds_control;\n" \
        "\tmov.u32 %ds_e, %tid.x;\n\tcvt.u64.u32 %ds_wide, %ds_e;\n"                              \
        "\tadd.u64 %ds_control, %ds_control, %ds_wide;\n"

/*
 * Takes the held ticket, or a new one unless the limit is reached, a stop is requested, or no block is left. Kinds of
 * the held value: 0: nothing, 1: the stop word, 2: a ticket, 3: nothing, until the end.
 */
static const char take_text[] = "#take:\n"
                                "\tld.shared.u32 %ds_e, [#board+72];\n"
                                "\tsetp.eq.u32 %ds_p, %ds_e, 3;\n"
                                "\t@%ds_p bra #nothing;\n"
                                "\tsetp.ne.u32 %ds_p, %ds_e, 2;\n"
                                "\t@%ds_p bra #ask;\n"
                                "\tmov.u32 %ds_a, #held;\n"
                                "\tmov.u32 %ds_e, 0;\n"
                                "\tst.shared.u32 [#board+72], %ds_e;\n"
                                "\tld.param.u32 %ds_d, [#param+32];\n" /* chunk */
                                "\tbra #have;\n"
                                "#ask:\n"
                                "\tld.shared.u32 %ds_e, [#board+64];\n"
                                "\tld.param.u32 %ds_a, [#param+36];\n" /* most (tickets per worker) */
                                "\tsetp.ne.u32 %ds_p, %ds_a, 0;\n"
                                "\tsetp.ge.and.u32 %ds_p, %ds_e, %ds_a, %ds_p;\n"
                                "\t@%ds_p bra #nothing;\n"
                                "\tadd.u32 %ds_e, %ds_e, 1;\n"
                                "\tst.shared.u32 [#board+64], %ds_e;\n" CONTROL "\t#load %ds_a, [%ds_control];\n"
                                "\tld.param.u32 %ds_b, [#param+28];\n" /* epoch */
                                "\tsetp.eq.u32 %ds_p, %ds_a, %ds_b;\n"
                                "\t@%ds_p bra #nothing;\n"
                                "\tld.param.u32 %ds_d, [#param+32];\n" /* chunk */
                                "\t#atomic.add.u32 %ds_a, [%ds_control+4], %ds_d;\n"
                                "#have:\n"
                                "\tld.param.u32 %ds_e, [#param+20];\n" /* n_blocks */
                                "\tsetp.ge.u32 %ds_p, %ds_a, %ds_e;\n"
                                "\t@%ds_p bra #nothing;\n"
                                "\tsub.u32 %ds_b, %ds_e, %ds_a;\n"
                                "\tmin.u32 %ds_d, %ds_d, %ds_b;\n"
                                "\tsub.u32 %ds_d, %ds_d, 1;\n"
                                "\tmov.u32 %ds_b, 0;\n\tmov.u32 %ds_c, 0;\n"
                                "\tld.param.u32 #t, [#param+8];\n"
                                "\tsetp.eq.u32 %ds_p, #t, %ds_e;\n"
                                "\t@%ds_p bra #give;\n"
                                "\tdiv.u32 %ds_b, %ds_a, #t;\n\tmul.lo.u32 %ds_e, %ds_b, #t;\n"
                                "\tsub.u32 %ds_a, %ds_a, %ds_e;\n"
                                "\tld.param.u32 #t, [#param+12];\n"
                                "\tdiv.u32 %ds_c, %ds_b, #t;\n\tmul.lo.u32 %ds_e, %ds_c, #t;\n"
                                "\tsub.u32 %ds_b, %ds_b, %ds_e;";

/* Before the last block but one of a ticket: reads the stop word. Its value is checked before the last block. */
static const char give_text[] = "#give:\n"
                                "\tst.shared.v4.u32 [#board+48], {%ds_a, %ds_b, %ds_c, %ds_d};\n"
                                "\tsetp.gt.u32 %ds_p, %ds_d, 1;\n"
                                "\t@%ds_p bra #put;\n" CONTROL "\tld.shared.u32 %ds_e, [#board+72];\n"
                                "\tsetp.eq.u32 %ds_p, %ds_d, 0;\n"
                                "\t@%ds_p bra #ahead;\n"
                                "\t#load #held, [%ds_control];\n"
                                "\tmov.u32 %ds_e, 1;\n"
                                "\tst.shared.u32 [#board+72], %ds_e;\n"
                                "\tbra #put;";

/* Before the last block of a ticket: takes the next ticket, if the stop word was read and no stop is requested. */
static const char ahead_text[] = "#ahead:\n"
                                 "\tsetp.ne.u32 %ds_p, %ds_e, 1;\n"
                                 "\t@%ds_p bra #put;\n"
                                 "\tld.param.u32 %ds_e, [#param+28];\n" /* epoch */
                                 "\tsetp.eq.u32 %ds_p, #held, %ds_e;\n"
                                 "\t@%ds_p bra #enough;\n"
                                 "\tld.shared.u32 %ds_e, [#board+64];\n"
                                 "\tld.param.u32 %ds_d, [#param+36];\n" /* most (tickets per worker) */
                                 "\tsetp.ne.u32 %ds_p, %ds_d, 0;\n"
                                 "\tsetp.ge.and.u32 %ds_p, %ds_e, %ds_d, %ds_p;\n"
                                 "\t@%ds_p bra #enough;\n"
                                 "\tadd.u32 %ds_e, %ds_e, 1;\n"
                                 "\tst.shared.u32 [#board+64], %ds_e;\n"
                                 "\tld.param.u32 %ds_d, [#param+32];\n" /* chunk */
                                 "\t#atomic.add.u32 #held, [%ds_control+4], %ds_d;\n"
                                 "\tmov.u32 %ds_e, 2;\n"
                                 "\tst.shared.u32 [#board+72], %ds_e;\n"
                                 "\tbra #put;\n"
                                 "#enough:\n"
                                 "\tmov.u32 %ds_e, 3;\n"
                                 "\tst.shared.u32 [#board+72], %ds_e;\n"
                                 "#put:\n"
                                 "\tmov.u32 %ds_d, 1;";
static const char put_text[] = "\tmov.u32 %ds_e, #board;\n"
                               "\tsub.u32 %ds_e, %ds_e, #turn;\n"
                               "\tst.shared.v4.u32 [%ds_e+32], {%ds_a, %ds_b, %ds_c, %ds_d};\n"
                               "\tbra #wait;\n"
                               "#nothing:\n"
                               "\tmov.u32 %ds_e, #board;\n"
                               "\tsub.u32 %ds_e, %ds_e, #turn;\n"
                               "\tmov.u32 %ds_d, 0;\n"
                               "\tst.shared.u32 [%ds_e+44], %ds_d;\n"
                               "\t}";

/* Records whether a block has run already, for kernels whose form must know that. */
static const char ran_text[] = "\tld.shared.u32 %ds_e, [#board+68];\n"
                               "\tadd.u32 %ds_d, %ds_d, %ds_e;\n"
                               "\tmov.u32 %ds_e, 256;\n"
                               "\tst.shared.u32 [#board+68], %ds_e;";

static const char wait_text[] = "#wait:\n"
                                "#meet"
                                "\txor.b32 #turn, #turn, 16;\n"
                                "\tmov.u32 #t, #board;\n"
                                "\tadd.u32 #t, #t, #turn;\n"
                                "\tld.shared.v4.u32 {#x, #y, #z, #t}, [#t+16];\n"
                                "\tsetp.eq.u32 #p, #t, 0;\n"
                                "\t@#p bra #leave;";

/* Keep on the board the index and slot that the body reads later, or only the number of the slot. */
static const char keep_all[] = "\tand.b32 #t, #t, 256;\n\tor.b32 #t, #t, #turn;\n"
                               "\tst.shared.v4.u32 [#board], {#x, #y, #z, #t};";
static const char keep_turn[] = "\tand.b32 #t, #t, 256;\n\tor.b32 #t, #t, #turn;\n"
                                "\tst.shared.u32 [#board+12], #t;";

static const char tail_text[] = "\tld.volatile.shared.u32 #turn, [#board+12];\n"
                                "\tand.b32 #turn, #turn, 16;\n"
                                "\tbra #begin;\n"
                                "#leave:\n"
                                "\t{\n\t.reg .pred %ds_p;\n\t.reg .b32 %ds_a, %ds_b;\n\t.reg .b64 %ds_control;\n"
                                "#first\n"
                                "\t@%ds_p bra #out;\n"
                                "\tld.param.u64 %ds_control, [#param];\n"
                                "\tcvta.to.global.u64 %ds_control, %ds_control;\n"
                                "\tmov.u32 %ds_a, %nctaid.x;\n\tsub.u32 %ds_a, %ds_a, 1;\n"
                                "#fence"
                                "\t#count %ds_b, [%ds_control+8], %ds_a;\n"
                                "#fence"
                                "\tsetp.ne.u32 %ds_p, %ds_b, %ds_a;\n"
                                "\t@%ds_p bra #out;\n"
                                "\t#load %ds_a, [%ds_control+4];\n"
                                "\tld.param.u32 %ds_b, [#param+20];\n"
                                "\tsetp.lt.u32 %ds_p, %ds_a, %ds_b;\n"
                                "\t@%ds_p bra #out;\n"
                                "\tmov.u32 %ds_a, 0;\n"
                                "\tst.global.u32 [%ds_control+4], %ds_a;\n"
                                "\tld.param.u32 %ds_b, [#param+28];\n"
                                "\tst.global.u32 [%ds_control+12], %ds_b;\n"
                                "\t}\n"
                                "#out:\n"
                                "\tret;";

_Static_assert(!offsetof(struct ds_ptx_virtual, control) && offsetof(struct ds_ptx_virtual, grid) == 8 &&
                       offsetof(struct ds_ptx_virtual, n_blocks) == 20 &&
                       offsetof(struct ds_ptx_virtual, epoch) == 28 && offsetof(struct ds_ptx_virtual, chunk) == 32 &&
                       offsetof(struct ds_ptx_virtual, most) == 36,
        "the texts above have these numbers");
_Static_assert(!offsetof(struct ds_ptx_control, stop) && offsetof(struct ds_ptx_control, next) == 4 &&
                       offsetof(struct ds_ptx_control, left) == 8 && offsetof(struct ds_ptx_control, completed) == 12,
        "and these");
_Static_assert(!DS_PTX_BOARD_NOW && DS_PTX_BOARD_GIVE == 16 && DS_PTX_BOARD_OWN == 48 && DS_PTX_BOARD_TAKEN == 64 &&
                       DS_PTX_BOARD_GRID == 80,
        "and these");

/* State of writing one kernel's persistent form. */
struct loop {
        struct ds_ptx_form_run *run;
        const struct ds_ptx_form_plan *plan;
        const struct ds_ptx_function *to;
        char names[_NAMES][DS_PTX_NAME_MAX], parameter[DS_PTX_NAME_MAX], meet[64];
        struct ds_ptx_binding bindings[_NAMES + _MORE];
};

static void bind(struct loop *l, enum more which, const char *text)
{
        l->bindings[_NAMES + which] = (struct ds_ptx_binding){more_keys[which], text};
}

static void bind_all(struct loop *l)
{
        const struct ds_ptx_module *m = l->run->module;
        bool new = m->target >= 70 && m->version >= 60;
        /* First the lanes of each warp meet, then all threads. If lanes of a warp may still work while others are
         * gone, the lanes meet only when all threads are there */
        static const char before[] = "\tbar.warp.sync -1;\n\tbar.sync %u;\n", alone[] = "\tbar.sync %u;\n",
                          after[] = "\tbarrier.sync %u;\n\tbar.warp.sync -1;\n";

        for (int i = 0; i < _NAMES; i++) {
                ds_ptx_edit_fresh(l->run->edit, stems[i], l->names[i]);
                l->bindings[i] = (struct ds_ptx_binding){keys[i], l->names[i]};
        }
        ds_ptx_form_parameter(l->run, l->to, l->parameter);
        bind(l, PARAM, l->parameter);
        bind(l, BOARD, ds_ptx_form_board(l->run));
        bind(l, FIRST, first_text);
        bind(l, LOAD, new ? "ld.relaxed.gpu.global.u32" : "ld.volatile.global.u32");
        bind(l, ATOMIC, new ? "atom.relaxed.gpu.global" : "atom.global");
        bind(l, FENCE, new ? "" : "\tmembar.gl;\n");
        bind(l, COUNT, new ? "atom.acq_rel.gpu.global.inc.u32" : "atom.global.inc.u32");
        snprintf(l->meet, sizeof(l->meet),
                l->plan->leaves    ? after
                : m->version >= 60 ? before
                                   : alone,
                l->plan->barrier);
        bind(l, MEET, l->meet);
}

static void top(struct loop *l, const char *text)
{
        ds_ptx_edit_top(l->run->edit, l->to, text, l->bindings, DS_ARRAY_SIZE(l->bindings));
}

static void end(struct loop *l, const char *text)
{
        ds_ptx_edit_before(l->run->edit, l->to, l->to->n_instrs, text, l->bindings, DS_ARRAY_SIZE(l->bindings));
}

/* --- the body --- */

/* Number of instructions at the body's start before the first label, jump, barrier or call. */
static uint32_t leading_of(const struct ds_ptx_function *f)
{
        uint32_t n = f->n_instrs;

        for (uint32_t i = 0; i < f->n_labels; i++)
                n = DS_MIN(n, f->labels[i].instr);
        for (uint32_t i = 0; i < n; i++) {
                const struct ds_ptx_op_info *info = ds_ptx_op_info((enum ds_ptx_op)f->instrs[i].op);

                if ((info->flags & (DS_PTX_BRANCH | DS_PTX_BARRIER)) || f->instrs[i].op == DS_PTX_OP_CALL)
                        n = i;
        }
        return n;
}

/*
 * Adds code that counts remaining lanes: each branch behind which some lanes never reach an instruction executed
 * together counts them, and these instructions name only the remaining ones.
 */
static void count_lanes(struct loop *l)
{
        const struct ds_ptx_function *f = l->to;

        for (uint32_t i = 0; i < f->n_instrs; i++) {
                const struct ds_ptx_instr *instr = &f->instrs[i];
                const struct ds_ptx_binding bindings[] = {{"lanes", l->names[LANES]},
                        {"not", (l->plan->leaves[i] == DS_PTX_FLOW_LEAVES_JUMP) != instr->guard_negated ? "!" : ""},
                        {"guard", l->plan->leaves[i] ? ds_ptx_edit_register(l->run->edit, f, instr->guard) : ""}};

                if (l->plan->leaves[i])
                        ds_ptx_edit_before(l->run->edit, f, i, "\tvote.sync.ballot.b32 #lanes, #not#guard, #lanes;",
                                bindings, DS_ARRAY_SIZE(bindings));
        }
}

/* Replaces the instruction's last operand, the mask of lanes, by the mask of the remaining lanes. */
static void name_lanes(struct loop *l, uint32_t at)
{
        const struct ds_ptx_instr *instr = &l->to->instrs[at];
        const char *mask = ds_ptx_edit_operand(l->run->edit, l->to, &instr->operands[instr->n_operands - 1]);
        const struct ds_ptx_binding bindings[] = {{"t", l->names[T]}, {"lanes", l->names[LANES]}, {"mask", mask}};
        char *text = NULL;
        size_t length = 0, behind = strlen(mask) + strlen(";\n");
        FILE *out = open_memstream(&text, &length);

        if (out)
                ds_ptx_print_instr(out, l->to, instr);
        if (!out || fprintf(out, "%s;", l->names[T]) < 0 || fclose(out)) {
                ds_ptx_edit_fail(l->run->edit);
                free(text);
                return;
        }
        /* replaces the old mask: turns "... mask;\n%t;" into "... %t;" */
        length -= strlen(l->names[T]) + 1;
        assert(length > behind);
        memmove(text + length - behind, text + length, strlen(l->names[T]) + 2);
        ds_ptx_edit_before(l->run->edit, l->to, at, "\tand.b32 #t, #lanes, #mask;", bindings, DS_ARRAY_SIZE(bindings));
        ds_ptx_edit_replace(l->run->edit, l->to, at, text, NULL, 0);
        free(text);
}

static void replace_leaving(struct loop *l)
{
        const struct ds_ptx_function *f = l->to;

        for (uint32_t i = 0; i < f->n_instrs; i++) {
                const struct ds_ptx_binding bindings[] = {
                        {"guard", ds_ptx_edit_guard(l->run->edit, f, &f->instrs[i])}, {"to", l->names[TAIL]}};

                if (f->instrs[i].op == DS_PTX_OP_RET || f->instrs[i].op == DS_PTX_OP_EXIT)
                        ds_ptx_edit_replace(l->run->edit, f, i, "\t#guard bra #to;", bindings, DS_ARRAY_SIZE(bindings));
        }
}

/* Adds code before the initialisation of each mbarrier that invalidates the one that the previous block left there. */
static void give_up_objects(struct loop *l)
{
        static const char text[] = "\tld.shared.u32 #t, [#board+12];\n"
                                   "\tsetp.gt#and.u32 #p, #t, 255#comma#not#guard;\n"
                                   "\t@#p mbarrier.inval#space.b64 #address;";
        const struct ds_ptx_function *f = l->to;

        for (uint32_t i = 0; i < f->n_instrs; i++) {
                const struct ds_ptx_instr *instr = &f->instrs[i];
                bool guarded = instr->guard != DS_PTX_NO_REG;
                const struct ds_ptx_binding bindings[] = {{"board", ds_ptx_form_board(l->run)}, {"t", l->names[T]},
                        {"p", l->names[P]}, {"and", guarded ? ".and" : ""}, {"comma", guarded ? ", " : ""},
                        {"not", guarded && instr->guard_negated ? "!" : ""},
                        {"guard", guarded ? ds_ptx_edit_register(l->run->edit, f, instr->guard) : ""},
                        {"space", ds_ptx_instr_space(instr) == DS_PTX_IN_SHARED ? ".shared" : ""},
                        {"address",
                                instr->n_operands ? ds_ptx_edit_operand(l->run->edit, f, &instr->operands[0]) : ""}};

                if (instr->op == DS_PTX_OP_MBARRIER_INIT)
                        ds_ptx_edit_before(l->run->edit, f, i, text, bindings, DS_ARRAY_SIZE(bindings));
        }
}

/* Adds code that waits for asynchronous work of the body. */
static void drain(struct loop *l)
{
        if (l->plan->copies)
                end(l, "\tcp.async.wait_all;");
        if (l->plan->bulk)
                end(l, "\tcp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group 0;\n\tfence.proxy.async;");
        if (l->plan->wgmma)
                end(l, "\tbar.warp.sync -1;\n\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;");
}

void ds_ptx_form_preempt(
        struct ds_ptx_form_run *run, const struct ds_ptx_form_plan *plan, const struct ds_ptx_function *to)
{
        struct loop l = {.run = run, .plan = plan, .to = to};
        uint32_t leading = leading_of(to);
        bool later = plan->asks || ds_ptx_form_reads_index(to, leading);

        bind_all(&l);
        if (plan->asks)
                top(&l, grid_text);
        top(&l, top_text);
        top(&l, next_text);
        top(&l, take_text);
        top(&l, give_text);
        top(&l, ahead_text);
        if (plan->objects)
                top(&l, ran_text);
        top(&l, put_text);
        top(&l, wait_text);
        top(&l, later ? keep_all : keep_turn);
        if (plan->leaves)
                top(&l, "\t.reg .b32 #lanes;\n\tmov.u32 #lanes, -1;");
        ds_ptx_form_index(
                run, plan, to, l.parameter, (const char *const[]){l.names[X], l.names[Y], l.names[Z]}, leading);
        replace_leaving(&l);
        if (plan->objects)
                give_up_objects(&l);
        if (plan->leaves)
                count_lanes(&l);
        for (uint32_t i = 0; i < to->n_instrs && plan->leaves; i++)
                if (ds_ptx_form_is_together(&to->instrs[i]))
                        name_lanes(&l, i);
        end(&l, "#tail:");
        drain(&l);
        end(&l, tail_text);
}

int ds_ptx_pass_preempt(struct ds_ptx_pass_run *run)
{
        return ds_ptx_form_pass(run, DS_PTX_FORM_PERSISTENT);
}
