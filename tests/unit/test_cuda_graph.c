/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cuda device's graphs on the fake driver
 *
 * The bodies also run on a GPU (tests/gpu/device_cuda.c). Added here: driver calls that fail, a context that is lost
 * under a graph, and the worker on top.
 */
#define DT_SLAB DS_MIB(16) /* clearing a larger slab would take longer than most of these tests */
#define DT_HOST DS_MIB(8)  /* allocating the pages of more memory would take longer than most of these tests */
#include "tests/gpu/device_common.h"
#include "tests/gpu/device_graph.h"

#include "device/cuda/internal.h"

static void fake(const char *fail, const char *memops)
{
        setenv("DETSHARE_LIBCUDA", TEST_FAKE_CUDA, 1);
        setenv("PTXAS", TEST_PTXAS, 1);
        setenv("FAKE_CUDA_STRICT", "1", 1);
        if (fail)
                setenv("FAKE_CUDA_FAIL", fail, 1);
        if (memops)
                setenv("FAKE_CUDA_MEMOPS", memops, 1);
}

#define BODY(name)                                   \
        Test(cuda_graph, name, .timeout = 60)        \
        {                                            \
                fake(NULL, NULL);                    \
                dt_test_##name(&ds_cuda_ops, "0");   \
        }                                            \
        Test(cuda_graph_events, name, .timeout = 60) \
        {                                            \
                fake(NULL, "0");                     \
                dt_test_##name(&ds_cuda_ops, "0");   \
        }
BODY(graph)
BODY(graph_freed)
BODY(graph_taken)
BODY(graph_refused)
BODY(graph_branches)

/* The device builds one instance of a graph for each rung, on demand and in a quiesce. Launches on a rung go to that
 * rung's context, which the fake driver checks. */
Test(cuda_graph, each_rung_has_its_own, .timeout = 60)
{
        static struct dt_chain c;
        ds_device_graph *graph;
        ds_device_module *module;
        struct ds_tpc_mask half = dt_mask(0, 20);
        uint32_t rung;
        struct dt *t;

        fake(NULL, NULL);
        t = dt_open(&ds_cuda_ops, "0");
        cr_assert_eq(t->ops->rung_create(t->device, &half, &rung), 0);
        module = dt_load(t, DT_PTX);
        dt_chain_step(t, &c, module, "poke", DT_DEVICE_VA, 1);
        graph = dt_graph(t, &c);
        cr_assert_eq(t->ops->graph_build(t->device, graph, t->rung), 0);
        cr_assert_eq(t->ops->graph_ready(t->device, graph, rung), 0);
        cr_assert_eq(t->ops->graph_ready(t->device, graph, rung), 0);
        cr_assert_eq(t->ops->put_off(t->device), 1);
        t->ops->put_off_do(t->device);
        cr_assert_eq(t->ops->graph_ready(t->device, graph, rung), 1);
        dt_ok(t, dt_graph_launch(t, graph, t->stream));
        dt_ok(t, dt_graph_launch(t, graph, ds_device_stream(rung, 0, 3)));
        t->ops->graph_free(t->device, graph);
        cr_assert_eq(t->ops->put_off(t->device), 2);
        t->ops->put_off_do(t->device);
        dt_close(t);
}

/* The named driver call fails while a graph is built: the device does not retry, and destroys the parts that were
 * built. */
