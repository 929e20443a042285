/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of the worker process that a kernel on the simulated GPU can learn
 *
 * A kernel that knows where the worker's heap, stack or libraries lie defeats address space randomisation. These
 * kernels store every address that they can obtain: of variables in each space, parameters, functions, results of
 * malloc and alloca, a cooperative launch's workspace, their printf output, and uninitialised registers and memory. The
 * test looks each word up in the process's map of memory. It may be no address, lie in the session's own memory, or in
 * the area of modules, which does not move with the rest (ptx/interp/area.h).
 */
#include "tests/gpu/device_common.h"

#include "device/sim/sim.h"
#include "ptx/interp/area.h"

#define WORDS 4096

static const char ptx[] =
        ".version 7.8\n.target sm_75\n.address_size 64\n"
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
        ".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
        ".func callee(.param .b64 a)\n{\n ret;\n}\n"
        ".visible .const .align 8 .b8 constant[64];\n"
        ".visible .global .align 8 .b8 variable[64];\n"
        ".visible .global .align 8 .u64 initialised[4] = {variable, generic(variable), callee, generic(constant)};\n"
        ".visible .global .align 1 .b8 format[20] = {112,61,37,112,32,120,61,37,108,108,120,10,0};\n"
        /* kernel spaces stores every kind of address as an instruction returns it, and as a generic address */
        ".visible .entry spaces(.param .u64 out)\n{\n"
        " .reg .b64 %o, %a, %g, %n;\n .shared .align 8 .b8 s[64];\n .local .align 8 .b8 l[64];\n"
        " ld.param.u64 %o, [out];\n"
        " mov.u64 %a, variable; cvta.global.u64 %g, %a; st.global.u64 [%o], %a; st.global.u64 [%o+8], %g;\n"
        " mov.u64 %a, constant; cvta.const.u64 %g, %a; st.global.u64 [%o+16], %a; st.global.u64 [%o+24], %g;\n"
        " mov.u64 %a, s; cvta.shared.u64 %g, %a; st.global.u64 [%o+32], %a; st.global.u64 [%o+40], %g;\n"
        " mov.u64 %a, l; cvta.local.u64 %g, %a; st.global.u64 [%o+48], %a; st.global.u64 [%o+56], %g;\n"
        " mov.u64 %a, out; cvta.param.u64 %g, %a; st.global.u64 [%o+64], %a; st.global.u64 [%o+72], %g;\n"
        " mov.u64 %a, callee; st.global.u64 [%o+80], %a;\n"
        " ld.global.u64 %a, [initialised]; st.global.u64 [%o+88], %a;\n"
        " ld.global.u64 %a, [initialised+8]; st.global.u64 [%o+96], %a;\n"
        " ld.global.u64 %a, [initialised+16]; st.global.u64 [%o+104], %a;\n"
        " ld.global.u64 %a, [initialised+24]; st.global.u64 [%o+112], %a;\n"
        " mov.u64 %n, 64; alloca.u64 %a, %n, 16; cvta.local.u64 %g, %a;\n"
        " st.global.u64 [%o+120], %a; st.global.u64 [%o+128], %g;\n"
        " st.global.u64 [%o+136], %n;\n ret;\n}\n"
        ".visible .entry allocates(.param .u64 out)\n{\n .reg .b64 %o, %a, %n;\n"
        " ld.param.u64 %o, [out];\n mov.u64 %n, 64;\n"
        " { .param .b64 n; .param .b64 r; st.param.b64 [n], %n; call (r), malloc, (n); ld.param.b64 %a, [r]; }\n"
        " st.global.u64 [%o], %a; st.global.u64 [%a], %a;\n mov.u64 %n, 4194304;\n"
        " { .param .b64 n; .param .b64 r; st.param.b64 [n], %n; call (r), malloc, (n); ld.param.b64 %a, [r]; }\n"
        " st.global.u64 [%o+8], %a;\n ret;\n}\n"
        ".visible .entry grid(.param .u64 out)\n{\n .reg .b64 %o, %a; .reg .b32 %l, %h;\n"
        " ld.param.u64 %o, [out];\n mov.u32 %h, %envreg1; mov.u32 %l, %envreg2; mov.b64 %a, {%l, %h};\n"
        " st.global.u64 [%o], %a; ld.global.u64 %a, [%a]; st.global.u64 [%o+8], %a;\n ret;\n}\n"
        /* kernel found stores what it finds in uninitialised registers, shared and local memory, and the heap */
        ".visible .entry found(.param .u64 out)\n{\n"
        " .reg .b64 %o, %a, %b, %c, %d, %n; .reg .pred %p; .reg .b32 %i;\n"
        " .shared .align 8 .b8 s[8192];\n .local .align 8 .b8 l[8192];\n"
        " ld.param.u64 %o, [out];\n"
        " st.global.u64 [%o], %b; st.global.u64 [%o+8], %c; st.global.u64 [%o+16], %d; add.u64 %o, %o, 24;\n"
        " mov.u64 %n, 0;\n"
        "NEXT:\n mov.u64 %a, s; add.u64 %a, %a, %n; ld.shared.u64 %b, [%a]; st.global.u64 [%o], %b;\n"
        " mov.u64 %a, l; add.u64 %a, %a, %n; ld.local.u64 %b, [%a]; st.global.u64 [%o+8], %b;\n"
        " add.u64 %o, %o, 16; add.u64 %n, %n, 8; setp.lt.u64 %p, %n, 8192;\n @%p bra NEXT;\n"
        " mov.u64 %n, 8192;\n"
        " { .param .b64 n; .param .b64 r; st.param.b64 [n], %n; call (r), malloc, (n); ld.param.b64 %a, [r]; }\n"
        " mov.u64 %n, 0;\n"
        "AGAIN:\n ld.global.u64 %b, [%a]; st.global.u64 [%o], %b; add.u64 %a, %a, 8;\n"
        " add.u64 %o, %o, 8; add.u64 %n, %n, 8; setp.lt.u64 %p, %n, 8192;\n @%p bra AGAIN;\n ret;\n}\n"
        ".visible .entry prints()\n{\n .reg .b64 %a, %f; .local .align 8 .b8 args[16];\n"
        " mov.u64 %a, variable; st.local.u64 [args], %a; cvta.global.u64 %a, %a; st.local.u64 [args+8], %a;\n"
        " mov.u64 %f, format; cvta.global.u64 %f, %f; mov.u64 %a, args; cvta.local.u64 %a, %a;\n"
        " { .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %f; st.param.b64 [a], %a;\n"
        "  call (r), vprintf, (f, a); }\n ret;\n}\n"
        ".visible .entry faults()\n{\n .reg .b64 %a; .reg .b32 %r;\n mov.u64 %a, constant;\n"
        " st.global.u32 [%a], %r;\n ret;\n}\n";

