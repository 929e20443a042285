/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and texts of error codes
 *
 * The strings are static, so a program may keep them. They are available before cuInit and after the library's end.
 */
#include "cuda/api.h"

struct words {
        CUresult code;
        const char *name, *text;
};

static const struct words all[] = {
#define X(code, value, text) {code, #code, text},
#include "core/errors.def"
#undef X
};

#define X(code, value, text) _Static_assert(code == (value), #code);
#include "core/errors.def"
#undef X

static const struct words *words_of(CUresult error)
{
        for (unsigned int i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
                if (all[i].code == error)
                        return &all[i];
        }
        return NULL;
}

CUresult cuGetErrorName(CUresult error, const char **pStr)
{
        const struct words *words = words_of(error);

        if (!pStr)
                return CUDA_ERROR_INVALID_VALUE;
        *pStr = words ? words->name : NULL;
        return words ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **pStr)
{
        const struct words *words = words_of(error);

        if (!pStr)
                return CUDA_ERROR_INVALID_VALUE;
        *pStr = words ? words->text : NULL;
        return words ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
