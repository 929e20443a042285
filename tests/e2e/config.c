/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of a running daemon:
 * - users hit their limits, and the message names file and line of the limit
 * - a thousand reloads of good and broken files, under programs that launch all the time, lose no launch
 * - a reload changes existing sessions as documented
 * - objects of another session look like objects that do not exist
 *
 * usage: config BUILD [RELOADS]
 */
#include "tests/e2e/harness.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"

#define NOBODY 65534
#define LOADS 2
#define WORDS 256u
#define WAIT_MS 20000

static const char *build;
static char dir[] = "/tmp/detshare-config-XXXXXX";
static int notify_fd = -1;

/* --- the service manager's side of notifications ------------------------------------------------------------------ */

static void listen_for_notes(void)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", dir);
        notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        h_check(notify_fd >= 0 && bind(notify_fd, (struct sockaddr *)&address, sizeof(address)) == 0,
                "a notify socket");
        setenv("NOTIFY_SOCKET", address.sun_path, 1);
}

/* Waits for a notification from the daemon that contains `word`; `status` gets the last STATUS= line before it. */
static int await_note(const char *word, char *status, size_t size)
{
        const uint64_t end = h_now_ms() + WAIT_MS;
        struct pollfd p = {.fd = notify_fd, .events = POLLIN};
        char note[2048];
        const char *line;
        ssize_t n;

        while (h_now_ms() < end) {
                if (poll(&p, 1, 100) <= 0)
                        continue;
                n = recv(notify_fd, note, sizeof(note) - 1, 0);
                if (n <= 0)
                        continue;
                note[n] = 0;
                line = strstr(note, "STATUS=");
                if (line && status)
                        snprintf(status, size, "%.*s", (int)strcspn(line, "\n"), line);
                if (strstr(note, word))
                        return 1;
        }
        return 0;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static void put(const char *name, const char *fmt, ...) __attribute__((__format__(__printf__, 2, 3)));

/* Writes a configuration file atomically, since a reload may read it at any time. */
static void put(const char *name, const char *fmt, ...)
{
        char path[128], new[140];
        va_list args;
        FILE *f;

        snprintf(path, sizeof(path), "%s/%s", dir, name);
        snprintf(new, sizeof(new), "%s.new", path);
        f = fopen(new, "w");
        if (!f)
                exit(1);
        va_start(args, fmt);
        vfprintf(f, fmt, args);
        va_end(args);
        fclose(f);
        rename(new, path);
}

/* Sends SIGHUP and waits until the daemon has reloaded. */
static int reload(char *status, size_t size)
{
        kill(h_daemon_pid(), SIGHUP);
        return await_note("RELOADING=1", NULL, 0) && await_note("READY=1", status, size);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

/* Sends a request. Returns its status and message. */
static int ask(int fd, Detshare__Request *request, char *message, size_t size)
{
        static uint64_t id = 1000;
        Detshare__Reply *reply;
        int status;

        request->id = ++id;
        reply = h_call(fd, request, NULL);
        status = reply ? (int)reply->status : -1;
        snprintf(message, size, "%s", reply && reply->message ? reply->message : "");
        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        return status;
}

#define REQUEST(name, NAME, type, TYPE)                       \
        Detshare__Request name##_r = DETSHARE__REQUEST__INIT; \
        Detshare__##type name = DETSHARE__##TYPE##__INIT;     \
        name##_r.call_case = DETSHARE__REQUEST__CALL_##NAME;  \
        name##_r.name = &name

static int set_class(int fd, Detshare__Class class_, char *message, size_t size)
{
        REQUEST(set_session, SET_SESSION, SetSession, SET_SESSION);

        set_session.set_class = 1;
        set_session.class_ = class_;
        return ask(fd, &set_session_r, message, size);
}

static int alloc(int fd, uint64_t bytes, char *message, size_t size)
{
        REQUEST(mem_alloc, MEM_ALLOC, MemAlloc, MEM_ALLOC);

        mem_alloc.bytes = bytes;
        return ask(fd, &mem_alloc_r, message, size);
}

static int set_policy(int fd, const char *name, char *message, size_t size)
{
        REQUEST(set_policy, SET_POLICY, SetPolicy, SET_POLICY);

        set_policy.name = (char *)name;
        return ask(fd, &set_policy_r, message, size);
}

/* The session's class as detsharectl shows it: 'b' or 'l'. */
static char class_of(uint64_t session)
{
        int fd = h_hello(1, NULL, NULL);
        Detshare__Reply *reply;
        char class_ = '?';
        REQUEST(list_clients, LIST_CLIENTS, ListClients, LIST_CLIENTS);

        list_clients.after = session - 1;
        list_clients_r.id = 1;
        reply = h_call(fd, &list_clients_r, NULL);
        if (reply && reply->list_clients && reply->list_clients->n_clients &&
                reply->list_clients->clients[0]->session == session)
                class_ = reply->list_clients->clients[0]->class_ == DETSHARE__CLASS__LS ? 'l' : 'b';
        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        close(fd);
        return class_;
}

/* --- load --------------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t stop_load;

static void on_usr1(int sig)
{
        stop_load = sig;
}

/* Runs a client that launches, waits and compares. The exit status is 0 if all results were right. */
static int load_main(int ready_fd, uint64_t *launches)
{
        struct dsc_kernel kernel = {.id = 0};
        unsigned words[WORDS];
        char path[300], *ptx;
        uint64_t module, memory;
        dsc_session *s;
        size_t size;
        int error;

        signal(SIGUSR1, on_usr1);
        snprintf(path, sizeof(path), "%s/e2e/death.ptx", build);
        ptx = h_read_file(path, &size);
        s = dsc_get(&error);
        if (!s || dsc_module_load(s, ptx, size + 1, NULL, 0, &module) || dsc_kernel_get(s, module, "fill", &kernel) ||
                dsc_mem_alloc(s, sizeof(words), &memory) || write(ready_fd, "", 1) != 1)
                return 1;
        for (unsigned i = 1; !stop_load; i++) {
                struct {
                        uint64_t p;
                        uint32_t n, value;
                } params = {memory, WORDS, i};
                struct dsc_launch launch = {.kernel = kernel.id,
                        .grid = {1, 1, 1},
                        .block = {WORDS, 1, 1},
                        .params = &params,
                        .params_size = sizeof(params)};

                if (dsc_launch(s, 0, &launch))
                        return 2;
                ++*launches;
                if (i % 4)
                        continue;
                if (dsc_read(s, 0, words, sizeof(words), memory, sizeof(words), sizeof(words), 1))
                        return 3;
                if (words[0] != i || words[WORDS - 1] != i)
                        return 4;
        }
        free(ptx);
        return dsc_wait_all(s) ? 5 : 0;
}

static pid_t load_start(uint64_t *launches)
{
        int fds[2];
        char byte;
        pid_t pid;

        if (pipe(fds) < 0)
                exit(1);
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                close(fds[0]);
                _exit(load_main(fds[1], launches));
        }
        close(fds[1]);
        h_check(read(fds[0], &byte, 1) == 1, "a program launches kernels");
        close(fds[0]);
        return pid;
}

/* --- reloads ------------------------------------------------------------------------------------------------------ */

static const char *const variants[] = {
        "[limits]\nmemory_per_uid=1000\nkernel_seconds=100\n[user 65534]\nclasses=ls,be\n",
        "[daemon]\npolicy=static\n[user 65534]\nsm_percent=40\nclasses=be\n[policy static]\nls_percent=50\n",
        "[daemon]\npolicy=static\n[limits]\nconnections=none\n",
        "[daemon]\npolicy=multistream\n[limits]\ncalls_per_second=1000000\nspin_us=3\n",
        "[daemon]\npolicy=multistream\nspin_us=3\n[group 65534]\nsessions=7\n",
};

static void check_reloads(int n)
{
        uint64_t *launches = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), sum = 0;
        struct h_status before, after;
        pid_t loads[LOADS];
        char status[1024] = ""; /* status of the last reload; empty if the daemon does not repeat an unchanged status */
        int good = 0, status_of, fd;

        h_status(&before);
        for (int i = 0; i < LOADS; i++)
                loads[i] = load_start(&launches[8 * i]);
        for (int i = 0; i < n; i++) {
                int broken = i % 5 == 2 || i % 5 == 3;

                put("x.conf", "%s", variants[i % 5]);
                if (!reload(status, sizeof(status)))
                        break;
                good += broken ? strstr(status, "reload refused") && strstr(status, "x.conf:")
                               : strstr(status, "the configuration was read") != NULL;
        }
        h_check(good == n, "%d of %d reloads had the expected result: %s", good, n, status);
        for (int i = 0; i < LOADS; i++) {
                kill(loads[i], SIGUSR1);
                h_check(waitpid(loads[i], &status_of, 0) == loads[i] && status_of == 0,
                        "a program under %d reloads: %d", n, status_of);
                sum += launches[8 * i];
        }
        h_status(&after);
        h_check(after.launches - before.launches == sum && sum > 0, "%llu launches of %llu",
                (unsigned long long)(after.launches - before.launches), (unsigned long long)sum);
        h_check(after.worker_restarts == before.worker_restarts, "one worker");
        printf("%d reloads beside %llu launches\n", n, (unsigned long long)sum);
        fd = h_hello(1, NULL, NULL);
        h_check(fd >= 0, "served");
        close(fd);
        munmap(launches, 4096);
}

