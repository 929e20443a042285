/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PTX front end on small texts: content of the IR, places of errors, bounds
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/ir.h"
#include "ptx/ptx.h"
#include "util/alloc.h"
#include "util/macro.h"

#define HEAD ".version 8.2\n.target sm_90\n.address_size 64\n"

static ds_ptx_module *parse_ok(const char *text)
{
        struct ds_ptx_diags diags;
        ds_ptx_module *module = NULL;
        char errors[4096];
        int r = ds_ptx_parse(text, strlen(text), 0, &diags, &module);

        ds_ptx_diags_format(&diags, "test", errors, sizeof(errors));
        cr_assert_eq(r, 0, "%d: %s", r, errors);
        cr_assert(module);
        return module;
}

static struct ds_ptx_diags parse_bad(const char *text)
{
        struct ds_ptx_diags diags;
        ds_ptx_module *module = NULL;

        cr_assert_eq(ds_ptx_parse(text, strlen(text), 0, &diags, &module), DS_PTX_E_INVALID, "%s", text);
        cr_assert_null(module);
        cr_assert_gt(diags.total, 0);
        return diags;
}

static void expect_error(const char *text, uint32_t line, uint32_t column, const char *message)
{
        struct ds_ptx_diags diags = parse_bad(text);

        cr_expect_eq(diags.diag[0].line, line, "%s: line %u", text, diags.diag[0].line);
        cr_expect_eq(diags.diag[0].column, column, "%s: column %u", text, diags.diag[0].column);
        cr_expect_str_eq(diags.diag[0].message, message);
}

/* Makes the text of a kernel with these statements, and with registers of every type */
static char *kernel(const char *body)
{
        static char text[4096];

        snprintf(text, sizeof(text),
                HEAD ".global .align 4 .b8 g[64];\n.visible .entry k(.param .u64 p)\n{\n"
                     ".reg .pred %%p<4>; .reg .b16 %%h<4>; .reg .b32 %%r<8>; .reg .f32 %%f<8>; .reg .f64 %%d<4>; "
                     ".reg .b64 %%rd<4>;\n%s\nret;\n}\n",
                body);
        return text;
}

static const struct ds_ptx_instr *first(const ds_ptx_module *module)
{
        return &module->functions[0]->instrs[0];
}

/* --- content of the IR ------------------------------------------------------------------------------------------- */
Test(ptx_parse, module_header)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *m = parse_ok(".version 8.0\n.target sm_90a, debug\n");

        cr_expect_eq(m->version, 80);
        cr_expect_eq(m->target, 90);
        cr_expect_eq(m->target_suffix, 'a');
        cr_expect_str_eq(m->target_text, "sm_90a, debug");
        cr_expect_not(m->address_size_given);
        cr_expect_eq(m->n_directives, 0);
}

Test(ptx_parse, instruction_fields)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *m =
                parse_ok(kernel("@!%p1 ld.volatile.global.v2.f32 {%f1, %f2}, [%rd1+8];"));
        const struct ds_ptx_instr *i = first(m);

        cr_expect_eq(i->op, DS_PTX_OP_LD);
        cr_expect_str_eq(i->text, "ld.volatile.global.v2.f32");
        cr_expect_eq(ds_ptx_mod(i, DS_PTX_SEM_WEAK), DS_PTX_SEM_VOLATILE);
        cr_expect(ds_ptx_has(i, DS_PTX_SPACE_GLOBAL));
        cr_expect_eq(ds_ptx_instr_space(i), DS_PTX_IN_GLOBAL);
        cr_expect_eq(ds_ptx_instr_vector(i), 2);
        cr_expect_eq(i->n_types, 1);
        cr_expect_eq(i->types[0], DS_PTX_TYPE_F32);
        cr_expect(i->guard_negated);
        cr_expect_eq(m->functions[0]->regs[i->guard].type, DS_PTX_TYPE_PRED);
        cr_expect_eq(i->line, 8);
        cr_expect_eq(i->column, 7);
        cr_assert_eq(i->n_operands, 2);
        cr_expect_eq(i->operands[0].kind, DS_PTX_OPERAND_VECTOR);
        cr_expect_eq(i->operands[0].n_elements, 2);
        cr_expect_eq(i->operands[1].kind, DS_PTX_OPERAND_ADDRESS);
        cr_expect_eq(i->operands[1].offset, 8);
        cr_expect_eq(m->functions[0]->regs[i->operands[1].reg].type, DS_PTX_TYPE_B64);
}

