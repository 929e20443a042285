/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random histories: valid and invalid requests, sessions that open and close, and lack of memory
 *
 * Every message is answered exactly once, nothing crashes, and after closing all sessions the worker holds nothing. All
 * policies take part. The seed is printed; DETSHARE_TEST_SEED repeats a run.
 */
#include <dirent.h>
#include <inttypes.h>
#include <time.h>

#include "tests/unit/rounds.h"
#include "tests/unit/worker_harness.h"
#include "util/alloc.h"
#include "worker/internal.h"

#define CLIENTS 4
#define KEEP 32
#define OPEN_MAX 40 /* open requests at a time, below the worker's limit */

static uint64_t random_state;

static uint64_t random_next(void)
{
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return random_state;
}

static void random_seed(void)
{
        const char *given = getenv("DETSHARE_TEST_SEED");

        random_state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + 1;
        fprintf(stderr, "seed %#" PRIx64 "\n", random_state);
}

/* Ids and addresses that a client knows, some of them outdated. */
struct player {
        struct wt_client client;
        uint64_t addresses[KEEP], kernels[KEEP], modules[KEEP], events[KEEP];
        uint64_t asked[OPEN_MAX];
        size_t n_asked;
};

static uint64_t any(const uint64_t *known)
{
        uint64_t value = known[random_next() % KEEP];

        return random_next() % 16 ? value + (random_next() % 8 ? 0 : random_next() % 4096) : random_next();
}

static void learn(uint64_t *known, uint64_t value)
{
        known[random_next() % KEEP] = value;
}

static void player_learn(struct player *player, const wt_answer *answer)
{
        const Detshare__Reply *reply = answer->reply;

        if (answer->body_case != DETSHARE__INTERNAL__FROM_WORKER__BODY_REPLY || answer->status)
                return;
        switch (reply->result_case) {
        case DETSHARE__REPLY__RESULT_MEM_ALLOC:
                learn(player->addresses, reply->mem_alloc->address);
                break;
        case DETSHARE__REPLY__RESULT_PINNED_ALLOC:
                learn(player->addresses, reply->pinned_alloc->address);
                break;
        case DETSHARE__REPLY__RESULT_MODULE_LOAD:
                learn(player->modules, reply->module_load->module);
                break;
        case DETSHARE__REPLY__RESULT_GET_KERNEL:
                learn(player->kernels, reply->get_kernel->kernel);
                break;
        case DETSHARE__REPLY__RESULT_EVENT_CREATE:
                learn(player->events, reply->event_create->event);
                break;
        default:
                break;
        }
}

/* Takes the available answers. Returns the number of open requests. */
static size_t player_listen(struct wt *t, struct player *player)
{
        for (size_t i = 0; i < player->n_asked;) {
                wt_answer *answer = wt_take(t, player->asked[i]);

                if (!answer) {
                        i++;
                        continue;
                }
                player_learn(player, answer);
                wt_free(answer);
                player->asked[i] = player->asked[--player->n_asked];
        }
        return player->n_asked;
}

static void player_send(struct wt *t, struct player *player, wt_request *request)
{
        player->asked[player->n_asked++] = wt_send_call(t, &player->client, request);
}

#define SEND(...)                                 \
        do {                                      \
                WT_REQUEST(request, __VA_ARGS__); \
                player_send(t, player, &request); \
        } while (0)

static void player_module(struct wt *t, struct player *player)
{
        WT_REQUEST(request, MODULE_LOAD, module_load, ModuleLoad, MODULE_LOAD, .bytes = sizeof(DT_PTX) - 1);
        int fd = wt_image(DT_PTX);

        player->asked[player->n_asked++] = wt_send_call_fd(t, &player->client, &request, fd);
        close(fd);
}

