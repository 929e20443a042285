/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client core's memory, copies, modules and clock, against a daemon inside the test
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/core.h"
#include "detshare/detshare.h"
#include "tests/support/fake_daemon.h"

static struct fake fake;

static dsc_session *get(void)
{
        int error = -1;
        dsc_session *s = dsc_get(&error);
        cr_assert(s, "dsc_get: %d %s", error, dsc_message());
        return s;
}

/* --- mappings --------------------- */

static bool mapped_as(uint64_t address, const char *protection)
{
        FILE *maps = fopen("/proc/self/maps", "re");
        char line[512], bits[8];
        bool found = false;
        while (!found && fgets(line, sizeof(line), maps)) {
                unsigned long long from, to;
                found = sscanf(line, "%llx-%llx %4s", &from, &to, bits) == 3 && address >= from && address < to &&
                        !strcmp(bits, protection);
        }
        fclose(maps);
        return found;
}

Test(core_memory, lookups_and_frees)
{
        uint64_t device, base = 0, size = 0;
        void *pinned;
        fake_start(&fake);
        dsc_session *s = get();
        cr_assert_eq(dsc_mem_alloc(s, 1000, &device), 0);
        cr_assert_eq(dsc_lookup(s, device + 999, &base, &size), 1);
        cr_assert_eq(base, device);
        cr_assert_eq(size, 1000);
        cr_assert_eq(dsc_lookup(s, device + 1000, &base, &size), 0);
        cr_assert_eq(dsc_lookup(s, device - 1, &base, &size), 0);
        cr_assert_eq(dsc_lookup(s, 0, &base, &size), 0);
        cr_assert_eq(dsc_lookup(s, UINT64_MAX, &base, &size), 0);

        cr_assert_eq(dsc_host_alloc(s, 5000, &pinned), 0);
        cr_assert(mapped_as((uintptr_t)pinned, "rw-s"));
        memset(pinned, 1, 5000);
        cr_assert_eq(dsc_lookup(s, (uintptr_t)pinned + 10, &base, &size), 2);
        cr_assert_eq(base, (uintptr_t)pinned);
        cr_assert_geq(size, 5000);

        cr_assert_eq(dsc_mem_free(s, (uintptr_t)pinned), 1, "pinned memory is not device memory");
        cr_assert_eq(dsc_host_free(s, (void *)(uintptr_t)device), 1);
        cr_assert_eq(dsc_mem_free(s, device + 1), 1);
        cr_assert_eq(dsc_mem_free(s, 0), 1);
        cr_assert_eq(dsc_mem_free(s, device), 0);
        cr_assert_eq(dsc_mem_free(s, device), 1, "twice");
        cr_assert_eq(dsc_host_free(s, pinned), 0);
        cr_assert(mapped_as((uintptr_t)pinned, "---p"), "the reservation is back");
        cr_assert_eq(dsc_host_free(s, pinned), 1);
        cr_assert_eq(dsc_mem_alloc(s, 0, &device), 1);
        cr_assert_eq(dsc_host_alloc(s, 0, &pinned), 1);
}

Test(core_memory, plain_memory_without_shared_memory)
{
        uint64_t base, size;
        void *p;
        setenv("DETSHARE_TRANSPORT", "rpc", 1);
        fake_start(&fake);
        dsc_session *s = get();
        cr_assert_eq(dsc_host_alloc(s, 5000, &p), 0);
        memset(p, 1, 5000);
        cr_assert_eq(dsc_lookup(s, (uintptr_t)p, &base, &size), 0);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_PINNED_ALLOC], 0);
        cr_assert_eq(dsc_host_free(s, p), 0);
        cr_assert_eq(dsc_host_free(s, p), 1);
}

static enum fake_verdict pinned_elsewhere(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        static Detshare__Address address = DETSHARE__ADDRESS__INIT;
        if (request->call_case != DETSHARE__REQUEST__CALL_PINNED_ALLOC)
                return FAKE_DEFAULT;
        address.address = 0x400000; /* an address that the program may use itself, so the client must refuse it */
        address.bytes = 4096;
        reply->result_case = DETSHARE__REPLY__RESULT_PINNED_ALLOC;
        reply->pinned_alloc = &address;
        return FAKE_ANSWERED;
}

