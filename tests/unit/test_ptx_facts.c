/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about kernels: loops that wait for other blocks, and communication between blocks
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/pass/facts.h"
#include "util/macro.h"

#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
#define KERNEL(body) \
        HEAD ".visible .entry k(.param .u64 p)\n{\n" REGS " ld.param.u64 %rd1, [p];\n" body "DONE:\n ret;\n}\n"
#define REGS ".reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<4>;\n"
#define W(fact) (1u << DS_PTX_FACT_##fact)

/* Facts of the named function; of `k` if there is none with that name */
static struct ds_ptx_facts facts_of(const char *text, const char *name)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        struct ds_ptx_facts *all, found = {0};
        struct ds_ptx_diags diags;
        char why[2000];
        int r = ds_ptx_parse(text, strlen(text), 0, &diags, &module);

        ds_ptx_diags_format(&diags, "text", why, sizeof(why));
        cr_assert_eq(r, 0, "%s", why);
        all = calloc(module->n_functions, sizeof(*all));
        cr_assert(all);
        cr_assert_eq(ds_ptx_facts_find(module, all), 0);
        for (uint32_t i = 0; i < module->n_functions; i++)
                if (module->functions[i]->has_body && strcmp(module->functions[i]->name, name) == 0)
                        found = all[i];
        free(all);
        return found;
}

/* Compares all facts except the idempotence, which once_or_twice tests */
static void expect(const char *text, uint32_t mask)
{
        struct ds_ptx_facts facts = facts_of(text, "k");
        char names[400] = "";

        facts.mask &= ~W(ONCE);
        facts.line[DS_PTX_FACT_ONCE] = 0;

        for (int i = 0; i < _DS_PTX_FACT_MAX; i++)
                if (facts.mask >> i & 1)
                        snprintf(names + strlen(names), sizeof(names) - strlen(names), " %s",
                                ds_ptx_fact_word((enum ds_ptx_fact)i));
        cr_expect_eq(facts.mask, mask, "found:%s, not %#x\n%s", names, mask, text);
        for (int i = 0; i < _DS_PTX_FACT_MAX; i++)
                cr_expect_eq(facts.line[i] != 0, facts.mask >> i & 1, "%s", ds_ptx_fact_word((enum ds_ptx_fact)i));
}

Test(ptx_facts, loops_that_wait)
{
        expect(KERNEL("L:\n ld.volatile.global.u32 %r1, [%rd1];\n setp.eq.u32 %p1, %r1, 0;\n @%p1 bra L;\n"),
                W(WAITS) | W(ORDERED));
        expect(KERNEL("L:\n ld.acquire.gpu.u32 %r1, [%rd1];\n add.u32 %r2, %r1, 1;\n setp.ne.u32 %p1, %r2, 1;\n"
                      " @%p1 bra DONE;\n bra L;\n"),
                W(WAITS) | W(ORDERED));
        /* loops that wait: for another thread's lock, for a flag polled by an atomic that changes nothing, for a
         * flag that is taken */
        expect(KERNEL("L:\n atom.global.cas.b32 %r1, [%rd1], 0, 1;\n setp.ne.u32 %p1, %r1, 0;\n @%p1 bra L;\n"),
                W(WAITS) | W(ATOMICS));
        expect(KERNEL("L:\n mov.u32 %r2, 0;\n mov.u32 %r4, 1;\n atom.global.cas.b32 %r1, [%rd1], %r2, %r4;\n"
                      " setp.ne.u32 %p1, %r1, 0;\n @%p1 bra L;\n"),
                W(WAITS) | W(ATOMICS));
        expect(KERNEL("L:\n ld.param.u32 %r2, [p];\n add.u32 %r4, %r2, 1;\n"
                      " atom.global.cas.b32 %r1, [%rd1], %r2, %r4;\n setp.ne.u32 %p1, %r1, %r2;\n @%p1 bra L;\n"),
                W(WAITS) | W(ATOMICS));
        expect(KERNEL("L:\n atom.global.add.u32 %r1, [%rd1], 0;\n setp.lt.u32 %p1, %r1, 8;\n @%p1 bra L;\n"),
                W(WAITS) | W(ATOMICS));
        expect(KERNEL("L:\n atom.exch.b32 %r1, [%rd1], 1;\n setp.ne.u32 %p1, %r1, 0;\n @%p1 nanosleep.u32 20;\n"
                      " @%p1 bra L;\n"),
                W(WAITS) | W(ATOMICS));
        /* a loop that waits for a flag and keeps it in local memory, as unoptimised code does */
        expect(KERNEL(".local .b32 x;\nL:\n ld.volatile.u32 %r1, [%rd1];\n st.local.u32 [x], %r1;\n"
                      " ld.local.u32 %r2, [x];\n setp.eq.u32 %p1, %r2, 0;\n @%p1 bra L;\n"),
                W(WAITS) | W(ORDERED));
        /* a loop that waits and jumps by a table of targets */
        expect(KERNEL("T: .branchtargets L, DONE;\nL:\n ld.volatile.u32 %r1, [%rd1];\n brx.idx %r1, T;\n"),
                W(WAITS) | W(ORDERED));
        /* a loop that waits inside a called function */
        expect(HEAD ".func (.param .b32 r) f(.param .b64 p)\n{\n" REGS " ld.param.u64 %rd1, [p];\n"
                    " ld.relaxed.gpu.u32 %r1, [%rd1];\n st.param.b32 [r], %r1;\n ret;\n}\n"
                    ".visible .entry k(.param .u64 p)\n{\n" REGS " ld.param.u64 %rd1, [p];\nL:\n {\n .param .b64 a;\n"
                    " .param .b32 b;\n st.param.b64 [a], %rd1;\n call.uni (b), f, (a);\n ld.param.b32 %r1, [b];\n }\n"
                    " setp.eq.u32 %p1, %r1, 0;\n @%p1 bra L;\n ret;\n}\n",
                W(WAITS) | W(ORDERED));
}

