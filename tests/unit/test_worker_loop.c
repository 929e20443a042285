/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole worker, driven as the supervisor drives it: requests, ring, faults, restart, clock, stop
 *
 * It runs on the simulated device: functional where results matter, timing-only where only the flow matters.
 */
#include "tests/unit/worker_harness.h"
#include "worker/internal.h"

static uint32_t read_word(struct wt *t, struct wt_client *client, uint64_t address)
{
        uint32_t word = 0;

        cr_assert_eq(wt_read(t, client, &word, address, sizeof(word)), 0);
        return word;
}

Test(worker_loop, says_ready_first, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        wt_answer *answer;

        wt_collect(t);
        answer = wt_take(t, 0);
        cr_assert_not_null(answer);
        cr_assert_eq(answer->body_case, DETSHARE__INTERNAL__FROM_WORKER__BODY_READY);
        cr_assert_eq(answer->ready->simulated, 1);
        cr_assert_eq(answer->ready->n_sms, 132);
        cr_assert_str_eq(answer->ready->policy, "fifo");
        cr_assert_gt(answer->ready->n_attributes, 97);
        wt_free(answer);
        wt_close(t);
}

/* Checks that the figures of the session and of the worker count one kernel, two writes and a read. */
static void check_figures(struct wt *t, struct wt_client *client)
{
        WT_REQUEST(get, GET_STATS, get_stats, GetStats, GET_STATS, .base = {0});
        wt_answer *answer = wt_call(t, client, &get);

        cr_assert_eq(answer->status, 0);
        cr_assert_eq(answer->reply->get_stats->launches, 1);
        cr_assert_eq(answer->reply->get_stats->completed, 4);
        cr_assert_eq(answer->reply->get_stats->errors, 0);
        wt_free(answer);
        cr_assert_eq(wt_worker_stats(t).launches, 1);
        cr_assert_eq(wt_worker_stats(t).completed, 4);
        cr_assert_eq(wt_worker_stats(t).errors, 0);
}

/* Runs the same program over the socket or over the ring. */
static void run_saxpy(int ring)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        struct {
                uint32_t n;
                float a;
                uint64_t x, y;
        } params = {.n = 1000, .a = 2.0f};
        uint64_t module, kernel;
        float x[1000], y[1000];

        if (ring)
                wt_attach(t, &client);
        for (int i = 0; i < 1000; i++) {
                x[i] = (float)i;
                y[i] = 1.0f;
        }
        cr_assert_eq(wt_alloc(t, &client, sizeof(x), &params.x), 0);
        cr_assert_eq(wt_alloc(t, &client, sizeof(y), &params.y), 0);
        cr_assert_eq(wt_write(t, &client, params.x, x, sizeof(x)), 0);
        cr_assert_eq(wt_write(t, &client, params.y, y, sizeof(y)), 0);
        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        kernel = wt_kernel(t, &client, module, "saxpy");
        cr_assert(kernel);
        if (ring) {
                wt_push_launch(&client, 0, kernel, 8, 128, &params, 24);
        } else {
                WT_REQUEST(launch, LAUNCH, launch, Launch, LAUNCH, .kernel = kernel, .grid_x = 8, .grid_y = 1,
                        .grid_z = 1, .block_x = 128, .block_y = 1, .block_z = 1);
                wt_answer *answer;

                launch_body.params.data = (uint8_t *)&params;
                launch_body.params.len = 24;
                answer = wt_call(t, &client, &launch);
                cr_assert_eq(answer->status, 0);
                cr_assert_eq(answer->reply->submitted->seq, 3);
                wt_free(answer);
        }
        cr_assert_eq(wt_sync(t, &client, 0, 3), 0);
        cr_assert_eq(atomic_load(&client.page->stream_done[0]), 3);
        cr_assert_eq(atomic_load(&client.page->accepted), 3);
        cr_assert_eq(atomic_load(&client.page->completed), 3);
        cr_assert_eq(wt_read(t, &client, y, params.y, sizeof(y)), 0);
        for (int i = 0; i < 1000; i++)
                cr_assert_float_eq(y[i], 2.0f * (float)i + 1.0f, 0.0, "at %d", i);
        check_figures(t, &client);
        wt_client_close(t, &client);
        cr_assert_eq(wt_worker_stats(t).memory_slabs, 0);
        cr_assert_eq(wt_worker_stats(t).sessions, 0);
        cr_assert_eq(wt_worker_stats(t).modules, 0);
        wt_close(t);
}

Test(worker_loop, saxpy_by_request, .timeout = 60)
{
        run_saxpy(0);
}

Test(worker_loop, saxpy_by_ring, .timeout = 60)
{
        run_saxpy(1);
}

/* A request sees records that were put into the ring before it; streams keep their order; a wait record joins two
 * streams. */
