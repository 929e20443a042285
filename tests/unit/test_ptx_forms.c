/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms of kernels leave the same bits as the native ones, and a kernel without forms is refused with the right reason
 *
 * Corpus: every kernel that can be driven (tests/support/corpus_drive.h) runs natively, in slices, and with workers
 * that are evicted at random, in one module and from the same memory. Blocks run in numerical order and in the order of
 * an array (pass block-order). All memory and the module's variables are compared byte by byte, and each block is
 * counted once (pass count-blocks). By default some files run; FORMS_CORPUS=all: all, and the totals are printed.
 *
 * Traps: tests/golden/forms, one kernel each, with the verdict in NAME.out (UPDATE_GOLDEN=1 writes it).
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ptx/interp/core.h"
#include "ptx/interp/order.h"
#include "ptx/pass/forms_make.h"
#include "ptx/pass/pass.h"
#include "ptx/tool/forms_run.h"
#include "tests/support/corpus_drive.h"
#include "tests/unit/read_file.h"
#include "util/alloc.h"

#define BUDGET 200000ul /* warp instructions of a native launch */
#define MORE 40         /* budget of a form, times the native one: for kernels of one instruction */
#define N_VARS 256
#define MAX_BLOCKS 64

struct var {
        uint8_t *at, *initial;
        uint64_t size;
        bool constant;
};

/* A file's module with counters, an order and all forms */
struct file {
        const char *name;
        ds_ptx_module *module, *forms;
        ds_interp *interp;
        struct ds_ptx_form_verdict *verdicts;
        struct var vars[N_VARS];
        uint32_t n_vars;
        uint64_t *counters, *order;
        uint64_t counters_size;
};

static struct sums {
        uint32_t kernels, made[_DS_PTX_FORM_MAX], driven, launches, evictions, rounds, waits;
        uint64_t native, formed[_DS_PTX_FORM_MAX];
        uint32_t skipped_faults, skipped_long, skipped_timed, skipped_unsteady;
} sums;

static uint8_t *pristine, *arena, *wanted;
static uint32_t *places; /* order of the blocks, for block-order */
static struct ds_forms_run drive;

static ds_ptx_module *pass(ds_ptx_module *module, const char *name)
{
        static struct ds_ptx_diags diags;
        struct ds_ptx_outcome *outcome = calloc(module->n_functions + 1, sizeof(*outcome));
        ds_ptx_module *after = NULL;

        cr_assert_eq(
                ds_ptx_pass_apply(ds_ptx_pass_find(name, strlen(name)), module, NULL, 0, outcome, &diags, &after), 0);
        free(outcome);
        ds_ptx_module_free(module);
        return after;
}

static void find_vars(struct file *f)
{
        for (uint32_t i = 0; i < f->forms->n_vars; i++) {
                const struct ds_ptx_var *v = f->forms->vars[i];
                struct var *to = &f->vars[f->n_vars];
                uint64_t va;

                if ((v->space != DS_PTX_IN_GLOBAL && v->space != DS_PTX_IN_CONST) ||
                        ds_interp_find_global(f->interp, v->name, &va, &to->size) || f->n_vars == N_VARS)
                        continue;
                if (strcmp(v->name, "ds_blocks_ended") == 0) {
                        f->counters = (uint64_t *)(uintptr_t)va;
                        f->counters_size = to->size;
                } else if (strcmp(v->name, "ds_block_order") == 0) {
                        f->order = (uint64_t *)(uintptr_t)va;
                } else if (v->type < DS_PTX_TYPE_TEXREF) {
                        to->at = (uint8_t *)(uintptr_t)va;
                        to->constant = v->space == DS_PTX_IN_CONST && !v->data && !v->n_relocs;
                        to->initial = malloc(2 * to->size + 1);
                        memcpy(to->initial, to->at, to->size);
                        f->n_vars++;
                }
        }
}

