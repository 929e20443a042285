/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's functions that comparisons of the interpreter with a GPU call, loaded at run time
 */
#pragma once

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "util/macro.h"

static struct {
        int (*init)(unsigned);
        int (*device)(int *, int);
        int (*retain)(void **, int);
        int (*current)(void *);
        int (*alloc)(uint64_t *, size_t);
        int (*to)(uint64_t, const void *, size_t);
        int (*from)(void *, uint64_t, size_t);
        int (*load)(void **, const void *, unsigned, int *, void **);
        int (*unload)(void *);
        int (*function)(void **, void *, const char *);
        int (*launch)(
                void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
        int (*synchronize)(void);
} cu;

static inline int open_gpu(void)
{
        static const struct {
                const char *name;
                void *where;
        } entries[] = {{"cuInit", &cu.init}, {"cuDeviceGet", &cu.device}, {"cuDevicePrimaryCtxRetain", &cu.retain},
                {"cuCtxSetCurrent", &cu.current}, {"cuMemAlloc_v2", &cu.alloc}, {"cuMemcpyHtoD_v2", &cu.to},
                {"cuMemcpyDtoH_v2", &cu.from}, {"cuModuleLoadDataEx", &cu.load}, {"cuModuleUnload", &cu.unload},
                {"cuModuleGetFunction", &cu.function}, {"cuLaunchKernel", &cu.launch},
                {"cuCtxSynchronize", &cu.synchronize}};
        void *library = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
        int device = 0;

        if (!library)
                return 0;
        for (size_t i = 0; i < DS_ARRAY_SIZE(entries); i++) {
                void *symbol = dlsym(library, entries[i].name);

                if (!symbol)
                        return 0;
                memcpy(entries[i].where, &symbol, sizeof(symbol));
        }
        return !cu.init(0) && !cu.device(&device, 0) && !cu.retain(&context, device) && !cu.current(context);
}