Test(ptx_parse, rows_of_one_mnemonic)
{
        static const struct {
                const char *text;
                enum ds_ptx_op op;
        } cases[] = {
                {"add.u32 %r1, %r2, 1;", DS_PTX_OP_ADD},
                {"add.cc.u32 %r1, %r2, 1;", DS_PTX_OP_ADD_CC},
                {"add.rn.ftz.f32 %f1, %f2, %f3;", DS_PTX_OP_FADD},
                {"mad.lo.s32 %r1, %r2, %r3, 4;", DS_PTX_OP_MAD},
                {"mad.lo.cc.u32 %r1, %r2, %r3, 4;", DS_PTX_OP_MAD_CC},
                {"mad.rn.f32 %f1, %f2, %f3, %f1;", DS_PTX_OP_FMAD},
                {"lop3.b32 %r1, %r2, %r3, %r4, 1;", DS_PTX_OP_LOP3},
                {"lop3.or.b32 %r1|%p1, %r2, %r3, %r4, 1, %p2;", DS_PTX_OP_LOP3_BOOL},
                {"atom.global.add.u32 %r1, [%rd1], 1;", DS_PTX_OP_ATOM},
                {"atom.global.cas.b32 %r1, [%rd1], 1, 2;", DS_PTX_OP_ATOM_CAS},
                {"atom.global.gpu.relaxed.exch.b32 %r1, [%rd1], 1;", DS_PTX_OP_ATOM_EXCH},
                {"bar.sync 0;", DS_PTX_OP_BAR_SYNC},
                {"bar.warp.sync -1;", DS_PTX_OP_BAR_WARP_SYNC},
                {"red.global.v2.f32.add [%rd1], {%f1, %f2};", DS_PTX_OP_RED},
                {"vote.ballot.sync.b32 %r1, %p1, -1;", DS_PTX_OP_VOTE},
                {"cp.async.wait_group 1;", DS_PTX_OP_CP_ASYNC_WAIT_GROUP},
                {"cp.async.ca.shared.global [%r1], [%rd1], 4;", DS_PTX_OP_CP_ASYNC},
        };

        for (size_t i = 0; i < DS_ARRAY_SIZE(cases); i++) {
                ds_cleanup(ds_ptx_module_freep) ds_ptx_module *m = parse_ok(kernel(cases[i].text));

                cr_expect_eq(first(m)->op, cases[i].op, "%s is %s", cases[i].text,
                        ds_ptx_op_info((enum ds_ptx_op)first(m)->op)->key);
        }
}

