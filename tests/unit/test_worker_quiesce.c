/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that stop the device: which work is held, for how long, and in which order
 *
 * The simulated device claims that module loads and pinned memory stop it; timing-only where no results matter.
 */
#define WT_QUIESCE
#include <sys/stat.h>

#include "tests/unit/worker_harness.h"
#include "worker/internal.h"
#include "worker/later.h"

#define CALM_NS (10 * DS_NS_PER_MS) /* time without activity before much memory is unregistered */

/* A client with a ring and two kernels: `null` takes microseconds, `spins` never ends. */
struct side {
        struct wt_client client;
        uint64_t module, null, spins;
};

static struct side side_open(struct wt *t, uint64_t id, Detshare__Class class_)
{
        struct side side = {.client = wt_client(t, id, class_)};

        wt_attach(t, &side.client);
        cr_assert_eq(wt_module(t, &side.client, DT_PTX, &side.module), 0);
        side.null = wt_kernel(t, &side.client, side.module, "null");
        side.spins = wt_kernel(t, &side.client, side.module, "spins");
        return side;
}

static void side_close(struct wt *t, struct side *side)
{
        wt_client_close(t, &side->client);
}

static uint64_t send_module(struct wt *t, struct side *side)
{
        WT_REQUEST(request, MODULE_LOAD, module_load, ModuleLoad, MODULE_LOAD, .bytes = strlen(DT_PTX));
        int fd = wt_image(DT_PTX);
        uint64_t id = wt_send_call_fd(t, &side->client, &request, fd);

        close(fd);
        return id;
}

static int pinned(struct wt *t, struct side *side, uint64_t *ret)
{
        WT_REQUEST(request, PINNED_ALLOC, pinned_alloc, PinnedAlloc, PINNED_ALLOC, .bytes = DS_MIB(1));
        wt_answer *answer = wt_call(t, &side->client, &request);
        int status = answer->status;

        if (!status)
                *ret = answer->reply->pinned_alloc->address;
        wt_free(answer);
        return status;
}

static void launches(struct side *side, uint64_t kernel, int n)
{
        for (int i = 0; i < n; i++)
                wt_push_launch(&side->client, 0, kernel, 1, 32, NULL, 0);
}

/* Status of an answer that comes later: the worker does not sleep right after activity of LS, and kernels need the
 * processor. */
static int status_later(struct wt *t, uint64_t id)
{
        wt_wall += DS_NS_PER_S;
        return wt_status(t, id);
}

static uint64_t device_now(struct wt *t)
{
        return wt_worker_stats(t).device_now_ns;
}

Test(worker_quiesce, each_waiting_call_is_made_in_one, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side a = side_open(t, 1, DETSHARE__CLASS__BE), b = side_open(t, 2, DETSHARE__CLASS__BE);
        uint64_t before = wt_worker_stats(t).quiesces, ids[4];

        cr_assert_eq(before, 2, "a load each");
        /* a kernel that does not end delays all loads of modules */
        launches(&a, a.spins, 1);
        wt_settle(t);
        for (int i = 0; i < 4; i++)
                ids[i] = send_module(t, i % 2 ? &a : &b);
        launches(&b, b.null, 1);
        wt_settle(t);
        for (int i = 0; i < 4; i++)
                cr_assert_null(wt_take(t, ids[i]), "loaded beside a kernel");
        cr_assert_eq(atomic_load(&b.client.page->completed), 0, "launched while the device drains");
        /* requests that do not stop the device are answered meanwhile */
        {
                WT_REQUEST(info, MEM_INFO, mem_info, MemInfo, MEM_INFO, .base = {0});
                struct wt_client other = wt_client(t, 3, DETSHARE__CLASS__BE);

                cr_assert_eq(wt_call_status(t, &other, &info), 0);
                wt_client_close(t, &other);
        }
        /* closing the client ends its endless kernel */
        cr_assert_eq(wt_status(t, wt_send_close(t, &a.client)), 0);
        for (int i = 0; i < 4; i++)
                cr_assert_eq(wt_status(t, ids[i]), i % 2 ? DETSHARE__STATUS__NO_SUCH : 0);
        cr_assert_eq(wt_sync_all(t, &b.client), 0);
        cr_assert_eq(wt_worker_stats(t).quiesces, before + 1);
        wt_client_unmap(&a.client);
        side_close(t, &b);
        wt_close(t);
}