Test(worker_loop, order_of_ring_and_socket, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        uint64_t module, poke, step, p, want = 1;
        uint32_t side;

        wt_attach(t, &client);
        cr_assert_eq(wt_alloc(t, &client, 4096, &p), 0);
        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        poke = wt_kernel(t, &client, module, "poke");
        step = wt_kernel(t, &client, module, "step");
        cr_assert_eq(wt_stream(t, &client, &side), 0);
        cr_assert_eq(side, 1);
        wt_push_poke(&client, side, poke, p, 1);
        for (uint32_t i = 0; i < 100; i++) {
                uint32_t stream = i % 2 ? side : 0, other = i % 2 ? 0 : side;
                uint64_t seq = i == 0 ? 1 : i == 1 ? 2 : 2 * ((uint64_t)i / 2) + (i % 2 ? 2 : 1);

                wt_push_wait(&client, stream, other, seq);
                wt_push_poke(&client, stream, step, p, i);
                want = (uint32_t)(want * 3 + i);
        }
        /* the read needs no synchronisation before it, because it is one more operation of the stream that ran last */
        {
                WT_REQUEST(request, READ, read, Read, READ, .stream = side, .src = p, .bytes = 4);
                wt_answer *answer = wt_call(t, &client, &request);
                uint32_t got;

                cr_assert_eq(answer->status, 0);
                memcpy(&got, answer->reply->read->data.data, 4);
                cr_assert_eq(got, want);
                wt_free(answer);
        }
        wt_client_close(t, &client);
        wt_close(t);
}

Test(worker_loop, launch_errors_are_answered, .timeout = 60)
{
        static const struct {
                uint32_t grid[3], block[3], shared;
                int status;
        } cases[] = {
                {{1, 1, 1}, {4096, 1, 1}, 0, 1},
                {{1, 1, 1}, {1024, 2, 1}, 0, 1},
                {{1, 1, 1}, {1, 1, 65}, 0, 1},
                {{0, 1, 1}, {32, 1, 1}, 0, 1},
                {{1, 1, 1}, {32, 0, 1}, 0, 1},
                {{1, 65536, 1}, {32, 1, 1}, 0, 1},
                {{1, 1, 1}, {32, 1, 1}, 1u << 20, 1},
                {{1, 1, 1}, {UINT32_MAX, UINT32_MAX, UINT32_MAX}, 0, 1},
                {{1, 1, 1}, {1024, 1, 1}, 0, 0},
        };
        struct wt *t = wt_open(TIMING);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        uint64_t module, kernel;

        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        kernel = wt_kernel(t, &client, module, "null");
        for (size_t i = 0; i < DS_ARRAY_SIZE(cases); i++) {
                WT_REQUEST(launch, LAUNCH, launch, Launch, LAUNCH, .kernel = kernel, .grid_x = cases[i].grid[0],
                        .grid_y = cases[i].grid[1], .grid_z = cases[i].grid[2], .block_x = cases[i].block[0],
                        .block_y = cases[i].block[1], .block_z = cases[i].block[2], .shared_bytes = cases[i].shared);

                cr_assert_eq(wt_call_status(t, &client, &launch), cases[i].status, "case %zu", i);
        }
        {
                WT_REQUEST(launch, LAUNCH, launch, Launch, LAUNCH, .kernel = kernel + 1000, .grid_x = 1, .grid_y = 1,
                        .grid_z = 1, .block_x = 1, .block_y = 1, .block_z = 1);

                cr_assert_eq(wt_call_status(t, &client, &launch), DS_CUDA_INVALID_HANDLE);
                launch_body.kernel = kernel;
                launch_body.stream = 7;
                cr_assert_eq(wt_call_status(t, &client, &launch), DS_CUDA_INVALID_HANDLE);
        }
        /* none of the refused requests left an error in the page */
        cr_assert_eq(atomic_load(&client.page->error), 0);
        cr_assert_eq(wt_sync_all(t, &client), 0);
        wt_client_close(t, &client);
        wt_close(t);
}

/* An asynchronous failure: the first error stays, later work is counted and dropped, and a reset clears the error. */
Test(worker_loop, sticky_error_and_reset, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE), other = wt_client(t, 2, DETSHARE__CLASS__BE);
        uint64_t module, other_module, poke, p, q, seq;
        uint32_t side;

        wt_attach(t, &client);
        cr_assert_eq(wt_alloc(t, &client, 4096, &p), 0);
        cr_assert_eq(wt_alloc(t, &other, 4096, &q), 0);
        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        cr_assert_eq(wt_module(t, &other, DT_PTX, &other_module), 0);
        cr_assert_eq(wt_stream(t, &client, &side), 0);
        poke = wt_kernel(t, &client, module, "poke");
        wt_push_poke(&client, side, poke, p, 5);
        /* a kernel that writes to another session's memory */
        wt_push_poke(&client, 0, poke, q, 6);
        for (int i = 0; i < 50; i++)
                wt_push_poke(&client, i % 2 ? 0 : side, poke, p, 7);
        cr_assert_eq(wt_sync_all(t, &client), DS_CUDA_ILLEGAL_ADDRESS);
        cr_assert_eq(atomic_load(&client.page->error), DS_CUDA_ILLEGAL_ADDRESS);
        cr_assert_eq(atomic_load(&client.page->error_count), 1);
        cr_assert_eq(wt_alloc(t, &client, 4096, &seq), DS_CUDA_ILLEGAL_ADDRESS);
        for (int i = 0; i < 50; i++)
                wt_push_poke(&client, i % 2 ? 0 : side, poke, p, 8);
        cr_assert_eq(wt_sync(t, &client, side, 51), DS_CUDA_ILLEGAL_ADDRESS);
        wt_settle(t);
        cr_assert_eq(atomic_load(&client.page->stream_done[0]), 51);
        cr_assert_eq(atomic_load(&client.page->stream_done[side]), 51);
        cr_assert_eq(atomic_load(&client.page->completed), 102);
        cr_assert_eq(atomic_load(&client.page->accepted), 102);
        /* the other session's memory is unchanged, and that session can work */
        cr_assert_eq(read_word(t, &other, q), 0);
        cr_assert_eq(atomic_load(&other.page->error), 0);

        cr_assert_eq(wt_reset(t, &client), 0);
        cr_assert_eq(atomic_load(&client.page->error), 0);
        cr_assert_eq(wt_kernel(t, &client, module, "poke"), 0);
        cr_assert_eq(wt_mem_free(t, &client, p), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(wt_sync(t, &client, side, 0), 0);
        cr_assert_eq(wt_alloc(t, &client, 4096, &p), 0);
        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        poke = wt_kernel(t, &client, module, "poke");
        cr_assert_eq(wt_stream(t, &client, &side), 0);
        wt_push_poke(&client, side, poke, p, 9);
        cr_assert_eq(wt_sync(t, &client, side, 52), 0);
        cr_assert_eq(read_word(t, &client, p), 9);
        wt_client_close(t, &client);
        wt_client_close(t, &other);
        wt_close(t);
}

