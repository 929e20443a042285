/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetExportTable: tables that NVIDIA's runtime and libraries get from the driver by UUID
 *
 * Their contents were found by observing which slots the runtime calls, and how. Three tables are the genuine driver's,
 * passed on unchanged where there is one:
 *
 *   the runtime's interface    this library adopts its handle of the primary context (dcu_context_token)
 *   the check that the driver  this library does not imitate it: on a machine without NVIDIA's driver, a program with
 *   is NVIDIA's                NVIDIA's runtime gets the runtime's own error. Our libcudart.so.13 is for such machines.
 *   the cache of compiled code NVRTC and nvJitLink keep their results in it, on disk. Without it they compile the same
 *                              code again in every process.
 *
 * This library implements the other tables: identity of a context, context-local storage, and buffers for profiler
 * callbacks, which are never called. Slots that were never seen in use return CUDA_ERROR_NOT_SUPPORTED. Unknown tables
 * return CUDA_ERROR_NOT_FOUND, which callers accept.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cls.h"
#include "cuda/context.h"
#include "cuda/genuine.h"

typedef void (*slot)(void);

#define SLOT(function) ((slot)(void (*)(void))(function))
#define TABLE_WORDS 99

static CUresult unused(void)
{
        return (CUresult)dcu_unsupported("a slot of an export table");
}

/* --- buffers for the runtime's callbacks: zero, never freed ------------------------------------------------------- */

#define RUNTIME_CALLBACKS 1024u
#define OTHER_CALLBACKS 14u

static void runtime_callbacks(void **buffer, size_t *n)
{
        static uint32_t entries[RUNTIME_CALLBACKS];

        *buffer = entries;
        *n = RUNTIME_CALLBACKS;
}

static void other_callbacks(void **buffer, size_t *n)
{
        static uint64_t entries[2 * OTHER_CALLBACKS];

        *buffer = entries;
        *n = OTHER_CALLBACKS;
}

/* --- the current context ---------------------------------------------------------------------------------------- */

static CUresult thread_context(void **ret)
{
        CUresult r = dcu_enter_process();

        *ret = NULL;
        if (r == CUDA_SUCCESS)
                *ret = dcu_thread_current();
        return r == CUDA_SUCCESS && !*ret ? CUDA_ERROR_INVALID_CONTEXT : r;
}

/* *ret: the context of the handle, or the current one for NULL. It may be inactive: NVIDIA's runtime calls this
 * before it activates the context. */
static CUresult context_of(CUcontext handle, struct dcu_context **ret)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        *ret = dcu_context_of(handle ? handle : dcu_thread_current());
        return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult keep_put(CUcontext handle, void *key, void *value, dcu_cls_destructor destructor)
{
        struct dcu_context *context;
        CUresult r = context_of(handle, &context);

        return r == CUDA_SUCCESS ? dcu_cls_put(context, key, value, destructor) : r;
}

static CUresult keep_delete(CUcontext handle, void *key)
{
        struct dcu_context *context;
        CUresult r = context_of(handle, &context);

        return r == CUDA_SUCCESS ? dcu_cls_delete(context, key) : r;
}

static CUresult keep_get(void **value, CUcontext handle, void *key)
{
        struct dcu_context *context;
        CUresult r = context_of(handle, &context);

        if (r == CUDA_SUCCESS)
                return dcu_cls_get(context, key, value);
        *value = NULL;
        return r;
}

/* Reports that the context is healthy: the runtime calls this to detect a fault. */
static CUresult check_context(CUcontext handle, uint32_t *flags, void **p)
{
        (void)handle;
        (void)p;
        *flags = 0;
        return CUDA_SUCCESS;
}

static uint32_t check_nothing(void)
{
        return 0;
}

/* --- identities -------------------------------------------------------------------------------------------------- */

static CUresult context_id(CUcontext handle, uint64_t *ret)
{
        struct dcu_context *context;
        CUresult r = context_of(handle, &context);

        if (r == CUDA_SUCCESS)
                *ret = context->id;
        return r;
}

/* Private object that the driver has for each stream: here the public handle; for stream 0 the address of a
 * variable. */
static char legacy_stream, per_thread_stream;

static CUresult stream_private(CUcontext handle, CUstream stream, void **ret, int per_thread)
{
        (void)handle;
        if (stream == CU_STREAM_LEGACY || (!stream && !per_thread))
                *ret = &legacy_stream;
        else if (!stream || stream == CU_STREAM_PER_THREAD)
                *ret = &per_thread_stream;
        else
                *ret = stream;
        return CUDA_SUCCESS;
}

static CUresult stream_identity(CUcontext handle, void *private_stream, uint64_t *ret)
{
        CUstream stream = private_stream;
        unsigned long long id = 0;
        CUresult r;

        (void)handle;
        if (private_stream == &legacy_stream)
                stream = CU_STREAM_LEGACY;
        else if (private_stream == &per_thread_stream)
                stream = CU_STREAM_PER_THREAD;
        r = cuStreamGetId(stream, &id);
        *ret = id;
        return r;
}

/* --- contents of a module --------------------------------------------------------------------------------------- */

/* cuFFT enumerates the functions of a module that it loaded. The genuine driver was seen to return 1 for a module
 * with one function. */
static int module_functions(CUcontext handle, CUmodule module, void (*each)(void *, CUfunction), void *argument)
{
        CUfunction *functions;
        unsigned int n = 0;
        int told = 0;

        (void)handle;
        if (!each || cuModuleGetFunctionCount(&n, module) != CUDA_SUCCESS || n == 0)
                return 0;
        functions = calloc(n, sizeof(CUfunction));
        if (functions && cuModuleEnumerateFunctions(functions, n, module) == CUDA_SUCCESS) {
                for (unsigned int i = 0; i < n; i++)
                        each(argument, functions[i]);
                told = 1;
        }
        free(functions);
        return told;
}