/* Opens a file of the corpus. Returns false if the simulated device does not load it */
static bool open_file(struct file *f, const char *path, bool ordered)
{
        static struct ds_ptx_diags diags;
        static char why[4000];
        size_t length;
        char *text = (char *)read_file_of("", path, &length);
        int r = ds_ptx_parse(text, length, 0, &diags, &f->module);

        f->name = path;
        cr_assert_eq(r, 0, "%s", path);
        f->module = pass(f->module, "count-blocks");
        if (ordered)
                f->module = pass(f->module, "block-order");
        f->verdicts = calloc(f->module->n_functions + 1, sizeof(*f->verdicts));
        r = ds_ptx_forms_make(f->module, 0, &diags, &f->forms, f->verdicts);
        ds_ptx_diags_format(&diags, path, why, sizeof(why));
        cr_assert_eq(r, 0, "%s", why);
        free(text);
        if (ds_interp_new(f->forms, &diags, &f->interp))
                return false;
        find_vars(f);
        return true;
}

static void close_file(struct file *f)
{
        for (uint32_t i = 0; i < f->n_vars; i++)
                free(f->vars[i].initial);
        ds_interp_free(f->interp);
        ds_ptx_module_free(f->forms);
        ds_ptx_module_free(f->module);
        free(f->verdicts);
        memset(f, 0, sizeof(*f));
}

/* --- one launch --- */

static void reset(struct file *f)
{
        memcpy(arena, pristine, DRIVE_ARENA);
        for (uint32_t i = 0; i < f->n_vars; i++)
                memcpy(f->vars[i].at,
                        f->vars[i].constant && f->vars[i].size < DRIVE_ARENA ? pristine : f->vars[i].initial,
                        f->vars[i].size);
        if (f->counters)
                memset(f->counters, 0, f->counters_size);
}

/* Keeps the native launch's memory as the wanted result. */
static void keep(struct file *f)
{
        memcpy(wanted, arena, DRIVE_ARENA);
        for (uint32_t i = 0; i < f->n_vars; i++)
                memcpy(f->vars[i].initial + f->vars[i].size, f->vars[i].at, f->vars[i].size);
}

static bool same(const struct file *f)
{
        bool equal = memcmp(wanted, arena, DRIVE_ARENA) == 0;

        for (uint32_t i = 0; i < f->n_vars; i++)
                equal &= memcmp(f->vars[i].initial + f->vars[i].size, f->vars[i].at, f->vars[i].size) == 0;
        return equal;
}

static uint64_t first_difference(void)
{
        uint64_t at = 0;

        while (at < DRIVE_ARENA && wanted[at] == arena[at])
                at++;
        return at;
}

static uint64_t counted(const struct file *f)
{
        uint64_t sum = 0;

        for (uint64_t i = 0; f->counters && i < f->counters_size / 8; i++)
                sum += f->counters[i];
        return sum;
}

static struct ds_interp_result run_native(struct file *f, struct ds_interp_launch *l, uint64_t *ret_spent)
{
        struct ds_interp_result result = {.fault = DS_INTERP_OK};
        const uint32_t *g = l->grid;

        (void)f;
        *ret_spent = 0;
        for (uint32_t i = 0; i < g[0] * g[1] * g[2] && !result.fault; i++) {
                l->max_instructions = BUDGET - *ret_spent;
                if (ds_interp_run_block(drive.work[0], l, i % g[0], i / g[0] % g[1], i / g[0] / g[1], &result))
                        abort();
                *ret_spent += result.cost.instructions;
                if (*ret_spent >= BUDGET)
                        result.fault = DS_INTERP_FAULT_BUDGET;
        }
        return result;
}

static struct ds_interp_result run_form(
        enum ds_ptx_form form, const struct ds_interp_launch *l, const ds_interp_kernel *kernel)
{
        struct ds_interp_result result;

        cr_assert_eq(form == DS_PTX_FORM_SLICED ? ds_forms_run_sliced(&drive, l, kernel, &result)
                                                : ds_forms_run_persistent(&drive, l, kernel, &result),
                0);
        return result;
}

/*
 * Whether the native launch gives the same result in any order of warps and with any initial memory. Kernels with
 * another number of threads than intended may race; some keep memory for good.
 */
