/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State for the next supervisor: records are read back as written, a removed session leaves no trace, and invalid state
 * is refused. A ledger restored from its replay gives the same replay again and charges the same, whatever the limits
 * are now.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/wire.h"
#include "supervisor/ledger.h"
#include "supervisor/saved.h"
#include "util/macro.h"

static void write_done(ds_saved_writer *writer, uint64_t id)
{
        Detshare__Internal__SavedRecord record = DETSHARE__INTERNAL__SAVED_RECORD__INIT;
        Detshare__Internal__SavedDone done = DETSHARE__INTERNAL__SAVED_DONE__INIT;

        done.session = id;
        record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_DONE;
        record.done = &done;
        cr_assert_eq(ds_saved_write(writer, &record), 0);
}

Test(saved, records_come_back)
{
        const Detshare__Internal__SavedRecord *record;
        ds_saved_writer *writer = NULL;
        ds_saved_reader *reader = NULL;
        uint64_t at;
        int fd = -1;

        cr_assert_eq(ds_saved_writer_new(&writer), 0);
        write_done(writer, 1);
        at = ds_saved_tell(writer);
        write_done(writer, 2);
        write_done(writer, 3);
        cr_assert_eq(ds_saved_back_to(writer, at), 0);
        write_done(writer, 4);
        cr_assert_eq(ds_saved_finish(writer, &fd), 0);
        ds_saved_writer_free(writer);
        cr_assert_lt(write(fd, "x", 1), 0, "it is sealed");
        cr_assert_eq(ds_saved_reader_new(fd, &reader), 0);
        close(fd);
        cr_assert_eq(ds_saved_next(reader, &record), 0);
        cr_assert_eq(record->done->session, 1);
        cr_assert_eq(ds_saved_next(reader, &record), 0);
        cr_assert_eq(record->done->session, 4);
        cr_assert_eq(ds_saved_next(reader, &record), DS_SAVED_E_END);
        ds_saved_reader_free(reader);
}

Test(saved, invalid_state_is_refused)
{
        int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, fd, null = open("/dev/null", O_RDONLY);
        const Detshare__Internal__SavedRecord *record;
        ds_saved_reader *reader = NULL;

        cr_assert_eq(ds_saved_reader_new(null, &reader), DS_SAVED_E_DAMAGED);
        fd = memfd_create("state", MFD_ALLOW_SEALING);
        cr_assert_eq(write(fd, "\2\0\0\0\xff\xff\4\0", 8), 8);
        cr_assert_eq(ds_saved_reader_new(fd, &reader), DS_SAVED_E_DAMAGED, "it is not sealed");
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
        cr_assert_eq(ds_saved_reader_new(fd, &reader), 0);
        cr_assert_eq(ds_saved_next(reader, &record), DS_SAVED_E_DAMAGED, "no message");
        cr_assert_eq(ds_saved_next(reader, &record), DS_SAVED_E_DAMAGED, "no length");
        cr_assert_eq(ds_saved_next(reader, &record), DS_SAVED_E_END);
        ds_saved_reader_free(reader);
        close(fd);
        close(null);
}

/* --- files inside ------------------------------------------------------------------------------------------------- */

static int file_of(size_t size, int seals)
{
        int fd = memfd_create("file", MFD_ALLOW_SEALING);

        cr_assert(fd >= 0 && ftruncate(fd, (off_t)size) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0);
        return fd;
}

Test(saved, sealed_files_may_be_embedded)
{
        const int all = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
        const struct {
                size_t size;
                int seals, may;
        } rows[] = {{100, all, 1}, {0, all, 1}, {DS_SAVED_INSIDE_MAX, all, 1}, {DS_SAVED_INSIDE_MAX + 1, all, 0},
                {100, all & ~F_SEAL_WRITE, 0}, {100, all & ~F_SEAL_GROW, 0}, {100, all & ~F_SEAL_SHRINK, 0},
                {100, (all & ~F_SEAL_WRITE) | F_SEAL_FUTURE_WRITE, 0}};
        int null = open("/dev/null", O_RDONLY);
        uint64_t bytes;

        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++) {
                int fd = file_of(rows[i].size, rows[i].seals);

                cr_assert_eq(ds_saved_may_lie_inside(fd, F_SEAL_WRITE, &bytes), rows[i].may, "row %zu", i);
                cr_assert_eq(ds_saved_may_lie_inside(fd, 0, &bytes), rows[i].may || (i >= 4 && i != 5 && i != 6),
                        "row %zu, may be written", i);
                cr_assert(!rows[i].may || bytes == rows[i].size);
                close(fd);
        }
        cr_assert_eq(ds_saved_may_lie_inside(null, 0, &bytes), 0);
        close(null);
}