Test(core_memory, nothing_is_mapped_outside_the_window)
{
        void *p = NULL;
        fake.hook = pinned_elsewhere;
        fake_start(&fake);
        cr_assert_eq(dsc_host_alloc(get(), 4096, &p), DETSHARE__STATUS__INTERNAL);
        cr_assert_null(p);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_PINNED_FREE], 1);
}

static enum fake_verdict pinned_that_shrinks(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        static Detshare__Address address = DETSHARE__ADDRESS__INIT;
        if (request->call_case != DETSHARE__REQUEST__CALL_PINNED_ALLOC)
                return FAKE_DEFAULT;
        int fd = memfd_create("pinned", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        cr_assert_eq(ftruncate(fd, 4096), 0);
        address.address = FAKE_WINDOW + FAKE_WINDOW_BYTES / 2;
        address.bytes = 4096;
        reply->result_case = DETSHARE__REPLY__RESULT_PINNED_ALLOC;
        reply->pinned_alloc = &address;
        fake_reply(f, reply, &fd, 1);
        close(fd);
        return FAKE_SILENT;
}

Test(core_memory, what_could_shrink_is_not_mapped)
{
        void *p = NULL;
        fake.hook = pinned_that_shrinks;
        fake_start(&fake);
        cr_assert_eq(dsc_host_alloc(get(), 4096, &p), DETSHARE__STATUS__INTERNAL);
        cr_assert_null(p);
}

static int fillers[4096], n_fillers;

static enum fake_verdict out_of_descriptors(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        static Detshare__Address address = DETSHARE__ADDRESS__INIT;
        if (request->call_case != DETSHARE__REQUEST__CALL_PINNED_ALLOC)
                return FAKE_DEFAULT;
        int fd = memfd_create("pinned", MFD_CLOEXEC);
        cr_assert_eq(ftruncate(fd, 4096), 0);
        address.address = FAKE_WINDOW + FAKE_WINDOW_BYTES / 2;
        address.bytes = 4096;
        reply->result_case = DETSHARE__REPLY__RESULT_PINNED_ALLOC;
        reply->pinned_alloc = &address;
        while (n_fillers < 4096 && (fillers[n_fillers] = dup(fd)) >= 0)
                n_fillers++;
        fake_reply(f, reply, &fd, 1);
        return FAKE_SILENT;
}

Test(core_memory, a_process_without_descriptors_keeps_its_session)
{
        struct rlimit limit = {.rlim_cur = 200, .rlim_max = 4096};
        void *p = NULL;
        uint64_t address;
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        fake.hook = out_of_descriptors;
        fake_start(&fake);
        dsc_session *s = get();
        cr_assert_eq(dsc_host_alloc(s, 4096, &p), 2);
        cr_assert_gt(n_fillers, 0);
        while (n_fillers > 0)
                close(fillers[--n_fillers]);
        cr_assert_eq(dsc_mem_alloc(s, 64, &address), 0);
        fake.hook = NULL;
        cr_assert_eq(dsc_host_alloc(s, 4096, &p), 0);
        memset(p, 1, 4096);
}

Test(core_memory, a_reset_empties_the_table)
{
        uint64_t device, base, size;
        void *pinned;
        char bytes[100] = {1};
        fake_start(&fake);
        dsc_session *s = get();
        cr_assert_eq(dsc_mem_alloc(s, 1000, &device), 0);
        cr_assert_eq(dsc_host_alloc(s, 1000, &pinned), 0);
        cr_assert_eq(dsc_write(s, 0, device, 0, bytes, 0, sizeof(bytes), 1), 0);
        cr_assert_eq(dsc_reset(s), 0);
        cr_assert_eq(dsc_lookup(s, device, &base, &size), 0);
        cr_assert_eq(dsc_lookup(s, (uintptr_t)pinned, &base, &size), 0);
        cr_assert(mapped_as((uintptr_t)pinned, "---p"));
        cr_assert_eq(dsc_mem_alloc(s, 1000, &device), 0);
        cr_assert_eq(dsc_write(s, 0, device, 0, bytes, 0, sizeof(bytes), 1), 0, "with a new arena");
}

/* --- copies --- */

static void fill(uint8_t *bytes, size_t n, unsigned seed)
{
        for (size_t i = 0; i < n; i++)
                bytes[i] = (uint8_t)(i * 7 + i / 251 + seed);
}

static void round_trip(dsc_session *s, size_t size)
{
        uint8_t *from = malloc(size + 1), *to = malloc(size + 1);
        uint64_t device = FAKE_WINDOW + 4096;
        fill(from, size, (unsigned)size);
        to[size] = 0x5a;
        fake.device[4096 + size] = 0xa5;
        cr_assert_eq(dsc_write(s, 1, device, 0, from, 0, size, 1), 0);
        cr_assert_eq(dsc_read(s, 1, to, 0, device, 0, size, 1), 0);
        cr_assert_eq(memcmp(from, to, size), 0, "%zu bytes", size);
        cr_assert_eq(memcmp(from, fake.device + 4096, size), 0);
        cr_assert_eq(to[size], 0x5a);
        cr_assert_eq(fake.device[4096 + size], 0xa5);
        free(from);
        free(to);
}

Test(core_memory, copies_of_every_tuning, .timeout = 60)
{
        static const uint32_t pieces[] = {64u << 10, 1u << 20, 12u << 20};
        struct dsc_copy_tuning bad = {.piece_bytes = 1u << 20, .read_ahead = 4};
        fake_start(&fake);
        dsc_session *s = get();
        for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
                for (uint32_t method = DSC_COPY_CACHED; method <= DSC_COPY_PREFETCHED; method++)
                        for (uint32_t ahead = 1; ahead <= 16; ahead += 15) {
                                const struct dsc_copy_tuning tuning = {pieces[i], ahead, method, method};
                                cr_assert_eq(dsc_copy_tune(&tuning), 0);
                                round_trip(s, (3u << 20) + 4097);
                        }
        bad.read_ahead = 17;
        cr_assert_eq(dsc_copy_tune(&bad), 1);
        bad.read_ahead = 0;
        cr_assert_eq(dsc_copy_tune(&bad), 1);
        bad.read_ahead = 4;
        bad.read_method = 3;
        cr_assert_eq(dsc_copy_tune(&bad), 1);
        bad.read_method = 0;
        bad.piece_bytes = (64u << 10) - 4096;
        cr_assert_eq(dsc_copy_tune(&bad), 1);
        bad.piece_bytes = 13u << 20;
        cr_assert_eq(dsc_copy_tune(&bad), 1);
}

static void pitched(dsc_session *s, size_t width, size_t height, size_t device_pitch, size_t host_pitch)
{
        uint8_t *from = malloc(host_pitch * height), *to = calloc(height, host_pitch);
        fill(from, host_pitch * height, (unsigned)width);
        memset(fake.device, 0, device_pitch * height);
        cr_assert_eq(dsc_write(s, 0, FAKE_WINDOW, device_pitch, from, host_pitch, width, height), 0);
        cr_assert_eq(dsc_wait_all(s), 0);
        for (size_t y = 0; y < height; y++) {
                cr_assert_eq(memcmp(fake.device + y * device_pitch, from + y * host_pitch, width), 0, "row %zu", y);
                for (size_t x = width; x < device_pitch; x++)
                        cr_assert_eq(fake.device[y * device_pitch + x], 0);
        }
        cr_assert_eq(dsc_read(s, 0, to, host_pitch, FAKE_WINDOW, device_pitch, width, height), 0);
        for (size_t y = 0; y < height; y++) {
                cr_assert_eq(memcmp(to + y * host_pitch, from + y * host_pitch, width), 0);
                for (size_t x = width; x < host_pitch; x++)
                        cr_assert_eq(to[y * host_pitch + x], 0);
        }
        free(from);
        free(to);
}

static void copies(void)
{
        const size_t sizes[] = {
                1, 100, 4095, 4096, 4097, 61440, 61441, (1u << 20) - 1, 1u << 20, (1u << 20) + 1, 20u << 20};
        uint8_t byte = 0;
        fake_start(&fake);
        dsc_session *s = get();
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                round_trip(s, sizes[i]);
        pitched(s, 10, 5, 16, 12);
        pitched(s, 10, 1000, 10, 12);
        pitched(s, 128, 128, 128, 128);
        pitched(s, 3000, 700, 4096, 3001);
        pitched(s, 1, 2000, 7, 3);
        pitched(s, (1u << 20) + 5, 3, (1u << 20) + 64, (1u << 20) + 9);
        cr_assert_eq(dsc_write(s, 0, FAKE_WINDOW, 0, &byte, 0, 0, 5), 0, "nothing to do");
        cr_assert_eq(dsc_read(s, 0, &byte, 0, FAKE_WINDOW, 0, 0, 0), 0);
        cr_assert_eq(dsc_write(s, 0, FAKE_WINDOW, 3, &byte, 8, 8, 2), 1, "a pitch below the width");
        cr_assert_eq(dsc_write(s, 0, FAKE_WINDOW, 0, &byte, 0, SIZE_MAX, 2), 1);
        cr_assert_eq(dsc_write(s, DS_STREAMS_MAX, FAKE_WINDOW, 0, &byte, 0, 1, 1), 1);
}

Test(core_memory, copies_through_the_arena, .timeout = 60)
{
        copies();
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_WRITE], 0);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_PINNED_ALLOC], 1);
}

