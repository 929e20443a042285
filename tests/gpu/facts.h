/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the sections of facts: the driver's functions, one open GPU, clocks, and the busy GPU for measurements
 * beside load
 */
#pragma once

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIB(n) ((size_t)(n) << 20)
#define GIB(n) ((size_t)(n) << 30)
#define FACTS_GROUPS 128   /* maximum number of TPCs */
#define FACTS_SAMPLES 4096 /* maximum number of samples in a series */
#define BUSY_NS UINT64_C(45000000)

/* Every function of the driver that is used. The toolkit's header maps each name to its current version. */
#define FACTS_FUNCTIONS(X)                \
        X(cuInit)                         \
        X(cuDriverGetVersion)             \
        X(cuGetErrorName)                 \
        X(cuDeviceGet)                    \
        X(cuDeviceGetName)                \
        X(cuDeviceGetUuid)                \
        X(cuDeviceGetAttribute)           \
        X(cuDeviceGetDevResource)         \
        X(cuDevicePrimaryCtxSetFlags)     \
        X(cuDevicePrimaryCtxRetain)       \
        X(cuCtxSetCurrent)                \
        X(cuCtxSynchronize)               \
        X(cuCtxGetLimit)                  \
        X(cuCtxSetLimit)                  \
        X(cuCtxGetStreamPriorityRange)    \
        X(cuCtxFromGreenCtx)              \
        X(cuDevSmResourceSplitByCount)    \
        X(cuDevResourceGenerateDesc)      \
        X(cuGreenCtxCreate)               \
        X(cuGreenCtxDestroy)              \
        X(cuGreenCtxGetDevResource)       \
        X(cuGreenCtxStreamCreate)         \
        X(cuStreamCreateWithPriority)     \
        X(cuStreamDestroy)                \
        X(cuStreamQuery)                  \
        X(cuStreamSynchronize)            \
        X(cuStreamWriteValue64)           \
        X(cuStreamBeginCapture)           \
        X(cuStreamEndCapture)             \
        X(cuEventCreate)                  \
        X(cuEventRecord)                  \
        X(cuEventQuery)                   \
        X(cuEventSynchronize)             \
        X(cuEventElapsedTime)             \
        X(cuLibraryLoadData)              \
        X(cuLibraryUnload)                \
        X(cuLibraryGetKernel)             \
        X(cuLibraryGetKernelCount)        \
        X(cuLibraryEnumerateKernels)      \
        X(cuLibraryGetGlobal)             \
        X(cuKernelGetFunction)            \
        X(cuKernelGetName)                \
        X(cuKernelGetParamInfo)           \
        X(cuKernelGetAttribute)           \
        X(cuFuncGetParamInfo)             \
        X(cuFuncGetModule)                \
        X(cuFuncSetAttribute)             \
        X(cuLaunchKernel)                 \
        X(cuLaunchKernelEx)               \
        X(cuGraphCreate)                  \
        X(cuGraphDestroy)                 \
        X(cuGraphAddEmptyNode)            \
        X(cuGraphAddKernelNode)           \
        X(cuGraphAddMemsetNode)           \
        X(cuGraphGetNodes)                \
        X(cuGraphKernelNodeGetParams)     \
        X(cuGraphKernelNodeGetAttribute)  \
        X(cuGraphKernelNodeSetAttribute)  \
        X(cuGraphInstantiate)             \
        X(cuGraphUpload)                  \
        X(cuGraphLaunch)                  \
        X(cuGraphExecDestroy)             \
        X(cuMemGetInfo)                   \
        X(cuMemAlloc)                     \
        X(cuMemAddressReserve)            \
        X(cuMemAddressFree)               \
        X(cuMemCreate)                    \
        X(cuMemRelease)                   \
        X(cuMemMap)                       \
        X(cuMemUnmap)                     \
        X(cuMemSetAccess)                 \
        X(cuMemExportToShareableHandle)   \
        X(cuMemImportFromShareableHandle) \
        X(cuMemGetAllocationGranularity)  \
        X(cuMemsetD8Async)                \
        X(cuMemsetD32Async)               \
        X(cuMemHostAlloc)                 \
        X(cuMemFreeHost)                  \
        X(cuMemHostRegister)              \
        X(cuMemHostUnregister)            \
        X(cuMemHostGetDevicePointer)      \
        X(cuMemcpyAsync)                  \
        X(cuMemcpyDtoH)                   \
        X(cuMemcpyHtoDAsync)              \
        X(cuMemcpyDtoHAsync)              \
        X(cuMemcpyDtoDAsync)              \
        X(cuMemcpy2DAsync)                \
        X(cuCoredumpSetAttributeGlobal)

