/* SPDX-License-Identifier: Apache-2.0 */
/* facts: a kernel's text, assertions, faults and the user-mode core dump */
#include "facts.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- printf ------------------------------------------------------------------------------------------------------- */
static int text_fd;

/* redirects a descriptor to an empty file, and returns that file */
static int divert(int fd)
{
        int file = memfd_create("text", MFD_CLOEXEC);

        if (file < 0 || dup2(file, fd) < 0)
                _exit(7);
        return file;
}

static long text_size(void)
{
        struct stat st;

        return fstat(text_fd, &st) < 0 ? -1 : (long)st.st_size;
}

static CUevent said;

static CUresult by_nothing(void)
{
        usleep(20000);
        return CUDA_SUCCESS;
}
static CUresult by_event_query(void)
{
        return wait_event(said, 1e5);
}
static CUresult by_stream_query(void)
{
        return cu.cuStreamQuery(busy.ls.low);
}
static CUresult by_other_launch(void)
{
        return launch(kernel("nothing"), busy.be.high, 1, 32, NULL, 0);
}
static CUresult by_event(void)
{
        return cu.cuEventSynchronize(said);
}
static CUresult by_stream(void)
{
        return cu.cuStreamSynchronize(busy.ls.low);
}
static CUresult by_other_stream(void)
{
        return cu.cuStreamSynchronize(busy.ls.high);
}
static CUresult by_context(void)
{
        return cu.cuCtxSynchronize();
}

static const struct {
        const char *name;
        CUresult (*act)(void);
} actions[] = {{"nothing, for 20 ms", by_nothing}, {"cuEventQuery", by_event_query}, {"cuStreamQuery", by_stream_query},
        {"a launch on another stream", by_other_launch}, {"cuEventSynchronize", by_event},
        {"cuStreamSynchronize", by_stream}, {"cuStreamSynchronize of another stream", by_other_stream},
        {"cuCtxSynchronize", by_context}};

/* prints whether this call brings the text of a kernel that has ended */
static void text_after(size_t i)
{
        int n = 42;
        long before, unflushed, flushed, last;
        CUresult result;

        TRY(cu.cuCtxSynchronize());
        fflush(stdout);
        before = text_size();
        TRY(launch(kernel("say"), busy.ls.low, 1, 1, &n, sizeof(n)));
        TRY(cu.cuEventRecord(said, busy.ls.low));
        usleep(10000); /* by now the kernel has ended, and no call has reported its end */
        result = actions[i].act();
        unflushed = text_size() - before;
        fflush(stdout);
        flushed = text_size() - before;
        TRY(cu.cuCtxSynchronize());
        fflush(stdout);
        last = text_size() - before;
        fact("text after %s (result %d): %ld bytes, %ld after fflush, %ld after cuCtxSynchronize and fflush",
                actions[i].name, (int)result, unflushed, flushed, last);
}

/* prints whether cuStreamSynchronize of an idle stream brings text while BE runs, and when it returns */
static CUresult idle_stream_sync(void)
{
        int n = 43;
        long before = text_size();
        CUresult result;
        double t;

        TRY(launch(kernel("say"), busy.ls.low, 1, 1, &n, sizeof(n)));
        TRY(cu.cuEventRecord(said, busy.ls.low));
        TRY(wait_event(said, 1e5));
        t = now_us();
        result = cu.cuStreamSynchronize(busy.be.high);
        t = now_us() - t;
        fflush(stdout);
        fact("beside BE: cuStreamSynchronize of an idle stream %.1f us, %ld bytes of another's text", t,
                text_size() - before);
        t = now_us();
        TRY(cu.cuStreamSynchronize(busy.ls.low));
        t = now_us() - t;
        fflush(stdout);
        fact("beside BE: cuStreamSynchronize of the stream that spoke %.1f us, %ld bytes", t, text_size() - before);
        return result;
}

static void say_much(unsigned int lines)
{
        int zero = 0;
        long before;
        double t;

        before = text_size();
        t = now_us();
        TRY(launch(kernel("say_much"), busy.ls.low, lines / 256, 256, &zero, sizeof(zero)));
        TRY(cu.cuStreamSynchronize(busy.ls.low));
        t = now_us() - t;
        fflush(stdout);
        fact("%u lines: %ld bytes arrived in %.0f us", lines, text_size() - before, t);
}

