/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file, and a second one read after it like a file of conf.d
 *
 * A byte 0x1e ends the first file. A refused text causes one message that names file and line. Accepted values are
 * within their limits. Reading the same text again on top succeeds.
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

static void read_files(const uint8_t *data, size_t size)
{
        const uint8_t *end = memchr(data, 0x1e, size);
        size_t first = end ? (size_t)(end - data) : size, rest = end ? size - first - 1 : 0;
        struct ds_config config = {0};
        int r = first ? read_config(data, first, &config) : 0;

        if (r == 0 && rest)
                r = read_config(end + 1, rest, &config);
        FUZZ_CHECK(config.rules.ls.n_uids <= DS_RULES_IDS_MAX && config.rules.ls.n_gids <= DS_RULES_IDS_MAX);
        FUZZ_CHECK(config.rules.n <= DS_RULES_MAX);
        if (r == 0 && !rest && first)
                FUZZ_CHECK(read_config(data, first, &config) == 0);
        ds_config_deinit(&config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint8_t *copy = fuzz_copy(data, size);

        read_files(copy, size);
        free(copy);
        return 0;
}
