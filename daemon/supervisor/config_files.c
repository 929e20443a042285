/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the configuration files and checks who may write to them; see config.h
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/config.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define DIRECTORY "conf.d"
#define SUFFIX ".conf"

/* Whether a daemon that runs as root may trust the file: returns NULL, or the reason why not. */
static const char *why_not(const struct stat *st)
{
        if (geteuid() != 0)
                return NULL;
        if (st->st_uid != 0)
                return "root must own it, because the daemon runs as root";
        if ((st->st_mode & S_IWOTH) || ((st->st_mode & S_IWGRP) && st->st_gid != 0))
                return "nobody but root may be able to write it, because the daemon runs as root";
        return NULL;
}

/* Opens a file and checks who may write to it. Opens without blocking, because the path may name a FIFO. */
static int open_checked(const char *path, int directory, int *ret_fd, char *message, size_t message_size)
{
        ds_cleanup(ds_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        const char *why;
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0) {
                snprintf(message, message_size, "%s: %s", path, strerror(errno));
                return DS_CONFIG_E_INVALID;
        }
        if (directory ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode)) {
                snprintf(message, message_size, "%s: it is %s", path,
                        directory             ? "not a directory"
                        : S_ISDIR(st.st_mode) ? "a directory"
                                              : "not a regular file");
                return DS_CONFIG_E_INVALID;
        }
        why = why_not(&st);
        if (why) {
                snprintf(message, message_size, "%s: %s", path, why);
                return DS_CONFIG_E_INVALID;
        }
        *ret_fd = DS_TAKE_FD(fd);
        return 0;
}

static int note_read(struct ds_config *config, const char *path)
{
        const char *before = config->read ? config->read : "";
        const size_t size = strlen(before) + strlen(path) + sizeof(", ");
        char *paths = ds_alloc0(1, size);

        if (!paths)
                return ds_error_origin(-ENOMEM);
        snprintf(paths, size, "%s%s%s", before, config->read ? ", " : "", path);
        ds_free(config->read);
        config->read = paths;
        return 0;
}

int ds_config_load(const char *path, struct ds_config *config, char *message, size_t message_size)
{
        FILE *stream;
        int fd, r;

        r = open_checked(path, 0, &fd, message, message_size);
        if (r)
                return r;
        stream = fdopen(fd, "r");
        if (!stream) {
                ds_close(fd);
                message[0] = 0;
                return -ENOMEM;
        }
        r = ds_config_read(stream, path, config, message, message_size);
        if (!r && ferror(stream)) {
                snprintf(message, message_size, "%s: reading it failed", path);
                r = DS_CONFIG_E_INVALID;
        }
        fclose(stream);
        return r ? r : note_read(config, path);
}

/* --- conf.d ------------------------------------------------------------------------------------------------------- */

static int is_config(const struct dirent *entry)
{
        size_t n = strlen(entry->d_name);

        return entry->d_name[0] != '.' && n > strlen(SUFFIX) && !strcmp(entry->d_name + n - strlen(SUFFIX), SUFFIX);
}

/* Compares names by byte values, so that the order is the same in every locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
        return strcmp((*a)->d_name, (*b)->d_name);
}

static int load_entries(const char *directory, struct dirent **entries, size_t n, struct ds_config *config,
        char *message, size_t message_size)
{
        char path[PATH_MAX];
        int r;

        if (n > DS_CONFIG_FILES_MAX) {
                snprintf(message, message_size, "%s: it has %zu files *.conf; at most %u are accepted", directory, n,
                        DS_CONFIG_FILES_MAX);
                return DS_CONFIG_E_INVALID;
        }
        for (size_t i = 0; i < n; i++) {
                if (snprintf(path, sizeof(path), "%s/%s", directory, entries[i]->d_name) >= (int)sizeof(path)) {
                        snprintf(message, message_size, "%s: its path is longer than %u bytes, the most accepted",
                                entries[i]->d_name, PATH_MAX - 1u);
                        return DS_CONFIG_E_INVALID;
                }
                r = ds_config_load(path, config, message, message_size);
                if (r)
                        return r;
        }
        return 0;
}

static int load_directory(const char *directory, struct ds_config *config, char *message, size_t message_size)
{
        ds_cleanup(ds_closep) int fd = -1;
        struct dirent **entries;
        int n, r;

        if (access(directory, F_OK) < 0 && errno == ENOENT)
                return 0;
        r = open_checked(directory, 1, &fd, message, message_size);
        if (r)
                return r;
        n = scandirat(fd, ".", &entries, is_config, by_name);
        if (n < 0) {
                snprintf(message, message_size, "%s: %s", directory, strerror(errno));
                return DS_CONFIG_E_INVALID;
        }
        r = load_entries(directory, entries, (size_t)n, config, message, message_size);
        for (int i = 0; i < n; i++)
                free(entries[i]);
        free(entries);
        return r;
}

int ds_config_load_all(const char *path, int must_exist, struct ds_config *config, char *message, size_t message_size)
{
        char directory[PATH_MAX];
        const char *slash = strrchr(path, '/');
        int r;

        message[0] = 0;
        if (must_exist || access(path, F_OK) == 0 || errno != ENOENT) {
                r = ds_config_load(path, config, message, message_size);
                if (r)
                        return r;
        }
        if (snprintf(directory, sizeof(directory), "%.*s%s" DIRECTORY, slash ? (int)(slash - path) : 0, path,
                    slash ? "/" : "") >= (int)sizeof(directory)) {
                snprintf(message, message_size, "%s: its path is longer than %u bytes, the most accepted", path,
                        PATH_MAX - 1u);
                return DS_CONFIG_E_INVALID;
        }
        return load_directory(directory, config, message, message_size);
}
