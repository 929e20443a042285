/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The linker: one PTX text, as programs that generate PTX use it; several inputs of all kinds, compiled separately by
 * nvcc; compiler options. The result can be loaded and runs. Errors and messages about one input come from the call that
 * adds it; errors between inputs from the end of the link.
 */
#include "program.h"

#include <string.h>

static const char good[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                           ".visible .entry seven(.param .u64 p)\n{\n.reg .b64 %d<2>;\n.reg .b32 %r<2>;\n"
                           "ld.param.u64 %d1, [p];\nmov.u32 %r1, 7;\nst.global.u32 [%d1], %r1;\nret;\n}\n";
static const char bad[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".visible .entry k()\n{\nfrobnicate;\nret;\n}\n";

static void runs(const void *image)
{
        CUdeviceptr memory;
        CUfunction function;
        CUmodule module;
        int value = 0;
        void *params[] = {&memory};

        EXPECT(CUDA_SUCCESS, cuMemAlloc(&memory, sizeof(value)));
        EXPECT(CUDA_SUCCESS, cuModuleLoadData(&module, image));
        EXPECT(CUDA_SUCCESS, cuModuleGetFunction(&function, module, "seven"));
        EXPECT(CUDA_SUCCESS, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        EXPECT(CUDA_SUCCESS, cuMemcpyDtoH(&value, memory, sizeof(value)));
        CHECK(value == 7);
        EXPECT(CUDA_SUCCESS, cuModuleUnload(module));
        EXPECT(CUDA_SUCCESS, cuMemFree(memory));
}

static void one_text(void)
{
        char errors[1000] = "x";
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_MAX_REGISTERS};
        void *values[] = {errors, (void *)(uintptr_t)sizeof(errors), (void *)(uintptr_t)32};
        CUlinkState state;
        size_t size = 0;
        void *image;

        EXPECT(CUDA_SUCCESS, cuLinkCreate(3, options, values, &state));
        EXPECT(CUDA_SUCCESS,
                cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)good, sizeof(good), "good", 0, NULL, NULL));
        EXPECT(CUDA_SUCCESS, cuLinkComplete(state, &image, &size));
        CHECK(image && size > 0);
        runs(image);
        /* a link that is complete takes no more images */
        EXPECT(CUDA_ERROR_INVALID_VALUE,
                cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)good, sizeof(good), "more", 0, NULL, NULL));
        EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLinkComplete(state, &image, &size));
        EXPECT(CUDA_SUCCESS, cuLinkDestroy(state));
}

/* Whether the name of the device contains the word. "sim:" and "fake" devices execute PTX instead of machine code. */
static int device_is(const char *word)
{
        char name[256] = "";
        CUdevice device;

        OK(cuCtxGetDevice(&device));
        OK(cuDeviceGetName(name, sizeof(name), device));
        return strstr(name, word) != NULL;
}

