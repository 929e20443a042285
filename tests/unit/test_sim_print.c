/* SPDX-License-Identifier: Apache-2.0 */
/*
 * printf of kernels on the simulated GPU: text, order, bounds; assertions
 */
#include <math.h>

#include "tests/gpu/device_common.h"

#include "device/sim/sim.h"

static char *ptx_file(const char *arch, const char *name)
{
        char path[4096], *bytes;
        size_t n;
        FILE *f;

        snprintf(path, sizeof(path), "%s/%s/%s.ptx", TEST_PTX_DIR, arch, name);
        f = fopen(path, "rb");
        cr_assert_not_null(f, "%s is missing (make kernels)", path);
        bytes = calloc(1, 1 << 20);
        n = fread(bytes, 1, (1 << 20) - 1, f);
        cr_assert(n > 0);
        fclose(f);
        return bytes;
}

struct pt {
        struct dt *dt;
        ds_device_module *module;
        char *out, *err; /* text received so far, terminated */
        size_t n_out, n_err;
};

static void pt_open(struct pt *p, const char *arch)
{
        char *ptx = ptx_file(arch, "prints");

        *p = (struct pt){.dt = dt_open(&ds_sim_ops, "h200")};
        p->module = dt_load(p->dt, ptx);
        free(ptx);
        p->out = calloc(1, 4 << 20);
        p->err = calloc(1, 4 << 20);
}

static void pt_close(struct pt *p)
{
        dt_close(p->dt);
        free(p->out);
        free(p->err);
}

/* Takes the device's available text and appends it to out or err. */
static size_t pt_take(struct pt *p)
{
        struct ds_device_output o;
        size_t pieces = 0;

        for (; ds_sim_ops.output(p->dt->device, &o); pieces++) {
                cr_assert_eq(o.space, DT_SPACE);
                cr_assert(o.size > 0 && o.size <= 49152);
                memcpy((o.to_stderr ? p->err + p->n_err : p->out + p->n_out), o.text, o.size);
                *(o.to_stderr ? &p->n_err : &p->n_out) += o.size;
        }
        p->out[p->n_out] = p->err[p->n_err] = 0;
        return pieces;
}

static uint64_t pt_launch(
        struct pt *p, const char *kernel, uint32_t grid, uint32_t block, const void *params, size_t size)
{
        struct ds_launch l = dt_launch_of(p->dt, p->module, kernel, grid, block);

        l.params = params;
        l.params_size = (uint32_t)size;
        return dt_launch(p->dt, &l);
}

static void pt_run(struct pt *p, const char *kernel, uint32_t grid, uint32_t block, const void *params, size_t size)
{
        dt_ok(p->dt, pt_launch(p, kernel, grid, block, params, size));
        p->n_out = p->n_err = 0;
        pt_take(p);
}

/* --- the text --- */

static void check_integers(struct pt *p)
{
        int32_t *returned = (int32_t *)DT_HOST_VA;
        const struct {
                int i;
                unsigned u;
                long long l;
                unsigned long long ul;
                short h;
                int32_t *returned;
        } args = {-42, 3000000000u, -5000000000ll, 18000000000000000000ull, -7, returned};
        char want[2000];

        snprintf(want, sizeof(want),
                "plain\n%d %i %u %x %X %o\n%ld %lld %lu %llx %#llx\n%hd %hu %hx\n"
                "[%5d] [%-5d] [%05d] [%+d] [% d] [%.4d] [%8.4d]\n[%#x] [%#o] [%10llu] [%-10llu]\n[%*d] [%-*d]\n",
                args.i, -args.i, args.u, args.u, args.u, args.u, (long)args.l, args.l, (unsigned long)args.ul, args.ul,
                args.ul, args.h, (unsigned short)args.h, (unsigned short)args.h, args.i, args.i, args.i, args.i, args.i,
                args.i, args.i, args.u, args.u, args.ul, args.ul, 7, args.i, 7, args.i);
        pt_run(p, "print_integers", 1, 1, &args, sizeof(args));
        cr_assert_str_eq(p->out, want);
        const int32_t counts[] = {0, 6, 5, 3, 7, 4, 4};
        cr_assert_arr_eq(returned, counts, sizeof(counts));
}

