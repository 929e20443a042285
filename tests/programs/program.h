/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the programs of the Driver API: counted checks, and loading of compiled kernels
 *
 * A program prints each check that fails, and ends with PASS or FAIL and its name. The programs use only the public
 * CUDA Driver API. So they run unchanged on a GPU with NVIDIA's driver, which confirmed their expectations. Compiled
 * kernels (PTX) are in the directory argv[1], or KERNELS_DIR.
 *
 * Where CUDA leaves a behaviour open, a program checks it under DetShare only. Natively it prints a note on standard
 * error, which is not compared.
 */
#pragma once

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int program_failures, program_checks;
static const char *program_kernels;

#define CHECK(condition)                                                                      \
        do {                                                                                  \
                program_checks++;                                                             \
                if (!(condition)) {                                                           \
                        program_failures++;                                                   \
                        printf("%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
                }                                                                             \
        } while (0)

#define EXPECT(code, call)                                                                                          \
        do {                                                                                                        \
                CUresult program_r = (call);                                                                        \
                program_checks++;                                                                                   \
                if (program_r != (code)) {                                                                          \
                        program_failures++;                                                                         \
                        printf("%s:%d: %s = %d, not %d\n", __FILE__, __LINE__, #call, (int)program_r, (int)(code)); \
                }                                                                                                   \
        } while (0)

#define OK(call) EXPECT(CUDA_SUCCESS, call)

/* Like OK, for calls that the rest of the program depends on: an error ends the program. */
#define MUST(call)                                                                                   \
        do {                                                                                         \
                CUresult program_r = (call);                                                         \
                program_checks++;                                                                    \
                if (program_r != CUDA_SUCCESS) {                                                     \
                        printf("%s:%d: %s = %d\nFAIL\n", __FILE__, __LINE__, #call, (int)program_r); \
                        exit(1);                                                                     \
                }                                                                                    \
        } while (0)

#define SAME(a, b, bytes) CHECK(memcmp((a), (b), (bytes)) == 0)

static inline void program_begin(int argc, char **argv)
{
        program_kernels = argc > 1 ? argv[1] : getenv("KERNELS_DIR");
        if (!program_kernels)
                program_kernels = ".";
        setvbuf(stdout, NULL, _IOLBF, 0);
}

/* Whether the program runs under DetShare. Test scripts set DETSHARE_SOCKET for every such program, and only there. */
static inline int program_is_shared(void)
{
        return getenv("DETSHARE_SOCKET") != NULL;
}

#define NOTE(...)                             \
        do {                                  \
                fprintf(stderr, "note: ");    \
                fprintf(stderr, __VA_ARGS__); \
                fputc('\n', stderr);          \
        } while (0)

static inline int program_end(const char *name)
{
        printf("%s %s (%d checks)\n", program_failures ? "FAIL" : "PASS", name, program_checks);
        return program_failures != 0;
}

/* Reads the text of a compiled kernel file, malloc'ed; ends the program if the file is missing. */
static inline char *program_ptx(const char *name)
{
        char path[4096];
        char *text;
        FILE *f;
        long size;

        snprintf(path, sizeof(path), "%s/%s.ptx", program_kernels, name);
        f = fopen(path, "rb");
        if (!f || fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) < 0) {
                printf("cannot read %s\nFAIL\n", path);
                exit(1);
        }
        rewind(f);
        text = calloc(1, (size_t)size + 1);
        if (!text || fread(text, 1, (size_t)size, f) != (size_t)size)
                exit(1);
        fclose(f);
        return text;
}

static inline CUmodule program_module(const char *name)
{
        char *text = program_ptx(name);
        CUmodule module;

        MUST(cuModuleLoadData(&module, text));
        free(text);
        return module;
}

static inline CUfunction program_function(CUmodule module, const char *name)
{
        CUfunction function;

        MUST(cuModuleGetFunction(&function, module, name));
        return function;
}

static inline CUcontext program_context(void)
{
        CUdevice device;
        CUcontext context;

        MUST(cuInit(0));
        MUST(cuDeviceGet(&device, 0));
        MUST(cuCtxCreate(&context, NULL, 0, device));
        return context;
}

/* Runs this program again, as a process of its own with another argument; returns its status of wait(). */
static inline int program_again(char *self, char *text)
{
        char *args[] = {self, (char *)(uintptr_t)program_kernels, text, NULL};
        int status = -1;
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                execv("/proc/self/exe", args);
                _exit(127);
        }
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
        return status;
}

/* Next number of a small random generator with the same sequence everywhere. */
static inline uint32_t program_random(uint32_t *state)
{
        *state = *state * 1664525u + 1013904223u;
        return *state >> 8;
}

/*
 * A gate holds a stream until the program opens it. Work behind it is not ready until then, however long the calls take
 * that find it so; a kernel in its place would have to run for longer than those calls take on a busy machine.
 */
struct program_gate {
        CUdeviceptr word; /* the stream waits until this is 1 */
        CUstream opener;
};

static inline struct program_gate program_gate(CUstream stream)
{
        struct program_gate gate;

        MUST(cuStreamCreate(&gate.opener, CU_STREAM_NON_BLOCKING));
        MUST(cuMemAlloc(&gate.word, sizeof(uint32_t)));
        MUST(cuMemsetD32Async(gate.word, 0, 1, gate.opener));
        MUST(cuStreamSynchronize(gate.opener));
        MUST(cuStreamWaitValue32(stream, gate.word, 1, CU_STREAM_WAIT_VALUE_EQ));
        return gate;
}

static inline void program_gate_open(const struct program_gate *gate)
{
        OK(cuStreamWriteValue32(gate->opener, gate->word, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
}

/* Frees what the gate holds, after the stream has passed it. */
static inline void program_gate_free(const struct program_gate *gate)
{
        OK(cuMemFree(gate->word));
        OK(cuStreamDestroy(gate->opener));
}
