/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that clients offer: the worker frees it when a session needs memory, and only then
 */
#include <criterion/criterion.h>
#include <stdatomic.h>

#include "tests/unit/worker_harness.h"

#define FILLERS 4

struct spare {
        struct wt *t;
        struct wt_client a, b, fillers[FILLERS];
        uint64_t held, large; /* allocations of a */
};

static _Atomic uint64_t *words(struct spare *s)
{
        return ((struct ds_ring_header *)(void *)s->a.ring)->spare;
}

static _Atomic uint64_t *word(struct spare *s)
{
        return &words(s)[0];
}

static Detshare__MemInfoReply info_of(struct spare *s, struct wt_client *client, int reclaim)
{
        WT_REQUEST(request, MEM_INFO, mem_info, MemInfo, MEM_INFO, .reclaim = reclaim);
        wt_answer *answer = wt_call(s->t, client, &request);
        Detshare__MemInfoReply info = *answer->reply->mem_info;

        wt_free(answer);
        return info;
}

static uint64_t free_bytes(struct spare *s, struct wt_client *client)
{
        return info_of(s, client, 0).free;
}

/* Sessions hold all memory of the device but less than 2 MiB; session a holds two allocations of it. */
static struct spare spare_open(void)
{
        struct spare s = {.t = wt_open("sim:gtx1080")};

        s.a = wt_client(s.t, 1, DETSHARE__CLASS__BE);
        s.b = wt_client(s.t, 2, DETSHARE__CLASS__LS);
        wt_attach(s.t, &s.a);
        wt_attach(s.t, &s.b);
        cr_assert_eq(wt_alloc(s.t, &s.a, 4096, &s.held), 0);
        cr_assert_eq(wt_alloc(s.t, &s.a, DS_GIB(1), &s.large), 0);
        for (uint64_t i = 0; i < FILLERS; i++) {
                uint64_t left = free_bytes(&s, &s.b) & ~(DS_MIB(2) - 1), p;

                s.fillers[i] = wt_client(s.t, 3 + i, DETSHARE__CLASS__BE);
                if (left)
                        cr_assert_eq(wt_alloc(s.t, &s.fillers[i], DS_MIN(left, DS_GIB(3)), &p), 0);
        }
        return s;
}

static void spare_close(struct spare *s)
{
        wt_client_close(s->t, &s->a);
        for (int i = 0; i < FILLERS; i++)
                wt_client_close(s->t, &s->fillers[i]);
        wt_client_close(s->t, &s->b);
        wt_close(s->t);
}

