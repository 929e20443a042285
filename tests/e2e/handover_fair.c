/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A planned restart in which one user needs more than the restart can hand over
 *
 * A restart is bounded by the files that the service manager stores, and by time. User A connects first and holds much
 * in several sessions; user B has one session and connects last. B continues whatever A does:
 *
 *   graphs  A makes so many graphs that their files alone would fill the manager's store. A also continues, since small
 *           files travel inside the state.
 *   files   A has memory whose files must be stored one by one, and more of them than the store takes. A's smallest
 *           sessions continue as far as there is room; the log names the others and the reason.
 *   time    The manager is slow for A's files alone. If there is time for one or two more files, A's session is stored
 *           in two pieces, before and after B's. If A's files take longer than all sessions may, only A is closed.
 *   foreign A has sent half a request, with a file of a kind that the daemon refuses from every client: using it could
 *           make the daemon wait for the file's owner. The daemon closes A without touching the file.
 *
 * The service manager is tests/support/manager. handover.c tests restarts in which all sessions continue. Two users
 * need root.
 *
 * usage: handover_fair BUILD [graphs|files|foreign|time]
 */
#include "tests/e2e/harness.h"
#include "tests/e2e/manager.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "core/core.h"
#include "proto/wire.h"

#define DEVICE "sim:h200"
#define USER_A 54331
#define USER_B 54332
#define WORDS 1024u
#define GRAPHS 15000u /* number of user A's graphs, if the machine's limit of open files allows them */
#define SESSIONS_MAX 8

static const char *build;
static char log_path[128];

/* --- clients ------------------------------------------------------------------------------------------------------ */

/* The objects that a client creates; memory is device memory with a handle, one file each. */
struct has {
        const char *what;
        uid_t uid;
        uint32_t graphs, memory;
};

struct client {
        struct has has;
        struct h_child child;
        char name[16]; /* prefix of the names of its stored files */
};

static struct has wanted;

static int fail(int step, dsc_session *s, int r)
{
        fprintf(stderr, "%s, step %d: %d %s\n", wanted.what, step, r, s ? dsc_message() : "");
        return step;
}

static int make_holdings(dsc_session *s, uint64_t *ret_address, uint64_t *ret_graph)
{
        const struct ds_graph_file empty = {.version = DS_WIRE_VERSION, .bytes = sizeof(empty)};
        static uint32_t words[WORDS];
        uint64_t handle;
        int r = dsc_mem_alloc(s, sizeof(words), ret_address);

        for (uint32_t i = 0; i < WORDS; i++)
                words[i] = i * 2654435761u;
        if (!r)
                r = dsc_write(s, 0, *ret_address, 0, words, 0, sizeof(words), 1);
        for (uint32_t i = 0; !r && i < wanted.graphs; i++)
                r = dsc_graph_create(s, &empty, sizeof(empty), ret_graph);
        for (uint32_t i = 0; !r && i < wanted.memory; i++)
                r = dsc_mem_create(s, 2u << 20, &handle);
        return r ? r : dsc_wait_all(s);
}

/* Checks that a session's memory is unchanged and its last graph exists. */
static int check_holdings(dsc_session *s, uint64_t address, uint64_t graph)
{
        uint32_t back[WORDS];
        int r = dsc_read(s, 0, back, 0, address, 0, sizeof(back), 1);

        for (uint32_t i = 0; !r && i < WORDS; i++)
                r = back[i] == i * 2654435761u ? 0 : -1;
        if (!r && wanted.graphs)
                r = dsc_graph_launch(s, 0, graph, NULL);
        return r ? r : dsc_wait_all(s);
}

static int run(int in, int out)
{
        uint64_t address = 0, graph = 0;
        dsc_session *s;
        int r = 0;
        char c;

        alarm(120);
        if (setgid(wanted.uid) || setuid(wanted.uid) || !(s = dsc_get(&r)))
                return fail(10, NULL, r);
        if ((r = make_holdings(s, &address, &graph)) || write(out, "r", 1) != 1)
                return fail(11, s, r);
        while (read(in, &c, 1) == 1 && c == 'c')
                if ((r = check_holdings(s, address, graph)) || write(out, "k", 1) != 1)
                        return fail(12, s, r);
        return 0;
}

static int says(const struct client *client, char want)
{
        struct pollfd p = {.fd = client->child.from, .events = POLLIN};
        char got = 0;

        return poll(&p, 1, MANAGER_WAIT_MS) == 1 && read(client->child.from, &got, 1) == 1 && got == want;
}

/* Starts a client with these objects; sessions have numbers in the order of their connections. */
static struct client start(const struct has *has, unsigned number)
{
        struct client client = {.has = *has};

        wanted = *has;
        client.child = h_spawn(run, "ring");
        snprintf(client.name, sizeof(client.name), "s%x.", number);
        h_check(says(&client, 'r'), "%s got ready", has->what);
        return client;
}

