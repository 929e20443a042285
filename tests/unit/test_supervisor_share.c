/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory shared by sessions: tokens that cannot be altered, the right user, charges until the last session releases it,
 * and the next daemon after a restart.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/share.h"
#include "util/macro.h"

#define BYTES DS_MIB(64)

struct books {
        ds_users *users;
        ds_user *one, *two;
        ds_shares *shares;
};

static struct books open_books(void)
{
        struct ds_charge_limits limits;
        struct books b = {0};

        for (int i = 0; i < _DS_CHARGE_MAX; i++)
                limits.user[i] = limits.root[i] = limits.total[i] = UINT64_MAX / 4;
        cr_assert_eq(ds_users_new(&limits, &b.users), 0);
        cr_assert_eq(ds_user_get(b.users, 1000, &b.one), 0);
        cr_assert_eq(ds_user_get(b.users, 1001, &b.two), 0);
        cr_assert_eq(ds_shares_new(&b.shares), 0);
        return b;
}

static void close_books(struct books *b)
{
        ds_shares_free(b->shares);
        cr_assert_eq(ds_users_charges(b->users), 0);
        ds_user_unref(b->one);
        ds_user_unref(b->two);
        ds_users_free(b->users);
}

static ds_share *make(const struct books *b, int charge_bytes)
{
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        ds_share *share = NULL;

        cr_assert_eq(ds_share_new(&fd, BYTES, charge_bytes, b->one, &share), 0);
        cr_assert_eq(fd, -1);
        return share;
}

Test(share, only_the_token_and_only_the_user)
{
        struct books b = open_books();
        ds_share *share = make(&b, 1);
        struct ds_share_found found;
        uint8_t token[DS_SHARE_TOKEN_BYTES], other[DS_SHARE_TOKEN_BYTES];

        cr_assert_eq(ds_share_id(share), 0);
        cr_assert_eq(ds_share_publish(b.shares, share), 0);
        cr_assert_eq(ds_share_publish(b.shares, share), 0, "twice is once");
        ds_share_token(share, 512, 4096, token);
        cr_assert_eq(ds_shares_find(b.shares, token, sizeof(token), b.one, &found), 0);
        cr_assert(found.share == share && found.offset == 512 && found.size == 4096);
        ds_share_unref(found.share);
        cr_assert_eq(ds_shares_find(b.shares, token, sizeof(token), b.two, &found), DS_SHARE_E_UNKNOWN);
        cr_assert_eq(ds_shares_find(b.shares, token, sizeof(token) - 1, b.one, &found), DS_SHARE_E_UNKNOWN);
        for (size_t bit = 0; bit < 8 * sizeof(token); bit++) {
                memcpy(other, token, sizeof(token));
                other[bit / 8] ^= (uint8_t)(1u << bit % 8);
                if (ds_shares_find(b.shares, other, sizeof(other), b.one, &found) == 0) {
                        /* bytes 16 to 31 of a token give the memory's position, which is only a hint */
                        cr_assert(bit / 8 >= 16 && bit / 8 < 32, "bit %zu", bit);
                        cr_assert(found.offset <= BYTES && found.size <= BYTES - found.offset);
                        ds_share_unref(found.share);
                }
        }
        ds_share_unref(share);
        cr_assert_eq(ds_shares_find(b.shares, token, sizeof(token), b.one, &found), DS_SHARE_E_UNKNOWN);
        close_books(&b);
}

/* A slab's allocations are charged while its owner has it; parts that others keep are charged to the owner
 * afterwards. */
Test(share, its_maker_pays_to_the_end)
{
        struct books b = open_books();
        ds_share *share = make(&b, 0), *kept;

        cr_assert_eq(ds_user_usage(b.one, DS_CHARGE_DEVICE_BYTES), 0);
        cr_assert_eq(ds_user_usage(b.one, DS_CHARGE_SLABS), 1);
        kept = ds_share_ref(share);
        ds_share_left(share);
        ds_share_unref(share);
        cr_assert_eq(ds_user_usage(b.one, DS_CHARGE_DEVICE_BYTES), BYTES);
        cr_assert_eq(ds_user_usage(b.two, DS_CHARGE_DEVICE_BYTES), 0);
        ds_share_unref(kept);
        share = make(&b, 0);
        ds_share_left(share); /* no other session has it */
        cr_assert_eq(ds_user_usage(b.one, DS_CHARGE_DEVICE_BYTES), 0);
        ds_share_unref(share);
        close_books(&b);
}

Test(share, a_token_is_good_in_the_next_life)
{
        struct books b = open_books(), next = open_books();
        ds_share *share = make(&b, 1), *again = make(&next, 1), *third = make(&next, 1);
        struct ds_share_found found;
        uint8_t token[DS_SHARE_TOKEN_BYTES], new[DS_SHARE_TOKEN_BYTES];

        cr_assert_eq(ds_share_publish(b.shares, share), 0);
        ds_share_token(share, 0, BYTES, token);
        cr_assert_eq(ds_share_republish(next.shares, again, 0, ds_share_secret(share)), DS_SHARE_E_UNKNOWN);
        cr_assert_eq(ds_share_republish(next.shares, again, ds_share_id(share), ds_share_secret(share)), 0);
        cr_assert_eq(ds_share_republish(next.shares, third, ds_share_id(share), ds_share_secret(share)),
                DS_SHARE_E_UNKNOWN, "that number is taken");
        cr_assert_eq(ds_shares_find(next.shares, token, sizeof(token), next.one, &found), 0);
        ds_share_unref(found.share);
        found.share = ds_shares_at(next.shares, ds_share_id(share));
        cr_assert_eq(found.share, again);
        ds_share_unref(found.share);
        cr_assert_null(ds_shares_at(next.shares, 77));
        cr_assert_eq(ds_share_publish(next.shares, third), 0);
        cr_assert_neq(ds_share_id(third), ds_share_id(again));
        ds_share_token(third, 0, BYTES, new);
        cr_assert_neq(memcmp(token, new, sizeof(token)), 0);
        ds_share_unref(share);
        ds_share_unref(again);
        ds_share_unref(third);
        close_books(&b);
        close_books(&next);
}