Test(ptx_facts, loops_that_get_ahead)
{
        /* loops that make progress: compare-and-swap that retries after interference, work handed out by a counter,
         * a loop beside an atomic */
        expect(KERNEL(" ld.global.u32 %r1, [%rd1];\nL:\n add.u32 %r2, %r1, 7;\n mov.u32 %r4, %r1;\n"
                      " atom.global.cas.b32 %r3, [%rd1], %r4, %r2;\n setp.ne.u32 %p1, %r3, %r1;\n mov.u32 %r1, %r3;\n"
                      " @%p1 bra L;\n"),
                W(ATOMICS));
        expect(KERNEL("L:\n atom.global.add.u32 %r1, [%rd1], 1;\n setp.gt.u32 %p1, %r1, 100;\n @%p1 bra DONE;\n"
                      " bra L;\n"),
                W(ATOMICS));
        expect(KERNEL(" mov.u32 %r2, 0;\nL:\n red.global.add.u32 [%rd1], %r2;\n ld.volatile.global.u32 %r3, [%rd1];\n"
                      " add.u32 %r2, %r2, 1;\n setp.lt.u32 %p1, %r2, 9;\n @%p1 bra L;\n"),
                W(ATOMICS) | W(ORDERED));
        /* a loop that waits for threads of its own block only */
        expect(KERNEL(".shared .b32 s;\nL:\n ld.volatile.shared.u32 %r1, [s];\n atom.shared.add.u32 %r2, [s], 1;\n"
                      " setp.eq.u32 %p1, %r1, 0;\n @%p1 bra L;\n membar.cta;\n bar.sync 0;\n"),
                W(BARRIERS));
        expect(KERNEL(" ld.global.u32 %r1, [%rd1];\nL:\n sub.u32 %r1, %r1, 1;\n setp.ne.u32 %p1, %r1, 0;\n @%p1 bra "
                      "L;\n"),
                0);
}

Test(ptx_facts, further_facts)
{
        expect(KERNEL(" mov.u32 %r1, %clock;\n"), W(CLOCK));
        expect(KERNEL(" mov.u32 %r1, %smid;\n"), W(PLACE));
        expect(KERNEL(" mov.u32 %r1, %dynamic_smem_size;\n"), W(SIZES));
        expect(KERNEL(" mov.u32 %r1, %total_smem_size;\n"), W(SIZES));
        expect(KERNEL(" mov.u32 %r1, %envreg2;\n"), W(COOPERATIVE));
        expect(KERNEL(" mov.u32 %r1, %envreg3;\n"), 0);
        expect(KERNEL(" mov.u32 %r1, %cluster_ctarank;\n"), W(CLUSTERS));
        expect(HEAD ".visible .entry k() .reqnctapercluster 2, 1, 1\n{\n ret;\n}\n", W(CLUSTERS));
        expect(KERNEL(" membar.gl;\n"), W(FENCES));
        expect(KERNEL(" fence.acq_rel.cta;\n fence.sc.sys;\n"), W(FENCES));
        expect(KERNEL(" trap;\n"), W(TRAPS));
        expect(KERNEL(" griddepcontrol.wait;\n"), W(LAUNCHES));
        expect(HEAD ".global .u32 x;\n.global .b8 $str[2] = {97, 0};\n.const .u32 y;\n.visible .entry k()\n{\n" REGS
                    " mov.u64 %rd1, $str;\n ld.const.u32 %r1, [y];\n st.global.u32 [x], %r1;\n ret;\n}\n",
                W(VARIABLES));
        expect(HEAD ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
                    ".extern .func (.param .b64 r) malloc(.param .b64 n);\n.extern .func other();\n"
                    ".visible .entry k()\n{\n .param .b64 f; .param .b64 a; .param .b32 r;\n"
                    " call.uni (r), vprintf, (f, a);\n call.uni (a), malloc, (f);\n call.uni other;\n ret;\n}\n",
                W(PRINTS) | W(ALLOCATES) | W(UNKNOWN));
}

