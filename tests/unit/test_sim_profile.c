/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles on the simulated GPU: syntax, and durations alone, on fewer SMs, and side by side
 *
 * An h200 has 132 SMs; a kernel of 1,024 threads per block has two blocks per SM. The times are those stated in room.h.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "device/sim/profile.h"
#include "device/sim/sim.h"
#include "util/macro.h"

#define US DS_NS_PER_US
#define MS DS_NS_PER_MS
#define HEAD "detshare-profile 1\nsms 132\n"

/* --- the text --- */

static const struct {
        const char *text, *says;
} wrong[] = {
        {"", "line 1: not a profile"},
        {"detshare-profile\n", "line 1: not a profile"},
        {"detshare-profile 2\n", "line 1: version 2"},
        {"detshare-profile 1\nkernel k grid=1 block=1 ns=1\n", "sms: missing"},
        {HEAD, "no kernels"},
        {HEAD "kernel\n", "line 3: kernel: no name"},
        {HEAD "kernels k grid=1\n", "line 3: kernels: unknown"},
        {HEAD "kernel k block=1 ns=1\n", "line 3: grid: missing"},
        {HEAD "kernel k grid=1 ns=1\n", "line 3: block: missing"},
        {HEAD "kernel k grid=1 block=1\n", "line 3: ns: missing"},
        {HEAD "kernel k grid=1 block=1 ns=0\n", "line 3: ns=0: not a number from 1 to 100000000000"},
        {HEAD "kernel k grid=1 block=1 ns=1us\n", "line 3: ns=1us: not a number"},
        {HEAD "kernel k grid=1 block=1 ns=-1\n", "line 3: ns=-1: not a number"},
        {HEAD "kernel k grid=1 block=1 ns=99999999999999999999\n", "ns=99999999999999999999: not a number"},
        {HEAD "kernel k grid=0 block=1 ns=1\n", "line 3: grid=0: not X, XxY or XxYxZ"},
        {HEAD "kernel k grid=1x2x3x4 block=1 ns=1\n", "line 3: grid=1x2x3x4: not X"},
        {HEAD "kernel k grid=1 block=1025 ns=1\n", "line 3: block=1025: not X"},
        {HEAD "kernel k grid=1 block=64x32 ns=1\n", "line 3: block=64x32: more than 1024 threads"},
        {HEAD "\n# a comment\nkernel k grid=1 block=1 regs=256 ns=1\n", "line 5: regs=256: not a number from 0 to 255"},
        {HEAD "kernel k grid=1 block=1 ns=1 ns=2\n", "line 3: ns: given twice"},
        {HEAD "kernel k grid=1 block=1 ns=1 speed=2\n", "line 3: speed: unknown key"},
        {HEAD "kernel k grid=1 block=1 ns=1 bound=both\n", "line 3: bound=both: not memory or compute"},
        {HEAD "kernel k grid=1 block=1 ns=1 reuse=-1\n", "line 3: reuse=-1: not a number"},
        {HEAD "kernel k grid=1 block=1 ns=1 fast\n", "line 3: 'fast': not KEY=VALUE"},
        {HEAD "kernel k grid=1 block=1 ns=1 stair=66:10,33:20\n", "line 3: stair=66:10,33:20: not SMS:NS"},
        {HEAD "kernel k grid=1 block=1 ns=1 stair=132:10\n", "line 3: stair: 132 SMs are not fewer than the GPU's 132"},
        {HEAD "kernel k grid=1 block=1 ns=1 stair=1:1 stair=2:1\n", "line 3: stair: given twice"},
        {"detshare-profile 1\nkernel k grid=1 block=1 ns=1 stair=1:1\nsms 2\n", "line 2: stair: the line 'sms' must"},
        {HEAD "samples 0\n", "line 3: samples=0: not a number"},
        {HEAD "name\n", "line 3: name: from 1 to 63 characters"},
};

