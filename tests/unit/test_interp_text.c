/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter on hand-written PTX: constructs that a compiler rarely or never emits, and hostile ones
 */
#include <pthread.h>

#include "tests/support/interp_harness.h"
#include "util/alloc.h"
#include "util/macro.h"

#define HEAD ".version 8.3\n.target sm_90\n.address_size 64\n"
/* Head of each kernel: one parameter, the array of results. %i: the thread's number in its block; %o: its word's
 * address. */
#define KERNEL(body)                                                                                            \
        HEAD ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %o, %out;\n.reg .b32 %i;\nmov.u32 %i, %tid.x;\n" \
             "ld.param.u64 %out, [out];\nmad.wide.u32 %o, %i, 4, %out;\n" body "\nret;\n}\n"

/* Runs k with one block; *ret_out points to the words that it wrote. */
static struct ds_interp_result launch(struct rig *r, uint32_t threads, uint32_t **ret_out)
{
        uint32_t *out = rig_alloc(r, 4096);

        *ret_out = out;
        return rig_launch(r, "k", RIG_DIM1(1), RIG_DIM1(threads), 0, RIG_ARGS(&out));
}

static struct ds_interp_result launch_text(struct rig *r, const char *text, uint32_t threads, uint32_t **ret_out)
{
        rig_text(r, text);
        return launch(r, threads, ret_out);
}

static void faults(const char *text, uint32_t threads, enum ds_interp_fault want)
{
        struct rig r;
        uint32_t *out;
        struct ds_interp_result f = launch_text(&r, text, threads, &out);

        cr_assert(f.fault == want, "fault %d at line %u (%s), not %d", f.fault, f.line, f.message, want);
        cr_assert(f.line > 0 || want == DS_INTERP_FAULT_BARRIER || want == DS_INTERP_FAULT_STACK);
        rig_close(&r);
}

#define GOOD(f) cr_assert((f).fault == DS_INTERP_OK, "fault %d at line %u: %s", (f).fault, (f).line, (f).message)

/* --- jumps and barriers --- */
#define BRX                                                                                                          \
        KERNEL(".reg .b32 %x, %r;\nsub.u32 %x, %i, BASE;\n"                                                          \
               "ts: .branchtargets A, B, C;\nmov.u32 %r, 9;\nbrx.idx %x, ts;\n"                                      \
               "A: mov.u32 %r, 10;\nbra D;\nB: mov.u32 %r, 11;\nbra D;\nC: mov.u32 %r, 12;\nD: st.global.u32 [%o], " \
               "%r;")

static void with_base(char *text, size_t size, const char *base)
{
        const char *at = strstr(BRX, "BASE");

        (void)snprintf(text, size, "%.*s%s%s", (int)(at - BRX), BRX, base, at + 4);
}

Test(interp_text, indexed_branch)
{
        char text[2048];
        struct rig r;
        uint32_t *out;

        with_base(text, sizeof(text), "0");
        GOOD(launch_text(&r, text, 3, &out));
        cr_assert(out[0] == 10 && out[1] == 11 && out[2] == 12);
        rig_close(&r);
        faults(text, 4, DS_INTERP_FAULT_ILLEGAL);
        with_base(text, sizeof(text), "1");
        faults(text, 3, DS_INTERP_FAULT_ILLEGAL);
}

Test(interp_text, barriers_that_may_not_be)
{
        faults(KERNEL(".reg .b32 %b;\nadd.u32 %b, %i, 16;\nbar.sync %b;"), 32, DS_INTERP_FAULT_ILLEGAL);
        faults(KERNEL(".reg .b32 %c;\nadd.u32 %c, %i, 33;\nbar.sync 1, %c;"), 32, DS_INTERP_FAULT_ILLEGAL);
        /* the second warp never arrives at the barrier */
        faults(KERNEL(".reg .pred %p;\nsetp.lt.u32 %p, %i, 32;\n@%p bar.sync 2, 64;"), 64, DS_INTERP_FAULT_BARRIER);
        /* lane 0 waits for lane 1 of its warp, and lane 1 waits for the block */
        faults(KERNEL(".reg .pred %p;\nsetp.eq.u32 %p, %i, 0;\n@%p bra A;\nbar.sync 0;\nbra B;\nA: bar.warp.sync "
                      "3;\nB:"),
                2, DS_INTERP_FAULT_BARRIER);
}

/* Half a warp counts as a whole warp at a barrier with a count; diverged lanes arrive one after the other. */
Test(interp_text, counted_barrier_of_a_part_of_a_warp)
{
        struct rig r;
        uint32_t *out;

        GOOD(launch_text(&r,
                KERNEL(".shared .b32 s[64];\n.reg .b32 %a, %v;\n.reg .pred %p;\nmov.u32 %a, s;\nmad.lo.u32 %a, %i, 4, "
                       "%a;\n"
                       "st.shared.u32 [%a], %i;\nsetp.lt.u32 %p, %i, 40;\n@%p bra A;\nbar.sync 1, 64;\nbra B;\nA: "
                       "bar.sync 1, 64;\n"
                       "B: xor.b32 %a, %a, 128;\nld.shared.u32 %v, [%a];\nst.global.u32 [%o], %v;"),
                48, &out));
        for (uint32_t i = 0; i < 16; i++)
                cr_assert(out[32 + i] == i, "%u", out[32 + i]);
        rig_close(&r);
}

/* --- reconvergence of lanes ------- */
Test(interp_text, meeting_from_both_sides_of_a_branch)
{
        struct rig r;
        uint32_t *out;

        GOOD(launch_text(&r,
                KERNEL(".reg .b32 %v, %w, %k;\n.reg .pred %p, %q;\nmul.lo.u32 %v, %i, 100;\nmul.lo.u32 %w, %i, 7;\n"
                       "and.b32 %k, %i, 1;\nsetp.eq.u32 %p, %k, 0;\n@%p bra EVEN;\n"
                       "shfl.sync.bfly.b32 %v|%q, %v, 1, 31, -1;\nbra DONE;\n"
                       "EVEN: shfl.sync.bfly.b32 %v|%q, %w, 1, 31, -1;\nDONE: st.global.u32 [%o], %v;"),
                32, &out));
        for (uint32_t i = 0; i < 32; i++)
                cr_assert(out[i] == (i & 1 ? (i ^ 1) * 7 : (i ^ 1) * 100), "lane %u: %u", i, out[i]);
        rig_close(&r);
}

