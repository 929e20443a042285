/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of the calibration, and the sessions that launch them (see calibrate.h)
 *
 * The kernels are PTX text. A block takes one chunk of memory, 16 bytes per thread and step, four steps at a time, so
 * that each thread has several memory requests in flight. A kernel may use 32 registers, so that two blocks fit on an
 * SM. The comments in the PTX tell a simulated device that executes nothing (`+timing`) the cost of a kernel; they give
 * the times that were measured on an H200 (docs/gpu.md).
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl/calibrate.h"
#include "detshare/detshare.h"

#define THREADS 1024u
#define TURN_BYTES 65536u /* bytes that a block processes per step: four times 16 bytes per thread */
#define LS_TURNS 3u
#define BE_TURNS 6u
#define LS_FMA_TURNS 37u /* turns of LS's computing kernel; a turn is 16 FMAs per thread */
#define BE_FMA_TURNS 68u
#define BE_MEMORY_MIN (64ull << 20)
#define BE_MEMORY_MAX (1ull << 30)
#define ATTRIBUTE_L2 38 /* CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE */
#define TEXT_MAX 16384

const char *const calibrate_loads[DSC_LOADS] = {"compute", "read", "write"};

/* --- the kernels --- */

#define PARAMS "(.param .u64 memory, .param .u32 chunks, .param .u32 turns)\n"
#define BOUNDS ".maxntid 1024, 1, 1\n.minnctapersm 2\n"
#define BEGIN                                                                                       \
        "{\n .reg .pred %p<2>;\n .reg .b32 %r<24>;\n .reg .b64 %d<4>;\n .reg .f32 %f<8>;\n"         \
        " ld.param.u64 %d0, [memory];\n ld.param.u32 %r0, [chunks];\n ld.param.u32 %r1, [turns];\n" \
        " mov.u32 %r2, %ctaid.x;\n rem.u32 %r2, %r2, %r0;\n mul.lo.u32 %r3, %r1, 65536;\n"          \
        " mul.wide.u32 %d1, %r2, %r3;\n mov.u32 %r4, %tid.x;\n mul.wide.u32 %d2, %r4, 16;\n"        \
        " add.s64 %d3, %d0, %d2;\n"
#define NEXT " sub.u32 %r1, %r1, 1;\n setp.ne.u32 %p0, %r1, 0;\n @%p0 bra AGAIN;\n"
#define LOAD(at) " ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%d3+" at "];\n" MIX
#define MIX " xor.b32 %r5, %r5, %r8;\n xor.b32 %r5, %r5, %r9;\n xor.b32 %r5, %r5, %r10;\n xor.b32 %r5, %r5, %r11;\n"
#define STORE(at) " st.global.v4.u32 [%d3+" at "], {%r2, %r4, %r1, %r5};\n"
#define FMA4                                                                 \
        " fma.rn.f32 %f0, %f0, %f1, %f2;\n fma.rn.f32 %f0, %f0, %f1, %f2;\n" \
        " fma.rn.f32 %f0, %f0, %f1, %f2;\n fma.rn.f32 %f0, %f0, %f1, %f2;\n"
/* Uses the result, or the compiler drops the work. Memory is zero, so no result equals this constant. */
#define KEEP(value) " setp.eq.u32 %p1, " value ", 0x9e3779b9;\n @%p1 st.global.u32 [%d0], " value ";\n ret;\n}\n"

static const char text_format[] =
        "// detshare-sim: calibrate_compute block_ns=%u issue_ns=%u\n"
        "// detshare-sim: calibrate_read block_ns=%u bytes=%u reuse=%" PRIu64 "\n"
        "// detshare-sim: calibrate_write block_ns=%u bytes=%u written=%u reuse=%" PRIu64 "\n";

