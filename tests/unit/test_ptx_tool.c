/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-ptx as a user runs it: arguments, output and exit codes
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct result {
        int code;
        char text[65536];
};

/* Runs detshare-ptx with these arguments. Returns standard output and error together, and the exit code */
static struct result *run(const char *arguments)
{
        static struct result result;
        char command[2048];
        FILE *pipe;
        int status;

        snprintf(command, sizeof(command), PTX_TOOL " %s 2>&1", arguments);
        pipe = popen(command, "r");
        cr_assert(pipe);
        result.text[fread(result.text, 1, sizeof(result.text) - 1, pipe)] = '\0';
        status = pclose(pipe);
        cr_assert(WIFEXITED(status), "%s died", command);
        result.code = WEXITSTATUS(status);
        return &result;
}

static void expect(const char *arguments, int code, const char *text)
{
        struct result *result = run(arguments);

        cr_expect_eq(result->code, code, "%s: exit code %d\n%s", arguments, result->code, result->text);
        cr_expect(strstr(result->text, text), "%s: '%s' is not in\n%s", arguments, text, result->text);
}

#define SAXPY TEST_PTX_DIR "/sm_75/saxpy.ptx"
#define GEMM TEST_PTX_DIR "/sm_90/gemm.ptx"

Test(ptx_tool, usage)
{
        expect("--help", 0, "usage: detshare-ptx check [--sim] FILE");
        expect("--version", 0, "detshare-ptx ");
        expect("", 2, "a command is missing");
        expect("run --help", 0, "usage: detshare-ptx check [--sim] FILE");
        expect("pass -h", 0, "Options of run:");
        expect("frob", 2, "unknown command 'frob'");
        expect("check", 2, "check takes files");
        expect("print a b", 2, "print takes one file");
        expect("run", 2, "run takes a file");
        expect("run " SAXPY, 2, "the file has several kernels: name one");
        expect("run " SAXPY " s32:1 f32:1 'f32[1]' 'f32[1]'", 2, "the file has several kernels: name one");
        expect("run --grid 0 " SAXPY " saxpy", 2, "--grid takes X[,Y[,Z]]");
        expect("run --block 1,2,3,4 " SAXPY " saxpy", 2, "--block takes X[,Y[,Z]]");
        expect("run --block 2048 " SAXPY " saxpy", 2, "at most 1024 threads");
        expect("run --shared 1000000 " SAXPY " saxpy", 2, "--shared takes");
        expect("run --frob " SAXPY " saxpy", 2, "unknown option");
        expect("run --seed x " SAXPY " saxpy", 2, "--seed takes a number");
        expect("run --jobs 0 " SAXPY " saxpy", 2, "--jobs takes a number");
        expect("check --frob " SAXPY, 2, "unknown option: check has only --sim");
        expect("print --frob " SAXPY, 2, "unknown option: print has only --strip-debug");
        expect("stats --sm 76 " SAXPY, 2, "--sm takes a known compute capability");
        expect("stats --block 1025 " SAXPY, 2, "--block takes 1 to 1024 threads");
        expect("pass rename", 2, "pass takes names of passes and a file");
        expect("pass rename,frob " SAXPY, 2, "there is no such pass");
        expect("forms", 2, "forms takes one file");
        expect("forms --frob " SAXPY, 2, "forms takes one file");
        expect("--color=sometimes check " SAXPY, 2, "--color takes auto");
}

Test(ptx_tool, check_reports_errors)
{
        cr_expect_str_eq(run("check " SAXPY)->text, "");
        expect("check " TEST_GOLDEN_DIR "/err_calls.ptx", 1, "err_calls.ptx:16:7: error: the call has 0 results");
        expect("check /does/not/exist", 1, "No such file or directory");
        expect("check /", 1, "Is a directory");
        expect("check - < " SAXPY, 0, "");
        expect("check - < /dev/null", 1, "-:1:1: error: the text has no .version");
        expect("check - < /bin/true", 1, "this character is not allowed in PTX");
        expect("check " SAXPY " " TEST_GOLDEN_DIR "/err_calls.ptx " GEMM, 1, "3 files: 2 right, 1 wrong\n");
        expect("check --sim " SAXPY " " TEST_PTX_DIR "/sm_75/rt_texture.ptx", 3,
                "2 files: 1 right, 0 wrong, 1 not executed by the simulated device\n");
        expect("check --sim " TEST_PTX_DIR "/sm_75/rt_texture.ptx", 3, "error: tex.1d.v4.f32.s32");
}

