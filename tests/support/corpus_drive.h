/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches kernels of the corpus that have no host program
 *
 * The kind of a parameter follows from the kernel's instructions. A 64-bit parameter is an address if it reaches an address
 * operand, directly or as part of a sum; otherwise it is a number. A 32-bit parameter that is loaded into a float register
 * is a float. Structures are treated word by word. If the use of a 64-bit parameter is not visible (a function takes it),
 * both kinds are tried. Addresses point into one arena of memory; all numbers of a launch have the same small value. A short
 * list has the launches to try; the caller drops those that fault.
 *
 * Fillings of the arena suit different types: small integers, normally distributed floats of each size, random bits. All
 * come from seeds.
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/interp/interp.h"
#include "ptx/ir.h"
#include "util/macro.h"

#define DRIVE_SLOT ((uint64_t)256 << 10) /* bytes between two addresses among the parameters */
#define DRIVE_SLOTS 16
#define DRIVE_ARENA (DRIVE_SLOT * DRIVE_SLOTS)
#define DRIVE_PARAMS 4096  /* most bytes of parameters */
#define DRIVE_FIELDS 128   /* most distinct loads from parameters */
#define DRIVE_N_LAUNCHES 8 /* number of launches in the list */
#define DRIVE_SHARED_MAX (227u << 10)
#define DRIVE_DYNAMIC (160u << 10)

enum drive_filling { DRIVE_SMALL, DRIVE_F32, DRIVE_F16, DRIVE_F64, DRIVE_BF16, DRIVE_BITS, DRIVE_N_FILLINGS };
enum drive_is { DRIVE_UNSEEN, DRIVE_NUMBER, DRIVE_FLOAT, DRIVE_ADDRESS };

/* Reasons why a kernel's results cannot be compared bit by bit */
enum drive_class {
        DRIVE_APPROX = 1, /* instructions for which PTX states an error bound, not a value */
        DRIVE_TIMED = 2,  /* clocks, and which SM, warp slot or part of the machine it ran on */
        DRIVE_ATOMIC = 4, /* atomics whose order shows: of floats, or results that are used */
};

struct drive_field {
        uint32_t offset, size;
        enum drive_is is;
};

struct drive {
        const struct ds_ptx_function *function;
        const struct ds_interp_kernel_info *info;
        struct drive_field field[DRIVE_FIELDS];
        uint32_t n_fields, unseen;   /* number of 64-bit parameters of unknown kind */
        uint32_t class;              /* enum drive_class, the reasons together; 0: none */
        int dynamic;                 /* 1: the kernel uses dynamic shared memory */
        uint8_t thread[3], block[3]; /* 1 for each dimension of %tid or %ctaid that the kernel reads */
        int warps;                   /* 1: the kernel reads the number of its lane or warp */
};

struct drive_launch {
        uint32_t n, grid[3], block[3], cluster[3], dynamic;
};

static inline uint64_t drive_random(uint64_t *state)
{
        /* splitmix64, Steele, Lea and Flood 2014 */
        uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return z ^ z >> 31;
}

/* A normally distributed number, nearly: the sum of twelve uniform ones */
static inline double drive_normal(uint64_t *state)
{
        double sum = -6;

        for (int i = 0; i < 3; i++) {
                uint64_t z = drive_random(state);

                for (int k = 0; k < 4; k++, z >>= 16)
                        sum += (double)(z & 0xffff) / 65536;
        }
        return sum;
}

static inline void drive_fill(uint8_t *to, uint64_t size, enum drive_filling filling, uint64_t seed)
{
        for (uint64_t at = 0; at < size; at += 8) {
                uint64_t word = 0;

                if (filling == DRIVE_F64) {
                        double d = drive_normal(&seed);

                        memcpy(&word, &d, 8);
                } else if (filling == DRIVE_SMALL || filling == DRIVE_BITS) {
                        word = drive_random(&seed) & (filling == DRIVE_SMALL ? UINT64_C(0x1f0000001f) : UINT64_MAX);
                } else {
                        int bits = filling == DRIVE_F32 ? 32 : 16;

                        for (int i = 0; i < 64; i += bits) {
                                float f = (float)drive_normal(&seed);
                                uint32_t u;

                                memcpy(&u, &f, 4);
                                if (filling == DRIVE_BF16)
                                        u >>= 16;
                                else if (filling == DRIVE_F16)
                                        u = fabsf(f) < 0.0001f ? 0
                                                               : (u >> 16 & 0x8000) | (((u >> 23 & 255) - 112) << 10 |
                                                                                              (u >> 13 & 1023));
                                word |= (uint64_t)u << i;
                        }
                }
                memcpy(to + at, &word, 8);
        }
}

