/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exports of libcuda.so.1 without a daemon, and the entry point behind each name
 *
 * The test opens the library as a program does. The list of names comes from the toolkit's headers, and from the
 * toolkit's stub library where there is one.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda/api.h"
#include "cuda/cuda_names.h"

#define NAME(n) #n,
static const char *const names[] = {CUDA_NAMES(NAME)};
#undef NAME
#define N_NAMES (sizeof(names) / sizeof(names[0]))

typedef CUresult (*any_function)(
        void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, void *);

static void *library(void)
{
        static void *handle;

        if (!handle)
                handle = dlopen(LIBCUDA, RTLD_NOW | RTLD_LOCAL);
        cr_assert(handle, "%s", dlerror());
        return handle;
}

/* --- the exported names ------------------------------------------------------------------------------------------- */

struct symbols {
        const Elf64_Sym *table;
        const char *strings;
        size_t n;
};

static int open_symbols(const char *path, struct symbols *ret)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct stat st;
        const Elf64_Ehdr *elf;
        const Elf64_Shdr *sections;

        if (fd < 0)
                return 0;
        cr_assert_eq(fstat(fd, &st), 0);
        elf = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        close(fd);
        cr_assert(elf != MAP_FAILED);
        sections = (const Elf64_Shdr *)((const char *)elf + elf->e_shoff);
        for (unsigned int i = 0; i < elf->e_shnum; i++) {
                if (sections[i].sh_type == SHT_DYNSYM) {
                        ret->table = (const Elf64_Sym *)((const char *)elf + sections[i].sh_offset);
                        ret->n = sections[i].sh_size / sizeof(Elf64_Sym);
                        ret->strings = (const char *)elf + sections[sections[i].sh_link].sh_offset;
                        return 1;
                }
        }
        return 0;
}

static int is_listed(const char *name)
{
        for (size_t i = 0; i < N_NAMES; i++) {
                if (strcmp(names[i], name) == 0)
                        return 1;
        }
        return 0;
}

static void check_symbols(const char *path)
{
        struct symbols s = {0};
        size_t defined = 0;

        cr_assert(open_symbols(path, &s), "%s", path);
        for (size_t i = 0; i < s.n; i++) {
                if (s.table[i].st_shndx == SHN_UNDEF || ELF64_ST_TYPE(s.table[i].st_info) != STT_FUNC)
                        continue;
                cr_expect(is_listed(s.strings + s.table[i].st_name), "%s exports %s, which cuda.h does not declare",
                        path, s.strings + s.table[i].st_name);
                defined++;
        }
        cr_expect_eq(defined, N_NAMES, "%s exports %zu names, cuda.h declares %zu", path, defined, N_NAMES);
}

Test(exports, are_those_of_the_toolkit)
{
        cr_expect_eq(N_NAMES, 637);
        check_symbols(LIBCUDA);
}

Test(exports, are_those_of_the_stub_library)
{
        static const char stub[] = "/usr/local/cuda/lib64/stubs/libcuda.so";

        if (access(stub, R_OK) == 0)
                check_symbols(stub);
        else
                skip_test("the stub library of a CUDA toolkit");
}

