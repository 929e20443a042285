/* SPDX-License-Identifier: Apache-2.0 */
#include "image/sass_code.h"

#include <string.h>

#include "util/macro.h"

#define INFO_SIZED 4         /* form of an attribute that is followed by its size and that many bytes */
#define INFO_JUMPS 0x34      /* number of the attribute that holds jump tables */
#define BANK_0_DYNAMIC 0x2cu /* byte offset in constant bank 0 of the size of dynamic shared memory, up to sm_90 */
#define BANK_0_PARAMS_100 0x380u
#define SPECIAL_SHARED 0x32u /* number of the special register that holds the bytes of shared memory */
#define GUARD_NONE 7u
#define UNKNOWN_WIDE 8u /* registers that an operand of an unknown instruction may occupy at most */

/* Opcodes: bits 0..8 of an instruction. */
enum op {
        OP_MOV = 0x002,
        OP_CS2R = 0x005,
        OP_SEL = 0x007,
        OP_FSEL = 0x008,
        OP_FMNMX = 0x009,
        OP_FSETP = 0x00b,
        OP_ISETP = 0x00c,
        OP_IADD3 = 0x010,
        OP_LEA = 0x011,
        OP_LOP3 = 0x012,
        OP_IABS = 0x013,
        OP_PRMT = 0x016,
        OP_IMNMX = 0x017, /* instruction up to sm_89 */
        OP_SHF = 0x019,
        OP_PLOP3 = 0x01c,
        OP_FMUL = 0x020,
        OP_FADD = 0x021,
        OP_FFMA = 0x023,
        OP_IMAD = 0x024,
        OP_IMAD_WIDE = 0x025,
        OP_IMAD_HI = 0x027,
        OP_DMUL = 0x028,
        OP_DADD = 0x029,
        OP_DSETP = 0x02a,
        OP_DFMA = 0x02b,
        OP_HADD2 = 0x030,
        OP_HFMA2 = 0x031,
        OP_HMUL2 = 0x032,
        OP_HFMA2_MMA = 0x035,
        OP_VIADD = 0x036,
        OP_F2FP = 0x03e,
        OP_VIMNMX = 0x048,
        OP_ULDC = 0x0b9,
        OP_R2UR = 0x0ca,
        OP_NOP = 0x118,
        OP_S2R = 0x119,
        OP_DEPBAR = 0x11a,
        OP_BAR = 0x11d,
        OP_BSYNC = 0x141,
        OP_CALL_ABS = 0x143,
        OP_CALL_REL = 0x144,
        OP_BSSY = 0x145,
        OP_YIELD = 0x146,
        OP_BRA = 0x147,
        OP_WARPSYNC = 0x148,
        OP_BRX = 0x149,
        OP_JMP = 0x14a,
        OP_JMX = 0x14c,
        OP_EXIT = 0x14d,
        OP_RET = 0x150,
        OP_BRXU = 0x158,
        OP_JMXU = 0x159,
        OP_KILL = 0x15b,
        OP_BPT = 0x15c,
        OP_LD = 0x180,
        OP_LDG = 0x181,
        OP_LDC = 0x182,
        OP_LDL = 0x183,
        OP_LDS = 0x184,
        OP_ST = 0x185,
        OP_STG = 0x186,
        OP_STL = 0x187,
        OP_STS = 0x188,
        OP_SHFL = 0x189,
        OP_RED = 0x18e,
        OP_ATOM = 0x18a,
        OP_ATOM_CAS = 0x18b,
        OP_ATOMS = 0x18c,
        OP_ATOMS_CAS = 0x18d,
        OP_CCTL = 0x18f,
        OP_MEMBAR = 0x192,
        OP_REDG_FLOAT = 0x1a6,
        OP_ATOMG = 0x1a8,
        OP_ATOMG_CAS = 0x1a9,
        OP_ATOMG_FLOAT = 0x1a3,
        OP_S2UR = 0x1c3,
};

enum form {
        FORM_REGISTERS = 1,
        FORM_CONSTANT_LAST = 3,
        FORM_NUMBER = 4,
        FORM_CONSTANT = 5,
};

static uint32_t bits(uint64_t word, unsigned from, unsigned n)
{
        return (uint32_t)(word >> from & ((UINT64_C(1) << n) - 1));
}

