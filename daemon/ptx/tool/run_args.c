/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/tool/run_args.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define MAX_BUFFER DS_GIB(4)

enum kind {
        KIND_UNSIGNED,
        KIND_SIGNED,
        KIND_FLOAT,
};

struct type {
        char name[4];
        uint8_t size;
        uint8_t kind;
};

static const struct type types[] = {{"u8", 1, KIND_UNSIGNED}, {"s8", 1, KIND_SIGNED}, {"u16", 2, KIND_UNSIGNED},
        {"s16", 2, KIND_SIGNED}, {"u32", 4, KIND_UNSIGNED}, {"s32", 4, KIND_SIGNED}, {"u64", 8, KIND_UNSIGNED},
        {"s64", 8, KIND_SIGNED}, {"f16", 2, KIND_FLOAT}, {"f32", 4, KIND_FLOAT}, {"f64", 8, KIND_FLOAT}};

struct buffer {
        const struct type *type;
        uint64_t count;
        void *data, *kept;
        int index; /* index of the argument's word */
        bool print;
        const char *file; /* file to write the buffer's bytes to, or NULL */
};

struct ds_run_args {
        uint8_t *params;
        struct buffer *buffers;
        struct ds_interp_range *ranges;
        size_t n;
};

struct reader {
        char *message;
        size_t size;
        const char *word;
};

static int fail(const struct reader *reader, const char *what)
{
        snprintf(reader->message, reader->size, "argument '%.60s': %s", reader->word, what);
        return -EINVAL;
}

/* --- half precision, for printing and filling -------------------------------------------------------------------- */
static double half_to_double(uint16_t half)
{
        int exponent = half >> 10 & 31;
        double fraction = half & 1023, value;

        if (exponent == 31)
                value = fraction ? __builtin_nan("") : __builtin_inf();
        else if (exponent)
                value = __builtin_ldexp(1024 + fraction, exponent - 25);
        else
                value = __builtin_ldexp(fraction, -24);
        return half & 0x8000 ? -value : value;
}

/* Converts to half precision by truncation; test data is chosen to fit. */
static uint16_t double_to_half(double value)
{
        uint16_t sign = __builtin_signbit(value) ? 0x8000 : 0;
        double magnitude = __builtin_fabs(value), fraction;
        int exponent;

        if (magnitude != magnitude)
                return 0x7e00;
        if (magnitude >= 65536)
                return sign | 0x7c00;
        if (magnitude < 0x1p-14)
                return sign | (uint16_t)__builtin_ldexp(magnitude, 24);
        fraction = __builtin_frexp(magnitude, &exponent);
        return (uint16_t)(sign | ((exponent + 14) << 10 | ((uint32_t)__builtin_ldexp(fraction, 11) & 1023)));
}

/* --- values ------------------------------------------------------------------------------------------------------ */
static void store_float(void *at, const struct type *type, double value)
{
        float narrow = (float)value;
        uint16_t half = double_to_half(value);

        if (type->size == 8)
                memcpy(at, &value, sizeof(value));
        else if (type->size == 4)
                memcpy(at, &narrow, sizeof(narrow));
        else
                memcpy(at, &half, sizeof(half));
}

static void store_int(void *at, const struct type *type, uint64_t value)
{
        if (type->kind == KIND_FLOAT)
                store_float(at, type, (double)value);
        else
                memcpy(at, &value, type->size);
}

/* Parses a number up to the word's end; false: it is none, or does not fit the type. */
static bool parse_number(const char *text, const struct type *type, void *ret)
{
        char *end;
        uint64_t value;

        errno = 0;
        if (type->kind == KIND_FLOAT) {
                store_float(ret, type, strtod(text, &end));
                return *text && !*end;
        }
        value = type->kind == KIND_SIGNED || *text == '-' ? (uint64_t)strtoll(text, &end, 0) : strtoull(text, &end, 0);
        if (!*text || *end || errno)
                return false;
        memcpy(ret, &value, type->size);
        if (type->size == 8)
                return true;
        if (type->kind == KIND_SIGNED || *text == '-')
                return (int64_t)value >= -(INT64_C(1) << (type->size * 8 - 1)) &&
                       (int64_t)value < INT64_C(1) << (type->size * 8 - 1);
        return value < UINT64_C(1) << (type->size * 8);
}

