/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/forms.h"

#include <fcntl.h>
#include <string.h>

#include "supervisor/foreign.h"
#include "supervisor/helper_link.h"
#include "supervisor/ledger.h"
#include "supervisor/session.h"
#include "supervisor/session_call.h"
#include "supervisor/supervisor.h"
#include "supervisor/worker_link.h"
#include "util/alloc.h"
#include "util/macro.h"

/* Reasons why a module has no forms although the helper reported no error. */
static const char no_ptx[] = "the module has no PTX";
static const char no_room[] = "the user's limits leave no room for its forms";

void ds_module_source_drop(struct ds_module_source *source)
{
        if (source->fd < 0)
                return;
        ds_foreign_close(source->foreign, source->file.user, &source->fd, 1);
        source->fd = -1;
        ds_charge_release(&source->file);
}

void ds_module_source_move(struct ds_module_source *to, struct ds_module_source *from)
{
        *to = *from;
        *from = (struct ds_module_source)DS_MODULE_SOURCE_INIT;
}

void ds_module_forms_init(struct ds_module_forms *forms)
{
        *forms = (struct ds_module_forms){.source = DS_MODULE_SOURCE_INIT, .fd = -1};
}

static void forms_drop_image(struct ds_module_forms *forms)
{
        forms->fd = ds_close(forms->fd);
        ds_charge_release(&forms->file);
        ds_charge_release(&forms->image);
        ds_charge_release(&forms->variables);
}

void ds_module_forms_deinit(struct ds_module_forms *forms)
{
        if (forms->pending)
                ds_session_call_free(forms->pending);
        ds_module_source_drop(&forms->source);
        forms_drop_image(forms);
        forms->why = ds_free(forms->why);
}

/* --- loading of a module ------------------------------------------------------------------------------------------ */

/* Keeps a second descriptor of the client's file, charged as a file. If that fails, the module gets no forms. */
static void keep_source(struct ds_session_call *call, int fd, uint64_t bytes)
{
        struct ds_module_source *source = &call->source;

        if (ds_charge_take(&source->file, call->session->user, DS_CHARGE_SLABS, 1))
                return;
        source->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        source->foreign = &call->session->supervisor->foreign;
        source->offset = call->job.offset;
        source->bytes = bytes;
        source->max_registers = call->job.max_registers;
        source->optimization = call->job.optimization;
        if (source->fd < 0)
                ds_charge_release(&source->file);
}

void ds_forms_prepare(struct ds_session_call *call, int fd, uint64_t bytes)
{
        const struct ds_supervisor *supervisor = call->session->supervisor;

        switch (supervisor->options->transform) {
        case DS_TRANSFORM_ALWAYS:
                call->job.forms = DETSHARE__INTERNAL__IMAGE_FORMS__FORMS_MADE;
                break;
        case DS_TRANSFORM_NEVER:
                return;
        default:
                call->job.forms = DETSHARE__INTERNAL__IMAGE_FORMS__FORMS_STORED;
                break;
        }
        if (!ds_worker_info(supervisor->worker)->simulated)
                keep_source(call, fd, bytes);
}

static void say_failed(struct ds_session *session, const char *why)
{
        if (strcmp(why, no_ptx) != 0)
                ds_log_limited(ds_user_log_budget(session->user), uv_hrtime(), DS_LOG_WARNING,
                        "session %llu: the kernels of a module get no forms: %s", (unsigned long long)session->id, why);
}

void ds_forms_note(struct ds_session_call *call, const struct ds_helper_result *result)
{
        /* the client's file is not needed any more: the forms were made with the module, or there will be none */
        if (result->report_bytes || result->no_ptx)
                ds_module_source_drop(&call->source);
        call->source.no_ptx = result->no_ptx;
        if (!result->status && !result->report_bytes && result->message[0] &&
                call->job.forms == DETSHARE__INTERNAL__IMAGE_FORMS__FORMS_MADE)
                say_failed(call->session, result->message);
}

/* --- forms of a loaded module ------------------------------------------------------------------------------------- */

void ds_forms_leave(struct ds_session_call *call)
{
        if (call->forms)
                call->forms->pending = NULL;
        call->forms = NULL;
}

static struct ds_module_forms *forms_of(struct ds_session_call *call)
{
        int fd;
        uint64_t bytes;

        return ds_ledger_module(call->session->ledger, call->module, &fd, &bytes);
}

static void forms_refuse(struct ds_session_call *call, struct ds_module_forms *forms, const char *why)
{
        say_failed(call->session, why);
        forms_drop_image(forms);
        ds_free(forms->why);
        /* if there is no memory for the reason, the next worker's request is tried again */
        forms->why = ds_strdup(why);
        ds_module_source_drop(&forms->source);
}

static void forms_loaded(struct ds_worker_call *base, const struct ds_worker_answer *answer)
{
        struct ds_session_call *call = DS_CONTAINER_OF(base, struct ds_session_call, base);
        struct ds_module_forms *forms = forms_of(call);
        int status = answer ? answer->message->status : 0;

        /* records a refusal, unless the worker restarted (it sends its request again) or has no such module (it does
         * not) */
        if (forms && status && status != DETSHARE__STATUS__NO_SUCH)
                forms_refuse(
                        call, forms, answer->message->message[0] ? answer->message->message : "it cannot be loaded");
        ds_session_call_free(call);
}