static bool is_steady(struct file *f, struct ds_interp_launch *l)
{
        static const struct {
                uint32_t slice;
                int backwards;
                uint8_t fill;
        } turns[] = {{5, 1, 0x7f}, {1, 0, 0x11}, {40, 1, 0}};
        bool steady = true;

        for (size_t i = 0; i < DS_ARRAY_SIZE(turns) && steady; i++) {
                uint64_t spent;

                reset(f);
                ds_ix_force_turns(turns[i].slice, turns[i].backwards, turns[i].fill);
                steady = !run_native(f, l, &spent).fault && same(f);
                ds_ix_force_turns(0, 0, 0);
        }
        return steady;
}

static void set_order(struct file *f, uint32_t n)
{
        struct ds_interp_order order;

        if (!f->order)
                return;
        *f->order = (uintptr_t)places;
        ds_interp_order_init(&order, n, 5, n);
        for (uint32_t i = 0; i < n; i++)
                places[i] = (uint32_t)ds_interp_order_at(&order, i);
}

/* Runs the native launch and then the form, and compares their results. Returns whether the native one ran. */
static void compare(struct file *f, const struct ds_ptx_function *k, const struct ds_interp_launch *native,
        enum ds_ptx_form form, uint64_t spent)
{
        static const char *const suffixes[] = {"", DS_PTX_FORM_SLICED_SUFFIX, DS_PTX_FORM_PERSISTENT_SUFFIX};
        uint32_t n = native->grid[0] * native->grid[1] * native->grid[2];
        struct ds_interp_launch l = *native;
        struct ds_interp_result result;
        const ds_interp_kernel *kernel;
        char name[300];

        snprintf(name, sizeof(name), "%s%s", k->name, suffixes[form]);
        kernel = ds_interp_find_kernel(f->interp, name);
        cr_assert(kernel, "%s: no %s", f->name, name);
        reset(f);
        l.max_instructions = BUDGET * MORE;
        drive.every = 2 + ds_forms_run_random(&drive, 12);
        result = run_form(form, &l, kernel);
        cr_expect(!result.fault && !drive.wrong[0], "%s: %s: line %u: %s %s", f->name, name, result.line,
                result.message, drive.wrong);
        cr_expect(same(f), "%s: %s leaves something else (%u blocks, %u rounds, %u evictions), first at %llx", f->name,
                name, n, drive.rounds, drive.evictions, (unsigned long long)first_difference());
        if (f->counters)
                cr_expect(counted(f) == n, "%s: %s: %u blocks, %u counted", f->name, name, n, (unsigned)counted(f));
        sums.native += spent;
        sums.formed[form] += drive.cost.instructions;
        sums.evictions += drive.evictions;
        sums.rounds += drive.rounds;
        sums.launches++;
}

/* Runs one of the listed launches. Returns whether it ran. */
static bool one_launch(struct file *f, const struct ds_ptx_function *k, const struct drive *d,
        const struct ds_ptx_form_verdict *verdict, int which, int unseen)
{
        static uint8_t params[DRIVE_PARAMS + 256];
        struct ds_interp_range range = {.va = (uintptr_t)arena, .size = DRIVE_ARENA}, ranges[2] = {range};
        struct drive_launch at;
        struct ds_interp_launch l;
        struct ds_interp_result result;
        uint64_t spent;

        drive_launch(d, which, &at);
        ranges[1] = (struct ds_interp_range){.va = (uintptr_t)places, .size = MAX_BLOCKS * sizeof(*places)};
        if (ranges[1].va < ranges[0].va) {
                ranges[0] = ranges[1];
                ranges[1] = range;
        }
        l = (struct ds_interp_launch){.kernel = ds_interp_find_kernel(f->interp, k->name),
                .dynamic_shared = at.dynamic ? at.dynamic - 1024 : 0,
                .params = params,
                .params_size = d->info->params_size,
                .ranges = ranges,
                .n_ranges = 2,
                .n_sms = 132};
        memcpy(l.grid, at.grid, sizeof(l.grid));
        memcpy(l.block, at.block, sizeof(l.block));
        if (at.grid[0] * at.grid[1] * at.grid[2] > MAX_BLOCKS)
                return false;
        drive_params(d, &at, (uintptr_t)arena, unseen, params);
        set_order(f, at.grid[0] * at.grid[1] * at.grid[2]);
        reset(f);
        result = run_native(f, &l, &spent);
        if (result.fault) {
                sums.skipped_long += result.fault == DS_INTERP_FAULT_BUDGET;
                sums.skipped_faults += result.fault != DS_INTERP_FAULT_BUDGET;
                return false;
        }
        keep(f);
        if (!is_steady(f, &l)) {
                sums.skipped_unsteady++;
                return true;
        }
        for (int form = DS_PTX_FORM_SLICED; form < _DS_PTX_FORM_MAX; form++)
                if (verdict->forms[form].made)
                        compare(f, k, &l, (enum ds_ptx_form)form, spent);
        return true;
}

