/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manifest, line by line
 *
 * The table has one row per first word, in the order of the lines. That order lets each line be checked when it is
 * read, because everything that it refers to comes before it.
 */
#include "serve/pack.h"

#include <stdio.h>
#include <string.h>

#include "util/alloc.h"
#include "util/macro.h"

static const struct {
        const char *name;
        uint32_t bytes;
} types[] = {
        [SV_F16] = {"f16", 2},
        [SV_F32] = {"f32", 4},
        [SV_I32] = {"i32", 4},
        [SV_I64] = {"i64", 8},
        [SV_U8] = {"u8", 1},
};

enum { ROOM_KERNELS, ROOM_LAUNCHES, ROOM_PARAMS, ROOM_BUFFERS, ROOM_WEIGHTS };

const char *sv_type_name(enum sv_type type)
{
        return types[type].name;
}

uint32_t sv_type_bytes(enum sv_type type)
{
        return types[type].bytes;
}

/* Makes room for one more element of a list; NULL with the reason. */
static void *one_more(
        struct sv_reader *reader, int which, void **list, uint32_t *n, size_t size, uint32_t most, const char *what)
{
        uint32_t *room = &reader->rooms[which];

        if (*n == most) {
                (void)sv_wrong(reader, "there are more than %u %s", most, what);
                return NULL;
        }
        if (*n == *room) {
                uint32_t more = *room ? 2 * *room : 64;
                void *p = ds_realloc(*list, more, size);

                if (!p) {
                        (void)sv_wrong(reader, "out of memory");
                        return NULL;
                }
                *list = p;
                *room = more;
        }
        memset((char *)*list + (size_t)*n * size, 0, size);
        return (char *)*list + (size_t)(*n)++ * size;
}

/* --- one line each ----------------------------------------------------------------------------------------------- */

static int read_version(struct sv_reader *reader)
{
        uint64_t version;

        if (sv_digits(reader->words[1], UINT32_MAX, &version) || version != SV_PACK_VERSION)
                return sv_wrong(reader, "this is a pack of format %.32s, and only %u can be read", reader->words[1],
                        SV_PACK_VERSION);
        return 0;
}

static int read_model(struct sv_reader *reader)
{
        return sv_name(reader, 1, "NAME", reader->pack->model);
}

static int read_class(struct sv_reader *reader)
{
        if (strcmp(reader->words[1], "ls") != 0 && strcmp(reader->words[1], "be") != 0)
                return sv_wrong(reader, "a class is ls or be, not %.64s", reader->words[1]);
        reader->pack->class_ = reader->words[1][0] == 'l' ? SV_LS : SV_BE;
        return 0;
}

static int read_batch(struct sv_reader *reader)
{
        return sv_number(reader, 1, "N", 1, UINT32_MAX, &reader->pack->batch);
}

static int read_arch(struct sv_reader *reader)
{
        uint64_t arch;

        if (strncmp(reader->words[1], "sm_", 3) != 0 || sv_digits(reader->words[1] + 3, 999, &arch) || arch < 10)
                return sv_wrong(reader, "an architecture is sm_NN, not %.64s", reader->words[1]);
        reader->pack->arch = (uint32_t)arch;
        return 0;
}

static int read_framework(struct sv_reader *reader)
{
        return sv_name(reader, 1, "NAME", reader->pack->framework);
}

static int read_compiler(struct sv_reader *reader)
{
        return sv_name(reader, 1, "NAME", reader->pack->compiler);
}

/* Number of a file that an earlier line named; -1 with the reason. */
static int find_file(struct sv_reader *reader, uint32_t i, uint32_t *ret)
{
        struct sv_pack *pack = reader->pack;

        for (uint32_t k = 0; k < pack->n_files; k++) {
                if (strcmp(pack->files[k].name, reader->words[i]) != 0)
                        continue;
                *ret = k;
                return 0;
        }
        return sv_wrong(reader, "no line file names %.160s", reader->words[i]);
}