Test(sim_profile, errors_say_line_and_key)
{
        struct sim_profile *profile = NULL;
        char error[256];

        for (size_t i = 0; i < DS_ARRAY_SIZE(wrong); i++) {
                error[0] = 0;
                cr_assert_eq(
                        sim_profile_parse(wrong[i].text, strlen(wrong[i].text), error, sizeof(error), &profile), 1);
                cr_assert(strstr(error, wrong[i].says), "'%s' does not say '%s'", error, wrong[i].says);
        }
        cr_assert_eq(sim_profile_parse(HEAD "\0kernel", sizeof(HEAD) + 6, error, sizeof(error), &profile), 1);
        cr_assert_null(profile);
}

Test(sim_profile, a_text_is_read)
{
        static const char text[] =
                "detshare-profile 1\r\nname resnet\nsource measured, somewhere\ngpu h200\nsms 132\nsamples 64\n"
                "kernel a grid=4x5x6 block=8x4x2 regs=40 shared=1024 ns=1500 bytes=77 block_ns=9 stair=8:9000,66:1700\n"
                "  kernel b ns=1 block=1 grid=1 issue_ns=3 written=4 reuse=5 bound=memory\nkernel c grid=1 block=1 "
                "ns=2 bound=compute";
        struct sim_profile *profile = NULL;
        char error[256] = "";

        cr_assert_eq(sim_profile_parse(text, sizeof(text) - 1, error, sizeof(error), &profile), 0, "%s", error);
        cr_assert_str_eq(profile->name, "resnet");
        cr_assert_str_eq(profile->source, "measured, somewhere");
        cr_assert_str_eq(profile->gpu, "h200");
        cr_assert_eq(profile->sms, 132);
        cr_assert_eq(profile->samples, 64);
        cr_assert_eq(profile->n_kernels, 3);
        cr_assert(profile->kernels[1].memory_bound && !profile->kernels[0].memory_bound &&
                  !profile->kernels[2].memory_bound);
        cr_assert_eq(profile->kernels[1].issue_ns, 3);
        cr_assert_eq(profile->kernels[1].written, 4);
        cr_assert_eq(profile->kernels[1].reuse, 5);
        cr_assert_str_eq(profile->kernels[0].name, "a");
        cr_assert_eq(sim_profile_blocks(&profile->kernels[0]), 120);
        cr_assert_eq(profile->kernels[0].block[2], 2);
        cr_assert_eq(profile->kernels[0].bytes, 77);
        cr_assert_eq(profile->kernels[0].block_ns, 9);
        cr_assert_eq(profile->kernels[0].n_stairs, 2);
        /* the time of a point holds up to the next higher point; below the lowest point it follows from the blocks
         * per SM, 15 of the 120 */
        cr_assert_eq(sim_profile_time(profile, &profile->kernels[0], 132), 1500);
        cr_assert_eq(sim_profile_time(profile, &profile->kernels[0], 131), 1700);
        cr_assert_eq(sim_profile_time(profile, &profile->kernels[0], 66), 1700);
        cr_assert_eq(sim_profile_time(profile, &profile->kernels[0], 65), 9000);
        cr_assert_eq(sim_profile_time(profile, &profile->kernels[0], 8), 9000);
        cr_assert_eq(sim_profile_time(profile, &profile->kernels[0], 4), 2 * 9000);
        cr_assert_eq(sim_profile_time(profile, &profile->kernels[0], 0), 8 * 9000);
        sim_profile_free(profile);
}

