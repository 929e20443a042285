/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of this machine's NVIDIA GPUs, found without a driver
 *
 * A program under DetShare has one GPU, the daemon's. Programs that count GPUs by NVIDIA's management library instead
 * of the driver (PyTorch does) see all GPUs of the machine, unless CUDA_VISIBLE_DEVICES names one.
 */
#include <glob.h>
#include <stdio.h>

#include "core/core.h"

size_t dsc_gpus_present(void)
{
        glob_t found;
        size_t n = glob("/dev/nvidia[0-9]*", 0, NULL, &found) == 0 ? found.gl_pathc : 0;
        globfree(&found);
        return n;
}

void dsc_uuid_text(const uint8_t uuid[16], char text[DSC_UUID_TEXT])
{
        size_t n = (size_t)snprintf(text, DSC_UUID_TEXT, "GPU-");
        for (int i = 0; i < 16; i++)
                n += (size_t)snprintf(text + n, DSC_UUID_TEXT - n, "%s%02x",
                        i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}