static void player_memory(struct wt *t, struct player *player)
{
        static const uint64_t sizes[] = {0, 1, 4096, DS_MIB(1), DS_MIB(70), DS_TIB(1024), UINT64_MAX};
        uint64_t size = sizes[random_next() % DS_ARRAY_SIZE(sizes)];

        switch (random_next() % 6) {
        case 0:
        case 1:
                SEND(MEM_ALLOC, mem_alloc, MemAlloc, MEM_ALLOC, .bytes = size);
                break;
        case 2:
                SEND(MEM_FREE, mem_free, MemFree, MEM_FREE, .address = any(player->addresses));
                break;
        case 3:
                SEND(PINNED_ALLOC, pinned_alloc, PinnedAlloc, PINNED_ALLOC, .bytes = size, .later = random_next() % 2);
                break;
        case 4:
                SEND(PINNED_FREE, pinned_free, PinnedFree, PINNED_FREE, .address = any(player->addresses));
                break;
        default:
                SEND(MEM_INFO, mem_info, MemInfo, MEM_INFO, .base = {0});
                break;
        }
}

static void player_code(struct wt *t, struct player *player)
{
        static char *names[] = {"null", "saxpy", "poke", "no such kernel", ""};

        switch (random_next() % 6) {
        case 0:
                player_module(t, player);
                break;
        case 1:
                SEND(MODULE_UNLOAD, module_unload, ModuleUnload, MODULE_UNLOAD, .module = any(player->modules));
                break;
        case 2:
                SEND(GET_GLOBAL, get_global, GetGlobal, GET_GLOBAL, .module = any(player->modules),
                        .name = names[random_next() % DS_ARRAY_SIZE(names)]);
                break;
        case 3:
                SEND(LIST_KERNELS, list_kernels, ListKernels, LIST_KERNELS, .module = any(player->modules),
                        .after = (uint32_t)any(player->modules));
                break;
        default:
                SEND(GET_KERNEL, get_kernel, GetKernel, GET_KERNEL, .module = any(player->modules),
                        .name = names[random_next() % DS_ARRAY_SIZE(names)]);
                break;
        }
}

static void player_stream(struct wt *t, struct player *player)
{
        uint32_t stream = (uint32_t)(random_next() % 6), other = (uint32_t)(random_next() % 6);

        switch (random_next() % 9) {
        case 0:
                SEND(STREAM_CREATE, stream_create, StreamCreate, STREAM_CREATE, .non_blocking = random_next() & 1,
                        .priority = (int32_t)random_next());
                break;
        case 1:
                SEND(STREAM_DESTROY, stream_destroy, StreamDestroy, STREAM_DESTROY, .stream = stream);
                break;
        case 2:
                SEND(EVENT_CREATE, event_create, EventCreate, EVENT_CREATE, .base = {0});
                break;
        case 3:
                SEND(EVENT_DESTROY, event_destroy, EventDestroy, EVENT_DESTROY, .event = any(player->events));
                break;
        case 4:
                SEND(EVENT_ELAPSED, event_elapsed, EventElapsed, EVENT_ELAPSED, .start = any(player->events),
                        .end = any(player->events));
                break;
        case 5:
                SEND(EVENT_RECORD, event_record, EventRecord, EVENT_RECORD, .stream = stream,
                        .event = any(player->events));
                break;
        case 6:
                SEND(STREAM_WAIT, stream_wait, StreamWait, STREAM_WAIT, .stream = stream, .other = other,
                        .seq = random_next() % 64);
                break;
        case 7:
                SEND(SYNC, sync, Sync, SYNC, .stream = stream, .seq = random_next() % 64, .all = random_next() & 1);
                break;
        default:
                SEND(QUERY, query, Query, QUERY, .stream = stream);
                break;
        }
}

