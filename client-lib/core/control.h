/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about the daemon itself: the basis of detsharectl
 *
 * A control session does no GPU work and reserves no address window; it is separate from the process's own session.
 * Structures are filled with copies; longer strings are cut. Functions return 0, DSC_CONTROL_UNREACHABLE, a daemon
 * status (detshare.proto) or a CUDA error number; dsc_message() has the daemon's message. Exported for detsharectl of
 * the same build only.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/core.h"
#include "proto/slo.h"

#pragma GCC visibility push(default)

#define DSC_CONTROL_UNREACHABLE 100
#define DSC_CONTROL_LOST 999
#define DSC_CONTROL_BAD_REQUEST 10000
#define DSC_CONTROL_DENIED 10002
#define DSC_CONTROL_NO_SUCH 10003
#define DSC_CONTROL_UNSUPPORTED 10007
#define DSC_CONTROL_BAD_PARAMETER 10009

struct dsc_status {
        char version[32], device[96], worker_state[32], policy[64];
        uint64_t uptime_ns;
        int simulated;
        uint32_t worker_pid, worker_restarts, helper_pid;
        int worker_answers; /* 0: the worker does not answer, its figures are the last known ones */
        uint32_t sessions, sessions_ls, windows, modules, open_fds, charges;
        uint64_t memory_total, memory_slabs, memory_used;
        uint64_t launches, completed, errors, policy_fallbacks, device_now_ns;
        uint32_t in_flight, queued;
        uint32_t n_sms, n_tpcs, n_gpcs, n_rungs; /* numbers of SMs, TPCs, GPCs (0: unknown) and rungs of the device */
        uint32_t n_coarse_rungs;
        uint64_t device_own, ladder_bytes, ladder_ns, quiesces, quiesce_ns;
        uint64_t quiesce_stop_ns, quiesce_hits;    /* time for which all work was held; LS requests that this delayed */
        uint64_t spin_ns;                          /* time for which the worker polls after latency-sensitive work */
        uint64_t request_spin_ns;                  /* time for which the daemon polls after a request */
        uint64_t worker_cpu_ns, supervisor_cpu_ns; /* processor time since each process started */
        char topology[520];                        /* GPCs and TPCs as text, see StatusReply */
        uint64_t migrations, loans, kills, policy_nonsense;
        char transform[16];
        uint32_t modules_transformed;
        uint64_t forms_made, forms_found, forms_failed, forms_ns, launches_sliced, launches_persistent, evictions,
                resumes;
        /* pool of memory whose channels are known; pool_bytes 0: no pool, channels_why has the reason */
        uint64_t pool_bytes;
        uint32_t pool_slabs, pool_slabs_lent, pool_sector_bytes, pool_granule_bytes, channels, channels_be;
        uint32_t pool_be_permille, pool_ls_permille, pool_lost_permille;
        /* channels_be_list: numbers of the best-effort channels, for example "0 3 5" */
        char channels_source[128], channels_why[128], channels_be_list[512];
        char policy_fallback[448]; /* reason why the built-in policy replaced the one that was set; "" if it did not */
        uint64_t images, images_known, code_remembered, code_stored, code_compiled, code_damaged, code_files,
                code_bytes;
};

struct dsc_client {
        uint64_t session;
        uint32_t pid, uid;
        char name[64];
        int is_ls, control_only;
        struct ds_slo slo; /* as stated */
        uint64_t memory_used, memory_limit, launches, completed, errors, device_ns, connected_ns;
        uint32_t sm_percent, gpu_request, gpu_limit; /* shares of the GPU's time, thousandths; 0 = none */
        uint32_t queued, in_flight;
};

struct dsc_policy {
        char name[64], description[256], params[4096];
        /* parameters of the active policy, "key=value" joined by newlines; "" if the policy is not active */
        char in_force[4096];
        int active;
};

struct dsc_activity {
        uint64_t session;
        int is_ls, request_active;
        uint32_t queued, in_flight, streams;
        /* current rung and its SMs; rung UINT32_MAX: no operation was in flight during the last second */
        uint32_t rung, rung_sms;
        uint32_t share_permille;
        uint64_t requests;
        /* requests of the last 10 to 20 s; those with an objective since it was last stated; those of them that met it */
        uint64_t recent_requests, recent_judged, recent_met;
        uint64_t p50_ns, p99_ns, max_ns, memory_used;
        struct ds_slo slo;                /* ns: in force; permille: as stated */
        uint64_t alone_ns[_DS_SLO_KINDS]; /* p99 of requests that had the GPU to themselves; 0: not known */
        uint32_t alone_missed_permille;   /* such requests that missed an objective; 0: at most one in a hundred */
};

