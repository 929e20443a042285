/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scripted device and a harness for tests of the scheduler
 *
 * The device does no work. Every operation takes the time that the test gives it. Streams are in order, fences hold,
 * streams never disturb each other, and time moves only when the test moves it. Interference between concurrent kernels
 * is not modelled here; tests that need it use the simulated GPU.
 *
 * A transformed form of a kernel takes the time of its blocks, one after the other. An evicted kernel runs to the end
 * of its current chunk. The script counts every block that runs; a block that would run twice or out of order fails the
 * test.
 */
#pragma once

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sched/internal.h"
#include "sched/let_go.h"
#include "util/macro.h"

#define SDEV_RUNGS 128
#define SDEV_STREAMS (SDEV_RUNGS * DS_LADDER_STREAMS)
#define SDEV_PENDING 8192
#define SDEV_LOG 65536

struct ds_device_kernel {
        struct ds_kernel_info info;
};

/* Orders of the test for one launch; the params of the launch point to this script. */
struct sdev_script {
        uint64_t duration_ns;
        int32_t refuse;         /* CUDA error that launch() returns; 0: none */
        int32_t status;         /* status of the completion */
        int32_t refuse_form;    /* CUDA error that launch() of a transformed form returns; 0: none */
        uint32_t form_permille; /* duration of a transformed form, permille of the native one; 0: the same */
        uint32_t wave;          /* blocks that run at once and end at once; 0: 1 */
        uint32_t launched, ran; /* blocks launched and blocks run, in any form */
        uint32_t pieces;        /* launches that were accepted */
};

struct sdev_pending {
        uint64_t token, start_ns, end_ns, order;
        /* 16 bits each, because the search for the oldest entry dominates the cost of a launch here */
        uint16_t space, stream;
        int32_t status;
        uint32_t piece; /* 1 + number of the piece; 0: not a kernel */
};

/* A kernel, or some of its blocks, on the device. An evicted one is kept until it continues or is dropped. */
struct sdev_piece {
        uint64_t token, block_ns;
        struct sdev_script *script;
        uint32_t base, end, chunk, form; /* blocks from base up to, not including, end */
        uint8_t used, kept;
};

struct sdev_record {
        uint64_t now_ns, start_ns, end_ns;
        uint32_t rung, priority, space, max_resident_blocks;
        uint32_t form, first, n_blocks, workers, chunk;
        uint64_t deadline_ns;
};

struct ds_device {
        struct ds_device_info info;
        struct ds_rung_info rungs[SDEV_RUNGS];
        uint32_t n_rungs;
        uint64_t now_ns, order;
        uint64_t free_at[SDEV_STREAMS];
        struct sdev_pending pending[SDEV_PENDING];
        size_t n_pending;
        struct sdev_piece pieces[SDEV_PENDING];
        uint32_t piece_hand, n_kept;
        struct sdev_record log[SDEV_LOG];
        size_t n_log;
        uint64_t fences, kills, evictions, drops;
        int abort_works; /* 0: a started kernel runs to its end, as on a GPU */
        int fail_launch; /* negative errno that the next launch returns */
        int fail_rung;   /* number of the rung_create call that fails with -EIO; 0: none */
};

/* mask_permille (device/device.h) of scripted devices that are opened from now on */
static uint32_t sdev_mask_permille;

static inline const struct ds_device_info *sdev_info(ds_device *device)
{
        return &device->info;
}

static inline int sdev_rung_create(ds_device *device, const struct ds_tpc_mask *mask, uint32_t *ret_rung)
{
        struct ds_rung_info *rung = &device->rungs[device->n_rungs];

        cr_assert_lt(device->n_rungs, SDEV_RUNGS);
        if (device->fail_rung && (uint32_t)device->fail_rung == device->n_rungs)
                return -EIO;
        rung->mask = *mask;
        rung->n_tpcs = (uint32_t)(__builtin_popcountll(mask->word[0]) + __builtin_popcountll(mask->word[1]));
        rung->n_sms = rung->n_tpcs * (device->info.n_sms / device->info.n_tpcs);
        rung->cluster_max = rung->n_tpcs == device->info.n_tpcs ? 16 : 2;
        *ret_rung = device->n_rungs++;
        return 0;
}

