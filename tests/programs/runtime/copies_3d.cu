/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three-dimensional copies of a box inside of a box, each side with its own pitch, rows and corner; compared with loops
 * on the processor
 */
#include "runtime.h"

struct box {
        std::vector<uint8_t> bytes;
        size_t pitch, rows, slices;

        box(size_t pitch, size_t rows, size_t slices, uint32_t seed)
            : bytes(pitch * rows * slices), pitch(pitch), rows(rows), slices(slices)
        {
                for (auto &b : bytes)
                        b = program_random(&seed);
        }
        uint8_t &at(size_t x, size_t y, size_t z)
        {
                return bytes[(z * rows + y) * pitch + x];
        }
};

static void copy_box(box &dst, cudaPos to, box &src, cudaPos from, cudaExtent e)
{
        for (size_t z = 0; z < e.depth; z++)
                for (size_t y = 0; y < e.height; y++)
                        for (size_t x = 0; x < e.width; x++)
                                dst.at(to.x + x, to.y + y, to.z + z) = src.at(from.x + x, from.y + y, from.z + z);
}

static cudaPitchedPtr host_of(box &b)
{
        return make_cudaPitchedPtr(b.bytes.data(), b.pitch, b.pitch, b.rows);
}

static void copy(cudaPitchedPtr dst, cudaPos to, cudaPitchedPtr src, cudaPos from, cudaExtent e, cudaMemcpyKind kind,
        cudaStream_t s)
{
        cudaMemcpy3DParms p = {};

        p.srcPtr = src;
        p.srcPos = from;
        p.dstPtr = dst;
        p.dstPos = to;
        p.extent = e;
        p.kind = kind;
        if (s)
                OK(cudaMemcpy3DAsync(&p, s));
        else
                OK(cudaMemcpy3D(&p));
}

static void boxes(cudaStream_t s, cudaMemcpyKind there, cudaMemcpyKind inside, cudaMemcpyKind back)
{
        cudaExtent size = make_cudaExtent(70, 9, 6), e = make_cudaExtent(31, 5, 4);
        cudaPitchedPtr a, b;
        box in(53, 7, 5, 1), first(1, 1, 1, 0), second(1, 1, 1, 0), out(47, 6, 5, 3);

        MUST(cudaMalloc3D(&a, size));
        MUST(cudaMalloc3D(&b, make_cudaExtent(40, 6, 5)));
        CHECK(a.xsize == 70 && a.ysize == 9 && b.pitch >= 40);
        first = box(a.pitch, 9, 6, 8);
        second = box(b.pitch, 6, 5, 9);
        MUST(cudaMemcpy(a.ptr, first.bytes.data(), first.bytes.size(), cudaMemcpyHostToDevice));
        MUST(cudaMemcpy(b.ptr, second.bytes.data(), second.bytes.size(), cudaMemcpyHostToDevice));

        copy(a, make_cudaPos(13, 3, 1), host_of(in), make_cudaPos(20, 1, 1), e, there, s);
        copy(b, make_cudaPos(4, 0, 0), a, make_cudaPos(13, 3, 1), e, inside, s);
        copy(host_of(out), make_cudaPos(2, 1, 0), b, make_cudaPos(5, 1, 0), make_cudaExtent(30, 4, 3), back, s);
        if (s)
                OK(cudaStreamSynchronize(s));

        box expected = box(47, 6, 5, 3);
        copy_box(first, make_cudaPos(13, 3, 1), in, make_cudaPos(20, 1, 1), e);
        copy_box(second, make_cudaPos(4, 0, 0), first, make_cudaPos(13, 3, 1), e);
        copy_box(expected, make_cudaPos(2, 1, 0), second, make_cudaPos(5, 1, 0), make_cudaExtent(30, 4, 3));
        CHECK(program_download((uint8_t *)a.ptr, first.bytes.size()) == first.bytes);
        CHECK(program_download((uint8_t *)b.ptr, second.bytes.size()) == second.bytes);
        CHECK(out.bytes == expected.bytes);
        OK(cudaFree(a.ptr));
        OK(cudaFree(b.ptr));
}

static void wrong()
{
        std::vector<uint8_t> h(256);
        cudaMemcpy3DParms m = {};
        uint8_t *p;

        MUST(cudaMalloc(&p, 256));
        OK(cudaMemcpy3D(&m));
        m.extent = make_cudaExtent(8, 2, 2);
        EXPECT(cudaErrorInvalidValue, cudaMemcpy3D(&m));
        EXPECT(cudaErrorInvalidValue, cudaMemcpy3D(NULL));
        m.srcPtr = make_cudaPitchedPtr(h.data(), 4, 4, 2);
        m.dstPtr = make_cudaPitchedPtr(p, 8, 8, 2);
        m.kind = cudaMemcpyHostToDevice;
        EXPECT(cudaErrorInvalidPitchValue, cudaMemcpy3D(&m));
        m.srcPtr.pitch = 8;
        m.srcPos.x = 4;
        EXPECT(cudaErrorInvalidValue, cudaMemcpy3D(&m));
        m.srcPos.x = 0;
        m.srcPtr.ysize = 1;
        EXPECT(cudaErrorInvalidPitchValue, cudaMemcpy3D(&m));
        m.srcPtr.ysize = 2;
        m.kind = (cudaMemcpyKind)8;
        EXPECT(cudaErrorInvalidMemcpyDirection, cudaMemcpy3D(&m));
        m.kind = cudaMemcpyHostToDevice;
        m.extent.depth = 0;
        OK(cudaMemcpy3D(&m));
        OK(cudaFree(p));
}

int main()
{
        cudaStream_t s;

        MUST(cudaStreamCreate(&s));
        boxes(NULL, cudaMemcpyHostToDevice, cudaMemcpyDeviceToDevice, cudaMemcpyDeviceToHost);
        boxes(NULL, cudaMemcpyDefault, cudaMemcpyDefault, cudaMemcpyDefault);
        boxes(s, cudaMemcpyHostToDevice, cudaMemcpyDeviceToDevice, cudaMemcpyDeviceToHost);
        wrong();
        OK(cudaStreamDestroy(s));
        return program_end("copies_3d");
}
