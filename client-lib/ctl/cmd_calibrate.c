/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl calibrate: what kernels of one class do to those of the other beside them, on this GPU
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>

#include "ctl/calibrate.h"

#define SECONDS 40
#define SECONDS_QUICK 10
#define SECONDS_MAX 3600

struct words {
        struct calibrate_options o;
        int show, forget, quick, channels;
        unsigned long seconds; /* 0: not given */
};

static int parse_seconds(struct words *w)
{
        char *end;
        errno = 0;
        w->seconds = strtoul(optarg, &end, 10);
        if (optarg[0] < '0' || optarg[0] > '9' || *end || errno || w->seconds < 1 || w->seconds > SECONDS_MAX)
                return ctl_usage("calibrate: --seconds takes a number from 1 to %d, not %s", SECONDS_MAX, optarg);
        return 0;
}

static int parse_option(int c, char **argv, struct words *w)
{
        switch (c) {
        case 'q':
                w->quick = 1;
                return 0;
        case 's':
                return parse_seconds(w);
        case 'c':
                w->channels = 1;
                return 0;
        case 'f':
                w->o.force = 1;
                return 0;
        case 'w':
                w->show = 1;
                return 0;
        case 'x':
                w->forget = 1;
                return 0;
        case 'j':
                w->o.as_json = 1;
                return 0;
        case ':':
                return ctl_usage("calibrate: option %s needs a value", argv[optind - 1]);
        default:
                return ctl_usage("calibrate: unknown option %s", argv[optind - 1]);
        }
}

/* -1 to go on, else the exit code. */
static int parse(const struct ctl_command *self, int argc, char **argv, struct words *w)
{
        static const struct option options[] = {
                {"quick", no_argument, NULL, 'q'},
                {"seconds", required_argument, NULL, 's'},
                {"channels", no_argument, NULL, 'c'},
                {"force", no_argument, NULL, 'f'},
                {"show", no_argument, NULL, 'w'},
                {"forget", no_argument, NULL, 'x'},
                {"json", no_argument, NULL, 'j'},
                {"help", no_argument, NULL, 'h'},
                {NULL, 0, NULL, 0},
        };
        int c;
        optind = 0;
        while ((c = getopt_long(argc, argv, "+:h", options, NULL)) >= 0) {
                if (c == 'h')
                        return ctl_help(self);
                const int code = parse_option(c, argv, w);
                if (code)
                        return code;
        }
        if (optind < argc)
                return ctl_usage("calibrate: too many arguments: %s", argv[optind]);
        if (w->show + w->forget + (w->quick || w->seconds || w->o.force || w->channels) > 1)
                return ctl_usage("calibrate: --show and --forget stand alone");
        if (w->quick && w->seconds)
                return ctl_usage("calibrate: either --quick or --seconds");
        if (w->quick && w->channels)
                return ctl_usage("calibrate: either --quick or --channels");
        if (w->forget && w->o.as_json)
                return ctl_usage("calibrate: --forget prints nothing");
        w->o.seconds = w->seconds ? (unsigned)w->seconds : w->quick ? SECONDS_QUICK : SECONDS;
        w->o.matrix = !w->channels;
        w->o.channels = !w->quick;
        return -1;
}

static void take_channels(const struct dsc_channel_calibration *from, struct calibrate_channels *to)
{
        to->channels = from->channels;
        to->be = from->be;
        to->n = from->n;
        for (size_t i = 0; i < from->n; i++)
                to->rows[i].cell = from->cells[i];
}

static int show(const struct words *w)
{
        struct dsc_calibration stored;
        struct calibrate_rows rows = {.n = 0};
        dsc_session *s = NULL;
        const int code = ctl_open(&s);
        if (code)
                return code;
        const int r = dsc_control_calibration(s, &stored);
        const int failed = r ? ctl_fail(r, "cannot show the calibration") : 0;
        dsc_control_close(s);
        if (failed)
                return failed;
        if (!stored.n && !stored.channels.n) {
                ctl_complain("%s was not calibrated", stored.gpu);
                return CTL_NO_SUCH;
        }
        snprintf(rows.gpu, sizeof(rows.gpu), "%s", stored.gpu);
        rows.simulated = stored.simulated;
        rows.in_memory = stored.in_memory;
        rows.n = stored.n;
        for (size_t i = 0; i < stored.n; i++)
                rows.rows[i].cell = stored.cells[i];
        take_channels(&stored.channels, &rows.channels);
        return calibrate_show(&rows, w->o.as_json);
}

static int forget(void)
{
        dsc_session *s = NULL;
        int code = ctl_open(&s);
        if (code)
                return code;
        const int r = dsc_control_calibration_forget(s);
        if (r)
                code = ctl_fail(r, "cannot forget the calibration");
        dsc_control_close(s);
        return code;
}

int cmd_calibrate(const struct ctl_command *self, int argc, char **argv)
{
        struct words w = {.show = 0};
        struct calibrate_rows rows;
        int code = parse(self, argc, argv, &w);
        if (code >= 0)
                return code;
        if (w.show)
                return show(&w);
        if (w.forget)
                return forget();
        code = calibrate_run(&w.o, &rows);
        return code ? code : calibrate_show(&rows, w.o.as_json);
}
