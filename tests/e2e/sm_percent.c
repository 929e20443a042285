/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's share of the SMs, from the environment and from a request to the time of its kernels
 *
 * A process whose environment gives it an eighth of the GPU measures a kernel that would fill the whole GPU. SetSession
 * gives it the whole GPU, it measures again, and SetSession reduces it to a quarter. Invalid shares are refused with a
 * message.
 *
 * usage: sm_percent BUILD
 */
#include "tests/e2e/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"

/* Number of blocks that fill the GPU: each is one warp that waits, with so much shared memory that four fill one of
 * the 132 SMs. */
#define BLOCKS 528
#define SHARED 49152
#define ROUNDS 20000

static const char *build;
static unsigned failures;

static int expect(int ok, const char *what)
{
        if (!ok) {
                failures++;
                printf("FAIL %s: %s\n", what, dsc_message());
                fflush(stdout);
        }
        return ok;
}

static struct dsc_kernel wait_kernel(dsc_session *s)
{
        char path[300];
        struct dsc_kernel kernel = {.id = 0};
        uint64_t module;
        size_t size;
        char *ptx;

        snprintf(path, sizeof(path), "%s/e2e/death.ptx", build);
        ptx = h_read_file(path, &size);
        expect(!dsc_module_load(s, ptx, size + 1, NULL, 0, &module) && !dsc_kernel_get(s, module, "wait", &kernel),
                "a kernel");
        free(ptx);
        return kernel;
}

/* Launches the kernel. Returns its device time, ns. */
static int64_t measure(dsc_session *s, const struct dsc_kernel *kernel, uint64_t memory, const uint64_t events[2])
{
        struct {
                uint64_t p;
                uint32_t n, rounds;
        } params = {memory, 1024, ROUNDS};
        struct dsc_launch launch = {.kernel = kernel->id,
                .grid = {BLOCKS, 1, 1},
                .block = {32, 1, 1},
                .shared_bytes = SHARED,
                .params = &params,
                .params_size = sizeof(params)};
        int64_t ns = 0;
        uint64_t seq;

        expect(!dsc_event_record(s, 0, events[0], &seq) && !dsc_launch(s, 0, &launch) &&
                        !dsc_event_record(s, 0, events[1], &seq) && !dsc_wait(s, 0, seq) &&
                        !dsc_event_elapsed(s, events[0], events[1], &ns),
                "a kernel between two events");
        return ns;
}

/* Sends the request. Returns its status, or -1 without a reply. */
static int call(int fd, Detshare__Request *request, Detshare__Reply **ret)
{
        static uint64_t id = 100;

        request->id = ++id;
        *ret = h_call(fd, request, NULL);
        return *ret ? (int)(*ret)->status : -1;
}

static uint64_t own_session(int fd)
{
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        Detshare__ListClients list = DETSHARE__LIST_CLIENTS__INIT;
        Detshare__Reply *reply;
        uint64_t session = 0;

        request.call_case = DETSHARE__REQUEST__CALL_LIST_CLIENTS;
        request.list_clients = &list;
        if (call(fd, &request, &reply) == 0 && reply->list_clients)
                for (size_t i = 0; i < reply->list_clients->n_clients; i++)
                        if (!session && reply->list_clients->clients[i]->pid == (uint32_t)getpid())
                                session = reply->list_clients->clients[i]->session;
        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        return session;
}

static int set_percent(int fd, uint64_t session, uint32_t percent, char *message, size_t size)
{
        Detshare__Request request = DETSHARE__REQUEST__INIT;
        Detshare__SetSession set = DETSHARE__SET_SESSION__INIT;
        Detshare__Reply *reply;
        int r;

        set.session = session;
        set.set_sm_percent = 1;
        set.sm_percent = percent;
        request.call_case = DETSHARE__REQUEST__CALL_SET_SESSION;
        request.set_session = &set;
        r = call(fd, &request, &reply);
        snprintf(message, size, "%s", reply && reply->message ? reply->message : "");
        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        return r;
}

static int child_measures(void)
{
        uint64_t memory, events[2], session;
        int64_t eighth, whole, quarter;
        struct dsc_kernel kernel;
        char message[200];
        dsc_session *s;
        int error, fd;

        setenv("DETSHARE_SM_PERCENT", "13", 1);
        s = dsc_get(&error);
        /* the list has this process twice, because this connection is a second session; the first session is the
         * older one */
        fd = h_hello(1, NULL, NULL);
        if (!expect(s && fd >= 0, "sessions"))
                return 1;
        kernel = wait_kernel(s);
        expect(!dsc_mem_alloc(s, 4096, &memory) && !dsc_event_create(s, &events[0]) && !dsc_event_create(s, &events[1]),
                "memory and events");
        session = own_session(fd);
        eighth = measure(s, &kernel, memory, events);
        expect(set_percent(fd, session, 0, message, sizeof(message)) == 0, "0 is 100");
        whole = measure(s, &kernel, memory, events);
        expect(set_percent(fd, session, 25, message, sizeof(message)) == 0, "a quarter");
        quarter = measure(s, &kernel, memory, events);
        printf("an eighth %lld ns, a quarter %lld ns, the whole %lld ns (sim)\n", (long long)eighth, (long long)quarter,
                (long long)whole);
        expect(eighth > 3 * whole && eighth > quarter && quarter > 2 * whole,
                "an eighth takes more than 3 times the whole, a quarter more than 2 times");
        expect(set_percent(fd, session, 101, message, sizeof(message)) == DETSHARE__STATUS__BAD_PARAMETER &&
                        strstr(message, "101 %"),
                message);
        expect(measure(s, &kernel, memory, events) == quarter, "refused shares change nothing");
        close(fd);
        return failures != 0;
}

static int child_is_refused(void)
{
        int error = 0;

        setenv("DETSHARE_SM_PERCENT", "150", 1);
        expect(!dsc_get(&error) && error == DETSHARE__STATUS__BAD_PARAMETER, "150 % is refused");
        expect(strstr(dsc_message(), "150 %") != NULL, "the message names 150 %");
        return failures != 0;
}

static void in_child(int (*body)(void), const char *what)
{
        int status;
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                int r = body();

                fflush(stdout);
                _exit(r);
        }
        h_check(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s", what);
}

int main(int argc, char **argv)
{
        struct h_status before;

        if (argc < 2)
                return 2;
        build = argv[1];
        if (!h_needs_sim("sim:h200", "the test expects the model's times"))
                return h_finish();
        h_daemon_start(build, "sim:h200", NULL);
        before = h_quiet();
        in_child(child_measures, "a share of the SMs");
        setenv("DETSHARE_TRANSPORT", "rpc", 1);
        in_child(child_measures, "a share of the SMs over the socket");
        in_child(child_is_refused, "invalid shares");
        h_baseline(&before, 5000, "afterwards");
        return h_finish();
}
