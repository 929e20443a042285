/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory whose channels are known, for the calibration (see calibrate.h)
 *
 * A session's own pages are labelled as the daemon labels its pool. For each number of channels that BE could have, a
 * plan assigns the sectors to the sides (lut/sectors.h). So no pool has to be configured, and one labelling serves all
 * plans. BE's memory is twice the size of L2, so BE streams with any number of channels. LS's memory has the same size
 * as in the matrix.
 *
 * Kernels address their sectors by a table with one word per sector, with the same instructions that the daemon's
 * coloured kernels have before each access. So the times include the cost of these lookups. Without divided memory the
 * kernels are those of the matrix.
 */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/calibrate.h"
#include "detshare/detshare.h"
#include "lut/probe/pages.h"
#include "lut/sectors.h"

#define PAGE (UINT64_C(2) << 20)
#define THREADS 1024u
#define TURN_BYTES 65536u
#define LS_TURNS 3u
#define BE_TURNS 2u
/* smallest sector size, as a power of two: the smallest that the daemon's coloured kernels can have */
#define SECTOR_BITS_MIN 8u
#define ATTRIBUTE_L2 38 /* CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE */
/* LS's pages, times the memory that LS needs: in every plan LS has at least two fifths of its pages' sectors */
#define LS_SPARE 5 / 2
#define BE_L2 2 /* size of BE's memory in sizes of L2 */
/* the same for a simulated device, which has a whole L2 for each side, whatever its channels */
#define BE_L2_EXECUTED 8
#define BE_CHUNKS_MIN 11u    /* least number of BE's chunks, one for each block that can be resident */
#define WORDS_MAX (1u << 20) /* most words of a table that one operation writes */

/* --- the kernels --- */

#define PARAMS                                                                            \
        "(.param .u64 memory, .param .u64 table, .param .u32 chunks, .param .u32 turns, " \
        ".param .u32 bits)\n.maxntid 1024, 1, 1\n.minnctapersm 2\n"
#define BEGIN                                                                                       \
        "{\n .reg .pred %p<2>;\n .reg .b32 %r<24>;\n .reg .b64 %d<9>;\n"                            \
        " ld.param.u64 %d0, [memory];\n ld.param.u64 %d4, [table];\n ld.param.u32 %r0, [chunks];\n" \
        " ld.param.u32 %r1, [turns];\n ld.param.u32 %r20, [bits];\n mov.u32 %r21, 1;\n"             \
        " shl.b32 %r21, %r21, %r20;\n sub.u32 %r22, %r21, 1;\n cvt.u64.u32 %d5, %r22;\n"            \
        " mov.u32 %r2, %ctaid.x;\n rem.u32 %r2, %r2, %r0;\n mul.lo.u32 %r3, %r1, 65536;\n"          \
        " mul.wide.u32 %d1, %r2, %r3;\n mov.u32 %r4, %tid.x;\n mul.wide.u32 %d2, %r4, 16;\n"        \
        " add.s64 %d3, %d1, %d2;\n mov.u32 %r5, 0;\nAGAIN:\n"
#define FIND(at)                                                                          \
        " add.s64 %d6, %d3, " at ";\n shr.u64 %d7, %d6, %r20;\n cvt.u32.u64 %r12, %d7;\n" \
        " mad.wide.u32 %d7, %r12, 4, %d4;\n ld.global.nc.u32 %r12, [%d7];\n"              \
        " mad.wide.u32 %d8, %r12, %r21, %d0;\n and.b64 %d7, %d6, %d5;\n or.b64 %d8, %d8, %d7;\n"
#define LOAD(at)                                                                      \
        FIND(at)                                                                      \
        " ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%d8];\n xor.b32 %r5, %r5, %r8;\n" \
        " xor.b32 %r5, %r5, %r9;\n xor.b32 %r5, %r5, %r10;\n xor.b32 %r5, %r5, %r11;\n"