/* --- kinds of parameters ---------- */
static inline struct drive_field *drive_field_at(struct drive *d, uint64_t offset, uint32_t size)
{
        for (uint32_t i = 0; i < d->n_fields; i++)
                if (d->field[i].offset == offset)
                        return &d->field[i];
        if (d->n_fields == DRIVE_FIELDS)
                return NULL;
        d->field[d->n_fields] = (struct drive_field){(uint32_t)offset, size, DRIVE_UNSEEN};
        return &d->field[d->n_fields++];
}

static inline void drive_load(struct drive *d, const struct ds_ptx_instr *in, int32_t *from)
{
        const struct ds_ptx_operand *to = &in->operands[0], *address = &in->operands[1];
        uint32_t n = to->kind == DS_PTX_OPERAND_VECTOR ? to->n_elements : 1;
        uint32_t size = in->n_types ? ds_ptx_type_bits(in->types[0]) / 8 : 0;

        if (address->kind != DS_PTX_OPERAND_ADDRESS || !address->var || address->var->index >= d->function->n_params ||
                d->function->params[address->var->index] != address->var || address->reg != DS_PTX_NO_REG)
                return;
        for (uint32_t i = 0; i < n; i++) {
                const struct ds_ptx_operand *reg = to->kind == DS_PTX_OPERAND_VECTOR ? &to->elements[i] : to;
                struct drive_field *f =
                        drive_field_at(d, address->var->offset + (uint64_t)address->offset + i * size, size);

                if (!f || reg->kind != DS_PTX_OPERAND_REG)
                        continue;
                if (size < 8 || ds_ptx_type_is_float(d->function->regs[reg->reg].type))
                        f->is = ds_ptx_type_is_float(d->function->regs[reg->reg].type) ? DRIVE_FLOAT : DRIVE_NUMBER;
                from[reg->reg] = (int32_t)(f - d->field);
        }
}

static inline int drive_copies(const struct ds_ptx_instr *in)
{
        return strncmp(in->text, "mov.", 4) == 0 || strncmp(in->text, "cvta.", 5) == 0;
}

static inline int drive_adds(const struct ds_ptx_instr *in)
{
        return strncmp(in->text, "add.", 4) == 0 || strncmp(in->text, "mad.", 4) == 0 ||
               strncmp(in->text, "selp.", 5) == 0 || strncmp(in->text, "sub.", 4) == 0;
}

/* The parameter from which a result comes. In a sum, a part that is known to be an address takes precedence. */
static inline int32_t drive_source(const struct drive *d, const struct ds_ptx_instr *in, const int32_t *from)
{
        int32_t source = -1;

        for (uint32_t i = 1; i < in->n_operands; i++) {
                int32_t f = in->operands[i].kind == DS_PTX_OPERAND_REG ? from[in->operands[i].reg] : -1;

                if (f >= 0 && d->field[f].size == 8 && (source < 0 || d->field[f].is == DRIVE_ADDRESS))
                        source = f;
        }
        return source;
}

/* One pass over the instructions, which follows parameters to their uses; sums: also through sums. A parameter used
 * as an address anywhere is an address. */
static inline void drive_walk(struct drive *d, int32_t *from, int sums)
{
        for (uint32_t i = 0; i < d->function->n_instrs; i++) {
                const struct ds_ptx_instr *in = &d->function->instrs[i];
                int32_t source = -1;

                if (strncmp(in->text, "ld.param", 8) == 0)
                        drive_load(d, in, from);
                else if (in->n_operands > 1 && in->operands[0].kind == DS_PTX_OPERAND_REG &&
                         (drive_copies(in) || (sums && drive_adds(in))))
                        source = drive_source(d, in, from);
                if (source >= 0)
                        from[in->operands[0].reg] = source;
                if (source >= 0 && strncmp(in->text, "cvta.to", 7) == 0)
                        d->field[source].is = DRIVE_ADDRESS;
                for (uint32_t k = 0; k < in->n_operands; k++) {
                        const struct ds_ptx_operand *o = &in->operands[k];

                        if (o->kind == DS_PTX_OPERAND_ADDRESS && o->reg != DS_PTX_NO_REG && from[o->reg] >= 0 &&
                                d->field[from[o->reg]].size == 8)
                                d->field[from[o->reg]].is = DRIVE_ADDRESS;
                }
        }
}

