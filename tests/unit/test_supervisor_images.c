/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Costs of images for their users: device memory, turns at the helper, and work in the background
 */
#include "tests/unit/supervisor_fixture.h"

/* Device memory of a module's variables is charged to the user as long as the module exists. */
Test(images, variables_are_memory)
{
        struct fixture f;
        ds_conn *a, *b;

        fx_init(&f);
        f.config.memory_per_uid = 3 * 4096;
        fx_start(&f);
        a = fx_session(&f);
        b = fx_session(&f);
        cr_assert_eq(fx_load_status(a, "Variables"), 0);
        cr_assert_eq(fx_load_status(b, "Variables"), DETSHARE__STATUS__QUOTA, "over all sessions of the user");
        cr_assert_eq(fx_alloc_status(b, 2 * 4096), DETSHARE__STATUS__QUOTA);
        cr_assert_eq(fx_alloc_status(b, 4096), 0);
        cr_assert_eq(fx_load_status(b, "good"), 0, "one that has none");
        cr_assert_eq(fx_load_status(b, "Wide"), 2, "more than the device has");
        ds_conn_free(a);
        for (int i = 0; i < 500 && fx_load_status(b, "Variables"); i++)
                usleep(2000);
        cr_assert_eq(fx_alloc_status(b, 1), DETSHARE__STATUS__QUOTA, "what a gave back is in use again");
        ds_conn_free(b);
        fx_baseline(&f);
        fx_stop(&f);
}

/* A user with very many slow images delays an image of uid 65534 by at most one of them. */
static int nobody_waits_for_one(const struct fixture *f)
{
        uint64_t before;
        ds_conn *conn;

        if (setresuid(65534, 65534, 65534))
                return 1;
        conn = fx_session(f);
        before = uv_hrtime();
        if (!conn || fx_load_status(conn, "good"))
                return 2;
        ds_conn_free(conn);
        return uv_hrtime() - before < 1000 * DS_NS_PER_MS ? 0 : 3;
}

Test(images, users_take_turns_at_the_helper)
{
        struct fixture f;
        ds_conn *root;
        int status;
        pid_t pid;

        if (geteuid() != 0)
                skip_test("root, to become another user");
        fx_init(&f);
        cr_assert_eq(chmod(f.dir, 0755), 0);
        fx_start(&f);
        root = fx_session(&f);
        for (int i = 0; i < 20; i++)
                fx_ask_load(root, "Slow: 300 ms");
        usleep(50000);
        fflush(NULL);
        pid = fork();
        if (pid == 0)
                _exit(nobody_waits_for_one(&f));
        waitpid(pid, &status, 0);
        cr_assert(WIFEXITED(status));
        cr_assert_eq(WEXITSTATUS(status), 0, "%d", WEXITSTATUS(status));
        ds_conn_free(root);
        fx_baseline(&f);
        fx_stop(&f);
}

/* --- each user has a helper of its own --- */

#define USER 54351u

/* Loads the image in a process of that user. Returns its status; 250: no answer. */
static int loads(const struct fixture *f, uid_t uid, const char *image)
{
        ds_conn *conn;
        int status;

        if (setresuid(uid, uid, uid))
                return 249;
        conn = fx_session(f);
        status = conn ? fx_load_status(conn, image) : -1;
        ds_conn_free(conn);
        return status < 0 ? 250 : status;
}

static pid_t begin_load(const struct fixture *f, uid_t uid, const char *image)
{
        pid_t pid;

        fflush(NULL);
        pid = fork();
        if (pid == 0)
                _exit(loads(f, uid, image));
        return pid;
}

static int end_load(pid_t pid)
{
        int status = -1;

        waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 256;
}

static int started_for_users(struct fixture *f)
{
        if (geteuid() != 0)
                skip_test("root, to become another user");
        fx_init(f);
        cr_assert_eq(chmod(f->dir, 0755), 0);
        fx_start(f);
        return 1;
}

/* A helper that was taken over knows the number of another helper's image: its answer for that image does not count. */
Test(images, a_helper_answers_for_no_other)
{
        struct fixture f;
        pid_t slow;

        if (!started_for_users(&f))
                return;
        cr_assert_eq(end_load(begin_load(&f, USER, "good")), 0);
        slow = begin_load(&f, USER, "Slow: 300 ms");
        usleep(100000);
        cr_assert_neq(end_load(begin_load(&f, USER + 1, "Forge")), 0, "its helper is killed");
        cr_assert_eq(end_load(slow), 0);
        fx_stop(&f);
}

