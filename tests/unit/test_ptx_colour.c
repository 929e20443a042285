/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coloured kernels leave the same bits in scattered sectors as native ones in linear memory, and touch nothing else; a
 * kernel that cannot be coloured is refused with the right reason
 *
 * Corpus: every kernel that can be driven (tests/support/corpus_drive.h) runs natively, with its coloured parameters in
 * one piece of memory and the others in another. Then its coloured form runs, and the sliced and persistent forms of
 * that, on the same bytes in sectors of a pool: regular ones, and a random choice in random order. The window of
 * logical addresses is not mapped, so an untranslated access faults. All foreign sectors of the pool must stay
 * unchanged. By default some files run. COLOUR_CORPUS=all: all files, with more launches and masks, and the totals are
 * printed. COLOUR_FILE=PATH: that file.
 *
 * Golden: tests/golden/colour/NAME.ptx, with the verdicts on its kernels in NAME.out (UPDATE_GOLDEN=1 writes it).
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ptx/interp/core.h"
#include "ptx/pass/colour.h"
#include "ptx/pass/forms_make.h"
#include "ptx/pass/pass.h"
#include "tests/support/corpus_drive.h"
#include "tests/unit/read_file.h"
#include "util/alloc.h"
#include "util/macro.h"

#define BUDGET 200000ul /* warp instructions of a native launch */
#define MORE 40         /* budget of another form, times the native one: for kernels of one instruction */
#define N_VARS 256
#define N_WANTS 400
#define SPREAD 4 /* size of the pool relative to its content: every fourth sector belongs to the kernel under test */
#define POOL (SPREAD * DRIVE_ARENA)
#define CANARY 0xc5
#define WINDOW UINT64_C(0x5a3000000000)
#define PACKS "tests/offline/packs/*/*.ptx"

static const struct ds_ptx_colour_layout layouts[] = {{DS_PTX_COLOUR_REGULAR, 11, 1}, {DS_PTX_COLOUR_TABLE, 10, 0},
        {DS_PTX_COLOUR_REGULAR, 8, 2}, {DS_PTX_COLOUR_TABLE, 8, 0}, {DS_PTX_COLOUR_REGULAR, 13, 0}};

struct var {
        uint8_t *at, *initial, *wanted;
        uint64_t size;
        bool constant;
};

/* A file's module with coloured kernels and all their forms */
struct file {
        const char *name;
        ds_ptx_module *module, *coloured, *forms;
        ds_interp *interp;
        struct ds_ptx_colour_want wants[N_WANTS];
        struct ds_ptx_colour_verdict verdicts[N_WANTS];
        size_t n_wants;
        struct var vars[N_VARS];
        uint32_t n_vars;
};

static struct sums {
        uint32_t kernels, with_pointers, most, pointers, possible, driven, launches, forms;
        uint32_t skipped_faults, skipped_long, skipped_timed, skipped_unsteady;
        uint64_t native, coloured;
} sums;

/* Memory of a launch: coloured parameters point to `linear` in the native launch, other parameters to `plain`;
 * `..._wanted` are the native results in both */
static uint8_t *pristine, *plain, *linear, *plain_wanted, *linear_wanted, *pool;
/* places in the pool of the kernel's sectors in the tested layout, also of a regular one */
static uint32_t *table;
static uint64_t seed, bytes; /* bytes: memory of one launch */
static const struct ds_ptx_colour_layout *layout;
static ds_interp_block *work;

/* --- sectors --- */

static uint64_t sector_size(void)
{
        return UINT64_C(1) << layout->sector_bits;
}

static uint32_t n_sectors(void)
{
        return (uint32_t)(bytes >> layout->sector_bits);
}

/* Chooses the sectors of the pool that belong to the kernel, and their order */
static void choose_sectors(void)
{
        uint32_t all = SPREAD * n_sectors(), mine = n_sectors();

        for (uint32_t i = 0; i < all; i++)
                table[i] = layout->kind == DS_PTX_COLOUR_TABLE ? i : i << layout->shift;
        for (uint32_t i = 0; i < mine && layout->kind == DS_PTX_COLOUR_TABLE; i++) {
                uint32_t k = i + (uint32_t)(drive_random(&seed) % (all - i)), other = table[k];

                table[k] = table[i];
                table[i] = other;
        }
}

static void scatter(void)
{
        memset(pool, CANARY, SPREAD * bytes);
        for (uint32_t i = 0; i < n_sectors(); i++)
                memcpy(pool + table[i] * sector_size(), pristine + i * sector_size(), sector_size());
}

/* Whether the kernel's sectors hold the wanted bytes, and all other sectors their old ones */
static bool pool_is_right(void)
{
        static uint8_t mine[POOL >> DS_PTX_COLOUR_SECTOR_MIN];
        bool right = true;

        memset(mine, 0, sizeof(mine));
        for (uint32_t i = 0; i < n_sectors(); i++) {
                mine[table[i]] = 1;
                right &= memcmp(pool + table[i] * sector_size(), linear_wanted + i * sector_size(), sector_size()) == 0;
        }
        for (uint32_t i = 0; i < SPREAD * n_sectors(); i++)
                for (uint64_t k = 0; k < sector_size() && !mine[i]; k += 8)
                        right &= *(uint64_t *)(void *)(pool + i * sector_size() + k) ==
                                 CANARY * UINT64_C(0x0101010101010101);
        return right;
}

/* --- files --- */

static void find_vars(struct file *f)
{
        for (uint32_t i = 0; i < f->forms->n_vars; i++) {
                const struct ds_ptx_var *v = f->forms->vars[i];
                struct var *to = &f->vars[f->n_vars];
                uint64_t va;

                if ((v->space != DS_PTX_IN_GLOBAL && v->space != DS_PTX_IN_CONST) || v->type >= DS_PTX_TYPE_TEXREF ||
                        ds_interp_find_global(f->interp, v->name, &va, &to->size) || f->n_vars == N_VARS)
                        continue;
                to->at = (uint8_t *)(uintptr_t)va;
                to->constant = v->space == DS_PTX_IN_CONST && !v->data && !v->n_relocs;
                to->initial = malloc(to->size + 1);
                to->wanted = malloc(to->size + 1);
                memcpy(to->initial, to->at, to->size);
                f->n_vars++;
        }
}

