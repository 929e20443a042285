/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of clients: one row each
 *
 * Name, who may, where it is answered, how many file descriptors come beside it. A test proves that the rows and the
 * schema name the same calls; the limits of repeated fields are rows in unpack.c.
 */
#pragma once

#include <stddef.h>

#include "detshare.pb-c.h"

struct ds_client;

enum ds_right {
        DS_RIGHT_ANY,     /* its own session, or nothing of anybody's */
        DS_RIGHT_ADMIN,   /* uid 0, the daemon's own uid, the admin group */
        DS_RIGHT_HANDLER, /* the handler decides, by what is asked */
        _DS_RIGHT_MAX,
};

enum ds_rpc_flag {
        DS_RPC_BEFORE_HELLO = 1,
        DS_RPC_WINDOW = 2, /* needs a session that is not control_only */
        DS_RPC_WORKER = 4, /* handed to the worker */
        DS_RPC_WORK = 8,   /* puts work on the device: when the worker dies with it, it may or may not have run */
        DS_RPC_FILE = 16,  /* its descriptor may be a file of a disk, too */
};

/* fds: n of them, as the row says; those that are kept are set to -1. */
typedef void (*ds_rpc_handler)(struct ds_client *client, Detshare__Request *request, int *fds);

struct ds_rpc {
        Detshare__Request__CallCase call;
        const char *name; /* of the field in Request */
        enum ds_right right;
        unsigned flags;
        unsigned fds;
        ds_rpc_handler handler; /* NULL: the worker's, without more */
};

/* NULL: no such call. */
const struct ds_rpc *ds_rpc_find(Detshare__Request__CallCase call);
const struct ds_rpc *ds_rpc_at(size_t index); /* NULL past the end */
