/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of detshare-serve under ThreadSanitizer: instances that share requests, arrivals, clients at a socket of
 * which some disconnect early, and shutdown during work
 *
 * The driver is a table of functions of this program: device memory is host memory, and the one kernel inverts the bits
 * of its input.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "serve/listen.h"
#include "serve/load.h"
#include "serve/protocol.h"
#include "util/macro.h"

#define BYTES 64
#define INSTANCES 4u
#define CLIENTS 8
#define ASKED 150

#define CHECK(x)                                                                              \
        do {                                                                                  \
                if (!(x)) {                                                                   \
                        fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #x); \
                        exit(1);                                                              \
                }                                                                             \
        } while (0)

static const char manifest[] =
        "detshare-pack 1\nmodel race\nclass ls\nbatch 1\narch sm_75\nframework f\ncompiler c\n"
        "file k 1 0000000000000000000000000000000000000000000000000000000000000000\n"
        "file w 0 0000000000000000000000000000000000000000000000000000000000000000\n"
        "module k\nweights w\narena 512\ninput x u8 64 0 64\noutput y f16 32 256 64\nkernel invert 1 0 2\n"
        "launch 0 1 1 1 a+0 a+256\nend\n";

/* --- the driver --------------------------------------------------------------------------------------------------- */

static CUresult enter(CUcontext context)
{
        return CUDA_SUCCESS;
}

static CUresult to_device(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
        memcpy((void *)(uintptr_t)to, from, bytes);
        return CUDA_SUCCESS;
}

static CUresult to_host(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
        memcpy(to, (void *)(uintptr_t)from, bytes);
        return CUDA_SUCCESS;
}

static CUresult launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
        unsigned shared, CUstream stream, void **params, void **extra)
{
        const uint8_t *x = *(uint8_t **)params[0];
        uint8_t *y = *(uint8_t **)params[1];

        for (int i = 0; i < BYTES; i++)
                y[i] = (uint8_t)~x[i];
        return CUDA_SUCCESS;
}

static CUresult synchronize(CUstream stream)
{
        usleep(50);
        return CUDA_SUCCESS;
}

/* --- a model without a module ------------------------------------------------------------------------------------- */

static struct sv_driver driver = {
        .cuCtxSetCurrent_fn = enter,
        .cuMemcpyHtoDAsync_fn = to_device,
        .cuMemcpyDtoHAsync_fn = to_host,
        .cuLaunchKernel_fn = launch,
        .cuStreamSynchronize_fn = synchronize,
};
static CUfunction kernel;
static struct sv_model model = {.driver = &driver, .kernels = &kernel};
static struct sv_instance instances[INSTANCES];
static uint8_t arenas[INSTANCES][512], pinned[INSTANCES][2][BYTES];
static uint64_t values[INSTANCES][2];
static void *params[INSTANCES][2];
static const struct sv_clock clock_ = {.simulated = false};

static void open_model(void)
{
        struct sv_pack *pack;
        struct sv_why why = {""};

        CHECK(!sv_pack_parse(manifest, strlen(manifest), "race", &pack, &why));
        model.pack = pack;
        for (unsigned i = 0; i < INSTANCES; i++) {
                values[i][0] = (uint64_t)(uintptr_t)arenas[i];
                values[i][1] = values[i][0] + 256;
                params[i][0] = &values[i][0];
                params[i][1] = &values[i][1];
                instances[i] = (struct sv_instance){
                        .model = &model,
                        .arena = values[i][0],
                        .input = pinned[i][0],
                        .output = pinned[i][1],
                        .values = values[i],
                        .params = params[i],
                        .input_at = {values[i][0]},
                        .output_at = {values[i][1]},
                };
        }
}

/* --- requests from an arrival process ----------------------------------------------------------------------------- */

