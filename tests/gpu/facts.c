/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts: prints measured facts about a real GPU and its driver
 *
 * DetShare's worker relies on facts that no manual gives: which calls stop the device, the cost of a mask of TPCs, when
 * the text of a printf appears, how long a process takes to die of a fault. This program measures them, one fact per
 * line, and docs/gpu.md cites its output. It is not a test and judges nothing. A figure that differs from the cited one
 * means that the machine or the driver differs.
 *
 * Every section runs in a process of its own with an alarm, because some sections end their context on purpose and any
 * might hang. The main process never opens the GPU. A call that fails is printed with its error number, and the section
 * continues. A call that the driver lacks is reported once and always fails. Facts go to a duplicate of standard
 * output, so that sections may redirect descriptors 1 and 2.
 *
 * "While busy" means: a kernel that spins fills a green context over all TPCs but eight. A thread launches and awaits
 * empty kernels, one after the other, in a green context over these eight. "freeze" is the longest time of one of these
 * launches.
 *
 * usage: facts FILE.cubin [SECTION...]        (the cubin: nvcc -arch=sm_90 -cubin facts_kernels.cu)
 */
#include "facts.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ERRORS_SAID 24 /* printed errors per section; further ones are only counted */

struct driver cu;
struct gpu gpu;
struct busy busy;
const void *image;

static const char *section = "main", *image_path;
static int out = 1; /* descriptor that facts are written to */
static unsigned int n_errors;

static const struct {
        const char *name;
        void (*run)(void);
        unsigned int seconds;
} sections[] = {
        {"env", section_env, 20},
        {"start", section_start, 20},
        {"sms", section_sms, 20},
        {"vmm", section_vmm, 20},
        {"pinned", section_pinned, 20},
        {"copies", section_copies, 20},
        {"launch", section_launch, 20},
        {"graphs", section_graphs, 30},
        {"events", section_events, 20},
        {"modules", section_modules, 20},
        {"local", section_local, 20},
        {"printf", section_printf, 20},
        {"assert", section_assert, 20},
        {"limits", section_limits, 20},
        {"memory", section_all_memory, 20},
        {"teardown", section_teardown, 30},
        {"two", section_two_streams, 20},
        {"faults", section_faults, 40},
        {"coredump", section_coredump, 30},
};

/* --- printing and counting ---------------------------------------------------------------------------------------- */
void fact(const char *format, ...)
{
        char line[2048];
        va_list ap;
        int head, n;

        head = snprintf(line, sizeof(line) - 1, "%s: ", section);
        va_start(ap, format);
        n = vsnprintf(line + head, sizeof(line) - 1 - (size_t)head, format, ap);
        va_end(ap);
        n = n < 0 ? head : head + n;
        if (n > (int)sizeof(line) - 2)
                n = sizeof(line) - 2;
        line[n++] = '\n';
        if (write(out, line, (size_t)n) < 0)
                _exit(9);
}

