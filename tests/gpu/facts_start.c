/* SPDX-License-Identifier: Apache-2.0 */
/* facts: where the driver is, the cost of start and end, the numbers of the SMs, limits */
#include "facts.h"

#include <dirent.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY 65533
#define MAX_SMS 512

/* --- environment -------------------------------------------------------------------------------------------------- */
static void say_devices(const char *folder)
{
        struct dirent *entry;
        struct stat st;
        char path[600];
        DIR *d = opendir(folder);

        if (!d)
                return;
        while ((entry = readdir(d))) {
                if (strcmp(folder, "/dev") == 0 && strncmp(entry->d_name, "nvidia", 6) != 0)
                        continue;
                snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
                if (entry->d_name[0] != '.' && stat(path, &st) == 0)
                        fact("%s: mode %06o owner %u:%u device %u,%u", path, st.st_mode, st.st_uid, st.st_gid,
                                (unsigned int)(st.st_rdev >> 8), (unsigned int)(st.st_rdev & 255));
        }
        closedir(d);
}

static void say_maps(void)
{
        char line[1024], *path;
        FILE *f = fopen("/proc/self/maps", "re");

        while (f && fgets(line, sizeof(line), f)) {
                path = strchr(line, '/');
                if (!path || (!strstr(path, "nvidia") && !strstr(path, "cuda")))
                        continue;
                path[strcspn(path, "\n")] = '\0';
                if (strncmp(strchr(line, ' ') + 1, "r-x", 3) == 0 || strstr(path, "/dev/"))
                        fact("mapped: %.40s ... %s", line, path);
        }
        if (f)
                fclose(f);
}

static void say_ptxas(void)
{
        char path[4096], *save = NULL, *list = strdup(getenv("PATH") ? getenv("PATH") : "");
        bool found = false;

        for (char *p = list ? strtok_r(list, ":", &save) : NULL; p; p = strtok_r(NULL, ":", &save)) {
                snprintf(path, sizeof(path), "%s/ptxas", p);
                if (access(path, X_OK) == 0) {
                        fact("ptxas: %s", path);
                        found = true;
                }
        }
        if (!found)
                fact("ptxas: not in PATH");
        free(list);
}

static void as_nobody(void *unused)
{
        bool opened;

        (void)unused;
        if (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0) {
                fact("as %d: cannot become it", NOBODY);
                return;
        }
        opened = gpu_open();
        fact("as %d: context %s", NOBODY, opened ? "made, library loaded" : "NOT made");
}

void section_env(void)
{
        size_t available = 0, total = 0;
        int version = 0, sms = 0;
        char name[128] = "", uuid[40] = "";
        CUuuid id;

        fact("uid %u, cpus %ld", getuid(), sysconf(_SC_NPROCESSORS_ONLN));
        say_devices("/dev");
        say_devices("/dev/nvidia-caps");
        say_ptxas();
        in_child(as_nobody, NULL, NULL);
        if (!gpu_open())
                return;
        TRY(cu.cuDriverGetVersion(&version));
        TRY(cu.cuDeviceGetName(name, sizeof(name), gpu.device));
        TRY(cu.cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu.device));
        if (TRY(cu.cuDeviceGetUuid(&id, gpu.device)))
                for (int i = 0; i < 16; i++)
                        snprintf(uuid + 2 * i, 3, "%02x", (unsigned char)id.bytes[i]);
        fact("library %s, driver %d, device %s, uuid %s, %d SMs, %u groups, priorities %d to %d", cu.path, version,
                name, uuid, sms, gpu.n_groups, gpu.low, gpu.high);
        TRY(cu.cuMemGetInfo(&available, &total));
        fact("with a context and a library %.1f MiB of %.1f MiB are in use", (double)(total - available) / MIB(1),
                (double)total / MIB(1));
        say_maps();
}

/* --- start and teardown ------------------------------------------------------------------------------------------- */
#define MAX_RUNGS 15
#define MAX_STREAMS 16
static struct {
        CUgreenCtx context;
        CUstream streams[MAX_STREAMS];
        unsigned int n_streams;
} rungs[MAX_RUNGS];
static unsigned int n_rungs;

static bool rung_make(
        unsigned int first, unsigned int count, unsigned int n_streams, struct series *contexts, struct series *streams)
{
        CUdevResourceDesc descriptor;
        CUgreenCtx context;

        if (!TRY(cu.cuDevResourceGenerateDesc(&descriptor, &gpu.groups[first], count)) ||
                !SAMPLE(contexts, cu.cuGreenCtxCreate(&context, descriptor, gpu.device, CU_GREEN_CTX_DEFAULT_STREAM)))
                return false;
        rungs[n_rungs].context = context;
        rungs[n_rungs].n_streams = 0;
        for (unsigned int i = 0; i < 2 * n_streams; i++) {
                CUstream stream;

                if (!SAMPLE(streams, cu.cuGreenCtxStreamCreate(&stream, context, CU_STREAM_NON_BLOCKING,
                                             i < n_streams ? gpu.high : gpu.low)))
                        break;
                rungs[n_rungs].streams[rungs[n_rungs].n_streams++] = stream;
        }
        n_rungs++;
        return true;
}

