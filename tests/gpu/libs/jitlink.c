/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvJitLink: links two relocatable images from NVRTC, one as PTX and one as link-time intermediate code; then loads and
 * runs the result
 */
#include "libs.h"

#include <cuda.h>
#include <nvJitLink.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>

static const char helper[] = "extern \"C\" __device__ float helped(float x) { return x * x + 0.25f; }\n";
static const char caller[] = "extern \"C\" __device__ float helped(float x);\n"
                             "extern \"C\" __global__ void apply(float *data, int n)\n"
                             "{\n"
                             "        int at = blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "        if (at < n)\n"
                             "                data[at] = helped(data[at]);\n"
                             "}\n";

static void *compile(const char *source, const char *architecture, int lto, size_t *bytes)
{
        const char *options[] = {architecture, lto ? "-dlto" : "-rdc=true"};
        nvrtcProgram program;
        void *image;

        CHECK(nvrtcCreateProgram(&program, source, "piece.cu", 0, NULL, NULL));
        CHECK(nvrtcCompileProgram(program, 2, options));
        CHECK(lto ? nvrtcGetLTOIRSize(program, bytes) : nvrtcGetPTXSize(program, bytes));
        image = malloc(*bytes);
        CHECK(!image);
        CHECK(lto ? nvrtcGetLTOIR(program, image) : nvrtcGetPTX(program, image));
        CHECK(nvrtcDestroyProgram(&program));
        return image;
}

static void *linked(const char *compute, const char *sm, int lto, size_t *bytes)
{
        const char *options[] = {sm, "-lto"}, *sources[] = {helper, caller};
        nvJitLinkHandle link;
        void *image;

        CHECK(nvJitLinkCreate(&link, lto ? 2 : 1, options));
        for (int i = 0; i < 2; i++) {
                void *piece = compile(sources[i], compute, lto, bytes);

                CHECK(nvJitLinkAddData(link, lto ? NVJITLINK_INPUT_LTOIR : NVJITLINK_INPUT_PTX, piece, *bytes,
                        i ? "caller" : "helper"));
                free(piece);
        }
        CHECK(nvJitLinkComplete(link));
        CHECK(nvJitLinkGetLinkedCubinSize(link, bytes));
        image = malloc(*bytes);
        CHECK(!image);
        CHECK(nvJitLinkGetLinkedCubin(link, image));
        CHECK(nvJitLinkDestroy(&link));
        return image;
}

static void run(const char *what, const char *compute, const char *sm, int lto)
{
        enum { N = 10001 };
        float *data = libs_floats(N, 1);
        CUfunction function;
        CUmodule module;
        size_t bytes;
        int n = N;
        void *image = linked(compute, sm, lto, &bytes), *arguments[] = {&data, &n};

        CHECK(cuModuleLoadData(&module, image));
        free(image);
        CHECK(cuModuleGetFunction(&function, module, "apply"));
        CHECK(cuLaunchKernel(function, (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
        libs_say_floats(what, data, N);
        CHECK(cuModuleUnload(module));
        CHECK(cudaFree(data));
}

int main(void)
{
        struct cudaDeviceProp properties;
        char compute[64], sm[64];

        CHECK(cudaGetDeviceProperties(&properties, 0));
        snprintf(compute, sizeof(compute), "-arch=compute_%d%d", properties.major, properties.minor);
        snprintf(sm, sizeof(sm), "-arch=sm_%d%d", properties.major, properties.minor);
        run("from PTX", compute, sm, 0);
        run("link-time optimised", compute, sm, 1);
        return 0;
}
