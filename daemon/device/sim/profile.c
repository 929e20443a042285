/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parser of profiles
 *
 * The text is copied once and cut into words in place; names point into the copy.
 */
#include "device/sim/profile.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define BAD 1
#define BLANKS " \t\r"

struct reader {
        struct sim_profile *profile;
        uint32_t line, kernels_capacity, stairs_capacity;
        char *error;
        size_t error_size;
};

static int bad(const struct reader *r, const char *fmt, ...) ds_printf(2, 3);
static int bad(const struct reader *r, const char *fmt, ...)
{
        char text[160];
        va_list args;

        va_start(args, fmt);
        vsnprintf(text, sizeof(text), fmt, args);
        va_end(args);
        snprintf(r->error, r->error_size, "line %u: %s", r->line, text);
        return BAD;
}

/* --- numbers --- */

/* Reads a decimal number up to the character `stop`; false: it is no number, or not between min and max. */
static int number(const char **at, uint64_t min, uint64_t max, uint64_t *ret)
{
        const char *s = *at;
        uint64_t value = 0;

        if (*s < '0' || *s > '9')
                return 0;
        for (; *s >= '0' && *s <= '9'; s++)
                if (__builtin_mul_overflow(value, 10, &value) ||
                        __builtin_add_overflow(value, (uint64_t)(*s - '0'), &value))
                        return 0;
        *at = s;
        *ret = value;
        return value >= min && value <= max;
}

static int read_number(
        const struct reader *r, const char *key, const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
        const char *at = text;

        if (number(&at, min, max, ret) && !*at)
                return 0;
        return bad(r, "%s=%.40s: not a number from %llu to %llu", key, text, (unsigned long long)min,
                (unsigned long long)max);
}

static int read_extent(
        const struct reader *r, const char *key, const char *text, const uint32_t max[3], uint32_t ret[3])
{
        const char *at = text;
        uint64_t value;

        ret[0] = ret[1] = ret[2] = 1;
        for (int i = 0; i < 3; i++) {
                if (!number(&at, 1, max[i], &value))
                        break;
                ret[i] = (uint32_t)value;
                if (!*at)
                        return 0;
                if (*at++ != 'x')
                        break;
        }
        return bad(r, "%s=%.40s: not X, XxY or XxYxZ, from 1 to %ux%ux%u", key, text, max[0], max[1], max[2]);
}

/* --- line of a kernel --- */

/* Makes room for element n of an array by doubling the array; false: out of memory. */
static int grow(void **array, uint32_t n, uint32_t *capacity, size_t size)
{
        uint32_t more = *capacity ? *capacity * 2 : 64;
        void *grown;

        if (n < *capacity)
                return 1;
        grown = ds_realloc(*array, more, size);
        if (!grown)
                return 0;
        *array = grown;
        *capacity = more;
        return 1;
}

static int stair_add(struct reader *r, uint32_t sms, uint64_t ns)
{
        void *array = r->profile->stairs;

        if (!grow(&array, r->profile->n_stairs, &r->stairs_capacity, sizeof(struct sim_stair)))
                return ds_error_origin(-ENOMEM);
        r->profile->stairs = array;
        r->profile->stairs[r->profile->n_stairs++] = (struct sim_stair){sms, ns};
        return 0;
}

static int read_stair(struct reader *r, struct sim_profile_kernel *kernel, const char *text)
{
        uint64_t sms, ns, before = 0;
        const char *at = text;
        int status;

        if (kernel->n_stairs)
                return bad(r, "stair: given twice");
        kernel->stair = r->profile->n_stairs;
        do {
                if (!number(&at, before + 1, 4096, &sms) || *at++ != ':' || !number(&at, 1, SIM_PROFILE_NS_MAX, &ns) ||
                        (*at && *at != ','))
                        return bad(r, "stair=%.40s: not SMS:NS,SMS:NS... with ascending SMs", text);
                if (kernel->n_stairs == SIM_PROFILE_STAIRS_MAX)
                        return bad(r, "stair: more than %u points", SIM_PROFILE_STAIRS_MAX);
                status = stair_add(r, (uint32_t)sms, ns);
                if (status)
                        return status;
                before = sms;
                kernel->n_stairs++;
        } while (*at++ == ',');
        return 0;
}