Test(interp_text, meeting_without_those_who_left)
{
        struct rig r;
        uint32_t *out;

        /* the lanes from 20 on leave their loop later than the other lanes */
        GOOD(launch_text(&r,
                KERNEL(".reg .b32 %v, %n;\n.reg .pred %p, %q;\nmov.u32 %n, 0;\nsetp.lt.u32 %p, %i, 20;\n@%p bra STAY;\n"
                       "L: add.u32 %n, %n, 1;\nsetp.lt.u32 %q, %n, 50;\n@%q bra L;\nexit;\n"
                       "STAY: vote.sync.ballot.b32 %v, 1, -1;\nst.global.u32 [%o], %v;"),
                32, &out));
        for (uint32_t i = 0; i < 32; i++)
                cr_assert(out[i] == (i < 20 ? (1u << 20) - 1 : 0), "lane %u: %x", i, out[i]);
        rig_close(&r);
}

Test(interp_text, different_masks_at_one_operation)
{
        struct rig r;
        uint32_t *out;

        GOOD(launch_text(&r,
                KERNEL(".reg .b32 %m, %v, %b;\n.reg .pred %p;\nshr.u32 %b, %i, 3;\nmul.lo.u32 %b, %b, 8;\nshl.b32 %m, "
                       "0xff, %b;\n"
                       "redux.sync.add.u32 %v, %i, %m;\nst.global.u32 [%o], %v;"),
                32, &out));
        for (uint32_t i = 0; i < 32; i++)
                cr_assert(out[i] == (i / 8) * 64 + 28, "lane %u: %u", i, out[i]);
        rig_close(&r);
}

/* --- guards on instructions that wait or exit ---- */
Test(interp_text, guards)
{
        struct rig r;
        uint32_t *out;

        GOOD(launch_text(&r,
                HEAD
                ".func (.param .b32 r) twice(.param .b32 a)\n{\n.reg .b32 %a;\n.reg .pred %p;\nld.param.b32 %a, [a];\n"
                "setp.gt.u32 %p, %a, 20;\nst.param.b32 [r], 5;\n@%p ret;\nadd.u32 %a, %a, %a;\nst.param.b32 [r], "
                "%a;\nret;\n}\n"
                ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %o, %out;\n.reg .b32 %i, %v;\n.reg .pred %p, %q, "
                "%z;\n"
                "mov.u32 %i, %tid.x;\nld.param.u64 %out, [out];\nmad.wide.u32 %o, %i, 4, %out;\nmov.u32 %v, 77;\n"
                "setp.lt.u32 %p, %i, 24;\nsetp.ge.u32 %q, %i, 30;\n"
                "{\n.param .b32 x, y;\nst.param.b32 [x], %i;\n@%p call (y), twice, (x);\n@%p ld.param.b32 %v, [y];\n}\n"
                "@!%p bar.warp.sync 0xff000000;\n@%p bar.sync 1, 32;\n@%q exit;\n@%p redux.sync.max.u32 %v, %v, "
                "0x00ffffff;\n"
                "st.global.u32 [%o], %v;\nret;\n}\n",
                32, &out));
        for (uint32_t i = 0; i < 32; i++)
                cr_assert(out[i] == (i < 24 ? 40 : i < 30 ? 77 : 0), "lane %u: %u", i, out[i]);
        rig_close(&r);
}

/* --- stacks --- */
#define RECURSIVE                                                                                                    \
        HEAD ".func (.param .b32 r) down(.param .b32 a)\n{\n.local .align 16 .b8 pad[64];\n.reg .b32 %a, %b;\n.reg " \
             ".pred %p;\n"                                                                                           \
             "ld.param.b32 %a, [a];\nst.local.b32 [pad+60], %a;\nmov.b32 %b, 0;\nsetp.eq.u32 %p, %a, 0;\n@%p bra "   \
             "E;\nsub.u32 %b, %a, 1;\n"                                                                              \
             "{\n.param .b32 x, y;\nst.param.b32 [x], %b;\ncall (y), down, (x);\nld.param.b32 %b, [y];\n}\n"         \
             "E: ld.local.b32 %a, [pad+60];\nadd.u32 %b, %b, %a;\nst.param.b32 [r], %b;\nret;\n}\n"                  \
             ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %o;\n.reg .b32 %i, %v;\nld.param.u64 %o, "            \
             "[out];\nmov.u32 %i, %tid.x;\n"                                                                         \
             "mad.wide.u32 %o, %i, 4, %o;\nadd.u32 %v, %i, DEPTH;\n{\n.param .b32 x, y;\nst.param.b32 [x], %v;\n"    \
             "call (y), down, (x);\nld.param.b32 %v, [y];\n}\nst.global.u32 [%o], %v;\nret;\n}\n"

static void recursive(char *text, size_t size, const char *depth)
{
        const char *at = strstr(RECURSIVE, "DEPTH");

        (void)snprintf(text, size, "%.*s%s%s", (int)(at - RECURSIVE), RECURSIVE, depth, at + 5);
}

Test(interp_text, recursion)
{
        char text[4096];
        struct rig r;
        uint32_t *out;

        recursive(text, sizeof(text), "100");
        GOOD(launch_text(&r, text, 40, &out));
        for (uint32_t i = 0; i < 40; i++)
                cr_assert(out[i] == (100 + i) * (101 + i) / 2, "thread %u: %u", i, out[i]);
        rig_close(&r);
        recursive(text, sizeof(text), "1000000");
        faults(text, 40, DS_INTERP_FAULT_STACK);
}

/* --- memory outside of the kernel's own --- */
Test(interp_text, local_memory_ends_with_the_frame)
{
        faults(KERNEL(".local .b32 l[4];\n.reg .b32 %a, %v;\nmov.u32 %a, l;\nld.local.u32 %v, [%a+12];\nld.local.u32 "
                      "%v, [%a+16];"),
                1, DS_INTERP_FAULT_ADDRESS);
        faults(KERNEL(".local .b32 l[4];\n.reg .b64 %a;\n.reg .b32 %v;\nmov.u64 %a, l;\ncvta.local.u64 %a, %a;\nld.u32 "
                      "%v, [%a];\n"
                      "ld.u32 %v, [%a+-4];"),
                1, DS_INTERP_FAULT_ADDRESS);
}

Test(interp_text, generic_windows)
{
        faults(KERNEL(".reg .b64 %a;\n.reg .b32 %v;\nmov.b64 %a, 0x0100000000000000;\nld.u32 %v, [%a];"), 1,
                DS_INTERP_FAULT_ADDRESS);
        faults(KERNEL(".reg .b64 %a;\n.reg .b32 %v;\nmov.b64 %a, 0x0300000000000000;\nld.u32 %v, [%a];\nst.u32 [%a], "
                      "%v;"),
                1, DS_INTERP_FAULT_ADDRESS);
        faults(KERNEL(".reg .b64 %a;\n.reg .b32 %v;\nmov.b64 %a, 0x0500000000000000;\nld.u32 %v, [%a];"), 1,
                DS_INTERP_FAULT_ADDRESS);
        faults(KERNEL(".reg .b64 %a;\n.reg .b32 %v;\nmov.b64 %a, -4;\nld.global.u32 %v, [%a];"), 1,
                DS_INTERP_FAULT_ADDRESS);
        faults(KERNEL(".reg .b64 %a;\n.reg .b32 %v;\nadd.u64 %a, %out, 4096;\nld.global.u32 %v, [%a];"), 1,
                DS_INTERP_FAULT_ADDRESS);
        faults(KERNEL(".reg .b32 %v<4>;\nld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%out+8];"), 1,
                DS_INTERP_FAULT_MISALIGNED);
        faults(KERNEL(".reg .b32 %v<4>;\nld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%out+4096];"), 1,
                DS_INTERP_FAULT_ADDRESS);
        faults(KERNEL(".reg .b64 %v;\natom.global.add.u64 %v, [%out+4], 1;"), 1, DS_INTERP_FAULT_MISALIGNED);
}

