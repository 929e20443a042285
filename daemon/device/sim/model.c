/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of GPU models
 *
 * Properties are the values that CUDA reports for the model, with three exceptions:
 *
 *  - Features that the simulated device lacks are reported as absent, whatever the real part has: managed memory,
 *    tensor maps, multicast, compression, interprocess handles, RDMA.
 *  - A simulated part has no PCI identity.
 *  - Compute capability 7.5 is the least, because today's compilers support nothing older; the Pascal rows report it.
 *
 * The h200 row's properties were read on one H200 (132 SMs, driver 580, CUDA 13.0). Its timing comes from measurements
 * on it: some constants are one measurement each, some were fitted to half of the measurements and checked against the
 * other half (make sim-fit), some are estimates: see docs/simulator/accuracy.md. The other rows take their properties
 * from the vendor's tables; their timing is scaled from the h200 row by clock, bandwidth and bus and has not
 * been measured. Every figure from this device is a simulator's.
 */
#include "device/sim/model.h"

#include <stdio.h>
#include <string.h>

#include "util/macro.h"

static const struct sim_model models[] = {
        {
                .name = "h200",
                .source = "measured on an H200",
                .cc_major = 9,
                .cc_minor = 0,
                .n_tpcs = 66,
                .sms_per_tpc = 2,
                /* TPCs of each GPC, found with clusters of 16 blocks, which never leave their GPC; no large cluster
                 * runs on the last four TPCs */
                .gpc_tpcs = {4, 8, 8, 8, 8, 8, 9, 9, 4},
                .gpc_alone = 9,
                .memory_bytes = UINT64_C(150109880320),
                .l2_bytes = 62914560,
                .l2_ways = 16,
                .channels = {SIM_CHANNELS_PAIRED, 47, 0},
                .bus_bits = 6016,
                .clock_khz = 1980000,
                .memory_clock_khz = 3201000,
                .copy_engines = 3,
                .sm_threads = 2048,
                .sm_blocks = 32,
                .sm_registers = 65536,
                .sm_shared = 233472,
                .block_shared = 49152,
                .block_shared_optin = 232448,
                .reserved_shared = 1024,
                .double_ratio = 2,
                .timing =
                        {
                                .launch_ns = 4000,
                                .kernel_ns = 1150,
                                .block_ns = 300,
                                .notify_ns = 2200,
                                .gap_ns = 700,
                                .fence_ns = 1279,
                                .beside_ns = 849,
                                .bound_ns = 1800,
                                .issue_stream_ns = 2700,
                                .issue_device_ns = 940,
                                .copy_ns = 1200,
                                .h2d_mbps = 55000,
                                .d2h_mbps = 55000,
                                .d2d_mbps = 1700000,
                                .memset_mbps = 3000000,
                                .h2h_mbps = 12500,
                                .kernel_mbps = 3500000,
                                .l2_mbps = 5588352,
                                .sm_mbps = 126720,
                                .write_cost = 2193,
                                .backlog_cost = 2380,
                                .issue_width = 4,
                                .alu_cycles = 5,
                                .memory_stall = 300,
                                .barrier_stall = 30,
                        },
        },
        {
                .name = "a2000",
                .source = "scaled from the h200 row, not measured",
                .cc_major = 8,
                .cc_minor = 6,
                .n_tpcs = 13,
                .sms_per_tpc = 2,
                .gpc_tpcs = {5, 4, 4},
                .memory_bytes = DS_MIB(12282),
                .l2_bytes = 3145728,
                .l2_ways = 16,
                .channels = {SIM_CHANNELS_GROUPS, 6, 2},
                .bus_bits = 192,
                .clock_khz = 1200000,
                .memory_clock_khz = 6001000,
                .copy_engines = 2,
                .sm_threads = 1536,
                .sm_blocks = 16,
                .sm_registers = 65536,
                .sm_shared = 102400,
                .block_shared = 49152,
                .block_shared_optin = 101376,
                .reserved_shared = 1024,
                .double_ratio = 64,
                .timing =
                        {
                                .launch_ns = 4200,
                                .kernel_ns = 1200,
                                .block_ns = 500,
                                .notify_ns = 2500,
                                .gap_ns = 900,
                                .fence_ns = 1600,
                                .beside_ns = 1200,
                                .bound_ns = 2000,
                                .issue_stream_ns = 2900,
                                .issue_device_ns = 1000,
                                .copy_ns = 1500,
                                .h2d_mbps = 12500,
                                .d2h_mbps = 12500,
                                .d2d_mbps = 125000,
                                .memset_mbps = 240000,
                                .h2h_mbps = 12500,
                                .kernel_mbps = 260000,
                                .l2_mbps = 598000,
                                .sm_mbps = 76800,
                                .write_cost = 1024,
                                .backlog_cost = 2380,
                                .issue_width = 4,
                                .alu_cycles = 5,
                                .memory_stall = 200,
                                .barrier_stall = 30,
                        },
        },
        {
                .name = "p40",
                .source = "scaled from the h200 row, not measured",
                .cc_major = 7,
                .cc_minor = 5,
                .n_tpcs = 30,
                .sms_per_tpc = 1,
                .gpc_tpcs = {5, 5, 5, 5, 5, 5},
                .memory_bytes = UINT64_C(24032378880),
                .l2_bytes = 3145728,
                .l2_ways = 16,
                .channels = {SIM_CHANNELS_GROUPS, 12, 4},
                .bus_bits = 384,
                .clock_khz = 1531000,
                .memory_clock_khz = 3615000,
                .copy_engines = 2,
                .sm_threads = 2048,
                .sm_blocks = 32,
                .sm_registers = 65536,
                .sm_shared = 98304,
                .block_shared = 49152,
                .block_shared_optin = 49152,
                .reserved_shared = 0,
                .double_ratio = 32,
                .timing =
                        {
                                .launch_ns = 5000,
                                .kernel_ns = 1500,
                                .block_ns = 500,
                                .notify_ns = 3000,
                                .gap_ns = 1200,
                                .fence_ns = 2000,
                                .beside_ns = 1500,
                                .bound_ns = 2400,
                                .issue_stream_ns = 3500,
                                .issue_device_ns = 1500,
                                .copy_ns = 2000,
                                .h2d_mbps = 12000,
                                .d2h_mbps = 12500,
                                .d2d_mbps = 150000,
                                .memset_mbps = 280000,
                                .h2h_mbps = 10000,
                                .kernel_mbps = 300000,
                                .l2_mbps = 880000,
                                .sm_mbps = 97984,
                                .write_cost = 1024,
                                .backlog_cost = 2380,
                                .issue_width = 4,
                                .alu_cycles = 6,
                                .memory_stall = 220,
                                .barrier_stall = 35,
                        },
        },
        {
                .name = "gtx1080",
                .source = "scaled from the h200 row, not measured",
                .cc_major = 7,
                .cc_minor = 5,
                .n_tpcs = 20,
                .sms_per_tpc = 1,
                .gpc_tpcs = {5, 5, 5, 5},
                .memory_bytes = DS_MIB(8119),
                .l2_bytes = 2097152,
                .l2_ways = 16,
                .channels = {SIM_CHANNELS_XOR, 8, 0},
                .bus_bits = 256,
                .clock_khz = 1733500,
                .memory_clock_khz = 5005000,
                .copy_engines = 2,
                .sm_threads = 2048,
                .sm_blocks = 32,
                .sm_registers = 65536,
                .sm_shared = 98304,
                .block_shared = 49152,
                .block_shared_optin = 49152,
                .reserved_shared = 0,
                .double_ratio = 32,
                .timing =
                        {
                                .launch_ns = 4800,
                                .kernel_ns = 1300,
                                .block_ns = 450,
                                .notify_ns = 2900,
                                .gap_ns = 1100,
                                .fence_ns = 1900,
                                .beside_ns = 1400,
                                .bound_ns = 2300,
                                .issue_stream_ns = 3300,
                                .issue_device_ns = 1400,
                                .copy_ns = 1900,
                                .h2d_mbps = 12000,
                                .d2h_mbps = 12500,
                                .d2d_mbps = 130000,
                                .memset_mbps = 260000,
                                .h2h_mbps = 10000,
                                .kernel_mbps = 270000,
                                .l2_mbps = 664000,
                                .sm_mbps = 110944,
                                .write_cost = 1024,
                                .backlog_cost = 2380,
                                .issue_width = 4,
                                .alu_cycles = 6,
                                .memory_stall = 230,
                                .barrier_stall = 35,
                        },
        },
};

