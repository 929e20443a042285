/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test bodies for every device: many launches with persistent workers at once, evicted or dropped at any time
 *
 * device_forms.h tests single launches; this file tests crowds: sessions that are removed together, launches queued in
 * one stream, and control blocks reused thousands of times. Every launch completes. Every block of a launch that ended
 * ran once. Of a dropped launch exactly those blocks ran that its completion reports.
 */
#pragma once

#include "tests/gpu/device_forms.h"

#define DT_CROWD_SLOTS 12u
#define DT_CROWD_BLOCKS 24u
#define DT_CROWD_TOKENS UINT64_C(1000000) /* added to launch numbers, so that tokens are above those of the harness */
#define DT_CROWD_SESSIONS 6u
#define DT_CROWD_EACH 4u

/* Sizes of a test; much smaller where the CPU executes blocks one by one. */
struct dt_crowd_sizes {
        uint32_t launches; /* number of launches; on a GPU more than there are control blocks */
        uint32_t rounds;
        uint32_t wide; /* number of blocks of a launch that a removed session leaves running */
};

static inline struct dt_crowd_sizes dt_crowd_sizes(const struct dt *t)
{
        const struct ds_device_info *info = t->ops->info(t->device);

        if (info->simulated || strstr(info->name, "fake"))
                return (struct dt_crowd_sizes){120, 2, 60};
        return (struct dt_crowd_sizes){10000, 20, 6000};
}

static inline uint32_t dt_crowd_stream(struct dt_forms *f)
{
        uint32_t rung = f->rungs[dt_form_random(f, 3)], priority = dt_form_random(f, 2);

        return ds_device_stream(rung, priority, dt_form_random(f, 4));
}

/* --- launches queued in one stream -------------------------------------------------------------------------------- */

/* Evicts one launch of a stream, or that launch and all later ones, at any moment: each other launch still ends. */
ds_unused static void dt_test_forms_evict_behind(const struct ds_device_ops *ops, const char *spec)
{
        struct dt_forms f = dt_forms_open(ops, spec, 120);
        uint64_t token[DT_CROWD_SLOTS];
        uint32_t done[DT_CROWD_SLOTS], left, from, evicted = 0;
        const uint32_t rounds = dt_crowd_sizes(f.t).rounds;
        bool over[DT_CROWD_SLOTS];
        struct ds_launch l;

        for (uint32_t round = 0; round < rounds; round++) {
                dt_form_clear(&f, DT_CROWD_SLOTS);
                memset(token, 0, sizeof(token));
                memset(done, 0, sizeof(done));
                memset(over, 0, sizeof(over));
                left = DT_CROWD_SLOTS;
                for (uint32_t turn = 0; left; turn++) {
                        const uint32_t stream = dt_crowd_stream(&f);

                        for (uint32_t i = 0; i < DT_CROWD_SLOTS; i++) {
                                if (over[i])
                                        continue;
                                l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, i);
                                l.stream = stream;
                                l.workers = 1 + dt_form_random(&f, 40);
                                l.resumes = token[i] ? token[i] + 1 : 0;
                                token[i] = dt_launch(f.t, &l);
                        }
                        dt_form_pass(f.t, dt_form_random(&f, 30000));
                        from = dt_form_random(&f, DT_CROWD_SLOTS);
                        for (uint32_t i = DT_CROWD_SLOTS; i-- > from && turn < 4;) {
                                if (!over[i] && !f.t->came[token[i]])
                                        cr_assert_eq(ops->evict(f.t->device, token[i]), 0);
                                if (turn % 2)
                                        break;
                        }
                        for (uint32_t i = 0; i < DT_CROWD_SLOTS; i++) {
                                if (over[i])
                                        continue;
                                over[i] = !dt_form_evicted(&f, token[i], &done[i]);
                                evicted += !over[i];
                                left -= over[i];
                        }
                }
                for (uint32_t i = 0; i < DT_CROWD_SLOTS; i++)
                        dt_form_right(&f, i);
        }
        printf("%u of %u evicted\n", evicted, rounds * DT_CROWD_SLOTS);
        cr_assert(evicted > 0);
        dt_close(f.t);
}

/* --- reuse of control blocks -------------------------------------------------------------------------------------- */

/* A slot of the test: its launches run one after the other, all on one copy of the output. */
struct dt_crowd_slot {
        uint64_t token; /* token of the launch in flight; 0: none */
        uint64_t resumes;
        uint32_t done;
        uint32_t ended, dropped;
        uint32_t some[DT_CROWD_BLOCKS]; /* how often dropped launches have run each block */
};

