/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders on standard input, for scripts that start a service once and measure it often (tests/eval/measure.py)
 *
 *      standard input        standard output, a line of JSON each
 *                            {"ready": {"instances": N, "checked": [...], ...}}   loaded and warm
 *      serve FILE            {"latencies_ms": [...], "at_s": [...]}    requests arrive as FILE says (arrivals.h)
 *      loop SECONDS          {"items": N, "seconds": S, "latencies_ms": [...]}   one request after the other
 *      hold                  {"held": {"now_ns": N}}   a simulated device's clock stands still until the next order
 *      at NS                 no answer: the next `serve` or `loop` begins at that time of the device's clock
 *
 * `hold` and `at` let several services begin at one moment: a script sends `hold` to all of them, reads all answers,
 * and then sends the others. The end of the input ends the program.
 */
#pragma once

#include "serve/load.h"
#include "serve/report.h"

/*
 * load: everything but arrivals, limits and begin. Fails at an order that is none of the above, and when an output
 * differs from the first one of its case.
 */
int sv_orders_run(const struct sv_load *load, const struct sv_report *report, struct sv_why *why);
