/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors: driver errors as runtime errors, names and texts, the thread's last error
 *
 * Driver and runtime use the same number for the same error. A code that only the driver has becomes cudaErrorUnknown.
 */
#include "cudart/rt.h"

struct words {
        cudaError_t code;
        const char *name, *text;
};

static const struct words all[] = {
#define X(code, text) {code, #code, text},
#include "cudart/errors.def"
#undef X
};

static const struct words *words_of(cudaError_t error)
{
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
                if (all[i].code == error)
                        return &all[i];
        }
        return NULL;
}

cudaError_t rt_fail(cudaError_t e)
{
        if (e != cudaSuccess)
                rt_self.last = e;
        return e;
}

cudaError_t rt_code(CUresult r)
{
        if (r == CUDA_ERROR_CONTEXT_ALREADY_CURRENT || r == CUDA_ERROR_KEY_ROTATION)
                return cudaErrorUnknown;
        return (cudaError_t)r;
}

cudaError_t rt_error(CUresult r)
{
        return r == CUDA_SUCCESS ? cudaSuccess : rt_fail(rt_code(r));
}

/* The result of every function without an implementation. Only the generated file calls it, whatever the function's
 * parameters and return type. */
int rt_unsupported(const char *name);
int rt_unsupported(const char *name)
{
        return (int)rt_fail(cudaErrorNotSupported);
}

cudaError_t cudaGetLastError(void)
{
        cudaError_t e = rt_self.last;

        rt_self.last = cudaSuccess;
        return e;
}

cudaError_t cudaPeekAtLastError(void)
{
        return rt_self.last;
}

const char *cudaGetErrorName(cudaError_t error)
{
        const struct words *words = words_of(error);

        return words ? words->name : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
        const struct words *words = words_of(error);

        return words ? words->text : "unrecognized error code";
}
