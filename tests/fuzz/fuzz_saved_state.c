/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of an earlier daemon, with files of every kind
 *
 * The input is the state's records, each a length and a message. Sessions 1 to 3 have the files that a session can have
 * (a connection, a ring, memory, an image), plus one more socket and one file of a wrong kind. The input cannot guess
 * the process at the other end of a connection, so this target corrects a session's pid and uid. Whatever the state
 * says, every restored session is a possible one. After all have ended nothing is charged, no window is in use and no
 * file is open.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "supervisor/client.h"
#include "supervisor/handover.h"
#include "supervisor/notify.h"
#include "supervisor/saved.h"
#include "supervisor/session.h"
#include "supervisor/supervisor.h"
#include "supervisor/unpack.h"
#include "tests/fuzz/fuzz.h"
#include "util/alloc.h"
#include "util/macro.h"

#define SESSIONS 3
#define FILES 7
#define SLAB DS_MIB(64)
#define IMAGE 4096
#define SIZE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int memory_file(size_t size, int seals)
{
        int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        FUZZ_CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0);
        return fd;
}

/* Adds a record as it lies in the file: the input's bytes, except for a session's corrected fields. */
static void add_record(int fd, const uint8_t *bytes, uint32_t size)
{
        uint8_t *packed = NULL;
        ProtobufCMessage *message = NULL;

        if (ds_unpack(&detshare__internal__saved_record__descriptor, bytes, size, DS_UNPACK_BUDGET, &message) == 0) {
                Detshare__Internal__SavedRecord *record = (Detshare__Internal__SavedRecord *)message;

                if (record->body_case == DETSHARE__INTERNAL__SAVED_RECORD__BODY_SESSION) {
                        record->session->pid = (uint32_t)getpid();
                        record->session->uid = (uint32_t)getuid();
                        size = (uint32_t)protobuf_c_message_get_packed_size(message);
                        packed = malloc(size + 1);
                        FUZZ_CHECK(packed);
                        protobuf_c_message_pack(message, packed);
                        bytes = packed;
                }
        }
        FUZZ_CHECK(write(fd, &size, sizeof(size)) == sizeof(size) && write(fd, bytes, size) == (ssize_t)size);
        ds_unpack_free(message);
        free(packed);
}

static int state_file(const uint8_t *data, size_t size)
{
        int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        uint32_t length;

        FUZZ_CHECK(fd >= 0);
        while (size > sizeof(length)) {
                memcpy(&length, data, sizeof(length));
                if (length > size - sizeof(length))
                        break;
                add_record(fd, data + sizeof(length), length);
                data += sizeof(length) + length;
                size -= sizeof(length) + length;
        }
        FUZZ_CHECK(write(fd, data, size) == (ssize_t)size);
        FUZZ_CHECK(fcntl(fd, F_ADD_SEALS, SIZE_SEALS | F_SEAL_WRITE) == 0);
        return fd;
}

static void add_files(struct ds_given_file *files, int session, int peers[2])
{
        int pair[2], other[2];

        FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
        FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, other) == 0);
        files[0].fd = pair[0];
        files[1].fd = memory_file(DS_RING_BYTES, SIZE_SEALS);
        files[2].fd = memory_file(SLAB, SIZE_SEALS);
        files[3].fd = memory_file(IMAGE, SIZE_SEALS | F_SEAL_WRITE);
        files[4].fd = memory_file(4096, SIZE_SEALS); /* this file is pinned memory */
        files[5].fd = other[0];
        files[6].fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        peers[0] = pair[1];
        peers[1] = other[1];
        for (int i = 0; i < FILES; i++) {
                char name[32];

                snprintf(name, sizeof(name), "s%d.%d", session, i + 1);
                files[i].name = ds_strdup(name);
                FUZZ_CHECK(files[i].name && files[i].fd >= 0);
        }
}

/* Threads close the files that arrived with half a request and are no memory files. */
static void end_loop(struct ds_supervisor *supervisor)
{
        while (!TAILQ_EMPTY(&supervisor->foreign.batches) || ds_users_charges(supervisor->users))
                uv_run(&supervisor->loop, UV_RUN_ONCE);
        ds_foreign_deinit(&supervisor->foreign);
        ds_deadlines_deinit(&supervisor->deadlines);
        uv_run(&supervisor->loop, UV_RUN_DEFAULT);
        FUZZ_CHECK(uv_loop_close(&supervisor->loop) == 0);
}

static void check_sessions(const struct ds_supervisor *supervisor)
{
        const struct ds_session *session;
        uint64_t last = 0;

        TAILQ_FOREACH(session, &supervisor->sessions, link)
        {
                FUZZ_CHECK(session->client && session->ledger && session->window.bytes && session->id > last);
                FUZZ_CHECK(session->id <= supervisor->next_session && strlen(session->name) <= DS_SESSION_NAME_MAX);
                FUZZ_CHECK(!session->ring_kept || (session->ring.fd >= 0 && session->ring.header));
                last = session->id;
        }
}

static void take(struct ds_given_file *files, size_t n)
{
        static const struct ds_options options = {.device = "sim:h200"};
        static const struct ds_config config = {0};
        struct ds_supervisor supervisor = {.options = &options, .config = &config};

        ds_defaults_init(&supervisor.defaults, &config);
        TAILQ_INIT(&supervisor.clients);
        TAILQ_INIT(&supervisor.sessions);
        FUZZ_CHECK(uv_loop_init(&supervisor.loop) == 0);
        FUZZ_CHECK(ds_deadlines_init(&supervisor.deadlines, &supervisor.loop) == 0);
        ds_foreign_init(&supervisor.foreign, &supervisor.deadlines);
        FUZZ_CHECK(ds_users_new(&supervisor.defaults.limits, &supervisor.users) == 0);
        FUZZ_CHECK(ds_windows_new(DS_WINDOW_AREA_BASE, DS_WINDOW_AREA_BYTES, DS_WINDOW_MIN, &supervisor.windows) == 0);
        FUZZ_CHECK(ds_handover_take_files(&supervisor, files, n) == 0);
        for (size_t i = 0; i < n; i++)
                FUZZ_CHECK(files[i].fd < 0);
        check_sessions(&supervisor);
        ds_handover_drop(&supervisor);
        FUZZ_CHECK(TAILQ_EMPTY(&supervisor.sessions) && TAILQ_EMPTY(&supervisor.clients));
        end_loop(&supervisor);
        FUZZ_CHECK(ds_windows_count(supervisor.windows) == 0 && ds_users_charges(supervisor.users) == 0);
        ds_windows_free(supervisor.windows);
        ds_users_free(supervisor.users);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct ds_given_file files[SESSIONS * FILES + 1] = {{0}};
        int peers[SESSIONS][2];

        fuzz_quiet();
        for (int i = 0; i < SESSIONS; i++)
                add_files(&files[i * FILES], i + 1, peers[i]);
        files[SESSIONS * FILES].name = ds_strdup(DS_HANDOVER_STATE);
        files[SESSIONS * FILES].fd = state_file(data, size);
        take(files, DS_ARRAY_SIZE(files));
        for (size_t i = 0; i < DS_ARRAY_SIZE(files); i++)
                ds_free(files[i].name);
        for (int i = 0; i < SESSIONS; i++) {
                close(peers[i][0]);
                close(peers[i][1]);
        }
        fuzz_expect_files();
        return 0;
}
