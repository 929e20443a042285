/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printing profiles
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/demangle.h"
#include "ctl/profile.h"

#define NAME_MAX_SHOWN 56

static const char *const bounds[] = {"", "compute", "memory"};

static const char *bound_name(uint32_t bound)
{
        return bound < sizeof(bounds) / sizeof(bounds[0]) ? bounds[bound] : "?";
}

static const char *time_text(uint64_t ns, char buffer[static 32])
{
        if (ns < 1000000)
                snprintf(buffer, 32, "%.2f us", (double)ns / 1e3);
        else
                snprintf(buffer, 32, "%.2f ms", (double)ns / 1e6);
        return buffer;
}

const char *profile_bytes(uint64_t bytes, char buffer[static 32])
{
        if (!bytes)
                buffer[0] = '\0';
        else if (bytes < 1 << 20)
                snprintf(buffer, 32, "%.1f KiB", (double)bytes / 1024);
        else
                snprintf(buffer, 32, "%.1f MiB", (double)bytes / 1048576);
        return buffer;
}

static const char *shape_text(const uint32_t n[3], char buffer[static 40])
{
        if (!n[0])
                buffer[0] = '\0';
        else if (n[1] == 1 && n[2] == 1)
                snprintf(buffer, 40, "%" PRIu32, n[0]);
        else
                snprintf(buffer, 40, "%" PRIu32 "x%" PRIu32 "x%" PRIu32, n[0], n[1], n[2]);
        return buffer;
}

/* 1: a, the time on fewer SMs, is on the same stair as b. */
static int same(uint64_t a, uint64_t b)
{
        const uint64_t more = b * PROFILE_TOLERANCE / 1000;
        return a <= b + (more > PROFILE_NOISE_NS ? more : PROFILE_NOISE_NS);
}

uint64_t profile_best(const struct dsc_profile *row, uint32_t *ret_least)
{
        /* the last point has the most SMs, and fewer SMs are never faster */
        const uint64_t best = row->n_points ? row->points[row->n_points - 1].mean_ns : 0;
        *ret_least = 0;
        for (uint32_t i = 0; i < row->n_points && !*ret_least; i++)
                if (same(row->points[i].mean_ns, best))
                        *ret_least = row->points[i].n_sms;
        return best;
}

const char *profile_stairs(const struct dsc_profile *row, char *buffer, size_t size)
{
        size_t at = 0;
        uint32_t i = row->n_points;
        buffer[0] = '\0';
        while (i > 0 && at < size) {
                const uint64_t first = row->points[i - 1].mean_ns;
                char time[32];
                while (i > 1 && same(row->points[i - 2].mean_ns, first))
                        i--;
                at += (size_t)snprintf(buffer + at, size - at, "%s%" PRIu32 ": %s", at ? ", " : "",
                        row->points[i - 1].n_sms, time_text(row->points[i - 1].mean_ns, time));
                i--;
        }
        return buffer;
}

static int by_name(const void *a, const void *b)
{
        const struct dsc_profile *x = a, *y = b;
        const int order = strcmp(x->kernel, y->kernel);
        return order ? order : x->key < y->key ? -1 : x->key > y->key;
}

/* --- lists --- */

static int add_row(const struct dsc_profile *row, struct ctl_table *t)
{
        char grid[40], block[40], all[32], least[16], footprint[32], stairs[1024], name[1024];
        uint32_t n_least;
        const uint64_t best = profile_best(row, &n_least);
        const struct dsc_profile_point *last = row->n_points ? &row->points[row->n_points - 1] : NULL;
        ctl_kernel(row->kernel, arg_wide ? sizeof(name) : NAME_MAX_SHOWN, name, sizeof(name));
        snprintf(least, sizeof(least), "%" PRIu32, n_least);
        const char *cells[] = {name, shape_text(row->grid, grid), shape_text(row->block, block),
                last ? time_text(last->mean_ns, all) : "", best ? least : "", bound_name(row->bound),
                profile_bytes(row->footprint, footprint), profile_stairs(row, stairs, sizeof(stairs))};
        return ctl_table_row(t, cells);
}

static const struct ctl_column columns[] = {
        {"KERNEL", 0, 16, 0},
        {"BLOCKS", 1, 0, 3},
        {"THREADS", 1, 0, 4},
        {"ALL SMS", 1, 0, 0},
        {"LEAST SMS", 1, 0, 0},
        {"BOUND", 0, 0, 2},
        {"TOUCHES", 1, 0, 5},
        {"STAIRS", 0, 15, 1},
};

static int draw(const struct dsc_profiles *profiles, int measured, struct ctl_text *text)
{
        struct ctl_table *t = ctl_table_new(1);
        size_t shown = 0;
        int r = 0;
        if (!t) {
                ctl_complain("out of memory");
                return CTL_FAILED;
        }
        ctl_table_columns(t, columns, sizeof(columns) / sizeof(columns[0]));
        for (size_t i = 0; i < profiles->n && !r; i++) {
                if (measured && !profiles->rows[i].n_points)
                        continue;
                shown++;
                r = add_row(&profiles->rows[i], t);
        }
        if (!r && shown) {
                fprintf(text->file, "%s SMs\n", profiles->gpu);
                r = ctl_table_draw(t, text);
        }
        ctl_table_free(t);
        return r;
}