/* Groups of four TPCs each; two neighbouring groups share a GPC. */
static inline int sdev_rung_create_coarse(ds_device *device, uint32_t groups, uint32_t *ret_rung)
{
        struct ds_tpc_mask mask = {{0}};
        struct ds_rung_info *rung;
        int r;

        for (uint32_t i = 0; i < device->info.n_groups; i++)
                if (groups >> i & 1)
                        mask.word[i * 4 / 64] |= 15ULL << i * 4 % 64;
        r = sdev_rung_create(device, &mask, ret_rung);
        if (r)
                return r;
        rung = &device->rungs[*ret_rung];
        rung->coarse = 1;
        rung->cluster_max = groups & groups >> 1 & 0x55555555 ? 16 : 8;
        return 0;
}

static inline const struct ds_rung_info *sdev_rung_info(ds_device *device, uint32_t rung)
{
        return &device->rungs[rung];
}

static inline const struct ds_kernel_info *sdev_kernel_info(const ds_device_kernel *kernel)
{
        return &kernel->info;
}

static inline struct sdev_pending *sdev_start(
        ds_device *device, uint32_t stream, uint32_t space, uint64_t token, uint64_t duration, int32_t status)
{
        struct sdev_pending *pending = &device->pending[device->n_pending++];
        uint64_t start = DS_MAX(device->now_ns, device->free_at[stream]);

        cr_assert_lt(device->n_pending, SDEV_PENDING);
        *pending = (struct sdev_pending){token, start, start + duration, device->order++, space, stream, status, 0};
        device->free_at[stream] = pending->end_ns;
        device->log[device->n_log++ % SDEV_LOG] = (struct sdev_record){.now_ns = device->now_ns,
                .start_ns = start,
                .end_ns = pending->end_ns,
                .rung = stream / DS_LADDER_STREAMS,
                .priority = stream / DS_DEVICE_STREAMS_PER_RUNG % DS_DEVICE_PRIORITIES,
                .space = space};
        return pending;
}

static inline struct sdev_piece *sdev_piece_new(ds_device *device)
{
        while (device->pieces[device->piece_hand % SDEV_PENDING].used)
                device->piece_hand++;
        return &device->pieces[device->piece_hand++ % SDEV_PENDING];
}

/* Finds the piece that was evicted as the launch with this token. */
static inline struct sdev_piece *sdev_piece_kept(ds_device *device, uint64_t token)
{
        for (size_t i = 0; i < SDEV_PENDING; i++)
                if (device->pieces[i].kept && device->pieces[i].token == token)
                        return &device->pieces[i];
        cr_assert_fail("nothing was evicted with this token");
        return NULL;
}

/* Determines the blocks of a launch; none of them may have run or be in flight. */
static inline void sdev_piece_init(
        ds_device *device, struct sdev_piece *piece, const struct ds_launch *launch, uint64_t token)
{
        /* the script belongs to the test, which gave it as a const pointer */
        struct sdev_script *script = (struct sdev_script *)(uintptr_t)launch->params;
        uint32_t blocks = launch->grid[0] * launch->grid[1] * launch->grid[2];
        uint64_t duration = script->duration_ns;

        if (launch->form != DS_PTX_FORM_NATIVE && script->form_permille)
                duration = duration / 1000 * script->form_permille;
        *piece = (struct sdev_piece){.token = token,
                .block_ns = duration / DS_MAX(blocks, 1u),
                .script = script,
                .end = blocks,
                .chunk = DS_MAX(launch->chunk, 1u) * DS_MAX(script->wave, 1u),
                .form = launch->form,
                .used = 1};
        if (launch->form == DS_PTX_FORM_SLICED) {
                cr_assert_geq(launch->n_blocks, 1);
                piece->base = launch->first;
                piece->end = launch->first + launch->n_blocks;
        } else if (launch->form == DS_PTX_FORM_PERSISTENT) {
                piece->base = script->launched;
        }
        cr_assert_eq(piece->base, script->launched, "blocks run twice, or in another order");
        cr_assert_leq(piece->end, blocks);
        script->launched = piece->end;
        script->pieces++;
}