void section_printf(void)
{
        size_t size = 0;

        text_fd = divert(1);
        if (!gpu_open() || !busy_open() || !TRY(cu.cuEventCreate(&said, CU_EVENT_DISABLE_TIMING)))
                return;
        for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
                text_after(i);
        BUSY("a kernel's text and two waits", idle_stream_sync());
        say_much(256);
        say_much(32768);
        say_much(262144);
        TRY(cu.cuCtxGetLimit(&size, CU_LIMIT_PRINTF_FIFO_SIZE));
        fact("the FIFO has %zu bytes", size);
        ONCE("cuCtxSetLimit of the FIFO to 8 MiB", cu.cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, MIB(8)));
        say_much(262144);
}

/* --- assert ------------------------------------------------------------------------------------------------------- */
static void say_text(const char *when)
{
        char text[700] = "", safe[1400];
        ssize_t n;
        size_t k = 0;

        fflush(stderr);
        n = pread(text_fd, text, sizeof(text) - 1, 0);
        for (ssize_t i = 0; i < n; i++) {
                if (text[i] == '\n') {
                        safe[k++] = '\\';
                        safe[k++] = 'n';
                } else {
                        safe[k++] = text[i];
                }
        }
        safe[k] = '\0';
        fact("standard error after %s: %ld bytes: %s", when, text_size(), safe);
}

static void say_after(CUstream stream, CUevent event)
{
        CUmemGenericAllocationHandle handle;
        size_t a, b;
        CUresult r[8]; /* an array, because the order in which arguments are evaluated is unspecified */

        r[0] = cu.cuEventQuery(event);
        r[1] = cu.cuMemGetInfo(&a, &b);
        r[2] = vmm_create(&handle, MIB(64));
        r[3] = cu.cuCtxSetCurrent(gpu.primary);
        r[4] = cu.cuLaunchKernel(kernel("nothing"), 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
        r[5] = cu.cuStreamQuery(stream);
        r[6] = cu.cuStreamSynchronize(stream);
        r[7] = cu.cuCtxSynchronize();
        fact("after the fault: cuEventQuery %d, cuMemGetInfo %d, cuMemCreate %d, cuCtxSetCurrent %d, launch %d, "
             "cuStreamQuery %d, cuStreamSynchronize %d, cuCtxSynchronize %d",
                (int)r[0], (int)r[1], (int)r[2], (int)r[3], (int)r[4], (int)r[5], (int)r[6], (int)r[7]);
}

static void assert_with(void *argument)
{
        bool by_sync = *(bool *)argument;
        CUevent event;
        struct green g;
        CUresult result;
        int zero = 0;

        text_fd = divert(2);
        if (!gpu_open() || !green_make(&g, 0, 8) || !TRY(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)))
                return;
        TRY(launch(kernel("insist"), g.high, 1, 2, &zero, sizeof(zero)));
        TRY(cu.cuEventRecord(event, g.high));
        if (!by_sync) {
                usleep(20000);
                say_text("20 ms");
                result = wait_event(event, 3e6);
                fact("cuEventQuery: %d %s", (int)result, error_name(result));
                say_text("cuEventQuery");
        }
        result = cu.cuStreamSynchronize(g.high);
        fact("cuStreamSynchronize: %d %s", (int)result, error_name(result));
        say_text("cuStreamSynchronize");
        result = cu.cuCtxSynchronize();
        fact("cuCtxSynchronize: %d %s", (int)result, error_name(result));
        say_text("cuCtxSynchronize");
        say_after(g.high, event);
}

void section_assert(void)
{
        bool by_sync = false;

        in_child(assert_with, &by_sync, NULL);
        by_sync = true;
        in_child(assert_with, &by_sync, NULL);
}

/* --- faults ------------------------------------------------------------------------------------------------------- */
struct fault {
        const char *name, *kernel;
        uint64_t param;
        size_t param_size;
        bool aligned_off; /* 1: param is an offset into the scratch memory */
        unsigned int gib; /* GiB of device memory mapped when the fault happens */
        int core;         /* core dump: 0 none, 1 by environment, 2 by call */
};

static bool map_gib(unsigned int n)
{
        CUdeviceptr at = 0;

        if (n && !TRY(cu.cuMemAddressReserve(&at, GIB(n), 0, UINT64_C(0x300000000000), 0)))
                return false;
        for (unsigned int i = 0; i < n; i++) {
                CUmemGenericAllocationHandle handle;

                if (!TRY(vmm_create(&handle, GIB(1))) || !TRY(cu.cuMemMap(at + GIB(i), GIB(1), 0, handle, 0)) ||
                        !TRY(vmm_access(at + GIB(i), GIB(1))) || !TRY(cu.cuMemRelease(handle)))
                        return false;
        }
        return true;
}

