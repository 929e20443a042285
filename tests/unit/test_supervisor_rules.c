/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights and limits: users win over groups, groups over all, key by key; the most generous of several groups counts;
 * administrators. Then the rate of a user's requests, with one queue for all of its connections.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "supervisor/charge.h"
#include "supervisor/rate.h"
#include "supervisor/rules.h"
#include "util/alloc.h"
#include "util/macro.h"

static const struct ds_rights everybody = {.of = {
                                                   [DS_RULE_CLASSES] = {.value = DS_CLASS_BIT_BE},
                                                   [DS_RULE_SM_PERCENT] = {.value = 100},
                                                   [DS_RULE_MEMORY] = {.value = 500, .from = DS_FROM_LIMITS},
                                                   [DS_RULE_PINNED] = {.value = 400},
                                                   [DS_RULE_SESSIONS] = {.value = 300},
                                                   [DS_RULE_CONNECTIONS] = {.value = 200},
                                                   [DS_RULE_CALLS] = {.value = DS_RIGHT_NONE},
                                           }};

static void set(struct ds_rules *rules, enum ds_rule_from from, uint32_t id, enum ds_rule_key key, uint64_t value)
{
        static unsigned file;

        cr_assert_eq(ds_rules_set(rules, from, id, key, value, ++file), 0);
}

static struct ds_rights of(
        const struct ds_rules *rules, uid_t uid, gid_t gid, const gid_t *groups, size_t n_groups, int admin)
{
        const struct ds_identity who = {uid, gid, n_groups, groups, admin};
        struct ds_rights rights;

        ds_rules_for(rules, &who, &everybody, &rights);
        return rights;
}

static void is(const struct ds_rights *rights, enum ds_rule_key key, uint64_t value, const char *name)
{
        char text[DS_RULE_NAME_MAX];

        cr_assert_eq(rights->of[key].value, value, "%s", ds_right_name(rights, key, text));
        cr_assert_str_eq(ds_right_name(rights, key, text), name);
}

Test(rules, ranks)
{
        struct ds_rules rules = {0};
        const gid_t groups[] = {10, 20};
        struct ds_rights rights;

        set(&rules, DS_FROM_GROUP, 10, DS_RULE_SESSIONS, 4);
        set(&rules, DS_FROM_GROUP, 20, DS_RULE_SESSIONS, 2);
        set(&rules, DS_FROM_GROUP, 20, DS_RULE_MEMORY, 100);
        set(&rules, DS_FROM_GROUP, 10, DS_RULE_SM_PERCENT, 30);
        set(&rules, DS_FROM_USER, 1000, DS_RULE_SM_PERCENT, 20);
        set(&rules, DS_FROM_USER, 1000, DS_RULE_CALLS, 7);
        rights = of(&rules, 1000, 20, groups, 1, 0);
        is(&rights, DS_RULE_SESSIONS, 4, "[group 10] sessions");
        is(&rights, DS_RULE_MEMORY, 100, "[group 20] memory");
        is(&rights, DS_RULE_SM_PERCENT, 20, "[user 1000] sm_percent");
        is(&rights, DS_RULE_CALLS, 7, "[user 1000] calls_per_second");
        is(&rights, DS_RULE_PINNED, 400, "the built-in limit");
        rights = of(&rules, 1001, 20, NULL, 0, 0);
        is(&rights, DS_RULE_SESSIONS, 2, "[group 20] sessions");
        rights = of(&rules, 1001, 5, NULL, 0, 0);
        is(&rights, DS_RULE_SESSIONS, 300, "the built-in limit");
        is(&rights, DS_RULE_MEMORY, 500, "[limits] memory_per_uid");
        is(&rights, DS_RULE_CLASSES, DS_CLASS_BIT_BE, "the built-in limit");
        ds_rules_deinit(&rules);
}