Test(saved, a_file_inside_comes_back_sealed)
{
        static uint8_t bytes[DS_SAVED_INSIDE_MAX + 1], back[DS_SAVED_INSIDE_MAX];
        Detshare__Internal__SavedContent content = DETSHARE__INTERNAL__SAVED_CONTENT__INIT;
        uint64_t size;
        int fd = -1;

        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t)(i * 7);
        content.bytes.data = bytes;
        content.bytes.len = sizeof(bytes);
        cr_assert_eq(ds_saved_make_file(&content, F_SEAL_WRITE, &fd), DS_SAVED_E_DAMAGED, "one byte too many");
        cr_assert_eq(fd, -1);
        content.bytes.len = DS_SAVED_INSIDE_MAX;
        cr_assert_eq(ds_saved_make_file(&content, F_SEAL_WRITE, &fd), 0);
        cr_assert(ds_saved_may_lie_inside(fd, F_SEAL_WRITE, &size) && size == DS_SAVED_INSIDE_MAX);
        cr_assert_eq(ds_saved_read_file(fd, back, size), 0);
        cr_assert_arr_eq(back, bytes, sizeof(back));
        cr_assert_lt(write(fd, "x", 1), 0);
        cr_assert_lt(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0, "no more seals");
        close(fd);
        content.bytes.len = 0;
        cr_assert_eq(ds_saved_make_file(&content, F_SEAL_WRITE, &fd), 0);
        cr_assert(ds_saved_may_lie_inside(fd, F_SEAL_WRITE, &size) && size == 0);
        close(fd);
        content.bytes.len = 100;
        cr_assert_eq(ds_saved_make_file(&content, 0, &fd), 0);
        cr_assert_eq(pwrite(fd, "x", 1, 99), 1, "a graph's file can be written");
        cr_assert_lt(pwrite(fd, "x", 1, 100), 0, "and does not grow");
        close(fd);
}

Test(saved, bytes_inside_that_are_cut_are_damage)
{
        static uint8_t bytes[1000];
        Detshare__Internal__SavedRecord record = DETSHARE__INTERNAL__SAVED_RECORD__INIT;
        Detshare__Internal__SavedContent content = DETSHARE__INTERNAL__SAVED_CONTENT__INIT;
        Detshare__Internal__RestoreGraph graph = DETSHARE__INTERNAL__RESTORE_GRAPH__INIT;
        const Detshare__Internal__SavedRecord *read;
        ds_saved_writer *writer = NULL;
        ds_saved_reader *reader = NULL;
        uint8_t packed[1200];
        uint32_t size;
        int fd = -1;

        content.bytes = (ProtobufCBinaryData){.len = sizeof(bytes), .data = bytes};
        graph.graph = 5;
        record.content = &content;
        record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_GRAPH;
        record.graph = &graph;
        cr_assert_eq(ds_saved_writer_new(&writer), 0);
        cr_assert_eq(ds_saved_write(writer, &record), 0);
        cr_assert_eq(ds_saved_tell(writer), ds_saved_size(&record));
        cr_assert_eq(ds_saved_finish(writer, &fd), 0);
        ds_saved_writer_free(writer);
        cr_assert_eq(ds_saved_reader_new(fd, &reader), 0);
        close(fd);
        cr_assert_eq(ds_saved_next(reader, &read), 0);
        cr_assert(read->content && read->content->bytes.len == sizeof(bytes) && read->graph->graph == 5);
        ds_saved_reader_free(reader);
        /* the record's length is the number of bytes in it, but the length stated for its content is another */
        size = (uint32_t)protobuf_c_message_pack(&record.base, packed) / 2;
        fd = memfd_create("state", MFD_ALLOW_SEALING);
        cr_assert_eq(write(fd, &size, 4), 4);
        cr_assert_eq(write(fd, packed, size), (ssize_t)size);
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
        cr_assert_eq(ds_saved_reader_new(fd, &reader), 0);
        close(fd);
        cr_assert_eq(ds_saved_next(reader, &read), DS_SAVED_E_DAMAGED);
        cr_assert_eq(ds_saved_next(reader, &read), DS_SAVED_E_END);
        ds_saved_reader_free(reader);
}

