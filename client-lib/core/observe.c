/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control requests about activity, requests, forms and traces: see control.h
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/control.h"
#include "core/internal.h"

#define SESSIONS_MAX 65536u /* most sessions in a list, if a daemon never sends the last page */
#define REQUESTS_MAX 4096u

/* --- activity --------------------- */

static void take_activity(const Detshare__ActivityEntry *e, struct dsc_activity *ret)
{
        *ret = (struct dsc_activity){
                .session = e->session,
                .is_ls = e->class_ == DETSHARE__CLASS__LS,
                .request_active = e->request_active,
                .queued = e->queued,
                .in_flight = e->in_flight,
                .streams = e->streams,
                .rung = e->rung,
                .rung_sms = e->rung_sms,
                .share_permille = e->share_permille,
                .requests = e->requests,
                .recent_requests = e->recent_requests,
                .recent_judged = e->recent_judged,
                .recent_met = e->recent_met,
                .p50_ns = e->p50_ns,
                .p99_ns = e->p99_ns,
                .max_ns = e->max_ns,
                .memory_used = e->memory_used,
                .slo = DS_SLO_READ(e),
                .alone_ns = {e->alone_ns, e->alone_ttft_ns, e->alone_tpot_ns},
                .alone_missed_permille = e->alone_missed_permille,
        };
}

static int activity_page(
        dsc_session *s, struct dsc_activity **list, size_t *n, struct dsc_activity_all *all, bool *more)
{
        Detshare__ListActivity ask = DETSHARE__LIST_ACTIVITY__INIT;
        ask.after = *n ? (*list)[*n - 1].session : 0;
        Detshare__Request request = DSC__REQUEST(LIST_ACTIVITY, list_activity, &ask);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_LIST_ACTIVITY, &answer);
        if (r)
                return r;
        const Detshare__ActivityList *page = answer.reply->list_activity;
        void *grown = *n + page->n_sessions > SESSIONS_MAX
                              ? NULL
                              : reallocarray(*list, *n + page->n_sessions + 1, sizeof(**list));
        if (grown)
                *list = grown;
        for (size_t i = 0; i < page->n_sessions && grown; i++)
                take_activity(page->sessions[i], &(*list)[(*n)++]);
        *more = page->more && page->n_sessions > 0;
        *all = (struct dsc_activity_all){.now_ns = page->now_ns,
                .migrations = page->migrations,
                .loans = page->loans,
                .ls_active = page->ls_active};
        dsc__answer_clear(&answer);
        return grown ? 0 : DSC__OUT_OF_MEMORY;
}

int dsc_control_activity(dsc_session *s, struct dsc_activity **ret, size_t *ret_n, struct dsc_activity_all *ret_all)
{
        struct dsc_activity *list = NULL;
        size_t n = 0;
        bool more = true;
        while (more) {
                const int r = activity_page(s, &list, &n, ret_all, &more);
                if (r) {
                        free(list);
                        return r;
                }
        }
        *ret = list;
        *ret_n = n;
        return 0;
}

/* --- requests --- */

static void take_lists(const Detshare__RequestEntry *e, struct dsc_request *ret)
{
        for (size_t i = 0; i < e->n_behind && i < DSC_REQUEST_LISTS; i++, ret->n_behind++) {
                ret->behind[i].session = e->behind[i]->session;
                ret->behind[i].rung = e->behind[i]->rung;
                ret->behind[i].ns = e->behind[i]->ns;
                snprintf(ret->behind[i].name, sizeof(ret->behind[i].name), "%s", e->behind[i]->name);
        }
        for (size_t i = 0; i < e->n_rungs && i < DSC_REQUEST_LISTS; i++, ret->n_rungs++) {
                ret->rungs[i].rung = e->rungs[i]->rung;
                ret->rungs[i].n_sms = e->rungs[i]->n_sms;
                ret->rungs[i].run_ns = e->rungs[i]->run_ns;
                ret->rungs[i].wait_ns = e->rungs[i]->wait_ns;
        }
}

static void take_request(const Detshare__RequestEntry *e, struct dsc_request *ret)
{
        *ret = (struct dsc_request){
                .begin_ns = e->begin_ns,
                .end_ns = e->end_ns,
                .running_ns = e->running_ns,
                .behind_ns = e->behind_ns,
                .device_ns = e->device_ns,
                .policy_ns = e->policy_ns,
                .held_ns = e->held_ns,
                .depends_ns = e->depends_ns,
                .host_ns = e->host_ns,
                .own_ns = e->own_ns,
                .operations = e->operations,
                .migrations = e->migrations,
                .loans = e->loans,
                .active = e->active,
        };
        take_lists(e, ret);
}

