/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules whose kernels are loaded one by one: launches of a session, and of a restored session
 *
 * The fake driver aborts when a call that stops a GPU is made beside work.
 */
#include "device/cuda/cuda.h"
#include "tests/unit/worker_harness.h"
#include "worker/internal.h"

#define MANY 70 /* kernels; more than the cuda device loads with their module, or the worker describes with it */

static struct wt *load_open(void)
{
        setenv("DETSHARE_LIBCUDA", TEST_FAKE_CUDA, 1);
        setenv("PTXAS", TEST_PTXAS, 1);
        setenv("FAKE_CUDA_STRICT", "1", 1);
        wt_ops = &ds_cuda_ops;
        wt_tick = 200 * DS_NS_PER_US;
        return wt_open("0");
}

static const struct ds_device_info *cubin_info(ds_device *device)
{
        static const struct ds_device_info info = {.cc_major = 9};

        return &info;
}

/* A sealed file with MANY kernels; for example, k07 writes 107 to *p. */
static int many_kernels(size_t *ret_size)
{
        static const struct ds_device_ops ops = {.info = cubin_info};
        struct dt t = {.ops = &ops};
        char text[sizeof(DT_PTX_HEADER) + MANY * 200];
        size_t used = (size_t)snprintf(text, sizeof(text), "%s", DT_PTX_HEADER);
        int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        void *image;

        for (int i = 0; i < MANY; i++)
                used += (size_t)snprintf(text + used, sizeof(text) - used,
                        ".visible .entry k%02d(.param .u64 p)\n{\n .reg .b64 %%rd; .reg .b32 %%r;\n"
                        " ld.param.u64 %%rd, [p]; mov.u32 %%r, %d; st.u32 [%%rd], %%r; ret;\n}\n",
                        i, i + 100);
        cr_assert_lt(used, sizeof(text));
        image = dt_image(&t, text, ret_size);
        cr_assert_eq(write(fd, image, *ret_size), (ssize_t)*ret_size);
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL), 0);
        free(image);
        return fd;
}

/* Notes the ids of described kernels, if ids is not NULL. Returns their number. */
static size_t described(ProtobufCBinaryData from, uint64_t *ids)
{
        size_t n = 0;

        for (size_t at = 0; at < from.len; n++) {
                struct ds_described d;
                const char *name;

                cr_assert_leq(sizeof(d), from.len - at);
                memcpy(&d, from.data + at, sizeof(d));
                cr_assert(d.bytes % 8 == 0 && d.bytes > sizeof(d) && d.bytes <= from.len - at);
                cr_assert_eq(d.n_params, 1);
                cr_assert_eq(d.params_size, 8);
                name = (const char *)from.data + at + sizeof(d) + sizeof(struct ds_described_param);
                cr_assert_eq(strlen(name), d.name_bytes);
                cr_assert(!ids || !ids[atoi(name + 1)], "%s is described twice", name);
                if (ids)
                        ids[atoi(name + 1)] = d.kernel;
                at += d.bytes;
        }
        return n;
}

/* Loads the module; *ret_n kernels are described, with their ids in `ids` if that is not NULL. */
static uint64_t load_described(
        struct wt *t, struct wt_client *client, int fd, size_t size, uint64_t *ids, size_t *ret_n)
{
        WT_REQUEST(request, MODULE_LOAD, module_load, ModuleLoad, MODULE_LOAD, .bytes = size);
        wt_answer *answer = wt_wait(t, wt_send_call_fd(t, client, &request, fd));
        uint64_t module;

        cr_assert_eq(answer->status, 0);
        cr_assert_eq(answer->reply->module_load->kernels, MANY);
        *ret_n = described(answer->reply->module_load->described, ids);
        module = answer->reply->module_load->module;
        wt_free(answer);
        return module;
}

static uint64_t load(struct wt *t, struct wt_client *client, int fd, size_t size)
{
        size_t n;

        return load_described(t, client, fd, size, NULL, &n);
}

static int launch(struct wt *t, struct wt_client *client, uint64_t kernel, uint64_t p)
{
        wt_push_launch(client, 0, kernel, 1, 1, &p, sizeof(p));
        return wt_sync_all(t, client);
}