Test(rules, the_order_of_groups_does_not_matter)
{
        for (int turned = 0; turned < 2; turned++) {
                struct ds_rules rules = {0};
                const gid_t groups[] = {10, 20, 30};
                struct ds_rights rights;

                set(&rules, DS_FROM_GROUP, turned ? 30 : 10, DS_RULE_CLASSES, 0);
                set(&rules, DS_FROM_GROUP, 20, DS_RULE_CLASSES, DS_CLASS_BIT_LS);
                set(&rules, DS_FROM_GROUP, turned ? 10 : 30, DS_RULE_CLASSES, DS_CLASS_BIT_BE);
                set(&rules, DS_FROM_GROUP, turned ? 30 : 10, DS_RULE_MEMORY, turned ? 7 : DS_RIGHT_NONE);
                set(&rules, DS_FROM_GROUP, turned ? 10 : 30, DS_RULE_MEMORY, turned ? DS_RIGHT_NONE : 7);
                rights = of(&rules, 1, 1, groups, 3, 0);
                cr_assert_eq(rights.of[DS_RULE_CLASSES].value, DS_CLASS_BIT_BE | DS_CLASS_BIT_LS);
                cr_assert_eq(rights.of[DS_RULE_MEMORY].value, DS_RIGHT_NONE);
                ds_rules_deinit(&rules);
        }
}

Test(rules, administrators_are_bound_by_their_own_section_only)
{
        struct ds_rules rules = {0};
        const gid_t group = 10;
        struct ds_rights rights;

        set(&rules, DS_FROM_GROUP, 10, DS_RULE_SESSIONS, 4);
        set(&rules, DS_FROM_GROUP, 10, DS_RULE_CLASSES, 0);
        rights = of(&rules, 0, 0, &group, 1, 1);
        cr_assert_eq(rights.of[DS_RULE_SESSIONS].value, 300);
        cr_assert_eq(rights.of[DS_RULE_CLASSES].value, DS_CLASS_BIT_BE | DS_CLASS_BIT_LS);
        set(&rules, DS_FROM_USER, 0, DS_RULE_SESSIONS, 1);
        set(&rules, DS_FROM_USER, 0, DS_RULE_CLASSES, DS_CLASS_BIT_BE);
        rights = of(&rules, 0, 0, &group, 1, 1);
        cr_assert_eq(rights.of[DS_RULE_SESSIONS].value, 1);
        cr_assert_eq(rights.of[DS_RULE_CLASSES].value, DS_CLASS_BIT_BE);
        ds_rules_deinit(&rules);
}

Test(rules, the_short_form)
{
        struct ds_rules rules = {.ls = {.n_uids = 1, .uids = {7}, .n_gids = 1, .gids = {70}}};
        const gid_t group = 70;
        struct ds_rights rights;

        rights = of(&rules, 7, 1, NULL, 0, 0);
        is(&rights, DS_RULE_CLASSES, DS_CLASS_BIT_BE | DS_CLASS_BIT_LS, "[class]");
        rights = of(&rules, 8, 1, &group, 1, 0);
        cr_assert(rights.of[DS_RULE_CLASSES].value & DS_CLASS_BIT_LS);
        rights = of(&rules, 8, 1, NULL, 0, 0);
        cr_assert_not(rights.of[DS_RULE_CLASSES].value & DS_CLASS_BIT_LS);
        /* the user's own section wins over the lists of users and groups that may be latency-sensitive */
        set(&rules, DS_FROM_USER, 7, DS_RULE_CLASSES, 0);
        rights = of(&rules, 7, 1, &group, 1, 0);
        is(&rights, DS_RULE_CLASSES, 0, "[user 7] classes");
        rules.ls.every_gid = 1;
        rights = of(&rules, 9, 1, NULL, 0, 0);
        cr_assert(rights.of[DS_RULE_CLASSES].value & DS_CLASS_BIT_LS);
        ds_rules_deinit(&rules);
}

Test(rules, full_and_out_of_memory)
{
        struct ds_rules rules = {0};

        for (uint32_t i = 0; i < DS_RULES_MAX; i++)
                set(&rules, i % 2 ? DS_FROM_USER : DS_FROM_GROUP, i, DS_RULE_MEMORY, i);
        cr_assert_eq(ds_rules_set(&rules, DS_FROM_USER, 0, DS_RULE_MEMORY, 1, 0), DS_RULES_E_FULL);
        set(&rules, DS_FROM_USER, 1, DS_RULE_PINNED, 1); /* the table is full, but an existing entry can change */
        cr_assert_eq(ds_rules_set(&rules, DS_FROM_USER, 1, DS_RULE_SESSIONS, 1, 77), 0);
        cr_assert_eq(ds_rules_set(&rules, DS_FROM_USER, 1, DS_RULE_SESSIONS, 2, 77), DS_RULES_E_TWICE);
        ds_rules_deinit(&rules);
        ds_alloc_fail_after(0);
        cr_assert_eq(ds_rules_set(&rules, DS_FROM_USER, 0, DS_RULE_MEMORY, 1, 0), -ENOMEM);
        ds_alloc_fail_after(-1);
        ds_rules_deinit(&rules);
}

