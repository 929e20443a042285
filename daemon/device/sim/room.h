/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of a profile on the SMs: shares of room instead of blocks
 *
 * A timing-only device that replays a profile (profile.h) does not place blocks. It deals out room, and one event per
 * kernel is enough as long as kernels do not meet. What a kernel gets decides how long it takes:
 *
 *  - A block takes 1 / (blocks that fit) of an SM. A kernel wants room for all its blocks, or all of its rung.
 *  - Kernels stand in line by priority, then in the order in which they began. Whoever comes takes what is free in its
 *    rung; who gets less runs with that, if it is a block at least, and takes more when some is given back, in line.
 *  - The kernel's time follows from the room it has. With all that it wants: the profile's for the SMs of its rung, on
 *    the whole GPU to the nanosecond. With less: when it would fill its rung, the profile's for as many SMs as it has
 *    room of; when it would not, as much longer as its blocks then make waves. When the room changes, what is left of
 * the work goes on at the new pace.
 *  - Nothing is taken from a kernel whose blocks have all begun. One with blocks yet to begin gives way to those before
 *    it in line as its blocks end: what they lack changes hands at once, at the time when that much of it would have
 *    ended, blocks ending evenly, and no sooner than a quarter of a block's time. (On an H200 a kernel of 16 blocks
 *    began 5 us later beside blocks of 20 us than without, 37 us later beside blocks of 200 us.)
 *  - A kernel that others wait for keeps only its last wave's room when that wave begins.
 *  - When what the kernels move comes to more than the memory bears, each that moves anything takes as many times
 * longer.
 *
 * What this leaves out: which SM a block is on (room in pieces on several SMs is as good as on one), issue slots and
 * caches that blocks of different kernels on one SM share, waves that get out of step, and what blocks.c leaves out.
 * Integer arithmetic only: the same submissions give the same times.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

#define SIM_ROOM_SM 65536u                /* room of one SM */
#define SIM_ATOMS_MAX DS_DEVICE_TPCS_MAX  /* sets of TPCs that no rung tells apart */
#define SIM_SHARE_ONE (UINT64_C(1) << 30) /* all of a kernel's work */
#define SIM_SHARE_PHASE 4                 /* a block's time / this passes before the first of many ends */

struct sim_job;

/* What a kernel of a profile takes, fixed when it is loaded. */
struct sim_shape {
        uint32_t per_sm; /* blocks on one SM */
        uint32_t part;   /* room of one block */
        uint64_t blocks;
};

/* A job's part in it. Room is in 1 / SIM_ROOM_SM of an SM. */
struct sim_share {
        struct sim_job *next, *prev; /* in line */
        uint32_t want, held;
        uint64_t left;     /* of SIM_SHARE_ONE, as of since_ns */
        uint64_t since_ns; /* when room or pace changed last */
        uint64_t alone_ns; /* the whole kernel with this room; 0: it has none */
        uint64_t time_ns;  /* that, with the memory as it is */
        uint64_t slots;    /* blocks that run at once, at least 1 */
        uint64_t waves;    /* that its blocks make of that */
        uint64_t last_ns;  /* when the last of them begins, at this pace */
        uint64_t demand;   /* bytes per us at that pace, memory willing */
        bool last_wave;    /* gave back what its last wave does not need */
};

/* The device's */
struct sim_room {
        uint32_t n_atoms;
        uint32_t free[SIM_ATOMS_MAX];
        struct {
                struct sim_job *head, *tail;
        } line[DS_DEVICE_PRIORITIES];
        uint32_t n_short; /* that want more than they have */
        uint64_t demand;  /* of all, bytes per us */
        bool profiles;    /* modules of this device are profiles */
        bool code;        /* ... are PTX */
};
