/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into every program of the sanitized build: makes reports arrive, and commits planted defects
 *
 * - A process that changed its user is not dumpable, so LeakSanitizer, which inspects it from outside, cannot read it.
 *   The worker and the helper are made dumpable again.
 * - Their supervisor kills them when their connection ends, before they are searched for leaks. Here the connection
 *   ends with the process.
 * - gcc's libubsan beside libasan writes to standard error, whatever its log_path is: the call that sets the path
 *   reaches the other library. It is repeated for the right one, with DETSHARE_UBSAN_LOG.
 * - DETSHARE_PLANT=DEFECT (leak, overrun or overflow) commits that defect in each process when it ends in order. Only
 *   the sanitizer's report can show it, which proves that the gate receives the reports of every process.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHILD_FD 3

/* replaces libc's, and calls it */
__attribute__((visibility("default"))) int setresuid(uid_t ruid, uid_t euid, uid_t suid)
{
        int (*real)(uid_t, uid_t, uid_t) = (int (*)(uid_t, uid_t, uid_t))dlsym(RTLD_NEXT, "setresuid");
        int r = real(ruid, euid, suid);

        if (r == 0)
                prctl(PR_SET_DUMPABLE, 1);
        return r;
}

/* calls libc's, except for the connection of the worker and the helper */
__attribute__((visibility("default"))) int close(int fd)
{
        if (fd == CHILD_FD && !strncmp(program_invocation_short_name, "detshare-", strlen("detshare-")))
                return 0;
        return (int)syscall(SYS_close, fd);
}

__attribute__((constructor)) static void report_to_file(void)
{
        static char named[512];
        const char *path = getenv("DETSHARE_UBSAN_LOG");
        void *library = path ? dlopen("libubsan.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
        void (*set_path)(const char *) =
                library ? (void (*)(const char *))dlsym(library, "__sanitizer_set_report_path") : NULL;

        if (set_path && snprintf(named, sizeof(named), "%s.%s", path, program_invocation_short_name) > 0)
                set_path(named);
}

static void plant(const char *defect)
{
        volatile int top = INT_MAX;
        static char *volatile sink;
        char *block = malloc(16);

        sink = block;
        if (!block)
                return;
        memset(block, 1, 16);
        if (!strcmp(defect, "overrun"))
                sink[16] = 1;
        if (!strcmp(defect, "overflow"))
                sink[0] = (char)(top + 1);
        sink = NULL;
        if (strcmp(defect, "leak") != 0)
                free(block);
}

/* Destructors run before the leak check, which was registered first of all. */
__attribute__((destructor)) static void plant_at_end(void)
{
        const char *defect = getenv("DETSHARE_PLANT");

        if (defect)
                plant(defect);
}
