/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes: their output for a text, which the assembler must accept
 *
 * tests/golden/pass/NAME.ptx with NAME.PASS.out for each pass: first the report on each function, then the module.
 * UPDATE_GOLDEN=1 in the environment writes the results instead of comparing. The interpreter's tests prove that
 * results stay the same to the last bit; they run the corpus with all passes (rig_for_all). Here the assembler accepts
 * the output of passes for some files of the corpus; PASS_CORPUS=all in the environment: for all files and targets.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ptx/pass/pass.h"
#include "util/alloc.h"
#include "util/macro.h"

#define SIZE_MAX_TEXT ((size_t)4 << 20)

static char *read_file(const char *path, size_t *ret_length)
{
        FILE *in = fopen(path, "re");
        char *data = calloc(1, SIZE_MAX_TEXT);

        cr_assert(in && data, "cannot open %s", path);
        *ret_length = fread(data, 1, SIZE_MAX_TEXT - 1, in);
        fclose(in);
        return data;
}

static ds_ptx_module *parse(const char *text, size_t length)
{
        static struct ds_ptx_diags diags;
        static char why[4000];
        ds_ptx_module *module = NULL;
        int r = ds_ptx_parse(text, length, 0, &diags, &module);

        ds_ptx_diags_format(&diags, "text", why, sizeof(why));
        cr_assert_eq(r, 0, "%s\n%s", why, text);
        return module;
}

static char *print(const ds_ptx_module *module)
{
        char *out = NULL;
        size_t n;
        FILE *stream = open_memstream(&out, &n);

        cr_assert_eq(ds_ptx_print(module, stream), 0);
        fclose(stream);
        return out;
}

/* Applies the pass and returns the module. Checks that the printed module parses and prints the same. said: file for
 * the reports on each function */
static ds_ptx_module *apply(const struct ds_ptx_pass *pass, const ds_ptx_module *before, const char *only, FILE *said)
{
        static const char *const words[] = {"unchanged", "done", "refused"};
        static struct ds_ptx_diags diags;
        static char why[4000];
        struct ds_ptx_outcome *outcome = calloc(before->n_functions + 1, sizeof(*outcome));
        ds_ptx_module *after = NULL, *again;
        char *once, *twice;
        int r = ds_ptx_pass_apply(pass, before, only, 0, outcome, &diags, &after);

        ds_ptx_diags_format(&diags, pass->name, why, sizeof(why));
        cr_assert_eq(r, 0, "%s", why);
        for (uint32_t i = 0; said && i < before->n_functions; i++)
                if (before->functions[i]->has_body)
                        fprintf(said, "%s: %s%s%s\n", before->functions[i]->name, words[outcome[i].verdict],
                                outcome[i].reason[0] ? ": " : "", outcome[i].reason);
        once = print(after);
        again = parse(once, strlen(once));
        twice = print(again);
        cr_assert_str_eq(once, twice);
        free(once);
        free(twice);
        free(outcome);
        ds_ptx_module_free(again);
        return after;
}

/* --- golden pairs --- */

static void compare(const char *path, const char *found)
{
        size_t n;
        char *wanted;

        if (getenv("UPDATE_GOLDEN")) {
                FILE *out = fopen(path, "we");

                cr_assert(out && fputs(found, out) >= 0 && fclose(out) == 0);
                return;
        }
        wanted = read_file(path, &n);
        cr_expect_str_eq(wanted, found, "%s differs; this was found:\n%s", path, found);
        free(wanted);
}

static void check_golden(const char *path, const struct ds_ptx_pass *pass)
{
        size_t length, n;
        char *text = read_file(path, &length), *found = NULL, pair[600];
        ds_ptx_module *before = parse(text, length), *after;
        FILE *out = open_memstream(&found, &n);

        after = apply(pass, before, NULL, out);
        fputc('\n', out);
        cr_assert_eq(ds_ptx_print(after, out), 0);
        fclose(out);
        snprintf(pair, sizeof(pair), "%.*s.%s.out", (int)strlen(path) - 4, path, pass->name);
        compare(pair, found);
        ds_ptx_module_free(after);
        ds_ptx_module_free(before);
        free(found);
        free(text);
}

Test(ptx_pass, golden)
{
        glob_t files;

        cr_assert_eq(glob(TEST_GOLDEN_DIR "/*.ptx", 0, NULL, &files), 0);
        cr_assert(files.gl_pathc >= 3);
        for (size_t i = 0; i < files.gl_pathc; i++)
                for (const struct ds_ptx_pass *pass = ds_ptx_passes; pass->name; pass++)
                        check_golden(files.gl_pathv[i], pass);
        globfree(&files);
}

/* Applying a pass twice changes nothing more. A pass that is applied to one kernel leaves the other kernels
 * unchanged. */
