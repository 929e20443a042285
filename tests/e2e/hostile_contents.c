/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Malicious files of graphs
 *
 * Each case writes one file (proto/wire.h), makes a graph from it and launches it, in its own process and session:
 * edges to later nodes, to themselves or to none, sizes and counts that overflow or lie, invalid records, kernels and
 * events of other sessions, parameters of a wrong size, copies and memsets that reach the neighbour's memory or wrap
 * around, graphs of the largest size, updates during a launch. Each ends as the table says. After each one a
 * neighbour's session compares all its bytes. The worker stays the same process.
 *
 * All cases run on a simulated device, and again on device `cuda` with the fake driver. The second run omits a kernel
 * that reaches the neighbour's memory, since a GPU does not isolate kernels from each other.
 *
 * usage: hostile_contents BUILD
 */
#include "tests/e2e/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"
#include "detshare/detshare.h"
#include "proto/wire.h"
#include "tests/e2e/neighbour.h"

#define PTXAS "tests/support/fake_cuda/ptxas"
#define OWN_BYTES 65536u
#define NODE sizeof(struct ds_graph_node)
#define ALL_DEPS 4000u /* number of nodes that depend on all earlier nodes: 32 MB of edges */

enum end {
        RUNS,    /* the graph is made, and its launch succeeds */
        FAULTS,  /* the launch ends with an error of the session */
        REFUSED, /* the graph is not made */
        _ENDS,
};

/* A graph's file under construction, and the data that its writer needs. */
struct file {
        uint8_t *at; /* DS_GRAPH_BYTES_MAX bytes, initially zero */
        uint64_t bytes;
        uint32_t n;
        dsc_session *s;
        uint64_t own, other; /* addresses of the session's own memory and of the neighbour's memory, OWN_BYTES each */
        uint64_t kernel;
};

/* --- files -------------------------------------------------------------------------------------------------------- */

/* Appends a node with room for n_deps edges. */
static struct ds_graph_node *add(struct file *f, const void *record, uint32_t size, uint32_t n_deps)
{
        struct ds_graph_node *node = (void *)(f->at + f->bytes);

        node->record_offset = (uint32_t)((NODE + n_deps * sizeof(uint32_t) + 7) / 8 * 8);
        node->n_deps = n_deps;
        node->size = (node->record_offset + size + 7) / 8 * 8;
        memcpy((uint8_t *)node + node->record_offset, record, size);
        f->bytes += node->size;
        f->n++;
        return node;
}

static uint32_t *deps(struct ds_graph_node *node)
{
        return (uint32_t *)(node + 1);
}

static struct ds_graph_node *add_empty(struct file *f, uint32_t n_deps)
{
        struct ds_record pad = {.type = DS_RECORD_PAD, .size = sizeof(pad)};

        return add(f, &pad, sizeof(pad), n_deps);
}

static struct ds_record_launch *add_launch(struct file *f, uint64_t p)
{
        struct {
                struct ds_record_launch launch;
                uint64_t p;
        } r = {.launch = {.head = {DS_RECORD_LAUNCH, 0, sizeof(r)},
                       .kernel = f->kernel,
                       .grid = {1, 1, 1},
                       .block = {1, 1, 1},
                       .params_size = sizeof(r.p)},
                .p = p};
        struct ds_graph_node *node = add(f, &r, sizeof(r), 0);

        return (void *)((uint8_t *)node + node->record_offset);
}

static struct ds_record_copy *add_copy(struct file *f, uint64_t dst, uint64_t src, uint64_t width, uint64_t height)
{
        struct ds_record_copy r = {.head = {DS_RECORD_COPY, 0, sizeof(r)},
                .kind = DSC_DTOD,
                .dst = dst,
                .src = src,
                .width = width,
                .height = height,
                .dst_pitch = width,
                .src_pitch = width};
        struct ds_graph_node *node = add(f, &r, sizeof(r), 0);

        return (void *)((uint8_t *)node + node->record_offset);
}

static struct ds_record_memset *add_memset(struct file *f, uint64_t dst, uint64_t width, uint64_t height)
{
        struct ds_record_memset r = {.head = {DS_RECORD_MEMSET, 0, sizeof(r)},
                .value = 7,
                .element_size = 1,
                .dst = dst,
                .width = width,
                .height = height,
                .pitch = width};
        struct ds_graph_node *node = add(f, &r, sizeof(r), 0);

        return (void *)((uint8_t *)node + node->record_offset);
}