Test(ptx_parse, constants_keep_their_bits)
{
        static const struct {
                const char *text;
                enum ds_ptx_operand_kind kind;
                uint64_t bits;
        } cases[] = {
                {"mov.u32 %r1, -5;", DS_PTX_OPERAND_INT, UINT64_MAX - 4},
                {"mov.u64 %rd1, 0xFFFFFFFFFFFFFFFF;", DS_PTX_OPERAND_INT, UINT64_MAX},
                {"mov.u32 %r1, 1 + 2 * 3;", DS_PTX_OPERAND_INT, 7},
                {"mov.s32 %r1, -7 / 2;", DS_PTX_OPERAND_INT, (uint64_t)-3},
                {"mov.u32 %r1, 7U / 2;", DS_PTX_OPERAND_INT, 3},
                {"mov.u64 %rd1, (-9223372036854775807 - 1) / -1;", DS_PTX_OPERAND_INT, UINT64_C(1) << 63},
                {"mov.u64 %rd1, 1 << 64;", DS_PTX_OPERAND_INT, 0},
                {"mov.f32 %f1, 0f7FC00001;", DS_PTX_OPERAND_F32, 0x7FC00001},
                {"mov.f32 %f1, 0.1;", DS_PTX_OPERAND_F32, 0x3DCCCCCD},
                {"mov.f64 %d1, 0.1;", DS_PTX_OPERAND_F64, 0x3FB999999999999A},
                /* a single-precision constant keeps its bits in a double-precision move, as with NVIDIA's assembler */
                {"mov.f64 %d1, 0f3F800000;", DS_PTX_OPERAND_F64, 0x3F800000},
                {"mov.f32 %f1, 0d3FF0000000000000;", DS_PTX_OPERAND_F32, 0x3F800000},
                {"mov.u32 %r1, (.u64)-1 / 2;", DS_PTX_OPERAND_INT, INT64_MAX},
                {"mov.u32 %r1, !1 + 4;", DS_PTX_OPERAND_INT, 4},
                {"mov.f64 %d1, -0.0;", DS_PTX_OPERAND_F64, UINT64_C(1) << 63},
                {"mov.b32 %r1, WARP_SZ;", DS_PTX_OPERAND_INT, 32},
        };

        for (size_t i = 0; i < DS_ARRAY_SIZE(cases); i++) {
                ds_cleanup(ds_ptx_module_freep) ds_ptx_module *m = parse_ok(kernel(cases[i].text));

                cr_expect_eq(first(m)->operands[1].kind, cases[i].kind, "%s", cases[i].text);
                cr_expect_eq(first(m)->operands[1].bits, cases[i].bits, "%s", cases[i].text);
        }
}

Test(ptx_parse, registers_are_dense_and_scoped)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *m = parse_ok(HEAD
                ".visible .entry k() { .reg .b32 %r<1000000>;\n"
                "mov.u32 %r999999, 1; { .reg .f32 %r<3>; mov.f32 %r1, 0f00000000; } mov.u32 %r1, %r999999; ret; }");
        const struct ds_ptx_function *f = m->functions[0];
        char name[32];

        cr_assert_eq(f->n_regs, 3);
        cr_expect_str_eq(ds_ptx_reg_name(f, 0, name, sizeof(name)), "%r999999");
        cr_expect_eq(f->regs[1].type, DS_PTX_TYPE_F32);
        cr_expect_eq(f->regs[2].type, DS_PTX_TYPE_B32);
        cr_expect_eq(f->instrs[2].operands[0].reg, 2);
        cr_expect_eq(f->instrs[2].operands[1].reg, 0);
}

Test(ptx_parse, labels_belong_to_their_scope)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *m =
                parse_ok(kernel("bra L; { bra L; L: bar.sync 0; { bra L; } } L: bar.sync 1; bra END; END:"));
        const struct ds_ptx_function *f = m->functions[0];
        const uint32_t *target[] = {&f->labels[f->instrs[0].operands[0].label].instr,
                &f->labels[f->instrs[1].operands[0].label].instr, &f->labels[f->instrs[3].operands[0].label].instr};

        cr_expect_eq(*target[0], 4);
        cr_expect_eq(*target[1], 2);
        cr_expect_eq(*target[2], 2);
}

Test(ptx_parse, parameters_are_laid_out)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *m =
                parse_ok(HEAD ".visible .entry k(.param .u8 a, .param .u64 .ptr .global .align 16 b, .param .u16 c,\n"
                              ".param .align 4 .b8 d[10], .param .f64 e) .maxntid 64, 2 .minnctapersm 3 { ret; }");
        const struct ds_ptx_function *f = m->functions[0];
        const uint64_t offsets[] = {0, 8, 16, 20, 32};

        cr_assert_eq(f->n_params, 5);
        for (uint32_t i = 0; i < 5; i++)
                cr_expect_eq(f->params[i]->offset, offsets[i], "parameter %u at %lu", i, f->params[i]->offset);
        cr_expect_eq(f->params_size, 40);
        cr_expect_eq(f->params[1]->ptr_space, DS_PTX_IN_GLOBAL);
        cr_expect_eq(f->params[1]->ptr_align, 16);
        cr_expect_eq(f->limits.maxntid[0], 64);
        cr_expect_eq(f->limits.maxntid[2], 1);
        cr_expect_eq(f->limits.minnctapersm, 3);
}