Test(interp_text, constants_are_read_only)
{
        struct rig r;
        uint32_t *out;
        static const char text[] = HEAD
                ".const .b32 c[2] = {7, 8};\n.global .b32 g = 5;\n.global .u64 pg = generic(g);\n"
                ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %o, %a;\n.reg .b32 %v, %w;\nld.param.u64 %o, [out];\n"
                "mov.u64 %a, c;\ncvta.const.u64 %a, %a;\nld.u32 %v, [%a+4];\nld.global.u64 %a, [pg];\nst.u32 [%a], 9;\n"
                "ld.global.u32 %w, [g];\nst.global.v2.u32 [%o], {%v, %w};\n"
                "mov.u64 %a, c;\ncvta.const.u64 %a, %a;\nst.u32 [%a], 1;\nret;\n}\n";
        struct ds_interp_result f = launch_text(&r, text, 1, &out);

        cr_assert(
                f.fault == DS_INTERP_FAULT_ADDRESS && out[0] == 8 && out[1] == 9, "%d %u %u", f.fault, out[0], out[1]);
        rig_close(&r);
}

/* A block cannot see values that an earlier block left in shared memory, local memory or registers. */
Test(interp_text, memory_starts_clean)
{
        struct rig r;
        uint32_t *out;

        for (int pass = 0; pass < 3; pass++) {
                if (pass == 0)
                        rig_text(&r,
                                KERNEL(".shared .b32 s[32];\n.local .b32 l[8];\n.reg .b32 %a, %never, %v, %w;\nmov.u32 "
                                       "%a, s;\n"
                                       "mad.lo.u32 %a, %i, 4, %a;\nld.shared.u32 %v, [%a];\nld.local.u32 %w, [l+20];\n"
                                       "or.b32 %v, %v, %w;\nor.b32 %v, %v, %never;\nst.global.u32 [%o], %v;\n"
                                       "mov.b32 %never, -1;\nst.shared.u32 [%a], %never;\nst.local.u32 [l+20], "
                                       "%never;"));
                GOOD(launch(&r, 32, &out));
                for (int i = 0; i < 32; i++)
                        cr_assert(out[i] == 0, "pass %d: %x", pass, out[i]);
        }
        rig_close(&r);
}

/* --- ranges --- */
Test(interp_text, many_ranges)
{
        struct rig r;
        uint32_t *first, *second, *out;
        uint64_t *where;

        rig_text(&r, HEAD
                ".visible .entry k(.param .u64 where, .param .u64 out)\n{\n.reg .b64 %w, %o, %a;\n.reg .b32 %i, %v;\n"
                "mov.u32 %i, %tid.x;\nld.param.u64 %w, [where];\nmad.wide.u32 %w, %i, 8, %w;\nld.global.u64 %a, [%w];\n"
                "ld.global.u32 %v, [%a];\nld.param.u64 %o, [out];\nmad.wide.u32 %o, %i, 4, %o;\nst.global.u32 [%o], "
                "%v;\nret;\n}\n");
        first = rig_words(&r, 64, 1);
        second = rig_words(&r, 64, 2);
        where = rig_alloc(&r, 64 * 8);
        out = rig_alloc(&r, 256);
        for (int i = 0; i < 64; i++)
                where[i] = (uintptr_t)((i % 3 ? first : second) + (i * 5) % 64);
        rig_run(&r, "k", RIG_DIM1(1), RIG_DIM1(64), 0, RIG_ARGS(&where, &out));
        for (int i = 0; i < 64; i++)
                cr_assert(out[i] == (i % 3 ? first : second)[(i * 5) % 64]);
        where[33] = (uintptr_t)(first + 64);
        struct ds_interp_result f = rig_launch(&r, "k", RIG_DIM1(1), RIG_DIM1(64), 0, RIG_ARGS(&where, &out));
        cr_assert(f.fault == DS_INTERP_FAULT_ADDRESS && f.thread[0] == 33 && f.address == where[33], "%d %u", f.fault,
                f.thread[0]);
        rig_close(&r);
}

/* --- widths --- */
Test(interp_text, loads_extend_and_stores_cut)
{
        struct rig r;
        uint32_t *out;

        GOOD(launch_text(&r,
                KERNEL(".reg .b64 %x, %y;\n.reg .b32 %v;\n.reg .b16 %h<4>;\nmov.b64 %x, "
                       "0xfedcba9876543281;\nst.global.u64 [%out], %x;\n"
                       "ld.global.s8 %y, [%out];\nst.global.u64 [%out+8], %y;\nld.global.u8 %v, [%out];\nst.global.u32 "
                       "[%out+16], %v;\n"
                       "ld.global.s16 %y, [%out+6];\nst.global.u64 [%out+24], %y;\nld.global.s32 %y, "
                       "[%out+4];\nst.global.u64 [%out+32], %y;\n"
                       "ld.global.s8 %h0, [%out+7];\nst.global.u16 [%out+40], %h0;\nmov.b64 {%h0, %h1, %h2, %h3}, %x;\n"
                       "mov.b64 %y, {%h3, %h2, %h1, %h0};\nst.global.u64 [%out+48], %y;\nst.global.v4.u16 [%out+56], "
                       "{%h1, %h1, %h0, %h0};\n"
                       "mov.b32 %v, {%h2, %h3};\nst.global.u8 [%out+64], %v;\nmov.b64 {_, %v}, %x;\nst.global.u32 "
                       "[%out+68], %v;"),
                1, &out));
        uint64_t *o = (uint64_t *)out;
        cr_assert(o[1] == 0xffffffffffffff81 && out[4] == 0x81 && o[3] == 0xfffffffffffffedc &&
                  o[4] == 0xfffffffffedcba98);
        cr_assert((uint16_t)out[10] == 0xfffe && o[6] == 0x32817654ba98fedc && o[7] == 0x3281328176547654, "%llx",
                (unsigned long long)o[6]);
        cr_assert(out[16] == 0x98 && out[17] == 0xfedcba98);
        rig_close(&r);
}