Test(core_memory, copies_in_requests, .timeout = 60)
{
        setenv("DETSHARE_TRANSPORT", "rpc", 1);
        copies();
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_ATTACH], 0);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_PINNED_ALLOC], 0);
}

Test(core_memory, small_writes_do_not_wait_for_each_other, .timeout = 20)
{
        fake.paused = true;
        fake_start(&fake);
        dsc_session *s = get();
        for (uint32_t i = 0; i < 1000; i++)
                cr_assert_eq(dsc_write(s, 0, FAKE_WINDOW + 4 * i, 0, &i, 0, 4, 1), 0);
        fake.paused = false;
        cr_assert_eq(dsc_wait_all(s), 0);
        for (uint32_t i = 0; i < 1000; i++)
                cr_assert_eq(memcmp(fake.device + 4 * i, &i, 4), 0);
}

struct copier {
        dsc_session *session;
        unsigned index;
        int result;
};

static void *copy_main(void *arg)
{
        struct copier *c = arg;
        const size_t size = 3000000 + c->index * 1000;
        uint8_t *from = malloc(size), *to = malloc(size);
        const uint64_t device = FAKE_WINDOW + c->index * (4ull << 20);
        for (unsigned i = 0; i < 20 && !c->result; i++) {
                const size_t n = i % 4 ? size : 2000;
                fill(from, n, c->index + i);
                c->result = dsc_write(c->session, c->index, device, 0, from, 0, n, 1);
                if (!c->result)
                        c->result = dsc_read(c->session, c->index, to, 0, device, 0, n, 1);
                if (!c->result)
                        c->result = memcmp(from, to, n) ? -1 : 0;
        }
        free(from);
        free(to);
        return NULL;
}

