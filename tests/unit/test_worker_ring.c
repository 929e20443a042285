/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile rings and records: the checker alone, and a worker whose clients write garbage
 *
 * A record that no correct client writes ends its session and no other; a wrong value becomes the session's error. The
 * seed of random parts is printed; DETSHARE_TEST_SEED repeats a run.
 */
#include <inttypes.h>
#include <time.h>

#include "tests/unit/worker_harness.h"
#include "util/macro.h"
#include "worker/record.h"

static uint64_t random_state;

static uint64_t random_next(void)
{
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return random_state;
}

static void random_seed(void)
{
        const char *given = getenv("DETSHARE_TEST_SEED");

        random_state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + 1;
        fprintf(stderr, "seed %#" PRIx64 "\n", random_state);
}

/* --- the checker -------------------------------------------------------------------------------------------------- */

static const char *check_head(uint16_t type, uint16_t stream, uint32_t size, uint64_t position, uint64_t available)
{
        struct ds_record head = {type, stream, size};

        return dsw_record_check_head(&head, position, available);
}

Test(worker_ring, framing)
{
        const uint32_t launch = sizeof(struct ds_record_launch), copy = sizeof(struct ds_record_copy);

        cr_assert_null(check_head(DS_RECORD_LAUNCH, 0, launch, 0, 1));
        cr_assert_null(check_head(DS_RECORD_LAUNCH, 511, launch + DS_RECORD_PARAMS_MAX, 0, 600));
        cr_assert_null(check_head(DS_RECORD_COPY, 0, copy, DS_RING_SLOTS - 1, 1));
        cr_assert_null(check_head(DS_RECORD_PAD, 0, 3 * DS_RING_SLOT, DS_RING_SLOTS - 3, 3));
        cr_assert_not_null(check_head(0, 0, 64, 0, 1));
        cr_assert_not_null(check_head(_DS_RECORD_MAX, 0, 64, 0, 1));
        cr_assert_not_null(check_head(UINT16_MAX, 0, 64, 0, 1));
        cr_assert_not_null(check_head(DS_RECORD_LAUNCH, 0, 0, 0, 1));
        cr_assert_not_null(check_head(DS_RECORD_LAUNCH, 0, launch - 1, 0, 1));
        cr_assert_not_null(check_head(DS_RECORD_LAUNCH, 512, launch, 0, 1));
        cr_assert_not_null(check_head(DS_RECORD_LAUNCH, 0, launch + 64, 0, 1), "past the tail");
        cr_assert_not_null(check_head(DS_RECORD_LAUNCH, 0, launch + 64, DS_RING_SLOTS - 1, 4), "over the end");
        cr_assert_not_null(check_head(DS_RECORD_LAUNCH, 0, launch + DS_RECORD_PARAMS_MAX + 1, 0, DS_RING_SLOTS));
        cr_assert_not_null(check_head(DS_RECORD_LAUNCH, 0, UINT32_MAX, 0, DS_RING_SLOTS));
        cr_assert_not_null(check_head(DS_RECORD_COPY, 0, copy + 1, 0, 2));
        cr_assert_not_null(check_head(DS_RECORD_PAD, 0, DS_RING_SLOT, DS_RING_SLOTS - 3, 3));
        cr_assert_not_null(check_head(DS_RECORD_PAD, 0, 3 * DS_RING_SLOT, DS_RING_SLOTS - 3, 2));
}

/* A record is accepted with any header only if it lies inside the ring and inside its published part. */
Test(worker_ring, random_headers_never_reach_outside)
{
        random_seed();
        for (int i = 0; i < 2000000; i++) {
                uint64_t position = random_next() % DS_RING_SLOTS, available = 1 + random_next() % DS_RING_SLOTS;
                struct ds_record head = {(uint16_t)(random_next() % (_DS_RECORD_MAX + 1)), (uint16_t)random_next(),
                        (uint32_t)(random_next() >> (random_next() % 64))};

                if (dsw_record_check_head(&head, position, available))
                        continue;
                cr_assert_geq(head.size, sizeof(head));
                cr_assert_leq(dsw_record_slots(head.size), available);
                cr_assert_leq(position + dsw_record_slots(head.size), DS_RING_SLOTS);
                if (head.type != DS_RECORD_PAD) {
                        cr_assert_leq(head.size, DSW_RECORD_MAX);
                        cr_assert_lt(head.stream, DS_STREAMS_MAX);
                }
        }
}

