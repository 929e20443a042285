/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/reload.h"

#include <stdio.h>
#include <unistd.h>

#include "supervisor/supervisor.h"
#include "util/error.h"

int ds_supervisor_reload(struct ds_supervisor *supervisor, char *message, size_t message_size)
{
        const struct ds_options *options = supervisor->options;
        struct ds_config config = {0};
        int r = 0;

        if (options->config_path && (options->config_must_exist || access(options->config_path, F_OK) == 0))
                r = ds_config_load(options->config_path, &config, message, message_size);
        ds_config_deinit(&config);
        if (r == DS_CONFIG_E_INVALID)
                return DS_RELOAD_E_REFUSED;
        if (r)
                return ds_error_fold(r);
        snprintf(message, message_size, "the configuration was read");
        return 0;
}
