/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms (transformed variants) of kernels: where they come from, and which launches may use them
 *
 * An image that contains all forms of its kernels (ptx/pass/forms.h) has a report appended to it (util/forms_file.h).
 * There are two cases. The image is the module's own: then every kernel's forms may be used. Or the worker loads a
 * second module beside it, after a best-effort session has launched a kernel of the first and the helper has made the
 * forms meanwhile. The second module has variables of its own, so kernels that use module variables stay native there.
 * No session waits for the second module: launches are native until it is loaded, which happens in a quiesce, behind
 * the requests of its session.
 *
 * The worker checks forms against their kernels before it uses them: one additional parameter, and all others at the
 * same offsets. The image was made from the client's own bytes, by a process that those bytes may have compromised.
 * Neither can do more with it than with an image of its own.
 *
 * This file also answers `detsharectl explain` about a session's kernels. Reason strings live as long as the module.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "ptx/pass/forms_make.h"
#include "util/error.h"
#include "util/forms_file.h"
#include "worker/internal.h"

#define FORMS_PAGE 32u
#define FORMS_LOOK 4096u /* kernels examined for one page of an answer */
#define FORMS_NAME_MAX 255
#define FORMS_WHY_MAX 255

static const char why_variables[] =
        "it uses variables of its module, of which the transformed module has copies of its own";
static const char why_differs[] = "the transformed kernel has other parameters";
static const char why_no_ptx[] = "the module has no PTX";
static const char why_lost[] = "the transformed module has no such kernel";

void dsw_forms_init(struct dsw_forms *forms)
{
        *forms = (struct dsw_forms){.fd = -1};
}

/* --- the report --------------------------------------------------------------------------------------------------- */

static int forms_read(int fd, char *to, size_t size, uint64_t at)
{
        size_t got = 0;

        while (got < size) {
                ssize_t n = pread(fd, to + got, size - got, (off_t)(at + got));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return -EIO;
                got += (size_t)n;
        }
        return 0;
}

/* Reads the report behind the image, terminated by a NUL instead of its trailer. 0 with *ret NULL: none; or -ENOMEM. */
static int forms_read_report(int fd, uint64_t bytes, char **ret, uint64_t *ret_native)
{
        ds_cleanup(ds_freep) char *report = NULL;
        struct stat st;
        size_t size;

        *ret = NULL;
        if (fstat(fd, &st) < 0 || (uint64_t)st.st_size <= bytes || (uint64_t)st.st_size - bytes > DS_FORMS_REPORT_MAX)
                return 0;
        size = (size_t)((uint64_t)st.st_size - bytes);
        report = ds_alloc(size);
        if (!report)
                return ds_error_origin(-ENOMEM);
        if (forms_read(fd, report, size, bytes) || ds_forms_file_report(report, size) != size)
                return 0;
        *ret_native = ds_forms_file_native(report, size);
        report[size - DS_FORMS_TRAILER_BYTES] = 0;
        *ret = DS_TAKE_PTR(report);
        return 0;
}

int dsw_forms_instead(struct dsw_module *module, int fd, uint64_t bytes)
{
        int r = forms_read_report(fd, bytes, &module->forms.report, &module->forms.native);

        module->forms.instead = module->forms.report != NULL;
        return r;
}

static int ends_with(const char *name, const char *suffix)
{
        const size_t n = strlen(name), m = strlen(suffix);

        return n > m && !strcmp(name + n - m, suffix);
}

int dsw_forms_hides(const struct dsw_module *module, const char *name)
{
        return module->forms.instead &&
               (ends_with(name, DS_PTX_FORM_SLICED_SUFFIX) || ends_with(name, DS_PTX_FORM_PERSISTENT_SUFFIX));
}

/* --- the forms that each kernel has ------------------------------------------------------------------------------- */

