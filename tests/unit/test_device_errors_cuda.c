/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every driver call of the cuda device fails, with each of twelve errors, at its first or a later use
 *
 * A child uses the cuda device on the fake driver for everything: context, rungs, slabs, a module, host memory, work of
 * every kind, output, limits, close. One call of one function fails. The child must not crash, hang or fail an
 * assertion; it must close what it opened and log few lines. An error that ends the context would end the worker; here
 * it only shortens the child's run.
 *
 * Without DETSHARE_SOAK each function meets one of the errors; in a short run half of the functions also meet it later.
 */
#define DT_SLAB DS_MIB(16) /* clearing a larger slab would take longer than most of these tests */
#include "tests/gpu/device_common.h"
#include "tests/gpu/device_forms.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#include "device/cuda/driver.h"
#include "device/cuda/internal.h"
#include "tests/unit/rounds.h"
#include "util/log.h"

#define LINES 60 /* log lines that one failure may cause */
#define LATER 5
#define LIFE_S 20

static const CUresult errors[] = {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_INITIALIZED,
        CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_NOT_READY,
        CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_LAUNCH_FAILED,
        CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_UNKNOWN};

static const char *const functions[] = {
#define X(name) #name,
        DS_CUDA_FUNCTIONS(X)
#undef X
};

static void *image;
static size_t image_size;

