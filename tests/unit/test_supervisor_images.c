/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What images cost their users: memory of the device, and turns at the helper
 */
#include "tests/unit/supervisor_fixture.h"

static int alloc_status(ds_conn *conn, uint64_t bytes)
{
        FX_REQUEST(mem_alloc, MEM_ALLOC, MemAlloc, MEM_ALLOC);

        mem_alloc.bytes = bytes;
        fx_ask(conn, &mem_alloc_r, NULL);
        return fx_status(conn);
}

static void ask_load(ds_conn *conn, const char *image)
{
        ds_cleanup(ds_closep) int fd = memfd_create("image", MFD_CLOEXEC);
        FX_REQUEST(module_load, MODULE_LOAD, ModuleLoad, MODULE_LOAD);

        cr_assert_eq(write(fd, image, strlen(image)), (ssize_t)strlen(image));
        module_load.bytes = strlen(image);
        module_load_r.fds = 1;
        fx_ask(conn, &module_load_r, &fd);
}

static int load_status(ds_conn *conn, const char *image)
{
        ask_load(conn, image);
        return fx_status(conn);
}

/* What a module's variables take of the device is the user's, as long as the module is there. */
Test(images, variables_are_memory)
{
        struct fixture f;
        ds_conn *a, *b;

        fx_init(&f);
        f.config.memory_per_uid = 3 * 4096;
        fx_start(&f);
        a = fx_session(&f);
        b = fx_session(&f);
        cr_assert_eq(load_status(a, "Variables"), 0);
        cr_assert_eq(load_status(b, "Variables"), DETSHARE__STATUS__QUOTA, "over all sessions of the user");
        cr_assert_eq(alloc_status(b, 2 * 4096), DETSHARE__STATUS__QUOTA);
        cr_assert_eq(alloc_status(b, 4096), 0);
        cr_assert_eq(load_status(b, "good"), 0, "one that has none");
        cr_assert_eq(load_status(b, "Wide"), 2, "more than the device has");
        ds_conn_free(a);
        for (int i = 0; i < 500 && load_status(b, "Variables"); i++)
                usleep(2000);
        cr_assert_eq(alloc_status(b, 1), DETSHARE__STATUS__QUOTA, "what a gave back is in use again");
        ds_conn_free(b);
        fx_baseline(&f);
        fx_stop(&f);
}

/* Another user's slow images, very many of them, keep one image of uid 65534 waiting for one of theirs. */
static int nobody_waits_for_one(const struct fixture *f)
{
        uint64_t before;
        ds_conn *conn;

        if (setresuid(65534, 65534, 65534))
                return 1;
        conn = fx_session(f);
        before = uv_hrtime();
        if (!conn || load_status(conn, "good"))
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
                return; /* only root can be somebody else */
        fx_init(&f);
        cr_assert_eq(chmod(f.dir, 0755), 0);
        fx_start(&f);
        root = fx_session(&f);
        for (int i = 0; i < 20; i++)
                ask_load(root, "Slow: 300 ms");
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
