/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reload without memory: every allocation fails once, including those of libc functions that it calls
 *
 * After each failure one of two configurations is in force as a whole: users' limits, administrators, the worker's
 * times and policy. If the old one is, the next reload installs the new one. The fake worker logs the limits that it
 * receives.
 */
#include <dirent.h>
#include <grp.h>
#include <pwd.h>

#include "tests/unit/oom_fixture.h"

#define N_MAX 400
#define ADMIN_GID 4242
#define ADMIN_UID 4003
#define CALLER "detshare-caller"

struct passwd *__real_getpwnam(const char *name);
struct passwd *__wrap_getpwnam(const char *name);
FILE *__real_fdopen(int fd, const char *mode);
FILE *__wrap_fdopen(int fd, const char *mode);
typedef int filter(const struct dirent *entry);
typedef int order(const struct dirent **a, const struct dirent **b);
int __real_scandirat(int fd, const char *name, struct dirent ***ret, filter *which, order *by);
int __wrap_scandirat(int fd, const char *name, struct dirent ***ret, filter *which, order *by);

static int no_memory(void)
{
        if (!fa_fails())
                return 0;
        errno = ENOMEM;
        return 1;
}

/* Pretends that the caller has this name: in a container it may have only a number. */
struct passwd *__wrap_getpwnam(const char *name)
{
        static struct passwd caller = {.pw_name = (char *)CALLER};

        caller.pw_uid = geteuid();
        caller.pw_gid = getegid();
        if (no_memory())
                return NULL;
        return strcmp(name, CALLER) ? __real_getpwnam(name) : &caller;
}

FILE *__wrap_fdopen(int fd, const char *mode)
{
        return no_memory() ? NULL : __real_fdopen(fd, mode);
}

int __wrap_scandirat(int fd, const char *name, struct dirent ***ret, filter *which, order *by)
{
        const int n = no_memory() ? -1 : __real_scandirat(fd, name, ret, which, by);

        if (n >= 0 && fa_counts())
                atomic_fetch_add(&fa->live, n + 1); /* counts the entries that scandir's caller must free */
        return n;
}

/* Pretends that the group of administrators exists. */
struct group *getgrnam(const char *name)
{
        static struct group admin = {.gr_name = (char *)"detshare-admin", .gr_gid = ADMIN_GID};

        return no_memory() || strcmp(name, admin.gr_name) ? NULL : &admin;
}

/* --- two configurations ------------------------------------------------------------------------------------------- */

static void put(const struct fixture *f, const char *name, const char *text)
{
        char path[128];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", f->dir, name);
        file = fopen(path, "w");
        cr_assert_not_null(file, "%s: %s", path, strerror(errno));
        fputs(text, file);
        fclose(file);
}

static void put_configuration(const struct fixture *f, int second)
{
        char text[400];

        snprintf(text, sizeof(text),
                "[daemon]\npolicy=%s\n[limits]\norphan_seconds=%d\n[class]\nls_uids=%s\n[user %s]\nsessions=%d\n"
                "[group detshare-admin]\nmemory=none\n",
                second ? "clever" : "fifo", second ? 30 : 20, CALLER, CALLER, second ? 2 : 1);
        put(f, "x.conf", text);
        put(f, "conf.d/1.conf",
                second ? "[limits]\nkernel_seconds=40\n[policy clever]\na=1\nb=2\n"
                       : "[limits]\nkernel_seconds=50\n[policy fifo]\nc=3\n");
}

static void begin(struct fixture *f, char *path, size_t size)
{
        char directory[128];

        fx_init(f);
        cr_assert_eq(chmod(f->dir, 0755), 0);
        snprintf(directory, sizeof(directory), "%s/conf.d", f->dir);
        cr_assert_eq(mkdir(directory, 0755), 0);
        snprintf(path, size, "%s/x.conf", f->dir);
        f->options.config_path = path;
        put_configuration(f, 0);
        setenv("FAKE_WORKER", "arguments", 1);
        fa_share();
        oom_fork(f);
        fx_wait_serving(f, 0);
}

static void end(struct fixture *f, const char *path)
{
        char name[128];

        unlink(path);
        snprintf(name, sizeof(name), "%s/conf.d/1.conf", f->dir);
        unlink(name);
        snprintf(name, sizeof(name), "%s/conf.d", f->dir);
        rmdir(name);
        fx_stop(f);
}

/* --- the configuration in force ----------------------------------------------------------------------------------- */

