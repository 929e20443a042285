/* SPDX-License-Identifier: Apache-2.0 */
/* Code in the containers that nvcc writes: as a file, as bytes without a length, inside of a wrapper, with two
 * compressions */
#include "program.h"

struct wrapper {
        uint32_t magic, version;
        const void *data, *more;
};

static CUdeviceptr memory;

static void run(CUfunction add, int expected)
{
        int n = 4, v = 1, value = -1;
        void *params[] = {&memory, &n, &v};

        OK(cuLaunchKernel(add, 1, 1, 1, 4, 1, 1, 0, NULL, params, NULL));
        OK(cuMemcpyDtoH(&value, memory, sizeof(value)));
        CHECK(value == expected);
}

static void run_module(CUmodule module, int expected)
{
        run(program_function(module, "prog_add"), expected);
        OK(cuModuleUnload(module));
}

static char *read_file(const char *name, char *path, size_t size)
{
        char *bytes = NULL;
        FILE *f;
        long n;

        snprintf(path, size, "%s/%s", program_kernels, name);
        f = fopen(path, "rb");
        if (f && fseek(f, 0, SEEK_END) == 0 && (n = ftell(f)) > 0) {
                rewind(f);
                /* the buffer has the exact size: a loader cannot read bytes after the end by mistake */
                bytes = malloc((size_t)n);
                if (bytes && fread(bytes, 1, (size_t)n, f) != (size_t)n)
                        exit(1);
        }
        if (!bytes) {
                printf("cannot read %s\nFAIL\n", path);
                exit(1);
        }
        fclose(f);
        return bytes;
}

static void check_file(const char *name)
{
        char path[4096], *bytes = read_file(name, path, sizeof(path));
        struct wrapper wrapper = {0x466243b1, 1, bytes, NULL};
        CUlibrary library;
        CUkernel kernel;
        CUmodule module;

        OK(cuMemsetD32(memory, 0, 4));
        MUST(cuModuleLoad(&module, path));
        run_module(module, 1);
        MUST(cuModuleLoadData(&module, bytes));
        run_module(module, 2);
        MUST(cuModuleLoadFatBinary(&module, bytes));
        run_module(module, 3);
        MUST(cuLibraryLoadData(&library, &wrapper, NULL, NULL, 0, NULL, NULL, 0));
        MUST(cuLibraryGetKernel(&kernel, library, "prog_add"));
        run((CUfunction)kernel, 4);
        OK(cuLibraryUnload(library));
        free(bytes);
}

int main(int argc, char **argv)
{
        CUcontext context;

        program_begin(argc, argv);
        context = program_context();
        MUST(cuMemAlloc(&memory, 16));
        check_file("prog_basic.fatbin");
        check_file("prog_basic.lz4.fatbin");
        OK(cuCtxDestroy(context));
        return program_end("fatbins");
}
