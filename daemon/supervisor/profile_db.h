/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile database: an SQLite file whose content is checked before use
 *
 * It has one human-readable row per GPU, kernel and launch shape, and the calibration of each GPU. A GPU is identified
 * by its name and its number of SMs.
 *
 * The file belongs to the daemon, but may contain anything: disks fail, power fails, another version may have written
 * it. So the whole file is checked when it is opened, and each row when it is read: a checksum over all its values,
 * ordered points, plausible times. A file that is damaged, of a foreign format or newer than this program is moved
 * aside (".damaged", replacing an earlier one) and a new one is created, at the start or whenever the damage is found.
 * A row that fails is deleted and counted. Damaged data is never used.
 *
 * A row may also be a note of a policy (struct detshare_note in policies/detshare_policy.h). The key of a note is a hash
 * of the policy, the group and the policy's own key.
 *
 * The number of rows, of notes in a group and of pages is bounded; the least recently used rows are deleted first.
 * Without a usable file the same data is kept in memory. Writes do not wait for the disk: a power failure may cost the last minutes, not the
 * file.
 *
 * All functions are called from one thread, which may be any. Memory comes from the C library, because the daemon's
 * allocator belongs to the loop's thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct ds_profile_db ds_profile_db;

#define DS_PROFILE_NAME_MAX 255u
#define DS_PROFILE_MODEL_MAX 127u
#define DS_PROFILE_POINTS_MAX 24u
#define DS_PROFILE_ROWS_MAX 32768u
#define DS_PROFILE_INTERFERENCE_MAX 256u /* most cells in a GPU's calibration */
#define DS_PROFILE_LOADS 3u              /* kinds of kernels that a calibration measures: compute, read, write */
#define DS_PROFILE_NOTE_MAX 40u          /* most values of a policy's note */
#define DS_PROFILE_GROUP_MAX 64u         /* notes kept of each group */
#define DS_PROFILE_FILE "profiles.db"

/* Duration of a kernel on a number of SMs. */
struct ds_profile_point {
        uint32_t n_sms, samples;
        uint64_t mean_ns;
};

/* Cost of a form of a kernel: its duration relative to the native kernel's, permille. samples 0: not measured. */
struct ds_profile_form {
        uint32_t permille, samples;
};

struct ds_profile_row {
        uint64_t id; /* row number in the file; a list continues behind it */
        uint64_t key;
        char name[DS_PROFILE_NAME_MAX + 1]; /* name of the kernel, printable */
        uint32_t grid[3], block[3], shared_bytes;
        uint32_t bound; /* bound of the kernel (compute or memory), as in detshare_policy.h */
        struct ds_profile_form sliced, persistent;
        uint32_t n_points;
        struct ds_profile_point points[DS_PROFILE_POINTS_MAX];
        uint64_t footprint;           /* minimum of bytes of memory that a launch reads or writes; 0: not known */
        uint64_t changed_ms, used_ms; /* time of the last change and of the last use, ms since 1970 */
        uint32_t of_policy;           /* 1: a note of a policy; the name is its text, and nothing else is set */
        uint32_t n_note;              /* values of the note */
        uint64_t group, note[DS_PROFILE_NOTE_MAX];
};

/* Fields as in detshare_policy.h. */
struct ds_profile_interference {
        uint32_t ls_load, be_load, be_sms, be_blocks, ls_permille, be_permille;
};

struct ds_profile_figures {
        uint64_t rows, bytes;
        uint64_t refused; /* rows that failed their checks and were deleted */
        uint64_t unknown; /* refined profiles that had no row in the file */
        uint64_t failed;  /* failed reads and writes of the file */
        uint32_t in_memory;
};

/*
 * Opens the database in the state directory `path`; NULL: in memory. max_rows 0: DS_PROFILE_ROWS_MAX. If the file
 * cannot be used, the reason is logged and the database is in memory. Returns NULL only if there is no memory.
 */
ds_profile_db *ds_profile_db_open(const char *path, uint64_t max_rows);
ds_profile_db *ds_profile_db_close(ds_profile_db *db);
void ds_profile_db_figures(const ds_profile_db *db, struct ds_profile_figures *ret);

/* Checks a row. Returns NULL if it is valid, otherwise the reason as text. */
const char *ds_profile_row_wrong(const struct ds_profile_row *row);
/* Copies the name, shortened if necessary; characters that are not printable become '?'. */
void ds_profile_set_name(struct ds_profile_row *row, const char *name);

/* The functions below return 0, or -EIO if the file could not be read or written; then nothing has changed. */

/*
 * Records the use of kernels and notes. Kernels without a row get one, with the given name and shape and without points. For
 * kernels with a row, the stored bound and points are returned in rows. Notes with a row are returned with their values;
 * the others have none, and get no row.
 */
int ds_profile_db_see(ds_profile_db *db, const char *model, struct ds_profile_row *rows, size_t n);
/*
 * Updates bound, footprint and points of existing rows. Profiles without a row count in figures.unknown. A stored point
 * with more samples is kept. Writes whole notes. A row of a kernel never replaces a note, nor the reverse.
 */
int ds_profile_db_refine(ds_profile_db *db, const char *model, const struct ds_profile_row *rows, size_t n);
/* Writes whole rows and replaces existing ones. */
int ds_profile_db_put(ds_profile_db *db, const char *model, const struct ds_profile_row *rows, size_t n);
/*
 * Returns up to n rows with ids above `after` whose names contain the filter ("": all) and that changed at since_ms or
 * later. *ret_more: more rows may follow.
 */
int ds_profile_db_list(ds_profile_db *db, const char *model, uint64_t after, const char *filter, uint64_t since_ms,
        struct ds_profile_row *rows, size_t n, size_t *ret_n, int *ret_more);
int ds_profile_db_forget(ds_profile_db *db, const char *model, const char *filter, uint64_t *ret_n);
/* Returns all cells of a GPU's calibration. */
int ds_profile_db_calibration(ds_profile_db *db, const char *model,
        struct ds_profile_interference rows[static DS_PROFILE_INTERFERENCE_MAX], size_t *ret_n);
int ds_profile_db_calibrate(ds_profile_db *db, const char *model, const struct ds_profile_interference *rows, size_t n);
