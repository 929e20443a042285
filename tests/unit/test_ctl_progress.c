/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line of a progress bar
 */
#include <criterion/criterion.h>
#include <string.h>

#include "ctl/progress.h"

static const char *line(double done, uint64_t seconds, size_t width)
{
        static char text[256];
        ctl_progress_line("work", done, seconds * 1000000000u, width, text, sizeof(text));
        return text;
}

Test(ctl_progress, bar_and_time_left)
{
        cr_expect_str_eq(line(0, 0, 80), "work [........................................]   0 %");
        cr_expect_str_eq(line(0.25, 30, 80), "work [##########..............................]  25 %  1:30 left");
        cr_expect_str_eq(line(1, 60, 80), "work [########################################] 100 %  0:00 left");
        cr_expect_str_eq(line(2, 60, 80), "work [########################################] 100 %  0:00 left");
}

Test(ctl_progress, time_alone_if_nobody_knows_the_end)
{
        cr_expect_str_eq(line(-1, 75, 80), "work, 1:15 so far");
}

Test(ctl_progress, it_fits_the_terminal)
{
        for (size_t width = 34; width < 120; width++)
                for (int done = 0; done <= 20; done++)
                        cr_expect_lt(
                                strlen(line(done / 20.0, 500, width)), width + 1, "%s", line(done / 20.0, 500, width));
}

Test(ctl_progress, nothing_is_printed_without_a_terminal)
{
        ctl_progress("work", 0.5);
        ctl_progress_end();
}