/* A stop waits until LS has a pause, or for 20 ms. */
Test(worker_quiesce, ls_work_goes_first_for_a_while, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side ls = side_open(t, 1, DETSHARE__CLASS__LS), be = side_open(t, 2, DETSHARE__CLASS__BE);
        uint64_t id, began;

        launches(&ls, ls.null, 1000);
        wt_turn(t, 0);
        cr_assert_lt(atomic_load(&ls.client.page->completed), 1000);
        id = send_module(t, &be);
        cr_assert_eq(status_later(t, id), 0);
        cr_assert_eq(atomic_load(&ls.client.page->completed), 1000, "loaded before LS had a gap");
        /* LS never pauses: after 20 ms of device time its launches are held, and its running kernel finishes */
        launches(&ls, ls.spins, 1);
        wt_settle(t);
        began = device_now(t);
        id = send_module(t, &be);
        wt_settle(t);
        launches(&ls, ls.null, 1);
        wt_settle(t);
        cr_assert_null(wt_take(t, id));
        cr_assert_eq(wt_status(t, wt_send_close(t, &ls.client)), 0);
        cr_assert_eq(wt_status(t, id), 0);
        cr_assert_leq(device_now(t) - began, 300 * DS_NS_PER_MS);
        wt_client_unmap(&ls.client);
        side_close(t, &be);
        wt_close(t);
}

/* Beside LS at most fifty stops a second serve BE once the budget for delayed requests is spent; an LS client's own load
 * does not wait for that rate. */
Test(worker_quiesce, be_has_a_rate_beside_ls, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side ls = side_open(t, 1, DETSHARE__CLASS__LS), be = side_open(t, 2, DETSHARE__CLASS__BE);
        WT_REQUEST(sync, SYNC, sync, Sync, SYNC, .all = 1);
        uint64_t began, before, module, id;

        began = device_now(t);
        before = wt_worker_stats(t).quiesces;
        for (int i = 0; i < 10; i++) {
                t->worker->quiesce.cost.budget = -DSW_STOP_SHARE;
                /* LS has work all the time */
                launches(&ls, ls.null, 1);
                id = wt_send_call(t, &ls.client, &sync);
                cr_assert_eq(status_later(t, send_module(t, &be)), 0);
                cr_assert_eq(status_later(t, id), 0);
        }
        cr_assert_eq(wt_worker_stats(t).quiesces, before + 10);
        cr_assert_geq(device_now(t) - began, 9 * 20 * DS_NS_PER_MS);
        cr_assert_lt(device_now(t) - began, 10 * 50 * DS_NS_PER_MS);
        began = device_now(t);
        for (int i = 0; i < 10; i++)
                cr_assert_eq(wt_module(t, &ls.client, DT_PTX, &module), 0);
        cr_assert_lt(device_now(t) - began, 10 * DS_NS_PER_MS);
        side_close(t, &ls);
        side_close(t, &be);
        wt_close(t);
}

/* Freeing pinned memory returns at once; its address is reused only after it is unmapped. */
Test(worker_quiesce, giving_back_never_waits, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side a = side_open(t, 1, DETSHARE__CLASS__BE), b = side_open(t, 2, DETSHARE__CLASS__BE);
        uint64_t p, q, before;

        cr_assert_eq(pinned(t, &a, &p), 0);
        launches(&b, b.spins, 1);
        wt_settle(t);
        before = wt_worker_stats(t).quiesces;
        {
                WT_REQUEST(free_, PINNED_FREE, pinned_free, PinnedFree, PINNED_FREE, .address = p);

                cr_assert_eq(wt_call_status(t, &a.client, &free_), 0);
                cr_assert_eq(wt_call_status(t, &a.client, &free_), DS_CUDA_INVALID_VALUE);
        }
        wt_settle(t);
        cr_assert_eq(wt_worker_stats(t).quiesces, before, "beside a running kernel");
        cr_assert_eq(wt_status(t, wt_send_close(t, &b.client)), 0);
        wt_settle(t);
        cr_assert_eq(wt_worker_stats(t).quiesces, before + 1, "when nothing runs");
        cr_assert_eq(pinned(t, &a, &q), 0);
        cr_assert_eq(p, q, "the place is free again");
        wt_client_unmap(&b.client);
        side_close(t, &a);
        wt_close(t);
}

