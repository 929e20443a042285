/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sectors and the choice of channels, on labels of the simulated models and on synthetic ones with a known answer
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "device/sim/channel.h"
#include "lut/sectors.h"
#include "util/alloc.h"
#include "util/macro.h"

#define BASE UINT64_C(0x500000000000)
#define LABELS ((size_t)4 * DS_MIB(2) / 256)

static uint8_t channel[LABELS];
static uint8_t classes[LABELS];

/* Four pages of a model, in granules of 2^bits bytes. */
static struct ds_sectors_labels model(const struct sim_channels *sim, uint32_t bits)
{
        size_t n = 4 * DS_MIB(2) >> bits;

        for (size_t i = 0; i < n; i++)
                channel[i] = (uint8_t)sim_channel_of(sim, BASE + ((uint64_t)i << bits));
        return (struct ds_sectors_labels){
                .channel = channel, .n_granules = n, .granule_bits = bits, .n_channels = sim->n};
}

static const struct sim_channels h200 = {SIM_CHANNELS_PAIRED, 47, 0}, a2000 = {SIM_CHANNELS_GROUPS, 6, 2},
                                 p40 = {SIM_CHANNELS_GROUPS, 12, 4}, gtx1080 = {SIM_CHANNELS_XOR, 8, 0};

static struct ds_sectors_plan plan(const struct ds_sectors_labels *labels, uint32_t parts, uint32_t of)
{
        struct ds_sectors_plan plan;

        cr_assert_eq(
                ds_sectors_plan(labels, (struct ds_sectors_share){parts, of}, 8, DS_SECTORS_LOST_PERMILLE, &plan), 0);
        cr_assert_eq(plan.be_permille + plan.ls_permille + plan.lost_permille, 1000);
        return plan;
}

/* Asserts that every granule of every sector lies in a channel of its class. Returns the number of sectors. */
static size_t check(const struct ds_sectors_labels *labels, const struct ds_sectors_plan *plan, uint8_t class_)
{
        size_t per = (size_t)1 << (plan->sector_bits - labels->granule_bits), n = labels->n_granules / per, have = 0;

        ds_sectors_classify(labels, plan, classes);
        for (size_t i = 0; i < n; i++) {
                size_t in = 0;

                for (size_t g = i * per; g < (i + 1) * per; g++)
                        in += ds_sectors_has(&plan->be, labels->channel[g]) != 0;
                cr_assert_eq(classes[i], in == per ? DS_SECTORS_BE : in ? DS_SECTORS_NEITHER : DS_SECTORS_LS);
                have += classes[i] == class_;
        }
        return have;
}

Test(lut_sectors, groups_become_sectors_of_their_size)
{
        struct ds_sectors_labels labels = model(&a2000, 10);
        struct ds_sectors_plan got = plan(&labels, 1, 3);

        /* BE gets two neighbouring channels: the sector has 2 KiB, as in the paper */
        cr_expect_eq(got.n_be, 2);
        cr_expect_eq(got.sector_bits, 11);
        cr_expect_eq(got.lost_permille, 0);
        cr_expect_eq(check(&labels, &got, DS_SECTORS_BE), labels.n_granules / 2 / 3 + (labels.n_granules / 2 % 3 != 0));
        labels = model(&p40, 10);
        got = plan(&labels, 1, 3);
        cr_expect_eq(got.n_be, 4);
        cr_expect_eq(got.sector_bits, 12);
        cr_expect_eq(got.lost_permille, 0);
        check(&labels, &got, DS_SECTORS_LS);
}

Test(lut_sectors, what_is_no_power_of_two_has_a_kib)
{
        struct ds_sectors_labels labels = model(&p40, 10);
        struct ds_sectors_plan got = plan(&labels, 5, 0);

        cr_expect_eq(got.n_be, 5);
        cr_expect_eq(got.sector_bits, 10);
        cr_expect_eq(got.lost_permille, 0);
        check(&labels, &got, DS_SECTORS_BE);
        /* 2 of 12 channels for BE: the plan takes the sector size that the paper's rule allows where little memory
         * is lost */
        got = plan(&labels, 2, 0);
        cr_expect_leq(got.sector_bits, 11);
        cr_expect_leq(got.lost_permille, DS_SECTORS_LOST_PERMILLE);
        check(&labels, &got, DS_SECTORS_BE);
}

Test(lut_sectors, pairs_are_cut_as_little_as_on_the_part_they_were_found_on)
{
        struct ds_sectors_labels labels = model(&h200, 8);
        struct ds_sectors_plan got = plan(&labels, 1, 3);

        /* h200: the paper's rule gives 15 of 47 channels with 29% of all KiB inside, 65% outside, 6% cut; ours must
         * not be worse */
        cr_expect_eq(got.n_be, 15);
        cr_expect_eq(got.sector_bits, 10);
        cr_expect_leq(got.lost_permille, 70);
        cr_expect_geq(got.be_permille, 270);
        cr_expect_geq(got.ls_permille, 640);
        check(&labels, &got, DS_SECTORS_BE);
        /* a plan that may lose nothing uses granules */
        cr_assert_eq(ds_sectors_plan(&labels, (struct ds_sectors_share){1, 3}, 8, 0, &got), 0);
        cr_expect_eq(got.sector_bits, 8);
        cr_expect_eq(got.lost_permille, 0);
        check(&labels, &got, DS_SECTORS_LS);
}

