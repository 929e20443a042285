/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of coloured kernels without other load: each kernel runs natively and coloured, in alternation
 *
 * Kernels: those of tests/bench/gpu_colour.cu, which wait for memory most of the time and use three blocks of memory;
 * and those of model packs, launched in the order of an inference. Every parameter that can be coloured is coloured.
 * Layouts:
 *   linear    the sectors are contiguous: the cost of address translation, with one operation
 *   second    every second sector of a pool of twice the size: the two operations of the SGDRC paper
 *   table     the sectors are contiguous, but found through a table: the cost of the look-up
 * The linear and table layouts reach the same memory as the native kernel. First, the program compares the memory that
 * all of them leave, byte by byte. On a difference it prints no figures and exits with status 1. Times are the
 * device's, medians of alternating launches. A launch on a GPU takes some microseconds whatever the kernel does, and
 * this dominates the times of small packs.
 *
 * usage: colour [-t TRIES] [-m KIB] [-k KERNELS.ptx] [PACK...]
 *   TRIES        launches per kernel and layout; default 21 on a GPU, 3 elsewhere
 *   KIB          size of each block of memory, a power of two from 256; default 65536 on a GPU, 256 elsewhere
 *   KERNELS.ptx  default ../../bench/gpu_colour.ptx, relative to the program
 * The environment variable DETSHARE_TEST_DEVICE names the device (default cuda:0); its name stands above the table.
 */
#define DT_PLAIN
#include "ptx/pass/colour.h"
#include "ptx/ptx.h"
#include "serve/pack.h"
#include "tests/gpu/device_common.h"
#include "util/alloc.h"

/* address of the linear memory; behind it lie a copy of its initial contents, the pool and the table of sectors */
#define LINEAR_VA UINT64_C(0x320000000000)
#define WINDOW UINT64_C(0x500000000000)
#define BLOCK 256u
#define TRIES_MAX 1001u
#define KERNELS_MAX 600u /* largest number of kernels in one file */
#define PARAMS_MAX 4096u
#define CHUNK DS_MIB(16) /* bytes of one copy from or to the host */

enum which { NATIVE, LINEAR, SECOND, TABLE, _WHICH };
static const char *const names[_WHICH] = {"native", "linear", "second", "table"};
static const struct ds_ptx_colour_layout layouts[_WHICH] = {
        {0}, {DS_PTX_COLOUR_REGULAR, 11, 0}, {DS_PTX_COLOUR_REGULAR, 11, 1}, {DS_PTX_COLOUR_TABLE, 10, 0}};

struct bench {
        struct dt *t;
        uint32_t tries;
        uint64_t bytes; /* size of the linear memory */
        uint64_t pool, pristine, table;
        struct ds_ptx_colour colours[_WHICH];
        uint8_t *wanted, *found;
        /* sums over the printed rows of one table */
        uint32_t n;
        double ratios[_WHICH], worst[_WHICH];
};

/* The kernels of one file, native and coloured */
struct code {
        ds_ptx_module *module;
        ds_device_module *loaded[_WHICH];
        struct ds_ptx_colour_want wants[KERNELS_MAX];
        uint32_t n;
};

/* One launch of a kernel. It does not depend on addresses: its pointers are offsets into the linear memory. */
struct step {
        const struct ds_ptx_function *function;
        uint64_t mask;
        uint32_t grid[3], threads, shared, n;
        struct {
                bool address;
                uint64_t value;
        } params[SV_PARAMS_MAX];
};

/* --- times and copies --------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
        const double x = *(const double *)a, y = *(const double *)b;

        return x < y ? -1 : x > y;
}

static double median(double *us, uint32_t n)
{
        qsort(us, n, sizeof(*us), ascending);
        return us[n / 2];
}

/* Restarts the token numbers from the beginning, so that they never run out. */
static void tokens_again(struct dt *t)
{
        dt_wait_all(t);
        memset(t->came, 0, sizeof(t->came));
        t->next_token = 1;
        t->n_seen = 0;
}