/* The options of the link apply to its output, however the output is loaded later. */
static void register_limit(void)
{
        CUjit_option options[] = {CU_JIT_MAX_REGISTERS};
        void *values[] = {(void *)(uintptr_t)24};
        char *text = program_ptx("gemm"), *copy;
        int plain = 0, limited = 0;
        CUfunction function;
        CUlinkState state;
        CUmodule module;
        size_t size = 0;
        void *image;

        MUST(cuModuleLoadData(&module, text));
        MUST(cuModuleEnumerateFunctions(&function, 1, module));
        OK(cuFuncGetAttribute(&plain, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
        OK(cuModuleUnload(module));
        MUST(cuLinkCreate(1, options, values, &state));
        OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, text, strlen(text) + 1, "gemm", 0, NULL, NULL));
        MUST(cuLinkComplete(state, &image, &size));
        copy = malloc(size);
        memcpy(copy, image, size);
        OK(cuLinkDestroy(state));
        MUST(cuModuleLoadData(&module, copy));
        MUST(cuModuleEnumerateFunctions(&function, 1, module));
        OK(cuFuncGetAttribute(&limited, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
        /* a device that executes PTX has no limit */
        CHECK(device_is("sim:") || device_is("fake") || (plain > 24 ? limited <= 24 : limited <= plain));
        OK(cuModuleUnload(module));
        free(copy);
        free(text);
}

/* --- several inputs ----------------------------------------------------------------------------------------------- */

#define LOG_BYTES 4000

struct input {
        CUjitInputType type;
        const char *file; /* in the folder of compiled kernels */
};

struct linked {
        CUlinkState state;
        CUresult added, completed; /* result of the last input, and of completing the link */
        void *image;
        size_t size;
        char errors[LOG_BYTES];
};

static const char *path_of(const char *file, char path[4096])
{
        snprintf(path, 4096, "%s/linked/%s", program_kernels, file);
        return path;
}

static int is_there(const char *file)
{
        char path[4096];
        FILE *f = fopen(path_of(file, path), "rb");

        if (f)
                fclose(f);
        return f != NULL;
}

/* Links files. The last input has no file: its type does not matter. */
static void link_files(const struct input *inputs, struct linked *ret)
{
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_MAX_REGISTERS,
                CU_JIT_GENERATE_LINE_INFO};
        void *values[] = {ret->errors, (void *)(uintptr_t)LOG_BYTES, (void *)(uintptr_t)64, (void *)(uintptr_t)1};
        char path[4096];

        *ret = (struct linked){.added = CUDA_SUCCESS, .completed = CUDA_ERROR_NOT_INITIALIZED};
        MUST(cuLinkCreate(4, options, values, &ret->state));
        for (; inputs->file && ret->added == CUDA_SUCCESS; inputs++)
                ret->added = cuLinkAddFile(ret->state, inputs->type, path_of(inputs->file, path), 0, NULL, NULL);
        if (ret->added == CUDA_SUCCESS)
                ret->completed = cuLinkComplete(ret->state, &ret->image, &ret->size);
        MUST(cuLinkDestroy(ret->state));
}

/* Runs the kernel of caller.cu. The image may be a copy: `size` bytes must be enough. */
static void runs_linked(const char *what, const void *image, size_t size)
{
        int values[4] = {1, 2, 3, 4}, expected[4] = {116, 117, 122, 123}, n = 4, state = 0;
        void *copy = malloc(size), *params[2] = {NULL, &n};
        CUdeviceptr memory, variable;
        CUfunction function;
        CUmodule module;
        size_t bytes = 0;

        params[0] = &memory;
        memcpy(copy, image, size);
        MUST(cuModuleLoadData(&module, copy));
        free(copy);
        MUST(cuMemAlloc(&memory, sizeof(values)));
        OK(cuMemcpyHtoD(memory, values, sizeof(values)));
        function = program_function(module, "linked_kernel");
        OK(cuLaunchKernel(function, 1, 1, 1, 4, 1, 1, 64, NULL, params, NULL));
        OK(cuMemcpyDtoH(values, memory, sizeof(values)));
        SAME(values, expected, sizeof(values));
        if (memcmp(values, expected, sizeof(values)) != 0)
                printf("%s: %d %d %d %d\n", what, values[0], values[1], values[2], values[3]);
        OK(cuModuleGetGlobal(&variable, &bytes, module, "linked_state"));
        CHECK(bytes == sizeof(state));
        OK(cuMemcpyDtoH(&state, variable, sizeof(state)));
        CHECK(state == 6);
        OK(cuMemFree(memory));
        OK(cuModuleUnload(module));
}

/* Links and runs while the result is valid: until the state is destroyed. */
static void links(const char *what, const struct input *inputs)
{
        struct linked linked = {.errors = ""};
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
        void *values[] = {linked.errors, (void *)(uintptr_t)LOG_BYTES};
        CUresult r = CUDA_SUCCESS;
        char path[4096];

        MUST(cuLinkCreate(2, options, values, &linked.state));
        for (const struct input *input = inputs; input->file && r == CUDA_SUCCESS; input++)
                r = cuLinkAddFile(linked.state, input->type, path_of(input->file, path), 0, NULL, NULL);
        if (r == CUDA_SUCCESS)
                r = cuLinkComplete(linked.state, &linked.image, &linked.size);
        if (r != CUDA_SUCCESS)
                printf("%s: %d: %s\n", what, (int)r, linked.errors);
        EXPECT(CUDA_SUCCESS, r);
        if (r == CUDA_SUCCESS)
                runs_linked(what, linked.image, linked.size);
        OK(cuLinkDestroy(linked.state));
}

static void several_with_ptx(void)
{
        links("two texts", (struct input[]){{CU_JIT_INPUT_PTX, "caller.ptx"}, {CU_JIT_INPUT_PTX, "callee.ptx"}, {0}});
        links("two texts, the definitions first",
                (struct input[]){{CU_JIT_INPUT_PTX, "callee.ptx"}, {CU_JIT_INPUT_PTX, "caller.ptx"}, {0}});
        links("a text and a fatbin",
                (struct input[]){{CU_JIT_INPUT_PTX, "caller.ptx"}, {CU_JIT_INPUT_FATBINARY, "callee.fatbin"}, {0}});
        links("two objects",
                (struct input[]){{CU_JIT_INPUT_OBJECT, "caller.o"}, {CU_JIT_INPUT_OBJECT, "callee.o"}, {0}});
        links("a text and a library",
                (struct input[]){{CU_JIT_INPUT_PTX, "caller.ptx"}, {CU_JIT_INPUT_LIBRARY, "libcallee.a"}, {0}});
}

/* Whether the daemon has no linker for machine code. A daemon on a GPU must have one. */
static int has_no_linker(const struct linked *linked)
{
        return (device_is("sim:") || device_is("fake")) && linked->completed == CUDA_ERROR_JIT_COMPILER_NOT_FOUND &&
               strstr(linked->errors, "no libnvJitLink");
}

/* Machine code is there only for the architecture of the device that runs the tests. A simulated device cannot use it. */
static void several_with_machine_code(void)
{
        const struct input cubins[] = {{CU_JIT_INPUT_CUBIN, "caller.cubin"}, {CU_JIT_INPUT_CUBIN, "callee.cubin"}, {0}};
        const struct input mixed[] = {{CU_JIT_INPUT_PTX, "caller.ptx"}, {CU_JIT_INPUT_CUBIN, "callee.cubin"}, {0}};
        struct linked linked;

        if (!is_there("callee.cubin"))
                return;
        if (!device_is("sim:") && !device_is("fake")) {
                links("two cubins", cubins);
                links("a text and a cubin", mixed);
                return;
        }
        link_files(mixed, &linked);
        if (device_is("fake")) {
                CHECK(linked.completed == CUDA_SUCCESS || has_no_linker(&linked));
                return;
        }
        CHECK(linked.added == CUDA_ERROR_NO_BINARY_FOR_GPU);
        CHECK(strstr(linked.errors, "callee.cubin' has no PTX"));
}

/* LTO code of the toolkit. NVIDIA's driver accepts only that of toolkits before CUDA 12, so these checks do not count:
 * the output of the program is compared with that of a native run. */
static void several_with_lto(void)
{
        const struct input lto[] = {{CU_JIT_INPUT_NVVM, "caller.ltoir"}, {CU_JIT_INPUT_NVVM, "callee.ltoir"}, {0}};
        const int checks = program_checks;
        struct linked linked;

        if (!is_there("callee.ltoir"))
                return;
        link_files(lto, &linked);
        if (!program_is_shared())
                NOTE("link: LTO code gives %d, then %d: %s", (int)linked.added, (int)linked.completed, linked.errors);
        else if (!has_no_linker(&linked))
                links("LTO code", lto);
        program_checks = checks;
}

static void note_errors(const char *what, const struct linked *linked)
{
        if (!program_is_shared())
                NOTE("link: %s gives %d, then %d: %.200s", what, (int)linked->added, (int)linked->completed,
                        linked->errors);
}

static void errors_between_inputs(void)
{
        const struct input twice[] = {{CU_JIT_INPUT_PTX, "caller.ptx"}, {CU_JIT_INPUT_PTX, "callee.ptx"},
                {CU_JIT_INPUT_PTX, "callee.ptx"}, {0}};
        const struct input missing[] = {{CU_JIT_INPUT_PTX, "caller.ptx"}, {0}};
        struct linked linked;

        link_files(twice, &linked);
        CHECK(linked.completed != CUDA_SUCCESS);
        CHECK(strstr(linked.errors, "Multiple definition of '"));
        CHECK(!program_is_shared() || strstr(linked.errors, "'_Z12linked_twicei'"));
        CHECK(!program_is_shared() || linked.completed == CUDA_ERROR_INVALID_SOURCE);
        note_errors("a name defined twice", &linked);
        link_files(missing, &linked);
        CHECK(linked.added == CUDA_SUCCESS && linked.completed != CUDA_SUCCESS);
        CHECK(strstr(linked.errors, "Undefined reference to '"));
        CHECK(!program_is_shared() || strstr(linked.errors, "'_Z12linked_twicei'"));
        CHECK(!program_is_shared() || linked.completed == CUDA_ERROR_UNKNOWN);
        note_errors("a missing name", &linked);
}

/* Bytes of other kinds than the type says. */
static void wrong_kinds(void)
{
        static const CUjitInputType types[] = {CU_JIT_INPUT_CUBIN, CU_JIT_INPUT_PTX, CU_JIT_INPUT_FATBINARY,
                CU_JIT_INPUT_OBJECT, CU_JIT_INPUT_LIBRARY};
        char junk[256];
        CUlinkState state;

        memset(junk, 'x', sizeof(junk));
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
                CUresult r;

                MUST(cuLinkCreate(0, NULL, NULL, &state));
                r = cuLinkAddData(state, types[i], junk, sizeof(junk), "junk", 0, NULL, NULL);
                CHECK(r != CUDA_SUCCESS);
                if (!program_is_shared())
                        NOTE("link: junk as an input of type %d gives %d", (int)types[i], (int)r);
                OK(cuLinkDestroy(state));
        }
}

