/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that clients map themselves, and memory shared by two clients
 *
 * One client maps memory that has no address of its own in its own range, and has an ordinary allocation; another
 * client imports both. Each sees the other's writes. The worker is killed: both find every byte at the same addresses.
 * Then the owner releases everything and exits, and the other still has the memory. After its exit the daemon holds
 * nothing.
 *
 * Then requests that must fail without harm: a mapping outside a reservation, over other memory, larger than the
 * memory, or of an unknown handle; release of addresses under a mapping; tokens that were never issued; more ranges
 * than a session may have.
 *
 * usage: memory_shared BUILD
 */
#include "tests/e2e/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/core.h"

#define DEVICE "sim:h200"
#define MIB (1ull << 20)
#define PLACED (4 * MIB)
#define WORDS 1024u

struct tokens {
        uint8_t placed[DSC_TOKEN_BYTES], plain[DSC_TOKEN_BYTES];
};

struct place {
        uint64_t range, bytes, handle;
};

static int put(dsc_session *s, uint64_t at, uint32_t first)
{
        uint32_t words[WORDS];

        for (uint32_t i = 0; i < WORDS; i++)
                words[i] = first + i;
        return dsc_write(s, 0, at, 0, words, 0, sizeof(words), 1) || dsc_wait_all(s);
}

static int has(dsc_session *s, uint64_t at, uint32_t first)
{
        uint32_t words[WORDS];

        if (dsc_read(s, 0, words, 0, at, 0, sizeof(words), 1))
                return 0;
        for (uint32_t i = 0; i < WORDS; i++)
                if (words[i] != first + i)
                        return 0;
        return 1;
}

static int say(int to, char c)
{
        return write(to, &c, 1) == 1;
}

static int hear(int from, char want)
{
        char c = 0;

        return read(from, &c, 1) == 1 && c == want;
}

static int place_at(dsc_session *s, uint64_t handle, uint64_t bytes, struct place *place)
{
        place->handle = handle;
        if (dsc_address_reserve(s, bytes, &place->range, &place->bytes))
                return 1;
        return dsc_mem_map(s, handle, place->range + 2 * MIB, bytes);
}

static int unplace(dsc_session *s, const struct place *place)
{
        return dsc_mem_unmap(s, place->range + 2 * MIB) || dsc_address_free(s, place->range, place->bytes) ||
               dsc_mem_release(s, place->handle);
}

/* Runs the client that owns the memory. Its exit status is 0 if all checks passed. */
static int owner(int in, int out)
{
        struct tokens tokens;
        struct place place;
        uint64_t handle, plain, at;
        int error;
        dsc_session *s = dsc_get(&error);

        if (!s || dsc_mem_create(s, PLACED, &handle) || place_at(s, handle, PLACED, &place) ||
                dsc_mem_alloc(s, 100000, &plain))
                return 10;
        at = place.range + 2 * MIB;
        if (put(s, at, 1000) || put(s, plain, 5000))
                return 12;
        if (dsc_mem_export(s, 0, handle, tokens.placed) || dsc_mem_export(s, plain, 0, tokens.plain))
                return 13;
        if (dsc_mem_export(s, plain + 512, 0, tokens.plain) == 0 || dsc_mem_export(s, plain, 0, tokens.plain))
                return 14;
        if (write(out, &tokens, sizeof(tokens)) != sizeof(tokens) || !hear(in, 'w'))
                return 15;
        if (!has(s, at, 1000) || !has(s, at + MIB, 7000) || !has(s, plain, 9000))
                return 16;
        if (!say(out, 'r') || !hear(in, 'k')) /* the test kills the worker now */
                return 17;
        if (!has(s, at, 1000) || !has(s, at + MIB, 7000) || !has(s, plain, 9000))
                return 18;
        if (put(s, at, 1100) || !say(out, 'a') || !hear(in, 'f'))
                return 19;
        if (dsc_mem_release(s, handle) == 0) /* release must fail, because the memory is still mapped */
                return 20;
        return unplace(s, &place) || dsc_mem_free(s, plain) ? 21 : 0;
}