Test(worker_ring, bodies)
{
        struct ds_record_launch launch = {.head = {DS_RECORD_LAUNCH, 0, sizeof(launch) + 8}, .params_size = 8};
        struct ds_record_copy copy = {.head = {DS_RECORD_COPY, 0, sizeof(copy)}, .kind = 3};
        struct ds_record_wait wait = {.head = {DS_RECORD_WAIT, 0, sizeof(wait)}, .other = 511};

        cr_assert_null(dsw_record_check_body(&launch.head));
        launch.params_size = 9;
        cr_assert_not_null(dsw_record_check_body(&launch.head));
        launch.params_size = UINT32_MAX;
        cr_assert_not_null(dsw_record_check_body(&launch.head));
        cr_assert_null(dsw_record_check_body(&copy.head));
        copy.kind = 4;
        cr_assert_not_null(dsw_record_check_body(&copy.head));
        cr_assert_null(dsw_record_check_body(&wait.head));
        wait.other = 512;
        cr_assert_not_null(dsw_record_check_body(&wait.head));
}

/* The checker knows two allocations: one on the device, one pinned. */
#define DEVICE_VA UINT64_C(0x100000)
#define DEVICE_BYTES UINT64_C(0x10000)
#define PINNED_VA UINT64_C(0x900000)
#define PINNED_BYTES UINT64_C(0x1000)

static enum dsw_where where(void *user, uint64_t va, uint64_t bytes)
{
        /* arithmetic of 128 bits, so that this test cannot repeat an overflow of the checker */
        unsigned __int128 end = (unsigned __int128)va + bytes;

        cr_assert(bytes);
        cr_assert(end <= UINT64_MAX, "an extent that wraps was looked up");
        if (va >= DEVICE_VA && end <= DEVICE_VA + DEVICE_BYTES)
                return DSW_WHERE_DEVICE;
        if (va >= PINNED_VA && end <= PINNED_VA + PINNED_BYTES)
                return DSW_WHERE_PINNED;
        return DSW_WHERE_NOWHERE;
}

static int check_copy(struct ds_copy copy, enum ds_copy_kind *ret_kind)
{
        const char *why = NULL;
        int empty, status = dsw_check_copy(&copy, where, NULL, &empty, &why);

        cr_assert((status != 0) == (why != NULL));
        *ret_kind = copy.kind;
        return status;
}

Test(worker_ring, copies)
{
        struct ds_copy ok = {
                .dst = DEVICE_VA, .src = PINNED_VA, .width = 256, .height = 16, .dst_pitch = 4096, .src_pitch = 256};
        enum ds_copy_kind kind;
        struct ds_copy bad;

        cr_assert_eq(check_copy(ok, &kind), 0);
        cr_assert_eq(kind, DS_COPY_HTOD);
        bad = ok;
        bad.height = 17;
        cr_assert_eq(check_copy(bad, &kind), DS_CUDA_INVALID_VALUE);
        bad = ok;
        bad.dst = DEVICE_VA + 1;
        cr_assert_eq(check_copy(bad, &kind), 0);
        bad.dst = DEVICE_VA + 4096;
        cr_assert_eq(check_copy(bad, &kind), DS_CUDA_INVALID_VALUE);
        bad = ok;
        bad.src_pitch = 255;
        cr_assert_eq(check_copy(bad, &kind), DS_CUDA_INVALID_VALUE, "rows that overlap");
        bad.height = 1;
        cr_assert_eq(check_copy(bad, &kind), 0, "one row has no pitch");
        bad = ok;
        bad.height = UINT64_MAX;
        bad.dst_pitch = UINT64_MAX;
        cr_assert_eq(check_copy(bad, &kind), DS_CUDA_INVALID_VALUE);
        bad = ok;
        bad.width = UINT64_MAX;
        bad.height = 1;
        cr_assert_eq(check_copy(bad, &kind), DS_CUDA_INVALID_VALUE);
        bad = ok;
        bad.width = 0;
        bad.dst = 12345;
        cr_assert_eq(check_copy(bad, &kind), 0, "nothing to copy");
        ok.src = DEVICE_VA;
        ok.dst = PINNED_VA;
        ok.width = 16;
        ok.dst_pitch = 16;
        cr_assert_eq(check_copy(ok, &kind), 0);
        cr_assert_eq(kind, DS_COPY_DTOH);
}

