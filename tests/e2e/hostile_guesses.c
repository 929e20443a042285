/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user who guesses the ids, addresses, tokens and session of another user
 *
 * One user has a session with an object of every kind. Another user, in its own process, names each of them: by the
 * exact number, by numbers near it, by 0, by the largest number and by random ones; first from a session without
 * objects, then from one with the same kinds of objects. Tokens are sent unchanged, with each byte changed, shorter,
 * longer, and random.
 *
 * No request succeeds. Every reply has the same status, and the same message except for the number, as for an id that
 * does not exist. Lists do not show the session. Afterwards the first user's bytes and objects are unchanged.
 *
 * usage: hostile_guesses BUILD
 */
#include "tests/e2e/harness.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/graph.h"

#define DEVICE "sim:h200"
#define OWNER_UID 54330
#define HOSTILE_UID 54331
#define WORDS 64u
#define PLACED (2u << 20)
#define BATCH 32u /* requests sent at once; a session may have 64 unanswered ones */
#define NEAR 1000
#define NEAR_GUESSES 10 /* guesses of each probe near each id */
#define RANDOM_GUESSES 60
#define MS 30000
#define NOBODY UINT64_C(0x6e6f626f64790000) /* an id, an address and a session that do not exist */

/* Nothing writes the global variable, so the module may outlive a worker. */
static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .global .align 4 .u32 g[4];\n"
                          ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<4>;\n.reg .b64 %d<4>;\n"
                          "ld.param.u64 %d0, [p];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %d1, %r0, 4;\n"
                          "add.u64 %d0, %d0, %d1;\nld.global.u32 %r1, [%d0];\nadd.u32 %r1, %r1, 1;\n"
                          "st.global.u32 [%d0], %r1;\nret;\n}\n";

enum { SESSION, MEMORY, PINNED, RANGE, HANDLE, GLOBAL, MODULE, KERNEL, STREAM, EVENT, SHARED, GRAPH, N_IDS };

struct has {
        int fd;
        uint64_t id[N_IDS];
        uint8_t memory_token[64], event_token[32];
};

static struct has owner, own; /* own: objects of the session that guesses; all 0 if it has none */
static uint64_t seed, n_requests;

/* --- an object of each kind --------------------------------------------------------------------------------------- */

/* Sends a request that must succeed. Returns its reply. */
static Detshare__Reply *must(int fd, Detshare__Request *request, const int *file)
{
        Detshare__Reply *reply = h_ask(fd, request, file, file != NULL, MS);

        if (!h_check(reply && reply->status == 0, "call %d: %s", (int)request->call_case,
                    reply ? reply->message : "no reply"))
                exit(1);
        return reply;
}

/* Sends a request that must succeed, and runs `statement`, which may use the reply. */
#define ASK(file, type, TYPE, CASE, field, set, statement)              \
        do {                                                            \
                H_REQUEST(type, TYPE, CASE, field);                     \
                set;                                                    \
                Detshare__Reply *reply = must(has->fd, &request, file); \
                statement;                                              \
                detshare__reply__free_unpacked(reply, NULL);            \
        } while (0)

static int file_of(const void *bytes, size_t size)
{
        int fd = memfd_create("guess", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (write(fd, bytes, size) != (ssize_t)size ||
                fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL))
                exit(1);
        return fd;
}

static int graph_file(uint64_t kernel, uint64_t parameter, size_t *ret_size)
{
        void *bytes = graph_chain(&(struct dsc_kernel){.id = kernel}, 1, WORDS, 1, &parameter, 8, ret_size);
        int fd = file_of(bytes, *ret_size);

        free(bytes);
        return fd;
}

static void have_memory(struct has *has)
{
        uint64_t *id = has->id;

        ASK(NULL, MemAlloc, MEM_ALLOC, MEM_ALLOC, mem_alloc, body.bytes = 4096, id[MEMORY] = reply->mem_alloc->address);
        ASK(NULL, PinnedAlloc, PINNED_ALLOC, PINNED_ALLOC, pinned_alloc, body.bytes = 4096,
                id[PINNED] = reply->pinned_alloc->address);
        ASK(NULL, MemCreate, MEM_CREATE, MEM_CREATE, mem_create, body.bytes = PLACED,
                id[HANDLE] = reply->physical->handle);
        ASK(NULL, AddressReserve, ADDRESS_RESERVE, ADDRESS_RESERVE, address_reserve, body.bytes = PLACED,
                id[RANGE] = reply->address_reserve->address);
        ASK(NULL, MemMap, MEM_MAP, MEM_MAP, mem_map, body.handle = id[HANDLE]; body.address = id[RANGE];
                body.bytes = PLACED, );
        ASK(NULL, MemExport, MEM_EXPORT, MEM_EXPORT, mem_export, body.handle = id[HANDLE],
                memcpy(has->memory_token, reply->mem_export->token.data, sizeof(has->memory_token)));
}

