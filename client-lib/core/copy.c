/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between the device and pageable host memory
 *
 * The daemon cannot access pageable memory, so bytes go through the arena: pinned memory of the session, cut into
 * pieces. A write fills one piece after another and lets the device copy, so that filling and copying overlap; it
 * returns when all bytes are in the arena. A read keeps a few pieces in flight and empties them in order. While it waits
 * for the work before it, it has the kernel allocate the pages of its destination: a program often reads into memory
 * that it has just allocated, and each first access to a page would cost as much as copying the page.
 *
 * There are large and small pieces, so that a thousand four-byte copies do not wait for each other. A piece is free, in
 * flight (free again when its operation has ended), or owned by a thread that fills or empties it. No lock is held
 * while a thread waits for the device.
 *
 * Over DETSHARE_TRANSPORT=rpc the bytes travel in the requests.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/internal.h"
#include "core/uncached.h"

#define LARGE_AREA (12u << 20)      /* bytes of the arena that are cut into large pieces */
#define LARGE_BYTES_MIN (64u << 10) /* smallest size of a large piece */
#define N_LARGE_MAX (LARGE_AREA / LARGE_BYTES_MIN)
#define SMALL_BYTES 4096u
#define N_SMALL 1024u
#define READ_AHEAD_MAX 16u
#define CALL_BYTES 61440u
#define OWNER_NAP_NS 50000
#define ALLOCATE_BYTES (256u << 10) /* pages that a read allocates between two looks at its operation */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

_Static_assert(LARGE_AREA + N_SMALL * SMALL_BYTES <= DS_ARENA_BYTES, "pieces do not fit the arena");

static struct dsc_copy_tuning tuning = {.piece_bytes = 256u << 10,
        .read_ahead = 4,
        .write_method = DSC_COPY_PREFETCHED,
        .read_method = DSC_COPY_PREFETCHED};

enum piece_state { PIECE_FREE, PIECE_FLIGHT, PIECE_OWNED };

struct piece {
        uint64_t seq;  /* sequence number of the operation that uses the piece; 0: none yet */
        uint64_t turn; /* number of pieces that were taken before this one */
        uint16_t stream;
        uint8_t state;
};

struct dsc__arena {
        uint64_t address, bytes;
        uint32_t next_small;
        uint64_t turns;                             /* number of pieces taken so far */
        struct piece pieces[N_LARGE_MAX + N_SMALL]; /* large pieces first */
};

/* A rectangle of bytes in device and host memory, and how much of it is copied so far. */
struct job {
        uint32_t stream;
        uint64_t device, device_pitch;
        uint8_t *host;
        uint64_t host_pitch, width, height;
        uint64_t row, column;
        uint32_t method; /* enum dsc_copy_method */
};

struct part {
        uint64_t device, width, rows;
        uint8_t *host;
        uint32_t piece;
        uint64_t seq;
};

/* --- the arena --- */

static int make_arena(dsc_session *s)
{
        struct dsc__memory *m = &s->memory;
        struct dsc__arena *arena = calloc(1, sizeof(*arena));
        if (!arena)
                return DSC__OUT_OF_MEMORY;
        int r = dsc__pinned_map(s, DS_ARENA_BYTES, &arena->address, &arena->bytes);
        if (r) {
                free(arena);
                return r;
        }
        pthread_mutex_lock(&m->arena_lock);
        if (!m->arena) {
                m->arena = arena;
                arena = NULL;
        }
        pthread_mutex_unlock(&m->arena_lock);
        if (arena) { /* another thread made the arena first */
                dsc__pinned_release(s, arena->address, arena->bytes);
                free(arena);
        }
        return 0;
}

static int need_arena(dsc_session *s)
{
        pthread_mutex_lock(&s->memory.arena_lock);
        const bool there = s->memory.arena;
        pthread_mutex_unlock(&s->memory.arena_lock);
        return there ? 0 : make_arena(s);
}

void dsc__arena_drop(dsc_session *s)
{
        struct dsc__arena *arena = s->memory.arena;
        s->memory.arena = NULL;
        if (arena)
                dsc__pinned_unmap(s, arena->address, arena->bytes);
        free(arena);
}

static uint64_t piece_address(const struct dsc__arena *arena, uint32_t piece)
{
        if (piece < N_LARGE_MAX)
                return arena->address + (uint64_t)piece * tuning.piece_bytes;
        return arena->address + LARGE_AREA + (uint64_t)(piece - N_LARGE_MAX) * SMALL_BYTES;
}

static bool take_locked(dsc_session *s, uint32_t at)
{
        struct piece *piece = &s->memory.arena->pieces[at];
        if (piece->state == PIECE_OWNED || (piece->state == PIECE_FLIGHT && !dsc__ended(s, piece->stream, piece->seq)))
                return false;
        *piece = (struct piece){.state = PIECE_OWNED, .turn = s->memory.arena->turns++};
        return true;
}