static void check_words(struct pt *p)
{
        const struct {
                float f;
                double d;
        } floats = {1234.5678f, -0.001953125};
        const struct {
                uint64_t word;
                int c;
        } words = {DT_HOST_VA, 'x'};
        char want[2000];
        double d = floats.d;

        snprintf(want, sizeof(want),
                "%f %e %g %a\n%E %G %A\n[%10.3f] [%-10.2f] [%+.1e] [%010.4f] [%.0f] [%#.0f]\n%f %f %g\n",
                (double)floats.f, d, d, d, d, d, d, (double)floats.f, (double)floats.f, d, d, d, d, -HUGE_VAL, HUGE_VAL,
                1e300 * d);
        pt_run(p, "print_floats", 1, 1, &floats, sizeof(floats));
        cr_assert_str_eq(p->out, want);
        strcpy((char *)DT_HOST_VA, "mapped");
        pt_run(p, "print_words", 1, 1, &words, 12);
        cr_assert_str_eq(p->out,
                "constant|global words|local|sh\n[    mapped] [mapped    ] [map] [       map]\nxyz [  x] [x  ]\n"
                "100% of 120, 0x1234567890\nno newline until here\n");
        pt_run(p, "print_many", 1, 1, NULL, 0);
        cr_assert_str_eq(strrchr(p->out, '3'), "32\n");
}

Test(sim_print, text, .timeout = 300)
{
        const char *archs[] = {"sm_75", "sm_90"};
        struct pt p;

        for (size_t i = 0; i < DS_ARRAY_SIZE(archs); i++) {
                pt_open(&p, archs[i]);
                cr_assert(ds_sim_ops.kernel_info(ds_sim_ops.kernel_find(p.module, "print_many"))->prints);
                check_integers(&p);
                check_words(&p);
                pt_close(&p);
        }
}

Test(sim_print, only_modules_that_print_say_so)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        ds_device_module *module = dt_load(t, DT_PTX);

        cr_assert_eq(ds_sim_ops.kernel_info(ds_sim_ops.kernel_find(module, "null"))->prints, 0);
        dt_close(t);
}

/* --- order --- */

/* A kernel's text comes with the kernel's completion and not before, kernel by kernel, with a warp's lanes in order. */
Test(sim_print, order, .timeout = 300)
{
        struct pt p;
        char want[64 * 64] = "";
        int tag[2] = {1, 2};
        uint64_t token;

        pt_open(&p, "sm_90");
        token = pt_launch(&p, "print_lanes", 1, 64, &tag[0], 4);
        cr_assert_eq(pt_take(&p), 0, "text of a kernel that has not ended");
        dt_ok(p.dt, token);
        (void)pt_launch(&p, "print_all", 2, 3, &tag[1], 4);
        dt_wait_all(p.dt);
        for (int i = 0; i < 64; i++)
                snprintf(want + strlen(want), 64, "tag 1 lane %d of block 0\n", i);
        for (int i = 0; i < 6; i++)
                snprintf(want + strlen(want), 64, "all 2 %d %d\n", i / 3, i % 3);
        cr_assert_eq(pt_take(&p), 2, "a piece of each kernel");
        cr_assert_str_eq(p.out, want);
        cr_assert_eq(pt_take(&p), 0);
        pt_close(&p);
}

/* --- bounds --- */

