/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of copies
 *
 * The copies of a batch are submitted to their stream one after another; CUDA allows any order. As many errors as can
 * be found without copying are found before the first copy is submitted.
 */
#include "cuda/copy.h"
#include "cuda/stream.h"

static int is_legacy(CUstream stream)
{
        return stream == CU_STREAM_LEGACY || (!stream && !dcu_self.per_thread);
}

static int order_valid(CUmemcpySrcAccessOrder order)
{
        return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

static int flags_valid(unsigned int flags)
{
        return !(flags & ~(unsigned int)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
}

/* during_call: the program may overwrite the sources as soon as the call returns. Pinned sources are read later than
 * that, by the stream, so the call waits for the stream. */
static CUresult finish(CUstream stream, int during_call)
{
        return during_call ? cuStreamSynchronize(stream) : CUDA_SUCCESS;
}

struct batch {
        CUdeviceptr *dsts, *srcs;
        size_t *sizes, count;
        CUmemcpyAttributes *attributes;
        size_t *indices, n_attributes;
};

static CUresult check_batch(const struct batch *b, int *ret_during_call)
{
        if (!b->dsts || !b->srcs || !b->sizes || !b->count || !b->attributes || !b->indices || !b->n_attributes ||
                b->n_attributes > b->count || b->indices[0] != 0)
                return CUDA_ERROR_INVALID_VALUE;
        *ret_during_call = 0;
        for (size_t i = 0; i < b->n_attributes; i++) {
                const CUmemcpyAttributes *a = &b->attributes[i];

                if ((i && b->indices[i] <= b->indices[i - 1]) || b->indices[i] >= b->count ||
                        !order_valid(a->srcAccessOrder) || !flags_valid(a->flags))
                        return CUDA_ERROR_INVALID_VALUE;
                *ret_during_call |= a->srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
        }
        return CUDA_SUCCESS;
}

static CUresult copy_batch(const struct batch *b, size_t *ret_failed, CUstream stream)
{
        struct dcu_context *context;
        int during_call;
        CUresult r = dcu_enter_any(&context);

        if (ret_failed)
                *ret_failed = SIZE_MAX; /* SIZE_MAX: the error concerns no particular copy */
        if (r == CUDA_SUCCESS)
                r = is_legacy(stream) ? CUDA_ERROR_INVALID_VALUE : check_batch(b, &during_call);
        for (size_t i = 0; r == CUDA_SUCCESS && i < b->count; i++) {
                const size_t bytes = b->sizes[i];
                const struct dcu_box box = {
                        .dst = {b->dsts[i], bytes, bytes, DCU_SIDE_ANY},
                        .src = {b->srcs[i], bytes, bytes, DCU_SIDE_ANY},
                        .width = bytes,
                        .height = 1,
                        .depth = 1,
                };

                r = bytes ? dcu_copy_box(context, stream, 0, &box) : CUDA_ERROR_INVALID_VALUE;
                if (r != CUDA_SUCCESS && ret_failed)
                        *ret_failed = i;
        }
        return r == CUDA_SUCCESS ? finish(stream, during_call) : r;
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
        CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx, CUstream hStream)
{
        return copy_batch(&(struct batch){dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs}, failIdx, hStream);
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
        CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, CUstream hStream)
{
        return copy_batch(&(struct batch){dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs}, NULL, hStream);
}

/* --- three-dimensional copies ------------------------------------------------------------------------------------- */

/* Converts an operand of a three-dimensional copy to a side. The extent of a copy between pointers is in bytes. */
static CUresult side_of(const CUmemcpy3DOperand *operand, const CUextent3D *extent, struct dcu_side *ret)
{
        size_t pitch, rows, slice;

        if (operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
                return CUDA_ERROR_NOT_SUPPORTED;
        if (operand->type != CU_MEMCPY_OPERAND_TYPE_POINTER || !operand->op.ptr.ptr)
                return CUDA_ERROR_INVALID_VALUE;
        pitch = operand->op.ptr.rowLength ? operand->op.ptr.rowLength : extent->width;
        rows = operand->op.ptr.layerHeight ? operand->op.ptr.layerHeight : extent->height;
        if (pitch < extent->width || rows < extent->height || __builtin_mul_overflow(pitch, rows, &slice))
                return CUDA_ERROR_INVALID_VALUE;
        *ret = (struct dcu_side){operand->op.ptr.ptr, pitch, slice, DCU_SIDE_ANY};
        return CUDA_SUCCESS;
}

static CUresult box_of(const CUDA_MEMCPY3D_BATCH_OP *op, struct dcu_box *ret)
{
        CUresult r;

        if (!op->extent.width || !op->extent.height || !op->extent.depth || !order_valid(op->srcAccessOrder) ||
                !flags_valid(op->flags))
                return CUDA_ERROR_INVALID_VALUE;
        *ret = (struct dcu_box){.width = op->extent.width, .height = op->extent.height, .depth = op->extent.depth};
        r = side_of(&op->dst, &op->extent, &ret->dst);
        return r == CUDA_SUCCESS ? side_of(&op->src, &op->extent, &ret->src) : r;
}

static CUresult copy_boxes(
        size_t n, const CUDA_MEMCPY3D_BATCH_OP *ops, size_t *ret_failed, unsigned long long flags, CUstream stream)
{
        struct dcu_context *context;
        struct dcu_box box;
        int during_call = 0;
        CUresult r = dcu_enter_any(&context);

        if (ret_failed)
                *ret_failed = SIZE_MAX;
        if (r == CUDA_SUCCESS && (!n || !ops || flags || is_legacy(stream)))
                r = CUDA_ERROR_INVALID_VALUE;
        for (int submit = 0; submit < 2; submit++) {
                for (size_t i = 0; r == CUDA_SUCCESS && i < n; i++) {
                        r = box_of(&ops[i], &box);
                        if (r == CUDA_SUCCESS && submit)
                                r = dcu_copy_box(context, stream, 0, &box);
                        during_call |= ops[i].srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
                        if (r != CUDA_SUCCESS && ret_failed)
                                *ret_failed = i;
                }
        }
        return r == CUDA_SUCCESS ? finish(stream, during_call) : r;
}

CUresult cuMemcpy3DBatchAsync(
        size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx, unsigned long long flags, CUstream hStream)
{
        return copy_boxes(numOps, opList, failIdx, flags, hStream);
}

CUresult cuMemcpy3DBatchAsync_v2(
        size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags, CUstream hStream)
{
        return copy_boxes(numOps, opList, NULL, flags, hStream);
}
