/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVRTC: compiles source to PTX and to machine code, and loads both through the Driver API beside the runtime; a
 * mangled name, a constant
 */
#include "libs.h"

#include <cuda.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char source[] = "__constant__ float factor;\n"
                             "template<int N> __device__ float power(float x) { return x * power<N - 1>(x); }\n"
                             "template<> __device__ float power<0>(float) { return 1; }\n"
                             "template<int N> __global__ void raise(float *data, int n)\n"
                             "{\n"
                             "        int at = blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "        if (at < n)\n"
                             "                data[at] = factor * power<N>(data[at]) + sinf(data[at]);\n"
                             "}\n";

/* Returns the compiled image, and in `name` the mangled name of raise<5>. */
static char *compile(const char *architecture, int machine_code, size_t *bytes, char *name, size_t name_bytes)
{
        const char *options[] = {architecture, "-std=c++17"}, *lowered;
        nvrtcProgram program;
        char *image;

        CHECK(nvrtcCreateProgram(&program, source, "raise.cu", 0, NULL, NULL));
        CHECK(nvrtcAddNameExpression(program, "raise<5>"));
        CHECK(nvrtcCompileProgram(program, 2, options));
        CHECK(nvrtcGetLoweredName(program, "raise<5>", &lowered));
        snprintf(name, name_bytes, "%s", lowered);
        CHECK(machine_code ? nvrtcGetCUBINSize(program, bytes) : nvrtcGetPTXSize(program, bytes));
        image = malloc(*bytes);
        CHECK(!image);
        CHECK(machine_code ? nvrtcGetCUBIN(program, image) : nvrtcGetPTX(program, image));
        CHECK(nvrtcDestroyProgram(&program));
        return image;
}

static void run(const char *what, const char *architecture, int machine_code)
{
        enum { N = 10001 };
        float *data = libs_floats(N, 1), factor = 0.75f;
        CUdeviceptr constant;
        CUfunction function;
        CUmodule module;
        char *image, name[256];
        size_t bytes;
        int n = N;
        void *arguments[] = {&data, &n};

        image = compile(architecture, machine_code, &bytes, name, sizeof(name));
        CHECK(cuModuleLoadData(&module, image));
        free(image);
        CHECK(cuModuleGetFunction(&function, module, name));
        CHECK(cuModuleGetGlobal(&constant, &bytes, module, "factor"));
        CHECK(cuMemcpyHtoD(constant, &factor, bytes));
        CHECK(cuLaunchKernel(function, (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
        libs_say_floats(what, data, N);
        CHECK(cuModuleUnload(module));
        CHECK(cudaFree(data));
}

int main(void)
{
        struct cudaDeviceProp properties;
        char option[64];

        CHECK(cudaGetDeviceProperties(&properties, 0));
        snprintf(option, sizeof(option), "-arch=compute_%d%d", properties.major, properties.minor);
        run("through PTX", option, 0);
        run("through older PTX", "-arch=compute_75", 0);
        snprintf(option, sizeof(option), "-arch=sm_%d%d", properties.major, properties.minor);
        run("machine code", option, 1);
        return 0;
}
