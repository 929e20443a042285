/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's copy of the pool: reports of a worker in order, and no others; its part of the status
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "supervisor/calibration.h"
#include "supervisor/config.h"
#include "supervisor/pool.h"
#include "util/macro.h"

#define SLABS 2u

static int memory(const void *bytes, size_t size)
{
        int fd = memfd_create("test", MFD_CLOEXEC);

        cr_assert(fd >= 0);
        cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
        return fd;
}

static struct ds_pool_file facts(void)
{
        struct ds_pool_file facts = {.magic = DS_POOL_MAGIC,
                .version = DS_WIRE_VERSION,
                .slab_bytes = DS_MIB(2),
                .n_slabs = SLABS,
                .sector_bits = 11,
                .granule_bits = 10,
                .n_channels = 70,
                .n_be = 2,
                .be_permille = 300,
                .ls_permille = 600,
                .lost_permille = 100,
                .be_set = {2, 1}};

        strcpy(facts.provenance, "two\npages");
        return facts;
}

/* Makes the file that a worker sends last: the facts of the pool, and `classes` bytes of classes after them. */
static int file_of(const struct ds_pool_file *with, size_t classes)
{
        static uint8_t bytes[sizeof(*with) + 4 * 1024];

        memcpy(bytes, with, sizeof(*with));
        return memory(bytes, sizeof(*with) + classes);
}

static int take(struct ds_pool *pool, uint32_t index, uint32_t slabs, int fd)
{
        Detshare__Internal__PoolPiece piece = DETSHARE__INTERNAL__POOL_PIECE__INIT;
        int r;

        piece.index = index;
        piece.slabs = slabs;
        r = ds_pool_take(pool, &piece, &fd);
        ds_close(fd);
        return r;
}

static void take_slabs(struct ds_pool *pool)
{
        ds_pool_init(pool);
        for (uint32_t i = 0; i < SLABS; i++)
                cr_assert_eq(take(pool, i, SLABS, memory("", 1)), 0);
}

Test(supervisor_pool, all_pieces_in_order)
{
        const struct ds_pool_file good = facts();
        uint32_t list[DS_POOL_CHANNELS_MAX];
        Detshare__StatusReply status = DETSHARE__STATUS_REPLY__INIT;
        const struct ds_calibration none = {.n = 0};
        struct ds_config config = {0};
        struct ds_pool pool;

        take_slabs(&pool);
        cr_assert_not(pool.complete);
        ds_pool_status(&pool, &config, &none, "sim/1", 0, list, &status);
        cr_assert_eq(status.pool_bytes, 0);
        cr_assert(strstr(status.channels_why, "pool_mib"));
        cr_assert_eq(take(&pool, SLABS, SLABS, file_of(&good, SLABS << 10)), 0);
        cr_assert(pool.complete);
        cr_assert_eq(take(&pool, SLABS, SLABS, file_of(&good, SLABS << 10)), -EPROTO, "one more");
        detshare__status_reply__init(&status);
        ds_pool_status(&pool, &config, &none, "sim/1", 1, list, &status);
        cr_expect_eq(status.pool_bytes, DS_MIB(4));
        cr_expect_eq(status.pool_slabs_lent, 1);
        cr_expect_eq(status.pool_sector_bytes, 2048);
        cr_expect_eq(status.channels, 70);
        cr_assert_eq(status.n_channels_be_list, 2);
        cr_expect_eq(status.channels_be_list[0], 1);
        cr_expect_eq(status.channels_be_list[1], 64);
        cr_expect_str_eq(status.channels_source, "two?pages", "it is shown to people");
        ds_pool_deinit(&pool);
        cr_assert_not(pool.complete);
}

Test(supervisor_pool, other_words_are_a_breach)
{
        struct ds_pool pool;

        ds_pool_init(&pool);
        cr_expect_eq(take(&pool, 1, SLABS, memory("", 1)), -EPROTO, "not the first");
        cr_expect_eq(take(&pool, 0, 0, memory("", 1)), -EPROTO);
        cr_expect_eq(take(&pool, 0, DS_POOL_SLABS_MAX + 1, memory("", 1)), -EPROTO);
        cr_expect_eq(take(&pool, 0, SLABS, -1), -EPROTO);
        for (int i = 0; i < 8; i++) {
                struct ds_pool_file bad = facts();

                bad.magic += i == 0;
                bad.version += i == 1;
                bad.n_slabs += i == 2;
                bad.sector_bits = i == 3 ? 40 : bad.sector_bits;
                bad.granule_bits = i == 4 ? 40 : bad.granule_bits;
                bad.n_channels = i == 5 ? DS_POOL_CHANNELS_MAX + 1 : bad.n_channels;
                bad.slab_bytes = i == 6 ? UINT64_MAX : bad.slab_bytes;
                take_slabs(&pool);
                cr_expect_eq(take(&pool, SLABS, SLABS, file_of(&bad, (SLABS << 10) - (i == 7))), -EPROTO, "%d", i);
                cr_expect_not(pool.complete);
                ds_pool_deinit(&pool);
        }
        take_slabs(&pool);
        cr_expect_eq(take(&pool, SLABS, SLABS, memory("short", 5)), -EPROTO);
        ds_pool_deinit(&pool);
}

/* Makes a slab's file of this many bytes with these seals. */
static int slab_file(uint64_t bytes, int seals)
{
        int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        cr_assert(fd >= 0);
        cr_assert_eq(ftruncate(fd, (off_t)bytes), 0);
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
        return fd;
}