/* Whether a member of the group is an administrator. */
static int is_admin(struct fixture *f)
{
        FX_REQUEST(kill, KILL, Kill, KILL);
        const gid_t group = ADMIN_GID;
        ds_conn *conn;
        int status;
        pid_t pid;

        if (geteuid() != 0)
                return 1;
        fflush(NULL);
        pid = fork();
        if (pid == 0) {
                if (setgroups(1, &group) < 0 || setresgid(ADMIN_UID, ADMIN_UID, ADMIN_UID) < 0 ||
                        setresuid(ADMIN_UID, ADMIN_UID, ADMIN_UID) < 0)
                        _exit(2);
                conn = fx_hello(f, 1, DETSHARE__CLASS__BE, NULL, NULL);
                if (!conn)
                        _exit(2);
                kill.session = 123456;
                fx_ask(conn, &kill_r, NULL);
                _exit(fx_status(conn) == DETSHARE__STATUS__NO_SUCH ? 0 : 1);
        }
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Number of sessions that the user may open, at most two. */
static int sessions(struct fixture *f)
{
        ds_conn *first = fx_session(f), *second = fx_hello(f, 0, DETSHARE__CLASS__BE, NULL, NULL);
        const int n = second ? 2 : 1;

        ds_conn_free(first);
        ds_conn_free(second);
        fx_baseline(f);
        return n;
}

/* Whether the worker has received these limits and this policy since the last call, or will receive them at its
 * start. */
static int told(struct fixture *f, const char *limits, const char *policy)
{
        char log[4000];

        fx_read_log(f, log, sizeof(log));
        cr_assert_eq(truncate(f->log, 0), 0);
        if (strstr(log, "start "))
                return 2;
        cr_assert_eq(strstr(log, limits) != NULL, strstr(log, policy) != NULL, "half of it: %s", log);
        return strstr(log, limits) != NULL;
}

static int second_is_told(struct fixture *f)
{
        return told(f, "limits 30000 40000 ", "policy clever params=2");
}

static void reload(struct fixture *f, int second)
{
        put_configuration(f, second);
        cr_assert_eq(truncate(f->log, 0), 0);
        kill(f->pid, SIGHUP);
        /* until both lines are in the log, or the second one is overdue */
        for (const uint64_t deadline = fx_now_ms() + FX_WAIT_MS;;) {
                char log[4000];

                fx_read_log(f, log, sizeof(log));
                if (strstr(log, second ? "limits 30000 40000 " : "limits 20000 50000 ") &&
                        strstr(log, second ? "policy clever params=2" : "policy fifo params=1"))
                        break;
                cr_assert_lt(fx_now_ms(), deadline, "the reload does not come: %s", log);
                usleep(500);
        }
        cr_assert_eq(sessions(f), second ? 2 : 1);
        cr_assert(is_admin(f));
        cr_assert_eq(truncate(f->log, 0), 0);
}

/* --- the sweep ---------------------------------------------------------------------------------------------------- */

/* Reloads while the n-th allocation fails. Returns 0: no allocation failed; 1: the old configuration stays; 2: the
 * new one is in force; 3: the new one is in force with a new worker. */
static int reload_without(struct fixture *f, int64_t n)
{
        const uint64_t deadline = fx_now_ms() + FX_WAIT_MS;
        const uint32_t pid = fx_wait_serving(f, 0);
        char log[4000];
        int fired, new;

        put_configuration(f, 1);
        cr_assert_eq(truncate(f->log, 0), 0);
        fa_arm(n);
        kill(f->pid, SIGHUP);
        do {
                usleep(200);
                fx_read_log(f, log, sizeof(log));
                cr_assert_lt(fx_now_ms(), deadline, "allocation %d", (int)n);
        } while (atomic_load(&fa->left) >= 0 && !strstr(log, "limits "));
        fired = fa_disarm();
        /* requests from now on are answered after the reload, by a worker that has received the limits */
        if (fx_wait_serving(f, 0) != pid || fx_ended(f)) {
                cr_assert_eq(sessions(f), 2);
                return 3;
        }
        new = sessions(f) == 2;
        fx_read_log(f, log, sizeof(log));
        cr_assert_eq(second_is_told(f), new, "allocation %d: half of it: %d %s", (int)n, new, log);
        cr_assert(is_admin(f), "allocation %d: who administers is forgotten", (int)n);
        return !fired ? 0 : new ? 2 : 1;
}

Test(oom_reload, all_or_nothing, .timeout = 120)
{
        struct fixture f;
        char path[128];
        int64_t n;
        int ends[4] = {0}, r = 1;

        begin(&f, path, sizeof(path));
        reload(&f, 0);
        for (n = 1; n < N_MAX && r; n++) {
                r = reload_without(&f, n);
                ends[r]++;
                if (r == 1)
                        reload(&f, 1);
                reload(&f, 0);
        }
        fprintf(stderr,
                "reload: %d allocations, each failed once; the old configuration stayed %d times, the new one "
                "counted %d times, for another worker %d times\n",
                (int)n - 2, ends[1], ends[2], ends[3]);
        cr_assert(ends[1] > 10 && n < N_MAX);
        end(&f, path);
}
