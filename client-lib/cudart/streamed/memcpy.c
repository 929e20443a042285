/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies
 *
 * For cudaMemcpyDefault the addresses decide the direction; this includes host to host, for which the driver has no
 * copy of its own. Copying 0 bytes between any addresses is no error.
 */
#include "cudart/params.h"

static CUresult copy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
        switch (kind) {
        case cudaMemcpyHostToDevice:
                return cuMemcpyHtoD((CUdeviceptr)dst, src, count);
        case cudaMemcpyDeviceToHost:
                return cuMemcpyDtoH(dst, (CUdeviceptr)src, count);
        case cudaMemcpyDeviceToDevice:
                return cuMemcpyDtoD((CUdeviceptr)dst, (CUdeviceptr)src, count);
        default:
                return cuMemcpy((CUdeviceptr)dst, (CUdeviceptr)src, count);
        }
}

static CUresult copy_async(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, CUstream stream)
{
        switch (kind) {
        case cudaMemcpyHostToDevice:
                return cuMemcpyHtoDAsync((CUdeviceptr)dst, src, count, stream);
        case cudaMemcpyDeviceToHost:
                return cuMemcpyDtoHAsync(dst, (CUdeviceptr)src, count, stream);
        case cudaMemcpyDeviceToDevice:
                return cuMemcpyDtoDAsync((CUdeviceptr)dst, (CUdeviceptr)src, count, stream);
        default:
                return cuMemcpyAsync((CUdeviceptr)dst, (CUdeviceptr)src, count, stream);
        }
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
        cudaError_t e = rt_enter();

        if (e != cudaSuccess || count == 0)
                return e;
        if ((unsigned int)kind > cudaMemcpyDefault)
                return rt_fail(cudaErrorInvalidMemcpyDirection);
        return rt_error(copy(dst, src, count, kind));
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream)
{
        cudaError_t e = rt_enter();

        if (e != cudaSuccess || count == 0)
                return e;
        if ((unsigned int)kind > cudaMemcpyDefault)
                return rt_fail(cudaErrorInvalidMemcpyDirection);
        return rt_error(copy_async(dst, src, count, kind, stream));
}

cudaError_t cudaMemcpy2D(
        void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, enum cudaMemcpyKind kind)
{
        cudaError_t e = rt_enter();
        CUDA_MEMCPY2D plane;

        if (e != cudaSuccess || width == 0 || height == 0)
                return e;
        e = rt_copy_2d(dst, dpitch, src, spitch, width, height, kind, &plane);
        return e ? e : rt_error(cuMemcpy2DUnaligned(&plane));
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
        enum cudaMemcpyKind kind, cudaStream_t stream)
{
        cudaError_t e = rt_enter();
        CUDA_MEMCPY2D plane;

        if (e != cudaSuccess || width == 0 || height == 0)
                return e;
        e = rt_copy_2d(dst, dpitch, src, spitch, width, height, kind, &plane);
        return e ? e : rt_error(cuMemcpy2DAsync(&plane, stream));
}

static int empty(const struct cudaExtent *extent)
{
        return extent && (extent->width == 0 || extent->height == 0 || extent->depth == 0);
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
        cudaError_t e = rt_enter();
        CUDA_MEMCPY3D box;

        if (e != cudaSuccess || empty(p ? &p->extent : NULL))
                return e;
        e = rt_copy_3d(p, &box);
        if (e != cudaSuccess)
                return e;
        return rt_error(cuMemcpy3D(&box));
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
        cudaError_t e = rt_enter();
        CUDA_MEMCPY3D box;

        if (e != cudaSuccess || empty(p ? &p->extent : NULL))
                return e;
        e = rt_copy_3d(p, &box);
        if (e != cudaSuccess)
                return e;
        return rt_error(cuMemcpy3DAsync(&box, stream));
}

/* *ret: the driver's description of a copy between devices. This process has one device, so the addresses decide the
 * direction. */
static cudaError_t between(const struct cudaMemcpy3DPeerParms *p, CUDA_MEMCPY3D *ret)
{
        struct cudaMemcpy3DParms same;

        if (!p)
                return rt_fail(cudaErrorInvalidValue);
        if (p->srcDevice < 0 || p->srcDevice >= rt_device_count() || p->dstDevice < 0 ||
                p->dstDevice >= rt_device_count())
                return rt_fail(cudaErrorInvalidDevice);
        same = (struct cudaMemcpy3DParms){
                .srcArray = p->srcArray,
                .srcPos = p->srcPos,
                .srcPtr = p->srcPtr,
                .dstArray = p->dstArray,
                .dstPos = p->dstPos,
                .dstPtr = p->dstPtr,
                .extent = p->extent,
                .kind = cudaMemcpyDefault,
        };
        return rt_copy_3d(&same, ret);
}

cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p)
{
        cudaError_t e = rt_enter();
        CUDA_MEMCPY3D box;

        if (e != cudaSuccess || empty(p ? &p->extent : NULL))
                return e;
        e = between(p, &box);
        if (e != cudaSuccess)
                return e;
        return rt_error(cuMemcpy3D(&box));
}

cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
        cudaError_t e = rt_enter();
        CUDA_MEMCPY3D box;

        if (e != cudaSuccess || empty(p ? &p->extent : NULL))
                return e;
        e = between(p, &box);
        if (e != cudaSuccess)
                return e;
        return rt_error(cuMemcpy3DAsync(&box, stream));
}

_Static_assert(sizeof(struct cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes), "the same members");
_Static_assert(sizeof(struct cudaMemcpy3DBatchOp) == sizeof(CUDA_MEMCPY3D_BATCH_OP), "the same members");

cudaError_t cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,
        struct cudaMemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, cudaStream_t stream)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuMemcpyBatchAsync((CUdeviceptr *)(uintptr_t)dsts, (CUdeviceptr *)(uintptr_t)srcs,
                           (size_t *)(uintptr_t)sizes, count, (CUmemcpyAttributes *)attrs, attrsIdxs, numAttrs,
                           stream));
}

cudaError_t cudaMemcpy3DBatchAsync(
        size_t numOps, struct cudaMemcpy3DBatchOp *opList, unsigned long long flags, cudaStream_t stream)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemcpy3DBatchAsync(numOps, (CUDA_MEMCPY3D_BATCH_OP *)opList, flags, stream));
}
