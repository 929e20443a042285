/* SPDX-License-Identifier: Apache-2.0 */
/* facts: the launch path, events, modules, local memory */
#include "facts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define N_CALLS 1500

static struct series s;

/* --- launch ------------------------------------------------------------------------------------------------------- */
static void launches(CUstream stream, CUfunction f, bool ex, const char *what)
{
        CUlaunchConfig config = {.gridDimX = 1,
                .gridDimY = 1,
                .gridDimZ = 1,
                .blockDimX = 32,
                .blockDimY = 1,
                .blockDimZ = 1,
                .hStream = stream};
        struct {
                CUdeviceptr out;
                uint64_t ns;
        } params = {gpu.scratch, 0};
        size_t size = sizeof(params);
        void *extra[] = {
                CU_LAUNCH_PARAM_BUFFER_POINTER, &params, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};

        for (int i = 0; i < N_CALLS; i++) {
                if (i % 100 == 0)
                        TRY(cu.cuStreamSynchronize(stream));
                if (ex)
                        SAMPLE(&s, cu.cuLaunchKernelEx(&config, f, NULL, extra));
                else
                        SAMPLE(&s, cu.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, NULL, extra));
        }
        TRY(cu.cuStreamSynchronize(stream));
        series_fact(&s, what);
}

static void records(CUstream stream, CUevent event, const char *what)
{
        for (int i = 0; i < N_CALLS; i++) {
                if (i % 100 == 0)
                        TRY(cu.cuStreamSynchronize(stream));
                SAMPLE(&s, cu.cuEventRecord(event, stream));
        }
        TRY(cu.cuStreamSynchronize(stream));
        series_fact(&s, what);
}

/* measures a query while the work is pending, or after its end */
static void queries(CUstream stream, CUevent event, bool pending)
{
        static struct series of_stream;
        CUresult result = CUDA_SUCCESS;

        if (pending)
                TRY(launch_spin(stream, 1, 32, 20000000));
        TRY(cu.cuEventRecord(event, stream));
        if (!pending)
                TRY(cu.cuStreamSynchronize(stream));
        for (int i = 0; i < 500; i++) {
                double t = now_us();

                result = cu.cuEventQuery(event);
                series_add(&s, now_us() - t);
                t = now_us();
                cu.cuStreamQuery(stream);
                series_add(&of_stream, now_us() - t);
        }
        fact("the last query returned %d", (int)result);
        TRY(cu.cuStreamSynchronize(stream));
        series_fact(&s, pending ? "cuEventQuery, pending" : "cuEventQuery, done");
        series_fact(&of_stream, pending ? "cuStreamQuery, pending" : "cuStreamQuery, done");
}

static void until_seen(CUstream stream, CUevent event)
{
        volatile uint64_t *word;
        static struct series call;
        CUfunction nothing = kernel("nothing");

        for (int i = 0; i < 1000; i++) {
                double t = now_us();

                TRY(launch(nothing, stream, 1, 32, NULL, 0));
                TRY(cu.cuEventRecord(event, stream));
                if (!TRY(wait_event(event, 1e5)))
                        break;
                series_add(&s, now_us() - t);
        }
        series_fact(&s, "launch, record, until a loop of cuEventQuery sees it");
        word = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (word == MAP_FAILED || !TRY(cu.cuMemHostRegister((void *)(uintptr_t)word, 65536,
                                          CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)))
                return;
        for (uint64_t i = 1; i <= 1000; i++) {
                double t = now_us(), end = t + 1e5;

                TRY(launch(nothing, stream, 1, 32, NULL, 0));
                if (!SAMPLE(&call, cu.cuStreamWriteValue64(stream, (CUdeviceptr)(uintptr_t)word, i, 0)))
                        break;
                while (*word != i && now_us() < end)
                        ;
                if (*word != i) {
                        fact("ERROR value %llu has not arrived in 100 ms", (unsigned long long)i);
                        break;
                }
                series_add(&s, now_us() - t);
        }
        series_fact(&call, "cuStreamWriteValue64 to registered memory, the call");
        series_fact(&s, "launch, cuStreamWriteValue64, until the word is seen");
}