/* Whether the form has the kernel's parameters at the same offsets, plus exactly one more parameter. */
static int forms_fit(const struct ds_kernel_info *native, const struct ds_kernel_info *form)
{
        if (form->n_params != native->n_params + 1)
                return 0;
        for (uint32_t i = 0; i < native->n_params; i++)
                if (form->params[i].offset != native->params[i].offset ||
                        form->params[i].size != native->params[i].size)
                        return 0;
        return form->params[native->n_params].size == sizeof(struct ds_ptx_virtual);
}

/* Finds the kernel's form and loads it; NULL with *ret_why if that fails. */
static const ds_device_kernel *forms_find(ds_worker *worker, ds_device_module *device, const struct dsw_kernel *kernel,
        const char *suffix, const char **ret_why)
{
        char name[DSW_KERNEL_NAME_MAX + 32];
        const ds_device_kernel *form;

        snprintf(name, sizeof(name), "%s%s", kernel->info->name, suffix);
        form = worker->ops->kernel_find(device, name);
        *ret_why = why_lost;
        if (!form)
                return NULL;
        if (worker->ops->kernel_loaded && !worker->ops->kernel_loaded(form) &&
                (!dsw_quiesce_runs(worker) || worker->ops->kernel_load(worker->device, form)))
                return NULL;
        *ret_why = why_differs;
        return forms_fit(kernel->info, worker->ops->kernel_info(form)) ? form : NULL;
}

/* Connects the kernel with the forms in the report, once. Does nothing while the kernel is not loaded, because only
 * its name is known then. */
static void forms_connect_kernel(ds_worker *worker, struct dsw_kernel *kernel)
{
        struct dsw_kernel_forms *forms = kernel->forms;
        ds_device_module *device =
                kernel->module->forms.instead ? kernel->module->device : kernel->module->forms.second;

        if (!forms || forms->connected || !device || !dsw_module_kernel_loaded(worker, kernel))
                return;
        forms->connected = 1;
        if (forms->made_sliced)
                kernel->sched.sliced =
                        forms_find(worker, device, kernel, DS_PTX_FORM_SLICED_SUFFIX, &forms->why_sliced);
        if (forms->made_persistent)
                kernel->sched.persistent =
                        forms_find(worker, device, kernel, DS_PTX_FORM_PERSISTENT_SUFFIX, &forms->why_persistent);
}

void dsw_forms_kernel(ds_worker *worker, struct dsw_kernel *kernel)
{
        forms_connect_kernel(worker, kernel);
}

static void forms_take_line(
        const struct dsw_module *module, struct dsw_kernel_forms *forms, const struct ds_forms_line *line)
{
        const int useless = line->variables && !module->forms.instead;

        *forms = (struct dsw_kernel_forms){
                .made_sliced = line->sliced && !useless,
                .made_persistent = line->persistent && !useless,
                .why_sliced = line->sliced && useless ? why_variables : line->why_sliced,
                .why_persistent = line->persistent && useless ? why_variables : line->why_persistent,
        };
}

static int forms_has_any(const struct dsw_module *module)
{
        for (uint32_t i = 0; module->forms.kernels && i < module->n_kernels; i++)
                if (module->forms.kernels[i].made_sliced || module->forms.kernels[i].made_persistent)
                        return 1;
        return 0;
}

static int forms_order(const void *a, const void *b)
{
        const struct dsw_kernel *const *x = a, *const *y = b;

        return strcmp((*x)->info->name, (*y)->info->name);
}

static int forms_order_name(const void *name, const void *kernel)
{
        const struct dsw_kernel *const *one = kernel;

        return strcmp(name, (*one)->info->name);
}

/* Kernels sorted by name: reports list them in the order of the text, devices in another. NULL: out of memory. */
static struct dsw_kernel **forms_sort(struct dsw_module *module)
{
        struct dsw_kernel **sorted = ds_alloc0(DS_MAX(module->n_kernels, 1u), sizeof(*sorted));

