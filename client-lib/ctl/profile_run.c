/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl profile run
 *
 * A child process becomes the program, as with `detsharectl run`, after the daemon has begun to measure. The daemon
 * measures as long as this connection lives, so the previous policy comes back however this process ends. Signals of
 * the terminal (^C) reach the program directly; a signal that was sent only to this process is passed on. At the end
 * the table is printed.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ctl/clock.h"
#include "ctl/profile.h"
#include "ctl/progress.h"

struct run_options {
        char params[2][64], *list[2];
        size_t n;
        unsigned seconds;
        int as_json;
};

static void add_param(struct run_options *o, const char *param, double value)
{
        if (value < 1)
                return;
        snprintf(o->params[o->n], sizeof(o->params[0]), "%s=%.0f", param, value);
        o->list[o->n] = o->params[o->n];
        o->n++;
}

/* --- the command --- */

/* The child: waits until the daemon measures, then becomes the program as `detsharectl run` does. */
static void become(int gate, const sigset_t *mask, char **command)
{
        char *argv[256] = {(char *)"run", (char *)"--"};
        size_t n = 0;
        char go;
        /* the parent closed the pipe without a byte: the daemon refused to measure */
        if (read(gate, &go, 1) != 1)
                _exit(CTL_FAILED);
        close(gate);
        sigprocmask(SIG_SETMASK, mask, NULL);
        while (command[n] && n + 3 < sizeof(argv) / sizeof(argv[0])) {
                argv[n + 2] = command[n];
                n++;
        }
        if (command[n]) {
                ctl_complain("profile run: the command has more than %zu arguments", n);
                _exit(CTL_USAGE);
        }
        argv[n + 2] = NULL;
        _exit(ctl_dispatch((int)n + 2, argv));
}

/* Forks the child. Returns its pid, or -1 after an error message. The child begins when a byte is written to
 * *ret_gate. */
static pid_t start(char **command, const sigset_t *mask, int *ret_gate)
{
        int gate[2];
        if (pipe(gate)) {
                ctl_complain("cannot make a pipe: %s", strerror(errno));
                return -1;
        }
        const pid_t pid = fork();
        if (pid == 0) {
                close(gate[1]);
                become(gate[0], mask, command);
        }
        close(gate[0]);
        if (pid < 0) {
                ctl_complain("cannot make a process: %s", strerror(errno));
                close(gate[1]);
                return -1;
        }
        *ret_gate = gate[1];
        return pid;
}

static uint64_t now_ms(clockid_t clock)
{
        return ctl_clock_ns(clock) / 1000000u;
}

/* Waits for the program and returns its exit code, as a shell computes it. After `seconds` the daemon stops
 * measuring. */
static int await(pid_t pid, dsc_session *s, unsigned seconds, const sigset_t *set)
{
        const uint64_t begin = now_ms(CLOCK_MONOTONIC), until = begin + seconds * 1000ull;
        int status, over = seconds == 0;
        for (;;) {
                struct timespec wait = {.tv_nsec = 200000000};
                siginfo_t info = {.si_signo = 0};
                const int signal = sigtimedwait(set, &info, &wait);
                if (waitpid(pid, &status, WNOHANG) == pid)
                        break;
                /* a signal from a terminal reaches the program directly; pass on one from kill() or sigqueue() */
                if (signal > 0 && signal != SIGCHLD && info.si_code <= 0)
                        kill(pid, signal);
                if (over)
                        continue;
                ctl_progress("measuring kernels", (double)(now_ms(CLOCK_MONOTONIC) - begin) / (seconds * 1e3));
                if (now_ms(CLOCK_MONOTONIC) >= until) {
                        (void)dsc_control_profile_end(s);
                        ctl_progress_end();
                        over = 1;
                }
        }
        ctl_progress_end();
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int show(dsc_session *s, uint64_t since_ms, int as_json)
{
        struct dsc_profiles profiles;
        struct ctl_text text;
        int r = dsc_control_profiles(s, "", since_ms, &profiles);
        if (r)
                return ctl_fail(r, "cannot list the profiles");
        if (!profiles.n)
                ctl_complain("nothing was measured: the program launched no kernel, or none often enough, or all was "
                             "known already");
        r = ctl_text_open(&text);
        if (!r)
                r = ctl_text_close(&text, profile_list(&profiles, as_json, 1, &text));
        free(profiles.rows);
        return r;
}

/* Makes the daemon measure. 0, or an exit code after an error message. */
static int begin(const struct run_options *o, dsc_session **ret)
{
        const int code = ctl_open(ret);
        if (code)
                return code;
        const int r = dsc_control_profile_run(*ret, o->list, o->n);
        return r ? ctl_fail(r, "cannot begin to measure") : 0;
}

static int measure(const struct run_options *o, char **command, const sigset_t *set, const sigset_t *before)
{
        const uint64_t since_ms = now_ms(CLOCK_REALTIME);
        dsc_session *s = NULL;
        int gate = -1;
        const pid_t pid = start(command, before, &gate);
        if (pid < 0)
                return CTL_FAILED;
        int code = begin(o, &s);
        if (!code && write(gate, "", 1) != 1)
                code = CTL_FAILED;
        close(gate);
        if (code)
                waitpid(pid, NULL, 0);
        else {
                code = await(pid, s, o->seconds, set);
                (void)dsc_control_profile_end(s);
                const int shown = show(s, since_ms, o->as_json);
                code = code ? code : shown;
        }
        dsc_control_close(s);
        return code;
}

int profile_run(const struct ctl_args *args)
{
        struct run_options o = {
                .seconds = (unsigned)ctl_number(args, "seconds", 0),
                .as_json = ctl_given(args, "json"),
        };
        sigset_t set, before;
        add_param(&o, "samples", ctl_number(args, "samples", 0));
        add_param(&o, "tolerance_permille", ctl_number(args, "tolerance", 0));
        sigemptyset(&set);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGHUP);
        sigaddset(&set, SIGCHLD);
        sigprocmask(SIG_BLOCK, &set, &before);
        return measure(&o, args->argv, &set, &before);
}
