/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs every kernel of the corpus on a GPU and in the interpreter, and compares the memory that they leave, bit by bit
 *
 * These kernels have no host programs: tests/support/corpus_drive.h derives arguments and shapes of a launch from the
 * code. The program drops a launch that faults or takes too long in the interpreter. Every other launch runs in the
 * interpreter twice, once for each host instruction set, with another order of blocks, warps and time slices. Then it
 * runs on the GPU from the same initial memory. All memory and the module's variables are compared byte by byte; two
 * addresses are equal when they lead to the same place. Results that depend on the order of blocks are not compared.
 *
 * In kernels with approximations, two numbers are near when they differ by at most NEAR relative to their size (floats
 * of 16 bits: two units in the last place), for every float type. Launches with larger differences are counted, and the
 * kernel is named. A kernel that gives two different results on the GPU is order-dependent as well.
 *
 * Several processes, each with its own context, share the files. When one dies or hangs, the program names the kernel
 * and starts a new process at the next one. Exit status: 0 when there is no unexpected difference, 1 when there is one,
 * 2 for errors, 3 when there is no GPU.
 *
 * With --forms, each launch with a repeatable result also runs in the kernel's persistent form, evicted at random times
 * (tests/gpu/forms_gpu.h). It must leave the same memory as the native form on the same GPU, to the last bit, also for
 * approximations.
 *
 * corpus_diff [-j PROCESSES] [-f FILLINGS] [-l LAUNCHES] [-k SUBSTRING of kernels] [-v] [--forms] FILE-OR-FOLDER...
 * corpus_diff --sim ...       without a GPU: compares the interpreter with itself only
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ptx/interp/core.h"
#include "ptx/pass/forms_make.h"
#include "tests/gpu/contraction.h"
#include "tests/gpu/forms_gpu.h"
#include "tests/gpu/near.h"
#include "tests/support/corpus_drive.h"

#define BUDGET 1000000ul /* warp instructions of one launch, at most */
#define N_FILES 4096
#define N_KERNELS 16384
#define N_SHARDS 64
#define N_GLOBALS 256
#define LINES 2               /* printed lines per kernel and outcome, at most */
#define GPU_STACK (32u << 10) /* bytes per thread: some kernels recurse */
#define GPU_SECONDS 30        /* a longer launch on the GPU counts as hung */
#define SLICE 5               /* instructions of a warp until the next warp runs, in runs with another order of warps */

/* The outcome of one launch of a kernel */
enum outcome {
        FAULTS,  /* the launch faults in the interpreter */
        LONG,    /* the launch needs more than BUDGET instructions */
        ORDER,   /* the result depends on the order of blocks or of atomics */
        REFUSED, /* the driver refuses the launch: too many registers, too much memory */
        SILENT,  /* the launch leaves memory unchanged: it proves nothing, and is only counted */
        TIMED,   /* the kernel reads clocks or similar: it runs, and is not compared */
        SAME,    /* results are equal bit by bit */
        NEARLY,  /* results of approximations are within the tolerance */
        FARTHER, /* results of approximations are beyond the tolerance */
        KNOWN,   /* results differ, and the kernel is in the table of exceptions */
        DIFFERS, /* results differ without an explanation */
        SETS,    /* the host's instruction sets give different bits */
        FORM,    /* the persistent form leaves other memory than the native form */
        BREAKS,  /* the launch fails on the GPU, or kills the process that runs it */
        N_OUTCOMES,
};

struct kernel {
        char name[128], file[160];
        /* why the interpreter refused the kernel, why the kernel was not launched, or its last fault */
        char refused[200];
        uint32_t count[N_OUTCOMES];
        uint32_t exact;            /* 1: the kernel has no approximations */
        uint32_t said[N_OUTCOMES]; /* printed lines about the kernel, by outcome */
        double worst;              /* largest relative difference of the kernel's approximations */
};

struct shard {
        int file, kernel, begun; /* `begun`: the kernel in progress, by its index in the file */
        uint32_t record;
        pid_t pid;
        int done;
};

static struct all {
        atomic_uint n_forms, n_evicted,
                /* launches in the persistent form, their evictions, and launches of kernels without that form */
                n_formless;
        atomic_uint n_kernels;
        atomic_uint n_refused_files;
        struct shard shard[N_SHARDS];
        struct kernel kernel[N_KERNELS];
} * all;

static char *files[N_FILES];
static int n_files, with_gpu = 1, with_forms, n_fillings = DRIVE_N_FILLINGS, n_launches = DRIVE_N_LAUNCHES,
                    n_shards = 1, verbose;
static int out_fd = 1;
static const char *only = "";

/*
 * Kernels that may differ: name (substring), reason. Besides these, an operation on two 64-bit NaNs may return either
 * of them, since ptxas swaps operands.
 */
