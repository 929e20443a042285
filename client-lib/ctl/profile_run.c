/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl profile run
 *
 * The command becomes a client as with `detsharectl run`, in a process of its own that waits until the daemon explores.
 * The daemon does so for as long as our connection lives, so that the policy comes back however this ends. What a
 * terminal sends (^C) reaches the command as well; what is sent to us alone is passed on. Then the table is shown.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ctl/profile.h"

struct run_options {
        char params[2][64], *list[2];
        size_t n;
        unsigned seconds;
        int as_json;
};

/* --- options --- */

static int parse_number(const char *name, const char *text, unsigned long most, unsigned long *ret)
{
        char *end;
        errno = 0;
        *ret = strtoul(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end || errno || *ret < 1 || *ret > most)
                return ctl_usage("profile run: --%s takes a number from 1 to %lu, not %s", name, most, text);
        return 0;
}

static int add_param(struct run_options *o, const char *name, const char *param, unsigned long most)
{
        unsigned long value;
        if (o->n == sizeof(o->params) / sizeof(o->params[0]))
                return ctl_usage("profile run: an option is given twice");
        const int code = parse_number(name, optarg, most, &value);
        if (code)
                return code;
        snprintf(o->params[o->n], sizeof(o->params[0]), "%s=%lu", param, value);
        o->list[o->n] = o->params[o->n];
        o->n++;
        return 0;
}

static int parse_option(int c, char **argv, struct run_options *o)
{
        unsigned long seconds;
        int code;
        switch (c) {
        case 'n':
                return add_param(o, "samples", "samples", 4);
        case 't':
                return add_param(o, "tolerance", "tolerance_permille", 1000);
        case 's':
                code = parse_number("seconds", optarg, 86400, &seconds);
                o->seconds = (unsigned)seconds;
                return code;
        case 'j':
                o->as_json = 1;
                return 0;
        case ':':
                return ctl_usage("profile run: option %s needs a value", argv[optind - 1]);
        default:
                return ctl_usage("profile run: unknown option %s", argv[optind - 1]);
        }
}

/* -1 to go on, else the exit code. */
static int parse(const struct ctl_command *self, int argc, char **argv, struct run_options *o)
{
        static const struct option options[] = {
                {"samples", required_argument, NULL, 'n'},
                {"tolerance", required_argument, NULL, 't'},
                {"seconds", required_argument, NULL, 's'},
                {"json", no_argument, NULL, 'j'},
                {"help", no_argument, NULL, 'h'},
                {NULL, 0, NULL, 0},
        };
        int c;
        optind = 0;
        while ((c = getopt_long(argc, argv, "+:h", options, NULL)) >= 0) {
                if (c == 'h')
                        return ctl_help(self);
                const int code = parse_option(c, argv, o);
                if (code)
                        return code;
        }
        return optind < argc ? -1 : ctl_usage("profile run: which command?");
}

/* --- the command --- */

static void become(int gate, const sigset_t *mask, char **command)
{
        static const struct ctl_command run = {"run", "", "", NULL, cmd_run};
        char *argv[256] = {(char *)"run", (char *)"--"};
        size_t n = 0;
        char go;
        /* closed without a word: it is not to be */
        if (read(gate, &go, 1) != 1)
                _exit(CTL_FAILED);
        close(gate);
        sigprocmask(SIG_SETMASK, mask, NULL);
        while (command[n] && n + 3 < sizeof(argv) / sizeof(argv[0])) {
                argv[n + 2] = command[n];
                n++;
        }
        if (command[n]) {
                ctl_complain("profile run: the command has too many arguments");
                _exit(CTL_USAGE);
        }
        argv[n + 2] = NULL;
        _exit(cmd_run(&run, (int)n + 2, argv));
}

/* The child's pid, or -1 after the words. *ret_gate: to be written to when it may begin. */
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
        struct timespec t;
        clock_gettime(clock, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Its exit code, as a shell has it. Nothing more is measured when the time is over. */
static int await(pid_t pid, dsc_session *s, unsigned seconds, const sigset_t *set)
{
        const uint64_t until = now_ms(CLOCK_MONOTONIC) + seconds * 1000ull;
        int status, over = seconds == 0;
        for (;;) {
                struct timespec wait = {.tv_nsec = 200000000};
                siginfo_t info = {.si_signo = 0};
                const int signal = sigtimedwait(set, &info, &wait);
                if (waitpid(pid, &status, WNOHANG) == pid)
                        break;
                /* a terminal's reaches the command, too; one that somebody sent came here only */
                if (signal > 0 && signal != SIGCHLD && info.si_code <= 0)
                        kill(pid, signal);
                if (!over && now_ms(CLOCK_MONOTONIC) >= until) {
                        (void)dsc_control_profile_end(s);
                        over = 1;
                }
        }
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

/* 0 when the daemon explores; else the exit code after the words. */
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

int profile_run(const struct ctl_command *self, int argc, char **argv)
{
        struct run_options o = {.n = 0};
        sigset_t set, before;
        const int code = parse(self, argc, argv, &o);
        if (code >= 0)
                return code;
        sigemptyset(&set);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGHUP);
        sigaddset(&set, SIGCHLD);
        sigprocmask(SIG_BLOCK, &set, &before);
        return measure(&o, argv + optind, &set, &before);
}
