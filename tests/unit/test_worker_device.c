/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker with device behaviour that a GPU has and the simulated device lacks
 *
 * Slabs are cleared later, text arrives separately, the context is lost, kernels cannot be aborted, the device must be
 * polled: the simulated device with some calls replaced.
 */
#define WT_QUIESCE
#include "device/sim/sim.h"
#include "tests/unit/worker_harness.h"
#include "worker/internal.h"

static struct ds_device_ops wrap;

static struct {
        int unclear;                  /* slabs that are not cleared yet */
        int lost;                     /* result of lost() */
        int fault_space;              /* a completion of this space loses the context */
        int mute;                     /* 1: poll returns nothing */
        int fail_launch;              /* result of launch() */
        size_t text;                  /* unread bytes that space 1 has printed */
        size_t put_off, put_off_done; /* pieces of postponed work, and those that are done */
        size_t at_once;               /* most pieces of postponed work that the device does in one call; 0: all */
        uint64_t put_off_ns;          /* real time of each piece, ns */
        uint64_t longest_ns;          /* longest duration of a stop when a piece was done, ns */
        uint64_t load_ns;             /* real time of loading a module, ns; 0: none */
        uint64_t load_stop;           /* number of the stop beside LS in which a module was loaded */
        size_t done_behind;           /* pieces done in that stop */
        ds_worker *worker;            /* NULL: nothing is measured */
        /* this client launches a kernel when comes_at pieces are left; NULL: no client does */
        struct wt_client *comes;
        uint64_t comes_kernel;
        size_t comes_at, served_at;
        uint32_t in_flight, busy_stops;   /* calls that stop the device while work was in flight */
        uint64_t space_of_token[1 << 16]; /* space of each launch; index: slot number of its token */
} dev;

static int wrap_mem_cleared(ds_device *device, uint32_t space, uint64_t va)
{
        return !dev.unclear;
}

static int wrap_lost(ds_device *device)
{
        return dev.lost;
}

static void wrap_abort(ds_device *device, uint32_t space)
{
}

static int wrap_event_fd(ds_device *device)
{
        return -1;
}

static int wrap_launch(ds_device *device, const struct ds_launch *launch, uint64_t token)
{
        int r = dev.fail_launch;

        if (r) {
                dev.lost = DS_CUDA_ILLEGAL_ADDRESS;
                return r;
        }
        r = ds_sim_ops.launch(device, launch, token);
        if (!r) {
                dev.served_at = dev.put_off;
                dev.in_flight++;
                dev.space_of_token[(uint16_t)token] = launch->space;
        }
        return r;
}

static size_t wrap_poll(ds_device *device, struct ds_completion *completions, size_t n)
{
        size_t got = dev.mute ? 0 : ds_sim_ops.poll(device, completions, n);

        for (size_t i = 0; i < got; i++) {
                dev.in_flight -= dev.in_flight > 0;
                if (dev.fault_space &&
                        dev.space_of_token[(uint16_t)completions[i].token] == (uint32_t)dev.fault_space) {
                        dev.lost = completions[i].status = DS_CUDA_ILLEGAL_ADDRESS;
                        strcpy(completions[i].message, "kernel poke wrote to 0x10");
                }
        }
        return got;
}

static int wrap_output(ds_device *device, struct ds_device_output *ret)
{
        static char text[1 << 20];
        size_t size = dev.text;

        if (!size)
                return 0;
        memset(text, 'x', sizeof(text));
        dev.text = 0;
        *ret = (struct ds_device_output){.space = 1, .to_stderr = 1, .text = text, .size = size};
        return 1;
}

static int wrap_module_load(ds_device *device, uint32_t space, const void *image, size_t size, char *log,
        size_t log_size, ds_device_module **ret)
{
        dev.busy_stops += dev.in_flight > 0;
        wt_wall += dev.load_ns;
        if (dev.load_ns && dev.worker->quiesce.beside_ls)
                dev.load_stop = dev.worker->quiesce.count;
        return ds_sim_ops.module_load(device, space, image, size, log, log_size, ret);
}

static ds_device_module *wrap_module_unload(ds_device *device, ds_device_module *module)
{
        dev.put_off++;
        return ds_sim_ops.module_unload(device, module);
}

static size_t wrap_put_off(ds_device *device)
{
        return dev.put_off;
}

