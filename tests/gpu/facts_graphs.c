/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts: the cost of a graph launch by the way the graph was built, and the priority of its kernels
 *
 * A graph that DetShare's worker builds node by node for a green context takes longer than the same graph captured by
 * the program itself, when it is launched and awaited alternately, but not when many are queued. Therefore, this
 * section builds one chain of short kernels in every way between those two, one difference at a time. It measures all
 * ways in rounds, so that drift affects all equally. It prints four times for each:
 *
 *   call    the host's time in cuGraphLaunch (for plain launches: in all calls)
 *   alone   from before the launch until its end is known, nothing else in flight; with the row's events or upload
 *   span    the GPU's time between an event recorded before and one after, alone
 *   queued  time per graph, when 20 are launched in a row and awaited together
 *
 * Then it measures a graph of 50 small kernels beside a kernel that fills every SM with blocks of 100 us for 20 ms. It
 * does so for every combination of the nodes' priority, the priority of the stream, and the flag that selects which of
 * them counts.
 *
 * Kernels spin until a deadline. Waits of the host have one, or the section's alarm ends them. Rounds that do not fit
 * into BUDGET_US are left out: "n" is the number of measurements of a row. A simulated device shows only that the calls
 * are right: its tables say "sim" and are short.
 */
#include "facts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BUDGET_US 18e6
#define CHAIN_BLOCKS 8
#define CHAIN_THREADS 128
#define CHAIN_MAX 302    /* most nodes of a chain: 300 kernels and two others */
#define QUEUED 20        /* graphs launched in a row */
#define SPIN_NS 2000     /* time that a kernel spins, ns: the kernel takes about 3 us including its start and end */
#define BESIDE_NODES 50  /* nodes of the graph beside the full GPU */
#define BESIDE_NS 100000 /* time of one of the blocks that fill the GPU, ns */
#define BESIDE_WAVES 200 /* waves of these blocks: 20 ms in all */
#define BESIDE_RUNS 15   /* number of runs of each row */
#define PAGE ((size_t)65536)

enum build {
        CAPTURED,  /* graph captured on the stream that it is launched into */
        BY_FUNC,   /* graph built node by node, from a CUfunction */
        BY_KERNEL, /* graph built node by node, from a CUkernel and a context */
        PLAIN,     /* no graph: every kernel is launched */
};

enum stream {
        PRIMARY, /* primary context, lowest priority */
        GREEN,   /* green context over all SMs, highest priority */
        OTHER,   /* a second stream with the properties of GREEN */
        LOW,     /* green context, lowest priority */
        BESIDE,  /* a second stream with the properties of LOW, for the kernel that fills the GPU */
        N_STREAMS,
};

struct row {
        char id;
        enum build build;
        enum stream stream, upload;
        bool green;  /* nodes name the green context, not the primary one */
        bool events; /* an event is recorded before the launch and one after it */
        bool word;   /* the stream writes a value after the graph, and the host polls it */
        bool high;   /* each node has the highest priority */
        bool extras; /* the graph has an empty node in the middle and a memset at the end */
        unsigned int flags;
        const char *what;

        bool ready;
        CUgraph graph;
        CUgraphExec exec;
        unsigned int n_over; /* runs in which the kernel that fills the GPU ended before the graph */
        struct series call, alone, span, queued;
};

#define NODE_PRIORITY CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY
#define AS_TORCH (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

