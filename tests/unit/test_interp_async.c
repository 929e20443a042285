/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mbarriers and bulk copies in hand-written PTX: the effect of each instruction, and what a hostile client could try
 */
#include "tests/support/interp_harness.h"
#include "util/macro.h"

#define HEAD ".version 8.6\n.target sm_90\n.address_size 64\n"
/* Head of each kernel. out: words; in: 4096 bytes; %i: thread number; %o: address of the thread's word; m and n:
 * mbarriers; s: shared memory */
#define KERNEL_HEAD                                                                                          \
        HEAD ".visible .entry k(.param .u64 out, .param .u64 in)\n{\n.reg .b64 %o, %out, %in, %s<9>;\n"      \
             ".reg .b32 %i, %r<9>;\n.reg .pred %p<9>;\n.shared .align 8 .b64 m;\n.shared .align 8 .b64 n;\n" \
             ".shared .align 16 .b8 s[1024];\nmov.u32 %i, %tid.x;\nld.param.u64 %out, [out];\n"              \
             "ld.param.u64 %in, [in];\nmad.wide.u32 %o, %i, 4, %out;\n"
#define KERNEL_END "\nret;\n}\n"
#define KERNEL(body) KERNEL_HEAD body KERNEL_END
#define PUT(at, reg) "st.global.u32 [%out+" #at "], " reg ";\n"
#define PUT_PRED(at, p) "selp.u32 %r8, 1, 0, " p ";\nst.global.u32 [%out+" #at "], %r8;\n"

static struct ds_interp_result launch(struct rig *r, const char *text, uint32_t threads, uint32_t **out, void **in)
{
        rig_text(r, text);
        *out = rig_alloc(r, 4096);
        *in = rig_alloc(r, 4096);
        for (uint32_t i = 0; i < 1024; i++)
                ((uint32_t *)*in)[i] = i * 0x01010101u;
        r->max_instructions = 1 << 26;
        return rig_launch(r, "k", RIG_DIM1(1), RIG_DIM1(threads), 0, RIG_ARGS(out, in));
}

static void gives(const char *text, uint32_t threads, uint32_t n, const uint32_t *want)
{
        struct ds_interp_result f;
        uint32_t *out;
        struct rig r;
        void *in;

        f = launch(&r, text, threads, &out, &in);
        cr_assert(f.fault == DS_INTERP_OK, "fault %d at line %u: %s", f.fault, f.line, f.message);
        for (uint32_t i = 0; i < n; i++)
                cr_assert(out[i] == want[i], "word %u: %x, not %x", i, out[i], want[i]);
        rig_close(&r);
}

static void faults(const char *text, uint32_t threads, enum ds_interp_fault want, const char *says)
{
        struct ds_interp_result f;
        uint32_t *out;
        struct rig r;
        void *in;

        f = launch(&r, text, threads, &out, &in);
        cr_assert(f.fault == want && strstr(f.message, says), "fault %d at line %u (%s), not %d (%s)", f.fault, f.line,
                f.message, want, says);
        rig_close(&r);
}

#define GIVES(text, threads, ...) \
        gives(text, threads, DS_ARRAY_SIZE(((uint32_t[]){__VA_ARGS__})), (uint32_t[]){__VA_ARGS__})

/* --- mbarriers --- */
Test(interp_async, arrivals_and_phases)
{
        GIVES(KERNEL("mbarrier.init.shared.b64 [m], 4;\nmbarrier.arrive.shared.b64 %s1, [m];\n"
                     "mbarrier.arrive.noComplete.shared.b64 %s2, [m], 2;\n"
                     "mbarrier.pending_count.b64 %r1, %s1;\nmbarrier.pending_count.b64 %r2, %s2;\n" PUT(0, "%r1") PUT(
                             4, "%r2") "mbarrier.test_wait.shared.b64 %p1, [m], %s1;\n" PUT_PRED(8,
                             "%p1") "mbarrier.arrive.shared.b64 _, [m];\n"
                                    "mbarrier.test_wait.shared.b64 %p1, [m], %s2;\n" PUT_PRED(12,
                                            "%p1") "mbarrier.test_wait.parity.shared.b64 %p1, [m], 0;\n" PUT_PRED(16,
                                            "%p1") "mbarrier.try_wait.parity.acquire.cta.shared::cta."
                                                   "b64 %p1, [m], 1, 1000;\n" PUT_PRED(20, "%p1")
                      /* the second phase begins with all arrivals missing */
                      "mbarrier.arrive.shared.b64 %s3, [m], 1;\n"
                      "mbarrier.pending_count.b64 %r1, %s3;\n" PUT(24, "%r1")),
                1, 4, 3, 0, 1, 1, 0, 4);
}

