/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader of model packs: accepted packs; refusal of each wrong field by its name; the folder: links, pipes,
 * lengths, hashes; allocation failures
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve/cases.h"
#include "serve/pack.h"
#include "util/alloc.h"
#include "util/macro.h"

#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

/* A valid manifest with one string per line, so that a test can replace a line. */
static const char *const good[] = {
        "detshare-pack 1",
        "model tiny",
        "class ls",
        "batch 4",
        "arch sm_80",
        "framework onnxruntime-1.32.0",
        "compiler triton-3.6.0",
        "# a comment",
        "file kernels.ptx 2210 " ZEROS,
        "file weights.bin 512 " ZEROS,
        "file in.bin 64 " ZEROS,
        "file out.bin 128 " ZEROS,
        "module kernels.ptx",
        "weights weights.bin",
        "arena 512",
        "input x f16 1,32 0 64",
        "output y f16 1,32 256 64",
        "kernel pointwise_3f2a 128 0 5",
        "kernel other 1024 232448 4",
        "launch 0 1 2 3 a+0 w+511 a+511 null null",
        "launch 1 2147483647 65535 65535 i32=-2147483648 i64=-9223372036854775808 f32=3F800000 i64=-7",
        "cost 0 32 192",
        "buffer 0 64 0 0",
        "buffer 256 64 0 1",
        "x-later thing",
        "x-writes 0 2",
        "x-writes 1",
        "x-weight 0 100",
        "x-weight 256 256",
        "case 0 input 0 in.bin",
        "case 0 output 0 out.bin 0.001 0.01",
        "end",
};

#define N_GOOD DS_ARRAY_SIZE(good)

static struct sv_why why;

/* Makes the manifest with `line` in place of the line that begins like `old`; NULL: without that line. */
static char *text_with(const char *old, const char *line)
{
        static char text[8192];
        size_t used = 0;
        int found = 0;

        text[0] = 0;
        for (size_t i = 0; i < N_GOOD; i++) {
                const int here = old && !strncmp(good[i], old, strlen(old));

                found |= here;
                if (!here || line)
                        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s\n", here ? line : good[i]);
        }
        cr_assert(!old || found, "%s", old);
        return text;
}

static struct sv_pack *parse(const char *text)
{
        struct sv_pack *pack = NULL;

        why.text[0] = 0;
        return sv_pack_parse(text, strlen(text), "pack.txt", &pack, &why) ? NULL : pack;
}

/* Asserts that the changed manifest is refused, and that the reason contains `words`. */
static void refused(const char *old, const char *line, const char *words)
{
        struct sv_pack *pack = parse(text_with(old, line));

        cr_expect(!pack, "%s is taken", line ? line : old);
        cr_expect(strstr(why.text, words), "%s: said `%s` and not `%s`", line ? line : old, why.text, words);
        sv_pack_free(pack);
}

static void taken(const char *old, const char *line)
{
        struct sv_pack *pack = parse(text_with(old, line));

        cr_expect(pack, "%s: %s", line ? line : old, why.text);
        sv_pack_free(pack);
}

Test(pack, accepted_packs)
{
        struct sv_pack *pack = parse(text_with(NULL, NULL));

        cr_assert(pack, "%s", why.text);
        cr_expect_str_eq(pack->model, "tiny");
        cr_expect_eq(pack->class_, SV_LS);
        cr_expect_eq(pack->batch, 4);
        cr_expect_eq(pack->arch, 80);
        cr_expect_eq(pack->n_files, 4);
        cr_expect_eq(pack->files[pack->weights].bytes, 512);
        cr_expect_eq(pack->inputs[0].n, 32);
        cr_expect_eq(pack->inputs[0].n_dims, 2);
        cr_expect_eq(pack->outputs[0].offset, 256);
        cr_expect_eq(pack->n_kernels, 2);
        cr_expect_eq(pack->kernels[1].shared, 227 * 1024);
        cr_expect_eq(pack->n_params, 9);
        cr_expect_eq(pack->params[1].kind, SV_PARAM_WEIGHTS);
        cr_expect_eq(pack->params[1].value, 511);
        cr_expect_eq(pack->params[3].kind, SV_PARAM_8);
        cr_expect_eq(pack->launches[1].first_param, 5);
        cr_expect_eq(pack->launches[1].grid[0], 2147483647);
        cr_expect_eq((int32_t)pack->params[5].value, INT32_MIN);
        cr_expect_eq((int64_t)pack->params[6].value, INT64_MIN);
        cr_expect_eq(pack->params[7].value, 0x3f800000);
        cr_expect_eq((int64_t)pack->params[8].value, -7);
        cr_expect_eq(pack->launches[0].bytes, 192);
        cr_expect_eq(pack->n_buffers, 2);
        cr_expect(pack->kernels[0].says_writes && pack->kernels[0].writes == 1 << 2);
        cr_expect(pack->kernels[1].says_writes && pack->kernels[1].writes == 0);
        cr_expect_eq(pack->n_weights, 2);
        cr_expect(pack->weights_list[1].offset == 256 && pack->weights_list[1].bytes == 256);
        cr_expect_eq(pack->n_cases, 1);
        cr_expect_float_eq(pack->cases[0].rel[0], 0.01, 1e-12);
        sv_pack_free(pack);
}