Test(interp_text, sixteen_bytes_at_once)
{
        struct rig r;
        uint32_t *out;

        GOOD(launch_text(&r,
                KERNEL(".shared .align 16 .b8 s[64];\n.reg .b128 %q;\n.reg .b64 %x, %y;\nmov.b64 %x, 0x1111;\nmov.b64 "
                       "%y, 0x2222;\n"
                       "mov.b128 %q, {%x, %y};\nmov.b128 {%y, %x}, %q;\nst.global.v2.u64 [%out], {%x, %y};\n"
                       "cp.async.ca.shared.global [s], [%out], 16;\ncp.async.commit_group;\ncp.async.wait_group 0;\n"
                       "ld.shared.v2.u64 {%y, %x}, [s];\nst.global.v2.u64 [%out+16], {%x, %y};"),
                1, &out));
        cr_assert(out[0] == 0x2222 && out[2] == 0x1111 && out[4] == 0x1111 && out[6] == 0x2222, "%x %x %x %x", out[0],
                out[2], out[4], out[6]);
        rig_close(&r);
}

/* --- special registers --- */
Test(interp_text, special_registers)
{
        static const char *const names[] = {"%tid.z", "%ntid.x", "%ntid.y", "%ctaid.x", "%ctaid.y", "%nctaid.x",
                "%nctaid.z", "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%dynamic_smem_size",
                "%total_smem_size", "%cluster_nctarank", "%cluster_ctarank", "%clusterid.y", "%tid.w",
                "%globaltimer_hi", "%lanemask_le"};
        char text[4096] = HEAD ".visible .entry k(.param .u64 out)\n{\n.shared .align 16 .b8 s[64];\n.reg .b64 %o, "
                               "%t<3>;\n.reg .b32 %v, %k;\n"
                               ".reg .pred %p, %q;\nld.param.u64 %o, [out];\nmov.u32 %k, s;\n";
        struct rig r;
        uint32_t *out;

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                (void)snprintf(text + strlen(text), sizeof(text) - strlen(text),
                        "mov.u32 %%v, %s;\nst.global.u32 [%%o+%zu], %%v;\n", names[i], i * 4);
        strcat(text,
                "mov.u64 %t0, %clock64;\nmov.u32 %k, 0;\nL: add.u32 %k, %k, 1;\nsetp.lt.u32 %p, %k, 10;\n@%p bra L;\n"
                "mov.u64 %t1, %clock64;\nsub.u64 %t1, %t1, %t0;\nst.global.u64 [%o+128], %t1;\nmov.u64 %t2, "
                "%globaltimer;\n"
                "st.global.u64 [%o+136], %t2;\nmov.u64 %t2, %gridid;\nst.global.u64 [%o+144], %t2;\nret;\n}\n");
        rig_text(&r, text);
        out = rig_alloc(&r, 256);
        /* a warp leaves the values of one lane: of several stores to one address the first lane's wins, as on an
         * H200 */
        struct ds_interp_result f = rig_launch(&r, "k", RIG_DIM2(3, 2), (rig_dim){5, 4, 2}, 128, RIG_ARGS(&out));
        GOOD(f);
        cr_assert(
                out[1] == 5 && out[2] == 4 && out[3] == 2 && out[4] == 1 && out[5] == 3 && out[6] == 1 && out[9] == 2);
        cr_assert(out[10] == 3 && out[11] == 10 && out[12] == 128 && out[13] == 192 && out[14] == 1 && out[15] == 0 &&
                  out[16] == 1);
        cr_assert(out[17] == 0 && out[18] == 0, "%u %u", out[17], out[18]);
        /* the last stores to these words are those of the second warp */
        cr_assert(out[0] == 1 && out[7] == 0 && out[8] == 1 && out[19] == 1, "%u %u %u %x", out[0], out[7], out[8],
                out[19]);
        cr_assert(*(uint64_t *)(out + 32) > 20 && *(uint64_t *)(out + 34) >= 1000 && *(uint64_t *)(out + 36) == 0);
        rig_close(&r);
}

/* --- divergence costs as much as its longest path --- */
Test(interp_text, nested_loops_reconverge)
{
        struct rig r;
        uint32_t *out;
        /* outer loop: 8 rounds; inner loop: 0 to 31 rounds by lane, about 4 instructions each */
        struct ds_interp_result f = launch_text(&r,
                KERNEL(".reg .b32 %a, %b, %s;\n.reg .pred %p, %q;\nmov.u32 %a, 0;\nmov.u32 %s, 0;\n"
                       "O: mov.u32 %b, 0;\nsetp.ge.u32 %q, %b, %i;\n@%q bra X;\n"
                       "I: add.u32 %s, %s, %b;\nadd.u32 %b, %b, 1;\nsetp.lt.u32 %p, %b, %i;\n@%p bra I;\n"
                       "X: add.u32 %a, %a, 1;\nsetp.lt.u32 %p, %a, 8;\n@%p bra O;\nst.global.u32 [%o], %s;"),
                32, &out);

        GOOD(f);
        for (uint32_t i = 0; i < 32; i++)
                cr_assert(out[i] == 8 * (i * (i ? i - 1 : 0) / 2), "lane %u: %u", i, out[i]);
        cr_assert(f.cost.instructions < 8 * (31 * 4 + 12) + 20, "%llu", (unsigned long long)f.cost.instructions);
        cr_assert(f.cost.instructions > 8 * 31 * 4 && f.cost.critical_path == f.cost.instructions);
        rig_close(&r);
}

Test(interp_text, costs)
{
        struct rig r;
        uint32_t *out;
        struct ds_interp_result f = launch_text(&r,
                KERNEL(".shared .b32 s[64];\n.reg .b32 %v, %a;\n.reg .b64 %x;\n.reg .f32 %f;\nld.global.u32 "
                       /* this load touches 4 sectors of 32 bytes */
                       "%v, [%o];\n"
                       "mad.wide.u32 %x, %i, 32, %out;\nld.global.u32 %v, [%x];\n" /* this load touches 32 sectors */
                       "ld.global.u32 %v, [%out];\n"                               /* this load touches 1 sector */
                       "mov.u32 %a, s;\nst.shared.u32 [%a], %v;\ncvt.rn.f32.u32 %f, %v;\nex2.approx.f32 %f, "
                       "%f;\nbar.sync 0;"),
                64, &out);

        GOOD(f);
        cr_assert(f.cost.memory_instructions == 6 && f.cost.sectors == 2 * (4 + 32 + 1), "%llu %llu",
                (unsigned long long)f.cost.memory_instructions, (unsigned long long)f.cost.sectors);
        cr_assert(f.cost.shared_instructions == 2 && f.cost.special_instructions == 2 && f.cost.barriers == 2);
        /* instructions per warp: three at the top, nine of the body, ret */
        cr_assert(f.cost.instructions == 2 * 13 && f.cost.critical_path == 13, "%llu",
                (unsigned long long)f.cost.instructions);
        rig_close(&r);
}

