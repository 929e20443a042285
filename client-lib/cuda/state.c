/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuInit, and the life of the library in its process
 *
 * cuInit connects to the daemon. Without a daemon it returns CUDA_ERROR_NO_DEVICE, as without a GPU; the program may
 * try again later. When the daemon ends afterwards, cuInit and the first new context connect again. Like the driver,
 * this library implements CUDA_VISIBLE_DEVICES. A forked child gets CUDA_ERROR_NOT_INITIALIZED from all calls; calls
 * after the library's destructor get CUDA_ERROR_DEINITIALIZED. Neither takes a lock.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cuda/context.h"
#include "cuda/fallback.h"
#include "cuda/genuine.h"
#include "cuda/object.h"
#include "cuda/state.h"
#include "cuda/stream.h"

struct dcu_state dcu = {.epoch = 1, .lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

CUresult dcu_phase_error(int phase)
{
        return phase == DCU_EXITED ? CUDA_ERROR_DEINITIALIZED : CUDA_ERROR_NOT_INITIALIZED;
}

static void after_fork_in_child(void)
{
        if (atomic_load(&dcu.phase) == DCU_READY)
                atomic_store(&dcu.phase, DCU_FORKED);
}

__attribute__((destructor)) static void library_exit(void)
{
        if (atomic_load(&dcu.phase) == DCU_READY)
                atomic_store(&dcu.phase, DCU_EXITED);
}

/* 1: an entry of CUDA_VISIBLE_DEVICES names the device: ordinal 0, or a prefix of its UUID after "GPU-". */
static int entry_names_device(const char *entry, size_t length, const uint8_t uuid[16])
{
        char text[DSC_UUID_TEXT], *end;

        if (length > 4 && strncasecmp(entry, "GPU-", 4) == 0) {
                dsc_uuid_text(uuid, text);
                return length <= strlen(text) && strncasecmp(entry, text, length) == 0;
        }
        if (length == 0 || !isdigit((unsigned char)entry[0]))
                return 0;
        return strtol(entry, &end, 10) == 0 && end == entry + length;
}

int dcu_visible_devices(const char *variable, const uint8_t uuid[16])
{
        int found = 0;

        if (!variable)
                return 1;
        while (*variable) {
                size_t skip = strspn(variable, " \t"), length;

                variable += skip;
                length = strcspn(variable, ", \t");
                if (!entry_names_device(variable, length, uuid))
                        break; /* CUDA ignores an invalid entry and all entries after it */
                if (found++)
                        return -1;
                variable += length;
                variable += strspn(variable, " \t");
                if (*variable == ',')
                        variable++;
        }
        return found;
}

static int flag_from_environment(const char *name)
{
        const char *value = getenv(name);

        return value && value[0] && strcmp(value, "0") != 0;
}

static CUresult take_session(dsc_session *session, int error)
{
        int n;

        if (!session)
                return error ? dcu_result(error) : CUDA_ERROR_NO_DEVICE;
        dcu.session = session;
        dcu.device = dsc_device(session);
        n = dcu_visible_devices(getenv("CUDA_VISIBLE_DEVICES"), dcu.device->uuid);
        dcu.n_devices = n;
        if (n <= 0)
                return n < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_NO_DEVICE;
        return CUDA_SUCCESS;
}

CUresult dcu_session_renew(void)
{
        int r = 0;
        dsc_session *session = dsc_renew(NULL, &r);

        return take_session(session, r);
}

static CUresult initialise(void)
{
        static int atfork_registered;
        const char *loading = getenv("CUDA_MODULE_LOADING");
        int r = 0;
        dsc_session *session = dsc_get(&r);
        CUresult result;

        if (session && dsc_lost(session)) /* a function of detshare.h made the session before cuInit */
                session = dsc_renew(NULL, &r);
        if (!session && dsc_fallback_native())
                return dcu_fallback_init(0, r ? dcu_result(r) : CUDA_ERROR_NO_DEVICE);
        result = take_session(session, r);
        if (result != CUDA_SUCCESS)
                return result;
        dsc_streams(dcu_stream_for_core);
        dcu.launch_blocking = flag_from_environment("CUDA_LAUNCH_BLOCKING");
        dcu.eager_loading = loading && strcmp(loading, "EAGER") == 0;
        if (!dcu_objects_start())
                return CUDA_ERROR_OUT_OF_MEMORY;
        if (!atfork_registered && pthread_atfork(NULL, NULL, after_fork_in_child) != 0)
                return CUDA_ERROR_OUT_OF_MEMORY;
        atfork_registered = 1;
        atomic_store_explicit(&dcu.phase, DCU_READY, memory_order_release);
        return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int Flags)
{
        CUresult r = CUDA_SUCCESS;
        int phase = atomic_load(&dcu.phase);

        if (Flags != 0)
                return CUDA_ERROR_INVALID_VALUE;
        if (phase == DCU_FORKED || phase == DCU_EXITED)
                return dcu_phase_error(phase);
        pthread_mutex_lock(&init_lock);
        if (atomic_load(&dcu.phase) != DCU_READY)
                r = initialise();
        else
                r = dcu_context_revive();
        pthread_mutex_unlock(&init_lock);
        return r;
}

/* Returns the genuine driver's version: NVIDIA's runtime passes arguments in the form of that version. */
int dcu_driver_version(void)
{
        int genuine = dcu_genuine_version();

        return genuine > DCU_DRIVER_VERSION ? genuine : DCU_DRIVER_VERSION;
}

CUresult cuDriverGetVersion(int *driverVersion)
{
        if (!driverVersion)
                return CUDA_ERROR_INVALID_VALUE;
        *driverVersion = dcu_driver_version();
        return CUDA_SUCCESS;
}

int dcu_attribute(CUdevice_attribute attribute)
{
        unsigned int i = (unsigned int)attribute;

        return i < dcu.device->n_attributes && i < sizeof(dcu.device->attributes) / sizeof(dcu.device->attributes[0])
                       ? dcu.device->attributes[i]
                       : 0;
}

CUresult dcu_check_device(CUdevice dev)
{
        return dev >= 0 && dev < dcu.n_devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

int dcu_unsupported(const char *name)
{
        if (flag_from_environment("DETSHARE_DEBUG"))
                fprintf(stderr, "detshare: %s is not supported\n", name);
        return CUDA_ERROR_NOT_SUPPORTED;
}