#define STORE(at) FIND(at) " st.global.v4.u32 [%d8], {%r2, %r4, %r1, %r5};\n"
#define ALL_OF(access) access("0") access("16384") access("32768") access("49152")
#define NEXT " add.s64 %d3, %d3, 65536;\n sub.u32 %r1, %r1, 1;\n setp.ne.u32 %p0, %r1, 0;\n @%p0 bra AGAIN;\n"
/* Uses the result of the reads, or the compiler drops them. No result equals this constant, because the first word
 * is the table's. */
#define KEEP " setp.eq.u32 %p1, %r5, 0x9e3779b9;\n @%p1 st.global.u32 [%d0], %r5;\n"

static const char text[] = ".version 7.0\n.target sm_60\n.address_size 64\n"
                           ".visible .entry calibrate_read_by_table" PARAMS BEGIN
                           ALL_OF(LOAD)
NEXT KEEP " ret;\n}\n"
          ".visible .entry calibrate_write_by_table" PARAMS BEGIN ALL_OF(STORE) NEXT " ret;\n}\n";

static int complain(int error, const char *what)
{
        return ctl_fail(error, "cannot calibrate: %s", what);
}

static int make_streams(struct calibrate_coloured *c)
{
        int r = 0;
        for (int is_ls = 0; is_ls < 2 && !r; is_ls++) {
                r = dsc_stream_create(c->session, is_ls ? -1 : 0, 1, &c->streams[is_ls]);
                for (int i = 0; i < 2 && !r; i++)
                        r = dsc_event_create(c->session, &c->events[is_ls][i]);
        }
        return r ? complain(r, "no streams") : 0;
}

/* --- memory --- */

static uint64_t chunk_bytes(const struct calibrate_coloured *c, int is_ls)
{
        return (uint64_t)c->turns[is_ls] * TURN_BYTES;
}

static void choose_sizes(struct calibrate_coloured *c, const struct calibrate_run *run, int small)
{
        const struct dsc_device *device = dsc_device(c->session);
        const int64_t l2 = device->n_attributes > ATTRIBUTE_L2 ? device->attributes[ATTRIBUTE_L2] : 0;
        uint64_t be = (uint64_t)(l2 > 0 ? l2 : 0) * (small ? BE_L2_EXECUTED : BE_L2);
        c->turns[0] = small ? 1 : BE_TURNS;
        c->turns[1] = small ? 1 : LS_TURNS;
        if (be < 2ull * run->half * BE_CHUNKS_MIN * chunk_bytes(c, 0))
                be = 2ull * run->half * BE_CHUNKS_MIN * chunk_bytes(c, 0);
        c->pages[0] = (be + PAGE - 1) / PAGE;
        c->pages[1] = (2ull * run->half * chunk_bytes(c, 1) * LS_SPARE + PAGE - 1) / PAGE;
}

static int allocate(struct calibrate_coloured *c)
{
        const int r = dsc_mem_alloc(c->session, (c->pages[0] + c->pages[1] + 1) * PAGE, &c->allocation);
        c->first = (c->allocation + PAGE - 1) / PAGE * PAGE;
        return r ? complain(r, "no device memory for pages whose channels are known") : 0;
}

/* --- plans --- */

/* Makes the table of one side's sectors, among its own pages. 0; -1: the side has too few sectors; else an exit code
 * after an error message. */
