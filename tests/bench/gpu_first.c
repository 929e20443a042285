/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of the first calls of a process: context, modules, launches, graphs, memory, streams, events
 *
 * tests/bench/first_times.py runs this program natively and under DetShare, each time in a new process, and makes the
 * files of kernels (tests/bench/first_kernels.py). Every time is that of the client: from the first call of the row to
 * the return of the last one, which is a synchronisation where the calls are asynchronous.
 *
 * gpu_first start                       process start to the end of the first memset; the begin of the process is the
 *                                       number FIRST_BEGIN_US of the environment (CLOCK_MONOTONIC)
 * gpu_first module NAME FILE KERNELS    loads FILE as a module; launches its first, its last and then all kernels once
 * gpu_first library NAME FILE KERNELS   the same with the calls of the CUDA Runtime: libraries and their kernels
 * gpu_first graph FILE NODES...         captures, instantiates, updates and replays a graph of so many kernels
 * gpu_first memory INTERFACE|all SIZE...  allocates, uses and frees one buffer per size (1KiB, 16MiB, 8GiB, ...)
 * gpu_first pool                        a memory pool grows by 64 buffers of 16 MiB, reuses and returns its memory
 * gpu_first objects                     creates and destroys streams, events, pools and contexts
 *
 * Prints `ROW us` per row, or `ROW error NAME` if a call failed; exits with 1 if it can measure nothing.
 */
#include "tests/bench/gpu_common.h"

#include <stdbool.h>

#define MIB(n) ((size_t)(n) << 20)
#define POOL_BUFFERS 64
#define POOL_BUFFER MIB(16)
#define MANY 100          /* objects of a row that creates many */
#define GRAPH_NODES 10000 /* largest accepted number of nodes */

static CUdevice device;
static CUstream stream;

/* Prints the row `kind.name.what` (name and what may be NULL): the time since `begin`, or the error. Returns true if there
 * was none. */
static bool row(CUresult r, double begin, const char *kind, const char *name, const char *what)
{
        double us = bench_us() - begin;
        const char *error = "unknown";

        printf("%s%s%s%s%s", kind, name ? "." : "", name ? name : "", what ? "." : "", what ? what : "");
        if (r == CUDA_SUCCESS) {
                printf(" %.2f\n", us);
        } else {
                cuGetErrorName(r, &error);
                printf(" error %s\n", error);
        }
        fflush(stdout);
        return r == CUDA_SUCCESS;
}

static void ready(void)
{
        device = bench_start();
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        CHECK(cuStreamSynchronize(stream));
}

static char *read_file(const char *path)
{
        FILE *f = fopen(path, "rb");
        char *bytes;
        long size;

        if (!f || fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0 || !(bytes = calloc((size_t)size + 1, 1))) {
                perror(path);
                exit(1);
        }
        rewind(f);
        if (fread(bytes, 1, (size_t)size, f) != (size_t)size)
                exit(1);
        fclose(f);
        return bytes;
}

/* --- process and context --- */

static int run_start(void)
{
        const char *text = getenv("FIRST_BEGIN_US");
        double process = text ? strtod(text, NULL) : bench_us(), begin = bench_us();
        CUcontext context;
        CUdeviceptr p;

        if (!row(CUDA_SUCCESS, process, "start", "main", NULL) || !row(cuInit(0), begin, "start", "cuInit", NULL))
                return 1;
        begin = bench_us();
        CHECK(cuDeviceGet(&device, 0));
        CHECK(cuDevicePrimaryCtxRetain(&context, device));
        row(cuCtxSetCurrent(context), begin, "start", "context", NULL);
        begin = bench_us();
        CHECK(cuMemAlloc(&p, MIB(1)));
        CHECK(cuMemsetD8(p, 0, MIB(1)));
        row(cuCtxSynchronize(), begin, "start", "first_memset", NULL);
        row(CUDA_SUCCESS, process, "start", "process_to_memset", NULL);
        return 0;
}

/* --- modules --- */

/* A kernel of a module or of a library. */
struct image {
        CUmodule module;
        CUlibrary library;
};

