/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the loops of machine code, and whether they poll memory for results of others ("ask" in names)
 *
 * The code is divided into basic blocks with edges. BSYNC continues at the target of the latest BSSY on the path, so
 * the state of every barrier is propagated along the edges to a fixed point. A depth-first search yields the strongly
 * connected components (Tarjan, "Depth-first search and linear graph algorithms", 1972) and the back edges. Every cycle
 * contains a back edge, so each back edge defines a loop: the blocks that reach its source without passing its target.
 */
#include <errno.h>
#include <string.h>

#include "image/sass_code.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define INSTRS_MAX (DS_MIB(4) / SASS_BYTES)
/* effort per instruction, in steps of analysis; beyond it, any polling instruction counts */
#define EFFORT_PER_INSTR 64
#define EFFORT_MORE 65536
#define NOWHERE UINT32_MAX       /* state of a barrier that is not set */
#define SEVERAL (UINT32_MAX - 1) /* state of a barrier with more than one possible target */
#define SOURCES 256u             /* most sources of one value that are followed */

struct block {
        uint32_t first, end;     /* instructions [first, end) of the block */
        uint32_t succs, n_succs; /* successors: range in loops.succs */
        uint32_t preds, n_preds;
        uint32_t order, low; /* numbers of the depth-first search, from 1 */
        uint32_t component;  /* strongly connected component, counted from 1; 0: not known yet */
        uint32_t next;       /* number of the next successor to visit */
        uint32_t loop;       /* number of the latest loop that contains the block, from 1 */
        uint32_t called;     /* number of the latest call from which the block can be reached, from 1 */
        bool asks;           /* 1: the block may poll */
        bool pending, on_path;
};

struct loops {
        const struct sass_code *code;
        struct block *blocks;
        uint32_t n_blocks;
        uint32_t *block_of; /* block of each instruction; at first 1 for the first instruction of each block */
        uint32_t (*barriers)[SASS_BARRIERS];
        uint32_t *succs, *preds;
        size_t n_succs, room_succs;
        uint32_t *stack, *path, *back; /* stack, path: blocks; back: pairs of source and target */
        uint32_t n_back;
        uint64_t effort, effort_max;
        uint32_t n_loops, n_calls;
        int error;
        bool astray; /* 1: the target of some edge is unknown, so any polling instruction counts */
};

static void effort(struct loops *l, uint64_t more)
{
        l->effort += more;
        if (l->effort > l->effort_max)
                l->astray = true;
}

/* --- blocks --- */

static void mark_table(struct loops *l, uint32_t at)
{
        const uint8_t *words;
        uint32_t n, place;

        if (!sass_table(l->code, at, &words, &n)) {
                l->astray = true;
                return;
        }
        for (uint32_t i = 0; i < n; i++) {
                memcpy(&place, words + (size_t)i * 4, sizeof(place));
                if (place % SASS_BYTES || place / SASS_BYTES >= l->code->n)
                        l->astray = true;
                else
                        l->block_of[place / SASS_BYTES] = 1;
        }
        effort(l, n + l->code->info_size / SASS_BYTES);
}

static void mark_blocks(struct loops *l)
{
        const struct sass_code *code = l->code;
        uint32_t target;

        l->block_of[0] = 1;
        for (uint32_t i = 0; i < code->n && !l->astray; i++) {
                enum sass_flow flow = sass_flow(code, i, &target);

                if (flow == SASS_ON || flow == SASS_CALL_ELSEWHERE)
                        continue;
                if (flow == SASS_JUMP || flow == SASS_FORK || flow == SASS_CALL || flow == SASS_BARRIER_SET)
                        l->block_of[target] = 1;
                if (flow == SASS_TABLE)
                        mark_table(l, i);
                if (flow != SASS_CALL && flow != SASS_BARRIER_SET && i + 1 < code->n)
                        l->block_of[i + 1] = 1;
                l->astray |= flow == SASS_ASTRAY;
        }
}

static int make_blocks(struct loops *l)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < l->code->n; i++)
                n += l->block_of[i];
        l->blocks = ds_alloc0(n, sizeof(*l->blocks));
        l->barriers = ds_alloc0(n, sizeof(*l->barriers));
        l->stack = ds_alloc0(n, sizeof(*l->stack));
        l->path = ds_alloc0(n, sizeof(*l->path));
        if (!l->blocks || !l->barriers || !l->stack || !l->path)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < l->code->n; i++) {
                if (l->block_of[i])
                        l->blocks[l->n_blocks++].first = i;
                l->block_of[i] = l->n_blocks - 1;
                l->blocks[l->n_blocks - 1].end = i + 1;
        }
        memset(l->barriers, 0xff, (size_t)n * sizeof(*l->barriers));
        return 0;
}

