/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file: every key, and every mistake named with file, line and key. The silent traps of the parser
 * underneath (long lines, leading blanks, keys given twice) are errors here.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/config.h"
#include "util/alloc.h"
#include "util/macro.h"

static int read_text(const char *text, size_t size, struct ds_config *config, char *message, size_t message_size)
{
        FILE *f = fmemopen((void *)text, size, "r");
        int r;

        *config = (struct ds_config){0};
        r = ds_config_read(f, "test.conf", config, message, message_size);
        fclose(f);
        return r;
}

static void refuses(const char *text, const char *expected)
{
        struct ds_config config;
        char message[256];

        cr_assert_eq(read_text(text, strlen(text), &config, message, sizeof(message)), DS_CONFIG_E_INVALID, "%s", text);
        cr_assert_str_eq(message, expected);
        ds_config_deinit(&config);
}

Test(config, every_key)
{
        const char *text = "# a comment\n"
                           "[daemon]\n"
                           "policy = static\n"
                           "device=sim:h200\n"
                           "socket=/run/x.sock ; another\n"
                           "libcuda=/lib/libcuda.so.1\n"
                           "ptxas=/opt/ptxas\n"
                           "spin_us=6\n"
                           "\n"
                           "[limits]\n"
                           "connections=100\n"
                           "connections_per_uid=10\n"
                           "memory_per_uid=2\n"
                           "pinned_per_uid=3\n"
                           "orphan_seconds=4\n"
                           "kernel_seconds=5\n"
                           "quiesce_seconds=7\n"
                           "[class]\n"
                           "ls_uids=0, 1000,root\n"
                           "ls_groups=root\n";
        struct ds_config config;
        char message[256];

        cr_assert_eq(read_text(text, strlen(text), &config, message, sizeof(message)), 0, "%s", message);
        cr_assert_str_eq(config.policy, "static");
        cr_assert_str_eq(config.device, "sim:h200");
        cr_assert_str_eq(config.socket, "/run/x.sock");
        cr_assert_str_eq(config.libcuda, "/lib/libcuda.so.1");
        cr_assert_str_eq(config.ptxas, "/opt/ptxas");
        cr_assert_eq(config.spin_us, 6);
        cr_assert_eq(config.quiesce_seconds, 7);
        cr_assert_eq(config.orphan_seconds, 4);
        cr_assert_eq(config.kernel_seconds, 5);
        cr_assert_eq(config.connections, 100);
        cr_assert_eq(config.connections_per_uid, 10);
        cr_assert_eq(config.memory_per_uid, 2 << 20);
        cr_assert_eq(config.pinned_per_uid, 3 << 20);
        cr_assert_eq(config.rules.ls.n_uids, 3);
        cr_assert_eq(config.rules.ls.uids[1], 1000);
        cr_assert_eq(config.rules.ls.uids[2], 0);
        cr_assert_eq(config.rules.ls.n_gids, 1);
        cr_assert_not(config.rules.ls.every_uid);
        ds_config_deinit(&config);
}

Test(config, everybody_and_nothing)
{
        struct ds_config config;
        char message[256];

        cr_assert_eq(read_text("[class]\nls_uids=*\n", 18, &config, message, sizeof(message)), 0);
        cr_assert(config.rules.ls.every_uid);
        ds_config_deinit(&config);
        cr_assert_eq(read_text("\n", 1, &config, message, sizeof(message)), 0);
        cr_assert_null(config.policy);
        ds_config_deinit(&config);
}

