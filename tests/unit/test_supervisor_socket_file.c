/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of the listening socket in directories that other users can write
 *
 * The attacker owns the directory or belongs to a group that may write it. Right after bind it replaces the socket by a
 * symbolic or hard link to another user's file, whose mode must not change. To hit this moment always, this program has
 * a bind() of its own that lets the attacker act before it returns. Without root the cases with other users' files are
 * left out.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "supervisor/socket_file.h"
#include "util/macro.h"

#define OTHER 12345 /* a uid and gid without a user */

static char dir[64], sock[128], victim[96];
static void (*attack)(void);
static char message[512];

int bind(int fd, const struct sockaddr *address, socklen_t size)
{
        int r = (int)syscall(SYS_bind, fd, address, size);

        if (attack)
                attack();
        return r;
}

static void setup(void)
{
        int fd;

        signal(SIGPIPE, SIG_IGN);
        snprintf(dir, sizeof(dir), "/tmp/detshare-socket-XXXXXX");
        cr_assert(mkdtemp(dir));
        snprintf(sock, sizeof(sock), "%s/sock", dir);
        snprintf(victim, sizeof(victim), "%s.victim", dir);
        fd = open(victim, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        cr_assert_geq(fd, 0);
        close(fd);
        attack = NULL;
        umask(0022);
}

static unsigned mode_of(const char *path)
{
        struct stat st;

        return stat(path, &st) < 0 ? 0 : st.st_mode & 07777;
}

static void teardown(void)
{
        cr_expect_eq(mode_of(victim), 0600, "the foreign file has mode %o", mode_of(victim));
        cr_expect_eq(umask(0022), 0022);
        unlink(sock);
        unlink(victim);
        rmdir(dir);
}

TestSuite(socket_file, .init = setup, .fini = teardown);

/* Opens the socket at this path and returns the result. After a success it connects to the socket, closes and
 * removes it. */
static int open_at(const char *path)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        struct ds_socket_file file;
        int fd = -1, client, r;

        message[0] = 0;
        r = ds_socket_file_open(&file, path, &fd, message, sizeof(message));
        if (r)
                return r;
        cr_expect_eq(mode_of(path), 0666, "the socket has mode %o", mode_of(path));
        client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
        cr_expect_eq(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
        close(client);
        close(fd);
        ds_socket_file_remove(&file);
        cr_expect_neq(access(path, F_OK), 0);
        return 0;
}

static void expect_refused(const char *part)
{
        cr_expect_eq(open_at(sock), DS_SOCKET_FILE_E_REFUSED);
        cr_expect(strstr(message, part), "'%s' does not say '%s'", message, part);
        cr_expect(strstr(message, dir));
}

Test(socket_file, a_directory_of_ones_own)
{
        cr_expect_eq(open_at(sock), 0, "%s", message);
}

/* /tmp itself: a user who may write there cannot replace others' files. */
Test(socket_file, sticky_directories)
{
        snprintf(sock, sizeof(sock), "%s.sock", dir);
        cr_expect_eq(open_at(sock), 0, "%s", message);
        snprintf(sock, sizeof(sock), "%s/sock", dir);
        cr_assert_eq(chmod(dir, 01777), 0);
        cr_expect_eq(open_at(sock), 0, "%s", message);
        if (geteuid() == 0) {
                cr_assert_eq(chown(dir, OTHER, OTHER), 0);
                expect_refused("belongs to uid 12345");
        } else {
                skip_part("root, for a directory that belongs to another user");
        }
}

Test(socket_file, directories_of_others)
{
        cr_assert_eq(chmod(dir, 0775), 0);
        expect_refused("mode 0775");
        cr_assert_eq(chmod(dir, 0757), 0);
        expect_refused("mode 0757");
        if (geteuid() != 0)
                skip_test("root, for a directory that belongs to another user");
        cr_assert_eq(chmod(dir, 0755), 0);
        cr_assert_eq(chown(dir, OTHER, OTHER), 0);
        expect_refused("belongs to uid 12345 and gid 12345 with mode 0755");
        cr_assert_eq(chown(dir, 0, OTHER), 0);
        cr_expect_eq(open_at(sock), 0, "%s", message);
}

/* The last component of the directory is a link. */
Test(socket_file, linked_directories)
{
        char name[96], path[112];

        snprintf(name, sizeof(name), "%s.link", dir);
        snprintf(path, sizeof(path), "%s/sock", name);
        cr_assert_eq(symlink(dir, name), 0);
        cr_expect_eq(open_at(path), 0, "%s", message);
        if (geteuid() == 0) {
                cr_assert_eq(lchown(name, OTHER, OTHER), 0);
                cr_expect_eq(open_at(path), DS_SOCKET_FILE_E_REFUSED);
                cr_expect(strstr(message, "belongs to uid 12345"), "%s", message);
        } else {
                skip_part("root, for a link that belongs to another user");
        }
        unlink(name);
        snprintf(path, sizeof(path), "%s/sock", victim);
        cr_expect_eq(open_at(path), DS_SOCKET_FILE_E_REFUSED);
        cr_expect(strstr(message, "Not a directory"), "%s", message);
}

/* --- right after bind --------------------------------------------------------------------------------------------- */

static void put_symbolic_link(void)
{
        unlink(sock);
        cr_assert_eq(symlink(victim, sock), 0);
}

static void put_hard_link(void)
{
        unlink(sock);
        cr_assert_eq(link(victim, sock), 0);
}

static void put_nothing(void)
{
        unlink(sock);
}

static void put_own_socket(void)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        unlink(sock);
        memcpy(address.sun_path, sock, strlen(sock) + 1);
        cr_assert_eq(syscall(SYS_bind, fd, &address, sizeof(address)), 0);
        cr_assert_eq(lchown(sock, OTHER, OTHER), 0);
        close(fd);
}

