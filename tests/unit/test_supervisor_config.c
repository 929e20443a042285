/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file: every key, and every mistake with file, line and key. Inputs that the parser below would
 * accept silently (long lines, leading blanks, repeated keys) are errors.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

#define SECTIONS "[daemon], [limits], [gpu], [channels], [class], [user NAME], [group NAME] and [policy NAME]"

static void refuses(const char *text, const char *expected)
{
        struct ds_config config;
        char message[640];

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
                           "transform=never\n"
                           "evict_us=250\n"
                           "graph_piece_us=150\n"
                           "\n"
                           "[limits]\n"
                           "connections=100\n"
                           "connections_per_uid=10\n"
                           "memory_per_uid=2\n"
                           "pinned_per_uid=3\n"
                           "orphan_seconds=4\n"
                           "kernel_seconds=5\n"
                           "quiesce_seconds=7\n"
                           "[gpu]\n"
                           "ladder_steps=24\n"
                           "ladder_order=gpc\n"
                           "settle=never\n"
                           "[channels]\n"
                           "pool_mib=256\n"
                           "be=1/3\n"
                           "tables=/opt/lut\n"
                           "[class]\n"
                           "ls_uids=0, 1000,root\n"
                           "ls_groups=root\n";
        struct ds_config config;
        char message[256];

        cr_assert_eq(read_text(text, strlen(text), &config, message, sizeof(message)), 0, "%s", message);
        cr_assert_eq(config.settle_never, 1);
        cr_assert_str_eq(config.policy, "static");
        cr_assert_str_eq(config.device, "sim:h200");
        cr_assert_str_eq(config.socket, "/run/x.sock");
        cr_assert_str_eq(config.libcuda, "/lib/libcuda.so.1");
        cr_assert_str_eq(config.ptxas, "/opt/ptxas");
        cr_assert_eq(config.spin_us, 6);
        cr_assert_eq(config.spin_never, 0);
        cr_assert_eq(config.transform, DS_TRANSFORM_NEVER);
        cr_assert_eq(config.evict_us, 250);
        cr_assert_eq(config.graph_piece_us, 150);
        cr_assert_eq(config.quiesce_seconds, 7);
        cr_assert_eq(config.ladder_steps, 24);
        cr_assert_eq(config.ladder_by_gpc, 1);
        cr_assert_eq(config.pool_bytes, DS_MIB(256));
        cr_assert_str_eq(config.pool_be, "1/3");
        cr_assert_str_eq(config.lut, "/opt/lut");
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
        refuses("[daemon]\nsocket=/a\nsocket=/b\n",
                "test.conf:3: [daemon] socket is given twice in this file; remove one of the lines");
        refuses("[daemon]\npolice=fifo\n", "test.conf:2: there is no key [daemon] police; accepted are policy, device, "
                                           "socket, libcuda, spin_us, ptxas, "
                                           "state, transform, evict_us, graph_piece_us");
        refuses("[demon]\npolicy=fifo\n", "test.conf:1: there is no section [demon]; accepted are " SECTIONS);
        refuses("[daemon]\npolicy=\n",
                "test.conf:2: [daemon] policy has no value; remove the line to keep the default");
        refuses("[daemon]\npolicy=fifo\n  more\n",
                "test.conf:3: the line begins with a blank; keys and sections begin in the first column");
        refuses("[daemon]\nnonsense\n", "test.conf:2: the line is neither a [section] nor key=value");
        refuses("[daemon\n", "test.conf:1: the line is neither a [section] nor key=value");
        refuses("[limits]\nconnections=many\n",
                "test.conf:2: [limits] connections: 'many' is not a number from 1 to 4294967295");
        refuses("[limits]\nconnections=-1\n",
                "test.conf:2: [limits] connections: '-1' is not a number from 1 to 4294967295");
        refuses("[limits]\nconnections=0\n",
                "test.conf:2: [limits] connections: '0' is not a number from 1 to 4294967295");
        refuses("[limits]\nmemory_per_uid=99999999999999999999\n",
                "test.conf:2: [limits] memory_per_uid: '99999999999999999999' is not a number of MiB from 1 to "
                "1099511627776");
        refuses("[channels]\npool_mib=262145\n",
                "test.conf:2: [channels] pool_mib: '262145' is not a number of MiB from 0 to 262144");
        for (size_t i = 0; i < 4; i++) {
                static const char *const shares[] = {"4/3", "0", "half", "1/"};
                char text[64], words[160];

                snprintf(text, sizeof(text), "[channels]\nbe=%s\n", shares[i]);
                snprintf(words, sizeof(words),
                        "test.conf:2: [channels] be: '%s' is neither auto nor off nor a number of channels nor a "
                        "fraction like 1/3",
                        shares[i]);
                refuses(text, words);
        }
        refuses("[daemon]\ntransform=often\n",
                "test.conf:2: [daemon] transform: 'often' is neither always nor auto nor never");
        refuses("[daemon]\nspin_us=1000001\n",
                "test.conf:2: [daemon] spin_us: '1000001' is not a number from 0 to 1000000");
        refuses("[limits]\nkernel_seconds=0\n",
                "test.conf:2: [limits] kernel_seconds: '0' is not a number from 1 to 1000000");
        refuses("[class]\n\nls_uids=0,nobody-has-this-name\n",
                "test.conf:3: [class] ls_uids: there is no user 'nobody-has-this-name'; a name or a number is "
                "accepted");
        refuses("[class]\nls_groups=nobody-has-this-name\n", "test.conf:2: [class] ls_groups: there is no group "
                                                             "'nobody-has-this-name'; a name or a number is accepted");
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
        snprintf(expected, sizeof(expected),
                "test.conf:2: the line is longer than 198 characters, the most accepted, or has a NUL byte");
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
        refuses(text, "test.conf:2: [class] ls_uids has more than 64 entries, the most accepted; '*' means everybody");
}