Test(worker_loop, ids_that_were_given_back_are_refused, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        uint64_t first, second, kernel;

        cr_assert_eq(wt_module(t, &client, DT_PTX, &first), 0);
        kernel = wt_kernel(t, &client, first, "null");
        {
                WT_REQUEST(unload, MODULE_UNLOAD, module_unload, ModuleUnload, MODULE_UNLOAD, .module = first);

                cr_assert_eq(wt_call_status(t, &client, &unload), 0);
                cr_assert_eq(wt_call_status(t, &client, &unload), DS_CUDA_INVALID_HANDLE);
        }
        cr_assert_eq(wt_module(t, &client, DT_PTX, &second), 0);
        cr_assert_neq(first, second);
        {
                WT_REQUEST(launch, LAUNCH, launch, Launch, LAUNCH, .kernel = kernel, .grid_x = 1, .grid_y = 1,
                        .grid_z = 1, .block_x = 1, .block_y = 1, .block_z = 1);

                cr_assert_eq(wt_call_status(t, &client, &launch), DS_CUDA_INVALID_HANDLE);
                launch_body.kernel = wt_kernel(t, &client, second, "null");
                cr_assert_neq(launch_body.kernel, kernel);
                cr_assert_eq(wt_call_status(t, &client, &launch), 0);
        }
        cr_assert_eq(wt_sync_all(t, &client), 0);
        wt_client_close(t, &client);
        wt_close(t);
}

Test(worker_loop, module_errors_are_reported, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        uint64_t module;

        cr_assert_eq(wt_module(t, &client, "this is no PTX", &module), DS_CUDA_INVALID_PTX);
        cr_assert_eq(wt_module(t, &client, DT_PTX_HEADER ".visible .entry k()\n{\n frobnicate;\n}\n", &module),
                DS_CUDA_INVALID_PTX);
        /* an image that can still change is refused unread */
        {
                WT_REQUEST(load, MODULE_LOAD, module_load, ModuleLoad, MODULE_LOAD, .bytes = 16);
                int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

                cr_assert_eq(ftruncate(fd, 4096), 0);
                cr_assert_eq(wt_status(t, wt_send_call_fd(t, &client, &load, fd)), DETSHARE__STATUS__INTERNAL);
                cr_assert_eq(wt_call_status(t, &client, &load), DETSHARE__STATUS__INTERNAL);
                close(fd);
        }
        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        wt_client_close(t, &client);
        wt_close(t);
}

