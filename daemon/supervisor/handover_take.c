/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading of the stored sessions; see handover.h
 */
#include <assert.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "supervisor/client.h"
#include "supervisor/handover.h"
#include "supervisor/handover_internal.h"
#include "supervisor/notify.h"
#include "supervisor/reload.h"
#include "supervisor/saved.h"
#include "supervisor/session.h"
#include "supervisor/supervisor.h"
#include "util/error.h"
#include "util/forms_file.h"
#include "util/frame.h"
#include "util/macro.h"

#define WHY_MAX 160

/* State of a handover until its sessions continue. */
struct ds_handover {
        size_t n_sessions;
};

struct taking {
        struct ds_supervisor *supervisor;
        struct ds_given_file **files; /* files with names that ds_handover_name() writes, sorted by name */
        size_t n_files;
        /* session being rebuilt; NULL: the records being read belong to a refused session */
        struct ds_session *session;
        uint64_t id;  /* id of the session being read, also of a refused one */
        uint32_t uid; /* uid of the session being read, as saved */
        size_t n_taken, n_refused;
        struct ds_log_budgets budgets;
        uint64_t lent; /* slabs of the pool that sessions use, as a bit set */
        char why[WHY_MAX];
};

/* --- files -------------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
        const struct ds_given_file *const *x = a, *const *y = b;

        return strcmp((*x)->name, (*y)->name);
}

static int find_by_name(const void *key, const void *element)
{
        const struct ds_given_file *const *file = element;

        return strcmp(key, (*file)->name);
}

static int sort_files(struct taking *taking, struct ds_given_file *files, size_t n)
{
        taking->files = ds_alloc0(n, sizeof(*taking->files));
        if (!taking->files)
                return ds_error_origin(-ENOMEM);
        for (size_t i = 0; i < n; i++)
                if (files[i].fd >= 0 && ds_handover_is_name(files[i].name))
                        taking->files[taking->n_files++] = &files[i];
        qsort(taking->files, taking->n_files, sizeof(*taking->files), by_name);
        return 0;
}

/* Takes the file of this name. Returns -1 if there is no such file or it was used already. */
static int take_name(struct taking *taking, const char *name)
{
        struct ds_given_file **found =
                bsearch(name, taking->files, taking->n_files, sizeof(*taking->files), find_by_name);

        return found ? DS_TAKE_FD((*found)->fd) : -1;
}

static int take_file(struct taking *taking, uint32_t file)
{
        char name[DS_HANDOVER_NAME_MAX];

        if (!file)
                return -1;
        ds_handover_name(name, taking->id, file);
        return take_name(taking, name);
}

/* Whether the file is a valid slab. Device memory of a GPU is a file of the driver, whose properties cannot be
 * checked here. */
static int is_slab(const struct taking *taking, int fd, const Detshare__Internal__Slab *slab)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return 0;
        if (S_ISREG(st.st_mode))
                return ds_page_file_has(fd, slab->bytes, 0);
        return !slab->pinned && strncmp(taking->supervisor->options->device, "sim:", strlen("sim:")) != 0 &&
               !S_ISSOCK(st.st_mode) && !S_ISDIR(st.st_mode) && !S_ISFIFO(st.st_mode);
}

static int is_connection(int fd)
{
        int domain = -1, type = -1, listens = -1;
        socklen_t size = sizeof(int);

        return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
               getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
               getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && !listens;
}

/* Applies the current configuration to a restored session. It may differ from that of the previous daemon. */
static void adapt(struct ds_session *session, const Detshare__Internal__SavedSession *saved)
{
        const struct ds_rights was = {.of = {
                                              [DS_RULE_CLASSES] = {.value = saved->may_classes},
                                              [DS_RULE_SM_PERCENT] = {.value = saved->may_sm_percent},
                                              [DS_RULE_GPU_REQUEST] = {.value = saved->may_gpu_request},
                                              [DS_RULE_GPU_LIMIT] = {.value = saved->may_gpu_limit},
                                      }};

        ds_reload_adapt(session, &was);
}

/* --- records ------------------------------------------------------------------------------------------------------ */

/* Records why the session is refused. Returns nonzero. */
static int ds_printf(2, 3) refuse(struct taking *taking, const char *fmt, ...)
{
        va_list args;

        va_start(args, fmt);
        vsnprintf(taking->why, sizeof(taking->why), fmt, args);
        va_end(args);
        return -1;
}