static void wrap_put_off_do(ds_device *device)
{
        const size_t n = dev.at_once ? DS_MIN(dev.at_once, dev.put_off) : dev.put_off;

        dev.busy_stops += dev.in_flight > 0;
        dev.put_off_done += n;
        if (dev.load_ns && dev.worker->quiesce.count == dev.load_stop)
                dev.done_behind += n;
        dev.put_off -= n;
        wt_wall += n * dev.put_off_ns;
        if (dev.comes && dev.put_off == dev.comes_at)
                wt_push_launch(dev.comes, 0, dev.comes_kernel, 1, 1, NULL, 0);
        if (dev.worker)
                dev.longest_ns = DS_MAX(dev.longest_ns, wt_wall - dev.worker->quiesce.run_wall_ns);
}

static int wrap_limit_raise(ds_device *device, enum ds_device_limit limit, uint64_t value)
{
        dev.busy_stops += dev.in_flight > 0;
        return ds_sim_ops.limit_raise(device, limit, value);
}

static struct wt *wrap_open(void)
{
        memset(&dev, 0, sizeof(dev));
        wrap = ds_sim_ops;
        wrap.mem_cleared = wrap_mem_cleared;
        wrap.lost = wrap_lost;
        wrap.launch = wrap_launch;
        wrap.poll = wrap_poll;
        wrap.output = wrap_output;
        wrap.module_load = wrap_module_load;
        wrap.module_unload = wrap_module_unload;
        wrap.put_off = wrap_put_off;
        wrap.put_off_do = wrap_put_off_do;
        wrap.limit_raise = wrap_limit_raise;
        wt_ops = &wrap;
        return wt_open("h200+quiesce");
}

static void wrap_close(struct wt *t)
{
        memset(&dev, 0, sizeof(dev));
        /* ends the work that could not be aborted, so that the test can close everything in order */
        for (struct dsw_session *session = t->worker->sessions; session; session = session->hh.next)
                ds_sim_ops.abort(t->worker->device, session->space);
        wrap = ds_sim_ops;
        wt_tick = 0;
        wt_close(t);
}

/* Runs rounds until the worker reports that its device is lost. */
static void turn_until_lost(struct wt *t)
{
        int r = 0;

        for (int i = 0; i < 2000 && r == 0; i++)
                r = ds_worker_turn(t->worker, i < 100 ? 0 : 2);
        cr_assert_eq(r, DS_WORKER_E_LOST);
        t->done = 1;
        wt_collect(t);
}

static wt_answer *take_kind(struct wt *t, int body_case)
{
        for (size_t i = 0; i < t->n_stash; i++) {
                wt_answer *answer;

                if (t->stash[i]->id || (int)t->stash[i]->body_case != body_case)
                        continue;
                answer = t->stash[i];
                t->n_stash--;
                memmove(&t->stash[i], &t->stash[i + 1], (t->n_stash - i) * sizeof(t->stash[0]));
                memmove(&t->fds[i], &t->fds[i + 1], (t->n_stash - i) * sizeof(t->fds[0]));
                return answer;
        }
        return NULL;
}

/* Asserts the content of the last message. */
static void expect_lost(struct wt *t, int status, uint64_t suspect, const char *word)
{
        wt_answer *answer;

        cr_assert_gt(t->n_stash, 0);
        cr_assert_eq(t->stash[t->n_stash - 1]->body_case, DETSHARE__INTERNAL__FROM_WORKER__BODY_LOST);
        answer = take_kind(t, DETSHARE__INTERNAL__FROM_WORKER__BODY_LOST);
        cr_assert_eq(answer->lost->status, status);
        cr_assert_eq(answer->lost->n_suspects, suspect ? 1 : 0);
        if (suspect)
                cr_assert_eq(answer->lost->suspects[0], suspect);
        cr_assert(strstr(answer->lost->message, word), "%s", answer->lost->message);
        wt_free(answer);
}

static uint64_t kernel_of(struct wt *t, struct wt_client *client, const char *name)
{
        uint64_t module;

        wt_attach(t, client);
        cr_assert_eq(wt_module(t, client, DT_PTX, &module), 0);
        return wt_kernel(t, client, module, name);
}

/* --- slabs -------------------------------------------------------------------------------------------------------- */

static uint64_t send_alloc(struct wt *t, struct wt_client *client, uint64_t bytes)
{
        WT_REQUEST(request, MEM_ALLOC, mem_alloc, MemAlloc, MEM_ALLOC, .bytes = bytes);

        return wt_send_call(t, client, &request);
}

