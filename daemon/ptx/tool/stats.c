/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-ptx stats: contents of a module's functions
 *
 * "live" registers and residency are the values that the simulated device uses: estimates from the text, since the
 * assembler decides the real ones. Residency follows NVIDIA's public occupancy rules for the compute capability.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/interp/interp.h"
#include "ptx/ir.h"
#include "ptx/pass/colour.h"
#include "ptx/pass/facts.h"
#include "ptx/pass/forms_make.h"
#include "ptx/tool/tool.h"
#include "util/alloc.h"
#include "util/macro.h"

struct options {
        bool json;
        uint32_t sm, block; /* compute capability and block size; 0: from the module's target and from the kernel */
};

/* Limits of an SM by compute capability: threads, blocks, bytes of shared memory; from the CUDA C++ Programming
 * Guide, "Compute Capabilities". */
struct sm {
        uint32_t cc, threads, blocks, shared;
};

static const struct sm sms[] = {{60, 2048, 32, 65536}, {61, 2048, 32, 98304}, {62, 2048, 32, 65536},
        {70, 2048, 32, 98304}, {72, 2048, 32, 98304}, {75, 1024, 16, 65536}, {80, 2048, 32, 167936},
        {86, 1536, 16, 102400}, {87, 1536, 16, 167936}, {89, 1536, 24, 102400}, {90, 2048, 32, 233472},
        {100, 2048, 32, 233472}, {103, 2048, 32, 233472}, {120, 1536, 32, 102400}, {121, 1536, 32, 102400}};

static const struct sm *find_sm(uint32_t cc)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(sms); i++)
                if (sms[i].cc == cc)
                        return &sms[i];
        return NULL;
}

/* Number of blocks that fit on one SM; 0: none fits. */
static uint32_t residency(const struct sm *sm, uint32_t threads, uint32_t registers, uint32_t shared)
{
        uint32_t warps = DS_ALIGN_UP(DS_DIV_UP(threads, 32), 4u);
        uint32_t per_block = DS_ALIGN_UP(registers * 32, 256u) * warps, n = sm->blocks;
        uint32_t reserved = DS_ALIGN_UP(shared + (sm->cc >= 80 ? 1024 : 0), sm->cc >= 80 ? 128u : 256u);

        n = DS_MIN(n, sm->threads / (DS_DIV_UP(threads, 32) * 32));
        n = DS_MIN(n, 65536 / per_block);
        return reserved ? DS_MIN(n, sm->shared / reserved) : n;
}

/* Values that the command prints for one function. */
struct stats {
        const struct ds_ptx_function *function;
        const struct ds_ptx_facts *facts;
        const struct ds_ptx_form_verdict *verdict;
        uint32_t classes[_DS_PTX_CLASS_MAX], refused;
        uint64_t shared, local;
        uint32_t live, threads, blocks; /* live registers, threads per block, blocks per SM; 0: unknown */
        struct ds_ptx_colour_param colours[DS_PTX_COLOUR_PARAMS];
        uint64_t most; /* mask of parameters that can be coloured */
};

static uint64_t bytes_in(struct ds_ptx_var *const *vars, uint32_t n, enum ds_ptx_space space)
{
        uint64_t bytes = 0;

        for (uint32_t i = 0; i < n; i++)
                if (vars[i]->space == space)
                        bytes += vars[i]->size;
        return bytes;
}

static uint32_t threads_of(const struct ds_ptx_limits *limits, const struct options *options)
{
        const uint32_t *given = limits->reqntid[0] ? limits->reqntid : limits->maxntid;
        uint64_t product = (uint64_t)given[0] * given[1] * DS_MIN(given[2], 1024u);

        if (options->block)
                return options->block;
        return given[0] && product && product <= 1024 ? (uint32_t)product : 256;
}