struct driver {
#define X(f) __typeof__(f) *f;
        FACTS_FUNCTIONS(X)
#undef X
        char path[256]; /* path of the loaded library */
};
extern struct driver cu;

/* the GPU as DetShare's worker opens it */
struct gpu {
        CUdevice device;
        CUcontext primary;
        CUdevResource groups[FACTS_GROUPS]; /* groups[i]: one TPC */
        unsigned int n_groups;
        int low, high; /* lowest and highest stream priority */
        CUlibrary library;
        CUdeviceptr scratch; /* address of 1 MiB of device memory */
        double init_us, retain_us, split_us;
};
extern struct gpu gpu;
extern const void *image; /* contents of the cubin */

struct green {
        CUgreenCtx context;
        CUstream high, low;
        unsigned int sms;
};

/* A best-effort kernel fills `be`; a thread launches one small kernel after the other in `ls` and keeps the longest
 * time */
struct busy {
        struct green be, ls;
        CUevent done;
};
extern struct busy busy;

struct series {
        unsigned int n;
        double us[FACTS_SAMPLES];
};

void fact(const char *format, ...) __attribute__((format(printf, 1, 2)));
double now_us(void);
bool facts_check(CUresult result, const char *what);
const char *error_name(CUresult result);

/* makes a call; prints its result if that is not 0 */
#define TRY(call) facts_check((call), #call)
/* makes a call and adds its time to a series */
#define SAMPLE(series, call)                       \
        ({                                         \
                double t_ = now_us();              \
                CUresult r_ = (call);              \
                series_add(series, now_us() - t_); \
                facts_check(r_, #call);            \
        })
/* makes a call and prints its time and its result */
#define ONCE(what, call)                                           \
        ({                                                         \
                double t_ = now_us();                              \
                CUresult r_ = (call);                              \
                t_ = now_us() - t_;                                \
                fact("%s: %.1f us, result %d", what, t_, (int)r_); \
                r_;                                                \
        })
/* makes a call while the GPU is busy */
#define BUSY(what, call)                           \
        ({                                         \
                busy_begin();                      \
                double t_ = now_us();              \
                CUresult r_ = (call);              \
                busy_end(what, now_us() - t_, r_); \
                r_;                                \
        })

void series_add(struct series *s, double us);
void series_fact(struct series *s, const char *what);
/* quantile `part` (0.5: the median); sorts the series; 0 for an empty one */
double series_at(struct series *s, double part);

bool driver_load(void);
bool gpu_start(void); /* loads the driver, creates the context, splits the TPCs */
bool gpu_open(void);  /* gpu_start, then loads the library and allocates the scratch memory */
size_t gpu_free(void);
bool green_make(struct green *g, unsigned int first, unsigned int count);
CUfunction kernel(const char *name);
CUresult launch(CUfunction f, CUstream stream, unsigned int grid, unsigned int block, const void *params, size_t size);
CUresult launch_spin(CUstream stream, unsigned int grid, unsigned int block, uint64_t ns);
CUresult wait_event(CUevent event, double limit_us);

bool busy_open(void);
void busy_begin(void);
void busy_end(const char *what, double us, CUresult result);

/* runs body in a process of its own; *ret_teardown_us: time from its last output to its end */
bool in_child(void (*body)(void *), void *argument, double *ret_teardown_us);
/* starts a new process, which prints the time from exec to a ready context */
void fresh_process(const char *when);
/* creates DetShare's rungs: all TPCs, and seven pairs that divide them, with n streams of each priority */
bool rungs_make(unsigned int n_streams, struct series *contexts, struct series *streams);
void rungs_drop(struct series *contexts, struct series *streams);

CUresult vmm_create(CUmemGenericAllocationHandle *handle, size_t size);
CUresult vmm_access(CUdeviceptr at, size_t size);

void section_env(void);
void section_start(void);
void section_sms(void);
void section_limits(void);
void section_teardown(void);
void section_vmm(void);
void section_pinned(void);
void section_copies(void);
void section_all_memory(void);
void section_launch(void);
void section_graphs(void);
void section_events(void);
void section_modules(void);
void section_local(void);
void section_printf(void);
void section_assert(void);
void section_faults(void);
void section_two_streams(void);
void section_coredump(void);