static void refuses(const char *call, int from)
{
        static struct dt_chain c;
        ds_device_graph *graph;
        ds_device_module *module;
        char fail[100];
        struct dt *t;

        snprintf(fail, sizeof(fail), "%s:%d:2", call, from);
        fake(fail, NULL);
        t = dt_open(&ds_cuda_ops, "0");
        module = dt_load(t, DT_PTX);
        dt_chain_step(t, &c, module, "poke", DT_DEVICE_VA, 1);
        dt_chain_add(&c, DS_NODE_NOTHING);
        dt_chain_copy(&c, DS_COPY_DTOD, DT_DEVICE_VA, DT_DEVICE_VA + 64, 4);
        dt_chain_add(&c, DS_NODE_MEMSET)->memset =
                (struct ds_memset){.dst = DT_DEVICE_VA, .element_size = 4, .width = 4, .height = 1};
        graph = dt_graph(t, &c);
        cr_assert_eq(t->ops->graph_build(t->device, graph, t->rung), DS_CUDA_OUT_OF_MEMORY);
        cr_assert_eq(t->ops->graph_ready(t->device, graph, t->rung), 0);
        cr_assert_eq(t->ops->put_off(t->device), 0, "not asked for again");
        dt_ok(t, dt_poke(t, module, "poke", t->stream, DT_DEVICE_VA, 1));
        t->ops->graph_free(t->device, graph);
        cr_assert_eq(t->ops->put_off(t->device), 0);
        dt_close(t);
}

#define REFUSED(call)                               \
        Test(cuda_graph_fails, call, .timeout = 60) \
        {                                           \
                refuses(#call, 1);                  \
        }
REFUSED(cuGraphCreate)
REFUSED(cuGraphAddKernelNode)
REFUSED(cuGraphAddEmptyNode)
REFUSED(cuGraphAddMemcpyNode)
REFUSED(cuGraphAddMemsetNode)
REFUSED(cuGraphInstantiate)
REFUSED(cuGraphUpload)

/* The driver refuses new parameters: the device destroys the instance and builds the new graph at the next launch. */
Test(cuda_graph_fails, new_parameters, .timeout = 60)
{
        static struct dt_chain a, b;
        ds_device_graph *from, *to;
        ds_device_module *module;
        struct dt *t;

        fake("cuGraphExecKernelNodeSetParams:1:999", NULL);
        t = dt_open(&ds_cuda_ops, "0");
        module = dt_load(t, DT_PTX);
        dt_chain_step(t, &a, module, "poke", DT_DEVICE_VA, 1);
        dt_chain_step(t, &b, module, "poke", DT_DEVICE_VA, 2);
        from = dt_graph(t, &a);
        to = dt_graph(t, &b);
        cr_assert_eq(t->ops->graph_build(t->device, from, t->rung), 0);
        t->ops->graph_take(t->device, from, to);
        cr_assert_eq(t->ops->put_off(t->device), 1);
        cr_assert_eq(t->ops->graph_ready(t->device, to, t->rung), 0);
        t->ops->put_off_do(t->device);
        cr_assert_eq(t->ops->graph_ready(t->device, to, t->rung), 1);
        dt_ok(t, dt_graph_launch(t, to, t->stream));
        t->ops->graph_free(t->device, from);
        t->ops->graph_free(t->device, to);
        t->ops->put_off_do(t->device);
        dt_close(t);
}

#define STEPS 8u

/* Launches a chain of steps with these values instead of its own. */
static uint64_t launch_with(struct dt *t, ds_device_graph *graph, uint32_t value)
{
        struct dt_poke_params all[STEPS] = {0};
        struct ds_graph_launch launch = {
                .stream = t->stream, .space = DT_SPACE, .graph = graph, .params = (const uint8_t *)all};
        uint64_t token = dt_token(t);

        for (uint32_t i = 0; i < STEPS; i++)
                all[i] = (struct dt_poke_params){.p = DT_DEVICE_VA, .value = value};
        cr_assert_eq(t->ops->graph_launch(t->device, &launch, token), 0);
        return token;
}

/* The driver refuses the parameters of a launch that was held: that launch and those behind it fail. */
Test(cuda_graph_fails, parameters_of_held_launches, .timeout = 60)
{
        enum { LAUNCHES = 100, BAD = 80 };
        static struct dt_chain c;
        uint64_t tokens[LAUNCHES];
        ds_device_graph *graph;
        ds_device_module *module;
        char fail[64];
        struct dt *t;

        _Static_assert(sizeof(struct dt_poke_params) == 16, "each from a multiple of 8 bytes on");
        snprintf(fail, sizeof(fail), "cuGraphExecKernelNodeSetParams:%u:2", BAD * STEPS + 1);
        fake(fail, NULL);
        t = dt_open(&ds_cuda_ops, "0");
        module = dt_load(t, DT_PTX);
        for (uint32_t i = 0; i < STEPS; i++)
                dt_chain_step(t, &c, module, "poke", DT_DEVICE_VA, 0);
        graph = dt_graph(t, &c);
        cr_assert_eq(t->ops->graph_build(t->device, graph, t->rung), 0);
        for (uint32_t i = 0; i < LAUNCHES; i++)
                tokens[i] = launch_with(t, graph, i + 1);
        cr_assert(cuda_hold_must(cuda_stream_at(t->device, t->stream)), "nothing was held");
        for (uint32_t i = 0; i < LAUNCHES; i++)
                cr_assert_eq(dt_wait(t, tokens[i])->status,
                        i < BAD    ? 0
                        : i == BAD ? DS_CUDA_OUT_OF_MEMORY
                                   : DS_CUDA_INVALID_HANDLE,
                        "launch %u", i);
        dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, 4);
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, 4));
        cr_assert_eq(*(volatile uint32_t *)DT_HOST_VA, BAD);
        t->ops->graph_free(t->device, graph);
        t->ops->put_off_do(t->device);
        dt_close(t);
}

