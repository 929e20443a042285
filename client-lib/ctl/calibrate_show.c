/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printing the interference matrix, and the bounds on BE that follow from it
 *
 * A bound is the largest number of BE blocks beside which no kind of LS kernel exceeds its limit. There are two bounds:
 * for BE kernels that compute, and for those that read or write. If no number is small enough, the bound is the largest
 * number that is as good as any other. The policy `detshare` uses the same rule. A policy may have another limit; this
 * one is the default.
 */
#include <inttypes.h>
#include <string.h>

#include "ctl/calibrate.h"

struct bound {
        /* blocks: bound on BE's blocks, 0: none is needed; ls_permille: LS's time under it */
        uint32_t be_sms, blocks, ls_permille;
        int memory, good;
};

/* --- bounds --- */

static uint32_t worst(const struct calibrate_rows *rows, uint32_t be_sms, uint32_t be_blocks, int memory)
{
        uint32_t most = 0;
        for (size_t i = 0; i < rows->n; i++) {
                const struct dsc_calibration_cell *cell = &rows->rows[i].cell;
                if (cell->be_sms == be_sms && cell->be_blocks == be_blocks &&
                        (cell->be_load != DSC_LOAD_COMPUTE) == memory && cell->ls_permille > most)
                        most = cell->ls_permille;
        }
        return most;
}

static int is_about(const struct dsc_calibration_cell *cell, uint32_t be_sms, int memory)
{
        return cell->be_sms == be_sms && (cell->be_load != DSC_LOAD_COMPUTE) == memory;
}

/* *ret: the largest number of blocks that is good enough, or else as good as any other; no bound counts as the
 * largest. 0: not measured. */
static int find_bound(const struct calibrate_rows *rows, uint32_t be_sms, int memory, struct bound *ret)
{
        uint32_t best = UINT32_MAX, limit;
        for (size_t i = 0; i < rows->n; i++) {
                const struct dsc_calibration_cell *cell = &rows->rows[i].cell;
                const uint32_t ls =
                        is_about(cell, be_sms, memory) ? worst(rows, be_sms, cell->be_blocks, memory) : best;
                best = ls < best ? ls : best;
        }
        if (best == UINT32_MAX)
                return 0;
        limit = best <= CALIBRATE_LIMIT ? CALIBRATE_LIMIT : best + best * CALIBRATE_SAME / 1000;
        *ret = (struct bound){.be_sms = be_sms, .memory = memory, .good = best <= CALIBRATE_LIMIT};
        for (size_t i = 0; i < rows->n; i++) {
                const struct dsc_calibration_cell *cell = &rows->rows[i].cell;
                const uint32_t ls = worst(rows, be_sms, cell->be_blocks, memory);
                if (!is_about(cell, be_sms, memory) || ls > limit)
                        continue;
                if (ret->ls_permille && (!ret->blocks || (cell->be_blocks && cell->be_blocks <= ret->blocks)))
                        continue;
                ret->blocks = cell->be_blocks;
                ret->ls_permille = ls;
        }
        return 1;
}

/* *ret: the bound of the i-th pair of SM count and kind of kernels. 0: there are no more pairs. */
static int bound_at(const struct calibrate_rows *rows, size_t i, struct bound *ret)
{
        uint32_t sms = 0;
        for (size_t at = 0; at <= i / 2; at++) {
                uint32_t next = UINT32_MAX;
                for (size_t k = 0; k < rows->n; k++)
                        if (rows->rows[k].cell.be_sms > sms && rows->rows[k].cell.be_sms < next)
                                next = rows->rows[k].cell.be_sms;
                sms = next;
        }
        return sms != UINT32_MAX && find_bound(rows, sms, i % 2, ret);
}

static void bound_text(const struct bound *b, FILE *file)
{
        const double times = b->ls_permille / 1000.0;
        fprintf(file, "  %s on %" PRIu32 " SMs: ", b->memory ? "BE that reads or writes," : "BE that computes,",
                b->be_sms);
        if (b->good && !b->blocks)
                fprintf(file, "no bound is needed, LS takes %.2fx\n", times);
        else if (b->good)
                fprintf(file, "at most %" PRIu32 " blocks resident, LS takes %.2fx\n", b->blocks, times);
        else if (b->blocks)
                fprintf(file, "no bound is enough, best are %" PRIu32 " blocks resident, LS takes %.2fx\n", b->blocks,
                        times);
        else
                fprintf(file, "no bound helps, LS takes %.2fx\n", times);
}

/* --- tables ----------------------- */

/* Returns the row of this LS kernel beside the BE kernel of the cell `of`; NULL: not measured. */
static const struct calibrate_row *row_of(
        const struct calibrate_rows *rows, const struct dsc_calibration_cell *of, unsigned ls_load)
{
        for (size_t i = 0; i < rows->n; i++) {
                const struct dsc_calibration_cell *cell = &rows->rows[i].cell;
                if (cell->ls_load == ls_load && cell->be_load == of->be_load && cell->be_sms == of->be_sms &&
                        cell->be_blocks == of->be_blocks)
                        return &rows->rows[i];
        }
        return NULL;
}

void calibrate_times_text(uint32_t permille, uint32_t samples, uint32_t low, uint32_t high, char text[static 64])
{
        if (samples)
                snprintf(text, 64, "%.2fx (%.2f-%.2f)", permille / 1000.0, low / 1000.0, high / 1000.0);
        else
                snprintf(text, 64, "%.2fx", permille / 1000.0);
}

