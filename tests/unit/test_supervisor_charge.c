/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charges: limits per user and in total; sums balance after any order of events; no user record remains.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "supervisor/charge.h"
#include "util/alloc.h"
#include "util/macro.h"

static ds_users *users_with(uint64_t per_user, uint64_t root, uint64_t total)
{
        struct ds_charge_limits limits;
        ds_users *users = NULL;

        for (int i = 0; i < _DS_CHARGE_MAX; i++) {
                limits.user[i] = per_user;
                limits.root[i] = root;
                limits.total[i] = total;
        }
        cr_assert_eq(ds_users_new(&limits, &users), 0);
        return users;
}

Test(charge, limits)
{
        ds_users *users = users_with(10, 100, 105);
        struct ds_charge a = {0}, b = {0}, c = {0};
        ds_user *one, *root;

        cr_assert_eq(ds_user_get(users, 1000, &one), 0);
        cr_assert_eq(ds_user_get(users, 0, &root), 0);
        cr_assert_eq(ds_charge_take(&a, one, DS_CHARGE_MODULES, 11), DS_CHARGE_E_USER);
        cr_assert_eq(ds_charge_take(&a, one, DS_CHARGE_MODULES, UINT64_MAX), DS_CHARGE_E_USER);
        cr_assert_eq(ds_charge_take(&a, one, DS_CHARGE_MODULES, 10), 0);
        cr_assert_eq(ds_charge_take(&b, one, DS_CHARGE_MODULES, 1), DS_CHARGE_E_USER);
        cr_assert_eq(ds_charge_take(&b, one, DS_CHARGE_SLABS, 10), 0, "slots are independent");
        cr_assert_eq(ds_charge_take(&c, root, DS_CHARGE_MODULES, 96), DS_CHARGE_E_TOTAL);
        cr_assert_eq(ds_charge_take(&c, root, DS_CHARGE_MODULES, 95), 0);
        cr_assert_eq(ds_users_charges(users), 3);
        cr_assert_eq(ds_user_usage(one, DS_CHARGE_MODULES), 10);
        ds_charge_release(&a);
        ds_charge_release(&a);
        ds_charge_release(&b);
        ds_charge_release(&c);
        ds_user_unref(one);
        ds_user_unref(root);
        cr_assert_eq(ds_users_charges(users), 0);
        ds_users_free(users);
}

/* A user's account outlives its last reference as long as something is charged to it. */
Test(charge, charges_keep_the_account)
{
        ds_users *users = users_with(10, 10, 10);
        struct ds_charge a = {0}, moved = {0};
        ds_user *one, *again;

        cr_assert_eq(ds_user_get(users, 7, &one), 0);
        cr_assert_eq(ds_charge_take(&a, one, DS_CHARGE_WINDOWS, 1), 0);
        ds_user_unref(one);
        ds_charge_move(&moved, &a);
        ds_charge_release(&a);
        cr_assert_eq(ds_user_get(users, 7, &again), 0);
        cr_assert_eq(again, one);
        cr_assert_eq(ds_user_usage(again, DS_CHARGE_WINDOWS), 1);
        ds_user_unref(again);
        ds_charge_release(&moved);
        ds_users_free(users);
}

Test(charge, random_books_balance)
{
        for (unsigned seed = 1; seed <= 10; seed++) {
                ds_users *users = users_with(500, 900, 2000);
                static struct ds_charge charges[400];
                uint64_t sum[4][_DS_CHARGE_MAX] = {{0}};
                unsigned state = seed;

                memset(charges, 0, sizeof(charges));
                for (int step = 0; step < 20000; step++) {
                        struct ds_charge *c = &charges[rand_r(&state) % 400];
                        uid_t uid = (uid_t)rand_r(&state) % 4;
                        enum ds_charge_slot slot = (enum ds_charge_slot)(rand_r(&state) % _DS_CHARGE_MAX);
                        uint64_t amount = (uint64_t)rand_r(&state) % 50;
                        ds_user *user;

                        if (c->user) {
                                sum[ds_user_uid(c->user)][c->slot] -= c->amount;
                                ds_charge_release(c);
                                continue;
                        }
                        cr_assert_eq(ds_user_get(users, uid, &user), 0);
                        cr_assert_eq(ds_user_usage(user, slot), sum[uid][slot], "seed %u step %d", seed, step);
                        if (ds_charge_take(c, user, slot, amount) == 0)
                                sum[uid][slot] += amount;
                        cr_assert_leq(sum[uid][slot], ds_user_limit(user, slot));
                        ds_user_unref(user);
                }
                for (int i = 0; i < 400; i++)
                        ds_charge_release(&charges[i]);
                ds_users_free(users);
        }
}

/* A charge that is never released: the assertion that checks the sums at exit must find it. */
Test(charge, a_forgotten_charge_is_found, .signal = SIGABRT)
{
        ds_users *users = users_with(10, 10, 10);
        struct ds_charge a = {0};
        ds_user *one;

        cr_assert_eq(ds_user_get(users, 7, &one), 0);
        cr_assert_eq(ds_charge_take(&a, one, DS_CHARGE_WINDOWS, 1), 0);
        ds_user_unref(one);
        ds_users_free(users);
}

Test(charge, out_of_memory)
{
        ds_users *users = users_with(10, 10, 10);
        ds_user *one = NULL;

        for (int n = 0; n < 10; n++) {
                int r;

                ds_alloc_fail_after(n);
                r = ds_user_get(users, 7, &one);
                ds_alloc_fail_after(-1);
                if (r == 0)
                        break;
                cr_assert_null(one);
        }
        cr_assert_not_null(one);
        ds_user_unref(one);
        ds_users_free(users);
}