/* A client of another user that observes the changes for existing sessions; the test says when to look. */
static int someone(int go_fd, int done_fd)
{
        gid_t none = NOBODY;
        char m[512], byte;
        uint64_t session;
        int fd;

        if (setgroups(1, &none) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0)
                return 1;
        fd = h_hello(0, &session, NULL);
        if (fd < 0 || set_class(fd, DETSHARE__CLASS__LS, m, sizeof(m)))
                return 2;
        if (alloc(fd, 1 << 20, m, sizeof(m)) || alloc(fd, 3 << 20, m, sizeof(m)) != DETSHARE__STATUS__QUOTA ||
                !strstr(m, "([user 65534] memory)"))
                return 3;
        if (h_hello(0, NULL, NULL) >= 0 || write(done_fd, &session, sizeof(session)) < 0 || read(go_fd, &byte, 1) != 1)
                return 4;
        /* The new configuration file allows less memory than the session has, and another class. */
        if (alloc(fd, 1, m, sizeof(m)) != DETSHARE__STATUS__QUOTA || !strstr(m, "limit of 1048576 would be exceeded"))
                return 5;
        if (set_class(fd, DETSHARE__CLASS__LS, m, sizeof(m)) != DETSHARE__STATUS__DENIED ||
                strcmp(m, "uid 65534 may not have class ls ([user 65534] classes)"))
                return 6;
        if (write(done_fd, &session, sizeof(session)) < 0 || read(go_fd, &byte, 1) != 1)
                return 7;
        return alloc(fd, 3 << 20, m, sizeof(m)) ? 8 : 0;
}