static void have_code(struct has *has)
{
        int file = file_of(ptx, sizeof(ptx));
        uint64_t *id = has->id;
        size_t size;

        ASK(&file, ModuleLoad, MODULE_LOAD, MODULE_LOAD, module_load, body.bytes = sizeof(ptx),
                id[MODULE] = reply->module_load->module);
        close(file);
        ASK(NULL, GetKernel, GET_KERNEL, GET_KERNEL, get_kernel, body.module = id[MODULE];
                body.name = (char *)"k", id[KERNEL] = reply->get_kernel->kernel);
        ASK(NULL, GetGlobal, GET_GLOBAL, GET_GLOBAL, get_global, body.module = id[MODULE];
                body.name = (char *)"g", id[GLOBAL] = reply->get_global->address);
        file = graph_file(id[KERNEL], id[MEMORY], &size);
        ASK(&file, GraphCreate, GRAPH_CREATE, GRAPH_CREATE, graph_create, body.bytes = size,
                id[GRAPH] = reply->graph_create->graph);
        close(file);
}

static void have_order(struct has *has)
{
        uint64_t *id = has->id;

        ASK(NULL, StreamCreate, STREAM_CREATE, STREAM_CREATE, stream_create, ,
                id[STREAM] = reply->stream_create->stream);
        ASK(NULL, EventCreate, EVENT_CREATE, EVENT_CREATE, event_create, , id[EVENT] = reply->event_create->event);
        ASK(NULL, SharedEvent, SHARED_EVENT, SHARED_EVENT, shared_event, , {
                id[SHARED] = reply->shared_event->event;
                memcpy(has->event_token, reply->shared_event->token.data, sizeof(has->event_token));
        });
}

/* Writes the words at both places. Later a launch and a launch of the graph change the first place. */
static void put_words(struct has *has)
{
        uint32_t words[WORDS];

        for (uint32_t i = 0; i < WORDS; i++)
                words[i] = 1000 + i;
        for (int at = MEMORY; at <= RANGE; at++)
                ASK(NULL, Write, WRITE, WRITE, write, body.dst = has->id[at]; body.data.data = (uint8_t *)words;
                        body.data.len = sizeof(words), );
}

static int has_words(struct has *has, int at, uint32_t first)
{
        int right = 1;

        ASK(NULL, Read, READ, READ, read, body.src = has->id[at]; body.bytes = WORDS * 4, {
                for (uint32_t i = 0, word; i < WORDS; i++) {
                        memcpy(&word, reply->read->data.data + i * 4, 4);
                        right = right && word == first + i;
                }
        });
        return right;
}

/* Uses every object. round: number of earlier calls */
static void owner_works(struct has *has, uint32_t round)
{
        uint64_t *id = has->id, imported = 0;

        for (int at = MEMORY; at <= RANGE; at++)
                h_check(has_words(has, at, 1000 + (at == MEMORY ? round * 2 : 0)), "round %u: bytes of object %d",
                        round, at);
        ASK(NULL, Launch, LAUNCH, LAUNCH, launch, body.stream = (uint32_t)id[STREAM]; body.kernel = id[KERNEL];
                body.grid_x = body.grid_y = body.grid_z = body.block_y = body.block_z = 1; body.block_x = WORDS;
                body.params.data = (uint8_t *)&id[MEMORY]; body.params.len = 8, );
        ASK(NULL, GraphLaunch, GRAPH_LAUNCH, GRAPH_LAUNCH, graph_launch, body.stream = (uint32_t)id[STREAM];
                body.graph = id[GRAPH], );
        ASK(NULL, EventRecord, EVENT_RECORD, EVENT_RECORD, event_record, body.stream = (uint32_t)id[STREAM];
                body.event = id[EVENT], );
        ASK(NULL, SharedEvent, SHARED_EVENT, SHARED_EVENT, shared_event, body.event = id[SHARED]; body.op = 3;
                body.stream = (uint32_t)id[STREAM]; body.seq = 1, );
        ASK(NULL, Sync, SYNC, SYNC, sync, body.all = 1, );
        h_check(has_words(has, MEMORY, 1002 + round * 2), "round %u: kernel and graph", round);
        ASK(NULL, GetGlobal, GET_GLOBAL, GET_GLOBAL, get_global, body.module = id[MODULE]; body.name = (char *)"g",
                h_check(reply->get_global->address == id[GLOBAL], "round %u: the global", round));
        ASK(NULL, MemImport, MEM_IMPORT, MEM_IMPORT, mem_import, body.token.data = has->memory_token;
                body.token.len = sizeof(has->memory_token), imported = reply->physical->handle);
        ASK(NULL, MemRelease, MEM_RELEASE, MEM_RELEASE, mem_release, body.handle = imported, );
        ASK(NULL, SharedEvent, SHARED_EVENT, SHARED_EVENT, shared_event, body.op = 1;
                body.token.data = has->event_token;
                body.token.len = sizeof(has->event_token), imported = reply->shared_event->event);
        ASK(NULL, SharedEvent, SHARED_EVENT, SHARED_EVENT, shared_event, body.op = 2; body.event = imported, );
}

