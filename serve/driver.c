/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the driver library, recognising the drop-in, and the first calls
 */
#include "serve/driver.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/dropin.h"
#include "util/macro.h"

/* --- recognising the drop-in -------------------------------------------------------------------------------------- */

struct look {
        ElfW(Addr) base;
        const char *path;
        bool ours;
};

static int look_at(struct dl_phdr_info *info, size_t size, void *user)
{
        struct look *look = user;

        if (info->dlpi_addr != look->base || strcmp(info->dlpi_name, look->path) != 0)
                return 0;
        for (unsigned i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

                /* the linker gives a segment's address as a number */
                if (segment->p_type == PT_NOTE &&
                        ds_notes_are_dropin(
                                (const char *)(uintptr_t)(info->dlpi_addr + segment->p_vaddr), segment->p_memsz))
                        look->ours = true;
        }
        return 1;
}

/* Whether a loaded library is the drop-in. */
static bool is_dropin(void *library)
{
        struct link_map *map = NULL;
        struct look look = {.ours = false};

        if (dlinfo(library, RTLD_DI_LINKMAP, &map) || !map)
                return false;
        look.base = map->l_addr;
        look.path = map->l_name;
        (void)dl_iterate_phdr(look_at, &look);
        return look.ours;
}

/* --- loading ------------------------------------------------------------------------------------------------------ */

static void keep(struct sv_driver *driver, void *library, const char *path)
{
        struct link_map *map = NULL;

        if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0])
                path = map->l_name;
        (void)snprintf(driver->path, sizeof(driver->path), "%s", path);
        driver->library = library;
}

static bool load(struct sv_driver *driver, const char *path)
{
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

        if (!library)
                return false;
        if (is_dropin(library) == driver->native) {
                (void)dlclose(library);
                return false;
        }
        keep(driver, library, path);
        return true;
}

static void find_any(struct sv_driver *driver)
{
        void *library = dlopen(DS_LIBCUDA, RTLD_NOW | RTLD_LOCAL);

        if (!library)
                return;
        driver->native = !is_dropin(library);
        keep(driver, library, DS_LIBCUDA);
}

static bool load_from(struct sv_driver *driver, const char *folder)
{
        char path[PATH_MAX];

        if (snprintf(path, sizeof(path), "%s/" DS_LIBCUDA, folder) >= (int)sizeof(path) || access(path, R_OK) != 0)
                return false;
        return load(driver, path);
}

static void find_native(struct sv_driver *driver)
{
        const char *named = getenv("DETSHARE_LIBCUDA");

        if (named && named[0]) {
                (void)load(driver, named);
                return;
        }
        for (size_t i = 0; i < DS_ARRAY_SIZE(ds_libcuda_folders); i++)
                if (load_from(driver, ds_libcuda_folders[i]))
                        return;
        (void)load(driver, DS_LIBCUDA);
}

static bool load_installed(struct sv_driver *driver, const char *own)
{
        static const char *const places[] = {"/../lib*/detshare", "/../lib*/*/detshare"};
        bool found = false;

        for (size_t i = 0; i < DS_ARRAY_SIZE(places) && !found; i++) {
                char pattern[PATH_MAX];
                glob_t list;

                if (snprintf(pattern, sizeof(pattern), "%s%s", own, places[i]) >= (int)sizeof(pattern) ||
                        glob(pattern, 0, NULL, &list))
                        continue;
                for (size_t k = 0; k < list.gl_pathc && !found; k++)
                        found = load_from(driver, list.gl_pathv[k]);
                globfree(&list);
        }
        return found;
}

static void find_dropin(struct sv_driver *driver)
{
        char own[PATH_MAX], folder[PATH_MAX + 8];
        ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);

        if (n > 0) {
                own[n] = 0;
                *strrchr(own, '/') = 0;
                (void)snprintf(folder, sizeof(folder), "%s/cuda", own);
                if (load_from(driver, folder) || load_installed(driver, own))
                        return;
        }
        (void)load(driver, DS_LIBCUDA);
}

#define NAME_OF(name) #name
#define SYMBOL(name) NAME_OF(name) /* name with the version suffix that the headers add */

static int resolve(struct sv_driver *driver, struct sv_why *why)
{
        const char *missing = NULL;

        /* POSIX allows a function's address in a void pointer, ISO C does not, so it is copied */
#define X(name)                                                  \
        {                                                        \
                void *p = dlsym(driver->library, SYMBOL(name));  \
                memcpy(&driver->name##_fn, &p, sizeof(p));       \
                missing = p || missing ? missing : SYMBOL(name); \
        }
        SV_DRIVER_FUNCTIONS(X)
#undef X
        return missing ? sv_fail(why, "%s has no %s: it is too old", driver->path, missing) : 0;
}

int sv_driver_load(struct sv_driver *driver, enum sv_which which, struct sv_why *why)
{
        const char *named = getenv("DETSHARE_LIBCUDA");

        *driver = (struct sv_driver){.native = which == SV_DRIVER_NATIVE};
        if (which == SV_DRIVER_FOUND)
                find_any(driver);
        else if (driver->native)
                find_native(driver);
        else
                find_dropin(driver);
        if (driver->library)
                return resolve(driver, why);
        if (which == SV_DRIVER_DETSHARE)
                return sv_fail(why, "DetShare's " DS_LIBCUDA " is not found beside this program");
        return sv_fail(why, "NVIDIA's driver library is not found%s%s",
                driver->native && named && named[0] ? ": DETSHARE_LIBCUDA names " : "",
                driver->native && named ? named : "");
}

/* --- the first calls ---------------------------------------------------------------------------------------------- */

int sv_driver_fail(const struct sv_driver *driver, const char *call, CUresult r, struct sv_why *why)
{
        const char *name = NULL, *text = NULL;

        if (driver->cuGetErrorName_fn(r, &name) != CUDA_SUCCESS)
                name = NULL;
        if (driver->cuGetErrorString_fn(r, &text) != CUDA_SUCCESS)
                text = NULL;
        return sv_fail(why, "%s: %s (%s)", call, name ? name : "an error", text ? text : "of no name");
}

int sv_driver_enter(const struct sv_driver *driver, struct sv_why *why)
{
        return SV_CU(driver, why, cuCtxSetCurrent, driver->context);
}

int sv_driver_begin(struct sv_driver *driver, struct sv_why *why)
{
        CUresult r = driver->cuInit_fn(0);

        if (r == CUDA_ERROR_NO_DEVICE && !driver->native)
                return sv_fail(why, "no device: the DetShare daemon cannot be reached, or has none");
        if (r != CUDA_SUCCESS)
                return sv_driver_fail(driver, "cuInit", r, why);
        if (SV_CU(driver, why, cuDeviceGet, &driver->device, 0) ||
                SV_CU(driver, why, cuDeviceGetName, driver->gpu, (int)sizeof(driver->gpu), driver->device) ||
                SV_CU(driver, why, cuDevicePrimaryCtxRetain, &driver->context, driver->device))
                return -1;
        return sv_driver_enter(driver, why);
}

void sv_driver_close(struct sv_driver *driver)
{
        if (driver->context)
                (void)driver->cuDevicePrimaryCtxRelease_fn(driver->device);
        driver->context = NULL;
}
