/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Table of the client requests, one row each
 *
 * A row has the request's name, the right that it needs, where it is answered, and the number of its file descriptors.
 * A test checks that rows and schema name the same calls. The limits of repeated fields are rows in unpack.c.
 */
#pragma once

#include <stddef.h>

#include "detshare.pb-c.h"

struct ds_client;

enum ds_right {
        DS_RIGHT_ANY,     /* any client: the request concerns only its own session, or no session */
        DS_RIGHT_ADMIN,   /* administrators: uid 0, the daemon's own uid, members of the admin group */
        DS_RIGHT_HANDLER, /* the handler checks the right, which depends on the request's content */
        _DS_RIGHT_MAX,
};

enum ds_rpc_flag {
        DS_RPC_BEFORE_HELLO = 1,
        DS_RPC_WINDOW = 2, /* the request needs a session that is not control_only */
        DS_RPC_WORKER = 4, /* the request is forwarded to the worker */
        /* the request starts work on the device: if the worker dies meanwhile, the work may or may not have run */
        DS_RPC_WORK = 8,
        DS_RPC_FILE = 16, /* the request's descriptor may also be a file on disk */
};

/* Handles a request. fds has as many elements as the row says; the handler sets those that it keeps to -1. */
typedef void (*ds_rpc_handler)(struct ds_client *client, Detshare__Request *request, int *fds);

struct ds_rpc {
        Detshare__Request__CallCase call;
        const char *name; /* name of the field in Request */
        enum ds_right right;
        unsigned flags;
        unsigned fds;
        ds_rpc_handler handler; /* NULL: the request is forwarded to the worker directly */
};

/* The row of a call. NULL: there is no such call. */
const struct ds_rpc *ds_rpc_find(Detshare__Request__CallCase call);
const struct ds_rpc *ds_rpc_at(size_t index); /* the row at this index; NULL behind the last row */
