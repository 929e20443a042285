/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test bodies for graphs that the device launches as a whole, on a GPU and on the fake driver
 *
 * Include device_common.h first.
 */
#pragma once

#define DT_GRAPH_NODES 200

/* A chain of nodes, each after its predecessor, and the data that its launches point to. */
struct dt_chain {
        struct ds_device_node nodes[DT_GRAPH_NODES];
        struct dt_poke_params params[DT_GRAPH_NODES];
        uint32_t deps[DT_GRAPH_NODES];
        uint32_t n;
};

ds_unused static struct ds_device_node *dt_chain_add(struct dt_chain *c, enum ds_device_node_kind kind)
{
        struct ds_device_node *node = &c->nodes[c->n];

        cr_assert(c->n < DT_GRAPH_NODES);
        memset(node, 0, sizeof(*node));
        node->kind = kind;
        c->deps[c->n] = c->n - 1;
        node->deps = &c->deps[c->n];
        node->n_deps = c->n != 0;
        c->n++;
        return node;
}

ds_unused static void dt_chain_step(
        struct dt *t, struct dt_chain *c, ds_device_module *module, const char *kernel, uint64_t p, uint32_t value)
{
        struct ds_device_node *node = dt_chain_add(c, DS_NODE_LAUNCH);

        c->params[c->n - 1] = (struct dt_poke_params){.p = p, .value = value};
        node->launch = dt_launch_of(t, module, kernel, 1, 1);
        node->launch.params = &c->params[c->n - 1];
        node->launch.params_size = 12;
}

ds_unused static void dt_chain_copy(struct dt_chain *c, enum ds_copy_kind kind, uint64_t dst, uint64_t src, uint64_t n)
{
        dt_chain_add(c, DS_NODE_COPY)->copy =
                (struct ds_copy){.kind = kind, .dst = dst, .src = src, .width = n, .height = 1};
}

ds_unused static ds_device_graph *dt_graph(struct dt *t, const struct dt_chain *c)
{
        ds_device_graph *graph = NULL;

        cr_assert_eq(t->ops->graph_new(t->device, DT_SPACE, c->nodes, c->n, &graph), 0);
        return graph;
}

ds_unused static uint64_t dt_graph_launch(struct dt *t, ds_device_graph *graph, uint32_t stream)
{
        struct ds_graph_launch launch = {.stream = stream, .space = DT_SPACE, .graph = graph, .timed = 1};
        uint64_t token = dt_token(t);

        cr_assert_eq(t->ops->graph_launch(t->device, &launch, token), 0);
        return token;
}

static inline uint32_t dt_stepped(uint32_t value, uint32_t n, uint32_t add)
{
        for (uint32_t i = 0; i < n; i++)
                value = value * 3 + i + add;
        return value;
}

/* Launches a graph with every kind of node, in order; several launches are queued in one stream. */
ds_unused static void dt_test_graph(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX);
        volatile uint32_t *host = (uint32_t *)DT_HOST_VA;
        static struct dt_chain c;
        ds_device_graph *graph;
        uint32_t want = 7;
        uint64_t last = 0;

        c.n = 0;
        dt_chain_add(&c, DS_NODE_NOTHING);
        for (uint32_t i = 0; i < 100; i++)
                dt_chain_step(t, &c, module, "step", DT_DEVICE_VA, i);
        dt_chain_copy(&c, DS_COPY_DTOH, DT_HOST_VA + 64, DT_DEVICE_VA, 4);
        dt_chain_copy(&c, DS_COPY_DTOD, DT_DEVICE_VA + 4096, DT_DEVICE_VA, 4);
        dt_chain_copy(&c, DS_COPY_HTOD, DT_DEVICE_VA + 8192, DT_HOST_VA + 128, 4);
        dt_chain_add(&c, DS_NODE_MEMSET)->memset = (struct ds_memset){
                .dst = DT_DEVICE_VA + 16384, .value = 0xabcd, .element_size = 2, .width = 5, .height = 3, .pitch = 32};
        host[32] = 4711;
        graph = dt_graph(t, &c);
        cr_assert_eq(ops->graph_ready(t->device, graph, t->rung), 0, "the graph is ready before it was instantiated");
        cr_assert_eq(ops->put_off(t->device), 1, "the instantiation is requested already");
        cr_assert_eq(ops->graph_build(t->device, graph, t->rung), 0);
        cr_assert_eq(ops->put_off(t->device), 0);
        cr_assert_eq(ops->graph_ready(t->device, graph, t->rung), 1);
        dt_poke(t, module, "poke", t->stream, DT_DEVICE_VA, want);
        for (int i = 0; i < 20; i++) {
                last = dt_graph_launch(t, graph, t->stream);
                want = dt_stepped(want, 100, 0);
        }
        dt_ok(t, last);
        cr_assert_eq(host[16], want);
        dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA + 4096, 4);
        dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA + 4, DT_DEVICE_VA + 8192, 4);
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA + 8, DT_DEVICE_VA + 16384 + 64, 12));
        cr_assert_eq(host[0], want);
        cr_assert_eq(host[1], 4711);
        cr_assert_eq(host[2], 0xabcdabcd);
        cr_assert_eq(host[4] & 0xffff, 0xabcd);
        cr_assert_neq(host[4] >> 16, 0xabcd);
        for (uint64_t token = 2; token < last; token++)
                cr_assert(t->seen[token].end_ns <= t->seen[token + 1].end_ns, "ends out of order");
        ops->graph_free(t->device, graph);
        cr_assert_eq(ops->put_off(t->device), 1, "an instantiated graph is destroyed in a quiesce");
        ops->put_off_do(t->device);
        cr_assert_eq(ops->put_off(t->device), 0);
        dt_close(t);
}