int dsc_control_explain(
        dsc_session *s, uint64_t session, struct dsc_request **ret, size_t *ret_n, struct dsc_fault *ret_fault)
{
        Detshare__Explain explain = DETSHARE__EXPLAIN__INIT;
        explain.session = session;
        Detshare__Request request = DSC__REQUEST(EXPLAIN, explain, &explain);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_EXPLAIN, &answer);
        if (r)
                return r;
        const Detshare__ExplainReply *reply = answer.reply->explain;
        const size_t n = reply->n_requests < REQUESTS_MAX ? reply->n_requests : REQUESTS_MAX;
        struct dsc_request *requests = calloc(n + 1, sizeof(*requests));
        ret_fault->error = reply->error;
        snprintf(ret_fault->words, sizeof(ret_fault->words), "%s", reply->fault);
        snprintf(ret_fault->policy, sizeof(ret_fault->policy), "%s", reply->policy);
        for (size_t i = 0; i < n && requests; i++)
                take_request(reply->requests[i], &requests[i]);
        dsc__answer_clear(&answer);
        *ret = requests;
        *ret_n = n;
        return requests ? 0 : DSC__OUT_OF_MEMORY;
}

/* --- forms of kernels --- */

static void take_forms(const Detshare__FormsEntry *e, struct dsc_forms *ret)
{
        *ret = (struct dsc_forms){
                .module = e->module,
                .launches = e->launches,
                .native_ns = e->native_ns,
                .evict_ns = e->evict_ns,
                .blocks_at_once = e->blocks_at_once,
                .cost_permille = e->cost_permille,
                .sliced = e->sliced,
                .persistent = e->persistent,
                .instead = e->instead,
        };
        snprintf(ret->kernel, sizeof(ret->kernel), "%s", e->kernel);
        snprintf(ret->why_sliced, sizeof(ret->why_sliced), "%s", e->why_sliced);
        snprintf(ret->why_persistent, sizeof(ret->why_persistent), "%s", e->why_persistent);
        snprintf(ret->chosen, sizeof(ret->chosen), "%s", e->chosen);
        snprintf(ret->why_chosen, sizeof(ret->why_chosen), "%s", e->why_chosen);
}

/* Reads one page of the list. *at: where the page begins; changed to where the next one begins. A page may be empty
 * without being the last. */
static int forms_page(dsc_session *s, uint64_t session, struct dsc_forms **list, size_t *n, uint32_t *at, bool *more)
{
        Detshare__ListForms ask = DETSHARE__LIST_FORMS__INIT;
        ask.session = session;
        ask.after = *at;
        Detshare__Request request = DSC__REQUEST(LIST_FORMS, list_forms, &ask);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_LIST_FORMS, &answer);
        if (r)
                return r;
        const Detshare__FormsList *page = answer.reply->list_forms;
        struct dsc_forms *grown = reallocarray(*list, *n + page->n_kernels + 1, sizeof(**list));
        if (grown) {
                *list = grown;
                for (size_t i = 0; i < page->n_kernels; i++)
                        take_forms(page->kernels[i], &grown[(*n)++]);
                *more = page->more && page->next > *at;
                *at = page->next;
        }
        dsc__answer_clear(&answer);
        return grown ? 0 : DSC__OUT_OF_MEMORY;
}

int dsc_control_forms(dsc_session *s, uint64_t session, struct dsc_forms **ret, size_t *ret_n)
{
        struct dsc_forms *list = NULL;
        size_t n = 0;
        uint32_t at = 0;
        for (bool more = true; more;) {
                const int r = forms_page(s, session, &list, &n, &at, &more);
                if (r) {
                        free(list);
                        return r;
                }
        }
        *ret = list;
        *ret_n = n;
        return 0;
}

/* --- traces --- */

int dsc_control_trace_start(dsc_session *s, uint64_t bytes, uint64_t duration_ns)
{
        Detshare__TraceStart start = DETSHARE__TRACE_START__INIT;
        start.bytes = bytes;
        start.duration_ns = duration_ns;
        Detshare__Request request = DSC__REQUEST(TRACE_START, trace_start, &start);
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

int dsc_control_trace_stop(dsc_session *s, int *ret_fd)
{
        Detshare__TraceStop stop = DETSHARE__TRACE_STOP__INIT;
        Detshare__Request request = DSC__REQUEST(TRACE_STOP, trace_stop, &stop);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_TRACE_STOP, &answer);
        if (r)
                return r;
        if (answer.n_fds == 1 && answer.fds[0] >= 0) {
                *ret_fd = answer.fds[0];
                answer.fds[0] = -1;
        } else {
                r = DSC__UNKNOWN;
        }
        dsc__answer_clear(&answer);
        return r;
}