static int read_file(struct sv_reader *reader)
{
        struct sv_pack *pack = reader->pack;
        struct sv_file *file = &pack->files[pack->n_files];

        if (pack->n_files == SV_FILES_MAX)
                return sv_wrong(reader, "there are more than %u files", SV_FILES_MAX);
        if (sv_name(reader, 1, "FILE", file->name) || sv_number(reader, 2, "BYTES", 0, SV_BLOCK_MAX, &file->bytes) ||
                sv_hash(reader, 3, "SHA256", file->sha256))
                return -1;
        if (!strcmp(file->name, SV_MANIFEST))
                return sv_wrong(reader, "the manifest is none of its own files");
        for (uint32_t i = 0; i < pack->n_files; i++)
                if (!strcmp(pack->files[i].name, file->name))
                        return sv_wrong(reader, "%s is named twice", file->name);
        pack->n_files++;
        return 0;
}

static int read_module(struct sv_reader *reader)
{
        struct sv_pack *pack = reader->pack;

        if (find_file(reader, 1, &pack->module))
                return -1;
        if (!pack->files[pack->module].bytes || pack->files[pack->module].bytes > SV_MODULE_MAX)
                return sv_wrong(reader, "a module has 1 to %llu bytes", (unsigned long long)SV_MODULE_MAX);
        return 0;
}

static int read_weights(struct sv_reader *reader)
{
        return find_file(reader, 1, &reader->pack->weights);
}

static int read_arena(struct sv_reader *reader)
{
        return sv_number(reader, 1, "BYTES", 1, SV_BLOCK_MAX, &reader->pack->arena);
}

/* Parses "2,3,4" into dimensions; their product times the type's size must equal BYTES. */
static int read_shape(struct sv_reader *reader, const char *shape, struct sv_tensor *tensor)
{
        char text[SV_LINE_MAX + 1], *rest = text, *word;

        memcpy(text, shape, strlen(shape) + 1);
        tensor->n = 1;
        while ((word = strsep(&rest, ","))) {
                uint64_t *dim = &tensor->dims[tensor->n_dims];

                if (tensor->n_dims == SV_DIMS_MAX)
                        return sv_wrong(reader, "SHAPE: there are more than %u dimensions", SV_DIMS_MAX);
                if (sv_digits(word, SV_BLOCK_MAX, dim) || !*dim ||
                        __builtin_mul_overflow(tensor->n, *dim, &tensor->n) || tensor->n > SV_BLOCK_MAX)
                        return sv_wrong(reader, "SHAPE: %.64s is no shape of a tensor", shape);
                tensor->n_dims++;
        }
        return 0;
}

static int read_place(struct sv_reader *reader, uint32_t i, uint64_t *offset, uint64_t *bytes)
{
        const uint64_t arena = reader->pack->arena;

        if (sv_number(reader, i, "OFFSET", 0, arena - 1, offset) || sv_number(reader, i + 1, "BYTES", 1, arena, bytes))
                return -1;
        if (*offset % SV_ALIGN)
                return sv_wrong(reader, "OFFSET: %llu is no multiple of %u", (unsigned long long)*offset, SV_ALIGN);
        if (*bytes > arena - *offset)
                return sv_wrong(reader, "OFFSET + BYTES: it ends behind the arena, which has %llu bytes",
                        (unsigned long long)arena);
        return 0;
}

static int read_tensor(struct sv_reader *reader, struct sv_tensor *list, uint32_t *n, uint32_t most)
{
        struct sv_tensor *tensor = &list[*n];
        uint32_t type = 0;

        if (*n == most)
                return sv_wrong(reader, "there are more than %u", most);
        *tensor = (struct sv_tensor){.n_dims = 0};
        if (sv_name(reader, 1, "NAME", tensor->name))
                return -1;
        while (type < DS_ARRAY_SIZE(types) && strcmp(types[type].name, reader->words[2]) != 0)
                type++;
        if (type == DS_ARRAY_SIZE(types))
                return sv_wrong(reader, "TYPE: there is no %.64s", reader->words[2]);
        tensor->type = type;
        if (read_shape(reader, reader->words[3], tensor) || read_place(reader, 4, &tensor->offset, &tensor->bytes))
                return -1;
        if (tensor->n * types[type].bytes != tensor->bytes)
                return sv_wrong(reader, "BYTES: %.64s of %s are %llu bytes, not %s", reader->words[3], types[type].name,
                        (unsigned long long)tensor->n * types[type].bytes, reader->words[5]);
        (*n)++;
        return 0;
}