/* Compares with an independent implementation of the rules in 128-bit arithmetic. */
Test(worker_ring, random_copies_are_judged_as_wide_arithmetic_does)
{
        static const uint64_t near[] = {0, 1, 16, 255, 256, 4096, DEVICE_BYTES, UINT64_C(1) << 32, UINT64_C(1) << 63,
                UINT64_MAX, UINT64_MAX - DEVICE_VA, DEVICE_VA, DEVICE_VA + DEVICE_BYTES, PINNED_VA};
        enum ds_copy_kind kind;
        uint64_t passed = 0;

        random_seed();
        for (int i = 0; i < 1000000; i++) {
                uint64_t v[6];

                for (int k = 0; k < 6; k++)
                        v[k] = near[random_next() % DS_ARRAY_SIZE(near)] + random_next() % 3 - 1;
                if (random_next() % 2) {
                        v[0] = DEVICE_VA + random_next() % DEVICE_BYTES;
                        v[1] = DEVICE_VA + random_next() % DEVICE_BYTES;
                        v[2] = random_next() % 512;
                        v[3] = random_next() % 64;
                }
                struct ds_copy copy = {
                        .dst = v[0], .src = v[1], .width = v[2], .height = v[3], .dst_pitch = v[4], .src_pitch = v[5]};
                int valid = 1;

                for (int side = 0; side < 2 && v[2] && v[3]; side++) {
                        unsigned __int128 extent = (unsigned __int128)(v[3] - 1) * v[4 + side] + v[2];

                        valid &= v[3] == 1 || v[4 + side] >= v[2];
                        valid &= extent <= DEVICE_BYTES;
                        valid = valid && (unsigned __int128)v[side] + extent <= UINT64_MAX &&
                                where(NULL, v[side], (uint64_t)extent) != DSW_WHERE_NOWHERE;
                }
                cr_assert_eq(check_copy(copy, &kind) == 0, valid, "copy %d", i);
                passed += (uint64_t)valid;
        }
        cr_assert_gt(passed, 1000);
}

Test(worker_ring, memsets)
{
        const struct ds_memset ok = {
                .dst = DEVICE_VA, .value = 1, .element_size = 4, .width = 1024, .height = 16, .pitch = 4096};
        const char *why;
        struct ds_memset bad;
        int empty;

        cr_assert_eq(dsw_check_memset(&ok, where, NULL, &empty, &why), 0);
        for (uint32_t size = 0; size < 10; size++) {
                bad = ok;
                bad.element_size = size;
                bad.width = 100;
                cr_assert_eq(
                        dsw_check_memset(&bad, where, NULL, &empty, &why) == 0, size == 1 || size == 2 || size == 4);
        }
        bad = ok;
        bad.dst += 2;
        cr_assert_neq(dsw_check_memset(&bad, where, NULL, &empty, &why), 0);
        bad = ok;
        bad.pitch = 4098;
        cr_assert_neq(dsw_check_memset(&bad, where, NULL, &empty, &why), 0);
        bad = ok;
        bad.width = (UINT64_C(1) << 62) + 1; /* times the element's four bytes this width overflows to a small number */
        bad.height = 1;
        cr_assert_neq(dsw_check_memset(&bad, where, NULL, &empty, &why), 0);
        bad = ok;
        bad.height = 17;
        cr_assert_neq(dsw_check_memset(&bad, where, NULL, &empty, &why), 0);
}

static int check_launch(const struct dsw_limits *limits, const struct ds_kernel_info *kernel, const uint32_t *grid,
        const uint32_t *block, uint32_t shared_bytes, uint32_t params_size)
{
        struct ds_launch launch = {.grid = {grid[0], grid[1], grid[2]},
                .block = {block[0], block[1], block[2]},
                .shared_bytes = shared_bytes,
                .params_size = params_size};
        const char *why = NULL;
        int r = dsw_check_launch(limits, kernel, &launch, &why);

        cr_assert_eq(!r, !why);
        return r;
}