/* A session requests kernels one by one while another session has work in flight all the time. */
Test(worker_load, kernels_are_requested, .timeout = 60)
{
        struct wt *t = load_open();
        struct wt_client busy = wt_client(t, 1, DETSHARE__CLASS__LS), client = wt_client(t, 2, DETSHARE__CLASS__BE),
                         other = wt_client(t, 3, DETSHARE__CLASS__BE);
        uint64_t module, kernel, p, theirs;
        size_t size;
        int fd = many_kernels(&size);

        wt_attach(t, &busy);
        wt_attach(t, &client);
        wt_attach(t, &other);
        module = load(t, &busy, fd, size);
        kernel = wt_kernel(t, &busy, module, "k00");
        cr_assert_eq(wt_alloc(t, &busy, 4096, &theirs), 0);
        cr_assert_eq(wt_alloc(t, &client, 4096, &p), 0);
        for (int i = 0; i < 200; i++)
                wt_push_launch(&busy, 0, kernel, 1, 1, &theirs, sizeof(theirs));
        module = load(t, &client, fd, size);
        for (int i = 0; i < 200; i++)
                wt_push_launch(&busy, 0, kernel, 1, 1, &theirs, sizeof(theirs));
        kernel = wt_kernel(t, &client, module, "k07");
        cr_assert_neq(kernel, 0);
        cr_assert_eq(wt_kernel(t, &client, module, "k70"), 0, "there is none");
        cr_assert_eq(launch(t, &client, kernel, p), 0);
        cr_assert_eq(launch(t, &client, kernel + 1, p), DS_CUDA_INVALID_HANDLE, "nobody asked for it");
        /* a kernel that one session has requested is loaded for all sessions that use the same image */
        cr_assert_eq(wt_alloc(t, &other, 4096, &p), 0);
        module = load(t, &other, fd, size);
        cr_assert_eq(launch(t, &other, module << 16 | (kernel & 0xffff), p), 0);
        cr_assert_eq(wt_sync_all(t, &busy), 0);
        close(fd);
        wt_client_close(t, &other);
        wt_client_close(t, &client);
        wt_client_close(t, &busy);
        wt_close(t);
}

/* Requests a kernel and notes all kernels that the answer describes. Returns their number. */
static size_t request_noted(struct wt *t, struct wt_client *client, uint64_t module, int i, uint64_t ids[MANY])
{
        char name[8];
        size_t n;

        snprintf(name, sizeof(name), "k%02d", i);
        WT_REQUEST(request, GET_KERNEL, get_kernel, GetKernel, GET_KERNEL, .module = module, .name = name);
        wt_answer *answer = wt_call(t, client, &request);
        cr_assert_eq(answer->status, 0);
        ids[i] = answer->reply->get_kernel->kernel;
        n = described(answer->reply->described, ids);
        wt_free(answer);
        return n + 1;
}

/* Few requests describe all kernels: each loads more of them ahead. Another session learns them with its module. */
Test(worker_load, described_with_others, .timeout = 60)
{
        static const size_t expected[] = {
                1, 2, 4, 8, 16, 17, 17, 5}; /* with 0, 1, 3, 7, 15, 16 and 16 more, and the rest */
        struct wt *t = load_open();
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE), other = wt_client(t, 2, DETSHARE__CLASS__BE);
        uint64_t ids[MANY] = {0}, theirs[MANY] = {0}, module, p;
        size_t size, n = 0;
        int fd = many_kernels(&size);

        wt_attach(t, &client);
        wt_attach(t, &other);
        cr_assert_eq(wt_alloc(t, &client, 4096, &p), 0);
        module = load_described(t, &client, fd, size, ids, &n);
        cr_assert_eq(n, 0, "none of them is loaded");
        for (int i = 0; i < MANY; i++) {
                if (!ids[i])
                        cr_assert_eq(request_noted(t, &client, module, i, ids), expected[n++], "request %zu", n);
        }
        cr_assert_eq(n, sizeof(expected) / sizeof(expected[0]));
        for (int i = 0; i < MANY; i++)
                cr_assert_eq(launch(t, &client, ids[i], p), 0, "kernel %d", i);
        module = load_described(t, &other, fd, size, theirs, &n);
        cr_assert_eq(n, MANY, "they are loaded now");
        cr_assert_eq(wt_kernel(t, &other, module, "k20"), theirs[20]);
        theirs[20] = 0;
        cr_assert_eq(request_noted(t, &other, module, 20, theirs), 1, "the client knows the others");
        cr_assert_eq(wt_alloc(t, &other, 4096, &p), 0);
        cr_assert_eq(launch(t, &other, theirs[69], p), 0, "the last one of them");
        close(fd);
        wt_client_close(t, &other);
        wt_client_close(t, &client);
        wt_close(t);
}

/* A session that continues in another worker keeps its loaded kernels and requests none again. */
Test(worker_load, restored, .timeout = 60)
{
        struct wt *t = load_open();
        struct wt_client client = wt_client(t, 2, DETSHARE__CLASS__BE);
        Detshare__Internal__RestoreModule restore = DETSHARE__INTERNAL__RESTORE_MODULE__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        const uint64_t module = UINT64_C(7) << 12;
        uint64_t p;
        size_t size;
        int fd = many_kernels(&size);

        restore.session = client.id;
        restore.module = module;
        restore.bytes = size;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_RESTORE_MODULE;
        message.restore_module = &restore;
        cr_assert_eq(wt_status(t, wt_send(t, &message, &fd, 1)), 0);
        wt_attach(t, &client);
        cr_assert_eq(wt_alloc(t, &client, 4096, &p), 0);
        for (uint64_t i = 0; i < MANY; i++)
                cr_assert_eq(launch(t, &client, module << 16 | i, p), 0);
        cr_assert_eq(launch(t, &client, module << 16 | MANY, p), DS_CUDA_INVALID_HANDLE);
        close(fd);
        wt_client_close(t, &client);
        wt_close(t);
}