/* --- kinds of instructions -------- */
static inline int drive_timed(const struct ds_ptx_operand *o)
{
        if (o->kind != DS_PTX_OPERAND_SREG)
                return 0;
        return o->sreg == DS_PTX_SREG_WARPID || o->sreg == DS_PTX_SREG_NWARPID || o->sreg == DS_PTX_SREG_SMID ||
               o->sreg == DS_PTX_SREG_NSMID || o->sreg == DS_PTX_SREG_GRIDID ||
               (o->sreg >= DS_PTX_SREG_CLOCK && o->sreg <= DS_PTX_SREG_AGGR_SMEM_SIZE) ||
               o->sreg >= DS_PTX_SREG_CURRENT_GRAPH_EXEC;
}

static inline uint32_t drive_classify(const struct ds_ptx_function *f, int *calls)
{
        uint32_t class = 0;

        for (uint32_t i = 0; i < f->n_instrs; i++) {
                const struct ds_ptx_instr *in = &f->instrs[i];
                int red = strncmp(in->text, "red.", 4) == 0, atom = strncmp(in->text, "atom.", 5) == 0;

                if (strstr(in->text, ".approx") || strstr(in->text, ".full"))
                        class |= DRIVE_APPROX;
                if (atom && in->operands[0].kind != DS_PTX_OPERAND_SINK)
                        class |= DRIVE_ATOMIC;
                if ((red || atom) && in->n_types && ds_ptx_type_is_float(in->types[0]))
                        class |= DRIVE_ATOMIC;
                *calls |= strncmp(in->text, "call", 4) == 0;
                for (uint32_t k = 0; k < in->n_operands; k++)
                        class |= drive_timed(&in->operands[k]) ? DRIVE_TIMED : 0;
        }
        return class;
}

/* Finds the dimensions that the function reads. Threads and blocks that differ only in other dimensions would do the
 * same at the same time. */
static inline void drive_dimensions(struct drive *d, const struct ds_ptx_function *f)
{
        for (uint32_t i = 0; i < f->n_instrs; i++) {
                const struct ds_ptx_instr *in = &f->instrs[i];
                uint8_t class = ds_ptx_op_info((enum ds_ptx_op)in->op)->class;

                d->warps |= class == DS_PTX_CLASS_WARP || class == DS_PTX_CLASS_TENSOR;
                for (uint32_t k = 0; k < in->n_operands; k++) {
                        const struct ds_ptx_operand *o = &in->operands[k];

                        if (o->kind != DS_PTX_OPERAND_SREG)
                                continue;
                        if (o->sreg == DS_PTX_SREG_TID && o->component < 3)
                                d->thread[o->component] = 1;
                        if (o->sreg == DS_PTX_SREG_CTAID && o->component < 3)
                                d->block[o->component] = 1;
                        if (o->sreg == DS_PTX_SREG_CLUSTERID && o->component < 3)
                                d->block[o->component] = 1;
                        d->warps |= o->sreg == DS_PTX_SREG_LANEID;
                }
        }
}