static inline void sdev_launch_log(ds_device *device, const struct ds_launch *launch)
{
        struct sdev_record *record = &device->log[(device->n_log - 1) % SDEV_LOG];

        record->max_resident_blocks = launch->max_resident_blocks;
        record->form = launch->form;
        record->first = launch->first;
        record->n_blocks = launch->n_blocks;
        record->workers = launch->workers;
        record->chunk = launch->chunk;
        record->deadline_ns = launch->deadline_ns;
}

static inline int sdev_launch(ds_device *device, const struct ds_launch *launch, uint64_t token)
{
        const struct sdev_script *script = launch->params;
        struct sdev_piece *piece;
        uint64_t duration;
        int r = device->fail_launch;

        device->fail_launch = 0;
        if (r)
                return r;
        if (script->refuse)
                return script->refuse;
        if (launch->form != DS_PTX_FORM_NATIVE && script->refuse_form)
                return script->refuse_form;
        cr_assert(launch->form == DS_PTX_FORM_PERSISTENT || !launch->resumes);
        if (launch->resumes) {
                piece = sdev_piece_kept(device, launch->resumes - 1);
                cr_assert_eq(piece->script, script);
                device->n_kept--;
        } else {
                piece = sdev_piece_new(device);
        }
        sdev_piece_init(device, piece, launch, token);
        duration =
                launch->form == DS_PTX_FORM_NATIVE ? script->duration_ns : piece->block_ns * (piece->end - piece->base);
        sdev_start(device, launch->stream, launch->space, token, duration, script->status)->piece =
                1 + (uint32_t)(piece - device->pieces);
        sdev_launch_log(device, launch);
        return 0;
}

static inline int sdev_copy(ds_device *device, const struct ds_copy *copy, uint64_t token)
{
        sdev_start(device, copy->stream, copy->space, token, copy->width, 0);
        return 0;
}

static inline int sdev_memset(ds_device *device, const struct ds_memset *memset_, uint64_t token)
{
        sdev_start(device, memset_->stream, memset_->space, token, memset_->width, 0);
        return 0;
}

static inline int sdev_fence(ds_device *device, uint32_t from, uint32_t to)
{
        device->free_at[to] = DS_MAX(device->free_at[to], device->free_at[from]);
        device->fences++;
        return 0;
}

static inline void sdev_abort(ds_device *device, uint32_t space)
{
        for (size_t i = 0; device->abort_works && i < device->n_pending; i++) {
                struct sdev_pending *pending = &device->pending[i];

                if (pending->space != space || pending->end_ns <= device->now_ns)
                        continue;
                pending->end_ns = device->now_ns;
                pending->start_ns = DS_MIN(pending->start_ns, device->now_ns);
                pending->status = DS_CUDA_LAUNCH_FAILED;
        }
}

static inline struct sdev_pending *sdev_find(ds_device *device, uint64_t token)
{
        for (size_t i = 0; i < device->n_pending; i++)
                if (device->pending[i].token == token)
                        return device->pending[i].end_ns > device->now_ns ? &device->pending[i] : NULL;
        return NULL;
}

/* Ends the pending operation at end_ns instead, and starts its stream's next operation if the stream is empty. */
static inline void sdev_end_at(ds_device *device, struct sdev_pending *found, uint64_t end_ns, int32_t status)
{
        found->end_ns = end_ns;
        found->start_ns = DS_MIN(found->start_ns, end_ns);
        found->status = status;
        device->free_at[found->stream] = end_ns;
        for (size_t i = 0; i < device->n_pending; i++)
                if (device->pending[i].stream == found->stream)
                        device->free_at[found->stream] =
                                DS_MAX(device->free_at[found->stream], device->pending[i].end_ns);
}

static inline int sdev_kill(ds_device *device, uint64_t token)
{
        struct sdev_pending *found = sdev_find(device, token);

        if (!found)
                return DS_CUDA_NOT_FOUND;
        cr_assert_eq(device->pieces[found->piece - 1].form, DS_PTX_FORM_NATIVE);
        sdev_end_at(device, found, device->now_ns, DS_DEVICE_KILLED);
        device->kills++;
        return 0;
}

