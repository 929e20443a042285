/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file
 *
 * What is refused is refused with one line that names file and line; what was read is within its limits. A second
 * reading of the same text on top gives the same strings.
 */
#include <errno.h>

#include "supervisor/config.h"
#include "tests/fuzz/fuzz.h"

static int read_config(const uint8_t *data, size_t size, struct ds_config *config)
{
        static char message[512];
        FILE *stream = fmemopen((void *)(uintptr_t)data, size, "r");
        int r;

        FUZZ_CHECK(stream);
        r = ds_config_read(stream, "fuzz.conf", config, message, sizeof(message));
        fclose(stream);
        FUZZ_CHECK(r == 0 || r == DS_CONFIG_E_INVALID);
        FUZZ_CHECK(r == 0 || !strncmp(message, "fuzz.conf", strlen("fuzz.conf")));
        FUZZ_CHECK(!strchr(message, '\n') && strlen(message) < sizeof(message));
        return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct ds_config config = {0};
        uint8_t *copy;
        int r;

        if (!size)
                return 0;
        copy = fuzz_copy(data, size);
        r = read_config(copy, size, &config);
        FUZZ_CHECK(config.rules.ls.n_uids <= DS_RULES_IDS_MAX && config.rules.ls.n_gids <= DS_RULES_IDS_MAX);
        FUZZ_CHECK(config.rules.n <= DS_RULES_MAX);
        if (r == 0)
                FUZZ_CHECK(read_config(copy, size, &config) == 0);
        ds_config_deinit(&config);
        free(copy);
        return 0;
}