/* Number of unrequested reports that the session has nothing left. */
static int told_empty(struct wt *t, uint64_t session)
{
        wt_answer *told;
        int n = 0;

        while ((told = wt_take(t, 0))) {
                n += told->ledger && told->ledger->reset && told->ledger->session == session;
                wt_free(told);
        }
        return n;
}

/* A session with pinned memory closes in a quiesce; its device memory is freed before. */
Test(worker_quiesce, a_session_goes_in_two_steps, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side a = side_open(t, 1, DETSHARE__CLASS__BE), b = side_open(t, 2, DETSHARE__CLASS__BE);
        WT_REQUEST(reset, RESET_SESSION, reset_session, ResetSession, RESET_SESSION, .base = {0});
        uint64_t p, id;

        cr_assert_eq(pinned(t, &a, &p), 0);
        cr_assert_eq(wt_alloc(t, &a.client, 4096, &p), 0);
        launches(&b, b.spins, 1);
        wt_settle(t);
        id = wt_send_call(t, &a.client, &reset);
        wt_settle(t);
        cr_assert_null(wt_take(t, id));
        cr_assert_eq(wt_worker_stats(t).memory_slabs, 0);
        cr_assert_eq(wt_worker_stats(t).modules, 1);
        /* another session may own the slab from now on: the supervisor gets one report */
        cr_assert_eq(told_empty(t, a.client.id), 1);
        cr_assert_eq(wt_reset(t, &b.client), 0);
        cr_assert_eq(wt_status(t, id), 0);
        /* session b continues to work after its reset */
        cr_assert_eq(pinned(t, &a, &p), 0);
        cr_assert_eq(wt_module(t, &b.client, DT_PTX, &b.module), 0);
        b.spins = wt_kernel(t, &b.client, b.module, "spins");
        launches(&b, b.spins, 1);
        wt_settle(t);
        id = wt_send_close(t, &a.client);
        wt_settle(t);
        cr_assert_null(wt_take(t, id));
        cr_assert_eq(wt_status(t, wt_send_close(t, &b.client)), 0);
        cr_assert_eq(wt_status(t, id), 0);
        cr_assert_eq(wt_worker_stats(t).sessions, 0);
        wt_client_unmap(&a.client);
        wt_client_unmap(&b.client);
        wt_close(t);
}

/* Takes the session's next pinned allocation of that size. Returns its file's status; all pages of the file must
 * exist. */
static struct stat filled(struct wt *t, struct wt_client *client, uint64_t bytes)
{
        WT_REQUEST(request, PINNED_ALLOC, pinned_alloc, PinnedAlloc, PINNED_ALLOC, .bytes = bytes);
        wt_answer *answer = wt_call(t, client, &request);
        struct stat file;

        cr_assert_eq(answer->status, 0);
        cr_assert_eq(fstat(t->last_fds[1], &file), 0);
        cr_assert_eq((uint64_t)file.st_size, bytes);
        cr_assert_eq((uint64_t)file.st_blocks * 512, bytes, "%llu blocks", (unsigned long long)file.st_blocks);
        wt_free(answer);
        return file;
}

/* The pages of pinned memory are allocated in advance; each file is used once. */
Test(worker_quiesce, pinned_memory_is_filled_beforehand, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        struct stat files[12];

        for (size_t i = 0; i < DS_ARRAY_SIZE(files); i++) {
                files[i] = filled(t, &client, i < 8 ? DS_ARENA_BYTES : DS_MIB(i));
                for (size_t j = 0; j < i; j++)
                        cr_assert_neq(files[i].st_ino, files[j].st_ino);
        }
        /* the memory of a session that closes does not wait for a calm moment */
        wt_client_close(t, &client);
        wt_close(t);
}

/* Unregistering much memory takes long, so it waits until no session is active, or until it is old. A session that
 * needs a stop does not wait for it. */