/* Links a module without functions. */
static void no_text(void)
{
        CUfunction function;
        CUlinkState state;
        CUmodule module;
        size_t size = 0;
        void *image;

        EXPECT(CUDA_SUCCESS, cuLinkCreate(0, NULL, NULL, &state));
        EXPECT(CUDA_SUCCESS, cuLinkComplete(state, &image, &size));
        CHECK(image && size > 0);
        EXPECT(CUDA_SUCCESS, cuModuleLoadData(&module, image));
        EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&function, module, "seven"));
        EXPECT(CUDA_SUCCESS, cuModuleUnload(module));
        EXPECT(CUDA_SUCCESS, cuLinkDestroy(state));
}

/* Links an invalid text. CUDA leaves open when the log's size is written and whether it counts the terminating zero. */
static void bad_text(void)
{
        char errors[1000] = "";
        size_t sizes[3];
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
        void *values[] = {errors, (void *)(uintptr_t)sizeof(errors)};
        CUlinkState state;

        EXPECT(CUDA_SUCCESS, cuLinkCreate(2, options, values, &state));
        EXPECT(CUDA_ERROR_INVALID_PTX,
                cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)bad, sizeof(bad), "bad", 0, NULL, NULL));
        CHECK(strstr(errors, "frobnicate"));
        sizes[0] = (size_t)values[1];
        EXPECT(CUDA_ERROR_INVALID_VALUE,
                cuLinkAddData(state, (CUjitInputType)99, (void *)(uintptr_t)bad, sizeof(bad), "a", 0, NULL, NULL));
        EXPECT(CUDA_ERROR_FILE_NOT_FOUND, cuLinkAddFile(state, CU_JIT_INPUT_PTX, "/nowhere", 0, NULL, NULL));
        sizes[1] = (size_t)values[1];
        EXPECT(CUDA_SUCCESS, cuLinkDestroy(state));
        sizes[2] = (size_t)values[1];
        if (program_is_shared())
                CHECK(sizes[0] == strlen(errors) + 1);
        else
                NOTE("link: %zu bytes of words in room for %zu; the size is %zu when they are there, then %zu, "
                     "at last %zu",
                        strlen(errors), sizeof(errors), sizes[0], sizes[1], sizes[2]);
}

