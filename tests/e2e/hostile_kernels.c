/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Malicious kernels on a simulated device
 *
 * Each case is one module and one launch in its own process and session: traps, wild and misaligned accesses in every
 * state space, endless loops, recursions and barriers, calls and jumps to invalid addresses, printf formats with wild
 * pointers, atomics on the neighbour's memory, misuse of barriers in memory and of clusters, numbers at their limits.
 * Each ends as the table says: with an error of its own session, refused at load or launch, or successfully. After each
 * one a neighbour's session launches a kernel and compares every byte of the result and of a buffer whose address the
 * hostile kernels know. The worker stays the same process.
 *
 * usage: hostile_kernels BUILD
 */
#include "tests/e2e/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"
#include "detshare/detshare.h"
#include "tests/e2e/neighbour.h"

#define HEAD ".version 8.3\n.target sm_90\n.address_size 64\n"
#define OWN_BYTES 65536u
#define ENDLESS_MS 50 /* time that an endless kernel runs before its process is killed, ms */

enum end {
        RUNS,    /* the launch succeeds */
        FAULTS,  /* the launch ends with an error of the session */
        REFUSED, /* loading the module fails */
        ENDLESS, /* the launch does not end; the process is killed */
};

struct hostile {
        const char *name;
        enum end end;
        const char *before; /* functions and variables before the kernel */
        const char *body;   /* %d0: 64 KiB of own memory; %d1: an address of the neighbour's memory */
        uint32_t grid, block, shared, cluster;
};

#define PRINTF ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
#define MALLOC ".extern .func (.param .b64 r) malloc(.param .b64 n);\n.extern .func free(.param .b64 p);\n"
#define CALL_MALLOC(n)                                                                                            \
        "{ .param .b64 pn; .param .b64 pr; st.param.b64 [pn], " n "; call (pr), malloc, (pn); ld.param.b64 %d9, " \
        "[pr]; }\n"
#define FREE(address) "{ .param .b64 pa; st.param.b64 [pa], " address "; call free, (pa); }\n"
#define CALL_PRINTF                                                                                       \
        "{ .param .b64 pf; .param .b64 pa; .param .b32 pr; mov.u64 %d3, text; cvta.global.u64 %d3, %d3; " \
        "st.param.b64 [pf], %d3; st.param.b64 [pa], %d4; call (pr), vprintf, (pf, pa); }\n"
#define ARGUMENTS "mov.u64 %d5, a; cvta.local.u64 %d4, %d5;\n"
#define LOCAL_A ".local .align 8 .b8 a[64];\n"

