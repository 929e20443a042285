/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms of kernels in a worker: requested once, loaded beside the module, and reported
 *
 * The passes make the images. The test writes the reports behind them, in another order than the kernels', because the
 * order is not specified.
 */
#include "ptx/pass/forms_make.h"
#include "ptx/print.h"
#include "ptx/ptx.h"
#include "tests/unit/worker_harness.h"
#include "util/forms_file.h"

#define KERNELS 3
static const char *const names[KERNELS] = {"z", "a", "counts"};
static const char text[] =
        DT_PTX_HEADER ".global .u32 counter;\n"
                      ".visible .entry z(.param .u64 p)\n{\n .reg .b64 %rd; .reg .b32 %r;\n"
                      " ld.param.u64 %rd, [p]; mov.u32 %r, 1; st.u32 [%rd], %r; ret;\n}\n"
                      ".visible .entry a(.param .u64 p)\n{\n .reg .b64 %rd; .reg .b32 %r;\n"
                      " ld.param.u64 %rd, [p]; mov.u32 %r, 2; st.u32 [%rd], %r; ret;\n}\n"
                      ".visible .entry counts(.param .u64 p)\n{\n .reg .b64 %rd; .reg .b32 %r;\n"
                      " ld.param.u64 %rd, [p]; atom.global.add.u32 %r, [counter], 1; st.u32 [%rd], %r; ret;\n}\n";

/* The module with all forms; the caller frees it. */
static char *transformed(size_t *ret_size)
{
        static struct ds_ptx_form_verdict verdicts[16];
        static struct ds_ptx_diags diags;
        struct ds_ptx_module *module, *made;
        char *out = NULL;
        FILE *file = open_memstream(&out, ret_size);

        cr_assert_eq(ds_ptx_parse(text, strlen(text), 0, &diags, &module), 0);
        cr_assert_eq(ds_ptx_forms_make(module, 0, &diags, &made, verdicts), 0);
        cr_assert_eq(verdicts[2].variables, 1);
        cr_assert_eq(ds_ptx_print(made, file), 0);
        cr_assert_eq(fclose(file), 0);
        ds_ptx_module_free(made);
        ds_ptx_module_free(module);
        return out;
}

/* Appends the report to the image, with the last kernel first. */
static int image_with_report(const char *image, size_t size)
{
        struct ds_forms_report report = {0};
        int fd = memfd_create("forms", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        for (int i = KERNELS; i-- > 0;) {
                const struct ds_forms_line line = {.kernel = names[i],
                        .sliced = 1,
                        .persistent = 1,
                        .variables = i == 2,
                        .why_sliced = "",
                        .why_persistent = ""};

                cr_assert_eq(ds_forms_report_add(&report, &line), 0);
        }
        cr_assert_eq(ds_forms_report_end(&report, 7), 0);
        cr_assert_eq(write(fd, image, size), (ssize_t)size);
        cr_assert_eq(write(fd, report.text, report.size), (ssize_t)report.size);
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL), 0);
        ds_free(report.text);
        return fd;
}

/* Number of messages in which the worker requested forms of a module. */
static int wanted(struct wt *t, uint64_t module)
{
        wt_answer *answer;
        int n = 0;

        while ((answer = wt_take(t, 0))) {
                if (answer->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_FORMS_WANTED) {
                        cr_assert_eq(answer->forms_wanted->module, module);
                        n++;
                }
                wt_free(answer);
        }
        return n;
}

static int come(struct wt *t, const struct wt_client *client, uint64_t module, const char *image, size_t size)
{
        Detshare__Internal__ModuleForms forms = DETSHARE__INTERNAL__MODULE_FORMS__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        int fd = image_with_report(image, size), status;

        forms.session = client->id;
        forms.module = module;
        forms.bytes = size;
        forms.why = (char *)(uintptr_t) "";
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_MODULE_FORMS;
        message.module_forms = &forms;
        status = wt_status(t, wt_send(t, &message, &fd, 1));
        close(fd);
        return status;
}