/* --- edges --- */

typedef void (*edge_fn)(struct loops *l, uint32_t from, uint32_t to, const uint32_t *barriers);

static void each_of_table(struct loops *l, uint32_t block, const uint32_t *barriers, edge_fn edge)
{
        const uint8_t *words;
        uint32_t n = 0, place;

        if (!sass_table(l->code, l->blocks[block].end - 1, &words, &n))
                return;
        effort(l, n + l->code->info_size / SASS_BYTES);
        for (uint32_t i = 0; i < n && !l->astray; i++) {
                memcpy(&place, words + (size_t)i * 4, sizeof(place));
                edge(l, block, l->block_of[place / SASS_BYTES], barriers);
        }
}

/* Calls edge() for each outgoing edge of the block, with the barriers' states at that edge. */
static void each_edge(struct loops *l, uint32_t block, edge_fn edge)
{
        const struct block *b = &l->blocks[block];
        uint32_t barriers[SASS_BARRIERS], target = 0, last = b->end - 1;
        enum sass_flow flow = SASS_ON;
        bool on, guarded = sass_guarded(sass_at(l->code, last));

        memcpy(barriers, l->barriers[block], sizeof(barriers));
        for (uint32_t i = b->first; i < b->end; i++) {
                flow = sass_flow(l->code, i, &target);
                if (flow == SASS_BARRIER_SET)
                        barriers[sass_barrier(sass_at(l->code, i))] = l->block_of[target];
        }
        effort(l, b->end - b->first);
        on = guarded || flow == SASS_ON || flow == SASS_FORK || flow == SASS_CALL || flow == SASS_CALL_ELSEWHERE ||
             flow == SASS_BARRIER_SET;
        if (flow == SASS_JUMP || flow == SASS_FORK)
                edge(l, block, l->block_of[target], barriers);
        if (flow == SASS_TABLE)
                each_of_table(l, block, barriers, edge);
        if (flow == SASS_BARRIER_SYNC) {
                uint32_t leads = barriers[sass_barrier(sass_at(l->code, last))];

                if (leads < l->n_blocks)
                        edge(l, block, leads, barriers);
                else
                        on = true;
                if (leads == SEVERAL)
                        l->astray = true;
        }
        if (on && block + 1 < l->n_blocks)
                edge(l, block, block + 1, barriers);
}

static void hand_barriers(struct loops *l, uint32_t from, uint32_t to, const uint32_t *barriers)
{
        struct block *b = &l->blocks[to];
        bool changed = !b->order;

        (void)from;
        for (unsigned i = 0; i < SASS_BARRIERS; i++) {
                uint32_t *has = &l->barriers[to][i], met = barriers[i];

                if (*has == met || met == NOWHERE || *has == SEVERAL)
                        continue;
                *has = *has == NOWHERE ? met : SEVERAL;
                changed = true;
        }
        b->order = 1;
        if (!changed || b->pending)
                return;
        b->pending = true;
        l->stack[l->back[0]++] = to;
}

/* Propagates the states of the barriers along the edges. Every block is a start, because any address may be called.
 * back[0] counts the entries of the stack. */
static void find_barriers(struct loops *l)
{
        for (uint32_t i = 0; i < l->n_blocks && !l->astray; i++) {
                if (l->blocks[i].order)
                        continue;
                l->blocks[i].order = 1;
                l->stack[0] = i;
                l->back[0] = 1;
                while (l->back[0] && !l->astray) {
                        uint32_t at = l->stack[--l->back[0]];

                        l->blocks[at].pending = false;
                        each_edge(l, at, hand_barriers);
                }
        }
        for (uint32_t i = 0; i < l->n_blocks; i++)
                l->blocks[i].order = 0;
}

static void note_edge(struct loops *l, uint32_t from, uint32_t to, const uint32_t *barriers)
{
        uint32_t *succs;

        (void)barriers;
        if (l->n_succs == l->room_succs) {
                succs = ds_realloc(l->succs, l->room_succs * 2 + 64, sizeof(*succs));
                if (!succs) {
                        l->error = -ENOMEM;
                        return;
                }
                l->succs = succs;
                l->room_succs = l->room_succs * 2 + 64;
        }
        l->succs[l->n_succs++] = to;
        l->blocks[from].n_succs++;
        l->blocks[to].n_preds++;
}

