/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error messages per thread, and daemon statuses as CUDA errors
 *
 * A library must not print into its host program's output. The message of a failure is kept per thread, for
 * dsc_message() and detshare_last_error().
 */
#include <stdio.h>
#include <time.h>

#include "core/internal.h"

static __thread char last_message[DSC__MESSAGE_BYTES];

const char *dsc_message(void)
{
        return last_message;
}

void dsc__message_clear(void)
{
        last_message[0] = '\0';
}

void dsc__message(const char *format, ...)
{
        va_list args;
        va_start(args, format);
        vsnprintf(last_message, sizeof(last_message), format, args);
        va_end(args);
}

uint64_t dsc__now(void)
{
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int dsc_cuda(int error)
{
        if (error >= 0 && error < 10000)
                return error;
        switch (error) {
        case DETSHARE__STATUS__BAD_REQUEST:
        case DETSHARE__STATUS__BAD_PARAMETER:
        case DETSHARE__STATUS__NO_SUCH:
                return DSC__INVALID_VALUE;
        case DETSHARE__STATUS__QUOTA:
                return DSC__OUT_OF_MEMORY;
        case DETSHARE__STATUS__DENIED:
                return 800; /* CUDA_ERROR_NOT_PERMITTED */
        case DETSHARE__STATUS__UNSUPPORTED:
                return 801; /* CUDA_ERROR_NOT_SUPPORTED */
        case DETSHARE__STATUS__BAD_VERSION:
                return 803; /* CUDA_ERROR_SYSTEM_DRIVER_MISMATCH */
        default:
                return DSC__UNKNOWN;
        }
}
