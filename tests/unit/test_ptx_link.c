/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linking PTX texts: definitions, declarations, names of one text, libraries, and errors between texts
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ptx/ir.h"
#include "ptx/link.h"
#include "ptx/ptx.h"
#include "util/alloc.h"

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"
#define KERNEL                                                                                     \
        ".extern .global .u32 state;\n.extern .func (.param .b32 r) twice(.param .b32 v);\n"       \
        ".visible .entry kernel(.param .u64 p)\n{\n.reg .b32 %r<3>;\n.reg .b64 %d<2>;\n"           \
        ".param .b32 in;\n.param .b32 out;\nld.param.u64 %d1, [p];\nld.global.u32 %r1, [state];\n" \
        "st.param.b32 [in], %r1;\ncall (out), twice, (in);\nld.param.b32 %r2, [out];\n"            \
        "st.global.u32 [%d1], %r2;\nret;\n}\n"
#define TWICE(linkage, name)                                                                                    \
        linkage " .func (.param .b32 r) " name "(.param .b32 v)\n{\n.reg .b32 %r<3>;\nld.param.b32 %r1, [v];\n" \
                "add.u32 %r2, %r1, %r1;\nst.param.b32 [r], %r2;\nret;\n}\n"
#define STATE ".visible .global .u32 state = 5;\n"

static char message[4096];

static bool builtin(const char *name)
{
        return strcmp(name, "vprintf") == 0;
}

/* Links texts; those after the first n_objects are members of a library. */
static int link_texts(const char *const *texts, size_t n, size_t n_objects, char **ret)
{
        static const char *const names[] = {"a", "b", "c", "d"};
        struct ds_ptx_link_input inputs[4];
        size_t length = 0;
        int r;

        *ret = NULL;
        for (size_t i = 0; i < n; i++)
                inputs[i] = (struct ds_ptx_link_input){
                        .name = names[i], .text = texts[i], .length = strlen(texts[i]), .on_demand = i >= n_objects};
        r = ds_ptx_link(inputs, n, 0, builtin, message, sizeof(message), ret, &length);
        cr_assert_eq(r == 0, *ret != NULL);
        if (*ret)
                cr_assert_eq(strlen(*ret), length);
        return r;
}

static ds_ptx_module *parsed(const char *text)
{
        struct ds_ptx_diags diags;
        ds_ptx_module *module = NULL;

        cr_assert_eq(ds_ptx_parse(text, strlen(text), 0, &diags, &module), 0, "%s\n%s", diags.diag[0].message, text);
        return module;
}

/* Number of definitions with this name in the text. */
static unsigned definitions(const char *text, const char *name)
{
        ds_ptx_module *m = parsed(text);
        unsigned n = 0;

        for (uint32_t i = 0; i < m->n_functions; i++)
                n += m->functions[i]->has_body && strcmp(m->functions[i]->name, name) == 0;
        for (uint32_t i = 0; i < m->n_vars; i++)
                n += m->vars[i]->linkage != DS_PTX_LINKAGE_EXTERN && strcmp(m->vars[i]->name, name) == 0;
        ds_ptx_module_free(m);
        return n;
}

static void links(const char *const *texts, size_t n, size_t n_objects, char **ret)
{
        int r = link_texts(texts, n, n_objects, ret);

        cr_assert_eq(r, 0, "%d: %s", r, message);
}

Test(ptx_link, one_text_stays_as_it_is)
{
        const char *texts[] = {HEAD "// a comment that a printer would drop\n" STATE};
        char *text;

        links(texts, 1, 1, &text);
        cr_assert_str_eq(text, texts[0]);
        ds_free(text);
}

Test(ptx_link, declarations_find_definitions_in_any_order)
{
        const char *texts[] = {HEAD KERNEL, HEAD STATE TWICE(".visible", "twice")};
        const char *reverse[] = {texts[1], texts[0]};
        char *text;

        links(texts, 2, 2, &text);
        cr_assert_eq(definitions(text, "kernel"), 1);
        cr_assert_eq(definitions(text, "twice"), 1);
        cr_assert_eq(definitions(text, "state"), 1);
        cr_assert_null(strstr(text, ".extern"));
        ds_free(text);
        links(reverse, 2, 2, &text);
        cr_assert_eq(definitions(text, "twice"), 1);
        ds_free(text);
}