static struct row rows[] = {
        {.id = 'a', .build = CAPTURED, .what = "captured on a stream of the primary context, launched there"},
        {.id = 'b', .build = CAPTURED, .events = true, .what = "as a, an event recorded before and one after"},
        {.id = 'c', .build = BY_FUNC, .what = "nodes added one by one: func, primary context"},
        {.id = 'd', .build = BY_KERNEL, .what = "nodes added one by one: kern, ctx = the primary context"},
        {.id = 'e',
                .build = BY_KERNEL,
                .green = true,
                .stream = GREEN,
                .upload = GREEN,
                .what = "nodes added one by one: kern, ctx = a green context of all SMs; launched on a high stream of "
                        "it"},
        {.id = 'f',
                .build = BY_KERNEL,
                .green = true,
                .stream = OTHER,
                .upload = GREEN,
                .what = "as e, uploaded on another high stream of the green context"},
        {.id = 'g',
                .build = CAPTURED,
                .stream = GREEN,
                .upload = GREEN,
                .what = "captured on a high stream of the green context, launched there"},
        {.id = 'h',
                .build = BY_KERNEL,
                .green = true,
                .stream = GREEN,
                .upload = GREEN,
                .high = true,
                .what = "as e, the greatest priority on each node"},
        {.id = 'i',
                .build = BY_KERNEL,
                .green = true,
                .stream = GREEN,
                .upload = GREEN,
                .extras = true,
                .what = "as e, an empty node in the middle and a memset of 1 KiB at the end"},
        {.id = 'j', .build = PLAIN, .stream = GREEN, .what = "no graph: plain launches on the high green stream"},
        {.id = 'k',
                .build = BY_KERNEL,
                .green = true,
                .stream = GREEN,
                .upload = GREEN,
                .events = true,
                .word = true,
                .what = "as e, events before and after, then a value written, and the host reads that (the worker)"},
        {.id = 'l',
                .build = CAPTURED,
                .flags = AS_TORCH,
                .what = "as a, with PyTorch's flags: node priority, auto free"},
        {.id = 'm',
                .build = BY_KERNEL,
                .green = true,
                .stream = GREEN,
                .upload = GREEN,
                .high = true,
                .flags = NODE_PRIORITY,
                .what = "as h, with the flag that nodes' priorities count"},
        {.id = 'n',
                .build = BY_KERNEL,
                .green = true,
                .stream = LOW,
                .upload = LOW,
                .what = "as e, launched on a low stream"},
};

#define RANK(ID, STREAM, HIGH, FLAGS, WHAT)                                                                    \
        {                                                                                                      \
                .id = ID, .build = BY_KERNEL, .green = true, .stream = STREAM, .upload = STREAM, .high = HIGH, \
                .flags = FLAGS, .what = WHAT                                                                   \
        }
static struct row ranks[] = {
        RANK('1', LOW, false, 0, "nodes of default priority, launched on a low stream"),
        RANK('2', GREEN, false, 0, "nodes of default priority, launched on a high stream"),
        RANK('3', LOW, true, 0, "nodes of greatest priority, launched on a low stream"),
        RANK('4', GREEN, true, 0, "nodes of greatest priority, launched on a high stream"),
        RANK('5', LOW, false, NODE_PRIORITY, "as 1, with the flag that nodes' priorities count"),
        RANK('6', GREEN, false, NODE_PRIORITY, "as 2, with the flag"),
        RANK('7', LOW, true, NODE_PRIORITY, "as 3, with the flag"),
        RANK('8', GREEN, true, NODE_PRIORITY, "as 4, with the flag"),
        {.id = '9', .build = PLAIN, .stream = LOW, .what = "no graph: plain launches on a low stream"},
        {.id = '0', .build = PLAIN, .stream = GREEN, .what = "no graph: plain launches on a high stream"},
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))
#define N_RANKS (sizeof(ranks) / sizeof(ranks[0]))

/* Repetitions of each row per round, and the spin time of kernels. */
static struct {
        unsigned int rounds, warm, alone, span, batches, queued;
        uint64_t spin_ns, beside_ns;
} plan = {4, 3, 50, 10, 3, QUEUED, SPIN_NS, BESIDE_NS};

static struct {
        CUcontext green;
        CUstream streams[N_STREAMS];
        CUkernel kern;
        CUfunction func;
        CUevent before, after, done, beside;
        CUdeviceptr scratch;
        volatile uint64_t *word;
        uint64_t number; /* value that the stream wrote last */
        unsigned int sms;
        bool sim;
        double begun;
} g;

static bool late(void)
{
        return !g.sim && now_us() - g.begun > BUDGET_US;
}

/* --- setup -------------------------------------------------------------------------------------------------------- */

/* Creates a green context over all SMs, undivided, as the worker does. */
static bool green_open(void)
{
        static const bool high[N_STREAMS] = {[GREEN] = true, [OTHER] = true};
        CUdevResourceDesc descriptor;
        CUdevResource all;
        CUgreenCtx made;

        if (!TRY(cu.cuDeviceGetDevResource(gpu.device, &all, CU_DEV_RESOURCE_TYPE_SM)) ||
                !TRY(cu.cuDevResourceGenerateDesc(&descriptor, &all, 1)) ||
                !TRY(cu.cuGreenCtxCreate(&made, descriptor, gpu.device, CU_GREEN_CTX_DEFAULT_STREAM)) ||
                !TRY(cu.cuCtxFromGreenCtx(&g.green, made)))
                return false;
        for (int i = GREEN; i < N_STREAMS; i++)
                if (!TRY(cu.cuGreenCtxStreamCreate(
                            &g.streams[i], made, CU_STREAM_NON_BLOCKING, high[i] ? gpu.high : gpu.low)))
                        return false;
        return true;
}

