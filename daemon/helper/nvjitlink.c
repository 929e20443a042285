/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/nvjitlink.h"

#include <dlfcn.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "util/alloc.h"
#include "util/macro.h"

/* major versions of the library that are tried, newest first; all have the functions below */
#define NEWEST 19
#define OLDEST 12

#define OPTIONS_MAX 16
#define OPTION_BYTES 48
#define REGISTERS_MAX 255u

/* values of nvJitLinkResult (nvJitLink.h) */
enum {
        RESULT_SUCCESS = 0,
        RESULT_INVALID_INPUT = 3,
        RESULT_PTX_COMPILE = 4,
        RESULT_UNRECOGNIZED_INPUT = 8,
        RESULT_INCORRECT_INPUT_TYPE = 12,
        RESULT_ARCH_MISMATCH = 13,
        RESULT_OUTDATED_LIBRARY = 14,
        RESULT_MISSING_FATBIN = 15,
        RESULT_UNRECOGNIZED_ARCH = 16,
        RESULT_UNSUPPORTED_ARCH = 17,
};

typedef void *handle;

struct functions {
        int (*create)(handle *ret, uint32_t n, const char **options);
        int (*add)(handle link, int type, const void *bytes, size_t size, const char *name);
        int (*complete)(handle link);
        int (*error_size)(handle link, size_t *size);
        int (*error)(handle link, char *log);
        int (*info_size)(handle link, size_t *size);
        int (*info)(handle link, char *log);
        int (*cubin_size)(handle link, size_t *size);
        int (*cubin)(handle link, void *bytes);
        int (*ptx_size)(handle link, size_t *size);
        int (*ptx)(handle link, char *text);
};

/* nvJitLinkInputType of each kind; libraries and unknown bytes are recognised by nvJitLink itself */
static const int types[_DS_LINK_KIND_MAX] = {
        [DS_LINK_ANY] = 10,
        [DS_LINK_CUBIN] = 1,
        [DS_LINK_PTX] = 2,
        [DS_LINK_FATBIN] = 4,
        [DS_LINK_OBJECT] = 5,
        [DS_LINK_LIBRARY] = 6,
        [DS_LINK_LTO] = 3,
};

/* --- finding the library ------------------------------------------------------------------------------------------ */

static int find_in(const char *directory, const char *below, struct ds_nvjitlink *ret)
{
        struct stat st;

        for (int version = NEWEST; version >= OLDEST; version--) {
                const int n =
                        snprintf(ret->path, sizeof(ret->path), "%s/%s/libnvJitLink.so.%d", directory, below, version);

                if (n > 0 && (size_t)n < sizeof(ret->path) && stat(ret->path, &st) == 0 && S_ISREG(st.st_mode) &&
                        access(ret->path, R_OK) == 0)
                        return 1;
        }
        return 0;
}

/* Searches a toolkit's root. The last place is that of NVIDIA's Python packages up to CUDA 12. */
static int find_below(const char *root, struct ds_nvjitlink *ret)
{
        static const char *const below[] = {"lib64", "lib", "targets/x86_64-linux/lib", "../nvjitlink/lib"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(below); i++)
                if (find_in(root, below[i], ret))
                        return 1;
        return 0;
}

/* Searches the toolkit that contains ptxas: TOOLKIT/bin/ptxas, also through symbolic links. */
static int find_beside(const char *ptxas, struct ds_nvjitlink *ret)
{
        char program[PATH_MAX], *real;
        int found;

        if (!ptxas[0])
                return 0;
        snprintf(program, sizeof(program), "%s", ptxas);
        if (find_below(dirname(dirname(program)), ret))
                return 1;
        real = realpath(ptxas, NULL);
        found = real && find_below(dirname(dirname(real)), ret);
        free(real); /* allocated by realpath() */
        return found;
}

void ds_nvjitlink_find(const struct ds_ptxas *ptxas, struct ds_nvjitlink *ret)
{
        const char *home = getenv("CUDA_HOME");

        ret->missing[0] = 0;
        if (find_beside(ptxas->path, ret) || (home && home[0] == '/' && find_below(home, ret)) ||
                find_below("/usr/local/cuda", ret))
                return;
        ret->path[0] = 0;
        snprintf(ret->missing, sizeof(ret->missing),
                "no libnvJitLink: inputs without PTX (cubins, objects, libraries, LTO code) cannot be linked; it is "
                "looked for in the CUDA toolkit of ptxas (%s), in $CUDA_HOME and in /usr/local/cuda of the daemon",
                ptxas->path[0] ? ptxas->path : "not found");
}