static void player_work(struct wt *t, struct player *player)
{
        uint32_t stream = (uint32_t)(random_next() % 4), n = (uint32_t)(1 + random_next() % 64);
        uint64_t a = any(player->addresses), b = any(player->addresses), kernel = any(player->kernels);
        uint8_t data[64] = {1, 2, 3};

        switch (random_next() % 7) {
        case 0:
                SEND(LAUNCH, launch, Launch, LAUNCH, .stream = stream, .kernel = kernel, .grid_x = n, .grid_y = 1,
                        .grid_z = 1, .block_x = n * 4, .block_y = 1, .block_z = 1,
                        .params = {random_next() % 2 ? 0 : random_next() % 64, data});
                break;
        case 1:
                SEND(COPY, copy, Copy, COPY, .stream = stream, .kind = (uint32_t)(random_next() % 5), .dst = a,
                        .src = b, .width = n, .height = 1);
                break;
        case 2:
                SEND(WRITE, write, Write, WRITE, .stream = stream, .dst = a, .data = {n, data});
                break;
        case 3:
                SEND(READ, read, Read, READ, .stream = stream, .src = a, .bytes = n * 900);
                break;
        case 4:
                SEND(MEMSET, memset, Memset, MEMSET, .stream = stream, .dst = a, .value = 7,
                        .element_size = 1u << random_next() % 4, .width = n, .height = 1);
                break;
        default:
                if (player->client.ring && wt_ring_room(&player->client) > 32)
                        wt_push_launch(&player->client, stream, kernel, n, n, NULL, 0);
                break;
        }
}

static void player_clock(struct wt *t, struct player *player)
{
        switch (random_next() % 6) {
        case 0:
                SEND(CLOCK_JOIN, clock_join, ClockJoin, CLOCK_JOIN, .base = {0});
                break;
        case 1:
        case 2:
                SEND(CLOCK_LEAVE, clock_leave, ClockLeave, CLOCK_LEAVE, .base = {0});
                break;
        case 3:
                SEND(SLEEP_UNTIL, sleep_until, SleepUntil, SLEEP_UNTIL, .ns = random_next() >> (random_next() % 64));
                break;
        case 4:
                SEND(GET_STATS, get_stats, GetStats, GET_STATS, .base = {0});
                break;
        default:
                if (random_next() % 8 == 0)
                        SEND(RESET_SESSION, reset_session, ResetSession, RESET_SESSION, .base = {0});
                break;
        }
}

static void player_move(struct wt *t, struct player *player)
{
        void (*const moves[])(struct wt *, struct player *) = {
                player_memory, player_code, player_stream, player_work, player_work, player_work, player_clock};

        if (player_listen(t, player) < OPEN_MAX)
                moves[random_next() % DS_ARRAY_SIZE(moves)](t, player);
}

static void player_open(struct wt *t, struct player *player, uint64_t id)
{
        *player = (struct player){
                .client = wt_client(t, id, random_next() % 2 ? DETSHARE__CLASS__LS : DETSHARE__CLASS__BE)};
        if (random_next() % 2)
                wt_attach(t, &player->client);
}

/*
 * Six seconds of real time pass: a session that holds the clock loses it. Not while the worker waits for one of its
 * threads, which have had milliseconds: virtual time stands meanwhile, and work in flight would seem to be endless.
 */
static void pass_time(struct wt *t)
{
        if (!dsw_loop_awaits(t->worker))
                wt_wall += 6 * DS_NS_PER_S;
}

static void player_close(struct wt *t, struct player *player)
{
        uint64_t id = wt_send_close(t, &player->client);
        wt_answer *answer;

        /* the request's work may be queued behind a session for which the clock stands, and then behind another one */
        for (int i = 0; i < 1000 * CLIENTS && !(answer = wt_take(t, id)); i++) {
                wt_settle(t);
                wt_turn(t, 1);
                /* the worker's threads prepare files and execute kernels, and time must not run ahead of them */
                if (i)
                        usleep(1000);
                if (i % 20 == 0)
                        pass_time(t);
        }
        cr_assert_not_null(answer);
        cr_assert_eq(answer->status, 0);
        wt_free(answer);
        cr_assert_eq(player_listen(t, player), 0, "closed with requests unanswered");
        wt_client_unmap(&player->client);
}

static void expect_empty(struct wt *t)
{
        Detshare__Internal__WorkerStats ask = DETSHARE__INTERNAL__WORKER_STATS__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        wt_answer *answer;

        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_STATS;
        message.stats = &ask;
        answer = wt_wait(t, wt_send(t, &message, NULL, 0));
        cr_assert_eq(answer->stats->sessions, 0);
        cr_assert_eq(answer->stats->modules, 0);
        cr_assert_eq(answer->stats->memory_slabs, 0);
        cr_assert_eq(answer->stats->memory_used, 0);
        cr_assert_eq(answer->stats->queued, 0);
        cr_assert_eq(answer->stats->in_flight, 0);
        wt_free(answer);
}