/*
 * Attributes that are the same on every model, by CUDA's public attribute number. Attributes not listed are 0;
 * model_attributes adds those that differ by model.
 */
static const int32_t attributes_common[DS_DEVICE_ATTRIBUTES] = {
        [1] = 1024,        /* MAX_THREADS_PER_BLOCK */
        [2] = 1024,        /* MAX_BLOCK_DIM_X */
        [3] = 1024,        /* MAX_BLOCK_DIM_Y */
        [4] = 64,          /* MAX_BLOCK_DIM_Z */
        [5] = 2147483647,  /* MAX_GRID_DIM_X */
        [6] = 65535,       /* MAX_GRID_DIM_Y */
        [7] = 65535,       /* MAX_GRID_DIM_Z */
        [9] = 65536,       /* TOTAL_CONSTANT_MEMORY */
        [10] = 32,         /* WARP_SIZE */
        [11] = 2147483647, /* MAX_PITCH */
        [12] = 65536,      /* MAX_REGISTERS_PER_BLOCK */
        [14] = 512,        /* TEXTURE_ALIGNMENT */
        [15] = 1,          /* GPU_OVERLAP */
        [19] = 1,          /* CAN_MAP_HOST_MEMORY */
        [21] = 131072,     /* MAXIMUM_TEXTURE1D_WIDTH */
        [22] = 131072,     /* MAXIMUM_TEXTURE2D_WIDTH */
        [23] = 65536,      /* MAXIMUM_TEXTURE2D_HEIGHT */
        [24] = 16384,      /* MAXIMUM_TEXTURE3D_WIDTH */
        [25] = 16384,      /* MAXIMUM_TEXTURE3D_HEIGHT */
        [26] = 16384,      /* MAXIMUM_TEXTURE3D_DEPTH */
        [27] = 32768,      /* MAXIMUM_TEXTURE2D_LAYERED_WIDTH */
        [28] = 32768,      /* MAXIMUM_TEXTURE2D_LAYERED_HEIGHT */
        [29] = 2048,       /* MAXIMUM_TEXTURE2D_LAYERED_LAYERS */
        [30] = 512,        /* SURFACE_ALIGNMENT */
        [31] = 1,          /* CONCURRENT_KERNELS */
        [41] = 1,          /* UNIFIED_ADDRESSING */
        [42] = 32768,      /* MAXIMUM_TEXTURE1D_LAYERED_WIDTH */
        [43] = 2048,       /* MAXIMUM_TEXTURE1D_LAYERED_LAYERS */
        [44] = 1,          /* CAN_TEX2D_GATHER */
        [45] = 32768,      /* MAXIMUM_TEXTURE2D_GATHER_WIDTH */
        [46] = 32768,      /* MAXIMUM_TEXTURE2D_GATHER_HEIGHT */
        [47] = 8192,       /* MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE */
        [48] = 8192,       /* MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE */
        [49] = 32768,      /* MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE */
        [51] = 32,         /* TEXTURE_PITCH_ALIGNMENT */
        [52] = 32768,      /* MAXIMUM_TEXTURECUBEMAP_WIDTH */
        [53] = 32768,      /* MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH */
        [54] = 2046,       /* MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS */
        [55] = 32768,      /* MAXIMUM_SURFACE1D_WIDTH */
        [56] = 131072,     /* MAXIMUM_SURFACE2D_WIDTH */
        [57] = 65536,      /* MAXIMUM_SURFACE2D_HEIGHT */
        [58] = 16384,      /* MAXIMUM_SURFACE3D_WIDTH */
        [59] = 16384,      /* MAXIMUM_SURFACE3D_HEIGHT */
        [60] = 16384,      /* MAXIMUM_SURFACE3D_DEPTH */
        [61] = 32768,      /* MAXIMUM_SURFACE1D_LAYERED_WIDTH */
        [62] = 2048,       /* MAXIMUM_SURFACE1D_LAYERED_LAYERS */
        [63] = 32768,      /* MAXIMUM_SURFACE2D_LAYERED_WIDTH */
        [64] = 32768,      /* MAXIMUM_SURFACE2D_LAYERED_HEIGHT */
        [65] = 2048,       /* MAXIMUM_SURFACE2D_LAYERED_LAYERS */
        [66] = 32768,      /* MAXIMUM_SURFACECUBEMAP_WIDTH */
        [67] = 32768,      /* MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH */
        [68] = 2046,       /* MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS */
        [69] = 268435456,  /* MAXIMUM_TEXTURE1D_LINEAR_WIDTH */
        [70] = 131072,     /* MAXIMUM_TEXTURE2D_LINEAR_WIDTH */
        [71] = 65000,      /* MAXIMUM_TEXTURE2D_LINEAR_HEIGHT */
        [72] = 2097120,    /* MAXIMUM_TEXTURE2D_LINEAR_PITCH */
        [73] = 32768,      /* MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH */
        [74] = 32768,      /* MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT */
        [77] = 32768,      /* MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH */
        [78] = 1,          /* STREAM_PRIORITIES_SUPPORTED */
        [79] = 1,          /* GLOBAL_L1_CACHE_SUPPORTED */
        [80] = 1,          /* LOCAL_L1_CACHE_SUPPORTED */
        [90] = 1,          /* COMPUTE_PREEMPTION_SUPPORTED */
        [95] = 1,          /* COOPERATIVE_LAUNCH */
        [99] = 1,          /* HOST_REGISTER_SUPPORTED */
        [102] = 1,         /* VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
        [103] = 1,         /* HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED */
        [115] = 1,         /* MEMORY_POOLS_SUPPORTED */
        [118] = 100,       /* GPU_DIRECT_RDMA_WRITES_ORDERING: all devices */
        [122] = 1,         /* CAN_USE_64_BIT_STREAM_MEM_OPS */
        [123] = 1,         /* CAN_USE_STREAM_WAIT_VALUE_NOR */
        [126] = 1,         /* MEM_SYNC_DOMAIN_COUNT */
        [129] = 1,         /* UNIFIED_FUNCTION_POINTERS */
        [131] = -1,        /* NUMA_ID */
};

