/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: the default pool and new ones, their counters, the release threshold, trimming, access */
#include "runtime.h"

static uint64_t number(cudaMemPool_t pool, cudaMemPoolAttr attr)
{
        uint64_t v = ~0ull;

        OK(cudaMemPoolGetAttribute(pool, attr, &v));
        return v;
}

static void defaults()
{
        cudaMemPool_t a, b;
        int reuse = 0;

        OK(cudaDeviceGetDefaultMemPool(&a, 0));
        OK(cudaDeviceGetMemPool(&b, 0));
        CHECK(a == b);
        EXPECT(cudaErrorInvalidDevice, cudaDeviceGetDefaultMemPool(&b, 5));
        CHECK(number(a, cudaMemPoolAttrReleaseThreshold) == 0);
        cudaMemPoolAttr all[] = {cudaMemPoolReuseFollowEventDependencies, cudaMemPoolReuseAllowOpportunistic,
                cudaMemPoolReuseAllowInternalDependencies};
        for (cudaMemPoolAttr attr : all) {
                OK(cudaMemPoolGetAttribute(a, attr, &reuse));
                CHECK(reuse == 1);
        }
        EXPECT(cudaErrorInvalidValue, cudaMemPoolGetAttribute(a, (cudaMemPoolAttr)77, &reuse));
        EXPECT(cudaErrorInvalidValue, cudaMemPoolDestroy(a));
}

static cudaMemPool_t own()
{
        cudaMemPoolProps props = {};
        cudaMemPool_t pool;

        EXPECT(cudaErrorInvalidValue, cudaMemPoolCreate(&pool, &props));
        props.allocType = cudaMemAllocationTypePinned;
        props.location.type = cudaMemLocationTypeDevice;
        props.location.id = 0;
        MUST(cudaMemPoolCreate(&pool, &props));
        return pool;
}

static void counts(cudaStream_t s)
{
        cudaMemPool_t pool = own();
        uint64_t value = 64 << 20, none = 0;
        cudaMemLocation here = {};
        cudaMemAccessFlags access;
        char *a, *b;

        CHECK(number(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
        OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
        CHECK(number(pool, cudaMemPoolAttrReleaseThreshold) == value);
        OK(cudaMallocFromPoolAsync(&a, 1 << 20, pool, s));
        OK(cudaMallocFromPoolAsync(&b, 2 << 20, pool, s));
        OK(cudaMemsetAsync(a, 1, 1 << 20, s));
        OK(cudaMemsetAsync(b, 2, 2 << 20, s));
        OK(cudaStreamSynchronize(s));
        CHECK(number(pool, cudaMemPoolAttrUsedMemCurrent) == 3 << 20);
        CHECK(number(pool, cudaMemPoolAttrReservedMemCurrent) >= 3 << 20);
        OK(cudaFreeAsync(a, s));
        OK(cudaFreeAsync(b, s));
        OK(cudaStreamSynchronize(s));
        CHECK(number(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
        CHECK(number(pool, cudaMemPoolAttrUsedMemHigh) == 3 << 20);
        /* below the threshold the pool keeps its memory until it is trimmed */
        CHECK(number(pool, cudaMemPoolAttrReservedMemCurrent) >= 3 << 20);
        OK(cudaMemPoolTrimTo(pool, 0));
        CHECK(number(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
        EXPECT(cudaErrorInvalidValue, cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &value));
        EXPECT(cudaErrorInvalidValue, cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &none));
        OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &none));
        CHECK(number(pool, cudaMemPoolAttrUsedMemHigh) == 0);
        here.type = cudaMemLocationTypeDevice;
        OK(cudaMemPoolGetAccess(&access, pool, &here));
        CHECK(access == cudaMemAccessFlagsProtReadWrite);
        OK(cudaMemPoolDestroy(pool));
}

/* A device's current pool may differ from its default pool; destroying the current one restores the default. */
static void chosen(cudaStream_t s)
{
        cudaMemPool_t pool = own(), now, first;
        char *p;

        OK(cudaDeviceGetDefaultMemPool(&first, 0));
        OK(cudaDeviceSetMemPool(0, pool));
        OK(cudaDeviceGetMemPool(&now, 0));
        CHECK(now == pool);
        OK(cudaMallocAsync(&p, 4096, s));
        CHECK(number(pool, cudaMemPoolAttrUsedMemCurrent) >= 4096);
        OK(cudaFreeAsync(p, s));
        OK(cudaStreamSynchronize(s));
        OK(cudaMemPoolDestroy(pool));
        OK(cudaDeviceGetMemPool(&now, 0));
        CHECK(now == first);
}

int main()
{
        cudaStream_t s;

        MUST(cudaStreamCreate(&s));
        defaults();
        counts(s);
        chosen(s);
        OK(cudaStreamDestroy(s));
        return program_end("pools");
}