        for (uint32_t i = 0; sorted && i < module->n_kernels; i++)
                sorted[i] = &module->kernels[i];
        if (sorted)
                qsort(sorted, module->n_kernels, sizeof(*sorted), forms_order);
        return sorted;
}

/* Parses the report; its copy holds the reason strings. */
static int forms_connect(ds_worker *worker, struct dsw_module *module)
{
        struct dsw_forms *forms = &module->forms;
        const size_t size = strlen(forms->report);
        ds_cleanup(ds_freep) char *words = ds_alloc(size + 1);
        ds_cleanup(ds_freep) struct dsw_kernel **sorted = forms_sort(module);
        struct ds_forms_line line;
        size_t at = 0, before = 0;

        forms->kernels = ds_alloc0(DS_MAX(module->n_kernels, 1u), sizeof(*forms->kernels));
        if (!words || !sorted || !forms->kernels)
                return ds_error_origin(-ENOMEM);
        /* the strings of a report line need no more space than the line itself, so the buffer of the report's size
         * holds all of them */
        while (ds_forms_report_next(forms->report, size, &at, words + before, &line)) {
                struct dsw_kernel **found =
                        bsearch(line.kernel, sorted, module->n_kernels, sizeof(*sorted), forms_order_name);
                struct dsw_kernel *kernel = found ? *found : NULL;

                if (kernel) {
                        kernel->forms = &forms->kernels[kernel - module->kernels];
                        forms_take_line(module, kernel->forms, &line);
                        kernel->sched.waits = line.waits != 0;
                        /* a kernel has the same identity with its forms in the module as without */
                        if (forms->instead)
                                kernel->sched.identity = XXH3_64bits_withSeed(
                                        kernel->info->name, strlen(kernel->info->name), forms->native);
                        forms_connect_kernel(worker, kernel);
                }
                before = at;
        }
        ds_free(forms->report);
        forms->report = DS_TAKE_PTR(words);
        worker->n_transformed += forms_has_any(module) != 0;
        return 0;
}

int dsw_forms_connect(struct dsw_session *session, struct dsw_module *module)
{
        return module->forms.instead ? forms_connect(session->worker, module) : 0;
}

static void forms_drop_pending(struct dsw_session *session, struct dsw_module *module, int status, const char *why)
{
        struct dsw_forms *forms = &module->forms;

        if (forms->fd < 0)
                return;
        forms->fd = ds_close(forms->fd);
        session->n_forms--;
        if (!session->worker->ending)
                dsw_message_answer(session->worker, forms->answer, status, "%s", why);
}

