/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution order of a function, and its number of live registers
 *
 * When a warp has diverged, the group that is furthest behind continues (flow.c). "Behind" is a rank per operation:
 * reverse postorder of the control-flow graph. In that order a block follows all blocks that can reach it except
 * through a loop's back edge, and all of a loop precedes the code after it. The traversal gets the latter by visiting
 * first the successors that leave the innermost loop. So lanes that leave a branch or loop early wait where the others
 * arrive. For graphs of unstructured programs (or too large to analyse in linear time) any order is correct, only
 * slower; then it is the order of the text.
 */
#include <errno.h>

#include "ptx/interp/core.h"
#include "util/alloc.h"
#include "util/error.h"

#define NONE UINT32_MAX
#define EFFORT_PER_BLOCK 64 /* most steps of loop analysis per block; beyond that the analysis is abandoned */

struct block {
        uint32_t first, last;  /* indices of the first and the last operation */
        uint32_t n_next, next; /* successors: n_next entries of graph.edges from index next */
        uint32_t order;        /* position in reverse postorder; NONE: unreachable */
        uint32_t dominator;    /* number of the immediate dominator block */
        /* number of the header block of the innermost loop around this block; NONE: in no loop */
        uint32_t loop;
        uint32_t outer; /* if the block is a loop's header: header of the enclosing loop */
};

struct graph {
        const ds_ix_func *func;
        uint32_t n, n_edges;
        struct block *block;
        uint32_t *of; /* number of the block that contains each operation */
        uint32_t *edges;
        uint32_t *sequence; /* blocks in reverse postorder */
        uint32_t n_sequence;
        uint64_t effort;
};

static int ends_block(const ds_ix_op *op)
{
        return op->fn == ds_ix_bra || op->fn == ds_ix_bra_if || op->fn == ds_ix_brx || op->fn == ds_ix_ret ||
               op->fn == ds_ix_exit || op->fn == ds_ix_fall;
}

static uint32_t index_of(const ds_ix_func *func, const ds_ix_op *op)
{
        return (uint32_t)(op - func->ops);
}

/* Jump targets of op, without the next operation; returns their number. */
static uint32_t targets_of(const ds_ix_op *op, const ds_ix_op *const **ret)
{
        if (op->fn == ds_ix_bra || op->fn == ds_ix_bra_if) {
                *ret = &op->target;
                return 1;
        }
        if (op->fn == ds_ix_brx) {
                const struct ds_ix_table *table = op->ext;

                *ret = table->target;
                return table->n;
        }
        return 0;
}

static int falls_through(const ds_ix_op *op)
{
        if (op->fn == ds_ix_bra)
                return 0;
        if (op->fn == ds_ix_ret || op->fn == ds_ix_exit || op->fn == ds_ix_brx)
                return op->guard != DS_IX_NO_SLOT;
        return 1;
}

/* --- the graph --- */
static int make_blocks(struct graph *g)
{
        const ds_ix_func *func = g->func;
        const ds_ix_op *const *target;
        uint32_t n = 0;

        g->of = ds_alloc0(func->n_ops + 1, sizeof(*g->of));
        if (!g->of)
                return ds_error_origin(-ENOMEM);
        g->of[0] = 1;
        for (uint32_t i = 0; i < func->n_ops; i++) {
                uint32_t n_targets = targets_of(&func->ops[i], &target);

                if (ends_block(&func->ops[i]))
                        g->of[i + 1] = 1;
                for (uint32_t k = 0; k < n_targets; k++)
                        g->of[index_of(func, target[k])] = 1;
                g->n_edges += n_targets + 1;
        }
        for (uint32_t i = 0; i < func->n_ops; i++) {
                n += g->of[i];
                g->of[i] = n - 1;
        }
        g->n = n;
        g->block = ds_alloc0(n, sizeof(*g->block));
        g->edges = ds_alloc0(g->n_edges + 1, sizeof(*g->edges));
        g->sequence = ds_alloc0(n, sizeof(*g->sequence));
        return g->block && g->edges && g->sequence ? 0 : ds_error_origin(-ENOMEM);
}

