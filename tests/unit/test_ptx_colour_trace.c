/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracing of coloured addresses, on misleading texts
 *
 * test_ptx_colour.c runs compilers' kernels. The texts here are such that no compiler writes them: some would take for
 * ever, and in some a value depends on the address in a hidden way.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/pass/colour.h"
#include "ptx/pass/colour_trace.h"
#include "ptx/ptx.h"
#include "util/macro.h"

#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
#define KERNEL                                                                                                   \
        HEAD ".visible .entry k(.param .u64 p, .param .u64 q)\n{\n.reg .b64 %a<9>;\n.reg .f64 %d<9>;\n"          \
             ".reg .b32 %r<9>;\n.reg .f32 %f<9>;\n.reg .b16 %h<9>;\n.reg .pred %p<9>;\nld.param.u64 %a1, [p];\n" \
             "ld.param.u64 %a2, [q];\nst.global.u32 [%a1], 1;\n"

static ds_ptx_module *module_of(const char *text)
{
        static struct ds_ptx_diags diags;
        static char why[2000];
        ds_ptx_module *module = NULL;
        int r = ds_ptx_parse(text, strlen(text), 0, &diags, &module);

        ds_ptx_diags_format(&diags, "ptx", why, sizeof(why));
        cr_assert_eq(r, 0, "%s", why);
        return module;
}

/* A result that depends on a tensor's place is refused; one that depends on the address's low bits only is accepted. */
Test(ptx_colour_trace, results_of_an_address)
{
        static const struct {
                const char *text, *reason; /* NULL: the kernel can be coloured */
        } rows[] = {
                {"and.b64 %a3, %a1, 255;\nst.global.u64 [%a2], %a3;\n", NULL},
                {"and.b64 %a3, %a1, 256;\nst.global.u64 [%a2], %a3;\n", "stores the address"},
                {"and.b64 %a3, %a1, -256;\nst.global.u32 [%a3], 1;\n", NULL},
                {"and.b64 %a3, %a1, -512;\nst.global.u32 [%a3], 1;\n", "unknown way"},
                {"cvt.u32.u64 %r1, %a1;\nadd.u32 %r2, %r1, 5;\nand.b32 %r3, %r2, 15;\nst.global.u32 [%a2], %r3;\n",
                        NULL},
                {"cvt.u32.u64 %r1, %a1;\nmov.b32 %f1, %r1;\nadd.f32 %f2, %f1, %f1;\nmov.b32 %r2, %f2;\n"
                 "and.b32 %r3, %r2, 15;\nst.global.u32 [%a2], %r3;\n",
                        "stores the address"},
                {"shr.u64 %a3, %a1, 4;\nand.b64 %a4, %a3, 15;\nst.global.u64 [%a2], %a4;\n", "stores the address"},
                {"shl.b64 %a3, %a1, 4;\nand.b64 %a4, %a3, 15;\nst.global.u64 [%a2], %a4;\n", NULL},
                {"mul.lo.u64 %a3, %a1, 3;\nst.global.u32 [%a3], 1;\n", "unknown way"},
                {"cvt.rn.f64.u64 %d1, %a1;\ncvt.rzi.u64.f64 %a3, %d1;\nand.b64 %a3, %a3, 15;\nst.global.u64 [%a2], "
                 "%a3;\n",
                        "stores the address"},
                {"sub.u64 %a3, %a1, %a2;\nst.global.u64 [%a2], %a3;\n", "stores the address"},
                {"add.u64 %a3, %a1, 8;\nsub.u64 %a4, %a3, %a1;\nst.global.u64 [%a2], %a4;\n", NULL},
                {"isspacep.global %p1, %a1;\nselp.u32 %r1, 1, 2, %p1;\nst.global.u32 [%a2], %r1;\n", NULL},
                {"shr.u64 %a3, %a1, 20;\nisspacep.shared %p1, %a3;\nselp.u32 %r1, 1, 2, %p1;\nst.global.u32 [%a2], "
                 "%r1;\n",
                        "compares"},
                {"setp.lt.u64 %p1, %a1, 4096;\nselp.u32 %r1, 1, 2, %p1;\nst.global.u32 [%a2], %r1;\n", "compares"},
                {"sub.s64 %a3, %a1, %a2;\nsetp.lt.s64 %p1, %a3, 0;\nselp.u32 %r1, 1, 2, %p1;\nst.global.u32 [%a2], "
                 "%r1;\n",
                        "compares"},
                {"setp.ne.u64 %p1, %a1, 0;\nselp.u32 %r1, 1, 2, %p1;\nst.global.u32 [%a2], %r1;\n", NULL},
                {"add.cc.u64 %a3, %a1, -1;\naddc.u64 %a4, 0, 0;\nst.global.u64 [%a2], %a4;\n", "tests bits"},
                {"ld.param.u32 %r1, [p];\nst.global.u32 [%a2], %r1;\n", "stores the address"},
                {"ld.param.u32 %r1, [q+-8];\nst.global.u32 [%a2], %r1;\n", "stores the address"},
                {"mov.b64 {%r1, %r2}, %a1;\nand.b32 %r3, %r1, 15;\nst.global.u32 [%a2], %r3;\n", "stores the address"},
                {"mov.u64 %a3, p;\nld.param.u64 %a4, [%a3];\nst.global.u32 [%a4], 1;\n",
                        "address of parameter 0 itself"},
                {"selp.b64 %a3, %a1, %a2, %p1;\nst.global.u32 [%a3], 1;\n", "memory that is not coloured"},
                {"atom.global.exch.b64 %a3, [%a2], %a1;\n", "stores the address"},
                {"st.shared.u32 [%a1], 1;\n", "another state space"},
        };

        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++) {
                ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
                struct ds_ptx_colour_verdict v;
                char text[2000];

                snprintf(text, sizeof(text), "%s%sret;\n}\n", KERNEL, rows[i].text);
                module = module_of(text);
                cr_assert_eq(ds_ptx_colour_judge(module, &(struct ds_ptx_colour_want){"k", 1}, &v), 0);
                cr_expect_eq(v.made, !rows[i].reason, "%s: %s", rows[i].text, v.reason);
                cr_expect(!rows[i].reason || strstr(v.reason, rows[i].reason), "%s: %s", rows[i].text, v.reason);
        }
}