Test(pack, each_field_is_checked)
{
        refused("detshare-pack", "detshare-pack 2", "format 2");
        refused("detshare-pack", "detshare 1", "this is no model pack");
        refused("model", "model .tiny", "NAME is a name");
        refused("model", "model a/b", "NAME is a name");
        refused("class", "class lc", "a class is ls or be");
        refused("batch", "batch 0", "N is a number from 1");
        refused("batch", "batch +1", "N is a number from 1");
        refused("arch", "arch sm_", "an architecture is sm_NN");
        refused("arch", "arch 80", "an architecture is sm_NN");
        refused("file in", "file ../x 64 " ZEROS, "FILE is a name");
        refused("file in", "file in.bin 68719476737 " ZEROS, "BYTES is a number");
        refused("file in", "file in.bin 99999999999999999999 " ZEROS, "BYTES is a number");
        refused("file in", "file in.bin 64 0", "SHA256 is 64");
        refused("file in", "file pack.txt 64 " ZEROS, "none of its own");
        refused("file in", "file weights.bin 64 " ZEROS, "weights.bin is named twice");
        refused("module", "module other.ptx", "no line file names other.ptx");
        refused("file kernels", "file kernels.ptx 0 " ZEROS, "a module has 1 to");
        refused("arena", "arena 0", "BYTES is a number from 1");
        refused("arena", "arena 68719476737", "BYTES is a number from 1");
        refused("arena", "arena 319", "it ends behind the arena, which has 319 bytes");
}

Test(pack, tensors_are_checked)
{
        refused("input", "input x f64 1,32 0 64", "TYPE: there is no f64");
        refused("input", "input x f16 1,32 0 63", "are 64 bytes, not 63");
        refused("input", "input x f16 1,0 0 64", "SHAPE: 1,0 is no shape");
        refused("input", "input x f16 1,,32 0 64", "SHAPE: 1,,32 is no shape");
        refused("input", "input x f16 4294967296,4294967296 0 64", "SHAPE:");
        refused("input", "input x f16 1,1,1,1,1,1,1,1,32 0 64", "more than 8 dimensions");
        refused("input", "input x f16 1,32 128 64", "OFFSET: 128 is no multiple");
        refused("input", "input x f16 1,32 512 64", "OFFSET is a number from 0 to 511");
        refused("input", "input x f16 1,129 256 258", "it ends behind the arena");
        refused("output", "output y i32 16 256 64", "an output is f16 or f32");
        refused("input", "input x f16 1,32 0 64\ninput z u8 64 0 64", "the inputs x and z share bytes");
        refused("input", "input x f16 1,32 0 64\ninput z u8 64 256 64", "case 0 lacks an input");
}

