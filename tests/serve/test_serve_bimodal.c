/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bimodal tensors: random models run on a memory of cells, and the state may change before any launch. Every cell that
 * is read has the last written value, whichever copy holds it. The test implements the rule for memory-bound and other
 * kernels a second time and compares each launch.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "serve/bimodal.h"
#include "util/macro.h"

#define TENSORS 24u
#define LAUNCHES 30u
#define CELLS 6u /* largest number of cells of a tensor */
#define CELL SV_BIMODAL_ALIGN
#define RUNS 4u

struct world {
        struct sv_bm_model model;
        struct sv_bm_tensor tensors[TENSORS];
        struct sv_bm_use uses[TENSORS * LAUNCHES];
        struct sv_bm_launch launches[LAUNCHES];
        /* contents of each cell: plain with one copy per tensor, weights and arena with the copies of bimodal
         * tensors */
        uint32_t plain[TENSORS][CELLS], weights[TENSORS * CELLS], arena[TENSORS * CELLS];
        uint32_t want[TENSORS][CELLS]; /* expected contents; 0: not written in this run */
        bool alive[TENSORS];
        enum sv_copy at[TENSORS];
        uint32_t written;
};

static uint32_t below(uint32_t n)
{
        return (uint32_t)rand() % n;
}

static uint32_t cells(const struct world *w, uint32_t tensor)
{
        return (uint32_t)DS_DIV_UP(w->tensors[tensor].bytes, CELL);
}

static void make_tensors(struct world *w)
{
        w->model.n_tensors = 3 + below(TENSORS - 3);
        for (uint32_t i = 0; i < w->model.n_tensors; i++) {
                struct sv_bm_tensor *tensor = &w->tensors[i];

                tensor->bytes = 1 + below(CELLS * CELL);
                tensor->weight = !below(3);
                tensor->given = !tensor->weight && !below(6);
                tensor->first = tensor->given ? 0 : below(w->model.n_launches);
                tensor->last = tensor->first + below(w->model.n_launches - tensor->first);
        }
}

/* An intermediate's first launch writes it; later ones read it, write more of it, or do not use it. */
static uint32_t access_of(const struct world *w, uint32_t tensor, uint32_t launch)
{
        const struct sv_bm_tensor *t = &w->tensors[tensor];

        if (t->weight)
                return below(4) ? 0 : SV_READS;
        if (launch < t->first || launch > t->last)
                return 0;
        return launch == t->first && !t->given ? SV_WRITES : below(4);
}

static void make_model(struct world *w)
{
        memset(w, 0, sizeof(*w));
        w->model = (struct sv_bm_model){.tensors = w->tensors, .uses = w->uses, .launches = w->launches};
        w->model.n_launches = 1 + below(LAUNCHES);
        w->model.moves = below(2);
        make_tensors(w);
        for (uint32_t i = 0; i < w->model.n_launches; i++) {
                struct sv_bm_launch *launch = &w->launches[i];

                *launch = (struct sv_bm_launch){
                        .first_use = w->model.n_uses, .memory_bound = below(2), .fixed = !below(8)};
                for (uint32_t t = 0; t < w->model.n_tensors; t++) {
                        const uint32_t access = access_of(w, t, i);

                        if (!access)
                                continue;
                        w->uses[w->model.n_uses++] = (struct sv_bm_use){t, access};
                        launch->n_uses++;
                }
        }
}

static uint32_t *cell(struct world *w, const struct sv_bimodal *b, uint32_t tensor, enum sv_copy copy, uint32_t i)
{
        uint64_t place = sv_bimodal_place(b, tensor);

        if (copy == SV_ALL)
                return &w->plain[tensor][i];
        cr_assert_neq(place, SV_BIMODAL_NOWHERE, "a copy that does not exist is given out");
        cr_assert_eq(place % CELL, 0);
        place = place / CELL + i;
        cr_assert_lt(place, TENSORS * CELLS);
        return w->tensors[tensor].weight ? &w->weights[place] : &w->arena[place];
}

