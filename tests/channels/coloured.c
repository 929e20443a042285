/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coloured tensors as a program uses them: the public functions, and kernels compiled by nvcc
 *
 * Everything runs twice, on linear memory with the original kernels and on coloured tensors with the coloured forms;
 * the results must be the same bits. A kernel that cannot be coloured is refused with the reason.
 *
 * usage: coloured check KERNELS | hold BYTES be|ls | limit BYTES | slabs
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "../programs/program.h"
#include "detshare/coloured.h"

#define N 50001 /* elements of a test vector; not a multiple of a block, warp or sector */
#define FINE(call) CHECK((call) == DETSHARE_OK)

static CUmodule coloured_module(const char *file, const struct detshare_coloured_kernel *kernels, size_t n)
{
        char *text = program_ptx(file);
        CUmodule module = NULL;
        void *image = NULL;
        size_t size;

        FINE(detshare_coloured_image(text, strlen(text), kernels, n, &image, &size));
        MUST(cuModuleLoadData(&module, image));
        free(image);
        free(text);
        return module;
}

static CUfunction coloured_function(CUmodule module, const char *kernel, uint64_t mask)
{
        char name[128];

        FINE(detshare_coloured_name(kernel, mask, name, sizeof(name)));
        return program_function(module, name);
}

static void fill(uint8_t *bytes, size_t size, uint32_t seed)
{
        for (size_t i = 0; i < size; i++)
                bytes[i] = (uint8_t)program_random(&seed);
}

/* --- bytes -------------------------------------------------------------------------------------------------------- */

static void check_bytes(enum detshare_colour colour)
{
        const size_t size = 300007, small = 4099;
        uint8_t *out = malloc(size), *in = malloc(size);
        uint64_t a, b;
        CUdeviceptr linear;
        CUstream stream;

        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuMemAlloc(&linear, size));
        FINE(detshare_coloured_alloc(size, colour, &a));
        FINE(detshare_coloured_alloc(small, DETSHARE_COLOUR_LS, &b));
        CHECK(a % 256 == 0 && b % 256 == 0 && a != b);
        fill(out, size, 1 + (uint32_t)colour);
        FINE(detshare_coloured_write(stream, a, out, size));
        FINE(detshare_coloured_read(stream, in, a, size));
        SAME(in, out, size);
        /* copies at unaligned addresses, between tensors and linear memory */
        FINE(detshare_coloured_copy(stream, b + 3, a + 4095, 2050));
        FINE(detshare_coloured_copy(stream, linear, a, size));
        FINE(detshare_coloured_copy(stream, a + 1, linear, 1000));
        FINE(detshare_coloured_memset(stream, a + 5000, 0xa5, 100001));
        FINE(detshare_coloured_read(stream, in, b + 3, 2050));
        SAME(in, out + 4095, 2050);
        FINE(detshare_coloured_read(stream, in, a, size));
        memmove(out + 1, out, 1000);
        memset(out + 5000, 0xa5, 100001);
        SAME(in, out, size);
        /* copies past the end of a tensor, and at an address of no tensor, must fail */
        CHECK(detshare_coloured_copy(stream, b, a, small + 1) == DETSHARE_E_INVALID);
        CHECK(detshare_coloured_read(stream, in, a + size - 1, 2) == DETSHARE_E_INVALID);
        CHECK(detshare_coloured_free(a + 256) == DETSHARE_E_NO_SUCH);
        FINE(detshare_coloured_free(a));
        FINE(detshare_coloured_free(b));
        CHECK(detshare_coloured_free(a) == DETSHARE_E_NO_SUCH);
        OK(cuMemFree(linear));
        OK(cuStreamDestroy(stream));
        free(out);
        free(in);
}

struct reading {
        CUcontext context;
        CUstream stream;
        uint64_t tensor;
        uint8_t *in;
        size_t size;
        atomic_int begun;
        int r;
};

static void *read_it(void *user)
{
        struct reading *reading = user;

        OK(cuCtxSetCurrent(reading->context));
        atomic_store(&reading->begun, 1);
        reading->r = detshare_coloured_read(reading->stream, reading->in, reading->tensor, reading->size);
        return NULL;
}

static void *free_it(void *user)
{
        FINE(detshare_coloured_free(*(const uint64_t *)user));
        return NULL;
}

