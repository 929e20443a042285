/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles on disk: reading returns what was written, for the same GPU only. Whatever happens to the file, no false row
 * is returned, and a new file works.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "supervisor/profile_db.h"
#include "util/log.h"
#include "util/macro.h"

#define MODEL "DetShare sim:h200/132"
#define NAMED "vector_add"

static char path[64], file[96], said[96];

static void setup(void)
{
        snprintf(path, sizeof(path), "/tmp/detshare-profiles.XXXXXX");
        cr_assert_not_null(mkdtemp(path));
        snprintf(file, sizeof(file), "%s/" DS_PROFILE_FILE, path);
        snprintf(said, sizeof(said), "%s.log", path);
        ds_log_to(open(said, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
}

static void teardown(void)
{
        char command[256];

        snprintf(command, sizeof(command), "rm -rf %s %s", path, said);
        cr_assert_eq(system(command), 0);
}

TestSuite(profile_db, .init = setup, .fini = teardown, .timeout = 120);

/* Number of log lines that contain the words. */
static int lines(const char *words)
{
        FILE *f = fopen(said, "r");
        char line[1024];
        int n = 0;

        cr_assert_not_null(f);
        while (fgets(line, sizeof(line), f))
                n += strstr(line, words) != NULL;
        fclose(f);
        return n;
}

static struct ds_profile_row row_of(uint64_t key)
{
        struct ds_profile_row row = {.key = key, .grid = {(uint32_t)key, 2, 1}, .block = {256, 1, 1}};

        ds_profile_set_name(&row, NAMED);
        return row;
}

static struct ds_profile_row with_points(uint64_t key)
{
        struct ds_profile_row row = row_of(key);

        row.bound = 2;
        row.footprint = 5 << 20;
        row.n_points = 3;
        for (uint32_t i = 0; i < 3; i++)
                row.points[i] = (struct ds_profile_point){.n_sms = 16 * (i + 1), .samples = i + 1, .mean_ns = 900 - i};
        return row;
}

/* Writes a file with rows 1 to n; the odd rows have points. */
static void make(uint64_t n)
{
        ds_profile_db *db = ds_profile_db_open(path, 0);

        for (uint64_t key = 1; key <= n; key++) {
                struct ds_profile_row row = key % 2 ? with_points(key) : row_of(key);

                cr_assert_eq(ds_profile_db_put(db, MODEL, &row, 1), 0);
        }
        ds_profile_db_close(db);
}

static void assert_points(const struct ds_profile_row *row)
{
        struct ds_profile_row expected = with_points(row->key);

        cr_assert_eq(row->n_points, 3);
        cr_assert_eq(row->bound, 2);
        cr_assert_eq(row->footprint, expected.footprint);
        cr_assert_eq(memcmp(row->points, expected.points, 3 * sizeof(row->points[0])), 0);
}

static struct ds_profile_figures figures_of(const ds_profile_db *db)
{
        struct ds_profile_figures figures;

        ds_profile_db_figures(db, &figures);
        return figures;
}

/* Asserts that the database works: rows that are put are returned, also after reopening if on_disk. */
static void assert_works(ds_profile_db *db, int on_disk)
{
        struct ds_profile_row row = with_points(77), back = row_of(77);

        cr_assert_eq(figures_of(db).in_memory, !on_disk);
        cr_assert_eq(ds_profile_db_put(db, MODEL, &row, 1), 0);
        if (on_disk) {
                ds_profile_db_close(db);
                db = ds_profile_db_open(path, 0);
        }
        cr_assert_eq(ds_profile_db_see(db, MODEL, &back, 1), 0);
        assert_points(&back);
        ds_profile_db_close(db);
}

Test(profile_db, rows_get_names_and_refined_points)
{
        struct ds_profile_row seen[2] = {row_of(UINT64_MAX), row_of(5)}, refined = with_points(UINT64_MAX), list[4];
        ds_profile_db *db = ds_profile_db_open(path, 0);
        struct stat st;
        size_t n;
        int more;

        cr_assert_eq(ds_profile_db_see(db, MODEL, seen, 2), 0);
        cr_assert_eq(seen[0].n_points + seen[1].n_points, 0);
        cr_assert_eq(ds_profile_db_refine(db, MODEL, &refined, 1), 0);
        refined.key = 6;
        cr_assert_eq(ds_profile_db_refine(db, MODEL, &refined, 1), 0);
        cr_assert_eq(figures_of(db).unknown, 1, "of a kernel that nobody named");
        ds_profile_db_close(db);
        cr_assert_eq(stat(file, &st), 0);
        cr_assert_eq(st.st_mode & 0777, 0600);
        db = ds_profile_db_open(path, 0);
        cr_assert_eq(ds_profile_db_see(db, MODEL, seen, 2), 0);
        assert_points(&seen[0]);
        cr_assert_eq(seen[1].n_points, 0);
        cr_assert_eq(ds_profile_db_list(db, MODEL, 0, "", 0, list, 4, &n, &more), 0);
        cr_assert_eq(n, 2);
        cr_assert_eq(more, 0);
        cr_assert_str_eq(list[0].name, NAMED);
        cr_assert_eq(list[0].key, UINT64_MAX);
        cr_assert_eq(list[0].grid[1], 2);
        cr_assert_eq(list[0].block[0], 256);
        assert_points(&list[0]);
        cr_assert_eq(figures_of(db).rows, 2);
        ds_profile_db_close(db);
        cr_assert_eq(lines(""), 0);
}

/* A new worker reports one point of a row before it has received the stored points: better measured points stay. */
Test(profile_db, better_known_points_stay)
{
        struct ds_profile_row row = row_of(1), all = row_of(1);
        ds_profile_db *db;

        make(1);
        db = ds_profile_db_open(path, 0);
        row.n_points = 2;
        row.points[0] = (struct ds_profile_point){.n_sms = 32, .samples = 9, .mean_ns = 5};
        row.points[1] = (struct ds_profile_point){.n_sms = 48, .samples = 1, .mean_ns = 6};
        cr_assert_eq(ds_profile_db_refine(db, MODEL, &row, 1), 0);
        cr_assert_eq(ds_profile_db_see(db, MODEL, &row, 1), 0);
        cr_assert_eq(row.bound, 2, "nothing else was said of it");
        cr_assert_eq(row.n_points, 3);
        cr_assert_eq(row.points[0].mean_ns, 900);
        cr_assert_eq(row.points[1].mean_ns, 5, "more samples came");
        cr_assert_eq(row.points[2].mean_ns, 898, "more were there");
        for (uint32_t i = 0; i < DS_PROFILE_POINTS_MAX; i++)
                all.points[all.n_points++] = (struct ds_profile_point){100 + i, 1, 1};
        cr_assert_eq(ds_profile_db_refine(db, MODEL, &all, 1), 0);
        cr_assert_eq(ds_profile_db_see(db, MODEL, &row, 1), 0);
        cr_assert_eq(row.n_points, DS_PROFILE_POINTS_MAX);
        cr_assert_eq(row.points[0].n_sms, 100, "what came has the room");
        ds_profile_db_close(db);
}

Test(profile_db, another_gpu_knows_nothing_of_it)
{
        const char *others[] = {"DetShare sim:h200/130", "DetShare sim:a2000/26", ""};
        struct ds_profile_row row = row_of(1);
        ds_profile_db *db;
        uint64_t gone;

        make(1);
        db = ds_profile_db_open(path, 0);
        for (size_t i = 0; i < DS_ARRAY_SIZE(others); i++) {
                cr_assert_eq(ds_profile_db_see(db, others[i], &row, 1), 0);
                cr_assert_eq(row.n_points, 0);
        }
        cr_assert_eq(ds_profile_db_forget(db, others[0], "", &gone), 0);
        cr_assert_eq(gone, 1);
        cr_assert_eq(ds_profile_db_see(db, MODEL, &row, 1), 0);
        assert_points(&row);
        ds_profile_db_close(db);
}

Test(profile_db, lists_are_paged_and_filtered)
{
        struct ds_profile_row row, list[8];
        uint64_t after = 0, gone, now = (uint64_t)time(NULL) * 1000;
        ds_profile_db *db;
        size_t n, total = 0;
        int more = 1;

        make(20);
        db = ds_profile_db_open(path, 0);
        row = row_of(21);
        ds_profile_set_name(&row, "gemm\n\x1b[31m128%_");
        cr_assert_str_eq(row.name, "gemm??[31m128%_");
        cr_assert_eq(ds_profile_db_put(db, MODEL, &row, 1), 0);
        while (more) {
                cr_assert_eq(ds_profile_db_list(db, MODEL, after, "", 0, list, 8, &n, &more), 0);
                cr_assert_eq(n, more ? 8 : 5);
                for (size_t i = 0; i < n; i++)
                        cr_assert_eq(list[i].key, ++total);
                after = list[n - 1].id;
        }
        cr_assert_eq(total, 21);
        cr_assert_eq(ds_profile_db_list(db, MODEL, 0, "m128%", 0, list, 8, &n, &more), 0);
        cr_assert_eq(n, 1);
        cr_assert_eq(ds_profile_db_list(db, MODEL, 0, "", now + 3600000, list, 8, &n, &more), 0);
        cr_assert_eq(n, 0);
        cr_assert_eq(ds_profile_db_forget(db, MODEL, "x' OR '1'='1", &gone), 0);
        cr_assert_eq(gone, 0);
        cr_assert_eq(ds_profile_db_forget(db, MODEL, NAMED, &gone), 0);
        cr_assert_eq(gone, 20);
        cr_assert_eq(figures_of(db).rows, 1);
        ds_profile_db_close(db);
}

Test(profile_db, the_least_used_goes)
{
        ds_profile_db *db = ds_profile_db_open(path, 32);
        struct ds_profile_row row;

        for (uint64_t key = 1; key <= 60; key++) {
                row = with_points(key);
                cr_assert_eq(ds_profile_db_put(db, MODEL, &row, 1), 0);
                usleep(2000); /* so long that the row's time of use, in ms, is another */
                row = row_of(1);
                cr_assert_eq(ds_profile_db_see(db, MODEL, &row, 1), 0);
                cr_assert_eq(row.n_points, 3, "the first one is used all the time");
                cr_assert_leq(figures_of(db).rows, 32);
        }
        row = row_of(60);
        cr_assert_eq(ds_profile_db_see(db, MODEL, &row, 1), 0);
        cr_assert_eq(row.n_points, 3);
        row = row_of(2);
        cr_assert_eq(ds_profile_db_see(db, MODEL, &row, 1), 0);
        cr_assert_eq(row.n_points, 0);
        ds_profile_db_close(db);
}

/* A program that launches a kernel in very many shapes does not evict measured rows of others. */
Test(profile_db, unmeasured_rows_are_evicted_first)
{
        ds_profile_db *db = ds_profile_db_open(path, 64);
        struct ds_profile_row row;

        for (uint64_t key = 1; key <= 16; key++) {
                row = with_points(key);
                cr_assert_eq(ds_profile_db_put(db, MODEL, &row, 1), 0);
        }
        for (uint64_t key = 100; key < 400; key++) {
                row = row_of(key);
                cr_assert_eq(ds_profile_db_see(db, MODEL, &row, 1), 0);
        }
        cr_assert_leq(figures_of(db).rows, 64);
        for (uint64_t key = 1; key <= 16; key++) {
                row = row_of(key);
                cr_assert_eq(ds_profile_db_see(db, MODEL, &row, 1), 0);
                cr_expect_gt(row.n_points, 0, "%llu", (unsigned long long)key);
        }
        ds_profile_db_close(db);
}

Test(profile_db, rows_that_cannot_be)
{
        struct ds_profile_row row = with_points(1);

        cr_assert_null(ds_profile_row_wrong(&row));
        row.points[2].n_sms = row.points[1].n_sms;
        cr_assert_not_null(ds_profile_row_wrong(&row));
        row = with_points(1);
        row.points[0].mean_ns = 0;
        cr_assert_not_null(ds_profile_row_wrong(&row));
        row.points[0].mean_ns = UINT64_MAX;
        cr_assert_not_null(ds_profile_row_wrong(&row));
        row = with_points(1);
        row.points[0].samples = 0;
        cr_assert_not_null(ds_profile_row_wrong(&row));
        row = with_points(1);
        row.n_points = DS_PROFILE_POINTS_MAX + 1;
        cr_assert_not_null(ds_profile_row_wrong(&row));
        row = with_points(1);
        row.bound = 3;
        cr_assert_not_null(ds_profile_row_wrong(&row));
        row.bound = row.name[0] = 0;
        cr_assert_not_null(ds_profile_row_wrong(&row));
}

/* --- damage ------------------------------------------------------------------------------------------------------- */

static void sql(const char *text)
{
        sqlite3 *db;
        char *error = NULL;

        cr_assert_eq(sqlite3_open(file, &db), SQLITE_OK);
        cr_assert_eq(sqlite3_exec(db, text, NULL, NULL, &error), SQLITE_OK, "%s", error);
        sqlite3_close(db);
}

/* A row that another program changed is deleted and counted, not returned. */
Test(profile_db, rows_that_were_changed)
{
        const char *changes[] = {"UPDATE profiles SET points='16:800ns/1' WHERE key=1",
                "UPDATE profiles SET bound=1 WHERE key=1", "UPDATE profiles SET key=11 WHERE key=1",
                "UPDATE profiles SET points='garbage' WHERE key=1", "UPDATE profiles SET footprint=1 WHERE key=1",
                "UPDATE profiles SET footprint=-1 WHERE key=1",
                "UPDATE profiles SET points='32:1ns/1 16:1ns/1' WHERE key=1",
                "UPDATE profiles SET checksum=0 WHERE key=1", "UPDATE profiles SET grid='' WHERE key=1",
                "UPDATE profiles SET kernel=x'00ff' WHERE key=1", "UPDATE profiles SET points=x'ffffffff' WHERE key=1"};
        struct ds_profile_row row, list[16];
        ds_profile_db *db;
        size_t n;
        int more;

        for (size_t i = 0; i < DS_ARRAY_SIZE(changes); i++) {
                unlink(file);
                make(3);
                sql(changes[i]);
                db = ds_profile_db_open(path, 0);
                row = row_of(i == 2 ? 11 : 1);
                cr_assert_eq(ds_profile_db_see(db, MODEL, &row, 1), 0);
                cr_assert_eq(row.n_points, 0, "%s", changes[i]);
                cr_assert_eq(figures_of(db).refused, 1, "%s", changes[i]);
                row = row_of(3);
                cr_assert_eq(ds_profile_db_see(db, MODEL, &row, 1), 0);
                assert_points(&row);
                cr_assert_eq(ds_profile_db_list(db, MODEL, 0, "", 0, list, 16, &n, &more), 0);
                cr_assert_eq(n, 3, "a new one without points");
                ds_profile_db_close(db);
                sql("DELETE FROM profiles WHERE key IN (1, 11)");
                make(1);
                sql(changes[i]);
                db = ds_profile_db_open(path, 0);
                cr_assert_eq(ds_profile_db_list(db, MODEL, 0, "", 0, list, 16, &n, &more), 0);
                cr_assert_eq(n, 2, "%s", changes[i]);
                cr_assert_eq(figures_of(db).refused, 1);
                ds_profile_db_close(db);
        }
}

/* Asserts that a damaged file was moved aside with one log line, and a new one begun. */
static void assert_replaced(const char *why)
{
        char aside[128];
        struct ds_profile_row row = row_of(1);
        ds_profile_db *db = ds_profile_db_open(path, 0);

        cr_assert_eq(ds_profile_db_see(db, MODEL, &row, 1), 0);
        cr_assert_eq(row.n_points, 0);
        snprintf(aside, sizeof(aside), "%s.damaged", file);
        cr_assert_eq(access(aside, F_OK), 0);
        cr_assert_eq(lines(why), 1);
        cr_assert_eq(lines(""), 1);
        assert_works(db, 1);
        cr_assert_eq(lines(""), 1);
}

Test(profile_db, a_file_of_somebody_else)
{
        sql("CREATE TABLE songs(name TEXT); INSERT INTO songs VALUES('x')");
        assert_replaced("is not a profile database");
}

Test(profile_db, a_file_of_a_newer_program)
{
        make(3);
        sql("PRAGMA user_version=5");
        assert_replaced("is from a newer version");
}

#define NO_NOTES                                                                                              \
        "DROP INDEX profiles_notes; ALTER TABLE profiles DROP COLUMN note; ALTER TABLE profiles DROP COLUMN " \
        "note_group;"

/* A file of version 1 has no footprints of kernels: its rows stay, and new rows have a footprint. */
Test(profile_db, a_file_of_an_older_program)
{
        struct ds_profile_row row = with_points(7), back = row_of(7);
        ds_profile_db *db = ds_profile_db_open(path, 0);

        row.footprint = 0;
        cr_assert_eq(ds_profile_db_put(db, MODEL, &row, 1), 0);
        ds_profile_db_close(db);
        sql(NO_NOTES "ALTER TABLE profiles DROP COLUMN footprint; ALTER TABLE profiles DROP COLUMN forms; PRAGMA "
                     "user_version=1");
        for (int i = 0; i < 2; i++) {
                db = ds_profile_db_open(path, 0);
                cr_assert_eq(ds_profile_db_see(db, MODEL, &back, 1), 0);
                cr_assert_eq(back.n_points, 3);
                cr_assert_eq(back.footprint, 0);
                cr_assert_eq(figures_of(db).refused, 0);
                ds_profile_db_close(db);
        }
        assert_works(ds_profile_db_open(path, 0), 1);
        cr_assert_eq(lines(""), 0);
}

/* A file of version 2 has no costs of forms. */
Test(profile_db, a_file_without_forms)
{
        struct ds_profile_row row = with_points(7), back = row_of(7);
        ds_profile_db *db = ds_profile_db_open(path, 0);

        cr_assert_eq(ds_profile_db_put(db, MODEL, &row, 1), 0);
        ds_profile_db_close(db);
        sql(NO_NOTES "ALTER TABLE profiles DROP COLUMN forms; PRAGMA user_version=2");
        db = ds_profile_db_open(path, 0);
        cr_assert_eq(ds_profile_db_see(db, MODEL, &back, 1), 0);
        cr_assert_eq(back.n_points, 3);
        cr_assert_eq(back.footprint, row.footprint);
        cr_assert_eq(back.sliced.samples, 0);
        cr_assert_eq(figures_of(db).refused, 0);
        ds_profile_db_close(db);
        cr_assert_eq(lines(""), 0);
}

/* Costs of forms are stored; a cost with more samples stays. */
Test(profile_db, forms)
{
        struct ds_profile_row row = with_points(7), back = row_of(7);
        ds_profile_db *db = ds_profile_db_open(path, 0);

        row.sliced = (struct ds_profile_form){1030, 12};
        cr_assert_eq(ds_profile_db_put(db, MODEL, &row, 1), 0);
        row.sliced = (struct ds_profile_form){2000, 3};
        row.persistent = (struct ds_profile_form){1008, 4};
        cr_assert_eq(ds_profile_db_refine(db, MODEL, &row, 1), 0);
        ds_profile_db_close(db);
        db = ds_profile_db_open(path, 0);
        cr_assert_eq(ds_profile_db_see(db, MODEL, &back, 1), 0);
        cr_assert(back.sliced.permille == 1030 && back.sliced.samples == 12);
        cr_assert(back.persistent.permille == 1008 && back.persistent.samples == 4);
        row.persistent.permille = 1000001;
        cr_assert_not_null(ds_profile_row_wrong(&row));
        ds_profile_db_close(db);
        sql("UPDATE profiles SET forms='sliced:1/12 persistent:1008/4'");
        db = ds_profile_db_open(path, 0);
        back = row_of(7);
        cr_assert_eq(ds_profile_db_see(db, MODEL, &back, 1), 0);
        cr_assert_eq(back.sliced.samples, 0, "it is not what was written");
        cr_assert_eq(figures_of(db).refused, 1);
        ds_profile_db_close(db);
}

Test(profile_db, a_file_without_its_tables)
{
        make(3);
        sql("DROP TABLE profiles");
        assert_replaced("is damaged");
}

/* The schema is text in the file. If one bit of a column's name flips, the damage is found when the column is
 * needed. */
Test(profile_db, a_file_without_one_of_its_columns)
{
        make(3);
        sql("ALTER TABLE profiles RENAME COLUMN points TO pointc");
        assert_replaced("is damaged");
}

Test(profile_db, a_file_that_is_text)
{
        FILE *f = fopen(file, "w");

        for (int i = 0; i < 1000; i++)
                fprintf(f, "this is no database\n");
        fclose(f);
        assert_replaced("is damaged");
}

Test(profile_db, a_file_that_was_cut)
{
        struct stat st;

        make(200);
        cr_assert_eq(stat(file, &st), 0);
        cr_assert_eq(truncate(file, st.st_size / 2), 0);
        assert_replaced("is damaged");
}

/* Bytes of the file change anywhere. The database moves the file aside or refuses a row, or the bytes have no
 * meaning: every returned row is one that was written. */
Test(profile_db, bytes_that_flipped)
{
        struct ds_profile_row list[128];
        unsigned seed = 1;
        struct stat st;
        size_t n;
        int more;

        for (int i = 0; i < 60; i++) {
                ds_profile_db *db;
                int fd;

                unlink(file);
                make(50);
                cr_assert_eq(stat(file, &st), 0);
                fd = open(file, O_RDWR);
                for (int k = 0; k <= i % 4; k++) {
                        off_t at = rand_r(&seed) % st.st_size;
                        uint8_t byte;

                        cr_assert_eq(pread(fd, &byte, 1, at), 1);
                        byte ^= (uint8_t)(1 + rand_r(&seed) % 255);
                        cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
                }
                close(fd);
                db = ds_profile_db_open(path, 0);
                cr_assert_eq(ds_profile_db_list(db, MODEL, 0, "", 0, list, 128, &n, &more), 0);
                cr_assert_leq(n, 50);
                for (size_t k = 0; k < n; k++) {
                        cr_assert(list[k].key >= 1 && list[k].key <= 50);
                        if (list[k].key % 2)
                                assert_points(&list[k]);
                        else
                                cr_assert_eq(list[k].n_points, 0);
                }
                assert_works(db, 1);
        }
}

/* --- directories that cannot be written --------------------------------------------------------------------------- */

Test(profile_db, without_a_directory_it_is_in_memory)
{
        assert_works(ds_profile_db_open(NULL, 0), 0);
        cr_assert_eq(lines(""), 0, "the daemon says it");
        assert_works(ds_profile_db_open("/nonexistent/a/b", 0), 0);
        cr_assert_eq(lines("/nonexistent/a/b: "), 1);
}

Test(profile_db, a_path_that_is_no_file)
{
        cr_assert_eq(mkdir(file, 0700), 0);
        assert_works(ds_profile_db_open(path, 0), 0);
        cr_assert_eq(lines("profiles are kept in memory"), 1);
        cr_assert_eq(rmdir(file), 0);
        cr_assert_eq(symlink("/tmp/elsewhere", file), 0);
        assert_works(ds_profile_db_open(path, 0), 0);
        cr_assert_eq(lines("profiles are kept in memory"), 2);
        cr_assert_neq(access("/tmp/elsewhere", F_OK), 0);
}

Test(profile_db, a_directory_that_others_may_write)
{
        cr_assert_eq(chmod(path, 0777), 0);
        assert_works(ds_profile_db_open(path, 0), 0);
        cr_assert_eq(lines("others may write it"), 1);
}

Test(profile_db, the_second_one_keeps_its_own)
{
        ds_profile_db *first = ds_profile_db_open(path, 0), *second = ds_profile_db_open(path, 0);

        cr_assert_eq(lines("another daemon has it"), 1);
        assert_works(second, 0);
        assert_works(first, 1);
}

/* Runs fn in a process without root's rights, since root may write everywhere. */
static void as_nobody(void (*fn)(void))
{
        int status;
        pid_t pid;

        cr_assert_eq(chown(path, 65534, 65534), 0);
        cr_assert_eq(chmod(path, 0755), 0);
        pid = fork();
        if (pid == 0) {
                if (setgid(65534) || setuid(65534))
                        _exit(9);
                fn();
                _exit(0);
        }
        cr_assert_gt(pid, 0);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
}

static void read_only(void)
{
        ds_profile_db *db;
        struct ds_profile_row row = row_of(1);

        if (chmod(path, 0555))
                _exit(1);
        db = ds_profile_db_open(path, 0);
        if (!figures_of(db).in_memory || ds_profile_db_see(db, MODEL, &row, 1) || ds_profile_db_put(db, MODEL, &row, 1))
                _exit(2);
        ds_profile_db_close(db);
}

Test(profile_db, a_directory_that_is_read_only)
{
        if (geteuid()) { /* this user has no root's rights and cannot write there anyway */
                read_only();
                cr_assert_eq(chmod(path, 0755), 0);
        } else
                as_nobody(read_only);
        cr_assert_eq(lines("profiles are kept in memory"), 1);
}

/* A limit on file size acts like a full disk: existing rows stay, and later ones are not lost. */
Test(profile_db, a_full_disk)
{
        struct rlimit limit, before;
        struct ds_profile_row row;
        ds_profile_db *db;
        struct stat st;
        int failures = 0;

        signal(SIGXFSZ, SIG_IGN);
        make(20);
        cr_assert_eq(stat(file, &st), 0);
        cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
        limit = before;
        db = ds_profile_db_open(path, 0);
        limit.rlim_cur = (rlim_t)st.st_size / 2;
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        for (uint64_t key = 100; key < 400; key++) {
                row = with_points(key);
                failures += ds_profile_db_put(db, MODEL, &row, 1) == -EIO;
        }
        cr_assert_gt(failures, 0);
        cr_assert_eq(figures_of(db).failed, (uint64_t)failures);
        cr_assert_eq(lines("may be lost"), 1, "said once");
        row = row_of(1);
        (void)ds_profile_db_see(db, MODEL, &row, 1);
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
        row = row_of(1);
        cr_assert_eq(ds_profile_db_see(db, MODEL, &row, 1), 0);
        assert_points(&row);
        assert_works(db, 1);
}

/* --- calibration -------------------------------------------------------------------------------------------------- */

Test(profile_db, a_calibration_replaces_the_last_one)
{
        struct ds_profile_interference cells[DS_PROFILE_INTERFERENCE_MAX] = {{0}}, back[DS_PROFILE_INTERFERENCE_MAX];
        ds_profile_db *db = ds_profile_db_open(path, 0);
        size_t n;

        for (uint32_t i = 0; i < DS_ARRAY_SIZE(cells); i++)
                cells[i] = (struct ds_profile_interference){i % 3, i / 3 % 3, i, i * 2, 1000 + i, 900 - i};
        cr_assert_eq(ds_profile_db_calibrate(db, MODEL, cells, DS_ARRAY_SIZE(cells)), 0);
        ds_profile_db_close(db);
        db = ds_profile_db_open(path, 0);
        cr_assert_eq(ds_profile_db_calibration(db, MODEL, back, &n), 0);
        cr_assert_eq(n, DS_ARRAY_SIZE(cells));
        cr_assert_eq(ds_profile_db_calibration(db, "other/1", back, &n), 0);
        cr_assert_eq(n, 0);
        cr_assert_eq(ds_profile_db_calibrate(db, MODEL, &cells[7], 2), 0);
        ds_profile_db_close(db);
        sql("UPDATE interference SET ls_permille=1 WHERE be_sms=8");
        db = ds_profile_db_open(path, 0);
        cr_assert_eq(ds_profile_db_calibration(db, MODEL, back, &n), 0);
        cr_assert_eq(n, 1, "the one that was changed is not believed");
        cr_assert_eq(memcmp(&back[0], &cells[7], sizeof(back[0])), 0);
        cr_assert_eq(figures_of(db).refused, 1);
        ds_profile_db_close(db);
}

/* A note of the group with three values. */
static struct ds_profile_row note_of(uint64_t group, uint64_t key)
{
        struct ds_profile_row row = {.key = key, .of_policy = 1, .group = group, .n_note = 3};

        ds_profile_set_name(&row, "detshare: best effort on 66 of 132 SMs");
        row.note[0] = 1;
        row.note[1] = UINT64_MAX;
        row.note[2] = key;
        return row;
}

/* Asks for a note as the worker does. Returns the number of its values. */
static uint32_t note_asked(ds_profile_db *db, const char *model, uint64_t group, uint64_t key)
{
        struct ds_profile_row row = {.key = key, .of_policy = 1, .group = group}, expected = note_of(group, key);

        ds_profile_set_name(&row, "?");
        cr_assert_eq(ds_profile_db_see(db, model, &row, 1), 0);
        if (row.n_note) {
                cr_assert_str_eq(row.name, expected.name);
                cr_assert_eq(memcmp(row.note, expected.note, sizeof(row.note)), 0);
        }
        return row.n_note;
}

static void note_written(ds_profile_db *db, uint64_t group, uint64_t key)
{
        struct ds_profile_row row = note_of(group, key);

        cr_assert_eq(ds_profile_db_refine(db, MODEL, &row, 1), 0);
}

/* A note outlasts the file's closing, for the same GPU only. Asking for a note makes no row. */
Test(profile_db, notes_are_kept)
{
        ds_profile_db *db = ds_profile_db_open(path, 0);
        struct ds_profile_row list[2];
        size_t n;
        int more;

        cr_assert_eq(note_asked(db, MODEL, 5, 7), 0);
        cr_assert_eq(figures_of(db).rows, 0);
        note_written(db, 5, 7);
        ds_profile_db_close(db);
        db = ds_profile_db_open(path, 0);
        cr_assert_eq(note_asked(db, MODEL, 5, 7), 3);
        cr_assert_eq(note_asked(db, MODEL, 5, 8), 0);
        cr_assert_eq(note_asked(db, "DetShare sim:a2000/26", 5, 7), 0);
        cr_assert_eq(ds_profile_db_list(db, MODEL, 0, "detshare: ", 0, list, 2, &n, &more), 0);
        cr_assert_eq(n, 1);
        cr_assert(list[0].of_policy && list[0].group == 5 && list[0].n_note == 3);
        cr_assert_eq(figures_of(db).refused, 0);
        ds_profile_db_close(db);
}

/* Many notes of one group displace neither those of another group nor the one in use. */
Test(profile_db, notes_of_a_group_are_few)
{
        ds_profile_db *db = ds_profile_db_open(path, 0);

        note_written(db, 1, 1000);
        note_written(db, 2, 2000);
        for (uint64_t key = 1; key <= 2 * DS_PROFILE_GROUP_MAX; key++) {
                const struct timespec ms = {.tv_nsec = 1100000};

                note_written(db, 2, key);
                cr_assert_eq(note_asked(db, MODEL, 2, 2000), 3, "after %" PRIu64, key);
                nanosleep(&ms, NULL);
        }
        cr_assert_eq(figures_of(db).rows, DS_PROFILE_GROUP_MAX + 1);
        cr_assert_eq(note_asked(db, MODEL, 1, 1000), 3);
        cr_assert_eq(note_asked(db, MODEL, 2, 1), 0);
        cr_assert_eq(note_asked(db, MODEL, 2, 2 * DS_PROFILE_GROUP_MAX), 3);
        ds_profile_db_close(db);
}

/* Measured kernels and notes are evicted after kernels that were only seen. */
Test(profile_db, notes_outlast_unmeasured_rows)
{
        ds_profile_db *db = ds_profile_db_open(path, 8);

        note_written(db, 1, 1000);
        for (uint64_t key = 1; key <= 40; key++) {
                struct ds_profile_row row = row_of(key);

                cr_assert_eq(ds_profile_db_see(db, MODEL, &row, 1), 0);
        }
        cr_assert_leq(figures_of(db).rows, 8);
        cr_assert_eq(note_asked(db, MODEL, 1, 1000), 3);
        ds_profile_db_close(db);
}

/* A kernel whose key is that of a note does not replace it, nor the reverse. */
Test(profile_db, kernels_and_notes_do_not_mix)
{
        struct ds_profile_row kernel = with_points(7), seen = row_of(7), other = with_points(8), back = row_of(8);
        ds_profile_db *db = ds_profile_db_open(path, 0);

        note_written(db, 5, 7);
        cr_assert_eq(ds_profile_db_see(db, MODEL, &seen, 1), 0);
        cr_assert_eq(seen.n_points + seen.n_note, 0);
        cr_assert_eq(ds_profile_db_refine(db, MODEL, &kernel, 1), 0);
        cr_assert_eq(note_asked(db, MODEL, 5, 7), 3);
        cr_assert_eq(ds_profile_db_put(db, MODEL, &other, 1), 0);
        note_written(db, 5, 8);
        cr_assert_eq(note_asked(db, MODEL, 5, 8), 0);
        cr_assert_eq(ds_profile_db_see(db, MODEL, &back, 1), 0);
        assert_points(&back);
        ds_profile_db_close(db);
}

/* A note that somebody changed in the file is not used. */
Test(profile_db, a_note_that_was_changed)
{
        static const char *const changes[] = {"UPDATE profiles SET note='1 2 3'", "UPDATE profiles SET note_group=6",
                "UPDATE profiles SET note='1 x 3'", "UPDATE profiles SET model='" MODEL "', key=8"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(changes); i++) {
                ds_profile_db *db = ds_profile_db_open(path, 0);

                note_written(db, 5, 7);
                ds_profile_db_close(db);
                sql(changes[i]);
                db = ds_profile_db_open(path, 0);
                cr_assert_eq(note_asked(db, MODEL, 5, i == 3 ? 8 : 7), 0, "%s", changes[i]);
                cr_assert_eq(figures_of(db).refused, 1, "%s", changes[i]);
                ds_profile_db_close(db);
        }
}

/* A file of version 3 has no notes. */
Test(profile_db, a_file_without_notes)
{
        struct ds_profile_row back = row_of(77);
        ds_profile_db *db;

        assert_works(ds_profile_db_open(path, 0), 1);
        sql(NO_NOTES "PRAGMA user_version=3");
        db = ds_profile_db_open(path, 0);
        cr_assert_eq(ds_profile_db_see(db, MODEL, &back, 1), 0);
        assert_points(&back);
        note_written(db, 5, 7);
        cr_assert_eq(note_asked(db, MODEL, 5, 7), 3);
        ds_profile_db_close(db);
        cr_assert_eq(lines(""), 0);
}