static void make_edges(struct graph *g)
{
        const ds_ix_func *func = g->func;
        const ds_ix_op *const *target;
        uint32_t used = 0;

        for (uint32_t i = 0; i < func->n_ops; i++) {
                if (i == 0 || g->of[i] != g->of[i - 1])
                        g->block[g->of[i]].first = i;
                g->block[g->of[i]].last = i;
        }
        for (uint32_t b = 0; b < g->n; b++) {
                struct block *block = &g->block[b];
                const ds_ix_op *last = &func->ops[block->last];
                uint32_t n = targets_of(last, &target);

                block->next = used;
                block->order = block->dominator = block->loop = block->outer = NONE;
                for (uint32_t k = 0; k < n; k++)
                        g->edges[used++] = g->of[index_of(func, target[k])];
                if (falls_through(last) && b + 1 < g->n)
                        g->edges[used++] = b + 1;
                block->n_next = used - block->next;
        }
}

/* --- reverse postorder --- */
/* Whether block `inner` is in the loop of header `loop` */
static int in_loop(struct graph *g, uint32_t inner, uint32_t loop)
{
        for (uint32_t l = g->block[inner].loop; l != NONE; l = g->block[l].outer) {
                g->effort++;
                if (l == loop)
                        return 1;
        }
        return 0;
}

/* The k-th successor of block b to visit: successors that leave b's innermost loop come first. */
static uint32_t successor(struct graph *g, uint32_t b, uint32_t k)
{
        const struct block *block = &g->block[b];

        if (block->loop == NONE || block->n_next != 2)
                return g->edges[block->next + k];
        uint32_t first = g->edges[block->next];

        return in_loop(g, first, block->loop) ? g->edges[block->next + 1 - k] : g->edges[block->next + k];
}

static int too_much(const struct graph *g)
{
        return g->effort > (uint64_t)EFFORT_PER_BLOCK * (g->n + 1024);
}

/* Depth-first traversal that sets the blocks' order. stack: pairs of a block and its next successor to visit. If it
 * takes too many steps, the blocks get no order. */
static void postorder(struct graph *g, uint32_t *stack)
{
        uint32_t depth = 1, left = g->n;

        for (uint32_t b = 0; b < g->n; b++)
                g->block[b].order = NONE;
        stack[0] = 0;
        stack[1] = 0;
        g->block[0].order = 0;
        while (depth && !too_much(g)) {
                uint32_t b = stack[2 * depth - 2], k = stack[2 * depth - 1]++;

                if (k >= g->block[b].n_next) {
                        g->sequence[--left] = b;
                        depth--;
                        continue;
                }
                b = successor(g, b, k);
                if (g->block[b].order != NONE)
                        continue;
                g->block[b].order = 0;
                stack[2 * depth] = b;
                stack[2 * depth + 1] = 0;
                depth++;
        }
        g->n_sequence = g->n - left;
        memmove(g->sequence, g->sequence + left, g->n_sequence * sizeof(*g->sequence));
        for (uint32_t i = 0; i < g->n_sequence; i++)
                g->block[g->sequence[i]].order = i;
}

/* --- loops --- */
static uint32_t intersect(struct graph *g, uint32_t a, uint32_t b)
{
        while (a != b) {
                g->effort++;
                if (g->block[a].order > g->block[b].order)
                        a = g->block[a].dominator;
                else
                        b = g->block[b].dominator;
        }
        return a;
}

/* Finds immediate dominators by iteration to a fixed point; returns 0 if it takes too many steps. */
static int dominators(struct graph *g)
{
        int changed = 1;

        g->block[0].dominator = 0;
        while (changed) {
                changed = 0;
                for (uint32_t i = 0; i < g->n_sequence; i++) {
                        uint32_t b = g->sequence[i];

                        for (uint32_t k = 0; k < g->block[b].n_next; k++) {
                                uint32_t s = g->edges[g->block[b].next + k], d = g->block[s].dominator;
                                uint32_t new = d == NONE ? b : intersect(g, b, d);

                                changed |= new != d;
                                g->block[s].dominator = new;
                                g->effort++;
                                if (too_much(g))
                                        return 0;
                        }
                }
        }
        return 1;
}

static int dominates(struct graph *g, uint32_t a, uint32_t b)
{
        while (g->block[b].order > g->block[a].order) {
                g->effort++;
                b = g->block[b].dominator;
        }
        return a == b;
}