/* Kernels and a variable, so that the image has names to look up. */
static const char ptx[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n" DT_PTX_NULL DT_PTX_POKE DT_PTX_COUNT DT_PTX_FORM_PERSISTENT;

/* Sets the environment of each child: the fake driver reads at its first call which call must fail. */
static void setup(void)
{
        int fd = memfd_create("image", 0), status;
        pid_t pid;

        setenv("DETSHARE_LIBCUDA", TEST_FAKE_CUDA, 1);
        setenv("PTXAS", TEST_PTXAS, 1);
        ds_log_setup("errors", DS_LOG_INFO);
        pid = fork();
        if (!pid) {
                struct dt *t = dt_open(&ds_cuda_ops, "0");

                image = dt_image(t, ptx, &image_size);
                _exit(write(fd, image, image_size) != (ssize_t)image_size);
        }
        cr_assert(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
        image_size = (size_t)lseek(fd, 0, SEEK_END);
        image = malloc(image_size);
        cr_assert_eq(pread(fd, image, image_size, 0), (ssize_t)image_size);
        close(fd);
}

/* --- one life ----------------------------------------------------------------------------------------------------- */

struct life {
        ds_device *device;
        uint32_t rungs[2];
        int slab, host;
        ds_device_module *module;
        uint64_t submitted, came;
};

static void take(struct life *l)
{
        struct ds_device_output output;
        struct ds_completion done[16];

        l->came += ds_cuda_ops.poll(l->device, done, DS_ARRAY_SIZE(done));
        while (ds_cuda_ops.output(l->device, &output))
                ;
}

/* Waits until all submitted work has completed, also if the context is lost. */
static void drain(struct life *l)
{
        for (int i = 0; l->came < l->submitted; i++) {
                if (i > LIFE_S * 1000)
                        _exit(10);
                take(l);
                if (l->came < l->submitted)
                        poll(NULL, 0, 1);
        }
        if (l->came > l->submitted)
                _exit(11);
}

static void submitted(struct life *l, int r)
{
        l->submitted += r == 0;
}

static int build(struct life *l)
{
        const struct ds_device_info *info;
        struct ds_tpc_mask all = {}, half;
        int r;

        r = ds_cuda_ops.open("0", &l->device);
        if (r)
                return r;
        info = ds_cuda_ops.info(l->device);
        all = dt_mask(0, info->n_tpcs);
        half = dt_mask(0, DS_MAX(info->n_tpcs / 2, 1u));
        r = ds_cuda_ops.rung_create(l->device, &all, &l->rungs[0]);
        if (!r)
                r = ds_cuda_ops.rung_create(l->device, &half, &l->rungs[1]);
        if (!r)
                r = ds_cuda_ops.space_add(l->device, DT_SPACE);
        return r;
}

static int hold(struct life *l)
{
        char log[1000] = "";
        int r;

        r = ds_cuda_ops.mem_create(l->device, DT_SLAB, &l->slab);
        if (!r)
                r = ds_cuda_ops.mem_map(l->device, DT_SPACE, l->slab, DT_DEVICE_VA, DT_SLAB);
        if (!r)
                r = ds_cuda_ops.host_map(l->device, DT_SPACE, l->host, DT_HOST_VA, DS_MIB(1));
        if (!r)
                r = ds_cuda_ops.module_load(l->device, DT_SPACE, image, image_size, log, sizeof(log), &l->module);
        if (!r && ds_cuda_ops.module_has_globals(l->module)) {
                uint64_t va, size;

                (void)ds_cuda_ops.global_find(l->module, "counter", &va, &size);
        }
        return r;
}

static void copy(struct life *l, enum ds_copy_kind kind, uint64_t dst, uint64_t src, uint64_t height, uint32_t stream)
{
        struct ds_copy c = {.stream = stream,
                .space = DT_SPACE,
                .kind = kind,
                .dst = dst,
                .src = src,
                .width = 64,
                .height = height,
                .dst_pitch = 128,
                .src_pitch = 128,
                .timed = 1};

        submitted(l, ds_cuda_ops.copy(l->device, &c, l->submitted + 1));
}

static void fill(struct life *l, uint32_t size, uint64_t height, uint32_t stream)
{
        struct ds_memset m = {.stream = stream,
                .space = DT_SPACE,
                .dst = DT_DEVICE_VA,
                .value = 1,
                .element_size = size,
                .width = 16,
                .height = height,
                .pitch = 128};

        submitted(l, ds_cuda_ops.memset(l->device, &m, l->submitted + 1));
}

static void launch(struct life *l, uint32_t stream, uint32_t shared)
{
        struct dt_poke_params params = {.p = DT_DEVICE_VA, .value = 3};
        struct ds_launch launch = {.stream = stream,
                .space = DT_SPACE,
                .kernel = ds_cuda_ops.kernel_find(l->module, "poke"),
                .grid = {1, 1, 1},
                .block = {32, 1, 1},
                .params = &params,
                .params_size = 12,
                .shared_bytes = shared,
                .timed = shared != 0};

        if (launch.kernel)
                submitted(l, ds_cuda_ops.launch(l->device, &launch, l->submitted + 1));
}

static void graph_launch(struct life *l, ds_device_graph *graph, uint32_t rung)
{
        struct ds_graph_launch launch = {.stream = ds_device_stream(rung, 0, 2), .space = DT_SPACE, .graph = graph};

        if (ds_cuda_ops.graph_ready(l->device, graph, rung))
                submitted(l, ds_cuda_ops.graph_launch(l->device, &launch, l->submitted + 1));
}

/* Builds a graph with every kind of node for both rungs, launches it, changes its parameters, launches and destroys
 * it. */
static void graphs(struct life *l)
{
        static const struct dt_poke_params params[2] = {
                {.p = DT_DEVICE_VA, .value = 1}, {.p = DT_DEVICE_VA, .value = 2}};
        struct ds_device_node nodes[2][4] = {};
        ds_device_graph *graph[2] = {};

        for (int i = 0; i < 2; i++) {
                nodes[i][0].kind = DS_NODE_LAUNCH;
                nodes[i][0].launch = (struct ds_launch){.kernel = ds_cuda_ops.kernel_find(l->module, "poke"),
                        .grid = {1, 1, 1},
                        .block = {32, 1, 1},
                        .cooperative = 1,
                        .shared_bytes = 60 << 10,
                        .params = &params[i],
                        .params_size = 12};
                nodes[i][2].kind = DS_NODE_COPY;
                nodes[i][2].copy = (struct ds_copy){.kind = DS_COPY_DTOD,
                        .dst = DT_DEVICE_VA,
                        .src = DT_DEVICE_VA + 4096 + 64 * (uint64_t)i,
                        .width = 64,
                        .height = 1};
                nodes[i][3].kind = DS_NODE_MEMSET;
                nodes[i][3].memset = (struct ds_memset){
                        .dst = DT_DEVICE_VA, .value = (uint32_t)i, .element_size = 4, .width = 4, .height = 1};
                if (!nodes[i][0].launch.kernel || ds_cuda_ops.graph_new(l->device, DT_SPACE, nodes[i], 4, &graph[i]))
                        graph[i] = NULL;
        }
        for (int i = 0; i < LATER && graph[0] && graph[1]; i++) {
                (void)ds_cuda_ops.graph_build(l->device, graph[0], l->rungs[i % 2]);
                graph_launch(l, graph[0], l->rungs[0]);
                graph_launch(l, graph[0], l->rungs[1]);
                drain(l);
                ds_cuda_ops.graph_take(l->device, graph[0], graph[1]);
                graph_launch(l, graph[1], l->rungs[0]);
                drain(l);
                ds_cuda_ops.graph_take(l->device, graph[1], graph[0]);
        }
        for (int i = 0; i < 2; i++)
                if (graph[i])
                        ds_cuda_ops.graph_free(l->device, graph[i]);
        drain(l);
        if (ds_cuda_ops.put_off(l->device))
                ds_cuda_ops.put_off_do(l->device);
}

/* Launches persistent workers, stops them, and then resumes or drops the launch. */
static void forms(struct life *l)
{
        struct dt_form_params params = {.counts = DT_DEVICE_VA, .out = DT_DEVICE_VA + DS_MIB(1), .loops = 1000};
        struct ds_launch launch = {.space = DT_SPACE,
                .kernel = ds_cuda_ops.kernel_find(l->module, "work__ds_persistent"),
                .grid = {10, 2, 1},
                .block = {DT_FORM_THREADS, 1, 1},
                .params = &params,
                .params_size = 20,
                .form = DS_PTX_FORM_PERSISTENT};
        int r = 0;

        for (int i = 0; i < 2 * LATER && launch.kernel; i++) {
                launch.stream = ds_device_stream(l->rungs[i % 2], 1, 0);
                launch.resumes = i % 3 ? l->submitted + 1 : 0;
                r = ds_cuda_ops.launch(l->device, &launch, l->submitted + 1);
                submitted(l, r);
                if (!r)
                        (void)ds_cuda_ops.evict(l->device, l->submitted);
                drain(l);
                if (i % 3 == 2)
                        ds_cuda_ops.drop(l->device, l->submitted);
        }
}

/* Encodes tensor maps; the content of a map that the driver refused is not checked. */
static void tensor_maps(struct life *l)
{
        struct ds_tensor_map ask = {.data_type = 6,
                .rank = 3,
                .address = DT_DEVICE_VA,
                .given = 63,
                .dims = {64, 32, 4},
                .strides = {128, 4096},
                .box = {32, 8, 2},
                .steps = {1, 1, 1},
                .channels = 32,
                .pixels = 8};
        uint8_t map[DS_TENSOR_MAP_BYTES] = {0};

        for (int i = 0; i < LATER; i++) {
                for (ask.kind = DS_TENSOR_MAP_TILED; ask.kind < _DS_TENSOR_MAP_KIND_MAX; ask.kind++)
                        (void)ds_cuda_ops.tensor_map(l->device, &ask, map);
        }
}

static void work(struct life *l)
{
        uint32_t a = ds_device_stream(l->rungs[0], 0, 0), b = ds_device_stream(l->rungs[1], 1, 1);

        for (int i = 0; i < LATER; i++) {
                launch(l, a, 0);
                launch(l, b, 60 << 10);
                for (uint32_t size = 1; size <= 4; size *= 2) {
                        fill(l, size, 1, a);
                        fill(l, size, 4, b);
                }
                (void)ds_cuda_ops.fence(l->device, a, b);
                for (uint64_t height = 1; height <= 4; height += 3) {
                        copy(l, DS_COPY_HTOD, DT_DEVICE_VA, DT_HOST_VA, height, a);
                        copy(l, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, height, b);
                        copy(l, DS_COPY_DTOD, DT_DEVICE_VA, DT_DEVICE_VA + 4096, height, a);
                        copy(l, DS_COPY_HTOH, DT_HOST_VA, DT_HOST_VA + 4096, height, b);
                }
                take(l);
        }
        drain(l);
        forms(l);
        tensor_maps(l);
        graphs(l);
}

static void give_back(struct life *l)
{
        if (l->module)
                l->module = ds_cuda_ops.module_unload(l->device, l->module);
        drain(l);
        if (ds_cuda_ops.put_off(l->device))
                ds_cuda_ops.put_off_do(l->device);
        (void)ds_cuda_ops.limit_raise(l->device, DS_LIMIT_STACK_SIZE, 8192);
        (void)ds_cuda_ops.mem_unmap(l->device, DT_SPACE, DT_DEVICE_VA, DT_SLAB);
        (void)ds_cuda_ops.host_unmap(l->device, DT_SPACE, DT_HOST_VA, DS_MIB(1));
        (void)ds_cuda_ops.space_remove(l->device, DT_SPACE);
        take(l);
}

static unsigned open_files(void)
{
        DIR *dir = opendir("/proc/self/fd");
        unsigned n = 0;

        while (dir && readdir(dir))
                n++;
        if (dir)
                closedir(dir);
        return n;
}

static int life(void)
{
        struct life l = {.slab = -1, .host = dt_memfd(DS_MIB(1))};
        int r = build(&l);

        if (!r)
                r = hold(&l);
        if (!r)
                work(&l);
        if (l.device) {
                drain(&l);
                give_back(&l);
                r = r ? r : ds_cuda_ops.lost(l.device);
                ds_cuda_ops.close(l.device);
        }
        ds_close(l.slab);
        ds_close(l.host);
        return r;
}

/* --- the sweep ---------------------------------------------------------------------------------------------------- */

static unsigned lines_of(int fd)
{
        unsigned lines = 0;
        char text[4096];
        ssize_t n;

        for (off_t at = 0; (n = pread(fd, text, sizeof(text), at)) > 0; at += n)
                for (ssize_t i = 0; i < n; i++)
                        lines += text[i] == '\n';
        return lines;
}

/*
 * Whether an open file is our leak. It is not if the driver refused a release, or if the context is lost: then the
 * worker skips releases that would fail, and the process ends.
 */
static int must_close(const char *name, int log)
{
        static const char *const giving[] = {"Release", "Free", "Destroy", "Unmap", "Unload", "Unregister"};
        char said[4000] = "";

        for (size_t i = 0; i < DS_ARRAY_SIZE(giving); i++)
                if (strstr(name, giving[i]))
                        return 0;
        return pread(log, said, sizeof(said) - 1, 0) >= 0 && !strstr(said, "is lost");
}

static void child(const char *name, unsigned at, CUresult error, int log, int calls)
{
        char order[100], path[40];
        unsigned before;

        snprintf(order, sizeof(order), "%s:%u:%d", name, at, (int)error);
        setenv("FAKE_CUDA_FAIL", order, 1);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", calls);
        setenv("FAKE_CUDA_LOG", path, 1);
        ds_log_to(log);
        alarm(2 * LIFE_S);
        before = open_files();
        (void)life();
        /* one file more may be open: the fake driver's log */
        _exit(must_close(name, log) && open_files() > before + 1 ? 12 : 0);
}

/* Runs one life of the device in a child while one driver call fails. Returns 1 if the child made that call. */
static int fail_once(const char *name, unsigned at, CUresult error)
{
        int log = memfd_create("log", 0), calls = memfd_create("calls", 0), status, met;
        char want[80], *text;
        pid_t pid = fork();
        off_t size;

        cr_assert(log >= 0 && calls >= 0 && pid >= 0);
        if (!pid)
                child(name, at, error, log, calls);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        if (status || lines_of(log) > LINES) {
                char said[2000] = "";

                (void)!pread(log, said, sizeof(said) - 1, 0);
                cr_assert_fail("%s, call %u, error %d: status %#x, %u lines:\n%s", name, at, (int)error, status,
                        lines_of(log), said);
        }
        size = lseek(calls, 0, SEEK_END);
        text = calloc(1, (size_t)size + 1);
        cr_assert_eq(pread(calls, text, (size_t)size, 0), size);
        snprintf(want, sizeof(want), "%s refused\n", name);
        met = strstr(text, want) != NULL;
        free(text);
        close(log);
        close(calls);
        return met;
}

/* Tests the functions in four parts, so that two parts can run at a time. */
static void sweep(size_t part)
{
        const size_t some = getenv("DETSHARE_SOAK") ? 1 : DS_ARRAY_SIZE(errors);
        const int64_t step = rounds_step(2);
        const size_t turn = (size_t)getpid();
        unsigned met = 0, runs = 0, never = 0;

        for (size_t f = part; f < DS_ARRAY_SIZE(functions); f += 4) {
                unsigned here = 0;

                for (size_t e = f % some; e < DS_ARRAY_SIZE(errors); e += some) {
                        here += (unsigned)fail_once(functions[f], 1, errors[e]);
                        runs++;
                        if ((int64_t)(f / 4 + turn) % step)
                                continue;
                        here += (unsigned)fail_once(functions[f], LATER, errors[e]);
                        runs++;
                }
                met += here;
                if (!here) {
                        never++;
                        fprintf(stderr, "%s: not called\n", functions[f]);
                }
        }
        fprintf(stderr, "%u failures in %u runs, %u functions that no life calls\n", met, runs, never);
        cr_assert_gt(met, runs / 3);
        cr_assert_leq(never, 5);
}

#define PART(n)                                                            \
        Test(device_errors_cuda, part_##n, .init = setup, .timeout = 1200) \
        {                                                                  \
                sweep(n);                                                  \
        }
PART(0)
PART(1)
PART(2)
PART(3)

Test(device_errors_cuda, nothing_fails, .init = setup, .timeout = 60)
{
        cr_assert_eq(life(), 0);
}