uint64_t ds_nvjitlink_identity(const struct ds_nvjitlink *library)
{
        struct stat st;
        uint64_t facts[3];

        if (!library->path[0] || stat(library->path, &st) < 0)
                return 0;
        facts[0] = (uint64_t)st.st_size;
        facts[1] = (uint64_t)st.st_mtim.tv_sec;
        facts[2] = (uint64_t)st.st_mtim.tv_nsec;
        return XXH3_64bits(facts, sizeof(facts)) ^ XXH3_64bits(library->path, strlen(library->path));
}

/* --- linking ------------------------------------------------------------------------------------------------------ */

static int load(const char *path, struct functions *ret)
{
        const struct {
                void **function;
                const char *name;
        } rows[] = {
                {(void **)&ret->create, "nvJitLinkCreate"},
                {(void **)&ret->add, "nvJitLinkAddData"},
                {(void **)&ret->complete, "nvJitLinkComplete"},
                {(void **)&ret->error_size, "nvJitLinkGetErrorLogSize"},
                {(void **)&ret->error, "nvJitLinkGetErrorLog"},
                {(void **)&ret->info_size, "nvJitLinkGetInfoLogSize"},
                {(void **)&ret->info, "nvJitLinkGetInfoLog"},
                {(void **)&ret->cubin_size, "nvJitLinkGetLinkedCubinSize"},
                {(void **)&ret->cubin, "nvJitLinkGetLinkedCubin"},
                {(void **)&ret->ptx_size, "nvJitLinkGetLinkedPtxSize"},
                {(void **)&ret->ptx, "nvJitLinkGetLinkedPtx"},
        };
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

        for (size_t i = 0; library && i < DS_ARRAY_SIZE(rows); i++) {
                *rows[i].function = dlsym(library, rows[i].name);
                if (!*rows[i].function)
                        return -1;
        }
        return library ? 0 : -1;
}

struct words {
        char text[OPTIONS_MAX][OPTION_BYTES];
        const char *list[OPTIONS_MAX];
        uint32_t n;
};

static void ds_printf(2, 3) option(struct words *words, const char *fmt, ...)
{
        va_list args;

        va_start(args, fmt);
        vsnprintf(words->text[words->n], OPTION_BYTES, fmt, args);
        va_end(args);
        words->list[words->n] = words->text[words->n];
        words->n++;
}

static void write_options(const struct ds_nvjitlink_options *o, struct words *words)
{
        static const struct {
                uint32_t flag;
                const char *text;
                int lto; /* 1: nvJitLink accepts it only with LTO */
        } rows[] = {
                {DS_LINK_LINE_INFO, "-lineinfo", 0},
                {DS_LINK_DEBUG, "-g", 0},
                {DS_LINK_VERBOSE, "-verbose", 0},
                {DS_LINK_FTZ, "-ftz=1", 1},
                {DS_LINK_NO_PREC_DIV, "-prec-div=0", 1},
                {DS_LINK_NO_PREC_SQRT, "-prec-sqrt=0", 1},
                {DS_LINK_NO_FMA, "-fma=0", 1},
        };

        option(words, "-arch=sm_%u%s", o->cc, o->arch_specific ? "a" : "");
        if (o->max_registers)
                option(words, "-maxrregcount=%u", DS_MIN(o->max_registers, REGISTERS_MAX));
        if (o->optimization && !(o->flags & DS_LINK_DEBUG))         /* code for a debugger is never optimised */
                option(words, "-O%d", o->optimization > 1 ? 3 : 0); /* nvJitLink has these two levels */
        if (o->lto)
                option(words, "-lto");
        if (o->ptx)
                option(words, "-ptx");
        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++)
                if (o->flags & rows[i].flag && (o->lto || !rows[i].lto))
                        option(words, "%s", rows[i].text);
}

/* Copies the text and appends a newline if it lacks one. Returns the number of bytes. */
static size_t append(char *to, size_t room, const char *text, size_t n)
{
        if (!n || room < 2)
                return 0;
        n = DS_MIN(n, room - 2);
        memcpy(to, text, n);
        if (to[n - 1] != '\n')
                to[n++] = '\n';
        to[n] = 0;
        return n;
}

static size_t append_log(
        handle link, int (*size_of)(handle, size_t *), int (*get)(handle, char *), char *to, size_t room)
{
        ds_cleanup(ds_freep) char *log = NULL;
        size_t size = 0;

        if (!link || size_of(link, &size) || size < 2)
                return 0;
        log = ds_alloc0(size + 1, 1);
        if (!log || get(link, log))
                return 0;
        return append(to, room, log, strlen(log));
}