static const struct exception {
        const char *kernel, *why;
} exceptions[] = {
        {"heap_build", "stores the addresses that malloc returned"},
        {"data_heap", "stores an address that malloc returned"},
        {"data_addresses", "stores addresses of variables"},
        {"heap_end", "allocates until malloc fails: the amount differs"},
        {"heap_twice", "frees twice: an error on the GPU that ends the context"},
        {"assembly_video_scalar", "ptxas's code for scalar video instructions on sm_90 differs from the PTX manual"},
        {"mma_sparse", "the memory holds no valid choice of elements"},
        {"rt_simd", "all warps write one byte with different values"},
        {"cluster_stencil", "blocks of a cluster write to the same words, because the block is larger than designed"},
        {"reduce_custom", "lanes with different NaNs store 16 bytes to one shared address: another lane wins"},
        {"la_gauss_jordan_warp", "all warps work on the same matrix"},
};

static struct {
        int (*global)(uint64_t *, size_t *, void *, const char *);
        int (*attribute)(void *, int, int);
        int (*limit)(int, size_t);
} more;

/* --- the interpreter -------------- */
struct global {
        const char *name;
        int constant, writable;
        uint64_t size, va[2], gpu;
        uint8_t *initial, *gpu_initial;
};

struct file {
        const char *name;
        char *text;
        ds_ptx_module *module;
        ds_interp *interp[2];
        ds_interp_block *work[2];
        struct global global[N_GLOBALS];
        uint32_t n_globals;
        void *gpu;
};

static uint8_t *pristine[DRIVE_N_FILLINGS], *arena, *first, *other, *from_gpu, *again;
static uint64_t gpu_arena;
static char fault[160]; /* text of the interpreter's or the driver's last fault */

static void globals_reset(struct file *f, int which, enum drive_filling filling)
{
        for (uint32_t i = 0; i < f->n_globals; i++) {
                struct global *g = &f->global[i];
                uint64_t size = DS_MIN(g->size, DRIVE_ARENA);

                if (g->constant)
                        memcpy((void *)(uintptr_t)g->va[which], pristine[filling], size);
                else if (g->writable)
                        memcpy((void *)(uintptr_t)g->va[which], g->initial, g->size);
        }
}

/* Appends the contents of the variables to those of the arena. Returns the number of bytes. */
static uint64_t globals_size(const struct file *f)
{
        uint64_t size = 0;

        for (uint32_t i = 0; i < f->n_globals; i++)
                size += f->global[i].writable ? (f->global[i].size + 7) & ~UINT64_C(7) : 0;
        return size;
}

static void globals_save(const struct file *f, int which, uint8_t *to)
{
        for (uint32_t i = 0; i < f->n_globals; i++) {
                const struct global *g = &f->global[i];

                if (!g->writable)
                        continue;
                memcpy(to, (void *)(uintptr_t)g->va[which], g->size);
                to += (g->size + 7) & ~UINT64_C(7);
        }
}

/* Runs one launch with blocks (or clusters) in increasing or decreasing order. Returns SAME when it completes. */
static enum outcome interpret(struct file *f, int which, const struct drive *d, const struct drive_launch *l,
        const uint8_t *params, enum drive_filling filling, int backwards)
{
        const struct ds_interp_range range = {(uint64_t)(uintptr_t)arena, DRIVE_ARENA};
        static struct ds_interp_result result[DS_INTERP_CLUSTER_MAX];
        struct ds_interp_launch launch = {.kernel = ds_interp_find_kernel(f->interp[which], d->info->name),
                .dynamic_shared = l->dynamic,
                .params = params,
                .params_size = d->info->params_size,
                .ranges = &range,
                .n_ranges = 1,
                .n_sms = 132};
        uint32_t c[3], n, blocks;
        uint64_t spent = 0;

        memcpy(launch.grid, l->grid, sizeof(l->grid));
        memcpy(launch.block, l->block, sizeof(l->block));
        memcpy(launch.cluster, l->cluster, sizeof(l->cluster));
        for (int i = 0; i < 3; i++)
                c[i] = l->cluster[i] ? l->cluster[i] : 1;
        blocks = c[0] * c[1] * c[2];
        n = l->grid[0] * l->grid[1] * l->grid[2] / blocks;
        memcpy(arena, pristine[filling], DRIVE_ARENA);
        globals_reset(f, which, filling);
        for (uint32_t i = 0; i < n; i++) {
                uint64_t at = backwards ? n - 1 - i : i, wide = l->grid[0] / c[0], high = l->grid[1] / c[1];
                uint32_t x = (uint32_t)(at % wide) * c[0], y = (uint32_t)(at / wide % high) * c[1],
                         z = (uint32_t)(at / wide / high) * c[2];

                launch.max_instructions = BUDGET - spent;
                if (l->cluster[0] ? ds_interp_run_cluster(f->work[which], &launch, x, y, z, result)
                                  : ds_interp_run_block(f->work[which], &launch, x, y, z, result))
                        return LONG;
                for (uint32_t b = 0; b < (l->cluster[0] ? blocks : 1); b++) {
                        spent += result[b].cost.instructions;
                        if (result[b].fault)
                                (void)snprintf(fault, sizeof(fault), "%s", result[b].message);
                        if (result[b].fault)
                                return result[b].fault == DS_INTERP_FAULT_BUDGET ? LONG : FAULTS;
                }
                if (spent >= BUDGET)
                        return LONG;
        }
        return SAME;
}

