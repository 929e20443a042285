/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs of the Driver API as data structures: edges, orders, copies, comparisons, bounds. No daemon is needed; the
 * programs of tests/programs run graphs.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "cuda/exec.h"
#include "cuda/graph.h"

static void start(void)
{
        cr_assert(dcu_objects_start());
        pthread_mutex_lock(&dcu.lock);
}

static void stop(void)
{
        pthread_mutex_unlock(&dcu.lock);
}

static struct dcu_graph *new_graph(void)
{
        struct dcu_graph *graph = dcu_graph_new();

        cr_assert(graph);
        return graph;
}

static struct dcu_node *empty(struct dcu_graph *graph)
{
        struct dcu_work *work = NULL;
        struct dcu_node *node = NULL;

        cr_assert_eq(dcu_work_empty(&work), CUDA_SUCCESS);
        cr_assert_eq(dcu_node_add(graph, work, NULL, 0, &node), CUDA_SUCCESS);
        return node;
}

static struct dcu_node *host(struct dcu_graph *graph)
{
        struct dcu_work *work = NULL;
        struct dcu_node *node = NULL;

        cr_assert_eq(dcu_work_host(free, NULL, &work), CUDA_SUCCESS);
        cr_assert_eq(dcu_node_add(graph, work, NULL, 0, &node), CUDA_SUCCESS);
        return node;
}

static CUresult add_child(struct dcu_graph *graph, const struct dcu_graph *child)
{
        struct dcu_work *work = NULL;
        struct dcu_node *node;
        CUresult r = dcu_work_child(child, &work);

        cr_assert_eq(r, CUDA_SUCCESS);
        r = dcu_node_add(graph, work, NULL, 0, &node);
        if (r != CUDA_SUCCESS)
                dcu_work_drop(work);
        return r;
}

static int comes_before(struct dcu_node **order, uint32_t n, const struct dcu_node *a, const struct dcu_node *b)
{
        for (uint32_t i = 0; i < n; i++) {
                if (order[i] == b)
                        return 0;
                if (order[i] == a)
                        return 1;
        }
        return 0;
}

/* Edges between nodes point against the order in which the nodes were added. */
Test(graphs, an_order_respects_all_edges, .init = start, .fini = stop)
{
        struct dcu_graph *graph = new_graph();
        struct dcu_node *n[50], **order = NULL;

        for (int i = 0; i < 50; i++)
                n[i] = empty(graph);
        for (int i = 0; i + 7 < 50; i++) {
                cr_assert_eq(dcu_node_connect(n[i + 1], n[i], NULL), CUDA_SUCCESS);
                cr_assert_eq(dcu_node_connect(n[i + 7], n[i], NULL), CUDA_SUCCESS);
        }
        cr_assert_eq(dcu_graph_order(graph, &order), CUDA_SUCCESS);
        for (int i = 0; i + 7 < 50; i++) {
                cr_expect(comes_before(order, 50, n[i + 1], n[i]));
                cr_expect(comes_before(order, 50, n[i + 7], n[i]));
        }
        free(order);
        /* closes a cycle, because n[30] depends on n[0] */
        cr_assert_eq(dcu_node_connect(n[0], n[30], NULL), CUDA_SUCCESS);
        cr_expect_eq(dcu_graph_order(graph, &order), CUDA_ERROR_INVALID_VALUE);
        cr_expect(dcu_node_disconnect(n[0], n[30]));
        cr_expect_not(dcu_node_disconnect(n[0], n[30]));
        cr_assert_eq(dcu_graph_order(graph, &order), CUDA_SUCCESS);
        free(order);
        dcu_graph_free(graph);
}

Test(graphs, a_node_that_goes_leaves_no_edge, .init = start, .fini = stop)
{
        struct dcu_graph *graph = new_graph();
        struct dcu_node *n[4];
        CUgraphNode gone;

        for (int i = 0; i < 4; i++)
                n[i] = empty(graph);
        for (int i = 0; i < 3; i++)
                cr_assert_eq(dcu_node_connect(n[i], n[i + 1], NULL), CUDA_SUCCESS);
        gone = dcu_handle(n[1]);
        dcu_node_remove(n[1]);
        cr_expect_null(dcu_node_of(gone));
        cr_expect_eq(graph->n_nodes, 3);
        cr_expect_eq(n[0]->n_users, 0);
        cr_expect_eq(n[2]->n_deps, 0);
        cr_expect_eq(n[2]->index, 1);
        cr_expect_eq(n[3]->index, 2);
        cr_expect_eq(n[3]->deps[0].node, n[2]);
        dcu_graph_free(graph);
}