/* The harness's directory is private; other users need access here. */
static void open_directory(void)
{
        char path[128];

        snprintf(path, sizeof(path), "%s", h_socket());
        *strrchr(path, '/') = 0;
        h_check(chmod(path, 0755) == 0, "the directory is open to other users");
}

static void check_who_is_there(void)
{
        char status[1024] = "", m[512] = "";
        int go[2], done[2], code = -1, fd;
        uint64_t session = 0;
        pid_t pid;

        open_directory();
        put("x.conf", "[user 65534]\nclasses=ls,be\nmemory=2\nsessions=1\nsm_percent=40\n");
        h_check(reload(status, sizeof(status)), "a reload");
        if (pipe(go) < 0 || pipe(done) < 0)
                exit(1);
        fflush(stdout);
        pid = fork();
        if (pid == 0)
                _exit(someone(go[0], done[1]));
        close(done[1]);
        h_check(read(done[0], &session, sizeof(session)) == sizeof(session), "a client of another user connects");
        h_check(class_of(session) == 'l', "the client's class is ls");
        put("x.conf", "[user 65534]\nclasses=be\nmemory=1\n");
        put("conf.d/50.conf", "[user 65534]\nsm_percent=20\n");
        h_check(reload(status, sizeof(status)), "another");
        h_check(class_of(session) == 'b', "the client's class is no longer ls");
        h_check(write(go[1], "", 1) == 1 && read(done[0], &session, sizeof(session)) == sizeof(session), "it looks");
        put("conf.d/50.conf", "[user 65534]\nmemory = none\n");
        h_check(reload(status, sizeof(status)), "a third");
        h_check(write(go[1], "", 1) == 1 && waitpid(pid, &code, 0) == pid && code == 0, "somebody: %d", code);
        close(done[0]);
        close(go[0]);
        close(go[1]);
        put("conf.d/50.conf", "%s", "");
        /* A policy refuses parameters of the file: the message has the policy's words, the file and the line. */
        put("x.conf", "[daemon]\npolicy=static\ndevice=sim:a2000\n[policy static]\n; none like it\nfrobs=1\n");
        h_check(reload(status, sizeof(status)) && strstr(status, "need a restart: device"), "%s", status);
        h_check(strstr(status, "policy static refused") || await_note("policy static refused", status, sizeof(status)),
                "the status has the refused parameter");
        h_check(strstr(status, "x.conf:6: [policy static]: policy static has no parameter \"frobs=1\"") != NULL, "%s",
                status);
        fd = h_hello(1, NULL, NULL);
        h_check(set_policy(fd, "static", m, sizeof(m)) > 0 && strstr(m, "x.conf:6: "),
                "set-policy's message has the refused parameter: %s", m);
        close(fd);
}