static void count(struct stats *s, const ds_ptx_module *module, const ds_interp *interp, const struct options *options)
{
        const struct ds_ptx_function *f = s->function;
        const struct sm *sm = find_sm(options->sm ? options->sm : module->target);
        const ds_interp_kernel *kernel = interp && f->is_entry ? ds_interp_find_kernel(interp, f->name) : NULL;

        for (uint32_t i = 0; i < f->n_instrs; i++) {
                const struct ds_ptx_op_info *info = ds_ptx_op_info((enum ds_ptx_op)f->instrs[i].op);

                s->classes[info->class]++;
                s->refused += !info->run;
        }
        s->shared = bytes_in(f->vars, f->n_vars, DS_PTX_IN_SHARED);
        s->local = bytes_in(f->vars, f->n_vars, DS_PTX_IN_LOCAL);
        if (!kernel)
                return;
        s->live = ds_interp_kernel_info(kernel)->registers;
        s->shared = ds_interp_kernel_info(kernel)->static_shared;
        s->threads = threads_of(&f->limits, options);
        s->blocks = sm ? residency(sm, s->threads, s->live, (uint32_t)s->shared) : 0;
}

/* --- text --- */

static void print_facts(const struct ds_ptx_facts *facts)
{
        for (int i = 0; i < _DS_PTX_FACT_MAX; i++)
                if (ds_ptx_fact(facts, (enum ds_ptx_fact)i))
                        printf("  %s (line %u): %s\n", ds_ptx_fact_word((enum ds_ptx_fact)i), facts->line[i],
                                ds_ptx_fact_text((enum ds_ptx_fact)i));
}

static void print_forms(const struct ds_ptx_form_verdict *verdict)
{
        for (int i = DS_PTX_FORM_SLICED; i < _DS_PTX_FORM_MAX; i++) {
                const struct ds_ptx_form_fate *fate = &verdict->forms[i];

                printf("  form %s: %s%s", ds_ptx_form_word((enum ds_ptx_form)i), fate->made ? "yes" : "no, ",
                        fate->reason);
                if (fate->line)
                        printf(" (line %u)", fate->line);
                printf("\n");
        }
}

/* Prints the numbers of the parameters in a mask: "1, 3". */
static void print_mask(uint64_t mask)
{
        for (const char *between = ""; mask; mask &= mask - 1, between = ", ")
                printf("%s%d", between, __builtin_ctzll(mask));
}

static void print_colours(const struct stats *s)
{
        for (uint32_t i = 0; i < DS_MIN(s->function->n_params, DS_PTX_COLOUR_PARAMS); i++) {
                const struct ds_ptx_colour_param *p = &s->colours[i];
                uint64_t others = p->with & ~(UINT64_C(1) << i);

                if (!p->pointer)
                        continue;
                printf("  colour parameter %u: %s%s", i, p->possible ? "yes" : "no, ", p->reason);
                if (p->line)
                        printf(" (line %u)", p->line);
                if (p->possible)
                        printf(", %u reading, %u writing", p->loads, p->stores);
                if (others)
                        printf(", with ");
                print_mask(others);
                printf("\n");
        }
}

static void print_text(const struct stats *s)
{
        const struct ds_ptx_function *f = s->function;

        printf("%s %s\n", f->is_entry ? "entry" : "func", f->name);
        printf("  parameters %u (%u bytes), registers %u, labels %u, shared %" PRIu64 " bytes, local %" PRIu64
               " bytes\n",
                f->n_params, f->params_size, f->n_regs, f->n_labels, s->shared, s->local);
        printf("  instructions %u:", f->n_instrs);
        for (uint32_t i = 0; i < _DS_PTX_CLASS_MAX; i++)
                if (s->classes[i])
                        printf(" %s %u", ds_ptx_class_name((enum ds_ptx_class)i), s->classes[i]);
        printf("\n");
        if (s->live)
                printf("  live registers %u (estimate)", s->live);
        if (s->blocks)
                printf(", %u blocks of %u threads on an SM", s->blocks, s->threads);
        if (s->live)
                printf("\n");
        print_facts(s->facts);
        if (f->is_entry)
                print_forms(s->verdict);
        print_colours(s);
        if (s->refused)
                printf("  not executed by the interpreter: %u\n", s->refused);
}