/* --- a user's account --------------------------------------------------------------------------------------------- */

static ds_users *users_with(uint64_t per_user, uint64_t total)
{
        struct ds_charge_limits limits;
        ds_users *users = NULL;

        for (int i = 0; i < _DS_CHARGE_MAX; i++) {
                limits.user[i] = limits.root[i] = per_user;
                limits.total[i] = total;
        }
        cr_assert_eq(ds_users_new(&limits, &users), 0);
        return users;
}

Test(rules, processes_of_one_user_have_the_more_generous_rights)
{
        struct ds_rights more = everybody, less = everybody;
        ds_users *users = users_with(1000, 2000);
        struct ds_charge_limits limits = {{0}, {0}, {0}};
        struct ds_charge a = {0}, b = {0};
        char name[80];
        ds_user *user;

        cr_assert_eq(ds_user_get(users, 7, &user), 0);
        cr_assert_eq(ds_user_limit(user, DS_CHARGE_DEVICE_BYTES), 1000);
        cr_assert_str_eq(ds_user_limit_name(user, DS_CHARGE_DEVICE_BYTES, name, sizeof(name)), "");
        more.of[DS_RULE_MEMORY] = (struct ds_granted){600, DS_FROM_GROUP, 5};
        less.of[DS_RULE_PINNED].value = 1;
        ds_user_add_rights(user, &less);
        ds_user_add_rights(user, &more);
        ds_user_add_rights(user, &less);
        cr_assert_eq(ds_user_limit(user, DS_CHARGE_DEVICE_BYTES), 600);
        cr_assert_str_eq(ds_user_limit_name(user, DS_CHARGE_DEVICE_BYTES, name, sizeof(name)), " ([group 5] memory)");
        cr_assert_eq(ds_user_limit(user, DS_CHARGE_HOST_BYTES), 400);
        cr_assert_eq(ds_user_limit(user, DS_CHARGE_WINDOWS), 300);
        cr_assert_eq(ds_user_limit(user, DS_CHARGE_CONNECTIONS), 200);
        cr_assert_eq(ds_user_limit(user, DS_CHARGE_MODULES), 1000, "no rule is about modules");
        cr_assert_eq(ds_charge_take(&a, user, DS_CHARGE_DEVICE_BYTES, 600), 0);
        cr_assert_eq(ds_charge_take(&b, user, DS_CHARGE_DEVICE_BYTES, 1), DS_CHARGE_E_USER);
        /* limits below the present charges take nothing away, but refuse further charges */
        limits.user[DS_CHARGE_DEVICE_BYTES] = 10;
        limits.total[DS_CHARGE_DEVICE_BYTES] = 10000;
        ds_users_set_limits(users, &limits);
        cr_assert_eq(ds_user_limit(user, DS_CHARGE_DEVICE_BYTES), 10);
        cr_assert_eq(ds_user_usage(user, DS_CHARGE_DEVICE_BYTES), 600);
        cr_assert_eq(ds_charge_take(&b, user, DS_CHARGE_DEVICE_BYTES, 1), DS_CHARGE_E_USER);
        ds_charge_release(&a);
        cr_assert_eq(ds_charge_take(&b, user, DS_CHARGE_DEVICE_BYTES, 10), 0);
        ds_charge_release(&b);
        ds_user_unref(user);
        ds_users_free(users);
}

/* --- rates -------------------------------------------------------------------------------------------------------- */

#define WAITERS 5

static struct {
        struct ds_rate rate;
        struct ds_deadlines deadlines;
        struct ds_rate_waiter waiters[WAITERS];
        int left[WAITERS], order[1000], n;
        uv_loop_t loop;
} rig;

static void ask(int i)
{
        while (rig.left[i] > 0 && ds_rate_take(&rig.rate, &rig.deadlines, &rig.waiters[i], uv_hrtime())) {
                rig.left[i]--;
                rig.order[rig.n++] = i;
        }
}

static void go(struct ds_rate_waiter *waiter)
{
        ask((int)(waiter - rig.waiters));
}