static CUresult image_load(struct image *image, bool library, const char *bytes)
{
        return library ? cuLibraryLoadData(&image->library, bytes, NULL, NULL, 0, NULL, NULL, 0)
                       : cuModuleLoadData(&image->module, bytes);
}

static CUresult image_launch(const struct image *image, unsigned kernel)
{
        CUdeviceptr buffer = 0;
        unsigned n = 0;
        void *params[] = {&buffer, &n};
        CUfunction function;
        CUkernel entry;
        char name[32];
        CUresult r;

        snprintf(name, sizeof(name), "k%u", kernel);
        if (!image->library)
                r = cuModuleGetFunction(&function, image->module, name);
        else if (!(r = cuLibraryGetKernel(&entry, image->library, name)))
                function = (CUfunction)entry;
        return r ? r : cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

static CUresult image_launch_sync(const struct image *image, unsigned kernel)
{
        CUresult r = image_launch(image, kernel);

        return r ? r : cuStreamSynchronize(stream);
}

static int run_image(bool library, const char *name, const char *path, unsigned kernels)
{
        const char *kind = library ? "library" : "module";
        char *bytes = read_file(path);
        struct image image = {0};
        CUresult r = CUDA_SUCCESS;
        double begin, all;

        ready();
        all = begin = bench_us();
        if (!row(image_load(&image, library, bytes), begin, kind, name, "load"))
                return 0;
        begin = bench_us();
        row(image_launch_sync(&image, 1), begin, kind, name, "launch_first");
        row(CUDA_SUCCESS, all, kind, name, "load_and_launch");
        if (kernels > 1) {
                begin = bench_us();
                row(image_launch_sync(&image, kernels), begin, kind, name, "launch_last");
                begin = bench_us();
                for (unsigned i = 2; i < kernels && !r; i++)
                        r = image_launch(&image, i);
                r = r ? r : cuStreamSynchronize(stream);
                row(r, begin, kind, name, "launch_others");
        }
        begin = bench_us();
        r = library ? cuLibraryUnload(image.library) : cuModuleUnload(image.module);
        row(r, begin, kind, name, "unload");
        free(bytes);
        return 0;
}

/* --- graphs --- */

static CUresult capture(CUfunction function, unsigned nodes, CUdeviceptr buffer, CUgraph *ret)
{
        CUresult r = cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        unsigned n = 0;
        void *params[] = {&buffer, &n};

        for (unsigned i = 0; i < nodes && !r; i++)
                r = cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
        return r ? r : cuStreamEndCapture(stream, ret);
}

static CUresult replay(CUgraphExec graph)
{
        CUresult r = cuGraphLaunch(graph, stream);

        return r ? r : cuStreamSynchronize(stream);
}

static void graph_rows(CUfunction function, const char *name)
{
        unsigned nodes = (unsigned)strtoul(name, NULL, 10);
        CUgraphExecUpdateResultInfo info;
        CUgraph graph, other;
        CUgraphExec exec;
        double begin = bench_us(), all = begin;

        if (nodes < 1 || nodes > GRAPH_NODES) {
                fprintf(stderr, "gpu_first graph: %s nodes: accepted are 1 to %d\n", name, GRAPH_NODES);
                exit(2);
        }
        if (!row(capture(function, nodes, 0, &graph), begin, "graph", name, "capture"))
                return;
        begin = bench_us();
        if (!row(cuGraphInstantiate(&exec, graph, 0), begin, "graph", name, "instantiate"))
                return;
        begin = bench_us();
        row(replay(exec), begin, "graph", name, "replay_first");
        row(CUDA_SUCCESS, all, "graph", name, "capture_to_replay");
        begin = bench_us();
        row(replay(exec), begin, "graph", name, "replay_second");
        CHECK(capture(function, nodes, 256, &other));
        begin = bench_us();
        row(cuGraphExecUpdate(exec, other, &info), begin, "graph", name, "update");
        begin = bench_us();
        row(replay(exec), begin, "graph", name, "replay_updated");
        CHECK(cuGraphDestroy(other));
        begin = bench_us();
        CHECK(cuGraphExecDestroy(exec));
        row(cuGraphDestroy(graph), begin, "graph", name, "destroy");
}

static int run_graph(const char *path, char **nodes, int n)
{
        char *bytes = read_file(path);
        struct image image = {0};
        CUfunction function;

        ready();
        CHECK(cuModuleLoadData(&image.module, bytes));
        CHECK(cuModuleGetFunction(&function, image.module, "k1"));
        CHECK(image_launch_sync(&image, 1));
        for (int i = 0; i < n; i++)
                graph_rows(function, nodes[i]);
        free(bytes);
        return 0;
}

/* --- memory --- */

struct buffer {
        CUdeviceptr at;
        void *host;
        size_t size; /* bytes; for mapped memory a multiple of the granularity */
        CUmemGenericAllocationHandle handle;
};

static CUmemoryPool pool;

static CUresult take_plain(struct buffer *b)
{
        return cuMemAlloc(&b->at, b->size);
}

/* Rows of at most 64 KiB. */
static CUresult take_pitch(struct buffer *b)
{
        size_t width = b->size < 65536 ? b->size : 65536, pitch = width;
        CUresult r = cuMemAllocPitch(&b->at, &pitch, width, b->size / width, 16);

        b->size = r ? 0 : pitch * (b->size / width);
        return r;
}

static CUresult give_plain(struct buffer *b)
{
        return cuMemFree(b->at);
}

static CUresult take_async(struct buffer *b)
{
        CUresult r = cuMemAllocAsync(&b->at, b->size, stream);

        return r ? r : cuStreamSynchronize(stream);
}

static CUresult take_pool(struct buffer *b)
{
        CUresult r = cuMemAllocFromPoolAsync(&b->at, b->size, pool, stream);

        return r ? r : cuStreamSynchronize(stream);
}

static CUresult give_async(struct buffer *b)
{
        CUresult r = cuMemFreeAsync(b->at, stream);

        return r ? r : cuStreamSynchronize(stream);
}

static CUresult take_mapped(struct buffer *b)
{
        CUmemAllocationProp prop = {
                .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
        CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        size_t granule = 1;
        CUresult r = cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);

        b->size = (b->size + granule - 1) / granule * granule;
        r = r ? r : cuMemAddressReserve(&b->at, b->size, 0, 0, 0);
        r = r ? r : cuMemCreate(&b->handle, b->size, &prop, 0);
        r = r ? r : cuMemMap(b->at, b->size, 0, b->handle, 0);
        return r ? r : cuMemSetAccess(b->at, b->size, &access, 1);
}

static CUresult give_mapped(struct buffer *b)
{
        CUresult r = cuMemUnmap(b->at, b->size);

        r = r ? r : cuMemRelease(b->handle);
        return r ? r : cuMemAddressFree(b->at, b->size);
}

static CUresult take_managed(struct buffer *b)
{
        return cuMemAllocManaged(&b->at, b->size, CU_MEM_ATTACH_GLOBAL);
}

static CUresult take_pinned(struct buffer *b)
{
        return cuMemHostAlloc(&b->host, b->size, 0);
}

static CUresult give_pinned(struct buffer *b)
{
        return cuMemFreeHost(b->host);
}

static CUresult take_registered(struct buffer *b)
{
        return cuMemHostRegister(b->host, b->size, 0);
}

static CUresult give_registered(struct buffer *b)
{
        return cuMemHostUnregister(b->host);
}

static const struct interface {
        const char *name;
        CUresult (*take)(struct buffer *), (*give)(struct buffer *);
} interfaces[] = {{"cuMemAlloc", take_plain, give_plain}, {"cuMemAllocPitch", take_pitch, give_plain},
        {"cuMemAllocAsync", take_async, give_async}, {"cuMemAllocFromPoolAsync", take_pool, give_async},
        {"cuMemMap", take_mapped, give_mapped}, {"cuMemAllocManaged", take_managed, give_plain},
        {"cuMemHostAlloc", take_pinned, give_pinned}, {"cuMemHostRegister", take_registered, give_registered}};

static size_t size_of(const char *text)
{
        char *end;
        size_t n = strtoull(text, &end, 10);

        for (const char *unit = "KMG"; *unit && *end; unit++) {
                n <<= 10;
                if (*unit == *end && !strcmp(end + 1, "iB"))
                        return n;
        }
        fprintf(stderr, "gpu_first memory: size %s: accepted are numbers with KiB, MiB or GiB, as 64KiB\n", text);
        exit(2);
}

/* The first use of the whole buffer: a memset; for host memory a copy of its first MiB to the device. */
static CUresult use(const struct buffer *b, CUdeviceptr scratch)
{
        size_t size = b->size < MIB(1) ? b->size : MIB(1);
        CUresult r = b->host ? cuMemcpyHtoDAsync(scratch, b->host, size, stream)
                             : cuMemsetD8Async(b->at, 0, b->size, stream);

        return r ? r : cuStreamSynchronize(stream);
}

/* Allocates, uses and frees a buffer. The first round is of a size that the interface has not had; the second round
 * repeats it. */
static void memory_rows(const struct interface *with, const char *name, CUdeviceptr scratch)
{
        static const char *const kinds[2][3] = {{"alloc", "use", "free"}, {"realloc", "reuse", "refree"}};
        bool registered = with->take == take_registered;
        struct buffer b = {.size = size_of(name)};

        if (registered) {
                if (posix_memalign(&b.host, 4096, b.size))
                        exit(1);
                memset(b.host, 1, b.size);
        }
        for (int i = 0; i < 2; i++) {
                double begin = bench_us();

                b.size = size_of(name);
                if (!row(with->take(&b), begin, kinds[i][0], with->name, name))
                        break;
                begin = bench_us();
                row(use(&b, scratch), begin, kinds[i][1], with->name, name);
                begin = bench_us();
                row(with->give(&b), begin, kinds[i][2], with->name, name);
        }
        if (registered)
                free(b.host);
}

static CUresult pool_create(void)
{
        CUmemPoolProps props = {
                .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};

        return cuMemPoolCreate(&pool, &props);
}

static int run_memory(const char *name, char **sizes, int n)
{
        bool all = !strcmp(name, "all"), found = false;
        CUdeviceptr scratch;

        ready();
        CHECK(cuMemAlloc(&scratch, MIB(1)));
        CHECK(cuMemsetD8(scratch, 0, MIB(1)));
        CHECK(pool_create());
        for (size_t i = 0; i < sizeof(interfaces) / sizeof(interfaces[0]); i++) {
                if (!all && strcmp(interfaces[i].name, name) != 0)
                        continue;
                found = true;
                for (int k = 0; k < n; k++)
                        memory_rows(&interfaces[i], sizes[k], scratch);
        }
        if (found)
                return 0;
        fprintf(stderr, "gpu_first memory: no interface %s; accepted are: all", name);
        for (size_t i = 0; i < sizeof(interfaces) / sizeof(interfaces[0]); i++)
                fprintf(stderr, ", %s", interfaces[i].name);
        fprintf(stderr, "\n");
        return 2;
}

static CUresult pool_fill(struct buffer *buffers)
{
        CUresult r = CUDA_SUCCESS;

        for (unsigned i = 0; i < POOL_BUFFERS && !r; i++)
                r = cuMemAllocFromPoolAsync(&buffers[i].at, POOL_BUFFER, pool, stream);
        return r ? r : cuStreamSynchronize(stream);
}

static CUresult pool_empty(const struct buffer *buffers)
{
        CUresult r = CUDA_SUCCESS;

        for (unsigned i = 0; i < POOL_BUFFERS && !r; i++)
                r = cuMemFreeAsync(buffers[i].at, stream);
        return r ? r : cuStreamSynchronize(stream);
}

static int run_pool(void)
{
        struct buffer buffers[POOL_BUFFERS] = {{0}};
        cuuint64_t keep = UINT64_MAX;
        double begin;

        ready();
        begin = bench_us();
        if (!row(pool_create(), begin, "pool", "create", NULL))
                return 0;
        CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
        begin = bench_us();
        if (!row(pool_fill(buffers), begin, "pool", "grow_64x16MiB", NULL))
                return 0;
        begin = bench_us();
        row(pool_empty(buffers), begin, "pool", "free_64x16MiB", NULL);
        begin = bench_us();
        row(pool_fill(buffers), begin, "pool", "reuse_64x16MiB", NULL);
        CHECK(pool_empty(buffers));
        begin = bench_us();
        row(cuMemPoolTrimTo(pool, 0), begin, "pool", "trim_1GiB", NULL);
        begin = bench_us();
        row(cuMemPoolDestroy(pool), begin, "pool", "destroy", NULL);
        return 0;
}

/* --- streams, events, contexts --- */

static void streams(CUdeviceptr scratch)
{
        static CUstream many[MANY];
        CUresult r = CUDA_SUCCESS;
        double begin;

        begin = bench_us();
        row(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), begin, "stream", "create_first", NULL);
        begin = bench_us();
        CHECK(cuMemsetD8Async(scratch, 0, MIB(1), stream));
        row(cuStreamSynchronize(stream), begin, "stream", "synchronise_first", NULL);
        begin = bench_us();
        for (unsigned i = 0; i < MANY && !r; i++)
                r = cuStreamCreateWithPriority(&many[i], CU_STREAM_NON_BLOCKING, 0);
        if (!row(r, begin, "stream", "create_100", NULL))
                return;
        begin = bench_us();
        for (unsigned i = 0; i < MANY && !r; i++)
                r = cuStreamDestroy(many[i]);
        row(r, begin, "stream", "destroy_100", NULL);
}

