/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a trace: the worker writes it; the client that stopped the trace reads it
 *
 * A header, then names (NUL-terminated, referred to by their offset; 0: none), then records in a ring: record number i
 * lies at index i % capacity. So of the `written` records the last `capacity` are kept. A client receives the file
 * sealed. Times are nanoseconds of the device's clock, 0: not known. A reader must check every offset nevertheless.
 */
#ifndef DS_PROTO_TRACE_H
#define DS_PROTO_TRACE_H

#include <stdint.h>

#define DS_TRACE_MAGIC 0x3145434152545344ull /* "DSTRACE1" */
#define DS_TRACE_RUNGS_MAX 64u
#define DS_TRACE_HEADER_BYTES 8192u
#define DS_TRACE_BYTES_MIN (1ull << 20)
#define DS_TRACE_BYTES_DEFAULT (64ull << 20)
#define DS_TRACE_BYTES_MAX (256ull << 20)

struct ds_trace_rung {
        uint32_t n_sms, n_tpcs;
        uint64_t tpcs[2]; /* bit i = TPC i */
};

struct ds_trace_header {
        uint64_t magic;
        uint64_t bytes; /* size of the file */
        uint32_t record_bytes, simulated;
        uint32_t n_sms, n_tpcs, n_rungs, reserved;
        /* position and size of the names, and bytes in use; the first byte of the names is a NUL */
        uint64_t names_at, names_bytes, names_used;
        uint64_t records_at, capacity, written;
        uint64_t begin_ns, end_ns; /* start and stop of the trace */
        char device[96];
        struct ds_trace_rung rungs[DS_TRACE_RUNGS_MAX];
};

enum ds_trace_kind {
        DS_TRACE_NONE,
        DS_TRACE_OPERATION, /* an operation on the device; uses all fields */
        /* a coroutine moves from rung `from` to `rung` at begin_ns; FENCED: its work on the old rung was still
         * running */
        DS_TRACE_MOVE,
        DS_TRACE_REQUEST, /* a request of a session, from begin_ns to end_ns */
        DS_TRACE_HOLD,    /* a quiesce: classes in `detail` (1 << class) were held from begin_ns to end_ns */
        DS_TRACE_POLICY,  /* `name` is the policy since begin_ns; FALLBACK: its predecessor failed */
        /* `name` and class (in `detail`) of a session; recorded at the trace's start, when a session connects, and
         * when it changes */
        DS_TRACE_SESSION,
        DS_TRACE_GONE, /* a session ended at begin_ns */
        _DS_TRACE_KINDS,
};

enum ds_trace_flag {
        DS_TRACE_LOAN = 1, /* the operation ran on the whole GPU, lent to it instead of its policy's rung */
        /* the operation came from another rung, after work of its stream that was still running there */
        DS_TRACE_FENCED = 2,
        DS_TRACE_SHARED = 4,   /* the operation completed together with others: the times are those of all of them */
        DS_TRACE_FALLBACK = 8, /* DS_TRACE_POLICY: the previous policy failed */
        DS_TRACE_KILLED = 32,  /* the operation was ended early and is launched again */
        DS_TRACE_CAPPED = 16,  /* the operation got a smaller rung because of its session's share */
        /* the operation was evicted before its end and resumed later: another record has the rest */
        DS_TRACE_EVICTED = 64,
};

/* Parts of the time of a request, or of a waiting operation. */
enum ds_history_part {
        DS_HISTORY_RUNNING,
        DS_HISTORY_BEHIND,  /* behind work of other sessions, see `behind` */
        DS_HISTORY_DEVICE,  /* launched, but not begun, without a known blocker */
        DS_HISTORY_POLICY,  /* ready, but not launched, without a known blocker */
        DS_HISTORY_HELD,    /* held by a quiesce */
        DS_HISTORY_DEPENDS, /* waiting for a host function, a value in memory or an event */
        DS_HISTORY_HOST,    /* the client had submitted no more work */
        _DS_HISTORY_PARTS,
};

struct ds_trace_record {
        uint32_t kind, flags;
        uint64_t session, coroutine;
        uint64_t kernel;        /* key of kernel and launch shape, the same as in profiles */
        uint32_t name, detail;  /* for an operation, detail is enum detshare_op_kind */
        uint32_t rung, from;    /* rung, and rung before a move; UINT32_MAX: none */
        uint32_t priority, sms; /* priority; number of SMs of the rung */
        uint32_t blocks, threads;
        int32_t status;
        uint32_t part;   /* 1 + enum ds_history_part of the operation's longest wait; 0: it did not wait */
        uint64_t behind; /* session for which the operation waited longest; 0: none known */
        uint64_t submitted_ns, ready_ns, launched_ns, begin_ns, end_ns;
};

#endif
