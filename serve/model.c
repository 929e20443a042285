/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/model.h"

#include <stdio.h>
#include <string.h>

#include "serve/coloured.h"
#include "util/alloc.h"
#include "util/macro.h"

#define STATIC_SHARED_MAX (48u << 10) /* bytes; more needs an attribute of the kernel */
#define LOG_MAX 4096u
#define ARCH_ALONE 90u /* from this compute capability on PTX may run on that architecture only */
#define UNWRITTEN 0xff /* byte of NaN in f16 and f32 */

/* --- the manifest against the device and the kernels ------------------------------------------------------------- */

static int check_arch(const struct sv_driver *driver, const struct sv_pack *pack, struct sv_why *why)
{
        int major = 0, minor = 0;
        uint32_t has;

        if (SV_CU(driver, why, cuDeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                    driver->device) ||
                SV_CU(driver, why, cuDeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                        driver->device))
                return -1;
        has = (uint32_t)(10 * major + minor);
        if (has < pack->arch || (pack->arch >= ARCH_ALONE && has != pack->arch))
                return sv_fail(why, "%s/%s, arch: the pack is for sm_%u%s, and %s is sm_%u", pack->path, SV_MANIFEST,
                        pack->arch, pack->arch >= ARCH_ALONE ? " alone" : " and later", driver->gpu, has);
        return 0;
}

static int wrong_kernel(const struct sv_pack *pack, uint32_t i, const char *what, struct sv_why *why)
{
        return sv_fail(why, "%s/%s, kernel %u, %s: %s", pack->path, SV_MANIFEST, i, pack->kernels[i].name, what);
}

/* Size of each parameter that a kernel declares, in bytes. */
static int param_sizes(const struct sv_driver *driver, const struct sv_pack *pack, uint32_t i, CUfunction function,
        uint32_t sizes[static SV_PARAMS_MAX], struct sv_why *why)
{
        const uint32_t n = pack->kernels[i].n_params;

        for (uint32_t k = 0; k <= n; k++) {
                size_t offset, size = 0;
                CUresult r = driver->cuFuncGetParamInfo_fn(function, k, &offset, &size);

                if (r != CUDA_SUCCESS && r != CUDA_ERROR_INVALID_VALUE)
                        return sv_driver_fail(driver, "cuFuncGetParamInfo", r, why);
                if ((r == CUDA_SUCCESS) != (k < n))
                        return wrong_kernel(pack, i, "the module's has another number of parameters", why);
                if (k < n)
                        sizes[k] = (uint32_t)DS_MIN(size, UINT32_MAX);
        }
        return 0;
}

static int check_launches(
        const struct sv_pack *pack, uint32_t kernel, const uint32_t sizes[static SV_PARAMS_MAX], struct sv_why *why)
{
        for (uint32_t i = 0; i < pack->n_launches; i++) {
                const struct sv_launch *launch = &pack->launches[i];

                if (launch->kernel != kernel)
                        continue;
                for (uint32_t k = 0; k < pack->kernels[kernel].n_params; k++) {
                        const uint32_t size = pack->params[launch->first_param + k].kind == SV_PARAM_4 ? 4 : 8;

                        if (sizes[k] != size)
                                return sv_fail(why,
                                        "%s/%s, launch %u, parameter %u: it has %u bytes, and %s of the module takes "
                                        "%u",
                                        pack->path, SV_MANIFEST, i, k, size, pack->kernels[kernel].name, sizes[k]);
                }
        }
        return 0;
}