Test(config, a_file_that_is_not_there)
{
        struct ds_config config = {0};
        char message[256];

        cr_assert_eq(ds_config_load("/nowhere/x.conf", &config, message, sizeof(message)), DS_CONFIG_E_INVALID);
        cr_assert_str_eq(message, "/nowhere/x.conf: No such file or directory");
}

/* Random bytes give an answer, never a crash; so does an allocation that fails at any point. */
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

/* --- users, groups, policies -------------------------------------------------------------------------------------- */

static const struct ds_rule *rule_of(const struct ds_config *config, enum ds_rule_from from, uint32_t id)
{
        for (size_t i = 0; i < config->rules.n; i++)
                if (config->rules.rules[i].from == from && config->rules.rules[i].id == id)
                        return &config->rules.rules[i];
        cr_assert_fail("no rule");
        return NULL;
}

Test(config, rules_and_parameters)
{
        const char *text =
                "[limits]\nsessions_per_uid=8\nsm_percent=90\ncalls_per_second=100\ncalls_burst=9\n"
                "gpu_request_percent=25\ngpu_limit_percent=75\nslo=2x\n"
                "[user root]\nclasses = ls, be\nsm_percent=30\nmemory=5\npinned=none\nsessions=2\n"
                "connections=3\ncalls_per_second=4\ncalls_burst=6\ngpu_request_percent=2\ngpu_limit_percent=60\n"
                "slo=1.5x\nttft=200ms\ntpot=2.5ms\n"
                "[group 1234]\nclasses=\nslo=none\n"
                "[policy multistream]\ndepth=4\nwindow=7\n[policy static]\ndepth=9\n";
        const struct ds_config_param *params[DS_CONFIG_PARAMS_MAX];
        const struct ds_rule *rule;
        struct ds_config config;
        char message[256];

        cr_assert_eq(read_text(text, strlen(text), &config, message, sizeof(message)), 0, "%s", message);
        cr_assert_eq(config.sessions_per_uid, 8);
        cr_assert_eq(config.sm_percent, 90);
        cr_assert_eq(config.gpu_request_percent, 25);
        cr_assert_eq(config.gpu_limit_percent, 75);
        cr_assert_eq(config.calls_per_second, 100);
        cr_assert_eq(config.calls_burst, 9);
        cr_assert_eq(config.slo, DS_RULE_FACTOR | 2000);
        rule = rule_of(&config, DS_FROM_USER, 0);
        cr_assert_eq(rule->given, (1u << _DS_RULE_MAX) - 1);
        cr_assert_eq(rule->value[DS_RULE_CLASSES], DS_CLASS_BIT_LS | DS_CLASS_BIT_BE);
        cr_assert_eq(rule->value[DS_RULE_SM_PERCENT], 30);
        cr_assert_eq(rule->value[DS_RULE_GPU_REQUEST], 20, "thousandths");
        cr_assert_eq(rule->value[DS_RULE_GPU_LIMIT], 600);
        cr_assert_eq(rule->value[DS_RULE_SLO], DS_RULE_FACTOR | 1500);
        cr_assert_eq(rule->value[DS_RULE_TTFT], 200000000);
        cr_assert_eq(rule->value[DS_RULE_TPOT], 2500000);
        cr_assert_eq(rule->value[DS_RULE_MEMORY], 5 << 20);
        cr_assert_eq(rule->value[DS_RULE_PINNED], DS_RIGHT_NONE);
        cr_assert_eq(rule->value[DS_RULE_SESSIONS], 2);
        cr_assert_eq(rule->value[DS_RULE_CONNECTIONS], 3);
        cr_assert_eq(rule->value[DS_RULE_CALLS], 4);
        cr_assert_eq(rule->value[DS_RULE_BURST], 6);
        rule = rule_of(&config, DS_FROM_GROUP, 1234);
        cr_assert_eq(rule->given, 1u << DS_RULE_CLASSES | 1u << DS_RULE_SLO);
        cr_assert_eq(rule->value[DS_RULE_SLO], 0);
        cr_assert_eq(rule->value[DS_RULE_CLASSES], 0);
        cr_assert_eq(ds_config_params(&config, "multistream", params), 2);
        cr_assert_str_eq(params[1]->text, "window=7");
        cr_assert_str_eq(params[1]->where, "test.conf:28");
        cr_assert_eq(ds_config_params(&config, "static", params), 1);
        cr_assert_eq(ds_config_params(&config, "fifo", params), 0);
        ds_config_deinit(&config);
}

