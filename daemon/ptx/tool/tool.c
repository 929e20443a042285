/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/tool/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ptx/ir.h"
#include "util/alloc.h"
#include "util/macro.h"

#define MAX_FILE DS_MIB(256)
#define EXCERPT_MAX 160

struct palette {
        const char *place, *error, *caret, *off;
};

static const struct palette plain = {"", "", "", ""};
static const struct palette colored = {"\033[1m", "\033[1;31m", "\033[1;32m", "\033[0m"};
static const struct palette *palette = &plain;

bool ds_ptx_tool_color(const char *when)
{
        const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

        if (strcmp(when, "always") == 0)
                palette = &colored;
        else if (strcmp(when, "never") == 0)
                palette = &plain;
        else if (strcmp(when, "auto") != 0)
                return false;
        else
                palette = isatty(STDERR_FILENO) && !(no && *no) && !(term && strcmp(term, "dumb") == 0) ? &colored
                                                                                                        : &plain;
        return true;
}

int ds_ptx_tool_usage(const char *message)
{
        fprintf(stderr, "detshare-ptx: %s\nTry 'detshare-ptx --help'.\n", message);
        return DS_PTX_TOOL_USAGE;
}

/* --- reading and parsing --- */

struct text {
        char *data;
        size_t length;
};

static void text_freep(struct text *text)
{
        text->data = ds_free(text->data);
}

static int read_stream(FILE *in, struct text *text)
{
        size_t capacity = 0;

        for (;;) {
                size_t n;

                if (text->length == capacity) {
                        char *grown;

                        if (capacity >= MAX_FILE)
                                return -EFBIG;
                        capacity = capacity ? capacity * 2 : (size_t)64 << 10;
                        grown = ds_realloc(text->data, capacity, 1);
                        if (!grown)
                                return -ENOMEM;
                        text->data = grown;
                }
                errno = EIO;
                n = fread(text->data + text->length, 1, capacity - text->length, in);
                text->length += n;
                if (!n)
                        return ferror(in) ? -errno : 0;
        }
}

static int read_file(const char *path, struct text *text)
{
        bool is_stdin = strcmp(path, "-") == 0;
        FILE *in = is_stdin ? stdin : fopen(path, "re");
        int r = in ? read_stream(in, text) : -errno;

        if (in && !is_stdin)
                fclose(in);
        if (r)
                fprintf(stderr, "detshare-ptx: %s: %s\n", path, strerror(-r));
        return r;
}

int ds_ptx_tool_load(const char *path, struct ds_ptx_diags *diags, ds_ptx_module **ret)
{
        ds_cleanup(text_freep) struct text text = {0};
        int r;

        if (read_file(path, &text))
                return DS_PTX_TOOL_BAD;
        r = ds_ptx_parse(text.data, text.length, 0, diags, ret);
        if (r < 0)
                fprintf(stderr, "detshare-ptx: %s: %s\n", path, strerror(-r));
        else if (r)
                ds_ptx_tool_diags(diags, path);
        return r ? DS_PTX_TOOL_BAD : 0;
}

/* --- messages --- */

/* Prints the text of ds_ptx_diags_format line by line; colours the place of the error, the word "error" and the
 * caret. */
static void put_colored(const char *text)
{
        static const char mark[] = ": error: ";

        while (*text) {
                size_t n = strcspn(text, "\n");
                const char *error = memmem(text, n, mark, strlen(mark));

                if (error)
                        fprintf(stderr, "%s%.*s: %serror:%s %.*s\n", palette->place, (int)(error - text), text,
                                palette->error, palette->off, (int)(text + n - error) - (int)strlen(mark),
                                error + strlen(mark));
                else if (n && text[n - 1] == '^' && strspn(text, " \t") == n - 1)
                        fprintf(stderr, "%.*s%s^%s\n", (int)n - 1, text, palette->caret, palette->off);
                else
                        fprintf(stderr, "%.*s\n", (int)n, text);
                text += n + (text[n] == '\n');
        }
}

void ds_ptx_tool_diags(const struct ds_ptx_diags *diags, const char *path)
{
        size_t size = ds_ptx_diags_format(diags, path, NULL, 0) + 1;
        ds_cleanup(ds_freep) char *buffer = ds_alloc(size);

        if (!buffer)
                return;
        ds_ptx_diags_format(diags, path, buffer, size);
        put_colored(buffer);
}

static const char *find_line(const ds_ptx_module *module, unsigned line)
{
        const char *p = module->text, *end = p + module->length;

        for (unsigned i = 1; i < line && p; i++) {
                p = memchr(p, '\n', (size_t)(end - p));
                p = p ? p + 1 : NULL;
        }
        return line ? p : NULL;
}

const char *ds_ptx_tool_line(const ds_ptx_module *module, unsigned line, size_t *ret_length)
{
        /* last line found; cached, because callers request lines near each other */
        static const ds_ptx_module *last_module;
        static const char *last;
        static unsigned last_line;
        const char *end = module->text + module->length, *p = last_module == module && last_line <= line ? last : NULL;
        unsigned at = p ? last_line : 1;

        for (p = p ? p : module->text; at < line && p; at++) {
                p = memchr(p, '\n', (size_t)(end - p));
                p = p ? p + 1 : NULL;
        }
        *ret_length = 0;
        if (!p || !line)
                return "";
        last_module = module;
        last = p;
        last_line = line;
        p += strspn(p, " \t");
        for (*ret_length = strcspn(p, "\r\n"); *ret_length && strchr(" \t", p[*ret_length - 1]);)
                --*ret_length;
        return p;
}

void ds_ptx_tool_point(
        const ds_ptx_module *module, const char *path, unsigned line, const char *what, const char *message)
{
        const char *p = find_line(module, line);
        size_t n = p ? strcspn(p, "\r\n") : 0, blanks = p ? strspn(p, " \t") : 0;

        if (line)
                fprintf(stderr, "%s%s:%u: %s%s:%s %s\n", palette->place, path, line, palette->error, what, palette->off,
                        message);
        else
                fprintf(stderr, "%s%s: %s%s:%s %s\n", palette->place, path, palette->error, what, palette->off,
                        message);
        if (!n || blanks >= n)
                return;
        /* replaces unprintable bytes: the text may come from anyone, and goes to a terminal */
        for (size_t i = 0; i < n && i < EXCERPT_MAX; i++)
                fputc((p[i] >= ' ' && p[i] <= '~') || p[i] == '\t' ? p[i] : '?', stderr);
        fprintf(stderr, "\n%.*s%s^%s\n", (int)DS_MIN(blanks, (size_t)EXCERPT_MAX), p, palette->caret, palette->off);
}

int ds_ptx_tool_put(const ds_ptx_module *module)
{
        int r = ds_ptx_print(module, stdout);

        if (r) {
                fprintf(stderr, "detshare-ptx: standard output: %s\n", strerror(-r));
                return DS_PTX_TOOL_BAD;
        }
        return ds_ptx_tool_flush();
}

int ds_ptx_tool_flush(void)
{
        if (!fflush(stdout))
                return 0;
        fprintf(stderr, "detshare-ptx: standard output: %s\n", strerror(errno));
        return DS_PTX_TOOL_BAD;
}