Test(core_memory, threads_share_the_arena, .timeout = 60)
{
        pthread_t threads[8];
        struct copier copiers[8];
        fake_start(&fake);
        dsc_session *s = get();
        for (unsigned i = 0; i < 8; i++) {
                copiers[i] = (struct copier){.session = s, .index = i};
                pthread_create(&threads[i], NULL, copy_main, &copiers[i]);
        }
        for (unsigned i = 0; i < 8; i++) {
                pthread_join(threads[i], NULL);
                cr_assert_eq(copiers[i].result, 0);
        }
        cr_assert_leq(fake.requests[DETSHARE__REQUEST__CALL_PINNED_ALLOC] -
                              fake.requests[DETSHARE__REQUEST__CALL_PINNED_FREE],
                1);
}

/* --- modules --- */

/* Descriptions of kernels "other0" to "other3" with the ids 78 to 81 and two parameters; the last one's parameters do not
 * fit. broken: the size of "other1" reaches beyond the end. */
static size_t describe(uint8_t *bytes, bool broken)
{
        size_t at = 0;
        for (uint32_t i = 0; i < 4; i++) {
                const size_t size = sizeof(struct ds_described) + 2 * sizeof(struct ds_described_param) + 8;
                struct ds_described *d = (struct ds_described *)(void *)(bytes + at);
                struct ds_described_param *params = (struct ds_described_param *)(d + 1);
                *d = (struct ds_described){.kernel = 78 + i,
                        .bytes = (uint32_t)size + (broken && i == 1 ? 4096 : 0),
                        .name_bytes = 6,
                        .n_params = 2,
                        .params_size = i == 3 ? 11 : 12,
                        .registers = 40 + i};
                params[0] = (struct ds_described_param){0, 8};
                params[1] = (struct ds_described_param){8, 4};
                snprintf((char *)(params + 2), 8, "other%u", i);
                at += size;
        }
        return at;
}