static const struct hostile cases[] = {
        /* --- ends of a thread ------------- */
        {.name = "trap", FAULTS, "", "trap;"},
        {.name = "brkpt", FAULTS, "", "brkpt;"},
        {.name = "trap by one thread of many",
                FAULTS,
                "",
                "mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 77; @%p0 trap; bar.sync 0;",
                8,
                256},
        {.name = "exit before a barrier",
                RUNS,
                "",
                "mov.u32 %r0, %tid.x; setp.gt.u32 %p0, %r0, 31; @%p0 exit; bar.sync 0;",
                1,
                256},
        /* wild accesses, by state space */
        {.name = "load of address 0", FAULTS, "", "mov.u64 %d2, 0; ld.global.u32 %r0, [%d2];"},
        {.name = "store to address 0", FAULTS, "", "mov.u64 %d2, 0; st.global.u32 [%d2], 1;"},
        {.name = "store to the last address", FAULTS, "", "mov.u64 %d2, -4; st.global.u32 [%d2], 1;"},
        {.name = "vector that wraps around",
                FAULTS,
                "",
                "mov.u64 %d2, -16; ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%d2];"},
        {.name = "store to a kernel address", FAULTS, "", "mov.u64 %d2, 0xffffffff81000000; st.global.u64 [%d2], %d2;"},
        {.name = "load of the neighbour's memory", FAULTS, "", "ld.global.u32 %r0, [%d1];"},
        {.name = "store to the neighbour's memory", FAULTS, "", "st.global.u32 [%d1], 7;"},
        {.name = "generic store to the neighbour's memory", FAULTS, "", "st.u32 [%d1], 7;"},
        {.name = "store past its own memory", FAULTS, "", "st.global.u32 [%d0+0x10000000], 7;"},
        {.name = "store with the largest offset", FAULTS, "", "st.global.u32 [%d0+2147483644], 7;"},
        {.name = "store with the least offset", FAULTS, "", "st.global.u32 [%d0-2147483648], 7;"},
        {.name = "misaligned load", FAULTS, "", "ld.global.u32 %r0, [%d0+1];"},
        {.name = "misaligned vector", FAULTS, "", "ld.global.v4.u32 {%r0,%r1,%r2,%r3}, [%d0+4];"},
        {.name = "misaligned shared store", FAULTS, ".shared .align 16 .b8 s[64];\n", "st.shared.u64 [s+4], %d0;"},
        {.name = "shared store past the end",
                FAULTS,
                ".shared .align 16 .b8 s[64];\n",
                "mov.u32 %r0, s; add.u32 %r0, %r0, 0x7ffffff0; st.shared.u32 [%r0], 1;"},
        {.name = "shared load below the beginning",
                FAULTS,
                ".shared .align 16 .b8 s[64];\n",
                "mov.u32 %r0, s; sub.u32 %r0, %r0, 64; ld.shared.u32 %r0, [%r0];"},
        {.name = "generic shared window's last byte", FAULTS, "", "mov.u64 %d2, 0x1fffffffffffffc; st.u32 [%d2], 1;"},
        {.name = "generic local window's last byte", FAULTS, "", "mov.u64 %d2, 0x2fffffffffffffc; st.u32 [%d2], 1;"},
        {.name = "shared memory of a generic global address",
                FAULTS,
                "",
                "cvt.u32.u64 %r0, %d0; st.shared.u32 [%r0], 1;"},
        {.name = "local store past the end",
                FAULTS,
                "",
                "{ " LOCAL_A "mov.u64 %d2, a; st.local.u32 [%d2+1048576], 1; }"},
        {.name = "local store below the beginning",
                FAULTS,
                "",
                "{ " LOCAL_A "mov.u64 %d2, a; st.local.u32 [%d2-4096], 1; }"},
        {.name = "constant load past the end",
                FAULTS,
                ".const .align 4 .u32 c[4] = {1,2,3,4};\n",
                "mov.u64 %d2, c; ld.const.u32 %r0, [%d2+65536];"},
        {.name = "parameter load by a wild address", FAULTS, "", "ld.param.u32 %r0, [p+4096];"},
        {.name = "store to a constant",
                FAULTS,
                ".const .align 4 .u32 c[4] = {1,2,3,4};\n",
                "mov.u64 %d2, c; cvta.const.u64 %d2, %d2; st.u32 [%d2+1048576], 1;"},
        {.name = "variable past its end",
                FAULTS,
                ".global .u32 v[4];\n",
                "mov.u64 %d2, v; st.global.u32 [%d2+268435456], 1;"},
        {.name = "prefetch of nowhere", RUNS, "", "mov.u64 %d2, -64; prefetch.global.L2 [%d2];"},
        /* atomics */
        {.name = "atomic on the neighbour's memory", FAULTS, "", "atom.global.add.u32 %r0, [%d1], 1;"},
        {.name = "reduction on address 8", FAULTS, "", "mov.u64 %d2, 8; red.global.add.u32 [%d2], 1;"},
        {.name = "compare and swap on a kernel address",
                FAULTS,
                "",
                "mov.u64 %d2, 0xffff888000000000; atom.global.cas.b64 %d3, [%d2], 0, 1;"},
        {.name = "misaligned atomic", FAULTS, "", "atom.global.add.u64 %d3, [%d0+4], 1;"},
        {.name = "atomic on shared memory past the end",
                FAULTS,
                ".shared .u32 s;\n",
                "mov.u32 %r0, s; atom.shared.add.u32 %r1, [%r0+1048576], 1;"},
        {.name = "lock that is never free",
                ENDLESS,
                "",
                "L: atom.global.cas.b32 %r0, [%d0], 1, 2; setp.ne.u32 %p0, %r0, 1; @%p0 bra L;"},
        /* loops and recursions */
        {.name = "endless loop", ENDLESS, "", "L: bra L;"},
        {.name = "endless loop of every block", ENDLESS, "", "L: st.global.u32 [%d0], 1; bra L;", 4096, 1024},
        {.name = "endless loop of some lanes",
                ENDLESS,
                "",
                "mov.u32 %r0, %laneid; and.b32 %r0, %r0, 1; setp.eq.u32 %p0, %r0, 0; L: @%p0 bra L;",
                4,
                64},
        {.name = "endless wait for the clock",
                ENDLESS,
                "",
                "L: mov.u64 %d2, %globaltimer; setp.ne.u64 %p0, %d2, 0; @%p0 bra L;"},
        {.name = "recursion without an end", FAULTS, ".func f();\n.func f()\n{\ncall f;\nret;\n}\n", "call f;"},
        {.name = "recursion by two, with stack",
                FAULTS,
                ".func g();\n.func f()\n{\n.local .b8 a[4096];\ncall g;\nret;\n}\n"
                ".func g()\n{\n.local .b8 a[4096];\ncall f;\nret;\n}\n",
                "call f;",
                64,
                1024},
        {.name = "stack without an end", FAULTS, "", ".reg .u64 %s; alloca.u64 %s, 0x7fffffffffff;"},
        /* local memory, shared memory and grids beyond every limit */
        {.name = "a local array of 2 GiB", REFUSED, "", "{ .local .b8 a[2147483648]; mov.u64 %d2, a; }"},
        {.name = "shared memory of 2 GiB", REFUSED, ".shared .b8 s[2147483648];\n", "mov.u32 %r0, s;"},
        {.name = "dynamic shared memory of 4 GiB", FAULTS, "", "", 1, 1, UINT32_MAX},
        {.name = "a block of 4,294,967,295 threads", FAULTS, "", "", 1, UINT32_MAX},
        {.name = "a block of 1,025 threads", FAULTS, "", "", 1, 1025},
        {.name = "a grid of 4,294,967,295 blocks", FAULTS, "", "", UINT32_MAX, 1},
        {.name = "a grid of 2,147,483,647 blocks", ENDLESS, "", "", INT32_MAX, 1024},
        {.name = "variables of 1 TiB", REFUSED, ".global .b8 v[1099511627776];\n", ""},
        {.name = "variables of 2^64 bytes together",
                REFUSED,
                ".global .b8 v[9223372036854775807];\n.global .b8 w[9223372036854775807];\n",
                ""},
        /* barriers */
        {.name = "barrier that some warps skip",
                FAULTS,
                "",
                "mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 32; @%p0 bar.sync 1, 1024;",
                1,
                64},
        {.name = "barriers of two numbers that cross",
                FAULTS,
                "",
                "mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 32; @%p0 bra A; bar.sync 1, 64; bar.sync 2, 64; bra E;\n"
                "A: bar.sync 2, 64; bar.sync 1, 64; E:",
                1,
                64},
        {.name = "barrier with an invalid number", FAULTS, "", "mov.u32 %r0, 1000; bar.sync %r0;", 1, 64},
        {.name = "barrier of 33 threads", FAULTS, "", "mov.u32 %r0, 33; bar.sync 1, %r0;", 1, 64},
        {.name = "barrier of more threads than the block has", FAULTS, "", "bar.sync 0, 1024;", 1, 32},
        /* calls and jumps to invalid addresses */
        {.name = "call of address 0", FAULTS, "", "mov.u64 %d2, 0; P: .callprototype _ (); call %d2, (), P;"},
        {.name = "call of a wild address",
                FAULTS,
                "",
                "mov.u64 %d2, 0x4141414141414141; P: .callprototype _ (); call %d2, (), P;"},
        {.name = "call of its own data", FAULTS, "", "P: .callprototype _ (); call %d0, (), P;"},
        {.name = "call of a function with other parameters",
                FAULTS,
                ".visible .func f(.param .b64 a, .param .b64 b)\n{\nret;\n}\n",
                "mov.u64 %d2, f; add.u64 %d2, %d2, 1; P: .callprototype _ (); call %d2, (), P;"},
        {.name = "jump beyond the table", FAULTS, "", "mov.u32 %r0, -1; T: .branchtargets A, B; brx.idx %r0, T; A: B:"},
        {.name = "jump to a table's end", FAULTS, "", "mov.u32 %r0, 2; T: .branchtargets A, B; brx.idx %r0, T; A: B:"},
        {.name = "call of a function that is not there", REFUSED, ".extern .func absent();\n", "call absent;"},
        /* heap */
        {.name = "malloc of 2^64 - 1 bytes", RUNS, MALLOC, CALL_MALLOC("-1")},
        {.name = "malloc without an end, by many",
                RUNS,
                MALLOC,
                "mov.u32 %r0, 0; L: " CALL_MALLOC("1048576") "add.u32 %r0, %r0, 1; setp.lt.u32 %p0, %r0, 200; @%p0 bra "
                                                             "L;",
                4,
                64},
        {.name = "free of a wild address", FAULTS, MALLOC, "mov.u64 %d2, 0x41414141; " FREE("%d2")},
        {.name = "free of its own buffer", FAULTS, MALLOC, FREE("%d0")},
        {.name = "free twice", FAULTS, MALLOC, CALL_MALLOC("64") FREE("%d9") FREE("%d9")},
        {.name = "free in the middle", FAULTS, MALLOC, CALL_MALLOC("64") "add.u64 %d9, %d9, 16; " FREE("%d9")},
        /* printf */
        {.name = "printf of a wild string",
                FAULTS,
                PRINTF ".global .b8 text[] = {37, 115, 0};\n",
                LOCAL_A ARGUMENTS "mov.u64 %d2, 0x4141414141414141; st.local.u64 [a], %d2; " CALL_PRINTF},
        {.name = "printf with a wild format",
                FAULTS,
                PRINTF ".global .b8 text[] = {0};\n",
                LOCAL_A "{ .param .b64 pf; .param .b64 pa; .param .b32 pr; mov.u64 %d3, 16; st.param.b64 [pf], %d3; "
                        "st.param.b64 [pa], %d0; call (pr), vprintf, (pf, pa); }"},
        {.name = "printf of the neighbour's memory",
                FAULTS,
                PRINTF ".global .b8 text[] = {37, 115, 0};\n",
                LOCAL_A ARGUMENTS "st.local.u64 [a], %d1; " CALL_PRINTF},
        {.name = "printf with %n",
                RUNS,
                PRINTF ".global .b8 text[] = {37, 110, 37, 110, 0};\n",
                LOCAL_A ARGUMENTS "st.local.u64 [a], %d1; st.local.u64 [a+8], %d1; " CALL_PRINTF},
        {.name = "printf with a width of 2^31 - 1",
                RUNS,
                PRINTF ".global .b8 text[] = {37, 50, 49, 52, 55, 52, 56, 51, 54, 52, 55, 100, 0};\n",
                LOCAL_A ARGUMENTS "st.local.u64 [a], %d1; " CALL_PRINTF},
        {.name = "printf with a precision of 2^31 - 1",
                RUNS,
                PRINTF ".global .b8 text[] = {37, 46, 50, 49, 52, 55, 52, 56, 51, 54, 52, 55, 102, 0};\n",
                LOCAL_A ARGUMENTS "st.local.u64 [a], %d1; " CALL_PRINTF},
        {.name = "printf with a star of -2^31",
                RUNS,
                PRINTF ".global .b8 text[] = {37, 42, 46, 42, 100, 0};\n",
                LOCAL_A ARGUMENTS
                "mov.u32 %r0, 0x80000000; st.local.u32 [a], %r0; st.local.u32 [a+4], %r0; " CALL_PRINTF},
        {.name = "printf with half a format",
                RUNS,
                PRINTF ".global .b8 text[] = {37, 108, 108, 35, 48, 0};\n",
                LOCAL_A ARGUMENTS CALL_PRINTF},
        {.name = "printf with the neighbour's format",
                FAULTS,
                PRINTF ".global .b8 text[] = {0};\n",
                "{ .param .b64 pf; .param .b64 pa; .param .b32 pr; st.param.b64 [pf], %d1; st.param.b64 [pa], %d0; "
                "call (pr), vprintf, (pf, pa); }"},
        {.name = "printf flood",
                RUNS,
                PRINTF ".global .b8 text[] = {27, 91, 50, 74, 155, 10, 37, 100, 10, 0};\n",
                LOCAL_A ARGUMENTS "st.local.u64 [a], %d1; mov.u32 %r1, 0; L: " CALL_PRINTF
                                  "add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, 20; @%p0 bra L;",
                16,
                128},
        /* numbers at their limits */
        {.name = "division by zero",
                RUNS,
                "",
                "mov.u32 %r0, 0; div.u32 %r1, 5, %r0; rem.s32 %r2, 5, %r0; div.s64 %d2, %d0, 0;"},
        {.name = "least number by -1",
                RUNS,
                "",
                "mov.s32 %r0, 0x80000000; mov.s32 %r1, -1; div.s32 %r2, %r0, %r1; rem.s32 %r3, %r0, %r1; mov.s64 %d2, "
                "0x8000000000000000; mov.s64 %d3, -1; div.s64 %d4, %d2, %d3; rem.s64 %d5, %d2, %d3; abs.s32 %r4, %r0; "
                "neg.s64 %d6, %d2;"},
        {.name = "shifts and fields beyond the width",
                RUNS,
                "",
                "mov.u32 %r0, -1; shl.b32 %r1, %r0, %r0; shr.s64 %d2, %d0, %r0; bfe.u32 %r2, %r0, %r0, %r0; bfi.b32 "
                "%r3, %r0, %r0, %r0, %r0; bfe.s64 %d3, %d0, %r0, %r0; shf.l.wrap.b32 %r4, %r0, %r0, %r0; prmt.b32 "
                "%r5, %r0, %r0, %r0;"},
        {.name = "conversions of NaN and infinity",
                RUNS,
                "",
                "mov.f32 %f0, 0f7fffffff; cvt.rzi.s32.f32 %r0, %f0; mov.f32 %f1, 0fff800000; cvt.rzi.u64.f32 %d2, %f1; "
                "sin.approx.f32 %f2, %f1; ex2.approx.f32 %f3, %f0; sqrt.rn.f32 %f4, %f1; rcp.rn.f32 %f5, %f0;"},
        /* warps */
        {.name = "shuffle with an empty mask", RUNS, "", "shfl.sync.idx.b32 %r0, %r1, 0, 31, 0;", 1, 32},
        {.name = "vote with a mask of others only",
                RUNS,
                "",
                "mov.u32 %r0, %laneid; setp.eq.u32 %p0, %r0, 0; @!%p0 bra E; vote.sync.ballot.b32 %r1, %p0, "
                "0xfffffffe; E:",
                1,
                32},
        {.name = "warp barrier that some lanes skip",
                RUNS,
                "",
                "mov.u32 %r0, %laneid; setp.lt.u32 %p0, %r0, 16; @%p0 bra A; bar.warp.sync 0xffffffff; bra E; A: "
                "bar.warp.sync 0x0000ffff; bar.warp.sync 0xffffffff; bar.warp.sync 0xffffffff; E:",
                1,
                32},
        {.name = "shuffle from lanes that do not exist",
                RUNS,
                "",
                "shfl.sync.idx.b32 %r0, %r1, 0xffffffff, 0xffffffff, 0xffffffff; shfl.sync.down.b32 %r0, %r1, -1, -1, "
                "-1;",
                1,
                32},
        /* copies and barriers in memory */
        {.name = "cp.async from a wild address",
                FAULTS,
                ".shared .align 16 .b8 s[64];\n",
                "mov.u32 %r0, s; cp.async.cg.shared.global [%r0], [%d1], 16; cp.async.wait_all;"},
        {.name = "cp.async past shared memory",
                FAULTS,
                ".shared .align 16 .b8 s[64];\n",
                "mov.u32 %r0, s; cp.async.cg.shared.global [%r0+1048576], [%d0], 16; cp.async.wait_all;"},
        {.name = "bulk copy of 2^32 - 16 bytes",
                FAULTS,
                ".shared .align 16 .b8 s[64];\n.shared .align 8 .b64 m;\n",
                "mov.u32 %r0, s; mov.u32 %r1, m; mbarrier.init.shared.b64 [%r1], 1; mov.u32 %r2, -16; "
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%d0], %r2, [%r1];"},
        {.name = "bulk copy of a size that is no multiple",
                FAULTS,
                ".shared .align 16 .b8 s[64];\n.shared .align 8 .b64 m;\n",
                "mov.u32 %r0, s; mov.u32 %r1, m; mbarrier.init.shared.b64 [%r1], 1; mov.u32 %r2, 7; "
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%d0], %r2, [%r1];"},
        {.name = "bulk copy to the neighbour's memory",
                FAULTS,
                ".shared .align 16 .b8 s[64];\n",
                "mov.u32 %r0, s; cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r0], 64; "
                "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"},
        {.name = "mbarrier without initialisation",
                FAULTS,
                ".shared .align 8 .b64 m;\n",
                "mov.u32 %r1, m; st.shared.u64 [%r1], -1; mbarrier.arrive.shared.b64 %d2, [%r1]; L: "
                "mbarrier.test_wait.shared.b64 %p0, [%r1], %d2; @!%p0 bra L;"},
        {.name = "mbarrier of no threads",
                FAULTS,
                ".shared .align 8 .b64 m;\n",
                "mov.u32 %r1, m; mov.u32 %r2, 0; mbarrier.init.shared.b64 [%r1], %r2; mbarrier.arrive.shared.b64 %d2, "
                "[%r1];"},
        {.name = "mbarrier past shared memory",
                FAULTS,
                "",
                "mov.u32 %r1, 0x7ffffff8; mbarrier.init.shared.b64 [%r1], 1;"},
        /* clusters */
        {.name = "cluster barrier without a cluster", RUNS, "", "barrier.cluster.arrive; barrier.cluster.wait;", 1, 32},
        {.name = "cluster barrier that one block skips",
                FAULTS,
                "",
                "mov.u32 %r0, %ctaid.x; setp.eq.u32 %p0, %r0, 0; @%p0 trap; barrier.cluster.arrive; "
                "barrier.cluster.wait;",
                2,
                32,
                0,
                2},
        {.name = "shared memory of a block that does not exist",
                FAULTS,
                ".shared .align 16 .b8 s[64];\n",
                "mov.u32 %r0, s; mov.u32 %r1, 4096; mapa.shared::cluster.u32 %r2, %r0, %r1; st.shared::cluster.u32 "
                "[%r2], 1;",
                2,
                32,
                0,
                2},
        {.name = "a cluster of 65,535 blocks", FAULTS, "", "", 65535, 1, 0, 65535},
        {.name = "a cluster that does not divide the grid", FAULTS, "", "", 3, 1, 0, 2},
};

