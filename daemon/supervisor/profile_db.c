/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile database
 *
 * The file is locked while it is open (locking_mode EXCLUSIVE). So SQLite needs no shared memory, which is a mapped
 * file: on a full disk, a write to such a mapping ends the process. A second daemon with the same directory keeps its
 * profiles in memory.
 */
#include "supervisor/profile_db.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "supervisor/profile_text.h"
#include "supervisor/state_dir.h"
#include "util/log.h"
#include "util/macro.h"

#define APPLICATION_ID 0x44745072 /* number that marks the file as a profile database: "DtPr" */
/* version of the tables; version 1 had no footprint, version 2 no forms, version 3 no notes */
#define SCHEMA_VERSION 4
#define PAGES_MAX 16384 /* most pages of the file, of 4 KiB each */
#define BUSY_MS 500
#define EVICT_PART 16 /* when the file is full, 1/16 of the rows are deleted at a time */
#define SMS_MAX 65536u
#define LOADS_MAX 16u

struct ds_profile_db {
        sqlite3 *sql;
        char path[PATH_MAX]; /* path of the file; "": in memory */
        uint64_t max_rows;
        int failing; /* 1: a failure was logged already, so further ones are not */
        struct ds_profile_figures figures;
};

#define NOTES_INDEX "CREATE INDEX profiles_notes ON profiles(model, note_group, used, id) WHERE note<>'';"

static const char schema[] =
        "CREATE TABLE profiles(id INTEGER PRIMARY KEY, model TEXT NOT NULL, key INTEGER NOT NULL, "
        "kernel TEXT NOT NULL, grid TEXT NOT NULL, block TEXT NOT NULL, shared INTEGER NOT NULL, "
        "bound INTEGER NOT NULL, points TEXT NOT NULL, changed INTEGER NOT NULL, "
        "used INTEGER NOT NULL, checksum INTEGER NOT NULL, "
        "footprint INTEGER NOT NULL DEFAULT 0, forms TEXT NOT NULL DEFAULT '', "
        "note_group INTEGER NOT NULL DEFAULT 0, note TEXT NOT NULL DEFAULT '', UNIQUE(model, key));"
        "CREATE INDEX profiles_used ON profiles(used, id);" NOTES_INDEX
        "CREATE TABLE interference(model TEXT NOT NULL, ls_load INTEGER NOT NULL, "
        "be_load INTEGER NOT NULL, be_sms INTEGER NOT NULL, be_blocks INTEGER NOT NULL, "
        "ls_permille INTEGER NOT NULL, be_permille INTEGER NOT NULL, checksum INTEGER NOT NULL, "
        "PRIMARY KEY(model, ls_load, be_load, be_sms, be_blocks));";

/* The columns of a row, in the order in which column_read() reads them. */
#define COLUMNS                                                                                            \
        "id, key, kernel, grid, block, shared, bound, points, changed, used, checksum, footprint, forms, " \
        "note_group, note"

static uint64_t now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_REALTIME, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int64_t interference_checksum(const char *model, const struct ds_profile_interference *row)
{
        char text[DS_PROFILE_MODEL_MAX + 128];
        int n = snprintf(text, sizeof(text), "%s|%" PRIu32 "|%" PRIu32 "|%" PRIu32 "|%" PRIu32 "|%" PRIu32 "|%" PRIu32,
                model, row->ls_load, row->be_load, row->be_sms, row->be_blocks, row->ls_permille, row->be_permille);

        return (int64_t)XXH3_64bits(text, DS_MIN((size_t)n, sizeof(text) - 1));
}

/* --- statements --------------------------------------------------------------------------------------------------- */

static int run(ds_profile_db *db, const char *text)
{
        return sqlite3_exec(db->sql, text, NULL, NULL, NULL);
}

static int number(ds_profile_db *db, const char *text, int64_t *ret)
{
        sqlite3_stmt *statement = NULL;
        int r = sqlite3_prepare_v2(db->sql, text, -1, &statement, NULL);

        if (!r)
                r = sqlite3_step(statement);
        if (r == SQLITE_ROW)
                *ret = sqlite3_column_int64(statement, 0);
        sqlite3_finalize(statement);
        return r == SQLITE_ROW ? SQLITE_OK : r == SQLITE_DONE ? SQLITE_CORRUPT : r;
}

