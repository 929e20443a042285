/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/table.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lut/layout.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

/* The bytes of the file that the parser has not read yet. */
struct rest {
        const uint8_t *at;
        size_t left;
};

static const void *take(struct rest *rest, size_t n, size_t size)
{
        const void *taken = rest->at;

        if (n > rest->left / size)
                return NULL;
        rest->at += n * size;
        rest->left -= n * size;
        return taken;
}

static int refuse(char *why, size_t size, const char *reason)
{
        snprintf(why, size, "%s", reason);
        return DS_LUT_E_REFUSED;
}

static bool is_text(const char *text, size_t size)
{
        const char *end = memchr(text, 0, size);

        for (const char *c = text; end && c < end; c++)
                if ((unsigned char)*c < ' ' || *c == 0x7f)
                        return false;
        return end && end > text;
}

/* Checks checksum, version and length; the message distinguishes damage from another version. */
static int check_frame(const uint8_t *bytes, size_t n, struct ds_lut_head *ret_head, char *why, size_t size)
{
        uint8_t sum[DS_SHA256_BYTES];
        struct ds_sha256 state;

        if (n < sizeof(*ret_head) + sizeof(sum))
                return refuse(why, size, n ? "too short for a table" : "the file is empty");
        memcpy(ret_head, bytes, sizeof(*ret_head));
        if (memcmp(ret_head->magic, DS_LUT_MAGIC, sizeof(ret_head->magic)) != 0)
                return refuse(why, size, "not a table of VRAM channels");
        if (ret_head->version != DS_LUT_VERSION) {
                snprintf(why, size, "a table of version %u, this program reads version %u", ret_head->version,
                        DS_LUT_VERSION);
                return DS_LUT_E_REFUSED;
        }
        if (ret_head->bytes != n)
                return refuse(why, size,
                        ret_head->bytes > n ? "truncated" : "its length differs from its header, or it is damaged");
        ds_sha256_begin(&state);
        ds_sha256_add(&state, bytes, n - sizeof(sum));
        ds_sha256_end(&state, sum);
        if (memcmp(sum, bytes + n - sizeof(sum), sizeof(sum)) != 0)
                return refuse(why, size, "damaged: the checksum is wrong");
        return 0;
}

/* Checks the values on which the rest of the parser depends. A correct checksum does not make them trustworthy. */
static int check_head(const struct ds_lut_head *head, char *why, size_t size)
{
        if (!is_text(head->model, sizeof(head->model)) || !memchr(head->driver, 0, sizeof(head->driver)) ||
                (head->driver[0] && !is_text(head->driver, sizeof(head->driver))) ||
                !is_text(head->learner, sizeof(head->learner)))
                return refuse(why, size, "its names are not printable text");
        if (head->source != DS_LUT_MEASURED && head->source != DS_LUT_SIMULATED)
                return refuse(why, size, "its source is neither measured nor simulated");
        if (head->page_bits != 21 || head->granule_bits >= head->page_bits ||
                head->page_bits - head->granule_bits > DS_LUT_BITS_MAX)
                return refuse(why, size, "invalid page or granule size");
        if (!head->channels || head->channels > DS_LUT_CHANNELS_MAX)
                return refuse(why, size, "invalid number of channels");
        if (head->held_right > head->held_out)
                return refuse(why, size, "more correct predictions than held-out granules");
        if (head->learnt_at < 0 || head->learnt_at > DS_LUT_LEARNT_MAX)
                return refuse(why, size, "invalid time of learning");
        if (!head->n_signature || head->n_signature > DS_LUT_PROBES_MAX || head->zero[0] || head->zero[1])
                return refuse(why, size, "no signature, or one that is too long");
        return 0;
}

static void facts_of(struct ds_lut *lut, uint32_t patterns)
{
        const struct ds_lut_head *head = &lut->head;

        lut->facts = (struct ds_lut_facts){.model = head->model,
                .driver = head->driver,
                .learner = head->learner,
                .source = head->source,
                .form = head->form,
                .granule_bits = head->granule_bits,
                .page_bits = head->page_bits,
                .channels = head->channels,
                .patterns = patterns,
                .samples = head->samples,
                .held_out = head->held_out,
                .held_right = head->held_right,
                .learnt_at = head->learnt_at};
}

