/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slabs of the pool of coloured memory: borrowed, cleared, counted, returned, and handed to the next worker
 *
 * The worker receives a pool as from a dead predecessor, so nothing is measured. Kernels write into slabs, and the test
 * reads them in this process, where device memory has the same addresses.
 */
#include "worker_harness.h"

#include "lut/probe/bench.h"
#include "worker/pool.h"

#ifndef POOL_CUDA
#include "device/sim/sim.h"
#define REAL ds_sim_ops
#define DEVICE "h200"
#endif

#define SLAB DS_MIB(2)
#define SLABS 3u
#define BITS 11u

static struct ds_device_ops ops;
static ds_device *device; /* device of the worker that was opened last */
static int slabs[SLABS], facts_fd = -1;

static int open_device(const char *spec, ds_device **ret)
{
        int r = REAL.open(spec, ret);

        device = r ? NULL : *ret;
        return r;
}

static struct wt *pool_open(void)
{
#ifdef POOL_CUDA
        setenv("DETSHARE_LIBCUDA", TEST_FAKE_CUDA, 1);
        setenv("PTXAS", TEST_PTXAS, 1);
        setenv("FAKE_CUDA_STRICT", "1", 1);
        wt_tick = 200 * DS_NS_PER_US;
#endif
        ops = REAL;
        ops.open = open_device;
        wt_ops = &ops;
        return wt_open(DEVICE);
}

static int facts_make(uint32_t n_slabs)
{
        struct ds_pool_file facts = {.magic = DS_POOL_MAGIC,
                .version = DS_WIRE_VERSION,
                .slab_bytes = SLAB,
                .n_slabs = n_slabs,
                .sector_bits = BITS,
                .granule_bits = 10,
                .n_channels = 6,
                .n_be = 2};
        static uint8_t classes[SLABS * (SLAB >> BITS)];
        int fd = -1;

        for (size_t i = 0; i < DS_ARRAY_SIZE(classes); i++)
                classes[i] = i % 3 ? DS_POOL_LS : DS_POOL_BE;
        cr_assert_eq(dsw_pool_file_make(&facts, classes, &fd), 0);
        return fd;
}

/* Slabs and a file, for this worker and its successors. */
static void pool_make(void)
{
        for (uint32_t i = 0; i < SLABS; i++)
                cr_assert_eq(REAL.mem_create(device, SLAB, &slabs[i]), 0);
        facts_fd = facts_make(SLABS);
}

static void pool_drop(void)
{
        for (uint32_t i = 0; i < SLABS; i++)
                slabs[i] = ds_close(slabs[i]);
        facts_fd = ds_close(facts_fd);
}

static int give_piece(struct wt *t, uint32_t index, uint32_t n, int fd)
{
        Detshare__Internal__PoolPiece piece = DETSHARE__INTERNAL__POOL_PIECE__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;

        piece.index = index;
        piece.slabs = n;
        piece.bytes = SLAB;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_POOL;
        message.pool = &piece;
        return wt_status(t, wt_send(t, &message, &fd, fd >= 0));
}

static void pool_give(struct wt *t)
{
        for (uint32_t i = 0; i < SLABS; i++)
                cr_assert_eq(give_piece(t, i, SLABS, slabs[i]), 0);
        cr_assert_eq(give_piece(t, SLABS, SLABS, facts_fd), 0);
}

/* Borrows a slab. Returns the slab's number, or minus the status. */
static int borrow(struct wt *t, struct wt_client *client)
{
        WT_REQUEST(request, BORROW_SLAB, borrow_slab, BorrowSlab, BORROW_SLAB, .base = {0});
        wt_answer *answer = wt_call(t, client, &request);
        int r = -answer->status;

        if (!r) {
                r = (int)answer->reply->borrow_slab->slab;
                cr_assert_not_null(answer->ledger);
                cr_assert_eq(answer->ledger->lent_added->slab, (uint32_t)r);
                cr_assert_eq(answer->ledger->lent_added->bytes, SLAB);
        }
        wt_free(answer);
        return r;
}

static int give_back(struct wt *t, struct wt_client *client, uint32_t slab)
{
        WT_REQUEST(request, RETURN_SLAB, return_slab, ReturnSlab, RETURN_SLAB, .slab = slab);

        return wt_call_status(t, client, &request);
}

static uint32_t free_slabs(struct wt *t, struct wt_client *client)
{
        WT_REQUEST(request, GET_CHANNELS, get_channels, GetChannels, GET_CHANNELS, .base = {0});
        wt_answer *answer = wt_call(t, client, &request);
        uint32_t n;

        cr_assert_eq(answer->status, 0);
        n = answer->reply->get_channels->slabs_free;
        wt_free(answer);
        return n;
}