/* A graph is freed while launches are in flight, some of them not yet submitted to the GPU. */
ds_unused static void dt_test_graph_freed(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX);
        volatile uint32_t *host = (uint32_t *)DT_HOST_VA;
        static struct dt_chain c;
        ds_device_graph *graph;
        uint32_t want = 0;

        c.n = 0;
        for (uint32_t i = 0; i < 150; i++)
                dt_chain_step(t, &c, module, "step", DT_DEVICE_VA, i);
        graph = dt_graph(t, &c);
        cr_assert_eq(ops->graph_build(t->device, graph, t->rung), 0);
        dt_poke(t, module, "poke", t->stream, DT_DEVICE_VA, 0);
        for (int i = 0; i < 30; i++) {
                dt_graph_launch(t, graph, t->stream);
                want = dt_stepped(want, 150, 0);
        }
        cr_assert_null(ops->graph_free(t->device, graph));
        memset(&c, 0xff, sizeof(c)); /* after graph_free the device does not read the chain's data */
        ops->module_unload(t->device, module);
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, 4));
        cr_assert_eq(host[0], want);
        cr_assert(ops->put_off(t->device) >= 1);
        ops->put_off_do(t->device);
        dt_close(t);
}

/* New parameters of a graph apply to its later launches only. */
ds_unused static void dt_test_graph_taken(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX);
        volatile uint32_t *host = (uint32_t *)DT_HOST_VA;
        static struct dt_chain a, b;
        ds_device_graph *graphs[2], *other;
        uint32_t want = 3;

        for (int k = 0; k < 2; k++) {
                struct dt_chain *c = k ? &b : &a;

                c->n = 0;
                for (uint32_t i = 0; i < 40; i++)
                        dt_chain_step(t, c, module, "step", DT_DEVICE_VA, i + (uint32_t)k);
                dt_chain_copy(c, DS_COPY_DTOD, DT_DEVICE_VA + (k ? 8192 : 4096), DT_DEVICE_VA, 4);
                dt_chain_add(c, DS_NODE_MEMSET)->memset = (struct ds_memset){.dst = DT_DEVICE_VA + 16384,
                        .value = (uint32_t)k + 5,
                        .element_size = 4,
                        .width = 4,
                        .height = 1};
                graphs[k] = dt_graph(t, c);
        }
        cr_assert_eq(ops->graph_build(t->device, graphs[0], t->rung), 0);
        dt_poke(t, module, "poke", t->stream, DT_DEVICE_VA, want);
        dt_poke(t, module, "poke", t->stream, DT_DEVICE_VA + 4096, 1);
        dt_graph_launch(t, graphs[0], t->stream);
        ops->graph_take(t->device, graphs[0], graphs[1]);
        cr_assert_eq(ops->graph_ready(t->device, graphs[0], t->rung), 0);
        cr_assert_eq(ops->graph_ready(t->device, graphs[1], t->rung), 1);
        cr_assert_eq(ops->put_off(t->device), 0, "no graph waits to be instantiated or destroyed");
        ops->graph_free(t->device, graphs[0]);
        dt_graph_launch(t, graphs[1], t->stream);
        want = dt_stepped(want, 40, 0);
        dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, 4);
        dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA + 4, DT_DEVICE_VA + 4096, 4);
        dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA + 8, DT_DEVICE_VA + 8192, 4);
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA + 12, DT_DEVICE_VA + 16384, 4));
        cr_assert_eq(host[1], want);
        want = dt_stepped(want, 40, 1);
        cr_assert_eq(host[0], want);
        cr_assert_eq(host[2], want);
        cr_assert_eq(host[3], 6);
        /* an instantiated graph does not accept another kernel for a node */
        b.n = 0;
        for (uint32_t i = 0; i < 40; i++)
                dt_chain_step(t, &b, module, "poke", DT_DEVICE_VA, i);
        a.n = 0;
        for (uint32_t i = 0; i < 40; i++)
                dt_chain_step(t, &a, module, "step", DT_DEVICE_VA, i);
        ops->graph_free(t->device, graphs[1]);
        graphs[0] = dt_graph(t, &a);
        other = dt_graph(t, &b);
        cr_assert_eq(ops->graph_build(t->device, graphs[0], t->rung), 0);
        ops->graph_take(t->device, graphs[0], other);
        cr_assert_eq(ops->graph_ready(t->device, graphs[0], t->rung), 1, "the graph keeps its parameters");
        cr_assert_eq(ops->graph_ready(t->device, other, t->rung), 0);
        ops->put_off_do(t->device);
        cr_assert_eq(ops->graph_ready(t->device, other, t->rung), 1);
        dt_ok(t, dt_graph_launch(t, other, t->stream));
        ops->graph_free(t->device, graphs[0]);
        ops->graph_free(t->device, other);
        ops->put_off_do(t->device);
        dt_close(t);
}