/* --- JSON --- */

static void put_string(const char *s)
{
        putchar('"');
        for (; *s; s++) {
                if (*s == '"' || *s == '\\')
                        printf("\\%c", *s);
                else if ((unsigned char)*s < ' ' || (unsigned char)*s > '~')
                        printf("\\u%04x", (unsigned char)*s);
                else
                        putchar(*s);
        }
        putchar('"');
}

static void json_forms(const struct ds_ptx_form_verdict *verdict)
{
        printf(",\n     \"forms\": {");
        for (int i = DS_PTX_FORM_SLICED; i < _DS_PTX_FORM_MAX; i++) {
                const struct ds_ptx_form_fate *fate = &verdict->forms[i];

                printf("%s\"%s\": {\"made\": %s", i > DS_PTX_FORM_SLICED ? ", " : "",
                        ds_ptx_form_word((enum ds_ptx_form)i), fate->made ? "true" : "false");
                if (!fate->made) {
                        printf(", \"line\": %u, \"reason\": ", fate->line);
                        put_string(fate->reason);
                }
                putchar('}');
        }
        printf("}, \"variables\": %s", verdict->variables ? "true" : "false");
}

static void json_colours(const struct stats *s)
{
        bool comma = false;

        printf(",\n     \"colour\": {\"mask\": \"%" PRIx64 "\", \"parameters\": [", s->most);
        for (uint32_t i = 0; i < DS_MIN(s->function->n_params, DS_PTX_COLOUR_PARAMS); i++) {
                const struct ds_ptx_colour_param *p = &s->colours[i];

                if (!p->pointer)
                        continue;
                printf("%s{\"index\": %u, \"possible\": %s, \"with\": \"%" PRIx64 "\"", comma ? ", " : "", i,
                        p->possible ? "true" : "false", p->with);
                printf(", \"reading\": %u, \"writing\": %u", p->loads, p->stores);
                if (!p->possible) {
                        printf(", \"line\": %u, \"reason\": ", p->line);
                        put_string(p->reason);
                }
                putchar('}');
                comma = true;
        }
        printf("]}");
}

static void print_json(const struct stats *s, bool first)
{
        const struct ds_ptx_function *f = s->function;
        bool comma = false;

        printf("%s\n    {\"name\": ", first ? "" : ",");
        put_string(f->name);
        printf(", \"entry\": %s, \"parameters\": %u, \"parameter_bytes\": %u, \"registers\": %u, \"labels\": %u, "
               "\"shared_bytes\": %" PRIu64 ", \"local_bytes\": %" PRIu64
               ", \"instructions\": %u,\n     \"classes\": {",
                f->is_entry ? "true" : "false", f->n_params, f->params_size, f->n_regs, f->n_labels, s->shared,
                s->local, f->n_instrs);
        for (uint32_t i = 0; i < _DS_PTX_CLASS_MAX; i++) {
                if (!s->classes[i])
                        continue;
                printf("%s\"%s\": %u", comma ? ", " : "", ds_ptx_class_name((enum ds_ptx_class)i), s->classes[i]);
                comma = true;
        }
        printf("}, \"not_executed\": %u", s->refused);
        if (s->live)
                printf(", \"live_registers\": %u", s->live);
        if (s->blocks)
                printf(", \"threads\": %u, \"blocks_per_sm\": %u", s->threads, s->blocks);
        printf(",\n     \"facts\": {");
        comma = false;
        for (int i = 0; i < _DS_PTX_FACT_MAX; i++) {
                if (!ds_ptx_fact(s->facts, (enum ds_ptx_fact)i))
                        continue;
                printf("%s\"%s\": %u", comma ? ", " : "", ds_ptx_fact_word((enum ds_ptx_fact)i), s->facts->line[i]);
                comma = true;
        }
        putchar('}');
        if (f->is_entry) {
                json_forms(s->verdict);
                json_colours(s);
        }
        putchar('}');
}