static inline void dt_crowd_came(
        struct dt_forms *f, struct dt_crowd_slot *slot, const struct ds_completion *c, bool drop)
{
        slot->token = 0;
        slot->resumes = c->token + 1;
        if (!c->status) {
                slot->ended++;
                slot->resumes = slot->done = 0;
                return;
        }
        cr_assert_eq(c->status, DS_DEVICE_EVICTED, "status %d: %s", c->status, c->message);
        cr_assert(c->blocks >= slot->done && c->blocks < f->blocks, "%u after %u", c->blocks, slot->done);
        slot->done = c->blocks;
        if (!drop)
                return;
        f->t->ops->drop(f->t->device, c->token);
        for (uint32_t b = 0; b < slot->done; b++)
                slot->some[b]++;
        slot->dropped++;
        slot->resumes = slot->done = 0;
}

/* Takes the ready completions without waiting, but lets a virtual clock move. */
static inline uint32_t dt_crowd_poll(struct dt_forms *f, struct dt_crowd_slot *slots, bool drops)
{
        struct pollfd p = {.fd = f->t->ops->event_fd(f->t->device), .events = POLLIN};
        struct ds_completion c[16];
        size_t n = f->t->ops->poll(f->t->device, c, DS_ARRAY_SIZE(c));

        for (size_t i = 0; i < n; i++) {
                struct dt_crowd_slot *slot = &slots[c[i].token % DT_CROWD_SLOTS];

                cr_assert_eq(c[i].token, slot->token, "completion of an unknown token");
                dt_crowd_came(f, slot, &c[i], drops && !dt_form_random(f, 4));
        }
        if (!n && f->t->ops->advance && f->t->ops->advance(f->t->device, UINT64_MAX) == -EAGAIN)
                (void)poll(&p, 1, 100);
        return (uint32_t)n;
}

static inline void dt_crowd_launch(
        struct dt_forms *f, struct dt_crowd_slot *slot, uint32_t i, uint32_t number, uint32_t workers)
{
        struct ds_launch l = dt_form_launch(f, DS_PTX_FORM_PERSISTENT, i);
        int r;

        l.stream = dt_crowd_stream(f);
        l.workers = workers;
        l.chunk = dt_form_random(f, 3);
        l.resumes = slot->resumes;
        slot->token = ((uint64_t)number + DT_CROWD_TOKENS) * DT_CROWD_SLOTS + i;
        r = f->t->ops->launch(f->t->device, &l, slot->token);
        cr_assert_eq(r, 0, "launch %u: %d", number, r);
}

/* Asserts that each block ran as often as the completions report. */
static inline void dt_crowd_right(struct dt_forms *f, const struct dt_crowd_slot *slot, uint32_t i)
{
        const uint32_t *counts = (uint32_t *)DT_HOST_VA;

        dt_ok(f->t,
                dt_copy(f->t, f->t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_FORM_COUNTS + i * DS_KIB(32), f->blocks * 4));
        for (uint32_t b = 0; b < f->blocks; b++)
                cr_assert_eq(counts[b], slot->ended + slot->some[b], "slot %u, block %u ran %u times: %u ended, %u", i,
                        b, counts[b], slot->ended, slot->some[b]);
}

/* Thousands of launches share the control blocks, and are evicted, resumed or dropped at any time. */
ds_unused static void dt_test_forms_again_and_again(const struct ds_device_ops *ops, const char *spec)
{
        struct dt_forms f = dt_forms_open(ops, spec, DT_CROWD_BLOCKS);
        struct dt_crowd_slot slots[DT_CROWD_SLOTS] = {}, *slot;
        const uint32_t launches = dt_crowd_sizes(f.t).launches;
        uint32_t number = 0, flying = 0, left = 1, ended = 0, dropped = 0;

        dt_form_clear(&f, DT_CROWD_SLOTS);
        /* this launch is so long that it cannot have ended when it is evicted, however fast the others are */
        f.loops *= 100;
        dt_crowd_launch(&f, &slots[0], 0, number++, 1);
        cr_assert_eq(ops->evict(f.t->device, slots[0].token), 0);
        f.loops /= 100;
        flying++;
        while (flying || left) {
                left = 0;
                for (uint32_t i = 0; i < DT_CROWD_SLOTS; i++) {
                        if (slots[i].token || (number >= launches && !slots[i].resumes))
                                continue;
                        dt_crowd_launch(&f, &slots[i], i, number++, 1 + dt_form_random(&f, DT_CROWD_BLOCKS));
                        flying++;
                }
                slot = &slots[dt_form_random(&f, DT_CROWD_SLOTS)];
                if (slot->token && number < launches && dt_form_random(&f, 2))
                        cr_assert_eq(ops->evict(f.t->device, slot->token), 0);
                flying -= dt_crowd_poll(&f, slots, number < launches);
                for (uint32_t i = 0; i < DT_CROWD_SLOTS; i++)
                        left |= slots[i].resumes != 0;
        }
        for (uint32_t i = 0; i < DT_CROWD_SLOTS; i++) {
                dt_crowd_right(&f, &slots[i], i);
                ended += slots[i].ended;
                dropped += slots[i].dropped;
        }
        printf("%u launches: %u kernels ended, %u dropped\n", number, ended, dropped);
        cr_assert(ended > 0 && number > ended);
        dt_close(f.t);
}