/*
 * Takes the first free large piece, so that a copy uses few pieces again and again, whose lines are in a cache. 1:
 * *ret_piece is the piece. 0: none is free; *ret_busy is the one in flight for the longest time, or any owned one.
 */
static int large_locked(dsc_session *s, uint32_t *ret_piece, struct piece *ret_busy)
{
        const struct dsc__arena *arena = s->memory.arena;
        const struct piece *busy = &arena->pieces[0];
        for (uint32_t at = 0; at < LARGE_AREA / tuning.piece_bytes; at++) {
                const struct piece *piece = &arena->pieces[at];
                if (take_locked(s, at)) {
                        *ret_piece = at;
                        return 1;
                }
                if (piece->state == PIECE_FLIGHT && (busy->state != PIECE_FLIGHT || piece->turn < busy->turn))
                        busy = piece;
        }
        *ret_busy = *busy;
        return 0;
}

/* As large_locked(), in turn: with hundreds of small copies in flight, the next piece is the likeliest to be free. */
static int small_locked(dsc_session *s, uint32_t *ret_piece, struct piece *ret_busy)
{
        struct dsc__arena *arena = s->memory.arena;
        for (uint32_t i = 0; i < N_SMALL; i++) {
                const uint32_t at = N_LARGE_MAX + (arena->next_small + i) % N_SMALL;
                if (!take_locked(s, at))
                        continue;
                *ret_piece = at;
                arena->next_small = (at - N_LARGE_MAX + 1) % N_SMALL;
                return 1;
        }
        *ret_busy = arena->pieces[N_LARGE_MAX + arena->next_small];
        return 0;
}

/* Takes a free piece of the arena. 1: *ret_piece is the piece. 0: none is free; *ret_busy is one to wait for. */
static int try_piece(dsc_session *s, bool small, uint32_t *ret_piece, struct piece *ret_busy)
{
        pthread_mutex_lock(&s->memory.arena_lock);
        const int found = (small ? small_locked : large_locked)(s, ret_piece, ret_busy);
        pthread_mutex_unlock(&s->memory.arena_lock);
        return found;
}

static int wait_for_piece(dsc_session *s, const struct piece *busy)
{
        if (busy->seq && !dsc__ended(s, busy->stream, busy->seq))
                return dsc_wait(s, busy->stream, busy->seq);
        const struct timespec t = {.tv_nsec = OWNER_NAP_NS}; /* a thread owns the piece: no operation to wait for */
        nanosleep(&t, NULL);
        return dsc__usable(s);
}

static int get_piece(dsc_session *s, bool small, uint32_t *ret_piece)
{
        struct piece busy;
        while (!try_piece(s, small, ret_piece, &busy)) {
                int r = wait_for_piece(s, &busy);
                if (r)
                        return r;
        }
        return 0;
}

static void set_piece(dsc_session *s, uint32_t piece, enum piece_state state, uint32_t stream, uint64_t seq)
{
        pthread_mutex_lock(&s->memory.arena_lock);
        struct piece *p = &s->memory.arena->pieces[piece];
        *p = (struct piece){.state = state, .stream = (uint16_t)stream, .seq = seq, .turn = p->turn};
        pthread_mutex_unlock(&s->memory.arena_lock);
}

/* --- cutting a rectangle into parts --- */

static int make_job(struct job *job)
{
        uint64_t bytes;
        if (__builtin_mul_overflow(job->width, job->height, &bytes) || job->stream >= DS_STREAMS_MAX)
                return DSC__INVALID_VALUE;
        if (job->height > 1 && (job->device_pitch < job->width || job->host_pitch < job->width))
                return DSC__INVALID_VALUE;
        if (job->height > 1 && job->device_pitch == job->width && job->host_pitch == job->width) {
                job->width = bytes;
                job->height = 1;
        }
        if (bytes == 0)
                job->height = 0;
        return 0;
}

/* *ret: next part of the rectangle, of whole rows or of a piece of one row. False: nothing is left. */
static bool next_part(struct job *job, uint64_t limit, struct part *ret)
{
        if (job->row >= job->height)
                return false;
        ret->device = job->device + job->row * job->device_pitch + job->column;
        ret->host = job->host + job->row * job->host_pitch + job->column;
        if (job->width > limit) {
                const uint64_t left = job->width - job->column;
                ret->rows = 1;
                ret->width = left < limit ? left : limit;
                job->column += ret->width;
                if (job->column == job->width) {
                        job->column = 0;
                        job->row++;
                }
        } else {
                const uint64_t fit = limit / job->width, left = job->height - job->row;
                ret->width = job->width;
                ret->rows = fit < left ? fit : left;
                job->row += ret->rows;
        }
        return true;
}