/* Returns 0 when the kernel cannot be driven: its parameters are too large. */
static inline int drive_open(struct drive *d, const struct ds_ptx_module *m, const struct ds_ptx_function *f,
        const struct ds_interp_kernel_info *info)
{
        int32_t *from = malloc((f->n_regs + 1) * sizeof(*from));
        int calls = 0;

        memset(d, 0, sizeof(*d));
        d->function = f;
        d->info = info;
        d->class = drive_classify(f, &calls);
        drive_dimensions(d, f);
        for (uint32_t i = 0; calls && i < m->n_functions; i++)
                if (!m->functions[i]->is_entry) {
                        d->class |= drive_classify(m->functions[i], &calls);
                        drive_dimensions(d, m->functions[i]);
                }
        for (uint32_t i = 0; i < m->n_vars; i++)
                d->dynamic |= m->vars[i]->space == DS_PTX_IN_SHARED && m->vars[i]->unsized;
        if (!from || info->params_size > DRIVE_PARAMS) {
                free(from);
                return 0;
        }
        for (uint32_t sums = 0; sums < 2; sums++) {
                memset(from, 0xff, (f->n_regs + 1) * sizeof(*from));
                drive_walk(d, from, (int)sums);
                drive_walk(d, from, (int)sums);
        }
        free(from);
        for (uint32_t i = 0; i < f->n_params; i++) {
                struct drive_field *p = drive_field_at(d, f->params[i]->offset, (uint32_t)f->params[i]->size);

                if (p && f->params[i]->is_ptr)
                        p->is = DRIVE_ADDRESS;
        }
        for (uint32_t i = 0; i < d->n_fields; i++)
                d->unseen += d->field[i].size == 8 && d->field[i].is == DRIVE_UNSEEN;
        return 1;
}

/* Fills in the parameters of a launch. unseen_are_addresses: parameters of unknown kind are addresses. */
static inline void drive_params(
        const struct drive *d, const struct drive_launch *l, uint64_t arena, int unseen_are_addresses, uint8_t *to)
{
        uint32_t n_addresses = 0;

        for (uint32_t i = 0; i + 4 <= DRIVE_PARAMS; i += 4)
                memcpy(to + i, &l->n, 4);
        for (uint32_t i = 0; i < d->n_fields; i++) {
                const struct drive_field *f = &d->field[i];
                uint64_t word = f->size == 1 ? l->n & 1 : l->n;
                float single = 0.25f + (float)(i % 5);
                double number = single;

                if (f->size > 8)
                        continue;
                if (f->is == DRIVE_ADDRESS || (f->is == DRIVE_UNSEEN && f->size == 8 && unseen_are_addresses))
                        word = arena + DRIVE_SLOT * (1 + n_addresses++ % (DRIVE_SLOTS - 3));
                else if (f->is == DRIVE_FLOAT && f->size == 4)
                        memcpy(&word, &single, 4);
                else if (f->is == DRIVE_FLOAT && f->size == 8)
                        memcpy(&word, &number, 8);
                memcpy(to + f->offset, &word, f->size);
        }
}

/* Makes launch `which` of the list, changed to fit the kernel's directives. */
static inline void drive_launch(const struct drive *d, int which, struct drive_launch *l)
{
        static const struct drive_launch list[DRIVE_N_LAUNCHES] = {
                {100, {4, 1, 1}, {128, 1, 1}, {0}, 0},
                {64, {4, 4, 1}, {16, 16, 1}, {0}, 0},
                {32, {1, 1, 1}, {32, 1, 1}, {0}, 0},
                {256, {4, 2, 1}, {256, 1, 1}, {0}, 0},
                {7, {3, 2, 2}, {8, 4, 2}, {0}, 0},
                {1, {2, 1, 1}, {64, 1, 1}, {0}, 0},
                {128, {2, 2, 1}, {32, 8, 1}, {0}, 0},
                {33, {2, 3, 1}, {96, 1, 1}, {0}, 0},
        };
        const struct ds_ptx_limits *limits = &d->function->limits;

        *l = list[which];
        for (int i = 0; i < 3; i++) {
                l->grid[i] = d->block[i] ? l->grid[i] : 1;
                l->block[i] = d->thread[i] ? l->block[i] : i == 0 && d->warps ? 32 : 1;
        }
        if (limits->reqntid[0])
                memcpy(l->block, limits->reqntid, sizeof(l->block));
        while (l->block[0] * l->block[1] * l->block[2] > d->info->max_threads)
                l->block[l->block[2] > 1 ? 2 : l->block[1] > 1 ? 1 : 0] /= 2;
        for (int i = 0; i < 3 && d->info->cluster[0]; i++) {
                l->cluster[i] = d->info->cluster[i] ? d->info->cluster[i] : 1;
                l->grid[i] *= l->cluster[i];
        }
        if (d->dynamic && d->info->static_shared < DRIVE_SHARED_MAX - 4096)
                l->dynamic = DS_MIN(DRIVE_DYNAMIC, DRIVE_SHARED_MAX - 4096 - d->info->static_shared);
}
