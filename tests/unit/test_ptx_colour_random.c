/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random kernels that compute with addresses: kernels that the pass colours leave the same bytes
 *
 * A kernel grows instruction by instruction from two pointers: sums, differences, bits, halves, comparisons, loads,
 * stores, atomics. An instruction after which the pass would refuse the kernel is removed. So each kernel comes
 * close to a refusal, and finally stores every register that the pass allows. Then it runs on linear tensors
 * and on scattered ones: every value that depends on a tensor's place differs. DETSHARE_COLOUR_ROUNDS=N: number of
 * kernels.
 */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/interp/interp.h"
#include "ptx/pass/colour.h"
#include "ptx/ptx.h"
#include "util/macro.h"

#define ROUNDS 40
#define STEPS 60
#define TENSOR 8192u /* bytes; pointers begin in the middle */
#define SLACK 1024u
#define OUT_EACH 1024u
#define THREADS 32u
#define POOL (8u * 2u * TENSOR)
#define WINDOW UINT64_C(0x10000000000000)
#define HEAD                                                                                                          \
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u64 q, .param .u64 " \
        "o)\n"                                                                                                        \
        "{\n.reg .b64 %%a<200>;\n.reg .b32 %%r<200>;\n.reg .pred %%p<200>;\n"                                         \
        "ld.param.u64 %%a0, [p];\nld.param.u64 %%a1, [q];\nld.param.u64 %%a198, [o];\nmov.u32 %%r198, %%tid.x;\n"     \
        "mul.wide.u32 %%a2, %%r198, 8;\nmad.wide.u32 %%a199, %%r198, 1024, %%a198;\n"

static const struct ds_ptx_colour_layout layouts[] = {{DS_PTX_COLOUR_TABLE, 10, 0}, {DS_PTX_COLOUR_REGULAR, 8, 2},
        {DS_PTX_COLOUR_REGULAR, 11, 1}, {DS_PTX_COLOUR_TABLE, 8, 0}};

struct value {
        int least, most; /* range of a pointer's possible offsets from the beginning of its tensor, bytes */
        bool pointer;
};

struct kernel {
        char text[16384];
        size_t length;
        uint64_t mask;
        struct value values[200];
        uint32_t n_values, n_predicates; /* number of registers %a and of predicates %p */
};

static uint64_t seed;

static uint32_t draw(uint32_t n)
{
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (uint32_t)(seed >> 33) % n;
}

/* --- growing ------------------------------------------------------------------------------------------------------ */

static ds_ptx_module *parse(const struct kernel *k)
{
        static struct ds_ptx_diags diags;
        static char why[2000], text[sizeof(k->text) + 16];
        ds_ptx_module *module = NULL;
        int r;

        snprintf(text, sizeof(text), "%sret;\n}\n", k->text);
        r = ds_ptx_parse(text, strlen(text), 0, &diags, &module);
        ds_ptx_diags_format(&diags, "ptx", why, sizeof(why));
        cr_assert_eq(r, 0, "%s\n%s", why, text);
        return module;
}

static bool is_fine(const struct kernel *k)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = parse(k);
        struct ds_ptx_colour_verdict v;

        cr_assert_eq(ds_ptx_colour_judge(module, &(struct ds_ptx_colour_want){"k", k->mask}, &v), 0);
        return v.made;
}

/* Appends instructions if the pass still accepts the kernel. Returns whether it does. */
static bool add(struct kernel *k, const char *fmt, ...) __attribute__((__format__(__printf__, 2, 3)));

static bool add(struct kernel *k, const char *fmt, ...)
{
        const size_t before = k->length;
        va_list args;

        va_start(args, fmt);
        k->length += (size_t)vsnprintf(k->text + before, sizeof(k->text) - before, fmt, args);
        va_end(args);
        cr_assert_lt(k->length, sizeof(k->text));
        if (is_fine(k))
                return true;
        k->length = before;
        k->text[before] = '\0';
        return false;
}

static uint32_t any(const struct kernel *k)
{
        return draw(k->n_values);
}

static uint32_t pointer(const struct kernel *k)
{
        uint32_t i;

        do
                i = any(k);
        while (!k->values[i].pointer);
        return i;
}