Test(worker_quiesce, much_is_unregistered_in_a_calm, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side a = side_open(t, 1, DETSHARE__CLASS__BE);
        WT_REQUEST(request, PINNED_ALLOC, pinned_alloc, PinnedAlloc, PINNED_ALLOC, .bytes = DS_MIB(64));
        WT_REQUEST(free_, PINNED_FREE, pinned_free, PinnedFree, PINNED_FREE, .address = 0);
        WT_REQUEST(info, MEM_INFO, mem_info, MemInfo, MEM_INFO, .base = {0});
        uint64_t calms[] = {CALM_NS, 5 * DS_NS_PER_S}, before, p;

        for (size_t i = 0; i < DS_ARRAY_SIZE(calms); i++) {
                wt_answer *answer = wt_call(t, &a.client, &request);

                cr_assert_eq(answer->reply->result_case, DETSHARE__REPLY__RESULT_PINNED_ALLOC);
                free__body.address = answer->reply->pinned_alloc->address;
                wt_free(answer);
                cr_assert_eq(wt_call_status(t, &a.client, &free_), 0);
                before = wt_worker_stats(t).quiesces;
                wt_settle(t);
                cr_assert_eq(wt_worker_stats(t).quiesces, before);
                cr_assert_eq(pinned(t, &a, &p), 0);
                cr_assert_eq(wt_worker_stats(t).quiesces, before + 1);
                cr_assert_eq(t->worker->n_gone, 1, "it was unregistered along with a session's call");
                wt_wall += calms[i] - 1;
                if (calms[i] > CALM_NS)
                        cr_assert_eq(wt_call_status(t, &a.client, &info), 0, "the session is active");
                wt_settle(t);
                cr_assert_eq(t->worker->n_gone, 1);
                wt_wall++;
                wt_settle(t);
                cr_assert_eq(t->worker->n_gone, 0, "after %llu ns", (unsigned long long)calms[i]);
                cr_assert_eq(t->worker->gone_bytes, 0);
        }
        side_close(t, &a);
        wt_close(t);
}

/* Allocating pages needs no stop, and a session that waits for it delays no other. */
Test(worker_quiesce, filling_stops_nobody, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side a = side_open(t, 1, DETSHARE__CLASS__BE), b = side_open(t, 2, DETSHARE__CLASS__BE);
        WT_REQUEST(request, PINNED_ALLOC, pinned_alloc, PinnedAlloc, PINNED_ALLOC, .bytes = DS_MIB(512));
        uint64_t before = wt_worker_stats(t).quiesces, id, info_id;
        WT_REQUEST(info, MEM_INFO, mem_info, MemInfo, MEM_INFO, .base = {0});

        id = wt_send_call(t, &a.client, &request);
        info_id = wt_send_call(t, &a.client, &info);
        for (int i = 0; i < 5; i++) {
                launches(&b, b.null, 1);
                wt_turn(t, 0);
        }
        cr_assert_null(wt_take(t, id));
        cr_assert_null(wt_take(t, info_id), "a session's requests keep their order");
        cr_assert_eq(t->worker->quiesce.state, DSW_QUIESCE_OPEN);
        cr_assert_eq(wt_worker_stats(t).quiesces, before);
        cr_assert_eq(wt_sync_all(t, &b.client), 0);
        cr_assert_eq(wt_status(t, id), 0);
        cr_assert_eq(wt_status(t, info_id), 0);
        cr_assert_eq(wt_worker_stats(t).quiesces, before + 1);
        /* pages of a session that closes meanwhile are freed */
        id = wt_send_call(t, &a.client, &request);
        wt_turn(t, 0);
        cr_assert_eq(wt_status(t, wt_send_close(t, &a.client)), 0);
        cr_assert_eq(wt_status(t, id), DETSHARE__STATUS__NO_SUCH);
        wt_settle(t);
        cr_assert_eq(dsw_pages_awaited(t->worker), 0);
        wt_client_unmap(&a.client);
        side_close(t, &b);
        wt_close(t);
}

/* --- managed memory ----------------------------------------------------------------------------------------------- */

/* Returns the status of an allocation. beside: a kernel runs, so there can be no quiesce. *ret_file: a duplicate of the
 * file. */