static int find_edges(struct loops *l)
{
        uint32_t preds = 0;

        for (uint32_t i = 0; i < l->n_blocks && !l->error; i++) {
                l->blocks[i].succs = (uint32_t)l->n_succs;
                each_edge(l, i, note_edge);
        }
        l->preds = ds_alloc0(l->n_succs + 1, sizeof(*l->preds));
        ds_free(l->back);
        l->back = ds_alloc0(l->n_succs + 1, 2 * sizeof(*l->back));
        if (l->error || !l->preds || !l->back)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < l->n_blocks; i++) {
                l->blocks[i].preds = preds;
                preds += l->blocks[i].n_preds;
                l->blocks[i].n_preds = 0;
        }
        for (uint32_t i = 0; i < l->n_blocks; i++)
                for (uint32_t k = 0; k < l->blocks[i].n_succs; k++) {
                        struct block *to = &l->blocks[l->succs[l->blocks[i].succs + k]];

                        l->preds[to->preds + to->n_preds++] = i;
                }
        return 0;
}

/* --- polling ---------------------- */

/* Whether a function that begins at the target may poll: any block that can be reached from there without a return. */
static bool call_asks(struct loops *l, uint32_t target)
{
        uint32_t n = 0, to;

        l->n_calls++;
        l->stack[n++] = l->block_of[target];
        l->blocks[l->block_of[target]].called = l->n_calls;
        while (n && !l->astray) {
                struct block *b = &l->blocks[l->stack[--n]];

                effort(l, b->n_succs + 1);
                if (b->asks)
                        return true;
                for (uint32_t k = 0; k < b->n_succs; k++) {
                        to = l->succs[b->succs + k];
                        if (l->blocks[to].called == l->n_calls)
                                continue;
                        l->blocks[to].called = l->n_calls;
                        l->stack[n++] = to;
                }
        }
        return false;
}

/* Marks blocks that poll or call polling functions; repeats while that marks more. */
static void find_asks(struct loops *l, bool calls)
{
        bool changed = calls;
        uint32_t target;

        for (uint32_t i = 0; i < l->code->n; i++) {
                enum sass_flow flow = sass_flow(l->code, i, &target);

                if (sass_ask(l->code, sass_at(l->code, i)) || (flow == SASS_CALL_ELSEWHERE && l->code->others_ask))
                        l->blocks[l->block_of[i]].asks = true;
        }
        while (changed && !l->astray) {
                changed = false;
                effort(l, l->code->n);
                for (uint32_t i = 0; i < l->code->n && !l->astray; i++) {
                        struct block *b = &l->blocks[l->block_of[i]];

                        if (b->asks || sass_flow(l->code, i, &target) != SASS_CALL || !call_asks(l, target))
                                continue;
                        b->asks = changed = true;
                }
        }
}

/* A register's value at the point before an instruction, which the search must explain. */
struct source {
        uint32_t block, at, reg;
};

struct sources {
        struct source list[SOURCES];
        uint32_t n;
        bool full;
};

static void source_add(struct sources *s, uint32_t block, uint32_t at, uint32_t reg)
{
        for (uint32_t i = 0; i < s->n; i++)
                if (s->list[i].block == block && s->list[i].at == at && s->list[i].reg == reg)
                        return;
        if (s->n == SOURCES)
                s->full = true;
        else
                s->list[s->n++] = (struct source){block, at, reg};
}

/*
 * Searches backwards in the block for the register's definition. Returns true if it is of the wanted kind. Adds further
 * sources to search: the registers from which the value was computed, and the ends of preceding blocks in the loop
 * (loop 0: of all).
 */
static bool source_is(
        struct loops *l, struct sources *s, const struct source *source, enum sass_def wanted, uint32_t loop)
{
        const struct block *b = &l->blocks[source->block];
        uint32_t from[3], n;

        effort(l, source->at - b->first + b->n_preds);
        for (uint32_t i = source->at; i-- > b->first;) {
                struct sass_instr instr = sass_at(l->code, i);
                enum sass_def def = sass_def(instr, source->reg, from, &n);

                if (def == wanted)
                        return true;
                for (uint32_t k = 0; k < n; k++)
                        source_add(s, source->block, i, from[k]);
                if (def != SASS_DEF_NOT && def != SASS_DEF_UNKNOWN && !sass_guarded(instr))
                        return false;
        }
        for (uint32_t k = 0; k < b->n_preds; k++) {
                uint32_t pred = l->preds[b->preds + k];

                if (!loop || l->blocks[pred].loop == loop)
                        source_add(s, pred, l->blocks[pred].end, source->reg);
        }
        return false;
}