Test(ptx_pass, again_and_alone)
{
        static const char *const stable[] = {"strip-debug", "rename", "dce"};
        size_t length;
        char *text = read_file(TEST_GOLDEN_DIR "/exits.ptx", &length), *a, *b;
        ds_ptx_module *m = parse(text, length), *once, *twice;

        for (size_t i = 0; i < DS_ARRAY_SIZE(stable); i++) {
                const struct ds_ptx_pass *pass = ds_ptx_pass_find(stable[i], strlen(stable[i]));

                once = apply(pass, m, NULL, NULL);
                twice = apply(pass, once, NULL, NULL);
                a = print(once);
                b = print(twice);
                cr_expect_str_eq(a, b, "%s", stable[i]);
                free(a);
                free(b);
                ds_ptx_module_free(once);
                ds_ptx_module_free(twice);
        }
        once = apply(ds_ptx_pass_find("count-blocks", strlen("count-blocks")), m, "second", NULL);
        a = print(once);
        cr_expect(
                strstr(a, "ds_blocks_ended+8]") && !strstr(a, "[ds_blocks_ended]") && strstr(a, "ds_blocks_ended[2]"));
        free(a);
        ds_ptx_module_free(once);
        ds_ptx_module_free(m);
        free(text);
}

/* --- editing --- */

#define TEXT                                                                                                         \
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<4>;\n"     \
        ".reg .b64 %d;\nld.param.u64 %d, [p];\nL:\nmov.u32 %r1, 1;\nbra M;\nM:\nst.global.u32 [%d], %r1;\nret;\n}\n" \
        ".visible .entry none()\n{\n}\n"

static ds_ptx_module *finish(ds_ptx_edit *edit)
{
        static struct ds_ptx_diags diags;
        static char why[4000];
        ds_ptx_module *after = NULL;
        int r = ds_ptx_edit_apply(edit, 0, &diags, &after);

        ds_ptx_diags_format(&diags, "edit", why, sizeof(why));
        cr_assert_eq(r, 0, "%s", why);
        ds_ptx_edit_free(edit);
        return after;
}

/* Applies each kind of edit, at places behind labels and at the ends */
Test(ptx_edit, everything_at_its_place)
{
        ds_ptx_module *m = parse(TEXT, strlen(TEXT)), *after;
        ds_ptx_edit *edit = ds_ptx_edit_new(m, 0);
        const struct ds_ptx_function *k = m->functions[0], *none = m->functions[1];
        const struct ds_ptx_binding bindings[] = {{"r", "%r1"}, {"n", "17"}, {"longer_name", "%r2"}};
        char *text, name[DS_PTX_NAME_MAX];

        cr_assert(ds_ptx_edit_is_empty(edit));
        ds_ptx_edit_top(edit, k, "// top", NULL, 0);
        ds_ptx_edit_before(edit, k, 1, "add.u32 #r, #r, #n;", bindings, 3);
        ds_ptx_edit_before(edit, k, 1, "mov.u32 #longer_name, 18;", bindings, 3);
        ds_ptx_edit_after(edit, k, 2, "mov.u32 %r2, 19;", NULL, 0);
        ds_ptx_edit_replace(edit, k, 1, "mov.u32 %r3, 20;", NULL, 0);
        ds_ptx_edit_remove(edit, k, 3);
        ds_ptx_edit_before(edit, none, 0, "trap;", NULL, 0);
        ds_ptx_edit_parameter(edit, none, ".param .u32 a", NULL, 0);
        ds_ptx_edit_parameter(edit, k, ".param .u32 b", NULL, 0);
        ds_ptx_edit_parameter(edit, k, ".param .u64 c", NULL, 0);
        cr_expect_str_eq(ds_ptx_edit_fresh(edit, "v", name), "v");
        ds_ptx_edit_prologue(edit, ".global .u32 v;", NULL, 0);
        ds_ptx_edit_epilogue(edit, ".func f()\n{\n ret;\n}", NULL, 0);
        after = finish(edit);
        text = print(after);
        cr_expect(strstr(text, ".global .u32 v;\n\n.visible .entry k(.param .u64 p, .param .u32 b, .param .u64 c)"),
                "%s", text);
        cr_expect(strstr(text, "L:\n\tadd.u32 %r1, %r1, 17;\n\tmov.u32 %r2, 18;\n\tmov.u32 %r3, 20;\n\tbra M;\n"
                               "\tmov.u32 %r2, 19;\nM:\n\tret;\n"),
                "%s", text);
        cr_expect(strstr(text, ".entry none(.param .u32 a)\n{\n\ttrap;\n}\n\n.func f()"), "%s", text);
        free(text);
        ds_ptx_module_free(after);
        /* the original is unchanged */
        text = print(m);
        cr_expect(strstr(text, "L:\n\tmov.u32 %r1, 1;\n\tbra M;\n"), "%s", text);
        free(text);
        ds_ptx_module_free(m);
}