/* --- the tables --------------------------------------------------------------------------------------------------- */

/* Layout of a table that the runtime expects: word 0 is the size of the table in bytes, then function pointers. */
struct table {
        uintptr_t bytes;
        slot slots[TABLE_WORDS - 1];
};

static const struct table tools_hooks = {
        .bytes = 56, .slots = {SLOT(unused), SLOT(runtime_callbacks), [2 ... 4] = SLOT(unused), SLOT(other_callbacks)}};
static const struct table tools_tls = {.bytes = 24, .slots = {SLOT(unused), SLOT(thread_context)}};
static const struct table context_checks = {
        .bytes = 120, .slots = {SLOT(unused), SLOT(check_context), SLOT(check_nothing), [3 ... 13] = SLOT(unused)}};
static const struct table tools_context = {.bytes = 744,
        .slots = {[0 ... 2] = SLOT(unused),
                SLOT(context_id),
                [4 ... 37] = SLOT(unused),
                SLOT(stream_identity),
                [39 ... 49] = SLOT(unused),
                SLOT(stream_private),
                [51 ... 91] = SLOT(unused)}};
static const struct table tools_module = {
        .bytes = 792, .slots = {[0 ... 5] = SLOT(unused), SLOT(module_functions), [7 ... 97] = SLOT(unused)}};
/* cuBLASLt queries a pair of values when it chooses a kernel: it accepts a table without these values, but not a
 * missing table */
static const struct table lt_choice = {.bytes = 136, .slots = {[0 ... 15] = SLOT(unused)}};
/* this table has no size word in front */
static const slot context_storage[4] = {SLOT(keep_put), SLOT(keep_delete), SLOT(keep_get), SLOT(unused)};

enum source { SERVED, GENUINE, OPTIONAL };

static const struct export
{
        uint8_t id[16];
        enum source source;
        const void *table;
}
exports[] = {
        {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9}, GENUINE,
                NULL},
        {{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1, 0xf2}, GENUINE,
                NULL},
        {{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66}, SERVED,
                &tools_hooks},
        {{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc}, SERVED,
                &tools_tls},
        {{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93}, SERVED,
                context_storage},
        {{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa, 0x7e}, SERVED,
                &context_checks},
        {{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2}, SERVED,
                &tools_context},
        {{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b, 0xca}, SERVED,
                &lt_choice},
        {{0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99, 0x1e}, SERVED,
                &tools_module},
        {{0xda, 0x91, 0x51, 0xd3, 0x3a, 0xe6, 0xcc, 0x41, 0xa5, 0xc0, 0x4f, 0x26, 0xd5, 0x33, 0xe3, 0x28}, OPTIONAL,
                NULL},
};

/* Gets the genuine driver's handle of its primary context from the runtime's interface table. This library never
 * dereferences the handle. */
static CUresult take_token(const void *genuine)
{
        CUresult (*primary)(CUcontext *, CUdevice);
        CUcontext token = NULL;
        CUresult r;

        memcpy(&primary, (const char *)genuine + 2 * sizeof(void *), sizeof(primary));
        r = primary(&token, 0);
        if (r == CUDA_SUCCESS && token)
                r = dcu_context_set_token(token);
        return r;
}

/* Prints why there is no genuine driver: the runtime would only report "symbol not found". */
static CUresult no_driver(void)
{
        static atomic_flag said = ATOMIC_FLAG_INIT;

        if (!atomic_flag_test_and_set(&said))
                fputs("detshare: NVIDIA's CUDA runtime, in this program or in a library of it, needs NVIDIA's driver, "
                      "which is not here: link the program with nvcc -cudart shared\n",
                        stderr);
        return CUDA_ERROR_NOT_FOUND;
}

/* A caller that does without an optional table gets no message. */
static CUresult absent(const struct export *wanted)
{
        return wanted->source == OPTIONAL ? CUDA_ERROR_NOT_FOUND : no_driver();
}

static CUresult genuine_table(const struct export *wanted, const void **ret)
{
        CUresult (*get)(const void **, const CUuuid *);
        void *symbol;
        const void *table = NULL;
        CUuuid id;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (atomic_load(&dcu.device)->simulated)
                return absent(wanted);
        r = dcu_genuine_start(atomic_load(&dcu.device)->uuid);
        symbol = dcu_genuine_symbol("cuGetExportTable");
        if (r != CUDA_SUCCESS || !symbol)
                return absent(wanted);
        memcpy(&get, &symbol, sizeof(get));
        memcpy(id.bytes, wanted->id, sizeof(id.bytes));
        r = get(&table, &id);
        if (r == CUDA_SUCCESS && !table)
                r = CUDA_ERROR_NOT_FOUND;
        if (r == CUDA_SUCCESS && wanted == &exports[0])
                r = take_token(table);
        if (r == CUDA_SUCCESS)
                *ret = table;
        return r;
}

CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
        if (!ppExportTable || !pExportTableId)
                return CUDA_ERROR_INVALID_VALUE;
        *ppExportTable = NULL;
        for (size_t i = 0; i < sizeof(exports) / sizeof(exports[0]); i++) {
                if (memcmp(exports[i].id, pExportTableId->bytes, sizeof(exports[i].id)) != 0)
                        continue;
                if (exports[i].source != SERVED)
                        return genuine_table(&exports[i], ppExportTable);
                *ppExportTable = exports[i].table;
                return CUDA_SUCCESS;
        }
        (void)dcu_unsupported("an export table");
        return CUDA_ERROR_NOT_FOUND;
}