static enum fake_verdict modules(struct fake *f, const Detshare__Request *request, Detshare__Reply *reply)
{
        static Detshare__ModuleReply module = DETSHARE__MODULE_REPLY__INIT;
        static Detshare__KernelReply kernel = DETSHARE__KERNEL_REPLY__INIT;
        static Detshare__KernelParam param = DETSHARE__KERNEL_PARAM__INIT, *params[2] = {&param, &param};
        static Detshare__GlobalReply global = DETSHARE__GLOBAL_REPLY__INIT;
        static Detshare__KernelList list = DETSHARE__KERNEL_LIST__INIT;
        static char *names[3] = {(char *)"a", (char *)"b", (char *)"c"};
        static _Alignas(8) uint8_t described[4096];
        switch (request->call_case) {
        case DETSHARE__REQUEST__CALL_MODULE_LOAD:
                reply->status = request->module_load->bytes == 5 ? 0 : 218;
                reply->message = (char *)"line 7: unknown instruction frob";
                module.module = 9;
                module.log = (char *)"1 warning";
                reply->result_case = DETSHARE__REPLY__RESULT_MODULE_LOAD;
                reply->module_load = &module;
                return FAKE_ANSWERED;
        case DETSHARE__REQUEST__CALL_GET_KERNEL:
                param.offset = 8;
                param.size = 4;
                kernel.kernel = 77;
                kernel.name = request->get_kernel->name;
                kernel.n_params = 2;
                kernel.params = params;
                kernel.registers = 32;
                kernel.params_size = strcmp(kernel.name, "beyond") ? 12 : 11;
                reply->result_case = DETSHARE__REPLY__RESULT_GET_KERNEL;
                reply->get_kernel = &kernel;
                reply->described.data = described;
                reply->described.len = describe(described, !strcmp(kernel.name, "broken"));
                return FAKE_ANSWERED;
        case DETSHARE__REQUEST__CALL_GET_GLOBAL:
                global.address = FAKE_WINDOW + 0x10000;
                global.bytes = 64;
                reply->result_case = DETSHARE__REPLY__RESULT_GET_GLOBAL;
                reply->get_global = &global;
                return FAKE_ANSWERED;
        case DETSHARE__REQUEST__CALL_LIST_KERNELS:
                list.names = names + request->list_kernels->after;
                list.n_names = request->list_kernels->after == 2 ? 1 : 2;
                list.more = request->list_kernels->after == 0;
                reply->result_case = DETSHARE__REPLY__RESULT_LIST_KERNELS;
                reply->list_kernels = &list;
                return FAKE_ANSWERED;
        default:
                return FAKE_DEFAULT;
        }
}