static const char text_kernels[] =
        ".version 7.0\n.target sm_60\n.address_size 64\n"
        ".visible .entry calibrate_compute" PARAMS BOUNDS BEGIN
        " cvt.rn.f32.u32 %f0, %r4;\n mov.f32 %f1, 0f3F7FFFFF;\n mov.f32 %f2, 0f3F800001;\n"
        "AGAIN:\n" FMA4 FMA4 FMA4 FMA4 NEXT " mov.b32 %r5, %f0;\n" KEEP(
                "%r5") ".visible .entry calibrate_read" PARAMS BOUNDS BEGIN
                       " add.s64 %d3, %d3, %d1;\n mov.u32 %r5, 0;\n"
                       "AGAIN:\n" LOAD("0") LOAD("16384") LOAD("32768")
                               LOAD("49152") " add.s64 %d3, %d3, 65536;\n" NEXT KEEP(
                                       "%r5") ".visible .entry calibrate_write" PARAMS BOUNDS BEGIN
                                              " add.s64 %d3, %d3, %d1;\n mov.u32 %r5, 0;\n"
                                              "AGAIN:\n" STORE("0") STORE("16384") STORE("32768")
                                                      STORE("49152") " add.s64 %d3, %d3, 65536;\n" NEXT " ret;\n}\n";

static void write_text(const struct calibrate_load *load, char text[static TEXT_MAX])
{
        const uint32_t bytes = (load->is_ls ? LS_TURNS : BE_TURNS) * TURN_BYTES;
        const uint64_t reuse = load->is_ls ? (uint64_t)load->chunks * bytes : 0;
        const unsigned compute_ns = load->is_ls ? 2700 : 5000, read_ns = load->is_ls ? 5400 : 10000,
                       write_ns = load->is_ls ? 5400 : 15900;
        const int n = snprintf(text, TEXT_MAX, text_format, compute_ns, compute_ns, read_ns, bytes, reuse, write_ns,
                bytes, bytes, reuse);
        snprintf(text + n, TEXT_MAX - (size_t)n, "%s", text_kernels);
}

/* --- a session --- */

static int complain(int error, const char *what)
{
        return ctl_fail(error, "cannot calibrate: %s", what);
}

/* Removes DetShare's variables that would change the load's session, and sets its class and name. */
static void choose_environment(int is_ls)
{
        static const char *const others[] = {"DETSHARE_SLO_MS", "DETSHARE_MEM_LIMIT", "DETSHARE_SM_PERCENT",
                "DETSHARE_GPU_REQUEST", "DETSHARE_GPU_LIMIT", "DETSHARE_PHASE", "DETSHARE_TRANSPORT"};
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
                unsetenv(others[i]);
        setenv("DETSHARE_NOTES", "off", 1);
        setenv("DETSHARE_CLASS", is_ls ? "ls" : "be", 1);
        setenv("DETSHARE_NAME", is_ls ? CALIBRATE_LS : CALIBRATE_BE, 1);
        if (arg_socket)
                setenv("DETSHARE_SOCKET", arg_socket, 1);
}

static uint32_t be_chunks(const struct dsc_device *device)
{
        const int64_t l2 = device->n_attributes > ATTRIBUTE_L2 ? device->attributes[ATTRIBUTE_L2] : 0;
        uint64_t bytes = BE_MEMORY_MIN;
        while (bytes < 4 * (uint64_t)(l2 > 0 ? l2 : 0) && bytes < BE_MEMORY_MAX)
                bytes *= 2;
        return (uint32_t)(bytes / (BE_TURNS * TURN_BYTES));
}

int calibrate_load_kernels(
        dsc_session *session, const char *text, const char *ending, unsigned first, uint64_t kernels[DSC_LOADS])
{
        char log[512] = "";
        uint64_t module;
        int r = dsc_module_load(session, text, strlen(text) + 1, log, sizeof(log), &module);
        if (r && log[0])
                ctl_complain("%s", log);
        for (unsigned i = first; i < DSC_LOADS && !r; i++) {
                struct dsc_kernel kernel;
                char name[64];
                snprintf(name, sizeof(name), "calibrate_%s%s", calibrate_loads[i], ending);
                r = dsc_kernel_get(session, module, name, &kernel);
                if (r)
                        break;
                kernels[i] = kernel.id;
                dsc_kernel_clear(&kernel);
        }
        return r ? complain(r, "no kernels") : 0;
}

static int load_module(struct calibrate_load *load)
{
        char text[TEXT_MAX];
        write_text(load, text);
        return calibrate_load_kernels(load->session, text, "", 0, load->kernels);
}