static void rig_init(uint64_t per_second, uint64_t burst)
{
        memset(&rig, 0, sizeof(rig));
        cr_assert_eq(uv_loop_init(&rig.loop), 0);
        cr_assert_eq(ds_deadlines_init(&rig.deadlines, &rig.loop), 0);
        ds_rate_init(&rig.rate);
        ds_rate_set(&rig.rate, per_second, burst);
        for (int i = 0; i < WAITERS; i++)
                rig.waiters[i].go = go;
}

static void rig_end(void)
{
        uv_run(&rig.loop, UV_RUN_DEFAULT);
        ds_rate_deinit(&rig.rate);
        ds_deadlines_deinit(&rig.deadlines);
        uv_run(&rig.loop, UV_RUN_DEFAULT);
        cr_assert_eq(uv_loop_close(&rig.loop), 0);
}

Test(rate, no_bound)
{
        rig_init(DS_RIGHT_NONE, 0);
        rig.left[0] = 900;
        ask(0);
        cr_assert_eq(rig.n, 900);
        rig_end();
}

/* A burst at once, the rest over time; a greedy connection does not starve others. */
Test(rate, turns)
{
        uint64_t begin;
        int of[WAITERS] = {0};

        rig_init(500, 3);
        rig.left[0] = 100;
        for (int i = 1; i < WAITERS; i++)
                rig.left[i] = 10;
        begin = uv_hrtime();
        for (int i = 0; i < WAITERS; i++)
                ask(i);
        cr_assert_eq(rig.n, 3, "a burst, and no more");
        cr_assert_eq(rig.left[0], 97);
        uv_run(&rig.loop, UV_RUN_DEFAULT);
        cr_assert_eq(rig.n, 140);
        /* 137 requests beyond the burst take their time at 500 per second; a slow machine needs longer */
        cr_assert_geq(uv_hrtime() - begin, 137 * DS_NS_PER_S / 500);
        /* the connections are served round robin while all of them wait */
        for (int k = 3; k < 3 + 5 * 10; k++)
                of[rig.order[k]]++;
        for (int i = 0; i < WAITERS; i++) {
                cr_assert_geq(of[i], 9, "%d of %d", of[i], i);
                cr_assert_leq(of[i], 12);
        }
        rig_end();
}

Test(rate, waiters_may_leave_and_rates_may_change)
{
        rig_init(1, 1);
        rig.left[0] = 1;
        rig.left[1] = rig.left[2] = 5;
        ask(0);
        ask(1);
        ask(2);
        cr_assert_eq(rig.n, 1);
        cr_assert(rig.waiters[1].waiting && rig.waiters[2].waiting);
        ds_rate_forget(&rig.rate, &rig.waiters[1]);
        ds_rate_forget(&rig.rate, &rig.waiters[1]);
        cr_assert_not(rig.waiters[1].waiting);
        ds_rate_set(&rig.rate, DS_RIGHT_NONE, 0); /* removes the rate, as a reload does */
        uv_run(&rig.loop, UV_RUN_DEFAULT);
        cr_assert_eq(rig.left[2], 0);
        cr_assert_eq(rig.left[1], 5);
        rig_end();
}

/* Reconnecting does not bypass a rate. */
Test(rate, outlives_its_user)
{
        struct ds_rights rights = everybody;
        ds_users *users = users_with(1000, 2000);
        struct ds_rate_waiter waiter = {.go = go};
        ds_user *user;

        memset(&rig, 0, sizeof(rig));
        cr_assert_eq(uv_loop_init(&rig.loop), 0);
        cr_assert_eq(ds_deadlines_init(&rig.deadlines, &rig.loop), 0);
        rights.of[DS_RULE_CALLS].value = 1;
        rights.of[DS_RULE_BURST].value = 2;
        for (int i = 0; i < 3; i++) {
                cr_assert_eq(ds_user_get(users, 7, &user), 0);
                ds_user_add_rights(user, &rights);
                if (i < 2) {
                        cr_assert_eq(ds_rate_take(ds_user_rate(user), &rig.deadlines, &waiter, uv_hrtime()), 1);
                } else {
                        cr_assert_eq(ds_rate_take(ds_user_rate(user), &rig.deadlines, &waiter, uv_hrtime()), 0);
                        ds_rate_forget(ds_user_rate(user), &waiter);
                }
                ds_user_unref(user);
        }
        ds_users_free(users);
        ds_deadlines_deinit(&rig.deadlines);
        uv_run(&rig.loop, UV_RUN_DEFAULT);
        cr_assert_eq(uv_loop_close(&rig.loop), 0);
}
