/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl profile: what is known of kernels
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/profile.h"

static int fetch(const char *filter, struct dsc_profiles *ret)
{
        dsc_session *s = NULL;
        int code = ctl_open(&s);
        if (code)
                return code;
        const int r = dsc_control_profiles(s, filter, 0, ret);
        if (r)
                code = ctl_fail(r, "cannot list the profiles");
        dsc_control_close(s);
        return code;
}

static int cmd_list(const struct ctl_command *self, int argc, char **argv)
{
        struct dsc_profiles profiles;
        struct ctl_text text;
        int as_json = 0;
        int code = ctl_options(self, argc, argv, &as_json, 0, 1);
        if (code >= 0)
                return code;
        code = fetch(optind < argc ? argv[optind] : "", &profiles);
        if (code)
                return code;
        code = ctl_text_open(&text);
        if (!code)
                code = ctl_text_close(&text, profile_list(&profiles, as_json, 0, &text));
        free(profiles.rows);
        return code;
}

static int cmd_show(const struct ctl_command *self, int argc, char **argv)
{
        struct dsc_profiles profiles;
        struct ctl_text text;
        int code = ctl_options(self, argc, argv, NULL, 1, 1);
        if (code >= 0)
                return code;
        code = fetch(argv[optind], &profiles);
        if (code)
                return code;
        if (!profiles.n) {
                ctl_complain("no kernel whose name contains %s was seen", argv[optind]);
                code = CTL_NO_SUCH;
        }
        if (!code)
                code = ctl_text_open(&text);
        if (!code)
                code = ctl_text_close(&text, profile_details(&profiles, &text));
        free(profiles.rows);
        return code;
}

static int cmd_forget(const struct ctl_command *self, int argc, char **argv)
{
        dsc_session *s = NULL;
        uint64_t count = 0;
        const int all = argc == 2 && !strcmp(argv[1], "--all");
        int code = all ? -1 : ctl_options(self, argc, argv, NULL, 1, 1);
        if (code >= 0)
                return code;
        const char *filter = all ? "" : argv[optind];
        code = ctl_open(&s);
        if (code)
                return code;
        const int r = dsc_control_profiles_forget(s, filter, &count);
        if (r)
                code = ctl_fail(r, "cannot forget the profiles");
        else
                printf("%" PRIu64 " forgotten\n", count);
        dsc_control_close(s);
        return code;
}

static int cmd_export(const struct ctl_command *self, int argc, char **argv)
{
        struct dsc_profiles profiles;
        int code = ctl_options(self, argc, argv, NULL, 1, 1);
        if (code >= 0)
                return code;
        code = fetch("", &profiles);
        if (code)
                return code;
        code = profile_export(&profiles, argv[optind]);
        free(profiles.rows);
        return code;
}

static int cmd_import(const struct ctl_command *self, int argc, char **argv)
{
        struct dsc_profiles there;
        struct dsc_profile *rows = NULL;
        dsc_session *s = NULL;
        size_t n = 0;
        int code = ctl_options(self, argc, argv, NULL, 1, 1);
        if (code >= 0)
                return code;
        code = fetch("", &there);
        if (code)
                return code;
        free(there.rows);
        code = profile_import(argv[optind], there.gpu, &rows, &n);
        if (!code)
                code = ctl_open(&s);
        if (code) {
                free(rows);
                return code;
        }
        const int r = dsc_control_profiles_put(s, rows, n);
        if (r)
                code = ctl_fail(r, "cannot import %s", argv[optind]);
        else
                printf("%zu imported\n", n);
        free(rows);
        dsc_control_close(s);
        return code;
}

static const struct ctl_command commands[] = {
        {"profile list", "[--json] [NAME]", "the kernels that were seen, or those whose names contain NAME", NULL,
                cmd_list},
        {"profile show", "NAME", "all that was measured of the kernels whose names contain NAME", NULL, cmd_show},
        {"profile forget", "NAME | --all", "measure them anew", NULL, cmd_forget},
        {"profile export", "FILE", "write all profiles of this GPU to FILE (- is standard output)", NULL, cmd_export},
        {"profile import", "FILE", "take those of FILE (- is standard input)", NULL, cmd_import},
        {"profile run", "[--samples N] [--tolerance PERMILLE] [--seconds N] [--json] -- COMMAND [ARGUMENT...]",
                "run a program and measure its kernels",
                "Everything on the GPU goes one by one meanwhile; the policy that was set comes back afterwards.\n"
                "After N seconds nothing more is measured. Exits like the program.\n",
                profile_run},
};

/* Any folder with a pack in it: the subcommands' names win. */
static const struct ctl_command pack_command = {"profile PACK", "[--requests N] [--json]",
        "measure a model pack's kernels",
        "Their stairs, as `profile run -- detshare-serve PACK --requests N` (100), and whether memory bounds them.\n",
        profile_pack};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static int help(const struct ctl_command *self)
{
        const int code = ctl_help(self);
        printf("\n");
        for (size_t i = 0; i < N_COMMANDS; i++)
                printf("  %s %s\n      %s\n", commands[i].name, commands[i].arguments, commands[i].summary);
        printf("  %s %s\n      %s\n", pack_command.name, pack_command.arguments, pack_command.summary);
        return code;
}

int cmd_profile(const struct ctl_command *self, int argc, char **argv)
{
        if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
                return help(self);
        if (argc < 2)
                return ctl_usage("profile: an argument is missing: %s", self->arguments);
        for (size_t i = 0; i < N_COMMANDS; i++)
                if (!strcmp(commands[i].name + strlen("profile "), argv[1]))
                        return commands[i].run(&commands[i], argc - 1, argv + 1);
        for (int i = 1; i < argc; i++)
                if (profile_is_pack(argv[i]))
                        return profile_pack(&pack_command, argc, argv);
        return ctl_usage("profile: there is no %s: %s", argv[1], self->arguments);
}
