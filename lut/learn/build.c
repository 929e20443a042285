/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/learn/build.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define TRIALS 60       /* test pages that a signature must identify */
#define WRONG_PROBES 20 /* in the tests one probe of this many is wrong */

static uint8_t *append(uint8_t *at, const void *bytes, size_t n)
{
        if (n)
                memcpy(at, bytes, n);
        return at + n;
}

/* Makes the bytes of the table file with this signature. */
static int write_table(const struct ds_learn_draft *draft, const uint32_t *signature, uint32_t n_signature,
        uint8_t **ret, size_t *ret_n)
{
        struct ds_lut_head head = draft->head;
        uint32_t rows = head.form == DS_LUT_CONGRUENCE ? 0 : head.dims + head.parities;
        size_t weights = head.form == DS_LUT_MODULUS || head.form == DS_LUT_PLACES ? head.dims : 0, n;
        uint8_t *bytes, *at;
        struct ds_sha256 sum;

        n = sizeof(head) + (n_signature + rows) * sizeof(uint32_t) + weights + draft->n_channel + DS_SHA256_BYTES;
        bytes = ds_alloc(n);
        if (!bytes)
                return ds_error_origin(-ENOMEM);
        memcpy(head.magic, DS_LUT_MAGIC, sizeof(head.magic));
        head.version = DS_LUT_VERSION;
        head.bytes = (uint32_t)n;
        head.n_signature = n_signature;
        at = append(bytes, &head, sizeof(head));
        at = append(at, signature, n_signature * sizeof(*signature));
        at = append(at, draft->mask, rows * sizeof(*draft->mask));
        at = append(at, draft->weight, weights);
        at = append(at, draft->channel, draft->n_channel);
        ds_sha256_begin(&sum);
        ds_sha256_add(&sum, bytes, (size_t)(at - bytes));
        ds_sha256_end(&sum, at);
        assert(at + DS_SHA256_BYTES == bytes + n);
        *ret = bytes;
        *ret_n = n;
        return 0;
}

static int read_back(const struct ds_learn_draft *draft, const uint32_t *signature, uint32_t n, struct ds_lut **ret)
{
        ds_cleanup(ds_freep) uint8_t *bytes = NULL;
        char why[128];
        size_t size;
        int r = write_table(draft, signature, n, &bytes, &size);

        if (r)
                return r;
        r = ds_lut_parse(bytes, size, NULL, ret, why, sizeof(why));
        /* a draft can fail for one reason only: it has more patterns than a table may have */
        return r > 0 ? DS_LUT_E_NO_PATTERN : r;
}

int ds_learn_read(const struct ds_learn_draft *draft, struct ds_lut **ret)
{
        const uint32_t zero = 0;

        return read_back(draft, &zero, 1, ret);
}

/* Whether the granules at the first n offsets identify randomly drawn patterns, with some probes wrong. */
static bool tells(const struct ds_lut *lut, const uint32_t *offsets, uint32_t n, uint64_t *state)
{
        struct ds_lut_probe probes[DS_LUT_PROBES_MAX];
        uint32_t pattern, told;

        for (int i = 0; i < TRIALS; i++) {
                pattern = (uint32_t)(ds_learn_random(state) % lut->facts.patterns);
                for (uint32_t k = 0; k < n; k++) {
                        probes[k] = (struct ds_lut_probe){offsets[k], ds_lut_channel(lut, pattern, offsets[k])};
                        if (ds_learn_random(state) % WRONG_PROBES == 0)
                                probes[k].channel = (uint8_t)(ds_learn_random(state) % lut->facts.channels);
                }
                if (ds_lut_match(lut, probes, n, &told) || told != pattern)
                        return false;
        }
        return true;
}

int ds_learn_finish(struct ds_learn_draft *draft, uint64_t seed, struct ds_lut **ret)
{
        static const uint32_t lengths[] = {12, 16, 20, 24, 32, 40, 48, 64, 96, 128};
        uint32_t offsets[DS_LUT_PROBES_MAX];
        unsigned bits = draft->head.page_bits - draft->head.granule_bits;
        uint64_t state = seed ^ UINT64_C(0x5349474e41545552);
        struct ds_lut *lut;
        int r;

        r = ds_learn_read(draft, &lut);
        if (r)
                return r;
        for (size_t i = 0; i < DS_ARRAY_SIZE(offsets); i++)
                offsets[i] = (uint32_t)(ds_learn_random(&state) & ((1u << bits) - 1)) << draft->head.granule_bits;
        for (size_t i = 0; i < DS_ARRAY_SIZE(lengths); i++) {
                if (!tells(lut, offsets, lengths[i], &state))
                        continue;
                ds_lut_free(lut);
                /* a signature of twice the tested length, for pages with more wrong probes than in the tests */
                return read_back(draft, offsets, lengths[i] * 2, ret);
        }
        ds_lut_free(lut);
        return DS_LUT_E_NO_PATTERN;
}

int ds_learn_bytes(const struct ds_learn_draft *draft, const struct ds_lut *table, uint8_t **ret_bytes, size_t *ret_n)
{
        return write_table(draft, table->signature, table->head.n_signature, ret_bytes, ret_n);
}
