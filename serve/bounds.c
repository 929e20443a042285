/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/bounds.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util/alloc.h"
#include "util/macro.h"

struct bound {
        char kernel[SV_NAME_MAX + 1];
        uint64_t grid[3];
        bool memory;
};

static int load(const char *path, char **ret, struct sv_why *why)
{
        FILE *file = fopen(path, "re");
        ds_cleanup(ds_freep) char *text = NULL;
        size_t n = 0, room = 0;

        if (!file)
                return sv_fail(why, "%s: %s", path, strerror(errno));
        while (!feof(file) && !ferror(file) && n < SV_BOUNDS_MAX) {
                if (n + 1 >= room) {
                        char *more = ds_realloc(text, room = room ? 2 * room : 65536, 1);

                        if (!more)
                                break;
                        text = more;
                }
                n += fread(text + n, 1, room - n - 1, file);
        }
        if (!text || ferror(file) || !feof(file)) {
                (void)fclose(file);
                return sv_fail(why, "%s cannot be read as a whole", path);
        }
        (void)fclose(file);
        text[n] = 0;
        *ret = DS_TAKE_PTR(text);
        return 0;
}

/* Text behind the colon of `key` between at and end; NULL: there is no such key. */
static const char *value_of(const char *at, const char *end, const char *key)
{
        char quoted[32];
        const char *found;

        (void)snprintf(quoted, sizeof(quoted), "\"%s\":", key);
        found = strstr(at, quoted);
        if (!found || found >= end)
                return NULL;
        found += strlen(quoted);
        return found + strspn(found, " \n");
}

/* Reads one object of the list; it ends at its brace, because it contains no other object. */
static bool read_bound(const char *at, const char *end, struct bound *ret)
{
        static const char *const keys[] = {"grid_x", "grid_y", "grid_z"};
        const char *kernel = value_of(at, end, "kernel"), *bound = value_of(at, end, "bound");

        if (!kernel || !bound || sscanf(kernel, "\"%128[A-Za-z0-9_.-]\"", ret->kernel) != 1)
                return false;
        for (int i = 0; i < 3; i++) {
                const char *grid = value_of(at, end, keys[i]);

                if (!grid || sscanf(grid, "%" SCNu64, &ret->grid[i]) != 1)
                        return false;
        }
        ret->memory = !strncmp(bound, "\"memory\"", 8);
        return true;
}

static uint32_t apply(const struct sv_pack *pack, const struct bound *bound, bool *ret)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < pack->n_launches; i++) {
                const struct sv_launch *launch = &pack->launches[i];

                if (strcmp(pack->kernels[launch->kernel].name, bound->kernel) != 0 ||
                        launch->grid[0] != bound->grid[0] || launch->grid[1] != bound->grid[1] ||
                        launch->grid[2] != bound->grid[2])
                        continue;
                ret[i] = bound->memory;
                n++;
        }
        return n;
}

int sv_bounds_read(const struct sv_pack *pack, const char *path, bool *ret, struct sv_why *why)
{
        ds_cleanup(ds_freep) char *text = NULL;
        struct bound bound;
        uint32_t known = 0;
        const char *at;

        memset(ret, !strcmp(path, SV_BOUNDS_ALL), pack->n_launches * sizeof(*ret));
        if (!strcmp(path, SV_BOUNDS_ALL))
                return 0;
        if (load(path, &text, why))
                return -1;
        at = strstr(text, "\"bounds\"");
        for (at = at ? strchr(at, '{') : NULL; at; at = strchr(at, '{')) {
                const char *end = strchr(at, '}');

                if (!end)
                        break;
                if (read_bound(at, end, &bound))
                        known += apply(pack, &bound, ret);
                at = end;
        }
        if (!known)
                return sv_fail(why,
                        "%s says of no kernel of %s what bounds it: it is what detsharectl profile PACK --json prints",
                        path, pack->path ? pack->path : pack->model);
        return 0;
}