static void want(struct file *f, const struct ds_ptx_function *k, uint64_t mask)
{
        for (size_t i = 0; i < f->n_wants; i++)
                if (f->wants[i].kernel == k->name && f->wants[i].mask == mask)
                        return;
        if (mask && f->n_wants < N_WANTS)
                f->wants[f->n_wants++] = (struct ds_ptx_colour_want){k->name, mask};
}

/* Lists the masks of parameters to colour: all that can be coloured, and each alone if there are several */
static void choose_masks(struct file *f, const struct ds_ptx_function *k, bool all)
{
        static struct ds_ptx_colour_param params[1100];
        uint64_t most;

        cr_assert(k->n_params < DS_ARRAY_SIZE(params));
        cr_assert_eq(ds_ptx_colour_params(f->module, k, params, &most), 0);
        want(f, k, most);
        sums.with_pointers += most != 0;
        for (uint32_t i = 0; i < k->n_params && i < DS_PTX_COLOUR_PARAMS; i++) {
                cr_expect(!params[i].possible || (params[i].pointer && !params[i].reason[0] && !params[i].line));
                cr_expect(params[i].possible || !params[i].pointer || (params[i].reason[0] && params[i].line));
                cr_expect_eq(params[i].pointer, params[i].loads + params[i].stores != 0 || params[i].reason[0]);
                sums.pointers += params[i].pointer;
                sums.possible += params[i].possible;
                if (params[i].possible && (all || i % 2))
                        want(f, k, params[i].with);
        }
}

static void make(struct file *f)
{
        static struct ds_ptx_diags diags;
        static char why[4000];
        struct ds_ptx_form_verdict *fates;
        int r = ds_ptx_colour_make(f->module, f->wants, f->n_wants, layout, 0, &diags, &f->coloured, f->verdicts);

        ds_ptx_diags_format(&diags, f->name, why, sizeof(why));
        cr_assert_eq(r, 0, "%s", why);
        for (size_t i = 0; i < f->n_wants; i++)
                cr_assert(f->verdicts[i].made && !f->verdicts[i].reason[0], "%s: %s: %s", f->name, f->wants[i].kernel,
                        f->verdicts[i].reason);
        fates = calloc(f->coloured->n_functions + 1, sizeof(*fates));
        r = ds_ptx_forms_make(f->coloured, 0, &diags, &f->forms, fates);
        ds_ptx_diags_format(&diags, f->name, why, sizeof(why));
        cr_assert_eq(r, 0, "%s", why);
        free(fates);
}

/* Opens a file of the corpus. Returns false if the simulated device does not load it */
static bool open_file(struct file *f, const char *path, bool all)
{
        static struct ds_ptx_diags diags;
        size_t length;
        char *text = (char *)read_file_of("", path, &length);
        bool loads;

        f->name = path;
        cr_assert_eq(ds_ptx_parse(text, length, 0, &diags, &f->module), 0, "%s", path);
        free(text);
        for (uint32_t i = 0; i < f->module->n_functions; i++)
                if (f->module->functions[i]->is_entry && f->module->functions[i]->has_body)
                        choose_masks(f, f->module->functions[i], all);
        make(f);
        loads = ds_interp_new(f->forms, &diags, &f->interp) == 0;
        if (loads)
                find_vars(f);
        return loads;
}

static void close_file(struct file *f)
{
        for (uint32_t i = 0; i < f->n_vars; i++) {
                free(f->vars[i].initial);
                free(f->vars[i].wanted);
        }
        ds_interp_free(f->interp);
        ds_ptx_module_free(f->forms);
        ds_ptx_module_free(f->coloured);
        ds_ptx_module_free(f->module);
}

/* --- one launch --- */

/* A kernel with a mask of coloured parameters, and a launch of it */
struct run {
        struct file *f;
        const struct ds_ptx_colour_want *want;
        struct drive d;
        struct drive_launch at;
        struct ds_interp_launch l;
        struct ds_interp_range ranges[4];
        uint8_t params[DRIVE_PARAMS + 256];
};

static void reset(struct file *f)
{
        memcpy(plain, pristine, bytes);
        memcpy(linear, pristine, bytes);
        for (uint32_t i = 0; i < f->n_vars; i++)
                memcpy(f->vars[i].at,
                        f->vars[i].constant && f->vars[i].size < DRIVE_ARENA ? pristine : f->vars[i].initial,
                        f->vars[i].size);
}

static bool rest_is_same(const struct file *f)
{
        bool equal = memcmp(plain_wanted, plain, bytes) == 0;

        for (uint32_t i = 0; i < f->n_vars; i++)
                equal &= memcmp(f->vars[i].wanted, f->vars[i].at, f->vars[i].size) == 0;
        return equal;
}

static void keep(struct file *f)
{
        memcpy(plain_wanted, plain, bytes);
        memcpy(linear_wanted, linear, bytes);
        for (uint32_t i = 0; i < f->n_vars; i++)
                memcpy(f->vars[i].wanted, f->vars[i].at, f->vars[i].size);
}

static void add_range(struct run *r, const void *at, uint64_t size)
{
        size_t i = r->l.n_ranges++;

        for (; i && r->ranges[i - 1].va > (uintptr_t)at; i--)
                r->ranges[i] = r->ranges[i - 1];
        r->ranges[i] = (struct ds_interp_range){(uintptr_t)at, size};
}