/* Two warps wait for each other by polling shared memory. */
Test(interp_text, polling_warps)
{
        struct rig r;
        uint32_t *out;

        GOOD(launch_text(&r,
                KERNEL(".shared .b32 f[2];\n.reg .b32 %v;\n.reg .pred %p;\nsetp.lt.u32 %p, %i, 32;\n@%p bra FIRST;\n"
                       "A: ld.volatile.shared.u32 %v, [f];\nnanosleep.u32 20;\nsetp.eq.u32 %p, %v, 0;\n@%p bra A;\n"
                       "st.volatile.shared.u32 [f+4], 1;\nbra DONE;\n"
                       "FIRST: st.volatile.shared.u32 [f], 1;\nB: ld.volatile.shared.u32 %v, [f+4];\nsetp.eq.u32 %p, "
                       "%v, 0;\n@%p bra B;\n"
                       "DONE: st.global.u32 [%o], %v;"),
                64, &out));
        cr_assert(out[0] == 1 && out[63] == 1);
        rig_close(&r);
}

/* --- atomics of vectors, and through generic addresses --- */
Test(interp_text, more_atomics)
{
        struct rig r;
        uint32_t *out;

        GOOD(launch_text(&r,
                KERNEL(".shared .align 8 .b32 s[4];\n.reg .b64 %a;\n.reg .b32 %v;\n.reg .f32 %f<4>;\n.reg .b16 "
                       "%h;\nmov.u64 %a, s;\n"
                       "cvta.shared.u64 %a, %a;\natom.add.u32 %v, [%a], 2;\nred.shared.max.u32 [s+4], %i;\nbar.sync "
                       "0;\n"
                       "ld.shared.u32 %v, [s];\nst.global.u32 [%out+64], %v;\nld.shared.u32 %v, [s+4];\nst.global.u32 "
                       "[%out+68], %v;\n"
                       "mov.f32 %f0, 0f3F800000;\nmov.f32 %f1, 0f40000000;\nred.global.add.v2.f32 [%out], {%f0, %f1};\n"
                       "mov.b16 %h, 0;\natom.global.cas.b16 %h, [%out+32], %h, 7;\nred.global.inc.u32 [%out+36], 6;"),
                32, &out));
        cr_assert(out[16] == 64 && out[17] == 31, "%u %u", out[16], out[17]);
        cr_assert(out[0] == 0x42000000 && out[1] == 0x42800000 && out[8] == 7 && out[9] == 32 % 7, "%x %x %u %u",
                out[0], out[1], out[8], out[9]);
        rig_close(&r);
}

/* --- calls through pointers --- */
#define INDIRECT(target)                                                                                         \
        HEAD ".func (.param .b32 r) f(.param .b32 a)\n{\n.reg .b32 %a;\nld.param.b32 %a, [a];\nadd.u32 %a, %a, " \
             "3;\nst.param.b32 [r], %a;\nret;\n}\n"                                                              \
             ".func (.param .b64 r) g(.param .b64 a)\n{\nret;\n}\n"                                              \
             ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %o, %t;\n.reg .b32 %v;\nld.param.u64 %o, "        \
             "[out];\n" target "p: .callprototype (.param .b32 _) _ (.param .b32 _);\n"                          \
             "{\n.param .b32 x, y;\nst.param.b32 [x], 4;\ncall (y), %t, (x), p;\nld.param.b32 %v, [y];\n}\n"     \
             "st.global.u32 [%o], %v;\nret;\n}\n"

Test(interp_text, calls_through_pointers)
{
        struct rig r;
        uint32_t *out;

        GOOD(launch_text(&r, INDIRECT("mov.u64 %t, f;\n"), 1, &out));
        cr_assert(out[0] == 7);
        rig_close(&r);
        faults(INDIRECT("mov.u64 %t, 0;\n"), 1, DS_INTERP_FAULT_ILLEGAL);
        /* g is a function with other parameters than the call states */
        faults(INDIRECT("mov.u64 %t, g;\n"), 1, DS_INTERP_FAULT_ILLEGAL);
        faults(INDIRECT("mov.u64 %t, -1;\n"), 1, DS_INTERP_FAULT_ILLEGAL);
        faults(INDIRECT("mov.u64 %t, f;\nadd.u64 %t, %t, 0x100000;\n"), 1, DS_INTERP_FAULT_ILLEGAL);
}

Test(interp_text, names_that_stand_for_others)
{
        struct rig r;
        uint32_t *out;

        GOOD(launch_text(&r,
                HEAD
                ".extern .global .b32 value;\n.visible .func (.param .b32 r) real()\n{\nst.param.b32 [r], "
                "55;\nret;\n}\n"
                ".visible .func (.param .b32 r) other();\n.alias other, real;\n.visible .global .b32 value = 66;\n"
                ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %o;\n.reg .b32 %v, %w;\nld.param.u64 %o, [out];\n"
                "{\n.param .b32 y;\ncall (y), other, ();\nld.param.b32 %v, [y];\n}\nld.global.u32 %w, [value];\n"
                "st.global.v2.u32 [%o], {%v, %w};\nret;\n}\n",
                1, &out));
        cr_assert(out[0] == 55 && out[1] == 66, "%u %u", out[0], out[1]);
        rig_close(&r);
}

/* --- two launches at once --- */
static void *count_up(void *p)
{
        struct rig *r = p;
        ds_interp_block *work = ds_interp_block_new();
        uint64_t out = r->range[0].va;
        struct ds_interp_launch l = {.kernel = ds_interp_find_kernel(r->interp, "k"),
                .grid = {64, 1, 1},
                .block = {128, 1, 1},
                .params = &out,
                .params_size = 8,
                .ranges = r->range,
                .n_ranges = r->n_ranges};
        struct ds_interp_result result;
        long bad = 0;

        for (uint32_t b = 0; b < 64; b++)
                bad |= ds_interp_run_block(work, &l, b, 0, 0, &result) || result.fault;
        ds_interp_block_free(work);
        return (void *)bad;
}

