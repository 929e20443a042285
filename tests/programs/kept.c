/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freed allocations of 2 MiB and more, which DetShare keeps for the next ones: a freed address is invalid, no work
 * reaches memory after it was given out again, and other processes get all of the memory at once. MEMORY_ALONE=1 states
 * that no other program uses the device, so that sums of memory can be compared.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

#define MIB ((size_t)1 << 20)
#define BLOCKS 12
#define THREADS 4
#define ROUNDS 60

static CUcontext context;

static size_t free_bytes(void)
{
        size_t available = 0, total = 0;

        OK(cuMemGetInfo(&available, &total));
        return available;
}

static unsigned int word_at(CUdeviceptr p)
{
        unsigned int value = 0;

        OK(cuMemcpyDtoH(&value, p, sizeof(value)));
        return value;
}

/* A freed address has no allocation, whether the memory is kept or not. */
static void check_invalid(void)
{
        unsigned int word = 0;
        CUmemorytype type;
        CUdeviceptr p, q;
        size_t size;

        MUST(cuMemAlloc(&p, 64 * MIB));
        OK(cuMemsetD32(p, 7, 16 * MIB));
        OK(cuMemFree(p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + MIB));
        EXPECT(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&q, &size, p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(&word, p + MIB, sizeof(word)));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(p, 7, 1));
}

/* Sizes: memory of other sizes is reused only if little of it is left over, and bounds are those of the request. */
static void check_sizes(void)
{
        CUdeviceptr p, q, base;
        size_t size = 0;

        MUST(cuMemAlloc(&p, 32 * MIB));
        OK(cuMemFree(p));
        MUST(cuMemAlloc(&q, 32 * MIB));
        CHECK(q == p || !program_is_shared());
        OK(cuMemFree(q));
        MUST(cuMemAlloc(&q, 29 * MIB));
        CHECK(q == p || !program_is_shared());
        OK(cuMemGetAddressRange(&base, &size, q));
        CHECK(base == q && size == 29 * MIB);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(q, 1, 29 * MIB + 1));
        OK(cuMemFree(q));
        MUST(cuMemAlloc(&q, 32 * MIB)); /* all of it is there again */
        OK(cuMemsetD8(q, 1, 32 * MIB));
        MUST(cuMemAlloc(&p, 16 * MIB));
        CHECK(p + 16 * MIB <= q || q + 32 * MIB <= p);
        OK(cuMemFree(q));
        OK(cuMemFree(p));
}

/* A free waits for the work before it, so the memory is not reused under that work. */
static void check_work(void)
{
        CUdeviceptr p, q;
        CUstream stream;

        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        for (unsigned int i = 1; i <= 30; i++) {
                MUST(cuMemAlloc(&p, 8 * MIB));
                OK(cuMemsetD32Async(p, i, 2 * MIB, stream));
                OK(cuMemFree(p));
                OK(cuStreamQuery(stream));
                MUST(cuMemAlloc(&q, 8 * MIB));
                OK(cuMemsetD32(q, ~i, 2 * MIB));
                OK(cuStreamSynchronize(stream));
                CHECK(word_at(q + 8 * MIB - 4) == ~i);
                OK(cuMemFree(q));
        }
        OK(cuStreamDestroy(stream));
}

/* cuMemGetInfo() counts kept memory as free, and one allocation gets all of it. */
static void check_info(void)
{
        size_t before = free_bytes(), after;
        CUdeviceptr p[BLOCKS], all;

        for (unsigned int i = 0; i < BLOCKS; i++)
                MUST(cuMemAlloc(&p[i], 64 * MIB));
        CHECK(free_bytes() + BLOCKS * 64 * MIB <= before + 2 * MIB);
        for (unsigned int i = 0; i < BLOCKS; i++)
                OK(cuMemFree(p[i]));
        after = free_bytes();
        CHECK(after == before || !program_is_shared());
        MUST(cuMemAlloc(&all, after / 8 * 7 / MIB * MIB));
        OK(cuMemFree(all));
        CHECK(free_bytes() == before || !program_is_shared());
}

