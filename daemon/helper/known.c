/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/known.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/seed.h"

_Static_assert(sizeof(struct ds_known_origin) == 7 * sizeof(uint64_t) + 6 * sizeof(uint32_t), "compared as bytes");

#define BUCKETS 4096u
#define ORIGINS_PER_FILE 16u /* most places of images that are remembered for one result */
/* A result larger than max_bytes / LARGE_PART is not kept, because it would evict most others. */
#define LARGE_PART 4
#define SETTLED_NS (2 * DS_NS_PER_S)

/* A place where an image was found. */
struct origin {
        SLIST_ENTRY(origin) hash_link, output_link;
        uint64_t hash;
        struct output *output;
        int sealed; /* file with the image's bytes, if the bytes identify the image; else -1 */
        int no_ptx; /* as in struct ds_check_result */
        struct ds_known_origin is;
};

SLIST_HEAD(origin_list, origin);

/* The checked result of one or more images. */
struct output {
        TAILQ_ENTRY(output) link;
        SLIST_ENTRY(output) hash_link;
        struct origin_list origins;
        unsigned n_origins;
        uint64_t hash, bytes, variable_bytes; /* hash and size of the file's content; bytes of the module's variables */
        uint64_t report_bytes;                /* size of the report at the end of the file, bytes */
        int fd;
};

TAILQ_HEAD(output_list, output);
SLIST_HEAD(output_bucket, output);

struct ds_known {
        struct output_list outputs; /* all results, most recently used first */
        struct origin_list origins[BUCKETS];
        struct output_bucket by_hash[BUCKETS];
        uint64_t max_bytes, bytes, seed;
        size_t max_files, n_files;
};

int ds_known_new(uint64_t max_bytes, size_t max_files, ds_known **ret)
{
        ds_known *known = ds_alloc0(1, sizeof(*known));

        if (!known)
                return ds_error_origin(-ENOMEM);
        TAILQ_INIT(&known->outputs);
        known->max_bytes = max_bytes;
        known->max_files = max_files;
        known->seed = ds_hash_seed(known);
        *ret = known;
        return 0;
}

static void origin_drop(ds_known *known, struct origin *origin)
{
        SLIST_REMOVE(&known->origins[origin->hash % BUCKETS], origin, origin, hash_link);
        SLIST_REMOVE(&origin->output->origins, origin, origin, output_link);
        origin->output->n_origins--;
        if (origin->sealed >= 0) {
                known->bytes -= origin->is.bytes;
                known->n_files--;
                ds_close(origin->sealed);
        }
        ds_free(origin);
}

static void output_drop(ds_known *known, struct output *output)
{
        while (!SLIST_EMPTY(&output->origins))
                origin_drop(known, SLIST_FIRST(&output->origins));
        TAILQ_REMOVE(&known->outputs, output, link);
        SLIST_REMOVE(&known->by_hash[output->hash % BUCKETS], output, output, hash_link);
        assert(known->bytes >= output->bytes && known->n_files);
        known->bytes -= output->bytes;
        known->n_files--;
        ds_close(output->fd);
        ds_free(output);
}

ds_known *ds_known_free(ds_known *known)
{
        if (!known)
                return NULL;
        while (!TAILQ_EMPTY(&known->outputs))
                output_drop(known, TAILQ_FIRST(&known->outputs));
        assert(!known->bytes && !known->n_files);
        return ds_free(known);
}

uint64_t ds_known_bytes(const ds_known *known)
{
        return known->bytes;
}

static void output_used(ds_known *known, struct output *output)
{
        TAILQ_REMOVE(&known->outputs, output, link);
        TAILQ_INSERT_HEAD(&known->outputs, output, link);
}

/* Maps a sealed file. Returns NULL if there is no memory. */
static void *map(int fd, size_t size)
{
        void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);

        return p == MAP_FAILED ? NULL : p;
}

static int same_bytes(int fd, const void *bytes, size_t size)
{
        void *p = map(fd, size);
        int same = p && !memcmp(p, bytes, size);

        if (p)
                munmap(p, size);
        return same;
}

/* --- look-up by place --------------------------------------------------------------------------------------------- */

int ds_known_identify(int fd, uint64_t now_ns, struct ds_known_origin *origin)
{
        struct stat st;
        int flags = fcntl(fd, F_GETFL);

        /* a client that may not read the file must not get the result for its content */
        if (flags < 0 || flags & O_PATH || (flags & O_ACCMODE) == O_WRONLY)
                return 1;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !st.st_ino)
                return 1;
        origin->dev = st.st_dev;
        origin->ino = st.st_ino;
        origin->file_bytes = (uint64_t)st.st_size;
        origin->mtime_ns = (uint64_t)st.st_mtim.tv_sec * DS_NS_PER_S + (uint64_t)st.st_mtim.tv_nsec;
        origin->ctime_ns = (uint64_t)st.st_ctim.tv_sec * DS_NS_PER_S + (uint64_t)st.st_ctim.tv_nsec;
        /* a file whose change time lies in the future is not trusted either */
        return origin->ctime_ns > now_ns || now_ns - origin->ctime_ns < SETTLED_NS;
}

void ds_known_identify_bytes(const ds_known *known, const void *bytes, struct ds_known_origin *origin)
{
        origin->dev = origin->ino = origin->mtime_ns = origin->ctime_ns = origin->offset = origin->uid = 0;
        origin->file_bytes = XXH3_64bits_withSeed(bytes, origin->bytes, known->seed);
}

static uint64_t origin_hash(const ds_known *known, const struct ds_known_origin *origin)
{
        return XXH3_64bits_withSeed(origin, sizeof(*origin), known->seed);
}