/*
 * Optimisation level and register limit reach the compiler, if there is one; the program sees no difference. The
 * compile time may be 0 if the driver has cached the result.
 */
static void options(void)
{
        const float before = -1;
        CUjit_option names[] = {CU_JIT_OPTIMIZATION_LEVEL, CU_JIT_MAX_REGISTERS, CU_JIT_WALL_TIME};
        void *values[] = {(void *)(uintptr_t)1, (void *)(uintptr_t)24, NULL};
        CUmodule module;
        CUfunction function;
        int registers = 0;
        float ms;

        memcpy(&values[2], &before, sizeof(before));
        EXPECT(CUDA_SUCCESS, cuModuleLoadDataEx(&module, good, 3, names, values));
        memcpy(&ms, &values[2], sizeof(ms));
        if (program_is_shared())
                CHECK(ms > 0);
        else
                NOTE("link: the compiler took %g ms (%g: left as it was)", (double)ms, (double)before);
        EXPECT(CUDA_SUCCESS, cuModuleGetFunction(&function, module, "seven"));
        EXPECT(CUDA_SUCCESS, cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
        EXPECT(CUDA_SUCCESS, cuModuleUnload(module));
}

int main(int argc, char **argv)
{
        CUcontext context;

        program_begin(argc, argv);
        context = program_context();

        one_text();
        register_limit();
        several_with_ptx();
        several_with_machine_code();
        several_with_lto();
        errors_between_inputs();
        wrong_kinds();
        no_text();
        bad_text();
        options();
        EXPECT(CUDA_SUCCESS, cuCtxDestroy(context));
        return program_end("link");
}