Test(pack, kernels_and_launches_are_checked)
{
        refused("kernel other", "kernel other 1025 0 4", "THREADS is a number from 1 to 1024");
        refused("kernel other", "kernel other 0 0 4", "THREADS");
        refused("kernel other", "kernel other 32 232449 4", "SHARED is a number from 0 to 232448");
        refused("kernel other", "kernel other 32 0 65", "PARAMS is a number from 0 to 64");
        refused("launch 0", "launch 2 1 1 1 a+0 w+0 a+0 null null", "KERNEL is a number from 0 to 1");
        refused("launch 0", "launch 0 0 1 1 a+0 w+0 a+0 null null", "GX is a number from 1");
        refused("launch 0", "launch 0 1 65536 1 a+0 w+0 a+0 null null", "GY is a number from 1 to 65535");
        refused("launch 0", "launch 0 1 1 65536 a+0 w+0 a+0 null null", "GZ is a number");
        refused("launch 0", "launch 0 1 1 1 a+0 w+0 a+0 null", "has 5 parameters, the launch 4");
        refused("launch 0", "launch 0 1 1 1 a+512 w+0 a+0 null null", "PARAM a+512: no offset into the arena");
        refused("launch 0", "launch 0 1 1 1 a+0 w+512 a+0 null null", "PARAM w+512: no offset into the weights");
        refused("launch 0", "launch 0 1 1 1 a+-1 w+0 a+0 null null", "PARAM a+-1");
        refused("launch 0", "launch 0 1 1 1 i32=2147483648 w+0 a+0 null null", "no number of 32 bits");
        refused("launch 0", "launch 0 1 1 1 i32=-2147483649 w+0 a+0 null null", "no number of 32 bits");
        refused("launch 0", "launch 0 1 1 1 i64=9223372036854775808 w+0 a+0 null null", "no number of 64 bits");
        refused("launch 0", "launch 0 1 1 1 f32=3f8 w+0 a+0 null null", "8 hexadecimal digits");
        refused("launch 0", "launch 0 1 1 1 nil w+0 a+0 null null", "PARAM: nil is none");
        refused("x-writes 0", "x-writes 2 0", "KERNEL is a number from 0 to 1");
        refused("x-writes 0", "x-writes 0 5", "PARAM: the kernel has 5");
        refused("x-writes 0", "x-writes 1 1", "has said what it writes already");
        refused("x-weight 0", "x-weight 0 0", "BYTES is a number from 1 to 512");
        refused("x-weight 0", "x-weight 500 13", "the weights have 512 bytes");
        refused("x-weight 0", "x-weight 0 257", "before the end of the weight before");
        refused("cost", "cost 2 1 1", "LAUNCH is a number from 0 to 1");
        refused("cost", "cost 0 1 1\ncost 0 1 1", "launch 0 has its cost already");
}

Test(pack, the_plan_is_checked)
{
        refused("buffer 0", "buffer 0 64 1 0", "LAST is a number from 1");
        refused("buffer 0", "buffer 0 64 0 2", "LAST is a number from 0 to 1");
        refused("buffer 0", "buffer 0 0 0 0", "BYTES is a number from 1");
        refused("buffer 0", "buffer 0 257 0 0", "the buffers at 0 and 256 share bytes of the arena");
        refused("buffer 0", "buffer 0 512 1 1", "both are in use in launch 1");
        refused("buffer 256", "buffer 256 64 0 0\nbuffer 0 256 0 0", "share bytes");
        taken("buffer 256", "buffer 256 64 0 0\nbuffer 0 512 1 1");
        taken("buffer 0", "buffer 0 256 0 1");
}

/* Checks the plan by comparing every buffer with every other. */
static bool plan_is_right(const struct sv_pack *pack)
{
        for (uint32_t i = 0; i < pack->n_buffers; i++)
                for (uint32_t k = 0; k < i; k++) {
                        const struct sv_buffer *a = &pack->buffers[i], *b = &pack->buffers[k];

                        if (a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes &&
                                a->first <= b->last && b->first <= a->last)
                                return false;
                }
        return true;
}

Test(pack, plans_at_random)
{
        struct sv_buffer buffers[12];
        struct sv_pack pack = {.buffers = buffers};
        unsigned right = 0, wrong = 0;

        srand(1);
        for (int i = 0; i < 20000; i++) {
                pack.n_buffers = (uint32_t)rand() % 12 + 1;
                for (uint32_t k = 0; k < pack.n_buffers; k++) {
                        buffers[k].offset = 256 * ((uint64_t)rand() % 12);
                        buffers[k].bytes = 1 + (uint64_t)rand() % 600;
                        buffers[k].first = (uint32_t)rand() % 30;
                        buffers[k].last = buffers[k].first + (uint32_t)rand() % 4;
                }
                cr_assert_eq(sv_pack_whole(&pack, "plan", &why) == 0, plan_is_right(&pack), "plan %d", i);
                right += plan_is_right(&pack);
                wrong += !plan_is_right(&pack);
        }
        cr_expect(right > 2000 && wrong > 2000, "%u right, %u wrong", right, wrong);
}

