/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-ptx run: a kernel on the CPU, with arguments from the command line
 *
 * Blocks run in increasing order, in the order of a seed, or on several threads, each with its own working memory.
 * Threads are for kernels whose blocks do not communicate, or for finding those that do. If several blocks fault, the
 * first one in order is reported, with the line of PTX. --evict: see run_evict.h.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/interp/interp.h"
#include "ptx/interp/order.h"
#include "ptx/ir.h"
#include "ptx/tool/run_args.h"
#include "ptx/tool/run_evict.h"
#include "ptx/tool/tool.h"
#include "util/alloc.h"
#include "util/macro.h"

#define MAX_THREADS 1024
#define MAX_SHARED (227 * 1024)
#define MAX_JOBS 256
#define MAX_CLUSTER 16

struct run_options {
        uint32_t grid[3], block[3], cluster[3];
        uint32_t shared, jobs;
        uint64_t watch[2]; /* linear indices of the watched thread's block and of the thread */
        bool watches;
        uint64_t seed, evict_seed;
        const char *kernel;
        bool cost, clusters, evicts; /* clusters: true if --cluster was given */
};

static bool parse_extent(const char *text, uint32_t extent[3])
{
        for (int i = 0; i < 3; i++)
                extent[i] = 1;
        for (int i = 0; i < 3; i++) {
                char *end;
                unsigned long value = strtoul(text, &end, 10);

                if (end == text || !value || value > INT32_MAX)
                        return false;
                extent[i] = (uint32_t)value;
                if (!*end)
                        return true;
                if (*end != ',')
                        return false;
                text = end + 1;
        }
        return false;
}

/* Parses a number from min to max behind which nothing may follow. */
static bool parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
        char *end;

        errno = 0;
        *ret = strtoull(text, &end, 0);
        return *text >= '0' && *text <= '9' && !*end && !errno && *ret >= min && *ret <= max;
}

/* Parses BLOCK,THREAD: linear index of a block in the grid, and of a thread in the block. */
static bool parse_watch(const char *text, uint64_t ret[2])
{
        char block[32];
        size_t n = strcspn(text, ",");

        if (!text[n] || n >= sizeof(block))
                return false;
        snprintf(block, sizeof(block), "%.*s", (int)n, text);
        return parse_number(block, 0, INT64_MAX, &ret[0]) && parse_number(text + n + 1, 0, MAX_THREADS - 1, &ret[1]);
}

static int parse_option(int c, struct run_options *options)
{
        uint64_t number = 0;

        switch (c) {
        case 'g':
                return parse_extent(optarg, options->grid) ? 0 : ds_ptx_tool_usage("--grid takes X[,Y[,Z]]");
        case 'b':
                return parse_extent(optarg, options->block) ? 0 : ds_ptx_tool_usage("--block takes X[,Y[,Z]]");
        case 's':
                if (!parse_number(optarg, 0, MAX_SHARED, &number))
                        return ds_ptx_tool_usage("--shared takes a number of bytes, at most 232448");
                options->shared = (uint32_t)number;
                return 0;
        case 'S':
                return parse_number(optarg, 0, UINT64_MAX, &options->seed) ? 0
                                                                           : ds_ptx_tool_usage("--seed takes a number");
        case 'e':
                options->evicts = true;
                return parse_number(optarg, 0, UINT64_MAX, &options->evict_seed)
                               ? 0
                               : ds_ptx_tool_usage("--evict takes a number");
        case 'j':
                if (!parse_number(optarg, 1, MAX_JOBS, &number))
                        return ds_ptx_tool_usage("--jobs takes a number of threads, at most 256");
                options->jobs = (uint32_t)number;
                return 0;
        case 'k':
                options->kernel = optarg;
                return 0;
        case 'C':
                options->clusters = true;
                return parse_extent(optarg, options->cluster) &&
                                       (uint64_t)options->cluster[0] * options->cluster[1] * options->cluster[2] <=
                                               MAX_CLUSTER
                               ? 0
                               : ds_ptx_tool_usage("--cluster takes X[,Y[,Z]], at most 16 blocks");
        case 'w':
                options->watches = true;
                return parse_watch(optarg, options->watch) ? 0 : ds_ptx_tool_usage("--watch takes BLOCK,THREAD");
        case 'c':
                options->cost = true;
                return 0;
        default:
                return ds_ptx_tool_usage("unknown option");
        }
}

