/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pack's tensors: the tensor of each parameter, the reads and writes of launches, the sets of parameters that can be
 * coloured together; and the file that lists memory-bound launches
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/bounds.h"
#include "serve/tensors.h"
#include "util/macro.h"

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

/* launches of the pack: in -> conv -> left half of c; in -> conv -> right half of c; c + left half of c -> y; y in
 * place */
#define HEAD                                                                                                           \
        "detshare-pack 1\nmodel t\nclass be\nbatch 1\narch sm_80\nframework f\ncompiler c\nfile k.ptx 9 " ZEROS        \
        "\nfile w.bin 1280 " ZEROS "\nmodule k.ptx\nweights w.bin\narena 2048\ninput x f16 1,100 0 200\noutput y f16 " \
        "1,128 1024 256\nkernel conv 128 0 4\nkernel add 64 0 3\nkernel self 64 0 2\n"
#define LAUNCHES                                                                                              \
        "launch 0 4 1 1 a+0 w+0 a+512 null\nlaunch 0 4 1 1 a+0 w+300 a+768 null\nlaunch 1 2 2 1 a+512 a+768 " \
        "a+1024\nlaunch 2 1 1 1 a+1024 w+1024\n"
#define BUFFERS "buffer 0 200 0 1\nbuffer 512 512 0 2\nbuffer 1024 256 2 3\n"
#define WRITES "x-writes 0 2\nx-writes 1 2\nx-writes 2 0\n"
#define WEIGHTS "x-weight 0 200\nx-weight 256 512\nx-weight 1024 256\n"

static struct sv_why why;

static struct sv_pack *parse(const char *text)
{
        struct sv_pack *pack = NULL;

        cr_assert_eq(sv_pack_parse(text, strlen(text), "pack.txt", &pack, &why), 0, "%s", why.text);
        return pack;
}

static void expect_use(const struct sv_tensors *t, uint32_t launch, uint32_t k, uint32_t tensor, uint32_t access)
{
        const struct sv_bm_use *use = &t->uses[t->launches[launch].first_use + k];

        cr_assert_lt(k, t->launches[launch].n_uses);
        cr_assert(use->tensor == tensor && use->access == access, "launch %u, use %u: tensor %u, access %u", launch, k,
                use->tensor, use->access);
}

Test(serve_tensors, targets_of_launch_parameters)
{
        struct sv_pack *pack = parse(HEAD LAUNCHES BUFFERS WRITES WEIGHTS "end\n");
        const bool bound[] = {true, false, true, false};
        struct sv_tensors t;

        cr_assert_eq(sv_tensors_open(&t, pack, bound, false, &why), 0, "%s", why.text);
        cr_assert_eq(t.model.n_tensors, 6);
        cr_assert(t.list[1].weight && t.list[1].bytes == 512 && !t.list[3].weight && t.list[3].given);
        cr_assert(t.list[4].first == 0 && t.list[4].last == 2 && !t.list[4].given);
        expect_use(&t, 0, 0, 3, SV_READS);
        expect_use(&t, 0, 1, 0, SV_READS);
        expect_use(&t, 0, 2, 4, SV_WRITES);
        expect_use(&t, 1, 1, 1, SV_READS);
        expect_use(&t, 1, 2, 4, SV_WRITES);
        /* this launch has two parameters that are parts of one tensor */
        cr_assert_eq(t.launches[2].n_uses, 2);
        expect_use(&t, 2, 0, 4, SV_READS);
        expect_use(&t, 3, 0, 5, SV_WRITES);
        cr_assert(t.launches[2].memory_bound && !t.launches[3].memory_bound);
        cr_assert_eq(sv_tensors_mask(&t, 2, (enum sv_copy[]){SV_COLOURED, SV_ALL}), 3);
        cr_assert_eq(sv_tensors_mask(&t, 2, (enum sv_copy[]){SV_ALL, SV_COLOURED}), 4);
        sv_tensors_close(&t);
        sv_pack_free(pack);
}

static void check_masks(const struct sv_tensors *t, struct sv_bimodal *b, uint32_t launch, const enum sv_copy *copies)
{
        uint64_t masks[SV_MASKS_MAX], mask = sv_tensors_mask(t, launch, copies);
        uint32_t n = sv_tensors_masks(t, b, launch, masks), k = 0;

        cr_assert_leq(n, SV_MASKS_MAX);
        while (k < n && masks[k] != mask)
                k++;
        cr_assert(!mask || k < n, "launch %u: mask %llx was not foreseen", launch, (unsigned long long)mask);
}