/* Allocates the target of the memset. */
static bool scratch_open(void)
{
        CUmemGenericAllocationHandle handle;

        return TRY(cu.cuMemAddressReserve(&g.scratch, MIB(2), 0, 0, 0)) && TRY(vmm_create(&handle, MIB(2))) &&
               TRY(cu.cuMemMap(g.scratch, MIB(2), 0, handle, 0)) && TRY(vmm_access(g.scratch, MIB(2)));
}

static bool word_open(void)
{
        void *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

        g.word = memory;
        return memory != MAP_FAILED &&
               TRY(cu.cuMemHostRegister(memory, PAGE, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
}

static void say_machine(void)
{
        int version = 0, sms = 0;
        char name[128] = "";

        TRY(cu.cuDriverGetVersion(&version));
        TRY(cu.cuDeviceGetName(name, sizeof(name), gpu.device));
        TRY(cu.cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu.device));
        g.sms = (unsigned int)sms;
        g.sim = strstr(name, "DetShare") != NULL;
        fact("%sdevice %s, driver %d, %d SMs, priorities %d (least) to %d", g.sim ? "sim, figures say nothing: " : "",
                name, version, sms, gpu.low, gpu.high);
}

/* Creates all streams and contexts that the driver can; rows that need a missing one are not built. */
static bool graphs_open(void)
{
        if (!gpu_start())
                fact("no groups of SMs");
        if (!gpu.primary || !TRY(cu.cuLibraryLoadData(&gpu.library, image, NULL, NULL, 0, NULL, NULL, 0)) ||
                !TRY(cu.cuStreamCreateWithPriority(&g.streams[PRIMARY], CU_STREAM_NON_BLOCKING, gpu.low)) ||
                !TRY(cu.cuEventCreate(&g.before, CU_EVENT_DEFAULT)) ||
                !TRY(cu.cuEventCreate(&g.after, CU_EVENT_DEFAULT)) ||
                !TRY(cu.cuEventCreate(&g.done, CU_EVENT_DISABLE_TIMING)) ||
                !TRY(cu.cuEventCreate(&g.beside, CU_EVENT_DISABLE_TIMING)))
                return false;
        say_machine();
        if (g.sim)
                plan = (__typeof__(plan)){1, 0, 1, 1, 1, 2, 1, 1000};
        g.kern = (CUkernel)kernel("spin");
        TRY(cu.cuKernelGetFunction(&g.func, g.kern));
        if (!green_open())
                fact("no green context: rows that need one are left out");
        if (!scratch_open())
                g.scratch = 0;
        if (!word_open())
                g.word = NULL;
        return true;
}

/* --- building ----------------------------------------------------------------------------------------------------- */

static CUresult launch_all(CUstream stream, unsigned int n)
{
        CUresult result = CUDA_SUCCESS;

        for (unsigned int i = 0; !result && i < n; i++)
                result = launch_spin(stream, CHAIN_BLOCKS, CHAIN_THREADS, plan.spin_ns);
        return result;
}

static bool capture(struct row *row, unsigned int n)
{
        CUstream stream = g.streams[row->stream];
        bool good;

        if (!TRY(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)))
                return false;
        good = TRY(launch_all(stream, n));
        return TRY(cu.cuStreamEndCapture(stream, &row->graph)) && good && row->graph;
}