/* Reason why a kernel's result may differ; NULL: it may not */
static const char *exception(const char *kernel)
{
        static const char *const rows[][2] = {
                {"data_addresses", "stores addresses of shared memory"},
                {"rt_simd", "all warps write one byte with different values"},
                {"la_igemm_dp4a", "several threads write one place, for the block is larger than it was made for"},
                {"nn_mixture_route", "reads scores where others write"},
                {"graph_core", "reads what others count down"},
                {"magnet_ising", "reads neighbours while they are written"},
        };

        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++)
                if (strcmp(kernel, rows[i][0]) == 0)
                        return rows[i][1];
        return NULL;
}

static void one_kernel(struct file *f, const struct ds_ptx_function *k, int n_launches)
{
        const struct ds_ptx_form_verdict *verdict = &f->verdicts[k->index];
        const ds_interp_kernel *kernel = ds_interp_find_kernel(f->interp, k->name);
        struct drive d;
        bool ran = false;

        cr_assert(kernel);
        sums.kernels++;
        sums.waits += verdict->waits;
        for (int form = 0; form < _DS_PTX_FORM_MAX; form++) {
                const struct ds_ptx_form_fate *fate = &verdict->forms[form];

                sums.made[form] += fate->made;
                cr_expect_eq(fate->made, !fate->reason[0], "%s", k->name);
        }
        if (ds_interp_kernel_info(kernel)->cluster[0] || ds_interp_kernel_info(kernel)->blocks_are_clusters ||
                !drive_open(&d, f->module, k, ds_interp_kernel_info(kernel)))
                return;
        if ((d.class & DRIVE_TIMED) || exception(k->name)) {
                sums.skipped_timed++;
                return;
        }
        for (int which = 0; which < n_launches; which++)
                for (int unseen = 0; unseen <= (d.unseen ? 1 : 0); unseen++)
                        ran |= one_launch(f, k, &d, verdict, which, unseen);
        sums.driven += ran;
}

/* Runs the kernels of one file; only: those whose names contain it */
static void check_file(const char *path, int n_launches, bool ordered)
{
        struct file f = {0};

        if (open_file(&f, path, ordered))
                for (uint32_t i = 0; i < f.module->n_functions; i++)
                        if (f.module->functions[i]->is_entry && f.module->functions[i]->has_body)
                                one_kernel(&f, f.module->functions[i], n_launches);
        close_file(&f);
}

static void begin(void)
{
        pristine = malloc(DRIVE_ARENA);
        arena = aligned_alloc(4096, DRIVE_ARENA);
        wanted = malloc(DRIVE_ARENA);
        places = aligned_alloc(4096, 4096);
        cr_assert(pristine && arena && wanted && places && ds_forms_run_open(&drive, 1) == 0);
        drive_fill(pristine, DRIVE_ARENA, DRIVE_SMALL, 1);
}

static void print_sums(void)
{
        fprintf(stderr,
                "sim: %u kernels, sliced %u, persistent %u, waiting for others %u; driven %u, launches of forms %u, "
                "rounds %u, evictions %u\n",
                sums.kernels, sums.made[DS_PTX_FORM_SLICED], sums.made[DS_PTX_FORM_PERSISTENT], sums.waits, sums.driven,
                sums.launches, sums.rounds, sums.evictions);
        fprintf(stderr,
                "not driven: %u kernels with clocks or exceptions, %u launches that fault, %u that are long, %u that "
                "differ a second "
                "time\n",
                sums.skipped_timed, sums.skipped_faults, sums.skipped_long, sums.skipped_unsteady);
}