/* Tests that waiting threads do not block others: one thread waits for its stream, which waits for this thread;
 * another thread waits for all work. Meanwhile this thread allocates tensors and copies. */
static void check_apart(CUcontext context)
{
        enum { SIZE = 4096 };
        uint8_t in[SIZE] = {0}, out[SIZE];
        struct reading reading = {.context = context, .in = in, .size = SIZE};
        CUstream other;
        CUdeviceptr flag;
        uint64_t more[5], gone;
        pthread_t thread, freeing;

        OK(cuStreamCreate(&reading.stream, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        OK(cuMemAlloc(&flag, 4));
        OK(cuMemsetD32(flag, 0, 1));
        FINE(detshare_coloured_alloc(SIZE, DETSHARE_COLOUR_BE, &reading.tensor));
        FINE(detshare_coloured_alloc(SIZE, DETSHARE_COLOUR_BE, &gone));
        fill(out, SIZE, 9);
        FINE(detshare_coloured_write(reading.stream, reading.tensor, out, SIZE));
        OK(cuStreamSynchronize(reading.stream));
        OK(cuStreamWaitValue32(reading.stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
        CHECK(pthread_create(&thread, NULL, read_it, &reading) == 0);
        CHECK(pthread_create(&freeing, NULL, free_it, &gone) == 0);
        while (!atomic_load(&reading.begun))
                sched_yield();
        for (int i = 0; i < 5; i++) {
                FINE(detshare_coloured_alloc(SIZE, DETSHARE_COLOUR_LS, &more[i]));
                FINE(detshare_coloured_memset(other, more[i], 0x5a, SIZE));
                usleep(3000); /* gives the other thread time to reach its wait; the result does not depend on it */
        }
        OK(cuStreamWriteValue32(other, flag, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(pthread_join(freeing, NULL) == 0);
        CHECK(detshare_coloured_free(gone) == DETSHARE_E_NO_SUCH);
        FINE(reading.r);
        SAME(in, out, SIZE);
        for (int i = 0; i < 5; i++)
                FINE(detshare_coloured_free(more[i]));
        FINE(detshare_coloured_free(reading.tensor));
        OK(cuMemFree(flag));
        OK(cuStreamDestroy(other));
        OK(cuStreamDestroy(reading.stream));
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

static void check_saxpy(void)
{
        static const struct detshare_coloured_kernel wants[] = {
                {"saxpy", 1 << 2 | 1 << 3}, {"saxpy_vec4", 1 << 2 | 1 << 3}, {"vector_add", 1 << 2}};
        CUmodule plain = program_module("saxpy"), module = coloured_module("saxpy", wants, 3);
        CUfunction saxpy = program_function(plain, "saxpy"), vec4 = program_function(plain, "saxpy_vec4");
        CUfunction coloured = coloured_function(module, "saxpy", wants[0].mask);
        CUfunction coloured4 = coloured_function(module, "saxpy_vec4", wants[1].mask);
        struct detshare_coloured_parameter parameter;
        float *bytes = malloc(N * 4), *a = malloc(N * 4), *b = malloc(N * 4), factor = 1.25f;
        CUdeviceptr x, y;
        uint64_t cx, cy;
        int n = N, n4 = N / 4;

        for (int i = 0; i < N; i++)
                bytes[i] = (float)i * 0.37f - 1000;
        OK(cuMemAlloc(&x, N * 4));
        OK(cuMemAlloc(&y, N * 4));
        FINE(detshare_coloured_alloc(N * 4, DETSHARE_COLOUR_BE, &cx));
        FINE(detshare_coloured_alloc(N * 4, DETSHARE_COLOUR_BE, &cy));
        FINE(detshare_coloured_parameter(&parameter));
        OK(cuMemcpyHtoD(x, bytes, N * 4));
        OK(cuMemcpyHtoD(y, bytes, N * 4));
        FINE(detshare_coloured_write(NULL, cx, bytes, N * 4));
        FINE(detshare_coloured_copy(NULL, cy, cx, N * 4));
        for (int i = 0; i < 3; i++) {
                OK(cuLaunchKernel(
                        saxpy, (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, (void *[]){&n, &factor, &x, &y}, NULL));
                OK(cuLaunchKernel(
                        vec4, (N / 4 + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, (void *[]){&n4, &factor, &x, &y}, NULL));
                OK(cuLaunchKernel(coloured, (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL,
                        (void *[]){&n, &factor, &cx, &cy, &parameter}, NULL));
                OK(cuLaunchKernel(coloured4, (N / 4 + 127) / 128, 1, 1, 128, 1, 1, 0, NULL,
                        (void *[]){&n4, &factor, &cx, &cy, &parameter}, NULL));
        }
        OK(cuMemcpyDtoH(a, y, N * 4));
        FINE(detshare_coloured_read(NULL, b, cy, N * 4));
        SAME(a, b, N * 4);
        CHECK(memcmp(a, bytes, N * 4) != 0);
        FINE(detshare_coloured_free(cx));
        FINE(detshare_coloured_free(cy));
        OK(cuMemFree(x));
        OK(cuMemFree(y));
        OK(cuModuleUnload(module));
        OK(cuModuleUnload(plain));
        free(bytes);
        free(a);
        free(b);
}

/* Tests a kernel with atomics, and tensors of both classes in one launch. */
static void check_histogram(void)
{
        static const struct detshare_coloured_kernel want = {"histogram_shared", 3};
        CUmodule plain = program_module("histogram"), module = coloured_module("histogram", &want, 1);
        CUfunction shared = program_function(plain, want.name);
        CUfunction coloured = coloured_function(module, want.name, want.mask);
        struct detshare_coloured_parameter parameter;
        uint32_t a[256], b[256];
        uint8_t *bytes = malloc(N);
        CUdeviceptr in, bins;
        uint64_t cin, cbins;
        int n = N;

        fill(bytes, N, 77);
        OK(cuMemAlloc(&in, N));
        OK(cuMemAlloc(&bins, sizeof(a)));
        FINE(detshare_coloured_alloc(N, DETSHARE_COLOUR_BE, &cin));
        FINE(detshare_coloured_alloc(sizeof(a), DETSHARE_COLOUR_LS, &cbins));
        FINE(detshare_coloured_parameter(&parameter));
        OK(cuMemcpyHtoD(in, bytes, N));
        OK(cuMemsetD8(bins, 0, sizeof(a)));
        FINE(detshare_coloured_write(NULL, cin, bytes, N));
        FINE(detshare_coloured_memset(NULL, cbins, 0, sizeof(a)));
        OK(cuLaunchKernel(shared, 20, 1, 1, 128, 1, 1, 0, NULL, (void *[]){&in, &bins, &n}, NULL));
        OK(cuLaunchKernel(coloured, 20, 1, 1, 128, 1, 1, 0, NULL, (void *[]){&cin, &cbins, &n, &parameter}, NULL));
        OK(cuMemcpyDtoH(a, bins, sizeof(a)));
        FINE(detshare_coloured_read(NULL, b, cbins, sizeof(b)));
        SAME(a, b, sizeof(a));
        FINE(detshare_coloured_free(cin));
        FINE(detshare_coloured_free(cbins));
        OK(cuMemFree(in));
        OK(cuMemFree(bins));
        OK(cuModuleUnload(module));
        OK(cuModuleUnload(plain));
        free(bytes);
}

static void check_refusals(void)
{
        static const struct detshare_coloured_kernel no_pointer = {"saxpy", 1}, no_kernel = {"sexpy", 4};
        const struct detshare_coloured_kernel *wants[] = {&no_pointer, &no_kernel};
        static const char *const words[] = {"saxpy cannot be coloured", "sexpy cannot be coloured"};
        char *text = program_ptx("saxpy"), log[2048];
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};

        for (int i = 0; i < 2; i++) {
                void *values[] = {log, (void *)(uintptr_t)sizeof(log)}, *image;
                CUmodule module;
                size_t size;

                memset(log, 0, sizeof(log));
                FINE(detshare_coloured_image(text, strlen(text), wants[i], 1, &image, &size));
                EXPECT(CUDA_ERROR_INVALID_PTX, cuModuleLoadDataEx(&module, image, 2, options, values));
                CHECK(strstr(log, words[i]) != NULL);
                printf("refused: %s\n", log);
                free(image);
        }
        CHECK(detshare_coloured_image(text, strlen(text), wants[0], 0, NULL, NULL) == DETSHARE_E_INVALID);
        CHECK(detshare_coloured_name("k", 0, log, sizeof(log)) == DETSHARE_E_INVALID);
        free(text);
}

/* --- information about the pool ----------------------------------------------------------------------------------- */

static struct detshare_coloured_info info_now(void)
{
        struct detshare_coloured_info info = {.size = sizeof(info)};

        FINE(detshare_coloured_info(&info));
        return info;
}

static void check_room(void)
{
        const struct detshare_coloured_info before = info_now();
        const uint64_t all = before.slabs * before.slab_bytes;
        uint64_t a, b;

        CHECK(before.on && before.slabs_free == before.slabs && before.be_channels < before.channels);
        printf("%u of %u channels, sectors of %u bytes (%s)\n", before.be_channels, before.channels,
                before.sector_bytes, before.provenance);
        CHECK(detshare_coloured_alloc(all + 1, DETSHARE_COLOUR_ALL, &a) == DETSHARE_E_NO_MEMORY);
        CHECK(detshare_coloured_alloc(all, DETSHARE_COLOUR_BE, &a) == DETSHARE_E_NO_MEMORY);
        CHECK(detshare_coloured_alloc(0, DETSHARE_COLOUR_BE, &a) == DETSHARE_E_INVALID);
        CHECK(info_now().slabs_free == before.slabs);
        FINE(detshare_coloured_alloc(all, DETSHARE_COLOUR_ALL, &a));
        CHECK(info_now().slabs_free == 0);
        CHECK(detshare_coloured_alloc(1, DETSHARE_COLOUR_LS, &b) == DETSHARE_E_NO_MEMORY);
        FINE(detshare_coloured_free(a));
        CHECK(info_now().slabs_free == before.slabs);
}

static int check(void)
{
        CUcontext context = program_context();

        CHECK(detshare_coloured_free(1) == DETSHARE_E_NO_SUCH);
        check_room();
        for (int colour = 0; colour < DETSHARE_COLOURS; colour++)
                check_bytes((enum detshare_colour)colour);
        check_apart(context);
        check_saxpy();
        check_histogram();
        check_refusals();
        CHECK(info_now().slabs_free == info_now().slabs);
        OK(cuCtxDestroy(context));
        return program_end("coloured");
}

/* Holds a tensor with a pattern and verifies it for each line of input, until the input ends. */
static int hold(uint64_t bytes, enum detshare_colour colour)
{
        CUcontext context = program_context();
        uint8_t *out = malloc(bytes), *in = malloc(bytes);
        char line[16];
        uint64_t a;

        (void)context;
        fill(out, bytes, 5);
        FINE(detshare_coloured_alloc(bytes, colour, &a));
        FINE(detshare_coloured_write(NULL, a, out, bytes));
        OK(cuCtxSynchronize());
        printf("holding\n");
        while (fgets(line, sizeof(line), stdin)) {
                memset(in, 0, bytes);
                FINE(detshare_coloured_read(NULL, in, a, bytes));
                SAME(in, out, bytes);
                printf("%s\n", program_failures ? "lost" : "there");
        }
        free(out);
        free(in);
        return program_end("hold");
}

/* Tests a memory limit that is smaller than a slab of the pool. */
static int limit(uint64_t bytes)
{
        CUcontext context = program_context();
        uint64_t a;

        (void)context;
        FINE(detshare_set_memory_limit(bytes));
        CHECK(detshare_coloured_alloc(1, DETSHARE_COLOUR_BE, &a) == DETSHARE_E_NO_MEMORY);
        printf("%s\n", detshare_last_error());
        FINE(detshare_set_memory_limit(0));
        FINE(detshare_coloured_alloc(1, DETSHARE_COLOUR_BE, &a));
        return program_end("limit");
}

static int slabs(void)
{
        const struct detshare_coloured_info info = info_now();

        printf("%u of %u free%s%s\n", info.slabs_free, info.slabs, info.on ? "" : ": ", info.why);
        return program_failures != 0;
}

int main(int argc, char **argv)
{
        const uint64_t bytes = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;

        if (argc < 2)
                return 2;
        program_begin(argc - 1, argv + 1);
        if (!strcmp(argv[1], "check"))
                return check();
        if (!strcmp(argv[1], "limit"))
                return limit(bytes);
        if (!strcmp(argv[1], "slabs"))
                return slabs();
        return argc > 3 ? hold(bytes, strcmp(argv[3], "ls") ? DETSHARE_COLOUR_BE : DETSHARE_COLOUR_LS) : 2;
}