/* Builds the launch's parameters: coloured ones point to memory at `to`, in the place of `plain` */
static void set_params(struct run *r, uint64_t to, int unseen)
{
        drive_params(&r->d, &r->at, (uintptr_t)plain, unseen, r->params);
        for (uint32_t i = 0; i < r->d.function->n_params && i < DS_PTX_COLOUR_PARAMS; i++) {
                uint8_t *at = r->params + r->d.function->params[i]->offset;
                uint64_t value;

                if (!(r->want->mask >> i & 1))
                        continue;
                memcpy(&value, at, 8);
                value += to - (uintptr_t)plain;
                memcpy(at, &value, 8);
        }
}

static struct ds_interp_result run_blocks(struct run *r, uint64_t budget, uint64_t *spent)
{
        const uint32_t *g = r->l.grid;
        struct ds_interp_result result = {.fault = DS_INTERP_OK};

        for (uint32_t i = 0; i < g[0] * g[1] * g[2] && !result.fault; i++) {
                r->l.max_instructions = budget - DS_MIN(*spent, budget - 1);
                if (ds_interp_run_block(work, &r->l, i % g[0], i / g[0] % g[1], i / g[0] / g[1], &result))
                        abort();
                *spent += result.cost.instructions;
                if (*spent >= budget)
                        result.fault = DS_INTERP_FAULT_BUDGET;
        }
        return result;
}

static bool begin_run(struct run *r, const char *kernel)
{
        r->l = (struct ds_interp_launch){.kernel = ds_interp_find_kernel(r->f->interp, kernel),
                .dynamic_shared = r->at.dynamic ? r->at.dynamic - 1024 : 0,
                .params = r->params,
                .ranges = r->ranges,
                .n_sms = 132};
        if (!r->l.kernel)
                return false;
        memcpy(r->l.grid, r->at.grid, sizeof(r->l.grid));
        memcpy(r->l.block, r->at.block, sizeof(r->l.block));
        r->l.params_size = ds_interp_kernel_info(r->l.kernel)->params_size;
        return true;
}

static struct ds_interp_result run_native(struct run *r, int unseen, uint64_t *spent)
{
        cr_assert(begin_run(r, r->want->kernel));
        add_range(r, plain, bytes);
        add_range(r, linear, bytes);
        set_params(r, (uintptr_t)linear, unseen);
        reset(r->f);
        return run_blocks(r, BUDGET, spent);
}

/* Whether the native launch gives the same result in any order of warps and with any initial memory */
static bool is_steady(struct run *r, int unseen)
{
        static const struct {
                uint32_t slice;
                int backwards;
                uint8_t fill;
        } turns[] = {{5, 1, 0x7f}, {1, 0, 0x11}, {40, 1, 0}};
        bool steady = true;

        for (size_t i = 0; i < DS_ARRAY_SIZE(turns) && steady; i++) {
                uint64_t spent = 0;

                ds_ix_force_turns(turns[i].slice, turns[i].backwards, turns[i].fill);
                steady = !run_native(r, unseen, &spent).fault && rest_is_same(r->f) &&
                         memcmp(linear_wanted, linear, bytes) == 0;
                ds_ix_force_turns(0, 0, 0);
        }
        return steady;
}

/* Runs the coloured kernel or a form of it: slices of one or more blocks, or one worker that takes several blocks at
 * a time */
static struct ds_interp_result run_form(struct run *r, enum ds_ptx_form form)
{
        static struct ds_ptx_control control __attribute__((__aligned__(64)));
        uint32_t n = r->at.grid[0] * r->at.grid[1] * r->at.grid[2];
        struct ds_ptx_virtual v = {.control = (uintptr_t)&control, .n_blocks = n, .epoch = 1, .chunk = 3};
        const struct ds_interp_kernel_info *info = ds_interp_kernel_info(r->l.kernel);
        struct ds_interp_result result = {.fault = DS_INTERP_OK};
        uint64_t spent = 0;

        if (form == DS_PTX_FORM_NATIVE) {
                result = run_blocks(r, BUDGET * MORE, &spent);
                sums.coloured += spent;
                return result;
        }
        memset(&control, 0, sizeof(control));
        memcpy(v.grid, r->at.grid, sizeof(v.grid));
        add_range(r, &control, sizeof(control));
        r->l.grid[1] = r->l.grid[2] = 1;
        for (r->l.grid[0] = 1; v.first < n && !result.fault; v.first += r->l.grid[0], r->l.grid[0] = 2) {
                r->l.grid[0] = DS_MIN(r->l.grid[0], n - v.first);
                memcpy(r->params + info->params[info->n_params - 1].offset, &v, sizeof(v));
                result = run_blocks(r, BUDGET * MORE, &spent);
                if (form == DS_PTX_FORM_PERSISTENT)
                        break;
        }
        cr_expect(result.fault || form != DS_PTX_FORM_PERSISTENT || control.completed == 1);
        return result;
}

/* Arguments of the coloured launch. skew: a wrong distance of the pool, in bytes, to prove that the comparison
 * notices it */
static struct ds_ptx_colour colour_of(uint64_t window, uint64_t skew)
{
        struct ds_ptx_colour colour;

        cr_assert(ds_ptx_colour_set(layout, window, bytes, (uintptr_t)pool + skew, (uintptr_t)table, &colour));
        return colour;
}

static struct ds_interp_result run_coloured(struct run *r, int unseen, enum ds_ptx_form form, uint64_t skew)
{
        uint64_t window = WINDOW + drive_random(&seed) % 1000 * sector_size();
        const struct ds_ptx_colour colour = colour_of(window, skew);
        const struct ds_interp_kernel_info *info = ds_interp_kernel_info(r->l.kernel);

        add_range(r, plain, bytes);
        add_range(r, pool, SPREAD * bytes);
        if (layout->kind == DS_PTX_COLOUR_TABLE)
                add_range(r, table, n_sectors() * sizeof(*table));
        set_params(r, window, unseen);
        memcpy(r->params + info->params[r->d.function->n_params].offset, &colour, sizeof(colour));
        reset(r->f);
        memset(linear, 0, bytes);
        scatter();
        return run_form(r, form);
}

