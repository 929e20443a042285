/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client library without memory: in each run one allocation of a program's calls fails, or it and all later ones
 *
 * Each run is a process with a daemon inside (tests/support/fake_daemon.h), whose threads are not counted. After each
 * run: the call returned "out of memory" or succeeded; the same calls of the same session succeed once there is memory
 * again (no lock is held, the session exists); and as much is allocated as after a run without failures. An alarm ends
 * a run that hangs.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "core/control.h"
#include "core/core.h"
#include "cuda/api.h"
#include "detshare/detshare.h"
#include "tests/support/fake_daemon.h"

#include "tests/unit/fail_alloc.h"

#define OOM 2
#define N_MAX 400
#define HANGS_S 30
#define THREADS 4
#define CALLS 300
#define BYTES 5000
#define PARAMS_BYTES 3000 /* more bytes of parameters than a launch keeps on its stack */

/* --- other functions that allocate --- */

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
void *__real_reallocarray(void *p, size_t n, size_t size);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
int __real_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

char *__wrap_strdup(const char *text)
{
        return fa_fails() ? NULL : fa_got(__real_strdup(text));
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
        if (fa_fails())
                return NULL;
        return p ? __real_reallocarray(p, n, size) : fa_got(__real_reallocarray(NULL, n, size));
}

int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
        return fa_fails() ? ENOMEM : __real_pthread_atfork(prepare, parent, child);
}

/* --- the daemon --- */

static struct fake fakes[8];
static int n_fakes;

static enum fake_verdict modules(Detshare__Reply *reply)
{
        static Detshare__ModuleReply module = DETSHARE__MODULE_REPLY__INIT;
        module.module = 9;
        module.log = (char *)"words";
        reply->result_case = DETSHARE__REPLY__RESULT_MODULE_LOAD;
        reply->module_load = &module;
        return FAKE_ANSWERED;
}

static enum fake_verdict kernel(Detshare__Reply *reply)
{
        static Detshare__KernelParam param = DETSHARE__KERNEL_PARAM__INIT, *params[] = {&param};
        static Detshare__KernelReply k = DETSHARE__KERNEL_REPLY__INIT;
        param.size = PARAMS_BYTES;
        k.kernel = 77;
        k.name = (char *)"k";
        k.n_params = 1;
        k.params = params;
        k.params_size = PARAMS_BYTES;
        k.max_threads = 1024;
        reply->result_case = DETSHARE__REPLY__RESULT_GET_KERNEL;
        reply->get_kernel = &k;
        return FAKE_ANSWERED;
}

static enum fake_verdict lists(const Detshare__Request *request, Detshare__Reply *reply)
{
        static char *names[] = {(char *)"a", (char *)"b"};
        static Detshare__KernelList kernels = DETSHARE__KERNEL_LIST__INIT;
        static Detshare__ClientEntry entry = DETSHARE__CLIENT_ENTRY__INIT, *entries[] = {&entry};
        static Detshare__ClientList clients = DETSHARE__CLIENT_LIST__INIT;
        if (request->call_case == DETSHARE__REQUEST__CALL_LIST_KERNELS) {
                kernels.n_names = 2;
                kernels.names = names;
                kernels.more = request->list_kernels->after == 0;
                reply->result_case = DETSHARE__REPLY__RESULT_LIST_KERNELS;
                reply->list_kernels = &kernels;
        } else {
                entry.name = (char *)"somebody";
                entry.session = request->list_clients->after + 1;
                clients.n_clients = 1;
                clients.clients = entries;
                clients.more = request->list_clients->after < 3;
                reply->result_case = DETSHARE__REPLY__RESULT_LIST_CLIENTS;
                reply->list_clients = &clients;
        }
        return FAKE_ANSWERED;
}

static enum fake_verdict global(Detshare__Reply *reply)
{
        static Detshare__GlobalReply g = DETSHARE__GLOBAL_REPLY__INIT;
        g.address = FAKE_WINDOW + (32u << 20);
        g.bytes = 64;
        reply->result_case = DETSHARE__REPLY__RESULT_GET_GLOBAL;
        reply->get_global = &g;
        return FAKE_ANSWERED;
}

static enum fake_verdict device(Detshare__Reply *reply)
{
        static Detshare__DeviceReply d = DETSHARE__DEVICE_REPLY__INIT;
        static int32_t attributes[130];
        for (size_t i = 0; i < sizeof(attributes) / sizeof(*attributes); i++)
                attributes[i] = 1024;
        d.count = 1;
        d.name = d.model = (char *)"fake";
        d.n_sms = 4;
        d.n_attributes = sizeof(attributes) / sizeof(*attributes);
        d.attributes = attributes;
        reply->result_case = DETSHARE__REPLY__RESULT_GET_DEVICE;
        reply->get_device = &d;
        return FAKE_ANSWERED;
}

