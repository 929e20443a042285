/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of memory channels written by an attacker: the target corrects checksum and length, all other bytes are the
 * input's
 */
#include "lut/layout.h"
#include "tests/fuzz/fuzz.h"

static void seal(uint8_t *bytes, size_t size)
{
        uint32_t length = (uint32_t)size;
        struct ds_sha256 sum;

        memcpy(bytes + offsetof(struct ds_lut_head, bytes), &length, sizeof(length));
        ds_sha256_begin(&sum);
        ds_sha256_add(&sum, bytes, size - DS_SHA256_BYTES);
        ds_sha256_end(&sum, bytes + size - DS_SHA256_BYTES);
}

/* The channels of a page are those of the table, and its signature identifies this page or none. */
static void use(const struct ds_lut *lut)
{
        const struct ds_lut_facts *facts = ds_lut_facts(lut);
        struct ds_lut_probe probes[DS_LUT_PROBES_MAX];
        uint32_t pattern = facts->patterns / 3, told;
        const uint32_t *offsets;
        size_t n = ds_lut_signature(lut, &offsets);
        uint8_t *page = malloc((size_t)1 << (facts->page_bits - facts->granule_bits));

        ds_lut_page(lut, pattern, page);
        for (size_t i = 0; i < n; i++) {
                probes[i] = (struct ds_lut_probe){offsets[i], (uint8_t)ds_lut_channel(lut, pattern, offsets[i])};
                FUZZ_CHECK(probes[i].channel == page[offsets[i] >> facts->granule_bits]);
                FUZZ_CHECK(probes[i].channel < facts->channels || probes[i].channel == DS_LUT_UNKNOWN);
        }
        /* The search over all patterns is bounded, but too long for a fuzzer. */
        if (facts->patterns <= 1 << 13 && ds_lut_match(lut, probes, n, &told) == 0) {
                FUZZ_CHECK(told < facts->patterns);
                for (size_t i = 0; i < n; i++)
                        FUZZ_CHECK(ds_lut_channel(lut, told, offsets[i]) <= DS_LUT_UNKNOWN);
        }
        free(page);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint8_t *bytes = fuzz_copy(data, size);
        struct ds_lut *lut;
        char why[160];

        if (size >= sizeof(struct ds_lut_head) + DS_SHA256_BYTES)
                seal(bytes, size);
        if (ds_lut_parse(bytes, size, NULL, &lut, why, sizeof(why)) == 0) {
                use(lut);
                ds_lut_free(lut);
        }
        free(bytes);
        return 0;
}
