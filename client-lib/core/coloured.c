/* SPDX-License-Identifier: Apache-2.0 */
#include "core/coloured.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#pragma GCC visibility push(default)
#include "detshare/coloured.h"
#pragma GCC visibility pop

#define SECTOR_BITS_MAX 21u
#define TENSORS_MAX 65536u
#define KIND_TABLE 1 /* value of enum ds_ptx_colour_kind in the daemon */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* --- facts from the daemon ---------------------------------------------------------------------------------------- */

static uint64_t sector_bytes(const struct dsc__coloured *c)
{
        return UINT64_C(1) << c->facts->sector_bits;
}

static uint64_t sectors_per_slab(const struct dsc__coloured *c)
{
        return c->facts->slab_bytes >> c->facts->sector_bits;
}

static uint64_t sectors_of_pool(const struct dsc__coloured *c)
{
        return c->facts->n_slabs * sectors_per_slab(c);
}

static const uint8_t *classes_of(const struct dsc__coloured *c)
{
        return (const uint8_t *)(c->facts + 1);
}

static bool facts_are_good(const struct ds_pool_file *facts, uint64_t bytes)
{
        if (facts->magic != DS_POOL_MAGIC || facts->version != DS_WIRE_VERSION || !facts->n_slabs ||
                facts->n_slabs > DS_POOL_SLABS_MAX || facts->sector_bits > SECTOR_BITS_MAX ||
                facts->n_channels > DS_POOL_CHANNELS_MAX || facts->slab_bytes > UINT64_C(1) << 40)
                return false;
        return bytes == sizeof(*facts) + facts->n_slabs * (facts->slab_bytes >> facts->sector_bits);
}

static int take_file(struct dsc__coloured *c, int fd)
{
        struct stat st;
        if (fd < 0)
                return DSC__OUT_OF_MEMORY; /* the descriptor did not arrive, because the process has none left */
        if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(struct ds_pool_file) ||
                !dsc__keeps_bytes(fd, (uint64_t)st.st_size))
                return DSC__UNKNOWN;
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
                return DSC__OUT_OF_MEMORY;
        if (!facts_are_good(p, (uint64_t)st.st_size)) {
                munmap(p, (size_t)st.st_size);
                return DSC__UNKNOWN;
        }
        c->facts = p;
        c->file_bytes = (size_t)st.st_size;
        return 0;
}

/* Reads the facts of the pool and its free slabs. c->table 0: reads the channels only, because there is no table
 * yet; ret_free may be NULL. */
static int ask_channels(dsc_session *s, struct dsc__coloured *c, uint32_t *ret_free)
{
        Detshare__GetChannels get = DETSHARE__GET_CHANNELS__INIT;
        get.table = c->table;
        get.window = DSC__COLOURED_WINDOW;
        get.window_bytes = c->facts ? c->n_logical << c->facts->sector_bits : 0;
        Detshare__Request request = DSC__REQUEST(GET_CHANNELS, get_channels, &get);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_GET_CHANNELS, &answer);
        if (r)
                return r;
        if (!c->facts)
                r = answer.n_fds == 1 ? take_file(c, answer.fds[0]) : DSC__UNKNOWN;
        c->word[0] = answer.reply->get_channels->word0;
        c->word[1] = answer.reply->get_channels->word1;
        if (ret_free)
                *ret_free = answer.reply->get_channels->slabs_free;
        dsc__answer_clear(&answer);
        return r;
}

static void coloured_free(struct dsc__coloured *c)
{
        for (size_t i = 0; i < c->n_tensors; i++)
                free(c->tensors[i].sectors);
        if (c->facts)
                munmap((void *)(uintptr_t)c->facts, c->file_bytes);
        free(c->tensors);
        free(c->taken);
        free(c);
}

static int coloured_new(dsc_session *s, struct dsc__coloured **ret)
{
        struct dsc__coloured *c = calloc(1, sizeof(*c));
        if (!c)
                return DSC__OUT_OF_MEMORY;
        int r = ask_channels(s, c, NULL);
        if (!r) {
                c->n_logical = 2 * sectors_of_pool(c);
                c->taken = calloc(1, sectors_of_pool(c));
                r = c->taken ? 0 : DSC__OUT_OF_MEMORY;
        }
        if (r) {
                coloured_free(c);
                return r;
        }
        *ret = c;
        return 0;
}