static uint32_t op_of(struct sass_instr instr)
{
        return bits(instr.lo, 0, 9);
}

static uint32_t form_of(struct sass_instr instr)
{
        return bits(instr.lo, 9, 3);
}

static uint32_t word_at(const uint8_t *p)
{
        uint32_t word;

        memcpy(&word, p, sizeof(word));
        return word;
}

struct sass_instr sass_at(const struct sass_code *code, uint32_t at)
{
        struct sass_instr instr;

        memcpy(&instr, code->text + (size_t)at * SASS_BYTES, sizeof(instr));
        return instr;
}

bool sass_guarded(struct sass_instr instr)
{
        return bits(instr.lo, 12, 4) != GUARD_NONE;
}

uint32_t sass_barrier(struct sass_instr instr)
{
        return bits(instr.lo, 16, 4);
}

/* --- control flow ----------------- */

/* Distance of a jump: signed, in words of four bytes, 48 bits from bit 34 on. low_apart: the lowest 8 bits are in
 * bits 16..23. */
static int64_t distance(struct sass_instr instr, bool low_apart)
{
        uint64_t far = instr.lo >> 34 | (instr.hi & 0x3ffff) << 30;
        int64_t words = (int64_t)(far << 16) >> 16;

        return low_apart ? words * 256 + bits(instr.lo, 16, 8) : words;
}

static bool target_of(const struct sass_code *code, uint32_t at, struct sass_instr instr, uint32_t *ret)
{
        int64_t words = distance(instr, code->cc >= 90 && op_of(instr) != OP_BSSY);
        int64_t to = (int64_t)at + 1 + words / 4;

        if (words % 4 || to < 0 || to >= code->n)
                return false;
        *ret = (uint32_t)to;
        return true;
}

/* Whether a jump is unconditional. Beside its guard it may have a predicate, or depend on the warp's threads. */
static bool jumps_always(struct sass_instr instr)
{
        return !sass_guarded(instr) && bits(instr.hi, 18, 9) == 0xe0;
}

static enum sass_flow flow_of_target(
        const struct sass_code *code, uint32_t at, struct sass_instr instr, enum sass_flow flow, uint32_t *ret_target)
{
        if (target_of(code, at, instr, ret_target))
                return flow;
        return flow == SASS_CALL ? SASS_CALL_ELSEWHERE : SASS_ASTRAY;
}

enum sass_flow sass_flow(const struct sass_code *code, uint32_t at, uint32_t *ret_target)
{
        struct sass_instr instr = sass_at(code, at);

        switch (op_of(instr)) {
        case OP_BRA:
                return flow_of_target(code, at, instr, jumps_always(instr) ? SASS_JUMP : SASS_FORK, ret_target);
        case OP_WARPSYNC: /* WARPSYNC with a target: the threads that are present jump there together */
                return form_of(instr) == FORM_REGISTERS ? flow_of_target(code, at, instr, SASS_FORK, ret_target)
                                                        : SASS_ON;
        case OP_CALL_REL:
                if (form_of(instr) != FORM_NUMBER)
                        return SASS_CALL_ELSEWHERE;
                return flow_of_target(code, at, instr, SASS_CALL, ret_target);
        case OP_CALL_ABS:
                return SASS_CALL_ELSEWHERE;
        case OP_BSSY:
                return flow_of_target(code, at, instr, SASS_BARRIER_SET, ret_target);
        case OP_BSYNC:
                return SASS_BARRIER_SYNC;
        case OP_BRX:
        case OP_BRXU:
                return SASS_TABLE;
        case OP_JMP:
        case OP_JMX:
        case OP_JMXU:
                return SASS_ASTRAY;
        case OP_EXIT:
        case OP_RET:
        case OP_KILL:
                return SASS_END;
        default:
                return SASS_ON;
        }
}

/* Finds the jump table of an instruction. Records are (form, attribute, 16 bits); sized ones are followed by that
 * many bytes. */