/* Writes a weight's bytes to the place where it is held now; to both places if it is held twice. */
static void put_weights(struct world *w, const struct sv_bimodal *b)
{
        for (uint32_t t = 0; t < w->model.n_tensors; t++)
                for (uint32_t i = 0; w->tensors[t].weight && i < cells(w, t); i++) {
                        const bool twice = sv_bimodal_place(b, t) != SV_BIMODAL_NOWHERE;
                        const bool moved = w->model.moves && twice && sv_bimodal_weights(b) == SV_COLOURED;

                        w->want[t][i] = t * 100000 + i + 1;
                        w->plain[t][i] = moved ? 0 : w->want[t][i];
                        if (twice)
                                *cell(w, b, t, SV_COLOURED, i) = w->model.moves && !moved ? 0 : w->want[t][i];
                }
}

static void put_inputs(struct world *w)
{
        for (uint32_t t = 0; t < w->model.n_tensors; t++) {
                if (w->tensors[t].weight)
                        continue;
                w->alive[t] = w->tensors[t].given;
                w->at[t] = SV_ALL;
                for (uint32_t i = 0; i < cells(w, t); i++) {
                        w->want[t][i] = w->tensors[t].given ? ++w->written * 1000 : 0;
                        if (w->tensors[t].given)
                                w->plain[t][i] = w->want[t][i];
                }
        }
}

static enum sv_copy by(enum sv_state state)
{
        return state == SV_COLOCATION ? SV_COLOURED : SV_ALL;
}

/* Checks a launch by an independent implementation of the rule. A weight that moves has one place during a whole
 * request. */
static void check_rule(struct world *w, const struct sv_bimodal *b, const struct sv_bm_launch *launch, uint32_t tensor,
        enum sv_state state, enum sv_copy copy)
{
        const bool possible = sv_bimodal_place(b, tensor) != SV_BIMODAL_NOWHERE;

        if (launch->fixed)
                cr_assert_eq(copy, SV_ALL);
        else if (w->tensors[tensor].weight && w->model.moves)
                cr_assert_eq(copy, possible ? sv_bimodal_weights(b) : SV_ALL);
        else if (w->tensors[tensor].weight)
                cr_assert_eq(copy, launch->memory_bound ? by(state) : SV_ALL);
        else if (w->alive[tensor])
                cr_assert_eq(copy, w->at[tensor], "an intermediate is where its writer left it");
        else
                cr_assert_eq(copy, launch->memory_bound && possible ? by(state) : SV_ALL);
}

static void touch(struct world *w, const struct sv_bimodal *b, const struct sv_bm_use *use, enum sv_copy copy)
{
        const uint32_t t = use->tensor;

        for (uint32_t i = 0; i < cells(w, t); i++) {
                if (use->access & SV_READS && w->want[t][i])
                        cr_assert_eq(*cell(w, b, t, copy, i), w->want[t][i], "a read sees what was written last");
                if (use->access & SV_WRITES && (below(2) || !w->alive[t]))
                        *cell(w, b, t, copy, i) = w->want[t][i] = ++w->written * 1000;
        }
        if (!w->tensors[t].weight && (use->access & SV_WRITES) && !w->alive[t]) {
                w->alive[t] = true;
                w->at[t] = copy;
        }
}

/* changes: probability in percent of a change of state before a launch */
static void run(struct world *w, struct sv_bimodal *b, uint32_t changes, enum sv_state *state)
{
        enum sv_copy copies[TENSORS];

        if (sv_bimodal_request(b, *state))
                put_weights(w, b);
        put_inputs(w);
        for (uint32_t i = 0; i < w->model.n_launches; i++) {
                const struct sv_bm_launch *launch = &w->launches[i];

                if (below(100) < changes)
                        *state = below(2) ? SV_COLOCATION : SV_MONOPOLISATION;
                sv_bimodal_launch(b, *state, copies);
                for (uint32_t k = 0; k < launch->n_uses; k++) {
                        const struct sv_bm_use *use = &w->uses[launch->first_use + k];

                        check_rule(w, b, launch, use->tensor, *state, copies[k]);
                        touch(w, b, use, copies[k]);
                        cr_assert(w->tensors[use->tensor].weight || sv_bimodal_copy(b, use->tensor) == copies[k]);
                }
        }
}