Test(serve_tensors, every_mask_that_comes_up_was_foreseen)
{
        struct sv_pack *pack = parse(HEAD LAUNCHES BUFFERS WRITES WEIGHTS "end\n");
        enum sv_copy copies[SV_PARAMS_MAX];
        struct sv_bimodal *b;
        struct sv_tensors t;

        srand(5);
        for (uint32_t i = 0; i < 64; i++) {
                const bool bound[] = {i & 1, i & 2, i & 4, i & 8};

                cr_assert_eq(sv_tensors_open(&t, pack, bound, i & 16, &why), 0);
                t.launches[i % 4].fixed = i & 32;
                cr_assert_eq(sv_bimodal_new(&t.model, &b), 0);
                for (uint32_t run = 0; run < 30; run++) {
                        (void)sv_bimodal_request(b, rand() & 1 ? SV_COLOCATION : SV_MONOPOLISATION);
                        for (uint32_t k = 0; k < 4; k++) {
                                sv_bimodal_launch(b, rand() & 1 ? SV_COLOCATION : SV_MONOPOLISATION, copies);
                                check_masks(&t, b, k, copies);
                        }
                }
                sv_bimodal_free(b);
                sv_tensors_close(&t);
        }
        sv_pack_free(pack);
}

static void refused(const char *text, const char *words)
{
        struct sv_pack *pack = parse(text);
        const bool bound[4] = {false};
        struct sv_tensors t;

        pack->path = strdup("PACK");
        cr_assert_eq(sv_tensors_open(&t, pack, bound, false, &why), -1);
        cr_assert(strstr(why.text, words), "%s", why.text);
        sv_pack_free(pack);
}

Test(serve_tensors, packs_that_do_not_say_enough)
{
        refused(HEAD LAUNCHES BUFFERS "x-writes 0 2\nx-writes 1 2\n" WEIGHTS "end\n",
                "does not say what kernel self writes");
        refused(HEAD LAUNCHES BUFFERS WRITES "x-weight 0 200\nx-weight 512 100\nend\n",
                "launch 1, parameter 1 points to no");
        refused(HEAD LAUNCHES "buffer 0 200 0 1\nbuffer 512 512 0 1\nbuffer 1024 256 2 3\n" WRITES WEIGHTS "end\n",
                "launch 2, parameter 0 points to no");
        refused(HEAD LAUNCHES BUFFERS WRITES "x-weight 0 200\nx-weight 264 504\nx-weight 1024 256\nend\n",
                "the weight at 264");
}

/* An input exists before the first launch, whenever its buffer begins and whatever else shares the buffer. */
Test(serve_tensors, inputs_are_given)
{
        static const char *const buffers[] = {"buffer 0 200 1 1\n", "buffer 0 1024 0 1\n", "buffer 0 64 1 1\n"};
        static const char launches[] = "launch 2 1 1 1 a+1024 w+1024\nlaunch 2 1 1 1 a+0 w+1024\n";
        const bool bound[2] = {true, true};
        char text[2000];

        for (size_t i = 0; i < DS_ARRAY_SIZE(buffers); i++) {
                struct sv_pack *pack;
                struct sv_tensors t;

                snprintf(text, sizeof(text), "%s%s%sbuffer 1024 256 0 1\n" WRITES WEIGHTS "end\n", HEAD, launches,
                        buffers[i]);
                pack = parse(text);
                cr_assert_eq(sv_tensors_open(&t, pack, bound, false, &why), 0, "%s", why.text);
                cr_expect(t.list[3].given && !t.list[4].given, "%s", buffers[i]);
                sv_tensors_close(&t);
                sv_pack_free(pack);
        }
        /* a tensor that later takes the place of an input is no input */
        snprintf(text, sizeof(text),
                "%s%sbuffer 0 200 0 0\nbuffer 0 200 1 1\nbuffer 1024 256 0 1\n" WRITES WEIGHTS "end\n", HEAD, launches);
        struct sv_pack *pack = parse(text);
        struct sv_tensors t;

        cr_assert_eq(sv_tensors_open(&t, pack, bound, false, &why), 0, "%s", why.text);
        cr_expect(t.list[3].given && !t.list[4].given);
        sv_tensors_close(&t);
        sv_pack_free(pack);
}