/* Copies n sectors of 2 KiB; the pitches say whether they are contiguous or have gaps. */
static void copy_sectors(struct bench *b, uint64_t to, uint64_t to_pitch, uint64_t from, uint64_t from_pitch)
{
        struct ds_copy c = {.stream = b->t->stream,
                .space = DT_SPACE,
                .kind = DS_COPY_DTOD,
                .dst = to,
                .src = from,
                .width = 2048,
                .height = b->bytes / 2048,
                .dst_pitch = to_pitch,
                .src_pitch = from_pitch};
        uint64_t token = dt_token(b->t);

        cr_assert_eq(b->t->ops->copy(b->t->device, &c, token), 0);
        dt_ok(b->t, token);
}

static void write_device(struct bench *b, uint64_t to, const void *from, uint64_t size)
{
        for (uint64_t at = 0; at < size; at += CHUNK) {
                uint64_t part = DS_MIN(size - at, (uint64_t)CHUNK);

                memcpy((void *)DT_HOST_VA, (const uint8_t *)from + at, part);
                dt_ok(b->t, dt_copy(b->t, b->t->stream, DS_COPY_HTOD, to + at, DT_HOST_VA, part));
        }
        tokens_again(b->t);
}

static void read_device(struct bench *b, void *to, uint64_t from, uint64_t size)
{
        for (uint64_t at = 0; at < size; at += CHUNK) {
                uint64_t part = DS_MIN(size - at, (uint64_t)CHUNK);

                dt_ok(b->t, dt_copy(b->t, b->t->stream, DS_COPY_DTOH, DT_HOST_VA, from + at, part));
                memcpy((uint8_t *)to + at, (const void *)DT_HOST_VA, part);
        }
        tokens_again(b->t);
}

/* Restores the memory of a layout to its contents before the first launch. */
static void reset(struct bench *b, enum which which)
{
        if (which == SECOND)
                copy_sectors(b, b->pool, 4096, b->pristine, 2048);
        else
                copy_sectors(b, LINEAR_VA, 2048, b->pristine, 2048);
        tokens_again(b->t);
}

