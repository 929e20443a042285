/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries with kernels, loaded and unloaded: their kernels and variables have equal names but are separate; a library
 * that is loaded again has initial values
 */
#include <dlfcn.h>
#include <unistd.h>

#include "runtime.h"

typedef int (*Step)(int *);

__global__ void step(int *out)
{
        *out = -1;
}

static void *open_library(const char *name)
{
        char path[4096];
        ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
        void *library;

        path[n > 0 ? n : 0] = '\0';
        snprintf(strrchr(path, '/'), 64, "/%s", name);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
                printf("%s\nFAIL\n", dlerror());
                exit(1);
        }
        return library;
}

static int run(void *library, int *p)
{
        Step f = (Step)dlsym(library, "plugin_step");
        int launched = f ? f(p) : -1;

        OK((cudaError_t)launched);
        return program_download(p, 1)[0];
}

int main()
{
        int *p = program_upload(std::vector<int>(1));

        for (int round = 0; round < 3; round++) {
                void *one = open_library("libplugin_one.so"), *two;

                CHECK(run(one, p) == 100);
                two = open_library("libplugin_two.so");
                CHECK(run(two, p) == 200);
                CHECK(run(one, p) == 101);
                CHECK(run(two, p) == 201);
                dlclose(two);
                CHECK(run(one, p) == 102);
                dlclose(one);
                LAUNCHED(step<<<1, 1>>>(p));
                CHECK(program_download(p, 1)[0] == -1);
        }
        OK(cudaFree(p));
        return program_end("plugins");
}