Test(worker_loop, memory_is_bounded_and_comes_back, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        uint64_t a, b;

        cr_assert_eq(wt_alloc(t, &client, 0, &a), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(wt_alloc(t, &client, DS_TIB(1024), &a), DS_CUDA_OUT_OF_MEMORY);
        cr_assert_eq(wt_alloc(t, &client, UINT64_MAX, &a), DS_CUDA_OUT_OF_MEMORY);
        cr_assert_eq(wt_alloc(t, &client, 100, &a), 0);
        cr_assert_eq(wt_worker_stats(t).memory_slabs, DS_MIB(64));
        cr_assert_eq(wt_worker_stats(t).memory_used, 512);
        cr_assert_eq(wt_alloc(t, &client, DS_MIB(65), &b), 0);
        cr_assert_eq(wt_worker_stats(t).memory_slabs, DS_MIB(64 + 66));
        cr_assert_eq(wt_mem_free(t, &client, a + 4), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(wt_mem_free(t, &client, a), 0);
        cr_assert_eq(wt_mem_free(t, &client, a), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(wt_mem_free(t, &client, b), 0);
        cr_assert_eq(wt_worker_stats(t).memory_slabs, 0);
        {
                Detshare__Internal__SessionSet set = DETSHARE__INTERNAL__SESSION_SET__INIT;
                wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;

                set.session = client.id;
                set.memory_limit = DS_MIB(1);
                message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SET;
                message.set = &set;
                cr_assert_eq(wt_status(t, wt_send(t, &message, NULL, 0)), 0);
        }
        cr_assert_eq(wt_alloc(t, &client, DS_MIB(1) + 1, &a), DS_CUDA_OUT_OF_MEMORY);
        cr_assert_eq(wt_alloc(t, &client, DS_MIB(1), &a), 0);
        cr_assert_eq(wt_alloc(t, &client, 1, &b), DS_CUDA_OUT_OF_MEMORY);
        {
                WT_REQUEST(info, MEM_INFO, mem_info, MemInfo, MEM_INFO, .base = {0});
                wt_answer *answer = wt_call(t, &client, &info);

                cr_assert_eq(answer->reply->mem_info->total, DS_MIB(1));
                cr_assert_eq(answer->reply->mem_info->free, 0);
                cr_assert_eq(answer->reply->mem_info->used, DS_MIB(1));
                wt_free(answer);
        }
        wt_client_close(t, &client);
        cr_assert_eq(wt_worker_stats(t).memory_slabs, 0);
        wt_close(t);
}

/* --- the death of a worker ---------------------------------------------------------------------------------------- */

/* The supervisor's record of one session. */
struct book {
        struct {
                Detshare__Internal__Slab slab;
                int fd;
        } slabs[8];
        Detshare__Internal__Range ranges[8];
        size_t n_slabs, n_ranges;
};

static void book_note(struct wt *t, struct book *book, const wt_answer *answer)
{
        const Detshare__Internal__Ledger *ledger = answer->ledger;

        if (ledger && ledger->slab_added) {
                book->slabs[book->n_slabs].slab = *ledger->slab_added;
                book->slabs[book->n_slabs++].fd = dup(t->last_fds[0]);
        }
        if (ledger && ledger->alloc_added)
                book->ranges[book->n_ranges++] = *ledger->alloc_added;
}

static uint64_t book_alloc(struct wt *t, struct wt_client *client, struct book *book, uint64_t bytes)
{
        WT_REQUEST(request, MEM_ALLOC, mem_alloc, MemAlloc, MEM_ALLOC, .bytes = bytes);
        wt_answer *answer = wt_call(t, client, &request);
        uint64_t address;

        cr_assert_eq(answer->status, 0);
        address = answer->reply->mem_alloc->address;
        book_note(t, book, answer);
        wt_free(answer);
        return address;
}

static uint64_t book_pinned(struct wt *t, struct wt_client *client, struct book *book, uint64_t bytes)
{
        WT_REQUEST(request, PINNED_ALLOC, pinned_alloc, PinnedAlloc, PINNED_ALLOC, .bytes = bytes);
        wt_answer *answer = wt_call(t, client, &request);
        uint64_t address;

        cr_assert_eq(answer->status, 0);
        cr_assert_eq(answer->fds, 2);
        cr_assert_eq(answer->reply->fds, 1);
        address = answer->reply->pinned_alloc->address;
        cr_assert(answer->ledger->slab_added->pinned);
        book_note(t, book, answer);
        wt_free(answer);
        return address;
}

static void book_replay(struct wt *t, struct wt_client *client, struct book *book)
{
        for (size_t i = 0; i < book->n_slabs; i++) {
                Detshare__Internal__RestoreSlab restore = DETSHARE__INTERNAL__RESTORE_SLAB__INIT;
                wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
                Detshare__Internal__Slab slab = DETSHARE__INTERNAL__SLAB__INIT;
                Detshare__Internal__Range ranges[8], *pointers[8];

                slab.va = book->slabs[i].slab.va;
                slab.bytes = book->slabs[i].slab.bytes;
                slab.pinned = book->slabs[i].slab.pinned;
                restore.session = client->id;
                restore.slab = &slab;
                for (size_t k = 0; k < book->n_ranges; k++) {
                        if (book->ranges[k].va < slab.va || book->ranges[k].va >= slab.va + slab.bytes)
                                continue;
                        ranges[restore.n_allocs] = (Detshare__Internal__Range)DETSHARE__INTERNAL__RANGE__INIT;
                        ranges[restore.n_allocs].va = book->ranges[k].va;
                        ranges[restore.n_allocs].bytes = book->ranges[k].bytes;
                        ranges[restore.n_allocs].pinned = book->ranges[k].pinned;
                        pointers[restore.n_allocs] = &ranges[restore.n_allocs];
                        restore.n_allocs++;
                }
                restore.allocs = pointers;
                message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_SLAB;
                message.restore_slab = &restore;
                cr_assert_eq(wt_status(t, wt_send(t, &message, &book->slabs[i].fd, 1)), 0);
        }
}

static void replay_stream(struct wt *t, struct wt_client *client, uint32_t slot, uint64_t seq)
{
        Detshare__Internal__RestoreStream restore = DETSHARE__INTERNAL__RESTORE_STREAM__INIT;
        Detshare__Internal__Stream stream = DETSHARE__INTERNAL__STREAM__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;

        stream.stream = slot;
        restore.session = client->id;
        restore.stream = &stream;
        restore.seq = seq;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_STREAM;
        message.restore_stream = &restore;
        cr_assert_eq(wt_status(t, wt_send(t, &message, NULL, 0)), 0);
}

static void replay_module(struct wt *t, struct wt_client *client, uint64_t module, const char *text)
{
        Detshare__Internal__RestoreModule restore = DETSHARE__INTERNAL__RESTORE_MODULE__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        int fd = wt_image(text);

        restore.session = client->id;
        restore.module = module;
        restore.bytes = strlen(text);
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_MODULE;
        message.restore_module = &restore;
        cr_assert_eq(wt_status(t, wt_send(t, &message, &fd, 1)), 0);
        close(fd);
}

Test(worker_loop, memory_ids_and_numbers_survive_the_worker, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE), again;
        uint64_t a, b, c, big, pinned, module, poke, event, done0, done1;
        struct book book = {.n_slabs = 0};
        uint8_t pattern[5000], got[5000];
        uint32_t side;

        for (size_t i = 0; i < sizeof(pattern); i++)
                pattern[i] = (uint8_t)(i * 7 + i / 256);
        wt_attach(t, &client);
        a = book_alloc(t, &client, &book, 5000);
        b = book_alloc(t, &client, &book, 100);
        big = book_alloc(t, &client, &book, DS_MIB(100));
        pinned = book_pinned(t, &client, &book, 12345);
        cr_assert_eq(wt_stream(t, &client, &side), 0);
        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        poke = wt_kernel(t, &client, module, "poke");
        event = wt_new_event(t, &client);
        cr_assert_eq(wt_write(t, &client, a, pattern, sizeof(pattern)), 0);
        cr_assert_eq(wt_write(t, &client, big + DS_MIB(100) - 4, "\1\2\3\4", 4), 0);
        wt_push_poke(&client, side, poke, b, 77);
        wt_push_poke(&client, side, poke, pinned, 88);
        cr_assert_eq(wt_sync_all(t, &client), 0);
        done0 = atomic_load(&client.page->stream_done[0]);
        done1 = atomic_load(&client.page->stream_done[side]);
        cr_assert_eq(done1, 2);
        wt_close(t);
        wt_client_unmap(&client);

        t = wt_open(FUNCTIONAL);
        again = wt_client(t, 1, DETSHARE__CLASS__BE);
        book_replay(t, &again, &book);
        replay_stream(t, &again, 0, done0);
        replay_stream(t, &again, side, done1);
        replay_module(t, &again, module, DT_PTX);
        wt_attach(t, &again);
        cr_assert_eq(atomic_load(&again.page->stream_done[0]), done0);
        cr_assert_eq(atomic_load(&again.page->stream_done[side]), done1);
        cr_assert_eq(wt_read(t, &again, got, a, sizeof(got)), 0);
        cr_assert_arr_eq(got, pattern, sizeof(got));
        cr_assert_eq(read_word(t, &again, b), 77);
        cr_assert_eq(read_word(t, &again, big + DS_MIB(100) - 4), 0x04030201);
        cr_assert_eq(read_word(t, &again, pinned), 88);
        /* in the new worker the kernel's id is valid, the stream's numbering continues, and the event exists without
         * its time */
        wt_push_poke(&again, side, poke, b, 78);
        wt_push_event(&again, side, event);
        cr_assert_eq(wt_sync(t, &again, side, done1 + 2), 0);
        cr_assert_eq(atomic_load(&again.page->stream_done[side]), done1 + 2);
        cr_assert_eq(read_word(t, &again, b), 78);
        cr_assert_eq(atomic_load(&again.page->error), 0);
        /* new objects of the session do not collide with objects made before the restart */
        c = book_alloc(t, &again, &book, 100);
        cr_assert(c != a && c != b && c > b);
        cr_assert_neq(wt_new_event(t, &again), event);
        cr_assert_eq(wt_mem_free(t, &again, a), 0);
        cr_assert_eq(wt_mem_free(t, &again, b), 0);
        cr_assert_eq(wt_mem_free(t, &again, c), 0);
        cr_assert_eq(wt_mem_free(t, &again, big), 0);
        cr_assert_eq(wt_worker_stats(t).memory_slabs, 0);
        wt_client_close(t, &again);
        wt_close(t);
        for (size_t i = 0; i < book.n_slabs; i++)
                close(book.slabs[i].fd);
}

/* The supervisor's report of lost work is a sticky error. */
Test(worker_loop, lost_work_is_a_sticky_error, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        uint64_t a;

        atomic_store(&client.page->error, DS_CUDA_LAUNCH_FAILED);
        cr_assert_eq(wt_alloc(t, &client, 100, &a), DS_CUDA_LAUNCH_FAILED);
        cr_assert_eq(wt_sync_all(t, &client), DS_CUDA_LAUNCH_FAILED);
        cr_assert_eq(wt_reset(t, &client), 0);
        cr_assert_eq(atomic_load(&client.page->error), 0);
        cr_assert_eq(wt_alloc(t, &client, 100, &a), 0);
        wt_client_close(t, &client);
        wt_close(t);
}

/* --- creation and destruction of streams -------------------------------------------------------------------------- */

Test(worker_loop, slots_count_on_and_are_limited, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        uint64_t module, null;
        uint32_t stream;

        wt_attach(t, &client);
        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        null = wt_kernel(t, &client, module, "null");
        for (uint64_t round = 1; round <= 3; round++) {
                WT_REQUEST(destroy, STREAM_DESTROY, stream_destroy, StreamDestroy, STREAM_DESTROY, .stream = 1);

                cr_assert_eq(wt_stream(t, &client, &stream), 0);
                cr_assert_eq(stream, 1);
                wt_push_launch(&client, 1, null, 1, 1, NULL, 0);
                /* stream 0 waits for the stream that is being destroyed */
                wt_push_wait(&client, 0, 1, round);
                cr_assert_eq(wt_call_status(t, &client, &destroy), 0);
                cr_assert_eq(atomic_load(&client.page->stream_done[1]), round);
                cr_assert_eq(wt_call_status(t, &client, &destroy), DS_CUDA_INVALID_HANDLE);
                cr_assert_eq(wt_sync_all(t, &client), 0);
        }
        for (uint32_t i = 1; i < DS_STREAMS_MAX; i++)
                cr_assert_eq(wt_stream(t, &client, &stream), 0);
        cr_assert_eq(wt_stream(t, &client, &stream), DETSHARE__STATUS__QUOTA);
        {
                WT_REQUEST(destroy, STREAM_DESTROY, stream_destroy, StreamDestroy, STREAM_DESTROY, .stream = 0);

                cr_assert_eq(wt_call_status(t, &client, &destroy), DS_CUDA_INVALID_HANDLE);
        }
        cr_assert_eq(atomic_load(&client.page->error), 0);
        wt_client_close(t, &client);
        wt_close(t);
}

/* --- ending ------------------------------------------------------------------------------------------------------- */

Test(worker_loop, ends_when_the_supervisor_is_gone, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);

        wt_turn(t, 0);
        t->conn = ds_conn_free(t->conn);
        cr_assert_eq(ds_worker_turn(t->worker, 1000), DS_WORKER_E_DONE);
        t->worker = ds_worker_free(t->worker);
        for (size_t i = 0; i < t->n_stash; i++)
                wt_free(t->stash[i]);
        free(t);
}

static uint64_t send_stop(struct wt *t, uint64_t grace_ns)
{
        Detshare__Internal__Stop stop = DETSHARE__INTERNAL__STOP__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;

        stop.grace_ns = grace_ns;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_STOP;
        message.stop = &stop;
        return wt_send(t, &message, NULL, 0);
}

/* Running work gets its time and is then aborted; a declared thread that holds the clock does not delay the stop. */
Test(worker_loop, a_stop_waits_then_aborts, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        WT_REQUEST(join, CLOCK_JOIN, clock_join, ClockJoin, CLOCK_JOIN, .base = {0});
        WT_REQUEST(sync, SYNC, sync, Sync, SYNC, .all = 1);
        WT_REQUEST(query, QUERY, query, Query, QUERY, .stream = 0);
        uint64_t module, spin, stop_id, sync_id;

        wt_attach(t, &client);
        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        spin = wt_kernel(t, &client, module, "spins");
        cr_assert_eq(wt_call_status(t, &client, &join), 0);
        cr_assert_eq(wt_call_status(t, &client, &join), 0);
        wt_push_launch(&client, 0, spin, 1, 1, NULL, 0);
        sync_id = wt_send_call(t, &client, &sync);
        wt_settle(t);
        stop_id = send_stop(t, DS_NS_PER_S);
        wt_settle(t);
        cr_assert(!t->done);
        cr_assert_eq(wt_call_status(t, &client, &query), DETSHARE__STATUS__SHUTTING_DOWN);
        wt_wall += 2 * DS_NS_PER_S;
        for (int i = 0; i < WT_TURNS && !t->done; i++)
                wt_turn(t, 5);
        cr_assert(t->done);
        cr_assert_neq(wt_status(t, sync_id), 0);
        cr_assert_eq(wt_status(t, stop_id), 0);
        wt_close(t);
        wt_client_unmap(&client);
}

Test(worker_loop, an_idle_stop_is_immediate, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        uint64_t stop_id = send_stop(t, 100 * DS_NS_PER_S);

        wt_turn(t, 1000);
        cr_assert(t->done);
        cr_assert_eq(wt_status(t, stop_id), 0);
        wt_close(t);
}

/* --- policies and figures ----------------------------------------------------------------------------------------- */

static size_t count_policies(struct wt *t)
{
        Detshare__ListPolicies policies = DETSHARE__LIST_POLICIES__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        wt_answer *answer;
        size_t n;

        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_LIST_POLICIES;
        message.list_policies = &policies;
        answer = wt_wait(t, wt_send(t, &message, NULL, 0));
        n = answer->policies->n_policies;
        wt_free(answer);
        return n;
}

/* Any client may request the list, and each request loads all plug-ins: a new one appears after a second, not
 * before. */
Test(worker_loop, policies_are_looked_at_once_in_a_second, .timeout = 60)
{
        char directory[] = "/tmp/detshare-policies-XXXXXX", from[PATH_MAX], to[64], command[PATH_MAX + 80];
        ssize_t length = readlink("/proc/self/exe", from, sizeof(from) - 64);
        struct wt *t;
        size_t n;

        cr_assert(length > 0 && mkdtemp(directory));
        from[length] = 0;
        snprintf(strrchr(from, '/'), 64, "/../../policies/static.so");
        snprintf(to, sizeof(to), "%s/static.so", directory);
        t = wt_open_policy(TIMING, "fifo", directory);
        n = count_policies(t);
        snprintf(command, sizeof(command), "cp '%s' '%s'", from, to);
        cr_assert_eq(system(command), 0);
        cr_assert_eq(count_policies(t), n);
        wt_wall += 2 * DS_NS_PER_S;
        cr_assert_eq(count_policies(t), n + 1);
        wt_close(t);
        cr_assert(unlink(to) == 0 && rmdir(directory) == 0);
}

/* All policies with all parameters, in pages that fit into a client's frame. */
Test(worker_loop, long_lists_of_policies_come_in_pages, .timeout = 60)
{
        Detshare__ListPolicies policies = DETSHARE__LIST_POLICIES__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        char directory[PATH_MAX];
        ssize_t length = readlink("/proc/self/exe", directory, sizeof(directory) - 64);
        struct wt *t;
        bool more = true;
        int pages = 0;

        cr_assert_gt(length, 0);
        directory[length] = 0;
        snprintf(strrchr(directory, '/'), 64, "/../../policies");
        t = wt_open_policy(TIMING, "detshare", directory);
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_LIST_POLICIES;
        message.list_policies = &policies;
        for (; more; pages++) {
                wt_answer *answer = wt_wait(t, wt_send(t, &message, NULL, 0));

                cr_assert_lt(detshare__policy_list__get_packed_size(answer->policies), 65000);
                for (size_t i = 0; i < answer->policies->n_policies; i++) {
                        const Detshare__PolicyEntry *entry = answer->policies->policies[i];

                        if (strcmp(entry->name, "detshare"))
                                continue;
                        cr_assert(entry->active);
                        cr_assert(strstr(entry->params, "be_ahead_us="), "%s", entry->params);
                }
                more = answer->policies->more;
                policies.after += (uint32_t)answer->policies->n_policies;
                cr_assert_gt(answer->policies->n_policies, 0);
                wt_free(answer);
        }
        cr_assert_geq(pages, 2);
        cr_assert_gt(policies.after, 12);
        wt_close(t);
}

Test(worker_loop, policies_and_sessions_are_listed, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        Detshare__Internal__SessionList list = DETSHARE__INTERNAL__SESSION_LIST__INIT;
        Detshare__ListPolicies policies = DETSHARE__LIST_POLICIES__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__SetPolicy set = DETSHARE__SET_POLICY__INIT;
        struct wt_client clients[3];
        wt_answer *answer;

        for (uint64_t i = 0; i < 3; i++)
                clients[i] = wt_client(t, 3 - i, DETSHARE__CLASS__LS);
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_LIST_POLICIES;
        message.list_policies = &policies;
        answer = wt_wait(t, wt_send(t, &message, NULL, 0));
        cr_assert_geq(answer->policies->n_policies, 1);
        cr_assert_str_eq(answer->policies->policies[0]->name, "fifo");
        cr_assert(answer->policies->policies[0]->active);
        wt_free(answer);
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SESSION_LIST;
        message.session_list = &list;
        list.after = 1;
        answer = wt_wait(t, wt_send(t, &message, NULL, 0));
        cr_assert_eq(answer->session_list->n_sessions, 2);
        cr_assert_eq(answer->session_list->sessions[0]->session, 2);
        cr_assert_eq(answer->session_list->sessions[1]->session, 3);
        cr_assert_eq(answer->session_list->sessions[1]->stats->class_, DETSHARE__CLASS__LS);
        wt_free(answer);
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SET_POLICY;
        message.set_policy = &set;
        set.name = (char *)(uintptr_t) "no-such-policy";
        cr_assert_eq(wt_status(t, wt_send(t, &message, NULL, 0)), DETSHARE__STATUS__NO_SUCH);
        set.name = (char *)(uintptr_t) "fifo";
        cr_assert_eq(wt_status(t, wt_send(t, &message, NULL, 0)), 0);
        for (int i = 0; i < 3; i++)
                wt_client_close(t, &clients[i]);
        wt_close(t);
}

/* --- the page and the table --------------------------------------------------------------------------------------- */

Test(worker_loop, waiters_are_woken_only_when_they_said_so, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        struct ds_ring_header *header;
        uint64_t module, null;
        uint32_t wake;

        wt_attach(t, &client);
        header = (void *)client.ring;
        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        null = wt_kernel(t, &client, module, "null");
        wake = atomic_load(&client.page->wake);
        wt_push_launch(&client, 0, null, 1, 1, NULL, 0);
        wt_settle(t);
        cr_assert_eq(atomic_load(&client.page->stream_done[0]), 1);
        cr_assert_eq(atomic_load(&client.page->wake), wake);
        atomic_store(&header->waiters, 1);
        wt_push_launch(&client, 0, null, 1, 1, NULL, 0);
        wt_settle(t);
        cr_assert_eq(atomic_load(&client.page->stream_done[0]), 2);
        cr_assert_gt(atomic_load(&client.page->wake), wake);
        wt_client_close(t, &client);
        wt_close(t);
}

/* Sends a request after which the worker may poll for spin_ns. */
static uint64_t send_polling(struct wt *t, struct wt_client *client, wt_request *request, uint64_t spin_ns)
{
        Detshare__Internal__Call call = DETSHARE__INTERNAL__CALL__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;

        request->ring_tail = client->tail;
        call.session = client->id;
        call.request = request;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_CALL;
        message.call = &call;
        message.spin_ns = spin_ns;
        return wt_send(t, &message, NULL, 0);
}

static uint64_t send_info(struct wt *t, struct wt_client *client, uint64_t spin_ns)
{
        WT_REQUEST(info, MEM_INFO, mem_info, MemInfo, MEM_INFO, .base = {0});

        return send_polling(t, client, &info, spin_ns);
}

/* Whether the worker, which has nothing to do, goes to sleep: then every turn takes its time limit. */
static int sleeps(struct wt *t)
{
        const double begin = wt_machine_s();

        for (int i = 0; i < 25; i++)
                wt_turn(t, 4);
        return wt_machine_s() - begin > 0.05;
}

/* After a request of a best-effort client the worker polls for the time that the supervisor gives. */
Test(worker_loop, polls_after_requests, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);

        cr_assert_eq(wt_status(t, send_info(t, &client, 0)), 0);
        wt_settle(t);
        cr_assert(sleeps(t), "without such a time it sleeps");
        cr_assert_eq(wt_status(t, send_info(t, &client, 50 * DS_NS_PER_US)), 0);
        wt_settle(t);
        cr_assert(!sleeps(t));
        wt_wall += 40 * DS_NS_PER_US;
        cr_assert_eq(wt_status(t, send_info(t, &client, 50 * DS_NS_PER_US)), 0);
        wt_settle(t);
        wt_wall += 40 * DS_NS_PER_US;
        cr_assert(!sleeps(t), "each request begins the time again");
        wt_wall += 10 * DS_NS_PER_US;
        cr_assert(sleeps(t));
        wt_client_close(t, &client);
        wt_close(t);
}

