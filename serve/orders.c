/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/orders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 4352 /* a path, and the word before it */
#define SECONDS_MAX 1e6

static void print_latencies(const struct sv_samples *samples)
{
        printf("\"latencies_ms\": [");
        for (size_t i = 0; i < samples->n; i++)
                printf("%s%.4f", i ? ", " : "", (double)(samples->list[i].end - samples->list[i].arrival) / 1e6);
        printf("]");
}

static void print_served(const struct sv_result *result, const struct sv_arrivals *arrivals)
{
        printf("{");
        print_latencies(&result->samples);
        printf(", \"at_s\": [");
        for (size_t i = 0; i < arrivals->n; i++)
                printf("%s%.6f", i ? ", " : "", (double)arrivals->ns[i] / 1e9);
        printf("]}\n");
}

static void print_looped(const struct sv_result *result)
{
        printf("{\"items\": %llu, \"seconds\": %.6f, ", (unsigned long long)result->samples.total,
                (double)result->ns / 1e9);
        print_latencies(&result->samples);
        printf("}\n");
}

static int carry_out(const struct sv_load *load, struct sv_why *why)
{
        struct sv_result result;
        int r = sv_load_run(load, &result, why);

        if (!r && result.different)
                r = sv_fail(why, "%llu outputs were not the first of their case", (unsigned long long)result.different);
        if (!r && load->arrivals)
                print_served(&result, load->arrivals);
        else if (!r)
                print_looped(&result);
        sv_samples_clear(&result.samples);
        return r;
}

static int serve(const struct sv_load *load, const char *path, struct sv_why *why)
{
        struct sv_load order = *load;
        struct sv_arrivals arrivals;
        int r;

        if (sv_arrivals_read(&arrivals, path, 1, why))
                return -1;
        order.arrivals = &arrivals;
        r = carry_out(&order, why);
        sv_arrivals_clear(&arrivals);
        return r;
}

static int loop(const struct sv_load *load, const char *text, struct sv_why *why)
{
        struct sv_load order = *load;
        char *end;
        const double seconds = strtod(text, &end);

        if (end == text || *end || !(seconds > 0) || seconds > SECONDS_MAX)
                return sv_fail(why, "order loop: %.64s is no number of seconds", text);
        order.ns = (uint64_t)(seconds * 1e9) + 1;
        return carry_out(&order, why);
}

static int hold(const struct sv_load *load)
{
        printf("{\"held\": {\"now_ns\": %llu}}\n", (unsigned long long)sv_now(load->clock));
        return 0;
}

/* For the next `serve` or `loop`. */
static int begin_at(struct sv_load *load, const char *text, struct sv_why *why)
{
        if (sv_digits(text, UINT64_MAX, &load->begin))
                return sv_fail(why, "order at: %.64s is no time in nanoseconds", text);
        return 0;
}

static int obey(struct sv_load *load, const char *line, struct sv_why *why)
{
        int r;

        if (!strcmp(line, "hold"))
                return hold(load);
        if (!strncmp(line, "at ", 3))
                return begin_at(load, line + 3, why);
        if (!strncmp(line, "serve ", 6))
                r = serve(load, line + 6, why);
        else if (!strncmp(line, "loop ", 5))
                r = loop(load, line + 5, why);
        else
                r = sv_fail(
                        why, "there is no order %.64s: the orders are serve FILE, loop SECONDS, hold and at NS", line);
        load->begin = 0;
        return r;
}

int sv_orders_run(const struct sv_load *load, const struct sv_report *report, struct sv_why *why)
{
        struct sv_load next = *load;
        char line[LINE_MAX_BYTES];
        int r = 0;

        sv_report_ready(report);
        while (!r && !fflush(stdout) && fgets(line, sizeof(line), stdin)) {
                line[strcspn(line, "\n")] = 0;
                r = obey(&next, line, why);
        }
        return r;
}