static bool add_kernel(struct row *row, const CUgraphNode *after, CUgraphNode *ret)
{
        const CUkernelNodeAttrValue priority = {.priority = gpu.high};
        uint64_t ns = plan.spin_ns;
        size_t size = sizeof(ns);
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &ns, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
        CUDA_KERNEL_NODE_PARAMS params = {.gridDimX = CHAIN_BLOCKS,
                .gridDimY = 1,
                .gridDimZ = 1,
                .blockDimX = CHAIN_THREADS,
                .blockDimY = 1,
                .blockDimZ = 1,
                .extra = extra};

        if (row->build == BY_FUNC)
                params.func = g.func;
        else
                params.kern = g.kern;
        if (row->build == BY_KERNEL)
                params.ctx = row->green ? g.green : gpu.primary;
        if (!TRY(cu.cuGraphAddKernelNode(ret, row->graph, after, after != NULL, &params)))
                return false;
        return !row->high || TRY(cu.cuGraphKernelNodeSetAttribute(*ret, CU_LAUNCH_ATTRIBUTE_PRIORITY, &priority));
}

static bool add_memset(struct row *row, const CUgraphNode *after, CUgraphNode *ret)
{
        const CUDA_MEMSET_NODE_PARAMS params = {.dst = g.scratch, .elementSize = 4, .width = 256, .height = 1};

        return g.scratch &&
               TRY(cu.cuGraphAddMemsetNode(ret, row->graph, after, 1, &params, row->green ? g.green : gpu.primary));
}

static bool add_all(struct row *row, unsigned int n)
{
        CUgraphNode nodes[CHAIN_MAX];
        unsigned int made = 0;

        if (!TRY(cu.cuGraphCreate(&row->graph, 0)))
                return false;
        for (unsigned int i = 0; i < n; i++) {
                if (row->extras && i == n / 2) {
                        if (!TRY(cu.cuGraphAddEmptyNode(&nodes[made], row->graph, &nodes[made - 1], 1)))
                                return false;
                        made++;
                }
                if (!add_kernel(row, made ? &nodes[made - 1] : NULL, &nodes[made]))
                        return false;
                made++;
        }
        return !row->extras || add_memset(row, &nodes[made - 1], &nodes[made]);
}

static bool can_build(const struct row *row)
{
        return g.streams[row->stream] && g.streams[row->upload] && (!row->green || g.green) && (!row->word || g.word);
}

static bool row_build(struct row *row, unsigned int n)
{
        row->graph = NULL;
        row->exec = NULL;
        if (!can_build(row))
                return false;
        if (row->build == PLAIN)
                return true;
        return (row->build == CAPTURED ? capture(row, n) : add_all(row, n)) &&
               TRY(cu.cuGraphInstantiate(&row->exec, row->graph, row->flags)) &&
               TRY(cu.cuGraphUpload(row->exec, g.streams[row->upload])) &&
               TRY(cu.cuStreamSynchronize(g.streams[row->upload]));
}

static void row_drop(struct row *row)
{
        if (row->exec)
                TRY(cu.cuGraphExecDestroy(row->exec));
        if (row->graph)
                TRY(cu.cuGraphDestroy(row->graph));
        row->exec = NULL;
        row->graph = NULL;
        row->ready = false;
}

static const char *context_name(CUcontext context)
{
        if (!context)
                return "none";
        return context == g.green ? "green" : context == gpu.primary ? "primary" : "another";
}

/* Prints how the driver describes a node of the row. */
static void say_node(const struct row *row)
{
        CUDA_KERNEL_NODE_PARAMS params = {0};
        CUkernelNodeAttrValue value = {0};
        CUgraphNode node = NULL;
        size_t n = 1;

        if (!row->graph || !TRY(cu.cuGraphGetNodes(row->graph, &node, &n)) || !n ||
                !TRY(cu.cuGraphKernelNodeGetParams(node, &params)) ||
                !TRY(cu.cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value)))
                return;
        fact("a node of %c: func %s, kern %s, context %s, priority %d", row->id, params.func ? "yes" : "no",
                params.kern ? "yes" : "no", context_name(params.ctx), value.priority);
}

/* --- measuring ---------------------------------------------------------------------------------------------------- */

/* Submits the row's chain of n kernels; *ret_call_us: time of the launch call itself. */
static CUresult row_issue(struct row *row, unsigned int n, double *ret_call_us)
{
        CUstream stream = g.streams[row->stream];
        CUresult result = CUDA_SUCCESS;
        double t;

        if (row->events)
                result = cu.cuEventRecord(g.before, stream);
        t = now_us();
        if (!result)
                result = row->build == PLAIN ? launch_all(stream, n) : cu.cuGraphLaunch(row->exec, stream);
        *ret_call_us = now_us() - t;
        if (!result && row->events)
                result = cu.cuEventRecord(g.after, stream);
        if (!result && row->word)
                result = cu.cuStreamWriteValue64(stream, (CUdeviceptr)(uintptr_t)g.word, ++g.number, 0);
        return result;
}

