/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client library with a daemon that sends anything
 *
 * This file plays the library's socket: it remembers what the library sends. When the library reads, the input decides
 * what comes: the right reply with any values, a wrong reply, bytes, pieces, files of any size, the end. The input also
 * fills the shared memory. The library's calls may fail, but it must not crash the program that loads it.
 *
 * Time comes from the input as well: nothing really waits, and a wait with a limit reaches it. At last the daemon is
 * gone, so that no wait is endless.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "core/control.h"
#include "core/internal.h"
#include "tests/fuzz/fuzz.h"

#define WINDOW UINT64_C(0x2b0000000000)
#define WINDOW_BYTES DS_GIB(1)
#define CALLS_MAX 64
#define OPEN_MAX 64
#define FILES_MAX 4

static struct {
        struct fuzz_input in;
        struct {
                uint64_t id;
                uint32_t call;
        } open[OPEN_MAX]; /* unanswered requests, oldest first */
        size_t n_open;
        uint8_t frame[4 + 2 * DS_FRAME_MAX];
        size_t frame_size, frame_sent;
        int files[FILES_MAX];
        size_t n_files;
        unsigned restarts, looks;
        int over;
        uint64_t now_ns; /* never decreases: the library keeps times across sessions */
        struct ds_ring_header *ring;
        struct ds_completion_page *page;
} peer;

/* --- the library's system calls (linked with --wrap) -------------------------------------------------------------- */

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
long __real_syscall(long number, ...);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *left);
long __wrap_syscall(long number, ...);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);

size_t __real_fwrite(const void *data, size_t size, size_t n, FILE *stream);
size_t __wrap_fwrite(const void *data, size_t size, size_t n, FILE *stream);

/* Discards the output of kernels. */
size_t __wrap_fwrite(const void *data, size_t size, size_t n, FILE *stream)
{
        return stream == stdout || stream == stderr ? n : __real_fwrite(data, size, n, stream);
}

int __wrap_socket(int domain, int type, int protocol)
{
        return memfd_create("socket", MFD_CLOEXEC);
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size)
{
        return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
        return 0;
}

/* The daemon is gone when the input has ended, or after many polls by the library. */
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
        peer.now_ns += DS_NS_PER_MS * (uint64_t)(timeout > 0 ? timeout : 0);
        if (!peer.in.size || ++peer.looks > 20)
                peer.over = 1;
        fds[0].revents = peer.over ? POLLRDHUP : 0;
        return peer.over;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
        if (clock != CLOCK_MONOTONIC)
                return __real_clock_gettime(clock, ret);
        peer.now_ns += 50 * DS_NS_PER_US;
        *ret = (struct timespec){(time_t)(peer.now_ns / DS_NS_PER_S), (long)(peer.now_ns % DS_NS_PER_S)};
        return 0;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
        peer.now_ns += (uint64_t)t->tv_sec * DS_NS_PER_S + (uint64_t)t->tv_nsec;
        return 0;
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *left)
{
        return 0;
}

/* A futex wait times out at once; the input may change the page meanwhile. */
long __wrap_syscall(long number, ...)
{
        if (number != SYS_futex)
                return __real_syscall(number);
        peer.now_ns += 10 * DS_NS_PER_MS;
        if (peer.page && peer.in.size) {
                size_t at = fuzz_below(&peer.in, 128);

                ((uint32_t *)peer.page)[at] = (uint32_t)fuzz_bytes(&peer.in, 2);
        }
        errno = ETIMEDOUT;
        return -1;
}

/* The library sends whole frames. */
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
        size_t size = message->msg_iov[0].iov_len;
        const uint8_t *bytes = message->msg_iov[0].iov_base;
        Detshare__Request *request;

        if (peer.over) {
                errno = EPIPE;
                return -1;
        }
        FUZZ_CHECK(size > 4 && size <= 4 + DS_FRAME_MAX);
        request = detshare__request__unpack(NULL, size - 4, bytes + 4);
        FUZZ_CHECK(request);
        if (peer.n_open < OPEN_MAX) {
                peer.open[peer.n_open].id = request->id;
                peer.open[peer.n_open++].call = request->call_case;
        }
        detshare__request__free_unpacked(request, NULL);
        return (ssize_t)size;
}

/* --- replies ------------------------------------------------------------------------------------------------------ */

