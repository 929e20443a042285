/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/listen.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "serve/protocol.h"
#include "util/alloc.h"
#include "util/macro.h"

#define BACKLOG 256
#define TURN_BYTES ((size_t)1 << 20) /* of one connection, before the next has its turn */
#define STOP_MS 2000u                /* for answers that are still to be read when we are told to end */
#define PAUSE_MS 100u                /* without new connections, where there are no file descriptors */

enum state {
        READ_HEADER,
        READ_CONTENT,
        WAITING, /* an instance has it, or will: the connection is not touched */
        ANSWERING,
};

struct connection {
        int fd;
        uid_t uid;
        enum state state;
        bool ends;          /* after the answer */
        bool gone;          /* the client, while the request runs */
        bool queued;        /* of WAITING: no instance has it yet; the lock's */
        unsigned polled;    /* where in the list, 0: nowhere */
        uint64_t since_ms;  /* of the state; READ_HEADER: since when nothing came, or of the first byte */
        uint64_t arrival;   /* ns, of the last byte */
        uint64_t at, bytes; /* of what is being read or written */
        struct sv_header header;
        uint8_t *buffer; /* content; NULL until a request is right */
        char sentence[SV_WHY_MAX];
        const uint8_t *content; /* of the answer */
        TAILQ_ENTRY(connection) link;
};

TAILQ_HEAD(queue, connection);

struct server {
        const struct sv_listen *listen;
        const struct sv_pack *pack;
        uint64_t in, out; /* bytes */
        int socket, signals, done_event;
        struct connection *slots; /* fd -1: free */
        struct pollfd *polls;
        char description[16384];
        struct sv_heard *heard;
        bool stopping;
        uint64_t stop_ms, pause_ms; /* until then */

        pthread_mutex_t lock;
        pthread_cond_t work;
        struct queue waiting, done;
        bool threads_end, failed;
        struct sv_why why; /* of the failure */
};

struct worker {
        struct server *server;
        struct sv_instance *instance;
        pthread_t thread;
        struct sv_samples samples;
};