/* An image that never ends delays only its own user's images. */
Test(images, an_image_without_end_is_its_users)
{
        struct fixture f;
        uint64_t before;
        pid_t endless;

        if (!started_for_users(&f))
                return;
        cr_assert_eq(end_load(begin_load(&f, USER, "good")), 0);
        endless = begin_load(&f, USER, "No end");
        fx_await_log(&f, "image without end\n", 1);
        before = uv_hrtime();
        cr_assert_eq(end_load(begin_load(&f, USER + 1, "good")), 0);
        cr_assert_lt(uv_hrtime() - before, 20000 * DS_NS_PER_MS); /* the endless image has 40 s */
        kill(endless, SIGKILL);
        end_load(endless);
        fx_stop(&f);
}

/* An image that kills a helper kills only its user's helper. */
Test(images, a_helpers_death_is_its_users)
{
        struct fixture f;
        pid_t slow;

        if (!started_for_users(&f))
                return;
        slow = begin_load(&f, USER, "Slow: 300 ms");
        for (int i = 0; i < 5; i++)
                cr_assert_eq(end_load(begin_load(&f, USER + 1, "Kill")), 999 % 256);
        cr_assert_eq(end_load(slow), 0);
        cr_assert_eq(end_load(begin_load(&f, USER + 1, "good")), 0);
        fx_stop(&f);
}

static unsigned children_of(pid_t pid)
{
        char path[64], line[1000] = "";
        unsigned n = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
        file = fopen(path, "re");
        cr_assert_not_null(file);
        (void)!fgets(line, sizeof(line), file);
        fclose(file);
        for (const char *at = line; (at = strchr(at, ' ')); at++)
                n++;
        return n;
}

/* More users than helpers: all are served, also concurrently, with never more than nine helpers. */
Test(images, users_share_nine_helpers)
{
        struct fixture f;
        pid_t pids[24];

        if (!started_for_users(&f))
                return;
        for (unsigned i = 0; i < 24; i++)
                pids[i] = begin_load(&f, USER + i, i % 3 ? "good" : "Slow: 300 ms");
        for (unsigned i = 0; i < 24; i++)
                cr_assert_eq(end_load(pids[i]), 0, "user %u", i);
        cr_assert_leq(children_of(f.pid), 10, "with the worker");
        for (unsigned i = 0; i < 24; i++)
                cr_assert_eq(end_load(begin_load(&f, USER + i, "good")), 0, "user %u again", i);
        cr_assert_leq(children_of(f.pid), 10);
        fx_stop(&f);
}

/* A helper that was stopped did not die of its image: the client's error must not say so. */
Test(images, a_stop_is_no_images_fault)
{
        struct fixture f;
        ds_conn *conn;

        setenv("FAKE_WORKER", "lingers", 1); /* the helper ends before the clients are disconnected */
        fx_init(&f);
        fx_start(&f);
        conn = fx_session(&f);
        fx_ask_load(conn, "No end");
        fx_await_log(&f, "image without end\n", 1);
        kill(f.pid, SIGTERM);
        cr_assert_eq(fx_status(conn), -1, "not an answer, but the end of the connection");
        ds_conn_free(conn);
        fx_stop(&f);
}

/* --- forms of kernels: made in the background, for the lifetime of their module ----------------------------------- */

static int unload_status(ds_conn *conn, uint64_t module)
{
        FX_REQUEST(module_unload, MODULE_UNLOAD, ModuleUnload, MODULE_UNLOAD);

        module_unload.module = module;
        fx_ask(conn, &module_unload_r, NULL);
        return fx_status(conn);
}

/* Waits for n log lines that begin with this text. Returns the number in the last of them, or -1. */
static int await_lines(const struct fixture *f, const char *begin, int n)
{
        const uint64_t end = fx_now_ms() + FX_WAIT_MS;
        char log[4000];
        int found, last = -1;

        do {
                found = 0;
                fx_read_log(f, log, sizeof(log));
                for (const char *at = log; (at = strstr(at, begin)); found++) {
                        at += strlen(begin);
                        last = atoi(at);
                }
        } while (found < n && fx_now_ms() < end && usleep(1000) == 0);
        return found == n ? last : -1;
}

static void forms_start(struct fixture *f)
{
        setenv("FAKE_WORKER", "wants", 1);
        fx_init(f);
        cr_assert_eq(chmod(f->dir, 0755), 0);
        fx_start(f);
}