static void compare(struct run *r, int unseen, enum ds_ptx_form form)
{
        static const char *const suffixes[] = {"", DS_PTX_FORM_SLICED_SUFFIX, DS_PTX_FORM_PERSISTENT_SUFFIX};
        struct ds_interp_result result;
        char name[600];

        cr_assert(ds_ptx_colour_name(r->want->kernel, r->want->mask, name, sizeof(name)));
        strncat(name, suffixes[form], sizeof(name) - strlen(name) - 1);
        if (!begin_run(r, name)) {
                cr_expect(form != DS_PTX_FORM_NATIVE, "%s: no %s", r->f->name, name);
                return;
        }
        result = run_coloured(r, unseen, form, 0);
        cr_expect(!result.fault, "%s: %s: line %u: %s", r->f->name, name, result.line, result.message);
        cr_expect(pool_is_right() && rest_is_same(r->f), "%s: %s leaves something else (sectors of %u bytes, kind %u)",
                r->f->name, name, (unsigned)sector_size(), layout->kind);
        sums.launches++;
        sums.forms += form != DS_PTX_FORM_NATIVE;
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

/* Runs launch `which` natively and coloured, and compares. Returns whether the native launch ran. */
static bool one_launch(struct run *r, int which, int unseen, bool all)
{
        struct ds_interp_result result;
        uint64_t spent = 0;

        drive_launch(&r->d, which, &r->at);
        result = run_native(r, unseen, &spent);
        if (result.fault) {
                sums.skipped_long += result.fault == DS_INTERP_FAULT_BUDGET;
                sums.skipped_faults += result.fault != DS_INTERP_FAULT_BUDGET;
                if (getenv("COLOUR_FILE"))
                        fprintf(stderr, "%s: line %u: %s\n", r->want->kernel, result.line, result.message);
                return false;
        }
        keep(r->f);
        if (!is_steady(r, unseen)) {
                sums.skipped_unsteady++;
                return true;
        }
        sums.native += spent;
        compare(r, unseen, DS_PTX_FORM_NATIVE);
        if (all || which % 2)
                compare(r, unseen, DS_PTX_FORM_SLICED);
        if (all || !(which % 2))
                compare(r, unseen, DS_PTX_FORM_PERSISTENT);
        return true;
}

/* Marks coloured parameters as addresses, whatever the kernel's instructions show about them. */
static void name_addresses(struct run *r)
{
        for (uint32_t i = 0; i < r->d.n_fields; i++)
                for (uint32_t k = 0; k < r->d.function->n_params && k < DS_PTX_COLOUR_PARAMS; k++) {
                        if (r->d.field[i].offset != r->d.function->params[k]->offset || !(r->want->mask >> k & 1))
                                continue;
                        r->d.unseen -= r->d.field[i].is == DRIVE_UNSEEN && r->d.field[i].size == 8;
                        r->d.field[i].is = DRIVE_ADDRESS;
                }
}

/* As much memory as the kernel's addresses need; a kernel that reaches further is not driven. */
static void size_memory(const struct drive *d)
{
        uint32_t n = 3;

        for (uint32_t i = 0; i < d->n_fields; i++)
                n += d->field[i].is == DRIVE_ADDRESS || d->field[i].is == DRIVE_UNSEEN;
        bytes = DRIVE_SLOT * DS_MIN(n, (uint32_t)DRIVE_SLOTS);
        choose_sectors();
}

static void one_kernel(struct file *f, const struct ds_ptx_colour_want *wanted, int n_launches, bool all)
{
        const ds_interp_kernel *kernel = ds_interp_find_kernel(f->interp, wanted->kernel);
        const struct ds_ptx_function *k = NULL;
        static struct run r;
        bool ran = false;

        for (uint32_t i = 0; i < f->module->n_functions; i++)
                if (f->module->functions[i]->has_body && f->module->functions[i]->name == wanted->kernel)
                        k = f->module->functions[i];
        cr_assert(kernel && k);
        sums.kernels++;
        r = (struct run){.f = f, .want = wanted};
        if (ds_interp_kernel_info(kernel)->cluster[0] || ds_interp_kernel_info(kernel)->blocks_are_clusters ||
                !drive_open(&r.d, f->module, k, ds_interp_kernel_info(kernel)))
                return;
        if ((r.d.class & DRIVE_TIMED) || exception(k->name)) {
                sums.skipped_timed++;
                return;
        }
        name_addresses(&r);
        size_memory(&r.d);
        for (int which = 0; which < n_launches; which++)
                for (int unseen = 0; unseen <= (r.d.unseen ? 1 : 0); unseen++)
                        ran |= one_launch(&r, which, unseen, all);
        sums.driven += ran;
}

static void check_file(const char *path, size_t which_layout, int n_launches, bool all)
{
        static struct file f;

        f = (struct file){0};
        layout = &layouts[which_layout % DS_ARRAY_SIZE(layouts)];
        if (open_file(&f, path, all))
                for (size_t i = 0; i < f.n_wants; i++)
                        one_kernel(&f, &f.wants[i], n_launches, all);
        close_file(&f);
}

static void begin(void)
{
        uint8_t **memory[] = {&pristine, &plain, &linear, &plain_wanted, &linear_wanted};

        for (size_t i = 0; i < DS_ARRAY_SIZE(memory); i++)
                cr_assert(*memory[i] = aligned_alloc(4096, DRIVE_ARENA));
        cr_assert(pool = aligned_alloc(DS_MIB(2), POOL));
        cr_assert(table = aligned_alloc(4096, (POOL >> DS_PTX_COLOUR_SECTOR_MIN) * sizeof(*table)));
        cr_assert(work = ds_interp_block_new());
        seed = 1;
        drive_fill(pristine, DRIVE_ARENA, DRIVE_SMALL, 1);
}

static void print_sums(void)
{
        fprintf(stderr,
                "sim: %u kernels with pointers, of %u pointers %u can be coloured; %u kernels with a mask, %u driven, "
                "%u launches, %u of them in forms\n",
                sums.with_pointers, sums.pointers, sums.possible, sums.kernels, sums.driven, sums.launches, sums.forms);
        fprintf(stderr,
                "not driven: %u kernels with clocks or exceptions, %u launches that fault, %u that are long, %u that "
                "differ a second time; instructions %.3f times as many\n",
                sums.skipped_timed, sums.skipped_faults, sums.skipped_long, sums.skipped_unsteady,
                (double)sums.coloured / (double)DS_MAX(sums.native, UINT64_C(1)));
}

Test(ptx_colour, corpus, .timeout = 7200)
{
        static const char *const some[] = {
                "sm_90/saxpy.ptx", "sm_75/reduce.ptx", "sm_90/async_pipeline.ptx", "sm_90/histogram.ptx"};
        bool all = getenv("COLOUR_CORPUS") && strcmp(getenv("COLOUR_CORPUS"), "all") == 0;
        const char *one = getenv("COLOUR_FILE");
        glob_t files;
        char path[500];

        begin();
        if (one) {
                for (size_t k = 0; k < DS_ARRAY_SIZE(layouts); k++)
                        check_file(one, k, DRIVE_N_LAUNCHES, true);
                print_sums();
                return;
        }
        for (size_t i = 0; i < DS_ARRAY_SIZE(some) && !all; i++) {
                snprintf(path, sizeof(path), TEST_PTX_DIR "/%s", some[i]);
                check_file(path, i, 1, false);
        }
        if (!all) {
                cr_expect(sums.driven > 8 && sums.launches > 16, "%u %u", sums.driven, sums.launches);
                return;
        }
        cr_assert_eq(glob(TEST_PTX_DIR "/sm_*/*.ptx", 0, NULL, &files), 0);
        (void)glob(TEST_PTX_DIR "/corpus/*/*.ptx", GLOB_APPEND, NULL, &files);
        (void)glob(TEST_TREE_DIR "/" PACKS, GLOB_APPEND, NULL, &files);
        for (size_t i = 0; i < files.gl_pathc; i++) {
                check_file(files.gl_pathv[i], i, DRIVE_N_LAUNCHES, true);
                check_file(files.gl_pathv[i], i + 1, 3, true);
        }
        globfree(&files);
        print_sums();
}

/* Kernels of a model pack, compiled by the offline phase */
Test(ptx_colour, pack)
{
        begin();
        check_file(TEST_TREE_DIR "/tests/offline/packs/tiny-mlp/kernels.ptx", 1, 1, false);
        cr_expect(sums.with_pointers > 2 && sums.pointers == sums.possible, "%u of %u", sums.possible, sums.pointers);
}

/* All kernels of the traps run, with regular layouts and with a table of sectors. */
Test(ptx_colour, traps)
{
        begin();
        for (size_t k = 0; k < 3; k++)
                check_file(TEST_COLOUR_DIR "/traps.ptx", k, 1, false);
        cr_expect(sums.driven == sums.kernels && sums.kernels > 50, "%u of %u", sums.driven, sums.kernels);
        cr_expect(sums.skipped_faults == 0 && sums.skipped_unsteady == 0, "%u %u", sums.skipped_faults,
                sums.skipped_unsteady);
        cr_expect(sums.forms > 50, "%u", sums.forms);
}

/* The comparison notices a launch that writes to wrong sectors. */
Test(ptx_colour, wrong_sectors_show)
{
        static struct file f;
        static struct run r;
        uint64_t spent = 0;
        char name[100];

        begin();
        layout = &layouts[1];
        cr_assert(open_file(&f, TEST_COLOUR_DIR "/traps.ptx", false));
        r = (struct run){.f = &f, .want = &f.wants[0]};
        cr_assert(drive_open(&r.d, f.module, f.module->functions[0],
                ds_interp_kernel_info(ds_interp_find_kernel(f.interp, r.want->kernel))));
        size_memory(&r.d);
        drive_launch(&r.d, 0, &r.at);
        cr_assert(!run_native(&r, 0, &spent).fault);
        keep(&f);
        cr_assert(ds_ptx_colour_name(r.want->kernel, r.want->mask, name, sizeof(name)));
        cr_assert(begin_run(&r, name));
        cr_expect(!run_coloured(&r, 0, DS_PTX_FORM_NATIVE, 0).fault && pool_is_right() && rest_is_same(&f));
        /* changes a sector that does not belong to the kernel */
        pool[(uint64_t)table[n_sectors()] * sector_size() + 9] ^= 1;
        cr_expect(!pool_is_right());
        cr_assert(begin_run(&r, name));
        cr_expect(run_coloured(&r, 0, DS_PTX_FORM_NATIVE, sector_size()).fault || !pool_is_right());
        close_file(&f);
}

/* --- verdicts --------------------- */

static void assembles(const ds_ptx_module *module)
{
        char name[] = "/tmp/detshare-colour-XXXXXX", command[300];
        int fd = mkstemp(name);
        FILE *out = fdopen(fd, "w");

        cr_assert(out && ds_ptx_print(module, out) == 0 && fclose(out) == 0);
        snprintf(command, sizeof(command), "%s -arch=sm_%u%.1s -O1 -c -o /dev/null %s", PTXAS, module->target,
                &module->target_suffix, name);
        cr_expect_eq(system(command), 0, "what was made does not assemble");
        unlink(name);
}

static void say_kernel(FILE *out, const ds_ptx_module *m, const struct ds_ptx_function *k)
{
        struct ds_ptx_colour_param params[8];
        struct ds_ptx_colour_verdict v;
        uint64_t most;

        cr_assert(k->n_params <= DS_ARRAY_SIZE(params));
        cr_assert_eq(ds_ptx_colour_params(m, k, params, &most), 0);
        fprintf(out, "%s: %llx\n", k->name, (unsigned long long)most);
        for (uint32_t i = 0; i < k->n_params; i++) {
                struct ds_ptx_colour_want alone = {k->name, UINT64_C(1) << i};

                cr_assert_eq(ds_ptx_colour_judge(m, &alone, &v), 0);
                cr_expect_eq(v.made, !v.reason[0]);
                if (params[i].pointer)
                        fprintf(out, "  %u: %s%s, %u reading, %u writing, with %llx\n", i,
                                params[i].possible ? "possible" : "", params[i].reason, params[i].loads,
                                params[i].stores, (unsigned long long)params[i].with);
                fprintf(out, "  %u alone: %s%s\n", i, v.made ? "made" : "", v.reason);
        }
}

/* Compares the verdict on each kernel and parameter with the golden file, and lets the assembler accept every module
 * made */
static void golden(const char *name)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        static struct ds_ptx_diags diags;
        size_t length, n = 0;
        char path[600], *found = NULL, *text, *expected;
        FILE *out = open_memstream(&found, &n);

        snprintf(path, sizeof(path), "%s.ptx", name);
        text = (char *)read_file_of(TEST_COLOUR_DIR, path, &length);
        cr_assert_eq(ds_ptx_parse(text, length, 0, &diags, &module), 0);
        for (uint32_t i = 0; i < module->n_functions; i++)
                if (module->functions[i]->is_entry)
                        say_kernel(out, module, module->functions[i]);
        fclose(out);
        snprintf(path, sizeof(path), TEST_COLOUR_DIR "/%s.out", name);
        if (getenv("UPDATE_GOLDEN")) {
                out = fopen(path, "we");
                cr_assert(out && fputs(found, out) >= 0 && fclose(out) == 0);
        }
        snprintf(path, sizeof(path), "%s.out", name);
        expected = (char *)read_file_of(TEST_COLOUR_DIR, path, &n);
        cr_expect(
                strlen(found) == n && memcmp(found, expected, n) == 0, "%s differs; this was found:\n%s", path, found);
        free(expected);
        free(found);
        free(text);
}