Test(ptx_tool, forms)
{
        expect("forms " SAXPY, 0, ".entry saxpy__ds_persistent(");
        expect("forms " SAXPY " | " PTX_TOOL " check --sim -", 0, "");
        expect("forms " TEST_PTX_DIR "/sm_90/cluster.ptx 2>&1 | grep sliced", 0,
                "has no sliced form: uses clusters of blocks");
        expect("forms /does/not/exist", 1, "No such file or directory");
        expect("stats " SAXPY, 0, "  form sliced: yes\n  form persistent: yes\n");
        expect("stats " TEST_PTX_DIR "/sm_90/cluster.ptx", 0, "  form persistent: no, uses clusters of blocks (line ");
        expect("stats --json " TEST_PTX_DIR "/sm_90/cluster.ptx | python3 -m json.tool", 0,
                "\"reason\": \"uses clusters of blocks\"");
}

Test(ptx_tool, colors)
{
        cr_expect(!strstr(run("check " TEST_GOLDEN_DIR "/err_calls.ptx")->text, "\033"));
        cr_expect(!strstr(run("--color=never check " TEST_GOLDEN_DIR "/err_calls.ptx")->text, "\033"));
        expect("check --color=always " TEST_GOLDEN_DIR "/err_calls.ptx", 1,
                "\033[1;31merror:\033[0m the call has 0 results");
        expect("check " TEST_GOLDEN_DIR "/err_calls.ptx --color=always", 1, "\033[1;32m^\033[0m");
        /* the output has colours on a terminal, unless the user disables them */
        cr_expect(strstr(run("--version; TERM=xterm script -qec '" PTX_TOOL " check " TEST_GOLDEN_DIR
                             "/err_calls.ptx' /dev/null")
                                 ->text,
                "\033[1;31merror"));
        cr_expect(!strstr(run("--version; TERM=xterm NO_COLOR=1 script -qec '" PTX_TOOL " check " TEST_GOLDEN_DIR
                              "/err_calls.ptx' /dev/null")
                                  ->text,
                "\033["));
}

Test(ptx_tool, print_can_be_checked_again)
{
        expect("print " GEMM " | " PTX_TOOL " check -", 0, "");
        expect("print " GEMM, 0, ".visible .entry ");
        expect("print " GEMM " 2>&1 > /dev/full", 1, "");
}

Test(ptx_tool, stats_count)
{
        expect("stats " SAXPY, 0, "entry saxpy\n  parameters 4 (24 bytes), registers ");
        expect("stats " TEST_PTX_DIR "/sm_75/rt_texture.ptx", 0, "not executed by the interpreter: ");
        expect("stats " TEST_PTX_DIR "/sm_75/reduce.ptx", 0, "): changes memory shared by blocks with atomics\n");
        expect("stats " GEMM, 0, "live registers ");
        expect("stats --sm 75 --block 1024 " SAXPY, 0, ", 1 blocks of 1024 threads on an SM\n");
        expect("stats --sm 90 --block 1024 " SAXPY, 0, ", 2 blocks of 1024 threads on an SM\n");
        expect("stats --json " SAXPY
               " | python3 -c 'import json, sys; m = json.load(sys.stdin); f = m[\"functions\"][0];"
               " print(m[\"target\"], f[\"name\"], f[\"parameters\"], sum(f[\"classes\"].values()) == "
               "f[\"instructions\"])'",
                0, "sm_75 saxpy 4 True\n");
}

Test(ptx_tool, print_without_debug)
{
        cr_expect(strstr(run("print " TEST_GOLDEN_DIR "/debug.ptx")->text, "\t.loc 1"));
        cr_expect(!strstr(run("print --strip-debug " TEST_GOLDEN_DIR "/debug.ptx")->text, "\t.loc 1"));
        expect("print --strip-debug " TEST_GOLDEN_DIR "/debug.ptx | " PTX_TOOL " check -", 0, "");
}