Test(ptx_forms, corpus, .timeout = 3600)
{
        static const char *const some[] = {"diverge", "calls", "scan", "async_pipeline", "grid3d", "histogram"};
        bool all = getenv("FORMS_CORPUS") && strcmp(getenv("FORMS_CORPUS"), "all") == 0;
        const char *one = getenv("FORMS_FILE");
        glob_t files;
        char path[500];

        begin();
        if (one) {
                check_file(one, DRIVE_N_LAUNCHES, false);
                print_sums();
                return;
        }
        for (size_t i = 0; i < DS_ARRAY_SIZE(some) && !all; i++) {
                snprintf(path, sizeof(path), TEST_PTX_DIR "/sm_%d/%s.ptx", i % 2 ? 75 : 90, some[i]);
                check_file(path, 2, i % 2);
        }
        if (!all) {
                cr_expect(sums.driven > 10 && sums.evictions > 10);
                return;
        }
        cr_assert_eq(glob(TEST_PTX_DIR "/sm_*/*.ptx", 0, NULL, &files), 0);
        (void)glob(TEST_PTX_DIR "/corpus/*/*.ptx", GLOB_APPEND, NULL, &files);
        for (size_t i = 0; i < files.gl_pathc; i++) {
                check_file(files.gl_pathv[i], DRIVE_N_LAUNCHES, false);
                check_file(files.gl_pathv[i], DRIVE_N_LAUNCHES, true);
        }
        globfree(&files);
        print_sums();
}

/* --- traps --- */

static void assembles(const ds_ptx_module *module)
{
        char name[] = "/tmp/detshare-forms-XXXXXX", command[300];
        int fd = mkstemp(name);
        FILE *out = fdopen(fd, "w");

        cr_assert(out && ds_ptx_print(module, out) == 0 && fclose(out) == 0);
        snprintf(command, sizeof(command), "%s -arch=sm_%u%.1s -O1 -c -o /dev/null %s", PTXAS, module->target,
                &module->target_suffix, name);
        cr_expect_eq(system(command), 0, "what was made does not assemble");
        unlink(name);
}

/* Compares the verdict on each kernel with the golden file, and lets the assembler accept the transformed module */
static void golden(const char *name)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *forms = NULL;
        static struct ds_ptx_diags diags;
        static struct ds_ptx_form_verdict verdicts[100], same_verdicts[100];
        size_t length, n = 0;
        char path[600], *found = NULL, *text, *expected;
        FILE *out = open_memstream(&found, &n);

        snprintf(path, sizeof(path), "%s.ptx", name);
        text = (char *)read_file_of(TEST_FORMS_DIR, path, &length);
        cr_assert_eq(ds_ptx_parse(text, length, 0, &diags, &module), 0);
        cr_assert(module->n_functions <= DS_ARRAY_SIZE(verdicts));
        cr_assert_eq(ds_ptx_forms_judge(module, same_verdicts), 0);
        cr_assert_eq(ds_ptx_forms_make(module, 0, &diags, &forms, verdicts), 0);
        cr_expect_eq(memcmp(verdicts, same_verdicts, module->n_functions * sizeof(*verdicts)), 0);
        assembles(forms);
        for (uint32_t i = 0; i < module->n_functions; i++) {
                const struct ds_ptx_form_fate *f = verdicts[i].forms;

                if (!f[DS_PTX_FORM_NATIVE].made)
                        continue;
                fprintf(out, "%s%s%s\n", module->functions[i]->name, verdicts[i].waits ? " waits" : "",
                        verdicts[i].variables ? " variables" : "");
                for (int form = DS_PTX_FORM_SLICED; form < _DS_PTX_FORM_MAX; form++)
                        fprintf(out, "  %s: %s%s\n", ds_ptx_form_word((enum ds_ptx_form)form),
                                f[form].made ? "made" : "", f[form].reason);
        }
        fclose(out);
        snprintf(path, sizeof(path), TEST_FORMS_DIR "/%s.out", name);
        if (getenv("UPDATE_GOLDEN")) {
                out = fopen(path, "we");
                cr_assert(out && fputs(found, out) >= 0 && fclose(out) == 0);
        }
        snprintf(path, sizeof(path), "%s.out", name);
        expected = (char *)read_file_of(TEST_FORMS_DIR, path, &n);
        cr_expect(
                strlen(found) == n && memcmp(found, expected, n) == 0, "%s differs; this was found:\n%s", path, found);
        free(expected);
        free(found);
        free(text);
}

