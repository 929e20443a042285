/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl policies
 */
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"

/* One line per parameter: they come separated by newlines. */
static int add_policy(const struct dsc_policy *p, struct libscols_table *t)
{
        const char *cells[] = {p->name, p->active ? "yes" : "", p->description, NULL};
        const char *at = p->params;
        int r = 0;
        do {
                char line[256];
                const size_t n = strcspn(at, "\n");
                snprintf(line, sizeof(line), "%.*s", (int)n, at);
                cells[3] = line;
                r = ctl_table_row(t, cells);
                cells[0] = cells[1] = cells[2] = "";
                at += n + (at[n] == '\n');
        } while (*at && !r);
        return r;
}

static int table(const struct dsc_policy *policies, size_t n, struct ctl_text *text)
{
        struct libscols_table *t = ctl_table_new(1);
        int r = 0;
        if (!t) {
                ctl_complain("out of memory");
                return CTL_FAILED;
        }
        ctl_table_column(t, "POLICY", 0);
        ctl_table_column(t, "ACTIVE", 0);
        ctl_table_column(t, "DESCRIPTION", 0);
        ctl_table_column(t, "PARAMETERS", 0);
        for (size_t i = 0; i < n && !r; i++)
                r = add_policy(&policies[i], t);
        if (!r && n > 0)
                r = ctl_table_draw(t, text);
        ctl_table_free(t);
        return r;
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
                ctl_json_end(text, '}');
        }
        ctl_json_end(text, ']');
        ctl_json_end(text, '}');
}

static int show(const struct dsc_policy *policies, size_t n, int as_json)
{
        struct ctl_text text;
        int r = ctl_text_open(&text);
        if (r)
                return r;
        if (as_json)
                json(policies, n, &text);
        else
                r = table(policies, n, &text);
        return ctl_text_close(&text, r);
}

int cmd_policies(const struct ctl_command *self, int argc, char **argv)
{
        struct dsc_policy *policies = NULL;
        dsc_session *s = NULL;
        size_t n = 0;
        int as_json = 0;
        int code = ctl_options(self, argc, argv, &as_json, 0, 0);
        if (code >= 0)
                return code;
        code = ctl_open(&s);
        if (code)
                return code;
        const int r = dsc_control_policies(s, &policies, &n);
        code = r ? ctl_fail(r, "cannot list the policies") : show(policies, n, as_json);
        free(policies);
        dsc_control_close(s);
        return code;
}
