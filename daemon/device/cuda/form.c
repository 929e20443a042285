/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other forms of kernels: slices, and workers that let go at a block's end and resume
 *
 * A launch of the persistent form counts its blocks in a control block (ptx/pass/forms.h). The control blocks lie in
 * one piece of device memory that is made before serving, and are zero. One belongs to a kernel from its begin until
 * its last block is done, over all launches that resume it. Each of these launches has another epoch, so a late request
 * to stop does not stop another launch. A launch that did its last block leaves its control block ready for the next
 * kernel: nothing is cleared, copied or waited for. The control block of a dropped kernel is cleared on the GPU, and
 * reused when that has happened.
 *
 * evict() makes the GPU write the epoch to the word that the workers check. The write comes from a stream of its own
 * with the highest priority: no kernel, no copy engine, no client's work can be before it. tests/gpu measures how
 * quickly workers see it. Kernels never read host memory for it. After the launch's end is known, a copy on the same
 * stream reads the result, so the stop request never comes after it; poll returns the completion only then. Only
 * launches with a stop request pay for any of that. An abort of a session stops its running persistent launches too.
 *
 * Without a control block (the pool is used up, or the GPU's streams cannot write values) the form is refused, and the
 * caller launches another form. Kernels of any session could write to control blocks, as to everything in the context:
 * blocks would then run twice or not at all. The device trusts the values no further than that.
 */
#include <stddef.h>
#include <stdio.h>

#include "device/cuda/internal.h"
#include "device/form.h"
#include "util/error.h"

#define FORM_CONTROLS 4096u
#define FORM_NONE UINT32_MAX

static_assert(offsetof(struct ds_ptx_control, next) == 4 && offsetof(struct ds_ptx_control, completed) == 12,
        "the first 16 bytes of a control block are all that it says");

enum form_state {
        FORM_RUNS,
        FORM_TOLD,    /* has a stop request; the launch may end before its workers see the request */
        FORM_READ,    /* the control block with the workers' result is being copied to the host */
        FORM_KNOWN,   /* ended, and its result is known: the workers did all blocks before they saw the request */
        FORM_EVICTED, /* evicted, with blocks left to do */
};

/* A kernel in the persistent form, from its first launch until its last block is done or it is dropped. */
struct cuda_form {
        uint64_t token;       /* token of the kernel's last launch */
        struct cuda_job *job; /* job of the launch in flight; NULL: the kernel is evicted and waits to be resumed */
        enum form_state state;
        int aborted; /* its session ends: the rest of the kernel is not needed */
        uint64_t read_seq;
        uint32_t space;
        const ds_device_kernel *kernel; /* its module is referenced */
        uint32_t grid[3], block[3], blocks, done;
        uint32_t control;
        struct cuda_form *prev, *next;
};

/* The host's record of one control block on the GPU. */
struct form_control {
        uint32_t epoch;     /* epoch of the last launch */
        uint32_t next;      /* next free control block */
        uint64_t clean_seq; /* free control block: number of the stream's write after which the block is clear */
};

struct cuda_forms {
        CUstream stream;
        CUdeviceptr memory;
        uint64_t size;
        uint64_t *counter;      /* progress of the stream; the GPU writes it */
        uint32_t (*said)[4];    /* copies of control blocks, indexed by their numbers; the GPU writes them */
        uint64_t seq;           /* value that *counter will have when the stream has done everything submitted so far */
        struct cuda_form *list; /* all kernels in this form */
        uint32_t free, free_tail;
        struct form_control controls[FORM_CONTROLS];
};

/* --- control blocks ----------------------------------------------------------------------------------------------- */

size_t cuda_forms_host_bytes(void)
{
        return sizeof(uint64_t) * 8 + FORM_CONTROLS * sizeof(uint32_t[4]);
}

static uint64_t control_va(const struct cuda_forms *forms, uint32_t control)
{
        return forms->memory + (uint64_t)control * sizeof(struct ds_ptx_control);
}

static uint64_t forms_counter(const struct cuda_forms *forms)
{
        return __atomic_load_n(forms->counter, __ATOMIC_ACQUIRE);
}

static void control_free(struct cuda_forms *forms, uint32_t control)
{
        forms->controls[control].next = FORM_NONE;
        *(forms->free == FORM_NONE ? &forms->free : &forms->controls[forms->free_tail].next) = control;
        forms->free_tail = control;
}

/* Number of a free control block that is clear; FORM_NONE: there is none. */
static uint32_t control_take(struct cuda_forms *forms)
{
        uint32_t control = forms->free;

        if (control == FORM_NONE || forms->controls[control].clean_seq > forms_counter(forms))
                return FORM_NONE;
        forms->free = forms->controls[control].next;
        return control;
}

/* Clears a control block that no launch uses and whose contents are unknown. It is free when the GPU has cleared it. */
static void control_clear(ds_device *device, uint32_t control)
{
        struct cuda_forms *forms = device->forms;
        uint64_t va = control_va(forms, control);
        CUresult result = CUDA_SUCCESS;

        for (uint32_t at = 0; at < 16 && !result; at += 8)
                result = CU(device, cuStreamWriteValue64)(forms->stream, va + at, 0, CU_STREAM_WRITE_VALUE_DEFAULT);
        if (!result)
                result = CU(device, cuStreamWriteValue64)(
                        forms->stream, (uintptr_t)forms->counter, forms->seq + 1, CU_STREAM_WRITE_VALUE_DEFAULT);
        if (result) { /* the control block is not used again, since it may not be clear */
                (void)ds_cuda_failed(device, result, "clearing a control block");
                return;
        }
        forms->controls[control].clean_seq = ++forms->seq;
        control_free(forms, control);
}

static int memory_map(ds_device *device, struct cuda_forms *forms)
{
        const CUmemAllocationProp prop = cuda_slab_prop(device);
        const CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        CUmemGenericAllocationHandle handle;
        CUdeviceptr va = 0;
        CUresult result;

        result = CU(device, cuMemCreate)(&handle, forms->size, &prop, 0);
        if (result)
                return ds_cuda_failed(device, result, "memory for control blocks");
        result = CU(device, cuMemAddressReserve)(&va, forms->size, 0, 0, 0);
        if (!result)
                result = CU(device, cuMemMap)(va, forms->size, 0, handle, 0);
        CU(device, cuMemRelease)(handle);
        if (!result) {
                forms->memory = va;
                device->n_stirs++;
                result = CU(device, cuMemSetAccess)(va, forms->size, &access, 1);
        } else if (va) {
                CU(device, cuMemAddressFree)(va, forms->size);
        }
        return result ? ds_cuda_failed(device, result, "addresses of control blocks") : 0;
}

static int memory_clear(ds_device *device, struct cuda_forms *forms)
{
        CUresult result = CU(device, cuMemsetD32Async)(forms->memory, 0, forms->size / 4, forms->stream);

        if (!result)
                result = CU(device, cuStreamSynchronize)(forms->stream);
        return result ? ds_cuda_failed(device, result, "clearing control blocks") : 0;
}

int cuda_forms_init(ds_device *device, void *host)
{
        struct cuda_forms *forms;
        int r;

        if (!host)
                return 0;
        forms = ds_alloc0(1, sizeof(*forms));
        if (!forms)
                return ds_error_origin(-ENOMEM);
        device->forms = forms;
        forms->counter = host;
        forms->said = (uint32_t(*)[4])((uint64_t *)host + 8);
        forms->size = DS_ALIGN_UP(FORM_CONTROLS * sizeof(struct ds_ptx_control), device->info.slab_granularity);
        forms->free = FORM_NONE;
        for (uint32_t i = 0; i < FORM_CONTROLS; i++)
                control_free(forms, i);
        r = cuda_stream_create(device, NULL, device->priority[0], &forms->stream);
        if (!r)
                r = memory_map(device, forms);
        if (!r)
                r = memory_clear(device, forms);
        if (r)
                return ds_error_trace(r);
        cuda_memory_own(device, forms->size);
        return 0;
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

static struct cuda_form *form_find(const ds_device *device, uint64_t token, int in_flight)
{
        struct cuda_form *form;

        if (!device->forms)
                return NULL;
        DL_FOREACH(device->forms->list, form)
        {
                if (form->token == token && (form->job != NULL) == in_flight)
                        return form;
        }
        return NULL;
}

static void form_free(ds_device *device, struct cuda_form *form)
{
        DL_DELETE(device->forms->list, form);
        cuda_kernel_put(device, form->kernel);
        ds_free(form);
}

/* Frees the record of a kernel. clean: its control block is zero, except for fields that do not matter; else the GPU
 * clears it. */
static void form_end(ds_device *device, struct cuda_form *form, int clean)
{
        if (clean)
                control_free(device->forms, form->control);
        else if (!device->lost)
                control_clear(device, form->control);
        form_free(device, form);
}

static int form_new(ds_device *device, const struct ds_launch *launch, uint32_t blocks, struct cuda_form **ret)
{
        struct cuda_form *form = ds_alloc0(1, sizeof(*form));

        if (!form)
                return ds_error_origin(-ENOMEM);
        form->control = control_take(device->forms);
        if (form->control == FORM_NONE) {
                ds_free(form);
                return DS_CUDA_OUT_OF_MEMORY;
        }
        form->space = launch->space;
        form->kernel = launch->kernel;
        cuda_kernel_get(form->kernel);
        form->blocks = blocks;
        form->state = FORM_EVICTED; /* until it is launched, the kernel counts as evicted with no block done */
        memcpy(form->grid, launch->grid, sizeof(form->grid));
        memcpy(form->block, launch->block, sizeof(form->block));
        DL_APPEND(device->forms->list, form);
        *ret = form;
        return 0;
}

static int form_resumed(ds_device *device, const struct ds_launch *launch, struct cuda_form **ret)
{
        struct cuda_form *form = form_find(device, launch->resumes - 1, 0);

        if (!form || form->kernel != launch->kernel || form->space != launch->space ||
                memcmp(form->grid, launch->grid, sizeof(form->grid)) ||
                memcmp(form->block, launch->block, sizeof(form->block)))
                return DS_CUDA_INVALID_VALUE;
        *ret = form;
        return 0;
}

/* Number of workers of a persistent launch: the least of what the rung can hold, the launch's limit, and the number
 * of chunks. */
static uint32_t form_workers(ds_device *device, const struct ds_launch *launch, uint32_t rung, uint32_t chunks)
{
        uint64_t n = launch->workers;

        if (!n)
                n = (uint64_t)cuda_kernel_blocks_per_sm(device, launch->kernel,
                            launch->block[0] * launch->block[1] * launch->block[2], launch->shared_bytes) *
                    device->rungs[rung]->info.n_sms;
        if (launch->max_resident_blocks)
                n = DS_MIN(n, launch->max_resident_blocks);
        return (uint32_t)DS_MAX(DS_MIN(DS_MIN(n, chunks), DS_FORM_WORKERS_MAX), 1u);
}

int cuda_form_make(ds_device *device, const struct ds_launch *launch, uint32_t rung, struct cuda_form_launch *ret)
{
        const struct ds_kernel_info *info = cuda_kernel_info(launch->kernel);
        struct form_control *control;
        struct ds_ptx_virtual virtual;
        uint32_t blocks;
        int r;

        ret->form = NULL;
        if (!cuda_kernel_loaded(launch->kernel))
                return DS_CUDA_INVALID_HANDLE;
        r = info->params_size > sizeof(ret->params) ? DS_CUDA_INVALID_VALUE
                                                    : ds_device_form_check(info, launch, &blocks);
        if (!r && launch->form == DS_PTX_FORM_PERSISTENT && !device->forms)
                r = DS_CUDA_NOT_SUPPORTED;
        if (r)
                return r;
        virtual = ds_device_form_virtual(launch, blocks);
        ret->plain = *launch;
        ret->plain.params = ret->params;
        ret->plain.params_size = info->params_size;
        ret->plain.grid[0] = launch->n_blocks;
        ret->plain.grid[1] = ret->plain.grid[2] = 1;
        if (launch->form == DS_PTX_FORM_PERSISTENT) {
                r = launch->resumes ? form_resumed(device, launch, &ret->form)
                                    : form_new(device, launch, blocks, &ret->form);
                if (r)
                        return r;
                control = &device->forms->controls[ret->form->control];
                control->epoch += 1 + (control->epoch == UINT32_MAX);
                virtual.control = control_va(device->forms, ret->form->control);
                virtual.epoch = control->epoch;
                ret->plain.grid[0] = form_workers(
                        device, launch, rung, DS_DIV_UP(blocks - ret->form->done, DS_MIN(virtual.chunk, blocks)));
                ret->plain.max_resident_blocks = 0;
        }
        ds_device_form_params(info, launch, &virtual, ret->params);
        return 0;
}

void cuda_form_launched(struct cuda_form *form, struct cuda_job *job)
{
        form->job = job;
        form->token = job->token;
        form->state = FORM_RUNS;
        job->form = form;
}

void cuda_form_refused(ds_device *device, struct cuda_form *form, const struct ds_launch *launch)
{
        if (!launch->resumes)
                form_end(device, form, 1);
}

/* --- eviction ----------------------------------------------------------------------------------------------------- */

int cuda_evict(ds_device *device, uint64_t token)
{
        struct cuda_form *form = form_find(device, token, 1);
        struct cuda_forms *forms = device->forms;
        CUresult result;

        if (!form)
                return DS_CUDA_NOT_FOUND;
        if (form->state != FORM_RUNS || form->job->status || device->lost)
                return 0;
        /* a launch that is still held back, not on the GPU, is cancelled */
        if (cuda_hold_cancel_job(device, form->job, DS_DEVICE_EVICTED)) {
                form->state = FORM_EVICTED;
                return 0;
        }
        result = CU(device, cuStreamWriteValue32)(forms->stream,
                control_va(forms, form->control) + offsetof(struct ds_ptx_control, stop),
                forms->controls[form->control].epoch, CU_STREAM_WRITE_VALUE_DEFAULT);
        if (result)
                return ds_cuda_failed(device, result, "requesting workers to stop");
        form->state = FORM_TOLD;
        return 0;
}

/* Queues a copy of a control block to the host, behind all earlier writes to the block; ret_seq: the stream's number
 * after the copy. */
static CUresult control_read(ds_device *device, uint32_t control, uint64_t *ret_seq)
{
        struct cuda_forms *forms = device->forms;
        CUresult result;

        result = CU(device, cuMemcpyDtoHAsync)(
                forms->said[control], control_va(forms, control), sizeof(*forms->said), forms->stream);
        if (!result)
                result = CU(device, cuStreamWriteValue64)(
                        forms->stream, (uintptr_t)forms->counter, forms->seq + 1, CU_STREAM_WRITE_VALUE_DEFAULT);
        if (!result)
                *ret_seq = ++forms->seq;
        return result;
}

/* Makes the launch fail: its result is unknown, or no longer needed. */
static int form_lost(struct cuda_form *form)
{
        form->job->status = DS_CUDA_LAUNCH_FAILED;
        return 1;
}

static int form_ask(ds_device *device, struct cuda_form *form)
{
        CUresult result = control_read(device, form->control, &form->read_seq);

        if (result) {
                (void)ds_cuda_failed(device, result, "reading the result of workers");
                return form_lost(form);
        }
        form->state = FORM_READ;
        return 0;
}

static int form_heard(const ds_device *device, struct cuda_form *form)
{
        const struct cuda_forms *forms = device->forms;
        struct ds_ptx_control said = {};

        memcpy(&said, forms->said[form->control], sizeof(*forms->said));
        if (said.left)
                return form_lost(form);
        if (said.completed == forms->controls[form->control].epoch) {
                form->state = FORM_KNOWN;
                return 1;
        }
        if (form->aborted)
                return form_lost(form);
        form->state = FORM_EVICTED;
        form->done = DS_MAX(form->done, DS_MIN(said.next, form->blocks));
        form->job->status = DS_DEVICE_EVICTED;
        return 1;
}

int cuda_form_collect(ds_device *device, struct cuda_job *job)
{
        struct cuda_form *form = job->form;

        if (job->status || form->state == FORM_RUNS)
                return 1;
        if (device->lost)
                return form_lost(form);
        if (form->state == FORM_TOLD)
                return form_ask(device, form);
        return forms_counter(device->forms) >= form->read_seq ? form_heard(device, form) : 0;
}

uint32_t cuda_form_done(const struct cuda_job *job)
{
        return job->form && job->status == DS_DEVICE_EVICTED ? job->form->done : 0;
}

void cuda_form_ended(ds_device *device, struct cuda_job *job)
{
        struct cuda_form *form = job->form;

        form->job = NULL;
        if (job->status != DS_DEVICE_EVICTED)
                form_end(device, form, job->given ? !job->status : !form->done);
}

void cuda_drop(ds_device *device, uint64_t token)
{
        struct cuda_form *form = form_find(device, token, 0);

        if (form)
                form_end(device, form, 0);
}

void cuda_forms_abort(ds_device *device, uint32_t space)
{
        struct cuda_form *form;

        if (!device->forms)
                return;
        DL_FOREACH(device->forms->list, form)
        {
                if (!form->job || !form->job->given || form->space != space)
                        continue;
                form->aborted = 1;
                (void)cuda_evict(device, form->token); /* a launch that does not see the stop request runs to its end */
        }
}

void cuda_forms_drop(ds_device *device, uint32_t space)
{
        struct cuda_form *form, *next;

        if (!device->forms)
                return;
        DL_FOREACH_SAFE(device->forms->list, form, next)
        {
                if (!form->job && form->space == space)
                        form_end(device, form, 0);
        }
}

/* Copies the control block into the place for normal results: nothing else reads that place any more, because the
 * process ends soon. */
void cuda_form_say(ds_device *device, const struct cuda_form *form, uint64_t wait_ns, char *ret, size_t size)
{
        static const char *const states[] = {
                [FORM_RUNS] = "not told to stop",
                [FORM_TOLD] = "told to stop",
                [FORM_READ] = "has ended, being read",
                [FORM_KNOWN] = "has ended",
                [FORM_EVICTED] = "has let go",
        };
        const struct cuda_forms *forms = device->forms;
        const uint32_t *said = forms->said[form->control];
        uint64_t until = cuda_now(device) + wait_ns, seq = 0;
        CUresult result = device->lost ? device->lost : control_read(device, form->control, &seq);

        while (!result && forms_counter(forms) < seq && cuda_now(device) < until)
                continue;
        snprintf(ret, size,
                "persistent, %s%s, %u of %u blocks known, control %u, epoch %u; its stream is at %llu of %llu, read at "
                "%llu; %s: stop %u, next %u, left %u, completed %u",
                states[form->state], form->aborted ? " and aborted" : "", form->done, form->blocks, form->control,
                forms->controls[form->control].epoch, (unsigned long long)forms_counter(forms),
                (unsigned long long)forms->seq, (unsigned long long)form->read_seq,
                result                        ? "nothing can be read, before"
                : forms_counter(forms) >= seq ? "now"
                                              : "nothing comes, before",
                said[0], said[1], said[2], said[3]);
}

void cuda_forms_free(ds_device *device)
{
        struct cuda_forms *forms = device->forms;

        if (!forms)
                return;
        while (forms->list)
                form_free(device, forms->list);
        if (cuda_usable(device)) {
                if (forms->stream) {
                        CU(device, cuStreamSynchronize)(forms->stream);
                        CU(device, cuStreamDestroy)(forms->stream);
                }
                if (forms->memory && !CU(device, cuMemUnmap)(forms->memory, forms->size))
                        CU(device, cuMemAddressFree)(forms->memory, forms->size);
        }
        device->forms = ds_free(forms);
}