#define CORE_PATH "/tmp/facts.core"
#define CORE_FLAGS                                                                                                    \
        (CU_COREDUMP_SKIP_NONRELOCATED_ELF_IMAGES | CU_COREDUMP_SKIP_GLOBAL_MEMORY | CU_COREDUMP_SKIP_SHARED_MEMORY | \
                CU_COREDUMP_SKIP_LOCAL_MEMORY | CU_COREDUMP_SKIP_CONSTBANK_MEMORY | CU_COREDUMP_SKIP_ABORT)

static void core_by_environment(void)
{
        setenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "1", 1);
        setenv("CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", "1", 1);
        setenv("CUDA_COREDUMP_FILE", CORE_PATH, 1);
        setenv("CUDA_COREDUMP_GENERATION_FLAGS",
                "skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,skip_local_memory,"
                "skip_constbank_memory,skip_abort",
                1);
}

static void core_by_call(void)
{
        char path[] = CORE_PATH;
        bool yes = true;
        int flags = CORE_FLAGS;
        size_t size = sizeof(yes);

        if (!driver_load() || !TRY(cu.cuInit(0)))
                return;
        TRY(cu.cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &yes, &size));
        size = strlen(path) + 1;
        TRY(cu.cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, path, &size));
        size = sizeof(flags);
        TRY(cu.cuCoredumpSetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, &flags, &size));
}

static void fault_main(void *argument)
{
        const struct fault *f = argument;
        uint64_t param = f->param;
        struct green g;
        CUevent event;
        CUresult result;
        double t;

        if (f->core == 1)
                core_by_environment();
        else if (f->core == 2)
                core_by_call();
        if (!gpu_open() || !green_make(&g, 0, 8) || !map_gib(f->gib) ||
                !TRY(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)))
                return;
        TRY(launch(kernel("nothing"), g.high, 1, 32, NULL, 0));
        TRY(cu.cuStreamSynchronize(g.high));
        if (f->aligned_off)
                param += gpu.scratch;
        t = now_us();
        TRY(launch(kernel(f->kernel), g.high, 1, 32, &param, f->param_size));
        TRY(cu.cuEventRecord(event, g.high));
        result = wait_event(event, 10e6);
        fact("%s: %d %s after %.0f us", f->name, (int)result, error_name(result), now_us() - t);
        say_after(g.high, event);
}

void section_faults(void)
{
        static struct fault all[] = {
                {.name = "write to 0x10", .kernel = "fault_null", .param = 0x10, .param_size = 8},
                {.name = "write to 0x10 with 32 GiB mapped",
                        .kernel = "fault_null",
                        .param = 0x10,
                        .param_size = 8,
                        .gib = 32},
                {.name = "misaligned write", .kernel = "fault_null", .param = 1, .param_size = 8, .aligned_off = true},
                {.name = "write to a far address",
                        .kernel = "fault_null",
                        .param = UINT64_C(0x7f0000000000),
                        .param_size = 8},
                {.name = "trap", .kernel = "fault_trap"},
                {.name = "write past shared memory", .kernel = "fault_shared", .param = 0x800000, .param_size = 4},
        };

        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
                double us = -1;

                in_child(fault_main, &all[i], &us);
                fact("%s: _exit to parent knowing %.0f us", all[i].name, us);
                if (i < 2 || all[i].param == 0)
                        fresh_process(all[i].name);
        }
}