static int load_memory(struct calibrate_load *load)
{
        const uint64_t bytes = (uint64_t)load->chunks * (load->is_ls ? LS_TURNS : BE_TURNS) * TURN_BYTES;
        int r = dsc_mem_alloc(load->session, bytes, &load->memory);
        const struct dsc_memset zero = {
                .dst = load->memory, .element_size = 4, .width = bytes / 4, .height = 1, .pitch = bytes};
        if (!r)
                r = dsc_memset(load->session, 0, &zero);
        if (!r)
                r = dsc_wait_all(load->session);
        return r ? complain(r, "no device memory") : 0;
}

int calibrate_load_open(struct calibrate_load *load, int is_ls, uint32_t n_sms)
{
        int r = 0;
        *load = (struct calibrate_load){.is_ls = is_ls};
        choose_environment(is_ls);
        load->session = dsc_get(&r);
        if (!load->session)
                return complain(r, "no session");
        if (dsc_control_is_ls(load->session) != is_ls) {
                ctl_complain("cannot calibrate: the daemon does not grant this user class %s", is_ls ? "ls" : "be");
                return CTL_DENIED;
        }
        load->chunks = is_ls ? 2 * n_sms : be_chunks(dsc_device(load->session));
        const int code = load_module(load);
        if (code)
                return code;
        for (int i = 0; i < 2 && !r; i++)
                r = dsc_event_create(load->session, &load->events[i]);
        return r ? complain(r, "no events") : load_memory(load);
}

int calibrate_load_submit(struct calibrate_load *load, unsigned kind, uint32_t grid)
{
        const uint32_t turns = kind == DSC_LOAD_COMPUTE ? (load->is_ls ? LS_FMA_TURNS : BE_FMA_TURNS)
                                                        : (load->is_ls ? LS_TURNS : BE_TURNS);
        const struct {
                uint64_t memory;
                uint32_t chunks, turns;
        } params = {load->memory, load->chunks, turns};
        const struct dsc_launch launch = {
                .kernel = load->kernels[kind],
                .grid = {grid, 1, 1},
                .block = {THREADS, 1, 1},
                .params = &params,
                .params_size = sizeof(params),
        };
        int r = dsc_event_record(load->session, 0, load->events[0], &load->seqs[0]);
        if (!r)
                r = dsc_launch(load->session, 0, &launch);
        if (!r)
                r = dsc_event_record(load->session, 0, load->events[1], &load->seqs[1]);
        return r ? complain(r, "no launch") : 0;
}

int calibrate_load_wait(struct calibrate_load *load, struct calibrate_span *ret)
{
        const int r = dsc_wait(load->session, 0, load->seqs[1]);
        if (r)
                return complain(r, "a kernel failed");
        if (dsc_event_time(load->session, load->events[0], 0, load->seqs[0], &ret->start_ns) &&
                dsc_event_time(load->session, load->events[1], 0, load->seqs[1], &ret->end_ns))
                return 0;
        ctl_complain("cannot calibrate: the daemon reported no times of a kernel");
        return CTL_FAILED;
}

int calibrate_load_executes(struct calibrate_load *load, int *ret)
{
        uint32_t words[4] = {0};
        struct calibrate_span span;
        int code = calibrate_load_submit(load, DSC_LOAD_WRITE, 1);
        if (!code)
                code = calibrate_load_wait(load, &span);
        if (code)
                return code;
        const int r = dsc_read(load->session, 0, words, sizeof(words), load->memory, sizeof(words), sizeof(words), 1);
        *ret = words[2] != 0; /* turns that were left when the kernel stored the word; 0 only if it did not run */
        return r ? complain(r, "no device memory") : 0;
}

/* --- the process with the BE load --- */

struct be_order {
        uint32_t kind, grid; /* grid of the launch; 0: become a load for `kind` SMs */
        uint32_t again;      /* 1: repeat the launch until the next order, which only ends the repetition */
};

/* Answer of the BE process to an order: first "submitted", then "ended". The first order has one answer. */
struct be_report {
        int32_t code, ended;
        struct calibrate_span span;
};

static int report(int socket, int code, int ended, const struct calibrate_span *span)
{
        const struct be_report r = {code, ended, *span};
        return send(socket, &r, sizeof(r), MSG_NOSIGNAL) == (ssize_t)sizeof(r) ? code : CTL_FAILED;
}