/* Lists the forms of the session's kernels, which fit into one page. */
static wt_answer *list(struct wt *t, const struct wt_client *client)
{
        Detshare__Internal__SessionForms ask = DETSHARE__INTERNAL__SESSION_FORMS__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        wt_answer *answer;

        ask.session = client->id;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SESSION_FORMS;
        message.session_forms = &ask;
        answer = wt_wait(t, wt_send(t, &message, NULL, 0));
        cr_assert_eq(answer->body_case, DETSHARE__INTERNAL__FROM_WORKER__BODY_FORMS);
        cr_assert_eq(answer->forms->n_kernels, KERNELS);
        for (int i = 0; i < KERNELS; i++)
                cr_assert_str_eq(answer->forms->kernels[i]->kernel, names[i]);
        return answer;
}

static struct wt_client begin(struct wt *t, Detshare__Class class_, uint64_t *ret_module, uint64_t kernels[KERNELS])
{
        struct wt_client client = wt_client(t, 1, class_);

        wt_attach(t, &client);
        cr_assert_eq(wt_module(t, &client, text, ret_module), 0);
        for (int i = 0; i < KERNELS; i++)
                kernels[i] = wt_kernel(t, &client, *ret_module, names[i]);
        return client;
}

/* Launches each kernel twice and checks the last written values. */
static void launch_all(struct wt *t, struct wt_client *client, const uint64_t kernels[KERNELS], uint32_t counted)
{
        uint32_t words[KERNELS];
        uint64_t p, at;

        cr_assert_eq(wt_alloc(t, client, 4096, &p), 0);
        for (int i = 0; i < 2 * KERNELS; i++) {
                at = p + (uint64_t)(i % KERNELS) * 4;
                wt_push_launch(client, 0, kernels[i % KERNELS], 1, 1, &at, sizeof(at));
        }
        cr_assert_eq(wt_sync_all(t, client), 0);
        cr_assert_eq(wt_read(t, client, words, p, sizeof(words)), 0);
        cr_assert_eq(words[0], 1);
        cr_assert_eq(words[1], 2);
        cr_assert_eq(words[2], counted);
}

/* The second module provides forms only for kernels without variables; variables continue counting in the first
 * module. */
Test(worker_forms, beside_the_module)
{
        struct wt *t = wt_open(FUNCTIONAL);
        uint64_t module, kernels[KERNELS];
        struct wt_client client = begin(t, DETSHARE__CLASS__BE, &module, kernels);
        size_t size;
        char *image = transformed(&size);
        wt_answer *said;

        cr_assert_eq(wanted(t, module), 0);
        launch_all(t, &client, kernels, 1);
        cr_assert_eq(wanted(t, module), 1, "once for all launches");
        cr_assert_eq(come(t, &client, module, image, size), 0);
        launch_all(t, &client, kernels, 3);
        cr_assert_eq(wanted(t, module), 0);
        said = list(t, &client);
        for (int i = 0; i < KERNELS; i++) {
                cr_assert_eq(said->forms->kernels[i]->sliced, i != 2, "%s", names[i]);
                cr_assert_eq(said->forms->kernels[i]->persistent, i != 2, "%s", names[i]);
        }
        cr_assert_not_null(strstr(said->forms->kernels[2]->why_persistent, "variables of its module"));
        wt_free(said);
        cr_assert_eq(wt_worker_stats(t).modules_transformed, 1);
        cr_assert_eq(come(t, &client, module, image, size), DETSHARE__STATUS__NO_SUCH, "it has them");
        free(image);
        wt_client_close(t, &client);
        cr_assert_eq(wt_worker_stats(t).modules_transformed, 0);
        wt_close(t);
}

/* The image with forms cannot be loaded: kernels stay native, and the reason is reported. */
Test(worker_forms, that_cannot_be_loaded)
{
        struct wt *t = wt_open(FUNCTIONAL);
        uint64_t module, kernels[KERNELS];
        struct wt_client client = begin(t, DETSHARE__CLASS__BE, &module, kernels);
        wt_answer *said;

        launch_all(t, &client, kernels, 1);
        said = list(t, &client);
        cr_assert_str_eq(said->forms->kernels[0]->why_persistent, "the transformed module is being made");
        wt_free(said);
        cr_assert_neq(come(t, &client, module, "no module", 9), 0);
        launch_all(t, &client, kernels, 3);
        cr_assert_eq(wanted(t, module), 1, "not again");
        said = list(t, &client);
        for (int i = 0; i < KERNELS; i++) {
                cr_assert_eq(said->forms->kernels[i]->persistent, 0);
                cr_assert_str_neq(said->forms->kernels[i]->why_persistent, "the transformed module is being made");
                cr_assert_neq(said->forms->kernels[i]->why_persistent[0], 0);
                cr_assert_null(strchr(said->forms->kernels[i]->why_persistent, '\n'));
        }
        wt_free(said);
        cr_assert_eq(wt_worker_stats(t).modules_transformed, 0);
        wt_client_close(t, &client);
        wt_close(t);
}