static int other(int in, int out)
{
        struct dsc_imported placed, plain;
        struct place at, beside;
        struct tokens tokens, wrong;
        uint64_t mapped, allocation;
        int error;
        dsc_session *s = dsc_get(&error);

        if (!s || read(in, &tokens, sizeof(tokens)) != sizeof(tokens))
                return 30;
        wrong = tokens;
        wrong.placed[40] ^= 1;
        if (dsc_cuda(dsc_mem_import(s, wrong.placed, &placed)) != 400)
                return 31;
        if (dsc_mem_import(s, tokens.placed, &placed) || dsc_mem_import(s, tokens.plain, &plain))
                return 32;
        if (placed.bytes != PLACED || plain.offset + plain.size > plain.bytes || plain.size != 100000)
                return 33;
        if (place_at(s, placed.handle, PLACED, &at) || place_at(s, plain.handle, plain.bytes, &beside))
                return 34;
        mapped = at.range + 2 * MIB;
        allocation = beside.range + 2 * MIB + plain.offset;
        if (!has(s, mapped, 1000) || !has(s, allocation, 5000))
                return 35;
        if (put(s, mapped + MIB, 7000) || put(s, allocation, 9000) || !say(out, 'w') || !hear(in, 'k'))
                return 36;
        /* both memories have their contents, including the owner's writes after the worker's death */
        if (!has(s, mapped, 1100) || !has(s, mapped + MIB, 7000) || !has(s, allocation, 9000))
                return 37;
        if (!say(out, 'f') || !hear(in, 'g')) /* the owner has exited by now */
                return 40;
        if (!has(s, mapped, 1100) || !has(s, allocation, 9000) || put(s, mapped, 1))
                return 41;
        return unplace(s, &at) || unplace(s, &beside) ? 42 : 0;
}

static void end(struct h_child *c, const char *who)
{
        int status = 0;

        close(c->to);
        close(c->from);
        waitpid(c->pid, &status, 0);
        h_check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: step %d", who,
                WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status);
}

static void test_two(const char *transport)
{
        struct h_child a = h_spawn(owner, transport), b = h_spawn(other, transport);
        struct h_status before = {0}, after = {0};
        struct tokens tokens;
        int ok = read(a.from, &tokens, sizeof(tokens)) == sizeof(tokens) &&
                 write(b.to, &tokens, sizeof(tokens)) == sizeof(tokens) && hear(b.from, 'w') && say(a.to, 'w') &&
                 hear(a.from, 'r');

        h_check(ok, "%s: two clients share one memory", transport);
        h_check(h_status(&before) == 0 && before.memory_used >= PLACED + 100000,
                "the shared memory is counted: %llu bytes", (unsigned long long)before.memory_used);
        if (before.worker_pid)
                kill((pid_t)before.worker_pid, SIGKILL);
        for (int i = 0; i < 100 && (h_status(&after) || after.worker_restarts == before.worker_restarts); i++)
                h_sleep_ms(50);
        ok = say(a.to, 'k') && hear(a.from, 'a') && say(b.to, 'k') && hear(b.from, 'f') && say(a.to, 'f');
        h_check(ok, "%s: after the worker's death every byte is there", transport);
        end(&a, "the owner");
        say(b.to, 'g');
        end(&b, "the other");
}

/* --- requests that must fail --- */

static int ask_map(int fd, uint64_t handle, uint64_t address, uint64_t bytes)
{
        H_REQUEST(MemMap, MEM_MAP, MEM_MAP, mem_map);
        body.handle = handle;
        body.address = address;
        body.bytes = bytes;
        return h_ask_status(fd, &request, NULL, 0, 10000);
}

static int ask_unmap(int fd, uint64_t address)
{
        H_REQUEST(MemUnmap, MEM_UNMAP, MEM_UNMAP, mem_unmap);
        body.address = address;
        return h_ask_status(fd, &request, NULL, 0, 10000);
}

static int ask_release(int fd, uint64_t handle)
{
        H_REQUEST(MemRelease, MEM_RELEASE, MEM_RELEASE, mem_release);
        body.handle = handle;
        return h_ask_status(fd, &request, NULL, 0, 10000);
}

static int ask_address_free(int fd, uint64_t address)
{
        H_REQUEST(AddressFree, ADDRESS_FREE, ADDRESS_FREE, address_free);
        body.address = address;
        return h_ask_status(fd, &request, NULL, 0, 10000);
}

static int ask_reserve(int fd, uint64_t bytes, uint64_t *ret_address, uint64_t *ret_bytes)
{
        H_REQUEST(AddressReserve, ADDRESS_RESERVE, ADDRESS_RESERVE, address_reserve);
        body.bytes = bytes;
        Detshare__Reply *reply = h_ask(fd, &request, NULL, 0, 10000);
        int status = reply ? reply->status : -1;

        if (reply && status == 0) {
                *ret_address = reply->address_reserve->address;
                *ret_bytes = reply->address_reserve->bytes;
        }
        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        return status;
}

