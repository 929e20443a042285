/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders on standard input, for scripts that start a service once and measure it often (tests/eval/measure.py)
 *
 *      standard input        standard output, a line of JSON each
 *                            {"ready": {...}}        prepared and warm
 *      serve FILE            {"latencies_ms": [...], "at_s": [...]}    requests arrive as FILE says (arrivals.h)
 *      loop SECONDS          {"items": N, "seconds": S, "latencies_ms": [...]}   one request after the other
 *
 * The end of the input is the end.
 */
#pragma once

#include "serve/load.h"

/* load: with everything but arrivals and limits. Fails at an order that makes no sense, and when an output differs. */
int sv_orders_run(const struct sv_load *load, struct sv_why *why);