/* Atomics of two blocks on two threads, on the same memory and the same module variable, lose no update. */
Test(interp_text, two_threads)
{
        struct rig r;
        pthread_t thread;
        void *bad;
        uint32_t *out;

        rig_text(&r, HEAD
                ".global .b32 shared_count;\n.visible .entry k(.param .u64 out)\n{\n.reg .b64 %o;\n.reg .b32 %v;\n.reg "
                ".f32 %f;\n"
                "ld.param.u64 %o, [out];\natom.global.add.u32 %v, [shared_count], 1;\nred.global.add.u32 [%o], 3;\n"
                "atom.global.inc.u32 %v, [%o+4], 0xffffffff;\nred.global.add.f32 [%o+8], 0f3F800000;\n"
                "atom.global.max.u32 %v, [%o+12], %v;\nret;\n}\n");
        out = rig_alloc(&r, 4096);
        cr_assert(pthread_create(&thread, NULL, count_up, &r) == 0);
        cr_assert(count_up(&r) == NULL);
        cr_assert(pthread_join(thread, &bad) == 0 && !bad);
        uint64_t va, size;
        cr_assert(ds_interp_find_global(r.interp, "shared_count", &va, &size) == 0 &&
                  *(uint32_t *)(uintptr_t)va == 2 * 64 * 128);
        cr_assert(out[0] == 3 * 2 * 64 * 128 && out[1] == 2 * 64 * 128 && out[3] == out[1] - 1, "%u %u %u", out[0],
                out[1], out[3]);
        cr_assert(*(float *)(out + 2) == 2 * 64 * 128);
        rig_close(&r);
}

/* --- reported properties of kernels --- */
Test(interp_text, kernel_information)
{
        struct rig r;
        const struct ds_interp_kernel_info *a, *b;

        rig_text(&r, HEAD ".shared .align 4 .b8 one[100];\n.shared .align 16 .b8 two[48];\n.extern .shared .align 16 "
                          ".b8 more[];\n"
                          ".const .b8 c[20];\n.func helper()\n{\n.local .align 8 .b8 l[40];\n.reg .b32 "
                          "%v;\nld.shared.u32 %v, [two];\nst.local.u32 [l], %v;\nret;\n}\n"
                          ".visible .entry a(.param .u8 x, .param .align 8 .b8 s[20], .param .u64 p) .maxntid 8, 8, "
                          "2\n{\n.local .b8 l[16];\n.reg .b32 %v;\n"
                          "ld.shared.u32 %v, [one];\nst.local.u32 [l], %v;\ncall helper;\nret;\n}\n"
                          ".visible .entry b() .reqntid 96\n{\n.reg .b32 %v;\nmov.u32 %v, more;\nst.shared.u32 [two], "
                          "%v;\nret;\n}\n");
        a = ds_interp_kernel_info(ds_interp_find_kernel(r.interp, "a"));
        b = ds_interp_kernel_info(ds_interp_find_kernel(r.interp, "b"));
        cr_assert(a->n_params == 3 && a->params[1].offset == 8 && a->params[1].size == 20 &&
                  a->params[2].offset == 32 && a->params_size == 40);
        cr_assert(a->static_shared == 112 + 48 && a->local_bytes == 16 + 48 && a->max_threads == 128 &&
                          a->const_bytes == 20,
                "%u %u", a->static_shared, a->local_bytes);
        cr_assert(b->static_shared == 48 && b->local_bytes == 0 && b->max_threads == 96 && b->n_params == 0 &&
                  a->ptx_version == 83 && a->target == 90);
        cr_assert(a->registers >= 16 && a->registers <= 255);
        cr_assert(ds_interp_has_globals(r.interp), "constants are written by the host");
        cr_assert(!ds_interp_find_kernel(r.interp, "helper") && !ds_interp_kernel_at(r.interp, 2));
        rig_close(&r);
}

/* --- video instructions by PTX's definition: ptxas's code for sm_90 deviates from it, so a GPU is no reference --- */
Test(interp_text, video_as_ptx_says)
{
        static const struct {
                const char *text;
                uint32_t a, b, c, want;
        } cases[] = {
                {"vadd.u32.u32.u32.sat %d, %a, %b;", 0xffffffff, 1, 0, 0xffffffff},
                {"vsub.u32.u32.s32.sat %d, %a, %b;", 0xffffffff, 0x80000000, 0, 0xffffffff},
                {"vabsdiff.u32.s32.u32.sat %d, %a, %b;", 0x80000000, 0xffffffff, 0, 0xffffffff},
                {"vabsdiff.u32.u32.u32 %d.h1, %a, %b, %c;", 3, 8, 0x11112222, 0x00052222},
                {"vadd.s32.s32.s32.sat %d.b1, %a, %b, %c;", 100, 100, 0x11223344, 0x11227f44},
                {"vadd.u32.s32.s32.sat %d.b2, %a.b0, %b.b3, %c;", 0xff, 0x01000000, 0x11223344, 0x11003344},
                {"vshl.u32.u32.u32.sat.wrap %d, %a, %b;", 7, 31, 0, 0xffffffff},
                {"vshl.s32.s32.u32.sat.clamp %d, %a, %b;", 0xfffffff9, 40, 0, 0x80000000},
                {"vshl.u32.u32.u32.clamp %d, %a, %b;", 0xffffffff, 32, 0, 0},
                {"vshr.s32.s32.u32.clamp.max %d, %a, %b, %c;", 0x80000000, 99, 0xfffffff0, 0xffffffff},
                {"vmin.s32.s32.s32.min %d, %a.h1, %b.b0, %c;", 0x80000000, 5, 0xffff7fff, 0xffff7fff},
                {"vset.u32.u32.gt %d.h1, %a, %b, %c;", 1, 0xffffffff, 0x11112222, 0x00002222},
                {"vset.s32.s32.gt %d.h1, %a, %b, %c;", 1, 0xffffffff, 0x11112222, 0x00012222},
                {"vmad.u32.u32.u32.sat %d, %a, %b, -%c;", 0xffffffff, 0xffffffff, 1, 0x7fffffff},
                {"vmad.u32.u32.u32.shr15 %d, %a.b3, %b, %c;", 0, 7, 0x80000000, 0x00010000},
                {"vmad.s32.s32.u32.sat.shr7 %d, -%a, %b, %c;", 0x80000000, 0xffffffff, 0, 0x7fffffff},
                {"vmad.u32.u32.u32.po.shr7 %d, %a, %b, %c;", 0xffffffff, 0xffffffff, 0xffffffff, 0xfe000000},
        };

        for (size_t i = 0; i < DS_ARRAY_SIZE(cases); i++) {
                char text[2048];
                struct rig r;
                uint32_t *out;

                (void)snprintf(text, sizeof(text),
                        HEAD ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %%o;\n.reg .b32 %%a, %%b, %%c, %%d;\n"
                             "ld.param.u64 %%o, [out];\nmov.u32 %%a, %u;\nmov.u32 %%b, %u;\nmov.u32 %%c, %u;\n%s\n"
                             "st.global.u32 [%%o], %%d;\nret;\n}\n",
                        cases[i].a, cases[i].b, cases[i].c, cases[i].text);
                GOOD(launch_text(&r, text, 1, &out));
                cr_expect(out[0] == cases[i].want, "%s %x, not %x", cases[i].text, out[0], cases[i].want);
                rig_close(&r);
        }
}

