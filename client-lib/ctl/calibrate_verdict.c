/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether dividing the memory channels pays on this GPU, from the measured rows
 *
 * Without divided memory, a bound on BE's resident blocks also protects LS from BE: it trades BE's rate for LS's time.
 * So dividing pays only if some number of channels (with any bound of its own) makes LS faster than every bound alone
 * that leaves BE the same rate, bounds between the measured ones included, by more than the difference between two
 * runs. A choice is judged by LS's time beside the worst kind of BE (up to CALIBRATE_LIMIT it is good, and shorter is
 * not better) and by BE's mean rate over its kinds. Both include the cost of coloured kernels. Choices that leave BE
 * almost nothing do not count.
 */
#include "ctl/calibrate.h"

#define CALIBRATE_GAIN 100   /* least gain in LS's time that pays, permille */
#define CALIBRATE_BE_MIN 100 /* least rate of BE that counts, permille of its rate alone */

int calibrate_choice(const struct calibrate_channels *channels, uint32_t be_channels, uint32_t be_blocks,
        struct calibrate_choice *ret)
{
        uint64_t sum = 0, n = 0;
        *ret = (struct calibrate_choice){.be_channels = be_channels, .be_blocks = be_blocks};
        for (size_t i = 0; i < channels->n; i++) {
                const struct dsc_channel_cell *cell = &channels->rows[i].cell;
                if (cell->be_load == DSC_LOAD_NONE || cell->be_channels != be_channels || cell->be_blocks != be_blocks)
                        continue;
                if (cell->ls_permille > ret->ls_permille)
                        ret->ls_permille = cell->ls_permille;
                sum += cell->be_permille;
                n++;
        }
        if (n)
                ret->be_permille = (uint32_t)(sum / n);
        return n != 0;
}

static uint32_t felt(const struct calibrate_choice *c)
{
        return c->ls_permille < CALIBRATE_LIMIT ? CALIBRATE_LIMIT : c->ls_permille;
}

/* 1: `more` is greater than `less` by at least `permille` thousandths of it. */
static int by(uint32_t more, uint32_t less, uint32_t permille)
{
        return (uint64_t)more * 1000 >= (uint64_t)less * (1000 + permille);
}

/* Returns LS's time under a bound between two measured ones that gives BE the rate be_permille, by interpolation.
 * UINT32_MAX: the rate does not lie between theirs. */
static uint32_t between(const struct calibrate_choice *less, const struct calibrate_choice *more, uint32_t be_permille)
{
        if (less->be_permille > be_permille || more->be_permille < be_permille)
                return UINT32_MAX;
        if (less->be_permille == more->be_permille)
                return felt(more);
        const int64_t part = be_permille - less->be_permille, all = more->be_permille - less->be_permille;
        return (uint32_t)(felt(less) + ((int64_t)felt(more) - felt(less)) * part / all);
}

/* *ret: the choice of the i-th row. 0: its memory is divided. */
static int plain_at(const struct calibrate_channels *channels, size_t i, struct calibrate_choice *ret)
{
        const struct dsc_channel_cell *cell = &channels->rows[i].cell;
        return !cell->be_channels && calibrate_choice(channels, 0, cell->be_blocks, ret);
}

/* Returns LS's shortest time without divided memory at this rate of BE, or at the highest rate that BE can have. */
static uint32_t reached(const struct calibrate_channels *channels, uint32_t be_permille)
{
        struct calibrate_choice more, less, most = {.be_permille = 0};
        uint32_t best = UINT32_MAX;
        for (size_t i = 0; i < channels->n; i++) {
                if (!plain_at(channels, i, &more))
                        continue;
                if (more.be_permille > most.be_permille)
                        most = more;
                if (more.be_permille >= be_permille && felt(&more) < best)
                        best = felt(&more);
                for (size_t k = 0; k < channels->n; k++) {
                        const uint32_t ls =
                                plain_at(channels, k, &less) ? between(&less, &more, be_permille) : UINT32_MAX;
                        best = ls < best ? ls : best;
                }
        }
        return best == UINT32_MAX ? felt(&most) : best;
}

static int leads_out(const struct calibrate_channels *channels, const struct calibrate_choice *c)
{
        return c->be_permille >= CALIBRATE_BE_MIN && by(reached(channels, c->be_permille), felt(c), CALIBRATE_GAIN);
}

/* 1: choice a is better than b. Of choices that are good enough, more rate for BE is better; of others, less time of
 * LS; of equal ones, more rate for BE. */
static int is_preferred(const struct calibrate_choice *a, const struct calibrate_choice *b)
{
        if (by(felt(b), felt(a), CALIBRATE_SAME))
                return 1;
        return !by(felt(a), felt(b), CALIBRATE_SAME) && a->be_permille > b->be_permille;
}

int calibrate_best(
        const struct calibrate_channels *channels, struct calibrate_choice *ret_plain, struct calibrate_choice *ret)
{
        struct calibrate_choice c;
        *ret_plain = *ret = (struct calibrate_choice){.be_channels = 0};
        for (size_t i = 0; i < channels->n; i++) {
                const struct dsc_channel_cell *cell = &channels->rows[i].cell;
                struct calibrate_choice *best = cell->be_channels ? ret : ret_plain;
                if (calibrate_choice(channels, cell->be_channels, cell->be_blocks, &c) &&
                        (!cell->be_channels || leads_out(channels, &c)) &&
                        (!best->ls_permille || is_preferred(&c, best)))
                        *best = c;
        }
        return ret_plain->ls_permille != 0;
}

uint32_t calibrate_verdict(const struct calibrate_channels *channels)
{
        struct calibrate_choice plain, coloured;
        return calibrate_best(channels, &plain, &coloured) ? coloured.be_channels : 0;
}
