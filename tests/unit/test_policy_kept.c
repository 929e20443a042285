/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measurements of a pair that `detshare` keeps beyond a restart (policies/detshare/kept.h): a service whose requests never pause, and
 * a job beside it that costs requests less the fewer SMs it has
 *
 * A restart is a new scheduler with a new policy. The test carries the notes over, as the supervisor's database does.
 */
#include <string.h>

#include "policies/detshare/sketch.h"
#include "tests/unit/policy_harness.h"

#define SMS 132
#define KERNELS 20u
#define KERNEL_NS (50 * US)
#define SLO_NS (2200 * US) /* requests take 1.1 ms alone */
#define PAUSE_NS (100 * US)
#define NOTES 8u

static struct ph_client *service, *job;
static uint32_t slowdown = 800; /* by how much kernels take longer beside the job on all SMs, permille */
static struct ds_sched_note kept[NOTES];
static size_t n_kept;

static uint64_t beside_job(const struct ph_kernel *kernel, uint64_t alone_ns, uint32_t n_others)
{
        (void)kernel;
        (void)n_others;
        return ph_in_flight(job) ? alone_ns + alone_ns * slowdown / 1000 * ph_last(job)->n_sms / SMS : alone_ns;
}

static struct ph_kernel layer = {.name = "layer", .blocks = 16, .block_ns = KERNEL_NS, .beside = beside_job};
static struct ph_kernel other = {.name = "other", .blocks = 16, .block_ns = KERNEL_NS, .beside = beside_job};
static struct ph_kernel step = {.name = "step", .blocks = 32 * SMS, .block_ns = 4 * US};

/* Starts the policy, and the service and the job of these users. */
static void start(uint32_t service_uid, uint32_t job_uid)
{
        PH_KERNELS_ARE(&layer, &other, &step);
        ph_open(SMS / 2, "detshare", "explore_permille=0", NULL);
        service = ph_client(&(struct ds_sched_session_config){
                .class_ = DETSHARE_CLASS_LS, .slo = {.ns = {SLO_NS}}, .uid = service_uid});
        service->synchronises = 1;
        service->gap_us = 55;
        job = ph_client(&(struct ds_sched_session_config){.class_ = DETSHARE_CLASS_BE, .uid = job_uid});
        ph_know(&step, 0);
        ph_loop(job, &step, 4);
}

static const char *explained(void)
{
        static char text[512];

        ds_sched_session_explain(service->session, text, sizeof(text));
        return text;
}

/* Brings the notes that the policy asks for, and stores those that it has written. */
static void carry_notes(void)
{
        struct ds_sched_note notes[NOTES];
        size_t n = ds_sched_notes_asked(ph.sched, notes, NOTES);

        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < n_kept; k++)
                        if (kept[k].key == notes[i].key)
                                ds_sched_note_put(ph.sched, &kept[k]);
        n = ds_sched_notes_changed(ph.sched, notes, NOTES);
        for (size_t i = 0; i < n; i++) {
                size_t k = 0;

                while (k < n_kept && kept[k].key != notes[i].key)
                        k++;
                cr_assert_lt(k, NOTES);
                kept[k] = notes[i];
                n_kept += k == n_kept;
        }
}

/* Runs requests until the sentence about the service has the words. Returns their number; `most` + 1: never. */
static uint32_t requests_until(const struct ph_kernel *kernel, const char *words, uint32_t most)
{
        for (uint32_t i = 1; i <= most; i++) {
                ds_sched_session_arrival(service->session, ph_now(), ph_now());
                ph_request(service, kernel, KERNELS);
                do
                        ph_run_for(PAUSE_NS);
                while (service->running);
                carry_notes();
                if (strstr(explained(), words))
                        return i;
        }
        return most + 1;
}

/* SMs of the job in the sentence; 0: it says nothing about it. */
static uint32_t chosen_sms(void)
{
        const char *at = strstr(explained(), "best effort on ");

        return strstr(explained(), "shares: ") && at ? (uint32_t)strtoul(at + strlen("best effort on "), NULL, 10) : 0;
}

/* A first run of 600 requests, which keeps its measurement. Returns the requests until the first choice. */
static uint32_t first_run(void)
{
        uint32_t n;

        start(1, 2);
        n = requests_until(&layer, "gains most", 600);
        cr_assert_leq(n, 600, "%s", explained());
        requests_until(&layer, "never", 300);
        cr_assert_eq(n_kept, 1, "%zu", n_kept);
        cr_assert(strstr(kept[0].text, "detshare: best effort on "), "%s", kept[0].text);
        return n;
}

