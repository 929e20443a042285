/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memsets
 */
#include "cuda/capture.h"
#include "cuda/context.h"
#include "cuda/range.h"
#include "cuda/stream.h"

struct fill {
        CUdeviceptr dst;
        size_t pitch; /* bytes from one row to the next; 0: there is one row */
        uint32_t value, element;
        size_t width, height; /* elements per row, number of rows */
};

/* Bytes from the first to the last byte of the memset. 0: rows overlap, are not aligned, or exceed the address
 * space. */
static uint64_t extent(const struct fill *fill, uint64_t row)
{
        uint64_t bytes;

        if (fill->dst % fill->element != 0 ||
                (fill->height > 1 && (fill->pitch % fill->element != 0 || row > fill->pitch)))
                return 0;
        if (__builtin_mul_overflow(fill->height - 1, fill->pitch, &bytes) || __builtin_add_overflow(bytes, row, &bytes))
                return 0;
        return bytes;
}

CUresult dcu_memset_check(uint64_t dst, uint64_t pitch, uint32_t element, uint64_t width, uint64_t height)
{
        const struct fill fill = {dst, pitch, 0, element, width, height};
        enum dcu_place place;
        uint64_t row, bytes;

        if (__builtin_mul_overflow(width, element, &row))
                return CUDA_ERROR_INVALID_VALUE;
        bytes = extent(&fill, row);
        place = bytes ? dcu_place_of(dst, bytes) : DCU_PLACE_BAD;
        return place == DCU_PLACE_DEVICE || place == DCU_PLACE_PINNED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult capture(const struct fill *fill, uint32_t slot, struct dcu_context *owner)
{
        const CUDA_MEMSET_NODE_PARAMS_v2 params = {
                .dst = fill->dst,
                .pitch = fill->pitch,
                .value = fill->value,
                .elementSize = fill->element,
                .width = fill->width,
                .height = fill->height,
                .ctx = dcu_handle(owner),
        };

        return dcu_capture_memset(slot, &params);
}

static CUresult submit(const struct fill *fill, uint64_t row, uint32_t slot, int sync, enum dcu_place place)
{
        const struct dsc_memset message = {
                .dst = fill->dst,
                .value = fill->value,
                .element_size = fill->element,
                .width = fill->width,
                .height = fill->height,
                .pitch = fill->height > 1 ? fill->pitch : row,
        };
        struct dcu_ahead ahead = {0};
        CUresult r;

        if (sync)
                dcu_ahead_begin(slot, &ahead);
        r = dcu_result(dsc_memset(dcu.session, slot, &message));
        if (r != CUDA_SUCCESS || !sync)
                return r;
        /* the program may read pinned memory as soon as the call returns */
        if (place == DCU_PLACE_DEVICE && (dcu_ahead_end(slot, &ahead) || slot == 0))
                return CUDA_SUCCESS;
        return dcu_result(dsc_wait(dcu.session, slot, dsc_stream_tail(dcu.session, slot)));
}

static CUresult fill_memory(const struct fill *fill, CUstream stream, int sync)
{
        struct dcu_context *context, *owner;
        enum dcu_place place;
        uint64_t row, bytes;
        uint32_t slot;
        int capturing = 0;
        CUresult r = dcu_enter_any(&context);

        if (r == CUDA_SUCCESS)
                r = sync ? dcu_stream_slot(stream, context, &slot, &owner)
                         : dcu_stream_work(stream, context, &slot, &owner, &capturing);
        if (r != CUDA_SUCCESS || fill->width == 0 || fill->height == 0)
                return r;
        if (__builtin_expect(capturing, 0))
                return capture(fill, slot, owner);
        if (__builtin_mul_overflow(fill->width, fill->element, &row))
                return CUDA_ERROR_INVALID_VALUE;
        bytes = extent(fill, row);
        place = bytes ? dcu_place_of(fill->dst, bytes) : DCU_PLACE_BAD;
        if (place != DCU_PLACE_DEVICE && place != DCU_PLACE_PINNED)
                return CUDA_ERROR_INVALID_VALUE;
        return submit(fill, row, slot, sync, place);
}

CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
        return fill_memory(&(struct fill){dstDevice, 0, uc, 1, N, 1}, NULL, 1);
}

CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
        return fill_memory(&(struct fill){dstDevice, 0, us, 2, N, 1}, NULL, 1);
}

CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
        return fill_memory(&(struct fill){dstDevice, 0, ui, 4, N, 1}, NULL, 1);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height)
{
        return fill_memory(&(struct fill){dstDevice, dstPitch, uc, 1, Width, Height}, NULL, 1);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height)
{
        return fill_memory(&(struct fill){dstDevice, dstPitch, us, 2, Width, Height}, NULL, 1);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height)
{
        return fill_memory(&(struct fill){dstDevice, dstPitch, ui, 4, Width, Height}, NULL, 1);
}

CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
        return fill_memory(&(struct fill){dstDevice, 0, uc, 1, N, 1}, hStream, 0);
}

CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)
{
        return fill_memory(&(struct fill){dstDevice, 0, us, 2, N, 1}, hStream, 0);
}

CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
        return fill_memory(&(struct fill){dstDevice, 0, ui, 4, N, 1}, hStream, 0);
}

CUresult cuMemsetD2D8Async(
        CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, CUstream hStream)
{
        return fill_memory(&(struct fill){dstDevice, dstPitch, uc, 1, Width, Height}, hStream, 0);
}

CUresult cuMemsetD2D16Async(
        CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height, CUstream hStream)
{
        return fill_memory(&(struct fill){dstDevice, dstPitch, us, 2, Width, Height}, hStream, 0);
}

CUresult cuMemsetD2D32Async(
        CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height, CUstream hStream)
{
        return fill_memory(&(struct fill){dstDevice, dstPitch, ui, 4, Width, Height}, hStream, 0);
}
