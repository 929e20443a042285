/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl trace
 *
 * The daemon records into a file in memory, which it passes to the process that stops the trace. timeline.h converts
 * it. The output file is opened before the trace is stopped, so that a wrong path does not lose the trace.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "ctl/timeline.h"

int trace_start(const struct ctl_args *args)
{
        dsc_session *s = NULL;
        int code = ctl_open(&s);
        if (code)
                return code;
        const int r = dsc_control_trace_start(
                s, ctl_value_bytes(args, "size"), (uint64_t)(ctl_number(args, "seconds", 0) * 1e9));
        if (r)
                code = ctl_fail(r, "cannot start a trace");
        dsc_control_close(s);
        return code;
}

/* Converts the trace in fd to a timeline in `file`. 0, or CTL_FAILED after an error message. */
static int convert(int fd, const char *path, FILE *file)
{
        struct ctl_timeline_figures figures;
        struct stat st;
        void *memory;
        int r;
        if (fstat(fd, &st) < 0 || st.st_size <= 0) {
                ctl_complain("the trace is empty");
                return CTL_FAILED;
        }
        memory = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (memory == MAP_FAILED) {
                ctl_complain("cannot read the trace: %s", strerror(errno));
                return CTL_FAILED;
        }
        (void)!ftruncate(fileno(file), 0); /* fails for pipes and devices, which cannot be truncated */
        r = ctl_timeline_write(memory, (size_t)st.st_size, file, &figures);
        munmap(memory, (size_t)st.st_size);
        if (r < 0)
                ctl_complain("%s", r == -ENOMEM ? "out of memory" : "the trace that the daemon sent is damaged");
        else if (fflush(file) || ferror(file)) {
                ctl_complain("cannot write %s: %s", path, strerror(errno));
                r = -EIO;
        }
        if (r < 0)
                return CTL_FAILED;
        printf("%s: %" PRIu64 " operations, %" PRIu64 " requests of %" PRIu64 " clients", path, figures.operations,
                figures.requests, figures.sessions);
        if (figures.lost)
                printf("; %" PRIu64 " older records were lost", figures.lost);
        printf("%s\n", figures.simulated ? " (sim)" : "");
        return fflush(stdout) ? CTL_FAILED : CTL_OK;
}

/* Opens the output without truncating it: its old contents stay until a timeline is ready. */
static FILE *open_file(const char *path, int *ret_made)
{
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        *ret_made = fd >= 0;
        if (fd < 0 && errno == EEXIST)
                fd = open(path, O_WRONLY | O_CLOEXEC);
        FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
        if (file)
                return file;
        ctl_complain("cannot write %s: %s", path, strerror(errno));
        if (fd >= 0)
                close(fd);
        return NULL;
}

int trace_stop(const struct ctl_args *args)
{
        const char *path = args->argv[0];
        dsc_session *s = NULL;
        int fd = -1, made;
        int code = ctl_open(&s);
        if (code)
                return code;
        FILE *file = open_file(path, &made);
        if (!file) {
                dsc_control_close(s);
                return CTL_FAILED;
        }
        const int r = dsc_control_trace_stop(s, &fd);
        code = r ? ctl_fail(r, "cannot stop the trace") : convert(fd, path, file);
        if (fd >= 0)
                close(fd);
        fclose(file);
        if (code && made)
                unlink(path);
        dsc_control_close(s);
        return code;
}