static uint64_t now_ms(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* --- the threads of the instances ----------------------------------------------------------------------------------
 */

/* From the connection's buffer to the connection's buffer. */
static int run_one(struct worker *worker, struct connection *connection)
{
        struct server *server = worker->server;
        const struct sv_clock *clock = server->listen->clock;
        struct sv_sample sample;
        struct sv_why why = {""};
        int r;

        if (server->in)
                memcpy(worker->instance->input, connection->buffer, server->in);
        sample.begin = sv_now(clock);
        sample.arrival = clock->simulated ? sample.begin : connection->arrival;
        r = sv_instance_run(worker->instance, &why);
        sample.end = sv_now(clock);
        sv_clock_leave(clock);
        if (!r && sv_samples_add(&worker->samples, &sample))
                r = sv_fail(&why, "out of memory");
        if (!r) {
                memcpy(connection->buffer, worker->instance->output, server->out);
                return 0;
        }
        (void)pthread_mutex_lock(&server->lock);
        if (!server->failed)
                server->why = why;
        server->failed = true;
        (void)pthread_mutex_unlock(&server->lock);
        return -1;
}

static void tell(struct server *server)
{
        const uint64_t one = 1;

        (void)!write(server->done_event, &one, sizeof(one));
}

/* Under the lock. NULL: the thread is to end. */
static struct connection *next_request(struct server *server)
{
        struct connection *connection;

        while (TAILQ_EMPTY(&server->waiting) && !server->threads_end)
                (void)pthread_cond_wait(&server->work, &server->lock);
        if (server->threads_end)
                return NULL;
        connection = TAILQ_FIRST(&server->waiting);
        TAILQ_REMOVE(&server->waiting, connection, link);
        connection->queued = false;
        return connection;
}

static void *work(void *user)
{
        struct worker *worker = user;
        struct server *server = worker->server;
        struct connection *connection;
        struct sv_why why = {""};
        int entered = sv_driver_enter(worker->instance->model->driver, &why);

        (void)pthread_mutex_lock(&server->lock);
        if (entered) {
                server->why = why;
                server->failed = true;
                tell(server);
        }
        while (!server->failed && (connection = next_request(server))) {
                (void)pthread_mutex_unlock(&server->lock);
                (void)run_one(worker, connection);
                (void)pthread_mutex_lock(&server->lock);
                TAILQ_INSERT_TAIL(&server->done, connection, link);
                tell(server);
        }
        (void)pthread_mutex_unlock(&server->lock);
        return NULL;
}

/* --- answers -------------------------------------------------------------------------------------------------------
 */

static void end_connection(struct connection *connection)
{
        (void)ds_close(connection->fd);
        connection->buffer = ds_free(connection->buffer);
        connection->fd = -1;
}

static void expect_header(struct connection *connection)
{
        connection->state = READ_HEADER;
        connection->at = 0;
        connection->since_ms = now_ms();
}

static void answer(struct connection *connection, enum sv_status status, const void *content, uint64_t bytes)
{
        connection->header = (struct sv_header){.status = status, .bytes = bytes};
        memcpy(connection->header.magic, SV_ANSWER, sizeof(connection->header.magic));
        connection->content = content;
        connection->bytes = bytes;
        connection->at = 0;
        connection->state = ANSWERING;
        connection->since_ms = now_ms();
        connection->ends = status != SV_STATUS_OK;
}

__attribute__((format(printf, 3, 4))) static void refuse(
        struct connection *connection, enum sv_status status, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        (void)vsnprintf(connection->sentence, sizeof(connection->sentence), format, args);
        va_end(args);
        answer(connection, status, connection->sentence, strlen(connection->sentence));
}

/* What the socket takes now. */
static void send_some(struct connection *connection)
{
        const uint64_t head = sizeof(connection->header), all = head + connection->bytes;

        while (connection->at < all) {
                const uint8_t *from = connection->at < head ? (const uint8_t *)&connection->header + connection->at
                                                            : connection->content + (connection->at - head);
                const uint64_t left = (connection->at < head ? head : all) - connection->at;
                ssize_t n = send(connection->fd, from, left,
                        MSG_NOSIGNAL | MSG_DONTWAIT | (connection->at < head ? MSG_MORE : 0));

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
                        return;
                if (n < 0) {
                        end_connection(connection);
                        return;
                }
                connection->at += (uint64_t)n;
        }
        if (connection->ends)
                end_connection(connection);
        else
                expect_header(connection);
}

/* --- requests ------------------------------------------------------------------------------------------------------
 */

static void hand_over(struct server *server, struct connection *connection)
{
        connection->state = WAITING;
        connection->arrival = server->listen->clock->simulated ? 0 : sv_now(server->listen->clock);
        (void)pthread_mutex_lock(&server->lock);
        TAILQ_INSERT_TAIL(&server->waiting, connection, link);
        connection->queued = true;
        (void)pthread_cond_signal(&server->work);
        (void)pthread_mutex_unlock(&server->lock);
}

static void bad(struct server *server, struct connection *connection, const char *what)
{
        server->heard->bad++;
        refuse(connection, SV_STATUS_BAD, "%s; a request of %s has %llu bytes of input behind its header", what,
                server->pack->model, (unsigned long long)server->in);
}

static void take_header(struct server *server, struct connection *connection)
{
        const struct sv_header *header = &connection->header;
        const bool describe = !memcmp(header->magic, SV_DESCRIBE, sizeof(header->magic));

        if (!describe && memcmp(header->magic, SV_INFER, sizeof(header->magic)) != 0)
                bad(server, connection, "this is no request");
        else if (header->status)
                bad(server, connection, "a request has status 0");
        else if (header->bytes != (describe ? 0 : server->in))
                bad(server, connection, "the length is wrong");
        else if (describe)
                answer(connection, SV_STATUS_OK, server->description, strlen(server->description));
        else if (!connection->buffer && !(connection->buffer = ds_alloc(DS_MAX(server->in, server->out))))
                refuse(connection, SV_STATUS_BUSY, "out of memory");
        else {
                connection->at = 0;
                connection->bytes = server->in;
                connection->state = READ_CONTENT;
                if (!server->in)
                        hand_over(server, connection);
        }
}

static ssize_t receive(struct connection *connection, void *to, uint64_t bytes)
{
        ssize_t n;

        do
                n = recv(connection->fd, to, DS_MIN(bytes, TURN_BYTES), MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
                end_connection(connection);
        return n;
}

static void read_some(struct server *server, struct connection *connection)
{
        const bool head = connection->state == READ_HEADER;
        uint8_t *to = head ? (uint8_t *)&connection->header : connection->buffer;
        const uint64_t all = head ? sizeof(connection->header) : connection->bytes;
        ssize_t n = receive(connection, to + connection->at, all - connection->at);

        if (n <= 0)
                return;
        if (head && !connection->at)
                connection->since_ms = now_ms();
        connection->at += (uint64_t)n;
        if (connection->at < all)
                return;
        if (head)
                take_header(server, connection);
        else
                hand_over(server, connection);
}

/* --- connections ---------------------------------------------------------------------------------------------------
 */

static bool is_idle(const struct connection *connection)
{
        return connection->state == READ_HEADER && !connection->at;
}

/* A free slot for a user; NULL when there is none. */
static struct connection *find_slot(struct server *server, uid_t uid)
{
        const unsigned most = DS_MAX(server->listen->n_connections / 2, 1);
        struct connection *empty = NULL, *idle = NULL;
        unsigned n = 0;

        for (unsigned i = 0; i < server->listen->n_connections; i++) {
                struct connection *slot = &server->slots[i];

                if (slot->fd < 0) {
                        empty = slot;
                        continue;
                }
                n += slot->uid == uid;
                if (slot->uid == uid && is_idle(slot) && (!idle || slot->since_ms < idle->since_ms))
                        idle = slot;
        }
        if (empty && n < most)
                return empty;
        if (!idle || now_ms() - idle->since_ms < SV_IDLE_MS)
                return NULL;
        server->heard->dropped++;
        end_connection(idle);
        return idle;
}

/* What can be done for a connection now. */
static void serve_slot(struct server *server, struct connection *slot)
{
        if (slot->state == READ_HEADER || slot->state == READ_CONTENT)
                read_some(server, slot);
        /* most answers fit: no need to ask whether they do */
        if (slot->fd >= 0 && slot->state == ANSWERING)
                send_some(slot);
}

/* The client of a request is gone: one that waits is not run. */
static void forget_request(struct server *server, struct connection *slot)
{
        (void)pthread_mutex_lock(&server->lock);
        slot->gone = true;
        if (slot->queued) {
                TAILQ_REMOVE(&server->waiting, slot, link);
                end_connection(slot);
        }
        (void)pthread_mutex_unlock(&server->lock);
}

/*
 * Who has gone shows when he is read from, after what he said before: before a newcomer is refused for him, he is
 * asked.
 */
static void look_for_gone(struct server *server, uid_t uid)
{
        for (unsigned i = 0; i < 2 * server->listen->n_connections; i++) {
                struct connection *slot = &server->slots[i / 2];

                if (slot->fd >= 0 && slot->uid == uid)
                        serve_slot(server, slot);
        }
}

static void accept_one(struct server *server, int fd)
{
        struct ucred peer = {.uid = (uid_t)-1};
        socklen_t size = sizeof(peer);
        struct connection *slot, sorry = {.fd = fd};

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
                peer.uid = (uid_t)-1;
        slot = find_slot(server, peer.uid);
        if (!slot) {
                look_for_gone(server, peer.uid);
                slot = find_slot(server, peer.uid);
        }
        if (!slot) {
                server->heard->busy++;
                refuse(&sorry, SV_STATUS_BUSY, "there are too many connections");
                send_some(&sorry);
                if (sorry.fd >= 0)
                        end_connection(&sorry);
                return;
        }
        *slot = (struct connection){.fd = fd, .uid = peer.uid};
        expect_header(slot);
}

static void accept_all(struct server *server)
{
        for (unsigned i = 0; i < BACKLOG; i++) {
                int fd = accept4(server->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (fd < 0) {
                        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ECONNABORTED && errno != EINTR)
                                server->pause_ms = now_ms() + PAUSE_MS;
                        return;
                }
                accept_one(server, fd);
        }
}

/* What the instances have ended. */
static void take_done(struct server *server)
{
        struct connection *connection;
        struct queue done;
        uint64_t count;

        (void)!read(server->done_event, &count, sizeof(count));
        TAILQ_INIT(&done);
        (void)pthread_mutex_lock(&server->lock);
        TAILQ_CONCAT(&done, &server->done, link);
        if (server->failed && !server->stopping) {
                server->stopping = true;
                server->stop_ms = now_ms();
        }
        (void)pthread_mutex_unlock(&server->lock);
        while ((connection = TAILQ_FIRST(&done))) {
                TAILQ_REMOVE(&done, connection, link);
                if (server->failed)
                        refuse(connection, SV_STATUS_FAILED, "%s", server->why.text);
                else
                        answer(connection, SV_STATUS_OK, connection->buffer, server->out);
                send_some(connection);
        }
}

/* --- the loop ------------------------------------------------------------------------------------------------------
 */

/* Ends what took too long; returns the ms until the next may. */
static int check_times(struct server *server)
{
        const uint64_t now = now_ms();
        uint64_t next = now < server->pause_ms ? PAUSE_MS : 1000;

        for (unsigned i = 0; i < server->listen->n_connections; i++) {
                struct connection *slot = &server->slots[i];

                if (slot->fd < 0 || slot->state == WAITING || is_idle(slot))
                        continue;
                if (now - slot->since_ms >= SV_REQUEST_MS) {
                        server->heard->slow++;
                        end_connection(slot);
                        continue;
                }
                next = DS_MIN(next, slot->since_ms + SV_REQUEST_MS - now);
        }
        return (int)next;
}

/* What is under way may never end: who asks a second time does not wait for it. */
static void let_signals_end_us(const struct server *server)
{
        struct signalfd_siginfo heard;
        sigset_t set;

        while (read(server->signals, &heard, sizeof(heard)) > 0)
                continue;
        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGINT);
        (void)sigaddset(&set, SIGTERM);
        (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* The path is free before the socket is closed: after that it may be another server's. */
static void begin_to_stop(struct server *server)
{
        struct connection *connection;

        let_signals_end_us(server);
        (void)unlink(server->listen->path);
        server->socket = ds_close(server->socket);
        (void)pthread_mutex_lock(&server->lock);
        while ((connection = TAILQ_FIRST(&server->waiting))) {
                TAILQ_REMOVE(&server->waiting, connection, link);
                connection->queued = false;
                refuse(connection, server->failed ? SV_STATUS_FAILED : SV_STATUS_STOPS, "%s",
                        server->failed ? server->why.text : "the server ends");
        }
        (void)pthread_mutex_unlock(&server->lock);
        for (unsigned i = 0; i < server->listen->n_connections; i++) {
                connection = &server->slots[i];
                if (connection->fd < 0 || (connection->state != READ_HEADER && connection->state != READ_CONTENT))
                        continue;
                refuse(connection, SV_STATUS_STOPS, "the server ends");
                send_some(connection);
        }
}

/* false: nobody waits for anything any more, or long enough. */
static bool is_needed(const struct server *server)
{
        if (!server->stopping)
                return true;
        for (unsigned i = 0; i < server->listen->n_connections; i++)
                if (server->slots[i].fd >= 0 &&
                        (server->slots[i].state == WAITING || now_ms() - server->stop_ms < STOP_MS))
                        return true;
        return false;
}

/* Only what is open is polled: more descriptors than the process may have cannot be. */
static void wait_for_any(struct server *server, int ms)
{
        struct pollfd *polls = server->polls;
        nfds_t n = 3;

        polls[0] = (struct pollfd){.fd = now_ms() < server->pause_ms ? -1 : server->socket, .events = POLLIN};
        polls[1] = (struct pollfd){.fd = server->stopping ? -1 : server->signals, .events = POLLIN};
        polls[2] = (struct pollfd){.fd = server->done_event, .events = POLLIN};
        for (unsigned i = 0; i < server->listen->n_connections; i++) {
                struct connection *slot = &server->slots[i];
                const short events = slot->state == WAITING ? 0 : slot->state == ANSWERING ? POLLOUT : POLLIN;

                slot->polled = slot->fd >= 0 && !slot->gone ? (unsigned)n : 0;
                /* that somebody has gone is told unasked */
                if (slot->polled)
                        polls[n++] = (struct pollfd){.fd = slot->fd, .events = events};
        }
        if (poll(polls, n, ms) < 0)
                for (nfds_t i = 0; i < n; i++)
                        polls[i].revents = 0;
}

static void turn(struct server *server)
{
        wait_for_any(server, server->stopping ? (int)DS_MIN(check_times(server), 50) : check_times(server));
        for (unsigned i = 0; i < server->listen->n_connections; i++) {
                struct connection *slot = &server->slots[i];

                if (slot->fd < 0 || !slot->polled || !server->polls[slot->polled].revents)
                        continue;
                if (slot->state == WAITING)
                        forget_request(server, slot);
                else
                        serve_slot(server, slot);
        }
        if (server->polls[2].revents)
                take_done(server);
        if (server->polls[0].revents && !server->stopping)
                accept_all(server);
        if (server->polls[1].revents && !server->stopping) {
                server->stopping = true;
                server->stop_ms = now_ms();
        }
        if (server->stopping && server->socket >= 0)
                begin_to_stop(server);
}

/* --- the socket ----------------------------------------------------------------------------------------------------
 */

/* A socket that nobody listens at any more is taken away. */
static int remove_stale(const struct sockaddr_un *address, struct sv_why *why)
{
        ds_cleanup(ds_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct stat st;

        if (lstat(address->sun_path, &st))
                return errno == ENOENT ? 0 : sv_fail(why, "%s: %s", address->sun_path, strerror(errno));
        if (!S_ISSOCK(st.st_mode))
                return sv_fail(why, "%s is there and no socket", address->sun_path);
        if (fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) && errno == ECONNREFUSED)
                return unlink(address->sun_path) ? sv_fail(why, "%s: %s", address->sun_path, strerror(errno)) : 0;
        return sv_fail(why, "%s: somebody listens there", address->sun_path);
}

static int open_socket(const char *path, struct sv_why *why)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        ds_cleanup(ds_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        mode_t mask;
        int r;

        if (fd < 0)
                return sv_fail(why, "cannot make a socket: %s", strerror(errno));
        if (!path[0] || strlen(path) >= sizeof(address.sun_path))
                return sv_fail(why, "%s: a socket's path has 1 to %zu bytes", path, sizeof(address.sun_path) - 1);
        memcpy(address.sun_path, path, strlen(path) + 1);
        if (remove_stale(&address, why))
                return -1;
        mask = umask(0177);
        r = bind(fd, (const struct sockaddr *)&address, sizeof(address)) || listen(fd, BACKLOG);
        (void)umask(mask);
        return r ? sv_fail(why, "%s: %s", path, strerror(errno)) : DS_TAKE_FD(fd);
}

static int open_descriptors(struct server *server, struct sv_why *why)
{
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGINT);
        (void)sigaddset(&set, SIGTERM);
        server->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        server->done_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (server->signals < 0 || server->done_event < 0)
                return sv_fail(why, "cannot make a file descriptor: %s", strerror(errno));
        server->socket = open_socket(server->listen->path, why);
        return server->socket < 0 ? -1 : 0;
}

static void describe_list(FILE *to, const char *what, const struct sv_tensor *list, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++) {
                fprintf(to, "%s %s %s ", what, list[i].name, sv_type_name(list[i].type));
                for (uint32_t k = 0; k < list[i].n_dims; k++)
                        fprintf(to, "%s%" PRIu64, k ? "," : "", list[i].dims[k]);
                fprintf(to, " %" PRIu64 "\n", list[i].bytes);
        }
}

static int describe(struct server *server, struct sv_why *why)
{
        const struct sv_pack *pack = server->pack;
        FILE *to = fmemopen(server->description, sizeof(server->description), "w");

        if (!to)
                return sv_fail(why, "out of memory");
        fprintf(to, "model %s\nbatch %" PRIu64 "\n", pack->model, pack->batch);
        describe_list(to, "input", pack->inputs, pack->n_inputs);
        describe_list(to, "output", pack->outputs, pack->n_outputs);
        return fclose(to) ? sv_fail(why, "the model's inputs and outputs are too many words") : 0;
}

/* As many files as connections need, if that is allowed; if not, clients wait until others have gone. */
static void ask_for_files(unsigned n)
{
        struct rlimit limit;
        const rlim_t wanted = n + 256;

        if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
                return;
        limit.rlim_cur = DS_MIN(wanted, limit.rlim_max);
        (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int open_server(struct server *server, struct sv_why *why)
{
        const unsigned n = server->listen->n_connections;

        ask_for_files(n);
        TAILQ_INIT(&server->waiting);
        TAILQ_INIT(&server->done);
        server->slots = ds_alloc0(n, sizeof(*server->slots));
        server->polls = ds_alloc0(n + 3, sizeof(*server->polls));
        if (!server->slots || !server->polls)
                return sv_fail(why, "out of memory");
        for (unsigned i = 0; i < n; i++)
                server->slots[i].fd = -1;
        return describe(server, why) ? -1 : open_descriptors(server, why);
}

static void close_server(struct server *server)
{
        for (unsigned i = 0; server->slots && i < server->listen->n_connections; i++)
                end_connection(&server->slots[i]);
        ds_free(server->slots);
        ds_free(server->polls);
        (void)ds_close(server->socket);
        (void)ds_close(server->signals);
        (void)ds_close(server->done_event);
}

/* How many threads there are. */
static unsigned start_threads(struct server *server, struct worker *workers)
{
        unsigned n = 0;

        for (; n < server->listen->n_instances; n++) {
                workers[n].server = server;
                workers[n].instance = &server->listen->instances[n];
                if (pthread_create(&workers[n].thread, NULL, work, &workers[n]))
                        break;
        }
        return n;
}

static int end_threads(struct server *server, struct worker *workers, unsigned n, struct sv_why *why)
{
        int r = 0;

        (void)pthread_mutex_lock(&server->lock);
        server->threads_end = true;
        (void)pthread_cond_broadcast(&server->work);
        (void)pthread_mutex_unlock(&server->lock);
        for (unsigned i = 0; i < n; i++) {
                (void)pthread_join(workers[i].thread, NULL);
                if (sv_samples_join(&server->heard->samples, &workers[i].samples))
                        r = sv_fail(why, "out of memory");
                sv_samples_clear(&workers[i].samples);
        }
        if (server->failed)
                return sv_fail(why, "%s", server->why.text);
        return n < server->listen->n_instances ? sv_fail(why, "cannot make a thread") : r;
}

static int serve(struct server *server, struct worker *workers, struct sv_why *why)
{
        const uint64_t begin_ms = now_ms();
        const unsigned n = start_threads(server, workers);

        if (n == server->listen->n_instances) {
                printf("serving %s at %s\n", server->pack->model, server->listen->path);
                (void)fflush(stdout);
                while (is_needed(server))
                        turn(server);
        }
        server->heard->ns = (now_ms() - begin_ms) * DS_NS_PER_MS;
        if (server->socket >= 0)
                (void)unlink(server->listen->path);
        return end_threads(server, workers, n, why);
}

int sv_listen_run(const struct sv_listen *listen, struct sv_heard *ret, struct sv_why *why)
{
        struct server server = {
                .listen = listen,
                .pack = listen->instances[0].model->pack,
                .socket = -1,
                .signals = -1,
                .done_event = -1,
                .heard = ret,
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .work = PTHREAD_COND_INITIALIZER,
        };
        ds_cleanup(ds_freep) struct worker *workers = ds_alloc0(listen->n_instances, sizeof(*workers));
        int r = -1;

        *ret = (struct sv_heard){.ns = 0};
        server.in = sv_pack_input_bytes(server.pack);
        server.out = sv_pack_output_bytes(server.pack);
        if (!workers)
                (void)sv_fail(why, "out of memory");
        else if (!open_server(&server, why))
                r = serve(&server, workers, why);
        close_server(&server);
        sv_samples_sort(&ret->samples);
        return r;
}