/* Calls every entry point with zeros before cuInit: each returns an error code and none crashes. */
Test(exports, answer_an_error_to_zeros)
{
        unsigned int unsupported = 0;

        for (size_t i = 0; i < N_NAMES; i++) {
                any_function f = (any_function)dlsym(library(), names[i]);
                CUresult r;

                cr_assert(f, "%s", names[i]);
                if (strcmp(names[i], "cuInit") == 0)
                        continue; /* cuInit would look for a daemon */
                r = f(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
                cr_expect(r == CUDA_ERROR_NOT_INITIALIZED || r == CUDA_ERROR_INVALID_VALUE ||
                                  r == CUDA_ERROR_NOT_SUPPORTED,
                        "%s answers %d", names[i], r);
                unsupported += r == CUDA_ERROR_NOT_SUPPORTED;
        }
        cr_expect_gt(unsupported, 0);
        cr_expect_lt(unsupported, N_NAMES * 2 / 3, "%u of them are not supported", unsupported);
}

static const struct reason {
        const char *pattern, *words;
} reasons[] = {
#define UNSUPPORTED(pattern, words) {pattern, words},
#include "cuda/unsupported.def"
#undef UNSUPPORTED
};
#define N_REASONS (sizeof(reasons) / sizeof(reasons[0]))

static int matches(const char *pattern, const char *name)
{
        size_t length = strcspn(pattern, "*");

        return pattern[length] ? strncmp(name, pattern, length) == 0 : strcmp(name, pattern) == 0;
}

/* 1 if the function is the stub for names without an implementation, which prints its own name. */
static int is_unsupported(const char *name)
{
        char path[] = "/tmp/detshare-exports-XXXXXX", words[200], expected[200];
        int file = mkstemp(path), before = dup(STDERR_FILENO);
        ssize_t n;

        cr_assert(file >= 0 && before >= 0);
        unlink(path);
        dup2(file, STDERR_FILENO);
        ((any_function)dlsym(library(), name))(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
        fflush(stderr);
        dup2(before, STDERR_FILENO);
        n = pread(file, words, sizeof(words) - 1, 0);
        words[n > 0 ? n : 0] = '\0';
        close(file);
        close(before);
        snprintf(expected, sizeof(expected), "detshare: %s is not supported\n", name);
        return strcmp(words, expected) == 0;
}

/* Each row of unsupported.def is in the document that users read. */
Test(exports, unsupported_functions_are_documented)
{
        static char text[1 << 18];
        FILE *file = fopen(DOCUMENT, "r");
        char pattern[128];

        cr_assert(file, "%s", DOCUMENT);
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
        for (size_t k = 0; k < N_REASONS; k++) {
                snprintf(pattern, sizeof(pattern), "`%s`", reasons[k].pattern);
                cr_expect(strstr(text, pattern), "%s is not in %s", reasons[k].pattern, DOCUMENT);
        }
}

/* Every exported name that DetShare does not implement has a row with a reason in unsupported.def, and no row is
 * left over. */
Test(exports, unsupported_functions_have_a_reason)
{
        int used[N_REASONS] = {0};
        unsigned n = 0;

        setenv("DETSHARE_DEBUG", "1", 1);
        for (size_t i = 0; i < N_NAMES; i++) {
                int found = 0;

                if (strcmp(names[i], "cuInit") == 0 || strstr(names[i], "_pt") || !is_unsupported(names[i]))
                        continue;
                n++;
                for (size_t k = 0; k < N_REASONS; k++) {
                        if (matches(reasons[k].pattern, names[i]))
                                found = used[k] = 1;
                }
                cr_expect(found, "%s has no reason in unsupported.def", names[i]);
        }
        for (size_t k = 0; k < N_REASONS; k++)
                cr_expect(used[k], "%s: no such function is unsupported", reasons[k].pattern);
        cr_expect(n > 0);
}

Test(exports, implement_what_driver_programs_use)
{
        static const char *const needed[] = {"cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGetUuid_v2",
                "cuCtxCreate_v4", "cuCtxCreate_v2", "cuCtxSynchronize_v2", "cuModuleLoadDataEx", "cuModuleGetGlobal_v2",
                "cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction", "cuKernelSetAttribute",
                "cuLaunchKernel", "cuLaunchKernel_ptsz", "cuLaunchKernelEx", "cuLaunchCooperativeKernel",
                "cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemHostAlloc", "cuMemcpyHtoDAsync_v2", "cuMemcpyHtoD_v2_ptds",
                "cuMemcpy2DUnaligned_v2", "cuMemcpy3D_v2", "cuMemsetD2D32Async", "cuStreamCreateWithPriority",
                "cuStreamWaitEvent", "cuEventRecordWithFlags", "cuEventElapsedTime_v2",
                "cuOccupancyMaxPotentialBlockSize", "cuOccupancyAvailableDynamicSMemPerBlock", "cuPointerGetAttributes",
                "cuGetProcAddress_v2", "cuGetErrorString", "cuFuncGetParamInfo", "cuDevicePrimaryCtxReset_v2"};

        for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
                any_function f = (any_function)dlsym(library(), needed[i]);

                cr_assert(f, "%s", needed[i]);
                cr_expect_neq(f(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
                        CUDA_ERROR_NOT_SUPPORTED, "%s", needed[i]);
        }
}

/* --- cuGetProcAddress --------------------------------------------------------------------------------------------- */

typedef CUresult (*get_proc_v2)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static get_proc_v2 get_proc(void)
{
        get_proc_v2 f = (get_proc_v2)dlsym(library(), "cuGetProcAddress_v2");

        cr_assert(f);
        return f;
}

static void replay(const char *name, int version, unsigned int flags, const char *symbol)
{
        void *pfn = (void *)1;
        CUresult r = get_proc()(strcmp(name, "(empty") == 0 ? "" : name, &pfn, version, flags, NULL);

        cr_expect_eq(r, CUDA_SUCCESS, "%s %d %u: %d", name, version, flags, r);
        if (strcmp(symbol, "NULL") == 0)
                cr_expect_null(pfn, "%s %d %u", name, version, flags);
        else
                cr_expect_eq(pfn, dlsym(library(), symbol), "%s %d %u is not %s", name, version, flags, symbol);
}

Test(proc_address, gives_the_runtime_every_abi_that_it_asks_for)
{
        FILE *f = fopen(DATA "/cudart13-lookups.txt", "r");
        char line[256], name[96], symbol[96], rest[96];
        unsigned int flags, n = 0;
        int version;

        cr_assert(f);
        while (fgets(line, sizeof(line), f)) {
                if (line[0] == '#')
                        continue;
                if (strstr(line, "(empty string)")) {
                        cr_assert_eq(sscanf(line, "%*d. (empty string) %d %u -> %95s", &version, &flags, symbol), 3);
                        snprintf(name, sizeof(name), "(empty");
                } else {
                        cr_assert_eq(sscanf(line, "%*d. %95s %d %u -> %95s %95s", name, &version, &flags, symbol, rest),
                                4, "%s", line);
                }
                replay(name, version, flags, symbol);
                n++;
        }
        fclose(f);
        cr_expect_eq(n, 440);
}

static void expect(
        const char *name, int version, unsigned int flags, CUresult result, unsigned int status, const char *symbol)
{
        CUdriverProcAddressQueryResult got = 99;
        void *pfn = NULL;
        CUresult r = get_proc()(name, &pfn, version, flags, &got);

        cr_expect_eq(r, result, "%s: %d", name, r);
        cr_expect_eq(got, status, "%s: status %d", name, got);
        cr_expect_eq(pfn, symbol ? dlsym(library(), symbol) : NULL, "%s %d %u", name, version, flags);
}

Test(proc_address, chooses_by_version_and_stream)
{
        expect("cuMemAlloc", 3020, 0, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS, "cuMemAlloc_v2");
        expect("cuMemAlloc", 3010, 0, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS, "cuMemAlloc");
        expect("cuMemAlloc", 13000, 0, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS, "cuMemAlloc_v2");
        expect("cuCtxGetDevice", 12080, 0, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS, "cuCtxGetDevice");
        expect("cuCtxGetDevice", 13000, 0, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS, "cuCtxGetDevice_v2");
        expect("cuLaunchKernel", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, CUDA_SUCCESS,
                CU_GET_PROC_ADDRESS_SUCCESS, "cuLaunchKernel_ptsz");
        expect("cuLaunchKernel", 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS,
                "cuLaunchKernel");
        expect("cuMemcpyHtoD", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, CUDA_SUCCESS,
                CU_GET_PROC_ADDRESS_SUCCESS, "cuMemcpyHtoD_v2_ptds");
        expect("cuMemAlloc", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, CUDA_SUCCESS,
                CU_GET_PROC_ADDRESS_SUCCESS, "cuMemAlloc_v2");
}

/* cuGetProcAddress answers like an NVIDIA driver of version 13.0. */
Test(proc_address, refuses_what_it_does_not_know)
{
        expect("cuFoo", 13000, 0, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, NULL);
        expect("cuCtxGetDevice", 1000, 0, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, NULL);
        expect("cuInit", 99000, 0, CUDA_ERROR_INVALID_VALUE, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, NULL);
        expect("cuMemAlloc_v2", 13000, 0, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, NULL);
        cr_expect_eq(get_proc()("cuInit", &(void *){NULL}, 13000, 4, NULL), CUDA_ERROR_INVALID_VALUE);
        cr_expect_eq(get_proc()("cuInit", NULL, 13000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
        cr_expect_eq(get_proc()(NULL, &(void *){NULL}, 13000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
}

Test(proc_address, leads_to_every_exported_name)
{
        /* each exported name is found with some base name, version and flags; otherwise no program could look it up */
        static const int versions[] = {2000, 2010, 2020, 2030, 3000, 3010, 3020, 4000, 4010, 4020, 5000, 5050, 6000,
                6050, 7000, 7050, 8000, 9000, 9020, 10000, 10010, 10020, 11000, 11010, 11020, 11030, 11040, 11050,
                11060, 11070, 11080, 12000, 12010, 12020, 12030, 12040, 12050, 12060, 12080, 12090, 13000};
        for (size_t i = 0; i < N_NAMES; i++) {
                char base[96];
                char *tail;
                int found = 0;

                snprintf(base, sizeof(base), "%s", names[i]);
                if ((tail = strstr(base, "_pt")))
                        *tail = '\0';
                tail = base + strlen(base);
                while (tail > base && tail[-1] >= '0' && tail[-1] <= '9')
                        tail--;
                if (tail - base > 2 && tail[0] && tail[-1] == 'v' && tail[-2] == '_')
                        tail[-2] = '\0';
                for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]) && !found; v++) {
                        for (unsigned int flags = 0; flags <= 2; flags += 2) {
                                void *pfn = NULL;

                                (void)get_proc()(base, &pfn, versions[v], flags, NULL);
                                found |= pfn == dlsym(library(), names[i]);
                        }
                }
                cr_expect(found, "%s", names[i]);
        }
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

typedef CUresult (*describe)(CUresult, const char **);

#define CODES 1100 /* number of codes tried: more than CUDA 13 has */

struct described {
        char name[64], text[160];
};

/* The genuine driver's names and texts, by code: recorded, because a machine without a GPU lacks that driver. */
static struct described *genuine_errors(void)
{
        static struct described all[CODES];
        FILE *f = fopen("tests/data/cuda/driver13-errors.txt", "re");
        char line[300];
        struct described d;
        unsigned int code;

        cr_assert(f, "tests/data/cuda/driver13-errors.txt cannot be opened: run tests from the top of the tree");
        while (fgets(line, sizeof(line), f))
                if (sscanf(line, "%u\t%63[^\t]\t%159[^\n]", &code, d.name, d.text) == 3 && code < CODES)
                        all[code] = d;
        fclose(f);
        return all;
}

Test(errors, names_and_texts_are_those_of_the_genuine_driver)
{
        describe name = (describe)dlsym(library(), "cuGetErrorName"),
                 text = (describe)dlsym(library(), "cuGetErrorString");
        const struct described *genuine = genuine_errors();
        unsigned int known = 0;

        for (int code = 0; code < CODES; code++) {
                const char *n = NULL, *t = NULL;

                name((CUresult)code, &n);
                text((CUresult)code, &t);
                cr_expect_str_eq(n ? n : "", genuine[code].name, "name of %d", code);
                cr_expect_str_eq(t ? t : "", genuine[code].text, "text of %d", code);
                known += n && t;
        }
        cr_expect_geq(known, 100u);
}

Test(errors, every_code_of_the_header_has_its_name_and_a_text)
{
        describe name = (describe)dlsym(library(), "cuGetErrorName"),
                 text = (describe)dlsym(library(), "cuGetErrorString");
        const char *s;

#define CHECK(code)                                        \
        s = NULL;                                          \
        cr_expect_eq(name(code, &s), CUDA_SUCCESS, #code); \
        cr_expect_str_eq(s ? s : "", #code);               \
        s = NULL;                                          \
        cr_expect_eq(text(code, &s), CUDA_SUCCESS, #code); \
        cr_expect(s &&strlen(s) > 5, #code);
        CUDA_CODES(CHECK)
#undef CHECK
        s = "left over";
        cr_expect_eq(name((CUresult)12345, &s), CUDA_ERROR_INVALID_VALUE);
        cr_expect_null(s);
        s = "left over";
        cr_expect_eq(text((CUresult)12345, &s), CUDA_ERROR_INVALID_VALUE);
        cr_expect_null(s);
        cr_expect_eq(text(CUDA_SUCCESS, NULL), CUDA_ERROR_INVALID_VALUE);
}

/*
 * The private tables that NVIDIA's runtime looks up: hooks of its tools, the thread's context, values kept with
 * contexts, checks. Tables that only the genuine driver has are missing without one.
 */
Test(errors, the_runtimes_tables_are_there)
{
        static const uint8_t served[][16] = {
                {0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a, 0x66},
                {0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec, 0xdc},
                {0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa, 0x7e},
                {0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2},
                {0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99, 0x1e},
        };
        static const uint8_t genuine[][16] = {
                {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9},
                {0xda, 0x91, 0x51, 0xd3, 0x3a, 0xe6, 0xcc, 0x41, 0xa5, 0xc0, 0x4f, 0x26, 0xd5, 0x33, 0xe3, 0x28}};
        CUresult (*table)(const void **, const CUuuid *) =
                (CUresult(*)(const void **, const CUuuid *))dlsym(library(), "cuGetExportTable");
        CUuuid id;
        const void *p;

        for (size_t i = 0; i < sizeof(served) / sizeof(served[0]); i++) {
                const uintptr_t *words;

                memcpy(id.bytes, served[i], sizeof(id.bytes));
                cr_assert_eq(table(&p, &id), CUDA_SUCCESS, "%zu", i);
                words = p;
                for (size_t k = 1; k < words[0] / sizeof(words[0]); k++)
                        cr_expect(words[k], "table %zu has no function at %zu", i, k);
        }
        for (size_t i = 0; i < sizeof(genuine) / sizeof(genuine[0]); i++) {
                memcpy(id.bytes, genuine[i], sizeof(id.bytes));
                cr_expect_neq(table(&p, &id), CUDA_SUCCESS, "%zu", i);
                cr_expect_null(p, "%zu", i);
        }
}

Test(errors, there_are_no_other_tables)
{
        CUresult (*table)(const void **, const CUuuid *) =
                (CUresult(*)(const void **, const CUuuid *))dlsym(library(), "cuGetExportTable");
        const CUuuid any = {{1, 2, 3}};
        const void *p = &any;

        cr_expect_eq(table(&p, &any), CUDA_ERROR_NOT_FOUND);
        cr_expect_null(p);
}

Test(init, without_a_daemon_there_is_no_device)
{
        CUresult (*init)(unsigned int) = (CUresult(*)(unsigned int))dlsym(library(), "cuInit");
        CUresult (*count)(int *) = (CUresult(*)(int *))dlsym(library(), "cuDeviceGetCount");
        CUresult (*version)(int *) = (CUresult(*)(int *))dlsym(library(), "cuDriverGetVersion");
        int n = -1;

        setenv("DETSHARE_SOCKET", "/nonexistent/detshared.sock", 1);
        cr_expect_eq(init(1), CUDA_ERROR_INVALID_VALUE);
        cr_expect_eq(init(0), CUDA_ERROR_NO_DEVICE);
        cr_expect_eq(init(0), CUDA_ERROR_NO_DEVICE);
        cr_expect_eq(count(&n), CUDA_ERROR_NOT_INITIALIZED);
        cr_expect_eq(version(&n), CUDA_SUCCESS);
        cr_expect_eq(n, 13000);
}
