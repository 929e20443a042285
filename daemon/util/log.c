/* SPDX-License-Identifier: Apache-2.0 */
#include "util/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "util/text.h"

#define LOG_BUDGET_LINES 20
#define LOG_BUDGET_WINDOW_NS (10 * DS_NS_PER_S)
#define LOG_LINE_MAX 1024

static const char *log_name = "detshare";
static enum ds_log_level log_max = DS_LOG_INFO;
static int log_journal;
static int log_fd = STDERR_FILENO;
static ds_log_sink *log_sink;
static _Atomic unsigned log_unread; /* number of lines dropped because the log had no room */

void ds_log_setup(const char *name, enum ds_log_level max_level)
{
        log_name = name;
        log_max = max_level;
        log_journal = ds_log_in_journal();
}

int ds_log_in_journal(void)
{
        const char *stream = getenv("JOURNAL_STREAM");
        unsigned long long dev, ino;
        struct stat st;
        char end;

        if (!stream || sscanf(stream, "%llu:%llu%c", &dev, &ino, &end) != 2 || fstat(STDERR_FILENO, &st) < 0)
                return 0;
        return st.st_dev == dev && st.st_ino == ino;
}

void ds_log_set_sink(ds_log_sink *sink)
{
        log_sink = sink;
}

void ds_log_to(int fd)
{
        log_fd = fd;
}

/*
 * Whether a line can be written without blocking: a reader of the log that has stopped must not stop the daemon. A pipe
 * that poll() reports as writable accepts a line without blocking. Another process may fill it before the write, but
 * then it has room for several lines.
 */
static int log_has_room(void)
{
        struct pollfd p = {.fd = log_fd, .events = POLLOUT};

        return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

static void log_line(enum ds_log_level level, const char *line)
{
        /* a line is written by one call, so that lines of several processes do not mix */
        if (log_journal)
                dprintf(log_fd, "<%d>%s: %s\n", level, log_name, line);
        else
                dprintf(log_fd, "%s: %s\n", log_name, line);
}

static void log_to_stderr(enum ds_log_level level, const char *line)
{
        char missing[64];
        unsigned unread;

        if (!log_has_room()) {
                atomic_fetch_add(&log_unread, 1);
                return;
        }
        unread = atomic_exchange(&log_unread, 0);
        if (unread) {
                snprintf(missing, sizeof(missing), "%u lines are missing here, because nobody read the log", unread);
                log_line(level, missing);
        }
        log_line(level, line);
}

static void log_write(const struct ds_log_about *about, enum ds_log_level level, const char *fmt, va_list args)
{
        char line[LOG_LINE_MAX];
        int saved = errno;

        vsnprintf(line, sizeof(line), fmt, args);
        ds_text_make_safe(line);
        if (log_sink)
                log_sink(about, level, line);
        else
                log_to_stderr(level, line);
        errno = saved;
}

void ds_log(enum ds_log_level level, const char *fmt, ...)
{
        static const struct ds_log_about nobody;
        va_list args;

        if (level > log_max)
                return;
        va_start(args, fmt);
        log_write(&nobody, level, fmt, args);
        va_end(args);
}

void ds_log_about(const struct ds_log_about *about, enum ds_log_level level, const char *fmt, ...)
{
        va_list args;

        if (level > log_max)
                return;
        va_start(args, fmt);
        log_write(about, level, fmt, args);
        va_end(args);
}

int ds_log_may(struct ds_log_budget *budget, uint64_t now_ns, enum ds_log_level level)
{
        if (level > log_max)
                return 0;
        if (now_ns - budget->window_start_ns >= LOG_BUDGET_WINDOW_NS || budget->window_start_ns == 0) {
                if (budget->dropped)
                        ds_log(level, "%u lines about this client were not logged", budget->dropped);
                *budget = (struct ds_log_budget){.window_start_ns = now_ns};
        }
        if (budget->said >= LOG_BUDGET_LINES) {
                budget->dropped++;
                return 0;
        }
        budget->said++;
        return 1;
}

void ds_log_limited(struct ds_log_budget *budget, uint64_t now_ns, enum ds_log_level level, const char *fmt, ...)
{
        static const struct ds_log_about nobody;
        va_list args;

        if (!ds_log_may(budget, now_ns, level))
                return;
        va_start(args, fmt);
        log_write(&nobody, level, fmt, args);
        va_end(args);
}