static void keep(struct file *f, int which, uint8_t *to)
{
        memcpy(to, arena, DRIVE_ARENA);
        globals_save(f, which, to + DRIVE_ARENA);
}

/* --- the GPU ---------------------- */
static int gpu_more(void)
{
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        void *global = library ? dlsym(library, "cuModuleGetGlobal_v2") : NULL;
        void *attribute = library ? dlsym(library, "cuFuncSetAttribute") : NULL;
        void *limit = library ? dlsym(library, "cuCtxSetLimit") : NULL;

        memcpy(&more.global, &global, sizeof(global));
        memcpy(&more.attribute, &attribute, sizeof(attribute));
        memcpy(&more.limit, &limit, sizeof(limit));
        return global && attribute && limit && !more.limit(0, GPU_STACK);
}

static int gpu_reset(const struct file *f, enum drive_filling filling)
{
        int bad = cu.to(gpu_arena, pristine[filling], DRIVE_ARENA);

        for (uint32_t i = 0; i < f->n_globals && !bad; i++) {
                const struct global *g = &f->global[i];

                if (g->gpu && (g->constant || g->writable))
                        bad = cu.to(
                                g->gpu, g->constant ? pristine[filling] : g->gpu_initial, DS_MIN(g->size, DRIVE_ARENA));
        }
        return bad;
}

static int gpu_take(const struct file *f, uint8_t *to)
{
        int bad = cu.from(to, gpu_arena, DRIVE_ARENA);

        to += DRIVE_ARENA;
        for (uint32_t i = 0; i < f->n_globals && !bad; i++) {
                const struct global *g = &f->global[i];

                if (!g->writable)
                        continue;
                if (g->gpu)
                        bad = cu.from(to, g->gpu, g->size);
                /* the driver does not report the variable's address, so the interpreter's contents stand for the
                 * GPU's */
                else
                        memcpy(to, (void *)(uintptr_t)g->va[0], g->size);
                to += (g->size + 7) & ~UINT64_C(7);
        }
        return bad;
}

/* Runs one launch on the GPU and copies the memory that it leaves to `to`. Returns SAME, REFUSED, BREAKS, or FORM
 * with `fault` set. */
static enum outcome on_gpu_as(struct file *f, const struct drive *d, const struct drive_launch *l, uint8_t *params,
        enum drive_filling filling, int form, uint8_t *to)
{
        void *args[DRIVE_FIELDS + 2], *function = NULL;
        const char *wrong = NULL;
        uint32_t evicted = 0;
        char name[256];
        int result, refused;

        (void)snprintf(name, sizeof(name), "%s%s", d->info->name, form ? DS_PTX_FORM_PERSISTENT_SUFFIX : "");
        if (d->info->n_params > DRIVE_FIELDS || cu.function(&function, f->gpu, name))
                return REFUSED;
        if (l->dynamic && more.attribute(function, 8, (int)l->dynamic))
                return REFUSED;
        for (uint32_t i = 0; i < d->info->n_params; i++)
                args[i] = params + d->info->params[i].offset;
        if (gpu_reset(f, filling))
                return BREAKS;
        (void)alarm(GPU_SECONDS);
        result = form ? forms_gpu_run(function, l->grid, l->block, l->dynamic, args, d->info->n_params,
                                (uint64_t)atomic_fetch_add(&all->n_forms, 1) * 7919 + l->n, &evicted, &wrong)
                      : cu.launch(function, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2],
                                l->dynamic, NULL, args, NULL);
        refused = result == 1 || result == 701; /* errors for too many resources: the kernel did not run */
        if (!result)
                result = cu.synchronize();
        (void)alarm(0);
        if (refused)
                return REFUSED;
        atomic_fetch_add(&all->n_evicted, evicted);
        if (result || gpu_take(f, to))
                return BREAKS;
        if (wrong)
                (void)snprintf(fault, sizeof(fault), "%s", wrong);
        return wrong ? FORM : SAME;
}

static enum outcome on_gpu(struct file *f, const struct drive *d, const struct drive_launch *l, uint8_t *params,
        enum drive_filling filling, uint8_t *to)
{
        return on_gpu_as(f, d, l, params, filling, 0, to);
}

/* Makes the module with all forms of its kernels, as text for the driver. malloc'ed; NULL if the passes failed. */
static char *text_with_forms(const struct file *f)
{
        struct ds_ptx_form_verdict *verdicts = calloc(f->module->n_functions + 1, sizeof(*verdicts));
        static struct ds_ptx_diags diags;
        ds_ptx_module *made = NULL;
        char *text = NULL;
        FILE *out = NULL;
        size_t size;

        diags.n = diags.total = 0;
        if (verdicts && !ds_ptx_forms_make(f->module, 0, &diags, &made, verdicts))
                out = open_memstream(&text, &size);
        if (out)
                (void)ds_ptx_print(made, out);
        if (out)
                (void)fclose(out);
        ds_ptx_module_free(made);
        free(verdicts);
        return text;
}

