/* SPDX-License-Identifier: Apache-2.0 */
#include "util/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define LOG_BUDGET_LINES 20
#define LOG_BUDGET_WINDOW_NS (10 * DS_NS_PER_S)
#define LOG_LINE_MAX 1024
#define LOG_NAME_MAX 64 /* of the process, and what stands around it */

static const char *log_name = "detshare";
static enum ds_log_level log_max = DS_LOG_INFO;
static int log_journal;
static int log_fd = STDERR_FILENO;
static ds_log_sink *log_sink;

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

/* The journal's end is a socket: while it is full, lines are lost, and nobody waits. */
static void log_to_journal(const char *text, size_t size)
{
        if (send(log_fd, text, size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == ENOTSOCK &&
                write(log_fd, text, size) < 0)
                errno = 0;
}

static void log_write(const struct ds_log_about *about, enum ds_log_level level, const char *fmt, va_list args)
{
        char line[LOG_LINE_MAX], text[LOG_LINE_MAX + LOG_NAME_MAX];
        int saved = errno;

        vsnprintf(line, sizeof(line), fmt, args);
        /* one call, so that lines of several processes do not mix */
        if (log_sink) {
                log_sink(about, level, line);
        } else if (log_journal) {
                snprintf(text, sizeof(text), "<%d>%s: %s\n", level, log_name, line);
                log_to_journal(text, strlen(text));
        } else {
                dprintf(log_fd, "%s: %s\n", log_name, line);
        }
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
