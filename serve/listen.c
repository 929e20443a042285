/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/listen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "serve/desk.h"
#include "util/alloc.h"
#include "util/macro.h"

#define BACKLOG 256
#define STOP_MS 2000u /* time for clients to read their answers at the end */
#define PAUSE_MS 100u /* time without new connections after file descriptors ran out */
#define LOOK_MS 1000u /* longest time between two checks for slow clients */
#define REFUSALS 16u  /* new connections in a turn: each costs a look at all existing ones */

/* How many connections a user has. */
struct share {
        uid_t uid;
        unsigned n;
};

struct server {
        const struct sv_listen *listen;
        struct sv_subject subject;
        struct sv_desk desk;
        int socket, signals;
        struct sv_connection *slots;  /* fd -1: free */
        struct pollfd *polls, *looks; /* used within one turn only */
        struct share *shares;         /* used within one call only */
        struct sv_heard *heard;
        bool stopping, failed;
        struct sv_why why;          /* reason of the failure */
        uint64_t stop_ms, pause_ms; /* until then */
};

/* --- connections -------------------------------------------------------------------------------------------------- */

/* Sends a sentence that ends the connection. */
static void tell(struct server *server, struct sv_connection *connection, enum sv_status status, const char *text)
{
        sv_connection_refuse(connection, status, "%s", text);
        (void)sv_connection_go_on(connection, &server->subject);
}

/* A free slot for a user; NULL when there is none. */
static struct sv_connection *find_slot(struct server *server, uid_t uid)
{
        const unsigned most = DS_MAX(server->listen->n_connections / 2, 1);
        struct sv_connection *empty = NULL, *idle = NULL;
        unsigned n = 0;

        for (unsigned i = 0; i < server->listen->n_connections; i++) {
                struct sv_connection *slot = &server->slots[i];

                if (slot->fd < 0) {
                        empty = slot;
                        continue;
                }
                n += slot->uid == uid;
                if (slot->uid == uid && sv_connection_is_idle(slot) && (!idle || slot->since_ms < idle->since_ms))
                        idle = slot;
        }
        if (empty && n < most)
                return empty;
        if (!idle || sv_now_ms() - idle->since_ms < SV_IDLE_MS)
                return NULL;
        server->heard->dropped++;
        sv_connection_end(idle);
        return idle;
}

/* Reads or sends for a connection as much as possible without blocking. */
static void serve_slot(struct server *server, struct sv_connection *slot)
{
        const enum sv_said said = sv_connection_go_on(slot, &server->subject);

        server->heard->bad += said == SV_SAID_BAD;
        if (said == SV_SAID_REQUEST)
                sv_desk_give(&server->desk, slot);
}

/* The client of a request is gone: takes the request out if it waits. */
static void forget_request(struct server *server, struct sv_connection *slot)
{
        slot->gone = true;
        if (sv_desk_take_out(&server->desk, slot))
                sv_connection_end(slot);
}

/*
 * Ends the connections whose clients have hung up. One poll finds these: a refusal that reads from each connection lets
 * a client that only connects use up the loop's time.
 */
static void end_gone(struct server *server)
{
        nfds_t n = 0;

        for (unsigned i = 0; i < server->listen->n_connections; i++) {
                struct sv_connection *slot = &server->slots[i];

                slot->polled = (unsigned)n;
                if (slot->fd >= 0 && !slot->gone)
                        server->looks[n++] = (struct pollfd){.fd = slot->fd};
        }
        if (poll(server->looks, n, 0) <= 0)
                return;
        for (unsigned i = 0; i < server->listen->n_connections; i++) {
                struct sv_connection *slot = &server->slots[i];

                if (slot->fd < 0 || slot->gone || !server->looks[slot->polled].revents)
                        continue;
                if (slot->state == SV_WAITING)
                        forget_request(server, slot);
                else
                        sv_connection_end(slot);
        }
}

/* The user with the most connections, and how many `uid` has. */
static struct share find_largest(struct server *server, uid_t uid, unsigned *ret_n)
{
        struct share largest = {.n = 0}, *shares = server->shares;
        unsigned n = 0, k;

        *ret_n = 0;
        for (unsigned i = 0; i < server->listen->n_connections; i++) {
                const struct sv_connection *slot = &server->slots[i];

                if (slot->fd < 0)
                        continue;
                *ret_n += slot->uid == uid;
                for (k = 0; k < n && shares[k].uid != slot->uid; k++)
                        continue;
                if (k == n)
                        shares[n++] = (struct share){.uid = slot->uid};
                if (++shares[k].n > largest.n)
                        largest = shares[k];
        }
        return largest;
}

/* The connection of a user whose end loses the least, and which no instance has; NULL: there is none. */
static struct sv_connection *end_one_of(struct server *server, uid_t uid)
{
        struct sv_connection *best = NULL;
        bool best_idle = false;