/* --- sessions that are removed ------------------------------------------------------------------------------------ */

static inline uint64_t dt_crowd_va(uint32_t session)
{
        return DT_DEVICE_VA + (1 + session) * UINT64_C(0x10000000);
}

static inline ds_device_module *dt_crowd_session(struct dt *t, uint32_t session, const void *image, size_t size)
{
        ds_device_module *module = NULL;
        char log[1024] = "";
        int slab;

        cr_assert_eq(t->ops->space_add(t->device, DT_SPACE + 1 + session), 0);
        cr_assert_eq(t->ops->mem_create(t->device, DS_MIB(8), &slab), 0);
        cr_assert_eq(t->ops->mem_map(t->device, DT_SPACE + 1 + session, slab, dt_crowd_va(session), DS_MIB(8)), 0);
        close(slab);
        cr_assert_eq(t->ops->module_load(t->device, DT_SPACE + 1 + session, image, size, log, sizeof(log), &module), 0,
                "%s", log);
        return module;
}

static inline uint64_t dt_crowd_work(
        struct dt_forms *f, ds_device_module *module, uint32_t session, uint32_t i, uint32_t wide)
{
        const enum ds_ptx_form form = dt_form_random(f, 4) ? DS_PTX_FORM_PERSISTENT : DS_PTX_FORM_NATIVE;
        struct ds_launch l = dt_launch_of(
                f->t, module, form == DS_PTX_FORM_NATIVE ? "work" : "work__ds_persistent", 1, DT_FORM_THREADS);

        f->params = (struct dt_form_params){.counts = dt_crowd_va(session) + i * DS_KIB(32),
                .out = dt_crowd_va(session) + DS_MIB(1 + i),
                .loops = f->loops};
        l.grid[0] = wide;
        l.space = DT_SPACE + 1 + session;
        l.params = &f->params;
        l.params_size = 20;
        l.form = form;
        l.stream = dt_crowd_stream(f);
        l.workers = dt_form_random(f, 3) ? 1 + dt_form_random(f, 300) : 0;
        l.tell = dt_form_random(f, 2) ? DS_TELL_LATE : DS_TELL_SOON;
        return dt_launch(f->t, &l);
}

/* All sessions but one are removed at once, with launches running, queued, stopping, and evicted. The remaining
 * session is not affected. */
ds_unused static void dt_test_forms_sessions_go(const struct ds_device_ops *ops, const char *spec)
{
        struct dt_forms f = dt_forms_open(ops, spec, 60);
        const struct dt_crowd_sizes sizes = dt_crowd_sizes(f.t);
        ds_device_module *modules[DT_CROWD_SESSIONS];
        struct ds_launch l;
        uint64_t token;
        size_t size;
        void *image = dt_image(f.t, DT_PTX_FORMS, &size);

        for (uint32_t round = 0; round < sizes.rounds; round++) {
                dt_form_clear(&f, 1);
                for (uint32_t s = 0; s < DT_CROWD_SESSIONS; s++)
                        modules[s] = dt_crowd_session(f.t, s, image, size);
                l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 0);
                l.stream = dt_crowd_stream(&f);
                dt_launch(f.t, &l);
                for (uint32_t i = 0; i < DT_CROWD_EACH * DT_CROWD_SESSIONS; i++) {
                        token = dt_crowd_work(&f, modules[i % DT_CROWD_SESSIONS], i % DT_CROWD_SESSIONS,
                                i / DT_CROWD_SESSIONS, sizes.wide);
                        if (!dt_form_random(&f, 3))
                                /* the result does not matter, because the launch may be native */
                                (void)ops->evict(f.t->device, token);
                }
                dt_form_pass(f.t, dt_form_random(&f, 60000));
                for (uint32_t s = 0; s < DT_CROWD_SESSIONS; s++)
                        ops->abort(f.t->device, DT_SPACE + 1 + s);
                dt_wait_all(f.t);
                for (uint32_t s = 0; s < DT_CROWD_SESSIONS; s++) {
                        ops->module_unload(f.t->device, modules[s]);
                        cr_assert_eq(ops->space_remove(f.t->device, DT_SPACE + 1 + s), 0);
                }
                dt_form_right(&f, 0);
                if (ops->put_off(f.t->device))
                        ops->put_off_do(f.t->device);
        }
        free(image);
        dt_close(f.t);
}