static void add_value(struct file *f, uint64_t address, uint32_t bytes)
{
        struct ds_record_value r = {.head = {DS_RECORD_VALUE, 0, sizeof(r)},
                .kind = DS_VALUE_WRITE,
                .bytes = bytes,
                .address = address,
                .value = 1};

        add(f, &r, sizeof(r), 0);
}

static struct ds_graph_file *header(struct file *f)
{
        return (void *)f->at;
}

/* --- edges, sizes, counts ----------------------------------------------------------------------------------------- */

static void self_edge(struct file *f)
{
        deps(add_empty(f, 1))[0] = 0;
}

static void cycle(struct file *f)
{
        struct ds_graph_node *first = add_empty(f, 1);

        deps(first)[0] = 1;
        deps(add_empty(f, 1))[0] = 0;
}

static void edge_out_of_range(struct file *f)
{
        add_empty(f, 0);
        deps(add_empty(f, 1))[0] = UINT32_MAX;
}

static void edges_past_the_node(struct file *f)
{
        add_empty(f, 1)->n_deps = UINT32_MAX;
}

static void edges_that_wrap(struct file *f)
{
        add_empty(f, 1)->n_deps = 0x3ffffffe; /* this number times 4, plus the node's header, is 8 in 32 bits */
}

static void too_many_nodes(struct file *f)
{
        add_empty(f, 0);
        header(f)->n_nodes = DS_GRAPH_NODES_MAX + 1;
}

static void count_of_all_ones(struct file *f)
{
        add_empty(f, 0);
        header(f)->n_nodes = UINT32_MAX;
}

static void fewer_nodes_than_there_are(struct file *f)
{
        add_empty(f, 0);
        add_empty(f, 0);
        header(f)->n_nodes = 1;
}

static void other_bytes(struct file *f)
{
        add_empty(f, 0);
        header(f)->bytes = UINT64_MAX;
}

static void node_of_no_bytes(struct file *f)
{
        add_empty(f, 0)->size = 0;
        add_empty(f, 0);
}

static void node_of_all_bytes(struct file *f)
{
        add_empty(f, 0)->size = UINT32_MAX - 7;
}

static void node_of_odd_bytes(struct file *f)
{
        add_empty(f, 0)->size -= 1;
}

static void record_in_the_edges(struct file *f)
{
        add_empty(f, 8)->record_offset = NODE;
}

static void record_past_the_node(struct file *f)
{
        struct ds_graph_node *node = add_empty(f, 0);

        node->record_offset = node->size;
}

static void record_far_away(struct file *f)
{
        add_empty(f, 0)->record_offset = UINT32_MAX - 7;
}

static void unknown_flags(struct file *f)
{
        add_empty(f, 0)->flags = UINT32_MAX;
}

static void graph_in_itself(struct file *f)
{
        struct ds_record_graph r = {.head = {DS_RECORD_GRAPH, 0, sizeof(r)}, .graph = 1};

        add(f, &r, sizeof(r), 0);
}

static void wait_for_a_stream(struct file *f)
{
        struct ds_record_wait r = {.head = {DS_RECORD_WAIT, 0, sizeof(r)}, .other = UINT32_MAX, .seq = UINT64_MAX};

        add(f, &r, sizeof(r), 0);
}

static void unknown_record(struct file *f)
{
        struct ds_record r = {.type = UINT16_MAX, .size = sizeof(r)};

        add(f, &r, sizeof(r), 0);
}

static void record_of_no_bytes(struct file *f)
{
        add_launch(f, f->own)->head.size = 0;
}

static void record_of_all_bytes(struct file *f)
{
        add_launch(f, f->own)->head.size = UINT32_MAX;
}

/* --- objects that nodes name -------------------------------------------------------------------------------------- */

static void parameters_of_other_sizes(struct file *f)
{
        add_launch(f, f->own)->params_size = UINT32_MAX;
}

static void parameters_left_out(struct file *f)
{
        struct ds_record_launch *launch = add_launch(f, f->own);

        launch->params_size = 0;
        launch->head.size = sizeof(*launch);
}

static void unknown_kernel(struct file *f)
{
        add_launch(f, f->own)->kernel = UINT64_MAX;
}

/* Tries small numbers as the kernel of a launch: one of these is the neighbour's kernel, unless it is the session's
 * own. */
static void kernels_of_others(struct file *f)
{
        struct ds_record_launch *launch = add_launch(f, f->own);
        uint64_t graph;

        *header(f) = (struct ds_graph_file){.version = DS_WIRE_VERSION, .n_nodes = f->n, .bytes = f->bytes};
        for (uint64_t id = 0; id < 200; id++) {
                launch->kernel = id;
                if (id != f->kernel && dsc_graph_create(f->s, f->at, f->bytes, &graph) <= 0)
                        _exit(100);
        }
        launch->kernel = f->kernel + (UINT64_C(1) << 32);
}