Test(ptx_forms, reasons)
{
        golden("traps");
        golden("refused");
        golden("aligned");
        golden("chance");
        golden("leave");
        golden("rooms");
}

/* In place a kernel gets another parameter, so a declaration must not exist; a copy has a declaration of its own. */
Test(ptx_forms, declared_before)
{
        static const char text[] = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p);\n"
                                   ".visible .entry k(.param .u64 p)\n{\n\tret;\n}\n";
        static const char *const names[] = {"slice", "preempt"};
        static struct ds_ptx_diags diags;

        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++) {
                ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL, *after = NULL, *forms = NULL;
                struct ds_ptx_form_verdict verdicts[2];
                struct ds_ptx_outcome outcomes[2];

                cr_assert_eq(ds_ptx_parse(text, strlen(text), 0, &diags, &module), 0);
                cr_assert_eq(module->n_functions, 2);
                cr_expect_eq(ds_ptx_pass_apply(ds_ptx_pass_find(names[i], strlen(names[i])), module, NULL, 0, outcomes,
                                     &diags, &after),
                        0);
                cr_expect_eq(outcomes[1].verdict, DS_PTX_PASS_REFUSED);
                cr_expect_eq(outcomes[1].line, 4);
                cr_expect_eq(ds_ptx_forms_make(module, 0, &diags, &forms, verdicts), 0);
                cr_expect(verdicts[1].forms[DS_PTX_FORM_SLICED].made && verdicts[1].forms[DS_PTX_FORM_PERSISTENT].made);
        }
}

/* Every allocation can fail. */
Test(ptx_forms, out_of_memory)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        static struct ds_ptx_diags diags;
        static struct ds_ptx_form_verdict verdicts[100];
        size_t length;
        char *text = (char *)read_file_of(TEST_FORMS_DIR, "traps.ptx", &length);
        ds_ptx_module *made = NULL;
        int failed = 0, r = -ENOMEM;

        cr_assert_eq(ds_ptx_parse(text, length, 0, &diags, &module), 0);
        for (int64_t n = 0; r; n += n < 40 ? 1 : 7) {
                ds_alloc_fail_after(n);
                r = ds_ptx_forms_make(module, 0, &diags, &made, verdicts);
                ds_alloc_fail_after(-1);
                cr_assert(r == 0 || r == -ENOMEM);
                cr_assert_eq(made != NULL, r == 0);
                failed += r != 0;
        }
        cr_expect(failed > 20, "%d", failed);
        ds_ptx_module_free(made);
        made = NULL;
        cr_expect_eq(ds_ptx_forms_make(module, 4096, &diags, &made, verdicts), -ENOMEM);
        free(text);
}

/* All kernels of the traps run, in both forms and in every listed launch. Two are exceptions in one form: their
 * threads exit before a barrier. */
Test(ptx_forms, traps)
{
        begin();
        check_file(TEST_FORMS_DIR "/traps.ptx", DRIVE_N_LAUNCHES, false);
        cr_expect(sums.driven == sums.kernels && sums.made[DS_PTX_FORM_PERSISTENT] + 2 == sums.kernels);
        cr_expect(sums.skipped_faults == 0 && sums.skipped_unsteady == 0 && sums.evictions > 50, "%u %u %u",
                sums.skipped_faults, sums.skipped_unsteady, sums.evictions);
        check_file(TEST_FORMS_DIR "/traps.ptx", 2, true);
}