Test(core_memory, modules_kernels_and_globals)
{
        char log[100], **names = NULL;
        uint64_t module = 0, address, bytes, base, size;
        size_t n = 0;
        struct dsc_kernel kernel;
        struct dsc_described *more;
        fake.hook = modules;
        fake_start(&fake);
        dsc_session *s = get();
        cr_assert_eq(dsc_module_load(s, "123456", 6, log, sizeof(log), &module), 218);
        cr_assert_str_eq(log, "line 7: unknown instruction frob");
        cr_assert_eq(dsc_module_load(s, "12345", 5, log, 4, &module), 0);
        cr_assert_eq(module, 9);
        cr_assert_str_eq(log, "1 w");
        cr_assert_eq(dsc_module_load(s, "12345", 0, NULL, 0, &module), 1);
        cr_assert_eq(dsc_kernel_get(s, module, "k", &kernel), 0);
        cr_assert_eq(kernel.id, 77);
        cr_assert_eq(kernel.n_params, 2);
        cr_assert_eq(kernel.params[1].offset, 8);
        cr_assert_eq(kernel.registers, 32);
        dsc_kernel_clear(&kernel);
        cr_assert_null(kernel.name);
        /* this kernel has a parameter beyond its block of parameters: a launch could write beyond the block */
        cr_assert_eq(dsc_kernel_get(s, module, "beyond", &kernel), DETSHARE__STATUS__INTERNAL);
        cr_assert_eq(dsc_kernel_get_more(s, module, "k", &kernel, &more), 0);
        cr_assert_eq(kernel.id, 77);
        dsc_kernel_clear(&kernel);
        cr_assert_eq(more->n_left, 4);
        for (int i = 2; i >= 0; i--) { /* in any order */
                const char name[] = {'o', 't', 'h', 'e', 'r', (char)('0' + i), 0};
                cr_assert_eq(dsc_described_find(more, name, &kernel), 0, "%s", name);
                cr_assert_eq(kernel.id, 78 + (uint64_t)i);
                cr_assert_str_eq(kernel.name, name);
                cr_assert_eq(kernel.registers, 40 + (uint32_t)i);
                cr_assert_eq(kernel.params[1].offset, 8);
                cr_assert_eq(kernel.params[1].size, 4);
                dsc_kernel_clear(&kernel);
        }
        cr_assert_eq(more->n_left, 1);
        cr_assert_eq(dsc_described_find(more, "other3", &kernel), -1, "a parameter beyond its block");
        cr_assert_eq(dsc_described_find(more, "other", &kernel), -1);
        cr_assert_eq(dsc_described_find(more, "", &kernel), -1);
        free(more);
        cr_assert_eq(dsc_kernel_get_more(s, module, "broken", &kernel, &more), 0, "only a further kernel is invalid");
        dsc_kernel_clear(&kernel);
        cr_assert_eq(more->n_left, 1, "the descriptions end before the invalid one");
        cr_assert_eq(dsc_described_find(more, "other1", &kernel), -1);
        cr_assert_eq(dsc_described_find(more, "other2", &kernel), -1);
        cr_assert_eq(dsc_described_find(more, "other0", &kernel), 0);
        dsc_kernel_clear(&kernel);
        free(more);
        cr_assert_eq(dsc_kernel_names(s, module, &names, &n), 0);
        cr_assert_eq(n, 3);
        cr_assert_str_eq(names[2], "c");
        while (n > 0)
                free(names[--n]);
        free(names);
        cr_assert_eq(dsc_global_get(s, module, "g", &address, &bytes), 0);
        cr_assert_eq(dsc_lookup(s, address + 63, &base, &size), 1);
        cr_assert_eq(dsc_mem_free(s, address), 1, "a global is nobody's to free");
        cr_assert_eq(dsc_module_unload(s, module), 0);
        cr_assert_eq(dsc_lookup(s, address, &base, &size), 0);
}

/* --- the clock --- */

static void *clock_main(void *arg)
{
        uint64_t ns;
        cr_assert_eq(detshare_now(&ns), 0);
        return NULL;
}

