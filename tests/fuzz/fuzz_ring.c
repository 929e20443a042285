/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The submission ring of a client that writes anything anywhere
 *
 * The session has a module, memory, a second stream and an event, so that valid records are possible. The input is a
 * series of: a record with chosen fields, bytes anywhere in the ring's file, any value of the tail, turns of the
 * worker.
 */
#include "tests/fuzz/worker_rig.h"

#define STEPS_MAX 300
#define SLAB DS_MIB(1)

struct ring_player {
        struct wt *t;
        struct wt_client client;
        uint64_t memory, pinned, kernel, event;
        uint32_t stream;
};

static uint64_t open_pinned(struct wt *t, struct wt_client *client)
{
        WT_REQUEST(request, PINNED_ALLOC, pinned_alloc, PinnedAlloc, PINNED_ALLOC, .bytes = 4096);
        wt_answer *answer = wt_call(t, client, &request);
        uint64_t address;

        FUZZ_CHECK(answer->status == 0);
        address = answer->reply->pinned_alloc->address;
        wt_free(answer);
        return address;
}

static void open_player(struct ring_player *p)
{
        uint64_t module;

        p->t = rig_open();
        p->client = wt_client(p->t, 1, DETSHARE__CLASS__BE);
        wt_attach(p->t, &p->client);
        FUZZ_CHECK(wt_module(p->t, &p->client, DT_PTX, &module) == 0);
        FUZZ_CHECK(wt_alloc(p->t, &p->client, SLAB, &p->memory) == 0);
        FUZZ_CHECK(wt_stream(p->t, &p->client, &p->stream) == 0);
        p->pinned = open_pinned(p->t, &p->client);
        p->kernel = wt_kernel(p->t, &p->client, module, "poke");
        p->event = wt_new_event(p->t, &p->client);
}

/* A number that a client might send: a valid address or size, one close to valid, or any. */
static uint64_t some_address(struct fuzz_input *in, const struct ring_player *p)
{
        uint8_t how = fuzz_u8(in);

        switch (how & 7) {
        case 0:
                return fuzz_bytes(in, 8);
        case 1:
                return p->pinned + fuzz_u8(in);
        case 2:
                return p->memory + SLAB - fuzz_u8(in);
        default:
                return p->memory + (uint64_t)(how & 0xf8) * 64;
        }
}

static uint64_t some_size(struct fuzz_input *in)
{
        uint8_t how = fuzz_u8(in);

        return how < 0xf0 ? how : fuzz_bytes(in, how - 0xef > 8 ? 8 : how - 0xef);
}

static uint16_t some_stream(struct fuzz_input *in, const struct ring_player *p)
{
        uint8_t how = fuzz_u8(in);

        return how < 100 ? 0 : how < 200 ? (uint16_t)p->stream : (uint16_t)(fuzz_u8(in) * 5);
}

static void push_launch(struct fuzz_input *in, struct ring_player *p)
{
        uint8_t params[64] = {0};
        struct ds_record_launch launch = {.kernel = fuzz_u8(in) & 7 ? p->kernel : fuzz_bytes(in, 2)};
        uint8_t bytes[sizeof(launch) + sizeof(params)];
        uint64_t address = some_address(in, p);

        launch.params_size = fuzz_u8(in) & 3 ? 12 : fuzz_u8(in) % sizeof(params);
        launch.head =
                (struct ds_record){DS_RECORD_LAUNCH, some_stream(in, p), (uint32_t)sizeof(launch) + launch.params_size};
        for (int i = 0; i < 3; i++) {
                launch.grid[i] = (uint32_t)some_size(in);
                launch.block[i] = (uint32_t)some_size(in);
        }
        launch.shared_bytes = (uint32_t)some_size(in);
        for (int i = 0; i < 3 && launch.shared_bytes & 1; i++)
                launch.cluster[i] = (uint16_t)(fuzz_u8(in) & 0x80 ? some_size(in) : 1 + fuzz_below(in, 4));
        memcpy(params, &address, sizeof(address));
        memcpy(bytes, &launch, sizeof(launch));
        memcpy(bytes + sizeof(launch), params, sizeof(params));
        wt_push(&p->client, bytes, launch.head.size);
}

