/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text from kernels: printf, and failed assertions
 *
 * Both are calls of functions that the driver defines, and end in the launch's print callback: the lanes of a warp in
 * order, one call's text at a time. Every byte is read with the lane's own access rights; an invalid pointer is a fault
 * like any bad access. Text costs instructions, so a kernel that only prints reaches its budget.
 *
 * A lane whose assertion fails prints its line and exits. Other lanes continue, so that all failed assertions are
 * printed, but not for long: the block has failed.
 */
#include <inttypes.h>
#include <stdio.h>

#include "ptx/interp/core.h"
#include "ptx/interp/format.h"
#include "util/alloc.h"

/* most bytes of the expression, the file and the function in an assertion's line, each */
#define ASSERT_TEXT_MAX 512
#define ASSERT_GRACE ((uint64_t)1 << 20)           /* instructions that a block may execute after a failed assertion */
#define BYTES_PER_INSTRUCTION 16                   /* bytes of text that cost one instruction */
#define LINE_MAX_BYTES (4 * ASSERT_TEXT_MAX + 256) /* most bytes of an assertion's line */

struct reader {
        ds_ix_warp *w;
        uint32_t lane;
};

static int read_byte(void *user, uint64_t address)
{
        const struct reader *r = user;
        const uint8_t *p = ds_ix_readable(r->w, address, r->lane);

        return p ? *p : -1;
}

uint64_t ds_ix_call_argument(const ds_ix_warp *w, const ds_ix_call *call, uint32_t k, uint32_t lane)
{
        const struct ds_ix_arg *a = &call->args[k];
        uint64_t value = 0;
        const uint8_t *from = a->slot == DS_IX_NO_SLOT
                                      ? w->frame->args + (size_t)lane * w->frame->func->args_bytes + a->caller_offset
                                      : (const uint8_t *)ds_ix_lanes(w, a->slot) + (size_t)lane * a->size;

        memcpy(&value, from, DS_MIN(a->size, (uint32_t)sizeof(value)));
        return value;
}

void ds_ix_call_result(const ds_ix_warp *w, const ds_ix_call *call, uint32_t lane, uint64_t value)
{
        const struct ds_ix_arg *a = &call->rets[0];
        uint8_t *to;

        if (!call->n_rets)
                return;
        to = a->slot == DS_IX_NO_SLOT ? w->frame->args + (size_t)lane * w->frame->func->args_bytes + a->caller_offset
                                      : (uint8_t *)ds_ix_lanes(w, a->slot) + (size_t)lane * a->size;
        memcpy(to, &value, DS_MIN(a->size, (uint32_t)sizeof(value)));
}

static void say(ds_ix_warp *w, int to_stderr, const char *text, size_t size)
{
        const struct ds_interp_launch *launch = w->block->launch;

        w->fuel -= (int64_t)(size / BYTES_PER_INSTRUCTION);
        if (launch->print && size)
                launch->print(launch->print_user, to_stderr, text, size);
}

/* --- int vprintf(const char *format, const void *arguments) --- */
const ds_ix_op *ds_ix_vprintf(ds_ix_warp *w, const ds_ix_op *op)
{
        const ds_ix_call *call = op->ext;
        struct reader reader = {.w = w};
        struct ds_ix_format f = {.byte = read_byte, .user = &reader};

        if (!w->block->text)
                w->block->text = ds_alloc(DS_IX_TEXT_MAX);
        f.text = w->block->text;
        for (uint32_t i = 0; i < DS_IX_LANES; i++) {
                uint64_t format = ds_ix_call_argument(w, call, 0, i);
                uint32_t used = 0;

                if (!(w->mask >> i & 1))
                        continue;
                if (!format || !f.text) {
                        /* result -2: CUDA's code for an internal error; -1: no format */
                        ds_ix_call_result(w, call, i, (uint64_t)(format ? -2 : -1));
                        continue;
                }
                reader.lane = i;
                f.arguments = ds_ix_call_argument(w, call, 1, i);
                if (ds_ix_format(&f, format, &used))
                        return ds_ix_fault(w, op, DS_INTERP_FAULT_ADDRESS, i, f.bad,
                                "printf reads an invalid address, 0x%" PRIx64, f.bad);
                say(w, 0, f.text, f.size);
                ds_ix_call_result(w, call, i, used);
        }
        w->fuel -= op->count;
        return w->fuel < 0 ? ds_ix_expire(w, op + 1) : op + 1;
}

/* --- device-side assert --- */
/* Reads a string of the client at a generic address; omits bytes that cannot be read or printed. */
static void read_text(const struct reader *r, uint64_t address, char *text)
{
        size_t n = 0;
        int byte;

        while (n < ASSERT_TEXT_MAX - 1 && (byte = read_byte((void *)r, address + n)) > 0)
                text[n++] = byte >= ' ' && byte != 127 ? (char)byte : '?';
        text[n] = 0;
}

static void say_failed(ds_ix_warp *w, const ds_ix_op *op, uint32_t lane, const uint64_t *value)
{
        const struct reader reader = {.w = w, .lane = lane};
        const ds_ix_block *block = w->block;
        const uint32_t *dim = block->launch->block, *at = block->ctaid;
        uint32_t thread = w->index * DS_IX_LANES + lane;
        char text[4][ASSERT_TEXT_MAX], line[LINE_MAX_BYTES];
        int n;

        for (uint32_t k = 0; k < 4; k++) {
                if (k != 2)
                        read_text(&reader, value[k], text[k]);
        }
        ds_ix_record(w, op, DS_INTERP_FAULT_ASSERT, lane, 0, "%.40s:%u: %.40s: assertion `%.40s' failed", text[1],
                (unsigned)value[2], text[3], text[0]);
        n = snprintf(line, sizeof(line), "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n",
                text[1], (unsigned)value[2], text[3], at[0], at[1], at[2], thread % dim[0], thread / dim[0] % dim[1],
                thread / dim[0] / dim[1], text[0]);
        say(w, 1, line, DS_MIN((size_t)n, sizeof(line) - 1));
}

/* void __assertfail(const char *expression, const char *file, unsigned line, const char *function, size_t char_size) */
const ds_ix_op *ds_ix_assert(ds_ix_warp *w, const ds_ix_op *op)
{
        const ds_ix_call *call = op->ext;

        for (uint32_t i = 0; i < DS_IX_LANES; i++) {
                uint64_t value[4];

                if (!(w->mask >> i & 1))
                        continue;
                for (uint32_t k = 0; k < 4; k++)
                        value[k] = ds_ix_call_argument(w, call, k, i);
                say_failed(w, op, i, value);
        }
        w->block->cluster->left = DS_MIN(w->block->cluster->left, ASSERT_GRACE);
        return ds_ix_exit(w, op);
}