/* --- the process's memory ----------------------------------------------------------------------------------------- */

static struct {
        uint64_t begin, end;
        char line[200];
} maps[4096];
static size_t n_maps;

static void read_maps(void)
{
        FILE *f = fopen("/proc/self/maps", "re");
        char line[400];

        n_maps = 0;
        while (f && n_maps < DS_ARRAY_SIZE(maps) && fgets(line, sizeof(line), f)) {
                char *end;

                maps[n_maps].begin = strtoull(line, &end, 16);
                maps[n_maps].end = strtoull(end + 1, NULL, 16);
                snprintf(maps[n_maps].line, sizeof(maps[n_maps].line), "%.*s", (int)strcspn(line, "\n"), line);
                n_maps++;
        }
        cr_assert(f && n_maps > 10);
        fclose(f);
}

static bool is_public(uint64_t address)
{
        return address - DT_DEVICE_VA < DT_SLAB || address - DT_HOST_VA < DT_HOST ||
               address - DS_IX_AREA_BASE < DS_IX_AREA_BYTES;
}

/* Asserts that no word is a private address of the process. */
static void expect_hidden(const char *what, const uint64_t *words, size_t n)
{
        read_maps();
        for (size_t i = 0; i < n; i++) {
                /* a word may point to freed memory, which is in no map; so it must be public, or too small or too
                 * large for a pointer */
                cr_expect(is_public(words[i]) || words[i] >> 56 || !(words[i] >> 32), "%s, word %zu: 0x%llx", what, i,
                        (unsigned long long)words[i]);
                for (size_t k = 0; k < n_maps && !is_public(words[i]); k++)
                        cr_expect(words[i] < maps[k].begin || words[i] >= maps[k].end, "%s, word %zu: 0x%llx is of %s",
                                what, i, (unsigned long long)words[i], maps[k].line);
        }
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

static uint64_t *launch(struct dt *t, ds_device_module *module, const char *name, uint32_t cooperative)
{
        struct ds_launch l = dt_launch_of(t, module, name, 1, 1);
        uint64_t out = DT_HOST_VA;

        memset((void *)DT_HOST_VA, 0, WORDS * 8);
        l.params = &out;
        l.params_size = strcmp(name, "prints") && strcmp(name, "faults") ? 8 : 0;
        l.cooperative = cooperative;
        dt_ok(t, dt_launch(t, &l));
        return (uint64_t *)DT_HOST_VA;
}

Test(sim_addresses, variables, .timeout = 300)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        ds_device_module *module = dt_load(t, ptx);
        uint64_t *words = launch(t, module, "spaces", 0), va, size;

        cr_assert_eq(words[17], 64);
        cr_assert(words[0] && words[0] == words[1] && words[2] && words[2] == words[3] && words[5] && words[7]);
        expect_hidden("variables", words, 17);
        cr_assert_eq(ds_sim_ops.global_find(module, "variable", &va, &size), 0);
        cr_expect_eq(va, words[0]);
        expect_hidden("what the host is told", &va, 1);
        dt_close(t);
}