/* A number that the library might accept: small, near a boundary, or any. */
static uint64_t number(void)
{
        uint8_t how = fuzz_u8(&peer.in);

        if (how < 0x80)
                return how;
        if (how < 0xa0)
                return WINDOW + WINDOW_BYTES / 2 + (uint64_t)(how & 31) * DS_MIB(17);
        if (how < 0xc0)
                return (UINT64_C(1) << (how & 31)) - (fuzz_u8(&peer.in) & 1);
        return fuzz_bytes(&peer.in, 1 + (how & 7));
}

/* A number of at most max. */
static uint64_t number_to(uint64_t max)
{
        uint64_t n = number();

        return DS_MIN(n, max);
}

static void add_file(uint64_t bytes)
{
        int fd = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        FUZZ_CHECK(fd >= 0);
        if (ftruncate(fd, (off_t)DS_MIN(bytes, DS_MIB(64))) == 0 && fuzz_u8(&peer.in) < 0xf0)
                (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
        peer.files[peer.n_files++] = fd;
}

static void *map_file(int fd, size_t bytes)
{
        void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        FUZZ_CHECK(p != MAP_FAILED);
        return p;
}

static void unmap_shared(void)
{
        if (peer.ring)
                munmap(peer.ring, DS_RING_BYTES);
        if (peer.page)
                munmap(peer.page, DS_PAGE_BYTES);
        peer.ring = NULL;
        peer.page = NULL;
}

static void fill_shared(void)
{
        *peer.ring = (struct ds_ring_header){
                .version = DS_WIRE_VERSION, .bytes = DS_RING_BYTES, .slots = DS_RING_SLOTS, .slot_bytes = DS_RING_SLOT};
        peer.page->streams = DS_STREAMS_MAX;
        for (unsigned n = fuzz_below(&peer.in, 8); n > 0; n--)
                ((uint32_t *)peer.page)[fuzz_below(&peer.in, 256)] = (uint32_t)number();
        if (fuzz_u8(&peer.in) > 0xe0)
                ((uint32_t *)peer.ring)[fuzz_below(&peer.in, 40)] = (uint32_t)number();
}

static void answer_attach(Detshare__AttachReply *attach)
{
        attach->wire_version = DS_WIRE_VERSION;
        attach->ring_bytes = DS_RING_BYTES;
        attach->page_bytes = DS_PAGE_BYTES;
        add_file(DS_RING_BYTES);
        add_file(DS_PAGE_BYTES);
        add_file(8);
        unmap_shared();
        peer.ring = map_file(peer.files[0], DS_RING_BYTES);
        peer.page = map_file(peer.files[1], DS_PAGE_BYTES);
        fill_shared();
}

static void answer_hello(Detshare__HelloReply *hello)
{
        uint8_t how = fuzz_u8(&peer.in);

        hello->version = 1;
        hello->window_base = how < 0xf0 ? WINDOW : number() << 12;
        hello->window_bytes = how < 0xf0 ? WINDOW_BYTES : number();
        hello->simulated = how & 1;
}

/* Makes a correct reply to the oldest request; lists and names come from the input. */
static union {
        ProtobufCMessage base;
        Detshare__HelloReply hello;
        Detshare__AttachReply attach;
        Detshare__Address address;
        Detshare__OutputReply output;
        Detshare__KernelReply kernel;
        Detshare__KernelList names;
        Detshare__ClientList clients;
        Detshare__PolicyList policies;
        Detshare__StatusReply status;
        Detshare__DeviceReply device;
        uint8_t room[1024];
} body;
static char text[256];
static char *texts[] = {text, text, text};

/* Sets every number of the message from the input. */
static void fill_numbers(ProtobufCMessage *message)
{
        for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
                const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
                uint8_t *at = (uint8_t *)message + field->offset;

                if (field->label == PROTOBUF_C_LABEL_REPEATED)
                        continue;
                if (field->type == PROTOBUF_C_TYPE_UINT64 || field->type == PROTOBUF_C_TYPE_INT64)
                        *(uint64_t *)at = number();
                else if (field->type == PROTOBUF_C_TYPE_UINT32 || field->type == PROTOBUF_C_TYPE_INT32)
                        *(uint32_t *)at = (uint32_t)number();
                else if (field->type == PROTOBUF_C_TYPE_BOOL)
                        *(protobuf_c_boolean *)at = fuzz_u8(&peer.in) & 1;
                else if (field->type == PROTOBUF_C_TYPE_STRING)
                        *(char **)at = text;
                else if (field->type == PROTOBUF_C_TYPE_BYTES)
                        *(ProtobufCBinaryData *)at =
                                (ProtobufCBinaryData){fuzz_u8(&peer.in) % sizeof(text), (uint8_t *)text};
        }
}

