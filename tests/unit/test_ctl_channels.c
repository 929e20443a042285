/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict whether dividing memory channels pays, on rows whose verdict is known
 */
#include <criterion/criterion.h>

#include "ctl/calibrate.h"

static void add(struct calibrate_channels *c, uint32_t be_channels, uint32_t be_blocks, uint32_t ls, uint32_t be)
{
        c->rows[c->n++].cell = (struct dsc_channel_cell){.ls_load = DSC_LOAD_READ,
                .be_load = DSC_LOAD_READ,
                .be_channels = be_channels,
                .be_blocks = be_blocks,
                .ls_permille = ls,
                .be_permille = be};
}

/* Two measured bounds on BE's resident blocks: LS takes 2.0 times as long with BE at 0.8 of its rate, and 1.5 times
 * with BE at 0.5. */
static struct calibrate_channels bounds(void)
{
        struct calibrate_channels c = {.channels = 12};

        add(&c, 0, 0, 2000, 800);
        add(&c, 0, 10, 1500, 500);
        return c;
}

Test(ctl_channels, nothing_was_measured)
{
        const struct calibrate_channels c = {.channels = 12};
        struct calibrate_choice plain, coloured;

        cr_expect_eq(calibrate_best(&c, &plain, &coloured), 0);
        cr_expect_eq(calibrate_verdict(&c), 0);
}

Test(ctl_channels, the_worst_counts_for_ls_and_the_mean_for_be)
{
        struct calibrate_channels c = bounds();
        struct calibrate_choice choice;

        add(&c, 0, 10, 1700, 700);
        c.rows[2].cell.be_load = DSC_LOAD_WRITE;
        add(&c, 0, 10, 9000, 0);
        c.rows[3].cell.be_load = DSC_LOAD_NONE;
        cr_assert(calibrate_choice(&c, 0, 10, &choice));
        cr_expect_eq(choice.ls_permille, 1700);
        cr_expect_eq(choice.be_permille, 600);
        cr_expect_not(calibrate_choice(&c, 4, 10, &choice));
}

Test(ctl_channels, what_no_bound_reaches_pays)
{
        struct calibrate_channels c = bounds();
        struct calibrate_choice plain, coloured;

        add(&c, 4, 0, 1200, 500);
        cr_expect_eq(calibrate_verdict(&c), 4);
        add(&c, 6, 0, 1200, 700);
        cr_assert(calibrate_best(&c, &plain, &coloured));
        cr_expect_eq(plain.be_blocks, 10);
        cr_expect_eq(coloured.be_channels, 6, "of two that are as good for LS the one that leaves BE more");
        add(&c, 3, 5, 1050, 300);
        cr_expect_eq(calibrate_verdict(&c), 3, "good is better than more");
}

Test(ctl_channels, what_bounds_reach_does_not)
{
        struct calibrate_channels c = bounds();

        /* a division: LS takes 1.4 times as long, BE keeps 0.45; the bound of 1.5 times at 0.5 is no worse within
         * two runs' spread */
        add(&c, 4, 0, 1400, 450);
        cr_expect_eq(calibrate_verdict(&c), 0);
        /* no better than the two bounds: interpolated between them, LS takes 1.67 times as long at a BE rate of 0.6 */
        add(&c, 3, 0, 1550, 600);
        cr_expect_eq(calibrate_verdict(&c), 0);
        add(&c, 2, 0, 1450, 200); /* a bound with the same latency of LS, 1.5 times, leaves BE more */
        cr_expect_eq(calibrate_verdict(&c), 0);
        /* a bound at this BE rate lets LS take 2.0 times as long, the division only 1.6 times */
        add(&c, 6, 0, 1600, 800);
        cr_expect_eq(calibrate_verdict(&c), 6);
}

Test(ctl_channels, more_for_be_at_a_time_that_bounds_have_too_does_not)
{
        struct calibrate_channels c = bounds();

        add(&c, 4, 0, 2000, 900);
        cr_expect_eq(calibrate_verdict(&c), 0);
        add(&c, 6, 0, 2600, 990);
        cr_expect_eq(calibrate_verdict(&c), 0);
}

Test(ctl_channels, next_to_nothing_is_no_choice)
{
        struct calibrate_channels c = {.channels = 12};

        add(&c, 0, 0, 5000, 900);
        add(&c, 2, 0, 1100, 90);
        cr_expect_eq(calibrate_verdict(&c), 0);
        add(&c, 2, 5, 1100, 110);
        cr_expect_eq(calibrate_verdict(&c), 2);
}