static int read_input(struct sv_reader *reader)
{
        return read_tensor(reader, reader->pack->inputs, &reader->pack->n_inputs, SV_INPUTS_MAX);
}

static int read_output(struct sv_reader *reader)
{
        struct sv_pack *pack = reader->pack;

        if (read_tensor(reader, pack->outputs, &pack->n_outputs, SV_OUTPUTS_MAX))
                return -1;
        if (pack->outputs[pack->n_outputs - 1].type > SV_F32)
                return sv_wrong(reader, "TYPE: an output is f16 or f32, not %.64s", reader->words[2]);
        return 0;
}

static int read_kernel(struct sv_reader *reader)
{
        struct sv_pack *pack = reader->pack;
        struct sv_kernel *kernel = one_more(reader, ROOM_KERNELS, (void **)&pack->kernels, &pack->n_kernels,
                sizeof(*pack->kernels), SV_KERNELS_MAX, "kernels");
        uint64_t threads, shared, params;

        if (!kernel || sv_name(reader, 1, "NAME", kernel->name) ||
                sv_number(reader, 2, "THREADS", 1, SV_THREADS_MAX, &threads) ||
                sv_number(reader, 3, "SHARED", 0, SV_SHARED_MAX, &shared) ||
                sv_number(reader, 4, "PARAMS", 0, SV_PARAMS_MAX, &params))
                return -1;
        kernel->threads = (uint32_t)threads;
        kernel->shared = (uint32_t)shared;
        kernel->n_params = (uint32_t)params;
        return 0;
}

static int read_address(struct sv_reader *reader, const char *word, uint64_t size, struct sv_param *param)
{
        param->kind = word[0] == 'a' ? SV_PARAM_ARENA : SV_PARAM_WEIGHTS;
        if (!size || sv_digits(word + 2, size - 1, &param->value))
                return sv_wrong(reader, "PARAM %.64s: no offset into the %s, which %s %llu bytes", word,
                        word[0] == 'a' ? "arena" : "weights", word[0] == 'a' ? "has" : "have",
                        (unsigned long long)size);
        return 0;
}

/* i32=N, i64=N: a negative number may have a magnitude one larger. */
static int read_integer(struct sv_reader *reader, const char *word, struct sv_param *param)
{
        int wide = word[1] == '6', negative = word[4] == '-';
        uint64_t most = wide ? (uint64_t)INT64_MAX : (uint64_t)INT32_MAX, value;

        if (sv_digits(word + 4 + negative, most + (uint64_t)negative, &value))
                return sv_wrong(reader, "PARAM %.64s: no number of %d bits", word, wide ? 64 : 32);
        param->kind = wide ? SV_PARAM_8 : SV_PARAM_4;
        param->value = negative ? 0 - value : value;
        return 0;
}

static int read_float(struct sv_reader *reader, const char *word, struct sv_param *param)
{
        const char *digits = word + 4;

        if (strlen(digits) != 8 || strspn(digits, "0123456789abcdefABCDEF") != 8)
                return sv_wrong(reader, "PARAM %.64s: a float is 8 hexadecimal digits", word);
        param->kind = SV_PARAM_4;
        for (; *digits; digits++)
                param->value =
                        param->value << 4 | (uint64_t)(*digits <= '9' ? *digits - '0' : (*digits | 32) - 'a' + 10);
        return 0;
}

static int read_param(struct sv_reader *reader, const char *word, struct sv_param *param)
{
        struct sv_pack *pack = reader->pack;

        if (!strncmp(word, "a+", 2))
                return read_address(reader, word, pack->arena, param);
        if (!strncmp(word, "w+", 2))
                return read_address(reader, word, pack->files[pack->weights].bytes, param);
        if (!strncmp(word, "i32=", 4) || !strncmp(word, "i64=", 4))
                return read_integer(reader, word, param);
        if (!strncmp(word, "f32=", 4))
                return read_float(reader, word, param);
        param->kind = SV_PARAM_8;
        return strcmp(word, "null") ? sv_wrong(reader, "PARAM: %.64s is none", word) : 0;
}

