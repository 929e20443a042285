/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy that is always there: policies/fifo.c, compiled in under a name of its own
 *
 * It is the same source as the plug-in, so what takes over when a policy fails is what everybody can read and test.
 */
#define DETSHARE_POLICY_SYMBOL ds_plugin_fifo
#include "policies/fifo.c"