static int parse_run_options(int argc, char **argv, struct run_options *options)
{
        static const struct option longs[] = {{"grid", required_argument, NULL, 'g'},
                {"block", required_argument, NULL, 'b'}, {"shared", required_argument, NULL, 's'},
                {"seed", required_argument, NULL, 'S'}, {"jobs", required_argument, NULL, 'j'},
                {"kernel", required_argument, NULL, 'k'}, {"cluster", required_argument, NULL, 'C'},
                {"watch", required_argument, NULL, 'w'}, {"evict", required_argument, NULL, 'e'},
                {"cost", no_argument, NULL, 'c'}, {NULL, 0, NULL, 0}};
        int c, r;

        *options = (struct run_options){.grid = {1, 1, 1}, .block = {1, 1, 1}, .cluster = {1, 1, 1}, .jobs = 1};
        optind = 1;
        while ((c = getopt_long(argc, argv, "g:b:s:j:k:c", longs, NULL)) != -1) {
                r = parse_option(c, options);
                if (r)
                        return r;
        }
        if ((uint64_t)options->block[0] * options->block[1] * options->block[2] > MAX_THREADS)
                return ds_ptx_tool_usage("a block has at most 1024 threads");
        if (options->evicts && (options->jobs > 1 || options->clusters || options->watches || options->seed))
                return ds_ptx_tool_usage("--evict cannot be combined with --cluster, --jobs, --seed or --watch");
        if (options->evicts && (uint64_t)options->grid[0] * options->grid[1] > INT32_MAX / options->grid[2])
                return ds_ptx_tool_usage("--evict takes less than 2^31 blocks");
        return 0;
}

/* Applies the kernel's required cluster size if no option was given; rejects a different option. */
static int choose_cluster(const struct ds_interp_kernel_info *info, struct run_options *options)
{
        uint32_t *c = options->cluster;

        if (info->cluster[0] && options->clusters && memcmp(c, info->cluster, sizeof(info->cluster)))
                return ds_ptx_tool_usage("--cluster differs from the kernel's required cluster size");
        if (info->cluster[0])
                memcpy(c, info->cluster, sizeof(info->cluster));
        if ((uint64_t)c[0] * c[1] * c[2] > MAX_CLUSTER)
                return ds_ptx_tool_usage("a cluster has at most 16 blocks");
        for (int i = 0; i < 3; i++)
                if (options->grid[i] % c[i])
                        return ds_ptx_tool_usage("--grid must be a multiple of --cluster in each dimension");
        return 0;
}

static void add_cost(struct ds_interp_cost *sum, const struct ds_interp_cost *cost)
{
        sum->instructions += cost->instructions;
        sum->memory_instructions += cost->memory_instructions;
        sum->sectors += cost->sectors;
        sum->shared_instructions += cost->shared_instructions;
        sum->special_instructions += cost->special_instructions;
        sum->tensor_instructions += cost->tensor_instructions;
        sum->barriers += cost->barriers;
        sum->critical_path = DS_MAX(sum->critical_path, cost->critical_path);
}

static void print_cost(const struct ds_interp_cost *cost)
{
        fprintf(stderr,
                "warp instructions %" PRIu64 ", global memory %" PRIu64 " (%" PRIu64 " sectors), shared %" PRIu64
                ", special %" PRIu64 ", tensor %" PRIu64 ", barriers %" PRIu64 ", longest warp %" PRIu64 "\n",
                cost->instructions, cost->memory_instructions, cost->sectors, cost->shared_instructions,
                cost->special_instructions, cost->tensor_instructions, cost->barriers, cost->critical_path);
}

/* --- blocks --- */