static int take_channels(struct ds_lut *lut, struct rest *rest, size_t n, char *why, size_t size)
{
        const uint8_t *channels = take(rest, n, 1);

        if (!channels || rest->left)
                return refuse(why, size, "the lengths of its parts differ from its header");
        for (size_t i = 0; i < n; i++)
                if (channels[i] >= lut->head.channels && channels[i] != DS_LUT_UNKNOWN)
                        return refuse(why, size, "a channel number above its number of channels");
        lut->channel = ds_alloc(n);
        if (!lut->channel)
                return ds_error_origin(-ENOMEM);
        memcpy(lut->channel, channels, n);
        return 0;
}

/* Computes the coordinate of every granule, which is linear in its bits. */
static int make_image(struct ds_lut *lut, const uint32_t *masks, uint32_t dims)
{
        lut->image = ds_alloc0((size_t)1 << lut->bits, sizeof(*lut->image));
        if (!lut->image)
                return ds_error_origin(-ENOMEM);
        for (uint32_t bit = 0; bit < lut->bits; bit++) {
                for (uint32_t i = 0; i < dims; i++)
                        lut->image[1u << bit] |= (masks[i] >> bit & 1) << i;
                for (uint32_t x = 1; x < 1u << bit; x++)
                        lut->image[1u << bit | x] = lut->image[1u << bit] ^ lut->image[x];
        }
        return 0;
}

/* Reads the matrix of the form; dims is the length of a coordinate in bits. */
static int read_matrix(struct ds_lut *lut, struct rest *rest, uint32_t dims, char *why, size_t size)
{
        uint32_t masks[DS_LUT_DIMS_MAX];
        const void *taken = take(rest, dims, sizeof(*masks));

        if (!taken)
                return refuse(why, size, "the lengths of its parts differ from its header");
        memcpy(masks, taken, dims * sizeof(*masks));
        for (uint32_t i = 0; i < dims; i++)
                if (masks[i] >> lut->bits)
                        return refuse(why, size, "address bits that a page does not have");
        return make_image(lut, masks, dims);
}

static int read_xor(struct ds_lut *lut, struct rest *rest, char *why, size_t size)
{
        const struct ds_lut_head *head = &lut->head;
        int r;

        if (head->dims > lut->bits || !head->tables || head->tables > DS_LUT_SEARCH_MAX >> head->dims)
                return refuse(why, size, "more patterns than a table may have");
        r = read_matrix(lut, rest, head->dims, why, size);
        return r ? r : take_channels(lut, rest, (size_t)head->tables << head->dims, why, size);
}

static int make_sums(struct ds_lut *lut, const uint8_t *weights)
{
        uint32_t modulus = lut->head.modulus;

        lut->sum = ds_alloc0((size_t)1 << lut->head.dims, 1);
        if (!lut->sum)
                return ds_error_origin(-ENOMEM);
        for (uint32_t bit = 0; bit < lut->head.dims; bit++)
                for (uint32_t y = 0; y < 1u << bit; y++)
                        lut->sum[1u << bit | y] = (uint8_t)((lut->sum[y] + weights[bit]) % modulus);
        return 0;
}

/* Computes the index of each channel in the array `channel`. Returns false if a channel has two. */
static bool find_places(struct ds_lut *lut)
{
        memset(lut->place, 0xff, sizeof(lut->place));
        for (uint32_t i = 0; i < lut->head.modulus << lut->head.parities; i++) {
                if (lut->channel[i] == DS_LUT_UNKNOWN)
                        continue;
                if (lut->place[lut->channel[i]] != UINT16_MAX)
                        return false;
                lut->place[lut->channel[i]] = (uint16_t)i;
        }
        return true;
}

/* Computes for PLACES the lists of the indices of each channel. */
static int list_places(struct ds_lut *lut)
{
        const struct ds_lut_head *head = &lut->head;
        uint32_t n = 0, m = head->modulus, rows = 1u << head->parities;

        lut->number = ds_alloc0((size_t)m << head->parities, 1);
        lut->from = ds_alloc0((size_t)rows * head->channels + 1, sizeof(*lut->from));
        if (!lut->number || !lut->from)
                return ds_error_origin(-ENOMEM);
        for (uint32_t row = 0; row < rows; row++)
                for (uint32_t channel = 0; channel < head->channels; channel++) {
                        lut->from[row * head->channels + channel] = (uint16_t)n;
                        for (uint32_t i = 0; i < m; i++)
                                if (lut->channel[row * m + i] == channel)
                                        lut->number[n++] = (uint8_t)i;
                }
        lut->from[rows * head->channels] = (uint16_t)n;
        return 0;
}

