/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new supervisor reads a state that contains files
 *
 * A graph and an image inside their records become a session's as if their files had been stored. A state of the
 * previous version is read too. A session is refused, and no other, if its embedded file is not allowed there, is too
 * large, has another length than its record says, or exists twice. tests/fuzz/fuzz_saved_state.c tries arbitrary
 * states.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "supervisor/client.h"
#include "supervisor/handover.h"
#include "supervisor/notify.h"
#include "supervisor/saved.h"
#include "supervisor/session.h"
#include "supervisor/supervisor.h"
#include "util/macro.h"

#define SESSIONS 2
#define BYTES 1000u

static uint8_t bytes[DS_SAVED_INSIDE_MAX + 1];

static struct ds_supervisor supervisor;
static ds_saved_writer *writer;
static struct ds_given_file files[SESSIONS + 1];
static int peers[SESSIONS];

static void write_record(Detshare__Internal__SavedRecord *record)
{
        cr_assert_eq(ds_saved_write(writer, record), 0);
}

static void write_header(uint32_t version)
{
        Detshare__Internal__SavedRecord record = DETSHARE__INTERNAL__SAVED_RECORD__INIT;
        Detshare__Internal__SavedHeader header = DETSHARE__INTERNAL__SAVED_HEADER__INIT;

        header.version = version;
        header.device = "sim:h200";
        header.last_session = SESSIONS;
        record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_HEADER;
        record.header = &header;
        write_record(&record);
}

static void write_session(uint64_t id)
{
        Detshare__Internal__SavedRecord record = DETSHARE__INTERNAL__SAVED_RECORD__INIT;
        Detshare__Internal__SavedSession session = DETSHARE__INTERNAL__SAVED_SESSION__INIT;
        Detshare__Internal__Range window = DETSHARE__INTERNAL__RANGE__INIT;

        window.bytes = DS_WINDOW_MIN;
        window.va = DS_WINDOW_AREA_BASE + id * DS_WINDOW_MIN;
        session.session = id;
        session.pid = (uint32_t)getpid();
        session.uid = (uint32_t)getuid();
        session.window = &window;
        session.sm_percent = 100;
        record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_SESSION;
        record.session = &session;
        record.file = 1;
        write_record(&record);
}

static void write_done(uint64_t id)
{
        Detshare__Internal__SavedRecord record = DETSHARE__INTERNAL__SAVED_RECORD__INIT;
        Detshare__Internal__SavedDone done = DETSHARE__INTERNAL__SAVED_DONE__INIT;

        done.session = id;
        record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_DONE;
        record.done = &done;
        write_record(&record);
}

/* A graph of `said` bytes, of which the record contains `inside`. file: the number of a stored file; 0: none. */
static void write_graph(uint64_t id, uint64_t said, size_t inside, uint32_t file)
{
        Detshare__Internal__SavedRecord record = DETSHARE__INTERNAL__SAVED_RECORD__INIT;
        Detshare__Internal__SavedContent content = DETSHARE__INTERNAL__SAVED_CONTENT__INIT;
        Detshare__Internal__RestoreGraph graph = DETSHARE__INTERNAL__RESTORE_GRAPH__INIT;

        content.bytes = (ProtobufCBinaryData){.len = inside, .data = bytes};
        graph.graph = id;
        graph.bytes = said;
        record.content = &content;
        record.file = file;
        record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_GRAPH;
        record.graph = &graph;
        write_record(&record);
}

static void write_module(uint64_t id, uint64_t said, size_t inside)
{
        Detshare__Internal__SavedRecord record = DETSHARE__INTERNAL__SAVED_RECORD__INIT;
        Detshare__Internal__SavedContent content = DETSHARE__INTERNAL__SAVED_CONTENT__INIT;
        Detshare__Internal__RestoreModule module = DETSHARE__INTERNAL__RESTORE_MODULE__INIT;

        content.bytes = (ProtobufCBinaryData){.len = inside, .data = bytes};
        module.module = id;
        module.bytes = said;
        record.content = &content;
        record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_MODULE;
        record.module = &module;
        write_record(&record);
}

/* Device memory must stay writable, so a copy cannot replace it. */
static void write_slab(void)
{
        Detshare__Internal__SavedRecord record = DETSHARE__INTERNAL__SAVED_RECORD__INIT;
        Detshare__Internal__SavedContent content = DETSHARE__INTERNAL__SAVED_CONTENT__INIT;
        Detshare__Internal__RestoreSlab restore = DETSHARE__INTERNAL__RESTORE_SLAB__INIT;
        Detshare__Internal__Slab slab = DETSHARE__INTERNAL__SLAB__INIT;

        content.bytes = (ProtobufCBinaryData){.len = 4096, .data = bytes};
        slab.va = DS_WINDOW_AREA_BASE + DS_WINDOW_MIN;
        slab.bytes = 4096;
        restore.slab = &slab;
        record.content = &content;
        record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_SLAB;
        record.slab = &restore;
        write_record(&record);
}