static const struct type *parse_type(const char **text, const char *stops)
{
        size_t n = strcspn(*text, stops);

        for (size_t i = 0; i < DS_ARRAY_SIZE(types); i++) {
                if (strlen(types[i].name) == n && memcmp(types[i].name, *text, n) == 0) {
                        *text += n;
                        return &types[i];
                }
        }
        return NULL;
}

static int parse_bytes(const struct reader *reader, const char *hex, uint8_t *ret, uint32_t size)
{
        if (strlen(hex) != (size_t)size * 2 || strspn(hex, "0123456789abcdefABCDEF") != (size_t)size * 2)
                return fail(reader, "needs two hexadecimal digits per byte of the parameter");
        for (uint32_t i = 0; i < size; i++) {
                char digits[3] = {hex[i * 2], hex[i * 2 + 1], '\0'};

                ret[i] = (uint8_t)strtoul(digits, NULL, 16);
        }
        return 0;
}

/* --- buffers ----------------------------------------------------------------------------------------------------- */
/* The xorshift64* generator: the same seed gives the same buffer on every machine. */
static uint64_t next_random(uint64_t *state)
{
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        return *state * UINT64_C(2685821657736338717);
}

static void fill_random(struct buffer *buffer, uint64_t seed)
{
        uint64_t state = seed * 2 + 1;

        for (uint64_t i = 0; i < buffer->count; i++) {
                uint8_t *at = (uint8_t *)buffer->data + i * buffer->type->size;
                uint64_t value = next_random(&state);

                if (buffer->type->kind == KIND_FLOAT)
                        store_float(at, buffer->type, (double)(value >> 53) / 1024 - 1);
                else
                        store_int(at, buffer->type, value);
        }
}

/* Reads a whole file into the buffer; a file larger than the buffer is an error. */
static int fill_from_file(const struct reader *reader, struct buffer *buffer, const char *path)
{
        size_t size = buffer->count * buffer->type->size;
        FILE *in = fopen(path, "re");
        bool fits;

        if (!in)
                return fail(reader, "the file cannot be read");
        (void)!fread(buffer->data, 1, size, in);
        fits = !ferror(in) && fgetc(in) == EOF && !ferror(in);
        fclose(in);
        return fits ? 0 : fail(reader, "the file cannot be read, or is longer than the buffer");
}

static int fill(const struct reader *reader, struct buffer *buffer, const char *init)
{
        uint8_t value[8];
        char *end;

        if (!*init || strcmp(init, "zero") == 0)
                return 0;
        if (*init == '@')
                return fill_from_file(reader, buffer, init + 1);
        if (strncmp(init, "rand:", 5) == 0) {
                uint64_t seed = strtoull(init + 5, &end, 0);

                if (!init[5] || *end)
                        return fail(reader, "rand: takes a number");
                fill_random(buffer, seed);
                return 0;
        }
        if (strcmp(init, "ramp") == 0) {
                for (uint64_t i = 0; i < buffer->count; i++)
                        store_int((uint8_t *)buffer->data + i * buffer->type->size, buffer->type, i);
                return 0;
        }
        if (!parse_number(init, buffer->type, value))
                return fail(reader, "the initial value must be zero, ramp, rand:SEED, @FILE or a number of the type");
        for (uint64_t i = 0; i < buffer->count; i++)
                memcpy((uint8_t *)buffer->data + i * buffer->type->size, value, buffer->type->size);
        return 0;
}

