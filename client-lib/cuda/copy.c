/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The implementation of all copies
 */
#include <string.h>

#include "cuda/capture.h"
#include "cuda/copy.h"
#include "cuda/stream.h"

/* *ret: number of bytes from the first to the last byte of one side of the box. 0: the side exceeds the address
 * space. */
static int extent(const struct dcu_side *side, const struct dcu_box *box, uint64_t *ret)
{
        uint64_t rows, slices, sum;

        if (__builtin_mul_overflow(box->height - 1, side->pitch, &rows) ||
                __builtin_mul_overflow(box->depth - 1, side->slice, &slices) ||
                __builtin_add_overflow(rows, slices, &sum) || __builtin_add_overflow(sum, box->width, &sum))
                return 0;
        *ret = sum;
        return 1;
}

static enum dcu_place place(const struct dcu_side *side, const struct dcu_box *box)
{
        enum dcu_place found;
        uint64_t bytes;

        if (!extent(side, box, &bytes))
                return DCU_PLACE_BAD;
        found = dcu_place_of(side->address, bytes);
        return found == DCU_PLACE_HOST && side->rule == DCU_SIDE_DEVICE ? DCU_PLACE_BAD : found;
}

CUresult dcu_copy_places(const struct dcu_box *box, enum dcu_place *ret_dst, enum dcu_place *ret_src)
{
        *ret_dst = place(&box->dst, box);
        *ret_src = place(&box->src, box);
        return *ret_dst == DCU_PLACE_BAD || *ret_src == DCU_PLACE_BAD ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

struct plan {
        uint32_t slot;
        enum dcu_place dst, src;
        struct dcu_ahead ahead;
};

static _Atomic uint64_t last_early; /* last operation of slot 0 that is a copy from the host and was not waited for */
static _Atomic int memory_shared;   /* 1: this process has exported or imported memory */

enum dsc_copy_kind dcu_copy_kind(enum dcu_place dst, enum dcu_place src)
{
        if (src == DCU_PLACE_DEVICE)
                return dst == DCU_PLACE_DEVICE ? DSC_DTOD : DSC_DTOH;
        return dst == DCU_PLACE_DEVICE ? DSC_HTOD : DSC_HTOH;
}

static void copy_on_host(const struct dcu_box *box, uint64_t dst, uint64_t src)
{
        for (uint64_t row = 0; row < box->height; row++)
                memmove((void *)(uintptr_t)(dst + row * box->dst.pitch),
                        (const void *)(uintptr_t)(src + row * box->src.pitch), box->width);
}

/* Copies one slice of the box, row by row. */
static CUresult copy_rows(const struct plan *plan, const struct dcu_box *box, uint64_t dst, uint64_t src)
{
        const struct dsc_copy copy = {
                dcu_copy_kind(plan->dst, plan->src), dst, src, box->width, box->height, box->dst.pitch, box->src.pitch};

        if (plan->dst != DCU_PLACE_HOST && plan->src != DCU_PLACE_HOST)
                return dcu_result(dsc_copy(dcu.session, plan->slot, &copy));
        if (plan->dst == DCU_PLACE_DEVICE)
                return dcu_result(dsc_write(dcu.session, plan->slot, dst, box->dst.pitch, (const void *)(uintptr_t)src,
                        box->src.pitch, box->width, box->height));
        if (plan->src == DCU_PLACE_DEVICE)
                return dcu_result(dsc_read(dcu.session, plan->slot, (void *)(uintptr_t)dst, box->dst.pitch, src,
                        box->src.pitch, box->width, box->height));
        copy_on_host(box, dst, src);
        return CUDA_SUCCESS;
}

/* If slices are contiguous on both sides: makes them rows of one slice. */
static void join_slices(struct dcu_box *box)
{
        if (box->depth > 1 && box->dst.slice == box->dst.pitch * box->height &&
                box->src.slice == box->src.pitch * box->height) {
                box->height *= box->depth;
                box->depth = 1;
        }
}

/* If rows are contiguous on both sides: makes them one row. */
static void join_rows(struct dcu_box *box)
{
        if (box->height > 1 && box->dst.pitch == box->width && box->src.pitch == box->width) {
                box->width *= box->height;
                box->height = 1;
                box->dst.pitch = box->src.pitch = box->width;
        }
}

void dcu_copy_join(struct dcu_box *box)
{
        join_slices(box);
        join_rows(box);
}

/*
 * 1: the copy may return when the library has read its source. As NVIDIA's driver, a copy from pageable memory to the
 * device first waits for earlier work of the streams that it joins with, so it returns early only if no such work is
 * left. Nor does it if other processes share memory of this one, because their streams do not wait for this copy.
 */
static int early(const struct plan *plan)
{
        uint64_t before = atomic_load(&last_early), seq = dsc_stream_tail(dcu.session, 0);

        if (plan->dst != DCU_PLACE_DEVICE || plan->src == DCU_PLACE_PINNED || plan->slot != 0)
                return 0;
        if (plan->src == DCU_PLACE_DEVICE) {
                (void)dcu_ahead_end(0, &plan->ahead); /* a copy on the device returns in any case */
                return 1;
        }
        if (!plan->ahead.idle || !dsc_may_run_ahead(dcu.session))
                return 0;
        while (before < seq && !atomic_compare_exchange_weak(&last_early, &before, seq))
                ;
        /* read after the store: of a concurrent dcu_memory_share(), either that call or this one waits */
        return !atomic_load(&memory_shared) && dcu_ahead_end(0, &plan->ahead);
}

static CUresult finish(const struct plan *plan)
{
        if (early(plan))
                return CUDA_SUCCESS;
        return dcu_result(dsc_wait(dcu.session, plan->slot, dsc_stream_tail(dcu.session, plan->slot)));
}

CUresult dcu_memory_share(void)
{
        uint64_t seq, tail;

        atomic_store(&memory_shared, 1);
        seq = atomic_load(&last_early);
        /* a larger number is from before a reset or of an earlier session, and may hide later copies */
        tail = dsc_stream_tail(dcu.session, 0);
        if (seq > tail)
                seq = tail;
        return seq ? dcu_result(dsc_wait(dcu.session, 0, seq)) : CUDA_SUCCESS;
}

CUresult dcu_copy_box(struct dcu_context *context, CUstream stream, int sync, const struct dcu_box *given)
{
        struct dcu_box box = *given;
        struct dcu_context *owner;
        struct plan plan;
        int capturing = 0;
        CUresult r = sync ? dcu_stream_slot(stream, context, &plan.slot, &owner)
                          : dcu_stream_work(stream, context, &plan.slot, &owner, &capturing);

        if (r != CUDA_SUCCESS || box.width == 0 || box.height == 0 || box.depth == 0)
                return r;
        r = dcu_copy_places(&box, &plan.dst, &plan.src);
        if (r != CUDA_SUCCESS)
                return r;
        if (__builtin_expect(capturing, 0))
                return dcu_capture_copy(
                        plan.slot, owner, &box, plan.dst != DCU_PLACE_DEVICE, plan.src != DCU_PLACE_DEVICE);
        dcu_copy_join(&box);
        if (plan.dst != DCU_PLACE_DEVICE && plan.src != DCU_PLACE_DEVICE &&
                (plan.dst == DCU_PLACE_HOST || plan.src == DCU_PLACE_HOST))
                /* the calling thread copies with memcpy, so all earlier work of the stream must have ended */
                r = dcu_stream_drain(plan.slot);
        if (sync)
                dcu_ahead_begin(plan.slot, &plan.ahead);
        for (uint64_t z = 0; z < box.depth && r == CUDA_SUCCESS; z++)
                r = copy_rows(&plan, &box, box.dst.address + z * box.dst.slice, box.src.address + z * box.src.slice);
        return r == CUDA_SUCCESS && sync ? finish(&plan) : r;
}