static void model_attributes(const struct sim_model *m, int32_t *a)
{
        memcpy(a, attributes_common, sizeof(attributes_common));
        a[8] = (int32_t)m->block_shared;                     /* MAX_SHARED_MEMORY_PER_BLOCK */
        a[13] = (int32_t)m->clock_khz;                       /* CLOCK_RATE */
        a[16] = (int32_t)(m->n_tpcs * m->sms_per_tpc);       /* MULTIPROCESSOR_COUNT */
        a[32] = m->cc_major >= 9 || !strcmp(m->name, "p40"); /* ECC_ENABLED */
        a[36] = (int32_t)m->memory_clock_khz;                /* MEMORY_CLOCK_RATE */
        a[37] = (int32_t)m->bus_bits;                        /* GLOBAL_MEMORY_BUS_WIDTH */
        a[38] = (int32_t)m->l2_bytes;                        /* L2_CACHE_SIZE */
        a[39] = (int32_t)m->sm_threads;                      /* MAX_THREADS_PER_MULTIPROCESSOR */
        a[40] = (int32_t)m->copy_engines;                    /* ASYNC_ENGINE_COUNT */
        a[75] = (int32_t)m->cc_major;                        /* COMPUTE_CAPABILITY_MAJOR */
        a[76] = (int32_t)m->cc_minor;                        /* COMPUTE_CAPABILITY_MINOR */
        a[81] = (int32_t)m->sm_shared;                       /* MAX_SHARED_MEMORY_PER_MULTIPROCESSOR */
        a[82] = (int32_t)m->sm_registers;                    /* MAX_REGISTERS_PER_MULTIPROCESSOR */
        a[87] = (int32_t)m->double_ratio;                    /* SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO */
        a[97] = (int32_t)m->block_shared_optin;              /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
        a[106] = (int32_t)m->sm_blocks;                      /* MAX_BLOCKS_PER_MULTIPROCESSOR */
        a[111] = (int32_t)m->reserved_shared;                /* RESERVED_SHARED_MEMORY_PER_BLOCK */
        a[120] = m->cc_major >= 9;                           /* CLUSTER_LAUNCH */
        if (m->cc_major >= 8) {
                a[108] = m->cc_major >= 9 ? 39321600 : 2359296; /* MAX_PERSISTING_L2_CACHE_SIZE */
                a[109] = 134217728;                             /* MAX_ACCESS_POLICY_WINDOW_SIZE */
        }
}