static void no_blocks(struct file *f)
{
        add_launch(f, f->own)->grid[1] = 0;
}

static void block_of_all_threads(struct file *f)
{
        add_launch(f, f->own)->block[0] = UINT32_MAX;
}

static void all_the_shared_memory(struct file *f)
{
        add_launch(f, f->own)->shared_bytes = UINT32_MAX;
}

static void odd_cluster(struct file *f)
{
        add_launch(f, f->own)->cluster[2] = UINT16_MAX;
}

static void kernel_on_the_neighbour(struct file *f)
{
        add_launch(f, f->other);
}

static void memset_of_the_neighbour(struct file *f)
{
        add_memset(f, f->other, 16, 1);
}

static void memset_of_all(struct file *f)
{
        add_memset(f, f->own, UINT64_MAX, 1);
}

static void memset_that_wraps(struct file *f)
{
        add_memset(f, f->own, 16, UINT64_MAX / 16 + 2)->pitch = 16;
}

static void memset_of_a_huge_pitch(struct file *f)
{
        add_memset(f, f->own, 1, 3)->pitch = UINT64_MAX / 2 + 1;
}

static void memset_of_3_bytes_each(struct file *f)
{
        add_memset(f, f->own, 3, 1)->element_size = 3;
}

static void copy_from_the_neighbour(struct file *f)
{
        add_copy(f, f->own, f->other, 16, 1);
}

static void copy_to_the_neighbour(struct file *f)
{
        add_copy(f, f->other, f->own, 16, 1);
}

static void copy_from_this_process(struct file *f)
{
        add_copy(f, f->own, (uint64_t)(uintptr_t)f->at, 16, 1)->kind = DSC_HTOD;
}

static void copy_that_wraps(struct file *f)
{
        add_copy(f, f->own, f->own, UINT64_C(1) << 33, UINT64_C(1) << 31);
}

static void copy_of_narrow_rows(struct file *f)
{
        add_copy(f, f->own, f->own + 1024, 64, 4)->src_pitch = 8;
}

static void copy_of_an_unknown_kind(struct file *f)
{
        add_copy(f, f->own, f->own + 1024, 64, 1)->kind = UINT32_MAX;
}

static void copy_at_the_end_of_addresses(struct file *f)
{
        add_copy(f, UINT64_MAX - 7, f->own, 16, 1);
}

static void value_of_the_neighbour(struct file *f)
{
        add_value(f, f->other, 4);
}

static void value_of_3_bytes(struct file *f)
{
        add_value(f, f->own, 3);
}

static void misaligned_value(struct file *f)
{
        add_value(f, f->own + 2, 8);
}

static void unknown_event(struct file *f)
{
        struct ds_record_event r = {.head = {DS_RECORD_EVENT, 0, sizeof(r)}, .event = UINT64_MAX >> 1};

        add(f, &r, sizeof(r), 0);
}

/* --- large, unusual, and valid files ------------------------------------------------------------------------------ */

static void nothing(struct file *f)
{
}

static void as_many_nodes_as_may_be(struct file *f)
{
        while (f->n < DS_GRAPH_NODES_MAX)
                add_empty(f, 0);
}

static void all_depend_on_all(struct file *f)
{
        while (f->n < ALL_DEPS) {
                uint32_t n = f->n;
                uint32_t *to = deps(add_empty(f, n));

                for (uint32_t i = 0; i < n; i++)
                        to[i] = i;
        }
}

static void one_edge_many_times(struct file *f)
{
        add_empty(f, 0);
        add_empty(f, 4000000); /* all edges of this node lead to node 0 */
}

static void many_launches(struct file *f)
{
        while (f->n < 8192)
                add_launch(f, f->own);
}

static void no_bytes_anywhere(struct file *f)
{
        add_memset(f, f->own, 0, 0);
        add_copy(f, f->own, f->own, 0, 0);
        add_copy(f, 0, 0, 0, UINT64_MAX);
}

/* Alternates updates and launches, so that each launch has its graph replaced while it runs; destroys the graph
 * during the last launch. */