Test(core_clock, declared_threads_wait_by_request, .timeout = 20)
{
        uint64_t ns = 0;
        pthread_t thread;
        struct dsc_launch launch = {.kernel = 1};
        fake.simulated = true;
        fake_start(&fake);
        dsc_session *s = get();
        cr_assert_eq(detshare_simulated(), 1);
        cr_assert_eq(dsc_launch(s, 0, &launch), 0);
        cr_assert_eq(dsc_wait(s, 0, 1), 0);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_SYNC], 0, "not declared yet");
        cr_assert_eq(detshare_now(&ns), 0);
        cr_assert_eq(ns, 1000);
        cr_assert_eq(fake.declared, 1);
        cr_assert_eq(detshare_sleep_until(5000), 0);
        cr_assert_eq(detshare_now(&ns), 0);
        cr_assert_eq(ns, 5000);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_SLEEP_UNTIL], 1, "asking for the time costs no request");
        cr_assert_eq(detshare_sleep_until(4000), 0, "the past");
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_SLEEP_UNTIL], 1);
        const uint64_t tomorrow = 86400ull * 1000000000;
        cr_assert_eq(detshare_sleep_until(tomorrow), 0);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_SLEEP_UNTIL], 25, "the daemon takes an hour at a time");
        fake.clock_ns = 5000;
        fake.paused = true;
        cr_assert_eq(dsc_launch(s, 0, &launch), 0);
        atomic_store(&fake.page->now_ns, 5000);
        cr_assert_eq(dsc_query(s, 0, 2), 600);
        cr_assert_eq(detshare_now(&ns), 0);
        cr_assert_eq(ns, 6000, "an unsuccessful question takes a microsecond of the device's time");
        fake.paused = false;
        cr_assert_eq(dsc_wait(s, 0, 2), 0);

        pthread_create(&thread, NULL, clock_main, NULL);
        pthread_join(thread, NULL);
        cr_assert_eq(dsc_mem_free(s, 1), 1);
        uint64_t address;
        /* the reply proves that the daemon has received everything that was sent before */
        cr_assert_eq(dsc_mem_alloc(s, 1, &address), 0);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_CLOCK_JOIN], 2);
        cr_assert_eq(fake.declared, 1, "a thread's end takes its declaration back");

        cr_assert_eq(detshare_clock_leave(), 0);
        cr_assert_eq(dsc_mem_alloc(s, 1, &address), 0);
        cr_assert_eq(fake.declared, 0);
        cr_assert_eq(detshare_clock_leave(), 0);
}

Test(core_clock, a_new_worker_is_told_what_was_declared, .timeout = 20)
{
        uint64_t ns;
        fake.simulated = true;
        fake_start(&fake);
        cr_assert_eq(detshare_now(&ns), 0);
        fake_worker_dies(&fake, 0);
        fake.clock_ns = 9000;
        cr_assert_eq(detshare_now(&ns), 0);
        cr_assert_eq(ns, 9000);
        cr_assert_eq(fake.declared, 1);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_CLOCK_JOIN], 2);
}

/* The worker drops a session's clock declarations after 5 s of silence, so the threads must declare themselves
 * again. */
Test(core_clock, threads_declare_again_after_a_long_silence, .timeout = 20)
{
        uint64_t ns;
        fake.simulated = true;
        fake_start(&fake);
        cr_assert_eq(detshare_now(&ns), 0);
        usleep(5100000);
        fake.declared = 0;
        cr_assert_eq(detshare_now(&ns), 0);
        cr_assert_eq(fake.declared, 1);
        cr_assert_eq(detshare_now(&ns), 0);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_CLOCK_JOIN], 2);
}

Test(core_clock, without_shared_memory, .timeout = 20)
{
        uint64_t ns;
        setenv("DETSHARE_TRANSPORT", "rpc", 1);
        fake.simulated = true;
        fake_start(&fake);
        cr_assert_eq(detshare_now(&ns), 0);
        cr_assert_eq(ns, 1000);
        fake.clock_ns = 2000;
        cr_assert_eq(detshare_now(&ns), 0);
        cr_assert_eq(ns, 2000);
        cr_assert_eq(detshare_sleep_until(3000), 0);
        cr_assert_eq(fake.clock_ns, 3000);
}

Test(core_clock, a_real_device_has_real_time, .timeout = 20)
{
        uint64_t a, b;
        fake_start(&fake);
        get();
        cr_assert_eq(detshare_now(&a), 0);
        cr_assert_eq(detshare_sleep_until(a + 2000000), 0);
        cr_assert_eq(detshare_now(&b), 0);
        cr_assert_geq(b, a + 2000000);
        cr_assert_eq(fake.requests[DETSHARE__REQUEST__CALL_CLOCK_JOIN], 0);
}