Test(config, errors_name_line_and_key)
{
        refuses("[daemon]\nsocket=/a\nsocket=/b\n", "test.conf:3: [daemon] socket is given twice");
        refuses("[daemon]\npolice=fifo\n", "test.conf:2: there is no key [daemon] police");
        refuses("[demon]\npolicy=fifo\n", "test.conf:1: there is no section [demon]");
        refuses("[daemon]\npolicy=\n", "test.conf:2: [daemon] policy has no value");
        refuses("[daemon]\npolicy=fifo\n  more\n", "test.conf:3: the line begins with a blank");
        refuses("[daemon]\nnonsense\n", "test.conf:2: neither a [section] nor key=value");
        refuses("[daemon\n", "test.conf:1: neither a [section] nor key=value");
        refuses("[limits]\nconnections=many\n",
                "test.conf:2: [limits] connections: 'many' is not a number from 1 to 4294967295");
        refuses("[limits]\nconnections=-1\n",
                "test.conf:2: [limits] connections: '-1' is not a number from 1 to 4294967295");
        refuses("[limits]\nconnections=0\n",
                "test.conf:2: [limits] connections: '0' is not a number from 1 to 4294967295");
        refuses("[limits]\nmemory_per_uid=99999999999999999999\n",
                "test.conf:2: [limits] memory_per_uid: '99999999999999999999' is not a number of MiB");
        refuses("[daemon]\nspin_us=1000001\n",
                "test.conf:2: [daemon] spin_us: '1000001' is not a number from 1 to 1000000");
        refuses("[limits]\nkernel_seconds=0\n",
                "test.conf:2: [limits] kernel_seconds: '0' is not a number from 1 to 1000000");
        refuses("[class]\n\nls_uids=0,nobody-has-this-name\n",
                "test.conf:3: [class] ls_uids: there is no user 'nobody-has-this-name'");
        refuses("[class]\nls_groups=nobody-has-this-name\n",
                "test.conf:2: [class] ls_groups: there is no group 'nobody-has-this-name'");
}

Test(config, lines_are_never_cut)
{
        char text[600], message[256], expected[100];
        struct ds_config config;
        int n, longest = 0;

        for (int length = 100; length < 400; length++) {
                int r;

                n = snprintf(text, sizeof(text), "[daemon]\nsocket=%0*d\n", length, 7);
                r = read_text(text, (size_t)n, &config, message, sizeof(message));
                if (r == 0) {
                        cr_assert_eq((int)strlen(config.socket), length);
                        longest = length;
                }
                ds_config_deinit(&config);
        }
        cr_assert_geq(longest, 180);
        cr_assert_lt(longest, 200);
        snprintf(text, sizeof(text), "[daemon]\nsocket=%0*d\n", longest + 1, 7);
        snprintf(expected, sizeof(expected), "test.conf:2: the line is longer than 198 characters, or holds a NUL");
        refuses(text, expected);
        cr_assert_eq(read_text("[daemon]\npolicy=a\0b\n", 20, &config, message, sizeof(message)), DS_CONFIG_E_INVALID);
        ds_config_deinit(&config);
}

Test(config, too_many_ids)
{
        char text[600] = "[class]\nls_uids=";
        size_t n = strlen(text);

        for (int i = 0; i < 65; i++)
                n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%d", i ? "," : "", i % 10);
        snprintf(text + n, sizeof(text) - n, "\n");
        refuses(text, "test.conf:2: [class] ls_uids: more than 64 entries");
}

Test(config, a_file_that_is_not_there)
{
        struct ds_config config = {0};
        char message[256];

        cr_assert_eq(ds_config_load("/nowhere/x.conf", &config, message, sizeof(message)), DS_CONFIG_E_INVALID);
        cr_assert_str_eq(message, "/nowhere/x.conf: No such file or directory");
}

/* Random bytes: an answer, never a crash; and memory that runs out at any point. */
Test(config, random_bytes_and_memory)
{
        const char alphabet[] = "[]=\n\n;# \tdaemonpolicylimitsconnections09,*\0\xff";
        unsigned state = 20260303;
        struct ds_config config;
        char message[64], text[300];

        for (int i = 0; i < 20000; i++) {
                size_t size = 1 + (size_t)rand_r(&state) % (sizeof(text) - 1);

                for (size_t j = 0; j < size; j++)
                        text[j] = alphabet[(size_t)rand_r(&state) % (sizeof(alphabet) - 1)];
                cr_assert_geq(read_text(text, size, &config, message, sizeof(message)), 0);
                ds_config_deinit(&config);
        }
        ds_alloc_fail_after(0);
        cr_assert_lt(read_text("[daemon]\npolicy=x\n", 18, &config, message, sizeof(message)), 0);
        ds_alloc_fail_after(-1);
        ds_config_deinit(&config);
}