/* Whether the client continues after the restart. */
static int goes_on(const struct client *client)
{
        return write(client->child.to, "c", 1) == 1 && says(client, 'k');
}

static void end(struct client *clients, size_t n)
{
        /* Later children have copies of earlier children's pipes, so all pipes are closed first. */
        for (size_t i = 0; i < n; i++)
                close(clients[i].child.to);
        for (size_t i = 0; i < n; i++) {
                waitpid(clients[i].child.pid, NULL, 0);
                close(clients[i].child.from);
        }
}

/* --- the manager -------------------------------------------------------------------------------------------------- */

static void begin(const char *store_max)
{
        char program[300], daemon[300];
        char *argv[] = {program, "-a", "-l", (char *)(uintptr_t)h_socket(), "-f", (char *)(uintptr_t)store_max, "--",
                daemon, "--device", (char *)(uintptr_t)h_device(DEVICE), NULL};
        int log = open(log_path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);

        snprintf(program, sizeof(program), "%s/tests/manager", build);
        snprintf(daemon, sizeof(daemon), "%s/detshared", build);
        manager_run(argv, log);
        close(log);
        h_check(manager_says("READY=1") != NULL, "the daemon is ready");
        h_check(chmod(h_socket(), 0666) == 0, "other users may connect");
}

/* Restarts the daemon. Returns how often a stored file belonged to another session than the file before it. */
static unsigned restart(const char *what)
{
        uint64_t began = h_now_ms();
        char before[32] = "";
        unsigned changes = 0;
        const char *line;

        manager_do("restart");
        while ((line = manager_says("")) && strcmp(line, "READY=1") != 0) {
                size_t n = strcspn(line, ".");

                if (strncmp(line, "stored s", strlen("stored s")) != 0 || n >= sizeof(before))
                        continue;
                changes += *before && (strncmp(line, before, n) != 0 || before[n]);
                snprintf(before, sizeof(before), "%.*s", (int)n, line);
        }
        h_check(line != NULL, "%s: the daemon serves again", what);
        printf("%s: the restart took %llu ms\n", what, (unsigned long long)(h_now_ms() - began));
        return changes;
}

/* Number of lines of the daemon's log that contain text. */
static size_t log_lines(const char *text)
{
        size_t size, n = 0;
        char *log = h_read_file(log_path, &size);

        for (const char *at = log; (at = strstr(at, text)); at++)
                n++;
        free(log);
        return n;
}

static void finish(const char *what, struct client *clients, size_t n)
{
        size_t size;
        char *log;

        end(clients, n);
        manager_do("store");
        h_check(!strcmp(manager_says("store ") ?: "", "store 0"), "%s: the store is not empty", what);
        manager_quit();
        unlink(h_socket());
        log = h_read_file(log_path, &size);
        if (h_failures())
                printf("%s: the daemon's log:\n%.20000s\n", what, log);
        free(log);
}

/* --- graphs ------------------------------------------------------------------------------------------------------- */

/* Limit of a user's graphs: a twelfth of the daemon's limit of open files (supervisor/defaults.c). */
static uint32_t graphs_of_a_user(void)
{
        struct rlimit files;
        uint64_t may;

        if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_max > (1u << 30))
                return GRAPHS;
        may = (files.rlim_max - 200) / 12;
        return may < GRAPHS + 1000 ? (uint32_t)may * 9 / 10 : GRAPHS;
}