bool sass_table(const struct sass_code *code, uint32_t at, const uint8_t **ret_words, uint32_t *ret_n)
{
        size_t left = code->info_size, step;

        for (const uint8_t *p = code->info; left >= 4; p += step, left -= step) {
                size_t size = p[0] == INFO_SIZED ? (size_t)p[2] | (size_t)p[3] << 8 : 0;
                const uint8_t *record = p + 4;

                step = 4 + size;
                if (step > left)
                        return false;
                for (uint32_t n; p[0] == INFO_SIZED && p[1] == INFO_JUMPS && size >= 12;
                        record += n * 4, size -= n * 4) {
                        n = word_at(record + 8);
                        record += 12;
                        size -= 12;
                        if (n > size / 4)
                                return false;
                        if (word_at(record - 12) != (uint64_t)at * SASS_BYTES)
                                continue;
                        *ret_words = record;
                        *ret_n = n;
                        return true;
                }
        }
        return false;
}

/* --- polling ---------------------- */

static bool load_asks(const struct sass_code *code, struct sass_instr instr)
{
        uint32_t strong = bits(instr.hi, 13, 4);

        if (code->cc < 80)
                return strong >= 10; /* strength 8 or 9 is for the block or its SM only */
        return strong != 0 && strong != 4 && strong != 5;
}

enum sass_ask sass_ask(const struct sass_code *code, struct sass_instr instr)
{
        switch (op_of(instr)) {
        case OP_LD:
        case OP_LDG:
                return load_asks(code, instr) ? SASS_ASKS : SASS_ASKS_NOT;
        case OP_ATOM_CAS:
        case OP_ATOMG_CAS:
                return SASS_ASKS_BY_SWAP;
        case OP_ATOM:
        case OP_ATOMG:
                /* does not poll: neither its result nor its predicate is used */
                if (bits(instr.lo, 16, 8) == SASS_REG_ZERO && bits(instr.hi, 17, 3) == GUARD_NONE)
                        return SASS_ASKS_NOT;
                return bits(instr.hi, 23, 4) == 0 || bits(instr.hi, 23, 4) == 3 ? SASS_ASKS_BY_ADD : SASS_ASKS;
        default:
                return SASS_ASKS_NOT;
        }
}

/* Whether the instruction reads the size of shared memory. A constant load may be wide, and its address may depend
 * on a register. */
static bool reads_size(const struct sass_code *code, struct sass_instr instr)
{
        static const uint32_t bytes[8] = {1, 1, 2, 2, 4, 8, 16, 16};
        uint32_t bank = bits(instr.lo, 54, 5), offset = bits(instr.lo, 38, 16), wide = 4, op = op_of(instr);
        bool load = op == OP_LDC || op == OP_ULDC;

        if (form_of(instr) != FORM_CONSTANT && form_of(instr) != FORM_CONSTANT_LAST)
                return false;
        if (load)
                wide = bytes[bits(instr.hi, 9, 3)];
        if (bank != 0)
                return false;
        if (code->cc >= 100)
                return offset < BANK_0_PARAMS_100 && bits(instr.lo, 24, 8) != SASS_REG_ZERO;
        return offset <= BANK_0_DYNAMIC && BANK_0_DYNAMIC < offset + wide;
}

static bool sees_shared(const struct sass_code *code, struct sass_instr instr)
{
        uint32_t op = op_of(instr);

        if (op == OP_S2R || op == OP_S2UR)
                return bits(instr.hi, 8, 8) == SPECIAL_SHARED;
        return reads_size(code, instr);
}

struct sass_summary sass_summary(const struct sass_code *code)
{
        struct sass_summary s = {0};

        for (uint32_t i = 0; i < code->n; i++) {
                struct sass_instr instr = sass_at(code, i);
                uint32_t target;

                s.sees_shared |= sees_shared(code, instr);
                if ((op_of(instr) & 0x180) != 0x100) {
                        s.asks |= sass_ask(code, instr) != SASS_ASKS_NOT;
                        continue;
                }
                switch (sass_flow(code, i, &target)) {
                case SASS_ASTRAY:
                        s.astray = true;
                        break;
                case SASS_TABLE:
                        s.tables = true;
                        break;
                case SASS_CALL:
                        s.calls = true;
                        break;
                case SASS_CALL_ELSEWHERE:
                        s.calls_elsewhere = true;
                        break;
                default:
                        break;
                }
        }
        return s;
}

/* --- definitions of a register ------------- */

