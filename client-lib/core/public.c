/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of detshare.h
 *
 * Each function finds the session, makes the request and maps the answer to the header's few codes. The daemon's
 * message stays for detshare_last_error().
 */
#include <stdio.h>
#include <string.h>

#include "core/internal.h"

#pragma GCC visibility push(default)
#include "detshare/coloured.h"
#include "detshare/detshare.h"
#pragma GCC visibility pop

int dsc__fold(int error)
{
        switch (error) {
        case 0:
                return DETSHARE_OK;
        case DSC__NO_DEVICE:
                return DETSHARE_E_UNREACHABLE;
        case DETSHARE__STATUS__DENIED:
                return DETSHARE_E_DENIED;
        case DSC__INVALID_VALUE:
        case DETSHARE__STATUS__BAD_PARAMETER:
        case DETSHARE__STATUS__BAD_REQUEST:
                return DETSHARE_E_INVALID;
        case DETSHARE__STATUS__NO_SUCH:
                return DETSHARE_E_NO_SUCH;
        case DETSHARE__STATUS__QUOTA:
                return DETSHARE_E_QUOTA;
        case DETSHARE__STATUS__BAD_VERSION:
                return DETSHARE_E_VERSION;
        case DSC__OUT_OF_MEMORY:
                return DETSHARE_E_NO_MEMORY;
        case DSC__UNKNOWN:
        case DSC__NOT_INITIALIZED:
                return DETSHARE_E_LOST;
        case DETSHARE__STATUS__UNSUPPORTED:
                return DETSHARE_E_UNSUPPORTED;
        default:
                return DETSHARE_E_INTERNAL;
        }
}

static int invalid(const char *words)
{
        dsc__message("%s", words);
        return DETSHARE_E_INVALID;
}

int detshare_connect(const char *path)
{
        int r = 0;
        dsc_session *s = dsc__session_peek() ? dsc_renew(path, &r) : dsc__session(path, &r);
        if (!s)
                return dsc__fold(r);
        if (path && strcmp(path, s->path))
                return invalid("the process already has a session with another daemon");
        return dsc__fold(dsc__usable(s));
}

int detshare_disconnect(void)
{
        if (atomic_load(&dsc__forked))
                return dsc__fold(DSC__NOT_INITIALIZED);
        dsc__session_drop();
        return DETSHARE_OK;
}

int detshare_connected(void)
{
        dsc_session *s = dsc__session_peek();
        return s && !dsc__usable(s) && !dsc__peer_gone(s);
}

const char *detshare_last_error(void)
{
        return dsc_message();
}

const char *detshare_strerror(int error)
{
        switch (error) {
        case DETSHARE_OK:
                return "success";
#define ERROR_TEXT(name, value, text) \
        case DETSHARE_E_##name:       \
                return text;
                DETSHARE_ERROR_MAP(ERROR_TEXT)
#undef ERROR_TEXT
        }
        return "unknown error";
}

const char *detshare_version(void)
{
        return DETSHARE_VERSION;
}

static int set_session(Detshare__SetSession *set)
{
        int r = 0;
        dsc_session *s = dsc__session(NULL, &r);
        if (!s)
                return dsc__fold(r);
        Detshare__Request request = DSC__REQUEST(SET_SESSION, set_session, set);
        return dsc__fold(dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL));
}

int detshare_set_class(enum detshare_client_class class_)
{
        if (class_ != DETSHARE_BE && class_ != DETSHARE_LS)
                return invalid("the class is neither DETSHARE_BE nor DETSHARE_LS");
        Detshare__SetSession set = DETSHARE__SET_SESSION__INIT;
        set.set_class = true;
        set.class_ = class_ == DETSHARE_LS ? DETSHARE__CLASS__LS : DETSHARE__CLASS__BE;
        const int r = set_session(&set);
        dsc_session *s = dsc__session_peek();
        if (!r && s)
                atomic_store(&s->granted_class, set.class_);
        return r;
}

int detshare_set_slo_ns(uint64_t slo_ns)
{
        Detshare__SetSession set = DETSHARE__SET_SESSION__INIT;
        set.set_slo = true;
        set.slo_ns = slo_ns;
        return set_session(&set);
}

int detshare_set_objective(enum detshare_objective objective, uint64_t ns, uint32_t permille)
{
        if (permille && (permille < DS_SLO_FACTOR_MIN || permille > DS_SLO_FACTOR_MAX))
                return invalid("a factor is 1000 to 100000 thousandths of the latency alone, or 0 for none");
        Detshare__SetSession set = DETSHARE__SET_SESSION__INIT;
        switch (objective) {
        case DETSHARE_LATENCY:
                set.set_slo = true;
                set.slo_ns = ns;
                set.slo_permille = permille;
                break;
        case DETSHARE_TTFT:
                set.set_ttft = true;
                set.ttft_ns = ns;
                set.ttft_permille = permille;
                break;
        case DETSHARE_TPOT:
                set.set_tpot = true;
                set.tpot_ns = ns;
                set.tpot_permille = permille;
                break;
        default:
                return invalid("the objective is not one of enum detshare_objective");
        }
        return set_session(&set);
}

