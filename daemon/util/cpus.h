/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processors that this process may use
 */
#pragma once

/* Number of processors by the affinity of this thread, at least 1; or the number in DETSHARE_CPUS of the environment, for
 * tests. It decides whether a thread may poll: with few processors it would take one of them from the programs. */
unsigned ds_cpus(void);
