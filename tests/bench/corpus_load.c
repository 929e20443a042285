/* SPDX-License-Identifier: Apache-2.0 */
/*
 * corpus_load FILE...: counts which modules and kernels of the corpus the simulated device loads, and which
 * instructions it refuses
 *
 * A module is refused if the device does not execute an instruction of one of its kernels. So each kernel is also
 * loaded alone, with the functions of its module. Prints modules and kernels per target (the file's folder), then the
 * number of kernels that are refused for each instruction. Nothing runs. Exit status 1 if a file cannot be read or
 * parsed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/interp/interp.h"
#include "ptx/ir.h"
#include "ptx/ptx.h"
#include "util/macro.h"

#define MAX_ROWS 200

struct row {
        char name[100];
        uint32_t modules, modules_loaded, kernels, kernels_loaded;
};

static struct row targets[MAX_ROWS], reasons[MAX_ROWS];

static struct row *find(struct row *rows, const char *name)
{
        for (uint32_t i = 0; i < MAX_ROWS; i++) {
                if (!rows[i].name[0])
                        snprintf(rows[i].name, sizeof(rows[i].name), "%s", name);
                if (strcmp(rows[i].name, name) == 0)
                        return &rows[i];
        }
        fprintf(stderr, "corpus_load: more than %u rows\n", MAX_ROWS);
        exit(1);
}

static bool loads(const struct ds_ptx_module *module, struct ds_ptx_diags *diags)
{
        ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;

        *diags = (struct ds_ptx_diags){0};
        return ds_interp_new(module, diags, &interp) == 0;
}

/* Counts each reason for a refusal once per kernel: the first words of the instruction, without its shapes and types */
static void note_reasons(const struct ds_ptx_diags *diags)
{
        struct row *seen[DS_PTX_DIAGS_MAX];
        size_t n = 0;

        for (size_t i = 0; i < diags->n; i++) {
                const char *message = diags->diag[i].message, *known = strstr(message, ": not supported");
                char name[100];
                size_t dots = 0, length = 0, j = 0;
                struct row *row;

                while (known && message[length] != ':' && (message[length] != '.' || dots++ < 2))
                        length++;
                snprintf(name, sizeof(name), "%.*s", known ? (int)length : 90, message);
                row = find(reasons, name);
                while (j < n && seen[j] != row)
                        j++;
                if (j < n)
                        continue;
                seen[n++] = row;
                row->kernels++;
        }
}

/* Loads one kernel with the module's functions, as text, because the parts of a module store their place in it */
static void load_kernel(const struct ds_ptx_module *module, const struct ds_ptx_function *kernel, struct row *target)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *parsed = NULL;
        struct ds_ptx_module alone = *module;
        struct ds_ptx_diags diags;
        char *text = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&text, &length);

        alone.directives = calloc(module->n_directives, sizeof(alone.directives[0]));
        alone.n_directives = 0;
        for (uint32_t i = 0; alone.directives && i < module->n_directives; i++) {
                const struct ds_ptx_directive *d = &module->directives[i];

                if (d->kind == DS_PTX_DIRECTIVE_VAR || d->kind == DS_PTX_DIRECTIVE_ALIAS ||
                        (d->kind == DS_PTX_DIRECTIVE_FUNCTION && (!d->function->is_entry || d->function == kernel)))
                        alone.directives[alone.n_directives++] = *d;
        }
        if (!out || ds_ptx_print(&alone, out) || fclose(out) || ds_ptx_parse(text, length, 0, &diags, &parsed)) {
                fprintf(stderr, "corpus_load: %s cannot stand alone\n", kernel->name);
                exit(1);
        }
        target->kernels++;
        if (loads(parsed, &diags))
                target->kernels_loaded++;
        else
                note_reasons(&diags);
        free(alone.directives);
        free(text);
}

static int load_file(const char *path)
{
        static char text[16 << 20];
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        const char *slash = strrchr(path, '/'), *start = slash;
        struct ds_ptx_diags diags;
        char folder[100];
        struct row *target;
        FILE *in = fopen(path, "re");
        size_t n;

        if (!in) {
                perror(path);
                return 1;
        }
        n = fread(text, 1, sizeof(text), in);
        fclose(in);
        if (ds_ptx_parse(text, n, 0, &diags, &module)) {
                fprintf(stderr, "%s: cannot be parsed\n", path);
                return 1;
        }
        while (start && start > path && start[-1] != '/')
                start--;
        snprintf(folder, sizeof(folder), "%.*s", start ? (int)(slash - start) : 1, start ? start : ".");
        target = find(targets, folder);
        target->modules++;
        target->modules_loaded += loads(module, &diags);
        for (uint32_t i = 0; i < module->n_functions; i++)
                if (module->functions[i]->is_entry && module->functions[i]->has_body)
                        load_kernel(module, module->functions[i], target);
        return 0;
}

static int by_kernels(const void *a, const void *b)
{
        return (int)((const struct row *)b)->kernels - (int)((const struct row *)a)->kernels;
}

int main(int argc, char **argv)
{
        struct row sum = {.name = "all"};
        int failed = 0;

        for (int i = 1; i < argc; i++)
                failed |= load_file(argv[i]);
        printf("%-20s %16s %16s\n", "target", "modules loaded", "kernels loaded");
        for (struct row *t = targets; t < targets + MAX_ROWS && t->name[0]; t++) {
                printf("%-20s %8u of %4u %8u of %4u\n", t->name, t->modules_loaded, t->modules, t->kernels_loaded,
                        t->kernels);
                sum.modules += t->modules, sum.modules_loaded += t->modules_loaded;
                sum.kernels += t->kernels, sum.kernels_loaded += t->kernels_loaded;
        }
        printf("%-20s %8u of %4u %8u of %4u\n", sum.name, sum.modules_loaded, sum.modules, sum.kernels_loaded,
                sum.kernels);
        qsort(reasons, MAX_ROWS, sizeof(reasons[0]), by_kernels);
        printf("\n%-50s kernels refused (one may have several reasons)\n", "reason");
        for (struct row *r = reasons; r < reasons + MAX_ROWS && r->kernels; r++)
                printf("%-50s %6u\n", r->name, r->kernels);
        return failed;
}