static void copy_rows(uint8_t *to, uint64_t to_pitch, const uint8_t *from, uint64_t from_pitch, const struct part *part,
        uint32_t method)
{
        for (uint64_t i = 0; i < part->rows; i++)
                if (method == DSC_COPY_CACHED || part->width < SMALL_BYTES)
                        memcpy(to + i * to_pitch, from + i * from_pitch, part->width);
                else
                        dsc__copy_uncached(
                                to + i * to_pitch, from + i * from_pitch, part->width, method == DSC_COPY_PREFETCHED);
}

/* --- through the arena --- */

static int submit_part(dsc_session *s, const struct job *job, struct part *part, bool write)
{
        const uint64_t staged = piece_address(s->memory.arena, part->piece);
        const bool pinned = dsc__in_pinned_half(s, part->device, 1);
        struct ds_record_copy record = {
                .head = {.type = DS_RECORD_COPY, .stream = (uint16_t)job->stream},
                .kind = pinned  ? DSC_HTOH
                        : write ? DSC_HTOD
                                : DSC_DTOH,
                .dst = write ? part->device : staged,
                .src = write ? staged : part->device,
                .width = part->width,
                .height = part->rows,
                .dst_pitch = write ? job->device_pitch : part->width,
                .src_pitch = write ? part->width : job->device_pitch,
        };
        return dsc__submit(s, &record.head, sizeof(record), NULL, 0, &part->seq);
}

static uint64_t part_limit(const struct job *job)
{
        return job->width <= SMALL_BYTES && job->height <= SMALL_BYTES / job->width ? SMALL_BYTES : tuning.piece_bytes;
}

static int write_staged(dsc_session *s, struct job *job)
{
        struct part part;
        const uint64_t limit = job->height ? part_limit(job) : 0;
        while (next_part(job, limit, &part)) {
                part.seq = 0;
                int r = get_piece(s, limit == SMALL_BYTES, &part.piece);
                if (r)
                        return r;
                uint8_t *staged = (uint8_t *)(uintptr_t)piece_address(s->memory.arena, part.piece);
                copy_rows(staged, part.width, part.host, job->host_pitch, &part, job->method);
                r = submit_part(s, job, &part, true);
                set_piece(s, part.piece, r ? PIECE_FREE : PIECE_FLIGHT, job->stream, part.seq);
                if (r)
                        return r;
        }
        return 0;
}

/* Submits parts of a read until enough are in flight, or none is left. Returns 0 or an error. */
static int read_ahead(
        dsc_session *s, struct job *job, struct part *parts, uint64_t *started, uint64_t finished, uint64_t limit)
{
        const bool small = limit == SMALL_BYTES;
        struct piece busy;
        while (*started - finished < tuning.read_ahead && job->row < job->height) {
                struct part *part = &parts[*started % READ_AHEAD_MAX];
                int r = 0;
                uint32_t piece;
                if (*started == finished)
                        r = get_piece(s, small, &piece);
                else if (!try_piece(s, small, &piece, &busy))
                        return 0; /* no piece is free: first finish a part that this copy already has in flight */
                if (r)
                        return r;
                next_part(job, limit, part);
                part->piece = piece;
                r = submit_part(s, job, part, false);
                set_piece(s, piece, r ? PIECE_FREE : PIECE_OWNED, job->stream, r ? 0 : part->seq);
                if (r)
                        return r;
                ++*started;
        }
        return 0;
}

/*
 * Allocates the whole pages in [from, end) until the part's operation has ended, or will not end. Changes no byte. Where
 * the kernel cannot do that (before Linux 5.14), or refuses it for this memory, the copy allocates them.
 */
static void allocate_pages(
        dsc_session *s, const struct job *job, const struct part *part, uintptr_t from, uintptr_t end)
{
        const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        uintptr_t at = (from + page - 1) / page * page;
        end = end / page * page;
        while (at < end && !dsc__ended_or_over(s, job->stream, part->seq)) {
                const uintptr_t bytes = end - at < ALLOCATE_BYTES ? end - at : ALLOCATE_BYTES;
                if (madvise((void *)at, bytes, MADV_POPULATE_WRITE))
                        return;
                at += bytes;
        }
}