static int prepare_kernel(struct sv_model *model, uint32_t i, struct sv_why *why)
{
        const struct sv_driver *driver = model->driver;
        const struct sv_kernel *kernel = &model->pack->kernels[i];
        uint32_t sizes[SV_PARAMS_MAX];
        int threads = 0;
        CUresult r = driver->cuModuleGetFunction_fn(&model->kernels[i], model->module, kernel->name);

        if (r == CUDA_ERROR_NOT_FOUND)
                return wrong_kernel(model->pack, i, "the module has no such entry", why);
        if (r != CUDA_SUCCESS)
                return sv_driver_fail(driver, "cuModuleGetFunction", r, why);
        if (SV_CU(driver, why, cuFuncGetAttribute, &threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                    model->kernels[i]))
                return -1;
        if (kernel->threads > (uint32_t)threads)
                return wrong_kernel(model->pack, i, "the module's takes fewer threads than that", why);
        if (kernel->shared > STATIC_SHARED_MAX &&
                SV_CU(driver, why, cuFuncSetAttribute, model->kernels[i],
                        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)kernel->shared))
                return -1;
        return param_sizes(driver, model->pack, i, model->kernels[i], sizes, why) ||
                               check_launches(model->pack, i, sizes, why)
                       ? -1
                       : 0;
}

/* --- the model ---------------------------------------------------------------------------------------------------- */

/* Fails with the first line of the compiler's log, which is its first error. */
static int module_fail(const struct sv_model *model, CUresult r, char *log, struct sv_why *why)
{
        struct sv_why reason = {""};

        log[strcspn(log, "\n")] = 0;
        (void)sv_driver_fail(model->driver, "cuModuleLoadDataEx", r, &reason);
        return sv_fail(why, "%s/%s: %s%s%.200s", model->pack->path, model->pack->files[model->pack->module].name,
                reason.text, log[0] ? ": " : "", log);
}

static int load_module(struct sv_model *model, struct sv_why *why)
{
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
        char log[LOG_MAX] = "";
        void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
        ds_cleanup(ds_freep) uint8_t *text = NULL;
        CUresult r;

        if (sv_pack_load(model->pack, model->pack->module, &text, why))
                return -1;
        if (strlen((const char *)text) != model->pack->files[model->pack->module].bytes)
                return sv_fail(
                        why, "%s/%s is no text", model->pack->path, model->pack->files[model->pack->module].name);
        r = model->driver->cuModuleLoadDataEx_fn(&model->module, text, DS_ARRAY_SIZE(options), options, values);
        log[sizeof(log) - 1] = 0;
        return r == CUDA_SUCCESS ? 0 : module_fail(model, r, log, why);
}

struct upload {
        const struct sv_model *model;
        uint64_t at;
};

static int upload_piece(void *user, const void *bytes, size_t size, struct sv_why *why)
{
        struct upload *upload = user;
        const uint64_t at = upload->at;

        upload->at += size;
        return SV_CU(upload->model->driver, why, cuMemcpyHtoD, upload->model->weights + at, bytes, size);
}

static int load_weights(struct sv_model *model, struct sv_why *why)
{
        const struct sv_file *file = &model->pack->files[model->pack->weights];
        struct upload upload = {.model = model};

        if (!file->bytes)
                return 0;
        if (SV_CU(model->driver, why, cuMemAlloc, &model->weights, file->bytes))
                return -1;
        if (sv_pack_read(model->pack, model->pack->weights, upload_piece, &upload, why))
                return -1;
        /* a copy from pageable memory may continue after its call */
        return SV_CU(model->driver, why, cuCtxSynchronize);
}

static int prepare_model(struct sv_model *model, struct sv_why *why)
{
        model->kernels = ds_alloc0(model->pack->n_kernels, sizeof(*model->kernels));
        if (!model->kernels)
                return sv_fail(why, "%s: out of memory", model->pack->path);
        if (check_arch(model->driver, model->pack, why) || load_module(model, why))
                return -1;
        for (uint32_t i = 0; i < model->pack->n_kernels; i++)
                if (prepare_kernel(model, i, why))
                        return -1;
        return load_weights(model, why);
}

int sv_model_open(
        struct sv_model *model, const struct sv_driver *driver, const struct sv_pack *pack, struct sv_why *why)
{
        *model = (struct sv_model){.driver = driver, .pack = pack};
        if (!prepare_model(model, why))
                return 0;
        sv_model_close(model);
        return -1;
}

