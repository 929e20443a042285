/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/fence.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"

#define MEMORY_MAX DS_GIB(4) /* bound of the helper's address space; a malicious image may request a lot of memory */
#define FILES_MAX 4352
#define PROCESSES_MAX 512 /* processes and threads under the helper's own uid, compilers included */

/* values of linux/landlock.h, because the headers of older systems lack parts that the kernel may support */
#define LANDLOCK_VERSION_FLAG 1u
/* right that the Landlock domain handles: it must handle one, and no helper needs this one */
#define LANDLOCK_MAKE_BLOCK (1ull << 11)
#define LANDLOCK_SIGNAL (1ull << 1)
#define LANDLOCK_SIGNAL_VERSION 6

struct landlock_rules {
        uint64_t handled_access_fs, handled_access_net, scoped;
};

/* Sets a resource limit. A lower existing limit stays. */
static int fence_limit(__rlimit_resource_t resource, rlim_t most)
{
        struct rlimit limit;

        if (getrlimit(resource, &limit) < 0)
                return ds_error_origin(-errno);
        limit.rlim_cur = limit.rlim_max = DS_MIN(limit.rlim_max, most);
        return setrlimit(resource, &limit) < 0 ? ds_error_origin(-errno) : 0;
}

static int become(uid_t uid)
{
        return setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 ? -errno : 0;
}

/* Changes the user if the helper is root. Returns 0, or DS_FENCE_E_ROOT. */
static int fence_user(int *ret_own_uid)
{
        uint32_t random;

        *ret_own_uid = 0;
        if (geteuid() != 0)
                return 0;
        if (getrandom(&random, sizeof(random), 0) == sizeof(random) &&
                !become(DS_FENCE_UID_FIRST + random % DS_FENCE_UIDS)) {
                *ret_own_uid = 1;
                return 0;
        }
        if (!become(DS_FENCE_NOBODY))
                return 0;
        ds_log(DS_LOG_ERROR, "root cannot become uid %u here: %s", DS_FENCE_NOBODY, strerror(errno));
        return DS_FENCE_E_ROOT;
}

/* Enters a Landlock domain. Returns 0, or -1: the kernel has no Landlock, or does not permit it here. */
static int fence_domain(void)
{
        struct landlock_rules rules = {.handled_access_fs = LANDLOCK_MAKE_BLOCK};
        long version = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_VERSION_FLAG);
        size_t size = sizeof(rules.handled_access_fs);
        int fd, r;

        if (version < 1)
                return -1;
        if (version >= LANDLOCK_SIGNAL_VERSION) {
                rules.scoped = LANDLOCK_SIGNAL;
                size = sizeof(rules);
        }
        fd = (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0u);
        if (fd < 0)
                return -1;
        r = (int)syscall(SYS_landlock_restrict_self, fd, 0u);
        close(fd);
        return r;
}

static int fence_limits(int own_uid)
{
        int r = fence_limit(RLIMIT_CORE, 0);

        if (!r)
                r = fence_limit(RLIMIT_NOFILE, FILES_MAX);
        /* RLIMIT_NPROC counts all processes of the uid, so it applies only if the uid is the helper's own */
        if (!r && own_uid)
                r = fence_limit(RLIMIT_NPROC, PROCESSES_MAX);
/* no such limit with AddressSanitizer, which reserves terabytes of addresses and traces the process when it ends */
#ifndef __SANITIZE_ADDRESS__
        if (!r)
                r = fence_limit(RLIMIT_AS, MEMORY_MAX);
        if (!r && prctl(PR_SET_DUMPABLE, 0) < 0)
                r = ds_error_origin(-errno);
#endif
        return r;
}

int ds_fence(int say)
{
        const int root = geteuid() == 0;
        int r, own_uid, domain;

        r = fence_user(&own_uid);
        if (r)
                return r;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
                return ds_error_origin(-errno);
        /* checking images must not have precedence over users' programs; a lower priority that an administrator has
         * set stays */
        if (getpriority(PRIO_PROCESS, 0) < 0 && setpriority(PRIO_PROCESS, 0, 0) < 0)
                return ds_error_origin(-errno);
        domain = fence_domain() == 0;
        if (say && root && !own_uid)
                ds_log(DS_LOG_WARNING,
                        "uid %u does not exist in this user namespace: the helpers of all users run as uid %u%s",
                        DS_FENCE_UID_FIRST, DS_FENCE_NOBODY,
                        domain ? ", isolated from each other by Landlock"
                               : ", and nothing isolates them from each other (the kernel has no Landlock)");
        return ds_error_trace(fence_limits(own_uid));
}