/* A thread that has dropped out is not expected in later phases. */
Test(interp_async, dropping_out)
{
        GIVES(KERNEL("mbarrier.init.shared.b64 [m], 3;\nmbarrier.arrive_drop.shared.b64 %s1, [m];\n"
                     "mbarrier.arrive_drop.noComplete.shared.b64 %s2, [m], 1;\nmbarrier.arrive.shared.b64 %s3, [m];\n"
                     "mbarrier.test_wait.shared.b64 %p1, [m], %s3;\n" PUT_PRED(
                             0, "%p1") "mbarrier.arrive.shared.b64 %s1, [m];\nmbarrier.pending_count.b64 %r1, "
                                       "%s1;\n" PUT(4, "%r1") "mbarrier.test_wait.shared.b64 %p1, [m], %s1;\n" PUT_PRED(
                                               8, "%p1")),
                1, 1, 1, 1);
}

/* A phase lasts until all announced bytes have arrived, whatever the order of announcements and arrivals. */
Test(interp_async, bytes_to_come)
{
        GIVES(KERNEL("mbarrier.init.shared.b64 [m], 2;\n"
                     "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [m], 16;\n"
                     "mbarrier.arrive.expect_tx.shared.b64 %s1, [m], 48;\nmbarrier.arrive.shared.b64 %s2, [m];\n"
                     "mbarrier.test_wait.shared.b64 %p1, [m], %s1;\n" PUT_PRED(0,
                             "%p1") "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [m], 8;\n"
                                    "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [m], 32;\n"
                                    "mbarrier.test_wait.shared.b64 %p1, [m], %s1;\n" PUT_PRED(4,
                                            "%p1") "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [m], 8;\n"
                                                   "mbarrier.test_wait.shared.b64 %p1, [m], %s1;\n" PUT_PRED(8, "%p1")),
                1, 0, 0, 1);
}

/* Generic addresses work too, and so does a new init after inval. */
Test(interp_async, generic_addresses_and_inval)
{
        GIVES(KERNEL("mov.u64 %s5, m;\ncvta.shared.u64 %s5, %s5;\nmbarrier.init.b64 [%s5], 1;\n"
                     "mbarrier.arrive.b64 %s1, [%s5];\nmbarrier.try_wait.b64 %p1, [%s5], %s1;\n" PUT_PRED(0,
                             "%p1") "mbarrier.inval.b64 [%s5];\nmbarrier.init.b64 [%s5], 2;\n"
                                    "mbarrier.test_wait.parity.b64 %p1, [%s5], 0;\n" PUT_PRED(4,
                                            "%p1") "mbarrier.test_wait.parity.b64 %p1, [%s5], 1;\n" PUT_PRED(8, "%p1")),
                1, 1, 0, 1);
}

#define WAIT(label, object, parity) \
        label ": mbarrier.try_wait.parity.shared.b64 %p1, [" object "], " parity ";\n@!%p1 bra " label ";\n"

