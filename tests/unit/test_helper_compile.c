/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code for a real GPU: the choice of an image's part, the compiler's output for PTX, and misbehaving compilers and
 * inputs
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "helper/cache.h"
#include "helper/compile.h"
#include "helper/jobs.h"
#include "image/cubin.h"
#include "internal.pb-c.h"
#include "tests/unit/rounds.h"
#include "util/alloc.h"
#include "util/frame.h"
#include "util/macro.h"

/* --- collected answers -------------------------------------------------------------------------------------------- */

#define ANSWERS_MAX 64

struct answers {
        int n, there[ANSWERS_MAX];
        struct ds_check_result of[ANSWERS_MAX]; /* by id; this test owns fd */
};

static struct answers answers;
static struct ds_ptxas ptxas;

static int on_answer(void *user, uint64_t id, const struct ds_check_result *result)
{
        struct answers *a = user;

        cr_assert_lt(id, ANSWERS_MAX);
        cr_assert(!a->there[id], "%llu is answered twice", (unsigned long long)id);
        a->there[id] = 1;
        a->n++;
        a->of[id] = *result;
        a->of[id].fd = result->fd >= 0 ? dup(result->fd) : -1;
        return 0;
}

static const struct ds_jobs_ops ops = {.answer = on_answer};

static uint64_t now_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static ds_jobs *jobs_with(const char *path)
{
        ds_jobs *jobs;

        ds_ptxas_find(path, &ptxas);
        cr_assert_eq(ds_jobs_new(&ptxas, &ops, &answers, &jobs), 0);
        return jobs;
}

static void run_until(ds_jobs *jobs, int n)
{
        struct pollfd fds[DS_JOBS_POLLFDS];
        int timeout;

        while (answers.n < n) {
                size_t n_fds = ds_jobs_poll(jobs, fds, &timeout);

                cr_assert_gt(n_fds, 0, "nothing runs, %d of %d answers", answers.n, n);
                cr_assert_geq(poll(fds, n_fds, timeout), 0);
                cr_assert_eq(ds_jobs_step(jobs), 0);
        }
}