static void gpu_load(struct file *f)
{
        char *exact = !with_gpu ? NULL : with_forms ? text_with_forms(f) : ptx_without_contraction(f->text);

        f->gpu = NULL;
        (void)alarm(4 * GPU_SECONDS);
        if (exact && cu.load(&f->gpu, exact, 0, NULL, NULL))
                f->gpu = NULL;
        free(exact);
        (void)alarm(0);
        for (uint32_t i = 0; f->gpu && i < f->n_globals; i++) {
                struct global *g = &f->global[i];
                size_t size = 0;

                if (more.global(&g->gpu, &size, f->gpu, g->name) || size != g->size)
                        g->gpu = 0;
                g->gpu_initial = g->gpu ? malloc(g->size + 1) : NULL;
                if (g->gpu_initial)
                        (void)cu.from(g->gpu_initial, g->gpu, g->size);
        }
}

/* --- comparison ------------------- */
/* Whether two 64-bit words at one offset are the same address on both sides */
static int same_address(const struct file *f, uint64_t gpu, uint64_t here)
{
        if (gpu - gpu_arena < DRIVE_ARENA && gpu - gpu_arena == here - (uint64_t)(uintptr_t)arena)
                return 1;
        for (uint32_t i = 0; i < f->n_globals; i++)
                if (gpu - f->global[i].gpu < f->global[i].size && gpu - f->global[i].gpu == here - f->global[i].va[0])
                        return 1;
        return 0;
}

struct difference {
        uint64_t n, at, gpu, here; /* number of differing words; the first one and its values */
        uint64_t nans;             /* words that are 64-bit NaNs on both sides, with different payloads */
        double worst;
};

static void compare(const struct file *f, const uint8_t *gpu, const uint8_t *here, uint64_t size, struct difference *d)
{
        memset(d, 0, sizeof(*d));
        for (uint64_t i = 0; i + 8 <= size; i += 8) {
                uint64_t a, b;
                double x, y, words;

                memcpy(&a, gpu + i, 8);
                memcpy(&b, here + i, 8);
                if (a == b || same_address(f, a, b))
                        continue;
                memcpy(&x, &a, 8);
                memcpy(&y, &b, 8);
                if (isnan(x) && isnan(y)) {
                        d->nans++;
                        continue;
                }
                if (!d->n++)
                        d->at = i, d->gpu = a, d->here = b;
                words = fmax(near_word((uint32_t)a, (uint32_t)b), near_word((uint32_t)(a >> 32), (uint32_t)(b >> 32)));
                d->worst = fmax(d->worst, fmin(words, near_relative(x, y)));
        }
}

/* --- one launch ------------------- */
static void say(enum outcome o, struct kernel *k, const struct drive_launch *l, int filling, const struct difference *d)
{
        static const char *const words[N_OUTCOMES] = {[ORDER] = "ATOMIC",
                [FORM] = "FORM",
                [NEARLY] = "NEAR",
                [FARTHER] = "FARTHER",
                [KNOWN] = "KNOWN",
                [DIFFERS] = "DIFFERS",
                [SETS] = "SETS",
                [BREAKS] = "BREAKS"};

        if (k->said[o]++ >= LINES && !verbose)
                return;
        dprintf(out_fd,
                "%s %s %s n=%u grid=%u,%u,%u block=%u,%u,%u filling=%d: %llu words, first at %llx (slot %lld + %llx): "
                "gpu %016llx, interpreter %016llx, worst %g\n",
                words[o], k->name, k->file, l->n, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                l->block[2], filling, (unsigned long long)d->n, (unsigned long long)d->at,
                (long long)(d->at / DRIVE_SLOT) - 1, (unsigned long long)(d->at % DRIVE_SLOT),
                (unsigned long long)d->gpu, (unsigned long long)d->here, d->worst);
}

static int known(const char *name)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(exceptions); i++)
                if (strstr(name, exceptions[i].kernel))
                        return 1;
        return 0;
}

/* Compares the interpreter with itself: both instruction sets, two orders of blocks. The first result stays in
 * `first`. */
static enum outcome with_itself(struct file *f, const struct drive *d, const struct drive_launch *l,
        const uint8_t *params, enum drive_filling filling, uint64_t size)
{
        enum outcome o = interpret(f, 0, d, l, params, filling, 0);

        if (o != SAME)
                return o;
        keep(f, 0, first);
        ds_ix_force_turns(SLICE, 1, 0x7f);
        o = interpret(f, 1, d, l, params, filling, 1);
        ds_ix_force_turns(0, 0, 0);
        if (o == SAME)
                keep(f, 1, other);
        if (o == SAME && memcmp(first, other, size) == 0)
                return SAME;
        o = interpret(f, 1, d, l, params, filling, 0);
        if (o == SAME)
                keep(f, 1, other);
        if (o == SAME && memcmp(first, other, size) == 0)
                return ORDER;
        return d->class & DRIVE_TIMED ? TIMED : known(d->info->name) ? KNOWN : SETS;
}

