/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of the policy `detshare`: everything that it remembers, and the sums of one decision
 *
 * The state is bounded: it holds the LS sessions and the BE sessions seen last, a fixed number of each. If there are
 * more sessions, the policy forgets the one that it has not seen for longest, and learns it again when it returns.
 */
#pragma once

#include "policies/detshare/budget.h"
#include "policies/detshare/felt.h"
#include "policies/detshare/gaps.h"
#include "policies/detshare/params.h"
#include "policies/detshare/positions.h"
#include "policies/detshare/sharing.h"
#include "policies/detshare/sketch.h"
#include "policies/stair.h"

#define US 1000ull
#define MS 1000000ull
#define LS_MAX 32u
#define BE_MAX 64u
#define NEEDS 32u /* buckets of the histogram of SM needs; each stands for an equal share of the GPU's SMs */
/* places in the tables of coroutines, indexed by id; of two ids with the same place the later one stays */
#define ENDED 128u
/* least work that a BE coroutine keeps on the device, ns, so that the device is not idle until the next operation
 * arrives */
#define AHEAD_LEAST_NS 20000ull
#define CAME_BACK UINT64_MAX /* value of free_ns: BE left the device during this request and came back */
#define BLOCKS_MAX 32u       /* maximum number of SM counts in the calibration */

struct ls {
        uint64_t id;
        uint64_t seen;      /* number of the last decision that saw the session; 0: free place */
        uint64_t active_ns; /* time of the session's last work, ns */
        /* last time at which work of the session was on the device or could have been launched, ns */
        uint64_t works_ns;
        /* begin of the running or last request, and time since when the session's queue is empty, ns; 0: none yet */
        uint64_t begin_ns, empty_ns;
        uint64_t slo_ns, deadline_ns; /* objective of the running or next request, and deadline, ns; UINT64_MAX: none */
        uint8_t counted;              /* 1: the objective leaves out what the request waited in its client */
        uint8_t open;                 /* 1: a request runs */
        uint8_t busy;                 /* 1: the session has work queued or on the device */
        /* 1: the client has waited for everything it submitted; only while the session has no work */
        uint8_t synchronised;
        uint8_t gapped;              /* 1: the running request had gaps without work */
        uint8_t mixed;               /* 1: during this piece another regime than the session's own was in force, too */
        uint8_t beside;              /* 1: BE was on the device during this piece */
        uint8_t accompanied;         /* 1: BE was on the device during this request */
        uint8_t cut;                 /* 1: the trial of a more generous regime was ended in this piece */
        uint8_t never_pauses;        /* 1: the session's requests take most of the time */
        uint8_t other_way;           /* 1: BE ran in another way than the one chosen for this request */
        uint8_t tried;               /* 1: this request had a trial of a more generous regime */
        uint8_t bought;              /* 1: the objective's budget allows BE beside the running request */
        struct gaps inside, between; /* gaps inside requests, and between them */
        struct positions positions;  /* gaps at each position of a request */
        uint32_t delays, idle_ns;    /* kernels of this request, and its time without work, ns */
        uint32_t n_bought;           /* requests beside which the budget allowed BE */
        uint32_t need;               /* SMs that the first operations of the session's queues need now */
        uint32_t needs[NEEDS];       /* total time of kernels per bucket of SM need, us */
        /* length of a request without BE, near the shortest lengths seen, ns; 0: unknown */
        uint64_t length_ns;
        uint64_t idle_between_ns; /* pause between two requests, near the shortest pauses seen, ns; 0: unknown */
        /* mean length of requests, of requests beside BE, and of pauses, ns; 0: unknown */
        uint64_t mean_length_ns, mean_beside_ns, mean_idle_ns;
        uint64_t idle_after_ns; /* mean pause after requests beside which the objective allowed no BE, ns; 0: unknown */
        uint32_t mean_delays, mean_gap; /* kernels of a request; gap between two kernels, ns */
        struct felt felt;
        struct budget budget;
        struct sharing sharing;
        uint32_t uid;
        struct sketch kernels;
        /* time since when no BE is on the device during this request, ns; 0: BE is there; or CAME_BACK */
        uint64_t free_ns;
        uint64_t cut_ns;       /* time at which BE had to leave this request, ns; 0: it did not have to */
        uint64_t free_work_ns; /* be_work_ns at that time, ns */
        /* begin of the present piece of the request, ns; felt.h measures each piece by itself */
        uint64_t piece_ns;
        uint32_t regime, operations; /* enum felt_regime of the piece, and number of its operations that ended */
};

