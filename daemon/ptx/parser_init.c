/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Initialisers of variables
 *
 * `= 5`, `= {1, 2, {3}}`, addresses of symbols with offsets, `generic(x)`, and single bytes of addresses `0xFF00(x)`.
 * Values become bytes at once; an address becomes a relocation over zero bytes. Only bytes up to the last given one are
 * stored: the rest of a variable is zero, whatever its declared size.
 */
#include <errno.h>
#include <string.h>

#include "ptx/parser.h"
#include "util/macro.h"

#define TYPE(name) (UINT64_C(1) << DS_PTX_TYPE_##name)
#define VALUE_TYPES                                                                                               \
        (TYPE(B8) | TYPE(B16) | TYPE(B32) | TYPE(B64) | TYPE(U8) | TYPE(U16) | TYPE(U32) | TYPE(U64) | TYPE(S8) | \
                TYPE(S16) | TYPE(S32) | TYPE(S64) | TYPE(F32) | TYPE(F64))

struct filler {
        struct ds_ptx_var *var;
        uint64_t element; /* bytes of one value */
        /* number of values that fit in the variable; values beyond it are an error */
        uint64_t limit;
        uint64_t end;                       /* number of values stored so far, including gaps between them */
        uint32_t levels;                    /* number of dimensions; a vector counts as one more */
        uint64_t span[DS_PTX_MAX_DIMS + 1]; /* number of values inside one pair of braces, by level of nesting */
        uint8_t *data;
        size_t data_capacity;
        size_t relocs_capacity;
};

/* Reserves memory for value number `index`, and returns the address of its bytes. */
static uint8_t *reserve(struct ds_ptx_parser *p, struct filler *f, uint64_t index)
{
        uint64_t need = (index + 1) * f->element;

        if (need > f->data_capacity) {
                size_t capacity = (size_t)DS_MAX(need, (uint64_t)f->data_capacity * 2);
                uint8_t *data = ds_arena_alloc(p->arena, capacity, 1);

                if (!data)
                        return NULL;
                if (f->data)
                        memcpy(data, f->data, f->data_capacity);
                f->data = data;
                f->data_capacity = capacity;
        }
        f->end = DS_MAX(f->end, index + 1);
        return f->data + index * f->element;
}

/* Parses an address: name or generic(name), either with an offset behind it. */
static int parse_address(struct ds_ptx_parser *p, struct ds_ptx_reloc *reloc)
{
        struct ds_ptx_symbol *symbol;
        bool generic = ds_ptx_at_word(p, "generic");
        int r = 0;

        if (generic) {
                ds_ptx_advance(p);
                reloc->generic = true;
                r = ds_ptx_expect(p, '(');
                if (!r)
                        r = p->token.kind == DS_PTX_TOKEN_IDENT ? 0 : ds_ptx_unexpected(p, "a name");
                if (r)
                        return r;
        }
        symbol = ds_ptx_lookup(p, &p->token, &r);
        if (r)
                return r;
        if (symbol && symbol->kind == DS_PTX_SYMBOL_VAR)
                reloc->var = symbol->var;
        else if (symbol && symbol->kind == DS_PTX_SYMBOL_FUNCTION)
                reloc->function = symbol->function;
        else
                return ds_ptx_error_at(p, &p->token, "'%.*s' is not a variable or a function",
                        (int)DS_MIN(p->token.length, 100u), p->token.start);
        ds_ptx_advance(p);
        if (generic)
                r = ds_ptx_expect(p, ')');
        return !r && ds_ptx_at(p, '+') ? ds_ptx_parse_int(p, &reloc->addend) : r;
}

static int add_reloc(struct ds_ptx_parser *p, struct filler *f, const struct ds_ptx_token *at, uint64_t index,
        struct ds_ptx_reloc *reloc)
{
        struct ds_ptx_var *var = f->var;

        if (reloc->mask ? var->type != DS_PTX_TYPE_U8 : var->type != DS_PTX_TYPE_U64 && var->type != DS_PTX_TYPE_U32)
                return ds_ptx_error_at(p, at, "an address does not fit the type .%s", ds_ptx_type_name(var->type));
        if (reloc->var && reloc->var->space != DS_PTX_IN_GLOBAL && reloc->var->space != DS_PTX_IN_CONST)
                return ds_ptx_error_at(p, at, "the address of a variable in .global or .const belongs here");
        if (reloc->function && (reloc->generic || reloc->addend))
                return ds_ptx_error_at(p, at, "the address of a function stands alone");
        if (!reserve(p, f, index))
                return -ENOMEM;
        var->relocs = ds_arena_grow(p->arena, var->relocs, var->n_relocs, &f->relocs_capacity, sizeof(*reloc));
        if (!var->relocs)
                return -ENOMEM;
        reloc->offset = index * f->element;
        reloc->size = (uint8_t)f->element;
        var->relocs[var->n_relocs++] = *reloc;
        return 0;
}

static int store(struct ds_ptx_parser *p, struct filler *f, const struct ds_ptx_token *at, uint64_t index,
        const struct ds_ptx_value *value)
{
        uint64_t bits = value->bits;
        enum ds_ptx_type type = f->var->type;
        uint8_t *bytes;

        if (type == DS_PTX_TYPE_F32 && value->kind == DS_PTX_TOKEN_F64) {
                double wide;
                float narrow;

                memcpy(&wide, &bits, sizeof(wide));
                narrow = (float)wide;
                bits = 0;
                memcpy(&bits, &narrow, sizeof(narrow));
        } else if ((value->kind == DS_PTX_TOKEN_INT) == (type == DS_PTX_TYPE_F32 || type == DS_PTX_TYPE_F64) ||
                   (value->kind == DS_PTX_TOKEN_F32 && type == DS_PTX_TYPE_F64)) {
                return ds_ptx_error_at(p, at, "this value does not fit the type .%s", ds_ptx_type_name(type));
        }
        bytes = reserve(p, f, index);
        if (!bytes)
                return -ENOMEM;
        memcpy(bytes, &bits, DS_MIN(f->element, sizeof(bits)));
        return 0;
}