Test(ptx_parse, initialisers_become_bytes_and_relocations)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *m =
                parse_ok(HEAD ".global .u32 a;\n.global .align 8 .u64 p[4] = {7, generic(a)+4, a};\n"
                              ".const .f32 f[3] = {1.0, 0f40000000};\n.global .s16 n[2][2] = {{1, -1}, {2}};\n"
                              ".global .b8 open[] = {1, 2, 3};\n.global .u8 mask[2] = {0xFF00(a), 9};\n");
        const struct ds_ptx_var *p = m->vars[1], *f = m->vars[2], *n = m->vars[3];

        cr_expect_eq(p->size, 32);
        cr_expect_eq(p->initialised, 24);
        cr_expect_eq(p->data[0], 7);
        cr_assert_eq(p->n_relocs, 2);
        cr_expect_eq(p->relocs[0].offset, 8);
        cr_expect_eq(p->relocs[0].addend, 4);
        cr_expect(p->relocs[0].generic);
        cr_expect_eq(p->relocs[1].var, m->vars[0]);
        cr_expect_not(p->relocs[1].generic);
        cr_expect_eq(f->size, 12);
        cr_expect_arr_eq(f->data, "\x00\x00\x80\x3f\x00\x00\x00\x40", 8);
        cr_expect_arr_eq(n->data, "\x01\x00\xff\xff\x02\x00", 6);
        cr_expect_eq(m->vars[4]->dims[0], 3);
        cr_expect_eq(m->vars[4]->size, 3);
        cr_expect_eq(m->vars[5]->relocs[0].mask, 0xff00);
        cr_expect_eq(m->vars[5]->relocs[0].size, 1);
}

Test(ptx_parse, calls_and_definitions)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *m = parse_ok(HEAD
                ".func (.param .b32 r) f(.param .b32 a);\n.extern .global .u32 x;\n"
                ".visible .entry k() { .reg .b32 %r<2>; .param .b32 a; .param .b32 r; st.param.b32 [a], 5;\n"
                "call.uni (r), f, (a); ld.param.b32 %r1, [r]; ld.global.u32 %r0, [x]; ret; }\n"
                ".func (.param .b32 r) f(.param .b32 a) { st.param.b32 [r], 1; ret; }\n.visible .global .u32 x = 5;\n"
                ".visible .func (.param .b32 r) other(.param .b32 a);\n.alias other, f;\n");
        const struct ds_ptx_call *call = m->functions[1]->instrs[1].operands[0].call;

        cr_assert_eq(m->n_functions, 4);
        cr_expect_eq(call->function, m->functions[0]);
        cr_expect_eq(call->function->definition, m->functions[2]);
        cr_expect_eq(call->n_rets, 1);
        cr_expect_eq(call->args[0].kind, DS_PTX_OPERAND_VAR);
        cr_expect_eq(call->args[0].var->space, DS_PTX_IN_PARAM);
        cr_expect_eq(m->vars[0]->definition, m->vars[1]);
        cr_expect_eq(m->functions[3]->definition, m->functions[2]);
}