static int take_client(struct taking *taking, const Detshare__Internal__SavedSession *saved, int *fd)
{
        struct ds_client *client = NULL;
        int r;

        if (*fd < 0)
                return refuse(taking, "its connection is missing");
        if (!is_connection(*fd))
                return refuse(taking, "its connection is not a socket of this kind");
        if (ds_client_restore(taking->supervisor, DS_TAKE_FD(*fd), &client))
                return refuse(taking, "its client could not be restored");
        if (ds_user_uid(ds_client_user(client)) != saved->uid || (uint32_t)ds_client_pid(client) != saved->pid)
                r = refuse(taking, "its connection belongs to another user");
        else
                r = ds_session_restore(taking->supervisor, client, saved, &taking->session)
                            ? refuse(taking, "its saved values are invalid")
                            : 0;
        if (r) {
                ds_client_refuse(client);
                return r;
        }
        ds_client_set_session(client, taking->session);
        adapt(taking->session, saved);
        return 0;
}

/* Finds a shared file that the manager kept under the name of another session. */
static int take_shared(const struct taking *taking, uint64_t id)
{
        ds_share *share = ds_shares_at(taking->supervisor->shares, id);
        int fd = share ? fcntl(ds_share_fd(share), F_DUPFD_CLOEXEC, 0) : -1;

        ds_share_unref(share);
        return fd;
}

static int take_slab(struct taking *taking, const Detshare__Internal__RestoreSlab *restore, int *fd, uint32_t file)
{
        if (file && *fd < 0 && restore->share)
                *fd = take_shared(taking, restore->share);
        if (!restore->slab || (file && *fd < 0))
                return refuse(taking, "a file of its memory is missing");
        if (file && !is_slab(taking, *fd, restore->slab))
                return refuse(taking, "a file of its memory has the wrong kind or size");
        return ds_ledger_restore_slab(taking->session->ledger, taking->supervisor->shares, restore, fd)
                       ? refuse(taking, "the records of its memory are invalid")
                       : 0;
}

static int take_physical(struct taking *taking, const Detshare__Internal__RestorePhysical *restore, int *fd)
{
        Detshare__Internal__Slab slab = DETSHARE__INTERNAL__SLAB__INIT;

        if (*fd < 0 && restore->share)
                *fd = take_shared(taking, restore->share);
        slab.bytes = restore->physical ? restore->physical->bytes : 0;
        if (*fd < 0 || !slab.bytes || !is_slab(taking, *fd, &slab))
                return refuse(taking, "a file of its memory has the wrong kind or size");
        return ds_ledger_restore_physical(taking->session->ledger, taking->supervisor->shares, restore, fd)
                       ? refuse(taking, "the records of its memory are invalid")
                       : 0;
}

static int take_mapping(struct taking *taking, const Detshare__Internal__RestoreMapping *restore)
{
        const Detshare__Internal__Mapping *mapping = restore->mapping;

        if (!mapping || !ds_session_is_reserved(taking->session, mapping->va, mapping->bytes) ||
                ds_ledger_restore_mapping(taking->session->ledger, restore))
                return refuse(taking, "the records of its mappings are invalid");
        return 0;
}

/* Whether the file is a sealed image of this size. A transformed image has a report behind it (util/forms_file.h). */
static int is_image(int fd, uint64_t bytes)
{
        struct stat st;

        if (bytes > DS_IMAGE_BYTES_MAX || fstat(fd, &st) < 0 || st.st_size < 0 || (uint64_t)st.st_size < bytes)
                return 0;
        return (uint64_t)st.st_size - bytes <= DS_FORMS_REPORT_MAX &&
               ds_page_file_has(fd, (uint64_t)st.st_size, F_SEAL_WRITE);
}

static int take_module(struct taking *taking, const Detshare__Internal__RestoreModule *restore, int *fd)
{
        if (*fd < 0)
                return refuse(taking, "a module's image is missing");
        if (!is_image(*fd, restore->bytes))
                return refuse(taking, "a module's image has the wrong kind or size");
        return ds_ledger_restore_module(taking->session->ledger, restore, fd)
                       ? refuse(taking, "the records of its modules are invalid")
                       : 0;
}