/* Classifies a difference between the GPU and the interpreter. */
static enum outcome judge(struct file *f, const struct drive *d, const struct drive_launch *l, uint8_t *params,
        int filling, uint64_t size, struct kernel *k)
{
        struct difference diff;
        enum outcome o;

        compare(f, from_gpu, first, size, &diff);
        if (!diff.n)
                return diff.nans ? KNOWN : SAME;
        for (int i = 0; i < 3; i++) {
                enum outcome repeated = on_gpu(f, d, l, params, (enum drive_filling)filling, again);

                if (repeated != SAME)
                        return repeated;
                if (memcmp(from_gpu, again, size) != 0)
                        return ORDER;
        }
        o = known(k->name) ? KNOWN : d->class & DRIVE_APPROX ? diff.worst <= NEAR ? NEARLY : FARTHER : DIFFERS;
        if (o == DIFFERS && (d->class & DRIVE_ATOMIC))
                o = ORDER;
        if (o == NEARLY)
                k->worst = fmax(k->worst, diff.worst);
        if (o == FARTHER || o == DIFFERS)
                say(o, k, l, filling, &diff);
        else if (verbose)
                say(o, k, l, filling, &diff);
        return o;
}

/* With other numbers of threads than their design these kernels read shared memory that they have not written, or
 * write beyond their arrays. Forms keep other data there than the native kernel. */
static const char *const beyond_shared[] = {"nbody_forces", "cluster_nearest"};

static int form_is_asked(const struct drive *d, const struct drive_launch *l)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(beyond_shared); i++)
                if (strstr(d->info->name, beyond_shared[i]))
                        return 0;
        return !l->cluster[0] && !(d->class & DRIVE_TIMED) && !known(d->info->name);
}

/* Compares the persistent form with the native form's memory in from_gpu. Returns SAME also if there is no such
 * form. */
static enum outcome judge_form(struct file *f, const struct drive *d, const struct drive_launch *l, uint8_t *params,
        int filling, uint64_t size, struct kernel *k)
{
        struct difference diff = {.n = 0};
        enum outcome o;

        if (!form_is_asked(d, l))
                return SAME;
        for (int i = 0; i < 2; i++)
                if (on_gpu(f, d, l, params, (enum drive_filling)filling, again) != SAME ||
                        memcmp(from_gpu, again, size) != 0)
                        return SAME;
        fault[0] = 0;
        o = on_gpu_as(f, d, l, params, (enum drive_filling)filling, 1, again);
        atomic_fetch_add(&all->n_formless, o == REFUSED);
        if (o == REFUSED)
                return SAME;
        for (uint64_t i = 0; i < size && o == SAME; i += 8) {
                if (!memcmp(from_gpu + i, again + i, 8))
                        continue;
                if (!diff.n++)
                        diff.at = i;
        }
        memcpy(&diff.gpu, again + diff.at, 8);
        memcpy(&diff.here, from_gpu + diff.at, 8); /* value of the native form at the first differing word */
        if (diff.n)
                o = d->class & DRIVE_ATOMIC ? ORDER : FORM;
        if (o == FORM)
                say(o, k, l, filling, &diff);
        if (o == FORM && fault[0])
                dprintf(out_fd, "     %s\n", fault);
        return o;
}

/* Whether the launch that left `first` changed any memory */
static int wrote(const struct file *f, enum drive_filling filling)
{
        const uint8_t *at = first + DRIVE_ARENA;

        if (memcmp(first, pristine[filling], DRIVE_ARENA) != 0)
                return 1;
        for (uint32_t i = 0; i < f->n_globals; i++) {
                const struct global *g = &f->global[i];

                if (!g->writable)
                        continue;
                if (memcmp(at, g->initial, g->size) != 0)
                        return 1;
                at += (g->size + 7) & ~UINT64_C(7);
        }
        return 0;
}

static enum outcome one_launch(
        struct file *f, const struct drive *d, const struct drive_launch *l, int filling, int unseen, struct kernel *k)
{
        static uint8_t params[DRIVE_PARAMS];
        uint64_t size = DRIVE_ARENA + globals_size(f);
        const struct difference none = {0};
        enum outcome o;

        drive_params(d, l, (uint64_t)(uintptr_t)arena, unseen, params);
        o = with_itself(f, d, l, params, (enum drive_filling)filling, size);
        if (o == SETS)
                say(o, k, l, filling, &none);
        if (o != SAME)
                return o;
        if (!with_gpu)
                return d->class & DRIVE_TIMED ? TIMED : wrote(f, (enum drive_filling)filling) ? SAME : SILENT;
        if (!f->gpu)
                return REFUSED;
        drive_params(d, l, gpu_arena, unseen, params);
        o = on_gpu(f, d, l, params, (enum drive_filling)filling, from_gpu);
        if (o == SAME && with_forms) {
                o = judge_form(f, d, l, params, filling, size, k);
                if (o == FORM || o == BREAKS)
                        return o;
        } else if (o == SAME && (d->class & DRIVE_TIMED)) {
                o = TIMED;
        } else if (o == SAME) {
                o = judge(f, d, l, params, filling, size, k);
        }
        if (o == SAME && !wrote(f, (enum drive_filling)filling))
                o = SILENT;
        if (o == BREAKS)
                say(known(k->name) ? KNOWN : o, k, l, filling, &none);
        return o;
}

