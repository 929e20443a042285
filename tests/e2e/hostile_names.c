/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions whose names attack readers of logs and tables
 *
 * A dozen sessions have names with line breaks, escape sequences, direction marks, invalid UTF-8, quotes and percent
 * signs. The test checks detsharectl's output byte by byte; another program parses its JSON, which has the name as the
 * daemon keeps it. Then one session runs a kernel that faults. On device `cuda` with the fake driver this ends the
 * worker, and the log names the session: each line of the log must begin like lines of the daemon and contain no byte
 * that controls a terminal.
 *
 * usage: hostile_names BUILD
 */
#include "tests/e2e/harness.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"
#include "detshare/detshare.h"

#define PTXAS "tests/support/fake_cuda/ptxas"
#define TEXT_MAX (1u << 20)
#define N_NAMES (sizeof(names) / sizeof(names[0]))

static const char *const names[] = {
        "ok\ndetshared: the daemon is compromised",
        "\r\x1b[2J\x1b[1;1H\x1b]0;title\x07\x1bPq",
        "\x9b"
        "31mred\xc2\x9b"
        "32mgreen\xc2\x85",
        "\xe2\x80\xaegnp.exe\xe2\x81\xa6\xe2\x80\xa8next line",
        "\xc0\x8a\xe0\x80\x8a\xf0\x80\x80\x8a\xed\xa0\x80\xff\xfe",
        "%n%n%s%s%1000000d",
        "\",\"admin\":true,\"x\":\"\\",
        "'; rm -rf ~ #$(id)`id`",
        "<script>&amp;\t\v\f\b",
        "\x7f\x7f\x7f",
        "                                                               ",
        "ends within a sequence .....................................\xf0\x9f\x98",
};

static const char *build;
static char text[TEXT_MAX];

/* Number of bytes that control a terminal, except line breaks. */
static unsigned obeyed(const char *s)
{
        unsigned n = 0;

        for (const unsigned char *c = (const unsigned char *)s; *c; c++) {
                n += (*c < 0x20 && *c != '\n') || *c == 0x7f || *c == 0xff || *c == 0xc0;
                n += c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0;
                n += c[0] == 0xe2 && c[1] == 0x80 && c[2] >= 0xa8 && c[2] <= 0xae;
                n += c[0] == 0xe2 && c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9;
                /* counts a lone continuation byte, which a terminal of 8 bits may obey */
                n += (*c & 0xc0) == 0x80 && c > (const unsigned char *)s && c[-1] < 0x80;
        }
        return n;
}

static unsigned lines(const char *s)
{
        unsigned n = 0;

        for (; *s; s++)
                n += *s == '\n';
        return n;
}

/* Stores what the command prints in `text`; returns its exit status. */
static int output_of(const char *command)
{
        FILE *f = popen(command, "r");
        size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

        text[n] = 0;
        return f ? pclose(f) : -1;
}

static void check_tables(void)
{
        static const char *const commands[] = {"clients --wide", "status", "top --once"};
        char command[600];

        for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
                snprintf(command, sizeof(command), "LC_ALL=C.UTF-8 %s/detsharectl --socket %s %s 2>&1", build,
                        h_socket(), commands[i]);
                h_check(output_of(command) == 0 || i == 2, "%s: %.300s", commands[i], text);
                h_check(obeyed(text) == 0, "%s: %u of its bytes control a terminal", commands[i], obeyed(text));
                h_check(i > 0 || lines(text) == N_NAMES + 5, "%s: %u lines\n%s", commands[i], lines(text), text);
                snprintf(command, sizeof(command),
                        "LC_ALL=C.UTF-8 %s/detsharectl --socket %s %s --json | python3 -c 'import json, sys; "
                        "json.loads(sys.stdin.buffer.read().decode())'",
                        build, h_socket(), i == 2 ? "clients" : commands[i]);
                h_check(output_of(command) == 0, "%s: its JSON cannot be read", commands[i]);
        }
}

