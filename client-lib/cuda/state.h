/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA state of the process: initialisation, session, device
 *
 * A process goes from NEW through READY (cuInit) to one of two ends: FORKED in the child of an initialised process,
 * where CUDA cannot be used; EXITED once the library's destructors have run. Every entry point calls
 * dcu_enter_process() first. After READY, `session` and `device` are always set and are read without a lock. They
 * change only when the daemon is gone and no context is active (context.c); the old ones stay valid as objects.
 *
 * `epoch` counts resets and changes of the session: code loaded in an earlier epoch is gone in the daemon and is loaded
 * again.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "core/core.h"
#include "cuda/api.h"
#include "cuda/thread.h"

enum dcu_phase { DCU_NEW, DCU_READY, DCU_FORKED, DCU_EXITED };

struct dcu_state {
        _Atomic int phase;
        _Atomic uint32_t epoch;
        _Atomic(dsc_session *) session;
        _Atomic(const struct dsc_device *) device;
        _Atomic int n_devices; /* number of devices that CUDA_VISIBLE_DEVICES leaves, 0 or 1 */
        int launch_blocking;   /* value of CUDA_LAUNCH_BLOCKING */
        int eager_loading;     /* 1: CUDA_MODULE_LOADING=EAGER */
        /* protects creation and destruction of objects and contexts, and the contexts' lists of objects */
        pthread_mutex_t lock;
};

extern struct dcu_state dcu;

CUresult dcu_phase_error(int phase);
/* Makes a new session after the daemon was lost. With dcu.lock held, and no active context. */
CUresult dcu_session_renew(void);

/* Returns CUDA_SUCCESS if cuInit has succeeded in this process; an error otherwise, and in a stream's host function. */
static inline CUresult dcu_enter_process(void)
{
        int phase = atomic_load_explicit(&dcu.phase, memory_order_acquire);

        if (__builtin_expect(phase != DCU_READY, 0))
                return dcu_phase_error(phase);
        return __builtin_expect(dcu_self.in_host_function, 0) ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

/* The version that cuDriverGetVersion reports: the toolkit's of the build, or the machine's driver's if that is
 * newer. */
int dcu_driver_version(void);

/* Translates a return value of the core into a CUresult. */
static inline CUresult dcu_result(int r)
{
        return r == 0 ? CUDA_SUCCESS : (CUresult)dsc_cuda(r);
}

/* The value of a device attribute, 0 if the device does not report it. */
int dcu_attribute(CUdevice_attribute attribute);
/* CUDA_ERROR_INVALID_DEVICE unless `dev` is 0 and CUDA_VISIBLE_DEVICES leaves a device. Call after
 * dcu_enter_process(). */
CUresult dcu_check_device(CUdevice dev);
/* Returns how many devices with this UUID the variable CUDA_VISIBLE_DEVICES (NULL: unset) leaves: 0 or 1; -1: it
 * names the UUID twice. */
int dcu_visible_devices(const char *variable, const uint8_t uuid[16]);
/* Returns the result of functions without an implementation; with DETSHARE_DEBUG=1, prints `name` to stderr. */
int dcu_unsupported(const char *name);