static int read_params(struct sv_reader *reader, uint32_t n)
{
        struct sv_pack *pack = reader->pack;

        if (reader->n_words - 5 != n)
                return sv_wrong(reader, "the kernel has %u parameters, the launch %u", n, reader->n_words - 5);
        for (uint32_t i = 0; i < n; i++) {
                struct sv_param *param = one_more(reader, ROOM_PARAMS, (void **)&pack->params, &pack->n_params,
                        sizeof(*pack->params), SV_LAUNCHES_MAX * SV_PARAMS_MAX, "parameters");

                if (!param || read_param(reader, reader->words[5 + i], param))
                        return -1;
        }
        return 0;
}

static int read_launch(struct sv_reader *reader)
{
        struct sv_pack *pack = reader->pack;
        struct sv_launch *launch = one_more(reader, ROOM_LAUNCHES, (void **)&pack->launches, &pack->n_launches,
                sizeof(*pack->launches), SV_LAUNCHES_MAX, "launches");
        uint64_t kernel, x, y, z;

        if (!launch || sv_number(reader, 1, "KERNEL", 0, pack->n_kernels - 1, &kernel) ||
                sv_number(reader, 2, "GX", 1, INT32_MAX, &x) || sv_number(reader, 3, "GY", 1, UINT16_MAX, &y) ||
                sv_number(reader, 4, "GZ", 1, UINT16_MAX, &z))
                return -1;
        launch->kernel = (uint32_t)kernel;
        launch->grid[0] = (uint32_t)x;
        launch->grid[1] = (uint32_t)y;
        launch->grid[2] = (uint32_t)z;
        launch->first_param = pack->n_params;
        return read_params(reader, pack->kernels[kernel].n_params);
}

static int read_cost(struct sv_reader *reader)
{
        struct sv_pack *pack = reader->pack;
        struct sv_launch *launch;
        uint64_t i, flops, bytes;

        if (sv_number(reader, 1, "LAUNCH", 0, pack->n_launches - 1, &i) ||
                sv_number(reader, 2, "FLOPS", 0, UINT64_MAX, &flops) ||
                sv_number(reader, 3, "BYTES", 0, UINT64_MAX, &bytes))
                return -1;
        launch = &pack->launches[i];
        if (launch->has_cost)
                return sv_wrong(reader, "launch %llu has its cost already", (unsigned long long)i);
        launch->has_cost = 1;
        launch->flops = flops;
        launch->bytes = bytes;
        return 0;
}

static int read_buffer(struct sv_reader *reader)
{
        struct sv_pack *pack = reader->pack;
        struct sv_buffer *buffer = one_more(reader, ROOM_BUFFERS, (void **)&pack->buffers, &pack->n_buffers,
                sizeof(*pack->buffers), SV_BUFFERS_MAX, "buffers");
        uint64_t first, last;

        if (!buffer || read_place(reader, 1, &buffer->offset, &buffer->bytes) ||
                sv_number(reader, 3, "FIRST", 0, pack->n_launches - 1, &first) ||
                sv_number(reader, 4, "LAST", first, pack->n_launches - 1, &last))
                return -1;
        buffer->first = (uint32_t)first;
        buffer->last = (uint32_t)last;
        return 0;
}

/* x-writes KERNEL PARAM...: the parameters through which the kernel writes; it only reads through the others */
static int read_writes(struct sv_reader *reader)
{
        struct sv_pack *pack = reader->pack;
        struct sv_kernel *kernel;
        uint64_t value;

        if (sv_number(reader, 1, "KERNEL", 0, pack->n_kernels - 1, &value))
                return -1;
        kernel = &pack->kernels[value];
        if (kernel->says_writes)
                return sv_wrong(reader, "kernel %llu has said what it writes already", (unsigned long long)value);
        kernel->says_writes = true;
        for (uint32_t i = 2; i < reader->n_words; i++) {
                if (!kernel->n_params || sv_number(reader, i, "PARAM", 0, kernel->n_params - 1, &value))
                        return sv_wrong(reader, "PARAM: the kernel has %u", kernel->n_params);
                kernel->writes |= UINT64_C(1) << value;
        }
        return 0;
}