/* Parses a buffer from the text behind `TYPE[`. It may change the word: it cuts off the name of an output file. */
static int parse_buffer(const struct reader *reader, char *text, const struct type *type, struct buffer *buffer)
{
        char *end = strchr(text, '>');

        if (end) {
                *end = '\0';
                buffer->file = end + 1;
        }
        buffer->type = type;
        buffer->count = strtoull(text, &end, 0);
        if (end == text || *end != ']' || (end[1] && end[1] != '='))
                return fail(reader, "a buffer is written TYPE[N], TYPE[N]=INIT or TYPE[N]=INIT>FILE");
        if (!buffer->count || buffer->count > MAX_BUFFER / type->size)
                return fail(reader, "a buffer has at least 1 element and at most 4 GiB");
        /* 256 bytes is the alignment of cuMemAlloc */
        if (posix_memalign(&buffer->data, 256, DS_ALIGN_UP((size_t)buffer->count * type->size, (size_t)256)))
                return fail(reader, "out of memory");
        memset(buffer->data, 0, (size_t)buffer->count * type->size);
        return fill(reader, buffer, end[1] ? end + 2 : "");
}

static int parse_word(
        const struct reader *reader, struct ds_run_args *args, int index, const struct ds_interp_param *param)
{
        const char *text = reader->word;
        bool print = strncmp(text, "out:", 4) == 0;
        const struct type *type;
        struct buffer *buffer;
        int r;

        if (strncmp(text, "bytes:", 6) == 0)
                return parse_bytes(reader, text + 6, args->params + param->offset, param->size);
        text += print ? 4 : 0;
        type = parse_type(&text, ":[");
        if (!type || !*text || (print && *text != '['))
                return fail(reader, "not a TYPE:VALUE, bytes:HEX or [out:]TYPE[N]");
        if (*text == ':') {
                if (type->size != param->size)
                        return fail(reader, "the type does not have the parameter's size");
                if (!parse_number(text + 1, type, args->params + param->offset))
                        return fail(reader, "the value does not fit the type");
                return 0;
        }
        if (param->size != sizeof(uint64_t))
                return fail(reader, "the parameter is not a pointer");
        buffer = &args->buffers[args->n++];
        buffer->index = index;
        buffer->print = print;
        r = parse_buffer(reader, (char *)text + 1, type, buffer);
        memcpy(args->params + param->offset, &buffer->data, sizeof(buffer->data));
        return r;
}

static int compare_ranges(const void *a, const void *b)
{
        const struct ds_interp_range *x = a, *y = b;

        return x->va < y->va ? -1 : x->va > y->va;
}

int ds_run_args_new(const struct ds_interp_kernel_info *info, int argc, char *const *argv, char *message, size_t size,
        struct ds_run_args **ret)
{
        ds_cleanup(ds_run_args_freep) struct ds_run_args *args = ds_alloc0(1, sizeof(*args));
        struct reader reader = {message, size, ""};

        if (argc < 0 || (uint32_t)argc != info->n_params) {
                snprintf(message, size, "the kernel takes %u arguments, not %d", info->n_params, argc);
                return -EINVAL;
        }
        snprintf(message, size, "out of memory");
        if (!args)
                return -ENOMEM;
        args->params = ds_alloc0(info->params_size + 1, 1);
        args->buffers = ds_alloc0((size_t)argc + 1, sizeof(*args->buffers));
        args->ranges = ds_alloc0((size_t)argc + 1, sizeof(*args->ranges));
        if (!args->params || !args->buffers || !args->ranges)
                return -ENOMEM;
        for (int i = 0; i < argc; i++) {
                int r;

                reader.word = argv[i];
                r = parse_word(&reader, args, i, &info->params[i]);
                if (r)
                        return r;
        }
        for (size_t i = 0; i < args->n; i++)
                args->ranges[i] = (struct ds_interp_range){.va = (uintptr_t)args->buffers[i].data,
                        .size = args->buffers[i].count * args->buffers[i].type->size};
        qsort(args->ranges, args->n, sizeof(*args->ranges), compare_ranges);
        *ret = DS_TAKE_PTR(args);
        return 0;
}

struct ds_run_args *ds_run_args_free(struct ds_run_args *args)
{
        if (!args)
                return NULL;
        for (size_t i = 0; i < args->n; i++) {
                free(args->buffers[i].data);
                ds_free(args->buffers[i].kept);
        }
        ds_free(args->params);
        ds_free(args->buffers);
        ds_free(args->ranges);
        return ds_free(args);
}

