/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker with any sequence of messages that a hostile client can cause the supervisor to send
 *
 * The input is a history of up to four sessions: they connect, attach, send requests (with valid or invalid addresses
 * and ids, or as raw bytes), and disconnect. The policy changes, and real time jumps. Every message gets one reply, and
 * at the end the worker holds nothing.
 */
#include "tests/fuzz/worker_rig.h"

#define CLIENTS 4
#define KEEP 8
#define OPEN_MAX 24 /* unanswered requests at a time, below the worker's own limit */
#define STEPS_MAX 400

struct player {
        struct wt_client client; /* id 0: no session */
        uint64_t addresses[KEEP], kernels[KEEP], modules[KEEP], events[KEEP];
        uint64_t asked[OPEN_MAX];
        size_t n_asked;
};

struct game {
        struct fuzz_input in;
        struct wt *t;
        struct player players[CLIENTS];
        uint64_t next;
};

/* --- valid and invalid numbers ------------------------------------------------------------------------------------ */

static uint64_t known(struct game *g, const uint64_t *ids)
{
        uint8_t how = fuzz_u8(&g->in);

        if (how >= 0xf0)
                return fuzz_bytes(&g->in, 8);
        return ids[how % KEEP] + (how & 0x40 ? how >> 3 & 7 : 0);
}

static uint64_t number(struct game *g)
{
        uint8_t how = fuzz_u8(&g->in);

        if (how < 0xc0)
                return how;
        return how < 0xe0 ? UINT64_C(1) << (how & 63) : fuzz_bytes(&g->in, 1 + (how & 7));
}

static void learn(uint64_t *ids, uint64_t value)
{
        memmove(ids + 1, ids, (KEEP - 1) * sizeof(*ids));
        ids[0] = value;
}

static void player_learn(struct player *player, const wt_answer *answer)
{
        const Detshare__Reply *reply = answer->reply;

        if (answer->body_case != DETSHARE__INTERNAL__FROM_WORKER__BODY_REPLY || answer->status)
                return;
        if (reply->result_case == DETSHARE__REPLY__RESULT_MEM_ALLOC)
                learn(player->addresses, reply->mem_alloc->address);
        else if (reply->result_case == DETSHARE__REPLY__RESULT_PINNED_ALLOC)
                learn(player->addresses, reply->pinned_alloc->address);
        else if (reply->result_case == DETSHARE__REPLY__RESULT_MODULE_LOAD)
                learn(player->modules, reply->module_load->module);
        else if (reply->result_case == DETSHARE__REPLY__RESULT_GET_KERNEL)
                learn(player->kernels, reply->get_kernel->kernel);
        else if (reply->result_case == DETSHARE__REPLY__RESULT_EVENT_CREATE)
                learn(player->events, reply->event_create->event);
}

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

/* --- requests ----------------------------------------------------------------------------------------------------- */

static void send_fd(struct game *g, struct player *player, wt_request *request, int fd)
{
        player->asked[player->n_asked++] = wt_send_call_fd(g->t, &player->client, request, fd);
}

#define SEND(...)                                 \
        do {                                      \
                WT_REQUEST(request, __VA_ARGS__); \
                send_fd(g, player, &request, -1); \
        } while (0)

static const char *const images[] = {DT_PTX, DT_PTX_HEADER, "", DT_PTX_HEADER DT_PTX_NULL,
        DT_PTX_HEADER ".global .align 4 .u32 counter;\n.const .align 4 .b8 table[64];\n" DT_PTX_NULL,
        DT_PTX_HEADER ".visible .entry broken(\n"};
static char *const names[] = {"null", "saxpy", "poke", "counter", "table", "no such name", ""};

static char *some_name(struct game *g)
{
        return names[fuzz_below(&g->in, DS_ARRAY_SIZE(names))];
}

static void ask_memory(struct game *g, struct player *player)
{
        switch (fuzz_below(&g->in, 6)) {
        case 0:
        case 1:
                SEND(MEM_ALLOC, mem_alloc, MemAlloc, MEM_ALLOC, .bytes = number(g));
                break;
        case 2:
                SEND(MEM_FREE, mem_free, MemFree, MEM_FREE, .address = known(g, player->addresses));
                break;
        case 3:
                SEND(PINNED_ALLOC, pinned_alloc, PinnedAlloc, PINNED_ALLOC, .bytes = number(g) % DS_MIB(4));
                break;
        case 4:
                SEND(PINNED_FREE, pinned_free, PinnedFree, PINNED_FREE, .address = known(g, player->addresses));
                break;
        default:
                SEND(MEM_INFO, mem_info, MemInfo, MEM_INFO, .base = {0});
        }
}