/* A call through a pointer that lists its targets instead of a prototype */
Test(interp_text, call_targets)
{
        struct rig r;
        uint32_t *out;

        GOOD(launch_text(&r,
                HEAD ".func (.param .b32 r) twice(.param .b32 x)\n{\n.reg .b32 %v;\nld.param.u32 %v, [x];\n"
                     "add.u32 %v, %v, %v;\nst.param.b32 [r], %v;\nret;\n}\n"
                     ".func (.param .b32 r) next(.param .b32 x)\n{\n.reg .b32 %v;\nld.param.u32 %v, [x];\n"
                     "add.u32 %v, %v, 1;\nst.param.b32 [r], %v;\nret;\n}\n"
                     ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %o, %f, %g;\n.reg .b32 %i, %v;\n.reg .pred %p;\n"
                     "mov.u32 %i, %tid.x;\nld.param.u64 %o, [out];\nmad.wide.u32 %o, %i, 4, %o;\nmov.u64 %f, twice;\n"
                     "mov.u64 %g, next;\nand.b32 %v, %i, 1;\nsetp.eq.u32 %p, %v, 0;\nselp.b64 %f, %f, %g, %p;\n"
                     "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %i;\nlist: .calltargets twice, next;\n"
                     "call (y), %f, (x), list;\nld.param.b32 %v, [y]; }\nst.global.u32 [%o], %v;\nret;\n}\n",
                32, &out));
        for (uint32_t i = 0; i < 32; i++)
                cr_assert(out[i] == (i & 1 ? i + 1 : 2 * i), "lane %u: %u", i, out[i]);
        rig_close(&r);
}

/* --- alloca --- */
/* Every lane allocates memory of a size of its own, frees it by stackrestore or by returning, and finds zeros in new
 * memory. */
#define ALLOCA                                                                                                         \
        HEAD ".func (.param .b32 r) sum(.param .b32 n)\n{\n.reg .b32 %n, %k, %s, %v;\n.reg .b64 %a, %b, %z;\n"         \
             ".reg .pred %p;\n.local .align 4 .b8 own[16];\nld.param.u32 %n, [n];\nadd.u32 %k, %n, 1;\n"               \
             "mul.wide.u32 %z, %k, 4;\nalloca.u64 %a, %z, 16;\nst.local.u32 [own], %n;\nmov.u32 %k, 0;\n"              \
             "L: mad.wide.u32 %b, %k, 4, %a;\nld.local.u32 %v, [%b];\nadd.u32 %v, %v, %k;\nst.local.u32 [%b], %v;\n"   \
             "add.u32 %k, %k, 1;\nsetp.le.u32 %p, %k, %n;\n@%p bra L;\ncvta.local.u64 %a, %a;\nmov.u32 %s, 0;\n"       \
             "mov.u32 %k, 0;\nM: mad.wide.u32 %b, %k, 4, %a;\nld.u32 %v, [%b];\nadd.u32 %s, %s, %v;\n"                 \
             "add.u32 %k, %k, 1;\nsetp.le.u32 %p, %k, %n;\n@%p bra M;\nld.local.u32 %v, [own];\nadd.u32 %s, %s, %v;\n" \
             "st.param.b32 [r], %s;\nret;\n}\n"

Test(interp_text, alloca)
{
        struct rig r;
        uint32_t *out;

        GOOD(launch_text(&r,
                ALLOCA ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %o, %out, %s, %a, %t;\n.reg .b32 %i, %k, %v, "
                       "%w;\n.reg .pred %p;\nmov.u32 %i, %tid.x;\nld.param.u64 %out, [out];\nmad.wide.u32 %o, %i, 4, "
                       "%out;\nmov.u32 %k, 0;\nmov.u32 %w, 0;\nstacksave.u64 %t;\n"
                       /* a thousand allocations of 1000 bytes would not fit without the restore */
                       "AGAIN: stacksave.u64 %s;\nalloca.u64 %a, 1000;\nld.local.u32 %v, [%a];\nadd.u32 %w, %w, %v;\n"
                       "st.local.u32 [%a], 77;\n{ .param .b32 n; .param .b32 r; st.param.b32 [n], %i;\n"
                       "call (r), sum, (n);\nld.param.b32 %v, [r]; }\nstackrestore.u64 %s;\nadd.u32 %w, %w, %v;\n"
                       "add.u32 %k, %k, 1;\nsetp.lt.u32 %p, %k, 1000;\n@%p bra AGAIN;\nstacksave.u64 %s;\n"
                       "setp.ne.u64 %p, %s, %t;\n@%p mov.u32 %w, 0;\nst.global.u32 [%o], %w;\nret;\n}\n",
                40, &out));
        for (uint32_t i = 0; i < 40; i++)
                cr_assert(out[i] == 1000 * (i * (i + 1) / 2 + i), "lane %u: %u", i, out[i]);
        rig_close(&r);
}

Test(interp_text, alloca_that_may_not_be)
{
        faults(KERNEL(".reg .b64 %a;\nL: alloca.u64 %a, 4096;\nbra L;"), 1, DS_INTERP_FAULT_STACK);
        faults(KERNEL(".reg .b64 %a;\nalloca.u64 %a, -1;"), 1, DS_INTERP_FAULT_STACK);
        faults(KERNEL(".reg .b64 %a;\n.local .align 4 .b8 x[16];\nalloca.u64 %a, 64, 0x800000;"), 1,
                DS_INTERP_FAULT_STACK);
        /* reads below the allocation, where another block may have written */
        faults(KERNEL(".reg .b64 %a;\n.reg .b32 %v;\nalloca.u64 %a, 64;\nld.local.u32 %v, [%a+-4];\nst.global.u32 "
                      "[%o], %v;"),
                1, DS_INTERP_FAULT_ADDRESS);
        faults(KERNEL(".reg .b64 %a;\n.reg .b32 %v;\nalloca.u64 %a, 64;\ncvta.local.u64 %a, %a;\nld.u32 %v, "
                      "[%a+64];\nst.global.u32 [%o], %v;"),
                1, DS_INTERP_FAULT_ADDRESS);
        faults(KERNEL(".reg .b64 %a;\nstacksave.u64 %a;\nsub.u64 %a, %a, 64;\nstackrestore.u64 %a;"), 1,
                DS_INTERP_FAULT_ILLEGAL);
        faults(KERNEL(".reg .b64 %a;\nstacksave.u64 %a;\nadd.u64 %a, %a, 64;\nstackrestore.u64 %a;"), 1,
                DS_INTERP_FAULT_ILLEGAL);
}

/* --- refusals --- */
#define TAKE "stacksave.u32 %s;\nalloca.u32 %a, 60000, 16;\nstackrestore.u32 %s;\n"