static int ask_create(int fd, uint64_t bytes, uint64_t *ret_handle)
{
        H_REQUEST(MemCreate, MEM_CREATE, MEM_CREATE, mem_create);
        body.bytes = bytes;
        Detshare__Reply *reply = h_ask(fd, &request, NULL, 0, 10000);
        int status = reply ? reply->status : -1;

        if (reply && status == 0)
                *ret_handle = reply->physical->handle;
        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        return status;
}

static int ask_import(int fd, const uint8_t *token, size_t size)
{
        H_REQUEST(MemImport, MEM_IMPORT, MEM_IMPORT, mem_import);
        body.token = (ProtobufCBinaryData){.len = size, .data = (uint8_t *)(uintptr_t)token};
        body.bytes = 64 * MIB;
        return h_ask_status(fd, &request, NULL, 0, 10000);
}

static void push(int fd, Detshare__Request *request)
{
        uint8_t bytes[512];

        h_check(h_send(fd, bytes, detshare__request__pack(request, bytes), NULL, 0) == 0, "sent");
}

static void push_map(int fd, uint64_t handle, uint64_t address, uint64_t bytes)
{
        H_REQUEST(MemMap, MEM_MAP, MEM_MAP, mem_map);
        body.handle = handle;
        body.address = address;
        body.bytes = bytes;
        push(fd, &request);
}

static void push_address_free(int fd, uint64_t address)
{
        H_REQUEST(AddressFree, ADDRESS_FREE, ADDRESS_FREE, address_free);
        body.address = address;
        push(fd, &request);
}

static void push_reset(int fd)
{
        H_REQUEST(ResetSession, RESET_SESSION, RESET_SESSION, reset_session);
        push(fd, &request);
}

static int next_status(int fd)
{
        size_t size = 0;
        uint8_t *bytes = h_receive(fd, 10000, &size, NULL);
        Detshare__Reply *reply = bytes ? detshare__reply__unpack(NULL, size, bytes) : NULL;
        int status = reply ? reply->status : -1;

        if (reply)
                detshare__reply__free_unpacked(reply, NULL);
        free(bytes);
        return status;
}

/* Sends requests that arrive before the reply to a request that they contradict. */
static void test_haste(void)
{
        struct h_status before = {0}, after = {0};
        uint64_t handle = 0, own = 0, bytes = 0;
        int fd = h_hello(0, NULL, NULL), first, second;

        h_check(h_status(&before) == 0, "status");
        for (int i = 0; i < 20; i++) {
                h_check(ask_create(fd, PLACED, &handle) == 0 && ask_reserve(fd, PLACED, &own, &bytes) == 0, "made");
                push_map(fd, handle, own, PLACED);
                push_address_free(fd, own);
                first = next_status(fd);
                second = next_status(fd);
                h_check(first + second == 1, "one of a mapping and a release of its addresses succeeds: %d, %d", first,
                        second);
                h_check(ask_unmap(fd, own) == 0 && ask_address_free(fd, own) == 0,
                        "the addresses are mapped and can be released");
                h_check(ask_reserve(fd, PLACED, &own, &bytes) == 0, "reserved again");
                push_reset(fd);
                push_map(fd, handle, own, PLACED);
                push_address_free(fd, own);
                first = next_status(fd);
                second = next_status(fd);
                h_check(first >= 0 && second >= 0 && next_status(fd) >= 0,
                        "a mapping during a reset gets a reply: %d, %d", first, second);
                h_check(ask_release(fd, handle) == 1, "the reset has released the memory");
                (void)ask_address_free(fd, own);
        }
        h_check(h_status(&after) == 0 && after.worker_restarts == before.worker_restarts, "the worker lives");
        close(fd);
}