Test(worker_spare, another_session_gets_the_memory, .timeout = 60)
{
        struct spare s = spare_open();
        uint64_t p, again;

        cr_assert_eq(wt_alloc(s.t, &s.b, DS_MIB(64), &p), DS_CUDA_OUT_OF_MEMORY);
        atomic_store(word(&s), s.large);
        cr_assert_eq(wt_alloc(s.t, &s.a, 4096, &again), 0);
        cr_assert_eq(atomic_load(word(&s)), s.large, "nobody else needs it");
        cr_assert_eq(wt_alloc(s.t, &s.b, DS_MIB(64), &p), 0);
        cr_assert_eq(atomic_load(word(&s)), 0);
        cr_assert_eq(wt_mem_free(s.t, &s.a, s.large), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(wt_mem_free(s.t, &s.a, again), 0);
        cr_assert_eq(wt_mem_free(s.t, &s.a, s.held), 0);
        cr_assert_eq(wt_mem_free(s.t, &s.b, p), 0);
        spare_close(&s);
}

Test(worker_spare, a_session_gets_its_own_offer, .timeout = 60)
{
        struct spare s = spare_open();
        uint64_t p, q;

        atomic_store(word(&s), s.large);
        cr_assert_eq(wt_alloc(s.t, &s.a, DS_MIB(128), &p), 0);
        cr_assert_eq(atomic_load(word(&s)), 0);
        cr_assert_eq(wt_alloc(s.t, &s.a, DS_MIB(896), &s.large), 0);
        atomic_store(word(&s), s.large);
        atomic_store(word(&s), 0);
        cr_assert_eq(wt_alloc(s.t, &s.b, DS_MIB(64), &q), DS_CUDA_OUT_OF_MEMORY, "the client has taken it back");
        cr_assert_eq(wt_mem_free(s.t, &s.a, s.large), 0);
        spare_close(&s);
}

/* A slab that has other allocations stays, and the offer's place in it is used. */
Test(worker_spare, a_session_s_own_offer_makes_room_in_its_slab, .timeout = 60)
{
        struct spare s = spare_open();
        uint64_t offered, rest, p;

        cr_assert_eq(wt_alloc(s.t, &s.a, DS_MIB(32), &offered), 0, "beside the 4 KiB");
        cr_assert_eq(wt_alloc(s.t, &s.a, DS_MIB(31), &rest), 0);
        cr_assert_eq(wt_alloc(s.t, &s.a, DS_MIB(16), &p), DS_CUDA_OUT_OF_MEMORY);
        atomic_store(word(&s), offered);
        cr_assert_eq(wt_alloc(s.t, &s.a, DS_MIB(16), &p), 0);
        cr_assert_eq(p, offered);
        spare_close(&s);
}

/* The nearly full device takes the offer only when the new slab has its allocation, so no slab stays empty. */
Test(worker_spare, a_nearly_full_device_keeps_no_empty_slab, .timeout = 60)
{
        struct spare s = spare_open();
        uint64_t offered, rest, p, before;

        cr_assert_eq(wt_mem_free(s.t, &s.a, s.large), 0);
        cr_assert_eq(wt_alloc(s.t, &s.a, DS_MIB(512), &p), 0);
        cr_assert_eq(wt_alloc(s.t, &s.a, DS_MIB(32), &offered), 0, "beside the 4 KiB");
        cr_assert_eq(wt_alloc(s.t, &s.a, DS_MIB(31), &rest), 0);
        before = free_bytes(&s, &s.b);
        atomic_store(word(&s), offered);
        cr_assert_eq(wt_alloc(s.t, &s.a, DS_MIB(16), &p), 0);
        cr_expect_eq(atomic_load(word(&s)), 0);
        cr_assert_eq(wt_mem_free(s.t, &s.a, p), 0);
        cr_expect_eq(free_bytes(&s, &s.b), before);
        spare_close(&s);
}

Test(worker_spare, all_words_count, .timeout = 60)
{
        struct spare s = spare_open();
        uint64_t p[DS_SPARES], all, free_a = free_bytes(&s, &s.a), free_b = free_bytes(&s, &s.b);

        cr_assert_eq(wt_mem_free(s.t, &s.a, s.large), 0);
        for (uint32_t i = 0; i < DS_SPARES; i++)
                cr_assert_eq(wt_alloc(s.t, &s.a, DS_MIB(128), &p[i]), 0);
        for (uint32_t i = 0; i < DS_SPARES; i++)
                atomic_store(&words(&s)[i], p[i]);
        cr_expect_eq(free_bytes(&s, &s.a), free_a + DS_GIB(1), "the session's own memory is free for it");
        cr_expect_eq(free_bytes(&s, &s.b), free_b + DS_GIB(1), "and for others");
        cr_expect_eq(info_of(&s, &s.a, 0).used, DS_GIB(1) + 4096, "it stays charged");
        cr_assert_eq(wt_alloc(s.t, &s.b, DS_GIB(1), &all), 0, "others get all of it at once");
        for (uint32_t i = 0; i < DS_SPARES; i++)
                cr_expect_eq(atomic_load(&words(&s)[i]), 0);
        cr_expect_eq(info_of(&s, &s.a, 0).used, 4096);
        cr_expect_eq(free_bytes(&s, &s.b), free_b);
        spare_close(&s);
}

/* Work that ends when the test writes a value: the client offers only memory that it does not use. */
Test(worker_spare, a_session_with_work_gives_its_offer, .timeout = 60)
{
        struct spare s = spare_open();
        struct ds_record_value value = {
                .head = {DS_RECORD_VALUE, 0, sizeof(value)}, .kind = DS_VALUE_EQ, .bytes = 4, .value = 1};
        uint32_t stream;
        uint64_t p;

        cr_assert_eq(wt_stream(s.t, &s.a, &stream), 0);
        value.address = s.held;
        wt_push(&s.a, &value, sizeof(value));
        wt_settle(s.t);
        atomic_store(word(&s), s.large);
        cr_assert_eq(wt_alloc(s.t, &s.b, DS_MIB(64), &p), 0);
        cr_assert_eq(atomic_load(word(&s)), 0);
        cr_expect(info_of(&s, &s.b, 0).coming, "the device may still have to unmap it");
        spare_close(&s);
}

/* The driver needs memory, too. */
Test(worker_spare, a_nearly_full_device_takes_offers, .timeout = 60)
{
        struct spare s = spare_open();
        uint64_t p;

        cr_assert_eq(wt_mem_free(s.t, &s.a, s.large), 0);
        cr_assert_eq(wt_alloc(s.t, &s.a, DS_MIB(512), &p), 0);
        atomic_store(word(&s), p);
        cr_assert_eq(wt_alloc(s.t, &s.b, DS_MIB(256), &p), 0);
        cr_expect_eq(atomic_load(word(&s)), 0);
        spare_close(&s);
}

/* A user's limit is the supervisor's: the client asks for the memory of all its user's sessions. */
Test(worker_spare, one_user_s_memory_on_request, .timeout = 60)
{
        struct spare s = spare_open();
        struct wt_client same = wt_client_of(s.t, 20, DETSHARE__CLASS__BE, 4711);
        struct wt_client other = wt_client_of(s.t, 21, DETSHARE__CLASS__BE, 4712);
        uint64_t p;

        wt_attach(s.t, &same);
        cr_assert_eq(wt_mem_free(s.t, &s.a, s.large), 0);
        cr_assert_eq(wt_alloc(s.t, &same, DS_MIB(256), &p), 0);
        atomic_store(&((struct ds_ring_header *)(void *)same.ring)->spare[3], p);
        cr_expect_eq(info_of(&s, &other, 1).offered, 0);
        cr_expect_eq(info_of(&s, &same, 0).offered, DS_MIB(256));
        cr_expect_eq(atomic_load(&((struct ds_ring_header *)(void *)same.ring)->spare[3]), p, "others do not free it");
        cr_expect_eq(info_of(&s, &same, 1).offered, 0);
        cr_expect_eq(info_of(&s, &same, 0).used, 0);
        wt_client_close(s.t, &same);
        wt_client_close(s.t, &other);
        spare_close(&s);
}

Test(worker_spare, invalid_offers_free_nothing, .timeout = 60)
{
        struct spare s = spare_open();
        const uint64_t bad[] = {1, s.large + 512, s.large - 512, s.held + 1, s.large + DS_TIB(1), UINT64_MAX};
        uint64_t p;

        for (size_t i = 0; i < DS_ARRAY_SIZE(bad); i++) {
                atomic_store(word(&s), bad[i]);
                cr_assert_eq(wt_alloc(s.t, &s.b, DS_MIB(64), &p), DS_CUDA_OUT_OF_MEMORY);
                cr_assert_eq(atomic_load(word(&s)), bad[i]);
                cr_expect_eq(info_of(&s, &s.a, 0).offered, 0);
        }
        for (uint32_t i = 0; i < DS_SPARES; i++)
                atomic_store(&words(&s)[i], s.large);
        cr_expect_eq(info_of(&s, &s.a, 0).offered, DS_GIB(1), "one allocation counts once");
        for (uint32_t i = 0; i < DS_SPARES; i++)
                atomic_store(&words(&s)[i], 0);
        cr_assert_eq(wt_mem_free(s.t, &s.a, s.large), 0);
        cr_assert_eq(wt_mem_free(s.t, &s.a, s.held), 0);
        spare_close(&s);
}