/*
 * Keeps one launch queued behind another. A simulated clock stands still while this process works. So there is no gap
 * between launches, however late this process runs.
 */
static int again_and_again(struct calibrate_load *load, int socket, const struct be_order *order)
{
        struct be_order next;
        uint64_t now;
        int code = 0;
        (void)detshare_now(&now);
        while (!code && recv(socket, &next, sizeof(next), MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR)) {
                const uint64_t before = load->seqs[1];
                code = calibrate_load_submit(load, order->kind, order->grid);
                const int r = code ? 0 : dsc_wait(load->session, 0, before);
                if (r)
                        code = complain(r, "a kernel failed");
        }
        (void)detshare_clock_leave();
        return code;
}

static void be_main(int socket)
{
        struct calibrate_load load;
        struct calibrate_span span = {0};
        struct be_order order;
        int code = 0;
        while (!code && recv(socket, &order, sizeof(order), 0) == (ssize_t)sizeof(order)) {
                if (!order.grid) {
                        code = report(socket, calibrate_load_open(&load, 0, order.kind), 1, &span);
                        continue;
                }
                code = report(socket, calibrate_load_submit(&load, order.kind, order.grid), 0, &span);
                if (!code && order.again)
                        code = again_and_again(&load, socket, &order);
                if (!code)
                        code = report(socket, calibrate_load_wait(&load, &span), 1, &span);
        }
        exit(code);
}

int calibrate_be_start(struct calibrate_be *be)
{
        int sockets[2];
        const pid_t parent = getpid();
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets)) {
                ctl_complain("cannot make a socket: %s", strerror(errno));
                return CTL_FAILED;
        }
        be->socket = sockets[0];
        be->pid = fork();
        if (be->pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                close(sockets[0]);
                if (getppid() == parent)
                        be_main(sockets[1]);
                _exit(CTL_FAILED);
        }
        close(sockets[1]);
        if (be->pid > 0)
                return 0;
        ctl_complain("cannot make a process: %s", strerror(errno));
        close(be->socket);
        return CTL_FAILED;
}

void calibrate_be_stop(struct calibrate_be *be)
{
        if (be->pid <= 0)
                return;
        close(be->socket);
        waitpid(be->pid, NULL, 0);
        be->pid = -1;
}

/* Reads an answer of the BE process. 0: *ret has it; -1: there is none yet; else an exit code, and the child has
 * printed the reason. */
static int hear(struct calibrate_be *be, int flags, struct be_report *ret)
{
        const ssize_t n = recv(be->socket, ret, sizeof(*ret), flags);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                return -1;
        return n == (ssize_t)sizeof(*ret) ? ret->code : CTL_FAILED;
}

static int order(struct calibrate_be *be, uint32_t kind, uint32_t grid, uint32_t again)
{
        const struct be_order what = {kind, grid, again};
        struct be_report r;
        if (send(be->socket, &what, sizeof(what), MSG_NOSIGNAL) != (ssize_t)sizeof(what))
                return CTL_FAILED;
        return hear(be, 0, &r);
}

int calibrate_be_ready(struct calibrate_be *be, uint32_t n_sms)
{
        return order(be, n_sms, 0, 0);
}

int calibrate_be_launch(struct calibrate_be *be, unsigned kind, uint32_t grid)
{
        return order(be, kind, grid, 0);
}

int calibrate_be_keep_on(struct calibrate_be *be, unsigned kind, uint32_t grid)
{
        return order(be, kind, grid, 1);
}

int calibrate_be_rest(struct calibrate_be *be)
{
        const struct be_order what = {0};
        struct be_report r;
        if (send(be->socket, &what, sizeof(what), MSG_NOSIGNAL) != (ssize_t)sizeof(what))
                return CTL_FAILED;
        return hear(be, 0, &r);
}

int calibrate_be_ended(struct calibrate_be *be, int wait, struct calibrate_span *ret)
{
        struct be_report r;
        const int code = hear(be, wait ? 0 : MSG_DONTWAIT, &r);
        if (!code)
                *ret = r.span;
        return code;
}