/* --- a file ----------------------- */
static void one_kernel(struct file *f, const struct ds_ptx_function *function, struct kernel *k)
{
        const ds_interp_kernel *kernel = ds_interp_find_kernel(f->interp[0], function->name);
        const struct ds_interp_kernel_info *info = kernel ? ds_interp_kernel_info(kernel) : NULL;
        struct drive d;

        if (!info || info->blocks_are_clusters || !drive_open(&d, f->module, function, info)) {
                (void)snprintf(k->refused, sizeof(k->refused),
                        "parameters or clusters that the driver of launches does not support");
                return;
        }
        k->exact = !(d.class & DRIVE_APPROX);
        for (int launch = 0; launch < n_launches; launch++) {
                struct drive_launch l;

                drive_launch(&d, launch, &l);
                uint32_t well = 0;

                /* parameters whose kind is unknown are numbers first; if that faults, they are addresses */
                for (int unseen = 0; unseen <= (d.unseen ? 1 : 0) && !well; unseen++) {
                        uint32_t faults = 0;

                        for (int filling = 0; filling < n_fillings && faults < 3; filling++) {
                                enum outcome o = one_launch(f, &d, &l, filling, unseen, k);

                                k->count[o == BREAKS && known(k->name) ? KNOWN : o]++;
                                if (o == FAULTS)
                                        (void)snprintf(k->refused, sizeof(k->refused), "%s", fault);
                                faults += o == LONG ? 3 : o == FAULTS;
                                well += o != LONG && o != FAULTS;
                                if (o == BREAKS)
                                        _exit(7); /* ends the process, because the context is lost */
                        }
                }
        }
}

static void find_globals(struct file *f)
{
        for (uint32_t i = 0; i < f->module->n_vars && f->n_globals < N_GLOBALS; i++) {
                const struct ds_ptx_var *v = f->module->vars[i];
                struct global g = {.name = v->name};
                uint64_t size;

                if ((v->space != DS_PTX_IN_GLOBAL && v->space != DS_PTX_IN_CONST) || v->n_relocs ||
                        v->type >= DS_PTX_TYPE_TEXREF)
                        continue;
                if (ds_interp_find_global(f->interp[0], v->name, &g.va[0], &g.size) ||
                        ds_interp_find_global(f->interp[1], v->name, &g.va[1], &size) ||
                        globals_size(f) + g.size + 8 > DRIVE_ARENA)
                        continue;
                g.constant = v->space == DS_PTX_IN_CONST && !v->data;
                g.writable = v->space == DS_PTX_IN_GLOBAL;
                g.initial = malloc(g.size + 1);
                if (g.initial)
                        memcpy(g.initial, (void *)(uintptr_t)g.va[0], g.size);
                f->global[f->n_globals++] = g;
        }
}

static struct kernel *record(const struct file *f, const char *name, const char *refused)
{
        uint32_t i = atomic_fetch_add(&all->n_kernels, 1);
        struct kernel *k = &all->kernel[i < N_KERNELS ? i : N_KERNELS - 1];

        (void)snprintf(k->name, sizeof(k->name), "%s", name);
        (void)snprintf(k->file, sizeof(k->file), "%s", f->name);
        (void)snprintf(k->refused, sizeof(k->refused), "%s", refused);
        return k;
}

static int read_file(struct file *f, size_t *ret)
{
        FILE *in = fopen(f->name, "r");
        long size;

        if (!in || fseek(in, 0, SEEK_END) || (size = ftell(in)) < 0 || fseek(in, 0, SEEK_SET))
                return 0;
        f->text = calloc((size_t)size + 1, 1);
        *ret = f->text ? fread(f->text, 1, (size_t)size, in) : 0;
        (void)fclose(in);
        return *ret == (size_t)size;
}

/* Loads a file into one interpreter per instruction set. Returns NULL, or the reason why it cannot. */
static const char *load(struct file *f)
{
        static struct ds_ptx_diags diags;
        size_t length = 0;

        diags.n = diags.total = 0;
        if (!read_file(f, &length))
                return "cannot be read";
        if (ds_ptx_parse(f->text, length, 0, &diags, &f->module))
                return "does not parse";
        for (int i = 0; i < 2; i++) {
                int result;

                ds_ix_force_isa(i ? DS_IX_ISA_BASE : -1);
                result = ds_interp_new(f->module, &diags, &f->interp[i]);
                f->work[i] = ds_interp_block_new();
                if (result || !f->work[i])
                        return diags.n ? diags.diag[0].message : "out of memory";
        }
        find_globals(f);
        return NULL;
}