/* Texts with bytes changed, removed and repeated are read or refused with a line number; sanitizers see the rest. */
Test(sim_profile, damaged_texts_are_refused_in_words)
{
        static const char text[] = "detshare-profile 1\nname n\nsource s\ngpu h200\nsms 132\nsamples 64\n"
                                   "kernel a grid=4x5x6 block=8x4x2 regs=40 shared=1024 ns=1500 bytes=77 block_ns=9 "
                                   "stair=8:9000,66:1700\n# c\nkernel b ns=1 block=1 grid=1\n";
        struct sim_profile *profile = NULL;
        char damaged[2 * sizeof(text)], error[256];
        uint64_t seed = 1, n, at;
        int read = 0, r;

        for (int i = 0; i < 20000; i++) {
                memcpy(damaged, text, sizeof(text));
                n = sizeof(text) - 1;
                for (int k = 0; k < 1 + i % 4; k++) {
                        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
                        at = (seed >> 33) % n;
                        if (seed >> 60 < 8) {
                                damaged[at] = " \n=:,x#0129kgs"[(seed >> 20) % 15];
                        } else if (seed >> 60 < 12) {
                                memmove(damaged + at, damaged + at + 1, n - at - 1);
                                n--;
                        } else if (n < sizeof(damaged) - 1) {
                                memmove(damaged + at + 1, damaged + at, n - at);
                                n++;
                        }
                }
                error[0] = 0;
                r = sim_profile_parse(damaged, n, error, sizeof(error), &profile);
                cr_assert(r == 0 || (r == 1 && !strncmp(error, "line ", 5)), "%d %s", r, error);
                if (!r) {
                        read++;
                        cr_assert_gt(sim_profile_time(profile, &profile->kernels[0], 7), 0);
                        profile = sim_profile_free(profile);
                }
        }
        cr_assert(read > 1000 && read < 19000, "%d", read);
}

/* --- on the device --- */

static struct {
        ds_device *device;
        ds_device_module *module;
        struct ds_completion done[64];
        size_t n_done;
} rig;

#define FILLING "grid=264 block=1024" /* grid of a kernel that fills the GPU with one wave */

static const char kernels[] =
        HEAD "kernel tiny grid=1 block=32 ns=1501\n"
             "kernel small grid=16 block=256 regs=32 ns=1600\n"
             "kernel wave " FILLING " ns=20000\n"
             "kernel half grid=132 block=1024 ns=20000\n"
             "kernel persistent grid=132 block=384 regs=168 ns=1000000\n"
             "kernel waves grid=2640 block=1024 ns=200000\n"
             "kernel partial grid=396 block=1024 ns=200000\n"
             "kernel gemm grid=132 block=384 regs=168 ns=1238000 stair=16:9810000,32:4963000,66:2442000,108:1615000\n"
             "kernel stream grid=132 block=1024 ns=100000 bytes=350000000\n"
             "kernel trickle grid=132 block=1024 ns=100000 bytes=1\n"
             "kernel slowblocks grid=2640 block=1024 ns=200000 block_ns=100000\n"
             "kernel flood grid=132 block=1024 ns=1 bytes=1125899906842624\n"
             "kernel long grid=132 block=1024 ns=91004928000 bytes=1000000000\n";

static uint32_t add_rung(uint32_t first, uint32_t end)
{
        struct ds_tpc_mask mask = {};
        uint32_t rung;

        for (uint32_t i = first; i < end; i++)
                mask.word[i / 64] |= UINT64_C(1) << i % 64;
        cr_assert_eq(ds_sim_ops.rung_create(rig.device, &mask, &rung), 0);
        return rung;
}

/* rungs: 0 all, 1 lower half, 2 upper half, 3 the first eight TPCs */
static void rig_open(const char *spec)
{
        char log[256] = "";

        memset(&rig, 0, sizeof(rig));
        cr_assert_eq(ds_sim_ops.open(spec, &rig.device), 0);
        cr_assert_eq(ds_sim_ops.space_add(rig.device, 1), 0);
        add_rung(0, 66);
        add_rung(0, 33);
        add_rung(33, 66);
        add_rung(0, 8);
        cr_assert_eq(ds_sim_ops.module_load(rig.device, 1, kernels, sizeof(kernels) - 1, log, sizeof(log), &rig.module),
                0, "%s", log);
}

static void rig_close(void)
{
        ds_sim_ops.module_unload(rig.device, rig.module);
        cr_assert_null(ds_sim_ops.close(rig.device));
}

static struct ds_launch launch_of(const char *name, uint32_t rung, uint32_t priority, uint32_t index)
{
        const ds_device_kernel *kernel = ds_sim_ops.kernel_find(rig.module, name);
        struct ds_launch launch = {.space = 1, .kernel = kernel, .stream = ds_device_stream(rung, priority, index)};
        struct sim_profile *profile = NULL;
        char error[64];