/* A launch, and the state that the tool's threads share. */
struct work {
        const struct ds_interp_launch *launch;
        struct ds_interp_order order;
        _Atomic uint64_t next; /* place in the order of the next cluster (usually a block) to run */
        _Atomic uint64_t stop; /* first place that need not run, because the cluster (or block) there has faulted */
        pthread_mutex_t lock;
        struct ds_interp_cost cost;
        struct ds_interp_result fault; /* fault of the cluster at place `stop` */
        uint32_t block[3];
        bool no_memory;
};

static void print_text(void *user, int to_stderr, const char *text, size_t size)
{
        fwrite(text, 1, size, to_stderr ? stderr : stdout);
}

/* Keeps the results of a cluster (or block). results: one per block; first: index of its first block */
static void keep_results(
        struct work *w, uint64_t place, const uint32_t first[3], const struct ds_interp_result *results)
{
        const uint32_t *c = w->launch->cluster;
        uint32_t n = ds_interp_cluster_blocks(w->launch);

        pthread_mutex_lock(&w->lock);
        for (uint32_t i = 0; i < n; i++) {
                add_cost(&w->cost, &results[i].cost);
                if (!results[i].fault || place >= atomic_load(&w->stop))
                        continue;
                atomic_store(&w->stop, place);
                w->fault = results[i];
                w->block[0] = first[0] + i % c[0];
                w->block[1] = first[1] + i / c[0] % c[1];
                w->block[2] = first[2] + i / c[0] / c[1];
        }
        pthread_mutex_unlock(&w->lock);
}

static void *run_thread(void *arg)
{
        struct work *w = arg;
        ds_cleanup(ds_interp_block_freep) ds_interp_block *memory = ds_interp_block_new();
        const struct ds_interp_launch *l = w->launch;
        const uint32_t *c = l->cluster;
        struct ds_interp_result results[MAX_CLUSTER] = {0};
        bool failed = !memory;
        uint64_t place;

        while (!failed && (place = atomic_fetch_add(&w->next, 1)) < atomic_load(&w->stop)) {
                uint64_t i = ds_interp_order_at(&w->order, place), nx = l->grid[0] / c[0], ny = l->grid[1] / c[1];
                uint32_t first[3] = {
                        (uint32_t)(i % nx * c[0]), (uint32_t)(i / nx % ny * c[1]), (uint32_t)(i / nx / ny * c[2])};

                failed = ds_interp_run_cluster(memory, l, first[0], first[1], first[2], results) < 0;
                if (!failed)
                        keep_results(w, place, first, results);
        }
        if (failed) {
                pthread_mutex_lock(&w->lock);
                w->no_memory = true;
                pthread_mutex_unlock(&w->lock);
        }
        return NULL;
}

/* Runs all blocks on `jobs` threads, including this one. */
static void run_blocks(struct work *w, const struct run_options *options)
{
        pthread_t threads[MAX_JOBS];
        uint32_t n = 0;

        while (n + 1 < options->jobs && !pthread_create(&threads[n], NULL, run_thread, w))
                n++;
        run_thread(w);
        while (n)
                pthread_join(threads[--n], NULL);
}

static int report_fault(const struct work *w, const ds_ptx_module *module, const char *path)
{
        const struct ds_interp_result *f = &w->fault;
        char message[400];

        if (w->no_memory) {
                fprintf(stderr, "detshare-ptx: out of memory\n");
                return DS_PTX_TOOL_BAD;
        }
        if (!f->fault)
                return 0;
        snprintf(message, sizeof(message), "fault in block (%u, %u, %u), thread (%u, %u, %u): %s", w->block[0],
                w->block[1], w->block[2], f->thread[0], f->thread[1], f->thread[2], f->message);
        ds_ptx_tool_point(module, path, f->line, "error", message);
        return DS_PTX_TOOL_BAD;
}

