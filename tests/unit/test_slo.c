/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of objectives (proto/slo.h)
 */
#include <criterion/criterion.h>

#include "proto/slo.h"

Test(slo, factors_and_latencies)
{
        static const struct {
                const char *text;
                uint64_t ns;
                uint32_t permille;
        } cases[] = {{"1x", 0, 1000}, {"1.5x", 0, 1500}, {"100x", 0, 100000}, {"1.0009x", 0, 1000}, {"2.x", 0, 2000},
                {"5ms", 5000000, 0}, {"2.5ms", 2500000, 0}, {".5ms", 500000, 0}, {"0.000001ms", 1, 0},
                {"1000000ms", 1000000000000, 0}};

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                uint64_t ns = 0;
                uint32_t permille = 0;

                cr_assert_eq(ds_slo_parse(cases[i].text, &ns, &permille), 0, "%s", cases[i].text);
                cr_assert(ns == cases[i].ns && permille == cases[i].permille, "%s: %llu ns, %u", cases[i].text,
                        (unsigned long long)ns, permille);
        }
}

Test(slo, other_texts_are_refused)
{
        static const char *const texts[] = {"", "x", ".x", "ms", ".ms", "1", "1.5", "0.9x", "0x", "100.001x", "1x ",
                " 1x", "1.5.x", "-1x", "+1x", "1e3ms", "0ms", "0.0ms", "5s", "5msx", "5m", "1,5x", "nanx", "infms",
                "99999999999999999999999999ms", "99999999999999999999999999x"};

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                uint64_t ns = 7;
                uint32_t permille = 7;

                cr_assert_eq(ds_slo_parse(texts[i], &ns, &permille), -1, "%s", texts[i]);
                cr_assert(ns == 7 && permille == 7, "%s", texts[i]);
        }
}
