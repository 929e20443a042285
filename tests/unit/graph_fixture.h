/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients with a module, memory and graphs, for tests of a worker. With GRAPH_CUDA: on the cuda device with the fake driver
 */
#pragma once

#include "tests/unit/graph_file.h"
#ifdef GRAPH_CUDA
#include "device/cuda/cuda.h"
#endif
#include "tests/unit/worker_harness.h"
#include "worker/internal.h"

ds_unused static struct gf file;

struct side {
        struct wt_client client;
        uint64_t module, null, poke, step, traps, memory;
};

/* the same tests run on the cuda device with the fake driver, which checks the calls that stop a GPU */
#ifdef GRAPH_CUDA
#undef FUNCTIONAL
#undef TIMING
#define FUNCTIONAL "0"
#define TIMING "0"

ds_unused static struct wt *graph_open(const char *device)
{
        setenv("DETSHARE_LIBCUDA", TEST_FAKE_CUDA, 1);
        setenv("PTXAS", TEST_PTXAS, 1);
        setenv("FAKE_CUDA_STRICT", "1", 1);
        wt_ops = &ds_cuda_ops;
        wt_tick = 200 * DS_NS_PER_US; /* lets the device's time advance */
        return wt_open(device);
}

static const struct ds_device_info *cubin_info(ds_device *device)
{
        static const struct ds_device_info info = {.cc_major = 9};

        return &info;
}

static void *graph_cubin(size_t *ret_size)
{
        static const struct ds_device_ops ops = {.info = cubin_info};
        struct dt t = {.ops = &ops};

        return dt_image(&t, DT_PTX, ret_size);
}

ds_unused static int graph_module(struct wt *t, struct wt_client *client, uint64_t *ret)
{
        static void *image;
        static size_t size;
        int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING), status;
        wt_answer *answer;

        if (!image)
                image = graph_cubin(&size);
        {
                WT_REQUEST(request, MODULE_LOAD, module_load, ModuleLoad, MODULE_LOAD, .bytes = size);

                cr_assert_eq(write(fd, image, size), (ssize_t)size);
                cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL), 0);
                answer = wt_wait(t, wt_send_call_fd(t, client, &request, fd));
        }
        status = answer->status;
        if (!status)
                *ret = answer->reply->module_load->module;
        wt_free(answer);
        close(fd);
        return status;
}
#define wt_open graph_open
#else
ds_unused static int graph_module(struct wt *t, struct wt_client *client, uint64_t *ret)
{
        return wt_module(t, client, DT_PTX, ret);
}
#endif

static struct side side_open(struct wt *t, uint64_t id, Detshare__Class class_)
{
        struct side side = {.client = wt_client(t, id, class_)};

        wt_attach(t, &side.client);
        cr_assert_eq(graph_module(t, &side.client, &side.module), 0);
        side.null = wt_kernel(t, &side.client, side.module, "null");
        side.poke = wt_kernel(t, &side.client, side.module, "poke");
        side.step = wt_kernel(t, &side.client, side.module, "step");
        side.traps = wt_kernel(t, &side.client, side.module, "traps");
        cr_assert_eq(wt_alloc(t, &side.client, 4096, &side.memory), 0);
        return side;
}

ds_unused static int create(struct wt *t, struct side *side, uint64_t *ret)
{
        WT_REQUEST(request, GRAPH_CREATE, graph_create, GraphCreate, GRAPH_CREATE, .bytes = file.bytes);
        int fd = gf_fd(&file), status;
        wt_answer *answer = wt_wait(t, wt_send_call_fd(t, &side->client, &request, fd));

        close(fd);
        status = answer->status;
        if (!status && ret)
                *ret = answer->reply->graph_create->graph;
        wt_free(answer);
        return status;
}

ds_unused static int update(struct wt *t, struct side *side, uint64_t graph)
{
        WT_REQUEST(request, GRAPH_UPDATE, graph_update, GraphUpdate, GRAPH_UPDATE, .bytes = file.bytes, .graph = graph);
        int fd = gf_fd(&file), status;
        wt_answer *answer = wt_wait(t, wt_send_call_fd(t, &side->client, &request, fd));

        close(fd);
        status = answer->status;
        wt_free(answer);
        return status;
}

ds_unused static int destroy(struct wt *t, struct side *side, uint64_t graph)
{
        WT_REQUEST(request, GRAPH_DESTROY, graph_destroy, GraphDestroy, GRAPH_DESTROY, .graph = graph);

        return wt_call_status(t, &side->client, &request);
}

ds_unused static void launch(struct side *side, uint32_t stream, uint64_t graph)
{
        struct ds_record_graph record = {.head = {DS_RECORD_GRAPH, (uint16_t)stream, sizeof(record)}, .graph = graph};

        wt_push(&side->client, &record, sizeof(record));
}

ds_unused static uint32_t word(struct wt *t, struct side *side, uint64_t offset)
{
        uint32_t value = 0;

        cr_assert_eq(wt_read(t, &side->client, &value, side->memory + offset, sizeof(value)), 0);
        return value;
}

/* Value that a chain of n steps makes of a start value; each step uses its node's number. */
ds_unused static uint32_t stepped(uint32_t value, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++)
                value = value * 3 + i;
        return value;
}

ds_unused static void steps(struct side *side, uint32_t n)
{
        gf_begin(&file);
        for (uint32_t i = 0; i < n; i++)
                gf_poke(&file, side->step, side->memory, i);
        gf_end(&file);
}