/* Runs the native kernel, then the persistent form from the same memory; prints the results and text of the latter. */
static int run_twice(struct work *w, struct ds_interp_launch *launch, const ds_ptx_module *module, const char *path,
        const ds_interp *interp, const struct run_options *options, struct ds_run_args *args)
{
        int r;

        if (ds_run_args_keep(args)) {
                w->no_memory = true;
                return report_fault(w, module, path);
        }
        launch->print = NULL;
        run_blocks(w, options);
        r = report_fault(w, module, path);
        if (r)
                return r;
        ds_run_args_swap(args);
        launch->print = print_text;
        return ds_run_evict(module, path, interp, launch, args, options->evict_seed);
}

/* Launches the kernel; argv: the kernel's arguments. */
static int launch_kernel(const ds_ptx_module *module, const char *path, const ds_interp *interp,
        const ds_interp_kernel *kernel, const struct run_options *options, int argc, char **argv)
{
        const struct ds_interp_kernel_info *info = ds_interp_kernel_info(kernel);
        ds_cleanup(ds_run_args_freep) struct ds_run_args *args = NULL;
        const uint32_t *c = options->cluster;
        uint64_t n = (uint64_t)(options->grid[0] / c[0]) * (options->grid[1] / c[1]) * (options->grid[2] / c[2]);
        struct ds_interp_launch launch = {.kernel = kernel,
                .dynamic_shared = options->shared,
                .params_size = info->params_size,
                .print = print_text,
                .n_sms = 1};
        struct work w = {.launch = &launch, .stop = n, .lock = PTHREAD_MUTEX_INITIALIZER};
        char message[160];
        int r;

        if (info->static_shared + options->shared > MAX_SHARED)
                return ds_ptx_tool_usage("the kernel's shared memory and --shared together exceed 232448 bytes");
        if (ds_run_args_new(info, argc, argv, message, sizeof(message), &args))
                return ds_ptx_tool_usage(message);
        memcpy(launch.grid, options->grid, sizeof(launch.grid));
        memcpy(launch.block, options->block, sizeof(launch.block));
        memcpy(launch.cluster, options->cluster, sizeof(launch.cluster));
        launch.params = ds_run_args_params(args);
        launch.ranges = ds_run_args_ranges(args, &launch.n_ranges);
        ds_interp_order_init(&w.order, n, options->seed, 0);
        if (options->evicts) {
                r = run_twice(&w, &launch, module, path, interp, options, args);
        } else {
                run_blocks(&w, options);
                r = report_fault(&w, module, path);
        }
        if (!r)
                r = ds_run_args_print(args, stdout) ? DS_PTX_TOOL_BAD : 0;
        if (options->cost)
                print_cost(&w.cost);
        return r ? r : ds_ptx_tool_flush();
}

/* --- watching --- */

static void print_value(const struct ds_ptx_function *f, const struct ds_interp_value *v)
{
        enum ds_ptx_type type = (enum ds_ptx_type)f->regs[v->reg].type;
        uint32_t bits = ds_ptx_type_bits(type);
        char name[200];
        float narrow;
        double wide;

        fprintf(stderr, "  %s = ", ds_ptx_reg_name(f, v->reg, name, sizeof(name)));
        memcpy(&narrow, v->bits, sizeof(narrow));
        memcpy(&wide, v->bits, sizeof(wide));
        if (type == DS_PTX_TYPE_F32)
                fprintf(stderr, "%.9g", (double)narrow);
        else if (type == DS_PTX_TYPE_F64)
                fprintf(stderr, "%.17g", wide);
        else if (bits == 128)
                fprintf(stderr, "0x%016" PRIx64 "%016" PRIx64, v->bits[1], v->bits[0]);
        else if (v->bits[0] > 9)
                fprintf(stderr, "%" PRIu64 " (0x%" PRIx64 ")", v->bits[0], v->bits[0]);
        else
                fprintf(stderr, "%" PRIu64, v->bits[0]);
}