#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int facts_file(int seals)
{
        const struct ds_pool_file good = facts();
        static uint8_t bytes[sizeof(good) + SLABS * 1024];
        int fd = slab_file(0, 0);

        memcpy(bytes, &good, sizeof(good));
        cr_assert_eq(write(fd, bytes, sizeof(bytes)), (ssize_t)sizeof(bytes));
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
        return fd;
}

static int take_over(struct ds_pool *pool, uint32_t index, uint64_t bytes, int fd)
{
        Detshare__Internal__PoolPiece piece = DETSHARE__INTERNAL__POOL_PIECE__INIT;
        int r;

        piece.index = index;
        piece.slabs = SLABS;
        piece.bytes = bytes;
        r = ds_pool_take_over(pool, &piece, 1, &fd);
        ds_close(fd);
        return r;
}

static void over_slabs(struct ds_pool *pool)
{
        ds_pool_init(pool);
        for (uint32_t i = 0; i < SLABS; i++)
                cr_assert_eq(take_over(pool, i, DS_MIB(2), slab_file(DS_MIB(2), SIZE_SEALS)), 0);
}

Test(supervisor_pool, a_previous_daemons_pool_is_checked)
{
        const int all = SIZE_SEALS | F_SEAL_WRITE;
        int ends[2];
        struct ds_pool pool;

        over_slabs(&pool);
        cr_expect_eq(take_over(&pool, SLABS, DS_MIB(2), facts_file(all)), 0);
        cr_expect(pool.complete);
        ds_pool_deinit(&pool);
        over_slabs(&pool);
        cr_expect_eq(take_over(&pool, SLABS, DS_MIB(2), facts_file(SIZE_SEALS)), -EPROTO, "a client could write it");
        cr_expect_eq(take_over(&pool, SLABS, DS_MIB(4), facts_file(all)), -EPROTO, "of other slabs");
        ds_pool_deinit(&pool);
        ds_pool_init(&pool);
        cr_expect_eq(take_over(&pool, 0, DS_MIB(2), slab_file(DS_MIB(1), SIZE_SEALS)), -EPROTO, "too small");
        cr_expect_eq(take_over(&pool, 0, DS_MIB(2), slab_file(DS_MIB(2), F_SEAL_SHRINK)), -EPROTO, "not of one size");
        cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
        cr_expect_eq(take_over(&pool, 0, DS_MIB(2), ends[0]), -EPROTO, "no memory");
        ds_close(ends[1]);
        cr_expect_eq(take_over(&pool, 0, DS_MIB(2), -1), -EPROTO);
        cr_expect_eq(pool.n_taken, 0);
        ds_pool_deinit(&pool);
}

Test(supervisor_pool, when_there_is_to_be_one)
{
        static const struct {
                uint64_t bytes;
                const char *be, *wanted, *why;
        } rows[] = {
                {0, "1/3", NULL, "none is configured"},
                {DS_MIB(4), "off", NULL, "off"},
                {DS_MIB(4), "auto", NULL, "not calibrated"},
                {DS_MIB(4), NULL, NULL, "not calibrated"},
                {DS_MIB(4), "1/3", "1/3", "making it failed, or"},
        };

        const struct ds_calibration none = {.n = 0};

        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++) {
                const struct ds_config config = {.pool_bytes = rows[i].bytes, .pool_be = (char *)(uintptr_t)rows[i].be};
                const char *why, *wanted = ds_pool_wanted(&config, &none, "sim/1", &why);

                cr_expect_eq(wanted == NULL, rows[i].wanted == NULL);
                cr_expect(strstr(why, rows[i].why), "%s", why);
        }
}

/* An H200 without a table needs 80 ms per page: a quarter of an hour does not suffice for all of its memory. */
Test(supervisor_pool, patience_grows_with_the_pool)
{
        const struct ds_config small = {.pool_bytes = DS_MIB(2)}, all = {.pool_bytes = 138 * DS_GIB(1)},
                               absurd = {.pool_bytes = UINT64_MAX};

        cr_expect_geq(ds_pool_patience_ms(&small), 60u * 1000);
        cr_expect_leq(ds_pool_patience_ms(&small), 3600u * 1000);
        cr_expect_geq(ds_pool_patience_ms(&all), 2u * 69 * 1024 / 2 * 80);
        cr_expect_leq(ds_pool_patience_ms(&absurd), (uint32_t)INT32_MAX);
}

/* With `auto` in the configuration the measurement decides whether the daemon keeps a pool. */
Test(supervisor_pool, as_it_was_measured)
{
        const struct ds_config config = {.pool_bytes = DS_MIB(4)};
        struct ds_calibration_gpu gpus[] = {
                {.name = "pays/1", .channels = 6, .be = 2}, {.name = "does not/1", .channels = 6}};
        const struct ds_calibration known = {.n = 2, .gpus = gpus};
        const struct ds_calibration off = {.n = 1, .gpus = &gpus[1]};
        const char *why;

        cr_expect_str_eq(ds_pool_wanted(&config, &known, NULL, &why), "auto", "which GPU it is nobody knows yet");
        cr_expect_null(ds_pool_wanted(&config, &off, NULL, &why), "there is none for which it pays");
        cr_expect_str_eq(ds_pool_wanted(&config, &known, "pays/1", &why), "auto");
        cr_expect(strstr(why, "after the daemon"), "%s", why);
        cr_expect_null(ds_pool_wanted(&config, &known, "does not/1", &why));
        cr_expect(strstr(why, "does not pay"), "%s", why);
        cr_expect_null(ds_pool_wanted(&config, &known, "another/1", &why));
        cr_expect(strstr(why, "not calibrated"), "%s", why);
}