/* Two warps pass a word to each other; a warp that waits lets the other one run. */
Test(interp_async, a_pipeline_of_two_warps)
{
        GIVES(KERNEL("setp.eq.u32 %p2, %i, 0;\n@%p2 mbarrier.init.shared.b64 [m], 32;\n"
                     "@%p2 mbarrier.init.shared.b64 [n], 32;\nbar.sync 0;\nmov.u32 %r1, 0;\nmov.u32 %r4, 0;\n"
                     "setp.ge.u32 %p3, %i, 32;\n@%p3 bra CONSUMER;\n"
                     "PRODUCER: mad.lo.u32 %r2, %r1, 1000, %i;\nshl.b32 %r3, %i, 2;\nmov.u32 %r5, s;\n"
                     "add.u32 %r5, %r5, %r3;\nst.shared.u32 [%r5], %r2;\nmbarrier.arrive.shared.b64 _, [m];\n"
                     "and.b32 %r6, %r1, 1;\n" WAIT("W1", "n",
                             "%r6") "add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p4, %r1, 100;\n@%p4 bra PRODUCER;\nret;\n"
                                    "CONSUMER: and.b32 %r6, %r1, 1;\n" WAIT("W2", "m",
                                            "%r6") "and.b32 %r3, %i, 31;\nxor.b32 %r3, %r3, 1;\nshl.b32 %r3, %r3, "
                                                   "2;\nmov.u32 %r5, "
                                                   "s;\nadd.u32 %r5, %r5, %r3;\nld.shared.u32 %r2, [%r5];\nadd.u32 "
                                                   "%r4, %r4, %r2;\n"
                                                   "mbarrier.arrive.shared.b64 _, [n];\nadd.u32 %r1, %r1, 1;\n"
                                                   "setp.lt.u32 %p4, %r1, 100;\n@%p4 bra CONSUMER;\nst.global.u32 "
                                                   "[%o+-128], %r4;"),
                64, 4950 * 1000 + 100, 4950 * 1000, 4950 * 1000 + 300, 4950 * 1000 + 200);
}

/* Lanes of a warp wait for another lane of this warp; their wait does not keep that lane from running. */
Test(interp_async, lanes_of_a_warp_wait_for_one)
{
        GIVES(KERNEL("setp.eq.u32 %p2, %i, 0;\n@%p2 mbarrier.init.shared.b64 [m], 1;\nbar.warp.sync -1;\n"
                     "@!%p2 bra WAITERS;\nmov.u32 %r1, 0;\n"
                     "LOOP: add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p4, %r1, 50000;\n@%p4 bra LOOP;\n"
                     "mbarrier.arrive.shared.b64 _, [m];\nbra DONE;\nWAITERS:\n" WAIT(
                             "W", "m", "0") "DONE: add.u32 %r2, %i, 7;\nst.global.u32 [%o], %r2;"),
                4, 7, 8, 9, 10);
}

/* Lanes that arrive under a guard, and lanes with an mbarrier each */
Test(interp_async, every_lane_its_mbarrier)
{
        GIVES(KERNEL("shl.b32 %r1, %i, 3;\nmov.u32 %r2, s;\nadd.u32 %r1, %r1, %r2;\nadd.u32 %r3, %i, 1;\n"
                     "mbarrier.init.shared.b64 [%r1], %r3;\nmbarrier.arrive.shared.b64 %s1, [%r1];\n"
                     "setp.ne.u32 %p3, %i, 1;\nsetp.eq.u32 %p1, %i, 1;\n"
                     "@%p3 mbarrier.test_wait.shared.b64 %p1, [%r1], %s1;\nselp.u32 %r4, 1, 0, %p1;\n"
                     "st.global.u32 [%o], %r4;"),
                4, 1, 1, 0, 0);
}

/* --- refused uses ----------------- */
Test(interp_async, not_an_mbarrier)
{
        faults(KERNEL("mbarrier.arrive.shared.b64 %s1, [m];"), 1, DS_INTERP_FAULT_ILLEGAL, "not initialised");
        faults(KERNEL("mbarrier.init.shared.b64 [m], 1;\nmbarrier.inval.shared.b64 [m];\n"
                      "mbarrier.try_wait.parity.shared.b64 %p1, [m], 0;"),
                1, DS_INTERP_FAULT_ILLEGAL, "not initialised");
        faults(KERNEL("mbarrier.init.b64 [%out], 1;"), 1, DS_INTERP_FAULT_ADDRESS, "no mbarrier");
        faults(KERNEL("mbarrier.init.shared.b64 [m+4], 1;"), 1, DS_INTERP_FAULT_MISALIGNED, "misaligned");
        faults(KERNEL("mov.u32 %r1, 0x7ffffff8;\nmbarrier.init.shared.b64 [%r1], 1;"), 1, DS_INTERP_FAULT_ADDRESS,
                "no mbarrier");
        faults(KERNEL("mov.u64 %s1, 0x200000000000008;\nmbarrier.init.shared.b64 [%s1], 1;"), 1,
                DS_INTERP_FAULT_ADDRESS, "no mbarrier");
}

