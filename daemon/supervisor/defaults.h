/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Default limits, from the configuration and the machine
 *
 * A limit that the configuration does not set follows from the machine: its memory, and the number of files that the
 * process may open. The built-in limits allow uid 0 as much as all users together; a limit of [limits] also holds for
 * uid 0.
 */
#pragma once

#include "supervisor/charge.h"
#include "supervisor/config.h"
#include "supervisor/rules.h"

#define DS_CONNECTIONS_MAX 4096u
#define DS_CONNECTIONS_PER_UID 256u

/* Default limits; everybody: rights of all users; root: rights of uid 0. */
struct ds_defaults {
        struct ds_charge_limits limits;
        struct ds_rights everybody, root;
};

void ds_defaults_init(struct ds_defaults *defaults, const struct ds_config *config);