/* Number of registers that the instruction fills from memory; 0: none. */
static uint32_t from_memory(struct sass_instr instr)
{
        static const uint32_t load[8] = {1, 1, 1, 1, 1, 2, 4, 4}; /* number of registers by the width in bits 73..75 */
        static const uint32_t atomic[8] = {1, 1, 2, 2, 4, 4, 4, 4};

        switch (op_of(instr)) {
        case OP_LD:
        case OP_LDG:
        case OP_LDL:
        case OP_LDS:
                return load[bits(instr.hi, 9, 3)];
        case OP_SHFL:
                return 1;
        case OP_ATOM:
        case OP_ATOM_CAS:
        case OP_ATOMS:
        case OP_ATOMS_CAS:
        case OP_ATOMG:
        case OP_ATOMG_CAS:
        case OP_ATOMG_FLOAT:
                return atomic[bits(instr.hi, 9, 3)];
        default:
                return 0;
        }
}

uint32_t sass_loaded(struct sass_instr instr)
{
        return op_of(instr) == OP_LD || op_of(instr) == OP_LDG ? from_memory(instr) : 0;
}

static uint32_t add_reg(uint32_t *from, uint32_t n, uint32_t reg)
{
        if (reg != SASS_REG_ZERO)
                from[n++] = reg;
        return n;
}

enum sass_def sass_def(struct sass_instr instr, uint32_t reg, uint32_t from[3], uint32_t *ret_n)
{
        uint32_t op = op_of(instr), form = form_of(instr), result = bits(instr.lo, 16, 8), n = 0;
        uint32_t wide = from_memory(instr);

        *ret_n = 0;
        if (reg < result || reg - result >= DS_MAX(wide, 1u))
                return SASS_DEF_NOT;
        if (wide)
                return SASS_DEF_FOUND;
        switch (op) {
        case OP_LDC:
                return SASS_DEF_FROM;
        case OP_MOV:
                if (form == FORM_NUMBER && !bits(instr.lo, 32, 32))
                        return SASS_DEF_ZERO;
                if (form == FORM_REGISTERS)
                        n = add_reg(from, n, bits(instr.lo, 32, 8));
                *ret_n = n;
                return form == FORM_REGISTERS && !n ? SASS_DEF_ZERO : SASS_DEF_FROM;
        case OP_SEL:
        case OP_IADD3:
        case OP_LEA:
        case OP_LOP3:
        case OP_PRMT:
        case OP_SHF:
        case OP_FADD:
        case OP_IMAD:
        case OP_IMNMX:
        case OP_VIADD:
        case OP_VIMNMX:
                n = add_reg(from, n, bits(instr.lo, 24, 8));
                if (form == FORM_REGISTERS)
                        n = add_reg(from, n, bits(instr.lo, 32, 8));
                if (op == OP_IADD3 || op == OP_LEA || op == OP_LOP3 || op == OP_PRMT || op == OP_SHF || op == OP_IMAD)
                        n = add_reg(from, n, bits(instr.hi, 0, 8));
                *ret_n = n;
                return form == FORM_REGISTERS && !n ? SASS_DEF_ZERO : SASS_DEF_FROM;
        default:
                return SASS_DEF_UNKNOWN;
        }
}

/* --- uses of a register ----------------- */

static bool within(uint32_t reg, uint32_t first, uint32_t n)
{
        return first != SASS_REG_ZERO && reg >= first && reg - first < n;
}

/* Registers per operand of an arithmetic instruction whose only result is a register or a pair of registers. 0:
 * unknown instruction. */
static uint32_t arithmetic(struct sass_instr instr)
{
        switch (op_of(instr)) {
        case OP_MOV:
        case OP_SEL:
        case OP_FSEL:
        case OP_FMNMX:
        case OP_F2FP:
        case OP_HFMA2_MMA:
        case OP_PRMT:
        case OP_SHF:
        case OP_FMUL:
        case OP_FADD:
        case OP_FFMA:
        case OP_IMAD:
        case OP_HADD2:
        case OP_HFMA2:
        case OP_HMUL2:
                return 1;
        case OP_IADD3: /* IADD3 without carry outputs */
                return bits(instr.hi, 17, 6) == 0x3f;
        case OP_LOP3: /* LOP3 or LEA without a predicate output */
        case OP_LEA:
                return bits(instr.hi, 17, 3) == GUARD_NONE;
        case OP_DMUL:
        case OP_DADD:
        case OP_DFMA:
                return 2;
        default:
                return 0;
        }
}