static void updates_under_launches(struct file *f)
{
        uint64_t graph;
        int r = 0;

        for (int i = 0; i < 64; i++)
                add_launch(f, f->own);
        *header(f) = (struct ds_graph_file){.version = DS_WIRE_VERSION, .n_nodes = f->n, .bytes = f->bytes};
        r = dsc_graph_create(f->s, f->at, f->bytes, &graph);
        for (int i = 0; i < 100 && !r; i++) {
                r = dsc_graph_launch(f->s, 0, graph, NULL);
                if (!r)
                        r = dsc_graph_update(f->s, graph, f->at, f->bytes);
        }
        if (r || dsc_graph_launch(f->s, 0, graph, NULL) || dsc_graph_destroy(f->s, graph) ||
                !dsc_graph_destroy(f->s, graph) || !dsc_graph_update(f->s, graph, f->at, f->bytes) ||
                !dsc_graph_update(f->s, UINT64_MAX, f->at, f->bytes))
                _exit(100);
}

static const struct {
        const char *name;
        enum end end;
        void (*write)(struct file *f);
        int sim_only;
} cases[] = {
#define CASE(end, name)             \
        {                           \
#name, end, name, 0 \
        }
        CASE(REFUSED, self_edge),
        CASE(REFUSED, cycle),
        CASE(REFUSED, edge_out_of_range),
        CASE(REFUSED, edges_past_the_node),
        CASE(REFUSED, edges_that_wrap),
        CASE(REFUSED, too_many_nodes),
        CASE(REFUSED, count_of_all_ones),
        CASE(REFUSED, fewer_nodes_than_there_are),
        CASE(REFUSED, other_bytes),
        CASE(REFUSED, node_of_no_bytes),
        CASE(REFUSED, node_of_all_bytes),
        CASE(REFUSED, node_of_odd_bytes),
        CASE(REFUSED, record_in_the_edges),
        CASE(REFUSED, record_past_the_node),
        CASE(REFUSED, record_far_away),
        CASE(REFUSED, unknown_flags),
        CASE(REFUSED, graph_in_itself),
        CASE(REFUSED, wait_for_a_stream),
        CASE(REFUSED, unknown_record),
        CASE(REFUSED, record_of_no_bytes),
        CASE(REFUSED, record_of_all_bytes),
        CASE(REFUSED, parameters_of_other_sizes),
        CASE(REFUSED, parameters_left_out),
        CASE(REFUSED, unknown_kernel),
        CASE(REFUSED, kernels_of_others),
        CASE(REFUSED, no_blocks),
        CASE(REFUSED, block_of_all_threads),
        CASE(REFUSED, all_the_shared_memory),
        CASE(REFUSED, odd_cluster),
        CASE(REFUSED, memset_of_the_neighbour),
        CASE(REFUSED, memset_of_all),
        CASE(REFUSED, memset_that_wraps),
        CASE(REFUSED, memset_of_a_huge_pitch),
        CASE(REFUSED, memset_of_3_bytes_each),
        CASE(REFUSED, copy_from_the_neighbour),
        CASE(REFUSED, copy_to_the_neighbour),
        CASE(REFUSED, copy_from_this_process),
        CASE(REFUSED, copy_that_wraps),
        CASE(REFUSED, copy_of_narrow_rows),
        CASE(REFUSED, copy_of_an_unknown_kind),
        CASE(REFUSED, copy_at_the_end_of_addresses),
        CASE(REFUSED, value_of_the_neighbour),
        CASE(REFUSED, value_of_3_bytes),
        CASE(REFUSED, misaligned_value),
        CASE(REFUSED, unknown_event),
        CASE(RUNS, nothing),
        CASE(RUNS, as_many_nodes_as_may_be),
        CASE(RUNS, all_depend_on_all),
        CASE(RUNS, one_edge_many_times),
        CASE(RUNS, many_launches),
        CASE(RUNS, no_bytes_anywhere),
        CASE(RUNS, updates_under_launches),
#undef CASE
        {"kernel_on_the_neighbour", FAULTS, kernel_on_the_neighbour, 1},
};

/* --- one case ----------------------------------------------------------------------------------------------------- */

