/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies from host to host that do not block
 *
 * The driver executes a copy between two pieces of host memory when the stream has come to it, and blocks the calling
 * thread until then, registered or not (measured: the call returned 6.7 ms later behind 5 ms of work). So such a copy
 * becomes two: into a buffer on the device, and out of it, in pieces. Every stream has a buffer of its own, made at its
 * first such copy, by calls that stop nothing. With one buffer for all, a copy behind a client's long kernel would
 * delay all copies until that kernel ends. Rows longer than the buffer go one by one. A copy takes two entries of the
 * stream's hardware queue per 16 MiB.
 */
#include "device/cuda/staging.h"

#include "util/error.h"

#define STAGING_SIZE DS_MIB(16)
#define STAGING_LONG 256 /* hardware queue entries above which a copy waits until its stream is empty */

struct cuda_staging {
        CUmemGenericAllocationHandle handle;
        CUdeviceptr at;
        int mapped;
};

static CUresult staging_map(ds_device *device, struct cuda_staging *staging)
{
        CUmemAllocationProp prop = {
                .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal},
        };
        CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        CUresult result;

        result = CU(device, cuMemCreate)(&staging->handle, STAGING_SIZE, &prop, 0);
        if (!result)
                result = CU(device, cuMemAddressReserve)(&staging->at, STAGING_SIZE, 0, 0, 0);
        if (!result)
                result = CU(device, cuMemMap)(staging->at, STAGING_SIZE, 0, staging->handle, 0);
        if (result)
                return result;
        staging->mapped = 1;
        return CU(device, cuMemSetAccess)(staging->at, STAGING_SIZE, &access, 1);
}

static struct cuda_staging *staging_free(ds_device *device, struct cuda_staging *staging)
{
        if (!staging)
                return NULL;
        if (!device->lost) {
                if (staging->mapped)
                        CU(device, cuMemUnmap)(staging->at, STAGING_SIZE);
                if (staging->at)
                        CU(device, cuMemAddressFree)(staging->at, STAGING_SIZE);
                if (staging->handle)
                        CU(device, cuMemRelease)(staging->handle);
        }
        return ds_free(staging);
}

void cuda_staging_free(ds_device *device)
{
        for (uint32_t i = 0; i < device->n_rungs; i++)
                for (size_t k = 0; k < CUDA_STREAMS_PER_RUNG; k++) {
                        struct cuda_stream *stream = &device->rungs[i]->streams[k];

                        stream->staging = staging_free(device, stream->staging);
                }
}

static CUresult staging_make(ds_device *device, struct cuda_stream *stream)
{
        CUresult result;

        stream->staging = ds_alloc0(1, sizeof(*stream->staging));
        if (!stream->staging)
                return CUDA_ERROR_OUT_OF_MEMORY;
        result = staging_map(device, stream->staging);
        if (result)
                stream->staging = staging_free(device, stream->staging);
        return result;
}

/* Copies a piece that fits the buffer: host to buffer, then buffer to host. */
static CUresult staging_piece(
        ds_device *device, struct cuda_stream *stream, const struct ds_copy *piece, uint32_t *entries)
{
        struct ds_copy in = *piece, out = *piece;
        CUresult result;

        in.kind = DS_COPY_HTOD;
        in.dst = out.src = stream->staging->at;
        in.dst_pitch = out.src_pitch = piece->width;
        out.kind = DS_COPY_DTOH;
        *entries += 2;
        result = cuda_copy_call(device, stream->stream, &in);
        return result ? result : cuda_copy_call(device, stream->stream, &out);
}

/* Copies one contiguous range of any length. */
static CUresult staging_line(
        ds_device *device, struct cuda_stream *stream, uint64_t dst, uint64_t src, uint64_t size, uint32_t *entries)
{
        CUresult result = CUDA_SUCCESS;
        uint64_t part;

        for (; size && !result; dst += part, src += part, size -= part) {
                struct ds_copy piece = {.dst = dst, .src = src, .height = 1};

                part = piece.width = DS_MIN(size, STAGING_SIZE);
                result = staging_piece(device, stream, &piece, entries);
        }
        return result;
}

static CUresult staging_rows(
        ds_device *device, struct cuda_stream *stream, const struct ds_copy *copy, uint32_t *entries)
{
        uint64_t step = DS_MAX(STAGING_SIZE / copy->width, (uint64_t)1);
        CUresult result = CUDA_SUCCESS;

        for (uint64_t row = 0; row < copy->height && !result; row += step) {
                struct ds_copy piece = *copy;

                piece.dst += row * copy->dst_pitch;
                piece.src += row * copy->src_pitch;
                piece.height = DS_MIN(step, copy->height - row);
                if (copy->width > STAGING_SIZE)
                        result = staging_line(device, stream, piece.dst, piece.src, copy->width, entries);
                else
                        result = staging_piece(device, stream, &piece, entries);
        }
        return result;
}

int cuda_staging_is_long(const struct ds_copy *copy)
{
        uint64_t pieces;

        if (copy->kind != DS_COPY_HTOH || !copy->width || !copy->height)
                return 0;
        if (copy->height == 1 || (copy->dst_pitch == copy->width && copy->src_pitch == copy->width))
                pieces = copy->width * copy->height / STAGING_SIZE;
        else if (copy->width > STAGING_SIZE)
                pieces = DS_DIV_UP(copy->width, STAGING_SIZE) * copy->height;
        else
                pieces = copy->height / (STAGING_SIZE / copy->width);
        return pieces > STAGING_LONG / 2;
}

CUresult cuda_staging_copy(
        ds_device *device, struct cuda_stream *stream, const struct ds_copy *copy, uint32_t *ret_entries)
{
        CUresult result = CUDA_SUCCESS;
        uint32_t entries = 1;

        if (!stream->staging)
                result = staging_make(device, stream);
        if (result)
                return result;
        if (copy->height == 1 || (copy->dst_pitch == copy->width && copy->src_pitch == copy->width))
                result = staging_line(device, stream, copy->dst, copy->src, copy->width * copy->height, &entries);
        else
                result = staging_rows(device, stream, copy, &entries);
        *ret_entries = entries;
        return result;
}