static void unload(struct file *f)
{
        for (uint32_t i = 0; i < f->n_globals; i++) {
                free(f->global[i].initial);
                free(f->global[i].gpu_initial);
        }
        for (int i = 0; i < 2; i++) {
                ds_interp_free(f->interp[i]);
                ds_interp_block_free(f->work[i]);
        }
        if (f->gpu)
                (void)cu.unload(f->gpu);
        ds_ptx_module_free(f->module);
        free(f->text);
}

/* Runs the kernels of a file, from the shard's position on. */
static void one_file(struct shard *s)
{
        struct file f = {.name = files[s->file]};
        const char *why = load(&f);
        int n = 0;

        if (!why)
                gpu_load(&f);
        for (uint32_t i = 0; f.module && i < f.module->n_functions; i++) {
                const struct ds_ptx_function *function = f.module->functions[i];
                struct kernel *k;

                if (!function->is_entry || !function->has_body || !strstr(function->name, only) || n++ < s->kernel)
                        continue;
                s->begun = 1;
                k = record(&f, function->name, why ? why : "");
                s->record = (uint32_t)(k - all->kernel);
                if (!why)
                        one_kernel(&f, function, k);
                s->begun = 0;
                s->kernel++;
        }
        unload(&f);
}

/* --- processes -------------------- */
static void memory_open(void)
{
        for (int i = 0; i < DRIVE_N_FILLINGS; i++) {
                pristine[i] = malloc(DRIVE_ARENA);
                if (!pristine[i])
                        _exit(8);
                drive_fill(pristine[i], DRIVE_ARENA, (enum drive_filling)i, (uint64_t)i + 1);
        }
        arena = aligned_alloc(2 << 20, DRIVE_ARENA);
        first = calloc(2, DRIVE_ARENA);
        other = calloc(2, DRIVE_ARENA);
        from_gpu = calloc(2, DRIVE_ARENA);
        again = calloc(2, DRIVE_ARENA);
        if (!arena || !first || !other || !from_gpu || !again)
                _exit(8);
}

static void work(struct shard *s)
{
        int null = open("/dev/null", O_WRONLY);

        out_fd = dup(1);
        (void)dup2(null, 1); /* kernels may print to standard output */
        memory_open();
        if (with_gpu &&
                (!open_gpu() || !gpu_more() || cu.alloc(&gpu_arena, DRIVE_ARENA) || (with_forms && !forms_gpu_open())))
                _exit(3);
        for (; s->file < n_files; s->file += n_shards, s->kernel = 0)
                one_file(s);
        s->done = 1;
        _exit(0);
}

static int start(struct shard *s)
{
        pid_t pid;

        s->begun = 0;
        pid = fork();
        if (pid == 0) /* the child shares the memory of this shard */
                work(s);
        s->pid = pid;
        return pid > 0;
}

/* Handles the end of a process. Returns the number of its replacements: 1 if a new one continues after the kernel
 * that broke it, else 0. */
static int ended(struct shard *s, int status)
{
        if (s->done)
                return 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 3) {
                all->shard[0].done = -3;
                return 0;
        }
        if (!s->begun) { /* the process ended in this file, but not in a kernel */
                dprintf(1, "LOST %s: status %x\n", files[s->file], (unsigned)status);
                s->file += n_shards;
                s->kernel = 0;
                atomic_fetch_add(&all->n_refused_files, 1);
        } else {
                if (!(WIFEXITED(status) && WEXITSTATUS(status) == 7)) {
                        all->kernel[s->record].count[BREAKS]++;
                        dprintf(1, "BREAKS %s %s: status %x\n", all->kernel[s->record].name,
                                all->kernel[s->record].file, (unsigned)status);
                }
                s->kernel++;
        }
        return s->file < n_files ? start(s) : 0;
}