int detshare_arrival(uint64_t ns)
{
        int r = 0;
        dsc_session *s = dsc__session(NULL, &r);
        if (!s)
                return dsc__fold(r);
        if (s->socket_only)
                return invalid("arrivals need the submission ring, which DETSHARE_TRANSPORT=rpc leaves out");
        if (dsc__attached(s))
                atomic_store_explicit(&s->ring_header->arrival_ns, ns, memory_order_relaxed);
        return 0;
}

int detshare_set_name(const char *name)
{
        if (!name || strlen(name) > 63)
                return invalid("a name has at most 63 bytes");
        Detshare__SetSession set = DETSHARE__SET_SESSION__INIT;
        set.set_name = true;
        set.name = (char *)name;
        return set_session(&set);
}

int detshare_set_memory_limit(uint64_t bytes)
{
        Detshare__SetSession set = DETSHARE__SET_SESSION__INIT;
        set.set_memory_limit = true;
        set.memory_limit = bytes;
        return set_session(&set);
}

int detshare_set_gpu_share(uint32_t request, uint32_t limit)
{
        if (request > DSC__SHARE_ALL || limit > DSC__SHARE_ALL || (limit && request > limit))
                return invalid("a share is 0 to 1000 thousandths, and the request no more than the limit");
        Detshare__SetSession set = DETSHARE__SET_SESSION__INIT;
        set.set_share = true;
        set.gpu_request = request;
        set.gpu_limit = limit;
        return set_session(&set);
}

int detshare_hint_phase(enum detshare_client_phase phase)
{
        int r = 0;
        if ((uint32_t)phase >= DSC__PHASES)
                return invalid("the phase is not one of enum detshare_client_phase");
        dsc_session *s = dsc__session(NULL, &r);
        return dsc__fold(s ? dsc__phase_set(s, (uint32_t)phase) : r);
}

/* Copies the figures to the program's structure. A program built with an older, shorter structure gets the fields
 * that it knows. One built with a newer, longer one learns from `size` how much this library fills. */
static void copy_stats(struct detshare_stats *to, const Detshare__StatsReply *from)
{
        const struct detshare_stats stats = {
                .size = to->size < sizeof(stats) ? to->size : sizeof(stats),
                .class_ = from->class_ == DETSHARE__CLASS__LS ? DETSHARE_LS : DETSHARE_BE,
                .session = from->session,
                .slo_ns = from->slo_ns,
                .launches = from->launches,
                .completed = from->completed,
                .errors = from->errors,
                .requests = from->requests,
                .device_ns = from->device_ns,
                .wait_ns = from->wait_ns,
                .memory_used = from->memory_used,
                .memory_limit = from->memory_limit,
                .memory_peak = from->memory_peak,
                .queued = from->queued,
                .in_flight = from->in_flight,
        };
        memcpy(to, &stats, stats.size);
}

int detshare_get_stats(struct detshare_stats *stats)
{
        int r = 0;
        if (!stats || stats->size < offsetof(struct detshare_stats, session))
                return invalid("detshare_stats.size is not set: set it to sizeof(struct detshare_stats)");
        dsc_session *s = dsc__session(NULL, &r);
        if (!s)
                return dsc__fold(r);
        Detshare__GetStats get = DETSHARE__GET_STATS__INIT;
        Detshare__Request request = DSC__REQUEST(GET_STATS, get_stats, &get);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_GET_STATS, &answer);
        if (r)
                return dsc__fold(r);
        copy_stats(stats, answer.reply->get_stats);
        dsc__answer_clear(&answer);
        return DETSHARE_OK;
}

int detshare_now(uint64_t *ret_ns)
{
        int r = 0;
        if (!ret_ns)
                return invalid("a null pointer");
        dsc_session *s = dsc__session(NULL, &r);
        return dsc__fold(s ? dsc__clock_now(s, ret_ns) : r);
}

int detshare_sleep_until(uint64_t ns)
{
        int r = 0;
        dsc_session *s = dsc__session(NULL, &r);
        return dsc__fold(s ? dsc__clock_sleep(s, ns) : r);
}

int detshare_clock_leave(void)
{
        dsc_session *s = dsc__session_peek();
        return s ? dsc__fold(dsc__clock_leave(s)) : DETSHARE_OK;
}

int detshare_coloured_beside(void)
{
        int r = 0;
        dsc_session *s = dsc__session(NULL, &r);
        if (!s)
                return dsc__fold(r);
        return s->page ? atomic_load_explicit(&s->page->beside, memory_order_relaxed) != 0 : 0;
}

int detshare_simulated(void)
{
        int r = 0;
        dsc_session *s = dsc__session(NULL, &r);
        return s ? s->simulated : dsc__fold(r);
}
