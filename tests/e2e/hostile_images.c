/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images made to take long
 *
 * The worker of a simulated device parses PTX itself while all clients wait. Text that needs repeated searches must not
 * block it: many kernels, many aliases of many functions, many hints, a name of the maximal length, names that collide
 * in a hash table, calls that share thousands of targets; each close to the limits that the helper accepts. A good
 * client's requests continue meanwhile. The supervisor must not mistake the worker for a hung one, which would end it
 * for all clients and replace its policy.
 *
 * usage: hostile_images BUILD
 */
#include "tests/e2e/harness.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define TEXT_MAX (9u << 20)
#define ANSWER_MS 60000

static int good_fd;
static char *text;
static size_t n_text;

static void say(const char *fmt, ...) __attribute__((__format__(__printf__, 1, 2)));
static void say(const char *fmt, ...)
{
        va_list args;
        int n;

        va_start(args, fmt);
        n = vsnprintf(text + n_text, TEXT_MAX - n_text, fmt, args);
        va_end(args);
        if (n > 0 && n_text + (size_t)n < TEXT_MAX)
                n_text += (size_t)n;
}

static void begin(void)
{
        n_text = 0;
        say(".version 7.0\n.target sm_75\n.address_size 64\n");
}

/* 1 while the text is shorter than `limit` bytes. */
static int goes_on(size_t limit)
{
        return n_text + 1000 < limit && n_text + 1000 < TEXT_MAX;
}

static void many_kernels(void)
{
        for (int i = 0; goes_on(TEXT_MAX / 5); i++)
                say(".visible .entry k%d()\n{\nret;\n}\n", i);
}

static void many_hints(void)
{
        for (int i = 0; goes_on(TEXT_MAX / 6); i++)
                say(".visible .entry k%d()\n{\nret;\n}\n", i);
        for (int i = 0; goes_on(TEXT_MAX); i++)
                say("// detshare-sim: absent%d block_ns=1\n", i);
}

static void many_aliases(void)
{
        say(".visible .func target()\n{\nret;\n}\n");
        for (int i = 0; goes_on(TEXT_MAX / 5); i++)
                say(".visible .func a%d();\n.alias a%d, target;\n", i, i);
        say(".visible .entry k()\n{\nret;\n}\n");
}

static void long_kernel(void)
{
        say(".visible .entry k()\n{\n.reg .b32 %%r<4>;\n");
        for (int i = 0; goes_on(TEXT_MAX / 8); i++)
                say("L%d: add.u32 %%r1,%%r2,%%r3;\n", i);
        say("ret;\n}\n");
}

/* Writes names with the same FNV-1a hash: after either word of a line the hash has the same state
 * (test_ptx_bombs.c). */
static void alike_names(void)
{
        static const char *const words[4][2] = {
                {"anAaw", "aVcia"}, {"azEnS", "aBcZa"}, {"abrPS", "aZpxa"}, {"auGnS", "aMaZa"}};

        for (uint32_t i = 0; goes_on(TEXT_MAX / 2); i++) {
                say(".global .u8 ");
                for (uint32_t k = 0; k < 18; k++)
                        say("%s", words[k < 3 ? k : 3][i >> k & 1]);
                say(";\n");
        }
}

static void calls_of_one_list(void)
{
        uint32_t n = 0;

        while (goes_on(TEXT_MAX / 2))
                say(".visible .func g%u()\n{\nret;\n}\n", n++);
        say(".visible .entry k()\n{\n.reg .b64 d;\nmov.u64 d, g0;\nT: .calltargets g0");
        for (uint32_t i = 1; i < n && goes_on(TEXT_MAX / 4 * 3); i++)
                say(", g%u", i);
        say(";\n");
        while (goes_on(TEXT_MAX))
                say("call (), d, (), T;\n");
        say("ret;\n}\n");
}

static void work(const char *what, uint64_t *longest)
{
        H_REQUEST(MemInfo, MEM_INFO, MEM_INFO, mem_info);
        uint64_t begin_us = h_now_us(), took;

        h_check(h_ask_status(good_fd, &request, NULL, 0, ANSWER_MS) == 0, "%s: the good client was not served", what);
        took = h_now_us() - begin_us;
        *longest = took > *longest ? took : *longest;
}

static void test(const char *what, void (*make)(void))
{
        H_REQUEST(ModuleLoad, MODULE_LOAD, MODULE_LOAD, module_load);
        int image = memfd_create("image", MFD_CLOEXEC), fd = h_hello(0, NULL, NULL);
        uint64_t longest = 0, end = h_now_ms() + ANSWER_MS;
        uint8_t frame[64], byte;
        size_t size;

        begin();
        make();
        h_check(write(image, text, n_text) == (ssize_t)n_text, "%s: write", what);
        body.bytes = n_text;
        request.fds = 1;
        size = detshare__request__pack(&request, frame);
        h_check(h_send(fd, frame, size, &image, 1) == 0, "%s: send", what);
        do
                work(what, &longest);
        while (recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && h_now_ms() < end);
        free(h_receive(fd, ANSWER_MS, &size, NULL));
        printf("%s, %zu bytes: the good client waited %llu ms at most\n", what, n_text,
                (unsigned long long)(longest / 1000));
        close(image);
        close(fd);
}

int main(int argc, char **argv)
{
        struct h_status before, after = {0};

        if (argc < 2 || !(text = malloc(TEXT_MAX)))
                return 2;
        h_daemon_start(argv[1], "sim:h200", NULL);
        before = h_quiet();
        good_fd = h_hello(0, NULL, NULL);
        if (h_needs_sim("sim:h200", "a GPU's worker does not read PTX")) {
                test("many kernels", many_kernels);
                test("many hints", many_hints);
                test("many aliases", many_aliases);
                test("a long kernel", long_kernel);
                test("names of one hash", alike_names);
                test("calls of one list", calls_of_one_list);
        }
        h_check(h_status(&after) == 0 && after.worker_restarts == 0 && after.helper_pid == before.helper_pid,
                "the worker was restarted %u times, the helper %s", after.worker_restarts,
                after.helper_pid == before.helper_pid ? "not" : "too");
        close(good_fd);
        h_baseline(&before, 20000, "after images that take long");
        return h_finish();
}
