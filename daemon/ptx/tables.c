/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/tables.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "ptx/symtab.h"
#include "util/macro.h"

/* --- type sets of opcodes.def ---------------------------------------------------------------------------------- */
#define TYPE(name) (UINT64_C(1) << DS_PTX_TYPE_##name)
#define T_U32 TYPE(U32)
#define T_U64 TYPE(U64)
#define T_S32 TYPE(S32)
#define T_B16 TYPE(B16)
#define T_B32 TYPE(B32)
#define T_B64 TYPE(B64)
#define T_B128 TYPE(B128)
#define T_F32 TYPE(F32)
#define T_PRED TYPE(PRED)
#define T_INT32 (TYPE(U32) | TYPE(S32))
#define T_INT3264 (T_INT32 | TYPE(U64) | TYPE(S64))
#define T_SIGNED (TYPE(S16) | TYPE(S32) | TYPE(S64))
#define T_INT (T_INT3264 | TYPE(U16) | TYPE(S16))
#define T_INT16X2 (TYPE(U16X2) | TYPE(S16X2))
#define T_B3264 (TYPE(B32) | TYPE(B64))
#define T_BITS (T_B3264 | TYPE(B16))
#define T_FLOAT (TYPE(F32) | TYPE(F64))
#define T_HALF (TYPE(F16) | TYPE(F16X2) | TYPE(BF16) | TYPE(BF16X2))
#define T_BYTES (TYPE(B8) | TYPE(U8) | TYPE(S8))
#define T_MEMORY (T_BYTES | T_BITS | T_B128 | T_INT | T_FLOAT)
#define T_ATOM (T_B3264 | T_INT3264)
#define T_PACKED (TYPE(U16) | TYPE(S16) | TYPE(U8) | TYPE(S8) | TYPE(U4) | TYPE(S4) | TYPE(U2) | TYPE(S2))
#define T_FP8 (TYPE(E4M3X2) | TYPE(E5M2X2))
#define T_CVT (T_INT | TYPE(U8) | TYPE(S8) | T_FLOAT | T_HALF | TYPE(TF32) | T_FP8)
#define T_SUBBYTE (TYPE(U4) | TYPE(S4) | TYPE(B1))
#define T_MMA                                                                                                       \
        (TYPE(F16) | TYPE(BF16) | TYPE(TF32) | T_FLOAT | TYPE(U8) | TYPE(S8) | TYPE(S32) | T_SUBBYTE | TYPE(E4M3) | \
                TYPE(E5M2))
#define T_TEX (TYPE(U32) | TYPE(S32) | TYPE(F32) | TYPE(F16) | TYPE(F16X2) | TYPE(B32))
#define T_OPAQUE (TYPE(TEXREF) | TYPE(SAMPLERREF) | TYPE(SURFREF))
#define T_SURFACE (TYPE(B8) | T_BITS | TYPE(U32) | TYPE(S32) | TYPE(F32))

/* --- syntax elements --------------------------------------------------------------------------------------------- */
#define S(slot) DS_PTX_SLOT_##slot
#define O(slot) (DS_PTX_SLOT_##slot | DS_PTX_SYNTAX_OPTIONAL)
#define T DS_PTX_SLOT_TYPE
#define OT (DS_PTX_SLOT_TYPE | DS_PTX_SYNTAX_OPTIONAL)
#define SHAPE DS_PTX_SLOT_SHAPE
#define NOTHING DS_PTX_SLOT_NONE
#define SYNTAX(...)         \
        {                   \
                __VA_ARGS__ \
        }
#define TYPES(...)          \
        {                   \
                __VA_ARGS__ \
        }

/* opcodes.def names flags without their prefix */
enum {
        READS = DS_PTX_READS,
        WRITES = DS_PTX_WRITES,
        BRANCH = DS_PTX_BRANCH,
        ENDS = DS_PTX_ENDS,
        CONVERGE = DS_PTX_CONVERGE,
        BARRIER = DS_PTX_BARRIER,
        CARRY_IN = DS_PTX_CARRY_IN,
        CARRY_OUT = DS_PTX_CARRY_OUT,
        CLUSTER = DS_PTX_CLUSTER,
        ASYNC = DS_PTX_ASYNC,
        RUN = 1,
        REFUSE = 0,
};