static char moved[96];

static void put_directory(void)
{
        snprintf(moved, sizeof(moved), "%s.moved", dir);
        cr_assert_eq(rename(dir, moved), 0);
        cr_assert_eq(mkdir(dir, 0755), 0);
}

static void expect_replaced(void (*how)(void))
{
        attack = how;
        expect_refused("another process replaced the socket");
        attack = NULL;
        unlink(sock);
}

Test(socket_file, replaced_after_bind)
{
        expect_replaced(put_symbolic_link);
        cr_expect_eq(mode_of(victim), 0600);
        expect_replaced(put_hard_link);
        cr_expect_eq(mode_of(victim), 0600);
        expect_replaced(put_nothing);
        if (geteuid() == 0)
                expect_replaced(put_own_socket);
        else
                skip_part("root, for a socket that belongs to another user");
}

/* At its end the daemon removes neither a file that replaced its socket nor one in another directory. */
Test(socket_file, replaced_before_the_end)
{
        struct ds_socket_file file;
        int fd;

        cr_assert_eq(ds_socket_file_open(&file, sock, &fd, message, sizeof(message)), 0, "%s", message);
        put_symbolic_link();
        ds_socket_file_remove(&file);
        cr_expect_eq(access(sock, F_OK), 0);
        unlink(sock);
        close(fd);
        cr_assert_eq(ds_socket_file_open(&file, sock, &fd, message, sizeof(message)), 0, "%s", message);
        put_directory();
        put_hard_link();
        ds_socket_file_remove(&file);
        cr_expect_eq(access(sock, F_OK), 0);
        close(fd);
        snprintf(sock, sizeof(sock), "%s/sock", moved);
        cr_expect_neq(access(sock, F_OK), 0);
        rmdir(moved);
        snprintf(sock, sizeof(sock), "%s/sock", dir);
}

/* A socket without a listener is replaced; one with a listener, or another file, is not. */
Test(socket_file, existing_files)
{
        struct ds_socket_file file, other;
        int fd, none = -1;

        cr_assert_eq(ds_socket_file_open(&file, sock, &fd, message, sizeof(message)), 0, "%s", message);
        cr_expect_eq(ds_socket_file_open(&other, sock, &none, message, sizeof(message)), DS_SOCKET_FILE_E_REFUSED);
        cr_expect(strstr(message, "another daemon serves"), "%s", message);
        close(fd);
        cr_expect_eq(ds_socket_file_open(&other, sock, &fd, message, sizeof(message)), 0, "%s", message);
        close(fd);
        ds_socket_file_remove(&other);
        ds_socket_file_remove(&file);
        put_symbolic_link();
        expect_refused("is not a socket");
        unlink(sock);
}