        for (unsigned i = 0; i < server->listen->n_connections; i++) {
                struct sv_connection *slot = &server->slots[i];
                const bool idle = slot->fd >= 0 && sv_connection_is_idle(slot);

                if (slot->fd < 0 || slot->uid != uid || slot->state == SV_WAITING || (best_idle && !idle))
                        continue;
                if (!best || (idle && !best_idle) || slot->since_ms < best->since_ms) {
                        best = slot;
                        best_idle = idle;
                }
        }
        for (unsigned i = 0; !best && i < server->listen->n_connections; i++) {
                struct sv_connection *slot = &server->slots[i];

                if (slot->fd < 0 || slot->uid != uid || !sv_desk_take_out(&server->desk, slot))
                        continue;
                best = slot;
                tell(server, best, SV_STATUS_BUSY, "another user needs the connection");
        }
        if (best)
                sv_connection_end(best);
        return best;
}

/*
 * A slot taken from the user with the most connections. NULL: that user has less than two more than `uid`, or instances
 * have all of its requests.
 */
static struct sv_connection *take_slot(struct server *server, uid_t uid)
{
        struct sv_connection *slot;
        struct share largest;
        unsigned n;

        largest = find_largest(server, uid, &n);
        if (largest.n < n + 2)
                return NULL;
        slot = end_one_of(server, largest.uid);
        server->heard->dropped += slot != NULL;
        return slot;
}

/* false: the connection was refused. */
static bool accept_one(struct server *server, int fd)
{
        struct ucred peer = {.uid = (uid_t)-1};
        socklen_t size = sizeof(peer);
        struct sv_connection *slot, sorry = {.fd = fd};

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
                peer.uid = (uid_t)-1;
        slot = find_slot(server, peer.uid);
        if (!slot) {
                end_gone(server);
                slot = find_slot(server, peer.uid);
        }
        if (!slot)
                slot = take_slot(server, peer.uid);
        if (!slot) {
                server->heard->busy++;
                tell(server, &sorry, SV_STATUS_BUSY, "there are too many connections");
                if (sorry.fd >= 0)
                        sv_connection_end(&sorry);
                return false;
        }
        sv_connection_begin(slot, fd, peer.uid);
        return true;
}

static void accept_all(struct server *server)
{
        unsigned refused = 0;

        for (unsigned i = 0; i < BACKLOG && refused < REFUSALS; i++) {
                int fd = accept4(server->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (fd < 0) {
                        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ECONNABORTED && errno != EINTR)
                                server->pause_ms = sv_now_ms() + PAUSE_MS;
                        return;
                }
                refused += !accept_one(server, fd);
        }
}

static void begin_stopping(struct server *server)
{
        if (!server->stopping)
                server->stop_ms = sv_now_ms();
        server->stopping = true;
}

/* Answers the requests that the instances have finished. */
static void take_done(struct server *server)
{
        struct sv_connection *connection;
        struct sv_connections done;

        server->failed = sv_desk_take_back(&server->desk, &done, &server->why);
        if (server->failed)
                begin_stopping(server);
        /* no instance takes them any more */
        while (server->failed && (connection = sv_desk_take_rest(&server->desk)))
                tell(server, connection, SV_STATUS_FAILED, server->why.text);
        while ((connection = TAILQ_FIRST(&done))) {
                TAILQ_REMOVE(&done, connection, link);
                if (server->failed)
                        sv_connection_refuse(connection, SV_STATUS_FAILED, "%s", server->why.text);
                else
                        sv_connection_answer(connection, SV_STATUS_OK, connection->buffer, server->subject.out);
                serve_slot(server, connection);
        }
}

/* --- the loop ----------------------------------------------------------------------------------------------------- */

/* Refuses requests that have waited for too long. Returns the ms until the next one will have. */
static uint64_t check_waiting(struct server *server, uint64_t now)
{
        const uint64_t most = server->listen->wait_ms;
        struct sv_connection *late;
        uint64_t since;

        while ((late = sv_desk_take_late(&server->desk, now > most ? now - most : 0, &since))) {
                server->heard->late++;
                tell(server, late, SV_STATUS_BUSY, "the request has waited for too long: others are before it");
        }
        return since == UINT64_MAX ? LOOK_MS : since + most - now;
}

/* Closes connections that took too long. Returns the ms until the next one may have. */
static int check_times(struct server *server)
{
        const uint64_t now = sv_now_ms();
        uint64_t next = DS_MIN(check_waiting(server, now), now < server->pause_ms ? PAUSE_MS : LOOK_MS);

        for (unsigned i = 0; i < server->listen->n_connections; i++) {
                struct sv_connection *slot = &server->slots[i];

                if (slot->fd < 0 || slot->state == SV_WAITING || sv_connection_is_idle(slot))
                        continue;
                if (now - slot->since_ms >= SV_REQUEST_MS && now > slot->since_ms) {
                        server->heard->slow++;
                        sv_connection_end(slot);
                        continue;
                }
                next = DS_MIN(next, slot->since_ms + SV_REQUEST_MS - now);
        }
        return (int)next;
}