/* No forms are requested for kernels that only LS launches, because LS is never evicted. */
Test(worker_forms, are_for_best_effort)
{
        struct wt *t = wt_open(FUNCTIONAL);
        uint64_t module, kernels[KERNELS];
        struct wt_client client = begin(t, DETSHARE__CLASS__LS, &module, kernels);

        launch_all(t, &client, kernels, 1);
        cr_assert_eq(wanted(t, module), 0);
        wt_client_close(t, &client);
        wt_close(t);
}

/* No forms are requested for a module whose image has no PTX, and the reason is reported. */
Test(worker_forms, are_not_requested_without_ptx)
{
        struct wt *t = wt_open(FUNCTIONAL);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        WT_REQUEST(request, MODULE_LOAD, module_load, ModuleLoad, MODULE_LOAD, .bytes = strlen(text));
        Detshare__Internal__Call call = DETSHARE__INTERNAL__CALL__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        int fd = wt_image(text);
        uint64_t module, kernels[KERNELS];
        wt_answer *answer;

        wt_attach(t, &client);
        call.session = client.id;
        call.request = &request;
        call.no_ptx = 1;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_CALL;
        message.call = &call;
        answer = wt_wait(t, wt_send(t, &message, &fd, 1));
        close(fd);
        cr_assert_eq(answer->status, 0);
        module = answer->reply->module_load->module;
        wt_free(answer);
        for (int i = 0; i < KERNELS; i++)
                kernels[i] = wt_kernel(t, &client, module, names[i]);
        launch_all(t, &client, kernels, 1);
        cr_assert_eq(wanted(t, module), 0);
        answer = list(t, &client);
        for (int i = 0; i < KERNELS; i++)
                cr_assert_str_eq(answer->forms->kernels[i]->why_persistent, "the module has no PTX");
        wt_free(answer);
        wt_client_close(t, &client);
        wt_close(t);
}

/* A session with thousands of kernels is listed in pages, also where a page has no entries. */
Test(worker_forms, are_listed_in_pages)
{
        enum { MANY = 9000 };
        static const uint32_t launched[] = {7, 5000, MANY - 1};
        struct wt *t = wt_open(FUNCTIONAL);
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        Detshare__Internal__SessionForms ask = DETSHARE__INTERNAL__SESSION_FORMS__INIT;
        uint32_t pages = 0, found = 0;
        char *many = NULL, name[16];
        size_t length = 0;
        FILE *out = open_memstream(&many, &length);
        uint64_t module;
        bool more = true;

        fprintf(out, ".version 7.0\n.target sm_70\n.address_size 64\n");
        for (uint32_t i = 0; i < MANY; i++)
                fprintf(out, ".visible .entry k%u()\n{\n\tret;\n}\n", i);
        fclose(out);
        wt_attach(t, &client);
        cr_assert_eq(wt_module(t, &client, many, &module), 0);
        free(many);
        for (size_t i = 0; i < DS_ARRAY_SIZE(launched); i++) {
                snprintf(name, sizeof(name), "k%u", launched[i]);
                wt_push_launch(&client, 0, wt_kernel(t, &client, module, name), 1, 1, NULL, 0);
        }
        cr_assert_eq(wt_sync_all(t, &client), 0);
        for (ask.session = client.id; more; pages++) {
                wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
                wt_answer *answer;

                message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SESSION_FORMS;
                message.session_forms = &ask;
                answer = wt_wait(t, wt_send(t, &message, NULL, 0));
                for (size_t i = 0; i < answer->forms->n_kernels; i++) {
                        snprintf(name, sizeof(name), "k%u", launched[found++]);
                        cr_assert_str_eq(answer->forms->kernels[i]->kernel, name);
                }
                more = answer->forms->more;
                cr_assert(!more || answer->forms->next > ask.after);
                ask.after = answer->forms->next;
                wt_free(answer);
        }
        cr_assert_eq(found, DS_ARRAY_SIZE(launched));
        cr_assert_eq(pages, 3);
        wt_client_close(t, &client);
        wt_close(t);
}
