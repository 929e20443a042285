/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decision of a granule's channel, for many granules at once
 *
 * A question (one granule) has a probability for every channel. In each round every granule is compared with a
 * representative of its most probable channel, all in one batch. The results update the probabilities by the known
 * error rates. A comparison whose time lies between the two kinds is repeated. If the device supports listening, the
 * first round tests all channels at once.
 */
#include <errno.h>

#include "lut/probe/internal.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

/* Comparisons of one round. */
struct round {
        struct ds_probe_pair *pairs;
        uint32_t *ticks, *asked, *channel;
        size_t n;
};

static void round_free(struct round *round)
{
        round->pairs = ds_free(round->pairs);
        round->ticks = ds_free(round->ticks);
        round->asked = ds_free(round->asked);
        round->channel = ds_free(round->channel);
}

static int round_make(struct round *round, size_t n)
{
        n = DS_MAX(n, 1u);
        round->pairs = ds_alloc(n * sizeof(*round->pairs));
        round->ticks = ds_alloc(n * sizeof(*round->ticks));
        round->asked = ds_alloc(n * sizeof(*round->asked));
        round->channel = ds_alloc(n * sizeof(*round->channel));
        return round->pairs && round->ticks && round->asked && round->channel ? 0 : ds_error_origin(-ENOMEM);
}

/* Normalises the question's probabilities, and decides the question if one channel's is high enough. */
static void settle(struct question *question, double *odds, uint32_t n, uint32_t most)
{
        double sum = 0;
        uint32_t top = 0;

        for (uint32_t c = 0; c <= n; c++) {
                sum += odds[c];
                if (odds[c] > odds[top])
                        top = c;
        }
        for (uint32_t c = 0; c <= n; c++)
                odds[c] /= sum;
        if (1 - odds[top] < 1 / DS_PROBE_ODDS) {
                question->over = true;
                question->label = top == n ? DS_PROBE_NONE : (uint8_t)top;
        } else if (question->tests >= most) {
                question->over = true;
        }
}

static uint32_t likeliest(const double *odds, uint32_t n)
{
        uint32_t top = 0;

        for (uint32_t c = 1; c < n; c++)
                if (odds[c] > odds[top])
                        top = c;
        return top;
}

static void ask(ds_probe *probe, struct question *questions, const double *odds, size_t n, struct round *round)
{
        uint64_t other;
        uint32_t c;

        round->n = 0;
        for (size_t i = 0; i < n; i++) {
                if (questions[i].over)
                        continue;
                c = likeliest(&odds[i * (probe->n + 1)], probe->n);
                other = ds_probe_representative(probe, c, questions[i].tests);
                if (other == questions[i].line) /* a line compared with itself gives a third kind of time */
                        other = ds_probe_representative(probe, c, questions[i].tests + 1);
                round->pairs[round->n] = (struct ds_probe_pair){questions[i].line, other};
                round->channel[round->n] = c;
                round->asked[round->n++] = (uint32_t)i;
                questions[i].tests++;
        }
}

static void learn(ds_probe *probe, struct question *questions, double *odds, const struct round *round, uint32_t most)
{
        const struct ds_probe_split *split = &probe->quality.split;
        const struct evidence *e = &probe->by_pair;
        const double *factor;
        double *of;

        for (size_t i = 0; i < round->n; i++) {
                of = &odds[(size_t)round->asked[i] * (probe->n + 1)];
                if (round->ticks[i] <= split->doubt[0] || round->ticks[i] >= split->doubt[1]) {
                        factor = round->ticks[i] > split->threshold ? e->positive : e->negative;
                        of[round->channel[i]] *= factor[1] / factor[0];
                }
                settle(&questions[round->asked[i]], of, probe->n, most);
        }
}

/* Runs the first round on a device that can compare a line with all representatives at once. */
static int hear_all(ds_probe *probe, struct question *questions, double *odds, size_t n, uint32_t most)
{
        ds_cleanup(ds_freep) uint64_t *lines = ds_alloc(DS_MAX(n, 1u) * sizeof(*lines));
        ds_cleanup(ds_freep) uint8_t *bits = ds_alloc(DS_MAX(n, 1u) * probe->n);
        const struct evidence *e = &probe->by_ear;
        const double *factor;
        int r;

        if (!lines || !bits)
                return ds_error_origin(-ENOMEM);
        for (size_t i = 0; i < n; i++)
                lines[i] = questions[i].line;
        r = ds_probe_hear(probe, lines, n, bits);
        if (r)
                return ds_error_trace(r);
        for (size_t i = 0; i < n; i++) {
                for (uint32_t c = 0; c < probe->n; c++) {
                        factor = bits[i * probe->n + c] ? e->positive : e->negative;
                        odds[i * (probe->n + 1) + c] *= factor[1] / factor[0];
                }
                settle(&questions[i], &odds[i * (probe->n + 1)], probe->n, most);
        }
        return 0;
}

int ds_probe_decide(ds_probe *probe, struct question *questions, double *odds, size_t n, uint32_t most)
{
        ds_cleanup(round_free) struct round round = {};
        int r;

        r = round_make(&round, n);
        if (!r && probe->quality.listens)
                r = hear_all(probe, questions, odds, n, most);
        while (!r) {
                ask(probe, questions, odds, n, &round);
                if (!round.n)
                        return 0;
                r = probe->meter.pairs(probe->meter.user, round.pairs, round.n, round.ticks);
                probe->counts.pairs += round.n;
                if (!r)
                        learn(probe, questions, odds, &round, most);
        }
        return ds_error_trace(r);
}