static inline int sdev_evict(ds_device *device, uint64_t token)
{
        struct sdev_pending *found = sdev_find(device, token);
        struct sdev_piece *piece = found ? &device->pieces[found->piece - 1] : NULL;
        uint64_t took = 0;

        if (!found)
                return DS_CUDA_NOT_FOUND;
        cr_assert_eq(piece->form, DS_PTX_FORM_PERSISTENT);
        if (found->start_ns < device->now_ns)
                took = (device->now_ns - found->start_ns) / DS_MAX(piece->block_ns, 1ull) + 1;
        took = DS_DIV_UP(took, piece->chunk) * piece->chunk;
        if (took >= piece->end - piece->base)
                return 0; /* the eviction comes too late to stop the piece before its end */
        sdev_end_at(device, found, took ? found->start_ns + took * piece->block_ns : device->now_ns, DS_DEVICE_EVICTED);
        piece->end = piece->base + (uint32_t)took;
        piece->script->launched = piece->end;
        device->evictions++;
        return 0;
}

static inline void sdev_drop(ds_device *device, uint64_t token)
{
        struct sdev_piece *piece = sdev_piece_kept(device, token);

        piece->kept = piece->used = 0;
        device->n_kept--;
        device->drops++;
}

/* Counts the blocks of the script that ran in this piece. */
static inline void sdev_piece_end(ds_device *device, struct sdev_piece *piece, struct ds_completion *completion)
{
        piece->kept = completion->status == DS_DEVICE_EVICTED;
        piece->used = piece->kept;
        device->n_kept += piece->kept;
        completion->blocks = piece->end;
        if (completion->status == DS_DEVICE_KILLED)
                piece->script->launched = piece->base;
        else if (!completion->status || piece->kept)
                piece->script->ran += piece->end - piece->base;
}

static inline size_t sdev_oldest(const ds_device *device)
{
        size_t best = 0;

        for (size_t i = 1; i < device->n_pending; i++)
                if (device->pending[i].end_ns < device->pending[best].end_ns ||
                        (device->pending[i].end_ns == device->pending[best].end_ns &&
                                device->pending[i].order < device->pending[best].order))
                        best = i;
        return best;
}

static inline size_t sdev_poll(ds_device *device, struct ds_completion *completions, size_t n)
{
        size_t count = 0;

        while (count < n && device->n_pending) {
                size_t best = sdev_oldest(device);
                struct sdev_pending pending = device->pending[best];

                if (pending.end_ns > device->now_ns)
                        break;
                completions[count] = (struct ds_completion){.token = pending.token,
                        .status = pending.status,
                        .start_ns = pending.start_ns,
                        .end_ns = pending.end_ns};
                if (pending.piece)
                        sdev_piece_end(device, &device->pieces[pending.piece - 1], &completions[count]);
                if (pending.status)
                        strcpy(completions[count].message, "scripted fault");
                count++;
                device->pending[best] = device->pending[--device->n_pending];
        }
        return count;
}

static inline uint64_t sdev_now(ds_device *device)
{
        return device->now_ns;
}

static inline int sdev_advance(ds_device *device, uint64_t limit_ns)
{
        uint64_t next = device->n_pending ? device->pending[sdev_oldest(device)].end_ns : UINT64_MAX;

        if (next <= limit_ns && next != UINT64_MAX) {
                device->now_ns = DS_MAX(device->now_ns, next);
                return 0;
        }
        if (limit_ns != UINT64_MAX)
                device->now_ns = DS_MAX(device->now_ns, limit_ns);
        return -ETIME;
}

static const struct ds_device_ops sdev_ops = {
        .version = DS_DEVICE_OPS_VERSION,
        .name = "scripted",
        .info = sdev_info,
        .rung_create = sdev_rung_create,
        .rung_create_coarse = sdev_rung_create_coarse,
        .rung_info = sdev_rung_info,
        .kernel_info = sdev_kernel_info,
        .launch = sdev_launch,
        .copy = sdev_copy,
        .memset = sdev_memset,
        .fence = sdev_fence,
        .abort = sdev_abort,
        .kill = sdev_kill,
        .evict = sdev_evict,
        .drop = sdev_drop,
        .poll = sdev_poll,
        .now = sdev_now,
        .advance = sdev_advance,
};