static void is_new(struct kernel *k, bool fits, struct value value)
{
        if (fits)
                k->values[k->n_values++] = value;
}

static void add_pointer(struct kernel *k)
{
        const uint32_t a = pointer(k), b = pointer(k), to = k->n_values, way = draw(6);
        const struct value x = k->values[a], y = k->values[b];
        const int by = ((int)draw(65) - 32) * 8, low = 8 * (int)(1 + draw(31));
        struct value v = {.pointer = true, .least = x.least - 256, .most = x.most + 256};

        if (v.least < (int)SLACK || v.most > (int)(TENSOR - SLACK))
                return;
        if (way == 0)
                is_new(k, add(k, "add.s64 %%a%u, %%a%u, %d;\n", to, a, by), v);
        else if (way == 1)
                is_new(k, add(k, "and.b64 %%a%u, %%a%u, %d;\n", to, a, -(8 << draw(6))), v);
        else if (way == 2)
                is_new(k, add(k, "or.b64 %%a%u, %%a%u, %d;\n", to, a, low), v);
        else if (way == 3)
                is_new(k, add(k, "sub.s64 %%a%u, %%a%u, %d;\n", to, a, by), v);
        else if (way == 4 && k->n_predicates)
                is_new(k, add(k, "selp.b64 %%a%u, %%a%u, %%a%u, %%p%u;\n", to, a, b, draw(k->n_predicates)),
                        (struct value){
                                .pointer = true, .least = DS_MIN(x.least, y.least), .most = DS_MAX(x.most, y.most)});
        else if (add(k, "and.b64 %%a%u, %%a%u, 120;\n", to, any(k))) {
                k->values[k->n_values++] = (struct value){.pointer = false};
                is_new(k, add(k, "add.s64 %%a%u, %%a%u, %%a%u;\n", to + 1, a, to), v);
        }
}

static void add_number(struct kernel *k)
{
        static const char *const two[] = {
                "add.s64", "sub.s64", "xor.b64", "or.b64", "and.b64", "mul.lo.s64", "min.u64", "max.s64"};
        static const uint64_t bits[] = {1, 7, 15, 255, 256, 511, 65535, UINT64_MAX - 255};
        const uint32_t a = any(k), b = any(k), to = k->n_values, way = draw(7);
        bool fits = false;

        if (way < 2)
                fits = add(k, "%s %%a%u, %%a%u, %%a%u;\n", two[draw(DS_ARRAY_SIZE(two))], to, a, b);
        else if (way == 2)
                fits = add(k, "and.b64 %%a%u, %%a%u, %lld;\n", to, a, (long long)bits[draw(DS_ARRAY_SIZE(bits))]);
        else if (way == 3)
                fits = add(k, "%s %%a%u, %%a%u, %u;\n", draw(2) ? "shl.b64" : "shr.u64", to, a, draw(12));
        else if (way == 4)
                fits = add(k, "cvt.u%u.u64 %%r%u, %%a%u;\nadd.u32 %%r%u, %%r%u, %u;\ncvt.u64.u32 %%a%u, %%r%u;\n",
                        8u << draw(3), to, a, to, to, draw(99), to, to);
        else if (way == 5)
                fits = add(k, "sub.s64 %%a%u, %%a%u, %%a%u;\n", to, pointer(k), pointer(k));
        else
                fits = add(k, "%s.b64 %%r%u, %%a%u;\ncvt.u64.u32 %%a%u, %%r%u;\n", draw(2) ? "popc" : "clz", to, a, to,
                        to);
        is_new(k, fits, (struct value){.pointer = false});
}

static void add_predicate(struct kernel *k)
{
        static const char *const how[] = {"eq.s64", "ne.u64", "lt.u64", "gt.s64", "le.s64", "hi.u64"};
        const char *compare = how[draw(DS_ARRAY_SIZE(how))];
        bool fits;

        if (!draw(4))
                fits = add(
                        k, "isspacep.%s %%p%u, %%a%u;\n", draw(2) ? "global" : "shared", k->n_predicates, pointer(k));
        else if (draw(2))
                fits = add(k, "setp.%s %%p%u, %%a%u, %d;\n", compare, k->n_predicates, any(k), (int)draw(3));
        else if (draw(2)) /* an order comparison is defined between two addresses only */
                fits = add(k, "setp.%s %%p%u, %%a%u, %%a%u;\n", compare, k->n_predicates, pointer(k), pointer(k));
        else
                fits = add(k, "setp.%s %%p%u, %%a%u, %%a%u;\n", how[draw(2)], k->n_predicates, any(k), any(k));
        k->n_predicates += fits;
}