static void check_footprint(const struct world *w, const struct sv_bimodal *b)
{
        struct sv_bm_footprint f;
        uint64_t most = 0;

        sv_bimodal_footprint(b, 1000, &f);
        cr_assert_eq(f.arena, 1024);
        cr_assert_leq(f.weights_again, f.weights);
        cr_assert_leq(f.arena_again, f.arena_again_apart);
        cr_assert_leq(f.arena_again_apart, f.arena_apart);
        for (uint32_t i = 0; i < w->model.n_launches; i++) {
                uint64_t alive = 0;

                for (uint32_t t = 0; t < w->model.n_tensors; t++)
                        if (!w->tensors[t].weight && w->tensors[t].first <= i && i <= w->tensors[t].last &&
                                sv_bimodal_place(b, t) != SV_BIMODAL_NOWHERE)
                                alive += (uint64_t)cells(w, t) * CELL;
                most = DS_MAX(most, alive);
        }
        cr_assert_geq(f.arena_again, most);
}

Test(serve_bimodal, random_models_read_the_last_write)
{
        static struct world w;
        struct sv_bimodal *b = NULL;

        srand(10);
        for (uint32_t i = 0; i < 3000; i++) {
                enum sv_state state = SV_MONOPOLISATION;

                make_model(&w);
                cr_assert_eq(sv_bimodal_new(&w.model, &b), 0);
                put_weights(&w, b);
                check_footprint(&w, b);
                for (uint32_t k = 0; k < RUNS; k++)
                        run(&w, b, i % 3 * 30, &state);
                b = sv_bimodal_free(b);
        }
}

/* A chain of launches on tensors: x -> [bound] -> y -> [not bound] -> z -> [bound] -> z, with a weight for each;
 * "bound": limited by memory */
static const struct sv_bm_tensor chain_tensors[] = {
        {.bytes = 256, .first = 0, .last = 0, .given = true},
        {.bytes = 512, .first = 0, .last = 1},
        {.bytes = 512, .first = 1, .last = 2},
        {.bytes = 1000, .weight = true},
        {.bytes = 2000, .weight = true},
};
static const struct sv_bm_use chain_uses[] = {
        {0, SV_READS},
        {3, SV_READS},
        {1, SV_WRITES},
        {1, SV_READS},
        {4, SV_READS},
        {2, SV_WRITES},
        {2, SV_READS | SV_WRITES},
        {3, SV_READS},
};
static const struct sv_bm_launch chain_launches[] = {
        {.first_use = 0, .n_uses = 3, .memory_bound = true},
        {.first_use = 3, .n_uses = 3},
        {.first_use = 6, .n_uses = 2, .memory_bound = true},
};
static const struct sv_bm_model chain = {
        .tensors = chain_tensors,
        .uses = chain_uses,
        .launches = chain_launches,
        .n_tensors = DS_ARRAY_SIZE(chain_tensors),
        .n_uses = DS_ARRAY_SIZE(chain_uses),
        .n_launches = DS_ARRAY_SIZE(chain_launches),
};

static void check_chain(struct sv_bimodal *b, const enum sv_state *states, const char *copies)
{
        enum sv_copy got[3];

        (void)sv_bimodal_request(b, states[0]);
        for (uint32_t i = 0, n = 0; i < chain.n_launches; i++) {
                sv_bimodal_launch(b, states[i], got);
                for (uint32_t k = 0; k < chain_launches[i].n_uses; k++, n++)
                        cr_assert_eq(got[k] == SV_COLOURED ? 'c' : '.', copies[n], "use %u of %s", n, copies);
        }
}

