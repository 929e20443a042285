/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/image_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "supervisor/helper_link.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/foreign.h"
#include "util/macro.h"
#include "util/seed.h"

_Static_assert(sizeof(struct ds_image_key) == 8 * sizeof(uint64_t) + 4 * sizeof(uint32_t), "compared as bytes");

#define FEWEST_FILES 4096u /* smallest limit of open files with which results are remembered */
#define FILES_PART 16u     /* part of the open files that results may be */
#define BUCKETS 256u
#define SETTLED_NS (2 * DS_NS_PER_S)

struct entry {
        TAILQ_ENTRY(entry) link;
        LIST_ENTRY(entry) bucket_link;
        struct ds_image_key key;
        struct ds_helper_result result;
        uint8_t bytes[]; /* the image, if its bytes identify it */
};

TAILQ_HEAD(entry_list, entry);
LIST_HEAD(bucket, entry);

struct ds_image_memory {
        struct entry_list entries; /* most recently used first */
        struct bucket buckets[BUCKETS];
        size_t n, max;
        uint64_t held; /* bytes of all results and images */
        uint64_t seed;
        uint8_t bytes[DS_IMAGE_MEMORY_SOURCE_MAX]; /* image that was identified last, if its bytes identify it */
};

int ds_image_memory_new(size_t max_files, ds_image_memory **ret)
{
        ds_image_memory *memory = ds_alloc0(1, sizeof(*memory));

        if (!memory)
                return ds_error_origin(-ENOMEM);
        TAILQ_INIT(&memory->entries);
        memory->max = max_files;
        memory->seed = ds_hash_seed(memory);
        *ret = memory;
        return 0;
}

static size_t source_bytes(const struct ds_image_key *key)
{
        return key->ino ? 0 : key->bytes;
}

static uint64_t entry_weight(const struct ds_image_key *key, const struct ds_helper_result *result)
{
        return source_bytes(key) + result->bytes + result->report_bytes;
}

static void entry_drop(ds_image_memory *memory, struct entry *entry)
{
        TAILQ_REMOVE(&memory->entries, entry, link);
        LIST_REMOVE(entry, bucket_link);
        memory->n--;
        memory->held -= entry_weight(&entry->key, &entry->result);
        ds_close(entry->result.fd);
        ds_free(entry);
}

ds_image_memory *ds_image_memory_free(ds_image_memory *memory)
{
        if (!memory)
                return NULL;
        while (!TAILQ_EMPTY(&memory->entries))
                entry_drop(memory, TAILQ_FIRST(&memory->entries));
        return ds_free(memory);
}

size_t ds_image_memory_count(const ds_image_memory *memory)
{
        return memory->n;
}

size_t ds_image_memory_room(void)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur < FEWEST_FILES)
                return 0;
        return DS_MIN(files.rlim_cur / FILES_PART, (rlim_t)DS_IMAGE_MEMORY_FILES);
}

/* --- identity ----------------------------------------------------------------------------------------------------- */

static uint64_t timestamp_ns(const struct statx_timestamp *t)
{
        return (uint64_t)t->tv_sec * DS_NS_PER_S + t->tv_nsec;
}

/* Identifies a disk file without a call to a user's file system. */
static int identify_file(int fd, struct ds_image_key *key)
{
        const unsigned wanted = STATX_INO | STATX_SIZE | STATX_MTIME | STATX_CTIME;
        struct timespec t;
        struct statx st;
        uint64_t now;

        if (!ds_foreign_is_disk_file(fd) || statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, wanted, &st) < 0 ||
                (st.stx_mask & wanted) != wanted || !st.stx_ino)
                return 0;
        clock_gettime(CLOCK_REALTIME, &t);
        now = (uint64_t)t.tv_sec * DS_NS_PER_S + (uint64_t)t.tv_nsec;
        key->dev = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor;
        key->ino = st.stx_ino;
        key->file_bytes = st.stx_size;
        key->mtime_ns = timestamp_ns(&st.stx_mtime);
        key->ctime_ns = timestamp_ns(&st.stx_ctime);
        /* a file whose change time lies in the future is not trusted either */
        return key->ctime_ns <= now && now - key->ctime_ns >= SETTLED_NS;
}

/* Identifies a small image by its bytes, which nobody can change any more. The bytes are read, never mapped: where a
 * page is lost, a read fails, but a mapping would end the process. */
