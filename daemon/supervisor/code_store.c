/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/code_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "supervisor/state_dir.h"
#include "util/alloc.h"
#include "util/code_file.h"
#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"
#include "util/thread.h"

#define DIRECTORY "code"
#define LOCK "lock"
#define WHAT "compiled code is"
#define NOTES_MAX 64u /* most queued jobs for the thread; further ones are dropped */
/* a file larger than max_bytes / LARGE_PART is not kept, because it would evict most other files */
#define LARGE_PART 4
#define END_SECONDS 2

#define OWNER_NAME_MAX 11 /* decimal digits of a uid, and NUL */

/* A user that has files in the store, and its list of files. */
struct owner {
        TAILQ_ENTRY(owner) link;
        uid_t uid;
        uint64_t n_rows, bytes;
};

TAILQ_HEAD(owner_list, owner);

/* One file in the store. */
struct row {
        TAILQ_ENTRY(row) link;
        struct owner *owner;
        uint8_t key[DS_SHA256_BYTES];
        uint64_t bytes;
        int64_t used_ns; /* last use, which is stored as the file's modification time */
};

TAILQ_HEAD(row_list, row);

/* A job for the thread. fd -1: record a use of the file; otherwise: write the content of fd to the file. */
struct note {
        uid_t uid;
        uint8_t key[DS_SHA256_BYTES];
        uint64_t bytes;
        int fd;
};

struct ds_code_store {
        int directory, lock_fd;
        pthread_t thread;
        int running;
        uint64_t max_bytes;
        /* fields that only the thread uses */
        struct row_list rows; /* all files, most recently used first */
        struct owner_list owners;
        uint64_t n_rows, bytes;
        /* fields that loop and thread use, protected by the lock */
        pthread_mutex_t lock;
        pthread_cond_t wake;
        struct note notes[NOTES_MAX];
        unsigned first, n_notes;
        int stop;
        struct ds_code_figures figures;
};

/* --- the directory ------------------------------------------------------------------------------------------------ */

