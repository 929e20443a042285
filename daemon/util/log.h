/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines of the daemon's processes
 *
 * One line per call, even with text of clients in it (util/text.h). Lines go to standard error, prefixed `<N>` (syslog
 * priority) if systemd's journal reads it, or to a sink that also gets the line's subject. If the reader of the log
 * stops, lines without room are dropped and counted. A process sets its name once. Lines caused by a client use a
 * ds_log_budget, so that a hostile client cannot make the daemon spend its time logging: beyond the budget, lines are
 * counted and the count is logged once. Library code below the daemon's main files never exits because of a log line.
 */
#pragma once

#include <stdint.h>

#include "util/macro.h"

enum ds_log_level {
        DS_LOG_ERROR = 3,
        DS_LOG_WARNING = 4,
        DS_LOG_INFO = 6,
        DS_LOG_DEBUG = 7,
};

/* Events that operators search for, independent of the wording. */
enum ds_log_event {
        DS_EVENT_NONE,
        DS_EVENT_CLIENT_CLOSED, /* the daemon closed a client because of the client's own fault */
        DS_EVENT_WORKER_LOST,
        DS_EVENT_DEVICE_LOST,
        DS_EVENT_CONFIG_REFUSED,
        DS_EVENT_CONFIG_READ,
        DS_EVENT_POLICY_REPLACED, /* the daemon, not an administrator, replaced the policy */
        _DS_EVENT_MAX,
};

/* Subject of a log line; all zeros: none. */
struct ds_log_about {
        enum ds_log_event event;
        uint64_t session;
        int32_t pid; /* 0: the line is about no client, and uid is unused */
        uint32_t uid;
};

/* Function that receives log lines. `line` has no process name and is safe to display. */
typedef void ds_log_sink(const struct ds_log_about *about, enum ds_log_level level, const char *line);

struct ds_log_budget {
        uint64_t window_start_ns;
        uint32_t said;
        uint32_t dropped;
};

/*
 * Log budgets per user. They outlive connections, because a new budget per connection would be no bound. Several users
 * may share one.
 */
#define DS_LOG_BUDGETS 64u
struct ds_log_budgets {
        struct ds_log_budget of[DS_LOG_BUDGETS];
};

static inline struct ds_log_budget *ds_log_budget_of(struct ds_log_budgets *budgets, uint32_t uid)
{
        return &budgets->of[uid % DS_LOG_BUDGETS];
}

/* Sets the process's name, which must stay valid, and the log level: lines above max_level are dropped. */
void ds_log_setup(const char *name, enum ds_log_level max_level);
/* Whether the journal reads standard error. Checks that, because the variable JOURNAL_STREAM may come from a parent
 * with another standard error. */
int ds_log_in_journal(void);
/* Sends later lines to the sink; NULL: to standard error. */
void ds_log_set_sink(ds_log_sink *sink);
/* Sends later lines to this file, for a process whose standard error captures another program's output. */
void ds_log_to(int fd);
void ds_log(enum ds_log_level level, const char *fmt, ...) ds_printf(2, 3);
void ds_log_about(const struct ds_log_about *about, enum ds_log_level level, const char *fmt, ...) ds_printf(3, 4);
/* Logs as ds_log(), but at most 20 lines per 10 s of now_ns for this budget. */
void ds_log_limited(struct ds_log_budget *budget, uint64_t now_ns, enum ds_log_level level, const char *fmt, ...)
        ds_printf(4, 5);
/* Whether the budget allows one more line, which then counts against it. For lines that are logged by other means. */
int ds_log_may(struct ds_log_budget *budget, uint64_t now_ns, enum ds_log_level level);
