/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of profiles: SQLite, and no belief in it
 *
 * One row per (GPU, kernel and launch shape), readable by people; and the calibration of each GPU. A GPU is its name
 * and its number of SMs. The file is the daemon's own, and still anything may be in it: a disk fails, a machine loses
 * power, another version wrote it. So it is checked as a whole when it is opened, and each row when it is read: a
 * checksum over all that it says, points in order, times that can be. A file that is damaged, somebody else's or newer
 * than this program is moved aside (".damaged", in place of an earlier one) and a new one begun, then and whenever it
 * is found out later; a row that fails is deleted and counted. Neither is ever used.
 *
 * Bounded: rows, and pages of the file; what was used the longest ago goes first. With no file to use, all is the same
 * in memory. Nothing here waits for the disk to have it (power loss may cost the last minutes, not the file).
 *
 * Everything is called from one thread, which may be any. Memory is the C library's: the daemon's allocator is its
 * loop's.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct ds_profile_db ds_profile_db;

#define DS_PROFILE_NAME_MAX 255u
#define DS_PROFILE_MODEL_MAX 127u
#define DS_PROFILE_POINTS_MAX 24u
#define DS_PROFILE_ROWS_MAX 32768u
#define DS_PROFILE_INTERFERENCE_MAX 256u /* rows of a GPU's calibration */
#define DS_PROFILE_LOADS 3u              /* kinds of kernels that a calibration tells apart: compute, read, write */
#define DS_PROFILE_FILE "profiles.db"

/* How long a kernel took on so many SMs. */
struct ds_profile_point {
        uint32_t n_sms, samples;
        uint64_t mean_ns;
};

/* What a form of a kernel costs: its time over the native one's, in thousandths. samples 0: not known. */
struct ds_profile_form {
        uint32_t permille, samples;
};

struct ds_profile_row {
        uint64_t id; /* of the file; by it lists are paged */
        uint64_t key;
        char name[DS_PROFILE_NAME_MAX + 1]; /* of the kernel, for people; printable */
        uint32_t grid[3], block[3], shared_bytes;
        uint32_t bound; /* as the policies' ABI has it */
        struct ds_profile_form sliced, persistent;
        uint32_t n_points;
        struct ds_profile_point points[DS_PROFILE_POINTS_MAX];
        uint64_t footprint;           /* bytes of memory that a launch reads or writes at least; 0: not known */
        uint64_t changed_ms, used_ms; /* since 1970 */
};

/* As in the policies' ABI. */
struct ds_profile_interference {
        uint32_t ls_load, be_load, be_sms, be_blocks, ls_permille, be_permille;
};

struct ds_profile_figures {
        uint64_t rows, bytes;
        uint64_t refused; /* rows that failed their checks */
        uint64_t unknown; /* refined ones that have no row any more */
        uint64_t failed;  /* times that something could not be written or read */
        uint32_t in_memory;
};

/*
 * path: the state directory, NULL: in memory. max_rows 0: DS_PROFILE_ROWS_MAX. Never fails but for memory (NULL): what
 * cannot be used is said, and another way taken.
 */
ds_profile_db *ds_profile_db_open(const char *path, uint64_t max_rows);
ds_profile_db *ds_profile_db_close(ds_profile_db *db);
void ds_profile_db_figures(const ds_profile_db *db, struct ds_profile_figures *ret);

/* Is it a row that may be kept? 0, or why not, in words. */
const char *ds_profile_row_wrong(const struct ds_profile_row *row);
/* Cuts, and what is not printable becomes '?'. */
void ds_profile_set_name(struct ds_profile_row *row, const char *name);

/* All below: 0, or -EIO when the file could not be read or written; nothing has changed then. */

/*
 * Kernels that are used now: those that are not there get a row, with the name and shape given and no points; of the
 * others what is stored of bound and points comes back.
 */
int ds_profile_db_see(ds_profile_db *db, const char *model, struct ds_profile_row *rows, size_t n);
/*
 * Bound, footprint and points of rows that are there; the others are counted as unknown. A point that rests on more
 * samples stays.
 */
int ds_profile_db_refine(ds_profile_db *db, const char *model, const struct ds_profile_row *rows, size_t n);
/* Whole rows, in place of what is there. */
int ds_profile_db_put(ds_profile_db *db, const char *model, const struct ds_profile_row *rows, size_t n);
/*
 * Up to n rows with ids above `after` whose names contain the filter ("" = all) and that changed at since_ms or later.
 * *ret_more: there may be others behind the last.
 */
int ds_profile_db_list(ds_profile_db *db, const char *model, uint64_t after, const char *filter, uint64_t since_ms,
        struct ds_profile_row *rows, size_t n, size_t *ret_n, int *ret_more);
int ds_profile_db_forget(ds_profile_db *db, const char *model, const char *filter, uint64_t *ret_n);
/* The calibration of a GPU, all of it. */
int ds_profile_db_calibration(ds_profile_db *db, const char *model,
        struct ds_profile_interference rows[static DS_PROFILE_INTERFERENCE_MAX], size_t *ret_n);
int ds_profile_db_calibrate(ds_profile_db *db, const char *model, const struct ds_profile_interference *rows, size_t n);