static const struct ds_ptx_op_info op_table[] = {
#define DS_PTX_OPCODE(key_, mnemonic_, class_, types_, syntax_, operands_, flags_, run_) \
        [DS_PTX_OP_##key_] = {.key = #key_,                                              \
                .mnemonic = mnemonic_,                                                   \
                .operands = operands_,                                                   \
                .types = types_,                                                         \
                .flags = flags_,                                                         \
                .class = DS_PTX_CLASS_##class_,                                          \
                .run = run_,                                                             \
                .syntax = syntax_},
#include "ptx/opcodes.def"
#undef DS_PTX_OPCODE
};

static const struct {
        uint8_t slot;
        const char *word;
} modifier_table[] = {
        {DS_PTX_SLOT_NONE, ""},
#define DS_PTX_MODIFIER(slot_, value_, word_) {DS_PTX_SLOT_##slot_, word_},
#include "ptx/modifiers.def"
#undef DS_PTX_MODIFIER
};

static const struct {
        const char *word;
        uint32_t bits;
} type_table[] = {{"", 0},
#define X(name, word_, bits_) {word_, bits_},
        DS_PTX_TYPES(X)
#undef X
};

static const struct {
        const char *word;
        uint8_t components;
        uint8_t type;
} sreg_table[] = {{"", 0, 0},
#define X(name, word_, components_, type_) {word_, components_, DS_PTX_TYPE_##type_},
        DS_PTX_SREGS(X)
#undef X
};

_Static_assert(_DS_PTX_TYPE_MAX <= 64, "types must fit a 64-bit set");
_Static_assert(sizeof(((struct ds_ptx_op_info *)0)->syntax) <= 32, "syntax elements must fit a 32-bit set");
_Static_assert(_DS_PTX_SLOT_MAX < DS_PTX_SYNTAX_OPTIONAL, "slots must fit seven bits");

/* --- queries of ir.h --------------------------------------------------------------------------------------------- */
const struct ds_ptx_op_info *ds_ptx_op_info(enum ds_ptx_op op)
{
        assert(op < _DS_PTX_OP_MAX);
        return &op_table[op];
}

const char *ds_ptx_class_name(enum ds_ptx_class class)
{
        static const char *const names[] = {"integer", "float", "special", "compare", "move", "convert", "memory",
                "atomic", "control", "barrier", "warp", "async", "tensor", "video", "texture", "misc"};

        _Static_assert(DS_ARRAY_SIZE(names) == _DS_PTX_CLASS_MAX, "one name per class");
        assert(class < _DS_PTX_CLASS_MAX);
        return names[class];
}

const char *ds_ptx_type_name(enum ds_ptx_type type)
{
        assert(type < _DS_PTX_TYPE_MAX);
        return type_table[type].word;
}

uint32_t ds_ptx_type_bits(enum ds_ptx_type type)
{
        assert(type < _DS_PTX_TYPE_MAX);
        return type_table[type].bits;
}

bool ds_ptx_type_is_float(enum ds_ptx_type type)
{
        return (TYPE(F16) | TYPE(F16X2) | TYPE(BF16) | TYPE(BF16X2) | TYPE(TF32) | TYPE(F32) | TYPE(F64)) >> type & 1;
}

bool ds_ptx_type_is_signed(enum ds_ptx_type type)
{
        return (TYPE(S8) | TYPE(S16) | TYPE(S32) | TYPE(S64) | TYPE(S16X2)) >> type & 1;
}

const char *ds_ptx_sreg_name(enum ds_ptx_sreg sreg)
{
        assert(sreg < _DS_PTX_SREG_MAX);
        return sreg_table[sreg].word;
}

enum ds_ptx_type ds_ptx_sreg_type(enum ds_ptx_sreg sreg)
{
        assert(sreg < _DS_PTX_SREG_MAX);
        return (enum ds_ptx_type)sreg_table[sreg].type;
}

uint32_t ds_ptx_sreg_components(enum ds_ptx_sreg sreg)
{
        assert(sreg < _DS_PTX_SREG_MAX);
        return sreg_table[sreg].components;
}