/* Zeroing a large allocation takes time: an abort takes effect during it, although the kernel does not jump. */
Test(interp_text, alloca_can_be_aborted)
{
        static const char *const text = KERNEL(
                ".reg .b32 %a, %s;\n" TAKE TAKE TAKE TAKE TAKE TAKE TAKE TAKE TAKE TAKE "st.global.u32 [%o], %a;");
        _Atomic uint32_t abort = 1;
        struct ds_interp_result f;
        uint32_t *out;
        struct rig r;

        rig_text(&r, text);
        r.abort = &abort;
        f = launch(&r, 32, &out);
        cr_assert(f.fault == DS_INTERP_FAULT_ABORTED && out[0] == 0, "fault %d at line %u", f.fault, f.line);
        rig_close(&r);
}

/* A kernel's own variables fit into its stack, also where the depth of its calls is unknown. */
Test(interp_text, large_variables_beside_calls_through_pointers)
{
        static const char *const text =
                HEAD ".func f() { ret; }\n.visible .entry k(.param .u64 out)\n{\n.reg .b64 %p, %o;\n.reg .b32 %r;\n"
                     ".local .align 16 .b8 a[400000];\nld.param.u64 %o, [out];\nmov.u32 %r, 7;\n"
                     "st.local.u32 [a+399996], %r;\nmov.u64 %p, f;\ntype: .callprototype () _ ();\n"
                     "call %p, (), type;\nld.local.u32 %r, [a+399996];\nst.global.u32 [%o], %r;\nret;\n}\n";
        struct rig r;
        uint32_t *out;

        GOOD(launch_text(&r, text, 32, &out));
        cr_assert(out[0] == 7);
        rig_close(&r);
}

static void refused(const char *text, const char *says)
{
        static struct ds_ptx_diags diags;
        ds_ptx_module *module = NULL;
        ds_interp *interp = NULL;

        memset(&diags, 0, sizeof(diags));
        cr_assert(ds_ptx_parse(text, strlen(text), 0, &diags, &module) == 0, "%s", diags.diag[0].message);
        cr_assert(
                ds_interp_new(module, &diags, &interp) == DS_INTERP_E_UNSUPPORTED && !interp, "not refused: %s", says);
        cr_assert(diags.n >= 1 && strstr(diags.diag[0].message, says) && diags.diag[0].line > 3, "%u: %s",
                diags.diag[0].line, diags.diag[0].message);
        ds_ptx_module_free(module);
}

Test(interp_text, refusals_name_what_and_where)
{
        refused(KERNEL("prefetch.tensormap [%o];"), "prefetch.tensormap");
        refused(KERNEL(".reg .b64 %x;\ntxq.width.b32 %i, [%x];"), "txq");
        refused(HEAD ".extern .func (.param .b32 r) elsewhere(.param .b64 a, .param .b64 b);\n.visible .entry "
                     "k()\n{\n.param .b64 a, b;\n.param .b32 r;\n"
                     "call (r), elsewhere, (a, b);\nret;\n}\n",
                "elsewhere");
        /* declares functions of the driver with other parameters than they have */
        refused(HEAD ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b32 b);\n.visible .entry "
                     "k()\n{\n.param .b64 a;\n.param .b32 b;\n.param .b32 r;\n"
                     "call (r), vprintf, (a, b);\nret;\n}\n",
                "vprintf");
        refused(HEAD ".extern .func __assertfail(.param .b64 a);\n.visible .entry k()\n{\n.param .b64 a;\n"
                     "call __assertfail, (a);\nret;\n}\n",
                "__assertfail");
        refused(HEAD ".extern .global .b32 elsewhere;\n.visible .entry k()\n{\n.reg .b32 %v;\nld.global.u32 %v, "
                     "[elsewhere];\nret;\n}\n",
                "elsewhere");
        refused(HEAD ".visible .entry k()\n{\n.shared .b8 s[300000];\n.reg .b32 %v;\nmov.u32 %v, s;\nret;\n}\n",
                "shared");
        refused(HEAD ".visible .entry k()\n{\n.local .b8 l[600000];\nret;\n}\n", "local");
}

/* The stacks of a chain of calls add up to 2^32 bytes, which must not wrap around. */
Test(interp_text, no_stack_is_so_deep_that_it_is_small)
{
        enum { FUNCTIONS = 8191, EACH = 128 };
        static char text[(FUNCTIONS + 4) * EACH];
        size_t n = (size_t)snprintf(text, sizeof(text), HEAD);

        for (int i = 0; i < FUNCTIONS; i++) {
                n += (size_t)snprintf(text + n, sizeof(text) - n, ".func f%d() { .local .b8 a[524288]; ", i);
                if (i)
                        n += (size_t)snprintf(text + n, sizeof(text) - n, "call f%d, (); ", i - 1);
                n += (size_t)snprintf(text + n, sizeof(text) - n, "ret; }\n");
        }
        (void)snprintf(text + n, sizeof(text) - n,
                ".visible .entry k()\n{\n.local .b8 a[524288];\ncall f%d, ();\nret;\n}\n", FUNCTIONS - 1);
        refused(text, "local");
}

/* --- memory that runs out --- */
static int build_and_run(const char *text, struct ds_ptx_diags *diags, uint32_t *memory)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;
        ds_cleanup(ds_interp_block_freep) ds_interp_block *work = NULL;
        uint64_t address = (uintptr_t)memory;
        struct ds_interp_range range = {.va = address, .size = 4096};
        struct ds_interp_launch l = {.grid = {1, 1, 1},
                .block = {64, 1, 1},
                .params = &address,
                .params_size = 8,
                .ranges = &range,
                .n_ranges = 1};
        struct ds_interp_result result;
        int r = ds_ptx_parse(text, strlen(text), 0, diags, &module);

        if (!r)
                r = ds_interp_new(module, diags, &interp);
        if (r)
                return r;
        work = ds_interp_block_new();
        if (!work)
                return -ENOMEM;
        l.kernel = ds_interp_find_kernel(interp, "k");
        r = ds_interp_run_block(work, &l, 0, 0, 0, &result);
        return r ? r : result.fault == DS_INTERP_OK ? 0 : result.fault == DS_INTERP_FAULT_STACK ? -ENOMEM : 1;
}

Test(interp_text, every_allocation_may_fail)
{
        static struct ds_ptx_diags diags;
        static uint32_t memory[1024] __attribute__((__aligned__(64)));
        char text[4096];
        int r = -ENOMEM;

        recursive(text, sizeof(text), "3");
        for (int n = 0; n < 500 && r; n++) {
                ds_alloc_fail_after(n);
                r = build_and_run(text, &diags, memory);
                ds_alloc_fail_after(-1);
                cr_assert(r == 0 || r == -ENOMEM, "allocation %d: %d", n, r);
        }
        cr_assert(r == 0);
}
