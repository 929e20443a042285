/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver: launches, copies, memsets
 *
 * Addresses of copies and memsets must be known to the context: device memory, registered host memory, variables of
 * modules. The calling thread copies pageable host memory once the stream reaches the copy, as a real driver does.
 */
#include <string.h>

#include "device/form.h"
#include "tests/support/fake_cuda/fake.h"

/* --- launches --- */

/* Packs the parameters from either form of argument. Returns 0 and *ret; extra must be well formed. */
static CUresult params_find(const struct ds_kernel_info *info, void **params, void **extra, uint8_t *packed,
        const void **ret, uint32_t *ret_size)
{
        *ret = packed;
        *ret_size = info->params_size;
        if (extra) {
                for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
                        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
                                *ret = extra[1];
                        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
                                *ret_size = (uint32_t) * (size_t *)extra[1];
                        else
                                return CUDA_ERROR_INVALID_VALUE;
                }
                return params || *ret_size < info->params_size ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
        }
        if (info->n_params && !params)
                return CUDA_ERROR_INVALID_VALUE;
        for (uint32_t i = 0; i < info->n_params; i++)
                memcpy(packed + info->params[i].offset, params[i], info->params[i].size);
        return CUDA_SUCCESS;
}

/*
 * The sim executes a launch's blocks one after the other, so the first worker of a persistent form (ptx/pass/forms.h)
 * would do all the work and take as long as all. Each worker therefore leaves after its share.
 */
static void workers_share(const struct ds_kernel_info *info, struct ds_launch *l, uint8_t *packed)
{
        const size_t suffix = strlen(DS_PTX_FORM_PERSISTENT_SUFFIX), length = strlen(info->name);
        struct ds_ptx_virtual virtual;
        uint8_t *at;

        if (length < suffix || strcmp(info->name + length - suffix, DS_PTX_FORM_PERSISTENT_SUFFIX) ||
                !ds_device_form_entry(info))
                return;
        if (l->params != packed)
                memcpy(packed, l->params, info->params_size);
        at = packed + info->params[info->n_params - 1].offset;
        memcpy(&virtual, at, sizeof(virtual));
        if (!virtual.most && virtual.chunk)
                virtual.most = DS_DIV_UP(DS_DIV_UP(virtual.n_blocks, virtual.chunk), l->grid[0]);
        memcpy(at, &virtual, sizeof(virtual));
        l->params = packed;
}

CUresult fake_launch(struct CUkern_st *kernel, CUstream stream, struct ds_launch *l, void **params, void **extra)
{
        static uint8_t packed[SIM_PARAMS_MAX];
        const struct ds_kernel_info *info;
        CUresult r;

        if (!kernel || !fake_stream_ok(stream))
                return CUDA_ERROR_INVALID_HANDLE;
        info = fake_sim->kernel_info(kernel->kernel);
        if (l->shared_bytes > (uint32_t)kernel->max_dynamic)
                return CUDA_ERROR_INVALID_VALUE;
        r = params_find(info, params, extra, packed, &l->params, &l->params_size);
        if (r)
                return r;
        workers_share(info, l, packed);
        fake_pump();
        if (fake.lost)
                return fake.lost;
        fake_flush();
        if (!kernel->loaded) {
                r = fake_stop("the first launch of a kernel that was not loaded");
                if (r)
                        return r;
                kernel->loaded = true;
        }
        l->stream = stream->id;
        l->space = FAKE_SPACE;
        l->kernel = kernel->kernel;
        return fake_submitted(stream, fake_sim->launch(fake.device, l, fake_token(stream)), true);
}

FAKE_API cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
        unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params, void **extra)
{
        struct ds_launch l = {.grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared_bytes = shared};

        FAKE_ENTER(cuLaunchKernel, CONTEXT);
        return fake_launch(fake_kernel(f), stream, &l, params, extra);
}

FAKE_API cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
        struct ds_launch l = {
                .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                .shared_bytes = config->sharedMemBytes,
        };
        const CUlaunchAttribute *a;

        FAKE_ENTER(cuLaunchKernelEx, CONTEXT);
        for (unsigned int i = 0; i < config->numAttrs; i++) {
                a = &config->attrs[i];
                if (a->id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
                        continue;
                l.cluster[0] = a->value.clusterDim.x;
                l.cluster[1] = a->value.clusterDim.y;
                l.cluster[2] = a->value.clusterDim.z;
        }
        return fake_launch(fake_kernel(f), config->hStream, &l, params, extra);
}