/* Registers per operand of an instruction whose result may affect control flow. 0: unknown instruction. */
static uint32_t deciding(struct sass_instr instr)
{
        switch (op_of(instr)) {
        case OP_FSETP:
        case OP_ISETP:
        case OP_IABS:
        case OP_IADD3:
        case OP_LOP3:
        case OP_LEA:
        case OP_IMNMX:
        case OP_VIADD:
        case OP_VIMNMX:
        case OP_R2UR:
        case OP_SHFL:
                return 1;
        case OP_IMAD_WIDE:
        case OP_IMAD_HI:
        case OP_DSETP:
                return 2;
        case OP_ST:
        case OP_STS:
        case OP_STL:
                return 4;
        default:
                return 0;
        }
}

/* Whether the instruction reads no register, or only uniform ones. */
static bool reads_none(struct sass_instr instr)
{
        uint32_t op = op_of(instr);

        switch (op) {
        case OP_NOP:
        case OP_PLOP3:
        case OP_CS2R:
        case OP_CCTL: /* CCTL reads only an address */
        case OP_S2R:
        case OP_S2UR:
        case OP_DEPBAR:
        case OP_BSYNC:
        case OP_BSSY:
        case OP_BRA:
        case OP_YIELD:
        case OP_EXIT:
        case OP_MEMBAR:
                return true;
        case OP_BAR:
                return form_of(instr) == FORM_CONSTANT;
        default:
                return op >= 0x080 && op <= 0x0bf;
        }
}

static bool reads(struct sass_instr instr, uint32_t reg, uint32_t wide)
{
        uint32_t form = form_of(instr);

        if (within(reg, bits(instr.hi, 0, 8), wide) ||
                (op_of(instr) != OP_MOV && within(reg, bits(instr.lo, 24, 8), wide)))
                return true;
        return form == FORM_REGISTERS && within(reg, bits(instr.lo, 32, 8), wide);
}

enum sass_use sass_use(struct sass_instr instr, uint32_t reg, uint32_t *ret_first, uint32_t *ret_n)
{
        uint32_t op = op_of(instr), wide = arithmetic(instr), loaded = from_memory(instr);

        *ret_first = bits(instr.lo, 16, 8);
        *ret_n = wide;
        if (reads_none(instr))
                return SASS_USE_NOT;
        if (wide)
                return reads(instr, reg, wide) ? SASS_USE_PASSES : SASS_USE_NOT;
        if (op == OP_STG || op == OP_RED || op == OP_REDG_FLOAT)
                return SASS_USE_NOT;
        if (op == OP_LDG || op == OP_LDL || op == OP_LDS || op == OP_LDC) {
                *ret_n = op == OP_LDC ? 2 : loaded;
                return within(reg, bits(instr.lo, 24, 8), 2) ? SASS_USE_PASSES : SASS_USE_NOT;
        }
        wide = deciding(instr);
        if (wide)
                return reads(instr, reg, wide) ? SASS_USE_DECIDES : SASS_USE_NOT;
        /* an unknown instruction: neither its width nor the fields of its operands are known, so all fields may be
         * operands */
        if (within(reg, bits(instr.lo, 24, 8), UNKNOWN_WIDE) || within(reg, bits(instr.lo, 32, 8), UNKNOWN_WIDE) ||
                within(reg, bits(instr.hi, 0, 8), UNKNOWN_WIDE) || within(reg, bits(instr.lo, 16, 8), UNKNOWN_WIDE))
                return SASS_USE_DECIDES;
        return SASS_USE_NOT;
}

bool sass_overwrites(struct sass_instr instr, uint32_t reg)
{
        uint32_t wide = DS_MAX(arithmetic(instr), from_memory(instr));

        if (sass_guarded(instr))
                return false;
        switch (op_of(instr)) {
        case OP_CS2R:
        case OP_S2R:
        case OP_LDC:
        case OP_IADD3:
        case OP_LOP3:
        case OP_LEA:
        case OP_IABS:
        case OP_IMNMX:
        case OP_VIADD:
        case OP_VIMNMX:
        case OP_IMAD_HI:
                wide = 1;
                break;
        case OP_IMAD_WIDE:
                wide = 2;
                break;
        default:
                break;
        }
        return within(reg, bits(instr.lo, 16, 8), wide);
}