/* A kernel that provably gives the same result if it runs partly and then again, and each obstacle to that proof. */
Test(ptx_facts, once_or_twice)
{
        static const char *const harmless[] = {
                "",
                " ld.global.nc.u32 %r1, [%rd1+64];\n add.u32 %r1, %r1, 7;\n st.global.u32 [%rd1], %r1;\n",
                " ld.global.nc.v2.u32 {%r1, %r2}, [%rd1+64];\n st.u32 [%rd1], %r2;\n",
                " .shared .b32 s[32];\n mov.u32 %r1, %tid.x;\n st.shared.u32 [s], %r1;\n bar.sync 0;\n"
                " ld.shared.u32 %r2, [s+4];\n st.global.u32 [%rd1], %r2;\n",
                " .local .b32 x;\n st.local.u32 [x], 3;\n ld.local.u32 %r2, [x];\n st.global.u32 [%rd1], %r2;\n",
                " mov.u32 %r2, 0;\nL:\n st.global.u32 [%rd1], %r2;\n add.u32 %r2, %r2, 1;\n setp.lt.u32 %p1, %r2, 9;\n"
                " @%p1 bra L;\n",
                " mov.u32 %r1, %ctaid.x;\n mov.u32 %r2, %laneid;\n shfl.sync.idx.b32 %r3, %r1, 0, 31, -1;\n"
                " vote.sync.any.pred %p1, %p2, -1;\n st.global.u32 [%rd1], %r3;\n membar.gl;\n trap;\n",
                " mov.u32 %r1, %dynamic_smem_size;\n st.global.u32 [%rd1], %r1;\n",
        };
        static const char *const not_known[] = {
                " ld.global.u32 %r1, [%rd1];\n", /* the kernel may read its own output */
                " ld.u32 %r1, [%rd1];\n",
                " ldu.global.u32 %r1, [%rd1];\n",
                " ld.volatile.global.u32 %r1, [%rd1];\n",
                " .shared .b32 s;\n ld.volatile.shared.u32 %r1, [s];\n",
                " st.volatile.global.u32 [%rd1], 1;\n",
                " st.release.gpu.global.u32 [%rd1], 1;\n",
                " atom.global.add.u32 %r1, [%rd1], 1;\n",
                " red.global.add.u32 [%rd1], 1;\n",
                /* a second run would differ, because the order of atomics differs each time */
                " .shared .b32 s;\n atom.shared.add.u32 %r1, [s], 1;\n",
                " .shared .b32 s;\n red.shared.add.u32 [s], 1;\n",
                " .shared .align 16 .b32 s[4];\n cp.async.ca.shared.global [s], [%rd1], 16;\n",
                " .shared .b64 s;\n mbarrier.init.shared.b64 [s], 1;\n",
                " mov.u32 %r1, %clock;\n",
                " mov.u64 %rd2, %globaltimer;\n",
                " mov.u32 %r1, %smid;\n",
                " mov.u32 %r1, %warpid;\n",
                " mov.u64 %rd2, %gridid;\n",
                " mov.u32 %r1, %nsmid;\n",
                " mov.u32 %r1, %pm0;\n",
                " mov.b32 %r1, %envreg3;\n",
                " activemask.b32 %r1;\n",
                " griddepcontrol.wait;\n",
                " brkpt;\n",
                " discard.global.L2 [%rd1], 128;\n",
                " barrier.cluster.arrive;\n barrier.cluster.wait;\n",
                " .shared .b32 s;\n mapa.shared::cluster.u32 %r1, s, 1;\n st.shared::cluster.u32 [%r1], 1;\n",
                " wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, "
                "[%rd1];\n",
                " call.uni vprintf;\n",
                " call.uni __assertfail;\n",
                " call.uni malloc;\n",
                " call.uni other;\n",
                " P: .callprototype _ ();\n call %rd1, (), P;\n",
        };
        char text[2000];

        for (size_t i = 0; i < DS_ARRAY_SIZE(harmless) + DS_ARRAY_SIZE(not_known); i++) {
                bool known = i < DS_ARRAY_SIZE(harmless);
                struct ds_ptx_facts facts;

                snprintf(text, sizeof(text), "%s%sDONE:\n ret;\n}\n",
                        HEAD ".extern .func vprintf();\n.extern .func __assertfail();\n.extern .func malloc();\n"
                             ".extern .func other();\n.visible .entry k(.param .u64 p)\n{\n" REGS
                             " ld.param.u64 %rd1, [p];\n",
                        known ? harmless[i] : not_known[i - DS_ARRAY_SIZE(harmless)]);
                facts = facts_of(text, "k");
                cr_expect_eq(facts.mask >> DS_PTX_FACT_ONCE & 1, !known, "%s", text);
        }
}