static void add_access(struct kernel *k)
{
        const uint32_t a = pointer(k), to = k->n_values, way = draw(4);
        const int at = ((int)draw(65) - 32) * 8;
        char guard[16] = "";

        if (k->n_predicates && draw(2))
                snprintf(guard, sizeof(guard), "@%s%%p%u ", draw(2) ? "!" : "", draw(k->n_predicates));
        if (way == 0)
                (void)add(k, "%sst.global.u64 [%%a%u+%d], %%a%u;\n", guard, a, at, any(k));
        else if (way == 1)
                is_new(k,
                        add(k, "mov.u64 %%a%u, 5;\n%satom.global.add.u64 %%a%u, [%%a%u+%d], %%a%u;\n", to, guard, to, a,
                                at, any(k)),
                        (struct value){.pointer = false});
        else
                is_new(k,
                        add(k, "mov.u64 %%a%u, 5;\n%sld.global.u%u %%a%u, [%%a%u+%d];\n", to, guard, 8u << draw(4), to,
                                a, at),
                        (struct value){.pointer = false});
}

/* Stores every value that the pass allows in memory. */
static void add_results(struct kernel *k)
{
        uint32_t at = 0;

        for (uint32_t i = 0; i < k->n_values; i++)
                at += add(k, "st.global.u64 [%%a199+%u], %%a%u;\n", 8 * at, i);
        for (uint32_t i = 0; i < k->n_predicates; i++)
                at += add(k, "selp.u64 %%a%u, 1, 2, %%p%u;\nst.global.u64 [%%a199+%u], %%a%u;\n", k->n_values + i, i,
                        8 * at, k->n_values + i);
        cr_assert(at && 8 * at <= OUT_EACH);
}

