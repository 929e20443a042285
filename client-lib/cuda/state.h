/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the process has of CUDA: initialised or not, its session, its device
 *
 * A process passes from NEW through READY (cuInit) to one of two ends: FORKED in the child of a process that had
 * initialised, where CUDA cannot be used, and EXITED once the library's destructors have run. Every entry point asks
 * dcu_enter_process() first. After READY, `session` and `device` are always there and are read without a lock; they
 * change only when the daemon was gone and no context is active (context.c), and the old ones stay valid as objects.
 *
 * `epoch` counts resets and changes of the session: code handed to the daemon in an earlier epoch is gone there and is
 * loaded again.
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
        _Atomic int n_devices; /* 0 or 1: what CUDA_VISIBLE_DEVICES leaves */
        int launch_blocking;   /* CUDA_LAUNCH_BLOCKING */
        int eager_loading;     /* CUDA_MODULE_LOADING=EAGER */
        pthread_mutex_t lock;  /* objects and contexts: creation, destruction, ownership lists */
};

extern struct dcu_state dcu;

CUresult dcu_phase_error(int phase);
/* The daemon is gone: another session. dcu.lock is held, no context is active. */
CUresult dcu_session_renew(void);

/* CUDA_SUCCESS once cuInit has succeeded in this process, and not in a host function of a stream. */
static inline CUresult dcu_enter_process(void)
{
        int phase = atomic_load_explicit(&dcu.phase, memory_order_acquire);

        if (__builtin_expect(phase != DCU_READY, 0))
                return dcu_phase_error(phase);
        return __builtin_expect(dcu_self.in_host_function, 0) ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

/* The version that cuDriverGetVersion reports: of the toolkit that this was built with, or a newer one that the
 * machine's driver has. */
int dcu_driver_version(void);

/* A core return value as the CUresult a program gets. */
static inline CUresult dcu_result(int r)
{
        return r == 0 ? CUDA_SUCCESS : (CUresult)dsc_cuda(r);
}

/* Value of a device attribute, 0 for one the device does not report. */
int dcu_attribute(CUdevice_attribute attribute);
/* CUDA_ERROR_INVALID_DEVICE unless dev is a visible device. Call after dcu_enter_process(). */
CUresult dcu_check_device(CUdevice dev);
/* How many devices CUDA_VISIBLE_DEVICES (NULL: unset) leaves of the one with this UUID: 0 or 1; -1 if it names it
 * twice. */
int dcu_visible_devices(const char *variable, const uint8_t uuid[16]);
/* Answers for names without an implementation; DETSHARE_DEBUG=1 names them on stderr. */
int dcu_unsupported(const char *name);