static int prepare(ds_profile_db *db, const char *text, const char *model, sqlite3_stmt **ret)
{
        int r = sqlite3_prepare_v2(db->sql, text, -1, ret, NULL);

        return r ? r : sqlite3_bind_text(*ret, 1, model, -1, SQLITE_STATIC);
}

/* Runs and finalises a statement that returns no rows. */
static int finish(sqlite3_stmt *statement)
{
        int r = sqlite3_step(statement);

        sqlite3_reset(statement);
        return r == SQLITE_DONE ? SQLITE_OK : r;
}

/* Whether this result means that the file is damaged. SQLITE_ERROR counts, too: the statements are correct, so an
 * error means foreign tables or columns. */
static int is_damage(int r)
{
        return (r & 0xff) == SQLITE_CORRUPT || (r & 0xff) == SQLITE_NOTADB || (r & 0xff) == SQLITE_ERROR ||
               r == SQLITE_IOERR_SHORT_READ;
}

static const char *column_text(sqlite3_stmt *statement, int i)
{
        const char *text = (const char *)sqlite3_column_text(statement, i);

        return text ? text : "";
}

static uint32_t column_u32(sqlite3_stmt *statement, int i)
{
        int64_t n = sqlite3_column_int64(statement, i);

        return n < 0 || n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

/* Reads COLUMNS of the current row. Returns 0, or -1: the row is damaged. */
static int column_read(sqlite3_stmt *statement, const char *model, struct ds_profile_row *row)
{
        *row = (struct ds_profile_row){
                .id = (uint64_t)sqlite3_column_int64(statement, 0),
                .key = (uint64_t)sqlite3_column_int64(statement, 1),
                .shared_bytes = column_u32(statement, 5),
                .bound = column_u32(statement, 6),
                .changed_ms = (uint64_t)sqlite3_column_int64(statement, 8),
                .used_ms = (uint64_t)sqlite3_column_int64(statement, 9),
                .footprint = (uint64_t)sqlite3_column_int64(statement, 11),
                .group = (uint64_t)sqlite3_column_int64(statement, 13),
        };
        ds_profile_set_name(row, column_text(statement, 2));
        if (ds_profile_shape_read(row->grid, column_text(statement, 3)) ||
                ds_profile_shape_read(row->block, column_text(statement, 4)) ||
                ds_profile_points_read(row, column_text(statement, 7)) ||
                ds_profile_forms_read(row, column_text(statement, 12)) ||
                ds_profile_note_read(row, column_text(statement, 14)))
                return -1;
        if (ds_profile_row_wrong(row) || ds_profile_row_checksum(model, row) != sqlite3_column_int64(statement, 10))
                return -1;
        return 0;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static void set_aside(ds_profile_db *db, const char *why)
{
        char to[PATH_MAX + 16], wal[PATH_MAX + 16];

        sqlite3_close(db->sql);
        db->sql = NULL;
        snprintf(to, sizeof(to), "%s.damaged", db->path);
        snprintf(wal, sizeof(wal), "%s-wal", db->path);
        (void)unlink(wal);
        if (rename(db->path, to) < 0 && errno != ENOENT) {
                ds_log(DS_LOG_WARNING, "%s %s and cannot be moved: %s; profiles are kept in memory", db->path, why,
                        strerror(errno));
                db->path[0] = 0;
                return;
        }
        ds_log(DS_LOG_WARNING, "%s %s: it was renamed to %s.damaged, and a new file is created", db->path, why,
                DS_PROFILE_FILE);
}

/* Creates the file if necessary. It must belong to the daemon's user only. Returns 0 or -errno. */
static int make_file(const char *path)
{
        struct stat st;
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600), r = 0;

        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0)
                r = -errno;
        else if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
                r = -EINVAL;
        else if ((st.st_mode & 0777) != 0600 && fchmod(fd, 0600) < 0)
                r = -errno;
        close(fd);
        return r;
}