struct be {
        uint64_t id, seen;
        uint32_t uid;
        struct sketch kernels;
        uint64_t waits;     /* number of the last decision in which the session waited for LS */
        uint64_t device_ns; /* device time of the session in its last view, ns */
        uint64_t virtual_ns;
};

/* Time of the last end of an operation of a BE coroutine. */
struct ended {
        uint64_t coroutine, ns;
};

/* Time of the last eviction of a BE coroutine. */
struct evicted {
        uint64_t coroutine, ns;
        uint32_t back; /* 1: evicted to resume on all SMs, after the LS requests */
};

/* Resident blocks that BE may have on n_sms SMs beside LS; 0: no bound. */
struct bound {
        uint32_t n_sms, blocks[DETSHARE_BOUND_MEMORY + 1];
};

struct detshare {
        int64_t p[PARAMS];
        uint32_t n_sms;
        uint32_t mask_permille; /* slowdown of requests after kernels ran on a part of this GPU, permille */
        struct stair_side upper;
        uint32_t n_ways, way_rung[SHARING_WAYS], way_sms[SHARING_WAYS]; /* ways to share: rungs of BE, fewer SMs last */
        const struct detshare_notes *notes;                             /* NULL: the host keeps none */
        struct bound bounds[BLOCKS_MAX];
        uint32_t n_bounds;
        uint64_t decision;
        struct ls ls[LS_MAX];
        struct be be[BE_MAX];
        uint64_t be_since; /* number of the decision in which the last new BE session appeared */
        uint32_t be_last;  /* index in `be` of the session looked up last */
        struct ended ended[ENDED];
        struct evicted evicted[ENDED];
        uint64_t be_ns, explored_ns; /* device time of all BE, and the part of it spent on exploring, ns */
        uint64_t be_work_ns;         /* time that all kernels of BE that have ended take alone, ns */
        uint64_t ls_seen_ns;         /* time of the last LS work + 1, ns; 0: never */

        /* state of one decision */
        uint64_t now_ns, timer_ns;
        int wet;          /* 1: an LS request runs */
        int alone;        /* 1: no LS work for a while */
        int held;         /* 1: a running request holds BE: none of its kernels is launched */
        uint32_t reserve; /* SMs that BE leaves free during the running requests */
        /* way in which BE runs beside the requests that an objective lets it run beside, and in the pauses of such a
         * session, see sharing.h; 0 while several LS sessions are present */
        uint32_t way;
        /* remaining time of a BE block that LS can bear at each kernel of the running requests, ns */
        uint64_t harmless_ns;
        /* the same for the next requests of the sessions that are idle now, and their whole slack, ns; UINT64_MAX: no
         * request is expected */
        uint64_t soon_harmless_ns, soon_slack_ns;
        uint32_t soon_sms; /* SMs that these requests will need, up to `reserve_percent` */
        uint64_t soon_ns;  /* shortest usual pause between requests of all sessions, ns; UINT64_MAX: unknown */
        /* cost of one BE kernel on a part of the GPU for the session with the shortest requests, ns; 0: nothing */
        uint64_t mask_ns;
        /* share of time that the busiest LS session would be busy if BE were always beside it, permille */
        uint32_t busy_permille;
        uint32_t ls_recent; /* LS sessions present at the previous decision */
        uint64_t fair_ns;   /* least virtual time among BE sessions with ready work */
        /* 1: the session with the least virtual time has running work, so its virtual time grows */
        int fair_runs;
        uint32_t be_flying, flying; /* BE operations on the device; coroutines with any operation on the device */
};

static inline uint32_t number(const struct detshare *d, enum param param)
{
        return (uint32_t)d->p[param];
}

static inline void wake_at(struct detshare *d, uint64_t ns)
{
        if (ns < d->timer_ns)
                d->timer_ns = ns;
}