/* One or two descriptions of the kernel "further", with numbers from the input. */
static void fill_described(Detshare__Reply *reply)
{
        static _Alignas(8) uint8_t bytes[256];
        const unsigned n = 1 + fuzz_below(&peer.in, 2);
        size_t at = 0;

        for (unsigned i = 0; i < n; i++) {
                struct ds_described *d = (struct ds_described *)(void *)(bytes + at);
                struct ds_described_param *param = (struct ds_described_param *)(d + 1);

                *d = (struct ds_described){
                        .kernel = number(), .bytes = sizeof(*d) + 16, .name_bytes = 7, .n_params = 1};
                d->params_size = (uint32_t)number();
                *param = (struct ds_described_param){(uint32_t)number(), (uint32_t)number()};
                memcpy(param + 1, "further", 8);
                if (fuzz_below(&peer.in, 4) == 0)
                        ((uint32_t *)(void *)d)[2 + fuzz_below(&peer.in, 4)] = (uint32_t)number();
                at += sizeof(*d) + 16;
        }
        reply->described.data = bytes;
        reply->described.len = at - fuzz_below(&peer.in, 3);
}

static void fill_lists(Detshare__Reply *reply)
{
        static Detshare__KernelParam param;
        static Detshare__KernelParam *params[8];
        static Detshare__ClientEntry client;
        static Detshare__ClientEntry *clients[] = {&client, &client};
        static Detshare__PolicyEntry policy;
        static Detshare__PolicyEntry *policies[] = {&policy, &policy};
        static int32_t attributes[300];
        static uint64_t limits[20];

        if (reply->result_case == DETSHARE__REPLY__RESULT_GET_KERNEL) {
                detshare__kernel_param__init(&param);
                fill_numbers(&param.base);
                for (size_t i = 0; i < DS_ARRAY_SIZE(params); i++)
                        params[i] = &param;
                body.kernel.params = params;
                body.kernel.n_params = fuzz_below(&peer.in, 9);
                fill_described(reply);
        } else if (reply->result_case == DETSHARE__REPLY__RESULT_LIST_KERNELS) {
                body.names.names = texts;
                body.names.n_names = fuzz_below(&peer.in, 4);
        } else if (reply->result_case == DETSHARE__REPLY__RESULT_LIST_CLIENTS) {
                detshare__client_entry__init(&client);
                fill_numbers(&client.base);
                body.clients.clients = clients;
                body.clients.n_clients = fuzz_below(&peer.in, 3);
        } else if (reply->result_case == DETSHARE__REPLY__RESULT_LIST_POLICIES) {
                detshare__policy_entry__init(&policy);
                fill_numbers(&policy.base);
                body.policies.policies = policies;
                body.policies.n_policies = fuzz_below(&peer.in, 3);
        } else if (reply->result_case == DETSHARE__REPLY__RESULT_GET_DEVICE) {
                body.device.attributes = attributes;
                body.device.n_attributes = fuzz_u8(&peer.in) + 45u;
                body.device.limits = limits;
                body.device.n_limits = fuzz_below(&peer.in, 20);
        }
}

/* Number of the result type of a call; several calls share one. */
static uint32_t result_of(uint32_t call)
{
        switch (call) {
        case DETSHARE__REQUEST__CALL_WINDOW_REFUSED:
                return DETSHARE__REPLY__RESULT_HELLO;
        case DETSHARE__REQUEST__CALL_CLOCK_JOIN:
        case DETSHARE__REQUEST__CALL_SLEEP_UNTIL:
                return DETSHARE__REPLY__RESULT_CLOCK;
        case DETSHARE__REQUEST__CALL_COPY:
        case DETSHARE__REQUEST__CALL_WRITE:
        case DETSHARE__REQUEST__CALL_MEMSET:
        case DETSHARE__REQUEST__CALL_EVENT_RECORD:
        case DETSHARE__REQUEST__CALL_STREAM_WAIT:
                return DETSHARE__REPLY__RESULT_SUBMITTED;
        default:
                return call;
        }
}