/* --- the summary ------------------ */
static int by_name(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static uint32_t distinct(const char **names, uint32_t n)
{
        uint32_t d = 0;

        qsort(names, n, sizeof(*names), by_name);
        for (uint32_t i = 0; i < n; i++)
                d += i == 0 || strcmp(names[i], names[i - 1]) != 0;
        return d;
}

/* Whether any launch of the kernel completed on both sides and was compared */
static int compared(const struct kernel *k)
{
        return k->count[SAME] || k->count[NEARLY] || k->count[FARTHER] || k->count[DIFFERS] || k->count[KNOWN] ||
               k->count[SETS] || k->count[FORM];
}

static const char *why_not(const struct kernel *k)
{
        if (k->refused[0] && !k->count[FAULTS])
                return "refused";
        return k->count[BREAKS]    ? "breaks"
               : k->count[ORDER]   ? "order"
               : k->count[TIMED]   ? "timed"
               : k->count[SILENT]  ? "silent"
               : k->count[REFUSED] ? "driver"
               : k->count[LONG]    ? "long"
                                   : "faults";
}

static int summary(void)
{
        static const char *const reasons[] = {
                "refused", "breaks", "order", "timed", "silent", "driver", "long", "faults"};
        static const char *names[N_KERNELS], *driven[N_KERNELS];
        uint32_t n = atomic_load(&all->n_kernels), n_driven = 0, n_why[DS_ARRAY_SIZE(reasons)] = {0}, exact = 0;
        uint64_t count[N_OUTCOMES] = {0};
        double worst = 0;

        n = n < N_KERNELS ? n : N_KERNELS;
        for (uint32_t i = 0; i < n; i++) {
                const struct kernel *k = &all->kernel[i];

                names[i] = k->name;
                for (int o = 0; o < N_OUTCOMES; o++)
                        count[o] += k->count[o];
                worst = fmax(worst, k->worst);
                exact += k->exact && compared(k);
                if (compared(k))
                        driven[n_driven++] = k->name;
                for (size_t r = 0; r < DS_ARRAY_SIZE(reasons); r++)
                        n_why[r] += !compared(k) && strcmp(why_not(k), reasons[r]) == 0;
                if (verbose && !compared(k))
                        dprintf(1, "not compared (%s): %s %s %s\n", why_not(k), k->name, k->file, k->refused);
        }
        dprintf(1,
                "%d files, %u kernels (%u names); compared: %u kernels (%u names), %u of them without approximations\n",
                n_files, n, distinct(names, n), n_driven, distinct(driven, n_driven), exact);
        for (size_t r = 0; r < DS_ARRAY_SIZE(reasons); r++)
                dprintf(1, "%s %s %u", r ? "," : "not compared:", reasons[r], n_why[r]);
        dprintf(1,
                "\nlaunches: %llu bit-identical, %llu near (largest difference %g), %llu farther, %llu known "
                "exceptions, "
                "%llu differ, %llu differ between instruction sets, %llu break\n",
                (unsigned long long)count[SAME], (unsigned long long)count[NEARLY], worst,
                (unsigned long long)count[FARTHER], (unsigned long long)count[KNOWN],
                (unsigned long long)count[DIFFERS], (unsigned long long)count[SETS], (unsigned long long)count[BREAKS]);
        dprintf(1,
                "launches not compared: %llu fault, %llu too long, %llu depend on order, %llu read clocks, %llu write "
                "nothing, "
                "%llu refused by the "
                "driver\n",
                (unsigned long long)count[FAULTS], (unsigned long long)count[LONG], (unsigned long long)count[ORDER],
                (unsigned long long)count[TIMED], (unsigned long long)count[SILENT],
                (unsigned long long)count[REFUSED]);
        if (with_forms)
                dprintf(1,
                        "persistent forms: %u launches, evicted and resumed %u times, %llu left "
                        "other memory; %u of kernels "
                        "without this form\n",
                        all->n_forms - all->n_formless, all->n_evicted, (unsigned long long)count[FORM],
                        all->n_formless);
        return count[FORM] || (with_forms && !all->n_evicted) || count[DIFFERS] || count[SETS] || count[BREAKS] ||
               all->n_refused_files || !n_driven;
}

static int found(const char *path, const struct stat *st, int type, struct FTW *at)
{
        const char *dot = strrchr(path, '.');

        (void)st;
        (void)at;
        if (type == FTW_F && dot && strcmp(dot, ".ptx") == 0 && n_files < N_FILES)
                files[n_files++] = strdup(path);
        return 0;
}

static int run_all(void)
{
        int alive = 0;

        for (int i = 0; i < n_shards; i++) {
                all->shard[i].file = i;
                alive += start(&all->shard[i]);
        }
        while (alive > 0) {
                int status = 0;
                pid_t pid = wait(&status);

                if (pid < 0)
                        return 2;
                for (int i = 0; i < n_shards; i++)
                        if (all->shard[i].pid == pid)
                                alive += ended(&all->shard[i], status) - 1;
        }
        if (all->shard[0].done == -3) {
                (void)fprintf(stderr, "no GPU\n");
                return 3;
        }
        return summary();
}

int main(int argc, char **argv)
{
        static const struct option options[] = {
                {"sim", no_argument, NULL, 's'}, {"forms", no_argument, NULL, 'F'}, {NULL, 0, NULL, 0}};
        int c;

        while ((c = getopt_long(argc, argv, "j:f:l:k:v", options, NULL)) != -1) {
                if (c == 's')
                        with_gpu = 0;
                else if (c == 'F')
                        with_forms = 1;
                else if (c == 'j')
                        n_shards = atoi(optarg);
                else if (c == 'f')
                        n_fillings = DS_MIN(atoi(optarg), (int)DRIVE_N_FILLINGS);
                else if (c == 'l')
                        n_launches = DS_MIN(atoi(optarg), DRIVE_N_LAUNCHES);
                else if (c == 'k')
                        only = optarg;
                else if (c == 'v')
                        verbose = 1;
                else
                        return 2;
        }
        for (int i = optind; i < argc; i++)
                if (nftw(argv[i], found, 16, FTW_PHYS))
                        return 2;
        all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (all == MAP_FAILED || !n_files || n_shards < 1 || n_shards > N_SHARDS)
                return 2;
        qsort(files, (size_t)n_files, sizeof(*files), by_name);
        return run_all();
}
