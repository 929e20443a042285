/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/calibration.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "supervisor/state_dir.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/fd.h"
#include "util/log.h"
#include "util/macro.h"

#define FIRST_LINE "detshare channels 1\n"
#define FILE_MAX DS_KIB(128)
#define LOADS 3u
#define BLOCKS_MAX 65536u
#define SUM_LINE_MAX sizeof("sum 0123456789abcdef\n")
#define NEW_FILE DS_CALIBRATION_FILE ".new"

/* --- limits of the values ----------------------------------------------------------------------------------------- */

static int cell_is_wrong(const struct ds_calibration_cell *cell, uint32_t channels)
{
        return cell->ls_load >= LOADS || cell->be_load > LOADS || cell->be_channels >= channels ||
               cell->be_blocks > BLOCKS_MAX || !cell->ls_permille || cell->ls_permille > DS_CALIBRATION_PERMILLE_MAX ||
               cell->be_permille > DS_CALIBRATION_PERMILLE_MAX;
}

const char *ds_calibration_wrong(const struct ds_calibration_gpu *gpu)
{
        if (!gpu->name[0] || strchr(gpu->name, '\n'))
                return "the GPU's name is empty or has a line break";
        if (gpu->channels < 2 || gpu->channels > DS_POOL_CHANNELS_MAX)
                return "the number of channels is not accepted; at least 2 and at most 128 are";
        if (gpu->be >= gpu->channels)
                return "BE has all channels; at least one must be left";
        if (!gpu->n || gpu->n > DS_CALIBRATION_CELLS_MAX)
                return "the number of measured cells is not accepted; 1 to 128 are";
        for (uint32_t i = 0; i < gpu->n; i++)
                if (cell_is_wrong(&gpu->cells[i], gpu->channels))
                        return "a measured value is outside of its bounds";
        return NULL;
}

/* --- text format -------------------------------------------------------------------------------------------------- */

static void gpu_write(const struct ds_calibration_gpu *gpu, FILE *file)
{
        fprintf(file, "gpu %" PRIu32 " %" PRIu32 " %" PRIu32 " %s\n", gpu->channels, gpu->be, gpu->n, gpu->name);
        for (uint32_t i = 0; i < gpu->n; i++) {
                const struct ds_calibration_cell *cell = &gpu->cells[i];

                fprintf(file, "%" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 "\n",
                        cell->ls_load, cell->be_load, cell->be_channels, cell->be_blocks, cell->ls_permille,
                        cell->be_permille);
        }
}

static void sum_write(const char *text, size_t size, char ret[static SUM_LINE_MAX])
{
        snprintf(ret, SUM_LINE_MAX, "sum %016" PRIx64 "\n", (uint64_t)XXH3_64bits(text, size));
}

/* The text of the file, allocated by the C library. Returns NULL if there is no memory. */
static char *text_make(const struct ds_calibration *c, size_t *ret_size)
{
        char *text = NULL, sum[SUM_LINE_MAX];
        FILE *file = open_memstream(&text, ret_size);
        int bad;

        if (!file)
                return NULL;
        fputs(FIRST_LINE, file);
        for (size_t i = 0; i < c->n; i++)
                gpu_write(&c->gpus[i], file);
        bad = fflush(file);
        if (!bad)
                sum_write(text, *ret_size, sum);
        if (!bad)
                fputs(sum, file);
        bad |= fclose(file);
        if (!bad)
                return text;
        free(text); /* open_memstream() allocates with the C library, not with ds_alloc() */
        return NULL;
}

/* Cuts off the next line, replacing its end by NUL. Returns NULL at the end of the text. */
static char *next_line(char **text)
{
        char *line = *text, *end = strchr(line, '\n');

        if (!end)
                return NULL;
        *end = 0;
        *text = end + 1;
        return line;
}

static int gpu_read(char **text, struct ds_calibration_gpu *ret)
{
        const char *line = next_line(text);
        int at = 0;

        if (!line ||
                sscanf(line, "gpu %" SCNu32 " %" SCNu32 " %" SCNu32 " %n", &ret->channels, &ret->be, &ret->n, &at) !=
                        3 ||
                !at || strlen(line + at) > DS_CALIBRATION_NAME_MAX || ret->n > DS_CALIBRATION_CELLS_MAX)
                return -1;
        snprintf(ret->name, sizeof(ret->name), "%s", line + at);
        for (uint32_t i = 0; i < ret->n; i++) {
                struct ds_calibration_cell *cell = &ret->cells[i];

                line = next_line(text);
                if (!line || sscanf(line, "%" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32,
                                     &cell->ls_load, &cell->be_load, &cell->be_channels, &cell->be_blocks,
                                     &cell->ls_permille, &cell->be_permille) != 6)
                        return -1;
        }
        return ds_calibration_wrong(ret) ? -1 : 0;
}