Test(config, errors_of_rules_and_parameters)
{
        refuses("[user nobody-has-this-name]\n", "test.conf:1: [user nobody-has-this-name]: there is no user "
                                                 "'nobody-has-this-name'; a name or a number is accepted");
        refuses("[group nobody-has-this-name]\nsessions=1\n",
                "test.conf:1: [group nobody-has-this-name]: there is no group 'nobody-has-this-name'; a name or a "
                "number is accepted");
        refuses("[user]\nsessions=1\n", "test.conf:1: there is no section [user]; accepted are " SECTIONS);
        refuses("[user a b]\n", "test.conf:1: [user a b]: one name without '/' is accepted, as in [user alice]");
        refuses("[user 4294967295]\n",
                "test.conf:1: [user 4294967295]: there is no user '4294967295'; a name or a number is accepted");
        refuses("[user 5]\nsession=1\n",
                "test.conf:2: there is no key [user 5] session; accepted are classes, sm_percent, "
                "gpu_request_percent, gpu_limit_percent, slo, ttft, tpot, memory, pinned, sessions, connections, "
                "calls_per_second, "
                "calls_burst");
        refuses("[user 5]\nsessions=0\n",
                "test.conf:2: [user 5] sessions: '0' is not a number from 1 to 4294967295 or 'none'");
        refuses("[user 5]\nslo=fast\n", "test.conf:2: [user 5] slo: 'fast' is not an objective: a latency such as 5ms, "
                                        "a factor from 1x to 100x "
                                        "such as 1.5x, or none");
        refuses("[limits]\ntpot=0.5x\n",
                "test.conf:2: [limits] tpot: '0.5x' is not an objective: a latency such as 5ms, a factor from 1x to "
                "100x such as 1.5x, or none");
        refuses("[user 5]\ngpu_limit_percent=101\n",
                "test.conf:2: [user 5] gpu_limit_percent: '101' is not a number from 1 to 100");
        refuses("[user 5]\nsm_percent=101\n", "test.conf:2: [user 5] sm_percent: '101' is not a number from 1 to 100");
        refuses("[user 5]\nclasses=ls,vip\n",
                "test.conf:2: [user 5] classes: 'vip' is not a class; ls and be are accepted");
        /* a file that names the same user by name and by number */
        refuses("[user root]\nsessions=1\n[user 0]\nsessions=2\n",
                "test.conf:4: [user 0] sessions is given twice in this file; remove one of the lines");
        refuses("[policy x]\na=1\na=2\n",
                "test.conf:3: [policy x] a is given twice in this file; remove one of the lines");
        refuses("[policy x]\na=\n", "test.conf:2: [policy x] a has no value");
        refuses("[policy x/y]\n", "test.conf:1: [policy x/y]: one name without '/' is accepted, as in [user alice]");
        refuses("policy=fifo\n",
                "test.conf:1: the key policy stands before the first [section]; write its section above it");
        refuses("[limits] connections=1\n",
                "test.conf:1: there is text after the section's name; only a comment is accepted there");
        refuses("[daemon]\nsocket=/a # why\n",
                "test.conf:2: [daemon] socket: '#' within a value; a comment after a value begins with ';'");
        refuses("[daemon]\nsocket=\"/a\"\n",
                "test.conf:2: [daemon] socket: \"/a\" is in quotes; write the value without quotes");
        refuses("[daemon]\npolicy=../x\n", "test.conf:2: [daemon] policy: '../x' is not a policy name; 1 to 63 "
                                           "characters without '/' are accepted");
        refuses("[user 12345678901234567890123456789012345678901234567890123456789]\n",
                "test.conf:1: the section's name has more than 63 characters, the most accepted");
}