struct dsc_activity_all {
        uint64_t now_ns, migrations, loans;
        uint32_t ls_active;
};

#define DSC_REQUEST_LISTS 4

struct dsc_request {
        uint64_t begin_ns, end_ns;
        uint64_t running_ns, behind_ns, device_ns, policy_ns, held_ns, depends_ns, host_ns, own_ns;
        uint32_t operations, migrations, loans;
        int active;
        uint32_t n_behind, n_rungs;
        struct {
                uint64_t session, ns; /* session 0: a session that the caller may not see */
                uint32_t rung;
                char name[64];
        } behind[DSC_REQUEST_LISTS];
        struct {
                uint32_t rung, n_sms;
                uint64_t run_ns, wait_ns;
        } rungs[DSC_REQUEST_LISTS];
};

/* The forms of a kernel that a session launched, see FormsEntry in detshare.proto. */
struct dsc_forms {
        uint64_t module, launches, native_ns, evict_ns, blocks_at_once;
        char kernel[256], why_sliced[256], why_persistent[256], chosen[16], why_chosen[128];
        uint32_t cost_permille;
        int sliced, persistent, instead;
};

/* Opens a control session. path NULL: DETSHARE_SOCKET, else the default socket. ls: requests class LS;
 * dsc_control_is_ls() says whether it was granted. */
int dsc_control_open(const char *path, int ls, dsc_session **ret);
/* *ret: description of the daemon's device; valid as long as the session. */
int dsc_control_device(dsc_session *s, const struct dsc_device **ret);
dsc_session *dsc_control_close(dsc_session *s);
/* Returns the path of the socket that dsc_control_open() uses; valid as long as `path` and the environment. */
const char *dsc_control_path(const char *path);
int dsc_control_is_ls(dsc_session *s);
const char *dsc_control_version(dsc_session *s); /* version of the daemon */

int dsc_control_ping(dsc_session *s); /* makes one request and waits for its answer */
int dsc_control_status(dsc_session *s, struct dsc_status *ret);
/* *ret: all clients, or all policies, in a malloc'ed array. */
int dsc_control_clients(dsc_session *s, struct dsc_client **ret, size_t *ret_n);
int dsc_control_policies(dsc_session *s, struct dsc_policy **ret, size_t *ret_n);
int dsc_control_set_policy(dsc_session *s, const char *name, char *const *params, size_t n_params);
int dsc_control_set_class(dsc_session *s, uint64_t session, int ls);
int dsc_control_kill(dsc_session *s, uint64_t session);
/* The current activity of all sessions in a malloc'ed array, sorted by session. */
int dsc_control_activity(dsc_session *s, struct dsc_activity **ret, size_t *ret_n, struct dsc_activity_all *ret_all);
/* The fault that ended a session's work, and what the policy says about the session. */
struct dsc_fault {
        int error; /* CUDA error number; 0: the session has no error */
        /* one line: kernel (mangled name), address, block, thread, PTX line, as far as they are known */
        char words[512];
        char policy[512]; /* sentence of the policy about the session; "": it says nothing */
};

/* A session's last requests, oldest first, in a malloc'ed array, and its fault. */
int dsc_control_explain(
        dsc_session *s, uint64_t session, struct dsc_request **ret, size_t *ret_n, struct dsc_fault *ret_fault);
/*
 * Copies a fault's line with the kernel's C++ name demangled. Demangling may take exponential time for hostile names:
 * for a line of another process, call it in a child process with limits.
 */
void dsc_fault_words(const char *fault, char *ret, size_t size);
/* The kernels that a session has launched, in a malloc'ed array. */
int dsc_control_forms(dsc_session *s, uint64_t session, struct dsc_forms **ret, size_t *ret_n);
/* Starts a trace. bytes 0: the daemon's default size; duration_ns 0: until dsc_control_trace_stop(). */
int dsc_control_trace_start(dsc_session *s, uint64_t bytes, uint64_t duration_ns);
/* Stops the trace and returns its file (proto/trace.h). */
int dsc_control_trace_stop(dsc_session *s, int *ret_fd);

#pragma GCC visibility pop