bool rungs_make(unsigned int n_streams, struct series *contexts, struct series *streams)
{
        bool good;

        n_rungs = 0;
        good = rung_make(0, gpu.n_groups, n_streams, contexts, streams);
        for (unsigned int k = 1; good && k < 8; k++) {
                unsigned int cut = k * gpu.n_groups / 8;

                good = rung_make(0, cut, n_streams, contexts, streams) &&
                       rung_make(cut, gpu.n_groups - cut, n_streams, contexts, streams);
        }
        return good;
}

void rungs_drop(struct series *contexts, struct series *streams)
{
        for (unsigned int i = 0; i < n_rungs; i++) {
                for (unsigned int s = 0; s < rungs[i].n_streams; s++)
                        SAMPLE(streams, cu.cuStreamDestroy(rungs[i].streams[s]));
                SAMPLE(contexts, cu.cuGreenCtxDestroy(rungs[i].context));
        }
        n_rungs = 0;
}

void section_start(void)
{
        static struct series contexts, streams;
        static const unsigned int per_priority[] = {8, 4, 8};
        size_t before, after;
        double t = now_us();

        if (!gpu_start())
                return;
        fact("all of it %.0f us: cuInit %.0f, retain %.0f, split into %u groups %.1f", now_us() - t, gpu.init_us,
                gpu.retain_us, gpu.n_groups, gpu.split_us);
        t = now_us();
        TRY(cu.cuLibraryLoadData(&gpu.library, image, NULL, NULL, 0, NULL, NULL, 0));
        fact("first library %.0f us", now_us() - t);
        for (size_t i = 0; i < sizeof(per_priority) / sizeof(per_priority[0]); i++) {
                before = gpu_free();
                t = now_us();
                rungs_make(per_priority[i], &contexts, &streams);
                t = now_us() - t;
                after = gpu_free();
                fact("15 rungs with %u streams of each priority: %.0f us, %.1f MiB", per_priority[i], t,
                        ((double)before - (double)after) / MIB(1));
                series_fact(&contexts, "  cuGreenCtxCreate");
                series_fact(&streams, "  cuGreenCtxStreamCreate");
                t = now_us();
                rungs_drop(&contexts, &streams);
                fact("  destroyed in %.0f us, %.1f MiB less in use than before them", now_us() - t,
                        ((double)gpu_free() - (double)before) / MIB(1));
                series_fact(&contexts, "  cuGreenCtxDestroy");
                series_fact(&streams, "  cuStreamDestroy");
        }
}

static void end_with(void *argument)
{
        static struct series contexts, streams;
        int what = *(int *)argument;

        if (!gpu_open())
                return;
        if (what >= 1)
                rungs_make(8, &contexts, &streams);
        if (what >= 2) {
                TRY(launch_spin(rungs[0].streams[0], 264, 1024, 100000000));
                usleep(5000);
        }
}

void section_teardown(void)
{
        static const char *const names[] = {
                "a context", "15 rungs of 16 streams", "that, and a kernel with 95 ms to go"};

        for (int i = 0; i < 3; i++) {
                for (int repeat = 0; repeat < 2; repeat++) {
                        double us = -1;

                        in_child(end_with, &i, &us);
                        fact("_exit with %s to parent knowing: %.0f us", names[i], us);
                }
                fresh_process("after it");
        }
}

/* --- SMs ---------------------------------------------------------------------------------------------------------- */
static unsigned int parent[MAX_SMS], seen[MAX_SMS];

static unsigned int root(unsigned int x)
{
        while (parent[x] != x)
                x = parent[x];
        return x;
}

static bool group_sms(unsigned int group)
{
        struct {
                CUdeviceptr out;
                uint64_t ns;
        } params = {gpu.scratch, 5000};
        unsigned int ids[64];
        char text[256] = "";
        struct green g;
        bool met[MAX_SMS] = {false};

        if (!green_make(&g, group, 1))
                return false;
        if (!TRY(launch(kernel("where"), g.high, 64, 256, &params, sizeof(params))) ||
                !TRY(cu.cuStreamSynchronize(g.high)) || !TRY(cu.cuMemcpyDtoH(ids, gpu.scratch, sizeof(ids))))
                return false;
        for (int i = 0; i < 64; i++)
                if (ids[i] < MAX_SMS)
                        met[ids[i]] = true;
        for (int i = 0; i < MAX_SMS; i++)
                if (met[i] && strlen(text) < 240)
                        snprintf(text + strlen(text), sizeof(text) - strlen(text), " %d", i);
        fact("group %u: SMs%s", group, text);
        TRY(cu.cuStreamDestroy(g.high));
        TRY(cu.cuStreamDestroy(g.low));
        return TRY(cu.cuGreenCtxDestroy(g.context));
}