/* A kernel of n instructions that stores an address */
static ds_ptx_module *long_kernel(uint32_t n)
{
        char *text = NULL;
        size_t length;
        FILE *out = open_memstream(&text, &length);
        ds_ptx_module *module;

        fputs(KERNEL "st.global.u64 [%a2], %a1;\n", out);
        for (uint32_t i = 0; i < n; i++)
                fputs("add.u64 %a3, %a1, 8;\n", out);
        fputs("ret;\n}\n", out);
        fclose(out);
        module = module_of(text);
        free(text);
        return module;
}

Test(ptx_colour_trace, steps_end)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = long_kernel(1000);
        const struct ds_ptx_function *f = module->functions[0];
        uint64_t most = 100 * (uint64_t)f->n_instrs, needed;

        for (uint64_t steps = most, first = 1; first || steps > 0; first = 0) {
                ds_cleanup(ds_ptx_colour_trace_freep) struct ds_ptx_colour_trace *trace = NULL;
                uint64_t left = steps;

                cr_assert_eq(ds_ptx_colour_trace_new(f, 1, &left, &trace), 0);
                cr_expect_leq(left, steps);
                if (first) {
                        needed = steps - left;
                        cr_expect(needed >= f->n_instrs && needed <= 10 * (uint64_t)f->n_instrs);
                        cr_expect(strstr(trace->reason, "stores"), "%s", trace->reason);
                        steps = needed;
                        continue;
                }
                cr_expect(strstr(trace->reason, steps < needed ? "too many steps" : "stores"), "%s", trace->reason);
                steps -= DS_MIN(steps, f->n_instrs);
        }
}

/* All forms of one image share a budget of analysis steps: some hundred forms of a long kernel do not take minutes. */
Test(ptx_colour_trace, steps_are_of_all_forms)
{
        enum { WANTS = 400 };
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = long_kernel(DS_PTX_COLOUR_STEPS_MAX / WANTS / 2);
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *made = NULL;
        static const struct ds_ptx_colour_layout layout = {DS_PTX_COLOUR_TABLE, 10, 0};
        static struct ds_ptx_colour_verdict verdicts[WANTS];
        static struct ds_ptx_colour_want wants[WANTS];
        static struct ds_ptx_diags diags;

        for (size_t i = 0; i < WANTS; i++)
                wants[i] = (struct ds_ptx_colour_want){"k", 1};
        cr_assert_eq(ds_ptx_colour_make(module, wants, WANTS, &layout, 0, &diags, &made, verdicts), 0);
        cr_expect(strstr(verdicts[0].reason, "stores"), "%s", verdicts[0].reason);
        cr_expect(strstr(verdicts[WANTS - 1].reason, "too many steps"), "%s", verdicts[WANTS - 1].reason);
}