static void push_copy(struct fuzz_input *in, struct ring_player *p)
{
        struct ds_record_copy copy = {.head = {DS_RECORD_COPY, some_stream(in, p), sizeof(copy)},
                .kind = fuzz_below(in, 6),
                .dst = some_address(in, p),
                .src = some_address(in, p),
                .width = some_size(in),
                .height = some_size(in),
                .dst_pitch = some_size(in),
                .src_pitch = some_size(in)};

        wt_push(&p->client, &copy, sizeof(copy));
}

static void push_memset(struct fuzz_input *in, struct ring_player *p)
{
        struct ds_record_memset set = {.head = {DS_RECORD_MEMSET, some_stream(in, p), sizeof(set)},
                .value = (uint32_t)some_size(in),
                .element_size = fuzz_below(in, 6),
                .dst = some_address(in, p),
                .width = some_size(in),
                .height = some_size(in),
                .pitch = some_size(in)};

        wt_push(&p->client, &set, sizeof(set));
}

static void push_record(struct fuzz_input *in, struct ring_player *p)
{
        if (wt_ring_room(&p->client) < 64 || wt_ring_room(&p->client) > DS_RING_SLOTS)
                return;
        switch (fuzz_below(in, 6)) {
        case 0:
        case 1:
                push_launch(in, p);
                break;
        case 2:
                push_copy(in, p);
                break;
        case 3:
                push_memset(in, p);
                break;
        case 4:
                wt_push_event(&p->client, some_stream(in, p), fuzz_u8(in) & 3 ? p->event : some_size(in));
                break;
        default:
                wt_push_wait(&p->client, some_stream(in, p), some_stream(in, p), some_size(in));
        }
}

/* Writes bytes at the tail, in the header or anywhere; half the time the tail then advances past them. */
static void scribble(struct fuzz_input *in, struct ring_player *p)
{
        uint8_t how = fuzz_u8(in);
        size_t at = how & 1 ? DS_RING_HEADER + (p->client.tail & (DS_RING_SLOTS - 1)) * DS_RING_SLOT
                            : fuzz_bytes(in, 3) % DS_RING_BYTES,
               n;
        const uint8_t *bytes = fuzz_span(in, how >> 2, &n);

        n = DS_MIN(n, DS_RING_BYTES - at);
        if (n)
                memcpy(p->client.ring + at, bytes, n);
        if ((how & 2) && wt_ring_room(&p->client) > 2 && wt_ring_room(&p->client) <= DS_RING_SLOTS)
                wt_publish(&p->client, 1 + n / DS_RING_SLOT);
}

static void step(struct fuzz_input *in, struct ring_player *p)
{
        struct ds_ring_header *header = (void *)p->client.ring;

        switch (fuzz_below(in, 8)) {
        case 0:
        case 1:
        case 2:
        case 3:
                push_record(in, p);
                break;
        case 4:
                scribble(in, p);
                break;
        case 5:
                if (fuzz_u8(in) < 16)
                        atomic_store(&header->tail, p->client.tail = fuzz_bytes(in, 8));
                break;
        case 6:
                wt_wall += (uint64_t)fuzz_u8(in) * DS_NS_PER_MS * 100;
                break;
        default:
                wt_turn(p->t, 0);
                rig_drop_unasked(p->t);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct fuzz_input in = {data, size};
        struct ring_player player;

        open_player(&player);
        for (int i = 0; i < STEPS_MAX && in.size; i++)
                step(&in, &player);
        wt_settle(player.t);
        rig_drop_unasked(player.t);
        rig_close_client(player.t, &player.client);
        rig_drop_unasked(player.t);
        rig_expect_empty(player.t);
        wt_close(player.t);
        fuzz_expect_files();
        return 0;
}