static void take(ds_jobs *jobs, uint64_t id, const void *bytes, size_t size, uint32_t time_ms, int force_ptx)
{
        struct ds_jobs_request request = {
                .id = id, .bytes = size, .cc = 90, .time_ms = time_ms, .force_ptx = force_ptx};
        int fd = memfd_create("test", MFD_CLOEXEC);

        cr_assert(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
        cr_assert_eq(ds_jobs_take(jobs, &request, fd), 0);
        close(fd);
}

static char *load(const char *path, size_t *ret_size)
{
        FILE *f = fopen(path, "rb");
        char *bytes;
        long size;

        cr_assert_not_null(f, "%s is missing: build it with make", path);
        fseek(f, 0, SEEK_END);
        size = ftell(f);
        rewind(f);
        bytes = calloc(1, (size_t)size + 1);
        cr_assert_eq(fread(bytes, 1, (size_t)size, f), (size_t)size);
        fclose(f);
        *ret_size = (size_t)size;
        return bytes;
}

/* Reads the sealed cubin of an answer. */
static struct ds_cubin cubin_of(const struct ds_check_result *result)
{
        struct ds_cubin cubin = {};
        uint8_t *bytes = malloc(result->bytes);

        cr_assert_eq(result->status, 0, "%d %s", result->status, result->message);
        cr_assert_eq(fcntl(result->fd, F_GET_SEALS), F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
        cr_assert_eq(pread(result->fd, bytes, result->bytes, 0), (ssize_t)result->bytes);
        cr_assert_eq(ds_cubin_read(bytes, result->bytes, &cubin), 0);
        free(bytes);
        return cubin;
}

static const struct ds_check_result *one(
        const char *compiler, const void *bytes, size_t size, uint32_t time_ms, int force_ptx)
{
        ds_jobs *jobs = jobs_with(compiler);

        take(jobs, 0, bytes, size, time_ms, force_ptx);
        run_until(jobs, 1);
        ds_jobs_free(jobs);
        cr_assert(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a compiler is left");
        return &answers.of[0];
}

static const struct ds_check_result *one_file(const char *compiler, const char *name, int force_ptx)
{
        const struct ds_check_result *result;
        char path[256], *bytes;
        size_t size;

        snprintf(path, sizeof(path), "%s/%s", TEST_DIR, name);
        bytes = load(path, &size);
        result = one(compiler, bytes, size, 0, force_ptx);
        free(bytes);
        return result;
}

/* --- the real compiler ------------------------------------------------------------------------------------------ */

Test(compile, ptx_becomes_a_cubin_for_this_gpu)
{
        struct ds_cubin cubin = cubin_of(one_file(TEST_PTXAS, "talks.ptx", 0));

        cr_assert(cubin.cc == 90 && !cubin.family && cubin.n_kernels == 3 && cubin.prints && cubin.mallocs);
        cr_assert_eq(cubin.size, answers.of[0].bytes);
}

Test(compile, ptx_for_exactly_this_architecture)
{
        struct ds_cubin cubin = cubin_of(one_file(TEST_PTXAS, "plain.sm_90a.ptx", 0));

        cr_assert(cubin.cc == 90 && cubin.family);
}

Test(compile, a_nul_behind_the_text_is_fine)
{
        char path[] = TEST_DIR "/plain.ptx", *bytes;
        size_t size;

        bytes = load(path, &size);
        cr_assert_eq(cubin_of(one(TEST_PTXAS, bytes, size + 1, 0, 0)).n_kernels, 1);
        free(bytes);
}

Test(compile, errors_quote_the_compiler)
{
        static const char head[] = ".version 9.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n";
        struct {
                const char *head, *body, *words;
                int status;
        } cases[] = {
                {head, "\tfrobnicate.u32 %r1;\n}\n", "application ptx input, line 6", 218},
                {head, "\tret;\n", "application ptx input", 218},
                {".version 99.9\n.target sm_75\n", "", "Unsupported .version 99.9", 222},
                {".version 9.0\n.target sm_100\n", "", "sm_90): it holds PTX for sm_100", 209},
                {".version 9.0\n.target sm_80a\n", "", "it holds PTX for sm_80a", 209},
                {"what is this", "", "application ptx input, line 1", 218},
        };
        ds_jobs *jobs = jobs_with(TEST_PTXAS);

        for (size_t i = 0; i < DS_ARRAY_SIZE(cases); i++) {
                const struct ds_check_result *result = &answers.of[i];
                char text[512];

                snprintf(text, sizeof(text), "%s%s", cases[i].head, cases[i].body);
                take(jobs, i, text, strlen(text), 0, 0);
                run_until(jobs, (int)i + 1);
                cr_expect_eq(result->status, cases[i].status, "%zu: %d %s", i, result->status, result->message);
                cr_expect(strstr(result->message, cases[i].words), "%zu: %s", i, result->message);
                cr_expect(!strstr(result->message, "/proc/"), "%zu: %s", i, result->message);
                cr_expect_eq(result->fd, -1);
        }
        ds_jobs_free(jobs);
}

Test(compile, compiled_code_is_cached)
{
        ds_jobs *jobs = jobs_with(TEST_PTXAS);
        char path[] = TEST_DIR "/plain.ptx", *bytes;
        size_t size;

        bytes = load(path, &size);
        take(jobs, 0, bytes, size, 0, 0);
        cr_assert_eq(answers.n, 0);
        run_until(jobs, 1);
        take(jobs, 1, bytes, size, 0, 0);
        cr_assert_eq(answers.n, 2, "the second time it is compiled again");
        cr_assert(answers.of[0].bytes == answers.of[1].bytes && answers.of[0].hash == answers.of[1].hash);
        cr_assert_eq(cubin_of(&answers.of[1]).cc, 90);
        /* a text of the same length with other bytes is compiled separately */
        bytes[2] ^= 1;
        take(jobs, 2, bytes, size, 0, 0);
        cr_assert_eq(answers.n, 2);
        run_until(jobs, 3);
        cr_assert_eq(answers.of[2].status, 0, "%s", answers.of[2].message);
        ds_jobs_free(jobs);
        free(bytes);
}

/* Compiles a large text, not one that is large by its comments. The result is code, or an error that names a limit. */
Test(compile, a_large_text, .timeout = 60)
{
        static const char head[] = ".version 9.0\n.target sm_75\n.address_size 64\n", line[] = "// much to say\n";
        size_t size = ROUNDS_SANITIZED ? DS_MIB(10) : DS_MIB(50), at = strlen(head);
        char *text = malloc(size);

        memcpy(text, head, at);
        while (at < size) {
                size_t n = DS_MIN(size - at, strlen(line));

                memcpy(text + at, line, n);
                at += n;
        }
        memcpy(text + size - 26, "\n.visible .entry k(){ret;}", 26);
        cr_assert_eq(cubin_of(one(TEST_PTXAS, text, size, 0, 0)).n_kernels, 1);
        free(text);
}

Test(compile, more_text_than_the_limit)
{
        size_t size = DS_MIB(64) + 1;
        char *text = malloc(size);

        memset(text, ' ', size);
        memcpy(text, ".version 9.0\n.target sm_75\n", 27);
        text[size - 1] = '}';
        cr_assert_eq(one(TEST_PTXAS, text, size, 0, 0)->status, 200);
        cr_assert(strstr(answers.of[0].message, "the limit is 64 MiB"), "%s", answers.of[0].message);
        free(text);
}

Test(compile, garbage)
{
        ds_jobs *jobs = jobs_with(TEST_PTXAS);
        unsigned seed = 7;
        uint8_t bytes[300];

        for (int i = 0; i < ANSWERS_MAX; i++) {
                for (size_t k = 0; k < sizeof(bytes); k++)
                        bytes[k] = (uint8_t)(i % 2 ? ' ' + rand_r(&seed) % 95 : rand_r(&seed));
                take(jobs, (uint64_t)i, bytes, sizeof(bytes), 0, 0);
                run_until(jobs, i + 1);
                cr_assert(answers.of[i].status == 200 || answers.of[i].status == 218, "%d", answers.of[i].status);
                cr_assert(answers.of[i].message[0]);
        }
        ds_jobs_free(jobs);
}

/* Every allocation fails once: the helper still sends an answer, and its next answer is right. */
Test(compile, out_of_memory_is_an_answer)
{
        char path[] = TEST_DIR "/plain.ptx", *bytes = NULL;
        int failed = 0, n = 0;
        ds_jobs *jobs;
        size_t size;

        bytes = load(path, &size);
        for (int last = 0; !last; n++) {
                memset(&answers, 0, sizeof(answers));
                jobs = jobs_with(TEST_PTXAS);
                ds_alloc_fail_after(n);
                take(jobs, 0, bytes, size, 0, 0);
                run_until(jobs, 1);
                ds_alloc_fail_after(-1);
                last = n > 3 && answers.of[0].status == 0;
                failed += answers.of[0].status == 2;
                cr_assert(answers.of[0].status == 2 || answers.of[0].status == 0, "%d: %d %s", n, answers.of[0].status,
                        answers.of[0].message);
                ds_close(answers.of[0].fd);
                take(jobs, 1, bytes, size, 0, 0);
                run_until(jobs, 2);
                cr_assert_eq(cubin_of(&answers.of[1]).cc, 90, "%d", n);
                ds_close(answers.of[1].fd);
                ds_jobs_free(jobs);
        }
        cr_assert(failed >= 5, "%d of %d", failed, n);
        free(bytes);
}

/* --- machine code ------------------------------------------------------------------------------------------------- */

Test(compile, a_fatbin_gives_the_best_machine_code)
{
        /* machine code needs no compiler */
        struct ds_cubin cubin = cubin_of(one_file("/nonexistent", "many.fatbin", 0));

        cr_assert(cubin.cc == 90 && cubin.family && cubin.n_kernels == 2 && cubin.has_globals);
}

/* The answer to a load says that forms are impossible; the next answers, from memory, repeat it. */
Test(compile, machine_code_without_its_ptx_is_reported)
{
        static const struct {
                const char *name;
                int no_ptx;
        } files[] = {{"many.fatbin", 1}, {"own.fatbin", 0}};

        for (size_t i = 0; i < DS_ARRAY_SIZE(files); i++) {
                ds_jobs *jobs = jobs_with("/nonexistent");
                char path[256], *bytes;
                size_t size;

                snprintf(path, sizeof(path), "%s/%s", TEST_DIR, files[i].name);
                bytes = load(path, &size);
                memset(&answers, 0, sizeof(answers));
                for (uint64_t id = 0; id < 3; id++) {
                        struct ds_jobs_request request = {.id = id, .bytes = size, .cc = 90};
                        int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

                        cr_assert(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
                        cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW), 0);
                        request.forms = id == 2 ? DS_JOBS_ONLY : DS_JOBS_STORED;
                        cr_assert_eq(ds_jobs_take(jobs, &request, fd), 0);
                        close(fd);
                }
                cr_assert_eq(answers.n, 3);
                for (int id = 0; id < 2; id++) {
                        cr_assert_eq(answers.of[id].status, 0);
                        cr_assert_eq(answers.of[id].origin, id ? DS_CHECK_KNOWN : DS_CHECK_READ);
                        cr_assert_eq(answers.of[id].no_ptx, files[i].no_ptx, "%s, answer %d", files[i].name, id);
                        ds_close(answers.of[id].fd);
                }
                /* a request for forms alone gives the same reason, or gets as far as the compiler */
                cr_assert_eq(answers.of[2].status, files[i].no_ptx ? DS_CHECK_NO_BINARY : DS_CHECK_NO_COMPILER);
                free(bytes);
                ds_jobs_free(jobs);
        }
}

Test(compile, machine_code_can_be_passed_over)
{
        cr_assert_eq(one_file("/nonexistent", "many.fatbin", 1)->status, 221);
        cr_assert(strstr(answers.of[0].message, "no ptxas: '/nonexistent'"), "%s", answers.of[0].message);
}

Test(compile, a_fatbin_with_nothing_for_this_gpu_says_what_it_has)
{
        cr_assert_eq(one_file(TEST_PTXAS, "old_code.fatbin", 0)->status, 209);
        cr_assert(strstr(answers.of[0].message, "machine code for sm_80"), "%s", answers.of[0].message);
        cr_assert(strstr(answers.of[0].message, "PTX for sm_100"), "%s", answers.of[0].message);
}

Test(compile, a_cubin_passes_as_it_is)
{
        char path[] = TEST_DIR "/../cubin/sm_90.plain.cubin", *bytes;
        uint8_t *back;
        size_t size;

        bytes = load(path, &size);
        cr_assert_eq(cubin_of(one("/nonexistent", bytes, size, 0, 0)).cc, 90);
        back = malloc(size);
        cr_assert(answers.of[0].bytes == size && pread(answers.of[0].fd, back, size, 0) == (ssize_t)size);
        cr_assert_eq(memcmp(back, bytes, size), 0);
        free(back);
        free(bytes);
}

Test(compile, a_damaged_cubin)
{
        char path[] = TEST_DIR "/../cubin/sm_90.plain.cubin", *bytes;
        size_t size;

        bytes = load(path, &size);
        cr_assert_eq(one("/nonexistent", bytes, size - 1, 0, 0)->status, 200);
        cr_assert(answers.of[0].message[0]);
        free(bytes);
}

/* --- compilers that misbehave ------------------------------------------------------------------------------------- */

static const struct ds_check_result *hostile(const char *what, uint32_t time_ms)
{
        char text[64];

        snprintf(text, sizeof(text), "// %s\n.version 9.0\n.target sm_75\n", what);
        return one(TEST_HOSTILE, text, strlen(text), time_ms, 0);
}

Test(compile, one_that_hangs)
{
        uint64_t start = now_ms();

        cr_assert_eq(hostile("hang", 300)->status, 218);
        cr_assert(strstr(answers.of[0].message, "it took too long"), "%s", answers.of[0].message);
        cr_assert(now_ms() - start >= 300 && now_ms() - start < 5000);
}

Test(compile, one_that_talks_without_end)
{
        cr_assert_eq(hostile("flood", 20000)->status, 218);
        cr_assert(strstr(answers.of[0].message, "printed too much"), "%s", answers.of[0].message);
        cr_assert(strstr(answers.of[0].message, "more and more words"));
}

Test(compile, one_that_crashes)
{
        cr_assert_eq(hostile("crash", 20000)->status, 218);
        cr_assert(strstr(answers.of[0].message, "signal 11"), "%s", answers.of[0].message);
}

Test(compile, one_that_writes_too_much)
{
        const struct ds_check_result *result = hostile("giant", 20000);

        cr_assert(result->status == 218 && result->fd == -1, "%d %s", result->status, result->message);
}

Test(compile, one_that_wants_too_much_memory)
{
        cr_assert_eq(hostile("hungry", 20000)->status, 218);
        cr_assert(strstr(answers.of[0].message, "memory"), "%s", answers.of[0].message);
}

Test(compile, one_that_makes_nothing_or_nonsense)
{
        ds_jobs *jobs = jobs_with(TEST_HOSTILE);
        const char *const what[] = {"// garbage\n", "// empty\n", "// mute\n"};
        const int status[] = {200, 218, 218};

        for (size_t i = 0; i < DS_ARRAY_SIZE(what); i++)
                take(jobs, i, what[i], strlen(what[i]), 0, 0);
        run_until(jobs, 3);
        for (size_t i = 0; i < DS_ARRAY_SIZE(what); i++)
                cr_expect(answers.of[i].status == status[i] && answers.of[i].message[0], "%zu: %d %s", i,
                        answers.of[i].status, answers.of[i].message);
        ds_jobs_free(jobs);
}

Test(compile, the_compilers_environment_and_output)
{
        const char *said;

        setenv("DETSHARE_SECRET", "x", 1);
        cr_assert_eq(hostile("tell", 20000)->status, 218);
        said = answers.of[0].message;
        cr_assert(!strstr(said, "DETSHARE_SECRET"), "%s", said);
        cr_assert(strstr(said, "a?[31mred? x application ptx input, line 3"), "%s", said);
        cr_assert(strstr(said, "/memfd:detshare-ptx") && strstr(said, "/memfd:detshare-code"), "%s", said);
        cr_assert(!strstr(said, "/memfd:test") && !strstr(said, "socket:"), "%s", said);
}

Test(compile, several_at_once)
{
        ds_jobs *jobs = jobs_with(TEST_HOSTILE);
        uint64_t start = now_ms();

        for (int i = 0; i < DS_JOBS_MAX; i++) {
                cr_assert(!ds_jobs_full(jobs));
                take(jobs, (uint64_t)i, "// nap\n", 7, 0, 0);
        }
        cr_assert(ds_jobs_full(jobs));
        run_until(jobs, DS_JOBS_MAX);
        cr_assert_lt(now_ms() - start, DS_JOBS_MAX * 400 / 2, "one after the other");
        for (int i = 0; i < DS_JOBS_MAX; i++)
                cr_expect(answers.of[i].status == 218 && !strcmp(answers.of[i].message, "had a nap"), "%d: %s", i,
                        answers.of[i].message);
        ds_jobs_free(jobs);
}

Test(compile, a_cancelled_one_is_killed_and_answered_for)
{
        struct pollfd fds[DS_JOBS_POLLFDS];
        ds_jobs *jobs = jobs_with(TEST_HOSTILE);
        int timeout;

        take(jobs, 3, "// hang\n", 8, 0, 0);
        take(jobs, 4, "// hang\n", 8, 0, 0);
        cr_assert_eq(ds_jobs_cancel(jobs, 3), 0);
        cr_assert(answers.there[3] && answers.of[3].status && !answers.there[4]);
        cr_assert_eq(ds_jobs_cancel(jobs, 3), 0, "twice is fine");
        cr_assert_eq(ds_jobs_poll(jobs, fds, &timeout), 2);
        ds_jobs_free(jobs);
        cr_assert(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a compiler is left");
}

Test(compile, one_that_is_no_program)
{
        char path[] = "/tmp/detshare-unit-XXXXXX";
        int fd = mkstemp(path);

        cr_assert(fd >= 0 && write(fd, "\177ELFx", 5) == 5 && fchmod(fd, 0755) == 0);
        close(fd);
        cr_assert_eq(one(path, "// x\n", 5, 0, 0)->status, 221, "%s", answers.of[0].message);
        unlink(path);
}

/* --- options ------------------------------------------------------------------------------------------------------ */

Test(compile, options_of_the_compiler)
{
        struct ds_check_text text = {.arch = "sm_90a"};
        char options[DS_COMPILE_OPTIONS_MAX];

        ds_compile_options(&text, options);
        cr_assert_str_eq(options, "-arch=sm_90a");
        text.optimization = 1;
        ds_compile_options(&text, options);
        cr_assert_str_eq(options, "-arch=sm_90a -O0");
        text.max_registers = 4000000000u;
        text.optimization = 4000000000u;
        ds_compile_options(&text, options);
        cr_assert_str_eq(options, "-arch=sm_90a -maxrregcount=255 -O4");
}

/* Code compiled with other options is another entry of the cache. */
Test(compile, registers_and_level_change_the_code)
{
        static const uint32_t registers[] = {0, 24, 0, 24}, levels[] = {0, 0, 1, 0};
        ds_jobs *jobs = jobs_with(TEST_PTXAS);
        uint64_t hashes[4];
        size_t size;
        char *text = load(TEST_DIR "/plain.ptx", &size);

        for (int i = 0; i < 4; i++) {
                struct ds_jobs_request request = {.id = (uint64_t)i + 1,
                        .bytes = size,
                        .cc = 90,
                        .max_registers = registers[i],
                        .optimization = levels[i]};
                int fd = memfd_create("test", MFD_CLOEXEC);

                cr_assert_eq(write(fd, text, size), (ssize_t)size);
                cr_assert_eq(ds_jobs_take(jobs, &request, fd), 0);
                run_until(jobs, i + 1);
                close(fd);
                cr_assert_eq(answers.of[i + 1].status, 0, "%s", answers.of[i + 1].message);
                cr_assert_eq(answers.of[i + 1].origin, i < 3 ? DS_CHECK_COMPILED : DS_CHECK_REMEMBERED);
                hashes[i] = answers.of[i + 1].hash;
        }
        cr_assert_neq(hashes[0], hashes[2], "not optimised");
        cr_assert_eq(hashes[1], hashes[3]);
        free(text);
        ds_jobs_free(jobs);
}

/* --- the cache ---------------------------------------------------------------------------------------------------- */

Test(compile, the_cache_is_bounded_and_forgets_the_least_used)
{
        char texts[20][64];
        const void *bytes;
        ds_cache *cache;
        size_t size;

        cr_assert_eq(ds_cache_new(2048, &cache), 0);
        for (int i = 0; i < 20; i++) {
                struct ds_cache_key key = {.text = texts[i], .length = 60, .options = "sm_90", .compiler = 1};

                memset(texts[i], 'a' + i, 60);
                ds_cache_add(cache, &key, texts[i], 60);
                cr_assert_leq(ds_cache_bytes(cache), 2048);
                key.text = texts[0];
                cr_assert(ds_cache_find(cache, &key, &bytes, &size), "the one that is used is gone after %d", i);
                cr_assert(size == 60 && !memcmp(bytes, texts[0], 60));
                key.compiler = 2;
                cr_assert(!ds_cache_find(cache, &key, &bytes, &size));
                key.compiler = 1;
                key.options = "sm_90a";
                cr_assert(!ds_cache_find(cache, &key, &bytes, &size));
        }
        cr_assert(!ds_cache_find(cache, &(struct ds_cache_key){texts[1], 60, "sm_90", 1}, &bytes, &size));
        ds_cache_add(cache, &(struct ds_cache_key){texts[1], 60, "sm_90", 1}, texts, sizeof(texts));
        cr_assert(!ds_cache_find(cache, &(struct ds_cache_key){texts[1], 60, "sm_90", 1}, &bytes, &size));
        ds_cache_free(cache);
}

/* --- the program -------------------------------------------------------------------------------------------------- */

/* The helper runs without rights. If only root can read the tree, tests/support/place.sh has copied the compilers. */
static pid_t start_helper(const char *compiler, ds_conn **ret)
{
        const char *place = getenv("DETSHARE_TEST_PLACE");
        char elsewhere[300];
        int fds[2];
        pid_t pid;

        if (place && *place) {
                snprintf(elsewhere, sizeof(elsewhere), "%s/%s", place, strrchr(compiler, '/') + 1);
                compiler = elsewhere;
        }

        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        pid = fork();
        if (pid == 0) {
                int theirs = fcntl(fds[1], F_DUPFD, 10);

                dup2(theirs, 3);
                close_range(4, ~0U, 0);
                execl(TEST_HELPER, TEST_HELPER, compiler, NULL);
                _exit(127);
        }
        close(fds[1]);
        cr_assert_eq(ds_conn_new(fds[0], 1 << 18, 1 << 20, ret), 0);
        return pid;
}

static void send_check(ds_conn *conn, uint64_t id, const char *path)
{
        Detshare__Internal__ToHelper to = DETSHARE__INTERNAL__TO_HELPER__INIT;
        Detshare__Internal__CheckImage check = DETSHARE__INTERNAL__CHECK_IMAGE__INIT;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        uint8_t frame[256];
        struct stat st;

        cr_assert(fd >= 0 && fstat(fd, &st) == 0);
        check.bytes = (uint64_t)st.st_size;
        check.cc = 90;
        to.id = id;
        to.fds = 1;
        to.body_case = DETSHARE__INTERNAL__TO_HELPER__BODY_CHECK;
        to.check = &check;
        cr_assert_eq(ds_conn_send(conn, frame, detshare__internal__to_helper__pack(&to, frame), &fd, 1), 0);
        close(fd);
}

/* Receives the helper's next message and stores it in answers. */
static void receive(ds_conn *conn)
{
        struct pollfd p = {.fd = ds_conn_fd(conn), .events = POLLIN};
        struct ds_check_result result = {.fd = -1};
        Detshare__Internal__FromHelper *from;
        const uint8_t *payload;
        size_t size;

        while (ds_conn_next(conn, &payload, &size) == 0) {
                cr_assert_eq(poll(&p, 1, 20000), 1, "no answer");
                cr_assert_eq(ds_conn_read(conn), 0, "the helper is gone");
        }
        from = detshare__internal__from_helper__unpack(NULL, size, payload);
        cr_assert_not_null(from);
        result.status = from->status;
        result.bytes = from->bytes;
        snprintf(result.message, sizeof(result.message), "%s", from->message);
        if (from->fds)
                cr_assert_eq(ds_conn_take_fds(conn, &result.fd, 1), 0);
        on_answer(&answers, from->id, &result);
        ds_close(result.fd);
        detshare__internal__from_helper__free_unpacked(from, NULL);
}

/* The helper runs with its privileges dropped, and a slow image delays no other. */
Test(compile, the_program_serves_several_and_dies_with_its_supervisor)
{
        ds_conn *conn;
        pid_t pid = start_helper(TEST_PTXAS, &conn);
        int status;

        send_check(conn, 1, TEST_DIR "/talks.ptx");
        send_check(conn, 2, TEST_DIR "/../cubin/sm_90.plain.cubin");
        send_check(conn, 3, TEST_DIR "/old_code.fatbin");
        for (int i = 0; i < 3; i++)
                receive(conn);
        cr_assert_eq(cubin_of(&answers.of[1]).n_kernels, 3);
        cr_assert_eq(cubin_of(&answers.of[2]).n_kernels, 1);
        cr_assert_eq(answers.of[3].status, 209);
        ds_conn_free(conn);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%x", status);
}

/* Pid of the first child of a process; 0: the process has no child yet. */
static pid_t child_of(pid_t pid)
{
        char path[64];
        int child = 0;
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
        f = fopen(path, "r");
        if (f && fscanf(f, "%d", &child) != 1)
                child = 0;
        if (f)
                fclose(f);
        return child;
}

Test(compile, the_compiler_dies_with_the_program, .timeout = 30)
{
        char path[] = "/tmp/detshare-unit-XXXXXX";
        uint64_t end = now_ms() + 10000;
        int fd = mkstemp(path), status;
        pid_t pid, compiler;
        ds_conn *conn;

        cr_assert(fd >= 0 && write(fd, "// sleep\n", 9) == 9);
        close(fd);
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        pid = start_helper(TEST_HOSTILE, &conn);
        send_check(conn, 1, path);
        while (!(compiler = child_of(pid)) && now_ms() < end)
                usleep(1000);
        cr_assert_gt(compiler, 0);
        cr_assert_eq(kill(compiler, 0), 0);
        usleep(100000); /* waits until the helper has executed the compiler */
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        cr_assert_eq(waitpid(compiler, &status, 0), compiler);
        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%x", status);
        ds_conn_free(conn);
        unlink(path);
}
