/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of single nodes of graphs in the worker: a part of test_worker_graph.c
 */
#pragma once

#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

/* Changes of nodes, as a record of the ring contains them. */
struct changes {
        struct ds_record_graph head;
        _Alignas(8) uint8_t at[DS_GRAPH_CHANGES_MAX];
        uint32_t bytes;
};

/* Adds a change: the node launches the kernel with an address and a number as parameters. */
static struct ds_record_launch *change_poke(
        struct changes *c, uint32_t index, uint64_t kernel, uint64_t p, uint32_t value)
{
        struct {
                struct ds_graph_change change;
                struct ds_record_launch launch;
                uint64_t p;
                uint32_t value, pad;
        } r = {{index, sizeof(r)},
                {.head = {DS_RECORD_LAUNCH, 0, sizeof(r.launch) + 12},
                        .kernel = kernel,
                        .grid = {1, 1, 1},
                        .block = {1, 1, 1},
                        .params_size = 12},
                p, value, 0};

        memcpy(c->at + c->bytes, &r, sizeof(r));
        c->bytes += sizeof(r);
        return (void *)(c->at + c->bytes - sizeof(r) + sizeof(r.change));
}

static void change_memset(struct changes *c, uint32_t index, uint64_t dst, uint32_t value, uint64_t n)
{
        struct {
                struct ds_graph_change change;
                struct ds_record_memset memset;
        } r = {{index, sizeof(r)}, {.head = {DS_RECORD_MEMSET, 0, sizeof(r.memset)},
                                           .value = value,
                                           .element_size = 4,
                                           .dst = dst,
                                           .width = n,
                                           .height = 1}};

        memcpy(c->at + c->bytes, &r, sizeof(r));
        c->bytes += sizeof(r);
}

/* Sends the changes in a record of this type, and forgets them. */
static void change_send(struct side *side, struct changes *c, uint16_t type, uint64_t graph)
{
        c->head = (struct ds_record_graph){.head = {type, 0, (uint32_t)sizeof(c->head) + c->bytes}, .graph = graph};
        wt_push(&side->client, c, c->head.head.size);
        c->bytes = 0;
}

/* Changes between launches that are in flight, or that have ended: each launch has the parameters of its time. */
Test(worker_graph, changes_apply_to_later_launches, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        uint32_t values[40], expected = 0;
        struct changes c = {.bytes = 0};
        uint64_t graph;

        steps(&side, 40);
        cr_assert_eq(create(t, &side, &graph), 0);
        for (uint32_t i = 0; i < 40; i++)
                values[i] = i;
        for (uint32_t round = 0; round < 30; round++) {
                for (uint32_t i = round % 7; i < 40 && round % 5; i += 1 + round % 11) {
                        values[i] = 1000 * round + i;
                        change_poke(&c, i, side.step, side.memory, values[i]);
                        if (i % 9 == 0)
                                change_send(&side, &c, DS_RECORD_CHANGE, graph);
                }
                change_send(&side, &c, DS_RECORD_GRAPH, graph);
                for (uint32_t i = 0; i < 40; i++)
                        expected = expected * 3 + values[i];
                if (round % 3 == 2)
                        cr_assert_eq(wt_sync_all(t, &side.client), 0);
        }
        cr_assert_eq(wt_sync_all(t, &side.client), 0);
        cr_assert_eq(word(t, &side, 0), expected);
        wt_client_close(t, &side.client);
        wt_close(t);
}

/* Other kernels, grids and kinds of nodes. A memset of nothing does nothing. */
Test(worker_graph, changes_of_every_kind, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        struct changes c = {.bytes = 0};
        uint64_t graph;

        gf_begin(&file);
        gf_memset(&file, side.memory, 7, 4);
        gf_poke(&file, side.poke, side.memory + 4, 8);
        gf_copy(&file, side.memory + 16, side.memory, 8);
        gf_end(&file);
        cr_assert_eq(create(t, &side, &graph), 0);
        launch(&side, 0, graph);
        cr_assert_eq(wt_sync_all(t, &side.client), 0);
        cr_assert_eq(word(t, &side, 16), 7);
        cr_assert_eq(word(t, &side, 20), 8);
        change_memset(&c, 0, side.memory, 9, 2);
        change_poke(&c, 1, side.step, side.memory + 4, 5);
        change_send(&side, &c, DS_RECORD_GRAPH, graph);
        cr_assert_eq(wt_sync_all(t, &side.client), 0);
        cr_assert_eq(word(t, &side, 16), 9);
        cr_assert_eq(word(t, &side, 20), 9 * 3 + 5, "another kernel");
        change_memset(&c, 0, side.memory, 11, 0);
        change_poke(&c, 1, side.step, side.memory + 4, 6)->grid[0] = 2;
        change_send(&side, &c, DS_RECORD_GRAPH, graph);
        cr_assert_eq(wt_sync_all(t, &side.client), 0);
        cr_assert_eq(word(t, &side, 16), 9, "a memset of nothing");
        wt_client_close(t, &side.client);
        wt_close(t);
}

/* Spoils one thing of a change. */
static void change_spoil(struct side *side, struct changes *c, int what)
{
        struct ds_graph_change *change = (void *)c->at;
        struct ds_record_launch *launch = (void *)(change + 1);

        change_poke(c, 3, what == 0 ? 12345 : side->poke, side->memory, 1);
        if (what == 1)
                change->node = 40;
        if (what == 2)
                change->size -= 8;
        if (what == 3)
                change->size = UINT32_MAX - 7;
        if (what == 4)
                launch->head = (struct ds_record){DS_RECORD_HOST, 0, sizeof(struct ds_record_host)};
        if (what == 5)
                launch->block[0] = 100000;
        if (what == 6)
                change_poke(c, 3, side->poke, side->memory, 2);
        if (what == 7)
                launch->params_size = 11;
        if (what == 8)
                c->bytes -= 8;
}