/* Header of the outermost loop around b that is known so far; b itself if there is none. */
static uint32_t outermost(struct graph *g, uint32_t b)
{
        uint32_t l = g->block[b].loop;

        if (l == NONE)
                return b;
        for (; g->block[l].outer != NONE; g->effort++)
                l = g->block[l].outer;
        return l;
}

/* Adds all blocks that reach `latch` without passing `header` to the header's loop; loops found earlier among them
 * become inner loops. */
static void mark_loop(struct graph *g, uint32_t header, uint32_t latch, const uint32_t *before_of,
        const uint32_t *before, uint32_t *stack)
{
        uint32_t depth = 0;

        stack[depth++] = latch;
        while (depth && !too_much(g)) {
                uint32_t b = outermost(g, stack[--depth]);

                g->effort++;
                if (b == header)
                        continue;
                if (g->block[b].loop == b)
                        g->block[b].outer = header;
                else
                        g->block[b].loop = header;
                for (uint32_t k = before_of[b]; k < before_of[b + 1]; k++) {
                        if (depth <= g->n_edges)
                                stack[depth++] = before[k];
                }
        }
}

/* Lists the predecessors of every block: before[before_of[b] .. before_of[b + 1]) for block b. */
static void invert(const struct graph *g, uint32_t *before_of, uint32_t *before)
{
        for (uint32_t b = 0; b < g->n; b++) {
                for (uint32_t k = 0; g->block[b].order != NONE && k < g->block[b].n_next; k++)
                        before_of[g->edges[g->block[b].next + k] + 1]++;
        }
        for (uint32_t b = 0; b < g->n; b++)
                before_of[b + 1] += before_of[b];
        for (uint32_t b = 0; b < g->n; b++) {
                for (uint32_t k = 0; g->block[b].order != NONE && k < g->block[b].n_next; k++)
                        before[before_of[g->edges[g->block[b].next + k]]++] = b;
        }
        memmove(before_of + 1, before_of, g->n * sizeof(*before_of));
        before_of[0] = 0;
}

/* Finds natural loops, inner ones first, by visiting headers in descending order. */
static int find_loops(struct graph *g)
{
        uint32_t *before_of = ds_alloc0(g->n + 2, sizeof(*before_of)),
                 *before = ds_alloc0(g->n_edges + 1, sizeof(*before));
        uint32_t *stack = ds_alloc0(g->n_edges + 2, sizeof(*stack));
        int r = before_of && before && stack ? 0 : ds_error_origin(-ENOMEM);

        if (!r)
                invert(g, before_of, before);
        for (uint32_t i = r ? 0 : g->n_sequence; i-- > 0 && !too_much(g);) {
                uint32_t header = g->sequence[i];

                for (uint32_t k = before_of[header]; k < before_of[header + 1] && !too_much(g); k++) {
                        uint32_t latch = before[k];

                        if (g->block[latch].order < i || !dominates(g, header, latch))
                                continue;
                        if (g->block[header].loop == NONE)
                                g->block[header].loop = header;
                        if (latch != header)
                                mark_loop(g, header, latch, before_of, before, stack);
                }
        }
        ds_free(before_of);
        ds_free(before);
        ds_free(stack);
        return r;
}

/* --- ranks --- */
static void assign(ds_ix_func *func, const struct graph *g)
{
        uint32_t next = 0;

        for (uint32_t i = 0; i < g->n_sequence; i++) {
                const struct block *block = &g->block[g->sequence[i]];

                for (uint32_t k = block->first; k <= block->last; k++)
                        func->rank[k] = next++;
        }
}

static int order_graph(ds_ix_func *func, struct graph *g)
{
        uint32_t *stack;
        int r = make_blocks(g);

        if (r)
                return r;
        make_edges(g);
        stack = ds_alloc0((size_t)g->n + 1, 2 * sizeof(*stack));
        if (!stack)
                return ds_error_origin(-ENOMEM);
        postorder(g, stack);
        if (dominators(g)) {
                r = find_loops(g);
                if (!r && !too_much(g)) {
                        /* the second traversal searches nested loops, so it may again use the full number of steps */
                        g->effort = 0;
                        postorder(g, stack);
                        if (!too_much(g))
                                assign(func, g);
                }
        }
        ds_free(stack);
        return r;
}