Test(lut_sectors, no_sector_is_smaller_than_kernels_take)
{
        struct ds_sectors_labels labels = model(&h200, 8);
        struct ds_sectors_plan got;

        cr_assert_eq(ds_sectors_plan(&labels, (struct ds_sectors_share){15, 0}, 12, 0, &got), 0);
        cr_expect_eq(got.sector_bits, 12);
        cr_expect_gt(got.lost_permille, 300);
        check(&labels, &got, DS_SECTORS_BE);
}

Test(lut_sectors, pages_of_one_colour)
{
        struct ds_sectors_labels labels = model(&gtx1080, 10);
        struct ds_sectors_plan got = plan(&labels, 1, 2);

        cr_expect_eq(got.n_be, 4);
        cr_expect_eq(got.sector_bits, 12);
        cr_expect_eq(got.lost_permille, 0);
        cr_expect_eq(got.be_permille, 500);
        check(&labels, &got, DS_SECTORS_BE);
}

Test(lut_sectors, what_has_no_label_is_nobodys)
{
        struct ds_sectors_labels labels = model(&a2000, 10);
        struct ds_sectors_plan got;

        for (size_t i = 0; i < labels.n_granules; i += 20)
                channel[i] = DS_SECTORS_NO_CHANNEL;
        got = plan(&labels, 1, 3);
        cr_expect(got.lost_permille == 100 || got.lost_permille == 101);
        ds_sectors_classify(&labels, &got, classes);
        for (size_t i = 0; i < labels.n_granules; i += 20)
                cr_assert_eq(classes[i >> (got.sector_bits - 10)], DS_SECTORS_NEITHER);
}

/* Channels alternate in pairs, as with the modified driver of the paper. */
Test(lut_sectors, pairs_in_turn)
{
        struct ds_sectors_labels labels = {.channel = channel, .n_granules = 1024, .granule_bits = 10, .n_channels = 4};
        struct ds_sectors_plan got;

        for (size_t i = 0; i < labels.n_granules; i++)
                channel[i] = (uint8_t)(i / 2 % 2 * 2 + i % 2);
        got = plan(&labels, 1, 2);
        cr_expect_eq(got.sector_bits, 11);
        cr_expect_eq(got.lost_permille, 0);
        cr_expect_eq(check(&labels, &got, DS_SECTORS_BE), 256);
        for (size_t i = 2; i < 512; i++)
                cr_assert_eq(classes[i], classes[i - 2]);
}

Test(lut_sectors, shares)
{
        struct ds_sectors_share share;
        uint32_t n;

        cr_assert_eq(ds_sectors_share_read("1/3", &share), 0);
        cr_expect(share.parts == 1 && share.of == 3);
        cr_assert_eq(ds_sectors_count(share, 47, &n), 0);
        cr_expect_eq(n, 15);
        cr_assert_eq(ds_sectors_count(share, 2, &n), 0);
        cr_expect_eq(n, 1);
        cr_expect_eq(ds_sectors_count(share, 1, &n), DS_SECTORS_E_SHARE);
        cr_assert_eq(ds_sectors_share_read("15", &share), 0);
        cr_assert_eq(ds_sectors_count(share, 47, &n), 0);
        cr_expect_eq(n, 15);
        cr_expect_eq(ds_sectors_count(share, 15, &n), DS_SECTORS_E_SHARE);
        for (size_t i = 0; i < 9; i++) {
                static const char *const bad[9] = {"", "0", "x", "1/", "/3", "3/3", "1/3 ", "-1", "12345"};

                cr_expect_eq(ds_sectors_share_read(bad[i], &share), -EINVAL, "%s", bad[i]);
        }
}

Test(lut_sectors, labels_that_make_no_sense)
{
        struct ds_sectors_labels labels = model(&a2000, 10);
        struct ds_sectors_plan got;
        const struct ds_sectors_share third = {1, 3}, all = {6, 0};

        cr_expect_eq(ds_sectors_plan(&labels, all, 8, 125, &got), DS_SECTORS_E_SHARE);
        channel[5] = 6;
        cr_expect_eq(ds_sectors_plan(&labels, third, 8, 125, &got), DS_SECTORS_E_LABELS);
        channel[5] = 5;
        labels.n_granules--;
        cr_expect_eq(ds_sectors_plan(&labels, third, 8, 125, &got), DS_SECTORS_E_LABELS);
        labels.n_granules = 0;
        cr_expect_eq(ds_sectors_plan(&labels, third, 8, 125, &got), DS_SECTORS_E_LABELS);
        labels = model(&a2000, 10);
        ds_alloc_fail_after(0);
        cr_expect_eq(ds_sectors_plan(&labels, third, 8, 125, &got), -ENOMEM);
        ds_alloc_fail_after(-1);
}
