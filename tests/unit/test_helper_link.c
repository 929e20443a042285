/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linking in the helper, for a GPU and for a simulated device: all kinds of inputs, the cache in memory and on disk,
 * errors, and files of inputs that lie
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helper/jobs.h"
#include "helper/link.h"
#include "helper/nvjitlink.h"
#include "image/cubin.h"
#include "proto/wire.h"
#include "util/alloc.h"
#include "util/code_file.h"
#include "util/macro.h"

#define INPUTS_MAX 4
#define FILE_BYTES (1u << 20)
#define AREA (FILE_BYTES / 8) /* place of one input in the file, bytes */

/* --- the file of inputs ------------------------------------------------------------------------------------------- */

struct input {
        uint32_t kind;
        const char *file;
};

struct list {
        _Alignas(16) struct ds_link_file head;
        struct ds_link_input inputs[INPUTS_MAX];
        _Alignas(16) uint8_t bytes[FILE_BYTES];
};

static struct list list;

static size_t read_file(const char *name, uint8_t *to)
{
        char path[1024];
        size_t size;
        FILE *f;

        snprintf(path, sizeof(path), "%s/%s", TEST_DIR, name);
        f = fopen(path, "rb");
        cr_assert_not_null(f, "%s is missing: build it with make", path);
        size = fread(to, 1, AREA, f);
        cr_assert(size && size < AREA, "%s is empty or too large for this test", path);
        fclose(f);
        return size;
}

/* Fills `list`; the last input has no file. */
static void fill(const struct input *inputs)
{
        memset(&list, 0, sizeof(list));
        list.head = (struct ds_link_file){.magic = DS_LINK_MAGIC, .version = DS_WIRE_VERSION, .bytes = sizeof(list)};
        for (uint32_t i = 0; inputs[i].file; i++) {
                struct ds_link_input *row = &list.inputs[i];

                list.head.n_inputs++;
                row->offset = offsetof(struct list, bytes) + i * AREA;
                row->size = read_file(inputs[i].file, list.bytes + i * AREA);
                row->kind = inputs[i].kind;
                snprintf(row->name, sizeof(row->name), "%s", inputs[i].file);
        }
}

/* --- jobs --------------------------------------------------------------------------------------------------------- */

static struct ds_check_result answer;
static int answered;

static int on_answer(void *user, uint64_t id, const struct ds_check_result *result)
{
        (void)user;
        (void)id;
        answer = *result;
        answer.fd = result->fd >= 0 ? dup(result->fd) : -1;
        answered++;
        return 0;
}

static const struct ds_jobs_ops ops = {.answer = on_answer};
static struct ds_ptxas ptxas;

static ds_jobs *jobs_new(void)
{
        ds_jobs *jobs;

        ds_ptxas_find(TEST_PTXAS, &ptxas);
        cr_assert_eq(ds_jobs_new(&ptxas, &ops, NULL, &jobs), 0);
        return jobs;
}

static int have_library(void)
{
        struct ds_nvjitlink library;

        ds_ptxas_find(TEST_PTXAS, &ptxas);
        ds_nvjitlink_find(&ptxas, &library);
        return library.path[0] != 0;
}

#define NEEDS "libnvJitLink.so of a CUDA toolkit"