/* Drops unrequested messages: a fault after a broken ring, a reset that has to wait, requests for kernels and forms. */
static void drop_unasked(struct wt *t)
{
        for (wt_answer *answer; (answer = wt_take(t, 0));) {
                cr_assert(answer->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_FAULT ||
                          answer->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_READY ||
                          answer->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_PROFILE_SEEN ||
                          answer->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_PROFILE_REFINED ||
                          answer->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_FORMS_WANTED ||
                          answer->body_case == DETSHARE__INTERNAL__FROM_WORKER__BODY_STIRRED ||
                          (answer->ledger && answer->ledger->reset));
                wt_free(answer);
        }
}

/* Any policy except those that are made to fail; `dice` is included, which returns senseless actions until it is
 * replaced. */
static void switch_policy(struct wt *t)
{
        static char names[64][64];
        static size_t n_names;
        DIR *dir = n_names ? NULL : opendir(wt_policies());
        struct dirent *entry;

        while (dir && (entry = readdir(dir)) && n_names < DS_ARRAY_SIZE(names)) {
                char *end = strstr(entry->d_name, ".so");

                if (!end || !strncmp(entry->d_name, "bad-", 4) || !strcmp(entry->d_name, "probe.so") ||
                        !strcmp(entry->d_name, "slow.so"))
                        continue;
                snprintf(names[n_names++], sizeof(names[0]), "%.*s", (int)(end - entry->d_name), entry->d_name);
        }
        if (dir)
                closedir(dir);
        cr_assert_gt(n_names, 8);
        wt_set_policy(t, names[random_next() % n_names]);
}

static void history(int switches)
{
        static struct player players[CLIENTS];
        struct wt *t = switches ? wt_open_policy(TIMING, "fifo", wt_policies()) : wt_open(TIMING);
        uint64_t next = 1;

        ds_log_setup("test", DS_LOG_ERROR);
        for (size_t i = 0; i < CLIENTS; i++)
                player_open(t, &players[i], next++);
        for (int step = 0; step < 40000; step++) {
                struct player *player = &players[random_next() % CLIENTS];

                player_move(t, player);
                if (random_next() % 3 == 0)
                        wt_turn(t, 0);
                if (random_next() % 200 == 0)
                        pass_time(t);
                if (random_next() % 1000 == 0) {
                        player_close(t, player);
                        /* addresses of a window are reused */
                        player_open(t, player, random_next() % 2 ? player->client.id : next++ % 64 + 100);
                }
                if (switches && random_next() % 400 == 0)
                        switch_policy(t);
                drop_unasked(t);
        }
        for (size_t i = 0; i < CLIENTS; i++)
                player_close(t, &players[i]);
        drop_unasked(t);
        cr_assert_eq(t->n_stash, 0, "answers that nobody asked for");
        expect_empty(t);
        wt_close(t);
}

Test(worker_random, histories, .timeout = 300)
{
        random_seed();
        history(1);
}

/* In these histories one client after another held the clock for as long as an orphan's kernel may take. */
Test(worker_random, histories_that_failed, .timeout = 300)
{
        static const uint64_t seeds[] = {0x4221a63e46ea221c, 10996558, 29324133};

        for (size_t i = 0; i < DS_ARRAY_SIZE(seeds); i++) {
                random_state = seeds[i];
                history(0);
        }
}

/* --- short memory ------------------------------------------------------------------------------------------------- */