/* A pass that writes invalid PTX gets an error with that text; without memory there is no module. */
Test(ptx_edit, nonsense_is_refused)
{
        ds_ptx_module *m = parse(TEXT, strlen(TEXT)), *after = NULL;
        ds_ptx_edit *edit = ds_ptx_edit_new(m, 0);
        struct ds_ptx_diags diags;

        ds_ptx_edit_before(edit, m->functions[0], 2, "mov.u32 %r7, 1;", NULL, 0);
        cr_expect_eq(ds_ptx_edit_apply(edit, 0, &diags, &after), DS_PTX_E_INVALID);
        cr_expect_str_eq(diags.diag[0].message, "'%r7' is not defined");
        cr_expect_str_eq(diags.diag[0].excerpt, "mov.u32 %r7, 1;");
        ds_ptx_edit_free(edit);
        edit = ds_ptx_edit_new(m, 0);
        cr_expect_eq(ds_ptx_edit_apply(edit, 1, &diags, &after), -ENOMEM);
        ds_ptx_edit_free(edit);
        edit = ds_ptx_edit_new(m, 4096);
        for (int i = 0; i < 1000; i++)
                ds_ptx_edit_before(edit, m->functions[0], 0, "mov.u32 %r1, 1;", NULL, 0);
        cr_expect_eq(ds_ptx_edit_apply(edit, 0, &diags, &after), -ENOMEM);
        ds_ptx_edit_free(edit);
        cr_expect_null(after);
        ds_ptx_module_free(m);
}

Test(ptx_edit, fresh_names_are_nobodys)
{
        static const char text[] = ".version 8.0\n.target sm_90\n.address_size 64\n.global .u32 v;\n"
                                   ".func v1_(.reg .b32 v2_)\n{\nv3_:\n.reg .b32 v4_;\n.local .u32 v5_;\nret;\n}\n";
        ds_ptx_module *m = parse(text, strlen(text));
        ds_ptx_edit *edit = ds_ptx_edit_new(m, 0);
        char name[DS_PTX_NAME_MAX];

        cr_expect_str_eq(ds_ptx_edit_fresh(edit, "v", name), "v6_");
        cr_expect_str_eq(ds_ptx_edit_fresh(edit, "v", name), "v7_");
        cr_expect_str_eq(ds_ptx_edit_fresh(edit, "w", name), "w");
        ds_ptx_edit_free(edit);
        ds_ptx_module_free(m);
}

/* Every allocation of every pass can fail. */
Test(ptx_pass, out_of_memory)
{
        size_t length;
        char *text = read_file(TEST_GOLDEN_DIR "/names.ptx", &length);
        ds_ptx_module *m = parse(text, length), *after;
        struct ds_ptx_outcome outcome[16];
        static struct ds_ptx_diags diags;
        int failed = 0, r;

        for (const struct ds_ptx_pass *pass = ds_ptx_passes; pass->name; pass++) {
                for (int64_t n = 0;; n++) {
                        after = NULL;
                        ds_alloc_fail_after(n);
                        r = ds_ptx_pass_apply(pass, m, NULL, 0, outcome, &diags, &after);
                        ds_alloc_fail_after(-1);
                        cr_assert(r == 0 || r == -ENOMEM, "%s: %d after %d allocations", pass->name, r, (int)n);
                        cr_assert_eq(after != NULL, r == 0);
                        ds_ptx_module_free(after);
                        if (!r)
                                break;
                        failed++;
                }
        }
        cr_expect(failed > 20);
        ds_ptx_module_free(m);
        free(text);
}

/* --- the assembler --- */

static void assembles(const char *path)
{
        char in[] = "/tmp/detshare-pass-XXXXXX", command[300], arch[16];
        size_t length;
        char *text = read_file(path, &length), *printed;
        ds_ptx_module *m = parse(text, length), *after;
        int fd = mkstemp(in);

        snprintf(arch, sizeof(arch), "sm_%u%.1s", m->target, &m->target_suffix);
        for (const struct ds_ptx_pass *pass = ds_ptx_passes; pass->name; pass++) {
                after = apply(pass, m, NULL, NULL);
                ds_ptx_module_free(m);
                m = after;
        }
        printed = print(m);
        cr_assert(fd >= 0 && write(fd, printed, strlen(printed)) == (ssize_t)strlen(printed));
        close(fd);
        snprintf(command, sizeof(command), "%s -arch=%s -O1 -o /dev/null %s", PTXAS, arch, in);
        cr_expect_eq(system(command), 0, "%s with all passes does not assemble", path);
        unlink(in);
        free(printed);
        free(text);
        ds_ptx_module_free(m);
}

Test(ptx_pass, the_assembler_takes_it, .timeout = 600)
{
        static const char *const some[] = {"diverge", "calls", "votes", "prints"};
        bool all = getenv("PASS_CORPUS") && strcmp(getenv("PASS_CORPUS"), "all") == 0;
        char path[500];
        glob_t files;

        for (size_t i = 0; i < DS_ARRAY_SIZE(some) && !all; i++) {
                snprintf(path, sizeof(path), TEST_PTX_DIR "/sm_90/%s.ptx", some[i]);
                assembles(path);
        }
        if (!all)
                return;
        /* these files exist after `make corpus` */
        cr_assert_eq(glob(TEST_PTX_DIR "/sm_*/*.ptx", 0, NULL, &files), 0);
        (void)glob(TEST_PTX_DIR "/corpus/*/*.ptx", GLOB_APPEND, NULL, &files);
        for (size_t i = 0; i < files.gl_pathc; i++)
                assembles(files.gl_pathv[i]);
        globfree(&files);
}
