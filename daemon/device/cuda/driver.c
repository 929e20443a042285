/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding and loading NVIDIA's driver library
 *
 * The search order: DETSHARE_LIBCUDA and nothing else when that is set; else the usual folders (util/dropin.h); last
 * the dynamic linker's own search, only while LD_LIBRARY_PATH is unset, since programs find the drop-in by that
 * variable.
 *
 * The drop-in carries an ELF note that NVIDIA's library does not have. driver.c reads the note from the file before it
 * runs any code of the file. A library that is the drop-in, or lacks a function, is skipped with a line in the log.
 *
 * The library stays in the process once loaded: it has threads of its own.
 */
#include "device/cuda/driver.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/dropin.h"
#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"

#define NOTES_MAX 4096 /* most bytes read of one ELF note segment */
#define PROGRAM_HEADERS_MAX 64

/* --- the drop-in -------------------------------------------------------------------------------------------------- */

/* 1 if the file has the drop-in's note. A file that is no ELF file has no note; dlopen reports what is wrong with
 * it. */
static bool file_is_dropin(const char *path)
{
        ds_cleanup(ds_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        char notes[NOTES_MAX];
        Elf64_Ehdr header;
        Elf64_Phdr segment;
        ssize_t n;

        if (fd < 0 || pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
                memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
                header.e_phentsize != sizeof(segment))
                return false;
        for (unsigned i = 0; i < header.e_phnum && i < PROGRAM_HEADERS_MAX; i++) {
                if (pread(fd, &segment, sizeof(segment), (off_t)(header.e_phoff + i * sizeof(segment))) !=
                        sizeof(segment))
                        return false;
                if (segment.p_type != PT_NOTE)
                        continue;
                n = pread(fd, notes, DS_MIN(sizeof(notes), segment.p_filesz), (off_t)segment.p_offset);
                if (n > 0 && ds_notes_are_dropin(notes, (size_t)n))
                        return true;
        }
        return false;
}

static bool refuse_dropin(const char *path)
{
        if (!file_is_dropin(path))
                return false;
        ds_log(DS_LOG_WARNING, "%s is DetShare's own library for programs, not NVIDIA's driver: not used", path);
        return true;
}

/* --- the functions ---------------------------------------------------------------------------------------------- */

#define NAME_OF(name) #name
#define SYMBOL(name) NAME_OF(name) /* the symbol's name with the version suffix that the headers add, such as _v2 */

static bool driver_resolve(struct ds_cuda_driver *driver)
{
        char missing[400] = "";
        size_t used = 0;
        unsigned n = 0;

        /* addresses are copied as bytes: POSIX lets a void pointer hold a function's address, ISO C does not */
#define X(name)                                                                                                \
        {                                                                                                      \
                void *p = dlsym(driver->handle, SYMBOL(name));                                                 \
                memcpy(&driver->name##_fn, &p, sizeof(p));                                                     \
                if (!p && ++n && used < sizeof(missing))                                                       \
                        used += (size_t)snprintf(missing + used, sizeof(missing) - used, " %s", SYMBOL(name)); \
        }
        DS_CUDA_FUNCTIONS(X)
#undef X
        if (n)
                ds_log(DS_LOG_WARNING,
                        "%s lacks %u functions that DetShare needs (a driver of CUDA 13.0 has them):%s%s", driver->path,
                        n, missing, used < sizeof(missing) ? "" : "...");
        return !n;
}

static int driver_open(struct ds_cuda_driver *driver, const char *path)
{
        struct link_map *map = NULL;

        driver->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (!driver->handle) {
                ds_log(DS_LOG_WARNING, "cannot load %s: %s", path, dlerror());
                return -ENODEV;
        }
        if (!dlinfo(driver->handle, RTLD_DI_LINKMAP, &map) && map && map->l_name[0])
                path = map->l_name;
        snprintf(driver->path, sizeof(driver->path), "%s", path);
        /* the opened file is checked, too: the dynamic linker may have chosen another one than the path */
        if (!refuse_dropin(driver->path) && driver_resolve(driver))
                return 0;
        ds_cuda_driver_unload(driver);
        return -ENODEV;
}

/* --- search ----------------------------------------------------------------------------------------------------- */

static int driver_named(struct ds_cuda_driver *driver, const char *path)
{
        if (!strchr(path, '/')) {
                ds_log(DS_LOG_ERROR, "%s: the driver library must be named by its path", path);
                return -ENODEV;
        }
        if (access(path, F_OK) < 0) {
                ds_log(DS_LOG_ERROR, "%s: %s (as user %u)", path, strerror(errno), (unsigned)geteuid());
                return -ENODEV;
        }
        if (refuse_dropin(path))
                return -ENODEV;
        return driver_open(driver, path);
}

static int driver_usual(struct ds_cuda_driver *driver)
{
        char path[sizeof(driver->path)];

        for (size_t i = 0; i < DS_ARRAY_SIZE(ds_libcuda_folders); i++) {
                snprintf(path, sizeof(path), "%s/%s", ds_libcuda_folders[i], DS_LIBCUDA);
                if (!access(path, F_OK) && !refuse_dropin(path) && !driver_open(driver, path))
                        return 0;
        }
        if (!getenv("LD_LIBRARY_PATH") && !driver_open(driver, DS_LIBCUDA))
                return 0;
        ds_log(DS_LOG_ERROR,
                "no NVIDIA driver library: no %s that can be used in the usual places (detshared --libcuda PATH, or "
                "DETSHARE_LIBCUDA=PATH, names another one)",
                DS_LIBCUDA);
        return -ENODEV;
}

int ds_cuda_driver_load(struct ds_cuda_driver *driver, const char *candidate)
{
        int r;

        *driver = (struct ds_cuda_driver){};
        if (!candidate)
                candidate = getenv("DETSHARE_LIBCUDA");
        r = candidate && *candidate ? driver_named(driver, candidate) : driver_usual(driver);
        if (r)
                return r;
        if (driver->cuDriverGetVersion_fn(&driver->version) != CUDA_SUCCESS)
                driver->version = 0;
        ds_log(DS_LOG_INFO, "driver library %s, CUDA %d.%d", driver->path, driver->version / 1000,
                driver->version % 1000 / 10);
        return 0;
}

void ds_cuda_driver_unload(struct ds_cuda_driver *driver)
{
        if (driver->handle)
                dlclose(driver->handle);
        *driver = (struct ds_cuda_driver){};
}

const char *ds_cuda_driver_error(const struct ds_cuda_driver *driver, CUresult result)
{
        static char number[48];
        const char *name = NULL;

        if (driver->cuGetErrorName_fn && driver->cuGetErrorName_fn(result, &name) == CUDA_SUCCESS && name)
                return name;
        snprintf(number, sizeof(number), "CUDA error %d", (int)result);
        return number;
}