/* Requests for forms and made forms end with their module: repeated loading and unloading leaves nothing. */
Test(images, forms_end_with_their_module)
{
        struct fixture f;
        ds_conn *conn;

        forms_start(&f);
        conn = fx_session(&f);
        cr_assert_eq(fx_load_status(conn, "first"), 0);
        cr_assert_geq(await_lines(&f, "forms for ", 1), 0);
        cr_assert_eq(fx_load_status(conn, "second, which waits"), 0);
        cr_assert_eq(unload_status(conn, 1), 0);
        cr_assert_eq(unload_status(conn, 0), 0);
        cr_assert_geq(await_lines(&f, "cancelled ", 1), 0);
        cr_assert_eq(fx_load_status(conn, "third"), 0);
        cr_assert_geq(await_lines(&f, "forms for ", 2), 0);
        cr_assert_eq(unload_status(conn, 2), 0);
        cr_assert_geq(await_lines(&f, "cancelled ", 2), 0, "the second was asked for");
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}

static int sealed_load_status(ds_conn *conn, const char *image)
{
        FX_REQUEST(module_load, MODULE_LOAD, ModuleLoad, MODULE_LOAD);
        int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        module_load.bytes = strlen(image);
        cr_assert_eq(write(fd, image, module_load.bytes), (ssize_t)module_load.bytes);
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
        module_load_r.fds = 1;
        fx_send(conn, &module_load_r.base, &fd, 1);
        close(fd);
        return fx_status(conn);
}

/* An image with the bytes of an earlier one needs no helper, also in another session of the user. */
Test(images, known_images_need_no_helper)
{
        struct fixture f;
        ds_conn *conn;

        fx_init(&f);
        cr_assert_eq(chmod(f.dir, 0755), 0);
        f.files = 8192;
        fx_start(&f);
        conn = fx_session(&f);
        cr_assert_eq(sealed_load_status(conn, "Read once"), 0);
        cr_assert_eq(sealed_load_status(conn, "Read once"), 0);
        ds_conn_free(conn);
        conn = fx_session(&f);
        cr_assert_eq(sealed_load_status(conn, "Read once"), 0);
        cr_assert_geq(await_lines(&f, "an image was read", 1), 0, "once");
        cr_assert_eq(sealed_load_status(conn, "Read twice"), 0);
        cr_assert_geq(await_lines(&f, "an image was read", 2), 0);
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}

/* The worker learns with the image that it has no PTX. If it asks nevertheless, no helper reads the image again. */
Test(images, no_forms_are_made_without_ptx)
{
        struct fixture f;
        ds_conn *conn;
        char log[4000];

        forms_start(&f);
        conn = fx_session(&f);
        cr_assert_eq(fx_load_status(conn, "PTX is missing"), 0);
        cr_assert_geq(await_lines(&f, "image without PTX", 1), 0);
        cr_assert_geq(await_lines(&f, "forms: the module has no PTX", 1), 0);
        fx_read_log(&f, log, sizeof(log));
        cr_assert_null(strstr(log, "forms for "));
        cr_assert_eq(fx_load_status(conn, "good"), 0);
        cr_assert_geq(await_lines(&f, "forms for ", 1), 0);
        cr_assert_geq(await_lines(&f, "image without PTX", 1), 0, "only the first");
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}

/* Forms of a kernel are one more open file that is charged to their user. */
Test(images, forms_are_files)
{
        struct fixture f;
        ds_conn *conn;

        setenv("FAKE_WORKER", "wants", 1);
        fx_init(&f);
        /* 20 slabs for this user: root may use all, another user half of them */
        f.files = 64 + 6 * (geteuid() == 0 ? 20 : 40) + 4;
        fx_start(&f);
        conn = fx_session(&f);
        cr_assert_eq(fx_load_status(conn, "good"), 0);
        cr_assert_geq(await_lines(&f, "forms for ", 1), 0);
        for (int i = 0; i < 19; i++)
                cr_assert_eq(fx_alloc_status(conn, 4096), 0, "slab %d", i);
        cr_assert_eq(fx_alloc_status(conn, 4096), DETSHARE__STATUS__QUOTA);
        cr_assert_eq(unload_status(conn, 0), 0);
        cr_assert_eq(fx_alloc_status(conn, 4096), 0);
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}

static int nobody_loads_one(const struct fixture *f, int until)
{
        ds_conn *conn;
        char byte;

        if (setresuid(65534, 65534, 65534))
                return 1;
        conn = fx_session(f);
        if (!conn || fx_load_status(conn, "good"))
                return 2;
        (void)!read(until, &byte, 1); /* keeps the module until the test has seen it */
        ds_conn_free(conn);
        return 0;
}