void sv_model_close(struct sv_model *model)
{
        if (model->weights)
                (void)model->driver->cuMemFree_fn(model->weights);
        if (model->module)
                (void)model->driver->cuModuleUnload_fn(model->module);
        ds_free(model->kernels);
        *model = (struct sv_model){.driver = NULL};
}

uint64_t sv_model_bytes(const struct sv_pack *pack, unsigned instances)
{
        return pack->files[pack->weights].bytes + instances * pack->arena;
}

/* --- an instance -------------------------------------------------------------------------------------------------- */

static void fill_params(struct sv_instance *instance)
{
        const struct sv_pack *pack = instance->model->pack;

        for (uint32_t i = 0; i < pack->n_params; i++) {
                const struct sv_param *param = &pack->params[i];

                instance->values[i] = param->value;
                if (param->kind == SV_PARAM_ARENA)
                        instance->values[i] += instance->arena;
                if (param->kind == SV_PARAM_WEIGHTS)
                        instance->values[i] += instance->model->weights;
                /* little-endian, as all machines with CUDA: the low 4 bytes come first */
                instance->params[i] = &instance->values[i];
        }
}

static int open_memory(struct sv_instance *instance, struct sv_why *why)
{
        const struct sv_pack *pack = instance->model->pack;
        const struct sv_driver *driver = instance->model->driver;
        const uint64_t in = sv_pack_input_bytes(pack), out = sv_pack_output_bytes(pack);

        instance->values = ds_alloc0(pack->n_params, sizeof(*instance->values));
        instance->params = ds_alloc0(pack->n_params, sizeof(*instance->params));
        if (!instance->values || !instance->params)
                return sv_fail(why, "%s: out of memory", pack->path);
        if (SV_CU(driver, why, cuStreamCreateWithPriority, &instance->stream, CU_STREAM_NON_BLOCKING, 0) ||
                SV_CU(driver, why, cuMemAlloc, &instance->arena, pack->arena) ||
                SV_CU(driver, why, cuMemsetD8Async, instance->arena, UNWRITTEN, pack->arena, instance->stream) ||
                (in && SV_CU(driver, why, cuMemAllocHost, (void **)&instance->input, in)) ||
                SV_CU(driver, why, cuMemAllocHost, (void **)&instance->output, out))
                return -1;
        if (in)
                memset(instance->input, 0, in);
        return 0;
}

static int prepare_instance(struct sv_instance *instance, struct sv_why *why)
{
        const struct sv_pack *pack = instance->model->pack;

        if (open_memory(instance, why))
                return -1;
        for (uint32_t i = 0; i < pack->n_inputs; i++)
                instance->input_at[i] = instance->arena + pack->inputs[i].offset;
        for (uint32_t i = 0; i < pack->n_outputs; i++)
                instance->output_at[i] = instance->arena + pack->outputs[i].offset;
        fill_params(instance);
        return SV_CU(instance->model->driver, why, cuStreamSynchronize, instance->stream);
}

int sv_instance_open(struct sv_instance *instance, const struct sv_model *model, struct sv_why *why)
{
        *instance = (struct sv_instance){.model = model};
        if (!prepare_instance(instance, why))
                return 0;
        sv_instance_close(instance);
        return -1;
}

void sv_instance_close(struct sv_instance *instance)
{
        const struct sv_driver *driver = instance->model ? instance->model->driver : NULL;

        (void)sv_placed_close(instance->placed);
        if (instance->stream)
                (void)driver->cuStreamDestroy_fn(instance->stream);
        if (instance->arena)
                (void)driver->cuMemFree_fn(instance->arena);
        if (instance->input)
                (void)driver->cuMemFreeHost_fn(instance->input);
        if (instance->output)
                (void)driver->cuMemFreeHost_fn(instance->output);
        ds_free(instance->values);
        ds_free(instance->params);
        *instance = (struct sv_instance){.model = NULL};
}

