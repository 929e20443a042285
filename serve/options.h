/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of the command line
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "serve/coloured.h"

#define SV_INSTANCES_MAX 256u

/* Exit statuses, the same as detsharectl's. */
enum sv_exit {
        SV_EXIT_OK = 0,
        SV_EXIT_FAILED = 1,
        SV_EXIT_USAGE = 2,
        SV_EXIT_UNREACHABLE = 9,
};

enum sv_mode {
        SV_LOOK,   /* no requests: --check, --digest, --kernels */
        SV_LOOP,   /* --requests, --seconds */
        SV_TRACE,  /* --trace */
        SV_RANDOM, /* --rate */
        SV_LISTEN, /* --listen */
        SV_ORDERS, /* --orders */
};

struct sv_options {
        const char *pack;
        enum sv_mode mode;
        bool native, as_found, orders, check, digest, show, json, trusted;
        unsigned instances, connections;
        uint64_t requests, seed;     /* requests 0: not given */
        double seconds, rate, speed; /* 0: not given */
        double wait;                 /* s */
        const char *trace, *listen, *class_, *name, *latencies, *kernels, *bimodal;
        enum sv_follow follow;
        double slo_ms; /* 0: none */
};

extern const char sv_usage[];

/* -1: the options are valid; otherwise the exit status. */
int sv_options_parse(int argc, char **argv, struct sv_options *ret);
/* Prints a line on standard error. Returns SV_EXIT_USAGE. */
__attribute__((format(printf, 1, 2))) int sv_options_wrong(const char *format, ...);