/* Sends the image to the worker, or the reason why there is none. The worker's answer ends the call. */
static void forms_send(struct ds_session_call *call, const struct ds_module_forms *forms)
{
        Detshare__Internal__ToWorker message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        Detshare__Internal__ModuleForms come = DETSHARE__INTERNAL__MODULE_FORMS__INIT;
        struct ds_session *session = call->session;

        come.session = session->id;
        come.module = call->module;
        come.bytes = forms->fd >= 0 ? forms->bytes : 0;
        come.why = forms->why ? forms->why : (char *)"";
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_MODULE_FORMS;
        message.module_forms = &come;
        /* a worker that has not opened the session yet requests the forms later */
        if (session->presence != DS_PRESENCE_OPEN ||
                ds_worker_send(session->supervisor->worker, &message, &forms->fd, forms->fd >= 0, &call->base))
                ds_session_call_free(call);
}

/* Charges the transformed image like an image of the module. Returns 0; nonzero: the user's limit is reached. */
static int forms_charge(struct ds_session_call *call, const struct ds_helper_result *result)
{
        const struct ds_worker_info *info = ds_worker_info(call->session->supervisor->worker);
        const unsigned cost = info->simulated ? DS_MODULE_COST_PTX : DS_MODULE_COST_CUBIN;
        ds_user *user = call->session->user;

        return result->variable_bytes > info->memory_bytes ||
               ds_charge_take(&call->bytes, user, DS_CHARGE_HOST_BYTES, result->bytes * cost + result->report_bytes) ||
               ds_charge_take(&call->variables, user, DS_CHARGE_DEVICE_BYTES, result->variable_bytes);
}

static void forms_made(struct ds_helper_job *job, struct ds_helper_result *result)
{
        struct ds_session_call *call = DS_CONTAINER_OF(job, struct ds_session_call, job);
        struct ds_module_forms *forms = call->forms;

        if (call->session->supervisor->state == DS_DAEMON_STOPPING) {
                ds_session_call_free(call);
                return;
        }
        ds_forms_leave(call);
        if (result->status || !result->report_bytes) {
                forms_refuse(call, forms,
                        result->message && result->message[0] ? result->message : "the reason is not known");
        } else if (forms_charge(call, result)) {
                forms_refuse(call, forms, no_room);
        } else {
                forms->fd = DS_TAKE_FD(result->fd);
                forms->bytes = result->bytes;
                ds_charge_move(&forms->file, &call->one);
                ds_charge_move(&forms->image, &call->bytes);
                ds_charge_move(&forms->variables, &call->variables);
                ds_module_source_drop(&forms->source);
        }
        forms_send(call, forms);
}

/* A descriptor of the PTX for the helper; -1: there is no PTX. */
static int forms_source(const struct ds_session_call *call, const struct ds_module_forms *forms, int image,
        uint64_t image_bytes, uint64_t *ret_bytes)
{
        if (ds_worker_info(call->session->supervisor->worker)->simulated) {
                *ret_bytes = image_bytes;
                return fcntl(image, F_DUPFD_CLOEXEC, 0);
        }
        *ret_bytes = forms->source.bytes;
        return forms->source.fd < 0 ? -1 : fcntl(forms->source.fd, F_DUPFD_CLOEXEC, 0);
}

static void forms_begin(struct ds_session_call *call, struct ds_module_forms *forms, int image, uint64_t image_bytes)
{
        const char *why = no_room;
        uint64_t bytes = 0;
        int fd = -1;

        if (forms->source.no_ptx) {
                why = no_ptx;
        } else if (!ds_charge_take(&call->one, call->session->user, DS_CHARGE_SLABS, 1)) {
                fd = forms_source(call, forms, image, image_bytes, &bytes);
                why = "the client's file with its PTX is no longer available";
        }
        if (fd < 0) {
                forms_refuse(call, forms, why);
                forms_send(call, forms);
                return;
        }
        if (!ds_worker_info(call->session->supervisor->worker)->simulated) {
                call->job.offset = forms->source.offset;
                call->job.max_registers = forms->source.max_registers;
                call->job.optimization = forms->source.optimization;
        }
        call->job.forms = DETSHARE__INTERNAL__IMAGE_FORMS__FORMS_ONLY;
        call->job.background = 1;
        call->forms = forms;
        forms->pending = call;
        ds_helper_check(call->session->supervisor->helper, &call->job, call->session->user, fd, bytes, forms_made);
}

void ds_forms_wanted(struct ds_supervisor *supervisor, uint64_t id, uint64_t module)
{
        struct ds_session *session = ds_session_find(supervisor, id);
        struct ds_module_forms *forms;
        struct ds_session_call *call;
        uint64_t bytes;
        int fd;

        if (!session || !session->ledger || session->presence != DS_PRESENCE_OPEN ||
                supervisor->options->transform == DS_TRANSFORM_NEVER)
                return;
        forms = ds_ledger_module(session->ledger, module, &fd, &bytes);
        if (!forms || forms->pending)
                return;
        call = ds_session_call_new(session, NULL, 0, forms_loaded);
        if (!call)
                return;
        call->module = module;
        if (forms->fd >= 0 || forms->why)
                forms_send(call, forms);
        else
                forms_begin(call, forms, fd, bytes);
}