static struct origin *origin_find(ds_known *known, const struct ds_known_origin *is)
{
        uint64_t hash = origin_hash(known, is);
        struct origin *origin;

        SLIST_FOREACH(origin, &known->origins[hash % BUCKETS], hash_link)
        {
                if (origin->hash == hash && !memcmp(&origin->is, is, sizeof(*is)))
                        return origin;
        }
        return NULL;
}

int ds_known_find(ds_known *known, const struct ds_known_origin *is, const void *bytes, struct ds_check_result *result)
{
        struct origin *origin = origin_find(known, is);
        int fd;

        if (!origin || (origin->sealed >= 0) != (bytes != NULL) ||
                (bytes && !same_bytes(origin->sealed, bytes, is->bytes)))
                return 0;
        fd = fcntl(origin->output->fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
                return 0;
        output_used(known, origin->output);
        *result = (struct ds_check_result){
                .fd = fd,
                .origin = DS_CHECK_KNOWN,
                .bytes = origin->output->bytes - origin->output->report_bytes,
                .report_bytes = origin->output->report_bytes,
                .variable_bytes = origin->output->variable_bytes,
                .no_ptx = origin->no_ptx,
        };
        return 1;
}

/* Keeps the descriptor of an image's file; it counts as one of the limited files. Returns 0 if it is stored, or not
 * needed. */
static int origin_keep(ds_known *known, struct origin *origin, int sealed)
{
        if (sealed < 0)
                return 0;
        if (origin->is.bytes > known->max_bytes / LARGE_PART)
                return -1;
        while (known->bytes > known->max_bytes - origin->is.bytes || known->n_files >= known->max_files) {
                struct output *last = TAILQ_LAST(&known->outputs, output_list);

                if (last == origin->output)
                        return -1;
                output_drop(known, last);
        }
        origin->sealed = fcntl(sealed, F_DUPFD_CLOEXEC, 0);
        if (origin->sealed < 0)
                return -1;
        known->bytes += origin->is.bytes;
        known->n_files++;
        return 0;
}

static void origin_add(ds_known *known, struct output *output, const struct ds_known_origin *is, int sealed, int no_ptx)
{
        struct origin *origin = origin_find(known, is);

        if (origin)
                origin_drop(known, origin);
        if (output->n_origins >= ORIGINS_PER_FILE)
                origin_drop(known, SLIST_FIRST(&output->origins));
        origin = ds_alloc(sizeof(*origin));
        if (!origin)
                return;
        *origin = (struct origin){
                .hash = origin_hash(known, is), .output = output, .sealed = -1, .no_ptx = no_ptx, .is = *is};
        if (origin_keep(known, origin, sealed)) {
                ds_free(origin);
                return;
        }
        SLIST_INSERT_HEAD(&known->origins[origin->hash % BUCKETS], origin, hash_link);
        SLIST_INSERT_HEAD(&output->origins, origin, output_link);
        output->n_origins++;
}

/* --- look-up by result -------------------------------------------------------------------------------------------- */

static struct output *output_find(ds_known *known, uint64_t hash, const void *bytes, size_t size)
{
        struct output *output;

        SLIST_FOREACH(output, &known->by_hash[hash % BUCKETS], hash_link)
        {
                if (output->hash == hash && output->bytes == size && same_bytes(output->fd, bytes, size))
                        return output;
        }
        return NULL;
}

static struct output *output_add(ds_known *known, uint64_t hash, const struct ds_check_result *result)
{
        const uint64_t bytes = result->bytes + result->report_bytes;
        struct output *output;
        int fd;

        if (bytes > known->max_bytes / LARGE_PART || !known->max_files)
                return NULL;
        while (known->bytes > known->max_bytes - bytes || known->n_files >= known->max_files)
                output_drop(known, TAILQ_LAST(&known->outputs, output_list));
        fd = fcntl(result->fd, F_DUPFD_CLOEXEC, 0);
        output = fd >= 0 ? ds_alloc0(1, sizeof(*output)) : NULL;
        if (!output) {
                ds_close(fd);
                return NULL;
        }
        output->fd = fd;
        output->hash = hash;
        output->bytes = bytes;
        output->report_bytes = result->report_bytes;
        output->variable_bytes = result->variable_bytes;
        TAILQ_INSERT_HEAD(&known->outputs, output, link);
        SLIST_INSERT_HEAD(&known->by_hash[output->hash % BUCKETS], output, hash_link);
        known->bytes += output->bytes;
        known->n_files++;
        return output;
}

/* Replaces the file of a new result by the existing file with the same content. */
static void result_share(const struct output *output, struct ds_check_result *result)
{
        int fd = fcntl(output->fd, F_DUPFD_CLOEXEC, 0);

        if (fd < 0)
                return;
        ds_close(result->fd);
        result->fd = fd;
}

static struct output *output_of(ds_known *known, struct ds_check_result *result)
{
        const size_t size = result->bytes + result->report_bytes;
        void *bytes = map(result->fd, size);
        struct output *output;
        uint64_t hash;

        if (!bytes)
                return NULL;
        hash = XXH3_64bits_withSeed(bytes, size, known->seed);
        output = output_find(known, hash, bytes, size);
        munmap(bytes, size);
        if (!output)
                return output_add(known, hash, result);
        result_share(output, result);
        output_used(known, output);
        return output;
}

void ds_known_add(ds_known *known, const struct ds_known_origin *origin, int sealed, struct ds_check_result *result)
{
        struct output *output;

        assert(!result->status);
        if (result->fd < 0 || !result->bytes)
                return;
        output = output_of(known, result);
        if (output && origin)
                origin_add(known, output, origin, sealed, result->no_ptx);
}
