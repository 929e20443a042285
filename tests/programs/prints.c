/* SPDX-License-Identifier: Apache-2.0 */
/*
 * printf in kernels: every conversion prints as on the host, in program order, and appears at the calls that CUDA
 * documents
 *
 * The program checks the kernels' output and prints it again, so that runs on different drivers can be compared.
 */
#include "catch.h"

static CUmodule module;
static CUdeviceptr memory;

static CUfunction function(const char *name)
{
        return program_function(module, name);
}

static void start(const char *name, unsigned int grid, unsigned int block, void **params)
{
        OK(cuLaunchKernel(function(name), grid, 1, 1, block, 1, 1, 0, NULL, params, NULL));
}

static char *run(const char *name, unsigned int grid, unsigned int block, void **params)
{
        struct catch c = catch_begin(stdout);

        start(name, grid, block, params);
        OK(cuCtxSynchronize());
        return catch_end(&c);
}

static void same(char *text, const char *want)
{
        CHECK(strcmp(text, want) == 0);
        if (strcmp(text, want) != 0)
                printf("--- printed\n%s--- expected\n%s", text, want);
        else
                printf("%s", text);
        free(text);
}

static void check_integers(void)
{
        int i = -42, returned[7];
        unsigned int u = 3000000000u;
        long long l = -5000000000ll;
        unsigned long long ul = 18000000000000000000ull;
        short h = -7;
        void *params[] = {&i, &u, &l, &ul, &h, &memory};
        static const int counts[7] = {0, 6, 5, 3, 7, 4, 4};
        char want[2000];

        snprintf(want, sizeof(want),
                "plain\n%d %i %u %x %X %o\n%ld %lld %lu %llx %#llx\n%hd %hu %hx\n"
                "[%5d] [%-5d] [%05d] [%+d] [% d] [%.4d] [%8.4d]\n[%#x] [%#o] [%10llu] [%-10llu]\n[%*d] [%-*d]\n",
                i, -i, u, u, u, u, (long)l, l, (unsigned long)ul, ul, ul, h, (unsigned short)h, (unsigned short)h, i, i,
                i, i, i, i, i, u, u, ul, ul, 7, i, 7, i);
        same(run("print_integers", 1, 1, params), want);
        OK(cuMemcpyDtoH(returned, memory, sizeof(returned)));
        SAME(returned, counts, sizeof(counts));
}

static void check_floats(void)
{
        float f = 1234.5678f;
        double d = -0.001953125, zero = 0;
        void *params[] = {&f, &d};
        char want[2000];

        snprintf(want, sizeof(want),
                "%f %e %g %a\n%E %G %A\n[%10.3f] [%-10.2f] [%+.1e] [%010.4f] [%.0f] [%#.0f]\n%f %f %g\n", (double)f, d,
                d, d, d, d, d, (double)f, (double)f, d, d, d, d, d / zero, -d / zero, 1e300 * d);
        same(run("print_floats", 1, 1, params), want);
}

static void check_words(void)
{
        int c = 'x';
        void *params[] = {&memory, &c};
        char want[200] = "";

        OK(cuMemcpyHtoD(memory, "mapped", 7));
        same(run("print_words", 1, 1, params),
                "constant|global words|local|sh\n[    mapped] [mapped    ] [map] [       map]\nxyz [  x] [x  ]\n"
                "100% of 120, 0x1234567890\nno newline until here\n");
        for (int i = 1; i <= 32; i++)
                snprintf(want + strlen(want), 16, "%d%c", i, i < 32 ? ' ' : '\n');
        same(run("print_many", 1, 1, NULL), want);
}

static void check_lanes(void)
{
        int tag = 3;
        void *params[] = {&tag};
        char want[64 * 40] = "", *text, *lines[600];
        size_t n;

        for (int i = 0; i < 64; i++)
                snprintf(want + strlen(want), 40, "tag 3 lane %d of block 0\n", i);
        same(run("print_lanes", 1, 64, params), want);
        text = run("print_all", 8, 64, params);
        n = catch_sort(text, lines, 600);
        CHECK(n == 8 * 64);
        for (size_t i = 0; i < n; i += 100)
                printf("%s\n", lines[i]);
        free(text);
}

/* Output appears among the program's own: at a launch, a copy, an event, a stream's synchronisation, the end of the
 * context. */
static void check_order(CUcontext context)
{
        struct catch c = catch_begin(stdout);
        int tag = 0, v;
        void *params[] = {&tag};
        CUstream stream;
        CUevent event;
        char *text, want[2000] = "";

        OK(cuStreamCreate(&stream, 0));
        OK(cuEventCreate(&event, 0));
        printf("begin\n");
        start("print_all", 1, 1, params);
        OK(cuCtxSynchronize());
        printf("after the context\n");
        tag = 1;
        start("print_all", 1, 1, params);
        OK(cuStreamSynchronize(NULL));
        printf("after the stream\n");
        tag = 2;
        start("print_all", 1, 1, params);
        OK(cuEventRecord(event, NULL));
        OK(cuEventSynchronize(event));
        printf("after the event\n");
        tag = 3;
        start("print_all", 1, 1, params);
        OK(cuMemcpyDtoH(&v, memory, sizeof(v)));
        printf("after the copy\n");
        OK(cuStreamDestroy(stream));
        OK(cuEventDestroy(event));
        tag = 4;
        start("print_all", 1, 1, params);
        OK(cuCtxDestroy(context));
        printf("after all\n");
        text = catch_end(&c);
        snprintf(want, sizeof(want),
                "begin\nall 0 0 0\nafter the context\nall 1 0 0\nafter the stream\nall 2 0 0\nafter the event\n"
                "all 3 0 0\nafter the copy\nall 4 0 0\nafter all\n");
        same(text, want);
}

int main(int argc, char **argv)
{
        CUcontext context;

        program_begin(argc, argv);
        context = program_context();
        module = program_module("prints");
        MUST(cuMemAlloc(&memory, 4096));
        check_integers();
        check_floats();
        check_words();
        check_lanes();
        check_order(context);
        return program_end("prints");
}