static void *run_thread(void *number)
{
        unsigned int own = (unsigned int)(uintptr_t)number;
        CUdeviceptr p;

        OK(cuCtxSetCurrent(context));
        for (unsigned int i = 1; i <= ROUNDS; i++) {
                size_t bytes = (2 + (i * own) % 7) * MIB;

                MUST(cuMemAlloc(&p, bytes));
                OK(cuMemsetD32(p, own << 16 | i, bytes / 4));
                CHECK(word_at(p) == (own << 16 | i));
                CHECK(word_at(p + bytes - 4) == (own << 16 | i));
                OK(cuMemFree(p));
        }
        return NULL;
}

static void check_threads(void)
{
        pthread_t threads[THREADS];

        for (uintptr_t i = 0; i < THREADS; i++)
                pthread_create(&threads[i], NULL, run_thread, (void *)(i + 1));
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
}

/* The other process allocates the bytes that its argument states; the memory contains nothing of this process. */
static int child(const char *bytes)
{
        CUcontext own = program_context();
        CUdeviceptr p;

        MUST(cuMemAlloc(&p, strtoull(bytes, NULL, 0)));
        CHECK(word_at(p) == 0 || !program_is_shared());
        OK(cuMemFree(p));
        OK(cuCtxDestroy(own));
        return program_end("kept, the other process");
}

static int run_child(char *self, size_t bytes)
{
        char text[32];
        snprintf(text, sizeof(text), "%zu", bytes);
        return program_again(self, text);
}

/* This process frees three quarters of the free memory, and has unfinished work while the other one allocates 14 of 16
 * parts: less would be free without the memory that this process keeps. */
static void check_other(char *self)
{
        size_t available = free_bytes(), part = available / 16 / MIB * MIB;
        CUdeviceptr p[BLOCKS], held;
        struct program_gate gate;
        CUstream stream;

        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        MUST(cuMemAlloc(&held, 2 * MIB));
        for (unsigned int i = 0; i < BLOCKS; i++) {
                MUST(cuMemAlloc(&p[i], part));
                OK(cuMemsetD32(p[i], 0x5ec2e7, 1024));
        }
        for (unsigned int i = 0; i < BLOCKS; i++)
                OK(cuMemFree(p[i]));
        gate = program_gate(stream);
        OK(cuMemsetD32Async(held, 3, 1, stream));
        CHECK(run_child(self, 14 * part) == 0);
        program_gate_open(&gate);
        OK(cuStreamSynchronize(stream));
        CHECK(word_at(held) == 3);
        program_gate_free(&gate);
        MUST(cuMemAlloc(&p[0], part));
        OK(cuMemsetD32(p[0], 1, 1024));
        CHECK(word_at(p[0] + 4092) == 1);
        OK(cuMemFree(p[0]));
        OK(cuMemFree(held));
        OK(cuStreamDestroy(stream));
}

/* The end of a context, and memory that was kept before it. */
static void check_contexts(void)
{
        CUcontext other;
        CUdeviceptr p, q;

        MUST(cuMemAlloc(&p, 16 * MIB));
        OK(cuMemFree(p));
        OK(cuCtxCreate(&other, NULL, 0, 0));
        MUST(cuMemAlloc(&q, 16 * MIB));
        OK(cuMemsetD8(q, 1, 16 * MIB));
        OK(cuCtxDestroy(other));
        OK(cuCtxSetCurrent(context));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(q));
        MUST(cuMemAlloc(&q, 16 * MIB));
        OK(cuMemsetD8(q, 2, 16 * MIB));
        OK(cuMemFree(q));
}

int main(int argc, char **argv)
{
        CUdeviceptr first;

        program_begin(argc, argv);
        if (argc > 2)
                return child(argv[2]);
        context = program_context();
        MUST(cuMemAlloc(&first, 64));
        OK(cuMemsetD8(first, 0, 64)); /* the first work, before which nothing is kept */
        OK(cuCtxSynchronize());
        check_invalid();
        check_sizes();
        check_work();
        check_threads();
        if (getenv("MEMORY_ALONE")) {
                check_info();
                check_other(argv[0]);
        }
        check_contexts();
        OK(cuMemFree(first));
        OK(cuCtxDestroy(context));
        return program_end("kept");
}
