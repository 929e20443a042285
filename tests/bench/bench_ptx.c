/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speed of reading (parsing and validating) and printing PTX, and whether the time is linear in the size
 *
 * usage: bench_ptx BUILD [FILE of PTX ...]
 *
 * Measures generated texts of increasing size, and the files. Writes BUILD/bench-ptx.json. Each text is read and
 * printed several times; the shortest processor time counts. `ratio` is the time of the tenfold size over that of the
 * single size; 10 is linear.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ptx/ptx.h"
#include "util/macro.h"

#define RUNS 3
#define LIMIT DS_GIB(4)
#define HEAD ".version 9.0\n.target sm_90\n.address_size 64\n"

static const char *const statements[] = {
        "add.s32 %r1, %r2, %r3;",
        "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+16];",
        "fma.rn.f32 %f5, %f1, %f2, 0f3F800000;",
        "setp.lt.s32 %p1, %r1, 1024;",
        "@%p1 st.global.u32 [%rd2], %r4;",
        "mul.wide.s32 %rd3, %r5, 4;",
};

static FILE *json;
static int n_figures;

static double now(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void begin_function(FILE *out, size_t i)
{
        fprintf(out, ".visible .entry k%zu(.param .u64 p)\n{\n", i);
        fputs(".reg .pred %p<4>;\n.reg .b32 %r<9>;\n.reg .f32 %f<9>;\n.reg .b64 %rd<9>;\n", out);
}

static void put_statements(FILE *out, size_t n)
{
        for (size_t i = 0; i < n; i++)
                fprintf(out, "\t%s\n", statements[i % DS_ARRAY_SIZE(statements)]);
}

static void many_functions(FILE *out, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                begin_function(out, i);
                put_statements(out, 100);
                fputs("\tret;\n}\n", out);
        }
}

static void one_function(FILE *out, size_t n)
{
        begin_function(out, 0);
        put_statements(out, n);
        fputs("\tret;\n}\n", out);
}

static void branches(FILE *out, size_t n)
{
        begin_function(out, 0);
        for (size_t i = 0; i < n; i++)
                fprintf(out, "$L%zu:\n\t@%%p1 bra $L%zu;\n", i, (i + i * 7919 % 64) % n);
        fputs("\tret;\n}\n", out);
}

static void globals(FILE *out, size_t n)
{
        fputs(".global .u32 g0;\n", out);
        for (size_t i = 1; i < n; i++)
                fprintf(out, ".global .align 8 .u64 g%zu[2] = {%zu, generic(g%zu)};\n", i, i, i - 1);
}

static void calls(FILE *out, size_t n)
{
        fputs(".func f0() { ret; }\n", out);
        for (size_t i = 1; i < n; i++)
                fprintf(out, ".func f%zu()\n{\n\tcall f%zu;\n\tcall f%zu;\n\tret;\n}\n", i, i - 1, i / 2);
}

/* Measures the shortest times to read and to print the text, s. Returns false if the text is no PTX. */
static bool measure(const char *text, size_t length, double best[2])
{
        best[0] = best[1] = 1e9;
        for (int i = 0; i < RUNS; i++) {
                ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
                struct ds_ptx_diags diags;
                char *printed = NULL, errors[1024];
                size_t n;
                double start = now();
                bool fine;
                FILE *out;

                if (ds_ptx_parse(text, length, LIMIT, &diags, &module)) {
                        ds_ptx_diags_format(&diags, "text", errors, sizeof(errors));
                        fprintf(stderr, "%s\n", errors);
                        return false;
                }
                best[0] = DS_MIN(best[0], now() - start);
                out = open_memstream(&printed, &n);
                if (!out)
                        return false;
                start = now();
                fine = ds_ptx_print(module, out) == 0;
                fclose(out);
                best[1] = DS_MIN(best[1], now() - start);
                free(printed);
                if (!fine)
                        return false;
        }
        return true;
}

static void figure(const char *what, const char *name, const char *unit, double value)
{
        printf("  %-36s %-14s %10.1f %s\n", what, name, value, unit);
        fprintf(json, "%s    {\"name\": \"%s, %s\", \"value\": %.3f, \"unit\": \"%s\"}", n_figures++ ? ",\n" : "", what,
                name, value, unit);
}

static void show(const char *what, size_t length, const double best[2])
{
        figure(what, "read", "MB/s", (double)length / best[0] * 1e-6);
        figure(what, "print", "MB/s", (double)length / best[1] * 1e-6);
}

/* Measures a generated text of n parts and one of n / 10 parts. */
static bool bench_made(const char *what, void (*make)(FILE *out, size_t n), size_t n)
{
        double best[2][2];
        size_t length = 0;

        for (int i = 0; i < 2; i++) {
                char *text = NULL;
                FILE *out = open_memstream(&text, &length);
                bool fine;

                if (!out)
                        return false;
                fputs(HEAD, out);
                make(out, i ? n : n / 10);
                fclose(out);
                fine = measure(text, length, best[i]);
                free(text);
                if (!fine)
                        return false;
        }
        show(what, length, best[1]);
        figure(what, "read, ratio", "", best[1][0] / best[0][0]);
        figure(what, "print, ratio", "", best[1][1] / best[0][1]);
        return true;
}

static bool bench_file(const char *path)
{
        FILE *in = fopen(path, "rbe");
        char *text = NULL;
        size_t length = 0;
        double best[2];
        bool fine = false;
        ssize_t n;

        if (!in)
                return false;
        n = getdelim(&text, &length, '\0', in); /* PTX has no NUL */
        fclose(in);
        if (n > 0)
                fine = measure(text, (size_t)n, best);
        free(text);
        if (fine)
                show(path, (size_t)n, best);
        return fine;
}

int main(int argc, char **argv)
{
        char path[4096];
        bool fine = true;

        snprintf(path, sizeof(path), "%s/bench-ptx.json", argc > 1 ? argv[1] : ".");
        json = fopen(path, "we");
        if (!json) {
                fprintf(stderr, "bench_ptx: cannot write %s\n", path);
                return 1;
        }
        puts("bench_ptx: PTX read (parsed and validated) and printed, on one core; ratio: ten times the size, in time");
        fputs("{\n  \"figures\": [\n", json);
        fine &= bench_made("functions of 100 instructions", many_functions, 5000);
        fine &= bench_made("one function of instructions", one_function, 1000000);
        fine &= bench_made("labels and branches", branches, 100000);
        fine &= bench_made("globals with addresses", globals, 100000);
        fine &= bench_made("functions that call", calls, 50000);
        for (int i = 2; i < argc; i++)
                fine &= bench_file(argv[i]);
        fputs("\n  ]\n}\n", json);
        return fclose(json) == 0 && fine ? 0 : 1;
}