struct dsc__coloured *dsc__coloured_lock(dsc_session **ret_session, int *ret_error)
{
        dsc_session *s = dsc__session(NULL, ret_error);
        if (!s)
                return NULL;
        *ret_error = dsc__usable(s);
        if (*ret_error)
                return NULL;
        pthread_mutex_lock(&lock);
        if (!s->coloured)
                *ret_error = coloured_new(s, &s->coloured);
        if (*ret_error) {
                pthread_mutex_unlock(&lock);
                return NULL;
        }
        *ret_session = s;
        return s->coloured;
}

void dsc__coloured_unlock(void)
{
        pthread_mutex_unlock(&lock);
}

void dsc__coloured_drop(dsc_session *s)
{
        pthread_mutex_lock(&lock);
        if (s->coloured)
                coloured_free(s->coloured);
        s->coloured = NULL;
        pthread_mutex_unlock(&lock);
}

/* --- slabs -------------------------------------------------------------------------------------------------------- */

static int borrow_slab(dsc_session *s, struct dsc__coloured *c)
{
        Detshare__BorrowSlab borrow = DETSHARE__BORROW_SLAB__INIT;
        Detshare__Request request = DSC__REQUEST(BORROW_SLAB, borrow_slab, &borrow);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_BORROW_SLAB, &answer);
        if (r)
                return r;
        const uint32_t slab = answer.reply->borrow_slab->slab;
        dsc__answer_clear(&answer);
        if (slab >= c->facts->n_slabs || (c->slabs >> slab & 1))
                return DSC__UNKNOWN;
        c->slabs |= UINT64_C(1) << slab;
        return 0;
}

/* Returns slabs to the daemon of which no tensor uses a sector. If the return of a slab fails, the daemon keeps it
 * for this session. */
static void return_slabs(dsc_session *s, struct dsc__coloured *c)
{
        for (uint32_t i = 0; i < c->facts->n_slabs; i++) {
                if (!(c->slabs >> i & 1) || c->used[i])
                        continue;
                Detshare__ReturnSlab back = DETSHARE__RETURN_SLAB__INIT;
                back.slab = i;
                Detshare__Request request = DSC__REQUEST(RETURN_SLAB, return_slab, &back);
                if (dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL) == 0)
                        c->slabs &= ~(UINT64_C(1) << i);
        }
}

static bool has_colour(uint8_t class_, enum detshare_colour colour)
{
        return colour == DETSHARE_COLOUR_ALL || class_ == (colour == DETSHARE_COLOUR_LS ? DS_POOL_LS : DS_POOL_BE);
}

static bool pool_has(const struct dsc__coloured *c, enum detshare_colour colour)
{
        const uint8_t *classes = classes_of(c);
        for (uint64_t i = 0; i < sectors_of_pool(c); i++)
                if (has_colour(classes[i], colour))
                        return true;
        return false;
}

/* Collects up to n free sectors of the colour from the session's slabs, in the order of addresses. Returns their
 * number. */