        cr_assert_not_null(kernel, "%s", name);
        cr_assert_eq(sim_profile_parse(kernels, sizeof(kernels) - 1, error, sizeof(error), &profile), 0);
        for (uint32_t i = 0; i < profile->n_kernels; i++)
                if (!strcmp(profile->kernels[i].name, name)) {
                        memcpy(launch.grid, profile->kernels[i].grid, sizeof(launch.grid));
                        memcpy(launch.block, profile->kernels[i].block, sizeof(launch.block));
                }
        sim_profile_free(profile);
        return launch;
}

static void start(const char *name, uint32_t rung, uint32_t priority, uint32_t index, uint64_t token)
{
        struct ds_launch launch = launch_of(name, rung, priority, index);

        cr_assert_eq(ds_sim_ops.launch(rig.device, &launch, token), 0);
}

static void until(uint64_t ns)
{
        size_t n;
        int r;

        do {
                r = ds_sim_ops.advance(rig.device, ns);
                n = ds_sim_ops.poll(rig.device, rig.done + rig.n_done, DS_ARRAY_SIZE(rig.done) - rig.n_done);
                rig.n_done += n;
        } while (!r || n);
        cr_assert_eq(r, -ETIME);
}

static const struct ds_completion *ended(uint64_t token)
{
        size_t i = 0;

        while (i < rig.n_done && rig.done[i].token != token)
                i++;
        cr_assert_lt(i, rig.n_done, "%llu has not ended", (unsigned long long)token);
        return &rig.done[i];
}

static uint64_t took(uint64_t token)
{
        return ended(token)->end_ns - ended(token)->start_ns;
}

/* Asserts that two times are equal except for rounding at a change of pace. */
static void about(uint64_t a, uint64_t b)
{
        cr_assert(a <= b + 10 && b <= a + 10, "%llu ns, not %llu", (unsigned long long)a, (unsigned long long)b);
}

/* Duration of one kernel alone. */
static uint64_t alone(const char *name, uint32_t rung)
{
        static uint64_t token = 1000;

        rig.n_done = 0;
        start(name, rung, 0, 0, ++token);
        until(UINT64_MAX);
        cr_assert_eq(ended(token)->status, 0);
        return took(token);
}

Test(sim_profile, alone_a_kernel_takes_the_profiles_time)
{
        rig_open("h200+timing");
        cr_assert_eq(alone("tiny", 0), 1501);
        cr_assert_eq(alone("small", 0), 1600);
        cr_assert_eq(alone("wave", 0), 20 * US);
        cr_assert_eq(alone("persistent", 0), MS);
        cr_assert_eq(alone("waves", 0), 200 * US);
        cr_assert_eq(alone("partial", 0), 200 * US);
        cr_assert_eq(alone("gemm", 0), 1238 * US);
        cr_assert_eq(alone("stream", 0), 100 * US);
        rig_close();
}

Test(sim_profile, fewer_sms_follow_the_stair)
{
        rig_open("h200+timing");
        cr_assert_eq(alone("tiny", 1), 1501, "one block needs one SM");
        cr_assert_eq(alone("small", 3), 1600, "its blocks all fit");
        cr_assert_eq(alone("persistent", 1), 2 * MS, "132 blocks on 66 SMs are two waves");
        cr_assert_eq(alone("persistent", 3), 9 * MS, "and nine on 16");
        cr_assert_eq(alone("waves", 1), 400 * US);
        cr_assert_eq(alone("partial", 1), 400 * US, "six blocks on an SM instead of three");
        cr_assert_eq(alone("half", 1), 40 * US, "two fit on an SM, and share it");
        cr_assert_eq(alone("gemm", 1), 2442 * US, "as measured");
        cr_assert_eq(alone("gemm", 3), 9810 * US);
        rig_close();
}

Test(sim_profile, a_bound_on_resident_blocks_is_a_stair_too)
{
        struct ds_launch launch;

        rig_open("h200+timing");
        launch = launch_of("persistent", 0, 0, 0);
        launch.max_resident_blocks = 44;
        cr_assert_eq(ds_sim_ops.launch(rig.device, &launch, 1), 0);
        until(UINT64_MAX);
        cr_assert_eq(took(1), 3 * MS);
        rig_close();
}

