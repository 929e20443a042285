/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cudaMemcpyDefault: the addresses determine the direction, for every pair of pageable, pinned and device memory; also
 * copies with a wrong kind
 */
#include "runtime.h"

static const size_t size = 10000;

struct place {
        uint8_t *p;
        bool device;
};

static void fill(const place &x, uint8_t seed)
{
        std::vector<uint8_t> v(size);

        for (size_t i = 0; i < size; i++)
                v[i] = (uint8_t)(i * 7 + seed);
        if (x.device)
                MUST(cudaMemcpy(x.p, v.data(), size, cudaMemcpyHostToDevice));
        else
                memcpy(x.p, v.data(), size);
}

static bool holds(const place &x, size_t at, size_t n, size_t from, uint8_t seed)
{
        std::vector<uint8_t> v(size);

        if (x.device)
                MUST(cudaMemcpy(v.data(), x.p, size, cudaMemcpyDeviceToHost));
        else
                memcpy(v.data(), x.p, size);
        for (size_t i = 0; i < n; i++)
                if (v[at + i] != (uint8_t)((from + i) * 7 + seed))
                        return false;
        return true;
}

int main()
{
        std::vector<uint8_t> a(size), b(size);
        uint8_t *pinned[2], *device[2];
        cudaStream_t s;

        MUST(cudaStreamCreate(&s));
        for (int i = 0; i < 2; i++) {
                MUST(cudaMallocHost(&pinned[i], size));
                MUST(cudaMalloc(&device[i], size));
        }
        place from[] = {{a.data(), false}, {pinned[0], false}, {device[0], true}};
        place to[] = {{b.data(), false}, {pinned[1], false}, {device[1], true}};
        for (auto &src : from) {
                for (auto &dst : to) {
                        fill(src, 1);
                        fill(dst, 2);
                        OK(cudaMemcpy(dst.p + 11, src.p + 3, 5001, cudaMemcpyDefault));
                        OK(cudaDeviceSynchronize());
                        CHECK(holds(dst, 11, 5001, 3, 1));
                        CHECK(holds(dst, 0, 11, 0, 2));
                        CHECK(holds(dst, 5012, size - 5012, 5012, 2));
                        OK(cudaMemcpyAsync(dst.p, src.p, size, cudaMemcpyDefault, s));
                        OK(cudaStreamSynchronize(s));
                        CHECK(holds(dst, 0, size, 0, 1));
                }
        }
        /* a copy with a wrong kind is done all the same if the addresses allow it */
        fill(from[2], 10);
        OK(cudaMemcpy(device[1], device[0], size, cudaMemcpyHostToDevice));
        CHECK(holds(to[2], 0, size, 0, 10));
        OK(cudaMemcpy(b.data(), a.data(), size, cudaMemcpyHostToHost));
        CHECK(a == b);
        OK(cudaMemcpyPeer(device[0], 0, device[1], 0, size));
        CHECK(holds(from[2], 0, size, 0, 10));
        EXPECT(cudaErrorInvalidDevice, cudaMemcpyPeer(device[0], 0, device[1], 7, 4));
        OK(cudaStreamDestroy(s));
        for (int i = 0; i < 2; i++) {
                OK(cudaFreeHost(pinned[i]));
                OK(cudaFree(device[i]));
        }
        return program_end("unified_copies");
}