static int managed(struct wt *t, struct side *side, uint64_t bytes, int beside, uint64_t *ret, int *ret_file)
{
        WT_REQUEST(request, PINNED_ALLOC, pinned_alloc, PinnedAlloc, PINNED_ALLOC, .bytes = bytes, .later = 1);
        uint64_t before = wt_worker_stats(t).quiesces;
        wt_answer *answer = wt_call(t, &side->client, &request);
        int status = answer->status;

        if (!status) {
                *ret = answer->reply->pinned_alloc->address;
                *ret_file = dup(t->last_fds[1]);
                if (beside)
                        cr_assert_eq(wt_worker_stats(t).quiesces, before, "the answer waited for a quiesce");
        }
        wt_free(answer);
        return status;
}

static int give_back(struct wt *t, struct side *side, uint64_t address)
{
        WT_REQUEST(free_, PINNED_FREE, pinned_free, PinnedFree, PINNED_FREE, .address = address);

        return wt_call_status(t, &side->client, &free_);
}

static enum dsw_where where(struct wt *t, uint64_t id, uint64_t address)
{
        return dsw_memory_where(dsw_session_find(t->worker, id), address, 8);
}

/* Managed memory is the client's at once, and the GPU's before any later work of the session. Preparing it keeps the
 * bytes that the client has written. */
Test(worker_quiesce, managed_memory_is_registered_before_its_first_use, .timeout = 60)
{
        const uint64_t sizes[] = {4096, DS_MIB(24)};
        struct wt *t = wt_open(FUNCTIONAL);
        struct side a = side_open(t, 1, DETSHARE__CLASS__BE), b = side_open(t, 2, DETSHARE__CLASS__BE);
        uint64_t at[2], word = 0x5eed, out;
        struct stat file;
        int files[2];

        launches(&b, b.spins, 1);
        wt_settle(t);
        for (int i = 0; i < 2; i++) {
                cr_assert_eq(managed(t, &a, sizes[i], 1, &at[i], &files[i]), 0);
                cr_assert_eq(where(t, 1, at[i]), DSW_WHERE_NOWHERE);
                cr_assert_eq(pwrite(files[i], &word, 8, (off_t)sizes[i] - 8), 8);
        }
        launches(&a, a.null, 1);
        for (int i = 0; i < 5; i++)
                wt_settle(t);
        cr_assert_eq(atomic_load(&a.client.page->head), 0, "work began before the GPU knew the memory");
        cr_assert_eq(wt_status(t, wt_send_close(t, &b.client)), 0);
        cr_assert_eq(wt_sync_all(t, &a.client), 0);
        cr_assert_eq(atomic_load(&a.client.page->stream_done[0]), 1);
        cr_assert_eq(atomic_load(&a.client.page->error), 0);
        for (int i = 0; i < 2; i++) {
                cr_assert_eq(where(t, 1, at[i]), DSW_WHERE_PINNED);
                cr_assert_eq(fstat(files[i], &file), 0);
                cr_assert_eq((uint64_t)file.st_blocks * 512, sizes[i]);
                cr_assert(pread(files[i], &out, 8, (off_t)sizes[i] - 8) == 8 && out == word);
                cr_assert(pread(files[i], &out, 8, 0) == 8 && out == 0);
                cr_assert_eq(give_back(t, &a, at[i]), 0);
                cr_assert_eq(give_back(t, &a, at[i]), DS_CUDA_INVALID_VALUE);
                close(files[i]);
        }
        wt_client_unmap(&b.client);
        side_close(t, &a);
        wt_close(t);
}