static inline ds_device *sdev_new(uint32_t n_tpcs)
{
        ds_device *device = calloc(1, sizeof(*device));

        device->info = (struct ds_device_info){.name = "scripted",
                .simulated = 1,
                .n_tpcs = n_tpcs,
                .n_sms = 2 * n_tpcs,
                .mask_permille = sdev_mask_permille};
        device->info.attributes[39] = 2048;
        device->info.attributes[81] = 233472;
        device->info.attributes[82] = 65536;
        device->info.attributes[106] = 32;
        device->info.attributes[111] = 1024;
        device->abort_works = 1;
        return device;
}

/* --- operations and harness --------------------------------------------------------------------------------------- */

struct top {
        struct ds_op op;
        struct sdev_script script;
        int done; /* number of reports of this operation's end; 1 is right */
        int status;
        uint64_t start_ns, end_ns, order;
        char message[64];
};

#define HARNESS_CAPS 4096

struct harness {
        ds_device *device;
        ds_sched *sched;
        uint64_t told;
        void (*on_done)(struct harness *harness, struct top *top);
        void *user;
        uint64_t caps[HARNESS_CAPS]; /* memory caps by session id; 0: none was set */
};

/* 16 registers, no shared memory: 8 blocks of 256 threads per SM */
static const ds_device_kernel sdev_kernel = {.info = {.name = "scripted", .max_threads = 1024, .registers = 16}};
/* An idempotent kernel: a policy may end it and launch it again. */
static const ds_device_kernel sdev_idempotent __attribute__((__unused__)) = {
        .info = {.name = "again", .max_threads = 1024, .registers = 16, .idempotent = 1}};

/* A kernel with transformed forms. */
static const ds_device_kernel sdev_sliced
        __attribute__((__unused__)) = {.info = {.name = "scripted__ds_sliced", .max_threads = 1024, .registers = 16}};
static const ds_device_kernel sdev_persistent __attribute__((__unused__)) = {
        .info = {.name = "scripted__ds_persistent", .max_threads = 1024, .registers = 16}};
static const struct ds_sched_forms sdev_forms
        __attribute__((__unused__)) = {.sliced = &sdev_sliced, .persistent = &sdev_persistent};

static inline void harness_memory_cap(void *user, uint64_t session, uint64_t bytes)
{
        struct harness *harness = user;

        cr_assert_lt(session, HARNESS_CAPS);
        harness->caps[session] = bytes;
}

static inline void harness_done(
        void *user, struct ds_op *op, int status, uint64_t start_ns, uint64_t end_ns, const char *message)
{
        struct harness *harness = user;
        struct top *top = DS_CONTAINER_OF(op, struct top, op);

        top->done++;
        top->status = status;
        top->start_ns = start_ns;
        top->end_ns = end_ns;
        top->order = ++harness->told;
        snprintf(top->message, sizeof(top->message), "%s", message ? message : "");
        if (harness->on_done)
                harness->on_done(harness, top);
}

/* Path of WHAT in the build folder: the test program build/tests/unit/x gives build/WHAT. */
static inline const char *build_path(const char *what)
{
        static char path[4096];
        ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 128);

        cr_assert_gt(n, 0);
        path[n] = 0;
        for (int i = 0; i < 3; i++)
                *strrchr(path, '/') = 0;
        strcat(path, "/");
        strcat(path, what);
        return path;
}

static inline int harness_open_transform(struct harness *harness, uint32_t n_tpcs, const char *dir, const char *policy,
        enum ds_sched_transform transform)
{
        struct ds_sched_config config = {
                .ops = &sdev_ops,
                .policy_dir = dir ? build_path(dir) : "",
                .policy = policy,
                .nonsense_limit = UINT32_MAX, /* some tests return senseless actions on purpose */
                .done = harness_done,
                .memory_cap = harness_memory_cap,
                .user = harness,
                .transform = transform,
        };

        *harness = (struct harness){.device = sdev_new(n_tpcs)};
        config.device = harness->device;
        return ds_sched_new(&config, &harness->sched);
}

static inline int harness_open(struct harness *harness, uint32_t n_tpcs, const char *dir, const char *policy)
{
        return harness_open_transform(harness, n_tpcs, dir, policy, DS_SCHED_TRANSFORM_AUTO);
}

static inline void harness_close(struct harness *harness)
{
        harness->sched = ds_sched_free(harness->sched);
        free(harness->device);
        harness->device = NULL;
}