/* A slab and its allocations are reported only after the slab is cleared, the slab first. */
Test(worker_device, a_slab_is_handed_out_clear, .timeout = 60)
{
        struct wt *t = wrap_open();
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        WT_REQUEST(reset, RESET_SESSION, reset_session, ResetSession, RESET_SESSION, .base = {0});
        uint64_t first, second, id;
        wt_answer *answer;

        dev.unclear = 1;
        first = send_alloc(t, &client, 4096);
        second = send_alloc(t, &client, 4096);
        wt_settle(t);
        cr_assert_null(wt_take(t, first));
        cr_assert_null(wt_take(t, second));
        dev.unclear = 0;
        wt_settle(t);
        cr_assert_eq(t->stash[t->n_stash - 2]->id, first);
        cr_assert_eq(t->stash[t->n_stash - 1]->id, second);
        answer = wt_wait(t, first);
        cr_assert_eq(answer->status, 0);
        cr_assert_not_null(answer->ledger->slab_added);
        cr_assert_eq(answer->fds, 1);
        wt_free(answer);
        answer = wt_wait(t, second);
        cr_assert_null(answer->ledger->slab_added);
        cr_assert_not_null(answer->ledger->alloc_added);
        wt_free(answer);
        /* a session's reset waits for the clearing of its slab, a close does not */
        dev.unclear = 1;
        first = send_alloc(t, &client, DS_MIB(80));
        id = wt_send_call(t, &client, &reset);
        wt_settle(t);
        cr_assert_null(wt_take(t, id));
        dev.unclear = 0;
        cr_assert_eq(wt_status(t, id), 0);
        cr_assert_eq(wt_status(t, first), 0);
        dev.unclear = 1;
        first = send_alloc(t, &client, DS_MIB(80));
        wt_settle(t);
        wt_client_close(t, &client);
        cr_assert_eq(wt_status(t, first), DETSHARE__STATUS__NO_SUCH);
        cr_assert_eq(wt_worker_stats(t).memory_slabs, 0);
        wrap_close(t);
}