/* A short life of a client whose requests may fail. Returns -1 if the worker has ended, which is permitted. */
static int small_life(struct wt *t)
{
        static struct player players[1];
        struct player *player = players;

        *player = (struct player){.client = {.id = 1, .ring_fd = -1, .event_fd = -1}};
        player->client = wt_client_unchecked(t, 1);
        for (int round = 0; round < 3; round++) {
                SEND(MEM_ALLOC, mem_alloc, MemAlloc, MEM_ALLOC, .bytes = 4096);
                SEND(PINNED_ALLOC, pinned_alloc, PinnedAlloc, PINNED_ALLOC, .bytes = 4096);
                SEND(PINNED_ALLOC, pinned_alloc, PinnedAlloc, PINNED_ALLOC, .bytes = 8192, .later = 1);
                SEND(STREAM_CREATE, stream_create, StreamCreate, STREAM_CREATE, .non_blocking = 1);
                SEND(EVENT_CREATE, event_create, EventCreate, EVENT_CREATE, .base = {0});
                player_module(t, player);
                if (wt_turns_unchecked(t, 30))
                        return -1;
                player_listen(t, player);
                for (int i = 0; i < KEEP; i++) {
                        if (player->modules[i])
                                SEND(GET_KERNEL, get_kernel, GetKernel, GET_KERNEL, .module = player->modules[i],
                                        .name = "null");
                }
                if (wt_turns_unchecked(t, 10))
                        return -1;
                player_listen(t, player);
                for (int i = 0; i < KEEP; i++) {
                        if (player->kernels[i])
                                SEND(LAUNCH, launch, Launch, LAUNCH, .stream = round ? 1 : 0,
                                        .kernel = player->kernels[i], .grid_x = 1, .grid_y = 1, .grid_z = 1,
                                        .block_x = 1, .block_y = 1, .block_z = 1);
                        if (player->addresses[i])
                                SEND(WRITE, write, Write, WRITE, .dst = player->addresses[i],
                                        .data = {8, (uint8_t *)player});
                        if (player->addresses[i])
                                SEND(READ, read, Read, READ, .src = player->addresses[i], .bytes = 8);
                        if (player->events[i])
                                SEND(EVENT_RECORD, event_record, EventRecord, EVENT_RECORD, .event = player->events[i]);
                }
                SEND(SLEEP_UNTIL, sleep_until, SleepUntil, SLEEP_UNTIL, .ns = 1000000);
                SEND(SYNC, sync, Sync, SYNC, .all = 1);
                if (wt_turns_unchecked(t, 30))
                        return -1;
                player_listen(t, player);
                if (round == 1)
                        SEND(RESET_SESSION, reset_session, ResetSession, RESET_SESSION, .base = {0});
                if (wt_turns_unchecked(t, 10))
                        return -1;
                player_listen(t, player);
        }
        player->asked[player->n_asked++] = wt_send_close(t, &player->client);
        if (wt_turns_unchecked(t, 30))
                return -1;
        cr_assert_eq(player_listen(t, player), 0);
        return 0;
}

/*
 * Every allocation fails once in a run of its own: no crash, no leak, every request answered, or an orderly end. A
 * short run tries one of six, other ones each time.
 */
Test(worker_random, every_allocation_may_fail, .timeout = 300)
{
        int64_t last = getenv("DETSHARE_TEST_LAST") ? atoll(getenv("DETSHARE_TEST_LAST")) : 700;
        const int64_t step = rounds_step(6);
        int survived = 0, tried = 0;

        ds_log_setup("test", DS_LOG_ERROR - 1);
        for (int64_t n = getpid() % step; n < last; n += step, tried++) {
                struct wt *t = wt_open_unchecked(TIMING, n);
                int r = -1;

                if (t->worker)
                        r = small_life(t);
                ds_alloc_fail_after(-1);
                if (r == 0) {
                        /* the next client is served */
                        static struct player player;

                        survived++;
                        wt_take_all(t);
                        player_open(t, &player, 2);
                        cr_assert_eq(
                                wt_alloc(t, &player.client, 4096, &player.addresses[0]), 0, "after failure %d", (int)n);
                        player_close(t, &player);
                        expect_empty(t);
                }
                wt_client_unmap_last();
                wt_close(t);
        }
        fprintf(stderr, "%d of %d survived\n", survived, tried);
        cr_assert_gt(survived, tried / 4);
}
