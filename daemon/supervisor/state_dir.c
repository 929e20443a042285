/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"

/* Logs why the directory is not used. what: the lost purpose, like "profiles are"; "not kept" follows it. */
static int refused(const char *path, const char *name, const char *what)
{
        ds_log(DS_LOG_WARNING, "%s%s%s: %s; %s not kept", path, name[0] ? "/" : "", name, strerror(errno), what);
        return -1;
}

static int is_ours(int fd, const char *path, const char *name, const char *what)
{
        struct stat st;

        if (fstat(fd, &st) < 0) {
                refused(path, name, what);
                return 0;
        }
        if ((st.st_uid == 0 || st.st_uid == geteuid()) && !(st.st_mode & (S_IWGRP | S_IWOTH)))
                return 1;
        ds_log(DS_LOG_WARNING, "%s%s%s belongs to uid %u and has mode %03o: others may write it; %s not kept", path,
                name[0] ? "/" : "", name, (unsigned)st.st_uid, (unsigned)st.st_mode & 0777, what);
        return 0;
}

static int directory(int above, const char *path, const char *name, unsigned mode, const char *what)
{
        const char *at = above == AT_FDCWD ? path : name;
        ds_cleanup(ds_closep) int fd = -1;

        if (mkdirat(above, at, mode) < 0 && errno != EEXIST)
                return refused(path, name, what);
        fd = openat(above, at, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (above == AT_FDCWD ? 0 : O_NOFOLLOW));
        if (fd < 0)
                return refused(path, name, what);
        return is_ours(fd, path, name, what) ? DS_TAKE_FD(fd) : -1;
}

int ds_state_directory(const char *path, const char *what)
{
        return directory(AT_FDCWD, path, "", 0700, what);
}

int ds_state_directory_below(int above, const char *path, const char *name, unsigned mode, const char *what)
{
        return directory(above, path, name, mode, what);
}