Test(interp_async, counts_out_of_range)
{
        faults(KERNEL("mbarrier.init.shared.b64 [m], 0;"), 1, DS_INTERP_FAULT_ILLEGAL, "0 threads");
        faults(KERNEL("mbarrier.init.shared.b64 [m], 0x100000;"), 1, DS_INTERP_FAULT_ILLEGAL, "threads");
        faults(KERNEL("mbarrier.init.shared.b64 [m], 2;\nmbarrier.arrive.shared.b64 _, [m], 3;"), 1,
                DS_INTERP_FAULT_ILLEGAL, "3 arrivals");
        faults(KERNEL("mbarrier.init.shared.b64 [m], 2;\nmbarrier.arrive.expect_tx.shared.b64 _, [m], 0x100000;"), 1,
                DS_INTERP_FAULT_ILLEGAL, "bytes");
        faults(KERNEL("mbarrier.init.shared.b64 [m], 2;\n"
                      "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [m], 0xfffff;\n"
                      "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [m], 1;"),
                1, DS_INTERP_FAULT_ILLEGAL, "bytes");
}

/* No arrival ever completes the phase: the instruction budget ends the wait soon, although hardly any instruction
 * executes. */
Test(interp_async, waiting_for_ever)
{
        faults(KERNEL("setp.eq.u32 %p2, %i, 0;\n@%p2 mbarrier.init.shared.b64 [m], 2;\nbar.sync 0;\n" WAIT(
                       "W", "m", "0")),
                64, DS_INTERP_FAULT_BUDGET, "more than");
}

/* --- copies --- */
#define COPY_IN(to, from, size) \
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [" to "], [" from "], " size ", [m];\n"
#define COPY_OUT(to, from, size) "cp.async.bulk.global.shared::cta.bulk_group [" to "], [" from "], " size ";\n"

Test(interp_async, bulk_copies)
{
        GIVES(KERNEL("mbarrier.init.shared.b64 [m], 1;\nfence.mbarrier_init.release.cluster;\n" COPY_IN("s", "%in+32",
                      "64") "mbarrier.arrive.expect_tx.shared.b64 %s1, [m], 80;\n"
                            "mbarrier.test_wait.shared.b64 %p1, [m], %s1;\n" PUT_PRED(0, "%p1") COPY_IN("s+64", "%in",
                                    "16") WAIT("W", "m", "0") "fence.proxy.async.shared::cta;\n" COPY_OUT("%out+16",
                                    "s", "80") "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n"
                                               "cp.async.bulk.wait_group 0;\n"
                                               "cp.async.bulk.prefetch.L2.global [%in], 16;"),
                1, 0, 0, 0, 0, 0x08080808, 0x09090909, 0x0a0a0a0a, 0x0b0b0b0b, 0x0c0c0c0c, 0x0d0d0d0d, 0x0e0e0e0e,
                0x0f0f0f0f, 0x10101010, 0x11111111, 0x12121212, 0x13131313, 0x14141414, 0x15151515, 0x16161616,
                0x17171717, 0, 0x01010101, 0x02020202, 0x03030303, 0);
        /* from shared memory to shared memory */
        GIVES(KERNEL("mbarrier.init.shared.b64 [m], 1;\n" COPY_IN("s", "%in+16",
                      "32") "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [s+16], [s], 32, "
                            "[m];\nmbarrier.arrive.expect_tx.shared.b64 _, [m], 64;\n" WAIT("W", "m", "0")
                                    COPY_OUT("%out", "s", "48")),
                1, 0x04040404, 0x05050505, 0x06060606, 0x07070707, 0x04040404, 0x05050505, 0x06060606, 0x07070707,
                0x08080808, 0x09090909, 0x0a0a0a0a, 0x0b0b0b0b);
}

