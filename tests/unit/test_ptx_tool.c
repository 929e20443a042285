/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-ptx as a person uses it: words in, text and exit codes out
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

/* Standard output and error together, and the exit code */
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
        expect("--help", 0, "usage: detshare-ptx check FILE");
        expect("--version", 0, "detshare-ptx ");
        expect("", 2, "a command is missing");
        expect("frob", 2, "unknown command");
        expect("check", 2, "check takes one file");
        expect("print a b", 2, "print takes one file");
        expect("run " SAXPY, 2, "run takes a file and a kernel's name");
        expect("run --grid 0 " SAXPY " saxpy", 2, "--grid takes X[,Y[,Z]]");
        expect("run --block 1,2,3,4 " SAXPY " saxpy", 2, "--block takes X[,Y[,Z]]");
        expect("run --block 2048 " SAXPY " saxpy", 2, "at most 1024 threads");
        expect("run --shared 1000000 " SAXPY " saxpy", 2, "--shared takes");
        expect("run --frob " SAXPY " saxpy", 2, "unknown option");
}

Test(ptx_tool, check_says_what_is_wrong)
{
        cr_expect_str_eq(run("check " SAXPY)->text, "");
        expect("check " TEST_GOLDEN_DIR "/err_calls.ptx", 1, "err_calls.ptx:16:7: error: the call has 0 results");
        expect("check /does/not/exist", 1, "No such file or directory");
        expect("check /", 1, "Is a directory");
        expect("check - < " SAXPY, 0, "");
        expect("check - < /dev/null", 1, "-:1:1: error: the text has no .version");
        expect("check - < /bin/true", 1, "this character has no place in PTX");
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
}

Test(ptx_tool, run_executes)
{
        expect("run " SAXPY " saxpy -g 2 -b 4 s32:8 f32:2 'f32[8]=ramp' 'out:f32[8]=1'", 0,
                "arg 4: 1 3 5 7 9 11 13 15\n");
        expect("run " SAXPY " saxpy -g 1 -b 4 s32:3 f32:-0.5 'f32[4]=ramp' 'out:f32[4]'", 0, "arg 4: 0 -0.5 -1 0\n");
        expect("run " SAXPY " saxpy --cost -g 1 -b 32 s32:32 f32:1 'f32[32]=rand:7' 'f32[32]'", 0,
                "warp instructions ");
}

Test(ptx_tool, run_says_what_is_wrong)
{
        expect("run " SAXPY " nobody", 1, "has no kernel 'nobody'");
        expect("run " SAXPY " saxpy s32:3", 2, "the kernel takes 4 arguments, not 1");
        expect("run " SAXPY " saxpy s32:3 f32:1 f32:1 f32:1", 2, "the parameter has another size");
        expect("run " SAXPY " saxpy s32:3000000000 f32:1 'f32[1]' 'f32[1]'", 2, "the value does not fit the type");
        expect("run " SAXPY " saxpy 'f32[1]' f32:1 'f32[1]' 'f32[1]'", 2, "the parameter is not a pointer");
        expect("run " SAXPY " saxpy s32:1 f32:x 'f32[1]' 'f32[1]'", 2, "the value does not fit the type");
        expect("run " SAXPY " saxpy s32:1 f32:1 'f32[0]' 'f32[1]'", 2, "a buffer has at least 1 element");
        expect("run " SAXPY " saxpy s32:1 f32:1 'f32[1]=frob' 'f32[1]'", 2, "the start value is zero, ramp");
        expect("run " SAXPY " saxpy s32:1 f32:1 'f33[1]' 'f32[1]'", 2, "not a TYPE:VALUE");
        expect("run " SAXPY " saxpy -g 4 -b 8 s32:32 f32:1 'f32[8]' 'f32[32]'", 1, "fault in block (1, 0, 0)");
        expect("run " TEST_PTX_DIR "/sm_75/rt_texture.ptx rt_tex", 3, "error: tex.1d.v4.f32.s32");
}