static enum fake_verdict numbered(struct fake *fake, const Detshare__Request *request, Detshare__Reply *reply)
{
        static Detshare__StreamReply stream = DETSHARE__STREAM_REPLY__INIT;
        static Detshare__EventReply event = DETSHARE__EVENT_REPLY__INIT;
        static Detshare__StatsReply stats = DETSHARE__STATS_REPLY__INIT;
        if (request->call_case == DETSHARE__REQUEST__CALL_STREAM_CREATE) {
                stream.stream = 1 + fake->streams++ % 500;
                reply->result_case = DETSHARE__REPLY__RESULT_STREAM_CREATE;
                reply->stream_create = &stream;
        } else if (request->call_case == DETSHARE__REQUEST__CALL_EVENT_CREATE) {
                event.event = ++fake->event_id;
                reply->result_case = DETSHARE__REPLY__RESULT_EVENT_CREATE;
                reply->event_create = &event;
        } else {
                reply->result_case = DETSHARE__REPLY__RESULT_GET_STATS;
                reply->get_stats = &stats;
        }
        return FAKE_ANSWERED;
}

static enum fake_verdict hook(struct fake *fake, const Detshare__Request *request, Detshare__Reply *reply)
{
        switch (request->call_case) {
        case DETSHARE__REQUEST__CALL_GET_DEVICE:
                return device(reply);
        case DETSHARE__REQUEST__CALL_MODULE_LOAD:
                return modules(reply);
        case DETSHARE__REQUEST__CALL_GET_KERNEL:
                return kernel(reply);
        case DETSHARE__REQUEST__CALL_GET_GLOBAL:
                return global(reply);
        case DETSHARE__REQUEST__CALL_LIST_KERNELS:
        case DETSHARE__REQUEST__CALL_LIST_CLIENTS:
                return lists(request, reply);
        case DETSHARE__REQUEST__CALL_STREAM_CREATE:
        case DETSHARE__REQUEST__CALL_EVENT_CREATE:
        case DETSHARE__REQUEST__CALL_GET_STATS:
                return numbered(fake, request, reply);
        default:
                return FAKE_DEFAULT;
        }
}

static struct fake *daemon_now(void)
{
        return &fakes[n_fakes - 1];
}

static void new_daemon(void)
{
        fakes[n_fakes].hook = hook;
        fakes[n_fakes].simulated = true;
        fake_start(&fakes[n_fakes++]);
}

/* --- scenarios: each returns 0 or the error, and frees everything ------------------ */

static dsc_session *session;

static int connects(void)
{
        int error = -1;
        session = dsc_get(&error);
        return session ? 0 : error;
}

static int connects_and_goes(void)
{
        int r = detshare_connect(NULL);
        detshare_disconnect();
        return r == DETSHARE_E_NO_MEMORY ? OOM : r;
}

static int device_memory(void)
{
        uint64_t a, b;
        int r = dsc_mem_alloc(session, BYTES, &a);
        if (r)
                return r;
        r = dsc_mem_alloc(session, BYTES, &b);
        if (!r)
                r = dsc_mem_free(session, b);
        const int s = dsc_mem_free(session, a);
        return r ? r : s;
}

static int pinned_memory(void)
{
        void *p;
        int r = dsc_host_alloc(session, BYTES, &p);
        if (r)
                return r;
        memset(p, 1, BYTES);
        return dsc_host_free(session, p);
}

static int copies(void)
{
        static uint8_t out[BYTES], in[BYTES];
        memset(out, 0x5a, sizeof(out));
        int r = dsc_write(session, 0, FAKE_WINDOW, 0, out, 0, sizeof(out), 1);
        if (!r)
                r = dsc_read(session, 0, in, 0, FAKE_WINDOW, 0, sizeof(in), 1);
        return r ? r : memcmp(in, out, sizeof(in));
}

static int names_of(uint64_t module)
{
        char **names = NULL;
        size_t n = 0;
        int r = dsc_kernel_names(session, module, &names, &n);
        for (size_t i = 0; !r && i < n; i++)
                free(names[i]);
        if (!r)
                free(names);
        return r;
}

static int code(void)
{
        struct dsc_kernel k;
        uint64_t module, address, bytes;
        char log[64];
        int r = dsc_module_load(session, "12345", 5, log, sizeof(log), &module);
        if (r)
                return r;
        r = dsc_kernel_get(session, module, "k", &k);
        if (!r) {
                dsc_kernel_clear(&k);
                r = names_of(module);
        }
        if (!r)
                r = dsc_global_get(session, module, "g", &address, &bytes);
        const int s = dsc_module_unload(session, module);
        return r ? r : s;
}