const char *ds_ptx_modifier_word(enum ds_ptx_modifier modifier)
{
        assert(modifier < _DS_PTX_MODIFIER_MAX);
        return modifier_table[modifier].word;
}

enum ds_ptx_modifier ds_ptx_mod(const struct ds_ptx_instr *instr, enum ds_ptx_modifier any)
{
        for (uint32_t i = 0; i < instr->n_mods; i++)
                if (modifier_table[instr->mods[i]].slot == modifier_table[any].slot)
                        return (enum ds_ptx_modifier)instr->mods[i];
        return DS_PTX_MODIFIER_NONE;
}

bool ds_ptx_has(const struct ds_ptx_instr *instr, enum ds_ptx_modifier value)
{
        for (uint32_t i = 0; i < instr->n_mods; i++)
                if (instr->mods[i] == value)
                        return true;
        return false;
}

enum ds_ptx_space ds_ptx_instr_space(const struct ds_ptx_instr *instr)
{
        switch (ds_ptx_mod(instr, DS_PTX_SPACE_GLOBAL)) {
        case DS_PTX_SPACE_GLOBAL:
                return DS_PTX_IN_GLOBAL;
        case DS_PTX_SPACE_SHARED:
        case DS_PTX_SPACE_SHARED_CTA:
        case DS_PTX_SPACE_SHARED_CLUSTER:
                return DS_PTX_IN_SHARED;
        case DS_PTX_SPACE_CONST:
                return DS_PTX_IN_CONST;
        case DS_PTX_SPACE_LOCAL:
                return DS_PTX_IN_LOCAL;
        case DS_PTX_SPACE_PARAM:
        case DS_PTX_SPACE_PARAM_ENTRY:
        case DS_PTX_SPACE_PARAM_FUNC:
                return DS_PTX_IN_PARAM;
        default:
                return DS_PTX_SPACE_NONE;
        }
}

uint32_t ds_ptx_instr_vector(const struct ds_ptx_instr *instr)
{
        switch (ds_ptx_mod(instr, DS_PTX_VEC_V2)) {
        case DS_PTX_VEC_V2:
                return 2;
        case DS_PTX_VEC_V4:
                return 4;
        case DS_PTX_VEC_V8:
                return 8;
        default:
                return 1;
        }
}

const char *ds_ptx_reg_name(const struct ds_ptx_function *function, uint32_t reg, char *buffer, size_t size)
{
        const struct ds_ptx_reg *r = &function->regs[reg];

        assert(reg < function->n_regs);
        if (r->decl->count)
                snprintf(buffer, size, "%s%u", r->decl->name, r->number);
        else if (r->decl->vector)
                snprintf(buffer, size, "%s.%c", r->decl->name, "xyzw"[r->component & 3]);
        else
                snprintf(buffer, size, "%s", r->decl->name);
        return buffer;
}

/* --- lookup of words --------------------------------------------------------------------------------------------- */
static bool word_is(const char *s, size_t n, const char *word)
{
        return strlen(word) == n && memcmp(s, word, n) == 0;
}

enum ds_ptx_type ds_ptx_type_find(const char *s, size_t n)
{
        for (uint32_t i = 1; i < _DS_PTX_TYPE_MAX; i++)
                if (word_is(s, n, type_table[i].word))
                        return (enum ds_ptx_type)i;
        return DS_PTX_TYPE_NONE;
}

enum ds_ptx_sreg ds_ptx_sreg_find(const char *s, size_t n, uint8_t *ret_number)
{
        const size_t stem = strlen("%envreg");
        uint32_t number = 0;

        *ret_number = 0;
        for (uint32_t i = 1; i < _DS_PTX_SREG_MAX; i++)
                if (i != DS_PTX_SREG_ENVREG && word_is(s, n, sreg_table[i].word))
                        return (enum ds_ptx_sreg)i;
        if (n <= stem || n > stem + 2 || memcmp(s, "%envreg", stem) != 0)
                return DS_PTX_SREG_NONE;
        for (size_t i = stem; i < n; i++) {
                if (s[i] < '0' || s[i] > '9')
                        return DS_PTX_SREG_NONE;
                number = number * 10 + (uint32_t)(s[i] - '0');
        }
        *ret_number = (uint8_t)number;
        return number < 32 ? DS_PTX_SREG_ENVREG : DS_PTX_SREG_NONE;
}