enum kernel_key {
        KEY_GRID,
        KEY_BLOCK,
        KEY_REGS,
        KEY_SHARED,
        KEY_NS,
        KEY_BYTES,
        KEY_BLOCK_NS,
        KEY_STAIR,
        KEY_ISSUE_NS,
        KEY_WRITTEN,
        KEY_REUSE,
        KEY_BOUND,
        _KEY_MAX,
};

static const char *const kernel_keys[_KEY_MAX] = {
        "grid", "block", "regs", "shared", "ns", "bytes", "block_ns", "stair", "issue_ns", "written", "reuse", "bound"};

static int read_value(struct reader *r, struct sim_profile_kernel *kernel, enum kernel_key key, const char *text)
{
        static const uint32_t grid_max[3] = {2147483647, 65535, 65535}, block_max[3] = {1024, 1024, 64};
        const char *name = kernel_keys[key];
        uint64_t value = 0;
        int status;

        switch (key) {
        case KEY_GRID:
                return read_extent(r, name, text, grid_max, kernel->grid);
        case KEY_BLOCK:
                status = read_extent(r, name, text, block_max, kernel->block);
                if (!status && (uint64_t)kernel->block[0] * kernel->block[1] * kernel->block[2] > 1024)
                        return bad(r, "%s=%.40s: more than 1024 threads", name, text);
                return status;
        case KEY_REGS:
                status = read_number(r, name, text, 0, 255, &value);
                kernel->registers = (uint32_t)value;
                return status;
        case KEY_SHARED:
                status = read_number(r, name, text, 0, DS_MIB(1), &value);
                kernel->shared = (uint32_t)value;
                return status;
        case KEY_NS:
                return read_number(r, name, text, 1, SIM_PROFILE_NS_MAX, &kernel->ns);
        case KEY_BYTES:
                return read_number(r, name, text, 0, SIM_PROFILE_BYTES_MAX, &kernel->bytes);
        case KEY_BLOCK_NS:
                return read_number(r, name, text, 1, SIM_PROFILE_NS_MAX, &kernel->block_ns);
        case KEY_STAIR:
                return read_stair(r, kernel, text);
        case KEY_ISSUE_NS:
                return read_number(r, name, text, 0, SIM_PROFILE_NS_MAX, &kernel->issue_ns);
        case KEY_WRITTEN:
                return read_number(r, name, text, 0, SIM_PROFILE_BYTES_MAX, &kernel->written);
        case KEY_REUSE:
                return read_number(r, name, text, 0, SIM_PROFILE_BYTES_MAX, &kernel->reuse);
        case KEY_BOUND:
                kernel->memory_bound = !strcmp(text, "memory");
                return kernel->memory_bound || !strcmp(text, "compute")
                               ? 0
                               : bad(r, "%s=%.40s: not memory or compute", name, text);
        case _KEY_MAX:
                break;
        }
        return ds_error_origin(-EINVAL);
}

static int read_word(struct reader *r, struct sim_profile_kernel *kernel, char *word, unsigned *seen)
{
        char *equals = strchr(word, '=');

        if (!equals)
                return bad(r, "'%.40s': not KEY=VALUE", word);
        *equals = 0;
        for (unsigned key = 0; key < _KEY_MAX; key++) {
                if (strcmp(word, kernel_keys[key]))
                        continue;
                if (*seen >> key & 1)
                        return bad(r, "%s: given twice", word);
                *seen |= 1u << key;
                return read_value(r, kernel, key, equals + 1);
        }
        return bad(r,
                "%.40s: unknown key, there are grid block regs shared ns bytes block_ns stair issue_ns written "
                "reuse bound",
                word);
}

