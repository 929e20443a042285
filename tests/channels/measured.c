/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a calibration's result into a daemon's state directory, as if it had been measured
 *
 * usage: measured STATE GPU CHANNELS BE: on that GPU ("DetShare sim:a2000/26"), with CHANNELS channels, the best share
 * for best effort is BE channels; 0: dividing channels does not pay. No daemon may use the directory meanwhile.
 */
#include <stdio.h>
#include <stdlib.h>

#include "supervisor/calibration.h"

int main(int argc, char **argv)
{
        struct ds_calibration_gpu gpu = {.n = 1, .cells = {{.ls_load = 1, .be_load = 1, .ls_permille = 1000}}};
        struct ds_calibration calibration;
        int r;

        if (argc != 5) {
                fprintf(stderr, "usage: measured STATE GPU CHANNELS BE\n");
                return 2;
        }
        snprintf(gpu.name, sizeof(gpu.name), "%s", argv[2]);
        gpu.channels = (uint32_t)strtoul(argv[3], NULL, 10);
        gpu.be = (uint32_t)strtoul(argv[4], NULL, 10);
        if (ds_calibration_wrong(&gpu)) {
                fprintf(stderr, "measured: %s\n", ds_calibration_wrong(&gpu));
                return 1;
        }
        ds_calibration_open(&calibration, argv[1]);
        r = ds_calibration_put(&calibration, &gpu);
        ds_calibration_close(&calibration);
        return r != 0;
}