Test(serve_bimodal, the_paper_s_rule)
{
        struct sv_bimodal *b;
        struct sv_bm_footprint f;

        cr_assert_eq(sv_bimodal_new(&chain, &b), 0);
        sv_bimodal_footprint(b, 1024, &f);
        /* Three tensors exist once: the input, the weight of the kernel that memory does not bound, and that
         * kernel's output. */
        cr_assert_eq(f.weights, 1024 + 2048);
        cr_assert_eq(f.weights_again, 1024);
        cr_assert_eq(f.arena_again, 512);
        check_chain(b, (enum sv_state[]){SV_MONOPOLISATION, SV_MONOPOLISATION, SV_MONOPOLISATION}, "........");
        check_chain(b, (enum sv_state[]){SV_COLOCATION, SV_COLOCATION, SV_COLOCATION}, ".ccc...c");
        /* LS ended between two launches: a tensor written coloured is read there; the next weights are the plain
         * ones. */
        check_chain(b, (enum sv_state[]){SV_COLOCATION, SV_MONOPOLISATION, SV_MONOPOLISATION}, ".ccc....");
        check_chain(b, (enum sv_state[]){SV_MONOPOLISATION, SV_COLOCATION, SV_COLOCATION}, ".......c");
        cr_assert_null(sv_bimodal_free(b));
}

Test(serve_bimodal, weights_of_latency_sensitive_models_move_between_requests)
{
        struct sv_bm_model model = chain;
        struct sv_bimodal *b;
        enum sv_copy got[3];

        model.moves = true;
        cr_assert_eq(sv_bimodal_new(&model, &b), 0);
        cr_assert_not(sv_bimodal_request(b, SV_MONOPOLISATION));
        cr_assert(sv_bimodal_request(b, SV_COLOCATION));
        cr_assert_eq(sv_bimodal_weights(b), SV_COLOURED);
        sv_bimodal_launch(b, SV_MONOPOLISATION, got);
        cr_assert_eq(got[1], SV_COLOURED, "they stay where they are until the request has ended");
        cr_assert_eq(got[2], SV_ALL, "what is written is where the state wants it");
        cr_assert_not(sv_bimodal_request(b, SV_COLOCATION));
        cr_assert(sv_bimodal_request(b, SV_MONOPOLISATION));
        sv_bimodal_free(b);
}

Test(serve_bimodal, models_that_are_none)
{
        struct sv_bm_use uses[DS_ARRAY_SIZE(chain_uses)];
        struct sv_bm_tensor tensors[DS_ARRAY_SIZE(chain_tensors)];
        struct sv_bm_launch launches[DS_ARRAY_SIZE(chain_launches)];
        struct sv_bm_model model = chain;
        struct sv_bimodal *b;

        model.uses = memcpy(uses, chain_uses, sizeof(uses));
        model.tensors = memcpy(tensors, chain_tensors, sizeof(tensors));
        model.launches = memcpy(launches, chain_launches, sizeof(launches));
        uses[1].access = SV_WRITES;
        cr_assert_eq(sv_bimodal_new(&model, &b), -EINVAL, "a weight that is written");
        uses[1] = (struct sv_bm_use){5, SV_READS};
        cr_assert_eq(sv_bimodal_new(&model, &b), -EINVAL, "a tensor that is not there");
        uses[1] = chain_uses[1];
        launches[2].n_uses = 3;
        cr_assert_eq(sv_bimodal_new(&model, &b), -EINVAL, "uses that are not there");
        launches[2].n_uses = 2;
        tensors[2].last = 3;
        cr_assert_eq(sv_bimodal_new(&model, &b), -EINVAL, "a life behind the last launch");
        tensors[2].last = 2;
        cr_assert_eq(sv_bimodal_new(&model, &b), 0);
        sv_bimodal_free(b);
}