static int read_weight(struct sv_reader *reader)
{
        struct sv_pack *pack = reader->pack;
        struct sv_weight *weight = one_more(reader, ROOM_WEIGHTS, (void **)&pack->weights_list, &pack->n_weights,
                sizeof(*pack->weights_list), SV_WEIGHTS_MAX, "weights");
        const uint64_t all = pack->files[pack->weights].bytes;

        if (!weight || sv_number(reader, 1, "OFFSET", 0, all, &weight->offset) ||
                sv_number(reader, 2, "BYTES", 1, all, &weight->bytes))
                return -1;
        if (weight->bytes > all - weight->offset)
                return sv_wrong(reader, "OFFSET + BYTES: the weights have %llu bytes", (unsigned long long)all);
        if (pack->n_weights > 1 && weight->offset < weight[-1].offset + weight[-1].bytes)
                return sv_wrong(reader, "OFFSET: it lies before the end of the weight before");
        return 0;
}

/* File of input or output `i` of a case, which must have this many bytes. */
static int read_case_file(struct sv_reader *reader, uint32_t i, uint64_t bytes, uint32_t *has, uint32_t *file)
{
        if (*has >> i & 1)
                return sv_wrong(reader, "it is given twice");
        if (find_file(reader, 4, file))
                return -1;
        if (reader->pack->files[*file].bytes != bytes)
                return sv_wrong(reader, "%s has %llu bytes where %llu belong", reader->words[4],
                        (unsigned long long)reader->pack->files[*file].bytes, (unsigned long long)bytes);
        *has |= 1u << i;
        return 0;
}

static int read_case_output(struct sv_reader *reader, struct sv_case *c)
{
        struct sv_pack *pack = reader->pack;
        uint64_t i;

        if (reader->n_words != 7)
                return sv_wrong(reader, "it is: case N output I FILE ABS REL");
        if (sv_number(reader, 3, "I", 0, pack->n_outputs - 1, &i) ||
                read_case_file(reader, (uint32_t)i, pack->outputs[i].n * sizeof(float), &c->has_output, &c->output[i]))
                return -1;
        return sv_fraction(reader, 5, "ABS", &c->abs[i]) || sv_fraction(reader, 6, "REL", &c->rel[i]) ? -1 : 0;
}

static int read_case(struct sv_reader *reader)
{
        struct sv_pack *pack = reader->pack;
        uint64_t n, i;

        if (sv_number(reader, 1, "N", 0, SV_CASES_MAX - 1, &n))
                return -1;
        if (n >= pack->n_cases)
                pack->n_cases = (uint32_t)n + 1;
        if (!strcmp(reader->words[2], "output"))
                return read_case_output(reader, &pack->cases[n]);
        if (strcmp(reader->words[2], "input") != 0 || reader->n_words != 5)
                return sv_wrong(reader, "it is: case N input I FILE, or case N output I FILE ABS REL");
        if (!pack->n_inputs)
                return sv_wrong(reader, "the model has no inputs");
        if (sv_number(reader, 3, "I", 0, pack->n_inputs - 1, &i))
                return -1;
        return read_case_file(
                reader, (uint32_t)i, pack->inputs[i].bytes, &pack->cases[n].has_input, &pack->cases[n].input[i]);
}

static int read_end(struct sv_reader *reader)
{
        return reader->at == reader->end ? 0 : sv_wrong(reader, "something follows");
}

/* --- all lines --------------------------------------------------------------------------------------------------- */