FAKE_API cuOccupancyMaxActiveClusters(int *n, CUfunction f, const CUlaunchConfig *config)
{
        struct ds_launch l = {.block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                .cluster = {1, 1, 1},
                .shared_bytes = config->sharedMemBytes};
        uint32_t clusters = 0;
        int r;

        FAKE_ENTER(cuOccupancyMaxActiveClusters, CONTEXT);
        l.kernel = fake_kernel(f)->kernel;
        for (unsigned int i = 0; i < config->numAttrs; i++) {
                if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
                        continue;
                l.cluster[0] = config->attrs[i].value.clusterDim.x;
                l.cluster[1] = config->attrs[i].value.clusterDim.y;
                l.cluster[2] = config->attrs[i].value.clusterDim.z;
        }
        r = fake_sim->clusters(fake.device, &l, &clusters);
        *n = (int)clusters;
        return (CUresult)r;
}

FAKE_API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction f, int threads, size_t shared)
{
        const struct sim_model *model;
        struct sim_sm empty;
        struct sim_need need;

        FAKE_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor, CONTEXT);
        if (!fake_kernel(f) || threads <= 0 || threads > 1024)
                return CUDA_ERROR_INVALID_VALUE;
        model = fake.device->model;
        empty = (struct sim_sm){.threads = model->sm_threads,
                .blocks = model->sm_blocks,
                .registers = model->sm_registers,
                .shared = model->sm_shared};
        sim_need_of(model, fake_kernel(f)->kernel, (uint32_t[]){(uint32_t)threads, 1, 1}, (uint32_t)shared, &need);
        *n = (int)sim_sm_room(&empty, &need, UINT32_MAX);
        return CUDA_SUCCESS;
}

/* --- copies --- */

static bool rows_known(uint64_t va, uint64_t pitch, uint64_t width, uint64_t height)
{
        return fake_covers(va, (height - 1) * pitch + width);
}

static void rows_copy(const struct ds_copy *c)
{
        for (uint64_t y = 0; y < c->height; y++)
                memmove((void *)(uintptr_t)(c->dst + y * c->dst_pitch), (void *)(uintptr_t)(c->src + y * c->src_pitch),
                        c->width);
}

/* dst_host, src_host: that end may be unregistered host memory */
CUresult fake_copy(CUstream stream, struct ds_copy *c, bool dst_host, bool src_host)
{
        static const enum ds_copy_kind kinds[2][2] = {{DS_COPY_HTOH, DS_COPY_HTOD}, {DS_COPY_DTOH, DS_COPY_DTOD}};
        bool dst_known, src_known;
        CUresult r;

        if (!fake_stream_ok(stream))
                return CUDA_ERROR_INVALID_HANDLE;
        fake_pump();
        if (fake.lost)
                return fake.lost;
        if (!c->width || !c->height)
                return CUDA_SUCCESS;
        dst_known = rows_known(c->dst, c->dst_pitch, c->width, c->height);
        src_known = rows_known(c->src, c->src_pitch, c->width, c->height);
        if ((!dst_known && !dst_host) || (!src_known && !src_host))
                return CUDA_ERROR_INVALID_VALUE;
        if (!dst_known || !src_known) {
                r = fake_wait(stream);
                if (!r)
                        rows_copy(c);
                return r;
        }
        c->stream = stream->id;
        c->space = FAKE_SPACE;
        c->kind = kinds[fake_is_device(c->src)][fake_is_device(c->dst)];
        return fake_submitted(stream, fake_sim->copy(fake.device, c, fake_token(stream)), true);
}

static CUresult copy_1d(CUstream stream, uint64_t dst, uint64_t src, size_t size, bool dst_host, bool src_host)
{
        struct ds_copy c = {.dst = dst, .src = src, .width = size, .height = 1};

        return fake_copy(stream, &c, dst_host, src_host);
}

FAKE_API cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream)
{
        FAKE_ENTER(cuMemcpyAsync, CONTEXT);
        return copy_1d(stream, dst, src, size, true, true);
}