static void queue_depth(CUstream stream, CUevent event, bool with_events)
{
        CUfunction nothing = kernel("nothing");
        int blocked = -1;
        double worst = 0, start;

        TRY(launch_spin(stream, 1, 32, 30000000));
        start = now_us();
        for (int i = 0; i < 3000; i++) {
                double t = now_us();

                TRY(launch(nothing, stream, 1, 32, NULL, 0));
                if (with_events)
                        TRY(cu.cuEventRecord(event, stream));
                t = now_us() - t;
                if (t > worst)
                        worst = t;
                if (t > 1000 && blocked < 0)
                        blocked = i;
        }
        fact("3000 launches%s behind 30 ms: %.0f us, the longest %.0f us, the first that blocked is number %d (-1: "
             "none)",
                with_events ? ", each with an event," : "", now_us() - start, worst, blocked);
        TRY(cu.cuStreamSynchronize(stream));
}

void section_launch(void)
{
        CUfunction where, function = NULL;
        CUevent timing, plain;
        struct green g;
        float ms;

        if (!gpu_open() || !green_make(&g, 0, 8) || !TRY(cu.cuEventCreate(&timing, CU_EVENT_DEFAULT)) ||
                !TRY(cu.cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING)))
                return;
        where = kernel("where");
        TRY(cu.cuKernelGetFunction(&function, (CUkernel)where));
        launches(g.high, where, false, "cuLaunchKernel of a CUkernel, the first time");
        launches(g.high, where, false, "cuLaunchKernel of a CUkernel");
        launches(g.high, function, false, "cuLaunchKernel of its CUfunction");
        launches(g.high, where, true, "cuLaunchKernelEx of a CUkernel");
        launches(g.high, function, true, "cuLaunchKernelEx of its CUfunction");
        records(g.high, timing, "cuEventRecord with time");
        records(g.high, plain, "cuEventRecord without time");
        queries(g.high, plain, true);
        queries(g.high, plain, false);
        TRY(cu.cuEventRecord(timing, g.high));
        TRY(cu.cuStreamSynchronize(g.high));
        for (int i = 0; i < 1000; i++)
                SAMPLE(&s, cu.cuEventElapsedTime(&ms, timing, timing));
        series_fact(&s, "cuEventElapsedTime");
        until_seen(g.high, plain);
        queue_depth(g.high, plain, false);
        queue_depth(g.high, plain, true);
        queue_depth(g.low, plain, true);
}

/* --- events ------------------------------------------------------------------------------------------------------- */
static int compare_floats(const void *a, const void *b)
{
        float x = *(const float *)a, y = *(const float *)b;

        return (x > y) - (x < y);
}

void section_events(void)
{
        static float all[400];
        CUevent a, b;
        struct green one, two;
        float ms = 0, step = 1;
        CUresult result;

        if (!gpu_open() || !green_make(&one, 0, 8) || !green_make(&two, 8, 8) ||
                !TRY(cu.cuEventCreate(&a, CU_EVENT_DEFAULT)) || !TRY(cu.cuEventCreate(&b, CU_EVENT_DEFAULT)))
                return;
        for (int i = 0; i < 400; i++) {
                TRY(cu.cuEventRecord(a, one.high));
                TRY(launch_spin(one.high, 1, 32, i < 200 ? 100000 : 0));
                TRY(cu.cuEventRecord(b, one.high));
                TRY(cu.cuStreamSynchronize(one.high));
                TRY(cu.cuEventElapsedTime(&ms, a, b));
                all[i] = ms;
                series_add(&s, (double)ms * 1e3);
                if (i == 199)
                        series_fact(&s, "elapsed around a kernel of 100 us");
        }
        series_fact(&s, "elapsed around a kernel of nothing");
        qsort(all, 400, sizeof(all[0]), compare_floats);
        for (int i = 1; i < 400; i++)
                if (all[i] > all[i - 1] && all[i] - all[i - 1] < step)
                        step = all[i] - all[i - 1];
        fact("smallest step between two elapsed times: %.3f ns; smallest time %.3f us", (double)step * 1e6,
                (double)all[0] * 1e3);
        TRY(cu.cuEventRecord(a, one.high));
        TRY(launch_spin(two.high, 1, 32, 100000));
        TRY(cu.cuEventRecord(b, two.high));
        TRY(cu.cuCtxSynchronize());
        ms = -1;
        result = cu.cuEventElapsedTime(&ms, a, b);
        fact("cuEventElapsedTime between two green contexts, about 100 us: result %d, %.3f us", (int)result,
                (double)ms * 1e3);
}