const struct sim_model *sim_model_at(size_t n)
{
        return n < DS_ARRAY_SIZE(models) ? &models[n] : NULL;
}

const struct sim_model *sim_model_find(const char *name, size_t length)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(models); i++)
                if (strlen(models[i].name) == length && !memcmp(models[i].name, name, length))
                        return &models[i];
        return NULL;
}

void sim_model_gpc(const struct sim_model *model, uint32_t tpc, uint32_t *ret_gpc, uint32_t *ret_rank)
{
        uint32_t left = tpc;

        for (uint32_t rank = 0; rank < model->n_tpcs; rank++) {
                for (uint32_t gpc = 0; gpc < SIM_GPCS_MAX; gpc++) {
                        if (model->gpc_tpcs[gpc] <= rank)
                                continue;
                        if (!left--) {
                                *ret_gpc = gpc;
                                *ret_rank = rank;
                                return;
                        }
                }
        }
        *ret_gpc = *ret_rank = 0;
}

static void model_gpcs(const struct sim_model *model, struct ds_device_info *info)
{
        uint32_t gpc, rank;

        memset(info->gpc_of_tpc, DS_DEVICE_GPC_NONE, sizeof(info->gpc_of_tpc));
        for (uint32_t tpc = 0; tpc < model->n_tpcs; tpc++) {
                sim_model_gpc(model, tpc, &gpc, &rank);
                if (gpc + 1 == model->gpc_alone)
                        continue;
                info->gpc_of_tpc[tpc] = (uint8_t)gpc;
                info->n_gpcs = DS_MAX(info->n_gpcs, gpc + 1);
        }
}

void sim_model_info(const struct sim_model *model, struct ds_device_info *info)
{
        *info = (struct ds_device_info){
                .simulated = 1,
                .cc_major = model->cc_major,
                .cc_minor = model->cc_minor,
                .n_sms = model->n_tpcs * model->sms_per_tpc,
                .n_tpcs = model->n_tpcs,
                .uuid = "dtshr-sim",
        };
        snprintf(info->name, sizeof(info->name), "DetShare sim:%s", model->name);
        snprintf(info->model, sizeof(info->model), "%s", model->name);
        /* the same on every machine, different for every model */
        for (size_t i = 0; i < 7 && model->name[i]; i++)
                info->uuid[9 + i] = (uint8_t)model->name[i];
        model_attributes(model, info->attributes);
        model_gpcs(model, info);
}