static void json_row(const struct dsc_profile *row, struct ctl_text *text)
{
        char buffer[40];
        uint32_t least;
        const uint64_t best = profile_best(row, &least);
        ctl_json_begin(text, NULL, '{');
        char demangled[1024];
        ctl_json_string(text, "kernel", row->kernel);
        ctl_json_string(text, "demangled", ctl_demangle(row->kernel, demangled, sizeof(demangled)));
        snprintf(buffer, sizeof(buffer), "%016" PRIx64, row->key);
        ctl_json_string(text, "key", buffer);
        ctl_json_bool(text, "of_policy", row->n_note != 0);
        ctl_json_string(text, "grid", shape_text(row->grid, buffer));
        ctl_json_string(text, "block", shape_text(row->block, buffer));
        ctl_json_number(text, "shared_bytes", row->shared_bytes);
        ctl_json_string(text, "bound", bound_name(row->bound));
        ctl_json_number(text, "footprint_bytes", row->footprint);
        if (row->sliced_samples)
                ctl_json_number(text, "sliced_permille", row->sliced_permille);
        if (row->persistent_samples)
                ctl_json_number(text, "persistent_permille", row->persistent_permille);
        ctl_json_number(text, "best_ns", best);
        ctl_json_number(text, "least_sms", least);
        ctl_json_number(text, "changed_ms", row->changed_ms);
        ctl_json_number(text, "used_ms", row->used_ms);
        ctl_json_begin(text, "points", '[');
        for (uint32_t i = 0; i < row->n_points; i++) {
                ctl_json_begin(text, NULL, '{');
                ctl_json_number(text, "sms", row->points[i].n_sms);
                ctl_json_number(text, "mean_ns", row->points[i].mean_ns);
                ctl_json_number(text, "samples", row->points[i].samples);
                ctl_json_end(text, '}');
        }
        ctl_json_end(text, ']');
        ctl_json_end(text, '}');
}

static void json(const struct dsc_profiles *profiles, int measured, struct ctl_text *text)
{
        ctl_json_begin(text, NULL, '{');
        ctl_json_string(text, "gpu", profiles->gpu);
        ctl_json_number(text, "kept", profiles->kept);
        ctl_json_number(text, "bytes", profiles->bytes);
        ctl_json_number(text, "refused", profiles->refused);
        ctl_json_number(text, "failed", profiles->failed);
        ctl_json_bool(text, "in_memory", profiles->in_memory);
        ctl_json_begin(text, "profiles", '[');
        for (size_t i = 0; i < profiles->n; i++)
                if (!measured || profiles->rows[i].n_points)
                        json_row(&profiles->rows[i], text);
        ctl_json_end(text, ']');
        ctl_json_end(text, '}');
}

int profile_list(struct dsc_profiles *profiles, int as_json, int measured, struct ctl_text *text)
{
        qsort(profiles->rows, profiles->n, sizeof(*profiles->rows), by_name);
        if (!as_json)
                return draw(profiles, measured, text);
        json(profiles, measured, text);
        return 0;
}

/* --- one profile ------------------ */

static void note_details(const struct dsc_profile *row, struct ctl_text *text)
{
        ctl_wrap(text->file, row->kernel, 0, 2, ctl_width());
        fprintf(text->file, "  note of a policy, key %016" PRIx64 ", group %016" PRIx64 ":\n ", row->key, row->group);
        for (uint32_t i = 0; i < row->n_note; i++)
                fprintf(text->file, " %" PRIu64, row->note[i]);
        fputc('\n', text->file);
}

static void details(const struct dsc_profile *row, struct ctl_text *text)
{
        char grid[40], block[40], time[32], name[1024];
        uint32_t least;
        profile_best(row, &least);
        ctl_wrap(text->file, ctl_demangle(row->kernel, name, sizeof(name)), 0, 2, ctl_width());
        if (strcmp(name, row->kernel) != 0)
                fprintf(text->file, "  %s\n", row->kernel);
        fprintf(text->file, "  grid %s, block %s, %" PRIu32 " bytes of dynamic shared memory, key %016" PRIx64 "\n",
                shape_text(row->grid, grid), shape_text(row->block, block), row->shared_bytes, row->key);
        if (row->bound)
                fprintf(text->file, "  bound by %s\n", bound_name(row->bound));
        if (row->footprint)
                fprintf(text->file, "  touches %s of memory\n", profile_bytes(row->footprint, time));
        if (row->sliced_samples)
                fprintf(text->file, "  sliced it takes %.1f %% (%" PRIu32 " samples)\n",
                        (double)row->sliced_permille / 10, row->sliced_samples);
        if (row->persistent_samples)
                fprintf(text->file, "  persistent it takes %.1f %% (%" PRIu32 " samples)\n",
                        (double)row->persistent_permille / 10, row->persistent_samples);
        if (!row->n_points)
                fprintf(text->file, "  not measured yet\n");
        for (uint32_t i = row->n_points; i-- > 0;)
                fprintf(text->file, "  %4" PRIu32 " SMs  %12s  (%" PRIu32 " samples)%s\n", row->points[i].n_sms,
                        time_text(row->points[i].mean_ns, time), row->points[i].samples,
                        row->points[i].n_sms == least ? "  the fewest at the best time" : "");
}

int profile_details(const struct dsc_profiles *profiles, struct ctl_text *text)
{
        fprintf(text->file, "%s SMs\n", profiles->gpu);
        for (size_t i = 0; i < profiles->n; i++)
                (profiles->rows[i].n_note ? note_details : details)(&profiles->rows[i], text);
        return 0;
}
