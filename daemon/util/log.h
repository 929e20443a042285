/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines of the daemon's processes
 *
 * One line per call on standard error, prefixed `<N>` (syslog priority) when systemd reads it. A process names itself
 * once. Lines said on behalf of a client go through a ds_log_budget, so that a hostile client cannot make the daemon
 * spend its time logging: past the budget lines are counted, and the count is said once.
 * Library code below the daemon's main files never decides to exit because of a log line.
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
/* Lines go to this file from now on instead of standard error, which somebody else's words are caught from. */
void ds_log_to(int fd);
void ds_log(enum ds_log_level level, const char *fmt, ...) ds_printf(2, 3);
/* As ds_log, but at most 20 lines per 10 s of now_ns for this budget. */
void ds_log_limited(struct ds_log_budget *budget, uint64_t now_ns, enum ds_log_level level, const char *fmt, ...)
        ds_printf(4, 5);
