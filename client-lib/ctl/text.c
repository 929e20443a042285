/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output: collected in memory and printed at once; JSON; numbers for people
 *
 * Scripts rely on the JSON: keys keep their meaning, numbers are numbers in base units (bytes, nanoseconds), and names
 * of clients are escaped, and repaired if they are not UTF-8.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"

int ctl_text_open(struct ctl_text *text)
{
        *text = (struct ctl_text){.first = 1};
        text->file = open_memstream(&text->bytes, &text->size);
        if (text->file)
                return 0;
        ctl_complain("out of memory");
        return CTL_FAILED;
}

int ctl_text_close(struct ctl_text *text, int r)
{
        const int closed = fclose(text->file); /* flushes to `bytes` */
        if (!r && (closed || fwrite(text->bytes, 1, text->size, stdout) != text->size || fflush(stdout))) {
                ctl_complain("cannot write: %s", strerror(errno));
                r = CTL_FAILED;
        }
        text->file = NULL;
        free(text->bytes);
        text->bytes = NULL;
        return r;
}

/* --- JSON --- */

/* Returns the length of the UTF-8 sequence at s, bytes; 0 if it is invalid (overlong forms, surrogates, code points
 * above U+10FFFF). */
static int utf8_length(const unsigned char *s)
{
        static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
        const int n = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
        uint32_t c = n > 1 ? s[0] & (0x7fu >> n) : s[0];
        for (int i = 1; i < n; i++) {
                if (s[i] >> 6 != 2)
                        return 0;
                c = c << 6 | (s[i] & 0x3fu);
        }
        if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
                return 0;
        return n;
}

void ctl_json_quote(FILE *file, const char *value)
{
        fputc('"', file);
        for (const unsigned char *s = (const unsigned char *)value; *s;) {
                const int n = utf8_length(s);
                if (n == 0)
                        fputs("\\ufffd", file);
                else if (*s == '"' || *s == '\\')
                        fprintf(file, "\\%c", *s);
                else if (*s < 0x20 || *s == 0x7f)
                        fprintf(file, "\\u%04x", *s);
                else
                        fwrite(s, 1, (size_t)n, file);
                s += n ? n : 1;
        }
        fputc('"', file);
}

static void put_key(struct ctl_text *text, const char *key)
{
        if (text->depth)
                fprintf(text->file, "%s\n%*s", text->first ? "" : ",", 2 * text->depth, "");
        text->first = 0;
        if (!key)
                return;
        ctl_json_quote(text->file, key);
        fputs(": ", text->file);
}

void ctl_json_begin(struct ctl_text *text, const char *key, char bracket)
{
        put_key(text, key);
        fputc(bracket, text->file);
        text->depth++;
        text->first = 1;
}

void ctl_json_end(struct ctl_text *text, char bracket)
{
        text->depth--;
        if (!text->first)
                fprintf(text->file, "\n%*s", 2 * text->depth, "");
        fputc(bracket, text->file);
        text->first = 0;
        if (!text->depth)
                fputc('\n', text->file);
}

void ctl_json_string(struct ctl_text *text, const char *key, const char *value)
{
        put_key(text, key);
        ctl_json_quote(text->file, value);
}

void ctl_json_number(struct ctl_text *text, const char *key, uint64_t value)
{
        put_key(text, key);
        fprintf(text->file, "%" PRIu64, value);
}

void ctl_json_objective(struct ctl_text *text, const struct ds_slo *slo)
{
        ctl_json_number(text, "slo_ns", slo->ns[DS_SLO_LATENCY]);
        ctl_json_number(text, "slo_permille", slo->permille[DS_SLO_LATENCY]);
        ctl_json_number(text, "ttft_ns", slo->ns[DS_SLO_TTFT]);
        ctl_json_number(text, "ttft_permille", slo->permille[DS_SLO_TTFT]);
        ctl_json_number(text, "tpot_ns", slo->ns[DS_SLO_TPOT]);
        ctl_json_number(text, "tpot_permille", slo->permille[DS_SLO_TPOT]);
}

void ctl_json_signed(struct ctl_text *text, const char *key, int64_t value)
{
        put_key(text, key);
        fprintf(text->file, "%" PRId64, value);
}

void ctl_json_bool(struct ctl_text *text, const char *key, int value)
{
        put_key(text, key);
        fputs(value ? "true" : "false", text->file);
}

/* --- numbers for people ----------- */

const char *ctl_bytes(uint64_t bytes, char buffer[static 32])
{
        static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
        double value = (double)bytes;
        size_t unit = 0;
        while (value >= 1024 && unit < sizeof(units) / sizeof(units[0]) - 1) {
                value /= 1024;
                unit++;
        }
        snprintf(buffer, 32, unit && value < 100 ? "%.1f %s" : "%.0f %s", value, units[unit]);
        return buffer;
}

int ctl_parse_bytes(const char *text, uint64_t *ret)
{
        static const char suffixes[] = "kmgt";
        char *end;
        errno = 0;
        const unsigned long long n = strtoull(text, &end, 10);
        const char *suffix = *end ? strchr(suffixes, *end | 0x20) : NULL;
        const unsigned shift = suffix ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
        if (text[0] < '0' || text[0] > '9' || errno || (*end && (!suffix || end[1])) || n > UINT64_MAX >> shift)
                return -1;
        *ret = (uint64_t)n << shift;
        return 0;
}

const char *ctl_time(uint64_t ns, char buffer[static 32])
{
        if (ns < 1000000)
                snprintf(buffer, 32, ns < 10000 ? "%.1f us" : "%.0f us", (double)ns / 1e3);
        else if (ns < 1000000000)
                snprintf(buffer, 32, ns < 10000000 ? "%.2f ms" : "%.1f ms", (double)ns / 1e6);
        else
                snprintf(buffer, 32, "%.2f s", (double)ns / 1e9);
        return buffer;
}

const char *ctl_duration(uint64_t ns, char buffer[static 32])
{
        const uint64_t s = ns / 1000000000u;
        if (s < 86400)
                snprintf(buffer, 32, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600, s / 60 % 60, s % 60);
        else
                snprintf(buffer, 32, "%" PRIu64 "d %" PRIu64 ":%02" PRIu64, s / 86400, s / 3600 % 24, s / 60 % 60);
        return buffer;
}