static void events(void)
{
        static CUevent many[MANY];
        CUresult r = CUDA_SUCCESS;
        double begin = bench_us();

        if (!row(cuEventCreate(&many[0], 0), begin, "event", "create_first", NULL))
                return;
        begin = bench_us();
        CHECK(cuEventRecord(many[0], stream));
        row(cuEventSynchronize(many[0]), begin, "event", "record_first", NULL);
        begin = bench_us();
        for (unsigned i = 1; i < MANY && !r; i++)
                r = cuEventCreate(&many[i], CU_EVENT_DISABLE_TIMING);
        row(r, begin, "event", "create_99", NULL);
        begin = bench_us();
        for (unsigned i = 0; i < MANY && !r; i++)
                r = cuEventDestroy(many[i]);
        row(r, begin, "event", "destroy_100", NULL);
}

static void contexts(void)
{
        CUcontext context;
        double begin = bench_us();

        if (!row(cuCtxCreate(&context, NULL, 0, device), begin, "context", "create", NULL))
                return;
        begin = bench_us();
        row(cuCtxSynchronize(), begin, "context", "synchronise_first", NULL);
        begin = bench_us();
        row(cuCtxDestroy(context), begin, "context", "destroy", NULL);
}

static int run_objects(void)
{
        CUdeviceptr scratch;

        device = bench_start();
        CHECK(cuMemAlloc(&scratch, MIB(1)));
        CHECK(cuMemsetD8(scratch, 0, MIB(1)));
        CHECK(cuCtxSynchronize());
        streams(scratch);
        events();
        contexts();
        return 0;
}

int main(int argc, char **argv)
{
        const char *what = argc > 1 ? argv[1] : "";

        if (!strcmp(what, "start") && argc == 2)
                return run_start();
        if ((!strcmp(what, "module") || !strcmp(what, "library")) && argc == 5)
                return run_image(*what == 'l', argv[2], argv[3], (unsigned)strtoul(argv[4], NULL, 10));
        if (!strcmp(what, "graph") && argc > 3)
                return run_graph(argv[2], argv + 3, argc - 3);
        if (!strcmp(what, "memory") && argc > 3)
                return run_memory(argv[2], argv + 3, argc - 3);
        if (!strcmp(what, "pool") && argc == 2)
                return run_pool();
        if (!strcmp(what, "objects") && argc == 2)
                return run_objects();
        fprintf(stderr, "usage: gpu_first start | module|library NAME FILE KERNELS | graph FILE NODES... |\n"
                        "       memory INTERFACE|all SIZE... | pool | objects\n");
        return 2;
}