/* Opens the directory of the store. Returns 0, or -1: there is no usable directory, and the reason is logged. */
static int store_open(ds_code_store *store, const char *path)
{
        ds_cleanup(ds_closep) int above = ds_state_directory(path, WHAT);

        if (above < 0)
                return -1;
        /* a helper holds a descriptor of its user's subdirectory; this mode stops it from reaching other users'
         * subdirectories */
        store->directory = ds_state_directory_below(above, path, DIRECTORY, 0700, WHAT);
        if (store->directory < 0)
                return -1;
        /* corrects the mode that an older daemon set; on a directory that belongs to root this fails, and is not
         * necessary */
        (void)fchmod(store->directory, 0700);
        store->lock_fd = openat(above, LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (store->lock_fd < 0 || flock(store->lock_fd, LOCK_EX | LOCK_NB) < 0) {
                ds_log(DS_LOG_INFO, "%s is used read-only: %s", path,
                        store->lock_fd < 0 ? strerror(errno) : "another daemon writes there");
                store->lock_fd = ds_close(store->lock_fd);
        }
        return 0;
}

/* Writes the name of the user's directory: the uid in decimal digits. */
static void owner_name(uid_t uid, char ret[static OWNER_NAME_MAX])
{
        snprintf(ret, OWNER_NAME_MAX, "%u", (unsigned)uid);
}

/* Whether the name is that of a user's directory; *ret_uid: that user. */
static int owner_is_name(const char *name, uid_t *ret_uid)
{
        char again[OWNER_NAME_MAX];

        *ret_uid = (uid_t)strtoul(name, NULL, 10);
        owner_name(*ret_uid, again);
        return !strcmp(name, again);
}

static int owner_open(const ds_code_store *store, uid_t uid)
{
        char name[OWNER_NAME_MAX];

        owner_name(uid, name);
        return openat(store->directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* --- users (thread only) ------------------------------------------------------------------------------------------ */

/* Finds or creates the user. Allocates with the C library's malloc(), because the daemon's allocator belongs to the
 * loop's thread. */
static struct owner *owner_get(ds_code_store *store, uid_t uid)
{
        struct owner *owner;

        TAILQ_FOREACH(owner, &store->owners, link)
        {
                if (owner->uid == uid)
                        return owner;
        }
        owner = calloc(1, sizeof(*owner));
        if (!owner)
                return NULL;
        owner->uid = uid;
        TAILQ_INSERT_HEAD(&store->owners, owner, link);
        return owner;
}

/* Removes a user without files from the list, and with remove also its directory. A helper that has that directory
 * open gets later results from memory. */
static void owner_put(ds_code_store *store, struct owner *owner, int remove)
{
        char name[OWNER_NAME_MAX];

        if (owner->n_rows)
                return;
        owner_name(owner->uid, name);
        if (remove)
                (void)unlinkat(store->directory, name, AT_REMOVEDIR);
        TAILQ_REMOVE(&store->owners, owner, link);
        free(owner);
}

/* The user that holds most of the resource whose limit is exceeded (bytes, else files). */
static struct owner *owner_most(ds_code_store *store)
{
        const int by_bytes = store->bytes > store->max_bytes;
        struct owner *most = TAILQ_FIRST(&store->owners), *owner;

        TAILQ_FOREACH(owner, &store->owners, link)
        {
                if (by_bytes ? owner->bytes > most->bytes : owner->n_rows > most->n_rows)
                        most = owner;
        }
        return most;
}

/* --- rows (thread only) ------------------------------------------------------------------------------------------- */

static void row_insert(ds_code_store *store, struct row *row)
{
        struct row *other;

        TAILQ_FOREACH(other, &store->rows, link)
        {
                if (other->used_ns <= row->used_ns)
                        break;
        }
        if (other)
                TAILQ_INSERT_BEFORE(other, row, link);
        else
                TAILQ_INSERT_TAIL(&store->rows, row, link);
        store->n_rows++;
        store->bytes += row->bytes;
        row->owner->n_rows++;
        row->owner->bytes += row->bytes;
}

static struct row *row_find(ds_code_store *store, uid_t uid, const uint8_t *key)
{
        struct row *row;

        TAILQ_FOREACH(row, &store->rows, link)
        {
                if (row->owner->uid == uid && !memcmp(row->key, key, DS_SHA256_BYTES))
                        return row;
        }
        return NULL;
}

/* Removes a row. Its user stays in the list, even without rows. */
static void row_drop(ds_code_store *store, struct row *row)
{
        TAILQ_REMOVE(&store->rows, row, link);
        store->n_rows--;
        store->bytes -= row->bytes;
        row->owner->n_rows--;
        row->owner->bytes -= row->bytes;
        free(row);
}

static void row_delete(ds_code_store *store, struct row *row)
{
        ds_cleanup(ds_closep) int directory = owner_open(store, row->owner->uid);
        struct owner *owner = row->owner;
        char name[DS_CODE_NAME_MAX];

        ds_code_file_name(row->key, name);
        if (directory >= 0)
                (void)unlinkat(directory, name, 0);
        row_drop(store, row);
        owner_put(store, owner, 1);
}

static void rows_trim(ds_code_store *store)
{
        while (store->n_rows && (store->bytes > store->max_bytes || store->n_rows > DS_CODE_STORE_FILES)) {
                const struct owner *most = owner_most(store);
                struct row *row = TAILQ_LAST(&store->rows, row_list);

                while (row->owner != most)
                        row = TAILQ_PREV(row, row_list, link);
                row_delete(store, row);
        }
}

static int64_t now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_REALTIME, &t);
        return (int64_t)t.tv_sec * (int64_t)DS_NS_PER_S + t.tv_nsec;
}

static void row_add(ds_code_store *store, uid_t uid, const uint8_t *key, uint64_t bytes, int64_t used_ns)
{
        struct row *row = row_find(store, uid, key);
        struct owner *owner;

        if (row)
                row_drop(store, row);
        owner = owner_get(store, uid);
        row = owner ? calloc(1, sizeof(*row)) : NULL;
        /* without memory, the file is not listed until the next start of the daemon; the owner stays, since the
         * caller may use it */
        if (!row)
                return;
        row->owner = owner;
        memcpy(row->key, key, DS_SHA256_BYTES);
        row->bytes = bytes;
        row->used_ns = used_ns;
        row_insert(store, row);
}

static void name_key(const char *name, uint8_t key[static DS_SHA256_BYTES])
{
        for (size_t i = 0; i < DS_SHA256_BYTES; i++) {
                const char digits[3] = {name[2 * i], name[2 * i + 1], 0};

                key[i] = (uint8_t)strtoul(digits, NULL, 16);
        }
}

static void scan_file(ds_code_store *store, int directory, uid_t uid, const char *name)
{
        uint8_t key[DS_SHA256_BYTES];
        struct stat st;

        if (!strncmp(name, "new.", 4) && ds_code_file_is_name(name + 4)) {
                (void)unlinkat(directory, name, 0); /* left unfinished by an earlier daemon */
                return;
        }
        if (!ds_code_file_is_name(name) || fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return;
        name_key(name, key);
        row_add(store, uid, key, (uint64_t)st.st_size,
                (int64_t)st.st_mtim.tv_sec * (int64_t)DS_NS_PER_S + st.st_mtim.tv_nsec);
}

/* Opens a stream of the directory's entries. Returns NULL if the directory cannot be read. */
static DIR *scan_open(int directory)
{
        int fd = directory < 0 ? -1 : fcntl(directory, F_DUPFD_CLOEXEC, 0);
        DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

        if (!dir)
                ds_close(fd);
        return dir;
}

static void scan_user(ds_code_store *store, uid_t uid)
{
        ds_cleanup(ds_closep) int directory = owner_open(store, uid);
        DIR *dir = scan_open(directory);
        struct owner *owner = dir ? owner_get(store, uid) : NULL;
        struct dirent *entry;

        while (owner && (entry = readdir(dir)))
                scan_file(store, directory, uid, entry->d_name);
        if (owner)
                owner_put(store, owner, 1);
        if (dir)
                closedir(dir);
}

static void scan(ds_code_store *store)
{
        DIR *dir = scan_open(store->directory);
        struct dirent *entry;
        uid_t uid;

        if (!dir)
                return;
        while ((entry = readdir(dir))) {
                /* removes files of an older daemon, which had one directory for all users */
                if (ds_code_file_is_name(entry->d_name))
                        (void)unlinkat(store->directory, entry->d_name, 0);
                else if (owner_is_name(entry->d_name, &uid))
                        scan_user(store, uid);
        }
        closedir(dir);
        rows_trim(store);
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

/* Opens the user's directory and creates it if necessary. */
static int note_directory(ds_code_store *store, uid_t uid)
{
        ds_cleanup(ds_closep) int directory = owner_open(store, uid);
        char name[OWNER_NAME_MAX];

        if (directory >= 0)
                return DS_TAKE_FD(directory);
        owner_name(uid, name);
        if (mkdirat(store->directory, name, 0711) < 0 && errno != EEXIST)
                return -errno;
        directory = owner_open(store, uid);
        /* execute permission lets a helper, which has no rights here, open files by name, but not list them */
        if (directory < 0 || fchmod(directory, 0711) < 0)
                return -errno;
        return DS_TAKE_FD(directory);
}

static int note_write(ds_code_store *store, const struct note *note)
{
        ds_cleanup(ds_closep) int directory = note_directory(store, note->uid);
        uint64_t bytes = 0;
        int r = directory < 0 ? directory : ds_code_file_write(directory, note->key, note->fd, note->bytes, &bytes);

        if (r)
                return r;
        row_add(store, note->uid, note->key, bytes, now_ns());
        rows_trim(store);
        return 0;
}

static void note_touch(ds_code_store *store, const struct note *note)
{
        ds_cleanup(ds_closep) int directory = owner_open(store, note->uid);
        struct row *row = row_find(store, note->uid, note->key);
        char name[DS_CODE_NAME_MAX];

        ds_code_file_name(note->key, name);
        if (directory >= 0)
                (void)utimensat(directory, name, NULL, AT_SYMLINK_NOFOLLOW);
        if (row)
                row_add(store, note->uid, note->key, row->bytes, now_ns());
}

static void note_do(ds_code_store *store, const struct note *note)
{
        int r = 0;

        if (note->fd >= 0)
                r = note_write(store, note);
        else
                note_touch(store, note);
        ds_close(note->fd);
        pthread_mutex_lock(&store->lock);
        store->figures.failed += r != 0;
        store->figures.written += note->fd >= 0 && !r;
        store->figures.files = store->n_rows;
        store->figures.bytes = store->bytes;
        pthread_mutex_unlock(&store->lock);
}

static int note_next(ds_code_store *store, struct note *ret)
{
        int some;

        pthread_mutex_lock(&store->lock);
        while (!store->n_notes && !store->stop)
                pthread_cond_wait(&store->wake, &store->lock);
        some = store->n_notes > 0;
        if (some) {
                *ret = store->notes[store->first];
                store->first = (store->first + 1) % NOTES_MAX;
                store->n_notes--;
        }
        pthread_mutex_unlock(&store->lock);
        return some;
}

static void *thread_main(void *user)
{
        ds_code_store *store = user;
        struct note note;

        scan(store);
        pthread_mutex_lock(&store->lock);
        store->figures.files = store->n_rows;
        store->figures.bytes = store->bytes;
        pthread_mutex_unlock(&store->lock);
        while (note_next(store, &note))
                note_do(store, &note);
        return NULL;
}

static int thread_start(ds_code_store *store)
{
        int r = ds_thread_start(&store->thread, thread_main, store);

        store->running = r == 0;
        return -r;
}

/* --- interface ---------------------------------------------------------------------------------------------------- */

int ds_code_store_new(const char *path, uint64_t max_bytes, ds_code_store **ret)
{
        ds_code_store *store = ds_alloc0(1, sizeof(*store));
        int r = 0;

        *ret = NULL;
        if (!store)
                return ds_error_origin(-ENOMEM);
        store->directory = store->lock_fd = -1;
        store->max_bytes = max_bytes ? max_bytes : DS_CODE_STORE_BYTES;
        TAILQ_INIT(&store->rows);
        TAILQ_INIT(&store->owners);
        pthread_mutex_init(&store->lock, NULL);
        pthread_cond_init(&store->wake, NULL);
        if (store_open(store, path) < 0) {
                ds_code_store_free(store);
                return 0;
        }
        if (store->lock_fd >= 0)
                r = thread_start(store);
        if (r)
                ds_log(DS_LOG_WARNING, "%s is used read-only: %s", path, strerror(r));
        *ret = store;
        return 0;
}

static void store_end(ds_code_store *store)
{
        struct timespec until;

        pthread_mutex_lock(&store->lock);
        store->stop = 1;
        pthread_cond_signal(&store->wake);
        pthread_mutex_unlock(&store->lock);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += END_SECONDS;
        store->running = pthread_timedjoin_np(store->thread, NULL, &until) != 0;
}

ds_code_store *ds_code_store_free(ds_code_store *store)
{
        if (!store)
                return NULL;
        if (store->running)
                store_end(store);
        if (store->running)
                /* the thread never ends, because a disk does not respond: the memory is left to the end of the
                 * process */
                return NULL;
        while (!TAILQ_EMPTY(&store->rows))
                row_drop(store, TAILQ_FIRST(&store->rows));
        while (!TAILQ_EMPTY(&store->owners))
                owner_put(store, TAILQ_FIRST(&store->owners), 0);
        ds_close(store->directory);
        ds_close(store->lock_fd);
        pthread_mutex_destroy(&store->lock);
        pthread_cond_destroy(&store->wake);
        return ds_free(store);
}

int ds_code_store_directory(const ds_code_store *store, uid_t uid)
{
        return owner_open(store, uid);
}

/* Queues a job for the thread. Consumes fd. */
static void note_add(ds_code_store *store, uid_t uid, const uint8_t *key, int fd, uint64_t bytes)
{
        struct note *note;

        pthread_mutex_lock(&store->lock);
        if (store->running && store->n_notes < NOTES_MAX) {
                note = &store->notes[(store->first + store->n_notes++) % NOTES_MAX];
                note->uid = uid;
                memcpy(note->key, key, DS_SHA256_BYTES);
                note->bytes = bytes;
                note->fd = DS_TAKE_FD(fd);
                pthread_cond_signal(&store->wake);
        }
        pthread_mutex_unlock(&store->lock);
        ds_close(fd);
}

void ds_code_store_put(
        ds_code_store *store, uid_t uid, const uint8_t key[static DS_SHA256_BYTES], int fd, uint64_t bytes)
{
        if (bytes > store->max_bytes / LARGE_PART)
                return;
        fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (fd >= 0)
                note_add(store, uid, key, fd, bytes);
}

void ds_code_store_used(ds_code_store *store, uid_t uid, const uint8_t key[static DS_SHA256_BYTES])
{
        note_add(store, uid, key, -1, 0);
}

void ds_code_store_figures(ds_code_store *store, struct ds_code_figures *ret)
{
        pthread_mutex_lock(&store->lock);
        *ret = store->figures;
        pthread_mutex_unlock(&store->lock);
}