Test(ptx_colour, reasons)
{
        golden("traps");
        golden("refused");
}

static ds_ptx_module *module_of(const char *text, size_t length)
{
        static struct ds_ptx_diags diags;
        ds_ptx_module *module = NULL;

        cr_assert_eq(ds_ptx_parse(text, length, 0, &diags, &module), 0);
        return module;
}

/* Native kernels stay unchanged word by word, whatever else is requested; the assembler accepts the module. */
Test(ptx_colour, output_is_accepted_by_the_assembler)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL, *made = NULL;
        static const struct ds_ptx_colour_want wants[] = {{"offsets", 3}, {"offsets", 1}, {"offsets", 3},
                {"offsets", 4}, {"offsets", 0}, {"none", 1}, {"copies", 2}};
        static const bool possible[] = {true, true, false, false, false, false, true};
        struct ds_ptx_colour_verdict verdicts[DS_ARRAY_SIZE(wants)];
        static struct ds_ptx_diags diags;
        size_t length, n = 0;
        char *text = (char *)read_file_of(TEST_COLOUR_DIR, "traps.ptx", &length), *before = NULL, *after = NULL;
        FILE *out;

        module = module_of(text, length);
        cr_assert_eq(
                ds_ptx_colour_make(module, wants, DS_ARRAY_SIZE(wants), &layouts[1], 0, &diags, &made, verdicts), 0);
        for (size_t i = 0; i < DS_ARRAY_SIZE(wants); i++)
                cr_expect(verdicts[i].made == possible[i] && verdicts[i].made == !verdicts[i].reason[0], "%zu: %s", i,
                        verdicts[i].reason);
        cr_expect_eq(verdicts[0].accesses, 5);
        cr_expect_eq(verdicts[1].accesses, 4);
        assembles(made);
        out = open_memstream(&before, &n);
        cr_assert(ds_ptx_print(module, out) == 0 && fclose(out) == 0);
        out = open_memstream(&after, &n);
        cr_assert(ds_ptx_print(made, out) == 0 && fclose(out) == 0);
        cr_expect_eq(strncmp(after, before, strlen(before)), 0, "native kernels changed");
        cr_expect(strstr(after + strlen(before), ".entry offsets__ds_colour_3("));
        cr_expect(strstr(after + strlen(before), ".entry copies__ds_colour_2("));
        free(before);
        free(after);
        free(text);
}