/* Parses the text. Returns NULL, or the reason why it is invalid. */
static const char *text_read(struct ds_calibration *c, char *text, size_t size)
{
        const size_t first = strlen(FIRST_LINE), last = SUM_LINE_MAX - 1;
        char sum[SUM_LINE_MAX];

        if (strlen(text) != size || size < first + last || strncmp(text, FIRST_LINE, first))
                return "is not a calibration file of this version";
        sum_write(text, size - last, sum);
        if (strcmp(text + size - last, sum))
                return "is damaged";
        text[size - last] = 0;
        for (text += first; *text; c->n++)
                if (c->n == DS_CALIBRATION_GPUS_MAX || gpu_read(&text, &c->gpus[c->n]))
                        return "has values outside of their bounds";
        return NULL;
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

static void file_read(struct ds_calibration *c, int directory)
{
        ds_cleanup(ds_closep) int fd =
                openat(directory, DS_CALIBRATION_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        ds_cleanup(ds_freep) char *text = NULL;
        const char *wrong = "is too large, or not a regular file";
        struct stat st;

        if (fd < 0)
                return;
        if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size >= 0 && (uint64_t)st.st_size <= FILE_MAX) {
                text = ds_alloc0((size_t)st.st_size + 1, 1);
                wrong = "cannot be read";
        }
        if (text && read(fd, text, (size_t)st.st_size) == st.st_size)
                wrong = text_read(c, text, (size_t)st.st_size);
        if (!wrong)
                return;
        c->n = 0;
        ds_log(DS_LOG_WARNING, "%s/%s %s and is ignored: run 'detsharectl calibrate --channels' again", c->path,
                DS_CALIBRATION_FILE, wrong);
}

static int file_write_at(const struct ds_calibration *c, int directory)
{
        ds_cleanup(ds_closep) int fd =
                openat(directory, NEW_FILE, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        size_t size = 0;
        char *text;
        int r;

        if (fd < 0)
                return -errno;
        text = text_make(c, &size);
        r = text ? ds_write_all(fd, text, size) : -ENOMEM;
        free(text); /* allocated by open_memstream() */
        if (!r && renameat(directory, NEW_FILE, directory, DS_CALIBRATION_FILE) < 0)
                r = -errno;
        if (r)
                (void)unlinkat(directory, NEW_FILE, 0);
        return r;
}

/* Writes all values to the file. Returns 0 or -EIO. */
static int file_write(struct ds_calibration *c)
{
        ds_cleanup(ds_closep) int directory = -1;
        int r;

        if (!c->path[0])
                return 0;
        directory = ds_state_directory(c->path, "the calibration of memory channels is");
        if (directory < 0)
                return -EIO;
        r = file_write_at(c, directory);
        if (!r)
                return 0;
        ds_log(DS_LOG_WARNING, "%s/%s cannot be written: %s", c->path, DS_CALIBRATION_FILE, strerror(-r));
        return -EIO;
}

void ds_calibration_open(struct ds_calibration *c, const char *path)
{
        ds_cleanup(ds_closep) int directory = -1;

        *c = (struct ds_calibration){.gpus = ds_alloc0(DS_CALIBRATION_GPUS_MAX, sizeof(*c->gpus))};
        if (!path || !c->gpus)
                return;
        directory = ds_state_directory(path, "the calibration of memory channels is");
        if (directory < 0)
                return;
        snprintf(c->path, sizeof(c->path), "%s", path);
        file_read(c, directory);
}

void ds_calibration_close(struct ds_calibration *c)
{
        c->gpus = ds_free(c->gpus);
        c->n = 0;
}

/* --- GPUs --------------------------------------------------------------------------------------------------------- */

static size_t place_of(const struct ds_calibration *c, const char *name)
{
        size_t i = 0;

        while (i < c->n && strcmp(c->gpus[i].name, name))
                i++;
        return i;
}

const struct ds_calibration_gpu *ds_calibration_find(const struct ds_calibration *c, const char *name)
{
        const size_t i = place_of(c, name);

        return i < c->n ? &c->gpus[i] : NULL;
}

static void take_out(struct ds_calibration *c, size_t i)
{
        memmove(&c->gpus[i], &c->gpus[i + 1], (c->n - i - 1) * sizeof(*c->gpus));
        c->n--;
}

int ds_calibration_put(struct ds_calibration *c, const struct ds_calibration_gpu *gpu)
{
        size_t i;

        if (!c->gpus)
                return -ENOMEM;
        i = place_of(c, gpu->name);
        if (i < c->n)
                take_out(c, i);
        else if (c->n == DS_CALIBRATION_GPUS_MAX)
                c->n--;
        memmove(&c->gpus[1], &c->gpus[0], c->n * sizeof(*c->gpus));
        c->gpus[0] = *gpu;
        c->n++;
        return file_write(c);
}

int ds_calibration_forget(struct ds_calibration *c, const char *name)
{
        const size_t i = place_of(c, name);

        if (i == c->n)
                return 0;
        take_out(c, i);
        return file_write(c);
}