static int take_graph(struct taking *taking, const Detshare__Internal__RestoreGraph *restore, int *fd)
{
        if (*fd < 0)
                return refuse(taking, "a graph's file is missing");
        if (restore->bytes > DS_GRAPH_BYTES_MAX || !ds_page_file_has(*fd, restore->bytes, 0))
                return refuse(taking, "a graph's file has the wrong kind or size");
        return ds_ledger_restore_graph(taking->session->ledger, restore, fd)
                       ? refuse(taking, "the records of its graphs are invalid")
                       : 0;
}

static int take_ring(struct taking *taking, const Detshare__Internal__SavedRing *ring, int *fd)
{
        struct ds_session *session = taking->session;

        if (*fd < 0 || session->ring_kept)
                return refuse(taking, "its ring is missing");
        if (ds_ring_adopt(DS_TAKE_FD(*fd), &session->ring))
                return refuse(taking, "its ring's file has the wrong kind or size");
        session->ring_kept = 1;
        session->ring_head = ring->head;
        return 0;
}

static int take_text(struct taking *taking, const Detshare__Internal__SavedText *text)
{
        if (text->text.len > DS_OUTPUT_PAGE_MAX)
                return refuse(taking, "its printed text is larger than a session may keep");
        ds_output_add(taking->session, text->to_stderr, text->text.data, text->text.len);
        return 0;
}

static int take_under_way(struct taking *taking, const Detshare__Internal__SavedRecord *record, int *fd)
{
        ds_conn *conn = ds_client_conn(taking->session->client);
        int r = 1;

        switch (record->body_case) {
        case DETSHARE__INTERNAL__SAVED_RECORD__BODY_RECEIVED:
                r = ds_conn_put_received(conn, record->received->bytes.data, record->received->bytes.len);
                break;
        case DETSHARE__INTERNAL__SAVED_RECORD__BODY_REPLY:
                r = ds_conn_put_queued(conn, record->reply->frame.data, record->reply->frame.len, record->reply->sent);
                break;
        case DETSHARE__INTERNAL__SAVED_RECORD__BODY_RECEIVED_FILE:
                r = *fd < 0 ? 1 : ds_conn_put_received_fd(conn, fd);
                break;
        case DETSHARE__INTERNAL__SAVED_RECORD__BODY_REPLY_FILE:
                r = *fd < 0 ? 1 : ds_conn_put_queued_fd(conn, fd);
                break;
        default:
                break;
        }
        return r ? refuse(taking, "its incomplete requests or replies are invalid") : 0;
}

/* Reads the pool, which comes before all sessions. An invalid pool is dropped, and sessions that use a part of it
 * are refused. */
static void take_pool(struct taking *taking, const Detshare__Internal__SavedRecord *record)
{
        struct ds_supervisor *supervisor = taking->supervisor;
        ds_cleanup(ds_closep) int fd = take_file(taking, record->file);

        if (ds_pool_take_over(&supervisor->pool, record->pool,
                    !strncmp(supervisor->options->device, "sim:", strlen("sim:")), &fd))
                ds_pool_deinit(&supervisor->pool);
}

static int take_lent(struct taking *taking, const Detshare__Internal__RestoreLent *restore)
{
        const struct ds_pool *pool = &taking->supervisor->pool;
        const Detshare__Internal__Lent *lent = restore->lent;

        if (!lent || !pool->complete || lent->slab >= pool->facts.n_slabs || lent->bytes != pool->facts.slab_bytes)
                return refuse(taking, "its coloured memory is missing");
        if (taking->lent >> lent->slab & 1 || ds_ledger_restore_lent(taking->session->ledger, restore))
                return refuse(taking, "the records of its coloured memory are invalid");
        taking->lent |= UINT64_C(1) << lent->slab;
        return 0;
}

/* Restores one part of the session from its record. */
static int take_part(struct taking *taking, const Detshare__Internal__SavedRecord *record, int *fd)
{
        switch (record->body_case) {
        case DETSHARE__INTERNAL__SAVED_RECORD__BODY_SLAB:
                return take_slab(taking, record->slab, fd, record->file);
        case DETSHARE__INTERNAL__SAVED_RECORD__BODY_PHYSICAL:
                return take_physical(taking, record->physical, fd);
        case DETSHARE__INTERNAL__SAVED_RECORD__BODY_MAPPING:
                return take_mapping(taking, record->mapping);
        case DETSHARE__INTERNAL__SAVED_RECORD__BODY_MODULE:
                return take_module(taking, record->module, fd);
        case DETSHARE__INTERNAL__SAVED_RECORD__BODY_LENT:
                return take_lent(taking, record->lent);
        case DETSHARE__INTERNAL__SAVED_RECORD__BODY_GRAPH:
                return take_graph(taking, record->graph, fd);
        case DETSHARE__INTERNAL__SAVED_RECORD__BODY_STREAM:
                return ds_ledger_restore_stream(taking->session->ledger, record->stream)
                               ? refuse(taking, "the records of its streams are invalid")
                               : 0;
        case DETSHARE__INTERNAL__SAVED_RECORD__BODY_RING:
                return take_ring(taking, record->ring, fd);
        case DETSHARE__INTERNAL__SAVED_RECORD__BODY_TEXT:
                return take_text(taking, record->text);
        default:
                return take_under_way(taking, record, fd);
        }
}