static int stirred(struct dt *t, uint64_t *told)
{
        uint32_t divided;
        uint64_t stirs = t->ops->stirs(t->device, &divided), before = *told;

        cr_assert_eq(divided, 0, "nothing runs");

        *told = stirs;
        return stirs != before;
}

/* The device counts code and graphs that it adds to the context. It counts no reuse, no launch and no removal. */
Test(cuda_graph, counts_what_enters_the_context, .timeout = 60)
{
        const uint64_t va = DT_DEVICE_VA + 4 * DT_SLAB;
        static struct dt_chain c;
        ds_device_graph *graph;
        ds_device_module *module, *again;
        uint64_t told = 0;
        struct dt *t;
        int fd;

        fake(NULL, NULL);
        t = dt_open(&ds_cuda_ops, "0");
        cr_assert(stirred(t, &told), "memory");
        module = dt_load(t, DT_PTX);
        cr_assert(stirred(t, &told), "code");
        again = dt_load(t, DT_PTX);
        cr_assert_not(stirred(t, &told), "code that is there");
        cr_assert_eq(t->ops->mem_create(t->device, DT_SLAB, &fd), 0);
        cr_assert_not(stirred(t, &told), "memory that is nowhere");
        cr_assert_eq(t->ops->mem_map(t->device, DT_SPACE, fd, va, DT_SLAB), 0);
        cr_assert(stirred(t, &told), "memory");
        close(fd);
        dt_chain_step(t, &c, module, "poke", DT_DEVICE_VA, 1);
        graph = dt_graph(t, &c);
        cr_assert_not(stirred(t, &told), "a graph that nobody launches");
        cr_assert_eq(t->ops->graph_build(t->device, graph, t->rung), 0);
        cr_assert(stirred(t, &told), "a graph");
        cr_assert_eq(t->ops->graph_build(t->device, graph, t->rung), 0);
        dt_ok(t, dt_graph_launch(t, graph, t->stream));
        dt_ok(t, dt_poke(t, module, "poke", t->stream, DT_DEVICE_VA, 1));
        t->ops->graph_free(t->device, graph);
        t->ops->put_off_do(t->device);
        t->ops->module_unload(t->device, again);
        cr_assert_eq(t->ops->mem_unmap(t->device, DT_SPACE, va, DT_SLAB), 0);
        cr_assert_not(stirred(t, &told));
        cr_assert_eq(t->ops->limit_raise(t->device, DS_LIMIT_STACK_SIZE, 8192), 0);
        cr_assert(stirred(t, &told), "a limit");
        dt_close(t);
}

/* Kernels on all SMs are no reason for a settle (supervisor/settle.h). Kernels on a part of the SMs are, and the
 * device reports while one of them runs. */
