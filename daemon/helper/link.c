/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/link.h"

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

#include "helper/child.h"
#include "helper/link_child.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/fd.h"
#include "util/macro.h"

#define CHILD_NICE 10
#define CHILD_OUT_MAX (DS_CHECK_IMAGE_MAX + DS_MIB(1)) /* the image, its messages and the header */
#define CHILD_FAILED 1                                 /* exit status of a child that could not write its file */
#define FD_HIGH 16

/* Header of the child's file, followed by the image and the messages. */
struct out_header {
        uint64_t status, image_bytes, message_bytes;
};

struct ds_link {
        struct ds_child child;
        int out_fd;
};

/* --- the file ----------------------------------------------------------------------------------------------------- */

static int input_is_good(const struct ds_link_input *input, size_t first, size_t size)
{
        return input->kind < _DS_LINK_KIND_MAX && input->offset >= first && input->offset % 16 == 0 && input->size &&
               input->offset <= size && input->size <= size - input->offset &&
               memchr(input->name, 0, sizeof(input->name));
}

int ds_link_check(const void *bytes, size_t size, struct ds_check_result *result)
{
        const struct ds_link_file *file = bytes;
        const struct ds_link_input *inputs = (const void *)(file + 1);
        size_t first;

        if (size < sizeof(*file) || file->magic != DS_LINK_MAGIC || file->version != DS_WIRE_VERSION ||
                file->bytes != size || !file->n_inputs || file->n_inputs > DS_LINK_INPUTS_MAX) {
                ds_check_fail(result, DS_CHECK_INVALID_VALUE,
                        "the file of inputs to link is invalid: it must have a header and 1 to %u inputs",
                        DS_LINK_INPUTS_MAX);
                return -1;
        }
        first = sizeof(*file) + file->n_inputs * sizeof(*inputs);
        for (uint32_t i = 0; i < file->n_inputs; i++) {
                if (first <= size && input_is_good(&inputs[i], first, size))
                        continue;
                ds_check_fail(result, DS_CHECK_INVALID_VALUE, "input %u of %u to link lies outside of its file", i + 1,
                        file->n_inputs);
                return -1;
        }
        return 0;
}

const struct ds_link_input *ds_link_inputs(const void *bytes, uint32_t *ret_n)
{
        const struct ds_link_file *file = bytes;

        *ret_n = file->n_inputs;
        return (const void *)(file + 1);
}

/* --- child process ------------------------------------------------------------------------------------------------ */

static void child_limit(int resource, uint64_t most)
{
        struct rlimit limit;

        if (getrlimit((__rlimit_resource_t)resource, &limit) < 0)
                return;
        limit.rlim_max = limit.rlim_cur = DS_MIN(limit.rlim_max, (rlim_t)most);
        (void)setrlimit((__rlimit_resource_t)resource, &limit);
}

/* Gives up descriptors and rights. The child keeps its two files only; both are above FD_HIGH and become 3 and 4. */
static void child_fence(pid_t parent, int out, int words)
{
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || null < 0 || dup2(null, 0) < 0 || dup2(words, 1) < 0 || dup2(words, 2) < 0)
                _exit(CHILD_FAILED);
        if (dup2(out, 3) < 0 || dup2(words, 4) < 0 || close_range(5, ~0U, 0) < 0)
                _exit(CHILD_FAILED);
        signal(SIGPIPE, SIG_DFL);
        child_limit(RLIMIT_CORE, 0);
        child_limit(RLIMIT_FSIZE, CHILD_OUT_MAX);
        child_limit(RLIMIT_CPU, DS_LINK_CPU_S);
        if (nice(CHILD_NICE) < 0)
                errno = 0;
}

_Noreturn static void child_link(const struct ds_link_work *work)
{
        static struct ds_check_result result;
        size_t size = 0;
        const void *image = ds_link_work_do(work, &result, &size);
        const struct out_header header = {.status = image ? 0 : (uint64_t)result.status,
                .image_bytes = image ? size : 0,
                .message_bytes = strlen(result.message)};

        if (ds_write_all(3, &header, sizeof(header)) < 0 || (image && ds_write_all(3, image, size) < 0) ||
                ds_write_all(3, result.message, header.message_bytes) < 0)
                _exit(CHILD_FAILED);
        _exit(0);
}

/* --- parent process ----------------------------------------------------------------------------------------------- */