static void cluster_round(unsigned int size, CUstream stream)
{
        static unsigned int pairs[2 * 1024];
        static unsigned int first[1024];
        struct {
                CUdeviceptr out;
                uint64_t ns;
        } params = {gpu.scratch, 20000};
        size_t bytes = sizeof(params);
        void *extra[] = {
                CU_LAUNCH_PARAM_BUFFER_POINTER, &params, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
        CUlaunchAttribute attribute = {
                .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value = {.clusterDim = {.x = size, .y = 1, .z = 1}}};
        CUlaunchConfig config = {.gridDimX = 1024,
                .gridDimY = 1,
                .gridDimZ = 1,
                .blockDimX = 64,
                .blockDimY = 1,
                .blockDimZ = 1,
                .hStream = stream,
                .attrs = &attribute,
                .numAttrs = 1};

        if (!TRY(cu.cuLaunchKernelEx(&config, kernel("cluster_where"), NULL, extra)) ||
                !TRY(cu.cuStreamSynchronize(stream)) || !TRY(cu.cuMemcpyDtoH(pairs, gpu.scratch, sizeof(pairs))))
                return;
        memset(first, 0xff, sizeof(first));
        for (int i = 0; i < 1024; i++) {
                unsigned int sm = pairs[2 * i], cluster = pairs[2 * i + 1];

                if (sm >= MAX_SMS || cluster >= 1024)
                        continue;
                seen[sm]++;
                if (first[cluster] == UINT32_MAX)
                        first[cluster] = sm;
                parent[root(sm)] = root(first[cluster]);
        }
}

static void say_gpcs(unsigned int n_sms)
{
        char text[1800];

        for (unsigned int r = 0; r < n_sms; r++) {
                unsigned int n = 0;
                size_t used = 0;

                if (root(r) != r)
                        continue;
                for (unsigned int i = 0; i < n_sms; i++)
                        if (root(i) == r && used < sizeof(text) - 16) {
                                used += (size_t)snprintf(text + used, sizeof(text) - used, " %u", i);
                                n++;
                        }
                fact("  %s of %u SMs:%s", seen[r] ? "GPC" : "not reached", n, text);
        }
}

void section_sms(void)
{
        static const unsigned int sizes[] = {16, 8, 2};
        unsigned int n_sms;
        CUstream stream;
        double t;

        if (!gpu_open())
                return;
        t = now_us();
        for (unsigned int i = 0; i < gpu.n_groups; i++)
                if (!group_sms(i))
                        break;
        fact("SMs of %u groups found in %.0f us", gpu.n_groups, now_us() - t);
        n_sms = 2 * gpu.n_groups;
        for (unsigned int i = 0; i < MAX_SMS; i++)
                parent[i] = i;
        TRY(cu.cuFuncSetAttribute(kernel("cluster_where"), CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
        if (!TRY(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, gpu.high)))
                return;
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                t = now_us();
                for (int round = 0; round < 20; round++)
                        cluster_round(sizes[i], stream);
                fact("GPCs with clusters of %u too, 20 rounds in %.0f us:", sizes[i], now_us() - t);
                say_gpcs(n_sms);
        }
}

/* --- limits ------------------------------------------------------------------------------------------------------- */
void section_limits(void)
{
        static const struct {
                const char *name;
                CUlimit limit;
        } limits[] = {{"stack size", CU_LIMIT_STACK_SIZE}, {"printf FIFO", CU_LIMIT_PRINTF_FIFO_SIZE},
                {"malloc heap", CU_LIMIT_MALLOC_HEAP_SIZE}};

        if (!gpu_start())
                return;
        for (int loaded = 0; loaded < 2; loaded++) {
                for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
                        size_t was = 0, is = 0, before = gpu_free();
                        CUresult result;
                        double t;

                        TRY(cu.cuCtxGetLimit(&was, limits[i].limit));
                        t = now_us();
                        result = cu.cuCtxSetLimit(limits[i].limit, 2 * was);
                        t = now_us() - t;
                        TRY(cu.cuCtxGetLimit(&is, limits[i].limit));
                        fact("%s, %s: was %zu, set to twice that: %.1f us, result %d, is %zu, %.2f MiB more in use",
                                limits[i].name, loaded ? "with a library" : "fresh", was, t, (int)result, is,
                                ((double)before - (double)gpu_free()) / MIB(1));
                }
                if (loaded == 0 && !TRY(cu.cuLibraryLoadData(&gpu.library, image, NULL, NULL, 0, NULL, NULL, 0)))
                        return;
        }
}
