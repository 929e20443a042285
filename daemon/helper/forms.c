/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/forms.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "helper/child.h"
#include "ptx/ir.h"
#include "ptx/pass/forms_make.h"
#include "ptx/ptx.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/forms_file.h"
#include "util/macro.h"

#define CHILD_NICE 10
#define CHILD_MEMORY DS_GIB(2) /* address space of the child, including the helper's own part */
#define CHILD_ARENA DS_MIB(512)
#define CHILD_OUT_MAX DS_CHECK_IMAGE_MAX
#define CHILD_FAILED 1 /* exit status of a child whose file contains the reason of its failure */

/* Header of the child's file, followed by the text, the report and its trailer, or by the reason of a failure. */
struct out_header {
        uint64_t text_bytes, report_bytes;
};

struct ds_forms {
        struct ds_child child;
        int out_fd;
};

/* --- child process ------------------------------------------------------------------------------------------------ */

static void child_limit(int resource, uint64_t value, uint64_t most)
{
        struct rlimit limit;

        if (getrlimit((__rlimit_resource_t)resource, &limit) < 0)
                return;
        limit.rlim_max = DS_MIN(limit.rlim_max, (rlim_t)most);
        limit.rlim_cur = DS_MIN(limit.rlim_max, (rlim_t)value);
        (void)setrlimit((__rlimit_resource_t)resource, &limit);
}

static void child_fence(pid_t parent)
{
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(CHILD_FAILED);
#ifndef __SANITIZE_ADDRESS__ /* no such limit with AddressSanitizer, which reserves terabytes of addresses */
        child_limit(RLIMIT_AS, CHILD_MEMORY, CHILD_MEMORY);
#endif
        child_limit(RLIMIT_FSIZE, CHILD_OUT_MAX, CHILD_OUT_MAX);
        child_limit(RLIMIT_CPU, DS_FORMS_CPU_S, DS_FORMS_CPU_S + 1);
        if (nice(CHILD_NICE) < 0)
                errno = 0;
}

_Noreturn static void child_fails(FILE *out, const char *why)
{
        const struct out_header header = {0};

        rewind(out);
        if (fwrite(&header, sizeof(header), 1, out) == 1)
                fputs(why, out);
        fflush(out);
        _exit(CHILD_FAILED);
}

/* Writes why a kernel has no form, with the line of the PTX. */
static const char *reason_of(const struct ds_ptx_form_fate *fate, char text[static 256])
{
        if (fate->made)
                return "";
        if (fate->line)
                snprintf(text, 256, "line %u: %s", fate->line, fate->reason);
        else
                snprintf(text, 256, "%s", fate->reason);
        for (char *p = text; *p; p++)
                if (*p == '\t' || *p == '\n')
                        *p = ' ';
        return text;
}

static int report_kernel(
        struct ds_forms_report *report, const struct ds_ptx_function *kernel, const struct ds_ptx_form_verdict *verdict)
{
        const struct ds_ptx_form_fate *sliced = &verdict->forms[DS_PTX_FORM_SLICED];
        const struct ds_ptx_form_fate *persistent = &verdict->forms[DS_PTX_FORM_PERSISTENT];
        char why_sliced[256], why_persistent[256];
        const struct ds_forms_line line = {
                .kernel = kernel->name,
                .sliced = sliced->made,
                .persistent = persistent->made,
                .waits = verdict->waits,
                .variables = verdict->variables,
                .why_sliced = reason_of(sliced, why_sliced),
                .why_persistent = reason_of(persistent, why_persistent),
        };

        return ds_forms_report_add(report, &line);
}

static int report_all(struct ds_forms_report *report, const struct ds_ptx_module *module,
        const struct ds_ptx_form_verdict *verdicts, uint64_t native)
{
        int r = 0;

        for (uint32_t i = 0; i < module->n_functions && !r; i++)
                if (verdicts[i].forms[DS_PTX_FORM_NATIVE].made)
                        r = report_kernel(report, module->functions[i], &verdicts[i]);
        return r ? r : ds_forms_report_end(report, native);
}

static int child_write(FILE *out, const struct ds_ptx_module *native, const struct ds_ptx_module *made,
        const struct ds_ptx_form_verdict *verdicts, uint64_t hash)
{
        struct out_header header = {0};
        struct ds_forms_report report = {0};
        long end;
        int r = report_all(&report, native, verdicts, hash);

        if (!r && (fwrite(&header, sizeof(header), 1, out) != 1 || ds_ptx_print(made, out)))
                r = -EIO;
        end = r ? -1 : ftell(out);
        if (!r && (end < 0 || fwrite(report.text, report.size, 1, out) != 1))
                r = -EIO;
        header.text_bytes = end < 0 ? 0 : (uint64_t)end - sizeof(header);
        header.report_bytes = report.size;
        if (!r && (fseek(out, 0, SEEK_SET) < 0 || fwrite(&header, sizeof(header), 1, out) != 1 || fflush(out)))
                r = -EIO;
        ds_free(report.text);
        return r;
}

