/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storing of sessions; see handover.h
 *
 * No other code runs meanwhile, so each walk of a session (handover_internal.h) yields the same records. The first walk
 * counts the resources that the session needs. handover_fair.h selects the session to continue with. Further walks
 * store its files; each starts where the previous one stopped. The last walk writes the records of a session whose
 * files are all stored.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "supervisor/client.h"
#include "supervisor/handover.h"
#include "supervisor/handover_fair.h"
#include "supervisor/handover_internal.h"
#include "supervisor/notify.h"
#include "supervisor/saved.h"
#include "supervisor/session_call.h"
#include "supervisor/supervisor.h"
#include "util/error.h"
#include "util/foreign.h"
#include "util/macro.h"

#define STORE_MAX_NS (3 * DS_NS_PER_S) /* longest time to store the files of all sessions */
/* longest time to store the state file, without which the other files are useless */
#define STATE_MAX_NS (2 * DS_NS_PER_S)
#define UNSTORE_MAX_NS (1 * DS_NS_PER_S) /* longest time to remove files that the next daemon would discard */
/* Files sent to the manager before it must have handled them: the delay that one user's files can cause to others. */
#define WINDOW_FIRST 4u
#define WINDOW_MAX 16u
/* with at most this time per file the manager counts as fast, and the window grows */
#define WINDOW_FAST_NS (2 * DS_NS_PER_MS)
#define WHY_MAX 192

enum walk_mode {
        WALK_COUNT,
        WALK_STORE,
        WALK_WRITE,
};

/* A session, or the pool of coloured memory. */
struct saved {
        uint64_t id;                /* id of the session; 0: the pool */
        struct ds_session *session; /* the session; NULL: the pool */
        uint64_t inside_max;        /* bytes of files that may be saved inside the state */
        uint32_t n_files, n_stored;
        uint64_t names_bytes, state_bytes;
        int refused; /* 1: the session cannot be handed over; the reason is logged */
};

struct saving {
        struct ds_supervisor *supervisor;
        ds_saved_writer *writer;
        struct saved *sessions; /* sorted by id */
        size_t n_sessions;
        struct saved pool;
        /* state of the current walk over a session's records */
        enum walk_mode mode;
        struct saved *saved;
        uint32_t file;       /* number of the last file of this walk */
        uint64_t inside_max; /* bytes of files that this walk may still save inside the state */
        /* state of the current turn */
        uint64_t turn_until_ns;
        int turn_over;
        /* window: most files sent to the manager before it must have handled them; not_synced: files sent that it
         * may not have handled */
        uint32_t window, not_synced;
};

static int is_complete(const struct saved *saved)
{
        return !saved->refused && saved->n_stored == saved->n_files;
}

/* Refuses the session, so that its client will be closed. The log line counts against the budget of its user. */
static void ds_printf(2, 3) refuse(struct saved *saved, const char *fmt, ...)
{
        const struct ds_session *session = saved->session;
        char why[WHY_MAX];
        va_list args;

        if (saved->refused)
                return;
        saved->refused = 1;
        va_start(args, fmt);
        vsnprintf(why, sizeof(why), fmt, args);
        va_end(args);
        if (session)
                ds_log_limited(ds_user_log_budget(session->user), uv_hrtime(), DS_LOG_WARNING,
                        "session %llu '%s' (pid %d, uid %u) cannot be handed over: %s", (unsigned long long)session->id,
                        session->name, (int)session->pid, (unsigned)ds_user_uid(session->user), why);
        else
                ds_log(DS_LOG_WARNING, "coloured memory cannot be handed over: %s", why);
}

/* --- records ------------------------------------------------------------------------------------------------------ */

/*
 * Opens a memory file once more. The manager drops a second handle of the same open file, and sessions may share an
 * image or memory, so each session needs an open file of its own. Returns -1 if the file is no memory file or cannot be
 * opened. Files of a GPU's driver cannot; the next daemon finds them by their share id (handover_take.c).
 */