static int hello(const char *name)
{
        H_REQUEST(Hello, HELLO, HELLO, hello);
        int fd = h_connect();
        int status;

        body.version = 1;
        body.name = (char *)(uintptr_t)name;
        status = fd < 0 ? -1 : h_ask_status(fd, &request, NULL, 0, 20000);
        h_check(status == 0, "a hello by that name: %d", status);
        return fd;
}

/* Runs a kernel that faults, in a process whose session has that name. */
static void fault(const char *name)
{
        static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\ntrap;\n}\n";
        int status = -1;
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                struct dsc_kernel kernel = {.id = 0};
                struct dsc_launch l = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
                uint64_t module;
                char log[1000];
                int error;
                dsc_session *s;

                setenv("DETSHARE_NAME", name, 1);
                s = dsc_get(&error);
                if (!s || dsc_module_load(s, ptx, sizeof(ptx), log, sizeof(log), &module) ||
                        dsc_kernel_get(s, module, "k", &kernel))
                        _exit(1);
                l.kernel = kernel.id;
                _exit(dsc_launch(s, 0, &l) || dsc_wait_all(s) ? 0 : 2);
        }
        waitpid(pid, &status, 0);
        h_check(status == 0, "the process that faults: %#x", status);
}

static void check_log(const char *path, int named)
{
        size_t size;
        char *log = h_read_file(path, &size);
        unsigned odd = 0, about = 0;

        h_check(obeyed(log) == 0, "%u bytes of the log control a terminal", obeyed(log));
        for (char *line = log, *next; *line; line = next) {
                next = line + strcspn(line, "\n");
                next += *next == '\n';
                odd += strncmp(line, "detshare", 8) != 0 || !strncmp(line, "detshared: the daemon is comp", 29);
                about += strstr(line, "ok?detshared") != NULL && strstr(line, "ok?detshared") < next;
        }
        h_check(odd == 0, "%u lines of the log are not the daemon's:\n%s", odd, log);
        h_check(!named || about > 0, "no line of the log names the session:\n%s", log);
        free(log);
}

static void daemon_of(const char *device, const char *const *extra, int named)
{
        char path[] = "/tmp/detshare-names-XXXXXX";
        int log = mkstemp(path), own = dup(STDERR_FILENO), fds[N_NAMES];
        struct h_status before;

        h_check(log >= 0 && own >= 0 && dup2(log, STDERR_FILENO) >= 0, "the log's file");
        h_daemon_start(build, device, extra);
        dup2(own, STDERR_FILENO);
        close(own);
        close(log);
        before = h_quiet();
        for (size_t i = 0; i < N_NAMES; i++)
                fds[i] = hello(names[i]);
        check_tables();
        fault(names[0]);
        fault(names[2]);
        for (size_t i = 0; i < N_NAMES; i++)
                close(fds[i]);
        h_baseline(&before, 20000, "after hostile names");
        h_daemon_stop();
        check_log(path, named);
        unlink(path);
}

/* Finds the paths of the fake driver and its compiler. Returns 0 if there are none. */
static int fake_driver(char *libcuda, char *ptxas, size_t size)
{
        const char *place = getenv("DETSHARE_TEST_PLACE");
        char *here = realpath(PTXAS, NULL);

        snprintf(libcuda, size, "%s/libcuda.so.1", place && *place ? place : "");
        snprintf(ptxas, size, "%s/bin/ptxas", place ? place : "");
        if (!place || !*place) {
                snprintf(libcuda, size, "%s/fake_cuda/libcuda.so.1", build);
                snprintf(ptxas, size, "%s", here ? here : "");
        }
        free(here);
        return *ptxas && access(libcuda, R_OK) == 0;
}

int main(int argc, char **argv)
{
        char libcuda[4096], ptxas[4096];
        const char *extra[] = {"--libcuda", libcuda, "--ptxas", ptxas, NULL};

        if (argc < 2)
                return 2;
        build = argv[1];
        setbuf(stdout, NULL);
        daemon_of("sim:h200", NULL, 0);
        if (h_simulated("sim:h200") && fake_driver(libcuda, ptxas, sizeof(libcuda))) {
                setenv("DETSHARE_TEST_DEVICE", "cuda:0", 1);
                daemon_of("cuda:0", extra, 1);
        }
        return h_finish();
}
