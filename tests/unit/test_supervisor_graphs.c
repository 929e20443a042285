/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of graphs in the supervisor: which it accepts, and that it closes them soon
 */
#include <sys/mman.h>

#include "tests/unit/supervisor_fixture.h"

#define SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int create_in(ds_conn *conn, unsigned flags, uint64_t size, uint64_t said, int seals)
{
        ds_cleanup(ds_closep) int fd = memfd_create("graph", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
        FX_REQUEST(graph_create, GRAPH_CREATE, GraphCreate, GRAPH_CREATE);

        cr_assert_eq(ftruncate(fd, (off_t)size), 0);
        if (seals)
                cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
        graph_create.bytes = said;
        graph_create_r.fds = 1;
        fx_ask(conn, &graph_create_r, &fd);
        return fx_status(conn);
}

static int create_status(ds_conn *conn, uint64_t size, uint64_t said, int seals)
{
        return create_in(conn, 0, size, said, seals);
}

Test(graphs, only_files_that_cannot_change)
{
        struct fixture f;
        ds_conn *conn;

        fx_init(&f);
        fx_start(&f);
        conn = fx_session(&f);
        cr_assert_eq(create_status(conn, 4096, 4096, SEALS), 0);
        cr_assert_eq(create_status(conn, 4096, 4096, SEALS & ~F_SEAL_WRITE), 0, "the worker writes into it");
        cr_assert_eq(create_status(conn, 4096, 100, SEALS), DETSHARE__STATUS__BAD_PARAMETER);
        cr_assert_eq(create_status(conn, 4096, 4097, SEALS), DETSHARE__STATUS__BAD_PARAMETER);
        cr_assert_eq(create_status(conn, 4096, 4096, 0), DETSHARE__STATUS__BAD_PARAMETER);
        cr_assert_eq(create_status(conn, 4096, 4096, F_SEAL_WRITE), DETSHARE__STATUS__BAD_PARAMETER);
        cr_assert_eq(create_status(conn, 4096, 4096, F_SEAL_SHRINK), DETSHARE__STATUS__BAD_PARAMETER);
        cr_assert_eq(create_status(conn, 65u << 20, 65u << 20, SEALS), DETSHARE__STATUS__BAD_PARAMETER);
        cr_assert_eq(create_status(conn, 4096, UINT64_MAX, SEALS), DETSHARE__STATUS__BAD_PARAMETER);
        cr_assert_eq(create_in(conn, MFD_HUGETLB, 2 << 20, 2 << 20, SEALS & ~F_SEAL_WRITE),
                DETSHARE__STATUS__BAD_PARAMETER, "an access can end with SIGBUS");
        for (int i = 0; i < 300; i++)
                cr_assert_eq(create_status(conn, 1 << 20, 1 << 20, SEALS), 0);
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}

Test(graphs, count_as_memory_of_the_host)
{
        struct fixture f;
        ds_conn *conn;

        fx_init(&f);
        f.config.pinned_per_uid = 1 << 20;
        fx_start(&f);
        conn = fx_session(&f);
        cr_assert_eq(create_status(conn, 1 << 20, 1 << 20, SEALS), 0);
        cr_assert_eq(create_status(conn, 2 << 20, 2 << 20, SEALS), DETSHARE__STATUS__QUOTA);
        ds_conn_free(conn);
        fx_baseline(&f);
        fx_stop(&f);
}