static uint32_t first_word_hash(const char *s, size_t n)
{
        const char *dot = memchr(s, '.', n);

        return ds_ptx_hash(s, dot ? (size_t)(dot - s) : n) % 512;
}

void ds_ptx_index_init(struct ds_ptx_index *index)
{
        *index = (struct ds_ptx_index){0};
        for (uint32_t op = _DS_PTX_OP_MAX; op-- > 0;) {
                uint32_t hash = first_word_hash(op_table[op].mnemonic, strlen(op_table[op].mnemonic));

                index->op_next[op] = index->op_head[hash];
                index->op_head[hash] = (uint16_t)(op + 1);
        }
        for (uint32_t i = 1; i < _DS_PTX_MODIFIER_MAX; i++) {
                uint8_t slot = modifier_table[i].slot;

                if (!index->slot_first[slot])
                        index->slot_first[slot] = (uint16_t)i;
                assert(!index->slot_end[slot] || index->slot_end[slot] == i);
                index->slot_end[slot] = (uint16_t)(i + 1);
        }
}

static enum ds_ptx_modifier find_modifier(const struct ds_ptx_index *index, uint32_t slot, struct ds_ptx_word word)
{
        for (uint32_t i = index->slot_first[slot]; i < index->slot_end[slot]; i++)
                if (word_is(word.s, word.n, modifier_table[i].word))
                        return (enum ds_ptx_modifier)i;
        return DS_PTX_MODIFIER_NONE;
}

/* Number of words in the mnemonic if `words` begins with it; else 0. */
static uint32_t match_mnemonic(const char *mnemonic, const struct ds_ptx_word *words, uint32_t n_words)
{
        uint32_t n = 0;

        for (const char *p = mnemonic; n < n_words; n++) {
                size_t length = strcspn(p, ".");

                if (length != words[n].n || memcmp(p, words[n].s, length) != 0)
                        return 0;
                p += length;
                if (!*p++)
                        return n + 1;
        }
        return 0;
}

/* Reads a matrix shape such as m16n8k16; movmatrix and ldmatrix have no k. */
static bool match_shape(struct ds_ptx_word word, uint16_t shape[3])
{
        uint32_t at = 0, i = 0;

        for (; i < 3 && at < word.n; i++) {
                uint32_t value = 0, digits = 0;

                if (word.s[at++] != "mnk"[i])
                        return false;
                for (; at < word.n && word.s[at] >= '0' && word.s[at] <= '9' && digits < 4; at++, digits++)
                        value = value * 10 + (uint32_t)(word.s[at] - '0');
                if (!digits)
                        return false;
                shape[i] = (uint16_t)value;
        }
        return i >= 2 && at == word.n;
}

static bool match_type(const struct ds_ptx_op_info *info, struct ds_ptx_word word, struct ds_ptx_instr *instr)
{
        enum ds_ptx_type type;

        if (instr->n_types == DS_PTX_MAX_TYPES)
                return false;
        type = ds_ptx_type_find(word.s, word.n);
        if (type == DS_PTX_TYPE_NONE || !(info->types[DS_MIN(instr->n_types, 2)] >> type & 1))
                return false;
        instr->types[instr->n_types++] = (uint8_t)type;
        return true;
}

static bool match_element(const struct ds_ptx_index *index, const struct ds_ptx_op_info *info, uint32_t slot,
        struct ds_ptx_word word, struct ds_ptx_instr *instr)
{
        enum ds_ptx_modifier modifier;

        if (slot == DS_PTX_SLOT_TYPE)
                return match_type(info, word, instr);
        if (slot == DS_PTX_SLOT_SHAPE)
                return match_shape(word, instr->shape);
        modifier = find_modifier(index, slot, word);
        if (modifier == DS_PTX_MODIFIER_NONE || instr->n_mods == DS_PTX_MAX_MODS || ds_ptx_mod(instr, modifier))
                return false;
        instr->mods[instr->n_mods++] = (uint16_t)modifier;
        return true;
}