static int copy_in(struct sv_instance *instance, struct sv_why *why)
{
        const struct sv_pack *pack = instance->model->pack;
        const uint8_t *from = instance->input;

        for (uint32_t i = 0; i < pack->n_inputs; i++) {
                if (SV_CU(instance->model->driver, why, cuMemcpyHtoDAsync, instance->input_at[i], from,
                            pack->inputs[i].bytes, instance->stream))
                        return -1;
                from += pack->inputs[i].bytes;
        }
        return 0;
}

static int launch_fail(struct sv_instance *instance, uint32_t i, CUresult r, struct sv_why *why)
{
        const struct sv_pack *pack = instance->model->pack;
        struct sv_why reason = {""};

        (void)sv_driver_fail(instance->model->driver, "cuLaunchKernel", r, &reason);
        return sv_fail(why, "%s, launch %u of %s: %s", pack->path, i, pack->kernels[pack->launches[i].kernel].name,
                reason.text);
}

static int launch_one(struct sv_instance *instance, uint32_t i, struct sv_why *why)
{
        const struct sv_model *model = instance->model;
        const struct sv_launch *launch = &model->pack->launches[i];
        const struct sv_kernel *kernel = &model->pack->kernels[launch->kernel];
        CUfunction function = model->kernels[launch->kernel];
        void **params = instance->params + launch->first_param;
        CUresult r;

        if (instance->placed && sv_placed_launch(instance->placed, i, &function, &params, why))
                return -1;
        r = model->driver->cuLaunchKernel_fn(function, launch->grid[0], launch->grid[1], launch->grid[2],
                kernel->threads, 1, 1, kernel->shared, instance->stream, kernel->n_params ? params : NULL, NULL);
        return r == CUDA_SUCCESS ? 0 : launch_fail(instance, i, r, why);
}

/* events: NULL, or one per launch and one more. */
static int launch_all(struct sv_instance *instance, const CUevent *events, struct sv_why *why)
{
        const struct sv_driver *driver = instance->model->driver;
        const struct sv_pack *pack = instance->model->pack;

        for (uint32_t i = 0; i < pack->n_launches; i++) {
                if (events && SV_CU(driver, why, cuEventRecord, events[i], instance->stream))
                        return -1;
                if (launch_one(instance, i, why))
                        return -1;
        }
        return events ? SV_CU(driver, why, cuEventRecord, events[pack->n_launches], instance->stream) : 0;
}

static int copy_out(struct sv_instance *instance, struct sv_why *why)
{
        const struct sv_pack *pack = instance->model->pack;
        uint8_t *to = instance->output;

        for (uint32_t i = 0; i < pack->n_outputs; i++) {
                if (instance->placed ? sv_placed_output(instance->placed, i, to, why)
                                     : SV_CU(instance->model->driver, why, cuMemcpyDtoHAsync, to,
                                               instance->output_at[i], pack->outputs[i].bytes, instance->stream))
                        return -1;
                to += pack->outputs[i].bytes;
        }
        return 0;
}

static int run(struct sv_instance *instance, const CUevent *events, struct sv_why *why)
{
        if (copy_in(instance, why) || launch_all(instance, events, why) || copy_out(instance, why))
                return -1;
        return SV_CU(instance->model->driver, why, cuStreamSynchronize, instance->stream);
}

int sv_instance_run_timed(struct sv_instance *instance, const CUevent *events, struct sv_why *why)
{
        int r;

        if (!instance->placed)
                return run(instance, events, why);
        if (sv_placed_begin(instance->placed, why))
                return -1;
        r = run(instance, events, why);
        sv_placed_end(instance->placed);
        return r;
}

int sv_instance_run(struct sv_instance *instance, struct sv_why *why)
{
        return sv_instance_run_timed(instance, NULL, why);
}