/* Refused requests to colour: in place, twice, under a name that exists, of a declaration, with a mask that names no
 * address. */
Test(ptx_colour, refusals)
{
        static const char head[] = ".version 8.0\n.target sm_90\n.address_size 64\n";
        static const char body[] = "(.param .u64 p, .param .u32 n)\n{\n.reg .b64 %a<2>;\nld.param.u64 %a1, [p];\n"
                                   "st.global.u32 [%a1], 1;\nret;\n}\n";
        static struct ds_ptx_diags diags;
        const struct ds_ptx_pass *pass = ds_ptx_pass_find("colour", strlen("colour"));
        const struct ds_ptx_pass_options second = {.mask = 2};
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *declared = NULL, *taken = NULL, *made = NULL, *after = NULL;
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *twice = NULL, *other = NULL;
        struct ds_ptx_outcome outcomes[2];
        struct ds_ptx_colour_verdict v;
        char text[1000];

        snprintf(text, sizeof(text), "%s.visible .entry k(.param .u64 p, .param .u32 n);\n.visible .entry k%s", head,
                body);
        declared = module_of(text, strlen(text));
        cr_assert_eq(ds_ptx_pass_apply(pass, declared, NULL, 0, outcomes, &diags, &after), 0);
        cr_expect(outcomes[1].verdict == DS_PTX_PASS_REFUSED && outcomes[1].line == 4);
        cr_assert_eq(
                ds_ptx_colour_make(declared, &(struct ds_ptx_colour_want){"k", 1}, 1, layouts, 0, &diags, &made, &v),
                0);
        cr_expect(v.made);
        snprintf(text, sizeof(text), "%s.visible .entry k%s.visible .entry k__ds_colour_1%s", head, body, body);
        taken = module_of(text, strlen(text));
        ds_ptx_module_free(made);
        cr_assert_eq(
                ds_ptx_colour_make(taken, &(struct ds_ptx_colour_want){"k", 1}, 1, layouts, 0, &diags, &made, &v), 0);
        cr_expect(!v.made && strstr(v.reason, "taken"), "%s", v.reason);
        /* after translation the address no longer follows from the parameter in a known way */
        ds_ptx_module_free(after);
        cr_assert_eq(ds_ptx_pass_apply(pass, taken, NULL, 0, outcomes, &diags, &after), 0);
        cr_assert_eq(ds_ptx_pass_apply(pass, after, NULL, 0, outcomes, &diags, &twice), 0);
        cr_expect(outcomes[0].verdict == DS_PTX_PASS_REFUSED && strstr(outcomes[0].reason, "unknown way"));
        cr_expect_eq(twice->functions[0]->n_params, 3);
        cr_assert_eq(ds_ptx_pass_apply_with(pass, taken, &second, 0, outcomes, &diags, &other), 0);
        cr_expect(outcomes[0].verdict == DS_PTX_PASS_REFUSED && strstr(outcomes[0].reason, "no parameter 1"), "%s",
                outcomes[0].reason);
}