/* The time to poll begins again with a reply that comes late. */
Test(worker_loop, polls_after_late_replies, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        WT_REQUEST(sync, SYNC, sync, Sync, SYNC, .all = 1);
        uint64_t module, spins, id;

        wt_attach(t, &client);
        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        spins = wt_kernel(t, &client, module, "spins");
        wt_push_launch(&client, 0, spins, 1, 1, NULL, 0);
        id = send_polling(t, &client, &sync, 50 * DS_NS_PER_US);
        wt_settle(t);
        cr_assert_null(wt_take(t, id));
        wt_wall += 60 * DS_NS_PER_US;
        cr_assert_eq(wt_status(t, wt_send_close(t, &client)), 0);
        cr_assert_eq(wt_status(t, id), DETSHARE__STATUS__NO_SUCH);
        cr_assert(!sleeps(t));
        wt_wall += 50 * DS_NS_PER_US;
        cr_assert(sleeps(t));
        wt_client_unmap(&client);
        wt_close(t);
}

static uint64_t set_spin(struct wt *t, uint64_t spin_ns, int never)
{
        Detshare__Internal__WorkerLimits limits = DETSHARE__INTERNAL__WORKER_LIMITS__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;

        limits.spin_ns = spin_ns;
        limits.spin_never = never;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_LIMITS;
        message.limits = &limits;
        wt_send(t, &message, NULL, 0);
        wt_settle(t);
        return t->worker->spin_ns;
}