static bool is_byte_mask(uint64_t bits)
{
        return bits && bits == UINT64_C(0xFF) << (__builtin_ctzll(bits) & 56);
}

static int parse_value(struct ds_ptx_parser *p, struct filler *f, uint64_t index)
{
        struct ds_ptx_token at = p->token;
        struct ds_ptx_reloc reloc = {0};
        struct ds_ptx_value value;
        int r;

        if (index >= f->limit)
                return ds_ptx_error_at(p, &at, "'%.80s' has more values than room", f->var->name);
        if (index != f->end)
                return ds_ptx_error_at(p, &at, "a value follows braces that are not full");
        if (p->token.kind == DS_PTX_TOKEN_IDENT && !ds_ptx_at_word(p, "WARP_SZ")) {
                r = parse_address(p, &reloc);
                return r ? r : add_reloc(p, f, &at, index, &reloc);
        }
        r = ds_ptx_parse_const(p, 0, &value);
        if (r)
                return r;
        if (!ds_ptx_at(p, '('))
                return store(p, f, &at, index, &value);
        ds_ptx_advance(p);
        if (value.kind != DS_PTX_TOKEN_INT || !value.bits || p->token.kind != DS_PTX_TOKEN_IDENT)
                return ds_ptx_error_at(p, &at, "a byte of an address is written 0xFF00(name)");
        if (!is_byte_mask(value.bits))
                return ds_ptx_error_at(p, &at, "a mask is 0xFF shifted by bytes");
        reloc.mask = value.bits;
        r = parse_address(p, &reloc);
        if (!r)
                r = ds_ptx_expect(p, ')');
        return r ? r : add_reloc(p, f, &at, index, &reloc);
}

/* Parses a pair of braces at nesting level `level`, whose first value has number `first`. The number of dimensions
 * limits the depth. */
static int parse_braces(struct ds_ptx_parser *p, struct filler *f, uint32_t level, uint64_t first)
{
        uint64_t at = first, inner = level + 1 < f->levels ? DS_MAX(f->span[level + 1], 1u) : 1;
        int r = ds_ptx_expect(p, '{');

        p->braces++;
        while (!r && !ds_ptx_at(p, '}')) {
                if (at > first)
                        r = ds_ptx_expect(p, ',');
                if (r)
                        return r;
                if (level && at - first >= f->span[level])
                        return ds_ptx_error_at(p, &p->token, "these braces have more values than room");
                if (ds_ptx_at(p, '{') != (level + 1 < f->levels))
                        return ds_ptx_error_at(p, &p->token, "the braces do not have the variable's shape");
                r = level + 1 < f->levels ? parse_braces(p, f, level + 1, at) : parse_value(p, f, at);
                at += inner;
        }
        if (!r && f->var->vector && level + 1 == f->levels && at - first != f->span[level])
                return ds_ptx_error_at(p, &p->token, "a vector needs all its values");
        if (!r)
                r = ds_ptx_expect(p, '}');
        if (!r)
                p->braces--;
        return r;
}

static void shape_of(const struct ds_ptx_var *var, struct filler *f)
{
        uint64_t span = var->vector ? var->vector : 1;

        f->levels = var->n_dims + (var->vector ? 1 : 0);
        if (var->vector)
                f->span[var->n_dims] = span;
        for (uint32_t i = var->n_dims; i-- > 0;) {
                span *= i || !var->unsized ? var->dims[i] : 1; /* cannot overflow: the variable's size was checked */
                f->span[i] = span;
        }
        f->limit = var->unsized ? DS_PTX_MAX_VAR_BYTES / f->element : span;
        if (var->unsized)
                f->span[0] = f->limit;
}

int ds_ptx_parse_initialiser(struct ds_ptx_parser *p, struct ds_ptx_var *var)
{
        struct filler f = {.var = var, .element = DS_MAX(ds_ptx_type_bits(var->type) / 8, 1u)};
        uint64_t row = var->vector ? var->vector : 1;
        int r;

        if (var->space != DS_PTX_IN_GLOBAL && var->space != DS_PTX_IN_CONST)
                return ds_ptx_error_at(p, &p->token, "only .global and .const variables can have a value");
        if (var->linkage == DS_PTX_LINKAGE_EXTERN)
                return ds_ptx_error_at(p, &p->token, "an extern variable cannot have a value");
        if (f.element > sizeof(uint64_t) || !(VALUE_TYPES >> var->type & 1))
                return ds_ptx_error_at(p, &p->token, "a .%s variable cannot have a value", ds_ptx_type_name(var->type));
        shape_of(var, &f);
        r = f.levels ? parse_braces(p, &f, 0, 0) : parse_value(p, &f, 0);
        if (r)
                return r;
        if (var->unsized) {
                for (uint32_t i = 1; i < var->n_dims; i++)
                        row *= var->dims[i];
                if (!row)
                        return ds_ptx_error_at(p, &p->token, "'%.80s' has no size", var->name);
                var->dims[0] = DS_DIV_UP(f.end, row);
                var->unsized = false;
        }
        var->data = f.data ? f.data : ds_arena_alloc(p->arena, 1, 1);
        var->initialised = f.end * f.element;
        return var->data ? 0 : -ENOMEM;
}