static void test_hostile(void)
{
        uint64_t window, theirs, own, bytes, handle = 0, scratch;
        int a = h_hello(0, NULL, &window), b = h_hello(0, NULL, NULL), n;
        uint8_t token[DSC_TOKEN_BYTES] = {0};

        h_check(ask_reserve(a, 1, &own, &bytes) == 0 && own % bytes == 0, "a reservation of one byte is rounded up");
        h_check(ask_reserve(b, 8 * MIB, &theirs, &bytes) == 0 && theirs != own, "another session gets other addresses");
        h_check(ask_reserve(a, 0, &scratch, &bytes) != 0, "a reservation of 0 bytes is refused");
        h_check(ask_reserve(a, 1ull << 62, &scratch, &bytes) != 0, "a reservation of 2^62 bytes is refused");
        h_check(ask_create(a, PLACED, &handle) == 0, "memory without an address is allocated");
        h_check(ask_create(a, PLACED + 4096, &scratch) == 1,
                "a size that is no multiple of the granularity is refused");
        h_check(ask_create(a, 0, &scratch) == 1, "memory of 0 bytes is refused");
        h_check(ask_create(a, 1ull << 50, &scratch) == 2, "more memory than the device has is refused");
        h_check(ask_map(a, handle, window, PLACED) == 1, "a mapping in the window is refused");
        h_check(ask_map(a, handle, theirs, PLACED) == 1, "a mapping at another session's addresses is refused");
        h_check(ask_map(a, handle, own + 4096, PLACED) == 1, "a mapping at an unaligned address is refused");
        h_check(ask_map(a, handle, own, 2 * PLACED) == 1, "a mapping larger than the memory is refused");
        h_check(ask_map(a, handle + 1, own, PLACED) == 1, "a mapping of an unknown handle is refused");
        h_check(ask_map(b, handle, theirs, PLACED) == 1, "a mapping of another session's handle is refused");
        h_check(ask_map(a, handle, UINT64_MAX - 2 * MIB + 1, 4 * MIB) == 1, "a mapping that wraps around is refused");
        h_check(ask_map(a, handle, own, PLACED) == 0, "a valid mapping succeeds");
        h_check(ask_map(a, handle, own + 2 * MIB, PLACED) == 1, "a mapping over another one is refused");
        h_check(ask_map(a, handle, own + PLACED, PLACED) == 0, "a second mapping elsewhere succeeds");
        h_check(ask_release(a, handle) == 1, "a release of mapped memory is refused");
        h_check(ask_address_free(a, own) == 1, "a release of mapped addresses is refused");
        h_check(ask_address_free(a, theirs) == 1, "a release of another session's addresses is refused");
        h_check(ask_unmap(b, own) == 1 && ask_unmap(a, own + 2 * MIB) == 1,
                "unmapping without an own mapping is refused");
        h_check(ask_unmap(a, own) == 0 && ask_unmap(a, own) == 1, "a second unmapping is refused");
        h_check(ask_unmap(a, own + PLACED) == 0 && ask_release(a, handle) == 0, "unmapping and release succeed");
        h_check(ask_release(a, handle) == 1 && ask_address_free(a, own) == 0, "a second release is refused");
        h_check(ask_import(a, token, 0) == 400 && ask_import(a, token, 63) == 400 &&
                        ask_import(a, token, sizeof(token)) == 400,
                "invalid tokens are refused");
        for (n = 0; n < 100 && ask_reserve(a, MIB, &own, &bytes) == 0; n++)
                ;
        h_check(n == 64, "a session has at most 64 ranges of addresses, not %d", n);
        close(a);
        close(b);
}

static void all_of_it(const char *build, const char *const *extra)
{
        struct h_status before;

        h_daemon_start(build, DEVICE, extra);
        setenv("DETSHARE_SOCKET", h_socket(), 1);
        before = h_quiet();
        test_two("ring");
        test_two("rpc");
        test_hostile();
        test_haste();
        h_baseline(&before, 5000, "after all requests");
        h_check(h_daemon_stop() >= 0, "the daemon ends");
}

int main(int argc, char **argv)
{
        const char *place = getenv("DETSHARE_TEST_PLACE");
        char libcuda[4096], ptxas[4096];
        const char *extra[] = {"--libcuda", libcuda, "--ptxas", ptxas, NULL};

        if (argc < 2) {
                fprintf(stderr, "usage: memory_shared BUILD\n");
                return 2;
        }
        all_of_it(argv[1], NULL);
        /* Device `cuda` with the fake driver. Nothing is compiled, but the helper needs the path of a compiler. */
        snprintf(libcuda, sizeof(libcuda), "%s%s/libcuda.so.1", place ? place : argv[1], place ? "" : "/fake_cuda");
        snprintf(ptxas, sizeof(ptxas), "%s%s/bin/ptxas", place ? place : argv[1], place ? "" : "/fake_cuda");
        if (h_simulated(DEVICE) && access(libcuda, R_OK) == 0) {
                setenv("DETSHARE_TEST_DEVICE", "cuda:0", 1);
                all_of_it(argv[1], extra);
        }
        return h_finish();
}
