/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines of the daemon's processes
 *
 * One line per call, whatever clients' words are in it (util/text.h), on standard error, prefixed `<N>` (syslog
 * priority) when systemd's journal reads it, or into a sink that makes more of what the line is about. Whoever reads
 * the log may stop: lines that find no room are counted and not waited for. A process names itself once. Lines said on
 * behalf of a client go through a ds_log_budget, so that a hostile client cannot make the daemon spend its time
 * logging: past the budget lines are counted, and the count is said once. Library code below the daemon's main files
 * never decides to exit because of a log line.
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

/* What operators look for, whatever the words are. */
enum ds_log_event {
        DS_EVENT_NONE,
        DS_EVENT_CLIENT_CLOSED, /* for a fault of its own */
        DS_EVENT_WORKER_LOST,
        DS_EVENT_DEVICE_LOST,
        DS_EVENT_CONFIG_REFUSED,
        DS_EVENT_CONFIG_READ,
        DS_EVENT_POLICY_REPLACED, /* by the daemon, not by an administrator */
        _DS_EVENT_MAX,
};

/* Whom a line is about; zeros: nobody in particular. */
struct ds_log_about {
        enum ds_log_event event;
        uint64_t session;
        int32_t pid; /* 0: no client, and then uid says nothing */
        uint32_t uid;
};

/* line has no name before it, and is safe to show. */
typedef void ds_log_sink(const struct ds_log_about *about, enum ds_log_level level, const char *line);

struct ds_log_budget {
        uint64_t window_start_ns;
        uint32_t said;
        uint32_t dropped;
};

/*
 * Budgets of users, for as long as the table lives: one that came and went with its connections would be new with each.
 * Users may share one.
 */
#define DS_LOG_BUDGETS 64u
struct ds_log_budgets {
        struct ds_log_budget of[DS_LOG_BUDGETS];
};

static inline struct ds_log_budget *ds_log_budget_of(struct ds_log_budgets *budgets, uint32_t uid)
{
        return &budgets->of[uid % DS_LOG_BUDGETS];
}

/* name is kept by reference. Lines above max_level are dropped. */
void ds_log_setup(const char *name, enum ds_log_level max_level);
/* Is standard error what the journal reads? JOURNAL_STREAM may be a parent's, whose standard error was another. */
int ds_log_in_journal(void);
/* Lines go there from now on; NULL: to standard error. */
void ds_log_set_sink(ds_log_sink *sink);
/* Lines go to this file from now on instead of standard error, which somebody else's words are caught from. */
void ds_log_to(int fd);
void ds_log(enum ds_log_level level, const char *fmt, ...) ds_printf(2, 3);
void ds_log_about(const struct ds_log_about *about, enum ds_log_level level, const char *fmt, ...) ds_printf(3, 4);
/* As ds_log, but at most 20 lines per 10 s of now_ns for this budget. */
void ds_log_limited(struct ds_log_budget *budget, uint64_t now_ns, enum ds_log_level level, const char *fmt, ...)
        ds_printf(4, 5);
/* For a line that is said otherwise: 1 if this budget has one, which is spent then. */
int ds_log_may(struct ds_log_budget *budget, uint64_t now_ns, enum ds_log_level level);