/* A guessed address that was not reported to its client is no allocation yet. */
Test(worker_device, an_address_is_unknown_before_its_report, .timeout = 60)
{
        struct wt *t = wrap_open();
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        uint64_t at = WT_WINDOW + WT_WINDOW_BYTES, id, got;
        WT_REQUEST(free_, MEM_FREE, mem_free, MemFree, MEM_FREE, .address = at);
        WT_REQUEST(set, MEMSET, memset, Memset, MEMSET, .dst = at, .element_size = 1, .width = 64, .height = 1);

        dev.unclear = 1;
        id = send_alloc(t, &client, 4096);
        wt_settle(t);
        cr_assert_eq(wt_call_status(t, &client, &free_), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(wt_call_status(t, &client, &set), DS_CUDA_INVALID_VALUE);
        cr_assert_null(wt_take(t, id));
        dev.unclear = 0;
        {
                wt_answer *answer = wt_wait(t, id);

                cr_assert_eq(answer->status, 0);
                got = answer->reply->mem_alloc->address;
                wt_free(answer);
        }
        cr_assert_eq(got, at, "the guess was right");
        cr_assert_eq(wt_call_status(t, &client, &set), 0);
        cr_assert_eq(wt_call_status(t, &client, &free_), 0);
        wt_client_close(t, &client);
        wrap_close(t);
}

/* --- texts -------------------------------------------------------------------------------------------------------- */

Test(worker_device, texts_come_before_the_end_of_their_kernel, .timeout = 60)
{
        struct wt *t = wrap_open();
        struct wt_client client = wt_client(t, 1, DETSHARE__CLASS__BE);
        uint64_t null = kernel_of(t, &client, "null");
        size_t got = 0;
        wt_answer *answer;

        wt_push_launch(&client, 0, null, 1, 1, NULL, 0);
        dev.text = 100000;
        for (int i = 0; i < 1000 && !atomic_load(&client.page->stream_done[0]); i++)
                wt_turn(t, i < 100 ? 0 : 2);
        cr_assert_eq(atomic_load(&client.page->stream_done[0]), 1);
        cr_assert_eq(atomic_load(&client.page->output), 100000);
        wt_settle(t);
        while ((answer = take_kind(t, DETSHARE__INTERNAL__FROM_WORKER__BODY_OUTPUT))) {
                cr_assert_eq(answer->output->session, 1);
                cr_assert_eq(answer->output->to_stderr, 1);
                cr_assert_leq(answer->output->text.len, 49152);
                got += answer->output->text.len;
                wt_free(answer);
        }
        cr_assert_eq(got, 100000);
        wt_client_close(t, &client);
        wrap_close(t);
}

/* --- a lost context ----------------------------------------------------------------------------------------------- */

Test(worker_device, a_fault_names_its_session, .timeout = 60)
{
        struct wt *t = wrap_open();
        struct wt_client a = wt_client(t, 1, DETSHARE__CLASS__BE), b = wt_client(t, 2, DETSHARE__CLASS__BE),
                         idle = wt_client(t, 3, DETSHARE__CLASS__LS);
        WT_REQUEST(sync, SYNC, sync, Sync, SYNC, .all = 1);
        uint64_t null = kernel_of(t, &a, "null"), spins = kernel_of(t, &b, "spins"), a_id, b_id;

        wt_push_launch(&b, 0, spins, 1, 1, NULL, 0);
        b_id = wt_send_call(t, &b, &sync);
        wt_settle(t);
        dev.fault_space = 1;
        wt_push_launch(&a, 0, null, 1, 1, NULL, 0);
        a_id = wt_send_call(t, &a, &sync);
        dev.text = 10;
        turn_until_lost(t);
        expect_lost(t, DS_CUDA_ILLEGAL_ADDRESS, 1, "kernel poke wrote to 0x10");
        cr_assert_eq(wt_status(t, a_id), DS_CUDA_ILLEGAL_ADDRESS);
        cr_assert_null(wt_take(t, b_id), "left to the supervisor");
        cr_assert_eq(atomic_load(&a.page->error), DS_CUDA_ILLEGAL_ADDRESS);
        cr_assert_eq(atomic_load(&a.page->output), 10);
        cr_assert_eq(atomic_load(&b.page->error), 0);
        cr_assert_eq(atomic_load(&idle.page->error), 0);
        wt_client_unmap(&a);
        wt_client_unmap(&b);
        wt_client_unmap(&idle);
        wrap_close(t);
}

/* A call that fails because the context is lost is not the worker's error; it is blamed on no session. */
Test(worker_device, a_launch_may_find_the_context_gone, .timeout = 60)
{
        struct wt *t = wrap_open();
        struct wt_client a = wt_client(t, 1, DETSHARE__CLASS__BE);
        uint64_t null = kernel_of(t, &a, "null");

        dev.fail_launch = -EIO;
        wt_push_launch(&a, 0, null, 1, 1, NULL, 0);
        turn_until_lost(t);
        expect_lost(t, DS_CUDA_ILLEGAL_ADDRESS, 0, "");
        wt_client_unmap(&a);
        wrap_close(t);
}

/* --- kernels that do not end -------------------------------------------------------------------------------------- */

Test(worker_device, an_orphan_that_cannot_be_stopped_costs_the_context, .timeout = 60)
{
        struct wt *t = wrap_open();
        struct wt_client a = wt_client(t, 1, DETSHARE__CLASS__BE);
        uint64_t spins = kernel_of(t, &a, "spins");

        wrap.abort = wrap_abort;
        wt_push_launch(&a, 0, spins, 1, 1, NULL, 0);
        wt_settle(t);
        wt_send_close(t, &a);
        wt_settle(t);
        wt_wall += 9 * DS_NS_PER_S;
        wt_settle(t);
        cr_assert(!t->done);
        wt_wall += 2 * DS_NS_PER_S;
        turn_until_lost(t);
        expect_lost(t, DS_CUDA_LAUNCH_TIMEOUT, 1, "a client that is gone");
        wt_client_unmap(&a);
        wrap_close(t);
}

/* Runs an endless kernel while a client waits for code to load: the kernel may run for a minute. Then its session
 * gets an error, and after that the context ends. */
static void check_endless(int aborts)
{
        struct wt *t = wrap_open();
        struct wt_client a = wt_client(t, 1, DETSHARE__CLASS__BE), b = wt_client(t, 2, DETSHARE__CLASS__LS);
        WT_REQUEST(request, MODULE_LOAD, module_load, ModuleLoad, MODULE_LOAD, .bytes = strlen(DT_PTX));
        uint64_t spins = kernel_of(t, &a, "spins"), id;
        int fd = wt_image(DT_PTX);

        if (!aborts)
                wrap.abort = wrap_abort;
        wt_push_launch(&a, 0, spins, 1, 1, NULL, 0);
        wt_settle(t);
        /* while no client waits for the device, the kernel may run for ever */
        for (int i = 0; i < 10; i++, wt_wall += 10 * DS_NS_PER_S)
                wt_settle(t);
        cr_assert_eq(atomic_load(&a.page->error), 0);
        id = wt_send_call_fd(t, &b, &request, fd);
        for (int i = 0; i < 11; i++, wt_wall += 5 * DS_NS_PER_S)
                wt_settle(t);
        cr_assert_eq(atomic_load(&a.page->error), 0);
        for (int i = 0; i < 3; i++, wt_wall += 5 * DS_NS_PER_S)
                for (int j = 0; j < 50 && !t->done; j++)
                        t->done = ds_worker_turn(t->worker, 2) == DS_WORKER_E_LOST;
        cr_assert_eq(atomic_load(&a.page->error), DS_CUDA_LAUNCH_TIMEOUT);
        cr_assert_eq(t->done, !aborts);
        if (aborts) {
                cr_assert_eq(wt_status(t, id), 0);
        } else {
                wt_collect(t);
                expect_lost(t, DS_CUDA_LAUNCH_TIMEOUT, 1, "while others wait");
        }
        cr_assert_eq(dev.busy_stops, 0);
        close(fd);
        wt_client_unmap(&a);
        wt_client_unmap(&b);
        wrap_close(t);
}

Test(worker_device, an_endless_kernel_does_not_keep_others_from_loading, .timeout = 60)
{
        check_endless(1);
        check_endless(0);
}

/* Other completions of an endless kernel's session do not extend its time, nor do those of its other streams. */
Test(worker_device, an_endless_kernel_beside_others_of_its_session, .timeout = 60)
{
        struct wt *t = wrap_open();
        struct wt_client a = wt_client(t, 1, DETSHARE__CLASS__BE), b = wt_client(t, 2, DETSHARE__CLASS__BE);
        WT_REQUEST(load, MODULE_LOAD, module_load, ModuleLoad, MODULE_LOAD, .bytes = strlen(DT_PTX));
        WT_REQUEST(record, EVENT_RECORD, event_record, EventRecord, EVENT_RECORD, .stream = 0);
        WT_REQUEST(create, EVENT_CREATE, event_create, EventCreate, EVENT_CREATE, .base = {0});
        uint64_t spins = kernel_of(t, &a, "spins"), id;
        int fd = wt_image(DT_PTX), i;
        wt_answer *answer;
        uint32_t stream;

        cr_assert_eq(wt_stream(t, &a, &stream), 0);
        answer = wt_call(t, &a, &create);
        cr_assert_eq(answer->status, 0);
        record_body.event = answer->reply->event_create->event;
        wt_free(answer);
        wt_push_launch(&a, stream, spins, 1, 1, NULL, 0);
        wt_settle(t);
        id = wt_send_call_fd(t, &b, &load, fd);
        for (i = 0; i < 14; i++, wt_wall += 5 * DS_NS_PER_S) {
                wt_settle(t);
                (void)wt_call_status(t, &a, &record);
                if (atomic_load(&a.page->error))
                        break;
        }
        cr_assert_eq(atomic_load(&a.page->error), DS_CUDA_LAUNCH_TIMEOUT);
        cr_assert_eq(i, 12, "a minute, and no longer");
        cr_assert_eq(wt_status(t, id), 0);
        close(fd);
        wt_client_unmap(&a);
        wt_client_unmap(&b);
        wrap_close(t);
}

Test(worker_device, a_bound_for_every_kernel, .timeout = 60)
{
        struct wt_client a;
        struct wt *t;
        uint64_t spins;

        wt_kernel_ns = 3 * DS_NS_PER_S;
        t = wrap_open();
        a = wt_client(t, 1, DETSHARE__CLASS__BE);
        spins = kernel_of(t, &a, "spins");
        wt_push_launch(&a, 0, spins, 1, 1, NULL, 0);
        wt_settle(t);
        wt_wall += 2 * DS_NS_PER_S;
        wt_settle(t);
        cr_assert_eq(atomic_load(&a.page->error), 0);
        wt_wall += 2 * DS_NS_PER_S;
        wt_settle(t);
        cr_assert_eq(atomic_load(&a.page->error), DS_CUDA_LAUNCH_TIMEOUT);
        cr_assert_eq(wt_reset(t, &a), 0);
        wt_client_close(t, &a);
        wrap_close(t);
}

/* A reload sets the bound while the kernel runs. */
Test(worker_device, a_bound_that_is_set_later, .timeout = 60)
{
        Detshare__Internal__WorkerLimits limits = DETSHARE__INTERNAL__WORKER_LIMITS__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        struct wt *t = wrap_open();
        struct wt_client a = wt_client(t, 1, DETSHARE__CLASS__BE);
        uint64_t spins = kernel_of(t, &a, "spins");

        wt_push_launch(&a, 0, spins, 1, 1, NULL, 0);
        wt_settle(t);
        wt_wall += 30 * DS_NS_PER_S;
        wt_settle(t);
        cr_assert_eq(atomic_load(&a.page->error), 0, "no bound yet");
        limits.kernel_ns = 40 * DS_NS_PER_S;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_LIMITS;
        message.limits = &limits;
        wt_send(t, &message, NULL, 0);
        wt_settle(t);
        cr_assert_eq(atomic_load(&a.page->error), 0);
        wt_wall += 41 * DS_NS_PER_S; /* a kernel's time counts from the moment at which the bound exists */
        wt_settle(t);
        cr_assert_eq(atomic_load(&a.page->error), DS_CUDA_LAUNCH_TIMEOUT);
        cr_assert_eq(wt_reset(t, &a), 0);
        wt_client_close(t, &a);
        wrap_close(t);
}

/* A client that leaves right after the error of its kernel does not gain time for that kernel. */
Test(worker_device, a_session_that_leaves_is_not_awaited, .timeout = 60)
{
        struct wt_client a;
        struct wt *t;
        uint64_t spins;

        wt_kernel_ns = 3 * DS_NS_PER_S;
        t = wrap_open();
        a = wt_client(t, 1, DETSHARE__CLASS__BE);
        spins = kernel_of(t, &a, "spins");
        wrap.abort = wrap_abort;
        wt_push_launch(&a, 0, spins, 1, 1, NULL, 0);
        wt_settle(t);
        wt_wall += 4 * DS_NS_PER_S;
        wt_settle(t);
        cr_assert_eq(atomic_load(&a.page->error), DS_CUDA_LAUNCH_TIMEOUT);
        wt_send_close(t, &a);
        wt_settle(t);
        wt_wall += DS_NS_PER_S / 2;
        wt_settle(t);
        cr_assert(!t->done);
        wt_wall += DS_NS_PER_S;
        turn_until_lost(t);
        expect_lost(t, DS_CUDA_LAUNCH_TIMEOUT, 1, "a client that is gone");
        wt_client_unmap(&a);
        wrap_close(t);
}

/* --- postponed work, limits, polling ------------------------------------------------------------------------------ */

Test(worker_device, postponed_work_waits_for_an_idle_device, .timeout = 60)
{
        struct wt *t = wrap_open();
        struct wt_client a = wt_client(t, 1, DETSHARE__CLASS__BE), b = wt_client(t, 2, DETSHARE__CLASS__BE);
        uint64_t spins = kernel_of(t, &a, "spins"), module;

        wt_attach(t, &b);
        cr_assert_eq(wt_module(t, &b, DT_PTX, &module), 0);
        wt_push_launch(&a, 0, spins, 1, 1, NULL, 0);
        wt_settle(t);
        {
                WT_REQUEST(unload, MODULE_UNLOAD, module_unload, ModuleUnload, MODULE_UNLOAD, .module = module);

                cr_assert_eq(wt_call_status(t, &b, &unload), 0);
        }
        wt_settle(t);
        cr_assert_eq(dev.put_off, 1);
        cr_assert_eq(wt_reset(t, &a), 0);
        wt_settle(t);
        cr_assert_eq(dev.put_off, 0);
        cr_assert_eq(dev.put_off_done, 2, "the module of the session that was reset too");
        cr_assert_eq(dev.busy_stops, 0);
        wt_client_close(t, &a);
        wt_client_close(t, &b);
        wrap_close(t);
}

/* Postpones n pieces of 1 ms each beside an LS session. Returns when the worker is about to do the pieces. */
static void put_off_much(struct wt *t, struct wt_client *client, size_t n)
{
        uint64_t module;

        cr_assert_eq(wt_module(t, client, DT_PTX, &module), 0);
        wt_settle(t);
        dev.worker = t->worker;
        dev.at_once = 1;
        dev.put_off_ns = DS_NS_PER_MS;
        dev.longest_ns = 0;
        dev.put_off = n;
        {
                WT_REQUEST(unload, MODULE_UNLOAD, module_unload, ModuleUnload, MODULE_UNLOAD, .module = module);

                cr_assert_eq(wt_call_status(t, client, &unload), 0);
        }
}

/* An LS session that arrives meanwhile waits for a moment, not for all pieces; all are done, over many stops. */
Test(worker_device, postponed_work_runs_in_small_parts, .timeout = 60)
{
        struct wt *t = wrap_open();
        struct wt_client ls = wt_client(t, 1, DETSHARE__CLASS__LS), be = wt_client(t, 2, DETSHARE__CLASS__BE);
        uint64_t begin, before;

        wt_attach(t, &be);
        wt_wall += DS_NS_PER_S;
        begin = wt_wall;
        before = wt_worker_stats(t).quiesces;
        dev.comes = &ls;
        dev.comes_kernel = kernel_of(t, &ls, "null");
        dev.comes_at = 200;
        put_off_much(t, &be, 400);
        cr_assert_eq(wt_sync_all(t, &ls), 0);
        cr_assert_lt(dev.served_at, 200);
        cr_assert_geq(dev.served_at, 200 - 6, "%zu were done first", 200 - dev.served_at);
        for (int i = 0; i < 1000 && dev.put_off; i++) {
                wt_wall += DS_NS_PER_MS;
                wt_turn(t, 0);
        }
        cr_assert_eq(dev.put_off, 0);
        cr_assert_leq(dev.longest_ns, 6 * DS_NS_PER_MS);
        cr_assert_gt(wt_worker_stats(t).quiesces, before + 400 / 6);
        cr_assert_lt(wt_wall - begin, 2 * DS_NS_PER_S);
        wt_client_close(t, &be);
        wt_client_close(t, &ls);
        wrap_close(t);
}

/* Without an LS session all pieces are done at once. */
Test(worker_device, postponed_work_runs_at_once_without_ls, .timeout = 60)
{
        struct wt *t = wrap_open();
        struct wt_client be = wt_client(t, 2, DETSHARE__CLASS__BE);
        uint64_t before;

        wt_attach(t, &be);
        before = wt_worker_stats(t).quiesces;
        put_off_much(t, &be, 1000);
        wt_settle(t);
        cr_assert_eq(dev.put_off, 0);
        cr_assert_leq(wt_worker_stats(t).quiesces, before + 2, "loading, and this");
        wt_client_close(t, &be);
        wrap_close(t);
}

/* Very many pieces are done also beside a busy LS session. */
Test(worker_device, very_much_that_is_put_off_beside_ls, .timeout = 60)
{
        struct wt *t = wrap_open();
        struct wt_client ls = wt_client(t, 1, DETSHARE__CLASS__LS), be = wt_client(t, 2, DETSHARE__CLASS__BE);
        uint64_t null = kernel_of(t, &ls, "null");

        wt_attach(t, &be);
        put_off_much(t, &be, 2000);
        for (int i = 0; i < 100000 && dev.put_off > 100; i++) {
                wt_push_launch(&ls, 0, null, 1, 1, NULL, 0);
                cr_assert_eq(wt_sync_all(t, &ls), 0);
                wt_turn(t, 0);
        }
        cr_assert_leq(dev.put_off, 100);
        cr_assert_leq(dev.longest_ns, 21 * DS_NS_PER_MS);
        cr_assert_gt(dev.longest_ns, 10 * DS_NS_PER_MS, "it was beside LS that worked, and more than many");
        dev.at_once = 0;
        dev.put_off_ns = 0;
        wt_client_close(t, &be);
        wt_client_close(t, &ls);
        wrap_close(t);
}

static uint64_t send_module(struct wt *t, struct wt_client *client)
{
        WT_REQUEST(request, MODULE_LOAD, module_load, ModuleLoad, MODULE_LOAD, .bytes = strlen(DT_PTX));
        int fd = wt_image(DT_PTX);
        uint64_t id = wt_send_call_fd(t, client, &request, fd);

        close(fd);
        return id;
}

/* Postpones n pieces behind a call of 25 ms in a stop beside LS. Returns the number of pieces done after the call. */
static size_t done_behind_a_call(struct wt *t, struct wt_client *ls, uint64_t null, struct wt_client *be, size_t n)
{
        struct dsw_quiesce *quiesce = &t->worker->quiesce;
        uint64_t id;

        wt_push_launch(ls, 0, null, 1, 1, NULL, 0);
        cr_assert_eq(wt_sync_all(t, ls), 0);
        quiesce->pause_ns = 0; /* the previous stop was long ago */
        quiesce->chores_wall_ns = 0;
        dev.worker = t->worker;
        dev.put_off = n;
        dev.done_behind = dev.load_stop = 0;
        dsw_quiesce_chore(t->worker);
        dev.load_ns = 25 * DS_NS_PER_MS;
        id = send_module(t, be);
        cr_assert_eq(wt_status(t, id), 0);
        cr_assert_gt(dev.load_stop, 0, "it was beside LS");
        dev.load_ns = dev.put_off = 0;
        return dev.done_behind;
}

/* BE calls that are longer than a stop beside LS run first in each stop, and still do not starve the postponed
 * pieces. */
Test(worker_device, postponed_work_behind_long_calls, .timeout = 60)
{
        struct wt *t = wrap_open();
        struct wt_client ls = wt_client(t, 1, DETSHARE__CLASS__LS), be = wt_client(t, 2, DETSHARE__CLASS__BE);
        uint64_t null = kernel_of(t, &ls, "null");

        wt_attach(t, &be);
        dev.at_once = 1;
        dev.put_off_ns = DS_NS_PER_MS;
        cr_assert_eq(done_behind_a_call(t, &ls, null, &be, 10), 0, "few wait for a shorter stop");
        cr_assert_eq(done_behind_a_call(t, &ls, null, &be, 100), 1, "of many one");
        cr_assert_eq(done_behind_a_call(t, &ls, null, &be, 600), 20, "of very many 20 ms");
        wt_client_close(t, &be);
        wt_client_close(t, &ls);
        wrap_close(t);
}

Test(worker_device, limits_grow_in_a_quiesce_and_have_bounds, .timeout = 60)
{
        struct wt *t = wrap_open();
        struct wt_client a = wt_client(t, 1, DETSHARE__CLASS__BE), b = wt_client(t, 2, DETSHARE__CLASS__BE);
        WT_REQUEST(set, SET_LIMIT, set_limit, SetLimit, SET_LIMIT, .limit = 0, .value = 4096);
        uint64_t spins = kernel_of(t, &b, "spins"), before = wt_worker_stats(t).quiesces, id;

        cr_assert_eq(wt_call_status(t, &a, &set), 0);
        cr_assert_eq(wt_worker_stats(t).quiesces, before + 1);
        wt_push_launch(&b, 0, spins, 1, 1, NULL, 0);
        wt_settle(t);
        set_body.value = 1024;
        cr_assert_eq(wt_call_status(t, &a, &set), 0, "what is there already stops nothing");
        set_body.value = 8192;
        id = wt_send_call(t, &a, &set);
        wt_settle(t);
        cr_assert_null(wt_take(t, id));
        cr_assert_eq(wt_reset(t, &b), 0);
        cr_assert_eq(wt_status(t, id), 0);
        set_body.value = DS_MIB(1);
        cr_assert_eq(wt_call_status(t, &a, &set), DS_CUDA_OUT_OF_MEMORY);
        set_body.limit = 3;
        cr_assert_eq(wt_call_status(t, &a, &set), 215);
        cr_assert_eq(dev.busy_stops, 0);
        wt_client_close(t, &a);
        wt_client_close(t, &b);
        wrap_close(t);
}

/* The device has no descriptor to wait for: the worker polls it, and everything works. */
Test(worker_device, a_device_that_must_be_polled, .timeout = 60)
{
        struct wt_client a;
        struct wt *t;
        uint64_t null;

        wt_close(wrap_open()); /* fills the table of calls */
        wrap.event_fd = wrap_event_fd;
        wt_tick = DS_NS_PER_US;
        t = wt_open("h200+quiesce");
        a = wt_client(t, 1, DETSHARE__CLASS__LS);
        null = kernel_of(t, &a, "null");
        for (int i = 0; i < 100; i++) {
                wt_push_launch(&a, 0, null, 1, 1, NULL, 0);
                wt_wall += 3 * DS_NS_PER_MS; /* the worker sleeps between polls */
                cr_assert_eq(wt_sync_all(t, &a), 0);
        }
        wt_client_close(t, &a);
        wrap_close(t);
}