static int launch(dsc_session *s, const char *ptx, const struct hostile *c, const uint64_t addresses[2])
{
        char log[2000] = "";
        struct dsc_kernel kernel = {.id = 0};
        struct dsc_launch l = {.params = addresses, .params_size = 2 * sizeof(addresses[0])};
        uint64_t module;

        if (dsc_module_load(s, ptx, strlen(ptx) + 1, log, sizeof(log), &module) ||
                dsc_kernel_get(s, module, "k", &kernel)) {
                printf("%s: %s\n", c->name, log);
                return -1;
        }
        l.kernel = kernel.id;
        for (int i = 0; i < 3; i++) {
                l.grid[i] = i || !c->grid ? 1 : c->grid;
                l.block[i] = i || !c->block ? 1 : c->block;
                l.cluster[i] = c->cluster ? (i ? 1 : c->cluster) : 0;
        }
        l.shared_bytes = c->shared;
        return dsc_launch(s, 0, &l);
}

/* --- the attacker ------------------------------------------------------------------------------------------------- */

/* Runs one case. The exit status says how it ended; 100: it got no session. */
static int attack(const struct hostile *c, uint64_t neighbour_address)
{
        char ptx[8192];
        uint64_t addresses[2] = {0, neighbour_address};
        int error, r;
        dsc_session *s = dsc_get(&error);

        snprintf(ptx, sizeof(ptx),
                HEAD "%s.visible .entry k(.param .u64 p, .param .u64 q)\n{\n.reg .pred %%p<8>;\n.reg .b32 %%r<32>;\n"
                     ".reg .b64 %%d<32>;\n.reg .f32 %%f<8>;\nld.param.u64 %%d0, [p];\nld.param.u64 %%d1, [q];\n%s\n"
                     "ret;\n}\n",
                c->before, c->body);
        if (!s || dsc_mem_alloc(s, OWN_BYTES, &addresses[0]))
                return 100;
        r = launch(s, ptx, c, addresses);
        if (r)
                return REFUSED;
        if (c->end == ENDLESS) {
                h_sleep_ms(ENDLESS_MS);
                return dsc_query(s, 0, dsc_stream_tail(s, 0)) == 600 ? ENDLESS : RUNS;
        }
        r = dsc_wait_all(s);
        printf("%s: %d\n", c->name, r);
        return r ? FAULTS : RUNS;
}

