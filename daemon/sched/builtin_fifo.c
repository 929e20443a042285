/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built-in policy: policies/fifo.c, compiled in under a name of its own
 *
 * It has the same source as the plug-in, so the replacement of a failed policy can be read and tested like any other.
 */
#define DETSHARE_POLICY_SYMBOL ds_plugin_fifo
#include "policies/fifo.c"
