/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several threads allocate and free memory of all sizes with cuMemAlloc() and cuMemFree() at random
 *
 * Allocations are aligned, have the size that was requested, and overlap no other one. Memory is not reused before work
 * that uses it has ended. No thread writes another thread's memory. In the end all memory is free again.
 */
#include <pthread.h>

#include "program.h"

#define THREADS 4
#define PIECES 12
#define ROUNDS 250

static CUcontext context;
static unsigned int broken[THREADS];

struct piece {
        CUdeviceptr p;
        size_t words;
        unsigned int value;
};

/* Up to 256 KiB mostly, 3 MiB sometimes. */
static size_t words_of(uint32_t *state)
{
        uint32_t kind = program_random(state) % 16;

        return 1 + program_random(state) % (kind == 0 ? 786432 : kind < 4 ? 65536 : 2000);
}

static unsigned int take(struct piece *piece, uint32_t *state, CUstream stream)
{
        CUdeviceptr base = 0;
        size_t size = 0;

        piece->words = words_of(state);
        piece->value = program_random(state);
        if (cuMemAlloc(&piece->p, piece->words * 4) != CUDA_SUCCESS)
                return 1;
        if (cuMemGetAddressRange(&base, &size, piece->p + piece->words * 4 - 1) != CUDA_SUCCESS)
                return 1;
        return base != piece->p || size != piece->words * 4 || base % 256 != 0 ||
               cuMemsetD32Async(piece->p, piece->value, piece->words, stream) != CUDA_SUCCESS;
}

static unsigned int look(const struct piece *piece, CUstream stream)
{
        unsigned int first = 0, last = 0;
        CUdeviceptr end = piece->p + (piece->words - 1) * 4;

        return cuMemcpyDtoHAsync(&first, piece->p, 4, stream) != CUDA_SUCCESS ||
               cuMemcpyDtoHAsync(&last, end, 4, stream) != CUDA_SUCCESS ||
               cuStreamSynchronize(stream) != CUDA_SUCCESS || first != piece->value || last != piece->value;
}

static unsigned int give(struct piece *piece, uint32_t *state, CUstream stream)
{
        unsigned int bad = look(piece, stream);

        /* the free must wait for this memset; otherwise it writes into the next owner's memory */
        bad += cuMemsetD32Async(piece->p, ~piece->value, piece->words, stream) != CUDA_SUCCESS;
        if (program_random(state) % 4 == 0)
                bad += cuMemFreeAsync(piece->p, stream) != CUDA_SUCCESS;
        else
                bad += cuMemFree(piece->p) != CUDA_SUCCESS;
        piece->p = 0;
        return bad;
}

static void *work(void *argument)
{
        unsigned int *bad = argument;
        uint32_t state = (uint32_t)(bad - broken) * 77 + 1;
        struct piece pieces[PIECES] = {{0, 0, 0}};
        CUstream stream;

        if (cuCtxSetCurrent(context) || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) {
                *bad = 1;
                return NULL;
        }
        for (int i = 0; i < ROUNDS; i++) {
                struct piece *piece = &pieces[program_random(&state) % PIECES];

                *bad += piece->p ? give(piece, &state, stream) : take(piece, &state, stream);
        }
        for (int i = 0; i < PIECES; i++)
                if (pieces[i].p)
                        *bad += give(&pieces[i], &state, stream);
        *bad += cuStreamDestroy(stream) != CUDA_SUCCESS;
        return NULL;
}

static void refusals(void)
{
        int detshare = getenv("DETSHARE_SOCKET") != NULL;
        CUdeviceptr p, q, base;
        size_t size;

        MUST(cuMemAlloc(&p, 1000));
        MUST(cuMemAlloc(&q, 1000));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(p + 512));
        if (detshare) { /* NVIDIA's driver may round sizes up */
                EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(p, 0, 1001));
                EXPECT(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, p + 1000));
        }
        OK(cuMemFree(p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, NULL));
        if (detshare)
                EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(p, 0, 1));
        OK(cuMemsetD8(q, 0, 1000));
        OK(cuMemFree(q));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(q));
}

int main(int argc, char **argv)
{
        pthread_t threads[THREADS];

        program_begin(argc, argv);
        context = program_context();
        for (int i = 0; i < THREADS; i++)
                CHECK(pthread_create(&threads[i], NULL, work, &broken[i]) == 0);
        for (int i = 0; i < THREADS; i++) {
                pthread_join(threads[i], NULL);
                CHECK(broken[i] == 0);
        }
        OK(cuCtxSynchronize());
        refusals();
        OK(cuCtxDestroy(context));
        return program_end("alloc_threads");
}
