/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that kernels print: from the execution threads to the owner
 *
 * A kernel's text stays with its job until the job's completion is returned. Then it waits in one queue for sim_output.
 * So text arrives in the order of completions, and never before its kernel has ended on the clock.
 *
 * A space's unread text, over all its jobs, is bounded by the printf FIFO's limit. When it is full the oldest text is
 * lost, as in a GPU's buffer: whole calls of the job that prints, or the new text when that job has none.
 */
#include <string.h>

#include "device/sim/internal.h"
#include "util/alloc.h"

#define PIECE_MAX DS_KIB(48)

/* Header in front of the text of one printf call. */
struct head {
        uint32_t size;
        uint32_t to_stderr;
};

struct sim_text {
        struct sim_text *next;
        uint32_t space;
        uint8_t *bytes;
        size_t begin, end, capacity; /* the bytes [begin, end) hold whole calls */
};

static struct sim_text *text_free(struct sim_text *text)
{
        if (text)
                ds_free(text->bytes);
        return ds_free(text);
}

static size_t call_bytes(const struct sim_text *text)
{
        struct head head;

        memcpy(&head, text->bytes + text->begin, sizeof(head));
        return sizeof(head) + head.size;
}

/* Reserves n bytes behind `end`; reuses the space of calls that were dropped. */
static bool text_reserve(struct sim_text *text, size_t n)
{
        size_t used = text->end - text->begin, capacity = DS_MAX(text->capacity, (size_t)4096);
        uint8_t *bytes;

        if (n <= text->capacity - text->end)
                return true;
        /* moves the text to the front only if at least half is free, so that each byte moves few times */
        if (text->begin >= used && n <= text->capacity - used) {
                memmove(text->bytes, text->bytes + text->begin, used);
        } else {
                while (capacity < 2 * used + n)
                        capacity *= 2;
                bytes = ds_alloc(capacity);
                if (!bytes)
                        return false;
                if (used)
                        memcpy(bytes, text->bytes + text->begin, used);
                ds_free(text->bytes);
                text->bytes = bytes;
                text->capacity = capacity;
        }
        text->begin = 0;
        text->end = used;
        return true;
}

/* Reserves n bytes of the space's limit, by dropping the job's oldest text if necessary; false: the job has no text
 * to drop. */
static bool text_charge(struct sim_space *space, struct sim_text *text, uint64_t limit, size_t n)
{
        size_t oldest;

        if (n > limit)
                return false;
        while (atomic_fetch_add(&space->text_bytes, n) + n > limit) {
                atomic_fetch_sub(&space->text_bytes, n);
                if (text->begin == text->end)
                        return false;
                oldest = call_bytes(text);
                text->begin += oldest;
                atomic_fetch_sub(&space->text_bytes, oldest);
        }
        return true;
}

void sim_text_add(ds_device *device, struct sim_job *job, int to_stderr, const char *bytes, size_t size)
{
        const struct head head = {.size = (uint32_t)size, .to_stderr = to_stderr != 0};
        size_t n = sizeof(head) + size;
        struct sim_text *text = job->text;

        if (!text) {
                text = job->text = ds_alloc0(1, sizeof(*text));
                if (!text)
                        return;
                text->space = job->space->id;
        }
        if (!text_charge(job->space, text, atomic_load(&device->text_limit), n))
                return;
        if (!text_reserve(text, n)) {
                atomic_fetch_sub(&job->space->text_bytes, n);
                return;
        }
        memcpy(text->bytes + text->end, &head, sizeof(head));
        memcpy(text->bytes + text->end + sizeof(head), bytes, size);
        text->end += n;
}

void sim_text_publish(ds_device *device, struct sim_job *job)
{
        struct sim_text *text = job->text;

        if (!text)
                return;
        job->text = NULL;
        text->next = NULL;
        *(device->texts_tail ? &device->texts_tail->next : &device->texts) = text;
        device->texts_tail = text;
}

static void text_uncharge(ds_device *device, uint32_t space_id, size_t n)
{
        struct sim_space *space = sim_space_find(device, space_id);

        if (space)
                atomic_fetch_sub(&space->text_bytes, n);
}

void sim_text_drop(ds_device *device, struct sim_job *job)
{
        if (job->text)
                text_uncharge(device, job->text->space, job->text->end - job->text->begin);
        job->text = text_free(job->text);
}

/* Copies the first calls of the text with the same destination (stdout or stderr), as many as fit a piece, to
 * device->piece. */
static void text_take(ds_device *device, struct sim_text *text, struct ds_device_output *ret)
{
        size_t begin = text->begin, size = 0;
        struct head head, first;

        memcpy(&first, text->bytes + text->begin, sizeof(first));
        while (text->begin < text->end) {
                memcpy(&head, text->bytes + text->begin, sizeof(head));
                if (head.to_stderr != first.to_stderr || size + head.size > PIECE_MAX)
                        break;
                memcpy(device->piece + size, text->bytes + text->begin + sizeof(head), head.size);
                size += head.size;
                text->begin += sizeof(head) + head.size;
        }
        text_uncharge(device, text->space, text->begin - begin);
        *ret = (struct ds_device_output){
                .space = text->space, .to_stderr = first.to_stderr, .text = device->piece, .size = size};
}

int sim_output(ds_device *device, struct ds_device_output *ret)
{
        struct sim_text *text;

        if (!device->piece && device->texts)
                device->piece = ds_alloc(PIECE_MAX);
        while (device->piece && (text = device->texts)) {
                if (text->begin < text->end) {
                        text_take(device, text, ret);
                        return 1;
                }
                device->texts = text->next;
                if (!device->texts)
                        device->texts_tail = NULL;
                text_free(text);
        }
        return 0;
}

void sim_texts_free(ds_device *device)
{
        struct sim_text *text;

        while ((text = device->texts)) {
                device->texts = text->next;
                text_free(text);
        }
        device->texts_tail = NULL;
        device->piece = ds_free(device->piece);
}