/* --- modules ------------------------------------------------------------------------------------------------------ */
static void say_params(const char *name)
{
        CUfunction f = kernel(name), function = NULL;
        size_t offset, size;
        CUresult result, r;

        TRY(cu.cuKernelGetFunction(&function, (CUkernel)f));
        for (size_t i = 0; i < 8; i++) {
                offset = size = 0;
                result = cu.cuKernelGetParamInfo((CUkernel)f, i, &offset, &size);
                fact("%s: cuKernelGetParamInfo %zu: result %d, offset %zu, size %zu", name, i, (int)result, offset,
                        size);
                offset = size = 0;
                r = cu.cuFuncGetParamInfo(function, i, &offset, &size);
                fact("%s: cuFuncGetParamInfo %zu: result %d, offset %zu, size %zu", name, i, (int)r, offset, size);
                if (result != CUDA_SUCCESS)
                        break;
        }
}

static void say_library(void)
{
        static const CUfunction_attribute which[] = {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES,
                CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, CU_FUNC_ATTRIBUTE_NUM_REGS, CU_FUNC_ATTRIBUTE_PTX_VERSION,
                CU_FUNC_ATTRIBUTE_BINARY_VERSION, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES};
        static const char *const globals[] = {"fact_device", "fact_constant"};
        CUkernel kernels[64];
        const char *name;
        unsigned int n = 0;
        CUdeviceptr at = 0;
        size_t size = 0;

        TRY(cu.cuLibraryGetKernelCount(&n, gpu.library));
        fact("%u kernels", n);
        if (n > 64 || !TRY(cu.cuLibraryEnumerateKernels(kernels, n, gpu.library)))
                return;
        for (unsigned int i = 0; i < n; i++) {
                int v[8] = {0};

                name = NULL;
                TRY(cu.cuKernelGetName(&name, kernels[i]));
                for (int a = 0; a < 8; a++)
                        TRY(cu.cuKernelGetAttribute(&v[a], which[a], kernels[i], gpu.device));
                fact("kernel %s: threads %d, shared %d, const %d, local %d, registers %d, ptx %d, binary %d, dynamic "
                     "%d",
                        name ? name : "?", v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
        }
        say_params("structs");
        say_params("nothing");
        for (int i = 0; i < 2; i++) {
                CUresult r;

                at = size = 0;
                r = cu.cuLibraryGetGlobal(&at, &size, gpu.library, globals[i]);
                fact("%s: result %d, %#llx, %zu bytes", globals[i], (int)r, at, size);
        }
}

static CUresult first_launch(CUfunction f, CUstream stream)
{
        return launch(f, stream, 1, 32, &gpu.scratch, sizeof(gpu.scratch));
}

static void modules_busy(struct green *other)
{
        CUlibrary library = NULL;
        CUfunction function = NULL;
        CUkernel a = NULL, b = NULL, c = NULL, d = NULL;
        CUmodule module = NULL;

        BUSY("cuLibraryLoadData", cu.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
        if (!library)
                return;
        TRY(cu.cuLibraryGetKernel(&a, library, "first_a"));
        TRY(cu.cuLibraryGetKernel(&b, library, "first_b"));
        TRY(cu.cuLibraryGetKernel(&c, library, "first_c"));
        TRY(cu.cuLibraryGetKernel(&d, library, "structs"));
        BUSY("first launch of a CUkernel", first_launch((CUfunction)a, busy.ls.low));
        BUSY("second launch of it", first_launch((CUfunction)a, busy.ls.low));
        BUSY("cuKernelGetFunction", cu.cuKernelGetFunction(&function, b));
        if (function) {
                BUSY("cuFuncGetModule", cu.cuFuncGetModule(&module, function));
                BUSY("first launch of that CUfunction", first_launch(function, busy.ls.low));
        }
        BUSY("first launch of a third kernel in another green context", first_launch((CUfunction)c, other->low));
        BUSY("cuFuncSetAttribute of a CUkernel's dynamic shared memory",
                cu.cuFuncSetAttribute((CUfunction)d, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10));
        function = NULL;
        TRY(cu.cuKernelGetFunction(&function, d));
        if (function)
                BUSY("cuFuncSetAttribute of a CUfunction's",
                        cu.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 120 << 10));
        TRY(cu.cuStreamSynchronize(busy.ls.low));
        TRY(cu.cuStreamSynchronize(other->low));
        BUSY("cuLibraryUnload", cu.cuLibraryUnload(library));
}

static void modules_idle(void)
{
        static struct series load, unload, first, second;

        for (int i = 0; i < 5; i++) {
                CUlibrary library = NULL;
                CUkernel a = NULL;

                if (!SAMPLE(&load, cu.cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0)))
                        break;
                TRY(cu.cuLibraryGetKernel(&a, library, "first_a"));
                SAMPLE(&first, first_launch((CUfunction)a, busy.ls.low));
                SAMPLE(&second, first_launch((CUfunction)a, busy.ls.low));
                TRY(cu.cuStreamSynchronize(busy.ls.low));
                SAMPLE(&unload, cu.cuLibraryUnload(library));
        }
        series_fact(&load, "cuLibraryLoadData, idle");
        series_fact(&first, "first launch, idle");
        series_fact(&second, "second launch, idle");
        series_fact(&unload, "cuLibraryUnload, idle");
}

