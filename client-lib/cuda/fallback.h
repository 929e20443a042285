/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running natively without a daemon
 *
 * With DETSHARE_FALLBACK=native, a program that finds no daemon, or that the daemon refuses, runs on the machine's
 * genuine driver. By then the program has pointers to functions of this library, because it looks functions up before
 * it initialises. So every exported function is a jump through a table (gen/generate.py); this code points all jumps to
 * the genuine library, once and for ever, before cuInit returns.
 */
#pragma once

#include "cuda/api.h"

/* Calls cuInit of the genuine driver and redirects all calls to it. why: the result if there is no such driver. */
CUresult dcu_fallback_init(unsigned int flags, CUresult why);