/* --- one session -------------------------------------------------------------------------------------------------- */

static void drop_session(struct taking *taking)
{
        ds_log_limited(ds_log_budget_of(&taking->budgets, taking->uid), uv_hrtime(), DS_LOG_ERROR,
                "session %llu (uid %u) of the previous daemon cannot continue: %s", (unsigned long long)taking->id,
                (unsigned)taking->uid, taking->why[0] ? taking->why : "its state is damaged");
        taking->n_refused++;
        if (taking->session) {
                struct ds_client *client = DS_TAKE_PTR(taking->session)->client;

                ds_client_refuse(client);
        }
        taking->id = 0;
        taking->why[0] = 0;
}

static void begin_session(struct taking *taking, const Detshare__Internal__SavedRecord *record, int *fd)
{
        /* the record that ends the previous session is missing */
        if (taking->id)
                drop_session(taking);
        taking->id = record->session->session;
        taking->uid = record->session->uid;
        *fd = take_file(taking, record->file);
        if (take_client(taking, record->session, fd))
                drop_session(taking);
}

/* Creates a file that was saved inside its record. Only files of graphs and modules are valid here. The worker writes
 * into the file of a graph. */
static int take_content(struct taking *taking, const Detshare__Internal__SavedRecord *record, int *fd)
{
        const int is_graph = record->body_case == DETSHARE__INTERNAL__SAVED_RECORD__BODY_GRAPH;
        int r;

        if (record->file || (!is_graph && record->body_case != DETSHARE__INTERNAL__SAVED_RECORD__BODY_MODULE))
                return refuse(taking, "a record embeds a file that must not be embedded");
        r = ds_saved_make_file(record->content, is_graph ? 0 : F_SEAL_WRITE, fd);
        if (r > 0)
                return refuse(taking, "an embedded file has %zu bytes; at most %u are accepted",
                        record->content->bytes.len, DS_SAVED_INSIDE_MAX);
        return r ? refuse(taking, "an embedded file could not be restored: %s", strerror(-r)) : 0;
}

static void take_record(struct taking *taking, const Detshare__Internal__SavedRecord *record)
{
        ds_cleanup(ds_closep) int fd = -1;

        if (record->body_case == DETSHARE__INTERNAL__SAVED_RECORD__BODY_SESSION) {
                begin_session(taking, record, &fd);
                return;
        }
        if (!taking->id) {
                if (record->body_case == DETSHARE__INTERNAL__SAVED_RECORD__BODY_POOL && !taking->n_taken)
                        take_pool(taking, record);
                return;
        }
        if (record->body_case == DETSHARE__INTERNAL__SAVED_RECORD__BODY_DONE) {
                if (record->done->session == taking->id) {
                        taking->n_taken++;
                        taking->session = NULL;
                        taking->id = 0;
                } else {
                        drop_session(taking);
                }
                return;
        }
        if (!record->content)
                fd = take_file(taking, record->file);
        else if (take_content(taking, record, &fd)) {
                drop_session(taking);
                return;
        }
        if (take_part(taking, record, &fd))
                drop_session(taking);
}

/* --- the whole state ---------------------------------------------------------------------------------------------- */

static int check_header(struct taking *taking, ds_saved_reader *reader)
{
        const Detshare__Internal__SavedRecord *record;
        const Detshare__Internal__SavedHeader *header;
        const char *device = taking->supervisor->options->device;

        if (ds_saved_next(reader, &record) || record->body_case != DETSHARE__INTERNAL__SAVED_RECORD__BODY_HEADER)
                return refuse(taking, "it is damaged");
        header = record->header;
        if (header->version < DS_SAVED_VERSION_OLDEST || header->version > DS_SAVED_VERSION)
                return refuse(taking, "its version is %u; %u to %u are accepted", header->version,
                        DS_SAVED_VERSION_OLDEST, DS_SAVED_VERSION);
        if (strcmp(header->device, device) != 0)
                return refuse(taking, "it is from a daemon with another device");
        taking->supervisor->next_session = header->last_session;
        taking->supervisor->device_now_ns = DS_MIN(header->device_now_ns, UINT64_MAX / 4);
        return 0;
}