static int add_be(const struct calibrate_rows *rows, const struct dsc_calibration_cell *be, struct ctl_table *t)
{
        char sms[16], blocks[16] = "any", ls[DSC_LOADS][64], rate[32];
        const char *cells[] = {calibrate_loads[be->be_load], sms, blocks, ls[0], ls[1], ls[2], rate};
        uint64_t sum = 0, n = 0;
        snprintf(sms, sizeof(sms), "%" PRIu32, be->be_sms);
        if (be->be_blocks)
                snprintf(blocks, sizeof(blocks), "%" PRIu32, be->be_blocks);
        for (unsigned i = 0; i < DSC_LOADS; i++) {
                const struct calibrate_row *row = row_of(rows, be, i);
                snprintf(ls[i], sizeof(ls[i]), "-");
                if (!row)
                        continue;
                calibrate_times_text(row->cell.ls_permille, row->samples, row->low, row->high, ls[i]);
                sum += row->cell.be_permille;
                n++;
        }
        snprintf(rate, sizeof(rate), "%.2f", n ? (double)sum / (double)n / 1000.0 : 0);
        return ctl_table_row(t, cells);
}

/* 1: no earlier row has the same BE kernel and bound. */
static int is_first(const struct calibrate_rows *rows, size_t i)
{
        for (unsigned ls = 0; ls < DSC_LOADS; ls++) {
                const struct calibrate_row *row = row_of(rows, &rows->rows[i].cell, ls);
                if (row && row < &rows->rows[i])
                        return 0;
        }
        return 1;
}

static int matrix_table(const struct calibrate_rows *rows, struct ctl_text *text)
{
        static const char *const names[] = {"BE", "SMS", "BLOCKS", "LS COMPUTES", "LS READS", "LS WRITES", "BE RATE"};
        struct ctl_table *t = ctl_table_new(1);
        struct bound bound;
        int r = t ? 0 : CTL_FAILED;
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && t; i++)
                ctl_table_column(t, names[i], i > 0);
        for (size_t i = 0; i < rows->n && !r; i++)
                if (is_first(rows, i))
                        r = add_be(rows, &rows->rows[i].cell, t);
        if (!r)
                r = ctl_table_draw(t, text);
        ctl_table_free(t);
        fprintf(text->file,
                "LS: time beside such BE, alone = 1; BE: rate beside LS, alone on the whole GPU = 1.\n\n"
                "For LS at most %.2fx%s:\n",
                CALIBRATE_LIMIT / 1000.0, rows->simulated ? " (sim)" : "");
        for (size_t i = 0; bound_at(rows, i, &bound); i++)
                bound_text(&bound, text->file);
        return r;
}

static int table(const struct calibrate_rows *rows, struct ctl_text *text)
{
        int r = 0;
        fprintf(text->file, "Calibration of %s%s%s\n", rows->gpu, rows->simulated ? " (sim)" : "",
                rows->in_memory ? ", stored until the daemon ends: it has no state directory" : "");
        if (rows->n)
                r = matrix_table(rows, text);
        return r ? r : calibrate_channels_table(&rows->channels, rows->simulated, text);
}

/* --- JSON ------------------------- */

static void cell_json(const struct calibrate_row *row, struct ctl_text *text)
{
        ctl_json_begin(text, NULL, '{');
        ctl_json_string(text, "ls", calibrate_loads[row->cell.ls_load]);
        ctl_json_string(text, "be", calibrate_loads[row->cell.be_load]);
        ctl_json_number(text, "be_sms", row->cell.be_sms);
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

static void alone_json(const struct calibrate_rows *rows, struct ctl_text *text)
{
        ctl_json_begin(text, "alone", '{');
        for (unsigned i = 0; i < DSC_LOADS; i++) {
                char key[64];
                snprintf(key, sizeof(key), "ls_%s_ns", calibrate_loads[i]);
                ctl_json_number(text, key, rows->alone_ns[i]);
                snprintf(key, sizeof(key), "be_%s_blocks_per_s", calibrate_loads[i]);
                ctl_json_number(text, key, (uint64_t)rows->rate[i]);
        }
        ctl_json_end(text, '}');
}

static void json(const struct calibrate_rows *rows, struct ctl_text *text)
{
        struct bound bound;
        ctl_json_begin(text, NULL, '{');
        ctl_json_string(text, "gpu", rows->gpu);
        ctl_json_bool(text, "simulated", rows->simulated);
        ctl_json_bool(text, "in_memory", rows->in_memory);
        if (rows->alone_ns[0])
                alone_json(rows, text);
        ctl_json_begin(text, "cells", '[');
        for (size_t i = 0; i < rows->n; i++)
                cell_json(&rows->rows[i], text);
        ctl_json_end(text, ']');
        ctl_json_begin(text, "bounds", '[');
        for (size_t i = 0; bound_at(rows, i, &bound); i++) {
                ctl_json_begin(text, NULL, '{');
                ctl_json_string(text, "be", bound.memory ? "memory" : "compute");
                ctl_json_number(text, "be_sms", bound.be_sms);
                ctl_json_number(text, "be_blocks", bound.blocks);
                ctl_json_number(text, "ls_permille", bound.ls_permille);
                ctl_json_bool(text, "enough", bound.good);
                ctl_json_end(text, '}');
        }
        ctl_json_end(text, ']');
        calibrate_channels_json(&rows->channels, text);
        ctl_json_end(text, '}');
}

int calibrate_show(const struct calibrate_rows *rows, int as_json)
{
        struct ctl_text text;
        int r = ctl_text_open(&text);
        if (r)
                return r;
        if (as_json)
                json(rows, &text);
        else
                r = table(rows, &text);
        return ctl_text_close(&text, r);
}