Test(sim_profile, side_by_side_when_both_fit)
{
        rig_open("h200+timing");
        start("half", 0, 0, 0, 1);
        start("half", 0, 0, 1, 2);
        until(UINT64_MAX);
        cr_assert_eq(took(1), 20 * US);
        cr_assert_eq(took(2), 20 * US);
        cr_assert_lt(ended(2)->start_ns, ended(1)->end_ns);
        rig_close();
}

Test(sim_profile, rungs_that_do_not_meet_do_not_disturb)
{
        rig_open("h200+timing");
        start("persistent", 1, 0, 0, 1);
        start("persistent", 2, 1, 0, 2);
        until(UINT64_MAX);
        cr_assert_eq(took(1), 2 * MS);
        cr_assert_eq(took(2), 2 * MS);
        rig_close();
}

Test(sim_profile, nothing_is_taken_from_a_kernel_whose_blocks_have_all_begun)
{
        rig_open("h200+timing");
        start("wave", 0, 1, 0, 1);
        start("small", 0, 0, 0, 2);
        until(UINT64_MAX);
        cr_assert_eq(took(1), 20 * US);
        cr_assert_eq(ended(2)->start_ns, ended(1)->end_ns);
        cr_assert_eq(took(2), 1600);
        rig_close();
}

Test(sim_profile, blocks_yet_to_begin_give_way_to_the_higher_priority)
{
        uint64_t from;

        rig_open("h200+timing");
        start("waves", 0, 1, 0, 1); /* ten waves of 20 us */
        until(50 * US);
        from = ds_sim_ops.now(rig.device);
        start("small", 0, 0, 0, 2);
        until(UINT64_MAX);
        cr_assert_eq(took(2), 1600);
        /* the small kernel arrives 4 us after its launch and waits for a quarter of a block's time */
        cr_assert_eq(ended(2)->start_ns, from + 4 * US + 5 * US);
        /* the small kernel takes 2 of 132 SMs for 1.6 us: meanwhile the ten waves progress at the pace of eleven */
        cr_assert(took(1) > 200 * US && took(1) < 200 * US + 400, "%llu", (unsigned long long)took(1));
        rig_close();
}

Test(sim_profile, how_long_a_block_takes_can_be_said)
{
        uint64_t from;

        rig_open("h200+timing");
        start("slowblocks", 0, 1, 0, 1);
        until(50 * US);
        from = ds_sim_ops.now(rig.device);
        start("small", 0, 0, 0, 2);
        until(UINT64_MAX);
        cr_assert_eq(ended(2)->start_ns, from + 4 * US + 25 * US);
        rig_close();
}

Test(sim_profile, the_same_priority_waits_for_the_last_wave)
{
        rig_open("h200+timing");
        start("partial", 0, 0, 0, 1); /* the first wave has 264 blocks, the last one 132 */
        start("half", 0, 0, 1, 2);
        start("half", 0, 0, 2, 3);
        until(UINT64_MAX);
        cr_assert_eq(took(1), 200 * US);
        /* the last wave of the first kernel leaves room for the second */
        about(ended(2)->start_ns, ended(1)->start_ns + 100 * US);
        cr_assert_eq(ended(3)->start_ns, ended(2)->end_ns, "which is room for one");
        rig_close();
}

Test(sim_profile, a_kernel_without_room_continues_later)
{
        rig_open("h200+timing");
        start("waves", 0, 1, 0, 1);
        start("half", 0, 1, 1, 2); /* waits for the last wave of the first kernel, at 180 us */
        until(50 * US);
        start("persistent", 0, 0, 0, 3); /* takes all SMs, for longer than until that last wave */
        until(UINT64_MAX);
        cr_assert_eq(took(3), MS);
        cr_assert_gt(ended(1)->end_ns, ended(3)->end_ns);
        about(took(1), 200 * US + MS);
        cr_assert_geq(ended(2)->start_ns, ended(3)->end_ns);
        rig_close();
}