/* An output lies in the last buffer that had its bytes, whenever that buffer ended and at any offset in it. */
Test(serve_tensors, where_outputs_are)
{
        static const struct {
                const char *buffers;
                uint32_t tensor; /* expected tensor of output 0; 0: the pack is refused */
        } rows[] = {
                {"buffer 1024 256 0 1\n", 3},
                {"buffer 1024 256 0 0\n", 3},
                {"buffer 768 512 0 0\n", 3},
                {"buffer 1024 256 0 0\nbuffer 1024 512 1 1\n", 4},
                {"buffer 1024 512 1 1\nbuffer 1024 256 0 0\n", 3},
                {"buffer 512 256 0 1\n", SV_TENSOR_NONE},
                {"buffer 1024 128 0 1\n", 0},
        };
        const bool bound[2] = {true, true};
        char text[2000];

        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++) {
                struct sv_pack *pack;
                struct sv_tensors t;

                snprintf(text, sizeof(text),
                        "%slaunch 2 1 1 1 null w+1024\nlaunch 2 1 1 1 null w+0\n%s" WRITES WEIGHTS "end\n", HEAD,
                        rows[i].buffers);
                pack = parse(text);
                cr_assert_eq(sv_tensors_open(&t, pack, bound, false, &why), rows[i].tensor ? 0 : -1, "%s", why.text);
                if (rows[i].tensor)
                        cr_expect_eq(sv_tensors_output(&t, 0), rows[i].tensor, "%s", rows[i].buffers);
                if (rows[i].tensor && rows[i].tensor != SV_TENSOR_NONE)
                        cr_expect_eq(t.list[rows[i].tensor].last, 1, "%s", rows[i].buffers);
                if (!rows[i].tensor)
                        cr_expect(strstr(why.text, "output y"), "%s", why.text);
                sv_tensors_close(&t);
                sv_pack_free(pack);
        }
}

/* Reads a file of memory-bound launches. Returns 0 and the launches, or -1. */
static int bounds_of(const char *text, bool *ret)
{
        struct sv_pack *pack = parse(HEAD LAUNCHES BUFFERS WRITES WEIGHTS "end\n");
        char path[] = "/tmp/detshare-bounds.XXXXXX";
        const int fd = mkstemp(path);
        int r;

        cr_assert_geq(fd, 0);
        cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        close(fd);
        r = sv_bounds_read(pack, path, ret, &why);
        unlink(path);
        sv_pack_free(pack);
        return r;
}

#define ENTRY(kernel, x, y, bound)                                                                 \
        "{\n\"kernel\": \"" kernel "\",\n\"grid_x\": " x ",\n\"grid_y\": " y ",\n\"grid_z\": 1,\n" \
        "\"alone_ns\": 1,\n\"bound\": \"" bound "\"\n}"

Test(serve_tensors, memory_bound_kernels)
{
        bool bound[4];
        struct sv_pack *pack;

        cr_assert_eq(bounds_of("{\"profiles\": [{\"kernel\": \"conv\"}]}\n{\"bounds\": [" ENTRY("conv", "4", "1",
                                       "memory") "," ENTRY("add", "2", "2", "compute") "," ENTRY("self", "2", "1",
                                       "memory") "," ENTRY("other", "1", "1", "memory") "]}",
                             bound),
                0, "%s", why.text);
        cr_assert(bound[0] && bound[1] && !bound[2] && !bound[3], "by name and grid");
        cr_assert_eq(bounds_of("{\"bounds\": [" ENTRY("other", "1", "1", "memory") "]}", bound), -1);
        cr_assert(strstr(why.text, "says of no kernel"));
        cr_assert_eq(bounds_of("{\"bounds\": [{\"kernel\": \"conv\", \"grid_x\": 4", bound), -1);
        cr_assert_eq(bounds_of("", bound), -1);
        pack = parse(HEAD LAUNCHES BUFFERS WRITES WEIGHTS "end\n");
        cr_assert_eq(sv_bounds_read(pack, "/nonexistent/file", bound, &why), -1);
        cr_assert_eq(sv_bounds_read(pack, "all", bound, &why), 0);
        cr_assert(bound[0] && bound[1] && bound[2] && bound[3]);
        sv_pack_free(pack);
}
