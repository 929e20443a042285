/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms of kernels in the helper: the transformed image with its report, cached in memory and on disk. Where no form is
 * possible the image stays unchanged, and a request for forms alone returns nothing else.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "helper/forms.h"
#include "helper/jobs.h"
#include "util/alloc.h"
#include "util/code_file.h"
#include "util/forms_file.h"
#include "util/macro.h"

#define HEADER ".version 7.0\n.target sm_70\n.address_size 64\n"

/* Both kernels allow both forms, but a second copy of the module for the forms would have another counter. */
static const char image[] = HEADER ".global .u32 counter;\n"
                                   ".visible .entry plain(.param .u64 p)\n{\n .reg .b64 %d<3>;\n .reg .b32 %r<2>;\n"
                                   " ld.param.u64 %d1, [p];\n mov.u32 %r1, %ctaid.x;\n st.u32 [%d1], %r1;\n ret;\n}\n"
                                   ".visible .entry counts()\n{\n .reg .b32 %r<2>;\n ld.global.u32 %r1, [counter];\n"
                                   " add.u32 %r1, %r1, 1;\n st.global.u32 [counter], %r1;\n ret;\n}\n";

static struct ds_check_result answer;
static int n_answers;
static const struct ds_ptxas no_compiler = {.missing = "there is no ptxas here"};

static int on_answer(void *user, uint64_t id, const struct ds_check_result *result)
{
        answer = *result;
        answer.fd = result->fd >= 0 ? dup(result->fd) : -1;
        n_answers++;
        return 0;
}

static const struct ds_jobs_ops ops = {.answer = on_answer};

static ds_jobs *jobs_new(void)
{
        ds_jobs *jobs;

        cr_assert_eq(ds_jobs_new(&no_compiler, &ops, NULL, &jobs), 0);
        return jobs;
}

static void run(ds_jobs *jobs)
{
        struct pollfd fds[DS_JOBS_POLLFDS];
        int timeout;

        while (!n_answers) {
                size_t n = ds_jobs_poll(jobs, fds, &timeout);

                cr_assert_gt(n, 0, "nothing runs and nothing was answered");
                cr_assert_geq(poll(fds, n, timeout), 0);
                cr_assert_eq(ds_jobs_step(jobs), 0);
        }
        cr_assert_eq(n_answers, 1);
}

static void ask_text(ds_jobs *jobs, const char *text, enum ds_jobs_forms forms, int simulated)
{
        const struct ds_jobs_request request = {
                .id = 1, .bytes = strlen(text), .cc = 90, .simulated = simulated, .forms = forms};
        int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
        n_answers = 0;
        answer.fd = ds_close(answer.fd > 0 ? answer.fd : -1);
        cr_assert_eq(ds_jobs_take(jobs, &request, fd), 0);
        close(fd);
        run(jobs);
}

static void ask(ds_jobs *jobs, enum ds_jobs_forms forms)
{
        ask_text(jobs, image, forms, 1);
}

/* Reads the whole file of the answer, which is the image with the report; the test then reads the report's lines in
 * turn. */
static char *file_of_answer(void)
{
        const size_t size = answer.bytes + answer.report_bytes;
        char *bytes = calloc(1, size + 1);

        cr_assert_eq(pread(answer.fd, bytes, size, 0), (ssize_t)size);
        return bytes;
}

static void check_transformed(void)
{
        char *file = file_of_answer(), *report = file + answer.bytes, buffer[4096];
        struct ds_forms_line line;
        size_t at = 0;

        cr_assert_eq(answer.status, 0, "%s", answer.message);
        cr_assert_gt(answer.report_bytes, DS_FORMS_TRAILER_BYTES);
        cr_assert_eq(ds_forms_file_report(file, answer.bytes + answer.report_bytes), answer.report_bytes);
        cr_assert_not_null(memmem(file, answer.bytes, "plain__ds_sliced", 16));
        cr_assert_not_null(memmem(file, answer.bytes, "plain__ds_persistent", 20));
        cr_assert(ds_forms_report_next(report, answer.report_bytes - DS_FORMS_TRAILER_BYTES, &at, buffer, &line));
        cr_assert_str_eq(line.kernel, "plain");
        cr_assert(line.sliced && line.persistent && !line.variables && !line.why_sliced[0]);
        cr_assert(ds_forms_report_next(report, answer.report_bytes - DS_FORMS_TRAILER_BYTES, &at, buffer, &line));
        cr_assert_str_eq(line.kernel, "counts");
        cr_assert(line.variables);
        cr_assert_not(ds_forms_report_next(report, answer.report_bytes - DS_FORMS_TRAILER_BYTES, &at, buffer, &line));
        free(file);
}

Test(helper_forms, made_once)
{
        ds_jobs *jobs = jobs_new();

        ask(jobs, DS_JOBS_STORED);
        cr_assert(answer.status == 0 && answer.report_bytes == 0, "nobody has made it yet");
        ask(jobs, DS_JOBS_ONLY);
        check_transformed();
        cr_assert_eq(answer.origin, DS_CHECK_COMPILED);
        ask(jobs, DS_JOBS_STORED);
        check_transformed();
        cr_assert_eq(answer.origin, DS_CHECK_REMEMBERED);
        ask(jobs, DS_JOBS_MADE);
        check_transformed();
        cr_assert_eq(answer.origin, DS_CHECK_REMEMBERED);
        ask(jobs, DS_JOBS_NATIVE);
        cr_assert(answer.status == 0 && answer.report_bytes == 0 && answer.bytes == strlen(image));
        ds_jobs_free(jobs);
}