/* Whether the value can have a definition of the wanted kind. Returns else_ if there are too many sources to follow. */
static bool comes_from(struct loops *l, struct source source, enum sass_def wanted, uint32_t loop, bool else_)
{
        struct sources s = {.list = {source}, .n = 1};

        if (source.reg == SASS_REG_ZERO)
                return wanted == SASS_DEF_ZERO;
        for (uint32_t i = 0; i < s.n; i++) {
                struct source next = s.list[i];

                if (s.full || l->astray)
                        return else_;
                if (source_is(l, &s, &next, wanted, loop))
                        return true;
        }
        return false;
}

/* Follows the value of the source forward. Returns true if it affects control flow. */
static bool source_decides(struct loops *l, struct sources *s, const struct source *source, uint32_t loop)
{
        const struct block *b = &l->blocks[source->block];
        uint32_t first, n, target;

        effort(l, b->end - source->at + b->n_succs);
        for (uint32_t i = source->at; i < b->end; i++) {
                struct sass_instr instr = sass_at(l->code, i);
                enum sass_flow flow = sass_flow(l->code, i, &target);
                enum sass_use use = sass_use(instr, source->reg, &first, &n);

                if (use == SASS_USE_DECIDES || flow == SASS_CALL || flow == SASS_CALL_ELSEWHERE)
                        return true;
                for (uint32_t k = 0; use == SASS_USE_PASSES && k < n; k++)
                        if (first + k != source->reg)
                                source_add(s, source->block, i + 1, first + k);
                if (use == SASS_USE_PASSES && source->reg >= first && source->reg - first < n)
                        continue;
                if (sass_overwrites(instr, source->reg))
                        return false;
        }
        for (uint32_t k = 0; k < b->n_succs; k++) {
                uint32_t to = l->succs[b->succs + k];

                if (l->blocks[to].loop == loop)
                        source_add(s, to, l->blocks[to].first, source->reg);
        }
        return false;
}

/* Whether the value loaded by the instruction at `at` may decide if the loop continues. True also if that is too
 * complex to follow. */
static bool load_decides(struct loops *l, uint32_t block, uint32_t at, uint32_t loop)
{
        struct sass_instr instr = sass_at(l->code, at);
        uint32_t result = instr.lo >> 16 & 0xff;
        struct sources s = {0};

        for (uint32_t k = 0; k < sass_loaded(instr) && result != SASS_REG_ZERO; k++)
                source_add(&s, block, at + 1, result + k);
        for (uint32_t i = 0; i < s.n; i++) {
                struct source next = s.list[i];

                if (s.full || l->astray || source_decides(l, &s, &next, loop))
                        return true;
        }
        return s.full;
}

static bool instr_asks(struct loops *l, uint32_t block, uint32_t at, uint32_t loop)
{
        struct sass_instr instr = sass_at(l->code, at);
        /* register with the value that the atomic compares or adds */
        struct source compared = {block, at, instr.lo >> 32 & 0xff};
        uint32_t target;

        switch (sass_ask(l->code, instr)) {
        case SASS_ASKS:
                return sass_loaded(instr) == 0 || load_decides(l, block, at, loop);
        case SASS_ASKS_BY_SWAP:
                return !comes_from(l, compared, SASS_DEF_FOUND, loop, false);
        case SASS_ASKS_BY_ADD:
                return comes_from(l, compared, SASS_DEF_ZERO, 0, true);
        default:
                break;
        }
        switch (sass_flow(l->code, at, &target)) {
        case SASS_CALL:
                return l->blocks[l->block_of[target]].asks || call_asks(l, target);
        case SASS_CALL_ELSEWHERE:
                return l->code->others_ask;
        default:
                return false;
        }
}

/* --- loops --- */

static void walk_enter(struct loops *l, uint32_t block, uint32_t *order, uint32_t *depth, uint32_t *n)
{
        struct block *b = &l->blocks[block];

        b->order = b->low = ++*order;
        b->on_path = true;
        l->path[(*depth)++] = block;
        l->stack[(*n)++] = block;
}

/* Finishes a block whose successors are done. If it is the root of its component, the component is complete. Then
 * returns to the parent. */