static void graphs(void)
{
        const uint32_t each = graphs_of_a_user() / 4;
        const struct has a = {.what = "A with graphs", .uid = USER_A, .graphs = each};
        const struct has b = {.what = "B beside graphs", .uid = USER_B, .graphs = 3};
        struct client clients[5];

        begin("100");
        for (unsigned i = 0; i < 4; i++)
                clients[i] = start(&a, i + 1);
        clients[4] = start(&b, 5);
        printf("graphs: user A has %u in 4 sessions, and the manager keeps 100 files\n", each * 4);
        restart("graphs");
        h_check(goes_on(&clients[4]), "graphs: B does not continue");
        for (unsigned i = 0; i < 4; i++)
                h_check(goes_on(&clients[i]), "graphs: session %u of A does not continue", i + 1);
        /* A second restart hands over graphs that were restored from bytes of the state. */
        restart("graphs again");
        for (unsigned i = 0; i < 5; i++)
                h_check(goes_on(&clients[i]), "graphs: session %u does not continue after another restart", i + 1);
        finish("graphs", clients, 5);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static void files(void)
{
        static const struct has has[] = {
                {.what = "A, large", .uid = USER_A, .memory = 60},
                {.what = "A, middling", .uid = USER_A, .memory = 30},
                {.what = "A, largest", .uid = USER_A, .memory = 62},
                {.what = "A, small", .uid = USER_A, .memory = 2},
                {.what = "B beside files", .uid = USER_B, .memory = 20},
        };
        struct client clients[SESSIONS_MAX];
        int on[SESSIONS_MAX];

        begin("120");
        for (unsigned i = 0; i < 5; i++)
                clients[i] = start(&has[i], i + 1);
        restart("files");
        for (unsigned i = 0; i < 5; i++)
                on[i] = goes_on(&clients[i]);
        h_check(on[4], "files: B does not continue");
        h_check(on[3] && on[1], "files: A's smaller sessions do not continue (%d, %d)", on[3], on[1]);
        h_check(!on[0] && !on[2], "files: more sessions continue than the store has room for");
        h_check(log_lines("cannot be handed over: ") == 2, "files: the log does not name two sessions");
        h_check(log_lines("files; of the 119 files") == 2, "files: the log does not say what is accepted");
        finish("files", clients, 5);
}

/* --- foreign ------------------------------------------------------------------------------------------------------ */

/* Sends the first bytes of a frame, with a file. */
static int send_half(int fd, int file)
{
        union {
                struct cmsghdr head;
                char bytes[CMSG_SPACE(sizeof(int))];
        } control = {.head = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))}};
        uint8_t half[] = {100, 0, 0, 0, 8, 5};
        struct iovec iov = {.iov_base = half, .iov_len = sizeof(half)};
        struct msghdr message = {.msg_iov = &iov,
                .msg_iovlen = 1,
                .msg_control = control.bytes,
                .msg_controllen = sizeof(control.bytes)};

        memcpy(CMSG_DATA(&control.head), &file, sizeof(file));
        return sendmsg(fd, &message, MSG_NOSIGNAL) == sizeof(half) ? 0 : -1;
}

static void foreign(void)
{
        const struct has b = {.what = "B beside a foreign file", .uid = USER_B};
        const int file = open("/dev/null", O_RDWR | O_CLOEXEC);
        struct client client;
        int fd;

        begin("100");
        fd = h_hello(0, NULL, NULL);
        h_check(fd >= 0 && send_half(fd, file) == 0, "foreign: half a request is sent");
        client = start(&b, 2);
        restart("foreign");
        h_check(goes_on(&client), "foreign: B does not continue");
        h_check(h_closed(fd, MANAGER_WAIT_MS), "foreign: A continues");
        h_check(log_lines("is neither a memory file nor a file on disk") == 1, "foreign: the log does not say why");
        close(fd);
        close(file);
        finish("foreign", &client, 1);
}

/* --- time --------------------------------------------------------------------------------------------------------- */

/* A's session has `memory` files with handles; the manager takes 100 ms for each. Returns 1 if A continues as well. */
static int beside_a_slow(uint32_t memory, unsigned *ret_changes)
{
        const struct has a = {.what = "A, for which the manager is slow", .uid = USER_A, .memory = memory};
        const struct has b = {.what = "B beside a slow one", .uid = USER_B, .memory = 70};
        struct client clients[2];
        char word[64];
        int on;

        begin("400");
        clients[0] = start(&a, 1);
        clients[1] = start(&b, 2);
        snprintf(word, sizeof(word), "slow 100 %s", clients[0].name);
        manager_do(word);
        *ret_changes = restart("time");
        h_check(goes_on(&clients[1]), "time: B does not continue beside %u slow files of A", memory);
        on = goes_on(&clients[0]);
        printf("time: A with %u slow files %s\n", memory, on ? "goes on" : "is closed");
        return finish("time", clients, 2), on;
}

static void slow_manager(void)
{
        unsigned changes;

        h_check(beside_a_slow(14, &changes), "time: A does not continue, although there was time for it");
        h_check(changes == 2, "time: A's files are stored in %u pieces around B's, not two", changes);
        h_check(!beside_a_slow(60, &changes), "time: A continues, although there was no time for it");
        h_check(log_lines("s for all sessions") == 1, "time: the log does not say why A is closed");
}

int main(int argc, char **argv)
{
        const char *only = argc > 2 ? argv[2] : "";
        char place[128];

        if (argc < 2)
                return 2;
        build = argv[1];
        if (!h_is_root("two users beside each other") || !h_needs_sim(DEVICE, "two users beside each other"))
                return h_finish();
        h_place();
        h_open_socket_directory();
        snprintf(log_path, sizeof(log_path), "%s.log", h_socket());
        if (!*only || !strcmp(only, "graphs"))
                graphs();
        if (!*only || !strcmp(only, "files"))
                files();
        if (!*only || !strcmp(only, "foreign"))
                foreign();
        if (!*only || !strcmp(only, "time"))
                slow_manager();
        unlink(log_path);
        *strrchr(strcpy(place, h_socket()), '/') = 0;
        rmdir(place);
        return h_finish();
}