/* Reads back the memory that launches have written. */
static void take(struct bench *b, enum which which, uint8_t *to)
{
        if (which == SECOND)
                copy_sectors(b, LINEAR_VA, 2048, b->pool, 4096);
        read_device(b, to, LINEAR_VA, b->bytes);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static void set_colour(struct bench *b, enum which which)
{
        cr_assert(ds_ptx_colour_set(&layouts[which], WINDOW, b->bytes, which == SECOND ? b->pool : LINEAR_VA, b->table,
                &b->colours[which]));
}

/* Allocates the linear memory with the contents `initial`, and the pool and the table. */
static int memory_make(struct bench *b, const uint8_t *initial, uint64_t bytes, uint64_t *ret_size)
{
        const uint64_t granularity = b->t->ops->info(b->t->device)->slab_granularity, entries = bytes >> 10;
        uint32_t *table = calloc(entries, sizeof(*table));
        int slab;

        b->bytes = bytes;
        b->pristine = LINEAR_VA + bytes;
        b->pool = b->pristine + bytes;
        b->table = b->pool + 2 * bytes;
        *ret_size = DS_ALIGN_UP(4 * bytes + entries * sizeof(*table), granularity);
        cr_assert_eq(
                b->t->ops->mem_create(b->t->device, *ret_size, &slab), 0, "%llu bytes", (unsigned long long)*ret_size);
        cr_assert_eq(b->t->ops->mem_map(b->t->device, DT_SPACE, slab, LINEAR_VA, *ret_size), 0);
        cr_assert(table && (b->wanted = malloc(bytes)) && (b->found = malloc(bytes)));
        for (uint64_t i = 0; i < entries; i++)
                table[i] = (uint32_t)i;
        write_device(b, b->table, table, entries * sizeof(*table));
        free(table);
        write_device(b, b->pristine, initial, bytes);
        for (int which = LINEAR; which < _WHICH; which++)
                set_colour(b, (enum which)which);
        return slab;
}

static void memory_drop(struct bench *b, int slab, uint64_t size)
{
        dt_wait_all(b->t);
        cr_assert_eq(b->t->ops->mem_unmap(b->t->device, DT_SPACE, LINEAR_VA, size), 0);
        close(slab);
        free(b->wanted);
        free(b->found);
}

/* --- code --------------------------------------------------------------------------------------------------------- */

static char *read_text(const char *path)
{
        FILE *f = fopen(path, "re");
        char *text = NULL;
        size_t size = 0;

        cr_assert(f, "%s: %s", path, strerror(errno));
        cr_assert(getdelim(&text, &size, '\0', f) > 0);
        fclose(f);
        return text;
}

static void load(struct bench *b, struct code *c, enum which which)
{
        static struct ds_ptx_colour_verdict verdicts[KERNELS_MAX];
        static struct ds_ptx_diags diags;
        ds_ptx_module *made = NULL;
        char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        if (which != NATIVE)
                cr_assert_eq(
                        ds_ptx_colour_make(c->module, c->wants, c->n, &layouts[which], 0, &diags, &made, verdicts), 0);
        for (uint32_t i = 0; i < c->n && made; i++)
                cr_assert(verdicts[i].made, "%s: %s", c->wants[i].kernel, verdicts[i].reason);
        cr_assert(f && !ds_ptx_print(made ? made : c->module, f) && !fclose(f));
        c->loaded[which] = dt_load(b->t, text);
        ds_ptx_module_free(made);
        free(text);
}

static struct code *code_of(struct bench *b, const char *text)
{
        static struct ds_ptx_diags diags;
        static struct ds_ptx_colour_param params[1024];
        struct code *c = calloc(1, sizeof(*c));

        cr_assert(c);
        cr_assert_eq(ds_ptx_parse(text, strlen(text), 0, &diags, &c->module), 0);
        for (uint32_t i = 0; i < c->module->n_functions; i++) {
                const struct ds_ptx_function *f = c->module->functions[i];
                uint64_t most = 0;

                if (!f->is_entry || !f->has_body)
                        continue;
                cr_assert(f->n_params <= DS_ARRAY_SIZE(params) && c->n < KERNELS_MAX);
                cr_assert_eq(ds_ptx_colour_params(c->module, f, params, &most), 0);
                if (most)
                        c->wants[c->n++] = (struct ds_ptx_colour_want){f->name, most};
                else
                        printf("%s: no parameter can be coloured\n", f->name);
        }
        for (int which = 0; which < _WHICH; which++)
                load(b, c, (enum which)which);
        return c;
}

static struct code *code_free(struct bench *b, struct code *c)
{
        dt_wait_all(b->t);
        for (int which = 0; which < _WHICH; which++)
                b->t->ops->module_unload(b->t->device, c->loaded[which]);
        ds_ptx_module_free(c->module);
        free(c);
        return NULL;
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

static void put_params(const struct bench *b, const struct step *s, enum which which, uint8_t *to, uint32_t *ret_size)
{
        *ret_size = s->function->params_size;
        for (uint32_t i = 0; i < s->n; i++) {
                const struct ds_ptx_var *p = s->function->params[i];
                uint64_t value = s->params[i].value;

                if (s->params[i].address)
                        value += which != NATIVE && (s->mask >> i & 1) ? WINDOW : LINEAR_VA;
                memcpy(to + p->offset, &value, DS_MIN(p->size, sizeof(value)));
        }
        if (which == NATIVE)
                return;
        *ret_size = DS_ALIGN_UP(*ret_size, 8u);
        memcpy(to + *ret_size, &b->colours[which], sizeof(b->colours[which]));
        *ret_size += sizeof(b->colours[which]);
}

/* Launches one step; returns the step's time on the device, us. */
static double run(struct bench *b, const struct code *c, const struct step *s, enum which which)
{
        uint8_t params[PARAMS_MAX] __attribute__((__aligned__(16)));
        const struct ds_completion *done;
        char name[1000];
        struct ds_launch l;

        cr_assert(s->function->params_size + 32 < sizeof(params));
        if (which == NATIVE)
                (void)snprintf(name, sizeof(name), "%s", s->function->name);
        else
                cr_assert(ds_ptx_colour_name(s->function->name, s->mask, name, sizeof(name)));
        l = dt_launch_of(b->t, c->loaded[which], name, 1, s->threads);
        memcpy(l.grid, s->grid, sizeof(l.grid));
        l.shared_bytes = s->shared;
        l.params = params;
        l.timed = 1;
        l.tell = DS_TELL_EXACT;
        put_params(b, s, which, params, &l.params_size);
        done = dt_wait(b->t, dt_launch(b->t, &l));
        cr_assert_eq(done->status, 0, "%s: status %d: %s", name, done->status, done->message);
        return (double)(done->end_ns - done->start_ns) / 1e3;
}

/* Whether all steps in sequence leave the same memory as the native kernels. */
static bool is_exact(struct bench *b, const struct code *c, const struct step *steps, uint32_t n)
{
        bool exact = true;

        for (int which = 0; which < _WHICH; which++) {
                reset(b, (enum which)which);
                for (uint32_t i = 0; i < n; i++) {
                        run(b, c, &steps[i], (enum which)which);
                        if (i % 64 == 63)
                                tokens_again(b->t);
                }
                take(b, (enum which)which, which == NATIVE ? b->wanted : b->found);
                if (which != NATIVE && memcmp(b->wanted, b->found, b->bytes) != 0) {
                        printf("| %s, %s: the memory it leaves differs from the native kernel's\n",
                                steps[0].function->name, names[which]);
                        exact = false;
                }
        }
        return exact;
}

static void measure(struct bench *b, const struct code *c, const struct step *s, double us[_WHICH])
{
        static double all[_WHICH][TRIES_MAX];

        for (uint32_t i = 0; i < b->tries; i++)
                for (uint32_t k = 0; k < _WHICH; k++) {
                        enum which which = (enum which)((i + k) % _WHICH);

                        all[which][i] = run(b, c, s, which);
                        if (b->t->next_token > DT_TOKENS - 8)
                                tokens_again(b->t);
                }
        tokens_again(b->t);
        for (int which = 0; which < _WHICH; which++)
                us[which] = median(all[which], b->tries);
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static void row(struct bench *b, const char *name, uint32_t launches, const double us[_WHICH])
{
        printf("| %-32.32s | %8u | %12.1f |", name, launches, us[NATIVE]);
        for (int which = LINEAR; which < _WHICH; which++) {
                double more = us[NATIVE] > 0 ? 100 * (us[which] / us[NATIVE] - 1) : 0;

                printf(" %+7.2f%% |", more);
                b->ratios[which] += more;
                b->worst[which] = b->n ? DS_MAX(b->worst[which], more) : more;
        }
        printf("\n");
        b->n++;
}

static void head(const struct bench *b, const char *what)
{
        printf("%s: %s\n", b->t->ops->info(b->t->device)->simulated ? "sim" : b->t->ops->info(b->t->device)->name,
                what);
        printf("| %-32s | %8s | %12s |", "", "launches", "native, us");
        for (int which = LINEAR; which < _WHICH; which++)
                printf(" %8s |", names[which]);
        printf("\n");
}

static void foot(struct bench *b)
{
        if (!b->n)
                return;
        printf("| %-32s | %8s | %12s |", "mean", "", "");
        for (int which = LINEAR; which < _WHICH; which++)
                printf(" %+7.2f%% |", b->ratios[which] / b->n);
        printf("\n| %-32s | %8s | %12s |", "worst", "", "");
        for (int which = LINEAR; which < _WHICH; which++)
                printf(" %+7.2f%% |", b->worst[which]);
        printf("\n");
        b->n = 0;
        memset(b->ratios, 0, sizeof(b->ratios));
}

static const struct ds_ptx_function *function_of(const struct code *c, const char *name)
{
        for (uint32_t i = 0; i < c->module->n_functions; i++)
                if (strcmp(c->module->functions[i]->name, name) == 0 && c->module->functions[i]->has_body)
                        return c->module->functions[i];
        return NULL;
}

static uint64_t mask_of(const struct code *c, const char *name)
{
        for (uint32_t i = 0; i < c->n; i++)
                if (strcmp(c->wants[i].kernel, name) == 0)
                        return c->wants[i].mask;
        return 0;
}

/* --- memory-bound kernels ----------------------------------------------------------------------------------------- */

/* The benchmark kernels, and the number of the n elements that one thread or the whole grid processes */
static const struct {
        const char *name;
        uint32_t elements;
} kernels[] = {{"copy", 1}, {"copy_vectors", 4}, {"add", 1}, {"add_in_place", 1}, {"add_strided", 8}, {"neighbours", 4},
        {"gather", 1}, {"reduce", 16}, {"softmax", 4}, {"normalise", 4}, {"transpose", 4}, {"stencil", 1}, {"gemv", 8},
        {"gemm", 4}};

static int bench_kernels(struct bench *b, const char *path, uint64_t kib)
{
        const uint64_t piece = kib << 10, n = piece / sizeof(float);
        float *initial = malloc(3 * piece);
        char *text = read_text(path);
        struct code *c = code_of(b, text);
        uint64_t size, seed = 1;
        int slab, bad = 0;

        cr_assert(initial);
        for (uint64_t i = 0; i < 3 * n; i++) {
                seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                initial[i] = (float)(int32_t)(seed >> 32) / 1e9f;
        }
        slab = memory_make(b, (const uint8_t *)initial, 3 * piece, &size);
        head(b, "memory-bound kernels");
        for (size_t i = 0; i < DS_ARRAY_SIZE(kernels); i++) {
                struct step s = {.function = function_of(c, kernels[i].name),
                        .mask = mask_of(c, kernels[i].name),
                        .grid = {(uint32_t)(n / (kernels[i].elements * BLOCK)), 1, 1},
                        .threads = BLOCK,
                        .n = 4,
                        .params = {{true, 0}, {true, piece}, {true, 2 * piece}, {false, n}}};
                double us[_WHICH];

                cr_assert(s.function && s.mask, "%s", kernels[i].name);
                if (!is_exact(b, c, &s, 1)) {
                        bad = 1;
                        continue;
                }
                measure(b, c, &s, us);
                row(b, kernels[i].name, 1, us);
        }
        foot(b);
        code_free(b, c);
        memory_drop(b, slab, size);
        free(initial);
        free(text);
        return bad;
}

/* --- packs -------------------------------------------------------------------------------------------------------- */

static struct step step_of(
        const struct code *c, const struct sv_pack *pack, const struct sv_launch *l, uint64_t arena_at)
{
        const struct sv_kernel *k = &pack->kernels[l->kernel];
        struct step s = {.function = function_of(c, k->name),
                .mask = mask_of(c, k->name),
                .grid = {l->grid[0], l->grid[1], l->grid[2]},
                .threads = k->threads,
                .shared = k->shared,
                .n = k->n_params};

        cr_assert(s.function && s.function->n_params == k->n_params, "%s differs from its manifest", k->name);
        for (uint32_t i = 0; i < k->n_params; i++) {
                const struct sv_param *p = &pack->params[l->first_param + i];

                s.params[i].address = p->kind == SV_PARAM_ARENA || p->kind == SV_PARAM_WEIGHTS;
                s.params[i].value = p->value + (p->kind == SV_PARAM_ARENA ? arena_at : 0);
        }
        return s;
}

/* Contents of the linear memory for a pack: the weights, then the arena; inputs are small numbers that are valid as
 * halves and as floats. */
static uint8_t *pack_memory(const struct sv_pack *pack, uint64_t *ret_arena_at, uint64_t *ret_bytes)
{
        uint8_t *weights = NULL, *memory;
        struct sv_why why;

        *ret_arena_at = DS_ALIGN_UP(pack->files[pack->weights].bytes, UINT64_C(4096));
        *ret_bytes = *ret_arena_at + DS_ALIGN_UP(DS_MAX(pack->arena, UINT64_C(1)), UINT64_C(4096));
        memory = calloc(*ret_bytes, 1);
        cr_assert(memory && sv_pack_load(pack, pack->weights, &weights, &why) == 0);
        memcpy(memory, weights, pack->files[pack->weights].bytes);
        for (uint32_t i = 0; i < pack->n_inputs; i++) {
                const struct sv_tensor *t = &pack->inputs[i];
                const uint32_t width = sv_type_bytes(t->type);

                for (uint64_t k = 0; k < t->n; k++) {
                        const uint16_t half = (uint16_t)(0x3400 + k % 1024);
                        const float single = (float)(k % 13) / 8;
                        const uint64_t number = k % 3;

                        memcpy(memory + *ret_arena_at + t->offset + k * width,
                                t->type == SV_F16   ? (const void *)&half
                                : t->type == SV_F32 ? (const void *)&single
                                                    : (const void *)&number,
                                width);
                }
        }
        ds_free(weights);
        return memory;
}

static int bench_steps(struct bench *b, const struct code *c, const struct sv_pack *pack, const struct step *steps)
{
        double sums[_WHICH] = {0}, us[_WHICH];

        head(b, pack->model);
        if (!is_exact(b, c, steps, pack->n_launches))
                return 1;
        for (uint32_t i = 0; i < pack->n_launches; i++) {
                measure(b, c, &steps[i], us);
                row(b, steps[i].function->name, 1, us);
                for (int which = 0; which < _WHICH; which++)
                        sums[which] += us[which];
        }
        foot(b);
        row(b, "a whole run", pack->n_launches, sums);
        b->n = 0;
        memset(b->ratios, 0, sizeof(b->ratios));
        return 0;
}

static int bench_pack(struct bench *b, const char *path)
{
        struct sv_pack *pack = NULL;
        struct sv_why why;
        uint64_t arena_at, bytes, size;
        uint8_t *text = NULL, *memory;
        struct step *steps;
        struct code *c;
        int slab, bad;

        cr_assert(sv_pack_open(path, &pack, &why) == 0, "%s", why.text);
        cr_assert(sv_pack_load(pack, pack->module, &text, &why) == 0, "%s", why.text);
        c = code_of(b, (const char *)text);
        memory = pack_memory(pack, &arena_at, &bytes);
        slab = memory_make(b, memory, bytes, &size);
        steps = calloc(pack->n_launches, sizeof(*steps));
        cr_assert(steps);
        for (uint32_t i = 0; i < pack->n_launches; i++)
                steps[i] = step_of(c, pack, &pack->launches[i], arena_at);
        bad = bench_steps(b, c, pack, steps);
        code_free(b, c);
        memory_drop(b, slab, size);
        free(steps);
        free(memory);
        ds_free(text);
        sv_pack_free(pack);
        return bad;
}

/* --- the program -------------------------------------------------------------------------------------------------- */

static uint64_t number(const char *text)
{
        char *end;
        unsigned long value = strtoul(text, &end, 10);

        return *end ? 0 : value;
}

int main(int argc, char **argv)
{
        const char *device = getenv("DETSHARE_TEST_DEVICE"), *spec, *slash = strrchr(argv[0], '/');
        const struct ds_device_ops *ops = ds_device_find(device && device[0] ? device : "cuda:0", &spec);
        bool gpu = ops && strcmp(ops->name, "cuda") == 0;
        struct bench b = {.tries = gpu ? 21 : 3};
        uint64_t kib = gpu ? 65536 : 256;
        char path[1000];
        int c, bad = 0;

        (void)snprintf(path, sizeof(path), "%.*s/../../bench/gpu_colour.ptx", slash ? (int)(slash - argv[0]) : 1,
                slash ? argv[0] : ".");
        while ((c = getopt(argc, argv, "t:m:k:")) != -1) {
                if (c == 't')
                        b.tries = (uint32_t)DS_MIN(number(optarg), (uint64_t)UINT32_MAX);
                else if (c == 'm')
                        kib = number(optarg);
                else if (c == 'k')
                        (void)snprintf(path, sizeof(path), "%s", optarg);
                else
                        return 2;
        }
        if (!ops || !b.tries || b.tries > TRIES_MAX || kib < 256 || kib > 4u << 20 || (kib & (kib - 1)))
                return fprintf(stderr, "usage: colour [-t TRIES] [-m KIB] [-k KERNELS.ptx] [PACK...]\n"), 2;
        setvbuf(stdout, NULL, _IOLBF, 0);
        b.t = dt_open(ops, spec);
        bad = bench_kernels(&b, path, kib);
        for (int i = optind; i < argc; i++)
                bad |= bench_pack(&b, argv[i]);
        dt_close(b.t);
        return bad;
}
