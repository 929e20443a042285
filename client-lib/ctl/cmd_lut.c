/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl lut: tables of VRAM channels
 *
 * Reads files without the daemon, so a table can be checked before it is installed.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "lut/table.h"

#define GRANULES_SHOWN 32
#define PATTERNS_SHOWN 4

static const char *source_name(const struct ds_lut_facts *facts)
{
        return facts->source == DS_LUT_MEASURED ? "measured" : "simulated";
}

static const char *form_name(const struct ds_lut_facts *facts)
{
        switch (facts->form) {
        case DS_LUT_MODULUS:
                return "modulus";
        case DS_LUT_XOR:
                return "xor";
        case DS_LUT_PLACES:
                return "places";
        case DS_LUT_CONGRUENCE:
                break;
        }
        return "congruence";
}

static const char *share_text(const struct ds_lut_facts *facts, char buffer[static 32])
{
        if (facts->held_out)
                snprintf(buffer, 32, "%.3f%%", 100.0 * facts->held_right / facts->held_out);
        else
                snprintf(buffer, 32, "not tested");
        return buffer;
}

/* Opens a table of channels. 0 and *ret, or an exit code after an error message. */
static int open_table(const char *path, const char *model, struct ds_lut **ret)
{
        char why[160];
        const int r = ds_lut_open(path, model, ret, why, sizeof(why));
        if (!r)
                return CTL_OK;
        ctl_complain("%s: %s", path, r > 0 ? why : strerror(-r));
        return access(path, F_OK) < 0 && errno == ENOENT ? CTL_NO_SUCH : CTL_FAILED;
}

static void facts_json(const struct ds_lut *lut, struct ctl_text *text)
{
        const struct ds_lut_facts *facts = ds_lut_facts(lut);
        const uint32_t *offsets;
        ctl_json_string(text, "model", facts->model);
        ctl_json_string(text, "driver", facts->driver);
        ctl_json_string(text, "source", source_name(facts));
        ctl_json_string(text, "learner", facts->learner);
        ctl_json_number(text, "learnt_at", (uint64_t)facts->learnt_at);
        ctl_json_number(text, "channels", facts->channels);
        ctl_json_number(text, "granule", UINT64_C(1) << facts->granule_bits);
        ctl_json_number(text, "page", UINT64_C(1) << facts->page_bits);
        ctl_json_string(text, "form", form_name(facts));
        ctl_json_number(text, "patterns", facts->patterns);
        ctl_json_number(text, "signature", ds_lut_signature(lut, &offsets));
        ctl_json_number(text, "samples", facts->samples);
        ctl_json_number(text, "held_out", facts->held_out);
        ctl_json_number(text, "held_right", facts->held_right);
}

/* --- list --- */

static int is_table(const struct dirent *entry)
{
        const size_t n = strlen(entry->d_name);
        return n > 4 && !strcmp(entry->d_name + n - 4, ".lut");
}

/* *ret: the directory with the tables that the installed daemon reads. */
int ctl_lut_dir(char *ret, size_t size)
{
        static const char *const places[] = {"../share/detshare/lut", "../lut/tables", "../../lut/tables"};
        char own[PATH_MAX];
        struct stat st;
        ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
        if (n < 0)
                return -1;
        own[n] = '\0';
        *strrchr(own, '/') = '\0';
        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
                if ((size_t)snprintf(ret, size, "%s/%s", own, places[i]) < size && !stat(ret, &st) &&
                        S_ISDIR(st.st_mode))
                        return 0;
        return -1;
}

static int list_row(const char *name, const struct ds_lut *lut, struct ctl_table *t)
{
        const struct ds_lut_facts *facts = ds_lut_facts(lut);
        char channels[16], granule[32], patterns[16], share[32];
        const char *cells[] = {
                name, facts->model, source_name(facts), channels, granule, patterns, share_text(facts, share)};
        snprintf(channels, sizeof(channels), "%u", facts->channels);
        snprintf(granule, sizeof(granule), "%u B", 1u << facts->granule_bits);
        snprintf(patterns, sizeof(patterns), "%" PRIu32, facts->patterns);
        return ctl_table_row(t, cells);
}

static struct ctl_table *list_table(void)
{
        static const char *const names[] = {"TABLE", "MODEL", "SOURCE", "CHANNELS", "GRANULE", "PATTERNS", "HELD OUT"};
        struct ctl_table *t = ctl_table_new(1);
        for (size_t i = 0; t && i < sizeof(names) / sizeof(names[0]); i++)
                ctl_table_column(t, names[i], i > 2);
        return t;
}