/* Reads the part of the forms MODULUS and PLACES, and prepares matching. */
static int read_numbers(struct ds_lut *lut, struct rest *rest, char *why, size_t size)
{
        const struct ds_lut_head *head = &lut->head;
        const uint8_t *weights;
        int r;

        if (head->dims > DS_LUT_BITS_MAX || head->parities > DS_LUT_DIMS_MAX - DS_LUT_BITS_MAX || !head->modulus ||
                head->modulus > DS_LUT_CHANNELS_MAX ||
                head->modulus > DS_LUT_PATTERNS_MAX >> (head->dims + head->parities))
                return refuse(why, size, "more patterns than a table may have");
        r = read_matrix(lut, rest, head->dims + head->parities, why, size);
        if (r)
                return r;
        weights = take(rest, head->dims, 1);
        if (!weights)
                return refuse(why, size, "the lengths of its parts differ from its header");
        for (uint32_t i = 0; i < head->dims; i++)
                if (weights[i] >= head->modulus)
                        return refuse(why, size, "a weight that is not below the modulus");
        r = make_sums(lut, weights);
        return r ? r : take_channels(lut, rest, (size_t)head->modulus << head->parities, why, size);
}

static int read_modulus(struct ds_lut *lut, struct rest *rest, char *why, size_t size)
{
        int r = read_numbers(lut, rest, why, size);

        return r || find_places(lut) ? r : refuse(why, size, "a channel with two numbers");
}

static int read_places(struct ds_lut *lut, struct rest *rest, char *why, size_t size)
{
        const struct ds_lut_head *head = &lut->head;
        int r = read_numbers(lut, rest, why, size);

        if (!r && (uint64_t)head->modulus << (head->dims + head->parities) > DS_LUT_SEARCH_MAX)
                return refuse(why, size, "more patterns than a table may have");
        return r ? r : list_places(lut);
}

static uint32_t common_factor(uint32_t a, uint32_t b)
{
        return b ? common_factor(b, a % b) : a;
}

static int read_congruence(struct ds_lut *lut, struct rest *rest, char *why, size_t size)
{
        const struct ds_lut_head *head = &lut->head;
        int r;

        if (head->period < 2 || head->period > DS_LUT_PERIOD_MAX || head->slot_bits >= lut->bits)
                return refuse(why, size, "invalid period");
        r = take_channels(lut, rest, (size_t)head->period << head->slot_bits, why, size);
        if (r)
                return r;
        lut->step = ds_alloc0(head->period, sizeof(*lut->step));
        if (!lut->step)
                return ds_error_origin(-ENOMEM);
        for (uint32_t u = 1; u < head->period; u++)
                if (common_factor(head->period, u) == 1)
                        lut->step[lut->n_steps++] = (uint16_t)u;
        if (lut->n_steps * head->period > DS_LUT_SEARCH_MAX)
                return refuse(why, size, "more patterns than a table may have");
        return 0;
}

static int read_signature(struct ds_lut *lut, struct rest *rest, char *why, size_t size)
{
        size_t n = lut->head.n_signature;
        const void *taken = take(rest, n, sizeof(*lut->signature));

        if (!taken)
                return refuse(why, size, "the lengths of its parts differ from its header");
        lut->signature = ds_alloc0(n, sizeof(*lut->signature));
        if (!lut->signature)
                return ds_error_origin(-ENOMEM);
        memcpy(lut->signature, taken, n * sizeof(*lut->signature));
        for (size_t i = 0; i < n; i++)
                if (lut->signature[i] >> lut->head.page_bits)
                        return refuse(why, size, "a signature offset beyond the page");
        return 0;
}

static int read_form(struct ds_lut *lut, struct rest *rest, char *why, size_t size)
{
        int r;

        switch (lut->head.form) {
        case DS_LUT_XOR:
                r = read_xor(lut, rest, why, size);
                if (!r)
                        facts_of(lut, lut->head.tables << lut->head.dims);
                return r;
        case DS_LUT_MODULUS:
                r = read_modulus(lut, rest, why, size);
                if (!r)
                        facts_of(lut, lut->head.modulus << (lut->head.dims + lut->head.parities));
                return r;
        case DS_LUT_PLACES:
                r = read_places(lut, rest, why, size);
                if (!r)
                        facts_of(lut, lut->head.modulus << (lut->head.dims + lut->head.parities));
                return r;
        case DS_LUT_CONGRUENCE:
                r = read_congruence(lut, rest, why, size);
                if (!r)
                        facts_of(lut, lut->n_steps * lut->head.period);
                return r;
        }
        return refuse(why, size, "a form of patterns that this program does not know");
}