/* --- places of errors -------------------------------------------------------------------------------------------- */
Test(ptx_parse, errors_have_places)
{
        expect_error("", 1, 1, "the text has no .version and .target");
        expect_error("// nothing\n", 2, 1, "the text has no .version and .target");
        expect_error(".target sm_75\n", 1, 1, "the text does not begin with .version");
        expect_error(".version 8.0\n.global .u32 x;\n", 2, 1, ".target is missing after .version");
        expect_error(".version 5.0\n.target sm_75\n", 1, 10, "PTX version 5.0 is not supported (6.0 to 9.9 are)");
        expect_error(".version 8.0\n.target pentium\n", 2, 9, "expected a target such as sm_75 before 'pentium'");
        expect_error(HEAD "foo\n", 4, 1, "expected a directive before 'foo'");
        expect_error(HEAD ".visible .entry k()\n{\n  foo.bar %r1;\n}\n", 6, 3, "unknown instruction 'foo.bar'");
        expect_error(HEAD ".visible .entry k()\n{\n  ret\n}\n", 7, 1, "expected a constant before '}'");
        expect_error(HEAD ".visible .entry k() { bra L; }\n", 4, 27, "label 'L' is not defined");
        expect_error(HEAD "\t\xff\n", 4, 2, "this character is not allowed in PTX");
}

Test(ptx_parse, one_statement_one_error)
{
        struct ds_ptx_diags diags = parse_bad(kernel("ld.global.v2.u32 {%r1, %bad}, [%rd1]; foo; mov.u32 %r1, ;"));

        cr_assert_eq(diags.total, 3);
        cr_expect_str_eq(diags.diag[0].message, "'%bad' is not defined");
        cr_expect_str_eq(diags.diag[1].message, "unknown instruction 'foo'");
        cr_expect_str_eq(diags.diag[2].message, "expected a constant before ';'");
}

Test(ptx_parse, format_cuts_and_escapes)
{
        struct ds_ptx_diags diags = parse_bad(HEAD "\x1b[31mred \x01 oops\n");
        char buffer[512], small[20];
        size_t n = ds_ptx_diags_format(&diags, "file", buffer, sizeof(buffer));

        cr_expect_eq(n, strlen(buffer));
        cr_expect_null(strchr(buffer, '\x1b'));
        cr_expect(strstr(buffer, "file:4:1: error: "));
        cr_expect_eq(ds_ptx_diags_format(&diags, "file", small, sizeof(small)), n);
        cr_expect_eq(strlen(small), sizeof(small) - 1);
        cr_expect_eq(ds_ptx_diags_format(&diags, "file", NULL, 0), n);
}

/* --- bounds ------------------------------------------------------------------------------------------------------ */
static char *repeated(const char *before, const char *unit, size_t n, const char *after)
{
        size_t length = strlen(unit);
        char *text = malloc(strlen(before) + length * n + strlen(after) + 1), *p = text;

        cr_assert(text);
        p = stpcpy(p, before);
        for (size_t i = 0; i < n; i++)
                p = stpcpy(p, unit);
        strcpy(p, after);
        return text;
}

/* A register range in an inner scope hides outer registers with its names, also ones used before. All other names
 * still mean the outer range's registers. */
Test(ptx_parse, ranges_of_scopes)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *m = parse_ok(
                HEAD ".entry k()\n{\n.reg .b64 %x<10>;\nmov.b64 %x1, 1;\n{\n.reg .b32 %x<3>;\nmov.b32 %x1, 2;\n"
                     "mov.b64 %x7, 3;\n}\nmov.b64 %x1, 4;\nret;\n}\n");
        const struct ds_ptx_function *f = m->functions[0];

        cr_expect_eq(f->instrs[0].operands[0].reg, f->instrs[3].operands[0].reg);
        cr_expect_neq(f->instrs[0].operands[0].reg, f->instrs[1].operands[0].reg);
        cr_expect_eq(f->regs[f->instrs[1].operands[0].reg].type, DS_PTX_TYPE_B32);
        cr_expect_eq(f->regs[f->instrs[2].operands[0].reg].type, DS_PTX_TYPE_B64);
        expect_error(HEAD ".entry k()\n{\n.reg .b64 %x<4>;\n{\n.reg .b32 %x<3>;\n}\nmov.b64 %x4, 1;\n}\n", 10, 9,
                "'%x4' is not defined");
}