Test(graphs, edges_are_checked_before_they_are_made, .init = start, .fini = stop)
{
        struct dcu_graph *graph = new_graph(), *other = new_graph();
        CUgraphNode own = dcu_handle(empty(graph)), second = dcu_handle(empty(graph)),
                    foreign = dcu_handle(empty(other));
        CUgraphNode twice[2] = {own, own}, both[2] = {own, second}, strange[2] = {own, foreign},
                    garbage = (CUgraphNode)5;
        CUgraphEdgeData bad = {.to_port = 1};
        struct dcu_edge *edges = NULL;

        cr_expect_eq(dcu_edges_of(graph, NULL, NULL, 0, &edges), CUDA_SUCCESS);
        cr_expect_eq(dcu_edges_of(graph, NULL, NULL, 1, &edges), CUDA_ERROR_INVALID_VALUE);
        cr_expect_eq(dcu_edges_of(graph, twice, NULL, 2, &edges), CUDA_ERROR_INVALID_VALUE);
        cr_expect_eq(dcu_edges_of(graph, strange, NULL, 2, &edges), CUDA_ERROR_INVALID_VALUE);
        cr_expect_eq(dcu_edges_of(graph, &garbage, NULL, 1, &edges), CUDA_ERROR_INVALID_VALUE);
        cr_expect_eq(dcu_edges_of(graph, &own, &bad, 1, &edges), CUDA_ERROR_INVALID_VALUE);
        cr_expect_null(edges);
        cr_expect_eq(dcu_edges_of(graph, both, NULL, 2, &edges), CUDA_SUCCESS);
        free(edges);
        dcu_graph_free(other);
        dcu_graph_free(graph);
}

Test(graphs, a_copy_is_equal_and_apart, .init = start, .fini = stop)
{
        CUgraphExecUpdateResultInfo info = {0};
        struct dcu_graph *graph = new_graph(), *clone = NULL;
        struct dcu_node *a = empty(graph), *b = host(graph);

        cr_assert_eq(dcu_node_connect(b, a, NULL), CUDA_SUCCESS);
        cr_assert_eq(dcu_graph_clone(graph, &clone), CUDA_SUCCESS);
        cr_expect_eq(clone->original, dcu_handle(graph));
        cr_expect_eq(clone->nodes[1]->original, dcu_handle(b));
        cr_expect_eq(clone->nodes[0]->deps[0].node, clone->nodes[1]);
        cr_expect_eq(dcu_graph_compare(clone, graph, &info), CU_GRAPH_EXEC_UPDATE_SUCCESS);
        dcu_node_disconnect(b, a);
        cr_expect_eq(clone->nodes[0]->n_deps, 1);
        cr_expect_neq(dcu_graph_compare(clone, graph, &info), CU_GRAPH_EXEC_UPDATE_SUCCESS);
        dcu_graph_free(graph);
        cr_expect_eq(clone->n_nodes, 2);
        dcu_graph_free(clone);
}

/* Two equal graphs whose nodes were added in different orders. */
Test(graphs, nodes_correspond_by_their_place_in_the_order, .init = start, .fini = stop)
{
        CUgraphExecUpdateResultInfo info = {0};
        struct dcu_graph *one = new_graph(), *two = new_graph();
        struct dcu_node *a = host(one), *b = empty(one), *d = empty(two), *c = host(two), *more;
        struct dcu_exec exec = {.graph = one};

        cr_assert_eq(dcu_node_connect(a, b, NULL), CUDA_SUCCESS);
        cr_assert_eq(dcu_node_connect(c, d, NULL), CUDA_SUCCESS);
        cr_expect_eq(dcu_graph_compare(one, two, &info), CU_GRAPH_EXEC_UPDATE_SUCCESS);
        cr_expect_eq(dcu_graph_take_over(&exec, one, two), CUDA_SUCCESS);
        cr_expect(!exec.stale && !exec.n_changed, "equal graphs need no new file");
        more = empty(two);
        cr_expect_eq(dcu_graph_compare(one, two, &info), CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
        cr_expect_null(info.errorNode);
        dcu_node_remove(more);
        dcu_node_disconnect(c, d);
        cr_assert_eq(dcu_node_connect(d, c, NULL), CUDA_SUCCESS);
        cr_expect_eq(dcu_graph_compare(one, two, &info), CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
        cr_expect_eq(info.errorNode, dcu_handle(d));
        dcu_graph_free(one);
        dcu_graph_free(two);
}

Test(graphs, graphs_in_graphs_count_and_are_bounded, .init = start, .fini = stop)
{
        struct dcu_graph *graph = new_graph(), *outer;

        empty(graph);
        for (uint32_t depth = 1; depth <= DCU_GRAPH_DEPTH_MAX; depth++) {
                outer = new_graph();
                cr_assert_eq(add_child(outer, graph), CUDA_SUCCESS);
                cr_expect_eq(outer->n_total, depth + 1);
                cr_expect_eq(outer->depth, depth);
                dcu_graph_free(graph);
                graph = outer;
        }
        outer = new_graph();
        cr_expect_eq(add_child(outer, graph), CUDA_ERROR_OUT_OF_MEMORY);
        dcu_graph_free(outer);
        dcu_graph_free(graph);
}

Test(graphs, the_number_of_nodes_is_bounded, .init = start, .fini = stop)
{
        struct dcu_graph *graph = new_graph();
        struct dcu_work *work = NULL;
        struct dcu_node *node;

        for (uint32_t i = 0; i < DCU_GRAPH_NODES_MAX; i++)
                empty(graph);
        cr_assert_eq(dcu_work_empty(&work), CUDA_SUCCESS);
        cr_expect_eq(dcu_node_add(graph, work, NULL, 0, &node), CUDA_ERROR_OUT_OF_MEMORY);
        dcu_work_drop(work);
        dcu_node_remove(graph->nodes[5]);
        empty(graph);
        dcu_graph_free(graph);
}