/* Lists the tables of a directory. For a file that is no complete table, prints a message on stderr. */
static int list(const char *directory, int as_json, struct ctl_text *text)
{
        struct dirent **found = NULL;
        struct ctl_table *t = as_json ? NULL : list_table();
        const int n = scandir(directory, &found, is_table, alphasort);
        int bad = 0, rows = 0, r = 0;
        if (n < 0) {
                ctl_complain("%s: %s", directory, strerror(errno));
                ctl_table_free(t);
                return CTL_NO_SUCH;
        }
        if (as_json) {
                ctl_json_begin(text, NULL, '{');
                ctl_json_begin(text, "tables", '[');
        }
        for (int i = 0; i < n; i++) {
                char path[PATH_MAX + 300];
                struct ds_lut *lut;
                snprintf(path, sizeof(path), "%s/%s", directory, found[i]->d_name);
                if (open_table(path, NULL, &lut)) {
                        bad = 1;
                } else {
                        if (as_json) {
                                ctl_json_begin(text, NULL, '{');
                                ctl_json_string(text, "file", path);
                                facts_json(lut, text);
                                ctl_json_end(text, '}');
                        } else if (t && !r) {
                                r = list_row(found[i]->d_name, lut, t);
                                rows++;
                        }
                        ds_lut_free(lut);
                }
                free(found[i]);
        }
        free(found);
        if (as_json) {
                ctl_json_end(text, ']');
                ctl_json_end(text, '}');
        } else if (t && rows && !r) {
                r = ctl_table_draw(t, text);
        }
        ctl_table_free(t);
        return r ? r : bad ? CTL_FAILED : CTL_OK;
}

int lut_list(const struct ctl_args *args)
{
        char directory[PATH_MAX + 32];
        struct ctl_text text;
        const int as_json = ctl_given(args, "json");
        int code;
        if (args->argc) {
                snprintf(directory, sizeof(directory), "%s", args->argv[0]);
        } else if (ctl_lut_dir(directory, sizeof(directory)) < 0) {
                ctl_complain("no tables are installed");
                return CTL_NO_SUCH;
        }
        code = ctl_text_open(&text);
        if (code)
                return code;
        code = list(directory, as_json, &text);
        /* print the list of valid tables even if some files were refused */
        return code == CTL_FAILED ? (ctl_text_close(&text, 0), code) : ctl_text_close(&text, code);
}

/* --- show and verify --- */

static void show(const struct ds_lut *lut, struct ctl_text *text)
{
        const struct ds_lut_facts *facts = ds_lut_facts(lut);
        const time_t when = (time_t)facts->learnt_at;
        const uint32_t granules = 1u << (facts->page_bits - facts->granule_bits);
        const uint32_t *offsets;
        char share[32], date[64] = "";
        struct tm tm;
        if (gmtime_r(&when, &tm))
                strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S UTC", &tm);
        fprintf(text->file, "model      %s\n", facts->model);
        fprintf(text->file, "driver     %s\n", facts->driver[0] ? facts->driver : "none");
        fprintf(text->file, "source     %s\n", source_name(facts));
        fprintf(text->file, "learnt     %s by %s\n", date, facts->learner);
        fprintf(text->file, "channels   %u\n", facts->channels);
        fprintf(text->file, "granule    %u bytes\n", 1u << facts->granule_bits);
        fprintf(text->file, "patterns   %" PRIu32 " (%s)\n", facts->patterns, form_name(facts));
        fprintf(text->file, "signature  %zu probes\n", ds_lut_signature(lut, &offsets));
        fprintf(text->file, "samples    %" PRIu32 "\n", facts->samples);
        fprintf(text->file, "held out   %" PRIu32 " of %" PRIu32 " right (%s)\n", facts->held_right, facts->held_out,
                share_text(facts, share));
        for (uint32_t p = 0; p < PATTERNS_SHOWN && p < facts->patterns; p++) {
                fprintf(text->file, "pattern %-3" PRIu32, p);
                for (uint32_t i = 0; i < GRANULES_SHOWN && i < granules; i++)
                        fprintf(text->file, " %" PRIu32, ds_lut_channel(lut, p, i << facts->granule_bits));
                fprintf(text->file, granules > GRANULES_SHOWN ? " ...\n" : "\n");
        }
}

int lut_show(const struct ctl_args *args)
{
        struct ds_lut *lut;
        struct ctl_text text;
        const int as_json = ctl_given(args, "json");
        int code = open_table(args->argv[0], NULL, &lut);
        if (code)
                return code;
        code = ctl_text_open(&text);
        if (!code) {
                if (as_json) {
                        ctl_json_begin(&text, NULL, '{');
                        facts_json(lut, &text);
                        ctl_json_end(&text, '}');
                } else {
                        show(lut, &text);
                }
                code = ctl_text_close(&text, 0);
        }
        ds_lut_free(lut);
        return code;
}

int lut_verify(const struct ctl_args *args)
{
        struct ds_lut *lut;
        const int code = open_table(args->argv[0], ctl_value(args, "model"), &lut);
        if (code)
                return code;
        printf("%s: a table for %s, %s\n", args->argv[0], ds_lut_facts(lut)->model, source_name(ds_lut_facts(lut)));
        ds_lut_free(lut);
        return CTL_OK;
}