Test(interp_async, bulk_copies_that_may_not_be)
{
        faults(KERNEL("mbarrier.init.shared.b64 [m], 1;\n" COPY_IN("s", "%in+8", "16")), 1, DS_INTERP_FAULT_MISALIGNED,
                "misaligned bulk read");
        faults(KERNEL("mbarrier.init.shared.b64 [m], 1;\n" COPY_IN("s+8", "%in", "16")), 1, DS_INTERP_FAULT_MISALIGNED,
                "misaligned bulk write");
        faults(KERNEL("mbarrier.init.shared.b64 [m], 1;\n"
                      "mov.u32 %r7, 24;\n" COPY_IN("s", "%in", "%r7")),
                1, DS_INTERP_FAULT_MISALIGNED, "multiple of 16");
        faults(KERNEL("mbarrier.init.shared.b64 [m], 1;\n" COPY_IN("s", "%in+4080", "32")), 1, DS_INTERP_FAULT_ADDRESS,
                "invalid bulk read of 32");
        faults(KERNEL("mbarrier.init.shared.b64 [m], 1;\n" COPY_IN("s", "%in", "2048")), 1, DS_INTERP_FAULT_ADDRESS,
                "invalid bulk write of 2048");
        faults(KERNEL("mbarrier.init.shared.b64 [m], 1;\n"
                      "mov.u32 %r7, 0xfffffff0;\n" COPY_IN("s", "%in", "%r7")),
                1, DS_INTERP_FAULT_ADDRESS, "invalid bulk read");
        faults(KERNEL(COPY_IN("s", "%in", "16")), 1, DS_INTERP_FAULT_ILLEGAL, "not initialised");
        faults(KERNEL(COPY_OUT("%out+4096", "s", "16")), 1, DS_INTERP_FAULT_ADDRESS, "invalid bulk write of 16");
        faults(KERNEL(COPY_OUT("%out", "s+1024", "16")), 1, DS_INTERP_FAULT_ADDRESS, "invalid bulk read of 16");
        /* a shared address is not a global one */
        faults(KERNEL("mov.u64 %s1, s;\ncvta.shared.u64 %s1, %s1;\n" COPY_OUT("%s1", "s", "16")), 1,
                DS_INTERP_FAULT_ADDRESS, "invalid bulk write");
}

#define REDUCE(op) "cp.reduce.async.bulk.global.shared::cta.bulk_group." op " [%out], [s], 16;\n"
#define FILL(v) "mov.u32 %r1, " v ";\nst.shared.v4.u32 [s], {%r1, %r1, %r1, %r1};\n"

Test(interp_async, bulk_reductions)
{
        GIVES(KERNEL(FILL("5") REDUCE("add.u32") REDUCE("add.s32") REDUCE("inc.u32") REDUCE("xor.b32")), 1, 5, 5, 5, 5);
        GIVES(KERNEL(FILL("-2") REDUCE("add.u64") REDUCE("min.s32") FILL("3") REDUCE("max.s64") REDUCE("and.b32")), 1,
                3, 3, 3, 3);
        /* 1.0 + 1.0, then the minimum of the sum and 1.5 */
        GIVES(KERNEL(FILL("0x3c003c00") REDUCE("add.noftz.f16") REDUCE("add.noftz.f16") FILL("0x3e004000")
                              REDUCE("min.f16")),
                1, 0x3e004000, 0x3e004000, 0x3e004000, 0x3e004000);
        GIVES(KERNEL(FILL("0x3f803f80") REDUCE("add.noftz.bf16") FILL("0x7fc03fc0") REDUCE("max.bf16")), 1, 0x3f803fc0);
        GIVES(KERNEL(FILL("0x3f800000") REDUCE("add.f32") REDUCE("add.f32")), 1, 0x40000000, 0x40000000, 0x40000000,
                0x40000000, 0);
        /* into shared memory, counted by an mbarrier */
        GIVES(KERNEL("mbarrier.init.shared.b64 [m], 1;\n" FILL(
                      "7") "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 "
                           "[s+16], [s], 16, [m];\nmbarrier.arrive.expect_tx.shared.b64 _, [m], 16;\n" WAIT(
                                   "W", "m", "0") COPY_OUT("%out", "s+16", "16")),
                1, 7, 7, 7, 7);
}

