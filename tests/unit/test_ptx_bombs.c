/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX that is written to take long
 *
 * The helper parses every client's text in one process, and on a simulated device the worker decodes it while all
 * sessions wait. So the cost of a text must grow with its length and not with its square. Each text here has some ten
 * thousand instances of one thing that is looked up, compared or followed repeatedly: names with the same FNV-1a hash,
 * lists of call targets and jump tables that many instructions name, overlapping loops, kernels that need a name with
 * the same stem. Without a bound each takes from 5 seconds to minutes.
 *
 * The bound is processor time of this process, so it holds on a busy machine. It is some twenty times the time of the
 * slowest text.
 */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "ptx/interp/interp.h"
#include "ptx/ir.h"
#include "ptx/pass/forms_make.h"
#include "ptx/ptx.h"
#include "util/alloc.h"
#include "util/macro.h"

#define HEAD ".version 8.3\n.target sm_90\n.address_size 64\n"
#define TEXT_MAX (8u << 20)
#ifdef __SANITIZE_ADDRESS__
#define SECONDS 60.0
#else
#define SECONDS 5.0
#endif
#define MEMORY_KB (768l << 10) /* KiB; memory of the process that runs one test */

static char *text;
static size_t n_text;

static void say(const char *fmt, ...) __attribute__((__format__(__printf__, 1, 2)));
static void say(const char *fmt, ...)
{
        va_list args;
        int n;

        if (!text)
                text = malloc(TEXT_MAX);
        cr_assert(text);
        va_start(args, fmt);
        n = vsnprintf(text + n_text, TEXT_MAX - n_text, fmt, args);
        va_end(args);
        cr_assert(n >= 0 && n_text + (size_t)n < TEXT_MAX);
        n_text += (size_t)n;
}

static double processor_seconds(void)
{
        struct timespec t;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Parses, decodes and transforms the text as the helper and a simulated device's worker do. Returns the parser's
 * result. */
static int digest(struct ds_ptx_diags *diags)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL, *made = NULL;
        ds_cleanup(ds_freep) struct ds_ptx_form_verdict *verdicts = NULL;
        struct ds_ptx_diags other = {0};
        ds_interp *interp = NULL;
        int r = ds_ptx_parse(text, n_text, 0, diags, &module);

        if (r)
                return r;
        if (ds_interp_new(module, &other, &interp) == 0)
                ds_interp_free(interp);
        verdicts = ds_alloc0((size_t)module->n_functions + 1, sizeof(*verdicts));
        cr_assert(verdicts);
        other = (struct ds_ptx_diags){0};
        (void)ds_ptx_forms_make(module, DS_MIB(256), &other, &made, verdicts);
        return 0;
}

static void bounded(int want, const char *words)
{
        static struct ds_ptx_diags diags;
        double begin = processor_seconds(), took;
        struct rusage usage;
        int r = digest(&diags);

        took = processor_seconds() - begin;
        getrusage(RUSAGE_SELF, &usage);
        cr_expect_eq(r, want, "%d, not %d: %s", r, want, diags.n ? diags.diag[0].message : "");
        if (words)
                cr_expect(diags.n && strstr(diags.diag[0].message, words), "%s", diags.n ? diags.diag[0].message : "");
        cr_expect_lt(took, SECONDS, "%zu bytes took %.1f s of a processor", n_text, took);
#ifndef __SANITIZE_ADDRESS__
        cr_expect_lt(usage.ru_maxrss, MEMORY_KB, "%zu bytes took %ld KiB", n_text, usage.ru_maxrss);
#endif
        free(text);
        text = NULL;
        n_text = 0;
}

/* --- names ------------------------------------------------------------------------------------------------------- */

/*
 * Both words of a line lead the FNV-1a hash from the same state to the same next state. So all 2^18 names made of one
 * word per line have the same hash and length.
 */
static const char *const alike[18][2] = {
        {"anAaw", "aVcia"},
        {"azEnS", "aBcZa"},
        {"abrPS", "aZpxa"},
        {"auGnS", "aMaZa"},
};

Test(ptx_bombs, names_of_one_hash, .timeout = 120)
{
        say(HEAD);
        for (uint32_t i = 0; i < 60000; i++) {
                say(".global .u32 ");
                for (uint32_t k = 0; k < 18; k++)
                        say("%s", alike[k < 3 ? k : 3][i >> k & 1]);
                say(";\n");
        }
        bounded(0, NULL);
}

Test(ptx_bombs, fresh_names_of_one_stem, .timeout = 120)
{
        say(HEAD);
        for (uint32_t i = 0; i < 3000; i++)
                say(".visible .entry k%u()\n{\n.reg .b32 r;\nmov.u32 r, %%ctaid.x;\nret;\n}\n", i);
        bounded(0, NULL);
}

/* --- lists of targets --------------------------------------------------------------------------------------------- */

static void calls_of_a_list(uint32_t n)
{
        say(HEAD);
        for (uint32_t i = 0; i < n; i++)
                say(".visible .func g%u()\n{\nret;\n}\n", i);
        say(".visible .entry k()\n{\n.reg .b64 d;\nmov.u64 d, g0;\nT: .calltargets g0");
        for (uint32_t i = 1; i < n; i++)
                say(", g%u", i);
        say(";\n");
        for (uint32_t i = 0; i < n; i++)
                say("call (), d, (), T;\n");
        say("ret;\n}\n");
}

static void jumps_of_a_table(uint32_t n)
{
        say(HEAD ".visible .entry k()\n{\n.reg .b32 r;\nmov.u32 r, 0;\nT: .branchtargets L0");
        for (uint32_t i = 1; i < n; i++)
                say(", L%u", i);
        say(";\n");
        for (uint32_t i = 0; i < n; i++)
                say("L%u: brx.idx r, T;\n", i);
        say("}\n");
}

Test(ptx_bombs, calls_of_one_list, .timeout = 120)
{
        calls_of_a_list(50000);
        bounded(DS_PTX_E_INVALID, "targets together");
}

Test(ptx_bombs, jumps_of_one_table, .timeout = 120)
{
        jumps_of_a_table(40000);
        bounded(DS_PTX_E_INVALID, "targets together");
}

/* Lists as long as those of real programs are far below the bound. */
Test(ptx_bombs, lists_that_are_served, .timeout = 120)
{
        calls_of_a_list(1000);
        bounded(0, NULL);
        jumps_of_a_table(1000);
        bounded(0, NULL);
}

/* --- control flow ------------------------------------------------------------------------------------------------- */

Test(ptx_bombs, loops_that_overlap, .timeout = 120)
{
        say(HEAD ".visible .entry k()\n{\n.reg .pred p;\n.reg .b32 r<4>;\n.reg .b64 d;\nmov.u64 d, 0;\n");
        for (uint32_t i = 0; i < 60000; i++)
                say("L%u:\natom.global.cas.b32 r0, [d], r1, r2;\nsetp.eq.u32 p, r0, r1;\n@p bra L%u;\n", i,
                        i < 5 ? 0 : i - 5);
        say("ret;\n}\n");
        bounded(0, NULL);
}

Test(ptx_bombs, chain_of_calls, .timeout = 120)
{
        say(HEAD ".func f0()\n{\nret;\n}\n");
        for (uint32_t i = 1; i < 20000; i++)
                say(".func f%u()\n{\ncall f%u;\nret;\n}\n", i, i - 1);
        say(".visible .entry k()\n{\ncall f19999;\nret;\n}\n");
        bounded(0, NULL);
}