/* A kernel has the effects of the functions that it calls. */
Test(ptx_facts, once_by_a_call)
{
        static const char text[] =
                HEAD ".func f(.param .b64 p)\n{\n" REGS " ld.param.u64 %rd1, [p];\n ld.global.u32 %r1, [%rd1];\n"
                     " ret;\n}\n.func g(.param .b64 p)\n{\n" REGS " ld.param.u64 %rd1, [p];\n"
                     " st.global.u32 [%rd1], 3;\n ret;\n}\n"
                     ".visible .entry k(.param .u64 p)\n{\n" REGS
                     " ld.param.u64 %rd1, [p];\n {\n .param .b64 a;\n st.param.b64 [a], %rd1;\n call.uni f, (a);\n }\n"
                     " ret;\n}\n"
                     ".visible .entry twice(.param .u64 p)\n{\n" REGS
                     " ld.param.u64 %rd1, [p];\n {\n .param .b64 a;\n st.param.b64 [a], %rd1;\n call.uni g, (a);\n }\n"
                     " ret;\n}\n";

        cr_expect(facts_of(text, "k").mask & W(ONCE));
        cr_expect_not(facts_of(text, "twice").mask & W(ONCE));
}

/* A function's facts apply to all callers over any number of calls, and through function addresses to all indirect
 * calls. */
Test(ptx_facts, calls_hand_them_on)
{
        char text[20000] = HEAD ".func f0()\n{\n membar.gl;\n ret;\n}\n";
        struct ds_ptx_facts facts;

        for (int i = 1; i < 200; i++)
                snprintf(text + strlen(text), sizeof(text) - strlen(text), ".func f%d()\n{\n call.uni f%d;\n ret;\n}\n",
                        i, i - 1);
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                ".visible .entry k()\n{\n call.uni f199;\n ret;\n}\n.visible .entry other()\n{\n ret;\n}\n"
                ".visible .entry by_address()\n{\n .reg .b64 %%rd1;\n P: .callprototype _ ();\n mov.u64 %%rd1, f0;\n"
                " call %%rd1, (), P;\n ret;\n}\n");
        expect(text, W(FENCES));
        facts = facts_of(text, "other");
        cr_expect_eq(facts.mask, 0);
        facts = facts_of(text, "by_address");
        cr_expect_eq(facts.mask, W(FENCES) | W(INDIRECT) | W(ONCE));
}

/* Nested loops in a hostile text: the analysis ends in time and reports them as loops that wait. */
Test(ptx_facts, many_loops, .timeout = 30)
{
        size_t size = 4 << 20, n;
        char *text = malloc(size);

        cr_assert(text);
        n = (size_t)snprintf(text, size, "%s",
                HEAD ".visible .entry k(.param .u64 p)\n{\n" REGS " ld.param.u64 %rd1, [p];\nL:\n"
                     " ld.volatile.u32 %r1, [%rd1];\n");
        while (n < size - 100)
                n += (size_t)snprintf(text + n, size - n, " @%%p1 bra L;\n");
        snprintf(text + n, size - n, " ret;\n}\n");
        cr_expect(facts_of(text, "k").mask & W(WAITS));
        free(text);
}