double now_us(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

const char *error_name(CUresult result)
{
        const char *name = NULL;

        if (!cu.cuGetErrorName || cu.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
                return "?";
        return name;
}

bool facts_check(CUresult result, const char *what)
{
        if (result == CUDA_SUCCESS)
                return true;
        n_errors++;
        if (n_errors <= ERRORS_SAID)
                fact("ERROR %d %s: %s", (int)result, error_name(result), what);
        return false;
}

void series_add(struct series *s, double us)
{
        if (s->n < FACTS_SAMPLES)
                s->us[s->n++] = us;
}

static int compare(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

double series_at(struct series *s, double part)
{
        if (s->n == 0)
                return 0;
        qsort(s->us, s->n, sizeof(s->us[0]), compare);
        return s->us[part < 1 ? (unsigned int)(part * s->n) : s->n - 1];
}

void series_fact(struct series *s, const char *what)
{
        double sum = 0;

        if (s->n == 0) {
                fact("%s: no sample", what);
                return;
        }
        for (unsigned int i = 0; i < s->n; i++)
                sum += s->us[i];
        qsort(s->us, s->n, sizeof(s->us[0]), compare);
        fact("%s: p50 %.2f p99 %.2f max %.2f us, %u times, %.1f us together", what, s->us[s->n / 2],
                s->us[s->n * 99 / 100], s->us[s->n - 1], s->n, sum);
        s->n = 0;
}

/* --- the driver and the GPU --------------------------------------------------------------------------------------- */
#define STRING_(x) #x
#define STRING(x) STRING_(x)

/* Takes the place of a function that the driver lacks; the ABIs of CUDA allow calls with any arguments. */
static CUresult absent(void)
{
        return CUDA_ERROR_NOT_SUPPORTED;
}

bool driver_load(void)
{
        const char *paths[] = {getenv("DETSHARE_LIBCUDA"), "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
                "/usr/lib64/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/local/nvidia/lib/libcuda.so.1",
                "/usr/local/cuda/compat/libcuda.so.1", "libcuda.so.1"};
        void *handle = NULL;

        for (size_t i = 0; !handle && i < sizeof(paths) / sizeof(paths[0]); i++) {
                if (!paths[i] || (paths[i][0] == '/' && access(paths[i], R_OK) < 0))
                        continue;
                handle = dlopen(paths[i], RTLD_NOW);
                snprintf(cu.path, sizeof(cu.path), "%s", paths[i]);
                if (!handle)
                        fact("dlopen: %s", dlerror());
        }
        if (!handle)
                return false;
#define X(f)                                                    \
        cu.f = (__typeof__(f) *)dlsym(handle, STRING(f));       \
        if (!cu.f) {                                            \
                fact("the driver has no %s", STRING(f));        \
                cu.f = (__typeof__(f) *)(void (*)(void))absent; \
        }
        FACTS_FUNCTIONS(X)
#undef X
        return true;
}

bool gpu_start(void)
{
        CUdevResource all, rest;
        double t;

        if (!driver_load())
                return false;
        t = now_us();
        if (!TRY(cu.cuInit(0)))
                return false;
        gpu.init_us = now_us() - t;
        if (!TRY(cu.cuDeviceGet(&gpu.device, 0)))
                return false;
        t = now_us();
        TRY(cu.cuDevicePrimaryCtxSetFlags(gpu.device, CU_CTX_SCHED_SPIN | CU_CTX_LMEM_RESIZE_TO_MAX));
        if (!TRY(cu.cuDevicePrimaryCtxRetain(&gpu.primary, gpu.device)) || !TRY(cu.cuCtxSetCurrent(gpu.primary)))
                return false;
        gpu.retain_us = now_us() - t;
        TRY(cu.cuCtxGetStreamPriorityRange(&gpu.low, &gpu.high));
        t = now_us();
        if (!TRY(cu.cuDeviceGetDevResource(gpu.device, &all, CU_DEV_RESOURCE_TYPE_SM)) ||
                !TRY(cu.cuDevSmResourceSplitByCount(
                        NULL, &gpu.n_groups, &all, NULL, CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, 2)) ||
                gpu.n_groups > FACTS_GROUPS ||
                !TRY(cu.cuDevSmResourceSplitByCount(
                        gpu.groups, &gpu.n_groups, &all, &rest, CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, 2)))
                return false;
        gpu.split_us = now_us() - t;
        return gpu.n_groups > 16;
}

bool gpu_open(void)
{
        return gpu_start() && TRY(cu.cuLibraryLoadData(&gpu.library, image, NULL, NULL, 0, NULL, NULL, 0)) &&
               TRY(cu.cuMemAlloc(&gpu.scratch, MIB(1)));
}

size_t gpu_free(void)
{
        size_t available = 0, total;

        TRY(cu.cuMemGetInfo(&available, &total));
        return available;
}

bool green_make(struct green *g, unsigned int first, unsigned int count)
{
        CUdevResourceDesc descriptor;
        CUdevResource got;

        memset(g, 0, sizeof(*g));
        if (!TRY(cu.cuDevResourceGenerateDesc(&descriptor, &gpu.groups[first], count)) ||
                !TRY(cu.cuGreenCtxCreate(&g->context, descriptor, gpu.device, CU_GREEN_CTX_DEFAULT_STREAM)) ||
                !TRY(cu.cuGreenCtxStreamCreate(&g->high, g->context, CU_STREAM_NON_BLOCKING, gpu.high)) ||
                !TRY(cu.cuGreenCtxStreamCreate(&g->low, g->context, CU_STREAM_NON_BLOCKING, gpu.low)))
                return false;
        g->sms = 2 * count;
        if (TRY(cu.cuGreenCtxGetDevResource(g->context, &got, CU_DEV_RESOURCE_TYPE_SM)))
                g->sms = got.sm.smCount;
        return true;
}

CUfunction kernel(const char *name)
{
        CUkernel found = NULL;

        if (!facts_check(cu.cuLibraryGetKernel(&found, gpu.library, name), name))
                _exit(8);
        return (CUfunction)found;
}

CUresult launch(CUfunction f, CUstream stream, unsigned int grid, unsigned int block, const void *params, size_t size)
{
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)params, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                CU_LAUNCH_PARAM_END};

        return cu.cuLaunchKernel(f, grid, 1, 1, block, 1, 1, 0, stream, NULL, size ? extra : NULL);
}

CUresult launch_spin(CUstream stream, unsigned int grid, unsigned int block, uint64_t ns)
{
        static CUfunction spin;

        if (!spin)
                spin = kernel("spin");
        return launch(spin, stream, grid, block, &ns, sizeof(ns));
}

CUresult wait_event(CUevent event, double limit_us)
{
        double end = now_us() + limit_us;
        CUresult result;

        do
                result = cu.cuEventQuery(event);
        while (result == CUDA_ERROR_NOT_READY && now_us() < end);
        return result;
}

/* --- the busy GPU ------------------------------------------------------------------------------------------------- */
static atomic_bool ls_running;
static atomic_ullong ls_longest_ns, ls_launches;
static atomic_int ls_result;

static void *ls_main(void *unused)
{
        CUfunction nothing = kernel("nothing");

        (void)unused;
        if (cu.cuCtxSetCurrent(gpu.primary) != CUDA_SUCCESS)
                return NULL;
        for (;;) {
                double t = now_us();
                unsigned long long ns;
                CUresult result;

                if (!atomic_load(&ls_running)) {
                        usleep(50);
                        continue;
                }
                result = launch(nothing, busy.ls.high, 1, 32, NULL, 0);
                if (result == CUDA_SUCCESS)
                        result = cu.cuStreamSynchronize(busy.ls.high);
                ns = (unsigned long long)((now_us() - t) * 1e3);
                if (result != CUDA_SUCCESS)
                        atomic_store(&ls_result, (int)result);
                if (ns > atomic_load(&ls_longest_ns))
                        atomic_store(&ls_longest_ns, ns);
                atomic_fetch_add(&ls_launches, 1);
        }
}

bool busy_open(void)
{
        pthread_t thread;

        if (!green_make(&busy.be, 0, gpu.n_groups - 8) || !green_make(&busy.ls, gpu.n_groups - 8, 8) ||
                !TRY(cu.cuEventCreate(&busy.done, CU_EVENT_DISABLE_TIMING)))
                return false;
        /* a first launch, whose cost does not count */
        TRY(launch_spin(busy.be.low, 2 * busy.be.sms, 1024, 1000));
        TRY(launch_spin(busy.ls.low, 1, 1024, 1000));
        TRY(launch(kernel("nothing"), busy.ls.high, 1, 32, NULL, 0));
        TRY(launch(kernel("nothing"), busy.ls.low, 1, 32, NULL, 0));
        TRY(cu.cuCtxSynchronize());
        if (pthread_create(&thread, NULL, ls_main, NULL) != 0)
                return false;
        for (int i = 0; i < 2; i++)
                BUSY("nothing else, to compare", CUDA_SUCCESS);
        return true;
}

void busy_begin(void)
{
        unsigned long long before = atomic_load(&ls_launches);
        double end = now_us() + 100e3;

        atomic_store(&ls_running, true);
        while (atomic_load(&ls_launches) < before + 20 && now_us() < end)
                usleep(20);
        TRY(launch_spin(busy.be.low, 2 * busy.be.sms, 1024, BUSY_NS));
        TRY(cu.cuEventRecord(busy.done, busy.be.low));
        usleep(1500);
        atomic_store(&ls_longest_ns, 0);
        usleep(500);
}

void busy_end(const char *what, double us, CUresult result)
{
        bool over = cu.cuEventQuery(busy.done) != CUDA_ERROR_NOT_READY;
        double end = now_us() + 2e6;
        CUresult be;

        while ((be = cu.cuEventQuery(busy.done)) == CUDA_ERROR_NOT_READY && now_us() < end)
                usleep(200);
        usleep(1000);
        atomic_store(&ls_running, false);
        fact("%s while busy: %.1f us, freeze %.1f us, result %d%s", what, us, (double)atomic_load(&ls_longest_ns) / 1e3,
                (int)result, over ? ", BE had ended when it returned" : "");
        if (be != CUDA_SUCCESS || atomic_load(&ls_result) != 0)
                fact("ERROR BE ended with %d, LS with %d", (int)be, atomic_load(&ls_result));
        usleep(1000);
}

/* --- processes ---------------------------------------------------------------------------------------------------- */
static bool say_status(const char *who, int status)
{
        if (WIFSIGNALED(status))
                fact("ERROR %s died of signal %d", who, WTERMSIG(status));
        else if (WEXITSTATUS(status) != 0)
                fact("ERROR %s ended with %d", who, WEXITSTATUS(status));
        return status == 0;
}

bool in_child(void (*body)(void *), void *argument, double *ret_teardown_us)
{
        double said = 0, ended;
        int ends[2], status = -1;
        bool spoke;
        pid_t pid;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return false;
        pid = fork();
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                alarm(15);
                body(argument);
                said = now_us();
                _exit(write(ends[1], &said, sizeof(said)) == sizeof(said) ? 0 : 1);
        }
        close(ends[1]);
        spoke = pid > 0 && read(ends[0], &said, sizeof(said)) == sizeof(said);
        if (pid > 0)
                waitpid(pid, &status, 0);
        ended = now_us();
        close(ends[0]);
        if (ret_teardown_us)
                *ret_teardown_us = spoke ? ended - said : -1;
        return say_status("a child", status);
}