Test(interp_async, remote_stores_and_reductions)
{
        GIVES(KERNEL("mbarrier.init.shared.b64 [m], 1;\nmov.u32 %r1, 6;\nmov.u32 %r2, s;\nmov.u32 %r3, m;\n"
                     "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r2], {%r1, %r3}, [%r3];\n"
                     "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r2], %r1, "
                     "[%r3];\nmbarrier.arrive.expect_tx.shared.b64 _, [m], 12;\n" WAIT(
                             "W", "m", "0") "ld.shared.u32 %r4, [s];\n" PUT(0, "%r4")),
                1, 12);
}

/* One copy to both blocks of a cluster: data and mbarrier have the same offset in each block. */
static struct ds_interp_result multicast(uint32_t mask, uint32_t **out, struct rig *r)
{
        char text[4096];
        void *in;

        (void)snprintf(text, sizeof(text), "%s",
                KERNEL("mbarrier.init.shared.b64 [m], 1;\nmbarrier.arrive.expect_tx.shared.b64 _, [m], 32;\n"
                       "barrier.cluster.arrive;\nbarrier.cluster.wait;\nmov.u32 %r1, %cluster_ctarank;\n"
                       "setp.ne.u32 %p2, %r1, 1;\n@%p2 bra W;\n{ .reg .b16 %mask; mov.u16 %mask, MASK;\n"
                       "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [s+16], "
                       "[%in], 32, [m], %mask; }\n" WAIT("W", "m",
                               "0") "ld.shared.u32 %r2, [s+20];\nmad.lo.u32 %r2, %r1, 1000, %r2;\nmul.wide.u32 %s1, "
                                    "%r1, 4;\n"
                                    "add.u64 %s1, %s1, %out;\nst.global.u32 [%s1], %r2;\nbarrier.cluster.arrive;\n"
                                    "barrier.cluster.wait;"));
        memcpy(strstr(text, "MASK"), mask == 3 ? "3   " : "7   ", 4);
        rig_text(r, text);
        r->cluster[0] = 2;
        r->max_instructions = 1 << 26;
        *out = rig_alloc(r, 4096);
        in = rig_alloc(r, 4096);
        ((uint32_t *)in)[1] = 77;
        return rig_launch(r, "k", RIG_DIM1(2), RIG_DIM1(1), 0, RIG_ARGS(out, &in));
}

Test(interp_async, multicast)
{
        struct ds_interp_result f;
        uint32_t *out;
        struct rig r;

        f = multicast(3, &out, &r);
        cr_assert(f.fault == DS_INTERP_OK, "fault %d at line %u: %s", f.fault, f.line, f.message);
        cr_assert(out[0] == 77 && out[1] == 1077, "%u %u", out[0], out[1]);
        rig_close(&r);
        f = multicast(7, &out, &r);
        cr_assert(f.fault == DS_INTERP_FAULT_ADDRESS, "fault %d: %s", f.fault, f.message);
        rig_close(&r);
}