Test(ptx_parse, nesting_is_bounded)
{
        static const struct {
                const char *before, *unit, *after, *message;
        } cases[] = {
                {HEAD ".visible .entry k() {", "{", "", "scopes nest more than 64 deep"},
                {HEAD ".global .u32 x = ", "(", "1;", "this expression nests too deeply"},
                {HEAD ".global .u32 x = ", "-", "1;", "this expression nests too deeply"},
                {HEAD ".global .u32 x = 1", " ? 1", ";", "this expression nests too deeply"},
                {HEAD ".global .u32 x[1] = ", "{", "", "the braces do not have the variable's shape"},
                {HEAD ".global .u32 x", "[1]", ";", "an array has at most 8 dimensions"},
        };

        for (size_t i = 0; i < DS_ARRAY_SIZE(cases); i++) {
                char *text = repeated(cases[i].before, cases[i].unit, 100000, cases[i].after);
                struct ds_ptx_diags diags = parse_bad(text);

                cr_expect_str_eq(diags.diag[0].message, cases[i].message);
                free(text);
        }
}

Test(ptx_parse, counts_are_bounded)
{
        char *words = repeated(HEAD ".visible .entry k() { ld", ".global", 100000, " %r1; }");
        char *operands = repeated(HEAD ".visible .entry k() { .reg .b32 r; add.u32 r", ", r", 100000, "; }");
        char *vector = repeated(HEAD ".visible .entry k() { .reg .b32 r; mov.b32 r, {r", ", r", 100000, "}; }");
        char *errors = repeated(HEAD ".visible .entry k() {", "x;", 100000, "}");
        struct ds_ptx_diags diags = parse_bad(words);

        cr_expect(strncmp(diags.diag[0].message, "unknown instruction 'ld.global.", 31) == 0);
        diags = parse_bad(operands);
        cr_expect_str_eq(diags.diag[0].message, "'add.u32' has too many operands");
        diags = parse_bad(vector);
        cr_expect_str_eq(diags.diag[0].message, "a vector has at most 256 elements");
        diags = parse_bad(errors);
        cr_expect_eq(diags.n, DS_PTX_DIAGS_MAX);
        cr_expect_lt(diags.total, 1100);
        free(words);
        free(operands);
        free(vector);
        free(errors);
}

Test(ptx_parse, memory_is_bounded)
{
        char *instrs = repeated(HEAD ".visible .entry k() { .reg .b32 r;", "add.u32 r, r, r;", 100000, "}");
        struct ds_ptx_diags diags;
        ds_ptx_module *module = NULL;

        cr_expect_eq(ds_ptx_parse(instrs, strlen(instrs), (size_t)4 << 20, &diags, &module), -ENOMEM);
        cr_expect_null(module);
        cr_expect_eq(ds_ptx_parse(instrs, strlen(instrs), 10, &diags, &module), -ENOMEM);
        cr_expect_eq(ds_ptx_parse(instrs, strlen(instrs), 0, &diags, &module), 0);
        module = ds_ptx_module_free(module);
        free(instrs);
        instrs = strdup(HEAD ".global .b8 x[1000000][1000000] = {{1}, {2}};");
        cr_expect_eq(ds_ptx_parse(instrs, strlen(instrs), 0, &diags, &module), DS_PTX_E_INVALID);
        free(instrs);
}

Test(ptx_parse, every_failing_allocation_is_survived)
{
        const char *text = kernel("{ .reg .f32 x<3>; L: add.f32 x1, x2, %f1; @%p1 bra L; st.global.f32 [%rd1], x1; }");
        struct ds_ptx_diags diags;
        ds_ptx_module *module = NULL;
        int r = -ENOMEM, n;

        for (n = 0; r == -ENOMEM && n < 100; n++) {
                ds_alloc_fail_after(n);
                r = ds_ptx_parse(text, strlen(text), 0, &diags, &module);
                ds_alloc_fail_after(-1);
        }
        cr_expect_eq(r, 0);
        cr_expect_gt(n, 2);
        ds_ptx_module_free(module);
}
