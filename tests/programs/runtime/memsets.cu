/* SPDX-License-Identifier: Apache-2.0 */
/* Memsets in one, two and three dimensions: only the low byte of the value counts, and no byte outside is touched */
#include "runtime.h"

static const size_t size = 64 * 1024;
static uint8_t *device;

static std::vector<uint8_t> reset()
{
        std::vector<uint8_t> v(size);
        uint32_t seed = 77;

        for (auto &b : v)
                b = program_random(&seed);
        MUST(cudaMemcpy(device, v.data(), size, cudaMemcpyHostToDevice));
        return v;
}

static void one(size_t at, size_t n, int value, cudaStream_t s)
{
        std::vector<uint8_t> expected = reset();

        memset(&expected[at], value, n);
        if (s)
                OK(cudaMemsetAsync(device + at, value, n, s));
        else
                OK(cudaMemset(device + at, value, n));
        if (s)
                OK(cudaStreamSynchronize(s));
        CHECK(program_download(device, size) == expected);
}

static void two(size_t at, size_t pitch, size_t width, size_t rows, cudaStream_t s)
{
        std::vector<uint8_t> expected = reset();

        for (size_t y = 0; y < rows; y++)
                memset(&expected[at + y * pitch], 0xa7, width);
        if (s)
                OK(cudaMemset2DAsync(device + at, pitch, 0xa7, width, rows, s));
        else
                OK(cudaMemset2D(device + at, pitch, 0xa7, width, rows));
        if (s)
                OK(cudaStreamSynchronize(s));
        CHECK(program_download(device, size) == expected);
}

static void three(size_t pitch, size_t ysize, cudaExtent e, cudaStream_t s)
{
        std::vector<uint8_t> expected = reset();
        cudaPitchedPtr p = make_cudaPitchedPtr(device, pitch, pitch, ysize);

        for (size_t z = 0; z < e.depth; z++)
                for (size_t y = 0; y < e.height; y++)
                        memset(&expected[(z * ysize + y) * pitch], 0x5c, e.width);
        if (s)
                OK(cudaMemset3DAsync(p, 0x5c, e, s));
        else
                OK(cudaMemset3D(p, 0x5c, e));
        if (s)
                OK(cudaStreamSynchronize(s));
        CHECK(program_download(device, size) == expected);
}

static void wrong()
{
        uint8_t local[16];

        OK(cudaMemset(NULL, 0, 0));
        EXPECT(cudaErrorInvalidValue, cudaMemset(NULL, 0, 4));
        EXPECT(cudaErrorInvalidValue, cudaMemset(local, 0, 4));
        EXPECT(cudaErrorInvalidValue, cudaMemset2D(device, 8, 0, 16, 2));
        OK(cudaMemset2D(device, 8, 0, 16, 1));
        OK(cudaMemset2D(device, 8, 0, 0, 2));
        EXPECT(cudaErrorInvalidValue,
                cudaMemset3D(make_cudaPitchedPtr(device, 512, 10, 20), 1, make_cudaExtent(600, 2, 2)));
        OK(cudaMemset3D(make_cudaPitchedPtr(device, 512, 10, 20), 1, make_cudaExtent(0, 2, 2)));
        EXPECT(cudaErrorInvalidValue, cudaMemset3D(make_cudaPitchedPtr(NULL, 8, 8, 8), 1, make_cudaExtent(4, 2, 2)));
}

int main()
{
        cudaStream_t s;

        MUST(cudaMalloc(&device, size));
        MUST(cudaStreamCreate(&s));
        one(0, size, 0, NULL);
        one(1, 1, 0xff, NULL);
        one(3, 4099, 0x1234, NULL);
        one(512, 30000, -1, s);
        two(0, 512, 512, 100, NULL);
        two(7, 100, 33, 50, NULL);
        two(1024, 256, 1, 200, s);
        two(5, 300, 300, 1, s);
        three(128, 16, make_cudaExtent(100, 16, 8), NULL);
        three(128, 16, make_cudaExtent(100, 9, 8), NULL);
        three(64, 8, make_cudaExtent(64, 3, 16), s);
        wrong();
        OK(cudaStreamDestroy(s));
        OK(cudaFree(device));
        return program_end("memsets");
}