Test(worker_ring, launches)
{
        struct ds_device_info info = {.attributes = {0}};
        struct ds_kernel_info kernel = {.params_size = 8, .max_threads = 256, .static_shared = 1024};
        uint32_t one[3] = {1, 1, 1}, many[3] = {128, 2, 1}, more[3] = {257, 1, 1},
                 huge[3] = {UINT32_MAX, UINT32_MAX, 64};
        struct dsw_limits limits;

        dsw_limits_init(&limits, &info);
        cr_assert_eq(limits.block_threads, 1024);
        cr_assert_eq(limits.shared_bytes, 49152);
        cr_assert_eq(limits.clusters, 0);
        cr_assert_eq(check_launch(&limits, &kernel, one, many, 49152 - 1024, 8), 0);
        cr_assert_eq(check_launch(&limits, &kernel, one, many, 49152 - 1023, 8), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(check_launch(&limits, &kernel, one, many, UINT32_MAX, 8), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(check_launch(&limits, &kernel, one, more, 0, 8), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(check_launch(&limits, &kernel, one, huge, 0, 8), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(check_launch(&limits, &kernel, huge, one, 0, 8), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(check_launch(&limits, &kernel, one, one, 0, 4), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(check_launch(&limits, &kernel, one, one, 0, 12), DS_CUDA_INVALID_VALUE);
        for (int i = 0; i < 3; i++) {
                uint32_t zero[3] = {1, 1, 1};

                zero[i] = 0;
                cr_assert_eq(check_launch(&limits, &kernel, zero, one, 0, 8), DS_CUDA_INVALID_VALUE);
                cr_assert_eq(check_launch(&limits, &kernel, one, zero, 0, 8), DS_CUDA_INVALID_VALUE);
        }
}

/* Cluster shapes in a client's record, for kernels that require none, 2 1 1, any, at most 4, or clusters as grid
 * unit */
Test(worker_ring, clusters)
{
        static const struct {
                uint32_t grid[3], cluster[3];
                struct ds_kernel_info kernel;
                int old, want; /* expected status on a device without clusters, and on one with them */
        } rows[] = {
                {{4, 1, 1}, {0}, {0}, 0, 0},
                {{4, 1, 1}, {1, 1, 1}, {0}, 0, 0},
                {{4, 2, 2}, {2, 2, 2}, {0}, DS_CUDA_NOT_SUPPORTED, 0},
                {{16, 1, 1}, {16, 1, 1}, {0}, DS_CUDA_NOT_SUPPORTED, 0},
                {{17, 1, 1}, {17, 1, 1}, {0}, 912, 912},
                {{32, 1, 1}, {32, 1, 1}, {0}, 912, 912},
                {{16, 16, 1}, {16, 2, 1}, {0}, 912, 912},
                {{4, 1, 1}, {3, 1, 1}, {0}, 912, 912},
                {{4, 1, 1}, {1, 2, 1}, {0}, 912, 912},
                {{4, 1, 1}, {2, 0, 1}, {0}, 912, 912},
                {{4, 1, 1}, {0, 1, 1}, {0}, 912, 912},
                {{65535, 1, 1}, {65535, 65535, 65535}, {0}, 912, 912},
                {{4, 1, 1}, {0}, {.cluster = {2, 1, 1}}, DS_CUDA_NOT_SUPPORTED, 0},
                {{3, 1, 1}, {0}, {.cluster = {2, 1, 1}}, 912, 912},
                {{4, 1, 1}, {2, 1, 1}, {.cluster = {2, 1, 1}}, DS_CUDA_NOT_SUPPORTED, 0},
                {{4, 1, 1}, {4, 1, 1}, {.cluster = {2, 1, 1}}, 912, 912},
                {{4, 1, 1}, {1, 1, 1}, {.cluster = {2, 1, 1}}, 912, 912},
                {{4, 1, 1}, {0}, {.cluster_explicit = 1}, 912, 912},
                {{4, 1, 1}, {1, 1, 1}, {.cluster_explicit = 1}, 0, 0},
                {{8, 1, 1}, {4, 1, 1}, {.cluster_max = 4}, DS_CUDA_NOT_SUPPORTED, 0},
                {{8, 1, 1}, {8, 1, 1}, {.cluster_max = 4}, 912, 912},
                {{3, 5, 1}, {0}, {.cluster = {2, 2, 1}, .blocks_are_clusters = 1}, DS_CUDA_NOT_SUPPORTED, 0},
                {{0x50000000, 1, 1}, {0}, {.cluster = {2, 1, 1}, .blocks_are_clusters = 1}, DS_CUDA_NOT_SUPPORTED,
                        DS_CUDA_INVALID_VALUE},
        };
        struct ds_device_info info = {.attributes = {0}};
        struct dsw_limits limits;
        const char *why;

        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++) {
                struct ds_launch launch = {.block = {32, 1, 1}};

                memcpy(launch.grid, rows[i].grid, sizeof(launch.grid));
                memcpy(launch.cluster, rows[i].cluster, sizeof(launch.cluster));
                info.attributes[120] = 0;
                dsw_limits_init(&limits, &info);
                cr_assert_eq(dsw_check_launch(&limits, &rows[i].kernel, &launch, &why), rows[i].old, "row %zu", i);
                info.attributes[120] = 1;
                dsw_limits_init(&limits, &info);
                cr_assert_eq(dsw_check_launch(&limits, &rows[i].kernel, &launch, &why), rows[i].want, "row %zu", i);
        }
}

/* --- a worker ----------------------------------------------------------------------------------------------------- */

/* The fault reported to the supervisor; NULL: none. */
static wt_answer *take_fault(struct wt *t)
{
        for (size_t i = 0; i < t->n_stash; i++) {
                if (t->stash[i]->body_case != DETSHARE__INTERNAL__FROM_WORKER__BODY_FAULT)
                        continue;
                wt_answer *answer = t->stash[i];

                t->n_stash--;
                memmove(&t->stash[i], &t->stash[i + 1], (t->n_stash - i) * sizeof(t->stash[0]));
                memmove(&t->fds[i], &t->fds[i + 1], (t->n_stash - i) * sizeof(t->fds[0]));
                return answer;
        }
        return NULL;
}

struct scene {
        struct wt *t;
        struct wt_client bad, good;
        uint64_t kernel, good_kernel, address;
};

static struct scene scene_open(void)
{
        struct scene scene = {.t = wt_open(TIMING)};
        uint64_t module;

        scene.bad = wt_client(scene.t, 1, DETSHARE__CLASS__BE);
        scene.good = wt_client(scene.t, 2, DETSHARE__CLASS__LS);
        wt_attach(scene.t, &scene.bad);
        wt_attach(scene.t, &scene.good);
        cr_assert_eq(wt_module(scene.t, &scene.bad, DT_PTX, &module), 0);
        scene.kernel = wt_kernel(scene.t, &scene.bad, module, "null");
        cr_assert_eq(wt_alloc(scene.t, &scene.bad, 4096, &scene.address), 0);
        cr_assert_eq(wt_module(scene.t, &scene.good, DT_PTX, &module), 0);
        scene.good_kernel = wt_kernel(scene.t, &scene.good, module, "null");
        return scene;
}

static void scene_good_works(struct scene *scene)
{
        uint64_t seq = atomic_load(&scene->good.page->stream_done[0]) + 1;

        wt_push_launch(&scene->good, 0, scene->good_kernel, 4, 64, NULL, 0);
        cr_assert_eq(wt_sync(scene->t, &scene->good, 0, seq), 0);
        cr_assert_eq(atomic_load(&scene->good.page->error), 0);
}

static void scene_close(struct scene *scene)
{
        scene_good_works(scene);
        wt_client_close(scene->t, &scene->bad);
        scene_good_works(scene);
        wt_client_close(scene->t, &scene->good);
        wt_close(scene->t);
}

static void expect_fault(struct scene *scene, const char *reason)
{
        wt_answer *fault;

        wt_settle(scene->t);
        fault = take_fault(scene->t);
        cr_assert_not_null(fault, "no fault was told");
        cr_assert_eq(fault->fault->session, 1);
        cr_assert_not_null(strstr(fault->fault->reason, reason), "the fault is: %s", fault->fault->reason);
        wt_free(fault);
        cr_assert_null(take_fault(scene->t), "told twice");
        scene_close(scene);
}

static struct ds_ring_header *header_of(struct wt_client *client)
{
        return (void *)client->ring;
}

Test(worker_ring, a_tail_too_far_ahead, .timeout = 60)
{
        struct scene scene = scene_open();

        wt_publish(&scene.bad, DS_RING_SLOTS + 1);
        expect_fault(&scene, "out of range");
}

Test(worker_ring, a_tail_that_moves_back, .timeout = 60)
{
        struct scene scene = scene_open();

        wt_push_launch(&scene.bad, 0, scene.kernel, 1, 1, NULL, 0);
        wt_settle(scene.t);
        atomic_store(&header_of(&scene.bad)->tail, 0);
        cr_assert_eq(write(scene.bad.event_fd, "\1\0\0\0\0\0\0", 8), 8);
        expect_fault(&scene, "moved back");
}

Test(worker_ring, a_record_of_no_type, .timeout = 60)
{
        struct scene scene = scene_open();
        struct ds_record record = {.type = 77, .size = 64};

        wt_push(&scene.bad, &record, sizeof(record));
        expect_fault(&scene, "unknown record type");
}

Test(worker_ring, a_record_past_the_tail, .timeout = 60)
{
        struct scene scene = scene_open();
        struct ds_record_launch record = {.head = {DS_RECORD_LAUNCH, 0, sizeof(record) + 512}, .params_size = 512};

        memcpy(scene.bad.ring + DS_RING_HEADER, &record, sizeof(record));
        wt_publish(&scene.bad, 1);
        expect_fault(&scene, "past the ring");
}

Test(worker_ring, a_parameter_size_that_does_not_fit, .timeout = 60)
{
        struct scene scene = scene_open();
        struct ds_record_launch record = {.head = {DS_RECORD_LAUNCH, 0, sizeof(record)}, .params_size = 32764};

        wt_push(&scene.bad, &record, sizeof(record));
        expect_fault(&scene, "parameter size");
}

/* A request names a tail beyond that of its session's ring. */
Test(worker_ring, a_request_with_a_wrong_tail, .timeout = 60)
{
        struct scene scene = scene_open();
        WT_REQUEST(query, QUERY, query, Query, QUERY, .stream = 0);
        uint64_t id;

        scene.bad.tail += 5;
        id = wt_send_call(scene.t, &scene.bad, &query);
        cr_assert_eq(wt_status(scene.t, id), DETSHARE__STATUS__BAD_REQUEST);
        expect_fault(&scene, "has not reached");
}

static void expect_error(struct scene *scene, int status)
{
        wt_settle(scene->t);
        cr_assert_null(take_fault(scene->t));
        cr_assert_eq(atomic_load(&scene->bad.page->error), status);
        cr_assert_eq(atomic_load(&scene->bad.page->accepted), atomic_load(&scene->bad.page->completed));
        scene_close(scene);
}

Test(worker_ring, an_unknown_kernel, .timeout = 60)
{
        struct scene scene = scene_open();

        wt_push_launch(&scene.bad, 0, scene.kernel + 77, 1, 1, NULL, 0);
        wt_push_launch(&scene.bad, 0, scene.kernel, 1, 1, NULL, 0);
        wt_settle(scene.t);
        cr_assert_eq(atomic_load(&scene.bad.page->stream_done[0]), 2);
        expect_error(&scene, DS_CUDA_INVALID_HANDLE);
}

Test(worker_ring, a_kernel_of_another_session, .timeout = 60)
{
        struct scene scene = scene_open();

        /* kernel ids belong to a session, so at best this one is another kernel of the same session */
        wt_push_launch(&scene.bad, 0, scene.good_kernel + (UINT64_C(1) << 28), 1, 1, NULL, 0);
        expect_error(&scene, DS_CUDA_INVALID_HANDLE);
}

Test(worker_ring, a_block_of_4096_threads, .timeout = 60)
{
        struct scene scene = scene_open();

        wt_push_launch(&scene.bad, 0, scene.kernel, 1, 4096, NULL, 0);
        expect_error(&scene, DS_CUDA_INVALID_VALUE);
}

Test(worker_ring, parameters_of_the_wrong_size, .timeout = 60)
{
        struct scene scene = scene_open();

        wt_push_launch(&scene.bad, 0, scene.kernel, 1, 32, "12345678", 8);
        expect_error(&scene, DS_CUDA_INVALID_VALUE);
}

Test(worker_ring, a_stream_that_is_not_there, .timeout = 60)
{
        struct scene scene = scene_open();

        wt_push_launch(&scene.bad, 5, scene.kernel, 1, 32, NULL, 0);
        expect_error(&scene, DS_CUDA_INVALID_HANDLE);
}

Test(worker_ring, a_copy_from_nowhere, .timeout = 60)
{
        struct scene scene = scene_open();
        struct ds_record_copy record = {.head = {DS_RECORD_COPY, 0, sizeof(record)},
                .dst = scene.address,
                .src = scene.address + 4096,
                .width = 1,
                .height = 1};

        wt_push(&scene.bad, &record, sizeof(record));
        expect_error(&scene, DS_CUDA_INVALID_VALUE);
}

Test(worker_ring, a_wait_for_the_future, .timeout = 60)
{
        struct scene scene = scene_open();

        wt_push_wait(&scene.bad, 0, 0, 2);
        expect_error(&scene, DS_CUDA_INVALID_HANDLE);
}

Test(worker_ring, an_event_that_is_not_there, .timeout = 60)
{
        struct scene scene = scene_open();

        wt_push_event(&scene.bad, 0, UINT64_MAX >> 1);
        expect_error(&scene, DS_CUDA_INVALID_HANDLE);
}

/* Writes a plausible or senseless record; returns its size. */
static uint32_t scribble(struct scene *scene, uint8_t *buffer, size_t size)
{
        static const uint16_t types[] = {
                DS_RECORD_LAUNCH, DS_RECORD_COPY, DS_RECORD_MEMSET, DS_RECORD_EVENT, DS_RECORD_WAIT};
        static const uint32_t sizes[] = {sizeof(struct ds_record_launch), sizeof(struct ds_record_copy),
                sizeof(struct ds_record_memset), sizeof(struct ds_record_event), sizeof(struct ds_record_wait)};
        size_t kind = random_next() % DS_ARRAY_SIZE(types);
        struct ds_record head = {types[kind], (uint16_t)(random_next() % 3), sizes[kind]};
        uint64_t word;

        for (size_t i = 0; i + sizeof(word) <= size; i += sizeof(word)) {
                word = random_next() % 4 ? random_next() % 3 : random_next();
                if (random_next() % 4 == 0)
                        word = random_next() % 2 ? scene->address + random_next() % 4096 : scene->kernel;
                memcpy(buffer + i, &word, sizeof(word));
        }
        if (random_next() % 50 == 0)
                head = (struct ds_record){
                        (uint16_t)random_next(), (uint16_t)random_next(), (uint32_t)(random_next() % 1000)};
        memcpy(buffer, &head, sizeof(head));
        return DS_MAX((uint32_t)sizeof(head), DS_MIN(head.size, (uint32_t)size));
}

/* Random garbage, also written while the worker reads, in many short sessions; the good neighbour is unaffected. */
Test(worker_ring, random_scribbling, .timeout = 120)
{
        struct scene scene = scene_open();
        uint8_t buffer[1024];
        uint32_t side;

        random_seed();
        ds_log_setup("test", DS_LOG_ERROR);
        for (int life = 0; life < 200; life++) {
                wt_answer *fault;
                uint64_t module;

                for (int i = 0; i < 100; i++) {
                        if (wt_ring_room(&scene.bad) > 64)
                                wt_push(&scene.bad, buffer, scribble(&scene, buffer, sizeof(buffer)));
                        if (random_next() % 4 == 0)
                                wt_turn(scene.t, 0);
                        /* changes bytes that the worker may be reading */
                        scene.bad.ring[DS_RING_HEADER + random_next() % (DS_RING_BYTES - DS_RING_HEADER)] ^= 0x11;
                }
                wt_settle(scene.t);
                fault = take_fault(scene.t);
                if (fault)
                        wt_free(fault);
                scene_good_works(&scene);
                wt_client_close(scene.t, &scene.bad);
                scene.bad = wt_client(scene.t, 1, DETSHARE__CLASS__BE);
                wt_attach(scene.t, &scene.bad);
                cr_assert_eq(wt_module(scene.t, &scene.bad, DT_PTX, &module), 0);
                scene.kernel = wt_kernel(scene.t, &scene.bad, module, "null");
                cr_assert_eq(wt_alloc(scene.t, &scene.bad, 4096, &scene.address), 0);
                cr_assert_eq(wt_stream(scene.t, &scene.bad, &side), 0);
        }
        scene_close(&scene);
}
