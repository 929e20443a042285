/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several threads allocate and free memory of one pool at random, each in a stream of its own
 *
 * No thread writes another thread's memory, and in the end the pool is empty.
 */
#include <pthread.h>

#include "program.h"

#define THREADS 4
#define PIECES 16
#define ROUNDS 400

static CUcontext context;
static unsigned int broken[THREADS];

struct piece {
        CUdeviceptr p;
        unsigned int value;
};

static unsigned int take(struct piece *piece, uint32_t *state, CUstream stream)
{
        size_t n = 128 + program_random(state) % 50000;

        piece->value = program_random(state);
        return cuMemAllocAsync(&piece->p, n * 4, stream) != CUDA_SUCCESS ||
               cuMemsetD32Async(piece->p, piece->value, n, stream) != CUDA_SUCCESS;
}

static unsigned int give(struct piece *piece, int look, CUstream stream)
{
        unsigned int out[4], bad = 0;

        if (look) {
                bad += cuMemcpyDtoHAsync(out, piece->p, sizeof(out), stream) != CUDA_SUCCESS;
                bad += cuStreamSynchronize(stream) != CUDA_SUCCESS;
                for (int i = 0; i < 4; i++)
                        bad += out[i] != piece->value;
        }
        bad += cuMemFreeAsync(piece->p, stream) != CUDA_SUCCESS;
        piece->p = 0;
        return bad;
}

static void *work(void *argument)
{
        unsigned int *bad = argument;
        uint32_t state = (uint32_t)(bad - broken) * 77 + 1;
        struct piece pieces[PIECES] = {{0, 0}};
        CUstream stream;

        if (cuCtxSetCurrent(context) || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) {
                *bad = 1;
                return NULL;
        }
        for (int i = 0; i < ROUNDS; i++) {
                struct piece *piece = &pieces[program_random(&state) % PIECES];

                *bad += piece->p ? give(piece, i % 7 == 0, stream) : take(piece, &state, stream);
        }
        for (int i = 0; i < PIECES; i++)
                if (pieces[i].p)
                        *bad += give(&pieces[i], 1, stream);
        *bad += cuStreamDestroy(stream) != CUDA_SUCCESS;
        return NULL;
}

int main(int argc, char **argv)
{
        pthread_t threads[THREADS];
        uint64_t used = 1, held = 1;
        CUmemoryPool pool;

        program_begin(argc, argv);
        context = program_context();
        for (int i = 0; i < THREADS; i++)
                CHECK(pthread_create(&threads[i], NULL, work, &broken[i]) == 0);
        for (int i = 0; i < THREADS; i++) {
                pthread_join(threads[i], NULL);
                CHECK(broken[i] == 0);
        }
        OK(cuCtxSynchronize());
        OK(cuDeviceGetDefaultMemPool(&pool, 0));
        OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
        OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held));
        CHECK(used == 0 && held == 0);
        OK(cuCtxDestroy(context));
        return program_end("pool_threads");
}