/* --- blocks that wait for earlier blocks --- */

#define SCAN_BLOCKS 40
#define SCAN_N (SCAN_BLOCKS * 64 - 20)

static void scan_once(struct file *f, const struct ds_ptx_function *k, enum ds_ptx_form form, bool in_turns)
{
        struct ds_interp_range range = {.va = (uintptr_t)arena, .size = DRIVE_ARENA};
        uint64_t params[6];
        uint32_t *in = (uint32_t *)(void *)arena, *out = in + SCAN_N, sum = 0;
        struct ds_interp_launch l = {.kernel = ds_interp_find_kernel(f->interp, k->name),
                .grid = {SCAN_BLOCKS, 1, 1},
                .block = {64, 1, 1},
                .params = params,
                .params_size = ds_interp_kernel_info(ds_interp_find_kernel(f->interp, k->name))->params_size,
                .ranges = &range,
                .n_ranges = 1,
                .n_sms = 132,
                .max_instructions = 100000000};
        struct ds_interp_result result;
        char name[100];

        snprintf(name, sizeof(name), "%s%s", k->name,
                form == DS_PTX_FORM_SLICED ? DS_PTX_FORM_SLICED_SUFFIX : DS_PTX_FORM_PERSISTENT_SUFFIX);
        memset(arena, 0, DRIVE_ARENA);
        for (uint32_t i = 0; i < SCAN_N; i++)
                in[i] = ds_forms_run_random(&drive, 1000);
        for (uint32_t i = 0; i < 5; i++)
                params[i] = (uintptr_t)arena + (i < 2 ? i * sizeof(*in) * SCAN_N : (1 << 20) + (i << 12));
        params[5] = SCAN_N;
        memset(f->counters, 0, f->counters_size);
        drive.every = 3 + ds_forms_run_random(&drive, 20);
        drive.in_turns = in_turns;
        result = run_form(form, &l, ds_interp_find_kernel(f->interp, name));
        cr_assert(
                !result.fault && !drive.wrong[0], "%s: line %u: %s %s", name, result.line, result.message, drive.wrong);
        for (uint32_t i = 0; i < SCAN_N; i++)
                cr_assert_eq(out[i], sum += in[i], "%s: %u", name, i);
        cr_expect_eq(counted(f), SCAN_BLOCKS);
        sums.evictions += drive.evictions;
}

/* Each block waits for its predecessors: workers take blocks in that order and stop only between them. */
Test(ptx_forms, look_back)
{
        struct file f = {0};
        const struct ds_ptx_function *k;

        begin();
        cr_assert(open_file(&f, TEST_PTX_DIR "/sm_90/lookback.ptx", false));
        k = f.module->functions[0];
        cr_expect(f.verdicts[0].waits && !f.verdicts[0].forms[DS_PTX_FORM_SLICED].reason[0]);
        for (uint32_t i = 0; i < 12; i++) {
                scan_once(&f, k, DS_PTX_FORM_SLICED, false);
                scan_once(&f, k, DS_PTX_FORM_PERSISTENT, i % 2);
        }
        cr_expect(sums.evictions > 12, "%u", sums.evictions);
        close_file(&f);
}

/* --- a worker after the stop word ----------------------- */

#define TOLD_BLOCKS 60
#define TOLD_CONTROL (1 << 20) /* offset of the launch's ds_ptx_control in the test's device memory */

struct told {
        struct ds_ptx_control *control;
        /* number of blocks that have begun; number of the block during which the stop word is written */
        uint32_t begun, at;
};

/* A block counts itself when it has begun, after the worker's last check before it. */
static void on_count(void *user, const uint64_t *sectors, uint32_t n, enum ds_interp_access kind)
{
        struct told *told = user;
        const uint64_t at = (uintptr_t)arena >> DS_INTERP_SECTOR_BITS;

        (void)kind;
        for (uint32_t i = 0; i < n; i++)
                if (sectors[i] - at < TOLD_CONTROL >> DS_INTERP_SECTOR_BITS && told->begun++ == told->at)
                        told->control->stop = 1;
}