static void ask_module(struct game *g, struct player *player)
{
        const char *text = images[fuzz_below(&g->in, DS_ARRAY_SIZE(images))];
        WT_REQUEST(request, MODULE_LOAD, module_load, ModuleLoad, MODULE_LOAD, .bytes = strlen(text));
        int fd = wt_image(text);

        send_fd(g, player, &request, fd);
        close(fd);
}

static void ask_tensor_map(struct game *g, struct player *player)
{
        uint8_t map[140] = {0};
        uint64_t sizes[6] = {number(g), number(g), 64, 128, 256, 512};
        uint32_t box[6] = {fuzz_u8(&g->in), 1, 1, 1, 1, 1};

        SEND(ENCODE_TENSOR_MAP, encode_tensor_map, EncodeTensorMap, ENCODE_TENSOR_MAP,
                .kind = (Detshare__TensorMapKind)(int)fuzz_below(&g->in, 6) - 1, .rank = fuzz_below(&g->in, 8),
                .address = number(g), .given = fuzz_u8(&g->in), .dims = sizes, .n_dims = fuzz_below(&g->in, 6),
                .strides = sizes, .n_strides = fuzz_below(&g->in, 6), .box = box, .n_box = fuzz_below(&g->in, 6),
                .map = {fuzz_u8(&g->in) % sizeof(map), map});
}

static void ask_code(struct game *g, struct player *player)
{
        switch (fuzz_below(&g->in, 8)) {
        case 7:
                ask_tensor_map(g, player);
                break;
        case 6:
                SEND(COUNT_CLUSTERS, count_clusters, CountClusters, COUNT_CLUSTERS, .kernel = known(g, player->kernels),
                        .cluster_x = fuzz_u8(&g->in) % 20, .cluster_y = 1, .cluster_z = fuzz_u8(&g->in) % 3,
                        .block_threads = (uint32_t)number(g), .shared_bytes = (uint32_t)number(g));
                break;
        case 0:
                ask_module(g, player);
                break;
        case 1:
                SEND(MODULE_UNLOAD, module_unload, ModuleUnload, MODULE_UNLOAD, .module = known(g, player->modules));
                break;
        case 2:
                SEND(GET_GLOBAL, get_global, GetGlobal, GET_GLOBAL, .module = known(g, player->modules),
                        .name = some_name(g));
                break;
        case 3:
                SEND(LIST_KERNELS, list_kernels, ListKernels, LIST_KERNELS, .module = known(g, player->modules),
                        .after = (uint32_t)number(g));
                break;
        default:
                SEND(GET_KERNEL, get_kernel, GetKernel, GET_KERNEL, .module = known(g, player->modules),
                        .name = some_name(g));
        }
}

static void ask_stream(struct game *g, struct player *player)
{
        uint32_t stream = fuzz_below(&g->in, 5);

        switch (fuzz_below(&g->in, 9)) {
        case 0:
                SEND(STREAM_CREATE, stream_create, StreamCreate, STREAM_CREATE, .non_blocking = stream & 1,
                        .priority = (int32_t)number(g));
                break;
        case 1:
                SEND(STREAM_DESTROY, stream_destroy, StreamDestroy, STREAM_DESTROY, .stream = stream);
                break;
        case 2:
                SEND(EVENT_CREATE, event_create, EventCreate, EVENT_CREATE, .base = {0});
                break;
        case 3:
                SEND(EVENT_DESTROY, event_destroy, EventDestroy, EVENT_DESTROY, .event = known(g, player->events));
                break;
        case 4:
                SEND(EVENT_ELAPSED, event_elapsed, EventElapsed, EVENT_ELAPSED, .start = known(g, player->events),
                        .end = known(g, player->events));
                break;
        case 5:
                SEND(EVENT_RECORD, event_record, EventRecord, EVENT_RECORD, .stream = stream,
                        .event = known(g, player->events));
                break;
        case 6:
                SEND(STREAM_WAIT, stream_wait, StreamWait, STREAM_WAIT, .stream = stream,
                        .other = fuzz_below(&g->in, 5), .seq = number(g));
                break;
        case 7:
                SEND(SYNC, sync, Sync, SYNC, .stream = stream, .seq = number(g), .all = fuzz_u8(&g->in) & 1);
                break;
        default:
                SEND(QUERY, query, Query, QUERY, .stream = stream);
        }
}