static uint64_t used_bytes(struct wt *t, struct wt_client *client)
{
        WT_REQUEST(request, MEM_INFO, mem_info, MemInfo, MEM_INFO, .base = {0});
        wt_answer *answer = wt_call(t, client, &request);
        uint64_t used = answer->reply->mem_info->used;

        wt_free(answer);
        return used;
}

static uint64_t address(int slab)
{
        return DSW_POOL_BASE + (uint64_t)slab * SLAB;
}

#ifdef POOL_CUDA /* the fake GPU's memory is in this process too, and it needs machine code */
static void poke(struct wt *t, struct wt_client *client, uint64_t p, uint32_t value)
{
        cr_assert_eq(wt_sync_all(t, client), 0);
        *(volatile uint32_t *)(uintptr_t)p = value;
}
#else
/* Writes by a kernel of the client. */
static void poke(struct wt *t, struct wt_client *client, uint64_t p, uint32_t value)
{
        uint64_t module = 0, kernel;

        cr_assert_eq(wt_module(t, client, DT_PTX, &module), 0);
        kernel = wt_kernel(t, client, module, "poke");
        wt_push_poke(client, 0, kernel, p, value);
        cr_assert_eq(wt_sync_all(t, client), 0);
}
#endif

static uint32_t peek(uint64_t p)
{
        return *(volatile uint32_t *)(uintptr_t)p;
}

static void set_limit(struct wt *t, struct wt_client *client, uint64_t bytes)
{
        Detshare__Internal__SessionSet set = DETSHARE__INTERNAL__SESSION_SET__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;

        set.session = client->id;
        set.memory_limit = bytes;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SET;
        message.set = &set;
        cr_assert_eq(wt_status(t, wt_send(t, &message, NULL, 0)), 0);
}

static struct wt_client client_open(struct wt *t, uint64_t id)
{
        struct wt_client client = wt_client(t, id, DETSHARE__CLASS__BE);

        wt_attach(t, &client);
        return client;
}

Test(worker_pool, slabs_are_cleared_between_sessions, .timeout = 60)
{
        struct wt *t = pool_open();
        struct wt_client one, two;
        uint32_t word;
        int slab;

        pool_make();
        pool_give(t);
        one = client_open(t, 1);
        two = client_open(t, 2);
        cr_assert_eq(free_slabs(t, &one), SLABS);
        slab = borrow(t, &one);
        cr_assert_geq(slab, 0);
        cr_expect_eq(free_slabs(t, &two), SLABS - 1);
        cr_expect_eq(used_bytes(t, &one), SLAB);
        cr_expect_eq(used_bytes(t, &two), 0);
        poke(t, &one, address(slab) + SLAB - 4, 4711);
        cr_expect_eq(peek(address(slab) + SLAB - 4), 4711);
        /* a slab's addresses are for kernels only: a read by request is refused */
        cr_expect_eq(wt_read(t, &one, &word, address(slab), 4), DS_CUDA_INVALID_VALUE);
        /* a session can return neither another session's slab nor its own slab twice */
        cr_expect_eq(give_back(t, &two, (uint32_t)slab), DS_CUDA_INVALID_VALUE);
        cr_expect_eq(give_back(t, &one, (uint32_t)slab + 1), DS_CUDA_INVALID_VALUE);
        cr_expect_eq(give_back(t, &one, 77), DS_CUDA_INVALID_VALUE);
        cr_expect_eq(give_back(t, &one, (uint32_t)slab), 0);
        cr_expect_eq(give_back(t, &one, (uint32_t)slab), DS_CUDA_INVALID_VALUE);
        cr_expect_eq(used_bytes(t, &one), 0);
        wt_settle(t);
        cr_assert_eq(borrow(t, &two), slab);
        cr_expect_eq(peek(address(slab) + SLAB - 4), 0);
        wt_client_close(t, &two);
        cr_expect_eq(free_slabs(t, &one), SLABS);
        wt_client_close(t, &one);
        wt_close(t);
        pool_drop();
}

