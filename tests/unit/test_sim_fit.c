/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docs/simulator/accuracy.md states how far the simulated H200 is from an H200: its tables must equal the output
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BEGIN "<!-- make sim-fit -->\n"
#define END "<!-- end -->\n"
#define BYTES (1 << 16)

static char *read_all(FILE *f)
{
        char *text = calloc(1, BYTES);

        cr_assert_not_null(f);
        cr_assert_lt(fread(text, 1, BYTES - 1, f), BYTES - 1);
        return text;
}

/* Output of the program sim_fit, in the build's bench folder. */
static char *printed(void)
{
        char path[4096] = "";
        ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
        FILE *f;
        char *text;

        cr_assert_gt(n, 0);
        for (int i = 0; i < 3; i++)
                *strrchr(path, '/') = 0;
        strcat(path, "/bench/sim_fit");
        f = popen(path, "r");
        text = read_all(f);
        cr_assert_eq(pclose(f), 0);
        return text;
}

Test(sim_fit, the_page_equals_the_programs_output, .timeout = 120)
{
        FILE *f = fopen("docs/simulator/accuracy.md", "r");
        char *page = read_all(f), *text = printed(), *begin = strstr(page, BEGIN), *end;

        fclose(f);
        cr_assert_not_null(begin, "docs/simulator/accuracy.md has no table");
        begin += strlen(BEGIN);
        end = strstr(begin, END);
        cr_assert_not_null(end);
        for (size_t line = 1, i = 0; begin + i < end || text[i]; i++) {
                cr_assert(begin + i < end && begin[i] == text[i],
                        "line %zu of the table is not what `make sim-fit` prints", line);
                line += text[i] == '\n';
        }
        free(page);
        free(text);
}