static int read_staged(dsc_session *s, struct job *job)
{
        struct part parts[READ_AHEAD_MAX];
        uint64_t started = 0, finished = 0;
        int r = 0;
        const uint64_t limit = job->height ? part_limit(job) : 0;
        const bool large = limit != SMALL_BYTES && job->height == 1;
        const uintptr_t from = (uintptr_t)job->host, end = from + job->width;
        while (!r && (r = read_ahead(s, job, parts, &started, finished, limit)) == 0 && finished < started) {
                const struct part *part = &parts[finished++ % READ_AHEAD_MAX];
                const uint8_t *staged = (const uint8_t *)(uintptr_t)piece_address(s->memory.arena, part->piece);
                if (large && finished == 1)
                        allocate_pages(s, job, part, from, end);
                r = dsc_wait(s, job->stream, part->seq);
                if (!r)
                        copy_rows(part->host, job->host_pitch, staged, part->width, part, job->method);
                set_piece(s, part->piece, r ? PIECE_FLIGHT : PIECE_FREE, job->stream, part->seq);
        }
        for (; finished < started; finished++)
                set_piece(s, parts[finished % READ_AHEAD_MAX].piece, PIECE_FLIGHT, job->stream,
                        parts[finished % READ_AHEAD_MAX].seq);
        return r;
}

/* --- bytes in requests ------------ */

static int write_call(dsc_session *s, const struct job *job, const struct part *part)
{
        Detshare__Write write = DETSHARE__WRITE__INIT;
        write.stream = job->stream;
        write.dst = part->device;
        write.data = (ProtobufCBinaryData){.len = part->width, .data = part->host};
        Detshare__Request request = DSC__REQUEST(WRITE, write, &write);
        return dsc__submit_call(s, job->stream, &request, NULL);
}

static int read_call(dsc_session *s, const struct job *job, const struct part *part)
{
        Detshare__Read read = DETSHARE__READ__INIT;
        read.stream = job->stream;
        read.src = part->device;
        read.bytes = (uint32_t)part->width;
        Detshare__Request request = DSC__REQUEST(READ, read, &read);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_READ, &answer);
        if (r)
                return r;
        const ProtobufCBinaryData *data = &answer.reply->read->data;
        if (data->len == part->width)
                memcpy(part->host, data->data, data->len);
        else
                r = DETSHARE__STATUS__INTERNAL;
        dsc__answer_clear(&answer);
        return r;
}

/* Copies by requests, one row at a time, because a request carries bytes without a pitch. */
static int by_calls(
        dsc_session *s, struct job *job, int (*call)(dsc_session *, const struct job *, const struct part *))
{
        struct part part;
        int r = 0;
        while (!r && next_part(job, CALL_BYTES, &part)) {
                const uint64_t rows = part.rows;
                for (uint64_t i = 0; i < rows && !r; i++) {
                        r = call(s, job, &part);
                        part.device += job->device_pitch;
                        part.host += job->host_pitch;
                }
        }
        return r;
}

/* --- entry points ----------------- */

int dsc_copy_tune(const struct dsc_copy_tuning *want)
{
        if (want->piece_bytes < LARGE_BYTES_MIN || want->piece_bytes > LARGE_AREA || want->piece_bytes % 4096 ||
                want->read_ahead == 0 || want->read_ahead > READ_AHEAD_MAX ||
                want->write_method > DSC_COPY_PREFETCHED || want->read_method > DSC_COPY_PREFETCHED)
                return DSC__INVALID_VALUE;
        tuning = *want;
        return 0;
}

static int run_job(dsc_session *s, struct job *job, bool write)
{
        int r = dsc__usable(s);
        if (!r)
                r = make_job(job);
        if (r)
                return r;
        if (job->width * job->height >= DSC__UNCACHED_BYTES)
                job->method = write ? tuning.write_method : tuning.read_method;
        if (s->socket_only) {
                r = by_calls(s, job, write ? write_call : read_call);
                dsc_output(s);
                return r;
        }
        pthread_rwlock_rdlock(&s->memory.use);
        r = need_arena(s);
        if (!r)
                r = write ? write_staged(s, job) : read_staged(s, job);
        pthread_rwlock_unlock(&s->memory.use);
        dsc_output(s);
        return r;
}

int dsc_write(dsc_session *s, uint32_t stream, uint64_t dst, uint64_t dst_pitch, const void *src, size_t src_pitch,
        size_t width, size_t height)
{
        struct job job = {
                .stream = stream,
                .device = dst,
                .device_pitch = dst_pitch,
                .host = (uint8_t *)src, /* the source is only read, so the cast is safe */
                .host_pitch = src_pitch,
                .width = width,
                .height = height,
        };
        return run_job(s, &job, true);
}

int dsc_read(dsc_session *s, uint32_t stream, void *dst, size_t dst_pitch, uint64_t src, uint64_t src_pitch,
        size_t width, size_t height)
{
        struct job job = {
                .stream = stream,
                .device = src,
                .device_pitch = src_pitch,
                .host = dst,
                .host_pitch = dst_pitch,
                .width = width,
                .height = height,
        };
        return run_job(s, &job, false);
}
