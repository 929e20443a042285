/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running natively where the daemon cannot serve
 *
 * With DETSHARE_FALLBACK=native in its environment a program that finds no daemon, or that the daemon refuses, runs on
 * the machine's genuine driver instead. What a program has of this library by then are pointers: it looks functions up
 * before it initialises. So everything that this library exports is a jump through a table (gen/generate.py), and here
 * all jumps are turned to the genuine library's functions, once and for good, before cuInit returns.
 */
#pragma once

#include "cuda/api.h"

/* cuInit of the genuine driver, to which all calls go from now on; why: what cuInit says where there is none. */
CUresult dcu_fallback_init(unsigned int flags, CUresult why);
