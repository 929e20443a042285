/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace's file: what the worker records and who stopped the trace reads
 *
 * A header, then names (NUL-terminated, referred to by where they begin; 0 = none), then records, a ring: record i of
 * all that were ever written lies at i % capacity, so of `written` the last `capacity` are there and the others are
 * lost. Whoever gets the file gets it sealed. Times are nanoseconds of the device's clock, 0 = not known. A reader
 * checks every offset all the same.
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
        uint64_t bytes; /* of the file */
        uint32_t record_bytes, simulated;
        uint32_t n_sms, n_tpcs, n_rungs, reserved;
        uint64_t names_at, names_bytes, names_used; /* the first byte of the names is a NUL */
        uint64_t records_at, capacity, written;
        uint64_t begin_ns, end_ns; /* when it was started and stopped */
        char device[96];
        struct ds_trace_rung rungs[DS_TRACE_RUNGS_MAX];
};

enum ds_trace_kind {
        DS_TRACE_NONE,
        DS_TRACE_OPERATION, /* all fields */
        DS_TRACE_MOVE,    /* a coroutine goes from rung `from` to `rung` at begin_ns; FENCED: its work was in flight */
        DS_TRACE_REQUEST, /* of a session, from begin_ns to end_ns */
        DS_TRACE_HOLD,    /* a quiesce: classes in `detail` (1 << class) were held from begin_ns to end_ns */
        DS_TRACE_POLICY,  /* `name` has been in charge since begin_ns; FALLBACK: the one before had failed */
        DS_TRACE_SESSION, /* `name`, class in `detail`; at the start of a trace, when it comes, and when it changes */
        DS_TRACE_GONE,    /* a session, at begin_ns */
        _DS_TRACE_KINDS,
};

enum ds_trace_flag {
        DS_TRACE_LOAN = 1,     /* the whole GPU was borrowed */
        DS_TRACE_FENCED = 2,   /* it came from another rung, behind work that was in flight there */
        DS_TRACE_SHARED = 4,   /* told of with others: the times are those of all */
        DS_TRACE_FALLBACK = 8, /* see DS_TRACE_POLICY */
        DS_TRACE_KILLED = 32,  /* it did not come to its end and is launched anew */
        DS_TRACE_CAPPED = 16,  /* a smaller rung because of its session's share */
        DS_TRACE_EVICTED = 64, /* it let go before its end, and goes on later: another piece of the same operation */
};

/* Where the time of a request, or of an operation that waited, went. */
enum ds_history_part {
        DS_HISTORY_RUNNING,
        DS_HISTORY_BEHIND,  /* others' work: see blockers */
        DS_HISTORY_DEVICE,  /* launched, not begun, and nobody known in the way */
        DS_HISTORY_POLICY,  /* ready, not launched, and nobody known in the way */
        DS_HISTORY_HELD,    /* by a quiesce */
        DS_HISTORY_DEPENDS, /* on a host function, a value in memory, an event */
        DS_HISTORY_HOST,    /* the client had submitted nothing more */
        _DS_HISTORY_PARTS,
};

struct ds_trace_record {
        uint32_t kind, flags;
        uint64_t session, coroutine;
        uint64_t kernel;        /* key of kernel and launch shape, the same number as everywhere */
        uint32_t name, detail;  /* detail of an operation: enum detshare_op_kind */
        uint32_t rung, from;    /* UINT32_MAX = none */
        uint32_t priority, sms; /* SMs of the rung */
        uint32_t blocks, threads;
        int32_t status;
        uint32_t part;   /* 1 + enum ds_history_part of most of its waiting, 0 = it did not wait */
        uint64_t behind; /* the session that it waited for most, 0 = none known */
        uint64_t submitted_ns, ready_ns, launched_ns, begin_ns, end_ns;
};

#endif
