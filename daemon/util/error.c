/* SPDX-License-Identifier: Apache-2.0 */
#include "util/error.h"

#include <assert.h>
#include <string.h>

#include "util/log.h"

int ds_error_report_origin(int r, const char *func, const char *file, int line)
{
        assert(r < 0);
        ds_log(DS_LOG_ERROR, "%s @ %s +%d: %s", func, file, line, strerror(-r));
        return r;
}

int ds_error_report_trace(int r, const char *func, const char *file, int line)
{
        if (r < 0)
                ds_log(DS_LOG_ERROR, "      %s @ %s +%d", func, file, line);
        return r;
}

int ds_error_report_fold(int r, const char *func, const char *file, int line)
{
        if (r > 0) {
                ds_log(DS_LOG_ERROR, "%s @ %s +%d: unexpected code %d", func, file, line, r);
                return -ENOTRECOVERABLE;
        }
        return ds_error_report_trace(r, func, file, line);
}