/* Sessions that load the same image get the same file, so that a device loads it once. */
Test(helper_forms, one_file_for_all)
{
        ds_jobs *jobs = jobs_new();
        struct stat first, second;

        ask(jobs, DS_JOBS_MADE);
        cr_assert_eq(fstat(answer.fd, &first), 0);
        ask(jobs, DS_JOBS_ONLY);
        cr_assert_eq(fstat(answer.fd, &second), 0);
        cr_assert_eq(first.st_ino, second.st_ino);
        ds_jobs_free(jobs);
}

Test(helper_forms, on_disk)
{
        char path[] = "/tmp/detshare-forms.XXXXXX", name[DS_CODE_NAME_MAX];
        ds_jobs *jobs = jobs_new();
        uint64_t bytes;
        int directory;

        cr_assert_not_null(mkdtemp(path));
        directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ask(jobs, DS_JOBS_MADE);
        cr_assert_eq(
                ds_code_file_write(directory, answer.key, answer.fd, answer.bytes + answer.report_bytes, &bytes), 0);
        ds_code_file_name(answer.key, name);
        ds_jobs_free(jobs);
        jobs = jobs_new();
        ds_jobs_set_directory(jobs, dup(directory), (uint32_t)geteuid());
        ask(jobs, DS_JOBS_STORED);
        check_transformed();
        cr_assert_eq(answer.origin, DS_CHECK_STORED);
        ds_jobs_free(jobs);
        cr_assert_eq(unlinkat(directory, name, 0), 0);
        close(directory);
        cr_assert_eq(rmdir(path), 0);
}

Test(helper_forms, none)
{
        ds_jobs *jobs = jobs_new();

        /* nothing compiles here, so there is no PTX for a GPU: a request for forms alone gets this message */
        ask_text(jobs, image, DS_JOBS_ONLY, 0);
        cr_assert_eq(answer.status, DS_CHECK_NO_COMPILER);
        cr_assert_not_null(strstr(answer.message, "there is no ptxas here"));
        /* an invalid text is refused, whatever was requested */
        ask_text(jobs, HEADER ".visible .entry broken()\n{\n frob;\n}\n", DS_JOBS_MADE, 1);
        cr_assert_eq(answer.status, DS_CHECK_INVALID_PTX);
        ask_text(jobs, HEADER ".visible .entry broken()\n{\n frob;\n}\n", DS_JOBS_ONLY, 1);
        cr_assert_eq(answer.status, DS_CHECK_INVALID_PTX);
        ds_jobs_free(jobs);
}

/* Cancelling a job ends the process that makes its forms. */
Test(helper_forms, cancelled)
{
        const struct ds_jobs_request request = {
                .id = 7, .bytes = strlen(image), .cc = 90, .simulated = 1, .forms = DS_JOBS_ONLY};
        int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        ds_jobs *jobs = jobs_new();

        cr_assert_eq(write(fd, image, strlen(image)), (ssize_t)strlen(image));
        n_answers = 0;
        cr_assert_eq(ds_jobs_take(jobs, &request, fd), 0);
        cr_assert_eq(n_answers, 0);
        cr_assert_eq(ds_jobs_cancel(jobs, 7), 0);
        cr_assert_eq(n_answers, 1);
        cr_assert_neq(answer.status, 0);
        cr_assert_eq(answer.fd, -1, "the first answer of all, and it has a file");
        cr_assert_not(ds_jobs_full(jobs));
        ds_jobs_free(jobs);
        close(fd);
}

/* The process that makes forms has a limit of processor time and is ended beyond it; the test ends it by the same
 * signal at once. */
Test(helper_forms, too_much_of_a_processor)
{
        struct ds_check_result result = {.fd = -1};
        size_t text, size;
        char *bytes;

        for (int i = 0; i < 1000 && result.status == 0; i++) {
                struct pollfd fd = {.events = POLLIN};
                ds_forms *forms;

                cr_assert_eq(ds_forms_new(image, strlen(image), &forms), 0);
                fd.fd = ds_forms_process_fd(forms);
                (void)syscall(SYS_pidfd_send_signal, fd.fd, SIGXCPU, NULL, 0); /* it may have ended already */
                cr_assert_eq(poll(&fd, 1, 60000), 1);
                cr_assert_eq(ds_forms_step(forms, 0), 1);
                bytes = ds_forms_result(forms, &result, &text, &size);
                cr_assert_eq(bytes == NULL, result.status != 0);
                ds_free(bytes);
                ds_forms_free(forms);
        }
        cr_assert(strstr(result.message, "took more than 10 s of processor time"), "%s", result.message);
}

/* Reading stops at the first line of a report that makes no sense. */
Test(helper_forms, reports_that_make_no_sense)
{
        static const char cut[] = "k\tsp--\t\n", flags[] = "k\tspwvx\ta\tb\n", none[] = "k";
        const char *const reports[] = {cut, flags, none};
        struct ds_forms_line line;
        char buffer[64];

        for (size_t i = 0; i < DS_ARRAY_SIZE(reports); i++) {
                size_t at = 0;

                cr_assert_not(ds_forms_report_next(reports[i], strlen(reports[i]), &at, buffer, &line));
        }
        cr_assert_eq(ds_forms_file_report("too short", 9), 0);
}