/* --- guesses ------------------------------------------------------------------------------------------------------ */

struct answer {
        int status;
        char message[200]; /* digits of every number are replaced by # */
};

struct token {
        uint8_t bytes[160];
        size_t size;
};

static struct token token;

#define PROBE(name, type, TYPE, CASE, field, set)                    \
        static void name(Detshare__Request *request, uint64_t v)     \
        {                                                            \
                static Detshare__##type body;                        \
                                                                     \
                body = (Detshare__##type)DETSHARE__##TYPE##__INIT;   \
                request->call_case = DETSHARE__REQUEST__CALL_##CASE; \
                request->field = &body;                              \
                set;                                                 \
        }

PROBE(ask_module_unload, ModuleUnload, MODULE_UNLOAD, MODULE_UNLOAD, module_unload, body.module = v)
PROBE(ask_kernel, GetKernel, GET_KERNEL, GET_KERNEL, get_kernel, body.module = v; body.name = (char *)"k")
PROBE(ask_global, GetGlobal, GET_GLOBAL, GET_GLOBAL, get_global, body.module = v; body.name = (char *)"g")
PROBE(ask_kernels, ListKernels, LIST_KERNELS, LIST_KERNELS, list_kernels, body.module = v)
PROBE(ask_clusters, CountClusters, COUNT_CLUSTERS, COUNT_CLUSTERS, count_clusters, body.kernel = v;
        body.cluster_x = body.cluster_y = body.cluster_z = 1; body.block_threads = 32)
PROBE(ask_launch, Launch, LAUNCH, LAUNCH, launch, body.kernel = v;
        body.grid_x = body.grid_y = body.grid_z = body.block_x = body.block_y = body.block_z = 1;
        body.params.data = (uint8_t *)&own.id[MEMORY]; body.params.len = 8)
PROBE(ask_graph, GraphLaunch, GRAPH_LAUNCH, GRAPH_LAUNCH, graph_launch, body.graph = v)
PROBE(ask_graph_destroy, GraphDestroy, GRAPH_DESTROY, GRAPH_DESTROY, graph_destroy, body.graph = v)
/* Ids with the highest bit are events that the session names itself, so they exist in every session. */
PROBE(ask_record, EventRecord, EVENT_RECORD, EVENT_RECORD, event_record, body.event = v & ~DS_EVENT_OF_CLIENT)
PROBE(ask_elapsed, EventElapsed, EVENT_ELAPSED, EVENT_ELAPSED, event_elapsed,
        body.start = body.end = v & ~DS_EVENT_OF_CLIENT)
PROBE(ask_event_destroy, EventDestroy, EVENT_DESTROY, EVENT_DESTROY, event_destroy,
        body.event = v & ~DS_EVENT_OF_CLIENT)
PROBE(ask_shared_wait, StreamWait, STREAM_WAIT, STREAM_WAIT, stream_wait, body.shared = 1; body.seq = v)
PROBE(ask_shared_close, SharedEvent, SHARED_EVENT, SHARED_EVENT, shared_event, body.op = 2; body.event = v)
PROBE(ask_shared_record, SharedEvent, SHARED_EVENT, SHARED_EVENT, shared_event, body.op = 3; body.event = v)
PROBE(ask_shared_query, SharedEvent, SHARED_EVENT, SHARED_EVENT, shared_event, body.op = 4; body.event = v)
PROBE(ask_shared_sync, SharedEvent, SHARED_EVENT, SHARED_EVENT, shared_event, body.op = 5; body.event = v)
PROBE(ask_release, MemRelease, MEM_RELEASE, MEM_RELEASE, mem_release, body.handle = v)
PROBE(ask_export, MemExport, MEM_EXPORT, MEM_EXPORT, mem_export, body.handle = v)
PROBE(ask_map, MemMap, MEM_MAP, MEM_MAP, mem_map, body.handle = v; body.address = own.id[RANGE]; body.bytes = PLACED)
PROBE(ask_stream_destroy, StreamDestroy, STREAM_DESTROY, STREAM_DESTROY, stream_destroy, body.stream = (uint32_t)v)
PROBE(ask_sync, Sync, SYNC, SYNC, sync, body.stream = (uint32_t)v)
PROBE(ask_query, Query, QUERY, QUERY, query, body.stream = (uint32_t)v)
PROBE(ask_return, ReturnSlab, RETURN_SLAB, RETURN_SLAB, return_slab, body.slab = (uint32_t)v)
PROBE(ask_read, Read, READ, READ, read, body.src = v; body.bytes = 8)
PROBE(ask_write, Write, WRITE, WRITE, write, body.dst = v; body.data.data = (uint8_t *)&seed; body.data.len = 8)
PROBE(ask_copy_from, Copy, COPY, COPY, copy, body.kind = 2; body.src = v; body.dst = own.id[MEMORY]; body.width = 8;
        body.height = 1)
PROBE(ask_copy_to, Copy, COPY, COPY, copy, body.kind = 2; body.dst = v; body.src = own.id[MEMORY]; body.width = 8;
        body.height = 1)
PROBE(ask_memset, Memset, MEMSET, MEMSET, memset, body.dst = v; body.element_size = 1; body.width = 8; body.height = 1)
PROBE(ask_value, Value, VALUE, VALUE, value, body.bytes = 4; body.address = v & ~UINT64_C(7))
PROBE(ask_free, MemFree, MEM_FREE, MEM_FREE, mem_free, body.address = v)
PROBE(ask_unpin, PinnedFree, PINNED_FREE, PINNED_FREE, pinned_free, body.address = v)
PROBE(ask_unmap, MemUnmap, MEM_UNMAP, MEM_UNMAP, mem_unmap, body.address = v)
PROBE(ask_map_at, MemMap, MEM_MAP, MEM_MAP, mem_map, body.handle = own.id[HANDLE]; body.address = v;
        body.bytes = PLACED)
PROBE(ask_unreserve, AddressFree, ADDRESS_FREE, ADDRESS_FREE, address_free, body.address = v)
PROBE(ask_export_at, MemExport, MEM_EXPORT, MEM_EXPORT, mem_export, body.address = v)
PROBE(ask_kill, Kill, KILL, KILL, kill, body.session = v)
PROBE(ask_explain, Explain, EXPLAIN, EXPLAIN, explain, body.session = v)
PROBE(ask_forms, ListForms, LIST_FORMS, LIST_FORMS, list_forms, body.session = v)
PROBE(ask_set, SetSession, SET_SESSION, SET_SESSION, set_session, body.session = v; body.set_name = 1;
        body.name = (char *)"taken")
PROBE(ask_import, MemImport, MEM_IMPORT, MEM_IMPORT, mem_import, body.token.data = token.bytes;
        body.token.len = token.size)
PROBE(ask_open, SharedEvent, SHARED_EVENT, SHARED_EVENT, shared_event, body.op = 1; body.token.data = token.bytes;
        body.token.len = token.size)

static const struct probe {
        const char *name;
        void (*ask)(Detshare__Request *request, uint64_t v);
        int zero;   /* 1: the value 0 has another meaning in this request */
        int narrow; /* 1: the field that takes the value has 32 bits */
} probes[] = {{"ModuleUnload", ask_module_unload, 0, 0}, {"GetKernel", ask_kernel, 0, 0},
        {"GetGlobal", ask_global, 0, 0}, {"ListKernels", ask_kernels, 0, 0}, {"CountClusters", ask_clusters, 0, 0},
        {"Launch", ask_launch, 0, 0}, {"GraphLaunch", ask_graph, 0, 0}, {"GraphDestroy", ask_graph_destroy, 0, 0},
        {"EventRecord", ask_record, 1, 0}, {"EventElapsed", ask_elapsed, 0, 0},
        {"EventDestroy", ask_event_destroy, 0, 0}, {"StreamWait", ask_shared_wait, 0, 0},
        {"close of an event", ask_shared_close, 0, 0}, {"record of an event", ask_shared_record, 0, 0},
        {"query of an event", ask_shared_query, 0, 0}, {"sync of an event", ask_shared_sync, 0, 0},
        {"MemRelease", ask_release, 0, 0}, {"MemExport", ask_export, 0, 0}, {"MemMap", ask_map, 0, 0},
        {"StreamDestroy", ask_stream_destroy, 0, 1}, {"Sync", ask_sync, 1, 1}, {"Query", ask_query, 1, 1},
        {"ReturnSlab", ask_return, 0, 1}, {"Read", ask_read, 0, 0}, {"Write", ask_write, 0, 0},
        {"Copy from", ask_copy_from, 0, 0}, {"Copy to", ask_copy_to, 0, 0}, {"Memset", ask_memset, 0, 0},
        {"Value", ask_value, 0, 0}, {"MemFree", ask_free, 0, 0}, {"PinnedFree", ask_unpin, 0, 0},
        {"MemUnmap", ask_unmap, 0, 0}, {"MemMap at", ask_map_at, 0, 0}, {"AddressFree", ask_unreserve, 0, 0},
        {"MemExport at", ask_export_at, 0, 0}, {"Kill", ask_kill, 0, 0}, {"Explain", ask_explain, 0, 0},
        {"ListForms", ask_forms, 0, 0}, {"SetSession", ask_set, 1, 0}};

static void take_answer(struct answer *answers, uint32_t n)
{
        size_t size = 0;
        uint8_t *bytes = h_receive(own.fd, MS, &size, NULL);
        Detshare__Reply *reply = bytes ? detshare__reply__unpack(NULL, size, bytes) : NULL;
        struct answer *answer;
        size_t to = 0;

        if (!h_check(reply && reply->id >= 1 && reply->id <= n, "a guess is not answered"))
                _exit(1);
        answer = &answers[reply->id - 1];
        *answer = (struct answer){.status = reply->status};
        for (const char *c = reply->message; *c && to < sizeof(answer->message) - 1;) {
                answer->message[to++] = *c >= '0' && *c <= '9' ? '#' : *c;
                c += *c >= '0' && *c <= '9' ? strspn(c, "0123456789abcdefx") : 1;
        }
        detshare__reply__free_unpacked(reply, NULL);
        free(bytes);
}

/* Sends n requests, at most BATCH at once; answers are in the order of the requests. */
static void ask_batch(const struct probe *probe, const uint64_t *values, uint32_t n, struct answer *answers)
{
        uint8_t frames[BATCH * 512];
        size_t at = 0;

        for (uint32_t i = 0; i < n; i++) {
                Detshare__Request request = DETSHARE__REQUEST__INIT;
                uint32_t size;

                request.id = i + 1;
                probe->ask(&request, values[i]);
                size = (uint32_t)detshare__request__pack(&request, frames + at + 4);
                memcpy(frames + at, &size, 4);
                at += size + 4;
        }
        if (!h_check(send(own.fd, frames, at, MSG_NOSIGNAL) == (ssize_t)at, "%s: not sent", probe->name))
                _exit(1);
        for (uint32_t i = 0; i < n; i++)
                take_answer(answers, n);
        n_requests += n;
}

static void compare(const char *name, uint64_t value, const struct answer *got, const struct answer *want)
{
        h_check(got->status != 0, "%s of %#llx succeeds", name, (unsigned long long)value);
        h_check(got->status == want->status && !strcmp(got->message, want->message),
                "%s of %#llx: %d \"%s\", of nothing: %d \"%s\"", name, (unsigned long long)value, got->status,
                got->message, want->status, want->message);
}

/*
 * Events have numbers from the worker's base on. A number below it names the session's own event of an earlier worker,
 * which is created again when it is named.
 */
static int is_of_events(const struct probe *probe)
{
        return probe->ask == ask_record || probe->ask == ask_elapsed || probe->ask == ask_event_destroy;
}

/* A number of the guesser's own object, or one with another meaning, is no guess. */
static int is_guess(const struct probe *probe, uint64_t value)
{
        uint64_t mask = probe->narrow ? UINT32_MAX : UINT64_MAX;

        if (probe->zero && !(value & mask))
                return 0;
        if (is_of_events(probe) && value < owner.id[EVENT])
                return value == 0;
        for (int i = 0; i < N_IDS; i++)
                if (own.id[i] && ((value & mask) == (own.id[i] & mask) || value - own.id[i] < 4096))
                        return value == owner.id[i] && value != own.id[i] && value - own.id[i] >= 4096;
        return 1;
}

static uint32_t make_guesses(const struct probe *probe, uint64_t *values)
{
        uint64_t all[2 + 2 * N_IDS * (1 + NEAR_GUESSES) + RANDOM_GUESSES];
        uint32_t n = 0, kept = 0;

        all[n++] = 0;
        all[n++] = UINT64_MAX;
        for (int i = 0; i < N_IDS; i++) {
                all[n++] = owner.id[i];
                all[n++] = own.id[i];
                for (int j = 0; j < NEAR_GUESSES; j++) {
                        all[n++] = owner.id[i] + h_random(&seed) % (2 * NEAR + 1) - NEAR;
                        all[n++] = own.id[i] + h_random(&seed) % (2 * NEAR + 1) - NEAR;
                }
        }
        for (int i = 0; i < RANDOM_GUESSES; i++)
                all[n++] = h_random(&seed) >> h_random(&seed) % 64;
        for (uint32_t i = 0; i < n; i++)
                if (is_guess(probe, all[i]))
                        values[kept++] = all[i];
        return kept;
}

static void guess(const struct probe *probe)
{
        uint64_t values[1000], nobody = NOBODY | 0x7000000;
        struct answer none, answers[BATCH];
        uint32_t n = make_guesses(probe, values);

        ask_batch(probe, &nobody, 1, &none);
        h_check(none.status != 0, "%s of nothing succeeds", probe->name);
        for (uint32_t from = 0; from < n; from += BATCH) {
                uint32_t some = n - from < BATCH ? n - from : BATCH;

                ask_batch(probe, values + from, some, answers);
                for (uint32_t i = 0; i < some; i++)
                        compare(probe->name, values[from + i], &answers[i], &none);
        }
}

/* --- tokens, graphs, lists ---------------------------------------------------------------------------------------- */

static void try_token(const struct probe *probe, const struct answer *none)
{
        uint64_t value = token.size;
        struct answer answer;

        ask_batch(probe, &value, 1, &answer);
        compare(probe->name, value, &answer, none);
}

static void guess_tokens(const struct probe *probe, const uint8_t *right, size_t size)
{
        const uint64_t unused = 0;
        struct answer none;

        token = (struct token){.size = size};
        memset(token.bytes, 0x5a, size);
        ask_batch(probe, &unused, 1, &none);
        for (size_t n = 0; n <= size * 2; n++) {
                memcpy(token.bytes, right, size);
                token.size = n; /* tries every length; for n == size this is the unchanged token */
                try_token(probe, &none);
        }
        token.size = size;
        for (size_t i = 0; i < size; i++) {
                memcpy(token.bytes, right, size);
                token.bytes[i] ^= (uint8_t)(1u << h_random(&seed) % 8);
                try_token(probe, &none);
        }
        for (int i = 0; i < 200; i++) {
                for (size_t j = 0; j < size; j++)
                        token.bytes[j] = (uint8_t)h_random(&seed);
                if (i % 2) /* a token with the right first half and a random secret */
                        memcpy(token.bytes, right, size / 2);
                try_token(probe, &none);
        }
}

static void compare_files(const char *what, int (*ask)(uint64_t v))
{
        int none = ask(NOBODY);

        h_check(none > 0, "%s: %d", what, none);
        for (int i = 0; i < N_IDS; i++)
                if (is_guess(&probes[0], owner.id[i]))
                        h_check(ask(owner.id[i]) == none, "%s: %#llx", what, (unsigned long long)owner.id[i]);
}

static int ask_graph_of(uint64_t kernel)
{
        H_REQUEST(GraphCreate, GRAPH_CREATE, GRAPH_CREATE, graph_create);
        size_t size;
        int file = graph_file(kernel, 0, &size), status;

        body.bytes = size;
        status = h_ask_status(own.fd, &request, &file, 1, MS);
        close(file);
        n_requests++;
        return status;
}

static int ask_graph_update(uint64_t graph)
{
        H_REQUEST(GraphUpdate, GRAPH_UPDATE, GRAPH_UPDATE, graph_update);
        size_t size;
        int file = graph_file(own.id[KERNEL], 0, &size), status;

        body.bytes = size;
        body.graph = graph;
        status = h_ask_status(own.fd, &request, &file, 1, MS);
        close(file);
        n_requests++;
        return status;
}

static void look_at_lists(uint64_t after)
{
        Detshare__Reply *reply;
        {
                H_REQUEST(ListClients, LIST_CLIENTS, LIST_CLIENTS, list_clients);
                body.after = after;
                reply = h_ask(own.fd, &request, NULL, 0, MS);
                for (size_t i = 0; reply && reply->list_clients && i < reply->list_clients->n_clients; i++)
                        h_check(reply->list_clients->clients[i]->session == own.id[SESSION],
                                "ListClients shows others");
                h_check(reply != NULL, "no list of clients");
                detshare__reply__free_unpacked(reply, NULL);
        }
        {
                H_REQUEST(ListActivity, LIST_ACTIVITY, LIST_ACTIVITY, list_activity);
                body.after = after;
                reply = h_ask(own.fd, &request, NULL, 0, MS);
                for (size_t i = 0; reply && reply->list_activity && i < reply->list_activity->n_sessions; i++)
                        h_check(reply->list_activity->sessions[i]->session == own.id[SESSION],
                                "ListActivity shows others");
                h_check(reply != NULL, "no list of activity");
                detshare__reply__free_unpacked(reply, NULL);
        }
        n_requests += 2;
}

static void guess_all(void)
{
        static const struct probe import = {"MemImport", ask_import, 0, 0}, open = {"open of an event", ask_open, 0, 0};

        for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++)
                guess(&probes[i]);
        guess_tokens(&import, owner.memory_token, sizeof(owner.memory_token));
        guess_tokens(&open, owner.event_token, sizeof(owner.event_token));
        compare_files("a graph of a guessed kernel", ask_graph_of);
        compare_files("an update of a guessed graph", ask_graph_update);
        for (int i = -3; i <= 3; i++)
                look_at_lists(owner.id[SESSION] + (uint64_t)i);
        look_at_lists(0);
}