static int make_table(struct calibrate_coloured *c, struct calibrate_plan *plan, int is_ls, const uint8_t *classes,
        uint32_t chunks_wanted)
{
        const uint64_t per_page = PAGE >> plan->sector_bits, from = is_ls ? c->pages[0] * per_page : 0,
                       n = c->pages[is_ls] * per_page;
        uint32_t *words = malloc(n * sizeof(*words));
        size_t found = 0;
        if (!words) {
                ctl_complain("out of memory");
                return CTL_FAILED;
        }
        for (uint64_t i = from; i < from + n; i++)
                if (classes[i] == (is_ls ? DS_SECTORS_LS : DS_SECTORS_BE))
                        words[found++] = (uint32_t)i;
        const uint64_t chunks = ((uint64_t)found << plan->sector_bits) / chunk_bytes(c, is_ls);
        int r = 0;
        plan->memory[is_ls] = c->first;
        plan->chunks[is_ls] = (uint32_t)(is_ls && chunks > chunks_wanted ? chunks_wanted : chunks);
        if (chunks >= chunks_wanted)
                r = dsc_mem_alloc(c->session, found * sizeof(*words), &plan->table[is_ls]);
        for (size_t at = 0; at < found && plan->table[is_ls] && !r; at += WORDS_MAX) {
                const size_t some = found - at < WORDS_MAX ? found - at : WORDS_MAX, bytes = some * sizeof(*words);
                r = dsc_write(c->session, c->streams[is_ls], plan->table[is_ls] + at * sizeof(*words), bytes,
                        &words[at], bytes, bytes, 1);
        }
        free(words);
        if (r)
                return complain(r, "no device memory for a table of sectors");
        return chunks < chunks_wanted ? -1 : 0;
}

/* Adds the plan for one share of the channels. 0; -1: that share is impossible; else an exit code after an error
 * message. */
static int add_plan(struct calibrate_coloured *c, const struct ds_sectors_labels *labels, uint32_t of, uint32_t blocks)
{
        struct calibrate_plan *plan = &c->plans[c->n_plans];
        const struct ds_sectors_share share = {.parts = 1, .of = of};
        struct ds_sectors_plan found;
        const int r = ds_sectors_plan(labels, share, SECTOR_BITS_MIN, DS_SECTORS_LOST_PERMILLE, &found);
        if (r)
                return r < 0 ? complain(2, "no memory for a plan of sectors") : -1;
        for (size_t i = 1; i < c->n_plans; i++)
                if (c->plans[i].n_be == found.n_be)
                        return -1;
        *plan = (struct calibrate_plan){.n_be = found.n_be, .sector_bits = found.sector_bits};
        uint8_t *classes = malloc(labels->n_granules);
        int code = classes ? 0 : CTL_FAILED;
        if (classes)
                ds_sectors_classify(labels, &found, classes);
        else
                ctl_complain("out of memory");
        if (!code)
                code = make_table(c, plan, 0, classes, blocks);
        if (!code)
                code = make_table(c, plan, 1, classes, blocks);
        free(classes);
        c->n_plans += !code;
        return code;
}

static int make_plans(
        struct calibrate_coloured *c, const struct calibrate_run *run, int small, const struct ds_pages_labels *pages)
{
        static const uint32_t shares[CALIBRATE_PLANS - 1] = {6, 4, 3, 2};
        const struct ds_sectors_labels labels = {.channel = pages->channel,
                .n_granules = (c->pages[0] + c->pages[1]) * pages->granules,
                .granule_bits = pages->granule_bits,
                .n_channels = pages->n_channels};
        int code = 0;
        c->plans[0] = (struct calibrate_plan){.memory = {c->first, c->first + c->pages[0] * PAGE},
                .chunks = {(uint32_t)(c->pages[0] * PAGE / chunk_bytes(c, 0)), 2 * run->half}};
        c->n_plans = 1;
        for (size_t i = 0; i < CALIBRATE_PLANS - 1 && code <= 0; i += 1 + (small && !i))
                code = add_plan(c, &labels, shares[i], 2 * run->half);
        return code > 0 ? code : 0;
}

/* --- labels --- */