static void answer_body(Detshare__Reply *reply, uint32_t result)
{
        const ProtobufCFieldDescriptor *field =
                protobuf_c_message_descriptor_get_field(&detshare__reply__descriptor, result);
        const ProtobufCMessageDescriptor *descriptor = field ? field->descriptor : NULL;
        size_t n;
        const uint8_t *bytes;

        if (!descriptor || !(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
                return;
        FUZZ_CHECK(descriptor->sizeof_message <= sizeof(body));
        bytes = fuzz_span(&peer.in, fuzz_below(&peer.in, 16), &n);
        memset(text, 0, sizeof(text));
        if (n)
                memcpy(text, bytes, n);
        protobuf_c_message_init(descriptor, &body);
        fill_numbers(&body.base);
        reply->result_case = (Detshare__Reply__ResultCase)result;
        reply->hello = &body.hello; /* the results are a union, so all members have the same address */
        fill_lists(reply);
        if (result == DETSHARE__REPLY__RESULT_HELLO)
                answer_hello(&body.hello);
        else if (result == DETSHARE__REPLY__RESULT_ATTACH)
                answer_attach(&body.attach);
        else if (result == DETSHARE__REPLY__RESULT_PINNED_ALLOC)
                add_file(body.address.bytes);
}

static void take_open(size_t i)
{
        peer.n_open--;
        memmove(&peer.open[i], &peer.open[i + 1], (peer.n_open - i) * sizeof(peer.open[0]));
}

static void put_frame(const void *bytes, size_t size)
{
        for (int i = 0; i < 4; i++)
                peer.frame[i] = (uint8_t)(size >> 8 * i);
        if (size)
                memcpy(peer.frame + 4, bytes, size);
        peer.frame_size = 4 + size;
        peer.frame_sent = 0;
}

static void make_reply(uint8_t how)
{
        static uint8_t packed[DS_FRAME_MAX];
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        size_t i = how & 1 ? peer.n_open - 1 : 0;
        uint32_t call = peer.open[i].call;

        reply.id = peer.open[i].id;
        take_open(i);
        if (how >= 0xd0)
                answer_body(&reply, fuzz_u8(&peer.in));
        else
                answer_body(&reply, result_of(call));
        if (how >= 0xb0 && how < 0xd0)
                reply.status = (int32_t)number();
        /* the library waits after each reply RESTARTING, so a few of them are enough */
        if (reply.status == DETSHARE__STATUS__RESTARTING && ++peer.restarts > 3)
                reply.status = DETSHARE__STATUS__INTERNAL;
        reply.fds = how >= 0xe0 ? fuzz_below(&peer.in, 6) : (uint32_t)peer.n_files;
        put_frame(packed, detshare__reply__pack(&reply, packed));
}

static void next_frame(void)
{
        uint8_t how = fuzz_u8(&peer.in);
        size_t size;
        const uint8_t *bytes;

        if (how < 0xf0 && peer.n_open) {
                make_reply(how);
                return;
        }
        bytes = fuzz_span(&peer.in, fuzz_u8(&peer.in), &size);
        put_frame(bytes, size);
        if (how > 0xfb) /* sends the frame with a wrong length */
                memcpy(peer.frame, &(uint32_t){(uint32_t)number()}, 4);
}

static void send_files(struct msghdr *message)
{
        struct cmsghdr *c = (struct cmsghdr *)message->msg_control;
        size_t n = peer.n_files;

        message->msg_controllen = 0;
        if (!n)
                return;
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(c), peer.files, n * sizeof(int));
        message->msg_controllen = CMSG_SPACE(n * sizeof(int));
        peer.n_files = 0;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
        size_t size;

        message->msg_flags = 0;
        if (peer.frame_sent == peer.frame_size && !peer.over && peer.in.size)
                next_frame();
        size = DS_MIN(peer.frame_size - peer.frame_sent, message->msg_iov[0].iov_len);
        if (size > 1 && peer.in.size && fuzz_u8(&peer.in) > 0xe8)
                size = 1 + fuzz_u8(&peer.in) % (size - 1);
        if (size == 0) {
                peer.over = 1;
                message->msg_controllen = 0;
                return 0;
        }
        memcpy(message->msg_iov[0].iov_base, peer.frame + peer.frame_sent, size);
        peer.frame_sent += size;
        send_files(message);
        return (ssize_t)size;
}

/* --- a program with the library ----------------------------------------------------------------------------------- */

struct program {
        dsc_session *s;
        uint64_t address, module, kernel, event, seq;
        uint32_t stream;
        void *pinned;
        uint64_t pinned_bytes;
};

static uint64_t some(const struct program *p, uint64_t known)
{
        return fuzz_u8(&peer.in) < 0xf0 ? known : fuzz_bytes(&peer.in, 8);
}

static void call_memory(struct program *p)
{
        uint64_t a, b;

        switch (fuzz_below(&peer.in, 7)) {
        case 0:
        case 1:
                (void)dsc_mem_alloc(p->s, number(), &p->address);
                break;
        case 2:
                (void)dsc_mem_free(p->s, some(p, p->address));
                break;
        case 3:
                p->pinned_bytes = number_to(DS_MIB(16));
                if (dsc_host_alloc(p->s, p->pinned_bytes, &p->pinned))
                        p->pinned = NULL;
                if (p->pinned) /* the program may write to its pinned memory */
                        memset(p->pinned, 1, p->pinned_bytes);
                break;
        case 4:
                (void)dsc_host_free(p->s, p->pinned);
                p->pinned = NULL;
                break;
        case 5:
                (void)dsc_mem_info(p->s, &a, &b);
                break;
        default:
                (void)dsc_lookup(p->s, some(p, p->address), &a, &b);
        }
}

/* A launch copies parameters by these numbers. Clears the kernel. */
static void check_kernel(struct dsc_kernel *kernel)
{
        for (uint32_t i = 0; i < kernel->n_params; i++)
                FUZZ_CHECK((uint64_t)kernel->params[i].offset + kernel->params[i].size <= kernel->params_size &&
                           kernel->params_size <= DS_RECORD_PARAMS_MAX);
        dsc_kernel_clear(kernel);
}

static void call_code(struct program *p)
{
        struct dsc_described *more;
        struct dsc_kernel kernel;
        char log[64], **names;
        uint64_t address, bytes;
        size_t n;

        switch (fuzz_below(&peer.in, 5)) {
        case 0:
                (void)dsc_module_load(p->s, "image", 5, log, sizeof(log), &p->module);
                break;
        case 1:
                (void)dsc_module_unload(p->s, some(p, p->module));
                break;
        case 2:
                if (dsc_kernel_get_more(p->s, p->module, "kernel", &kernel, &more) == 0) {
                        p->kernel = kernel.id;
                        check_kernel(&kernel);
                        for (int i = 0; more && i < 3 && dsc_described_find(more, "further", &kernel) == 0; i++)
                                check_kernel(&kernel);
                        free(more);
                }
                break;
        case 3:
                (void)dsc_global_get(p->s, p->module, "global", &address, &bytes);
                break;
        default:
                if (dsc_kernel_names(p->s, p->module, &names, &n) == 0) {
                        while (n > 0)
                                free(names[--n]);
                        free(names);
                }
        }
}

static void call_stream(struct program *p)
{
        int64_t ns;

        switch (fuzz_below(&peer.in, 8)) {
        case 0:
                (void)dsc_stream_create(p->s, 0, 1, &p->stream);
                break;
        case 1:
                (void)dsc_stream_destroy(p->s, p->stream);
                break;
        case 2:
                (void)dsc_event_create(p->s, &p->event);
                break;
        case 3:
                (void)dsc_event_destroy(p->s, p->event);
                break;
        case 4:
                (void)dsc_event_record(p->s, p->stream, p->event, &p->seq);
                break;
        case 5:
                (void)dsc_event_elapsed(p->s, p->event, p->event, &ns);
                break;
        case 6:
                (void)dsc_stream_wait(p->s, p->stream, 0, p->seq);
                break;
        default:
                (void)dsc_query(p->s, p->stream, some(p, dsc_stream_tail(p->s, p->stream)));
        }
}

static void call_work(struct program *p)
{
        static uint8_t data[70000];
        struct dsc_launch launch = {
                .kernel = p->kernel, .grid = {1, 1, 1}, .block = {1, 1, 1}, .params = data, .params_size = 0};
        struct dsc_copy copy = {.kind = fuzz_below(&peer.in, 4), .dst = p->address, .src = p->address, .height = 1};
        struct dsc_memset set = {.dst = p->address, .element_size = 1, .width = 4, .height = 1};
        size_t size = number_to(sizeof(data));

        switch (fuzz_below(&peer.in, 7)) {
        case 0:
                launch.params_size = (uint32_t)DS_MIN(size, (size_t)DSC_PARAMS_MAX);
                (void)dsc_launch(p->s, p->stream, &launch);
                break;
        case 1:
                copy.width = size;
                (void)dsc_copy(p->s, p->stream, &copy);
                break;
        case 2:
                (void)dsc_memset(p->s, p->stream, &set);
                break;
        case 3:
                (void)dsc_write(p->s, p->stream, p->address, size, data, size, size, 1);
                break;
        case 4:
                (void)dsc_read(p->s, p->stream, data, size, p->address, size, size, 1);
                break;
        case 5:
                (void)dsc_wait(p->s, p->stream, dsc_stream_tail(p->s, p->stream));
                break;
        default:
                (void)dsc_wait_all(p->s);
        }
}

static void call_other(struct program *p)
{
        uint64_t ns;

        switch (fuzz_below(&peer.in, 6)) {
        case 0:
                (void)dsc__clock_now(p->s, &ns);
                break;
        case 1:
                if (p->s->simulated)
                        (void)dsc__clock_sleep(p->s, number());
                break;
        case 2:
                (void)dsc__clock_leave(p->s);
                break;
        case 3:
                (void)dsc_reset(p->s);
                p->pinned = NULL;
                break;
        case 4:
                (void)dsc_limit_set(p->s, fuzz_below(&peer.in, 4), number());
                break;
        default:
                (void)dsc_sticky_error(p->s);
        }
}

static void call_control(struct program *p)
{
        struct dsc_status status;
        struct dsc_client *clients;
        struct dsc_policy *policies;
        size_t n;

        switch (fuzz_below(&peer.in, 4)) {
        case 0:
                (void)dsc_control_status(p->s, &status);
                break;
        case 1:
                if (dsc_control_clients(p->s, &clients, &n) == 0)
                        free(clients);
                break;
        case 2:
                if (dsc_control_policies(p->s, &policies, &n) == 0)
                        free(policies);
                break;
        default:
                (void)dsc_control_set_policy(p->s, "fifo", texts, 2);
        }
}

static void play(struct program *p)
{
        static void (*const calls[])(struct program *) = {
                call_memory, call_memory, call_code, call_stream, call_work, call_work, call_other};

        for (int i = 0; i < CALLS_MAX && !dsc__usable(p->s); i++) {
                if (p->s->control_only)
                        call_control(p);
                else
                        calls[fuzz_below(&peer.in, DS_ARRAY_SIZE(calls))](p);
                (void)dsc_message();
        }
}

/* The library never frees a session; a fuzz target must. */
static void close_session(dsc_session *s)
{
        (void)dsc__clock_leave(s);
        peer.over = 1;
        for (size_t i = 0; i < s->memory.n_ranges; i++)
                if (s->memory.ranges[i].kind == DSC__RANGE_PLAIN)
                        munmap((void *)(uintptr_t)s->memory.ranges[i].base, s->memory.ranges[i].size);
        dsc__arena_drop(s);
        FUZZ_CHECK(!s->control_only || !s->window_bytes); /* the session's addresses are unmapped already */
        if (s->submit.ring.event_fd >= 0)
                close(s->submit.ring.event_fd);
        s->submit.ring.event_fd = -1;
        dsc__session_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct dsc__options options = {.path = "/fuzz", .name = "fuzz"};
        struct program program = {0};
        uint64_t now = peer.now_ns + 3600 * DS_NS_PER_S;
        uint8_t how;

        fuzz_note_files();
        memset(&peer, 0, sizeof(peer));
        peer.now_ns = now;
        peer.in = (struct fuzz_input){data, size};
        how = fuzz_u8(&peer.in);
        options.socket_only = (how & 3) == 1;
        options.control_only = (how & 7) == 2;
        if (dsc__connect(&options, &program.s) == 0) {
                play(&program);
                close_session(program.s);
        }
        for (size_t i = 0; i < peer.n_files; i++)
                close(peer.files[i]);
        unmap_shared();
        fuzz_expect_files();
        return 0;
}
