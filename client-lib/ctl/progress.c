/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ctl/clock.h"

#define EVERY_NS 100000000u /* least interval between two drawings of the bar, ns */
#define BAR_MAX 40u         /* most characters of the bar */
#define WIDTH 80u           /* columns if the terminal does not report any */

static struct {
        char what[64]; /* text before the bar; "" if no bar is shown */
        uint64_t begin_ns, drawn_ns;
} shown;

void ctl_progress_line(const char *what, double done, uint64_t elapsed_ns, size_t width, char *ret, size_t size)
{
        char bar[BAR_MAX + 1], left[32] = "";
        const double seconds = (double)elapsed_ns / 1e9;
        if (done < 0) {
                snprintf(ret, size, "%s, %u:%02u so far", what, (unsigned)seconds / 60, (unsigned)seconds % 60);
                return;
        }
        const double part = done > 1 ? 1 : done;
        const size_t text = strlen(what) + 22; /* length of the line without the bar: text, percentage and time */
        const size_t cells = width < text + 4 ? 4 : width - text < BAR_MAX ? width - text : BAR_MAX;
        const size_t full = (size_t)(part * (double)cells);
        memset(bar, '.', cells);
        memset(bar, '#', full);
        bar[cells] = '\0';
        /* early estimates of the remaining time are useless */
        if (part > 0.01 && seconds > 0.5) {
                const unsigned rest = (unsigned)(seconds * (1 - part) / part + 0.5);
                snprintf(left, sizeof(left), "  %u:%02u left", rest / 60, rest % 60);
        }
        snprintf(ret, size, "%s [%s] %3.0f %%%s", what, bar, 100 * part, left);
}

static size_t terminal_width(void)
{
        struct winsize window = {0};
        return ioctl(STDERR_FILENO, TIOCGWINSZ, &window) < 0 || !window.ws_col ? WIDTH : window.ws_col;
}

void ctl_progress(const char *what, double done)
{
        char line[256];
        const uint64_t now = ctl_clock_ns(CLOCK_MONOTONIC);
        if (!isatty(STDERR_FILENO))
                return;
        if (strcmp(shown.what, what) != 0) {
                snprintf(shown.what, sizeof(shown.what), "%s", what);
                shown.begin_ns = now;
        } else if (now - shown.drawn_ns < EVERY_NS && done < 1) {
                return;
        }
        shown.drawn_ns = now;
        ctl_progress_line(what, done, now - shown.begin_ns, terminal_width(), line, sizeof(line));
        fprintf(stderr, "\r%s\033[K", line);
}

void ctl_progress_end(void)
{
        if (shown.what[0])
                fputs("\r\033[K", stderr);
        shown.what[0] = '\0';
}