/*
 * Matches words[at] and the following words with the syntax of a row; returns how many match. *ret_ok: all words match,
 * and no required one is missing. With any_order, each word matches the first element that accepts it, for compilers
 * that write `red.global.v4.f32.add`, as the assembler allows; otherwise words must have the row's order.
 */
static uint32_t match_syntax(const struct ds_ptx_index *index, const struct ds_ptx_op_info *info,
        const struct ds_ptx_word *words, uint32_t n_words, uint32_t at, struct ds_ptx_instr *instr, bool *ret_ok)
{
        *ret_ok = false;
        for (size_t i = 0; i < DS_ARRAY_SIZE(info->syntax) && info->syntax[i]; i++) {
                uint32_t slot = info->syntax[i] & ~DS_PTX_SYNTAX_OPTIONAL & 0xff;

                if (at < n_words && match_element(index, info, slot, words[at], instr))
                        at++;
                else if (!(info->syntax[i] & DS_PTX_SYNTAX_OPTIONAL))
                        return at;
        }
        *ret_ok = at == n_words;
        return at;
}

static bool match_any_order(const struct ds_ptx_index *index, const struct ds_ptx_op_info *info,
        const struct ds_ptx_word *words, uint32_t n_words, uint32_t at, struct ds_ptx_instr *instr)
{
        uint32_t used = 0;

        for (; at < n_words; at++) {
                size_t i = 0;

                for (; i < DS_ARRAY_SIZE(info->syntax) && info->syntax[i]; i++) {
                        uint32_t slot = info->syntax[i] & ~DS_PTX_SYNTAX_OPTIONAL & 0xff;

                        if (!(used >> i & 1) && match_element(index, info, slot, words[at], instr))
                                break;
                }
                if (i == DS_ARRAY_SIZE(info->syntax) || !info->syntax[i])
                        return false;
                used |= 1u << i;
        }
        for (size_t i = 0; i < DS_ARRAY_SIZE(info->syntax) && info->syntax[i]; i++)
                if (!(info->syntax[i] & DS_PTX_SYNTAX_OPTIONAL) && !(used >> i & 1))
                        return false;
        return true;
}

/* Finds the first row of the mnemonic that accepts the words; *furthest: most words that a row accepted before the
 * first mismatch. */
static bool match_rows(const struct ds_ptx_index *index, const struct ds_ptx_word *words, uint32_t n_words,
        bool any_order, struct ds_ptx_instr *instr, uint32_t *furthest)
{
        for (uint32_t op = index->op_head[first_word_hash(words[0].s, words[0].n)]; op; op = index->op_next[op - 1]) {
                const struct ds_ptx_op_info *info = &op_table[op - 1];
                struct ds_ptx_instr tried = *instr;
                uint32_t at = match_mnemonic(info->mnemonic, words, n_words);
                bool ok;

                if (!at)
                        continue;
                if (any_order)
                        ok = match_any_order(index, info, words, n_words, at, &tried);
                else
                        at = match_syntax(index, info, words, n_words, at, &tried, &ok);
                if (ok) {
                        tried.op = (uint16_t)(op - 1);
                        *instr = tried;
                        return true;
                }
                *furthest = DS_MAX(*furthest, at);
        }
        return false;
}

enum ds_ptx_match ds_ptx_match(const struct ds_ptx_index *index, const struct ds_ptx_word *words, uint32_t n_words,
        struct ds_ptx_instr *instr, uint32_t *ret_word)
{
        uint32_t furthest = 0, unused = 0;

        if (match_rows(index, words, n_words, false, instr, &furthest))
                return DS_PTX_MATCH_OK;
        *ret_word = furthest;
        if (!furthest)
                return DS_PTX_MATCH_UNKNOWN;
        if (match_rows(index, words, n_words, true, instr, &unused))
                return DS_PTX_MATCH_OK;
        return furthest == n_words ? DS_PTX_MATCH_MISSING : DS_PTX_MATCH_WORD;
}
