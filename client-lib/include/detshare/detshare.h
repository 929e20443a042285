/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libdetshare-client: functions for programs that know about DetShare
 *
 * DetShare shares one GPU among programs. A program needs none of these functions: put the drop-in libcuda.so.1 first
 * in LD_LIBRARY_PATH. With them a program sets its class, its latency objective and its limits, reads the device's
 * clock, and reads what it has used. They act on the process's one session (its connection to the daemon), which the
 * drop-in libcuda uses too. The first call connects.
 *
 * Errors: functions return 0 or a negative DETSHARE_E_ code, where their comment does not say otherwise.
 * detshare_last_error() has one sentence on the calling thread's last failure.
 * Threads: every function may be called from any thread at any time. None ends the process, takes a signal, or waits
 * for a daemon that does not run. A child of fork() cannot use its parent's session.
 * Memory: strings are UTF-8; the library copies what it is given, and strings that it returns are its own.
 * Structures begin with `size`: set it to sizeof(...) before the call.
 * Output: nothing on standard output. The lines that may appear on standard error are listed in libdetshare-client(3).
 *
 * When the daemon ends, every call returns an error within 100 ms: DETSHARE_E_LOST here, CUDA_ERROR_UNKNOWN from the
 * drop-in libcuda. Memory, streams, modules and declarations to the clock are gone. The library does not connect again
 * by itself, because the program must know of the loss. The same process continues in one of two ways:
 *
 *  - A CUDA program destroys (or resets) its contexts, then makes (or retains) one. The first context that is made
 *    connects to a daemon at the same socket; so does cuInit. CUDA_ERROR_NO_DEVICE means that none runs yet: try again.
 *    Older handles are invalid, older pinned memory is unmapped.
 *  - Other programs call detshare_connect().
 *
 * A program that starts before the daemon gets CUDA_ERROR_NO_DEVICE from cuInit, and one line on standard error.
 */
#ifndef DETSHARE_H
#define DETSHARE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DETSHARE_API_VERSION 1

/* X(name, -code, text of detshare_strerror()) */
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
        DETSHARE_BE = 0, /* best-effort: gets the GPU time that latency-sensitive sessions leave; the default */
        DETSHARE_LS = 1, /* latency-sensitive: keeps nearly the latency that it has alone */
};

/* An objective bounds one of these times. */
enum detshare_objective {
        DETSHARE_LATENCY = 0, /* latency of a request, from its arrival or first launch to its end */
        DETSHARE_TTFT = 1,    /* time to first token: latency of a request that computes a prompt */
        DETSHARE_TPOT = 2,    /* time per output token: from the end of one step of an answer to the end of the next */
};

/* The kind of work that a language model's server submits. */
enum detshare_client_phase {
        DETSHARE_NO_PHASE = 0,
        DETSHARE_PREFILL = 1, /* computes a whole prompt: long kernels, no token is due yet */
        DETSHARE_DECODE = 2,  /* computes the next token of each request: short kernels, and a time per token to keep */
};

/* Figures of a session since it connected. */
struct detshare_stats {
        uint32_t size;      /* in: sizeof(struct detshare_stats); out: bytes that were filled */
        uint32_t class_;    /* enum detshare_client_class */
        uint64_t session;   /* number of the session, as detsharectl shows it */
        uint64_t slo_ns;    /* latency objective of a request, ns; 0: none */
        uint64_t launches;  /* number of kernels that the daemon gave to the device */
        uint64_t completed; /* number of kernels, copies and memsets that ended */
        uint64_t errors;    /* number of operations in `completed` that ended with an error */
        uint64_t requests;  /* number of requests (periods of work from idle to idle); counted for class LS only */
        uint64_t device_ns; /* device time of the session's operations, summed, ns */
        uint64_t wait_ns;   /* time from the submission of an operation to its start, summed, ns */
        /* device memory, bytes; memory_limit 0: only the user's limit holds */
        uint64_t memory_used, memory_limit, memory_peak;
        uint32_t queued, in_flight; /* number of operations that wait in the daemon; number that the device has */
};

/*
 * Connects now instead of at the first use, or again after the daemon ended. path: the daemon's socket. NULL: the
 * socket of the previous session; without one, DETSHARE_SOCKET; without that, /run/detshare/detshared.sock.
 * DETSHARE_E_UNREACHABLE: no daemon answers there. DETSHARE_E_DENIED: the caller may not use the socket.
 * DETSHARE_E_INVALID: the process has a session with another daemon, or a DETSHARE_ variable has a wrong value.
 */