static void ask_work(struct game *g, struct player *player)
{
        uint32_t stream = fuzz_below(&g->in, 5), n = (uint32_t)number(g);
        uint64_t a = known(g, player->addresses), b = known(g, player->addresses);
        uint8_t data[64] = {1, 2, 3};

        switch (fuzz_below(&g->in, 6)) {
        case 0:
        case 1:
                memcpy(data, &a, sizeof(a));
                SEND(LAUNCH, launch, Launch, LAUNCH, .stream = stream, .kernel = known(g, player->kernels), .grid_x = n,
                        .grid_y = 1, .grid_z = 1, .block_x = 1 + fuzz_u8(&g->in), .block_y = 1, .block_z = 1,
                        .shared_bytes = (uint32_t)number(g), .params = {fuzz_u8(&g->in) % sizeof(data), data},
                        .cluster_x = n & 16 ? n % 18 : 0, .cluster_y = n & 48 ? 1 : 0, .cluster_z = n & 16 ? 1 : 0);
                break;
        case 2:
                SEND(COPY, copy, Copy, COPY, .stream = stream, .kind = fuzz_below(&g->in, 5), .dst = a, .src = b,
                        .width = n, .height = number(g), .dst_pitch = number(g), .src_pitch = number(g));
                break;
        case 3:
                SEND(WRITE, write, Write, WRITE, .stream = stream, .dst = a, .data = {n % sizeof(data), data});
                break;
        case 4:
                SEND(READ, read, Read, READ, .stream = stream, .src = a, .bytes = n);
                break;
        default:
                SEND(MEMSET, memset, Memset, MEMSET, .stream = stream, .dst = a, .value = 7,
                        .element_size = 1u << fuzz_below(&g->in, 4), .width = n, .height = number(g),
                        .pitch = number(g));
        }
}

static void ask_other(struct game *g, struct player *player)
{
        switch (fuzz_below(&g->in, 6)) {
        case 0:
                SEND(CLOCK_JOIN, clock_join, ClockJoin, CLOCK_JOIN, .base = {0});
                break;
        case 1:
                SEND(CLOCK_LEAVE, clock_leave, ClockLeave, CLOCK_LEAVE, .base = {0});
                break;
        case 2:
                SEND(SLEEP_UNTIL, sleep_until, SleepUntil, SLEEP_UNTIL, .ns = number(g) * 1000);
                break;
        case 3:
                SEND(GET_STATS, get_stats, GetStats, GET_STATS, .base = {0});
                break;
        case 4:
                SEND(SET_LIMIT, set_limit, SetLimit, SET_LIMIT, .limit = fuzz_below(&g->in, 5), .value = number(g));
                break;
        default:
                SEND(RESET_SESSION, reset_session, ResetSession, RESET_SESSION, .base = {0});
        }
}

/* A request as bytes. Bytes that do not parse never reach the worker. */
static void ask_raw(struct game *g, struct player *player)
{
        size_t n, image = fuzz_below(&g->in, 4);
        const uint8_t *bytes = fuzz_span(&g->in, fuzz_u8(&g->in), &n);
        Detshare__Request *request = detshare__request__unpack(NULL, n, bytes);
        int fd = request && request->call_case == DETSHARE__REQUEST__CALL_MODULE_LOAD ? wt_image(images[image]) : -1;

        if (request)
                send_fd(g, player, request, fd);
        ds_close(fd);
        detshare__request__free_unpacked(request, NULL);
}

static void ask(struct game *g, struct player *player)
{
        static void (*const kinds[])(struct game *, struct player *) = {
                ask_memory, ask_code, ask_code, ask_stream, ask_work, ask_work, ask_other, ask_raw};

        if (player->client.id && player_listen(g->t, player) < OPEN_MAX)
                kinds[fuzz_below(&g->in, DS_ARRAY_SIZE(kinds))](g, player);
}

