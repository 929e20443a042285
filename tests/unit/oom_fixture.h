/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a supervisor in a child of the test, whose allocations are counted and can fail: tests/unit/fail_alloc.h
 *
 * Exit status 3: the child did not free everything.
 */
#pragma once

#include "tests/unit/supervisor_fixture.h"

#include "tests/unit/fail_alloc.h"

static void oom_child(struct fixture *f)
{
        struct ds_supervisor *supervisor;
        int r;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        ds_log_setup("oom", getenv("OOM_LOUD") ? DS_LOG_INFO : DS_LOG_ERROR - 1);
        f->options.config = &f->config;
        fa_this_process();
        if (ds_supervisor_new(&f->options, &supervisor))
                _exit(atomic_load(&fa->live) ? 3 : 1);
        r = ds_supervisor_run(supervisor);
        ds_supervisor_free(supervisor); /* asserts that all charges are released */
        _exit(atomic_load(&fa->live) ? 3 : r);
}

/* Forks the child, which runs a supervisor with the prepared configuration. */
static void oom_fork(struct fixture *f)
{
        fflush(NULL);
        f->pid = fork();
        cr_assert_geq(f->pid, 0);
        if (f->pid == 0)
                oom_child(f);
}

__attribute__((unused)) static void oom_start(struct fixture *f)
{
        fx_init(f);
        oom_fork(f);
}
