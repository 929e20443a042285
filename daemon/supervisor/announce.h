/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State messages to the service manager (sd_notify)
 *
 * READY is sent when the first worker is ready, because only then can clients be served. While that worker starts, the
 * supervisor extends its start timeout. The status line of `systemctl status` is sent at every change of state, and
 * periodically for its counts.
 *
 * The watchdog is fed while the loop runs and the worker is supervised: the worker answers, still has time to answer,
 * or is being replaced. The supervisor itself replaces a worker that hangs, so a hanging worker does not end the
 * daemon. Without a service manager every function here does nothing.
 */
#pragma once

struct ds_supervisor;

/* Announces the start. Called before the first worker is started. Returns 0 or -errno. */
int ds_announce_start(struct ds_supervisor *supervisor);
/* Announces the end and closes the handles, for which the loop must run once more. Idempotent. */
void ds_announce_end(struct ds_supervisor *supervisor);
/* Announces the current state. Called after every change of supervisor->state. */
void ds_announce_state(struct ds_supervisor *supervisor);
/* Rereads the configuration and reports the result to the service manager. Does nothing while the daemon starts or
 * stops. */
void ds_announce_reload(struct ds_supervisor *supervisor);