Test(cuda_graph, kernels_on_part_of_the_sms_are_reported, .timeout = 60)
{
        struct ds_tpc_mask half = {.word = {0xff}};
        ds_device_module *module;
        uint64_t told = 0, token;
        uint32_t part, divided;
        struct dt *t;

        fake(NULL, NULL);
        t = dt_open(&ds_cuda_ops, "0");
        cr_assert_eq(t->ops->rung_create(t->device, &half, &part), 0);
        module = dt_load(t, DT_PTX);
        stirred(t, &told);
        dt_ok(t, dt_poke(t, module, "poke", t->stream, DT_DEVICE_VA, 1));
        cr_assert_not(stirred(t, &told));
        token = dt_poke(t, module, "poke", ds_device_stream(part, 0, 0), DT_DEVICE_VA, 2);
        (void)t->ops->stirs(t->device, &divided);
        cr_assert_eq(divided, 1, "until somebody asks what has ended");
        dt_ok(t, token);
        cr_assert(stirred(t, &told));
        cr_assert_not(stirred(t, &told));
        dt_close(t);
}

/* Instances of many removed graphs are destroyed a few at a time, so that a stop stays short. */
Test(cuda_graph, many_removed_graphs_go_a_few_at_a_time, .timeout = 60)
{
        static struct dt_chain c;
        ds_device_graph *graphs[100];
        ds_device_module *module;
        size_t left, times = 0;
        struct dt *t;

        fake(NULL, NULL);
        t = dt_open(&ds_cuda_ops, "0");
        module = dt_load(t, DT_PTX);
        dt_chain_step(t, &c, module, "poke", DT_DEVICE_VA, 1);
        for (size_t i = 0; i < DS_ARRAY_SIZE(graphs); i++) {
                graphs[i] = dt_graph(t, &c);
                cr_assert_eq(t->ops->graph_build(t->device, graphs[i], t->rung), 0);
        }
        for (size_t i = 0; i < DS_ARRAY_SIZE(graphs); i++)
                t->ops->graph_free(t->device, graphs[i]);
        for (left = t->ops->put_off(t->device); left; left = t->ops->put_off(t->device)) {
                t->ops->put_off_do(t->device);
                cr_assert_lt(t->ops->put_off(t->device), left);
                times++;
        }
        cr_assert_geq(times, 5);
        cr_assert_eq(t->device->graph_nodes, 0);
        dt_close(t);
}

/* A kernel of a graph ends the context: the graph is the suspect, and its pending operations complete with an error. */
Test(cuda_graph, a_fault, .timeout = 60)
{
        static struct dt_chain c;
        ds_device_graph *graph;
        ds_device_module *module;
        struct ds_graph_launch launch = {.space = DT_SPACE};
        uint64_t bad, behind;
        struct dt *t;

        fake(NULL, NULL);
        t = dt_open(&ds_cuda_ops, "0");
        module = dt_load(t, DT_PTX);
        dt_chain_step(t, &c, module, "poke", DT_DEVICE_VA, 1);
        dt_chain_step(t, &c, module, "poke", 0xdead0000, 1);
        graph = dt_graph(t, &c);
        cr_assert_eq(t->ops->graph_build(t->device, graph, t->rung), 0);
        bad = dt_graph_launch(t, graph, t->stream);
        /* launched while the fault is not known yet */
        behind = dt_token(t);
        launch.stream = t->stream;
        launch.graph = graph;
        if (t->ops->graph_launch(t->device, &launch, behind)) {
                t->next_token--;
                behind = bad;
        }
        dt_wait_all(t);
        cr_assert_eq(t->seen[bad].status, DS_CUDA_ILLEGAL_ADDRESS);
        cr_assert(strstr(t->seen[bad].message, "a graph of 2 kernels"), "%s", t->seen[bad].message);
        cr_assert_neq(t->seen[behind].status, 0);
        cr_assert_eq(t->ops->graph_ready(t->device, graph, t->rung), 0);
        t->ops->graph_free(t->device, graph);
        dt_close(t);
}