FAKE_API cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t size, CUstream stream)
{
        FAKE_ENTER(cuMemcpyHtoDAsync, CONTEXT);
        return copy_1d(stream, dst, (uintptr_t)src, size, false, true);
}

FAKE_API cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t size, CUstream stream)
{
        FAKE_ENTER(cuMemcpyDtoHAsync, CONTEXT);
        return copy_1d(stream, (uintptr_t)dst, src, size, true, false);
}

FAKE_API cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream)
{
        FAKE_ENTER(cuMemcpyDtoDAsync, CONTEXT);
        return copy_1d(stream, dst, src, size, false, false);
}

static bool end_2d(CUmemorytype type, const void *host, CUdeviceptr device, uint64_t *ret)
{
        *ret = type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device;
        return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED;
}

FAKE_API cuMemcpy2DAsync(const CUDA_MEMCPY2D *m, CUstream stream)
{
        struct ds_copy c = {.width = m->WidthInBytes, .height = m->Height};
        uint64_t dst, src;

        FAKE_ENTER(cuMemcpy2DAsync, CONTEXT);
        if (!end_2d(m->dstMemoryType, m->dstHost, m->dstDevice, &dst) ||
                !end_2d(m->srcMemoryType, m->srcHost, m->srcDevice, &src))
                return CUDA_ERROR_NOT_SUPPORTED;
        c.dst_pitch = m->dstPitch ? m->dstPitch : m->WidthInBytes;
        c.src_pitch = m->srcPitch ? m->srcPitch : m->WidthInBytes;
        if (m->WidthInBytes > c.dst_pitch || m->WidthInBytes > c.src_pitch)
                return CUDA_ERROR_INVALID_VALUE;
        c.dst = dst + m->dstY * c.dst_pitch + m->dstXInBytes;
        c.src = src + m->srcY * c.src_pitch + m->srcXInBytes;
        return fake_copy(
                stream, &c, m->dstMemoryType != CU_MEMORYTYPE_DEVICE, m->srcMemoryType != CU_MEMORYTYPE_DEVICE);
}

/* --- memsets --- */

CUresult fake_fill(CUstream stream, uint64_t dst, uint64_t pitch, uint64_t value, uint32_t element, uint64_t width,
        uint64_t height)
{
        struct ds_memset m = {
                .space = FAKE_SPACE,
                .dst = dst,
                .value = value,
                .element_size = element,
                .width = width,
                .height = height,
                .pitch = pitch,
        };

        if (!fake_stream_ok(stream))
                return CUDA_ERROR_INVALID_HANDLE;
        fake_pump();
        if (fake.lost)
                return fake.lost;
        if (!width || !height)
                return CUDA_SUCCESS;
        m.stream = stream->id;
        return fake_submitted(stream, fake_sim->memset(fake.device, &m, fake_token(stream)), false);
}

FAKE_API cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream)
{
        FAKE_ENTER(cuMemsetD8Async, CONTEXT);
        return fake_fill(stream, dst, 0, value, 1, n, 1);
}

FAKE_API cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream)
{
        FAKE_ENTER(cuMemsetD16Async, CONTEXT);
        return fake_fill(stream, dst, 0, value, 2, n, 1);
}

FAKE_API cuMemsetD32Async(CUdeviceptr dst, unsigned int value, size_t n, CUstream stream)
{
        FAKE_ENTER(cuMemsetD32Async, CONTEXT);
        return fake_fill(stream, dst, 0, value, 4, n, 1);
}

FAKE_API cuMemsetD2D8Async(
        CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream)
{
        FAKE_ENTER(cuMemsetD2D8Async, CONTEXT);
        return fake_fill(stream, dst, pitch, value, 1, width, height);
}

FAKE_API cuMemsetD2D16Async(
        CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream)
{
        FAKE_ENTER(cuMemsetD2D16Async, CONTEXT);
        return fake_fill(stream, dst, pitch, value, 2, width, height);
}

FAKE_API cuMemsetD2D32Async(
        CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t height, CUstream stream)
{
        FAKE_ENTER(cuMemsetD2D32Async, CONTEXT);
        return fake_fill(stream, dst, pitch, value, 4, width, height);
}