int ds_lut_parse(const void *bytes, size_t n, const char *model, struct ds_lut **ret, char *why, size_t size)
{
        __typeof__(struct ds_lut) *lut = ds_alloc0(1, sizeof(*lut));
        struct rest rest;
        int r;

        if (!lut)
                return ds_error_origin(-ENOMEM);
        r = check_frame(bytes, n, &lut->head, why, size);
        if (!r)
                r = check_head(&lut->head, why, size);
        if (!r && model && strcmp(model, lut->head.model) != 0) {
                snprintf(why, size, "it is for %s, not for %s", lut->head.model, model);
                r = DS_LUT_E_REFUSED;
        }
        if (!r) {
                rest = (struct rest){
                        (const uint8_t *)bytes + sizeof(lut->head), n - sizeof(lut->head) - DS_SHA256_BYTES};
                lut->bits = lut->head.page_bits - lut->head.granule_bits;
                r = read_signature(lut, &rest, why, size);
        }
        if (!r)
                r = read_form(lut, &rest, why, size);
        if (r)
                lut = ds_lut_free(lut);
        *ret = lut;
        return r;
}

static int read_file(int fd, uint8_t **ret, size_t *ret_n)
{
        struct stat st;
        uint8_t *bytes;
        ssize_t got;
        size_t n = 0;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || st.st_size > DS_LUT_BYTES_MAX + 4096)
                return DS_LUT_E_REFUSED;
        bytes = ds_alloc((size_t)st.st_size + 1);
        if (!bytes)
                return ds_error_origin(-ENOMEM);
        while (n < (size_t)st.st_size) {
                got = read(fd, bytes + n, (size_t)st.st_size - n);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0)
                        break;
                n += (size_t)got;
        }
        *ret = bytes;
        *ret_n = n;
        return 0;
}

int ds_lut_open(const char *path, const char *model, struct ds_lut **ret, char *why, size_t size)
{
        return ds_lut_open_at(AT_FDCWD, path, model, ret, why, size);
}

int ds_lut_open_at(int directory, const char *path, const char *model, struct ds_lut **ret, char *why, size_t size)
{
        ds_cleanup(ds_closep) int fd = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        ds_cleanup(ds_freep) uint8_t *bytes = NULL;
        size_t n = 0;
        int r;

        *ret = NULL;
        if (fd < 0)
                return refuse(why, size, strerror(errno));
        r = read_file(fd, &bytes, &n);
        if (r == DS_LUT_E_REFUSED)
                return refuse(why, size, "not a regular file, or too large for a table");
        return r ? r : ds_lut_parse(bytes, n, model, ret, why, size);
}

struct ds_lut *ds_lut_free(struct ds_lut *lut)
{
        if (!lut)
                return NULL;
        ds_free(lut->signature);
        ds_free(lut->channel);
        ds_free(lut->image);
        ds_free(lut->sum);
        ds_free(lut->number);
        ds_free(lut->from);
        ds_free(lut->step);
        return ds_free(lut);
}

const struct ds_lut_facts *ds_lut_facts(const struct ds_lut *lut)
{
        return &lut->facts;
}

size_t ds_lut_signature(const struct ds_lut *lut, const uint32_t **ret_offsets)
{
        *ret_offsets = lut->signature;
        return lut->head.n_signature;
}

uint32_t ds_lut_channel(const struct ds_lut *lut, uint32_t pattern, uint32_t offset)
{
        assert(pattern < lut->facts.patterns && offset >> lut->head.page_bits == 0);
        return ds_lut_at(lut, pattern, offset >> lut->head.granule_bits);
}

void ds_lut_page(const struct ds_lut *lut, uint32_t pattern, uint8_t *ret_channels)
{
        assert(pattern < lut->facts.patterns);
        for (uint32_t x = 0; x < 1u << lut->bits; x++)
                ret_channels[x] = ds_lut_at(lut, pattern, x);
}
