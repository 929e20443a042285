/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learned properties of an LS session's requests (policies/detshare/requests.h), without a policy: their length alone, and
 * which of them measure the cost of BE
 */
#include "policies/detshare/requests.h"

#include <criterion/criterion.h>

/* Makes a request of 1 ms that began at 10 ms, in a session whose requests took length_us so far. */
static struct ls request(uint64_t length_us, uint64_t free_us)
{
        return (struct ls){
                .length_ns = length_us * US,
                .begin_ns = 10 * MS,
                .empty_ns = 11 * MS,
                .free_ns = free_us ? 10 * MS + free_us * US : 0,
        };
}

static uint64_t learnt_us(struct ls ls)
{
        ls_learn_length(&ls, ls.empty_ns - ls.begin_ns);
        return ls.length_ns / US;
}

Test(policy_requests, requests_are_as_long_as_they_are_without_best_effort)
{
        struct ls ls = request(100, 600);

        cr_assert_eq(learnt_us(request(0, 0)), 1000, "the first one, whatever it was beside");
        cr_assert_eq(learnt_us(request(2000, 0)), 1750, "it is not longer than that");
        cr_assert_eq(learnt_us(request(100, 0)), 100, "BE was there to the end: nobody knows");
        cr_assert_eq(learnt_us(ls), 104, "it went on for 400 us when BE was gone");
        ls.free_ns = CAME_BACK;
        cr_assert_eq(learnt_us(ls), 100, "which came back");
        cr_assert_eq(learnt_us(request(500, 600)), 500, "it began beside BE, so that it goes on for less says nothing");
}

/* Whether the policy learns from a request of two operations of this duration, under a regime more generous than the
 * one in force. */
static uint32_t learnt(uint64_t us, int cut, int beside)
{
        struct ls ls = {.operations = 2,
                .cut = (uint8_t)cut,
                .beside = (uint8_t)beside,
                .regime = FELT_EBB,
                .felt = {.now = FELT_HELD, .base = {.n = FELT_BASE, .mean = 500 * US * 16}}};

        ls_felt(&ls, us * US);
        if (!beside)
                return ls.felt.base.mean != 500 * US * 16;
        return ls.felt.cost.n;
}

Test(policy_requests, a_trial_that_was_given_up_counts_if_it_was_bad_all_the_same)
{
        cr_assert_eq(learnt(1500, 0, 1), 1);
        cr_assert_eq(learnt(3000, 0, 1), 1);
        cr_assert_eq(learnt(1500, 1, 1), 0, "it would have taken longer");
        cr_assert_eq(learnt(2000, 1, 1), 1);
        cr_assert_eq(learnt(1500, 1, 0), 1, "BE was not there at all");
}