Test(sim_profile, room_is_returned)
{
        rig_open("h200+timing");
        start("half", 0, 0, 0, 1);
        until(10 * US);
        start("waves", 0, 1, 0, 2); /* gets half of the room until the first kernel ends */
        until(UINT64_MAX);
        cr_assert_eq(took(1), 20 * US);
        /* 200 us alone; half the pace from its start, 4 us after its launch at 10 us, until the first kernel ends */
        about(took(2), 200 * US + (ended(1)->end_ns - ended(2)->start_ns) / 2);
        rig_close();
}

Test(sim_profile, twice_the_memory_demand_takes_twice_as_long)
{
        rig_open("h200+timing");
        start("stream", 0, 0, 0, 1); /* one such kernel demands 3,500 GB/s, the whole bandwidth */
        start("stream", 0, 0, 1, 2);
        until(UINT64_MAX);
        /* the second kernel begins a little later than the first and ends later by the same time */
        about(took(1), took(2));
        about(took(1), 200 * US - (ended(2)->start_ns - ended(1)->start_ns));
        rig_close();
        rig_open("h200+timing");
        start("stream", 0, 0, 0, 1);
        start("half", 0, 0, 1, 2);
        until(UINT64_MAX);
        cr_assert_eq(took(1), 100 * US);
        cr_assert_eq(took(2), 20 * US, "who moves nothing does not wait for memory");
        rig_close();
}

/*
 * The most memory traffic in the shortest time, beside a long kernel that it stretches slightly beyond a multiple of
 * 2^64: no time overflows.
 */
Test(sim_profile, the_largest_numbers_end_in_order)
{
        rig_open("h200+timing");
        start("long", 0, 0, 0, 1);
        start("flood", 0, 0, 1, 2);
        until(UINT64_MAX);
        cr_assert_gt(took(2), 100 * UINT64_C(1000000000), "it asks for so much more than there is");
        cr_assert_gt(took(1), took(2) + 90 * UINT64_C(1000000000), "%llu", (unsigned long long)took(1));
        rig_close();
}

/* --- random concurrent kernels ------------------------------------------------------------------------------------ */

#define RANDOM_LAUNCHES 3000

struct random_launch {
        const char *name;
        uint64_t ns, stream;
        struct ds_completion done;
        int ended;
};

static struct random_launch random_launches[RANDOM_LAUNCHES];

static size_t random_poll(void)
{
        struct ds_completion done[16];
        size_t n = ds_sim_ops.poll(rig.device, done, DS_ARRAY_SIZE(done));

        for (size_t i = 0; i < n; i++) {
                cr_assert_eq(done[i].status, 0);
                cr_assert_eq(random_launches[done[i].token].ended++, 0);
                random_launches[done[i].token].done = done[i];
        }
        return n;
}

static void random_run(unsigned seed)
{
        static const char *const names[] = {"tiny", "small", "wave", "half", "waves", "partial", "stream", "trickle"};
        static const uint64_t ns[] = {1501, 1600, 20000, 20000, 200000, 200000, 100000, 100000};
        struct random_launch *l;
        uint32_t rung, priority, index;

        for (int i = 0; i < RANDOM_LAUNCHES; i++) {
                l = &random_launches[i];
                seed = seed * 1103515245 + 12345;
                *l = (struct random_launch){.name = names[seed >> 16 & 7], .ns = ns[seed >> 16 & 7]};
                rung = seed >> 19 & 3;
                priority = seed >> 21 & 1;
                index = seed >> 22 & 1;
                l->stream = ds_device_stream(rung, priority, index);
                start(l->name, rung, priority, index, (uint64_t)i);
                if (!(seed >> 24 & 7)) {
                        (void)ds_sim_ops.advance(rig.device, ds_sim_ops.now(rig.device) + (seed >> 27) * 20 * US);
                        random_poll();
                }
        }
        while (!ds_sim_ops.advance(rig.device, UINT64_MAX) || random_poll())
                random_poll();
}

/* Many random kernels run concurrently: all end, in the order of their streams, none sooner than alone, and all room
 * is free afterwards. */