/* --- objects of other sessions ------------------------------------------------------------------------------------ */

/* Removes the numbers from `words`, so that messages about different objects can be compared. */
static void strip(char *words)
{
        char *to = words;

        for (const char *from = words; *from; from++)
                if (!strchr("0123456789abcdefx", *from) ||
                        (from > words && from[-1] == ' ' && strchr("abcdefx", *from)))
                        *to++ = *from;
        *to = 0;
}

enum { OF_MEMORY, OF_PINNED, OF_MODULE, OF_KERNEL, OF_EVENT, OF_STREAM, _OF_MAX };

/* Sends a request about a handle of this kind. Returns its status and message. */
static int about(int fd, int what, uint64_t handle, char *message, size_t size)
{
        REQUEST(mem_free, MEM_FREE, MemFree, MEM_FREE);
        REQUEST(pinned_free, PINNED_FREE, PinnedFree, PINNED_FREE);
        REQUEST(module_unload, MODULE_UNLOAD, ModuleUnload, MODULE_UNLOAD);
        REQUEST(launch, LAUNCH, Launch, LAUNCH);
        REQUEST(event_destroy, EVENT_DESTROY, EventDestroy, EVENT_DESTROY);
        REQUEST(stream_destroy, STREAM_DESTROY, StreamDestroy, STREAM_DESTROY);
        Detshare__Request *requests[_OF_MAX] = {
                &mem_free_r, &pinned_free_r, &module_unload_r, &launch_r, &event_destroy_r, &stream_destroy_r};

        mem_free.address = pinned_free.address = module_unload.module = handle;
        launch.kernel = event_destroy.event = handle;
        stream_destroy.stream = (uint32_t)handle;
        launch.grid_x = launch.grid_y = launch.grid_z = launch.block_x = launch.block_y = launch.block_z = 1;
        return ask(fd, requests[what], message, size);
}

static Detshare__Reply *next_reply(int fd)
{
        size_t size;
        uint8_t *payload = h_receive(fd, WAIT_MS, &size, NULL);
        Detshare__Reply *reply = payload ? detshare__reply__unpack(NULL, size, payload) : NULL;

        free(payload);
        return reply;
}