static void walk_leave(struct loops *l, uint32_t block, uint32_t *depth, uint32_t *n)
{
        struct block *b = &l->blocks[block], *parent;
        uint32_t member;

        b->on_path = false;
        --*depth;
        if (*depth) {
                parent = &l->blocks[l->path[*depth - 1]];
                parent->low = DS_MIN(parent->low, b->low);
        }
        if (b->low != b->order)
                return;
        do {
                member = l->stack[--*n];
                l->blocks[member].component = b->order;
        } while (member != block);
}

static void walk(struct loops *l, uint32_t root, uint32_t *order)
{
        uint32_t depth = 0, n = 0;

        walk_enter(l, root, order, &depth, &n);
        while (depth) {
                uint32_t at = l->path[depth - 1], to;
                struct block *b = &l->blocks[at], *next;

                if (b->next == b->n_succs) {
                        walk_leave(l, at, &depth, &n);
                        continue;
                }
                to = l->succs[b->succs + b->next++];
                next = &l->blocks[to];
                if (!next->order) {
                        walk_enter(l, to, order, &depth, &n);
                        continue;
                }
                if (!next->component)
                        b->low = DS_MIN(b->low, next->order);
                if (next->on_path) {
                        l->back[2 * l->n_back] = at;
                        l->back[2 * l->n_back++ + 1] = to;
                }
        }
}

static bool block_asks(struct loops *l, uint32_t block, uint32_t loop)
{
        if (!l->blocks[block].asks)
                return false;
        effort(l, l->blocks[block].end - l->blocks[block].first);
        for (uint32_t i = l->blocks[block].first; i < l->blocks[block].end; i++)
                if (instr_asks(l, block, i, loop))
                        return true;
        return false;
}

/* Whether the loop of the back edge `last` -> `first` polls. The loop has the blocks from which `last` can be
 * reached without `first`; all of them are on the stack. */
static bool loop_asks(struct loops *l, uint32_t last, uint32_t first)
{
        uint32_t loop = ++l->n_loops, n = 0, component = l->blocks[first].component;

        l->blocks[first].loop = loop;
        l->stack[n++] = first;
        if (l->blocks[last].loop != loop) {
                l->blocks[last].loop = loop;
                l->stack[n++] = last;
        }
        for (uint32_t i = 1; i < n; i++) {
                const struct block *b = &l->blocks[l->stack[i]];

                effort(l, b->n_preds + 1);
                for (uint32_t k = 0; k < b->n_preds; k++) {
                        struct block *pred = &l->blocks[l->preds[b->preds + k]];

                        if (pred->loop == loop || pred->component != component)
                                continue;
                        pred->loop = loop;
                        l->stack[n++] = l->preds[b->preds + k];
                }
        }
        for (uint32_t i = 0; i < n && !l->astray; i++)
                if (block_asks(l, l->stack[i], loop))
                        return true;
        return l->astray;
}

static int loops_ask(struct loops *l, bool calls)
{
        uint32_t order = 0;
        int r;

        if (!l->astray)
                find_barriers(l);
        if (l->astray)
                return 1;
        r = find_edges(l);
        if (r)
                return ds_error_trace(r);
        find_asks(l, calls);
        for (uint32_t i = 0; i < l->n_blocks; i++)
                if (!l->blocks[i].order)
                        walk(l, i, &order);
        for (uint32_t i = 0; i < l->n_back && !l->astray; i++)
                if (loop_asks(l, l->back[2 * i], l->back[2 * i + 1]))
                        return 1;
        return l->astray;
}

static int loops_new(struct loops *l)
{
        int r;

        l->block_of = ds_alloc0(l->code->n, sizeof(*l->block_of));
        l->back = ds_alloc0(1, sizeof(*l->back));
        if (!l->block_of || !l->back)
                return ds_error_origin(-ENOMEM);
        mark_blocks(l);
        r = l->astray ? 0 : make_blocks(l);
        return ds_error_trace(r);
}

int sass_loops_wait(const struct sass_code *code)
{
        struct sass_summary summary = sass_summary(code);
        struct loops l = {.code = code};
        int r;

        if (!summary.asks && !(summary.calls_elsewhere && code->others_ask))
                return 0;
        if (code->cc >= 100 || code->n > INSTRS_MAX || summary.astray)
                return 1;
        l.effort_max = (uint64_t)EFFORT_PER_INSTR * code->n + EFFORT_MORE;
        r = loops_new(&l);
        if (!r)
                r = loops_ask(&l, summary.calls);
        ds_free(l.blocks);
        ds_free(l.block_of);
        ds_free(l.barriers);
        ds_free(l.succs);
        ds_free(l.preds);
        ds_free(l.stack);
        ds_free(l.path);
        ds_free(l.back);
        return r;
}