/* A running request may never end, so a second signal does not wait for it. */
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
        struct sv_connection *connection;

        let_signals_end_us(server);
        (void)unlink(server->listen->path);
        server->socket = ds_close(server->socket);
        while ((connection = sv_desk_take_rest(&server->desk)))
                tell(server, connection, SV_STATUS_STOPS, "the server ends");
        for (unsigned i = 0; i < server->listen->n_connections; i++) {
                connection = &server->slots[i];
                if (connection->fd >= 0 &&
                        (connection->state == SV_READ_HEADER || connection->state == SV_READ_CONTENT))
                        tell(server, connection, SV_STATUS_STOPS, "the server ends");
        }
}

/* false: the loop can end, because no client waits, or the time is over. */
static bool is_needed(const struct server *server)
{
        if (!server->stopping)
                return true;
        for (unsigned i = 0; i < server->listen->n_connections; i++)
                if (server->slots[i].fd >= 0 &&
                        (server->slots[i].state == SV_WAITING || sv_now_ms() - server->stop_ms < STOP_MS))
                        return true;
        return false;
}

/* poll() gets only open connections: it refuses more entries than the process may have descriptors. */
static void wait_for_any(struct server *server, int ms)
{
        struct pollfd *polls = server->polls;
        nfds_t n = 3;

        polls[0] = (struct pollfd){.fd = sv_now_ms() < server->pause_ms ? -1 : server->socket, .events = POLLIN};
        polls[1] = (struct pollfd){.fd = server->stopping ? -1 : server->signals, .events = POLLIN};
        polls[2] = (struct pollfd){.fd = server->desk.event, .events = POLLIN};
        for (unsigned i = 0; i < server->listen->n_connections; i++) {
                struct sv_connection *slot = &server->slots[i];
                const short events = slot->state == SV_WAITING ? 0 : slot->state == SV_ANSWERING ? POLLOUT : POLLIN;

                slot->polled = slot->fd >= 0 && !slot->gone ? (unsigned)n : 0;
                /* POLLHUP comes without a request for it */
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
                struct sv_connection *slot = &server->slots[i];

                if (slot->fd < 0 || !slot->polled || !server->polls[slot->polled].revents)
                        continue;
                if (slot->state == SV_WAITING)
                        forget_request(server, slot);
                else
                        serve_slot(server, slot);
        }
        if (server->polls[2].revents)
                take_done(server);
        if (server->polls[0].revents && !server->stopping)
                accept_all(server);
        if (server->polls[1].revents)
                begin_stopping(server);
        if (server->stopping && server->socket >= 0)
                begin_to_stop(server);
}

/* --- the socket --------------------------------------------------------------------------------------------------- */

/* Removes a socket file that no server listens on. */
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
        if (server->signals < 0)
                return sv_fail(why, "cannot make a file descriptor: %s", strerror(errno));
        server->socket = open_socket(server->listen->path, why);
        return server->socket < 0 ? -1 : 0;
}

/* Raises the limit of open files to the number of connections, if that is allowed; otherwise clients wait until
 * others close. */
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
        server->slots = ds_alloc0(n, sizeof(*server->slots));
        server->polls = ds_alloc0(n + 3, sizeof(*server->polls));
        server->looks = ds_alloc0(n, sizeof(*server->looks));
        server->shares = ds_alloc0(n, sizeof(*server->shares));
        if (!server->slots || !server->polls || !server->looks || !server->shares)
                return sv_fail(why, "out of memory");
        for (unsigned i = 0; i < n; i++)
                server->slots[i].fd = -1;
        return sv_subject_open(&server->subject, server->listen->instances[0].model->pack, why)
                       ? -1
                       : open_descriptors(server, why);
}

static void close_server(struct server *server)
{
        for (unsigned i = 0; server->slots && i < server->listen->n_connections; i++)
                sv_connection_end(&server->slots[i]);
        ds_free(server->slots);
        ds_free(server->polls);
        ds_free(server->looks);
        ds_free(server->shares);
        (void)ds_close(server->socket);
        (void)ds_close(server->signals);
}

static int serve(struct server *server, struct sv_why *why)
{
        const struct sv_listen *listen = server->listen;
        const uint64_t begin_ms = sv_now_ms();
        int r = sv_desk_open(
                &server->desk, listen->clock, &server->subject, listen->instances, listen->n_instances, why);

        if (!r) {
                printf("serving %s at %s\n", server->subject.model, listen->path);
                (void)fflush(stdout);
                while (is_needed(server))
                        turn(server);
        }
        server->heard->ns = (sv_now_ms() - begin_ms) * DS_NS_PER_MS;
        if (server->socket >= 0)
                (void)unlink(listen->path);
        /* the failed call has left its reason */
        return sv_desk_close(&server->desk, &server->heard->samples, r ? &server->why : why) || r ? -1 : 0;
}

int sv_listen_run(const struct sv_listen *listen, struct sv_heard *ret, struct sv_why *why)
{
        struct server *server = ds_alloc0(1, sizeof(*server));
        int r = -1;

        *ret = (struct sv_heard){.ns = 0};
        if (!server)
                return sv_fail(why, "out of memory");
        server->listen = listen;
        server->heard = ret;
        server->socket = server->signals = -1;
        if (!open_server(server, why))
                r = serve(server, why);
        close_server(server);
        ds_free(server);
        sv_samples_sort(&ret->samples);
        return r;
}