static int high_file(const char *name)
{
        int low = memfd_create(name, MFD_CLOEXEC), high;

        high = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, FD_HIGH);
        ds_close(low);
        return high;
}

int ds_link_new(
        const void *bytes, uint32_t cc, int simulated, int only_read, const struct ds_nvjitlink *library, ds_link **ret)
{
        ds_cleanup(ds_link_freep) ds_link *link = ds_alloc0(1, sizeof(*link));
        ds_cleanup(ds_closep) int words = high_file("detshare-link-words");
        const struct ds_link_work work = {.bytes = bytes,
                .cc = cc,
                .simulated = simulated,
                .only_read = only_read,
                .library = library,
                .words_fd = 4};
        const pid_t parent = getpid();
        int r;

        if (!link)
                return ds_error_origin(-ENOMEM);
        ds_child_init(&link->child, DS_LINK_TIME_MS);
        link->out_fd = high_file("detshare-linked");
        if (words < 0 || link->out_fd < 0)
                return ds_error_origin(-errno);
        link->child.pid = fork();
        if (link->child.pid < 0)
                return ds_error_origin(-errno);
        if (link->child.pid == 0) {
                child_fence(parent, link->out_fd, words);
                child_link(&work);
        }
        r = ds_child_watch(&link->child);
        if (r)
                return ds_error_trace(r);
        *ret = DS_TAKE_PTR(link);
        return 0;
}

ds_link *ds_link_free(ds_link *link)
{
        if (!link)
                return NULL;
        ds_child_end(&link->child);
        ds_close(link->out_fd);
        return ds_free(link);
}

int ds_link_process_fd(const ds_link *link)
{
        return link->child.process_fd;
}

uint64_t ds_link_deadline_ns(const ds_link *link)
{
        return link->child.deadline_ns;
}

int ds_link_step(ds_link *link, uint64_t now_ns)
{
        return ds_child_step(&link->child, now_ns);
}

static int read_at(int fd, void *to, size_t size, size_t at)
{
        size_t got = 0;

        while (got < size) {
                ssize_t n = pread(fd, (char *)to + got, size - got, (off_t)(at + got));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return -1;
                got += (size_t)n;
        }
        return 0;
}

static void failed(const ds_link *link, struct ds_check_result *result)
{
        if (link->child.late)
                ds_check_fail(result, DS_CHECK_UNKNOWN, "linking took longer than %u ms, the limit", DS_LINK_TIME_MS);
        else if (WIFSIGNALED(link->child.status) && WTERMSIG(link->child.status) == SIGXCPU)
                ds_check_fail(result, DS_CHECK_UNKNOWN, "linking took more than %u s of processor time, the limit",
                        DS_LINK_CPU_S);
        else if (WIFSIGNALED(link->child.status))
                ds_check_fail(result, DS_CHECK_INVALID_IMAGE, "linking the inputs ended with signal %d",
                        WTERMSIG(link->child.status));
        else
                ds_check_fail(result, DS_CHECK_OUT_OF_MEMORY,
                        "the linked image could not be stored; at most %llu MiB are accepted",
                        (unsigned long long)(DS_CHECK_IMAGE_MAX >> 20));
}

void *ds_link_result(const ds_link *link, struct ds_check_result *result, size_t *ret_size)
{
        ds_cleanup(ds_freep) char *image = NULL;
        struct out_header header;

        assert(link->child.over);
        if (!WIFEXITED(link->child.status) || WEXITSTATUS(link->child.status) ||
                read_at(link->out_fd, &header, sizeof(header), 0) || header.image_bytes > DS_CHECK_IMAGE_MAX ||
                header.message_bytes >= sizeof(result->message) || header.status > INT32_MAX ||
                !header.status != !!header.image_bytes) {
                failed(link, result);
                return NULL;
        }
        image = ds_alloc(header.image_bytes + 1);
        if (!image || read_at(link->out_fd, image, header.image_bytes, sizeof(header)) ||
                read_at(link->out_fd, result->message, header.message_bytes, sizeof(header) + header.image_bytes)) {
                ds_check_fail(result, DS_CHECK_OUT_OF_MEMORY, "no memory for a linked image of %llu bytes",
                        (unsigned long long)header.image_bytes);
                return NULL;
        }
        result->message[header.message_bytes] = 0;
        result->status = (int)header.status;
        if (result->status)
                return NULL;
        *ret_size = header.image_bytes;
        return DS_TAKE_PTR(image);
}