/* The largest number of buffers: each begins in a launch of its own, and none ends. */
Test(pack, the_largest_plan)
{
        struct sv_buffer *buffers = ds_alloc0(SV_BUFFERS_MAX, sizeof(*buffers));
        struct sv_pack pack = {.buffers = buffers, .n_buffers = SV_BUFFERS_MAX};

        for (uint32_t i = 0; i < SV_BUFFERS_MAX; i++)
                buffers[i] = (struct sv_buffer){.offset = 256 * (uint64_t)(SV_BUFFERS_MAX - i),
                        .bytes = 256,
                        .first = i,
                        .last = SV_BUFFERS_MAX};
        cr_expect_eq(sv_pack_whole(&pack, "plan", &why), 0, "%s", why.text);
        buffers[SV_BUFFERS_MAX / 2].bytes++;
        cr_expect_lt(sv_pack_whole(&pack, "plan", &why), 0);
        cr_expect(strstr(why.text, "share bytes of the arena"), "%s", why.text);
        ds_free(buffers);
}

Test(pack, cases_are_checked)
{
        refused("case 0 input", NULL, "case 0 lacks an input or an output");
        refused("case 0 output", NULL, "case 0 lacks an input or an output");
        refused("case 0 input", "case 1 input 0 in.bin", "case 0 lacks");
        refused("case 0 input", "case 16 input 0 in.bin", "N is a number from 0 to 15");
        refused("case 0 input", "case 0 input 1 in.bin", "I is a number from 0 to 0");
        refused("case 0 input", "case 0 input 0 out.bin", "out.bin has 128 bytes where 64 belong");
        refused("case 0 input", "case 0 input 0 in.bin\ncase 0 input 0 in.bin", "it is given twice");
        refused("case 0 input", "case 0 thing 0 in.bin", "it is: case N input I FILE");
        refused("case 0 output", "case 0 output 0 in.bin 0 0", "in.bin has 64 bytes where 128 belong");
        refused("case 0 output", "case 0 output 0 out.bin 0.1", "it is: case N output");
        refused("case 0 output", "case 0 output 0 out.bin 1e-3 0", "ABS is a decimal fraction");
        refused("case 0 output", "case 0 output 0 out.bin 0 -1", "REL is a decimal fraction");
        refused("case 0 output", "case 0 output 0 out.bin 0 nan", "REL is a decimal fraction");
        refused("case 0 output", "case 0 output 0 out.bin 0 1.", "REL is a decimal fraction");
        taken("case 0 output", "case 0 output 0 out.bin 0 1");
}

Test(pack, order_and_form_are_checked)
{
        refused("class", NULL, "there is no line class before");
        refused("class", "class ls\nclass ls", "there is more than one");
        refused("class", "class ls\nmodel tiny", "it comes too late");
        refused("cost", "colour blue", "there is no such line");
        refused("cost", "cost 0  1 1", "exactly one space");
        refused("cost", "cost 0 1 1 ", "exactly one space");
        refused("cost", "cost 0 1", "there are 3 words, which is too few");
        refused("cost", "cost 0 1 1 1", "there are 5 words, which is too many");
        refused("cost", "cost\t0 1 1", "byte 5 is not printable");
        refused("end", NULL, "the last line is not `end`");
        refused("end", "end\nend", "something follows");
        refused("end", "end\n# too late", "something follows");
        refused("detshare-pack", "# first\ndetshare-pack 1", "this is no model pack");
        refused("detshare-pack", "\ndetshare-pack 1", "line 1");
        taken("cost", NULL);
        taken("buffer", NULL);
        taken("case", NULL);
        taken("cost", "");
        cr_expect_not(parse(""));
        cr_expect_not(parse("detshare-pack 1"));
        cr_expect(strstr(why.text, "the line does not end"));
}

Test(pack, long_lines_and_many_words)
{
        char line[SV_LINE_MAX + 200];

        memset(line, 'a', sizeof(line));
        memcpy(line, "# ", 2);
        line[SV_LINE_MAX] = 0;
        taken("# a", line);
        line[SV_LINE_MAX] = 'a';
        line[SV_LINE_MAX + 1] = 0;
        refused("# a", line, "at most 4096 bytes");
        for (size_t i = 0; i < 400; i++)
                line[i] = i % 2 ? ' ' : '1';
        line[399] = 0;
        refused("cost", line, "more than 70 words");
}