Test(sim_addresses, malloc, .timeout = 300)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        uint64_t *words = launch(t, dt_load(t, ptx), "allocates", 0);

        cr_assert(words[0] && words[1]);
        expect_hidden("malloc", words, 2);
        dt_close(t);
}

Test(sim_addresses, cooperative_launches, .timeout = 300)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        uint64_t *words = launch(t, dt_load(t, ptx), "grid", 1);

        cr_assert(words[0] && words[1]);
        expect_hidden("the workspace", words, 2);
        dt_close(t);
}

Test(sim_addresses, uninitialised_memory_is_hidden, .timeout = 300)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        ds_device_module *module = dt_load(t, ptx);

        /* memory that an earlier kernel used reveals no address either */
        for (int i = 0; i < 3; i++) {
                launch(t, module, "spaces", 0);
                expect_hidden("memory", launch(t, module, "found", 0), 3 + 3 * 1024);
                for (int k = 0; k < 3 + 3 * 1024; k++)
                        cr_expect_eq(((uint64_t *)DT_HOST_VA)[k], 0, "word %d", k);
        }
        dt_close(t);
}

Test(sim_addresses, words_of_the_device, .timeout = 300)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        ds_device_module *module = dt_load(t, ptx);
        struct ds_launch l = dt_launch_of(t, module, "faults", 1, 1);
        const struct ds_completion *c;
        struct ds_device_output o;
        unsigned long long words[2];
        char text[200];
        const char *at;

        launch(t, module, "prints", 0);
        cr_assert_eq(ds_sim_ops.output(t->device, &o), 1);
        snprintf(text, sizeof(text), "%.*s", (int)o.size, o.text);
        cr_assert_eq(sscanf(text, "p=0x%llx x=%llx\n", &words[0], &words[1]), 2, "%s", text);
        expect_hidden("printf", (uint64_t *)words, 2);
        c = dt_wait(t, dt_launch(t, &l));
        cr_assert_neq(c->status, 0);
        for (at = strstr(c->message, "0x"); at; at = strstr(at + 2, "0x")) {
                words[0] = strtoull(at, NULL, 16);
                expect_hidden(c->message, (uint64_t *)words, 1);
        }
        dt_close(t);
}

/* The area of modules gives out cleared and disjoint memory, and gives out freed memory again. */
Test(sim_addresses, area)
{
        uint8_t *a = ds_ix_area_new(1), *b = ds_ix_area_new(100000), *c = ds_ix_area_new(1 << 20), *again;

        cr_assert(a && b && c && a != b && b != c);
        memset(b, 0xff, 100000);
        memset(c, 0xff, 1 << 20);
        cr_assert_null(ds_ix_area_free(b, 100000));
        again = ds_ix_area_new(90000);
        cr_expect_eq(again, b);
        for (size_t i = 0; i < 90000; i++)
                cr_assert_eq(again[i], 0, "byte %zu", i);
        cr_assert_null(ds_ix_area_free(again, 90000));
        cr_assert_null(ds_ix_area_free(a, 1));
        /* too large for the first free part, although the freed pieces there are one piece again */
        again = ds_ix_area_new(200000);
        cr_expect_gt(again, c);
        cr_assert_null(ds_ix_area_free(c, 1 << 20));
        cr_assert_null(ds_ix_area_free(again, 200000));
        cr_expect_eq(ds_ix_area_new(8 << 20), a);
        cr_expect_null(ds_ix_area_new(DS_IX_AREA_BYTES));
        cr_expect_null(ds_ix_area_new(UINT64_MAX - 100));
}
