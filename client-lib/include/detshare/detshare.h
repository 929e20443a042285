/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libdetshare-client: what a program may tell DetShare and ask of it
 *
 * A program needs none of this to run under DetShare: put the drop-in libcuda.so.1 first in LD_LIBRARY_PATH. Programs
 * that know about DetShare use it to say what they are (class, SLO, name), to read the device's clock, and to see what
 * they used. Calls act on the process's one session, the same that the drop-in libcuda uses; the first call connects.
 *
 * Functions return 0 or a negative DETSHARE_E_ code; they never exit, never print except for one line when there is no
 * session to be had, and may be called from any thread. Strings are UTF-8 and copied. Structures start with their
 * size: set it to sizeof(...) before the call.
 *
 * When the daemon ends, every call returns an error within 100 ms: DETSHARE_E_LOST here, CUDA_ERROR_UNKNOWN from the
 * drop-in libcuda. Memory, streams, modules and declarations to the clock went with it, and nothing connects again by
 * itself, because a program that goes on must know that. It goes on in the same process in one of two ways:
 *  - CUDA programs destroy (or reset) their contexts and make (or retain) one: the first context that is made when
 * there is none connects, to a daemon at the same socket. So does cuInit. CUDA_ERROR_NO_DEVICE: there is none yet, try
 *    again. Handles of before are invalid handles; pinned memory of before is not mapped any more.
 *  - others call detshare_connect().
 * A program that was started before the daemon gets CUDA_ERROR_NO_DEVICE from cuInit (and one line on stderr) until
 * there is one.
 */
#ifndef DETSHARE_H
#define DETSHARE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DETSHARE_API_VERSION 1

/* name, value, text */
#define DETSHARE_ERROR_MAP(X)                                      \
        X(UNREACHABLE, 1, "the DetShare daemon cannot be reached") \
        X(DENIED, 2, "permission denied by the DetShare daemon")   \
        X(INVALID, 3, "invalid argument")                          \
        X(NO_SUCH, 4, "no such object")                            \
        X(QUOTA, 5, "a limit of the session or user is reached")   \
        X(VERSION, 6, "client library and daemon do not fit")      \
        X(NO_MEMORY, 7, "out of memory")                           \
        X(LOST, 8, "the connection to the daemon was lost")        \
        X(INTERNAL, 9, "internal error of the daemon")             \
        X(UNSUPPORTED, 10, "not supported by the daemon")

enum detshare_error {
        DETSHARE_OK = 0,
#define DETSHARE_ERROR_ENUM(name, value, text) DETSHARE_E_##name = -(value),
        DETSHARE_ERROR_MAP(DETSHARE_ERROR_ENUM)
#undef DETSHARE_ERROR_ENUM
};

enum detshare_client_class {
        DETSHARE_BE = 0, /* best effort: gets what latency-sensitive work leaves */
        DETSHARE_LS = 1, /* latency sensitive: keeps the latency it has alone */
};

/* What a language model's server is about. */
enum detshare_client_phase {
        DETSHARE_NO_PHASE = 0,
        DETSHARE_PREFILL = 1, /* a prompt at once: much computing, no token is late yet */
        DETSHARE_DECODE = 2,  /* the next token of each request: short kernels, and a time per token to be kept */
};

struct detshare_stats {
        uint32_t size;   /* in: sizeof(struct detshare_stats); out: how much of it was filled */
        uint32_t class_; /* enum detshare_client_class */
        uint64_t session;
        uint64_t slo_ns;
        uint64_t launches;  /* kernels that the device was given */
        uint64_t completed; /* kernels, copies and memsets that ended */
        uint64_t errors;    /* of these, with an error */
        uint64_t requests;  /* runs of work from idle to idle; counted for class ls */
        uint64_t device_ns; /* device time of the session's operations, summed */
        uint64_t wait_ns;   /* time its operations waited in the daemon before they started, summed */
        uint64_t memory_used, memory_limit, memory_peak; /* bytes; limit 0 = the user's */
        uint32_t queued, in_flight;
};

/*
 * Connect now instead of at the first use, or again after the daemon was gone. path NULL = that of the session before,
 * else DETSHARE_SOCKET, else /run/detshare/detshared.sock. DETSHARE_E_INVALID: there is a session with another daemon.
 */
int detshare_connect(const char *path);
/*
 * End the session: what the process has in the daemon is freed, and its pinned memory is not mapped any more. Calls of
 * other threads return errors, CUDA contexts behave as when the daemon ended. The next call that needs a session makes
 * one, with the environment's daemon.
 */
int detshare_disconnect(void);
/* 1 while the process has a session with a daemon that is there. */
int detshare_connected(void);
/* One sentence on the last failure of the calling thread, "" if none. Never NULL. */
const char *detshare_last_error(void);
const char *detshare_strerror(int error);
/* "0.1.0" of this library. */
const char *detshare_version(void);

/* Class, objective, name, memory limit; each may be refused (DETSHARE_E_DENIED, _QUOTA) and then stays as it was. */
int detshare_set_class(enum detshare_client_class class_);
int detshare_set_slo_ns(uint64_t slo_ns);
int detshare_set_name(const char *name);
int detshare_set_memory_limit(uint64_t bytes);
/*
 * Shares of the GPU's time, in thousandths: at least, and at most; 0 = nothing is said. They are for policies that know
 * them. A limit of 0 is the user's.
 */
int detshare_set_gpu_share(uint32_t request, uint32_t limit);
int detshare_get_stats(struct detshare_stats *stats);
/*
 * What is submitted from now on, by any thread of the process, is of this phase. It needs no answer: a program that
 * says nothing is looked at by the policy. Costs a request to the daemon when the phase changes, nothing when not.
 */
int detshare_hint_phase(enum detshare_client_phase phase);

/*
 * The device clock, nanoseconds: real time (CLOCK_MONOTONIC) on a GPU, virtual time on a simulated device. The first
 * call of a thread declares it: from then on the virtual clock stands still while the thread runs, and moves while it
 * waits in a CUDA or DetShare call, so that what a program measures is the device's latency and not the simulator's. A
 * declared thread that neither waits in DetShare nor leaves for 5 s of real time is taken to have left.
 */
int detshare_now(uint64_t *ret_ns);
int detshare_sleep_until(uint64_t ns);
/* Take the calling thread's declaration back. Ending the thread does so too. */
int detshare_clock_leave(void);
/* 1 if the device is simulated, 0 if not, negative on error. */
int detshare_simulated(void);

#ifdef __cplusplus
}
#endif
#endif