int detshare_connect(const char *path);
/*
 * Ends the session. The daemon frees everything that the process has there, and the process's pinned memory is
 * unmapped. Calls of other threads return errors; CUDA contexts behave as after the end of the daemon. The next call
 * that needs a session makes one, with the environment's socket. 0 also without a session.
 */
int detshare_disconnect(void);
/* 1: the process has a session and its daemon runs. 0: not. Makes no session. */
int detshare_connected(void);

/* One sentence on the calling thread's last failure, "" if there was none. Never NULL; valid until its next call. */
const char *detshare_last_error(void);
/* Returns the text of a DETSHARE_E_ code; "unknown error" for any other number. Never NULL; valid for ever. */
const char *detshare_strerror(int error);
/* The version of this library, for example "0.1.0". Never NULL; valid for ever. */
const char *detshare_version(void);

/*
 * Sets the session's class. DETSHARE_E_DENIED: the daemon's configuration does not grant the user this class; the class
 * stays as it was.
 */
int detshare_set_class(enum detshare_client_class class_);
/*
 * Sets the latency objective of a request, ns, in place of the present one; 0 removes it. A request is a period of work
 * from idle to idle. A session that has removed all objectives has those of the daemon's configuration, if there are
 * any.
 */
int detshare_set_slo_ns(uint64_t slo_ns);
/*
 * Sets an objective as a latency, ns, and as a factor of the p99 that the session has alone, thousandths (1000 to
 * 100000; 1500: 1.5 times). 0: not as that; of both, the stricter one holds. The daemon measures what the session has
 * alone while no other work runs beside it; until it knows that, a factor has no effect. DETSHARE_E_INVALID: the factor
 * is out of range.
 */
int detshare_set_objective(enum detshare_objective objective, uint64_t ns, uint32_t permille);
/*
 * States that the request whose work is submitted next arrived at this time of the device's clock (detshare_now()), ns.
 * Its latency then counts from the arrival, so its wait inside of the program counts too. A time in the
 * future counts as now. Costs no request to the daemon. Before the session's first work it has no effect.
 * DETSHARE_E_INVALID: DETSHARE_TRANSPORT is rpc.
 */
int detshare_arrival(uint64_t ns);
/* Sets the name that detsharectl shows, at most 63 bytes. DETSHARE_E_INVALID: longer. */
int detshare_set_name(const char *name);
/*
 * Limits the session's device memory, bytes; 0: only the user's limit holds. Allocations beyond the limit fail; memory
 * that the session holds already stays.
 */
int detshare_set_memory_limit(uint64_t bytes);
/*
 * Sets the shares of the GPU's time that the session gets at least (request) and at most (limit), thousandths; request
 * 0: none, limit 0: the user's. Policies that do not know shares ignore them.
 */
int detshare_set_gpu_share(uint32_t request, uint32_t limit);
/* Fills *stats. Set stats->size to sizeof(*stats) before; DETSHARE_E_INVALID: it is not set. */
int detshare_get_stats(struct detshare_stats *stats);
/*
 * Declares the phase of all work that the process submits after this call, from any thread. A new phase costs a request
 * to the daemon, the same phase nothing. Without hints the policy guesses the phase from the kernels.
 */
int detshare_hint_phase(enum detshare_client_phase phase);

/*
 * Reads the device's clock, ns. On a GPU it is CLOCK_MONOTONIC. On a simulated device it is virtual: the first call
 * of a thread declares the thread to the clock. From then on the clock stands still while the thread runs, and
 * advances while the thread waits in a CUDA or DetShare call. So the program measures the device's latency, not the
 * simulator's speed. The daemon drops the declaration of a thread that neither waits in DetShare nor leaves for 5 s
 * of real time.
 */
int detshare_now(uint64_t *ret_ns);
/* Sleeps until the device's clock shows ns. Declares the thread as detshare_now() does. */
int detshare_sleep_until(uint64_t ns);
/* Withdraws the calling thread's declaration. The end of the thread does that too. */
int detshare_clock_leave(void);
/* 1: the device is simulated, and times measured on it are the model's. 0: a GPU. Negative: an error. */
int detshare_simulated(void);

#ifdef __cplusplus
}
#endif
#endif