/* Number of blocks that a worker begins if the stop word is written during block `at`; exactly these must have run. */
static uint32_t told_in(const ds_interp_kernel *kernel, uint32_t chunk, uint32_t at)
{
        struct ds_interp_range range = {.va = (uintptr_t)arena, .size = DRIVE_ARENA};
        struct told told = {.control = (struct ds_ptx_control *)(void *)(arena + TOLD_CONTROL), .at = at};
        struct {
                uint64_t counts;
                struct ds_ptx_virtual v;
        } params = {(uintptr_t)arena, {.control = (uintptr_t)told.control,
                                              .grid = {TOLD_BLOCKS, 1, 1},
                                              .n_blocks = TOLD_BLOCKS,
                                              .epoch = 1,
                                              .chunk = chunk}};
        struct ds_interp_launch l = {.kernel = kernel,
                .grid = {1, 1, 1},
                .block = {64, 1, 1},
                .params = &params,
                .params_size = sizeof(params),
                .ranges = &range,
                .n_ranges = 1,
                .n_sms = 132,
                .memory = on_count,
                .memory_user = &told,
                .max_instructions = 1000000};
        ds_interp_block *work = ds_interp_block_new();
        struct ds_interp_result result = {0};

        memset(arena, 0, TOLD_BLOCKS * sizeof(uint32_t));
        memset(told.control, 0, sizeof(*told.control));
        cr_assert_eq(ds_interp_run_block(work, &l, 0, 0, 0, &result), 0);
        cr_assert_eq(result.fault, 0, "%s", result.message);
        ds_interp_block_free(work);
        cr_assert_eq(told.control->next, told.begun, "chunk %u, told in block %u", chunk, at);
        cr_assert_eq(told.control->left + told.control->completed, 0);
        for (uint32_t i = 0; i < TOLD_BLOCKS; i++)
                cr_assert_eq(((uint32_t *)(void *)arena)[i], i < told.begun, "block %u", i);
        return told.begun;
}

/* Taking one block at a time, it ends that block; taking more, it ends the blocks that it has already taken. */
Test(ptx_forms, stops_after_the_stop_word)
{
        static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                                   ".visible .entry count(.param .u64 counts)\n{\n\t.reg .b32 %r<2>;\n"
                                   "\t.reg .b64 %rd<3>;\n\t.reg .pred %p;\n\tmov.u32 %r0, %tid.x;\n"
                                   "\tsetp.ne.u32 %p, %r0, 0;\n\t@%p bra $end;\n\tld.param.u64 %rd0, [counts];\n"
                                   "\tmov.u32 %r1, %ctaid.x;\n\tmul.wide.u32 %rd1, %r1, 4;\n"
                                   "\tadd.u64 %rd0, %rd0, %rd1;\n\tred.global.add.u32 [%rd0], 1;\n$end:\n\tret;\n}\n";
        static struct ds_ptx_diags diags;
        struct ds_ptx_form_verdict verdict;
        ds_ptx_module *module, *forms;
        const ds_interp_kernel *kernel;
        ds_interp *interp;

        begin();
        cr_assert_eq(ds_ptx_parse(text, sizeof(text) - 1, 0, &diags, &module), 0);
        cr_assert_eq(ds_ptx_forms_make(module, 0, &diags, &forms, &verdict), 0);
        cr_assert_eq(ds_interp_new(forms, &diags, &interp), 0);
        kernel = ds_interp_find_kernel(interp, "count" DS_PTX_FORM_PERSISTENT_SUFFIX);
        for (uint32_t chunk = 1; chunk < 7; chunk++) {
                uint32_t most = 0;

                for (uint32_t at = 0; at < TOLD_BLOCKS / 2; at++) {
                        uint32_t began = told_in(kernel, chunk, at);

                        most = began - at > most ? began - at : most;
                }
                cr_expect_eq(most, chunk == 1 ? 1 : chunk + 2, "chunk %u: %u", chunk, most);
        }
        ds_interp_free(interp);
        ds_ptx_module_free(forms);
        ds_ptx_module_free(module);
}
