/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/child.h"

#include <errno.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "util/clock.h"
#include "util/error.h"
#include "util/macro.h"

void ds_child_init(struct ds_child *child, uint64_t ms)
{
        *child = (struct ds_child){.process_fd = -1, .deadline_ns = ds_monotonic_ns() + ms * DS_NS_PER_MS};
}

int ds_child_watch(struct ds_child *child)
{
        child->process_fd = pidfd_open(child->pid, 0);
        return child->process_fd < 0 ? ds_error_origin(-errno) : 0;
}

int ds_child_step(struct ds_child *child, uint64_t now_ns)
{
        if (child->over)
                return 1;
        if (now_ns >= child->deadline_ns && !child->late) {
                child->late = 1;
                kill(child->pid, SIGKILL);
        }
        if (waitpid(child->pid, &child->status, WNOHANG) != child->pid)
                return 0;
        child->over = 1;
        return 1;
}

void ds_child_end(struct ds_child *child)
{
        if (child->pid > 0 && !child->over) {
                kill(child->pid, SIGKILL);
                waitpid(child->pid, NULL, 0);
        }
        child->process_fd = ds_close(child->process_fd);
}