Test(config, too_many_parameters)
{
        char text[600] = "[policy p]\n";
        size_t n = strlen(text);

        for (int i = 0; i < 49; i++)
                n += (size_t)snprintf(text + n, sizeof(text) - n, "k%d=1\n", i);
        refuses(text,
                "test.conf:50: [policy p] k48: too many parameters; a policy may have 48, all policies together 1024");
}

Test(config, files_that_editors_leave)
{
        const char *crlf = "\xef\xbb\xbf[daemon]\r\npolicy=fifo\r\n\r\n; x\r\nsocket=/a";
        struct ds_config config;
        char message[256];

        cr_assert_eq(read_text(crlf, strlen(crlf), &config, message, sizeof(message)), 0, "%s", message);
        cr_assert_str_eq(config.policy, "fifo");
        cr_assert_str_eq(config.socket, "/a", "the last line has no end");
        ds_config_deinit(&config);
        refuses("[daemon]\npolicy=fi\rfo\n",
                "test.conf:2: there is a carriage return within the line; only LF or CR LF at its end is accepted");
        refuses("[daemon]\npolicy=fi\x1b[1mfo\n",
                "test.conf:2: there is a control character (0x1b) in the line; of these only tabs are accepted");
        refuses("[[daemon]]\npolicy=fifo\n",
                "test.conf:1: there is text after the section's name; only a comment is accepted there");
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static char dir[64];

static void put(const char *name, const char *text)
{
        char path[128];
        FILE *f;

        snprintf(path, sizeof(path), "%s/%s", dir, name);
        f = fopen(path, "w");
        cr_assert(f);
        fputs(text, f);
        fclose(f);
}

static void make_dir(void)
{
        char path[128];

        snprintf(dir, sizeof(dir), "/tmp/detshare-conf-XXXXXX");
        cr_assert(mkdtemp(dir));
        snprintf(path, sizeof(path), "%s/conf.d", dir);
        cr_assert_eq(mkdir(path, 0755), 0);
}

static void remove_dir(void)
{
        char command[128];

        snprintf(command, sizeof(command), "rm -rf %s", dir);
        cr_assert_eq(system(command), 0);
}

/* Loads the file. Returns "" if it was read, otherwise the message without the directory. */
static const char *load(int must_exist, struct ds_config *config)
{
        static char message[512];
        char path[128];
        int r;

        *config = (struct ds_config){0};
        snprintf(path, sizeof(path), "%s/x.conf", dir);
        r = ds_config_load_all(path, must_exist, config, message, sizeof(message));
        cr_assert_eq(r, message[0] ? DS_CONFIG_E_INVALID : 0, "%s", message);
        return strncmp(message, dir, strlen(dir)) ? message : message + strlen(dir);
}

static void load_refuses(const char *expected)
{
        struct ds_config config;

        cr_assert_str_eq(load(1, &config), expected);
        ds_config_deinit(&config);
}

Test(config, files_in_order, .init = make_dir, .fini = remove_dir)
{
        const struct ds_config_param *params[DS_CONFIG_PARAMS_MAX];
        struct ds_config config;

        put("x.conf", "[daemon]\npolicy=a\nsocket=/a\n[class]\nls_uids=1,2\n[user 5]\nsessions=1\nmemory=1\n"
                      "[policy a]\nk=1\nl=1\n");
        put("conf.d/10.conf", "[daemon]\npolicy=b\n[class]\nls_uids=3\n[user 5]\nsessions=2\n[policy a]\nk=2\n");
        put("conf.d/9.conf", "[daemon]\npolicy=c\n");
        put("conf.d/.hidden.conf", "nonsense");
        put("conf.d/x.conf~", "nonsense");
        put("conf.d/.conf", "nonsense");
        cr_assert_str_eq(load(1, &config), "");
        cr_assert_str_eq(config.policy, "c", "\"9\" comes after \"10\"");
        cr_assert_str_eq(config.socket, "/a");
        cr_assert_eq(config.rules.ls.n_uids, 1);
        cr_assert_eq(config.rules.ls.uids[0], 3, "a list is replaced");
        cr_assert_eq(rule_of(&config, DS_FROM_USER, 5)->value[DS_RULE_SESSIONS], 2);
        cr_assert_eq(rule_of(&config, DS_FROM_USER, 5)->value[DS_RULE_MEMORY], 1 << 20);
        cr_assert_eq(ds_config_params(&config, "a", params), 2);
        cr_assert_str_eq(params[0]->text, "k=2");
        cr_assert(strstr(params[0]->where, "conf.d/10.conf:8"), "%s", params[0]->where);
        ds_config_deinit(&config);
        put("conf.d/5.conf", "[daemon]\npolicy=b\npolicy=c\n");
        load_refuses("/conf.d/5.conf:3: [daemon] policy is given twice in this file; remove one of the lines");
}

Test(config, files_that_are_none, .init = make_dir, .fini = remove_dir)
{
        struct ds_config config;
        char path[128], name[32];

        load_refuses("/x.conf: No such file or directory");
        cr_assert_str_eq(load(0, &config), "");
        snprintf(path, sizeof(path), "%s/conf.d/dir.conf", dir);
        cr_assert_eq(mkdir(path, 0755), 0);
        cr_assert_str_eq(load(0, &config), "/conf.d/dir.conf: it is a directory");
        rmdir(path);
        cr_assert_eq(mkfifo(path, 0600), 0);
        cr_assert_str_eq(load(0, &config), "/conf.d/dir.conf: it is not a regular file");
        unlink(path);
        cr_assert_eq(symlink("/dev/zero", path), 0);
        cr_assert_str_eq(load(0, &config), "/conf.d/dir.conf: it is not a regular file");
        unlink(path);
        for (int i = 0; i < 257; i++) {
                snprintf(name, sizeof(name), "conf.d/%d.conf", i);
                put(name, "");
        }
        cr_assert_str_eq(load(0, &config), "/conf.d: it has 257 files *.conf; at most 256 are accepted");
}

Test(config, a_long_file, .init = make_dir, .fini = remove_dir)
{
        struct ds_config config;
        char path[128];
        FILE *f;

        snprintf(path, sizeof(path), "%s/x.conf", dir);
        f = fopen(path, "w");
        cr_assert(f);
        for (int i = 0; i < (1 << 20) / 64; i++)
                fprintf(f, ";%062d\n", i);
        fclose(f);
        cr_assert_str_eq(load(1, &config), "");
        ds_config_deinit(&config);
        f = fopen(path, "a");
        fputs("\n", f);
        fclose(f);
        load_refuses("/x.conf:16385: the file is longer than 1048576 bytes, the most accepted");
}

Test(config, files_that_others_may_write, .init = make_dir, .fini = remove_dir)
{
        char path[128];

        if (geteuid() != 0)
                skip_test("root, to become another user");
        put("x.conf", "");
        snprintf(path, sizeof(path), "%s/x.conf", dir);
        cr_assert_eq(chmod(path, 0666), 0);
        load_refuses("/x.conf: nobody but root may be able to write it, because the daemon runs as root");
        cr_assert_eq(chmod(path, 0644) | chown(path, 0, 7), 0);
        load_refuses("");
        cr_assert_eq(chmod(path, 0664), 0);
        load_refuses("/x.conf: nobody but root may be able to write it, because the daemon runs as root");
        cr_assert_eq(chown(path, 7, 0), 0);
        load_refuses("/x.conf: root must own it, because the daemon runs as root");
        cr_assert_eq(chown(path, 0, 0), 0);
        load_refuses("");
        snprintf(path, sizeof(path), "%s/conf.d", dir);
        cr_assert_eq(chmod(path, 0777), 0);
        load_refuses("/conf.d: nobody but root may be able to write it, because the daemon runs as root");
        cr_assert_eq(chmod(path, 0700) | chown(path, 7, 7), 0);
        load_refuses("/conf.d: root must own it, because the daemon runs as root");
}

/* Every allocation of a whole configuration fails once. */
Test(config, memory_runs_out_anywhere)
{
        const char *text = "[daemon]\npolicy=a\nsocket=/b\n[user 5]\nsessions=1\n[group 6]\nmemory=1\n"
                           "[policy a]\nk=1\nl=2\n[policy b]\nk=1\n";
        struct ds_config config;
        char message[256];
        int r = -1, n;

        for (n = 0; r && n < 100; n++) {
                ds_alloc_fail_after(n);
                r = read_text(text, strlen(text), &config, message, sizeof(message));
                ds_alloc_fail_after(-1);
                cr_assert(r == 0 || r == -ENOMEM, "%d: %s", r, message);
                ds_config_deinit(&config);
        }
        cr_assert_eq(r, 0);
        cr_assert_gt(n, 12);
}