/* A reload changes how long the worker polls after latency-sensitive work, and turns that off. */
Test(worker_loop, a_reload_turns_polling_off, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__LS);

        cr_assert_eq(set_spin(t, 7000, 0), 7000);
        cr_assert_eq(wt_status(t, send_info(t, &client, 0)), 0);
        cr_assert(!sleeps(t));
        cr_assert_eq(set_spin(t, 0, 1), 0);
        cr_assert_eq(wt_status(t, send_info(t, &client, 0)), 0);
        cr_assert(sleeps(t));
        cr_assert_eq(set_spin(t, 0, 0), DSW_SPIN_NS);
        wt_client_close(t, &client);
        wt_close(t);
}

/* The worker announces that it sleeps; it finds a record that came in between without a wake-up all the same. */
Test(worker_loop, says_when_it_sleeps, .timeout = 60)
{
        struct wt *t = wt_open(TIMING);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        uint64_t module, null, done;

        wt_attach(t, &client);
        cr_assert_eq(wt_module(t, &client, DT_PTX, &module), 0);
        null = wt_kernel(t, &client, module, "null");
        wt_push_launch(&client, 0, null, 1, 1, NULL, 0);
        wt_settle(t);
        cr_assert_eq(atomic_load(&client.page->asleep), 0, "it has just worked and was never left to sleep");
        /* the client saw the worker awake, and then the worker falls asleep */
        wt_push_launch(&client, 0, null, 1, 1, NULL, 0);
        wt_turn(t, 1);
        wt_turn(t, 1);
        cr_assert_eq(atomic_load(&client.page->stream_done[0]), 2);
        wt_turn(t, 1);
        cr_assert_eq(atomic_load(&client.page->asleep), 1);
        /* the worker sleeps, so it needs a wake-up, which wt_push sends */
        wt_push_launch(&client, 0, null, 1, 1, NULL, 0);
        for (int i = 0; i < 4; i++)
                wt_turn(t, 1);
        done = atomic_load(&client.page->stream_done[0]);
        cr_assert_eq(done, 3);
        wt_client_close(t, &client);
        wt_close(t);
}

/* Requests from 40 on belong to the worker; its table must list all of them, as the protocol does. A helper answers
 * module_link. */
Test(worker_loop, every_request_has_its_row)
{
        const ProtobufCMessageDescriptor *request = &detshare__request__descriptor;
        const struct dsw_call_row *row;
        unsigned n = 0;

        for (unsigned i = 0; i < request->n_fields; i++) {
                const ProtobufCFieldDescriptor *field = &request->fields[i];

                row = dsw_calls_find((Detshare__Request__CallCase)field->id);
                if (field->id < 40 || field->id == DETSHARE__REQUEST__CALL_MODULE_LINK ||
                        (field->id >= 110 && field->id < 140 && field->id != DETSHARE__REQUEST__CALL_HINT_PHASE)) {
                        cr_assert_null(row, "%s is not the worker's", field->name);
                        continue;
                }
                cr_assert_not_null(row, "%s has no row", field->name);
                cr_assert_str_eq(row->name, field->name);
                n++;
        }
        cr_assert_gt(n, 25);
}
