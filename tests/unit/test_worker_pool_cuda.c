/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_worker_pool.c on the cuda device
 */
#define POOL_CUDA
#define REAL ds_cuda_ops
#define DEVICE "0"
#include "device/cuda/cuda.h"

#include "test_worker_pool.c"