static void run(const struct hostile *c, const struct h_child *beside, uint64_t neighbour_address)
{
        static const char *const words[] = {"ran", "faulted", "was refused", "did not end"};
        uint64_t end = h_now_ms() + 60000;
        int status = -1;
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                int quiet = !getenv("HOSTILE_VERBOSE") && !(freopen("/dev/null", "w", stdout) && dup2(1, 2) == 2);
                int r = quiet ? 100 : attack(c, neighbour_address);

                fflush(stdout);
                _exit(r);
        }
        while (waitpid(pid, &status, WNOHANG) == 0 && h_now_ms() < end)
                h_sleep_ms(1);
        kill(pid, SIGKILL);
        h_check(WIFEXITED(status) && WEXITSTATUS(status) == (int)c->end, "%s: %s, status %#x", c->name,
                WIFEXITED(status) && WEXITSTATUS(status) <= ENDLESS ? words[WEXITSTATUS(status)] : "did not end",
                status);
        h_check(neighbour_is_right(beside, (char)(c - cases)), "%s: the neighbour's bytes are wrong", c->name);
}

int main(int argc, char **argv)
{
        struct h_status before, after = {0};
        struct h_child beside;
        uint64_t address = 0;

        if (argc < 2)
                return 2;
        h_daemon_start(argv[1], "sim:h200", NULL);
        before = h_quiet();
        if (h_needs_sim("sim:h200", "a GPU does not isolate kernels from each other's memory")) {
                beside = neighbour_start(&address);
                for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                        if (argc < 3 || strstr(cases[i].name, argv[2]))
                                run(&cases[i], &beside, address);
                neighbour_end(&beside);
        }
        h_check(h_status(&after) == 0 && after.worker_restarts == 0 && after.worker_pid == before.worker_pid,
                "the worker was restarted %u times", after.worker_restarts);
        h_baseline(&before, 20000, "after hostile kernels");
        return h_finish();
}