/* cp.async with a source smaller than the copy: the rest is zeroed, and memory behind the source is not read. */
Test(interp_async, small_copies_of_less)
{
        GIVES(KERNEL("mov.u32 %r1, -1;\nst.shared.v4.u32 [s], {%r1, %r1, %r1, %r1};\nmov.u32 %r2, 5;\n"
                     "cp.async.ca.shared.global [s], [%in+8], 8, %r2;\n"
                     "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [s];\n" PUT(0, "%r1") PUT(4, "%r2") PUT(8,
                             "%r3") "mov.u64 %s1, 0;\nmov.u32 %r2, 0;\ncp.async.cg.shared.global [s], [%s1], 16, %r2;\n"
                                    "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [s];\n" PUT(12, "%r1") PUT(
                                            16, "%r4") "setp.eq.u32 %p1, %i, 0;\nst.shared.u32 [s], %i;\n"
                                                       "cp.async.ca.shared.global [s], [%in+4], 4, %p1;\nld.shared.u32 "
                                                       "%r1, [s];\n" PUT(20,
                                                               "%r1") "setp.ne.u32 %p1, %i, 0;\n"
                                                                      "cp.async.ca.shared.global [s], [%in+4], 4, "
                                                                      "%p1;\nld.shared.u32 %r1, [s];\n" PUT(24, "%r1")),
                1, 0x02020202, 0x03, 0xffffffff, 0, 0, 0, 0x01010101);
        faults(KERNEL("mov.u64 %s1, 0;\nmov.u32 %r2, 1;\ncp.async.ca.shared.global [s], [%s1], 4, %r2;"), 1,
                DS_INTERP_FAULT_ADDRESS, "invalid copy of 4");
        faults(KERNEL("mov.u32 %r2, 1;\ncp.async.ca.shared.global [s], [%in+2], 4, %r2;"), 1,
                DS_INTERP_FAULT_MISALIGNED, "misaligned copy of 4");
        /* the reported address is the misaligned one, in shared memory */
        faults(KERNEL("mov.u32 %r2, 1;\ncp.async.ca.shared.global [s+2], [%in], 4, %r2;"), 1,
                DS_INTERP_FAULT_MISALIGNED, "misaligned copy of 4 bytes at 0x1000000000000");
}

/* cp.async completes at once, so an mbarrier arrival that follows it has nothing to wait for. */
Test(interp_async, arrivals_for_small_copies)
{
        GIVES(KERNEL("mbarrier.init.shared.b64 [m], 2;\ncp.async.ca.shared.global [s], [%in+4], 4;\n"
                     "cp.async.mbarrier.arrive.shared.b64 [m];\nmbarrier.arrive.shared.b64 %s1, [m];\n"
                     "mbarrier.test_wait.shared.b64 %p1, [m], %s1;\n" PUT_PRED(
                             0, "%p1") "cp.async.mbarrier.arrive.noinc.shared.b64 [m];\n"
                                       "mbarrier.test_wait.shared.b64 %p1, [m], %s1;\n" PUT_PRED(
                                               4, "%p1") "ld.shared.u32 %r1, [s];\n" PUT(8, "%r1")),
                1, 0, 1, 0x01010101);
}

/* The cost of a copy is in proportion to its bytes. */
Test(interp_async, copies_cost_by_their_size)
{
        uint64_t sectors[2];

        for (int k = 0; k < 2; k++) {
                struct ds_interp_result f;
                uint32_t *out;
                struct rig r;
                void *in;

                f = launch(&r, k ? KERNEL(COPY_OUT("%out", "s", "1024")) : KERNEL(COPY_OUT("%out", "s", "32")), 1, &out,
                        &in);
                cr_assert(f.fault == DS_INTERP_OK);
                sectors[k] = r.cost.sectors;
                rig_close(&r);
        }
        cr_assert(sectors[0] == 1 && sectors[1] == 32);
}

/* An abort takes effect in the middle of a row of long copies, although the kernel does not jump. */
Test(interp_async, copies_can_be_aborted)
{
        static char body[512 * 128], text[sizeof(body) + 1024];
        _Atomic uint32_t abort = 1;
        struct ds_interp_result f;
        size_t n = 0;
        void *in, *out;
        struct rig r;

        for (int i = 0; i < 512; i++)
                n += (size_t)snprintf(body + n, sizeof(body) - n, COPY_OUT("%%out", "s", "1024"));
        (void)snprintf(text, sizeof(text), "%s%s%s", KERNEL_HEAD, body, KERNEL_END);
        rig_text(&r, text);
        in = rig_alloc(&r, 4096);
        out = rig_alloc(&r, 4096);
        r.abort = &abort;
        f = rig_launch(&r, "k", RIG_DIM1(1), RIG_DIM1(32), 0, RIG_ARGS(&out, &in));
        cr_assert(f.fault == DS_INTERP_FAULT_ABORTED, "fault %d at line %u: %s", f.fault, f.line, f.message);
        rig_close(&r);
}
