/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl calibrate: measure, show and delete the calibration of this GPU
 */
#include <stdlib.h>

#include "ctl/calibrate.h"

#define SECONDS 40
#define SECONDS_QUICK 10

/* Reads the options of `calibrate`. 0, or CTL_USAGE after an error message. */
static int take_options(const struct ctl_args *args, struct calibrate_options *o)
{
        const int quick = ctl_given(args, "quick"), channels = ctl_given(args, "channels");
        const int show = ctl_given(args, "show"), forget = ctl_given(args, "forget");
        const int measure = quick || channels || ctl_given(args, "seconds") || ctl_given(args, "force");
        if (show + forget + measure > 1)
                return ctl_usage("calibrate: --show and --forget go with no option but --json");
        if (quick && ctl_given(args, "seconds"))
                return ctl_usage("calibrate: either --quick or --seconds");
        if (quick && channels)
                return ctl_usage("calibrate: either --quick or --channels");
        if (forget && ctl_given(args, "json"))
                return ctl_usage("calibrate: --forget prints nothing, so it does not go with --json");
        *o = (struct calibrate_options){
                .seconds = (unsigned)ctl_number(args, "seconds", quick ? SECONDS_QUICK : SECONDS),
                .force = ctl_given(args, "force"),
                .as_json = ctl_given(args, "json"),
                .matrix = !channels,
                .channels = !quick,
        };
        return 0;
}

static void take_channels(const struct dsc_channel_calibration *from, struct calibrate_channels *to)
{
        to->channels = from->channels;
        to->be = from->be;
        to->n = from->n;
        for (size_t i = 0; i < from->n; i++)
                to->rows[i].cell = from->cells[i];
}

static int show(int as_json)
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
                ctl_complain("%s was not calibrated: detsharectl calibrate does that", stored.gpu);
                return CTL_NO_SUCH;
        }
        snprintf(rows.gpu, sizeof(rows.gpu), "%s", stored.gpu);
        rows.simulated = stored.simulated;
        rows.in_memory = stored.in_memory;
        rows.n = stored.n;
        for (size_t i = 0; i < stored.n; i++)
                rows.rows[i].cell = stored.cells[i];
        take_channels(&stored.channels, &rows.channels);
        return calibrate_show(&rows, as_json);
}

static int forget(void)
{
        dsc_session *s = NULL;
        int code = ctl_open(&s);
        if (code)
                return code;
        const int r = dsc_control_calibration_forget(s);
        if (r)
                code = ctl_fail(r, "cannot delete the calibration");
        dsc_control_close(s);
        return code;
}

int cmd_calibrate(const struct ctl_args *args)
{
        struct calibrate_options o;
        struct calibrate_rows rows;
        int code = take_options(args, &o);
        if (code)
                return code;
        if (ctl_given(args, "show"))
                return show(o.as_json);
        if (ctl_given(args, "forget"))
                return forget();
        code = calibrate_run(&o, &rows);
        return code ? code : calibrate_show(&rows, o.as_json);
}