/* A user with many modules delays the forms of another user's module by at most the forms of one module. */
Test(images, users_take_turns_behind_their_backs)
{
        ds_cleanup(ds_closep) int there = -1;
        struct fixture f;
        ds_conn *root;
        int status, until[2];
        pid_t pid;

        if (geteuid() != 0)
                skip_test("root, to become another user");
        forms_start(&f);
        root = fx_session(&f);
        for (int i = 0; i < 5; i++)
                cr_assert_eq(fx_load_status(root, "good"), 0);
        cr_assert_eq(await_lines(&f, "forms for ", 1), 0);
        cr_assert_eq(pipe(until), 0);
        there = until[1];
        fflush(NULL);
        pid = fork();
        if (pid == 0) {
                close(until[1]);
                _exit(nobody_loads_one(&f, until[0]));
        }
        close(until[0]);
        /* the worker has asked for forms six times when six modules exist */
        char call[32];
        snprintf(call, sizeof(call), "call %d\n", (int)DETSHARE__REQUEST__CALL_MODULE_LOAD);
        await_lines(&f, call, 6);
        cr_assert_eq(unload_status(root, 0), 0);
        cr_assert_eq(await_lines(&f, "forms for ", 2), 0, "who comes anew is behind who was there");
        cr_assert_eq(unload_status(root, 1), 0);
        cr_assert_eq(await_lines(&f, "forms for ", 3), 65534);
        there = ds_close(there);
        waitpid(pid, &status, 0);
        cr_assert(WIFEXITED(status));
        cr_assert_eq(WEXITSTATUS(status), 0, "%d", WEXITSTATUS(status));
        ds_conn_free(root);
        fx_baseline(&f);
        fx_stop(&f);
}

/* --- linking ------------------------------------------------------------------------------------------------------ */

/* Sends a file to link, and announces `bytes` as its size. */
static void ask_link(ds_conn *conn, const char *inputs, uint64_t bytes, int seals, int check)
{
        ds_cleanup(ds_closep) int fd = memfd_create("inputs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        FX_REQUEST(module_link, MODULE_LINK, ModuleLink, MODULE_LINK);

        cr_assert_eq(write(fd, inputs, strlen(inputs)), (ssize_t)strlen(inputs));
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
        module_link.bytes = bytes;
        module_link.check = check;
        module_link_r.fds = 1;
        fx_ask(conn, &module_link_r, &fd);
}

static void links(ds_conn *conn, int check)
{
        Detshare__Reply *reply;
        char image[8] = "";
        int fd = -1;

        ask_link(conn, "good", 4, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, check);
        reply = fx_answer(conn);
        cr_assert(reply && reply->status == 0, "%d %s", reply ? reply->status : -1, reply ? reply->message : "");
        cr_assert_eq(reply->result_case, DETSHARE__REPLY__RESULT_MODULE_LINK);
        cr_assert_eq(reply->fds, check ? 0u : 1u);
        cr_assert_eq(reply->module_link->bytes, check ? 0u : 7u);
        if (!check) {
                cr_assert_eq(ds_conn_take_fds(conn, &fd, 1), 0);
                cr_assert_eq(pread(fd, image, sizeof(image), 0), 7);
                cr_assert_str_eq(image, "checked");
                cr_assert_lt(write(fd, "x", 1), 0, "the image is read-only");
                close(fd);
        }
        detshare__reply__free_unpacked(reply, NULL);
}

/* The client gets the helper's file or error. A file that it could still change is refused, and nothing stays charged. */
Test(images, links)
{
        const int sealed = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
        struct fixture f;
        ds_conn *conn;
        int status;

        fx_init(&f);
        fx_start(&f);
        conn = fx_session(&f);
        links(conn, 0);
        links(conn, 1);
        ask_link(conn, "Bad", 3, sealed, 0);
        status = fx_status(conn);
        cr_assert_eq(status, 218, "%d", status);
        ask_link(conn, "good", 4, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, 0);
        cr_assert_eq(fx_status(conn), DETSHARE__STATUS__BAD_PARAMETER);
        ask_link(conn, "good", 4, F_SEAL_WRITE, 0);
        cr_assert_eq(fx_status(conn), DETSHARE__STATUS__BAD_PARAMETER);
        ask_link(conn, "good", 5, sealed, 0);
        cr_assert_eq(fx_status(conn), DETSHARE__STATUS__BAD_PARAMETER);
        ask_link(conn, "good", 0, sealed, 0);
        cr_assert_eq(fx_status(conn), DETSHARE__STATUS__BAD_PARAMETER);
        ask_link(conn, "good", UINT64_MAX, sealed, 0);
        cr_assert_eq(fx_status(conn), DETSHARE__STATUS__BAD_PARAMETER);
        links(conn, 0);
        /* a client that leaves takes its links with it */
        for (int i = 0; i < 20; i++)
                ask_link(conn, "Slow", 4, sealed, 0);
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}
