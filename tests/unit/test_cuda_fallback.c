/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Without a daemon: an error with one line that says what to do, or with DETSHARE_FALLBACK=native the machine's own
 * driver, played by a library with unmistakable answers
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/api.h"

typedef CUresult (*init_function)(unsigned int);
typedef CUresult (*count_function)(int *);
typedef CUresult (*info_function)(size_t *, size_t *);
typedef CUresult (*query_function)(CUstream);
typedef CUresult (*proc_function)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static void *handle;

static void *function(const char *name)
{
        void *p;

        if (!handle)
                handle = dlopen(LIBCUDA, RTLD_NOW | RTLD_LOCAL);
        cr_assert(handle, "%s", dlerror());
        p = dlsym(handle, name);
        cr_assert(p, "%s", name);
        return p;
}

static void *looked_up(const char *name, int version, cuuint64_t flags)
{
        void *p = NULL;

        cr_assert_eq(((proc_function)function("cuGetProcAddress_v2"))(name, &p, version, flags, NULL), CUDA_SUCCESS);
        cr_assert(p, "%s", name);
        return p;
}

/* Calls cuInit and captures standard error in words, which must hold 1,000 bytes. */
static CUresult init_listening(char *words)
{
        char path[] = "/tmp/detshare-fallback-XXXXXX";
        int file = mkstemp(path), before = dup(STDERR_FILENO);
        ssize_t n;
        CUresult r;

        cr_assert(file >= 0 && before >= 0);
        unlink(path);
        dup2(file, STDERR_FILENO);
        r = ((init_function)function("cuInit"))(0);
        ((init_function)function("cuInit"))(0);
        dup2(before, STDERR_FILENO);
        n = pread(file, words, 999, 0);
        words[n > 0 ? n : 0] = '\0';
        close(file);
        close(before);
        return r;
}

static void surroundings(const char *fallback, const char *driver)
{
        setenv("DETSHARE_SOCKET", "/nonexistent/detshared.sock", 1);
        setenv("DETSHARE_LIBCUDA", driver, 1);
        if (fallback)
                setenv("DETSHARE_FALLBACK", fallback, 1);
        else
                unsetenv("DETSHARE_FALLBACK");
}

static void one_line_with(const char *words, const char *part)
{
        cr_expect(strstr(words, part), "\"%s\" does not say \"%s\"", words, part);
        cr_expect(strchr(words, '\n') && strchr(words, '\n')[1] == '\0', "\"%s\" is not one line", words);
}

Test(fallback, without_it_there_is_no_device_and_one_line)
{
        char words[1000];
        int n = -1;

        surroundings(NULL, STANDIN);
        cr_expect_eq(init_listening(words), CUDA_ERROR_NO_DEVICE);
        one_line_with(words, "systemctl start detshared");
        cr_expect_eq(((count_function)function("cuDeviceGetCount"))(&n), CUDA_ERROR_NOT_INITIALIZED);
}

/* Functions that were looked up before cuInit, by name and by version, lead to the other library afterwards. */
Test(fallback, all_functions_are_the_drivers)
{
        query_function legacy, per_thread, by_name;
        size_t free_bytes = 0, total = 0;
        info_function info;
        char words[1000];
        int n = -1;

        surroundings("native", STANDIN);
        info = (info_function)looked_up("cuMemGetInfo", 3020, 0);
        legacy = (query_function)looked_up("cuStreamQuery", 2000, 0);
        per_thread = (query_function)looked_up("cuStreamQuery", 7000, 2);
        by_name = (query_function)function("cuStreamQuery");
        cr_expect_eq(info(&free_bytes, &total), CUDA_ERROR_NOT_INITIALIZED);
        cr_expect_eq(init_listening(words), CUDA_SUCCESS);
        one_line_with(words, "machine's own driver");
        cr_expect_eq(info(&free_bytes, &total), CUDA_SUCCESS);
        cr_expect(free_bytes == 123 && total == 456);
        cr_expect_eq(legacy((CUstream)&n), 600);
        cr_expect_eq(by_name((CUstream)&n), 600);
        cr_expect_eq(per_thread((CUstream)&n), 601);
        cr_expect_eq(((count_function)function("cuDeviceGetCount"))(&n), CUDA_SUCCESS);
        cr_expect_eq(n, 7);
        /* a function that this driver does not have still returns an error */
        cr_expect_eq(((count_function)function("cuCtxGetDevice"))(&n), CUDA_ERROR_NOT_INITIALIZED);
}

Test(fallback, the_environment_may_be_what_is_refused)
{
        char words[1000];

        surroundings("native", STANDIN);
        setenv("DETSHARE_SM_PERCENT", "nonsense", 1);
        cr_expect_eq(init_listening(words), CUDA_SUCCESS);
        one_line_with(words, "DETSHARE_SM_PERCENT=nonsense: expected a whole number from 1 to 100, for example 50");
}

Test(fallback, another_word_is_not_guessed_at)
{
        char words[1000];

        surroundings("natively", STANDIN);
        cr_expect_eq(init_listening(words), CUDA_ERROR_INVALID_VALUE);
        one_line_with(words, "DETSHARE_FALLBACK=natively: expected native");
}

Test(fallback, zero_is_no_word)
{
        char words[1000];

        surroundings("0", STANDIN);
        setenv("DETSHARE_REGISTER", "0", 1);
        cr_expect_eq(init_listening(words), CUDA_ERROR_NO_DEVICE);
        one_line_with(words, "systemctl start detshared");
}

Test(fallback, without_a_driver_it_is_an_error_and_one_line)
{
        char words[1000];

        surroundings("native", "/nonexistent/libcuda.so.1");
        cr_expect_eq(init_listening(words), CUDA_ERROR_NO_DEVICE);
        one_line_with(words, "DETSHARE_FALLBACK=native finds no NVIDIA driver on this machine");
}

Test(fallback, the_drop_in_is_no_driver)
{
        char words[1000];

        surroundings("native", LIBCUDA);
        cr_expect_eq(init_listening(words), CUDA_ERROR_NO_DEVICE);
        one_line_with(words, "DETSHARE_FALLBACK=native finds no NVIDIA driver on this machine");
}

/* The reported version is DetShare's, or the driver's if that is newer, so that NVIDIA's runtime and its tables
 * match. */
Test(fallback, the_version_is_that_of_the_newer)
{
        void *p = &handle;
        int version = 0;

        surroundings(NULL, STANDIN);
        cr_expect_eq(((count_function)function("cuDriverGetVersion"))(&version), CUDA_SUCCESS);
        cr_expect_eq(version, 13050);
        cr_expect_eq(((proc_function)function("cuGetProcAddress_v2"))("cuInit", &p, 13050, 0, NULL), CUDA_SUCCESS);
        cr_expect_eq(p, function("cuInit"));
        cr_expect_eq(
                ((proc_function)function("cuGetProcAddress_v2"))("cuOfTheFuture", &p, 13050, 0, NULL), CUDA_SUCCESS);
        cr_expect_null(p);
}