Test(worker_pool, there_are_so_many_and_limits_count_them, .timeout = 60)
{
        struct wt *t = pool_open();
        struct wt_client one, two;

        pool_make();
        pool_give(t);
        one = client_open(t, 1);
        two = client_open(t, 2);
        set_limit(t, &one, SLAB + SLAB / 2);
        cr_assert_geq(borrow(t, &one), 0);
        cr_expect_eq(borrow(t, &one), -DS_CUDA_OUT_OF_MEMORY);
        set_limit(t, &one, 0);
        cr_assert_geq(borrow(t, &one), 0);
        cr_assert_geq(borrow(t, &two), 0);
        cr_expect_eq(borrow(t, &two), -DS_CUDA_OUT_OF_MEMORY);
        cr_expect_eq(free_slabs(t, &two), 0);
        /* a reset returns all slabs, and the session can borrow again */
        cr_assert_eq(wt_reset(t, &one), 0);
        wt_settle(t);
        cr_expect_eq(free_slabs(t, &two), 2);
        cr_assert_geq(borrow(t, &one), 0);
        cr_expect_eq(used_bytes(t, &one), SLAB);
        wt_client_close(t, &one);
        wt_client_close(t, &two);
        wt_close(t);
        pool_drop();
}

/* A session closes while one of its slabs is being cleared. */
Test(worker_pool, a_client_that_goes_in_between, .timeout = 60)
{
        struct wt *t = pool_open();
        struct wt_client one, two;

        pool_make();
        pool_give(t);
        two = client_open(t, 2);
        for (int turns = 0; turns < 6; turns++) {
                WT_REQUEST(request, BORROW_SLAB, borrow_slab, BorrowSlab, BORROW_SLAB, .base = {0});
                uint64_t first, second;

                one = client_open(t, 10 + (uint64_t)turns);
                first = wt_send_call(t, &one, &request);
                second = wt_send_call(t, &one, &request);
                for (int i = 0; i < turns; i++)
                        wt_turn(t, 0);
                wt_client_close(t, &one);
                wt_free(wt_wait(t, first));
                wt_free(wt_wait(t, second));
                wt_settle(t);
                cr_assert_eq(free_slabs(t, &two), SLABS, "after %d turns", turns);
        }
        wt_client_close(t, &two);
        wt_close(t);
        pool_drop();
}

static int restore(struct wt *t, uint64_t session, uint32_t slab)
{
        Detshare__Internal__RestoreLent lent = DETSHARE__INTERNAL__RESTORE_LENT__INIT;
        Detshare__Internal__Lent said = DETSHARE__INTERNAL__LENT__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;

        said.slab = slab;
        said.bytes = SLAB;
        lent.session = session;
        lent.lent = &said;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_LENT;
        message.restore_lent = &lent;
        return wt_status(t, wt_send(t, &message, NULL, 0));
}

Test(worker_pool, the_next_worker_has_it_with_its_bytes, .timeout = 60)
{
        struct wt *t = pool_open();
        struct wt_client one, two;
        int slab;

        pool_make();
        pool_give(t);
        one = client_open(t, 1);
        slab = borrow(t, &one);
        cr_assert_geq(slab, 0);
        poke(t, &one, address(slab) + 8, 77);
        wt_client_unmap(&one);
        wt_close(t); /* closes the worker with the session open, as when the worker is killed */
        t = pool_open();
        pool_give(t);
        one = client_open(t, 1);
        two = client_open(t, 2);
        cr_assert_eq(restore(t, 1, (uint32_t)slab), 0);
        cr_expect_eq(restore(t, 2, (uint32_t)slab), DETSHARE__STATUS__BAD_REQUEST);
        cr_expect_eq(restore(t, 2, SLABS), DETSHARE__STATUS__BAD_REQUEST);
        cr_expect_eq(restore(t, 3, 0), DETSHARE__STATUS__NO_SUCH);
        cr_expect_eq(used_bytes(t, &one), SLAB);
        cr_expect_eq(free_slabs(t, &one), SLABS - 1);
        cr_expect_eq(peek(address(slab) + 8), 77);
        poke(t, &one, address(slab) + 8, 78);
        cr_expect_eq(peek(address(slab) + 8), 78);
        cr_expect_eq(give_back(t, &one, (uint32_t)slab), 0);
        wt_client_close(t, &one);
        wt_client_close(t, &two);
        wt_close(t);
        pool_drop();
}