Test(sim_print, the_oldest_goes, .timeout = 300)
{
        struct pt p;
        int n = 40000; /* number of lines: about two and a half times as many as the buffer holds */
        size_t before;

        pt_open(&p, "sm_90");
        pt_run(&p, "print_much", 1, 1, &n, 4);
        cr_assert(p.n_out > DS_MIB(1) / 2 && p.n_out <= DS_MIB(1), "%zu", p.n_out);
        cr_assert(atoi(p.out) > 0, "whole calls, not the first ones");
        cr_assert_not_null(strstr(p.out, "39999     the"), "the last ones are there");
        before = p.n_out;
        cr_assert_eq(ds_sim_ops.limit_raise(p.dt->device, DS_LIMIT_PRINTF_FIFO_SIZE, DS_MIB(4)), 0);
        pt_run(&p, "print_much", 1, 1, &n, 4);
        cr_assert(p.n_out > 2 * before && atoi(p.out) == 0 && p.out[0] == '0', "all of it");
        cr_assert_eq(ds_sim_ops.limit_raise(p.dt->device, DS_LIMIT_PRINTF_FIFO_SIZE, DS_GIB(1)), DS_CUDA_OUT_OF_MEMORY);
        pt_close(&p);
}

/* Unread text has one bound for all kernels of a space; reading makes room again. */
Test(sim_print, a_space_has_one_bound, .timeout = 300)
{
        struct pt p;
        int n = 6000;

        pt_open(&p, "sm_90");
        for (int i = 0; i < 8; i++)
                (void)pt_launch(&p, "print_much", 1, 1, &n, 4);
        dt_wait_all(p.dt);
        pt_take(&p);
        cr_assert(p.n_out > DS_MIB(1) / 2 && p.n_out <= DS_MIB(1), "%zu", p.n_out);
        pt_run(&p, "print_much", 1, 1, &n, 4);
        cr_assert_eq(p.n_out, (size_t)n * 65, "%zu", p.n_out);
        /* closing the device frees unread text */
        (void)pt_launch(&p, "print_much", 1, 1, &n, 4);
        dt_wait_all(p.dt);
        pt_close(&p);
}

/* --- faults --- */

Test(sim_print, assertions, .timeout = 300)
{
        struct pt p;
        int32_t *in = (int32_t *)DT_HOST_VA, *out = in + 1000;
        struct {
                int32_t *in;
                int limit;
                int32_t *out;
        } args = {in, 100, out};
        const struct ds_completion *c;
        char want[8192] = "";

        pt_open(&p, "sm_90");
        in[9] = in[41] = in[40] = 100;
        c = dt_wait(p.dt, pt_launch(&p, "assert_lane", 2, 64, &args, sizeof(args)));
        cr_assert_eq(c->status, DS_CUDA_ASSERT);
        cr_assert_not_null(strstr(c->message, "v < limit"), "%s", c->message);
        pt_take(&p);
        for (int b = 0; b < 2; b++) {
                const int lanes[] = {9, 40, 41};

                for (int i = 0; i < 3; i++)
                        snprintf(want + strlen(want), 256,
                                "tests/programs/kernels/prints.cu:80: void assert_lane(const int *, int, int *): "
                                "block: [%d,0,0], thread: [%d,0,0] "
                                "Assertion `v < limit` failed.\n",
                                b, lanes[i]);
        }
        cr_assert_str_eq(p.err, want);
        cr_assert_eq(p.n_out, 0);
        /* the device works as before */
        args.limit = 101;
        dt_ok(p.dt, pt_launch(&p, "assert_lane", 1, 64, &args, sizeof(args)));
        cr_assert_eq(pt_take(&p), 0);
        cr_assert_eq(out[9], 100);
        pt_close(&p);
}

Test(sim_print, a_string_that_is_not_there, .timeout = 300)
{
        struct pt p;
        const struct {
                uint64_t word;
                int c;
        } words = {0x1234, 'x'};
        const struct ds_completion *c;

        pt_open(&p, "sm_90");
        c = dt_wait(p.dt, pt_launch(&p, "print_words", 1, 1, &words, 12));
        cr_assert_eq(c->status, DS_CUDA_ILLEGAL_ADDRESS);
        cr_assert_not_null(strstr(c->message, "0x1234"), "%s", c->message);
        pt_take(&p);
        cr_assert_str_eq(p.out, "constant|global words|local|sh\n", "what was said before");
        pt_close(&p);
}