Test(ptx_link, names_of_one_text_are_kept_apart)
{
        const char *texts[] = {HEAD KERNEL ".global .u32 own = 1;\n" TWICE("", "helper"), HEAD STATE
                ".global .u32 own = 2;\n.global .u64 at = own;\n" TWICE("", "helper") TWICE(".visible", "twice")};
        char *text;

        links(texts, 2, 2, &text);
        cr_assert_eq(definitions(text, "own"), 1);
        cr_assert_eq(definitions(text, "own$linked2"), 1);
        cr_assert_eq(definitions(text, "helper"), 1);
        cr_assert_eq(definitions(text, "helper$linked2"), 1);
        cr_assert(strstr(text, "at = own$linked2"), "%s", text);
        ds_free(text);
}

/* A name that a text has for itself must not become the definition of another text's declaration. */
Test(ptx_link, a_name_of_one_text_defines_nothing_for_others)
{
        const char *texts[] = {HEAD KERNEL, HEAD STATE TWICE("", "twice")};
        const char *third[] = {HEAD KERNEL, HEAD STATE TWICE("", "twice"), HEAD TWICE(".visible", "twice")};
        char *text;

        cr_assert_eq(link_texts(texts, 2, 2, &text), DS_PTX_LINK_E_UNDEFINED);
        cr_assert_str_eq(message, "error   : Undefined reference to 'twice' in 'a'\n");
        links(third, 3, 3, &text);
        cr_assert_eq(definitions(text, "twice"), 1);
        cr_assert_eq(definitions(text, "twice$linked2"), 1);
        ds_free(text);
}

Test(ptx_link, weak_definitions_give_way)
{
        const char *texts[] = {HEAD KERNEL TWICE(".weak", "other"), HEAD STATE TWICE(".weak", "twice"),
                HEAD TWICE(".visible", "twice") TWICE(".weak", "other")};
        char *text;

        links(texts, 3, 3, &text);
        cr_assert_eq(definitions(text, "twice"), 1);
        cr_assert_eq(definitions(text, "other"), 1);
        cr_assert(strstr(text, ".visible .func (.param .b32 r) twice"));
        ds_free(text);
}

Test(ptx_link, two_strong_definitions_are_an_error)
{
        const char *texts[] = {HEAD STATE TWICE(".visible", "twice"), HEAD STATE TWICE(".visible", "twice")};
        char *text;

        cr_assert_eq(link_texts(texts, 2, 2, &text), DS_PTX_LINK_E_DUPLICATE);
        cr_assert_str_eq(message, "error   : Multiple definition of 'state' in 'b', first defined in 'a'\n"
                                  "error   : Multiple definition of 'twice' in 'b', first defined in 'a'\n");
}

Test(ptx_link, a_declaration_must_fit_its_definition)
{
        const char *sizes[] = {HEAD KERNEL, HEAD ".visible .global .u64 state = 5;\n" TWICE(".visible", "twice")};
        const char *spaces[] = {HEAD KERNEL, HEAD ".visible .const .u32 state = 5;\n" TWICE(".visible", "twice")};
        char *text;

        cr_assert_eq(link_texts(sizes, 2, 2, &text), DS_PTX_LINK_E_DUPLICATE);
        cr_assert_str_eq(message, "error   : Size doesn't match for 'state' in 'a', first specified in 'b'\n");
        cr_assert_eq(link_texts(spaces, 2, 2, &text), DS_PTX_LINK_E_DUPLICATE);
        cr_assert_str_eq(message, "error   : Memory space doesn't match for 'state' in 'a', first specified in 'b'\n");
}

Test(ptx_link, missing_names_are_an_error)
{
        const char *texts[] = {HEAD KERNEL, HEAD STATE};
        char *text;

        cr_assert_eq(link_texts(texts, 2, 2, &text), DS_PTX_LINK_E_UNDEFINED);
        cr_assert_str_eq(message, "error   : Undefined reference to 'twice' in 'a'\n");
}

Test(ptx_link, functions_of_the_device_are_declared_once)
{
        static const char print[] = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);\n";
        char first[2048], second[2048];
        const char *texts[] = {first, second};
        char *text, *at;

        snprintf(first, sizeof(first), "%s%s%s", HEAD, print, KERNEL);
        snprintf(second, sizeof(second), "%s%s%s", HEAD, print, STATE TWICE(".visible", "twice"));
        links(texts, 2, 2, &text);
        at = strstr(text, "vprintf");
        cr_assert_not_null(at);
        cr_assert_null(strstr(at + 20, ".extern"));
        ds_free(text);
}

/* Members of a library take part if they define a missing name: of the object, or of another member. */
Test(ptx_link, members_of_a_library_are_taken_on_demand)
{
        const char *texts[] = {HEAD KERNEL, HEAD TWICE(".visible", "unused") ".extern .global .u32 nowhere;\n",
                HEAD ".extern .global .u32 more;\n.visible .global .u64 at = more;\n" TWICE(".visible", "twice") STATE,
                HEAD ".visible .global .u32 more;\n"};
        char *text;

        links(texts, 4, 1, &text);
        cr_assert_eq(definitions(text, "unused"), 0);
        cr_assert_eq(definitions(text, "twice"), 1);
        cr_assert_eq(definitions(text, "more"), 1);
        ds_free(text);
}