/* Memory that the GPU does not know yet is freed without a quiesce. Its number is limited: the next one waits. */
Test(worker_quiesce, managed_memory_may_go_unregistered, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side a = side_open(t, 1, DETSHARE__CLASS__BE), b = side_open(t, 2, DETSHARE__CLASS__BE);
        uint64_t at[DSW_LATER_MAX], again, before = wt_worker_stats(t).quiesces, id;
        WT_REQUEST(request, PINNED_ALLOC, pinned_alloc, PinnedAlloc, PINNED_ALLOC, .bytes = 4096, .later = 1);
        int file;

        launches(&b, b.spins, 1);
        wt_settle(t);
        for (size_t i = 0; i < DSW_LATER_MAX; i++) {
                cr_assert_eq(managed(t, &a, i % 2 ? DS_MIB(1) : 8192, 1, &at[i], &file), 0);
                close(file);
        }
        id = wt_send_call(t, &a.client, &request);
        wt_settle(t);
        cr_assert_null(wt_take(t, id), "there is no limit");
        cr_assert_eq(wt_status(t, wt_send_close(t, &b.client)), 0);
        cr_assert_eq(wt_status(t, id), 0);
        cr_assert_geq(wt_worker_stats(t).quiesces, before + 1);
        while (dsw_session_find(t->worker, 1)->memory.later)
                wt_turn(t, 1);
        wt_client_unmap(&b.client);
        b = side_open(t, 3, DETSHARE__CLASS__BE);
        launches(&b, b.spins, 1);
        wt_settle(t);
        before = wt_worker_stats(t).quiesces;
        cr_assert_eq(managed(t, &a, DS_MIB(300), 1, &at[0], &file), 0);
        close(file);
        cr_assert_eq(give_back(t, &a, at[0]), 0);
        cr_assert_eq(managed(t, &a, DS_MIB(300), 1, &again, &file), 0);
        close(file);
        cr_assert_eq(again, at[0], "its addresses are free again");
        cr_assert_eq(wt_worker_stats(t).quiesces, before);
        /* a session that closes with such memory */
        id = wt_send_close(t, &a.client);
        cr_assert_eq(wt_status(t, wt_send_close(t, &b.client)), 0);
        cr_assert_eq(wt_status(t, id), 0);
        wt_settle(t);
        cr_assert_eq(dsw_pages_awaited(t->worker), 0);
        wt_client_unmap(&a.client);
        wt_client_unmap(&b.client);
        wt_close(t);
}

static int no_memory(ds_device *device, uint32_t space, int fd, uint64_t va, uint64_t size)
{
        return DS_CUDA_OUT_OF_MEMORY;
}

/* Memory that cannot be registered gives the session a sticky error; a reset ends it. */
Test(worker_quiesce, managed_memory_that_fails_is_a_sticky_error, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side a = side_open(t, 1, DETSHARE__CLASS__BE);
        const struct ds_device_ops *ops = t->worker->ops;
        struct ds_device_ops failing = *ops;
        uint64_t at;
        int file;

        failing.host_map = no_memory;
        t->worker->ops = &failing;
        cr_assert_eq(managed(t, &a, 4096, 0, &at, &file), 0);
        close(file);
        launches(&a, a.null, 1);
        cr_assert_eq(wt_sync_all(t, &a.client), DS_CUDA_OUT_OF_MEMORY);
        cr_assert_eq(where(t, 1, at), DSW_WHERE_NOWHERE);
        t->worker->ops = ops;
        cr_assert_eq(wt_reset(t, &a.client), 0);
        cr_assert_eq(managed(t, &a, 4096, 0, &at, &file), 0);
        close(file);
        wt_settle(t);
        cr_assert_eq(where(t, 1, at), DSW_WHERE_PINNED);
        side_close(t, &a);
        wt_close(t);
}

/* Stops of LS that a BE program causes: one for its arena, one for its module, none for its end. */
Test(worker_quiesce, a_short_program_needs_two_stops, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side ls = side_open(t, 1, DETSHARE__CLASS__LS), be;
        uint64_t before = wt_worker_stats(t).quiesces, began, p;

        wt_tick = DS_NS_PER_US; /* reading the clock advances it, so that the worker sleeps now and then */
        for (int i = 0; i < 20; i++) {
                launches(&ls, ls.null, 1);
                wt_settle(t);
                be = (struct side){.client = wt_client(t, 10 + (uint64_t)i, DETSHARE__CLASS__BE)};
                wt_attach(t, &be.client);
                filled(t, &be.client, DS_ARENA_BYTES);
                cr_assert_eq(wt_module(t, &be.client, DT_PTX, &be.module), 0);
                be.null = wt_kernel(t, &be.client, be.module, "null");
                cr_assert_eq(wt_alloc(t, &be.client, 4096, &p), 0);
                launches(&be, be.null, 3);
                cr_assert_eq(wt_sync_all(t, &be.client), 0);
                cr_assert_eq(wt_mem_free(t, &be.client, p), 0);
                wt_send_close(t, &be.client);
                wt_client_unmap(&be.client);
                wt_settle(t);
        }
        cr_assert_leq(wt_worker_stats(t).quiesces - before, 40);
        /* the last stop ends when LS has been idle for a while */
        wt_wall += DS_NS_PER_S;
        began = device_now(t);
        launches(&ls, ls.null, 1);
        wt_settle(t);
        wt_wall += DS_NS_PER_S;
        wt_settle(t);
        cr_assert_eq(wt_worker_stats(t).sessions, 1);
        cr_assert_lt(device_now(t) - began, DS_NS_PER_S);
        side_close(t, &ls);
        wt_close(t);
}