static int identify_bytes(ds_image_memory *memory, int fd, struct ds_image_key *key)
{
        const int want = F_SEAL_WRITE | F_SEAL_SHRINK, seals = fcntl(fd, F_GET_SEALS);
        size_t got = 0;

        if (seals < 0 || (seals & want) != want || key->offset || key->bytes > sizeof(memory->bytes))
                return 0;
        while (got < key->bytes) {
                ssize_t n = pread(fd, memory->bytes + got, key->bytes - got, (off_t)got);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return 0;
                got += (size_t)n;
        }
        key->content = XXH3_64bits_withSeed(memory->bytes, key->bytes, memory->seed);
        return 1;
}

int ds_image_memory_identify(ds_image_memory *memory, const struct ds_helper_job *job, struct ds_image_key *ret)
{
        *ret = (struct ds_image_key){.offset = job->offset,
                .bytes = job->bytes,
                .uid = ds_user_uid(job->user),
                .max_registers = job->max_registers,
                .optimization = job->optimization,
                .forms = job->forms};
        /* a request that makes forms, or links, has other results than the image */
        if (!memory->max || !job->bytes || job->background || job->link_step ||
                (job->forms != DETSHARE__INTERNAL__IMAGE_FORMS__NATIVE &&
                        job->forms != DETSHARE__INTERNAL__IMAGE_FORMS__FORMS_STORED))
                return 0;
        return identify_bytes(memory, job->fd, ret) || identify_file(job->fd, ret);
}

/* --- results ------------------------------------------------------------------------------------------------------ */

static struct bucket *bucket_of(ds_image_memory *memory, const struct ds_image_key *key)
{
        return &memory->buckets[XXH3_64bits_withSeed(key, sizeof(*key), memory->seed) % BUCKETS];
}

static struct entry *entry_find(ds_image_memory *memory, const struct ds_image_key *key)
{
        struct entry *entry;

        LIST_FOREACH(entry, bucket_of(memory, key), bucket_link)
        {
                if (!memcmp(&entry->key, key, sizeof(*key)) && !memcmp(entry->bytes, memory->bytes, source_bytes(key)))
                        return entry;
        }
        return NULL;
}

int ds_image_memory_find(ds_image_memory *memory, const struct ds_image_key *key, struct ds_helper_result *ret)
{
        struct entry *entry = entry_find(memory, key);
        int fd = entry ? fcntl(entry->result.fd, F_DUPFD_CLOEXEC, 0) : -1;

        if (fd < 0)
                return 0;
        TAILQ_REMOVE(&memory->entries, entry, link);
        TAILQ_INSERT_HEAD(&memory->entries, entry, link);
        *ret = entry->result;
        ret->fd = fd;
        return 1;
}

/* The result that makes room for another one of the user. */
static struct entry *victim(ds_image_memory *memory, uint32_t uid)
{
        struct entry *entry, *oldest = NULL;
        size_t own = 0;

        TAILQ_FOREACH(entry, &memory->entries, link)
        {
                if (entry->key.uid == uid) {
                        own++;
                        oldest = entry;
                }
        }
        return own >= DS_MAX(memory->n / DS_IMAGE_MEMORY_SHARE, (size_t)1) ? oldest
                                                                           : TAILQ_LAST(&memory->entries, entry_list);
}

void ds_image_memory_add(ds_image_memory *memory, const struct ds_helper_job *job, const struct ds_image_key *key,
        const struct ds_helper_result *result)
{
        struct ds_image_key now;
        struct entry *entry;
        int fd;

        /* a file that changed meanwhile has another key now */
        if (result->status || result->bytes + result->report_bytes > DS_IMAGE_MEMORY_RESULT_MAX ||
                !ds_image_memory_identify(memory, job, &now) || memcmp(&now, key, sizeof(now)) ||
                entry_find(memory, key))
                return;
        while (memory->n >= memory->max || memory->held + entry_weight(key, result) > DS_IMAGE_MEMORY_BYTES)
                entry_drop(memory, victim(memory, key->uid));
        fd = fcntl(result->fd, F_DUPFD_CLOEXEC, 0);
        entry = fd >= 0 ? ds_alloc0(1, sizeof(*entry) + source_bytes(key)) : NULL;
        if (!entry) {
                ds_close(fd);
                return;
        }
        entry->key = *key;
        entry->result = *result;
        entry->result.fd = fd;
        entry->result.message = "";
        memcpy(entry->bytes, memory->bytes, source_bytes(key));
        TAILQ_INSERT_HEAD(&memory->entries, entry, link);
        LIST_INSERT_HEAD(bucket_of(memory, key), entry, bucket_link);
        memory->n++;
        memory->held += entry_weight(key, result);
}