Test(saved, a_record_that_is_too_large_is_said_to_be)
{
        Detshare__Internal__SavedRecord record = DETSHARE__INTERNAL__SAVED_RECORD__INIT;
        Detshare__Internal__SavedReceived received = DETSHARE__INTERNAL__SAVED_RECEIVED__INIT;

        received.bytes.len = 256 * 1024;
        received.bytes.data = calloc(1, received.bytes.len);
        record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_RECEIVED;
        record.received = &received;
        cr_assert_gt(ds_saved_size(&record), DS_SAVED_MAX);
        received.bytes.len -= 100;
        cr_assert_eq(ds_saved_size(&record), 4 + protobuf_c_message_get_packed_size(&record.base));
        free(received.bytes.data);
}

/* --- ledgers ------------------------------------------------------------------------------------------------------ */

static const struct ds_window window = {.base = DS_WINDOW_AREA_BASE, .bytes = DS_GIB(8)};

struct replay {
        uint8_t bytes[4096];
        size_t size;
        ds_ledger *to; /* the restored ledger; NULL: only record */
        ds_shares *shares;
};

static int on_replay(void *user, Detshare__Internal__ToWorker *message, int fd)
{
        struct replay *replay = user;
        int copy = fd >= 0 ? dup(fd) : -1, r = 0;

        replay->size += detshare__internal__to_worker__pack(message, replay->bytes + replay->size);
        cr_assert_lt(replay->size, sizeof(replay->bytes) - 1000);
        if (replay->to && message->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_SLAB)
                r = ds_ledger_restore_slab(replay->to, replay->shares, message->restore_slab, &copy);
        else if (replay->to && message->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_PHYSICAL)
                r = ds_ledger_restore_physical(replay->to, replay->shares, message->restore_physical, &copy);
        else if (replay->to && message->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_MAPPING)
                r = ds_ledger_restore_mapping(replay->to, message->restore_mapping);
        else if (replay->to && message->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_MODULE)
                r = ds_ledger_restore_module(replay->to, message->restore_module, &copy);
        else if (replay->to)
                r = ds_ledger_restore_stream(replay->to, message->restore_stream);
        ds_close(copy);
        return r ? -1 : 0;
}

static void fill(ds_ledger *ledger, ds_user *user)
{
        Detshare__Internal__Slab slab = DETSHARE__INTERNAL__SLAB__INIT;
        Detshare__Internal__Range range = DETSHARE__INTERNAL__RANGE__INIT;
        Detshare__Internal__Module module = DETSHARE__INTERNAL__MODULE__INIT;
        Detshare__Internal__Stream stream = DETSHARE__INTERNAL__STREAM__INIT;
        Detshare__Internal__Ledger entry = DETSHARE__INTERNAL__LEDGER__INIT;
        struct ds_charge object = {0}, image = {0}, variables = {0};
        int slab_fd = memfd_create("slab", 0), image_fd = memfd_create("image", 0);
        struct ds_ledger_beside beside = {.slab_fd = &slab_fd,
                .image_fd = &image_fd,
                .image_bytes = 1000,
                .module_charge = &object,
                .image_charge = &image,
                .variables_charge = &variables};

        cr_assert_eq(ds_charge_take(&object, user, DS_CHARGE_MODULES, 1), 0);
        cr_assert_eq(ds_charge_take(&image, user, DS_CHARGE_HOST_BYTES, 32000), 0);
        cr_assert_eq(ds_charge_take(&variables, user, DS_CHARGE_DEVICE_BYTES, 77), 0);
        slab.va = range.va = window.base;
        slab.bytes = DS_MIB(64);
        range.bytes = 512;
        module.module = 4097;
        module.writable_globals = 1;
        stream.stream = 3;
        stream.priority = -1;
        entry.slab_added = &slab;
        entry.alloc_added = &range;
        entry.module_added = &module;
        entry.stream_added = &stream;
        cr_assert_eq(ds_ledger_apply(ledger, &entry, &beside), 0);
}

