/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of a profile on the SMs: shares of room instead of blocks
 *
 * A timing-only device that replays a profile (profile.h) does not place blocks. It hands out room, so one event per
 * kernel is enough while kernels do not meet. The room that a kernel holds decides its duration:
 *
 *  - A block takes 1 / (blocks that fit) of an SM. A kernel wants room for all its blocks, or all of its rung.
 *  - Kernels queue by priority, then in the order in which they began. A new kernel takes free room in its rung. A
 *    kernel that gets less runs with that, if it is at least a block, and takes more when room is returned, in order.
 *  - The kernel's time follows from its room. With all the room that it wants: the profile's time for the SMs of its
 *    rung, on the whole GPU to the nanosecond. With less, if it would fill its rung: the profile's time for as many SMs
 *    as it has room of. With less otherwise: longer in proportion to the waves that its blocks then make. When the room
 *    changes, the rest of the work continues at the new pace.
 *  - A kernel whose blocks have all begun loses no room. A kernel with blocks yet to begin yields to those before it in
 *    the queue as its blocks end. The room that they lack moves all at once, at the time when that much of it would
 *    have ended if blocks ended evenly, and no sooner than a quarter of a block's time. (On an H200 a kernel of 16
 *    blocks began 5 us later beside blocks of 20 us than without, 37 us later beside blocks of 200 us.)
 *  - A kernel that others wait for keeps only its last wave's room when that wave begins.
 *  - When the kernels' memory demand exceeds the bandwidth, each that moves any bytes takes longer by that ratio.
 *
 * Not modelled: which SM a block is on (room in pieces on several SMs is as good as on one), issue slots and caches
 * that blocks of different kernels on one SM share, waves that lose step, and what blocks.c leaves out. Integer
 * arithmetic only: the same submissions give the same times.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

#define SIM_ROOM_SM 65536u                /* units of room of one SM */
#define SIM_ATOMS_MAX DS_DEVICE_TPCS_MAX  /* most atoms; an atom is a set of TPCs that no rung splits */
#define SIM_SHARE_ONE (UINT64_C(1) << 30) /* the whole work of a kernel, in fixed point */
#define SIM_SHARE_PHASE 4                 /* when many blocks run, the first ends after 1 / this of a block's time */

struct sim_job;

/* SM resources of a profile's kernel, fixed when it is loaded. */
struct sim_shape {
        uint32_t per_sm; /* blocks that fit on one SM */
        uint32_t part;   /* room that one block takes */
        uint64_t blocks;
};

/* A job's share of the SMs. Room is in units of 1 / SIM_ROOM_SM of an SM. */
struct sim_share {
        struct sim_job *next, *prev; /* neighbours in the queue */
        uint32_t want, held;
        uint64_t left;     /* work left at since_ns, as a fraction of SIM_SHARE_ONE */
        uint64_t since_ns; /* time of the last change of room or pace */
        uint64_t alone_ns; /* duration of the whole kernel with the room held, without slowing by memory; 0: no room */
        uint64_t time_ns;  /* alone_ns, stretched by the present load of the memory */
        uint64_t slots;    /* blocks that run at once with the room held, at least 1 */
        uint64_t waves;    /* number of waves in which the kernel's blocks run, `slots` at a time */
        uint64_t last_ns;  /* time at which the last wave begins at the present pace */
        uint64_t demand;   /* bytes per us that the kernel moves at alone_ns */
        bool last_wave;    /* true: the last wave runs, and the room that it does not need is returned */
};

/* The device's room */
struct sim_room {
        uint32_t n_atoms;
        uint32_t free[SIM_ATOMS_MAX];
        struct {
                struct sim_job *head, *tail;
        } line[DS_DEVICE_PRIORITIES];
        uint32_t n_short; /* number of kernels that want more room than they hold */
        uint64_t demand;  /* demand of all kernels together, bytes per us */
        bool profiles;    /* modules of this device are profiles */
        bool code;        /* modules of this device are PTX */
};
