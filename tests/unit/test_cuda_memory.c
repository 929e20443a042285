/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcuda's device memory and synchronous copies, against a daemon inside the test that counts requests
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/context.h"
#include "cuda/pool.h"
#include "cuda/range.h"
#include "tests/support/fake_daemon.h"

#define MIB ((size_t)1 << 20)
#define N 3000

static struct fake fake;
static CUcontext context;
static CUdeviceptr p[N];

static const _Atomic uint32_t *allocs = &fake.requests[DETSHARE__REQUEST__CALL_MEM_ALLOC],
                              *frees = &fake.requests[DETSHARE__REQUEST__CALL_MEM_FREE];

static void begin(void)
{
        fake_start(&fake);
        cr_assert_eq(cuInit(0), CUDA_SUCCESS);
        cr_assert_eq(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
}

/* Work in the ring, without which the client keeps no chunk. */
static void attach(CUdeviceptr address)
{
        cr_assert_eq(cuMemsetD8_v2(address, 1, 1), CUDA_SUCCESS);
        cr_assert_eq(cuCtxSynchronize(), CUDA_SUCCESS);
}

static CUdeviceptr take(size_t bytes)
{
        CUdeviceptr address = 0;

        cr_assert_eq(cuMemAlloc_v2(&address, bytes), CUDA_SUCCESS);
        cr_assert_eq(address % 512, 0);
        return address;
}

/* Waits until the daemon has got so many requests: one that nobody waits for may still be on its way. */
static void expect_soon(const _Atomic uint32_t *count, uint32_t wanted)
{
        for (int i = 0; i < 5000 && atomic_load(count) != wanted; i++)
                usleep(1000);
        cr_expect_eq(atomic_load(count), wanted, "%u requests, not %u", atomic_load(count), wanted);
}

Test(memory, small_allocations_share_requests, .timeout = 60)
{
        begin();
        for (int i = 0; i < N; i++) {
                p[i] = take(1000);
                for (int k = i > 2 ? i - 2 : 0; k < i; k++)
                        cr_assert(p[k] + 1000 <= p[i] || p[i] + 1000 <= p[k]);
        }
        cr_expect_eq(atomic_load(allocs), 2, "3000 KiB are in two chunks of 2 MiB");
        attach(p[0]);
        for (int i = 1; i < N; i++)
                cr_assert_eq(cuMemFree_v2(p[i]), CUDA_SUCCESS);
        cr_expect_eq(atomic_load(frees), 0, "one chunk is in use, and one empty chunk is kept");
        cr_expect_eq(cuMemFree_v2(p[0]), CUDA_SUCCESS);
        expect_soon(frees, 2); /* without allocations no chunk is kept */
        cr_expect_eq(cuMemFree_v2(p[0]), CUDA_ERROR_INVALID_VALUE);
        fake_stop(&fake);
}

Test(memory, freed_memory_is_used_again, .timeout = 60)
{
        CUdeviceptr held, first;

        begin();
        held = take(MIB);
        first = take(MIB - 512);
        for (int i = 0; i < 100; i++) {
                cr_assert_eq(cuMemFree_v2(first), CUDA_SUCCESS);
                cr_assert_eq(take(MIB - 512), first);
        }
        cr_expect_eq(atomic_load(allocs), 1);
        cr_expect_eq(cuMemFree_v2(held), CUDA_SUCCESS);
        cr_expect_eq(atomic_load(frees), 0);
        fake_stop(&fake);
}

Test(memory, large_allocations_are_the_daemon_s_own, .timeout = 60)
{
        begin();
        p[0] = take(2 * MIB);
        p[1] = take(2 * MIB - 1);
        p[2] = take(3 * MIB);
        cr_expect_eq(atomic_load(allocs), 3);
        cr_expect_eq(cuMemFree_v2(p[0] + 512), CUDA_ERROR_INVALID_VALUE);
        for (uint32_t i = 0; i < 3; i++) {
                cr_expect_eq(cuMemFree_v2(p[i]), CUDA_SUCCESS);
                expect_soon(frees, i + 1);
        }
        fake_stop(&fake);
}

/* A daemon that gives less than 2 MiB at once, and in all as many bytes as *user. */
static enum fake_verdict little(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        uint64_t *left = f->user;

        if (request->call_case != DETSHARE__REQUEST__CALL_MEM_ALLOC)
                return FAKE_DEFAULT;
        if (request->mem_alloc->bytes < 2 * MIB && request->mem_alloc->bytes <= *left) {
                *left -= request->mem_alloc->bytes;
                return FAKE_DEFAULT;
        }
        reply->status = CUDA_ERROR_OUT_OF_MEMORY;
        return FAKE_ANSWERED;
}

Test(memory, where_no_chunk_fits_a_small_allocation_still_does, .timeout = 60)
{
        uint64_t left = 3000;
        CUdeviceptr none = 1;

        fake.user = &left;
        fake.hook = little;
        begin();
        p[0] = take(1000);
        p[1] = take(2000);
        cr_expect_eq(cuMemAlloc_v2(&none, 1), CUDA_ERROR_OUT_OF_MEMORY);
        cr_expect_eq(none, 0);
        cr_expect_eq(cuMemFree_v2(p[0]), CUDA_SUCCESS);
        cr_expect_eq(cuMemFree_v2(p[1]), CUDA_SUCCESS);
        cr_expect_eq(atomic_load(frees), 2);
        fake_stop(&fake);
}

/* A daemon that refuses 64 MiB until a chunk has come back. */
static enum fake_verdict full(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        if (request->call_case != DETSHARE__REQUEST__CALL_MEM_ALLOC || request->mem_alloc->bytes < 32 * MIB ||
                atomic_load(frees))
                return FAKE_DEFAULT;
        reply->status = CUDA_ERROR_OUT_OF_MEMORY;
        return FAKE_ANSWERED;
}

Test(memory, empty_chunks_are_returned_before_an_allocation_fails, .timeout = 60)
{
        begin();
        p[0] = take(2 * MIB - 512);
        p[1] = take(2 * MIB - 512);
        attach(p[0]);
        cr_expect_eq(cuMemFree_v2(p[1]), CUDA_SUCCESS);
        cr_expect_eq(atomic_load(frees), 0);
        fake.hook = full;
        p[1] = take(32 * MIB);
        cr_expect_eq(atomic_load(frees), 1);
        fake_stop(&fake);
}

Test(memory, the_daemon_takes_an_empty_chunk, .timeout = 60)
{
        uint64_t taken;

        begin();
        p[0] = take(2 * MIB - 512);
        p[1] = take(2 * MIB - 512);
        cr_expect_eq(cuMemFree_v2(p[1]), CUDA_SUCCESS);
        expect_soon(frees, 1); /* before the first work there is no ring to offer a chunk in */
        attach(p[0]);
        p[1] = take(2 * MIB - 512);
        cr_expect_eq(atomic_load(allocs), 3);
        cr_expect_eq(atomic_load(&fake.ring->spare[0]), 0);
        cr_expect_eq(cuMemFree_v2(p[1]), CUDA_SUCCESS);
        cr_expect_eq(atomic_load(&fake.ring->spare[0]), p[1]);
        cr_expect_eq(take(2 * MIB - 512), p[1], "the client takes it back");
        cr_expect_eq(atomic_load(&fake.ring->spare[0]), 0);
        cr_expect_eq(cuMemFree_v2(p[1]), CUDA_SUCCESS);
        taken = atomic_exchange(&fake.ring->spare[0], 0);
        cr_expect_eq(taken, p[1]);
        p[2] = take(2 * MIB - 512);
        cr_expect_neq(p[2], taken, "the daemon has taken it");
        cr_expect_eq(atomic_load(allocs), 4);
        cr_expect_eq(cuMemFree_v2(p[2]), CUDA_SUCCESS);
        cr_expect_eq(atomic_load(&fake.ring->spare[0]), p[2]);
        cr_expect_eq(cuMemFree_v2(p[0]), CUDA_SUCCESS);
        cr_expect_eq(atomic_load(&fake.ring->spare[0]), 0);
        expect_soon(frees, 3);
        fake_stop(&fake);
}

Test(memory, a_free_in_a_stream_returns_at_once, .timeout = 60)
{
        begin();
        p[0] = take(1000);
        p[1] = take(1000);
        cr_expect_eq(cuMemsetD8_v2(p[1], 1, 1000), CUDA_SUCCESS);
        cr_expect_eq(cuCtxSynchronize(), CUDA_SUCCESS);
        fake.paused = true;
        cr_expect_eq(cuMemFreeAsync(p[1], NULL), CUDA_SUCCESS);
        cr_expect_eq(cuMemFreeAsync(p[1], NULL), CUDA_ERROR_INVALID_VALUE);
        p[2] = take(1000);
        cr_expect_neq(p[2], p[1], "the stream may still use the memory");
        fake.paused = false;
        cr_expect_eq(cuCtxSynchronize(), CUDA_SUCCESS);
        fake_stop(&fake);
}

Test(memory, the_daemon_takes_no_chunk_with_unfinished_work, .timeout = 60)
{
        begin();
        p[0] = take(2 * MIB - 512);
        p[1] = take(MIB);
        p[2] = take(MIB);
        attach(p[0]);
        fake.paused = true;
        cr_expect_eq(cuMemsetD8Async(p[1], 1, MIB, NULL), CUDA_SUCCESS);
        cr_expect_eq(cuMemFreeAsync(p[1], NULL), CUDA_SUCCESS);
        cr_expect_eq(cuMemFreeAsync(p[2], NULL), CUDA_SUCCESS);
        cr_expect_eq(atomic_load(&fake.ring->spare[0]), 0, "the daemon has not read the work yet");
        fake.paused = false;
        expect_soon(frees, 1);
        cr_expect_eq(cuCtxSynchronize(), CUDA_SUCCESS);
        fake_stop(&fake);
}

Test(memory, the_end_of_a_context_frees_its_memory, .timeout = 60)
{
        CUcontext second;

        begin();
        p[0] = take(1000);
        cr_assert_eq(cuCtxCreate_v2(&second, 0, 0), CUDA_SUCCESS);
        p[1] = take(2 * MIB - 512);
        p[2] = take(3 * MIB);
        attach(p[0]);
        cr_expect_eq(cuCtxDestroy_v2(second), CUDA_SUCCESS);
        cr_expect_eq(cuCtxSetCurrent(context), CUDA_SUCCESS);
        expect_soon(frees, 1); /* the empty chunk is kept */
        cr_expect_eq(cuMemFree_v2(p[1]), CUDA_ERROR_INVALID_VALUE);
        cr_expect_eq(cuMemFree_v2(p[0]), CUDA_SUCCESS);
        fake_stop(&fake);
}

/* --- freed allocations of 2 MiB and more --- */

static int offered(CUdeviceptr address)
{
        int n = 0;

        for (int i = 0; i < (int)DS_SPARES; i++)
                n += atomic_load(&fake.ring->spare[i]) == address;
        return n;
}

static void begin_kept(uint64_t spare_bytes)
{
        fake.spare_bytes = spare_bytes;
        begin();
        p[N - 1] = take(1000);
        attach(p[N - 1]);
        atomic_store(&fake.requests[DETSHARE__REQUEST__CALL_MEM_ALLOC], 0);
}

static void give(CUdeviceptr address)
{
        cr_assert_eq(cuMemFree_v2(address), CUDA_SUCCESS);
}

Test(kept, an_allocation_is_used_again, .timeout = 60)
{
        CUdeviceptr base;
        size_t size;

        begin_kept(64 * MIB);
        p[0] = take(8 * MIB);
        for (int i = 0; i < 100; i++) {
                give(p[0]);
                cr_expect_eq(offered(p[0]), 1);
                cr_expect_eq(cuMemFree_v2(p[0]), CUDA_ERROR_INVALID_VALUE);
                cr_expect_eq(cuMemsetD8_v2(p[0], 1, 1), CUDA_ERROR_INVALID_VALUE);
                cr_assert_eq(take(8 * MIB - (size_t)i * 10000), p[0]);
                cr_expect_eq(offered(p[0]), 0);
        }
        cr_expect_eq(atomic_load(allocs), 1);
        cr_expect_eq(atomic_load(frees), 0);
        cr_expect_eq(cuMemGetAddressRange_v2(&base, &size, p[0]), CUDA_SUCCESS);
        cr_expect_eq(size, 8 * MIB - 990000);
        give(p[0]);
        p[1] = take(7 * MIB - 1);
        cr_expect_neq(p[1], p[0], "more than an eighth would be left over");
        p[2] = take(8 * MIB + 1);
        cr_expect_neq(p[2], p[0]);
        cr_expect_eq(take(7 * MIB), p[0]);
        fake_stop(&fake);
}

Test(kept, the_smallest_that_fits_is_used, .timeout = 60)
{
        begin_kept(64 * MIB);
        p[0] = take(18 * MIB);
        p[1] = take(17 * MIB);
        p[2] = take(16 * MIB);
        for (int i = 0; i < 3; i++)
                give(p[i]);
        cr_expect_eq(take(16 * MIB), p[2]);
        cr_expect_eq(take(16 * MIB), p[1]);
        cr_expect_eq(take(16 * MIB), p[0]);
        cr_expect_eq(atomic_load(allocs), 3);
        fake_stop(&fake);
}

Test(kept, number_and_bytes_are_bounded, .timeout = 60)
{
        begin_kept(64 * MIB);
        for (int i = 0; i < 9; i++)
                p[i] = take(2 * MIB);
        for (int i = 0; i < 9; i++)
                give(p[i]);
        expect_soon(frees, 2);
        for (int i = 0; i < 9; i++)
                cr_expect_eq(offered(p[i]), i >= 2, "the oldest ones go back first");
        p[10] = take(60 * MIB);
        give(p[10]);
        expect_soon(frees, 7);
        cr_expect(offered(p[10]) && offered(p[8]) && offered(p[7]) && !offered(p[6]));
        p[11] = take(64 * MIB + 1);
        give(p[11]);
        expect_soon(frees, 8); /* more than may be kept at all: the others stay */
        cr_expect(offered(p[10]) && offered(p[8]) && offered(p[7]) && !offered(p[11]));
        fake_stop(&fake);
}

static void daemon_takes(CUdeviceptr address)
{
        for (int i = 0; i < (int)DS_SPARES; i++) {
                uint64_t seen = address;

                (void)atomic_compare_exchange_strong(&fake.ring->spare[i], &seen, 0);
        }
}

Test(kept, the_daemon_takes_it, .timeout = 60)
{
        begin_kept(64 * MIB);
        p[0] = take(4 * MIB);
        p[1] = take(4 * MIB);
        give(p[0]);
        give(p[1]);
        daemon_takes(p[0]);
        cr_expect_eq(take(4 * MIB), p[1]);
        p[2] = take(4 * MIB);
        cr_expect_neq(p[2], p[0]);
        cr_expect_eq(atomic_load(allocs), 3);
        cr_expect_eq(atomic_load(frees), 0, "the daemon has freed it already");
        give(p[2]);
        cr_expect_eq(offered(p[2]), 1);
        fake_stop(&fake);
}

/* The daemon takes a kept allocation and places a smaller chunk there, which is offered in its turn. */
Test(kept, a_chunk_at_its_old_address_is_another_allocation, .timeout = 60)
{
        begin_kept(64 * MIB);
        p[0] = take(4 * MIB);
        give(p[0]);
        daemon_takes(p[0]);
        fake.device_used = p[0] - fake.window;
        p[1] = take(2 * MIB - 512);
        cr_assert_eq(p[1], p[0], "the chunk lies there");
        fake.device_used += 64 * MIB;
        give(p[1]);
        cr_assert_eq(offered(p[1]), 1);
        cr_expect_neq(take(4 * MIB), p[0], "a chunk of 2 MiB is there");
        cr_expect_eq(take(2 * MIB - 512), p[1]);
        fake_stop(&fake);
}

/* The same the other way round. */
Test(kept, an_allocation_at_the_address_of_a_chunk_is_no_chunk, .timeout = 60)
{
        begin_kept(64 * MIB);
        p[0] = take(2 * MIB - 512);
        give(p[0]);
        daemon_takes(p[0]);
        fake.device_used = p[0] - fake.window;
        p[1] = take(4 * MIB);
        cr_assert_eq(p[1], p[0], "the allocation lies there");
        fake.device_used += 64 * MIB;
        give(p[1]);
        cr_assert_eq(offered(p[1]), 1);
        cr_expect_neq(take(2 * MIB - 512), p[0], "the chunk is gone");
        cr_expect_eq(take(4 * MIB), p[1]);
        fake_stop(&fake);
}

Test(kept, not_without_the_daemon_s_consent, .timeout = 60)
{
        begin_kept(0);
        p[0] = take(4 * MIB);
        give(p[0]);
        expect_soon(frees, 1);
        cr_expect_eq(offered(p[0]), 0);
        fake_stop(&fake);
}

Test(kept, not_if_other_processes_may_use_it, .timeout = 60)
{
        CUipcMemHandle handle;

        begin_kept(64 * MIB);
        p[0] = take(4 * MIB);
        (void)cuIpcGetMemHandle(&handle, p[0]); /* this daemon exports nothing, but the client cannot be sure */
        give(p[0]);
        expect_soon(frees, 1);
        cr_expect_eq(offered(p[0]), 0);
        fake_stop(&fake);
}

static void *free_first(void *unused)
{
        cr_expect_eq(cuCtxSetCurrent(context), CUDA_SUCCESS);
        give(p[0]);
        return NULL;
}

Test(kept, not_while_work_may_use_it, .timeout = 60)
{
        pthread_t thread;

        begin_kept(64 * MIB);
        p[0] = take(4 * MIB);
        fake.paused = true;
        cr_expect_eq(cuMemsetD8Async(p[0], 1, 1, NULL), CUDA_SUCCESS);
        pthread_create(&thread, NULL, free_first, NULL);
        usleep(50000);
        cr_expect_eq(offered(p[0]), 0);
        cr_expect_neq(take(4 * MIB), p[0]);
        fake.paused = false;
        pthread_join(thread, NULL);
        cr_expect_eq(offered(p[0]), 1);
        fake_stop(&fake);
}

static _Atomic int refusals, reclaims;

/* A daemon that refuses allocations while other programs of the user keep memory, which it takes on request. */
static enum fake_verdict refuse(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        static Detshare__MemInfoReply info;

        if (request->call_case == DETSHARE__REQUEST__CALL_MEM_ALLOC && atomic_load(&refusals) > 0) {
                atomic_fetch_sub(&refusals, 1);
                reply->status = DETSHARE__STATUS__QUOTA;
                return FAKE_ANSWERED;
        }
        if (request->call_case != DETSHARE__REQUEST__CALL_MEM_INFO)
                return FAKE_DEFAULT;
        info = (Detshare__MemInfoReply)DETSHARE__MEM_INFO_REPLY__INIT;
        info.free = info.total = 64 * MIB;
        info.coming = request->mem_info->reclaim && f->user == NULL;
        atomic_fetch_add(&reclaims, request->mem_info->reclaim);
        reply->result_case = DETSHARE__REPLY__RESULT_MEM_INFO;
        reply->mem_info = &info;
        return FAKE_ANSWERED;
}

Test(kept, an_allocation_waits_for_memory_that_others_keep, .timeout = 60)
{
        static char nothing;
        CUdeviceptr none;

        begin_kept(64 * MIB);
        fake.hook = refuse;
        atomic_store(&refusals, 3);
        p[0] = take(4 * MIB);
        cr_expect_eq(atomic_load(&reclaims), 3);
        atomic_store(&refusals, 1000);
        cr_expect_eq(cuMemAlloc_v2(&none, 65 * MIB), CUDA_ERROR_OUT_OF_MEMORY, "not for more than there is");
        cr_expect_eq(atomic_load(&reclaims), 5, "once in each of two tries");
        fake.user = &nothing; /* nobody keeps memory */
        cr_expect_eq(cuMemAlloc_v2(&none, 4 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
        cr_expect_eq(atomic_load(&reclaims), 7);
        fake_stop(&fake);
}

/* --- synchronous copies to the device --- */

static _Atomic int returned;

static void *write_twos(void *unused)
{
        unsigned char two[64];

        memset(two, 2, sizeof(two));
        cr_expect_eq(cuCtxSetCurrent(context), CUDA_SUCCESS);
        cr_expect_eq(cuMemcpyHtoD_v2(p[0], two, sizeof(two)), CUDA_SUCCESS);
        atomic_store(&returned, 1);
        return NULL;
}

Test(copies, return_when_the_source_was_read, .timeout = 60)
{
        unsigned char bytes[64];
        pthread_t thread;

        begin();
        p[0] = take(1000);
        memset(bytes, 0, sizeof(bytes));
        cr_expect_eq(cuMemcpyHtoD_v2(p[0], bytes, sizeof(bytes)), CUDA_SUCCESS);
        cr_expect_eq(cuCtxSynchronize(), CUDA_SUCCESS);
        fake.paused = true;
        for (unsigned char i = 0; i < 3; i++) {
                memset(bytes, i, sizeof(bytes));
                cr_expect_eq(cuMemcpyHtoD_v2(p[0], bytes, sizeof(bytes)), CUDA_SUCCESS, "no other work is left");
        }
        memset(bytes, 9, sizeof(bytes));
        cr_expect_eq(cuMemsetD8Async(p[0], 8, 1, NULL), CUDA_SUCCESS);
        pthread_create(&thread, NULL, write_twos, NULL);
        usleep(50000);
        cr_expect_eq(atomic_load(&returned), 0, "it waits for the work before it");
        fake.paused = false;
        pthread_join(thread, NULL);
        cr_expect_eq(cuMemcpyDtoH_v2(bytes, p[0], sizeof(bytes)), CUDA_SUCCESS);
        for (size_t i = 0; i < sizeof(bytes); i++)
                cr_expect_eq(bytes[i], 2);
        fake_stop(&fake);
}

/* --- work of streams that do not join the legacy stream --- */

static CUdeviceptr q;

static void *wait_for_stream(void *stream)
{
        cr_expect_eq(cuCtxSetCurrent(context), CUDA_SUCCESS);
        cr_expect_eq(cuStreamSynchronize(stream), CUDA_SUCCESS);
        atomic_store(&returned, 1);
        return NULL;
}

/* A copy that has returned while the daemon reads no record, and non-blocking streams that exist before and after. */
static void begin_unsettled(CUstream streams[2])
{
        unsigned char bytes[64] = {1};

        fake.objects = true;
        begin();
        p[0] = take(1000);
        q = take(1000);
        cr_assert_eq(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        cr_expect_eq(cuMemcpyHtoD_v2(p[0], bytes, sizeof(bytes)), CUDA_SUCCESS);
        cr_expect_eq(cuCtxSynchronize(), CUDA_SUCCESS);
        fake.paused = true;
        cr_expect_eq(cuMemcpyHtoD_v2(p[0], bytes, sizeof(bytes)), CUDA_SUCCESS, "with a non-blocking stream, too");
        cr_assert_eq(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
}

Test(copies, work_of_other_streams_waits_for_the_copy, .timeout = 60)
{
        CUstream streams[2], blocking;

        begin_unsettled(streams);
        cr_assert_eq(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
        cr_expect_eq(cuStreamQuery(streams[0]), CUDA_SUCCESS, "it has no work");
        for (int i = 0; i < 3; i++)
                for (int k = 0; k < 2; k++)
                        cr_expect_eq(cuMemcpyDtoDAsync_v2(q, p[0], 64, streams[k]), CUDA_SUCCESS);
        cr_expect_eq(cuMemcpyDtoDAsync_v2(q, p[0], 64, blocking), CUDA_SUCCESS);
        cr_expect_eq(cuStreamQuery(streams[0]), CUDA_ERROR_NOT_READY);
        fake.paused = false;
        cr_expect_eq(cuCtxSynchronize(), CUDA_SUCCESS);
        cr_expect_eq(atomic_load(&fake.records[DS_RECORD_WAIT]), 2, "one for each non-blocking stream");
        cr_expect_eq(cuMemcpyDtoDAsync_v2(q, p[0], 64, streams[0]), CUDA_SUCCESS);
        cr_expect_eq(cuCtxSynchronize(), CUDA_SUCCESS);
        cr_expect_eq(atomic_load(&fake.records[DS_RECORD_WAIT]), 2, "the copy has ended");
        fake_stop(&fake);
}

static uint64_t waited[2]; /* stream and number of the last wait's operation */

static void note_wait(struct fake *f, const struct ds_record *record)
{
        const struct ds_record_wait *wait = (const void *)record;

        if (record->type != DS_RECORD_WAIT)
                return;
        waited[0] = wait->other;
        waited[1] = wait->seq;
}

/* Each kind of work, and each synchronous call that returns early. */
Test(copies, every_kind_of_work_waits_for_the_copy, .timeout = 60)
{
        CUstream streams[2];
        CUevent event;
        uint64_t n = 0;

        fake.on_record = note_wait;
        begin_unsettled(streams);
        cr_assert_eq(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
        for (int kind = 0; kind < 5; kind++) {
                fake.paused = true;
                switch (kind) {
                case 0:
                        cr_expect_eq(cuEventRecord(event, streams[0]), CUDA_SUCCESS);
                        break;
                case 1:
                        cr_expect_eq(cuMemcpyDtoD_v2(q, p[0], 64), CUDA_SUCCESS);
                        cr_expect_eq(cuMemsetD8Async(q, 1, 64, streams[0]), CUDA_SUCCESS);
                        break;
                case 2:
                        cr_expect_eq(cuMemsetD8_v2(q, 1, 64), CUDA_SUCCESS);
                        cr_expect_eq(cuStreamWriteValue32_v2(streams[0], q, 1, 0), CUDA_SUCCESS);
                        break;
                case 3:
                        cr_expect_eq(cuMemsetD8_v2(q, 2, 64), CUDA_SUCCESS);
                        cr_expect_eq(cuStreamWaitEvent(streams[1], event, 0), CUDA_SUCCESS);
                        break;
                default:
                        cr_expect_eq(cuMemsetD8_v2(q, 3, 64), CUDA_SUCCESS);
                        cr_expect_eq(cuMemFreeAsync(q, streams[0]), CUDA_SUCCESS);
                        break;
                }
                n += kind == 3 ? 2 : 1;
                fake.paused = false;
                cr_expect_eq(cuCtxSynchronize(), CUDA_SUCCESS);
                cr_expect_eq(atomic_load(&fake.records[DS_RECORD_WAIT]), n, "kind %d", kind);
                cr_expect_eq(waited[0], kind == 3 ? waited[0] : 0);
        }
        cr_expect_eq(waited[1], atomic_load(&fake.done[0]), "the last operation of the legacy stream");
        fake_stop(&fake);
}

Test(copies, memory_that_other_processes_get_has_its_bytes, .timeout = 60)
{
        CUstream streams[2];
        CUipcMemHandle handle;
        unsigned char bytes[64] = {2};
        pthread_t thread;

        begin_unsettled(streams);
        cr_expect_eq(cuMemsetD8Async(q, 1, 64, streams[0]), CUDA_SUCCESS);
        pthread_create(&thread, NULL, wait_for_stream, streams[0]);
        usleep(50000);
        cr_expect_eq(atomic_load(&returned), 0);
        fake.paused = false;
        (void)cuIpcGetMemHandle(&handle, p[0]); /* this daemon exports nothing */
        cr_expect_geq(atomic_load(&fake.done[0]), 2, "the copy has ended");
        pthread_join(thread, NULL);
        fake.paused = true;
        atomic_store(&returned, 0);
        pthread_create(&thread, NULL, write_twos, NULL);
        usleep(50000);
        cr_expect_eq(atomic_load(&returned), 0, "streams of other processes do not wait for the copy");
        fake.paused = false;
        pthread_join(thread, NULL);
        cr_expect_eq(cuMemcpyDtoH_v2(bytes, p[0], sizeof(bytes)), CUDA_SUCCESS);
        cr_expect_eq(bytes[0], 2);
        fake_stop(&fake);
}

static void *export_first(void *unused)
{
        CUipcMemHandle handle;

        cr_expect_eq(cuCtxSetCurrent(context), CUDA_SUCCESS);
        (void)cuIpcGetMemHandle(&handle, p[0]); /* this daemon exports nothing */
        atomic_store(&returned, 1);
        return NULL;
}

/* A new daemon counts operations from 1: the number of a copy of the last session says nothing. */
Test(copies, memory_of_a_new_session_has_its_bytes_when_it_is_exported, .timeout = 60)
{
        unsigned char bytes[64] = {1};
        pthread_t thread;

        begin();
        p[0] = take(1000);
        for (int i = 0; i < 50; i++)
                cr_expect_eq(cuMemcpyHtoD_v2(p[0], bytes, sizeof(bytes)), CUDA_SUCCESS);
        cr_expect_eq(cuCtxSynchronize(), CUDA_SUCCESS);
        cr_expect_eq(cuCtxDestroy_v2(context), CUDA_SUCCESS);
        fake_stop(&fake);
        memset(&fake, 0, sizeof(fake));
        begin();
        p[0] = take(1000);
        attach(p[0]);
        fake.paused = true;
        cr_expect_eq(cuMemcpyHtoD_v2(p[0], bytes, sizeof(bytes)), CUDA_SUCCESS, "it returns early");
        pthread_create(&thread, NULL, export_first, NULL);
        usleep(50000);
        cr_expect_eq(atomic_load(&returned), 0, "the copy has not ended");
        fake.paused = false;
        pthread_join(thread, NULL);
        fake_stop(&fake);
}