/* A kernel with instructions of all classes that have no operands */
Test(ptx_colour, no_operands)
{
        static const char text[] =
                ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
                ".reg .b64 %a<2>;\nld.param.u64 %a1, [p];\nwgmma.fence.sync.aligned;\n"
                "wgmma.commit_group.sync.aligned;\ncp.async.commit_group;\ncp.async.wait_all;\n"
                "trap;\nfence.proxy.async;\nst.global.u32 [%a1], 1;\nexit;\n}\n";
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = module_of(text, strlen(text));
        struct ds_ptx_colour_verdict v;

        cr_assert_eq(ds_ptx_colour_judge(module, &(struct ds_ptx_colour_want){"k", 1}, &v), 0);
        cr_expect(v.made && v.accesses == 1, "%s", v.reason);
}

/* An address that moves backwards through the text, one step per round of a loop */
Test(ptx_colour, too_many_steps)
{
        char *text = NULL;
        size_t length;
        FILE *out = open_memstream(&text, &length);
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        struct ds_ptx_colour_verdict v;

        for (unsigned steps = 20; steps < 200; steps += 160) {
                rewind(out);
                fprintf(out, ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
                             ".reg .b64 %%a<201>;\n.reg .pred %%p1;\nld.param.u64 %%a0, [p];\nL:\n");
                for (unsigned i = steps; i; i--)
                        fprintf(out, "mov.b64 %%a%u, %%a%u;\n", i, i - 1);
                fprintf(out, "setp.eq.u64 %%p1, %%a%u, 0;\n@%%p1 bra L;\nst.global.u32 [%%a%u], 1;\nret;\n}\n", steps,
                        steps);
                fflush(out);
                module = ds_ptx_module_free(module);
                module = module_of(text, length);
                cr_assert_eq(ds_ptx_colour_judge(module, &(struct ds_ptx_colour_want){"k", 1}, &v), 0);
                cr_expect_eq(v.made, steps < 64, "%u: %s", steps, v.reason);
        }
        fclose(out);
        free(text);
}

/* A sliced or persistent kernel can be coloured afterwards; the parameters of the form stand before those of the
 * colouring. */
Test(ptx_colour, behind_forms)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL, *forms = NULL, *made = NULL;
        ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;
        static struct ds_ptx_diags diags;
        static struct ds_ptx_form_verdict fates[40];
        const struct ds_ptx_colour_want wants[] = {
                {"offsets" DS_PTX_FORM_SLICED_SUFFIX, 3}, {"offsets" DS_PTX_FORM_PERSISTENT_SUFFIX, 3}};
        struct ds_ptx_colour_verdict verdicts[2];
        struct {
                uint64_t in, out;
                struct ds_ptx_virtual v;
                struct ds_ptx_colour colour;
        } params = {WINDOW, WINDOW + DRIVE_SLOT, {.grid = {2, 1, 1}, .n_blocks = 2, .epoch = 1, .chunk = 1}, {0}};
        struct ds_interp_range range;
        struct ds_interp_launch l = {
                .grid = {2, 1, 1}, .block = {32, 1, 1}, .ranges = &range, .n_ranges = 1, .n_sms = 1};
        struct ds_interp_result result;
        size_t length;
        char *text = (char *)read_file_of(TEST_COLOUR_DIR, "traps.ptx", &length);
        uint32_t sum;

        begin();
        layout = &layouts[0];
        bytes = DRIVE_ARENA;
        choose_sectors();
        module = module_of(text, length);
        free(text);
        cr_assert_eq(ds_ptx_forms_make(module, 0, &diags, &forms, fates), 0);
        cr_assert_eq(ds_ptx_colour_make(forms, wants, 2, layout, 0, &diags, &made, verdicts), 0);
        cr_assert(verdicts[0].made && verdicts[1].made, "%s %s", verdicts[0].reason, verdicts[1].reason);
        assembles(made);
        cr_assert_eq(ds_interp_new(made, &diags, &interp), 0);
        params.colour = colour_of(WINDOW, 0);
        range = (struct ds_interp_range){(uintptr_t)pool, POOL};
        l.kernel = ds_interp_find_kernel(interp, "offsets" DS_PTX_FORM_SLICED_SUFFIX "__ds_colour_3");
        l.params = &params;
        l.params_size = sizeof(params);
        cr_assert(l.kernel && ds_interp_kernel_info(l.kernel)->params_size == sizeof(params));
        scatter();
        for (uint32_t i = 0; i < 2; i++)
                cr_assert(!ds_interp_run_block(work, &l, i, 0, 0, &result) && !result.fault, "%s", result.message);
        for (uint32_t i = 0; i < 32; i++) {
                const uint8_t *at = pristine + 65536 + i * 252;
                const uint32_t *out =
                        (uint32_t *)(void *)(pool +
                                             ds_ptx_colour_place(layout, &params.colour, params.out + 1024 + i * 4, 0) -
                                             (uintptr_t)pool);

                sum = *(uint32_t *)(void *)(at - 4) + *(uint32_t *)(void *)(at + 2048) +
                      *(uint32_t *)(void *)(at - 65532) + *(uint32_t *)(void *)(at + 252);
                cr_assert_eq(*out, sum, "%u", i);
        }
}