int ds_ix_order(ds_ix_func *func, ds_arena *arena)
{
        struct graph g = {.func = func};
        int r;

        func->rank = ds_arena_alloc(arena, func->n_ops, sizeof(*func->rank));
        if (!func->rank)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < func->n_ops; i++)
                func->rank[i] = i;
        r = order_graph(func, &g);
        ds_free(g.of);
        ds_free(g.block);
        ds_free(g.edges);
        ds_free(g.sequence);
        return ds_error_trace(r);
}

/* --- registers --- */
struct span {
        uint32_t first, last;
};

static void touch(struct span *span, uint32_t reg, uint32_t n_regs, uint32_t at)
{
        if (reg >= n_regs)
                return;
        span[reg].first = DS_MIN(span[reg].first, at);
        span[reg].last = DS_MAX(span[reg].last, at);
}

static void touch_operand(struct span *span, const struct ds_ptx_operand *o, uint32_t n_regs, uint32_t at)
{
        switch (o->kind) {
        case DS_PTX_OPERAND_PAIR:
                touch(span, o->pair, n_regs, at);
                touch(span, o->reg, n_regs, at);
                break;
        case DS_PTX_OPERAND_REG:
        case DS_PTX_OPERAND_ADDRESS:
                touch(span, o->reg, n_regs, at);
                break;
        case DS_PTX_OPERAND_VECTOR:
                for (uint32_t k = 0; k < o->n_elements; k++)
                        touch(span, o->elements[k].kind == DS_PTX_OPERAND_REG ? o->elements[k].reg : NONE, n_regs, at);
                break;
        default:
                break;
        }
}

/* Extends live ranges: a register live at a loop's top and used in the loop is live to the loop's end. */
static void stretch(const struct ds_ptx_function *f, struct span *span)
{
        uint64_t effort = 0;

        for (uint32_t i = 0; i < f->n_instrs; i++) {
                const struct ds_ptx_instr *in = &f->instrs[i];
                uint32_t top;

                if (in->op != DS_PTX_OP_BRA || in->n_operands < 1 || in->operands[0].kind != DS_PTX_OPERAND_LABEL)
                        continue;
                top = f->labels[in->operands[0].label].instr;
                effort += f->n_regs;
                if (top > i || effort > 20000000)
                        continue;
                for (uint32_t r = 0; r < f->n_regs; r++) {
                        if (span[r].first < top && span[r].last >= top && span[r].last < i)
                                span[r].last = i;
                }
        }
}

int ds_ix_estimate_registers(const struct ds_ptx_function *f, uint32_t *ret_registers)
{
        struct span *span = ds_alloc0(f->n_regs + 1, sizeof(*span));
        int32_t *change = ds_alloc0((size_t)f->n_instrs + 2, sizeof(*change)), live = 0, most = 0;

        if (!span || !change) {
                ds_free(span);
                ds_free(change);
                return ds_error_origin(-ENOMEM);
        }
        for (uint32_t r = 0; r < f->n_regs; r++)
                span[r].first = NONE;
        for (uint32_t i = 0; i < f->n_instrs; i++) {
                touch(span, f->instrs[i].guard, f->n_regs, i);
                for (uint32_t k = 0; k < f->instrs[i].n_operands; k++)
                        touch_operand(span, &f->instrs[i].operands[k], f->n_regs, i);
        }
        stretch(f, span);
        for (uint32_t r = 0; r < f->n_regs; r++) {
                int32_t words = (int32_t)DS_DIV_UP(ds_ptx_type_bits((enum ds_ptx_type)f->regs[r].type), 32);

                if (span[r].first == NONE || f->regs[r].type == DS_PTX_TYPE_PRED)
                        continue;
                change[span[r].first] += words;
                change[span[r].last + 1] -= words;
        }
        for (uint32_t i = 0; i < f->n_instrs; i++) {
                live += change[i];
                most = DS_MAX(most, live);
        }
        ds_free(span);
        ds_free(change);
        *ret_registers = (uint32_t)most;
        return 0;
}