Test(ptx_tool, passes)
{
        expect("pass --list", 0, "\ndce ");
        expect("pass dce,rename -v " SAXPY, 0, "rename: saxpy done\n");
        expect("pass rename --only saxpy -v " SAXPY, 0, "rename: saxpy done\n");
        cr_expect(!strstr(run("pass rename --only saxpy -v " SAXPY)->text, "rename: saxpy_stride"));
        expect("pass rename " TEST_GOLDEN_DIR "/debug.ptx", 0, "debug sections name its labels: strip-debug first");
        expect("pass --strict rename " TEST_GOLDEN_DIR "/debug.ptx", 3, "strip-debug first");
        /* line numbers in a message are those of the text that the pass received */
        expect("pass dce,rename " TEST_GOLDEN_DIR "/debug.ptx", 0, "/debug.ptx after dce:");
        cr_expect(!strstr(run("pass rename,dce " TEST_GOLDEN_DIR "/debug.ptx")->text, " after "));
        expect("pass --strict strip-debug,rename,count-blocks,block-order " TEST_GOLDEN_DIR "/debug.ptx | " PTX_TOOL
               " check -",
                0, "");
}

Test(ptx_tool, colours)
{
        expect("pass colour -v " SAXPY, 0, "colour: saxpy done\n");
        expect("pass --mask 8 --layout table:1024 --only saxpy colour " SAXPY " | " PTX_TOOL " check --sim -", 0, "");
        expect("pass --mask 8 --layout table:1024 --only saxpy colour " SAXPY, 0, "shr.u64 %ds_t, %rd7, 10;");
        expect("pass --strict --mask 1 --only saxpy colour " SAXPY, 3, "has no parameter 0 that is an address");
        expect("pass --mask g colour " SAXPY, 2, "--mask takes hexadecimal digits");
        expect("pass --mask 0 colour " SAXPY, 2, "--mask takes hexadecimal digits");
        expect("pass --layout regular:1000:2 colour " SAXPY, 2, "--layout takes");
        expect("pass --layout regular:1024 colour " SAXPY, 2, "--layout takes");
        expect("pass --layout table:1024:2 colour " SAXPY, 2, "--layout takes");
        expect("pass --layout regular:128:2 colour " SAXPY, 2, "--layout takes");
        expect("stats " SAXPY, 0, "  colour parameter 3: yes, 1 reading, 1 writing\n");
        expect("stats --json " SAXPY, 0, "\"colour\": {\"mask\": \"c\", \"parameters\": [{\"index\": 2, ");
        expect("stats " TEST_PTX_DIR "/sm_90/async_pipeline.ptx", 0, "which is not translated (line ");
}

Test(ptx_tool, run_executes)
{
        expect("run " SAXPY " saxpy -g 2 -b 4 s32:8 f32:2 'f32[8]=ramp' 'out:f32[8]=1'", 0,
                "arg 4: 1 3 5 7 9 11 13 15\n");
        expect("run " SAXPY " saxpy -g 1 -b 4 s32:3 f32:-0.5 'f32[4]=ramp' 'out:f32[4]'", 0, "arg 4: 0 -0.5 -1 0\n");
        expect("run " SAXPY " saxpy --cost -g 1 -b 32 s32:32 f32:1 'f32[32]=rand:7' 'f32[32]'", 0,
                "warp instructions ");
        expect("run --kernel saxpy " SAXPY " -b 2 s32:2 f32:2 'f32[2]=ramp' 'out:f32[2]=1'", 0, "arg 4: 1 3\n");
        expect("run " SAXPY " saxpy -b 4 s32:4 f32:2 'f32[4]=ramp' 'f32[4]=1>/tmp/detshare-ptx-test.bin' && " PTX_TOOL
               " run " SAXPY " saxpy -b 4 s32:4 f32:0 'f32[4]' 'out:f32[4]=@/tmp/detshare-ptx-test.bin';"
               " rm -f /tmp/detshare-ptx-test.bin",
                0, "arg 4: 1 3 5 7\n");
}