void section_modules(void)
{
        struct green other[2];
        struct green late;

        if (!gpu_open())
                return;
        say_library();
        /* creates a second pair of green contexts, in which nothing has run yet */
        if (!green_make(&other[0], gpu.n_groups - 4, 4) || !green_make(&other[1], gpu.n_groups - 2, 2) || !busy_open())
                return;
        modules_idle();
        for (int i = 0; i < 2; i++)
                modules_busy(&other[i]);
        BUSY("two streams and a green context made", green_make(&late, 0, 4) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
}

/* --- local memory ------------------------------------------------------------------------------------------------- */
static CUresult run_local(const char *name, CUstream stream)
{
        struct {
                CUdeviceptr out;
                int n;
        } params = {gpu.scratch, 3};
        CUresult result;
        double t = now_us(), called;

        result = launch(kernel(name), stream, 1, 128, &params, 12);
        called = now_us() - t;
        if (result == CUDA_SUCCESS)
                result = cu.cuStreamSynchronize(stream);
        fact("%s: launch %.1f us, done after %.1f us", name, called, now_us() - t);
        return result;
}

static void say_stack(const char *when)
{
        size_t size = 0;

        TRY(cu.cuCtxGetLimit(&size, CU_LIMIT_STACK_SIZE));
        fact("%s: stack size %zu, %.1f MiB free", when, size, (double)gpu_free() / MIB(1));
}

void section_local(void)
{
        if (!gpu_open() || !busy_open())
                return;
        say_stack("before any local memory");
        BUSY("4 KiB a thread, the first time", run_local("local_4k", busy.ls.low));
        say_stack("after it");
        BUSY("4 KiB again", run_local("local_4k", busy.ls.low));
        BUSY("1 KiB after it", run_local("local_1k", busy.ls.low));
        BUSY("4 KiB after that", run_local("local_4k", busy.ls.low));
        run_local("local_16k", busy.ls.low);
        say_stack("after 16 KiB while idle");
        BUSY("16 KiB, launched before BE once", run_local("local_16k", busy.ls.low));
        BUSY("4 KiB, smaller", run_local("local_4k", busy.ls.low));
        BUSY("16 KiB again, on a stream that never ran it", run_local("local_16k", busy.be.high));
        ONCE("cuCtxSetLimit of the stack to 8192", cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 8192));
        say_stack("after it");
        ONCE("cuCtxSetLimit of the stack to 1024", cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
        say_stack("after it");
        BUSY("4 KiB after that", run_local("local_4k", busy.ls.low));
}