static CUresult row_await(const struct row *row)
{
        CUstream stream = g.streams[row->stream];
        double end;

        if (!row->word)
                return cu.cuStreamSynchronize(stream);
        end = now_us() + 1e6;
        while (*g.word != g.number) {
                if (g.sim) /* simulated time moves only during calls */
                        cu.cuStreamQuery(stream);
                if (now_us() > end)
                        return CUDA_ERROR_NOT_READY;
        }
        return CUDA_SUCCESS;
}

static bool row_alone(struct row *row, unsigned int n, bool count)
{
        double t = now_us(), call;

        if (!facts_check(row_issue(row, n, &call), row->what) || !TRY(row_await(row)))
                return false;
        t = now_us() - t;
        if (count) {
                series_add(&row->call, call);
                series_add(&row->alone, t);
        }
        return true;
}

static bool row_span(struct row *row, unsigned int n)
{
        CUstream stream = g.streams[row->stream];
        double call;
        float ms;

        if (!row->events && !TRY(cu.cuEventRecord(g.before, stream)))
                return false;
        if (!facts_check(row_issue(row, n, &call), row->what) ||
                (!row->events && !TRY(cu.cuEventRecord(g.after, stream))) || !TRY(cu.cuStreamSynchronize(stream)) ||
                !TRY(cu.cuEventElapsedTime(&ms, g.before, g.after)))
                return false;
        series_add(&row->span, (double)ms * 1e3);
        return true;
}

static bool row_queued(struct row *row, unsigned int n)
{
        double t = now_us(), call;

        for (unsigned int i = 0; i < plan.queued; i++)
                if (!facts_check(row_issue(row, n, &call), row->what))
                        return false;
        if (!TRY(row_await(row)))
                return false;
        series_add(&row->queued, (now_us() - t) / plan.queued);
        return true;
}

/* Measures a row once; a row that has failed is not measured again. */
static void row_round(struct row *row, unsigned int n)
{
        bool good = row->ready && !late();

        for (unsigned int i = 0; good && i < plan.warm; i++)
                good = row_alone(row, n, false);
        for (unsigned int i = 0; good && i < plan.alone; i++)
                good = row_alone(row, n, true);
        for (unsigned int i = 0; good && i < plan.span; i++)
                good = row_span(row, n);
        for (unsigned int i = 0; good && i < plan.batches; i++)
                good = row_queued(row, n);
        row->ready &= good || late();
}

static void row_say(struct row *row, double first)
{
        unsigned int n = row->alone.n;
        double alone = series_at(&row->alone, 0.5);

        if (n == 0)
                fact("%c %59s %s", row->id, "not measured", row->what);
        else
                fact("%c %8.1f %9.1f %9.1f %+8.1f %9.1f %9.1f %4u %s", row->id, series_at(&row->call, 0.5), alone,
                        series_at(&row->alone, 0.9), first > 0 ? alone - first : 0, series_at(&row->span, 0.5),
                        series_at(&row->queued, 0.5), n, row->what);
        row->call.n = row->alone.n = row->span.n = row->queued.n = 0;
}

static void table(unsigned int n, bool say_nodes)
{
        double first;

        for (size_t i = 0; i < N_ROWS; i++)
                rows[i].ready = row_build(&rows[i], n);
        for (size_t i = 0; i < N_ROWS; i++)
                if (say_nodes && rows[i].ready)
                        say_node(&rows[i]);
        for (unsigned int round = 0; round < plan.rounds; round++)
                for (size_t i = 0; i < N_ROWS; i++)
                        row_round(&rows[i], n);
        fact("%s%u kernels of %d blocks that spin for %d us; medians in us; queued: %u times %u", g.sim ? "sim: " : "",
                n, CHAIN_BLOCKS, (int)(plan.spin_ns / 1000), plan.rounds * plan.batches, plan.queued);
        fact("  %8s %9s %9s %8s %9s %9s %4s", "call", "alone", "its p90", "to a", "span", "queued", "n");
        first = series_at(&rows[0].alone, 0.5);
        for (size_t i = 0; i < N_ROWS; i++)
                row_say(&rows[i], first);
        for (size_t i = 0; i < N_ROWS; i++)
                row_drop(&rows[i]);
}

