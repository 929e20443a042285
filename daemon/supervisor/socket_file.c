/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/socket_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"

#define BACKLOG 1024
#define MODE 0666 /* all users may connect; the rules decide what each user may do */

/* Whether a file with this owner may be trusted: root's or the daemon's own. */
static int is_ours(uid_t uid)
{
        return uid == 0 || uid == geteuid();
}

/* --- the directory ------------------------------------------------------------------------------------------------ */

/* The part of path before its last slash. */
static void directory_of(const char *path, char directory[sizeof(((struct sockaddr_un *)0)->sun_path)])
{
        const char *slash = strrchr(path, '/');
        size_t length = slash ? (size_t)(slash - path) : 0;

        if (!slash)
                strcpy(directory, ".");
        else if (!length)
                strcpy(directory, "/");
        else
                snprintf(directory, sizeof(((struct sockaddr_un *)0)->sun_path), "%.*s", (int)length, path);
}

static int refuse_path(const char *path, int error, char *message, size_t message_size)
{
        snprintf(message, message_size, "cannot listen at %s: %s", path, strerror(error));
        return DS_SOCKET_FILE_E_REFUSED;
}

static int refuse_directory(const char *directory, const struct stat *st, char *message, size_t message_size)
{
        snprintf(message, message_size,
                "the socket's directory %s can be written by others: it belongs to uid %u and gid %u with mode %04o; "
                "use a directory that belongs to root or uid %u and that no one else may write, such as /run/detshare, "
                "or one of root with the sticky bit, such as /tmp",
                directory, (unsigned)st->st_uid, (unsigned)st->st_gid, (unsigned)st->st_mode & 07777,
                (unsigned)geteuid());
        return DS_SOCKET_FILE_E_REFUSED;
}

static int is_safe(const struct stat *st)
{
        return is_ours(st->st_uid) && (!(st->st_mode & 0022) || st->st_mode & S_ISVTX);
}

/* Opens the directory. A symbolic link to it may belong to root or the daemon's user, but to nobody else. */
static int open_directory(const char *path, int *ret_fd, char *message, size_t message_size)
{
        char directory[sizeof(((struct sockaddr_un *)0)->sun_path)];
        ds_cleanup(ds_closep) int fd = -1;
        struct stat st;

        directory_of(path, directory);
        if (geteuid() == 0)
                /* creates only the last directory, "/run/detshare"; the following open() finds other errors */
                mkdir(directory, 0755);
        fd = open(directory, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return refuse_path(path, errno, message, message_size);
        if (fstat(fd, &st) < 0)
                return ds_error_origin(-errno);
        if (S_ISLNK(st.st_mode) && is_ours(st.st_uid)) {
                fd = ds_close(fd);
                fd = open(directory, O_PATH | O_CLOEXEC);
                if (fd < 0)
                        return refuse_path(path, errno, message, message_size);
                if (fstat(fd, &st) < 0)
                        return ds_error_origin(-errno);
        }
        if (!S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode))
                return refuse_path(path, ENOTDIR, message, message_size);
        if (!S_ISDIR(st.st_mode) || !is_safe(&st))
                return refuse_directory(directory, &st, message, message_size);
        *ret_fd = DS_TAKE_FD(fd);
        return 0;
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

/* Removes a socket file that has no listener. Returns 0 if the name is free. */
static int clear_stale(
        const struct ds_socket_file *file, const struct sockaddr_un *address, char *message, size_t message_size)
{
        ds_cleanup(ds_closep) int fd = -1;
        struct stat st;

        if (fstatat(file->directory, file->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return 0; /* any error is reported by the following bind() */
        if (!S_ISSOCK(st.st_mode)) {
                snprintf(message, message_size, "%s exists and is not a socket", address->sun_path);
                return DS_SOCKET_FILE_E_REFUSED;
        }
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return ds_error_origin(-errno);
        if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno != ECONNREFUSED) {
                snprintf(message, message_size, "another daemon serves %s already (uid %u)", address->sun_path,
                        (unsigned)st.st_uid);
                return DS_SOCKET_FILE_E_REFUSED;
        }
        unlinkat(file->directory, file->name, 0);
        return 0;
}

/* Creates the socket file with its final mode: a later chmod() could be redirected to another file. */
static int bind_with_mode(int fd, const struct sockaddr_un *address)
{
        const mode_t before = umask(0777 & ~MODE);
        int r = bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? errno : 0;

        umask(before);
        return r;
}

/* Checks that the file is a socket of this user, so that neither it nor the directory was replaced meanwhile. */
static int look_at(struct ds_socket_file *file, const char *path, char *message, size_t message_size)
{
        struct stat st;

        if (fstatat(file->directory, file->name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(st.st_mode) ||
                st.st_uid != geteuid()) {
                snprintf(message, message_size,
                        "cannot listen at %s: another process replaced the socket while it was created", path);
                return DS_SOCKET_FILE_E_REFUSED;
        }
        if ((st.st_mode & 0777) != MODE)
                ds_log(DS_LOG_WARNING,
                        "%s has mode %04o instead of %04o: an access control list of its directory excludes users",
                        path, (unsigned)st.st_mode & 0777, (unsigned)MODE);
        file->dev = st.st_dev;
        file->ino = st.st_ino;
        return 0;
}

static int make_socket(
        struct ds_socket_file *file, const struct sockaddr_un *address, int *ret_fd, char *message, size_t message_size)
{
        ds_cleanup(ds_closep) int fd = -1;
        int r;

        r = clear_stale(file, address, message, message_size);
        if (r)
                return ds_error_trace(r);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return ds_error_origin(-errno);
        r = bind_with_mode(fd, address);
        if (r)
                return refuse_path(address->sun_path, r, message, message_size);
        r = look_at(file, address->sun_path, message, message_size);
        if (r)
                return r;
        if (listen(fd, BACKLOG) < 0)
                return ds_error_origin(-errno);
        *ret_fd = DS_TAKE_FD(fd);
        return 0;
}

int ds_socket_file_open(struct ds_socket_file *file, const char *path, int *ret_fd, char *message, size_t message_size)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        const char *slash = strrchr(path, '/');
        int r;

        if (strlen(path) >= sizeof(address.sun_path)) {
                snprintf(message, message_size, "the socket path has %zu characters, at most %zu are accepted: %s",
                        strlen(path), sizeof(address.sun_path) - 1, path);
                return DS_SOCKET_FILE_E_REFUSED;
        }
        if (!path[0]) {
                snprintf(message, message_size, "the socket path is empty");
                return DS_SOCKET_FILE_E_REFUSED;
        }
        memcpy(address.sun_path, path, strlen(path));
        *file = (struct ds_socket_file){.directory = -1};
        snprintf(file->name, sizeof(file->name), "%s", slash ? slash + 1 : path);
        r = open_directory(path, &file->directory, message, message_size);
        if (!r)
                r = make_socket(file, &address, ret_fd, message, message_size);
        if (r)
                file->directory = ds_close(file->directory);
        return r < 0 ? ds_error_trace(r) : r;
}

void ds_socket_file_remove(struct ds_socket_file *file)
{
        struct stat st;

        if (file->directory < 0)
                return;
        if (fstatat(file->directory, file->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == file->dev &&
                st.st_ino == file->ino)
                unlinkat(file->directory, file->name, 0);
        file->directory = ds_close(file->directory);
}
