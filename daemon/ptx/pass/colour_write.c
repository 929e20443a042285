/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/pass/colour_write.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "ptx/print.h"
#include "util/macro.h"

enum name { PARAM, POOL, TABLE, A, T, P, E, Q, _NAMES };
static const char *const stems[_NAMES] = {
        "ds_colour", "%ds_pool", "%ds_table", "%ds_a", "%ds_t", "%ds_p", "%ds_e", "%ds_q"};
static const char *const keys[_NAMES] = {"param", "pool", "table", "a", "t", "p", "e", "q"};

/* template bindings in addition to `keys` */
enum more { BASE, OFFSET, MASK, BITS, FACTOR, GUARD, SIZE, AND, NOT, _MORE };
static const char *const more_keys[_MORE] = {"base", "offset", "mask", "bits", "factor", "guard", "size", "and", "not"};

static const char regular_top[] = "\t.reg .b64 #pool, #a, #t, #p;\n\tld.param.u64 #pool, [#param];";
static const char table_top[] = "\t.reg .b64 #pool, #table, #a, #t, #p;\n\t.reg .b32 #e;\n\t.reg .pred #q;\n"
                                "\tld.param.u64 #pool, [#param];\n\tld.param.u64 #table, [#param+8];";

/* Offset of all sectors before the address's: one addition for shift 1, as in the paper, several for larger shifts. */
static const char sum_text[] = "\tadd.s64 #a, #base, #offset;";
static const char plain_text[] = "\tadd.s64 #p, #base, #pool;";
static const char once_text[] = "\tand.b64 #t, #base, #mask;\n\tadd.s64 #p, #base, #t;\n\tadd.s64 #p, #p, #pool;";
static const char more_text[] = "\tand.b64 #t, #base, #mask;\n\tmad.lo.s64 #p, #t, #factor, #base;\n"
                                "\tadd.s64 #p, #p, #pool;";

/* Computes the sector's number, its table entry's address, and the offset in the sector. */
static const char index_text[] =
        "\tshr.u64 #t, #base, #bits;\n\tcvt.u32.u64 #e, #t;\n\tmad.wide.u32 #t, #e, 4, #table;";
static const char entry_text[] = "\tld.global.nc.u32 #e, [#t];";
static const char guarded_text[] = "\tmov.u32 #e, 0;\n\t#guard ld.global.nc.u32 #e, [#t];";
static const char place_text[] = "\tmad.wide.u32 #p, #e, #factor, #pool;\n\tand.b64 #t, #base, #mask;\n"
                                 "\tor.b64 #p, #p, #t;";

_Static_assert(!offsetof(struct ds_ptx_colour, pool) && offsetof(struct ds_ptx_colour, table) == 8,
        "the texts above have these numbers");

/* State of writing one kernel's texts */
struct writer {
        ds_ptx_edit *edit;
        const struct ds_ptx_function *to;
        const struct ds_ptx_colour_layout *layout;
        char names[_NAMES][DS_PTX_NAME_MAX], offset[24], mask[24], bits[4], factor[12];
        struct ds_ptx_binding bindings[_NAMES + _MORE];
};

static void bind(struct writer *w, enum more which, const char *text)
{
        w->bindings[_NAMES + which] = (struct ds_ptx_binding){more_keys[which], text};
}

static void before(struct writer *w, uint32_t at, const char *text)
{
        ds_ptx_edit_before(w->edit, w->to, at, text, w->bindings, DS_ARRAY_SIZE(w->bindings));
}

static void begin(struct writer *w)
{
        const struct ds_ptx_colour_layout *l = w->layout;
        uint64_t rest = (UINT64_C(1) << l->sector_bits) - 1;
        char text[DS_PTX_NAME_MAX + 60];
        bool table = l->kind == DS_PTX_COLOUR_TABLE;

        for (int i = 0; i < _NAMES; i++) {
                ds_ptx_edit_fresh(w->edit, stems[i], w->names[i]);
                w->bindings[i] = (struct ds_ptx_binding){keys[i], w->names[i]};
        }
        for (int i = 0; i < _MORE; i++)
                bind(w, (enum more)i, "");
        snprintf(w->mask, sizeof(w->mask), "%" PRId64, (int64_t)(table ? rest : ~rest));
        snprintf(w->bits, sizeof(w->bits), "%u", (unsigned)l->sector_bits);
        snprintf(w->factor, sizeof(w->factor), "%u", table ? 1u << l->sector_bits : (1u << l->shift) - 1);
        bind(w, MASK, w->mask);
        bind(w, BITS, w->bits);
        bind(w, FACTOR, w->factor);
        snprintf(text, sizeof(text), ".param .align 8 .b8 %s[%zu]", w->names[PARAM], sizeof(struct ds_ptx_colour));
        ds_ptx_edit_parameter(w->edit, w->to, text, NULL, 0);
        ds_ptx_edit_top(w->edit, w->to, table ? table_top : regular_top, w->bindings, DS_ARRAY_SIZE(w->bindings));
}