/* Labels the pages. The installed tables of channels are used: this process does not know which ones the daemon has. */
static int label(struct calibrate_coloured *c, struct calibrate_run *run, struct ds_pages_labels *ret)
{
        struct calibrate_channels *channels = &run->rows->channels;
        const uint64_t n = c->pages[0] + c->pages[1];
        uint64_t *pages = malloc(n * sizeof(*pages));
        char dir[PATH_MAX];
        if (!pages) {
                ctl_complain("out of memory");
                return CTL_FAILED;
        }
        for (uint64_t i = 0; i < n; i++)
                pages[i] = c->first + i * PAGE;
        /* stop the clock: otherwise simulated time passes between a launch and its events */
        const int code = calibrate_hold_clock();
        if (code) {
                free(pages);
                return code;
        }
        const int r = calibrate_bench_label(
                c->session, c->streams[1], ctl_lut_dir(dir, sizeof(dir)) ? NULL : dir, pages, n, ret);
        detshare_clock_leave();
        free(pages);
        if (r < 0) {
                ctl_complain("cannot calibrate: channels cannot be labelled: %s", strerror(-r));
                return CTL_FAILED;
        }
        if (r == DS_PAGES_E_NONE)
                snprintf(
                        channels->skipped, sizeof(channels->skipped), "the channels cannot be found: %.120s", ret->why);
        else if (r)
                snprintf(channels->skipped, sizeof(channels->skipped), "detsharectl has no machine code for this GPU");
        channels->channels = ret->n_channels;
        snprintf(channels->source, sizeof(channels->source), "%s", ret->source);
        return r ? CALIBRATE_NOT_HERE : 0;
}

int calibrate_coloured_open(struct calibrate_run *run, int small, struct calibrate_coloured *ret)
{
        struct ds_pages_labels labels = {.channel = NULL};
        *ret = (struct calibrate_coloured){.session = run->ls.session};
        memcpy(ret->kernels[0], run->ls.kernels, sizeof(ret->kernels[0]));
        choose_sizes(ret, run, small);
        int code = calibrate_load_kernels(ret->session, text, "_by_table", DSC_LOAD_READ, ret->kernels[1]);
        if (!code)
                code = make_streams(ret);
        if (!code)
                code = allocate(ret);
        if (!code)
                code = label(ret, run, &labels);
        if (!code)
                code = make_plans(ret, run, small, &labels);
        ds_pages_deinit(&labels);
        return code;
}

/* --- launches --- */

int calibrate_coloured_submit(
        struct calibrate_coloured *c, const struct calibrate_plan *plan, int is_ls, unsigned kind, uint32_t grid)
{
        const struct {
                uint64_t memory;
                uint32_t chunks, turns;
        } plain = {plan->memory[is_ls], plan->chunks[is_ls], c->turns[is_ls]};
        const struct {
                uint64_t memory, table;
                uint32_t chunks, turns, bits, none;
        } by_table = {
                plan->memory[is_ls], plan->table[is_ls], plan->chunks[is_ls], c->turns[is_ls], plan->sector_bits, 0};
        const int coloured = plan->table[is_ls] != 0;
        const struct dsc_launch launch = {
                .kernel = c->kernels[coloured][kind],
                .grid = {grid, 1, 1},
                .block = {THREADS, 1, 1},
                .params = coloured ? (const void *)&by_table : &plain,
                .params_size = coloured ? offsetof(typeof(by_table), none) : sizeof(plain),
        };
        const uint32_t stream = c->streams[is_ls];
        int r = dsc_event_record(c->session, stream, c->events[is_ls][0], &c->seqs[is_ls][0]);
        if (!r)
                r = dsc_launch(c->session, stream, &launch);
        if (!r)
                r = dsc_event_record(c->session, stream, c->events[is_ls][1], &c->seqs[is_ls][1]);
        return r ? complain(r, "no launch") : 0;
}

int calibrate_coloured_ended(struct calibrate_coloured *c, int is_ls)
{
        return dsc_peek(c->session, c->streams[is_ls], c->seqs[is_ls][1]) != 600; /* cudaErrorNotReady */
}

int calibrate_coloured_wait(struct calibrate_coloured *c, int is_ls, struct calibrate_span *ret)
{
        const uint32_t stream = c->streams[is_ls];
        const int r = dsc_wait(c->session, stream, c->seqs[is_ls][1]);
        if (r)
                return complain(r, "a kernel failed");
        if (dsc_event_time(c->session, c->events[is_ls][0], stream, c->seqs[is_ls][0], &ret->start_ns) &&
                dsc_event_time(c->session, c->events[is_ls][1], stream, c->seqs[is_ls][1], &ret->end_ns))
                return 0;
        ctl_complain("cannot calibrate: the daemon reported no times of a kernel");
        return CTL_FAILED;
}
