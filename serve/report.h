/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report at the end, as text or as JSON
 *
 * Both label the figures of a simulated device as such. JSON is one object on one line. Its keys stay; later versions
 * may add others.
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
        const char *gpu, *driver, *class_; /* class_: granted class; NULL natively */
        bool native, simulated;
        uint64_t prepare_ns; /* real time from reading the pack to the first answer of every instance */
        /* --check, --digest */
        uint32_t n_cases;
        bool judged, same; /* same: every output equals the first one of its case */
        struct sv_verdict verdicts[SV_CASES_MAX];
        char digests[SV_CASES_MAX][2 * DS_SHA256_BYTES + 1];
        /* figures of the served requests */
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

/* Prints the pack alone (--show). */
void sv_report_pack(const struct sv_report *report);
void sv_report(const struct sv_report *report);
/* --orders: prints the line of JSON that says that everything is loaded and warm. */
void sv_report_ready(const struct sv_report *report);