/* runs work in two green contexts, one of which faults */
void section_two_streams(void)
{
        CUevent before, faulty, other;
        struct green a, b;
        uint64_t address = 0x10;
        CUresult rf = CUDA_ERROR_NOT_READY, ro = CUDA_ERROR_NOT_READY;
        double t, tf = -1, to = -1;

        if (!gpu_open() || !green_make(&a, 0, 8) || !green_make(&b, 8, 8) ||
                !TRY(cu.cuEventCreate(&before, CU_EVENT_DISABLE_TIMING)) ||
                !TRY(cu.cuEventCreate(&faulty, CU_EVENT_DISABLE_TIMING)) ||
                !TRY(cu.cuEventCreate(&other, CU_EVENT_DISABLE_TIMING)))
                return;
        TRY(launch(kernel("nothing"), a.high, 1, 32, NULL, 0));
        TRY(cu.cuEventRecord(before, a.high));
        TRY(cu.cuCtxSynchronize());
        TRY(launch_spin(b.high, 16, 1024, 50000000));
        TRY(cu.cuEventRecord(other, b.high));
        TRY(launch_spin(a.high, 16, 1024, 5000000));
        t = now_us();
        TRY(launch(kernel("fault_null"), a.high, 1, 32, &address, sizeof(address)));
        TRY(cu.cuEventRecord(faulty, a.high));
        while ((tf < 0 || to < 0) && now_us() - t < 5e6) {
                if (tf < 0 && (rf = cu.cuEventQuery(faulty)) != CUDA_ERROR_NOT_READY)
                        tf = now_us() - t;
                if (to < 0 && (ro = cu.cuEventQuery(other)) != CUDA_ERROR_NOT_READY)
                        to = now_us() - t;
        }
        fact("a fault 5 ms from now, the other stream's kernel has 50 ms: event of the fault %d after %.0f us, "
             "event of the other %d after %.0f us",
                (int)rf, tf, (int)ro, to);
        fact("the event that had completed before: %d; stream of the fault %d, the other stream %d",
                (int)cu.cuEventQuery(before), (int)cu.cuStreamQuery(a.high), (int)cu.cuStreamQuery(b.high));
}

/* --- core dump ---------------------------------------------------------------------------------------------------- */
static void say_sections(const unsigned char *p, size_t size)
{
        Elf64_Ehdr head;
        Elf64_Shdr s, names;

        if (size < sizeof(head))
                return;
        memcpy(&head, p, sizeof(head));
        fact("core: magic %02x %c%c%c, machine %u, type %u, flags %#x, %u sections, %u segments", p[0], p[1], p[2],
                p[3], head.e_machine, head.e_type, head.e_flags, head.e_shnum, head.e_phnum);
        if (head.e_shentsize != sizeof(s) || head.e_shoff > size || (size - head.e_shoff) / sizeof(s) < head.e_shnum ||
                head.e_shstrndx >= head.e_shnum)
                return;
        memcpy(&names, p + head.e_shoff + head.e_shstrndx * sizeof(s), sizeof(s));
        for (unsigned int i = 0; i < head.e_shnum && i < 80; i++) {
                const char *name = "?";

                memcpy(&s, p + head.e_shoff + i * sizeof(s), sizeof(s));
                if (names.sh_offset < size && s.sh_name < size - names.sh_offset)
                        name = (const char *)p + names.sh_offset + s.sh_name;
                fact("core section %.64s: type %#x, %llu bytes, address %#llx, entry %llu, link %u, info %u", name,
                        s.sh_type, (unsigned long long)s.sh_size, (unsigned long long)s.sh_addr,
                        (unsigned long long)s.sh_entsize, s.sh_link, s.sh_info);
        }
}

static void say_core(const char *copy_to)
{
        unsigned char *p;
        struct stat st;
        char path[4096];
        int fd = open(CORE_PATH, O_RDONLY | O_CLOEXEC), to;

        if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0) {
                fact("no core file, or an empty one");
                return;
        }
        fact("core file: %ld bytes, mode %o, owner %u", (long)st.st_size, st.st_mode & 07777, st.st_uid);
        p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        close(fd);
        if (p == MAP_FAILED)
                return;
        say_sections(p, (size_t)st.st_size);
        if (getenv("OUT") && st.st_size < (off_t)MIB(8)) {
                snprintf(path, sizeof(path), "%s/%s", getenv("OUT"), copy_to);
                to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
                if (to < 0 || write(to, p, (size_t)st.st_size) != st.st_size)
                        fact("the core could not be copied to %s", path);
                if (to >= 0)
                        close(to);
        }
        munmap(p, (size_t)st.st_size);
}

void section_coredump(void)
{
        static struct fault by[] = {
                {.name = "core by environment, write to 0x10",
                        .kernel = "fault_null",
                        .param = 0x10,
                        .param_size = 8,
                        .core = 1},
                {.name = "core by call, trap", .kernel = "fault_trap", .core = 2},
        };

        for (int i = 0; i < 2; i++) {
                double us = -1;

                unlink(CORE_PATH);
                in_child(fault_main, &by[i], &us);
                fact("%s: _exit to parent knowing %.0f us", by[i].name, us);
                say_core(i == 0 ? "facts.core" : "facts_call.core");
        }
        unlink(CORE_PATH);
}