/* Nothing of changes with a mistake is applied, and the session fails. */
Test(worker_graph, changes_that_make_no_sense, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct changes c = {.bytes = 0};

        for (int what = 0; what < 9; what++) {
                struct side side = side_open(t, 1 + what, DETSHARE__CLASS__BE);
                uint64_t graph;

                steps(&side, 40);
                cr_assert_eq(create(t, &side, &graph), 0);
                change_spoil(&side, &c, what);
                change_send(&side, &c, what % 2 ? DS_RECORD_GRAPH : DS_RECORD_CHANGE, graph);
                cr_assert_eq(wt_sync_all(t, &side.client), what ? DS_CUDA_INVALID_VALUE : DS_CUDA_INVALID_HANDLE,
                        "mistake %d", what);
                cr_assert_eq(wt_reset(t, &side.client), 0);
                wt_client_close(t, &side.client);
        }
        wt_close(t);
}

/* Random bytes in the headers of changes harm nobody: the changes are applied, or the session gets an error. */
Test(worker_graph, changes_changed_by_chance, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct changes c = {.bytes = 0};
        uint32_t good = 0, bad = 0, one = 0;

        for (uint64_t id = 1; id <= 200; id++) {
                struct side side = side_open(t, id, DETSHARE__CLASS__BE);
                uint64_t graph;

                steps(&side, 40);
                cr_assert_eq(create(t, &side, &graph), 0);
                for (uint32_t i = 0; i < 40; i += 1 + chance(7)) {
                        change_poke(&c, i, side.poke, side.memory + 4 * i, i);
                        one = one ? one : c.bytes;
                }
                for (uint32_t n = chance(3); n; n--)
                        c.at[chance(c.bytes / one) * one + chance(16)] =
                                (uint8_t)(chance(2) ? chance(256) : 255 * chance(2));
                change_send(&side, &c, DS_RECORD_CHANGE, graph);
                launch(&side, 0, graph);
                if (wt_sync_all(t, &side.client))
                        bad++;
                else
                        good++;
                wt_client_close(t, &side.client);
        }
        cr_assert(good > 20 && bad > 20, "%u good, %u bad", good, bad);
        wt_close(t);
}

/* The client's file has the changes when the launch has ended, so the next worker restores them. */
Test(worker_graph, changes_outlive_the_worker, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        struct changes c = {.bytes = 0};
        uint32_t before;

        steps(&side, 20);
        cr_assert_eq(restore(t, &side, 77), 0);
        for (uint32_t i = 0; i < 20; i += i < 10 ? 1 : 3)
                change_poke(&c, i, side.step, side.memory, 100 + i);
        change_send(&side, &c, DS_RECORD_GRAPH, 77);
        cr_assert_eq(wt_sync_all(t, &side.client), 0);
        before = word(t, &side, 0);
        cr_assert_neq(before, stepped(0, 20));
        cr_assert_eq(pread(restored_fd, file.at, file.bytes, 0), (ssize_t)file.bytes);
        cr_assert_eq(restore(t, &side, 78), 0);
        gf_begin(&file);
        gf_memset(&file, side.memory, 0, 1);
        gf_end(&file);
        cr_assert_eq(restore(t, &side, 79), 0);
        launch(&side, 0, 79);
        launch(&side, 0, 78);
        cr_assert_eq(wt_sync_all(t, &side.client), 0);
        cr_assert_eq(word(t, &side, 0), before);
        wt_client_close(t, &side.client);
        wt_close(t);
}

struct held {
        pthread_t thread;
        int fd, faults;
        uint8_t *page;
        ssize_t written;
};

static void *hold_file(void *arg)
{
        struct held *held = arg;

        held->written = pwrite(held->fd, held->page, 4, 0);
        return NULL;
}

/* Holds the lock of the file by a write whose source page does not come until hold_end(). Returns 0 if this is not
 * permitted here. */
static int hold_begin(struct held *held, int fd)
{
        struct uffdio_api api = {.api = UFFD_API};
        struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};

        held->fd = fd;
        held->faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
        if (held->faults < 0 || ioctl(held->faults, UFFDIO_API, &api))
                return 0;
        held->page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert_neq(held->page, MAP_FAILED);
        range.range.start = (uintptr_t)held->page;
        range.range.len = 4096;
        cr_assert_eq(ioctl(held->faults, UFFDIO_REGISTER, &range), 0);
        cr_assert_eq(pthread_create(&held->thread, NULL, hold_file, held), 0);
        usleep(50000);
        return 1;
}

static void hold_end(struct held *held)
{
        struct uffdio_zeropage zero = {.range = {.start = (uintptr_t)held->page, .len = 4096}};

        cr_assert_eq(ioctl(held->faults, UFFDIO_ZEROPAGE, &zero), 0);
        pthread_join(held->thread, NULL);
        cr_assert_eq(held->written, 4);
        munmap(held->page, 4096);
        close(held->faults);
}

/* The worker serves all clients, so it must not wait for a lock that one of them holds. */
Test(worker_graph, changes_do_not_wait_for_the_client, .timeout = 60)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct side side = side_open(t, 1, DETSHARE__CLASS__BE);
        struct changes c = {.bytes = 0};
        struct held held;

        steps(&side, 20);
        cr_assert_eq(restore(t, &side, 77), 0);
        if (hold_begin(&held, restored_fd)) {
                change_poke(&c, 5, side.step, side.memory, 100);
                change_send(&side, &c, DS_RECORD_GRAPH, 77);
                cr_assert_eq(wt_sync_all(t, &side.client), 0);
                hold_end(&held);
        }
        wt_client_close(t, &side.client);
        wt_close(t);
}