/* A reason names the file and is one printable line, whatever the file contains. */
Test(pack, a_reason_is_one_printable_line)
{
        char line[] = "model \x1b[31m";

        refused("model", line, "pack.txt, line 2: byte 7 is not printable");
        for (const char *c = why.text; *c; c++)
                cr_assert(*c >= ' ' && *c <= '~');
}

/* --- folders ------------------------------------------------------------------------------------------------------ */

static char folder[64];

static void put(const char *name, const void *bytes, size_t size)
{
        char path[128];
        FILE *file;

        (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
        (void)unlink(path);
        file = fopen(path, "we");
        cr_assert(file && fwrite(bytes, 1, size, file) == size);
        cr_assert_eq(fclose(file), 0);
}

static void hash_of(const void *bytes, size_t size, char ret[static 65])
{
        uint8_t sha256[DS_SHA256_BYTES];
        struct ds_sha256 sum;

        ds_sha256_begin(&sum);
        ds_sha256_add(&sum, bytes, size);
        ds_sha256_end(&sum, sha256);
        for (size_t i = 0; i < sizeof(sha256); i++)
                (void)snprintf(ret + 2 * i, 3, "%02x", sha256[i]);
}

static const float wanted[4] = {1, -2, 0, 1000};

static void make_folder(void)
{
        char text[2048], ptx[65], weights[65], in[65], out[65];

        strcpy(folder, "/tmp/ds-test-pack-XXXXXX");
        cr_assert(mkdtemp(folder));
        put("k.ptx", "text", 4);
        put("w.bin", "weights", 7);
        put("in.bin", "input...", 8);
        put("out.bin", wanted, sizeof(wanted));
        hash_of("text", 4, ptx);
        hash_of("weights", 7, weights);
        hash_of("input...", 8, in);
        hash_of(wanted, sizeof(wanted), out);
        (void)snprintf(text, sizeof(text),
                "detshare-pack 1\nmodel m\nclass be\nbatch 1\narch sm_75\nframework f\ncompiler c\nfile k.ptx 4 %s\n"
                "file w.bin 7 %s\nfile in.bin 8 %s\nfile out.bin 16 %s\nmodule k.ptx\nweights w.bin\narena 4096\n"
                "input x u8 8 0 8\noutput y f16 4 256 8\nkernel k 1 0 0\nlaunch 0 1 1 1\ncase 0 input 0 in.bin\n"
                "case 0 output 0 out.bin 0.5 0.01\nend\n",
                ptx, weights, in, out);
        put("pack.txt", text, strlen(text));
}

static void remove_folder(void)
{
        DIR *directory = opendir(folder);
        struct dirent *entry;

        while (directory && (entry = readdir(directory)))
                (void)unlinkat(dirfd(directory), entry->d_name, 0);
        (void)closedir(directory);
        (void)rmdir(folder);
}

static struct sv_pack *open_folder(void)
{
        struct sv_pack *pack = NULL;

        return sv_pack_open(folder, &pack, &why) ? NULL : pack;
}

static void not_opened(const char *words)
{
        struct sv_pack *pack = open_folder();

        cr_expect(!pack && strstr(why.text, words), "`%s`, not `%s`", why.text, words);
        sv_pack_free(pack);
}

TestSuite(folder, .init = make_folder, .fini = remove_folder, .timeout = 30);

Test(folder, is_opened_and_its_bytes_are_checked)
{
        struct sv_pack *pack = open_folder();
        uint8_t *bytes = NULL;

        cr_assert(pack, "%s", why.text);
        cr_expect_eq(sv_pack_verify(pack, &why), 0, "%s", why.text);
        cr_assert_eq(sv_pack_load(pack, pack->weights, &bytes, &why), 0);
        cr_expect_str_eq((char *)bytes, "weights");
        ds_free(bytes);
        put("w.bin", "Weights", 7);
        cr_expect_lt(sv_pack_load(pack, pack->weights, &bytes, &why), 0);
        cr_expect(strstr(why.text, "w.bin is not what pack.txt says"), "%s", why.text);
        cr_expect_lt(sv_pack_verify(pack, &why), 0);
        pack->trusted = 1;
        cr_expect_eq(sv_pack_verify(pack, &why), 0, "%s", why.text);
        put("w.bin", "W", 1);
        cr_expect_lt(sv_pack_verify(pack, &why), 0);
        cr_expect(strstr(why.text, "became shorter"), "%s", why.text);
        sv_pack_free(pack);
}

Test(folder, files_are_there_with_their_lengths)
{
        char path[128];

        put("w.bin", "weights!", 8);
        not_opened("w.bin has 8 bytes, and pack.txt says 7");
        put("w.bin", "weights", 7);
        (void)snprintf(path, sizeof(path), "%s/in.bin", folder);
        cr_assert_eq(unlink(path), 0);
        not_opened("in.bin: No such file");
        cr_assert_eq(symlink("/etc/passwd", path), 0);
        not_opened("in.bin: a link");
        cr_assert_eq(unlink(path), 0);
        cr_assert_eq(mkfifo(path, 0600), 0);
        not_opened("in.bin is no regular file");
}

Test(folder, a_pack_is_a_folder_with_a_manifest)
{
        struct sv_pack *pack = NULL;
        char path[128];

        (void)snprintf(path, sizeof(path), "%s/pack.txt", folder);
        cr_expect_lt(sv_pack_open(path, &pack, &why), 0);
        cr_expect(strstr(why.text, "a pack is a folder"), "%s", why.text);
        cr_assert_eq(unlink(path), 0);
        not_opened("pack.txt: No such file");
        cr_assert_eq(mkfifo(path, 0600), 0);
        not_opened("pack.txt is no regular file");
}

Test(folder, nothing_is_lost_when_memory_is_short)
{
        int64_t n = 0;

        for (int done = 0; !done; n++) {
                struct sv_pack *pack;

                ds_alloc_fail_after(n);
                pack = open_folder();
                done = pack && sv_pack_verify(pack, &why) == 0;
                ds_alloc_fail_after(-1);
                cr_assert(done || strstr(why.text, "out of memory"), "%ld: %s", (long)n, why.text);
                sv_pack_free(pack);
        }
        cr_assert_gt(n, 8);
}

/* --- expected outputs --------------------------------------------------------------------------------------------- */

static struct sv_verdict judge(struct sv_pack *pack, const uint16_t got[4])
{
        struct sv_cases cases;
        struct sv_verdict verdict;

        cr_assert_eq(sv_cases_open(&cases, pack, &why), 0, "%s", why.text);
        cases.first[0] = ds_alloc(8);
        memcpy(cases.first[0], got, 8);
        cr_assert_eq(sv_cases_judge(&cases, 0, &verdict, &why), 0, "%s", why.text);
        sv_cases_close(&cases);
        return verdict;
}

/* The permitted differences of the four elements are 0.5 + 0.01 * |want|: 0.51, 0.52, 0.5, 10.5 */
Test(folder, outputs_are_judged_element_by_element)
{
        static const uint16_t exact[4] = {0x3c00, 0xc000, 0x8000, 0x63d0}; /* halves 1, -2, -0, 1000 */
        static const uint16_t near[4] = {0x3e00, 0xc000, 0x3800, 0x63e5};  /* halves 1.5, -2, 0.5, 1010.5 */
        static const uint16_t off[4] = {0x3e00, 0xc200, 0x3800, 0x63e6};   /* halves 1.5, -3, 0.5, 1011 */
        static const uint16_t nan[4] = {0x7e00, 0xc000, 0x7c00, 0x63d0};   /* halves NaN, -2, infinity, 1000 */
        struct sv_pack *pack = open_folder();
        struct sv_verdict v = judge(pack, exact);

        cr_expect(v.n == 4 && v.wrong == 0 && v.worst == 0);
        v = judge(pack, near);
        cr_expect_eq(v.wrong, 0);
        cr_expect(v.worst == 1 && v.element == 2, "%g of %llu", v.worst, (unsigned long long)v.element);
        v = judge(pack, off);
        cr_expect_eq(v.wrong, 2);
        cr_expect(v.element == 1 && v.got == -3 && v.want == -2);
        v = judge(pack, nan);
        cr_expect_eq(v.wrong, 2);
        sv_pack_free(pack);
}
