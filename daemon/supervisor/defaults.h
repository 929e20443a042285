/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the configuration and the machine to what holds for everybody
 *
 * What the configuration does not say follows from the machine: its memory, and the files that the process may have
 * open. Those built-in limits leave uid 0 as much as all together; what [limits] says holds for uid 0 too.
 */
#pragma once

#include "supervisor/charge.h"
#include "supervisor/config.h"
#include "supervisor/rules.h"

#define DS_CONNECTIONS_MAX 4096u
#define DS_CONNECTIONS_PER_UID 256u

/* root: for uid 0. */
struct ds_defaults {
        struct ds_charge_limits limits;
        struct ds_rights everybody, root;
};

void ds_defaults_init(struct ds_defaults *defaults, const struct ds_config *config);