static int read_records(struct taking *taking, ds_saved_reader *reader)
{
        const Detshare__Internal__SavedRecord *record;
        int r = check_header(taking, reader);

        while (!r && (r = ds_saved_next(reader, &record)) != DS_SAVED_E_END) {
                if (r == 0)
                        take_record(taking, record);
                else if (taking->id)
                        drop_session(taking);
                r = 0;
        }
        if (r == DS_SAVED_E_END && taking->id)
                drop_session(taking);
        return r == DS_SAVED_E_END ? 0 : r;
}

static void read_state(struct taking *taking)
{
        ds_cleanup(ds_saved_reader_freep) ds_saved_reader *reader = NULL;
        ds_cleanup(ds_closep) int fd = take_name(taking, DS_HANDOVER_STATE);

        if (fd < 0)
                (void)refuse(taking, "it is missing");
        else if (ds_saved_reader_new(fd, &reader))
                (void)refuse(taking, "it is not a state file");
        else if (read_records(taking, reader) == 0)
                return;
        ds_log(DS_LOG_ERROR, "the state of the previous daemon is not usable: %s; its clients are closed", taking->why);
}

/* Closes the files of refused sessions, and files that no session names. */
static void close_rest(struct taking *taking)
{
        size_t n = 0;

        for (size_t i = 0; i < taking->n_files; i++) {
                n += taking->files[i]->fd >= 0;
                taking->files[i]->fd = ds_close(taking->files[i]->fd);
        }
        if (taking->n_refused)
                ds_log(DS_LOG_ERROR, "%zu sessions of the previous daemon cannot continue", taking->n_refused);
        if (n && !taking->n_refused)
                ds_log(DS_LOG_WARNING, "%zu stored files belong to no session and are closed", n);
}

int ds_handover_take_files(struct ds_supervisor *supervisor, struct ds_given_file *files, size_t n)
{
        struct taking taking = {.supervisor = supervisor};
        int r = sort_files(&taking, files, n);

        if (!r && taking.n_files) {
                supervisor->handover = ds_alloc0(1, sizeof(*supervisor->handover));
                r = supervisor->handover ? 0 : ds_error_origin(-ENOMEM);
        }
        if (!r && taking.n_files) {
                read_state(&taking);
                close_rest(&taking);
                supervisor->handover->n_sessions = taking.n_taken;
        }
        ds_free(taking.files);
        return r;
}

int ds_handover_take(struct ds_supervisor *supervisor)
{
        size_t n;
        struct ds_given_file *files = ds_notify_files(supervisor->notify, &n);

        return ds_handover_take_files(supervisor, files, n);
}

static void forget_store(struct ds_supervisor *supervisor)
{
        size_t n, left = 0;
        struct ds_given_file *files = ds_notify_files(supervisor->notify, &n);

        for (size_t i = 0; i < n; i++)
                if (ds_handover_is_name(files[i].name) && ds_notify_unstore(supervisor->notify, files[i].name))
                        left++;
        if (left)
                ds_log(DS_LOG_WARNING, "the service manager still stores %zu files of the previous daemon", left);
}

void ds_handover_resume(struct ds_supervisor *supervisor)
{
        struct ds_client *client, *next;
        size_t n;

        if (!supervisor->handover)
                return;
        n = supervisor->handover->n_sessions;
        supervisor->handover = ds_free(supervisor->handover);
        forget_store(supervisor);
        for (client = TAILQ_FIRST(&supervisor->clients); client; client = next) {
                next = ds_client_next(supervisor, client);
                ds_client_resume(client);
        }
        ds_log(DS_LOG_INFO, "%zu sessions of the previous daemon continue", n);
}

void ds_handover_drop(struct ds_supervisor *supervisor)
{
        struct ds_client *client;

        if (!supervisor->handover)
                return;
        while ((client = TAILQ_FIRST(&supervisor->clients)))
                ds_client_let_go(client);
        supervisor->handover = ds_free(supervisor->handover);
}
