/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explain: the sentence that `detsharectl explain` shows about an LS session
 *
 * It says whether BE runs beside the session's requests, and gives the measured figures that decide it.
 */
#pragma once

#include <stdint.h>

/* As struct detshare_policy.explain. */
void detshare_explain(const void *state, uint64_t session, char *text, uint32_t size);
