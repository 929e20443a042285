/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the service manager hears of the supervisor's life
 *
 * READY when clients are served, which is when the first worker is; until then, as long as that worker is being
 * started, more time. A line for `systemctl status` at every change of state, and now and then for what changes all the
 * time. The watchdog hears that we live while the loop turns and the worker is watched: a worker that answers, that has
 * still time to answer, or that is being replaced. A worker that hangs is the supervisor's to replace, and no reason to
 * be killed. Without a service manager all this is nothing, and costs nothing.
 */
#pragma once

struct ds_supervisor;

/* From the first start of the worker on; 0 or -errno. */
int ds_announce_start(struct ds_supervisor *supervisor);
/* Later calls do nothing. The loop must turn once more. */
void ds_announce_end(struct ds_supervisor *supervisor);
/* supervisor->state is another one than before. */
void ds_announce_state(struct ds_supervisor *supervisor);
/* The configuration is read again, and the manager is told how that went. Not while the daemon starts or stops. */
void ds_announce_reload(struct ds_supervisor *supervisor);