/* Each rung instantiates its own graph; an invalid graph is refused when it is made or when it is instantiated. */
ds_unused static void dt_test_graph_refused(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX);
        struct ds_graph_launch launch = {.stream = t->stream, .space = DT_SPACE};
        static struct dt_chain c;
        ds_device_graph *graph = NULL;

        c.n = 0;
        dt_chain_copy(&c, DS_COPY_HTOH, DT_HOST_VA, DT_HOST_VA + 4096, 4);
        cr_assert_eq(ops->graph_new(t->device, DT_SPACE, c.nodes, c.n, &graph), DS_CUDA_NOT_SUPPORTED);
        c.n = 0;
        dt_chain_copy(&c, DS_COPY_DTOD, DT_DEVICE_VA, DT_DEVICE_VA + DT_SLAB - 2, 4);
        cr_assert_eq(ops->graph_new(t->device, DT_SPACE, c.nodes, c.n, &graph), DS_CUDA_INVALID_VALUE);
        c.n = 0;
        dt_chain_step(t, &c, module, "poke", DT_DEVICE_VA, 1);
        c.nodes[0].launch.block[0] = 5000;
        cr_assert_eq(ops->graph_new(t->device, DT_SPACE, c.nodes, c.n, &graph), DS_CUDA_INVALID_VALUE);
        c.nodes[0].launch.block[0] = 1;
        cr_assert_eq(ops->graph_new(t->device, 999, c.nodes, c.n, &graph), -ENOENT);
        graph = dt_graph(t, &c);
        launch.graph = graph;
        cr_assert_eq(ops->graph_launch(t->device, &launch, dt_token(t)), DS_CUDA_INVALID_HANDLE, "not built");
        t->next_token--;
        cr_assert_eq(ops->graph_build(t->device, graph, 63), -ENOENT);
        ops->graph_free(t->device, graph);
        cr_assert_eq(ops->put_off(t->device), 0);
        dt_close(t);
}

/* A graph with branches that join again. */
ds_unused static void dt_test_graph_branches(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX);
        volatile uint32_t *host = (uint32_t *)DT_HOST_VA;
        static struct dt_chain c;
        static const uint32_t root = 0, both[2] = {8, 9};
        ds_device_graph *graph;

        c.n = 0;
        dt_chain_copy(&c, DS_COPY_HTOD, DT_DEVICE_VA, DT_HOST_VA + 64, 8);
        for (uint32_t i = 0; i < 10; i++) {
                dt_chain_step(t, &c, module, "step", DT_DEVICE_VA + i % 2 * 4, i);
                c.deps[c.n - 1] = i < 2 ? root : c.n - 3;
        }
        dt_chain_copy(&c, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, 8);
        c.nodes[c.n - 1].deps = both;
        c.nodes[c.n - 1].n_deps = 2;
        c.deps[9] = 7;
        c.deps[10] = 8;
        host[16] = 1;
        host[17] = 2;
        graph = dt_graph(t, &c);
        cr_assert_eq(ops->graph_build(t->device, graph, t->rung), 0);
        dt_ok(t, dt_graph_launch(t, graph, t->stream));
        dt_ok(t, dt_graph_launch(t, graph, t->stream));
        cr_assert_eq(host[0], ((((1 * 3 + 0) * 3 + 2) * 3 + 4) * 3 + 6) * 3 + 8);
        cr_assert_eq(host[1], ((((2 * 3 + 1) * 3 + 3) * 3 + 5) * 3 + 7) * 3 + 9);
        ops->graph_free(t->device, graph);
        ops->put_off_do(t->device);
        dt_close(t);
}
