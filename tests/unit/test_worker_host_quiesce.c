/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_worker_host.c on a device that some calls stop
 */
#define WT_QUIESCE
#include "test_worker_host.c"