static uint64_t send_restore_slab(struct wt *t, struct wt_client *client, uint64_t va, uint64_t bytes, int fd)
{
        Detshare__Internal__RestoreSlab restore = DETSHARE__INTERNAL__RESTORE_SLAB__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__Slab slab = DETSHARE__INTERNAL__SLAB__INIT;
        Detshare__Internal__Range range = DETSHARE__INTERNAL__RANGE__INIT, *ranges = &range;

        slab.va = range.va = va;
        slab.bytes = range.bytes = bytes;
        slab.pinned = range.pinned = 1;
        restore.session = client->id;
        restore.slab = &slab;
        restore.allocs = &ranges;
        restore.n_allocs = 1;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_SLAB;
        message.restore_slab = &restore;
        return wt_send(t, &message, &fd, 1);
}

static uint64_t send_restore_module(struct wt *t, struct wt_client *client, uint64_t module)
{
        Detshare__Internal__RestoreModule restore = DETSHARE__INTERNAL__RESTORE_MODULE__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        int fd = wt_image(DT_PTX);
        uint64_t id;

        restore.session = client->id;
        restore.module = module;
        restore.bytes = strlen(DT_PTX);
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_MODULE;
        message.restore_module = &restore;
        id = wt_send(t, &message, &fd, 1);
        close(fd);
        return id;
}

/* A session is restored while another one's kernel runs: its own requests wait, those of others do not. */
Test(worker_quiesce, restoring_waits_for_a_stop, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side runs = side_open(t, 1, DETSHARE__CLASS__BE);
        struct wt_client client = wt_client(t, 2, DETSHARE__CLASS__BE), gone = wt_client(t, 3, DETSHARE__CLASS__BE);
        uint64_t at = WT_WINDOW + 2 * WT_WINDOW_BYTES + WT_WINDOW_BYTES / 2, module = UINT64_C(7) << 12, slab, load,
                 call;
        uint64_t gone_slab, gone_close;
        int fd = -1;
        WT_REQUEST(list, LIST_KERNELS, list_kernels, ListKernels, LIST_KERNELS, .module = module);
        WT_REQUEST(info, MEM_INFO, mem_info, MemInfo, MEM_INFO, .base = {0});

        cr_assert_eq(dsw_memory_host_file(DS_MIB(1), &fd), 0);
        cr_assert_eq(pwrite(fd, "abc", 4, 0), 4);
        launches(&runs, runs.spins, 1);
        wt_settle(t);
        slab = send_restore_slab(t, &client, at, DS_MIB(1), fd);
        load = send_restore_module(t, &client, module);
        call = wt_send_call(t, &client, &list);
        gone_slab = send_restore_slab(t, &gone, at + WT_WINDOW_BYTES, DS_MIB(1), fd);
        gone_close = wt_send_close(t, &gone);
        wt_settle(t);
        cr_assert_null(wt_take(t, slab), "registered beside a kernel");
        cr_assert_null(wt_take(t, load));
        cr_assert_null(wt_take(t, call), "answered before all was restored");
        cr_assert_eq(wt_call_status(t, &runs.client, &info), 0);
        cr_assert_eq(wt_status(t, wt_send_close(t, &runs.client)), 0);
        cr_assert_eq(wt_status(t, slab), 0);
        cr_assert_eq(wt_status(t, load), 0);
        cr_assert_eq(wt_status(t, call), 0);
        cr_assert_eq(wt_status(t, gone_slab), 0);
        cr_assert_eq(wt_status(t, gone_close), 0);
        {
                uint8_t got[4] = {0};

                cr_assert_eq(wt_read(t, &client, got, at, sizeof(got)), 0);
                cr_assert_str_eq((char *)got, "abc");
        }
        close(fd);
        wt_client_unmap(&runs.client);
        wt_client_unmap(&gone);
        wt_client_close(t, &client);
        wt_close(t);
}