const void *ds_run_args_params(const struct ds_run_args *args)
{
        return args->params;
}

const struct ds_interp_range *ds_run_args_ranges(const struct ds_run_args *args, size_t *ret_n)
{
        *ret_n = args->n;
        return args->ranges;
}

/* --- repeated launches ------------------------------------------------------------------------------------------- */
static size_t buffer_size(const struct buffer *buffer)
{
        return buffer->count * buffer->type->size;
}

int ds_run_args_keep(struct ds_run_args *args)
{
        for (size_t i = 0; i < args->n; i++) {
                struct buffer *buffer = &args->buffers[i];

                buffer->kept = ds_alloc(buffer_size(buffer));
                if (!buffer->kept)
                        return ds_error_origin(-ENOMEM);
                memcpy(buffer->kept, buffer->data, buffer_size(buffer));
        }
        return 0;
}

/* Exchanges the contents of all buffers with the kept ones. It swaps bytes, not pointers, because the launch holds
 * the buffers' addresses. */
void ds_run_args_swap(struct ds_run_args *args)
{
        for (size_t i = 0; i < args->n; i++) {
                uint8_t *a = args->buffers[i].data, *b = args->buffers[i].kept, byte;

                for (size_t at = 0; at < buffer_size(&args->buffers[i]); at++) {
                        byte = a[at];
                        a[at] = b[at];
                        b[at] = byte;
                }
        }
}

int ds_run_args_differ(const struct ds_run_args *args, char *message, size_t size)
{
        for (size_t i = 0; i < args->n; i++) {
                const struct buffer *buffer = &args->buffers[i];
                const uint8_t *a = buffer->data, *b = buffer->kept;
                size_t at = 0;

                while (at < buffer_size(buffer) && a[at] == b[at])
                        at++;
                if (at == buffer_size(buffer))
                        continue;
                snprintf(message, size, "arg %d differs at element %zu", buffer->index + 1, at / buffer->type->size);
                return 1;
        }
        return 0;
}

static void print_value(FILE *out, const struct type *type, const void *at)
{
        uint64_t bits = 0;
        float narrow;
        double wide;

        memcpy(&bits, at, type->size);
        if (type->kind == KIND_UNSIGNED) {
                fprintf(out, " %" PRIu64, bits);
        } else if (type->kind == KIND_SIGNED) {
                uint32_t unused = 64 - type->size * 8u;

                fprintf(out, " %" PRId64, (int64_t)(bits << unused) >> unused);
        } else if (type->size == 8) {
                memcpy(&wide, at, sizeof(wide));
                fprintf(out, " %.17g", wide);
        } else if (type->size == 4) {
                memcpy(&narrow, at, sizeof(narrow));
                fprintf(out, " %.9g", (double)narrow);
        } else {
                fprintf(out, " %.5g", half_to_double((uint16_t)bits));
        }
}

static int write_file(const struct buffer *buffer)
{
        size_t size = buffer->count * buffer->type->size;
        FILE *out = fopen(buffer->file, "we");
        bool ok = out && fwrite(buffer->data, 1, size, out) == size;

        if ((out && fclose(out)) || !ok) {
                fprintf(stderr, "detshare-ptx: %s: %s\n", buffer->file, strerror(errno));
                return -EIO;
        }
        return 0;
}

int ds_run_args_print(const struct ds_run_args *args, FILE *out)
{
        int r = 0;

        for (size_t i = 0; i < args->n; i++) {
                const struct buffer *buffer = &args->buffers[i];

                if (buffer->file)
                        r |= write_file(buffer);
                if (!buffer->print)
                        continue;
                fprintf(out, "arg %d:", buffer->index + 1);
                for (uint64_t j = 0; j < buffer->count; j++)
                        print_value(out, buffer->type, (const uint8_t *)buffer->data + j * buffer->type->size);
                fputc('\n', out);
        }
        return r;
}