static int begin(struct file *f, uint64_t other)
{
        struct dsc_kernel kernel = {.id = 0};
        uint64_t module;
        char log[1000];
        int error;

        f->other = other;
        f->bytes = sizeof(struct ds_graph_file);
        f->at = mmap(
                NULL, DS_GRAPH_BYTES_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        f->s = dsc_get(&error);
        if (f->at == MAP_FAILED || !f->s || dsc_mem_alloc(f->s, OWN_BYTES, &f->own) ||
                dsc_module_load(f->s, neighbour_ptx, sizeof(neighbour_ptx), log, sizeof(log), &module) ||
                dsc_kernel_get(f->s, module, "k", &kernel))
                return -1;
        f->kernel = kernel.id;
        return 0;
}

/* Runs one case in its own session. Returns how it ended; 100: it could not begin. */
static int attack(void (*write_file)(struct file *), uint64_t other)
{
        struct file f = {.n = 0};
        struct ds_graph_file *head;
        uint64_t graph;
        int r;

        if (begin(&f, other))
                return 100;
        write_file(&f);
        head = header(&f);
        head->version = DS_WIRE_VERSION;
        head->n_nodes = head->n_nodes ? head->n_nodes : f.n;
        head->bytes = head->bytes ? head->bytes : f.bytes;
        r = dsc_graph_create(f.s, f.at, f.bytes, &graph);
        if (r)
                return r > 0 ? REFUSED : 100;
        r = dsc_graph_launch(f.s, 0, graph, NULL);
        if (!r)
                r = dsc_wait_all(f.s);
        return r ? FAULTS : RUNS;
}

static void run(size_t i, const struct h_child *beside, uint64_t address)
{
        static const char *const words[] = {"ran", "faulted", "was refused"};
        uint64_t end = h_now_ms() + 120000, longest = 0;
        int status = -1;
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0)
                _exit(attack(cases[i].write, address));
        while (waitpid(pid, &status, WNOHANG) == 0 && h_now_ms() < end) {
                uint64_t now = h_now_ms();

                h_check(neighbour_is_right(beside, (char)i), "%s: the neighbour's bytes are wrong meanwhile",
                        cases[i].name);
                now = h_now_ms() - now;
                longest = now > longest ? now : longest;
                h_sleep_ms(1);
        }
        kill(pid, SIGKILL);
        h_check(WIFEXITED(status) && WEXITSTATUS(status) == (int)cases[i].end, "%s: %s, status %#x", cases[i].name,
                WIFEXITED(status) && WEXITSTATUS(status) < _ENDS ? words[WEXITSTATUS(status)] : "went wrong", status);
        h_check(neighbour_is_right(beside, (char)i), "%s: the neighbour's bytes are wrong", cases[i].name);
        if (longest > 100)
                printf("%s: a round of the neighbour took %llu ms at most\n", cases[i].name,
                        (unsigned long long)longest);
}

static void graphs(const char *build, const char *const *extra)
{
        struct h_status before, after = {0};
        struct h_child beside;
        uint64_t address = 0;

        h_daemon_start(build, "sim:h200", extra);
        before = h_quiet();
        beside = neighbour_start(&address);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                if (!cases[i].sim_only || h_simulated("sim:h200"))
                        run(i, &beside, address);
        neighbour_end(&beside);
        h_check(h_status(&after) == 0 && after.worker_restarts == 0 && after.worker_pid == before.worker_pid,
                "the worker was restarted %u times", after.worker_restarts);
        h_baseline(&before, 20000, "after hostile graphs");
}

/* Finds the paths of the fake driver and its compiler. Returns 0 if there are none. */
static int fake_driver(const char *build, char *libcuda, char *ptxas, size_t size)
{
        const char *place = getenv("DETSHARE_TEST_PLACE");
        char *here = realpath(PTXAS, NULL);

        snprintf(libcuda, size, "%s/libcuda.so.1", place && *place ? place : "");
        snprintf(ptxas, size, "%s/bin/ptxas", place ? place : "");
        if (!place || !*place) {
                snprintf(libcuda, size, "%s/fake_cuda/libcuda.so.1", build);
                snprintf(ptxas, size, "%s", here ? here : "");
        }
        free(here);
        return *ptxas && access(libcuda, R_OK) == 0;
}

/* With AddressSanitizer the fake driver takes longer for thousands of kernels than the supervisor's limit for a
 * silent worker. */
#ifdef __SANITIZE_ADDRESS__
#define ALSO_ON_CUDA 0
#else
#define ALSO_ON_CUDA 1
#endif

int main(int argc, char **argv)
{
        char libcuda[4096], ptxas[4096];
        const char *extra[] = {"--libcuda", libcuda, "--ptxas", ptxas, NULL};

        if (argc < 2)
                return 2;
        setbuf(stdout, NULL);
        graphs(argv[1], NULL);
        if (ALSO_ON_CUDA && h_simulated("sim:h200") && fake_driver(argv[1], libcuda, ptxas, sizeof(libcuda))) {
                h_daemon_stop();
                setenv("DETSHARE_TEST_DEVICE", "cuda:0", 1);
                graphs(argv[1], extra);
        }
        return h_finish();
}