static inline ds_sched_session *session_open(
        struct harness *harness, uint64_t id, enum detshare_class class_, uint64_t slo_ns)
{
        struct ds_sched_session_config config = {.id = id,
                .uid = (uint32_t)id,
                .class_ = class_,
                .slo = {.ns = {slo_ns}},
                .sm_percent = 100,
                .space = (uint32_t)id};
        ds_sched_session *session;

        cr_assert_eq(ds_sched_session_new(harness->sched, &config, &session), 0);
        return session;
}

static inline ds_coroutine *stream_open(ds_sched_session *session, int blocking, int legacy)
{
        ds_coroutine *coroutine;

        cr_assert_eq(ds_coroutine_new(session, 0, blocking, legacy, &coroutine), 0);
        return coroutine;
}

static inline uint64_t harness_now(struct harness *harness)
{
        return harness->device->now_ns;
}

static inline int submit(struct harness *harness, ds_coroutine *coroutine, struct top *top)
{
        return ds_sched_submit(coroutine, &top->op, harness_now(harness));
}

/* A kernel of `blocks` blocks of 256 threads that takes duration_ns. key 0: one identity per shape. */
static inline struct top *kernel_init(
        struct top *top, uint32_t space, uint64_t duration_ns, uint32_t blocks, uint64_t key)
{
        *top = (struct top){.op.kind = DS_OP_LAUNCH, .op.kernel_key = key, .script.duration_ns = duration_ns};
        top->op.launch = (struct ds_launch){.space = space,
                .kernel = &sdev_kernel,
                .grid = {blocks, 1, 1},
                .block = {256, 1, 1},
                .params = &top->script,
                .params_size = sizeof(top->script)};
        return top;
}

static inline struct top *mark_init(struct top *top)
{
        *top = (struct top){.op.kind = DS_OP_MARK};
        return top;
}

static inline struct top *wait_init(struct top *top, ds_coroutine *coroutine, uint64_t seq)
{
        *top = (struct top){.op.kind = DS_OP_WAIT};
        top->op.wait_for = coroutine;
        top->op.wait_seq = seq;
        return top;
}

static inline void harness_step(struct harness *harness)
{
        struct ds_completion completions[64];
        size_t n;

        while ((n = sdev_poll(harness->device, completions, 64)))
                ds_sched_complete(harness->sched, completions, n);
        cr_assert_eq(ds_sched_step(harness->sched, harness_now(harness)), 0);
}

/* Steps and lets time pass until nothing is due before until_ns (UINT64_MAX: until nothing is due at all). */
static inline void harness_run(struct harness *harness, uint64_t until_ns)
{
        for (;;) {
                uint64_t timer, limit;
                int r;

                harness_step(harness);
                timer = ds_sched_next_timer(harness->sched);
                limit = DS_MIN(timer, until_ns);
                r = sdev_advance(harness->device, limit);
                if (r == -ETIME && (limit == until_ns || limit == UINT64_MAX))
                        break;
        }
        harness_step(harness);
}

static inline struct ds_sched_stats harness_stats(struct harness *harness)
{
        struct ds_sched_stats stats;

        ds_sched_stats(harness->sched, &stats);
        return stats;
}

/* Asserts that no operation, session or coroutine is left. */
static inline void harness_assert_clean(struct harness *harness)
{
        struct ds_sched_stats stats = harness_stats(harness);

        cr_assert_eq(stats.in_flight, 0);
        cr_assert_eq(stats.queued, 0);
        cr_assert_eq(stats.stray_completions, 0);
        cr_assert_eq(harness->sched->n_runnable, 0);
        cr_assert_null(harness->sched->slicing);
        cr_assert_eq(harness->device->n_kept, 0, "what was evicted has gone on, or was dropped");
        for (uint32_t i = 0; i < harness->sched->ladder.n; i++) {
                cr_assert_eq(harness->sched->ladder.views[i].in_flight_ls, 0);
                cr_assert_eq(harness->sched->ladder.views[i].in_flight_be, 0);
        }
        for (uint32_t i = 0; i < harness->sched->ladder.n * DS_LADDER_STREAMS; i++)
                cr_assert_eq(harness->sched->stream_load[i], 0);
}