/* The report names the first faulting block of the launch, in whichever order blocks ran. */
Test(ptx_tool, run_in_other_orders)
{
        static const char *const orders[] = {"--seed 7", "--jobs 4", "--jobs 2 --seed 3"};
        char arguments[400];

        for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
                snprintf(arguments, sizeof(arguments),
                        "run %s " SAXPY " saxpy -g 100 -b 2 s32:200 f32:2 'f32[200]=ramp' 'out:f32[200]=1'", orders[i]);
                expect(arguments, 0, " 389 391 393 395 397 399\n");
        }
        for (int i = 0; i < 20; i++)
                expect("run --jobs 4 " SAXPY " saxpy -g 100 -b 2 s32:200 f32:2 'f32[60]=ramp' 'f32[200]=1'", 1,
                        "fault in block (30, 0, 0), thread (0, 0, 0)");
        cr_expect(
                !strstr(run("run --seed 5 " SAXPY " saxpy -g 100 -b 2 s32:200 f32:2 'f32[60]=ramp' 'f32[200]=1'")->text,
                        "block (30, 0, 0)"));
}

static unsigned evictions_in(const char *text)
{
        const char *at = strstr(text, " launches, ");

        return at ? (unsigned)strtoul(at + strlen(" launches, "), NULL, 10) : 0;
}

/* A kernel that is stopped and continued at random gives the native result. The report names kernels without a form
 * for that, and kernels with another result. */
Test(ptx_tool, run_evicts)
{
        static const char clocked[] = "/tmp/detshare-ptx-evict.ptx";
        char arguments[400];
        unsigned n = 0;
        FILE *file;

        for (int seed = 0; seed < 8; seed++) {
                snprintf(arguments, sizeof(arguments),
                        "run --evict %d " SAXPY " saxpy -g 100 -b 2 s32:200 f32:2 'f32[200]=ramp' 'out:f32[200]=1'",
                        seed);
                expect(arguments, 0, " 389 391 393 395 397 399\n");
                expect(arguments, 0, " as the native kernel\n");
                n += evictions_in(run(arguments)->text);
        }
        cr_expect(n > 8, "%u evictions", n);
        expect("run --evict x " SAXPY " saxpy", 2, "--evict takes a number");
        expect("run --evict 1 --jobs 2 " SAXPY " saxpy", 2, "--evict cannot be combined");
        expect("run --evict 1 " SAXPY " saxpy -g 100 -b 2 s32:200 f32:2 'f32[60]=ramp' 'f32[200]=1'", 1,
                "fault in block (30, 0, 0)");
        /* a kernel that stores the clock gives another result in each run */
        file = fopen(clocked, "we");
        cr_assert(file);
        fputs(".version 7.0\n.target sm_60\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .u64 %d<2>;\n"
              ".reg .u32 %r<2>;\nld.param.u64 %d1, [p];\nmov.u32 %r1, %clock;\nst.global.u32 [%d1], %r1;\nret;\n}\n"
              ".visible .entry arrives()\n{\nbar.arrive 1, 64;\nret;\n}\n",
                file);
        fclose(file);
        snprintf(arguments, sizeof(arguments), "run --evict 1 %s k -g 9 'out:u32[2]'", clocked);
        expect(arguments, 1, "arg 1 differs at element 0");
        snprintf(arguments, sizeof(arguments), "run --evict 1 %s arrives -b 32", clocked);
        expect(arguments, 3, "detshare-ptx-evict.ptx:15: arrives has no persistent form: ");
        remove(clocked);
}