/* --- connecting, disconnecting, and messages of the supervisor itself --------------------------------------------- */

static void player_close(struct game *g, struct player *player)
{
        rig_close_client(g->t, &player->client);
        FUZZ_CHECK(player_listen(g->t, player) == 0);
        *player = (struct player){.client = {.ring_fd = -1}};
}

static void come_or_go(struct game *g, struct player *player)
{
        if (!player->client.id)
                player->client = wt_client(g->t, g->next++, fuzz_u8(&g->in) & 1);
        else if (!player->client.ring)
                wt_attach(g->t, &player->client);
        else if (fuzz_u8(&g->in) < 64)
                player_close(g, player);
}

static void set_session(struct game *g, struct player *player)
{
        Detshare__Internal__SessionSet set = DETSHARE__INTERNAL__SESSION_SET__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;

        set.session = player->client.id;
        set.class_ = fuzz_u8(&g->in) & 1;
        set.slo_ns = number(g);
        set.memory_limit = number(g);
        set.sm_percent = fuzz_below(&g->in, 101);
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SET;
        message.set = &set;
        wt_free(wt_wait(g->t, wt_send(g->t, &message, NULL, 0)));
}

static void set_policy(struct game *g)
{
        static char *const policies[] = {"fifo", "none", "", "static"};
        Detshare__SetPolicy set = DETSHARE__SET_POLICY__INIT;
        wt_message message = DETSHARE__INTERNAL__TO_WORKER__INIT;
        char param[64] = "", *params[] = {param};
        size_t n;
        const uint8_t *bytes = fuzz_span(&g->in, fuzz_u8(&g->in) % sizeof(param), &n);

        if (n)
                memcpy(param, bytes, n);
        set.name = policies[fuzz_below(&g->in, DS_ARRAY_SIZE(policies))];
        set.n_params = 1;
        set.params = params;
        message.body_case = DETSHARE__INTERNAL__TO_WORKER__BODY_SET_POLICY;
        message.set_policy = &set;
        wt_free(wt_wait(g->t, wt_send(g->t, &message, NULL, 0)));
}

static void push(struct game *g, struct player *player)
{
        struct wt_client *client = &player->client;
        uint64_t kernel = known(g, player->kernels);

        if (!client->ring || wt_ring_room(client) < 32 || wt_ring_room(client) > DS_RING_SLOTS)
                return;
        wt_push_launch(client, fuzz_below(&g->in, 4), kernel, fuzz_u8(&g->in), fuzz_u8(&g->in), NULL, 0);
        if (fuzz_u8(&g->in) & 1)
                wt_push_event(client, fuzz_below(&g->in, 4), known(g, player->events));
        else
                wt_push_wait(client, fuzz_below(&g->in, 4), fuzz_below(&g->in, 4), number(g));
}

static void step(struct game *g)
{
        struct player *player = &g->players[fuzz_below(&g->in, CLIENTS)];

        switch (fuzz_below(&g->in, 16)) {
        case 0:
                come_or_go(g, player);
                break;
        case 1:
                push(g, player);
                break;
        case 2:
                if (player->client.id)
                        set_session(g, player);
                break;
        case 3:
                set_policy(g);
                break;
        case 4:
                wt_wall += number(g) % 10000 * DS_NS_PER_MS;
                break;
        case 5:
        case 6:
        case 7:
                wt_turn(g->t, 0);
                break;
        default:
                ask(g, player);
        }
        rig_drop_unasked(g->t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct game game;
        struct game *g = &game;

        *g = (struct game){.in = {data, size}, .t = rig_open(), .next = 1};
        for (size_t i = 0; i < CLIENTS; i++)
                g->players[i].client.ring_fd = -1;
        g->players[0].client = wt_client(g->t, g->next++, DETSHARE__CLASS__BE);
        for (int i = 0; i < STEPS_MAX && g->in.size; i++)
                step(g);
        for (size_t i = 0; i < CLIENTS; i++)
                if (g->players[i].client.id)
                        player_close(g, &g->players[i]);
        rig_drop_unasked(g->t);
        FUZZ_CHECK(g->t->n_stash == 0);
        rig_expect_empty(g->t);
        wt_close(g->t);
        fuzz_expect_files();
        return 0;
}