Test(sim_profile, whatever_meets_ends)
{
        for (unsigned seed = 1; seed < 6; seed++) {
                uint64_t last[64] = {};

                rig_open("h200+timing");
                random_run(seed);
                for (int i = 0; i < RANDOM_LAUNCHES; i++) {
                        const struct random_launch *l = &random_launches[i];

                        cr_assert_eq(l->ended, 1, "seed %u: %d, %s", seed, i, l->name);
                        cr_assert_geq(l->done.start_ns, last[l->stream]);
                        cr_assert_geq(
                                l->done.end_ns - l->done.start_ns + 10, l->ns, "seed %u: %d, %s", seed, i, l->name);
                        last[l->stream] = l->done.end_ns;
                }
                cr_assert_eq(alone("wave", 0), 20 * US);
                cr_assert_eq(alone("stream", 0), 100 * US);
                rig_close();
        }
}

Test(sim_profile, a_session_that_goes_leaves_its_room)
{
        rig_open("h200+timing");
        cr_assert_eq(ds_sim_ops.space_add(rig.device, 2), 0);
        start("persistent", 0, 0, 0, 1);
        start("wave", 0, 0, 1, 2);
        until(100 * US);
        cr_assert_eq(rig.n_done, 0);
        ds_sim_ops.abort(rig.device, 1);
        until(UINT64_MAX);
        cr_assert_eq(rig.n_done, 2);
        cr_assert_neq(ended(1)->status, 0);
        cr_assert_eq(alone("wave", 0), 20 * US, "all room is free again");
        rig_close();
}

Test(sim_profile, a_deadline_ends_it)
{
        struct ds_launch launch;

        rig_open("h200+timing");
        launch = launch_of("persistent", 0, 0, 0);
        launch.deadline_ns = 300 * US;
        cr_assert_eq(ds_sim_ops.launch(rig.device, &launch, 1), 0);
        until(UINT64_MAX);
        cr_assert_eq(ended(1)->status, DS_CUDA_LAUNCH_TIMEOUT);
        cr_assert_eq(took(1), 300 * US);
        cr_assert_eq(alone("wave", 0), 20 * US);
        rig_close();
}

Test(sim_profile, kernels_that_do_not_fit_are_refused)
{
        static const char ptx[] = ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n ret;\n}\n";
        static const char big[] = HEAD "kernel big grid=1 block=1024 regs=255 ns=1\n";
        static const char other[] = "detshare-profile 1\nsms 26\nkernel k grid=1 block=1 ns=1\n";
        ds_device_module *module = NULL;
        struct ds_launch launch;
        char log[256] = "";

        rig_open("h200+timing");
        launch = launch_of("small", 0, 0, 0);
        launch.grid[0]++;
        cr_assert_eq(ds_sim_ops.launch(rig.device, &launch, 1), DS_CUDA_INVALID_VALUE, "a duration is of one shape");
        cr_assert_gt(ds_sim_ops.module_load(rig.device, 1, ptx, sizeof(ptx) - 1, log, sizeof(log), &module), 0);
        cr_assert(strstr(log, "profiles"), "%s", log);
        cr_assert_gt(ds_sim_ops.module_load(rig.device, 1, big, sizeof(big) - 1, log, sizeof(log), &module), 0);
        cr_assert(strstr(log, "kernel big"), "%s", log);
        cr_assert_gt(ds_sim_ops.module_load(rig.device, 1, other, sizeof(other) - 1, log, sizeof(log), &module), 0);
        cr_assert(strstr(log, "26 SMs"), "%s", log);
        rig_close();
        cr_assert_eq(ds_sim_ops.open("h200", &rig.device), 0);
        cr_assert_eq(ds_sim_ops.space_add(rig.device, 1), 0);
        cr_assert_gt(ds_sim_ops.module_load(rig.device, 1, kernels, sizeof(kernels) - 1, log, sizeof(log), &module), 0,
                "it is no code");
        cr_assert_null(ds_sim_ops.close(rig.device));
        cr_assert_null(module);
}
