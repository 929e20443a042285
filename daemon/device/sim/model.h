/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU models of the simulated device
 *
 * One row per model: the properties that CUDA reports, the limits of residency on an SM, and the constants of the
 * timing model. A row names the source of its timing constants. No state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "device/sim/channel.h"

#define SIM_GPCS_MAX 12
#define SIM_SMS_MAX (DS_DEVICE_TPCS_MAX * 2)

/* Times in ns, rates in MB/s (bytes per microsecond). */
struct sim_timing {
        uint32_t launch_ns;       /* from submission to the kernel's begin on an idle device */
        uint32_t kernel_ns;       /* from a kernel's begin to its first block */
        uint32_t block_ns;        /* duration of a block that executes nothing */
        uint32_t notify_ns;       /* from the end of an operation on the device until the host sees it */
        uint32_t gap_ns;          /* from the end of an operation to the begin of the stream's next one */
        uint32_t fence_ns;        /* added to gap_ns when the next operation waits for another stream */
        uint32_t beside_ns;       /* added to kernel_ns when blocks of another rung are resident */
        uint32_t bound_ns;        /* from a changed limit on resident blocks until it takes effect */
        uint32_t issue_stream_ns; /* least time between the begins of two kernels of one stream */
        uint32_t issue_device_ns; /* least time between the begins of two kernels on the device */
        uint32_t copy_ns;         /* duration of a copy of 0 bytes */
        uint32_t h2d_mbps, d2h_mbps, d2d_mbps, memset_mbps, h2h_mbps;
        uint32_t kernel_mbps;  /* VRAM bandwidth for kernels, all channels together */
        uint32_t l2_mbps;      /* L2 bandwidth, all channels together */
        uint32_t sm_mbps;      /* L2 bandwidth of one SM */
        uint32_t write_cost;   /* time of a byte written to VRAM, compared to a byte read, in 1024ths */
        uint32_t backlog_cost; /* L2 bandwidth that a request waiting for a channel takes from others, 1024ths */
        uint32_t issue_width;  /* warp instructions per cycle and SM */
        uint32_t alu_cycles;   /* cycles from one instruction of a warp to the warp's next */
        uint32_t memory_stall; /* cycles that a memory instruction delays its warp */
        uint32_t barrier_stall;
};

struct sim_model {
        const char *name;
        const char *source; /* source of the timing constants */
        uint32_t cc_major, cc_minor;
        uint32_t n_tpcs, sms_per_tpc;
        uint8_t gpc_tpcs[SIM_GPCS_MAX]; /* number of TPCs of each GPC; consecutive TPC numbers go to the GPCs in turn */
        /* entry of gpc_tpcs, counted from 1, whose TPCs belong to no GPC that runs large clusters; 0: none */
        uint8_t gpc_alone;
        uint64_t memory_bytes;
        uint32_t l2_bytes, l2_ways, bus_bits;
        struct sim_channels channels;
        uint32_t clock_khz, memory_clock_khz;
        uint32_t copy_engines;
        /* limits of one SM */
        uint32_t sm_threads, sm_blocks, sm_registers, sm_shared;
        uint32_t block_shared, block_shared_optin, reserved_shared;
        uint32_t double_ratio; /* ratio of single to double precision throughput */
        struct sim_timing timing;
};

/* The model of this name (length bytes); NULL: there is none. */
const struct sim_model *sim_model_find(const char *name, size_t length);
/* The n-th model of the table; NULL past the end. */
const struct sim_model *sim_model_at(size_t n);
/* GPC of a TPC, and the TPC's rank among the TPCs of that GPC. */
void sim_model_gpc(const struct sim_model *model, uint32_t tpc, uint32_t *ret_gpc, uint32_t *ret_rank);
/* Fills all fields of *info except memory_bytes and slab_granularity. */
void sim_model_info(const struct sim_model *model, struct ds_device_info *info);