static void hostile(void)
{
        if (setuid(HOSTILE_UID))
                _exit(1);
        close(owner.fd);
        own.fd = h_hello(0, &own.id[SESSION], NULL);
        guess_all();
        close(own.fd);
        own.fd = h_hello(0, &own.id[SESSION], NULL);
        have_memory(&own);
        have_code(&own);
        have_order(&own);
        guess_all();
        printf("%llu requests\n", (unsigned long long)n_requests);
        h_check(n_requests > 10000, "only %llu requests", (unsigned long long)n_requests);
        fflush(stdout);
        _exit(h_failures() ? 1 : 0);
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

static void test_guesses(const struct h_status *before)
{
        struct h_status after = {0};
        int status = -1;
        pid_t pid;

        /* The daemon gets the client's uid from the kernel. */
        h_check(seteuid(OWNER_UID) == 0, "seteuid");
        owner.fd = h_hello(0, &owner.id[SESSION], NULL);
        h_check(seteuid(0) == 0, "seteuid back");
        have_memory(&owner);
        have_code(&owner);
        have_order(&owner);
        put_words(&owner);
        owner_works(&owner, 0);
        fflush(stdout);
        pid = fork();
        if (pid == 0)
                hostile();
        waitpid(pid, &status, 0);
        h_check(status == 0, "the guesser ended with %#x", (unsigned)status);
        owner_works(&owner, 1);
        h_check(h_status(&after) == 0 && after.worker_pid == before->worker_pid && after.worker_restarts == 0,
                "the worker was lost");
        close(owner.fd);
}

int main(int argc, char **argv)
{
        struct h_status before;

        if (argc < 2)
                return 2;
        seed = argc > 2 ? strtoull(argv[2], NULL, 0) : h_now_us() | 1;
        printf("seed %llu\n", (unsigned long long)seed);
        h_daemon_start(argv[1], DEVICE, NULL);
        h_open_socket_directory();
        before = h_quiet();
        if (h_is_root("guesses of another user's handles"))
                test_guesses(&before);
        h_baseline(&before, 20000, "after guesses");
        return h_finish();
}