/* Operand of cp.async for a shorter or suppressed read; NULL: the instruction has none. */
static const struct ds_ptx_operand *size_of_copy(const struct ds_ptx_instr *instr)
{
        bool hint = ds_ptx_mod(instr, DS_PTX_HINT_CACHE_HINT) != DS_PTX_MODIFIER_NONE;

        if (instr->op != DS_PTX_OP_CP_ASYNC || instr->n_operands < (hint ? 5 : 4))
                return NULL;
        return &instr->operands[3];
}

/* Computes the predicate q: the access is executed and reads at least one byte. */
static void condition(struct writer *w, uint32_t at, const struct ds_ptx_operand *size)
{
        const struct ds_ptx_instr *instr = &w->to->instrs[at];
        bool guarded = instr->guard != DS_PTX_NO_REG;
        char text[DS_PTX_NAME_MAX + 8];

        bind(w, SIZE, ds_ptx_edit_operand(w->edit, w->to, size));
        bind(w, AND, guarded ? ds_ptx_edit_register(w->edit, w->to, instr->guard) : "");
        bind(w, NOT, guarded && instr->guard_negated ? "!" : "");
        if (size->kind == DS_PTX_OPERAND_REG && w->to->regs[size->reg].type == DS_PTX_TYPE_PRED) {
                /* the operand is a predicate that is true to read nothing */
                before(w, at, "\tselp.b32 #e, 0, 1, #size;");
                bind(w, SIZE, w->names[E]);
        }
        before(w, at, guarded ? "\tsetp.ne.and.u32 #q, #size, 0, #not#and;" : "\tsetp.ne.u32 #q, #size, 0;");
        snprintf(text, sizeof(text), "@%s", w->names[Q]);
        bind(w, GUARD, text);
        before(w, at, guarded_text);
}

static void look_up(struct writer *w, uint32_t at)
{
        const struct ds_ptx_instr *instr = &w->to->instrs[at];
        const struct ds_ptx_operand *size = size_of_copy(instr);

        before(w, at, index_text);
        if (size) {
                condition(w, at, size);
        } else if (instr->guard != DS_PTX_NO_REG) {
                bind(w, GUARD, ds_ptx_edit_guard(w->edit, w->to, instr));
                before(w, at, guarded_text);
        } else {
                before(w, at, entry_text);
        }
        before(w, at, place_text);
}

/* Replaces the access by one at the translated address. */
static void replace(struct writer *w, uint32_t at, uint32_t which, int64_t offset)
{
        struct ds_ptx_instr instr = w->to->instrs[at];
        struct ds_ptx_operand operands[DS_PTX_MAX_OPERANDS];
        const struct ds_ptx_var place = {.name = w->names[P]};
        char *text = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&text, &length);

        for (uint32_t i = 0; i < instr.n_operands; i++)
                operands[i] = instr.operands[i];
        operands[which].reg = DS_PTX_NO_REG;
        operands[which].var = &place;
        operands[which].offset = offset;
        operands[which].plus = offset != 0;
        instr.operands = operands;
        if (out)
                ds_ptx_print_instr(out, w->to, &instr);
        if (!out || fclose(out) || !length) {
                ds_ptx_edit_fail(w->edit);
        } else {
                text[length - 1] = '\0'; /* removes the text's line break */
                ds_ptx_edit_replace(w->edit, w->to, at, text, NULL, 0);
        }
        free(text);
}

/* Whether the access is a prefetch: it may have an address outside any tensor, for which the table has no entry. */
static bool is_advice(const struct ds_ptx_instr *instr)
{
        return instr->op == DS_PTX_OP_PREFETCH || instr->op == DS_PTX_OP_PREFETCHU;
}

static void translate(struct writer *w, uint32_t at, uint32_t which)
{
        const struct ds_ptx_operand *address = &w->to->instrs[at].operands[which];
        const struct ds_ptx_colour_layout *l = w->layout;
        bool regular = l->kind == DS_PTX_COLOUR_REGULAR, whole = regular && !l->shift;

        if (!regular && is_advice(&w->to->instrs[at])) {
                ds_ptx_edit_remove(w->edit, w->to, at);
                return;
        }
        bind(w, BASE, ds_ptx_edit_register(w->edit, w->to, address->reg));
        if (address->offset && !whole) {
                snprintf(w->offset, sizeof(w->offset), "%" PRId64, address->offset);
                bind(w, OFFSET, w->offset);
                before(w, at, sum_text);
                bind(w, BASE, w->names[A]);
        }
        if (!regular)
                look_up(w, at);
        else
                before(w, at, whole ? plain_text : l->shift == 1 ? once_text : more_text);
        replace(w, at, which, whole ? address->offset : 0);
}

void ds_ptx_colour_write(ds_ptx_edit *edit, const struct ds_ptx_colour_trace *trace, const struct ds_ptx_function *to,
        const struct ds_ptx_colour_layout *layout)
{
        struct writer w = {.edit = edit, .to = to, .layout = layout};

        begin(&w);
        for (uint32_t i = 0; i < to->n_instrs; i++)
                if (trace->accesses[i])
                        translate(&w, i, trace->accesses[i] - 1u);
}