/* Appends the errors that the library printed instead of logging them, as lines "@E@error   : ...": names that are
 * defined twice, after which it may even succeed. Returns their number. */
static size_t append_printed(int words_fd, off_t from, char *to, size_t room)
{
        static const char mark[] = "@E@";
        char words[8192], *line, *rest = words;
        ssize_t n = pread(words_fd, words, sizeof(words) - 1, from);
        size_t lines = 0;

        if (n <= 0)
                return 0;
        words[n] = 0;
        while ((line = strsep(&rest, "\n"))) {
                size_t used;

                line = strstr(line, mark);
                if (!line)
                        continue;
                used = append(to, room, line + strlen(mark), strlen(line + strlen(mark)));
                to += used;
                room -= used;
                lines++;
        }
        return lines;
}

static int status_of(int r)
{
        switch (r) {
        case RESULT_PTX_COMPILE:
                return DS_CHECK_INVALID_PTX;
        case RESULT_INVALID_INPUT:
        case RESULT_UNRECOGNIZED_INPUT:
        case RESULT_INCORRECT_INPUT_TYPE:
                return DS_CHECK_INVALID_IMAGE;
        case RESULT_ARCH_MISMATCH:
        case RESULT_MISSING_FATBIN:
        case RESULT_UNRECOGNIZED_ARCH:
        case RESULT_UNSUPPORTED_ARCH:
                return DS_CHECK_NO_BINARY;
        case RESULT_OUTDATED_LIBRARY:
                return DS_CHECK_NO_COMPILER;
        default:
                return DS_CHECK_UNKNOWN;
        }
}

static void *take_result(const struct functions *f, handle link, int ptx, size_t *ret_size)
{
        ds_cleanup(ds_freep) char *bytes = NULL;
        size_t size = 0;

        if ((ptx ? f->ptx_size(link, &size) : f->cubin_size(link, &size)) || !size || size > DS_CHECK_IMAGE_MAX)
                return NULL;
        bytes = ds_alloc0(size + 1, 1);
        if (!bytes || (ptx ? f->ptx(link, bytes) : f->cubin(link, bytes)))
                return NULL;
        *ret_size = ptx ? strlen(bytes) : size;
        return DS_TAKE_PTR(bytes);
}

static void *link_all(const struct functions *f, const struct words *words, const struct ds_nvjitlink_input *inputs,
        size_t n, int ptx, int words_fd, struct ds_check_result *result, size_t *ret_size)
{
        char *const log = result->message;
        const size_t room = sizeof(result->message);
        void *bytes = NULL;
        handle link = NULL;
        size_t at, printed;
        const off_t from = lseek(words_fd, 0, SEEK_END);
        int r = f->create(&link, words->n, (const char **)words->list);

        for (size_t i = 0; i < n && !r; i++)
                r = f->add(link, types[inputs[i].kind], inputs[i].bytes, inputs[i].size, inputs[i].name);
        if (!r)
                r = f->complete(link);
        at = append_log(link, f->error_size, f->error, log, room);
        printed = append_printed(words_fd, from, log + at, room - at);
        result->status = printed ? DS_CHECK_INVALID_SOURCE : r ? status_of(r) : 0;
        if (!result->status)
                bytes = take_result(f, link, ptx, ret_size);
        if (!bytes && !result->status)
                result->status = DS_CHECK_UNKNOWN;
        if (!result->status)
                append_log(link, f->info_size, f->info, log + at, room - at);
        if (result->status && !log[0])
                snprintf(log, room, "nvJitLink failed with code %d and no message", r);
        return bytes;
}

void *ds_nvjitlink_run(const struct ds_nvjitlink *library, const struct ds_nvjitlink_options *options,
        const struct ds_nvjitlink_input *inputs, size_t n, int words_fd, struct ds_check_result *result,
        size_t *ret_size)
{
        struct functions functions;
        struct words words = {.n = 0};

        if (!library->path[0]) {
                ds_check_fail(result, DS_CHECK_NO_COMPILER, "%s", library->missing);
                return NULL;
        }
        if (load(library->path, &functions)) {
                ds_check_fail(
                        result, DS_CHECK_NO_COMPILER, "%s cannot be used for linking: %s", library->path, dlerror());
                return NULL;
        }
        write_options(options, &words);
        return link_all(&functions, &words, inputs, n, options->ptx, words_fd, result, ret_size);
}