/* --- the command --- */

/* Prints the values of all functions. Returns 0 or -ENOMEM. */
static int print_module(const ds_ptx_module *module, const ds_interp *interp, const struct ds_ptx_facts *facts,
        const struct ds_ptx_form_verdict *verdicts, const struct options *options)
{
        bool first = true;
        int r = 0;

        if (options->json)
                printf("{\"version\": \"%u.%u\", \"target\": \"sm_%u%.1s\", \"variables\": %u, \"functions\": [",
                        module->version / 10, module->version % 10, module->target, &module->target_suffix,
                        module->n_vars);
        else
                printf("PTX %u.%u for sm_%u, %u variables, %u functions\n", module->version / 10, module->version % 10,
                        module->target, module->n_vars, module->n_functions);
        for (uint32_t i = 0; i < module->n_functions && !r; i++) {
                struct stats s = {.function = module->functions[i], .facts = &facts[i], .verdict = &verdicts[i]};

                if (!s.function->has_body)
                        continue;
                count(&s, module, interp, options);
                r = s.function->is_entry ? ds_ptx_colour_params(module, s.function, s.colours, &s.most) : 0;
                if (options->json)
                        print_json(&s, first);
                else
                        print_text(&s);
                first = false;
        }
        if (options->json)
                printf("\n]}\n");
        return r;
}

static int stats_of(const char *path, const struct options *options)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;
        ds_cleanup(ds_freep) struct ds_ptx_facts *facts = NULL;
        ds_cleanup(ds_freep) struct ds_ptx_form_verdict *verdicts = NULL;
        static struct ds_ptx_diags diags;
        int r = ds_ptx_tool_load(path, &diags, &module);

        if (r)
                return r;
        facts = ds_alloc0(module->n_functions, sizeof(*facts));
        verdicts = ds_alloc0((size_t)module->n_functions + 1, sizeof(*verdicts));
        r = facts && verdicts ? ds_ptx_facts_find(module, facts) : -ENOMEM;
        if (!r)
                r = ds_ptx_forms_judge(module, verdicts);
        if (!r && ds_interp_new(module, &diags, &interp)) /* without an interpreter some values are omitted */
                interp = NULL;
        if (!r)
                r = print_module(module, interp, facts, verdicts, options);
        if (!r)
                return ds_ptx_tool_flush();
        fprintf(stderr, "detshare-ptx: %s: %s\n", path, strerror(-r));
        return DS_PTX_TOOL_BAD;
}

int ds_ptx_tool_stats(int argc, char **argv)
{
        static const struct option longs[] = {{"json", no_argument, NULL, 'j'}, {"sm", required_argument, NULL, 'm'},
                {"block", required_argument, NULL, 'b'}, {NULL, 0, NULL, 0}};
        struct options options = {0};
        unsigned long number;
        char *end;
        int c;

        optind = 1;
        while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
                if (c == 'j') {
                        options.json = true;
                        continue;
                }
                if (c == '?')
                        return ds_ptx_tool_usage("stats has the options --json, --sm NN and --block THREADS");
                number = strtoul(optarg, &end, 10);
                if (*end || (c == 'm' ? number > 999 || !find_sm((uint32_t)number) : number < 1 || number > 1024))
                        return ds_ptx_tool_usage(c == 'm' ? "--sm takes a known compute capability, such as 90"
                                                          : "--block takes 1 to 1024 threads");
                *(c == 'm' ? &options.sm : &options.block) = (uint32_t)number;
        }
        if (argc - optind != 1)
                return ds_ptx_tool_usage("stats takes one file");
        return stats_of(argv[optind], &options);
}
