/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl run
 *
 * Replaces itself by the command, with an environment that makes an unchanged program a client. It connects to the
 * daemon first, because a program without a daemon only reports that there is no CUDA device. It finds the drop-in
 * libcuda.so.1 relative to its own file: build/cuda in a build tree, LIBDIR/detshare in an installation. Variables
 * without an option keep their values. On a machine of several GPUs it sets CUDA_VISIBLE_DEVICES to the daemon's GPU
 * unless the variable is set: programs count GPUs also without the driver.
 */
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "ctl/ctl.h"

struct run_options {
        int is_ls, has_class, has_slo, has_limit;
        double slo_ms, gpu_request, gpu_limit; /* shares of the GPU's time; negative: not given */
        uint64_t memory_limit;
        uint32_t sm_percent;                  /* share of the SMs, per cent; 0: not given */
        const char *name, *slo, *ttft, *tpot; /* NULL: not given */
};

static int take_options(const struct ctl_args *args, struct run_options *o)
{
        const char *class_ = getenv("DETSHARE_CLASS");
        o->has_class = ctl_given(args, "class");
        o->is_ls = o->has_class ? ctl_number(args, "class", 0) > 0 : class_ && !strcasecmp(class_, "ls");
        o->has_slo = ctl_given(args, "slo-ms");
        o->slo_ms = ctl_number(args, "slo-ms", 0);
        o->slo = ctl_value(args, "slo");
        o->ttft = ctl_value(args, "ttft");
        o->tpot = ctl_value(args, "tpot");
        o->has_limit = ctl_given(args, "mem-limit");
        o->memory_limit = ctl_value_bytes(args, "mem-limit");
        o->sm_percent = (uint32_t)ctl_number(args, "sm-percent", 0);
        o->gpu_request = ctl_number(args, "gpu-request", -1);
        o->gpu_limit = ctl_number(args, "gpu-limit", -1);
        o->name = ctl_value(args, "name");
        if (o->gpu_limit > 0 && o->gpu_request > o->gpu_limit)
                return ctl_usage("run: --gpu-request %g is more than --gpu-limit %g", o->gpu_request, o->gpu_limit);
        return 0;
}

/* --- the drop-in --- */

static int exists(const char *directory)
{
        char path[PATH_MAX];
        const int n = snprintf(path, sizeof(path), "%s/libcuda.so.1", directory);
        return n > 0 && n < (int)sizeof(path) && access(path, R_OK) == 0;
}

static int find_installed(const char *own, char *ret, size_t size)
{
        static const char *const places[] = {"/../lib*/detshare", "/../lib*/*/detshare"};
        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
                char pattern[PATH_MAX];
                glob_t found;
                if (snprintf(pattern, sizeof(pattern), "%s%s", own, places[i]) >= (int)sizeof(pattern))
                        continue;
                if (glob(pattern, 0, NULL, &found))
                        continue;
                for (size_t k = 0; k < found.gl_pathc; k++) {
                        if (!exists(found.gl_pathv[k]) || !realpath(found.gl_pathv[k], pattern))
                                continue;
                        globfree(&found);
                        return snprintf(ret, size, "%s", pattern) < (int)size ? 0 : -1;
                }
                globfree(&found);
        }
        return -1;
}

/* *ret: the directory of the drop-in libcuda.so.1. 0, or -1 if it is not found. */
static int find_drop_in(char *ret, size_t size)
{
        char own[PATH_MAX];
        const ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
        if (n <= 0)
                return -1;
        own[n] = '\0';
        *strrchr(own, '/') = '\0';
        if (snprintf(ret, size, "%s/cuda", own) < (int)size && exists(ret))
                return 0;
        return find_installed(own, ret, size);
}

/* --- the environment --- */

static int set(const char *name, const char *value)
{
        if (!setenv(name, value, 1))
                return 0;
        ctl_complain("out of memory");
        return CTL_FAILED;
}

static int set_library_path(void)
{
        char drop_in[PATH_MAX], *value = NULL;
        const char *old = getenv("LD_LIBRARY_PATH");
        if (find_drop_in(drop_in, sizeof(drop_in))) {
                ctl_complain("cannot find the drop-in libcuda.so.1 beside this program");
                return CTL_FAILED;
        }
        if (asprintf(&value, "%s%s%s", drop_in, old && old[0] ? ":" : "", old ? old : "") < 0) {
                ctl_complain("out of memory");
                return CTL_FAILED;
        }
        const int r = set("LD_LIBRARY_PATH", value);
        free(value);
        return r;
}

