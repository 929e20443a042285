/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A note for programs that time a simulated device by the wall clock
 *
 * A simulated device has a clock of its own: the times of the model. Executing kernels on the CPU takes far longer, so
 * a program that measures with the wall clock measures the simulator. When both clocks differ more than tenfold over a
 * second or more, one line on standard error says so, once per process: a program that opens a new session after an
 * error of the daemon gets no second line. Programs that read the device's clock
 * (detshare_now()) know it and get no note; neither do programs on a GPU, nor over DETSHARE_TRANSPORT=rpc, which
 * have no page to read the clock from.
 */
#include <stdio.h>

#include "core/internal.h"

#define WALL_MIN_NS 1000000000u
#define TIMES 10u

static atomic_bool told; /* true: this process has got the line */

void dsc__clock_note_begin(dsc_session *s)
{
        if (s->note.wall_ns || !s->simulated)
                return;
        s->note.device_ns = atomic_load(&s->page->now_ns);
        s->note.wall_ns = dsc__now();
}

static void say(uint64_t device_ns, uint64_t wall_ns)
{
        fprintf(stderr,
                "detshare: this device is simulated: its clock advanced %.3g s while %.3g s passed. Its times are the "
                "model's: measure with detshare_now() (detshare.h), read docs/simulator.md\n",
                (double)device_ns / 1e9, (double)wall_ns / 1e9);
}

void dsc__clock_note(dsc_session *s)
{
        if (!s->simulated || !dsc__attached(s) || !s->note.wall_ns || atomic_load(&s->note.over))
                return;
        const uint64_t wall_ns = dsc__now() - s->note.wall_ns;
        const uint64_t now_ns = atomic_load(&s->page->now_ns);
        const uint64_t device_ns = now_ns > s->note.device_ns ? now_ns - s->note.device_ns : 0;
        if (wall_ns < WALL_MIN_NS || !device_ns || (wall_ns <= TIMES * device_ns && device_ns <= TIMES * wall_ns))
                return;
        if (!atomic_exchange(&s->note.over, true) && !atomic_exchange(&told, true) && dsc__notes())
                say(device_ns, wall_ns);
}