/* Prints the instructions of one thread, one per line; this does not change the kernel's results. */
Test(ptx_tool, run_watches_a_thread)
{
        static const char *const launches[] = {
                "reduce.ptx reduce_shuffle -b 64 'f32[64]=ramp' 'out:f32[1]' s32:64",
                "reduce.ptx reduce_shared -b 64 -s 256 'f32[64]=ramp' 'out:f32[1]' s32:64",
                "votes.ptx votes_shuffle -b 32 'u32[64]=ramp' 'out:u32[1024]'",
                "votes.ptx votes_partial -b 64 'out:u32[256]'",
                "calls.ptx calls_recursive -b 7 'out:u32[64]' s32:7",
                "calls.ptx calls_divergent -b 40 'u32[64]=ramp' 'out:u32[64]' s32:40",
        };
        static char plain[65536];
        char arguments[600];

        expect("run " SAXPY " saxpy -g 2 -b 4 s32:8 f32:2 'f32[8]=ramp' 'f32[8]=1' --watch 1,2", 0, "  %f4 = 13\n");
        expect("run " SAXPY " saxpy -g 2 -b 4 s32:8 f32:2 'f32[8]=ramp' 'f32[8]=1' --watch 1,2", 0, "  skipped\n");
        expect("run " SAXPY " saxpy -g 2 -b 4 s32:8 f32:2 'f32[8]=ramp' 'f32[8]=1' --watch 0,3", 0, "%r5 = 3\n");
        expect("run " SAXPY " saxpy -b 4 --watch 1,2 s32:8 f32:2 'f32[8]' 'f32[8]'", 2,
                "a thread that the launch does");
        expect("run " SAXPY " saxpy -b 4 --watch 1 s32:8 f32:2 'f32[8]' 'f32[8]'", 2, "--watch takes BLOCK,THREAD");
        for (size_t i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
                snprintf(arguments, sizeof(arguments), "run " TEST_PTX_DIR "/sm_75/%s 2>/dev/null | cat", launches[i]);
                expect(arguments, 0, "arg ");
                snprintf(plain, sizeof(plain), "%.65000s", run(arguments)->text);
                for (int thread = 0; thread < 7; thread += 3) {
                        snprintf(arguments, sizeof(arguments),
                                "run " TEST_PTX_DIR "/sm_75/%s --watch 0,%d 2>/dev/null | cat", launches[i], thread);
                        cr_expect_str_eq(run(arguments)->text, plain, "%s", launches[i]);
                }
        }
}

Test(ptx_tool, run_reports_errors)
{
        expect("run " SAXPY " nobody", 1, "has no kernel 'nobody'");
        expect("run " SAXPY " saxpy s32:3", 2, "the kernel takes 4 arguments, not 1");
        expect("run " SAXPY " saxpy s32:3 f32:1 f32:1 f32:1", 2, "the type does not have the parameter's size");
        expect("run " SAXPY " saxpy s32:3000000000 f32:1 'f32[1]' 'f32[1]'", 2, "the value does not fit the type");
        expect("run " SAXPY " saxpy 'f32[1]' f32:1 'f32[1]' 'f32[1]'", 2, "the parameter is not a pointer");
        expect("run " SAXPY " saxpy s32:1 f32:x 'f32[1]' 'f32[1]'", 2, "the value does not fit the type");
        expect("run " SAXPY " saxpy s32:1 f32:1 'f32[0]' 'f32[1]'", 2, "a buffer has at least 1 element");
        expect("run " SAXPY " saxpy s32:1 f32:1 'f32[1]=frob' 'f32[1]'", 2, "the initial value must be zero, ramp");
        expect("run " SAXPY " saxpy s32:1 f32:1 'f33[1]' 'f32[1]'", 2, "not a TYPE:VALUE");
        expect("run " SAXPY " saxpy -g 4 -b 8 s32:32 f32:1 'f32[8]' 'f32[32]'", 1, "fault in block (1, 0, 0)");
        expect("run " SAXPY " saxpy -g 4 -b 8 s32:32 f32:1 'f32[8]' 'f32[32]'", 1, "\tld.global.f32 \t");
        expect("run " SAXPY " saxpy s32:1 f32:1 'f32[1]=@/does/not/exist' 'f32[1]'", 2, "the file cannot be read");
        expect("run " SAXPY " saxpy s32:1 f32:1 'f32[1]=@" SAXPY "' 'f32[1]'", 2, "longer than the buffer");
        expect("run " TEST_PTX_DIR "/sm_75/rt_texture.ptx rt_tex", 3, "error: tex.1d.v4.f32.s32");
}
