/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine code for a GPU's device, which accepts cubins only
 *
 * The probe's kernels are PTX. For one GPU architecture the build provides machine code, so no other program is needed
 * there. For other architectures ptxas assembles the PTX: the ptxas of DETSHARE_PTXAS, or of CUDA_HOME, the usual
 * directory, or PATH. Both this program and ptxas belong to the user, so ptxas runs without restrictions, for a minute
 * at most.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lut/probe/bench_internal.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"

#define CUBIN_MAX DS_MIB(16)
#define PTXAS_S 60u /* time limit of ptxas, s; an alarm set before ptxas starts ends it */

/* Temporary directory with the input and output files of ptxas. */
struct place {
        char dir[32], text[48], code[48];
};

static void place_leave(struct place *place)
{
        if (!place->dir[0])
                return;
        (void)unlink(place->text);
        (void)unlink(place->code);
        (void)rmdir(place->dir);
}

static int place_make(struct place *place, const char *ptx, size_t size)
{
        ds_cleanup(ds_closep) int fd = -1;

        snprintf(place->dir, sizeof(place->dir), "/tmp/detshare-lut-XXXXXX");
        if (!mkdtemp(place->dir)) {
                place->dir[0] = 0;
                return ds_error_origin(-errno);
        }
        snprintf(place->text, sizeof(place->text), "%s/in.ptx", place->dir);
        snprintf(place->code, sizeof(place->code), "%s/out.cubin", place->dir);
        fd = open(place->text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, ptx, size) != (ssize_t)size)
                return ds_error_origin(-errno);
        return 0;
}

static void child(const struct place *place, uint32_t cc)
{
        const char *named = getenv("DETSHARE_PTXAS"), *home = getenv("CUDA_HOME");
        char arch[24], at[512];

        (void)signal(SIGALRM, SIG_DFL);
        (void)alarm(PTXAS_S);
        snprintf(arch, sizeof(arch), "-arch=sm_%u", cc);
        snprintf(at, sizeof(at), "%s/bin/ptxas", home ? home : "/usr/local/cuda");
        if (named)
                execlp(named, named, arch, "-o", place->code, place->text, (char *)NULL);
        execlp(at, at, arch, "-o", place->code, place->text, (char *)NULL);
        execlp("/usr/local/cuda/bin/ptxas", "ptxas", arch, "-o", place->code, place->text, (char *)NULL);
        execlp("ptxas", "ptxas", arch, "-o", place->code, place->text, (char *)NULL);
        _exit(127);
}

static int run_ptxas(const struct place *place, uint32_t cc)
{
        pid_t pid = fork();
        int status = 0;

        if (pid < 0)
                return ds_error_origin(-errno);
        if (!pid)
                child(place, cc);
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return ds_error_origin(-errno);
        if (!status)
                return 0;
        ds_log(DS_LOG_ERROR, "machine code for sm_%u: %s", cc,
                WIFEXITED(status) && WEXITSTATUS(status) == 127 ? "there is no ptxas; set DETSHARE_PTXAS to its path"
                                                                : "ptxas failed");
        return DS_PROBE_E_NO_IMAGE;
}

static int read_code(const struct place *place, void **ret, size_t *ret_size)
{
        ds_cleanup(ds_closep) int fd = open(place->code, O_RDONLY | O_CLOEXEC);
        ds_cleanup(ds_freep) uint8_t *code = NULL;
        struct stat st;
        ssize_t n;

        if (fd < 0 || fstat(fd, &st))
                return ds_error_origin(-errno);
        if (st.st_size <= 0 || (uint64_t)st.st_size > CUBIN_MAX)
                return ds_error_origin(-EFBIG);
        code = ds_alloc((size_t)st.st_size);
        if (!code)
                return ds_error_origin(-ENOMEM);
        n = read(fd, code, (size_t)st.st_size);
        if (n != st.st_size)
                return ds_error_origin(n < 0 ? -errno : -EIO);
        *ret = DS_TAKE_PTR(code);
        *ret_size = (size_t)n;
        return 0;
}

static int assemble(const struct ds_bench_code *code, uint32_t cc, void **ret, size_t *ret_size)
{
        ds_cleanup(place_leave) struct place place = {};
        int r;

        r = place_make(&place, code->ptx, code->ptx_size);
        if (!r)
                r = run_ptxas(&place, cc);
        if (!r)
                r = read_code(&place, ret, ret_size);
        return r;
}

int ds_bench_load(ds_bench *bench, const struct ds_bench_code *code, const ds_device_kernel **ret)
{
        uint32_t cc = bench->info->cc_major * 10 + bench->info->cc_minor;
        ds_cleanup(ds_freep) void *made = NULL;
        size_t size = 0;
        int r;

        if (bench->takes_text || bench->info->simulated) /* PTX is loaded with its terminating NUL */
                return ds_bench_load_image(bench, code->ptx, code->ptx_size + 1, code->name, ret);
        if (code->cubin_size && cc == DS_BENCH_BUILT_FOR)
                return ds_bench_load_image(bench, code->cubin, code->cubin_size, code->name, ret);
        r = assemble(code, cc, &made, &size);
        if (!r)
                r = ds_bench_load_image(bench, made, size, code->name, ret);
        return ds_error_trace(r);
}