static void fresh_main(const char *since, const char *when)
{
        section = "fresh";
        alarm(15);
        if (!gpu_start())
                return;
        fact("%s: from fork to a context ready %.0f us, of it cuInit %.0f, retain %.0f, split %.0f", when,
                now_us() - strtod(since, NULL), gpu.init_us, gpu.retain_us, gpu.split_us);
}

void fresh_process(const char *when)
{
        char since[64];
        int status = -1;
        pid_t pid;

        snprintf(since, sizeof(since), "%.3f", now_us());
        pid = fork();
        if (pid == 0) {
                if (dup2(out, 1) == 1)
                        execl("/proc/self/exe", "facts", image_path, "@fresh", since, when, (char *)NULL);
                _exit(127);
        }
        if (pid > 0)
                waitpid(pid, &status, 0);
        say_status("a fresh process", status);
}

static void run_section(size_t i)
{
        double start = now_us(), limit = start + (sections[i].seconds + 10) * 1e6;
        int status = 0;
        pid_t pid, got;

        pid = fork();
        if (pid == 0) {
                section = sections[i].name;
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                alarm(sections[i].seconds);
                sections[i].run();
                if (n_errors > ERRORS_SAID)
                        fact("ERROR and %u more errors not said", n_errors - ERRORS_SAID);
                _exit(0);
        }
        if (pid < 0)
                return;
        while ((got = waitpid(pid, &status, WNOHANG)) == 0 && now_us() < limit)
                usleep(2000);
        if (got == 0)
                fact("ERROR section %s cannot be awaited", sections[i].name);
        else
                say_status(sections[i].name, status);
        fact("section %s took %.0f ms", sections[i].name, (now_us() - start) / 1e3);
}

static bool image_load(const char *path)
{
        struct stat st;
        char *p;
        int fd;

        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return false;
        p = malloc((size_t)st.st_size);
        if (!p || read(fd, p, (size_t)st.st_size) != st.st_size) {
                free(p);
                close(fd);
                return false;
        }
        close(fd);
        image = p;
        image_path = path;
        return true;
}

int main(int argc, char **argv)
{
        if (argc < 2 || !image_load(argv[1])) {
                fprintf(stderr, "usage: facts FILE.cubin [SECTION...]\n");
                return 2;
        }
        setenv("CUDA_MODULE_LOADING", "EAGER", 1);
        setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
        out = fcntl(1, F_DUPFD_CLOEXEC, 10);
        if (out < 0)
                return 2;
        if (argc == 5 && strcmp(argv[2], "@fresh") == 0) {
                fresh_main(argv[3], argv[4]);
                _exit(0);
        }
        for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
                bool wanted = argc == 2;

                for (int a = 2; a < argc; a++)
                        wanted |= strcmp(argv[a], sections[i].name) == 0;
                if (wanted)
                        run_section(i);
        }
        return 0;
}