static int settings(ds_profile_db *db)
{
        char pages[64];
        int r;

        snprintf(pages, sizeof(pages), "PRAGMA max_page_count=%d", PAGES_MAX);
        sqlite3_busy_timeout(db->sql, BUSY_MS);
        sqlite3_db_config(db->sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(db->sql, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        r = run(db, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0;"
                    "PRAGMA cache_size=-4096; PRAGMA temp_store=MEMORY");
        return r ? r : run(db, pages);
}

/* Switches the file to a write-ahead log. Called only when the file is known to be this daemon's: before that,
 * nothing is written to it. */
static int use_wal(ds_profile_db *db)
{
        return run(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA journal_size_limit=4194304");
}

static int make_schema(ds_profile_db *db)
{
        char text[128];
        int r = run(db, "BEGIN IMMEDIATE");

        snprintf(
                text, sizeof(text), "PRAGMA application_id=%d; PRAGMA user_version=%d", APPLICATION_ID, SCHEMA_VERSION);
        if (!r)
                r = run(db, schema);
        if (!r)
                r = run(db, text);
        if (!r)
                r = run(db, "COMMIT");
        if (r)
                (void)run(db, "ROLLBACK");
        return r;
}

/* Updates the tables of a file of an earlier version. */
static int update_schema(ds_profile_db *db, int64_t version)
{
        int r = run(db, "BEGIN IMMEDIATE");

        if (!r && version < 2)
                r = run(db, "ALTER TABLE profiles ADD COLUMN footprint INTEGER NOT NULL DEFAULT 0");
        if (!r && version < 3)
                r = run(db, "ALTER TABLE profiles ADD COLUMN forms TEXT NOT NULL DEFAULT ''");
        if (!r)
                r = run(db, "ALTER TABLE profiles ADD COLUMN note_group INTEGER NOT NULL DEFAULT 0; "
                            "ALTER TABLE profiles ADD COLUMN note TEXT NOT NULL DEFAULT ''; " NOTES_INDEX
                            "PRAGMA user_version=4; COMMIT");
        if (r)
                (void)run(db, "ROLLBACK");
        return r;
}

/* Checks the whole file by quick_check, which returns the single row "ok" if it is undamaged. */
static int check_whole(ds_profile_db *db)
{
        sqlite3_stmt *statement = NULL;
        int r = sqlite3_prepare_v2(db->sql, "PRAGMA quick_check(1)", -1, &statement, NULL);

        if (!r)
                r = sqlite3_step(statement);
        if (r == SQLITE_ROW)
                r = strcmp(column_text(statement, 0), "ok") ? SQLITE_CORRUPT : SQLITE_OK;
        sqlite3_finalize(statement);
        return r;
}

/* Examines the open file. Returns SQLITE_OK if it is usable. Otherwise *ret_why is the reason to move the file
 * aside, or NULL if the file cannot be used now. */
static int look(ds_profile_db *db, const char **ret_why)
{
        int64_t pages = 0, application = 0, version = 0, rows = 0;
        int r = settings(db);

        if (!r)
                r = number(db, "PRAGMA page_count", &pages);
        if (!r)
                r = number(db, "PRAGMA application_id", &application);
        if (!r)
                r = number(db, "PRAGMA user_version", &version);
        if (!r && pages && application != APPLICATION_ID)
                *ret_why = "is not a profile database";
        else if (!r && pages && (version < 1 || version > SCHEMA_VERSION))
                *ret_why =
                        version > SCHEMA_VERSION ? "is from a newer version of DetShare" : "belongs to another program";
        if (*ret_why)
                return SQLITE_OK;
        if (!r)
                r = pages ? check_whole(db) : make_schema(db);
        if (!r)
                r = use_wal(db);
        if (!r && pages && version < SCHEMA_VERSION)
                r = update_schema(db, version);
        if (!r)
                r = number(db, "SELECT count(*) FROM profiles", &rows);
        if (!r)
                r = number(db, "SELECT count(*) FROM interference", &pages);
        if (is_damage(r))
                *ret_why = "is damaged";
        db->figures.rows = (uint64_t)rows;
        return r;
}

/* Opens the file. Returns 0: it is open. 1: it was moved aside. -1: it cannot be used; the reason is logged. */
static int open_file(ds_profile_db *db)
{
        const char *why = NULL;
        int r = make_file(db->path);

        if (r) {
                ds_log(DS_LOG_WARNING, "%s: %s; profiles are kept in memory", db->path, strerror(-r));
                return -1;
        }
        r = sqlite3_open_v2(
                db->path, &db->sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
        if (!r)
                r = look(db, &why);
        if (why) {
                set_aside(db, why);
                return 1;
        }
        if (!r)
                return 0;
        ds_log(DS_LOG_WARNING, "%s: %s; profiles are kept in memory", db->path,
                (r & 0xff) == SQLITE_BUSY ? "another daemon has it" : sqlite3_errstr(r));
        return -1;
}

static void open_memory(ds_profile_db *db)
{
        sqlite3_close(db->sql);
        db->sql = NULL;
        db->path[0] = 0;
        db->figures.rows = 0;
        db->figures.in_memory = 1;
        if (sqlite3_open_v2(":memory:", &db->sql,
                    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL) ||
                settings(db) || make_schema(db))
                ds_log(DS_LOG_WARNING, "profiles are not kept: %s", db->sql ? sqlite3_errmsg(db->sql) : "no memory");
}

/* Opens the file, a new one in its place, or a database in memory. */
static void open_any(ds_profile_db *db)
{
        int r = 1;

        for (int i = 0; i < 2 && r == 1 && db->path[0]; i++)
                r = open_file(db);
        if (r)
                open_memory(db);
}

ds_profile_db *ds_profile_db_open(const char *path, uint64_t max_rows)
{
        ds_profile_db *db = calloc(1, sizeof(*db));
        int fd;

        if (!db)
                return NULL;
        db->max_rows = max_rows ? max_rows : DS_PROFILE_ROWS_MAX;
        fd = path ? ds_state_directory(path, "profiles are kept in memory: this file is") : -1;
        if (fd >= 0 && snprintf(db->path, sizeof(db->path), "%s/" DS_PROFILE_FILE, path) >= (int)sizeof(db->path))
                db->path[0] = 0;
        if (fd >= 0)
                close(fd);
        open_any(db);
        return db;
}

ds_profile_db *ds_profile_db_close(ds_profile_db *db)
{
        if (!db)
                return NULL;
        sqlite3_close(db->sql);
        free(db);
        return NULL;
}

void ds_profile_db_figures(const ds_profile_db *db, struct ds_profile_figures *ret)
{
        *ret = db->figures;
}

/* --- transactions ------------------------------------------------------------------------------------------------- */

static int count_rows(ds_profile_db *db)
{
        int64_t rows = 0, pages = 0, size = 0;
        int r = number(db, "SELECT count(*) FROM profiles", &rows);

        if (!r)
                r = number(db, "PRAGMA page_count", &pages);
        if (!r)
                r = number(db, "PRAGMA page_size", &size);
        db->figures.rows = (uint64_t)rows;
        db->figures.bytes = (uint64_t)(pages * size);
        return r;
}

/* Deletes at least n rows: first rows without measurements, since one program may create many of them; then the
 * least recently used rows. */
static int evict(ds_profile_db *db, uint64_t n)
{
        char text[192];

        snprintf(text, sizeof(text),
                "DELETE FROM profiles WHERE id IN (SELECT id FROM profiles ORDER BY points<>'' OR note<>'', used, id "
                "LIMIT %" PRIu64 ")",
                DS_MAX(n, db->max_rows / EVICT_PART));
        return run(db, text);
}

static int trim(ds_profile_db *db)
{
        int r = count_rows(db);

        if (r || db->figures.rows <= db->max_rows)
                return r;
        r = evict(db, db->figures.rows - db->max_rows);
        return r ? r : count_rows(db);
}

/* The work of one transaction. The caller owns `rows`. */
struct task {
        int (*fn)(ds_profile_db *db, struct task *task);
        const char *model, *filter;
        struct ds_profile_row *rows;
        const struct ds_profile_row *given;
        size_t n, n_done;
        uint64_t after, since_ms, count;
        int more;
        struct ds_profile_interference *cells;
        const struct ds_profile_interference *given_cells;
};

static int attempt(ds_profile_db *db, struct task *task)
{
        int r = run(db, "BEGIN IMMEDIATE");

        if (r)
                return r;
        r = task->fn(db, task);
        if (!r)
                r = run(db, "COMMIT");
        if (r)
                (void)run(db, "ROLLBACK");
        return r;
}

static void failed(ds_profile_db *db, int r)
{
        db->figures.failed++;
        if (db->failing++)
                return;
        ds_log(DS_LOG_WARNING, "%s: %s; profiles of kernels may be lost", db->path[0] ? db->path : "profiles in memory",
                sqlite3_errstr(r));
}

/* Runs the task as a transaction. If the file is full, deletes rows and retries; if it is damaged, replaces it and
 * retries. */
static int transact(ds_profile_db *db, struct task *task)
{
        int64_t pages = 0;
        int r = db->sql ? attempt(db, task) : SQLITE_NOMEM;

        if ((r & 0xff) == SQLITE_FULL && !number(db, "PRAGMA page_count", &pages) && pages >= PAGES_MAX) {
                if (!evict(db, db->figures.rows / EVICT_PART))
                        r = attempt(db, task);
        }
        if (db->path[0] && is_damage(r)) {
                set_aside(db, "is damaged");
                open_any(db);
                r = attempt(db, task);
        }
        if (r) {
                failed(db, r);
                return -EIO;
        }
        db->failing = 0;
        return 0;
}

/* --- operations --------------------------------------------------------------------------------------------------- */

static int delete_row(ds_profile_db *db, int64_t id)
{
        char text[80];

        if (!db->figures.refused++)
                ds_log(DS_LOG_WARNING, "a row of %s is damaged and is deleted",
                        db->path[0] ? db->path : DS_PROFILE_FILE);
        snprintf(text, sizeof(text), "DELETE FROM profiles WHERE id=%" PRId64, id);
        return run(db, text);
}

static int bind_row(sqlite3_stmt *statement, const char *model, struct ds_profile_row *row)
{
        char grid[DS_PROFILE_SHAPE_TEXT], block[DS_PROFILE_SHAPE_TEXT], points[DS_PROFILE_POINTS_TEXT],
                forms[DS_PROFILE_FORMS_TEXT];
        char note[DS_PROFILE_NOTE_TEXT];

        row->changed_ms = now_ms();
        row->used_ms = DS_MAX(row->used_ms, row->changed_ms);
        ds_profile_shape_write(row->grid, grid);
        ds_profile_shape_write(row->block, block);
        ds_profile_points_write(row, points);
        ds_profile_forms_write(row, forms);
        sqlite3_bind_int64(statement, 2, (int64_t)row->key);
        sqlite3_bind_text(statement, 3, row->name, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(statement, 4, grid, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(statement, 5, block, -1, SQLITE_TRANSIENT);
        sqlite3_bind_int64(statement, 6, row->shared_bytes);
        sqlite3_bind_int64(statement, 7, row->bound);
        sqlite3_bind_text(statement, 8, points, -1, SQLITE_TRANSIENT);
        sqlite3_bind_int64(statement, 9, (int64_t)row->changed_ms);
        sqlite3_bind_int64(statement, 10, (int64_t)row->used_ms);
        sqlite3_bind_int64(statement, 11, ds_profile_row_checksum(model, row));
        sqlite3_bind_int64(statement, 12, (int64_t)row->footprint);
        sqlite3_bind_text(statement, 13, forms, -1, SQLITE_TRANSIENT);
        ds_profile_note_write(row, note);
        sqlite3_bind_int64(statement, 14, (int64_t)row->group);
        return sqlite3_bind_text(statement, 15, note, -1, SQLITE_TRANSIENT);
}

/* Writes a row, replacing the one with the same key. */
static int write_row(ds_profile_db *db, const char *model, const struct ds_profile_row *row)
{
        struct ds_profile_row copy = *row;
        sqlite3_stmt *statement = NULL;
        int r = prepare(db,
                "INSERT INTO profiles(model, key, kernel, grid, block, shared, bound, points, changed, used, checksum, "
                "footprint, forms, note_group, note) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, "
                "?14, ?15) "
                "ON CONFLICT(model, key) DO "
                "UPDATE SET kernel=?3, grid=?4, block=?5, shared=?6, bound=?7, points=?8, changed=?9, used=?10, "
                "checksum=?11, footprint=?12, forms=?13, note_group=?14, note=?15",
                model, &statement);

        if (!r)
                r = bind_row(statement, model, &copy);
        if (!r)
                r = finish(statement);
        sqlite3_finalize(statement);
        return r;
}

/* Reads the row of a key. Returns SQLITE_OK with *ret_found = 1 if there is a valid row, else 0. */
static int read_row(ds_profile_db *db, const char *model, uint64_t key, struct ds_profile_row *row, int *ret_found)
{
        sqlite3_stmt *statement = NULL;
        int64_t damaged = 0;
        int r = prepare(db, "SELECT " COLUMNS " FROM profiles WHERE model=?1 AND key=?2", model, &statement);

        *ret_found = 0;
        if (!r)
                r = sqlite3_bind_int64(statement, 2, (int64_t)key);
        if (!r)
                r = sqlite3_step(statement);
        if (r == SQLITE_ROW && column_read(statement, model, row))
                damaged = (int64_t)row->id;
        else if (r == SQLITE_ROW)
                *ret_found = 1;
        sqlite3_finalize(statement);
        if (damaged)
                return delete_row(db, damaged);
        return r == SQLITE_ROW || r == SQLITE_DONE ? SQLITE_OK : r;
}

static int touch_row(ds_profile_db *db, uint64_t id)
{
        char text[128];

        snprintf(text, sizeof(text), "UPDATE profiles SET used=%" PRIu64 " WHERE id=%" PRIu64, now_ms(), id);
        return run(db, text);
}

/* Deletes all but the DS_PROFILE_GROUP_MAX most recently used notes of a group. */
static int trim_group(ds_profile_db *db, const char *model, uint64_t group)
{
        sqlite3_stmt *statement = NULL;
        int r = prepare(db,
                "DELETE FROM profiles WHERE id IN (SELECT id FROM profiles WHERE model=?1 AND note<>'' AND "
                "note_group=?2 ORDER BY used DESC, id DESC LIMIT -1 OFFSET ?3)",
                model, &statement);

        sqlite3_bind_int64(statement, 2, (int64_t)group);
        sqlite3_bind_int64(statement, 3, DS_PROFILE_GROUP_MAX);
        if (!r)
                r = finish(statement);
        sqlite3_finalize(statement);
        return r;
}

/* Copies what the database knows about the row's kernel, or the note, to the row. */
static void copy_known(struct ds_profile_row *row, const struct ds_profile_row *stored)
{
        row->bound = stored->bound;
        row->footprint = stored->footprint;
        row->sliced = stored->sliced;
        row->persistent = stored->persistent;
        row->n_points = stored->n_points;
        memcpy(row->points, stored->points, sizeof(row->points));
        row->n_note = stored->n_note;
        memcpy(row->note, stored->note, sizeof(row->note));
        if (row->of_policy && row->n_note)
                memcpy(row->name, stored->name, sizeof(row->name));
}

static int do_see(ds_profile_db *db, struct task *task)
{
        static const struct ds_profile_row nothing;
        struct ds_profile_row stored;
        int r = SQLITE_OK, found;

        for (size_t i = 0; i < task->n && !r; i++) {
                struct ds_profile_row *row = &task->rows[i];
                int known;

                r = read_row(db, task->model, row->key, &stored, &found);
                if (r)
                        break;
                known = found && stored.of_policy == row->of_policy;
                copy_known(row, known ? &stored : &nothing);
                if (known)
                        r = touch_row(db, stored.id);
                else if (!found && !row->of_policy)
                        r = write_row(db, task->model, row);
        }
        return r ? r : trim(db);
}

static uint32_t point_position(const struct ds_profile_row *row, uint32_t n_sms)
{
        uint32_t at = 0;

        while (at < row->n_points && row->points[at].n_sms < n_sms)
                at++;
        return at;
}

/*
 * Merges stored points into the new row where the new points are no better: the worker may have sent its points before
 * it received the stored ones. If there is no room for all, new points have precedence.
 */
static void merge_points(struct ds_profile_row *row, const struct ds_profile_row *came)
{
        struct ds_profile_row had = *row;

        row->n_points = came->n_points;
        memcpy(row->points, came->points, sizeof(row->points));
        for (uint32_t i = 0; i < had.n_points; i++) {
                uint32_t at = point_position(row, had.points[i].n_sms);
                int there = at < row->n_points && row->points[at].n_sms == had.points[i].n_sms;

                if (there && row->points[at].samples < had.points[i].samples)
                        row->points[at] = had.points[i];
                if (there || row->n_points == DS_PROFILE_POINTS_MAX)
                        continue;
                memmove(&row->points[at + 1], &row->points[at], (row->n_points - at) * sizeof(row->points[0]));
                row->points[at] = had.points[i];
                row->n_points++;
        }
}

static int refine_note(ds_profile_db *db, const char *model, const struct ds_profile_row *row, int is_kernel)
{
        int r = is_kernel ? SQLITE_OK : write_row(db, model, row);

        return r ? r : trim_group(db, model, row->group);
}

static int do_refine(ds_profile_db *db, struct task *task)
{
        struct ds_profile_row stored;
        int r = SQLITE_OK, found;

        for (size_t i = 0; i < task->n && !r; i++) {
                const struct ds_profile_row *row = &task->given[i];

                r = read_row(db, task->model, row->key, &stored, &found);
                if (!r && row->of_policy) {
                        r = refine_note(db, task->model, row, found && !stored.of_policy);
                        continue;
                }
                if (r)
                        break;
                db->figures.unknown += !found;
                if (!found || stored.of_policy)
                        continue;
                stored.bound = row->bound ? row->bound : stored.bound;
                stored.footprint = row->footprint ? row->footprint : stored.footprint;
                if (row->sliced.samples >= stored.sliced.samples)
                        stored.sliced = row->sliced;
                if (row->persistent.samples >= stored.persistent.samples)
                        stored.persistent = row->persistent;
                merge_points(&stored, row);
                stored.used_ms = 0;
                r = write_row(db, task->model, &stored);
        }
        return r ? r : trim(db);
}

static int do_put(ds_profile_db *db, struct task *task)
{
        int r = SQLITE_OK;

        for (size_t i = 0; i < task->n && !r; i++) {
                r = write_row(db, task->model, &task->given[i]);
                if (!r && task->given[i].of_policy)
                        r = trim_group(db, task->model, task->given[i].group);
        }
        return r ? r : trim(db);
}

static int list_step(ds_profile_db *db, struct task *task, sqlite3_stmt *statement)
{
        int r = SQLITE_OK;

        while (!r && (r = sqlite3_step(statement)) == SQLITE_ROW) {
                struct ds_profile_row row;

                if (task->n_done == task->n) {
                        task->more = 1;
                        return SQLITE_OK;
                }
                r = column_read(statement, task->model, &row) ? delete_row(db, (int64_t)row.id) : SQLITE_ROW;
                if (r == SQLITE_ROW) {
                        task->rows[task->n_done++] = row;
                        r = SQLITE_OK;
                }
        }
        return r == SQLITE_DONE ? SQLITE_OK : r;
}

static int do_list(ds_profile_db *db, struct task *task)
{
        sqlite3_stmt *statement = NULL;
        int r = prepare(db,
                "SELECT " COLUMNS " FROM profiles WHERE model=?1 AND id>?2 AND changed>=?3 AND "
                "(?4='' OR instr(kernel, ?4)) ORDER BY id",
                task->model, &statement);

        task->n_done = 0;
        task->more = 0;
        sqlite3_bind_int64(statement, 2, (int64_t)DS_MIN(task->after, (uint64_t)INT64_MAX));
        sqlite3_bind_int64(statement, 3, (int64_t)DS_MIN(task->since_ms, (uint64_t)INT64_MAX));
        sqlite3_bind_text(statement, 4, task->filter, -1, SQLITE_STATIC);
        if (!r)
                r = list_step(db, task, statement);
        sqlite3_finalize(statement);
        return r;
}

static int do_forget(ds_profile_db *db, struct task *task)
{
        sqlite3_stmt *statement = NULL;
        int r = prepare(
                db, "DELETE FROM profiles WHERE model=?1 AND (?2='' OR instr(kernel, ?2))", task->model, &statement);

        sqlite3_bind_text(statement, 2, task->filter, -1, SQLITE_STATIC);
        if (!r)
                r = finish(statement);
        sqlite3_finalize(statement);
        task->count = r ? 0 : (uint64_t)sqlite3_changes64(db->sql);
        return r ? r : count_rows(db);
}

static int cell_wrong(const struct ds_profile_interference *cell)
{
        return cell->ls_load >= LOADS_MAX || cell->be_load >= LOADS_MAX || cell->be_sms > SMS_MAX;
}

static int do_calibration(ds_profile_db *db, struct task *task)
{
        sqlite3_stmt *statement = NULL;
        int r = prepare(db,
                "SELECT ls_load, be_load, be_sms, be_blocks, ls_permille, be_permille, checksum FROM interference "
                "WHERE model=?1 ORDER BY ls_load, be_load, be_sms, be_blocks",
                task->model, &statement);

        task->n_done = 0;
        while (!r && (r = sqlite3_step(statement)) == SQLITE_ROW) {
                struct ds_profile_interference cell = {column_u32(statement, 0), column_u32(statement, 1),
                        column_u32(statement, 2), column_u32(statement, 3), column_u32(statement, 4),
                        column_u32(statement, 5)};

                r = SQLITE_OK;
                if (cell_wrong(&cell) ||
                        interference_checksum(task->model, &cell) != sqlite3_column_int64(statement, 6))
                        db->figures.refused++;
                else if (task->n_done < task->n)
                        task->cells[task->n_done++] = cell;
        }
        sqlite3_finalize(statement);
        return r == SQLITE_DONE ? SQLITE_OK : r;
}

static int write_cell(sqlite3_stmt *statement, const char *model, const struct ds_profile_interference *cell)
{
        const uint32_t values[] = {
                cell->ls_load, cell->be_load, cell->be_sms, cell->be_blocks, cell->ls_permille, cell->be_permille};

        for (int i = 0; i < (int)DS_ARRAY_SIZE(values); i++)
                sqlite3_bind_int64(statement, i + 2, values[i]);
        sqlite3_bind_int64(statement, 8, interference_checksum(model, cell));
        return finish(statement);
}

static int do_calibrate(ds_profile_db *db, struct task *task)
{
        sqlite3_stmt *statement = NULL;
        int r = prepare(db, "DELETE FROM interference WHERE model=?1", task->model, &statement);

        if (!r)
                r = finish(statement);
        sqlite3_finalize(statement);
        statement = NULL;
        if (!r)
                r = prepare(
                        db, "INSERT INTO interference VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)", task->model, &statement);
        for (size_t i = 0; i < task->n && !r; i++)
                r = write_cell(statement, task->model, &task->given_cells[i]);
        sqlite3_finalize(statement);
        return r;
}

int ds_profile_db_see(ds_profile_db *db, const char *model, struct ds_profile_row *rows, size_t n)
{
        struct task task = {.fn = do_see, .model = model, .rows = rows, .n = n};

        return transact(db, &task);
}

int ds_profile_db_refine(ds_profile_db *db, const char *model, const struct ds_profile_row *rows, size_t n)
{
        struct task task = {.fn = do_refine, .model = model, .given = rows, .n = n};

        return transact(db, &task);
}

int ds_profile_db_put(ds_profile_db *db, const char *model, const struct ds_profile_row *rows, size_t n)
{
        struct task task = {.fn = do_put, .model = model, .given = rows, .n = n};

        return transact(db, &task);
}

int ds_profile_db_list(ds_profile_db *db, const char *model, uint64_t after, const char *filter, uint64_t since_ms,
        struct ds_profile_row *rows, size_t n, size_t *ret_n, int *ret_more)
{
        struct task task = {.fn = do_list,
                .model = model,
                .filter = filter,
                .after = after,
                .since_ms = since_ms,
                .rows = rows,
                .n = n};
        int r = transact(db, &task);

        *ret_n = r ? 0 : task.n_done;
        *ret_more = r ? 0 : task.more;
        return r;
}

int ds_profile_db_forget(ds_profile_db *db, const char *model, const char *filter, uint64_t *ret_n)
{
        struct task task = {.fn = do_forget, .model = model, .filter = filter};
        int r = transact(db, &task);

        *ret_n = task.count;
        return r;
}

int ds_profile_db_calibration(ds_profile_db *db, const char *model,
        struct ds_profile_interference rows[static DS_PROFILE_INTERFERENCE_MAX], size_t *ret_n)
{
        struct task task = {.fn = do_calibration, .model = model, .cells = rows, .n = DS_PROFILE_INTERFERENCE_MAX};
        int r = transact(db, &task);

        *ret_n = r ? 0 : task.n_done;
        return r;
}

int ds_profile_db_calibrate(ds_profile_db *db, const char *model, const struct ds_profile_interference *rows, size_t n)
{
        struct task task = {.fn = do_calibrate, .model = model, .given_cells = rows, .n = n};

        return transact(db, &task);
}