static void loads(void)
{
        struct sv_load load = {.clock = &clock_, .instances = instances, .n_instances = INSTANCES, .requests = 2000};
        struct sv_arrivals arrivals;
        struct sv_cases cases;
        struct sv_result result;
        struct sv_why why = {""};
        bool same;

        CHECK(!sv_cases_open(&cases, model.pack, &why) && !sv_cases_run(&cases, &instances[0], &same, &why));
        load.cases = &cases;
        CHECK(!sv_load_run(&load, &result, &why) && result.samples.total == 2000 && !result.different);
        sv_samples_clear(&result.samples);
        CHECK(!sv_arrivals_random(&arrivals, 10000, 0.1, 1, &why));
        load.arrivals = &arrivals;
        CHECK(!sv_load_run(&load, &result, &why) && result.samples.total == arrivals.n && !result.different);
        sv_samples_clear(&result.samples);
        sv_arrivals_clear(&arrivals);
        sv_cases_close(&cases);
}

/* --- clients ------------------------------------------------------------------------------------------------------ */

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static _Atomic unsigned answered;

static int reach(void)
{
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        while (connect(fd, (struct sockaddr *)&address, sizeof(address)))
                usleep(1000);
        return fd;
}

static void ask(int fd, uint8_t what)
{
        struct sv_header header = {.bytes = BYTES};
        uint8_t request[sizeof(header) + BYTES], answer[sizeof(header) + BYTES];
        const uint8_t want = (uint8_t)~what;

        memcpy(header.magic, SV_INFER, sizeof(header.magic));
        memcpy(request, &header, sizeof(header));
        memset(request + sizeof(header), what, BYTES);
        CHECK(send(fd, request, sizeof(request), MSG_NOSIGNAL) == sizeof(request));
        CHECK(recv(fd, answer, sizeof(answer), MSG_WAITALL) == sizeof(answer));
        memcpy(&header, answer, sizeof(header));
        CHECK(header.status == SV_STATUS_OK && header.bytes == BYTES);
        CHECK(answer[sizeof(header)] == want && answer[sizeof(answer) - 1] == want);
        answered++;
}

static void leave(uint8_t salt)
{
        struct sv_header header = {.bytes = BYTES};
        uint8_t request[sizeof(header) + BYTES] = {0};
        int fd = reach();

        memcpy(header.magic, SV_INFER, sizeof(header.magic));
        memcpy(request, &header, sizeof(header));
        (void)!send(fd, request, (size_t)salt % (sizeof(request) + 1), MSG_NOSIGNAL);
        close(fd);
}

static void *be_client(void *user)
{
        const int number = (int)(intptr_t)user;
        int fd = reach();

        for (int i = 0; i < ASKED; i++) {
                ask(fd, (uint8_t)(number * 31 + i));
                if (i % 10 == 9)
                        leave((uint8_t)(number * 7 + i));
        }
        close(fd);
        return NULL;
}

static void *be_server(void *user)
{
        const struct sv_listen listen = {.path = address.sun_path,
                .clock = &clock_,
                .instances = instances,
                .n_instances = INSTANCES,
                .n_connections = 4 * CLIENTS,
                .wait_ms = 60000};
        struct sv_why why = {""};

        if (sv_listen_run(&listen, user, &why)) {
                fprintf(stderr, "%s\n", why.text);
                exit(1);
        }
        return NULL;
}

static void serves(void)
{
        pthread_t server, clients[CLIENTS];
        struct sv_heard heard;

        (void)snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/ds-serve-race-%d", (int)getpid());
        CHECK(!pthread_create(&server, NULL, be_server, &heard));
        for (intptr_t i = 0; i < CLIENTS; i++)
                CHECK(!pthread_create(&clients[i], NULL, be_client, (void *)i));
        for (int i = 0; i < CLIENTS; i++)
                CHECK(!pthread_join(clients[i], NULL));
        CHECK(answered == CLIENTS * ASKED);
        /* Requests are in progress at shutdown. */
        for (uint8_t i = 0; i < 20; i++)
                leave(sizeof(struct sv_header) + BYTES);
        CHECK(!kill(getpid(), SIGTERM));
        CHECK(!pthread_join(server, NULL));
        CHECK(heard.samples.total >= answered);
        CHECK(access(address.sun_path, F_OK) != 0);
        sv_samples_clear(&heard.samples);
}

int main(void)
{
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
        open_model();
        loads();
        serves();
        printf("%u answered\n", answered);
        return 0;
}