/* --- layouts --- */

Test(ptx_colour, addresses)
{
        static const struct ds_ptx_colour_layout regular = {DS_PTX_COLOUR_REGULAR, 11, 1},
                                                 tabled = {DS_PTX_COLOUR_TABLE, 10, 0};
        static const struct ds_ptx_colour_layout bad[] = {{DS_PTX_COLOUR_REGULAR, 7, 1}, {DS_PTX_COLOUR_REGULAR, 22, 1},
                {DS_PTX_COLOUR_REGULAR, 11, 9}, {DS_PTX_COLOUR_TABLE, 10, 1}, {_DS_PTX_COLOUR_KIND_MAX, 11, 0}};
        const uint64_t border = UINT64_C(1) << 42;
        struct ds_ptx_colour c;
        char name[40];

        cr_assert(ds_ptx_colour_set(&regular, 0x10000800, 4096, 0x7000000, 0, &c));
        cr_expect_eq(ds_ptx_colour_place(&regular, &c, 0x10000800, 0), 0x7000000);
        cr_expect_eq(ds_ptx_colour_place(&regular, &c, 0x10000800 + 2047, 0), 0x7000000 + 2047);
        cr_expect_eq(ds_ptx_colour_place(&regular, &c, 0x10000800 + 2048, 0), 0x7000000 + 4096);
        cr_assert(ds_ptx_colour_set(&tabled, border, 4096, 0x7000000, 0x5000, &c));
        cr_expect_eq(c.table, 0x5000);
        cr_expect_eq(ds_ptx_colour_place(&tabled, &c, border + 1025, 7), 0x7000000 + 7 * 1024 + 1);
        cr_assert(ds_ptx_colour_set(&tabled, border + 2048, 4096, 0x7000000, 0x5000, &c));
        cr_expect_eq(c.table, 0x5000 - 8);
        cr_expect(!ds_ptx_colour_set(&tabled, border - 1024, 2048, 0x7000000, 0x5000, &c));
        cr_expect(ds_ptx_colour_set(&tabled, border - 1024, 1024, 0x7000000, 0x5000, &c));
        cr_expect(!ds_ptx_colour_set(&tabled, border, 4096, 0x7000000, 0, &c));
        cr_expect(!ds_ptx_colour_set(&tabled, border, 4096, 0x7000000, 0x5002, &c));
        cr_expect(!ds_ptx_colour_set(&tabled, border, 0, 0x7000000, 0x5000, &c));
        cr_expect(!ds_ptx_colour_set(&regular, 1024, 4096, 0x7000000, 0, &c));
        cr_expect(!ds_ptx_colour_set(&regular, 2048, 4096, 0x7000400, 0, &c));
        cr_expect(!ds_ptx_colour_set(&regular, UINT64_MAX - 2047, 4096, 0x7000000, 0, &c));
        for (size_t i = 0; i < DS_ARRAY_SIZE(bad); i++)
                cr_expect(!ds_ptx_colour_layout_is_good(&bad[i]) &&
                          !ds_ptx_colour_set(&bad[i], 0, 1 << 22, 1 << 22, 4, &c));
        cr_expect(ds_ptx_colour_name("kernel", 0x1f, name, sizeof(name)));
        cr_expect_str_eq(name, "kernel__ds_colour_1f");
        cr_expect(!ds_ptx_colour_name("kernel", 0, name, sizeof(name)));
        cr_expect(!ds_ptx_colour_name("kernel", 1, name, 19) && ds_ptx_colour_name("kernel", 1, name, 20));
}

/* Every allocation can fail. */
Test(ptx_colour, out_of_memory)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        static struct ds_ptx_diags diags;
        static const struct ds_ptx_colour_want wants[] = {{"copies", 3}, {"stores_it", 1}};
        static const struct ds_ptx_colour_layout bad = {0};
        struct ds_ptx_colour_verdict verdicts[2];
        struct ds_ptx_colour_param params[8];
        uint64_t most;
        size_t length;
        char *text = (char *)read_file_of(TEST_COLOUR_DIR, "traps.ptx", &length);
        ds_ptx_module *made = NULL;
        int failed = 0, r = -ENOMEM;

        module = module_of(text, length);
        for (int64_t n = 0; r; n++) {
                ds_alloc_fail_after(n);
                r = ds_ptx_colour_make(module, wants, 2, layouts, 0, &diags, &made, verdicts);
                if (!r)
                        r = ds_ptx_colour_params(module, module->functions[0], params, &most);
                ds_alloc_fail_after(-1);
                cr_assert(r == 0 || r == -ENOMEM);
                failed += r != 0;
                if (r)
                        ds_ptx_module_free(made);
                if (r)
                        made = NULL;
        }
        cr_expect(failed > 15, "%d", failed);
        ds_ptx_module_free(made);
        made = NULL;
        cr_expect_eq(ds_ptx_colour_make(module, wants, 2, layouts, 4096, &diags, &made, verdicts), -ENOMEM);
        cr_expect_eq(ds_ptx_colour_make(module, wants, 2, &bad, 0, &diags, &made, verdicts), -EINVAL);
        free(text);
}