/* Inconsistent messages about a pool are refused, and the worker continues without a pool. */
Test(worker_pool, pieces_that_make_no_sense, .timeout = 60)
{
        struct wt *t = pool_open();
        struct wt_client one = client_open(t, 1);
        int larger = facts_make(SLABS), smaller = facts_make(1);
        WT_REQUEST(channels, GET_CHANNELS, get_channels, GetChannels, GET_CHANNELS, .base = {0});

        pool_make();
        cr_expect_eq(wt_call_status(t, &one, &channels), DETSHARE__STATUS__UNSUPPORTED);
        cr_expect_eq(borrow(t, &one), -DETSHARE__STATUS__UNSUPPORTED);
        cr_expect_eq(give_piece(t, 0, SLABS, slabs[0]), 0);
        cr_expect_eq(give_piece(t, 1, SLABS, -1), DETSHARE__STATUS__BAD_REQUEST);
        cr_expect_eq(give_piece(t, 100, SLABS, slabs[1]), DETSHARE__STATUS__BAD_REQUEST);
        cr_expect_eq(give_piece(t, 0, 100, slabs[1]), DETSHARE__STATUS__BAD_REQUEST);
        /* the messages lack a slab, or have a descriptor that is no slab file */
        cr_expect_eq(give_piece(t, SLABS, SLABS, larger), DETSHARE__STATUS__BAD_REQUEST);
        cr_expect_eq(give_piece(t, SLABS, SLABS, slabs[1]), DETSHARE__STATUS__BAD_REQUEST);
        cr_expect_eq(give_piece(t, SLABS, SLABS, smaller), 0);
        cr_expect_eq(free_slabs(t, &one), 1);
        cr_expect_eq(give_piece(t, SLABS, SLABS, smaller), DETSHARE__STATUS__BAD_REQUEST, "it has one");
        cr_expect_eq(borrow(t, &one), 0);
        wt_client_close(t, &one);
        wt_close(t);
        ds_close(larger);
        ds_close(smaller);
        pool_drop();
}

#ifndef POOL_CUDA
static int pool_said, progress_said;

static void pool_hear(const struct ds_log_about *about, enum ds_log_level level, const char *line)
{
        pool_said += strstr(line, "no pool of coloured memory: ") && strstr(line, "no memory left to measure with");
        progress_said += strstr(line, "coloured memory, ") && strstr(line, " s so far: ");
}

/* Creates device memory of any size but DS_BENCH_DATA: the device has no memory left for the probe's own data. */
static int create_no_more(ds_device *of, uint64_t bytes, int *ret_fd)
{
        return bytes == DS_BENCH_DATA ? DS_CUDA_OUT_OF_MEMORY : REAL.mem_create(of, bytes, ret_fd);
}

/* A pool that needs nearly all memory is refused, and the device works as before. Waiting sessions get the reason.
 * Each reading of the real clock advances it by seconds here. */
Test(worker_pool, no_memory_to_measure_with, .timeout = 60)
{
        struct wt *t;
        struct wt_client one;
        uint64_t va;

        ops = REAL;
        ops.mem_create = create_no_more;
        wt_ops = &ops;
        wt_pool_bytes = DS_MIB(4);
        wt_tick = 3 * DS_NS_PER_S;
        ds_log_set_sink(pool_hear);
        t = wt_open(DEVICE);
        ds_log_set_sink(NULL);
        wt_tick = 0;
        cr_expect_eq(pool_said, 1);
        cr_expect_geq(progress_said, 1);
        one = client_open(t, 1);
        cr_expect_eq(wt_alloc(t, &one, 4096, &va), 0);
        wt_client_close(t, &one);
        wt_close(t);
}
#endif

/* The colour parameter of launches accepts only a table in memory that kernels can access. */
Test(worker_pool, tables, .timeout = 60)
{
        struct wt *t = pool_open();
        struct wt_client one = client_open(t, 1);
        uint64_t table;
        wt_answer *answer;

        pool_make();
        pool_give(t);
        cr_assert_eq(wt_alloc(t, &one, 4096, &table), 0);
        {
                WT_REQUEST(good, GET_CHANNELS, get_channels, GetChannels, GET_CHANNELS, .table = table,
                        .window = UINT64_C(1) << 52, .window_bytes = 1024 << BITS);
                WT_REQUEST(odd, GET_CHANNELS, get_channels, GetChannels, GET_CHANNELS, .table = table,
                        .window = (UINT64_C(1) << 52) + 1, .window_bytes = 1024 << BITS);

                answer = wt_call(t, &one, &good);
                cr_assert_eq(answer->status, 0);
                cr_expect_eq(answer->reply->get_channels->word0, DSW_POOL_BASE);
                cr_expect_eq(answer->reply->get_channels->word1, table);
                cr_expect_eq(answer->reply->fds, 1);
                wt_free(answer);
                cr_expect_eq(wt_call_status(t, &one, &odd), DS_CUDA_INVALID_VALUE);
        }
        wt_client_close(t, &one);
        wt_close(t);
        pool_drop();
}
