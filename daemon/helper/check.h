/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One image checked: from bytes nobody trusts to a sealed file that the worker loads
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DS_CHECK_MESSAGE_MAX 16384
#define DS_CHECK_IMAGE_MAX ((uint64_t)256 << 20)

struct ds_check_result {
        int status; /* 0 or CUresult */
        int fd;     /* status 0: memory file with all seals, the caller's; else -1 */
        uint64_t bytes;
        uint64_t hash;                      /* XXH3 of those bytes */
        char message[DS_CHECK_MESSAGE_MAX]; /* the compiler's words when status is not 0 */
};

/*
 * Check `bytes` bytes of the file fd (stays the caller's), for a GPU of compute capability cc (90). any: the device
 * executes PTX of any target (simulated). Always fills *result; out of memory is a result too (CUDA's 2).
 */
void ds_check_image(int fd, uint64_t bytes, uint32_t cc, int any, struct ds_check_result *result);