/* --- priority ----------------------------------------------------------------------------------------------------- */

static unsigned int beside_blocks(void)
{
        return g.sim ? 4 : 2 * g.sms * BESIDE_WAVES;
}

static bool beside_begin(void)
{
        double until;

        if (!TRY(launch_spin(g.streams[BESIDE], beside_blocks(), 1024, plan.beside_ns)) ||
                !TRY(cu.cuEventRecord(g.beside, g.streams[BESIDE])))
                return false;
        until = now_us() + 1000; /* waits until the kernel fills the GPU */
        while (!g.sim && now_us() < until)
                ;
        return true;
}

static bool rank_once(struct row *row)
{
        double t, call;

        if (!beside_begin())
                return false;
        t = now_us();
        if (!facts_check(row_issue(row, BESIDE_NODES, &call), row->what) ||
                !TRY(cu.cuEventRecord(g.done, g.streams[row->stream])) || !TRY(wait_event(g.done, 200e3)))
                return false;
        series_add(&row->alone, now_us() - t);
        row->n_over += cu.cuEventQuery(g.beside) != CUDA_ERROR_NOT_READY;
        return TRY(wait_event(g.beside, 200e3));
}

static void rank_say(struct row *row)
{
        unsigned int n = row->alone.n;

        if (n == 0)
                fact("%c %44s %s", row->id, "not measured", row->what);
        else
                fact("%c %9.1f %9.1f %9.1f %4u %9u %s", row->id, series_at(&row->alone, 0.5), series_at(&row->alone, 0),
                        series_at(&row->alone, 1), n, row->n_over, row->what);
        row->alone.n = 0;
}

/* Prints the two references: the graph on an idle GPU, and the kernel beside it alone. */
static void say_apart(struct row *row)
{
        double t;

        for (unsigned int i = 0; row->ready && i < (g.sim ? 1 : 20); i++)
                row->ready = row_alone(row, BESIDE_NODES, true);
        fact("%snothing beside it: row %c %.1f us", g.sim ? "sim: " : "", row->id, series_at(&row->alone, 0.5));
        row->call.n = row->alone.n = 0;
        t = now_us();
        if (beside_begin() && TRY(wait_event(g.beside, 200e3)))
                fact("%sthe kernel beside it, alone: %.0f us, %u blocks of 1024 threads", g.sim ? "sim: " : "",
                        now_us() - t, beside_blocks());
}

static void priorities(void)
{
        if (!g.green)
                return;
        for (size_t i = 0; i < N_RANKS; i++)
                ranks[i].ready = row_build(&ranks[i], BESIDE_NODES) && row_alone(&ranks[i], BESIDE_NODES, false);
        say_apart(&ranks[1]);
        for (unsigned int run = 0; run < (g.sim ? 1 : BESIDE_RUNS); run++)
                for (size_t i = 0; i < N_RANKS; i++)
                        ranks[i].ready = ranks[i].ready && rank_once(&ranks[i]);
        fact("%spriority: %d kernels of %d blocks beside blocks of %d us on every SM, us", g.sim ? "sim: " : "",
                BESIDE_NODES, CHAIN_BLOCKS, (int)(plan.beside_ns / 1000));
        fact("  %9s %9s %9s %4s %9s", "median", "least", "most", "n", "after it");
        for (size_t i = 0; i < N_RANKS; i++)
                rank_say(&ranks[i]);
        for (size_t i = 0; i < N_RANKS; i++)
                row_drop(&ranks[i]);
}

void section_graphs(void)
{
        /* lengths of the chain; the most important one comes first */
        static const unsigned int sizes[] = {300, 150, 50};

        if (!graphs_open())
                return;
        g.begun = now_us();
        /* warm-up: the clocks rise, and first launches do not count */
        for (int i = 0; !g.sim && i < 20; i++)
                TRY(launch_spin(g.streams[PRIMARY], g.sms, 1024, 10000000));
        TRY(launch_all(g.streams[PRIMARY], 1));
        TRY(cu.cuStreamSynchronize(g.streams[PRIMARY]));
        priorities();
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                table(sizes[i], i == 0);
        if (late())
                fact("the budget of %.0f s is used up: n says which rows were measured less often", BUDGET_US / 1e6);
}