static int open_again(int fd)
{
        struct stat st;
        char path[64];
        int again;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return -1;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        /* opens without blocking: a client may hold a lease on its file, for which open() would wait up to 45 s */
        again = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
        return again >= 0 ? again : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

/* Waits until the manager has handled all files sent, so that its delay counts as time of this turn and not of a
 * later one. */
static void sync_store(struct saving *saving)
{
        const uint64_t begin = uv_hrtime();
        const uint64_t wait = begin < saving->turn_until_ns ? saving->turn_until_ns - begin : 0;
        const int fast = !ds_notify_sync(saving->supervisor->notify, wait) &&
                         uv_hrtime() - begin < saving->not_synced * WINDOW_FAST_NS;

        saving->window = fast ? DS_MIN(2 * saving->window, WINDOW_MAX) : 1;
        saving->not_synced = 0;
}

static void store_file(struct saving *saving, int fd)
{
        struct saved *saved = saving->saved;
        const uint64_t now = uv_hrtime();
        char name[DS_HANDOVER_NAME_MAX];
        ds_cleanup(ds_closep) int own = -1;
        int r;

        if (saving->turn_over || now >= saving->turn_until_ns) {
                saving->turn_over = 1;
                return;
        }
        ds_handover_name(name, saved->id, saving->file);
        own = open_again(fd);
        r = ds_notify_store(saving->supervisor->notify, name, own >= 0 ? own : fd, saving->turn_until_ns - now);
        if (r == -EAGAIN)
                saving->turn_over = 1;
        else if (r)
                refuse(saved, "the service manager did not store a file: %s", r < 0 ? strerror(-r) : "it stores none");
        if (r)
                return;
        saved->n_stored = saving->file;
        if (++saving->not_synced >= saving->window)
                sync_store(saving);
}

/* Whether the file is saved inside the record; *ret_bytes: its size. */
static int lies_inside(
        struct saving *saving, const Detshare__Internal__SavedRecord *record, int fd, uint64_t *ret_bytes)
{
        const int is_graph = record->body_case == DETSHARE__INTERNAL__SAVED_RECORD__BODY_GRAPH;

        if (!is_graph && record->body_case != DETSHARE__INTERNAL__SAVED_RECORD__BODY_MODULE)
                return 0;
        /* the worker that writes into the file of a graph has ended */
        if (!ds_saved_may_lie_inside(fd, is_graph ? 0 : F_SEAL_WRITE, ret_bytes) || *ret_bytes > saving->inside_max)
                return 0;
        saving->inside_max -= *ret_bytes;
        return 1;
}

/* Whether fstat() and open() cannot block on the file of an incomplete request. They could on a file system that a
 * user serves. */
static int is_harmless(int fd)
{
        return ds_foreign_is_memory(fd) || ds_foreign_is_disk_file(fd);
}

static void count_record(struct saving *saving, const Detshare__Internal__SavedRecord *record, int fd)
{
        struct saved *saved = saving->saved;
        char name[DS_HANDOVER_NAME_MAX];

        if (record->body_case == DETSHARE__INTERNAL__SAVED_RECORD__BODY_RECEIVED_FILE && !is_harmless(fd))
                refuse(saved, "a file descriptor that it sent is neither a memory file nor a file on disk");
        if (record->body_case == DETSHARE__INTERNAL__SAVED_RECORD__BODY_LENT && !is_complete(&saving->pool))
                refuse(saved, "its coloured memory could not be stored");
        if (ds_saved_size(record) > DS_SAVED_MAX)
                refuse(saved, "its incomplete request or reply is larger than a record");
        saved->state_bytes += ds_saved_size(record);
        if (record->file) {
                saved->n_files = record->file;
                saved->names_bytes += ds_handover_name(name, saved->id, record->file) + 1;
        }
}

static void write_record(struct saving *saving, const Detshare__Internal__SavedRecord *record)
{
        int r = ds_saved_write(saving->writer, record);

        if (r)
                refuse(saving->saved, "%s", r > 0 ? "the state is full" : "the daemon is out of memory");
}

/* Handles one record of the walk. Always lets the walk continue; skips the remaining records of a refused session. */
static int put_record(void *user, Detshare__Internal__SavedRecord *record, int fd)
{
        static uint8_t buffer[DS_SAVED_INSIDE_MAX];
        Detshare__Internal__SavedContent content = DETSHARE__INTERNAL__SAVED_CONTENT__INIT;
        struct saving *saving = user;
        uint64_t inside = 0;

        if (saving->saved->refused)
                return 0;
        if (fd >= 0 && lies_inside(saving, record, fd, &inside)) {
                record->content = &content;
                content.bytes.len = inside;
                content.bytes.data = buffer;
        } else if (fd >= 0) {
                record->file = ++saving->file;
        }
        if (saving->mode == WALK_COUNT) {
                count_record(saving, record, fd);
        } else if (saving->mode == WALK_WRITE) {
                if (inside && ds_saved_read_file(fd, buffer, inside))
                        refuse(saving->saved, "one of its files cannot be read");
                else
                        write_record(saving, record);
        } else if (record->file > saving->saved->n_stored) {
                store_file(saving, fd);
        }
        record->content = NULL; /* `content` is a local variable, so the record must not keep its address */
        return 0;
}

static int put_piece(void *user, Detshare__Internal__PoolPiece *piece, int fd)
{
        Detshare__Internal__SavedRecord record = DETSHARE__INTERNAL__SAVED_RECORD__INIT;

        record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_POOL;
        record.pool = piece;
        return put_record(user, &record, fd);
}

static void walk(struct saving *saving, struct saved *saved, enum walk_mode mode)
{
        int r;

        saving->mode = mode;
        saving->saved = saved;
        saving->file = 0;
        saving->inside_max = saved->inside_max;
        r = saved->session ? ds_handover_walk(saved->session, put_record, saving)
                           : ds_pool_show(&saving->supervisor->pool, put_piece, saving);
        if (r)
                refuse(saved, "the daemon is out of memory");
}

/* --- files -------------------------------------------------------------------------------------------------------- */

/* Works on a session for one turn. Returns the time used, ns. */
static uint64_t take_turn(struct saving *saving, struct saved *saved, uint64_t turn_ns)
{
        const uint64_t begin = uv_hrtime();

        saving->turn_until_ns = begin + turn_ns;
        saving->turn_over = 0;
        saving->window = WINDOW_FIRST;
        saving->not_synced = 0;
        walk(saving, saved, WALK_STORE);
        if (saving->not_synced)
                sync_store(saving);
        return uv_hrtime() - begin;
}

/* Removes the files of a session from the store. Returns the number of files that the manager may still hold. */
static uint32_t unstore(struct saving *saving, struct saved *saved, uint64_t until_ns)
{
        char name[DS_HANDOVER_NAME_MAX];
        uint32_t left = 0;

        for (; saved->n_stored > 0; saved->n_stored--) {
                ds_handover_name(name, saved->id, saved->n_stored);
                if (uv_hrtime() >= until_ns || ds_notify_unstore(saving->supervisor->notify, name))
                        left++;
        }
        return left;
}

/*
 * Removes the files of refused sessions, or of all sessions, so that the manager does not keep gigabytes of unused
 * memory. The next daemon closes the files that were not removed in time.
 */
static void unstore_some(struct saving *saving, int all)
{
        const uint64_t until_ns = uv_hrtime() + UNSTORE_MAX_NS;
        uint64_t left = 0;

        for (size_t i = 0; i < saving->n_sessions; i++)
                if (all || saving->sessions[i].refused)
                        left += unstore(saving, &saving->sessions[i], until_ns);
        if (all || saving->pool.refused)
                left += unstore(saving, &saving->pool, until_ns);
        if (left)
                ds_log(DS_LOG_WARNING,
                        "the service manager still stores %llu files of sessions that are not handed over",
                        (unsigned long long)left);
}

static int by_user(const void *a, const void *b)
{
        const struct saved *const *x = a, *const *y = b;
        const uid_t u = ds_user_uid((*x)->session->user), v = ds_user_uid((*y)->session->user);

        return u < v ? -1 : u > v;
}

/* Divides the bytes inside the state equally between users, and each user's part between its sessions. */
static int share_inside(struct saving *saving)
{
        const size_t n = saving->n_sessions;
        ds_cleanup(ds_freep) struct saved **sorted = ds_alloc0(n, sizeof(*sorted));
        size_t users = 0;

        if (!sorted)
                return ds_error_origin(-ENOMEM);
        for (size_t i = 0; i < n; i++)
                sorted[i] = &saving->sessions[i];
        qsort(sorted, n, sizeof(*sorted), by_user);
        for (size_t i = 0; i < n; i++)
                users += !i || by_user(&sorted[i - 1], &sorted[i]) != 0;
        for (size_t i = 0, end; i < n; i = end) {
                for (end = i; end < n && by_user(&sorted[i], &sorted[end]) == 0; end++)
                        ;
                for (size_t k = i; k < end; k++)
                        sorted[k]->inside_max = DS_SAVED_INSIDE_ALL / users / (end - i);
        }
        return 0;
}

/* Logs the limit that the session exceeds. */
static void refuse_full(struct saved *saved, const struct ds_fair_room *limits, const struct ds_fair_room *left)
{
        if (saved->n_files > left->of[DS_FAIR_FILES])
                refuse(saved, "it needs %u files; of the %llu files that the service manager stores %llu are free",
                        saved->n_files, (unsigned long long)limits->of[DS_FAIR_FILES],
                        (unsigned long long)left->of[DS_FAIR_FILES]);
        else if (saved->names_bytes > left->of[DS_FAIR_NAMES])
                refuse(saved, "its %u files need %llu bytes of names; of the %llu bytes for names %llu are free",
                        saved->n_files, (unsigned long long)saved->names_bytes,
                        (unsigned long long)limits->of[DS_FAIR_NAMES], (unsigned long long)left->of[DS_FAIR_NAMES]);
        else
                refuse(saved, "its state needs %llu bytes; of the %llu bytes for all sessions %llu are free",
                        (unsigned long long)saved->state_bytes, (unsigned long long)limits->of[DS_FAIR_STATE],
                        (unsigned long long)left->of[DS_FAIR_STATE]);
}

/* The room for sessions: all that the store and the state can hold except the state file and the pool. */
static struct ds_fair_room get_limits(const struct saving *saving)
{
        const size_t files = ds_notify_stores(saving->supervisor->notify) - 1;
        const size_t names = DS_HANDOVER_NAMES_MAX - sizeof(DS_HANDOVER_STATE);
        const struct saved *pool = &saving->pool;

        return (struct ds_fair_room){.of = {
                                             [DS_FAIR_FILES] = files - DS_MIN(files, pool->n_stored),
                                             [DS_FAIR_NAMES] = names - DS_MIN(names, pool->names_bytes),
                                             [DS_FAIR_STATE] = DS_SAVED_MAX - ds_saved_tell(saving->writer),
                                     }};
}

static void store_by_turns(struct saving *saving, ds_fair *fair, const struct ds_fair_room *limits, size_t *numbers)
{
        const uint64_t until = uv_hrtime() + STORE_MAX_NS;
        uint64_t turn_ns;
        size_t at;
        int r;

        for (;;) {
                const uint64_t now = uv_hrtime();

                r = ds_fair_next(fair, now < until ? until - now : 0, &at, &turn_ns);
                if (r == DS_FAIR_E_END)
                        return;
                struct saved *saved = &saving->sessions[numbers[at]];

                if (r == DS_FAIR_E_FULL) {
                        refuse_full(saved, limits, ds_fair_left(fair));
                        continue;
                }
                const uint64_t took_ns = take_turn(saving, saved, turn_ns);

                ds_fair_took(fair, took_ns, saved->refused || is_complete(saved));
        }
}

static int store_sessions(struct saving *saving)
{
        const struct ds_fair_room limits = get_limits(saving);
        ds_cleanup(ds_freep) struct ds_fair_session *needs = ds_alloc0(saving->n_sessions, sizeof(*needs));
        ds_cleanup(ds_freep) size_t *numbers = ds_alloc0(saving->n_sessions, sizeof(*numbers));
        ds_cleanup(ds_fair_freep) ds_fair *fair = NULL;
        size_t n = 0;

        if (!needs || !numbers || share_inside(saving))
                return ds_error_origin(-ENOMEM);
        for (size_t i = 0; i < saving->n_sessions; i++) {
                struct saved *saved = &saving->sessions[i];

                walk(saving, saved, WALK_COUNT);
                if (saved->refused)
                        continue;
                numbers[n] = i;
                needs[n].uid = (uint32_t)ds_user_uid(saved->session->user);
                needs[n].need.of[DS_FAIR_FILES] = saved->n_files;
                needs[n].need.of[DS_FAIR_NAMES] = saved->names_bytes;
                needs[n++].need.of[DS_FAIR_STATE] = saved->state_bytes;
        }
        if (ds_fair_new(needs, n, &limits, &fair))
                return ds_error_origin(-ENOMEM);
        store_by_turns(saving, fair, &limits, numbers);
        for (size_t i = 0; i < saving->n_sessions; i++)
                if (!is_complete(&saving->sessions[i]))
                        refuse(&saving->sessions[i],
                                "only %u of its %u files were stored within the %llu s for all sessions",
                                saving->sessions[i].n_stored, saving->sessions[i].n_files,
                                (unsigned long long)(STORE_MAX_NS / DS_NS_PER_S));
        return 0;
}

/* --- the whole state ---------------------------------------------------------------------------------------------- */

/* Ends the session's pending calls, and returns the session if it still exists. Its client sends unanswered requests
 * again. Calls that the worker had were answered when the worker exited. */
static struct ds_session *end_calls(struct ds_supervisor *supervisor, uint64_t id)
{
        struct ds_session_call *call;
        struct ds_session *session;

        /* an answer may close the client, and the session with it */
        while ((session = ds_session_find(supervisor, id)) && (call = TAILQ_FIRST(&session->calls))) {
                if (call->rpc)
                        ds_session_call_fail(call, DETSHARE__STATUS__RESTARTING, "the daemon is being restarted");
                else
                        ds_session_call_free(call);
        }
        return session;
}

/* Lists the sessions that use the GPU. Ends all their calls first, because that may end a session. */
static int collect(struct saving *saving)
{
        struct ds_supervisor *supervisor = saving->supervisor;
        struct ds_session *session, *next;

        saving->sessions = ds_alloc0(HASH_COUNT(supervisor->session_by_id), sizeof(*saving->sessions));
        if (!saving->sessions)
                return ds_error_origin(-ENOMEM);
        for (session = TAILQ_FIRST(&supervisor->sessions); session; session = next) {
                next = TAILQ_NEXT(session, link);
                if (!session->control_only)
                        end_calls(supervisor, session->id);
        }
        TAILQ_FOREACH(session, &supervisor->sessions, link)
        if (!session->control_only && session->client)
                saving->sessions[saving->n_sessions++] = (struct saved){.id = session->id, .session = session};
        return 0;
}

static int put_header(struct saving *saving)
{
        Detshare__Internal__SavedRecord record = DETSHARE__INTERNAL__SAVED_RECORD__INIT;
        Detshare__Internal__SavedHeader header = DETSHARE__INTERNAL__SAVED_HEADER__INIT;

        header.version = DS_SAVED_VERSION;
        header.device = (char *)(uintptr_t)saving->supervisor->options->device;
        header.device_now_ns = saving->supervisor->device_now_ns;
        header.last_session = saving->supervisor->next_session;
        record.body_case = DETSHARE__INTERNAL__SAVED_RECORD__BODY_HEADER;
        record.header = &header;
        return ds_saved_write(saving->writer, &record);
}

/* Writes the records of a session whose files are all stored. */
static void write_saved(struct saving *saving, struct saved *saved)
{
        const uint64_t at = ds_saved_tell(saving->writer);

        if (!is_complete(saved))
                return;
        walk(saving, saved, WALK_WRITE);
        if (saved->refused)
                (void)ds_saved_back_to(saving->writer, at);
}

/* Saves the pool of coloured memory if a session uses part of it; otherwise the next daemon makes a new pool. */
static void save_pool(struct saving *saving)
{
        struct saved *pool = &saving->pool;

        if (!ds_pool_lent(saving->supervisor) || !saving->supervisor->pool.complete) {
                pool->n_files = 1; /* the pool is incomplete or unused: mark it as not saved */
                return;
        }
        walk(saving, pool, WALK_COUNT);
        if (!pool->refused && pool->n_files >= ds_notify_stores(saving->supervisor->notify))
                refuse(pool, "it needs %u files; the service manager stores %zu", pool->n_files,
                        ds_notify_stores(saving->supervisor->notify));
        if (!pool->refused)
                take_turn(saving, pool, STORE_MAX_NS);
        if (!is_complete(pool))
                refuse(pool, "the service manager did not store it in time");
        write_saved(saving, pool);
}

static int store_state(struct saving *saving)
{
        ds_cleanup(ds_closep) int fd = -1;
        int r = ds_saved_finish(saving->writer, &fd);

        if (!r)
                r = ds_notify_store(saving->supervisor->notify, DS_HANDOVER_STATE, fd, STATE_MAX_NS);
        if (r)
                ds_log(DS_LOG_ERROR, "the state could not be stored: no session is handed over");
        return r;
}

/* Returns the number of sessions in the state. */
static size_t save_sessions(struct saving *saving)
{
        size_t n = 0;

        if (put_header(saving))
                return 0;
        save_pool(saving);
        if (store_sessions(saving))
                return 0;
        for (size_t i = 0; i < saving->n_sessions; i++) {
                write_saved(saving, &saving->sessions[i]);
                n += (size_t)is_complete(&saving->sessions[i]);
        }
        return n;
}

/* Lets the clients of stored sessions go: they continue with the next daemon. */
static void let_go(struct saving *saving)
{
        for (size_t i = 0; i < saving->n_sessions; i++) {
                struct ds_session *session = ds_session_find(saving->supervisor, saving->sessions[i].id);

                if (session && is_complete(&saving->sessions[i]))
                        ds_client_let_go(session->client);
        }
}

void ds_handover_save(struct ds_supervisor *supervisor)
{
        ds_cleanup(ds_saved_writer_freep) ds_saved_writer *writer = NULL;
        struct saving saving = {.supervisor = supervisor};
        size_t n;

        supervisor->handing_over = 0;
        if (ds_saved_writer_new(&writer) || collect(&saving))
                return;
        saving.writer = writer;
        n = save_sessions(&saving);
        if (!n || store_state(&saving)) {
                unstore_some(&saving, 1);
        } else {
                unstore_some(&saving, 0);
                let_go(&saving);
                ds_log(DS_LOG_INFO, "%zu sessions are handed over, %zu are not", n, saving.n_sessions - n);
        }
        ds_free(saving.sessions);
}