void dsw_forms_free(struct dsw_session *session, struct dsw_module *module)
{
        ds_worker *worker = session->worker;
        struct dsw_forms *forms = &module->forms;

        forms_drop_pending(session, module, DETSHARE__STATUS__NO_SUCH, "the module is gone");
        worker->n_transformed -= forms_has_any(module) != 0;
        if (forms->second)
                forms->second = worker->ops->module_unload(worker->device, forms->second);
        forms->kernels = ds_free(forms->kernels);
        forms->report = ds_free(forms->report);
        forms->why = ds_free(forms->why);
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

static void forms_ask(struct dsw_session *session, struct dsw_module *module)
{
        Detshare__Internal__FromWorker message = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__FormsWanted wanted = DETSHARE__INTERNAL__FORMS_WANTED__INIT;

        module->forms.asked = 1;
        wanted.session = session->id;
        wanted.module = module->id;
        message.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_FORMS_WANTED;
        message.forms_wanted = &wanted;
        dsw_message_send(session->worker, &message, NULL, 0);
}

/*
 * Forms are assigned at the launch, through a pointer, so a queued launch can use forms that arrive later. LS work is
 * not evicted, so it uses forms only if its own module contains them.
 */
void dsw_forms_launch(struct dsw_session *session, struct dsw_kernel *kernel, struct dsw_op *op)
{
        struct dsw_module *module = kernel->module;

        op->kernel = kernel;
        if (session->worker->transform == DS_SCHED_TRANSFORM_NEVER)
                return;
        forms_connect_kernel(session->worker, kernel);
        op->op.forms = &kernel->sched;
        if (!module->forms.asked && !module->forms.no_ptx && !module->forms.report &&
                session->class_ == DETSHARE_CLASS_BE)
                forms_ask(session, module);
}

/* --- a second module ---------------------------------------------------------------------------------------------- */

/* Whether the image of the second module may be loaded now. 0: the session continues when the load is prepared or a
 * quiesce runs. */
static int forms_may_load(struct dsw_session *session, const struct dsw_forms *forms, const void *image)
{
        ds_worker *worker = session->worker;

        if (!worker->info->stops || worker->ops->module_cached(worker->device, image, forms->bytes))
                return 1;
        if (!dsw_quiesce_runs(worker) && worker->ops->module_prepare &&
                !worker->ops->module_prepare(worker->device, forms->fd, forms->bytes)) {
                worker->n_preparing += session->forms_wait ? 0 : 1;
                session->forms_wait = 1;
                return 0;
        }
        return dsw_quiesce_may_do(session, DSW_STOP_MODULE, forms->bytes);
}

/* Loads the second image. Returns 0, STALLED, a CUDA error, or a negative errno. */
static int forms_load_bytes(struct dsw_session *session, struct dsw_forms *forms, char *log, size_t log_size)
{
        ds_worker *worker = session->worker;
        void *image = mmap(NULL, forms->bytes, PROT_READ, MAP_PRIVATE, forms->fd, 0);
        int r = DSW_WORK_E_STALLED;

        if (image == MAP_FAILED)
                return ds_error_origin(-errno);
        if (forms_may_load(session, forms, image)) {
                r = worker->ops->module_load(
                        worker->device, session->space, image, forms->bytes, log, log_size, &forms->second);
                if (!r && worker->ops->module_lies_in)
                        worker->ops->module_lies_in(worker->device, forms->second, forms->fd);
        }
        munmap(image, forms->bytes);
        return r;
}

static int forms_load(struct dsw_session *session, struct dsw_forms *forms, char *log, size_t log_size)
{
        ds_worker *worker = session->worker;

        /* even if the device has loaded the image already, the kernels in it may still have to be loaded */
        if ((!worker->info->stops || dsw_quiesce_runs(worker)) && worker->ops->module_again &&
                worker->ops->module_again(worker->device, session->space, forms->fd, forms->bytes, &forms->second) == 0)
                return 0;
        return forms_load_bytes(session, forms, log, log_size);
}

/* A module-wide reason why no kernel has a form, as one line that all its kernels share. NULL: out of memory. */
static char *forms_words(const char *why)
{
        char *words = ds_strndup(why, FORMS_WHY_MAX);

        for (char *p = words; p && *p; p++)
                if (*p < ' ')
                        *p = ' ';
        return words;
}

static void forms_try(struct dsw_session *session, struct dsw_module *module)
{
        struct dsw_forms *forms = &module->forms;
        char log[DSW_MESSAGE_MAX] = "";
        int r = forms_load(session, forms, log, sizeof(log));

        if (r == DSW_WORK_E_STALLED)
                return;
        if (!r)
                r = forms_connect(session->worker, module);
        if (r < 0)
                r = DETSHARE__STATUS__INTERNAL;
        if (r && !log[0])
                snprintf(log, sizeof(log), "it cannot be loaded");
        if (r)
                /* if the copy failed (NULL), explain says that the forms are still being made */
                forms->why = forms_words(log);
        forms_drop_pending(session, module, r, log);
}

void dsw_forms_resume(struct dsw_session *session)
{
        for (uint32_t i = 0; session->n_forms && i < session->n_module_slots; i++) {
                struct dsw_module *module = session->modules[i];

                if (module && !module->closing && module->forms.fd >= 0)
                        forms_try(session, module);
        }
}

/* Handles an answer of the supervisor that has reasons but no image that the worker could use. */
static int forms_only_words(ds_worker *worker, struct dsw_module *module, const Detshare__Internal__ModuleForms *come)
{
        struct dsw_forms *forms = &module->forms;

        if (come->bytes)
                return forms_connect(worker, module);
        ds_free(forms->why);
        forms->why = forms_words(come->why);
        return forms->why ? 0 : ds_error_origin(-ENOMEM);
}

/* Whether the report names a form that may be used from a second module: of a kernel without module variables. */
static int forms_of_use(const char *report)
{
        ds_cleanup(ds_freep) char *buffer = ds_alloc(strlen(report) + 1);
        struct ds_forms_line line;
        size_t at = 0;

        while (buffer && ds_forms_report_next(report, strlen(report), &at, buffer, &line))
                if ((line.sliced || line.persistent) && !line.variables)
                        return 1;
        return 0;
}

void dsw_forms_come(struct dsw_session *session, const Detshare__Internal__ModuleForms *come, int *fd, uint64_t answer)
{
        struct dsw_module *module = dsw_module_find(session, come->module);
        struct dsw_forms *forms = module ? &module->forms : NULL;
        int r;

        if (!forms || forms->report || forms->fd >= 0) {
                dsw_message_answer(
                        session->worker, answer, DETSHARE__STATUS__NO_SUCH, "no module waits for these forms");
                return;
        }
        r = come->bytes && *fd >= 0 ? forms_read_report(*fd, come->bytes, &forms->report, &forms->native) : 0;
        if (!r && come->bytes && !forms->report)
                r = -EINVAL;
        if (!r && forms->report && forms_of_use(forms->report)) {
                forms->fd = DS_TAKE_FD(*fd);
                forms->bytes = come->bytes;
                forms->answer = answer;
                session->n_forms++;
                forms_try(session, module);
                return;
        }
        if (!r)
                r = forms_only_words(session->worker, module, come);
        dsw_message_answer(session->worker, answer, r ? DETSHARE__STATUS__INTERNAL : 0, "%s",
                r ? "the transformed module cannot be read" : "");
}

/* --- answers to detsharectl explain ------------------------------------------------------------------------------- */

struct forms_page {
        Detshare__FormsEntry entries[FORMS_PAGE], *pointers[FORMS_PAGE];
        char names[FORMS_PAGE][FORMS_NAME_MAX + 1];
};

/* The reason why a kernel has no form, as far as the worker knows it; `why` is the report's reason for it, or NULL. */
static const char *forms_why(const ds_worker *worker, const struct dsw_kernel *kernel, const char *why)
{
        const struct dsw_forms *forms = &kernel->module->forms;

        if (worker->transform == DS_SCHED_TRANSFORM_NEVER)
                return "the daemon's setting transform is never";
        if (why)
                return why;
        if (forms->why)
                return forms->why;
        if (forms->no_ptx)
                return why_no_ptx;
        if (forms->fd >= 0)
                return "the transformed module waits to be loaded";
        return forms->asked ? "the transformed module is being made" : "no best-effort client has launched it yet";
}

static void forms_entry(ds_worker *worker, const struct dsw_kernel *kernel, Detshare__FormsEntry *entry)
{
        const struct dsw_kernel_forms *forms = kernel->forms;

        entry->module = kernel->module->id;
        entry->launches = kernel->launches;
        entry->instead = kernel->module->forms.instead != 0;
        entry->sliced = kernel->sched.sliced != NULL;
        entry->persistent = kernel->sched.persistent != NULL;
        if (!entry->sliced)
                entry->why_sliced = (char *)(uintptr_t)forms_why(worker, kernel, forms ? forms->why_sliced : NULL);
        if (!entry->persistent)
                entry->why_persistent =
                        (char *)(uintptr_t)forms_why(worker, kernel, forms ? forms->why_persistent : NULL);
}

/* Adds to an entry the form that the scheduler chose at the kernel's latest launch with a choice of forms. */
static void forms_entry_choice(ds_worker *worker, const struct dsw_kernel *kernel, Detshare__FormsEntry *entry)
{
        struct ds_sched_form_choice choice;

        if (!(entry->sliced || entry->persistent) || ds_sched_form_chosen(worker->sched, kernel->key, &choice))
                return;
        entry->chosen = (char *)(uintptr_t)ds_ptx_form_word((enum ds_ptx_form)choice.form);
        entry->why_chosen = (char *)(uintptr_t)ds_sched_form_reason(choice.reason);
        entry->native_ns = choice.native_ns;
        entry->evict_ns = choice.evict_ns;
        if (choice.costs[choice.form].samples)
                entry->cost_permille = choice.costs[choice.form].permille;
        if (choice.form != DS_PTX_FORM_NATIVE)
                entry->blocks_at_once = choice.form == DS_PTX_FORM_SLICED ? choice.slice : choice.chunk;
}

static void forms_page_add(ds_worker *worker, struct forms_page *page, size_t i, const struct dsw_kernel *kernel)
{
        Detshare__FormsEntry *entry = &page->entries[i];

        detshare__forms_entry__init(entry);
        snprintf(page->names[i], sizeof(page->names[i]), "%.*s", FORMS_NAME_MAX, kernel->info->name);
        for (char *p = page->names[i]; *p; p++)
                if (*p < ' ' || *p > '~')
                        *p = '?';
        entry->kernel = page->names[i];
        forms_entry(worker, kernel, entry);
        forms_entry_choice(worker, kernel, entry);
        page->pointers[i] = entry;
}

/*
 * Lists the kernels that the session has launched, beginning at index `after` of all its kernels. The number of kernels
 * examined is bounded, so a page may be short. Returns how many are listed; *ret_next: the index of the next page.
 */
static size_t forms_page_fill(ds_worker *worker, const struct dsw_session *session, uint32_t after,
        struct forms_page *page, uint32_t *ret_next, int *ret_more)
{
        uint32_t at = 0, looked = 0;
        size_t n = 0;

        for (uint32_t m = 0; m < session->n_module_slots; m++) {
                const struct dsw_module *module = session->modules[m];
                const uint32_t n_kernels = module ? module->n_kernels : 0;

                for (uint32_t k = after > at ? after - at : 0; k < n_kernels; k++) {
                        if (n == FORMS_PAGE || looked++ == FORMS_LOOK) {
                                *ret_next = at + k;
                                *ret_more = 1;
                                return n;
                        }
                        if (module->kernels[k].launches)
                                forms_page_add(worker, page, n++, &module->kernels[k]);
                }
                at += n_kernels;
        }
        *ret_next = at;
        return n;
}

void dsw_forms_list(ds_worker *worker, uint64_t id, const Detshare__Internal__SessionForms *ask)
{
        static const char *const modes[] = {[DS_SCHED_TRANSFORM_AUTO] = "auto",
                [DS_SCHED_TRANSFORM_ALWAYS] = "always",
                [DS_SCHED_TRANSFORM_NEVER] = "never"};
        Detshare__Internal__FromWorker answer = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__FormsList list = DETSHARE__FORMS_LIST__INIT;
        const struct dsw_session *session = dsw_session_find(worker, ask->session);
        struct forms_page page;
        int more = 0;

        if (session)
                list.n_kernels = forms_page_fill(worker, session, ask->after, &page, &list.next, &more);
        list.kernels = page.pointers;
        list.more = more;
        list.transform = (char *)(uintptr_t)modes[worker->transform];
        answer.id = id;
        answer.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_FORMS;
        answer.forms = &list;
        dsw_message_send(worker, &answer, NULL, 0);
}