static const struct row {
        const char *word;
        uint32_t least, most;     /* number of such lines */
        uint32_t n_least, n_most; /* number of words in a line */
        int (*read)(struct sv_reader *reader);
} rows[] = {
        {"detshare-pack", 1, 1, 2, 2, read_version},
        {"model", 1, 1, 2, 2, read_model},
        {"class", 1, 1, 2, 2, read_class},
        {"batch", 1, 1, 2, 2, read_batch},
        {"arch", 1, 1, 2, 2, read_arch},
        {"framework", 1, 1, 2, 2, read_framework},
        {"compiler", 1, 1, 2, 2, read_compiler},
        {"file", 1, UINT32_MAX, 4, 4, read_file},
        {"module", 1, 1, 2, 2, read_module},
        {"weights", 1, 1, 2, 2, read_weights},
        {"arena", 1, 1, 2, 2, read_arena},
        {"input", 0, UINT32_MAX, 6, 6, read_input},
        {"output", 1, UINT32_MAX, 6, 6, read_output},
        {"kernel", 1, UINT32_MAX, 5, 5, read_kernel},
        {"launch", 1, UINT32_MAX, 5, SV_WORDS_MAX, read_launch},
        {"cost", 0, UINT32_MAX, 4, 4, read_cost},
        {"buffer", 0, UINT32_MAX, 5, 5, read_buffer},
        {"x-writes", 0, UINT32_MAX, 2, SV_WORDS_MAX, read_writes},
        {"x-weight", 0, UINT32_MAX, 3, 3, read_weight},
        {"case", 0, UINT32_MAX, 5, 7, read_case},
        {"end", 1, 1, 1, 1, read_end},
};

#define N_ROWS DS_ARRAY_SIZE(rows)

/* Row of the current line. *at and *n: row of the previous line and the number of such lines so far; updated. */
static const struct row *find_row(struct sv_reader *reader, size_t *at, uint32_t *n)
{
        size_t i = 0;

        while (i < N_ROWS && strcmp(rows[i].word, reader->words[0]) != 0)
                i++;
        if (i == N_ROWS || (reader->line == 1) != (i == 0)) {
                (void)sv_wrong(reader, reader->line == 1 ? "this is no model pack" : "there is no such line");
                return NULL;
        }
        if (i < *at || (i == *at && *n == rows[i].most)) {
                (void)sv_wrong(reader, i < *at ? "it comes too late" : "there is more than one");
                return NULL;
        }
        for (; *at < i; (*at)++, *n = 0) {
                if (*n >= rows[*at].least)
                        continue;
                (void)sv_wrong(reader, "there is no line %s before", rows[*at].word);
                return NULL;
        }
        (*n)++;
        return &rows[i];
}

static int read_lines(struct sv_reader *reader)
{
        size_t at = 0;
        uint32_t n = 0;
        int r;

        while ((r = sv_next_line(reader)) > 0) {
                const struct row *row = find_row(reader, &at, &n);

                if (!row)
                        return -1;
                if (reader->n_words < row->n_least || reader->n_words > row->n_most)
                        return sv_wrong(reader, "there are %u words, which is too %s", reader->n_words,
                                reader->n_words < row->n_least ? "few" : "many");
                if (row->read(reader))
                        return -1;
        }
        if (r == 0 && at + 1 != N_ROWS)
                return sv_fail(reader->why, "%s: the last line is not `end`: something is missing", reader->name);
        return r;
}

int sv_pack_parse(const char *text, size_t size, const char *name, struct sv_pack **ret, struct sv_why *why)
{
        struct sv_reader reader = {.name = name, .at = text, .end = text + size, .why = why};
        ds_cleanup(sv_pack_freep) struct sv_pack *pack = ds_alloc0(1, sizeof(*pack));

        if (!pack)
                return sv_fail(why, "%s: out of memory", name);
        pack->folder = -1;
        reader.pack = pack;
        if (read_lines(&reader) || sv_pack_whole(pack, name, why))
                return -1;
        *ret = DS_TAKE_PTR(pack);
        return 0;
}

struct sv_pack *sv_pack_free(struct sv_pack *pack)
{
        if (!pack)
                return NULL;
        (void)ds_close(pack->folder);
        ds_free(pack->path);
        ds_free(pack->kernels);
        ds_free(pack->launches);
        ds_free(pack->params);
        ds_free(pack->buffers);
        ds_free(pack->weights_list);
        return ds_free(pack);
}

void sv_pack_freep(struct sv_pack **pack)
{
        *pack = sv_pack_free(*pack);
}
