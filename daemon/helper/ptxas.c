/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/ptxas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "util/macro.h"

static int ptxas_is(const char *path)
{
        struct stat st;

        return path[0] == '/' && stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static int ptxas_in(const char *directory, size_t length, const char *below, struct ds_ptxas *ret)
{
        int n = snprintf(ret->path, sizeof(ret->path), "%.*s%s/ptxas", (int)length, directory, below);

        return n > 0 && (size_t)n < sizeof(ret->path) && ptxas_is(ret->path);
}

static int ptxas_in_path(struct ds_ptxas *ret)
{
        const char *path = getenv("PATH"), *end;

        for (; path && *path; path = *end ? end + 1 : end) {
                end = strchrnul(path, ':');
                if (end - path < PATH_MAX && ptxas_in(path, (size_t)(end - path), "", ret))
                        return 1;
        }
        return 0;
}

void ds_ptxas_find(const char *configured, struct ds_ptxas *ret)
{
        const char *home = getenv("CUDA_HOME"), *usual = "/usr/local/cuda";

        ret->missing[0] = 0;
        if (configured) {
                snprintf(ret->path, sizeof(ret->path), "%s", configured);
                if (ptxas_is(ret->path))
                        return;
                snprintf(ret->missing, sizeof(ret->missing),
                        "no ptxas: '%s' of the configuration is not a program that uid %u may execute", ret->path,
                        (unsigned)geteuid());
        } else {
                if (home && strlen(home) < PATH_MAX && ptxas_in(home, strlen(home), "/bin", ret))
                        return;
                if (ptxas_in(usual, strlen(usual), "/bin", ret) || ptxas_in_path(ret))
                        return;
                snprintf(ret->missing, sizeof(ret->missing),
                        "no ptxas: PTX cannot be compiled for a GPU; one that uid %u may execute is looked for in "
                        "$CUDA_HOME/bin, /usr/local/cuda/bin and $PATH of the daemon",
                        (unsigned)geteuid());
        }
        ret->path[0] = 0;
}

uint64_t ds_ptxas_identity(const struct ds_ptxas *ptxas, uint64_t *ret_lasting)
{
        struct stat st = {};
        uint64_t facts[5];

        *ret_lasting = 0;
        if (stat(ptxas->path, &st) < 0)
                return 0;
        facts[0] = (uint64_t)st.st_size;
        facts[1] = (uint64_t)st.st_mtim.tv_sec;
        facts[2] = (uint64_t)st.st_mtim.tv_nsec;
        facts[3] = st.st_dev;
        facts[4] = st.st_ino;
        /* the lasting identity lacks st_dev, which may change at every boot, and the inode */
        *ret_lasting = XXH3_64bits(facts, 3 * sizeof(*facts)) ^ XXH3_64bits(ptxas->path, strlen(ptxas->path));
        return XXH3_64bits(facts, sizeof(facts));
}