/* Creates one object of each kind in the session and stores the handles. */
static int own_one_of_each(int fd, uint64_t handles[_OF_MAX])
{
        Detshare__Reply *reply[_OF_MAX];
        int image = memfd_create("image", MFD_CLOEXEC), ok = 1;
        char path[300], *ptx;
        uint8_t bytes[64];
        size_t size;
        REQUEST(mem_alloc, MEM_ALLOC, MemAlloc, MEM_ALLOC);
        REQUEST(pinned_alloc, PINNED_ALLOC, PinnedAlloc, PINNED_ALLOC);
        REQUEST(module_load, MODULE_LOAD, ModuleLoad, MODULE_LOAD);
        REQUEST(get_kernel, GET_KERNEL, GetKernel, GET_KERNEL);
        REQUEST(event_create, EVENT_CREATE, EventCreate, EVENT_CREATE);
        REQUEST(stream_create, STREAM_CREATE, StreamCreate, STREAM_CREATE);

        snprintf(path, sizeof(path), "%s/e2e/death.ptx", build);
        ptx = h_read_file(path, &size);
        ok = write(image, ptx, size + 1) == (ssize_t)size + 1;
        free(ptx);
        mem_alloc.bytes = pinned_alloc.bytes = 4096;
        module_load.bytes = size + 1;
        module_load_r.fds = 1;
        reply[OF_MEMORY] = h_call(fd, &mem_alloc_r, NULL);
        reply[OF_PINNED] = h_call(fd, &pinned_alloc_r, NULL);
        reply[OF_MODULE] = h_send(fd, bytes, detshare__request__pack(&module_load_r, bytes), &image, 1) == 0
                                   ? next_reply(fd)
                                   : NULL;
        if (!reply[OF_MEMORY] || !reply[OF_PINNED] || !reply[OF_MODULE] || !reply[OF_MODULE]->module_load)
                return 0;
        get_kernel.module = reply[OF_MODULE]->module_load->module;
        get_kernel.name = (char *)"fill";
        reply[OF_KERNEL] = h_call(fd, &get_kernel_r, NULL);
        reply[OF_EVENT] = h_call(fd, &event_create_r, NULL);
        reply[OF_STREAM] = h_call(fd, &stream_create_r, NULL);
        for (int i = 0; i < _OF_MAX; i++)
                ok = ok && reply[i] && reply[i]->status == 0;
        if (!ok)
                return 0;
        handles[OF_MEMORY] = reply[OF_MEMORY]->mem_alloc->address;
        handles[OF_PINNED] = reply[OF_PINNED]->pinned_alloc->address;
        handles[OF_MODULE] = get_kernel.module;
        handles[OF_KERNEL] = reply[OF_KERNEL]->get_kernel->kernel;
        handles[OF_EVENT] = reply[OF_EVENT]->event_create->event;
        handles[OF_STREAM] = reply[OF_STREAM]->stream_create->stream;
        for (int i = 0; i < _OF_MAX; i++)
                detshare__reply__free_unpacked(reply[i], NULL);
        return 1;
}

static void check_handles(void)
{
        static const char *const names[_OF_MAX] = {
                "memory", "pinned memory", "a module", "a kernel", "an event", "a stream"};
        static const uint64_t absent[_OF_MAX] = {0x7f0000001000, 0x7f0000001000, 987654, 987654, 987654, 400};
        int owner = h_hello(0, NULL, NULL), thief = h_hello(0, NULL, NULL);
        char there[512], nowhere[512];
        uint64_t handles[_OF_MAX];

        if (!h_check(owner >= 0 && thief >= 0 && own_one_of_each(owner, handles), "a session with one of each"))
                return;
        for (int i = 0; i < _OF_MAX; i++) {
                int of_other = about(thief, i, handles[i], there, sizeof(there));
                uint64_t nobodys = i == OF_EVENT ? handles[i] + 1000 : absent[i];
                int of_nobody = about(thief, i, nobodys, nowhere, sizeof(nowhere));

                h_check(of_other > 0 && of_other == of_nobody, "%s of another session: status %d, of no session: %d",
                        names[i], of_other, of_nobody);
                strip(there);
                strip(nowhere);
                h_check(!strcmp(there, nowhere), "%s of another session: '%s', of no session: '%s'", names[i], there,
                        nowhere);
        }
        for (int i = 0; i < _OF_MAX; i++)
                h_check(i == OF_KERNEL || i == OF_MODULE || about(owner, i, handles[i], there, sizeof(there)) == 0,
                        "%s is still its owner's: %s", names[i], there);
        close(owner);
        close(thief);
}

static void remove_files(void)
{
        static const char *const names[] = {"conf.d/50.conf", "conf.d", "x.conf", "notify", ""};
        char path[128];

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
                remove(path);
        }
}

int main(int argc, char **argv)
{
        char config[64], conf_d[64];
        const char *extra[] = {"--config", config, NULL};
        struct h_status before;

        if (argc < 2)
                return 2;
        build = argv[1];
        if (!mkdtemp(dir) || chmod(dir, 0755) < 0)
                return 1;
        snprintf(config, sizeof(config), "%s/x.conf", dir);
        snprintf(conf_d, sizeof(conf_d), "%s/conf.d", dir);
        mkdir(conf_d, 0755);
        put("x.conf", "%s", variants[0]);
        listen_for_notes();
        h_daemon_start(build, "sim:h200", extra);
        unsetenv("NOTIFY_SOCKET");
        h_check(await_note("READY=1", NULL, 0), "the daemon reports READY");
        before = h_quiet();
        check_reloads(argc > 2 ? atoi(argv[2]) : 1000);
        if (h_is_root("clients of another user"))
                check_who_is_there();
        check_handles();
        h_baseline(&before, 5000, "afterwards");
        h_check(h_daemon_stop() >= 0, "it stops");
        remove_files();
        return h_finish();
}