/* Checks that the stair's points are below the whole GPU, and no faster than it. */
static int kernel_check(struct reader *r, const struct sim_profile_kernel *kernel, unsigned seen)
{
        const struct sim_stair *stair = r->profile->stairs + kernel->stair;

        for (unsigned key = 0; key < _KEY_MAX; key++)
                if (!(seen >> key & 1) && (key == KEY_GRID || key == KEY_BLOCK || key == KEY_NS))
                        return bad(r, "%s: missing", kernel_keys[key]);
        if (kernel->n_stairs && !r->profile->sms)
                return bad(r, "stair: the line 'sms' must come before it");
        for (uint32_t i = 0; i < kernel->n_stairs; i++)
                if (stair[i].sms >= r->profile->sms)
                        return bad(r, "stair: %u SMs are not fewer than the GPU's %u", stair[i].sms, r->profile->sms);
        return 0;
}

static int read_kernel(struct reader *r, char *rest)
{
        struct sim_profile_kernel kernel = {};
        void *array = r->profile->kernels;
        unsigned seen = 0;
        char *word;
        int status;

        kernel.name = strtok_r(rest, BLANKS, &rest);
        if (!kernel.name)
                return bad(r, "kernel: no name");
        while ((word = strtok_r(NULL, BLANKS, &rest))) {
                status = read_word(r, &kernel, word, &seen);
                if (status)
                        return status;
        }
        status = kernel_check(r, &kernel, seen);
        if (status)
                return status;
        if (r->profile->n_kernels == SIM_PROFILE_KERNELS_MAX)
                return bad(r, "more than %u kernels", SIM_PROFILE_KERNELS_MAX);
        if (!grow(&array, r->profile->n_kernels, &r->kernels_capacity, sizeof(kernel)))
                return ds_error_origin(-ENOMEM);
        r->profile->kernels = array;
        r->profile->kernels[r->profile->n_kernels++] = kernel;
        return 0;
}

/* --- the other lines --- */

static int read_text(const struct reader *r, const char *key, const char *value, char *to, size_t size)
{
        if (!*value || strlen(value) >= size)
                return bad(r, "%s: from 1 to %zu characters", key, size - 1);
        memcpy(to, value, strlen(value) + 1);
        return 0;
}

static int read_count(const struct reader *r, const char *key, const char *value, uint32_t max, uint32_t *to)
{
        uint64_t number_ = 0;
        int status = read_number(r, key, value, 1, max, &number_);

        *to = (uint32_t)number_;
        return status;
}

static int read_line(struct reader *r, char *line)
{
        struct sim_profile *profile = r->profile;
        char *value, *end = line + strlen(line);

        while (end > line && strchr(BLANKS, end[-1]))
                *--end = 0;
        line += strspn(line, BLANKS);
        if (!*line || *line == '#')
                return 0;
        value = line + strcspn(line, BLANKS);
        if (*value)
                *value++ = 0;
        value += strspn(value, BLANKS);
        if (!strcmp(line, "kernel"))
                return read_kernel(r, value);
        if (!strcmp(line, "name"))
                return read_text(r, line, value, profile->name, sizeof(profile->name));
        if (!strcmp(line, "source"))
                return read_text(r, line, value, profile->source, sizeof(profile->source));
        if (!strcmp(line, "gpu"))
                return read_text(r, line, value, profile->gpu, sizeof(profile->gpu));
        if (!strcmp(line, "sms"))
                return read_count(r, line, value, 4096, &profile->sms);
        if (!strcmp(line, "samples"))
                return read_count(r, line, value, 1u << 30, &profile->samples);
        return bad(r, "%.40s: unknown, there are name source gpu sms samples kernel", line);
}

static int read_first(const struct reader *r, char *line)
{
        char *rest = NULL, *word = strtok_r(line, BLANKS, &rest);
        const char *version = word ? strtok_r(NULL, BLANKS, &rest) : NULL;

        if (!word || strcmp(word, SIM_PROFILE_MAGIC) || !version)
                return bad(r, "not a profile: it does not begin with '%s %d'", SIM_PROFILE_MAGIC, SIM_PROFILE_VERSION);
        if (strcmp(version, "1"))
                return bad(r, "version %.20s of the format is not known, only %d", version, SIM_PROFILE_VERSION);
        return 0;
}