Test(policy_kept, the_choice_is_there_after_a_restart, .timeout = 60)
{
        const uint32_t cold = first_run(), sms = chosen_sms();
        uint32_t warm;

        cr_assert(sms && sms < SMS, "%s", explained());
        ph_close();
        start(1, 2);
        warm = requests_until(&layer, "earlier run", 600);
        cr_log_info("choice after %u requests, after a restart after %u", cold, warm);
        cr_assert_leq(warm, 4, "%u", warm);
        cr_assert_eq(chosen_sms(), sms, "%s", explained());
        cr_assert_leq(requests_until(&layer, "gains most", 50) + warm, cold / 2, "%s", explained());
        cr_assert_eq(chosen_sms(), sms, "%s", explained());
        cr_assert_leq(requests_until(&layer, "confirmed", 50), 50, "%s", explained());
        cr_assert_eq(chosen_sms(), sms, "%s", explained());
        ph_close();
}

/* The job costs requests more than it did: one late request suffices to drop the note. */
Test(policy_kept, a_choice_that_makes_requests_late_is_dropped, .timeout = 60)
{
        const uint32_t cold = first_run();

        ph_close();
        slowdown = 1600;
        start(1, 2);
        cr_assert_leq(requests_until(&layer, "did not hold", cold), cold, "%s", explained());
        cr_assert_eq(n_kept, 1);
        cr_assert_eq(kept[0].n, 1, "%u values", kept[0].n);
        ph_close();
        start(1, 2);
        cr_assert_eq(requests_until(&layer, "earlier run", 12), 13, "%s", explained());
        ph_close();
}

/* The job costs requests less than it did: the note is replaced by the new measurement. */
Test(policy_kept, a_choice_that_requests_contradict_is_measured_again, .timeout = 60)
{
        first_run();
        ph_close();
        slowdown = 150;
        start(1, 2);
        cr_assert_leq(requests_until(&layer, "did not hold", 50), 50, "%s", explained());
        requests_until(&layer, "confirmed", 200);
        cr_assert_eq(n_kept, 1);
        cr_assert_gt(kept[0].n, 1, "%s", kept[0].text);
        ph_close();
        start(1, 2);
        cr_assert_leq(requests_until(&layer, "confirmed", 50), 50, "the new measurement holds: %s", explained());
        ph_close();
}

/* Notes of another user, another service, or another version. */
Test(policy_kept, other_notes_are_not_used, .timeout = 60)
{
        const uint32_t cold = first_run();

        ph_close();
        start(3, 2);
        cr_assert_eq(requests_until(&layer, "earlier run", cold), cold + 1, "another user of the service");
        ph_close();
        start(1, 3);
        cr_assert_eq(requests_until(&layer, "earlier run", cold), cold + 1, "another user of the job");
        ph_close();
        start(1, 2);
        cr_assert_eq(requests_until(&other, "earlier run", cold), cold + 1, "another service");
        ph_close();
        kept[0].values[0]++;
        start(1, 2);
        cr_assert_eq(requests_until(&layer, "earlier run", 12), 13, "another version");
        ph_close();
}

/* The policy works whatever a note contains. */
Test(policy_kept, values_that_cannot_be_are_ignored, .timeout = 120)
{
        struct ds_sched_note sound;

        first_run();
        ph_close();
        sound = kept[0];
        for (uint32_t i = 1; i < sound.n; i++) {
                if (!sound.values[i])
                        continue;
                kept[0] = sound;
                kept[0].values[i] =
                        i == 3 ? sound.values[i] : UINT64_MAX; /* value 3 only says whether there is value 2 */
                start(1, 2);
                requests_until(&layer, "earlier run", 6);
                /* value 3 says whether there is value 2, and without value 4 the policy chooses again */
                cr_assert((strstr(explained(), "earlier run") != NULL) == (i == 3 || i == 4), "value %u: %s", i,
                        explained());
                ph_close();
        }
        kept[0] = sound;
        kept[0].n--;
        start(1, 2);
        cr_assert_eq(requests_until(&layer, "earlier run", 6), 7, "too few values");
        ph_close();
}

Test(policy_kept, a_sketch_depends_on_the_set_of_kernels_only)
{
        struct sketch a = {0}, b = {0}, c = {0};
        struct detshare_op_view op = {.kind = DETSHARE_OP_KERNEL, .forms = DETSHARE_FORM_NATIVE};

        cr_assert_eq(sketch_value(&a), 0);
        for (uint64_t i = 0; i < 100; i++) {
                op.kernel = i * i + 5;
                sketch_add(&a, &op);
                sketch_add(&a, &op);
        }
        for (uint64_t i = 100; i-- > 0;) {
                op.kernel = i * i + 5;
                sketch_add(&b, &op);
                op.kernel += 1000000;
                sketch_add(&c, &op);
                op.forms = DETSHARE_FORM_NATIVE | DETSHARE_FORM_GRAPH;
                sketch_add(&b, &op);
                op.kind = DETSHARE_OP_COPY;
                op.forms = 0;
                sketch_add(&b, &op);
                op.kind = DETSHARE_OP_KERNEL;
                op.forms = DETSHARE_FORM_NATIVE;
        }
        cr_assert_eq(sketch_value(&a), sketch_value(&b));
        cr_assert_neq(sketch_value(&a), sketch_value(&c));
}