static int work(void)
{
        const struct dsc_launch launch = {.kernel = 77};
        int r = dsc_launch(session, 0, &launch);
        if (!r)
                r = dsc_wait(session, 0, dsc_stream_tail(session, 0));
        return r ? r : dsc_query(session, 0, dsc_stream_tail(session, 0));
}

static int streams_and_events(void)
{
        uint64_t event, seq;
        uint32_t stream;
        int r = dsc_stream_create(session, 0, 1, &stream), s;
        if (r)
                return r;
        r = dsc_event_create(session, &event);
        if (!r) {
                r = dsc_event_record(session, stream, event, &seq);
                s = dsc_event_destroy(session, event);
                r = r ? r : s;
        }
        s = dsc_stream_destroy(session, stream);
        return r ? r : s;
}

static int questions(void)
{
        struct detshare_stats stats = {.size = sizeof(stats)};
        uint64_t ns;
        int r = detshare_get_stats(&stats);
        if (!r)
                r = detshare_now(&ns);
        if (!r)
                r = detshare_sleep_until(ns + 1000);
        if (!r)
                r = detshare_set_name("another");
        if (!r)
                r = detshare_clock_leave();
        return r == DETSHARE_E_NO_MEMORY ? OOM : r;
}

static int worker_dies(void)
{
        int r = work();
        if (r)
                return r;
        fake_worker_dies(daemon_now(), 0);
        return work();
}

/* The daemon ends and another one starts: each allocation of the client's reconnection may fail. */
static int daemon_dies(void)
{
        int error = -1;
        fake_stop(daemon_now());
        new_daemon();
        if (!dsc_lost(session))
                return -1;
        dsc_session *s = dsc_renew(NULL, &error);
        if (!s)
                return error;
        session = s;
        return work();
}

static int control(void)
{
        struct dsc_client *clients = NULL;
        dsc_session *s = NULL;
        size_t n = 0;
        int r = dsc_control_open(NULL, 0, &s);
        if (r)
                return r;
        r = dsc_control_clients(s, &clients, &n);
        if (!r) {
                r = n == 4 ? 0 : -1;
                free(clients);
        }
        dsc_control_close(s);
        return r;
}

static int by_requests(void)
{
        void *p;
        int r = work();
        if (!r)
                r = copies();
        if (!r)
                r = dsc_host_alloc(session, BYTES, &p);
        return r ? r : dsc_host_free(session, p);
}

/* --- the same through libcuda.so.1 --- */

static CUresult cuda_work(void)
{
        static uint8_t params[PARAMS_BYTES], bytes[BYTES];
        void *list[] = {params};
        CUmodule module;
        CUfunction function;
        CUdeviceptr p = 0;
        CUresult s, r = cuModuleLoadData(&module, ".version 8.0\n");
        if (r)
                return r;
        r = cuModuleGetFunction(&function, module, "k");
        if (!r)
                r = cuMemAlloc_v2(&p, BYTES);
        if (!r)
                r = cuMemcpyHtoD_v2(p, bytes, BYTES);
        if (!r)
                r = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, list, NULL);
        if (!r)
                r = cuCtxSynchronize();
        if (p) {
                s = cuMemFree_v2(p);
                r = r ? r : s;
        }
        s = cuModuleUnload(module);
        return r ? r : s;
}

static CUresult cuda_objects(void)
{
        CUstream stream;
        CUevent event;
        void *host = NULL;
        CUresult s, r = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
        if (r)
                return r;
        r = cuEventCreate(&event, CU_EVENT_DEFAULT);
        if (!r) {
                r = cuEventRecord(event, stream);
                s = cuEventDestroy_v2(event);
                r = r ? r : s;
        }
        if (!r)
                r = cuMemHostAlloc(&host, BYTES, 0);
        if (host) {
                s = cuMemFreeHost(host);
                r = r ? r : s;
        }
        s = cuStreamDestroy_v2(stream);
        return r ? r : s;
}

static int cuda(void)
{
        CUcontext context;
        CUresult s, r = cuInit(0);
        if (!r)
                r = cuCtxCreate_v2(&context, 0, 0);
        if (r)
                return (int)r;
        r = cuda_work();
        if (!r)
                r = cuda_objects();
        s = cuCtxDestroy_v2(context);
        return (int)(r ? r : s);
}

/* --- the sweep --- */

typedef int scenario(void);

struct outcome {
        int before, first, fired, second, third;
        int64_t live;
};