static void print_step(void *user, const struct ds_interp_step *step)
{
        const ds_ptx_module *module = user;
        size_t n;
        const char *text = ds_ptx_tool_line(module, step->line, &n);
        char line[100];

        snprintf(line, sizeof(line), "%.*s", (int)DS_MIN(n, sizeof(line) - 1), text);
        /* replaces tabs, so that columns stay aligned, and bytes that should not reach a terminal */
        for (char *p = line; *p; p++)
                *p = *p >= ' ' && *p <= '~' ? *p : *p == '\t' ? ' ' : '?';
        fprintf(stderr, "%5u  %-48s", step->line, line);
        if (step->skipped)
                fputs("  skipped", stderr);
        for (uint32_t i = 0; i < step->n_values; i++)
                print_value(step->function, &step->values[i]);
        fputc('\n', stderr);
}

static int watch(ds_interp *interp, const ds_ptx_module *module, const struct run_options *options)
{
        const uint32_t *grid = options->grid;
        uint64_t b = options->watch[0], threads = (uint64_t)options->block[0] * options->block[1] * options->block[2];
        const uint32_t block[3] = {
                (uint32_t)(b % grid[0]), (uint32_t)(b / grid[0] % grid[1]), (uint32_t)(b / grid[0] / grid[1])};

        if (b >= (uint64_t)grid[0] * grid[1] * grid[2] || options->watch[1] >= threads)
                return ds_ptx_tool_usage("--watch names a thread that the launch does not have");
        if (!ds_interp_watch(interp, block, (uint32_t)options->watch[1], print_step, (void *)module))
                return 0;
        fprintf(stderr, "detshare-ptx: out of memory\n");
        return DS_PTX_TOOL_BAD;
}

/* --- the command --- */

/* Chooses the kernel: the one named by an option or by the first word behind the file, or the only one of the
 * module. *ret_used: number of words consumed. */
static const ds_interp_kernel *choose_kernel(
        const ds_interp *interp, const struct run_options *options, int argc, char **argv, int *ret_used)
{
        const ds_interp_kernel *kernel = NULL;

        *ret_used = 0;
        if (options->kernel)
                return ds_interp_find_kernel(interp, options->kernel);
        if (argc)
                kernel = ds_interp_find_kernel(interp, argv[0]);
        *ret_used = kernel != NULL;
        /* without a name, the first word is an argument, which has a colon or a bracket */
        if (!kernel && (!argc || strpbrk(argv[0], ":[")) && !ds_interp_kernel_at(interp, 1))
                kernel = ds_interp_kernel_at(interp, 0);
        return kernel;
}

static int no_kernel(const ds_interp *interp, const char *path, const char *name)
{
        if (!name || strpbrk(name, ":["))
                return ds_ptx_tool_usage(ds_interp_kernel_at(interp, 0) ? "the file has several kernels: name one"
                                                                        : "the file has no kernel");
        fprintf(stderr, "detshare-ptx: %s has no kernel '%s'\n", path, name);
        return DS_PTX_TOOL_BAD;
}

int ds_ptx_tool_run(int argc, char **argv)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;
        static struct ds_ptx_diags diags;
        const ds_interp_kernel *kernel;
        struct run_options options;
        const char *path;
        int used, r = parse_run_options(argc, argv, &options);

        if (r)
                return r;
        if (argc - optind < 1)
                return ds_ptx_tool_usage("run takes a file, and a kernel's name where it has several");
        path = argv[optind++];
        r = ds_ptx_tool_load(path, &diags, &module);
        if (r)
                return r;
        r = ds_interp_new(module, &diags, &interp);
        if (r) {
                ds_ptx_tool_diags(&diags, path);
                return r > 0 ? DS_PTX_TOOL_UNSUPPORTED : DS_PTX_TOOL_BAD;
        }
        kernel = choose_kernel(interp, &options, argc - optind, argv + optind, &used);
        if (!kernel)
                return no_kernel(interp, path, options.kernel ? options.kernel : optind < argc ? argv[optind] : NULL);
        r = choose_cluster(ds_interp_kernel_info(kernel), &options);
        if (!r && options.watches)
                r = watch(interp, module, &options);
        if (r)
                return r;
        return launch_kernel(module, path, interp, kernel, &options, argc - optind - used, argv + optind + used);
}
