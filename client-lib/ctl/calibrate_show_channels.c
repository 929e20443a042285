/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printing what dividing the memory channels does, and the verdict
 */
#include <inttypes.h>

#include "ctl/calibrate.h"

static void part_text(const struct calibrate_channels *channels, uint32_t be, char text[static 32])
{
        if (be)
                snprintf(text, 32, "%" PRIu32 " of %" PRIu32, be, channels->channels);
        else
                snprintf(text, 32, "all");
}

/* --- tables ----------------------- */

/* Returns the row of this LS kernel in a cell that is otherwise like `of`; NULL: not measured. */
static const struct calibrate_channel_row *row_of(
        const struct calibrate_channels *channels, const struct dsc_channel_cell *of, unsigned ls_load)
{
        for (size_t i = 0; i < channels->n; i++) {
                const struct dsc_channel_cell *cell = &channels->rows[i].cell;
                if (cell->ls_load == ls_load && cell->be_load == of->be_load && cell->be_channels == of->be_channels &&
                        cell->be_blocks == of->be_blocks)
                        return &channels->rows[i];
        }
        return NULL;
}

static int is_first(const struct calibrate_channels *channels, size_t i)
{
        for (unsigned ls = 0; ls < DSC_LOADS; ls++) {
                const struct calibrate_channel_row *row = row_of(channels, &channels->rows[i].cell, ls);
                if (row && row < &channels->rows[i])
                        return 0;
        }
        return 1;
}

static int add_be(const struct calibrate_channels *channels, const struct dsc_channel_cell *be, struct ctl_table *t)
{
        const int nobody = be->be_load == DSC_LOAD_NONE;
        char part[32], blocks[16] = "any", ls[2][64], rate[32] = "-";
        const char *cells[] = {part, nobody ? "nobody" : calibrate_loads[be->be_load], blocks, ls[0], ls[1], rate};
        uint32_t sum = 0, n = 0;
        part_text(channels, be->be_channels, part);
        if (nobody)
                snprintf(blocks, sizeof(blocks), "-");
        else if (be->be_blocks)
                snprintf(blocks, sizeof(blocks), "%" PRIu32, be->be_blocks);
        for (unsigned i = 0; i < 2; i++) {
                const struct calibrate_channel_row *row = row_of(channels, be, DSC_LOAD_READ + i);
                snprintf(ls[i], sizeof(ls[i]), "-");
                if (row)
                        calibrate_times_text(row->cell.ls_permille, row->samples, row->low, row->high, ls[i]);
                sum += row ? row->cell.be_permille : 0;
                n += row != NULL;
        }
        if (!nobody)
                snprintf(rate, sizeof(rate), "%.2f", n ? sum / 1000.0 / n : 0);
        return ctl_table_row(t, cells);
}

static void choice_text(const struct calibrate_channels *channels, const struct calibrate_choice *c, FILE *file)
{
        char part[32];
        part_text(channels, c->be_channels, part);
        if (c->be_channels)
                fprintf(file, "%s channels for BE and ", part);
        if (c->be_blocks)
                fprintf(file, "at most %" PRIu32 " blocks resident: ", c->be_blocks);
        else
                fprintf(file, "no bound on blocks: ");
        fprintf(file, "LS takes %.2fx, BE has %.2f", c->ls_permille / 1000.0, c->be_permille / 1000.0);
}

static void verdict_text(const struct calibrate_channels *channels, FILE *file)
{
        struct calibrate_choice plain, coloured;
        if (!calibrate_best(channels, &plain, &coloured))
                return;
        fprintf(file, "Best without dividing channels, ");
        choice_text(channels, &plain, file);
        if (!channels->be) {
                fprintf(file, "\nDividing channels: off, nothing that was tried is better\n");
                return;
        }
        fprintf(file, "\nDividing channels: better with ");
        choice_text(channels, &coloured, file);
        fprintf(file, "\n");
}

int calibrate_channels_table(const struct calibrate_channels *channels, int simulated, struct ctl_text *text)
{
        static const char *const names[] = {"CHANNELS", "BE", "BLOCKS", "LS READS", "LS WRITES", "BE RATE"};
        struct ctl_table *t = NULL;
        int r = 0;
        if (channels->skipped[0])
                fprintf(text->file, "\nMemory channels were not measured: %s\n", channels->skipped);
        if (!channels->n)
                return 0;
        t = ctl_table_new(1);
        r = t ? 0 : CTL_FAILED;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && t; i++)
                ctl_table_column(t, names[i], i != 1);
        for (size_t i = 0; i < channels->n && !r; i++)
                if (is_first(channels, i))
                        r = add_be(channels, &channels->rows[i].cell, t);
        fprintf(text->file, "\nMemory channels%s: BE's of %" PRIu32 ", the others LS's; each on half of the SMs\n",
                simulated ? " (sim)" : "", channels->channels);
        if (channels->source[0])
                fprintf(text->file, "(%s)\n", channels->source);
        if (!r)
                r = ctl_table_draw(t, text);
        ctl_table_free(t);
        verdict_text(channels, text->file);
        return r;
}

/* --- JSON ------------------------- */

static void cell_json(const struct calibrate_channel_row *row, struct ctl_text *text)
{
        const int nobody = row->cell.be_load == DSC_LOAD_NONE;
        ctl_json_begin(text, NULL, '{');
        ctl_json_string(text, "ls", calibrate_loads[row->cell.ls_load]);
        ctl_json_string(text, "be", nobody ? "nobody" : calibrate_loads[row->cell.be_load]);
        ctl_json_number(text, "be_channels", row->cell.be_channels);
        ctl_json_number(text, "be_blocks", row->cell.be_blocks);
        ctl_json_number(text, "ls_permille", row->cell.ls_permille);
        if (row->samples) {
                ctl_json_number(text, "ls_permille_low", row->low);
                ctl_json_number(text, "ls_permille_high", row->high);
                ctl_json_number(text, "samples", row->samples);
        }
        ctl_json_number(text, "be_permille", row->cell.be_permille);
        ctl_json_end(text, '}');
}

static void choice_json(const char *key, const struct calibrate_choice *c, struct ctl_text *text)
{
        ctl_json_begin(text, key, '{');
        ctl_json_number(text, "be_channels", c->be_channels);
        ctl_json_number(text, "be_blocks", c->be_blocks);
        ctl_json_number(text, "ls_permille", c->ls_permille);
        ctl_json_number(text, "be_permille", c->be_permille);
        ctl_json_end(text, '}');
}

void calibrate_channels_json(const struct calibrate_channels *channels, struct ctl_text *text)
{
        struct calibrate_choice plain, coloured;
        ctl_json_begin(text, "channels", '{');
        if (channels->skipped[0])
                ctl_json_string(text, "skipped", channels->skipped);
        if (channels->source[0])
                ctl_json_string(text, "source", channels->source);
        if (calibrate_best(channels, &plain, &coloured)) {
                ctl_json_number(text, "channels", channels->channels);
                ctl_json_number(text, "be", channels->be);
                choice_json("without", &plain, text);
                if (coloured.be_channels)
                        choice_json("with", &coloured, text);
        }
        ctl_json_begin(text, "cells", '[');
        for (size_t i = 0; i < channels->n; i++)
                cell_json(&channels->rows[i], text);
        ctl_json_end(text, ']');
        ctl_json_end(text, '}');
}