/* Runs fn with a failing allocation; after it, two more runs must succeed. */
static void run(scenario *before, scenario *fn, int64_t n, int lasting, struct outcome *out)
{
        alarm(HANGS_S);
        new_daemon();
        fa_by_thread = fa_mine = 1;
        fa_this_process();
        out->before = before ? before() : 0;
        if (lasting)
                fa_arm_lasting(n);
        else
                fa_arm(n);
        out->first = fn();
        out->fired = fa_disarm();
        out->second = fn();
        out->third = out->first ? fn() : 0;
        detshare_disconnect();
        out->live = atomic_load(&fa->live);
        _exit(0);
}

static void run_in_child(scenario *before, scenario *fn, int64_t n, int lasting, struct outcome *out)
{
        int status;
        fflush(NULL);
        memset(out, 0xff, sizeof(*out));
        const pid_t pid = fork();
        if (pid == 0)
                run(before, fn, n, lasting, out);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "allocation %d%s: status %#x", (int)n,
                lasting ? " and on" : "", status);
        cr_assert_eq(out->before, 0);
}

/* Lets each allocation of fn fail once. Returns the number of allocations. */
static int sweep_once(scenario *before, scenario *fn, int lasting, struct outcome *out, int64_t live, int *failures)
{
        int64_t n;
        for (n = 1; n < N_MAX; n++) {
                run_in_child(before, fn, n, lasting, out);
                cr_assert(out->first == 0 || out->first == OOM, "allocation %d%s: error %d", (int)n,
                        lasting ? " and on" : "", out->first);
                cr_assert(out->second == 0 && out->third == 0, "allocation %d%s: then error %d %d", (int)n,
                        lasting ? " and on" : "", out->second, out->third);
                cr_assert_eq(out->live, live, "allocation %d%s: %d remain, not %d", (int)n, lasting ? " and on" : "",
                        (int)out->live, (int)live);
                *failures += out->first != 0;
                if (!out->fired)
                        break;
        }
        cr_assert(n > 1 && n < N_MAX, "%d", (int)n);
        return (int)n - 1;
}

static void sweep(const char *name, scenario *before, scenario *fn)
{
        struct outcome *out = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        int n, lasting, failures = 0;
        cr_assert_neq(out, MAP_FAILED);
        fa_share();
        run_in_child(before, fn, 1000000, 0, out);
        cr_assert(out->first == 0 && out->second == 0, "%s: %d %d without a failure", name, out->first, out->second);
        const int64_t live = out->live;
        n = sweep_once(before, fn, 0, out, live, &failures);
        lasting = sweep_once(before, fn, 1, out, live, &failures);
        fprintf(stderr, "%s: %d allocations failed alone, %d with all that followed; %d runs said so\n", name, n,
                lasting, failures);
}

#define SWEEP(name, before)                    \
        Test(oom_client, name, .timeout = 240) \
        {                                      \
                sweep(#name, before, name);    \
        }

SWEEP(connects, NULL)
SWEEP(connects_and_goes, NULL)
SWEEP(device_memory, connects)
SWEEP(pinned_memory, connects)
SWEEP(copies, connects)
SWEEP(code, connects)
SWEEP(work, connects)
SWEEP(streams_and_events, connects)
SWEEP(questions, connects)
SWEEP(worker_dies, connects)
SWEEP(daemon_dies, connects)
SWEEP(control, NULL)
SWEEP(cuda, NULL)

Test(oom_client, by_requests, .timeout = 240)
{
        setenv("DETSHARE_TRANSPORT", "rpc", 1);
        sweep("by_requests", connects, by_requests);
}

/* --- replies need no memory, however many threads wait --- */

static _Atomic int wrong;

static void *caller(void *arg)
{
        uint64_t address, bytes;
        fa_mine = 1;
        for (int i = 0; i < CALLS; i++)
                if (dsc_mem_alloc(session, BYTES, &address) || dsc_global_get(session, 9, "g", &address, &bytes) ||
                        bytes != 64)
                        wrong++;
        return NULL;
}

Test(oom_client, threads_share_the_place_for_answers, .timeout = 120)
{
        pthread_t threads[THREADS];
        uint64_t address;
        new_daemon();
        cr_assert_eq(connects(), 0);
        for (int i = 0; i < THREADS * CALLS; i++)
                /* the first pass grows the table of requests to its final size */
                cr_assert_eq(dsc_mem_alloc(session, 1, &address), 0);
        for (int i = 0; i < THREADS * CALLS; i++)
                cr_assert_eq(dsc_mem_free(session, FAKE_WINDOW + (uint64_t)i * 512), 0);
        daemon_now()->device_used = 0;
        fa_share();
        fa_by_thread = 1;
        fa_this_process();
        fa_arm_lasting(1);
        for (int i = 0; i < THREADS; i++)
                cr_assert_eq(pthread_create(&threads[i], NULL, caller, NULL), 0);
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        cr_assert(fa_disarm());
        cr_assert_eq(wrong, 0, "%d calls", wrong);
}
