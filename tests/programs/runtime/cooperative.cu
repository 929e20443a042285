/* SPDX-License-Identifier: Apache-2.0 */
/* Cooperative groups: a barrier of the whole grid, tiles, and the largest grid that a cooperative launch may have */
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "runtime.h"

namespace cg = cooperative_groups;

/* In each round, every block reads the value that its neighbour wrote in the previous round. */
__global__ void relay(int *cells, int rounds)
{
        cg::grid_group grid = cg::this_grid();
        int n = gridDim.x, mine = blockIdx.x, v;

        for (int r = 0; r < rounds; r++) {
                v = cells[(mine + 1) % n];
                grid.sync();
                if (threadIdx.x == 0)
                        cells[mine] = v + 1;
                grid.sync();
        }
}

__global__ void tiles(int *out)
{
        cg::thread_block block = cg::this_thread_block();
        cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);

        out[block.thread_rank()] = cg::reduce(tile, int(block.thread_rank()), cg::plus<int>()) * 100 + int(tile.meta_group_rank());
}

static void relays(int blocks, int rounds)
{
        std::vector<int> cells(blocks), expected(blocks);
        int *p;

        for (int i = 0; i < blocks; i++)
                cells[i] = i * 100;
        for (int i = 0; i < blocks; i++)
                expected[i] = (i + rounds) % blocks * 100 + rounds;
        p = program_upload(cells);
        void *args[] = {&p, &rounds};
        OK(cudaLaunchCooperativeKernel((const void *)relay, blocks, 64, args, 0, 0));
        CHECK(program_download(p, blocks) == expected);
        OK(cudaFree(p));
}

/* Relays in a graph whose node is a cooperative launch. */
static void relays_in_a_graph(int blocks, int rounds)
{
        std::vector<int> cells(blocks, 0), expected(blocks, 2 * rounds);
        cudaGraphExec_t exec;
        cudaStream_t stream;
        cudaGraph_t graph;
        int *p = program_upload(cells);
        void *args[] = {&p, &rounds};

        OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        OK(cudaLaunchCooperativeKernel((const void *)relay, blocks, 64, args, 0, stream));
        OK(cudaStreamEndCapture(stream, &graph));
        OK(cudaGraphInstantiate(&exec, graph, 0));
        OK(cudaGraphLaunch(exec, stream));
        OK(cudaGraphLaunch(exec, stream));
        OK(cudaStreamSynchronize(stream));
        CHECK(program_download(p, blocks) == expected);
        OK(cudaGraphExecDestroy(exec));
        OK(cudaGraphDestroy(graph));
        OK(cudaStreamDestroy(stream));
        OK(cudaFree(p));
}

int main()
{
        int rounds = 1, blocks = 0, can = 0, sms = 0, *p = nullptr;
        void *args[] = {&p, &rounds};

        OK(cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeLaunch, 0));
        CHECK(can == 1);
        relays(2, 3);
        relays(40, 5);
        relays_in_a_graph(40, 3);
        MUST(cudaMalloc(&p, 64 * sizeof(int)));
        LAUNCHED(tiles<<<1, 64>>>(p));
        std::vector<int> got = program_download(p, 64);
        bool good = true;
        for (int i = 0; i < 64; i++)
                good = good && got[i] == (i / 8 * 64 + 28) * 100 + i / 8;
        CHECK(good);
        /* more blocks than fit at once are refused */
        MUST(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
        MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, relay, 1024, 0));
        EXPECT(cudaErrorCooperativeLaunchTooLarge, cudaLaunchCooperativeKernel((const void *)relay, blocks * sms + 1, 1024, args, 0, 0));
        EXPECT(cudaErrorCooperativeLaunchTooLarge, cudaGetLastError());
        OK(cudaDeviceSynchronize());
        OK(cudaFree(p));
        return program_end("cooperative");
}