static int sealed(const void *bytes, size_t size)
{
        int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        cr_assert(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
        return fd;
}

static void take(ds_jobs *jobs, int fd, uint64_t bytes, enum ds_jobs_link step, int simulated)
{
        const struct ds_jobs_request request = {
                .id = 1, .bytes = bytes, .cc = 90, .link = step, .simulated = simulated};
        struct pollfd fds[DS_JOBS_POLLFDS];
        int timeout;

        if (answer.fd > 0)
                close(answer.fd);
        answer = (struct ds_check_result){.fd = -1};
        answered = 0;
        cr_assert_eq(ds_jobs_take(jobs, &request, fd), 0);
        close(fd);
        while (!answered) {
                size_t n = ds_jobs_poll(jobs, fds, &timeout);

                cr_assert(n > 0);
                cr_assert_geq(poll(fds, n, timeout), 0);
                cr_assert_eq(ds_jobs_step(jobs), 0);
        }
}

static void run(ds_jobs *jobs, const struct input *inputs, enum ds_jobs_link step, int simulated)
{
        fill(inputs);
        take(jobs, sealed(&list, sizeof(list)), sizeof(list), step, simulated);
}

/* The answer's file, malloc'ed, with a NUL behind it. */
static char *image_of_answer(void)
{
        char *bytes = calloc(1, answer.bytes + 1);

        cr_assert_eq(answer.status, 0, "%d %s", answer.status, answer.message);
        cr_assert_eq(fcntl(answer.fd, F_GET_SEALS), F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
        cr_assert_eq(pread(answer.fd, bytes, answer.bytes, 0), (ssize_t)answer.bytes);
        return bytes;
}

static void gives_text(const struct input *inputs, int simulated)
{
        ds_jobs *jobs = jobs_new();
        char *image;

        run(jobs, inputs, DS_JOBS_LINK, simulated);
        image = image_of_answer();
        cr_assert_not_null(strstr(image, ".entry linked_kernel"));
        cr_assert_not_null(strstr(image, ".func (.param .b32 func_retval0) _Z12linked_twicei"), "%s", image);
        cr_assert_eq(strlen(image), answer.bytes);
        free(image);
        ds_jobs_free(jobs);
        cr_assert(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a linker is left");
}

static void gives_cubin(const struct input *inputs)
{
        ds_jobs *jobs = jobs_new();
        struct ds_cubin cubin;
        char *image;

        run(jobs, inputs, DS_JOBS_LINK, 0);
        image = image_of_answer();
        cr_assert_eq(ds_cubin_read(image, answer.bytes, &cubin), 0);
        cr_assert_eq(cubin.cc, 90);
        cr_assert_eq(cubin.n_kernels, 1);
        cr_assert(cubin.prints);
        free(image);
        ds_jobs_free(jobs);
}

static const struct input two_texts[] = {{DS_LINK_PTX, "caller.ptx"}, {DS_LINK_PTX, "callee.ptx"}, {0}};
static const struct input mixed[] = {{DS_LINK_PTX, "caller.ptx"}, {DS_LINK_CUBIN, "callee.cubin"}, {0}};

/* --- results ------------------------------------------------------------------------------------------------------ */

Test(helper_link, inputs_with_ptx_give_one_text)
{
        const struct input fatbin[] = {{DS_LINK_PTX, "caller.ptx"}, {DS_LINK_FATBIN, "callee.fatbin"}, {0}};
        const struct input objects[] = {{DS_LINK_OBJECT, "caller.o"}, {DS_LINK_OBJECT, "callee.o"}, {0}};
        const struct input library[] = {{DS_LINK_PTX, "caller.ptx"}, {DS_LINK_LIBRARY, "libcallee.a"}, {0}};
        const struct input unknown[] = {{DS_LINK_ANY, "caller.ptx"}, {DS_LINK_ANY, "libcallee.a"}, {0}};

        for (int simulated = 0; simulated < 2; simulated++) {
                gives_text(two_texts, simulated);
                gives_text(fatbin, simulated);
                gives_text(objects, simulated);
                gives_text(library, simulated);
                gives_text(unknown, simulated);
        }
}

Test(helper_link, machine_code_gives_a_cubin)
{
        const struct input cubins[] = {{DS_LINK_CUBIN, "caller.cubin"}, {DS_LINK_CUBIN, "callee.cubin"}, {0}};
        const struct input library[] = {{DS_LINK_CUBIN, "caller.cubin"}, {DS_LINK_LIBRARY, "libcallee.a"}, {0}};
        const struct input lto[] = {{DS_LINK_CUBIN, "caller.cubin"}, {DS_LINK_LTO, "callee.ltoir"}, {0}};

        if (!have_library())
                skip_test(NEEDS);
        gives_cubin(cubins);
        gives_cubin(mixed);
        gives_cubin(library);
        gives_cubin(lto);
}

/* The objects of a library may be LTO code. */
Test(helper_link, a_library_of_lto_code)
{
        const struct input needed[] = {{DS_LINK_PTX, "caller.ptx"}, {DS_LINK_LIBRARY, "liblto.a"}, {0}};
        const struct input machine[] = {{DS_LINK_CUBIN, "caller.cubin"}, {DS_LINK_LIBRARY, "liblto.a"}, {0}};

        if (!have_library())
                skip_test(NEEDS);
        gives_cubin(needed);
        gives_cubin(machine);
}

/* Code that is linked already needs no linker. */
Test(helper_link, one_executable_is_its_own_result)
{
        const struct input files[][2] = {{{DS_LINK_CUBIN, "linked.cubin"}}, {{DS_LINK_FATBIN, "linked.fatbin"}}};

        for (size_t i = 0; i < DS_ARRAY_SIZE(files); i++) {
                ds_jobs *jobs = jobs_new();
                char *image;

                run(jobs, files[i], DS_JOBS_LINK, 0);
                image = image_of_answer();
                cr_assert_eq(answer.bytes, list.inputs[0].size);
                cr_assert_eq(memcmp(image, list.bytes, answer.bytes), 0);
                free(image);
                ds_jobs_free(jobs);
        }
}

Test(helper_link, lto_code_alone_gives_a_text)
{
        const struct input lto[] = {{DS_LINK_LTO, "caller.ltoir"}, {DS_LINK_LTO, "callee.ltoir"}, {0}};

        if (!have_library())
                skip_test(NEEDS);
        for (int simulated = 0; simulated < 2; simulated++) {
                ds_jobs *jobs = jobs_new();
                char *image;

                run(jobs, lto, DS_JOBS_LINK, simulated);
                image = image_of_answer();
                cr_assert_not_null(strstr(image, ".entry linked_kernel"));
                free(image);
                ds_jobs_free(jobs);
        }
}

Test(helper_link, one_text_is_its_own_result)
{
        const struct input one[] = {{DS_LINK_PTX, "callee.ptx"}, {0}};
        ds_jobs *jobs = jobs_new();
        char *image;

        run(jobs, one, DS_JOBS_LINK, 1);
        image = image_of_answer();
        cr_assert_eq(memcmp(image, list.bytes, answer.bytes), 0);
        cr_assert_eq(answer.bytes, list.inputs[0].size);
        free(image);
        ds_jobs_free(jobs);
}

/* --- caches ------------------------------------------------------------------------------------------------------- */

Test(helper_link, results_are_cached_in_memory_and_on_disk)
{
        char directory[] = "/tmp/detshare-link.XXXXXX", remove[64];
        uint8_t key[DS_SHA256_BYTES];
        ds_jobs *jobs = jobs_new();
        char *first, *second;
        uint64_t size;
        int fd;

        if (!have_library())
                skip_test(NEEDS);
        run(jobs, mixed, DS_JOBS_LINK, 0);
        cr_assert_eq(answer.origin, DS_CHECK_COMPILED);
        first = image_of_answer();
        memcpy(key, answer.key, sizeof(key));
        /* the supervisor stores the file under this key */
        cr_assert_not_null(mkdtemp(directory));
        fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        cr_assert_eq(ds_code_file_write(fd, key, answer.fd, answer.bytes, &size), 0);
        run(jobs, mixed, DS_JOBS_LINK, 0);
        cr_assert_eq(answer.origin, DS_CHECK_REMEMBERED);
        ds_jobs_free(jobs);

        jobs = jobs_new();
        ds_jobs_set_directory(jobs, fd, (uint32_t)getuid());
        run(jobs, mixed, DS_JOBS_LINK, 0);
        cr_assert_eq(answer.origin, DS_CHECK_STORED);
        second = image_of_answer();
        cr_assert_eq(memcmp(first, second, answer.bytes), 0);
        /* any other option is another key */
        list.head.max_registers = 64;
        take(jobs, sealed(&list, sizeof(list)), sizeof(list), DS_JOBS_LINK, 0);
        cr_assert_eq(answer.origin, DS_CHECK_COMPILED, "%d %s", answer.status, answer.message);
        cr_assert_neq(memcmp(key, answer.key, sizeof(key)), 0);
        free(first);
        free(second);
        ds_jobs_free(jobs);
        snprintf(remove, sizeof(remove), "rm -r %s", directory);
        cr_assert_eq(system(remove), 0);
}

/* nvJitLink knows every option that a client can send. */
Test(helper_link, all_options)
{
        const struct input lto[] = {{DS_LINK_CUBIN, "caller.cubin"}, {DS_LINK_LTO, "callee.ltoir"}, {0}};

        if (!have_library())
                skip_test(NEEDS);
        for (uint32_t i = 0; i < 16; i++) {
                ds_jobs *jobs = jobs_new();

                fill(i % 2 ? lto : mixed);
                list.head.flags = i < 14 ? 1u << i / 2 : UINT32_MAX;
                list.head.optimization = i % 7;
                list.head.max_registers = i % 3 ? 40 + i : UINT32_MAX;
                take(jobs, sealed(&list, sizeof(list)), sizeof(list), DS_JOBS_LINK, 0);
                cr_assert_eq(answer.status, 0, "%u: %d %s", i, answer.status, answer.message);
                if (list.head.flags & DS_LINK_VERBOSE)
                        cr_assert_not_null(strstr(answer.message, "registers"), "%s", answer.message);
                ds_jobs_free(jobs);
        }
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

static void fails(const struct input *inputs, enum ds_jobs_link step, int simulated, int status, const char *words)
{
        ds_jobs *jobs = jobs_new();

        run(jobs, inputs, step, simulated);
        cr_assert_eq(answer.status, status, "%d %s", answer.status, answer.message);
        cr_assert_not_null(strstr(answer.message, words), "%s", answer.message);
        cr_assert_eq(answer.fd, -1);
        ds_jobs_free(jobs);
}

Test(helper_link, errors_between_inputs)
{
        const struct input alone[] = {{DS_LINK_PTX, "caller.ptx"}, {0}};
        const struct input machine_alone[] = {{DS_LINK_CUBIN, "caller.cubin"}, {0}};
        const struct input twice[] = {
                {DS_LINK_PTX, "caller.ptx"}, {DS_LINK_PTX, "callee.ptx"}, {DS_LINK_PTX, "callee.ptx"}, {0}};
        const struct input machine_twice[] = {
                {DS_LINK_CUBIN, "caller.cubin"}, {DS_LINK_CUBIN, "callee.cubin"}, {DS_LINK_PTX, "callee.ptx"}, {0}};

        for (int simulated = 0; simulated < 2; simulated++) {
                fails(alone, DS_JOBS_LINK, simulated, DS_CHECK_UNKNOWN, "Undefined reference to '_Z12linked_twicei'");
                fails(twice, DS_JOBS_LINK, simulated, DS_CHECK_INVALID_SOURCE,
                        "Multiple definition of '_Z12linked_twicei'");
        }
        if (!have_library()) {
                skip_part(NEEDS);
                return;
        }
        fails(machine_alone, DS_JOBS_LINK, 0, DS_CHECK_UNKNOWN, "Undefined reference to '_Z12linked_twicei'");
        /* nvJitLink prints this error and goes on */
        fails(machine_twice, DS_JOBS_LINK, 0, DS_CHECK_INVALID_SOURCE, "Multiple definition of '_Z12linked_twicei'");
}

Test(helper_link, a_simulated_device_needs_ptx)
{
        fails(mixed, DS_JOBS_LINK, 1, DS_CHECK_NO_BINARY, "'callee.cubin' has no PTX");
        fails(&mixed[1], DS_JOBS_CHECK, 1, DS_CHECK_NO_BINARY, "'callee.cubin' has no PTX");
}

Test(helper_link, checks_of_one_input)
{
        const struct input good[][2] = {{{DS_LINK_PTX, "caller.ptx"}}, {{DS_LINK_FATBIN, "callee.fatbin"}},
                {{DS_LINK_OBJECT, "callee.o"}}, {{DS_LINK_LIBRARY, "libcallee.a"}}};

        for (int simulated = 0; simulated < 2; simulated++)
                for (size_t i = 0; i < DS_ARRAY_SIZE(good); i++) {
                        ds_jobs *jobs = jobs_new();

                        run(jobs, good[i], DS_JOBS_CHECK, simulated);
                        cr_assert_eq(answer.status, 0, "%d %s", answer.status, answer.message);
                        ds_jobs_free(jobs);
                }
}

static void breaks(size_t at, const char *bytes, const struct input *inputs, enum ds_jobs_link step, int status)
{
        ds_jobs *jobs = jobs_new();

        fill(inputs);
        memcpy(list.bytes + at, bytes, strlen(bytes));
        take(jobs, sealed(&list, sizeof(list)), sizeof(list), step, 0);
        cr_assert_eq(answer.status, status, "%d %s", answer.status, answer.message);
        cr_assert(answer.message[0]);
        ds_jobs_free(jobs);
}

Test(helper_link, broken_inputs)
{
        const struct input text[] = {{DS_LINK_PTX, "caller.ptx"}, {0}},
                           cubin[] = {{DS_LINK_CUBIN, "callee.cubin"}, {0}},
                           fatbin[] = {{DS_LINK_FATBIN, "callee.fatbin"}, {0}},
                           library[] = {{DS_LINK_LIBRARY, "libcallee.a"}, {0}},
                           lto[] = {{DS_LINK_LTO, "callee.ltoir"}, {0}};

        breaks(200, "\nfrobnicate\n", text, DS_JOBS_CHECK, DS_CHECK_INVALID_PTX);
        breaks(0, "\1\1\1", text, DS_JOBS_LINK, DS_CHECK_INVALID_PTX);
        breaks(40, "\377\377\377\377\377", cubin, DS_JOBS_CHECK, DS_CHECK_INVALID_IMAGE);
        breaks(16, "\77\77\77\77\77\77\77\77\77\77\77\77", fatbin, DS_JOBS_CHECK, DS_CHECK_INVALID_IMAGE);
        breaks(60, "xxxxxxxx", library, DS_JOBS_CHECK, DS_CHECK_INVALID_IMAGE);
        if (have_library())
                breaks(0, "xxxxxxxxxxxxxxxx", lto, DS_JOBS_LINK, DS_CHECK_INVALID_IMAGE);
}

/* --- files that lie ----------------------------------------------------------------------------------------------- */

static void refuses(void)
{
        ds_jobs *jobs = jobs_new();

        take(jobs, sealed(&list, sizeof(list)), sizeof(list), DS_JOBS_LINK, 1);
        cr_assert_eq(answer.status, DS_CHECK_INVALID_VALUE, "%d %s", answer.status, answer.message);
        ds_jobs_free(jobs);
        fill(two_texts);
}

Test(helper_link, a_file_that_lies_is_refused)
{
        fill(two_texts);
        list.head.magic++;
        refuses();
        list.head.version++;
        refuses();
        list.head.bytes--;
        refuses();
        list.head.n_inputs = 0;
        refuses();
        list.head.n_inputs = DS_LINK_INPUTS_MAX + 1;
        refuses();
        list.head.n_inputs = UINT32_MAX;
        refuses();
        list.inputs[1].offset = sizeof(list);
        refuses();
        list.inputs[1].offset = UINT64_MAX - 15;
        refuses();
        list.inputs[1].offset = 0;
        refuses();
        list.inputs[1].offset++;
        refuses();
        list.inputs[1].size = UINT64_MAX;
        refuses();
        list.inputs[1].size = 0;
        refuses();
        list.inputs[1].kind = _DS_LINK_KIND_MAX;
        refuses();
        memset(list.inputs[1].name, 'x', sizeof(list.inputs[1].name));
        refuses();
}

/* A file that its owner can still change, or one with holes, is not read. */
Test(helper_link, only_a_sealed_file_is_read)
{
        ds_jobs *jobs = jobs_new();
        int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        fill(two_texts);
        cr_assert_eq(write(fd, &list, sizeof(list)), (ssize_t)sizeof(list));
        take(jobs, fd, sizeof(list), DS_JOBS_LINK, 1);
        cr_assert_eq(answer.status, DS_CHECK_INVALID_VALUE);
        fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        cr_assert_eq(ftruncate(fd, sizeof(list)), 0);
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
        take(jobs, fd, sizeof(list), DS_JOBS_LINK, 1);
        cr_assert_eq(answer.status, DS_CHECK_INVALID_VALUE);
        ds_jobs_free(jobs);
}

Test(helper_link, a_cancelled_link_ends_its_process)
{
        const struct ds_jobs_request request = {.id = 7, .bytes = sizeof(list), .cc = 90, .link = DS_JOBS_LINK};
        ds_jobs *jobs = jobs_new();
        int fd;

        fill(mixed);
        fd = sealed(&list, sizeof(list));
        cr_assert_eq(ds_jobs_take(jobs, &request, fd), 0);
        close(fd);
        cr_assert_eq(ds_jobs_cancel(jobs, 7), 0);
        cr_assert_eq(answered, 1);
        cr_assert_neq(answer.status, 0);
        cr_assert(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a linker is left");
        ds_jobs_free(jobs);
}

/* Without nvJitLink texts are linked, and machine code is refused with the places that were searched. */
Test(helper_link, without_the_library)
{
        struct ds_nvjitlink library = {.path = "", .missing = "no libnvJitLink: looked for here"};
        struct ds_check_result result = {.fd = -1};
        ds_link *link;
        size_t size;
        void *image;

        for (int i = 0; i < 2; i++) {
                fill(i ? mixed : two_texts);
                cr_assert_eq(ds_link_new(&list, 90, 0, 0, &library, &link), 0);
                while (!ds_link_step(link, 0))
                        poll(&(struct pollfd){.fd = ds_link_process_fd(link), .events = POLLIN}, 1, -1);
                image = ds_link_result(link, &result, &size);
                cr_assert_eq(image != NULL, i == 0, "%s", result.message);
                cr_assert_eq(result.status, i ? DS_CHECK_NO_COMPILER : 0);
                ds_free(image);
                ds_link_free(link);
        }
        cr_assert_str_eq(result.message, library.missing);
}

Test(helper_link, the_library_is_found_beside_ptxas)
{
        struct ds_nvjitlink library;

        if (!have_library())
                skip_test(NEEDS);
        ds_nvjitlink_find(&ptxas, &library);
        cr_assert_neq(ds_nvjitlink_identity(&library), 0);
        library.path[0] = 0;
        cr_assert_eq(ds_nvjitlink_identity(&library), 0);
}

/* A job's options do not reach the next job in the same place: code of a plain module is never relocatable. */
Test(helper_link, a_module_after_a_check_is_compiled_as_a_whole)
{
        ds_jobs *jobs = jobs_new();
        struct ds_cubin cubin;
        char *image;

        run(jobs, two_texts, DS_JOBS_LINK, 0);
        image = image_of_answer();
        run(jobs, two_texts, DS_JOBS_CHECK, 0);
        cr_assert_eq(answer.status, 0, "%s", answer.message);
        take(jobs, sealed(image, strlen(image)), strlen(image), DS_JOBS_NO_LINK, 0);
        free(image);
        image = image_of_answer();
        cr_assert_eq(ds_cubin_read(image, answer.bytes, &cubin), 0);
        cr_assert(cubin.has_globals);
        cr_assert_eq(image[16], 2, "the code is not an executable (ET_EXEC)");
        free(image);
        ds_jobs_free(jobs);
}