static uint64_t gather(const struct dsc__coloured *c, enum detshare_colour colour, uint32_t *sectors, uint64_t n)
{
        const uint64_t each = sectors_per_slab(c);
        const uint8_t *classes = classes_of(c);
        uint64_t have = 0;
        for (uint32_t slab = 0; slab < c->facts->n_slabs && have < n; slab++)
                for (uint64_t i = slab * each; (c->slabs >> slab & 1) && i < (slab + 1) * each && have < n; i++)
                        if (!c->taken[i] && has_colour(classes[i], colour))
                                sectors[have++] = (uint32_t)i;
        return have;
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

const struct dsc__tensor *dsc__coloured_find(const struct dsc__coloured *c, uint64_t address, uint64_t bytes)
{
        const uint64_t at = address - DSC__COLOURED_WINDOW;
        for (size_t i = 0; i < c->n_tensors; i++) {
                const struct dsc__tensor *tensor = &c->tensors[i];
                const uint64_t begin = tensor->first << c->facts->sector_bits;
                if (at >= begin && at - begin <= tensor->bytes && bytes <= tensor->bytes - (at - begin))
                        return tensor;
        }
        return NULL;
}

/* Finds the lowest gap of n logical sectors in the window. *ret_first: first sector of the gap; *ret_at: index of
 * the tensor behind it. */
static int find_gap(const struct dsc__coloured *c, uint64_t n, uint64_t *ret_first, size_t *ret_at)
{
        uint64_t first = 0;
        size_t i = 0;
        while (i < c->n_tensors && c->tensors[i].first - first < n)
                first = c->tensors[i].first + c->tensors[i].n, i++;
        if (n > c->n_logical - first)
                return DSC__OUT_OF_MEMORY;
        *ret_first = first;
        *ret_at = i;
        return 0;
}

static int need_table(dsc_session *s, struct dsc__coloured *c)
{
        if (c->table)
                return 0;
        int r = c->stream ? 0 : dsc_stream_create(s, 0, 1, &c->stream);
        if (!r)
                r = dsc_mem_alloc(s, c->n_logical * sizeof(uint32_t), &c->table);
        if (r)
                return r;
        r = ask_channels(s, c, NULL);
        if (r) {
                dsc_mem_free(s, c->table);
                c->table = 0;
        }
        return r;
}

static int write_entries(dsc_session *s, struct dsc__coloured *c, const struct dsc__tensor *tensor)
{
        const size_t bytes = tensor->n * sizeof(uint32_t);
        int r = dsc_write(
                s, c->stream, c->table + tensor->first * sizeof(uint32_t), bytes, tensor->sectors, bytes, bytes, 1);
        return r ? r : dsc_wait(s, c->stream, dsc_stream_tail(s, c->stream));
}

/* Marks the tensor's sectors as taken or free. */
static void account(struct dsc__coloured *c, const struct dsc__tensor *tensor, bool taken)
{
        const uint64_t each = sectors_per_slab(c);
        for (uint64_t i = 0; i < tensor->n; i++) {
                c->taken[tensor->sectors[i]] = taken;
                c->used[tensor->sectors[i] / each] += taken ? 1 : UINT64_MAX;
        }
}

static int insert(struct dsc__coloured *c, size_t at, const struct dsc__tensor *tensor)
{
        if (c->n_tensors == c->cap_tensors) {
                const size_t cap = c->cap_tensors ? 2 * c->cap_tensors : 16;
                struct dsc__tensor *grown = reallocarray(c->tensors, cap, sizeof(*grown));
                if (!grown)
                        return DSC__OUT_OF_MEMORY;
                c->tensors = grown;
                c->cap_tensors = cap;
        }
        memmove(c->tensors + at + 1, c->tensors + at, (c->n_tensors - at) * sizeof(*c->tensors));
        c->tensors[at] = *tensor;
        c->n_tensors++;
        return 0;
}

/* Collects the sectors of a tensor, and borrows more slabs from the pool if needed. */
static int gather_all(dsc_session *s, struct dsc__coloured *c, enum detshare_colour colour, struct dsc__tensor *tensor)
{
        int r = 0;
        while (!r && gather(c, colour, tensor->sectors, tensor->n) < tensor->n)
                r = borrow_slab(s, c);
        return r;
}

static int alloc_locked(
        dsc_session *s, struct dsc__coloured *c, uint64_t bytes, enum detshare_colour colour, uint64_t *ret)
{
        struct dsc__tensor tensor = {.bytes = bytes};
        size_t at;
        if (!bytes || bytes > sectors_of_pool(c) << c->facts->sector_bits)
                return bytes ? DSC__OUT_OF_MEMORY : DSC__INVALID_VALUE;
        tensor.n = (bytes + sector_bytes(c) - 1) >> c->facts->sector_bits;
        if (!pool_has(c, colour) || c->n_tensors >= TENSORS_MAX || find_gap(c, tensor.n, &tensor.first, &at))
                return DSC__OUT_OF_MEMORY;
        tensor.sectors = calloc(tensor.n, sizeof(*tensor.sectors));
        int r = tensor.sectors ? need_table(s, c) : DSC__OUT_OF_MEMORY;
        if (!r)
                r = gather_all(s, c, colour, &tensor);
        if (!r)
                r = write_entries(s, c, &tensor);
        if (!r)
                r = insert(c, at, &tensor);
        if (r) {
                return_slabs(s, c);
                free(tensor.sectors);
                return r;
        }
        account(c, &tensor, true);
        *ret = DSC__COLOURED_WINDOW + (tensor.first << c->facts->sector_bits);
        return 0;
}

int detshare_coloured_alloc(uint64_t bytes, enum detshare_colour colour, uint64_t *ret_address)
{
        dsc_session *s;
        int r;
        if (!ret_address || (unsigned)colour >= DETSHARE_COLOURS) {
                dsc__message("the colour is not one of enum detshare_colour");
                return DETSHARE_E_INVALID;
        }
        struct dsc__coloured *c = dsc__coloured_lock(&s, &r);
        if (!c)
                return dsc__fold(r);
        r = alloc_locked(s, c, bytes, colour, ret_address);
        dsc__coloured_unlock();
        return dsc__fold(r);
}

/* Returns the index of the tensor that begins at the address; n_tensors if there is none. */
static size_t find_tensor(const struct dsc__coloured *c, uint64_t address)
{
        size_t i = 0;
        while (i < c->n_tensors && DSC__COLOURED_WINDOW + (c->tensors[i].first << c->facts->sector_bits) != address)
                i++;
        return i;
}

static void free_locked(dsc_session *s, struct dsc__coloured *c, size_t i)
{
        account(c, &c->tensors[i], false);
        free(c->tensors[i].sectors);
        c->n_tensors--;
        memmove(c->tensors + i, c->tensors + i + 1, (c->n_tensors - i) * sizeof(*c->tensors));
        return_slabs(s, c);
}

/* Without the lock, waits for work that may use the tensor, then frees the tensor even if that work ended with an
 * error. If two threads free the same tensor, the second gets NO_SUCH. */
int detshare_coloured_free(uint64_t address)
{
        for (int waited = 0;; waited = 1) {
                dsc_session *s;
                int r;
                struct dsc__coloured *c = dsc__coloured_lock(&s, &r);
                if (!c)
                        return dsc__fold(r);
                const size_t i = find_tensor(c, address);
                r = i < c->n_tensors ? DETSHARE_OK : DETSHARE_E_NO_SUCH;
                if (!r && waited)
                        free_locked(s, c, i);
                dsc__coloured_unlock();
                if (r || waited)
                        return r;
                (void)dsc_wait_all(s);
        }
}

int detshare_coloured_parameter(struct detshare_coloured_parameter *ret)
{
        dsc_session *s;
        int r;
        struct dsc__coloured *c = dsc__coloured_lock(&s, &r);
        if (!c)
                return dsc__fold(r);
        r = c->table ? DETSHARE_OK : DETSHARE_E_NO_SUCH;
        if (!r && ret)
                *ret = (struct detshare_coloured_parameter){{c->word[0], c->word[1]}};
        dsc__coloured_unlock();
        return ret ? r : DETSHARE_E_INVALID;
}

/* --- info --------------------------------------------------------------------------------------------------------- */

static void fill_info(const struct dsc__coloured *c, struct detshare_coloured_info *info)
{
        const struct ds_pool_file *facts = c->facts;
        const uint8_t *classes = classes_of(c);
        uint64_t counts[_DS_POOL_CLASS_MAX] = {0};
        info->on = 1;
        info->sector_bytes = UINT32_C(1) << facts->sector_bits;
        info->granule_bytes = UINT32_C(1) << (facts->granule_bits & 31);
        info->channels = facts->n_channels;
        info->be_channels = facts->n_be;
        info->slabs = facts->n_slabs;
        info->slab_bytes = facts->slab_bytes;
        memcpy(info->be_set, facts->be_set, sizeof(info->be_set));
        for (uint64_t i = 0; i < sectors_of_pool(c); i++)
                counts[classes[i] < _DS_POOL_CLASS_MAX ? classes[i] : DS_POOL_NEITHER]++;
        info->sectors[DETSHARE_COLOUR_BE] = (uint32_t)(counts[DS_POOL_BE] / facts->n_slabs);
        info->sectors[DETSHARE_COLOUR_LS] = (uint32_t)(counts[DS_POOL_LS] / facts->n_slabs);
        info->sectors[DETSHARE_COLOUR_ALL] = (uint32_t)sectors_per_slab(c);
        snprintf(info->provenance, sizeof(info->provenance), "%.*s", (int)sizeof(facts->provenance) - 1,
                facts->provenance);
}

int detshare_coloured_info(struct detshare_coloured_info *ret)
{
        struct detshare_coloured_info info = {.size = sizeof(info)};
        dsc_session *s;
        int r;
        if (!ret || ret->size < offsetof(struct detshare_coloured_info, sector_bytes)) {
                dsc__message("detshare_coloured_info.size is not set: set it to sizeof(struct detshare_coloured_info)");
                return DETSHARE_E_INVALID;
        }
        struct dsc__coloured *c = dsc__coloured_lock(&s, &r);
        if (c) {
                fill_info(c, &info);
                info.simulated = s->simulated;
                r = ask_channels(s, c, &info.slabs_free);
                dsc__coloured_unlock();
        } else if (r == DETSHARE__STATUS__UNSUPPORTED) {
                snprintf(info.why, sizeof(info.why), "%s", dsc_message());
                r = 0;
        }
        if (r)
                return dsc__fold(r);
        info.size = ret->size < sizeof(info) ? ret->size : sizeof(info);
        memcpy(ret, &info, info.size);
        return DETSHARE_OK;
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

int detshare_coloured_name(const char *kernel, uint64_t mask, char *buffer, size_t size)
{
        const int n = kernel && buffer ? snprintf(buffer, size, "%s__ds_colour_%" PRIx64, kernel, mask) : -1;
        return mask && n > 0 && (size_t)n < size ? DETSHARE_OK : DETSHARE_E_INVALID;
}

int dsc__coloured_pack(const struct dsc__coloured *c, const void *image, size_t size,
        const struct ds_coloured_want *wants, size_t n, void **ret, size_t *ret_size)
{
        struct ds_coloured_image header = {
                .magic = DS_COLOURED_MAGIC,
                .version = DS_WIRE_VERSION,
                .image_offset = sizeof(header) + n * sizeof(*wants),
                .n_wants = (uint32_t)n,
                .kind = KIND_TABLE,
                .sector_bits = (uint8_t)c->facts->sector_bits,
        };
        header.bytes = header.image_offset + size;
        uint8_t *packed = malloc(header.bytes);
        if (!packed)
                return DSC__OUT_OF_MEMORY;
        memcpy(packed, &header, sizeof(header));
        memcpy(packed + sizeof(header), wants, n * sizeof(*wants));
        memcpy(packed + header.image_offset, image, size);
        *ret = packed;
        *ret_size = header.bytes;
        return 0;
}

static int take_wants(const struct detshare_coloured_kernel *kernels, size_t n, struct ds_coloured_want *ret)
{
        for (size_t i = 0; i < n; i++) {
                if (!kernels[i].name || strlen(kernels[i].name) >= sizeof(ret->name) || !kernels[i].mask) {
                        dsc__message("kernel %zu has no name, one that is too long, or no parameter to be coloured", i);
                        return DSC__INVALID_VALUE;
                }
                ret[i].mask = kernels[i].mask;
                memset(ret[i].name, 0, sizeof(ret[i].name));
                memcpy(ret[i].name, kernels[i].name, strlen(kernels[i].name));
        }
        return 0;
}

int detshare_coloured_image(const void *image, size_t size, const struct detshare_coloured_kernel *kernels, size_t n,
        void **ret_image, size_t *ret_size)
{
        dsc_session *s;
        int r;
        if (!image || !size || !kernels || !n || n > DS_COLOURED_WANTS_MAX || !ret_image || !ret_size) {
                dsc__message("an image and 1 to %u kernels are needed", DS_COLOURED_WANTS_MAX);
                return DETSHARE_E_INVALID;
        }
        struct ds_coloured_want *wants = calloc(n, sizeof(*wants));
        if (!wants)
                return DETSHARE_E_NO_MEMORY;
        r = take_wants(kernels, n, wants);
        struct dsc__coloured *c = r ? NULL : dsc__coloured_lock(&s, &r);
        if (c) {
                r = dsc__coloured_pack(c, image, size, wants, n, ret_image, ret_size);
                dsc__coloured_unlock();
        }
        free(wants);
        return dsc__fold(r);
}