/* Memory with a handle, mapped twice, and a slab that other sessions may import. */
static void fill_placed(ds_ledger *ledger, ds_shares *shares)
{
        Detshare__Internal__Physical physical = DETSHARE__INTERNAL__PHYSICAL__INIT;
        Detshare__Internal__Mapping mapping = DETSHARE__INTERNAL__MAPPING__INIT;
        Detshare__Internal__Ledger made = DETSHARE__INTERNAL__LEDGER__INIT, mapped = made;
        int fd = memfd_create("memory", 0);
        struct ds_ledger_beside beside = {.slab_fd = &fd};
        uint64_t offset, size;
        ds_share *share;

        physical.handle = 9;
        physical.bytes = DS_MIB(20);
        made.physical_added = &physical;
        cr_assert_eq(ds_ledger_apply(ledger, &made, &beside), 0);
        cr_assert_eq(ds_ledger_apply(ledger, &made, &beside), DS_LEDGER_E_PROTOCOL, "no file, and the handle is taken");
        mapping.handle = 9;
        mapping.va = DS_TIB(50);
        mapping.bytes = DS_MIB(20);
        mapped.mapping_added = &mapping;
        cr_assert_eq(ds_ledger_apply(ledger, &mapped, &beside), 0);
        cr_assert_eq(ds_ledger_apply(ledger, &mapped, &beside), DS_LEDGER_E_PROTOCOL, "something is there");
        mapping.va += DS_MIB(20);
        cr_assert_eq(ds_ledger_apply(ledger, &mapped, &beside), 0);
        mapping.va += DS_MIB(20);
        mapping.bytes += DS_MIB(2);
        cr_assert_eq(ds_ledger_apply(ledger, &mapped, &beside), DS_LEDGER_E_PROTOCOL, "more than there is");
        cr_assert_eq(ds_ledger_is_mapped(ledger, DS_TIB(50) + DS_MIB(39), DS_MIB(100)), 1);
        cr_assert_eq(ds_ledger_is_mapped(ledger, DS_TIB(50) + DS_MIB(40), DS_MIB(100)), 0);
        cr_assert_eq(ds_ledger_share(ledger, 0, 8, &share, &offset, &size), DS_LEDGER_E_UNKNOWN);
        cr_assert_eq(ds_ledger_share(ledger, window.base + 512, 0, &share, &offset, &size), DS_LEDGER_E_UNKNOWN);
        cr_assert_eq(ds_ledger_share(ledger, 0, 9, &share, &offset, &size), 0);
        cr_assert_eq(ds_share_publish(shares, share), 0);
        cr_assert_eq(ds_ledger_share(ledger, window.base, 0, &share, &offset, &size), 0);
        cr_assert(offset == 0 && size == 512 && ds_share_bytes(share) == DS_MIB(64));
        cr_assert_eq(ds_share_publish(shares, share), 0);
}

Test(saved, a_ledger_goes_through_its_replay)
{
        struct ds_charge_limits limits, none = {{0}, {0}, {0}};
        const uint64_t progress[] = {5, 0, 0, 9};
        struct replay first = {.size = 0}, second = {.size = 0};
        ds_users *users = NULL, *later = NULL;
        ds_user *user = NULL, *same = NULL;
        ds_ledger *a = NULL, *b = NULL;
        ds_shares *shares = NULL, *later_shares = NULL;

        memset(&limits, 0xff, sizeof(limits));
        cr_assert_eq(ds_users_new(&limits, &users), 0);
        cr_assert_eq(ds_users_new(&none, &later), 0, "what is may be no more");
        cr_assert_eq(ds_user_get(users, 7, &user), 0);
        cr_assert_eq(ds_user_get(later, 7, &same), 0);
        cr_assert_eq(ds_ledger_new(&window, user, &a), 0);
        cr_assert_eq(ds_ledger_new(&window, same, &b), 0);
        cr_assert_eq(ds_shares_new(&shares), 0);
        cr_assert_eq(ds_shares_new(&later_shares), 0);
        fill(a, user);
        fill_placed(a, shares);
        first.shares = later_shares;
        cr_assert_eq(ds_ledger_set_progress(a, progress, DS_ARRAY_SIZE(progress)), 0);
        first.to = b;
        cr_assert_eq(ds_ledger_replay(a, 1, on_replay, &first), 0);
        cr_assert_eq(ds_ledger_set_progress(b, ds_ledger_progress(a), DS_STREAMS_MAX), 0);
        cr_assert_eq(ds_ledger_replay(b, 1, on_replay, &second), 0);
        cr_assert_eq(first.size, second.size);
        cr_assert_eq(memcmp(first.bytes, second.bytes, first.size), 0);
        for (int slot = 0; slot < _DS_CHARGE_MAX; slot++)
                cr_assert_eq(ds_user_usage(user, slot), ds_user_usage(same, slot), "%s", ds_charge_name(slot));
        cr_assert_eq(ds_ledger_replay(a, 1, on_replay, &first), -1, "nothing can be there twice");
        ds_ledger_free(a);
        ds_ledger_free(b);
        ds_shares_free(shares);
        ds_shares_free(later_shares);
        ds_user_unref(user);
        ds_user_unref(same);
        ds_users_free(users);
        ds_users_free(later);
}
