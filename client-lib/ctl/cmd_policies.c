/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl policies: the names, or one policy's parameters with the values in force
 */
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/policy_text.h"

/* --- a list of names ---------------------------------------------------------------------------------------------- */

static int list_row(const struct dsc_policy *p, struct ctl_table *t)
{
        const int r = ctl_table_row(t, (const char *const[]){p->active ? "*" : "", p->name, p->description});
        ctl_table_colour(t, 0, CTL_GOOD);
        ctl_table_colour(t, 1, p->active ? CTL_GOOD : CTL_PLAIN);
        return r;
}

static int list(const struct dsc_policy *policies, size_t n, struct ctl_text *text)
{
        struct ctl_table *t = ctl_table_new(1);
        int r = 0;
        if (!t) {
                ctl_complain("out of memory");
                return CTL_FAILED;
        }
        ctl_table_column(t, " ", 0);
        ctl_table_column(t, "POLICY", 0);
        ctl_table_column(t, "DESCRIPTION", 0);
        ctl_table_may(t, 20, 0);
        for (size_t i = 0; i < n && !r; i++)
                r = list_row(&policies[i], t);
        if (!r && n > 0)
                r = ctl_table_draw(t, text);
        if (!r && n > 0)
                fputs("* is in force. detsharectl policies NAME shows the parameters of one.\n", text->file);
        ctl_table_free(t);
        return r;
}

/* --- one policy --------------------------------------------------------------------------------------------------- */

/* Prints a parameter's name, values and meaning. */
static void put_param(const struct dsc_policy *p, const struct ctl_param *param, FILE *file)
{
        char line[512], now[96] = "";
        long long value;
        const int in_force = ctl_param_in_force(p->in_force, param->name, &value);
        if (in_force)
                snprintf(now, sizeof(now), "%s%lld in force%s, ",
                        ctl_colour(value != param->def ? CTL_WARN : CTL_PLAIN), value, ctl_colour(CTL_PLAIN));
        snprintf(line, sizeof(line), "%s%-24s%s %sdefault %lld, %lld..%lld, %s", ctl_colour(CTL_BOLD), param->name,
                ctl_colour(CTL_PLAIN), now, param->def, param->min, param->max, ctl_param_type(param));
        fputs("\n  ", file);
        ctl_wrap(file, line, 2, 6, ctl_width());
        fputs("      ", file);
        ctl_wrap(file, param->help, 6, 6, ctl_width());
}

static void details(const struct dsc_policy *p, struct ctl_text *text)
{
        const char *at = p->params;
        struct ctl_param param;
        char line[512];
        int next;
        snprintf(line, sizeof(line), "%s (%s): %s", p->name, p->active ? "in force" : "not in force", p->description);
        ctl_wrap(text->file, line, 0, 0, ctl_width());
        if (!p->params[0])
                fputs("It has no parameters.\n", text->file);
        while ((next = ctl_next_param(&at, &param)))
                if (next > 0)
                        put_param(p, &param, text->file);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void json_params(const struct dsc_policy *p, struct ctl_text *text)
{
        struct ctl_param param;
        const char *at = p->params;
        int next;
        ctl_json_begin(text, "parameters", '[');
        while ((next = ctl_next_param(&at, &param))) {
                long long value;
                if (next < 0)
                        continue;
                ctl_json_begin(text, NULL, '{');
                ctl_json_string(text, "name", param.name);
                ctl_json_string(text, "type", ctl_param_type(&param));
                ctl_json_signed(text, "min", param.min);
                ctl_json_signed(text, "max", param.max);
                ctl_json_signed(text, "default", param.def);
                if (ctl_param_in_force(p->in_force, param.name, &value))
                        ctl_json_signed(text, "in_force", value);
                ctl_json_string(text, "help", param.help);
                ctl_json_end(text, '}');
        }
        ctl_json_end(text, ']');
}

static void json(const struct dsc_policy *policies, size_t n, struct ctl_text *text)
{
        ctl_json_begin(text, NULL, '{');
        ctl_json_begin(text, "policies", '[');
        for (size_t i = 0; i < n; i++) {
                ctl_json_begin(text, NULL, '{');
                ctl_json_string(text, "name", policies[i].name);
                ctl_json_bool(text, "active", policies[i].active);
                ctl_json_string(text, "description", policies[i].description);
                ctl_json_string(text, "params", policies[i].params);
                json_params(&policies[i], text);
                ctl_json_end(text, '}');
        }
        ctl_json_end(text, ']');
        ctl_json_end(text, '}');
}

/* --- the command -------------------------------------------------------------------------------------------------- */

void ctl_say_policies(const struct dsc_policy *policies, size_t n)
{
        char *line = NULL;
        size_t size = 0;
        FILE *words = n ? open_memstream(&line, &size) : NULL;
        if (!words)
                return;
        for (size_t i = 0; i < n; i++)
                fprintf(words, "%s%s", i ? ", " : "the policies are: ", policies[i].name);
        if (!fclose(words))
                ctl_wrap(stderr, line, 0, 0, CTL_HELP_WIDTH);
        free(line);
}

static int show(const struct dsc_policy *policies, size_t n, const char *name, int as_json)
{
        struct ctl_text text;
        size_t i = 0;
        while (name && i < n && strcmp(policies[i].name, name))
                i++;
        if (name && i == n) {
                ctl_complain("there is no policy %s", name);
                ctl_say_policies(policies, n);
                return CTL_NO_SUCH;
        }
        int r = ctl_text_open(&text);
        if (r)
                return r;
        if (as_json)
                json(&policies[i], name ? 1 : n, &text);
        else if (name)
                details(&policies[i], &text);
        else
                r = list(policies, n, &text);
        return ctl_text_close(&text, r);
}

int cmd_policies(const struct ctl_args *args)
{
        struct dsc_policy *policies = NULL;
        dsc_session *s = NULL;
        size_t n = 0;
        int code = ctl_open(&s);
        if (code)
                return code;
        const int r = dsc_control_policies(s, &policies, &n);
        code = r ? ctl_fail(r, "cannot list the policies")
                 : show(policies, n, args->argc ? args->argv[0] : NULL, ctl_given(args, "json"));
        free(policies);
        dsc_control_close(s);
        return code;
}