static void begin(void)
{
        static const struct ds_options options = {.device = "sim:h200"};
        static const struct ds_config config = {0};

        supervisor.options = &options;
        supervisor.config = &config;
        ds_defaults_init(&supervisor.defaults, &config);
        TAILQ_INIT(&supervisor.clients);
        TAILQ_INIT(&supervisor.sessions);
        cr_assert_eq(uv_loop_init(&supervisor.loop), 0);
        cr_assert_eq(ds_deadlines_init(&supervisor.deadlines, &supervisor.loop), 0);
        ds_foreign_init(&supervisor.foreign, &supervisor.deadlines);
        cr_assert_eq(ds_users_new(&supervisor.defaults.limits, &supervisor.users), 0);
        cr_assert_eq(ds_windows_new(DS_WINDOW_AREA_BASE, DS_WINDOW_AREA_BYTES, DS_WINDOW_MIN, &supervisor.windows), 0);
        for (int i = 0; i < SESSIONS; i++) {
                char name[32];
                int pair[2];

                cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
                snprintf(name, sizeof(name), "s%d.1", i + 1);
                files[i].name = strdup(name);
                files[i].fd = pair[0];
                peers[i] = pair[1];
        }
        for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i] = (uint8_t)(i * 5);
        cr_assert_eq(ds_saved_writer_new(&writer), 0);
}

static void take(void)
{
        files[SESSIONS].name = strdup(DS_HANDOVER_STATE);
        cr_assert_eq(ds_saved_finish(writer, &files[SESSIONS].fd), 0);
        writer = ds_saved_writer_free(writer);
        cr_assert_eq(ds_handover_take_files(&supervisor, files, DS_ARRAY_SIZE(files)), 0);
}

/* Asserts that nothing is left of the two sessions, which belonged to one client. */
static void end(void)
{
        ds_handover_drop(&supervisor);
        ds_foreign_deinit(&supervisor.foreign);
        ds_deadlines_deinit(&supervisor.deadlines);
        uv_run(&supervisor.loop, UV_RUN_DEFAULT);
        cr_assert_eq(uv_loop_close(&supervisor.loop), 0);
        cr_assert_eq(ds_users_charges(supervisor.users), 0);
        ds_windows_free(supervisor.windows);
        ds_users_free(supervisor.users);
        for (size_t i = 0; i < DS_ARRAY_SIZE(files); i++) {
                cr_assert_lt(files[i].fd, 0);
                free(files[i].name);
        }
        for (int i = 0; i < SESSIONS; i++)
                close(peers[i]);
}

static struct ds_ledger_sums sums(uint64_t id)
{
        struct ds_session *session = ds_session_find(&supervisor, id);
        struct ds_ledger_sums sums = {0};

        cr_assert(session, "session %d is not there", (int)id);
        ds_ledger_sums(session->ledger, &sums);
        return sums;
}

static int check_image(void *user, Detshare__Internal__ToWorker *message, int fd)
{
        static uint8_t back[BYTES];
        const int is_graph = message->body_case == DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_GRAPH;
        uint64_t size = 0;

        if (fd < 0)
                return 0;
        cr_assert(ds_saved_may_lie_inside(fd, is_graph ? 0 : F_SEAL_WRITE, &size), "it is sealed as it was");
        cr_assert(size == 0 || size == BYTES);
        cr_assert_eq(ds_saved_read_file(fd, back, size), 0);
        cr_assert_eq(memcmp(back, bytes, size), 0);
        ++*(int *)user;
        return 0;
}

Test(handover, files_inside_become_files, .init = begin, .fini = end)
{
        int seen = 0;

        write_header(DS_SAVED_VERSION);
        write_session(1);
        write_graph(5, BYTES, BYTES, 0);
        write_graph(6, 0, 0, 0);
        write_module(4097, BYTES, BYTES);
        write_done(1);
        take();
        cr_assert(sums(1).graphs == 2 && sums(1).modules == 1);
        cr_assert_eq(ds_ledger_replay(ds_session_find(&supervisor, 1)->ledger, 1, check_image, &seen), 0);
        cr_assert_eq(seen, 3);
}

Test(handover, the_version_before_is_understood, .init = begin, .fini = end)
{
        write_header(DS_SAVED_VERSION_OLDEST);
        write_session(1);
        write_done(1);
        take();
        (void)sums(1);
}

Test(handover, no_other_version_is, .init = begin, .fini = end)
{
        write_header(DS_SAVED_VERSION + 1);
        write_session(1);
        write_done(1);
        take();
        cr_assert_null(ds_session_find(&supervisor, 1));
}

static void graph_is_cut(void)
{
        write_graph(5, BYTES, BYTES - 1, 0);
}

static void graph_is_longer(void)
{
        write_graph(5, BYTES, BYTES + 1, 0);
}

static void graph_is_too_large(void)
{
        write_graph(5, sizeof(bytes), sizeof(bytes), 0);
}

static void graph_is_stored_as_well(void)
{
        write_graph(5, BYTES, BYTES, 2);
}

static void module_is_cut(void)
{
        write_module(4097, BYTES, BYTES - 1);
}

static void module_is_too_large(void)
{
        write_module(4097, sizeof(bytes), sizeof(bytes));
}

static void (*const hostile[])(void) = {graph_is_cut, graph_is_longer, graph_is_too_large, graph_is_stored_as_well,
        module_is_cut, module_is_too_large, write_slab};

Test(handover, a_file_that_cannot_lie_there_is_refused)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(hostile); i++) {
                begin();
                write_header(DS_SAVED_VERSION);
                write_session(1);
                hostile[i]();
                write_done(1);
                write_session(2);
                write_graph(5, BYTES, BYTES, 0);
                write_done(2);
                take();
                cr_assert_null(ds_session_find(&supervisor, 1), "case %zu goes on", i);
                cr_assert_eq(sums(2).graphs, 1, "case %zu", i);
                end();
                memset(&supervisor, 0, sizeof(supervisor));
        }
}