static void grow(struct kernel *k)
{
        static void (*const ways[])(struct kernel * k) = {
                add_pointer, add_number, add_number, add_predicate, add_access};

        *k = (struct kernel){.mask = 1 + draw(3), .n_values = 3};
        k->values[0] = k->values[1] = (struct value){.pointer = true, .least = TENSOR / 2, .most = TENSOR / 2};
        k->length = (size_t)snprintf(k->text, sizeof(k->text), HEAD);
        for (int i = 0; i < STEPS; i++)
                ways[draw(DS_ARRAY_SIZE(ways))](k);
        add_results(k);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static uint8_t linear[2 * TENSOR] __attribute__((__aligned__(8192))), pool[POOL] __attribute__((__aligned__(8192)));
static uint8_t out[THREADS * OUT_EACH] __attribute__((__aligned__(256)));
static uint32_t table[2 * TENSOR >> 8];

static void run(const ds_interp *interp, const char *kernel, const void *params, size_t size)
{
        struct ds_interp_range ranges[4] = {{(uintptr_t)linear, sizeof(linear)}, {(uintptr_t)pool, sizeof(pool)},
                {(uintptr_t)out, sizeof(out)}, {(uintptr_t)table, sizeof(table)}};
        struct ds_interp_launch l = {.kernel = ds_interp_find_kernel(interp, kernel),
                .grid = {1, 1, 1},
                .block = {THREADS, 1, 1},
                .params = params,
                .params_size = size,
                .ranges = ranges,
                .n_ranges = 4,
                .n_sms = 1};
        ds_interp_block *work = ds_interp_block_new();
        struct ds_interp_result result;

        for (int i = 1; i < 4; i++)
                for (int m = i; m && ranges[m].va < ranges[m - 1].va; m--) {
                        struct ds_interp_range other = ranges[m];

                        ranges[m] = ranges[m - 1];
                        ranges[m - 1] = other;
                }
        cr_assert(work && l.kernel);
        cr_assert_eq(ds_interp_run_block(work, &l, 0, 0, 0, &result), 0);
        cr_assert_eq(result.fault, DS_INTERP_OK, "%s: %s", kernel, result.message);
        ds_interp_block_free(work);
}

static void fill(uint8_t *bytes, size_t n)
{
        for (size_t i = 0; i < n; i++)
                bytes[i] = (uint8_t)draw(256);
}

/* Distributes the kernel's sectors over the pool: in any order, or every 2^shift-th sector */
static void deal(const struct ds_ptx_colour_layout *layout)
{
        const uint32_t n = 2 * TENSOR >> layout->sector_bits, all = POOL >> layout->sector_bits;
        bool taken[POOL >> 8] = {false};

        for (uint32_t i = 0; i < n; i++) {
                do
                        table[i] = layout->kind == DS_PTX_COLOUR_TABLE ? draw(all) : i << layout->shift;
                while (taken[table[i]]);
                taken[table[i]] = true;
        }
}

/* Copies tensor i between linear memory and its sectors; out_of: from the sectors to linear memory */
static void carry(const struct ds_ptx_colour_layout *layout, uint32_t i, bool out_of)
{
        const size_t each = (size_t)1 << layout->sector_bits;

        for (size_t at = i * TENSOR; at < (i + 1) * TENSOR; at += each) {
                uint8_t *sector = pool + table[at / each] * each;

                memcpy(out_of ? linear + at : sector, out_of ? sector : linear + at, each);
        }
}

static void compare(const struct kernel *k, const struct ds_ptx_colour_layout *layout)
{
        static uint8_t pristine[sizeof(linear)], wanted[sizeof(linear)], wanted_out[sizeof(out)];
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = parse(k), *made = NULL;
        const struct ds_ptx_colour_want want = {"k", k->mask};
        static struct ds_ptx_diags diags;
        ds_interp *interp = NULL;
        struct ds_ptx_colour_verdict v;
        struct {
                uint64_t tensors[2], out;
                struct ds_ptx_colour colour;
        } params = {{(uintptr_t)linear + TENSOR / 2, (uintptr_t)linear + TENSOR + TENSOR / 2}, (uintptr_t)out, {0, 0}};
        char name[64];

        cr_assert_eq(ds_ptx_colour_make(module, &want, 1, layout, 0, &diags, &made, &v), 0);
        cr_assert(v.made && ds_ptx_colour_name("k", k->mask, name, sizeof(name)));
        cr_assert_eq(ds_interp_new(made, &diags, &interp), 0);
        fill(pristine, sizeof(pristine));
        memcpy(linear, pristine, sizeof(linear));
        memset(out, 0, sizeof(out));
        run(interp, "k", &params, offsetof(__typeof__(params), colour));
        memcpy(wanted, linear, sizeof(linear));
        memcpy(wanted_out, out, sizeof(out));
        memcpy(linear, pristine, sizeof(linear));
        memset(out, 0, sizeof(out));
        deal(layout);
        cr_assert(ds_ptx_colour_set(layout, WINDOW, sizeof(linear), (uintptr_t)pool, (uintptr_t)table, &params.colour));
        for (uint32_t i = 0; i < 2; i++)
                if (k->mask >> i & 1) {
                        carry(layout, i, false);
                        memset(linear + i * TENSOR, 0, TENSOR);
                        params.tensors[i] = WINDOW + i * TENSOR + TENSOR / 2;
                }
        run(interp, name, &params, sizeof(params));
        for (uint32_t i = 0; i < 2; i++)
                if (k->mask >> i & 1)
                        carry(layout, i, true);
        cr_expect(memcmp(linear, wanted, sizeof(linear)) == 0 && memcmp(out, wanted_out, sizeof(out)) == 0,
                "mask %llx: the bytes differ:\n%s", (unsigned long long)k->mask, k->text);
        ds_interp_free(interp);
}

Test(ptx_colour_random, the_same_bytes)
{
        const char *more = getenv("DETSHARE_COLOUR_ROUNDS");
        const uint32_t rounds = more ? (uint32_t)atoi(more) : ROUNDS;
        static struct kernel k;

        for (uint32_t round = 0; round < rounds; round++) {
                seed = round + 1;
                grow(&k);
                compare(&k, &layouts[round % DS_ARRAY_SIZE(layouts)]);
        }
}
