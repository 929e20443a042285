/* SPDX-License-Identifier: Apache-2.0 */
#include "util/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define LOG_BUDGET_LINES 20
#define LOG_BUDGET_WINDOW_NS (10 * DS_NS_PER_S)
#define LOG_LINE_MAX 1024

static const char *log_name = "detshare";
static enum ds_log_level log_max = DS_LOG_INFO;
static int log_journal;
static int log_fd = STDERR_FILENO;

void ds_log_setup(const char *name, enum ds_log_level max_level)
{
        log_name = name;
        log_max = max_level;
        log_journal = getenv("JOURNAL_STREAM") != NULL;
}

void ds_log_to(int fd)
{
        log_fd = fd;
}

static void log_write(enum ds_log_level level, const char *fmt, va_list args)
{
        char line[LOG_LINE_MAX];
        int saved = errno;

        vsnprintf(line, sizeof(line), fmt, args);
        /* one call, so that lines of several processes do not mix */
        if (log_journal)
                dprintf(log_fd, "<%d>%s: %s\n", level, log_name, line);
        else
                dprintf(log_fd, "%s: %s\n", log_name, line);
        errno = saved;
}

void ds_log(enum ds_log_level level, const char *fmt, ...)
{
        va_list args;

        if (level > log_max)
                return;
        va_start(args, fmt);
        log_write(level, fmt, args);
        va_end(args);
}

void ds_log_limited(struct ds_log_budget *budget, uint64_t now_ns, enum ds_log_level level, const char *fmt, ...)
{
        va_list args;

        if (level > log_max)
                return;
        if (now_ns - budget->window_start_ns >= LOG_BUDGET_WINDOW_NS || budget->window_start_ns == 0) {
                if (budget->dropped)
                        ds_log(level, "%u lines about this client were not logged", budget->dropped);
                *budget = (struct ds_log_budget){.window_start_ns = now_ns};
        }
        if (budget->said >= LOG_BUDGET_LINES) {
                budget->dropped++;
                return;
        }
        budget->said++;
        va_start(args, fmt);
        log_write(level, fmt, args);
        va_end(args);
}