/* Makes the forms in the child. Frees no memory, because the process ends afterwards. */
_Noreturn static void child_make(const char *text, size_t length, FILE *out)
{
        struct ds_ptx_diags *diags = ds_alloc0(1, sizeof(*diags));
        struct ds_ptx_form_verdict *verdicts = NULL;
        struct ds_ptx_module *module = NULL, *made = NULL;
        char words[1024];
        int r = diags ? ds_ptx_parse(text, length, CHILD_ARENA, diags, &module) : -ENOMEM;

        if (!r) {
                verdicts = ds_alloc0(DS_MAX(module->n_functions, 1u), sizeof(*verdicts));
                r = verdicts ? ds_ptx_forms_make(module, CHILD_ARENA, diags, &made, verdicts) : -ENOMEM;
        }
        if (!r)
                r = child_write(out, module, made, verdicts, XXH3_64bits(text, length));
        if (!r)
                _exit(0);
        if (r < 0)
                child_fails(
                        out, r == -ENOMEM ? "the module is too large" : "its forms could not be written to their file");
        ds_ptx_diags_format(diags, "ptx", words, sizeof(words));
        child_fails(out, words);
}

/* --- parent process ----------------------------------------------------------------------------------------------- */

int ds_forms_new(const char *text, size_t length, ds_forms **ret)
{
        ds_cleanup(ds_forms_freep) ds_forms *forms = ds_alloc0(1, sizeof(*forms));
        const pid_t parent = getpid();
        int r;
        FILE *out;

        if (!forms)
                return ds_error_origin(-ENOMEM);
        ds_child_init(&forms->child, DS_FORMS_TIME_MS);
        forms->out_fd = memfd_create("detshare-forms", MFD_CLOEXEC);
        if (forms->out_fd < 0)
                return ds_error_origin(-errno);
        forms->child.pid = fork();
        if (forms->child.pid < 0)
                return ds_error_origin(-errno);
        if (forms->child.pid == 0) {
                child_fence(parent);
                out = fdopen(forms->out_fd, "w");
                if (!out)
                        _exit(CHILD_FAILED);
                child_make(text, length, out);
        }
        r = ds_child_watch(&forms->child);
        if (r)
                return ds_error_trace(r);
        *ret = DS_TAKE_PTR(forms);
        return 0;
}

ds_forms *ds_forms_free(ds_forms *forms)
{
        if (!forms)
                return NULL;
        ds_child_end(&forms->child);
        ds_close(forms->out_fd);
        return ds_free(forms);
}

int ds_forms_process_fd(const ds_forms *forms)
{
        return forms->child.process_fd;
}

uint64_t ds_forms_deadline_ns(const ds_forms *forms)
{
        return forms->child.deadline_ns;
}

int ds_forms_step(ds_forms *forms, uint64_t now_ns)
{
        return ds_child_step(&forms->child, now_ns);
}

/* Reads the child's file behind its header and adds a NUL. Returns NULL if the content is invalid or there is no
 * memory. */
static char *forms_read(const ds_forms *forms, struct out_header *ret_header, size_t *ret_size)
{
        ds_cleanup(ds_freep) char *bytes = NULL;
        size_t size, got = 0;
        struct stat st;

        if (fstat(forms->out_fd, &st) < 0 || (uint64_t)st.st_size < sizeof(*ret_header) ||
                (uint64_t)st.st_size > CHILD_OUT_MAX ||
                pread(forms->out_fd, ret_header, sizeof(*ret_header), 0) != sizeof(*ret_header))
                return NULL;
        size = (size_t)st.st_size - sizeof(*ret_header);
        bytes = ds_alloc(size + 1);
        while (bytes && got < size) {
                ssize_t n = pread(forms->out_fd, bytes + got, size - got, (off_t)(sizeof(*ret_header) + got));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return NULL;
                got += (size_t)n;
        }
        if (!bytes)
                return NULL;
        bytes[size] = 0;
        *ret_size = size;
        return DS_TAKE_PTR(bytes);
}

static void forms_failed(const ds_forms *forms, const char *words, struct ds_check_result *result)
{
        if (forms->child.late)
                ds_check_fail(result, DS_CHECK_INVALID_PTX,
                        "making forms of its kernels took longer than %u ms, the limit", DS_FORMS_TIME_MS);
        else if (WIFSIGNALED(forms->child.status) && WTERMSIG(forms->child.status) == SIGXCPU)
                ds_check_fail(result, DS_CHECK_INVALID_PTX,
                        "making forms of its kernels took more than %u s of processor time, the limit", DS_FORMS_CPU_S);
        else if (WIFSIGNALED(forms->child.status))
                ds_check_fail(result, DS_CHECK_INVALID_PTX, "making forms of its kernels ended with signal %d",
                        WTERMSIG(forms->child.status));
        else
                ds_check_fail(result, DS_CHECK_INVALID_PTX, "no forms of its kernels could be made: %.900s",
                        words && words[0] ? words : "the reason is not known");
}

char *ds_forms_result(const ds_forms *forms, struct ds_check_result *result, size_t *ret_text, size_t *ret_size)
{
        ds_cleanup(ds_freep) char *bytes = NULL;
        struct out_header header = {0};
        size_t size = 0;

        assert(forms->child.over);
        bytes = forms_read(forms, &header, &size);
        if (bytes && WIFEXITED(forms->child.status) && WEXITSTATUS(forms->child.status) == 0 && header.text_bytes &&
                header.report_bytes && header.text_bytes < size && header.report_bytes == size - header.text_bytes &&
                ds_forms_file_report(bytes, size) == header.report_bytes) {
                *ret_text = (size_t)header.text_bytes;
                *ret_size = size;
                return DS_TAKE_PTR(bytes);
        }
        forms_failed(forms, bytes, result);
        return NULL;
}