static int read_all(struct reader *r)
{
        char *next = r->profile->text, *line;
        int status = 0;

        while (!status && (line = strsep(&next, "\n")))
                status = r->line++ ? read_line(r, line) : (r->line = 1, read_first(r, line));
        if (status)
                return status;
        if (!r->profile->sms)
                return bad(r, "sms: missing");
        return r->profile->n_kernels ? 0 : bad(r, "no kernels");
}

int sim_profile_is(const void *text, size_t size)
{
        const size_t n = sizeof(SIM_PROFILE_MAGIC) - 1;

        return size > n && !memcmp(text, SIM_PROFILE_MAGIC, n);
}

static void profile_freep(struct sim_profile **profile)
{
        *profile = sim_profile_free(*profile);
}

int sim_profile_parse(const char *text, size_t size, char *error, size_t error_size, struct sim_profile **ret)
{
        ds_cleanup(profile_freep) struct sim_profile *profile = NULL;
        struct reader r = {.error = error, .error_size = error_size};
        int status;

        if (size > SIM_PROFILE_TEXT_MAX || memchr(text, 0, size)) {
                snprintf(error, error_size, "line 1: not text, or more than %u bytes", SIM_PROFILE_TEXT_MAX);
                return BAD;
        }
        profile = ds_alloc0(1, sizeof(*profile));
        if (!profile)
                return ds_error_origin(-ENOMEM);
        profile->samples = 1;
        profile->text = ds_strndup(text, size);
        if (!profile->text)
                return ds_error_origin(-ENOMEM);
        r.profile = profile;
        status = read_all(&r);
        if (status)
                return status;
        *ret = DS_TAKE_PTR(profile);
        return 0;
}

struct sim_profile *sim_profile_free(struct sim_profile *profile)
{
        if (!profile)
                return NULL;
        ds_free(profile->kernels);
        ds_free(profile->stairs);
        ds_free(profile->text);
        return ds_free(profile);
}

/* --- time --- */

uint64_t sim_profile_blocks(const struct sim_profile_kernel *kernel)
{
        return (uint64_t)kernel->grid[0] * kernel->grid[1] * kernel->grid[2];
}

static uint64_t scaled(uint64_t ns, uint64_t by, uint64_t of)
{
        unsigned __int128 value = (unsigned __int128)ns * by / of;

        return value > SIM_PROFILE_NS_MAX * 100 ? SIM_PROFILE_NS_MAX * 100 : (uint64_t)value;
}

/* Time on `sms` SMs from the time `ns` on ns_sms SMs, which are more: in proportion to the blocks of the busiest SM. */
static uint64_t on_fewer(const struct sim_profile_kernel *kernel, uint64_t ns, uint32_t ns_sms, uint32_t sms)
{
        uint64_t blocks = sim_profile_blocks(kernel), most = DS_DIV_UP(blocks, sms),
                 ns_most = DS_DIV_UP(blocks, ns_sms);

        return most == ns_most ? ns : scaled(ns, most, ns_most);
}

uint64_t sim_profile_time(const struct sim_profile *profile, const struct sim_profile_kernel *kernel, uint32_t sms)
{
        const struct sim_stair *stair = profile->stairs + kernel->stair;
        uint32_t i = kernel->n_stairs;

        sms = DS_MAX(sms, 1);
        if (sms >= profile->sms)
                return kernel->ns;
        if (!i)
                return on_fewer(kernel, kernel->ns, profile->sms, sms);
        while (i && stair[i - 1].sms > sms)
                i--;
        return i ? stair[i - 1].ns : on_fewer(kernel, stair[0].ns, stair[0].sms, sms);
}

uint64_t sim_profile_waves_time(const struct sim_profile_kernel *kernel, uint64_t ns, uint64_t slots)
{
        return scaled(ns, DS_DIV_UP(sim_profile_blocks(kernel), slots), 1);
}