/* A library alone gives an empty module. */
Test(ptx_link, nothing_is_an_empty_module)
{
        const char *texts[] = {HEAD TWICE(".visible", "twice"), HEAD "garbage"};
        ds_ptx_module *module;
        char *text;

        links(texts, 2, 0, &text);
        module = parsed(text);
        cr_assert_eq(module->n_functions, 0);
        ds_ptx_module_free(module);
        ds_free(text);
}

/* Texts may declare the dynamic shared memory under one name with different types. */
Test(ptx_link, dynamic_shared_memory_needs_no_definition)
{
        const char *texts[] = {HEAD ".extern .shared .align 16 .b8 memory[];\n" KERNEL,
                HEAD ".extern .shared .align 4 .b32 memory[];\n" STATE TWICE(".visible", "twice")};
        char *text;

        links(texts, 2, 2, &text);
        cr_assert(strstr(text, ".extern .shared .align 16 .b8 memory[]"), "%s", text);
        cr_assert(strstr(text, ".extern .shared .align 4 .b32 memory$linked2[]"), "%s", text);
        ds_free(text);
}

/* A variable comes behind those whose addresses it contains, and functions before all variables. */
Test(ptx_link, initial_values_may_refer_to_other_texts)
{
        const char *texts[] = {HEAD
                ".extern .global .u32 state;\n.visible .global .u64 place = state;\n"
                ".extern .func (.param .b32 r) twice(.param .b32 v);\n.visible .global .u64 code = twice;\n",
                HEAD STATE TWICE(".visible", "twice")};
        char *text;

        links(texts, 2, 2, &text);
        cr_assert_lt(strstr(text, "u32 state"), strstr(text, "place = state"));
        ds_free(text);
}

Test(ptx_link, the_highest_version_and_target_win)
{
        const char *texts[] = {
                HEAD KERNEL, ".version 8.1\n.target sm_90a\n.address_size 64\n" STATE TWICE(".visible", "twice")};
        const char *old[] = {".version 6.0\n.target sm_60\n.address_size 64\n" KERNEL,
                ".version 8.1\n.target sm_90\n.address_size 64\n" STATE TWICE(".visible", "twice")};
        char *text;

        links(texts, 2, 2, &text);
        cr_assert_eq(strncmp(text, ".version 8.1\n.target sm_90a\n", 27), 0, "%.60s", text);
        ds_free(text);
        cr_assert_eq(link_texts(old, 2, 2, &text), DS_PTX_LINK_E_APART);
        cr_assert(strstr(message, "sm_60 and sm_90"));
}

Test(ptx_link, lines_and_files_are_dropped)
{
        const char *texts[] = {HEAD ".file 1 \"a.cu\"\n" KERNEL,
                HEAD ".file 1 \"b.cu\"\n" STATE
                     ".visible .func (.param .b32 r) twice(.param .b32 v)\n{\n.reg .b32 %r<2>;\n.loc 1 3 4\n"
                     "ld.param.b32 %r1, [v];\nst.param.b32 [r], %r1;\nret;\n}\n"};
        char *text;

        links(texts, 2, 2, &text);
        cr_assert_null(strstr(text, ".loc"));
        cr_assert_null(strstr(text, ".file"));
        ds_free(text);
}

Test(ptx_link, an_invalid_text_is_named)
{
        const char *texts[] = {HEAD STATE, HEAD ".visible .entry k()\n{\nfrobnicate;\n}\n"};
        char *text;

        cr_assert_eq(link_texts(texts, 2, 2, &text), DS_PTX_LINK_E_INVALID);
        cr_assert_eq(strncmp(message, "b:6:1: error:", 13), 0, "%s", message);
}

Test(ptx_link, no_memory_leaves_nothing_behind)
{
        const char *texts[] = {
                HEAD KERNEL ".global .u32 own = 1;\n", HEAD STATE ".global .u32 own = 2;\n" TWICE(".visible", "twice")};
        char *text;
        int r;

        for (int64_t i = 0; i < 1000; i++) {
                ds_alloc_fail_after(i);
                r = link_texts(texts, 2, 2, &text);
                ds_alloc_fail_after(-1);
                if (!r) {
                        cr_assert_gt(i, 5);
                        ds_free(text);
                        return;
                }
                cr_assert_eq(r, -ENOMEM, "allocation %lld: %d", (long long)i, r);
        }
        cr_assert_fail("linking needs more than 1000 allocations");
}
