/* SPDX-License-Identifier: Apache-2.0 */
/*
 * assert in kernels: no output while it holds, one line for each thread whose assertion fails, and a sticky error
 *
 * The text is on standard error when a call first returns the error.
 */
#include "catch.h"

static CUfunction assert_lane;
static CUdeviceptr in, out;

static CUresult run(int limit)
{
        void *params[] = {&in, &limit, &out};

        OK(cuLaunchKernel(assert_lane, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
        return cuStreamSynchronize(NULL);
}

static void check_words(char *text)
{
        /* lanes whose assertion fails, in the alphabetical order of their lines */
        static const int lanes[] = {17, 30, 9};
        char want[512], *all[64], **lines = all;
        size_t n = catch_sort(text, all, 64);

        /* the first line is DetShare's own: the kernel and the place in its PTX */
        if (n && !strncmp(all[0], "detshare: device-side assert triggered (CUDA_ERROR_ASSERT): kernel assert_lane",
                         78)) {
                lines++;
                n--;
        }
        CHECK(n == 3);
        for (size_t i = 0; i < n && i < 3; i++) {
                snprintf(
                        want, sizeof(want), "block: [0,0,0], thread: [%d,0,0] Assertion `v < limit` failed.", lanes[i]);
                CHECK(strstr(lines[i], want) != NULL);
                CHECK(strstr(lines[i], "prints.cu:80: void assert_lane(const int *, int, int *): block") != NULL);
                printf("%s\n", lines[i]);
        }
}

int main(int argc, char **argv)
{
        CUcontext context;
        CUmodule module;
        int values[32];
        struct catch c;
        CUresult r;
        char *text;

        program_begin(argc, argv);
        context = program_context();
        module = program_module("prints");
        assert_lane = program_function(module, "assert_lane");
        MUST(cuMemAlloc(&in, sizeof(values)));
        MUST(cuMemAlloc(&out, sizeof(values)));
        for (int i = 0; i < 32; i++)
                values[i] = i == 9 || i == 17 || i == 30 ? 100 : i;
        MUST(cuMemcpyHtoD(in, values, sizeof(values)));
        c = catch_begin(stderr);
        EXPECT(CUDA_SUCCESS, run(101));
        text = catch_end(&c);
        CHECK(text[0] == 0);
        free(text);
        c = catch_begin(stderr);
        r = run(100);
        text = catch_end(&c);
        EXPECT(CUDA_ERROR_ASSERT, r);
        check_words(text);
        free(text);
        EXPECT(CUDA_ERROR_ASSERT, cuCtxSynchronize());
        EXPECT(CUDA_ERROR_ASSERT, cuMemcpyDtoH(values, out, sizeof(values)));
        OK(cuCtxDestroy(context));
        return program_end("asserts");
}
