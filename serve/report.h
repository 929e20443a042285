/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said at the end, to people or as JSON
 *
 * Figures of a simulated device are called that in both. JSON is one object on one line; its words stay, and more may
 * come.
 */
#pragma once

#include "serve/bimodal.h"
#include "serve/cases.h"
#include "serve/coloured.h"
#include "serve/options.h"
#include "serve/samples.h"

struct sv_report {
        const struct sv_options *options;
        const struct sv_pack *pack;
        const char *gpu, *driver, *class_; /* class_: as it was granted; NULL natively */
        bool native, simulated;
        uint64_t prepare_ns; /* from the pack to a first answer of every instance, real time */
        /* --check, --digest */
        uint32_t n_cases;
        bool judged, same; /* same: every output was its case's first */
        struct sv_verdict verdicts[SV_CASES_MAX];
        char digests[SV_CASES_MAX][2 * DS_SHA256_BYTES + 1];
        /* what was served */
        bool served;
        uint64_t requests, different, ns, in_slo;
        struct sv_times latency, service;
        uint64_t bad, slow, late, busy, dropped; /* --listen */
        bool bimodal;                            /* --bimodal, served: */
        struct sv_coloured_figures coloured;
        /* --show with --bimodal */
        uint32_t memory_bound; /* launches */
        const struct sv_bm_footprint *footprint;
};

/* The pack alone. */
void sv_report_pack(const struct sv_report *report);
void sv_report(const struct sv_report *report);
/* --orders: the line of JSON that says that everything is loaded and warm. */
void sv_report_ready(const struct sv_report *report);
