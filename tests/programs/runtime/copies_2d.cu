/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two-dimensional copies of every kind, with different pitches and odd widths; bytes between rows keep their value
 */
#include "runtime.h"

struct plane {
        std::vector<uint8_t> bytes;
        size_t pitch;
};

static plane random_plane(size_t pitch, size_t rows, uint32_t seed)
{
        plane p = {std::vector<uint8_t>(pitch * rows), pitch};

        for (auto &b : p.bytes)
                b = program_random(&seed);
        return p;
}

static void copy_rows(plane &dst, const plane &src, size_t width, size_t rows)
{
        for (size_t y = 0; y < rows; y++)
                memcpy(&dst.bytes[y * dst.pitch], &src.bytes[y * src.pitch], width);
}

/* Copies host to device, device to device with another pitch, device to host; compares with copies by the processor. */
static void round_trip(size_t width, size_t rows, bool async)
{
        plane in = random_plane(width + 5, rows, 1), out = random_plane(width + 11, rows, 2);
        plane first = random_plane(0, 0, 3), second = random_plane(width + 3, rows, 4);
        cudaStream_t s;
        uint8_t *a, *b;

        MUST(cudaStreamCreate(&s));
        MUST(cudaMallocPitch(&a, &first.pitch, width, rows));
        CHECK(first.pitch >= width && first.pitch % 512 == 0);
        first = random_plane(first.pitch, rows, 3);
        MUST(cudaMalloc(&b, second.bytes.size()));
        MUST(cudaMemcpy(a, first.bytes.data(), first.bytes.size(), cudaMemcpyHostToDevice));
        MUST(cudaMemcpy(b, second.bytes.data(), second.bytes.size(), cudaMemcpyHostToDevice));
        if (async) {
                OK(cudaMemcpy2DAsync(
                        a, first.pitch, in.bytes.data(), in.pitch, width, rows, cudaMemcpyHostToDevice, s));
                OK(cudaMemcpy2DAsync(b, second.pitch, a, first.pitch, width, rows, cudaMemcpyDeviceToDevice, s));
                OK(cudaStreamSynchronize(s));
        } else {
                OK(cudaMemcpy2D(a, first.pitch, in.bytes.data(), in.pitch, width, rows, cudaMemcpyHostToDevice));
                OK(cudaMemcpy2D(b, second.pitch, a, first.pitch, width, rows, cudaMemcpyDefault));
        }
        std::vector<uint8_t> got = program_download(b, second.bytes.size());
        copy_rows(second, in, width, rows);
        CHECK(got == second.bytes);
        plane expected = out;
        copy_rows(expected, second, width, rows);
        if (async) {
                OK(cudaMemcpy2DAsync(out.bytes.data(), out.pitch, b, second.pitch, width, rows, cudaMemcpyDefault, s));
                OK(cudaStreamSynchronize(s));
        } else {
                OK(cudaMemcpy2D(out.bytes.data(), out.pitch, b, second.pitch, width, rows, cudaMemcpyDeviceToHost));
        }
        CHECK(out.bytes == expected.bytes);
        OK(cudaStreamDestroy(s));
        OK(cudaFree(a));
        OK(cudaFree(b));
}

static void host_to_host()
{
        plane in = random_plane(40, 10, 6), out = random_plane(64, 10, 7), expected = out;

        OK(cudaMemcpy2D(out.bytes.data(), 64, in.bytes.data(), 40, 33, 10, cudaMemcpyHostToHost));
        copy_rows(expected, in, 33, 10);
        CHECK(out.bytes == expected.bytes);
}

static void wrong()
{
        std::vector<uint8_t> h(1024);
        uint8_t *p;

        MUST(cudaMalloc(&p, 1024));
        EXPECT(cudaErrorInvalidPitchValue, cudaMemcpy2D(p, 8, h.data(), 16, 16, 2, cudaMemcpyHostToDevice));
        EXPECT(cudaErrorInvalidPitchValue, cudaMemcpy2D(p, 16, h.data(), 8, 16, 2, cudaMemcpyHostToDevice));
        EXPECT(cudaErrorInvalidPitchValue, cudaMemcpy2DAsync(p, 8, h.data(), 16, 16, 2, cudaMemcpyHostToDevice, 0));
        EXPECT(cudaErrorInvalidMemcpyDirection, cudaMemcpy2D(p, 16, h.data(), 16, 16, 2, (cudaMemcpyKind)7));
        EXPECT(cudaErrorInvalidValue, cudaMemcpy2D(NULL, 16, h.data(), 16, 16, 2, cudaMemcpyHostToDevice));
        OK(cudaMemcpy2D(p, 16, h.data(), 16, 0, 2, cudaMemcpyHostToDevice));
        OK(cudaMemcpy2D(p, 16, h.data(), 16, 16, 0, cudaMemcpyHostToDevice));
        EXPECT(cudaErrorInvalidValue, cudaGetLastError());
        OK(cudaFree(p));
}

int main()
{
        static const size_t widths[] = {1, 3, 16, 17, 100, 512, 1000};

        for (size_t width : widths) {
                round_trip(width, 13, false);
                round_trip(width, 7, true);
        }
        round_trip(64, 1, false);
        host_to_host();
        wrong();
        return program_end("copies_2d");
}