/* Sets DETSHARE_SOCKET to an absolute path, because the command may change its working directory. */
static int set_socket(void)
{
        const char *given = dsc_control_path(arg_socket);
        char path[PATH_MAX];
        return set("DETSHARE_SOCKET", given[0] != '/' && realpath(given, path) ? path : given);
}

/* Sets a variable to a share. The library needs a decimal point and reads no exponents; detsharectl sets no numeric
 * locale, so printf writes a point. */
static int set_share(const char *name, double share)
{
        char number[64];
        if (share < 0)
                return 0;
        snprintf(number, sizeof(number), "%.3f", share);
        return set(name, share > 0 ? number : "0");
}

static int set_shares(const struct run_options *o)
{
        char number[16];
        int r = set_share("DETSHARE_GPU_REQUEST", o->gpu_request);
        if (!r)
                r = set_share("DETSHARE_GPU_LIMIT", o->gpu_limit);
        snprintf(number, sizeof(number), "%" PRIu32, o->sm_percent);
        return r || !o->sm_percent ? r : set("DETSHARE_SM_PERCENT", number);
}

static int set_environment(const struct run_options *o)
{
        char number[64];
        int r = set_library_path();
        if (!r)
                r = set_socket();
        if (!r && o->has_class)
                r = set("DETSHARE_CLASS", o->is_ls ? "ls" : "be");
        snprintf(number, sizeof(number), "%.6f", o->slo_ms); /* without an exponent, which the library does not read */
        if (!r && o->has_slo)
                r = set("DETSHARE_SLO_MS", number);
        if (!r && o->slo)
                r = set("DETSHARE_SLO", o->slo);
        if (!r && o->ttft)
                r = set("DETSHARE_TTFT", o->ttft);
        if (!r && o->tpot)
                r = set("DETSHARE_TPOT", o->tpot);
        snprintf(number, sizeof(number), "%" PRIu64, o->memory_limit);
        if (!r && o->has_limit)
                r = set("DETSHARE_MEM_LIMIT", number);
        if (!r && o->name)
                r = set("DETSHARE_NAME", o->name);
        return r ? r : set_shares(o);
}

/* Sets CUDA_VISIBLE_DEVICES on a machine of several GPUs, so that the program sees only the daemon's GPU. */
static int set_visible(dsc_session *s)
{
        const struct dsc_device *device;
        char text[DSC_UUID_TEXT];
        if (getenv("CUDA_VISIBLE_DEVICES") || dsc_gpus_present() < 2 || dsc_control_device(s, &device) ||
                device->simulated)
                return 0;
        dsc_uuid_text(device->uuid, text);
        return set("CUDA_VISIBLE_DEVICES", text);
}

/* Checks that the daemon accepts a client with these options. 0, or an exit code after an error message. */
static int ask_daemon(const struct run_options *o)
{
        dsc_session *s = NULL;
        /* with DETSHARE_FALLBACK=native the program runs without a daemon, and libcuda prints a message */
        if (dsc_fallback_native() && dsc_control_open(arg_socket, o->is_ls, &s))
                return 0;
        int code = s ? 0 : ctl_open_as(o->is_ls, &s);
        if (code)
                return code;
        if (o->is_ls && !dsc_control_is_ls(s))
                ctl_complain("the daemon does not grant this user class ls: the program runs as be");
        code = set_visible(s);
        dsc_control_close(s);
        return code;
}

int cmd_run(const struct ctl_args *args)
{
        char **command = args->argv;
        struct run_options o;
        int code = take_options(args, &o);
        if (code)
                return code;
        code = ask_daemon(&o);
        if (!code)
                code = set_environment(&o);
        if (code)
                return code;
        execvp(command[0], command);
        code = errno == ENOENT ? CTL_NOT_FOUND : CTL_CANNOT_EXECUTE;
        ctl_complain("cannot run %s: %s", command[0], strerror(errno));
        return code;
}
